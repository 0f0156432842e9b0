"""Scores of probabilities that come chunk by chunk, as of all rows at once."""

import jax
import numpy as np
import pytest

from jaxmkl import metrics
from jaxmkl.evaluate import Certainty


def stream(num_classes):
    draws = np.random.default_rng(0)
    shape = (200,) if num_classes == 2 else (200, num_classes)
    log_odds = draws.normal(size=shape).astype(np.float32) * 2
    log_odds[3], y = np.nan, draws.integers(num_classes, size=200).astype(float)
    y[5] = np.nan
    return log_odds, y


@pytest.mark.parametrize("num_classes", [2, 3])
def test_chunks_are_as_all_rows_at_once(num_classes):
    log_odds, y = stream(num_classes)
    found = Certainty.begin()
    for rows in np.split(np.arange(200), [0, 3, 4, 6, 90]):
        found = found.after(log_odds[rows], y[rows])
    K, f = (None if num_classes == 2 else num_classes), log_odds.astype(float)
    p = np.asarray(jax.nn.sigmoid(log_odds) if K is None else jax.nn.softmax(log_odds))
    labels = 2 * y - 1 if K is None else y
    wanted = {"log_loss": metrics.log_loss(f, labels, K), "brier": metrics.brier(p, labels, K)}
    wanted["calibration_error"] = metrics.expected_calibration_error(p, labels, K)
    assert found.metrics() == pytest.approx(wanted, rel=1e-5)
    for name, values in metrics.reliability(p, labels, K)._asdict().items():
        np.testing.assert_allclose(found.calibration()[name], values, rtol=1e-5)


def test_what_is_not_known_is_left_out():
    begun = Certainty.begin()
    assert all(np.isnan(value) for value in begun.metrics().values())
    unknown = np.array([[np.nan, 0.0], [np.inf, 0.0], [1.0, 2.0]]), np.array([0.0, 1.0, np.nan])
    assert begun.after(*unknown) is begun
    assert begun.after(np.zeros(0), np.zeros(0)) is begun


def test_no_log_odds_are_too_large():
    """Nearly certain and right or wrong, in the tails of what an exponential can hold."""
    far = np.float32([[1e30, 0.0, -1e30], [-800.0, 800.0, 0.0]])
    right = Certainty.begin().after(far, np.array([0.0, 1.0])).metrics()
    assert right == {"log_loss": 0.0, "brier": 0.0, "calibration_error": 0.0}
    wrong = Certainty.begin().after(np.float32([800.0, -800.0]), np.array([0.0, 1.0])).metrics()
    assert wrong == {"log_loss": 800.0, "brier": 1.0, "calibration_error": 1.0}
