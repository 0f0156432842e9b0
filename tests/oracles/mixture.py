"""Mixture and Stack in plain NumPy, one model at a time, in float64, as their formulas say."""

import numpy as np

from tests.oracles.feature_mkl import RecursiveLeastSquares


class Polynomial:
    """ML-Poly with the gradient trick over n items, at one memory."""

    def __init__(self, n: int, memory: float) -> None:
        self.memory, self.R, self.V, self.B = memory, np.zeros(n), np.zeros(n), 0.0

    def weights(self, active) -> np.ndarray:
        w = np.zeros(len(self.R))
        for e in range(len(w)):
            if active[e] and self.R[e] > 0:
                w[e] = self.R[e] / (self.V[e] + self.B)
        if w.sum() == 0:
            w = np.array(active, float)
        return w / w.sum()

    def learn(self, r: np.ndarray, judged) -> None:
        largest = max((r[e] ** 2 for e in range(len(r)) if judged[e]), default=0.0)
        self.B = max(self.memory * self.B, largest)
        for e in range(len(r)):
            if judged[e]:
                self.R[e] = self.memory * self.R[e] + r[e]
                self.V[e] = self.memory * self.V[e] + r[e] ** 2


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
    def __init__(self, num_models: int, memories, slope, bound=None) -> None:
        self.slope, self.clip = slope, Clipped(1.0, bound)
        self.of_memory = [Polynomial(num_models, rho) for rho in memories]
        self.top = Polynomial(len(memories), 1.0)

    def combine(self, values, active):
        self.f = self.clip(values)
        self.p = np.array([m.weights(active) @ self.f for m in self.of_memory])
        self.value = self.top.weights(np.ones(len(self.p), bool)) @ self.p
        return self.value

    def weights(self):
        everyone = np.ones(len(self.of_memory[0].R), bool)
        rows = np.array([m.weights(everyone) for m in self.of_memory])
        return self.top.weights(np.ones(len(rows), bool)) @ rows

    def learn(self, y, judged) -> None:
        for m, p in zip(self.of_memory, self.p, strict=True):
            m.learn(self.slope(p, y) * (p - self.f), judged)
        self.top.learn(self.slope(self.value, y) * (self.value - self.p), np.ones(len(self.p)))
        self.clip.labels.append(y)


class Stack:
    def __init__(self, base, num_models, rules, slope, bound=None) -> None:
        self.base, self.slope, self.clip = base, slope, Clipped(0.1, bound)
        self.models = [
            RecursiveLeastSquares(forgetting, ridge, growth, period, num_models + 1)
            for ridge, forgetting, growth, period in rules
        ]
        self.top = Polynomial(1 + len(rules), 1.0)

    def combine(self, t, values, active):
        for model in self.models:
            model.begin(t)
        m = self.base.combine(values, active)
        self.x = np.append(np.where(active, self.base.f - m, 0.0), m)
        stacks = self.clip([m + model.theta @ self.x for model in self.models])
        self.said = np.append(m, stacks)
        self.value = self.top.weights(np.ones(len(self.said), bool)) @ self.said
        return self.value

    def learn(self, y, judged) -> None:
        m = self.base.value
        for model in self.models:
            model.learn(self.x, y - m)
        gains = self.slope(self.value, y) * (self.value - self.said)
        self.top.learn(gains, np.ones(len(gains)))
        self.base.learn(y, judged)
        self.clip.labels.append(y)
