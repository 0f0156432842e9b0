"""The protocol of learners.

A learner is a value (see :mod:`jaxmkl.pytree`); its state holds what the next round needs and no
more. One round is a pure function, so a stream is one ``jax.lax.scan``:

    state = learner.init(key, num_inputs)
    state, outputs = jax.lax.scan(learner.step, state, (X, y))

Most of a round's work does not depend on what is learned meanwhile. So below the public methods
are four others, which work on codes. A block of examples needs the first and the last only once:

    encode(state, X)                               -> codes    large matrix products
    predict_code(state, code)                      -> (Prediction, aux)
    update_code(state, code, aux, y, asked, present) -> (state, learned)     small: sequential
    close(state, codes)                            -> state    settles a finished block

The update uses again what the prediction hands to it, ``aux``.

Blocks are aligned with the rounds: in a block of B rows, row j belongs to round
``(state.round // B) * B + j``. Rows of rounds that are over are ignored. Hence a row meets the
same arithmetic wherever a stream is cut, and a run that is resumed goes on bit for bit; with a
sampled dictionary so where blocks end, and to rounding amid a block in which points came in.
``present=False`` marks padding: it must leave every bit of the state as it was.
"""

import abc
import math
from typing import Any, Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import or_zero, take
from jaxmkl._checks import as_array, check_state, refuse_unless
from jaxmkl._eager import compiled, compiled_round, in_tiles
from jaxmkl._ranges import in_range, refuse_out_of_range
from jaxmkl._types import Aux, Code, Inputs, PyTree, State
from jaxmkl.distributions import StudentMixture
from jaxmkl.labels import one_vs_rest, signs


class Prediction(NamedTuple):
    """A learner's prediction, made before it sees the label."""

    value: Array
    """The real-valued prediction or margin, a number, or of several outputs (K,)."""
    query: Array
    """True if the learner wants the label."""
    score: Array
    """The query's score, a number: the larger, the more useful the label is."""
    variance: Array | None = None
    """The variance of the label around the value, of the same shape; None where the learner does
    not know it. Classes are -1 and +1. Of :func:`jaxmkl.multitask` it is that of the value
    alone."""
    epistemic: Array | None = None
    """The part of that variance that shrinks as the learner learns, for exploration."""
    interval: tuple[Array, Array] | None = None
    """The lower and upper end of the label's interval (:func:`jaxmkl.wrappers.intervals`)."""
    distribution: StudentMixture | None = None
    """The label's distribution (:func:`jaxmkl.wrappers.predictive`)."""


class Output(NamedTuple):
    """The record of a round."""

    prediction: Array
    """The value predicted before the update."""
    loss: Array
    """Its loss; NaN where the example was refused because x or y is not finite."""
    queried: Array
    """True if the label was asked for."""
    info: PyTree
    """The learner's own diagnostics as they stood at the prediction, a NamedTuple."""
    variance: Array | None = None
    """The variance that the prediction had."""
    interval: tuple[Array, Array] | None = None
    """The interval that it had."""
    distribution: StudentMixture | None = None
    """The distribution that it had."""


class Learner(abilities.NoMethods, abc.ABC, Generic[State, Code, Aux]):
    """Base of all learners: the public methods, written once on the four inner ones.

    Algorithms derive from :class:`Algorithm`, and learners around another learner from
    :class:`jaxmkl.wrappers.Wrapper`.

    Outside of any trace ``predict``, ``predict_many``, ``ask``, ``update``, ``skip`` and ``step``
    are compiled at the first call of their kind: for the classes and static fields of a learner,
    the shapes of its state and of its numbers, and for ``predict_many`` the next power of two of
    the rows. Other numbers, labels and states compile nothing (:mod:`jaxmkl.guide.compiling`).
    """

    task: str
    """"regression" or "classification"."""
    num_outputs: int | None = None
    """K, where a prediction has a number for each of K targets or classes; None for one number."""
    period: int | None = None
    """Rounds after which :meth:`close` changes the state; blocks divide it. None for never."""
    leading_columns: int = 0
    """Columns of X before the inputs that say something else, as the task; they are not scaled."""

    @abc.abstractmethod
    def init(self, key: Array, num_inputs: int, dtype: DTypeLike | None = None) -> State:
        """The state before the first round.

        Outside of a trace NumPy computes it, so that little is compiled. Inside, numbers are the
        same to rounding.

        Args:
          key: typed PRNG key (``jax.random.key``).
          num_inputs: D, columns of X.
          dtype: floating dtype of the state; the default float of JAX.

        Raises:
          ValueError: if the key is not a typed key, the number of inputs is below 1 or does not
            fit the parameters of the kernels, or the dtype is float16, or is float64 although JAX
            has not enabled it.
        """

    def num_inputs(self, state: PyTree) -> int:
        """Number of inputs D the state was made for."""
        return state.num_inputs

    def dtype(self, state: PyTree) -> np.dtype:
        """Floating dtype of the state: that of predictions."""
        return jnp.dtype(state.dtype)

    @property
    def preferred_block_size(self) -> int:
        """Examples per block that are fastest on a CPU."""
        return self.period or 256

    def fit_block_size(self, block_size: int) -> int:
        """The largest size of at most ``block_size`` that divides the learner's period."""
        if self.period is None:
            return block_size
        return max(n for n in range(1, min(block_size, self.period) + 1) if self.period % n == 0)

    @abc.abstractmethod
    def encode(self, state: State, X: Array, given: Array | None = None) -> Code:
        """Codes of the rows of ``X`` (B, D), with leading axis B.

        Random numbers of an example go by the row ``given`` (B, D), before any scaling, whose
        rounding may differ from block to block; by default that of ``X``.
        """

    @abc.abstractmethod
    def predict_code(self, state: State, code: Code) -> tuple[Prediction, Aux]:
        """The prediction from one code, and the results that :meth:`update_code` uses again."""

    @abc.abstractmethod
    def update_code(
        self, state: State, code: Code, aux: Aux, y: Array, asked: Array, present: Array
    ) -> tuple[State, Array]:
        """The next state, and whether the label was learned, or kept to be learned later.

        It is not if the example or its label is refused, or the label was not ``asked`` for.
        """

    @abc.abstractmethod
    def close(self, state: State, codes: Code) -> State:
        """The state after a block whose codes these were."""

    @abc.abstractmethod
    def loss_value(self, prediction: Array, y: Array) -> Array:
        """The loss of a prediction."""

    def info(self, state: State) -> PyTree:
        """Diagnostics of a state, a NamedTuple."""
        return ()

    def check_inputs(self, X: Inputs) -> None:
        """Raise a ``ValueError`` for inputs ``X`` (T, D) that make no sense to this learner.

        Drivers ask where they see values, of arrays or :class:`jaxmkl.streaming.SparseRows`.
        """
        return

    # The rest is final.

    def _each(self, function: Any, *arguments: Any) -> Any:
        """Call a function; with several outputs, for each of them, the arguments' leading axis."""
        return (function if self.num_outputs is None else jax.vmap(function))(*arguments)

    def _encoded(self, state: State, x: ArrayLike) -> tuple[Code, Code]:
        """Codes of a block of the one example x (D,), and the example's own."""
        check_state(self, state)
        x, D = as_array("x", x), self.num_inputs(state)
        text = f"of shape ({D},), one example (predict_many takes several, run a stream)"
        pytree.require(x.shape == (D,), self, "x", x.shape, text)
        codes = self.encode(state, x.astype(self.dtype(state))[None])
        return codes, take(codes, 0)

    def _label(self, state: State, y: ArrayLike) -> Array:
        """A label as the state's dtype has it; of classes -1 or +1, of K classes K of them."""
        y, shape = as_array("y", y), self._label_shape
        text = f"{shape[0]} numbers, the label of x" if shape else "one number, the label of x"
        pytree.require(y.size == math.prod(shape), self, "y", y.shape, text)
        return self._read(y.reshape(shape).astype(self.dtype(state)))

    @property
    def _label_shape(self) -> tuple[int, ...]:
        """The shape of a label as it is given: (K,) for several targets."""
        K = self.num_outputs
        return () if K is None or self.task == "classification" else (K,)

    def _read(self, y: Array) -> Array:
        """Labels of classes as -1 and +1, those above 0 being +1; numbers as they are."""
        if self.task != "classification":
            return y
        if self.num_outputs is not None:
            return one_vs_rest(y, self.num_outputs)
        return jnp.where(jnp.isfinite(y), signs(y), jnp.nan)

    @compiled
    def predict(self, state: State, x: Array) -> Prediction:
        """Predict the label of ``x`` (D,), compiled at the first call (:class:`Learner`)."""
        return self.predict_code(state, self._encoded(state, x)[1])[0]

    @in_tiles
    def predict_many(self, state: State, X: ArrayLike) -> Prediction:
        """Predict the labels of the rows of ``X`` (B, D) at one state; fields have leading axis B.

        Outside of traces rows are padded to a power of two, for which it is compiled once, and
        taken a few at a time, always as many: a prediction depends on its own row alone, bit for
        bit, and memory is used for a few rows.

        >>> import jax.numpy as jnp, jaxmkl
        >>> learner = jaxmkl.raker()
        >>> state = learner.init(jax.random.key(0), num_inputs=2)
        >>> learner.predict_many(state, jnp.ones((3, 2))).value.shape
        (3,)
        """
        check_state(self, state)
        X, D = as_array("X", X), self.num_inputs(state)
        good = X.ndim == 2 and X.shape[1] == D and X.shape[0] > 0
        pytree.require(good, self, "X", X.shape, f"of shape (B, {D}), some examples")
        return jax.vmap(lambda x: self.predict(state, x))(X)

    @compiled
    def ask(self, state: State, x: Array) -> tuple[Prediction, State]:
        """:meth:`predict` where labels may come late, and the state once this one is asked for.

        What counts labels (:func:`jaxmkl.label_budget`) counts it now, and not again when it comes
        (:meth:`update`). Most learners' state stays the same. It is compiled at the first call.
        """
        prediction = self.predict(state, x)
        return prediction, abilities.awaiting(self, state, prediction.query)

    @compiled_round
    def update(self, state: State, x: ArrayLike, y: ArrayLike) -> State:
        """The next state after the label ``y`` of ``x`` arrived; compiled at the first call.

        If the label is late, ``x`` is still learned as this state predicts it, say with the labels
        that :func:`jaxmkl.wrappers.lagged` has now; :func:`jaxmkl.wrappers.delayed` keeps those
        that it was predicted with.
        """
        y = self._label(state, y)
        return reported(self, state, learned_late(self, state, state, x, y, True))

    @compiled_round
    def skip(self, state: State, x: Array) -> State:
        """The next state when the label of ``x`` was not asked for; compiled likewise."""
        none = self._label(state, np.zeros(self._label_shape))
        return reported(self, state, learned_late(self, state, state, x, none, False))

    def advance(
        self, state: State, code: Code, y: Array, present: ArrayLike = True
    ) -> tuple[State, Output]:
        """One round from a code: predict, then learn if the label was asked for."""
        y, present = self._label(state, y), jnp.asarray(present)
        prediction, aux = self.predict_code(state, code)
        asked = prediction.query & present
        loss = self._loss(prediction.value, y)
        output = self._output(state, prediction, loss, asked)
        return self.update_code(state, code, aux, y, asked, present)[0], output

    def _loss(self, value: Array, y: Array) -> Array:
        """The loss that is recorded: NaN without a label, and of an example that is refused."""
        known = jnp.all(jnp.isfinite(y) & ~jnp.isnan(value))
        loss = self.loss_value(or_zero(known, value), or_zero(known, y))
        return jnp.where(known, loss, jnp.nan)

    def _output(self, state: State, prediction: Prediction, loss: Any, asked: Array) -> Output:
        info = self.info(state)
        value, _, _, variance, _, interval, distribution = prediction
        return Output(value, loss, asked, info, variance, interval, distribution)

    def importances(self, state: State) -> Array:
        """How much each input matters (D,), of sum 1, to a learner that learns a metric.

        It is :func:`jaxmkl.abilities.importances`, the mean over the banks that learn it.

        Raises:
          ValueError: if it learns none.

        >>> import jaxmkl
        >>> bank = jaxmkl.models.MetricModels(jaxmkl.raker(num_features=5).models[0])
        >>> learner = jaxmkl.MKL(bank)
        >>> learner.importances(learner.init(jax.random.key(0), num_inputs=4))
        Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
        """
        found = abilities.importances(self, state)
        wanted = "one that learns a metric, as jaxmkl.expert_mkl(banks='diagonal')"
        refuse_unless(found is not None, f"importances: learner must be {wanted}; got {self!r}")
        return found  # type: ignore[return-value]

    @compiled_round
    def step(self, state: State, example: tuple[Array, Array]) -> tuple[State, Output]:
        """One round on an example ``(x, y)``, to be scanned over a stream.

        Called by itself, it is compiled at the first call.
        """
        x, y = example
        codes, code = self._encoded(state, x)
        after, output = self.advance(state, code, y)
        return reported(self, state, self.close(after, codes)), output


def reported(learner: Learner, before: State, after: State) -> State:
    """The state after some rounds, which count as ``nonfinite`` if a number is out of range."""
    return abilities.diverged_unless(learner, before, after, in_range(learner))


def learned_late(
    learner: Learner,
    state: State,
    then: State,
    x: ArrayLike,
    y: Array,
    asked: ArrayLike,
    present: ArrayLike = True,
) -> State:
    """The state after an example that is encoded and predicted as the state ``then`` has it.

    The label ``y`` is as learners read it: that of two classes -1 or +1.
    """
    codes, code = learner._encoded(then, x)
    aux = learner.predict_code(then, code)[1]
    asked, present = jnp.asarray(asked), jnp.asarray(present)
    state = abilities.receiving(learner, state, asked)
    return learner.close(learner.update_code(state, code, aux, y, asked, present)[0], codes)


def require_learner(owner: object, learner: Any) -> None:
    """Raise unless this is a learner that JAX can see through, with numbers in their ranges."""
    advice = " (call it: a class or a factory makes one)" if callable(learner) else ""
    shown = learner if callable(learner) or isinstance(learner, str) else type(learner)
    good, wanted = isinstance(learner, Learner), f"a learner, as jaxmkl.raker(){advice}"
    pytree.require(good, owner, "learner", shown, wanted)
    for leaf in jax.tree.leaves(learner):
        if isinstance(leaf, Learner):
            pytree.require_tree(owner, "learner", leaf)
    refuse_out_of_range(learner)


@abilities.advance_unjudged.register
def _(
    learner: Learner, state: State, code: PyTree, y: Array, present: ArrayLike = True
) -> tuple[State, Output]:
    after, output = learner.advance(state, code, y, present)
    return after, output._replace(loss=None)  # type: ignore[arg-type]


@abilities.judge.register
def _(learner: Learner, state: State, left: Output, y: Array) -> tuple[State, Output]:
    def one(value: Array, y: Array) -> Array:
        return learner._loss(value, learner._label(state, y))

    return state, left._replace(loss=jax.vmap(one)(left.prediction, y))
