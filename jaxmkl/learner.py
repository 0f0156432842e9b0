"""The protocol of learners: predict, then learn.

A learner is a value (see :mod:`jaxmkl.pytree`). Its state holds what the next round needs and no
more. One round is a pure function, so a stream is one ``jax.lax.scan``:

    state = learner.init(key, num_inputs)
    state, outputs = jax.lax.scan(learner.step, state, (X, y))

Most of a round's work does not depend on what the learner learns meanwhile. So a learner is
written as four inner methods, of which a block of examples needs the first and the last once:

    encode(state, X)                     -> codes     all rows of a block, large matrix products
    decide(state, code)                  -> Prediction
    learn(state, code, y, asked, present) -> state     what is truly sequential: small and cheap
    fold(state, codes)                   -> state     what a finished block leaves behind

Blocks are aligned with the rounds: in a block of B rows, row j belongs to round
``(state.round // B) * B + j``. Rows of rounds that are over are not looked at. Hence a row meets
the same arithmetic wherever a stream is cut, and a run that is resumed goes on bit for bit.

``present=False`` marks padding: it must leave every bit of the state as it was.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import pytree

__all__ = ["Learner", "Output", "Prediction", "input_bound", "select_row", "usable_rows"]


class Prediction(NamedTuple):
    """What a learner says before it sees a label.

    Attributes:
      value: the real-valued prediction or margin, a scalar.
      query: whether the learner wants the label, a boolean.
    """

    value: jax.Array
    query: jax.Array


class Output(NamedTuple):
    """What a round leaves behind.

    Attributes:
      prediction: the value predicted before the update.
      loss: its loss; NaN where the example was refused because x or y is not finite.
      queried: whether the label was asked for.
      info: the learner's own diagnostics as they stood at the prediction, a NamedTuple.
    """

    prediction: jax.Array
    loss: jax.Array
    queried: jax.Array
    info: Any


def input_bound(dtype: Any) -> float:
    """The largest magnitude of an input that is learned from, 4.6e18 in float32.

    A quarter of the root of the dtype's largest number: beyond, squares of differences may
    overflow, so such an input is refused like an infinite one.
    """
    return 0.25 * float(np.sqrt(float(jnp.finfo(dtype).max)))


def usable_rows(X: jax.Array) -> jax.Array:
    """Which rows (B,) of ``X`` (B, D) are learned from: all finite and within the bound."""
    # NaN fails the comparison
    return jnp.all(jnp.abs(X) <= input_bound(X.dtype), axis=1)


def select_row(codes: Any, row: int) -> Any:
    """One example's code out of a block's codes."""
    return jax.tree.map(lambda leaf: leaf[row], codes)


class Learner:
    """Base of all learners. Subclasses define the methods that raise here."""

    task: Any  # "regression" or "classification"

    def init(self, key: jax.Array, num_inputs: int, dtype: Any = None) -> Any:
        """The state before the first round, a NamedTuple of arrays with the fields key, round."""
        raise NotImplementedError

    def num_inputs(self, state: Any) -> int:
        """Number of inputs D the state was made for."""
        raise NotImplementedError

    def dtype(self, state: Any) -> Any:
        """Floating dtype of the state: that of predictions."""
        raise NotImplementedError

    @property
    def preferred_block_size(self) -> int:
        """Examples per block that are fastest on a CPU."""
        return 256

    @property
    def leading_columns(self) -> int:
        """Columns of X before the inputs that say something else, as the task of an example.

        They are not scaled.
        """
        return 0

    def fit_block_size(self, block_size: int) -> int:
        """The largest block size of at most ``block_size`` that the learner can do."""
        return block_size

    def capacity(self, state: Any) -> int | None:
        """Support vectors a state has room for; None where it cannot run short."""
        return None

    def num_supports(self, state: Any) -> jax.Array:
        """Support vectors that fill that room, a number."""
        return jnp.zeros((), jnp.int32)

    def enlarged(self, state: Any, capacity: int) -> Any:
        """The state with room for ``capacity`` support vectors, at least."""
        return state

    def encode(self, state: Any, X: jax.Array) -> Any:
        """Codes of the rows of ``X`` (B, D), with leading axis B."""
        raise NotImplementedError

    def decide(self, state: Any, code: Any) -> Prediction:
        """Predict from one code."""
        raise NotImplementedError

    def learn(
        self, state: Any, code: Any, y: jax.Array, asked: jax.Array, present: jax.Array
    ) -> Any:
        """The next state. Without ``asked`` the label is not looked at."""
        raise NotImplementedError

    def fold(self, state: Any, codes: Any) -> Any:
        """The state after a block whose codes these were."""
        return state

    def loss_value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        """The loss of a prediction."""
        raise NotImplementedError

    def info(self, state: Any) -> Any:
        """Diagnostics of a state, a NamedTuple."""
        return ()

    # The rest is final.

    def checked_start(self, num_inputs: int, dtype: Any) -> tuple[int, Any]:
        """The arguments of ``init``: a number of inputs, and a dtype that JAX has switched on."""
        good = isinstance(num_inputs, int | np.integer) and num_inputs >= 1
        pytree.require(good, self, "num_inputs", num_inputs, "an integer of at least 1")
        dtype = jax.dtypes.canonicalize_dtype(jnp.dtype(float if dtype is None else dtype))
        return int(num_inputs), dtype

    def _codes(self, state: Any, x: jax.Array) -> Any:
        """Codes of a block of one example."""
        return self.encode(state, jnp.asarray(x, self.dtype(state))[None])

    def predict(self, state: Any, x: jax.Array) -> Prediction:
        """Predict the label of ``x`` (D,)."""
        return self.decide(state, select_row(self._codes(state, x), 0))

    def update(self, state: Any, x: jax.Array, y: jax.Array) -> Any:
        """The next state after the label ``y`` of ``x`` arrived."""
        yes = jnp.asarray(True)
        y = jnp.asarray(y).astype(self.dtype(state))
        codes = self._codes(state, x)
        return self.fold(self.learn(state, select_row(codes, 0), y, yes, yes), codes)

    def skip(self, state: Any, x: jax.Array) -> Any:
        """The next state when the label of ``x`` was not asked for."""
        no, yes = jnp.asarray(False), jnp.asarray(True)
        y = jnp.zeros((), self.dtype(state))
        codes = self._codes(state, x)
        return self.fold(self.learn(state, select_row(codes, 0), y, no, yes), codes)

    def advance(
        self, state: Any, code: Any, y: jax.Array, present: Any = True
    ) -> tuple[Any, Output]:
        """One round from a code: predict, then learn if the label was asked for."""
        y = jnp.asarray(y).astype(self.dtype(state))
        present = jnp.asarray(present)
        prediction = self.decide(state, code)
        asked = prediction.query & present
        loss = self.loss_value(prediction.value, y)
        loss = jnp.where(jnp.isfinite(y) & ~jnp.isnan(prediction.value), loss, jnp.nan)
        output = Output(prediction.value, loss, asked, self.info(state))
        return self.learn(state, code, y, asked, present), output

    def step(self, state: Any, example: tuple[jax.Array, jax.Array]) -> tuple[Any, Output]:
        """One round on an example ``(x, y)``, to be scanned over a stream."""
        x, y = example
        codes = self._codes(state, x)
        state, output = self.advance(state, select_row(codes, 0), y)
        return self.fold(state, codes), output
