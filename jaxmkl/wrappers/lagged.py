"""The last labels and errors as inputs, for streams whose labels are correlated in time."""

import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import take
from jaxmkl._checks import input_bound
from jaxmkl._learner import Learner, Prediction
from jaxmkl._types import PyTree
from jaxmkl.wrappers.wrapper import OneByOne, Row, WrapperState


@pytree.dataclass
class LaggedState(WrapperState):
    """State of :class:`Lagged`."""

    labels: Array
    """The last labels (L,), the latest first; zeros before there are any."""
    errors: Array
    """The last errors (M,), the latest first; zeros before there are any."""

    @property
    def num_inputs(self) -> int:  # type: ignore[override]
        """Number of inputs D, without labels and errors."""
        return self.inner.num_inputs - self.labels.shape[-1] - self.errors.shape[-1]


@pytree.dataclass
class Lagged(OneByOne[LaggedState, tuple]):
    """A learner with the last labels and errors among its inputs; made by :func:`lagged`."""

    learner: Learner = pytree.part(Learner, "a learner, as jaxmkl.raker()")
    labels: int = pytree.count(default=3, minimum=0)
    errors: int = pytree.count(default=0, minimum=0)
    keeps_rounds = True

    def __post_init__(self) -> None:
        several = self.learner.num_outputs
        pytree.require(several is None, self, "learner", several, "one of a single output")

    def init(self, key: Array, num_inputs: int, dtype: DTypeLike | None = None) -> LaggedState:
        num_inputs = pytree.as_count(self, "num_inputs", num_inputs)
        inner = self.learner.init(key, num_inputs + self.labels + self.errors, dtype)
        last = (jnp.zeros((n,), self.learner.dtype(inner)) for n in (self.labels, self.errors))
        return LaggedState(inner, *last)

    def predict_code(self, state: LaggedState, code: Row) -> tuple[Prediction, tuple]:
        x = jnp.concatenate([code.x, state.labels, state.errors])
        codes, prediction, aux = self.predict_inside(state, x, code.given)
        return prediction, (codes, aux, prediction.value)

    def update_code(
        self, state: LaggedState, code: Row, aux: tuple, y: Array, asked: Array, present: Array
    ) -> tuple[LaggedState, Array]:
        """The inner learner learns; the label, or else the prediction, becomes the latest one."""
        codes, inside, value = aux
        given = take(codes, 0), inside, y, asked, present
        inner, learned = self.learner.update_code(state.inner, *given)
        inner, said = self.learner.close(inner, codes), self._read(value)
        # an unusable label must not become an input
        bound = input_bound(y.dtype)
        label = jnp.where(learned & (jnp.abs(y) <= bound), y, said)
        known = present & jnp.isfinite(said) & (jnp.abs(label) <= bound)
        error = jnp.clip(label - said, -bound, bound)

        def after(latest: Array, last: Array) -> Array:
            moved = jnp.concatenate([latest[None], last])[: last.shape[0]]
            return jnp.where(known, moved, last)

        labels, errors = after(label, state.labels), after(error, state.errors)
        return state.replace(inner=inner, labels=labels, errors=errors), learned


@abilities.importances.register
def _(learner: Lagged, state: LaggedState) -> Array | None:
    """How much each input matters (D,), without the labels and errors, of sum 1.

    Where none matters, as constant inputs beside labels, they are equal.
    """
    shares = abilities.importances(learner.learner, state.inner)
    if shares is None:
        return None
    shares = shares[: state.num_inputs]
    shares = jnp.where(jnp.any(shares > 0), shares, 1.0)
    return shares / jnp.sum(shares)


@abilities.context.register
def _(learner: Lagged, state: LaggedState) -> tuple[Array, Array, PyTree]:
    return state.labels, state.errors, abilities.context(learner.learner, state.inner)


@abilities.with_context.register
def _(learner: Lagged, state: LaggedState, context: tuple[Array, Array, PyTree]) -> LaggedState:
    labels, errors, inside = context
    inner = abilities.with_context(learner.learner, state.inner, inside)
    return state.replace(inner=inner, labels=labels, errors=errors)


def lagged(learner: Learner, labels: int = 3, errors: int = 0) -> Lagged:
    """Append the last labels, and the last errors of the prediction, to the inputs.

        inputs of round t:  x_t,  y_{t-1}, ..., y_{t-L},  e_{t-1}, ..., e_{t-M},     e = y - f

    This makes any learner an autoregression with errors, as in ARMAX. All these inputs are 0 at
    first. The prediction replaces a label that was not asked for or is not finite (its error is
    0). For classifiers, labels are -1 and +1, and f is the predicted class. A refused example
    changes none of them.

    Labels have the scale of the target: for kernels, bring them to the scale of the inputs, as
    ``lagged(scaled(learner, RunningMoments()))`` does. If labels arrive late,
    ``delayed(lagged(learner), N)`` uses in round t the labels up to t - N - 1, and learns an
    example with the same inputs that it was predicted with.

    Args:
      learner: any learner with one output; it is started with D + L + M inputs.
      labels: L, an integer of at least 0 (static).
      errors: M, an integer of at least 0 (static).

    Raises:
      ValueError: if ``learner`` is not a learner or has several outputs, or a number is not an
        integer of at least 0.

    References:
      Box and Jenkins (1970), Time series analysis: forecasting and control (ARMAX).

    >>> import jax, jaxmkl, numpy as np
    >>> y = np.sin(np.arange(500))
    >>> X = np.random.default_rng(0).normal(size=(500, 2))  # says nothing about y
    >>> for learner in (jaxmkl.raker(), lagged(jaxmkl.raker(), labels=2)):
    ...     state = learner.init(jax.random.key(0), num_inputs=2)
    ...     print(bool(jaxmkl.run(learner, state, X, y)[1].loss[-100:].mean() < 0.05))
    False
    True
    """
    return Lagged(learner, labels, errors)
