"""Fourier features against the kernels they stand for."""

import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxmkl
from jaxmkl.features import FourierFeatures, fourier
from jaxmkl.models import FeatureModels

SMALL_PROGRAMS = True
FAMILIES = {
    "Gaussian": (jaxmkl.Gaussian, lambda r, b: np.exp(-(r**2) / (2 * b**2))),
    "Laplacian": (jaxmkl.Laplacian, lambda r, b: np.exp(-r / b)),
    "Cauchy": (jaxmkl.Cauchy, lambda r, b: 1 / (1 + r**2 / b**2)),
}
BANDWIDTHS = np.array([0.5, 1.0, 2.0])
NUM_INPUTS, NUM_FEATURES, NUM_KEYS = 4, 6, 4000


def bank_of(family, scale="mean", orthogonal=False, num_features=NUM_FEATURES):
    features = FourierFeatures(num_features, orthogonal, scale)
    return FeatureModels(family(BANDWIDTHS), features=features)


def drawn_for(bank, key):
    """Frequencies (P, F, D)."""
    return init(bank, key, jax.dtypes.canonicalize_dtype(float)).frequencies


@functools.partial(jax.jit, static_argnames="dtype")
def init(bank, key, dtype):
    return bank.init(key, NUM_INPUTS, dtype)


@jax.jit
def embed(bank, frequencies, X):
    return bank.features(bank.kernels, frequencies, X)


def points():
    """Pairs at distances from 0 to 3, in random directions."""
    rng = np.random.default_rng(0)
    distances = np.array([0.0, 0.1, 0.5, 1.0, 1.7, 3.0])
    X = rng.normal(size=(len(distances), NUM_INPUTS))
    direction = rng.normal(size=X.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return X, X + distances[:, None] * direction, distances


def estimates(orthogonal):
    """z(x)'z(y) for many draws of the frequencies: (keys, pairs, P) for each family."""
    kernels = jaxmkl.KernelDictionary(tuple(make(BANDWIDTHS) for make, _ in FAMILIES.values()))
    bank = FeatureModels(kernels, features=FourierFeatures(NUM_FEATURES, orthogonal, "mean"))
    X, Y, _ = points()

    def one(key):
        frequencies = drawn_for(bank, key)
        x, y = embed(bank, frequencies, X), embed(bank, frequencies, Y)
        return (x * y).sum(axis=-1)

    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(3), NUM_KEYS)
        return np.split(np.asarray(jax.jit(jax.vmap(one))(keys)), len(FAMILIES), axis=-1)


@pytest.fixture(scope="module")
def drawn():
    found = {o: dict(zip(FAMILIES, estimates(o), strict=True)) for o in (False, True)}
    return {(family, o): found[o][family] for family in FAMILIES for o in found}


@pytest.mark.slow
@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_inner_products_are_unbiased_for_the_kernel(drawn, family, orthogonal):
    _, _, distances = points()
    exact = FAMILIES[family][1](distances[:, None], BANDWIDTHS)
    z = drawn[family, orthogonal]
    error = z.std(axis=0) / np.sqrt(NUM_KEYS)
    # 36 cases here in all at 6 standard errors: false alarms below 1e-7
    assert (np.abs(z.mean(axis=0) - exact) <= 6 * error + 1e-12).all()
    # and sharp enough to tell the families apart
    assert error.max() < 0.01


@pytest.mark.slow
def test_orthogonal_frequencies_lower_the_variance(drawn):
    _, _, distances = points()
    far = distances > 0.1
    plain = drawn["Gaussian", False].var(axis=0)[far]
    orthogonal = drawn["Gaussian", True].var(axis=0)[far]
    middle = (plain > 1e-6) & (FAMILIES["Gaussian"][1](distances[far, None], BANDWIDTHS) > 0.1)
    assert middle.sum() >= 6
    assert (orthogonal[middle] < 0.95 * plain[middle]).all()


def test_features_of_one_orthogonal_block_are_orthogonal():
    bank = bank_of(jaxmkl.Gaussian, orthogonal=True, num_features=NUM_INPUTS)
    with jax.enable_x64(True):
        W = np.asarray(drawn_for(bank, jax.random.key(0)))
    products = np.einsum("pfd,pgd->pfg", W, W)
    norms = np.sqrt(np.einsum("pff->pf", products))
    cosines = products / (norms[:, :, None] * norms[:, None, :])
    np.testing.assert_allclose(cosines, np.broadcast_to(np.eye(4), cosines.shape), atol=1e-10)


def test_orthogonal_features_of_very_many_inputs():
    """Only as many directions are drawn as there are frequencies."""
    features, kernels = FourierFeatures(40, orthogonal=True), jaxmkl.Gaussian([1.0, 2.0])
    with jax.enable_x64(True):
        W = np.asarray(features.init(jax.random.key(0), kernels, 600, "float64"))
    assert W.shape == (2, 40, 600)
    products = np.einsum("pfd,pgd->pfg", W, W)
    squares = np.einsum("pff->pf", products)
    np.testing.assert_allclose(products, np.eye(40) * squares[:, None], atol=1e-9)
    assert abs(squares.mean() - 600) < 6 * np.sqrt(2 * 600 / 80)
    # directions are uniform: of any column, and without a preference of sign
    columns = (W / np.sqrt(squares[..., None])).reshape(80, 600)
    assert abs(columns.mean()) < 6 / np.sqrt(600 * 80 * 600)
    assert np.abs((columns**2).mean(axis=0) * 600 - 1).max() < 6 * np.sqrt(2 / 80)


@pytest.mark.parametrize("orthogonal", [False, True])
def test_frequencies_are_standard_normal_for_bandwidth_one(orthogonal):
    """Whatever the bandwidth: each row is N(0, I), (7) with sigma = 1."""
    bank = bank_of(jaxmkl.Gaussian, orthogonal=orthogonal)
    keys = jax.random.split(jax.random.key(5), 4000)
    W = np.asarray(jax.vmap(lambda key: drawn_for(bank, key))(keys))
    assert W.shape == (4000, 3, NUM_FEATURES, NUM_INPUTS)
    draws = 4000 * 3 * NUM_FEATURES * NUM_INPUTS
    # rows are independent over keys and kernels; 6 sigma with at least 12,000 of them
    assert abs(W.mean()) < 6 / np.sqrt(12_000)
    assert abs(W.var() - 1) < 6 * np.sqrt(2 / 12_000)
    squares = (W**2).sum(axis=-1)
    assert abs(squares.mean() - NUM_INPUTS) < 6 * np.sqrt(2 * NUM_INPUTS / 12_000)
    assert abs(squares.var() - 2 * NUM_INPUTS) < 6 * 2 * NUM_INPUTS * np.sqrt(12 / 12_000)
    assert W.size == draws


@pytest.mark.parametrize(("scale", "square"), [("sum", NUM_FEATURES), ("mean", 1.0)])
@given(seed=st.integers(0, 2**31 - 1), size=st.floats(1e-3, 1e3))
def test_norm_of_the_features(scale, square, seed, size):
    bank = bank_of(jaxmkl.Gaussian, scale)
    frequencies = drawn_for(bank, jax.random.key(1))
    X = (size * np.random.default_rng(seed).normal(size=(5, NUM_INPUTS))).astype(np.float32)
    z = np.asarray(embed(bank, frequencies, X))
    assert z.shape == (5, 3, 2 * NUM_FEATURES)
    np.testing.assert_allclose((z**2).sum(axis=-1), square, rtol=1e-5)


def test_features_are_sines_then_cosines_of_the_phase(x64):
    bank = bank_of(jaxmkl.Gaussian, "sum")
    W = drawn_for(bank, jax.random.key(2))
    assert W.dtype == jnp.float64
    X, _, _ = points()
    phase = np.einsum("pfd,bd->bpf", np.asarray(W), X) / BANDWIDTHS[:, None]
    expected = np.concatenate([np.sin(phase), np.cos(phase)], axis=-1)
    np.testing.assert_allclose(np.asarray(embed(bank, W, X)), expected, atol=1e-13)


@pytest.mark.slow
def test_features_are_differentiable_in_the_bandwidth(x64):
    X, Y, _ = points()
    key = jax.random.key(4)

    @jax.jit
    def total(bandwidth):
        features = FourierFeatures(NUM_FEATURES, scale="mean")
        kernels = jaxmkl.KernelDictionary(tuple(make(bandwidth) for make, _ in FAMILIES.values()))
        bank = FeatureModels(kernels, features=features)
        W = drawn_for(bank, key)
        return (embed(bank, W, X) * embed(bank, W, Y)).sum()

    gradient = np.asarray(jax.grad(total)(jnp.asarray(BANDWIDTHS)))
    h = 1e-5
    for i in range(3):
        step = h * np.eye(3)[i]
        difference = (total(BANDWIDTHS + step) - total(BANDWIDTHS - step)) / (2 * h)
        np.testing.assert_allclose(gradient[i], difference, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_features_of_a_dictionary_are_those_of_its_kernels(x64):
    X, _, _ = points()
    parts = [
        family(b) for (family, _), b in zip(FAMILIES.values(), (2.0, BANDWIDTHS, 0.5), strict=True)
    ]
    kernels = jaxmkl.KernelDictionary(tuple(parts))
    bank = FeatureModels(kernels, features=FourierFeatures(5))
    W = drawn_for(bank, jax.random.key(6))
    assert W.shape == (5, 5, NUM_INPUTS)
    z = np.asarray(embed(bank, W, X))
    for part, rows in zip(parts, (slice(0, 1), slice(1, 4), slice(4, 5)), strict=True):
        np.testing.assert_allclose(z[:, rows], bank.features(part, W[rows], X), atol=1e-13)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"num_features": 0}, "num_features"),
        ({"num_features": -3}, "num_features"),
        ({"num_features": 2.5}, "num_features"),
        ({"scale": "median"}, "scale"),
        ({"orthogonal": "yes"}, "orthogonal"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=f"FourierFeatures: {name} must be"):
        FourierFeatures(**arguments)


@pytest.mark.parametrize(
    ("kernel", "named"),
    [
        (jaxmkl.Linear(), "Linear"),
        (jaxmkl.Polynomial(2), "Polynomial"),
        (jaxmkl.KernelDictionary((jaxmkl.Gaussian(1.0), jaxmkl.Polynomial(2))), "Polynomial"),
    ],
)
def test_kernels_without_a_spectrum_are_refused(kernel, named):
    wanted = f"kernels must be of a known spectrum: .*got '{named}'"
    with pytest.raises(ValueError, match=wanted):
        FeatureModels(kernel)
    with pytest.raises(ValueError, match=wanted):
        FourierFeatures().check(kernel)


@pytest.mark.parametrize("scale", ["sum", "mean"])
def test_squared_norms_are_those_of_the_features(scale, x64):
    bank = bank_of(jaxmkl.Gaussian, scale)
    X, _, _ = points()
    z = embed(bank, drawn_for(bank, jax.random.key(3)), X)
    norms = jax.vmap(bank.features.squared_norms)(z)
    np.testing.assert_allclose(norms, (np.asarray(z) ** 2).sum(axis=-1), rtol=1e-12)
    np.testing.assert_allclose(norms, bank.features.squared_norm, rtol=1e-12)
    assert bank.features.num_coordinates(NUM_INPUTS) == z.shape[-1]


def test_blocks_are_encoded_as_they_are_called(x64):
    bank = bank_of(jaxmkl.Gaussian)
    X, _, _ = points()
    W = drawn_for(bank, jax.random.key(3))
    # a program, as that beside it: call by call a product with a sum is not fused
    block = jax.jit(bank.features.encode)(W, bank.kernels, X, jnp.asarray(5), None)
    np.testing.assert_array_equal(block, embed(bank, W, X))


# --- sines of phases in turns --------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 3e-7), (np.float64, 1e-12)])
def test_sines_of_turns_are_those_of_numpy(dtype, error, x64):
    """For phases of any size, to rounding of the given phase; slopes too."""
    drawn = np.random.default_rng(0).normal(size=1000)
    t = np.concatenate([drawn, 1e3 * drawn, np.arange(-8, 9) / 8]).astype(dtype)
    near = t.astype(np.float64) % 1.0  # exact
    wanted = np.sin(2 * np.pi * near), np.cos(2 * np.pi * near)
    for found, value in zip(fourier._sines_of_turns(jnp.asarray(t)), wanted, strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, value, atol=error)
    slope = jax.vmap(jax.grad(lambda t: fourier._sines_of_turns(t)[0]))(jnp.asarray(t))
    np.testing.assert_allclose(slope, 2 * np.pi * wanted[1], atol=10 * error)


@pytest.mark.endless
def test_threads_do_not_wait_for_each_other():
    """Batches of QR factorisations would, for ever, in the CPU's pool of threads."""
    features, kernels = FourierFeatures(20, orthogonal=True), jaxmkl.Gaussian([0.5, 1.0, 2.0])
    keys = jax.random.split(jax.random.key(0), 4)
    draw = jax.jit(jax.vmap(lambda key: features.init(key, kernels, 40)))
    first, together = jax.block_until_ready(draw(keys)), threading.Barrier(3)

    def run_it():
        for _ in range(60):
            together.wait()
            jax.block_until_ready(draw(keys))

    threads = [threading.Thread(target=run_it, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    # each key's own, as without others beside it
    np.testing.assert_allclose(first[1], features.init(keys[1], kernels, 40), atol=1e-5)


def test_more_frequencies_than_fit_are_refused():
    """As of hashed texts, whose columns are many: a run would take gigabytes."""
    for recipe in (jaxmkl.raker, jaxmkl.amkl_aks):
        with pytest.raises(
            ValueError,
            match=r"num_inputs must be at most 157,903, as 17 kernels .*hash the inputs",
        ):
            recipe().init(jax.random.key(0), 2**18)
    few = jaxmkl.raker(jaxmkl.Gaussian(1.0), num_features=2)
    assert jax.eval_shape(lambda: few.init(jax.random.key(0), 2**18)).models[0] is not None
