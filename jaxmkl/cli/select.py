"""``jaxmkl select``: which rows of a table to label first, before there are labels."""

import contextlib
import csv
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxmkl
from jaxmkl.cli import options, show
from jaxmkl.cli.options import UsageError
from jaxmkl.cli.predict import written
from jaxmkl.tables import Columns, open_table

METHODS = ("ted", "cted", "rrss", "gmkal", "random")
MOST = 3000  # rows with Gram matrices; more by random features
FEATURES = 100  # frequencies
WIDTHS = (0.3, 1.0, 3.0)  # of gmkal's Gaussians, in median distances


def add_to(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("select", help="which rows to label first", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="a table, with or without a target")
    parser.add_argument("--num", type=options.count, required=True, metavar="N", help="of rows")
    parser.add_argument("--method", choices=METHODS, default="ted", help="default: ted")
    parser.add_argument("--out", type=Path, metavar="OUT", help="CSV (default: standard output)")
    options.table_options(parser)
    parser.set_defaults(command=command)


def command(given: Any) -> int:
    """Write the rows, best first: rank, where the row stands, its cells."""
    show.needs_rich()
    from jaxmkl.tables._source import ROWS, joined

    table = open_table(given.file)
    with contextlib.closing(table):
        whole = joined(table, ROWS)
    names = whole.frame.columns
    target = getattr(table, "target", None) or given.target
    if target is not None and target not in names:
        raise UsageError(f"--target: {given.file} has no column {target!r}")
    drop = [*given.drop, *([] if target is None else [target])]
    first = whole._replace(frame=whole.frame[: given.first])
    columns = Columns.decide(first, drop=drop, as_=dict(given.as_), supervised=False)
    n = len(whole.frame)
    X, _ = columns.encode(whole, columns.init())
    X = jaxmkl.tables.scale(X, "standard").astype(np.float32)
    different = np.sort(np.unique(X, axis=0, return_index=True)[1])  # of rows alike the first
    if given.num > len(different):
        found = f"{len(different)} different ones among {n}"
        raise UsageError(f"--num {given.num}: {given.file} has too few rows, {found}")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        ranking = different[ranked(X[different], given.num, given.method)].tolist()
    for note in (*columns.notes, *(warning.message for warning in warned)):
        print(note, file=sys.stderr)
    with written(given.out) as file:
        writer = csv.writer(file)
        writer.writerow(["rank", whole.place, *names])
        for rank, row in enumerate(ranking, 1):
            writer.writerow([rank, whole.numbers[row], *whole.frame.row(row)])
    return 0


def ranked(X: np.ndarray, num: int, method: str) -> list[int]:
    """The ``num`` rows of X (n, D) to label first, best first, by :mod:`jaxmkl.design`.

    Of a Gaussian as wide as the median distance, for gmkal of three; of many rows by their random
    features.
    """
    key = jax.random.key(0)
    if method == "random":
        return jaxmkl.design.random(key, len(X), num_points=num).ranking.tolist()
    width = jaxmkl.kernels.median_distance(X)
    kernels = jaxmkl.Gaussian(np.multiply(width, WIDTHS) if method == "gmkal" else width)
    design: Any = getattr(jaxmkl.design, method)
    several = method == "gmkal"
    if len(X) <= MOST:
        pool = kernels.gram(X)
        found = design(pool if several else pool[0], num_points=num)
    else:
        features = jaxmkl.features.FourierFeatures(FEATURES, True, "mean")
        frequencies = features.init(key, kernels, X.shape[1], X.dtype)
        pool = jax.numpy.swapaxes(features(kernels, frequencies, jax.numpy.asarray(X)), 0, 1)
        found = design(features=pool if several else pool[0], num_points=num)
    return found.ranking.tolist()
