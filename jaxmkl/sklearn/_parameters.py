"""Parameters that belong to the function that an estimator calls."""

from collections.abc import Iterable
from typing import Any, Self

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state


class Parametrised(BaseEstimator):
    """The base of estimators whose ``**parameters`` are those of a function that they call.

    :meth:`get_params` has those given, after the estimator's own; all parameters of the function
    may be set. As with any estimator, ``fit`` checks the arguments of the constructor. A subclass
    defines ``_names``, and ``__init__``, which stores them as ``_parameters``.
    """

    _parameters: dict[str, Any]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _names(self) -> Iterable[str] | None:
        """The names that ``parameters`` may have; None if the function is not known."""
        raise NotImplementedError

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name: the estimator's own, then those given to its function."""
        return super().get_params(deep) | self._parameters

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator, or of its function.

        Raises:
          ValueError: if neither has a parameter of that name.
        """
        own = {key for key in params if key.partition("__")[0] in self._get_param_names()}
        super().set_params(**{key: params[key] for key in own})
        others = {key: value for key, value in params.items() if key not in own}
        self._refuse_unknown(others)
        self._parameters = self._parameters | others
        return self

    def _refuse_unknown(self, given: Iterable[str]) -> None:
        known = self._names()
        if known is None:
            return
        for name in sorted({*given} - {*known}):
            own, others = ", ".join(self._get_param_names()), ", ".join(sorted(known)) or "none"
            text = f"it has {own}, and here of its function {others}"
            raise ValueError(f"{type(self).__name__}: invalid parameter {name!r}: {text}")

    def _key(self) -> jax.Array:
        """The key for ``random_state``: a whole number is a seed of JAX."""
        given, draws = self.random_state, check_random_state(self.random_state)
        whole = isinstance(given, int | np.integer)
        return jax.random.key(int(given) if whole else draws.randint(2**31 - 1))
