"""Feature maps that learn: running whitening, in every round and now and then."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxmkl
from jaxmkl import models, pytree, updates
from jaxmkl._feedback import Feedback
from jaxmkl.features import FeatureMap, FourierFeatures
from jaxmkl.testing import check_learner

SMALL_PROGRAMS = True


class Moments(NamedTuple):
    """Moments of the inputs so far: number, mean (D,), and scatter around it (D, D)."""

    count: jax.Array
    mean: jax.Array
    scatter: jax.Array


@pytree.dataclass
class Whitening(FeatureMap):
    """The inputs, in coordinates where those so far have no correlations, and a constant."""

    ridge: float = pytree.positive(default=1.0)
    sequential = True

    def num_coordinates(self, num_inputs):
        return num_inputs + 1

    def init(self, key, kernels, num_inputs, dtype=None):
        D = num_inputs
        shapes = (), (D,), (D, D)
        return Moments(*(jnp.zeros(shape, dtype) for shape in shapes))

    def encode(self, state, kernels, X, round, keys):
        return X

    def predict(self, state, x):
        ridge = jnp.asarray(self.ridge, x.dtype)
        covariance = (state.scatter + ridge * jnp.eye(len(x), dtype=x.dtype)) / (
            state.count + ridge
        )
        root = jnp.linalg.cholesky(covariance)
        centred = x - state.mean
        z = jax.scipy.linalg.solve_triangular(root, centred, lower=True)
        return jnp.append(z, 1.0)[None] / jnp.sqrt(jnp.asarray(len(x) + 1, x.dtype)), centred

    def update(self, state, x, centred, feedback):
        count = state.count + 1
        mean = state.mean + centred / count
        after = Moments(count, mean, state.scatter + jnp.outer(centred, x - mean))
        return optax.tree.where(feedback.seen, after, state)


class Renewed(NamedTuple):
    """Moments as they are now, and as they stood when a period was over."""

    now: Moments
    used: Moments


@pytree.dataclass
class WhiteningNowAndThen(Whitening):
    """The same map, renewed when a period is over: a block's features are made at once."""

    period: int = pytree.count(default=8)
    sequential = False

    def init(self, key, kernels, num_inputs, dtype=None):
        nothing = super().init(key, kernels, num_inputs, dtype)
        return Renewed(nothing, jax.tree.map(jnp.copy, nothing))

    def encode(self, state, kernels, X, round, keys):
        return X, jax.vmap(lambda x: super(WhiteningNowAndThen, self).predict(state.used, x)[0])(X)

    def predict(self, state, code):
        return code[1], ()

    def update(self, state, code, aux, feedback):
        x = code[0]
        now = super().update(state.now, x, x - state.now.mean, feedback)
        return state._replace(now=now)

    def close(self, state, codes, round):
        full = round % self.period == 0
        return state._replace(used=optax.tree.where(full, state.now, state.used))


def learner(features, *rules, **arguments):
    bank = models.FeatureModels(jaxmkl.Linear(), rules or updates.RLS(0.1, period=8), features)
    return jaxmkl.MKL(bank, jaxmkl.aggregate.Uniform(), **arguments)


LEARNERS = {
    "now and then": lambda: learner(WhiteningNowAndThen()),
    "in every round, of three classes": lambda: learner(
        Whitening(), updates.OGD(0.2, loss="logistic"), updates.RLS(0.1), num_outputs=3
    ),
}


@pytest.mark.endless
@pytest.mark.parametrize("name", LEARNERS)
def test_maps_that_learn_keep_the_contract(name):
    check_learner(LEARNERS[name](), block_sizes=(16,))


def stream(num_examples=48):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(num_examples, 3)) @ rng.normal(size=(3, 3)) + 2.0
    return X, X @ np.array([1.0, -2.0, 0.5]) + 0.1 * rng.normal(size=num_examples)


@pytest.mark.slow
def test_whitening_is_that_of_all_inputs_before(x64):
    X, y = stream()
    made = learner(Whitening(), updates.OGD(0.1))
    state, outputs = jaxmkl.run(made, made.init(jax.random.key(0), 3), X, y, block_size=8)
    theta = np.zeros(4)
    for t in range(len(y)):
        before = X[:t]
        mean = before.mean(axis=0) if t else np.zeros(3)
        scatter = (before - mean).T @ (before - mean)
        root = np.linalg.cholesky((scatter + np.eye(3)) / (t + 1))
        z = np.append(np.linalg.solve(root, X[t] - mean), 1.0) / 2
        np.testing.assert_allclose(outputs.prediction[t], theta @ z, rtol=1e-8, atol=1e-10)
        theta -= 0.2 * (theta @ z - y[t]) * z
    assert int(state.models[0].features.count) == len(y)


def test_blocks_divide_the_period_of_a_map():
    def period_of(features, *rules):
        return learner(features, *rules).period

    assert period_of(WhiteningNowAndThen(period=12), updates.RLS(period=8)) == 4
    assert period_of(WhiteningNowAndThen(period=12), updates.OGD()) == 12
    assert period_of(Whitening(), updates.RLS(period=8)) is None


@pytree.dataclass
class Notes(FourierFeatures):
    """Fourier features that write down what they are told of the last round."""

    num_models: int = pytree.count(default=2)

    def init(self, key, kernels, num_inputs, dtype=None):
        E = self.num_models
        told = {"y": (), "updates": (E,)}
        notes = {name: jnp.zeros(shape, dtype) for name, shape in told.items()}
        return super().init(key, kernels, num_inputs, dtype), notes

    def encode(self, state, kernels, X, round, keys):
        return super().encode(state[0], kernels, X, round, keys)

    def update(self, state, code, aux, feedback):
        told = {name: getattr(feedback, name).astype(code.dtype) for name in state[1]}
        return state[0], optax.tree.where(feedback.present, told, state[1])


def test_maps_are_told_the_label_and_which_models_learn(x64):
    X, y = stream()
    bank = models.FeatureModels(jaxmkl.Gaussian((0.5, 2.0)), updates.OGD(0.1), Notes(4))
    others = models.FeatureModels(jaxmkl.Gaussian((1.0, 3.0, 9.0)), updates.OGD(0.1))
    made = jaxmkl.MKL(
        (others, bank), jaxmkl.aggregate.Hedge(0.1), loss="huber", query=jaxmkl.query.Random(0.6)
    )
    state = made.init(jax.random.key(0), 3)
    step, asked = jax.jit(made.step), 0
    for x, label in zip(X, y, strict=True):
        state, output = step(state, (x, label))
        told = state.models[1].features[1]
        queried = bool(output.queried)
        asked += queried
        y_told = label if queried else 0.0
        np.testing.assert_array_equal(told["y"], y_told)
        np.testing.assert_array_equal(told["updates"], [queried, queried])
    assert 10 < asked < 40


@pytest.mark.slow
def test_metrics_side_by_side_are_features_of_the_inputs_under_each(x64):
    """And each map inside is told of the models on its own features."""
    X, y = stream()
    kernels, rule = jaxmkl.Gaussian((0.5, 2.0)), updates.OGD((0.1, 0.2))
    inside = models.FeatureModels(kernels, rule, Notes(5, num_models=4))
    bank = models.MetricModels(inside, ("full", "diagonal"))
    assert bank.num_models == 8
    rng, own = np.random.default_rng(1), bank.init(jax.random.key(0), 3, float)
    metrics = rng.normal(size=(3, 3)), rng.normal(size=3)
    own = own._replace(metrics=tuple(map(jnp.asarray, metrics)))
    keys = jax.random.split(jax.random.key(0), len(X))
    codes = bank.encode(own, X, jnp.zeros((), jnp.int32), keys)
    for z, inputs, (drawn, _) in zip(
        codes.features, (X @ metrics[0], X * metrics[1]), own.features, strict=True
    ):
        turns = np.einsum("nd,pfd->npf", inputs, drawn / kernels.bandwidth[:, None, None])
        wanted = np.concatenate([np.sin(turns), np.cos(turns)], axis=-1) / np.sqrt(5)
        np.testing.assert_allclose(z, wanted, atol=1e-12)
    assert not np.array_equal(own.features[0][0], own.features[1][0])
    code, yes = jax.tree.map(lambda leaf: leaf[0], codes), jnp.ones((), bool)
    aux = bank.predict(own, code)[1]
    for _ in range(9):
        learn = rng.random((2, 2, 2)) < 0.5  # rates, metrics, kernels
        feedback = Feedback(jnp.asarray(y[0]), jnp.asarray(learn.ravel()), yes, yes)
        for s, told in enumerate(bank.update(own, code, aux, feedback).features):
            np.testing.assert_array_equal(told[1]["updates"], learn[:, s].ravel())
            assert told[1]["y"] == y[0]


def test_a_full_metric_of_very_many_inputs_is_diagonal():
    bank = models.MetricModels(models.FeatureModels(jaxmkl.Gaussian(1.0)), "full")
    state = bank.init(jax.random.key(0), 501, "float32")
    np.testing.assert_allclose(state.metrics[0], np.full(501, 501**-0.5), rtol=1e-6)


def test_metrics_are_of_a_known_shape():
    inside = models.FeatureModels(jaxmkl.Gaussian(1.0))
    with pytest.raises(ValueError, match="shapes must be one or several of 'diagonal', 'full'; g"):
        models.MetricModels(inside, ("full", "full"))
