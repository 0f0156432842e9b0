"""The feedback that parts of a learner get in every round, labelled or not."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class Feedback(NamedTuple):
    """The feedback of a round to a part: a bank of models, its rules, its feature map.

    A bank gets that of all its E models, (E,), and a rule on features that of its own, (1, R, P).
    """

    y: jax.Array
    """The label, a number or (K,); 0 where there is none to learn from."""
    updates: jax.Array
    """Which models take part in the update (E,); none where there is no label."""
    seen: jax.Array
    """True if there is an example at all, label or not."""
    present: jax.Array
    """True if there is a round at all. Without it no bit may change."""
    probability: jax.Array | None = None
    """Probabilities with which models take their steps (E,), or None for always."""
    chance: Any = None
    """Uniform numbers (E,) that decide on steps taken by chance, or None."""
    norm: Any = None
    """The squared norms |z|² of the example's features (1, P), for rules on features."""

    def taken(self, probability: jax.Array | None = None) -> jax.Array:
        """The mask (E,) of the models that take their step, with this probability of their own."""
        if self.probability is not None:
            own = self.probability
            probability = own if probability is None else own * probability
        return self.updates if probability is None else self.updates & (self.chance < probability)

    def cut(self, start: int, end: int, shape: tuple[int, ...] = (-1,)) -> "Feedback":
        """The feedback of the models from ``start`` to ``end``, reshaped."""
        return self.of_models(lambda a: a[start:end].reshape(shape))

    def of_models(self, function: Callable[[jax.Array], jax.Array]) -> "Feedback":
        """The feedback of some models, which ``function`` selects from an array of all."""
        names = "updates", "probability", "chance"
        parts = {name: getattr(self, name) for name in names}
        return self._replace(**jax.tree.map(function, parts))
