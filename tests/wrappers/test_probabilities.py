"""wrappers.probabilities against a loop in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from marks import quick

import jaxmkl
from jaxmkl.wrappers import probabilities

SMALL_PROGRAMS = True


def scaled_by_hand(values, y):
    """Log-odds (T, K) and losses (T,) from values (T, K) and classes (T,)."""
    log_scale, curvature, said, losses = np.log(2.0), 1.0, [], []
    for f, label in zip(values, y, strict=True):
        z = np.exp(log_scale) * f
        p = np.exp(z) / np.exp(z).sum()
        said.append(z)
        losses.append(-np.log(p[label]))
        curvature += p @ z**2 - (p @ z) ** 2
        log_scale -= np.clip((p @ z - z[label]) / curvature, -0.5, 0.5)
    return np.array(said), np.array(losses)


@pytest.mark.parametrize("num_classes", quick([3], [None, 3]))
def test_oracle(num_classes, x64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.digitize(X[:, 0] * X[:, 1], (-0.3, 0.3) if num_classes else (0.0,))
    inner = jaxmkl.raker(
        jaxmkl.Gaussian([0.5, 2.0]), num_features=4, loss="hinge", num_classes=num_classes
    )
    key, learner = jax.random.key(0), probabilities(inner)
    plain = jaxmkl.run(inner, inner.init(key, 2, jnp.float64), X, y)[1].prediction
    outputs = jaxmkl.run(learner, learner.init(key, 2, jnp.float64), X, y)[1]
    values = np.asarray(plain)
    if num_classes is None:
        values = np.stack([-values, values], axis=1) / 2
    said, losses = scaled_by_hand(values, y)
    wanted = said if num_classes else said[:, 1] - said[:, 0]
    np.testing.assert_allclose(outputs.prediction, wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(outputs.loss, losses, rtol=1e-9)
    found = jaxmkl.metrics.log_loss(outputs.prediction, y, num_classes)
    np.testing.assert_allclose(found, losses.mean(), rtol=1e-9)


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


def test_learners_of_numbers_are_refused():
    with pytest.raises(ValueError, match=r"learner must be a classifier.*got 'regression'"):
        probabilities(jaxmkl.raker())
