"""Models on features whose inputs have a metric that is learned by marginal likelihood."""

import jax
import jax.numpy as jnp
import optax

from jaxmkl import _pytree as pytree
from jaxmkl._metric import importances
from jaxmkl._types import Number, PyTree
from jaxmkl.models.metric import MetricBank, MetricModelsState
from jaxmkl.optimizers import FromOptax
from jaxmkl.reservoir import Renewal

_HIGHEST = jax.lax.Precision.HIGHEST


@pytree.dataclass
class LikelihoodModels(MetricBank):
    """A bank on features of L'x, with metrics L of the largest marginal likelihood.

    As in :class:`MetricModels` a metric changes in rounds ``first``, twice as many, four times
    as many and so on, and then all models begin anew and learn from the memory under it. But L is
    not made of gradients of the models: some steps of Adam, the first of length ``rate`` and the
    later ones shorter, by a cosine, climb the evidence of Bayesian linear regression on the
    features Z (n, M) of the n examples at hand,

        y ~ N(0, σ² C),   C = I + Z Z' / λ,
        log p(y) = -1/2 (log det C + n log y'C⁻¹y) + constant,

    at the σ² that suits y best. Of several kernels it is that of their mixture,
    log Σ_p p_p(y) / P, and of several outputs the sum over them. Adam moves the logarithms of the
    weights of a diagonal metric, or all entries of a full one, in units of their first value
    1/sqrt(D), and the logarithm of λ. It begins at the metric that there is, the first at
    I/sqrt(D), and its size is learned, too: one kernel of width 1 suffices. A step whose gradient
    is not finite is left out.

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

    def learned(self, state: MetricModelsState, renewal: Renewal, turn: jax.Array) -> tuple:
        few = renewal.sample(min(self.examples, self.sample))
        each = zip(*state.bank.features, strict=True)
        return tuple(self._likeliest(metric, inside, few) for metric, inside in each)

    def _likeliest(self, metric: jax.Array, inside: PyTree, few: Renewal) -> jax.Array:
        """The metric after the steps of Adam on a few examples."""
        X, y, known = few.X, few.y, few.known
        dtype, diagonal, unit = X.dtype, metric.ndim == 1, X.shape[1] ** -0.5
        smallest = jnp.finfo(dtype).tiny

        def metric_at(moved: jax.Array) -> jax.Array:
            return unit * (jnp.exp(moved) if diagonal else moved)

        def cost(moved: tuple[jax.Array, jax.Array]) -> jax.Array:
            Z = self.features(inside, metric_at(moved[0]), X)
            return -log_evidence(Z, y.reshape(len(y), -1), known, jnp.exp(moved[1]))

        start = metric / jnp.asarray(unit, dtype)
        start = jnp.log(jnp.maximum(start, smallest)) if diagonal else start
        moved = start, jnp.log(jnp.asarray(self.regularization, dtype))
        adam = FromOptax(optax.scale_by_adam())

        def step(i: jax.Array, carry: tuple) -> tuple:
            moved, own = carry
            slopes = jax.grad(cost)(moved)
            good = jnp.all(jnp.stack([jnp.all(jnp.isfinite(s)) for s in slopes]))
            directions, after = adam.update(slopes, own, moved, i)
            rate = self.rate * 0.5 * (1 + jnp.cos(jnp.pi * i.astype(dtype) / self.steps))
            there = jax.tree.map(lambda at, by: at - (rate * by).astype(dtype), moved, directions)
            return optax.tree.where(good, (there, after), carry)

        moved, _ = jax.lax.fori_loop(0, self.steps, step, (moved, adam.init(moved)))
        learned = metric_at(moved[0])
        return jnp.where(jnp.all(jnp.isfinite(learned)), learned, metric)

    def importances(self, state: MetricModelsState) -> jax.Array:
        """How much each input matters (D,), of sum 1: its share of the variance of L'x.

        It is that of the diagonal of L L', as of any metric, for inputs of the same variance at
        the last renewal. The evidence says nothing of the weight of a constant input.
        """
        variance = jnp.where(jnp.any(state.variances > 0), state.variances, 1.0)
        scaled = jnp.stack([importances(metric) * variance for metric in state.metrics])
        return jnp.mean(scaled / jnp.sum(scaled, axis=1, keepdims=True), axis=0)


def log_evidence(Z: jax.Array, y: jax.Array, known: jax.Array, ridge: jax.Array) -> jax.Array:
    """log Σ_p p_p(y) / P of labels (n, K) and features (n, P, M), up to a constant.

    Only examples that are ``known`` count. In place of I stands (1 + 2 u trace Z'Z / λ) I, with u
    the unit of rounding, by which C stays definite.
    """
    unit, (_, P, M) = jnp.finfo(Z.dtype).eps, Z.shape
    known = known.astype(Z.dtype)
    Z, y = Z * known[:, None, None], y * known[:, None]
    number, squares = jnp.sum(known), jnp.sum(y**2, axis=0)
    information = jnp.einsum("npm,npl->pml", Z, Z, precision=_HIGHEST) / ridge
    jitter = 1.0 + 2.0 * unit * jnp.trace(information, axis1=1, axis2=2)
    eye = jnp.eye(M, dtype=Z.dtype)[None]
    factor = jnp.linalg.cholesky(information + jitter[:, None, None] * eye)
    towards = jnp.einsum("npm,nk->pmk", Z, y, precision=_HIGHEST)
    fitted = jax.lax.linalg.triangular_solve(factor, towards, left_side=True, lower=True)
    # y'C⁻¹y, of which rounding leaves this much at least
    rest = squares[None] - jnp.sum(fitted**2, axis=1) / ridge
    rest = jnp.maximum(rest, 0.0) + 8.0 * unit * squares[None]
    halves = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)), axis=1)
    each = -y.shape[1] * halves - 0.5 * number * jnp.sum(jnp.log(rest), axis=1)
    return jax.nn.logsumexp(each) - jnp.log(jnp.asarray(P, Z.dtype))
