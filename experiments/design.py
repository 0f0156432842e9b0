"""Experimental design with multiple kernels: which points of a pool to label.

The parts:

    tables    Figures 1 and 2, Tables I and II: accuracy against labels, and who wins how often
    picture   which points each method chooses in two dimensions
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.sparse
import sklearn.datasets
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.svm import SVC

import jaxmkl
from jaxmkl import design

from .evaluate import check_settings, compiled, keys_of, timed
from .options import UsageError
from .paper import Job, Paper
from .printed import printed
from .report import Panel, Row, figure, row

__all__ = ["PAPER"]

# The names in tables, and the function of jaxmkl.design. A star stands for each kernel alone, the
# others of one kernel have the average kernel.
ALGORITHMS = {
    "random": "random",
    "ted": "ted",
    "cted": "cted",
    "rrss": "rrss",
    "gmkal": "gmkal",
    "lmkal": "lmkal",
    "cted*": "cted",
    "rrss*": "rrss",
}
CONSENSUS = ("gmkal", "lmkal")
# Left out on large pools unless they are asked for by name.
SLOW = ("rrss", "lmkal", "cted*", "rrss*")
# One pool after the other in the same compiled call: its loops inside of loops would have all
# pools wait for the slowest one again and again.
IN_TURN = ("lmkal",)
SETTABLE = ("regularization", "absolute", "tolerance", "max_iterations", "smoothing")
KERNELS = (*(f"Gaussian 1e{k}" for k in range(6)), "polynomial 2", "polynomial 4", "linear")

# Points, features and classes by Table III, and the largest number of labels: the printed
# percentages of wins are multiples of one over the number of evaluation points.
SIZES = {
    "australian": (690, 14, 2),
    "sonar": (208, 60, 2),
    "segmentation": (210, 19, 2),
    "heart": (270, 13, 2),
    "orl": (400, 1024, 40),
    "reuters_4class": (2919, 18933, 4),
}
MOST_LABELS = {
    "australian": 100,
    "sonar": 55,
    "segmentation": 55,
    "heart": 50,
    "orl": 75,
    "reuters_4class": 100,
    "breast_cancer": 50,
    "wine": 40,
    "digits": 75,
}
EVERY = 5
DIGITS = 500  # images of digits that are taken
TEXTS = ("reuters_4class",)
GENERATED = "plane"

POOL_SHARE = 0.7
LARGE = 1_000  # points of a pool from which on it is large
AT_ONCE = 2**28  # bytes of Gram matrices, at most, for splits to be worked on at once
SHARES = (0.1, 0.01, 0.001)  # of the largest penalty
SVC_C = 10.0
RESAMPLES = 10_000

PERCENT = dict.fromkeys(
    ("accuracy", "win_rate", "win_low", "win_high", "splits_low", "splits_high", "difference"),
    (1e-2, "%"),
)


# --- pools -------------------------------------------------------------------------------------


class Splits(NamedTuple):
    """A data set, parted at random into pools and test points S times.

    Attributes:
      name: of the data set.
      X: features (n, D), dense, or a matrix of SciPy.
      inner: inner products of the features (n, n).
      y: classes (n,).
      pools: indices (S, m) of the points that may be labelled.
      tests: indices (S, n - m) of the others.
      counts: numbers of labels (N,) at which the accuracy is measured.
    """

    name: str
    X: Any
    inner: np.ndarray
    y: np.ndarray
    pools: np.ndarray
    tests: np.ndarray
    counts: np.ndarray


def wine() -> tuple[np.ndarray, np.ndarray]:
    """Chemistry of 178 wines of three growers."""
    return sklearn.datasets.load_wine(return_X_y=True)


def breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    """Malignant or benign, 569 tumours."""
    return sklearn.datasets.load_breast_cancer(return_X_y=True)


def digits() -> tuple[np.ndarray, np.ndarray]:
    """The first 500 images of handwritten digits."""
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    return X[:DIGITS], y[:DIGITS]


BUNDLED: Mapping[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "breast_cancer": breast_cancer,
    "wine": wine,
    "digits": digits,
}


def features_of(job: Job, name: str) -> tuple[Any, np.ndarray]:
    """Return features and classes: columns on [-1, 1], of texts tf-idf in rows of length 1."""
    if name in BUNDLED:
        X, y = BUNDLED[name]()
    else:
        data = job.read(name)
        X, y = data.X, data.y
        found = (*X.shape, len(np.unique(y)))
        if found != SIZES[name]:
            sizes = ["{} points, {} features, {} classes".format(*s) for s in (found, SIZES[name])]
            job.report.say(f"{name}: {sizes[0]}; in the paper's Table III: {sizes[1]}")
    if name in TEXTS:
        X = scipy.sparse.csr_matrix(X, dtype=np.float64)
        return TfidfTransformer().fit_transform(X).tocsr(), y
    return jaxmkl.data.scale(np.asarray(X, np.float64), "symmetric"), y


def splits_of(job: Job, name: str) -> Splits:
    """Read a data set and part it."""
    X, y = features_of(job, name)
    n = X.shape[0]
    m = int(POOL_SHARE * n)
    inner = X @ X.T
    inner = inner.toarray() if scipy.sparse.issparse(inner) else inner
    orders = np.asarray(jaxmkl.permutations(keys_of(job.seeds), n))
    most = min(MOST_LABELS[name], m)
    counts = np.arange(min(EVERY, most), most + 1, EVERY)
    return Splits(name, X, inner, np.asarray(y), orders[:, :m], orders[:, m:], counts)


def grams_of(inner: np.ndarray, pools: np.ndarray) -> np.ndarray:
    """Return the nine kernels (S, 9, m, m) over pools (S, m)."""
    return np.stack([design.dictionary(inner=inner[np.ix_(rows, rows)]) for rows in pools])


# --- designs -----------------------------------------------------------------------------------


def accepts(factory: str) -> tuple[str, ...]:
    """Return the names of a method's parameters that may be set.

    >>> accepts("ted")
    ('regularization', 'absolute')
    """
    known = inspect.signature(getattr(design, factory)).parameters
    return tuple(name for name in known if name in SETTABLE)


def settings_of(factory: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a method knows."""
    return {name: value for name, value in settings.items() if name in accepts(factory)}


def check(paper: Paper, settings: Mapping[str, Any], factories: Mapping[str, str]) -> list[str]:
    """Let every method look at its settings; none is run.

    Raises:
        UsageError: a setting that no method has, or a value that is refused.
    """
    lines = check_settings(settings, factories, accepts)
    for name, factory in factories.items():
        chosen = settings_of(factory, settings)
        shape = (2, 3, 3) if name in CONSENSUS else (3, 3)
        method = functools.partial(getattr(design, factory), **chosen)
        try:
            if factory != "random":
                jax.eval_shape(method, jax.ShapeDtypeStruct(shape, np.float32))
        except (TypeError, ValueError) as error:
            raise UsageError(" ".join(str(error).split())) from error
    return lines


class Choice(NamedTuple):
    """What a method chose of S pools.

    Attributes:
      ranking: indices (S, p) into the pools, best first.
      active: numbers of points (S,) whose coefficients do not vanish.
      objective: last values (S,), NaN where there is none.
      converged: which ended by their tolerance (S,).
      weights: of the kernels (S, P), of localized ones the means over points.
      seconds_per_run: of one pool; compilation is not in it.
      regularization: the share of the largest penalty, or what was set.
    """

    ranking: np.ndarray
    active: np.ndarray
    objective: np.ndarray
    converged: np.ndarray
    weights: np.ndarray
    seconds_per_run: float
    regularization: float | None = None


def last_values(objective: np.ndarray) -> np.ndarray:
    """Return the last value (S,) of histories (S, T) before their NaN.

    >>> last_values(np.array([[3.0, 2.0, np.nan], [np.nan, np.nan, np.nan]]))
    array([ 2., nan])
    """
    length = np.isfinite(objective).sum(axis=1)
    return objective[np.arange(len(objective)), np.maximum(length - 1, 0)]


def group_size(number: int, nbytes: int, limit: int) -> int:
    """Return how many of some pools to work on at once: a divisor, so that one compile serves.

    >>> group_size(10, 100, 1000), group_size(10, 100, 999), group_size(10, 100, 50)
    (10, 5, 1)
    """
    fitting = [k for k in range(1, number + 1) if number % k == 0 and k * nbytes <= limit]
    return max(fitting, default=1)


@functools.cache
def chooser(
    factory: str, num_points: int, settings: tuple, shape: tuple[int, ...], dtype: np.dtype
) -> Any:
    """Return what takes Gram matrices of a shape and a regularization, compiled."""
    method = functools.partial(getattr(design, factory), num_points=num_points, **dict(settings))

    def choose(grams: jax.Array, regularization: jax.Array) -> design.Design:
        def of_one(gram: jax.Array) -> design.Design:
            return method(gram, regularization)

        return jax.lax.map(of_one, grams) if factory in IN_TURN else jax.vmap(of_one)(grams)

    arguments = (jax.ShapeDtypeStruct(shape, dtype), jax.ShapeDtypeStruct((), dtype))
    return compiled(jax.jit(choose), *arguments)[0]


def chosen_points(
    factory: str, grams: np.ndarray, num_points: int, settings: Mapping[str, Any]
) -> Choice:
    """Choose points of S pools, as many at once as there is room for.

    Unless the settings name a regularization, it is the largest of a few with which on no split
    fewer points are active than are wanted, or else the one with most: no label is needed for
    that.

    Args:
        factory: the name of a method with Gram matrices.
        grams: (S, m, m), or (S, P, m, m) for a method of several kernels.
        num_points: how many points to rank.
        settings: the method's arguments.
    """
    others = {name: value for name, value in settings.items() if name != "regularization"}
    given = "regularization" in settings or settings.get("absolute", False)
    shares = (settings.get("regularization", SHARES[0]),) if given else SHARES
    size = group_size(len(grams), grams[0].nbytes, AT_ONCE)
    groups = grams.reshape(-1, size, *grams.shape[1:])
    function = chooser(
        factory, num_points, tuple(others.items()), groups[0].shape, groups[0].dtype
    )
    best: Choice | None = None
    for share in shares:
        found, seconds = [], 0.0
        for group in groups:
            of_group, taken = timed(function, group, np.asarray(share, grams.dtype))
            found.append(jax.tree.map(np.asarray, of_group))
            seconds += taken
        joined = jax.tree.map(lambda *parts: np.concatenate(parts), *found)
        weights = joined.kernel_weights
        choice = Choice(
            ranking=joined.ranking,
            active=joined.num_active,
            objective=last_values(joined.objective),
            converged=joined.converged,
            weights=weights.mean(axis=1) if weights.ndim == 3 else weights,
            seconds_per_run=seconds / len(grams),
            regularization=share,
        )
        if best is None or choice.active.min() > best.active.min():
            best = choice
        if best.active.min() >= num_points:
            break
    assert best is not None
    return best


def random_points(seeds: int, pool_size: int, num_points: int) -> Choice:
    """Choose points of S pools at random."""
    keys = jax.vmap(lambda key: jax.random.fold_in(key, 1))(keys_of(seeds))
    found = jax.vmap(lambda key: design.random(key, pool_size, num_points=num_points))(keys)
    return Choice(
        ranking=np.asarray(found.ranking),
        active=np.asarray(found.num_active),
        objective=np.full(seeds, np.nan),
        converged=np.asarray(found.converged),
        weights=np.zeros((seeds, 0)),
        seconds_per_run=0.0,
    )


def choices(
    name: str, grams: np.ndarray, num_points: int, settings: Mapping[str, Any]
) -> dict[str, Choice]:
    """Choose points with a method; a star gives a choice for each kernel, by the kernel's name.

    Args:
        name: of the method in tables.
        grams: the kernels (S, P, m, m).
        num_points: how many points to rank.
        settings: values given with ``--set``.
    """
    factory = ALGORITHMS[name]
    if factory == "random":
        return {"": random_points(len(grams), grams.shape[-1], num_points)}
    arguments = settings_of(factory, settings)
    if name in CONSENSUS:
        return {"": chosen_points(factory, grams, num_points, arguments)}
    if not name.endswith("*"):
        return {"": chosen_points(factory, grams.mean(axis=1), num_points, arguments)}
    return {
        kernel: chosen_points(factory, grams[:, t], num_points, arguments)
        for t, kernel in enumerate(KERNELS)
    }


# --- accuracy ----------------------------------------------------------------------------------


def accuracy_of(X: Any, y: np.ndarray, labelled: np.ndarray, test: np.ndarray) -> float:
    """Return the share of test points an RBF SVC on labelled points names the class of.

    With points of one class alone that class is named.

    Args:
        X: features (n, D).
        y: classes (n,).
        labelled: indices (k,).
        test: indices (m,).
    """
    if (y[labelled] == y[labelled[0]]).all():
        return float((y[test] == y[labelled[0]]).mean())
    return float(SVC(C=SVC_C).fit(X[labelled], y[labelled]).score(X[test], y[test]))


def accuracies(splits: Splits, ranking: np.ndarray) -> np.ndarray:
    """Return accuracies (S, N) of the first points of rankings (S, p) of the pools."""
    return np.array(
        [
            [accuracy_of(splits.X, splits.y, pool[order[:k]], test) for k in splits.counts]
            for pool, test, order in zip(splits.pools, splits.tests, ranking, strict=True)
        ]
    )


class Scored(NamedTuple):
    """A choice and what came of it.

    Attributes:
      choice: the points.
      accuracy: (S, N).
      kernel: the kernel, where there is one.
    """

    choice: Choice
    accuracy: np.ndarray
    kernel: str = ""


def best_and_median(found: Mapping[str, Scored], name: str) -> dict[str, Scored]:
    """Return the three best kernels and the median one, by their mean accuracy, best first.

    Args:
        found: a method's results by kernel.
        name: the method with a star.
    """
    order = sorted(found, key=lambda kernel: -found[kernel].accuracy.mean())
    places = {"1": 0, "2": 1, "3": 2, "m": len(order) // 2}
    return {f"{name[:-1]}_{word}": found[order[place]] for word, place in places.items()}


# --- who wins ----------------------------------------------------------------------------------


def wins(gaps: np.ndarray) -> np.ndarray:
    """Return the share of points (..., N) won by a positive gap; a gap of zero is half a win.

    >>> float(wins(np.array([0.1, 0.2, -0.1, 0.0])))
    0.625
    """
    gaps = np.where(np.abs(gaps) < 1e-12, 0.0, gaps)
    return (np.sign(gaps) / 2 + 0.5).mean(axis=-1)


class Comparison(NamedTuple):
    """One method against another over S splits and N numbers of labels.

    Attributes:
      win_rate: share of the numbers of labels at which its mean over splits is higher.
      points: the middle 95 % of win rates if the numbers of labels are drawn anew.
      splits: the same if the splits are.
      differences: of the accuracies, means over numbers of labels (S,).
    """

    win_rate: float
    points: tuple[float, float]
    splits: tuple[float, float]
    differences: np.ndarray


def compare(ours: np.ndarray, theirs: np.ndarray) -> Comparison:
    """Compare accuracies (S, N), split by split."""
    gaps = ours - theirs
    S, N = gaps.shape
    draws = np.random.default_rng(0)
    over_points = wins(gaps.mean(axis=0)[draws.integers(N, size=(RESAMPLES, N))])
    times = draws.multinomial(S, np.full(S, 1 / S), size=RESAMPLES)
    over_splits = wins(times @ gaps / S)

    def middle(values: np.ndarray) -> tuple[float, float]:
        low, high = np.quantile(values, [0.025, 0.975])
        return float(low), float(high)

    return Comparison(
        win_rate=float(wins(gaps.mean(axis=0))),
        points=middle(over_points),
        splits=middle(over_splits),
        differences=gaps.mean(axis=1),
    )


def win_rows(dataset: str, ours: str, found: Mapping[str, Scored]) -> list[Row]:
    """Return the rows of a method against each of the others that is no consensus of kernels."""
    rows: list[Row] = []
    for theirs, scored in found.items():
        if theirs in CONSENSUS:
            continue
        made = compare(found[ours].accuracy, scored.accuracy)
        label = f"{ours} over {theirs}"
        seeds, N = scored.accuracy.shape
        parameters = {"evaluation_points": N, "kernel": scored.kernel or None}
        single = {
            "win_rate": made.win_rate,
            "win_low": made.points[0],
            "win_high": made.points[1],
            "splits_low": made.splits[0],
            "splits_high": made.splits[1],
        }
        rows += [
            Row(
                *("design", dataset, label, metric),
                mean=value,
                std=0.0,
                seeds=seeds,
                printed=printed("design", dataset, label, metric),
                parameters=parameters,
            )
            for metric, value in single.items()
        ]
        name = ("design", dataset, label, "difference")
        rows.append(row(name, made.differences, parameters=parameters))
    return rows


# --- tables ------------------------------------------------------------------------------------

ABOUT = (
    "accuracy: mean over 5, 10, 15, ... labels, of an RBF SVC (C = {C:g}, gamma 'scale') on the "
    "features of the chosen points, columns on [-1, 1]; ± the deviation over splits; a split: 70 "
    "% of the points are the pool, the others the test",
    "cted, rrss, ted: on the average kernel; _1, _2, _3: the best three of nine kernels, _m: the "
    "median one, found by their accuracy on the test points, as in the paper",
    "regularization: of the penalty from which on no point is chosen, the largest share of "
    f"{', '.join(f'{share:g}' for share in SHARES)} with which as many points are active as are "
    "labelled at last, or else the one with most, or what was set; the paper tunes penalties by "
    "labels that are not there yet, and sets that of RRSS to 0.01",
    "active: points whose coefficients do not vanish; objective: comparable between gmkal and "
    "lmkal alone; seconds a run: the choice of one pool, all splits at once where there is room, "
    "but lmkal one after the other",
)
ABOUT_WINS = (
    "win rate: the share of the numbers of labels at which the mean accuracy over splits is "
    "higher; equal ones count half",
    "win low, high: the middle 95 % if the numbers of labels are drawn anew; splits low, high: if "
    "the splits are. difference: of the mean accuracies, split by split, ± its deviation over "
    "splits; for the standard error divide by the root of the seeds",
)
SOFTER = (
    "segmentation: the paper calls it binary; the file has seven classes",
    "reuters_4class: tf-idf, rows of length 1; acq has 2,055 documents where the paper says 2,025",
)


def rows_of(splits: Splits, name: str, scored: Scored, settings: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a method: accuracy, number of active points, objective."""
    parameters: dict[str, Any] = {
        "labels": splits.counts,
        "accuracies": scored.accuracy.mean(axis=0),
        "deviations": scored.accuracy.std(axis=0, ddof=1) if len(scored.accuracy) > 1 else None,
        "converged": int(scored.choice.converged.sum()),
        **settings,
    }
    if scored.choice.regularization is not None:
        parameters["regularization"] = scored.choice.regularization
    if scored.kernel:
        parameters["kernel"] = scored.kernel
    if scored.choice.weights.shape[1] > 1:
        parameters["kernel_weights"] = scored.choice.weights.mean(axis=0)
    measured = {
        "accuracy": scored.accuracy.mean(axis=1),
        "active": scored.choice.active,
        "objective": scored.choice.objective,
    }
    if name == "random" or np.isnan(scored.choice.objective).all():
        measured = {"accuracy": measured["accuracy"]}
    seconds = scored.choice.seconds_per_run
    return [
        row(
            ("design", splits.name, name, metric),
            values,
            parameters=parameters,
            seconds_per_run=seconds if name != "random" else None,
        )
        for metric, values in measured.items()
    ]


def warnings_of(dataset: str, found: Mapping[str, Scored], most: int) -> list[str]:
    """Return a line for each method that did not converge, or had too few points to rank."""
    lines = []
    for name, scored in found.items():
        missed = int((~scored.choice.converged).sum())
        if missed:
            lines.append(
                f"warning: {dataset}, {name}: {missed} of {len(scored.choice.converged)} splits "
                "came to max_iterations, or to the end of the precision, before the tolerance"
            )
        if scored.choice.active.min() < most:
            lines.append(
                f"warning: {dataset}, {name}: of {most} points wanted only "
                f"{scored.choice.active.min()} are active on some split; the order of the others "
                "means little"
            )
    return lines


def tables(job: Job) -> None:
    """Accuracy against labels, and the percentages of wins."""
    datasets, names = job.among("tables", tuple(MOST_LABELS), tuple(ALGORITHMS))
    rows: list[Row] = []
    of_wins: dict[str, list[Row]] = {name: [] for name in CONSENSUS}
    notes = [ABOUT[0].format(C=SVC_C), *ABOUT[1:]]
    with job.report.progress("tables", len(datasets) * len(names)) as step:
        for dataset in datasets:
            splits = splits_of(job, dataset)
            large = splits.pools.shape[1] >= LARGE
            some = names
            if large and job.options.algorithms is None:
                some = tuple(name for name in names if name not in SLOW)
                notes.append(
                    f"{dataset}: {', '.join(SLOW)} take long on {splits.pools.shape[1]} points "
                    "and are played if asked for by --algorithms"
                )
            found = played(job, splits, some, step)
            notes += warnings_of(dataset, found, int(splits.counts[-1]))
            for name, scored in found.items():
                settings = settings_of(
                    ALGORITHMS.get(name, name.split("_")[0]), job.options.settings
                )
                rows += rows_of(splits, name, scored, settings)
            for name in CONSENSUS:
                of_wins[name] += win_rows(dataset, name, found) if name in found else []
            draw(job, splits, found)
    if not rows:
        return
    notes += [line for line in SOFTER if line.split(":")[0] in datasets]
    job.report.table(
        "Figures 1 and 2: accuracy with few labels",
        job.report.add(rows),
        units=PERCENT,
        parameters=("regularization",),
        notes=notes,
    )
    for number, (name, of_name) in zip(("I", "II"), of_wins.items(), strict=True):
        if of_name:
            job.report.table(
                f"Table {number}: how often {name} wins",
                job.report.add(of_name),
                units=PERCENT,
                notes=[*ABOUT_WINS, verdict(name, of_name)],
            )


def played(
    job: Job, splits: Splits, names: Sequence[str], step: Callable[[str], None]
) -> dict[str, Scored]:
    """Choose points with every method and measure what an SVC makes of them."""
    most = int(splits.counts[-1])
    found: dict[str, Scored] = {}
    with jax.enable_x64(True):
        grams = grams_of(splits.inner, splits.pools)
        for name in names:
            step(f"{splits.name} {name}")
            by_kernel = {
                kernel: Scored(choice, accuracies(splits, choice.ranking), kernel)
                for kernel, choice in choices(name, grams, most, job.options.settings).items()
            }
            found |= (
                best_and_median(by_kernel, name) if name.endswith("*") else {name: by_kernel[""]}
            )
    return found


def verdict(name: str, rows: Sequence[Row]) -> str:
    """Say of how many comparisons the difference is beyond two standard errors.

    >>> better = row(("design", "wine", "gmkal over ted", "difference"), [0.1, 0.11, 0.12])
    >>> verdict("gmkal", [better])
    'gmkal: better by more than two standard errors in 1 of 1 comparisons, worse in 0'
    """
    differences = [r for r in rows if r.metric == "difference"]
    limits = [2 * r.std / r.seeds**0.5 if r.seeds > 1 else np.inf for r in differences]
    pairs = list(zip(differences, limits, strict=True))
    better = sum(r.mean > limit for r, limit in pairs)
    worse = sum(r.mean < -limit for r, limit in pairs)
    return (
        f"{name}: better by more than two standard errors in {better} of {len(differences)} "
        f"comparisons, worse in {worse}"
    )


def draw(job: Job, splits: Splits, found: Mapping[str, Scored]) -> None:
    """Draw Figures 1 and 2 of a data set."""
    panels = []
    for single in ("cted", "rrss"):
        lines = {
            name: (splits.counts, scored.accuracy)
            for name, scored in found.items()
            if name in ("random", "ted", *CONSENSUS) or name.split("_")[0] == single
        }
        title = f"{splits.name}: with {single.upper()}"
        panels.append(Panel(title, "labels", "accuracy", lines, marks=True, errors=True))
    job.report.plot(f"design_{splits.name}", panels)


# --- the picture -------------------------------------------------------------------------------

IN_PLANE = ("random", "ted", "cted", "rrss", "gmkal", "lmkal")
PLANE_POINTS, PLANE_CHOSEN = 150, 12


def plane(seed: int, points: int = PLANE_POINTS) -> np.ndarray:
    """Return points (n, 2): three clouds of unequal size and width, and a few far away.

    >>> plane(0).shape
    (150, 2)
    """
    draws = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [3.0, 0.5], [1.5, 3.0]])
    widths = np.array([0.7, 0.3, 0.5])
    which = draws.choice(3, size=points, p=[0.6, 0.15, 0.25])
    X = centres[which] + widths[which, None] * draws.normal(size=(points, 2))
    far = max(1, points // 40)
    X[:far] = draws.uniform(-4.0, 6.0, size=(far, 2))
    return X


def nearest(X: np.ndarray, chosen: np.ndarray) -> float:
    """Return the mean distance of points (n, 2) to the nearest chosen one.

    >>> nearest(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0]))
    2.5
    """
    apart = np.linalg.norm(X[:, None] - X[chosen][None], axis=2)
    return float(apart.min(axis=1).mean())


def picture(job: Job) -> None:
    """Which points each method chooses in two dimensions."""
    datasets, names = job.among("picture", (GENERATED,), IN_PLANE)
    if not datasets:
        return
    pools = [plane(seed) for seed in range(job.seeds)]
    rows: list[Row] = []
    panels = []
    with jax.enable_x64(True), job.report.progress("picture", len(names)) as step:
        grams = np.stack([design.dictionary(X) for X in pools])
        for name in names:
            step(name)
            settings = settings_of(ALGORITHMS[name], job.options.settings)
            choice = choices(name, grams, PLANE_CHOSEN, settings)[""]
            distances = [nearest(X, r) for X, r in zip(pools, choice.ranking, strict=True)]
            rows.append(
                row(
                    ("design", GENERATED, name, "distance"),
                    distances,
                    parameters={"points": PLANE_POINTS, "chosen": PLANE_CHOSEN, **settings},
                )
            )
            points = {"pool": pools[0], f"{PLANE_CHOSEN} chosen": pools[0][choice.ranking[0]]}
            title = f"{name}: distance {figure(distances[0])}"
            panels.append(Panel(title, "", "", points=points))
    job.report.table(
        f"{PLANE_CHOSEN} of {PLANE_POINTS} points in a plane",
        job.report.add(rows),
        notes=("distance: the mean one of a point of the pool to the nearest chosen one",),
    )
    job.report.plot("design_plane", panels)


PAPER = Paper(
    name="design",
    title="Experimental design with multiple kernels (Wang, Du, Shi, Zhou, Qian and Shen)",
    datasets=(*SIZES, *BUNDLED, GENERATED),
    algorithms=ALGORITHMS,
    parts={"tables": tables, "picture": picture},
    default_parts=("tables", "picture"),
    seeds=10,
    task="classification",
    generated=(GENERATED,),
    parts_without_files=("picture",),
    bundled=tuple(BUNDLED),
    check=check,
)
