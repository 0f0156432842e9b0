"""Adaptive kernel selection as the paper builds it: the collection of subsets, then the draw.

Hong and Chae, Active Learning with Multiple Kernels, (23) to (30), Remark 1 and (58).
"""

import math
from fractions import Fraction

import numpy as np

Array = np.ndarray


def subset_size(weights: Array, threshold: float) -> int:
    """K of (23): how many weights are above the threshold times the largest."""
    return int(np.sum(weights / weights.max() > threshold))


def collection_size(num_kernels: int, size: int) -> tuple[int, int]:
    """J = gamma K and the number of bins gamma P, with the gamma of (58)."""
    gamma = min(Fraction(math.comb(num_kernels, size), num_kernels), Fraction(2))
    occurrences, bins = gamma * size, gamma * num_kernels
    assert occurrences.denominator == 1, "each kernel lies in a whole number of bins"
    return int(occurrences), math.floor(bins)


def collection(rng: np.random.Generator, num_kernels: int, size: int, number: int = 1) -> Array:
    """Remark 1: toss each ball into J distinct bins, ``number`` times.

    Returns who is where, (number, P, bins), bool.
    """
    occurrences, bins = collection_size(num_kernels, size)
    tossed = np.zeros((number, num_kernels, bins), dtype=bool)
    tossed[:, :, :occurrences] = True
    return rng.permuted(tossed, axis=2, out=tossed)


def draw(rng: np.random.Generator, weights: Array, threshold: float, number: int) -> Array:
    """Subsets, (number, P) bool: of each collection the bin s drawn by the probabilities (29)."""
    tossed = collection(rng, len(weights), subset_size(weights, threshold), number)
    occurrences = tossed[0, 0].sum()
    alpha = np.einsum("p,npb->nb", weights, tossed) / (occurrences * weights.sum())
    total = np.cumsum(alpha, axis=1)
    s = np.sum(total <= rng.random(number)[:, None], axis=1)
    return tossed[np.arange(number), :, np.minimum(s, alpha.shape[1] - 1)]
