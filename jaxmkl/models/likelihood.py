"""Models on features whose inputs have a metric that is learned by marginal likelihood."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import diagonal_of, factor_and_inverse, sums_of
from jaxmkl._types import Number, PyTree
from jaxmkl.models.metric import MetricBank
from jaxmkl.models.under_metrics import Models, features_of
from jaxmkl.reservoir import Renewal

_dot = partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)


@pytree.dataclass
class LikelihoodModels(MetricBank):
    """A bank on features of L'x, with metrics L of the largest marginal likelihood.

    As in :class:`MetricModels` a metric changes in rounds ``first``, twice as many, four times
    as many and so on, and then all models begin anew and learn from the memory under it. But L is
    not computed from gradients of the models: some steps of Adam, the first of length ``rate`` and
    the later ones shorter, by a cosine, increase the evidence of Bayesian linear regression on the
    features Z (n, M) of n examples,

        y ~ N(0, σ² C),   C = I + Z Z' / λ,
        log p(y) = -1/2 (log det C + n log y'C⁻¹y) + constant,

    at the σ² that fits y best. With several kernels it is the evidence of their mixture,
    log Σ_p p_p(y) / P, and with several outputs the sum over them. Adam changes the logarithms of
    the weights of a diagonal metric, or all entries of a full one, in units of their first value
    1/sqrt(D), and the logarithm of λ. It begins at the present metric, the first time at
    I/sqrt(D). The size of the metric is learned, too, so one kernel of width 1 suffices. A step
    whose gradient is not finite is left out.

    A renewal takes ``steps`` times about 8 n M² operations for each kernel, and more memory than
    one of :class:`MetricModels`: n M numbers for each kernel, several times.

    Args:
      bank: the models, on any features that are not sequential and that JAX can derive.
      shapes: of the metric: "diagonal", a weight for each input, or "full"; or both.
      sample: how many examples of the learner's memory are learned anew, evenly.
      first: the round of the first metric; blocks divide half of it, so powers of two suit.
      steps: of Adam, at each renewal.
      rate: of Adam, at the first step.
      examples: n, at most ``sample``: the evidence is that of so many of them.
      regularization: λ at which Adam begins; that of the rules inside is not read.

    Raises:
      ValueError: if the features are sequential, or a number is not in its range.

    References:
      MacKay (1992), Bayesian interpolation, Neural Computation 4,
      https://doi.org/10.1162/neco.1992.4.3.415.
      Neal (1996), Bayesian learning for neural networks, whose weights of inputs these are.
      Lázaro-Gredilla, Quiñonero-Candela, Rasmussen and Figueiras-Vidal (2010), Sparse spectrum
      Gaussian process regression, JMLR 11, where frequencies are learned like so.

    >>> import jaxmkl
    >>> inside = jaxmkl.models.FeatureModels(jaxmkl.Gaussian(1.0), jaxmkl.updates.RLS(0.01))
    >>> learner = jaxmkl.MKL(LikelihoodModels(inside, "full", steps=20))
    >>> learner.num_models
    1
    """

    steps: int = pytree.count(default=40)
    rate: Number = pytree.positive(default=0.1)
    examples: int = pytree.count(default=1000)
    regularization: Number = pytree.positive(default=0.01)

    def learned(self, models: Models, renewal: Renewal, turn: jax.Array) -> tuple[jax.Array, ...]:
        few = renewal.sample(min(self.examples, self.sample))
        each = zip(models.metrics, models.features, strict=True)
        return tuple(self._likeliest(metric, inside, few) for metric, inside in each)

    def _likeliest(self, metric: jax.Array, inside: PyTree, few: Renewal) -> jax.Array:
        """The metric after the steps of Adam on a few examples."""
        X, dtype, diagonal, unit = few.X, few.X.dtype, metric.ndim == 1, few.X.shape[1] ** -0.5
        known = few.known[:, None].astype(dtype)
        y = few.y.reshape(len(X), -1)
        number, squares = few.filled.astype(dtype), sums_of(y**2)

        def metric_at(entries: jax.Array) -> jax.Array:
            entries = entries.reshape(metric.shape)
            return unit * (jnp.exp(entries) if diagonal else entries)

        def features(entries: jax.Array) -> jax.Array:
            Z = features_of([(self.bank, metric_at(entries), inside)], X)
            return Z * known[:, :, None]

        start = metric / jnp.asarray(unit, dtype)
        start = jnp.log(jnp.maximum(start, jnp.finfo(dtype).tiny)) if diagonal else start
        ridge = jnp.log(jnp.asarray(self.regularization, dtype))
        start = jnp.concatenate([start.reshape(-1), ridge[None]])

        def step(i: jax.Array, carry: jax.Array) -> jax.Array:
            """One of Adam, by rows of one array: the entries and log λ, and their two moments."""
            at, *moments = carry
            Z, back = jax.vjp(features, at[:-1])
            _, by_Z, by_ridge = evidence(Z, y, number, squares, jnp.exp(at[-1]))
            slopes = -jnp.concatenate([*back(by_Z), by_ridge[None]])
            # a step that is left out would be so again
            state = optax.ScaleByAdamState(i, *moments)
            with jax.numpy_dtype_promotion("standard"):  # which optax relies on
                direction, state = optax.scale_by_adam().update(slopes, state)
            rate = self.rate * 0.5 * (1 + jnp.cos(jnp.pi * i.astype(dtype) / self.steps))
            after = jnp.stack([at - (rate * direction).astype(dtype), state.mu, state.nu])
            return jnp.where(jnp.all(jnp.isfinite(slopes)), after.astype(dtype), carry)

        begun = jnp.pad(start[None], ((0, 2), (0, 0)))
        learned = metric_at(jax.lax.fori_loop(0, self.steps, step, begun)[0, :-1])
        return jnp.where(jnp.all(jnp.isfinite(learned)), learned, metric)


def evidence(
    Z: jax.Array, y: jax.Array, number: jax.Array, squares: jax.Array, ridge: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """log Σ_p p_p(y) / P up to a constant, and its derivatives by Z and by log λ.

    Of one kernel with features Z (n, M) it is, with A = j I + Z'Z / λ,

        log p = -1/2 (K log det A + n Σ_k log q_k),   q_k = min_a |y_k - Z a|² + j λ |a|²
        ∂ log p / ∂ Z = -K Z A⁻¹ / λ + n Σ_k r_k a_k' / q_k
        ∂ log p / ∂ log λ = 1/2 (K (M - j tr A⁻¹) - n j λ Σ_k |a_k|² / q_k)

    where a_k = A⁻¹ Z'y_k / λ is the minimum and r_k = y_k - Z a_k. Of several kernels derivatives
    are the means by their shares p_p(y) / Σ_p p_p(y). In place of I stands j I, by which A stays
    definite: j = 1 + 2 u trace Z'Z / λ, a constant for the derivatives, with u the unit of
    rounding. And of q_k rounding leaves 8 u |y_k|² at least.

    Args:
      Z: features (n, P, M), 0 where an example is not known.
      y: labels (n, K), 0 where an example is not known.
      number: of the known ones.
      squares: Σ y² (K,).
      ridge: λ.
    """
    unit, K = float(jnp.finfo(Z.dtype).eps), y.shape[1]

    def of_kernel(Z: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        M = Z.shape[1]
        information = _dot(Z.T, Z) / ridge
        jitter = 1.0 + 2.0 * unit * sums_of(diagonal_of(information)[:, None])[0]
        factor, inverse = factor_and_inverse(information + jitter * np.eye(M, dtype=Z.dtype))
        fitted = _dot(inverse, _dot(Z.T, y)) / ridge
        rest = y - _dot(Z, fitted)
        of_features = jnp.concatenate([fitted**2, diagonal_of(inverse)[:, None]], axis=1)
        *lengths, trace = sums_of(of_features)
        penalty = jitter * ridge * jnp.stack(lengths)
        left = sums_of(rest**2) + penalty + 8.0 * unit * squares
        by_Z = _dot(rest * (number / left)[None], fitted.T) - _dot(Z, inverse) * (K / ridge)
        by_ridge = K * (M - jitter * trace) - number * jnp.sum(penalty / left)
        halves = jnp.sum(jnp.log(diagonal_of(factor)))
        return -K * halves - 0.5 * number * jnp.sum(jnp.log(left)), by_Z, 0.5 * by_ridge

    if Z.shape[1] == 1:
        value, by_Z, by_ridge = of_kernel(Z[:, 0])
        return value, by_Z[:, None], by_ridge
    each, by_Z, by_ridge = jax.lax.map(of_kernel, jnp.moveaxis(Z, 1, 0))
    shares = jax.nn.softmax(each)
    value = jax.nn.logsumexp(each) - jnp.log(jnp.asarray(len(each), Z.dtype))
    return value, jnp.moveaxis(by_Z, 0, 1) * shares[None, :, None], _dot(shares, by_ridge)
