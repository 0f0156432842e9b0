"""Arguments of recipes: their names and defaults, those that a task implies, and settings."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from jaxmkl.recipes import LEARNERS

#: Arguments that follow from the labels, if a recipe has them.
BY_TASK = "task", "num_outputs", "num_classes"


class UsageError(Exception):
    """A request cannot be met; the message is one line for the screen."""


def names_of(recipe: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a recipe's arguments that do not follow from the labels."""
    return tuple(name for name in inspect.signature(recipe).parameters if name not in BY_TASK)


def arguments_for(
    recipe: Callable[..., Any], task: str, num_outputs: int | None = None
) -> dict[str, Any]:
    """The arguments with which a recipe makes a learner for a task.

    For classes, the logistic loss replaces a default loss of numbers.

    Args:
      recipe: a function that makes a learner, such as those of :data:`jaxmkl.recipes.LEARNERS`.
      task: "regression" or "classification".
      num_outputs: K, the number of several targets or classes.

    >>> import jaxmkl
    >>> arguments_for(jaxmkl.expert_mkl, "classification", 3)
    {'task': 'classification', 'num_classes': 3}
    >>> arguments_for(jaxmkl.omkl, "classification", 3)
    {'loss': 'logistic'}
    """
    known = inspect.signature(recipe).parameters
    found: dict[str, Any] = {}
    if "task" in known:
        found["task"] = task
    elif task == "classification" and "loss" in known and known["loss"].default == "squared":
        found["loss"] = "logistic"
    several = "num_outputs" if task == "regression" else "num_classes"
    if num_outputs is not None and several in known:
        found[several] = num_outputs
    return found


def parameters_of(factory: str) -> dict[str, Any]:
    """The parameters of a factory of learners, and their defaults.

    >>> parameters_of("amkl")["max_skips"], "max_skips" in parameters_of("raker")
    (1.0, False)
    """
    known = inspect.signature(LEARNERS[factory]).parameters
    return {name: parameter.default for name, parameter in known.items()}


def check_settings(settings: Iterable[str], accepted: Mapping[str, Collection[str]]) -> list[str]:
    """A sentence for each setting that some of the learners lack.

    Args:
      settings: names given with ``--set``.
      accepted: the parameters of each requested learner, by its name.

    Raises:
      UsageError: if none of them has it.

    >>> check_settings(["rate"], {"a": ["rate", "size"], "b": ["size"]})
    ['--set rate: not a parameter of b, ignored there']
    """
    found = []
    for setting in settings:
        without = [name for name, known in accepted.items() if setting not in known]
        text = f"--set {setting}: not a parameter of {', '.join(without)}"
        if len(without) == len(accepted):
            known = dict.fromkeys(name for each in accepted.values() for name in each)
            raise UsageError(f"{text}; there are: {', '.join(known)}")
        if without:
            found.append(f"{text}, ignored there")
    return found
