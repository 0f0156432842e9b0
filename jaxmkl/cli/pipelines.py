"""Pipelines that a command begins or continues, and how a table differs from them."""

from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from jaxmkl import Pipeline, load_pipeline
from jaxmkl._checks import shown
from jaxmkl.cli import options
from jaxmkl.evaluate import UsageError, candidates
from jaxmkl.tables import Seen

if TYPE_CHECKING:
    from jaxmkl.tables import Columns


def new_pipeline(given: Namespace, columns: "Columns", source: str) -> Pipeline:
    """Make the pipeline of ``--learner`` and ``--set``, before its first row.

    Raises:
      UsageError: if there is no such learner, or it does not take a setting.
    """
    K, D = len(columns.classes), len(columns.features)
    asked: dict[str, Any] = {"words": columns.of_words, "flags": columns.flags, "num_inputs": D}
    names = [given.learner or options.LEARNER]
    (one,), _ = candidates(names, columns.task, K, dict(given.set), **asked)
    state = one.learner.init(jax.random.key(0), D)
    made = one.learner, state, columns, columns.init()
    return Pipeline(*made, source=source, seen=Seen.nothing(K))


def own_pipeline(path: str | Path, given: Namespace, own: Iterable[str]) -> Pipeline:
    """Load the pipeline of a file, which must have a target.

    Raises:
      UsageError: if it has none, or an option was given of which the pipeline has its ``own``.
    """
    also = [f"--{name.strip('_')}" for name in own if getattr(given, name)]
    if also:
        raise UsageError(f"{path}: the pipeline has its own settings; leave out {', '.join(also)}")
    pipeline = load_pipeline(path)
    if pipeline.columns.target is None:
        raise UsageError(f"{path}: the pipeline has no target")
    return pipeline


def differences(
    pipeline: Pipeline, names: Sequence[str], named_by: int | None = None
) -> list[str]:
    """Say which columns only the pipeline has, and which only the table has, a sentence each.

    ``named_by`` is the number of first rows that have the ``names`` of the table; None for all.

    Raises:
      ValueError: if the table has none of the pipeline's columns.
    """
    missing, new = pipeline.differences(names)
    where, there = "", ""
    if named_by is not None:
        first = "the first row" if named_by == 1 else f"the first {named_by:,} rows"
        where, there = f" from {first}", " there"
    absent = ("column {} is", "its") if len(missing) == 1 else ("columns {} are", "their")
    unused = "column {} is" if len(new) == 1 else "columns {} are"
    found = {
        f"the pipeline's {absent[0]} absent{where}; {absent[1]} cells are missing{there}": missing,
        f"the {unused} not used by the pipeline": new,
    }
    return [text.format(shown(of, 20)) for text, of in found.items() if of]
