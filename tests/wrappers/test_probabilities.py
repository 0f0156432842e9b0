"""wrappers.probabilities against a loop in NumPy."""

import jax
import numpy as np
import pytest
from marks import quick

import jaxmkl
from jaxmkl.wrappers import probabilities

SMALL_PROGRAMS = True


def softmax(z):
    return np.exp(z - z.max()) / np.exp(z - z.max()).sum()


def by_hand(values, y, two):
    """Log probabilities (T, K) from values (T, K) and classes (T,); of two classes ±f."""
    log_scale, h, n, w, said = np.log(2.0), 0.0, 0, np.array([0.5, 0.5]), []
    theta = np.array([0.5, 0.5, 0.0] if two else [0.5, 0.5])
    H = np.eye(len(theta))
    for f, label in zip(values, y, strict=True):
        z = np.exp(log_scale) * f
        share = np.clip((1 + f) / 2, 0.01, 0.99)
        rows = np.stack([4 * np.tanh(z / 4), np.log(share / (1 - share))], axis=1)
        if two:
            rows, z = np.column_stack([rows, [-1.0, 1.0]]) / 2, z / 2
        of_scale, of_both = softmax(z), softmax(rows @ theta)
        said.append(np.log(w @ [of_scale, of_both]))
        if label is None:
            continue
        h += of_scale @ z**2 - (of_scale @ z) ** 2
        log_scale -= np.clip((of_scale @ z - z[label]) / h, -0.5, 0.5) if h > 0 else 0.0
        m = of_both @ rows
        H = 0.9995 * H + 0.0005 * np.eye(len(H))
        H += sum(p * np.outer(row - m, row - m) for p, row in zip(of_both, rows, strict=True))
        theta = theta - np.linalg.inv(H) @ (m - rows[label])
        n += 1
        w = w * [of_scale[label], of_both[label]]
        w = (1 - 1 / (n + 1)) * w / w.sum() + 0.5 / (n + 1)
    return np.array(said)


@pytest.mark.parametrize("num_classes", quick([3], [None, 3]))
def test_oracle(num_classes, x64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.digitize(X[:, 0] * X[:, 1], (-0.3, 0.3) if num_classes else (0.0,))
    inner = jaxmkl.raker(
        jaxmkl.Gaussian([0.5, 2.0]), num_features=4, loss="hinge", num_classes=num_classes
    )
    key, learner = jax.random.key(0), probabilities(inner)
    labels = np.where(np.arange(60) == 20, np.nan, y)  # one is missing

    @jax.jit
    def scan(learner):
        return jax.lax.scan(learner.step, learner.init(key, 2), (X, labels))[1]

    plain, outputs = scan(inner), scan(learner)
    values = np.asarray(plain.prediction)
    if num_classes is None:
        values = np.stack([-values, values], axis=1)
    known = [None if t == 20 else label for t, label in enumerate(y)]
    said = by_hand(values, known, num_classes is None)
    wanted = said if num_classes else said[:, 1] - said[:, 0]
    np.testing.assert_allclose(outputs.prediction, wanted, rtol=1e-9, atol=1e-12)
    losses = -said[np.arange(60), y]
    losses[20] = np.nan
    np.testing.assert_allclose(outputs.loss, losses, rtol=1e-9)
    found = jaxmkl.metrics.log_loss(np.asarray(outputs.prediction), labels, num_classes)
    np.testing.assert_allclose(found, np.nanmean(losses), rtol=1e-9)


@pytest.mark.slow
def test_probabilities_are_kept_by_the_stream():
    """Of all rounds said to be of probability p, a share p is positive."""
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
@pytest.mark.parametrize("num_classes", [None, 3])
def test_one_class_and_wild_values_are_finite(num_classes):
    """A stream of one class, and values of a millionth and of a million."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100, 2)).astype(np.float32)
    for y, size in ((np.ones(100, int), 1.0), (rng.integers(0, 2, 100), 1e6), (X[:, 0] > 0, 1e-6)):
        rule = jaxmkl.updates.OGD(size, loss="hinge")
        bank = jaxmkl.models.FeatureModels(jaxmkl.Linear(), rule, jaxmkl.features.LinearFeatures())
        learner = probabilities(jaxmkl.MKL(bank, task="classification", num_outputs=num_classes))
        start = jax.jit(learner.init, static_argnums=1)(jax.random.key(0), 2)
        state, outputs = jaxmkl.run(learner, start, X, y)
        assert np.isfinite(outputs.prediction).all()
        assert np.isfinite(outputs.loss).all()
        assert all(np.isfinite(leaf).all() for leaf in state.calibration)
    # values of a millionth tell the classes apart as well as any
    assert np.asarray(outputs.loss)[50:].mean() < 0.9 * np.log(2.0)


def test_learners_of_numbers_are_refused():
    with pytest.raises(ValueError, match=r"learner must be a classifier.*got 'regression'"):
        probabilities(jaxmkl.raker())
