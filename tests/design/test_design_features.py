"""Experimental design from features: the same as from Gram matrices, and none of these formed."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmkl import design
from jaxmkl.design import _reconstruction as reconstruction
from jaxmkl.design._pool import Pool
from jaxmkl.design._reconstruction import products_of, reconstruct, row_sums
from jaxmkl.design.lmkal import form
from jaxmkl.design.rrss import lengths_of
from tests.common.marks import long
from tests.oracles import design as oracle

SMALL_PROGRAMS = True

SINGLE, SEVERAL = ("cted", "rrss", "ted"), ("gmkal", "lmkal")


@pytest.fixture(scope="module")
def features() -> np.ndarray:
    """Features of three kernels of rank 4 over 36 points, (3, 36, 4)."""
    draws = np.random.default_rng(11)
    return draws.normal(size=(3, 36, 4)) * np.array([1.0, 0.5, 2.0])[:, None, None]


def grams_of(features: np.ndarray) -> np.ndarray:
    return features @ np.swapaxes(features, 1, 2)


@pytest.fixture(params=["features", "Gram matrices"])
def pools(request: pytest.FixtureRequest, features: np.ndarray) -> Any:
    """A function that makes a pool of some kernels, from features or from Gram matrices."""
    if request.param == "features":
        return lambda P: Pool(None, jnp.asarray(features[:P]))
    return lambda P: Pool(jnp.asarray(grams_of(features[:P])), None)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("weights", [(1.0,), (0.2, 0.5, 0.3)])
def test_a_step_is_the_literal_one(features: np.ndarray, pools: Any, weights: tuple) -> None:
    """Sizes of rows over many orders of magnitude: I - lambda S M^-1 S^-1 must not lose them."""
    P, penalty = len(weights), 0.7
    w, grams = jnp.asarray(weights), grams_of(features[:P])
    rtol, *ends = (1e-6, 1e-8, 1e2) if pools(P).features is None else (1e-8, 1e-6, 1.0)
    sizes = np.random.default_rng(0).permutation(np.geomspace(*ends, 36))
    A = oracle.cted_step(oracle.consensus(grams, np.asarray(w)), sizes, penalty)
    d = 2 * jnp.asarray(sizes)

    @jax.jit
    def found(pool: Pool) -> tuple[jax.Array, ...]:
        products = None if pool.features is None else products_of(pool)
        return *reconstruct(pool, products, w, d, penalty), row_sums(pool, w, d, penalty)

    norms, errors, lost, sums = found(pools(P))
    assert lost <= 1e-12 * jnp.sum(errors)
    np.testing.assert_allclose(jnp.sqrt(norms), oracle.rows(A), rtol=rtol)
    np.testing.assert_allclose(errors, oracle.errors(grams, A), rtol=1e-9)
    np.testing.assert_allclose(sums, np.abs(A).sum(axis=1), rtol=rtol)


@pytest.mark.usefixtures("x64")
def test_the_form_of_weights_and_its_gradient(features: np.ndarray, pools: Any) -> None:
    draws = np.random.default_rng(4)
    Z, other = draws.dirichlet(np.ones(3), size=(2, 36))
    d = jnp.asarray(np.exp(draws.normal(size=36)))
    grams = grams_of(features)
    A = oracle.cted_step(oracle.consensus(grams, Z), np.asarray(d) / 2, 0.7)

    @jax.jit
    def found(Z: jax.Array, other: jax.Array) -> tuple[jax.Array, ...]:
        f, steepness = form(pools(3), Z, d, jnp.asarray(0.7))
        return steepness, f(other), jax.grad(f)(other)

    steepness, value, slope = found(Z, other)
    G = (A - np.eye(36)) @ (A - np.eye(36)).T
    np.testing.assert_allclose(steepness, (grams * G).max(axis=0).diagonal(), rtol=1e-8)
    np.testing.assert_allclose(value, oracle.localized_form(grams, A, other))
    np.testing.assert_allclose(slope, oracle.localized_gradient(grams, A, other), rtol=1e-9)


@pytest.mark.usefixtures("x64")
def test_a_step_of_rrss_is_that_of_a_gram_matrix(features: np.ndarray) -> None:
    draws = np.random.default_rng(0)
    K = grams_of(features)[0]
    d, c = (np.exp(draws.uniform(-6, 1, size=36)) for _ in range(2))
    A = oracle.rrss_step(K, d / 2, c)
    pool = Pool(None, jnp.asarray(features[:1]))
    norms, residuals = jax.jit(lengths_of)(pool, d, c)
    np.testing.assert_allclose(jnp.sqrt(norms), oracle.rows(A), rtol=1e-8)
    R = np.eye(36) - A
    np.testing.assert_allclose(residuals, np.diag(R.T @ K @ R), rtol=1e-8)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("method", long(["gmkal"], ["rrss", "ted", "gmkal", "lmkal"]))
def test_low_rank_equals_dense(features: np.ndarray, method: str) -> None:
    given = features if method in SEVERAL else features[0]
    # where an objective is flat, weights a point are near each other only near the minimum
    fine = {"tolerance": 1e-9} if method == "lmkal" else {}
    dense = getattr(design, method)(np.matmul(given, np.swapaxes(given, -1, -2)), 0.05, **fine)
    low = getattr(design, method)(features=given, regularization=0.05, **fine)
    lengths = [int(jnp.isfinite(found.objective).sum()) for found in (dense, low)]
    # what is left of a kernel after as many points as its rank is rounding; and rounding decides
    # where in its tolerance the minimisation inside a step of LMKAL ends
    shared = {"ted": 4, "lmkal": 2}.get(method, min(lengths))
    assert method in ("lmkal", "ted") or lengths[0] == lengths[1]
    # on a long way that turns by comparisons, rounding grows before both ways meet again
    exact = method not in ("rrss", "lmkal")
    rtol = 1e-8 if exact else 1e-5
    np.testing.assert_allclose(low.objective[:shared], dense.objective[:shared], rtol=rtol)
    if method == "ted":
        assert low.ranking[:4].tolist() == dense.ranking[:4].tolist()
        return
    largest = float(dense.scores.max())
    np.testing.assert_allclose(low.scores, dense.scores, atol=(rtol if exact else 1e-3) * largest)
    atol = rtol if exact else 1e-3
    np.testing.assert_allclose(low.kernel_weights, dense.kernel_weights, atol=atol)
    ends = [
        found.objective[length - 1] for found, length in zip((dense, low), lengths, strict=True)
    ]
    np.testing.assert_allclose(*ends, rtol=1e-6 if method == "rrss" else 1e-8)
    few = int(dense.num_active)
    assert int(low.num_active) == few
    assert low.ranking[:few].tolist() == dense.ranking[:few].tolist()
    assert bool(low.converged) == bool(dense.converged) is True


@pytest.mark.slow
@pytest.mark.parametrize("method", [*SINGLE, *SEVERAL])
def test_nothing_of_the_size_of_a_gram_matrix_is_formed(method: str) -> None:
    n = 3000
    F = jax.random.normal(jax.random.key(0), (2, n, 8) if method in SEVERAL else (n, 8))
    settings: dict[str, Any] = {"num_points": 10} if method == "ted" else {"max_iterations": 20}
    call = partial(getattr(design, method), regularization=0.3, **settings)
    text = jax.jit(lambda F: call(features=F)).lower(F).as_text()
    assert f"{n}x{n}" not in text
    assert f"{n}x8" in text
    dense = jax.jit(lambda K: call(K)).lower(
        jax.ShapeDtypeStruct((2, 50, 50) if method in SEVERAL else (50, 50), F.dtype)
    )
    assert "50x50" in dense.as_text()  # so the search would find one


@pytest.mark.slow
def test_sums_of_rows_beyond_the_largest_are_their_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(0)
    F = jnp.asarray(draws.normal(size=(200, 6)), jnp.float32)
    d = jnp.asarray(np.exp(draws.normal(size=200)), jnp.float32)
    pool, one = Pool(None, F[None]), jnp.ones((1,), jnp.float32)
    exact = np.asarray(jax.jit(row_sums)(pool, one, d, 2.0))
    monkeypatch.setattr(reconstruction, "ENTRIES", 0)
    monkeypatch.setattr(reconstruction, "EXACT_ROWS", 64)
    few = np.asarray(jax.jit(lambda *given: row_sums(*given))(pool, one, d, 2.0))
    A = oracle.cted_step(np.asarray(F @ F.T, np.float64), np.asarray(d, np.float64) / 2, 2.0)
    norms = oracle.rows(A)
    order = np.argsort(-norms)
    np.testing.assert_allclose(exact, np.abs(A).sum(axis=1), rtol=1e-3)
    np.testing.assert_allclose(few[order[:64]], exact[order[:64]], rtol=1e-4)
    np.testing.assert_allclose(few[order[64:]], norms[order[64:]], rtol=1e-3)
    assert few[order[:64]].min() > few[order[64:]].max()


SHARDED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as Spec
from jaxmkl import design
assert len(jax.devices()) == 8
mesh = jax.make_mesh((8,), ("pool",), axis_types=(AxisType.Auto,))
F = np.random.default_rng(0).normal(size=(256, 6)).astype(np.float32)
sharding = NamedSharding(mesh, Spec("pool", None))
call = lambda F: design.cted(features=F, regularization=0.05, tolerance=1e-4)
whole, split = call(F), call(jax.device_put(F, sharding))
a, b = (np.asarray(x.objective) for x in (whole, split))
a, b = a[np.isfinite(a)], b[np.isfinite(b)]
np.testing.assert_allclose(a[-1], b[-1], rtol=1e-3)
assert len(set(whole.ranking[:20].tolist()) & set(split.ranking[:20].tolist())) >= 17
sharded = jax.ShapeDtypeStruct(F.shape, F.dtype, sharding=sharding)
text = jax.jit(call).lower(sharded).compile().as_text()
assert "f32[32,6]" in text  # a device's share of the features
assert "f32[256,6]" not in text  # and nowhere all of them
assert "all-reduce" in text
print("done")
"""


@pytest.mark.endless
def test_sharded_along_the_pool() -> None:
    """Eight devices, each with an eighth of the points, which it keeps to itself."""
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    devices |= {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    result = subprocess.run(
        [sys.executable, "-c", SHARDED],
        env=devices | {"PATH": "", "OPENBLAS_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout == "done\n", result.stderr[-3000:]
