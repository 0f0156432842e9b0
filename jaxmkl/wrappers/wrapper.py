"""The base of all wrappers: learners that forward what they do not change to an inner learner."""

from collections.abc import Callable, Iterator
from functools import wraps
from operator import attrgetter
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxmkl import _algorithm, abilities
from jaxmkl import _pytree as pytree
from jaxmkl._blocks import or_zero, take
from jaxmkl._learner import Learner, Prediction
from jaxmkl._renewals import Renewals, renewals_of
from jaxmkl._types import Aux, Code, Number, PyTree, State


@pytree.dataclass
class WrapperState:
    """State of a wrapper around the inner learner's state; base of states with more fields."""

    inner: PyTree

    key = property(attrgetter("inner.key"), doc="Typed PRNG key of the inner learner.")
    round = property(attrgetter("inner.round"), doc="Examples seen.")
    invalid = property(attrgetter("inner.invalid"), doc="Examples refused.")
    outlying = property(attrgetter("inner.outlying"), doc="Labels too large to be learned.")
    nonfinite = property(attrgetter("inner.nonfinite"), doc="Labelled rounds that diverged.")
    num_inputs = property(attrgetter("inner.num_inputs"), doc="Number of inputs D.")
    dtype = property(attrgetter("inner.dtype"), doc="Name of the floating dtype.")

    replace = _algorithm.State.replace


def _inside(name: str) -> Any:
    """Forward a property of the inner learner, or a method that takes no state."""
    return property(attrgetter(f"learner.{name}"), doc="As in the inner learner.")


def _asking(name: str) -> Callable:
    """Forward a method to the inner learner, with the inner learner's state."""

    @wraps(getattr(Learner, name))
    def asking(self: "Wrapper", state: WrapperState, *given: Any, **named: Any) -> Any:
        return getattr(self.learner, name)(state.inner, *given, **named)

    asking.__isabstractmethod__ = False  # type: ignore[attr-defined] # which was copied, too
    return asking


class Wrapper(Learner[State, Code, Aux]):
    """Base of learners around a learner: frozen pytree dataclasses with a field ``learner``.

    A wrapper defines ``init``, whose state is a :class:`WrapperState`, and the methods that it
    changes. All others are forwarded to the inner learner.
    """

    learner: Learner
    keeps_rounds = False
    """True if each row is one round of the inner learner, and of no other one."""

    task = _inside("task")
    num_outputs = _inside("num_outputs")
    period = _inside("period")
    preferred_block_size = _inside("preferred_block_size")
    leading_columns = _inside("leading_columns")
    loss_value = _inside("loss_value")
    check_inputs = _inside("check_inputs")
    info = _asking("info")
    encode = _asking("encode")
    predict_code = _asking("predict_code")

    def update_code(
        self, state: Any, code: Code, aux: Aux, y: Array, asked: Array, present: Array
    ) -> tuple[State, Array]:
        given = code, aux, y, asked, present
        inner, learned = self.learner.update_code(state.inner, *given)
        return state.replace(inner=inner), learned

    def close(self, state: Any, codes: Code) -> State:
        return state.replace(inner=self.learner.close(state.inner, codes))

    def fit_block_size(self, block_size: int) -> int:
        """A size that suits the inner learner and divides the wrapper's own period, if any."""
        return self.learner.fit_block_size(super().fit_block_size(block_size))


@abilities.inside.register
def _(learner: Wrapper, state: WrapperState) -> abilities.Inside:
    pair = learner.learner, state.inner
    return abilities.Inside((pair,), lambda states: state.replace(inner=states[0]))


@renewals_of.register
def _(learner: Wrapper) -> Renewals | None:
    inside = renewals_of(learner.learner) if learner.keeps_rounds else None
    if inside is None:
        return None
    rounds = pytree.from_fields(type(learner), vars(learner) | {"learner": inside.rounds})
    return inside._replace(rounds=rounds)


def layers(learner: Learner) -> Iterator[Any]:
    """The learner and all learners inside it, the outermost first.

    >>> import jaxmkl
    >>> [type(layer).__name__ for layer in layers(jaxmkl.label_budget(jaxmkl.raker(), 3))]
    ['LabelBudget', 'MKL']
    """
    yield learner
    while isinstance(learner, Wrapper):
        learner = learner.learner
        yield learner


class OnBlocks(Wrapper[State, Code, Aux]):
    """Base of wrappers that, within a block, only predict with and update the inner learner."""

    keeps_rounds = True


class Row(NamedTuple):
    """One example that is not encoded yet."""

    x: Array  # the input (D,)
    given: Array  # the input (D,) before any scaling, which determines its random numbers


class OneByOne(Wrapper[State, Row, Aux]):
    """Base of wrappers whose inner learner encodes examples one by one.

    An example's code is the example itself, so the size of blocks changes no bit of a run.
    """

    period = None
    preferred_block_size = 32
    fit_block_size = Learner.fit_block_size

    def encode(self, state: State, X: Array, given: Array | None = None) -> Row:
        return Row(X, X if given is None else given)

    def close(self, state: State, codes: Row) -> State:
        return state

    def predict_inside(
        self, state: WrapperState, x: Array, given: Array
    ) -> tuple[PyTree, Prediction, PyTree]:
        """Codes (of a block of one), prediction and aux of the inner learner."""
        codes = self.learner.encode(state.inner, x[None], given[None])
        return codes, *self.learner.predict_code(state.inner, take(codes, 0))


def not_refused(learned: Array, usable: Array, asked: Array, present: Array) -> Array:
    """True if an example was sound: its label was learned, or not asked for and x is usable."""
    return present & jnp.where(asked, learned, usable)


def require_numbers(owner: Wrapper) -> None:
    """Raise unless the inner learner is a regression learner."""
    wanted = "a regression learner, as jaxmkl.raker()"
    pytree.require(owner.task == "regression", owner, "learner", owner.task, wanted)


def stretched(scale: Array, value: Array) -> Array:
    """``scale * value``, whose derivative by the scale is 0 where the value is NaN."""
    known = ~jnp.isnan(value)
    return jnp.where(known, scale * or_zero(known, value), value)


def in_units(prediction: Prediction, scale: Array, shift: Number = 0.0) -> Prediction:
    """The prediction of ``shift + scale y`` in place of the label y."""
    variances = prediction.variance, prediction.epistemic
    variance, epistemic = (None if v is None else stretched(scale**2, v) for v in variances)
    interval, density = prediction.interval, prediction.distribution
    if interval is not None:
        low, high = (shift + stretched(scale, end) for end in interval)
        interval = low, high
    return prediction._replace(
        value=shift + stretched(scale, prediction.value),
        variance=variance,
        epistemic=epistemic,
        interval=interval,
        distribution=None if density is None else density.in_units(scale, shift),
    )


def followed(
    quantile: Array, distance: Array, share: Number, least_step: Number, number: Array
) -> Array:
    """The running quantile r of n distances after one more; if r is not above 0, the distance.

    r <- r exp(η ([distance > r] - (1 - share))),     η = max(least step, 1 / √(1 + n))
    """
    dtype = distance.dtype
    step = jnp.maximum(least_step, 1.0 / jnp.sqrt(1.0 + number.astype(dtype)))
    larger = (distance > quantile).astype(dtype)
    positive = quantile > 0
    start = jnp.where(positive, quantile, 1.0)  # derivatives are not those of NaN
    moved = start * jnp.exp(step * (larger - (1.0 - jnp.asarray(share, dtype))))
    return jnp.where(positive, moved, distance)
