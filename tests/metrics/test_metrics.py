"""jaxmkl.metrics against tables worked out by hand, plain loops, scikit-learn and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import cohen_kappa_score, confusion_matrix, log_loss, recall_score

from jaxmkl import metrics

SMALL_PROGRAMS = True

quick = settings(max_examples=40, deadline=None)
either = pytest.mark.parametrize("library", [np, jnp])


def by_loop(values):
    """Mean of the values so far that are numbers, round by round."""
    means, kept = [], []
    for value in values:
        if not np.isnan(value):
            kept.append(value)
        means.append(sum(kept) / len(kept) if kept else np.nan)
    return means


# --- errors and mistakes over time ------------------------------------------------------------


@either
def test_running_mse_by_hand(library):
    prediction = library.asarray([[1.0, 3.0, 0.0, 2.0], [0.0, np.nan, 0.0, 0.0]])
    y = library.asarray([1.0, 1.0, 2.0, np.nan])
    result = metrics.running_mse(prediction, y)
    expected = [[0, 2, 8 / 3, 8 / 3], [1, 1, 2.5, 2.5]]
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    assert isinstance(result, jax.Array) == (library is jnp)


@quick
@given(
    table=hnp.arrays(
        np.float64,
        st.tuples(st.just(2), st.integers(1, 3), st.integers(0, 6)),
        elements=st.one_of(st.just(np.nan), st.floats(-1e3, 1e3)),
    )
)
def test_running_mse_against_a_loop(table):
    prediction, y = table
    result = metrics.running_mse(prediction, y)
    expected = [by_loop((p - t) ** 2) for p, t in zip(prediction, y, strict=True)]
    np.testing.assert_allclose(result, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_sums_of_small_dtypes_lose_nothing(dtype):
    values = jnp.tile(jnp.array([100.0, 300.0], dtype), 1000)
    means = metrics.running_mean(values)
    np.testing.assert_allclose(means, np.cumsum(np.float64(values)) / np.arange(1, 2001))
    assert metrics.running_mse(values, jnp.zeros(2000, dtype))[-1] == 50_000


def test_an_error_without_bound_is_not_left_out():
    assert metrics.running_mse([1.0, np.inf, 0.0], [0.0, 0.0, 0.0])[-1] == np.inf


@either
def test_long_streams_lose_no_digits(library):
    T = 1_000_000
    result = metrics.running_mse(library.full(T, 0.1, np.float32), library.zeros(T, np.float32))
    tolerance = 1e-6 if library is np else 1e-5
    np.testing.assert_allclose(
        np.asarray(result)[[0, 999, T - 1]], np.float32(0.1) ** 2, rtol=tolerance
    )


@either
@pytest.mark.parametrize(
    "y",
    [
        [1, -1, 1, -1, 1],
        [1.0, 0.0, 1.0, 0.0, 1.0],
        [True, False, True, False, True],
        ["yes", "no", "yes", "no", "yes"],
    ],
)
def test_mistakes_by_hand(library, y):
    prediction = library.asarray([[0.5, -0.5, 0.0, 0.0, 2.0], [-1.0, np.nan, 1.0, -1.0, -1e-30]])
    if library is jnp and isinstance(y[0], str):
        y = np.array(y)  # JAX has no strings
    result = metrics.running_mistake_rate(prediction, library.asarray(y) if y[0] in (0, 1) else y)
    expected = [[0, 0, 1 / 3, 0.5, 0.4], [1, 1, 0.5, 1 / 3, 0.5]]
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_mistakes_leave_out_missing_labels():
    y = [np.nan, 1.0, 0.0, np.nan]
    result = metrics.running_mistake_rate([1.0, 1.0, 1.0, -1.0], y)
    np.testing.assert_array_equal(result, [np.nan, 0, 0.5, 0.5])


def test_mistakes_with_an_order_for_every_seed():
    prediction = jnp.array([[1.0, 2.0], [1.0, -2.0]])
    y = jnp.array([[1, 0], [0, 1]])
    result = metrics.running_mistake_rate(prediction, y)
    np.testing.assert_array_equal(result, [[0, 0.5], [1, 1]])


def test_metrics_inside_jit():
    rng = np.random.default_rng(0)
    prediction = rng.normal(size=(3, 20)).astype(np.float32)
    y = rng.random(20) < 0.5
    queried = rng.random((3, 20)) < 0.5
    for function, arguments in (
        (metrics.running_mse, (prediction, y)),
        (metrics.running_mistake_rate, (prediction, y)),
        (metrics.label_rate, (queried,)),
        (metrics.running_label_rate, (queried,)),
    ):
        inside = jax.jit(function)(*map(jnp.asarray, arguments))
        np.testing.assert_allclose(inside, function(*arguments), rtol=1e-5)


@either
@pytest.mark.parametrize("metric", [metrics.running_mse, metrics.running_mistake_rate])
@pytest.mark.parametrize(
    ("prediction", "y"), [((3,), (4,)), ((3,), (3, 1)), ((3,), (1,)), ((2, 3), (2,)), ((), ())]
)
def test_shapes_that_do_not_fit(library, metric, prediction, y):
    with pytest.raises(ValueError, match=r"y must have the shape of prediction \(\.\.\., T\) or"):
        metric(library.ones(prediction), library.ones(y))


def test_other_labels_are_refused():
    with pytest.raises(ValueError, match="got the values 1, 2, 3"):
        metrics.running_mistake_rate(np.ones(3), np.array([1, 2, 3]))


# --- labels asked for -------------------------------------------------------------------------


@either
def test_label_rates_by_hand(library):
    queried = library.asarray([[True, True, False, True], [False, False, False, True]])
    np.testing.assert_array_equal(metrics.label_rate(queried), [0.75, 0.25])
    expected = [[1, 1, 2 / 3, 0.75], [0, 0, 0, 0.25]]
    np.testing.assert_allclose(metrics.running_label_rate(queried), expected, rtol=1e-6)


@quick
@given(queried=hnp.arrays(bool, st.tuples(st.integers(1, 3), st.integers(1, 9))))
def test_running_label_rate_ends_at_the_label_rate(queried):
    last = metrics.running_label_rate(queried)[:, -1]
    np.testing.assert_allclose(last, metrics.label_rate(queried), rtol=1e-12)
    np.testing.assert_allclose(last, [np.count_nonzero(q) / len(q) for q in queried])


@pytest.mark.parametrize(
    ("queried", "message"),
    [
        ([], "must hold an example"),
        ([0.5, 1.0], "must be booleans, or 0 and 1; got 0.5"),
        ([np.nan], "must be booleans, or 0 and 1; got nan"),
        (True, "must have the shape"),
    ],
)
def test_label_rate_refuses(queried, message):
    with pytest.raises(ValueError, match=f"label_rate: queried {message}"):
        metrics.label_rate(queried)


@either
def test_kappa_at_the_ends(library):
    """Scores of one class, and of no examples."""
    assert metrics.kappa(library.ones(2), [1, 1]) == 0
    np.testing.assert_array_equal(metrics.recall(library.ones(2), [1, 1]), [np.nan, 1])
    assert np.isnan(metrics.kappa(library.full(2, np.nan), [1, 1]))


# --- classes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("num_classes", [None, 3])
def test_metrics_against_scikit_learn(num_classes):
    rng = np.random.default_rng(0)
    if num_classes is None:
        y, f = rng.choice([-1, 1], size=200), rng.normal(size=200)
        predicted, probability = np.where(f > 0, 1, -1), 1 / (1 + np.exp(-f))
    else:
        y, f = rng.integers(3, size=200), rng.normal(size=(200, 3))
        predicted = f.argmax(axis=1)
        probability = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
    found = metrics.confusion(f, y, num_classes)
    np.testing.assert_array_equal(found, confusion_matrix(y, predicted))
    recalls = recall_score(y, predicted, average=None)
    np.testing.assert_allclose(metrics.recall(f, y, num_classes), recalls)
    np.testing.assert_allclose(metrics.kappa(f, y, num_classes), cohen_kappa_score(y, predicted))
    np.testing.assert_allclose(metrics.log_loss(f, y, num_classes), log_loss(y, probability))
    rate = metrics.running_mistake_rate(f, y, num_classes)[-1]
    np.testing.assert_allclose(rate, np.mean(predicted != y))
    # of JAX arrays, of several runs, with a round that was refused
    both, holed = np.stack([f, -f]), np.where(np.arange(200) == 3, np.nan, y)
    inside = jax.jit(
        lambda f, y: (metrics.confusion(f, y, num_classes), metrics.log_loss(f, y, num_classes))
    )
    counts, losses = inside(both, holed)
    np.testing.assert_array_equal(
        counts[0], confusion_matrix(np.delete(y, 3), np.delete(predicted, 3))
    )
    assert np.isfinite(losses).all()


# --- intervals --------------------------------------------------------------------------------


@pytest.mark.slow
@either
def test_counts_of_long_streams_are_exact(library):
    """Single precision counts ones no further than 2^24."""
    hits = library.ones(2**24 + 2, np.float32)
    assert metrics.confusion(hits, hits).tolist() == [[0, 0], [0, 2**24 + 2]]


@either
def test_width_by_hand(library):
    """With two seeds; unknown ends are left out, an end at infinity is not."""
    lower = library.asarray([[0.0, np.nan, 1.0, 2.0], [0.0, 0.0, -1.0, 5.0]])
    upper = library.asarray([[1.0, 2.0, 1.0, 4.0], [0.5, np.nan, 0.0, np.inf]])
    result = metrics.width(lower, upper)
    np.testing.assert_allclose(result, [1.0, np.inf])
    assert isinstance(result, jax.Array) == (library is jnp)
    np.testing.assert_allclose(metrics.width(lower[0], upper[0]), 1.0)


@either
def test_coverage_by_hand(library):
    """Ends belong to an interval, also at infinity, and what is not known is left out."""
    lower = library.asarray([-np.inf, 0.0, np.nan, 0.0, 0.0, 3.0, 2.0])
    upper = library.asarray([np.inf, 1.0, 1.0, 1.0, np.inf, 4.0, 3.0])
    found = metrics.coverage(lower, upper, [5.0, 2.0, 0.5, np.nan, 3.0, 3.0, 3.0])
    assert found == pytest.approx(4 / 5)


def test_width_refuses():
    text = r"width: upper must have the shape of lower \(\.\.\., T\) or \(T,\); got \(2,\)"
    with pytest.raises(ValueError, match=text):
        metrics.width(np.zeros((2, 3)), np.ones(2))


# --- regret -----------------------------------------------------------------------------------


@either
def test_regret_by_hand(library):
    losses = library.asarray([[1.0, 2.0, 4.0], [0.5, np.nan, 0.25]])
    np.testing.assert_array_equal(metrics.regret(losses, np.array([3.0, 2.5])), [4.5, -1.75])
    totals = library.asarray([[3.0, 2.5], [1.0, 0.25]])
    np.testing.assert_array_equal(metrics.regret(losses, totals), [4.5, 0.5])
    assert metrics.regret(losses[0], totals[0]) == 4.5


@pytest.mark.parametrize("hindsight", [[], [np.nan, 1.0], 2.0])
def test_regret_refuses(hindsight):
    with pytest.raises(ValueError, match="regret: hindsight must be finite totals"):
        metrics.regret([1.0], hindsight)


def test_regret_is_traced():
    losses, totals = jnp.array([[1.0, 2.0, np.nan], [0.5, 1.0, 0.25]]), jnp.array([3.0, 2.5])
    traced = jax.jit(jax.vmap(metrics.regret, in_axes=(0, None)))(losses, totals)
    np.testing.assert_array_equal(traced, [0.5, -0.75])
    slope = jax.grad(lambda losses: metrics.regret(losses, totals)[0])(losses)
    np.testing.assert_array_equal(slope, [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])


# --- one kind of arrays --------------------------------------------------------------------------

P, ROWS = [0.2, 0.6, 0.9], [[0.1, 0.9], [0.7, 0.3], [0.5, 0.5]]
#: Arguments of each metric, lists of which any could be an array.
CALLS = {
    "running_mean": (P,),
    "running_mse": (P, P),
    "running_mistake_rate": (P, [1, 0, 1]),
    "confusion": (P, [1, 0, 1]),
    "recall": (P, [1, 0, 1]),
    "kappa": (P, [1, 0, 1]),
    "label_rate": ([1, 0, 1],),
    "running_label_rate": ([1, 0, 1],),
    "regret": (P, P),
    "coverage": (P, P, P),
    "width": (P, P),
    "crps_normal": (P, P, P),
    "crps_student": (P, P, [3.0, 4.0, 5.0], P),
    "crps_quantiles": (ROWS, [0.2, 0.8], P),
    "pit_histogram": (P,),
    "brier": (P, [1, 0, 1]),
    "running_brier": (P, [1, 0, 1]),
    "log_loss": (P, [1, 0, 1]),
    "running_log_loss": (P, [1, 0, 1]),
    "reliability": (P, [1, 0, 1]),
    "expected_calibration_error": (P, [1, 0, 1]),
}


@pytest.mark.parametrize("name", CALLS)
def test_one_array_of_jax_makes_all_so(name):
    assert {*CALLS, "Reliability"} == {*metrics.__all__}
    function, given = getattr(metrics, name), CALLS[name]
    of_lists = function(*given)
    assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(of_lists))
    for place, one in enumerate(given):
        for made in (jnp.asarray(one), [jnp.asarray(each) for each in one]):
            found = function(*given[:place], made, *given[place + 1 :])
            assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(found))
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, of_lists)


def test_labels_in_a_list_of_tracers_are_told_how_to_be_stacked():
    with pytest.raises(ValueError, match=r"must be an array inside a trace.*stack"):
        jax.jit(lambda y: metrics.running_mistake_rate(y, [*y]))(jnp.ones(2))


@pytest.mark.parametrize("bad", [[1j], np.array([1j]), ["a"], [b"1"], np.array([1], "m8[s]")])
def test_values_that_are_no_real_numbers_are_refused(bad):
    for name, of in {
        "values": metrics.running_mean,
        "queried": metrics.label_rate,
        "prediction": lambda a: metrics.running_mse(a, [1.0]),
        "y": lambda a: metrics.running_mse([1.0], a),
        "upper": lambda a: metrics.coverage([1.0], a, [1.0]),
        "log_odds": lambda a: metrics.log_loss(a, [1], num_classes=2),
    }.items():
        with pytest.raises(ValueError, match=f"^{name} must hold real numbers; got dtype"):
            of(bad)
    for missing in (
        [None, 1.0],
        pd.Series([None, 1], dtype="Int64"),
        np.array([np.nan, 1], object),
    ):
        np.testing.assert_array_equal(metrics.running_mean(missing), [np.nan, 1.0])
