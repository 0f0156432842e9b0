"""The page that ``--report`` writes: a run in one file that needs no network."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from jaxmkl.cli.results import Curves, Results
from jaxmkl.cli.show import COSTS, METRICS, costs, unjudged
from jaxmkl.evaluate import (
    COVERAGE,
    LOW_IS_BETTER,
    figure,
    markup,
    plain,
    printable,
    recalls,
    settings,
    size,
)
from jaxmkl.evaluate.drawings import Panel, as_svg, dots, drawing
from jaxmkl.evaluate.markup import element

CLASSES = 12  # classes that are named, at most
WINDOWS = 80  # windows in a drawing, at most
WIDTH = 5.2  # inches of a drawing
SMALL = 4.2  # inches of one that can be read at 400 pixels
LOG_FROM = 8.0  # ratio of the 95 % and 5 % quantiles beyond which an axis is logarithmic
CLIP_FROM = 2.5  # ratio of the largest value and the 98 % quantile beyond which it is cut off
SHOWN = 20  # inputs whose importance is drawn
IDEAL = "as sure as right"  # the diagonal of a calibration plot
UNIFORM = "as it should be"  # the line that right densities reach
PARTS = 10  # parts of the rows, each with a coverage of its own
NOT_RANKED = "label_rate", "coverage", "width"  # metrics of which neither end is the best
PERCENT = "{:.1f}%".format
ONE_PARAMETER = re.compile(r"(\w+)\((\w+)=([^,]+)\)")


def page(results: Results) -> str:
    """Return a run as one page of HTML.

    Every row was predicted before its label was seen, so all errors are those on new rows.
    """
    name = "standard input" if results.source == "-" else Path(results.source).name
    parts = [
        _head(results, name),
        _table(results),
        _errors(results),
        _labels(results),
        *(_certainty(results) if results.classes else _densities(results)),
        *_kernels(results),
        *_confusions(results),
        *_importances(results),
        *_effects(results),
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
    """A sentence on the best learner, and whether it is better than the baselines."""
    errors = {name: line[results.error].mean for name, line in results.lines.items()}
    judged = [name for name, error in errors.items() if not math.isnan(error)]
    learners = [name for name in judged if name in results.learners]
    baselines = [name for name in judged if name not in results.learners]
    if not learners or not baselines:
        return "No row with a target was judged."
    best, other = min(learners, key=errors.__getitem__), min(baselines, key=errors.__getitem__)
    error, other_error = (_quantity(errors[name], results.error) for name in (best, other))
    if errors[best] >= errors[other]:
        text = f"No learner errs less than the baseline {other!r} ({other_error})"
        return f"{text}; of the learners {best} errs least: {error}."
    share = f"{100 * (1 - errors[best] / errors[other]):.0f} % less than {other!r}"
    return f"{best} errs least: {error}, {share}, the better baseline."


def _quantity(error: float, metric: str) -> str:
    if metric == "mse":
        return f"a mean squared error of {figure(error)}"
    return f"{100 * error:.1f} % mistakes"


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
    also = f" Means and standard deviations over {results.seeds} seeds."
    say = "Every row was predicted before its label was seen. The last two lines are baselines."
    titles = [METRICS[name][0] for name in metrics]
    meanings = [(METRICS[name][0].replace("\n", " "), METRICS[name][1]) for name in metrics]
    meanings.append(("µs a row", "microseconds per row of one run, without compilation"))
    meanings.append(("memory", "of the learner's state at the end"))
    notes = [element("h3", "To be noted"), markup.items(results.notes)] if results.notes else []
    return markup.section(
        "Results",
        element("p", say + (also if results.seeds > 1 else ""), class_="faint"),
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
    text = f"Errors of {windows}{_first_seed(results)}."
    above = sum(int((values > high).sum()) for values in lines.values())
    if above and not is_log:
        count = sum(map(len, lines.values()))
        text += f" Of {count:,} values {above} lie above the drawing."
    title, said = "Errors over the rows", element("p", text, class_="faint")
    baselines = lines.keys() - results.learners.keys()
    panel = Panel("", "rows", "", _steps(of.rows, lines), log_y=is_log, grey=baselines,
                  high=None if is_log else high)  # fmt: skip
    return markup.section(title, said, *_drawn(panel, what, of.rows, lines, unit))


def _labels(results: Results) -> Element:
    of, title = coarser(results.curves), "Labels asked for"
    rates = {name: results.lines[name]["label_rate"].mean for name in results.learners}
    text = ", ".join(f"{name} {100 * rate:.3g} %" for name, rate in rates.items())
    said = element("p", f"Of all labels in the table: {text}.")
    lines = {name: 100 * np.array(of.labels[name]) for name, rate in rates.items() if rate < 1}
    if not lines:
        return markup.section(title, said)
    what = f"labels asked for, in % of the rows of a window{_first_seed(results)}"
    panel = Panel("", "rows", "", _steps(of.rows, lines), high=100)
    return markup.section(title, said, *_drawn(panel, what, of.rows, lines, "%"))


def _first_seed(results: Results) -> str:
    return ", of the first seed" if results.seeds > 1 else ""


def coarser(curves: Curves) -> Curves:
    """Join windows of curves until there are at most ``WINDOWS``.

    A value is the mean of those it joins, weighted by the number of rows of their windows; missing
    ones are left out.
    """
    number = len(curves.rows)
    size = -(-number // WINDOWS)
    starts = np.arange(0, number, size)
    ends = np.minimum(starts + size, number) - 1
    lines = ({name: tuple(by_part(curves, starts, values).tolist()) for name, values in of.items()}
             for of in (curves.error, curves.labels))  # fmt: skip
    return Curves(curves.window * size, tuple(np.array(curves.rows)[ends].tolist()), *lines)


def axis_of(values: np.ndarray, most: float) -> tuple[bool, float]:
    """Return whether an axis is logarithmic, and its end, above which a few values may lie.

    Args:
      values: all values (N,).
      most: an upper bound of the values; if it is finite, the axis is not logarithmic.

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


def _steps(
    rows: Sequence[int], lines: Mapping[str, np.ndarray]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Lines that are constant from the first row of a window to its last."""
    ends = np.repeat((0, *rows), 2)[1:-1]
    return {name: (ends, np.repeat(values, 2)) for name, values in lines.items()}


def _drawn(
    panel: Panel, what: str, rows: Sequence[int], lines: Mapping[str, np.ndarray], unit: str
) -> tuple[Element, Element]:
    """A drawing with a caption, and its values by window (W,) as a table."""

    def text(value: float) -> str:
        return f"{value:.1f}{unit}" if unit and np.isfinite(value) else figure(value)

    texts = {name: map(text, values) for name, values in lines.items()}
    return _figure(panel, what), _values("rows", _windows(rows), texts)


def _figure(panel: Panel, what: str, *below: Element, width: float = WIDTH) -> Element:
    """A drawing with a caption."""
    caption = element("figcaption", what + ", logarithmic" * panel.log_y)
    return element("figure", caption, as_svg(drawing([panel], width), what), *below)


def _values(
    first: str,
    titles: Iterable[str],
    texts: Mapping[str, Iterable[str]],
    title: str = "The values",
) -> Element:
    """The values of a drawing as a table that opens when its title is clicked."""
    return markup.folded(title, markup.columns(first, titles, texts))


def _windows(rows: Sequence[int]) -> list[str]:
    """The first and the last row of each window, as text."""
    return [f"{begin + 1:,} to {end:,}" for begin, end in zip((0, *rows), rows, strict=False)]


def _section(title: str, text: str, parts: Sequence[Element]) -> list[Element]:
    """A section that begins with a text, unless there is nothing to show in it."""
    return [markup.section(title, element("p", text, class_="faint"), *parts)] if parts else []


def _certainty(results: Results) -> list[Element]:
    """The share of right predictions, by the probability that learners gave them."""
    lines, tables = dict[str, tuple[np.ndarray, np.ndarray]](), list[Element]()
    for name, learner in results.learners.items():
        of = learner.calibration
        counts = np.array(of.get("counts", ()))
        filled = np.flatnonzero(counts).tolist()
        if not filled:
            continue
        sure, right = (100 * np.array(of[key])[filled] for key in ("confidence", "accuracy"))
        lines[name] = sure, right
        ends = 100 * np.arange(len(counts) + 1) / len(counts)
        spans = (f"{ends[i]:.3g} to {ends[i + 1]:.3g} %" for i in filled)
        columns = {"rows": map("{:,.0f}".format, counts[filled])}
        columns |= {"sure, mean": map(PERCENT, sure), "right": map(PERCENT, right)}
        tables.append(_values("sure", spans, columns, f"{name}: the values"))
    if not lines:
        return []
    ends = np.array([100 / len(results.classes), 100.0])
    ideal = {IDEAL: (ends, ends)}
    panel = Panel("", "probability of the predicted class, in %", "right, in %", lines | ideal,
                  marks=True, grey=[IDEAL], high=103)  # fmt: skip
    what = f"rows predicted right, by the probability of the predicted class{_first_seed(results)}"
    text = "Above the grey line a learner is right more often than it says, below it less often."
    return _section("How sure it is", text, [_figure(panel, what), *tables])


def _densities(results: Results) -> list[Element]:
    """The calibration of densities: transforms, coverages and the last intervals."""
    each = {name: learner.density for name, learner in results.learners.items()}
    of = {name: density for name, density in each.items() if sum(density.get("pit", ()))}
    if not of:
        return []
    text = "Right densities reach the grey lines. Probabilities that pile up at both ends tell of "
    text += "densities that are too narrow, in the middle of such that are too wide."
    drawn = [_transforms(results, of), _coverages(results, of)]
    drawn += [_intervals(results, name, density["latest"]) for name, density in of.items()]
    return _section("How sure it is", text, drawn)


def _transforms(results: Results, of: Mapping[str, Mapping[str, Any]]) -> Element:
    """The histogram of the probabilities that labels would be at most what they were."""
    counts = {name: np.array(density["pit"]) for name, density in of.items()}
    shares = {name: 100 * each / each.sum() for name, each in counts.items()}
    bins = len(next(iter(shares.values())))
    ends = [100 * (i + 1) // bins for i in range(bins)]
    lines = _steps(ends, shares | {UNIFORM: np.full(bins, 100 / bins)})
    high = 1.08 * max(each.max() for each in (*shares.values(), np.array([200 / bins])))
    panel = Panel("", "predicted probability of at most the label, in %", "rows, in %", lines,
                  grey=[UNIFORM], high=high)  # fmt: skip
    titles = [f"{begin} to {end} %" for begin, end in zip((0, *ends), ends, strict=False)]
    texts = {name: map(PERCENT, each) for name, each in shares.items()}
    what = f"probability integral transform of the labels{_first_seed(results)}"
    return _figure(panel, what, _values("probability", titles, texts))


def _coverages(results: Results, of: Mapping[str, Mapping[str, Any]]) -> Element:
    """Coverage by tenths of the rows, and the other scores there as a table."""
    ends, starts = results.curves.rows, parts_of(len(results.curves.rows))
    rows = [ends[i - 1] for i in (*starts[1:], len(ends))]
    found = {(name, metric): by_part(results.curves, starts, values)
             for name, density in of.items()
             for metric, values in density["curves"].items()}  # fmt: skip
    lines = {name: 100 * found[name, "coverage"] for name in of}
    lines |= {UNIFORM: np.full(len(rows), 100 * COVERAGE)}
    panel = Panel("", "rows", "labels inside, in %", _steps(rows, lines), grey=[UNIFORM])
    what = f"labels inside their interval of {100 * COVERAGE:.0f} %, by tenths of the rows"
    what += _first_seed(results)
    texts = {f"{name}: {' '.join(METRICS[metric][0].split())}": map(figure, values)
             for (name, metric), values in found.items()}  # fmt: skip
    return _figure(panel, what, _values("rows", _windows(rows), texts, "All scores"))


def _intervals(results: Results, name: str, of: Mapping[str, Sequence[float]]) -> Element:
    """The last labels of a learner, with predictions and intervals."""
    x, label, band = np.array(of["row"]), np.array(of["label"]), np.array([of["low"], of["high"]])
    around = f"prediction, {100 * COVERAGE:.0f} % interval"
    lines = {around: (x, band), "label": (x, label)}
    panel = Panel("", "rows", "target", lines, dots=["label"])
    texts = {name: map(figure, values) for name, values in of.items() if name != "row"}
    what = f"the last {len(x)} labels and their intervals: {name}{_first_seed(results)}"
    return _figure(panel, what, _values("row", map("{:,.0f}".format, x), texts))


def parts_of(number: int, parts: int = PARTS) -> list[int]:
    """Divide so many windows as evenly as possible, and return the first window of each part.

    >>> parts_of(12, 5), parts_of(3, 5)
    ([0, 2, 4, 7, 9], [0, 1, 2])
    """
    return np.unique(np.arange(parts) * number // parts).tolist()


def by_part(
    curves: Curves, starts: Sequence[int] | np.ndarray, values: Sequence[float]
) -> np.ndarray:
    """Means over parts of the windows (W,) that begin at ``starts`` (N,).

    A window counts by its number of rows; missing values are left out.
    """
    counts, each = np.diff(curves.rows, prepend=0), np.array(values)
    rows = np.where(np.isnan(each), 0, counts)
    all_rows = np.add.reduceat(rows, starts)
    shares = rows / np.repeat(np.maximum(all_rows, 1), np.diff([*starts, len(rows)]))
    found = np.add.reduceat(np.where(rows > 0, each, 0.0) * shares, starts)
    return np.where(all_rows > 0, found, np.nan)


def _kernels(results: Results) -> list[Element]:
    """The final kernel weights of the learners that have any."""
    drawn = [_weights(name, dict(of.kernel_weights)) for name, of in results.learners.items()
             if of.kernel_weights]  # fmt: skip
    text = "Weights at the end: the larger, the more a kernel's predictions count."
    return _section("Kernels", text, drawn)


def _weights(name: str, weights: dict[str, float]) -> Element:
    """The kernel weights of a learner, by their parameter if they differ in a single one."""
    matches = [ONE_PARAMETER.fullmatch(kernel) for kernel in weights]
    families = {match.group(1, 2) if match else ("weight",) for match in matches}
    title, labels = "kernel", list(weights)
    if len(families) == 1 and all(matches):
        title, labels = ", ".join(families.pop()), [match.group(3) for match in matches if match]
    shown = zip(labels, weights.values(), strict=True)
    folded = _values("kernel", weights, {"weight": map(repr, weights.values())})
    return _dots(name, f"{title}: weight", shown, f"weights of {name}", folded)


def _dots(
    name: str, x: str, shown: Iterable[tuple[str, float]], what: str, table: Element
) -> Element:
    """Numbers of a learner by their names, drawn one below the other, and as a table."""
    measured = {f"{label}: {value:.3f}": (value, 0.0) for label, value in shown}
    return element("figure", element("h3", name), as_svg(dots(x, measured), what), table)


def _importances(results: Results) -> list[Element]:
    """The importance of each input to the learners that learn it."""
    tables = []
    for name, learner in results.learners.items():
        shares, of_columns = learner.importances, learner.column_importances
        if shares:
            texts = {"importance": map("{:.3f}".format, shares.values())}
            folded = _values("input", shares, texts, f"{name}: {len(shares)} inputs")
            most, what = [*of_columns.items()][:SHOWN], f"importance of the columns of {name}"
            tables.append(_dots(name, "importance", most, what, folded))
    text = "Shares of the learned metric, summed over the inputs that a column became: the "
    text += "larger, the more it matters."
    return _section("Columns that matter", text, tables)


def _effects(results: Results) -> list[Element]:
    """How the predictions of each learner change with the columns that matter most."""
    shown, unit = [], "prediction, in units of the target"
    if results.classes:
        unit = "prediction of the " + ("second class" if len(results.classes) == 2 else "class "
                                       "predicted most often")  # fmt: skip
    for name, learner in results.learners.items():
        for column, of in learner.effects.items():
            said = [", ".join(one.removeprefix(f"{column}=") for one in of.names)] * bool(of.names)
            x, band = np.array(of.at), np.array([of.low, of.high])
            lines = {"mean": (x, np.array(of.mean)), "eight rows of ten": (x, band)}
            panel = Panel("", ": ".join([column, *said]), "", lines, marks=True, dots=["mean"])
            texts = {key: map(figure, getattr(of, key)) for key in ("mean", "low", "high")}
            table = _values(column, of.names or map(figure, of.at), texts)
            what = printable(f"{name}, by {column}: {unit}")
            shown.append(_figure(panel, what, table, width=SMALL))
    text = "Predictions of the last rows, each with this column replaced by values of other rows. "
    text += "Where the band is narrow, the column does the same to every row. Columns that go "
    text += "together are moved apart, so far ends may be rows that never were."
    found = _section("How columns change predictions", text, shown)
    for one in found:
        one.set("class", "small")
    return found


def _confusions(results: Results) -> list[Element]:
    """Which classes are taken for which, and the share of each that is found."""
    tables = []
    for name, learner in results.learners.items():
        counts = np.array(learner.confusion)
        if not counts.any():
            continue
        most = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:CLASSES])
        named = [results.classes[i] for i in most]
        shares = 100 * recalls(counts)[most]
        cells = dict[str, Iterable[str]]()
        cells["rows"] = map("{:,.0f}".format, counts.sum(axis=1)[most])
        cells |= {"found": [PERCENT(share) if share == share else "" for share in shares]}
        cells |= {f"as {one}": map("{:,.0f}".format, counts[most, i])
                  for one, i in zip(named, most, strict=True)}  # fmt: skip
        tables += [element("h3", name), markup.columns("class", named, cells)]
    text = "Rows of each class, the share that was predicted so, and what they were taken for"
    text += f"{_first_seed(results)}."
    if len(results.classes) > CLASSES:
        text += f" The {CLASSES} most frequent classes are shown."
    return _section("Which classes are found", text, tables)


def _settings(results: Results) -> Element:
    said = {k.strip("_"): v for k, v in results.settings.items() if v not in (None, (), [], {})}
    given = [(name, str(plain(value))) for name, value in said.items()]
    parameters = {row.algorithm: row.parameters for row in results.rows if row.parameters}
    learners = [(name, settings(arguments)) for name, arguments in parameters.items()]
    made = " · ".join(f"{name} {version}" for name, version in results.versions.items())
    return markup.section(
        "How it was made",
        element("pre", results.command),
        markup.folded("Options", markup.pairs(given)),
        markup.folded("Learners' arguments", markup.pairs(learners)),
        element("p", made, class_="faint"),
    )
