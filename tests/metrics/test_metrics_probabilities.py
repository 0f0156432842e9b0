"""Scores of probabilities and of densities, against scoringrules, integrals and plain loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import scoringrules
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxmkl import metrics
from tests.common.marks import quick

SMALL_PROGRAMS = True

K = 3
either = pytest.mark.parametrize("library", [np, jnp])
two_or_several = pytest.mark.parametrize("num_classes", [None, K])
numbers = st.floats(-1e3, 1e3)


def drawn(num_classes, shape=(2, 60), seed=0):
    """Log-odds, probabilities and labels, some of each NaN."""
    draws = np.random.default_rng(seed)
    if num_classes is None:
        f = 2 * draws.normal(size=shape)
        p, y = 1 / (1 + np.exp(-f)), np.where(draws.random(shape[-1]) < 0.5, 1.0, -1.0)
        f[0, 5] = p[0, 5] = np.nan
    else:
        f = 2 * draws.normal(size=(*shape, num_classes))
        p = np.exp(f) / np.exp(f).sum(axis=-1, keepdims=True)
        y = draws.integers(num_classes, size=shape[-1]).astype(float)
        f[0, 5, 1] = p[0, 5, 1] = np.nan
    y[7] = np.nan
    return f, p, y


def rounds(p, y, num_classes):
    """For one run and each round that counts: probabilities by class, and the class."""
    for values, label in zip(p, y, strict=True):
        if num_classes is None:
            values, label = np.array([1 - values, values]), (label + 1) / 2
        if not np.isnan(values.sum() + label):
            yield values, int(label)


# --- means so far ------------------------------------------------------------------------------


@either
def test_means_so_far_by_hand(library):
    values = library.asarray([[np.nan, 1.0, np.nan, 3.0], [2.0, np.inf, 0.0, np.nan]])
    result = metrics.running_mean(values)
    np.testing.assert_array_equal(result, [[np.nan, 1, 1, 2], [2, np.inf, np.inf, np.inf]])
    assert isinstance(result, jax.Array) == (library is jnp)
    with pytest.raises(ValueError, match="values must have the shape"):
        metrics.running_mean(1.0)


@two_or_several
@pytest.mark.parametrize(
    ("running", "total"),
    [(metrics.running_log_loss, metrics.log_loss), (metrics.running_brier, metrics.brier)],
)
def test_running_scores_end_at_the_mean(running, total, num_classes):
    f, p, y = drawn(num_classes)
    given = f if total is metrics.log_loss else p
    found = running(given, y, num_classes)
    for t in (1, 20, 60):
        np.testing.assert_allclose(
            found[:, t - 1], total(given[:, :t], y[:t], num_classes), rtol=1e-12
        )
    nothing = total(given[:, :0], y[:0], num_classes)
    np.testing.assert_array_equal(nothing, [np.nan, np.nan])


# --- probabilities of classes ------------------------------------------------------------------


@two_or_several
def test_scores_of_probabilities_against_a_loop(num_classes):
    f, p, y = drawn(num_classes)
    squares, losses = [], []
    for one in p:
        each = [*rounds(one, y, num_classes)]
        # of two classes the square of one probability counts, of several those of all
        half = 1 if num_classes else 2
        squares.append(np.mean([((v - np.eye(len(v))[k]) ** 2).sum() / half for v, k in each]))
        losses.append(np.mean([-np.log(v[k]) for v, k in each]))
    np.testing.assert_allclose(metrics.brier(p, y, num_classes), squares, rtol=1e-12)
    np.testing.assert_allclose(metrics.log_loss(f, y, num_classes), losses, rtol=1e-12)


@two_or_several
@pytest.mark.parametrize("bins", [1, 4, 15])
def test_reliability_against_a_loop(num_classes, bins):
    _, p, y = drawn(num_classes)
    found = metrics.reliability(p, y, num_classes, bins)
    errors = metrics.expected_calibration_error(p, y, num_classes, bins)
    for run, one in enumerate(p):
        each = [(v.max(), v.argmax() == k) for v, k in rounds(one, y, num_classes)]
        confidence, right = np.array(each).T
        distance = 0.0
        for b in range(bins):
            of_bin = (confidence * bins).astype(int).clip(max=bins - 1) == b
            assert found.counts[run, b] == of_bin.sum()
            means = [a[of_bin].mean() if of_bin.any() else np.nan for a in (confidence, right)]
            of_run = found.confidence[run, b], found.accuracy[run, b]
            np.testing.assert_allclose(of_run, means, rtol=1e-12)
            distance += of_bin.sum() * np.nan_to_num(abs(means[0] - means[1]))
        np.testing.assert_allclose(errors[run], distance / len(each), rtol=1e-12)


@either
def test_a_class_that_is_certain_is_right_or_endlessly_wrong(library):
    log_odds = library.asarray([[np.inf, 1.0, 0.0], [np.inf, 0.0, np.inf]])
    wanted = {(0, 0): [0, np.log(2)], (1, 2): [np.inf, np.log(2)], (0, 1): [0, np.inf]}
    for y, losses in wanted.items():
        found = metrics.running_log_loss(log_odds, y, 3)
        np.testing.assert_allclose(found, np.cumsum(losses) / [1, 2], rtol=1e-6)


@either
def test_a_class_without_probability_takes_no_other_away(library):
    log_odds = library.asarray([[0.0, -np.inf], [0.0, 0.0]])
    assert float(metrics.log_loss(log_odds, [0, 0], 2)) == pytest.approx(np.log(2.0) / 2)
    assert metrics.log_loss(log_odds, [1, 0], 2) == np.inf


def test_reliability_at_the_ends_of_bins():
    """Certainty is in the last bin; at even odds the class is the negative one, as of margins."""
    found = metrics.reliability([1.0, 0.0, 0.5, 0.75], [1, 1, -1, 1], bins=4)
    np.testing.assert_array_equal(found.counts, [0, 0, 1, 3])
    np.testing.assert_array_equal(found.confidence, [np.nan, np.nan, 0.5, 2.75 / 3])
    np.testing.assert_array_equal(found.accuracy, [np.nan, np.nan, 1.0, 2 / 3])
    rows = metrics.reliability([[0.5, 0.5], [0.0, 1.0]], [0, 1], num_classes=2, bins=2)
    np.testing.assert_array_equal(rows.accuracy, [np.nan, 1.0])


@given(
    p=hnp.arrays(float, st.integers(1, 20), elements=st.floats(0, 1)),
    bins=st.integers(1, 20),
    data=st.data(),
)
def test_probabilities_and_two_columns_of_them_say_the_same(p, bins, data):
    y = data.draw(hnp.arrays(bool, p.shape))
    rows = np.stack([1 - p, p], axis=-1)
    np.testing.assert_allclose(metrics.brier(rows, y, 2), 2 * metrics.brier(p, y), atol=1e-12)
    error = metrics.expected_calibration_error(p, y, bins=bins)
    of_rows = metrics.expected_calibration_error(rows, y, 2, bins)
    np.testing.assert_allclose(of_rows, error, atol=1e-12)
    assert 0 <= error <= 1
    found = metrics.reliability(p, y, bins=bins)
    assert found.counts.sum() == len(p)
    # the mean over all is that of the bins
    np.testing.assert_allclose(np.nansum(found.counts * found.accuracy), ((p > 0.5) == y).sum())
    sure = np.nansum(found.counts * found.confidence)
    np.testing.assert_allclose(sure, np.maximum(p, 1 - p).sum())


def test_drawn_labels_are_calibrated():
    draws = np.random.default_rng(0)
    p = draws.random(100_000)
    y = draws.random(len(p)) < p
    assert metrics.expected_calibration_error(p, y) < 0.01
    assert abs(metrics.brier(p, y) - 1 / 6) < 0.01
    assert metrics.expected_calibration_error(p**3, y) > 0.1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([1.5], [1]), "probabilities must lie between 0 and 1"),
        (([[0.5, -0.1]], [1], 2), "probabilities must lie between 0 and 1"),
        (([0.5, 0.5], [1]), "y must have the shape of probabilities"),
        (([0.5, 0.5], [1, 0], 2), r"probabilities must have the shape \(\.\.\., T, 2\)"),
        (([[0.5, 0.5]], [2], 2), "y must be whole numbers from 0 to 1"),
    ],
)
def test_what_is_no_probability_is_refused(arguments, said):
    scores = (metrics.brier, metrics.running_brier, metrics.reliability)
    for metric in (*scores, metrics.expected_calibration_error):
        with pytest.raises(ValueError, match=f"^{metric.__name__}: {said}"):
            metric(*arguments)


@pytest.mark.parametrize("bins", [0, -1, 2.0, True])
def test_bins_are_counted(bins):
    with pytest.raises(ValueError, match="bins must be an integer of at least 1; got"):
        metrics.reliability([0.5], [1], bins=bins)
    with pytest.raises(ValueError, match="pit_histogram: bins must be an integer of at least 1"):
        metrics.pit_histogram([0.5], bins=bins)


# --- densities ---------------------------------------------------------------------------------


@given(table=hnp.arrays(float, (2, 6), elements=numbers), log_scale=st.floats(-5, 5))
def test_continuous_scores_against_scoringrules(table, log_scale):
    (mean, y), scale = table, np.exp(log_scale)
    found = metrics.crps_normal(mean, scale, y)
    np.testing.assert_allclose(found, scoringrules.crps_normal(y, mean, scale), rtol=1e-9)
    for degrees in (1.01, 2.0, 3.5, 99.0, 101.0, 1e4):
        found = metrics.crps_student(mean, scale, degrees, y)
        wanted = scoringrules.crps_t(y, degrees, mean, scale)
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("degrees", [np.inf, 2.5, 4.0])
@pytest.mark.parametrize("y", [-1.0, 0.7, 6.0])
def test_continuous_scores_are_integrals(degrees, y):
    mean, scale = 0.7, 0.5
    law = scipy.stats.t(degrees, mean, scale)
    below = scipy.integrate.quad(lambda x: law.cdf(x) ** 2, -np.inf, y)[0]
    above = scipy.integrate.quad(lambda x: law.sf(x) ** 2, y, np.inf)[0]
    found = metrics.crps_student([mean], scale, degrees, [y])
    np.testing.assert_allclose(found, below + above, rtol=1e-6)
    if degrees == np.inf:
        np.testing.assert_allclose(metrics.crps_normal([mean], scale, [y]), found, rtol=1e-9)


def test_continuous_scores_at_the_ends():
    """A certain prediction has its distance, an endless one or an endless label no bound."""
    mean, y = [0.0, 0.0, np.nan, 0.0, 0.0], [2.0, 0.0, 1.0, np.inf, 1.0]
    deviation = [0.0, 0.0, 1.0, 1.0, np.inf]
    wanted = [2.0, 0.0, np.nan, np.inf, np.inf]
    np.testing.assert_array_equal(metrics.crps_normal(mean, deviation, y), wanted)
    np.testing.assert_array_equal(metrics.crps_student(mean, deviation, 3.0, y), wanted)
    np.testing.assert_allclose(metrics.crps_student([0.0], 1.0, 3.0, [1e200]), 1e200)


def test_single_precision_is_near():
    draws = np.random.default_rng(0)
    mean, y, scale = draws.normal(size=(3, 8, 40)).astype(np.float32)
    degrees = np.float32([1.5, 4.0, 30.0, 99.0, 150.0, 1e3, 1e6, 1e9])[:, None].repeat(40, axis=1)
    arguments = mean, np.abs(scale), degrees, y
    found = jax.jit(metrics.crps_student)(*map(jnp.asarray, arguments))
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, metrics.crps_student(*arguments), rtol=2e-5)


@jax.jit
def slopes_of_student(scale, degrees, y):
    """By the mean and by the scale, at means of 0."""

    def total(mean, scale):
        return metrics.crps_student(mean, scale, degrees, y).sum()

    return jax.grad(total, argnums=(0, 1))(jnp.zeros_like(y), scale)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("degrees", [1.5, 4.0, 150.0, np.inf])
def test_continuous_scores_have_derivatives_where_the_label_is_the_mean(degrees):
    """By the mean it is 1 - 2 F(z), and by the scale the score itself at z = 0."""
    y, scale = np.array([0.0, 1e-9, 0.7, -3.0]), np.full(4, 0.5)
    by_mean, by_scale = slopes_of_student(scale, degrees, y)
    law = scipy.stats.t(degrees, scale=0.5)
    np.testing.assert_allclose(by_mean, 1 - 2 * law.cdf(y), rtol=1e-7, atol=1e-15)
    score = metrics.crps_student(np.zeros(4), scale, degrees, y) / scale
    np.testing.assert_allclose(by_scale[:2], score[:2], rtol=1e-7)


@given(
    values=hnp.arrays(float, (3, 5), elements=numbers), y=hnp.arrays(float, 3, elements=numbers)
)
def test_quantiles_against_scoringrules(values, y):
    values = np.sort(values, axis=-1)
    levels = np.array([0.05, 0.2, 0.5, 0.9, 0.95])
    found = metrics.crps_quantiles(values, levels, y)
    wanted = scoringrules.crps_quantile(y, values, levels)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    # of evenly spaced levels it is the score of a sample
    even = metrics.crps_quantiles(values, (np.arange(5) + 0.5) / 5, y)
    wanted = scoringrules.crps_ensemble(y, values)
    np.testing.assert_allclose(even, wanted, rtol=1e-9, atol=1e-9)


def test_many_quantiles_come_near_the_closed_form():
    levels = (np.arange(999) + 0.5) / 999
    quantiles = scipy.stats.norm.ppf(levels)[None].repeat(3, axis=0)
    y = [-1.0, 0.2, 4.0]
    found = metrics.crps_quantiles(quantiles, levels, y)
    np.testing.assert_allclose(found, metrics.crps_normal(np.zeros(3), 1.0, y), rtol=1e-3)


@either
def test_histogram_by_hand(library):
    pit = library.asarray([[0.0, 0.25, 0.24, 1.0], [np.nan, 0.5, 0.75, np.nan], [np.nan] * 4])
    found = metrics.pit_histogram(pit, bins=4)
    wanted = [[0.5, 0.25, 0, 0.25], [0, 0, 0.5, 0.5], [np.nan] * 4]
    np.testing.assert_array_equal(found, metrics.pit_histogram(pit, bins=np.int64(4)))
    np.testing.assert_array_equal(found, wanted)
    assert isinstance(found, jax.Array) == (library is jnp)


@given(
    pit=hnp.arrays(float, st.integers(1, 30), elements=st.floats(0, 1)),
    bins=st.sampled_from([1, 2, 8, 32]),
)
def test_histogram_against_numpy(pit, bins):
    counts, _ = np.histogram(pit, bins, (0, 1))
    np.testing.assert_allclose(metrics.pit_histogram(pit, bins), counts / len(pit))


@pytest.mark.parametrize(
    ("metric", "arguments", "said"),
    [
        (metrics.crps_normal, ([0.0], -1.0, [0.0]), "deviation must not be negative; got -1.0"),
        (metrics.crps_normal, ([0.0], [1.0, 2.0], [0.0]), "deviation must be a number, or have"),
        (metrics.crps_normal, ([0.0], 1.0, [0.0, 1.0]), "y must have the shape of mean"),
        (metrics.crps_student, ([0.0], -1.0, 3.0, [0.0]), "scale must not be negative"),
        (metrics.crps_student, ([0.0], 1.0, 1.0, [0.0]), "degrees must be above 1"),
        (metrics.crps_student, ([0.0], 1.0, [3.0, 3.0], [0.0]), "degrees must be a number, or"),
        (metrics.crps_quantiles, ([[0.0]], [1.0], [0.0]), "levels must be above 0 and below 1"),
        (metrics.crps_quantiles, ([[0.0]], [0.1, 0.2], [0.0]), "quantiles must have the shape"),
        (metrics.crps_quantiles, ([0.0], [0.5], [0.0]), "quantiles must have the shape"),
        (metrics.crps_quantiles, ([[0.0]], [0.5], [[0.0], [1.0]]), "y must have the shape"),
        (metrics.pit_histogram, ([-0.1],), "pit must lie between 0 and 1"),
        (metrics.pit_histogram, (0.5,), "pit must have the shape"),
    ],
)
def test_what_is_no_density_is_refused(metric, arguments, said):
    with pytest.raises(ValueError, match=f"^{metric.__name__}: {said}"):
        metric(*arguments)


# --- both libraries ----------------------------------------------------------------------------


def cases():
    """Metrics with their arrays, and how many classes they have or None."""
    draws = np.random.default_rng(1)
    mean, deviation = draws.normal(size=(2, 60)), draws.random((2, 60)) + 0.1
    y, quantiles = draws.normal(size=60), np.sort(draws.normal(size=(2, 60, 3)), axis=-1)
    y[3] = mean[1, 8] = np.nan
    y[4], deviation[0, 6], deviation[1, 9] = np.inf, 0.0, np.inf
    degrees, pit = np.full(60, 3.5), draws.random((2, 60))
    yield metrics.running_mean, (mean,), {}
    yield metrics.crps_normal, (mean, deviation, y), {}
    yield metrics.crps_student, (mean, deviation, degrees, y), {}
    yield metrics.crps_quantiles, (quantiles, np.array([0.1, 0.5, 0.9]), y), {}
    yield metrics.pit_histogram, (pit,), {}
    for num_classes in (None, K):
        f, p, y = drawn(num_classes)
        how = {"num_classes": num_classes}
        yield metrics.log_loss, (f, y), how
        yield metrics.running_log_loss, (f, y), how
        yield metrics.brier, (p, y), how
        yield metrics.running_brier, (p, y), how
        yield metrics.reliability, (p, y), how
        yield metrics.expected_calibration_error, (p, y), how


@pytest.mark.slow
def test_all_are_the_same_inside_jit():
    """In one program: of the precision of JAX, of its kind, and with leading axes kept."""
    every = [*cases()]
    singles = jax.tree.map(lambda a: np.float32(a).astype(float), [of for _, of, _ in every])

    @jax.jit
    def inside(arrays):
        made = zip(every, arrays, strict=True)
        return [metric(*of, **how) for (metric, _, how), of in made]

    found = inside(jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), singles))
    for (metric, _, how), of, result in zip(every, singles, found, strict=True):
        pairs = zip(*map(jax.tree.leaves, (result, metric(*of, **how))), strict=True)
        for one, expected in pairs:
            said = metric.__name__
            np.testing.assert_allclose(one, expected, rtol=2e-5, atol=1e-6, err_msg=said)
            assert one.dtype == jnp.float32
            assert expected.dtype == np.float64
            assert one.shape[0] == 2


@pytest.mark.parametrize(
    ("metric", "good", "bad"),
    [
        (lambda p: metrics.brier(p, jnp.array([1.0])), 0.5, 1.5),
        (lambda s: metrics.crps_normal(jnp.zeros(1), s, jnp.ones(1)).sum(), 0.5, -1.5),
    ],
)
def test_values_are_checked_where_derivatives_are_taken(metric, good, bad):
    """Under ``jax.grad`` alone the values are known, though their arrays are tracers."""
    slope = jax.grad(metric)(jnp.array([good]))
    np.testing.assert_allclose(slope, jax.jit(jax.grad(metric))(jnp.array([good])), rtol=1e-6)
    with pytest.raises(ValueError, match=f"got {bad}"):
        jax.grad(metric)(jnp.array([bad]))


@pytest.mark.parametrize(
    ("metric", "predicted"),
    [
        (lambda f, y: metrics.running_mse(f, y)[-1], [[0.3, -0.2, 0.7, 1.5]]),
        (lambda f, y: metrics.log_loss(f, y), [[0.3, -0.2, 0.7, 1.5]]),
        (lambda f, y: metrics.log_loss(f, (y + 1) / 2, 2), [[[0.3, 1.0]] * 4]),
        (lambda p, y: metrics.brier(p, y), [[0.3, 0.2, 0.7, 0.5]]),
        (lambda p, y: metrics.brier(p, (y + 1) / 2, 2), [[[0.3, 0.7]] * 4]),
        (
            lambda f, s, y: jnp.nansum(metrics.crps_normal(f, s, y)),
            [[0.3, -0.2, 0.7, 1.5], [1.0, 0.5, 0.2, 2.0]],
        ),
        (
            lambda f, s, y: jnp.nansum(metrics.crps_student(f, s, 4.0, y)),
            [[0.3, -0.2, 0.7, 1.5], [1.0, 0.5, 0.2, 2.0]],
        ),
        (lambda q, y: jnp.nansum(metrics.crps_quantiles(q, [0.25, 0.75], y)), [[[-0.3, 1.0]] * 4]),
    ],
)
@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_a_label_that_is_missing_has_no_derivative(metric, predicted):
    """The derivatives of the other rows are those without the row."""
    y, arguments = np.array([1.0, -1.0, 1.0, -1.0]), [jnp.asarray(a) for a in predicted]
    missing = jnp.asarray(np.where(np.arange(4) == 1, np.nan, y))
    known = np.array([0, 2, 3])
    slopes = jax.jit(jax.grad(metric, argnums=tuple(range(len(arguments)))))
    found = slopes(*arguments, missing)
    wanted = slopes(*(a[known] for a in arguments), missing[known])
    for one, other in zip(found, wanted, strict=True):
        assert np.abs(other).max() > 0
        np.testing.assert_allclose(one[known], other, rtol=1e-9)
        np.testing.assert_array_equal(one[1], np.zeros_like(one[1]))


@pytest.mark.parametrize("scale", quick([1e-30], [1e-30, 1e-44, 1.0]))
@pytest.mark.parametrize("metric", [metrics.crps_normal, metrics.crps_student])
def test_a_scale_that_is_lost_beside_the_distance(metric, scale):
    """The score is the distance, and has its derivatives, though no square of z is finite."""
    degrees = () if metric is metrics.crps_normal else (4.0,)

    def score(mean, label):
        return metric(mean[None], jnp.float32(scale), *degrees, label[None])[0]

    value, slope = jax.value_and_grad(score)(jnp.float32(0.0), jnp.float32(1e25))
    assert float(value) == pytest.approx(1e25)
    assert float(slope) == -1.0
    small = np.finfo(np.float64).tiny
    np.testing.assert_allclose(metric([0.0], small, *degrees, [1e5]), 1e5)
