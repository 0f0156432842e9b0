"""When to ask for a label: rules that look at the experts before the label is seen.

A rule's state is a pytree of its own inside the learner's state.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from jaxmkl import pytree

__all__ = ["Always", "Confidence", "Labelling"]


class Experts(NamedTuple):
    """What a labelling rule looks at: values, full weights and the chosen subset, each (E,)."""

    values: jax.Array
    weights: jax.Array
    selected: jax.Array


class Labelling(Protocol):
    """A rule that decides whether a label is wanted."""

    def init(self) -> Any:
        """The rule's state before the first round."""

    def query(self, state: Any, experts: Experts) -> jax.Array:
        """Whether to ask, a boolean."""

    def update(self, state: Any, asked: jax.Array) -> Any:
        """The rule's state after a round in which a label was asked for or not."""


@pytree.dataclass
class Always:
    """Ask for every label."""

    def init(self) -> tuple:
        """No state."""
        return ()

    def query(self, state: tuple, experts: Experts) -> jax.Array:
        """True."""
        return jnp.asarray(True)

    def update(self, state: tuple, asked: jax.Array) -> tuple:
        """No state."""
        return state


class ConfidenceState(NamedTuple):
    """Labels not asked for in a row, int32."""

    skips: jax.Array


@pytree.dataclass
class Confidence:
    """Ask unless the experts agree, and after ``max_skips`` skips in a row ask all the same.

    With the full weights p, the chosen subset V and the experts' values f, a label is skipped if

        max_j Σ_{i in V} p_i (f_i - f_j)² <= tolerance

    where j runs over all experts. About the mean m of V under p the sum is a variance plus
    Σ_V p · (f_j - m)², so one pass over the experts decides. For every loss the distance between
    two experts is the squared one.

    Args:
      tolerance: η_c, a number of at least 0 in squared units of the prediction.
      max_skips: M, the largest number of labels skipped in a row; at least 1/(M + 1) of the labels
        is asked for.

    Raises:
      ValueError: when an argument is negative or not a number.

    References:
      Hong and Chae, condition (33), Algorithm 2 (the sentence of the text that states the
      criterion has it reversed), (34), (35).

    >>> import jax.numpy as jnp
    >>> rule = Confidence(tolerance=0.01, max_skips=1)
    >>> experts = Experts(jnp.array([0.5, 0.52]), jnp.array([0.5, 0.5]), jnp.array([True, True]))
    >>> bool(rule.query(rule.init(), experts))
    False
    """

    tolerance: Any = 0.0005
    max_skips: Any = 1.0

    def __post_init__(self) -> None:
        for name in ("tolerance", "max_skips"):
            value = pytree.as_leaf(
                self,
                name,
                getattr(self, name),
                minimum=0.0,
                finite=False,
                wanted="a number of at least 0",
            )
            object.__setattr__(self, name, value)

    def init(self) -> ConfidenceState:
        """No label skipped yet."""
        return ConfidenceState(jnp.zeros((), jnp.int32))

    def query(self, state: ConfidenceState, experts: Experts) -> jax.Array:
        """Whether to ask, a boolean."""
        values = experts.values
        p = jnp.where(experts.selected, experts.weights, 0.0)
        total = jnp.sum(p)
        mean = jnp.sum(p * values) / total
        spread = jnp.sum(p * (values - mean) ** 2) + total * jnp.max((values - mean) ** 2)
        agree = spread <= jnp.asarray(self.tolerance, values.dtype)
        may_skip = state.skips.astype(values.dtype) < jnp.asarray(self.max_skips, values.dtype)
        return ~(agree & may_skip)

    def update(self, state: ConfidenceState, asked: jax.Array) -> ConfidenceState:
        """Count the skips in a row."""
        return ConfidenceState(jnp.where(asked, 0, state.skips + 1))
