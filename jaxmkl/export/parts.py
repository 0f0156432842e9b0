"""Exporting of our parts: each as an operation of :mod:`jaxmkl.export.predictor`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._blocks import take
from jaxmkl._pytree import require
from jaxmkl._types import PyTree
from jaxmkl.abilities import Operation, exported, gradients, on_fourier, operation
from jaxmkl.aggregate import Hedge, Mixture, Stack, Uniform
from jaxmkl.features import FourierFeatures, LinearFeatures
from jaxmkl.mkl import MKL, MKLState
from jaxmkl.models import FeatureModels, NeighbourModels, TreeModels
from jaxmkl.models.neighbours import ALIKE, NeighbourModelsState
from jaxmkl.models.on_features import FeatureModelsState
from jaxmkl.models.trees import TreeModelsState
from jaxmkl.select import Sampled
from jaxmkl.wrappers import RunningMoments
from jaxmkl.wrappers.intervals import Intervals
from jaxmkl.wrappers.predictive import Predictive
from jaxmkl.wrappers.probabilities import LARGE, SURE, Probabilities, ProbabilitiesState
from jaxmkl.wrappers.scaled import (
    CLIPPED_FROM,
    AllBut,
    RunningMomentsState,
    ScaledInputs,
    ScaledInputsState,
)
from jaxmkl.wrappers.targets import ScaledTargets, ScaledTargetsState
from jaxmkl.wrappers.wrapper import WrapperState

PAIR = np.array([-1.0, 1.0])  # from the value of two classes to one of each


# --- wrappers ------------------------------------------------------------------------------------


@exported.register
def _(learner: ScaledInputs, state: ScaledInputsState) -> Operation:
    return exported(learner.learner, state.inner).after(exported(learner.scaler, state.scaler))


@exported.register
def _(scaler: RunningMoments, state: RunningMomentsState) -> Operation:
    number, of_all, of_last = jax.tree.map(np.asarray, state)
    mean, variance, number = of_all.mean, of_all.variance, number.item() + 1
    clipped = (variance > 0) & (scaler.clip is not None) & (number > CLIPPED_FROM)
    bound = np.where(clipped, (scaler.clip or 1) * np.sqrt(variance), np.inf)
    numbers, moments = np.full_like(mean, number), (mean, variance, *of_all.rests)
    if scaler.clip is not None and number >= CLIPPED_FROM and number & (number - 1) == 0:
        # the next row decides on what is forgotten, but matters little among so many
        spoiled = (variance > scaler.clip**2 * of_last.variance) & (of_last.variance > 0)
        own = of_last.mean, of_last.variance, *of_last.rests
        numbers = np.where(spoiled, number // 2, numbers)
        moments = tuple(np.where(spoiled, *pair) for pair in zip(own, moments, strict=True))
    names = "mean", "variance", "of_mean", "of_variance"
    given: Any = dict(zip(names, moments, strict=True), least=mean - bound, most=mean + bound)
    return operation("standardise", kept=np.zeros(mean.shape, bool), number=numbers, **given)


@exported.register
def _(scaler: AllBut, state: PyTree) -> Operation:
    inside = exported(scaler.scaler, state)
    own: dict[str, Any] = {"kept": True}
    if (limit := scaler.limit) is not None:  # standardised by what leaves them as they are
        own = {"least": -limit, "most": limit, "number": 1e30, "variance": 1}
        own |= dict.fromkeys(("mean", "of_mean", "of_variance"), 0)
    arrays = {name: inside.arrays[name].copy() for name in own}
    for first, end in scaler.ranges:
        for name, value in own.items():
            arrays[name][first:end] = value
    return inside._replace(arrays=inside.arrays | arrays)


@exported.register
def _(learner: ScaledTargets, state: ScaledTargetsState) -> Operation:
    mean, variance = state.moments.of_all[:2]
    own = operation("affine", shift=mean, scale=np.sqrt(variance))
    return own.after(exported(learner.learner, state.inner))


@exported.register
def _(learner: Probabilities, state: ProbabilitiesState) -> Operation:
    require(not learner.passthrough, "export", "passthrough", True, "False")
    own = state.calibration
    K, inside = learner.num_outputs, exported(learner.learner, state.inner)
    signs, half = (PAIR, 0.5) if K is None else (np.zeros(K), 1.0)
    inside = inside if K else operation("affine", shift=np.zeros(2), scale=PAIR).after(inside)
    known: Any = {"weights": own.weights[0], "log_shares": own.log_shares, "signs": signs}
    numbers: Any = {"scale": np.exp(own.log_scale), "half": half, "sure": 1 - SURE, "large": LARGE}
    return operation("calibrate", **known, **numbers).after(inside)


@exported.register
def _(learner: Intervals | Predictive, state: WrapperState) -> Operation:
    """The predictions themselves, which are those of the learner inside."""
    return exported(learner.learner, state.inner)


# --- the composed learner ------------------------------------------------------------------------


@exported.register
def _(learner: MKL, state: MKLState) -> Operation:
    good = not isinstance(learner.select, Sampled) or learner.select.sampled == "update"
    wanted = "a selection that draws no models to be combined"
    require(good, "export", "select", learner.select, wanted)
    banks = zip(learner.models, state.models, strict=True)
    values = tuple(exported(*own, state.round, state.num_inputs) for own in banks)
    active = learner.select.active(state.select)
    active = jnp.ones(learner.num_models, bool) if active is None else active
    K = learner.num_outputs
    own = [state.aggregate] if K is None else [take(state.aggregate, k) for k in range(K)]
    found = [exported(learner.aggregate, one, active) for one in own]
    arrays = {name: np.stack([one.arrays[name] for one in found]) for name in found[0].arrays}
    return Operation(found[0].name, arrays).after(Operation("join", {}, values))


@exported.register
def _(
    bank: FeatureModels, state: FeatureModelsState, round: jax.Array, num_inputs: int
) -> Operation:
    features, P = bank.features, bank.num_kernels
    empty = jnp.zeros((P, features.num_coordinates(num_inputs)))
    rules = zip(bank.rules, state.rules, strict=True)
    weights = [np.asarray(jax.jit(gradients)(*own, round, empty)) for own in rules]  # (K, R, P, M)
    if type(features) is LinearFeatures:
        joined = np.concatenate([w[:, :, 0] for w in weights], axis=1)
        joined /= np.sqrt(np.float32(joined.shape[-1]))
        return operation("linear", weights=joined[..., :-1], constants=joined[..., -1])
    known = type(features) is FourierFeatures
    drawn: Any = bank.kernels.frequencies(state.features) if known else ()
    models = [(w, np.tile(np.arange(P), w.shape[1])) for w in weights]
    return on_fourier([features], [drawn], models)


@exported.register
def _(bank: TreeModels, state: TreeModelsState, round: jax.Array, num_inputs: int) -> Operation:
    plan, (R, _), K = bank.plan, state.of_leaves.shape, len(state.start)
    E, boosts = plan.num_models, np.arange(R)[:, None] >= [*plan.roots, R][plan.num_trees]
    begins = plan.begins[:E]
    return operation(
        "trees",
        links=state.trees.links,
        thresholds=jnp.nan_to_num(state.trees.threshold),  # NaN where there is no split
        roots=plan.roots,
        leaves=plan.bounded(state.of_leaves[:, :K], boosts),
        weights=plan.sums[:E],
        start=np.where(begins.T, np.asarray(state.start)[:, None], 0),
        is_log_odds=begins[:, 0] & plan.logistic,
    )


@exported.register
def _(
    bank: NeighbourModels, state: NeighbourModelsState, round: jax.Array, num_inputs: int
) -> Operation:
    X, y = (np.asarray(own, np.float64) for own in (state.X, state.y))
    predicts = y[:, -1] > 0
    if not predicts.any():  # a label of 0 at the origin
        predicts = np.arange(len(X)) == 0
    X, y = X[predicts], y[predicts, :-1]
    more = 1 + ALIKE * np.finfo(state.X.dtype).eps
    tiny = np.finfo(np.float32).tiny
    apart = operation("apart", more=more, far=2 * X, of=np.sum(X**2, axis=1) + tiny)
    return operation("near", p=num_inputs / 2, y=y).after(apart)


# --- aggregates, of one output -------------------------------------------------------------------


def _mean(least: Any, most: Any, weights: jax.Array) -> Operation:
    """A weighted mean, which is a stack without regressions."""
    none: Any = {"stack": np.zeros((0, len(weights) + 1)), "least_stack": 0.0, "most_stack": 0.0}
    arrays = {"least": least, "most": most, "weights": weights, "shares": np.ones(1)}
    return operation("combine", **arrays, **none)


@exported.register
def _(aggregate: Uniform | Hedge, state: PyTree, active: jax.Array) -> Operation:
    require(aggregate.output != "vote", "export", "output", "vote", "'value'")
    bound = getattr(aggregate, "bound", None)
    bound = np.float32(np.inf if bound is None else bound)
    weights = jax.nn.softmax(aggregate.log_weights(state), where=active)
    return _mean(-bound, bound, weights)


@exported.register
def _(aggregate: Mixture, state: Any, active: jax.Array) -> Operation:
    least, most = state.seen.clip(jnp.array([-jnp.inf, jnp.inf]), 1.0, aggregate.bound)
    return _mean(least, most, _shares(state.regrets, active))


@exported.register
def _(aggregate: Stack, state: Any, active: jax.Array) -> Operation:
    base = exported(aggregate.base, state.base, active)
    wanted = "a mean or a mixture below the stack"
    require(not base.arrays["stack"].size, "export", "aggregate", aggregate.base, wanted)
    # the last labels and errors count as unknown
    of_models = jax.jit(type(state.models).weights)(state.models, aggregate.rule)
    coefficients = of_models[:, 0, : len(active) + 1]
    coefficients = jnp.where(jnp.append(active, True)[None], coefficients, 0)
    ends = state.seen.clip(jnp.array([-jnp.inf, jnp.inf]), 0.1, aggregate.bound)
    shares = _shares(state.regrets, jnp.ones(1 + len(coefficients), bool))
    arrays = {"stack": coefficients, "least_stack": ends[0], "most_stack": ends[1]}
    return operation("combine", **(base.arrays | arrays | {"shares": shares}))


@jax.jit
def _shares(regrets: Any, active: jax.Array) -> jax.Array:
    """The weights of the active items (N,) in a mixture, which is linear in their values."""
    return jax.vmap(lambda values: regrets.mixed(values, active).value)(jnp.eye(len(active)))
