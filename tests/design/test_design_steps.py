"""Experimental design: the descent, the minimum over weights, and the ranking by themselves."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxmkl.design._descent import Move, descend
from jaxmkl.design._frame import ranked
from jaxmkl.design.lmkal import minimised
from tests.oracles import design as oracle

SMALL_PROGRAMS = True

pytestmark = pytest.mark.usefixtures("x64")


def test_the_projection_is_that_onto_the_simplex() -> None:
    H = np.random.default_rng(0).normal(scale=2.0, size=(200, 9))
    H[0] = 0.3  # ties
    found = jax.jit(jax.vmap(optax.projections.projection_simplex))(jnp.asarray(H))
    np.testing.assert_allclose(found, [oracle.projection(h) for h in H], atol=1e-12)
    np.testing.assert_allclose(found, oracle.projections(H), atol=1e-12)


@jax.jit
def smallest(roots: jax.Array, start: jax.Array) -> tuple[Any, ...]:
    """Where the proximal gradient ends, f there and at the start, and the slope."""

    def f(Z: jax.Array) -> jax.Array:
        return jnp.sum(jnp.einsum("tir,it->tr", roots, Z) ** 2) + 0.3 * jnp.sum(Z**2)

    steepness = jnp.max(jnp.sum(roots**2, axis=2), axis=0) + 0.3
    end = minimised(f, steepness, start, gap=1e-7, max_steps=20_000)
    return end, f(end.Z), f(start), jax.grad(f)(end.Z)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 60])
def test_the_proximal_gradient_finds_the_minimum(rank: int) -> None:
    draws = np.random.default_rng(rank)
    scale = np.array([1, 2, 0.5, 4])[:, None, None]
    roots = np.zeros((4, 25, 60))
    roots[..., :rank] = draws.normal(size=(4, 25, rank)) * scale
    end, value, first, slope = smallest(jnp.asarray(roots), jnp.full((25, 4), 0.25))
    gap = float(jnp.sum(slope * end.Z) - jnp.sum(jnp.min(slope, axis=1)))
    assert gap <= 1e-6 * float(value)
    assert float(value) < float(first)
    np.testing.assert_allclose(end.value, value, rtol=1e-12)


@pytest.mark.slow
def test_the_descent_refuses_what_does_not_lower_the_objective() -> None:
    # a slow rotation towards (1, 1): extrapolation overshoots, the distance must fall all the same
    turn = jnp.asarray([[np.cos(0.9), -np.sin(0.9)], [np.sin(0.9), np.cos(0.9)]])

    def step(x: jax.Array) -> Move:
        new = 1 + 0.97 * (turn @ (x - 1))
        value = jnp.sum((new - 1) ** 2)
        return Move(new, value + 1, jnp.sqrt(value))

    start = jnp.asarray([1.5, 1.2])
    fast = descend(step, start, tolerance=1e-10, max_iterations=400)
    plain = descend(step, start, tolerance=1e-10, max_iterations=400, accelerate=False)
    for end in (fast, plain):
        values = np.asarray(end.objective)[: int(end.length)]
        assert (np.diff(values) <= 0).all()
        assert bool(end.converged)
        np.testing.assert_allclose(end.move.point, 1.0, atol=2e-5)
    assert int(fast.turn) < int(plain.turn) / 3


def test_ties_go_to_the_smaller_index() -> None:
    scores = jnp.asarray([0.1, 0.7, 0.7 * (1 + 1e-15), 0.7 * (1 - 1e-15), 0.1, 2.0])
    compiled = jax.jit(ranked, static_argnums=1)
    assert compiled(scores).tolist() == [5, 1, 2, 3, 0, 4]
    assert compiled(scores, 2).tolist() == [5, 1]
    assert compiled(jnp.zeros(6)).tolist() == [0, 1, 2, 3, 4, 5]
