"""All that experiments use of the internals of learners, in one place.

Everything else uses the names of learners, their parameters, and the interface of every learner:
``init``, ``run`` and the like, ``info``, ``task``.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmkl
from jaxmkl import pytree
from jaxmkl.evaluate.candidates import numbered
from jaxmkl.kernels import Kernel
from jaxmkl.models.supports import DenseSupport, Proposal
from jaxmkl.models.supports.growing import GrowingState


def kernels_of(learner: jaxmkl.Learner) -> Kernel:
    """Return the kernels of a learner, scaled or not.

    >>> kernels_of(jaxmkl.scaled(jaxmkl.raker(), jaxmkl.wrappers.RunningMoments())).num_kernels
    17
    """
    *_, inside = jaxmkl.wrappers.layers(learner)
    return inside.models[0].kernels if isinstance(inside, jaxmkl.MKL) else inside.kernels


def kernels_of_models(learner: jaxmkl.Learner) -> tuple[int, ...]:
    """Return the number of the kernel of each model (E,) of a learner, scaled or not.

    Kernels are numbered through over the banks, also over those side by side.

    >>> kernels_of_models(jaxmkl.MKL(jaxmkl.raker().models, jaxmkl.aggregate.Uniform()))[:4]
    (0, 1, 2, 3)
    """
    *_, inside = jaxmkl.wrappers.layers(learner)
    found, kernels = np.zeros(inside.num_models, int), 0
    for bank, numbers in numbered(inside.models):
        P = bank.num_kernels
        found[numbers.reshape(-1, P)] = kernels + np.arange(P)
        kernels += P
    return tuple(found.tolist())


@functools.cache
def kernel_weights(of_models: tuple[int, ...]) -> Callable[[jaxmkl.Output], jaxmkl.Output]:
    """Return a record of the weights of the kernels, summed over the models of each; it is cached,
    as another function object would be compiled again."""

    def record(output: jaxmkl.Output) -> jaxmkl.Output:
        kernels, P = np.asarray(of_models), max(of_models) + 1
        return output._replace(info=jax.ops.segment_sum(output.info.weights, kernels, P))

    return record


def num_supports(learner: jaxmkl.Learner, states: object) -> jax.Array | None:
    """Return the number of support vectors (S,) of all kernels of states; None without any.

    A support vector that is shared by several kernels counts once for each.
    """

    number = jax.vmap(lambda state: getattr(learner.info(state), "support", None))(states)
    return None if number is None else number.reshape(len(number), -1).sum(axis=1)


def whole_blocks(learner: jaxmkl.Learner, X: jax.Array) -> jax.Array:
    """Return the complete blocks of X (N, B, D), of the size that the learner prefers."""
    block = learner.preferred_block_size
    return X[: len(X) // block * block].reshape(-1, block, X.shape[1])


def encode(learner: jaxmkl.Learner, state: object, X: jax.Array) -> jax.Array:
    """Encode all complete blocks of X and add their codes, so that none can be optimised away."""

    def total(part: jax.Array) -> jax.Array | int:
        leaves = jax.tree.leaves(learner.encode(state, part))
        return sum(jnp.sum(leaf) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.number))

    return jax.lax.map(total, whole_blocks(learner, X))


def with_step_size(learner: jaxmkl.MKL, step_size: float | jax.Array) -> jaxmkl.MKL:
    """Return a learner with support vectors with another step size."""
    (bank,) = learner.models
    rule = dataclasses.replace(bank.rule, step_sizes=step_size)
    return dataclasses.replace(learner, models=dataclasses.replace(bank, rule=rule))


def scoring(learner: Any) -> jaxmkl.MKL:
    """Return a learner that draws one kernel with its score as output: a vote is never 0.

    >>> scoring(jaxmkl.oks()).aggregate.output
    'value'
    """
    aggregate = dataclasses.replace(learner.aggregate, output="value")
    return dataclasses.replace(learner, aggregate=aggregate)


@pytree.dataclass
class SlippedSupport(DenseSupport):
    """A store of the printed OMKC(SD): the last three kernels' supports go to the first three.

    The program that produced the table adds the support vectors of the three polynomials to the
    Gaussians of σ = 2^-6, 2^-5, 2^-4. So a polynomial stays zero and errs in every round. If both
    the polynomial and the Gaussian add an example, the Gaussian does so twice; the two count as
    two support vectors, as they do there.
    """

    def update(
        self, state: GrowingState, kernels: Kernel, code: Any, aux: Any, proposal: Proposal
    ) -> GrowingState:
        """Add the example at another place than the proposed one."""
        taken = jnp.where(proposal.learned, proposal.coefficient, 0.0)
        twice = taken[:3] + taken[-3:]
        taken = jnp.concatenate([twice, taken[3:-3], jnp.zeros_like(twice)])
        rerouted = proposal._replace(learned=taken != 0, coefficient=taken)
        learned = super().update(state, kernels, code, aux, rerouted)
        came = proposal.learned & (learned.overflow == state.overflow)
        return learned._replace(number=state.number + came.astype(jnp.int32))


def slipped(learner: jaxmkl.MKL) -> jaxmkl.MKL:
    """Return a learner whose support vectors are where the printed program puts them."""
    (bank,) = learner.models
    bank = dataclasses.replace(bank, store=SlippedSupport(bank.store.capacity))
    return dataclasses.replace(learner, models=bank)
