"""Stores of support vectors: sums in tiles and their derivatives, blocks, room, bad arguments."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import pytree
from jaxmkl.kernels import Stationary
from jaxmkl.models import supports
from jaxmkl.models.supports import BudgetSupport, DenseSupport, Proposal, SparseSupport
from jaxmkl.models.supports.tiles import Entries, dense_sums, entry_sums
from tests.common.marks import long

SMALL_PROGRAMS = True

GAUSSIANS = jaxmkl.Gaussian((1.0, 2.0))

# --- tiles ---------------------------------------------------------------------------------------

SIZE, USED, LENGTH = 4, 8, 12  # of a tile, of the supports, of the room


def mixed(bandwidth, offset):
    return jaxmkl.KernelDictionary(
        (
            jaxmkl.Gaussian(bandwidth),
            jaxmkl.Polynomial((1, 3), offset=offset),
            jaxmkl.Laplacian(bandwidth[0]),
            jaxmkl.Cauchy(bandwidth[1]),
        )
    )


def plain_values(bandwidth, offset, X, rows):
    """Kernel values (P, B, C) of :func:`mixed`, written out."""
    squared = jnp.sum((X[:, None, :] - rows[None, :, :]) ** 2, axis=2)
    inner = jnp.sum(X[:, None, :] * rows[None, :, :], axis=2)
    return jnp.stack(
        [
            jnp.exp(-squared / (2 * bandwidth[0] ** 2)),
            jnp.exp(-squared / (2 * bandwidth[1] ** 2)),
            inner + offset,
            (inner + offset) ** 3,
            jnp.exp(-jnp.sqrt(squared) / bandwidth[0]),
            1 / (1 + squared / bandwidth[1] ** 2),
        ]
    )


def inputs_of_sums():
    rng = np.random.default_rng(0)
    bandwidth, offset = jnp.array([0.6, 1.7]), jnp.array(0.5)
    X, rows = jnp.asarray(rng.normal(size=(5, 3))), jnp.asarray(rng.normal(size=(LENGTH, 3)))
    weight = jnp.asarray(rng.normal(size=(6, 5)))
    coefficients = jnp.asarray(rng.normal(size=(6, LENGTH)))
    return weight, (bandwidth, offset, X, rows, coefficients)


def compare_with_gradients(ours, plain, arguments):
    """The same value, gradient by every argument, and change of the gradient along a line."""
    by, draws = tuple(range(len(arguments))), np.random.default_rng(2)
    line = [jnp.asarray(draws.normal(size=jnp.shape(one))) for one in arguments]

    def derivatives(function):
        def rise(*at):
            slopes = jax.grad(function, argnums=by)(*at)
            return sum(jnp.sum(slope * step) for slope, step in zip(slopes, line, strict=True))

        first = jax.value_and_grad(function, argnums=by)
        value, slopes = jax.jit(first)(*arguments)
        return value, (*slopes, *jax.jit(jax.grad(rise, argnums=by))(*arguments))

    (value, gradients), (wanted, wanted_gradients) = derivatives(ours), derivatives(plain)
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    for one, other in zip(gradients, wanted_gradients, strict=True):
        assert np.any(np.asarray(other) != 0)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_sums_over_rows_and_their_gradients(x64):
    weight, arguments = inputs_of_sums()

    def ours(bandwidth, offset, X, rows, coefficients):
        kernels = mixed(bandwidth, offset)
        sums = dense_sums(SIZE, kernels, X, rows, coefficients, jnp.asarray(USED))
        assert sums.mantissa.shape == (6, 5)
        exponent = jax.lax.stop_gradient(sums.exponent)
        return jnp.sum(weight * sums.mantissa * jnp.exp(-exponent))

    def plain(bandwidth, offset, X, rows, coefficients):
        K = plain_values(bandwidth, offset, X, rows[:USED])
        return jnp.sum(weight * jnp.sum(K * coefficients[:, None, :USED], axis=2))

    compare_with_gradients(ours, plain, arguments)


def lists_of(lengths, room, draws):
    """Rows and uses of a list for each kernel; what lies beyond a list is never read."""
    row = np.full((len(lengths), room), 10**6)
    for p, length in enumerate(lengths):
        row[p, :length] = draws.integers(0, LENGTH, length)
    return row.astype(np.int32), np.asarray(lengths, np.int32)


@pytest.mark.slow
def test_sums_over_entries_and_their_gradients(x64):
    """Lists of several tiles, of one that is not full, and of none."""
    weight, (bandwidth, offset, X, rows, _) = inputs_of_sums()
    row, used = lists_of([9, 1, 0, 4, 5, 3], LENGTH, draws := np.random.default_rng(1))
    coefficients = jnp.asarray(draws.normal(size=(6, LENGTH)))
    places = np.argwhere(np.arange(LENGTH) < used[:, None])

    def ours(bandwidth, offset, X, rows, a):
        entries = Entries(jnp.asarray(row), a, jnp.asarray(used))
        sums = entry_sums(SIZE, mixed(bandwidth, offset), X, rows, entries)
        exponent = jax.lax.stop_gradient(sums.exponent)
        return jnp.sum(weight * sums.mantissa * jnp.exp(-exponent))

    def plain(bandwidth, offset, X, rows, a):
        K = plain_values(bandwidth, offset, X, rows)
        return sum(a[p, j] * jnp.sum(weight[p] * K[p, :, row[p, j]]) for p, j in places)

    compare_with_gradients(ours, plain, (bandwidth, offset, X, rows, coefficients))


@jax.jit
def small_sums(kernels, X, rows, a, row, used):
    return entry_sums(64, kernels, X, rows, Entries(row, a, used)).value()


def test_sums_over_entries_keep_their_sign_where_values_are_too_small():
    """Of many supports of several kernels, near and far; beyond double precision all is 0."""
    draws = np.random.default_rng(2)
    bandwidth, factor = np.array([0.05, 0.3, 10.0]), np.array([1.0, 1e-30, 1e-36])
    kernels = jaxmkl.KernelDictionary(
        (jaxmkl.Gaussian(bandwidth) * factor, 1e-37 * jaxmkl.Laplacian([0.5, 1e-4]))
    )
    rows = draws.normal(size=(LENGTH, 2)).astype(np.float32)
    X = np.concatenate([rows + 0.1, 9 * rows]).astype(np.float32)
    row, used = lists_of([70, 33, 200, 0, 5], 256, draws)
    a = draws.choice([-1.0, 0.5, 2.0], size=row.shape).astype(np.float32)
    found = small_sums(kernels, X, rows, a, row, used)
    assert found.dtype == np.float32

    distance = np.linalg.norm(X[:, None].astype(float) - rows, axis=2)
    u = [distance**2 / (2 * b**2) - np.log(c) for b, c in zip(bandwidth, factor, strict=True)]
    u += [distance / b - np.log(1e-37) for b in (0.5, 1e-4)]
    kinds = set()
    for p, n in enumerate(used):
        for b, f in enumerate(np.asarray(found[p])):
            near = np.min(u[p][b, row[p, :n]], initial=np.inf)
            terms = a[p, :n] * np.exp(np.minimum(near - u[p][b, row[p, :n]], 0))
            total = np.sum(terms.astype(float))
            if near > 745.13:
                kinds.add("nothing")
                assert f == 0
            elif abs(total) > 1e-3 * np.sum(np.abs(terms)):
                size = np.log(abs(total)) - near
                kinds.add("small" if size < -88 else "large")
                assert np.sign(f) == np.sign(total)
                np.testing.assert_allclose(abs(f), max(np.exp(size), 1.1755e-38), rtol=1e-3)
    assert kinds == {"nothing", "small", "large"}


@jax.jit
def empty_sums(kernels, X, rows, a):
    dense = dense_sums(SIZE, kernels, X, rows, a, jnp.asarray(0))
    nothing = jnp.zeros(a.shape, jnp.int32)
    entries = Entries(nothing, a, nothing[:, 0])
    return dense.value(), entry_sums(SIZE, kernels, X, rows, entries).value()


def test_nothing_stored_sums_to_zero():
    _, (bandwidth, offset, X, rows, coefficients) = inputs_of_sums()
    for sums in empty_sums(mixed(bandwidth, offset), X, rows, coefficients):
        np.testing.assert_array_equal(sums, np.zeros((6, 5)))


# --- a run of a store, beside lists of supports --------------------------------------------------

ROUNDS, INPUTS = 40, 2


@functools.partial(jax.jit, static_argnames=("block", "decays"))
def play(store, kernels, X, proposals, present, block, decays):
    """All rounds in blocks; the last state, values and states of all rounds."""
    state = store.init(kernels, X.shape[1], X.dtype)

    def of_block(carry, rows):
        x, proposal, there = rows
        state, round = carry
        codes = store.encode(state, kernels, x, round)

        def one(state, row):
            code, proposal = row
            f, aux = store.predict(state, kernels, code)
            state = store.update(state, kernels, code, aux, proposal)
            return state, (f, state)

        state, told = jax.lax.scan(one, state, (codes, proposal))
        round = round + jnp.sum(there, dtype=jnp.int32)
        return (store.close(state, kernels, codes, round, decays), round), told

    def blocks(array):
        return array.reshape(-1, block, *array.shape[1:])

    rows = jax.tree.map(blocks, (X, proposals, present))
    (state, _), told = jax.lax.scan(of_block, (state, jnp.zeros((), jnp.int32)), rows)
    return state, *jax.tree.map(lambda leaf: leaf.reshape(len(X), *leaf.shape[2:]), told)


def rounds(P, decays=True, num_present=ROUNDS):
    rng = np.random.default_rng(5)
    present = np.arange(ROUNDS) < num_present
    learned = (rng.random((ROUNDS, P)) < 0.5) & present[:, None]
    decay = np.where(present[:, None], rng.choice([1.0, 0.7, 0.01], (ROUNDS, P)), 1.0)
    return (
        rng.normal(size=(ROUNDS, INPUTS)),
        present,
        Proposal(
            jnp.asarray(learned),
            jnp.asarray(rng.normal(size=(ROUNDS, P))),
            jnp.asarray(decay) if decays else None,
            jnp.asarray(rng.random((ROUNDS, P))),
        ),
    )


def by_lists(kernels, X, proposals):
    """Values (T, P) before each round, of all supports that have come."""
    K = np.asarray(kernels.gram(jnp.asarray(X)))
    a = np.zeros((K.shape[0], len(X)))
    proposals = jax.tree.map(np.asarray, proposals)
    values = []
    for t in range(len(X)):
        values.append(np.einsum("pj,pj->p", a, K[:, :, t]))
        if proposals.decay is not None:
            a = a * proposals.decay[t][:, None]
        a[:, t] = np.where(proposals.learned[t], proposals.coefficient[t], 0)
    return np.array(values)


@pytree.dataclass
class Matern32(Stationary):
    """Written outside, as anybody may."""

    def profile(self, u):
        s = jnp.sqrt(3 * u)
        return (1 + s) * jnp.exp(-s)


KERNELS = jaxmkl.KernelDictionary(
    (
        jaxmkl.Gaussian((0.3, 1.0)),
        Matern32([0.5, 2.0]),
        jaxmkl.Polynomial(2) * jaxmkl.Laplacian([[0.5, 1.5]]),
    )
)
STORES = {
    "dense": DenseSupport(capacity=ROUNDS, tile=8, period=8),
    "sparse": SparseSupport(capacity=ROUNDS, tile=8, period=8),
    "budget": BudgetSupport(64, supports.RemoveOldest(), period=8),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", long(["sparse", "budget"], STORES))
def test_a_store_is_a_list_of_supports(name, x64):
    X, present, proposals = rounds(KERNELS.num_kernels)
    arguments = STORES[name], KERNELS, jnp.asarray(X), proposals, present
    state, f, _ = play(*arguments, block=8, decays=True)
    np.testing.assert_allclose(f, by_lists(KERNELS, X, proposals), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(state.number, np.asarray(proposals.learned).sum(0))
    assert int(state.overflow) == 0


@pytest.mark.slow
def test_decays_that_leave_nothing(x64):
    """A decay of 0, and small ones whose product in a period is smaller than any number."""
    X, present, proposals = rounds(KERNELS.num_kernels)
    decay = np.full((ROUNDS, KERNELS.num_kernels), 1e-60)
    decay[20] = 0
    proposals = proposals._replace(decay=jnp.asarray(decay))
    arguments = STORES["dense"], KERNELS, jnp.asarray(X), proposals, present
    _, f, _ = play(*arguments, block=8, decays=True)
    np.testing.assert_allclose(f, by_lists(KERNELS, X, proposals), rtol=1e-9, atol=1e-12)


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [DenseSupport, SparseSupport])
def test_bad_arguments_are_named(store):
    refused = {"capacity": (0, 1.5), "tile": (0, "large"), "period": (0, 48, 8192, 16.0)}
    for name, values in refused.items():
        for given in values:
            with pytest.raises(ValueError, match=f"{store.__name__}: {name} must be"):
                store(**{name: given})


@pytest.mark.parametrize("store", [DenseSupport, SparseSupport])
def test_room(store):
    """At least the capacity, and what a period adds, in whole tiles; enlarging keeps what is."""
    one = store(capacity=20, tile=16, period=8)
    state = one.init(GAUSSIANS, 3, jnp.float32)
    assert state.rows.shape == (32, 3)
    assert one.capacity_of(state) == 24
    assert one.enlarged(state, 24) is state
    larger = one.enlarged(state._replace(rows=state.rows + 1), 25)
    assert larger.rows.shape == (48, 3)
    np.testing.assert_array_equal(larger.rows, np.pad(np.ones((32, 3)), ((0, 16), (0, 0))))
    assert one.capacity_of(larger) == 40


@pytest.mark.slow
def test_what_finds_no_room_is_counted():
    X, present, proposals = rounds(2, decays=False)
    store = DenseSupport(capacity=8, tile=8, period=8)
    proposals = jax.tree.map(lambda a: a.astype(np.float32) if a.dtype == float else a, proposals)
    arguments = store, GAUSSIANS, jnp.asarray(X, jnp.float32), proposals, present
    state, _, _ = play(*arguments, block=8, decays=False)
    wanted = int(np.asarray(proposals.learned).any(1).sum())
    assert int(store.used(state)) == store.capacity_of(state) == 8
    assert int(state.overflow) == wanted - 8
