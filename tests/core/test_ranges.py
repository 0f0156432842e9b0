"""Numbers without limits for optimisers, and numbers out of their ranges."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxmkl
from jaxmkl import aggregate, features, models, pytree, updates, wrappers
from jaxmkl.pytree import constrain, unconstrain
from tests.common.marks import quick

SMALL_PROGRAMS = True
KERNELS = jaxmkl.Gaussian([0.5, 2.0])
SMALL = {
    "raker": lambda: jaxmkl.raker(KERNELS, num_features=4),
    "least squares": lambda: jaxmkl.MKL(
        models.FeatureModels(
            KERNELS, updates.RLS(0.5, 0.99, period=4), features.FourierFeatures(2)
        ),
        aggregate.Hedge(0.5),
    ),
    # with a step far too small: derivatives do not see which examples are drawn
    "spa": lambda: jaxmkl.spa(KERNELS, step_size=0.01, capacity=64),
}


@pytree.dataclass
class Outside(updates.Update):
    """A rule from outside, with one number of each kind."""

    rate: Any = pytree.positive(default=(0.1, 10.0), ndim=1)
    penalty: Any = pytree.nonnegative(default=0.5)
    part: Any = pytree.share(default=0.25)
    above_one: Any = pytree.number(default=3.0, minimum=1.0, exclusive=True)
    below_three: Any = pytree.number(default=1.0, maximum=3.0)
    between: Any = pytree.number(default=0.0, minimum=-1.0, maximum=3.0)
    any_number: Any = pytree.number(default=-2.0)
    skips: Any = pytree.nonnegative(default=3.0, discrete=True)
    undeclared: Any = 7.0
    name: str = pytree.choice("a", "b", default="a")
    several: Any = ()

    def step(self, f, y, norm):
        return updates.Step(self.rate * (y - f))


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-14, atol=0)


# --- the maps ------------------------------------------------------------------------------------


def test_logarithms_and_logits(x64):
    inner = {"kernel": jaxmkl.Gaussian([2.0, 4.0])}
    free = unconstrain(Outside(several=(inner, None, 5.0)))
    assert isinstance(free, Outside)
    close(free.rate, np.log([0.1, 10.0]))
    close(free.penalty, np.log(0.5))
    close(free.part, np.log(0.25 / 0.75))
    close(free.above_one, np.log(2.0))
    close(free.below_three, -np.log(2.0))
    close(free.between, np.log(1.0 / 3.0))
    close(free.several[0]["kernel"].bandwidth, np.log([2.0, 4.0]))
    kept = free.any_number, free.skips, free.undeclared, free.name, free.several[1:]
    assert kept == (-2.0, 3.0, 7.0, "a", (None, 5.0))


def test_back_again(x64):
    """Banks of all kinds, learners of their own kind, wrappers and classes from outside."""
    names = "amkl_aks", "spa", "projectron", "oks_sil", "oks", "multitask"
    learners = [jaxmkl.LEARNERS[name]() for name in names]
    inner = jaxmkl.scaled(jaxmkl.expert_mkl(num_outputs=2), wrappers.RunningMoments(5.0))
    learners.append(jaxmkl.label_budget(wrappers.intervals(inner), 12345))
    learners.append(wrappers.one_vs_rest(jaxmkl.bpas(query=jaxmkl.query.Rate(0.2)), 3))
    value = (*learners, Outside())
    again = jax.jit(lambda value: constrain(unconstrain(value)))(value)
    assert jax.tree.structure(again) == jax.tree.structure(value)
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(value), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=0)
    assert float(again[-3].budget) == 12345.0


def test_derivatives(x64):
    """dx/du is x - a of what has a limit below, and (x - a) (b - x) / (b - a) of two limits."""

    @jax.jit
    def slopes(free):
        return jax.grad(lambda u: sum(jnp.sum(x) for x in jax.tree.leaves(constrain(u))))(free)

    slope = slopes(unconstrain(Outside()))
    close(slope.rate, [0.1, 10.0])
    close(slope.part, 0.25 * 0.75)
    close(slope.above_one, 2.0)
    close(slope.below_three, 2.0)
    close(slope.between, 1.0 * 3.0 / 4.0)
    close(slope.any_number, 1.0)


@pytest.mark.slow
def test_what_is_at_its_limit_stays_there():
    """Exactly, whatever the derivative of the loss there."""
    rule = Outside(penalty=0.0, part=1.0, rate=[1.0, 2.0])
    free = unconstrain(rule)
    assert (float(free.penalty), float(free.part)) == (-np.inf, np.inf)

    def loss(free):
        rule = constrain(free)
        return jnp.sqrt(rule.penalty) + jnp.sqrt(1.0 - rule.part) + jnp.sum(rule.rate)

    slope = jax.jit(jax.grad(loss))(free)
    assert (float(slope.penalty), float(slope.part)) == (0.0, 0.0)
    optimizer = optax.adam(0.5)
    change, _ = optimizer.update(slope, optimizer.init(free))
    after = constrain(optax.apply_updates(free, change))
    assert (float(after.penalty), float(after.part)) == (0.0, 1.0)
    assert (after.rate < jnp.array([1.0, 2.0])).all()


def test_many_side_by_side():
    """Stacked learners, some at a limit and some not."""
    penalties = jnp.array([0.0, 0.5, 2.0])
    back = jax.jit(jax.vmap(lambda p: constrain(unconstrain(updates.OGD(0.25, p)))))(penalties)
    np.testing.assert_allclose(back.regularization, penalties, rtol=1e-6)
    np.testing.assert_allclose(back.step_sizes, [0.25] * 3, rtol=1e-6)


# --- an optimiser on a learner -------------------------------------------------------------------


def stream(learner, T=60):
    draws = np.random.default_rng(0)
    X = draws.normal(size=(T, 2)).astype(np.float32)
    y = np.sin(2 * X[:, 0]).astype(np.float32)
    return X, ((y > 0).astype(int) if learner.task == "classification" else y)


@pytest.mark.endless
@pytest.mark.parametrize("name", SMALL)
def test_adam_on_all_numbers_of_a_learner(name):
    learner = SMALL[name]()
    X, y = stream(learner)
    optimizer = optax.adam(0.05)

    def loss(free):
        learner = constrain(free)
        state, outputs = jaxmkl.run(learner, learner.init(jax.random.key(1), 2), X, y)
        return outputs.loss.mean(), state.nonfinite

    @jax.jit
    def step(free, memory):
        found, slope = jax.value_and_grad(loss, has_aux=True)(free)
        change, memory = optimizer.update(slope, memory)
        return optax.apply_updates(free, change), memory, found

    free = unconstrain(learner)
    memory, losses = optimizer.init(free), []
    for _ in range(50):
        free, memory, (value, nonfinite) = step(free, memory)
        losses.append(float(value))
        assert int(nonfinite) == 0
    assert losses[-1] < (0.95 if name == "spa" else 0.8) * losses[0]
    tuned = constrain(free)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tuned))
    # the drivers refuse what is out of range
    jaxmkl.run(tuned, tuned.init(jax.random.key(1), 2), X, y)


# --- out of range --------------------------------------------------------------------------------


def with_number(learner, number, name="step_sizes"):
    """The learner with another number of this name, as no person can make it."""

    def changed(path, leaf):
        return number if path[-1].name == name else leaf

    return jax.tree.map_with_path(changed, learner)


@functools.partial(jax.jit, static_argnames="driver")
def nonfinite_after(learner, driver):
    X, y = stream(learner, 7)
    state = learner.init(jax.random.key(0), num_inputs=2)
    if driver == "run":
        return jaxmkl.run(learner, state, X, y, block_size=4)[0].nonfinite
    if driver == "late run":
        return jaxmkl.run(learner, state, X, y, block_size=4, delay=2)[0].nonfinite
    if driver == "scan":
        return jax.lax.scan(learner.step, state, (X, y))[0].nonfinite
    return learner.skip(learner.update(state, X[0], y[0]), X[1]).nonfinite


ROUNDS = {"run": 7, "late run": 7, "scan": 7, "update": 2}


@pytest.mark.parametrize("driver", quick(["run", "update"], ROUNDS))
def test_numbers_out_of_range_are_counted_in_a_trace(driver):
    """In the lanes that have them, and in no others."""
    learner = SMALL["raker"]()
    steps = jnp.array([0.01, -0.001, jnp.nan, jnp.inf, 0.0])

    def nonfinite_with(step_size):
        return nonfinite_after(with_number(learner, step_size), driver)

    found = jax.vmap(nonfinite_with)(steps)
    rounds = ROUNDS[driver]
    np.testing.assert_array_equal(found, [0, rounds, rounds, rounds, 0])


@pytest.mark.endless
def test_those_of_wrappers_and_of_many_learners_too():
    inner = jaxmkl.raker(KERNELS, num_features=4, loss="logistic")
    budgeted = jaxmkl.label_budget(jaxmkl.scaled(inner, wrappers.RunningMoments(5.0)), 30)
    for learner in (budgeted, wrappers.one_vs_rest(inner, 3)):
        assert int(nonfinite_after(learner, "run")) == 0
        assert int(nonfinite_after(with_number(learner, -0.001), "run")) == 7
    assert int(nonfinite_after(with_number(budgeted, 0.5, "clip"), "run")) == 7


def test_outside_of_a_trace_they_are_refused(tmp_path):
    learner = with_number(SMALL["raker"](), -0.5)
    (X, y), keys = stream(learner), jax.random.split(jax.random.key(0), 2)
    wanted = r"OGD: step_sizes must be a finite number of at least 0 or several; got -0\.5"
    state = learner.init(keys[0], 2)
    for driver in (
        lambda: jaxmkl.run(learner, state, X, y),
        lambda: jaxmkl.run_many(learner, keys, X, y),
        lambda: list(jaxmkl.stream(learner, state, [(X, y)])),
        lambda: jaxmkl.save(tmp_path / "model", learner, state),
    ):
        with pytest.raises(ValueError, match=wanted):
            driver()
    with pytest.raises(ValueError, match="Gaussian: bandwidth must be a positive finite number"):
        jaxmkl.run(unconstrain(SMALL["raker"]()), state, X, y)
