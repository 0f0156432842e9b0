r"""Markdown with figures: the files of this folder, which together are RESULTS.md.

A *figure* is a text such as ``amkl.tables; tom; raker; mse; unit = 1e-3; digits = 2``. The fields
are separated by semicolons. Those without a name are, in this order, the play, the data set, the
algorithm and the metric, whichever of them is not given otherwise; each may be written by its name
too. The other fields are:

    take         the mean, which is the default, or std, error (the standard error), printed,
                 seeds, seconds (of a run)
    dataset      several data sets, or patterns of their names, between bars, none of which may be
                 missing, if take is one of least, most, average, largest_error (the largest
                 standard error), better, worse (how many means are two standard errors above or
                 below 0)
    algorithm    likewise several, or patterns
    unit         the divisor of the number; % is 0.01; default: 1
    digits       decimals; default: 1
    significant  significant digits, instead of decimals
    look         some of the words ``short`` (.5, not 0.5), ``signed`` (+0.5), ``comma`` (1,000)
    missing      the text where there is no such figure, which is an error if its data set was run

A text that begins with an equals sign is computed from several figures, each in square brackets:
``= 100 * ([amkl] / [raker] - 1); digits = 1``. There are + - * / ** min max abs sqrt.

In a line of text, a figure is in double braces: ``{{...}}``. A table is a fenced block::

    ```figures
    play: amkl.tables                   fields that all figures of the table share
    columns: tom | air | big = twitter  titles of columns, and keys where these are others
    metric: mse                         fields of these columns; further columns may follow
    `raker` :: {raker; digits = 2}      a line: its title, and the text of each of its cells
    ours, theirs :: {a} :: {b} :: {c}   the same with a text for each column
    ```

The key of a column is the data set, and replaces ``@`` in the text of a cell. With ``rows:`` in
the place of ``columns:`` the table is turned: keys have lines, and each line above is a column.
``corner:`` is the title of the first column. Titles of lines may have several cells, ``a | b``,
and figures. Columns of data sets that are left out have the field ``missing: –``; what a paper
prints is there all the same.

A table or figure whose data set was not run says so.
"""

import ast
import fnmatch
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxmkl.evaluate import Row, UsageError

from ..papers.design_wins import apart
from ..papers.printed import printed
from .entries import Entries, rows_of

SECTIONS = ("head", "amkl", "bomkl", "oks", "multitask", "design", "decisions", "bench")
NAME = ("play", "dataset", "algorithm", "metric")
FIELDS = (*NAME, "take", "unit", "digits", "significant", "look", "missing")
BLOCK = "```figures"
NOT_PLAYED, NO_TABLE = "(not played yet)", "This table has not been played yet."
FIGURE, CELL = re.compile(r"\{\{(.*?)\}\}"), re.compile(r"\{(.*?)\}")
Fields = Mapping[str, str]
Figures = Mapping[tuple[str, ...], Row]  # by play, data set, algorithm and metric

OF_ONE: Mapping[str, Callable[[Row], float | None]] = {
    "mean": lambda row: row.mean,
    "std": lambda row: row.std,
    "error": lambda row: row.std / math.sqrt(row.seeds),
    "printed": lambda row: row.printed,
    "seeds": lambda row: row.seeds,
    "seconds": lambda row: row.seconds_per_run,
}
OF_SEVERAL: Mapping[str, Callable[[Sequence[Row]], float]] = {
    "least": lambda rows: min(row.mean for row in rows),
    "most": lambda rows: max(row.mean for row in rows),
    "average": lambda rows: float(np.mean([row.mean for row in rows])),
    "largest_error": lambda rows: max(row.std / math.sqrt(row.seeds) for row in rows),
    "better": lambda rows: apart(rows)[0],
    "worse": lambda rows: apart(rows)[1],
}
FUNCTIONS: Mapping[str, Callable] = {"min": min, "max": max, "abs": abs, "sqrt": math.sqrt}
ALLOWED = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Load, ast.Constant,
           ast.operator, ast.unaryop)  # fmt: skip


class Missing(ValueError):
    """The error of a figure that does not exist."""


class NotPlayed(Missing):
    """The error of a figure whose play has not been run on these data sets."""


def rendered(templates: Path, entries: Entries) -> str:
    """Return the text of all sections, with the figures of entries.

    Raises:
        UsageError: if a figure is not there or cannot be read; the message names the line.
    """
    figures, texts = figures_of(entries), []
    for name in (f"{section}.md" for section in SECTIONS):
        text = (templates / name).read_text("utf-8")
        texts.append(filled(text, figures, name).strip("\n"))
    return "\n\n".join(texts) + "\n"


def figures_of(entries: Entries) -> Figures:
    """Return the rows of all entries by play, data set, algorithm and metric."""
    return {
        (play, *row.name[1:]): row
        for play, of_play in entries.items()
        for entry in of_play.values()
        for row in rows_of(entry)
    }


def filled(text: str, figures: Figures, name: str) -> str:
    """Return a template, which is the text of a file of this name, with its figures.

    >>> row = Row("amkl", "tom", "raker", "mse", 0.00098, 0.0, 10)
    >>> filled("It is {{amkl.tables; tom; raker; mse; unit = 1e-3; digits = 2}}.",
    ...        {("amkl.tables", "tom", "raker", "mse"): row}, "amkl.md")
    'It is 0.98.'
    """
    lines, made, at = text.split("\n"), list[str](), 0
    while at < len(lines):
        began, at = at, at + 1
        try:
            if lines[began] == BLOCK:
                at = lines.index("```", began) + 1
                made += table(lines[began + 1 : at - 1], figures)
            else:
                made.append(FIGURE.sub(lambda m: in_text(m[1], figures), lines[began]))
        except NotPlayed:
            made.append(NO_TABLE)
        except ValueError as error:
            raise UsageError(f"{name}, line {began + 1}: {error}") from error
    return "\n".join(made)


def table(lines: Sequence[str], figures: Figures) -> list[str]:
    """Return the lines of a table, given those of its block."""
    corner, turned = "", False
    shared: dict[str, str] = {}
    groups: list[tuple[list[str], dict[str, str]]] = []
    bodies: list[tuple[str, list[str]]] = []
    for line in filter(str.strip, lines):
        title, *cells = map(str.strip, line.split("::"))
        if cells:
            bodies.append((title, cells))
            continue
        word, colon, value = map(str.strip, line.partition(":"))
        if word in ("columns", "rows"):
            turned = word == "rows"
            groups.append(([key.strip() for key in value.split(" | ")], {}))
        elif word == "corner":
            corner = value
        elif colon and word in FIELDS:
            (groups[-1][1] if groups else shared)[word] = value
        else:
            raise ValueError(f"{line!r} is neither a field nor a line of the table")
    keys = [
        ((title := key.rpartition(" = ")[0] or key), key.removeprefix(f"{title} = "), given)
        for names, given in groups
        for key in names
    ]
    columns = [[title] for title, _, _ in keys]
    for title, cells in bodies:
        if len(cells) not in (1, len(keys)):
            raise ValueError(f"the line {title!r} has {len(cells)} cells for {len(keys)} keys")
        texts = cells if len(cells) > 1 else cells * len(keys)
        for column, (_, key, given), text in zip(columns, keys, texts, strict=True):
            column.append(
                cell(text.replace("@", key), {"dataset": key, **shared, **given}, figures)
            )
    titles = [corner, *(cell(title, shared, figures) for title, _ in bodies)]
    grid = [titles, *columns] if turned else list(zip(titles, *columns, strict=True))
    head, *rest = ["| " + " | ".join(line) + " |" for line in grid]
    width = head.count("|") - 1
    return [head.replace("|  |", "| |"), "|" + "---|" * width, *rest]


def cell(text: str, given: Fields, figures: Figures) -> str:
    """Return the text of a cell with its figures, those in braces.

    The error of a figure that is missing is not shown.

    >>> cell("{raker; missing = –} ± {raker; take = error; missing = –} / 7",
    ...      {"play": "amkl.tables", "dataset": "none", "metric": "mse"}, {})
    '– / 7'
    """
    return CELL.sub(lambda m: shown(m[1], given, figures), text).replace("– ± –", "–")


def shown(text: str, given: Fields, figures: Figures) -> str:
    """Return a figure, or a value computed from several, as text.

    Raises:
        ValueError: if a field is wrong, or there is no such figure.
    """
    formula, options, named = "", text, dict[str, str]()
    if text.startswith("="):
        formula, *rest = re.split(r";(?![^\[]*\])", text[1:])
        options, named = ";".join(rest), dict.fromkeys(NAME, "")
    fields = fields_of(options, {**named, **given})
    try:
        value = worked_out(formula, given, figures) if formula else number(fields, figures)
    except Missing:
        if "missing" not in fields:
            raise
        return fields["missing"]
    return formatted(value, fields)


def in_text(text: str, figures: Figures) -> str:
    """Return a figure for a line of text."""
    try:
        return shown(text, {}, figures)
    except NotPlayed:
        return NOT_PLAYED


def fields_of(text: str, given: Fields) -> dict[str, str]:
    """Return the fields of a figure by name; those without a name are the ones not given.

    >>> fields_of("raker; digits = 2", {"play": "amkl.tables", "dataset": "tom", "metric": "mse"})
    {'play': 'amkl.tables', 'dataset': 'tom', 'metric': 'mse', 'digits': '2', 'algorithm': 'raker'}
    """
    fields, nameless = dict(given), []
    for part in filter(str.strip, text.split(";")):
        name, equals, value = map(str.strip, part.partition("="))
        if equals and name in FIELDS:
            fields[name] = value
        else:
            nameless.append(part.strip())
    open_names = [name for name in NAME if name not in fields]
    if len(nameless) != len(open_names):
        wanted = ", ".join(open_names) or "no field without a name"
        raise ValueError(f"the figure {text.strip()!r} should name: {wanted}")
    return {**fields, **dict(zip(open_names, nameless, strict=True))}


def number(fields: Fields, figures: Figures) -> float:
    """Return the number that fields stand for."""
    play, dataset, algorithm, metric = name = tuple(fields[one] for one in NAME)
    take = fields.get("take", "mean")
    if take in OF_ONE:
        if take == "printed" and name not in figures:
            value = printed(play.split(".")[0], dataset, algorithm, metric)
            if value is not None:
                return value
        if name not in figures:
            where = f"data set {dataset!r}, algorithm {algorithm!r}, metric {metric!r}"
            played = any(other[:2] == name[:2] for other in figures)
            kind = Missing if played else NotPlayed
            raise kind(f"the play {play!r} has no figure for {where}")
        value = OF_ONE[take](figures[name])
        if value is None:
            raise Missing(f"nothing is printed for {', '.join(name)}")
        if math.isnan(value):
            raise Missing(f"the figure for {', '.join(name)} is not a number")
        return value
    if take not in OF_SEVERAL:
        raise ValueError(f"take is one of {', '.join((*OF_ONE, *OF_SEVERAL))}; got {take!r}")
    of_all = [name for name in figures if (name[0], name[-1]) == (play, metric)]
    rows = []
    for of_set, of_learner in itertools.product(dataset.split(" | "), algorithm.split(" | ")):
        pattern = play, of_set.strip(), of_learner.strip(), metric
        matching = [name for name in of_all if all(map(fnmatch.fnmatchcase, name, pattern))]
        if not matching:
            where = f"algorithm {pattern[2]!r}, metric {metric!r} on {pattern[1]}"
            kind = Missing if any(name[0] == play for name in figures) else NotPlayed
            raise kind(f"the play {play!r} has no figures of {where}")
        rows += [figures[name] for name in matching]
    return OF_SEVERAL[take](rows)


def worked_out(text: str, given: Fields, figures: Figures) -> float:
    """Return the value of a formula with figures in square brackets.

    >>> worked_out("max(1, 2) * (3 - 1)", {}, {})
    4
    """
    formula = re.sub(
        r"\[(.*?)\]", lambda m: f"({number(fields_of(m[1], given), figures)!r})", text
    ).strip()
    try:
        tree = ast.parse(formula, mode="eval")
    except SyntaxError as error:
        raise ValueError(f"{text.strip()!r} is no formula") from error
    for node in ast.walk(tree):
        if not isinstance(node, ALLOWED) or (
            isinstance(node, ast.Name) and node.id not in FUNCTIONS
        ):
            raise ValueError(f"{text.strip()!r} has what no formula has")
    return eval(compile(tree, "formula", "eval"), {"__builtins__": {}}, dict(FUNCTIONS))


def formatted(value: float, fields: Fields) -> str:
    """Return a number as its fields say.

    >>> formatted(0.00272, {"unit": "1e-3", "digits": "2"})
    '2.72'
    >>> formatted(0.0123456, {"significant": "3", "look": "short"})
    '.0123'
    """
    unit, looks = fields.get("unit", "1"), fields.get("look", "").split()
    value = value / (0.01 if unit == "%" else float(unit))
    digits = int(fields.get("digits", "1"))
    if "significant" in fields and value:
        value = float(f"{value:.{int(fields['significant']) - 1}e}")
        digits = max(0, int(fields["significant"]) - 1 - math.floor(math.log10(abs(value))))
    sign, comma = "+" if "signed" in looks else "", "," if "comma" in looks else ""
    text = f"{value:{sign}{comma}.{digits}f}"
    if not text.strip("+-0.,"):
        text = text.lstrip("-")  # no minus before zero
    return re.sub(r"^([+-]?)0\.", r"\1.", text) if "short" in looks else text
