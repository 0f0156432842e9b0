"""The linear baseline, against ridge regressions solved anew before each row."""

import numpy as np
import pytest

from jaxmkl.evaluate import Seen
from jaxmkl.evaluate.baselines import Linear
from jaxmkl.evaluate.watched import Spaced


def by_ridge(X, y, K, delay, before):
    """Each row by the labels that are known: solved anew, the mean before as one more row."""
    n, D = X.shape
    Z = np.ones((n, D + 1))
    for i in range(n):
        mean, deviation = X[: i + 1].mean(0), X[: i + 1].std(0)
        varies = deviation > 1e-9
        Z[i, :-1] = np.where(varies, (X[i] - mean) / np.where(varies, deviation, 1), 0)
    Y = (y[:, None] == np.arange(K)).astype(float) if K else y[:, None]
    own = np.zeros(D + 1)
    own[-1] = np.sqrt(max(1e-6, sum(before.counts)))
    target = np.array(before.counts) / sum(before.counts) if K and any(before.counts) else 0.0
    said = []
    for i in range(n):
        last = i if i <= 64 else i // 16 * 16
        known = [j for j in range(max(0, last - delay)) if not np.isnan(y[j])]
        A = np.vstack([np.eye(D + 1)[:-1], own, Z[known]])
        first = np.zeros((D, Y.shape[1]))
        b = np.vstack([first, own[-1] * target * np.ones(Y.shape[1]), Y[known]])
        f = Z[i] @ np.linalg.lstsq(A, b)[0]
        said.append(f.argmax() if K else f[0])
    return np.array(said)


@pytest.mark.parametrize(("K", "delay"), [(0, 0), (0, 7), (3, 0), (3, 300)])
def test_it_is_ridge_regression_in_whatever_chunks(K, delay):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) * [1, 1e3, 1e-3] + [0, 500, 0]
    X = np.hstack([X, np.ones((200, 1))])
    y = X[:, 0] + X[:, 1] / 1e3 + rng.normal(size=200)
    if K:
        y = np.digitize(y, [0.0, 1.0]).astype(float)
    y[rng.random(200) < 0.2] = np.nan
    before = Seen(counts=(2.0, 1.0, 5.0)) if K else Seen.nothing(0)
    wanted, each = by_ridge(X, y, K, delay, before), []
    for sizes in ([200], [64, 1, 0, 99, 36]):
        state, said = Linear.begin(4, K, delay, before), []
        for part in np.split(np.arange(200), np.cumsum(sizes)[:-1]):
            state, of = state.after(X[part], y[part])
            said.append(of)
        each.append((np.concatenate(said), *state))
        np.testing.assert_allclose(each[-1][0], wanted, atol=1e-5)
    for one, other in zip(*each, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_rows_are_kept_at_even_distances_in_whatever_chunks():
    rng, rows = np.random.default_rng(0), 1000
    values = rng.normal(size=(rows, 2))
    for sizes in ([rows], rng.multinomial(rows, np.full(40, 1 / 40))):
        kept = Spaced.begin(16, 2, stride=4)
        for size in sizes:
            places = kept.wanted(size)
            kept = kept.after(size, values[kept.rows + places])
        assert kept.numbers.tolist() == [*range(0, rows, 64)]
        np.testing.assert_array_equal(kept.found, values[::64])
        assert kept.values.shape == (16, 2)
