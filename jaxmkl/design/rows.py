"""Designs from rows: distinct ones, a sample of a large pool, and the kernels between them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from jaxmkl._pytree import require
from jaxmkl.design._frame import Design, points_wanted
from jaxmkl.design.dictionary import dictionary
from jaxmkl.design.gmkal import cted, gmkal
from jaxmkl.design.lmkal import lmkal
from jaxmkl.design.random import random
from jaxmkl.design.rrss import rrss
from jaxmkl.design.ted import ted
from jaxmkl.kernels import Gaussian, Kernel, median_distance
from jaxmkl.kernels.heuristics import median_of

METHODS: dict[str, Callable[..., Design]] = {
    one.__name__: one for one in (random, ted, cted, rrss, gmkal, lmkal)
}
SEVERAL = "gmkal", "lmkal"
# Rows drawn from a larger pool: TED takes O(n²) a point, the others O(n³) an iteration.
MOST = {"ted": 4000} | dict.fromkeys(("cted", "rrss", *SEVERAL), 2000)


def distinct(X: Any) -> np.ndarray:
    """Indices (m,) of the rows of ``X`` (n, D), dense or CSR, that occur for the first time."""
    if not scipy.sparse.issparse(X):
        return np.sort(np.unique(X, axis=0, return_index=True)[1])
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    parts = zip(*(np.split(part, X.indptr[1:-1]) for part in (X.indices, X.data)), strict=True)
    first = {(i.tobytes(), v.tobytes()): row for row, (i, v) in reversed([*enumerate(parts)])}
    return np.sort(np.fromiter(first.values(), int))


def choose_rows(
    owner: str,
    X: Any,
    method: str,
    key: jax.Array,
    num_points: int | None = None,
    kernels: Kernel | None = None,
    **parameters: Any,
) -> tuple[Design, np.ndarray]:
    """The design for the rows that were considered, and the indices (m,) of these in ``X``.

    Args:
      owner: the name of the caller, for messages.
      X: finite rows (n, D), or a CSR matrix of SciPy.
      method: one of ``METHODS``.
      key: a typed key, with which rows of a large pool are drawn.
      num_points: the number of rows to choose.
      kernels: by default a Gaussian as wide as the median distance, or for several kernels those
        of :func:`dictionary`; must be None if ``X`` is sparse.
      parameters: the method's own; the regularization of "ted" is a share of the mean diagonal.

    Raises:
      ValueError: if there are fewer distinct rows than ``num_points``, or the method raises it.
    """
    if method == "random":
        n = X.shape[0]
        return random(key, n, num_points=num_points, **parameters), np.arange(n)
    rows = distinct(X)
    points_wanted(owner, num_points, len(rows), "the number of distinct rows")
    most = MOST[method]
    if len(rows) > most:
        points_wanted(owner, num_points, most, f"the number of rows that {method} considers")
        rows = np.sort(jax.random.permutation(key, rows)[:most])
    grams = _grams(owner, X[rows], method, kernels)
    shared = {"share_of": "diagonal"} if method == "ted" else {}
    return METHODS[method](grams, num_points=num_points, **(shared | parameters)), rows


@jax.jit
def _evaluated(kernels: Kernel, X: jax.Array) -> jax.Array:
    return kernels.gram(X)


def _grams(owner: str, X: Any, method: str, kernels: Kernel | None) -> np.ndarray | jax.Array:
    """Gram matrices (P, n, n) of distinct rows, or one (n, n)."""
    several = method in SEVERAL
    inner = (X @ X.T).toarray() if scipy.sparse.issparse(X) else None
    if kernels is not None:
        other = "or a KernelDictionary" if several else f"one for {method}"
        wanted = f"a kernel of jaxmkl, {other}"
        good = isinstance(kernels, Kernel) and (several or kernels.num_kernels == 1)
        require(good, owner, "kernels", kernels, wanted)
        require(inner is None, owner, "kernels", kernels, "None where X is sparse")
        grams = _evaluated(kernels, jnp.asarray(X))
        return grams if several else grams[0]
    if several:
        return dictionary(X) if inner is None else dictionary(inner=inner)
    if X.shape[0] == 1:
        return np.ones((1, 1))
    if inner is None:
        return _evaluated(Gaussian(median_distance(X)), jnp.asarray(X))[0]
    norms = inner.diagonal()
    squares = np.maximum(norms[:, None] + norms[None, :] - 2 * inner, 0.0)
    return np.exp(-0.5 * squares / median_of(squares) ** 2)
