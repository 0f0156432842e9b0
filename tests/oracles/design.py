"""Experimental design written out literally, in float64 NumPy: slow, and as the formulas stand.

Shapes: n points, P kernels. K (n, n), A (n, n) with rows a^i and columns a_j.
"""

import numpy as np


def rows(A: np.ndarray) -> np.ndarray:
    """Norms of the rows (n,)."""
    return np.linalg.norm(A, axis=1)


def largest_penalty(K: np.ndarray) -> float:
    """From it on A = 0 minimises the objective of CTED."""
    return 2 * rows(K).max()


def cted_objective(K: np.ndarray, A: np.ndarray, penalty: float) -> float:
    R = np.eye(len(K)) - A
    return float(np.trace(R.T @ K @ R) + penalty * rows(A).sum())


def cted_step(K: np.ndarray, sizes: np.ndarray, penalty: float) -> np.ndarray:
    """A = (K + lambda D)^-1 K with D = diag(1 / (2 sizes))."""
    return np.linalg.solve(K + penalty * np.diag(1 / (2 * sizes)), K)


def cted_steps(
    K: np.ndarray, sizes: np.ndarray, penalty: float, eps: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """A and the sizes of its rows after so many reweighting steps."""
    for _ in range(steps):
        A = cted_step(K, sizes, penalty)
        sizes = np.sqrt((A**2).sum(axis=1) + eps)
    return A, sizes


def cted(K: np.ndarray, penalty: float, eps: float, iterations: int) -> np.ndarray:
    """A after so many reweighting steps from rows of size 1."""
    return cted_steps(K, np.ones(len(K)), penalty, eps, iterations)[0]


def steepness(K: np.ndarray, A: np.ndarray, penalty: float) -> np.ndarray:
    """2 |row i of K (I - A)| / lambda (n,): at the minimum at most 1, and 1 for active rows."""
    return 2 * rows(K @ (np.eye(len(K)) - A)) / penalty


def duality_gap(K: np.ndarray, A: np.ndarray, penalty: float) -> float:
    """An upper bound of how far A is above the minimum of CTED, from a feasible dual point."""
    R = np.eye(len(K)) - A
    share = min(1.0, 1.0 / steepness(K, A, penalty).max())
    dual = 2 * share * np.trace(K @ R) - share**2 * np.trace(R.T @ K @ R)
    return cted_objective(K, A, penalty) - float(dual)


def errors(grams: np.ndarray, A: np.ndarray) -> np.ndarray:
    """e_t = tr(K_t (I - A)(I - A)') (P,)."""
    R = np.eye(A.shape[0]) - A
    return np.array([np.trace(K @ R @ R.T) for K in grams])


def consensus(grams: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """sum_t w_t² K_t, or with weights (n, P) the localized kernel."""
    if weights.ndim == 1:
        return sum(w**2 * K for w, K in zip(weights, grams, strict=True))
    return sum(np.outer(z, z) * K for z, K in zip(weights.T, grams, strict=True))


def gmkal(
    grams: np.ndarray, weights: np.ndarray, penalty: float, eps: float, turns: int, steps: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """A, weights (P,) and the objective after Algorithm 2 with so many steps of A a turn."""
    sizes = np.ones(grams.shape[1])
    for _ in range(turns):
        A, sizes = cted_steps(consensus(grams, weights), sizes, penalty, eps, steps)
        e = errors(grams, A)
        weights = (1 / e) / (1 / e).sum()
    return A, weights, cted_objective(consensus(grams, weights), A, penalty)


def localized_form(grams: np.ndarray, A: np.ndarray, Z: np.ndarray) -> float:
    """f(Z) = sum_t z_t'(K_t * G) z_t with G = (A - I)(A - I)'."""
    D = A - np.eye(len(A))
    return float(sum(z @ (K * (D @ D.T)) @ z for K, z in zip(grams, Z.T, strict=True)))


def localized_gradient(grams: np.ndarray, A: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Its gradient (n, P): 2 (K_t * G) z_t."""
    D = A - np.eye(len(A))
    columns = [2 * (K * (D @ D.T)) @ z for K, z in zip(grams, Z.T, strict=True)]
    return np.stack(columns, axis=1)


def projection(h: np.ndarray) -> np.ndarray:
    """The nearest point of the simplex to h (P,), by bisection on the shift."""
    low, high = h.min() - 1.0, h.max()
    for _ in range(200):
        middle = (low + high) / 2
        if np.maximum(h - middle, 0).sum() > 1:
            low = middle
        else:
            high = middle
    return np.maximum(h - (low + high) / 2, 0)


def projections(H: np.ndarray) -> np.ndarray:
    """The nearest point of the simplex to each row of H (n, P), by Algorithm 3."""
    b = -np.sort(-H, axis=1)
    shifts = (1 - np.cumsum(b, axis=1)) / np.arange(1, H.shape[1] + 1)
    rho = np.sum(b + shifts > 0, axis=1)
    return np.maximum(H + shifts[np.arange(len(H)), rho - 1][:, None], 0)


def rrss_objective(K: np.ndarray, A: np.ndarray, penalty: float) -> float:
    R = np.eye(len(K)) - A
    residuals = np.sqrt(np.maximum(np.einsum("ij,ik,kj->j", R, K, R), 0))
    return float(residuals.sum() + penalty * rows(A).sum())


def rrss_step(K: np.ndarray, sizes: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a_j = (K + c_j V)^-1 k_j, a linear system for every column."""
    V = np.diag(1 / (2 * sizes))
    columns = [np.linalg.solve(K + c[j] * V, K[:, j]) for j in range(len(K))]
    return np.stack(columns, axis=1)


def residuals(K: np.ndarray, A: np.ndarray) -> np.ndarray:
    """r_j² = (1_j - a_j)' K (1_j - a_j) (n,)."""
    R = np.eye(len(K)) - A
    return np.array([R[:, j] @ K @ R[:, j] for j in range(len(K))])


def rrss(K: np.ndarray, penalty: float, eps: float, iterations: int) -> np.ndarray:
    """A after so many reweighting steps from rows of size 1 and the residuals of A = 0.

    eps is that of the rows; for residuals it is multiplied by the mean of K_ii.
    """
    sizes, floor = np.ones(len(K)), eps * np.trace(K) / len(K)
    lengths = np.sqrt(np.diag(K) + floor)
    for _ in range(iterations):
        A = rrss_step(K, sizes, 2 * penalty * lengths)
        sizes = np.sqrt((A**2).sum(axis=1) + eps)
        lengths = np.sqrt(np.maximum(residuals(K, A), 0) + floor)
    return A


def best_weights(grams: np.ndarray, A: np.ndarray, Z: np.ndarray, steps: int) -> np.ndarray:
    """The minimum of f over rows on the simplex, by so many accelerated proximal steps from Z.

    They are Algorithm 4 with the Lipschitz constant of the gradient for L, which needs no search,
    restarted where f would rise. They find out which weights are 0. The others solve a linear
    system, as the values of f have no digits left for their last ones.
    """
    D = A - np.eye(len(A))
    M = grams * (D @ D.T)
    L = max(2 * np.linalg.eigvalsh(each)[-1] for each in M)

    def slope(Z: np.ndarray) -> np.ndarray:
        return np.einsum("tij,jt->it", 2 * M, Z)

    Y, a, f = Z, 1.0, np.inf
    for _ in range(steps):
        new = projections(Y - slope(Y) / L)
        value = float((slope(new) * new).sum() / 2)
        if value > f:
            Y, a = Z, 1.0
            continue
        after = (1 + np.sqrt(1 + 4 * a**2)) / 2
        Z, Y, a, f = new, new + (a - 1) / after * (new - Z), after, value
    return minimum_where(M, Z > 1e-6)


def minimum_where(M: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """The minimum of sum_t z_t' M_t z_t over rows on the simplex, from a guess what is positive.

    With a multiplier for the sum of each row, 2 (M_t z_t)_i is that multiplier where z_it > 0, and
    no less where it is 0. What fails one of both changes sides, until nothing does.
    """
    for _ in range(100):
        n, (point, kernel) = len(positive), np.nonzero(positive)
        sums = (np.arange(n)[:, None] == point).astype(float)
        same = kernel[:, None] == kernel
        H = 2 * M[kernel[:, None], point[:, None], point] * same
        system = np.block([[H, sums.T], [sums, np.zeros((n, n))]])
        Z, wanted = np.zeros(positive.shape), np.append(np.zeros(len(point)), np.ones(n))
        Z[positive] = np.linalg.solve(system, wanted)[: len(point)]
        slope = 2 * np.einsum("tij,jt->it", M, Z)
        less = slope < ((slope * Z).sum(axis=1) - 1e-13 * np.abs(slope).max())[:, None]
        after = (Z > 0) | (less & ~positive)
        if (after == positive).all():
            return Z
        positive = after
    raise ValueError("the minimum was not found")


def lmkal(
    grams: np.ndarray, Z: np.ndarray, penalty: float, eps: float, turns: int, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """A and weights (n, P) after Algorithm 5 with so many steps of A a turn."""
    sizes = np.ones(grams.shape[1])
    for _ in range(turns):
        A, sizes = cted_steps(consensus(grams, Z), sizes, penalty, eps, steps)
        Z = best_weights(grams, A, Z, 2000)
    return A, Z


def ted(K: np.ndarray, penalty: float, number: int) -> tuple[list[int], list[float]]:
    """Points taken one after the other, and tr(K) after each: every point is tried each time."""
    taken: list[int] = []
    traces: list[float] = []
    for _ in range(number):
        found = []
        for i in range(len(K)):
            left = K - np.outer(K[i], K[i]) / (K[i, i] + penalty)
            found.append(np.inf if i in taken else np.trace(left))
        best = int(np.argmin(found))
        taken.append(best)
        traces.append(float(found[best]))
        K = K - np.outer(K[best], K[best]) / (K[best, best] + penalty)
    return taken, traces


def ridge_error(K: np.ndarray, chosen: list[int], penalty: float) -> float:
    """tr(K - K_S (K_SS + lambda I)^-1 K_S'): what a greedy choice leaves, in one go."""
    C = K[:, chosen]
    small = K[np.ix_(chosen, chosen)] + penalty * np.eye(len(chosen))
    return float(np.trace(K - C @ np.linalg.solve(small, C.T)))


def facility(K: np.ndarray, number: int) -> tuple[list[int], list[float]]:
    """Points taken one after the other, and f(S) after each: every point is tried each time."""
    taken: list[int] = []
    values: list[float] = []
    for _ in range(number):
        found = [-np.inf if i in taken else covered(K, [*taken, i]) for i in range(len(K))]
        taken.append(int(np.argmax(found)))
        values.append(max(found))
    return taken, values


def covered(K: np.ndarray, chosen: list[int]) -> float:
    """f(S) = sum_x max(0, max_{i in S} K_xi)."""
    return float(np.maximum(K[:, chosen].max(axis=1), 0).sum())
