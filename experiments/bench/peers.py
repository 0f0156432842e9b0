"""Error, time and memory of models of other packages and of ours, on the same streams."""

from collections.abc import Iterable, Sequence
from importlib import import_module

import jax
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from jaxmkl.evaluate import Row, UsageError, plain

from ..evaluate import Stream, timed
from ..options import Options, chosen
from ..papers import amkl_river
from ..report import Report
from . import standings
from .features import of_77_inputs
from .peer_densities import densities
from .peer_models import MODELS, Model, able, in_grey, legend, looks_of, ready, saved
from .timing import figures, in_own_process, peak_memory, real_or

LENGTH = 4_000  # examples of the papers' data sets that are used
OF_PAPERS = {"magic04": "classification", "tom": "regression", "twitter": "regression"}
ERRORS, DENSITIES, STANDINGS = PARTS = "errors", "densities", "standings"
SMALL = (*amkl_river.DATASETS, *OF_PAPERS)
DATASETS = (*SMALL, *standings.DATASETS)
PASSES = 20
ENOUGH = 2.0  # seconds, after which no other pass is begun

ERROR = {"mistake_rate": "mistakes", "mae": "mean absolute error"}  # that are drawn
COLUMNS = 4


def streams(options: Options, names: Sequence[str], report: Report) -> list[Stream]:
    """Return the requested data sets of river and of the papers, as far as they are available.

    Classes of the papers come in an order that is drawn once, numbers in file order. Without any
    data, a generated stream takes their place.
    """
    found = []
    for name in names:
        if name in OF_PAPERS:
            dataset, X, y = real_or(options, name, of_77_inputs)
            if dataset == name:
                task = OF_PAPERS[name]
                order = np.random.default_rng(0).permutation(len(y))
                rows = (order if task == "classification" else np.arange(len(y)))[:LENGTH]
                found.append(Stream(name, X[rows], y[rows], task))
                continue
        elif made := amkl_river.bundled(name):
            found.append(amkl_river.read(name, made()))
            continue
        report.say(f"{name}: not available, left out")
    if not found:
        dataset, X, y = of_77_inputs()
        found = [Stream(dataset, X[:LENGTH], y[:LENGTH].astype(np.float32), "regression")]
    return found


def errors(said: Iterable[float], stream: Stream) -> dict[str, list[float]]:
    """Return the share of mistakes, or the mean absolute and squared error."""
    wrong = np.asarray(said, np.float64) - stream.y
    if stream.task == "classification":
        return {"mistake_rate": [float(np.mean(wrong != 0))]}
    return {"mae": [float(np.mean(np.abs(wrong)))], "mse": [float(np.mean(wrong**2))]}


def measured(model: Model, stream: Stream) -> list[Row]:
    """Run a model over a stream in this process and return its rows."""
    jax.devices()  # the library is initialised, as the packages are
    import_module(model.package)
    made = ready(model, stream)
    before = peak_memory("VmRSS")
    starting = made.start()
    said, first = timed(made.one_pass)
    grown, seconds = peak_memory() - before, [first]
    while len(seconds) < PASSES and sum(seconds) < ENOUGH:
        seconds.append(timed(made.one_pass)[1])
    metrics = {
        **errors(said, stream),
        "microseconds_per_example": [s / len(stream.y) * 1e6 for s in seconds],
        "memory_growth_mib": [grown],
        **{name: [figure] for name, figure in starting.items()},
    }
    settings = {"examples": len(stream.y), **plain(made.settings)}
    return figures(stream.name, model.name, metrics, **settings)


def run(options: Options, report: Report) -> None:
    """Run the requested parts, by default those of the named sets, or all but the standings."""
    names = chosen("data set", options.datasets, DATASETS, DATASETS)
    alone = options.algorithms or options.seeds or options.settings or options.rounds
    default = (STANDINGS,) if alone else PARTS if options.datasets else (ERRORS, DENSITIES)
    parts = chosen("part", options.parts, PARTS, default)
    if alone and {*parts} != {STANDINGS}:
        raise UsageError("bench: --algorithms, --seeds, --set, --rounds are of the part standings")
    large = [name for name in names if name in standings.DATASETS]
    small = [name for name in names if name in SMALL]
    if STANDINGS in parts and large:
        standings.run(options, large, report)
    if not small or parts == (STANDINGS,):
        return
    all_streams = streams(options, small, report)
    if ERRORS in parts:
        of_errors(options, report, all_streams)
    if DENSITIES in parts:
        rows, notes = densities(all_streams)
        if rows:
            report.table("Densities of numbers", rows, notes=notes)


def of_errors(options: Options, report: Report, all_streams: list[Stream]) -> None:
    """Run every model on every stream, each pair in a process of its own, one after the other."""
    models = able(MODELS, report)
    pairs = [(s, model) for s in all_streams for model in models if model.path(s.task)]
    rows: list[Row] = []
    with report.progress("peers", len(pairs)) as step:
        for stream, model in pairs:
            step(f"{stream.name} {model.name}")
            rows += in_own_process(measured, model, stream)
    versions = dict.fromkeys(str(row.parameters["package"]) for row in rows)
    report.table(
        "Models of other packages and ours: each predicts an example, then learns it",
        rows,
        hidden=("state_mib",),
        notes=(
            "; ".join(versions),
            "ARF, AMF: adaptive random and aggregated Mondrian forest; KNN: nearest neighbours; "
            "SGB: streaming gradient boosting; SGD: on Fourier features",
            "defaults, nothing tuned (--json has all settings); forests of river have 10 trees, "
            "those of CapyMOA 100",
            f"the median of at most {PASSES} passes, none begun after {ENOUGH:g} s of them; "
            "ours in one compiled call, ready after tracing, lowering and compiling",
            "memory: how much the most that the process has held grew in the first pass; of ours "
            "that is the compiler's for the most part, of CapyMOA what Java took",
            f"{', '.join(OF_PAPERS)}: {LENGTH} examples at most",
        ),
    )
    if options.plots is not None:
        saved(picture(rows), options.plots / "peers.svg", report)


def picture(rows: Iterable[Row]) -> Figure:
    """Draw error against time, a panel for each data set: below and to the left is better."""
    panels: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        panels.setdefault(row.dataset, {}).setdefault(row.algorithm, {})[row.metric] = row.mean
    columns = min(COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    result = Figure(figsize=(3.1 * columns, 2.6 * lines + 1.0), layout="constrained")
    places = result.subplots(lines, columns, squeeze=False).ravel()
    looks = looks_of(MODELS)
    seen = set()
    for axes, (dataset, models) in zip(places, panels.items(), strict=False):
        for name, metrics in models.items():
            (error,) = (metric for metric in ERROR if metric in metrics)
            place = metrics["microseconds_per_example"], metrics[error]
            axes.plot(*place, **looks[name])
            seen.add(name)
        axes.set(xscale="log", yscale="log", title=dataset, ylabel=ERROR[error])
        axes.set(xlabel="microseconds an example", xlim=(1, 3e4))
        low, high = axes.get_ylim()
        wide = high > 5 * low
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if wide else MaxNLocator(4))
        in_grey(axes)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    legend(result, looks, seen, columns)
    return result
