"""Warnings of predictions of numbers that err more than the mean of the labels would."""

from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmkl import _tails
from jaxmkl._checks import warn_outside
from jaxmkl._devices import on_accelerator
from jaxmkl._learner import Learner, Output
from jaxmkl._types import Inputs, Labels, PyTree
from jaxmkl.losses import Squared
from jaxmkl.wrappers.wrapper import layers

JUDGED = 1000
"""Rows by which predictions are judged, at least."""
WORSE = 1.05
"""Their errors from which on they are worse, in units of those of the mean of the labels."""
LOOKED_AT = 2**18
"""Numbers of X among which heavy tails are looked for, at most."""


class Errors(NamedTuple):
    """Sums over rows: squared errors of predictions, and what those of the mean follow from."""

    number: int = 0
    squared: float = 0.0
    origin: Any = 0.0
    """The first labels, which are subtracted: sums of squares far from 0 lose their digits."""
    labels: Any = 0.0
    labels_squared: Any = 0.0

    def after(self, losses: np.ndarray, y: np.ndarray) -> "Errors":
        """The sums after rows with losses (n,) and labels (n,) or (n, K); NaN is no label.

        >>> Errors().after(np.full(1500, 4.0), np.arange(1500.0) % 2).ratio  # variance .25
        16.0
        """
        known = ~np.isnan(y) if y.ndim == 1 else ~np.isnan(y).any(axis=1)
        losses, y = losses[known].astype(float), y[known].astype(float)
        if not len(y):
            return self
        origin = self.origin if self.number else y[0]
        y = y - origin
        return Errors(
            self.number + len(y),
            self.squared + float(losses.sum()),
            origin,
            self.labels + y.sum(axis=0),
            self.labels_squared + (y**2).sum(axis=0),
        )

    @property
    def ratio(self) -> float:
        """Errors of the predictions in units of those of the mean; 0 where they are not judged."""
        if self.number < JUDGED:
            return 0.0
        of_mean = float(np.sum(self.labels_squared - np.square(self.labels) / self.number))
        return self.squared / of_mean if of_mean > 0 else 0.0


START = Errors()


def warned(
    driver: str,
    learner: Learner,
    examples: tuple[Inputs, Labels],
    recorded: PyTree,
    errors: Errors = START,
) -> Errors | None:
    """Warn in the name of a driver if predictions so far err more than the mean of labels would.

    Judged are squared losses, where records are the default's and lie on the host, as labels do,
    once there are enough rows, and whenever their number has doubled.

    Args:
      examples: X and y of the rows that were run.
      recorded: their records, of one run or of several along the leading axis.
      errors: those of earlier rows.

    Returns:
      Errors so far, or None if nothing is to be judged any more.
    """
    X, y = examples
    squared = any(isinstance(getattr(layer, "loss", None), Squared) for layer in layers(learner))
    if not squared or not isinstance(recorded, Output):
        return None
    losses = recorded.loss
    if on_accelerator(y) or on_accelerator(losses) or not losses.is_fully_addressable:
        return None
    before, y, each = errors.number, np.asarray(y), np.asarray(losses)
    errors = errors.after(each.mean(axis=0) if each.ndim == 2 else each, y)
    is_due = (errors.number // JUDGED).bit_length() > (before // JUDGED).bit_length()
    if not is_due or errors.ratio <= WORSE:
        return errors
    text = f"{driver}: predictions err {errors.ratio:.2f} times as much as the mean of the labels "
    text += f"would, by squares over {errors.number} rows"
    reasons = [*_of_target(y), *_of_inputs(X)]
    reasons += [
        "where inputs tell little, steps of a fixed size only add noise: take smaller ones"
    ]
    warn_outside(f"{text}; {'; '.join(reasons)} (jaxmkl.guide.troubleshooting)")
    return None


def _of_target(y: np.ndarray) -> list[str]:
    columns = y if y.ndim == 2 else y[:, None]
    return next(filter(None, map(_tails.of_target, columns.T)), [])


def _of_inputs(X: Inputs) -> list[str]:
    if not isinstance(X, np.ndarray | jax.Array) or on_accelerator(X):
        return []
    rows = np.asarray(X[: LOOKED_AT // max(X.shape[1], 1)]).astype(float)
    return _tails.of_inputs([f"column {i}" for i in np.flatnonzero(_tails.heavy_tailed(rows))])
