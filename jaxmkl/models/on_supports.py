"""Models with support vectors: f_p(x) = Σ_j a_pj k_p(x_j, x), one for each kernel."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import uniform
from jaxmkl._feedback import Feedback
from jaxmkl._types import PyTree
from jaxmkl.kernels import scaled
from jaxmkl.kernels.kernel import SEVERAL, Kernel
from jaxmkl.models.bank import Bank
from jaxmkl.models.supports import DenseSupport, Proposal, Store
from jaxmkl.updates import Perceptron, Rule, Update
from jaxmkl.updates.first_order import shapes_of_step


@pytree.dataclass
class SupportModels(Bank[PyTree, tuple, tuple]):
    """A bank of kernel models, each with its support vectors in one store.

    Args:
      kernels: a kernel that stacks P of them, or a dictionary.
      rule: a first-order update rule, at one rate.
      store: the store of the support vectors, which says how many there may be.

    Raises:
      ValueError: if the rule has several rates.

    >>> import jaxmkl
    >>> bank = SupportModels(jaxmkl.Gaussian([0.5, 2.0]), jaxmkl.updates.PassiveAggressive(0.1))
    >>> bank.num_models
    2
    """

    kernels: Kernel = pytree.part(Kernel, SEVERAL)
    rule: Update = pytree.part(
        Update,
        "an update rule of first order, as jaxmkl.updates.Perceptron(): models with supports have "
        "no weights that another rule could move",
        default=Perceptron(),
    )
    store: Store = pytree.part(
        Store, "a store of supports, as jaxmkl.models.DenseSupport()", default=DenseSupport()
    )

    def __post_init__(self) -> None:
        text = "a rule at one rate (give each rate its own SupportModels)"
        pytree.require(self.rule.num_rates == 1, self, "rule", self.rule, text)
        self.rule.check()

    @property
    def num_models(self) -> int:
        return self.kernels.num_kernels

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        return (self.rule,)

    @property
    def small_values(self) -> bool:  # type: ignore[override]
        """True for kernels exp(-u), whose values vanish far from all supports."""
        return any(self.kernels.exponential)

    @property
    def period(self) -> int:  # type: ignore[override]
        """The period of the store."""
        return self.store.period

    def init(
        self, key: jax.Array, num_inputs: int, dtype: DTypeLike, num_outputs: int | None = None
    ) -> PyTree:
        return self.store.init(self.kernels, num_inputs, dtype)

    def encode(self, state: PyTree, X: jax.Array, round: jax.Array, keys: jax.Array) -> tuple:
        """Codes of the store, and uniform numbers (P,) for each example, or None."""
        code, draw = self.store.encode(state, self.kernels, X, round), None
        if self.store.random:
            draw = jax.vmap(lambda key: uniform(key, (self.num_models,), X.dtype))(keys)
        return code, draw

    def predict(self, state: PyTree, code: tuple) -> tuple[jax.Array, tuple]:
        f, of_store = self.store.predict(state, self.kernels, code[0])
        # sums that overflow stay numbers, by which rules can step, and are counted as diverged
        f = scaled.bounded(jnp.where(jnp.isnan(f), jnp.inf, f))
        return f, (f, of_store)

    def update(self, state: PyTree, code: tuple, aux: tuple, feedback: Feedback) -> PyTree:
        """Make the example a support vector where the rule has a coefficient for it."""
        (f, of_store), (in_store, draw) = aux, code
        step = self.rule.step(f[None], feedback.y, in_store.own[None])
        taken = feedback.taken(None if step.probability is None else step.probability[0])
        coefficient, decay = step.coefficient[0], step.decay
        if decay is not None:
            decay = jnp.where(taken, jnp.broadcast_to(decay, f[None].shape)[0], 1.0)
        learned = taken & (coefficient != 0) & jnp.isfinite(coefficient)
        proposal = Proposal(learned, coefficient, decay, draw)
        return self.store.update(state, self.kernels, in_store, of_store, proposal)

    def close(self, state: PyTree, codes: tuple, round: jax.Array) -> PyTree:
        decays = shapes_of_step(self.rule).decay is not None
        return self.store.close(state, self.kernels, codes[0], round, decays)


@abilities.warn_of_steps.register
def _(bank: SupportModels) -> None:
    if any(bank.kernels.unit):
        abilities.warn_of_steps(bank.rule, 1.0)


@abilities.reach.register
def _(bank: SupportModels, rounds: jax.Array) -> jax.Array | None:
    step, unit = bank.rule.largest_step, np.asarray(bank.kernels.unit)
    if step is None or not unit.any():
        return None
    reach = bank.store.reach(jnp.asarray(step, rounds.dtype), rounds)
    return None if reach is None else jnp.where(unit, reach, jnp.inf)


@abilities.capacity.register
def _(bank: SupportModels, state: PyTree) -> int | None:
    return bank.store.capacity_of(state)


@abilities.num_supports.register
def _(bank: SupportModels, state: PyTree) -> jax.Array:
    return bank.store.used(state)


@abilities.enlarged.register
def _(bank: SupportModels, state: PyTree, capacity: int) -> PyTree:
    return bank.store.enlarged(state, capacity)


@abilities.support_counts.register
def _(bank: SupportModels, state: PyTree) -> tuple[jax.Array, jax.Array]:
    return state.number, state.overflow
