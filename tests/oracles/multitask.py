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
COMPONENTS = ("both", "local", "global")
UPDATES = ("mistake", "unsure", "margin")
COVARIANCES = ("updated", "queried", "always")
GROWTHS = ("extend", "restart")
ASKING = ("all", "unsure", "margin", "chance")


class Point(NamedTuple):
    """A point of the dictionary and the probability it came in with."""

    x: Array
    probability: float


class Said(NamedTuple):
    """What is said of one example before its label is seen."""

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
        """Whether x came in."""
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
      components: "both", "local" or "global".
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

    def __post_init__(self) -> None:
        assert self.loss in LOSSES
        assert self.components in COMPONENTS
        assert self.update in UPDATES
        assert self.covariance in COVARIANCES
        assert self.growth in GROWTHS
        assert self.asking in ASKING
        self.restart()

    def restart(self) -> None:
        """All means 0, all covariances I; the model of all tasks comes first."""
        D, K = self.dictionary.size, self.num_tasks
        self.means = np.zeros((K + 1, D))
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

    def say(self, task: int, phi: Array, u: float) -> Said:
        """The value, its variance, Theta, and whether the label is wanted."""
        parts = [0] * self.overall + [1 + task] * self.local
        value = float(sum(self.means[part] @ phi for part in parts))
        variance = float(sum(phi @ self.sigma(part) @ phi for part in parts))
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
        moved, shrunk = [], []
        for task, (_, y) in examples.items():
            one = said[task]
            loss, mistake = max(0.0, 1.0 - y * one.value), y * one.value <= 0
            wanted = {
                "mistake": mistake,
                "unsure": mistake or (one.theta <= 0 and loss > 0),
                "margin": loss > 0,
            }[self.update]
            if one.asked and wanted:
                moved.append((task, y, loss))
            if self.covariance == "always" or (
                one.asked and (wanted or self.covariance == "queried")
            ):
                shrunk.append(task)
        for task in shrunk:
            outer = np.outer(phis[task], phis[task]) / self.noise
            if self.local:
                self.precisions[1 + task] += outer
            if self.overall:
                self.precisions[0] += outer
        if self.local:
            for task, y, loss in moved:
                self.move_local(task, phis[task], y, loss)
        if self.overall and moved:
            signed = np.array([y * phis[task] for task, y, _ in moved]).T
            self.move_global(signed, np.array([loss for *_, loss in moved]))
        return said

    def move_local(self, task: int, phi: Array, y: float, loss: float) -> None:
        """Equation 3."""
        towards = self.sigma(1 + task) @ phi
        v = float(phi @ towards)
        if self.loss == "squared_hinge":
            g = loss / (self.inertia + v)
        else:
            g = min(1.0 / (2.0 * self.inertia), loss / v if v > 0 else math.inf)
        self.means[1 + task] += g * y * towards

    def move_global(self, signed: Array, losses: Array) -> None:
        """Equation 5; signed (D, n) holds y phi of the n tasks that move."""
        sigma = self.sigma(0)
        if self.loss == "squared_hinge":
            n = signed.shape[1]
            inner = self.inertia * np.eye(n) + signed.T @ sigma @ signed
            self.means[0] += sigma @ signed @ np.linalg.solve(inner, losses)
        else:
            self.means[0] += sigma @ signed.sum(axis=1) / (2.0 * self.inertia)
