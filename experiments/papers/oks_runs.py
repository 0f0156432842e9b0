"""Runs of online kernel selection: data sets, the step size tuned on them, scores.

The paper counts y f < 0 as mistakes; here, y f <= 0 is a mistake.
"""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

import jaxmkl
from jaxmkl.evaluate import Candidate, parameters_of
from jaxmkl.recipes.settings import SETTINGS

from ..evaluate import Measured, Stream, candidate, keys_of, program, stacked, timed
from ..inside import num_supports, scoring
from .paper import Job, as_published, is_published, plain

ALGORITHMS = {name: name for name in ("oks_sil", "okl_gd", "oks", "proj_ka")}

# The ways in which features are scaled, and the words that follow a data set's name.
SCALED = {"symmetric": "scaled", "unit_rows": "unit rows"}

STEP_SIZES = tuple(10.0**k for k in range(-5, 1))
LARGE = 10_000  # streams from here on have a larger budget, and are tuned on this many rounds
TUNING_SEEDS = 3  # of large streams
LARGE_SEEDS = 5  # orders of large streams: their mistakes differ little
# Learners with many support vectors: orders in tuning and on large streams, and how many rounds.
SLOW_SEEDS = {"okl_gd": 5, "oks": 3}
SLOW_ROUNDS = {"oks": 50_000}
# Run in double precision, as the paper's, up to LARGE examples; elsewhere single does no harm.
DOUBLE = ("oks_sil", "oks", "proj_ka")
# Proj-KA: the examples by which one of the paper's 25 widths is chosen.
NUM_ALIGNED = 10_000

PERCENT = dict.fromkeys(("mistake_rate", "zero_rate", "difference"), (1e-2, "%"))


def stream_of(job: Job, pair: tuple[str, str | None]) -> Stream:
    """Read a data set, with features scaled or not, and a name that says so."""
    dataset, how = pair
    name = dataset if how is None else f"{dataset} ({SCALED[how]})"
    return dataclasses.replace(job.stream(dataset, how), name=name)


def budget_of(length: int) -> int:
    """Return the paper's budget for a stream of that length.

    >>> budget_of(8124), budget_of(10_000)
    (150, 200)
    """
    return 150 if length < LARGE else 200


def mistaken(name: str, f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return which scores are mistakes, y f <= 0; for OKS a score of 0 means the class +1.

    >>> f, y = np.array([0.5, 0.0, 0.0]), np.array([1.0, 1.0, -1.0])
    >>> mistaken("oks_sil", f, y).tolist(), mistaken("oks", f, y).tolist()
    ([False, True, True], [False, False, True])
    """
    f, y = np.asarray(f), np.asarray(y)
    return y * np.where(f >= 0, 1, -1) < 0 if plain(name) == "oks" else y * f <= 0


def built(job: Job, name: str, length: int, **arguments: Any) -> Candidate:
    """Build a learner for a stream of that length, with the settings of its own table."""
    if name in ("oks_sil", "proj_ka"):
        arguments["budget"] = budget_of(length)
    if "loss" in parameters_of(name):
        arguments["loss"] = "hinge"
    if name == "oks":
        arguments["num_rounds"] = length
    made = candidate(name, name, "classification", job.options.settings, **arguments)
    return made._replace(learner=scoring(made.learner)) if name == "oks" else made


@functools.partial(jax.jit, static_argnames=("rounds", "before"))
def _first_rounds(
    learners: jaxmkl.Learner, keys: jax.Array, *data: jax.Array, rounds: int, before: int = 0
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Run the first rounds of the orders of N keys with a learner for each.

    The runs are those of :func:`jaxmkl.run_many` with that key, but that the examples of some
    rounds are run twice, ``before`` all others.

    Returns:
        scores and labels (N, rounds), and the final numbers of support vectors (N,).
    """
    X, y = data

    def of_one(learner: jaxmkl.Learner, key: jax.Array) -> tuple:
        order = jaxmkl.permutations(key[None], len(y))[0, :rounds]
        order = jax.numpy.concatenate([order[:before], order])
        state = learner.init(jax.random.fold_in(key, 0), X.shape[1], X.dtype)
        state = jaxmkl.abilities.enlarged(learner, state, len(order))
        state, outputs = jaxmkl.run(learner, state, X[order], y[order])
        return outputs.prediction[before:], y[order][before:], learner.info(state).support.sum()

    return jax.vmap(of_one)(learners, keys)


@jax.jit
def _all_rounds(learner: jaxmkl.Learner, keys: jax.Array, *data: jax.Array) -> tuple:
    """Run a learner in the order of each key, with a single copy of the data; same figures."""
    states, outputs = jaxmkl.run_many(learner, keys, *data)
    labels = data[1][jaxmkl.permutations(keys, len(data[1]))]
    return outputs.prediction, labels, num_supports(learner, states)


def run_learner(
    learners: Any, stream: Stream, keys: jax.Array, name: str, *, each: bool = False
) -> Measured:
    """Compile the runs of a learner, or of a stack with one for ``each`` key, and run them.

    The metrics are the mistake rate, the share of scores that are exactly 0, and the final number
    of support vectors, if the learner has any.
    """
    data, function, static = (keys, stream.X, stream.y), _all_rounds, dict[str, Any]()
    rounds = min(len(stream.y), SLOW_ROUNDS.get(plain(name), len(stream.y)))
    before = learners.num_aligned if getattr(learners, "two_passes", False) else 0
    if each or before or rounds < len(stream.y):
        function, static = _first_rounds, {"rounds": rounds, "before": before}
        learners = learners if each else stacked([learners] * len(keys))
    ready = program(function, learners, *data, **static)
    (f, y, support), seconds = timed(ready, learners, *data)
    metrics = {
        "mistake_rate": mistaken(name, f, y).mean(axis=1),
        "zero_rate": (np.asarray(f) == 0).mean(axis=1),
    }
    if support is not None:
        metrics["support"] = np.asarray(support)
    return Measured(metrics, seconds / len(keys))


def in_precision(stream: Stream, name: str) -> tuple[Stream, bool]:
    """Return the stream in the precision for a learner, and whether this is double precision."""
    double = plain(name) in DOUBLE and len(stream.y) <= LARGE
    return stream.astype(np.float64 if double else np.float32), double


def tuned(job: Job, stream: Stream, name: str) -> Candidate:
    """Build a learner with the best step size; all steps and orders are tried at once.

    A learner without a step size, with a given one, or from outside the paper is built as it is.
    """
    length = len(stream.y)
    if is_published(name):
        build = functools.partial(as_published, name, stream)
        steps = SETTINGS[plain(name)].tuned.get("step_size", ())
    else:
        build, steps = functools.partial(built, job, name, length), STEP_SIZES
        fixed = name == "proj_ka" or name not in ALGORITHMS
        steps = () if fixed or "step_size" in job.options.settings else steps
    if not steps:
        return build()
    if (stream.name, name, "step") not in job.results:
        few = TUNING_SEEDS if length > LARGE else SLOW_SEEDS.get(plain(name), job.seeds)
        keys, rounds = keys_of(min(job.seeds, few)), min(length, LARGE)
        made_of = [build(step_size=step).learner for step in steps]
        learners = stacked([learner for learner in made_of for _ in keys])
        repeated = jax.numpy.tile(keys, len(made_of))
        f, y, _ = _first_rounds(learners, repeated, stream.X, stream.y, rounds=rounds)
        rates = mistaken(name, f, y).mean(axis=1).reshape(len(made_of), -1).mean(axis=1)
        job.results[stream.name, name, "step"] = steps[int(np.argmin(rates))]
    return build(step_size=job.results[stream.name, name, "step"])


def run_tuned(job: Job, stream: Stream, name: str) -> tuple[Candidate, Measured]:
    """Tune a learner, run it, and store both for other parts."""
    if (stream.name, name) in job.results:
        return job.results[stream.name, name]
    seeds = job.seeds
    if len(stream.y) > LARGE:
        seeds = min(seeds, LARGE_SEEDS, SLOW_SEEDS.get(plain(name), seeds))
    keys = keys_of(seeds)
    precise, double = in_precision(stream, name)
    with jax.enable_x64(double):
        made = tuned(job, precise, name)
        learners = made.learner
        if name == "proj_ka":
            first = stream if len(stream.y) > LARGE else precise
            widths = aligned_widths(first, keys, made.parameters["num_aligned"])
            made = made._replace(parameters={**made.parameters, "bandwidth": widths})
            budget = made.parameters["budget"]
            each = (jaxmkl.projectron(jaxmkl.Gaussian(w), budget=budget) for w in widths)
            learners = stacked([*map(scoring, each)])
        scores = run_learner(learners, precise, keys, name, each=name == "proj_ka")
        job.results[stream.name, name] = made, scores
    return job.results[stream.name, name]


def aligned_widths(stream: Stream, keys: jax.Array, num_aligned: int) -> list[float]:
    """Return for every order the width with which its first examples are best aligned."""
    kernels = jaxmkl.kernels.zhang_liao()

    def of_rows(rows: slice | np.ndarray) -> float:
        alignments = _alignments(kernels, stream.X[rows], stream.y[rows])
        return float(np.asarray(kernels.bandwidth)[np.argmax(alignments)])

    if num_aligned >= len(stream.y):  # then no order matters
        return [of_rows(slice(None))] * len(keys)
    orders = np.asarray(jaxmkl.permutations(keys, len(stream.y)))
    return [of_rows(order[:num_aligned]) for order in orders]


_alignments = jax.jit(jaxmkl.kernels.kernel_alignment)
