"""The contract of kernels, checked on a few points."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmkl._blocks import take
from jaxmkl.features import FourierFeatures, SampledDictionary
from jaxmkl.kernels import Gaussian, Kernel, KernelDictionary, pairwise_products
from jaxmkl.kernels.scaled import plain
from jaxmkl.mkl import MKL, MKLState
from jaxmkl.models import DenseSupport, FeatureModels, SupportModels
from jaxmkl.models.supports.tiles import column_values
from jaxmkl.testing._trees import Check, is_frozen
from jaxmkl.updates import Perceptron

NUM_FEATURES = 20_000


def check_kernel(kernel: Kernel, *, num_inputs: int = 3, tolerance: float = 1e-9) -> None:
    """Raise unless a kernel keeps the contract that ``help(jaxmkl.kernels.Kernel)`` states.

    It is a frozen pytree; its Gram matrices are symmetric, positive semidefinite and agree with
    ``diagonal_codes``; stacked kernels equal the single ones, also if there are as many as points;
    derivatives are finite where points coincide; in a sum, a product, a multiple, a dictionary
    and on some columns it has the same values as alone; learners with supports agree with its
    Gram matrix, and so do learners on a sampled dictionary if it is one kernel, and Fourier
    features if its spectrum is known. All checks are in double precision.

    Args:
      kernel: one kernel or a stack of kernels.
      num_inputs: the number of inputs D, for kernels with parameters for each input.
      tolerance: absolute and relative tolerance of values that are equal up to rounding.

    Raises:
      AssertionError: if the contract is broken, with the first violation.

    >>> import jaxmkl
    >>> check_kernel(jaxmkl.Cauchy([0.5, 2.0]) + jaxmkl.Polynomial(2, 1.0))
    """
    with jax.enable_x64(True):
        check = _KernelCheck(kernel, tolerance)
        X = np.random.default_rng(0).normal(size=(7, num_inputs))
        check.is_a_value()
        gram = check.has_gram_matrices(X)
        check.may_be_stacked(X)
        check.has_derivatives(X)
        check.has_features(X)
        check.has_learners(X, gram)


_gram = jax.jit(lambda kernel, X, Y=None: kernel.gram(X, Y))
_derivatives = jax.jit(jax.grad(lambda kernel, X: kernel.gram(X).sum(), argnums=(0, 1)))


def _asked(kernel: Kernel, X: jax.Array) -> dict[str, jax.Array]:
    """The kernel's values in each of the ways in which the library computes them."""
    index = jnp.arange(len(X)) % kernel.num_kernels
    return {
        "gram": kernel.gram(X),
        "diagonal": plain(kernel.diagonal_codes(X), kernel.exponential),
        "columns": column_values(kernel, X, X, index),
    }


@jax.jit
def _asked_of_each(pairs: dict[str, tuple]) -> dict[str, dict[str, jax.Array]]:
    """The values of :func:`_asked` for several kernels, each with its own points."""
    return {name: _asked(*pair) for name, pair in pairs.items()}


@jax.jit
def _values(learner: MKL, state: MKLState, X: jax.Array, y: jax.Array) -> jax.Array:
    """The values (T, E) of a learner's models before each label."""

    def round(state: MKLState, example: tuple) -> tuple:
        codes = learner.encode(state, example[0][None])
        code = take(codes, 0)
        values = learner.predict_code(state, code)[1][0].values
        return learner.close(learner.advance(state, code, example[1])[0], codes), values

    return jax.lax.scan(round, state, (X, y))[1]


def _values_of_perceptrons(gram: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The values (T, P) of kernel perceptrons before each label."""
    coefficients, values = np.zeros(gram.shape[:2]), []
    for t, label in enumerate(y):
        values.append(np.sum(coefficients * gram[:, :, t], axis=1))
        coefficients[:, t] = np.where(label * values[-1] <= 0, label, 0.0)
    return np.array(values)


@jax.jit
def _approximated(kernel: Kernel, X: jax.Array) -> jax.Array:
    """The Gram matrices by Fourier features."""
    features = FourierFeatures(NUM_FEATURES, scale="mean")
    frequencies = features.init(jax.random.key(0), kernel, X.shape[1], X.dtype)
    z = jnp.swapaxes(features(kernel, frequencies, X), 0, 1)
    return z @ jnp.swapaxes(z, 1, 2)


class _KernelCheck(Check):
    """The parts of the contract, one method each."""

    def close(self, one: ArrayLike, other: ArrayLike, text: str) -> None:
        """Raise with this sentence unless two arrays are equal up to rounding."""
        self.equal(one, other, text, self.tolerance)

    def is_a_value(self) -> None:
        """The kernel is a frozen pytree, and an instance of ``Kernel``."""
        kernel = self.subject
        self.require(
            isinstance(kernel, Kernel), "a kernel must be an instance of jaxmkl.kernels.Kernel"
        )
        opaque = any(isinstance(leaf, Kernel) for leaf in jax.tree.leaves(kernel))
        text = "a kernel must be a pytree: decorate its class with jaxmkl.pytree.dataclass"
        self.require(not opaque, text)
        self.require(is_frozen(kernel), "a kernel must be frozen, as jaxmkl.pytree.dataclass does")
        P = self.attempt("num_kernels", getattr, kernel, "num_kernels")
        text = "num_kernels must be an integer of at least 1"
        self.require(isinstance(P, int) and P >= 1, f"{text}; got {P!r}")

    def has_gram_matrices(self, X: np.ndarray) -> np.ndarray:
        """Gram matrices are symmetric, positive semidefinite, and the same in all combinations."""
        kernel, P, n = self.subject, self.subject.num_kernels, len(X)
        one, wide = Gaussian(1.3), np.concatenate([X[:, :1] + 1.0, X], axis=1)
        self.has_codes(X)
        company = {
            "alone": (kernel, X),
            "in kernel + Gaussian": (kernel + one, X),
            "in kernel * Gaussian": (kernel * one, X),
            "in 2 * kernel": (2.0 * kernel, X),
            "in a KernelDictionary": (KernelDictionary((one, kernel)), X),
            "on columns": (kernel.on(range(1, wide.shape[1])), wide),
        }
        for name, pair in company.items():
            self.attempt(f"the kernel {name}", jax.eval_shape, _asked, *pair)
        made = jax.tree.map(np.asarray, _asked_of_each(company))
        K, shape = made["alone"]["gram"], (P, n, n)
        text = f"gram(X) must be float64 of shape {shape}; got {K.dtype} of shape {K.shape}"
        self.require(K.shape == shape and K.dtype == np.float64, text)
        columns = _gram(kernel, X, X[:4])
        self.close(columns, K[:, :, :4], "gram(X, Y) must be columns of gram(X)")
        self.require(np.isfinite(K).all(), "kernel values must be finite")
        self.close(K, np.swapaxes(K, 1, 2), "a Gram matrix must be symmetric")
        values = np.linalg.eigvalsh(K)
        least = np.min(values[:, 0] / np.maximum(values[:, -1], 1e-300))
        text = f"a Gram matrix must be positive semidefinite; an eigenvalue is {least:.3g} of"
        self.require(least > -1e-9, f"{text} the largest")
        G = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / (2 * 1.3**2))[None]
        wanted = K, K + G, K * G, 2.0 * K, np.concatenate([G, K]), K
        for name, gram in zip(company, wanted, strict=True):
            asked = made[name]
            self.close(asked["gram"], gram, f"the kernel {name} must be what it is alone")
            own, which = np.diagonal(gram, axis1=1, axis2=2), np.arange(n) % len(gram)
            text = f"diagonal_codes must be those of the diagonal, {name} too"
            self.close(asked["diagonal"], own, text)
            text = f"column_codes must be those columns of codes, {name} too"
            self.close(asked["columns"], gram[which, :, np.arange(n)].T, text)
        return K

    def has_codes(self, X: np.ndarray) -> None:
        """Codes have the right shape and dtype, and ``exponential`` marks each kernel."""
        kernel, P = self.subject, self.subject.num_kernels
        marks = kernel.exponential
        text = f"exponential must be a tuple of {P} booleans, one for each kernel; got {marks!r}"
        self.require(isinstance(marks, tuple) and len(marks) == P, text)
        for n, m in ((len(X), 4), (1, 1)):
            products = pairwise_products(jnp.asarray(X[:n]), jnp.asarray(X[:m]))
            codes = self.attempt("codes", jax.eval_shape, kernel.codes, products)
            text = f"codes of {n} and {m} points must be float64 of shape {(P, n, m)}"
            good = (codes.shape, codes.dtype) == ((P, n, m), np.float64)
            self.require(good, f"{text}; got {codes.dtype} of shape {codes.shape}")

    def attempt(self, what: str, function: Callable, *arguments: Any) -> Any:
        """Call a function; report its errors as a sentence of this check."""
        try:
            return function(*arguments)
        except NotImplementedError as error:
            raise AssertionError(str(error)) from error
        except Exception as error:
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            text = f"{what} must be traced by JAX, from products alone; it raises {said}"
            raise AssertionError(f"{type(self.subject).__name__}: {text}") from error

    def may_be_stacked(self, X: np.ndarray) -> None:
        """Stacked kernels equal the single ones, both as given and in stacks made here."""
        kernel, P = self.subject, self.subject.num_kernels

        def one_of(p: int) -> Kernel:
            stacked = jax.tree.map(lambda leaf: np.shape(leaf)[:1] == (P,), kernel)
            return jax.tree.map(lambda of, leaf: leaf[p : p + 1] if of else leaf, stacked, kernel)

        if P > 1 and one_of(0).num_kernels == 1:
            alone = np.concatenate([_gram(one_of(p), X) for p in range(P)])
            self.close(_gram(kernel, X), alone, "stacked kernels must be those one by one")
        one = P == 1 and dataclasses.is_dataclass(kernel)
        for field in dataclasses.fields(kernel) if one else ():
            value = getattr(kernel, field.name)
            if not isinstance(value, float | int) or field.metadata.get("static"):
                continue
            several = [float(value) * (1.0 + 0.25 * factor) for factor in range(len(X))]
            text = "must be that many kernels, or be refused by a ValueError"
            text = f"several values of {field.name} {text}"
            try:
                stack = dataclasses.replace(kernel, **{field.name: several})
            except ValueError:
                continue
            try:
                together = _gram(stack, X)
            except Exception as error:
                self.require(False, f"{text} where the kernel is made; got {error!r}")
            single = (dataclasses.replace(kernel, **{field.name: v}) for v in several)
            alone = np.concatenate([_gram(kernel, X) for kernel in single])
            self.close(together, alone, text)

    def has_derivatives(self, X: np.ndarray) -> None:
        """Derivatives by points and parameters are finite where points coincide."""
        derivatives = _derivatives(self.subject, np.concatenate([X[:3], X[:3]]))
        for path, leaf in jax.tree.leaves_with_path(derivatives):
            name = "the points" if path[0].idx else jax.tree_util.keystr(path[1:])
            text = f"the derivative by {name} must be finite where points coincide"
            self.require(np.isfinite(leaf).all(), text)

    def has_learners(self, X: np.ndarray, gram: np.ndarray) -> None:
        """Perceptrons with supports, and on a dictionary of all points, agree with gram(X)."""
        kernel, y = self.subject, np.where(np.arange(len(X)) % 3 == 1, 1.0, -1.0)
        banks: tuple = (SupportModels(kernel, Perceptron(), DenseSupport(16, tile=4, period=4)),)
        if kernel.num_kernels == 1:
            everything = SampledDictionary(len(X), density=1e12)
            banks = (*banks, FeatureModels(kernel, Perceptron(), everything))
        learner = MKL(banks)
        state = learner.init(jax.random.key(0), X.shape[1], X.dtype)
        values = np.asarray(_values(learner, state, X, y))
        wanted = np.tile(_values_of_perceptrons(gram, y), len(banks))
        text = "models with supports and on a sampled dictionary must be those by gram(X)"
        self.equal(values, wanted, text, max(self.tolerance, 1e-6))

    def has_features(self, X: np.ndarray) -> None:
        """Fourier features agree with the kernel to sampling error, if its spectrum is known."""
        if self.subject.without_spectrum:
            return
        error = np.abs(_approximated(self.subject, X) - _gram(self.subject, X)).max()
        # a mean of cosines, with a standard error of at most sqrt(1 / 2 F)
        text = "Fourier features must approximate the kernel: its spectral_scale is wrong"
        self.require(error < 6 / np.sqrt(NUM_FEATURES), f"{text} (error {error:.3g})")
