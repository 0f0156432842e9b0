"""A dictionary sampled from a stream, and the coordinates of examples in it (Nyström).

The dictionary holds n points x_i, at most D, with the probabilities p_i by which they came in.
With the Cholesky factor L L' = K of their Gram matrix, an example x has the coordinates

    φ(x) = L⁻¹ k(x),   k_i = k(x_i, x),       so that φ(x_i)·φ(x) = k(x_i, x) and |φ|² <= k(x, x)

filled up with zeros to D. A point that comes in is a new row of L; coordinates of earlier points
stay as they were. Whether x comes in is decided before its label is seen (kernel online row
sampling): with S = diag(p_i^-1/2),

    a = k(x, x) - k'S (S K S + α I)⁻¹ S k
    τ = (1 + ε) a / (a + α)                  the leverage of x, estimated
    p = min(1, β τ)                          the probability of x

x is taken if a uniform number is below p, and k(x, x) - |φ|² > tolerance · k(x, x). A dictionary
that is full stays as it is, and counts the examples it would have taken.

**No solves.** L⁻¹ and the inverse factor of S K S + α I grow by a row with each point, so that a
round is some products of a matrix and a vector; one step of refinement with L makes up for what
rounding did to L⁻¹.

References:
  Calandriello, Lazaric and Valko (2017), Efficient second-order online kernel learning with
  adaptive embedding, Algorithm 2 (kernel online row sampling).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import pytree
from jaxmkl.kernels import Kernel, pairwise_products

__all__ = ["DictionaryCode", "DictionaryState", "Offer", "SampledDictionary"]

# The default tolerance, by the size of a number.
_TOLERANCE = {8: 1e-8, 4: 1e-4, 2: 1e-2}


class DictionaryState(NamedTuple):
    """State of :class:`SampledDictionary`.

    Attributes:
      rows: points (D, d).
      probabilities: with which they came in (D,).
      factor: L (D, D), the unit matrix behind the points there are.
      inverse: L⁻¹ (D, D).
      ridge_inverse: M⁻¹ (D, D) of S K S + α I = M M'.
      since: stamps of the points (D,), int32.
      number: how many there are, int32.
      refused: examples that found no room, int32.
    """

    rows: jax.Array
    probabilities: jax.Array
    factor: jax.Array
    inverse: jax.Array
    ridge_inverse: jax.Array
    since: jax.Array
    number: jax.Array
    refused: jax.Array


class DictionaryCode(NamedTuple):
    """What a block's examples are to the dictionary; leading axis B.

    Attributes:
      x: the examples (B, d).
      settled: kernel values (B, D) with the points that were there before the block.
      among: kernel values (B, B) with the examples of the block.
      own: values k(x, x), (B,).
      first: the stamp of the block's first example (B,), int32.
      stamp: those of the examples (B,), int32.
    """

    x: jax.Array
    settled: jax.Array
    among: jax.Array
    own: jax.Array
    first: jax.Array
    stamp: jax.Array


class Offer(NamedTuple):
    """What became of an example.

    Attributes:
      coordinates: φ (D,), in the dictionary with the example in it if it came in.
      added: whether it did.
      probability: p.
    """

    coordinates: jax.Array
    added: jax.Array
    probability: jax.Array


def _dot(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.dot(left, right, precision=jax.lax.Precision.HIGHEST)


@pytree.dataclass
class SampledDictionary:
    """At most ``size`` points of a stream, drawn by their leverage.

    An example is offered once, in its turn. Stamps tell which points came in during the block
    whose examples are encoded: they are numbers that grow by one from example to example, and
    from block to block.

    Args:
      size: D, the most points (static).
      ridge: α: directions in which the points have less than this are not worth a point.
      density: β: how many points are taken. The theory wants 3 ln(T/δ)/ε², which is many.
      accuracy: ε, what a leverage is enlarged by.
      tolerance: the share of k(x, x) that must be new for x to come in; by default 1e-4 in single
        precision and 1e-8 in double.

    Raises:
      ValueError: for an argument outside its range.

    >>> import jax, jaxmkl
    >>> dictionary, kernel = SampledDictionary(size=8), jaxmkl.Gaussian(1.0)
    >>> X = jax.random.normal(jax.random.key(0), (50, 2))
    >>> codes = dictionary.encode(dictionary.init(2, X.dtype), kernel, X, 0)
    >>> def offer(state, example):
    ...     code, uniform = example
    ...     return dictionary.offer(state, code, uniform, True)
    >>> state = dictionary.init(2, X.dtype)
    >>> uniform = jax.random.uniform(jax.random.key(1), (50,))
    >>> state, offers = jax.lax.scan(offer, state, (codes, uniform))
    >>> int(state.number), int(state.refused) > 0, offers.coordinates.shape
    (8, True, (50, 8))
    """

    size: int = pytree.static(default=100)
    ridge: Any = 1.0
    density: Any = 1.0
    accuracy: Any = 0.5
    tolerance: Any = None

    def __post_init__(self) -> None:
        good = isinstance(self.size, int | np.integer) and self.size >= 1
        pytree.require(bool(good), self, "size", self.size, "an integer of at least 1")
        object.__setattr__(self, "size", int(self.size))
        positive = "a positive finite number"
        for name in ("ridge", "density"):
            value = pytree.as_leaf(
                self, name, getattr(self, name), minimum=0.0, exclusive=True, wanted=positive
            )
            object.__setattr__(self, name, value)
        accuracy = pytree.as_leaf(
            self, "accuracy", self.accuracy, minimum=0.0, wanted="a finite number of at least 0"
        )
        object.__setattr__(self, "accuracy", accuracy)
        if self.tolerance is not None:
            tolerance = pytree.as_leaf(
                self,
                "tolerance",
                self.tolerance,
                minimum=0.0,
                exclusive=True,
                maximum=1.0,
                wanted="above 0 and at most 1, or None",
            )
            object.__setattr__(self, "tolerance", tolerance)

    def init(self, num_inputs: int, dtype: Any) -> DictionaryState:
        """No point.

        Args:
          num_inputs: d.
          dtype: floating dtype of the state.
        """
        D = self.size
        return DictionaryState(
            rows=jnp.zeros((D, num_inputs), dtype),
            probabilities=jnp.ones((D,), dtype),
            factor=jnp.eye(D, dtype=dtype),
            inverse=jnp.eye(D, dtype=dtype),
            ridge_inverse=jnp.eye(D, dtype=dtype),
            since=jnp.full((D,), -1, jnp.int32),
            number=jnp.zeros((), jnp.int32),
            refused=jnp.zeros((), jnp.int32),
        )

    def encode(
        self, state: DictionaryState, kernel: Kernel, X: jax.Array, first: Any
    ) -> DictionaryCode:
        """Kernel values of a block's examples, by two matrix products.

        Args:
          state: at the block's start, or amid it: examples that have had their turn are not
            looked at.
          kernel: one kernel.
          X: examples (B, d), all finite.
          first: stamp of the first one; those of points that came in before the block are smaller.
        """
        X, first = jnp.asarray(X, state.rows.dtype), jnp.asarray(first, jnp.int32)
        B = X.shape[0]
        # points that came in during this block stand where they stood in it
        place = jnp.where(self._recent(state, first), state.since - first, B)
        X = X.at[place].set(state.rows, mode="drop")
        among = kernel.evaluate(pairwise_products(X, X))[0]
        return DictionaryCode(
            x=X,
            settled=kernel.evaluate(pairwise_products(X, state.rows))[0],
            among=among,
            own=jnp.diagonal(among),
            first=jnp.full((B,), first),
            stamp=first + jnp.arange(B, dtype=jnp.int32),
        )

    def _used(self, state: DictionaryState) -> jax.Array:
        return jnp.arange(self.size, dtype=jnp.int32) < state.number

    def _recent(self, state: DictionaryState, first: jax.Array) -> jax.Array:
        """Which points (D,) came in with the stamp ``first`` or a later one."""
        return self._used(state) & (state.since >= first)

    def _values(self, state: DictionaryState, code: DictionaryCode) -> jax.Array:
        """Kernel values (D,) of an example with the points; 0 where there is none."""
        recent = self._recent(state, code.first)
        of_block = code.among[jnp.where(recent, state.since - code.first, 0)]
        values = jnp.where(recent, of_block, code.settled)
        return jnp.where(self._used(state), values, 0.0)

    def embed(self, state: DictionaryState, code: DictionaryCode) -> jax.Array:
        """Coordinates φ (D,) of one example."""
        return self._coordinates(state, self._values(state, code))

    def _coordinates(self, state: DictionaryState, values: jax.Array) -> jax.Array:
        phi = _dot(state.inverse, values)
        return phi + _dot(state.inverse, values - _dot(state.factor, phi))

    def probability(self, state: DictionaryState, code: DictionaryCode) -> jax.Array:
        """The probability p of one example."""
        return self._sampling(state, code, self._values(state, code))[0]

    def _sampling(
        self, state: DictionaryState, code: DictionaryCode, values: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """p, a, and M⁻¹ S k (D,) with M M' = S K S + α I."""
        dtype = values.dtype
        alpha = jnp.asarray(self.ridge, dtype)
        scale = jnp.where(self._used(state), jax.lax.rsqrt(state.probabilities), 0.0)
        explained = _dot(state.ridge_inverse, scale * values)
        a = jnp.maximum(code.own - jnp.sum(explained**2), 0.0)
        leverage = (1.0 + jnp.asarray(self.accuracy, dtype)) * a / (a + alpha)
        return jnp.minimum(1.0, jnp.asarray(self.density, dtype) * leverage), a, explained

    def offer(
        self, state: DictionaryState, code: DictionaryCode, uniform: jax.Array, present: Any
    ) -> tuple[DictionaryState, Offer]:
        """Offer one example to the dictionary.

        Args:
          state: the dictionary.
          code: of the example.
          uniform: a number in [0, 1), which decides.
          present: whether there is an example at all; without one the dictionary stays as it is.

        Returns:
          The dictionary, and what became of the example.
        """
        D, dtype = self.size, code.own.dtype
        values = self._values(state, code)
        phi = self._coordinates(state, values)
        # what is drawn has no derivative
        p, a, explained = jax.lax.stop_gradient(self._sampling(state, code, values))
        tolerance = _TOLERANCE[dtype.itemsize] if self.tolerance is None else self.tolerance
        residual = code.own - jnp.sum(phi**2)
        new = residual > jnp.asarray(tolerance, dtype) * code.own
        taken = jnp.asarray(present) & (uniform < p) & new
        full = state.number >= D
        added = taken & ~full
        slot = jnp.where(added, state.number, D)
        here = jnp.arange(D) == slot
        length = jnp.sqrt(jnp.where(added, residual, 1.0))

        def inverse_row(inverse: jax.Array, row: jax.Array, diagonal: jax.Array) -> jax.Array:
            """The row of the inverse factor for a new row of the factor and its diagonal."""
            return jnp.where(here, 1.0, -_dot(row, inverse)) / diagonal

        # the new row of M, by the weight 1/p of x
        weight = 1.0 / jnp.where(added, p, 1.0)
        ridge_row = jnp.sqrt(weight) * explained
        ridge_length = jnp.sqrt(weight * a + jnp.asarray(self.ridge, dtype))
        ridge_row = inverse_row(state.ridge_inverse, ridge_row, ridge_length)
        inverse = inverse_row(state.inverse, phi, length)
        coordinates = jnp.where(here, length, phi)
        after = DictionaryState(
            rows=state.rows.at[slot].set(code.x, mode="drop"),
            probabilities=state.probabilities.at[slot].set(p, mode="drop"),
            factor=state.factor.at[slot].set(coordinates, mode="drop"),
            inverse=state.inverse.at[slot].set(inverse, mode="drop"),
            ridge_inverse=state.ridge_inverse.at[slot].set(ridge_row, mode="drop"),
            since=state.since.at[slot].set(code.stamp, mode="drop"),
            number=state.number + added.astype(jnp.int32),
            refused=state.refused + (taken & full).astype(jnp.int32),
        )
        return after, Offer(coordinates, added, p)

    def settled(self, state: DictionaryState) -> DictionaryState:
        """The dictionary with all points stamped as older than any example to come."""
        return state._replace(since=jnp.full_like(state.since, -1))
