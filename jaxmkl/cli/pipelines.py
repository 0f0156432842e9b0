"""Pipelines that a command continues, and how the columns of a table differ from theirs."""

from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

from jaxmkl.evaluate import UsageError
from jaxmkl.tables import Pipeline, load_pipeline


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
    """Return a sentence for each column that only the pipeline or only the table has.

    Args:
      pipeline: the pipeline.
      names: the columns of the table.
      named_by: the number of first rows that have these; None for all rows.

    Raises:
      ValueError: if the table has none of the pipeline's columns.
    """
    missing, new = pipeline.differences(names)
    absent = "is absent; its cells are missing"
    if named_by is not None:
        absent = f"is absent from the first {named_by:,} rows; its cells are missing there"
    return [
        *(f"the pipeline's column {name!r} {absent}" for name in missing),
        *(f"the column {name!r} is not used by the pipeline" for name in new),
    ]
