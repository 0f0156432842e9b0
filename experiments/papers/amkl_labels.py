"""Runs of expert_mkl with some of the labels, also those that scikit-activeml asks for."""

import functools
import math
import time
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Self

import jax
import numpy as np

import jaxmkl
from jaxmkl.evaluate import Row
from jaxmkl.query import Disagreement, Query, Random, Rate

from ..evaluate import Runs, Stream, candidate, evaluate, keys_of
from .amkl_runs import CLASSIFICATION, MSE, REGRESSION, run_all, stream_of, with_fixed_bank
from .paper import Job

LABEL_RATES = (0.02, 0.05, 0.1, 0.2, 0.5)

# Strategies of other packages see one example at a time, so there are fewer orders and examples.
PEER_RATES = (0.05, 0.1, 0.2, 0.5)
PEER_SEEDS = 4
PEER_ROUNDS = 2000
# Budget managers are the library's defaults. StreamProbabilisticAL needs the labels near an
# example, by its own kernel estimate with a Gaussian.
STRATEGIES: dict[str, dict[str, str]] = {
    "VariableUncertainty": {},
    "Split": {},
    "StreamProbabilisticAL": {"metric": "rbf"},
}


def _classifier() -> Any:
    """Return an object that a strategy takes as classifier; it repeats a given probability."""
    from skactiveml.base import SkactivemlClassifier

    class Fixed(SkactivemlClassifier):
        positive = 0.5  # the probability of the class +1

        def fit(
            self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None
        ) -> Self:
            """Do nothing, as the learner learns by itself."""
            return self

        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            """Return the probabilities of the classes -1 and +1 for each row."""
            return np.tile([1.0 - self.positive, self.positive], (len(X), 1))

    return Fixed(classes=[-1, 1])


@jax.jit
def _predict(learner: jaxmkl.Learner, state: object, x: jax.Array) -> jax.Array:
    return learner.predict(state, x).value


@functools.partial(jax.jit, static_argnames="asked")
def _after(
    learner: jaxmkl.Learner, state: object, x: jax.Array, y: jax.Array, asked: bool
) -> object:
    return learner.update(state, x, y) if asked else learner.skip(state, x)


def _run(
    learner: jaxmkl.Learner, state: object, X: np.ndarray, y: np.ndarray, strategy: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions (T,) in [-1, 1], and whether each label was asked for (T,)."""
    classifier, by_kernel = _classifier(), hasattr(strategy, "metric")
    prediction, queried = np.zeros(len(y)), np.zeros(len(y), bool)
    known = np.full(len(y), np.nan)
    for t, x in enumerate(X):
        prediction[t] = np.clip(_predict(learner, state, x), -1.0, 1.0)
        classifier.positive = (1.0 + prediction[t]) / 2.0
        seen: dict[str, np.ndarray] = {}
        if by_kernel:  # the examples with labels, and this one without
            chosen = np.append(np.flatnonzero(queried[:t]), t)
            seen = {"X": X[chosen], "y": known[chosen]}
        one = x[None].astype(np.float64)
        with warnings.catch_warnings():
            # the kernel estimate says that one example has no variance
            warnings.filterwarnings("ignore", message="The variance of the provided data is 0")
            asked, utilities = strategy.query(one, clf=classifier, return_utilities=True, **seen)
        strategy.update(one, asked, budget_manager_param_dict={"utilities": utilities})
        queried[t] = len(asked) > 0
        known[t] = y[t] if queried[t] else np.nan
        state = _after(learner, state, x, y[t], bool(queried[t]))
    return prediction, queried


def asked_by(how: str, share: float, learner: jaxmkl.Learner, stream: Stream, seeds: int) -> Runs:
    """Run a learner of two classes over a stream, while one of STRATEGIES asks for labels.

    Everything else is as in :func:`experiments.evaluate.evaluate` with an order for each seed:
    keys, orders, predictions and updates are the same, but examples are run one at a time. The
    learner itself asks for every label; the strategy's budget is a share of them.
    """
    import skactiveml.stream

    keys, began = keys_of(seeds), time.perf_counter()
    orders = np.asarray(jaxmkl.permutations(keys, len(stream.y)))
    found: Sequence[tuple] = [
        _run(
            learner,
            learner.init(jax.random.fold_in(key, 0), stream.X.shape[1], stream.X.dtype),
            stream.X[order],
            stream.y[order],
            getattr(skactiveml.stream, how)(budget=share, random_state=seed, **STRATEGIES[how]),
        )
        for seed, (key, order) in enumerate(zip(keys, orders, strict=True))
    ]
    prediction, queried = map(np.stack, zip(*found, strict=True))
    seconds = (time.perf_counter() - began) / seeds
    return Runs(stream, orders, prediction, queried, None, None, seconds)


def labels(job: Job) -> None:
    """Run expert_mkl with several shares of labels: the most useful, random, every k-th."""
    queries: dict[str, dict[str, Query]] = {}
    for share in LABEL_RATES:
        every = Disagreement(math.inf, 1 / share - 1)
        queries[f"expert_mkl (rate {share:g})"] = {"query": Rate(share)}
        queries[f"expert_mkl (chance {share:g})"] = {"query": Random(share)}
        queries[f"expert_mkl (every {1 / share:g}th)"] = {"query": every}
    queries["expert_mkl"] = {}
    job = with_fixed_bank(job)
    datasets, _ = job.among("labels", (*REGRESSION, *CLASSIFICATION), ("expert_mkl",))
    found = run_all(job, "labels", datasets, [*queries], lambda _, name: queries[name])
    notes = ["rate: jaxmkl.query.Rate; every kth: regardless of the models; banks: fixed"]
    job.report.table("expert_mkl with some of the labels", found, units=MSE, notes=notes)
    datasets = [name for name in datasets if name in CLASSIFICATION]
    if datasets and find_spec("skactiveml"):
        strategies(job, datasets)
    elif datasets:
        job.report.say("labels: scikit-activeml is not installed, its strategies are left out")


def some(job: Job, dataset: str) -> Stream:
    """Read a stream; of a longer one draw PEER_ROUNDS examples, always the same."""
    stream = stream_of(job, dataset)
    chosen = np.random.default_rng(0).permutation(len(stream.y))[:PEER_ROUNDS]
    return stream.at(chosen, f"{stream.name}, {len(chosen)} examples")


def strategies(job: Job, datasets: Sequence[str]) -> None:
    """Run the same learner with the strategies of scikit-activeml, on shorter streams."""
    asking: dict[str, tuple[str, float]] = {
        f"expert_mkl ({how} {share:g})": (how, share)
        for share in PEER_RATES
        for how in ("rate", "chance", *STRATEGIES)
    }
    make = functools.partial(candidate, factory="expert_mkl", task="classification")
    ours, seeds = {"rate": Rate, "chance": Random}, min(job.seeds, PEER_SEEDS)
    found: list[Row] = []
    for stream, name in job.each("strategies", datasets, [*asking], some):
        how, share = asking[name]
        query = {"query": ours[how](share)} if how in ours else {}
        made = make(name, settings=job.options.settings, **query)
        if how in ours:
            runs = evaluate(made.learner, stream, seeds)
        else:
            runs = asked_by(how, share, made.learner, stream, seeds)
        found += runs.rows("amkl", stream.name, made)
    title = "The same learner, its labels asked for by rate, by chance, by scikit-activeml"
    notes = [f"{PEER_ROUNDS} examples at most, as a strategy is asked one after the other"]
    job.report.table(title, found, notes=notes)
