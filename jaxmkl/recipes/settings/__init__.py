"""Published settings: every learner of the papers exactly as its paper runs it.

The recipes of :mod:`jaxmkl.recipes` deviate where measurements suggest it. The learners made here
do not: they have each constant that the paper prints, and :data:`SETTINGS` names its source. If a
paper does not state a constant, this is said, with the value that is used.
"""

from jaxmkl import _pytree as pytree
from jaxmkl._learner import Learner
from jaxmkl._types import Number
from jaxmkl.recipes.settings import amkl, bomkl, multitask, oks
from jaxmkl.recipes.settings.setting import Constant, Setting

__all__ = ["SETTINGS", "Constant", "Setting", "published"]

SETTINGS: dict[str, Setting] = {
    **amkl.SETTINGS,
    **bomkl.SETTINGS,
    **oks.SETTINGS,
    **multitask.SETTINGS,
}
"""The settings by the names of the recipes, and of two variants, omkc_ds and omkc_ss."""


def published(name: str, *, num_examples: int, num_inputs: int, **tuned: Number) -> Learner:
    """Make the learner ``name`` exactly as its paper runs it.

    Args:
      name: the name of a recipe that a paper publishes, or "omkc_ds" or "omkc_ss", variants of
        :func:`jaxmkl.omkc_sd`; one of :data:`SETTINGS`.
      num_examples: T, the length of the stream; some rates depend on it.
      num_inputs: D, the number of inputs; some kernels depend on it.
      **tuned: values of arguments that the paper tunes on each data set: ``step_size=1e-3``;
        ``SETTINGS[name].tuned`` has their names, and the values that the paper tries.

    Raises:
      ValueError: if the name is not published, a number is below 1, or the paper does not tune
        an argument.

    >>> learner = published("amkl", num_examples=10_000, num_inputs=5)
    >>> learner.aggregate
    Hedge(rate=0.01, output='value', cost='loss', bound=None, penalty=0.02)
    >>> next(c for c in SETTINGS["amkl"].constants if c.name == "tolerance")
    Constant(name='tolerance', value='η_c = 0.0005', source='(59)')
    """
    pytree.require(name in SETTINGS, "published", "name", name, "one of " + ", ".join(SETTINGS))
    num_examples = pytree.as_count("published", "num_examples", num_examples)
    num_inputs = pytree.as_count("published", "num_inputs", num_inputs)
    setting = SETTINGS[name]
    for argument, value in tuned.items():
        wanted = f"left out: of {name} its paper tunes " + (", ".join(setting.tuned) or "nothing")
        pytree.require(argument in setting.tuned, "published", argument, value, wanted)
    return setting.learner(num_examples, num_inputs, **tuned)
