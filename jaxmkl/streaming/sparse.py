"""Sparse inputs: the stored entries of each row, made dense one block of rows at a time."""

from functools import partial
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl._checks import refuse_unless
from jaxmkl._types import Inputs


@pytree.dataclass
class SparseRows:
    """A sparse matrix (T, D) as rows of K entries, the number of entries of the fullest row.

    The drivers (:func:`jaxmkl.run` and the others) take it as X, and convert SciPy's matrices and
    arrays to it. It is a pytree, so it may enter ``jit``; another K is another compilation. It
    takes T K numbers and as many int32, so a single full row makes it large.

    ``rows[r]``, with integers r (B,), is the dense block (B, D) of these rows, in a floating
    dtype. To select rows and stay sparse: ``jax.tree.map(lambda leaf: leaf[r], rows)``.

    Args:
      indices: (T, K) integers, the columns of each row's entries: increasing, and padded with
        ``num_columns``.
      values: (T, K) real numbers, the entries; those at padded places are ignored.
      num_columns: D (static).

    Raises:
      ValueError: for shapes that do not fit, or columns that do not increase or do not exist.

    >>> import numpy as np
    >>> rows = SparseRows([[1, 3], [2, 4]], [[5.0, 6.0], [7.0, 0.0]], 4)
    >>> rows[np.array([1, 0])]
    Array([[0., 0., 7., 0.],
           [0., 5., 0., 6.]], dtype=float32)
    """

    indices: Any
    values: Any
    num_columns: int = pytree.static()

    def __post_init__(self) -> None:
        D = self.num_columns
        good = isinstance(D, int | np.integer) and 0 <= D < 2**31
        pytree.require(good, self, "num_columns", D, "an integer of at least 0 and below 2^31")
        given = self.indices, self.values
        indices, values = (v if isinstance(v, jax.Array) else np.asarray(v) for v in given)
        pytree.require(values.ndim == 2, self, "values", values.shape, "of shape (T, K)")
        good = jnp.issubdtype(indices.dtype, jnp.integer) and indices.shape == values.shape
        shown = f"{indices.dtype} of shape {indices.shape}"
        wanted = f"integers of shape {values.shape}, that of values"
        pytree.require(good, self, "indices", shown, wanted)
        if not isinstance(indices, jax.core.Tracer):
            known = np.asarray(indices)
            fits = (known >= 0) & (known <= D)
            fits[:, 1:] &= (known[:, 1:] > known[:, :-1]) | (known[:, 1:] == D)
            wanted = f"increasing in each row, from 0 to {D - 1}, and filled up with {D}"
            for row in np.flatnonzero(~fits.all(axis=1))[:1].tolist():
                pytree.require(False, self, f"indices[{row}]", known[row].tolist(), wanted)
        vars(self).update(indices=indices.astype(np.int32), values=values, num_columns=int(D))

    @classmethod
    def from_csr(cls, X: Inputs) -> "SparseRows":
        """The rows of a sparse matrix (T, D), anything whose ``tocsr()`` is SciPy's CSR.

        Returns:
          The rows, in host memory and in the dtype of ``X``. Duplicate entries are summed.

        Raises:
          ValueError: if X is not sparse, has not two axes, or has an entry beyond its columns.

        >>> import scipy.sparse
        >>> rows = SparseRows.from_csr(scipy.sparse.csr_array([[0, 5, 0, 6], [0, 0, 7, 0]]))
        >>> rows.indices.tolist(), rows.values.tolist()
        ([[1, 3], [2, 4]], [[5, 6], [7, 0]])
        """
        sparse, text = hasattr(X, "tocsr"), "must have shape (T, D), examples by inputs; got shape"
        pytree.require(sparse, "SparseRows.from_csr", "X", type(X), "sparse, with a method tocsr")
        refuse_unless(len(X.shape) == 2, f"SparseRows.from_csr: X {text} {X.shape}")
        csr = X.tocsr()
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        lengths, stored = np.diff(csr.indptr), csr.indptr[-1]  # SciPy allows room behind
        place = np.arange(lengths.max(initial=0)) < lengths[:, None]
        D, last = csr.shape[1], int(csr.indices[:stored].max(initial=-1))
        # an entry of column D would count as one that fills up
        refuse_unless(last < D, f"SparseRows.from_csr: X must have columns below {D}; got {last}")
        columns = np.full(place.shape, D, np.int64)
        values = np.zeros(place.shape, csr.dtype)
        columns[place], values[place] = csr.indices[:stored], csr.data[:stored]
        return cls(columns, values, D)

    @property
    def shape(self) -> tuple[int, ...]:
        """(T, D)."""
        return (*self.values.shape[:-1], self.num_columns)

    ndim = property(attrgetter("values.ndim"), doc="Two.")
    dtype = property(attrgetter("values.dtype"), doc="The dtype of the values.")

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, r: Any) -> jax.Array:
        good = isinstance(r, jax.Array | np.ndarray) and r.ndim == 1
        good = good and jnp.issubdtype(r.dtype, jnp.integer)
        pytree.require(good, self, "r in rows[r]", r, "an array (B,) of integers")
        floating = jnp.issubdtype(self.dtype, jnp.floating)
        values = jnp.asarray(self.values if floating else self.values.astype(float))[r]
        block = jnp.zeros((len(r), self.num_columns), values.dtype)
        at = jnp.arange(len(r))[:, None], jnp.asarray(self.indices)[r]
        return block.at[at].add(values, mode="drop")

    def _with(self, indices: Any, values: Any) -> "SparseRows":
        """The rows with other entries, not checked."""
        return jax.tree.unflatten(jax.tree.structure(self), (indices, values))

    def astype(self, dtype: Any) -> "SparseRows":
        """The rows with the values in another dtype."""
        return self._with(self.indices, self.values.astype(dtype))

    def padded(self, num_rows: int, num_entries: int) -> "SparseRows":
        """The rows in host memory, padded to (T, K) as given with empty rows and entries."""
        T, K = self.values.shape
        pad = partial(np.pad, pad_width=((0, num_rows - T), (0, num_entries - K)))
        indices = pad(np.asarray(self.indices), constant_values=self.num_columns)
        return self._with(indices, pad(np.asarray(self.values)))


def stored(array: Any) -> Any:
    """The numbers of an array, or those that sparse rows store."""
    return array.values if isinstance(array, SparseRows) else array
