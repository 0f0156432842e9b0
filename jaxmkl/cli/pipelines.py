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
    asked: dict[str, Any] = {"num_inputs": D, "words": columns.of_words}
    names = [given.learner or options.LEARNER]
    (one,), _ = candidates(names, columns.task, K, dict(given.set), **asked)
    state = one.learner.init(jax.random.key(0), D)
    made = one.learner, state, columns, columns.init()
    return Pipeline(*made, source=source, seen=Seen.nothing(K))


def own_pipeline(path: str | Path, given: Namespace, own: Iterable[str]) -> Pipeline:
    """Load the pipeline of a file, which must have a target.

    Args:
      path: the file.
      given: the options given.
      own: names of options that must not be given, because the pipeline has its own.

    Raises:
      UsageError: if one of them is given, or the pipeline has no target.
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

    Args:
      pipeline: the pipeline.
      names: the columns of the table.
      named_by: the number of first rows that have these; None for all rows.

    Raises:
      ValueError: if the table has none of the pipeline's columns.
    """
    missing, new = pipeline.differences(names)
    where, there = "", ""
    if named_by is not None:
        first = "the first row" if named_by == 1 else f"the first {named_by:,} rows"
        where, there = f" from {first}", " there"
    return [
        *_of(
            missing,
            f"the pipeline's column {{}} is absent{where}; its cells are missing{there}",
            f"the pipeline's columns {{}} are absent{where}; their cells are missing{there}",
        ),
        *_of(
            new,
            "the column {} is not used by the pipeline",
            "the columns {} are not used by the pipeline",
        ),
    ]


def _of(names: Sequence[str], one: str, several: str) -> list[str]:
    """A sentence on one column or several, in the place of ``{}``; none where there are none."""
    return [(one if len(names) == 1 else several).format(shown(names, 20))] if names else []
