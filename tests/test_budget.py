"""Policies of a budget: who goes, what the others become, ties, and bad arguments."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import jaxmkl
from jaxmkl import budget
from jaxmkl.learners.support_mkl import classification_kernels

POLICIES = {
    "RemoveRandom": jaxmkl.RemoveRandom(),
    "RemoveOldest": jaxmkl.RemoveOldest(),
    "SelfTuned": jaxmkl.SelfTuned(),
    "Replace": jaxmkl.Replace(),
    "Project": jaxmkl.Project(0.1),
}


def learner(policy, size, kernels, component=None, period=128):
    component = jaxmkl.Perceptron() if component is None else component
    support = jaxmkl.BudgetSupport(size, policy, period)
    return jaxmkl.SupportMKL(kernels, component, support, jaxmkl.Uniform(), jaxmkl.LearnAll())


@functools.partial(jax.jit, static_argnames="dtype")
def scan(learner, X, y, dtype=None):
    state = learner.init(jax.random.key(0), X.shape[1], dtype=dtype)
    return jax.lax.scan(learner.step, state, (X, y))[0]


def in_order(state):
    """For each kernel: its support vectors (n, D) and their coefficients (n,), in order."""
    support = jax.tree.map(np.asarray, state.support)
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


@pytest.mark.parametrize(
    ("name", "rows", "coefficients"),
    [
        # of 1, 2, 3, 4, 5 all are taken in
        ("RemoveOldest", [3, 4, 5], [1, -1, 1]),
        # all exchanges cost the same: the first place, again and again
        ("Replace", [5, 2, 3], [1, -1, 1]),
    ],
)
@pytest.mark.parametrize("period", [1, 2])
def test_who_goes_by_hand(name, rows, coefficients, period, x64):
    pa = jaxmkl.PassiveAggressive(5.0)
    state = scan(learner(POLICIES[name], 3, NARROW, pa, period), *apart(5))
    ((found, a),) = in_order(state)
    np.testing.assert_array_equal(found[:, 0], rows)
    np.testing.assert_array_equal(a, coefficients)


def test_a_random_place_is_filled_again(x64):
    """The places that the draws name, each by the example of its round."""
    X, y = apart(12)
    one = learner(jaxmkl.RemoveRandom(), 3, NARROW)
    key = one.init(jax.random.key(0), 1).key
    expected = [1, 2, 3]
    for t in range(3, 12):
        of_round = jax.random.fold_in(jax.random.fold_in(key, t), 1)
        u = jax.random.uniform(of_round, (1,), jnp.float32)
        expected[int(3 * u[0])] = t + 1
    ((found, a),) = in_order(scan(one, X, y))
    np.testing.assert_array_equal(found[:, 0], expected)
    np.testing.assert_array_equal(a, y[np.array(expected) - 1])


def test_the_replaced_one_is_the_one_that_is_missed_least(x64):
    """k(x, x) is not 1, and coefficients and places differ: the loss of |f|² by brute force."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(40, 3)), np.sign(rng.normal(size=40))
    kernel = jaxmkl.Polynomial(2)
    one = learner(jaxmkl.Replace(), 5, kernel, jaxmkl.PassiveAggressive(0.3))
    step = jax.jit(one.step)
    state = one.init(jax.random.key(0), 3)
    exchanges = 0
    for x, label in zip(X, y, strict=True):
        ((rows, a),) = in_order(state)
        state, output = step(state, (x, label))
        loss = 1 - label * float(output.prediction)
        if len(a) < 5 or loss <= 0:
            continue
        exchanges += 1
        points = np.vstack([rows, x])
        K = (points @ points.T) ** 2
        tau = min(0.3, loss / K[5, 5])
        lost = []
        for r in range(5):
            # the part of a_r k(x_r, .) that no multiple of k(x, .) makes up for
            rest = np.zeros(6)
            rest[r], rest[5] = a[r], -a[r] * K[r, 5] / K[5, 5]
            lost.append(rest @ K @ rest)
        r = int(np.argmin(lost))
        ((after, b),) = in_order(state)
        np.testing.assert_array_equal(after, np.where(np.arange(5)[:, None] == r, x, rows))
        new = a[r] * K[r, 5] / K[5, 5] + tau * label
        np.testing.assert_allclose(b, np.where(np.arange(5) == r, new, a), rtol=1e-9)
    assert exchanges > 20


@given(
    d=st.floats(1e-3, 2.0),
    mu=st.floats(-3.0, 3.0),
    excess=st.floats(-3.0, -1e-3),
)
def test_the_largest_shrinking(d, mu, excess):
    """Every smaller step is allowed up to the answer, and a little more is not."""
    with jax.enable_x64(True):
        arguments = (jnp.asarray(v) for v in (d, mu, excess))
        phi = float(budget._largest_shrink(*arguments))

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
        phi = budget._largest_shrink(jnp.asarray(1.0), jnp.asarray(0.5), jnp.asarray(-15 / 32))
    np.testing.assert_allclose(phi, 15 / 64, rtol=1e-15)


def test_projections_keep_the_inverse_of_the_gram_matrix(x64):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(80, 3)), np.sign(rng.normal(size=80))
    kernels = jaxmkl.Gaussian((0.5, 1.0))
    state = scan(learner(jaxmkl.Project(0.05), 12, kernels), X, y)
    assert np.asarray(state.support.number).tolist() == [12, 12]
    for p, (rows, _) in enumerate(in_order(state)):
        gram = np.asarray(kernels.gram(rows))[p]
        np.testing.assert_allclose(state.support.policy.inverse[p] @ gram, np.eye(12), atol=1e-9)


@pytest.mark.parametrize("name", POLICIES)
def test_no_kernel_holds_more_than_its_budget(name):
    """In single precision, with narrow kernels and polynomials, and repeated examples."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3)).astype(np.float32)
    X[30:45] = X[:15]
    X[50] = 0
    y = np.sign(rng.normal(size=60)).astype(np.float32)
    component = jaxmkl.PassiveAggressive(1.0) if name == "Replace" else None
    state = scan(learner(POLICIES[name], 6, classification_kernels(), component), X, y)
    number = np.asarray(state.support.number)
    assert number.max() == 6
    for leaf in jax.tree.leaves(state.support):
        assert np.isfinite(np.asarray(leaf)).all()
    for (rows, a), n in zip(in_order(state), number, strict=True):
        assert len(rows) == len(a) == n
        assert {row.tobytes() for row in rows} <= {x.tobytes() for x in X}


def test_periods_fit_the_budget():
    assert jaxmkl.BudgetSupport(50, jaxmkl.SelfTuned()).period == 32
    assert jaxmkl.BudgetSupport(1, jaxmkl.SelfTuned()).period == 1
    assert jaxmkl.BudgetSupport(500, jaxmkl.SelfTuned()).period == 128
    assert jaxmkl.BudgetSupport(50, jaxmkl.SelfTuned(), period=4).period == 4


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"budget": 0}, "budget"),
        ({"budget": 2.5}, "budget"),
        ({"budget": None}, "budget"),
        ({"policy": jaxmkl.RemoveOldest}, "policy"),
        ({"policy": "oldest"}, "policy"),
        ({"policy": jaxmkl.Perceptron()}, "policy"),
        ({"period": 12}, "period"),
        ({"period": 0}, "period"),
    ],
)
def test_bad_arguments_are_named(arguments, wanted):
    given = {"budget": 5, "policy": jaxmkl.RemoveOldest()} | arguments
    with pytest.raises(ValueError, match=f"BudgetSupport: {wanted} must be"):
        jaxmkl.BudgetSupport(**given)


@pytest.mark.parametrize("threshold", [-0.1, np.nan, np.inf, "far", [0.1]])
def test_bad_thresholds_are_named(threshold):
    with pytest.raises(ValueError, match="Project: threshold must be"):
        jaxmkl.Project(threshold)
