"""A bank that is renewed from the memory and compiles little."""

import jax
import jax.numpy as jnp

from jaxmkl import abilities, pytree
from jaxmkl.models import Bank


@pytree.dataclass
class MeanOfMemory(Bank):
    """A model that is the mean label in its sample of the memory, and counts its renewals."""

    first: int = pytree.count(default=8)
    sample: int = pytree.count(default=100)
    num_models = 1
    all_rules = ()

    def init(self, key, num_inputs, dtype, num_outputs=None):
        zero = jnp.zeros((), dtype)
        return {
            "mean": zero,
            "inputs": jnp.zeros(num_inputs, dtype),
            "rounds": zero,
            "drawn": zero,
        }

    def encode(self, state, X, round, keys):
        return X

    def predict(self, state, code):
        return state["mean"][None], ()

    def update(self, state, code, aux, feedback):
        return state


@abilities.renewed.register
def _(bank: MeanOfMemory, state, renewal):
    given = renewal.sample(bank.sample)
    dtype = given.y.dtype
    return {
        "mean": jnp.sum(given.y) / jnp.maximum(jnp.sum(given.known), 1).astype(dtype),
        "inputs": jnp.sum(given.X, axis=0),
        "rounds": state["rounds"] + given.round.astype(dtype),
        "drawn": jax.random.uniform(given.key, (), dtype),
    }
