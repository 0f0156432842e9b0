"""Multiple kernel learning on a budget of support vectors: RBP, Forgetron, BOGD, BPAS, ...

Each kernel's model keeps B support vectors at most; where they are B and one more is to come, the
store makes room (:mod:`jaxmkl.models.supports`). The published rows are

                  update                    store          aggregate              select
    rbp           Perceptron                RemoveRandom   vote, by mistakes      all
    forgetron     Perceptron                SelfTuned      vote, by mistakes      all
    bogd          OGD (hinge)               RemoveOldest   vote, by mistakes      all
    bpas          PassiveAggressive         Replace        vote, by mistakes      all
    projectron    Perceptron                Project        vote, by mistakes      all
    omkl_b        OGD                       RemoveOldest   value, by loss         all

References:
  Lu, Hoi, Sahoo and Zhao, Budget online multiple kernel learning, Table 2; Sahoo, Hoi and Li
  (2014), Online multiple kernel regression.
"""

from typing import Any

from jaxmkl.aggregate import Hedge
from jaxmkl.kernels import Kernel, hong_chae
from jaxmkl.mkl import MKL
from jaxmkl.models import SupportModels
from jaxmkl.models.supports import (
    BudgetSupport,
    Eviction,
    Project,
    RemoveOldest,
    RemoveRandom,
    Replace,
    SelfTuned,
)
from jaxmkl.query import Query
from jaxmkl.recipes._parts import ASK_ALL, bank_of, vote
from jaxmkl.updates import OGD, PassiveAggressive, Perceptron, Update


def _budgeted(
    kernels: Kernel | None,
    update: Update,
    budget: int,
    eviction: Eviction,
    discount: Any,
    query: Query,
) -> MKL:
    bank = bank_of(kernels, update, BudgetSupport(budget, eviction))
    return MKL(bank, vote(discount), query=query)


def rbp(
    kernels: Kernel | None = None,
    *,
    budget: int = 256,
    discount: Any = 0.99,
    query: Query = ASK_ALL,
) -> MKL:
    """Randomized budget perceptrons: of a full budget one support vector at random goes.

    Args:
      kernels: as for :func:`jaxmkl.omkc_u`.
      budget: support vectors a kernel.
      discount: γ in (0, 1] of the vote.
      query: when a label is asked for.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Cavallanti, Cesa-Bianchi and Gentile (2007); Lu, Hoi, Sahoo and Zhao, Table 2.

    >>> rbp(budget=50).models[0].store
    BudgetSupport(budget=50, eviction=RemoveRandom(), period=32)
    """
    return _budgeted(kernels, Perceptron(), budget, RemoveRandom(), discount, query)


def forgetron(
    kernels: Kernel | None = None,
    *,
    budget: int = 256,
    discount: Any = 0.99,
    query: Query = ASK_ALL,
) -> MKL:
    """Self-tuned Forgetrons: coefficients shrink, then the oldest support vector goes.

    The formulas are those of :class:`jaxmkl.models.supports.SelfTuned`.

    Args:
      kernels: as for :func:`jaxmkl.omkc_u`.
      budget: support vectors a kernel.
      discount: γ in (0, 1] of the vote.
      query: when a label is asked for.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Dekel, Shalev-Shwartz and Singer (2005); Lu, Hoi, Sahoo and Zhao, Table 2.

    >>> forgetron(budget=50).models[0].store.eviction
    SelfTuned()
    """
    return _budgeted(kernels, Perceptron(), budget, SelfTuned(), discount, query)


def bogd(
    kernels: Kernel | None = None,
    *,
    budget: int = 256,
    step_size: Any = 0.1,
    regularization: Any = 0.1,
    discount: Any = 0.99,
    query: Query = ASK_ALL,
) -> MKL:
    """Bounded online gradient descent on the hinge loss; the oldest support vector goes.

        f <- (1 - η λ) f;    if y f < 1:   f <- f + η y k(x, ·)

    Args:
      kernels: as for :func:`jaxmkl.omkc_u`.
      budget: support vectors a kernel.
      step_size: η.
      regularization: λ.
      discount: γ in (0, 1] of the vote.
      query: when a label is asked for.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Zhao, Wang, Wu, Jin and Hoi (2012); Lu, Hoi, Sahoo and Zhao, Table 2.

    >>> bogd().models[0].update
    OGD(step_sizes=0.1, regularization=0.1, loss='hinge')
    """
    update = OGD(step_size, regularization, "hinge")
    return _budgeted(kernels, update, budget, RemoveOldest(), discount, query)


def bpas(
    kernels: Kernel | None = None,
    *,
    budget: int = 256,
    aggressiveness: Any = 0.1,
    discount: Any = 0.99,
    query: Query = ASK_ALL,
) -> MKL:
    """Budget passive aggressive, simple: the new support vector takes the place it best fills.

    The formulas are those of :class:`jaxmkl.models.supports.Replace`.

    Args:
      kernels: as for :func:`jaxmkl.omkc_u`.
      budget: support vectors a kernel.
      aggressiveness: C.
      discount: γ in (0, 1] of the vote.
      query: when a label is asked for.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Wang and Vucetic (2010), BPA-S; Lu, Hoi, Sahoo and Zhao, Table 2.

    >>> bpas().models[0].update
    PassiveAggressive(aggressiveness=0.1, normalized_step=True)
    """
    update = PassiveAggressive(aggressiveness)
    return _budgeted(kernels, update, budget, Replace(), discount, query)


def projectron(
    kernels: Kernel | None = None,
    *,
    budget: int = 256,
    threshold: Any = 0.0,
    discount: Any = 0.99,
    query: Query = ASK_ALL,
) -> MKL:
    """Projectrons: what does not fit the budget is projected onto the support vectors.

    The formulas are those of :class:`jaxmkl.models.supports.Project`. A kernel's inverse
    Gram matrix takes B² numbers.

    Args:
      kernels: as for :func:`jaxmkl.omkc_u`.
      budget: support vectors a kernel.
      threshold: squared distance from the span below which a new one is projected, at least 0.
      discount: γ in (0, 1] of the vote.
      query: when a label is asked for.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Orabona, Keshet and Caputo (2009).

    >>> projectron(threshold=0.01).models[0].store.eviction
    Project(threshold=0.01)
    """
    return _budgeted(kernels, Perceptron(), budget, Project(threshold), discount, query)


def omkl_b(
    kernels: Kernel | None = None,
    *,
    budget: int = 50,
    step_size: Any = 0.1,
    regularization: Any = 0.0,
    hedge_rate: Any = 1.0,
    loss: str = "squared",
    query: Query = ASK_ALL,
) -> MKL:
    """OMKL-B: as :func:`jaxmkl.omkl`, on a budget of support vectors; the oldest goes.

    Args:
      kernels: as for :func:`jaxmkl.omkl`.
      budget: support vectors a kernel.
      step_size: η.
      regularization: λ.
      hedge_rate: η_g.
      loss: "squared", "logistic" or "hinge".
      query: when a label is asked for.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Sahoo, Hoi and Li (2014); Hong and Chae, Table II.

    >>> omkl_b().models[0].store
    BudgetSupport(budget=50, eviction=RemoveOldest(), period=32)
    """
    kernels = hong_chae() if kernels is None else kernels
    update = OGD(step_size, regularization, loss)
    bank = SupportModels(kernels, update, BudgetSupport(budget, RemoveOldest()))
    return MKL(bank, Hedge(hedge_rate), query=query)
