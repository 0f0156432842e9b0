"""Types that annotations of several modules name, and a dtype that some compute in."""

from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import numpy as np
import numpy.typing as npt

#: A numeric hyperparameter; an array if it is traced, or if learners are stacked.
Number = float | jax.Array
#: Numeric hyperparameters: one number, or several in a sequence or an array.
Numbers = float | Sequence[float] | Sequence[Sequence[float]] | np.ndarray | jax.Array
#: Any pytree of arrays that is passed on as it is: the state or the code of another part.
PyTree = Any
#: The state, the codes, what a prediction hands to the update, and the noise of one part.
State = TypeVar("State")
Code = TypeVar("Code")
Aux = TypeVar("Aux")
Noise = TypeVar("Noise")
#: The results of rounds that a driver keeps, a pytree whose leaves have an axis of rounds.
Records = Any
#: The state, the code or the noise of a part that has none.
EMPTY: Any = ()
#: Numbers from anywhere: arrays of NumPy or JAX, data frames, nested sequences.
Data = npt.ArrayLike
#: Arrays of NumPy or of JAX, as those that were given.
AnyArray = np.ndarray | jax.Array
#: Rows (T, D) of any kind: arrays, frames, sparse rows, or the pairs (task, row) of many tasks.
Inputs = Any
#: Labels (T,), or what else the learner takes for them, NaN for none.
Labels = Any


def at_least_single(dtype: npt.DTypeLike) -> np.dtype:
    """A floating dtype, or float32 in place of a shorter one, which LAPACK does not know.

    JAX's own promotion refuses float64 beside float32 where it is strict.

    >>> at_least_single("float16"), at_least_single("float64")
    (dtype('float32'), dtype('float64'))
    """
    return np.promote_types(dtype, np.float32)
