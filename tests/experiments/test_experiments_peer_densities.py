"""Densities of other packages beside ours, against integrals; labels are predicted first."""

import itertools
import types

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from experiment_rows import stand_in

from experiments.bench import peer_densities
from experiments.bench.peer_densities import LEVELS, by_river, densities, of_quantiles
from experiments.evaluate import Stream

SMALL_PROGRAMS = True


def test_quantiles_become_a_density():
    """It integrates to 1, and to the levels up to the quantiles, also where these cross."""
    quantiles = scipy.stats.gumbel_r(3.0, 2.0).ppf(LEVELS)
    crossed = quantiles[[1, 0, 2, 3, 5, 4, 6, 7, 8, 9]]

    def density(y):
        return float(np.exp(of_quantiles(crossed[None], np.array([y]), 1e-3)[0]))

    below = scipy.integrate.quad(density, -np.inf, quantiles[0])[0]
    shares = [scipy.integrate.quad(density, *ends)[0]
              for ends in itertools.pairwise(quantiles)]  # fmt: skip
    above = scipy.integrate.quad(density, quantiles[-1], np.inf)[0]
    np.testing.assert_allclose([below, *shares, above], [0.05, *[0.1] * 9, 0.05], rtol=1e-6)


def test_equal_quantiles_have_a_density():
    found = of_quantiles(np.zeros((1, 10)), np.array([0.0]), 0.5)
    assert found[0] == pytest.approx(np.log(0.1 / 0.5))


@pytest.fixture
def stream(monkeypatch):
    monkeypatch.setattr(peer_densities, "EVERY", 60)
    X = np.random.default_rng(0).normal(size=(150, 2)).astype(np.float32)
    noise = np.random.default_rng(1).normal(size=150)
    y = 100 + 10 * X[:, 0] + noise.astype(np.float32)
    return Stream("made", X, y.astype(np.float32), "regression")


@pytest.fixture
def river(monkeypatch):
    """A stand-in for river, whose model says the last label, two deviations wide."""

    class LastLabel:
        def predict_one(self, x, with_dist):
            assert with_dist
            return types.SimpleNamespace(mu=self.last, sigma=2.0)

        def learn_one(self, x, y):
            self.last = y

    stand_in(monkeypatch, "river")
    stand_in(monkeypatch, "river.linear_model", BayesianLinearRegression=LastLabel)


def test_a_normal_of_river_is_scored_in_units_of_the_target(stream, river):
    y = stream.y.astype(float)
    normal = scipy.stats.norm(y[59:-1], 2 * y[:60].std())
    found = by_river(stream)
    assert found["log_score"] == pytest.approx(normal.logpdf(y[60:]).mean())
    low, high = normal.interval(0.9)
    assert found["coverage"] == ((low <= y[60:]) & (y[60:] <= high)).mean()
    assert found["width"] == pytest.approx((high - low).mean())


@pytest.mark.endless
def test_all_stand_in_one_table(stream, river, monkeypatch):
    monkeypatch.setattr(
        peer_densities, "in_own_process", lambda function, *given: function(*given)
    )
    monkeypatch.setattr(peer_densities, "version", lambda name: "0.1")
    monkeypatch.delitem(peer_densities.MODELS, "expert_mkl")
    others = Stream("classes", stream.X, np.sign(stream.X[:, 0]), "classification")
    short = Stream("short", stream.X[:60], stream.y[:60], "regression")
    rows, notes = densities([others, short, stream])
    assert {row.dataset for row in rows} == {"made"}
    found = {(row.algorithm, row.metric): row.mean for row in rows}
    names = "river Bayesian linear", "scikit-learn boosting of quantiles", "raker"
    metrics = "log_score", "crps", "coverage", "width"
    assert set(found) == {(name, metric) for name in names for metric in metrics}
    # the label's own deviation is 10, and that of its noise 1
    for name in names[1:]:
        assert -4.5 < found[name, "log_score"] < -1.4
        assert 0.5 < found[name, "coverage"] <= 1.0
        assert 0.56 < found[name, "crps"] < 5.6
    assert any("from 61 on" in note for note in notes)
