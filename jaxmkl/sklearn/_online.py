"""Bases of estimators: with parameters of a function, and learners, to which rows are a stream."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import jax
import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, shuffle
from sklearn.utils.validation import check_is_fitted, validate_data

from jaxmkl import abilities
from jaxmkl._checks import input_bound, refuse_masked
from jaxmkl._flags import Ranges, flags_of, scaler_of
from jaxmkl._learner import Learner, require_learner
from jaxmkl._pytree import require
from jaxmkl._types import Inputs, Labels
from jaxmkl.evaluate import arguments_for, names_of
from jaxmkl.evaluate.candidates import MANY_INPUTS
from jaxmkl.recipes import LEARNERS
from jaxmkl.streaming import run
from jaxmkl.wrappers import one_vs_rest, probabilities, scaled, scaled_targets

ROWS = 64  # that are predicted at a time
FAR = 2.0**10  # an offset of so many times what changes is subtracted
P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound="Online")


def unchanged_if_refused(fit: Callable[Concatenate[E, P], R]) -> Callable[Concatenate[E, P], R]:
    """Make a method that learns leave the estimator unchanged if it raises."""

    @wraps(fit)
    def tried(self: E, *args: P.args, **kwargs: P.kwargs) -> R:
        before = dict(self.__dict__)
        try:
            return fit(self, *args, **kwargs)
        except BaseException:  # an interrupt, too
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    return tried


def offset_of(numbers: np.ndarray) -> np.ndarray:
    """The first of numbers (n, ...), where single precision would blur their changes; else 0.

    >>> offset_of(np.array([[1.7e9, 3.0], [1.7e9 + 60, 1.0]]))
    array([1.7e+09, 0.0e+00])
    """
    numbers = numbers.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):
        near = FAR * np.ptp(numbers, axis=0)
    return np.where(np.abs(numbers[0]) > near, numbers[0], 0.0)


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


class Online(Parametrised):
    """The base of the regressor and the classifier."""

    _task: str

    def __init__(
        self,
        learner: str | Learner | Callable[..., Learner] = "expert_mkl",
        *,
        scale: bool = True,
        shuffle: bool = False,
        random_state: Any = None,
        **parameters: Any,
    ) -> None:
        self.learner = learner
        self.scale = scale
        self.shuffle = shuffle
        self.random_state = random_state
        self._parameters = parameters

    def _recipe(self) -> Any:
        """The function that makes the learner, or the object given in its place."""
        return LEARNERS.get(self.learner) if isinstance(self.learner, str) else self.learner

    def _names(self) -> Iterable[str] | None:
        recipe = self._recipe()
        if isinstance(recipe, Learner):
            return ()
        return names_of(recipe) if callable(recipe) else None

    @property
    def _given(self) -> str:
        """The name of the recipe, function or learner, for messages."""
        one = self.learner
        return one if isinstance(one, str) else getattr(one, "__name__", type(one).__name__)

    def _refuse(self, given: dict[str, Any]) -> None:
        """Refuse weights of examples, and any other argument that no learner takes."""
        for name, value in given.items():
            if name == "sample_weight" and value is None:
                continue
            raise TypeError(
                f"{type(self).__name__}: {name} is not supported: a learner takes rows as they "
                "come, all with the same weight; repeat those that should count for more"
            )

    def _made(self, num_outputs: int | None, num_inputs: int = 1, flags: Ranges = ()) -> Learner:
        """The learner inside its wrappers, for these numbers of targets or classes, and inputs.

        Of the inputs, ``flags`` are not scaled.
        """
        recipe, owner = self._recipe(), type(self).__name__
        good = isinstance(recipe, Learner) or callable(recipe)
        wanted = f"a learner, a function that makes one, or one of {', '.join(LEARNERS)}"
        require(good, owner, "learner", self.learner, wanted)
        self._refuse_unknown(self._parameters)
        if not isinstance(recipe, Learner):
            arguments = arguments_for(recipe, self._task, num_outputs)
            published = recipe in LEARNERS.values() and "banks" in names_of(recipe)
            if published and num_inputs > MANY_INPUTS:
                arguments["banks"] = "fixed"
            recipe = recipe(**arguments | self._parameters)
            require_learner(owner, recipe)
        given, wanted = (f"{self._given}, one of {recipe.task}", f"one of {self._task}")
        require(recipe.task == self._task, owner, "learner", given, wanted)
        if self._task == "classification" and num_outputs and recipe.num_outputs is None:
            recipe = one_vs_rest(recipe, num_outputs)
        least, what = (2, "classes") if self._task == "classification" else (1, "column(s)")
        given, wanted = (f"{K or least} {what}" for K in (num_outputs, recipe.num_outputs))
        require(recipe.num_outputs == num_outputs, owner, "y", given, f"of {wanted}")
        for name, value in (("scale", self.scale), ("shuffle", self.shuffle)):
            require(value in (True, False), owner, name, value, "True or False")
        made = scaled(recipe, scaler_of(flags)) if self.scale else recipe
        if self._task == "classification":
            return probabilities(made)
        return scaled_targets(made) if self.scale else made

    def _begin(self, X: Inputs, num_outputs: int | None) -> None:
        """Make the learner, and its state before the first row."""
        self.learner_ = self._made(num_outputs, X.shape[1], flags_of(X))
        has_offsets = self.scale and not scipy.sparse.issparse(X)
        self.X_offset_ = offset_of(X) if has_offsets else np.zeros(X.shape[1])
        dtype = jax.dtypes.canonicalize_dtype(X.dtype)
        self.state_ = self.learner_.init(self._key(), X.shape[1], dtype)

    @property
    def feature_importances_(self) -> np.ndarray:
        """The importance of each input (D,), of sum 1; only for learners that learn a metric."""
        check_is_fitted(self, "state_")
        found = abilities.importances(self.learner_, self.state_)
        if found is None:
            wanted = "one that learns a metric, as 'expert_mkl' with banks='diagonal'"
            text = f"learner must be {wanted}, for feature_importances_; got {self._given!r}"
            raise AttributeError(f"{type(self).__name__}: {text}")
        return np.asarray(found)

    def _ordered(self, X: Inputs, y: np.ndarray) -> tuple[Any, np.ndarray]:
        """The rows in the order in which ``fit`` takes them."""
        return shuffle(X, y, random_state=self.random_state) if self.shuffle else (X, y)

    def _learned(self, X: Inputs, y: np.ndarray) -> Self:
        self.state_, _ = run(self.learner_, self.state_, self._shifted(X), y)
        return self

    def _shifted(self, X: Inputs) -> Inputs:
        """The rows of X as the learner takes them."""
        return X - self.X_offset_ if self.X_offset_.any() else X

    def _checked(self, X: Inputs, *y: Labels, **options: Any) -> Any:
        """X (n, D), dense or CSR, and y if it is given, as scikit-learn checks them."""
        for name, array in zip("Xy", (X, *y), strict=False):
            refuse_masked(name, array)
        dtypes = [np.float64, np.float32]
        return validate_data(self, X, *y, accept_sparse="csr", dtype=dtypes, **options)

    def _predicted(self, X: Inputs) -> tuple[np.ndarray, np.ndarray | None]:
        """Values for the rows of X, and their variances or None.

        Both are (n,), or (n, K) for several targets or classes.
        """
        check_is_fitted(self, "state_")
        X = self._checked(X, reset=False)
        dtype = self.learner_.dtype(self.state_)
        largest, bound = float(np.abs(X).max()), input_bound(dtype)
        wanted = f"of magnitude at most {bound:.3g}"
        require(largest <= bound, type(self).__name__, "X", largest, wanted)
        # rows to predict are not the next of the stream
        state = abilities.out_of_order(self.learner_, self.state_)
        found = []
        for start in range(0, X.shape[0], ROWS):
            rows = X[start : start + ROWS]
            rows = rows.toarray() if scipy.sparse.issparse(rows) else rows
            rows = self._shifted(rows)
            self.learner_.check_inputs(rows)
            said = self.learner_.predict_many(state, rows)
            found.append((said.value, said.variance))
        return jax.tree.map(lambda *each: np.concatenate(each).astype(np.float64), *found)
