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

**No solves.** L⁻¹ and M⁻¹S, with M M' = S K S + α I, grow by a row with each point, so that a
round is some products of a matrix and a vector; one step of refinement with L makes up for what
rounding did to L⁻¹. The three are one table, of which a point that comes in changes a row: so a
round has few arrays to write. Where one of them is wanted alone, the products with all three take
less time on a CPU than a copy of the one.

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
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import einsum, uniform
from jaxmkl._feedback import Feedback
from jaxmkl._types import Number
from jaxmkl.features.map import FeatureMap
from jaxmkl.kernels import Kernel, Scaled, pairwise_products, scaled

_TOLERANCE = {8: 1e-8, 4: 1e-4, 2: 1e-2}  # the default, by the size of a number


class DictionaryState(NamedTuple):
    """State of :class:`SampledDictionary`."""

    rows: jax.Array
    """Points (D, d); those that come in during a block are written when it is closed."""
    table: jax.Array
    """L⁻¹, M⁻¹S and L (3, D, D + 1), unit matrices behind the points there are. A last column has
    the places of points that came in during the block at hand, and -1 else."""
    number: jax.Array
    """How many points there are, int32."""
    refused: jax.Array
    """Examples that found no room, int32."""


class DictionaryCode(NamedTuple):
    """The examples of a block as the dictionary meets them; leading axis B."""

    x: jax.Array  # the examples (B, d)
    settled: jax.Array  # kernel codes (B, D) with the points that were there before the block
    among: jax.Array  # kernel codes (B, B) with the examples of the block
    own: jax.Array  # values k(x, x), (B,)
    limit: jax.Array | None  # exponents of ω k(x, x), (B,); None where codes are values
    place: jax.Array  # the examples' places in the block (B,), int32
    uniform: jax.Array  # numbers in [0, 1) that decide which examples come in (B,)


class Offer(NamedTuple):
    """The change that an example makes to the dictionary."""

    probability: jax.Array  # p
    coordinates: jax.Array  # φ (D,), in the dictionary with the example in it if it comes in
    row: jax.Array  # its row of the table (3, D + 1)
    added: jax.Array  # whether it comes in
    refused: jax.Array  # whether it would, were there room


@pytree.dataclass
class SampledDictionary(FeatureMap[DictionaryState, DictionaryCode, Offer]):
    """At most ``size`` points of a stream, drawn by their leverage.

    Each example may come in once, in its own round, labelled or not.

    Args:
      size: D, the largest number of points (static).
      ridge: α; the larger it is, the fewer points come in.
      density: β; the larger it is, the more points come in. The theory needs 3 ln(T/δ)/ε², with
        which many do.
      accuracy: ε; estimated leverages are enlarged by the factor 1 + ε.
      tolerance: the share of k(x, x) that must be new for x to come in; by default 1e-4 in single
        precision and 1e-8 in double.

    Raises:
      ValueError: for an argument outside its range.

    >>> import jaxmkl
    >>> dictionary, kernel, X = SampledDictionary(size=8), jaxmkl.Gaussian(1.0), jnp.eye(3)
    >>> @jax.jit
    ... def first(X, keys):
    ...     state = dictionary.init(jax.random.key(0), kernel, 3, X.dtype)
    ...     codes = dictionary.encode(state, kernel, X, jnp.array(0), keys)
    ...     return dictionary.predict(state, jax.tree.map(lambda leaf: leaf[0], codes))
    >>> z, offer = first(X, jax.random.split(jax.random.key(1), 3))
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
        D, none = self.size, jnp.zeros((), jnp.int32)
        matrices = jnp.tile(jnp.eye(D, dtype=dtype), (3, 1, 1))
        table = jnp.concatenate([matrices, jnp.full((3, D, 1), -1, dtype)], axis=2)
        return DictionaryState(jnp.zeros((D, num_inputs), dtype), table, none, none)

    def encode(
        self,
        state: DictionaryState,
        kernels: Kernel,
        X: jax.Array,
        round: jax.Array,
        keys: jax.Array,
    ) -> DictionaryCode:
        """Kernel values of a block's examples ``X`` (B, d), all finite, by two matrix products."""
        among, settled = (kernels.codes(pairwise_products(X, Z))[0] for Z in (X, state.rows))
        itself, limit = jnp.diagonal(among), None
        if kernels.exponential[0]:
            limit = itself - 0.5 * math.log(jnp.finfo(X.dtype).tiny)
        own = scaled.plain(itself, kernels.exponential[:1])
        numbers = jax.vmap(lambda key: uniform(key, (), X.dtype))(keys)
        place = jnp.arange(len(X), dtype=jnp.int32)
        return DictionaryCode(X, settled, among, own, limit, place, numbers)

    def _came(self, state: DictionaryState) -> tuple[jax.Array, jax.Array]:
        """Which points came in during the block at hand (D,), and where in it they were (D,)."""
        place = state.table[2, :, -1].astype(jnp.int32)
        return place >= 0, jnp.maximum(place, 0)

    def _values(self, state: DictionaryState, code: DictionaryCode) -> jax.Array:
        """Kernel values (D,) with the points, enlarged together if tiny; 0 without one."""
        came, place = self._came(state)
        codes = jnp.where(came, code.among[place], code.settled)
        used = jnp.arange(self.size, dtype=jnp.int32) < state.number
        if code.limit is None:
            return jnp.where(used, codes, 0.0)
        there = used & scaled.is_there(codes)
        shift = Scaled(None, codes).smallest_exponent(there) - jax.lax.stop_gradient(code.limit)
        exponents = jnp.where(there, codes - jnp.maximum(shift, 0.0), 0.0)
        return jnp.where(there, jnp.exp(-exponents), 0.0)

    def _coordinates(self, state: DictionaryState, code: DictionaryCode) -> jax.Array:
        """φ and M⁻¹Sk of one example, by the points there are, and what is of no use (3, D)."""
        values = self._values(state, code)

        def products(vector: jax.Array) -> jax.Array:
            return einsum("mij,j->mi", state.table, jnp.pad(vector, (0, 1)))

        first = products(values)
        phi = first[0]
        phi = phi + products(values - products(phi)[2])[0]
        # what is drawn has no derivative
        return jnp.where(np.arange(3)[:, None] == 0, phi, jax.lax.stop_gradient(first))

    def embed(self, state: DictionaryState, code: DictionaryCode) -> jax.Array:
        """Coordinates φ (D,) of one example."""
        return self._coordinates(state, code)[0]

    def probability(self, state: DictionaryState, code: DictionaryCode) -> jax.Array:
        """The probability p of one example."""
        return self.predict(state, code)[1].probability

    def predict(self, state: DictionaryState, code: DictionaryCode) -> tuple[jax.Array, Offer]:
        """Coordinates (1, D), with the example in the dictionary if it comes in."""
        D, dtype = self.size, code.own.dtype
        ridge, accuracy, density = (
            jnp.asarray(v, dtype) for v in (self.ridge, self.accuracy, self.density)
        )
        each = self._coordinates(state, code)
        # of k(x, x) what neither φ nor M⁻¹Sk explains
        rest = jnp.maximum(code.own - einsum("mi,mi->m", each, each), 0.0)
        p = jnp.minimum(1.0, density * (1.0 + accuracy) * rest[1] / (rest[1] + ridge))
        tolerance = _TOLERANCE[dtype.itemsize] if self.tolerance is None else self.tolerance
        taken = (code.uniform < p) & (rest[0] > jnp.asarray(tolerance, dtype) * code.own)
        full = state.number >= D
        added = taken & ~full

        table, column = np.arange(3)[:, None], np.arange(D + 1, dtype=np.int32)
        here = column == jnp.where(added, state.number, D + 1)
        # a row of M has the weight 1/p of its point, of M⁻¹S the inverse root of it is left
        lengths = rest[:, None] + jnp.where(table == 1, p * ridge, 0.0)
        lengths = jnp.sqrt(jnp.where(added & (table < 2), lengths, 1.0))
        phi = jnp.where(here[:-1], lengths[0], each[0])
        inverses = jnp.where(here, 1.0, -einsum("mi,mij->mj", each, state.table)) / lengths
        row = jnp.where(table == 2, jnp.pad(phi, (0, 1)), inverses)
        row = jnp.where(column == D, code.place.astype(dtype), row)
        return phi[None], Offer(p, phi, row, added, taken & full)

    def update(
        self, state: DictionaryState, code: DictionaryCode, aux: Offer, feedback: Feedback
    ) -> DictionaryState:
        """The dictionary after an example; where it was not ``seen``, as it was."""
        added = aux.added & feedback.seen
        slot = jnp.where(added, state.number, self.size)
        return state._replace(
            table=state.table.at[:, slot].set(aux.row, mode="drop"),
            number=state.number + added.astype(jnp.int32),
            refused=state.refused + (aux.refused & feedback.seen).astype(jnp.int32),
        )

    def close(
        self, state: DictionaryState, codes: DictionaryCode, round: jax.Array
    ) -> DictionaryState:
        came, place = self._came(state)
        rows = jnp.where(came[:, None], codes.x[place], state.rows)
        return state._replace(rows=rows, table=state.table.at[:, :, -1].set(-1))
