"""Merging the states of shards of a stream that were learned separately."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._algorithm import COUNTERS
from jaxmkl._checks import check_state, leaves_by_name
from jaxmkl._devices import local
from jaxmkl._learner import require_learner
from jaxmkl._shards import added, shard
from jaxmkl._types import PyTree
from jaxmkl.mkl import MKL, MKLState
from jaxmkl.models.renewals import renew
from jaxmkl.streaming.examples import check_states, is_traced

__all__ = ["merge"]


def merge(learner: MKL, states: PyTree, *, start: MKLState | None = None) -> MKLState:
    """Merge the states of several shards into one: least squares on all that they learned.

    Recursive least squares keep Σ z z' and Σ z y, which add up; so models of shards that were
    learned separately become, to rounding, those of a single pass over all shards. With S_s and
    θ_s the state of shard s, and S_0 and θ_0 the state that all began with,

        A = A_0 + Σ_s (A_s - A_0),    b = b_0 + Σ_s (b_s - b_0),    A_s = S_s⁻¹,  b_s = A_s θ_s
        S = A⁻¹,                      θ = S b

    The other parts of a state are merged as follows:

    - Rounds and counters add up. The key is that of the first state, and the bound on labels is
      the largest of the shards.
    - Log-weights of Hedge add up, as the losses behind them do; those are losses of models that
      knew one shard only, so weights differ from those of one pass. Uniform weights stay.
    - The noise of labels is the mean of the shards', weighted by their labels.
    - Memories become one, a uniform sample of all shards' examples. From it learned metrics and
      all models under them, and forests, are learned anew, as they are in some rounds of a stream;
      models of fixed kernels beside them (:class:`jaxmkl.models.SideBySide`) add up as above.
    - A query and a selection must have no state of their own.

    Other models are on features that do not grow, and learn by :class:`jaxmkl.updates.RLS` without
    forgetting; the aggregate is :class:`jaxmkl.aggregate.Uniform`,
    :class:`jaxmkl.aggregate.Hedge` or :class:`jaxmkl.aggregate.DrawOne`. In float32 the inverses
    of badly conditioned covariances lose digits; use float64 if θ must be exact.

    Args:
      learner: a composed learner, as above.
      states: the states of the shards, all leaves with a leading axis S, as
        :func:`jaxmkl.run_fleet` returns them. All must have the same features, so start from one
        ``learner.init``, stacked by ``jax.tree.map(lambda leaf: jnp.stack([leaf] * S), state)``.
        If they lie on devices of several processes, all of these must call this function.
      start: the state that all shards began with, if it had learned already; by default one of
        ``learner.init``. Without it, what it had learned would count S times. Where there is a
        memory it must not have learned, as its examples lie in that of every shard.

    Returns:
      One state of the learner.

    Raises:
      ValueError: if the states of a part cannot be added, which the message names; if states
        belong to another learner or to different features; if the start has seen more rounds than
        a shard; if rounding has left a covariance without an inverse.

    >>> import jaxmkl, numpy as np
    >>> features, rule = jaxmkl.features.FourierFeatures(10), jaxmkl.updates.RLS(0.1)
    >>> bank = jaxmkl.models.FeatureModels(jaxmkl.Gaussian(1.0), rule, features)
    >>> learner = jaxmkl.MKL(bank)
    >>> state = learner.init(jax.random.key(0), num_inputs=3)
    >>> def alike(state):
    ...     return jax.tree.map(lambda leaf: jax.numpy.stack([leaf] * 8), state)
    >>> X = np.random.default_rng(0).normal(size=(8, 100, 3))
    >>> shards, _ = jaxmkl.run_fleet(learner, jax.jit(alike)(state), X, X[..., 0])
    >>> int(merge(learner, shards).round)
    800
    """
    require_learner("merge", learner)
    wanted = "composed (jaxmkl.MKL) of models by least squares, whose information adds up"
    pytree.require(isinstance(learner, MKL), "merge", "learner", learner, wanted)
    traced = is_traced(learner, states, start)
    pytree.require(not traced, "merge", "states", "tracers", "arrays, outside of jit")
    check_states("merge", learner, states)
    if start is not None:
        check_state(learner, start)
    for name in ("query", "select"):
        good = not jax.tree.leaves(getattr(states, name))
        wanted = "one without a state of its own, which cannot be added"
        pytree.require(good, "merge", f"learner.{name}", getattr(learner, name), wanted)
    states, start = jax.tree.map(local, (states, start))
    if start is not None:
        rounds, begun = int(jnp.min(states.round)), int(start.round)
        wanted = f"the state that all shards began with: one has seen {rounds} rounds"
        pytree.require(begun <= rounds, "merge", "start", f"a state after {begun}", wanted)
    began = (None,) * len(learner.models) if start is None else start.models
    banks = zip(learner.models, states.models, began, strict=True)
    memory: Any = None
    models = []
    if learner.memory is not None:
        memory = learner.memory.merged(states.memory, getattr(start, "memory", None))
    for i, (bank, own, begun) in enumerate(banks):
        if bank.first is None:
            models.append(abilities.merged(bank, own, begun))
        else:
            # what is learned anew begins as in the shard that has seen the most examples
            own = _beginning_with(own, jnp.argmax(states.memory.num_examples))
            some_stay = abilities.can(abilities.merged, bank)
            own = abilities.merged(bank, own, begun) if some_stay else shard(own, 0)
            given = learner.memory, memory, memory.num_examples, i
            models.append(renew(bank, own, *given, merged=True))
    aggregate = abilities.merged(
        learner.aggregate, states.aggregate, getattr(start, "aggregate", None)
    )
    own = _rest(states, start) | {"memory": memory}
    merged = shard(states, 0).replace(models=tuple(models), aggregate=aggregate, **own)
    for name, leaf in leaves_by_name(merged.models).items():
        good = not jnp.issubdtype(leaf.dtype, jnp.floating) or bool(np.isfinite(leaf).all())
        wanted = "finite: rounding has left a covariance without an inverse; take float64"
        pytree.require(good, "merge", f"models{name.removeprefix('state')}", "NaN", wanted)
    return merged


@jax.jit
def _beginning_with(states: PyTree, number: jax.Array) -> PyTree:
    """States of shards, of which one comes first and the others after it in turn."""
    return jax.tree.map(lambda leaf: jnp.roll(leaf, -number, axis=0), states)


@jax.jit
def _rest(states: MKLState, start: MKLState | None) -> dict[str, PyTree]:
    """The merged state besides models and aggregate: counters, the labels' bound and noise."""
    rest: dict[str, PyTree] = {
        n: added(getattr(states, n), getattr(start, n, 0)) for n in COUNTERS
    }
    rest["magnitudes"] = jax.tree.map(lambda leaf: jnp.max(leaf, axis=0), states.magnitudes)
    noise = states.noise
    rest["noise"] = None if noise is None else noise.merged(getattr(start, "noise", None))
    return rest
