"""Experimental design with multiple kernels: the choice of points of a pool to label."""

from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np

from jaxmkl import design
from jaxmkl.evaluate import Row, figure, row, rows

from ..options import Settings
from ..report import Panel
from . import design_pools as pools
from .design_rounds import rounds
from .design_selectors import BUNDLED, DENSE, FINDERS, RARE, SELECTORS, TEXTS, rare, selectors
from .design_wins import ABOUT_WINS, PERCENT, SVC_C, accuracies, apart, compare, tuned
from .paper import Job, Paper
from .printed import printed

# Left out on large pools unless they are asked for by name.
SLOW = ("rrss", "lmkal", "cted*", "rrss*")
LARGE = 1_000  # points of a large pool, at least


def best_and_median(found: Mapping[str, pools.Choice], name: str) -> dict[str, pools.Choice]:
    """Return the three best kernels of a method and the median one, by mean accuracy."""
    order = sorted(found, key=lambda kernel: -found[kernel].accuracy.mean())
    places = {"1": 0, "2": 1, "3": 2, "m": len(order) // 2}
    return {f"{name[:-1]}_{word}": found[order[place]] for word, place in places.items()}


def win_rows(dataset: str, ours: str, found: Mapping[str, pools.Choice]) -> list[Row]:
    """Return the rows of a method against each other one that is not a consensus of kernels."""
    result: list[Row] = []
    for theirs, scored in found.items():
        if theirs in pools.CONSENSUS:
            continue
        measured = compare(found[ours].accuracy, scored.accuracy)
        name = "design", dataset, f"{ours} over {theirs}"
        seeds, N = scored.accuracy.shape
        parameters = {"evaluation_points": N, "kernel": scored.kernel or None}
        result += rows(name, measured, printed, seeds=seeds, parameters=parameters)
    return result


ABOUT = (
    "accuracy: mean over 5, 10, 15, ... labels, of an RBF SVC (C = {C:g}, gamma 'scale') on the "
    "features of the chosen points, columns on [-1, 1]; ± the deviation over splits; a split: 70 "
    "% of the points are the pool, the others the test",
    "cted, rrss, ted: on the average kernel; _1, _2, _3: the best three of nine kernels, _m: the "
    "median one, found by their accuracy on the test points, as in the paper",
    "regularization: of the penalty from which on no point is chosen, the largest share of "
    f"{', '.join(f'{share:g}' for share in pools.SHARES)} with which as many points are active as "
    "are labelled at last, or else the one with most, or what was set; the paper tunes "
    "penalties by labels that are not there yet, and sets that of RRSS to 0.01",
    "active: points whose coefficients do not vanish; objective: comparable between gmkal and "
    "lmkal alone; seconds a run: the choice of one pool, all splits at once where there is room, "
    "but lmkal one after the other",
)
SOFTER = (
    "segmentation: the paper calls it binary; the file has seven classes",
    "reuters_4class: tf-idf, rows of length 1; acq has 2,055 documents where the paper says 2,025",
)


def rows_of(
    splits: pools.Splits, name: str, scored: pools.Choice, settings: Settings
) -> list[Row]:
    """Return the rows of a method: accuracy, number of active points, objective."""
    parameters: dict[str, object] = {
        "labels": splits.counts,
        "accuracies": scored.accuracy.mean(axis=0),
        "deviations": scored.accuracy.std(axis=0, ddof=1) if len(scored.accuracy) > 1 else None,
        "converged": int(scored.converged.sum()),
        **settings,
        "regularization": scored.regularization,
        "kernel": scored.kernel or None,
        "kernel_weights": scored.weights.mean(axis=0) if scored.weights.shape[1] > 1 else None,
    }
    measured = {
        "accuracy": scored.accuracy.mean(axis=1),
        "active": scored.active,
        "objective": scored.objective,
    }
    if name == "random" or np.isnan(scored.objective).all():
        measured = {"accuracy": measured["accuracy"]}
    seconds = scored.seconds_per_run if name != "random" else None
    name_of = "design", splits.name, name
    return rows(name_of, measured, parameters=parameters, seconds_per_run=seconds)


def warnings_of(dataset: str, found: Mapping[str, pools.Choice], most: int) -> list[str]:
    """Return a line for each method that did not converge, or has ranked too few points."""
    lines = []
    for name, scored in found.items():
        missed = int((~scored.converged).sum())
        if missed:
            lines.append(
                f"warning: {dataset}, {name}: {missed} of {len(scored.converged)} splits "
                "came to max_iterations, or to the end of the precision, before the tolerance"
            )
        if scored.active.min() < most:
            lines.append(
                f"warning: {dataset}, {name}: of {most} points wanted only "
                f"{scored.active.min()} are active on some split; the order of the others "
                "means little"
            )
    return lines


def tables(job: Job) -> None:
    """Show Figures 1 and 2 and Tables I and II: accuracy by labels, and who wins how often."""
    datasets, names = job.among("tables", tuple(pools.MOST_LABELS), tuple(pools.ALGORITHMS))
    accuracy_rows: list[Row] = []
    of_wins: dict[str, list[Row]] = {name: [] for name in pools.CONSENSUS}
    notes = [ABOUT[0].format(C=SVC_C), *ABOUT[1:]]
    with job.report.progress("tables", len(datasets) * len(names)) as step:
        for dataset in datasets:
            splits = pools.splits_of(job, dataset)
            large = splits.pools.shape[1] >= LARGE
            some = names
            if large and job.options.algorithms is None:
                some = tuple(name for name in names if name not in SLOW)
                notes.append(
                    f"{dataset}: {', '.join(SLOW)} take long on {splits.pools.shape[1]} points "
                    "and are played if asked for by --algorithms"
                )
            found = run_methods(job, splits, some, step)
            notes += warnings_of(dataset, found, int(splits.counts[-1]))
            for name, scored in found.items():
                factory = name.split("_")[0]
                settings = pools.settings_of(factory, job.options.settings)
                accuracy_rows += rows_of(splits, name, scored, settings)
            for name in pools.CONSENSUS:
                of_wins[name] += win_rows(dataset, name, found) if name in found else []
            draw(job, splits, found)
    notes += [line for line in SOFTER if line.split(":")[0] in datasets]
    job.report.table(
        "Figures 1 and 2: accuracy with few labels",
        accuracy_rows,
        units=PERCENT,
        parameters=("regularization",),
        notes=notes,
    )
    for number, (name, of_name) in zip(("I", "II"), of_wins.items(), strict=True):
        job.report.table(
            f"Table {number}: how often {name} wins",
            of_name,
            units=PERCENT,
            notes=[*ABOUT_WINS, verdict(name, of_name)],
        )


def run_methods(
    job: Job, splits: pools.Splits, names: Sequence[str], step: Callable[[str], None]
) -> dict[str, pools.Choice]:
    """Choose points with every method and measure the accuracy of an SVC on them."""
    most = int(splits.counts[-1])
    found: dict[str, pools.Choice] = {}
    with jax.enable_x64(True):
        grams = pools.grams_of(splits.inner, splits.pools)
        for name in names:
            step(f"{splits.name} {name}")
            chosen = pools.choices(name, grams, most, job.options.settings)
            by_kernel = {
                kernel: choice._replace(accuracy=accuracies(splits, choice.ranking), kernel=kernel)
                for kernel, choice in chosen.items()
            }
            several = name.endswith("*")
            found |= best_and_median(by_kernel, name) if several else {name: by_kernel[""]}
    return found


def verdict(name: str, compared: Sequence[Row]) -> str:
    """Return a sentence on how many differences are beyond two standard errors.

    >>> gaps = {"difference": [0.1, 0.11, 0.12]}
    >>> verdict("gmkal", rows(("design", "wine", "gmkal over ted"), gaps))
    'gmkal: better by more than two standard errors in 1 of 1 comparisons, worse in 0'
    """
    differences = [r for r in compared if r.metric == "difference"]
    better, worse = apart(differences)
    return (
        f"{name}: better by more than two standard errors in {better} of {len(differences)} "
        f"comparisons, worse in {worse}"
    )


def draw(job: Job, splits: pools.Splits, found: Mapping[str, pools.Choice]) -> None:
    """Draw Figures 1 and 2 of a data set."""
    panels = []
    for single in ("cted", "rrss"):
        lines = {
            name: (splits.counts, scored.accuracy)
            for name, scored in found.items()
            if name in ("random", "ted", *pools.CONSENSUS) or name.split("_")[0] == single
        }
        title = f"{splits.name}: with {single.upper()}"
        panels.append(Panel(title, "labels", "accuracy", lines, marks=True, errors=True))
    job.report.plot(f"design_{splits.name}", panels)


GENERATED = "plane"
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
    """Draw the points that each method chooses in two dimensions."""
    _, names = job.among("picture", (GENERATED,), IN_PLANE)
    planes = [plane(seed) for seed in range(job.seeds)]
    found: list[Row] = []
    panels = []
    with jax.enable_x64(True):
        grams = np.stack([design.dictionary(X) for X in planes])
        for name in job.report.steps("picture", names):
            settings = pools.settings_of(pools.ALGORITHMS[name], job.options.settings)
            choice = pools.choices(name, grams, PLANE_CHOSEN, settings)[""]
            distances = [nearest(X, r) for X, r in zip(planes, choice.ranking, strict=True)]
            parameters = {"points": PLANE_POINTS, "chosen": PLANE_CHOSEN, **settings}
            of_name = "design", GENERATED, name, "distance"
            found.append(row(of_name, distances, parameters=parameters))
            points = {"pool": planes[0], f"{PLANE_CHOSEN} chosen": planes[0][choice.ranking[0]]}
            title = f"{name}: distance {figure(distances[0])}"
            panels.append(Panel(title, "", "", points=points))
    job.report.table(
        f"{PLANE_CHOSEN} of {PLANE_POINTS} points in a plane",
        found,
        notes=("distance: the mean distance of points of the pool to the nearest chosen one",),
    )
    job.report.plot("design_plane", panels)


PAPER = Paper(
    name="design",
    title="Experimental design with multiple kernels (Wang, Du, Shi, Zhou, Qian and Shen)",
    datasets=tuple(dict.fromkeys((*pools.SIZES, *DENSE, *TEXTS, *BUNDLED, GENERATED, RARE))),
    algorithms={
        **pools.ALGORITHMS,
        **{name: name.split("_")[0] for name in (*SELECTORS, *FINDERS)},
    },
    parts=(tables, picture, selectors, rare, rounds, tuned),
    default_parts=("tables", "picture"),
    generated=(GENERATED, RARE),
    parts_without_files=("picture", "rare"),
    bundled=tuple(BUNDLED),
    check=pools.check,
)
