"""How models of packages look in pictures: a colour for each package, a mark for each model."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..report import Report
from .peer_models import Model

# grey and colours of medium lightness are visible on light and dark
COLOURS = {
    "jaxmkl": "#e8590c",
    "river": "#2f9e44",
    "capymoa": "#7c6cf0",
    "sklearn": "#1c86d1",
    "lightgbm": "#c2255c",
    "xrfm": "#0c9aa0",
    "numpy": "#7a7a7a",
}
GREY = "#7a7a7a"
MARKS = "osD^vP"
Looks = Mapping[str, dict[str, Any]]


def looks_of(models: Iterable[Model]) -> Looks:
    """Return the colour and the mark of models by name; ours are larger, and behind."""
    found: dict[str, dict[str, Any]] = {}
    counts = dict.fromkeys(COLOURS, 0)
    for model in models:
        ours = model.package == "jaxmkl"
        shape = {"color": COLOURS[model.package], "marker": MARKS[counts[model.package]]}
        found[model.name] = {**shape, "ls": "", "ms": 8 if ours else 6, "zorder": 3 - ours}
        counts[model.package] += 1
    return found


def in_grey(axes: Axes) -> None:
    """Draw all but the data in grey, over a grid."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(color=GREY, size=9)
    axes.tick_params(colors=GREY, labelsize=8)
    axes.title.set(color=GREY, size=10)
    axes.grid(color=GREY, alpha=0.25)
    for spine in axes.spines.values():
        spine.set_color(GREY)


def legend(figure: Figure, looks: Looks, seen: Collection[str], columns: int) -> None:
    """Draw a legend of the models that were seen, below the figure."""
    names = [name for name in looks if name in seen]
    figure.legend(
        handles=[Line2D([], [], label=name, **{**looks[name], "ms": 6}) for name in names],
        loc="outside lower center",
        ncols=columns,
        labelcolor=GREY,
        frameon=False,
        fontsize=9,
    )


def saved(figure: Figure, path: Path, report: Report) -> None:
    """Write a picture as SVG: text stays text, and the same figures give the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        figure.savefig(path, transparent=True, metadata={"Date": None})
    report.say(f"picture: {path}")
