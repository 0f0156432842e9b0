"""Abilities: what only some parts can do, apart from the methods that every part has.

The protocols (:class:`jaxmkl.Learner`, :class:`jaxmkl.models.Bank`, :class:`jaxmkl.updates.Rule`,
:class:`jaxmkl.aggregate.Aggregate`) have the methods that each part of their kind must think
about. Everything else is a function here, by ``functools.singledispatch`` on the class of its
first argument. A part registers what it can beside its class. The default refuses in one sentence,
does nothing, or asks the parts inside, which a composite names once (:func:`inside`).

    growth       capacity  num_supports  enlarged  support_counts     room for support vectors
    lateness     awaiting  receiving  context  with_context           labels that come later
                 out_of_order                                         or from elsewhere
    certainty    variances                                            of values, in rounds
    sizes        squared_norms  reach  warn_of_steps                  of models and of their steps
    renewing     renews  renewed  gradients                           kernels from the memory
    merging      merged                                               shards become one
    exporting    exported  Operation  operation  on_fourier           without JAX
    importance   importances                                          of the inputs
    mixing       shares  Shares                                       of memories and stacks
    judging      advance_unjudged  judge                              losses of a block at once
    counting     diverged_unless                                      rounds that went wrong
    chance       noise                                                of aggregates that draw
    voting       signs                                                of aggregates for classes

A part of one's own does the same:

>>> import jax, jax.numpy as jnp, jaxmkl
>>> @jaxmkl.pytree.dataclass
... class Mine(jaxmkl.models.FeatureModels):
...     pass
>>> @jaxmkl.abilities.importances.register
... def _(bank: Mine, state):
...     return jnp.array([1.0, 0.0])
>>> learner = jaxmkl.MKL(Mine(jaxmkl.Gaussian(1.0)))
>>> learner.importances(learner.init(jax.random.key(0), num_inputs=2)).tolist()
[1.0, 0.0]
"""

from typing import Any

from jaxmkl.abilities.certainty import variances
from jaxmkl.abilities.chance import noise
from jaxmkl.abilities.counting import diverged_unless
from jaxmkl.abilities.exporting import Operation, exported, on_fourier, operation
from jaxmkl.abilities.growth import capacity, enlarged, num_supports, support_counts
from jaxmkl.abilities.importance import importances
from jaxmkl.abilities.judging import advance_unjudged, judge
from jaxmkl.abilities.lateness import awaiting, context, out_of_order, receiving, with_context
from jaxmkl.abilities.merging import merged
from jaxmkl.abilities.mixing import Shares, shares
from jaxmkl.abilities.renewing import gradients, renewed, renews
from jaxmkl.abilities.sizes import reach, squared_norms, warn_of_steps
from jaxmkl.abilities.voting import signs
from jaxmkl.abilities.walk import Inside, can, changed, inside

__all__ = [
    "Inside",
    "Operation",
    "Shares",
    "advance_unjudged",
    "awaiting",
    "can",
    "capacity",
    "changed",
    "context",
    "diverged_unless",
    "enlarged",
    "exported",
    "gradients",
    "importances",
    "inside",
    "judge",
    "merged",
    "noise",
    "num_supports",
    "on_fourier",
    "operation",
    "out_of_order",
    "reach",
    "receiving",
    "renewed",
    "renews",
    "shares",
    "signs",
    "squared_norms",
    "support_counts",
    "variances",
    "warn_of_steps",
    "with_context",
]

FINAL = ("importances",)
"""Methods of learners that call an ability, and are not to be written anew."""


class NoMethods:
    """Base of the protocols: an ability that is written as a method would never be called."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        for name in __all__:
            ability, method = globals()[name], vars(cls).get(name)
            if hasattr(ability, "register") and callable(method) and name not in FINAL:
                wanted = f"a function registered by jaxmkl.abilities.{name}.register"
                raise TypeError(f"{cls.__name__}: {name} must be {wanted}; got a method")
