r"""Bounds of the papers' theorems that a run can check, on a generated stream of two classes.

SPA (Lu, Hoi, Sahoo and Zhao), for kernels with k(x, x) = 1, the hinge l and any f:

    a kernel's support vectors    E N <= min(α T / β, V / β)                           Theorem 2
    the losses of one kernel      E Σ l_t(f_t) < V                                       Lemma 1
    V = Σ l_t(f) + |f|²/(2η) + η β T / min(α, sqrt(β η))

Many tasks (the supplement), for any weights μ of the coordinates φ_t, U the rounds with a step:

    Σ l_t(μ_t) - Σ l_t(μ) <= (λ/4ε) log |Σ_T⁻¹| + ε max_U |μ_t - μ|² tr Σ_T⁻¹          Theorem 1
    E M <= E Σ l_t(μ) + Σ_{t in M and Θ <= 0} φ'Σφ/(4 h ε)
           + (ε/h) max_U |μ_t - h μ|² tr Σ_T⁻¹                                         Theorem 2

for one Gaussian, whose step the proof has: that of all tasks, (4) and (5), which is not clipped.
Theorem 1 moves it on every hinge loss, Theorem 2 on mistakes. In the place of the determinant the
supplement prints λ log(1 + K T), though it may be as many times as large as there are coordinates.

Not here, as their constants are not stated: Theorem 1 of SPA, whose μ depends on the largest loss;
Theorem 1 of OKS-SIL, whose O(·) has no constants, and whose widths, smaller than the distance of
any two basis functions over sqrt 3, are none that it is run with.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.svm import LinearSVC

import jaxmkl
from jaxmkl.evaluate import Row, rows
from jaxmkl.features.dictionary import DictionaryState

from .. import generate
from ..evaluate import candidate, keys_of
from .paper import Job

GENERATED = "two_inputs"
LENGTH = 1000
WIDTH = 0.5  # of the Gaussian of one kernel, and of that of many tasks
PENALTIES = 10.0 ** np.arange(-3, 1)  # C of the functions f and μ that are compared with
HS = (1.0, 0.1)
EXCEEDED = "exceeded"
NOTES = (
    f"{GENERATED}: {LENGTH} examples, in the same order for each seed, which draws the rest",
    "share: the figure over its bound, both means over the seeds; a bound does not hold where it "
    "is above 1 by more than two standard errors; support: of the kernel that has most",
    "f and μ in the bounds: of hinge machines with several penalties, that with the least bound",
)


def stream() -> tuple[np.ndarray, np.ndarray]:
    """Return the examples (T, 2) and their labels (T,)."""
    X, y = generate.two_that_matter(0, 0, LENGTH)
    return X[:, :2], y


def machines(features: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Return weights (M,) on features (T, M): 0, and of a hinge machine for each penalty."""
    fitted = [np.zeros(features.shape[1])]
    for C in PENALTIES:
        how = {"fit_intercept": False, "max_iter": 20_000, "tol": 1e-2, "random_state": 0}
        fitted.append(LinearSVC(loss="hinge", C=C, **how).fit(features, y).coef_[0])
    return fitted


def hinge(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the hinge losses of values.

    >>> hinge(np.array([2.0, 0.5, -1.0]), np.ones(3))
    array([0. , 0.5, 2. ])
    """
    return np.maximum(0, 1 - y * f)


def features_of(gram: np.ndarray) -> np.ndarray:
    """Return features (T, M) whose inner products are a Gram matrix (T, T).

    >>> features_of(np.eye(2)) @ features_of(np.eye(2)).T
    array([[1., 0.],
           [0., 1.]])
    """
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-9 * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


def rows_of(
    paper: str, name: str, found: dict[str, np.ndarray], **parameters: object
) -> list[Row]:
    """Return rows of figures beside their bounds, and the shares of these."""
    for metric in [name for name in found if f"{name}_bound" in found]:
        found[f"{metric}_share"] = found[metric] / found[f"{metric}_bound"].mean()
    return rows((paper, GENERATED, name), found, parameters=parameters)


def show(job: Job, title: str, measured: list[Row]) -> None:
    """Show figures beside their bounds."""
    job.report.table(title, measured, notes=[*NOTES, *summary(measured)])


def summary(measured: list[Row]) -> list[str]:
    """Return a line that says how many bounds hold, and one for each that does not.

    >>> summary(rows(("bomkl", "any", "spa"), {"loss_share": [0.5]}))
    ['1 of 1 bounds hold']
    """
    shares = [row for row in measured if row.metric.endswith("_share")]
    over = [row for row in shares if not row.mean - 2 * row.std / np.sqrt(row.seeds) <= 1]
    lines = [f"{len(shares) - len(over)} of {len(shares)} bounds hold"]
    return lines + [f"{EXCEEDED}: {r.algorithm}, {r.metric.removesuffix('_share')}" for r in over]


# --- SPA --------------------------------------------------------------------------------------


@jax.jit
def _losses_and_supports(learner: jaxmkl.MKL, keys: jax.Array, *data: jax.Array) -> tuple:
    """Return the sums of hinge losses (S,) and the support vectors of each kernel (S, P)."""
    states, outputs = jaxmkl.run_many(learner, keys, *data, permute=False)
    losses = jnp.maximum(0, 1 - data[1][None] * outputs.prediction).sum(axis=1)
    return losses, jax.vmap(learner.info)(states).support


SPARSE = ((1.0, 3.0), (1.0, 10.0), (0.25, 3.0), (1.0, 1.0))  # α and β; the first are the paper's


def of_spa(job: Job) -> list[Row]:
    """Run SPA with 13 kernels, and with one, whose losses the bounds are about."""
    X, y = stream()
    settings = {k: v for k, v in job.options.settings.items() if k not in ("alpha", "beta")}
    gaussians = jaxmkl.Gaussian(2.0 ** np.arange(-6, 7))
    features = features_of(np.asarray(jaxmkl.Gaussian(WIDTH).gram(X, X)[0], np.float64))
    others = machines(features, y)
    cases = {
        f"spa (α = {alpha:g}, β = {beta:g}, {words})": (alpha, beta, kernels)
        for alpha, beta in SPARSE
        for words, kernels in {"13 kernels": gaussians, "one": jaxmkl.Gaussian(WIDTH)}.items()
    }
    measured: list[Row] = []
    for name in job.report.steps("bounds", [*cases]):
        alpha, beta, kernels = cases[name]
        given = {"alpha": alpha, "beta": beta, "normalized_step": True, "kernels": kernels}
        made = candidate(name, "spa", "classification", settings, **given)
        recorded = _losses_and_supports(made.learner, keys_of(job.seeds), X, y)
        loss, support = (np.asarray(each, np.float64) for each in recorded)
        most = alpha * LENGTH / beta
        found = {"support": support[:, int(np.argmax(support.mean(axis=0)))]}
        if kernels is not gaussians:
            eta = float(made.parameters["step_size"])
            rest = eta * beta * LENGTH / min(alpha, np.sqrt(beta * eta))
            least = min(hinge(features @ f, y).sum() + f @ f / (2 * eta) + rest for f in others)
            most = min(most, least / beta)
            found |= {"loss": loss, "loss_bound": np.full(len(loss), least)}
        found["support_bound"] = np.full(len(loss), most)
        measured += rows_of("bomkl", name, found, **made.parameters)
    return measured


# --- Many tasks -------------------------------------------------------------------------------


@jax.jit
def _traced(learner: jaxmkl.Learner, keys: jax.Array, X: jax.Array, y: jax.Array) -> tuple:
    """Run each key, and return the quantities of every round that the bounds need.

    Returns:
        the final states; predictions, whether labels were asked for, variances φ'Σφ and numbers
        of points, each (S, T), and the means μ_t before the rounds (S, T, D).
    """

    def of_one(key: jax.Array) -> tuple:
        def step(state: Any, example: tuple) -> tuple:
            after, output = learner.step(state, example)
            said = output.prediction, output.queried, output.variance
            return after, (*said, after.dictionary.number, state.means[0])

        return jax.lax.scan(step, learner.init(key, X.shape[1]), (X, y))

    return jax.vmap(of_one)(keys)


def coordinates(
    dictionary: DictionaryState, numbers: np.ndarray, X: np.ndarray, kernel: jaxmkl.Gaussian
) -> np.ndarray:
    """Return φ (T, D) of every example in the dictionary of its round.

    L⁻¹ is lower triangular, so a coordinate depends on earlier points alone, and stays as it is.
    """
    values = np.asarray(kernel.gram(X, dictionary.rows)[0], np.float64)
    used = np.arange(values.shape[1]) < numbers[:, None]
    return np.where(used, values @ np.asarray(dictionary.table[0, :, :-1], np.float64).T, 0.0)


def of_tasks(job: Job) -> list[Row]:
    """Run one Gaussian of all tasks: with all labels, and asking where unsure."""
    X, y = stream()
    kernel = jaxmkl.Gaussian(WIDTH)
    usual: dict[str, Any] = {"kernel": kernel, "components": "global", "loss": "hinge"}
    modes: dict[str, dict[str, Any]] = {
        "global (Theorem 1)": {"update_on": "margin", "covariance": "always"},
        **{f"global (Theorem 2, h = {h:g})": {"update_on": "mistake", "h": h} for h in HS},
    }
    measured: list[Row] = []
    for name in job.report.steps("bounds", [*modes]):
        given = usual | modes[name]
        made = candidate(name, "multitask", "classification", job.options.settings, **given)
        states, traces = _traced(made.learner, keys_of(job.seeds), X, y)
        each: list[dict[str, float]] = []
        for seed in range(job.seeds):
            dictionary, *trace = (
                jax.tree.map(lambda leaf, seed=seed: np.asarray(leaf[seed]), of)
                for of in (states.dictionary, *traces)
            )
            phi = coordinates(dictionary, trace[3], X, kernel)
            each.append(of_run(phi, y, made.learner, *trace))
        found = {key: np.array([one[key] for one in each]) for key in each[0]}
        measured += rows_of("multitask", name, found, **made.parameters)
    return measured


def of_run(phi: np.ndarray, y: np.ndarray, learner: Any, *trace: np.ndarray) -> dict[str, float]:
    """Return the figures of a run and their bounds, of Theorem 1 or of Theorem 2.

    Of T rounds there are φ (T, D), the labels, and what :func:`_traced` returns of them.
    """
    f, asked, variance, _, means = trace
    noise, inertia = float(learner.noise), float(learner.inertia)
    wrong, h = y * f <= 0, getattr(learner.query, "h", None)
    updated = asked & (wrong if h is not None else y * f < 1)
    shrunk = phi if h is None else phi[updated]
    inverse = np.eye(phi.shape[1]) + shrunk.T @ shrunk / noise
    bounds = []
    for mu in machines(phi, y):
        scaled = mu if h is None else float(h) * mu
        far = ((means[updated] - scaled) ** 2).sum(axis=1).max() * np.trace(inverse)
        loss = hinge(phi @ mu, y)
        if h is None:
            least = noise * np.linalg.slogdet(inverse)[1] / (4 * inertia)
            bounds.append(loss.sum() + least + inertia * far)
        else:
            certain = np.abs(f) - variance / (4 * inertia) > 0
            unsure = variance[wrong & ~certain].sum() / (4 * float(h) * inertia)
            bounds.append(loss[updated].sum() + unsure + inertia / float(h) * far)
    if h is None:
        return {"loss": hinge(f, y).sum(), "loss_bound": min(bounds)}
    return {"mistakes": wrong.sum(), "mistakes_bound": min(bounds), "labels": asked.sum()}
