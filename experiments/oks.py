"""Online kernel selection in a continuum: Table 2, Figure 1, and what the moving width does.

The parts:

    table2        Table 2: OKS-SIL beside OKL-GD, OKS and Proj-KA, features as they come
    scaled        the same with features scaled to [-1, 1]
    figure1       Figure 1: budget, sampling size and threshold of OKS-SIL
    width         the width over time, and mistakes with a width that moves or is held
    anisotropic   one width an input, where two inputs of ten matter
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxmkl
from jaxmkl.learners.support_mkl import selection_kernels

from . import generate
from .evaluate import Candidate, Stream, accepts, candidate, compiled, keys_of, num_supports, timed
from .paper import Job, Paper
from .printed import printed
from .report import Panel, Row, figure, row

__all__ = ["PAPER"]

ALGORITHMS = {name: name for name in ("oks_sil", "okl_gd", "oks", "proj_ka")}
DATASETS = ("german", "svmguide3", "spambase", "mushrooms", "a9a", "w7a", "ijcnn1", "cod_rna")
GENERATED = "two_of_ten"

# The ways in which features are scaled, and the words behind a data set's name.
SCALED = {"symmetric": "scaled", "unit_rows": "unit rows"}

STEP_SIZES = tuple(10.0**k for k in range(-5, 1))
LARGE = 10_000  # streams from here on have a larger budget, and are tuned on this many rounds
TUNING_SEEDS = 3  # of large streams
# Learners with many support vectors: orders in tuning and on large streams, and how many rounds.
SLOW_SEEDS = {"okl_gd": 5, "oks": 3}
SLOW_ROUNDS = {"oks": 50_000}
# Played in double precision, as the paper's, up to LARGE examples.
DOUBLE = ("oks_sil", "oks", "proj_ka")
# Proj-KA: the examples by which one of the paper's 25 widths is chosen.
NUM_ALIGNED = 10_000

PERCENT = dict.fromkeys(("mistake_rate", "zero_rate", "difference"), (1e-2, "%"))
MUCH = 0.05  # a share of zero scores that calls for a warning


def stream_of(job: Job, dataset: str, how: str | None = None) -> Stream:
    """Read a data set, its features scaled in a way of ``jaxmkl.data.scale`` or as they come."""
    data = job.read(dataset)
    X = data.X if how is None else jaxmkl.data.scale(data.X, how)
    name = dataset if how is None else f"{dataset} ({SCALED[how]})"
    return Stream(name, X.astype(np.float32), data.y.astype(np.float32), data.task)


def budget_of(length: int) -> int:
    """Return the paper's budget for a stream of that length.

    >>> budget_of(8124), budget_of(10_000)
    (150, 200)
    """
    return 150 if length < LARGE else 200


def majority(y: np.ndarray) -> float:
    """Return the mistake rate of always naming the larger class.

    >>> majority(np.array([1, -1, -1, -1]))
    0.25
    """
    return float(min((y > 0).mean(), (y < 0).mean()))


def mistaken(name: str, f: jax.Array, y: jax.Array) -> jax.Array:
    """Return which scores are mistakes: y f <= 0; OKS takes a score of 0 for the class +1.

    >>> f, y = jnp.array([0.5, 0.0, 0.0]), jnp.array([1.0, 1.0, -1.0])
    >>> mistaken("oks_sil", f, y).tolist(), mistaken("oks", f, y).tolist()
    ([False, True, True], [False, False, True])
    """
    return y * jnp.where(f >= 0, 1, -1) < 0 if name == "oks" else y * f <= 0


def built(job: Job, name: str, length: int, **arguments: Any) -> Candidate:
    """Build a learner for a stream of that length, by the paper's settings."""
    if name in ("oks_sil", "proj_ka"):
        arguments["budget"] = budget_of(length)
    if "loss" in accepts(name):
        arguments["loss"] = "hinge"
    if name == "oks":
        arguments["num_rounds"] = length
    made = candidate(name, ALGORITHMS[name], "classification", job.options.settings, **arguments)
    return dataclasses.replace(made, learner=scoring(made.learner)) if name == "oks" else made


def scoring(learner: Any) -> Any:
    """Return a learner of one kernel a round that tells its score, not its vote: a vote is no 0.

    >>> scoring(jaxmkl.oks()).combination.output
    'value'
    """
    combination = dataclasses.replace(learner.combination, output="value")
    return dataclasses.replace(learner, combination=combination)


# --- the step size, tuned ----------------------------------------------------------------------


def stacked(learners: Sequence[Any]) -> Any:
    """Return learners of one structure as one, with a leading axis on every leaf."""
    return jax.tree.map(lambda *leaves: jnp.stack([*map(jnp.asarray, leaves)]), *learners)


def first_rounds(learner: Any, key: Any, X: Any, y: Any, rounds: int) -> tuple:
    """Return the state, scores and labels (rounds,) of the first rounds of a key's order.

    They are those of :func:`jaxmkl.run_many` with that key.
    """
    order = jaxmkl.permutations(key[None], len(y))[0, :rounds]
    state = learner.init(jax.random.fold_in(key, 0), X.shape[1], X.dtype)
    state, outputs = jaxmkl.run(learner, learner.enlarged(state, rounds), X[order], y[order])
    return state, outputs.prediction, y[order]


@functools.partial(jax.jit, static_argnames=("name", "rounds"))
def _rates(learners: Any, keys: Any, X: Any, y: Any, name: str, rounds: int) -> jax.Array:
    """Mistake rates (G, S) of stacked learners in the first rounds of every order."""

    def of_one(learner: Any, key: Any) -> jax.Array:
        _, f, labels = first_rounds(learner, key, X, y, rounds)
        return mistaken(name, f, labels).mean()

    return jax.vmap(jax.vmap(of_one, (None, 0)), (0, None))(learners, keys)


def in_precision(stream: Stream, name: str) -> tuple[Stream, bool]:
    """Return the stream in the precision a learner is to be played in, and whether it is double.

    The paper's is double. Single precision is faster, and used where it does no harm.
    """
    double = name in DOUBLE and len(stream.y) <= LARGE
    dtype = np.float64 if double else np.float32
    return dataclasses.replace(stream, X=stream.X.astype(dtype), y=stream.y.astype(dtype)), double


def tuned(job: Job, stream: Stream, name: str) -> Candidate:
    """Build a learner with the step size that errs least, of all steps and orders at once.

    A learner without a step size, or with one that was set, is built as it is.
    """
    length = len(stream.y)
    made = built(job, name, length)
    if name == "proj_ka" or "step_size" in job.options.settings:
        return made
    if (stream.name, name, "step") not in job.results:
        learners = stacked([built(job, name, length, step_size=s).learner for s in STEP_SIZES])
        few = TUNING_SEEDS if length > LARGE else SLOW_SEEDS.get(name, job.seeds)
        keys, rounds = keys_of(min(job.seeds, few)), min(length, LARGE)
        rates = _rates(learners, keys, stream.X, stream.y, name=name, rounds=rounds)
        best = STEP_SIZES[int(np.argmin(np.asarray(rates).mean(axis=1)))]
        job.results[stream.name, name, "step"] = best
    return built(job, name, length, step_size=job.results[stream.name, name, "step"])


# --- runs --------------------------------------------------------------------------------------


class Scores(NamedTuple):
    """What S runs over a stream left behind.

    Attributes:
      mistakes: mistake rates (S,).
      zeros: shares (S,) of scores that are exactly 0.
      support: support vectors (S,) at the end.
      seconds_per_run: of one run.
    """

    mistakes: np.ndarray
    zeros: np.ndarray
    support: np.ndarray
    seconds_per_run: float

    def rows(self, stream: Stream, made: Candidate) -> list[Row]:
        """Return the rows of a learner; the printed figure is that of the data set unscaled."""
        measured = {
            "mistake_rate": self.mistakes,
            "zero_rate": self.zeros,
            "support": self.support,
        }
        dataset = stream.name.split(" ")[0]
        return [
            row(
                ("oks", stream.name, made.name, metric),
                values,
                printed=printed("oks", dataset, made.name, metric),
                parameters=made.parameters,
                seconds_per_run=self.seconds_per_run,
            )
            for metric, values in measured.items()
        ]


@functools.partial(jax.jit, static_argnames=("name", "rounds", "each"))
def _play(learners: Any, keys: Any, X: Any, y: Any, name: str, rounds: int, each: bool) -> tuple:
    """Mistakes, zero scores, support vectors (S,); learners are one, or one for ``each`` key."""
    if each or rounds < len(y):

        def of_one(learner: Any, key: Any) -> tuple:
            state, f, labels = first_rounds(learner, key, X, y, rounds)
            return f, labels, learner.info(state).support.sum()

        f, labels, support = jax.vmap(of_one, (0 if each else None, 0))(learners, keys)
    else:
        # the same, with the data in memory once
        states, outputs = jaxmkl.run_many(learners, keys, X, y)
        f, labels = outputs.prediction, y[jaxmkl.permutations(keys, len(y))]
        support = num_supports(learners, states)
    return mistaken(name, f, labels).mean(axis=1), (f == 0).mean(axis=1), support


def play(
    learners: Any, stream: Stream, keys: jax.Array, name: str, *, each: bool = False
) -> Scores:
    """Compile the runs of a learner, or of a stack with one for ``each`` key, and play them."""
    rounds = min(len(stream.y), SLOW_ROUNDS.get(name, len(stream.y)))
    arguments = (learners, keys, stream.X, stream.y)
    function, _ = compiled(_play, *arguments, name=name, rounds=rounds, each=each)
    (mistakes, zeros, support), seconds = timed(function, *arguments)
    return Scores(
        np.asarray(mistakes, np.float64),
        np.asarray(zeros),
        np.asarray(support),
        seconds / len(keys),
    )


def played(job: Job, stream: Stream, name: str) -> tuple[Candidate, Scores]:
    """Tune a learner, play it, and keep both for other parts."""
    if (stream.name, name) in job.results:
        return job.results[stream.name, name]
    seeds = job.seeds
    if len(stream.y) > LARGE:
        seeds = min(seeds, SLOW_SEEDS.get(name, seeds))
    keys = keys_of(seeds)
    precise, double = in_precision(stream, name)
    with jax.enable_x64(double):
        made = tuned(job, precise, name)
        learners: Any = made.learner
        if name == "proj_ka":
            first = stream if len(stream.y) > LARGE else precise
            widths = aligned_widths(first, keys, made.parameters["num_aligned"])
            parameters = {**made.parameters, "bandwidth": widths}
            made = dataclasses.replace(made, parameters=parameters)
            learners = two_pass(widths, parameters["budget"])
        scores = play(learners, precise, keys, name, each=name == "proj_ka")
        job.results[stream.name, name] = made, scores
    return job.results[stream.name, name]


def aligned_widths(stream: Stream, keys: jax.Array, num_aligned: int) -> list[float]:
    """Return for every order the width that its first examples are best aligned with."""
    kernels = selection_kernels()
    whole = num_aligned >= len(stream.y)  # then no order matters

    def of_rows(rows: Any) -> float:
        alignments = _alignments(kernels, stream.X[rows], stream.y[rows])
        return float(kernels.bandwidth[int(np.argmax(np.asarray(alignments)))])

    if whole:
        return [of_rows(slice(None))] * len(keys)
    orders = np.asarray(jaxmkl.permutations(keys, len(stream.y)))
    return [of_rows(order[:num_aligned]) for order in orders]


_alignments = jax.jit(jaxmkl.kernel_alignment)


def two_pass(widths: Sequence[float], budget: int) -> Any:
    """Return stacked Projectrons, one of each width, whose prediction is their score.

    >>> two_pass([0.5, 2.0], 10).kernels.bandwidth.tolist()
    [0.5, 2.0]
    """
    made = [jaxmkl.projectron(jaxmkl.Gaussian(width), budget=budget) for width in widths]
    return stacked([scoring(learner) for learner in made])


# --- tables ------------------------------------------------------------------------------------

ABOUT = (
    "an order of the examples for each seed; mistakes: y f <= 0. The paper counts y f < 0, which "
    "takes a score of 0 for right; where kernel values underflow, a step size tuned by that count "
    "is one with many zero scores",
    f"step sizes: the best of {', '.join(f'{s:g}' for s in STEP_SIZES)} by mistakes on the same "
    f"orders; above {LARGE} examples on the first {LARGE} rounds of {TUNING_SEEDS} orders",
    f"oks_sil, proj_ka: {budget_of(0)} support vectors below {LARGE} examples, else "
    f"{budget_of(LARGE)}; okl_gd: the newest 2000 at most",
    f"double precision, as the paper's; okl_gd, and all above {LARGE} examples, in single",
)
FEWER = (
    f"above {LARGE} examples there are fewer orders of learners with many support vectors; oks "
    f"plays the first {SLOW_ROUNDS['oks']} examples of an order at most"
)
NOTES = {
    ("oks",): "oks: a score of 0 names the class +1, as in its paper",
    ("proj_ka",): "proj_ka: in two passes, as in the paper: the width is chosen by an order's "
    f"first {NUM_ALIGNED} examples, then a Projectron plays them all",
    ("german", "a9a", "w7a", "ijcnn1"): "on w7a, ijcnn1 and nearly on a9a and german the printed "
    "figures of oks_sil and okl_gd are those of always naming the larger class",
    ("spambase",): "spambase: with 200 instead of 150 support vectors (--set budget=200) oks_sil "
    "comes to the printed figure",
    ("mushrooms",): "mushrooms: the printed .351 of oks_sil is met on rows of length 1; the paper "
    "does not say how it scales",
    ("ijcnn1",): "ijcnn1: the training rows, whose first ten columns are empty in the copy there "
    "is; not comparable with the printed figures",
}


def table(job: Job, part: str, title: str, ways: Callable[[str], Iterable[str | None]]) -> None:
    """Run the rows of a table, a data set scaled in each of its ways, and show them."""
    datasets, names = job.among(part, DATASETS, tuple(ALGORITHMS))
    pairs = [(dataset, how) for dataset in datasets for how in ways(dataset)]
    rows: list[Row] = []
    largest: dict[str, float] = {}
    with job.report.progress(part, len(pairs) * len(names)) as step:
        for dataset, how in pairs:
            stream = stream_of(job, dataset, how)
            largest[stream.name] = majority(stream.y)
            for name in names:
                step(f"{stream.name} {name}")
                made, scores = played(job, stream, name)
                rows += scores.rows(stream, made)
    if not rows:
        return
    job.report.add(row(("oks", d, "majority", "mistake_rate"), [m]) for d, m in largest.items())
    notes = [*ABOUT]
    if any(len({r.seeds for r in rows if r.dataset == d}) > 1 for d in largest):
        notes.append(FEWER)
    notes += [text for about, text in NOTES.items() if {*about} & {*datasets, *names}]
    if part == "scaled":
        notes.append("printed: the paper's figures, for whatever scale it had")
    job.report.table(
        title,
        job.report.add(rows),
        units=PERCENT,
        beside={"larger class (%)": {d: 100 * m for d, m in largest.items()}},
        parameters=("step_size",),
        notes=[*notes, *warnings(rows)],
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
    """Table 2, features as they come; mushrooms on rows of length 1, too."""

    def ways(dataset: str) -> tuple[str | None, ...]:
        return (None, "unit_rows") if dataset == "mushrooms" else (None,)

    table(job, "table2", "Table 2: mistakes in online kernel selection", ways)


def scaled(job: Job) -> None:
    """Table 2 with features scaled to [-1, 1]."""
    title = "Table 2 with features scaled to [-1, 1]"
    table(job, "scaled", title, lambda dataset: ("symmetric",))


# --- Figure 1 ----------------------------------------------------------------------------------

FIGURE_1: Mapping[str, tuple] = {
    "budget": (50, 100, 200, 300, 400),
    "num_sampled": (1, 2, 3, 4, 5, 6),
    "threshold": tuple(k / 10 for k in range(1, 10)),
}
SYMBOLS = {"budget": "B", "num_sampled": "s", "threshold": "ν"}


def figure1(job: Job) -> None:
    """Figure 1: one setting of OKS-SIL at a time against mistakes and seconds."""
    datasets, _ = job.among("figure1", ("spambase",), ("oks_sil",))
    if not datasets:
        return
    stream = stream_of(job, *datasets)
    rows: list[Row] = []
    found: dict[str, list[Scores]] = {name: [] for name in FIGURE_1}
    settings = {k: v for k, v in job.options.settings.items() if k not in FIGURE_1}
    with job.report.progress("figure1", 1 + sum(map(len, FIGURE_1.values()))) as step:
        step("step size")
        precise, double = in_precision(stream, "oks_sil")
        with jax.enable_x64(double):
            usual = dict(tuned(job, precise, "oks_sil").parameters)
        for name, values in FIGURE_1.items():
            for value in values:
                label = f"oks_sil ({SYMBOLS[name]} = {value:g})"
                step(label)
                made = candidate(
                    label, "oks_sil", "classification", settings, **{**usual, name: value}
                )
                with jax.enable_x64(double):
                    scores = play(made.learner, precise, keys_of(job.seeds), "oks_sil")
                found[name].append(scores)
                rows += scores.rows(stream, made)
    job.report.table(
        "Figure 1: budget, sampling size and threshold of OKS-SIL",
        job.report.add(rows),
        units=PERCENT,
        parameters=tuple(FIGURE_1),
        notes=(
            f"one of three varies; step size {usual['step_size']:g}, tuned at the usual ones",
            f"seconds: those of {job.seeds} orders at once, shared out evenly",
        ),
    )
    for name, of_name in found.items():
        grid, symbol = np.array(FIGURE_1[name]), SYMBOLS[name]
        rates = np.array([scores.mistakes for scores in of_name]).T
        seconds = np.array([scores.seconds_per_run for scores in of_name])
        panels = [
            Panel("spambase", symbol, "mistake rate", {"oks_sil": (grid, rates)}, marks=True),
            Panel("spambase", symbol, "seconds a run", {"oks_sil": (grid, seconds)}, marks=True),
        ]
        job.report.plot(f"oks_{name}", panels)


# --- the width ---------------------------------------------------------------------------------

STARTS = tuple(2.0 ** (i / 2) for i in range(5, 12))
MOVES = {1.0: "moves", 0.0: "held"}  # the rate of the width's steps, and what it is called


@jax.jit
def _followed(learners: Any, keys: Any, X: Any, y: Any) -> tuple:
    """Mistake rates (G, S) and parameters (G, S, T, ...) of stacked learners."""

    def of_one(learner: Any) -> tuple:
        _, outputs = jaxmkl.run_many(learner, keys, X, y, record=_with_parameters)
        labels = y[jaxmkl.permutations(keys, len(y))]
        return mistaken("oks_sil", outputs.prediction, labels).mean(axis=1), outputs.info

    return jax.vmap(of_one)(learners)


def _with_parameters(output: Any) -> Any:
    """Keep the kernel's parameters of a round."""
    return output._replace(info=output.info.parameters)


def width(job: Job) -> None:
    """The width from every start of the paper, and mistakes beside those of widths held there."""
    datasets, _ = job.among("width", ("svmguide3", "spambase"), ("oks_sil",))
    pairs = [(dataset, how) for dataset in datasets for how in (None, "symmetric")]
    chosen_steps = job.options.settings.get("step_size")
    steps = STEP_SIZES if chosen_steps is None else (chosen_steps,)
    rows: list[Row] = []
    with job.report.progress("width", len(pairs)) as step:
        for dataset, how in pairs:
            stream = stream_of(job, dataset, how)
            step(f"{stream.name}, {2 * len(STARTS)} widths of {len(steps)} step sizes at once")
            grid = [(start, rate) for start in STARTS for rate in MOVES]
            made = [
                built(
                    job,
                    "oks_sil",
                    len(stream.y),
                    step_size=size,
                    space=jaxmkl.GaussianWidths(start=start),
                    optimizer=jaxmkl.InverseTime(rate),
                )
                for start, rate in grid
                for size in steps
            ]
            learners = stacked([each.learner for each in made])
            mistakes, widths = map(
                np.asarray, _followed(learners, keys_of(job.seeds), stream.X, stream.y)
            )
            by_step = mistakes.mean(axis=1).reshape(len(grid), len(steps))
            best = np.arange(len(grid)) * len(steps) + by_step.argmin(axis=1)
            rows += width_rows(stream, [made[i] for i in best], grid, mistakes[best], widths[best])
            draw_widths(job, stream, grid, mistakes[best], widths[best])
    if rows:
        job.report.table(
            "A width that moves, and one that is held where the other starts",
            job.report.add(rows),
            units=PERCENT,
            parameters=("step_size",),
            notes=(
                "each with the best of its step sizes; width: at the end of the stream; single "
                "precision",
            ),
        )


def width_rows(
    stream: Stream,
    made: Sequence[Candidate],
    grid: Sequence[tuple[float, float]],
    mistakes: np.ndarray,
    widths: np.ndarray,
) -> list[Row]:
    """Return the rows of learners by their start and rate: mistakes, and the width at the end."""
    rows = []
    each = zip(made, grid, mistakes, widths[..., -1], strict=True)
    for learner, (start, rate), *values in each:
        label = f"oks_sil (start {start:.3g}, {MOVES[rate]})"
        rows += [
            row(("oks", stream.name, label, metric), of_metric, parameters=learner.parameters)
            for metric, of_metric in zip(("mistake_rate", "width"), values, strict=True)
        ]
    return rows


def draw_widths(
    job: Job,
    stream: Stream,
    grid: Sequence[tuple[float, float]],
    mistakes: np.ndarray,
    widths: np.ndarray,
) -> None:
    """Draw widths over time, and mistakes by the start."""
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
    effect = Panel(
        stream.name, "width at the start", "mistake rate", by_start, log_x=True, marks=True
    )
    panels = [
        Panel(stream.name, "examples", "width", over_time, log_x=True, log_y=True, median=True),
        dataclasses.replace(effect, median=True),
    ]
    job.report.plot(f"oks_width_{stream.name.replace(' (', '_').rstrip(')')}", panels)


# --- one width an input ------------------------------------------------------------------------

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


@functools.partial(jax.jit, static_argnames="record")
def _of_streams(learner: Any, keys: Any, X: Any, y: Any, record: Callable) -> tuple:
    """Which rounds were mistakes (S, T), and what was recorded, of a stream for every key."""

    def of_one(key: Any, X: Any, y: Any) -> tuple:
        state = learner.init(key, X.shape[1], X.dtype)
        _, outputs = jaxmkl.run(learner, state, X, y, record=record)
        return mistaken("oks_sil", outputs.prediction, y), outputs.info

    return jax.vmap(of_one)(keys, X, y)


@jax.jit
def _rates_of_streams(learners: Any, keys: Any, X: Any, y: Any) -> jax.Array:
    """Mistake rates (G,) of stacked learners over streams (S, T)."""

    def of_one(learner: Any) -> jax.Array:
        return _of_streams(learner, keys, X, y, jaxmkl.without_info)[0].mean()

    return jax.vmap(of_one)(learners)


def anisotropic(job: Job) -> None:
    """One width an input beside one of all, on a stream of which two inputs of ten matter."""
    datasets, _ = job.among("anisotropic", (GENERATED,), ("oks_sil",))
    if not datasets:
        return
    seeds = min(job.seeds, ANISOTROPIC_SEEDS)
    made = [generate.two_that_matter(seed, 0, ROUNDS) for seed in range(seeds)]
    X, y = (np.stack(part) for part in zip(*made, strict=True))
    keys = keys_of(seeds)
    adam = jaxmkl.Optax("adam", LEARNING_RATE)
    steps = STEP_SIZES
    if "step_size" in job.options.settings:
        steps = (job.options.settings["step_size"],)
    built_kinds: dict[str, Candidate] = {}
    wrong: dict[str, np.ndarray] = {}
    widths: dict[str, np.ndarray] = {}
    with job.report.progress("anisotropic", len(KINDS)) as step:
        for words, (per_input, with_adam) in KINDS.items():
            step(words)
            space = jaxmkl.GaussianWidths(start=ANISOTROPIC_START, per_input=per_input)
            optimizer = adam if with_adam else None
            make = functools.partial(
                built, job, "oks_sil", ROUNDS, space=space, optimizer=optimizer
            )
            best = 0
            if len(steps) > 1:
                learners = stacked([make(step_size=size).learner for size in steps])
                best = int(np.argmin(np.asarray(_rates_of_streams(learners, keys, X, y))))
            built_kinds[words] = make(step_size=steps[best])
            found = _of_streams(built_kinds[words].learner, keys, X, y, _with_parameters)
            wrong[words], widths[words] = map(np.asarray, found)
    rows = anisotropic_rows(built_kinds, wrong, widths)
    ratios = [r for r in rows if r.metric == "difference"]
    job.report.table(
        "Two inputs of ten matter: one width of all, and a width for every input",
        job.report.add(rows),
        units=PERCENT,
        parameters=("step_size",),
        notes=(
            f"{seeds} streams of {ROUNDS} examples; each learner with the best of its step sizes",
            "width ratio: the smallest width of the eight inputs that do not matter over the "
            "larger one of the two that do, at the end",
            "difference: mistakes less those of the best learner with one width, stream by stream",
            *(
                f"{r.algorithm}: {figure(100 * r.mean)} ± {figure(100 * r.std / r.seeds**0.5)} "
                "points (a standard error)"
                for r in ratios
            ),
        ),
    )
    draw_anisotropic(job, wrong, widths)


def anisotropic_rows(
    made: Mapping[str, Candidate],
    wrong: Mapping[str, np.ndarray],
    widths: Mapping[str, np.ndarray],
) -> list[Row]:
    """Return the rows of every kind of learner.

    Args:
        made: the learners by kind.
        wrong: which rounds were mistakes (S, T).
        widths: (S, T), or (S, T, D) where every input has one.
    """
    rates = {words: of_kind.mean(axis=1) for words, of_kind in wrong.items()}
    ones = [words for words, of_kind in widths.items() if of_kind.ndim == 2]
    best = min(ones, key=lambda words: rates[words].mean())
    rows: list[Row] = []
    for words, learner in made.items():
        measured = {"mistake_rate": rates[words]}
        if widths[words].ndim == 3:
            last = widths[words][:, -1]
            measured["width_ratio"] = last[:, 2:].min(axis=1) / last[:, :2].max(axis=1)
            measured["difference"] = rates[words] - rates[best]
        rows += [
            row(("oks", GENERATED, f"oks_sil ({words})", m), v, parameters=learner.parameters)
            for m, v in measured.items()
        ]
    return rows


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
    algorithms=ALGORITHMS,
    parts={
        "table2": table2,
        "scaled": scaled,
        "figure1": figure1,
        "width": width,
        "anisotropic": anisotropic,
    },
    default_parts=("table2",),
    seeds=20,
    task="classification",
    generated=(GENERATED,),
    parts_without_files=("anisotropic",),
)
