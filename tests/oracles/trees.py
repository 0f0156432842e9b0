"""A tree grown by plain loops, given the same draws."""

import numpy as np

from tests.oracles.hash import hashed, uniform


def grow(X, y, depth, seed):
    """Splits [[input, threshold, left, right]] and the leaf (N,) of each point.

    The children are other splits, or ~l for leaf l. ``seed`` is that of the tree; y (N, K) are
    whole numbers. Nodes of a level are met from left to right.
    """
    splits, leaf = [], np.zeros(len(X), int)
    level = [(0, None, np.arange(len(X)))] if len(X) > 1 else []
    for d in range(depth):
        of_level, below = hashed(seed, d), []
        for slot, (own, parent, points) in enumerate(level):
            bits = [hashed(hashed(of_level, ~slot), j) for j in range(X.shape[1])]
            thresholds = thresholds_of(X, points, of_level, np.array([uniform(b) for b in bits]))
            gains = np.array(
                [reduction(X[points, j], y[points], t) for j, t in enumerate(thresholds)]
            )
            if len(points) > 8 and np.isnan(gains).all():
                below.append((own, parent, points))
                continue
            if not np.nanmax(gains, initial=0) > 0:
                continue
            best = best_of(gains, bits)
            number = len(splits)
            if parent is not None:
                splits[parent[0]][2 + parent[1]] = number
            splits.append([best, thresholds[best], ~own, ~(number + 1)])
            goes_left = X[points, best] <= thresholds[best]
            children = (own, points[goes_left]), (number + 1, points[~goes_left])
            for side, (child, part) in enumerate(children):
                leaf[part] = child
                if len(part) > 1:
                    below.append((child, (number, side), part))
        level = below
    return splits, leaf


def thresholds_of(X, points, of_level, between):
    """Thresholds (D,) between the ends of all points, or of about 8 of more."""
    draws = np.array([uniform(hashed(of_level, i)) for i in points], np.float32)
    spanning = X[points[draws * np.float32(len(points)) < 8]]
    if len(spanning) == 0:
        return np.full(X.shape[1], np.nan)
    least, most = spanning.min(axis=0), spanning.max(axis=0)
    return least + between.astype(X.dtype) * (most - least)


def best_of(gains, bits):
    """The input of the largest gain, to 13 binary digits; of equals that of the largest bits."""
    index_bits = (len(gains) - 1).bit_length()
    low = max(10, index_bits + 4)
    ranks = []
    for j, (gain, own) in enumerate(zip(gains, bits, strict=True)):
        digits = int(np.nan_to_num(gain).astype(np.float32).view(np.int32)) >> low
        ranks.append((-1 if np.isnan(gain) else digits, own % 2**low >> index_bits, j))
    return max(ranks)[2]


def reduction(x, y, threshold):
    """By how much a split reduces the sum of squares around the means, times the points.

    It is NaN where no point is left out.
    """
    left = x <= threshold
    if left.all() or not left.any():
        return np.nan
    squares = [((part - part.mean(axis=0)) ** 2).sum() for part in (y, y[left], y[~left])]
    gain = squares[0] - squares[1] - squares[2]
    return len(y) * gain if gain > 1e-9 * squares[0] else 0.0
