"""Drawings of results by matplotlib: panels of lines, weights or points, and dots on an axis.

:func:`drawing` and :func:`dots` return figures that can be saved in any format; :func:`as_svg`
turns one into an element of a page.
"""

import dataclasses
import io
import math
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

LINE_POINTS = 400
PLANES = 3  # panels of points in a row
LEGEND = 9.0  # points of the letters of a legend
LETTER = 0.55  # width of a letter, as a share of its height
# visible on white and on black; their number differs from that of the dashes, so few lines match
COLOURS = "#0067a5", "#cf5500", "#008764", "#b4508a", "#b17900", "#2f93cf"
DASHES = ("-", (0, (5, 2)), (0, (1.5, 2)), (0, (7, 2, 1.5, 2)), (0, (10, 3)),
          (0, (7, 2, 1.5, 2, 1.5, 2)), (0, (1, 4)))  # fmt: skip
GREY = "#808080"
PAGE_COLOURS = {"#000000": "currentColor", "#ffffff": "var(--paper)"}


@dataclasses.dataclass(frozen=True)
class Panel:
    """One panel of a drawing: lines by label, or the weights of kernels over time.

    A line is (x, y), or (x, Y) with a row for each seed. Then the mean and the range of the seeds
    are drawn; with ``median``, the median and the middle half of the seeds; with ``errors``, the
    mean and bars of one standard error to either side. Points in a plane are drawn as they are,
    the first ones in grey. The legend lies above the panel, where it hides no line.
    """

    title: str
    x: str
    y: str
    lines: Mapping[str, tuple[np.ndarray, np.ndarray]] = dataclasses.field(default_factory=dict)
    weights: np.ndarray | None = None  # (T, P)
    log_x: bool = False
    log_y: bool = False
    marks: bool = False
    median: bool = False
    errors: bool = False
    points: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)  # (N, 2) each
    grey: Collection[str] = ()  # labels of the reference lines
    dots: Collection[str] = ()  # labels of lines of which only the points are drawn
    bands: Collection[str] = ()  # labels of lines of which only the range is drawn
    names: Sequence[str] = ()  # of the places 0, 1, ... of an axis of categories
    limits: tuple[float, float] | None = None  # the ends of the vertical axis


def thin(length: int, points: int = LINE_POINTS, log: bool = False) -> np.ndarray:
    """Return at most ``points`` indices of a curve of the given length, including its end.

    >>> thin(1000, 4), thin(1000, 4, log=True)
    (array([  0, 333, 666, 999]), array([  0,   9,  99, 999]))
    """
    points = min(points, length)
    if log:
        return np.unique(np.geomspace(1, length, points).round().astype(int)) - 1
    return np.unique(np.linspace(0, length - 1, points).round().astype(int))


def shortened(text: str, most: int) -> str:
    """Return a text, its middle left out if it has more characters than ``most``.

    >>> shortened("days between order and delivery", 16), shortened("days", 16)
    ('days betwe…ivery', 'days')
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 3
    return f"{text[: most - 1 - tail]}…{text[-tail:]}"


def drawing(panels: Sequence[Panel], width: float = 5.2) -> Figure:
    """Draw panels side by side, planes in rows of at most three, each ``width`` inches wide."""
    columns = min(len(panels), PLANES) if panels[0].points else len(panels)
    lines, above = -(-len(panels) // columns), max(_above(panel, width) for panel in panels)
    height = 1.2 + width / 2 + above / 72
    result = Figure(figsize=(width * columns, height * lines), layout="constrained")
    places = np.atleast_1d(result.subplots(lines, columns)).ravel()
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    for axes, panel in zip(places, panels, strict=False):
        axes.set_title(panel.title, pad=6 + _above(panel, width))
        axes.set(xlabel=_word(shortened(panel.x, int(10 * width))), ylabel=panel.y)
        if panel.points:
            for i, (label, points) in enumerate(panel.points.items()):
                looks = {"c": "0.75", "s": 8} if i == 0 else {"s": 30}
                axes.scatter(*points.T, label=label, **looks)
            axes.set_aspect("equal")
        elif panel.weights is not None:
            times = thin(len(panel.weights))
            kernels = np.arange(1, panel.weights.shape[1] + 1)
            image = axes.pcolormesh(times + 1, kernels, panel.weights[times].T, vmin=0)
            result.colorbar(image, ax=axes)
        else:
            _draw_lines(axes, panel, width)
    return result


def _legend_columns(panel: Panel, width: float) -> int:
    """The number of columns of a legend that is as wide as the panel."""
    letters = max(map(len, panel.lines), default=0)
    return max(1, int((72 * width - 40 + 2 * LEGEND) / (LEGEND * (6 + LETTER * letters))))


def _above(panel: Panel, width: float) -> float:
    """The height of the legend above a panel, in points."""
    return 1.35 * LEGEND * -(-len(panel.lines) // _legend_columns(panel, width))


def _draw_lines(axes: Any, panel: Panel, width: float) -> None:
    axes.set_prop_cycle(color=COLOURS * len(DASHES), linestyle=DASHES * len(COLOURS))
    for label, (x, y) in panel.lines.items():
        y = np.atleast_2d(y)
        points = np.arange(len(x)) if panel.marks else thin(len(x), log=panel.log_x)
        x, y = np.asarray(x)[points], y[:, points]
        if panel.errors and len(y) > 1:
            means, bars = y.mean(0), y.std(0, ddof=1) / math.sqrt(len(y))
            axes.errorbar(x, means, bars, label=label, capsize=2, lw=1, elinewidth=0.6)
            continue
        middle, low, high = (np.quantile(y, [0.5, 0.25, 0.75], axis=0) if panel.median
                             else (y.mean(0), y.min(0), y.max(0)))  # fmt: skip
        if label in panel.bands:
            looks = {"label": _word(label), "color": COLOURS[0], "alpha": 0.2, "lw": 0}
            if panel.names:
                axes.bar(x, high - low, 0.6, low, **looks)
            else:
                axes.fill_between(x, low, high, **looks)
            continue
        looks = {"color": GREY, "zorder": 1.9} if label in panel.grey else {}
        looks |= {"linestyle": "none", "zorder": 2.1} if label in panel.dots else {}
        marker = "o" if panel.marks or label in panel.dots else None
        (line,) = axes.plot(x, middle, label=_word(label), marker=marker, markersize=3, **looks)
        if len(y) > 1:
            axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15, lw=0)
    axes.set(xscale="log" if panel.log_x else "linear", yscale="log" if panel.log_y else "linear")
    if panel.limits is not None:
        axes.set_ylim(*panel.limits)
    if panel.names:
        _name_places(axes, panel.names, width)
    elif not panel.log_x:
        axes.locator_params(axis="x", nbins=int(1.2 * width))
    if not panel.log_y:
        axes.ticklabel_format(axis="y", useOffset=False)
    axes.grid(alpha=0.3)
    columns = _legend_columns(panel, width)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False,
                fontsize=LEGEND, handlelength=3, borderpad=0, labelspacing=0.2)  # fmt: skip


def _name_places(axes: Any, names: Iterable[str], width: float) -> None:
    """Write names below the places 0, 1, ... of an axis, aslant if they are long."""
    texts = [_word(shortened(name, 18)) for name in names]
    is_long = sum(map(len, texts)) + 2 * len(texts) > 9 * width
    looks = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if is_long else {}
    axes.set_xticks(range(len(texts)), texts, fontsize=LEGEND, **looks)
    axes.set_xlim(-0.5, len(texts) - 0.5)


def dots(
    x: str,
    measured: Mapping[str, tuple[float, float]],
    printed: Mapping[str, float] | None = None,
    width: float = 7.0,
) -> Figure:
    """Draw a dot for each mean, one below the other, on an axis with the label x that includes 0.

    Standard deviations are lines to either side; printed figures are diamonds. The width is in
    inches.
    """
    result = Figure(figsize=(width, 0.8 + 0.22 * len(measured)), layout="constrained")
    axes, (means, stds) = result.subplots(), np.array([*measured.values()]).T
    places = {name: i for i, name in enumerate(measured)}
    axes.axvline(0, color=GREY, lw=0.8)
    looks: dict[str, Any] = {"fmt": "o", "color": COLOURS[0]}
    axes.errorbar(means, [*places.values()], xerr=np.nan_to_num(stds), **looks)
    beside = {places[name]: value for name, value in (printed or {}).items()}
    looks = {"marker": "D", "fc": "none", "ec": COLOURS[1], "zorder": 3}
    axes.scatter([*beside.values()], [*beside], **looks)
    names = [_word(shortened(name, int(8 * width))) for name in places]
    axes.set_yticks([*places.values()], names, fontsize=LEGEND)
    axes.set(xlabel=x, ylim=(len(places) - 0.5, -0.5))
    axes.locator_params(axis="x", nbins=int(1.2 * width))
    axes.grid(axis="x", alpha=0.3)
    return result


def _word(label: str) -> str:
    """A label that matplotlib can write, and takes for neither a formula nor a hidden label."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in label)
    return text.replace("$", r"\$").replace("_", " _", 1 if text.startswith("_") else 0)


def as_svg(figure: Figure, label: str) -> Element:
    """Return a figure as an element of a page; equal figures give equal bytes.

    Black and white become the colours of the page's text and paper, and styles become attributes,
    as a page allows no styles but its own.

    Args:
      figure: the figure.
      label: a description for those who cannot see it; each figure of a page needs its own.
    """
    file, about = io.BytesIO(), ("Creator", "Date", "Format", "Type")
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": label}), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # letters that matplotlib's own font lacks
        figure.savefig(file, format="svg", transparent=True, metadata=dict.fromkeys(about))
    svg = fromstring(file.getvalue())
    for defs in svg.findall("{*}defs"):
        for style in defs.findall("{*}style"):
            defs.remove(style)
    for part in svg.iter():
        part.tag = part.tag.rpartition("}")[2]
        given = {name.rpartition("}")[2]: value for name, value in part.attrib.items()}
        styles = (one.partition(": ") for one in given.pop("style", "").split("; ") if one)
        given |= {name: value for name, _, value in styles if name != "font-family"}
        if part.tag == "g":  # the names of groups are the same in every figure
            given.pop("id", None)
        part.attrib = {name: PAGE_COLOURS.get(value, value) for name, value in given.items()}
    looks = {"fill": "currentColor", "stroke-linejoin": "round", "class": "drawing"}
    svg.attrib = {"viewBox": svg.attrib["viewBox"], "role": "img", "aria-label": label} | looks
    return svg
