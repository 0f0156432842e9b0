"""Experimental design as an estimator."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import validate_data

from jaxmkl._checks import refuse_masked
from jaxmkl._types import Inputs, Labels
from jaxmkl.design.rows import METHODS, SEVERAL, choose_rows, prepared
from jaxmkl.evaluate import names_of
from jaxmkl.kernels import Kernel
from jaxmkl.sklearn._online import Parametrised

_OWN = "key", "pool_size", "gram", "grams", "features", "num_points"


class PoolSelector(Parametrised):
    """The choice of rows to label first in a pool without labels, by :mod:`jaxmkl.design`.

    By default the choice is greedy (TED), with a Gaussian whose bandwidth is the median distance
    of the rows, after columns are standardised. On most data sets these rows are better to learn
    from than rows drawn at random. "facility", which chooses rows that are near to many others, is
    as good for neighbours and many classes. This is not true of the papers' other methods, which
    are there for comparison.

    Nothing is transformed: ``X[selector.fit(X).indices_]`` are the rows to label. In a pipeline it
    is the last step, and ``fit_predict`` tells for each row whether it is chosen.

    Every method but "random" considers only the first of several equal rows. If more than 4,000
    are left, that many are drawn at random (2,000 for "cted", "rrss", "gmkal" and "lmkal"), and
    rare ones may be missed. :func:`jaxmkl.design.from_points` does the same without scikit-learn.

    Args:
      num_points: the number of rows to choose; by default all rows that the method ranks, see
        :class:`jaxmkl.design.Design`.
      method: "ted", "facility", "random", "cted", "rrss", "gmkal" or "lmkal".
      kernels: a kernel of the rows without scaling; for the last two methods, several. By default
        these two take the nine of :func:`jaxmkl.design.dictionary` of the rows without scaling,
        and the others take the Gaussian above, 1.4 times as wide for "facility". A sparse matrix,
        such as tf-idf of texts, is never scaled.
      random_state: the seed of the method "random", and of the draw from a large pool.
      parameters: the method's own, such as ``regularization``, by default .1; for "ted" it is a
        share of the mean of the kernel's diagonal (``share_of``), for the others a share of their
        lambda_max.

    Attributes:
      indices_: the chosen rows, the best first. The penalised methods rank only active rows; if
        these are fewer than ``num_points``, a warning says so, and all of them are chosen.
      ranking_: the chosen rows, then others in no particular order, if the method has any.
      pool_: the rows that were considered.
      scores_: the score of each row (n,), NaN where it was not considered.
      kernel_weights_: the weights of the kernels (P,); for "lmkal" (len(pool_), P).
      n_features_in_, feature_names_in_: as for all estimators.

    Raises:
      ValueError: by ``fit``, if a parameter is out of its range, or fewer rows than ``num_points``
        are distinct.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> chosen = PoolSelector(9).fit(X).indices_
    >>> sorted({*y[chosen].tolist()})
    [0, 1, 2]
    """

    def __init__(
        self,
        num_points: int | None = None,
        *,
        method: str = "ted",
        kernels: Kernel | None = None,
        random_state: Any = None,
        **parameters: Any,
    ) -> None:
        self.num_points = num_points
        self.method = method
        self.kernels = kernels
        self.random_state = random_state
        self._parameters = parameters

    def _names(self) -> Iterable[str] | None:
        known = METHODS.get(self.method) if isinstance(self.method, str) else None
        return None if known is None else [n for n in names_of(known) if n not in _OWN]

    def fit(self, X: Inputs, y: Labels = None) -> Self:
        """Rank the rows of X (n, D), which may be sparse; y is ignored."""
        refuse_masked("X", X)
        checks: dict[str, Any] = {"dtype": np.float64, "accept_sparse": "csr"}
        fewest = 2 if self.method in SEVERAL else 1  # kernels are scaled by distances
        X = validate_data(self, X, ensure_min_samples=fewest, **checks)
        self._refuse_unknown(self._parameters)
        standardise = self.kernels is None and self.method not in SEVERAL
        points = prepared("PoolSelector", X, standardise)
        asked = self.method, self._key(), self.num_points, self.kernels
        found, self.pool_ = choose_rows("PoolSelector", points, *asked, **self._parameters)
        self.ranking_ = np.asarray(found.ranking)
        self.indices_ = self.ranking_[: int(found.num_active)]
        self.scores_ = np.asarray(found.scores, np.float64)
        self.kernel_weights_ = np.asarray(found.kernel_weights)
        return self

    def fit_predict(self, X: Inputs, y: Labels = None) -> np.ndarray:
        """Fit, and return for each row (n,) whether it is chosen, a boolean."""
        return np.isin(np.arange(len(self.fit(X).scores_)), self.indices_)
