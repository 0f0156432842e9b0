"""Trees grown by plain loops, given the same draws, and a boosted model made of them."""

import numpy as np

from tests.oracles.hash import hashed, uniform


def grow(X, y, depth, seed, least=1, shrinkage=0.0):
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
                [
                    gain_of(X[points, j], y[points], t, least, shrinkage)
                    for j, t in enumerate(thresholds)
                ]
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


def gain_of(x, y, threshold, least, shrinkage):
    """By how much a split reduces a sum of squares, times the points; NaN if a half is too small.

    The squares are those around the means of the points and ``shrinkage`` more, of label 0.
    """
    left = x <= threshold
    if min(left.sum(), (~left).sum()) < least:
        return np.nan
    if shrinkage:
        kept = [
            (part.sum(axis=0) ** 2).sum() / (len(part) + shrinkage)
            for part in (y, y[left], y[~left])
        ]
        return max((len(y) + 2 * shrinkage) * (kept[1] + kept[2] - kept[0]), 0.0)
    squares = [((part - part.mean(axis=0)) ** 2).sum() for part in (y, y[left], y[~left])]
    gain = squares[0] - squares[1] - squares[2]
    return len(y) * gain if gain > 1e-9 * squares[0] else 0.0


def leaf_of(splits, x):
    """The leaf that one example comes to."""
    at = 0 if splits else -1
    while at >= 0:
        input, threshold, left, right = splits[at]
        at = left if x[input] <= threshold else right
    return ~at


class Boosted:
    """Stages of 4 trees, each grown on what the ones before leave; then they go on learning.

    ``whole`` makes whole numbers of labels. Trees are numbered behind those of the forest; an
    order of the points has the hashes that leave ``bits`` for their numbers.
    """

    def __init__(self, X, y, seed, stages, depth, in_forest, bits, logistic, whole):
        n, K = y.shape
        self.logistic, self.added = logistic, 1.0 if logistic else 0.5
        self.start = y.mean(axis=0)
        if logistic:
            share = ((y > 0).sum(axis=0) + 0.5) / (n + 1)
            self.start = np.log(share / (1 - share))
        self.stages, F = [], np.tile(self.start, (n, 1))
        for turn in range(in_forest // 4, in_forest // 4 + min(stages, n // 64)):
            r, h = self.steps(F, y)
            draws = [(hashed(seed, ~turn, i) >> bits + 1, i) for i in range(n)]
            order = np.array([i for _, i in sorted(draws)])
            trees = []
            for g in range(4):
                rows = order[(np.arange((n + 1) // 2) + g * n // 4) % n]
                own = hashed(seed, turn * 4 + g)
                splits, _ = grow(X[rows], whole(r)[rows], min(depth, 10), own, 2, 0.5)
                leaf = np.array([leaf_of(splits, x) for x in X])
                S, H = (np.zeros((len(splits) + 1, K)) for _ in range(2))
                np.add.at(S, leaf, r)
                np.add.at(H, leaf, h)
                trees.append((splits, S, H))
                F = F + 0.5 / 4 * self.value(S, H)[leaf]
            self.stages.append(trees)
        # those that do not grow are one leaf
        while len(self.stages) < stages:
            self.stages.append([([], np.zeros((1, K)), np.zeros((1, K))) for _ in range(4)])

    def steps(self, F, y):
        if not self.logistic:
            return y - F, np.ones_like(F)
        p = 1 / (1 + np.exp(-F))
        return (y > 0) - p, p * (1 - p)

    def value(self, S, H):
        value = S / (H + self.added)
        return np.clip(value, -4, 4) if self.logistic else value

    def predict(self, x):
        """The value (K,), and F before each stage and behind the last."""
        F = [self.start]
        for trees in self.stages:
            at = [(leaf_of(splits, x), S, H) for splits, S, H in trees]
            F.append(F[-1] + 0.5 / 4 * sum(self.value(S[leaf], H[leaf]) for leaf, S, H in at))
        return 2 / (1 + np.exp(-F[-1])) - 1 if self.logistic else F[-1], F

    def learn(self, x, y, forgetting):
        for trees, F in zip(self.stages, self.predict(x)[1], strict=False):
            r, h = self.steps(F, y)
            for splits, S, H in trees:
                leaf = leaf_of(splits, x)
                S[leaf], H[leaf] = forgetting * S[leaf] + r, forgetting * H[leaf] + h
