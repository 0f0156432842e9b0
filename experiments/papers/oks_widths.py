"""Online kernel selection: the effect of a moving width, of all inputs or of each."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

import jaxmkl
from jaxmkl.evaluate import Candidate, Row, figure, rows

from .. import generate
from ..evaluate import Stream, keys_of, stacked, sweep
from ..report import Panel
from . import oks_runs as runs
from .paper import Job

GENERATED = "two_of_ten"
STARTS = tuple(2.0 ** (i / 2) for i in range(5, 12))
MOVES = {1.0: "moves", 0.0: "held"}  # the rate of the width's steps, and its name


def built(job: Job, length: int, optimizer: Any, **widths: Any) -> list[Candidate]:
    """Build OKS-SIL with every step size, or the given one, and widths that an optimizer moves."""
    chosen, space = job.options.settings.get("step_size"), jaxmkl.kernels.GaussianWidths(**widths)
    given: dict[str, Any] = {"space": space, "optimizer": optimizer}
    steps = runs.STEP_SIZES if chosen is None else (chosen,)
    return [runs.built(job, "oks_sil", length, step_size=step, **given) for step in steps]


def _with_parameters(output: jaxmkl.Output) -> jaxmkl.Output:
    return output._replace(info=output.info.parameters)


def width(job: Job) -> None:
    """Show the width from every start of the paper, and mistakes beside those of fixed widths."""
    datasets, _ = job.among("width", ("svmguide3", "spambase"), ("oks_sil",))
    pairs = [(dataset, how) for dataset in datasets for how in (None, "symmetric")]
    found: list[Row] = []
    with job.report.progress("width", len(pairs)) as step:
        for pair in pairs:
            stream, keys = runs.stream_of(job, pair), keys_of(job.seeds)
            grid = [(start, rate) for start in STARTS for rate in MOVES]
            made = list[Candidate]()
            for start, rate in grid:
                moved = jaxmkl.optimizers.InverseTime(rate)
                made += built(job, len(stream.y), moved, start=start)
            steps = len(made) // len(grid)
            step(f"{stream.name}, {2 * len(STARTS)} widths of {steps} step sizes at once")
            learners = stacked([each.learner for each in made])
            outputs = sweep(learners, keys, stream.X, stream.y, record=_with_parameters)
            labels = stream.y[np.asarray(jaxmkl.permutations(keys, len(stream.y)))]
            mistakes = runs.mistaken("oks_sil", outputs.prediction, labels).mean(axis=2)
            widths = np.asarray(outputs.info)
            by_step = mistakes.mean(axis=1).reshape(len(grid), steps)
            best = np.arange(len(grid)) * steps + by_step.argmin(axis=1)
            for (start, rate), i in zip(grid, best, strict=True):
                name = "oks", stream.name, f"oks_sil (start {start:.3g}, {MOVES[rate]})"
                measured = {"mistake_rate": mistakes[i], "width": widths[i, :, -1]}
                found += rows(name, measured, parameters=made[i].parameters)
            draw_widths(job, stream, grid, mistakes[best], widths[best])
    job.report.table(
        "A width that moves, and one that is held where the other starts",
        found,
        units=runs.PERCENT,
        parameters=("step_size",),
        notes=(
            "each with the best of its step sizes; width: at the end of the stream; single "
            "precision",
        ),
    )


def draw_widths(
    job: Job,
    stream: Stream,
    grid: Sequence[tuple[float, float]],
    mistakes: np.ndarray,
    widths: np.ndarray,
) -> None:
    """Draw the widths over time, and the mistakes by the initial width."""
    rounds = np.arange(1, len(stream.y) + 1)
    over_time = {
        f"start {start:.3g}": (rounds, of_start)
        for (start, rate), of_start in zip(grid, widths, strict=True)
        if rate
    }
    by_start = {
        words: (np.array(STARTS), mistakes[[r == rate for _, r in grid]].T)
        for rate, words in MOVES.items()
    }
    looks: dict[str, Any] = {"log_x": True, "median": True}
    panels = [
        Panel(stream.name, "examples", "width", over_time, log_y=True, **looks),
        Panel(stream.name, "width at the start", "mistake rate", by_start, marks=True, **looks),
    ]
    job.report.plot(f"oks_width_{stream.name.replace(' (', '_').rstrip(')')}", panels)


ROUNDS = 20_000
ANISOTROPIC_SEEDS = 10
ANISOTROPIC_START = 1.0
LEARNING_RATE = 0.01
# Whether there is a width for every input, and whether Adam moves it instead of the step 1/t.
KINDS = {
    "one width": (False, False),
    "one width, adam": (False, True),
    "a width an input": (True, False),
    "a width an input, adam": (True, True),
}


@jax.jit
@functools.partial(jax.vmap, in_axes=(0, None, None, None))
@functools.partial(jax.vmap, in_axes=(None, 0, 0, 0))
def _of_streams(
    learner: jaxmkl.Learner, key: jax.Array, X: jax.Array, y: jax.Array
) -> jaxmkl.Output:
    """Return the records (G, S, T, ...) of stacked learners on a stream for every key."""
    state = learner.init(key, X.shape[1], X.dtype)
    return jaxmkl.run(learner, state, X, y, record=_with_parameters)[1]


def anisotropic(job: Job) -> None:
    """Compare a width for each input with one for all, where two of ten inputs matter."""
    job.among("anisotropic", (GENERATED,), ("oks_sil",))
    seeds = min(job.seeds, ANISOTROPIC_SEEDS)
    streams = [generate.two_that_matter(seed, 0, ROUNDS) for seed in range(seeds)]
    X, y = (np.stack(part) for part in zip(*streams, strict=True))
    adam = jaxmkl.optimizers.FromOptax("adam", LEARNING_RATE)
    built_kinds: dict[str, Candidate] = {}
    wrong: dict[str, np.ndarray] = {}
    widths: dict[str, np.ndarray] = {}
    for words in job.report.steps("anisotropic", [*KINDS]):
        per_input, with_adam = KINDS[words]
        optimizer = adam if with_adam else None
        made = built(job, ROUNDS, optimizer, start=ANISOTROPIC_START, per_input=per_input)
        outputs = _of_streams(stacked([each.learner for each in made]), keys_of(seeds), X, y)
        mistakes = runs.mistaken("oks_sil", outputs.prediction, y)
        best = int(np.argmin(mistakes.mean(axis=(1, 2))))
        built_kinds[words], wrong[words] = made[best], mistakes[best]
        widths[words] = np.asarray(outputs.info[best])
    measured = anisotropic_rows(built_kinds, wrong, widths)
    job.report.table(
        "Two inputs of ten matter: one width of all, and a width for every input",
        measured,
        units=runs.PERCENT,
        parameters=("step_size",),
        notes=(
            f"{seeds} streams of {ROUNDS} examples; each learner with the best of its step sizes",
            "width ratio: the smallest width of the eight inputs that do not matter over the "
            "larger one of the two that do, at the end",
            "difference: mistakes less those of the best learner with one width, stream by stream",
            *(
                f"{r.algorithm}: {figure(100 * r.mean)} ± {figure(100 * r.std / r.seeds**0.5)} "
                "points (a standard error)"
                for r in measured
                if r.metric == "difference"
            ),
        ),
    )
    draw_anisotropic(job, wrong, widths)


def anisotropic_rows(
    made: Mapping[str, Candidate],
    wrong: Mapping[str, np.ndarray],
    widths: Mapping[str, np.ndarray],
) -> list[Row]:
    """Return the rows of every kind of learner, given the mistakes (S, T) of its rounds.

    Widths are (S, T), or (S, T, D) if every input has one.
    """
    rates = {words: of_kind.mean(axis=1) for words, of_kind in wrong.items()}
    ones = [words for words, of_kind in widths.items() if of_kind.ndim == 2]
    best = min(ones, key=lambda words: rates[words].mean())
    found: list[Row] = []
    for words, learner in made.items():
        measured = {"mistake_rate": rates[words]}
        if widths[words].ndim == 3:
            last = widths[words][:, -1]
            measured["width_ratio"] = last[:, 2:].min(axis=1) / last[:, :2].max(axis=1)
            measured["difference"] = rates[words] - rates[best]
        name = "oks", GENERATED, f"oks_sil ({words})"
        found += rows(name, measured, parameters=learner.parameters)
    return found


def draw_anisotropic(
    job: Job, wrong: Mapping[str, np.ndarray], widths: Mapping[str, np.ndarray]
) -> None:
    """Draw the widths of both kinds of inputs, and the mistakes so far."""
    rounds = np.arange(1, ROUNDS + 1)
    moving = widths["a width an input, adam"].swapaxes(1, 2)  # (S, D, T)
    parts = {"the two that matter": moving[:, :2], "the eight others": moving[:, 2:]}
    lines = {words: (rounds, part.reshape(-1, ROUNDS)) for words, part in parts.items()}
    later = rounds >= 100
    errors = {
        words: (rounds[later], (of_kind.cumsum(axis=1) / rounds)[:, later])
        for words, of_kind in wrong.items()
    }
    panels = [
        Panel("two inputs of ten matter", "examples", "width", lines, log_y=True, median=True),
        Panel("two inputs of ten matter", "examples", "mistake rate so far", errors),
    ]
    job.report.plot("oks_anisotropic", panels)
