"""Sections of the page of a run on its predictions: how far off and how sure they are."""

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from jaxmkl.cli.page import (
    PERCENT,
    SMALL,
    by_part,
    coarser,
    first_seed,
    framed,
    parts_of,
    section,
    spans,
    steps,
    table_of,
)
from jaxmkl.cli.results import Curves, Results
from jaxmkl.cli.show import METRICS
from jaxmkl.evaluate import COVERAGE, figure
from jaxmkl.evaluate.drawings import Panel

IDEAL = "as sure as right"  # the diagonal of a calibration plot
UNIFORM = "as it should be"  # the line that right densities reach
EXACT = "exact"  # the diagonal of predictions against labels
TENTHS = 10  # groups of rows by their label


def residuals(results: Results) -> list[Element]:
    """Predictions of numbers against labels, and the residuals over the rows."""
    shown = list[Element]()
    for name, learner in results.learners.items():
        if learner.said and len(learner.said["label"]):
            shown += [_against(results, name, learner.said), *_over_rows(results, name)]
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
    texts = {"rows": [f"{len(at)}" for at in groups]}
    texts["label, mean"] = [figure(label[at].mean()) for at in groups]
    texts["prediction, mean"] = [figure(said[at].mean()) for at in groups]
    what = f"{name}: predictions by the label, {len(label)} rows{first_seed(results)}"
    return framed(panel, what, table_of("label", titles, texts), width=SMALL)


def _over_rows(results: Results, name: str) -> list[Element]:
    """The mean of the residuals over the rows, and their deviation from it."""
    of, rows = results.learners[name].residuals, results.curves.rows
    means, deviations = np.array(of["mean"]), np.array(of["deviation"])
    squares = tuple((np.square(means) + np.square(deviations)).tolist())
    curves = Curves(results.curves.window, rows, {"mean": of["mean"], "square": squares}, {})
    of_windows = coarser(curves)
    mean, square = (np.array(of_windows.error[key]) for key in ("mean", "square"))
    if not np.isfinite(square).any():
        return []
    deviation = np.sqrt(np.maximum(square - np.square(mean), 0.0))
    around = "mean, one standard deviation"
    lines = steps(of_windows.rows, {around: np.array([mean - deviation, mean + deviation])})
    lines |= steps(of_windows.rows, {"no error": np.zeros(len(mean))})
    texts = {"mean": map(figure, mean), "deviation": map(figure, deviation)}
    what = f"{name}: labels minus predictions, in each window{first_seed(results)}"
    panel = Panel("", "rows", "", lines, grey=["no error"])
    return [framed(panel, what, table_of("rows", spans(of_windows.rows), texts), width=SMALL)]


def certainty(results: Results) -> list[Element]:
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
        tables.append(table_of("sure", spans, columns, f"{name}: the values"))
    if not lines:
        return []
    ends = np.array([100 / len(results.classes), 100.0])
    ideal = {IDEAL: (ends, ends)}
    panel = Panel("", "probability of the predicted class, in %", "right, in %", lines | ideal,
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
    high = 1.08 * max(each.max() for each in (*shares.values(), np.array([200 / bins])))
    panel = Panel("", "predicted probability of at most the label, in %", "rows, in %", lines,
                  grey=[UNIFORM], limits=(0, high))  # fmt: skip
    titles = [f"{begin} to {end} %" for begin, end in zip((0, *ends), ends, strict=False)]
    texts = {name: map(PERCENT, each) for name, each in shares.items()}
    what = f"probability integral transform of the labels{first_seed(results)}"
    return framed(panel, what, table_of("probability", titles, texts))


def _coverages(results: Results, of: Mapping[str, Mapping[str, Any]]) -> Element:
    """Coverage by parts of the rows, and the other scores there as a table."""
    ends, starts = results.curves.rows, parts_of(len(results.curves.rows))
    rows = [ends[i - 1] for i in (*starts[1:], len(ends))]
    found = {(name, metric): by_part(results.curves, starts, values)
             for name, density in of.items()
             for metric, values in density["curves"].items()}  # fmt: skip
    lines = {name: 100 * found[name, "coverage"] for name in of}
    lines |= {UNIFORM: np.full(len(rows), 100 * COVERAGE)}
    panel = Panel("", "rows", "labels inside, in %", steps(rows, lines), grey=[UNIFORM])
    what = f"labels inside their interval of {100 * COVERAGE:.0f} %, by parts of the rows"
    what += first_seed(results)
    texts = {f"{name}: {' '.join(METRICS[metric][0].split())}": map(figure, values)
             for (name, metric), values in found.items()}  # fmt: skip
    return framed(panel, what, table_of("rows", spans(rows), texts, "All scores"))


def _intervals(results: Results, name: str, of: Mapping[str, Sequence[float]]) -> Element:
    """The last labels of a learner, with predictions and intervals."""
    x, label, band = np.array(of["row"]), np.array(of["label"]), np.array([of["low"], of["high"]])
    around = f"{100 * COVERAGE:.0f} % interval"
    lines = {around: (x, band), "prediction": (x, np.array(of["prediction"])), "label": (x, label)}
    panel = Panel("", "rows", "target", lines, dots=["label"], bands=[around])
    texts = {name: map(figure, values) for name, values in of.items() if name != "row"}
    what = f"the last {len(x)} labels and their intervals: {name}{first_seed(results)}"
    return framed(panel, what, table_of("row", map("{:,.0f}".format, x), texts))
