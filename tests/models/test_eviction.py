"""Evictions of a budget: who goes, what the others become, ties, and bad arguments."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import jaxmkl
from jaxmkl.kernels import lu_hoi
from jaxmkl.models import supports
from jaxmkl.models.supports import BudgetSupport, Proposal, eviction
from tests.common.marks import long

SMALL_PROGRAMS = True

EVICTIONS = {
    "RemoveOldest": supports.RemoveOldest(),
    "SelfTuned": supports.SelfTuned(),
    "Replace": supports.Replace(),
    "Project": supports.Project(0.1),
    "RemoveUnbiased": supports.RemoveUnbiased(by_size=True),
}


def proposal_of(f, y, own, most, draw):
    """Of a perceptron, or of a passive aggressive step of at most ``most``."""
    if most is None:
        return Proposal(y * f <= 0, jnp.full_like(f, y), None, draw)
    loss = jnp.maximum(1 - y * f, 0)
    return Proposal(loss > 0, jnp.minimum(most, loss / own) * y, None, draw)


@functools.partial(jax.jit, static_argnames=("most", "dtype"))
def scan(store, kernels, X, y, draws, most=None, dtype=float):
    """The last state of the rounds one by one."""
    state = store.init(kernels, X.shape[1], jax.dtypes.canonicalize_dtype(dtype))
    X, y = X.astype(state.rows.dtype), y.astype(state.rows.dtype)

    def one(state, example):
        x, label, draw, round = example
        codes = store.encode(state, kernels, x[None], round)
        code = jax.tree.map(lambda leaf: leaf[0], codes)
        f, aux = store.predict(state, kernels, code)
        proposal = proposal_of(f, label, code.own, most, draw)
        state = store.update(state, kernels, code, aux, proposal)
        return store.close(state, kernels, codes, round + 1, False), None

    return jax.lax.scan(one, state, (X, y, draws, jnp.arange(len(X), dtype=jnp.int32)))[0]


def run(eviction, size, kernels, X, y, period=128, **arguments):
    store = BudgetSupport(size, eviction, period)
    draws = np.random.default_rng(0).random((len(X), kernels.num_kernels))
    return scan(store, kernels, jnp.asarray(X), jnp.asarray(y), draws, **arguments)


def in_order(state):
    """For each kernel: its support vectors (n, D) and their coefficients (n,), in order."""
    support = jax.tree.map(np.asarray, state)
    C = support.rows.shape[1]
    found = []
    for p, number in enumerate(support.number):
        slots = np.argsort(support.order[p], kind="stable")[:number]
        rows = [support.rows[p, s] if s < C else support.recent_rows[s - C] for s in slots]
        found.append((np.array(rows), support.coefficients[p, slots]))
    return found


def apart(num_examples):
    """Points on a line, so far apart that a narrow Gaussian is 0; every second is positive."""
    X = np.arange(1.0, num_examples + 1)[:, None]
    return X, np.where(np.arange(num_examples) % 2, -1.0, 1.0)


NARROW = jaxmkl.Gaussian((0.01,))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows", "coefficients"),
    [
        # of 1, 2, 3, 4, 5 all are taken in
        ("RemoveOldest", [3, 4, 5], [1, -1, 1]),
        # all exchanges cost the same: the first place, again and again
        ("Replace", [5, 2, 3], [1, -1, 1]),
    ],
)
def test_who_goes_by_hand(name, rows, coefficients, x64):
    state = run(EVICTIONS[name], 3, NARROW, *apart(5), period=2, most=5.0)
    ((found, a),) = in_order(state)
    np.testing.assert_array_equal(found[:, 0], rows)
    np.testing.assert_array_equal(a, coefficients)


PLACES = np.array([[3, -1, 0, 2, 1, -1, 4], [-1, 1, 4, 0, -1, 2, 3]])  # -1: no support


@functools.partial(jax.jit, static_argnames="size")
def outcomes(eviction, a, own, learned, draws, size):
    """Coefficients (N, P, slots) for each draw (N,), with 0 for the support that is removed."""
    P = len(a)
    order = jnp.asarray(np.where(PLACES < 0, supports.eviction.EMPTY, PLACES), jnp.int32)
    none = {name: jnp.zeros(P) for name in ("itself", "oldest", "number", "slot")}
    view = supports.View(
        learned=learned,
        coefficient=jnp.ones(P),
        coefficients=a,
        order=order,
        kernel=jnp.zeros_like(a),
        own=own,
        full=jnp.ones(P, bool),
        decay=None,
        draw=None,
        budget=size,
        **none,
    )

    def one(draw):
        _, choice = eviction.step((), view._replace(draw=jnp.full(P, draw)))
        goes = (order == choice.victim[:, None]) & choice.inserted[:, None]
        return jnp.where(goes, 0.0, choice.coefficients)

    return jax.vmap(one)(draws)


@pytest.mark.slow
@pytest.mark.parametrize("by_size", [False, True])
def test_removal_leaves_the_mean(by_size, x64):
    """The mean over the draw of every coefficient is what it was, also where one is large."""
    rng = np.random.default_rng(8)
    a = np.where(PLACES < 0, 0.0, rng.normal(size=PLACES.shape))
    a[1, 2] = 40.0  # above a quarter of the sum: by size it always stays
    own = rng.uniform(0.5, 2.0, size=a.shape)
    N = 20_000
    draws, learned = (np.arange(N) + 0.5) / N, jnp.array([True, True])
    eviction = supports.RemoveUnbiased(by_size)
    found = np.asarray(outcomes(eviction, a, own, learned, draws, 5))
    np.testing.assert_allclose(found.mean(axis=0), a, atol=1e-3 * np.abs(a).max())
    gone = (found == 0) & (PLACES >= 0)
    np.testing.assert_array_equal(gone.sum(axis=2), 1)
    if by_size:
        assert not gone[:, 1, 2].any()
        size = np.abs(a[0]) * np.sqrt(own[0])
        p = np.maximum(1 - 4 * size / size.sum(), 0) * (PLACES[0] >= 0)
        np.testing.assert_allclose(gone[:, 0].mean(axis=0), p / p.sum(), atol=1e-3)
    else:
        np.testing.assert_allclose(gone.mean(axis=0), 0.2 * (PLACES >= 0), atol=1e-3)
    # where nothing is learned, no bit changes; and no coefficient is enlarged beyond its bound
    still = outcomes(eviction, a, own, ~learned, draws[:3], 5)
    np.testing.assert_array_equal(still, np.broadcast_to(a, still.shape))
    bounded = supports.RemoveUnbiased(by_size, largest=0.3)
    assert np.abs(outcomes(bounded, a, own, learned, draws[:50], 5)).max() == 0.3


@pytest.mark.slow
def test_a_budget_of_one_is_replaced(x64):
    for by_size in (False, True):
        state = run(supports.RemoveUnbiased(by_size), 1, NARROW, *apart(4), period=1)
        ((rows, a),) = in_order(state)
        assert (rows.tolist(), a.tolist()) == ([[4.0]], [-1.0])


@given(d=st.floats(1e-3, 2.0), mu=st.floats(-3.0, 3.0), excess=st.floats(-3.0, -1e-3))
def test_the_largest_shrinking(d, mu, excess):
    """Every smaller step is allowed up to the answer, and a little more is not."""
    with jax.enable_x64(True):
        arguments = (jnp.asarray(v) for v in (d, mu, excess))
        phi = float(eviction._largest_shrink(*arguments))

    def excess_of(phi):
        return (phi * d) ** 2 + 2 * phi * d * (1 - phi * mu) + excess

    assume(abs(d - 2 * mu) > 1e-4)  # the quadratic form loses digits where it is nearly linear
    grid = np.linspace(0, 1, 2001)
    allowed = grid[excess_of(grid) <= 0].max()
    assert allowed - 1e-9 <= phi <= 1
    if phi < 1:
        np.testing.assert_allclose(excess_of(phi), 0, atol=1e-8)


def test_the_largest_shrinking_where_it_is_linear():
    with jax.enable_x64(True):
        phi = eviction._largest_shrink(jnp.asarray(1.0), jnp.asarray(0.5), jnp.asarray(-15 / 32))
    np.testing.assert_allclose(phi, 15 / 64, rtol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    long(["Project", "RemoveUnbiased"], ["SelfTuned", "Replace", "Project", "RemoveUnbiased"]),
)
def test_no_kernel_holds_more_than_its_budget(name):
    """In single precision, with narrow kernels and polynomials, and repeated examples."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3)).astype(np.float32)
    X[30:45] = X[:15]
    X[50] = 0
    y = np.sign(rng.normal(size=60)).astype(np.float32)
    most = 1.0 if name == "Replace" else None
    state = run(EVICTIONS[name], 6, lu_hoi(), X, y, most=most, dtype=np.float32)
    number = np.asarray(state.number)
    assert number.max() == 6
    for leaf in jax.tree.leaves(state):
        assert np.isfinite(np.asarray(leaf)).all()
    for (rows, a), n in zip(in_order(state), number, strict=True):
        assert len(rows) == len(a) == n
        assert {row.tobytes() for row in rows} <= {x.tobytes() for x in X}


def near_copies(rng, num):
    """Copies of 40 points, some so close to each other that single precision just resolves it."""
    points = rng.normal(size=(40, 4))[rng.integers(40, size=num)]
    return points + 10.0 ** rng.uniform(-6, -1, size=(num, 1)) * rng.normal(size=(num, 4))


def many_scales(rng, num):
    """Rows of very different lengths, so that short ones are alike."""
    return 10.0 ** rng.uniform(-3, 1, size=(num, 1)) * rng.normal(size=(num, 4))


@pytest.mark.endless
@pytest.mark.parametrize("rows", [near_copies, many_scales])
def test_projections_in_single_precision_stay_by_those_in_double(rows):
    """Wide kernels, whose Gram matrices rounding makes singular: a mistake in two rounds."""
    rng = np.random.default_rng(1)
    X = rows(rng, 1000).astype(np.float32)
    y = np.sign(np.sin(3 * X[:, 0]) + 0.5 * rng.normal(size=len(X)))
    kernels, largest, numbers = jaxmkl.Gaussian((1.4, 8.0)), [], []
    for double in (False, True):
        with jax.enable_x64(double):
            dtype = np.float64 if double else np.float32
            state = run(supports.Project(), 64, kernels, X, y, period=32, dtype=dtype)
            f = [
                np.asarray(kernels.gram(X.astype(dtype), jnp.asarray(r, dtype)))[p] @ a
                for p, (r, a) in enumerate(in_order(state))
            ]
            largest.append(np.abs(f).max(axis=1))
            numbers.append(np.asarray(state.number))
    # a hypothesis that rounding has carried away is hundreds of times as large
    assert (largest[0] <= 3 * largest[1]).all(), largest
    np.testing.assert_allclose(numbers[0], numbers[1], rtol=0.1)


@pytest.mark.slow
def test_the_rows_of_a_projection_are_an_orthonormal_basis(x64):
    rng = np.random.default_rng(2)
    X, y = near_copies(rng, 300), np.sign(rng.normal(size=300))
    kernels = jaxmkl.Gaussian((0.5, 2.0))
    state = run(supports.Project(), 24, kernels, X, y, period=1)
    for p, (rows, _) in enumerate(in_order(state)):
        basis = np.asarray(state.eviction.basis[p])[: len(rows), : len(rows)]
        gram = np.asarray(kernels.gram(rows, rows))[p]
        np.testing.assert_allclose(basis @ gram @ basis.T, np.eye(len(rows)), atol=1e-9)
        # no direction is so short that the coefficients along it would be rounded away
        assert np.trace(np.linalg.inv(gram)) <= len(rows) / 6e-6


def test_periods_fit_the_budget():
    assert BudgetSupport(50, supports.SelfTuned()).period == 32
    assert BudgetSupport(1, supports.SelfTuned()).period == 1
    assert BudgetSupport(500, supports.SelfTuned()).period == 128
    assert BudgetSupport(50, supports.SelfTuned(), period=4).period == 4


def test_bad_arguments_are_named():
    refused = {
        "budget": (0, 2.5),
        "eviction": (supports.RemoveOldest, jaxmkl.Gaussian(1.0)),
        "period": (0, 12),
    }
    for name, values in refused.items():
        for value in values:
            arguments = {"budget": 5, "eviction": supports.RemoveOldest()} | {name: value}
            with pytest.raises(ValueError, match=f"BudgetSupport: {name} must be"):
                BudgetSupport(**arguments)
    for threshold in (-0.1, np.nan, "far", [0.1]):
        with pytest.raises(ValueError, match="Project: threshold must be"):
            supports.Project(threshold)
    for largest in (0.0, -0.1, np.nan, "far"):
        with pytest.raises(ValueError, match="RemoveUnbiased: largest must be"):
            supports.RemoveUnbiased(largest=largest)
