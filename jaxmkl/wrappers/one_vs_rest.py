"""Several classes with any learner for two classes: one against the rest."""

from operator import attrgetter

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._algorithm import State
from jaxmkl._blocks import take
from jaxmkl._checks import require_key
from jaxmkl._learner import Learner, Prediction
from jaxmkl._types import Aux, Code, PyTree
from jaxmkl.wrappers.wrapper import Wrapper


@pytree.dataclass
class OneVsRestState:
    """State of :class:`OneVsRest`."""

    inner: PyTree
    """States of the K learners, with a leading axis K."""
    key: Array
    """Typed PRNG key of the first of them."""
    round: Array
    """Examples seen, int32."""
    invalid: Array
    """Examples refused, int32."""
    nonfinite: Array
    """The largest number of labelled rounds in which one of them diverged, int32."""

    outlying = property(lambda self: 0 * self.invalid, doc="None, as classes have no size.")
    num_inputs = property(attrgetter("inner.num_inputs"), doc="Number of inputs D.")
    dtype = property(attrgetter("inner.dtype"), doc="Name of the floating dtype.")

    replace = State.replace

    @classmethod
    def of(cls, inner: PyTree) -> "OneVsRestState":
        """The state that holds these states of the K learners."""
        key, round, invalid = (take(a, 0) for a in (inner.key, inner.round, inner.invalid))
        return cls(inner, key, round, invalid, jnp.max(inner.nonfinite))


@pytree.dataclass
class OneVsRest(Wrapper[OneVsRestState, Code, Aux]):
    """One learner for each class, side by side; made by :func:`one_vs_rest`."""

    learner: Learner = pytree.part(Learner, "a classifier, as jaxmkl.spa()")
    num_classes: int = pytree.count(minimum=2)
    keeps_rounds = True

    def __post_init__(self) -> None:
        two = self.learner.task == "classification" and self.learner.num_outputs is None
        wanted = "a classifier of two classes, as jaxmkl.spa()"
        pytree.require(two, self, "learner", type(self.learner).__name__, wanted)

    @property
    def num_outputs(self) -> int:  # type: ignore[override]
        """The number of classes K."""
        return self.num_classes

    def init(self, key: Array, num_inputs: int, dtype: DTypeLike | None = None) -> OneVsRestState:
        require_key(self, key)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(self.num_classes))
        inner = jax.vmap(lambda key: self.learner.init(key, num_inputs, dtype))(keys)
        return OneVsRestState.of(inner)

    def encode(self, state: OneVsRestState, X: Array, given: Array | None = None) -> Code:
        """Codes of all learners; the axis of learners follows the axis of rows."""
        return jax.vmap(lambda own: self.learner.encode(own, X, given), out_axes=1)(state.inner)

    def predict_code(self, state: OneVsRestState, code: Code) -> tuple[Prediction, Aux]:
        """The learners' values (K,); the label is asked for if one of them wants it."""
        each, aux = jax.vmap(self.learner.predict_code)(state.inner, code)
        return each._replace(query=jnp.any(each.query), score=jnp.max(each.score)), aux

    def update_code(
        self, state: OneVsRestState, code: Code, aux: Aux, y: Array, asked: Array, present: Array
    ) -> tuple[OneVsRestState, Array]:
        """Each learner learns its own label, which is +1 for its class and -1 otherwise."""
        each = jax.vmap(self.learner.update_code, in_axes=(0, 0, 0, 0, None, None))
        inner, learned = each(state.inner, code, aux, y, asked, present)
        return OneVsRestState.of(inner), jnp.all(learned)

    def close(self, state: OneVsRestState, codes: Code) -> OneVsRestState:
        return OneVsRestState.of(jax.vmap(self.learner.close, in_axes=(0, 1))(state.inner, codes))

    def loss_value(self, prediction: Array, y: Array) -> Array:
        """The sum of the learners' losses."""
        return jnp.sum(self.learner.loss_value(prediction, y), axis=-1)

    def info(self, state: OneVsRestState) -> PyTree:
        return jax.vmap(self.learner.info)(state.inner)


@abilities.inside.register
def _(learner: OneVsRest, state: OneVsRestState) -> abilities.Inside:
    pair = learner.learner, state.inner
    return abilities.Inside((pair,), lambda states: OneVsRestState.of(states[0]), many=True)


def one_vs_rest(learner: Learner, num_classes: int) -> OneVsRest:
    """Make a learner for K classes from K learners for two: one class against the rest.

    A prediction has the K learners' values (K,), and the largest names the predicted class; labels
    are whole numbers from 0 to K - 1. A label is asked for if one of the learners wants it, and
    then all learn it. Learners on features take ``num_classes=`` themselves, and share features
    and covariances among classes (:func:`jaxmkl.expert_mkl`); this is for learners with supports.

    Args:
      learner: a classifier of two classes.
      num_classes: K.

    Raises:
      ValueError: if the learner is not such a classifier, or there are fewer than two classes.

    >>> import jaxmkl, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    >>> learner = one_vs_rest(jaxmkl.perceptron(jaxmkl.Gaussian(1.0)), 3)
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> prediction = np.asarray(jaxmkl.run(learner, state, X, y)[1].prediction)
    >>> prediction.shape, bool((prediction.argmax(axis=1) == y)[250:].mean() > 0.8)
    ((500, 3), True)
    """
    return OneVsRest(learner, num_classes)
