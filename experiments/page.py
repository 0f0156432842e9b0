"""``report``: the figures of a JSON file as one page that needs no network."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from jaxmkl.evaluate import LOW_IS_BETTER, Row, UsageError, figure, markup, settings
from jaxmkl.evaluate.markup import element

from .options import Options, refused
from .report import Report

NOT_DRAWN = ("label_rate",)  # unless there is nothing else


def run(options: Options, report: Report) -> None:
    """Write the page of a file that ``--json`` wrote.

    Raises:
        UsageError: the file cannot be read or holds something else.
    """
    assert options.file is not None
    out = options.out or options.file.with_suffix(".html")
    with refused():
        command, rows = read(options.file)
        out.write_text(page_of(command, rows), "utf-8", "backslashreplace")
    report.say(f"report: {out}")


def read(path: Path) -> tuple[str, list[Row]]:
    """Return the command and the rows of a JSON file.

    Raises:
        UsageError: it does not hold what ``--json`` writes.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
        rows = [Row(**{**row, "mean": _number(row["mean"]), "std": _number(row["std"])})
                for row in content["rows"]]  # fmt: skip
        return str(content["command"]), rows
    except (ValueError, KeyError, TypeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path}: is no JSON file that --json wrote ({said})") from error


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def page_of(command: str, rows: Sequence[Row]) -> str:
    """Return the page: for each data set a table, ours beside the printed figures."""
    names = list(dict.fromkeys((row.paper, row.dataset) for row in rows))
    title = ", ".join(dict.fromkeys(row.paper for row in rows)) or "no figures"
    head = element("header", element("h1", title), element("pre", command))
    text = "Dots: measured, with a standard deviation over the seeds to either side. "
    text += "Diamonds: printed in a paper." if any(row.printed for row in rows) else ""
    head.append(element("p", text, class_="faint"))
    parts = [_dataset([row for row in rows if (row.paper, row.dataset) == name]) for name in names]
    return markup.document(title, head, *parts)


def _dataset(rows: Sequence[Row]) -> Element:
    metrics = list(dict.fromkeys(row.metric for row in rows))
    drawn = next((name for name in metrics if name not in NOT_DRAWN), metrics[0])
    printed = {row.metric for row in rows if row.printed is not None}
    lines: dict[str, dict[str, Row]] = {}
    for row in rows:
        lines.setdefault(row.algorithm, {})[row.metric] = row
    end = _end([row for row in rows if row.metric == drawn])
    head: list[Element | str] = ["", f"{_spaced(drawn)}, 0 to {figure(end)}"]
    for name in metrics:
        head += [_spaced(name), *(["printed"] if name in printed else [])]
    seeds = sorted({row.seeds for row in rows})
    best = {name: _best([row for row in rows if row.metric == name]) for name in metrics}
    body = []
    for algorithm, line in lines.items():
        cells = [
            element("th", algorithm, scope="row", title=algorithm),
            _drawing(line.get(drawn), end),
        ]
        for name in metrics:
            one = line.get(name)
            value = None if one is None else (one.mean, one.std)
            cells.append(markup.cell(value, "best" if value and value[0] == best[name] else ""))
            if name in printed:
                cells.append(_printed(one))
        cells.append(element("td", figure(next(iter(line.values())).seconds_per_run)))
        body.append(element("tr", *cells))
    arguments = [
        (name, settings(next(iter(line.values())).parameters)) for name, line in lines.items()
    ]
    return markup.section(
        rows[0].dataset,
        element("p", f"Seeds: {', '.join(map(str, seeds))}.", class_="faint"),
        markup.table([*head, "seconds\na run"], body),
        element("div", markup.folded("Arguments", markup.pairs(arguments)), class_="long"),
    )


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _best(rows: Sequence[Row]) -> float:
    known = [row.mean for row in rows if not math.isnan(row.mean)]
    return min(known, default=math.nan) if rows[0].metric in LOW_IS_BETTER else math.nan


def _printed(row: Row | None) -> Element:
    if row is None or row.printed is None:
        return element("td")
    return element("td", figure(row.printed), title=repr(row.printed), class_="faint")


def _end(rows: Sequence[Row]) -> float:
    """Return what a drawing's axis, from 0 on, has to reach."""
    ends = [row.mean + (row.std if math.isfinite(row.std) else 0) for row in rows]
    ends += [row.printed for row in rows if row.printed is not None]
    return max((end for end in ends if math.isfinite(end)), default=1.0) or 1.0


def _drawing(row: Row | None, end: float) -> Element:
    """Return a dot for what was measured and a diamond for what is printed, on a line from 0."""
    made = element("svg", class_="bar", aria_hidden="true")
    made.append(element("line", x1=0, x2="100%", y1="50%", y2="50%", class_="track"))
    if row is not None and math.isfinite(row.mean):
        spread = row.std if math.isfinite(row.std) else 0.0
        ends = {"x1": _place(row.mean - spread, end), "x2": _place(row.mean + spread, end)}
        made.append(element("line", y1="50%", y2="50%", class_="whisker", **ends))
        made.append(element("circle", cx=_place(row.mean, end), cy="50%", r=4, class_="ours"))
    if row is not None and row.printed is not None:
        diamond = element("path", d="M0 -5L5 0 0 5-5 0Z", class_="printed")
        place = {"x": _place(row.printed, end), "y": "50%"}
        made.append(element("svg", diamond, overflow="visible", **place))
    return element("td", made, class_="drawn")


def _place(value: float, end: float) -> str:
    return f"{100 * min(max(value / end, 0), 1):.2f}%"
