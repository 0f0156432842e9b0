"""Contextual bandits: Thompson sampling by the learner's own variance, and others beside it.

In each round a context comes, one of K arms is played, and only its reward is seen. Every arm has
a learner of rewards: least squares on Fourier features of Gaussians of four widths, from a quarter
to twice the median distance of contexts. All arms share the noise of rewards. Otherwise an arm
with a few rewards that happen to be equal would estimate no noise and be hardly played again, and
one whose rewards differ would be played for ever. The learner is the same for all strategies but
LinUCB:

    Thompson sampling     plays the largest value + ξ_k sqrt(epistemic), with normal numbers ξ_k of
                          each arm
    half shared           the same with ξ_k = (ξ + ζ_k) / sqrt(2), ξ of all arms and ζ_k of each:
                          every arm is drawn from its own distribution as before, but the largest
                          of many draws is nearly always far off, and less so here
    one draw              the same with one ξ for all arms. A bound of a random width (Vaswani,
                          Mehrabian, Durand and Kveton, 2020, Old dog learns new tricks)
    epsilon-greedy        plays at random with probability ε, else the largest value
    LinUCB                least squares on (x, 1), λ = 1; plays the largest θ·x + α sqrt(x'S x)

The bandits:

    waves     five normal inputs, five arms; an arm's mean reward is a random Fourier series,
              nearly a Gaussian process of bandwidth 2; noise of deviation .1
    wheel     of Riquelme, Tucker and Snoek (2018), Deep Bayesian bandits showdown, δ = .5:
              contexts in a disc; one arm has 1.2, four have 1, or 50 outside the radius δ in their
              quadrant; noise of deviation .01
    digits    scikit-learn's images, standardised: a digit is an arm, its reward 1, all others' 0

Regret is the mean reward of the best arm less that of the arm played, summed over rounds.
"""

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import sklearn.datasets

import jaxmkl
from jaxmkl.evaluate import Candidate, Row

from ..evaluate import Measured, keys_of, program, timed
from ..papers.paper import Job

ROUNDS = 2000
ARMS, INPUTS, WAVES, WIDTH = 5, 5, 100, 2.0
NOISE = 0.1
RADIUS, LARGE, SURE, SMALL, WHEEL_NOISE = 0.5, 50.0, 1.2, 1.0, 0.01
RELATIVE_WIDTHS = (0.25, 0.5, 1.0, 2.0)  # of the median distance
PENALTY = 0.01  # as in the learned banks of expert_mkl
FEATURES = 50
SEEN = 500  # contexts that the median distance is of


class Rounds(NamedTuple):
    """The rounds of a bandit: contexts (T, D), mean rewards (T, K) and rewards (T, K)."""

    contexts: jax.Array
    means: jax.Array
    rewards: jax.Array


def waves(key: jax.Array) -> Rounds:
    """Return rounds whose mean rewards are random functions."""
    keys = jax.random.split(key, 4)
    X = jax.random.normal(keys[0], (ROUNDS, INPUTS))
    directions = jax.random.normal(keys[1], (INPUTS, ARMS * WAVES)) / WIDTH
    offsets = jax.random.uniform(keys[2], (1, ARMS * WAVES), maxval=2 * np.pi)
    values = jnp.cos(X @ directions + offsets).reshape(ROUNDS, ARMS, WAVES)
    means = np.sqrt(2 / WAVES) * values.sum(axis=2)
    return Rounds(X, means, means + NOISE * jax.random.normal(keys[3], means.shape))


def wheel(key: jax.Array) -> Rounds:
    """Return rounds in which a large reward has to be found."""
    keys = jax.random.split(key, 3)
    radius = jnp.sqrt(jax.random.uniform(keys[0], (ROUNDS,)))
    angle = jax.random.uniform(keys[1], (ROUNDS,), maxval=2 * np.pi)
    X = jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=1)
    quadrant = 2 * (X[:, 0] < 0) + (X[:, 1] < 0)
    good = jax.nn.one_hot(quadrant, 4, dtype=bool) & (radius > RADIUS)[:, None]
    means = jnp.where(good, LARGE, SMALL)
    means = jnp.concatenate([jnp.full((ROUNDS, 1), SURE), means], axis=1)
    return Rounds(X, means, means + WHEEL_NOISE * jax.random.normal(keys[2], means.shape))


def digits(key: jax.Array) -> Rounds:
    """Return images of handwritten digits in an order of their own, and which digit is right."""
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    order = jax.random.permutation(key, len(y))
    means = jax.nn.one_hot(jnp.asarray(y)[order], 10)
    X = jaxmkl.tables.scale(X, "standard").astype(np.float32)
    return Rounds(jnp.asarray(X)[order], means, means)


BANDITS: Mapping[str, Callable[[jax.Array], Rounds]] = {
    make.__name__: make for make in (waves, wheel, digits)
}


def thompson(
    said: jaxmkl.Prediction, key: jax.Array, time: jax.Array, shared: float = 0.0
) -> jax.Array:
    """Return an arm with the probability that it is best; arms share some variance of a draw."""
    own, common = jax.random.split(key)
    draws = np.sqrt(1 - shared) * jax.random.normal(own, said.value.shape)
    draws += np.sqrt(shared) * jax.random.normal(common)
    return jnp.argmax(said.value + jnp.sqrt(jnp.asarray(said.epistemic)) * draws)


def greedy(
    said: jaxmkl.Prediction, key: jax.Array, time: jax.Array, epsilon: float | None = None
) -> jax.Array:
    """Return any arm with probability epsilon, or less and less often, else the best one."""
    chance, which = jax.random.split(key)
    explore = jax.random.uniform(chance) < (epsilon or 1.0 / jnp.sqrt(time + 1.0))
    some = jax.random.randint(which, (), 0, said.value.shape[0])
    return jnp.where(explore, some, jnp.argmax(said.value))


CHOICES: Mapping[str, Callable] = {
    "Thompson sampling": thompson,
    "Thompson sampling (half shared)": functools.partial(thompson, shared=0.5),
    "Thompson sampling (one draw)": functools.partial(thompson, shared=1.0),
    "epsilon-greedy (0.1)": functools.partial(greedy, epsilon=0.1),
    "epsilon-greedy (1 / sqrt(t))": greedy,
}
LINUCB = "LinUCB"


def learner_of(contexts: jax.Array) -> jaxmkl.MKL:
    """Return the learner of one arm's rewards."""
    distance = float(jaxmkl.kernels.median_distance(np.asarray(contexts)[:SEEN]))
    return least_squares(distance * np.array(RELATIVE_WIDTHS, np.float32), FEATURES)


def least_squares(widths: np.ndarray, num_features: int) -> jaxmkl.MKL:
    """Return least squares on Fourier features of Gaussians of these widths."""
    features = jaxmkl.features.FourierFeatures(num_features, orthogonal=True)
    kernels, rule = jaxmkl.Gaussian(widths), jaxmkl.updates.RLS(PENALTY)
    return jaxmkl.MKL(jaxmkl.models.FeatureModels(kernels, rule, features))


def learned(
    learner: jaxmkl.MKL,
    states: jaxmkl.mkl.MKLState,
    arm: jax.Array,
    x: jax.Array,
    reward: jax.Array,
) -> jaxmkl.mkl.MKLState:
    """Return the states of all arms after one arm's reward, from which all learn the noise."""
    of_arm = learner.update(jax.tree.map(lambda leaf: leaf[arm], states), x, reward)
    after = jax.tree.map(lambda leaf, new: leaf.at[arm].set(new), states, of_arm)
    of_all = jax.tree.map(lambda leaf, new: jnp.full_like(leaf, new), states.noise, of_arm.noise)
    return after.replace(noise=of_all)


@functools.partial(jax.jit, static_argnames="choose")
def run_bandit(
    learner: jaxmkl.MKL, keys: jax.Array, rounds: Rounds, choose: Callable
) -> jax.Array:
    """Play a bandit for each key, and return the regret of each round (S, T)."""

    def one(key: jax.Array, rounds: Rounds) -> jax.Array:
        (T, D), K = rounds.contexts.shape, rounds.means.shape[1]
        of_arms, of_rounds = jax.random.split(key)
        states = jax.vmap(lambda key: learner.init(key, D))(jax.random.split(of_arms, K))

        def turn(states: jaxmkl.mkl.MKLState, inputs: tuple) -> tuple:
            (x, means, rewards), key, time = inputs
            arm = choose(jax.vmap(learner.predict, (0, None))(states, x), key, time)
            return learned(learner, states, arm, x, rewards[arm]), means.max() - means[arm]

        inputs = rounds, jax.random.split(of_rounds, T), jnp.arange(T)
        return jax.lax.scan(turn, states, inputs)[1]

    return jax.vmap(one)(keys, rounds)


@jax.jit
def linucb(rounds: Rounds) -> jax.Array:
    """Play LinUCB with α = 1 on every bandit, and return the regret of each round (S, T)."""

    def one(rounds: Rounds) -> jax.Array:
        K, D = rounds.means.shape[1], rounds.contexts.shape[1] + 1

        def turn(state: tuple, inputs: Rounds) -> tuple:
            S, totals = state
            x, means, rewards = inputs
            x = jnp.append(x, 1.0)
            gains = S @ x  # (K, D)
            arm = jnp.argmax(jnp.sum(gains * totals, axis=1) + jnp.sqrt(gains @ x))
            gain = gains[arm]
            S = S.at[arm].add(-jnp.outer(gain, gain) / (1.0 + gain @ x))
            return (S, totals.at[arm].add(x * rewards[arm])), means.max() - means[arm]

        start = jnp.tile(jnp.eye(D), (K, 1, 1)), jnp.zeros((K, D))
        return jax.lax.scan(turn, start, rounds)[1]

    return jax.vmap(one)(rounds)


def bandits(job: Job) -> None:
    """Play every bandit by every strategy, with a bandit or an order of its own for each seed."""
    names, _ = job.among("bandits", tuple(BANDITS), ("expert_mkl",))
    found: list[Row] = []
    with job.report.progress("bandits", len(names) * (len(CHOICES) + 1)) as step:
        for name in names:
            keys = keys_of(job.seeds)
            rounds = jax.vmap(BANDITS[name])(keys)
            learner = learner_of(rounds.contexts[0])
            for strategy in (*CHOICES, LINUCB):
                step(f"{name} {strategy}")
                if strategy == LINUCB:
                    regret, seconds = timed(program(linucb, rounds), rounds)
                    parameters = {"alpha": 1.0, "regularization": 1.0}
                else:
                    given, choose = (learner, keys, rounds), CHOICES[strategy]
                    regret, seconds = timed(program(run_bandit, *given, choose=choose), *given)
                    parameters = {"regularization": PENALTY}
                regret = np.asarray(regret, np.float64)
                late = regret[:, -(regret.shape[1] // 4) :].mean(axis=1)
                figures = {"regret": regret.sum(axis=1), "late_regret": late}
                made = Candidate(strategy, learner, parameters)
                found += Measured(figures, seconds / job.seeds).rows("decisions", name, made)
    notes = [
        f"{ROUNDS} rounds (digits: every image once); late regret: a round of the last quarter",
        "the same learner of each arm for all but LinUCB: see experiments/decisions/arms.py",
    ]
    job.report.table("Contextual bandits: regret", found, notes=notes)
