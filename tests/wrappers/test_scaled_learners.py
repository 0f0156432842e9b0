"""Learners that see their inputs through a scaler, inside the same scan."""

import functools

import jax
import numpy as np
import pytest
from uneven_stream import NUM_EXAMPLES, NUM_INPUTS, data

import jaxmkl
from jaxmkl import streaming, wrappers
from jaxmkl._moments import Moments
from jaxmkl.recipes import random_features
from tests.common.marks import long
from tests.common.trees import assert_close, assert_equal, begin, scan

SMALL_PROGRAMS = True


def small(name="raker", **arguments):
    kernels = jaxmkl.Gaussian((0.5, 2.0))
    return getattr(random_features, name)(kernels, num_features=4, **arguments)


def standardized_by_prefix(X):
    """The first row is 0; the others by mean and deviation of all rows up to them."""
    Z = np.zeros_like(X)
    for t in range(1, len(X)):
        Z[t] = (X[t] - X[: t + 1].mean(axis=0)) / X[: t + 1].std(axis=0)
    return Z


def scaled_alone(scaler, state, X):
    """The outputs of a scaler by itself."""

    def body(state, x):
        z, change = scaler.predict(state, x)
        return scaler.update(state, change, True), z

    return jax.jit(lambda state, X: jax.lax.scan(body, state, X))(state, X)


# --- scaled --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_scaled_by_moments_is_the_learner_on_scaled_inputs():
    """In double precision, from the same inner state."""
    X, y = (array.astype(np.float64) for array in data())
    bare = small("amkl")
    learner = wrappers.scaled(bare, wrappers.RunningMoments())
    with jax.enable_x64(True):
        state = learner.init(jax.random.key(0), NUM_INPUTS, np.float64)
        _, expected = scan(bare, state.inner, standardized_by_prefix(X), y)
        end, outputs = scan(learner, state, X, y)
    np.testing.assert_allclose(outputs.prediction, expected.prediction, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(outputs.loss, expected.loss, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(outputs.queried, expected.queried)
    np.testing.assert_allclose(end.scaler.mean, X.mean(axis=0), rtol=1e-12)
    assert int(end.round) == NUM_EXAMPLES


SCALERS = {"moments": wrappers.RunningMoments(), "ranks": wrappers.RunningRanks(capacity=6)}


def whole(scaler):
    """Its state, with what rounding took off the moments added to them again."""

    def added(node):
        if not isinstance(node, Moments):
            return node
        rests = np.asarray(node.rests, np.float64)
        return [np.asarray(node.mean) + rests[0], np.asarray(node.variance) + rests[1]]

    return jax.tree.map(added, scaler, is_leaf=lambda node: isinstance(node, Moments))


@pytest.mark.endless
@pytest.mark.parametrize("name", long(["ranks"], SCALERS))
def test_unusable_rows_leave_the_scaler_untouched(name):
    """Rows of NaN, infinite and huge values, at both ends of blocks and amid."""
    X, y = data()
    X = X.copy()
    bad = np.array([0, 3, 4, 8, 17, 18, 39])
    X[bad, bad % 3] = np.array([np.nan, np.inf, -np.inf, 1e25, np.nan, -1e30, np.nan])
    learner = wrappers.scaled(small(), SCALERS[name])
    state = learner.init(jax.random.key(0), NUM_INPUTS)
    run_it = jax.jit(functools.partial(streaming.run, block_size=9))
    end, outputs = run_it(learner, state, X, y)
    others = X.copy()
    others[bad] = np.nan
    assert_equal(end.scaler, run_it(learner, state, others, y)[0].scaler)
    good = np.setdiff1d(np.arange(NUM_EXAMPLES), bad)
    scaler_end, Z = scaled_alone(SCALERS[name], state.scaler, X[good])
    # two programs, which may fuse a product with a sum or not
    assert_close(whole(end.scaler), whole(scaler_end), tolerance=1e-6)
    assert int(end.scaler.num_seen) == len(good)
    assert int(end.inner.invalid) == len(bad)
    assert int(end.round) == NUM_EXAMPLES
    np.testing.assert_array_equal(np.isnan(outputs.prediction), np.isin(np.arange(40), bad))
    np.testing.assert_array_equal(np.isnan(outputs.loss), np.isin(np.arange(40), bad))
    # no draws are involved in raker: it goes on as if those rows had not been
    _, expected = scan(learner.learner, state.inner, Z, y[good])
    np.testing.assert_allclose(outputs.loss[good], expected.loss, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_bad_label_does_not_hide_its_input_from_the_scaler():
    X, good = data()
    y = good.copy()
    y[[5, 6]] = np.nan
    learner = wrappers.scaled(small(), wrappers.RunningMoments())
    state = learner.init(jax.random.key(0), NUM_INPUTS)
    end, outputs = scan(learner, state, X, y)
    assert_equal(end.scaler, scan(learner, state, X, good)[0].scaler)
    scaler_end, _ = scaled_alone(learner.scaler, state.scaler, X)
    # two programs, which may fuse a product with a sum or not
    assert_close(whole(end.scaler), whole(scaler_end), tolerance=1e-6)
    assert int(end.inner.invalid) == 2
    assert np.isfinite(outputs.prediction).all()
    np.testing.assert_array_equal(np.isnan(outputs.loss), np.isin(np.arange(40), [5, 6]))


@pytest.mark.endless
@pytest.mark.parametrize("row", [0, 400])
def test_one_wild_row_costs_few_mistakes(row):
    """At most a tenth more; believed it costs more than twice as many."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, NUM_INPUTS)).astype(np.float32) * [1, 20, 0.1] + [0, 50, 3]
    y = np.where(X[:, 0] + (X[:, 1] - 50) / 20 > 0, 1, -1)
    wild = X.copy()
    wild[row] = 1e15

    def mistakes(clip, X):
        inner = jaxmkl.raker(jaxmkl.Gaussian((1.0, 3.0)), num_features=10, loss="hinge")
        learner = wrappers.scaled(inner, wrappers.RunningMoments(clip))
        state = learner.init(jax.random.key(0), NUM_INPUTS)
        _, outputs = streaming.run(learner, state, X, y)
        return np.mean(np.asarray(outputs.prediction) * y <= 0)

    assert mistakes(10.0, wild) <= 1.1 * mistakes(10.0, X)
    assert mistakes(None, wild) > 2 * mistakes(None, X)


@pytest.mark.parametrize("learner", ["bare", "scaled"])
def test_one_input_is_not_taken_for_three(learner):
    """It would be spread over all of them."""
    learner = small() if learner == "bare" else wrappers.scaled(small(), wrappers.RunningMoments())
    state = learner.init(jax.random.key(0), NUM_INPUTS)
    for method, arguments in [
        (learner.update, (1.0,)),
        (learner.skip, ()),
        (learner.predict, ()),
        (learner.ask, ()),
    ]:
        with pytest.raises(ValueError, match=r"x must be of shape \(3,\).*got \(1,\)"):
            method(state, np.ones(1), *arguments)


@pytest.mark.endless
def test_blocks_divide_the_period_of_what_is_inside(x64):
    """Also where a wrapper with a period of its own stands around one without."""
    rule = jaxmkl.updates.RLS(0.1, period=24)
    bank = jaxmkl.models.FeatureModels(
        jaxmkl.Gaussian(1.0), rule, jaxmkl.features.FourierFeatures(4)
    )
    inside = jaxmkl.scaled(jaxmkl.MKL(bank), jaxmkl.wrappers.RunningMoments())
    learner = jaxmkl.wrappers.predictive(inside)
    assert (inside.period, learner.period) == (24, 8)  # 32 is that of the densities
    X = np.random.default_rng(0).normal(size=(60, 2))
    assert (inside.fit_block_size(32), learner.fit_block_size(32)) == (24, 8)
    state = begin(learner, dtype=np.dtype("float64"))
    wanted = scan(learner, state, X, X[:, 0])[1].prediction
    found = jaxmkl.run(learner, state, X, X[:, 0])[1].prediction
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
