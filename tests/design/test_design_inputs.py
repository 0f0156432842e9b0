"""Experimental design: what is refused, and the paper's kernels."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmkl import design
from tests.common.marks import quick

SMALL_PROGRAMS = True

METHODS = ("cted", "rrss", "ted", "gmkal", "lmkal")
ALL = (*METHODS, "facility")
SETTINGS_OF = {"ted": 6, "facility": 3}  # how many of SETTINGS it has; the others have all


def call(method: str, gram: Any, *arguments: Any, **settings: Any) -> design.Design:
    """Design from a Gram matrix (n, n), or from two where several are wanted."""
    if method in ("gmkal", "lmkal") and gram is not None:
        gram = np.stack([np.eye(len(gram)) + 0.0 * np.eye(len(gram)), gram])
    return getattr(design, method)(gram, *arguments, **settings)


def good(n: int = 6) -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(n, 4))
    return X @ X.T


def changed(i: int, j: int, value: float) -> np.ndarray:
    K = good()
    K[i, j] = value
    return K


def indefinite() -> np.ndarray:
    K = good()
    return K - 0.1 * np.trace(K) * np.eye(6)


BAD = {
    "asymmetric": (lambda: changed(0, 1, 3.0), "must be symmetric; got .*entries that differ"),
    "indefinite": (indefinite, "must be positive semi-definite; got .*eigenvalue below"),
    "nan": (lambda: changed(2, 2, np.nan), "must be finite; got .*NaN"),
    "infinite": (lambda: changed(2, 2, np.inf), "must be finite; got .*NaN or infinite"),
    "zero": (lambda: np.zeros((6, 6)), "must be other than zero"),
    "not square": (lambda: good()[:, :5], r"must be an array \(.*n, n\); got .*\(.*6, 5\)"),
    "complex": (lambda: good() * 1j, "must hold real numbers; got dtype complex128"),
}


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("fault", BAD)
def test_bad_gram_matrices_are_refused_by_name(method: str, fault: str) -> None:
    make, message = BAD[fault]
    several = method in ("gmkal", "lmkal")
    matrix = make()
    if several:
        shape = np.broadcast_shapes(matrix.shape)
        kernels: Any = np.stack(
            [np.resize(good(), shape) if fault == "not square" else good(), matrix]
        )
    else:
        kernels = matrix
    argument = "grams" if several else "gram"
    place = re.escape("[1]") if several and fault not in ("not square", "complex") else ""
    with pytest.raises(ValueError, match=f"^{method}: {argument}{place} {message}"):
        getattr(design, method)(kernels)


NUMBER = "num_points must be an integer from 1 to 6"
PENALTY = "regularization must be positive and finite; got"
COUNT = "max_iterations must be an integer of at least 1; got"
SETTINGS = [
    ({"num_points": 7}, f"{NUMBER}, the size of the pool; got 7"),
    ({"num_points": 0}, NUMBER),
    ({"num_points": 2.0}, NUMBER),
    ({"regularization": 0.0}, f"{PENALTY} 0.0"),
    ({"regularization": np.nan}, f"{PENALTY} nan"),
    ({"regularization": "a"}, f"{PENALTY} 'a'"),
    ({"tolerance": -1.0}, "tolerance must be at least 0 and finite; got -1.0"),
    ({"max_iterations": 0}, f"{COUNT} 0"),
    ({"max_iterations": 2.5}, f"{COUNT} 2.5"),
    ({"smoothing": 0.0}, "smoothing must be positive and finite; got 0.0"),
]


@pytest.mark.parametrize("method", ALL)
def test_bad_settings_are_refused_by_name(method: str) -> None:
    for settings, message in SETTINGS[: SETTINGS_OF.get(method)]:
        with pytest.raises(ValueError, match=f"^{method}: {message}"):
            call(method, good(), **settings)


def test_a_share_of_something_else_is_refused() -> None:
    message = "ted: share_of must be one of diagonal, columns; got 'trace'"
    with pytest.raises(ValueError, match=message):
        design.ted(good(), share_of="trace")


@pytest.mark.parametrize("method", METHODS)
def test_one_of_kernels_and_features_is_wanted(method: str) -> None:
    name = "grams" if method in ("gmkal", "lmkal") else "gram"
    with pytest.raises(ValueError, match=f"^{method}: {name} or features must be given.*none"):
        call(method, None)
    with pytest.raises(ValueError, match=f"^{method}: {name} or features must be given.*both"):
        call(method, good(), features=good())


@pytest.mark.parametrize("method", METHODS)
def test_bad_features_are_refused_by_name(method: str) -> None:
    function = getattr(design, method)
    several = method in ("gmkal", "lmkal")
    F = np.random.default_rng(0).normal(size=(2, 6, 3) if several else (6, 3))
    axes = r"\(P, n, r\)" if several else r"\(n, r\)"
    with pytest.raises(ValueError, match=f"^{method}: features must be an array {axes}; got"):
        function(features=F[0])
    F[..., 2, 1] = np.nan
    with pytest.raises(ValueError, match=f"^{method}: features(.0.)? must be finite"):
        function(features=F)


@pytest.mark.parametrize("start", [np.ones(3), [1.0, -1.0], [1.0, np.nan]])
@pytest.mark.parametrize("method", ["gmkal", "lmkal"])
def test_bad_weights_are_refused_by_name(method: str, start: Any) -> None:
    with pytest.raises(ValueError, match=f"^{method}: initial_weights must be"):
        call(method, good(), initial_weights=start)


def test_lists_of_tracers_are_told_how_to_be_stacked() -> None:
    for name in ("gram", "features"):

        def chosen(K: jax.Array, name: str = name) -> jax.Array:
            return design.ted(**{name: [*K]}, num_points=2).ranking

        with pytest.raises(
            ValueError, match=rf"{name} must be an array .* jax.numpy.stack\({name}"
        ):
            jax.jit(chosen)(good())


def test_random_refuses_by_name() -> None:
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="random: num_points must be an integer from 1 to 4"):
        design.random(key, 4, num_points=5)
    with pytest.raises(ValueError, match="random: pool_size must be an integer of at least 1"):
        design.random(key, 0)
    with pytest.raises(ValueError, match="random: key must be a typed key"):
        design.random(jnp.zeros(2), 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"random: key must be a typed key, .* and one; got"):
        design.random(jax.random.split(key), 4)


@pytest.mark.slow
def test_duplicates_among_features_are_warned_of() -> None:
    F = np.random.default_rng(0).normal(size=(8, 3))
    F[5] = F[1]
    message = "cted: features has duplicates: 1 points .* point 5 is as point 1; "
    with pytest.warns(UserWarning, match=message):
        design.cted(features=F)


# --- the paper's kernels -------------------------------------------------------------------------


def test_the_dictionary_is_the_papers() -> None:
    X = np.random.default_rng(0).normal(size=(12, 3))
    kernels = design.dictionary(X, centre=False, normalise="none")
    squared = ((X[:, None] - X) ** 2).sum(axis=2)
    widest = np.sqrt(squared.max())
    H = np.eye(12) - 1 / 12
    for t, width in enumerate((1, 1e1, 1e2, 1e3, 1e4, 1e5)):
        plain = np.exp(-squared / (2 * (width * widest) ** 2))
        np.testing.assert_allclose(kernels[t], plain, rtol=1e-12)
    for t, degree in ((6, 2), (7, 4), (8, 1)):
        np.testing.assert_allclose(kernels[t], (X @ X.T) ** degree, rtol=1e-9, atol=1e-12)
    centred = design.dictionary(X)
    assert centred.dtype == np.float64
    np.testing.assert_array_equal(centred, np.swapaxes(centred, 1, 2))
    for t in (0, 1, 2, 6, 7, 8):
        wanted = H @ kernels[t] @ H
        diagonal = np.diag(wanted)
        wanted /= (diagonal[:, None] + diagonal - 2 * wanted).max()
        np.testing.assert_allclose(centred[t], wanted, atol=1e-9)
    assert np.linalg.eigvalsh(centred).min() > -1e-12


def test_wide_gaussians_keep_their_digits() -> None:
    """The widest Gaussian is the linear kernel but for r²/b², which is 1e-10 of 1."""
    X = np.random.default_rng(0).normal(size=(15, 4))
    kernels = design.dictionary(X)
    np.testing.assert_allclose(kernels[5], kernels[8], atol=1e-9)
    np.testing.assert_allclose(kernels[2], kernels[8], atol=1e-4)


def test_inner_products_do_for_points() -> None:
    X = np.random.default_rng(0).normal(size=(9, 4))
    np.testing.assert_allclose(design.dictionary(inner=X @ X.T), design.dictionary(X), atol=1e-14)


@pytest.mark.parametrize("by", ["distance", "max_abs", "none"])
def test_normalisations(by: str) -> None:
    K = good() + 1
    found = design.normalised(K, by)
    size = {"max_abs": np.abs(found).max(), "none": found[0, 0] / K[0, 0]}
    d = np.diag(found)
    largest = (d[:, None] + d - 2 * found).max() if by == "distance" else size[by]
    np.testing.assert_allclose(largest, 1.0)
    np.testing.assert_allclose(found / found[0, 0], K / K[0, 0])


def test_a_literal_reading_has_entries_that_are_degenerate() -> None:
    X = np.random.default_rng(0).normal(size=(9, 4))
    literal = design.dictionary(X, centre=False, normalise="distance")
    assert literal[5].max() > 1e9
    squared = 2 * literal[5].max() - 2 * literal[5].min()
    np.testing.assert_allclose(squared, 1.0, rtol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "X or inner must be given"),
        ({"X": np.ones((3, 2))}, "X must be at least two different points"),
        ({"X": np.array([[1.0, np.nan]])}, "X must be finite"),
        ({"inner": np.ones((3, 2))}, r"inner must be an array \(n, n\)"),
        ({"X": np.eye(2), "normalise": "trace"}, "by must be one of distance, max_abs, none"),
    ],
)
def test_bad_points_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        design.dictionary(**arguments)


# --- kinds of arrays -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", quick(["ted", "gmkal"], ALL))
def test_gram_matrices_of_any_dtype(method: str) -> None:
    K = np.diag([1.0, 2.0, 4.0]) + 0.5  # exact in all of them
    wanted = call(method, K, num_points=2)
    several = method in ("gmkal", "lmkal")
    K = np.stack([np.eye(3), K]) if several else K
    given = K.tolist(), K.astype(">f8"), K.astype(jnp.bfloat16), jnp.asarray(K, jnp.bfloat16)
    for one in given:
        found = getattr(design, method)(one, num_points=2)
        np.testing.assert_array_equal(found.ranking, wanted.ranking)
        np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-5)
    with pytest.raises(ValueError, match=f"^{method}: grams? must hold real numbers; got dtype c"):
        getattr(design, method)(jnp.asarray(K) * 1j)


@pytest.mark.parametrize("function", [design.dictionary, design.centred, design.normalised])
def test_the_papers_kernels_are_of_known_points(function: Any) -> None:
    with pytest.raises(ValueError, match=f"^{function.__name__}: .* must be an array outside of"):
        jax.jit(function)(good())
    for bad in (1.0, np.ones(3), np.ones((2, 3)), np.zeros((0, 0)), np.zeros((0, 2, 2))):
        with pytest.raises(ValueError, match=f"^{function.__name__}: .* must be a"):
            function(bad)
    rounded = jnp.asarray(good(), jnp.bfloat16)
    np.testing.assert_array_equal(function(rounded), function(np.asarray(rounded, np.float64)))


@pytest.mark.parametrize("argument", ["gram", "features"])
def test_a_ridge_below_rounding_leaves_gains_finite(argument: str) -> None:
    """Once three points explain the pool, only rounding is left to be taken."""
    features = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    given = features if argument == "features" else features @ features.T
    scores = np.asarray(design.ted(**{argument: given}, regularization=1e-8, num_points=12).scores)
    assert np.isfinite(scores).all()
    assert np.sort(scores)[:9].max() < 0.05 * scores.max()
