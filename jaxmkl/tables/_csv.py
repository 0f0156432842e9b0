"""CSV files: polars parts the cells and reads the numbers; what columns are is decided here."""

import csv
import io
import itertools
from collections.abc import Iterator

import numpy as np
import polars as pl

from jaxmkl.tables import _table

TARGET_NAMES = ("target", "y", "label", "class")  # in this order, without regard to case
MAX_CATEGORIES = 100
MOSTLY = 0.9  # a column with a larger share of numbers is a numeric one with a slip in it
Row = tuple[int, int, str]  # the line at which it begins (from 1), its number of cells, its text


def read_csv(path: str, target: str | None, task: str | None) -> _table.Dataset:
    """Read a CSV file."""
    text = _table.text_of(path)
    separator = _separator(path, text)
    rows = _rows(path, text, separator)
    first, width, header = next(rows)
    notes: list[str] = []
    names = _names(f"{path}, line {first}", header, separator, notes)
    target = _target(path, names, target, notes)
    lines, body = [], []
    for line, num_cells, row in rows:
        if num_cells != width:
            found = f"{num_cells} cell{'s' * (num_cells > 1)}"
            raise ValueError(f"{path}, line {line}: {found} where the header has {width} columns")
        lines.append(line)
        body.append(row)
    if not lines:
        raise ValueError(f"{path}, line {first}: a header and no rows below it")
    schema = dict.fromkeys(names, pl.String)
    source = "".join(body).encode()
    table = pl.read_csv(source, separator=separator, has_header=False, schema=schema)
    cells = pl.all().str.strip_chars()
    is_missing = cells.str.to_lowercase().is_in(sorted(_table.MISSING))
    table = table.with_columns(pl.when(~is_missing).then(cells).name.keep())
    given, at = table[target].is_not_null(), pl.Series(lines)
    _table.note_dropped(notes, at.filter(~given).to_list(), "line")
    table, at = table.filter(given), at.filter(given)

    encoding: list[str] = []
    features: list[str] = []
    columns: list[np.ndarray] = []
    for column in table:
        numbers = _numbers(path, at, column)
        if column.name == target:
            spelled = column.to_list()
            values = np.array(spelled, np.str_) if numbers is None else numbers
        elif numbers is not None:
            features.append(column.name)
            columns.append(numbers)
        else:
            categories, missing = column.drop_nulls().unique().sort().to_list(), ""
            if column.null_count():
                categories, missing = [*categories, "?"], ", of which ? stands for missing cells"
            features.extend(f"{column.name}={value}" for value in categories)
            columns.extend((column.fill_null("?") == value).to_numpy() for value in categories)
            what = f"one 0/1 feature for each of its {len(categories)} values{missing}"
            encoding.append(f"column {column.name!r} holds text: {what}")
    _table.check_size(path, (len(table), len(features)), np.float64)
    X = np.stack(columns, axis=1, dtype=np.float64)
    where = f"{path}, column {target!r}"
    return _table.finish(path, X, features, values, spelled, target, where, task, notes, encoding)


def _rows(path: str, text: str, separator: str, strict: bool = True) -> Iterator[Row]:
    """Yield the rows that are not blank.

    Quotes may hold separators and go on over several lines; a row with them is written anew as
    polars wants it: no space before a quote, inner ones twice.
    """
    lines = enumerate(io.StringIO(text), 1)
    style: dict = {"delimiter": separator, "skipinitialspace": True, "lineterminator": "\n"}
    for line, row in lines:
        num_cells = row.count(separator) + 1
        if '"' in row:
            further = (row for _, row in lines)
            try:
                cells = next(csv.reader(itertools.chain([row], further), strict=strict, **style))
            except csv.Error as error:
                raise ValueError(f"{path}, line {line}: {error}") from None
            written = io.StringIO()
            csv.writer(written, **style).writerow(cells)
            num_cells, row = len(cells), written.getvalue()
        if num_cells > 1 or row.strip() not in ("", '""'):
            yield line, num_cells, row


def _separator(path: str, text: str) -> str:
    """Return the separator that parts the header most and the first rows alike."""

    def rank(separator: str) -> tuple[bool, bool, int]:
        rows = itertools.islice(_rows(path, text, separator, strict=False), 50)
        widths = [num_cells for _, num_cells, _ in rows] or [0]
        return widths[0] > 1, len(set(widths)) == 1, widths[0]

    if not rank(best := max(",;\t", key=rank))[0]:
        wanted = "a header of two or more columns, parted by commas, semicolons or tabs, is wanted"
        raise ValueError(f"{path}, line 1: {wanted}")
    return best


def _names(where: str, header: str, separator: str, notes: list[str]) -> list[str]:
    names = next(csv.reader(io.StringIO(header), delimiter=separator, skipinitialspace=True))
    for place, name in enumerate(names):
        names[place] = name.strip() or f"column_{place + 1}"
        if not name.strip():
            notes.append(f"column {place + 1} has no name and is called 'column_{place + 1}'")
    counted = [number for number in map(_table.number_in, names) if number is not None]
    whole = all(number == int(number) for number in counted)
    plain = whole and counted in ([*range(len(names))], [*range(1, len(names) + 1)])
    if not whole or (len(counted) == len(names) and not plain):
        shown = _table.shown(names)
        raise ValueError(f"{where}: the first line must name the columns; got {shown}")
    for place, name in enumerate(names):
        if names.index(name) < place:
            both = f"{names.index(name) + 1} and {place + 1}"
            raise ValueError(f"{where}, column {name!r}: the name stands twice, at columns {both}")
    return names


def _target(path: str, names: list[str], target: str | None, notes: list[str]) -> str:
    if target in names:
        return target
    if target is not None:
        shown = _table.shown(names, 100)
        raise ValueError(f"{path}: has no column {target!r}; its columns are {shown}")
    for name in (name for usual in TARGET_NAMES for name in names if name.casefold() == usual):
        notes.append(f"the target is the column {name!r}, by its name")
        return name
    notes.append(f"the target is the last column, {names[-1]!r}")
    return names[-1]


def _numbers(path: str, lines: pl.Series, cells: pl.Series) -> np.ndarray | None:
    """The numbers in a column, NaN where missing; None for text; refused where that is a guess."""
    numbers = cells.cast(pl.Float64, strict=False)
    is_text = cells.is_not_null() & numbers.is_null()
    wrong, why = numbers.is_infinite().fill_null(False), "{!r} is not finite"
    if is_text.any():
        values = cells.drop_nulls().unique().sort()
        is_number = values.cast(pl.Float64, strict=False).is_not_null()
        with_comma = values.str.contains(r"^[-+]?[0-9][0-9.]*,[0-9]+$")
        if numbers.fill_nan(None).count() > MOSTLY * cells.count():
            wrong, why = is_text, "{!r} is not a number, unlike the others"
        elif with_comma.any() and (with_comma | is_number).all():
            found = f"numbers with commas, e.g. {values.filter(with_comma)[0]!r}"
            wanted = "write them with a decimal point and nothing between thousands"
            raise ValueError(f"{path}, column {cells.name!r}: {found}; {wanted}")
        elif len(values) > MAX_CATEGORIES:
            wrong, many = is_text, f"more than {MAX_CATEGORIES} distinct values"
            why = f"text ({{!r}}) in a column with {many}; drop the column or make it numeric"
        else:
            return None
    for line, cell in zip(lines.filter(wrong), cells.filter(wrong), strict=True):
        raise ValueError(f"{path}, line {line}, column {cells.name!r}: {why.format(cell)}")
    return numbers.to_numpy()
