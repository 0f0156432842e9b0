"""Mixture and Stack in plain NumPy, one model at a time, in float64, as their formulas say."""

import numpy as np

from tests.oracles.feature_mkl import RecursiveLeastSquares, loss, slope


class Polynomial:
    """Second-order weights with the gradient trick over n items, at one memory."""

    def __init__(self, n: int, memory: float, loss: str, curvature: float = 0.0) -> None:
        self.memory, self.loss, self.curvature = memory, loss, curvature
        self.R, self.V, self.B = np.zeros(n), np.zeros(n), 0.0

    def weights(self, active) -> np.ndarray:
        w = np.zeros(len(self.R))
        for e in range(len(w)):
            if active[e] and self.R[e] > 0:
                s = np.sqrt(self.V[e] + self.B)
                w[e] = (self.R[e] / s) ** 2 / s
        if w.sum() == 0:
            w = np.array(active, float)
        return w / w.sum()

    def learn(self, p: float, f: np.ndarray, y: float, judged) -> None:
        r = np.zeros(len(f))
        for e in range(len(f)):
            if abs(p - f[e]) <= 16 * np.finfo(float).eps * abs(f[e]):
                continue  # a difference that is only rounding is no regret
            r[e] = (1 - self.curvature) * slope(self.loss, p, y) * (p - f[e])
            r[e] += self.curvature * (loss(self.loss, p, y) - loss(self.loss, f[e], y))
        largest = max((r[e] ** 2 for e in range(len(r)) if judged[e]), default=0.0)
        self.B = max(self.memory * self.B, largest)
        for e in range(len(r)):
            if judged[e]:
                self.R[e] = self.memory * self.R[e] + r[e]
                self.V[e] = self.memory * self.V[e] + r[e] ** 2


class Levels:
    """Mixtures at several memories, and the mixture of these without forgetting or curvature."""

    def __init__(self, n: int, memories, loss: str, curvature: float = 0.0) -> None:
        self.of_memory = [Polynomial(n, rho, loss, curvature) for rho in memories]
        self.top = Polynomial(len(memories), 1.0, loss)
        self.memories = np.ones(len(memories), bool)

    def combine(self, f, active) -> float:
        self.f = f
        self.p = np.array([m.weights(active) @ f for m in self.of_memory])
        self.value = self.top.weights(self.memories) @ self.p
        return self.value

    def weights(self) -> np.ndarray:
        everyone = np.ones(len(self.of_memory[0].R), bool)
        rows = np.array([m.weights(everyone) for m in self.of_memory])
        return self.top.weights(self.memories) @ rows

    def learn(self, y: float, judged) -> None:
        for m, p in zip(self.of_memory, self.p, strict=True):
            m.learn(p, self.f, y, judged)
        self.top.learn(self.value, self.p, y, self.memories)


class Clipped:
    """Values within the range of the labels so far, widened; or within [-bound, bound]."""

    def __init__(self, margin: float, bound: float | None) -> None:
        self.margin, self.bound, self.labels = margin, bound, []

    def __call__(self, values):
        if self.bound is not None:
            return np.clip(values, -self.bound, self.bound)
        if not self.labels:
            return np.array(values, float)
        low, high = min(self.labels), max(self.labels)
        room = self.margin * (high - low)
        return np.clip(values, low - room, high + room)


class Mixture:
    def __init__(self, num_models: int, memories, loss: str, bound=None, curvature=0.05) -> None:
        self.clip = Clipped(1.0, bound)
        self.levels = Levels(num_models, memories, loss, curvature)
        self.weights = self.levels.weights

    def combine(self, values, active):
        self.f = self.clip(values)
        self.value = self.levels.combine(self.f, active)
        return self.value

    def learn(self, y, judged) -> None:
        self.levels.learn(y, judged)
        self.clip.labels.append(y)


class Stack:
    def __init__(self, base, num_models, rules, loss: str, bound=None, lags=3) -> None:
        self.base, self.clip, self.lags = base, Clipped(0.1, bound), lags
        self.models = [
            RecursiveLeastSquares(forgetting, ridge, growth, period, num_models + 1 + 2 * lags)
            for ridge, forgetting, growth, period in rules
        ]
        self.levels = Levels(1 + len(rules), (1.0, 0.999), loss)
        self.labels, self.errors = [], []

    def combine(self, t, values, active):
        for model in self.models:
            model.begin(t)
        m = self.base.combine(values, active)
        inputs = [*np.where(active, self.base.f - m, 0.0), m]
        for known, unknown in ((self.labels, m), (self.errors, 0.0)):
            for back in range(1, self.lags + 1):
                last = known[-back] if back <= len(known) else unknown
                inputs.append(last - unknown)
        self.x = np.array(inputs)
        stacks = self.clip([m + model.theta @ self.x for model in self.models])
        said = np.append(m, stacks)
        return self.levels.combine(said, np.ones(len(said), bool))

    def learn(self, y, judged) -> None:
        m = self.base.value
        for model in self.models:
            model.learn(self.x, y - m)
        self.levels.learn(y, np.ones(len(self.levels.f), bool))
        self.base.learn(y, judged)
        self.clip.labels.append(y)
        self.labels.append(y)
        self.errors.append(y - m)
