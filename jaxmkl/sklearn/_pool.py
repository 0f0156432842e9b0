"""Experimental design as an estimator."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import validate_data

from jaxmkl import design
from jaxmkl._checks import refuse_masked
from jaxmkl._pytree import require
from jaxmkl.kernels import Gaussian, Kernel, median_distance
from jaxmkl.recipes._task import names_of
from jaxmkl.sklearn._parameters import Parametrised

METHODS = {
    one.__name__: one
    for one in (design.random, design.ted, design.cted, design.rrss, design.gmkal, design.lmkal)
}
_OWN = "key", "pool_size", "gram", "grams", "features", "num_points"
_SEVERAL = "gmkal", "lmkal"


class PoolSelector(Parametrised):
    """Which rows of a pool without labels to label first, by :mod:`jaxmkl.design`.

    Nothing is transformed: ``X[selector.fit(X).indices_]`` are the rows to label. In a pipeline it
    is the last step, behind a scaler; its ``fit_predict`` then says of each row whether it is one.

    Args:
      num_points: rows to choose; by default those that are active, see
        :class:`jaxmkl.design.Design`.
      method: "random", "ted", "cted", "rrss", "gmkal" or "lmkal".
      kernels: a kernel, of the last two methods several. By default these take the nine of
        :func:`jaxmkl.design.dictionary`, the others a Gaussian of the median distance.
      random_state: of the method "random".
      parameters: the method's own, as ``regularization``.

    Attributes:
      indices_: the rows chosen, best first.
      ranking_: rows by their worth, best first: all of them, or ``num_points``.
      scores_: what each row is worth (n,).
      kernel_weights_: the weights of kernels (P,), or (n, P), of "lmkal".
      n_features_in_, feature_names_in_: as of all estimators.

    Raises:
      ValueError: by ``fit``, for a parameter out of its range.

    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), PoolSelector(9, method="ted")).fit(X)
    >>> sorted({*y[model[-1].indices_].tolist()})
    [0, 1, 2]
    """

    def __init__(
        self,
        num_points: int | None = None,
        *,
        method: str = "gmkal",
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

    def fit(self, X: Any, y: Any = None) -> Self:
        """Rank the rows of X (n, D), n at least 2; y is not looked at."""
        refuse_masked("X", X)
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        good = isinstance(self.method, str) and self.method in METHODS
        wanted = f"one of {', '.join(METHODS)}"
        require(good, "PoolSelector", "method", self.method, wanted)
        self._refuse_unknown(self._parameters)
        given = (self._key(), len(X)) if self.method == "random" else (self._grams(X),)
        found = METHODS[self.method](*given, num_points=self.num_points, **self._parameters)
        self.scores_, self.ranking_, number, self.kernel_weights_, *_ = map(np.asarray, found)
        self.indices_ = self.ranking_[: int(number) if self.num_points is None else None]
        return self

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit, and say of each row (n,) whether it is chosen, a boolean."""
        return np.isin(np.arange(len(self.fit(X).scores_)), self.indices_)

    def _grams(self, X: np.ndarray) -> Any:
        """Gram matrices (P, n, n), or the one (n, n)."""
        several = self.method in _SEVERAL
        if self.kernels is None:
            return design.dictionary(X) if several else Gaussian(median_distance(X)).gram(X)[0]
        good = isinstance(self.kernels, Kernel) and (several or self.kernels.num_kernels == 1)
        other = "or a KernelDictionary" if several else f"one for {self.method}"
        wanted = f"a kernel of jaxmkl, {other}"
        require(good, "PoolSelector", "kernels", self.kernels, wanted)
        return self.kernels.gram(X) if several else self.kernels.gram(X)[0]
