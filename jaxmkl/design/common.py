"""What the methods of design share: the result, checks of the input, the penalty, the ranking.

Shapes: n points of the pool, P kernels, r features a kernel, T iterations at most.
"""

import math
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl.pytree import as_leaf, require

__all__ = ["Design", "Pool"]

# A row of the coefficients is active from this share of the largest row on.
ACTIVE = 1e-4


class Design(NamedTuple):
    """Which points of a pool to label, and how that was found.

    Attributes:
      scores: a number for each point (n,), the larger the better: the sum of the absolute
        values of its row of coefficients, what all points are reconstructed from.
      ranking: indices of the points (p,), best first; equal scores go to the smaller index.
      num_active: how many points have a row that does not vanish, a number. Points further down
        the ranking are in an order that means little.
      kernel_weights: the weights w (P,) of the kernels, of sum 1; of localized ones (n, P).
      objective: its value after each iteration (T,), falling; NaN behind the last one.
      converged: whether the iteration ended by its tolerance, a boolean.
    """

    scores: jax.Array
    ranking: jax.Array
    num_active: jax.Array
    kernel_weights: jax.Array
    objective: jax.Array
    converged: jax.Array


class Pool(NamedTuple):
    """Kernels over a pool of points: of ``gram`` and ``features`` one is None.

    Attributes:
      gram: Gram matrices (P, n, n).
      features: features (P, n, r); the inner products of rows are the kernels' values.
    """

    gram: Any
    features: Any

    @property
    def num_kernels(self) -> int:
        """Number of kernels P."""
        return (self.features if self.gram is None else self.gram).shape[0]

    @property
    def num_points(self) -> int:
        """Number of points n."""
        return (self.features if self.gram is None else self.gram).shape[1]

    @property
    def dtype(self) -> Any:
        """Precision in which the work is done."""
        return (self.features if self.gram is None else self.gram).dtype


def traced(*values: Any) -> bool:
    """Whether any of these is a tracer, whose numbers cannot be looked at."""
    return any(isinstance(value, jax.core.Tracer) for value in values)


def pool_of(owner: str, name: str, gram: Any, features: Any, stacked: bool) -> Pool:
    """The checked pool.

    Args:
      owner: the function that was called, for messages.
      name: the argument that holds Gram matrices.
      gram: one Gram matrix (n, n), or with ``stacked`` several (P, n, n); or None.
      features: features (n, r) or (P, n, r); or None.
      stacked: whether there is a leading axis of kernels.

    Raises:
      ValueError: for both or none, a wrong shape, a number that is not finite, a Gram matrix
        that is not symmetric or not positive semi-definite.
    """
    given, argument = (gram, name) if features is None else (features, "features")
    if (gram is None) == (features is None):
        found = "both" if gram is not None else "none"
        raise ValueError(f"{owner}: {name} or features must be given, one of them; got {found}")
    if not isinstance(given, jax.Array):
        given = np.asarray(given)
        kind = given.dtype.kind
        require(kind in "biuf", owner, argument, given.dtype, "an array of real numbers")
    shape = tuple(given.shape)
    axes = ("P",) * stacked + (("n", "n") if features is None else ("n", "r"))
    wanted = f"an array ({', '.join(axes)})"
    good = len(shape) == len(axes) and 0 not in shape
    good = good and (features is not None or shape[-1] == shape[-2])
    require(good, owner, argument, f"an array of shape {shape}", wanted)
    dtype = jax.dtypes.canonicalize_dtype(jnp.promote_types(given.dtype, jnp.float32))
    values = jnp.asarray(given, dtype)
    values = values if stacked else values[None]
    if not traced(values):
        _check_values(owner, argument, values, features is None)
    return Pool(values, None) if features is None else Pool(None, values)


def _check_values(owner: str, argument: str, values: jax.Array, is_gram: bool) -> None:
    """Raise for values no design can be made of; warn of points that occur twice."""
    finite = np.asarray(jnp.all(jnp.isfinite(values), axis=(1, 2)))

    def place(kernel: int) -> str:
        return argument if len(finite) == 1 else f"{argument}[{kernel}]"

    for kernel, good in enumerate(finite.tolist()):
        require(good, owner, place(kernel), "NaN or infinite values", "finite")
    if is_gram:
        root = math.sqrt(jnp.finfo(values.dtype).eps)
        for kernel, matrix in enumerate(values):
            skew, size, positive = (float(x) for x in _symmetry(matrix, root))
            require(size > 0, owner, place(kernel), "zeros only", "other than zero")
            found = f"entries that differ from their mirror image by up to {skew:.3g}"
            require(skew <= root * size, owner, place(kernel), found, "symmetric")
            found = f"a matrix with an eigenvalue below -{root:.1g} of its largest row sum"
            require(positive > 0, owner, place(kernel), found, "positive semi-definite")
    else:
        for kernel, size in enumerate(jnp.max(jnp.abs(values), axis=(1, 2)).tolist()):
            require(size > 0, owner, place(kernel), "zeros only", "other than zero")
    first, second, count = twins(values, is_gram)
    if count:
        warnings.warn(
            f"{owner}: {argument} has duplicates: {count} points are the same as one before, as "
            f"point {second} is as point {first}; they share their coefficients and are ranked "
            "side by side, so leave one out",
            UserWarning,
            stacklevel=5,
        )


@jax.jit
def _symmetry(matrix: jax.Array, root: float) -> tuple[jax.Array, ...]:
    """Largest asymmetry, largest entry, and whether (n, n) shifted a little has a root."""
    shift = root * jnp.max(jnp.sum(jnp.abs(matrix), axis=1))
    shifted = (matrix + matrix.T) / 2 + shift * jnp.eye(len(matrix), dtype=matrix.dtype)
    factor = jax.lax.linalg.cholesky(shifted, symmetrize_input=False)
    positive = jnp.all(jnp.isfinite(jnp.diagonal(factor)))
    return jnp.max(jnp.abs(matrix - matrix.T)), jnp.max(jnp.abs(matrix)), positive


@jax.jit
def _fingerprints(values: jax.Array) -> jax.Array:
    """A number (n,) for each row of (P, n, k), the same for rows that are the same."""
    P, _, k = values.shape
    weights = jax.random.normal(jax.random.key(0), (P, k), values.dtype)
    return jnp.einsum("pnk,pk->n", values, weights, precision=jax.lax.Precision.HIGHEST)


def twins(values: jax.Array, is_gram: bool) -> tuple[int, int, int]:
    """The first two points whose rows of (P, n, k) agree, and how many rows occurred before.

    Rows of features must be the same bit by bit; rows of Gram matrices to rounding.
    """
    prints = np.asarray(_fingerprints(values))
    order = np.argsort(prints, kind="stable")
    width = values.shape[2] if is_gram else 1
    slack = 64 * np.finfo(prints.dtype).eps * math.sqrt(width) * float(np.abs(prints).max())
    close = np.flatnonzero(np.diff(prints[order]) <= slack)
    if not len(close):
        return 0, 0, 0
    pairs = np.sort(np.stack([order[close], order[close + 1]]), axis=0)
    if len(close) > 4096:  # of a pool this large a sample will do
        pairs = pairs[:, :4096]
    one, other = values[:, pairs[0]], values[:, pairs[1]]
    apart = np.asarray(jnp.max(jnp.abs(one - other), axis=(0, 2)))
    limit = 8 * np.finfo(prints.dtype).eps * float(jnp.max(jnp.abs(values))) if is_gram else 0.0
    same = pairs[:, apart <= limit]
    if not same.size:
        return 0, 0, 0
    first = same[:, np.lexsort((same[1], same[0]))[0]]
    return int(first[0]), int(first[1]), same.shape[1]


def points_wanted(owner: str, num_points: Any, pool_size: int) -> int | None:
    """The checked number of points p to choose; None where all are to be ranked."""
    if num_points is None:
        return None
    good = isinstance(num_points, int | np.integer) and not isinstance(num_points, bool)
    good = good and 1 <= num_points <= pool_size
    wanted = f"an integer from 1 to {pool_size}, the size of the pool"
    require(bool(good), owner, "num_points", num_points, wanted)
    return int(num_points)


def checked_settings(owner: str, tolerance: Any, max_iterations: Any, smoothing: Any) -> None:
    """Raise unless tolerance, max_iterations and smoothing are what iterations can be run by."""
    as_leaf(owner, "tolerance", tolerance, wanted="at least 0 and finite", minimum=0.0)
    good = isinstance(max_iterations, int | np.integer) and max_iterations >= 1
    require(bool(good), owner, "max_iterations", max_iterations, "an integer of at least 1")
    if smoothing is not None:
        wanted = "positive and finite"
        as_leaf(owner, "smoothing", smoothing, wanted=wanted, minimum=0.0, exclusive=True)


def default_smoothing(smoothing: Any, dtype: Any) -> Any:
    """The given smoothing, or what the precision carries: 1e-16 in float64, 1e-12 in float32."""
    if smoothing is not None:
        return smoothing
    return 1e-16 if jnp.finfo(dtype).bits == 64 else 1e-12


def penalty_of(
    owner: str,
    regularization: Any,
    absolute: bool,
    largest: jax.Array,
    dtype: Any,
    vanish: bool = True,
) -> jax.Array:
    """The penalty lambda, a number.

    Args:
      owner: the function that was called, for messages.
      regularization: a share of ``largest``, or with ``absolute`` the penalty itself.
      absolute: which of the two it is.
      largest: the penalty from which on no point is chosen.
      dtype: the precision of the work.
      vanish: whether no point is chosen from there on, which is worth a warning.
    """
    wanted = "positive and finite"
    as_leaf(owner, "regularization", regularization, wanted=wanted, minimum=0.0, exclusive=True)
    given = jnp.asarray(regularization, dtype)
    penalty = given if absolute else given * largest
    if vanish and not traced(penalty, largest) and float(penalty) >= float(largest):
        warnings.warn(
            f"{owner}: regularization {float(given):.4g} makes a penalty of {float(penalty):.4g}, "
            f"which is at or above lambda_max = {float(largest):.4g}: all coefficients vanish (of "
            "several kernels: while their weights are equal) and the ranking means nothing",
            UserWarning,
            stacklevel=3,
        )
    return penalty


def warn_of_few(owner: str, num_points: int | None, num_active: jax.Array) -> None:
    """Warn when fewer points are active than were asked for."""
    if num_points is None or traced(num_active):
        return
    if int(num_active) < num_points:
        warnings.warn(
            f"{owner}: num_points is {num_points}, but only {int(num_active)} points are active: "
            "the order of the others means little; a smaller regularization has more",
            UserWarning,
            stacklevel=3,
        )


def unless_zero(found: Design, zero: jax.Array, value: jax.Array) -> Design:
    """The design, or where ``zero`` holds that of coefficients that all vanish.

    Args:
      found: the design.
      zero: whether no coefficients are better, as they are from lambda_max on.
      value: the objective of none.
    """
    n = len(found.scores)
    nothing = Design(
        scores=jnp.zeros_like(found.scores),
        ranking=jnp.arange(n, dtype=jnp.int32)[: len(found.ranking)],
        num_active=jnp.zeros_like(found.num_active),
        kernel_weights=found.kernel_weights,
        objective=jnp.full_like(found.objective, jnp.nan).at[0].set(value),
        converged=jnp.ones_like(found.converged),
    )
    return jax.tree.map(lambda a, b: jnp.where(zero, a, b), nothing, found)


def without_smoothing(
    objective: jax.Array, sizes: jax.Array, penalty: jax.Array, eps: Any
) -> jax.Array:
    """The last value of an ``objective`` (T,) with |a^i| for sqrt(|a^i|² + eps) - sqrt(eps).

    Args:
      objective: the history, NaN behind its end.
      sizes: sqrt(|a^i|² + eps) of the rows (n,).
      penalty: lambda, a number.
      eps: the smoothing.
    """
    last = objective[jnp.sum(jnp.isfinite(objective)) - 1]
    norms = jnp.sqrt(jnp.maximum(sizes**2 - eps, 0))
    return last + penalty * jnp.sum(norms - (sizes - jnp.sqrt(eps)))


def ranked(scores: jax.Array, num_points: int | None = None) -> jax.Array:
    """Indices (p,) of the largest ``scores`` (n,), ties to the smaller index.

    Scores count as equal when they agree in the leading half of their binary digits and a bit
    more, so that rounding decides no tie.

    >>> import jax.numpy as jnp
    >>> ranked(jnp.array([0.5, 2.0, 0.5, 3.0])).tolist()
    [3, 1, 0, 2]
    """
    digits = 32 if jnp.finfo(scores.dtype).bits == 64 else 14
    mantissa, exponent = jnp.frexp(scores)
    rounded = jnp.ldexp(jnp.round(mantissa * 2.0**digits), exponent - digits)
    return jnp.argsort(-rounded, stable=True)[:num_points].astype(jnp.int32)


def count_active(norms: jax.Array, smoothing: Any) -> jax.Array:
    """How many rows do not vanish, given their ``norms`` (n,)."""
    floor = 100 * jnp.sqrt(jnp.asarray(smoothing, norms.dtype))
    return jnp.sum(norms > jnp.maximum(ACTIVE * jnp.max(norms), floor), dtype=jnp.int32)
