"""Raker, OMKL-AKS, AMKL and AMKL-AKS as Hong and Chae run them.

They print λ |θ|² where the recipes have λ/2 |θ|², so that their λ = 0.01 is 0.02 there.
"""

from functools import partial
from typing import Any

from jaxmkl.mkl import MKL
from jaxmkl.recipes import random_features
from jaxmkl.recipes.settings.setting import Constant, Setting

_PAPER = "Songnam Hong and Jeongmin Chae (2022), Active learning with multiple kernels"

_ALL = (
    Constant("kernels", "P = 17 Gaussians, σ_i² = 10^((i - 9)/2), i = 1, ..., 17", "(2), (56)"),
    Constant("num_features", "D = 50 frequencies, 100 coordinates", "(57)"),
    Constant("feature_scale", "z = D^(-1/2) [sin v_j·x, cos v_j·x], so that |z| = 1", "(10)"),
    Constant("orthogonal", "False: v_j ~ N(0, I/σ²), independent", "section II, above (8)"),
    Constant("step_size", "η_l = T^(-1/2)", "(57)"),
    Constant("hedge_rate", "η_g = T^(-1/2)", "(57)"),
    Constant("loss", "squared, (y - f)²", "(18), (54)"),
    Constant("regularization", "λ = 0.01 of λ |θ|²", "(18), (57)"),
    Constant("hedge_penalty", "λ = 0.01: weights by (y - f)² + λ |θ|²", "(18), (22), (39)"),
    Constant("start", "θ = 0 and w = 1 of all kernels", "Algorithms 1 and 2, line 3"),
    Constant("X, y", "as they are", "not stated; section V names the data sets alone"),
)
_ADAPTIVE = (
    Constant("selection_threshold", "δ_t = 0.8", "section V, above (58)"),
    Constant("select", "γ_t = min(C(P, K_t)/P, 2), balls in bins", "Remark 1, (58)"),
    Constant("first subset", "all kernels", "not stated, and of no effect: all functions are 0"),
)
_ACTIVE = (
    Constant("tolerance", "η_c = 0.0005", "(59)"),
    Constant("max_skips", "M = 1", "(59)"),
    Constant("query", "the first label is asked for", "Algorithm 2: one of the last M was"),
)


def _made(name: str, arguments: dict[str, Any], num_examples: int, num_inputs: int) -> MKL:
    rate = num_examples**-0.5
    return getattr(random_features, name)(
        num_features=50,
        step_size=rate,
        regularization=0.02,
        hedge_rate=rate,
        hedge_penalty=0.02,
        loss="squared",
        orthogonal=False,
        feature_scale="mean",
        **arguments,
    )


def _setting(name: str, *further: tuple[Constant, ...], **arguments: Any) -> Setting:
    return Setting(_PAPER, partial(_made, name, arguments), sum(further, _ALL))


_THRESHOLD, _QUERY = {"selection_threshold": 0.8}, {"tolerance": 0.0005, "max_skips": 1.0}
SETTINGS = {
    "raker": _setting("raker"),
    "omkl_aks": _setting("omkl_aks", _ADAPTIVE, **_THRESHOLD),
    "amkl": _setting("amkl", _ACTIVE, **_QUERY),
    "amkl_aks": _setting("amkl_aks", _ADAPTIVE, _ACTIVE, **_THRESHOLD, **_QUERY),
}
