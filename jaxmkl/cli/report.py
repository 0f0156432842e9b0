"""The page that ``--report`` writes: a run in one file that needs no network."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from jaxmkl.cli.page import axis_of, coarser, first_seed, framed, spans, steps, table_of
from jaxmkl.cli.page_learners import CLASSES, SECTIONS
from jaxmkl.cli.results import Results
from jaxmkl.cli.show import COSTS, METRICS, costs, unjudged
from jaxmkl.evaluate import LOW_IS_BETTER, figure, markup, plain, settings, size
from jaxmkl.evaluate.drawings import Panel
from jaxmkl.evaluate.markup import element

NOT_RANKED = "label_rate", "coverage", "width"  # metrics of which neither end is the best


def page(results: Results) -> str:
    """Return a run as one page of HTML.

    Every row was predicted before its label was seen, so all errors are those on new rows.
    """
    name = "standard input" if results.source == "-" else Path(results.source).name
    advice = [one.text for one in results.advice]
    parts = [
        _head(results, name),
        *([markup.section("What next", markup.items(advice))] if advice else []),
        _table(results),
        _errors(results),
        _labels(results),
        *(part for section in SECTIONS for part in section(results)),
        markup.section("What each column became", markup.items(results.columns)),
        _settings(results),
    ]
    return markup.document(f"{name}: {results.target}", *parts)


def _head(results: Results, name: str) -> Element:
    made = element("header", element("h1", name))
    made.append(element("p", element("span", "predicting "), element("b", results.target)))
    if results.is_interrupted:
        why = f"Ended early ({results.ended_by})" if results.ended_by else "Interrupted"
        text = f"{why}: what follows covers the first {results.num_rows:,} rows."
        made.append(element("p", text, class_="warning"))
    made.append(element("p", _verdict(results), class_="lead"))
    facts = [("task", results.task), ("rows", f"{results.num_rows:,}")]
    if results.num_unlabelled:
        facts.append(("without a target", f"{results.num_unlabelled:,}, not learned"))
    facts += [
        ("inputs", f"{results.num_inputs:,}"),
        ("time with compilation", f"{results.seconds:.1f} s"),
        ("memory at most", size(results.peak_bytes)),
    ]
    if results.classes:
        named, count = ", ".join(results.classes[:CLASSES]), len(results.classes)
        more = f", and {count - CLASSES} more" if count > CLASSES else ""
        facts.append((f"{count} classes", named + more))
    if results.judged_from != 1:
        facts.append(("errors", unjudged(results)))
    made.append(markup.pairs(facts))
    return made


def _verdict(results: Results) -> str:
    """A sentence on the best learner, and whether it is better than the baselines."""
    errors = {name: line[results.error].mean for name, line in results.lines.items()}
    judged = [name for name, error in errors.items() if not math.isnan(error)]
    learners = [name for name in judged if name in results.learners]
    baselines = [name for name in judged if name not in results.learners]
    if not learners or not baselines:
        return "No row with a target was judged."
    best, other = min(learners, key=errors.__getitem__), min(baselines, key=errors.__getitem__)
    error, other_error = (
        f"{100 * errors[name]:.1f} % mistakes"
        if results.classes
        else f"a mean squared error of {figure(errors[name])}"
        for name in (best, other)
    )
    if errors[best] >= errors[other]:
        text = f"No learner errs less than the baseline {other!r} ({other_error})"
        return f"{text}; of the learners {best} errs least: {error}."
    share = f"{100 * (1 - errors[best] / errors[other]):.0f} % less than {other!r}"
    return f"{best} errs least: {error}, {share}, the best baseline."


def _table(results: Results) -> Element:
    metrics, body = results.metrics, []
    best = {metric: _best(results, metric) for metric in metrics if metric not in NOT_RANKED}
    for name, line in results.lines.items():
        is_learner = name in results.learners
        cells = [element("th", name, scope="row", title=name)]
        for metric in metrics:
            row = line.get(metric)
            is_best = is_learner and row is not None and row.mean == best.get(metric)
            cells.append(markup.cell(row, "best" if is_best else ""))
        cells += [element("td", text) for text in costs(results, name)]
        body.append(element("tr", *cells, class_="learner" if is_learner else "baseline"))
    say = "Every row was predicted before its label was seen. Lines in grey are baselines."
    if results.seeds > 1:
        say += f" Means and standard deviations over {results.seeds} seeds."
    titles = [METRICS[name][0] for name in metrics]
    meanings = [(METRICS[name][0].replace("\n", " "), METRICS[name][1]) for name in metrics]
    meanings.append(("µs a row", "microseconds per row of one run, without compilation"))
    meanings.append(("memory", "of the learner's state at the end"))
    notes = [element("h3", "To be noted"), markup.items(results.notes)] if results.notes else []
    return markup.section(
        "Results",
        element("p", say, class_="faint"),
        markup.table(["", *titles, *COSTS], body),
        markup.folded("What the columns mean", markup.pairs(meanings)),
        *notes,
    )


def _best(results: Results, metric: str) -> float:
    """The best mean among several learners; NaN for a single one."""
    values = [results.lines[name][metric].mean for name in results.learners]
    known = [value for value in values if not math.isnan(value) and len(values) > 1]
    return (min if metric in LOW_IS_BETTER else max)(known, default=math.nan)


def _errors(results: Results) -> Element:
    of = coarser(results.curves)
    if results.classes:
        what, unit = "mistakes in %", "%"
        lines = {name: 100 * np.array(values) for name, values in of.error.items()}
    else:
        what, unit = "root of the mean squared error, in units of the target", ""
        lines = {name: np.sqrt(values) for name, values in of.error.items()}
    is_log, high = axis_of(np.concatenate([*lines.values()]), 100 if unit else math.inf)
    last = of.rows[-1] - (0, *of.rows)[len(of.rows) - 1]
    shorter = f", the last of {last:,}" if last < of.window else ""
    windows = f"each window of {of.window:,} rows{shorter}" if len(of.rows) > 1 else "all rows"
    text = f"Errors of {windows}{first_seed(results)}."
    above = sum(int((values > high).sum()) for values in lines.values())
    if above and not is_log:
        count = sum(map(len, lines.values()))
        text += f" Of {count:,} values {above} lie above the drawing."
    panel = Panel("", "rows", "", steps(of.rows, lines), log_y=is_log,
                  grey=lines.keys() - results.learners.keys(),
                  limits=None if is_log else (0, high))  # fmt: skip
    said = element("p", text, class_="faint")
    drawn = _by_window(panel, what, of.rows, lines, unit)
    return markup.section("Errors over the rows", said, *drawn)


def _labels(results: Results) -> Element:
    of, title = coarser(results.curves), "Labels asked for"
    rates = {name: results.lines[name]["label_rate"].mean for name in results.learners}
    text = ", ".join(f"{name} {100 * rate:.3g} %" for name, rate in rates.items())
    said = element("p", f"Of all labels in the table: {text}.")
    lines = {name: 100 * np.array(of.labels[name]) for name, rate in rates.items() if rate < 1}
    if not lines:
        return markup.section(title, said)
    what = f"labels asked for, in % of the rows of a window{first_seed(results)}"
    panel = Panel("", "rows", "", steps(of.rows, lines), limits=(0, 100))
    return markup.section(title, said, *_by_window(panel, what, of.rows, lines, "%"))


def _by_window(
    panel: Panel, what: str, rows: Sequence[int], lines: Mapping[str, np.ndarray], unit: str
) -> tuple[Element, Element]:
    """A drawing with a caption, and its values by window (W,) as a table."""

    def text(value: float) -> str:
        return f"{value:.1f}{unit}" if unit and np.isfinite(value) else figure(value)

    texts = {name: map(text, values) for name, values in lines.items()}
    return framed(panel, what), table_of("rows", spans(rows), texts)


def _settings(results: Results) -> Element:
    said = {k.strip("_"): v for k, v in results.settings.items() if v not in (None, (), [], {})}
    given = [(name, str(plain(value))) for name, value in said.items()]
    parameters = {row.algorithm: row.parameters for row in results.rows if row.parameters}
    learners = [(name, settings(arguments)) for name, arguments in parameters.items()]
    made = " · ".join(f"{name} {version}" for name, version in results.versions.items())
    return markup.section(
        "How it was made",
        markup.command(results.command),
        markup.folded("Options", markup.pairs(given)),
        markup.folded("Learners' arguments", markup.pairs(learners)),
        element("p", made, class_="faint"),
    )
