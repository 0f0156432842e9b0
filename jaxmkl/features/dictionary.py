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

**Far examples.** Kernel values exp(-u) with all points may be too small for their dtype, and then
f = μ·φ would be 0, a mistake, where double precision has a number of mostly the right sign. φ is
linear in k. So the values of an example whose largest is below ω k(x, x) are all multiplied by one
number that makes the largest ω k(x, x), with ω the root of the smallest normal number, 1e-19 in
single and 1e-154 in double precision. That keeps signs, and is lost in rounding beside k(x, x) and
beside what weights learn from other examples. Values with u > 745.13, which are 0 in double
precision, are 0 in either.

References:
  Calandriello, Lazaric and Valko (2017), Efficient second-order online kernel learning with
  adaptive embedding, Algorithm 2 (kernel online row sampling).
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import rounds_of, uniform
from jaxmkl._feedback import Feedback
from jaxmkl._types import Number, PyTree
from jaxmkl.features.map import FeatureMap
from jaxmkl.kernels import Kernel, Scaled, pairwise_products, scaled

_TOLERANCE = {8: 1e-8, 4: 1e-4, 2: 1e-2}  # the default, by the size of a number
_dot = partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)


class DictionaryState(NamedTuple):
    """State of :class:`SampledDictionary`: what it knows of each point, and two counts."""

    rows: jax.Array  # points (D, d)
    probabilities: jax.Array  # with which they came in (D,)
    factor: jax.Array  # L (D, D), the unit matrix behind the points there are
    inverse: jax.Array  # L⁻¹ (D, D)
    ridge_inverse: jax.Array  # M⁻¹ (D, D) of S K S + α I = M M'
    since: jax.Array  # stamps of the points (D,), int32
    number: jax.Array  # how many there are, int32
    refused: jax.Array  # examples that found no room, int32


class DictionaryCode(NamedTuple):
    """The examples of a block as the dictionary meets them; leading axis B."""

    x: jax.Array  # the examples (B, d)
    settled: jax.Array  # kernel codes (B, D) with the points that were there before the block
    among: jax.Array  # kernel codes (B, B) with the examples of the block
    own: jax.Array  # values k(x, x), (B,)
    limit: jax.Array | None  # exponents of ω k(x, x), (B,); None where codes are values
    first: jax.Array  # the stamp of the block's first example (B,), int32
    stamp: jax.Array  # those of the examples (B,), int32
    uniform: jax.Array  # numbers in [0, 1) that decide which examples come in (B,)


def values_of(
    code: DictionaryCode, used: jax.Array, recent: jax.Array, place: jax.Array
) -> jax.Array:
    """Kernel values (D,) of an example with the points, enlarged together if they are tiny.

    Args:
      code: the example.
      used: which points there are (D,); others have the value 0.
      recent: which of them came in during the block (D,).
      place: the places in the block of those (D,).
    """

    codes = jnp.where(recent, code.among[jnp.where(recent, place, 0)], code.settled)
    if code.limit is None:
        return jnp.where(used, codes, 0.0)
    there = used & scaled.is_there(codes)
    shift = Scaled(None, codes).smallest_exponent(there) - jax.lax.stop_gradient(code.limit)
    exponents = jnp.where(there, codes - jnp.maximum(shift, 0.0), 0.0)
    return jnp.where(there, jnp.exp(-exponents), 0.0)


class Offer(NamedTuple):
    """The fields of the state for an example, in their order, and what becomes of the example."""

    x: jax.Array  # the example (d,)
    probability: jax.Array  # p
    coordinates: jax.Array  # φ (D,), in the dictionary with the example in it if it comes in
    inverse: jax.Array  # its row of L⁻¹ (D,)
    ridge_inverse: jax.Array  # its row of M⁻¹ (D,)
    stamp: jax.Array  # its stamp, int32
    added: jax.Array  # whether it comes in
    refused: jax.Array  # whether it would, were there room


@pytree.dataclass
class SampledDictionary(FeatureMap):
    """At most ``size`` points of a stream, drawn by their leverage.

    An example may come in once, in its turn, labelled or not. Its stamp, a number that grows by
    one from example to example and from block to block, tells whether a point came in during the
    block at hand.

    Args:
      size: D, the most points (static).
      ridge: α: directions in which the points have less than this are not worth a point.
      density: β: how many points are taken. The theory wants 3 ln(T/δ)/ε², which is many.
      accuracy: ε, what a leverage is enlarged by.
      tolerance: the share of k(x, x) that must be new for x to come in; by default 1e-4 in single
        precision and 1e-8 in double.

    Raises:
      ValueError: for an argument outside its range.

    >>> import jaxmkl
    >>> dictionary, kernel, X = SampledDictionary(size=8), jaxmkl.Gaussian(1.0), jnp.eye(3)
    >>> state = dictionary.init(jax.random.key(0), kernel, 3, X.dtype)
    >>> keys = jax.random.split(jax.random.key(1), 3)
    >>> codes = jax.jit(dictionary.encode)(state, kernel, X, jnp.array(0), keys)
    >>> first = jax.tree.map(lambda leaf: leaf[0], codes)
    >>> z, offer = jax.jit(dictionary.predict)(state, first)
    >>> z.shape, bool(offer.added)
    ((1, 8), True)
    """

    size: int = pytree.count(default=100)
    ridge: Number = pytree.positive(default=1.0)
    density: Number = pytree.positive(default=1.0)
    accuracy: Number = pytree.nonnegative(default=0.5)
    tolerance: Number | None = pytree.number(
        default=None,
        minimum=0,
        exclusive=True,
        maximum=1,
        optional=True,
        wanted="above 0 and at most 1",
    )
    sequential = True

    def num_coordinates(self, num_inputs: int) -> int:
        return self.size

    def check(self, kernels: Kernel) -> None:
        good = isinstance(kernels, Kernel) and kernels.num_kernels == 1
        pytree.require(good, self, "kernels", kernels, "one kernel (give each its own models)")

    def init(
        self, key: jax.Array, kernels: Kernel, num_inputs: int, dtype: DTypeLike | None = None
    ) -> DictionaryState:
        D = self.size
        points = jnp.zeros((D, num_inputs), dtype), jnp.ones((D,), dtype)
        factors = [jnp.eye(D, dtype=dtype) for _ in range(3)]
        since = jnp.full((D,), -1, jnp.int32)
        counts = [jnp.zeros((), jnp.int32) for _ in range(2)]
        return DictionaryState._make([*points, *factors, since, *counts])

    def encode(
        self, state: PyTree, kernels: Kernel, X: jax.Array, round: jax.Array, keys: jax.Array
    ) -> DictionaryCode:
        """Kernel values of a block's examples ``X`` (B, d), all finite, by two matrix products.

        The block begins with the stamp ``round // B * B``; those of points that came in before it
        are smaller. Amid a block, examples before ``round`` had their turn and are ignored.
        """
        B = len(X)
        first = round // B * B
        # points that came in during this block stand where they stood in it
        place = jnp.where(self._used(state) & (state.since >= first), state.since - first, B)
        X = jnp.asarray(X).at[place].set(state.rows, mode="drop")
        among, settled = (kernels.codes(pairwise_products(X, Z))[0] for Z in (X, state.rows))
        itself, limit = jnp.diagonal(among), None
        if kernels.exponential[0]:
            limit = itself - 0.5 * math.log(jnp.finfo(X.dtype).tiny)
        own = scaled.plain(itself, kernels.exponential[:1])
        numbers = jax.vmap(lambda key: uniform(key, (), X.dtype))(keys)
        stamps = jnp.full((B,), first), rounds_of(round, B)
        return DictionaryCode(X, settled, among, own, limit, *stamps, numbers)

    def _used(self, state: DictionaryState) -> jax.Array:
        return jnp.arange(self.size, dtype=jnp.int32) < state.number

    def _values(self, state: DictionaryState, code: DictionaryCode) -> jax.Array:
        """Kernel values (D,) of an example with the points; 0 where there is none."""
        used = self._used(state)
        age = state.since - code.first
        recent = used & (age >= 0) & (age < code.among.shape[-1])
        return values_of(code, used, recent, age)

    def embed(self, state: DictionaryState, code: DictionaryCode) -> jax.Array:
        """Coordinates φ (D,) of one example."""
        values = self._values(state, code)
        phi = _dot(state.inverse, values)
        return phi + _dot(state.inverse, values - _dot(state.factor, phi))

    def probability(self, state: DictionaryState, code: DictionaryCode) -> jax.Array:
        """The probability p of one example."""
        return self._sampling(state, code)[0]

    def _sampling(self, state: DictionaryState, code: DictionaryCode) -> tuple[jax.Array, ...]:
        """p, a, and M⁻¹ S k (D,) with M M' = S K S + α I."""
        values = self._values(state, code)
        scale = jnp.where(self._used(state), jax.lax.rsqrt(state.probabilities), 0.0)
        explained = _dot(state.ridge_inverse, scale * values)
        p, a = self.chance(code, jnp.sum(explained**2))
        return p, a, explained

    def chance(self, code: DictionaryCode, known: jax.Array) -> tuple[jax.Array, jax.Array]:
        """p and a, by |M⁻¹ S k|²."""
        dtype = code.own.dtype
        a = jnp.maximum(code.own - known, 0.0)
        accuracy, ridge = jnp.asarray(self.accuracy, dtype), jnp.asarray(self.ridge, dtype)
        leverage = (1.0 + accuracy) * a / (a + ridge)
        return jnp.minimum(1.0, jnp.asarray(self.density, dtype) * leverage), a

    def admits(
        self, code: DictionaryCode, p: jax.Array, residual: jax.Array, number: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Whether x comes in, by k(x, x) - |φ|², and whether it would, were there room."""
        tolerance = _TOLERANCE[p.dtype.itemsize] if self.tolerance is None else self.tolerance
        taken = (code.uniform < p) & (residual > jnp.asarray(tolerance, p.dtype) * code.own)
        full = number >= self.size
        return taken & ~full, taken & full

    def predict(self, state: DictionaryState, code: DictionaryCode) -> tuple[jax.Array, Offer]:
        """Coordinates (1, D), with the example in the dictionary if it comes in."""
        D, dtype = self.size, code.own.dtype
        phi = self.embed(state, code)
        # what is drawn has no derivative
        p, a, explained = jax.lax.stop_gradient(self._sampling(state, code))
        residual = code.own - jnp.sum(phi**2)
        added, refused = self.admits(code, p, residual, state.number)
        here = jnp.arange(D, dtype=jnp.int32) == jnp.where(added, state.number, D)
        length = jnp.sqrt(jnp.where(added, residual, 1.0))

        def inverse_row(inverse: jax.Array, row: jax.Array, diagonal: jax.Array) -> jax.Array:
            """The row of the inverse factor for a new row of the factor and its diagonal."""
            return jnp.where(here, 1.0, -_dot(row, inverse)) / diagonal

        # the new row of M, by the weight 1/p of x
        weight = 1.0 / jnp.where(added, p, 1.0)
        ridge_row = jnp.sqrt(weight) * explained
        ridge_length = jnp.sqrt(weight * a + jnp.asarray(self.ridge, dtype))
        grown = jnp.where(here, length, phi)
        inverse = inverse_row(state.inverse, phi, length)
        ridge_inverse = inverse_row(state.ridge_inverse, ridge_row, ridge_length)
        offer = Offer(code.x, p, grown, inverse, ridge_inverse, code.stamp, added, refused)
        return grown[None], offer

    def update(
        self, state: DictionaryState, code: PyTree, aux: Offer, feedback: Feedback
    ) -> DictionaryState:
        """The dictionary after an example; where it was not ``seen``, as it was."""
        offer, seen = aux, feedback.seen
        added = offer.added & seen
        slot = jnp.where(added, state.number, self.size)
        pairs = zip(state[:6], offer[:6], strict=True)  # the same fields of all points, and of one
        arrays = [array.at[slot].set(new, mode="drop") for array, new in pairs]
        number = state.number + added.astype(jnp.int32)
        refused = state.refused + (offer.refused & seen).astype(jnp.int32)
        return DictionaryState._make([*arrays, number, refused])

    def settled(self, state: DictionaryState) -> DictionaryState:
        """The dictionary with all points stamped as older than any example to come."""
        return state._replace(since=jnp.full_like(state.since, -1))
