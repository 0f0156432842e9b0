"""Sections of the page of a run on what learners learned: kernels, columns, words, classes."""

import math
import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element

import numpy as np

from jaxmkl.cli.page import PERCENT, SMALL, first_seed, framed, ranked, section, table_of
from jaxmkl.cli.results import Learned, Results
from jaxmkl.evaluate import figure, markup, printable, recalls
from jaxmkl.evaluate.drawings import Panel
from jaxmkl.evaluate.markup import element

CLASSES = 12  # classes that are named, at most
SHOWN = 20  # inputs whose importance is drawn
SLIGHT = 0.02  # share of the range of the labels that an axis of effects has at least
EIGHT = "eight rows of ten"
ONE_PARAMETER = re.compile(r"(\w+)\((\w+)=([^,]+)\)")


def kernels(results: Results) -> list[Element]:
    """The final kernel weights of the learners that have any."""
    drawn = [_weights(name, dict(of.kernel_weights)) for name, of in results.learners.items()
             if of.kernel_weights]  # fmt: skip
    text = "Weights at the end: the larger, the more a kernel's predictions count."
    return section("Kernels", text, drawn)


def _weights(name: str, weights: dict[str, float]) -> Element:
    """The kernel weights of a learner, by their parameter if they differ in a single one."""
    matches = [ONE_PARAMETER.fullmatch(kernel) for kernel in weights]
    families = {match.group(1, 2) if match else ("weight",) for match in matches}
    title, labels = "kernel", list(weights)
    if len(families) == 1 and all(matches):
        title, labels = ", ".join(families.pop()), [match.group(3) for match in matches if match]
    shown = zip(labels, weights.values(), strict=True)
    folded = table_of("kernel", weights, {"weight": map(repr, weights.values())})
    return ranked(name, f"{title}: weight", shown, f"weights of {name}", folded)


def carriers(results: Results) -> list[Element]:
    """The weights of what carries the predictions, over the rows."""
    shown = list[Element]()
    for name, learner in results.learners.items():
        of = {one: 100 * np.array(each) for one, each in learner.shares.items() if one != "row"}
        rows = np.array(learner.shares.get("row", ()))
        if len(rows) < 2:
            continue
        for title, are_banks in (("weights", False), ("weights of the banks", True)):
            some = {one: each for one, each in of.items() if one.startswith("bank ") == are_banks}
            if not some:
                continue
            lines = {one: (rows, each) for one, each in some.items()}
            texts = {one: map(PERCENT, each) for one, each in some.items()}
            table = table_of("row", map("{:,.0f}".format, rows), texts)
            what = f"{name}: {title} in %, before each row{first_seed(results)}"
            panel = Panel("", "rows", "", lines, limits=(0, 103))
            shown.append(framed(panel, what, table, width=SMALL))
    text = "A memory of 1 counts all errors so far alike, one of 0.99 about the last hundred: it "
    text += "gains weight where things change. Regressions correct the models below them."
    text += " A bank has the weights of its models in the mixture below the regressions."
    return section("What carries the prediction", text, shown, small=True)


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


def growth(results: Results) -> list[Element]:
    """How much the error of each learner grows without a column."""
    drawn = list[Element]()
    for name, learner in results.learners.items():
        if learner.growth:
            of, number = learner.growth, "{:.3g}".format
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
        shares, of_columns = learner.importances, learner.column_importances
        if shares:
            texts = {"importance": map("{:.3f}".format, shares.values())}
            folded = table_of("input", shares, texts, f"{name}: {len(shares)} inputs")
            most, what = [*of_columns.items()][:SHOWN], f"shares of the metric of {name}"
            tables.append(ranked(name, "share", most, what, folded))
    text = "Shares of the learned metric, summed over the inputs that a column became: the "
    text += "larger, the more a change of the column changes the kernels. A column whose effect "
    text += "is nearly linear may matter much, and have a small share."
    return section("The learned metric", text, tables)


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


def confusions(results: Results) -> list[Element]:
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
    text += f"{first_seed(results)}."
    if len(results.classes) > CLASSES:
        text += f" The {CLASSES} most frequent classes are shown."
    return section("Which classes are found", text, tables)
