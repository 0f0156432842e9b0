"""Densities of numbers by models of other packages and by ours, on the same streams.

Each label is predicted before it is learned; the first 500, before a batch model is fitted, are
not judged. The models are the Bayesian linear regression of river; boosting of scikit-learn,
refitted every 500 examples for each of ten quantiles; and ours in
:func:`jaxmkl.wrappers.predictive`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any

import jax
import numpy as np
from scipy import stats
from sklearn.preprocessing import StandardScaler

import jaxmkl
from jaxmkl.evaluate import Row, density_scores
from jaxmkl.metrics import coverage, crps_normal, crps_quantiles, width

from ..evaluate import Stream, candidate
from ..refitted import EVERY
from .peer_models import missing
from .timing import figures, in_own_process

LEVELS = np.linspace(0.05, 0.95, 10)
INTERVAL = LEVELS[-1] - LEVELS[0]
NARROWEST = 1e-3  # deviations of the labels so far between two quantiles, at the least


def of_quantiles(quantiles: np.ndarray, y: np.ndarray, narrowest: float) -> np.ndarray:
    """Return log densities (n,) of a piecewise linear quantile function with exponential tails.

    Between two quantiles (n, Q) of the levels ``LEVELS`` the density is constant. Beyond the outer
    ones it is that of a Laplace distribution whose outer quantiles are as far from each other.
    Quantiles that cross are sorted; two neighbours are ``narrowest`` apart at the least.

    >>> even = 10 * LEVELS[None]
    >>> of_quantiles(even, np.array([5.0]), 1e-3).round(4).tolist()     # uniform on [.5, 9.5]
    [-2.3026]
    """
    q = np.sort(quantiles, axis=1)
    gaps = np.maximum(np.diff(q, axis=1), narrowest)
    q = q[:, :1] + np.pad(np.cumsum(gaps, axis=1), ((0, 0), (1, 0)))
    log_densities = np.log(np.diff(LEVELS)) - np.log(gaps)
    place = np.sum(y[:, None] >= q, axis=1) - 1
    inside = np.clip(place, 0, gaps.shape[1] - 1)
    found = np.take_along_axis(log_densities, inside[:, None], axis=1)[:, 0]
    beyond = np.maximum(q[:, 0] - y, y - q[:, -1])
    scale = (q[:, -1] - q[:, 0]) / (2 * np.log(1 / (2 * LEVELS[0])))
    return np.where(beyond <= 0, found, np.log(LEVELS[0] / scale) - beyond / scale)


def _figures(
    log_score: np.ndarray, crps: Any, low: np.ndarray, high: np.ndarray, y: np.ndarray
) -> dict[str, float]:
    return {
        "log_score": float(log_score.mean()),
        "crps": float(np.mean(crps)),
        "coverage": float(coverage(low, high, y)),
        "width": float(width(low, high)),
    }


def by_boosting(stream: Stream) -> dict[str, float]:
    """Return the figures of boosting by histograms, fitted for each quantile on all so far."""
    from sklearn.ensemble import HistGradientBoostingRegressor as Boosting

    said, log_scores = [], []
    for start in range(EVERY, len(stream.y), EVERY):
        X, y, ahead = stream.X[:start], stream.y[:start], slice(start, start + EVERY)
        models = [Boosting(loss="quantile", quantile=q, random_state=0) for q in LEVELS]
        said.append(np.stack([m.fit(X, y).predict(stream.X[ahead]) for m in models], axis=1))
        narrowest = NARROWEST * float(np.std(y, dtype=np.float64))
        log_scores.append(of_quantiles(said[-1], stream.y[ahead], narrowest))
    q, y = np.sort(np.concatenate(said), axis=1), stream.y[EVERY:].astype(np.float64)
    crps = crps_quantiles(q, LEVELS, y)
    return _figures(np.concatenate(log_scores), crps, q[:, 0], q[:, -1], y)


def by_river(stream: Stream) -> dict[str, float]:
    """Return the figures of the Bayesian linear regression of river, whose densities are normal.

    As its noise has the variance 1 by default, inputs and labels are standardised, by the first
    500, which are not judged.
    """
    from river.linear_model import BayesianLinearRegression

    X, y = stream.X.astype(np.float64), stream.y.astype(np.float64)
    inputs, target = (StandardScaler().fit(values[:EVERY]) for values in (X, y[:, None]))
    model, said = BayesianLinearRegression(), []
    labels = target.transform(y[:, None])[:, 0].tolist()
    examples = zip(inputs.transform(X).tolist(), labels, strict=True)
    for t, (values, label) in enumerate(examples):
        x = dict(enumerate(values))
        if t >= EVERY:
            normal = model.predict_one(x, with_dist=True)
            said.append((normal.mu, normal.sigma))
        model.learn_one(x, label)
    each = np.array(said)
    mean = target.mean_ + target.scale_ * each[:, 0]
    deviation, y = target.scale_ * each[:, 1], y[EVERY:]
    half = stats.norm.ppf((1 + INTERVAL) / 2) * deviation
    log_score, crps = stats.norm.logpdf(y, mean, deviation), crps_normal(mean, deviation, y)
    return _figures(log_score, crps, mean - half, mean + half, y)


def by_ours(name: str, stream: Stream) -> dict[str, float]:
    """Return the figures of a learner behind running moments, whose scale is learned too."""
    wrappers, made = jaxmkl.wrappers, candidate(name, name, stream.task, {})
    scaled = wrappers.scaled_targets(jaxmkl.scaled(made.learner, wrappers.RunningMoments()))
    learner = wrappers.predictive(scaled)
    state = learner.init(jax.random.key(0), stream.X.shape[1])
    start = float(stream.y[0])
    given = (stream.y - start).astype(np.float32)
    _, outputs = jaxmkl.run(learner, state, stream.X, given)
    late = jax.tree.map(lambda leaf: leaf[EVERY:], outputs.distribution)
    y = given[EVERY:].astype(np.float64)
    found = density_scores(late, y)
    return _figures(found.log_score, found.crps, found.low, found.high, y)


MODELS: Mapping[str, tuple[str, Callable[[Stream], dict[str, float]]]] = {
    "river Bayesian linear": ("river", by_river),
    "scikit-learn boosting of quantiles": ("scikit-learn", by_boosting),
    **{name: ("jaxmkl", partial(by_ours, name)) for name in ("raker", "expert_mkl")},
}


def densities(streams: list[Stream]) -> tuple[list[Row], list[str]]:
    """Return the rows of all models on the streams of numbers that are long enough, and notes."""
    rows: list[Row] = []
    for stream in streams:
        if stream.task != "regression" or len(stream.y) <= EVERY:
            continue
        for name, (package, measured) in MODELS.items():
            if package == "river" and missing(package):
                continue
            found = in_own_process(measured, stream)
            settings = {"examples": len(stream.y), "package": f"{package} {version(package)}"}
            each = {metric: [value] for metric, value in found.items()}
            rows += figures(stream.name, name, each, **settings)
    notes = [
        f"of the examples from {EVERY + 1} on; log score: mean log density of the labels",
        f"coverage, width: of intervals of {INTERVAL:.0%}, in the target's units, as is the CRPS",
        f"boosting of quantiles: by histograms, refitted every {EVERY} examples for each of "
        f"{len(LEVELS)}; constant densities between them, tails of Laplace",
        "ours in wrappers.predictive; others by their defaults, those of river on inputs and "
        "targets that are standardised by the first examples, as it takes the noise for 1",
    ]
    return rows, notes
