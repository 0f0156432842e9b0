"""``report``: write the figures of a JSON file as one page that needs no network."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

from jaxmkl.evaluate import LOW_IS_BETTER, Row, UsageError, figure, lines, markup, settings
from jaxmkl.evaluate.drawings import as_svg, dots
from jaxmkl.evaluate.markup import element

from .options import Options, refused
from .report import Report

NOT_DRAWN = ("label_rate",)  # unless there is nothing else


def run(options: Options, report: Report) -> None:
    """Write the page for a file that ``--json`` wrote."""
    assert options.file is not None
    out = options.out or options.file.with_suffix(".html")
    with refused():
        command, rows = read(options.file)
        out.write_text(page_of(command, rows), "utf-8", "backslashreplace")
    report.say(f"report: {out}")


def read(path: Path) -> tuple[str, list[Row]]:
    """Return the command and the rows of a JSON file.

    Raises:
        UsageError: if ``--json`` did not write it.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
        rows = [Row(**{**row, "mean": _number(row["mean"]), "std": _number(row["std"])})
                for row in content["rows"]]  # fmt: skip
        return str(content["command"]), rows
    except (ValueError, KeyError, TypeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path}: is not a JSON file that --json wrote ({said})") from error


def _number(value: float | str | None) -> float:
    return math.nan if value is None else float(value)


def page_of(command: str, rows: Sequence[Row]) -> str:
    """Return the page: a drawing and a table for each data set, with the printed figures."""
    title = ", ".join(dict.fromkeys(row.paper for row in rows)) or "no figures"
    head = element("header", element("h1", title), element("pre", command))
    text = "Dots: measured, with a standard deviation over the seeds to either side. "
    text += "Diamonds: printed in a paper." if any(row.printed for row in rows) else ""
    head.append(element("p", text, class_="faint"))
    by_name: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_name.setdefault((row.paper, row.dataset), []).append(row)
    return markup.document(title, head, *map(_dataset, by_name.values()))


def _dataset(rows: Sequence[Row]) -> Element:
    of_dataset = {algorithm: line for (_, algorithm), line in lines(rows).items()}
    metrics = list(dict.fromkeys(row.metric for row in rows))
    printed = {row.metric for row in rows if row.printed is not None}
    known = [row for row in rows if row.metric in LOW_IS_BETTER and not math.isnan(row.mean)]
    best = {name: min((row.mean for row in known if row.metric == name), default=None)
            for name in metrics}  # fmt: skip
    head, body = [""], []
    for name in metrics:
        head += [_spaced(name), *(["printed"] if name in printed else [])]
    for algorithm, line in of_dataset.items():
        cells = [element("th", algorithm, scope="row", title=algorithm)]
        for name in metrics:
            row = line.get(name)
            cells.append(markup.cell(row, "best" if row and row.mean == best[name] else ""))
            if row and row.printed is not None:
                looks = {"title": repr(row.printed), "class_": "faint"}
                cells.append(element("td", figure(row.printed), **looks))
            elif name in printed:
                cells.append(element("td"))
        cells.append(element("td", figure(next(iter(line.values())).seconds_per_run)))
        body.append(element("tr", *cells))
    parameters = {algorithm: next(iter(line.values())).parameters
                  for algorithm, line in of_dataset.items()}  # fmt: skip
    arguments = [(algorithm, settings(of)) for algorithm, of in parameters.items()]
    seeds = ", ".join(map(str, sorted({row.seeds for row in rows})))
    drawn = next((name for name in metrics if name not in NOT_DRAWN), metrics[0])
    return markup.section(
        rows[0].dataset,
        element("p", f"Seeds: {seeds}.", class_="faint"),
        element("figure", _drawing([row for row in rows if row.metric == drawn])),
        markup.table([*head, "seconds\na run"], body),
        markup.folded("Arguments", markup.pairs(arguments)),
    )


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _drawing(rows: Sequence[Row]) -> Element:
    measured = {row.algorithm: (row.mean, row.std) for row in rows}
    printed = {row.algorithm: row.printed for row in rows if row.printed is not None}
    drawn = dots(_spaced(rows[0].metric), measured, printed)
    return as_svg(drawn, " ".join(rows[0].name[i] for i in (0, 1, 3)))
