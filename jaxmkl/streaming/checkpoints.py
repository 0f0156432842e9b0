"""Checkpoints of a stream: written at intervals, with the last two kept to continue from."""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl._checks import warn_outside
from jaxmkl._learner import Learner
from jaxmkl._types import PyTree
from jaxmkl.checkpoint import load_extra, save_beside


class LastTwo:
    """A file that is written at intervals, with the one before it at ``path`` + ``.before``.

    Each file is whole or not there, whenever the process ends, and whatever else writes it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        examples: int | None = None,
        minutes: float | None = None,
    ) -> None:
        self.path, self.before = os.fspath(path), f"{os.path.realpath(path)}.before"
        self._every = None if examples is None else pytree.as_count(self, "examples", examples)
        good = minutes is None or 0 <= minutes < np.inf
        pytree.require(bool(good), self, "minutes", minutes, "a number of at least 0")
        self._minutes = minutes
        self.begin(0)

    def is_due(self, examples: int) -> bool:
        """True if enough examples or minutes have passed; always if there is no such limit."""
        if self._every is None and self._minutes is None:
            return True
        # a count that became too large begins again lower
        by_count = self._every is not None and not (0 <= examples - self.stands_at < self._every)
        minutes = (time.monotonic() - self._at) / 60
        return by_count or (self._minutes is not None and minutes >= self._minutes)

    def write(self, examples: int, save: Callable[[str], None]) -> None:
        """Have ``save`` write the file after ``examples`` examples, and keep the one before."""
        self._at = time.monotonic()  # after a failure, the next try comes later
        save(self.path)
        self.begin(examples)

    def begin(self, examples: int) -> None:
        """Count from here on; the file was written after ``examples`` examples."""
        self.stands_at, self._at = examples, time.monotonic()

    def read(self, load: Callable[[str], PyTree]) -> PyTree:
        """Load the file with ``load``, or else the one before; None if there is neither.

        Raises:
          ValueError: ``load`` refuses both, or the only one.

        Warns:
          RuntimeWarning: ``load`` refuses the file, but not the one before.
        """
        refusal: ValueError | None = None
        for path in filter(os.path.exists, (self.path, self.before)):
            try:
                found = load(path)
            except FileNotFoundError:  # another program has just moved it
                continue
            except ValueError as error:
                refusal = refusal or error
                continue
            if refusal is not None:
                warn_outside(f"{refusal}; going on from the one before it, {path}")
            return found
        if refusal is not None:
            raise refusal
        return None


class Checkpoints(LastTwo):
    """Checkpoints of a learner during a stream, the last two of which are kept.

    Args:
      path: the file of the last checkpoint, usually ``*.npz``; the one before it is beside it,
        with ``.before`` added to the name.
      examples, minutes: the interval between two checkpoints, whichever ends first; with neither,
        every one that is offered is written.

    There is no lock: if two programs write one path, the last to write wins, and each file is
    whole. Give each its own path (``jaxmkl run --checkpoint`` refuses the second program).

    Raises:
      ValueError: if ``examples`` is not a number of at least 1, or ``minutes`` is below 0.

    A program that is killed, started again, and skips the rows that it has seen ends as if nothing
    had happened, bit for bit:

    >>> import jax, jaxmkl, numpy as np, tempfile
    >>> folder, learner = tempfile.TemporaryDirectory(), jaxmkl.raker()
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> def program(rows):
    ...     kept = Checkpoints(f"{folder.name}/raker.npz", examples=200)
    ...     found = kept.latest(like=learner)
    ...     state = learner.init(jax.random.key(0), num_inputs=2) if found is None else found[1]
    ...     seen = int(state.round)
    ...     chunks = ((X[i : i + 100], X[i : i + 100, 0]) for i in range(seen, rows, 100))
    ...     for state, _ in jaxmkl.stream(learner, state, chunks):
    ...         kept.offer(learner, state)
    ...     return seen, int(state.round)
    >>> program(300), program(500)
    ((0, 300), (200, 500))
    >>> folder.cleanup()
    """

    def offer(self, learner: Learner, state: PyTree, *, extra: Any = None) -> bool:
        """Write a checkpoint if one is due, as :func:`jaxmkl.save` does; return whether it was.

        Args:
          learner, state: the present ones; if the state is of many runs, the longest counts.
          extra: a JSON value to be kept beside them: numbers, text, lists and dicts.
        """
        examples = int(np.max(state.round))
        due = self.is_due(examples)
        if due:
            whole = {"learner": learner, "state": state, "extra": extra}
            self.write(examples, partial(save_beside, **whole, keep=True))
        return due

    def latest(self, *, like: Learner | None = None) -> tuple[Learner, PyTree, PyTree] | None:
        """The learner, its state and the ``extra`` of the last checkpoint; None before the first.

        If the last checkpoint is damaged, they come from the one before it.

        Raises:
          ValueError: as :func:`jaxmkl.load`, if both are refused.

        Warns:
          RuntimeWarning: the last one is damaged.
        """
        found = self.read(partial(load_extra, like=like))
        if found is not None:
            self.begin(int(np.max(found[1].round)))
        return found
