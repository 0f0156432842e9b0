"""When to ask for a label: rules that look at what is known before the label is seen.

Rules of learners with experts look at these (``query``), and their state is a pytree of its own
inside the learner's state. Rules of classifiers that know how sure they are look at the margin and
its variance (``ask``), and have no state.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from jaxmkl import pytree

__all__ = ["Always", "Chance", "Confidence", "Labelling", "Margin", "Sureness", "Unsure"]


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

    def ask(self, sureness: "Sureness") -> jax.Array:
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


class Sureness(NamedTuple):
    """What a rule of ``ask`` looks at, each a number.

    Attributes:
      margin: |f|, the distance of the prediction from 0.
      surety: Θ, the margin less what the variance allows for; not above 0 where a learner is
        unsure.
      uniform: a uniform number in [0, 1).
    """

    margin: jax.Array
    surety: jax.Array
    uniform: jax.Array


def _drawn(h: Any, above: jax.Array, uniform: jax.Array) -> jax.Array:
    """Whether a uniform number is below h / (h + above), for any h from 0 to infinity."""
    h = jnp.asarray(h, above.dtype)
    positive = above > 0
    share = jnp.where(positive, h / (h + jnp.where(positive, above, 1.0)), 1.0)
    return uniform < jnp.where(jnp.isinf(h), 1.0, share)


def _check_h(rule: Any) -> None:
    h = pytree.as_leaf(
        rule, "h", rule.h, minimum=0.0, finite=False, wanted="a number of at least 0"
    )
    object.__setattr__(rule, "h", h)


@pytree.dataclass
class Unsure:
    """Ask where unsure, and else by a chance that falls with how sure one is.

        Θ <= 0:    ask
        else:      ask with probability h / (h + Θ)

    Args:
      h: at least 0: the larger, the more is asked for. With 0 only where unsure; infinite, always.

    Raises:
      ValueError: for a negative h.

    References:
      Kernel sampling for online multi-task classification, Theorem 2.

    >>> import jax.numpy as jnp
    >>> rule = Unsure(h=0.1)
    >>> [bool(rule.ask(Sureness(jnp.array(0.5), jnp.array(s), 0.4))) for s in (-0.1, 0.1, 0.3)]
    [True, True, False]
    """

    h: Any = 0.1

    def __post_init__(self) -> None:
        _check_h(self)

    def ask(self, sureness: Sureness) -> jax.Array:
        """Whether to ask, a boolean."""
        return _drawn(self.h, sureness.surety, sureness.uniform)


@pytree.dataclass
class Margin:
    """Ask with probability h / (h + |f|), whatever the variance.

    Args:
      h: at least 0; infinite, every label is asked for.

    Raises:
      ValueError: for a negative h.

    References:
      Cesa-Bianchi, Gentile and Zaniboni (2006), Worst-case analysis of selective sampling for
      linear classification.

    >>> import jax.numpy as jnp
    >>> rule = Margin(h=0.1)
    >>> [bool(rule.ask(Sureness(jnp.array(m), jnp.array(0.0), 0.4))) for m in (0.0, 0.1, 0.3)]
    [True, True, False]
    """

    h: Any = 0.1

    def __post_init__(self) -> None:
        _check_h(self)

    def ask(self, sureness: Sureness) -> jax.Array:
        """Whether to ask, a boolean."""
        return _drawn(self.h, sureness.margin, sureness.uniform)


@pytree.dataclass
class Chance:
    """Ask by chance alone.

    Args:
      rate: the share of labels asked for, in [0, 1].

    Raises:
      ValueError: for a rate outside.

    >>> import jax.numpy as jnp
    >>> bool(Chance(0.5).ask(Sureness(jnp.array(1.0), jnp.array(1.0), 0.4)))
    True
    """

    rate: Any = 0.5

    def __post_init__(self) -> None:
        rate = pytree.as_leaf(
            self, "rate", self.rate, minimum=0.0, maximum=1.0, wanted="a number in [0, 1]"
        )
        object.__setattr__(self, "rate", rate)

    def ask(self, sureness: Sureness) -> jax.Array:
        """Whether to ask, a boolean."""
        return jnp.asarray(sureness.uniform < jnp.asarray(self.rate, sureness.margin.dtype))
