"""Published settings: every learner of the papers exactly as its paper runs it.

The recipes of :mod:`jaxmkl.recipes` deviate where measurements suggest it. What is made here does
not: it has each constant that the paper prints, and :data:`SETTINGS` names the place of each.
"""

from jaxmkl import _pytree as pytree
from jaxmkl._learner import Learner
from jaxmkl.recipes.settings import bomkl, multitask
from jaxmkl.recipes.settings.setting import Constant, Setting

__all__ = ["SETTINGS", "Constant", "Setting", "published"]

SETTINGS: dict[str, Setting] = {**bomkl.SETTINGS, **multitask.SETTINGS}
"""The settings by the names of the recipes."""


def published(name: str, *, num_examples: int, num_inputs: int) -> Learner:
    """Make the learner ``name`` exactly as its paper runs it.

    Args:
      name: the name of a recipe that a paper publishes, one of :data:`SETTINGS`.
      num_examples: T, the length of the stream; some rates depend on it.
      num_inputs: D, the number of inputs; some kernels depend on it.

    Raises:
      ValueError: if the name is not published, or a number is below 1.
    """
    pytree.require(name in SETTINGS, "published", "name", name, "one of " + ", ".join(SETTINGS))
    num_examples = pytree.as_count("published", "num_examples", num_examples)
    num_inputs = pytree.as_count("published", "num_inputs", num_inputs)
    return SETTINGS[name].learner(num_examples, num_inputs)
