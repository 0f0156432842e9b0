"""wrappers.probabilities against a loop in NumPy."""

import jax
import numpy as np
import pytest

import jaxmkl
from jaxmkl.wrappers import probabilities
from tests.common.marks import long, quick
from tests.common.trees import begin, scan

SMALL_PROGRAMS = True


def softmax(z):
    return np.exp(z - z.max()) / np.exp(z - z.max()).sum()


class Regression:
    """Logistic regression on what the values say, and on the inputs where they are passed on."""

    def __init__(self, num_rows, num_classes, num_inputs=None):
        self.theta = np.array([0.5, 0.5, 0.0][:num_rows])
        self.H = np.eye(num_rows)
        if num_inputs is not None:
            self.W = np.zeros((num_classes, num_inputs + 1))
            self.A = 2.0 * np.eye(num_inputs + 1)

    def said(self, rows, u):
        return softmax(rows @ self.theta + (0.0 if u is None else self.W @ u))

    def learn(self, rows, u, label):
        p = self.said(rows, u)
        m = p @ rows
        self.H = 0.9995 * self.H + 0.0005 * np.eye(len(self.H))
        self.H += sum(q * np.outer(row - m, row - m) for q, row in zip(p, rows, strict=True))
        self.theta = self.theta - np.linalg.inv(self.H) @ (m - rows[label])
        if u is not None:
            self.A += (1 - p @ p) * np.outer(u, u)
            self.W -= np.outer(p - np.eye(len(p))[label], np.linalg.inv(self.A) @ u)


def by_hand(values, y, two, X=None):
    """Log probabilities (T, K) from values (T, K) and classes (T,); of two classes ±f."""
    log_scale, h, n, said = np.log(2.0), 0.0, 0, []
    M, K = (3 if two else 2), values.shape[1]
    models = [Regression(M, K)] + ([] if X is None else [Regression(M, K, X.shape[1])])
    w, R = np.full(1 + len(models), 1 / (1 + len(models))), len(models)
    for t, (f, label) in enumerate(zip(values, y, strict=True)):
        inputs = [None]
        if X is not None:
            # a row whose label is asked for and is none is refused altogether
            before = X[[s for s in range(t - t % 32) if y[s] is not None]]
            mean, sd = (before.mean(axis=0), before.std(axis=0)) if len(before) else (0.0, 1.0)
            u = np.append(np.clip((X[t] - mean) / sd, -3, 3), 1.0)
            inputs.append(u / np.sqrt(len(u)))
        z = np.exp(log_scale) * f
        share = np.clip((1 + f) / 2, 0.01, 0.99)
        rows = np.stack([4 * np.tanh(z / 4), np.log(share / (1 - share))], axis=1)
        if two:
            rows, z = np.column_stack([rows, [-1.0, 1.0]]) / 2, z / 2
        each = [softmax(z)]
        each += [model.said(rows, u) for model, u in zip(models, inputs, strict=True)]
        said.append(np.log(w @ each))
        if label is None:
            continue
        h += each[0] @ z**2 - (each[0] @ z) ** 2
        log_scale -= np.clip((each[0] @ z - z[label]) / h, -0.5, 0.5) if h > 0 else 0.0
        for model, u in zip(models, inputs, strict=True):
            model.learn(rows, u, label)
        n += 1
        w = w * [p[label] for p in each]
        w = (1 - 1 / (n + 1)) * w / w.sum() + 1 / (1 + R) / (n + 1)
    return np.array(said)


@pytest.mark.parametrize(
    ("num_classes", "passthrough"),
    quick([], [(3, True), (None, False)]) + long([], [(3, False), (None, True)]),
)
def test_oracle(num_classes, passthrough, x64):
    rng = np.random.default_rng(0)
    X = 5 + 3 * rng.normal(size=(80, 2))
    U = (X - 5) / 3
    y = np.digitize(U[:, 0] * U[:, 1] + U[:, 0], (-0.3, 0.3) if num_classes else (0.0,))
    inner = jaxmkl.raker(
        jaxmkl.Gaussian([1.5, 6.0]), num_features=4, loss="hinge", num_classes=num_classes
    )
    learner = probabilities(inner, passthrough=passthrough)
    labels = np.where(np.arange(80) == 20, np.nan, y)  # one is missing
    plain, outputs = (scan(one, begin(one), X, labels)[1] for one in (inner, learner))
    values = np.asarray(plain.prediction)
    if num_classes is None:
        values = np.stack([-values, values], axis=1)
    known = [None if t == 20 else label for t, label in enumerate(y)]
    said = by_hand(values, known, num_classes is None, X if passthrough else None)
    wanted = said if num_classes else said[:, 1] - said[:, 0]
    np.testing.assert_allclose(outputs.prediction, wanted, rtol=1e-9, atol=1e-12)
    losses = -said[np.arange(80), y]
    losses[20] = np.nan
    np.testing.assert_allclose(outputs.loss, losses, rtol=1e-9)
    found = jaxmkl.metrics.log_loss(np.asarray(outputs.prediction), labels, num_classes)
    np.testing.assert_allclose(found, np.nanmean(losses), rtol=1e-9)


@pytest.mark.endless
def test_probabilities_are_kept_by_the_stream():
    """Among all rounds of predicted probability p, a share p is positive."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 1)).astype(np.float32)
    y = rng.random(4000) < 1 / (1 + np.exp(-2 * X[:, 0]))
    learner = probabilities(jaxmkl.raker(jaxmkl.Gaussian([1.0]), num_features=10, loss="hinge"))
    state = learner.init(jax.random.key(0), 1)
    p = np.asarray(jax.nn.sigmoid(jaxmkl.run(learner, state, X, y)[1].prediction))[1000:]
    for low in (0.0, 0.25, 0.5, 0.75):
        rows = (p >= low) & (p < low + 0.25)
        assert rows.sum() > 100
        assert abs(y[1000:][rows].mean() - p[rows].mean()) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("num_classes", long([3], [None, 3]))
def test_one_class_and_wild_values_are_finite(num_classes):
    """A stream of one class, and values of a millionth and of a million."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100, 2)).astype(np.float32)
    for y, size in ((np.ones(100, int), 1.0), (rng.integers(0, 2, 100), 1e6), (X[:, 0] > 0, 1e-6)):
        rule = jaxmkl.updates.OGD(size, loss="hinge")
        bank = jaxmkl.models.FeatureModels(jaxmkl.Linear(), rule, jaxmkl.features.LinearFeatures())
        learner = probabilities(jaxmkl.MKL(bank, task="classification", num_outputs=num_classes))
        start = begin(learner)
        state, outputs = jaxmkl.run(learner, start, X, y)
        assert np.isfinite(outputs.prediction).all()
        assert np.isfinite(outputs.loss).all()
        assert all(np.isfinite(leaf).all() for leaf in state.calibration)
    # values of a millionth tell the classes apart as well as any
    assert np.asarray(outputs.loss)[50:].mean() < 0.9 * np.log(2.0)


def test_learners_of_numbers_are_refused():
    with pytest.raises(ValueError, match=r"learner must be a classifier.*got 'regression'"):
        probabilities(jaxmkl.raker())
