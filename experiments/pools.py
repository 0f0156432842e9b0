"""Speed and memory of choosing points of pools, each in a process of its own.

A first call, which compiles, then others; all are calls as a user makes them, the checks of the
input included. Double precision for Gram matrices, single for the large pools of features.
"""

import dataclasses
import functools
import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import TfidfTransformer

import jaxmkl
from jaxmkl import design

from .bench import figures, peak_memory
from .evaluate import keys_of, timed
from .options import Options, UsageError
from .paper import data_folder
from .report import Report

__all__ = ["LARGE_CASES", "SMALL_CASES", "Case", "run"]

INPUTS = 10
CENTRES = 20
WIDTHS = tuple(2.0**k for k in range(-1, 8))


@dataclasses.dataclass(frozen=True)
class Case:
    """A pool and what chooses points of it.

    Attributes:
      name: in tables.
      method: the name of the function of jaxmkl.design.
      points: of each pool.
      dataset: where the points are from; generated where that is None, or the data are not there.
      pools: how many there are; of several all are worked on in one call.
      features: features of each kernel; 0 for Gram matrices of the paper's nine kernels.
      kernels: how many kernels features are of.
      repeats: calls that are timed, behind the first.
    """

    name: str
    method: str
    points: int
    dataset: str | None = None
    pools: int = 1
    features: int = 0
    kernels: int = 9
    repeats: int = 3


SMALL_CASES = (
    Case("gmkal, 500 points", "gmkal", 500),
    Case("gmkal, 1000 points", "gmkal", 1000),
    Case("gmkal, 10 splits", "gmkal", 145, "sonar", pools=10),
    Case("gmkal, 2043 points", "gmkal", 2043, "reuters_4class", repeats=1),
)
LARGE_CASES = (
    Case("gmkal, 100000 points", "gmkal", 100_000, features=64, repeats=1),
    Case("cted, 1000000 points", "cted", 1_000_000, features=256, kernels=1, repeats=1),
)


def generated(points: int, inputs: int = INPUTS) -> np.ndarray:
    """Return points (n, inputs), float32, around twenty centres."""
    draws = np.random.default_rng(0)
    centres = draws.normal(scale=2.0, size=(CENTRES, inputs)).astype(np.float32)
    noise = draws.standard_normal((points, inputs), dtype=np.float32)
    return centres[draws.integers(CENTRES, size=points)] + noise


def inner_products(case: Case, options: Options) -> tuple[str, np.ndarray]:
    """Return a data set's name and its points' inner products (n, n), or generated ones."""
    try:
        if case.dataset is None:
            raise UsageError("generated points are wanted")
        X = jaxmkl.data.read(data_folder(options) / f"{case.dataset}.npz").X
        if case.dataset == "reuters_4class":
            rows = TfidfTransformer().fit_transform(scipy.sparse.csr_matrix(X, dtype=np.float64))
            return case.dataset, (rows @ rows.T).toarray()
        X = jaxmkl.data.scale(np.asarray(X, np.float64), "symmetric")
        name = case.dataset
    except (UsageError, OSError):
        name, X = "generated", np.asarray(generated(2 * case.points), np.float64)
    return name, X @ X.T


def fourier_features(case: Case) -> jax.Array:
    """Return features (P, n, r), float32, of Gaussians over generated points.

    They are centred, and scaled to a mean squared length of 1, for much the same reasons as the
    paper's kernels: else the widest Gaussian is a constant.
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
    """Return the name of a case's data and what chooses points of them."""
    method = getattr(design, case.method)
    if case.features:
        features = fourier_features(case)
        if case.kernels == 1:
            features = features[0]
        return "generated", functools.partial(method, features=features)
    dataset, inner = inner_products(case, options)
    orders = np.asarray(jaxmkl.permutations(keys_of(case.pools), len(inner)))[:, : case.points]
    grams = jnp.asarray(
        np.stack([design.dictionary(inner=inner[np.ix_(rows, rows)]) for rows in orders])
    )
    if case.pools == 1:
        return dataset, functools.partial(method, grams[0])
    return dataset, functools.partial(jax.jit(jax.vmap(method)), grams)


class Measured(NamedTuple):
    """What calls of a case took.

    Attributes:
      dataset: the name of the data.
      before: MiB the process had held at most before the first call.
      peak: MiB it had held at most at the end.
      first: seconds of the first call.
      later: seconds of the others.
      iterations: how many the longest run took.
      active: points with coefficients that do not vanish, the mean over pools.
      converged: the share of pools that converged.
    """

    dataset: str
    before: float
    peak: float
    first: float
    later: list[float]
    iterations: int
    active: float
    converged: float


def measured(case: Case, options: Options) -> Measured:
    """Play a case in this process."""
    with jax.enable_x64(not case.features):
        dataset, call = call_of(case, options)
        before = peak_memory()
        found, first = timed(call)
        later = [timed(call)[1] for _ in range(case.repeats)]
        history = np.isfinite(np.asarray(found.objective)).sum(axis=-1)
        return Measured(
            dataset=dataset,
            before=before,
            peak=peak_memory(),
            first=first,
            later=later,
            iterations=int(np.max(history)),
            active=float(np.mean(np.asarray(found.num_active))),
            converged=float(np.mean(np.asarray(found.converged))),
        )


def run(options: Options, report: Report, cases: tuple[Case, ...] | None = None) -> None:
    """Measure cases, each in a process of its own, and show them."""
    if cases is None:
        cases = LARGE_CASES if options.large_pools else SMALL_CASES
    rows = []
    context = multiprocessing.get_context("spawn")
    with report.progress("pools", len(cases)) as step:
        for case in cases:
            step(case.name)
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                found = pool.submit(measured, case, options).result()
            parameters: Mapping[str, Any] = {
                key: value
                for key, value in dataclasses.asdict(case).items()
                if key not in ("name", "dataset", "repeats")
            }
            metrics = {
                "seconds": found.later,
                "compile_seconds": [max(found.first - median(found.later), 0.0)],
                "peak_memory_mib": [found.peak],
                "memory_before_mib": [found.before],
                "iterations": [float(found.iterations)],
                "active": [found.active],
                "converged_share": [found.converged],
            }
            rows += [
                figures(found.dataset, case.name, metric, values, **parameters)
                for metric, values in metrics.items()
            ]
    report.table(
        "Choosing points: medians, each case in a process of its own",
        report.add(rows),
        notes=(
            "seconds: of a call behind the first, checks of the input included (not with several "
            "splits, which are one compiled call); compile seconds: how much longer the first "
            "call takes",
            "tolerance 1e-5, a tenth of the largest penalty; double precision, of features single",
            "peak: the most the process has held; before: with the pool made, nothing compiled",
        ),
    )
