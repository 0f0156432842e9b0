"""Online multi-task classification in plain NumPy: one round at a time, in float64.

Written from the formulas of Kernel sampling for online multi-task classification (its supplement:
equations 2 to 5 and Theorem 2) and of Calandriello, Lazaric and Valko (2017, kernel online row
sampling), and sharing no code with the library. Nothing is kept up to date that can be made anew:
every round factors the dictionary's Gram matrix again, and covariances are inverses of sums.

What is random comes from outside: the two uniform numbers of each example.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tests.oracles.support_mkl import Array, KernelFunction

LOSSES = ("hinge", "squared_hinge")
COMPONENTS = ("both", "local", "global", "mixed")
UPDATES = ("mistake", "unsure", "margin")
COVARIANCES = ("updated", "queried", "always")
GROWTHS = ("extend", "restart")
ASKING = ("all", "unsure", "margin", "chance")


class Point(NamedTuple):
    """A point of the dictionary and the probability it came in with."""

    x: Array
    probability: float


class Said(NamedTuple):
    """The prediction of one example before its label is seen."""

    value: float
    variance: float
    theta: float
    asked: bool


@dataclass
class Dictionary:
    """Points sampled by their leverage.

    Args:
      kernel: the kernel function.
      size: the most points.
      alpha: the ridge of the leverage.
      beta: how many points are wanted.
      accuracy: what a leverage is enlarged by.
      tolerance: the share of k(x, x) that must be new for a point to come in.

    ``leverage`` is that of the last example offered.
    """

    kernel: KernelFunction
    size: int = 100
    alpha: float = 1.0
    beta: float = 1.0
    accuracy: float = 0.5
    tolerance: float = 1e-8
    points: list[Point] = field(default_factory=list)
    refused: int = 0
    leverage: float = 0.0

    def rows(self) -> Array:
        """(n, D)"""
        return np.array([point.x for point in self.points])

    def gram(self) -> Array:
        """(n, n)"""
        return np.array([self.kernel(self.rows(), point.x) for point in self.points])

    def own(self, x: Array) -> float:
        """k(x, x)"""
        return float(self.kernel(x[None, :], x)[0])

    def embed(self, x: Array) -> Array:
        """L^-1 k(x) filled up with zeros, (size,)."""
        phi = np.zeros(self.size)
        if self.points:
            factor = np.linalg.cholesky(self.gram())
            phi[: len(self.points)] = np.linalg.solve(factor, self.kernel(self.rows(), x))
        return phi

    def probability(self, x: Array) -> float:
        """With which x is to come in."""
        a = self.own(x)
        if self.points:
            s = np.array([point.probability**-0.5 for point in self.points])
            k = s * self.kernel(self.rows(), x)
            ridge = s[:, None] * self.gram() * s[None, :] + self.alpha * np.eye(len(s))
            a -= float(k @ np.linalg.solve(ridge, k))
        self.leverage = (1.0 + self.accuracy) * a / (a + self.alpha)
        return min(1.0, self.beta * self.leverage)

    def offer(self, x: Array, u: float) -> bool:
        """True if x was added."""
        p = self.probability(x)
        if not u < p:
            return False
        phi = self.embed(x)
        new = self.own(x) - float(phi @ phi) > self.tolerance * self.own(x)
        if len(self.points) == self.size:
            self.refused += new
            return False
        if new:
            self.points.append(Point(x, p))
        return new


@dataclass
class MultiTask:
    """Gaussian models of tasks on one dictionary: one of all, and one of each.

    Args:
      num_tasks: K.
      dictionary: where examples are embedded.
      noise: lambda of equations 2 and 4.
      inertia: epsilon of equations 3 and 5.
      asking: "all", "unsure" (h / (h + Theta)), "margin" (h / (h + |e|)) or "chance" (h).
      h: how much is asked for.
      loss: "hinge" or "squared_hinge".
      components: "both", "local", "global", or "mixed" of these three.
      rate: of a mixture, the power of the likelihoods that make its weights.
      update: which asked examples move a mean: "mistake"; "unsure", also those with a loss where
        Theta <= 0; "margin", all with a loss.
      covariance: which examples shrink a covariance: those "updated", "queried", or "always".
      growth: of a dictionary that gets a point, the model is to "extend" or to "restart".
    """

    num_tasks: int
    dictionary: Dictionary
    noise: float = 1.0
    inertia: float = 1.0
    asking: str = "all"
    h: float = 0.1
    loss: str = "hinge"
    components: str = "both"
    update: str = "mistake"
    covariance: str = "updated"
    growth: str = "extend"
    rate: float = 0.5

    def __post_init__(self) -> None:
        assert self.loss in LOSSES
        assert self.components in COMPONENTS
        assert self.update in UPDATES
        assert self.covariance in COVARIANCES
        assert self.growth in GROWTHS
        assert self.asking in ASKING
        self.likelihood = np.ones(3)
        self.restart()

    def restart(self) -> None:
        """All means 0, all covariances I; the model of all tasks comes first.

        The means of ``alone`` learn as if there were no others; only a mixture has them.
        """
        D, K = self.dictionary.size, self.num_tasks
        self.means = np.zeros((K + 1, D))
        self.alone = np.zeros((K + 1, D))
        self.precisions = np.array([np.eye(D) for _ in range(K + 1)])

    @property
    def local(self) -> bool:
        return self.components != "global"

    @property
    def overall(self) -> bool:
        return self.components != "local"

    def sigma(self, which: int) -> Array:
        """The covariance: 0 of the model of all tasks, 1 + k of task k."""
        return np.linalg.inv(self.precisions[which])

    def weights(self) -> Array:
        """Weights of the sum, of each task alone and of all as one."""
        return self.likelihood / self.likelihood.sum()

    def voices(self, task: int, phi: Array) -> tuple[Array, Array]:
        """The values and variances (n,) of all predictions."""
        own, every = phi @ self.sigma(1 + task) @ phi, phi @ self.sigma(0) @ phi
        parts = [0] * self.overall + [1 + task] * self.local
        total = float(sum(self.means[part] @ phi for part in parts))
        of_total = float(own * self.local + every * self.overall)
        if self.components != "mixed":
            return np.array([total]), np.array([of_total])
        values = [total, self.alone[1 + task] @ phi, self.alone[0] @ phi]
        return np.array(values), np.array([of_total, own, every])

    def say(self, task: int, phi: Array, u: float) -> Said:
        """The value, its variance, Theta, and whether the label is wanted."""
        values, variances = self.voices(task, phi)
        if self.components == "mixed":
            p = self.weights()
            value = float(p @ values)
            # of a draw from the mixture: the mean square less the square of the mean
            variance = float(p @ (variances + values**2)) - value**2
        else:
            value, variance = float(values[0]), float(variances[0])
        theta = abs(value) - variance / (4.0 * self.inertia)
        if self.asking == "all":
            asked = True
        elif self.asking == "chance":
            asked = u < self.h
        elif self.asking == "margin":
            asked = value == 0 or u < self.h / (self.h + abs(value))
        else:
            asked = theta <= 0 or u < self.h / (self.h + theta)
        return Said(value, variance, theta, asked)

    def step(
        self, examples: dict[int, tuple[Array, float]], chances: dict[int, tuple[float, float]]
    ) -> dict[int, Said]:
        """One round.

        Args:
          examples: x and y of tasks; those that are not there have none in this round.
          chances: two uniform numbers for each: for the dictionary, and for the query.
        """
        for task in sorted(examples):
            x = np.asarray(examples[task][0], np.float64)
            if self.dictionary.offer(x, chances[task][0]) and self.growth == "restart":
                self.restart()
        phis = {
            task: self.dictionary.embed(np.asarray(x, np.float64))
            for task, (x, _) in examples.items()
        }
        said = {task: self.say(task, phi, chances[task][1]) for task, phi in phis.items()}
        voices = {task: self.voices(task, phi) for task, phi in phis.items()}
        shrunk = []
        for task, (_, y) in examples.items():
            one = said[task]
            wanted = one.asked and self.wanted(one.value, one.variance, y)
            queried = one.asked and self.covariance == "queried"
            if wanted or queried or self.covariance == "always":
                shrunk.append(task)
        for task in shrunk:
            outer = np.outer(phis[task], phis[task]) / self.noise
            if self.local:
                self.precisions[1 + task] += outer
            if self.overall:
                self.precisions[0] += outer
        whose = [(self.means, self.local, self.overall)]
        if self.components == "mixed":
            whose += [(self.alone, True, False), (self.alone, False, True)]
        for i, (means, local, overall) in enumerate(whose):
            moved = []
            for task, (_, y) in examples.items():
                value, variance = voices[task][0][i], voices[task][1][i]
                if said[task].asked and self.wanted(value, variance, y):
                    moved.append((task, y, max(0.0, 1.0 - y * value)))
            for task, y, loss in moved if local else ():
                self.move_local(means, task, phis[task], y, loss)
            if overall and moved:
                signed = np.array([y * phis[task] for task, y, _ in moved]).T
                self.move_global(means, signed, np.array([loss for *_, loss in moved]))
        if self.components == "mixed":
            for task, (_, y) in examples.items():
                if said[task].asked:
                    self.likelihood /= (1.0 + np.exp(-2.0 * y * voices[task][0])) ** self.rate
            self.likelihood /= self.likelihood.max()
        return said

    def wanted(self, value: float, variance: float, y: float) -> bool:
        """True if a prediction learns from a label."""
        loss, mistake = max(0.0, 1.0 - y * value), y * value <= 0
        unsure = abs(value) - variance / (4.0 * self.inertia) <= 0
        return {
            "mistake": mistake,
            "unsure": mistake or (unsure and loss > 0),
            "margin": loss > 0,
        }[self.update]

    def move_local(self, means: Array, task: int, phi: Array, y: float, loss: float) -> None:
        """Equation 3."""
        towards = self.sigma(1 + task) @ phi
        v = float(phi @ towards)
        if self.loss == "squared_hinge":
            g = loss / (self.inertia + v)
        else:
            g = min(1.0 / (2.0 * self.inertia), loss / v if v > 0 else math.inf)
        means[1 + task] += g * y * towards

    def move_global(self, means: Array, signed: Array, losses: Array) -> None:
        """Equation 5; signed (D, n) holds y phi of the n tasks that move."""
        sigma = self.sigma(0)
        if self.loss == "squared_hinge":
            n = signed.shape[1]
            inner = self.inertia * np.eye(n) + signed.T @ sigma @ signed
            means[0] += sigma @ signed @ np.linalg.solve(inner, losses)
        else:
            means[0] += sigma @ signed.sum(axis=1) / (2.0 * self.inertia)
