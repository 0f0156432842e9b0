"""What kernels promise, checked on a few points."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl.features import FourierFeatures
from jaxmkl.kernels import Gaussian, Kernel, KernelDictionary, pairwise_products
from jaxmkl.kernels.scaled import plain
from jaxmkl.testing._trees import Check, is_frozen

NUM_FEATURES = 20_000


def check_kernel(kernel: Kernel, *, num_inputs: int = 3, tolerance: float = 1e-9) -> None:
    """Raise unless a kernel keeps what kernels promise.

    It is a frozen pytree; its Gram matrices are symmetric, positive semidefinite and have the
    diagonal that it says; stacked kernels, as many as there are points too, are those one by one;
    derivatives are finite where points coincide; it may stand in a dictionary; where it says its
    spectrum, Fourier features agree with it. All in double precision.

    Args:
      kernel: one kernel or several.
      num_inputs: D, where it has parameters for each input.
      tolerance: absolute and relative, of what is equal to rounding.

    Raises:
      AssertionError: for the first promise that is broken.

    >>> import jaxmkl
    >>> check_kernel(jaxmkl.Cauchy([0.5, 2.0]) + jaxmkl.Polynomial(2, 1.0))
    """
    with jax.enable_x64(True):
        check = _KernelCheck(kernel, tolerance)
        X = np.random.default_rng(0).normal(size=(7, num_inputs))
        try:
            check.is_a_value()
            check.has_gram_matrices(X)
            check.may_be_stacked(X)
            check.has_derivatives(X)
            check.has_company(X)
            check.has_features(X)
        except NotImplementedError as error:
            raise AssertionError(str(error)) from error


_gram = jax.jit(lambda kernel, X: kernel.gram(X))
_derivatives = jax.jit(jax.grad(lambda kernel, X: kernel.gram(X).sum(), argnums=(0, 1)))


@jax.jit
def _matrices(kernel: Kernel, X: jax.Array, which: jax.Array) -> dict[str, jax.Array]:
    """What a kernel makes of some points, in all ways."""
    products = pairwise_products(X, X)
    return {
        "gram": kernel.gram(X),
        "columns": kernel.gram(X, X[:4]),
        "own": plain(kernel.diagonal_codes(X), kernel.exponential),
        "codes": kernel.codes(products),
        "column_codes": kernel.column_codes(products, which),
    }


@jax.jit
def _approximated(kernel: Kernel, X: jax.Array) -> jax.Array:
    """The Gram matrices by Fourier features."""
    features = FourierFeatures(NUM_FEATURES, scale="mean")
    frequencies = features.init(jax.random.key(0), kernel, X.shape[1], X.dtype)
    z = jnp.swapaxes(features(kernel, frequencies, X), 0, 1)
    return z @ jnp.swapaxes(z, 1, 2)


class _KernelCheck(Check):
    """The promises of a kernel, one method each."""

    def close(self, one: Any, other: Any, text: str) -> None:
        """Raise with this sentence unless two arrays are equal to rounding."""
        self.equal(one, other, text, self.tolerance)

    def is_a_value(self) -> None:
        """A frozen pytree, and a kernel."""
        kernel = self.subject
        self.require(isinstance(kernel, Kernel), "a kernel must be an instance of jaxmkl.Kernel")
        opaque = any(isinstance(leaf, Kernel) for leaf in jax.tree.leaves(kernel))
        text = "a kernel must be a pytree: decorate its class with jaxmkl.pytree.dataclass"
        self.require(not opaque, text)
        self.require(is_frozen(kernel), "a kernel must be frozen, as jaxmkl.pytree.dataclass does")
        P, text = kernel.num_kernels, "num_kernels must be an integer of at least 1"
        self.require(isinstance(P, int) and P >= 1, f"{text}; got {P!r}")

    def has_gram_matrices(self, X: np.ndarray) -> None:
        """Symmetric, positive semidefinite, and with the diagonal that is said."""
        n, P = len(X), self.subject.num_kernels
        made, which = _matrices(self.subject, X, np.arange(n) % P), np.arange(n) % P
        K = made["gram"]
        text = f"gram(X) must be float64 of shape {(P, n, n)}; got {K.dtype} of shape {K.shape}"
        self.require(K.shape == (P, n, n) and K.dtype == np.float64, text)
        self.close(made["columns"], K[:, :, :4], "gram(X, Y) must be columns of gram(X)")
        self.require(np.isfinite(K).all(), "kernel values must be finite")
        self.close(K, np.swapaxes(K, 1, 2), "a Gram matrix must be symmetric")
        values = np.linalg.eigvalsh(K)
        least = (values[:, 0] / np.maximum(values[:, -1], 1e-300)).min()
        text = f"a Gram matrix must be positive semidefinite; an eigenvalue is {least:.3g} of"
        self.require(least > -1e-9, f"{text} the largest")
        own = np.diagonal(K, axis1=1, axis2=2)
        self.close(made["own"], own, "diagonal_codes must be those of the diagonal")
        codes = np.asarray(made["codes"])[which, :, np.arange(n)].T
        self.close(made["column_codes"], codes, "column_codes must be those columns of codes")

    def may_be_stacked(self, X: np.ndarray) -> None:
        """Kernels together are the kernels one by one: those that are, and some made here."""
        kernel, P = self.subject, self.subject.num_kernels

        def one_of(p: int) -> Any:
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
        """Finite ones, by points and by parameters, where points coincide."""
        derivatives = _derivatives(self.subject, np.concatenate([X[:3], X[:3]]))
        for path, leaf in jax.tree.leaves_with_path(derivatives):
            name = "the points" if path[0].idx else jax.tree_util.keystr(path[1:])
            text = f"the derivative by {name} must be finite where points coincide"
            self.require(np.isfinite(leaf).all(), text)

    def has_company(self, X: np.ndarray) -> None:
        """In a dictionary it is what it is alone."""
        both = Gaussian(1.3), self.subject
        together, alone = _gram(KernelDictionary(both), X), [_gram(kernel, X) for kernel in both]
        text = "in a KernelDictionary a kernel must be what it is alone"
        self.close(together, np.concatenate(alone), text)

    def has_features(self, X: np.ndarray) -> None:
        """Fourier features agree with the kernel to sampling error, if it says its spectrum."""
        if self.subject.without_spectrum:
            return
        error = np.abs(_approximated(self.subject, X) - _gram(self.subject, X)).max()
        # a mean of cosines: 6 standard errors of at most sqrt(1 / 2 F) and more
        text = "Fourier features must approximate the kernel: its spectral_scale is another's"
        self.require(error < 6 / np.sqrt(NUM_FEATURES), f"{text} (error {error:.3g})")
