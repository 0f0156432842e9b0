"""Parts of the page of a run: curves over its rows, drawings with their values, sections."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from xml.etree.ElementTree import Element

import numpy as np

from jaxmkl.cli.results import Curves, Results
from jaxmkl.evaluate import markup
from jaxmkl.evaluate.drawings import Panel, as_svg, dots, drawing
from jaxmkl.evaluate.markup import element

WINDOWS = 80  # windows in a drawing, at most
WIDTH = 4.8  # inches of a drawing, whose letters can be read at 400 pixels
SMALL = 4.2  # inches of one that stands beside another where there is room
LOG_FROM = 8.0  # ratio of the 95 % and 5 % quantiles beyond which an axis is logarithmic
CLIP_FROM = 2.5  # ratio of the largest value and the 98 % quantile beyond which it is cut off
PARTS = 10  # parts of the rows, each with a coverage of its own


def coarser(curves: Curves) -> Curves:
    """Join windows of curves until there are at most ``WINDOWS``; values are :func:`by_part`."""
    number = len(curves.rows)
    size = -(-number // WINDOWS)
    starts = range(0, number, size)
    rows = tuple(curves.rows[min(at + size, number) - 1] for at in starts)
    lines = ({name: tuple(by_part(curves, starts, values).tolist()) for name, values in of.items()}
             for of in (curves.error, curves.labels))  # fmt: skip
    return Curves(curves.window * size, rows, *lines)


def by_part(curves: Curves, starts: Sequence[int], values: Sequence[float]) -> np.ndarray:
    """Means over parts of the windows (W,) that begin at ``starts`` (N,).

    A window counts by its number of rows; missing values are left out.
    """
    counts, each = np.diff(curves.rows, prepend=0), np.array(values)
    rows = np.where(np.isnan(each), 0, counts)
    all_rows = np.add.reduceat(rows, starts)
    shares = rows / np.repeat(np.maximum(all_rows, 1), np.diff([*starts, len(rows)]))
    found = np.add.reduceat(np.where(rows > 0, each, 0.0) * shares, starts)
    return np.where(all_rows > 0, found, np.nan)


def parts_of(number: int, parts: int = PARTS) -> list[int]:
    """Divide so many windows as evenly as possible, and return the first window of each part.

    >>> parts_of(12, 5), parts_of(3, 5)
    ([0, 2, 4, 7, 9], [0, 1, 2])
    """
    return np.unique(np.arange(parts) * number // parts).tolist()


def axis_of(values: np.ndarray, most: float) -> tuple[bool, float]:
    """Return whether an axis is logarithmic, and its end, above which a few values may lie.

    An axis of values (N,) with a finite bound, ``most``, is not logarithmic.

    >>> axis_of(np.array([1.0, 2.0, np.nan, 4.0]), np.inf)
    (False, 4.32)
    """
    known = values[np.isfinite(values)]
    above = known[known > 0]
    if not len(above):
        return False, min(most, 1.0)
    low, high = np.quantile(above, [0.05, 0.95], method="inverted_cdf")
    usual = np.quantile(known, 0.98, method="inverted_cdf")
    end = usual if 0 < CLIP_FROM * usual < known.max() else known.max()
    return bool(most == math.inf and high > LOG_FROM * low), float(min(most, 1.08 * end))


def steps(
    rows: Sequence[int], lines: Mapping[str, np.ndarray]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Lines that are constant from the first row of a window to its last."""
    ends = np.repeat((0, *rows), 2)[1:-1]
    return {name: (ends, np.repeat(values, 2, axis=-1)) for name, values in lines.items()}


def spans(rows: Sequence[int]) -> list[str]:
    """The first and the last row of each window, as text."""
    return [f"{begin + 1:,} to {end:,}" for begin, end in zip((0, *rows), rows, strict=False)]


def framed(panel: Panel, what: str, *below: Element, width: float = WIDTH) -> Element:
    """A drawing with a caption."""
    caption = element("figcaption", what + ", logarithmic" * panel.log_y)
    return element("figure", caption, as_svg(drawing([panel], width), what), *below)


def ranked(
    name: str,
    x: str,
    shown: Iterable[tuple[str, float]],
    what: str,
    table: Element,
    text: Callable[[float], str] = "{:.3f}".format,
) -> Element:
    """Numbers of a learner by their names, drawn one below the other, and as a table."""
    measured = {f"{label}: {text(value)}": (value, 0.0) for label, value in shown}
    drawn = as_svg(dots(x, measured, width=WIDTH), what)
    return element("figure", element("h3", name), drawn, table)


def table_of(
    first: str,
    titles: Iterable[str],
    texts: Mapping[str, Iterable[str]],
    title: str = "The values",
) -> Element:
    """The values of a drawing as a table that opens when its title is clicked."""
    return markup.folded(title, markup.columns(first, titles, texts))


def section(
    title: str, text: str, parts: Sequence[Element], *, small: bool = False
) -> list[Element]:
    """A section that begins with a text, unless there is nothing to show in it.

    Its drawings are ``small`` ones if it is said.
    """
    if not parts:
        return []
    made = markup.section(title, element("p", text, class_="faint"), *parts)
    if small:
        made.set("class", "small")
    return [made]


def first_seed(results: Results) -> str:
    """A phrase for what is of one seed of several."""
    return ", of the first seed" if results.seeds > 1 else ""
