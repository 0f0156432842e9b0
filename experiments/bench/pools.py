"""The speed and memory of choosing points of pools, each in a process of its own.

A first call, which compiles, is followed by others; all are made as a user makes them, including
the checks of the input. Gram matrices are in double precision, the large pools of features in
single.
"""

import dataclasses
import functools
from collections.abc import Callable
from statistics import median

import jax
import jax.numpy as jnp
import numpy as np

import jaxmkl
from jaxmkl import design

from ..evaluate import keys_of, timed
from ..options import Options
from ..papers.design_pools import grams_of, tf_idf
from ..report import Report
from .timing import figures, in_own_process, peak_memory, real_or

INPUTS = 10
CENTRES = 20
CHOSEN = 50  # points, where the cost depends on their number
WIDTHS = tuple(2.0**k for k in range(-1, 8))


@dataclasses.dataclass(frozen=True)
class Case:
    """A pool and a method that chooses points of it."""

    name: str  # in tables
    method: str  # the name of the function of jaxmkl.design
    points: int  # of each pool
    dataset: str | None = None  # generated if it is None, or the data are not available
    pools: int = 1  # several are worked on in one call
    features: int = 0  # of each kernel; 0 for Gram matrices of the paper's nine kernels
    kernels: int = 9  # that features are of
    repeats: int = 3  # calls that are timed, after the first


SMALL_CASES = (
    Case("gmkal, 500 points", "gmkal", 500),
    Case("gmkal, 1000 points", "gmkal", 1000),
    Case("gmkal, 10 splits", "gmkal", 145, "sonar", pools=10),
    Case("gmkal, 2043 points", "gmkal", 2043, "reuters_4class", repeats=1),
)
LARGE_CASES = (
    Case("gmkal, 100000 points", "gmkal", 100_000, features=64, repeats=1),
    Case("cted, 1000000 points", "cted", 1_000_000, features=256, kernels=1, repeats=1),
    Case("ted, 1000000 points", "ted", 1_000_000, features=200, kernels=1, repeats=1),
    Case("from points, 1000000", "from_points", 1_000_000, kernels=1, repeats=1),
)


def generated(points: int) -> np.ndarray:
    """Return points (n, INPUTS), float32, around twenty centres."""
    draws = np.random.default_rng(0)
    centres = draws.normal(scale=2.0, size=(CENTRES, INPUTS)).astype(np.float32)
    noise = draws.standard_normal((points, INPUTS), dtype=np.float32)
    return centres[draws.integers(CENTRES, size=points)] + noise


def inner_products(case: Case, options: Options) -> tuple[str, np.ndarray]:
    """Return a data set's name and its points' inner products (n, n), or generated ones."""
    name, X = "generated", generated(2 * case.points)
    if case.dataset is not None:
        name, X, _ = real_or(options, case.dataset, lambda: (name, X, np.zeros(0)))
    if name == "reuters_4class":
        rows = tf_idf(X)
        return name, (rows @ rows.T).toarray()
    X = np.asarray(X, np.float64)
    X = X if name == "generated" else jaxmkl.tables.scale(X, "symmetric")
    return name, X @ X.T


def fourier_features(case: Case) -> jax.Array:
    """Return features (P, n, r), float32, of Gaussians over generated points.

    They are centred and scaled to a mean squared length of 1, for the same reasons as the paper's
    kernels: otherwise the widest Gaussian is constant.
    """
    X = generated(case.points)
    draws = np.random.default_rng(1)
    half = case.features // 2
    result = np.empty((case.kernels, case.points, 2 * half), np.float32)
    widths = WIDTHS if case.kernels > 1 else (np.sqrt(INPUTS),)
    for t in range(case.kernels):
        angles = X @ (draws.standard_normal((INPUTS, half), dtype=np.float32) / widths[t])
        np.cos(angles, out=result[t, :, :half])
        np.sin(angles, out=result[t, :, half:])
        result[t] -= result[t].mean(axis=0)
        result[t] *= np.float32((np.einsum("nr,nr->", result[t], result[t]) / len(X)) ** -0.5)
    return jax.block_until_ready(jnp.asarray(result))


def call_of(case: Case, options: Options) -> tuple[str, Callable[[], design.Design]]:
    """Return the name of a case's data, and a function that chooses points of them."""
    method = getattr(design, case.method)
    if case.method == "from_points":
        return "generated", functools.partial(method, generated(case.points), CHOSEN)
    if case.method == "ted":
        method = functools.partial(method, num_points=CHOSEN)
    if case.features:
        features = fourier_features(case)
        if case.kernels == 1:
            features = features[0]
        return "generated", functools.partial(method, features=features)
    dataset, inner = inner_products(case, options)
    orders = np.asarray(jaxmkl.permutations(keys_of(case.pools), len(inner)))[:, : case.points]
    grams = jnp.asarray(grams_of(inner, orders))
    if case.pools == 1:
        return dataset, functools.partial(method, grams[0])
    return dataset, functools.partial(jax.jit(jax.vmap(method)), grams)


def measured(case: Case, options: Options) -> tuple[str, dict[str, list[float]]]:
    """Run a case in this process; return its data set and its figures."""
    with jax.enable_x64(not case.features and case.method != "from_points"):
        dataset, call = call_of(case, options)
        before = peak_memory()
        found, first = timed(call)
        later = [timed(call)[1] for _ in range(case.repeats)]
        iterations = np.isfinite(np.asarray(found.objective)).sum(axis=-1)
        return dataset, {
            "seconds": later,
            "compile_seconds": [max(first - median(later), 0.0)],
            "peak_memory_mib": [peak_memory()],
            "memory_before_mib": [before],
            "iterations": [float(np.max(iterations))],
            "active": [float(np.mean(np.asarray(found.num_active)))],
            "converged_share": [float(np.mean(np.asarray(found.converged)))],
        }


def run(options: Options, report: Report) -> None:
    """Measure cases, each in a process of its own, and show them."""
    cases = LARGE_CASES if options.benchmark == "large_pools" else SMALL_CASES
    rows = []
    with report.progress("pools", len(cases)) as step:
        for case in cases:
            step(case.name)
            dataset, metrics = in_own_process(measured, case, options)
            names = ("method", "points", "pools", "features", "kernels")
            parameters = {name: getattr(case, name) for name in names}
            rows += figures(dataset, case.name, metrics, **parameters)
    report.table(
        "Choosing points: medians, each case in a process of its own",
        rows,
        notes=(
            "seconds: of a call behind the first, checks of the input included (not with several "
            "splits, which are one compiled call); compile seconds: how much longer the first "
            "call takes",
            "tolerance 1e-5, a tenth of the largest penalty; double precision, of features single",
            "peak: the most the process has held; before: with the pool made, nothing compiled",
        ),
    )
