"""Drawings of a page as SVG: curves over rows, and the axes they need.

A drawing is as wide as its place, while letters and strokes keep their size: axes are placed in
percents, and only the paths lie in a box of ``SIZE`` by ``SIZE`` that is stretched to the area.
"""

import dataclasses
import math
from collections.abc import Sequence
from xml.etree.ElementTree import Element

from jaxmkl.evaluate import figure
from jaxmkl.evaluate.markup import element

SIZE = 1000
LOG_FROM = 8.0  # 95 % of the values to 5 % of them, from which on an axis is logarithmic
CLIP_FROM = 2.5  # the largest value to 98 % of them, from which on the axis ends below it
LEAST, MOST = 1e-300, 1e300  # what is drawn lies between
COLOURS = 6
DASHES = ("none", "7 3", "2 3", "9 3 2 3", "14 4", "9 3 2 3 2 3")
BASELINE_DASHES = ("1 3", "6 4")


@dataclasses.dataclass(frozen=True)
class Line:
    """A curve: its name, a value for each window (NaN for none), how it looks."""

    name: str
    values: Sequence[float]
    look: dict[str, str]


def look(number: int, is_baseline: bool = False) -> dict[str, str]:
    """Colour and dashes of the learner or baseline of that number.

    >>> look(1)
    {'class_': 'line c1', 'stroke_dasharray': '7 3'}
    """
    if is_baseline:
        return {"class_": "line", "stroke_dasharray": BASELINE_DASHES[number]}
    turn, colour = divmod(number, COLOURS)
    dashes = DASHES[(number + turn) % len(DASHES)]
    return {"class_": f"line c{colour}", "stroke_dasharray": dashes}


def sample(of: dict[str, str]) -> Element:
    """A short piece of a line, for what names it."""
    piece = element("line", x1=0, x2="100%", y1="50%", y2="50%", **of)
    return element("svg", piece, class_="sample", aria_hidden="true")


@dataclasses.dataclass(frozen=True)
class Axis:
    """What an axis reaches from and to, and where it is marked."""

    low: float
    high: float
    ticks: tuple[float, ...]
    is_log: bool = False

    def share(self, value: float) -> float:
        """How far along the axis a value is: 0 at its low end, 1 at its high one.

        >>> Axis(1.0, 100.0, (), is_log=True).share(10.0)
        0.5
        """
        if not self.is_log:
            return (value - self.low) / (self.high - self.low)
        low, high = math.log10(self.low), math.log10(self.high)
        return (math.log10(value) - low) / (high - low) if value > 0 else -1.0


def linear(high: float, most: int = 5) -> Axis:
    """An axis from 0 to at least ``high``, marked at round numbers.

    >>> linear(7.3)
    Axis(low=0.0, high=7.3, ticks=(0.0, 2.0, 4.0, 6.0), is_log=False)
    """
    high = high if high > LEAST else 1.0
    power = 10.0 ** math.floor(math.log10(high / most))
    step = next(s * power for s in (1, 2, 5, 10, 20) if high / (s * power) <= most)
    count = math.floor(high / step + 1e-9)
    return Axis(0.0, high, tuple(float(f"{i * step:.12g}") for i in range(count + 1)))


def logarithmic(low: float, high: float) -> Axis:
    """An axis from ``low`` to ``high``, both above 0, marked at powers, or 1, 2, 5 times them.

    >>> logarithmic(0.9, 60.0).ticks
    (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
    """
    decades = math.log10(high) - math.log10(low)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    powers = powers[:: math.ceil(decades / 6)]
    marks = [float(f"{k}e{p}") for p in powers for k in ((1, 2, 5) if decades < 2.5 else (1,))]
    return Axis(low, high, tuple(mark for mark in marks if low <= mark <= high), is_log=True)


def axis_of(values: Sequence[float], most: float = math.inf) -> Axis:
    """The axis for values, of which a few large ones may lie beyond it.

    Args:
      values: all of them, in any order; those that cannot be drawn do not count.
      most: what no value is above; below infinity the axis is never logarithmic.
    """
    known = sorted(value for value in values if value < MOST)
    above = [value for value in known if value > LEAST]
    if not above:
        return linear(min(most, 1.0))
    if most == math.inf and _quantile(above, 0.95) > LOG_FROM * _quantile(above, 0.05):
        return logarithmic(above[0] / 1.1, above[-1] * 1.1)
    high, usual = known[-1], _quantile(known, 0.98)
    return linear(min(most, 1.08 * (usual if high > CLIP_FROM * usual > 0 else high)))


def _quantile(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]


def curves(
    title: str, rows: Sequence[int], lines: Sequence[Line], axis: Axis, unit: str = ""
) -> Element:
    """Draw lines over windows of rows.

    Args:
      title: what the vertical axis is.
      rows: the number of the last row of each window (W,).
      lines: with W values each.
      axis: the vertical one.
      unit: what is written behind a value.
    """
    across = linear(rows[-1], 4)
    side, foot = element("svg", class_="side"), element("svg", class_="foot")
    area = element("svg", class_="area", role="img", aria_label=title)
    for tick in axis.ticks:
        y = _percent(1 - axis.share(tick))
        area.append(element("line", x1=0, x2="100%", y1=y, y2=y))
        text = short(tick) + unit
        side.append(element("text", text, x="86%", y=y, dy=".32em", text_anchor="end"))
    for tick in filter(float.is_integer, across.ticks):
        share = across.share(tick)
        anchor = "start" if share < 0.03 else "end" if share > 0.94 else "middle"
        place = {"x": _percent(share), "y": "1.1em", "text_anchor": anchor}
        foot.append(element("text", short(tick), **place))
    box = {"viewBox": f"0 0 {SIZE} {SIZE}", "preserveAspectRatio": "none"}
    paths = (
        element("path", d=_path(rows, line.values, axis), **line.look) for line in lines[::-1]
    )
    area.append(element("svg", *paths, width="100%", height="100%", **box))
    area.extend(_windows(rows, lines, unit))
    named = (element("li", sample(line.look), line.name) for line in lines)
    caption = element("figcaption", title + (", logarithmic" if axis.is_log else ""))
    return element(
        "figure",
        element("ul", *named, class_="legend"),
        caption,
        element("div", side, area, foot, class_="plot"),
        element("output", "Rows from left to right. Point at a window for its values."),
    )


def short(value: float) -> str:
    """A number for an axis, in as few letters as may be.

    >>> short(0.25), short(2000.0), short(15000.0), short(2.5e6), short(1e-7), short(3e12)
    ('0.25', '2,000', '15 k', '2.5 M', '1e-07', '3e+12')
    """
    size = abs(value)
    for unit, name in ((1e6, " M"), (1e4, " k")):
        if unit <= size < 1e9:
            return f"{value / min(unit, 1e6 if unit > 1e4 else 1e3):g}{name}"
    return f"{value:,g}" if size < 1e4 else f"{value:g}"


def _path(rows: Sequence[int], values: Sequence[float], axis: Axis) -> str:
    """Lines through the middles of windows; one without a neighbour is drawn from end to end."""
    pieces: list[list[tuple[float, float, float]]] = [[]]
    for (begin, end), value in zip(_bounds(rows), values, strict=True):
        if not math.isfinite(value):
            pieces.append([])
            continue
        height = SIZE * min(max(1 - axis.share(value), -1), 2)
        pieces[-1].append((SIZE * begin / rows[-1], SIZE * end / rows[-1], height))
    return "".join(map(_piece, pieces))


def _piece(windows: Sequence[tuple[float, float, float]]) -> str:
    points = [((begin + end) / 2, y) for begin, end, y in windows]
    if len(windows) == 1:
        ((begin, end, y),) = windows
        points = [(begin, y), (end, y)]
    places = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f"M{places}" if places else ""


def _bounds(rows: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip((0, *rows[:-1]), rows, strict=True))


def _windows(rows: Sequence[int], lines: Sequence[Line], unit: str) -> list[Element]:
    """What a pointer meets: a strip for each window, which has the values as its title."""
    found = []
    for i, (begin, end) in enumerate(_bounds(rows)):
        values = (f"{line.name} {_value(line.values[i], unit)}" for line in lines)
        text = f"rows {begin + 1:,} to {end:,}: " + " · ".join(values)
        place = {"x": _percent(begin / rows[-1]), "width": _percent((end - begin) / rows[-1])}
        title = element("title", text)
        found.append(element("rect", title, class_="hit", y=0, height="100%", **place))
    return found


def _value(value: float, unit: str) -> str:
    return f"{value:.1f}{unit}" if unit and math.isfinite(value) else figure(value)


def _percent(share: float) -> str:
    return f"{100 * share:.3f}".rstrip("0").rstrip(".") + "%"
