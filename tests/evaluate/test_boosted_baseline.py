"""The baseline of boosting, against a plain loop that fits scikit-learn's models on past rows."""

import importlib.util

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from jaxmkl.evaluate import Boosted, boosted


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, value in {"FIRST": 60, "MOST_ROWS": 100, "TREES": 3, "OF_CLASSES": 9}.items():
        monkeypatch.setattr(boosted, name, value)


def data(K, rows=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 2)).astype(np.float32)
    y = 100 + X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=rows)
    if K:
        y = np.searchsorted(np.quantile(y, np.arange(1, K) / K), y).astype(float)
    y[rng.random(rows) < 0.2] = np.nan
    return X, y


def by_loop(X, y, K, delay, mean, start):
    """Each row by a fit on rows whose labels are known before it: no row from t - delay on."""
    said, wanted, model = mean.copy(), 60, None
    for t in range(len(y)):
        known = [i for i in range(max(0, t - delay)) if not np.isnan(y[i])]
        if len(known) >= wanted:
            wanted, last = int(np.ceil(1.5 * len(known))), known[-100:]
            make = HistGradientBoostingClassifier if K else HistGradientBoostingRegressor
            model = make(learning_rate=1 / 3, max_iter=3, random_state=0)
            model.fit(X[last], (y[last] - start).astype(np.float32))
        if model is not None:
            said[t] = start + model.predict(X[t : t + 1])[0]
    return said


@pytest.mark.parametrize(("K", "delay"), [(0, 0), (0, 7), (2, 0), (4, 90)])
def test_it_is_fitted_on_past_rows_in_whatever_chunks(K, delay):
    X, y = data(K)
    start, mean = (0.0, np.zeros(300)) if K else (y[~np.isnan(y)][0], np.full(300, 100.0))
    said = by_loop(X, y, K, delay, mean, start)
    assert (said != mean).any()
    known = ~np.isnan(y)
    errors = said[known] != y[known] if K else np.square(said - y)[known]
    found = []
    for sizes in ([300], [64, 1, 0, 99, 136], [1] * 300):
        state = Boosted.begin(2, K, delay)
        for part in np.split(np.arange(300), np.cumsum(sizes)[:-1]):
            state = state.after(X[part], y[part], y[part], mean[part], start)
            if len(sizes) == 5:
                state = state._replace(model=None)  # as a checkpoint has it
        found.append(state.score)
        assert state.is_fitted
        assert state.score.error == pytest.approx(errors.mean(), rel=1e-6)
    for one in found[1:]:
        np.testing.assert_array_equal(one.confusion, found[0].confusion)
        np.testing.assert_allclose(one.curve.sums, found[0].curve.sums, rtol=1e-12)


def test_it_needs_few_inputs_and_scikit_learn(monkeypatch):
    assert Boosted.begin(101, 0, 0) is Boosted.begin(2, 33, 0) is None
    assert Boosted.begin(2, 0, 0) is not None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert Boosted.begin(2, 0, 0) is None
