"""Kernel matrices against SciPy and scikit-learn in float64, and what a kernel matrix must be."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel

import jaxmkl
from jaxmkl import pytree
from jaxmkl.kernels import DotProduct, Stationary
from tests.common.marks import quick

SMALL_PROGRAMS = True

BANDWIDTHS = np.array([0.3, 1.0, 4.0])

# name: (the stacked kernel, the same matrices one by one)
KERNELS = {
    "Gaussian": (
        lambda: jaxmkl.Gaussian(BANDWIDTHS),
        lambda X, Y: [rbf_kernel(X, Y, gamma=1 / (2 * b**2)) for b in BANDWIDTHS],
    ),
    "Laplacian": (
        lambda: jaxmkl.Laplacian(BANDWIDTHS),
        lambda X, Y: [np.exp(-cdist(X, Y) / b) for b in BANDWIDTHS],
    ),
    "Cauchy": (
        lambda: jaxmkl.Cauchy(BANDWIDTHS),
        lambda X, Y: [1 / (1 + cdist(X, Y, "sqeuclidean") / b**2) for b in BANDWIDTHS],
    ),
    "Polynomial": (
        lambda: jaxmkl.Polynomial(3, offset=0.5),
        lambda X, Y: [polynomial_kernel(X, Y, degree=3, gamma=1, coef0=0.5)],
    ),
    "Polynomial without offset": (
        lambda: jaxmkl.Polynomial(2),
        lambda X, Y: [polynomial_kernel(X, Y, degree=2, gamma=1, coef0=0)],
    ),
    "Linear": (lambda: jaxmkl.Linear(), lambda X, Y: [linear_kernel(X, Y)]),
}
SHIFT_INVARIANT = ["Gaussian", "Laplacian", "Cauchy"]


# kernels from outside


@pytree.dataclass
class Matern32(Stationary):
    def profile(self, u):
        s = jnp.sqrt(3 * u)
        return (1 + s) * jnp.exp(-s)


@pytree.dataclass
class RationalQuadratic(Stationary):
    shape: float = 1.0

    def profile(self, u):
        return (1 + u / (2 * self.shape)) ** -self.shape


FAMILIES = [jaxmkl.Gaussian, jaxmkl.Laplacian, jaxmkl.Cauchy, Matern32]


def everything():
    return jaxmkl.KernelDictionary(tuple(make() for make, _ in KERNELS.values()))


def reference(X, Y):
    return np.stack([matrix for _, of in KERNELS.values() for matrix in of(X, Y)])


@jax.jit
def gram(dictionary, X, Y):
    return dictionary.gram(X, Y)


@given(
    shape=st.sampled_from([(7, 5, 3), (1, 5, 10), (4, 1, 1)]),
    seed=st.integers(0, 2**31 - 1),
    shift=st.sampled_from([0.0, 2.0, -30.0]),
)
def test_dictionary_agrees_with_the_usual_formulas(shape, seed, shift):
    n, m, d = shape
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, d)) + shift, rng.normal(size=(m, d)) + shift
    with jax.enable_x64(True):
        ours = np.asarray(gram(everything(), X, Y))
    assert ours.shape == (12, n, m)
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, reference(X, Y), rtol=1e-9, atol=1e-11)


def test_laplacian_is_isotropic():
    """The distance is Euclidean: not scikit-learn's kernel, which is of the 1-norm."""
    X = np.array([[0.0, 0.0], [3.0, 4.0]], np.float32)
    ours = np.asarray(jaxmkl.KernelDictionary((jaxmkl.Laplacian(2.0),)).gram(X, X))
    np.testing.assert_allclose(ours[0, 0, 1], np.exp(-5 / 2), rtol=1e-6)
    assert abs(ours[0, 0, 1] - laplacian_kernel(X, gamma=0.5)[0, 1]) > 0.01


@pytest.mark.parametrize("stretch", [1e-3, 100.0])
def test_matrices_are_symmetric_and_positive_semidefinite(stretch, x64):
    X = stretch * np.random.default_rng(2).normal(size=(30, 4))
    X = np.concatenate([X, X[:3], X[:3] + 1e-9 * stretch])  # with repeated and near points
    for matrix in np.asarray(gram(everything(), X, X)):
        np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12)
        eigenvalues = np.linalg.eigvalsh((matrix + matrix.T) / 2)
        assert eigenvalues[0] >= -1e-10 * eigenvalues[-1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=st.integers(0, 2**31 - 1), size=st.floats(1e-3, 1e3))
def test_shift_invariant_kernels_lie_in_the_unit_interval(dtype, seed, size):
    X = (size * np.random.default_rng(seed).normal(size=(7, 3))).astype(dtype)
    with jax.enable_x64(dtype is np.float64):
        dictionary = jaxmkl.KernelDictionary(tuple(KERNELS[n][0]() for n in SHIFT_INVARIANT))
        K = np.asarray(gram(dictionary, X, X))
    assert K.dtype == dtype
    assert ((K >= 0) & (K <= 1)).all()
    # a point and itself: the distance is 0, up to the rounding of its square
    tolerance = 1e-3 if dtype is np.float32 else 1e-9
    diagonal = np.einsum("pii->pi", K)
    smooth = np.concatenate([diagonal[:3], diagonal[6:]])
    np.testing.assert_allclose(smooth, 1, atol=tolerance * max(1.0, size**2))


@pytest.mark.parametrize("num_inputs", [8, 100])
def test_narrow_kernels_on_raw_data_in_single_precision(num_inputs):
    """Points of norm 300 with near duplicates: distances must not drown in the squares' rounding.

    |x|^2 is about 1e5, of which single precision keeps 0.01. Neither a common centre helps (the
    points lie in all directions) nor any clipping at 0.
    """
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, num_inputs))
    X *= 300 / np.linalg.norm(X, axis=1, keepdims=True)
    step = rng.normal(size=(20, num_inputs))
    step *= np.linspace(0, 0.15, 20)[:, None] / np.linalg.norm(step, axis=1, keepdims=True)
    X[20:] = X[:20] + step
    X = X.astype(np.float32)
    bandwidths = np.array([0.05, 0.1, 1.0])
    wide = X.astype(np.float64)
    exact = np.exp(-cdist(wide, wide, "sqeuclidean") / (2 * bandwidths[:, None, None] ** 2))
    ours = np.asarray(gram(jaxmkl.KernelDictionary((jaxmkl.Gaussian(bandwidths),)), X, X))
    assert ours.dtype == np.float32
    duplicates = np.diagonal(exact[0], offset=20)
    assert duplicates.min() < 0.1 < 0.9 < duplicates.max()
    np.testing.assert_allclose(ours, exact, atol=1e-5)


@pytest.mark.slow
def test_gradients_are_finite_where_points_coincide():
    X = jnp.asarray(np.random.default_rng(4).normal(size=(5, 3)), jnp.float32)
    kernels = [make(b) for make in FAMILIES for b in (BANDWIDTHS, np.ones((2, 3)))]

    @jax.jit
    @functools.partial(jax.grad, argnums=(0, 1, 2))
    def gradients(kernels, X, Y):
        return sum(kernel.gram(X, Y).sum() for kernel in kernels)

    of_kernels, of_X, of_Y = gradients(kernels, X, X)
    for leaf in jax.tree.leaves(of_kernels):
        assert np.isfinite(leaf).all()
    # kernels are symmetric, and their values stay where all points move
    assert_allclose(of_X, of_Y, rtol=1e-5, atol=1e-5)
    assert_allclose(of_X.sum(axis=0), 0, atol=2e-5)


def test_gradients_agree_with_differences(x64):
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    weight = rng.normal(size=(6 * len(FAMILIES), 5, 4))

    @jax.jit
    def total(bandwidths):
        several, each = bandwidths
        kernels = [make(b) for make in FAMILIES for b in (several, each)]
        return (weight * jaxmkl.KernelDictionary(kernels).gram(X, Y)).sum()

    start = np.concatenate([BANDWIDTHS, rng.uniform(0.5, 2, size=9)])

    def of_numbers(numbers):
        return total((numbers[:3], numbers[3:].reshape(3, 3)))

    gradient = np.asarray(jax.grad(of_numbers)(jnp.asarray(start)))
    h = 1e-6
    for i, step in enumerate(h * np.eye(len(start))):
        difference = (of_numbers(start + step) - of_numbers(start - step)) / (2 * h)
        np.testing.assert_allclose(gradient[i], difference, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("make", "bad", "name"),
    [
        (jaxmkl.Gaussian, (0.0, np.nan, np.inf, [1.0, -2.0], "wide", []), "bandwidth"),
        (jaxmkl.Laplacian, (-1.0,), "bandwidth"),
        (jaxmkl.Cauchy, (-1.0,), "bandwidth"),
        (jaxmkl.Polynomial, (0, -1, 1.5, np.nan), "degree"),
        (functools.partial(jaxmkl.Polynomial, 2), (-0.5, np.nan, np.inf), "offset"),
        (jaxmkl.KernelDictionary, ((), ("Gaussian",), (1.0,)), "kernels"),
    ],
)
def test_bad_arguments_are_named(make, bad, name):
    for value in bad:
        with pytest.raises(ValueError, match=name):
            make(value)


# --- kernels from outside ------------------------------------------------------------------------


def matern(X, Y, b):
    s = np.sqrt(3) * cdist(X, Y) / b
    return (1 + s) * np.exp(-s)


def test_a_kernel_from_outside_takes_a_list(x64):
    rng = np.random.default_rng(11)
    X, Y = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    ours = gram(Matern32([0.3, 1.0]), X, Y)
    np.testing.assert_allclose(ours, [matern(X, Y, b) for b in (0.3, 1.0)], rtol=1e-12)
    with pytest.raises(ValueError, match="Matern32: bandwidth must be a positive finite number"):
        Matern32([0.3, -1.0])


def test_a_bandwidth_for_each_input(x64):
    rng = np.random.default_rng(12)
    b = rng.uniform(0.3, 2, size=(2, 40))
    X, Y = rng.normal(size=(6, 40)), rng.normal(size=(4, 40))
    for D in (3, 40):
        ours = gram(Matern32(b[:, :D]), X[:, :D], Y[:, :D])
        wanted = [matern(X[:, :D] / w, Y[:, :D] / w, 1.0) for w in b[:, :D]]
        np.testing.assert_allclose(ours, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("bandwidth", "shape"), [([1.0, 2.0, 0.5], [0.5, 1.0, 3.0]), (1.5, [0.5, 1.0, 3.0])]
)
def test_a_second_stacked_parameter(bandwidth, shape, x64):
    """As many rows as kernels: a parameter (P,) goes with the kernels, not with the rows."""
    X = np.random.default_rng(13).normal(size=(3, 2))
    kernel = RationalQuadratic(bandwidth, shape)
    pairs = np.broadcast_arrays(np.atleast_1d(bandwidth), np.atleast_1d(shape))
    d = cdist(X, X, "sqeuclidean")
    wanted = [(1 + d / (2 * a * b**2)) ** -a for b, a in zip(*pairs, strict=True)]
    assert kernel.num_kernels == len(wanted)
    np.testing.assert_allclose(gram(kernel, X, X), wanted, rtol=1e-12)
    index = jnp.asarray([0, 0, len(wanted) - 1])
    columns = kernel.column_codes(jaxmkl.kernels.pairwise_products(X, X), index)
    np.testing.assert_allclose(columns, np.array(wanted)[index, :, np.arange(3)].T, rtol=1e-12)


def test_parameters_that_do_not_go_together_are_named():
    with pytest.raises(ValueError, match=r"shape must be a number or one for each of the 3"):
        RationalQuadratic([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"shape must be a number or one for each of the 2"):
        RationalQuadratic(1.0, np.ones((2, 2)))


def test_a_kernel_that_lacks_its_method_says_which():
    @pytree.dataclass
    class Nothing(DotProduct):
        pass

    with pytest.raises(NotImplementedError, match="Nothing must define the method profile"):
        Nothing().gram(np.ones((2, 2)))


# --- operators -----------------------------------------------------------------------------------


def test_products_of_exponentials_keep_their_exponents():
    far = np.full((1, 1), 30.0, np.float32)
    products = jaxmkl.kernels.pairwise_products(jnp.asarray(far), jnp.zeros((1, 1)))
    k = jaxmkl.Gaussian([1.0, 2.0])
    square = 2.0 * (k * k)
    assert square.exponential == (True, True)
    wanted = 2 * k.codes(products) - np.log(2)
    np.testing.assert_allclose(square.codes(products), wanted, rtol=1e-6)
    both = jaxmkl.KernelDictionary((k, jaxmkl.Linear()))
    assert [one.num_kernels for one in (both * both).families] == [2, 1]
    assert (both * both).exponential == (True, True, False)


def test_bad_combinations_are_named():
    two, three = jaxmkl.Gaussian([1.0, 2.0]), jaxmkl.Gaussian([1.0, 2.0, 3.0])
    for make, name in (
        (lambda: two + three, "Sum: kernels"),
        (lambda: two * three, "Product: kernels"),
        (lambda: -1.0 * two, "Multiple: factor"),
        (lambda: "2" * two, "Multiple: factor"),
        (lambda: np.ones(3) * two, "Multiple: factor"),
    ):
        with pytest.raises(ValueError, match=f"{name} must be"):
            make()
    with pytest.raises(TypeError, match="unsupported operand"):
        two + 1.0


@pytest.mark.slow
def test_features_of_a_bandwidth_for_each_input(x64):
    features = jaxmkl.features.FourierFeatures(1000, scale="mean")
    kernels = jaxmkl.KernelDictionary((jaxmkl.Gaussian([[0.5, 2.0]]), jaxmkl.Laplacian(1.5)))
    X = np.random.default_rng(15).normal(size=(5, 2))
    frequencies = features.init(jax.random.key(0), kernels, 2)
    z = np.asarray(jax.jit(features)(kernels, frequencies, jnp.asarray(X)))
    np.testing.assert_allclose(np.einsum("npf,mpf->pnm", z, z), gram(kernels, X, X), atol=0.12)
    with pytest.raises(ValueError, match=r"of a known spectrum.*spectral_scale.*got 'Matern32'"):
        jaxmkl.raker(Matern32(1.0) * jaxmkl.Gaussian(1.0))


# --- dtypes --------------------------------------------------------------------------------------


DTYPES = [np.int8, np.uint8, np.int32, bool, np.float16, jnp.bfloat16]
LIBRARIES = [np.asarray, jnp.asarray]
FEW = [*itertools.product(KERNELS, [np.asarray], [np.int8, jnp.bfloat16])]


@pytest.mark.parametrize(
    ("name", "library", "dtype"), quick(FEW, itertools.product(KERNELS, LIBRARIES, DTYPES))
)
def test_numbers_of_any_dtype_have_the_kernels_of_floats(name, library, dtype):
    """No bandwidth is truncated to a whole number, and no square overflows."""
    kernels, reference = KERNELS[name]
    X = library(np.random.default_rng(0).integers(0, 100, (5, 3)).astype(dtype))
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    unit = 30 if name in SHIFT_INVARIANT else 1
    wide = {"bandwidth": unit * BANDWIDTHS} if unit > 1 else {}
    ours, Z = dataclasses.replace(kernels(), **wide), np.asarray(X, np.float64) / unit
    wanted = np.asarray(reference(Z, Z))
    found = ours.gram(X)
    rtol = 0.05 if dtype is jnp.bfloat16 else 1e-5
    assert found.dtype == (dtype if dtype is jnp.bfloat16 else np.float32)
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=rtol, atol=1e-6)
    np.testing.assert_array_equal(ours.gram(X, X), found)
    aligned = jaxmkl.kernels.kernel_alignment(ours, X, y)
    wanted = np.einsum("pij,i,j->p", wanted, y, y) / (5 * np.sqrt(np.sum(wanted**2, axis=(1, 2))))
    np.testing.assert_allclose(np.asarray(aligned, np.float64), wanted, rtol=rtol, atol=rtol)


def test_whole_numbers_of_jax_are_read_in_double_precision(x64):
    X = np.arange(6).reshape(3, 2)
    found = jaxmkl.Gaussian(1.3).gram(jnp.asarray(X))[0]
    np.testing.assert_allclose(found, rbf_kernel(X, gamma=1 / (2 * 1.3**2)), rtol=1e-12)


# --- sums and alignment --------------------------------------------------------------------------


def test_alignment_agrees_with_the_formula(x64):
    rng, n = np.random.default_rng(0), 300
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    wanted = [np.sum(K * np.outer(y, y)) / (n * np.sqrt(np.sum(K**2))) for K in reference(X, X)]
    ours = jaxmkl.kernels.kernel_alignment(everything(), X, y)
    np.testing.assert_allclose(ours, wanted, rtol=1e-9, atol=1e-12)
    # labels of integers, and inputs in single precision
    again = jaxmkl.kernels.kernel_alignment(everything(), X.astype(np.float32), y.astype(int))
    assert again.dtype == np.float32
    np.testing.assert_allclose(again, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("X", "y"), [((4, 2), (3,)), ((4,), (4,)), ((4, 2), (4, 1)), ((0, 2), (0,))]
)
def test_alignment_names_shapes_that_do_not_fit(X, y):
    with pytest.raises(ValueError, match=r"kernel_alignment: X must have shape \(n, D\) and y"):
        jaxmkl.kernels.kernel_alignment(jaxmkl.Gaussian(1.0), np.ones(X), np.ones(y))


@pytest.mark.parametrize(
    ("kernels", "weights", "wanted"),
    [
        ("Gaussian", (1.0,), "kernels"),
        (jaxmkl.Gaussian((1.0, 2.0)), (0.5,), "weights"),
        (jaxmkl.Gaussian((1.0, 2.0)), (0.5, -0.1), "weights"),
        (jaxmkl.Gaussian((1.0, 2.0)), (0.5, np.nan), "weights"),
        (jaxmkl.Gaussian((1.0, 2.0)), 0.5, "weights"),
        (jaxmkl.Gaussian((1.0, 2.0)), ((0.5, 0.5),), "weights"),
    ],
)
def test_bad_sums_are_named(kernels, weights, wanted):
    with pytest.raises(ValueError, match=f"WeightedSum: {wanted} must be .*; got "):
        jaxmkl.kernels.WeightedSum(kernels, weights)


@pytest.mark.slow
@pytest.mark.parametrize("family", [jaxmkl.Gaussian, jaxmkl.Laplacian, jaxmkl.Cauchy])
@pytest.mark.parametrize("bandwidth", [1e-38, 1e-20, 1e-18])
def test_bandwidths_whose_square_underflows_tell_equal_points_from_others(family, bandwidth):
    X = jnp.array([[1.0, -20.0], [1.0, -20.0], [30.0, 4.0]])
    same = [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    for kernel in (family(bandwidth), family([[bandwidth, 1.0]]), family([bandwidth, 1e-10])):
        grams = kernel.gram(X, X)
        assert_allclose(grams, np.broadcast_to(same, grams.shape), atol=1e-6)
        slope = jax.grad(lambda kernel: jnp.sum(kernel.gram(X, X)))(kernel)
        assert np.isfinite(slope.bandwidth).all()
        fourier = jaxmkl.features.FourierFeatures(4)
        drawn = fourier.init(jax.random.key(0), kernel, 2, np.float32)
        assert np.isfinite(fourier(kernel, drawn, X)).all()


def test_gram_says_which_shape_is_wanted():
    X, kernel = np.ones((3, 2)), jaxmkl.Gaussian([0.5, 1.0])
    for rows, said in (
        ((X[0],), r"Gaussian: the shape of X must be \(n, D\), n rows of D inputs; got \(2,\)"),
        ((2.0,), r"shape of X must be \(n, D\), n rows of D inputs; got \(\)"),
        ((X, X[0]), r"the shape of Y must be \(m, 2\), as X has \(3, 2\); got \(2,\)"),
        ((X, X[:, :1]), r"the shape of Y must be \(m, 2\), as X has \(3, 2\); got \(3, 1\)"),
    ):
        with pytest.raises(ValueError, match=said):
            kernel.gram(*rows)
