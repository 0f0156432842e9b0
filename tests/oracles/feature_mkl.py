"""The random-feature learners in plain NumPy: one example, one expert at a time, in float64.

Written beside the paper (Hong and Chae, Active Learning with Multiple Kernels, section III), with
its equation numbers, and sharing no code with the library. Experts are the pairs of a local rule
with a rate and a kernel; with one rule of one rate they are the paper's P kernels.

What is random comes from outside: the frequencies of the features, and for adaptive kernel
selection the noise of each round.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray


# --- losses --------------------------------------------------------------------------------------


def loss(name: str, f: float, y: float) -> float:
    if name == "squared":
        return (f - y) ** 2
    if name == "huber":
        return (f - y) ** 2 if abs(f - y) <= 1.0 else 2.0 * abs(f - y) - 1.0
    if name == "logistic":
        return float(np.logaddexp(0.0, -y * f))
    if name == "hinge":
        return max(0.0, 1.0 - y * f)
    raise ValueError(name)


def slope(name: str, f: float, y: float) -> float:
    """The derivative of the loss by f; at the kink of the hinge that of its flat side."""
    if name == "squared":
        return 2.0 * (f - y)
    if name == "huber":
        return 2.0 * (f - y) if abs(f - y) <= 1.0 else 2.0 * float(np.sign(f - y))
    if name == "logistic":
        return -y / (1.0 + np.exp(y * f))
    if name == "hinge":
        return -y if y * f < 1.0 else 0.0
    raise ValueError(name)


# --- local step ----------------------------------------------------------------------------------


@dataclass
class GradientDescent:
    """(17) with the regularized loss (18)."""

    rate: float
    regularization: float
    loss: str
    size: int

    def __post_init__(self) -> None:
        self.theta = np.zeros(self.size)

    def begin(self, t: int) -> None:
        pass

    def learn(self, z: Array, y: float) -> None:
        f = self.theta @ z
        gradient = slope(self.loss, f, y) * z + 2.0 * self.regularization * self.theta
        self.theta = self.theta - self.rate * gradient


@dataclass
class RecursiveLeastSquares:
    """Recursive least squares that forgets no faster than its covariance may grow.

    The covariance starts at I / regularization. A factor is fixed for ``period`` rounds: the
    forgetting factor, or where these rounds could raise the trace above ``max_growth`` times the
    first one, the larger factor with which they cannot. Before that, if anything was learned, a
    little of the diagonal that the period began with is added to it, in proportion to what was
    forgotten or, below the first trace, to what is missing from it. And an example's label has a
    larger variance where the example is so large that rounding drowns its own.
    """

    forgetting: float
    regularization: float
    max_growth: float
    period: int
    size: int

    def __post_init__(self) -> None:
        self.theta = np.zeros(self.size)
        self.covariance = np.eye(self.size) / self.regularization
        self.bound = self.max_growth * np.trace(self.covariance)
        self.learned = False
        self.first = np.trace(self.covariance)
        self.diagonal = np.diag(self.covariance)

    def begin(self, t: int) -> None:
        if t % self.period == 0:
            if self.learned:
                missing = 1 - self.diagonal.sum() / self.first
                lift = max(1000 * (self.forgetting**-self.period - 1), 8 * missing)
                self.covariance += np.diag(lift * np.finfo(float).eps * self.diagonal)
            self.learned = False
            self.diagonal = np.diag(self.covariance)
            trace = self.diagonal.sum()
            self.factor = max(self.forgetting, min(1.0, trace / self.bound) ** (1 / self.period))

    def learn(self, z: Array, y: float) -> None:
        gain = self.covariance @ z
        power = z @ gain
        if power <= 0:
            return
        self.learned = True
        # features that are divided by the root of the regularization have a variance of 1
        apart = self.diagonal @ z**2
        denominator = self.factor * max(1.0, 2 * self.period * np.finfo(float).eps * apart) + power
        self.theta = self.theta + gain * ((y - self.theta @ z) / denominator)
        self.covariance = (self.covariance - np.outer(gain, gain) / denominator) / self.factor


# --- the learner ---------------------------------------------------------------------------------


@dataclass
class Result:
    """The results round by round (T, ...), and the parameters at the end.

    ``weights`` and ``selected`` are those that the prediction of the round was made with.
    """

    prediction: Array
    queried: Array
    weights: Array
    selected: Array
    theta: list[Array]
    covariance: list[Array]
    log_weights: Array
    final_selected: Array
    skips: int


@dataclass
class FeatureMKL:
    """Raker, OMKL-AKS, AMKL, AMKL-AKS and the learner whose experts also differ in their rule.

    ``rules`` makes the expert of a kernel from the number of its parameters, one entry for each
    rule and rate. ``threshold`` (delta of (23)) switches adaptive kernel selection on and
    ``tolerance`` (eta_c of (33)) the confidence condition; None leaves them out. ``relative``
    has the tolerance in units of the variance of the labels learned, which takes two of them.
    ``penalty`` is the lambda of (18) in the losses of (22) and (39).
    """

    bandwidths: Sequence[float]
    frequencies: Array  # (P, F, D), for bandwidth 1
    rules: Sequence[Callable[[int], GradientDescent | RecursiveLeastSquares]]
    hedge_rate: float
    loss: str = "squared"
    feature_scale: str = "sum"
    bound: float = np.inf
    threshold: float | None = None
    noise: Callable[[int], tuple[Array, Array]] | None = None  # of round t: Gumbel, uniform (E,)
    tolerance: float | None = None
    max_skips: float = 0
    relative: bool = False
    penalty: float = 0.0
    experts: list = field(default_factory=list)

    def features(self, kernel: int, x: Array) -> Array:
        """(10); the scale "sum" leaves the division by the root of the number out."""
        phase = self.frequencies[kernel] @ x / self.bandwidths[kernel]
        z = np.concatenate([np.sin(phase), np.cos(phase)])
        return z if self.feature_scale == "sum" else z / np.sqrt(len(phase))

    def run(self, X: Array, y: Array) -> Result:
        num_kernels, num_features, _ = self.frequencies.shape
        kernels = [k for _ in self.rules for k in range(num_kernels)]
        self.experts = [rule(2 * num_features) for rule in self.rules for _ in range(num_kernels)]
        E = len(self.experts)
        cumulative = np.zeros(E)  # of the losses, times the hedge rate
        selected = np.ones(E, dtype=bool)
        asked: list[bool] = []
        history: list[tuple] = []
        learned: list[float] = []

        for t in range(len(y)):
            x, label = np.asarray(X[t], np.float64), float(y[t])
            for expert in self.experts:
                expert.begin(t)
            z = [self.features(kernel, x) for kernel in range(num_kernels)]

            # (16), (20) to (22), (31), (32): experts, weights, prediction
            raw = np.array([e.theta @ z[k] for e, k in zip(self.experts, kernels, strict=True)])
            f = np.clip(raw, -self.bound, self.bound)
            w = np.exp(-(cumulative - cumulative.min()))
            p = w / w.sum()
            chosen = np.flatnonzero(selected)
            prediction = sum(w[i] * f[i] for i in chosen) / sum(w[i] for i in chosen)

            # (33) and Algorithm 2: a_t = 0 if one of the last M labels was asked for and all agree
            ask = True
            if self.tolerance is not None:
                doubt = max(sum(p[i] * (f[i] - f[j]) ** 2 for i in chosen) for j in range(E))
                unit = np.var(learned) if self.relative and learned else 1.0
                known = len(learned) >= 2 or not self.relative
                agree = known and doubt <= self.tolerance * unit
                first = 0 if self.max_skips == np.inf else max(0, t - int(self.max_skips))
                ask = not (agree and any(asked[first:t]))
            asked.append(ask)
            history.append((prediction, ask, p, selected))
            if not ask:
                continue
            learned.append(label)

            # (17), (22): local and global step, both with the values before the update
            for i in range(E):
                theta = self.experts[i].theta
                judged = loss(self.loss, f[i], label) + self.penalty * (theta @ theta)
                cumulative[i] += self.hedge_rate * judged
                self.experts[i].learn(z[kernels[i]], label)

            # (23) to (30): one kernel by its weight, every other one with probability K / P
            if self.threshold is not None:
                assert self.noise is not None
                log_p = -(cumulative - cumulative.min())
                size = int(np.sum(np.exp(log_p - log_p.max()) > self.threshold))
                gumbel, uniform = self.noise(t)
                selected = uniform < size / E
                selected[np.argmax(log_p + gumbel)] = True

        rounds = [np.array(column) for column in zip(*history, strict=True)]
        return Result(
            *rounds,
            theta=[e.theta for e in self.experts],
            covariance=[e.covariance for e in self.experts if hasattr(e, "covariance")],
            log_weights=-(cumulative - cumulative.min()),
            final_selected=selected,
            skips=asked[::-1].index(True) if any(asked) else -1,
        )
