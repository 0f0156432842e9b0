"""CSV files: the separator, the header, the columns and the values."""

import csv
import itertools
from collections.abc import Iterator

import numpy as np

from jaxmkl.tables._cells import Column, is_missing, not_utf8, number_in, numbers_in
from jaxmkl.tables._entries import check_size
from jaxmkl.tables._table import Dataset, finish, note_dropped, shown

TARGET_NAMES = ("target", "y", "label", "class")  # in this order, without regard to case
ROWS_AT_ONCE = 8192


def read_csv(path: str, target: str | None, task: str | None) -> Dataset:
    """Read a CSV file, twice: what the columns are, then the values."""
    separator = _separator(path)
    notes: list[str] = []
    names = _header(path, separator, notes)
    index = _target_column(path, names, target, notes)
    dropped: list[int] = []

    # First what every column is, then its values: the text of the file is never all in memory.
    columns = [Column(path, name) for name in names]
    num_rows = 0
    for lines, rows in _labelled_rows(path, separator, len(names), index, dropped):
        num_rows += len(rows)
        for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
            column.look(lines, cells)
    if num_rows + len(dropped) == 0:
        raise ValueError(f"{path}, line 1: a header and no rows below it")
    note_dropped(notes, dropped, "line")
    encoding: list[str] = []
    features: list[str] = []
    codes: list[dict[str, int] | None] = []  # of a text column: its features by value
    for column in columns:
        is_text = column.is_text()
        if column is columns[index]:
            target_is_text = is_text
            codes.append(None)
            continue
        if not is_text:
            codes.append(None)
            features.append(column.name)
            continue
        categories = sorted(column.distinct) + (["?"] if column.has_missing else [])
        codes.append({value: len(features) + code for code, value in enumerate(categories)})
        features.extend(f"{column.name}={value}" for value in categories)
        missing = ", of which ? stands for missing cells" if column.has_missing else ""
        encoding.append(
            f"column {column.name!r} holds text: one 0/1 feature for each of its "
            f"{len(categories)} values{missing}"
        )
    check_size(path, (num_rows, len(features)), np.dtype(np.float64))
    X = np.zeros((num_rows, len(features)))
    spelled: list[str] = []
    end = 0
    for _, rows in _labelled_rows(path, separator, len(names), index, []):
        start, end = end, end + len(rows)
        feature = 0
        for position, cells in enumerate(zip(*rows, strict=True)):
            code = codes[position]
            if position == index:
                spelled.extend(cells)
            elif code is None:
                X[start:end, feature] = numbers_in(cells)
                feature += 1
            else:
                hot = [code["?"] if is_missing(cell) else code[cell] for cell in cells]
                X[np.arange(start, end), hot] = 1.0
                feature += len(code)
    values = np.array(spelled, dtype=np.str_) if target_is_text else numbers_in(spelled)
    where = f"{path}, column {names[index]!r}"
    return finish(path, X, features, values, spelled, names[index], where, task, notes, encoding)


def _csv_rows(path: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line at which a row begins (from 1) and its cells; blank lines are passed over."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator, strict=True, skipinitialspace=True)
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise ValueError(f"{path}, line {line}: {error}") from None
            except UnicodeDecodeError:
                raise not_utf8(path) from None
            if row and (len(row) > 1 or row[0].strip()):
                yield line, [cell.strip() for cell in row]


def _separator(path: str) -> str:
    """Return the separator that parts the header most and the first rows alike."""
    found: list[tuple[bool, int, str]] = []
    trouble: ValueError | None = None
    for separator in ",;\t":
        widths: list[int] = []
        alike = True
        try:
            for _, row in itertools.islice(_csv_rows(path, separator), 50):
                widths.append(len(row))
        except ValueError as error:  # met again, with its line, when the file is read
            trouble = trouble or error
            alike = False
        if widths and widths[0] > 1:
            found.append((alike and len(set(widths)) == 1, widths[0], separator))
    if found:
        return max(found, key=lambda candidate: candidate[:2])[2]
    raise trouble or ValueError(
        f"{path}, line 1: a header of two or more columns, parted by commas, semicolons or tabs, "
        "is wanted"
    )


def _header(path: str, separator: str, notes: list[str]) -> list[str]:
    line, names = next(_csv_rows(path, separator))
    unnamed = [position for position, name in enumerate(names, 1) if not name]
    for position in unnamed:
        names[position - 1] = f"column_{position}"
        notes.append(f"column {position} has no name and is called 'column_{position}'")
    numbers = [number_in(name) for name in names]
    counted = [number for number in numbers if number is not None and np.isfinite(number)]
    whole = all(number == int(number) for number in counted)
    plain = whole and counted in ([*range(len(names))], [*range(1, len(names) + 1)])
    if not whole or (len(counted) == len(names) and not plain):
        raise ValueError(
            f"{path}, line {line}: the first line must name the columns; got {shown(names)}"
        )
    for position, name in enumerate(names, 1):
        first = names.index(name) + 1
        if first < position:
            raise ValueError(
                f"{path}, line {line}, column {name!r}: the name stands twice, at columns "
                f"{first} and {position}"
            )
    return names


def _target_column(path: str, names: list[str], target: str | None, notes: list[str]) -> int:
    if target is not None:
        if target not in names:
            raise ValueError(
                f"{path}: has no column {target!r}; its columns are {shown(names, 100)}"
            )
        return names.index(target)
    folded = [name.casefold() for name in names]
    for usual in TARGET_NAMES:
        if usual in folded:
            index = folded.index(usual)
            notes.append(f"the target is the column {names[index]!r}, by its name")
            return index
    notes.append(f"the target is the last column, {names[-1]!r}")
    return len(names) - 1


def _labelled_rows(
    path: str, separator: str, width: int, target: int, dropped: list[int]
) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Yield lines and rows, many at once; rows without a target only leave their line behind."""
    lines: list[int] = []
    rows: list[list[str]] = []
    for line, row in itertools.islice(_csv_rows(path, separator), 1, None):
        if len(row) != width:
            cells = "cell" if len(row) == 1 else "cells"
            raise ValueError(
                f"{path}, line {line}: {len(row)} {cells} where the header has {width} columns"
            )
        if is_missing(row[target]):
            dropped.append(line)
            continue
        lines.append(line)
        rows.append(row)
        if len(rows) == ROWS_AT_ONCE:
            yield lines, rows
            lines, rows = [], []
    if rows:
        yield lines, rows
