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
      own: those, by their names, that must not be given, as the pipeline has its own.

    Raises:
      UsageError: one of them is given, or the pipeline has no target.
    """
    also = [f"--{name.strip('_')}" for name in own if getattr(given, name)]
    if also:
        raise UsageError(f"{path}: the pipeline has its own; leave out {', '.join(also)}")
    pipeline = load_pipeline(path)
    if pipeline.columns.target is None:
        raise UsageError(f"{path}: the pipeline has no target")
    return pipeline


def differences(pipeline: Pipeline, names: Sequence[str]) -> list[str]:
    """List a sentence for each column that the pipeline has and a table lacks, or vice versa.

    Raises:
      ValueError: none of the pipeline's columns is there.
    """
    missing, new = pipeline.differences(names)
    found = [f"the pipeline's column {name!r} is not there: missing cells" for name in missing]
    return found + [f"the column {name!r} is not one of the pipeline's: ignored" for name in new]
