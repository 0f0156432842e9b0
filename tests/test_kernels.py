"""Kernel matrices against SciPy and scikit-learn in float64, and what a kernel matrix must be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import support_mkl as oracle
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel

import jaxmkl

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


def everything():
    return jaxmkl.KernelDictionary(tuple(make() for make, _ in KERNELS.values()))


def reference(X, Y):
    return np.stack([matrix for _, of in KERNELS.values() for matrix in of(X, Y)])


@jax.jit
def gram(dictionary, X, Y):
    return dictionary.gram(X, Y)


@given(
    n=st.sampled_from([1, 4, 7]),
    m=st.sampled_from([1, 5]),
    d=st.sampled_from([1, 3, 10]),
    seed=st.integers(0, 2**31 - 1),
    shift=st.sampled_from([0.0, 2.0, -30.0]),
)
def test_dictionary_agrees_with_the_usual_formulas(n, m, d, seed, shift):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, d)) + shift, rng.normal(size=(m, d)) + shift
    with jax.enable_x64(True):
        ours = np.asarray(gram(everything(), X, Y))
    assert ours.shape == (12, n, m)
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, reference(X, Y), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", KERNELS)
def test_one_kernel_in_a_dictionary(name, x64):
    make, of = KERNELS[name]
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    ours = np.asarray(jaxmkl.KernelDictionary((make(),)).gram(X, Y))
    np.testing.assert_allclose(ours, np.stack(of(X, Y)), rtol=1e-12, atol=1e-13)


def test_laplacian_is_isotropic():
    """The distance is Euclidean: not scikit-learn's kernel, which is of the 1-norm."""
    X = np.array([[0.0, 0.0], [3.0, 4.0]], np.float32)
    ours = np.asarray(jaxmkl.KernelDictionary((jaxmkl.Laplacian(2.0),)).gram(X, X))
    np.testing.assert_allclose(ours[0, 0, 1], np.exp(-5 / 2), rtol=1e-6)
    assert abs(ours[0, 0, 1] - laplacian_kernel(X, gamma=0.5)[0, 1]) > 0.01


@pytest.mark.parametrize("stretch", [1e-3, 1.0, 100.0])
def test_matrices_are_symmetric_and_positive_semidefinite(stretch, x64):
    X = stretch * np.random.default_rng(2).normal(size=(30, 4))
    X = np.concatenate([X, X[:3], X[:3] + 1e-9 * stretch])  # with repeated and near points
    for matrix in np.asarray(everything().gram(X, X)):
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
    np.testing.assert_allclose(ours, exact, atol=1e-3)


@pytest.mark.parametrize("name", SHIFT_INVARIANT)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_are_finite_where_points_coincide(name, dtype):
    with jax.enable_x64(dtype is np.float64):
        X = jnp.asarray(np.random.default_rng(4).normal(size=(5, 3)), dtype)

        def total(kernel, X, Y):
            return jaxmkl.KernelDictionary((kernel,)).gram(X, Y).sum()

        gradients = jax.grad(total, argnums=(0, 1, 2))(KERNELS[name][0](), X, X)
    for leaf in jax.tree.leaves(gradients):
        assert np.isfinite(np.asarray(leaf)).all()


@pytest.mark.parametrize("name", SHIFT_INVARIANT)
def test_gradients_agree_with_differences(name, x64):
    family = getattr(jaxmkl, name)
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    weight = rng.normal(size=(3, 5, 4))

    def total(bandwidth):
        return (weight * jaxmkl.KernelDictionary((family(bandwidth),)).gram(X, Y)).sum()

    gradient = np.asarray(jax.grad(total)(jnp.asarray(BANDWIDTHS)))
    h = 1e-6
    for i in range(3):
        step = h * np.eye(3)[i]
        difference = (total(BANDWIDTHS + step) - total(BANDWIDTHS - step)) / (2 * h)
        np.testing.assert_allclose(gradient[i], difference, rtol=1e-6, atol=1e-8)


def test_another_bandwidth_is_not_another_trace():
    traces = 0

    @jax.jit
    def counted(dictionary, X):
        nonlocal traces
        traces += 1
        return dictionary.gram(X, X)

    X = np.ones((3, 2), np.float32)
    for b in (0.5, 1.0, 2.0):
        counted(jaxmkl.KernelDictionary((jaxmkl.Gaussian(b), jaxmkl.Laplacian([b, 2 * b]))), X)
    assert traces == 1


@pytest.mark.parametrize("family", [jaxmkl.Gaussian, jaxmkl.Laplacian, jaxmkl.Cauchy])
@pytest.mark.parametrize("bandwidth", [0.0, -1.0, np.nan, np.inf, [1.0, -2.0], "wide", []])
def test_bad_bandwidths_are_named(family, bandwidth):
    with pytest.raises(ValueError, match="bandwidth"):
        family(bandwidth)


@pytest.mark.parametrize("degree", [0, -1, 1.5, np.nan])
def test_bad_degrees_are_named(degree):
    with pytest.raises(ValueError, match="degree"):
        jaxmkl.Polynomial(degree)


@pytest.mark.parametrize("offset", [-0.5, np.nan, np.inf])
def test_bad_offsets_are_named(offset):
    with pytest.raises(ValueError, match="offset"):
        jaxmkl.Polynomial(2, offset=offset)


@pytest.mark.parametrize("kernels", [(), ("Gaussian",), (1.0,)])
def test_bad_dictionaries_are_named(kernels):
    with pytest.raises(ValueError, match="kernels"):
        jaxmkl.KernelDictionary(kernels)


# --- products ------------------------------------------------------------------------------------

WIDE = 40  # inputs: more than are always subtracted


@jax.jit
def squared_distances(X, Y):
    return jaxmkl.kernels.pairwise_products(X, Y).squared_distance


@given(seed=st.integers(0, 2**31 - 1), norm=st.sampled_from([1.0, 300.0, 1e5]))
def test_near_duplicates_of_many_inputs_keep_their_distance(seed, norm):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6, WIDE))
    X *= norm / np.linalg.norm(X, axis=1, keepdims=True)
    Y = X[::-1] + 1e-4 * norm * rng.normal(size=(6, WIDE))
    X, Y = X.astype(np.float32), Y.astype(np.float32)
    ours = np.asarray(squared_distances(X, Y))
    assert ours.dtype == np.float32
    exact = cdist(X.astype(np.float64), Y.astype(np.float64), "sqeuclidean")
    assert np.diagonal(exact[::-1]).max() < 1e-5 * norm**2
    np.testing.assert_allclose(ours, exact, rtol=1e-5)


@given(seed=st.integers(0, 2**31 - 1), largest=st.sampled_from([1, 30, 200]))
def test_distances_of_whole_numbers_are_exact(seed, largest):
    rng = np.random.default_rng(seed)
    X = rng.integers(-largest, largest + 1, size=(7, WIDE)).astype(np.float32)
    Y = np.concatenate([X[:3], X[3:5] + rng.integers(0, 2, size=(2, WIDE))]).astype(np.float32)
    exact = cdist(X.astype(np.float64), Y.astype(np.float64), "sqeuclidean")
    np.testing.assert_array_equal(squared_distances(X, Y), exact)


def test_distances_of_mapped_runs_are_those_of_each_alone():
    """Near duplicates, whole numbers and neither: only the first need differences."""
    rng = np.random.default_rng(9)
    far = rng.normal(size=(3, 5, WIDE)).astype(np.float32)
    far[0] *= 1e3
    X, Y = far.copy(), far[:, ::-1] + rng.normal(size=far.shape).astype(np.float32)
    X[1], Y[1] = np.round(3 * X[1]), np.round(3 * Y[1])
    together = np.asarray(jax.vmap(squared_distances)(X, Y))
    for i in range(3):
        exact = cdist(X[i].astype(np.float64), Y[i].astype(np.float64), "sqeuclidean")
        np.testing.assert_allclose(together[i], exact, rtol=1e-5)
        np.testing.assert_allclose(together[i], squared_distances(X[i], Y[i]), rtol=1e-5)


@pytest.mark.parametrize("num_inputs", [3, WIDE])
@pytest.mark.parametrize("near", [False, True])
def test_gradients_of_distances_are_those_of_the_plain_form(num_inputs, near, x64):
    rng = np.random.default_rng(6)
    X = jnp.asarray(rng.normal(size=(5, num_inputs)))
    Y = jnp.asarray(rng.normal(size=(4, num_inputs)))
    Y = X[:4] + 1e-3 * Y if near else Y
    weight = rng.normal(size=(5, 4))

    def ours(X, Y):
        return jnp.sum(weight * squared_distances(X, Y) ** 2)

    def plain(X, Y):
        return jnp.sum(weight * jnp.sum((X[:, None, :] - Y[None, :, :]) ** 2, axis=2) ** 2)

    gradients = jax.grad(ours, argnums=(0, 1))(X, Y)
    for one, other in zip(gradients, jax.grad(plain, argnums=(0, 1))(X, Y), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [*KERNELS, "all"])
def test_codes_by_column_are_picked_from_all_codes(name, x64):
    kernel = everything() if name == "all" else KERNELS[name][0]()
    P = kernel.num_kernels
    rng = np.random.default_rng(7)
    index = rng.permutation(np.concatenate([np.arange(P), rng.integers(0, P, size=5)]))
    X, Y = rng.normal(size=(4, 3)), rng.normal(size=(P + 5, 3))
    products = jaxmkl.kernels.pairwise_products(X, Y)
    codes = np.asarray(kernel.codes(products))
    assert codes.shape == (P, 4, P + 5)
    picked = np.asarray(kernel.column_codes(products, jnp.asarray(index)))
    np.testing.assert_allclose(picked, codes[index, :, np.arange(P + 5)].T, rtol=1e-14)
    # codes are exponents or values
    values = np.exp(-codes) if all(kernel.exponential) else codes
    if name != "all":
        np.testing.assert_allclose(kernel.gram(X, Y), values, rtol=1e-12)
    assert len(kernel.exponential) == P


# --- sums and alignment --------------------------------------------------------------------------


def test_a_weighted_sum_is_the_sum_of_its_kernels(x64):
    rng = np.random.default_rng(8)
    X, Y = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    weights = rng.random(12)
    weights[5] = 0
    one = jaxmkl.WeightedSum(everything(), weights)
    assert one.num_kernels == 1
    wanted = np.einsum("p,pnm->nm", weights, reference(X, Y))
    np.testing.assert_allclose(one.gram(X, Y), wanted[None], rtol=1e-10, atol=1e-11)
    products = jaxmkl.kernels.pairwise_products(X, Y)
    column = one.column_codes(products, jnp.zeros(4, jnp.int32))
    np.testing.assert_allclose(column, wanted, rtol=1e-10, atol=1e-11)
    # in a dictionary beside another
    both = jaxmkl.KernelDictionary((jaxmkl.Gaussian(0.5), one))
    np.testing.assert_allclose(both.gram(X, Y)[1], wanted, rtol=1e-10, atol=1e-11)


def test_a_learner_with_a_weighted_sum_agrees_with_the_oracle(x64):
    """A perceptron of w1 k1 + w2 k2 beside one of k1."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(150, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=150) > 0, 1.0, -1.0)
    parts = [oracle.gaussian(0.5), oracle.gaussian(2.0)]

    def mixture(rows, x):
        return 0.3 * parts[0](rows, x) + 0.7 * parts[1](rows, x)

    plain = oracle.SupportMKL([mixture, parts[0]])
    zero = np.zeros(2)
    wanted = [plain.step(x, label, zero, zero) for x, label in zip(X, y, strict=True)]
    kernel = jaxmkl.WeightedSum(jaxmkl.Gaussian((0.5, 2.0)), (0.3, 0.7))
    learner = jaxmkl.omkc_dd(jaxmkl.KernelDictionary((kernel, jaxmkl.Gaussian(0.5))))
    state = learner.init(jax.random.key(0), 3)
    state, outputs = jaxmkl.run(learner, state, X, y)
    np.testing.assert_allclose(outputs.prediction, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(state.support.number, plain.support)


@pytest.mark.parametrize("n", [1, 5, 128, 300])
def test_alignment_agrees_with_the_formula(n, x64):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    wanted = [np.sum(K * np.outer(y, y)) / (n * np.sqrt(np.sum(K**2))) for K in reference(X, X)]
    ours = jaxmkl.kernel_alignment(everything(), X, y)
    np.testing.assert_allclose(ours, wanted, rtol=1e-9, atol=1e-12)
    # labels of integers, and inputs in single precision
    again = jaxmkl.kernel_alignment(everything(), X.astype(np.float32), y.astype(int))
    assert again.dtype == np.float32
    np.testing.assert_allclose(again, wanted, rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize(("X", "y"), [((4, 2), (3,)), ((4,), (4,)), ((4, 2), (4, 1))])
def test_alignment_names_shapes_that_do_not_fit(X, y):
    with pytest.raises(ValueError, match=r"kernel_alignment: X must have shape \(n, D\) and y"):
        jaxmkl.kernel_alignment(jaxmkl.Gaussian(1.0), np.ones(X), np.ones(y))


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
        jaxmkl.WeightedSum(kernels, weights)
