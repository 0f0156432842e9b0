"""Checks of the first lines of a CSV file: do they name its columns?"""

import contextlib
import csv
import itertools
import re
from collections.abc import Iterator, Sequence

from jaxmkl._checks import shown
from jaxmkl.tables._words import MISSING, number_in, twice

LOOKED_AT = 100  # lines
MOST_LOOKED_AT = 2**21  # characters of them, though always two lines
MOST_TITLES = 20  # rows above a header
MOSTLY = 0.9  # the share of numbers among its cells that makes a column one of numbers
YEARS = range(1900, 2101)
BY_ITSELF = 40  # a cell of so many words is no name
ASIDE = " $€£¥%\t\u00a0"  # signs beside a number
DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}([ ].*)?"
)
# a label, perhaps an importance and a tag, then a bar, perhaps a namespace, and features
WABBIT = re.compile(
    r"\s*([-+]?[\d.]+(e[-+]?\d+)?(\s+[\d.]+){0,2}(\s*'\S+|(?P<tag>\s+[^\s'|,;]+))?)?"
    r"\s*\|[^\s|,;]*(\s+[^\s|,;]+)+\s*"
    r"(\|[^\s|,;]*(\s+[^\s|,;]+)+\s*)*"
)
VALUED = re.compile(r"\|.*\s[^\s:|,;]+:[-+.\d]+(\s|$)")
GIVEN = "name them (--names a,b,c), have them numbered (--no-header), or say that it is a header"


@contextlib.contextmanager
def cells_up_to(size: int) -> Iterator[None]:
    """Have the csv module read cells of this many characters, in place of 131,072."""
    before = csv.field_size_limit(size)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def rows_of(text: Sequence[str], separator: str) -> tuple[list[int], list[list[str]]]:
    """Split the first lines into rows that are not blank, and the lines in which they begin.

    >>> rows_of(["a,b\\n", "\\n", '1,"x\\n', 'y"\\n'], ",")
    ([1, 3], [['a', 'b'], ['1', 'x\\ny']])
    """
    lines, cells, line = list[int](), list[list[str]](), 1
    reader = csv.reader(text, delimiter=separator, skipinitialspace=True)
    with cells_up_to(sum(map(len, text))):
        for row in reader:
            if any(stripped := [cell.strip() for cell in row]):
                lines.append(line)
                cells.append(stripped)
            line = reader.line_num + 1
    return lines, cells


def refuse_wabbit(where: str, first: str) -> None:
    """Refuse a first line that is one of Vowpal Wabbit."""
    found = WABBIT.fullmatch(first)
    # a header of two columns may be a number and words, too
    is_sure = found and first.count("|") == 1 and first[:1] != "|" and not found["tag"]
    if found and (is_sure or VALUED.search(first)):
        text = "is a file of Vowpal Wabbit, which is not read"
        raise ValueError(f"{where}: {text}; write LIBSVM (label index:value ...) or CSV")


def refuse_title(name: str, before: int, text: Sequence[str], separators: str) -> None:
    """Refuse lines above a table if each has fewer cells than every row below has.

    ``before`` is the number of lines before ``text``.
    """
    for separator in separators:
        lines, cells = rows_of(text, separator)
        widths = [len(row) for row in cells]
        for above in range(1, min(MOST_TITLES, len(widths) - 1)):
            width = widths[above]
            # one cell fewer than below is the header of a table whose rows are named
            few = max(widths[:above]) < max(2, width - 1)
            if width > 1 and len(set(widths[above:])) == 1 and few:
                _refuse_above(name, before, text, lines[0], lines[above])
    lines, cells = rows_of(text, separators[0])
    # in a spreadsheet a title has as many cells as rows, all but one of them empty
    if len(cells) > 2 and len(cells[0]) > 2 and sum(map(bool, cells[0])) == 1:
        below = cells[1]
        is_header = all(below) and len(below) == len(cells[0]) and len({*below}) == len(below)
        if is_header and not any(map(_number, below)):
            _refuse_above(name, before, text, lines[0], lines[1])


def _refuse_above(name: str, before: int, text: Sequence[str], first: int, header: int) -> None:
    line = text[first - 1].strip()
    what = "a comment" if line[:1] in ("#", "%") else "a title"
    top = before + header
    found = f"is {what}, {line[:60]!r}, and the table begins in line {top}"
    advice = f"leave out the lines above (tail -n +{top} FILE > OTHER)"
    raise ValueError(f"{name}, line {before + first}: {found}; {advice}")


def refuse_row(where: str, header: Sequence[str], below: Sequence[Sequence[str]]) -> None:
    """Refuse a first line that is a row.

    It is a row in any of these cases: a name is a date above dates, or occurs twice and again in
    its column; all names are words, and half of them occur in their columns among other words; a
    name is a number like those below it, unless such names rise in equal steps, as years and
    indices do, and most of the words do not occur in their columns.

    >>> refuse_row("t.csv", ["country", "2019", "2020"], [["France", "1200", "3000"]] * 2)
    >>> refuse_row("t.csv", ["39", "State-gov"], [["50", "Private"], ["28", "State-gov"]])
    ... # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: t.csv: the first line must name the columns; it looks like a row: ...
    """
    rows = [row for row in below if len(row) == len(header)]
    columns = list(zip(*rows, strict=True))
    if not columns:
        return
    repeated, is_row, is_among, has_dates = twice(header), False, False, False
    counted, words = list[float](), list[bool]()
    for name, column in zip(header, columns, strict=True):
        number, again = _number(name), name in column
        is_row |= bool(name) and again and name in repeated
        if DATE.fullmatch(name):
            has_dates = True
            is_row |= sum(map(bool, map(DATE.fullmatch, column))) > MOSTLY * len(column)
        elif number is not None:
            counted.append(number)
            is_among |= _is_among(number, column)
        elif name:
            words.append(again or len(name.split()) > BY_ITSELF)
    is_like = 2 * sum(words) >= len(words) > 0
    is_row |= is_among and (is_like or not is_series(counted))
    if is_row or (not counted and not has_dates and _is_of_words(header, rows)):
        found = f"the first line must name the columns; it looks like a row: {shown(list(header))}"
        raise ValueError(f"{where}: {found}; {GIVEN} (--header)")


def _is_of_words(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Tell if half of the names, two or more, are texts or occur in their columns among others.

    Copies of the header, as in joined tables, do not count, nor do columns that hold only their
    name, as those of ticked boxes do.
    """
    unlike = [row for row in rows if [*row] != [*header]]
    columns = [{*column} for column in zip(*unlike, strict=True)] or [set()] * len(header)
    again = [
        bool(name)
        and name in column
        and any(cell.lower() not in MISSING for cell in column - {name})
        for name, column in zip(header, columns, strict=True)
    ]
    told = sum(again) + sum(len(name.split()) > BY_ITSELF for name in header)
    return any(again) and told >= max(2, len(header) / 2)


def is_series(numbers: Sequence[float]) -> bool:
    """Tell if numbers may name columns: years, or two or more numbers that rise in equal steps.

    If there are only two, they must begin with 0 or 1.

    >>> is_series([2019]), is_series([0, 1]), is_series([0.25, 0.5, 0.75]), is_series([39, 13])
    (True, True, True, False)
    """
    steps = [b - a for a, b in itertools.pairwise(numbers)]
    if any(step <= 0 for step in steps):
        return False
    if all(number in YEARS for number in numbers):
        return True
    equal = bool(steps) and max(steps) - min(steps) < 1e-9 * max(map(abs, numbers))
    return equal and (len(numbers) > 2 or numbers[0] in (0, 1))


def _number(cell: str) -> float | None:
    bare = cell.strip(ASIDE)
    found = number_in(bare)
    if found is None and bare.count(",") == 1:
        found = number_in(bare.replace(",", "."))
    return found


def _is_among(number: float, column: Sequence[str]) -> bool:
    """Tell if a number is near those of a column: no farther off than they are from each other."""
    known = [cell for cell in column if cell.lower() not in MISSING]
    found = [value for value in map(_number, known) if value is not None]
    if not found or len(found) <= MOSTLY * len(known):
        return False
    low, high = min(found), max(found)
    room = high - low or max(abs(high), 1.0)
    return low - room <= number <= high + room


def separator_of(text: Sequence[str], separators: str) -> str:
    """Find the separator that splits the first rows alike, and the header into the most cells.

    >>> separator_of(["a;b;c\\n", "1,5;2,5;3\\n"], ",;")
    ';'
    """

    def rank(separator: str) -> tuple[bool, bool, int]:
        reader = csv.reader(text, delimiter=separator, skipinitialspace=True)
        with cells_up_to(sum(map(len, text))):
            widths = [len(row) for row in itertools.islice(reader, 50) if row]
        # the last row may be cut off
        widths = widths[:-1] if len(widths) > 2 else widths or [0]
        return widths[0] > 1, len(set(widths)) == 1, widths[0]

    return max(separators, key=rank)
