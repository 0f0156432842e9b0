"""Features from the entries of a sparse file, dense or as rows, where memory allows it."""

import numpy as np

from jaxmkl.streaming.sparse import SparseRows

MAX_DENSE_BYTES = 4 * 2**30


def from_entries(
    path: str,
    shape: tuple[int, int],
    rows: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    sparse: bool,
) -> np.ndarray | SparseRows:
    """Make features of entries sorted by row and column, each of which stands once."""
    if sparse:
        lengths = np.bincount(rows, minlength=shape[0])
        check_size(path, shape, values.dtype, int(lengths.max(initial=0)))
        return SparseRows.from_entries(lengths, columns, values, shape[1])
    check_size(path, shape, values.dtype)
    X = np.zeros(shape, values.dtype)
    X[rows, columns] = values
    return X


def not_sparse(path: str, given: str) -> ValueError:
    """What to raise where ``sparse`` asks for what a file is not."""
    return ValueError(
        f"{path}: sparse must be False but for LIBSVM files and the parts of a CSR matrix in npz "
        f"files; got {given}"
    )


def check_size(
    path: str, shape: tuple[int, int], dtype: np.dtype, width: int | None = None
) -> None:
    """Refuse features (n, D), of ``width`` entries a row if sparse, that take too much memory."""
    n, D = shape
    start, wide, size = f"as a dense {dtype} array its", "", n * D * dtype.itemsize
    if width is not None:
        start, wide = "its", f" with {width} entries a row, as many as the fullest row has"
        size = n * width * (dtype.itemsize + 4) + 64 * D  # 64 bytes for the name of a column
    if size > MAX_DENSE_BYTES:
        raise ValueError(
            f"{path}: {start} {n} x {D} features would take {size / 2**30:.1f} GiB{wide}, more "
            f"than the {MAX_DENSE_BYTES / 2**30:g} GiB allowed; take fewer rows or features"
        )
