"""Kernels in sums, products, multiples, dictionaries, on columns and in models.

Every kernel of the library is tested, and two as a user would write them: one that is periodic,
one on some columns.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

import jaxmkl
from jaxmkl import features, kernels, models, pytree, updates
from jaxmkl._blocks import take
from jaxmkl.models import supports

SMALL_PROGRAMS = True


@pytree.dataclass
class Periodic(kernels.Kernel):
    period: float = pytree.positive(default=1.0)
    num_kernels = 1
    exponential = (True,)

    def codes(self, products):
        turns = (products.X[:, None, :] - products.Y[None, :, :]) / self.period
        return 2 * jnp.sum(jnp.sin(jnp.pi * turns) ** 2, axis=2)[None]


@pytree.dataclass
class FirstColumns(kernels.Kernel):
    """A kernel on the first columns, as one writes it who does not know of ``on``."""

    kernel: Any = pytree.part(kernels.Kernel, "a kernel")
    number: int = pytree.count()

    @property
    def num_kernels(self):
        return self.kernel.num_kernels

    def codes(self, products):
        X, Y = products.X[:, : self.number], products.Y[:, : self.number]
        return self.kernel.gram(X, Y)


def gaussian(b):
    return lambda X, Y: np.exp(-cdist(X, Y, "sqeuclidean") / (2 * b**2))


def periodic(period):
    def gram(X, Y):
        return np.exp(-2 * (np.sin(np.pi * (X[:, None] - Y[None]) / period) ** 2).sum(axis=2))

    return gram


def of_columns(gram, columns):
    return lambda X, Y: gram(X[:, columns], Y[:, columns])


WIDTHS = np.array([0.5, 1.0, 2.0])
# one kernel of each family, and its Gram matrix in NumPy
KERNELS = {
    "Gaussian": (jaxmkl.Gaussian(0.8), gaussian(0.8)),
    "Gaussian of widths": (
        jaxmkl.Gaussian(WIDTHS[None]),
        lambda X, Y: gaussian(1.0)(X / WIDTHS, Y / WIDTHS),
    ),
    "Laplacian": (jaxmkl.Laplacian(1.5), lambda X, Y: np.exp(-cdist(X, Y) / 1.5)),
    "Cauchy": (jaxmkl.Cauchy(0.7), lambda X, Y: 1 / (1 + cdist(X, Y, "sqeuclidean") / 0.7**2)),
    "Polynomial": (jaxmkl.Polynomial(2, 0.5), lambda X, Y: (X @ Y.T + 0.5) ** 2),
    "Linear": (jaxmkl.Linear(), lambda X, Y: X @ Y.T),
    "WeightedSum": (
        kernels.WeightedSum(jaxmkl.Gaussian([0.5, 2.0]), (0.3, 0.7)),
        lambda X, Y: 0.3 * gaussian(0.5)(X, Y) + 0.7 * gaussian(2.0)(X, Y),
    ),
    "OnColumns": (
        jaxmkl.Laplacian(0.9).on([2, 0]),
        lambda X, Y: np.exp(-cdist(X[:, ::2], Y[:, ::2]) / 0.9),
    ),
    "periodic": (Periodic(1.5), periodic(1.5)),
    "first columns": (FirstColumns(jaxmkl.Gaussian(0.6), 2), of_columns(gaussian(0.6), [0, 1])),
}
ALL = jaxmkl.KernelDictionary(tuple(kernel for kernel, _ in KERNELS.values()))


def grams_of_all(X, Y):
    return np.stack([gram(X, Y) for _, gram in KERNELS.values()])


@pytest.mark.slow
def test_kernels_are_in_company_what_they_are_alone(x64):
    """Gram matrices, single columns and the diagonal, of all kernels by one program."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    one, wide = gaussian(1.3), [2, 0, 1]

    def wanted(X, Y):
        K, G = grams_of_all(X, Y), one(X, Y)
        on_columns = grams_of_all(X[:, wide], Y[:, wide])
        return K + G, K * G, 2.5 * K, np.concatenate([[G], K]), on_columns

    other = jaxmkl.Gaussian(1.3)
    company = (
        ALL + other,
        other * ALL,
        2.5 * ALL,
        jaxmkl.KernelDictionary((other, ALL)),
        ALL.on(wide),
    )
    index = [np.arange(4) * 3 % kernel.num_kernels for kernel in company]

    def asked(kernel, index):
        products = kernels.pairwise_products(X, Y)
        marks = kernel.exponential
        of_columns = kernel.column_codes(products, index)
        return (
            kernel.gram(X, Y),
            kernels.scaled.plain(of_columns, jnp.asarray(marks)[index][None]),
            kernels.scaled.plain(kernel.diagonal_codes(X), marks),
        )

    each = jax.jit(lambda company: [asked(*pair) for pair in zip(company, index, strict=True)])
    grams, squares = wanted(X, Y), wanted(X, X)
    for made, gram, square, which in zip(each(company), grams, squares, index, strict=True):
        found, columns, diagonal = made
        np.testing.assert_allclose(found, gram, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(columns, gram[which, :, np.arange(4)].T, rtol=1e-10, atol=1e-12)
        own = np.diagonal(square, axis1=1, axis2=2)
        np.testing.assert_allclose(diagonal, own, rtol=1e-10, atol=1e-12)


# --- models --------------------------------------------------------------------------------------

NUM_POINTS = 24
# one of every kind, and their Gram matrices
P, G = Periodic(1.5), jaxmkl.Gaussian(0.8).on([0, 2])
OWN = jaxmkl.KernelDictionary((P * G, 2.0 * P + FirstColumns(jaxmkl.Linear(), 2)))


def grams_of_own(X):
    k, g = periodic(1.5)(X, X), gaussian(0.8)(X[:, ::2], X[:, ::2])
    return np.stack([k * g, 2 * k + X[:, :2] @ X[:, :2].T])


def stream():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(NUM_POINTS, 3))
    return X, np.where(np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=NUM_POINTS) > 0, 1.0, -1.0)


@jax.jit
def values_of(learner, state, X, y):
    """Values of the models before each label."""

    def round(state, example):
        code = take(learner.encode(state, example[0][None]), 0)
        return learner.step(state, example)[0], learner.predict_code(state, code)[1][0].values

    return jax.lax.scan(round, state, (X, y))[1]


@pytest.mark.endless
def test_stores_and_sampled_dictionaries_take_kernels_of_ones_own(x64):
    """Perceptrons with supports and on points, as many as there are, are those by Gram matrices.

    They ask for values in all ways: of all kernels, of one a column, among supports.
    """
    one, (X, y) = updates.Perceptron(), stream()
    stores = [
        supports.DenseSupport(32, tile=8, period=8),
        supports.SparseSupport(32, tile=8, period=8),
        supports.BudgetSupport(NUM_POINTS, supports.SelfTuned(), period=8),
        supports.BudgetSupport(NUM_POINTS, supports.Project(1e-6), period=8),
    ]
    banks = [models.SupportModels(OWN, one, store) for store in stores]
    everything = features.SampledDictionary(NUM_POINTS, density=1e9)
    learner = jaxmkl.MKL((*banks, models.FeatureModels(OWN.kernels[0], one, everything)))
    state = learner.init(jax.random.key(0), 3)
    coefficients, wanted = np.zeros((2, NUM_POINTS)), []
    grams = grams_of_own(X)
    for t in range(NUM_POINTS):
        f = np.sum(coefficients * grams[:, :, t], axis=1)
        coefficients[:, t] = np.where(y[t] * f <= 0, y[t], 0)
        wanted.append([*f, *f, *f, *f, f[0]])
    assert 3 < (coefficients != 0).sum(axis=1).min() < NUM_POINTS
    values = values_of(learner, state, X, y)
    np.testing.assert_allclose(values, wanted, rtol=1e-6, atol=1e-6)


# --- columns -------------------------------------------------------------------------------------


def test_a_kernel_on_columns_is_a_value(tmp_path, x64):
    kernel = jaxmkl.Gaussian([[0.5, 2.0], [1.0, 1.0]]).on(np.array([2, 0]))
    assert repr(jaxmkl.Gaussian(1.0).on([2, 0])) == (
        "OnColumns(kernel=Gaussian(bandwidth=1.0), columns=(2, 0))"
    )
    bank = models.FeatureModels(kernel * jaxmkl.Laplacian(1.0).on(1), updates.OGD(0.1))
    learner = jaxmkl.MKL(bank)
    state = learner.init(jax.random.key(0), 3)
    jaxmkl.save(tmp_path / "model.npz", learner, state)
    loaded = jaxmkl.load(tmp_path / "model.npz")
    assert repr(loaded[0]) == repr(learner)
    value = jax.jit(lambda learner, state: learner.predict(state, jnp.arange(3.0)).value)
    np.testing.assert_array_equal(value(*loaded), value(learner, state))


@pytest.mark.parametrize("columns", [[], [0, 0], [-1], 1.5, [[0, 1]], [True, False]])
def test_bad_columns_are_named(columns):
    with pytest.raises(ValueError, match="OnColumns: columns must be a column index"):
        jaxmkl.Gaussian(1.0).on(columns)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (jaxmkl.Gaussian([[1.0, 2.0]]), r"Gaussian: the shape of bandwidth must be \(P, 3\)"),
        (jaxmkl.Gaussian([[1.0]]), r"Gaussian: the shape of bandwidth must be \(P, 3\)"),
        (jaxmkl.Gaussian(1.0).on([0, 3]), "OnColumns: columns must be below 3"),
        (
            2.0 * (jaxmkl.Linear() + jaxmkl.Cauchy([[1.0, 2.0, 3.0]]).on([0, 1])),
            r"Cauchy: the shape of bandwidth must be \(P, 2\)",
        ),
    ],
)
def test_kernels_of_other_inputs_are_refused(kernel, message):
    """Where a state is made, in wrappers too, and where values are."""
    banks = [models.SupportModels(kernel)]
    banks += [] if kernel.without_spectrum else [models.FeatureModels(kernel, updates.OGD(0.1))]
    for learner in map(jaxmkl.MKL, banks):
        with pytest.raises(ValueError, match=message):
            learner.init(jax.random.key(0), 3)
    with_tasks = jaxmkl.label_budget(jaxmkl.multitask(2, kernel=kernel), 5)
    with pytest.raises(ValueError, match=message):
        with_tasks.init(jax.random.key(0), 4)  # the column of the task, and three inputs
    with pytest.raises(ValueError, match=message):
        kernel.gram(np.ones((2, 3)))


def test_features_of_a_kernel_on_columns(x64):
    """Features of the kernel on these columns alone, with the same frequencies, 0 elsewhere."""
    kernel = jaxmkl.KernelDictionary((jaxmkl.Gaussian([0.5, 1.0]), jaxmkl.Laplacian(2.0)))
    fourier, columns = features.FourierFeatures(6, scale="mean"), np.array([3, 1])
    X = np.random.default_rng(2).normal(size=(5, 4))

    @jax.jit
    def both(kernel, X):
        on = kernel.on(columns)
        drawn = fourier.init(jax.random.key(0), on, 4)
        alone = fourier(kernel, drawn[:, :, columns], X[:, columns])
        return on.frequencies(drawn), fourier(on, drawn, X), alone

    frequencies, ours, alone = both(kernel, X)
    assert frequencies.shape == (3, 6, 4)
    assert (frequencies[:, :, [0, 2]] == 0).all()
    np.testing.assert_allclose(ours, alone, rtol=1e-12, atol=1e-14)


@pytest.mark.endless
def test_features_of_products_are_unbiased(x64):
    """Means over many draws, within 6 of their standard errors of the kernel."""
    b = np.array([0.6, 1.7])
    on_columns = jaxmkl.Laplacian([[0.7, 2.0]]).on([2, 0]) * jaxmkl.Cauchy(b).on(1)
    two = jaxmkl.Gaussian(b) * jaxmkl.Laplacian(1.5)
    kernel = jaxmkl.KernelDictionary((two, on_columns * jaxmkl.Gaussian(2.0)))
    fourier = features.FourierFeatures(4, orthogonal=True, scale="mean")
    X = np.random.default_rng(3).normal(size=(5, 3))
    exact = np.asarray(kernel.gram(X))
    laplacian = np.exp(-cdist(X, X) / 1.5)
    np.testing.assert_allclose(exact[:2], [gaussian(w)(X, X) * laplacian for w in b], rtol=1e-9)

    @jax.jit
    @jax.vmap
    def products(key):
        z = fourier(kernel, fourier.init(key, kernel, 3), jnp.asarray(X))
        return jnp.einsum("npf,mpf->pnm", z, z)

    drawn = np.asarray(products(jax.random.split(jax.random.key(4), 4000)))
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    # 80 numbers off the diagonals at 6 standard errors: false alarms below 1e-6
    assert (np.abs(drawn.mean(axis=0) - exact) <= 6 * error + 1e-12).all()
    # and sharp enough: the parts alone are further away
    assert error.max() < 0.012
    assert np.abs(exact[:2] - laplacian).max() > 0.1


@pytest.mark.endless
def test_bandwidths_of_parts_have_derivatives(x64):
    """Derivatives of the loss of a run, and of Gram matrices, against differences."""
    X, y = stream()

    def kernel(b):
        return jaxmkl.Gaussian(b[0]).on([0, 2]) * jaxmkl.Laplacian(b[1:][None]).on([1, 0])

    @jax.jit
    @jax.value_and_grad
    def loss(b):
        bank = models.FeatureModels(kernel(b), updates.OGD(0.1), features.FourierFeatures(4))
        learner = jaxmkl.MKL(bank)
        state = learner.init(jax.random.key(0), 3)
        of_run = jax.lax.scan(learner.step, state, (X, y))[1].loss.sum()
        return of_run + jnp.sum(jnp.outer(y, y) * kernel(b).gram(X)[0])

    b, h = jnp.array([0.7, 1.2, 2.0]), 1e-6
    slope = loss(b)[1]
    for i, step in enumerate(h * np.eye(3)):
        difference = (loss(b + step)[0] - loss(b - step)[0]) / (2 * h)
        np.testing.assert_allclose(slope[i], difference, rtol=1e-5)
        assert abs(slope[i]) > 1e-4


def test_lists_of_kernels_are_told_of_dictionaries():
    several = [jaxmkl.Gaussian(1.0), jaxmkl.Laplacian(1.0)]
    for make in (
        jaxmkl.raker,
        jaxmkl.spa,
        lambda kernels_: kernels.WeightedSum(kernels_, (0.5, 0.5)),
        lambda kernels_: kernels.kernel_alignment(kernels_, np.ones((3, 1)), np.ones(3)),
    ):
        with pytest.raises(ValueError, match=r"several in one jaxmkl.KernelDictionary; got \["):
            make(several)
