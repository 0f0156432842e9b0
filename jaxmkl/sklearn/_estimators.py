"""The regressor and the classifier."""

from typing import Any, Literal, Self, overload

import numpy as np
from scipy.special import gammaln, log_expit, log_softmax, logsumexp
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from jaxmkl._checks import warn_outside
from jaxmkl._learner import Learner
from jaxmkl._pytree import require
from jaxmkl._types import Inputs, Labels
from jaxmkl.evaluate import arguments_for
from jaxmkl.labels import unboxed
from jaxmkl.sklearn._online import Online, offset_of, unchanged_if_refused


def _sorted_by_class(numbers: np.ndarray) -> bool:
    """Tell if classes come in so few runs that the order of the rows is unlikely to be chance.

    Rows of K classes, n_k rows each, have n! / Π n_k! orders, and at most C(n-1, r-1) K
    (K-1)^(r-1) of these have r runs. This bounds the share of the orders with as few runs as here.
    The rows count as sorted if there are at most 2 K runs and the bound is below 1/1000.
    """
    counts, n = np.unique(numbers, return_counts=True)[1], len(numbers)
    K, runs = len(counts), 1 + np.count_nonzero(np.diff(numbers))
    r = np.arange(K, runs + 1)
    few = gammaln(n) - gammaln(r) - gammaln(n - r + 1) + np.log(K) + (r - 1) * np.log(K - 1)
    orders = gammaln(n + 1) - gammaln(counts + 1).sum()
    return bool(1 < K <= runs <= 2 * K and logsumexp(few) - orders < np.log(1e-3))


def _plain(y: Any) -> Any:
    """Labels of dtypes that scikit-learn would read as floats, or not at all, as NumPy's own.

    These are booleans and whole numbers of pandas, objects of Python and strings of any length.
    """
    found = y.to_numpy() if hasattr(y, "to_numpy") else y
    kind = found.dtype.kind if isinstance(found, np.ndarray) else ""
    plain = unboxed(found.ravel()) if kind in ("O", "T") else found
    return plain if kind == "T" or (kind and plain.dtype.kind in "biuf") else y


class MKLRegressor(RegressorMixin, Online):
    """A learner of numbers as a regressor.

    ``fit`` is one pass over the rows in their order, as a stream; ``partial_fit`` continues from
    there, or begins. If rows are sorted by their labels, as those of iris are, the learner forgets
    each class while it learns the next: ``shuffle`` them. Rows to predict need not follow those
    that were learned, so what a learner would read from the last labels is left out.

    Args:
      learner: the name of a recipe in :data:`jaxmkl.LEARNERS`, a function that makes a learner, or
        a learner.
      scale: whether inputs are scaled by :class:`jaxmkl.wrappers.RunningMoments` and targets by
        :func:`jaxmkl.wrappers.scaled_targets`, in the same pass. Columns of 0 and 1 alone, in the
        first 100 rows or more that are given at once, are not scaled.
      shuffle: whether ``fit`` draws the order of the rows, by ``random_state``.
      random_state: the seed of the random features, or of whatever a learner draws, as
        scikit-learn takes it; a whole number is passed to ``jax.random.key``.
      parameters: arguments of the recipe, such as ``num_features``. They are parameters like all
        others in ``set_params``, ``clone`` and grid searches. With more than 5,000 inputs the
        kernels of "expert_mkl" are fixed, unless ``banks`` are given: to learn them takes a memory
        of thousands of rows.

    Attributes:
      learner_, state_: the learner inside its wrappers, and its state, for :func:`jaxmkl.run` and
        :func:`jaxmkl.save`; it learned X - X_offset_ and y - y_offset_.
      X_offset_, y_offset_: with ``scale``, the first number of each column of X, and of targets,
        that is more than a thousand times as large as what changes in the rows that are given at
        first, such as seconds since 1970, whose changes single precision would lose; else 0.
      n_features_in_, feature_names_in_: as for all estimators.
      feature_importances_: the importance of each input (D,), of sum 1; only for a learner that
        learns a metric, such as ``MKLRegressor("expert_mkl", banks="diagonal")``.

    Inputs may be sparse (one block of rows at a time becomes dense), and targets may have several
    columns with a recipe that has ``num_outputs``. Computations are in single precision, unless X
    is in float64 and JAX has double precision enabled.

    ``sample_weight`` other than None is refused, because a weight means different things to
    different rules: a gradient step could be longer, and least squares could count a row several
    times, but the step of a perceptron or of a passive aggressive rule is the one that satisfies
    one example, and weights of models, budgets and queries count examples. A repeated row means
    the same to all: ``np.repeat`` the rows, and shuffle them.

    Raises:
      ValueError: by ``fit`` and ``partial_fit``, if a parameter is out of its range or rows cannot
        be learned from.
      TypeError: by these for ``sample_weight``.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> regressor = MKLRegressor("expert_mkl", banks="fixed", num_features=20)
    >>> regressor = regressor.fit(X[:300], y[:300])
    >>> regressor.score(X[300:], y[300:]) > 0.2
    True

    Learners that know their variance predict how far labels are from predictions:

    >>> values, deviations = regressor.predict(X[300:], return_std=True)
    >>> bool(0.5 < np.mean(np.square((y[300:] - values) / deviations)) < 2)
    True
    """

    _task = "regression"

    def _several(self) -> bool:
        """True if y may have several columns."""
        recipe = self._recipe()
        if isinstance(recipe, Learner):
            return recipe.num_outputs is not None
        return callable(recipe) and "num_outputs" in arguments_for(recipe, self._task, 2)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._several()
        return tags

    def _begun(
        self, X: Inputs, y: Labels, refused: dict[str, Any], afresh: bool
    ) -> tuple[Any, np.ndarray]:
        """X and targets (n,), or (n, K), to be learned, perhaps ``afresh``."""
        self._refuse(refused)
        options: Any = {"y_numeric": True, "multi_output": self._several(), "reset": afresh}
        X, y = self._checked(X, y, **options)
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        require(y.dtype.kind in "biuf", type(self).__name__, "y", y.dtype, "real numbers")
        if afresh:
            self._begin(X, y.shape[1] if y.ndim == 2 else None)
            self.y_offset_ = offset_of(y) if self.scale else np.zeros(y.shape[1:])
        given, own = (f"{(*of.shape, 1)[0]} column(s)" for of in (y[0], self.y_offset_))
        require(given == own, type(self).__name__, "y", given, f"of {own}")
        return X, y - self.y_offset_

    @unchanged_if_refused
    def fit(self, X: Inputs, y: Labels, **refused: Any) -> Self:
        """Learn afresh from the rows of X (n, D) in their order; y is (n,) or (n, K)."""
        return self._learned(*self._ordered(*self._begun(X, y, refused, afresh=True)))

    @unchanged_if_refused
    def partial_fit(self, X: Inputs, y: Labels, **refused: Any) -> Self:
        """Continue to learn, in one pass over some more rows."""
        return self._learned(*self._begun(X, y, refused, afresh=not hasattr(self, "state_")))

    @overload
    def predict(self, X: Inputs, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(self, X: Inputs, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self, X: Inputs, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the rows; nothing is learned.

        Args:
          X: (n, D).
          return_std: whether to return the standard deviations of the labels as well, which
            include noise and the uncertainty of the prediction.

        Returns:
          (n,), or (n, K) for several targets; or two such arrays.

        Raises:
          ValueError: for ``return_std``, if the learner does not know its variance. Those that do
            are ``expert_mkl`` and any in :func:`jaxmkl.wrappers.predictive`.
        """
        values, variances = self._predicted(X)
        values = values + self.y_offset_
        if not return_std:
            return values
        wanted = "one that knows its variance, as 'expert_mkl', with return_std"
        owner = type(self).__name__
        require(variances is not None, owner, "learner", self._given, wanted)
        return values, np.sqrt(np.asarray(variances))


class MKLClassifier(ClassifierMixin, Online):
    """A learner of classes as a classifier, of two or several, with probabilities.

    Several classes are learned one against the rest: on shared features if the recipe has
    ``num_classes``, else by :func:`jaxmkl.wrappers.one_vs_rest`. Probabilities come from
    :func:`jaxmkl.wrappers.probabilities`. A recipe whose default loss is the squared one gets the
    logistic loss. Everything else is as for :class:`MKLRegressor`.

    Attributes:
      classes_: the classes (K,), sorted.

    Warns:
      UserWarning: by ``fit`` without ``shuffle``, if the rows are sorted by class: K classes come
        in at most 2 K runs, whose probability by chance alone is below 1/1000.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> classifier = MKLClassifier("raker", num_features=20, random_state=0).fit(X[:400], y[:400])
    >>> classifier.score(X[400:], y[400:]) > 0.9, classifier.predict_proba(X[400:]).shape
    (True, (169, 2))
    """

    _task = "classification"

    def _begin_with(self, X: Inputs, classes: np.ndarray) -> None:
        K = len(classes)
        if K < 2:
            text = "y must be of two classes or more; got 1 class"
            raise ValueError(f"{type(self).__name__}: {text}")
        self._begin(X, K if K > 2 else None)
        self.classes_ = classes

    def _numbers(self, y: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Labels as the learner reads them: -1 and +1 for two classes, else 0 to K - 1."""
        # NumPy would compare the word "9" with the number 9, and sort words in another way
        of_words = [np.asarray(one).dtype.kind in "USTO" for one in (y, classes)]
        unknown = np.setdiff1d(y, classes) if of_words[0] == of_words[1] else np.unique(y)
        if len(unknown):
            known = f"of the classes {classes}"
            raise ValueError(f"{type(self).__name__}: y must be {known}; got {unknown}")
        found = np.searchsorted(classes, y).astype(np.float32)
        return found if len(classes) > 2 else 2.0 * found - 1.0

    @unchanged_if_refused
    def fit(self, X: Inputs, y: Labels, **refused: Any) -> Self:
        """Learn afresh from the rows of X (n, D) in their order; y is (n,)."""
        self._refuse(refused)
        X, y = self._checked(X, _plain(y))
        check_classification_targets(y)
        classes = np.unique(y)
        numbers = self._numbers(y, classes)
        self._begin_with(X, classes)
        if not self.shuffle and _sorted_by_class(numbers):
            text = "y is sorted by class, and fit is one pass over the rows in their order: each "
            text += "class is forgotten for the next; have shuffle=True"
            warn_outside(f"{type(self).__name__}: {text}", UserWarning)
        return self._learned(*self._ordered(X, numbers))

    @unchanged_if_refused
    def partial_fit(self, X: Inputs, y: Labels, classes: Any = None, **refused: Any) -> Self:
        """Continue to learn, in one pass over some more rows.

        Args:
          X, y: as for :meth:`fit`.
          classes: all classes that will occur; required at the first call, unless ``fit`` was
            called before.
        """
        self._refuse(refused)
        first = not hasattr(self, "state_")
        X, y = self._checked(X, _plain(y), reset=first)
        if first and classes is None:
            text = "classes must be passed on the first call to partial_fit"
            raise ValueError(f"{type(self).__name__}: {text}")
        own = self.classes_ if classes is None else np.unique(_plain(classes))
        if not first and not np.array_equal(own, self.classes_):
            known = f"those of the first call, {self.classes_}"
            raise ValueError(f"{type(self).__name__}: classes must be {known}; got {classes}")
        numbers = self._numbers(y, own)
        if first:
            self._begin_with(X, own)
        return self._learned(X, numbers)

    def score(self, X: Inputs, y: Labels, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted, perhaps weighted."""
        return super().score(X, _plain(y), sample_weight)

    def decision_function(self, X: Inputs) -> np.ndarray:
        """Log-odds (n,) of the second of two classes; for several, the (n, K) before a softmax."""
        return self._predicted(X)[0]

    def predict_proba(self, X: Inputs) -> np.ndarray:
        """Return the probabilities (n, K), in the order of ``classes_``."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Inputs) -> np.ndarray:
        """Return the logarithms of the probabilities (n, K), finite where they round to 0."""
        z = self.decision_function(X)
        several = z.ndim == 2
        return log_softmax(z, axis=1) if several else np.stack([*map(log_expit, (-z, z))], axis=1)

    def predict(self, X: Inputs) -> np.ndarray:
        """Return the most probable class of each row (n,)."""
        z = self.decision_function(X)
        return self.classes_[(z > 0).astype(int) if z.ndim == 1 else z.argmax(axis=1)]
