"""Bayesian optimisation of test functions inside a scan, beside random search.

After ten random points, each round has 256 random candidates and 256 near the best point so far,
drawn from a normal distribution of deviation .1 around it. The point with the largest draw from
N(value, epistemic), or the largest value + 2 sqrt(epistemic), is evaluated; the learner is least
squares on Fourier features of Gaussians of four widths, from .1 to .8 sqrt(D).
Inputs are scaled to [0, 1]; values are standardised by those of the first ten points.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxmkl
from jaxmkl import abilities
from jaxmkl.evaluate import Candidate, Row

from ..evaluate import Measured, keys_of, program, timed
from ..papers.paper import Job
from .arms import PENALTY, least_squares

EVALUATIONS, FIRST = 100, 10
CANDIDATES, NEAR = 256, 0.1
RELATIVE_WIDTHS = (0.1, 0.2, 0.4, 0.8)  # of sqrt(D)
FEATURES = 100


class Function(NamedTuple):
    """A function on [0, 1]^D that is to be minimised."""

    value: Callable[[jax.Array], jax.Array]
    num_inputs: int
    minimum: float


def branin(x: jax.Array) -> jax.Array:
    """Return the function of Branin at a point of [0, 1]²."""
    a, b = 15 * x[0] - 5, 15 * x[1]
    bend = b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6
    return bend**2 + 10 * (1 - 1 / (8 * np.pi)) * jnp.cos(a) + 10


SCALES = (
    (10, 3, 17, 3.5, 1.7, 8),
    (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8),
    (17, 8, 0.05, 10, 0.1, 14),
)
CENTRES = (
    (1312, 1696, 5569, 124, 8283, 5886),
    (2329, 4135, 8307, 3736, 1004, 9991),
    (2348, 1451, 3522, 2883, 3047, 6650),
    (4047, 8828, 8732, 5743, 1091, 381),
)


def hartmann6(x: jax.Array) -> jax.Array:
    """Return the function of Hartmann at a point of [0, 1]^6."""
    scales, centres = np.array(SCALES, np.float32), np.array(CENTRES, np.float32) / 10_000
    distances = jnp.sum(scales * jnp.square(x[None] - centres), axis=1)
    return -jnp.sum(np.array([1.0, 1.2, 3.0, 3.2], np.float32) * jnp.exp(-distances))


FUNCTIONS: Mapping[str, Function] = {
    "branin": Function(branin, 2, 0.397887),
    "hartmann6": Function(hartmann6, 6, -3.32237),
}


# The deviations by which the values of points are raised, for a key and their shape.
WORTH: Mapping[str, Callable[[jax.Array, tuple], jax.Array]] = {
    "Thompson draw": jax.random.normal,
    "upper confidence bound": lambda key, shape: jnp.full(shape, 2.0),
}
RANDOM = "random search"


def learner_of(num_inputs: int) -> jaxmkl.MKL:
    """Return the learner of the function."""
    widths = np.sqrt(num_inputs) * np.array(RELATIVE_WIDTHS)
    return least_squares(widths.astype(np.float32), FEATURES)


@functools.partial(jax.jit, static_argnames=("objective", "worth"))
def minimised(
    learner: jaxmkl.MKL, keys: jax.Array, objective: Function, worth: Callable
) -> jax.Array:
    """Minimise the function for each key, and return the values found (S, EVALUATIONS)."""
    D = objective.num_inputs

    def one(key: jax.Array) -> jax.Array:
        of_state, of_first, of_rounds = jax.random.split(key, 3)
        first = jax.random.uniform(of_first, (FIRST, D))
        values = jax.vmap(objective.value)(first)
        centre, unit = values.mean(), values.std()
        state, _ = jaxmkl.run(learner, learner.init(of_state, D), first, (centre - values) / unit)

        def turn(carry: tuple, key: jax.Array) -> tuple:
            state, best, least = carry
            anywhere, near, chance = jax.random.split(key, 3)
            close = best[None] + NEAR * jax.random.normal(near, (CANDIDATES, D))
            points = [jax.random.uniform(anywhere, (CANDIDATES, D)), jnp.clip(close, 0.0, 1.0)]
            X = jnp.concatenate(points)
            said = learner.predict_many(abilities.out_of_order(learner, state), X)
            raised = worth(chance, said.value.shape) * jnp.sqrt(jnp.asarray(said.epistemic))
            x = X[jnp.argmax(said.value + raised)]
            value = objective.value(x)
            state = learner.update(state, x, (centre - value) / unit)
            best = jnp.where(value < least, x, best)
            return (state, best, jnp.minimum(value, least)), value

        start = state, first[jnp.argmin(values)], values.min()
        keys = jax.random.split(of_rounds, EVALUATIONS - FIRST)
        return jnp.concatenate([values, jax.lax.scan(turn, start, keys)[1]])

    return jax.vmap(one)(keys)


@functools.partial(jax.jit, static_argnames="objective")
def searched(keys: jax.Array, objective: Function) -> jax.Array:
    """Return the values at random points (S, EVALUATIONS)."""

    def one(key: jax.Array) -> jax.Array:
        points = jax.random.uniform(key, (EVALUATIONS, objective.num_inputs))
        return jax.vmap(objective.value)(points)

    return jax.vmap(one)(keys)


def optimisation(job: Job) -> None:
    """Minimise every function by a learner's draws and bounds, and by random search."""
    names, _ = job.among("optimisation", tuple(FUNCTIONS), ("expert_mkl",))
    found: list[Row] = []
    with job.report.progress("optimisation", len(names) * (len(WORTH) + 1)) as step:
        for name in names:
            function, keys = FUNCTIONS[name], keys_of(job.seeds)
            learner = learner_of(function.num_inputs)
            for how in (*WORTH, RANDOM):
                step(f"{name} {how}")
                if how == RANDOM:
                    values, seconds = timed(program(searched, keys, objective=function), keys)
                else:
                    static: dict[str, Any] = {"objective": function, "worth": WORTH[how]}
                    given = learner, keys
                    values, seconds = timed(program(minimised, *given, **static), *given)
                regret = np.asarray(values, np.float64) - function.minimum
                half = regret[:, : EVALUATIONS // 2].min(axis=1)
                figures = {"regret_halfway": half, "simple_regret": regret.min(axis=1)}
                made = Candidate(
                    how, learner, {} if how == RANDOM else {"regularization": PENALTY}
                )
                found += Measured(figures, seconds / job.seeds).rows("decisions", name, made)
    notes = [
        f"simple regret: the least value found less the minimum, after {EVALUATIONS} evaluations; "
        f"halfway: after {EVALUATIONS // 2}"
    ]
    job.report.table("Minimising a function: simple regret", found, notes=notes)
