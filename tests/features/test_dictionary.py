"""The sampled dictionary against its definition, and blocks against examples one by one."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl.features import SampledDictionary
from jaxmkl.models import Feedback
from tests.common.marks import quick
from tests.common.trees import plain
from tests.oracles.multitask import Dictionary
from tests.oracles.support_mkl import gaussian

SMALL_PROGRAMS = True
KERNEL = jaxmkl.Gaussian(1.5)


def data(num_examples=60, num_inputs=3, seed=0, dtype=np.float64):
    """X (T, d) and uniform numbers (T,)."""
    rng = np.random.default_rng(seed)
    X, uniform = rng.normal(size=(num_examples, num_inputs)), rng.random(num_examples)
    return X.astype(dtype), uniform.astype(dtype)


def encoded(dictionary, state, X, uniform, first):
    """Codes of a block, with these numbers (B,) in place of the random ones."""
    keys = jax.random.split(jax.random.key(0), len(X))
    codes = dictionary.encode(state, KERNEL, X, first, keys)
    assert codes.uniform.shape == uniform.shape
    return codes._replace(uniform=uniform)


def told(seen):
    """The feedback of a round without a label."""
    return Feedback(jnp.zeros(()), jnp.zeros((1,), bool), seen, seen)


@functools.partial(jax.jit, static_argnames="block_size")
def sampled(dictionary, X, uniform, present=None, block_size=1):
    """The dictionary after all blocks, the offers (T,), and all dictionaries before an offer."""

    def turn(state, example):
        code, present = example
        _, offer = dictionary.predict(state, code)
        return dictionary.update(state, code, offer, told(present)), (offer, state)

    def block(state, examples):
        X, uniform, present, first = examples
        codes = encoded(dictionary, state, X, uniform, first)
        state, found = jax.lax.scan(turn, state, (codes, present))
        return dictionary.close(state, codes, first + len(X)), found

    present = jnp.ones(len(X), bool) if present is None else present
    blocks = [array.reshape(-1, block_size, *array.shape[1:]) for array in (X, uniform, present)]
    state = dictionary.init(jax.random.key(0), KERNEL, X.shape[1], X.dtype)
    first = jnp.arange(0, len(X), block_size, dtype=jnp.int32)
    state, (offers, before) = jax.lax.scan(block, state, (*blocks, first))
    return state, *jax.tree.map(lambda v: v.reshape(-1, *v.shape[2:]), (offers, before))


@jax.jit
def looked_at(dictionary, state, X):
    """Probabilities (T,) and coordinates (T, D) of examples that are not offered."""

    def one(code):
        return dictionary.probability(state, code), dictionary.embed(state, code)

    return jax.vmap(one)(encoded(dictionary, state, X, jnp.zeros(len(X), X.dtype), 1000))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "arguments"), [(60, {}), (12, {"ridge": 0.2, "density": 0.6, "accuracy": 0.1})]
)
def test_the_oracle_samples_the_same(size, arguments, x64):
    X, uniform = data()
    state, offers, _ = sampled(SampledDictionary(size, **arguments), X, uniform)
    renamed = {{"ridge": "alpha", "density": "beta"}.get(k, k): v for k, v in arguments.items()}
    oracle = Dictionary(gaussian(1.5), size=size, **renamed)
    for t, (x, u) in enumerate(zip(X, uniform, strict=True)):
        np.testing.assert_allclose(offers.probability[t], oracle.probability(x), rtol=1e-9)
        assert bool(offers.added[t]) == oracle.offer(x, u)
        np.testing.assert_allclose(offers.coordinates[t], oracle.embed(x), atol=1e-8)
    n = int(state.number)
    assert n == len(oracle.points)
    assert int(state.refused) == oracle.refused
    assert (n == size) == (oracle.refused > 0) == (size == 12)
    np.testing.assert_array_equal(state.rows[:n], oracle.rows())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    quick([(np.float64, 1e-10)], [(np.float64, 1e-10), (np.float32, 1e-4)]),
)
def test_factors_are_those_made_anew(dtype, tolerance):
    """And the coordinates of the points are a root of their Gram matrix."""
    with jax.enable_x64(dtype == np.float64):
        X, uniform = data(400, dtype=dtype)
        state, offers, _ = sampled(SampledDictionary(50), X, uniform)
        n = int(state.number)
        assert n > 20
        rows = np.asarray(state.rows[:n], np.float64)
        gram = np.exp(-((rows[:, None] - rows[None]) ** 2).sum(-1) / (2 * 1.5**2))
        s = np.asarray(offers.probability[offers.added], np.float64) ** -0.5
        inverse, weighted, L = np.asarray(state.table[..., :-1])
        np.testing.assert_array_equal(L, np.tril(L))
        np.testing.assert_allclose(L[:n, :n], np.linalg.cholesky(gram), atol=20 * tolerance)
        np.testing.assert_allclose(L[:n, :n] @ L[:n, :n].T, gram, atol=tolerance)
        ridge = s[:, None] * gram * s + np.eye(n)
        M = weighted[:n, :n] / s
        np.testing.assert_allclose(M, np.linalg.inv(np.linalg.cholesky(ridge)), atol=tolerance)
        W = inverse[:n, :n]
        np.testing.assert_allclose(W @ L[:n, :n], np.eye(n), atol=20 * tolerance)
        np.testing.assert_array_equal(L[n:], np.eye(50)[n:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_coordinates_are_no_longer_than_the_example(dtype):
    """|φ|² <= k(x, x) = 1, and is 1 for an example that has come in."""
    with jax.enable_x64(dtype == np.float64):
        X, uniform = data(400, dtype=dtype)
        state, offers, _ = sampled(SampledDictionary(50), X, uniform)
        phi, added = np.asarray(offers.coordinates, np.float64), np.asarray(offers.added)
        lengths = (phi**2).sum(axis=1)
        assert lengths.max() <= 1 + 20 * np.finfo(dtype).eps
        np.testing.assert_allclose(lengths[added], 1, atol=20 * np.finfo(dtype).eps)
        assert lengths[~added].min() < 0.99
        assert int(state.number) == added.sum() > 20


@jax.jit
def coordinates_of(dictionary, kernel, X, far):
    """The dictionary after the examples X, and φ (T, D) of others."""

    def turn(state, code):
        _, offer = dictionary.predict(state, code)
        return dictionary.update(state, code, offer, told(jnp.ones((), bool))), None

    def codes_of(state, X, first):
        keys = jax.random.split(jax.random.key(0), len(X))
        return dictionary.encode(state, kernel, X, jnp.array(first), keys)

    state = dictionary.init(jax.random.key(0), kernel, X.shape[1], X.dtype)
    codes = codes_of(state, X, 0)
    state = dictionary.close(jax.lax.scan(turn, state, codes)[0], codes, jnp.array(len(X)))
    return state, jax.vmap(dictionary.embed, in_axes=(None, 0))(state, codes_of(state, far, 1000))


def of_far_examples(size, offset):
    """Points (n, 3), examples (T, 3) some ``offset`` away, and their φ (T, n)."""
    rng = np.random.default_rng(3)
    near, far = rng.normal(size=(40, 3)), rng.normal(size=(50, 3))
    far += offset * far / np.linalg.norm(far, axis=1, keepdims=True)
    near, far = near.astype(np.float32), far.astype(np.float32)
    dictionary = SampledDictionary(20, ridge=size)
    state, phi = coordinates_of(dictionary, size * KERNEL, near, far)
    n = int(state.number)
    assert n > 5
    return np.asarray(state.rows, float)[:n], far.astype(float), np.asarray(phi, float)[:, :n]


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("offset", [3.0, 16.0, 25.0])
def test_far_examples_have_the_directions_of_double_precision(offset, size):
    """Values below those of single precision change the length of φ alone."""
    points, far, phi = of_far_examples(size, offset)
    u = ((far[:, None] - points) ** 2).sum(-1) / (2 * 1.5**2)
    least = u.min(axis=1, keepdims=True)
    gram = np.exp(-((points[:, None] - points) ** 2).sum(-1) / (2 * 1.5**2))
    wanted = np.linalg.solve(np.linalg.cholesky(gram), np.exp(least - u).T).T * np.sqrt(size)
    if offset > 20:
        assert np.exp(-least).max() < np.finfo(np.float32).tiny
    root = np.sqrt(np.finfo(np.float32).tiny)
    wanted = wanted * np.maximum(np.exp(-least), root)
    longest = np.abs(wanted).max(axis=1, keepdims=True)
    np.testing.assert_allclose(phi / longest, wanted / longest, atol=2e-3)
    assert (np.abs(phi).max(axis=1) > 0).all()


def test_values_that_double_precision_has_not_are_0():
    _, _, phi = of_far_examples(1.0, 80.0)  # exp(-1200) and less
    np.testing.assert_array_equal(phi, 0)


@pytest.mark.slow
def test_earlier_coordinates_stay_as_they_were(x64):
    dictionary = SampledDictionary(60)
    X, uniform = data()
    _, _, before = sampled(dictionary, X, uniform)
    last = np.zeros(60)
    for t in (5, 20, 59):
        state = jax.tree.map(lambda leaf, t=t: leaf[t], plain(before))
        (phi,), n = np.asarray(looked_at(dictionary, state, X[:1] + 0.3)[1]), int(state.number)
        known = np.flatnonzero(last)
        np.testing.assert_allclose(phi[known], last[known], rtol=1e-12)
        assert np.count_nonzero(phi) == n > len(known)
        last = phi


@pytest.mark.slow
def test_blocks_change_nothing(x64):
    dictionary = SampledDictionary(12)
    X, uniform = data()
    one, offers, _ = sampled(dictionary, X, uniform)
    other, of_blocks, _ = sampled(dictionary, X, uniform, block_size=12)
    assert int(one.number) == 12
    assert int(one.refused) > 0
    # but for the examples' places in their blocks
    offers, of_blocks = (each._replace(row=each.row[..., :-1]) for each in (offers, of_blocks))
    for a, b in zip(
        jax.tree.leaves((one, offers)), jax.tree.leaves((other, of_blocks)), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
def test_amid_a_block_examples_of_the_past_are_not_looked_at(x64):
    """With anything in their place, as the block is closed when a run ends amid it."""
    dictionary = SampledDictionary(25)
    X, uniform = data(16)
    whole, offers, _ = sampled(dictionary, X, uniform, block_size=16)
    first = np.arange(16) < 9
    middle, _, _ = sampled(dictionary, X, uniform, first, block_size=16)
    assert 3 < int(middle.number) < int(whole.number)

    @jax.jit
    def go_on(state, X, uniform):
        codes = encoded(dictionary, state, X, uniform, 9)

        def one(state, example):
            code, present = example
            _, offer = dictionary.predict(state, code)
            return dictionary.update(state, code, offer, told(present)), offer

        state, offers = jax.lax.scan(one, state, (codes, ~first))
        return dictionary.close(state, codes, 16), offers

    end, again = go_on(middle, np.where(first[:, None], 7.0, X), uniform)
    for a, b in zip(jax.tree.leaves(end), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    np.testing.assert_allclose(again.coordinates[9:], offers.coordinates[9:], atol=1e-12)


@pytest.mark.slow
def test_absent_examples_do_not_come_in():
    X, uniform = data(dtype=np.float32)
    present = np.arange(60) % 3 == 0
    dictionary = SampledDictionary(40)
    some, offers, _ = sampled(dictionary, X, uniform, present, block_size=6)
    only, _, _ = sampled(dictionary, X[present], uniform[present])
    added = np.asarray(offers.added)
    assert int(some.number) == (added & present).sum() == int(only.number) > 5
    assert (added & ~present).any(), "some would have come in"
    np.testing.assert_allclose(some.table, only.table, atol=1e-5)


@pytest.mark.slow
def test_what_comes_in_has_its_probability():
    """Over many draws: the second of two examples, within four standard errors."""
    X, draws = data(2, dtype=np.float32)[0], 4000
    dictionary = SampledDictionary(4, density=0.7)
    uniform = jax.random.uniform(jax.random.key(0), (draws, 2)).at[:, 0].set(0.0)
    _, offers, _ = jax.vmap(lambda u: sampled(dictionary, X, u))(uniform)
    p = float(offers.probability[0, 1])
    assert 0.1 < p < 0.9
    share = np.asarray(offers.added[:, 1]).mean()
    assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / draws)


def test_more_density_and_less_ridge_take_more():
    X, uniform = data(120, dtype=np.float32)
    uniform = np.sqrt(uniform)  # few are certain

    def number(tolerance=1e-4, **arguments):
        dictionary = SampledDictionary(80, tolerance=tolerance, **arguments)
        return int(sampled(dictionary, X, uniform)[0].number)

    assert number(density=0.2) < number(density=0.5) < number(density=1.0) < number(density=5.0)
    assert number(ridge=5.0) < number(ridge=1.0) < number(ridge=0.1)
    assert number(tolerance=0.5) < number()


@pytest.mark.parametrize(
    ("argument", "value", "wanted"),
    [
        ("size", 0, "an integer of at least 1"),
        ("size", 2.0, "an integer of at least 1"),
        ("ridge", 0.0, "a positive finite number"),
        ("density", -1, "a positive finite number"),
        ("accuracy", -0.1, "a finite number of at least 0"),
        ("tolerance", 0.0, "above 0 and at most 1"),
        ("tolerance", 1.5, "above 0 and at most 1"),
    ],
)
def test_what_is_no_parameter_is_refused(argument, value, wanted):
    with pytest.raises(ValueError, match=f"SampledDictionary: {argument} must be {wanted}"):
        SampledDictionary(**{argument: value})
