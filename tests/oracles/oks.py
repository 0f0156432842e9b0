"""Online kernel selection in plain NumPy: one example, one kernel at a time, in float64.

Written beside the paper (Zhang and Liao, Hypothesis Sketching for Online Kernel Selection in
Continuous Kernel Space: sections 3 and 4, Algorithm 1) and what it compares with (Chen et al.
2016, kernel least mean squares with adaptive kernel size, here with the hinge loss; Yang et al.
2012, OKS; kernel alignment before a Projectron), and sharing no code with the library.

What is random comes from outside: the uniform numbers of each round.

A round learns by the slope L' of the loss at the prediction: nothing where it is 0 (of
the hinge: y f >= 1). The steps on a kernel go down L' f with this L', wherever f is after the
weights moved.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tests.oracles.feature_mkl import slope as slope_of
from tests.oracles.support_mkl import TINY, Array, KernelFunction, SupportMKL, gaussian

# Eigenvalues of a Gram matrix below this share of the largest one count as 0. Two equal examples
# leave an eigenvalue of some 1e-16 that need not be 0; a cut-off of that size is down to chance.
CUTOFF = 1e-10
TIES = ("first", "oldest")


# --- kernels with parameters ---------------------------------------------------------------------


class ParametricKernel(NamedTuple):
    """A kernel and its derivative by its parameters.

    Attributes:
      values: of theta, rows (n, D) and one input (D,): k (n,).
      slopes: of the same: the derivative of each k by theta, (n,) and the shape of theta.
    """

    values: Callable[[Array, Array, Array], Array]
    slopes: Callable[[Array, Array, Array], Array]


def squared_distances(rows: Array, x: Array) -> Array:
    """(n,)"""
    return np.sum((rows - x) ** 2, axis=-1)


def gaussian_values(gamma: Array, rows: Array, x: Array) -> Array:
    """exp(-sum_d gamma_d (x_d - v_d)^2); a gamma without axes counts for all inputs."""
    return np.exp(-np.sum(gamma * (rows - x) ** 2, axis=-1))


def gaussian_slopes(gamma: Array, rows: Array, x: Array) -> Array:
    k = gaussian_values(gamma, rows, x)
    if gamma.ndim == 0:
        return -k * squared_distances(rows, x)
    return -k[:, None] * (rows - x) ** 2


GAUSSIAN = ParametricKernel(gaussian_values, gaussian_slopes)


def width_values(width: Array, rows: Array, x: Array) -> Array:
    """exp(-sum_d (x_d - v_d)^2 / (2 width_d^2)); a width without axes counts for all inputs."""
    return gaussian_values(0.5 / width**2, rows, x)


def width_slopes(width: Array, rows: Array, x: Array) -> Array:
    k = width_values(width, rows, x)
    if width.ndim == 0:
        return k * squared_distances(rows, x) / width**3
    return k[:, None] * (rows - x) ** 2 / width**3


GAUSSIAN_WIDTH = ParametricKernel(width_values, width_slopes)


def cauchy_values(width: Array, rows: Array, x: Array) -> Array:
    """1 / (1 + r^2 / width^2), width a number."""
    return 1.0 / (1.0 + squared_distances(rows, x) / width**2)


def cauchy_slopes(width: Array, rows: Array, x: Array) -> Array:
    k = cauchy_values(width, rows, x)
    return k**2 * 2.0 * squared_distances(rows, x) / width**3


CAUCHY = ParametricKernel(cauchy_values, cauchy_slopes)


def two_gaussians_values(theta: Array, rows: Array, x: Array) -> Array:
    """w1 exp(-r^2 / 2 b1^2) + w2 exp(-r^2 / 2 b2^2), theta = (w1, w2, b1, b2)."""
    w1, w2, b1, b2 = theta
    return w1 * gaussian(b1)(rows, x) + w2 * gaussian(b2)(rows, x)


def two_gaussians_slopes(theta: Array, rows: Array, x: Array) -> Array:
    w1, w2, b1, b2 = theta
    k1, k2, r2 = gaussian(b1)(rows, x), gaussian(b2)(rows, x), squared_distances(rows, x)
    return np.stack([k1, k2, w1 * k1 * r2 / b1**3, w2 * k2 * r2 / b2**3], axis=-1)


TWO_GAUSSIANS = ParametricKernel(two_gaussians_values, two_gaussians_slopes)


def moved(
    theta: Array, step: Array, low: Array | float, high: Array | float, logarithmic: bool
) -> Array:
    """theta - step inside its bounds, or log theta - theta step: d / d log = theta d / d theta."""
    if not logarithmic:
        return np.clip(theta - step, low, high)
    return np.exp(np.clip(np.log(theta) - theta * step, np.log(low), np.log(high)))


# --- OKS-SIL -------------------------------------------------------------------------------------


def draw(values: Array, u: Array) -> list[int]:
    """Places drawn one after the other, each by its value among those that are left.

    Args:
      values: (n,), none below 0; where all that are left are 0, each counts 1.
      u: (s,) uniform numbers of [0, 1), s <= n.

    Returns:
      s different places, in the order they were drawn.
    """
    drawn: list[int] = []
    for number in u:
        left = [place for place in range(len(values)) if place not in drawn]
        shares = [float(values[place]) for place in left]
        if not any(shares):
            shares = [1.0] * len(left)
        sums = np.cumsum(shares)
        positive = [i for i in range(len(left)) if shares[i] > 0]
        beyond = [i for i in positive if sums[i] > float(number) * sums[-1]]
        drawn.append(left[beyond[0] if beyond else positive[-1]])
    return drawn


def least_squares(gram: Array, k: Array, cutoff: float = CUTOFF) -> Array:
    """alpha (s,) of (2): the pseudo-inverse of the Gram matrix (s, s) times k (s,)."""
    return np.linalg.pinv(gram, rcond=cutoff) @ k


@dataclass
class HypothesisSketch:
    """Algorithm 1, OKS-SIL: a function of at most B stored examples and the kernel it lives in.

    Places are kept: what is new stands at the end or in the place of what it replaces.

    Args:
      theta: the kernel's parameters at the start, a number or an array.
      low: the smallest parameters, a number or an array.
      high: the largest parameters.
      kernel: the kernel; the Gaussian has theta = gamma, a number or one for each input.
      logarithmic: whether the logarithm of theta makes the steps; low and high bound theta itself.
      eta: step size of the weights.
      rate: the step size of the kernel is rate / t in round t = 1, 2, ...
      budget: B.
      samples: s, how many places the new example is compared with, at most B.
      nu: the squared distance from their span above which the example is new, in units of k(x, x).
      ties: which of several smallest |w| goes: the "first" place, or the "oldest" example.
      cutoff: of the pseudo-inverse.
      loss: "hinge", "logistic" or "squared".
      gradients: where L' is taken in a round that learns, at the "prediction" f(x), or at the
        "sketches": that of the weights at f^b, the old weights on the new basis functions (below
        (2)), and that of the kernel at f^w, the new weights on them (4).

    The fields ``did`` ("nothing", "added", "replaced" or "compensated"), ``drawn``, ``alpha`` and
    ``delta`` tell of the last round.
    """

    theta: Array | float
    low: Array | float
    high: Array | float
    kernel: ParametricKernel = GAUSSIAN
    logarithmic: bool = False
    eta: float = 1.0
    rate: float = 1.0
    budget: int = 150
    samples: int = 3
    nu: float = 0.9
    ties: str = "first"
    cutoff: float = CUTOFF
    loss: str = "hinge"
    gradients: str = "prediction"

    def __post_init__(self) -> None:
        assert 1 <= self.samples <= self.budget
        assert self.ties in TIES
        self.theta = np.asarray(self.theta, np.float64)
        self.rows: list[Array] = []
        self.weights: list[float] = []
        self.rounds: list[int] = []  # in which the example of a place came
        self.t = 0
        self.did, self.drawn, self.alpha, self.delta = "nothing", [], np.zeros(0), math.nan

    def k(self, x: Array, places: Sequence[int] | None = None) -> Array:
        """k(x, v_j) of all places or of some, (n,)."""
        rows = self.rows if places is None else [self.rows[j] for j in places]
        return self.kernel.values(self.theta, np.array(rows), x) if rows else np.zeros(0)

    def value(self, x: Array) -> float:
        """f(x)"""
        return float(sum((w * k for w, k in zip(self.weights, self.k(x), strict=True)), 0.0))

    def slope(self, x: Array) -> Array:
        """The derivative of f(x) by theta, of its shape."""
        slopes = self.kernel.slopes(self.theta, np.array(self.rows), x)
        total = np.zeros_like(self.theta)
        for w, one in zip(self.weights, slopes, strict=True):
            total = total + w * one
        return total

    def step(self, x: Array, y: float, u: Array) -> float:
        """One round, the prediction f(x); u (s,) decides which places are drawn."""
        x, y = np.asarray(x, np.float64), float(y)
        assert len(u) == self.samples
        self.t += 1
        self.did, self.drawn, self.alpha, self.delta = "nothing", [], np.zeros(0), math.nan
        f = self.value(x)
        slope = slope_of(self.loss, f, y)
        if slope != 0:
            place = self.sketch(x, u)
            if self.gradients == "sketches":  # f^b, then f^w
                slope = slope_of(self.loss, self.value(x), y)
            self.weigh(place, -self.eta * slope)
            if self.gradients == "sketches":
                slope = slope_of(self.loss, self.value(x), y)
            if self.did in ("added", "replaced"):
                self.move(slope * self.slope(x))
        return f

    def sketch(self, x: Array, u: Array) -> int:
        """Lines 7 to 16: the basis functions of f^b, with the old weights; the place of x."""
        if len(self.rows) < self.budget:
            self.did = "added"
            self.rows.append(x)
            self.weights.append(0.0)
            self.rounds.append(self.t)
            return len(self.rows) - 1
        self.drawn = draw(self.k(x), u)
        psi = self.k(x, self.drawn)
        gram = np.array([self.k(self.rows[j], self.drawn) for j in self.drawn])
        self.alpha = least_squares(gram, psi, self.cutoff)
        norm = float(self.kernel.values(self.theta, x[None], x)[0])
        self.delta = norm - float(psi @ self.alpha)
        if self.delta > self.nu * norm:
            self.did = "replaced"
            place = self.smallest()
            self.rows[place], self.rounds[place] = x, self.t
            return place
        self.did = "compensated"
        return -1

    def weigh(self, place: int, weight: float) -> None:
        """Line 17: the new weights; that of x is -eta L', or what compensates for x is."""
        if self.did == "compensated":
            for drawn, share in zip(self.drawn, self.alpha, strict=True):
                self.weights[drawn] += weight * float(share)
        else:
            self.weights[place] = weight

    def smallest(self) -> int:
        """The place whose weight is nearest to 0."""
        sizes = [abs(w) for w in self.weights]
        tied = [j for j, size in enumerate(sizes) if size == min(sizes)]
        return tied[0] if self.ties == "first" else min(tied, key=lambda j: self.rounds[j])

    def move(self, slope: Array) -> None:
        """Line 19: the kernel goes down the slope, inside its bounds."""
        rho = self.rate / self.t
        self.theta = moved(self.theta, rho * slope, self.low, self.high, self.logarithmic)


# --- OKL-GD --------------------------------------------------------------------------------------


class Centre(NamedTuple):
    x: Array
    coefficient: float
    theta: Array


@dataclass
class OwnKernels:
    """OKL-GD: centres that keep the kernels they came with.

    An example with a slope first moves the kernel by the value of the newest centre for it,
    then is added with the kernel moved.

    Args:
      theta: the kernel's parameters at the start, a number or an array; of the Gaussian its width.
      low: the smallest parameters, a number or an array.
      high: the largest parameters.
      kernel: the kernel.
      logarithmic: whether the logarithm of theta makes the steps; low and high bound theta itself.
      eta: step size of the coefficients.
      rate: the step size of the kernel is rate / t in round t = 1, 2, ...
      memory: the most centres; the oldest one goes.
      loss: "hinge", "logistic" or "squared".
    """

    theta: Array | float
    low: Array | float
    high: Array | float
    kernel: ParametricKernel = GAUSSIAN_WIDTH
    logarithmic: bool = False
    eta: float = 1.0
    rate: float = 1.0
    memory: int = 2000
    loss: str = "hinge"
    centres: list[Centre] = field(default_factory=list)  # the oldest first
    t: int = 0

    def __post_init__(self) -> None:
        self.theta = np.asarray(self.theta, np.float64)

    def value(self, x: Array) -> float:
        """f(x)"""
        total = 0.0
        for v, a, theta in self.centres:
            total += a * float(self.kernel.values(theta, v[None], x)[0])
        return total

    def slope(self, x: Array) -> Array:
        """The derivative of f(x) by the parameters of the newest centre."""
        if not self.centres:
            return np.zeros_like(self.theta)
        v, a, theta = self.centres[-1]
        return a * self.kernel.slopes(theta, v[None], x)[0]

    def step(self, x: Array, y: float) -> float:
        """One round, the prediction f(x)."""
        x, y = np.asarray(x, np.float64), float(y)
        self.t += 1
        f = self.value(x)
        slope = slope_of(self.loss, f, y)
        if slope != 0:
            step = self.rate / self.t * slope * self.slope(x)
            self.theta = moved(self.theta, step, self.low, self.high, self.logarithmic)
            self.centres.append(Centre(x, -self.eta * slope, self.theta))
            if len(self.centres) > self.memory:
                self.centres.pop(0)
        return f


# --- OKS -----------------------------------------------------------------------------------------


def oks_rate(num_kernels: int, num_rounds: int, delta: float = 0.2) -> float:
    """The paper's step size of the weights, sqrt(2 (1 - delta) ln N / (N T))."""
    return math.sqrt(2.0 * (1.0 - delta) * math.log(num_kernels) / (num_kernels * num_rounds))


def candidate_widths() -> list[float]:
    """The 25 widths of section 6, the widest first."""
    return [2.0 ** (-(i + 1) / 2) for i in range(-12, 13)]


@dataclass
class SampledKernel:
    """OKS: each round one kernel is drawn, predicts and learns, by gradient descent on the hinge.

    Args:
      kernels: the N kernel functions.
      eta: step size of the functions.
      rate: of the weights.
      delta: the share of p that is spread over all kernels.
      regularization: lambda: the coefficients of the kernel drawn, and of no other one, shrink by
        1 - eta lambda.

    A score of 0 is a mistake, whatever the label. ``mistakes`` counts those of the kernels drawn;
    ``drawn`` is the kernel of the last round, ``chances`` (N,) what it was drawn by.
    """

    kernels: Sequence[KernelFunction]
    eta: float = 1.0
    rate: float = 0.1
    delta: float = 0.2
    regularization: float = 0.0

    def __post_init__(self) -> None:
        N = len(self.kernels)
        self.weights = np.ones(N)
        self.rows: list[list[Array]] = [[] for _ in range(N)]
        self.coefficients: list[list[float]] = [[] for _ in range(N)]
        self.mistakes = 0
        self.drawn = -1
        self.chances = np.zeros(N)

    def value(self, i: int, x: Array) -> float:
        """f_i(x); a value too small for a float64 becomes the smallest normal one of its sign."""
        if not self.rows[i]:
            return 0.0
        coefficients = np.array(self.coefficients[i], np.longdouble)
        total = coefficients @ self.kernels[i](np.array(self.rows[i]), x)
        f = float(total)
        return math.copysign(TINY, total) if f == 0 and total != 0 else f

    def step(self, x: Array, y: float, u: float) -> float:
        """One round, the prediction f_I(x); the number u decides which kernel I is drawn."""
        x, y = np.asarray(x, np.float64), float(y)
        N, total = len(self.kernels), float(np.sum(self.weights))
        assert total > 0, "all weights are 0 in float64"
        self.chances = (1.0 - self.delta) * self.weights / total + self.delta / N
        beyond = np.flatnonzero(np.cumsum(self.chances) > u)
        i = int(beyond[0]) if len(beyond) else N - 1
        self.drawn = i
        f = self.value(i, x)
        self.coefficients[i] = [
            a * (1.0 - self.eta * self.regularization) for a in self.coefficients[i]
        ]
        if y * f < 1:
            self.rows[i].append(x)
            self.coefficients[i].append(self.eta * y)
        if y * f <= 0:
            self.mistakes += 1
            self.weights[i] *= math.exp(-self.rate / self.chances[i])
        return f


# --- Proj-KA -------------------------------------------------------------------------------------


def kernel_alignment(kernels: Sequence[KernelFunction], X: Array, y: Array) -> Array:
    """<K, y y'> / (n |K|) of each kernel on X (n, D), y (n,) of -1 and +1, in Frobenius's norm."""
    X, y = np.asarray(X, np.float64), np.asarray(y, np.float64)
    alignments = []
    for kernel in kernels:
        product, squares = 0.0, 0.0
        for x, label in zip(X, y, strict=True):
            k = kernel(X, x)
            product += label * float(k @ y)
            squares += float(k @ k)
        alignments.append(product / (len(y) * math.sqrt(squares)))
    return np.array(alignments)


def proj_ka(
    widths: Sequence[float], X: Array, y: Array, budget: int, first: int = 10_000
) -> tuple[float, SupportMKL]:
    """The width with the largest alignment on the first examples, and a Projectron that uses it.

    The Projectron has seen nothing yet; the whole stream X (T, D), y (T,) is for it.
    """
    alignments = kernel_alignment([gaussian(one) for one in widths], X[:first], y[:first])
    width = widths[int(np.argmax(alignments))]
    projectron = SupportMKL(
        [gaussian(width)],
        rule="perceptron",
        budget=budget,
        policy="project",
        threshold=0.0,
        combination="value",
    )
    return width, projectron
