"""A tree grown by plain loops, given the same draws."""

import numpy as np


def grow(X, y, depth, draws):
    """Splits [[input, threshold, left, right]] and the leaf (N,) of each point.

    The children are other splits, or ~l for leaf l. ``draws(level)`` has the random numbers of a
    level; y is (N, K). Nodes of a level are met from left to right, and their points in the order
    of the parent's.
    """
    splits, leaf = [], np.zeros(len(X), int)
    level = [(0, None, np.arange(len(X)))] if len(X) > 1 else []
    for d in range(depth):
        of_nodes, of_inputs = (np.asarray(a) for a in draws(d))
        below = []
        for slot, (own, parent, points) in enumerate(level):
            n = len(points)
            first, stride = min(int(of_nodes[0, slot] * np.float32(n)), n - 1), max(n // 8, 1)
            spanning = X[points[[(first + i * stride) % n for i in range(8)]]]
            least, most = spanning.min(axis=0), spanning.max(axis=0)
            between = (of_nodes[1, slot] + of_inputs[0]) % np.float32(1)
            thresholds = least + between.astype(X.dtype) * (most - least)
            gains = np.array(
                [reduction(X[points, j], y[points], t) for j, t in enumerate(thresholds)]
            )
            if gains.max() <= 1e-9:
                continue
            ranks = (of_nodes[2, slot] + of_inputs[1]) % np.float32(1)
            best = int(np.argmax(np.where(gains >= (1 - 1e-4) * gains.max(), ranks, -1)))
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


def reduction(x, y, threshold):
    """By how much a split reduces the sum of squares around the means."""
    left = x <= threshold
    if left.all() or not left.any():
        return 0.0
    squares = [((part - part.mean(axis=0)) ** 2).sum() for part in (y, y[left], y[~left])]
    return squares[0] - squares[1] - squares[2]
