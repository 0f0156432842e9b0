"""Rows at even distances, of a stream whose length is not known."""

from typing import NamedTuple, Self

import numpy as np


class Spaced(NamedTuple):
    """Values of every s-th row of a stream, where s doubles whenever there is no more room.

    >>> kept = Spaced.begin(4, 1)
    >>> for rows in (3, 8):
    ...     places = kept.wanted(rows)
    ...     kept = kept.after(rows, (kept.rows + places)[:, None])
    >>> kept.numbers.tolist(), kept.found.ravel().tolist()
    ([0, 4, 8], [0.0, 4.0, 8.0])
    """

    stride: int
    rows: int
    values: np.ndarray
    """Those of the rows 0, s, 2 s, ..., zeros behind them (room, W)."""

    @classmethod
    def begin(cls, room: int, width: int, stride: int = 1) -> Self:
        """The state before the first row, with room for an even number of rows."""
        return cls(stride, 0, np.zeros((room, width)))

    def wanted(self, rows: int) -> np.ndarray:
        """The places, among so many further rows, of those whose values are wanted."""
        return np.arange(-self.rows % self.stride, rows, self.stride)

    def after(self, rows: int, values: np.ndarray) -> Self:
        """The state after so many further rows, with the values of those that are wanted."""
        stride, kept = self.stride, np.concatenate([self.found, values])
        while len(kept) > len(self.values):
            stride, kept = 2 * stride, kept[::2]
        full = np.zeros_like(self.values)
        full[: len(kept)] = kept
        return self._replace(stride=stride, rows=self.rows + rows, values=full)

    @property
    def numbers(self) -> np.ndarray:
        """The rows that are kept, counted from 0."""
        return np.arange(0, self.rows, self.stride)

    @property
    def found(self) -> np.ndarray:
        """The values of these rows."""
        return self.values[: len(self.numbers)]
