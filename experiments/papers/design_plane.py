"""Pool selection in two dimensions: the points that each method chooses."""

import jax
import numpy as np

from jaxmkl import design
from jaxmkl.evaluate import Row, figure, row

from ..report import Panel
from .design_pools import ALGORITHMS, choices, settings_of
from .paper import Job

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
    pools = [plane(seed) for seed in range(job.seeds)]
    rows: list[Row] = []
    panels = []
    with jax.enable_x64(True):
        grams = np.stack([design.dictionary(X) for X in pools])
        for name in job.report.steps("picture", names):
            settings = settings_of(ALGORITHMS[name], job.options.settings)
            choice = choices(name, grams, PLANE_CHOSEN, settings)[""]
            distances = [nearest(X, r) for X, r in zip(pools, choice.ranking, strict=True)]
            parameters = {"points": PLANE_POINTS, "chosen": PLANE_CHOSEN, **settings}
            of_name = "design", GENERATED, name, "distance"
            rows.append(row(of_name, distances, parameters=parameters))
            points = {"pool": pools[0], f"{PLANE_CHOSEN} chosen": pools[0][choice.ranking[0]]}
            title = f"{name}: distance {figure(distances[0])}"
            panels.append(Panel(title, "", "", points=points))
    job.report.table(
        f"{PLANE_CHOSEN} of {PLANE_POINTS} points in a plane",
        rows,
        notes=("distance: the mean distance of points of the pool to the nearest chosen one",),
    )
    job.report.plot("design_plane", panels)
