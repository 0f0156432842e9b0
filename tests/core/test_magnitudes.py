"""Labels of numbers that are judged by those before them, before they are believed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl._magnitudes import Magnitudes
from tests.common.trees import assert_equal, begin

SMALL_PROGRAMS = True
KERNELS = jaxmkl.Gaussian([0.5, 2.0])


def small():
    return jaxmkl.raker(KERNELS, num_features=5)


def stream(num=80):
    X = np.random.default_rng(0).uniform(-1, 1, (num, 2)).astype(np.float32)
    return X, np.sin(3 * X[:, 0]) + X[:, 1]


def believed(y):
    """Which labels of one output are learned: the rule in plain numbers."""
    largest, bound, learned = 0.0, np.inf, []
    for size in np.abs(y):
        learned.append(size <= bound)
        if size <= bound:
            largest = max(largest, size)
            narrow = 0.95 * bound if bound < np.inf else 1e6 * largest if largest else np.inf
            bound = max(100 * largest, narrow)
        else:
            bound *= 10
    return np.array(learned)


@jax.jit
def judged(y):
    def one(magnitudes, y):
        far = jnp.any(magnitudes.beyond(y))
        return magnitudes.after(y, ~far, far), ~far

    outputs = y.shape[1] if y.ndim == 2 else None
    return jax.lax.scan(one, Magnitudes.none(outputs, y.dtype), y)[1]


def noise(seed=0, num=1000):
    return np.random.default_rng(seed).normal(size=num).astype(np.float32)


def changed(places, value):
    y = noise()
    y[places] = value
    return y


LABELS = {  # and how many of them are refused
    "clean": (noise(), 0),
    "far offset": (noise() + np.float32(1e4), 0),
    "one": (changed(500, 1e12), 1),
    "one in a hundred": (changed(slice(500, None, 100), 1e12), 5),
    "the first": (changed(0, 1e12), 0),
    "level": (changed(slice(500, None), 1e4 + noise()[500:]), 2),
    "half": (changed(slice(500, None, 2), 1e4), 2),
    "zeros first": (changed(slice(None, 100), 0), 0),
    "bursts": (noise() * np.where(np.arange(1000) % 100 < 5, 50, 1).astype(np.float32), 0),
    "growing": (np.logspace(-3, 9, 1000).astype(np.float32), 0),
}


@pytest.mark.parametrize("name", LABELS)
def test_what_is_believed(name):
    y, refused = LABELS[name]
    found = np.asarray(judged(y))
    np.testing.assert_array_equal(found, believed(y.astype(np.float64)))
    assert (~found).sum() == refused
    # in other units it is the same
    np.testing.assert_array_equal(judged(y * np.float32(2.0**-60)), found)


def test_heavy_tails_are_believed_but_for_few():
    y = np.random.default_rng(0).standard_cauchy((1000, 50)).astype(np.float32)
    found = np.asarray(jax.vmap(judged, in_axes=1, out_axes=1)(y))
    assert (~found).sum() <= 10
    np.testing.assert_array_equal(found, np.stack([*map(believed, y.T)], axis=1))


def test_outputs_are_judged_each_by_its_own():
    y = np.stack([noise(0), 1e-9 * noise(1)], axis=1).astype(np.float32)
    assert np.asarray(judged(y)).all()
    y[500, 1] = 1e-3
    np.testing.assert_array_equal(np.flatnonzero(~np.asarray(judged(y))), [500])


@pytest.mark.slow
def test_an_absurd_label_is_as_one_that_is_missing():
    learner, (X, y) = small(), stream()
    start, absurd, missing = begin(learner), y.copy(), y.copy()
    absurd[40], missing[40] = 1e12, np.nan
    with pytest.warns(RuntimeWarning, match=r"^run: 1 label\(s\) were more than a hundred.*clip"):
        state, outputs = jaxmkl.run(learner, start, X, absurd)
    assert (int(state.outlying), int(state.invalid), int(state.nonfinite)) == (1, 1, 0)
    assert outputs.loss[40] > 1e20  # of the label as it is
    ((other, others),) = jaxmkl.stream(learner, start, [(X, missing)], gaps=True)
    np.testing.assert_array_equal(outputs.prediction, others.prediction)
    assert_equal(state.models, other.models)
    error = np.abs(np.asarray(outputs.prediction) - y)
    assert error[41:].mean() < np.abs(y).mean()


@pytest.mark.slow
def test_what_is_known_goes_on_with_the_state():
    learner, (X, y) = small(), stream()
    y[40:44] = 3e7  # the last of them is believed
    assert np.flatnonzero(~believed(y)).tolist() == [40, 41, 42]
    start = begin(learner)
    with pytest.warns(RuntimeWarning, match=r"run: 3 label\(s\)"):
        whole, _ = jaxmkl.run(learner, start, X, y)
    chunks = [(X[a:b], y[a:b]) for a, b in [(0, 41), (41, 43), (43, 80)]]
    with pytest.warns(RuntimeWarning, match=r"stream: [12] label\(s\)") as caught:
        *_, (state, _) = jaxmkl.stream(learner, start, chunks)
    assert len(caught) == 2
    assert_equal(state, whole)


@pytest.mark.endless
def test_drivers_of_many_runs_warn():
    learner, (X, y) = small(), stream()
    y[40] = -1e12
    keys = jax.random.split(jax.random.key(0), 2)
    with pytest.warns(RuntimeWarning, match=r"run_many: 2 label\(s\)"):
        states, _ = jaxmkl.run_many(learner, keys, X, y, permute=False)
    assert states.outlying.tolist() == [1, 1]
    with pytest.warns(RuntimeWarning, match=r"run_fleet: 2 label\(s\)"):
        jaxmkl.run_fleet(
            learner,
            jax.vmap(lambda key: learner.init(key, 2))(keys),
            np.stack([X, X]),
            np.stack([y, y]),
        )


@pytest.mark.slow
def test_scaled_targets_have_nothing_refused():
    """Their own clip is nearer; a label of theirs is never far beyond those before."""
    learner, (X, y) = jaxmkl.wrappers.scaled_targets(small()), stream()
    y[40] = 1e12
    state, _ = jaxmkl.run(learner, begin(learner), X, y)
    assert int(state.outlying) == 0


@pytest.mark.slow
def test_classes_are_all_believed():
    learner, (X, y) = jaxmkl.raker(KERNELS, num_features=5, loss="logistic"), stream()
    state, _ = jaxmkl.run(learner, begin(learner), X, y > 0)
    assert state.magnitudes == ()
    state = jax.jit(learner.update)(state, X[0], 1e30)
    assert (int(state.outlying), int(state.invalid)) == (0, 0)
