"""Pool selection: data sets split into pools and test points, and the choices of methods."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import jax
import numpy as np
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.feature_extraction.text import TfidfTransformer

import jaxmkl
from jaxmkl import design
from jaxmkl.evaluate import UsageError, check_settings

from ..evaluate import keys_of, program, timed
from ..options import Settings
from .paper import Job, Paper

# The names in tables, and the function of jaxmkl.design. A star stands for each kernel alone, the
# others of one kernel have the average kernel.
ALGORITHMS = {
    name: name.rstrip("*")
    for name in ("random", "ted", "cted", "rrss", "gmkal", "lmkal", "cted*", "rrss*")
}
WITHOUT_KERNELS = ("random", "kmeans")
CONSENSUS = ("gmkal", "lmkal")
# One pool after the other in the same compiled call: with nested loops, all pools would wait for
# the slowest one again and again.
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
MOST_LABELS = dict(zip(SIZES, (100, 55, 55, 50, 75, 100), strict=True))
MOST_LABELS |= {"breast_cancer": 50, "wine": 40, "digits": 75}
EVERY = 5
DIGITS = 500  # images of digits in use
TEXTS = ("reuters_4class", "reuters21578", "sentiment")

POOL_SHARE = 0.7
AT_ONCE = 2**28  # bytes of the Gram matrices of splits that are processed at once, at most
SHARES = (0.1, 0.01, 0.001)  # of the largest penalty


Points: TypeAlias = np.ndarray | scipy.sparse.csr_matrix


class Splits(NamedTuple):
    """A data set, split at random into pools and test points S times."""

    name: str
    X: Points  # features (n, D)
    inner: np.ndarray  # inner products of the features (n, n)
    y: np.ndarray  # classes (n,)
    pools: np.ndarray  # indices (S, m) of the points that may be labelled
    tests: np.ndarray  # indices (S, n - m) of the others
    counts: np.ndarray  # numbers of labels (N,) at which the accuracy is measured


BUNDLED: Mapping[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "breast_cancer": functools.partial(load_breast_cancer, return_X_y=True),
    "wine": functools.partial(load_wine, return_X_y=True),
    "digits": lambda: (load_digits().data[:DIGITS], load_digits().target[:DIGITS]),
}


def tf_idf(counts: Points) -> scipy.sparse.csr_matrix:
    """Return the counts of words as tf-idf in rows of length 1."""
    rows = scipy.sparse.csr_matrix(counts, dtype=np.float64)
    return TfidfTransformer().fit_transform(rows).tocsr()


def splits_of(job: Job, name: str) -> Splits:
    """Read a data set and split it: columns are on [-1, 1], texts tf-idf."""
    if name in BUNDLED:
        X, y = BUNDLED[name]()
    else:
        data = job.read(name)
        X, y = data.X, data.y
        found = (*X.shape, len(np.unique(y)))
        if found != SIZES[name]:
            sizes = ["{} points, {} features, {} classes".format(*s) for s in (found, SIZES[name])]
            job.report.say(f"{name}: {sizes[0]}; in the paper's Table III: {sizes[1]}")
    is_text = name in TEXTS
    X = tf_idf(X) if is_text else jaxmkl.tables.scale(np.asarray(X, np.float64), "symmetric")
    inner = (X @ X.T).toarray() if is_text else X @ X.T
    pools, tests = split_at_random(len(y), job.seeds)
    most = min(MOST_LABELS[name], pools.shape[1])
    counts = np.arange(min(EVERY, most), most + 1, EVERY)
    return Splits(name, X, inner, np.asarray(y), pools, tests, counts)


def split_at_random(number: int, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return indices (S, m) of the points of pools, and those (S, n - m) of the others."""
    orders = np.asarray(jaxmkl.permutations(keys_of(seeds), number))
    m = int(POOL_SHARE * number)
    return orders[:, :m], orders[:, m:]


def grams_of(inner: np.ndarray, pools: np.ndarray) -> np.ndarray:
    """Return the nine kernels (S, 9, m, m) over pools (S, m)."""
    return np.stack([design.dictionary(inner=inner[np.ix_(rows, rows)]) for rows in pools])


def accepts(factory: str) -> tuple[str, ...]:
    """Return the names of a method's parameters that may be set.

    >>> accepts("ted")
    ('regularization', 'absolute')
    """
    method = getattr(design, factory, None)
    known = inspect.signature(method).parameters if method else ()
    return tuple(name for name in known if name in SETTABLE)


def settings_of(factory: str, settings: Settings) -> Settings:
    """Return the settings that a method accepts."""
    return {name: value for name, value in settings.items() if name in accepts(factory)}


def check(paper: Paper, settings: Settings, factories: Mapping[str, str]) -> list[str]:
    """Have every method check its settings, without running it."""
    known = {name: accepts(factory) for name, factory in factories.items()}
    lines = check_settings(settings, known)
    for name, factory in factories.items():
        if factory in WITHOUT_KERNELS:
            continue
        chosen = settings_of(factory, settings)
        shape = (2, 3, 3) if name in CONSENSUS else (3, 3)
        method = functools.partial(getattr(design, factory), **chosen)
        try:
            jax.eval_shape(method, jax.ShapeDtypeStruct(shape, np.float32))
        except (TypeError, ValueError) as error:
            raise UsageError(" ".join(str(error).split())) from error
    return lines


class Choice(NamedTuple):
    """The choice of a method from S pools."""

    ranking: np.ndarray  # indices (S, p) into the pools, best first
    active: np.ndarray  # numbers of points (S,) whose coefficients do not vanish
    objective: np.ndarray  # last values (S,), NaN where there is none
    converged: np.ndarray  # which ended by their tolerance (S,)
    weights: np.ndarray  # of the kernels (S, P), of localized ones the means over points
    seconds_per_run: float  # of one pool; compilation is not in it
    regularization: float | None = None  # the share of the largest penalty, or what was set
    accuracy: np.ndarray = np.zeros((0, 0))  # (S, N), measured afterwards
    kernel: str = ""  # where there is one


def last_values(objective: np.ndarray) -> np.ndarray:
    """Return the last value (S,) of histories (S, T) before their NaN.

    >>> last_values(np.array([[3.0, 2.0, np.nan], [np.nan, np.nan, np.nan]]))
    array([ 2., nan])
    """
    length = np.isfinite(objective).sum(axis=1)
    return objective[np.arange(len(objective)), np.maximum(length - 1, 0)]


def group_size(number: int, nbytes: int, limit: int) -> int:
    """Return how many pools to process at once: a divisor, so that one compiled program serves.

    >>> group_size(10, 100, 1000), group_size(10, 100, 999), group_size(10, 100, 50)
    (10, 5, 1)
    """
    fitting = [k for k in range(1, number + 1) if number % k == 0 and k * nbytes <= limit]
    return max(fitting, default=1)


@functools.cache
def chooser(
    factory: str, num_points: int, settings: tuple
) -> Callable[[jax.Array, jax.Array], design.Design]:
    """Return a jitted function of Gram matrices and a regularization."""
    papers_ridge = {"share_of": "columns"} if factory == "ted" else {}
    arguments = papers_ridge | dict(settings)
    method = functools.partial(getattr(design, factory), num_points=num_points, **arguments)

    def choose(grams: jax.Array, regularization: jax.Array) -> design.Design:
        def of_one(gram: jax.Array) -> design.Design:
            return method(gram, regularization)

        return jax.lax.map(of_one, grams) if factory in IN_TURN else jax.vmap(of_one)(grams)

    return jax.jit(choose)


def chosen_points(factory: str, grams: np.ndarray, num_points: int, settings: Settings) -> Choice:
    """Rank points of S pools, as many pools at once as there is room for.

    Gram matrices are (S, m, m), or (S, P, m, m) for a method of several kernels. Unless the
    settings name a regularization, it is the largest of a few with which enough points are active
    on every split, or else the one with most active points; this needs no labels.
    """
    others = {name: value for name, value in settings.items() if name != "regularization"}
    given = "regularization" in settings or settings.get("absolute", False)
    shares = (settings.get("regularization", SHARES[0]),) if given else SHARES
    size = group_size(len(grams), grams[0].nbytes, AT_ONCE)
    groups = grams.reshape(-1, size, *grams.shape[1:])
    choose = chooser(factory, num_points, tuple(others.items()))
    best: Choice | None = None
    for share in shares:
        found, seconds = [], 0.0
        for group in groups:
            arguments = group, np.asarray(share, grams.dtype)
            of_group, taken = timed(program(choose, *arguments), *arguments)
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

    def of_seed(key: jax.Array) -> design.Design:
        return design.random(jax.random.fold_in(key, 1), pool_size, num_points=num_points)

    found = jax.tree.map(np.asarray, jax.vmap(of_seed)(keys_of(seeds)))
    nothing, weights = np.full(seeds, np.nan), np.zeros((seeds, 0))
    return Choice(found.ranking, found.num_active, nothing, found.converged, weights, 0.0)


def choices(
    name: str, grams: np.ndarray, num_points: int, settings: Settings
) -> dict[str, Choice]:
    """Rank points of S pools with kernels (S, P, m, m) by a method, given its name in tables.

    With a star, they are ranked by each kernel, under the name of the kernel.
    """
    factory = ALGORITHMS[name]
    if factory == "random":
        return {"": random_points(len(grams), grams.shape[-1], num_points)}
    of_kernels = {"": grams if name in CONSENSUS else grams.mean(axis=1)}
    if name.endswith("*"):
        of_kernels = {kernel: grams[:, t] for t, kernel in enumerate(KERNELS)}
    arguments = settings_of(factory, settings)
    return {
        kernel: chosen_points(factory, given, num_points, arguments)
        for kernel, given in of_kernels.items()
    }
