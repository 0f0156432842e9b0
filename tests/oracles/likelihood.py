"""A metric of the largest marginal likelihood in plain NumPy float64, on Gaussian processes.

Written from the density of a Gaussian vector of n labels, by its n x n covariance, and from the
chain rule through Fourier features; the library works with as many numbers as there are features.
"""

import numpy as np

Array = np.ndarray


class Evidence:
    """log Σ_p p_p(y) / P of labels (n, K) by the metric and by log λ, up to a constant.

    Features are sin(v'L'x), cos(v'L'x) over sqrt(F); the frequencies v are (P, F, D).
    """

    def __init__(self, frequencies: Array, X: Array, Y: Array) -> None:
        self.v, self.X, self.Y = frequencies, X, Y

    def of_kernel(self, v: Array, L: Array, log_ridge: float) -> tuple[float, Array, float]:
        """One kernel's value, and its derivatives by L (D, D) and log λ."""
        n, K = self.Y.shape
        F, ridge = len(v), np.exp(log_ridge)
        turns = self.X @ L @ v.T
        sine, cosine = np.sin(turns) / np.sqrt(F), np.cos(turns) / np.sqrt(F)
        Z = np.hstack([sine, cosine])
        C = np.eye(n) + Z @ Z.T / ridge
        inverse = np.linalg.inv(C)
        value, by_C = -0.5 * K * np.linalg.slogdet(C)[1], -0.5 * K * inverse
        for y in self.Y.T:
            solved = inverse @ y
            value -= 0.5 * n * np.log(y @ solved)
            by_C += 0.5 * n * np.outer(solved, solved) / (y @ solved)
        by_Z = 2 * by_C @ Z / ridge
        by_turns = by_Z[:, :F] * cosine - by_Z[:, F:] * sine
        return value, self.X.T @ (by_turns @ v), -np.sum(by_C * (Z @ Z.T)) / ridge

    def __call__(self, L: Array, log_ridge: float) -> tuple[float, Array, float]:
        each = [self.of_kernel(v, L, log_ridge) for v in self.v]
        values, by_L, by_ridge = zip(*each, strict=True)
        largest = max(values)
        shares = np.exp(np.array(values) - largest)
        value = largest + np.log(shares.mean())
        shares /= shares.sum()
        return value, np.tensordot(shares, np.array(by_L), 1), float(shares @ by_ridge)


def likeliest(
    evidence: Evidence, L: Array, ridge: float, *, diagonal: bool, steps: int, rate: float
) -> Array:
    """The metric L (D, D) after the steps of Adam, whose first rate falls by a cosine."""
    D = len(L)
    root, log_ridge = np.sqrt(D), np.log(ridge)
    at = np.log(np.diag(L) * root) if diagonal else L.ravel() * root
    at = np.append(at, log_ridge)
    first, second = np.zeros_like(at), np.zeros_like(at)
    for i in range(steps):
        L = np.diag(np.exp(at[:-1])) / root if diagonal else at[:-1].reshape(D, D) / root
        _, by_L, by_ridge = evidence(L, at[-1])
        by = np.diag(by_L) * np.diag(L) if diagonal else by_L.ravel() / root
        slope = -np.append(by, by_ridge)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        direction = first / (1 - 0.9 ** (i + 1))
        direction /= np.sqrt(second / (1 - 0.999 ** (i + 1))) + 1e-8
        at = at - rate * (1 + np.cos(np.pi * i / steps)) / 2 * direction
    return np.diag(np.exp(at[:-1])) / root if diagonal else at[:-1].reshape(D, D) / root
