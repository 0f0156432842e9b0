"""Sections of the page of a run on its learners: how sure and far off they are, what they learned.

Each is a list with one element, or none where there is nothing to show.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from jaxmkl.cli import page
from jaxmkl.cli.page import SMALL, first_seed, framed, ranked, section, spans, steps, table_of
from jaxmkl.cli.results import Learned, Results
from jaxmkl.cli.show import METRICS
from jaxmkl.evaluate import COVERAGE, figure, markup, printable, recalls
from jaxmkl.evaluate.drawings import Panel
from jaxmkl.evaluate.markup import element

IDEAL = "as sure as right"  # the diagonal of a calibration plot
UNIFORM = "as it should be"  # the line that right densities reach
EXACT = "exact"  # the diagonal of predictions against labels
EIGHT = "eight rows of ten"
TENTHS = 10  # groups of rows by their label
CLASSES = 12  # classes that are named, at most
SHOWN = 20  # inputs whose importance is drawn
SLIGHT = 0.02  # share of the range of the labels that an axis of effects has at least
ONE_PARAMETER = re.compile(r"(\w+)\((\w+)=([^,]+)\)")
PERCENT, COUNT = "{:.1f}%".format, "{:,.0f}".format

# --- predictions ---------------------------------------------------------------------------------


def residuals(results: Results) -> list[Element]:
    """Predictions of numbers against labels, and the residuals over the rows."""
    shown = list[Element]()
    for name, learner in results.learners.items():
        if learner.said.get("label"):
            shown += [_against(results, name, learner.said), *_over_rows(results, name, learner)]
    text = "On the grey line a prediction is exact. The other drawings are of labels minus "
    text += "predictions: where their mean is above 0, predictions are too low, and where it is "
    text += "below, too high; the band is one standard deviation to either side."
    return section("How far off it is", text, shown, small=True)


def _against(results: Results, name: str, of: Mapping[str, Sequence[float]]) -> Element:
    """Predictions of rows spread over the run, by their labels."""
    label, said = np.array(of["label"]), np.array(of["prediction"])
    ends = np.array([label.min(), label.max()])
    lines = {EXACT: (ends, ends), "prediction": (label, said)}
    panel = Panel("", "label", "", lines, grey=[EXACT], dots=["prediction"])
    groups = np.array_split(np.argsort(label, kind="stable"), min(TENTHS, len(label)))
    titles = [f"{figure(label[at[0]])} to {figure(label[at[-1]])}" for at in groups]
    texts = {
        "rows": [f"{len(at)}" for at in groups],
        "label, mean": [figure(label[at].mean()) for at in groups],
        "prediction, mean": [figure(said[at].mean()) for at in groups],
    }
    what = f"{name}: predictions by the label, {len(label)} rows{first_seed(results)}"
    return framed(panel, what, table_of("label", titles, texts), width=SMALL)


def _over_rows(results: Results, name: str, learner: Learned) -> list[Element]:
    """The mean of the residuals over the rows, and their deviation from it."""
    means, deviations = (np.array(learner.residuals[key]) for key in ("mean", "deviation"))
    both = {"mean": means, "square": np.square(means) + np.square(deviations)}
    windows = {key: tuple(values.tolist()) for key, values in both.items()}
    of = page.coarser(results.curves._replace(error=windows, labels={}))
    mean, square = map(np.array, of.error.values())
    if not np.isfinite(square).any():
        return []
    deviation = np.sqrt(np.maximum(square - np.square(mean), 0.0))
    band = {"mean, one standard deviation": np.array([mean - deviation, mean + deviation])}
    lines = steps(of.rows, band | {"no error": np.zeros(len(mean))})
    texts = {"mean": map(figure, mean), "deviation": map(figure, deviation)}
    what = f"{name}: labels minus predictions, in each window{first_seed(results)}"
    panel = Panel("", "rows", "", lines, grey=["no error"])
    return [framed(panel, what, table_of("rows", spans(of.rows), texts), width=SMALL)]


def certainty(results: Results) -> list[Element]:
    """The share of right predictions, by the probability that learners gave them."""
    lines, tables = dict[str, tuple[np.ndarray, np.ndarray]](), list[Element]()
    for name, learner in results.learners.items():
        counts = np.array(learner.calibration.get("counts", ()))
        filled = np.flatnonzero(counts).tolist()
        if not filled:
            continue
        sure, right = (100 * np.array(learner.calibration[key])[filled]
                       for key in ("confidence", "accuracy"))  # fmt: skip
        lines[name] = sure, right
        ends = 100 * np.arange(len(counts) + 1) / len(counts)
        bins = (f"{ends[i]:.3g} to {ends[i + 1]:.3g} %" for i in filled)
        texts = {"rows": map(COUNT, counts[filled])}
        texts |= {"sure, mean": map(PERCENT, sure), "right": map(PERCENT, right)}
        tables.append(table_of("sure", bins, texts, f"{name}: the values"))
    if not lines:
        return []
    ends = np.array([100 / len(results.classes), 100.0])
    lines[IDEAL] = ends, ends
    panel = Panel("", "probability of the predicted class, in %", "right, in %", lines,
                  marks=True, grey=[IDEAL], limits=(0, 103))  # fmt: skip
    what = f"rows predicted right, by the probability of the predicted class{first_seed(results)}"
    text = "Above the grey line a learner is right more often than it says, below it less often."
    return section("How sure it is", text, [framed(panel, what), *tables])


def densities(results: Results) -> list[Element]:
    """The calibration of densities: transforms, coverages and the last intervals."""
    each = {name: learner.density for name, learner in results.learners.items()}
    of = {name: density for name, density in each.items() if sum(density.get("pit", ()))}
    if not of:
        return []
    text = "Right densities reach the grey lines. If the probabilities pile up at both ends, the "
    text += "densities are too narrow; if they pile up in the middle, too wide."
    drawn = [_transforms(results, of), _coverages(results, of)]
    drawn += [_intervals(results, name, density["latest"]) for name, density in of.items()]
    return section("How sure it is", text, drawn)


def _transforms(results: Results, of: Mapping[str, Mapping[str, Any]]) -> Element:
    """The histogram of the probabilities that labels would be at most what they were."""
    counts = {name: np.array(density["pit"]) for name, density in of.items()}
    shares = {name: 100 * each / each.sum() for name, each in counts.items()}
    bins = len(next(iter(shares.values())))
    ends = [100 * (i + 1) // bins for i in range(bins)]
    lines = steps(ends, shares | {UNIFORM: np.full(bins, 100 / bins)})
    high = 1.08 * max(200 / bins, float(np.max([*shares.values()])))
    panel = Panel("", "predicted probability of at most the label, in %", "rows, in %", lines,
                  grey=[UNIFORM], limits=(0, high))  # fmt: skip
    titles = [f"{begin} to {end} %" for begin, end in zip((0, *ends), ends, strict=False)]
    texts = {name: map(PERCENT, each) for name, each in shares.items()}
    what = f"probability integral transform of the labels{first_seed(results)}"
    return framed(panel, what, table_of("probability", titles, texts))


def _coverages(results: Results, of: Mapping[str, Mapping[str, Any]]) -> Element:
    """Coverage by parts of the rows, and the other scores there as a table."""
    ends, starts = results.curves.rows, page.parts_of(len(results.curves.rows))
    rows = [ends[i - 1] for i in (*starts[1:], len(ends))]
    found = {(name, metric): page.by_part(results.curves, starts, values)
             for name, density in of.items()
             for metric, values in density["curves"].items()}  # fmt: skip
    lines = {name: 100 * found[name, "coverage"] for name in of}
    lines |= {UNIFORM: np.full(len(rows), 100 * COVERAGE)}
    panel = Panel("", "rows", "labels inside, in %", steps(rows, lines), grey=[UNIFORM])
    what = f"labels inside their interval of {100 * COVERAGE:.0f} %, by parts of the rows"
    texts = {f"{name}: {' '.join(METRICS[metric][0].split())}": map(figure, values)
             for (name, metric), values in found.items()}  # fmt: skip
    table = table_of("rows", spans(rows), texts, "All scores")
    return framed(panel, what + first_seed(results), table)


def _intervals(results: Results, name: str, of: Mapping[str, Sequence[float]]) -> Element:
    """The last labels of a learner, with predictions and intervals."""
    x, around = np.array(of["row"]), f"{100 * COVERAGE:.0f} % interval"
    each: dict[str, Any] = {around: [of["low"], of["high"]]}
    each |= {"prediction": of["prediction"], "label": of["label"]}
    lines = {key: (x, np.array(values)) for key, values in each.items()}
    panel = Panel("", "rows", "target", lines, dots=["label"], bands=[around])
    texts = {key: map(figure, values) for key, values in of.items() if key != "row"}
    what = f"the last {len(x)} labels and their intervals: {name}{first_seed(results)}"
    return framed(panel, what, table_of("row", map(COUNT, x), texts))


# --- what was learned ----------------------------------------------------------------------------


def kernels(results: Results) -> list[Element]:
    """The final kernel weights of the learners that have any."""
    drawn = [_weights(name, dict(of.kernel_weights)) for name, of in results.learners.items()
             if of.kernel_weights]  # fmt: skip
    text = "Weights at the end: the larger, the more a kernel's predictions count."
    return section("Kernels", text, drawn)


def _weights(name: str, weights: dict[str, float]) -> Element:
    """The kernel weights of a learner, by their parameter if they differ in a single one."""
    matches = [match for kernel in weights if (match := ONE_PARAMETER.fullmatch(kernel))]
    families = {match.group(1, 2) for match in matches}
    title, labels = "kernel", list(weights)
    if len(families) == 1 and len(matches) == len(weights):
        title, labels = ", ".join(families.pop()), [match.group(3) for match in matches]
    shown = zip(labels, weights.values(), strict=True)
    folded = table_of("kernel", weights, {"weight": map(repr, weights.values())})
    return ranked(name, f"{title}: weight", shown, f"weights of {name}", folded)


def carriers(results: Results) -> list[Element]:
    """The weights of what carries the predictions, over the rows."""
    shown = list[Element]()
    for name, learner in results.learners.items():
        rows = np.array(learner.shares.get("row", ()))
        if len(rows) < 2:
            continue
        for title, are_banks in (("weights", False), ("weights of the banks", True)):
            some = {one: 100 * np.array(each) for one, each in learner.shares.items()
                    if one != "row" and one.startswith("bank ") == are_banks}  # fmt: skip
            if some:
                lines = {one: (rows, each) for one, each in some.items()}
                texts = {one: map(PERCENT, each) for one, each in some.items()}
                what = f"{name}: {title} in %, before each row{first_seed(results)}"
                panel = Panel("", "rows", "", lines, limits=(0, 103))
                table = table_of("row", map(COUNT, rows), texts)
                shown.append(framed(panel, what, table, width=SMALL))
    text = "A memory of 1 counts all errors so far alike, one of 0.99 about the last hundred: it "
    text += "gains weight where things change. Regressions correct the models below them."
    text += " A bank has the weights of its models in the mixture below the regressions."
    return section("What carries the prediction", text, shown, small=True)


def confusions(results: Results) -> list[Element]:
    """Which classes are taken for which, and the share of each that is found."""
    tables = []
    for name, learner in results.learners.items():
        counts = np.array(learner.confusion)
        if not counts.any():
            continue
        most = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:CLASSES])
        named, shares = [results.classes[i] for i in most], 100 * recalls(counts)[most]
        cells = dict[str, Iterable[str]]()
        cells["rows"] = map(COUNT, counts.sum(axis=1)[most])
        cells["found"] = [PERCENT(share) if share == share else "" for share in shares]
        for one, i in zip(named, most, strict=True):
            cells[f"as {one}"] = map(COUNT, counts[most, i])
        tables += [element("h3", name), markup.columns("class", named, cells)]
    text = "Rows of each class, the share that was predicted so, and what they were taken for"
    text += f"{first_seed(results)}."
    if len(results.classes) > CLASSES:
        text += f" The {CLASSES} most frequent classes are shown."
    return section("Which classes are found", text, tables)


def growth(results: Results) -> list[Element]:
    """How much the error of each learner grows without a column."""
    drawn, number = list[Element](), "{:.3g}".format
    for name, learner in results.learners.items():
        if of := learner.growth:
            folded = table_of("column", of, {"growth": map(number, of.values())})
            most, what = [*of.items()][:SHOWN], f"columns that matter to {name}"
            drawn.append(ranked(name, "growth of the error", most, what, folded, number))
    text = "How much the error grows if a column has the values of other rows, as a share of it: "
    text += "about 0 if the column does not matter, 1 if the error doubles. "
    if results.classes:
        text += "The error is the log loss, or without probabilities the share of mistakes. "
    text += "Where columns tell the same, each alone may seem to matter little."
    return section("Columns that matter", text, drawn)


def importances(results: Results) -> list[Element]:
    """The importance of each input to the learners that learn it."""
    tables = []
    for name, learner in results.learners.items():
        if shares := learner.importances:
            texts = {"importance": map("{:.3f}".format, shares.values())}
            folded = table_of("input", shares, texts, f"{name}: {len(shares)} inputs")
            most = [*learner.column_importances.items()][:SHOWN]
            tables.append(ranked(name, "share", most, f"shares of the metric of {name}", folded))
    text = "Shares of the learned metric, summed over the inputs that a column became: the "
    text += "larger, the more a change of the column changes the kernels. A column whose effect "
    text += "is nearly linear may matter much, and have a small share."
    return section("The learned metric", text, tables)


def words(results: Results) -> list[Element]:
    """The words of texts with which predictions change most."""
    tables = list[Element]()
    for name, learner in results.learners.items():
        for column, of in learner.words.items():
            if of:
                texts = {"rows": [f"{one.rows}" for one in of.values()]}
                texts["change"] = [figure(one.change) for one in of.values()]
                tables.append(element("h3", f"{name}, by {column}: {_unit(learner)}"))
                tables.append(markup.columns("word", of, texts))
    text = "Rows spread over the run, predicted with a word and without it: the mean change "
    text += "of the prediction. Words are in the order of the sum of the changes."
    return section("Words that matter", text, tables)


def _unit(learner: Learned) -> str:
    """The number of a prediction that effects are of."""
    named = f" of {learner.told_class!r}" if learner.told_class else ", in units of the target"
    return f"prediction{named}"


def effects(results: Results) -> list[Element]:
    """How the predictions of each learner change with the columns that matter most."""
    shown = list[Element]()
    for name, learner in results.learners.items():
        limits = _ends(learner)
        for column, of in learner.effects.items():
            names = [one.removeprefix(f"{column}=") for one in of.names]
            x, band = np.array(of.at), np.array([of.low, of.high])
            lines = {EIGHT: (x, band), "mean": (x, np.array(of.mean))}
            panel = Panel("", column, "", lines, marks=True, dots=["mean"] if names else [],
                          bands=[EIGHT], names=names, limits=limits)  # fmt: skip
            texts = {key: map(figure, getattr(of, key)) for key in ("mean", "low", "high")}
            table = table_of(column, names or map(figure, of.at), texts)
            what = printable(f"{name}, by {column}: {_unit(learner)}")
            shown.append(framed(panel, what, table, width=SMALL))
    text = "Predictions of the last rows, each with this column replaced by values of other rows. "
    text += "The band holds the changes of eight rows of ten around their mean: where it is "
    text += "narrow, the column does the same to every row. Columns that go together are moved "
    text += "apart, so far ends may be rows that never were. The drawings of a learner share "
    text += "their vertical axis."
    return section("How columns change predictions", text, shown, small=True)


def _ends(learner: Learned) -> tuple[float, float] | None:
    """The ends of the vertical axis of the effects of a learner, where what is slight looks so."""
    all_of = (value for of in learner.effects.values() for value in (*of.low, *of.high, *of.mean))
    values = np.array([value for value in all_of if math.isfinite(value)])
    if not len(values):
        return None
    of_labels = float(np.ptp(learner.said["label"])) if learner.said else 1.0
    half = 0.53 * (max(float(np.ptp(values)), SLIGHT * of_labels) or 1.0)
    middle = float(values.min() + values.max()) / 2
    return middle - half, middle + half


SECTIONS = (residuals, certainty, densities, kernels, carriers, confusions, growth, importances,
            words, effects)  # fmt: skip
