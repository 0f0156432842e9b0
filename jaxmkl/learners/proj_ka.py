"""Proj-KA: the kernel best aligned with the labels of a first part, and its Projectron.

With y_1, ..., y_m the first labels, the alignment of kernel p is

    A_p = Σ_ij y_i y_j k_p(x_i, x_j) / (m sqrt(Σ_ij k_p(x_i, x_j)²))

The published method goes over the data twice: kernels are compared on the first m examples, then
the Projectron of the best one starts from the first example. Here it is one pass: each kernel has
a Projectron from the start, and the one of the kernel best aligned *so far* predicts. From round
m on this is the published method; :func:`jaxmkl.kernel_alignment` and :func:`jaxmkl.projectron`
are its two passes.

References:
  Cristianini, Shawe-Taylor, Elisseeff and Kandola (2002), On kernel-target alignment; Orabona,
  Keshet and Caputo (2008), The Projectron; Zhang and Liao (2020), section 6.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import pytree
from jaxmkl.kernels import Kernel, KernelDictionary
from jaxmkl.learner import Prediction
from jaxmkl.learners.support_mkl import SupportMKL, projectron, selection_kernels
from jaxmkl.learners.wrappers import Wrapper
from jaxmkl.support import DenseSupport, GrowingState, Proposal

__all__ = ["Aligned", "proj_ka"]


class AlignedState(NamedTuple):
    """State of :class:`Aligned`.

    Attributes:
      inner: the learner's.
      pairs: the first examples, with their labels and with ones as coefficients.
      along: Σ_ij y_i y_j k_p(x_i, x_j) (P,).
      squares: Σ_ij k_p(x_i, x_j)² (P,).
    """

    inner: Any
    pairs: GrowingState
    along: jax.Array
    squares: jax.Array

    @property
    def round(self) -> jax.Array:
        """Examples seen."""
        return self.inner.round


class AlignedCode(NamedTuple):
    """One example: the learner's code, and that of the pairs it makes with the first ones."""

    inner: Any
    pairs: Any


class AlignedInfo(NamedTuple):
    """Diagnostics.

    Attributes:
      weights: 1 for the kernel that predicts, 0 for others (P,).
      support: support vectors of the kernels (P,), int32.
      alignment: of the kernels (P,).
    """

    weights: jax.Array
    support: jax.Array
    alignment: jax.Array


@pytree.dataclass
class Aligned(Wrapper):
    """A learner with many kernels, of which the one best aligned with the labels predicts.

    Args:
      learner: a :class:`~jaxmkl.SupportMKL` for classification.
      num_aligned: m, on how many of the first rounds alignment is measured (static).

    Raises:
      ValueError: for another learner, or a number below 1.
    """

    learner: SupportMKL
    num_aligned: int = pytree.static(default=10_000)

    def __post_init__(self) -> None:
        good = isinstance(self.learner, SupportMKL) and self.learner.task == "classification"
        text = "a SupportMKL for classification"
        pytree.require(good, self, "learner", self.learner, text)
        good = isinstance(self.num_aligned, int | np.integer) and self.num_aligned >= 1
        pytree.require(good, self, "num_aligned", self.num_aligned, "an integer of at least 1")
        object.__setattr__(self, "num_aligned", int(self.num_aligned))

    @property
    def _store(self) -> DenseSupport:
        return DenseSupport(self.num_aligned, period=self.learner.support.period)

    @property
    def _kernels(self) -> KernelDictionary:
        """The kernels, and their squares."""
        kernels = self.learner.kernels
        return KernelDictionary((kernels, kernels * kernels))

    def init(self, key: jax.Array, num_inputs: int, dtype: Any = None) -> AlignedState:
        """The learner's state, and no pairs."""
        inner = self.learner.init(key, num_inputs, dtype)
        pairs = self._store.init(self._kernels, num_inputs, self.learner.dtype(inner))
        P = self.learner.kernels.num_kernels
        along = jnp.zeros((P,), self.learner.dtype(inner))
        return AlignedState(inner, pairs, along, jnp.zeros_like(along))

    def encode(self, state: AlignedState, X: jax.Array) -> AlignedCode:
        """The learner's codes; those of pairs as long as they are counted."""
        inner = self.learner.encode(state.inner, X)
        counted = state.round < self.num_aligned
        pairs = state.pairs._replace(used=jnp.where(counted, state.pairs.used, 0))
        X = jnp.where(inner.usable[:, None], X, 0.0)
        return AlignedCode(inner, self._store.encode(pairs, self._kernels, X, state.round))

    def decide(self, state: AlignedState, code: AlignedCode) -> Prediction:
        """The value of the best aligned kernel."""
        f = self.learner.values(state.inner, code.inner)
        value = f[jnp.argmax(_alignment(state))]
        usable = code.inner.usable
        return Prediction(jnp.where(usable, value, jnp.nan), usable)

    def learn(
        self,
        state: AlignedState,
        code: AlignedCode,
        y: jax.Array,
        asked: jax.Array,
        present: jax.Array,
    ) -> AlignedState:
        """The learner learns; one of the first examples makes a pair with each before it."""
        known = asked & present & code.inner.usable & jnp.isfinite(y)
        counted = known & (state.round < self.num_aligned)
        label = jnp.where(counted, y, 0.0)
        P = state.along.shape[0]
        sums = self._store.values(state.pairs, self._kernels, code.pairs)
        along = 2 * label * sums[:P] + code.pairs.own[:P]
        squares = 2 * sums[P:] + code.pairs.own[P:]
        proposal = Proposal(
            learned=jnp.full((2 * P,), counted),
            coefficient=jnp.repeat(jnp.stack([label, jnp.ones_like(label)]), P),
            shrink=None,
            present=counted,
        )
        return AlignedState(
            self.learner.learn(state.inner, code.inner, y, asked, present),
            self._store.learn(state.pairs, self._kernels, code.pairs, proposal),
            state.along + jnp.where(counted, along, 0.0),
            state.squares + jnp.where(counted, squares, 0.0),
        )

    def fold(self, state: AlignedState, codes: AlignedCode) -> AlignedState:
        """Settle what a finished period leaves."""
        inner = self.learner.fold(state.inner, codes.inner)
        pairs = self._store.fold(state.pairs, self._kernels, codes.pairs, state.round, False)
        return state._replace(inner=inner, pairs=pairs)

    def info(self, state: AlignedState) -> AlignedInfo:
        """Which kernel predicts, support vectors, alignments."""
        alignment = _alignment(state)
        best = jnp.arange(alignment.shape[0]) == jnp.argmax(alignment)
        number = self.learner.info(state.inner).support
        count = jnp.maximum(jnp.minimum(state.round, self.num_aligned), 1)
        return AlignedInfo(best.astype(alignment.dtype), number, alignment / count)


def _alignment(state: AlignedState) -> jax.Array:
    """m A_p (P,)."""
    return state.along / jnp.sqrt(jnp.where(state.squares > 0, state.squares, 1.0))


def proj_ka(
    kernels: Kernel | None = None, *, budget: int = 200, num_aligned: int = 10_000
) -> Aligned:
    """Proj-KA: the Projectron of the kernel that is best aligned with the first labels.

    The formulas are those of :mod:`jaxmkl.learners.proj_ka`. A round costs O(P B²).

    Args:
      kernels: by default Gaussians of σ = 2^(-(i + 1) / 2), i = -12 ... 12.
      budget: B, support vectors a kernel.
      num_aligned: m, on how many of the first rounds alignment is measured.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Zhang and Liao (2020), section 6; Orabona, Keshet and Caputo (2008).

    >>> import jax, jaxmkl
    >>> X = jax.random.uniform(jax.random.key(0), (500, 2))
    >>> y = jax.numpy.sign(jax.numpy.sin(6 * X[:, 0]) * jax.numpy.sin(6 * X[:, 1]))
    >>> learner = proj_ka(jaxmkl.Gaussian((0.001, 0.2, 50.0)), budget=50, num_aligned=500)
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, y)
    >>> learner.info(state).weights
    Array([0., 1., 0.], dtype=float32)
    """
    kernels = selection_kernels() if kernels is None else kernels
    return Aligned(projectron(kernels, budget=budget), num_aligned)
