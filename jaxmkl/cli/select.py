"""``jaxmkl select``: choose the rows of a table to label first, before there are labels.

By default the choice is greedy (TED): first the row that explains most of all others, then the one
that explains most of what is left. The kernel is a Gaussian whose bandwidth is the median distance
of the rows, after columns are standardised. On most tables these rows are better to learn from
than rows drawn at random. ``--method facility`` takes rows that are near to many others. The
papers' other methods (cted, rrss, gmkal, lmkal) may rank fewer rows than are asked for, and are
there for comparison. lmkal, with a weight for each row and kernel, takes half a minute for 300
rows and 90 seconds for 1,000. If there are more than 4,000 different rows (2,000 for these other
methods), that many are drawn at random and considered. The column of labels is not an input: it is
the one named by ``--target``, else the one named target, y, label or class.
"""

import contextlib
import csv
import warnings
from argparse import Namespace
from pathlib import Path
from typing import Any, TextIO

import jax
import numpy as np

from jaxmkl.cli import options, show
from jaxmkl.cli.interrupts import Interrupts
from jaxmkl.cli.outputs import OUT, opened, reserved
from jaxmkl.evaluate import UsageError
from jaxmkl.tables import Columns, open_table, usual_target

METHODS = ("ted", "facility", "cted", "rrss", "gmkal", "lmkal", "random")


def add_to(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("select", help="choose rows to label first", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="a table, with or without a target")
    parser.add_argument("--num", type=options.count, required=True, metavar="N", help="how many")
    parser.add_argument("--method", choices=METHODS, default="ted", help="default: ted")
    parser.add_argument("--out", type=Path, metavar="OUT", help=OUT)
    options.table_options(parser, "none")
    parser.set_defaults(command=command)


def command(given: Namespace) -> int:
    """Write the rows, the best first: each with its rank, its place in the table and its cells."""
    show.needs_rich()
    outputs = {"--out": given.out}
    with (
        Interrupts() as interrupts,
        reserved({"FILE": given.file}, outputs, text=["--out"], says=given.out is None),
        opened(given.out) as file,
    ):
        interrupts.supervise(lambda: _select(given, file))
    return interrupts.status


def _select(given: Namespace, file: TextIO) -> None:
    from jaxmkl.design.rows import choose_rows, distinct, prepared
    from jaxmkl.tables.source import ROWS, joined

    table = open_table(given.file, **options.reading(given), whole=True)
    with contextlib.closing(table):
        whole = joined(table, ROWS)
    names, notes = whole.frame.columns, list[str]()
    for name in ("rank", whole.place):
        if name in names:
            text = f"{given.file} has a column {name!r}, as the output of select has"
            raise UsageError(f"{text}; rename it")
    of_arrays = table.target
    target = of_arrays or given.target
    if target is not None and target not in names:
        raise UsageError(f"--target: {given.file} has no column {target!r}")
    if target is None and (target := usual_target(names)) is None:
        usual = "no column is named target, y, label or class, so all are inputs"
        notes.append(f"{usual}: if one holds labels, name it (--target)")
    drop = [*given.drop, *([] if target is None else [target])]
    first = whole._replace(frame=whole.frame[: given.first])
    asked: dict[str, Any] = {"drop": drop, "as_": dict(given.as_), "notes": notes}
    asked["keep"] = of_arrays is not None  # later rows may have more entries
    columns = Columns.decide(first, target, supervised=False, **asked)
    n = len(whole.frame)
    X, _ = columns.encode(whole, columns.init())
    X = prepared("select", X, standardise=True)
    different = distinct(X)
    if given.num > len(different):
        found = f"{len(different)} different ones among {n}"
        raise UsageError(f"--num {given.num}: {given.file} has too few rows, {found}")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        key = jax.random.key(0)
        chosen, pool = choose_rows("select", X[different], given.method, key, given.num)
    for note in (*columns.notes, *(warning.message for warning in warned)):
        show.aside(note)
    if len(pool) < len(different):
        text = f"{len(pool)} of {len(different)} different rows, drawn at random, were considered"
        show.aside(text)
    ranking = different[np.asarray(chosen.ranking)][: int(chosen.num_active)].tolist()
    writer = csv.writer(file)
    writer.writerow(["rank", whole.place, *names])
    for rank, row in enumerate(ranking, 1):
        writer.writerow([rank, whole.numbers[row], *whole.frame.row(row)])
