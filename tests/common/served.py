"""The command with a stand-in for ``jaxmkl.tables.Session``, of tables that hold numbers alone.

Nothing here is needed once there is that class: ``python -m jaxmkl`` takes the place of this file.
"""

import dataclasses
import sys
from typing import Any, NamedTuple

import numpy as np

import jaxmkl.tables
from jaxmkl.cli import entry
from jaxmkl.tables import load_pipeline, save_pipeline


class Asked(NamedTuple):
    id: object
    prediction: float
    wanted: bool
    probabilities: object = None
    interval: object = None


class Session:
    def __init__(self, pipeline):
        self.pipeline, self.waiting = pipeline, {}

    def _x(self, row):
        return np.array([row[kind.name] or 0.0 for kind in self.pipeline.columns.kinds], "f4")

    def ask(self, rows, ids=None):
        now, ids = self.pipeline, range(len(rows)) if ids is None else ids
        X = [self._x(row) for row in rows]
        self.waiting |= zip(ids, X, strict=True)
        said = now.learner.predict_many(now.state, np.stack(X))
        values = now.seen.start + np.asarray(said.value, float)
        return list(map(Asked, ids, values.tolist(), np.asarray(said.query).tolist()))

    def learn(self, own, label):
        self._learn(self.waiting.pop(own), label)

    def learn_row(self, row, label):
        self._learn(self._x(row), label)

    def _learn(self, x, label):
        now = self.pipeline
        seen = now.seen.after(np.array([label]), 0) if now.seen.is_nothing else now.seen
        state = now.learner.update(now.state, x, np.float32(label - seen.start))
        self.pipeline = dataclasses.replace(now, state=state, seen=seen)

    def forget(self, own):
        del self.waiting[own]

    def save(self, path):
        save_pipeline(path, self.pipeline)

    @classmethod
    def load(cls, path):
        return cls(load_pipeline(path))


if __name__ == "__main__":
    tables: Any = jaxmkl.tables
    if not hasattr(tables, "Session"):
        tables.Session = Session
    sys.argv[0] = "jaxmkl"
    entry()
