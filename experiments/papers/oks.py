"""Online kernel selection in a continuum: Table 2, Figure 1, and the effect of a moving width."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

import jaxmkl
from jaxmkl.evaluate import Candidate, Row, figure, row, rows

from .. import generate
from ..evaluate import Measured, Stream, candidate, evaluate, keys_of, stacked, sweep
from ..report import Panel
from . import oks_runs as runs
from .paper import Job, Paper
from .printed import printed

DATASETS = ("german", "svmguide3", "spambase", "mushrooms", "a9a", "w7a", "ijcnn1", "cod_rna")
GENERATED = "two_of_ten"
MUCH = 0.05  # the share of zero scores that calls for a warning


ABOUT = (
    "an order of the examples for each seed; mistakes: y f <= 0. The paper counts y f < 0, which "
    "takes a score of 0 for right; where kernel values underflow, a step size tuned by that count "
    "is one with many zero scores",
    f"step sizes: the best of {', '.join(f'{s:g}' for s in runs.STEP_SIZES)} by mistakes on the "
    f"same orders; above {runs.LARGE} examples on the first {runs.LARGE} rounds of "
    f"{runs.TUNING_SEEDS} orders",
    f"oks_sil, proj_ka: {runs.budget_of(0)} support vectors below {runs.LARGE} examples, else "
    f"{runs.budget_of(runs.LARGE)}; okl_gd: the newest 2000 at most",
    f"double precision, as the paper's; okl_gd, and all above {runs.LARGE} examples, in single",
)
FEWER = (
    f"above {runs.LARGE} examples there are {runs.LARGE_SEEDS} orders at most; oks has "
    f"{runs.SLOW_SEEDS['oks']}, and the first {runs.SLOW_ROUNDS['oks']} examples of each at most"
)
NOTES = {
    ("oks",): "oks: a score of 0 names the class +1, as in its paper",
    ("proj_ka",): "proj_ka: in two passes, as in the paper: the width is chosen by an order's "
    f"first {runs.NUM_ALIGNED} examples, then a Projectron runs over all",
    ("german", "a9a", "w7a", "ijcnn1"): "on w7a, ijcnn1 and nearly on a9a and german the printed "
    "figures of oks_sil and okl_gd are those of always naming the larger class",
    ("spambase",): "spambase: with 200 instead of 150 support vectors (--set budget=200) oks_sil "
    "comes to the printed figure",
    ("mushrooms",): "mushrooms: the printed .351 of oks_sil is met on rows of length 1; the paper "
    "does not say how it scales",
    ("ijcnn1",): "ijcnn1: the training rows, whose first ten columns are empty in the copy there "
    "is; not comparable with the printed figures",
}


def table(
    job: Job, part: str, title: str, how: str | None, also: Mapping[str, str] | None = None
) -> None:
    """Run and show the rows of a table, features scaled as said, of some sets also otherwise."""
    datasets, names = job.among(part, DATASETS, tuple(runs.ALGORITHMS))
    pairs = [(name, way) for name in datasets for way in (how, (also or {}).get(name, how))]
    measured: list[Row] = []
    majority: dict[str, float] = {}  # the mistakes of always predicting the larger class
    longest = 0
    for stream, name in job.each(part, [*dict.fromkeys(pairs)], names, runs.stream_of):
        majority[stream.name] = float(min((stream.y > 0).mean(), (stream.y < 0).mean()))
        longest = max(longest, len(stream.y))
        made, scores = runs.run_tuned(job, stream, name)
        measured += scores.rows("oks", stream.name, made, printed)
    job.report.add(row(("oks", d, "majority", "mistake_rate"), [m]) for d, m in majority.items())
    notes = [*ABOUT, *([FEWER] if longest > runs.LARGE else [])]
    notes += [text for about, text in NOTES.items() if {*about} & {*datasets, *names}]
    if part == "scaled":
        notes.append("printed: the paper's figures, for whatever scale it had")
    job.report.table(
        title,
        measured,
        units=runs.PERCENT,
        beside={"majority (%)": {d: 100 * m for d, m in majority.items()}},
        parameters=("step_size",),
        notes=[*notes, *warnings(measured)],
    )


def warnings(rows: Iterable[Row]) -> list[str]:
    """Return a line for every learner with many scores of exactly 0.

    >>> warnings([row(("oks", "german", "oks", "zero_rate"), [0.25])])[0][:52]
    'warning: german, oks: 25 % of all scores are exactly'
    """
    return [
        f"warning: {r.dataset}, {r.algorithm}: {100 * r.mean:.0f} % of all scores are exactly 0: "
        "the kernel values are below the smallest number, so the learner says nothing there; "
        "scale the features, or choose wider kernels"
        for r in rows
        if r.metric == "zero_rate" and r.mean > MUCH
    ]


def table2(job: Job) -> None:
    """Show Table 2 without scaling; mushrooms also with rows of length 1."""
    title = "Table 2: mistakes in online kernel selection"
    table(job, "table2", title, None, {"mushrooms": "unit_rows"})


def scaled(job: Job) -> None:
    """Show Table 2 with features scaled to [-1, 1]."""
    table(job, "scaled", "Table 2 with features scaled to [-1, 1]", "symmetric")


FIGURE_1: Mapping[str, tuple] = {
    "budget": (50, 100, 200, 300, 400),
    "num_sampled": (1, 2, 3, 4, 5, 6),
    "threshold": tuple(k / 10 for k in range(1, 10)),
}
SYMBOLS = {"budget": "B", "num_sampled": "s", "threshold": "ν"}


def figure1(job: Job) -> None:
    """Show Figure 1: mistakes and seconds of OKS-SIL as one setting varies at a time."""
    datasets, _ = job.among("figure1", ("spambase",), ("oks_sil",))
    stream = runs.stream_of(job, (*datasets, None))
    measured: list[Row] = []
    found: dict[str, list[Measured]] = {name: [] for name in FIGURE_1}
    settings = {k: v for k, v in job.options.settings.items() if k not in FIGURE_1}
    with job.report.progress("figure1", 1 + sum(map(len, FIGURE_1.values()))) as step:
        step("step size")
        precise, double = runs.in_precision(stream, "oks_sil")
        with jax.enable_x64(double):
            usual = dict(runs.tuned(job, precise, "oks_sil").parameters)
        for name, values in FIGURE_1.items():
            for value in values:
                label = f"oks_sil ({SYMBOLS[name]} = {value:g})"
                step(label)
                made = candidate(
                    label, "oks_sil", "classification", settings, **{**usual, name: value}
                )
                with jax.enable_x64(double):
                    scores = runs.run_learner(made.learner, precise, keys_of(job.seeds), "oks_sil")
                found[name].append(scores)
                measured += scores.rows("oks", stream.name, made)
    job.report.table(
        "Figure 1: budget, sampling size and threshold of OKS-SIL",
        measured,
        units=runs.PERCENT,
        parameters=tuple(FIGURE_1),
        notes=(
            f"one of three varies; step size {usual['step_size']:g}, tuned at the usual ones",
            f"seconds: those of {job.seeds} orders at once, shared out evenly",
        ),
    )
    for name, of_name in found.items():
        grid, symbol = np.array(FIGURE_1[name]), SYMBOLS[name]
        rates = np.array([scores.metrics["mistake_rate"] for scores in of_name]).T
        seconds = np.array([scores.seconds_per_run for scores in of_name])
        panels = [
            Panel("spambase", symbol, "mistake rate", {"oks_sil": (grid, rates)}, marks=True),
            Panel("spambase", symbol, "seconds a run", {"oks_sil": (grid, seconds)}, marks=True),
        ]
        job.report.plot(f"oks_{name}", panels)


LEARNED = ("oks_sil", "expert_mkl")
MOST_ROWS, MOST_SEEDS = 10_000, 5


def some_rows(stream: Stream) -> Stream:
    """Return at most ``MOST_ROWS`` rows of a stream, drawn at random, under a name that says so.

    >>> X, y = np.zeros((MOST_ROWS + 1, 1)), np.zeros(MOST_ROWS + 1)
    >>> some = some_rows(Stream("long", X, y, "classification"))
    >>> some.name, len(some.y)
    ('long, 10,000 rows', 10000)
    """
    if len(stream.y) <= MOST_ROWS:
        return stream
    drawn = np.random.default_rng(0).permutation(len(stream.y))[:MOST_ROWS]
    return stream.at(drawn, f"{stream.name}, {MOST_ROWS:,} rows")


def learned(job: Job) -> None:
    """Show OKS-SIL beside expert_mkl, whose kernels are learned, on the same orders."""
    datasets, names = job.among("learned", DATASETS, LEARNED)
    job = dataclasses.replace(job, seeds=min(job.seeds, MOST_SEEDS), results={})
    pairs = [(dataset, how) for dataset in datasets for how in (None, "symmetric")]
    measured: list[Row] = []
    for whole, name in job.each("learned", pairs, names, runs.stream_of):
        stream = some_rows(whole)
        if name == "oks_sil":
            made, scores = runs.run_tuned(job, stream, name)
            measured += scores.rows("oks", stream.name, made)
            continue
        scaled = runs.SCALED["symmetric"] in stream.name
        scaler = None if scaled else jaxmkl.wrappers.RunningMoments()
        made = candidate(name, name, "classification", job.options.settings, scaler=scaler)
        found = evaluate(made.learner, stream, job.seeds)
        measured += found.rows("oks", stream.name, made)
    notes = (
        f"the same rows, at most {MOST_ROWS:,}, drawn once, in an order for each of at most "
        f"{MOST_SEEDS} seeds; scaled: features on [-1, 1], else as they are",
        "oks_sil: the step size with the fewest mistakes on these orders, "
        f"{runs.budget_of(0)} support vectors, of {runs.LARGE:,} rows "
        f"{runs.budget_of(runs.LARGE)}; expert_mkl: its defaults, nothing tuned; features that "
        "are not scaled are standardised by the stream (RunningMoments)",
        "seconds a run: those of all orders at once, shared out evenly, without the search for a "
        "step size and without compilation",
    )
    job.report.table(
        "A moving width, and kernels that are learned",
        measured,
        units=runs.PERCENT,
        parameters=("step_size",),
        hidden=("label_rate",),
        notes=notes,
    )


STARTS = tuple(2.0 ** (i / 2) for i in range(5, 12))
MOVES = {1.0: "moves", 0.0: "held"}  # the rate of the width's steps, and its name


def with_every_step(job: Job, length: int, optimizer: Any, **widths: Any) -> list[Candidate]:
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
                made += with_every_step(job, len(stream.y), moved, start=start)
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
        made = with_every_step(
            job, ROUNDS, optimizer, start=ANISOTROPIC_START, per_input=per_input
        )
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


PAPER = Paper(
    name="oks",
    title="Hypothesis sketching for online kernel selection (Zhang and Liao)",
    datasets=(*DATASETS, GENERATED),
    algorithms={**runs.ALGORITHMS, "expert_mkl": "expert_mkl"},
    parts=(table2, scaled, figure1, width, anisotropic, learned),
    default_parts=("table2",),
    seeds=20,
    generated=(GENERATED,),
    parts_without_files=("anisotropic",),
    published=tuple(runs.ALGORITHMS),
    open_parts=("table2", "scaled"),
)
