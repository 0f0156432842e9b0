"""Parts and learners written outside of the package, as an author would."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import models, pytree, updates
from jaxmkl.testing import check_kernel, check_learner

SMALL_PROGRAMS = True

# --- a kernel, at most 10 lines ------------------------------------------------------------------


@pytree.dataclass
class Matern32(jaxmkl.kernels.Stationary):
    def profile(self, u):
        s = jnp.sqrt(3 * u)
        return (1 + s) * jnp.exp(-s)


# --- an update rule for features and supports, at most 12 ----------------------------------------


@pytree.dataclass
class PlainSteps(updates.Update):
    rate: Any = pytree.positive(default=0.5, ndim=1)
    loss = "squared"

    def step(self, f, y, norm):
        return updates.Step(jnp.asarray(self.rate, f.dtype) * (y - f))


# --- a learner of one's own, at most 40: kernel-weighted mean of the last labels -----------------


@pytree.dataclass
class NeighboursState(jaxmkl.State):
    X: jax.Array
    y: jax.Array
    known: jax.Array


@pytree.dataclass
class Neighbours(jaxmkl.Algorithm):
    """Predicts the mean of the last labels, weighted by how near their inputs are."""

    bandwidth: Any = pytree.positive(default=1.0)
    size: int = pytree.count(default=8)
    query: Any = pytree.part(jaxmkl.query.Query, "a query", default=jaxmkl.query.All())
    loss = "squared"

    def init_own(self, frame, key, num_inputs, dtype):
        X = jnp.zeros((self.size, num_inputs), dtype)
        known = jnp.zeros(self.size, dtype)
        return NeighboursState(**frame, X=X, y=jnp.zeros_like(known), known=known)

    def encode_own(self, state, X, keys):
        return X

    def predict_own(self, state, x):
        b = jnp.asarray(self.bandwidth, x.dtype)
        near = state.known * jnp.exp(-jnp.sum((state.X - x[None]) ** 2, axis=1) / (2 * b**2))
        weights = (near + 1e-9) / jnp.sum(near + 1e-9)
        return jaxmkl.query.Forecast(jnp.sum(weights * state.y), state.y, weights), ()

    def update_own(self, state, x, aux, feedback):
        place = jnp.where(feedback.updates, state.round % self.size, self.size)
        return state.replace(
            X=state.X.at[place].set(x, mode="drop"),
            y=state.y.at[place].set(feedback.y, mode="drop"),
            known=state.known.at[place].set(1.0, mode="drop"),
        )


# -------------------------------------------------------------------------------------------------


@pytest.mark.endless
def test_a_kernel():
    check_kernel(Matern32(0.7))


def test_a_kernel_is_used_everywhere():
    kernel = Matern32([0.3, 1.0])
    assert kernel.gram(jnp.zeros((3, 2))).shape == (2, 3, 3)
    with pytest.raises(ValueError, match="Matern32"):  # it says no spectrum
        models.FeatureModels(kernel, updates.OGD(0.1))


RULE = PlainSteps(0.5)


@pytest.mark.endless
def test_an_update_rule():
    bank = models.SupportModels(Matern32([0.5, 2.0]), RULE)
    check_learner(jaxmkl.MKL(bank), block_sizes=(16,))


@pytest.mark.slow
@pytest.mark.parametrize("bank", [models.FeatureModels, models.SupportModels])
def test_an_update_rule_serves_features_and_supports_alike(bank):
    """At one rate, with the banks' defaults: |z|² is k(x, x), so its steps are of one size."""
    X = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    y = np.sin(2 * X[:, 0])
    learner = jaxmkl.MKL(bank(jaxmkl.Gaussian([0.5, 2.0]), RULE))
    state = learner.init(jax.random.key(0), num_inputs=2)
    losses = jaxmkl.run(learner, state, X, y)[1].loss
    assert losses.max() < 10
    assert losses[-100:].mean() < y.var() / 4


@pytest.mark.parametrize("bank", [models.FeatureModels, models.SupportModels])
def test_rates_without_an_axis_of_their_own_are_refused(bank):
    """With two rates and two kernels each kernel would get a rate."""
    wanted = r"PlainSteps: coefficient of step must be .*num_rates.*got \(1, 2\)"
    with jax.numpy_rank_promotion("allow"), pytest.raises(ValueError, match=wanted):
        bank(jaxmkl.Gaussian([0.5, 2.0]), PlainSteps([0.1, 0.5]))


def test_a_step_that_is_a_plain_coefficient_is_refused():
    @pytree.dataclass
    class Coefficient(PlainSteps):
        def step(self, f, y, norm):
            return super().step(f, y, norm).coefficient

    with pytest.raises(ValueError, match=r"the result of step must be an updates\.Step"):
        models.FeatureModels(jaxmkl.Gaussian(1.0), Coefficient())


@pytest.mark.endless
def test_a_learner():
    check_learner(Neighbours(0.5, query=jaxmkl.query.Disagreement(0.3, 2)))


def test_a_learner_learns():
    X = np.random.default_rng(0).uniform(size=(400, 1)).astype(np.float32)
    learner = Neighbours(0.1, size=32)
    state = learner.init(jax.random.key(0), num_inputs=1)
    state, outputs = jaxmkl.run(learner, state, X, np.sin(6 * X[:, 0]))
    assert outputs.loss[-100:].mean() < 0.05
