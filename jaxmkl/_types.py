"""Types that annotations of several modules name."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

#: A numeric hyperparameter; an array if it is traced, or if learners are stacked.
Number = float | jax.Array
#: Numeric hyperparameters: one number, or several in a sequence or an array.
Numbers = float | Sequence[float] | Sequence[Sequence[float]] | np.ndarray | jax.Array
#: Any pytree of arrays that is passed on as it is: the state or the code of another part.
PyTree = Any
