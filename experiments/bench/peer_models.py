"""Models of other packages, and ours beside them, each prepared for one stream.

All of them predict an example and then learn it. Inputs, and targets that are numbers, are scaled
online if the documentation of the package does so. All other settings are the defaults of the
package. In pictures each package has a colour, each model a mark.
"""

import dataclasses
import importlib
import inspect
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

import jaxmkl
from jaxmkl.evaluate import state_bytes

from ..evaluate import Stream, candidate, program, timed
from ..options import refused
from ..papers.amkl_river import single
from ..report import Report
from .timing import one_run


@dataclasses.dataclass(frozen=True)
class Model:
    """A model of a package, for numbers and for classes: its path and its arguments."""

    name: str  # in tables
    package: str
    regression: str | None = None
    classification: str | None = None
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    scaler: Mapping[str, str] = dataclasses.field(default_factory=dict)  # river's, by task
    how: "Callable[[Model, Stream], Ready] | None" = None  # it is prepared; default: READY

    def path(self, task: str) -> str | None:
        """Return its path inside its package; None if it does not support the task."""
        return self.regression if task == "regression" else self.classification

    def made(self, task: str, **arguments: object) -> tuple[Callable[[], Any], dict[str, object]]:
        """Return a factory of fresh models, and all parameters of such a model."""
        module, _, name = f"{self.package}.{self.path(task)}".rpartition(".")
        make = getattr(importlib.import_module(module), name)
        bound = inspect.signature(make).bind(**{**self.arguments, **arguments})
        bound.apply_defaults()
        return lambda: make(*bound.args, **bound.kwargs), {"class": name, **bound.arguments}


def both(name: str, package: str, path: str, *given: Any, **others: Any) -> Model:
    """Return a model for numbers and classes, whose paths end as those of scikit-learn.

    >>> both("forest", "sklearn", "ensemble.ExtraTrees{}").regression
    'ensemble.ExtraTreesRegressor'
    """
    return Model(
        name, package, path.format("Regressor"), path.format("Classifier"), *given, **others
    )


STANDARD = {"regression": "StandardScaler", "classification": "StandardScaler"}
UNIT = {"regression": "MinMaxScaler", "classification": "MinMaxScaler"}
MODELS = (
    both("scikit-learn SGD", "sklearn", "linear_model.SGD{}", {"random_state": 0}),
    both("river ARF", "river", "forest.ARF{}", {"seed": 42}, {"regression": "StandardScaler"}),
    both("river AMF", "river", "forest.AMF{}", {"seed": 42}, UNIT),
    both("river KNN", "river", "neighbors.KNN{}", {}, STANDARD),
    Model("river Bayesian linear", "river", "linear_model.BayesianLinearRegression"),
    Model(
        "CapyMOA ARF",
        "capymoa",
        "regressor.AdaptiveRandomForestRegressor",
        "classifier.AdaptiveRandomForestClassifier",
    ),
    Model("CapyMOA SOKNL", "capymoa", "regressor.SOKNL"),
    Model(
        "CapyMOA SGB",
        "capymoa",
        "regressor.StreamingGradientBoostedRegression",
        "classifier.StreamingGradientBoostedTrees",
    ),
    both("raker", "jaxmkl", "raker"),
    both("expert_mkl", "jaxmkl", "expert_mkl"),
    Model("spa", "jaxmkl", None, "spa"),
)
COMPONENTS = 850  # of scikit-learn's Fourier features, as many as raker has


def missing(package: str) -> str | None:
    """Return why the models of a package cannot be run here; None if they can."""
    if find_spec(package) is None:
        return "not installed"
    java = shutil.which("java") or os.environ.get("JAVA_HOME")
    return "no Java" if package == "capymoa" and not java else None


def able(models: Iterable[Model], report: Report) -> list[Model]:
    """Return the models whose packages are there, and say which are not."""
    models = [*models]
    reasons = {package: missing(package) for package in dict.fromkeys(m.package for m in models)}
    for package in filter(reasons.get, reasons):
        report.say(f"{package}: {reasons[package]}, its models are left out")
    return [model for model in models if not reasons[model.package]]


class Ready(NamedTuple):
    """A model that is prepared for a stream."""

    one_pass: Callable[[], Iterable[object]]  # of a fresh model; returns the predictions (T,)
    settings: dict[str, object]
    start: Callable[[], dict[str, float]] = dict  # once before the first pass; returns metrics


def of_sklearn(model: Model, stream: Stream) -> Ready:
    """Prepare StandardScaler, RBFSampler and SGD of scikit-learn, with one example at a time."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.preprocessing import StandardScaler

    X, y, numbers = stream.X, stream.y, stream.task == "regression"
    make, settings = model.made(stream.task)
    of_sampler = {"gamma": 1 / X.shape[1], "n_components": COMPONENTS, "random_state": 0}
    known = {} if numbers else {"classes": np.unique(y)}

    def one_pass() -> np.ndarray:
        linear, inputs, targets = make(), StandardScaler(), StandardScaler()
        sampler = RBFSampler(**of_sampler).fit(X[:1])
        said = np.zeros(len(y))
        for t in range(len(y)):
            x, label = X[t : t + 1], y[t : t + 1]
            z = sampler.transform(inputs.partial_fit(x).transform(x))
            if t > 0:
                (said[t],) = linear.predict(z)
            if t > 0 and numbers:
                ((said[t],),) = targets.inverse_transform([[said[t]]])
            if numbers:
                label = targets.partial_fit(label[:, None]).transform(label[:, None])[0]
            linear.partial_fit(z, label, **known)
        return said

    scalers = {"inputs": "StandardScaler", **({"targets": "StandardScaler"} if numbers else {})}
    return Ready(one_pass, {**settings, "RBFSampler": of_sampler, **scalers})


def of_river(model: Model, stream: Stream) -> Ready:
    """Prepare a model of river, behind one of its scalers if it has one."""
    from river import preprocessing

    make, settings = model.made(stream.task)
    scaler = model.scaler.get(stream.task)
    names = [f"x{i}" for i in range(stream.X.shape[1])]
    labels = stream.y if stream.task == "regression" else stream.y.astype(int)
    examples = [
        (dict(zip(names, x, strict=True)), label)
        for x, label in zip(stream.X.tolist(), labels.tolist(), strict=True)
    ]

    def one_pass() -> list[float]:
        fresh, said = make(), []
        if scaler is not None:
            fresh = getattr(preprocessing, scaler)() | fresh
        for x, label in examples:
            said.append(fresh.predict_one(x) or 0.0)  # None while it knows no class
            fresh.learn_one(x, label)
        return said

    return Ready(one_pass, {**settings, "inputs": scaler})


def of_capymoa(model: Model, stream: Stream) -> Ready:
    """Prepare a model of CapyMOA, which is MOA in Java."""
    from capymoa.stream import NumpyStream

    kind, y, classes = "numeric", stream.y, None
    if stream.task == "classification":
        kind, (classes, y) = "categorical", np.unique(stream.y, return_inverse=True)
    data = NumpyStream(stream.X.astype(np.float64), y, target_type=kind)
    make, settings = model.made(stream.task, schema=data.get_schema())
    instances = list(data)

    def one_pass() -> list[float]:
        fresh, said = make(), []
        for instance in instances:
            label = fresh.predict(instance) or 0  # None while it knows no class
            said.append(float(label if classes is None else classes[label]))
            fresh.train(instance)
        return said

    del settings["schema"]
    return Ready(one_pass, settings)


def ours(model: Model, stream: Stream, online: bool = True) -> Ready:
    """Prepare a learner of this library, compiled for the whole stream.

    ``online`` puts it behind running moments. Of the model's arguments, "seed" is that of the key.
    """
    name, K, wrappers = str(model.path(stream.task)), stream.num_classes, jaxmkl.wrappers
    made = candidate(model.name, name, stream.task, model.arguments, num_classes=K)
    learner = made.learner
    if K and learner.num_outputs is None:
        learner = wrappers.one_vs_rest(learner, K)
    if online:
        stream, learner = single(stream), jaxmkl.scaled(learner, wrappers.RunningMoments())
        learner = wrappers.scaled_targets(learner) if stream.task == "regression" else learner
    X, y = (jax.device_put(data) for data in (stream.X, stream.y))
    key = jax.random.key(model.arguments.get("seed", 0))
    state = jaxmkl.abilities.enlarged(learner, learner.init(key, X.shape[1]), len(y))
    arguments, ready = (learner, state, X, y), {}

    def start() -> dict[str, float]:
        ready["run"], seconds = timed(program, one_run, *arguments)
        return {"ready_seconds": seconds, "state_mib": state_bytes(state) / 2**20}

    def one_pass() -> np.ndarray:
        said = np.asarray(ready["run"](*arguments).prediction)
        if stream.task == "regression":
            return said
        return said.argmax(axis=-1) if K else np.sign(said)

    return Ready(one_pass, {**made.parameters, "learner": learner}, start)


READY = {"sklearn": of_sklearn, "river": of_river, "capymoa": of_capymoa, "jaxmkl": ours}


def ready(model: Model, stream: Stream) -> Ready:
    """Prepare a model for a stream; its settings begin with its package and version."""
    made = (model.how or READY[model.package])(model, stream)
    name = {"sklearn": "scikit-learn"}.get(model.package, model.package)
    return made._replace(settings={"package": f"{name} {version(name)}", **made.settings})


# grey and colours of medium lightness are visible on light and dark
COLOURS = {
    "jaxmkl": "#e8590c",
    "river": "#2f9e44",
    "capymoa": "#7c6cf0",
    "sklearn": "#1c86d1",
    "lightgbm": "#c2255c",
    "xrfm": "#0c9aa0",
    "numpy": "#7a7a7a",
}
GREY = "#7a7a7a"
MARKS = "osD^vP"
Looks = Mapping[str, dict[str, Any]]


def looks_of(models: Iterable[Model]) -> Looks:
    """Return the colour and the mark of models by name; ours are larger, and behind."""
    found: dict[str, dict[str, Any]] = {}
    counts = dict.fromkeys(COLOURS, 0)
    for model in models:
        ours = model.package == "jaxmkl"
        shape = {"color": COLOURS[model.package], "marker": MARKS[counts[model.package]]}
        found[model.name] = {**shape, "ls": "", "ms": 8 if ours else 6, "zorder": 3 - ours}
        counts[model.package] += 1
    return found


def in_grey(axes: Axes) -> None:
    """Draw all but the data in grey, over a grid, and values at their major places alone."""
    axes.yaxis.set_major_formatter("{x:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(color=GREY, size=9)
        axis.set_minor_locator(NullLocator())
    axes.tick_params(colors=GREY, labelsize=8)
    axes.title.set(color=GREY, size=10)
    axes.grid(color=GREY, alpha=0.25)
    for spine in axes.spines.values():
        spine.set_color(GREY)


def legend(figure: Figure, looks: Looks, seen: Collection[str], columns: int) -> None:
    """Draw a legend of the models that were seen, below the figure."""
    names = [name for name in looks if name in seen]
    figure.legend(
        handles=[Line2D([], [], label=name, **{**looks[name], "ms": 6}) for name in names],
        loc="outside lower center",
        ncols=columns,
        labelcolor=GREY,
        frameon=False,
        fontsize=9,
    )


def saved(figure: Figure, path: Path, report: Report) -> None:
    """Write a picture as SVG: text stays text, and the same figures give the same file."""
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}), refused():
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, transparent=True, metadata={"Date": None})
    report.say(f"picture: {path}")
