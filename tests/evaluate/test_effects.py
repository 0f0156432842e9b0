"""Effects of columns, against loops in NumPy and functions whose effects are known."""

import numpy as np

from jaxmkl.evaluate import effect


def test_an_effect_is_that_of_a_loop():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4)).round(3)

    def predict(X):
        return np.sin(X[:, 1]) * X[:, 2] + X[:, 3] ** 2

    found = effect(predict, X, 1, ["b"], points=5)
    values = np.sort(X[:, 1])[[0, 10, 20, 29, 39]]
    curves = np.array([[np.sin(v) * row[2] + row[3] ** 2 for row in X] for v in values])
    np.testing.assert_allclose(found.at, values)
    np.testing.assert_allclose(found.mean, curves.mean(1))
    moved = curves + (curves.mean() - curves.mean(0))
    np.testing.assert_allclose(found.low, [np.quantile(row, 0.1) for row in moved])
    np.testing.assert_allclose(found.high, [np.quantile(row, 0.9) for row in moved])


def test_what_does_not_matter_has_no_effect_and_no_spread():
    X = np.random.default_rng(1).normal(size=(30, 2))
    found = effect(lambda X: X[:, 0] ** 3, X, 1, ["b"])
    assert np.ptp((found.mean, found.low, found.high)) < 1e-12
    assert effect(lambda X: X[:, 0], np.ones((3, 2)), 0, ["a"]) is None


def test_categories_are_never_mixed():
    X = np.zeros((9, 3))
    X[np.arange(6), 1 + np.arange(6) % 2] = 1
    seen = []

    def predict(X):
        seen.append(X)
        return X @ [7.0, 1.0, 2.0]

    found = effect(predict, X, 1, ["c=x", "c=y"], is_category=True)
    assert found.names == ("c=x", "c=y", "other")
    assert found.mean == (1.0, 2.0, 0.0)
    assert (seen[0][:, 1:].sum(1) <= 1).all()
    assert len(seen) == 1
