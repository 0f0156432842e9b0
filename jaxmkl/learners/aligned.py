"""Proj-KA: the model of the kernel that is best aligned with the labels so far predicts.

With y_1, ..., y_m the first labels, the alignment of kernel p is

    A_p = Σ_ij y_i y_j k_p(x_i, x_j) / (m sqrt(Σ_ij k_p(x_i, x_j)²))

The published method goes over the data twice: kernels are compared on the first m examples, then
the best one's Projectron starts from the first example. By default there is one pass: each kernel
has a Projectron from the start, and that of the kernel best aligned *so far* predicts, which from
round m on is the published method. With ``two_passes=True`` no model learns in the first m rounds,
and in later ones only that of the chosen kernel does. The published method is then two runs, one
over the first m examples and one over all:

>>> import jax, jaxmkl, numpy as np
>>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
>>> y = np.sign(X[:, 0] * X[:, 1])
>>> learner = jaxmkl.proj_ka(budget=50, num_aligned=100, two_passes=True)
>>> state = learner.init(jax.random.key(1), num_inputs=2)
>>> state, _ = jaxmkl.run(learner, state, X[:100], y[:100])        # chooses the kernel
>>> state, outputs = jaxmkl.run(learner, state, X, y)              # runs its Projectron
>>> bool((y * outputs.prediction <= 0)[150:].mean() < 0.25)
True

References:
  Cristianini, Shawe-Taylor, Elisseeff and Kandola (2002), On kernel-target alignment; Orabona,
  Keshet and Caputo (2008), The Projectron; Zhang and Liao (2020), section 6.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._algorithm import Algorithm, State
from jaxmkl._feedback import Feedback
from jaxmkl._types import PyTree
from jaxmkl.kernels import KernelDictionary
from jaxmkl.losses import Loss
from jaxmkl.models.on_supports import SupportModels
from jaxmkl.models.supports import DenseSupport, Proposal
from jaxmkl.query import All, Forecast, Query


@pytree.dataclass
class AlignedState(State):
    """State of :class:`Aligned`."""

    models: PyTree
    """The state of the bank."""
    pairs: PyTree
    """The first examples, with their labels and with ones as coefficients."""
    along: jax.Array
    """Σ_ij y_i y_j k_p(x_i, x_j) (P,)."""
    squares: jax.Array
    """Σ_ij k_p(x_i, x_j)² (P,)."""


class AlignedInfo(NamedTuple):
    """Diagnostics."""

    weights: jax.Array
    """1 for the kernel that predicts, 0 for others (P,)."""
    support: jax.Array
    """Support vectors of the kernels (P,), int32."""
    alignment: jax.Array
    """Alignments of the kernels (P,)."""


@pytree.dataclass
class Aligned(Algorithm[AlignedState, tuple, tuple]):
    """One model for each kernel; the one whose kernel is best aligned with the labels predicts.

    Args:
      models: a bank with supports, for classification.
      num_aligned: m, the number of first rounds over which alignment is measured (static).
      query: when a label is asked for.
      two_passes: whether no model learns until a kernel is chosen, and then only the model of that
        kernel does (static).

    Raises:
      ValueError: for another bank, or a number below 1.
    """

    models: SupportModels = pytree.part(
        SupportModels, "models with supports, as jaxmkl.models.SupportModels(kernels)"
    )
    num_aligned: int = pytree.count(default=10_000)
    query: Query = pytree.part(Query, "a query, as jaxmkl.query.Margin(0.1)", default=All())
    two_passes: bool = pytree.flag(default=False)

    def __post_init__(self) -> None:
        good = self.loss.task == "classification"
        pytree.require(good, self, "models", self.models, "for classification")

    @property
    def loss(self) -> Loss:  # type: ignore[override]
        """The loss of the update rule."""
        return self.models.rule.loss

    @property
    def period(self) -> int:  # type: ignore[override]
        """The period of the bank."""
        return self.models.period

    @property
    def _store(self) -> DenseSupport:
        return DenseSupport(self.num_aligned, period=self.period)

    @property
    def _kernels(self) -> KernelDictionary:
        """The kernels, and their squares."""
        return KernelDictionary((self.models.kernels, self.models.kernels * self.models.kernels))

    def init_own(
        self, frame: dict[str, Any], key: jax.Array, num_inputs: int, dtype: DTypeLike
    ) -> AlignedState:
        models = self.models.init(key, num_inputs, dtype)
        pairs = self._store.init(self._kernels, num_inputs, dtype)
        nothing = jnp.zeros((self.models.num_models,), dtype)
        return AlignedState(**frame, models=models, pairs=pairs, along=nothing, squares=nothing)

    def encode_own(self, state: AlignedState, X: jax.Array, keys: jax.Array) -> tuple:
        """Codes of the models, and of pairs with the first examples while these are counted."""
        counted = state.round < self.num_aligned
        pairs = state.pairs._replace(used=jnp.where(counted, state.pairs.used, 0))
        codes = self.models.encode(state.models, X, state.round, keys)
        return codes, self._store.encode(pairs, self._kernels, X, state.round)

    def _best(self, state: AlignedState) -> tuple[jax.Array, jax.Array]:
        """m A_p (P,), and 1 for the best aligned kernel, 0 for others (P,)."""
        norm = jnp.sqrt(jnp.where(state.squares > 0, state.squares, 1.0))
        alignment = state.along / norm
        best = jnp.arange(len(norm)) == jnp.argmax(alignment)
        return alignment, best.astype(norm.dtype)

    def predict_own(self, state: AlignedState, code: tuple) -> tuple[Forecast, tuple]:
        f, aux = self.models.predict(state.models, code[0])
        best = self._best(state)[1]
        return Forecast(f[jnp.argmax(best)], f, best), aux

    def update_own(
        self, state: AlignedState, code: tuple, aux: tuple, feedback: Feedback
    ) -> AlignedState:
        """The models learn; one of the first examples makes a pair with each before it."""
        P, (of_models, of_pairs) = self.models.num_models, code
        first = state.round < self.num_aligned
        counted = feedback.updates & first
        sums, of_store = self._store.predict(state.pairs, self._kernels, of_pairs)
        along = 2 * feedback.y * sums[:P] + of_pairs.own[:P]
        squares = 2 * sums[P:] + of_pairs.own[P:]
        coefficient = jnp.repeat(jnp.stack([feedback.y, jnp.ones_like(feedback.y)]), P)
        proposal = Proposal(jnp.full((2 * P,), counted), coefficient)
        learns = jnp.full((P,), feedback.updates)
        if self.two_passes:
            learns = learns & ~first & (self._best(state)[1] > 0)
        of_bank = feedback._replace(updates=learns)
        return state.replace(
            models=self.models.update(state.models, of_models, aux, of_bank),
            pairs=self._store.update(state.pairs, self._kernels, of_pairs, of_store, proposal),
            along=state.along + jnp.where(counted, along, 0.0),
            squares=state.squares + jnp.where(counted, squares, 0.0),
        )

    def close_own(self, state: AlignedState, codes: tuple) -> AlignedState:
        models = self.models.close(state.models, codes[0], state.round)
        pairs = self._store.close(state.pairs, self._kernels, codes[1], state.round, False)
        return state.replace(models=models, pairs=pairs)

    def info(self, state: AlignedState) -> AlignedInfo:
        alignment, best = self._best(state)
        number = state.models.number
        count = jnp.maximum(jnp.minimum(state.round, self.num_aligned), 1)
        return AlignedInfo(best, number, alignment / count.astype(alignment.dtype))


@abilities.reach.register
def _(learner: Aligned, rounds: jax.Array) -> jax.Array | None:
    return abilities.reach(learner.models, rounds)


@abilities.inside.register
def _(learner: Aligned, state: AlignedState) -> abilities.Inside:
    pair = learner.models, state.models
    return abilities.Inside((pair,), lambda states: state.replace(models=states[0]))
