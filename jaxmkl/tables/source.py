"""Tables in chunks of rows, from files of many formats, standard input and DataFrames."""

import contextlib
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

import polars as pl

from jaxmkl._checks import refuse_unless
from jaxmkl.streaming.sparse import SparseRows
from jaxmkl.tables._arff import is_arff, read_arff
from jaxmkl.tables._bytes import Bytes
from jaxmkl.tables._cells import series_of
from jaxmkl.tables._reading import How, Reading
from jaxmkl.tables._rows import Chunk, Table, at_most
from jaxmkl.tables._text import CSV, NDJSON
from jaxmkl.tables._words import number_in

ROWS = 8192  # rows of a chunk
STREAM = b"\xff\xff\xff\xff"  # the bytes with which streams of Arrow begin


def _of_frame(frame: pl.LazyFrame | pl.DataFrame, source: str, reading: Reading) -> Table:
    """A table of polars, in memory or to be scanned."""
    lazy = frame.lazy()

    def frames(size: int) -> Iterator[pl.DataFrame]:
        batches = lazy.collect_batches(chunk_size=size, maintain_order=True)
        while True:
            with whole(source):
                batch = next(batches, None)
            if batch is None:
                return
            yield from batch.iter_slices(size)

    length = lazy.select(pl.len()).collect().item()
    return Table(source, lazy.collect_schema().names(), frames, length, reading.missing)


def open_table(source: object, **how: Unpack[How]) -> Table:
    """Open a table of any format.

    Args:
      source: the path of a CSV, NDJSON, Parquet, Arrow (IPC), LIBSVM, ARFF or npz file, recognised
        by its content; text may be compressed by gzip, zstd, bzip2 or xz. "-" is standard input.
        npz and ARFF files, and Parquet and Arrow from standard input, are read into memory whole.
        Or a DataFrame of polars, pandas or Arrow, columns or cells by name, one row or several
        (those of ``itertuples`` and ``iterrows``, too), or a sparse matrix of SciPy or
        :class:`jaxmkl.streaming.SparseRows`, whose columns are called x0, x1 and so on.
      names: the names of the columns of a CSV file, whose first line is then a row.
      header: whether the first line of a CSV file is a header. By default it is, unless there are
        names; a first line that looks like a row is refused. Without header and names, columns are
        called column_1 and so on.
      missing: words for missing cells beside the usual ones, such as ``None`` or ``-``, without
        regard to case. In columns of numbers, a number that equals one of them is missing, too.
      longest_line: the MiB that a line of text may take; 64 by default.
      columns: the columns that a pipeline knows. Tables of sparse formats (LIBSVM, CSR matrices)
        get these, too; entries that a row does not name are zero.
      whole: whether all rows will be in memory: LIBSVM from a pipe then has all of its columns,
        not only those of the first 8,192 rows.
      keep_refused: whether a row of text that cannot be read (it has another number of cells, is
        not UTF-8, is no JSON and the like) stays among the rows, with missing cells, and is listed
        in ``Chunk.refused``. By default an error is raised after the rows before it.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the source is none of these, or cannot be read; it names file and line.

    >>> table = open_table({"height": [1.5, 2.5], "kind": ["tree", "bush"]})
    >>> table.names, [chunk.frame.shape for chunk in table.chunks(1)]
    (['height', 'kind'], [(1, 2), (1, 2)])
    """
    reading = Reading(**how)
    if not isinstance(source, str | os.PathLike):
        name = f"the {type(source).__name__}"
        refuse_of_csv(name, "a table in memory", reading)
        if hasattr(source, "tocsr") or isinstance(source, SparseRows):
            from jaxmkl.tables._entries import csr_of, of_entries  # SciPy takes a while

            return of_entries(csr_of(source), name, reading)
        return _of_frame(_frame_of(source), name, reading)
    file = Bytes(source)
    try:
        return open_file(file, format_of(file), reading)
    except BaseException:
        file.close()
        raise


def refuse_of_csv(name: str, of: str, reading: Reading) -> None:
    """Refuse options for CSV files if the table is ``of`` another kind."""
    given = ["names"] * bool(reading.names) + ["header"] * (reading.header is not None)
    text = f"{', '.join(given)} are for CSV; this is {of}, which has names of its own"
    refuse_unless(not given, f"{name}: {text}")


def open_file(file: Bytes, of: str, reading: Reading) -> Table:
    """Open the table in a file of a format; a file that is read as a whole is closed."""
    if of == "CSV":
        return CSV(file, reading)
    refuse_of_csv(file.name, of, reading)
    if of == "LIBSVM":
        from jaxmkl.tables._libsvm import LIBSVM  # SciPy takes a while

        return LIBSVM(file, reading)
    if of == "NDJSON":
        return NDJSON(file, reading)
    with contextlib.closing(file):
        if of == "ARFF":
            return _of_frame(read_arff(file), file.name, reading)
        if of == "npz":
            from jaxmkl.tables._entries import of_entries, read_npz

            arrays = read_npz(file, None, None)
            return of_entries(arrays.X, file.name, reading, arrays.labels.frame)
        # scanned on the disk, or in memory if it is a pipe
        is_stream = file.start.startswith(STREAM)
        content: Any = file.name
        with whole(file.name, f"a damaged {of} file"):
            if not file.is_seekable or is_stream:
                content = io.BytesIO(file.whole_content())
            arrow = pl.read_ipc_stream if is_stream else pl.scan_ipc
            scan: Any = pl.scan_parquet if of == "Parquet" else arrow
            return _of_frame(scan(content), file.name, reading)


@contextlib.contextmanager
def whole(name: str, what: str = "damaged") -> Iterator[None]:
    """Raise a ``ValueError`` if polars finds the table damaged."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise ValueError(f"{name}: is {what}: {error}") from None


def format_of(file: Bytes) -> str:
    """Recognise the format by the first bytes, or else by the name of the file.

    Raises:
      ValueError: it is an npy file, or an array of JSON.
    """
    start, extension = file.start, os.path.splitext(file.name)[1].lower()
    if start.startswith(b"PAR1"):
        return "Parquet"
    if start.startswith((b"ARROW1", STREAM)):
        return "Arrow"
    if start.startswith(b"PK"):
        return "npz"
    if start.startswith(b"\x93NUMPY") or extension in (".npy", ".npz"):
        wanted = "write a file with numpy.savez(path, X=inputs, y=target)"
        raise ValueError(f"{file.name}: is no npz archive in a file; {wanted}")
    text = start.decode("utf-8-sig", errors="replace")
    if is_arff(text):
        return "ARFF"
    if extension in (".libsvm", ".svmlight", ".svm") or _is_libsvm(text):
        return "LIBSVM"
    if text.lstrip().startswith("[") and extension in (".json", ".ndjson", ".jsonl"):
        text = "is one JSON array; one object a line is wanted (jq -c '.[]' makes it so)"
        raise ValueError(f"{file.name}: {text}")
    return "NDJSON" if text.lstrip().startswith("{") else "CSV"


def _is_libsvm(text: str) -> bool:
    """Tell if the first row that is more than a number is a label and pairs of LIBSVM."""
    for line in text.splitlines():
        label, *pairs = line.partition("#")[0].split() or [""]
        if pairs:
            return all(re.fullmatch(r"(qid|-?\d+):[^,;]+", pair) for pair in pairs)
        if label and number_in(label) is None:
            return False
    return False


def _frame_of(source: object) -> pl.DataFrame | pl.LazyFrame:
    """Make a DataFrame of polars from one of pandas or Arrow, or from columns or rows by name."""
    if isinstance(source, pl.DataFrame | pl.LazyFrame):
        return source
    try:
        if type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns"):
            frame: Any = source
            return pl.DataFrame([_of_pandas(str(name), cells) for name, cells in frame.items()])
        if isinstance(source, Mapping) and any(map(_is_column, source.values())):
            return pl.DataFrame(source)
        if (row := _row_of(source)) is not None:
            return _of_rows([row])
        if hasattr(source, "__arrow_c_stream__") and not isinstance(source, pl.Series):
            return pl.DataFrame(source)
        if isinstance(source, Iterator | list | tuple):
            rows = [_row_of(each) for each in source]
            if rows and all(row is not None for row in rows):
                return _of_rows(rows)
    except (TypeError, pl.exceptions.PolarsError) as error:
        first_line = str(error).partition("\n")[0]
        raise ValueError(f"the {type(source).__name__}: {first_line}") from None
    wanted = "the path of a file, a DataFrame of polars, pandas or Arrow, or rows by name"
    raise ValueError(f"a table must be {wanted}; got {type(source).__name__}")


def _is_column(cells: object) -> bool:
    """Tell the cells of a column from a single cell."""
    if isinstance(cells, str | bytes):
        return False
    return isinstance(cells, Sequence | pl.Series) or getattr(cells, "ndim", 0) > 0


def _row_of(source: Any) -> dict[str, Any] | None:
    """The cells of a row by name: a mapping, a named tuple or a Series of pandas; else None."""
    if isinstance(source, tuple) and hasattr(source, "_asdict"):
        return source._asdict()
    if isinstance(source, tuple) and len(source) == 2 and _is_series(source[1]):
        source = source[1]  # of a pair of iterrows
    is_row = isinstance(source, Mapping) or _is_series(source)
    return {str(name): cell for name, cell in source.items()} if is_row else None


def _is_series(source: object) -> bool:
    is_of_frame = hasattr(source, "index") and not hasattr(source, "columns")
    return is_of_frame and type(source).__module__.partition(".")[0] == "pandas"


def of_rows(rows: Sequence[Any]) -> pl.DataFrame:
    """A table of rows by name; a ``ValueError`` where polars has no such cells."""
    try:
        return _of_rows([_row_of(row) for row in rows])
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise ValueError(str(error).partition("\n")[0]) from None


def _of_rows(rows: Sequence[Any]) -> pl.DataFrame:
    names = dict.fromkeys(name for row in rows for name in row)
    return pl.DataFrame([series_of(name, [row.get(name) for row in rows]) for name in names])


def _of_pandas(name: str, column: Any) -> pl.Series:
    """Convert a column of pandas without the packages that pandas would need for it."""
    column = column.dt.tz_convert(None) if getattr(column.dtype, "tz", None) else column
    values = column.to_numpy()
    if values.dtype.kind in "iufbmM":  # polars has no times in whole seconds
        return pl.Series(name, values.astype(values.dtype.str.replace("[s]", "[ms]"), copy=False))
    return series_of(name, [*column])


def without_rows(table: Table) -> ValueError:
    """The error that refuses a table without rows."""
    return ValueError(f"{table.top}: a header and no rows below it")


def joined(table: Table, size: int) -> Chunk:
    """Join all rows in one chunk, read ``size`` at a time.

    Raises:
      ValueError: there are no rows.
    """
    if not (parts := [*table.chunks(size)]):
        raise without_rows(table)
    return as_one(parts)


def beginning(
    table: Table, chunks: Iterator[Chunk], size: int, wanted: int
) -> tuple[Chunk, list[int]]:
    """Join the first chunks of ``size`` rows until ``wanted`` of their rows can be read.

    At most ``size`` rows are looked at. Returns the joined chunk, and the first places, up to
    ``wanted``, of rows that can be read.

    Raises:
      ValueError: there are no rows.
    """
    parts, number, most = list[Chunk](), 0, at_most(size, len(table.names))
    for part in chunks:
        parts.append(part)
        number += len(part.frame)
        if number >= most or number - sum(len(one.refused) for one in parts) >= wanted:
            break
    if not parts:
        raise without_rows(table)
    whole = as_one(parts)
    refused = dict(whole.refused)
    good = [row for row in range(min(number, most)) if row not in refused]
    return whole, good[:wanted]


def as_one(parts: Sequence[Chunk]) -> Chunk:
    """Join the rows of chunks, one at least."""
    if len(parts) == 1:
        return parts[0]
    columns = []
    for name in dict.fromkeys(name for part in parts for name in part.frame.columns):
        cells = [part.column(name).raw for part in parts]
        kinds = {one.dtype for one in cells if one.null_count() < len(one)}
        if pl.Object in kinds:
            cells = [pl.Series(name, one.to_list(), pl.Object) for one in cells]
        elif len({one.dtype for one in cells}) > 1:
            kind = kinds.pop() if len(kinds) == 1 else pl.String()
            cells = [one.cast(kind) for one in cells]
        columns.append(pl.concat(cells).alias(name))
    numbers, refused = list[int](), list[tuple[int, str]]()
    for part in parts:
        refused += ((len(numbers) + place, why) for place, why in part.refused)
        numbers += part.numbers
    frame = pl.DataFrame(columns)
    return parts[0]._replace(frame=frame, numbers=numbers, refused=tuple(refused))
