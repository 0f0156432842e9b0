"""A learner that asks: at a rate, within a budget, and that tells how sure it is."""

import dataclasses
from typing import Any

import jax
import numpy as np

import jaxmkl
from jaxmkl._checks import leaves_by_name
from jaxmkl.cli.labelling.rows import Rows
from jaxmkl.evaluate import UsageError
from jaxmkl.query import Query, Rate
from jaxmkl.wrappers import (
    Intervals,
    OneVsRest,
    Probabilities,
    Wrapper,
    intervals,
    layers,
    probabilities,
)

SURE = 0.9  # the share of numbers within the distance that is shown


def asking(learner: Any, state: Any, rows: Rows, budget: int, is_pool: bool) -> tuple[Any, Any]:
    """The learner with a budget of labels, and its state.

    Without a pool the budget is spread over the rows by :class:`jaxmkl.query.Rate`. Before its
    first round the learner learns the labels that rows have; later it is taken to know them.

    Raises:
      UsageError: the learner cannot be told which labels to ask for.
    """
    unlabelled = int((~rows.has_label).sum())
    rate = 1.0 if is_pool else max(min(1.0, budget / max(1, unlabelled)), 1e-9)
    inside = list(layers(learner))
    if rate < 1.0 and any(isinstance(one, OneVsRest) for one in inside):
        text = "the learner asks for each class by itself and keeps no rate"
        raise UsageError(f"--learner: {text}; take another, as raker")
    if not isinstance(inside[-1], jaxmkl.MKL):
        name = type(inside[-1]).__name__
        raise UsageError(f"--learner: {name} asks in its own way; take another, as raker")
    if not rows.target.classes:
        learner, state = _around(intervals(learner, SURE), state)
    elif not any(isinstance(one, Probabilities) for one in inside):
        learner, state = _around(probabilities(learner), state)
    if rows.has_label.any() and int(state.round) == 0:
        learner, state = with_query(learner, state, Rate(1.0))
        X, y = rows.X[rows.has_label], rows.y[rows.has_label] - rows.seen.start
        state, _ = jaxmkl.run(learner, state, X, y.astype(np.float32))
    learner, state = with_query(learner, state, Rate(rate))
    if learner.capacity(state) is not None:
        room = int(np.max(learner.num_supports(state))) + unlabelled
        state = learner.enlarged(state, max(room, learner.capacity(state)))
    return _around(jaxmkl.label_budget(learner, budget), state)


def taught(learner: Any, state: Any) -> tuple[Any, Any]:
    """The learner inside :func:`asking`'s, and its state: what a model's file keeps."""
    learner, state = learner.learner, state.inner
    return (learner.learner, state.inner) if isinstance(learner, Intervals) else (learner, state)


def with_query(learner: Any, state: Any, query: Query) -> tuple[Any, Any]:
    """The learner with another query, which begins anew; all else of the state stays.

    >>> learner = jaxmkl.label_budget(jaxmkl.raker(), 3)
    >>> state = learner.init(jax.random.key(0), num_inputs=2)
    >>> learner, state = with_query(learner, state, Rate(0.5))
    >>> learner.learner.query, int(state.inner.query.asked)
    (Rate(rate=0.5, epsilon=0.001), 0)
    """
    changed = _asked_by(learner, query)
    fresh = changed.init(state.key, learner.num_inputs(state), learner.dtype(state))
    begun, kept = leaves_by_name(fresh), leaves_by_name(state)
    leaves = [leaf if ".query." in name else kept[name] for name, leaf in begun.items()]
    return changed, jax.tree.unflatten(jax.tree.structure(fresh), leaves)


def _asked_by(learner: Any, query: Query) -> Any:
    wraps = isinstance(learner, Wrapper)
    changed = {"learner": _asked_by(learner.learner, query)} if wraps else {"query": query}
    return dataclasses.replace(learner, **changed)


def _around(wrapper: Any, inner: Any) -> tuple[Any, Any]:
    """A wrapper and its state before the first round, around this state."""
    inside = wrapper.learner
    key, num_inputs, dtype = inner.key, inside.num_inputs(inner), inside.dtype(inner)
    return wrapper, wrapper.init(key, num_inputs, dtype).replace(inner=inner)
