"""The page that ``--report`` writes: a run in one file, which needs no network."""

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from jaxmkl.cli.report import plot
from jaxmkl.cli.report.windows import merged
from jaxmkl.cli.results import Line, Results
from jaxmkl.cli.show import TITLES, unjudged
from jaxmkl.evaluate import LOW_IS_BETTER, figure, markup, plain, settings, size
from jaxmkl.evaluate.markup import element

MEANINGS = {
    "mistake_rate": "share of rows that were given another class",
    "kappa": "agreement with the labels beyond that by chance: 1 is perfect, 0 is chance",
    "kappa_last": "share of the last label's mistakes that were not made",
    "mse": "mean squared error, in the target's units squared",
    "mae": "mean absolute error, in the target's units",
    "skill": "share of the squared error of the mean so far (of all labels) that was not made",
    "skill_last": "share of the squared error of the last label that was not made",
    "label_rate": "share of the labels that were asked for",
}
CLASSES = 12  # that are named, at most
ONE_PARAMETER = re.compile(r"(\w+)\((\w+)=([^,]+)\)")


def page(results: Results) -> str:
    """A run as one page of HTML.

    Every row was predicted before its label was seen, so the page's errors are of new rows.
    """
    name = "standard input" if results.source == "-" else Path(results.source).name
    looks = _looks(results.table)
    parts = [
        _head(results, name),
        _table(results, looks),
        _errors(results, looks),
        _labels(results, looks),
        *_kernels(results.table),
        _columns(results),
        _settings(results),
    ]
    return markup.document(f"{name}: {results.target}", *parts)


def _looks(rows: Iterable[Line]) -> dict[str, dict[str, str]]:
    rows = tuple(rows)
    groups = ([row for row in rows if row.is_baseline is kind] for kind in (False, True))
    return {row.name: plot.look(i, row.is_baseline) for of in groups for i, row in enumerate(of)}


def _head(results: Results, name: str) -> Element:
    made = element("header", element("h1", name))
    made.append(element("p", element("span", "predicting "), element("b", results.target)))
    if results.is_interrupted:
        text = f"Interrupted: what follows is of the first {results.num_rows:,} rows."
        made.append(element("p", text, class_="warning"))
    made.append(element("p", _verdict(results), class_="lead"))
    facts = [("task", results.task), ("rows", f"{results.num_rows:,}")]
    if results.num_unlabelled:
        facts.append(("without a target", f"{results.num_unlabelled:,}, not learned"))
    if results.judged_from != 1:
        facts.append(("errors", unjudged(results)))
    facts += [
        ("inputs", f"{results.num_inputs:,}"),
        ("time with compilation", f"{results.seconds:.1f} s"),
        ("memory at most", size(results.peak_bytes)),
    ]
    if results.classes:
        named, count = ", ".join(results.classes[:CLASSES]), len(results.classes)
        more = f", and {count - CLASSES} more" if count > CLASSES else ""
        facts.insert(1, (f"{count} classes", named + more))
    made.append(markup.pairs(facts))
    return made


def _verdict(results: Results) -> str:
    """Which learner erred least, and whether that is less than without one."""
    metric = "mistake_rate" if results.classes else "mse"
    judged = [(row.metrics[metric][0], row) for row in results.table]
    sides = ([(e, row) for e, row in judged if row.is_baseline is kind and not math.isnan(e)]
             for kind in (False, True))  # fmt: skip
    (error, best), (other_error, other) = (
        min(side, key=lambda one: one[0], default=(math.nan, None)) for side in sides
    )
    if best is None or other is None:
        return "No row with a target was judged."
    if error >= other_error:
        text = f"No learner errs less than the baseline {other.name!r}"
        text += f" ({_quantity(other_error, metric)}); of the learners {best.name} errs least"
        return f"{text}: {_quantity(error, metric)}."
    share = f"{100 * (1 - error / other_error):.0f} % less than {other.name!r}"
    return f"{best.name} errs least: {_quantity(error, metric)}, {share}, the better baseline."


def _quantity(error: float, metric: str) -> str:
    if metric == "mse":
        return f"a mean squared error of {figure(error)}"
    return f"{100 * error:.1f} % mistakes"


def _table(results: Results, looks: Mapping[str, dict[str, str]]) -> Element:
    metrics = list(dict.fromkeys(name for row in results.table for name in row.metrics))
    best = {name: _best(results.table, name) for name in metrics if name != "label_rate"}
    rows = []
    for row in results.table:
        sample = plot.sample(looks[row.name])
        cells = [element("th", sample, row.name, scope="row", title=row.name)]
        for name in metrics:
            value = row.metrics.get(name)
            is_best = value is not None and value[0] == best.get(name)
            cells.append(markup.cell(value, "best" if is_best and not row.is_baseline else ""))
        costs = ("", "") if row.is_baseline else (figure(row.microseconds), size(row.state_bytes))
        cells += [element("td", text) for text in costs]
        rows.append(element("tr", *cells, class_="baseline" if row.is_baseline else "learner"))
    head = ["", *(TITLES.get(name, name) for name in metrics), "µs\na row", "memory"]
    seeds = max(row.seeds for row in results.table)
    also = f" Means and standard deviations over {seeds} seeds." if seeds > 1 else ""
    say = "Every row was predicted before its label was seen. The last two lines are baselines."
    meanings = [(TITLES[name].replace("\n", " "), MEANINGS[name]) for name in metrics]
    meanings.append(("µs a row", "microseconds of one run for a row, compilation apart"))
    meanings.append(("memory", "of the learner's state at the end"))
    return markup.section(
        "Results",
        element("p", say + also, class_="faint"),
        markup.table(head, rows),
        element(
            "div", markup.folded("What the columns mean", markup.pairs(meanings)), class_="long"
        ),
        *_notes(results.notes),
    )


def _notes(notes: tuple[str, ...]) -> list[Element]:
    return [element("h3", "To be noted"), markup.items(notes)] if notes else []


def _best(rows: Iterable[Line], metric: str) -> float:
    """The best mean of the learners, if there are several."""
    values = [row.metrics[metric][0] for row in rows if not row.is_baseline]
    if len(values) == 1:
        return math.nan
    known = [value for value in values if not math.isnan(value)]
    return (min if metric in LOW_IS_BETTER else max)(known, default=math.nan)


def _errors(results: Results, looks: Mapping[str, dict[str, str]]) -> Element:
    of, is_classes = merged(results.curves), bool(results.classes)
    scaled = (lambda v: 100 * v) if is_classes else math.sqrt
    lines = _lines(of.error, scaled, looks)
    values = [value for line in lines for value in line.values]
    axis = plot.axis_of(values, 100.0 if is_classes else math.inf)
    what = (
        "mistakes in %" if is_classes else "root of the mean squared error, in units of the target"
    )
    drawn = plot.curves(what, of.rows, lines, axis, "%" if is_classes else "")
    above = sum(value > axis.high for value in values)
    last = of.rows[-1] - (0, *of.rows)[len(of.rows) - 1]
    shorter = f", the last of {last:,}" if last < of.window else ""
    windows = f"each window of {of.window:,} rows{shorter}" if len(of.rows) > 1 else "all rows"
    text = f"Errors of {windows}{_first_seed(results)}."
    if above:
        text += f" Of {len(values):,} values {above} lie above the drawing."
    return markup.section("Errors over the rows", element("p", text, class_="faint"), drawn)


def _labels(results: Results, looks: Mapping[str, dict[str, str]]) -> Element:
    of, title = merged(results.curves), "Labels asked for"
    learners = [row for row in results.table if not row.is_baseline]
    rates = {row.name: row.metrics["label_rate"][0] for row in learners}
    few = {name: of.labels[name] for name, rate in rates.items() if rate < 1}
    text = ", ".join(f"{name} {100 * rate:.3g} %" for name, rate in rates.items())
    said = element("p", f"Of all labels that were there: {text}.")
    if not few:
        return markup.section(title, said)
    lines = _lines(few, lambda v: 100 * v, looks)
    what = f"labels asked for in %, of all rows of a window{_first_seed(results)}"
    return markup.section(title, said, plot.curves(what, of.rows, lines, plot.linear(100.0), "%"))


def _lines(of: Mapping[str, tuple[float, ...]], scaled: Any, looks: Mapping) -> list[plot.Line]:
    return [plot.Line(k, [scaled(v) for v in values], looks[k]) for k, values in of.items()]


def _first_seed(results: Results) -> str:
    return ", of the first seed" if max(row.seeds for row in results.table) > 1 else ""


def _kernels(rows: Iterable[Line]) -> list[Element]:
    """The weights of each learner's kernels at the end, of those that have any."""
    drawn = [_weights(row) for row in rows if row.kernel_weights]
    if not drawn:
        return []
    text = "Weights at the end: the larger, the more a kernel's predictions count."
    panels = element("div", *drawn, class_="panels")
    return [markup.section("Kernels", element("p", text, class_="faint"), panels)]


def _weights(row: Line) -> Element:
    matches = [ONE_PARAMETER.fullmatch(name) for name in row.kernel_weights]
    families = {match.group(1, 2) if match else None for match in matches}
    if len(families) == 1 and None not in families:
        ((family, parameter),) = families  # type: ignore[misc]
        title, labels = f"{family}, {parameter}", [match.group(3) for match in matches if match]
    else:
        title, labels = "kernel", list(row.kernel_weights)
    known = [abs(weight) for weight in row.kernel_weights.values() if math.isfinite(weight)]
    largest, lines = max(known, default=0.0) or 1.0, []
    for label, (name, weight) in zip(labels, row.kernel_weights.items(), strict=True):
        head = element("th", label, scope="row", title=name)
        value = element("td", f"{weight:.3f}", title=repr(weight))
        lines.append(element("tr", head, _bar(weight / largest), value))
    table = markup.table([title, "", "weight"], lines)
    return element("figure", element("h3", row.name), table)


def _bar(share: float) -> Element:
    """A cell with a bar, hollow for what is below 0, none for what is not finite."""
    width = f"{100 * abs(share) if math.isfinite(share) else 0:.2f}%"
    looks = {"class_": "below"} if share < 0 else {}
    bar = element("rect", height="100%", width=width, **looks)
    return element("td", element("svg", bar, class_="bar", aria_hidden="true"), class_="drawn")


def _columns(results: Results) -> Element:
    return markup.section("What each column became", markup.items(results.columns))


def _settings(results: Results) -> Element:
    said = {k.strip("_"): v for k, v in results.settings.items() if v not in (None, (), [], {})}
    given = [(name, str(plain(value))) for name, value in said.items()]
    learners = [(row.name, settings(row.parameters)) for row in results.table if row.parameters]
    options = markup.folded("Options", markup.pairs(given))
    arguments = markup.folded("Learners' arguments", markup.pairs(learners))
    made = " · ".join(f"{name} {version}" for name, version in results.versions.items())
    return markup.section(
        "How it was made",
        element("pre", results.command),
        element("div", options, arguments, class_="long"),
        element("p", made, class_="faint"),
    )
