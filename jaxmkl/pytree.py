"""Frozen dataclasses that JAX can see through, with declared fields: for classes of one's own.

A kernel, a rule, a query, a model or a learner is such a value. :func:`dataclass` makes one of a
class; each of its fields says by one of the other functions what it takes:

    positive()  nonnegative()     a number above 0, or at least 0
    share()                       a number in [0, 1]
    number(minimum=..., ...)      a number within any limits
    count()  flag()  choice(...)  static: a whole number, a boolean, one of some names
    part(Base)  parts(Base)       a value of a class, as a kernel or a rule; a tuple of such
    static()                      static, taken as it is

Numbers are leaves: they are swept by ``vmap`` and differentiated, and with ``ndim=1`` several may
stand for one. What is static is part of the compiled program. How to use them:
:mod:`jaxmkl.guide.extend`. An optimiser knows no limits: :func:`unconstrain` maps a learner to
numbers that have none, and :func:`constrain` back.
"""

from jaxmkl._pytree import (
    abstract,
    as_count,
    as_leaf,
    choice,
    count,
    dataclass,
    flag,
    nonnegative,
    number,
    part,
    parts,
    positive,
    qualified_name,
    registered,
    require,
    share,
    static,
)
from jaxmkl._ranges import constrain, unconstrain

__all__ = [
    "abstract",
    "as_count",
    "as_leaf",
    "choice",
    "constrain",
    "count",
    "dataclass",
    "flag",
    "nonnegative",
    "number",
    "part",
    "parts",
    "positive",
    "qualified_name",
    "registered",
    "require",
    "share",
    "static",
    "unconstrain",
]
