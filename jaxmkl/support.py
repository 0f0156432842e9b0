"""Support vectors: the part of a kernel learner's state that grows, and how it is met in blocks.

All learners with support vectors have models of one form, one for each kernel p,

    f_p(x) = Σ_j a_pj k_p(x_j, x)

and a round changes few of the coefficients. So rounds are taken in periods of R. Supports of
earlier periods are *settled*: they lie in tiles, and a block of examples meets the tiles in use
by matrix products, in a loop whose number of turns is a value, so that the cost follows the
living support and one compilation serves a stream of any length. The period's own examples are
*recent*: each is a possible support vector whose coefficients are zero until it becomes one, so
inside a block only coefficients change. At the end of a period the used ones are settled.

Three stores with the same methods:

    DenseSupport    rows shared by all kernels, with coefficients (P, C): where kernels learn on
                    the same examples
    SparseSupport   a list of entries (row, kernel, coefficient): where most coefficients are zero
    BudgetSupport   at most B supports for each kernel, kept so by a policy (jaxmkl.budget)

**Range.** Narrow Gaussians of far points are smaller than the smallest float32, and yet the sign
of a sum of them decides what a perceptron does; in double precision they count down to 4.9e-324.
So sums of kernels exp(-u) are kept as s exp(-m), m the smallest exponent of the sum, and terms
with u > 745.13 are zero in every precision; a value too small for its dtype becomes the smallest
number of its sign. Without this, float32 runs keep up to 15 % more supports than float64 ones.
"""

from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import pytree
from jaxmkl.kernels import Kernel, Products, pairwise_products

__all__ = [
    "BlockCodes",
    "DenseSupport",
    "Entries",
    "GrowingState",
    "Marked",
    "Proposal",
    "SparseSupport",
    "Sums",
    "kernel_values",
    "relative",
    "total",
]

# exp(-u) is zero in double precision above this.
_VANISHED = 745.13
# Stands for the exponent of an empty sum.
_NOTHING = 1e30


class Sums(NamedTuple):
    """Sums s exp(-m), elementwise; m is 0 for kernels that are not exp(-u)."""

    value: jax.Array
    exponent: jax.Array


class BlockCodes(NamedTuple):
    """What a block's examples are to the support; leading axis B.

    Attributes:
      settled: sums (B, P) of the settled supports.
      recent: codes of the kernels (B, P, R) against the period's examples.
      own: values k_p(x, x), (B, P).
      rows: the examples (B, D).
      round: their rounds (B,), int32.
    """

    settled: Sums
    recent: jax.Array
    own: jax.Array
    rows: jax.Array
    round: jax.Array


class Proposal(NamedTuple):
    """What a round's example is to do to the models.

    Attributes:
      learned: whether kernel p takes the example in, boolean (P,).
      coefficient: with which coefficient (P,).
      shrink: what all earlier coefficients are multiplied by, a number, or None for 1.
      present: whether the round takes place at all.
      draw: a uniform random number (P,) for policies that need one, or None.
    """

    learned: jax.Array
    coefficient: jax.Array
    shrink: jax.Array | None
    present: jax.Array
    draw: Any = None


class Marked(Protocol):
    """What is said of kernels by their codes: kernels, or a space of them."""

    @property
    def num_kernels(self) -> int:
        """P."""
        ...

    @property
    def exponential(self) -> tuple[bool, ...]:
        """For each kernel: whether it is exp(-u) and its code is u."""
        ...


# --- sums of kernels ---------------------------------------------------------------------------


def bounded(codes: jax.Array) -> jax.Array:
    """Codes of kernels that are not exp(-u), so large at most that a million of them add up."""
    bound = 1e-6 * float(jnp.finfo(codes.dtype).max)
    return jnp.clip(jnp.nan_to_num(codes, nan=0.0, posinf=bound, neginf=-bound), -bound, bound)


def bounded_codes(kernels: Marked, codes: jax.Array, axis: int) -> jax.Array:
    """The codes, bounded where they are values; kernels lie along ``axis``."""
    if all(kernels.exponential):
        return codes
    exponential = _along(kernels, codes.ndim, axis)
    return jnp.where(exponential, codes, bounded(codes))


def _along(kernels: Marked, ndim: int, axis: int) -> np.ndarray:
    """Which kernels are exp(-u), shaped to go with an array that has kernels along ``axis``."""
    shape = [1] * ndim
    shape[axis] = kernels.num_kernels
    return np.array(kernels.exponential).reshape(shape)


def kernel_values(kernels: Marked, codes: jax.Array) -> jax.Array:
    """Kernel values (P, ...) from bounded codes (P, ...)."""
    exponential = _along(kernels, codes.ndim, 0)
    return jnp.where(exponential, jnp.exp(-jnp.where(exponential, codes, 0.0)), codes)


def total(
    kernels: Marked, settled: Sums | None, codes: jax.Array, coefficients: jax.Array
) -> jax.Array:
    """Values f (P,) of settled sums (P,) and of coefficients (P, n) with bounded codes (P, n)."""
    exponential = np.array(kernels.exponential)
    live = coefficients != 0
    if not exponential.any():
        value = jnp.sum(jnp.where(live, coefficients * codes, 0.0), axis=1)
        return value if settled is None else value + settled.value
    nearest = jnp.min(jnp.where(live, codes, _NOTHING), axis=1)
    if settled is not None:
        nearest = jnp.minimum(nearest, settled.exponent)
    exponent = jax.lax.stop_gradient(jnp.where(exponential, nearest, 0.0))
    decaying = relative(exponent[:, None], codes)
    factors = jnp.where(exponential[:, None], decaying, codes)
    value = jnp.sum(jnp.where(live, coefficients * factors, 0.0), axis=1)
    if settled is not None:
        value = value + settled.value * jnp.exp(exponent - settled.exponent)
    f = value * jnp.exp(-exponent)
    tiny = jnp.finfo(f.dtype).tiny
    return jnp.where((value != 0) & (jnp.abs(f) < tiny), jnp.sign(value) * tiny, f)


def relative(exponent: jax.Array, codes: jax.Array) -> jax.Array:
    """exp(m - u), where a term with u < m, which has no coefficient then, does not overflow."""
    difference = exponent - codes
    # not a minimum: at the smallest exponent its derivative would be halved
    difference = jnp.where(difference <= 0, difference, 0.0)
    return jnp.where(codes > _VANISHED, 0.0, jnp.exp(difference))


def _tile_sums(
    kernels: Kernel, products: Products, coefficients: jax.Array, exponent: jax.Array
) -> jax.Array:
    """Sums (P, B) of a tile's terms times exp(exponent), for exponents (P, B) that fit."""
    sums, start = [], 0
    for family in kernels.families:
        end = start + family.num_kernels
        codes, a = family.codes(products), coefficients[start:end]
        if family.exponential[0]:
            codes = relative(exponent[start:end, :, None], codes)
        else:
            codes = bounded(codes)
        sums.append(jnp.einsum("pbn,pn->pb", codes, a, precision=jax.lax.Precision.HIGHEST))
        start = end
    return jnp.concatenate(sums)


def _tile_exponents(kernels: Kernel, products: Products, coefficients: jax.Array) -> jax.Array:
    """Smallest exponents (P, B) of a tile's terms; 0 for kernels that are not exp(-u)."""
    smallest, start = [], 0
    for family in kernels.families:
        end = start + family.num_kernels
        if family.exponential[0]:
            live = coefficients[start:end, None, :] != 0
            smallest.append(jnp.min(jnp.where(live, family.codes(products), _NOTHING), axis=2))
        else:
            zero = jnp.zeros((family.num_kernels, len(products.inner)), products.inner.dtype)
            smallest.append(zero)
        start = end
    return jnp.concatenate(smallest)


def _tile(array: jax.Array, i: jax.Array, size: int, axis: int) -> jax.Array:
    return jax.lax.dynamic_slice_in_dim(array, i * size, size, axis)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def dense_sums(
    size: int,
    kernels: Kernel,
    X: jax.Array,
    rows: jax.Array,
    coefficients: jax.Array,
    used: jax.Array,
) -> Sums:
    """Sums (P, B) over the first ``used`` of the rows (C, D), in tiles of ``size``.

    Differentiable in reverse mode by everything but ``used``; exponents count as constants.
    """

    def body(i: jax.Array, sums: Sums) -> Sums:
        products = pairwise_products(X, _tile(rows, i, size, 0))
        a = _tile(coefficients, i, size, 1)
        exponent = jnp.minimum(sums.exponent, _tile_exponents(kernels, products, a))
        value = sums.value * jnp.exp(exponent - sums.exponent)
        return Sums(value + _tile_sums(kernels, products, a, exponent), exponent)

    zero = jnp.zeros((kernels.num_kernels, X.shape[0]), X.dtype)
    nothing = jnp.where(_along(kernels, 2, 0), jnp.full_like(zero, _NOTHING), zero)
    return jax.lax.fori_loop(0, -(-used // size), body, Sums(zero, nothing))


def _dense_forward(size: int, *arguments: Any) -> tuple[Sums, Any]:
    sums = dense_sums(size, *arguments)
    return sums, (arguments, sums.exponent)


def _dense_backward(size: int, saved: Any, gradient: Sums) -> tuple:
    (kernels, X, rows, coefficients, used), exponent = saved

    def body(i: jax.Array, totals: Any) -> Any:
        of_kernels, of_X, of_rows, of_coefficients = totals
        tile = _tile(rows, i, size, 0), _tile(coefficients, i, size, 1)

        def of_tile(kernels: Kernel, X: jax.Array, rows: jax.Array, a: jax.Array) -> jax.Array:
            return _tile_sums(kernels, pairwise_products(X, rows), a, exponent)

        _, pull = jax.vjp(of_tile, kernels, X, *tile)
        k, x, r, a = pull(gradient.value)
        add = jax.tree.map(jnp.add, (of_kernels, of_X), (k, x))
        of_rows = jax.lax.dynamic_update_slice_in_dim(of_rows, r, i * size, 0)
        of_coefficients = jax.lax.dynamic_update_slice_in_dim(of_coefficients, a, i * size, 1)
        return *add, of_rows, of_coefficients

    zeros = jax.tree.map(jnp.zeros_like, (kernels, X, rows, coefficients))
    totals = jax.lax.fori_loop(0, -(-used // size), body, zeros)
    return *totals, None


dense_sums.defvjp(_dense_forward, _dense_backward)


class Entries(NamedTuple):
    """Coefficients one by one.

    Attributes:
      row: which row (E,), int32.
      kernel: of which kernel (E,), int32.
      coefficient: how much (E,).
      used: number of entries in use, int32.
    """

    row: jax.Array
    kernel: jax.Array
    coefficient: jax.Array
    used: jax.Array


def column_values(kernels: Kernel, products: Products, index: jax.Array) -> jax.Array:
    """Bounded kernel values (n, m), column j of the kernel ``index[j]``."""
    codes = kernels.column_codes(products, index)
    exponential = jnp.asarray(kernels.exponential)[index][None, :]
    decaying = jnp.exp(-jnp.where(exponential, codes, 0.0))
    return jnp.where(exponential, decaying, bounded(codes))


def _entry_sums(
    kernels: Kernel, X: jax.Array, rows: jax.Array, coefficients: jax.Array, index: jax.Array
) -> jax.Array:
    """Sums (P, B) over entries, one row (n, D), coefficient (n,) and kernel (n,) each."""
    products = pairwise_products(X, rows, used_once=True)
    values = column_values(kernels, products, index) * coefficients[None, :]
    which = jax.nn.one_hot(index, kernels.num_kernels, dtype=values.dtype, axis=0)
    return jnp.dot(which, values.T, precision=jax.lax.Precision.HIGHEST)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def entry_sums(
    size: int, kernels: Kernel, X: jax.Array, rows: jax.Array, entries: Entries
) -> jax.Array:
    """Sums (P, B) over the entries in use of rows (C, D), in tiles of ``size``.

    Differentiable in reverse mode by everything but the entries' integers.
    """

    def body(i: jax.Array, sums: jax.Array) -> jax.Array:
        row, kernel, a = (_tile(part, i, size, 0) for part in entries[:3])
        return sums + _entry_sums(kernels, X, rows[row], a, kernel)

    zero = jnp.zeros((kernels.num_kernels, X.shape[0]), X.dtype)
    return jax.lax.fori_loop(0, -(-entries.used // size), body, zero)


def _entries_forward(size: int, *arguments: Any) -> tuple[jax.Array, Any]:
    return entry_sums(size, *arguments), arguments


def _entries_backward(size: int, saved: Any, gradient: jax.Array) -> tuple:
    kernels, X, rows, entries = saved

    def body(i: jax.Array, totals: Any) -> Any:
        of_kernels, of_X, of_rows, of_coefficients = totals
        row, kernel, a = (_tile(part, i, size, 0) for part in entries[:3])

        def of_tile(kernels: Kernel, X: jax.Array, rows: jax.Array, a: jax.Array) -> jax.Array:
            return _entry_sums(kernels, X, rows, a, kernel)

        _, pull = jax.vjp(of_tile, kernels, X, rows[row], a)
        k, x, r, a = pull(gradient)
        add = jax.tree.map(jnp.add, (of_kernels, of_X), (k, x))
        of_coefficients = jax.lax.dynamic_update_slice_in_dim(of_coefficients, a, i * size, 0)
        return *add, of_rows.at[row].add(r), of_coefficients

    zeros = jax.tree.map(jnp.zeros_like, (kernels, X, rows, entries.coefficient))
    *totals, a = jax.lax.fori_loop(0, -(-entries.used // size), body, zeros)
    return *totals, Entries(None, None, a, None)  # type: ignore[arg-type]


entry_sums.defvjp(_entries_forward, _entries_backward)


# --- the period --------------------------------------------------------------------------------


def block_start(period: int, block: int, round: jax.Array) -> jax.Array:
    """The place in its period of the first row of the block that a round is in."""
    return round // block * block % period


def period_rows(recent: jax.Array, X: jax.Array, round: jax.Array) -> jax.Array:
    """The period's rows (R, D) so far: those of rounds that are over, then the block's."""
    R, B = recent.shape[0], X.shape[0]
    start = block_start(R, B, round)
    fresh = jax.lax.dynamic_update_slice_in_dim(jnp.zeros_like(recent), X, start, 0)
    over = jnp.arange(R) < round % R
    return jnp.where(over[:, None], recent, fresh)


def encode_recent(
    kernels: Kernel, recent: jax.Array, X: jax.Array, round: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Codes (B, P, R) against the period's rows, k(x, x) (B, P), the rows (B, D), rounds (B,)."""
    R, B = recent.shape[0], X.shape[0]
    rows = period_rows(recent, X, round)
    own = jax.lax.dynamic_slice_in_dim(rows, block_start(R, B, round), B, 0)
    codes = bounded_codes(kernels, kernels.codes(pairwise_products(own, rows)), 0)
    square = jnp.sum(own**2, axis=1, keepdims=True)
    itself = kernels.codes(Products(square, jnp.zeros_like(square)))[:, :, 0]
    itself = kernel_values(kernels, bounded_codes(kernels, itself, 0))
    rounds = round // B * B + jnp.arange(B, dtype=jnp.int32)
    return jnp.moveaxis(codes, 0, 1), itself.T, own, rounds


def fold_rows(
    recent: jax.Array, rows: jax.Array, rounds: jax.Array, round: jax.Array
) -> jax.Array:
    """The period's rows (R, D) after a block of which the rounds below ``round`` are over."""
    seen = jnp.where((rounds < round)[:, None], rows, 0.0)
    start = rounds[0] % recent.shape[0]
    return jax.lax.dynamic_update_slice_in_dim(recent, seen, start, 0)


def check_period(owner: Any) -> None:
    """Refuse a period that is no power of two: blocks have to divide it."""
    period = owner.period
    good = isinstance(period, int) and 1 <= period <= 4096 and period & (period - 1) == 0
    pytree.require(good, owner, "period", period, "a power of two up to 4096")


class GrowingState(NamedTuple):
    """State of a store without a budget.

    Attributes:
      rows: settled supports (C + R, D).
      coefficients: theirs: (P, C + R), or :class:`Entries`.
      used: number of settled supports, int32.
      recent_rows: the period's examples so far (R, D).
      recent: their coefficients (P, R).
      scale: what all coefficients are still to be multiplied by, a number.
      number: supports of each kernel (P,), int32.
      overflow: examples that were not taken in for want of room, int32.
    """

    rows: jax.Array
    coefficients: Any
    used: jax.Array
    recent_rows: jax.Array
    recent: jax.Array
    scale: jax.Array
    number: jax.Array
    overflow: jax.Array


class _Growing:
    """A store without a budget; how coefficients are kept is what subclasses add."""

    capacity: int
    tile: int
    period: int
    random = False

    def __post_init__(self) -> None:
        check_period(self)
        for name in ("capacity", "tile"):
            value = getattr(self, name)
            good = isinstance(value, int | np.integer) and value >= 1
            pytree.require(bool(good), self, name, value, "an integer of at least 1")
            object.__setattr__(self, name, int(value))

    def _no_coefficients(self, num_kernels: int, length: int, dtype: Any) -> Any:
        """Room for the coefficients of so many rows."""
        raise NotImplementedError

    def _settled_sums(self, state: GrowingState, kernels: Kernel, X: jax.Array) -> Sums:
        """Sums (P, B) of the settled supports."""
        raise NotImplementedError

    def _total(
        self, kernels: Kernel, settled: Sums, codes: jax.Array, coefficients: jax.Array
    ) -> jax.Array:
        """Values (P,) of settled sums and of the period's coefficients."""
        raise NotImplementedError

    def _settle(
        self, state: GrowingState, order: jax.Array, used: jax.Array, scale: jax.Array | None
    ) -> Any:
        """The coefficients with those of the period's rows in ``order`` that are ``used`` (R,)."""
        raise NotImplementedError

    def _length(self, capacity: int) -> int:
        """Rows to be kept for a capacity: what a period adds is written whole."""
        return -(-(capacity + self.period) // self.tile) * self.tile

    def init(self, kernels: Kernel, num_inputs: int, dtype: Any) -> GrowingState:
        """No support at all."""
        P, R, L = kernels.num_kernels, self.period, self._length(self.capacity)
        return GrowingState(
            rows=jnp.zeros((L, num_inputs), dtype),
            coefficients=self._no_coefficients(P, L, dtype),
            used=jnp.zeros((), jnp.int32),
            recent_rows=jnp.zeros((R, num_inputs), dtype),
            recent=jnp.zeros((P, R), dtype),
            scale=jnp.ones((), dtype),
            number=jnp.zeros((P,), jnp.int32),
            overflow=jnp.zeros((), jnp.int32),
        )

    def used(self, state: GrowingState) -> jax.Array:
        """Supports that fill the room, the period's included."""
        return state.used + jnp.sum(jnp.any(state.recent != 0, axis=0), dtype=jnp.int32)

    def capacity_of(self, state: GrowingState) -> int:
        """Supports that the state has room for."""
        return state.rows.shape[-2] - self.period

    def enlarged(self, state: GrowingState, capacity: int) -> GrowingState:
        """The state with room for so many supports, at least."""
        L = self._length(capacity)
        if state.rows.shape[-2] >= L:
            return state
        larger = self._no_coefficients(state.recent.shape[0], L, state.rows.dtype)

        def placed(larger: jax.Array, array: jax.Array) -> jax.Array:
            return jax.lax.dynamic_update_slice(larger, array, (0,) * array.ndim)

        return state._replace(
            rows=jnp.pad(state.rows, ((0, L - state.rows.shape[-2]), (0, 0))),
            coefficients=jax.tree.map(placed, larger, state.coefficients),
        )

    def encode(
        self, state: GrowingState, kernels: Kernel, X: jax.Array, round: jax.Array
    ) -> BlockCodes:
        """What the examples X (B, D) are to the supports."""
        codes, own, rows, rounds = encode_recent(kernels, state.recent_rows, X, round)
        sums = self._settled_sums(state, kernels, rows)
        return BlockCodes(Sums(sums.value.T, sums.exponent.T), codes, own, rows, rounds)

    def values(self, state: GrowingState, kernels: Kernel, code: BlockCodes) -> jax.Array:
        """Values f (P,) of an example."""
        return state.scale * self._total(kernels, code.settled, code.recent, state.recent)

    def learn(
        self, state: GrowingState, kernels: Kernel, code: BlockCodes, proposal: Proposal
    ) -> GrowingState:
        """Take the example in where it is proposed."""
        room = self.used(state) < self.capacity_of(state)
        learned = proposal.learned & room
        scale = state.scale
        if proposal.shrink is not None:
            scale = jnp.where(proposal.present, scale * proposal.shrink, scale)
        here = jnp.arange(self.period) == code.round % self.period
        new = learned[:, None] & here[None, :]
        lost = jnp.any(proposal.learned) & ~room
        return state._replace(
            recent=jnp.where(new, (proposal.coefficient / scale)[:, None], state.recent),
            scale=scale,
            number=state.number + learned.astype(jnp.int32),
            overflow=state.overflow + lost.astype(jnp.int32),
        )

    def fold(
        self,
        state: GrowingState,
        kernels: Kernel,
        codes: BlockCodes,
        round: jax.Array,
        shrinks: bool,
    ) -> GrowingState:
        """Keep the block's rows; at the end of a period settle those that became supports."""
        recent_rows = fold_rows(state.recent_rows, codes.rows, codes.round, round)
        settle = round % self.period == 0
        becomes = jnp.any(state.recent != 0, axis=0) & settle
        order = jnp.argsort(~becomes, stable=True)
        used = becomes[order]
        rows = jnp.where(used[:, None], recent_rows[order], 0.0)
        # what is left of the scale would vanish in the end
        scale = jnp.where(settle, state.scale, 1.0) if shrinks else None
        return state._replace(
            rows=jax.lax.dynamic_update_slice_in_dim(state.rows, rows, state.used, 0),
            coefficients=self._settle(state, order, used, scale),
            used=state.used + jnp.sum(used, dtype=jnp.int32),
            recent_rows=jnp.where(settle, 0.0, recent_rows),
            recent=jnp.where(settle, 0.0, state.recent),
            scale=jnp.where(settle, 1.0, state.scale) if shrinks else state.scale,
        )


@pytree.dataclass
class DenseSupport(_Growing):
    """Supports shared by all kernels, coefficients (P, C).

    Args:
      capacity: supports there is room for (static). Drivers enlarge it before a stream; inside a
        caller's own ``jit`` an example that finds no room is not learned, and counted.
      tile: supports that a block meets at a time (static).
      period: rounds after which new supports are settled, a power of two (static).
    """

    capacity: int = pytree.static(default=1024)
    tile: int = pytree.static(default=512)
    period: int = pytree.static(default=128)

    def _no_coefficients(self, num_kernels: int, length: int, dtype: Any) -> jax.Array:
        return jnp.zeros((num_kernels, length), dtype)

    def _settled_sums(self, state: GrowingState, kernels: Kernel, X: jax.Array) -> Sums:
        return dense_sums(self.tile, kernels, X, state.rows, state.coefficients, state.used)

    def _total(
        self, kernels: Kernel, settled: Sums, codes: jax.Array, coefficients: jax.Array
    ) -> jax.Array:
        return total(kernels, settled, codes, coefficients)

    def _settle(
        self, state: GrowingState, order: jax.Array, used: jax.Array, scale: jax.Array | None
    ) -> jax.Array:
        new = jnp.where(used[None, :], state.recent[:, order], 0.0)
        old = state.coefficients
        if scale is not None:
            new, old = new * scale, old * scale
        return jax.lax.dynamic_update_slice_in_dim(old, new, state.used, 1)


@pytree.dataclass
class SparseSupport(_Growing):
    """Entries (row, kernel, coefficient): their number is the cost, whatever kernel they are of.

    Values smaller than the dtype's smallest number are zero here.

    Args:
      capacity: as for :class:`DenseSupport` (static).
      tile: entries that a block meets at a time (static).
      period: rounds after which new supports are settled, a power of two (static).
    """

    capacity: int = pytree.static(default=1024)
    tile: int = pytree.static(default=512)
    period: int = pytree.static(default=64)

    def _no_coefficients(self, num_kernels: int, length: int, dtype: Any) -> Entries:
        E = (num_kernels * length,)
        return Entries(
            jnp.zeros(E, jnp.int32),
            jnp.zeros(E, jnp.int32),
            jnp.zeros(E, dtype),
            jnp.zeros((), jnp.int32),
        )

    def _settled_sums(self, state: GrowingState, kernels: Kernel, X: jax.Array) -> Sums:
        sums = entry_sums(self.tile, kernels, X, state.rows, state.coefficients)
        return Sums(sums, jnp.zeros_like(sums))

    def _total(
        self, kernels: Kernel, settled: Sums, codes: jax.Array, coefficients: jax.Array
    ) -> jax.Array:
        return settled.value + jnp.sum(coefficients * kernel_values(kernels, codes), axis=1)

    def _settle(
        self, state: GrowingState, order: jax.Array, used: jax.Array, scale: jax.Array | None
    ) -> Entries:
        entries, recent = state.coefficients, state.recent.T[order]
        R, P = recent.shape
        becomes = ((recent != 0) & used[:, None]).ravel()
        number = jnp.sum(becomes, dtype=jnp.int32)
        # where each of the new entries is found, in order
        place = jnp.where(becomes, jnp.cumsum(becomes, dtype=jnp.int32) - 1, R * P)
        found = jnp.zeros((R * P,), jnp.int32)
        found = found.at[place].set(jnp.arange(R * P, dtype=jnp.int32), mode="drop")
        new = jnp.arange(R * P) < number
        row = jnp.where(new, state.used + found // P, 0)
        kernel = jnp.where(new, found % P, 0)
        coefficient = jnp.where(new, recent.ravel()[found], 0.0)
        old = entries.coefficient
        if scale is not None:
            coefficient, old = coefficient * scale, old * scale
        write = jax.lax.dynamic_update_slice_in_dim
        return Entries(
            write(entries.row, row, entries.used, 0),
            write(entries.kernel, kernel, entries.used, 0),
            write(old, coefficient, entries.used, 0),
            entries.used + number,
        )
