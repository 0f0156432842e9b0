"""Curves of fewer windows: as many as can be told apart in a drawing."""

import math
from collections.abc import Sequence

from jaxmkl.cli.results import Curves

MOST = 80  # windows of a drawing


def merged(curves: Curves) -> Curves:
    """Curves of at most ``MOST`` windows, each of several of the given ones.

    A value is the mean of the given ones that are there, each as often as its window has rows.
    """
    size = -(-len(curves.rows) // MOST)
    counts = [end - begin for begin, end in zip((0, *curves.rows), curves.rows, strict=False)]
    ends = [*curves.rows[size - 1 :: size]]
    if ends[-1:] != [curves.rows[-1]]:
        ends.append(curves.rows[-1])
    lines = (
        {name: _means(values, counts, size) for name, values in of.items()}
        for of in (curves.error, curves.labels)
    )
    return Curves(curves.window * size, tuple(ends), *lines)


def _means(values: Sequence[float], counts: Sequence[int], size: int) -> tuple[float, ...]:
    return tuple(
        _mean(values[i : i + size], counts[i : i + size]) for i in range(0, len(values), size)
    )


def _mean(values: Sequence[float], counts: Sequence[int]) -> float:
    known = [(v, n) for v, n in zip(values, counts, strict=True) if not math.isnan(v)]
    rows = sum(n for _, n in known)
    return sum(v * (n / rows) for v, n in known) if rows else math.nan
