"""The frame that all algorithms share.

It writes the inner methods of :class:`jaxmkl.Learner` once and does all that is no algorithm:
key, round, counters, refusal of bad examples, reading of labels, queries. It leaves to an
algorithm its mathematics, by the same verbs: ``init_own``, ``encode_own``, ``predict_own``,
``update_own`` and ``close_own``.
"""

import abc
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import count_on, rounds_of
from jaxmkl._checks import fingerprints, floating_dtype, require_key, usable_rows
from jaxmkl._feedback import Feedback
from jaxmkl._learner import Learner, Output, Prediction
from jaxmkl._magnitudes import Magnitudes
from jaxmkl._programs import Kept
from jaxmkl._types import Aux, Code, PyTree
from jaxmkl._types import State as AnyState
from jaxmkl.kernels.kernel import kernels_in
from jaxmkl.losses import HasLoss
from jaxmkl.query import Forecast, Query

COUNTERS = "round", "invalid", "outlying", "nonfinite"
RUNAWAY = 2.0**23
"""A prediction this many times as large as any label is lost: in float32, whose numbers there are
one label apart, their difference keeps no digit of the label."""
OVERFLOWN = 1e-9
"""The share of the largest number above which values are lost: kernel values that overflow are
bounded by 1e-6 of it, and coefficients may be small."""
ROUNDED = 4.0
"""A model's value this many times as large as its steps can make it is no sum of such steps."""


@pytree.dataclass
class State:
    """The frame's part of every state; algorithms add their own fields in a subclass."""

    key: Array
    """Typed PRNG key, never consumed."""
    round: Array
    """Examples seen, int32; 2^30 follows on 2^31 - 1."""
    invalid: Array
    """Examples refused because x or y was not usable, int32."""
    outlying: Array
    """Examples refused because the label was far beyond all before, int32; ``invalid`` counts
    them too."""
    nonfinite: Array
    """Labelled rounds in which it diverges, int32: the loss is infinite or NaN; or a model's value
    is, or is beyond 1e-9 of the largest number of its dtype (3.4e29, or 1.8e299 in double
    precision), as sums are whose kernel values overflow; or the prediction is more than 2^23 times
    as large as any label so far, where labels of classes have the size 1 and count for kernels
    with k(x, x) = 1 alone; or a classifier's model has a value four times as large as its steps
    can make it (:func:`jaxmkl.abilities.reach`). And all rounds count of a learner that has a
    number out of its declared range, as an optimiser may make one.

    Not seen are values below these bounds, however wrong they are, and finite values of a
    classifier's models whose kernels have other k(x, x) than 1, as polynomials and linear kernels:
    a bound of theirs would take the largest k(x, x) of the supports of each model."""
    magnitudes: Magnitudes | tuple[()]
    """Magnitudes of the labels so far, by which the next one is judged; () for classes."""
    query: PyTree
    """State of the query."""
    num_inputs: int = pytree.static()
    """D."""
    dtype: str = pytree.static()
    """Name of the floating dtype."""

    def replace(self: AnyState, **fields: Any) -> AnyState:
        """The state with some fields replaced."""
        for name in fields.keys() - vars(self).keys():
            raise TypeError(f"{type(self).__name__} has no field {name!r}")
        return pytree.from_fields(type(self), vars(self) | fields)


class FrameCode(NamedTuple):
    """One example."""

    own: PyTree
    """The algorithm's code."""
    noise: PyTree
    """The query's random numbers."""
    usable: Array
    """True if x can be learned from."""


OwnState = TypeVar("OwnState", bound=State)


class Algorithm(HasLoss, Learner[OwnState, FrameCode, tuple], Generic[OwnState, Code, Aux]):
    """The frame: base of all algorithms, frozen pytree dataclasses with a field ``query``.

    They define :meth:`init_own`, :meth:`encode_own`, :meth:`predict_own` and :meth:`update_own`,
    and where there is something to settle after a block of examples, :meth:`close_own`.
    """

    query: Query
    loss: Any
    """The loss by which predictions are judged, a :class:`jaxmkl.losses.Loss`. A subclass that
    has always the same may say it by a name."""

    @property
    def has_variance(self) -> bool:
        """True if its forecasts have a variance."""
        return False

    @property
    def task(self) -> str:  # type: ignore[override]
        """The task of the loss."""
        return self.loss.task

    @abc.abstractmethod
    def init_own(
        self, frame: dict[str, Any], key: Array, num_inputs: int, dtype: DTypeLike
    ) -> OwnState:
        """The state before the first round: a :class:`State` of ``**frame`` and further fields.

        Args:
          frame: the fields of :class:`State`.
          key: typed PRNG key for what is drawn now.
          num_inputs, dtype: D, and the floating dtype of the state.
        """

    def usable(self, X: Array) -> Array:
        """Which rows (B,) of ``X`` (B, D) can be learned from."""
        return usable_rows(X)

    @abc.abstractmethod
    def encode_own(self, state: OwnState, X: Array, keys: Array) -> Code:
        """Codes of the rows of ``X`` (B, D), with leading axis B: what needs no label.

        Args:
          state: at the block's start, or amid it.
          X: finite; zeros in rows that are not usable.
          keys: a typed key for each row's round (B,); whatever is random comes from these.
        """

    @abc.abstractmethod
    def predict_own(self, state: OwnState, code: Code) -> tuple[Forecast, Aux]:
        """The prediction for one code, and the results that :meth:`update_own` uses again."""

    @abc.abstractmethod
    def update_own(self, state: OwnState, code: Code, aux: Aux, feedback: Feedback) -> OwnState:
        """The next state; the frame takes care of key, counters and the query's state.

        Args:
          state, code: as for :meth:`predict_own`.
          aux: the second result of :meth:`predict_own`.
          feedback: the label ``y``; whether there is one to learn from (``updates``, a boolean;
            otherwise nothing that labels determine may change), whether there is an example
            (``seen``), and whether there is a round (``present``; otherwise no bit may change).
        """

    def close_own(self, state: OwnState, codes: Code) -> OwnState:
        """The state after a block with these codes; rounds below ``state.round`` are over."""
        return state

    def loss_value(self, prediction: Array, y: Array) -> Array:
        """The loss of a prediction, the sum over its outputs."""
        loss = self.loss.value(prediction, y)
        return loss if self.num_outputs is None else jnp.sum(loss, axis=-1)

    # The rest is final.

    def init(self, key: Array, num_inputs: int, dtype: DTypeLike | None = None) -> OwnState:
        require_key(self, key)
        num_inputs = pytree.as_count(self, "num_inputs", num_inputs)
        dtype = floating_dtype(self, dtype)
        good = self.has_variance or not self.query.needs_variance
        text = "one that needs no variance, which this learner does not have"
        pytree.require(good, self, "query", self.query, text)
        for kernel in kernels_in(self):
            kernel.require_inputs(num_inputs - self.leading_columns)
        return _start(self, key, num_inputs=num_inputs, dtype=dtype)

    def encode(self, state: OwnState, X: Array, given: Array | None = None) -> FrameCode:
        given, usable = X if given is None else given, self.usable(X)
        X = jnp.where(usable[:, None], X, 0.0)
        fold_in = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
        keys = fold_in(state.key, rounds_of(state.round, len(X)))
        return FrameCode(self.encode_own(state, X, keys), self._noise(given, keys), usable)

    def _noise(self, X: Array, keys: Array) -> PyTree:
        """The query's random numbers for examples ``X`` (B, D), from the keys of their rounds."""
        return jax.vmap(self.query.noise)(jax.vmap(jax.random.fold_in)(keys, fingerprints(X)))

    def _queried(
        self, query: AnyState, forecast: Forecast, learns: Array, counted: Array, y: Array
    ) -> AnyState:
        """The query's state after an example; ``y`` is 0 where it is not learned."""
        return optax.tree.where(counted, self.query.update(query, forecast, learns, y), query)

    def _with_margin(self, forecast: Forecast) -> Forecast:
        """The forecast; a classifier's gets its margin."""
        if self.task != "classification":
            return forecast
        if self.num_outputs is None:
            return forecast._replace(margin=jnp.abs(forecast.value))
        first, second = jax.lax.top_k(forecast.value, 2)[0]
        return forecast._replace(margin=(first - second) / 2.0)

    def _judged(self, y: Array, seen: Array, asked: Array) -> tuple[Array, Array]:
        """Two booleans: an example is learned from, and it is not refused."""
        known = jnp.all(jnp.isfinite(y))
        return seen & asked & known, seen & (known | ~asked)

    def _diverges(
        self, value: Array, values: Array, y: Array, learns: Array, since: Array
    ) -> Array:
        """True if there is a label to learn from and the learner has diverged from the labels.

        Args:
          since: the largest label before this one, of each output; for classes the number of
            rounds before this one.
        """
        finite, reach = OVERFLOWN * float(jnp.finfo(values.dtype).max), None
        most: Array | float
        if self.task == "classification":
            # with others than k(x, x) = 1, a perceptron is sound at values of any size
            kernels = kernels_in(self)
            unit = bool(kernels) and all(all(kernel.unit) for kernel in kernels)
            most = RUNAWAY if unit else jnp.inf
            reach = abilities.reach(self, since.astype(values.dtype))
        else:  # labels that were all 0 have no size
            largest = jnp.maximum(since, jnp.abs(y))
            most = jnp.where(largest > 0, RUNAWAY * largest, jnp.inf)
        # NaN is not below any bound, and what is infinite is above all of them
        bound = finite if reach is None else jnp.minimum(ROUNDED * reach, finite)
        loss = self.loss_value(value, jnp.where(learns, y, 0.0))
        good = jnp.all(jnp.abs(values) <= bound) & jnp.isfinite(loss)
        return learns & ~(good & jnp.all(jnp.abs(value) <= most))

    def _since(self, state: State) -> Array:
        """The argument ``since`` of :meth:`_diverges`, for a round that begins with this state."""
        return state.magnitudes.largest if state.magnitudes else state.round

    def predict_code(self, state: OwnState, code: FrameCode) -> tuple[Prediction, tuple]:
        predicted = self.predict_own(state, code.own)
        two = isinstance(predicted, tuple) and len(predicted) == 2
        wanted = "two: a jaxmkl.query.Forecast, as Forecast.of_one(value), and what is used again"
        good, returned = two and isinstance(predicted[0], Forecast), type(predicted).__name__
        pytree.require(good, self, "the result of predict_own", returned, wanted)
        forecast, aux = predicted
        forecast = self._with_margin(forecast)
        score = self.query.score(state.query, forecast)
        query = self.query.ask(state.query, score, code.noise) & code.usable
        value = jnp.where(code.usable, forecast.value, jnp.nan)
        own, noise = forecast.variance, forecast.noise
        variance = own if own is None or noise is None else own + noise
        return Prediction(value, query, score, variance, own), (forecast, aux)

    def update_code(
        self, state: OwnState, code: FrameCode, aux: tuple, y: Array, asked: Array, present: Array
    ) -> tuple[OwnState, Array]:
        forecast, own = aux
        seen, magnitudes = present & code.usable, state.magnitudes
        # what is too large to be believed is refused like NaN; classes are all believed
        far = magnitudes.beyond(y) & seen & asked if magnitudes else jnp.zeros((), bool)
        given, y, far = y, jnp.where(far, jnp.nan, y), jnp.any(far)
        learns, counted = self._judged(y, seen, asked)
        since = self._since(state)
        diverging = self._diverges(forecast.value, forecast.values, y, learns, since)
        feedback = Feedback(jnp.where(learns, y, 0.0), learns, seen, present)
        after = self.update_own(state, code.own, own, feedback).replace(
            round=count_on(state.round, present),
            invalid=state.invalid + (present & ~counted).astype(jnp.int32),
            outlying=state.outlying + far.astype(jnp.int32),
            magnitudes=magnitudes and magnitudes.after(given, learns, far),
            nonfinite=state.nonfinite + diverging.astype(jnp.int32),
            query=self._queried(
                self.query.refuse_label(state.query, seen & ~counted),
                forecast,
                learns,
                counted,
                feedback.y,
            ),
        )
        return after, learns

    def close(self, state: OwnState, codes: FrameCode) -> OwnState:
        return self.close_own(state, codes.own)


@partial(Kept, on_host=True)
def _start(learner: Algorithm, key: Array, *, num_inputs: int, dtype: np.dtype) -> State:
    """The state before the first round, all of it at once: its parts would compile one by one."""
    frame: dict[str, Any] = {"num_inputs": num_inputs, "dtype": dtype.name}
    frame |= {"key": jax.random.fold_in(key, 0), "query": learner.query.init(dtype)}
    frame |= {name: jnp.zeros((), jnp.int32) for name in COUNTERS}
    numbers = learner.task == "regression"
    frame["magnitudes"] = Magnitudes.none(learner.num_outputs, dtype) if numbers else ()
    return learner.init_own(frame, jax.random.fold_in(key, 1), num_inputs, dtype)


@abilities.awaiting.register
def _(learner: Algorithm, state: State, query: Array) -> State:
    return state.replace(query=learner.query.await_label(state.query, query))


@abilities.diverged_unless.register
def _(learner: Algorithm, before: State, after: State, sound: Array) -> State:
    all_of_them = before.nonfinite + (after.round - before.round)
    return after.replace(nonfinite=jnp.where(sound, after.nonfinite, all_of_them))


@abilities.advance_unjudged.register
def _(
    learner: Algorithm, state: State, code: FrameCode, y: Array, present: ArrayLike = True
) -> tuple[State, tuple]:
    """Besides the loss, ``nonfinite`` is left for later."""
    y, present = learner._label(state, y), jnp.asarray(present)
    prediction, aux = learner.predict_code(state, code)
    asked = prediction.query & present
    after, learns = learner.update_code(state, code, aux, y, asked, present)
    output = learner._output(state, prediction, None, asked)
    left = output, aux[0].values, learns, learner._since(state)
    return after.replace(nonfinite=state.nonfinite), left


@abilities.judge.register
def _(learner: Algorithm, state: State, left: tuple, y: Array) -> tuple[State, Output]:
    outputs, values, learns, since = left
    state, outputs = abilities.judge.dispatch(Learner)(learner, state, outputs, y)
    read = jax.vmap(lambda y: learner._label(state, y))(y)
    # where a label is learned, the value is the one predicted
    diverging = jax.vmap(learner._diverges)(outputs.prediction, values, read, learns, since)
    total = jnp.sum(diverging, dtype=jnp.int32)
    return state.replace(nonfinite=state.nonfinite + total), outputs
