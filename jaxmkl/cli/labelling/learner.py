"""A pipeline that asks for labels at a rate, and says how sure it is."""

import dataclasses
from typing import Any

import jax
import numpy as np

import jaxmkl
from jaxmkl import Learner
from jaxmkl._checks import leaves_by_name
from jaxmkl._types import PyTree
from jaxmkl.cli.labelling.rows import Rows
from jaxmkl.evaluate import UsageError, predicts_log_odds
from jaxmkl.query import Query, Rate
from jaxmkl.tables import Pipeline
from jaxmkl.wrappers import Intervals, OneVsRest, Wrapper, layers

SURE = 0.9  # the share of numbers within the radius that is shown


def asking(pipeline: Pipeline, rows: Rows, rate: float) -> Pipeline:
    """Return the pipeline with a learner that asks at a rate, with probabilities or intervals.

    A learner before its first round learns the labels in the table; a later one is assumed to know
    them.

    Raises:
      UsageError: if the query of the learner cannot be replaced.
    """
    learner, state, inside = pipeline.learner, pipeline.state, [*layers(pipeline.learner)]
    if rate < 1.0 and any(isinstance(layer, OneVsRest) for layer in inside):
        text = "the learner asks for each class separately and cannot keep a rate"
        raise UsageError(f"--learner: {text}; choose another, such as raker")
    if not isinstance(inside[-1], jaxmkl.MKL):
        name = type(inside[-1]).__name__
        raise UsageError(f"--learner: {name} asks in its own way; choose another, such as raker")
    if not rows.target.classes:
        learner, state = _around(jaxmkl.wrappers.intervals(learner, SURE), state)
    elif not predicts_log_odds(learner):
        learner, state = _around(jaxmkl.wrappers.probabilities(learner), state)
    known, number, seen = rows.has_label, pipeline.rows, pipeline.seen
    if known.any() and int(state.round) == 0:
        learner, state = with_query(learner, state, Rate(1.0))
        y, number = rows.y[known], int(known.sum())
        seen = seen.after(rows.target.places(y), len(rows.target.classes))
        state, _ = jaxmkl.run(learner, state, rows.X[known], (y - seen.start).astype(np.float32))
    learner, state = with_query(learner, state, Rate(rate))
    now: dict[str, Any] = {"rows": number, "seen": seen, "source": rows.chunk.source}
    return dataclasses.replace(pipeline, learner=learner, state=state, fills=rows.fills, **now)


def to_be_saved(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline without the intervals of :func:`asking`."""
    if not isinstance(pipeline.learner, Intervals):
        return pipeline
    inside, state = pipeline.learner.learner, pipeline.state.inner
    return dataclasses.replace(pipeline, learner=inside, state=state)


def with_query(learner: Learner, state: PyTree, query: Query) -> tuple[Learner, PyTree]:
    """Replace the query of the learner, which begins anew; the rest of the state stays.

    >>> learner = jaxmkl.label_budget(jaxmkl.raker(), 3)
    >>> state = learner.init(jax.random.key(0), num_inputs=2)
    >>> learner, state = with_query(learner, state, Rate(0.5))
    >>> learner.learner.query, int(state.inner.query.asked)
    (Rate(rate=0.5, epsilon=0.001, by='disagreement'), 0)
    """

    def changed(layer: Learner) -> Learner:
        inside: Any = layer
        if isinstance(layer, Wrapper):
            return dataclasses.replace(inside, learner=changed(inside.learner))
        return dataclasses.replace(inside, query=query)

    learner = changed(learner)
    fresh = learner.init(state.key, learner.num_inputs(state), learner.dtype(state))
    kept = leaves_by_name(state)
    leaves = [kept[k] if ".query." not in k else v for k, v in leaves_by_name(fresh).items()]
    return learner, jax.tree.unflatten(jax.tree.structure(fresh), leaves)


def _around(wrapper: Wrapper, inner: PyTree) -> tuple[Wrapper, PyTree]:
    """Return a wrapper and its state before the first round, around this state."""
    inside = wrapper.learner
    start = wrapper.init(inner.key, inside.num_inputs(inner), inside.dtype(inner))
    return wrapper, start.replace(inner=inner)
