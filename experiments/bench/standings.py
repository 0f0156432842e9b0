"""Errors of ours and of other packages on fourteen streams and tables that nobody tuned on.

Inputs, and targets that are numbers, are standardised by the first 1,000 rows (a fifth of short
sets), and rows come in file order. Errors are those after these rows: the share of the
target's variance, or of mistakes. Batch models are fitted on these rows, and anew every 500 on all
past ones. "with lags": the last three labels, or the last one of several classes as zeros and a
one, stand beside the inputs. Streams in time are apart from tables.
"""

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from threadpoolctl import threadpool_limits

import jaxmkl
from jaxmkl.evaluate import Row, plain, rows

from .. import refitted
from ..evaluate import Stream
from ..options import Options, chosen
from ..papers.paper import data_folder
from ..report import Report
from . import peer_models
from .peer_models import (
    GREY,
    Model,
    Ready,
    able,
    both,
    in_grey,
    legend,
    looks_of,
    ours,
    ready,
    saved,
)

HEAD = 1_000
LAGS = 3
STREAMS = {"seoulbike": 7_000, "metro": 8_000} | dict.fromkeys(
    ("solar", "keystroke", "ozone", "eeg", "occupancy", "bankmkt", "phishing"), 7_000
)
TABLES = dict.fromkeys(("abalone", "parkinsons", "diamonds", "phoneme", "mammography"), 5_000)
DATASETS = STREAMS | TABLES  # rows at most
SEEDS = 1
ERROR = {"regression": "variance_share", "classification": "mistake_rate"}
SECONDS = "processor_seconds_per_1000"
WITH_LAGS, BASE = " with lags", "expert_mkl"


def head_of(length: int) -> int:
    """Return how many rows standardise and are not judged."""
    return min(HEAD, length // 5)


def lagged(stream: Stream) -> Stream:
    """Return a stream whose inputs have the last labels beside them, zeros before the first.

    >>> lagged(Stream("a", np.zeros((4, 1)), np.array([1.0, 2, 3, 4]), "regression")).X[:, 1:]
    array([[0., 0., 0.],
           [1., 0., 0.],
           [2., 1., 0.],
           [3., 2., 1.]])
    """
    y, T = stream.y, len(stream.y)
    if stream.num_classes:
        past = np.eye(stream.num_classes)[y.astype(int)]
        past = np.concatenate([np.zeros_like(past[:1]), past[:-1]])
    else:
        past = np.stack([np.pad(y, (lag, 0))[:T] for lag in range(1, LAGS + 1)], axis=1)
    X = np.concatenate([stream.X, past.astype(stream.X.dtype)], axis=1)
    return dataclasses.replace(stream, X=X)


def error_of(said: Iterable[object], stream: Stream) -> float:
    """Return the error after the head: the share of the target's variance, or of mistakes."""
    late = slice(head_of(len(stream.y)), None)
    predicted, y = (np.asarray(values, np.float64)[late] for values in (said, stream.y))
    if stream.task == "classification":
        return float(np.mean(predicted != y))
    return float(np.mean((predicted - y) ** 2) / np.var(y))


def last_label(model: Model, stream: Stream) -> Ready:
    """Prepare persistence."""
    return Ready(lambda: np.append(0.0, stream.y[:-1]), {})


def batch(model: Model, stream: Stream, adapter: type | None = None) -> Ready:
    """Prepare a model with the methods of scikit-learn, which is fitted anew on all past rows."""
    make, settings = model.made(stream.task)
    X, y, head = stream.X, stream.y, head_of(len(stream.y))

    def one_pass() -> np.ndarray:
        fresh = make() if adapter is None else adapter(make(), stream.task)
        with threadpool_limits(1):
            late = [*refitted.said(fresh, "predict", X, y, refitted.EVERY, head)]
        return np.concatenate([np.zeros(head), *late])

    return Ready(one_pass, {**settings, "refitted_every": refitted.EVERY})


class HeldOut:
    """xRFM with the methods of scikit-learn: it chooses by every fifth row, which it is given."""

    def __init__(self, model: Any, task: str) -> None:
        self.model, self.task = model, task
        self.classes: np.ndarray | None = None

    def fit(self, X: np.ndarray, y: np.ndarray) -> "HeldOut":
        """Fit it; classes are numbered for it."""
        if self.task == "classification":
            self.classes, y = np.unique(y, return_inverse=True)
        held = np.arange(len(y)) % 5 == 4
        self.model.fit(X[~held], y[~held], X[held], y[held])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return numbers or classes (n,)."""
        said = np.asarray(self.model.predict(X))
        return said.reshape(len(X)) if self.classes is None else self.classes[said.astype(int)]


OURS = partial(ours, online=False)
# per package, the argument that is the seed; the others are run once
SEED = {"sklearn": "random_state", "capymoa": "random_seed", "jaxmkl": "seed"}
OF_XRFM = {"random_state": 0, "verbose": False, "n_threads": 1}
OF_TREES = "river ARF", "river AMF", "CapyMOA ARF", "CapyMOA SGB"
MODELS = (
    Model("last label", "numpy", "", "", how=last_label),
    both("expert_mkl", "jaxmkl", "expert_mkl", how=OURS),
    both("expert_mkl (fixed)", "jaxmkl", "expert_mkl", {"banks": "fixed"}, how=OURS),
    # it draws nothing
    both("boosting", "sklearn", "ensemble.HistGradientBoosting{}", {"random_state": 0}, how=batch),
    both("extra trees", "sklearn", "ensemble.ExtraTrees{}", how=batch),
    both("LightGBM", "lightgbm", "LGBM{}", {"verbose": -1}, how=batch),
    both("xRFM", "xrfm", "xRFM", OF_XRFM, how=partial(batch, adapter=HeldOut)),
    *(model for model in peer_models.MODELS if model.name in OF_TREES),
    Model("CapyMOA SRP", "capymoa", None, "classifier.StreamingRandomPatches"),
)
REFITTED = [m.name for m in MODELS if m.package in ("sklearn", "lightgbm", "xrfm")]
NAMES: dict[str, list[str]] = {}  # by package, those with lags last
for model in MODELS:
    NAMES.setdefault(model.package, []).append(model.name)
for model in MODELS:
    NAMES[model.package] += [model.name + WITH_LAGS] * (model.name in REFITTED)


def streams(options: Options, names: Sequence[str], report: Report) -> Iterator[Stream]:
    """Yield the named data sets that are in the folder, ``--rounds`` rows of them at most."""
    for name in names:
        try:
            data = jaxmkl.tables.read(data_folder(options) / f"{name}.npz")
        except OSError:
            report.say(f"{name}: not available, left out")
            continue
        task = data.task if data.task == "regression" else "classification"  # of any classes
        most = min(DATASETS[name], options.rounds or DATASETS[name])
        stream = Stream(name, np.asarray(data.X)[:most], data.y[:most], task)
        yield stream.standardised(head_of(len(stream.y)))


def models(options: Options, report: Report) -> list[Model]:
    """Return the requested models whose packages are there, ours with the given settings."""
    known = {model.name: model for model in MODELS}
    for name in jaxmkl.LEARNERS:
        if name not in (*known, "multitask"):
            known[name] = both(name, "jaxmkl", name, how=OURS)
    known |= {
        name + WITH_LAGS: dataclasses.replace(model, name=name + WITH_LAGS)
        for name, model in known.items()
    }
    default = [name for names in NAMES.values() for name in names]
    found = [known[name] for name in chosen("algorithm", options.algorithms, known, default)]
    given = {"jaxmkl": options.settings}
    return [
        dataclasses.replace(m, arguments={**m.arguments, **given.get(m.package, {})})
        for m in able(found, report)
    ]


def measured(model: Model, stream: Stream, seeds: int) -> list[Row]:
    """Run a model in this process and return its rows."""
    seen = lagged(stream) if model.name.endswith(WITH_LAGS) else stream
    found: dict[str, list[float]] = {ERROR[stream.task]: [], SECONDS: []}
    argument = SEED.get(model.package, "")
    drawn_once = not argument or argument in model.arguments
    for seed in range(1 if drawn_once else seeds):
        given = model.arguments if drawn_once else {argument: seed, **model.arguments}
        made = ready(dataclasses.replace(model, arguments=given), seen)
        made.start()
        began = time.process_time()
        said = made.one_pass()
        found[SECONDS].append((time.process_time() - began) / len(stream.y) * 1e3)
        found[ERROR[stream.task]].append(error_of(said, stream))
    settings = {"examples": len(stream.y), **plain(made.settings)}
    return rows(("bench", stream.name, model.name), found, parameters=settings)


def run(options: Options, names: Sequence[str], report: Report) -> None:
    """Run the models on the named sets, those with lags on the streams in time alone."""
    found, known = list[Row](), models(options, report)
    for stream in streams(options, names, report):
        running = {
            model.name: model
            for model in known
            if model.path(stream.task) is not None
            and (stream.name in STREAMS or not model.name.endswith(WITH_LAGS))
        }
        for name in report.steps(stream.name, running):
            found += measured(running[name], stream, options.seeds or SEEDS)
    notes = [
        f"standardised by the first {HEAD:,} rows or a fifth, errors after them, file order",
        f"refitted every {refitted.EVERY} rows: {', '.join(REFITTED)}; all by their defaults",
        f"with lags: beside the last {LAGS} labels; processor seconds per 1,000 rows, compiled",
    ]
    for title, some in (("Streams in time", STREAMS), ("Tables, in file order", TABLES)):
        report.table(title, [row for row in found if row.dataset in some], notes=notes)
    if options.plots is not None and any(row.algorithm == BASE for row in found):
        saved(picture(found), options.plots / "standings.svg", report)


def picture(found: Iterable[Row]) -> Figure:
    """Draw the models' errors relative to that of BASE on each set: above 1 is worse."""
    errors: dict[str, dict[str, float]] = {}
    for row in found:
        if row.metric in ERROR.values():
            errors.setdefault(row.algorithm, {})[row.dataset] = row.mean
    ours = errors.get(BASE, {})
    sets, looks = [name for name in DATASETS if ours.get(name)], looks_of(MODELS)
    result = Figure(figsize=(9.3, 5.0), layout="constrained")
    axes = result.subplots()
    for name, of_sets in errors.items():
        places = [place for place, one in enumerate(sets) if one in of_sets]
        relative = [of_sets[sets[place]] / ours[sets[place]] for place in places]
        look = looks[name.removesuffix(WITH_LAGS)]
        axes.plot(places, relative, **look | ({"mfc": "none"} if WITH_LAGS in name else {}))
    axes.axvline(sum(name in STREAMS for name in sets) - 0.5, color=GREY, lw=0.8)
    axes.set(yscale="log", ylabel=f"error / that of {BASE}; hollow: with lags")
    axes.set_xticks(range(len(sets)), sets, rotation=30, ha="right")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    in_grey(axes)
    legend(result, looks, errors, 5)
    return result
