"""Models that a command goes on with, and what tells their tables from the one that is given."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jaxmkl.evaluate import UsageError
from jaxmkl.tables import Model, load_model


def own_model(path: str | Path, given: Any, own: Iterable[str]) -> Model:
    """The model in a file, with a target.

    Args:
      path: the file.
      given: the options given.
      own: those, by their names, that must not be given, as the model has its own.

    Raises:
      UsageError: one of them is given, or the model has no target.
    """
    also = [f"--{name.strip('_')}" for name in own if getattr(given, name)]
    if also:
        raise UsageError(f"{path}: the model has its own; leave out {', '.join(also)}")
    model = load_model(path)
    if model.columns.target is None:
        raise UsageError(f"{path}: the model has no target")
    return model


def differences(model: Model, names: Sequence[str]) -> list[str]:
    """A sentence for each column that the model has and a table lacks, or the other way round.

    Raises:
      ValueError: none of the model's columns is there.
    """
    missing, new = model.differences(names)
    found = [f"the model's column {name!r} is not there: missing cells" for name in missing]
    return found + [f"the column {name!r} is not one of the model's: ignored" for name in new]
