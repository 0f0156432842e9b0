"""Designs from rows: distinct ones, a sample of a large pool, and the kernels between them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._checks import known_array, refuse_tracers
from jaxmkl._pytree import require
from jaxmkl._scale import scale
from jaxmkl._types import Inputs
from jaxmkl.design._frame import Design, points_wanted
from jaxmkl.design.dictionary import dictionary
from jaxmkl.design.facility import facility
from jaxmkl.design.gmkal import cted, gmkal
from jaxmkl.design.lmkal import lmkal
from jaxmkl.design.random import random
from jaxmkl.design.rrss import rrss
from jaxmkl.design.ted import ted
from jaxmkl.kernels import Gaussian, Kernel, median_distance
from jaxmkl.kernels.heuristics import median_of
from jaxmkl.streaming.sparse import SparseRows

METHODS: dict[str, Callable[..., Design]] = {
    one.__name__: one for one in (random, ted, facility, cted, rrss, gmkal, lmkal)
}
SEVERAL = "gmkal", "lmkal"
WIDER = {"facility": 1.4}  # the width of the Gaussian, in median distances
# Rows drawn from a larger pool: greedy methods take O(n²) a point, others O(n³) an iteration.
MOST = {"ted": 4000, "facility": 4000} | dict.fromkeys(("cted", "rrss", *SEVERAL), 2000)


def distinct(X: Inputs) -> np.ndarray:
    """Indices (m,) of the rows of ``X`` (n, D), dense or CSR, that occur for the first time.

    Rows are compared by hashes of 64 bits: among a million rows, two different ones are taken to
    be equal with a probability of 3e-8.
    """
    if isinstance(X, np.ndarray):
        rows = (row.tobytes() for row in X + 0.0)  # which makes 0.0 of -0.0
    else:
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
        parts = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        rows = (X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in parts)
    hashes = np.fromiter(map(hash, rows), np.int64)
    return np.sort(np.unique(hashes, return_index=True)[1])


def from_points(
    X: Inputs,
    num_points: int | None = None,
    *,
    method: str = "ted",
    kernels: Kernel | None = None,
    key: jax.Array | None = None,
    **parameters: Any,
) -> Design:
    """Choose points of a pool, given as they are.

    Columns are standardised, and a constant column becomes 0; sparse rows, such as tf-idf of
    texts, stay as they are. Every method but "random" considers only the first of equal points.
    From a pool of more than 4,000 distinct ones (2,000 for "cted", "rrss", "gmkal" and "lmkal"),
    that many are drawn at random and considered, so a million take seconds. Among them, a cluster
    of one point in a thousand has only four, and may well be missed.

    Args:
      X: finite points (n, D), or a sparse matrix of SciPy or :class:`jaxmkl.streaming.SparseRows`.
      num_points: the number of points to choose; by default all points that the method ranks.
      method: "ted", "facility", "random", "cted", "rrss", "gmkal" or "lmkal".
      kernels: a kernel of the points, or several for the last two methods; columns are then not
        standardised. By default "ted", "cted" and "rrss" take a Gaussian as wide as the median
        distance, "facility" one 1.4 times as wide, and the last two the nine kernels of
        :func:`dictionary`, of columns as they are. It must be None if X is sparse.
      key: a typed key, for the method "random" and the draw from a large pool; by default that of
        seed 0.
      parameters: the method's own, such as ``regularization``, which may be traced; X may not.

    Returns:
      A :class:`Design`. The ranking has indices of rows of X. Scores are NaN for points that were
      not considered.

    Raises:
      ValueError: if an argument is of the wrong kind, numbers are not finite, fewer points than
        ``num_points`` are distinct, or the method raises it.

    >>> import numpy as np
    >>> from jaxmkl import design
    >>> x = np.array([[0.0, 10.0], [0.1, 10.0], [3.0, 10.0], [3.1, 10.0], [-2.0, 10.0]])
    >>> sorted((design.from_points(x, 3).ranking // 2).tolist())        # one of each cluster
    [0, 1, 2]
    """
    owner = "from_points"
    points = prepared(owner, X, kernels is None and method not in SEVERAL)
    key = jax.random.key(0) if key is None else key
    return choose_rows(owner, points, method, key, num_points, kernels, **parameters)[0]


def choose_rows(
    owner: str,
    X: Inputs,
    method: str,
    key: jax.Array,
    num_points: int | None = None,
    kernels: Kernel | None = None,
    **parameters: Any,
) -> tuple[Design, np.ndarray]:
    """The design of :func:`from_points`, and the indices (m,) of the points considered.

    X (n, D) is :func:`prepared`; ``owner`` is the name of the caller, for messages.
    """
    known = isinstance(method, str) and method in METHODS
    require(known, owner, "method", method, f"one of {', '.join(METHODS)}")
    n = X.shape[0]
    if method == "random":
        return random(key, n, num_points=num_points, **parameters), np.arange(n)
    rows = distinct(X)
    points_wanted(owner, num_points, len(rows), "the number of distinct rows")
    most = MOST[method]
    if len(rows) > most:
        points_wanted(owner, num_points, most, f"the number of rows that {method} considers")
        rows = np.sort(jax.random.permutation(key, rows)[:most])
    grams = _grams(owner, X[rows], method, kernels)
    found = METHODS[method](grams, num_points=num_points, **parameters)
    scores = jnp.full((n,), jnp.nan, found.scores.dtype).at[rows].set(found.scores)
    ranking = jnp.asarray(rows, jnp.int32)[found.ranking]
    return found._replace(scores=scores, ranking=ranking), rows


def prepared(owner: str, X: Inputs, standardise: bool) -> Any:
    """The checked points (n, D): an array of a dtype that JAX has enabled, or a CSR matrix.

    ``standardise`` says whether to standardise the columns of an array.
    """
    if isinstance(X, SparseRows):
        refuse_tracers(owner, "X", X)
        X = _csr(X)
    elif hasattr(X, "tocsr"):
        X = X.tocsr()
        real = X.dtype.kind in "biuf"
        require(real, owner, "X", f"a matrix of {X.dtype}", "a matrix of real numbers")
    else:
        X = known_array(owner, "X", X)
    good = len(X.shape) == 2 and 0 not in X.shape
    require(good, owner, "X", f"an array of shape {X.shape}", "an array (n, D)")
    sparse = not isinstance(X, np.ndarray)
    finite = bool(np.isfinite(X.data if sparse else X).all())
    require(finite, owner, "X", "NaN or infinite values", "finite")
    if sparse:
        return X.astype(np.float64)
    X = scale(X, "standard") if standardise else X
    return X.astype(jax.dtypes.canonicalize_dtype(jnp.promote_types(X.dtype, jnp.float32)))


def _csr(X: SparseRows) -> Any:
    """Sparse rows as SciPy's CSR."""
    from scipy.sparse import csr_array

    indices, values = np.asarray(X.indices), np.asarray(X.values)
    stored = np.nonzero(indices < X.num_columns)
    return csr_array((values[stored], (stored[0], indices[stored])), X.shape)


@jax.jit
def _evaluated(kernels: Kernel, X: jax.Array) -> jax.Array:
    return kernels.gram(X)


def _grams(owner: str, X: Inputs, method: str, kernels: Kernel | None) -> np.ndarray | jax.Array:
    """Gram matrices (P, n, n) of distinct rows, or one (n, n)."""
    several = method in SEVERAL
    inner = None if isinstance(X, np.ndarray) else (X @ X.T).toarray()
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
    width = WIDER.get(method, 1.0)
    if inner is None:
        return _evaluated(Gaussian(width * median_distance(X)), jnp.asarray(X))[0]
    norms = inner.diagonal()
    squares = np.maximum(norms[:, None] + norms[None, :] - 2 * inner, 0.0)
    return np.exp(-0.5 * squares / (width * median_of(squares)) ** 2)
