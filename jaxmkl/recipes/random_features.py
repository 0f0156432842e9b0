"""Multiple kernel learning on random features: Raker, OMKL-AKS, AMKL, AMKL-AKS and expert_mkl.

Each kernel has a linear model on its own random Fourier features z_p(x), f_p = θ_p·z_p(x). A round
on an example (x, y):

    q = weights of the chosen subset V, renormalised;  prediction = Σ_p q_p f_p       (31), (43)
    ask for y if the query wants it                                                   (33)
    if asked: θ_p by gradient descent (17), weights by Hedge (22), a new subset V     (23)-(30)

The four published algorithms combine two choices: which models are active, and when to ask.

                             every label     when models disagree
    all kernels              raker           amkl
    adaptive selection       omkl_aks        amkl_aks

We deviate where measurements suggest it: features have norm |z|² = F ("sum") and the rate of
Hedge is 1, as (10) and 1/sqrt(T) give errors several times the printed ones; the step size is
0.3/|z|², which is stable on streams of any length, instead of 1/sqrt(T); models are judged by
their loss without the penalty of (18), which is λ/2 |θ|² as everywhere here and λ |θ|² there.
:func:`jaxmkl.recipes.published` has the paper's values.

References:
  Hong and Chae, Active learning with multiple kernels, Algorithms 1 and 2.
  Shen, Chen and Giannakis (2019), Random feature-based online multi-kernel learning in
  environments with unknown dynamics (Raker).
"""

from collections.abc import Sequence

import numpy as np

from jaxmkl._metric import SHAPES
from jaxmkl._pytree import require
from jaxmkl._types import Number, Numbers
from jaxmkl.aggregate import Aggregate, Hedge, Mixture, Stack
from jaxmkl.features import FourierFeatures, LinearFeatures
from jaxmkl.kernels import Gaussian, Kernel, Linear, hong_chae, two_decades
from jaxmkl.losses import Loss
from jaxmkl.mkl import MKL
from jaxmkl.models import (
    Bank,
    FeatureModels,
    LikelihoodModels,
    MetricModels,
    NeighbourModels,
    SideBySide,
    TreeModels,
)
from jaxmkl.query import Disagreement, Query
from jaxmkl.recipes._parts import ASK_ALL, SELECT_ALL, outputs_of, recipe
from jaxmkl.select import AdaptiveKernelSelection, Select
from jaxmkl.updates import OGD, RLS

LEARNED = "fixed", "full", "likelihood_diagonal", "trees"
BANKS = (
    *("fixed", "diagonal", "full", "likelihood_diagonal", "likelihood_full"),
    *("trees", "neighbours", "linear"),
)
RELATIVE_WIDTHS = (0.5, 1.0, 2.0)  # of banks with a metric, in units of sqrt(D)


def _raker(
    kernels: Kernel | None,
    features: FourierFeatures,
    rates: tuple[Number | None, Number, Number, Number | None],
    loss: Loss | str,
    outputs: tuple[int | None, int | None],
    select: Select,
    query: Query,
) -> MKL:
    step_size, regularization, hedge_rate, penalty = rates
    step_size = 0.3 / features.squared_norm if step_size is None else step_size
    kernels = hong_chae() if kernels is None else kernels
    rule = OGD(step_size, regularization, loss)
    K = outputs_of("raker", rule.loss.task, *outputs)
    bank = FeatureModels(kernels, rule, features)
    return MKL(bank, Hedge(hedge_rate, penalty=penalty), select, query, num_outputs=K)


@recipe
def raker(
    kernels: Kernel | None = None,
    *,
    num_features: int = 50,
    step_size: Number | None = None,
    regularization: Number = 0.02,
    hedge_rate: Number = 1.0,
    hedge_penalty: Number | None = None,
    loss: Loss | str = "squared",
    orthogonal: bool = False,
    feature_scale: str = "sum",
    num_outputs: int | None = None,
    num_classes: int | None = None,
    select: Select = SELECT_ALL,
    query: Query = ASK_ALL,
) -> MKL:
    """Raker: a gradient step for each kernel on its random features, Hedge over the kernels.

        θ_p <- (1 - η_l λ) θ_p - η_l L'(f_p, y) z_p,      w_p <- w_p exp(-η_g L(f_p, y))
        prediction = Σ_p w_p f_p / Σ_p w_p,               f_p = θ_p·z_p(x)

    The published setting is ``jaxmkl.recipes.published("raker", num_examples=T, num_inputs=D)``;
    the module says why it is not the default.

    Args:
      kernels: shift-invariant; by default the 17 Gaussians of :func:`jaxmkl.kernels.hong_chae`.
      num_features: F, the number of frequencies of each kernel, which has 2 F coordinates.
      step_size: η_l; by default 0.3/|z|² (0.006 for 50 features of scale "sum").
      regularization: λ of the penalty λ/2 |θ|².
      hedge_rate: η_g, for losses of the order of 1 and below.
      hedge_penalty: the λ of a penalty λ/2 |θ|² with which Hedge judges models too, as the paper
        does; by default there is none (:class:`jaxmkl.aggregate.Hedge`).
      loss: "squared" for regression, or "huber" if labels have outliers; "logistic" or "hinge" for
        classification; or another loss of :mod:`jaxmkl.losses`.
      orthogonal: whether frequencies are drawn in orthogonal blocks.
      feature_scale: "sum" (|z|² = F) or "mean" (|z|² = 1).
      num_outputs: K, for several targets; predictions are then vectors (K,).
      num_classes: K, for several classes, numbered from 0: one against the rest on shared
        features. The largest value names the predicted class.
      select: which kernels are active, and which learn.
      query: when a label is asked for.

    References:
      Shen, Chen and Giannakis (2019); Hong and Chae, Algorithm 1 with all kernels.

    >>> import jax, jaxmkl, numpy as np
    >>> X, learner = np.random.default_rng(0).uniform(size=(500, 2)), raker(step_size=0.005)
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, np.sin(6 * X[:, 0]))
    >>> bool(outputs.loss[-100:].mean() < 0.05)
    True
    """
    features = FourierFeatures(num_features, orthogonal, feature_scale)
    rates = step_size, regularization, hedge_rate, hedge_penalty
    outputs = num_outputs, num_classes
    return _raker(kernels, features, rates, loss, outputs, select, query)


@recipe
def omkl_aks(
    kernels: Kernel | None = None,
    *,
    selection_threshold: Number = 0.8,
    num_features: int = 50,
    step_size: Number | None = None,
    regularization: Number = 0.02,
    hedge_rate: Number = 1.0,
    hedge_penalty: Number | None = None,
    loss: Loss | str = "squared",
    orthogonal: bool = False,
    feature_scale: str = "sum",
    num_outputs: int | None = None,
    num_classes: int | None = None,
    query: Query = ASK_ALL,
) -> MKL:
    """OMKL-AKS: :func:`raker` with adaptive kernel selection.

    After each label a subset V of the kernels is drawn; only these predict, with renormalised
    weights. All kernels continue to learn.

    Args:
      selection_threshold: δ of :class:`jaxmkl.select.AdaptiveKernelSelection`; the number of
        kernels with a weight above δ times the largest sets the size of V.
      kernels, num_features, step_size, regularization, hedge_rate, hedge_penalty, loss,
        orthogonal, feature_scale, num_outputs, num_classes, query: as for :func:`raker`.

    References:
      Hong and Chae, Algorithm 1, with γ of (58).

    >>> omkl_aks(num_features=20).select
    AdaptiveKernelSelection(threshold=0.8)
    """
    features = FourierFeatures(num_features, orthogonal, feature_scale)
    rates = step_size, regularization, hedge_rate, hedge_penalty
    outputs = num_outputs, num_classes
    select = AdaptiveKernelSelection(selection_threshold)
    return _raker(kernels, features, rates, loss, outputs, select, query)


@recipe
def amkl(
    kernels: Kernel | None = None,
    *,
    tolerance: Number = 0.0002,
    max_skips: Number = 1.0,
    relative: bool = False,
    num_features: int = 50,
    step_size: Number | None = None,
    regularization: Number = 0.02,
    hedge_rate: Number = 1.0,
    hedge_penalty: Number | None = None,
    loss: Loss | str = "squared",
    orthogonal: bool = False,
    feature_scale: str = "sum",
    num_outputs: int | None = None,
    num_classes: int | None = None,
    select: Select = SELECT_ALL,
) -> MKL:
    """AMKL: :func:`raker` that asks for a label only if its kernels disagree.

    Args:
      tolerance: η_c of :class:`jaxmkl.query.Disagreement`, in squared units of the target; the
        paper's is 0.0005, with smaller steps.
      max_skips: M, the largest number of labels skipped in a row.
      relative: whether the tolerance is a share of the running variance of the labels, which has
        no units; .01 asks for about as many labels as the default on the paper's streams (for all
        labels on naval).
      kernels, num_features, step_size, regularization, hedge_rate, hedge_penalty, loss,
        orthogonal, feature_scale, num_outputs, num_classes, select: as for :func:`raker`.

    References:
      Hong and Chae, Algorithm 2 with all kernels.

    >>> amkl(tolerance=0.01, max_skips=3, relative=True).query
    Disagreement(tolerance=0.01, max_skips=3.0, relative=True, loss=Squared())
    """
    features = FourierFeatures(num_features, orthogonal, feature_scale)
    rates = step_size, regularization, hedge_rate, hedge_penalty
    outputs = num_outputs, num_classes
    query = Disagreement(tolerance, max_skips, relative)
    return _raker(kernels, features, rates, loss, outputs, select, query)


@recipe
def amkl_aks(
    kernels: Kernel | None = None,
    *,
    tolerance: Number = 0.0002,
    max_skips: Number = 1.0,
    relative: bool = False,
    selection_threshold: Number = 0.8,
    num_features: int = 50,
    step_size: Number | None = None,
    regularization: Number = 0.02,
    hedge_rate: Number = 1.0,
    hedge_penalty: Number | None = None,
    loss: Loss | str = "squared",
    orthogonal: bool = False,
    feature_scale: str = "sum",
    num_outputs: int | None = None,
    num_classes: int | None = None,
) -> MKL:
    """AMKL-AKS: :func:`omkl_aks` that asks for a label only if its kernels disagree.

    Args:
      tolerance, max_skips, relative: as for :func:`amkl`.
      selection_threshold: as for :func:`omkl_aks`.
      kernels, num_features, step_size, regularization, hedge_rate, hedge_penalty, loss,
        orthogonal, feature_scale, num_outputs, num_classes: as for :func:`raker`.

    References:
      Hong and Chae, Algorithm 2.

    >>> amkl_aks(selection_threshold=0.9).select
    AdaptiveKernelSelection(threshold=0.9)
    """
    features = FourierFeatures(num_features, orthogonal, feature_scale)
    rates = step_size, regularization, hedge_rate, hedge_penalty
    outputs = num_outputs, num_classes
    select = AdaptiveKernelSelection(selection_threshold)
    query = Disagreement(tolerance, max_skips, relative)
    return _raker(kernels, features, rates, loss, outputs, select, query)


@recipe
def expert_mkl(
    kernels: Kernel | None = None,
    *,
    task: str = "regression",
    num_features: int | None = None,
    step_sizes: Numbers = (0.1, 0.25, 0.5, 0.7),
    forgetting: Numbers | None = None,
    regularization: Numbers = 0.1,
    hedge_rate: Number | None = None,
    aggregate: Aggregate | None = None,
    select: Select = SELECT_ALL,
    query: Query = ASK_ALL,
    orthogonal: bool = True,
    num_outputs: int | None = None,
    num_classes: int | None = None,
    banks: str | Sequence[str] | None = None,
) -> MKL:
    """Fixed kernels and learned ones, each with several update rules, under one stack.

    The models are in banks:

    - "fixed" has all pairs of a kernel and one of six rules on its features (|z|² = 1): gradient
      descent at four step sizes, which tracks, and recursive least squares with and without
      forgetting, which fit.
    - "diagonal" and "full" have least squares (λ of .003, of classes .01) on Gaussians of the
      widths .5, 1 and 2, of inputs under a metric that is learned from gradients
      (:class:`jaxmkl.models.MetricModels`).
    - "likelihood_diagonal" and "likelihood_full" have least squares (λ of .001 and .01) on one
      Gaussian whose metric has the largest marginal likelihood
      (:class:`jaxmkl.models.LikelihoodModels`, 10 steps of rate .2 on 500 examples).
    - "trees" has a forest that grows with the stream, and a boosted model of trees beside it
      (:class:`jaxmkl.models.TreeModels`, 24 stages).
    - "neighbours" has a mean of the latest 4,000 labels, near examples first
      (:class:`jaxmkl.models.NeighbourModels`), for tables in which rows of a kind lie close.
    - "linear" has least squares (λ of .01, .1 and 1) on the inputs themselves
      (:class:`jaxmkl.features.LinearFeatures`), for hundreds of inputs such as words of a text.

    A mixture of second order and stacks on it (:class:`jaxmkl.aggregate.Stack`) combine all models
    into one prediction; the stacks have the last three labels and errors as inputs besides, so
    that what follows from them alone is predicted, too. As a classifier it fits the labels ±1 by
    squared loss, and values are clipped to [-1, 1]. Several classes have one stack each, with
    λ = 10: three stacks cost more and err no less. Beside banks that learn a metric, the fixed
    bank has gradient steps on every second of its default kernels, and least squares with
    forgetting on every fourth: more of them cost more and err no less.

    Args:
      task: "regression" or "classification".
      step_sizes: rates η of :class:`jaxmkl.updates.OGD`; stable below 1.
      forgetting: factors φ of :class:`jaxmkl.updates.RLS` in the fixed bank; by default 1 and
        .999, or .999 alone beside banks that learn a metric.
      regularization: λ of the same.
      hedge_rate: η_g of Hedge, which then replaces the stack; 1 for regression and 0.1 for
        classification work well.
      aggregate: another aggregate instead of the stack.
      kernels: the kernels of the fixed bank, shift-invariant; by default those of
        :func:`jaxmkl.kernels.two_decades`, which on the papers' streams err less than those of
        raker.
      num_features: F, for each kernel of every bank; by default 120 with banks that learn a
        metric, and 72 without.
      select, query, orthogonal, num_outputs, num_classes: as for :func:`raker`.
      banks: the name of a bank, or several; by default "fixed", "full", "likelihood_diagonal" and
        "trees", or "fixed" alone if ``kernels`` are given. "fixed" takes some .3 of the time
        over 10,000 examples, .7 over 60,000 (:mod:`jaxmkl.guide.learned`).

    Raises:
      ValueError: if a bank is unknown, if ``kernels`` are given without the fixed bank, or if both
        ``hedge_rate`` and ``aggregate`` are given.

    References:
      Beyond the papers; features and gradient steps are those of Hong and Chae, equation (17).

    >>> expert_mkl(task="classification").num_models
    25
    >>> expert_mkl(banks="fixed").num_models
    48
    """
    bound = 1.0 if task == "classification" else None
    if aggregate is not None and hedge_rate is not None:
        raise ValueError(f"expert_mkl: hedge_rate must be None beside aggregate; got {hedge_rate}")
    if hedge_rate is not None:
        aggregate = Hedge(hedge_rate, bound=bound)
    elif aggregate is None:
        rule = Stack.rule if num_classes is None else RLS(10.0)
        aggregate = Stack(Mixture(bound=bound), rule, bound=bound)
    if banks is None:
        banks = LEARNED if kernels is None else "fixed"
    names = (banks,) if isinstance(banks, str) or not np.iterable(banks) else tuple(banks)
    for name in names or (banks,):
        wanted = "one or several of " + ", ".join(map(repr, BANKS))
        require(name in BANKS, "expert_mkl", "banks", name, wanted)
    wanted = "None without a fixed bank, which alone has given kernels"
    require(kernels is None or "fixed" in names, "expert_mkl", "kernels", kernels, wanted)
    by_gradient = tuple(shape for shape in SHAPES if shape in names)
    by_likelihood = tuple(shape for shape in SHAPES if f"likelihood_{shape}" in names)
    models, learns = list[Bank](), bool(by_gradient or by_likelihood)
    num_features = (120 if learns else 72) if num_features is None else num_features
    forgetting = (0.999 if learns else (1.0, 0.999)) if forgetting is None else forgetting
    features = FourierFeatures(num_features, orthogonal, "mean")
    if "fixed" in names:
        rules = OGD(step_sizes), RLS(regularization, forgetting)
        if learns and kernels is None:
            widths = np.asarray(two_decades().bandwidth)
            few = Gaussian(widths[::2]), Gaussian(widths[2::4])
            models += [FeatureModels(*own, features) for own in zip(few, rules, strict=True)]
        else:
            own = two_decades() if kernels is None else kernels
            models.append(FeatureModels(own, rules, features))
    if by_gradient:
        # sharp borders between classes make gradients noisy
        ridge = 0.003 if task == "regression" else 0.01
        inside = FeatureModels(Gaussian(RELATIVE_WIDTHS), RLS(ridge), features)
        models.append(MetricModels(inside, by_gradient))
    if by_likelihood:
        inside = FeatureModels(Gaussian(1.0), RLS((0.001, 0.01)), features)
        models.append(LikelihoodModels(inside, by_likelihood, steps=10, rate=0.2, examples=500))
    if len(models) > 1:
        models = [SideBySide(tuple(models))]
    if "trees" in names:
        loss = "squared" if task == "regression" else "logistic"
        models.append(TreeModels(stages=24, loss=loss))
    if "neighbours" in names:
        models.append(NeighbourModels())
    if "linear" in names:
        models.append(FeatureModels(Linear(), RLS((0.01, 0.1, 1.0)), LinearFeatures()))
    K = outputs_of("expert_mkl", task, num_outputs, num_classes)
    return MKL(tuple(models), aggregate, select, query, loss="squared", task=task, num_outputs=K)
