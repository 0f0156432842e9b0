"""Multiple kernel learning with support vectors: OMKC, SPA, kernel OGD, OMKL.

Each kernel has a model f_p(x) = Σ_j a_pj k_p(x_j, x). A round on an example (x, y):

    prediction = Σ_p q_p f_p, or a vote of their signs         aggregate
    the update rule decides whether x becomes a support vector of f_p, and its coefficient;
    it does so always, or with a probability that grows with w_p        update, select
    discount w_p by the mistake or the loss of f_p             aggregate

The published learners are

                  update                    store          aggregate              select
    perceptron    Perceptron                grows          one kernel             all
    omkc_u        Perceptron                grows          uniform vote           all
    omkc_dd       Perceptron                grows          vote, by mistakes      all
    omkc_sd       Perceptron                grows          vote, by mistakes      sampled
    spa           SparsePassiveAggressive   grows          value, by hinge loss   sampled
    kernel_ogd    OGD                       grows          one kernel             all
    omkl          OGD                       grows          value, by loss         all

A margin of exactly 0 is a mistake; a kernel with the value 0 votes +1. Learners on a budget of
support vectors are in :mod:`jaxmkl.recipes.budgets`.

References:
  Lu, Hoi, Sahoo and Zhao, Budget online multiple kernel learning; Hoi, Jin, Zhao and Yang (2013),
  Online multiple kernel classification; Sahoo, Hoi and Li (2014), Online multiple kernel
  regression.
"""

from jaxmkl._types import Number
from jaxmkl.aggregate import Hedge, Uniform
from jaxmkl.kernels import Kernel, hong_chae
from jaxmkl.losses import Loss
from jaxmkl.mkl import MKL
from jaxmkl.models import DenseSupport, SparseSupport
from jaxmkl.query import Query
from jaxmkl.recipes._parts import ASK_ALL, bank_of, one_kernel, rate_of, recipe, vote
from jaxmkl.select import Sampled
from jaxmkl.updates import OGD, Perceptron, SparsePassiveAggressive


@recipe
def perceptron(
    kernel: Kernel | None = None, *, capacity: int = 1024, query: Query = ASK_ALL
) -> MKL:
    """The kernel perceptron, with one kernel: every mistake becomes a support vector.

        if y f(x) <= 0:   f <- f + y k(x, ·)

    Args:
      kernel: one kernel; by default a Gaussian of bandwidth 1.
      capacity: the least number of support vectors for which there is room. ``run`` and other
        drivers enlarge it as needed; inside your own ``jit`` or ``scan``, examples that find no
        room are not learned but counted, in ``learner.info(state).overflow``.
      query: when a label is asked for, by default always.

    References:
      Rosenblatt (1958); Lu, Hoi, Sahoo and Zhao, Table 1.

    >>> perceptron(capacity=500).models[0].store.capacity
    500
    """
    bank = bank_of(one_kernel("perceptron", kernel), Perceptron(), DenseSupport(capacity))
    return MKL(bank, Uniform(), query=query)


@recipe
def omkc_u(kernels: Kernel | None = None, *, capacity: int = 1024, query: Query = ASK_ALL) -> MKL:
    """OMKC(U): a perceptron for each kernel, and an equal vote.

        prediction = 1/P Σ_p s(f_p),    s(f) = 1 if f >= 0, else -1

    Args:
      kernels: by default the 13 Gaussians and 3 polynomials of :func:`jaxmkl.kernels.lu_hoi`.
      capacity, query: as for :func:`perceptron`.

    References:
      Hoi, Jin, Zhao and Yang (2013); Lu, Hoi, Sahoo and Zhao, Table 1.

    >>> omkc_u().aggregate
    Uniform(output='vote')
    """
    bank = bank_of(kernels, Perceptron(), DenseSupport(capacity))
    return MKL(bank, Uniform("vote"), query=query)


@recipe
def omkc_dd(
    kernels: Kernel | None = None,
    *,
    discount: Number = 0.99,
    capacity: int = 1024,
    query: Query = ASK_ALL,
) -> MKL:
    """OMKC(DD): a perceptron for each kernel, and a vote by Hedge; all kernels learn.

        prediction = Σ_p w_p s(f_p) / Σ_p w_p,    w_p <- w_p γ^[y f_p <= 0]

    Args:
      discount: γ in (0, 1].
      kernels, capacity, query: as for :func:`omkc_u`.

    References:
      Hoi, Jin, Zhao and Yang (2013), deterministic update and combination; Lu et al., Table 1.

    >>> round(omkc_dd(discount=0.9).aggregate.rate, 3)  # Hedge discounts by exp(-rate)
    0.105
    """
    bank = bank_of(kernels, Perceptron(), DenseSupport(capacity))
    return MKL(bank, vote(discount), query=query)


@recipe
def omkc_sd(
    kernels: Kernel | None = None,
    *,
    discount: Number = 0.99,
    smoothing: Number = 0.001,
    sampled: str = "update",
    capacity: int = 1024,
    query: Query = ASK_ALL,
) -> MKL:
    """OMKC(SD): :func:`omkc_dd` in which only kernels drawn by their weights learn or lose weight.

        Z_p ~ Bernoulli((1 - δ) w_p / max w + δ);  where Z_p = 1 and y f_p <= 0: the perceptron's
        update, and w_p <- γ w_p

    Args:
      smoothing: δ in [0, 1].
      sampled: the purpose of the draw, as for :class:`jaxmkl.select.Sampled`: "update" for
        OMKC(SD), "combination" for OMKC(DS), in which the kernels drawn vote and all learn, "both"
        for OMKC(SS), in which those drawn vote and learn.
      kernels, discount, capacity, query: as for :func:`omkc_dd`.

    References:
      Hoi, Jin, Zhao and Yang (2013), stochastic update, deterministic combination; Lu et al.,
      Table 1.

    >>> omkc_sd().select
    Sampled(smoothing=0.001, judge_sampled=True, sampled='update')
    """
    bank = bank_of(kernels, Perceptron(), DenseSupport(capacity))
    return MKL(bank, vote(discount), Sampled(smoothing, True, sampled), query)


@recipe
def spa(
    kernels: Kernel | None = None,
    *,
    step_size: Number = 0.1,
    alpha: Number = 1.0,
    beta: Number = 3.0,
    discount: Number = 0.99,
    smoothing: Number = 0.001,
    normalized_step: bool = False,
    capacity: int = 1024,
    query: Query = ASK_ALL,
) -> MKL:
    """SPA: passive aggressive steps at random, more often for better kernels.

        p_p = (1 - δ) w_p / max w + δ,    ρ_p = min(α, l_p) / β,    l_p = max(0, 1 - y f_p)
        with probability p_p ρ_p:   f_p <- f_p + min(η / ρ_p, l_p / k_p(x, x)) y k_p(x, ·)
        w_p <- w_p γ^{l_p},         prediction = Σ_p w_p f_p / Σ_p w_p

    Args:
      step_size: η.
      alpha: α; larger values keep more support vectors.
      beta: β >= α; larger values keep fewer: at most T α / β are expected for each kernel.
      normalized_step: whether to divide by k(x, x), as in the formula; the figures of the paper
        come from the form without it (static).
      kernels, discount, smoothing, capacity, query: as for :func:`omkc_sd`.

    References:
      Lu, Hoi, Sahoo and Zhao, Algorithm 1 and Proposition 1.

    >>> spa(beta=2.0).models[0].rule
    SparsePassiveAggressive(step_size=0.1, alpha=1.0, beta=2.0, normalized_step=False)
    """
    update = SparsePassiveAggressive(step_size, alpha, beta, normalized_step)
    bank = bank_of(kernels, update, SparseSupport(capacity))
    return MKL(bank, Hedge(rate_of(discount)), Sampled(smoothing), query)


@recipe
def kernel_ogd(
    kernel: Kernel | None = None,
    *,
    step_size: Number = 0.1,
    regularization: Number = 0.0,
    loss: Loss | str = "squared",
    capacity: int = 1024,
    query: Query = ASK_ALL,
) -> MKL:
    """Kernel online gradient descent with one kernel: every example becomes a support vector.

        f <- (1 - η λ) f - η L'(f, y) k(x, ·)

    Args:
      step_size, regularization: η and λ.
      loss: L, a value of :mod:`jaxmkl.losses`, or one of its names.
      kernel, capacity, query: as for :func:`perceptron`.

    References:
      Kivinen, Smola and Williamson (2001); Hong and Chae, Table II, KL-RBF, POLY and LINEAR.

    >>> kernel_ogd(loss="hinge").models[0].rule
    OGD(step_sizes=0.1, regularization=0.0, loss=Hinge())
    """
    update = OGD(step_size, regularization, loss)
    bank = bank_of(one_kernel("kernel_ogd", kernel), update, DenseSupport(capacity))
    return MKL(bank, Uniform(), query=query)


@recipe
def omkl(
    kernels: Kernel | None = None,
    *,
    step_size: Number = 0.1,
    regularization: Number = 0.0,
    hedge_rate: Number = 1.0,
    loss: Loss | str = "squared",
    capacity: int = 1024,
    query: Query = ASK_ALL,
) -> MKL:
    """OMKL: kernel online gradient descent for each kernel, Hedge over the kernels.

        prediction = Σ_p w_p f_p / Σ_p w_p,    w_p <- w_p exp(-η_g L(f_p, y))

    Args:
      kernels: by default the 17 Gaussians of :func:`jaxmkl.raker`.
      hedge_rate: η_g.
      step_size, regularization, loss, capacity, query: as for :func:`kernel_ogd`.

    References:
      Sahoo, Hoi and Li (2014); Hong and Chae, Table II.

    >>> omkl().aggregate
    Hedge(rate=1.0, output='value', cost='loss', bound=None, penalty=None)
    """
    update, store = OGD(step_size, regularization, loss), DenseSupport(capacity)
    return MKL(bank_of(kernels, update, store, hong_chae), Hedge(hedge_rate), query=query)
