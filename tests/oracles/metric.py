"""A bank of models with a learned metric in plain NumPy float64, one example at a time.

Written from Radhakrishnan et al. (2024), recursive feature machines: gradients of the present
models at all examples so far, their average outer product, and models begun anew.
"""

import numpy as np

Array = np.ndarray


class MetricBank:
    """Least squares and gradient steps on Fourier features sin(v'x), cos(v'x) over sqrt(F).

    Frequencies v are (P, F, D), already divided by the widths. The reservoir holds everything.
    ``signs(round, turn)`` (D,) are those of the columns of a full metric.
    """

    def __init__(self, frequencies, ridge, forgetting, rate, diagonal, first, outputs, signs):
        self.v = frequencies
        self.ridge, self.forgetting, self.rate = ridge, forgetting, rate
        self.diagonal, self.first, self.signs = diagonal, first, signs
        self.P, self.F, self.D = frequencies.shape
        self.K = outputs
        self.L = np.eye(self.D) / np.sqrt(self.D)
        self.losses = np.zeros(2 * self.P)
        self.X, self.Y = [], []
        self.begin()

    def begin(self):
        M = 2 * self.F
        self.S = [np.eye(M) / self.ridge for _ in range(self.P)]
        self.theta = np.zeros((2, self.K, self.P, M))  # least squares, then gradient steps

    def z(self, x):
        turns = self.v @ (self.L.T @ x)
        return np.concatenate([np.sin(turns), np.cos(turns)], axis=1) / np.sqrt(self.F)

    def gradient(self, theta, x, p):
        """The gradient of θ·z_p by x, by the chain rule through L'x."""
        turns = self.v[p] @ (self.L.T @ x)
        inside = np.zeros(self.D)
        for f in range(self.F):
            slope = theta[f] * np.cos(turns[f]) - theta[self.F + f] * np.sin(turns[f])
            inside += slope * self.v[p, f] / np.sqrt(self.F)
        return self.L @ inside

    def values(self, x):
        """(2, K, P)"""
        return np.einsum("rkpm,pm->rkp", self.theta, self.z(x))

    def learn_by_steps(self, z, y):
        for k in range(self.K):
            for p in range(self.P):
                f = self.theta[1, k, p] @ z[p]
                self.theta[1, k, p] -= self.rate * 2 * (f - y[k]) * z[p]

    def learn(self, x, y):
        z, values = self.z(x), self.values(x)
        errors = ((values - y[None, :, None]) ** 2).sum(axis=1).ravel()
        self.losses += 0.01 * (errors - self.losses)
        for p in range(self.P):
            g = self.S[p] @ z[p]
            d = self.forgetting + z[p] @ g
            for k in range(self.K):
                self.theta[0, k, p] += g * (y[k] - values[0, k, p]) / d
            self.S[p] = (self.S[p] - np.outer(g, g) / d) / self.forgetting
        self.learn_by_steps(z, y)
        self.X.append(x)
        self.Y.append(y)
        t = len(self.X)
        if t % self.first == 0 and (t // self.first).bit_count() == 1:
            for turn in range(2):
                self.renew(turn)

    def renew(self, turn):
        shares = (self.losses.min() / self.losses) ** 4
        shares /= shares.sum()
        M = np.zeros((self.D, self.D))
        for x in self.X:
            for e, share in enumerate(shares):
                rule, p = divmod(e, self.P)
                for k in range(self.K):
                    g = self.gradient(self.theta[rule, k, p], x, p)
                    M += share * np.outer(g, g)
        if self.diagonal:
            M = np.diag(np.diag(M))
        e, V = np.linalg.eigh(M)
        self.L = (V * np.sqrt(np.maximum(e, 0))) @ V.T
        if not self.diagonal:
            self.L *= self.signs(len(self.X), turn)
        self.L /= np.sqrt(np.sum(np.var(self.X, axis=0) * np.diag(self.L @ self.L.T)))
        self.begin()
        Z, Y = np.array([self.z(x) for x in self.X]), np.array(self.Y)
        count = min(1.0, 1.0 / ((1.0 - self.forgetting) * len(Y))) if self.forgetting < 1 else 1.0
        for p in range(self.P):
            A = self.ridge * np.eye(2 * self.F) + count * Z[:, p].T @ Z[:, p]
            self.S[p] = np.linalg.inv(A)
            for k in range(self.K):
                self.theta[0, k, p] = np.linalg.solve(A, count * Z[:, p].T @ Y[:, k])
        for z, y in zip(Z, Y, strict=True):
            self.learn_by_steps(z, y)
