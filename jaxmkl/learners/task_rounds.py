"""Rounds on one example of each task at once: :meth:`jaxmkl.learners.MultiTask.round`."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve

from jaxmkl._blocks import count_on, einsum
from jaxmkl._feedback import Feedback
from jaxmkl._learner import Output, reported
from jaxmkl._types import PyTree
from jaxmkl.features.dictionary import DictionaryState
from jaxmkl.query import Forecast

# the product of two matrices, or of a matrix and a vector
_times = partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)


class Met(NamedTuple):
    """E Gaussians on one example, or on one example each, and the predictions for these."""

    gaussians: jax.Array
    """S and C means, side by side (E, D, D + C)."""
    products: jax.Array
    """S'φ, and φ·μ of each mean, side by side (E, D + C)."""
    towards: jax.Array
    """Σφ (E, D)."""
    spread: jax.Array
    """φ'Σφ (E,)."""
    values: list[jax.Array]
    """Values of the predictions, each a number or (E, 1)."""
    variances: list[jax.Array]
    """Variances of the predictions, likewise."""


def run_round(
    learner: Any,
    state: PyTree,
    X: jax.Array,
    y: jax.Array,
    present: jax.Array,
    most: jax.Array | int | None,
) -> tuple[PyTree, Output]:
    """Return the state after a round, and its outputs.

    Args:
      learner, state: a :class:`jaxmkl.learners.MultiTask`, and its state before the round.
      X, y, present: (K, D) with the column of the task, (K,) of -1 and +1, and (K,).
      most: the largest number of labels to ask for, or None.
    """
    usable = learner.usable(X) & present
    X = jnp.where(usable[:, None], X, 0.0)
    keys = jnp.broadcast_to(jax.random.fold_in(state.key, state.round), present.shape)
    dictionary, phi, added = _offered(learner, state, X, usable, keys)
    gaussians = learner.with_restarts(state.gaussians, state.stale, jnp.any(added))
    own = gaussians[int(learner.has_overall) :]
    # products with the Gaussian of all, and with their own, by columns: S'φ, μ·φ, ν·φ
    of_all = of_each = jnp.zeros((len(phi), gaussians.shape[2]), phi.dtype)
    if learner.has_overall:
        of_all = _times(phi, gaussians[0])
    if learner.has_local:
        of_each = einsum("ki,kij->kj", phi, own)
    D, both = phi.shape[1], of_all + of_each
    spreads = [jnp.sum(each[:, :D] ** 2, axis=1) for each in (of_all, of_each)]
    values, variances = [both[:, D]], [spreads[0] + spreads[1]]
    if both.shape[1] > D + 1:
        values += [of_each[:, D + 1], of_all[:, D + 1]]
        variances += [spreads[1], spreads[0]]
    value, variance = learner.mixture(state, values, variances)

    forecasts = jax.vmap(lambda f, v: learner._with_margin(Forecast.of_one(f, variance=v)))(
        value, variance
    )
    noise = learner._noise(X, keys)
    query, answers = _asked(learner, state, (forecasts, noise, usable, y), most)
    asked, learns, counted, diverging = answers
    loss = jnp.where(usable & jnp.isfinite(y), learner.loss_value(value, y), jnp.nan)
    said, info = jnp.where(usable, value, jnp.nan), learner.info(state)
    output = Output(said, loss, asked, info, variance)

    y = jnp.where(learns, y, 0.0)
    learned = y, learns, learner.shrinks(forecasts, y, learns, usable)
    met = []
    if learner.has_overall:
        by = values[::2], variances[::2]
        met.append(_of_all(learner, gaussians[0], phi, *by, *learned)[None])
    if learner.has_local:
        # as in a round on one example, for each task with its own
        towards = einsum("kij,kj->ki", own[:, :, :D], of_each[:, :D])
        given = values[:1], variances[:1], learned
        f, v, labels = ([number[:, None] for number in each] for each in given)
        of = Met(own, of_each, towards, spreads[1], f, v)
        met.append(learner.met(of, *labels, False)[0])
    after = state.replace(
        round=count_on(state.round, jnp.any(present)),
        invalid=state.invalid + jnp.sum(present & ~counted, dtype=jnp.int32),
        nonfinite=state.nonfinite + jnp.sum(diverging, dtype=jnp.int32),
        query=query,
        dictionary=dictionary,
        gaussians=jnp.concatenate(met),
        log_weights=learner.weighed(state, values, y, learns),
        stale=jnp.zeros_like(state.stale),
    )
    return reported(learner, state, after), output


def _offered(
    learner: Any, state: PyTree, X: jax.Array, usable: jax.Array, keys: jax.Array
) -> tuple[DictionaryState, jax.Array, jax.Array]:
    """The dictionary after a round's examples, their φ (K, D) by it, and which were added."""
    sampled, codes = learner.dictionary, learner.encode_own(state, X, keys).dictionary

    def offered(dictionary: DictionaryState, example: tuple) -> tuple[DictionaryState, jax.Array]:
        code, here = example
        _, offer = sampled.predict(dictionary, code)
        # no label is known yet
        feedback = Feedback(jnp.zeros((), X.dtype), jnp.zeros_like(here), here, here)
        return sampled.update(dictionary, code, offer, feedback), offer.added & here

    dictionary, added = jax.lax.scan(offered, state.dictionary, (codes, usable))
    phi = jax.vmap(sampled.embed, in_axes=(None, 0))(dictionary, codes)
    return sampled.close(dictionary, codes, state.round), phi, added


def _asked(
    learner: Any, state: PyTree, examples: tuple, most: jax.Array | int | None
) -> tuple[PyTree, tuple[jax.Array, ...]]:
    """The query's state after a round, and four masks (K,) of the labels.

    They say which labels are asked for, learned, counted as known, and diverging. ``examples`` are
    forecasts, random numbers, whether each example is usable, and labels.
    """

    def ask(carry: tuple, example: tuple) -> tuple[tuple, tuple]:
        """Decide on one label: the query's state and the count of labels, then its masks."""
        (query, count), (forecast, noise, usable, y) = carry, example
        score = learner.query.score(query, forecast)
        asked = learner.query.ask(query, score, noise) & usable
        if most is not None:
            asked = asked & (count < most)
        learns, counted = learner._judged(y, usable, asked)
        diverging = learner._diverges(forecast.value, forecast.values, y, learns, state.round)
        query = learner._queried(query, forecast, learns, counted, jnp.where(learns, y, 0.0))
        return (query, count + asked.astype(jnp.int32)), (asked, learns, counted, diverging)

    start = state.query, jnp.zeros((), jnp.int32)
    (query, _), answers = jax.lax.scan(ask, start, examples)
    return query, answers


def _of_all(
    learner: Any,
    gaussian: jax.Array,
    phi: jax.Array,
    values: list[jax.Array],
    variances: list[jax.Array],
    y: jax.Array,
    learns: jax.Array,
    shrunk: jax.Array,
) -> jax.Array:
    """The Gaussian of all tasks (D, D + C) after the examples φ (K, D) of a round.

    Σ learns from them one after the other, and then each mean from all of them at once.
    """
    D = phi.shape[1]
    noise, inertia = (jnp.asarray(v, y.dtype) for v in (learner.noise, learner.inertia))

    def narrowed(root: jax.Array, example: tuple) -> tuple[jax.Array, None]:
        phi, when = example
        along = _times(phi, root)
        c = 1.0 / (noise + jnp.sum(along**2))
        towards = c / (1.0 + jnp.sqrt(noise * c)) * _times(root, along)
        return jnp.where(when, root - towards[:, None] * along[None, :], root), None

    root, _ = jax.lax.scan(narrowed, gaussian[:, :D], (phi, shrunk))
    means = []
    for mean, value, variance in zip(gaussian[:, D:].T, values, variances, strict=True):
        hinge, moved = learner.learns_from(value, variance, y, learns)
        W = _times(
            jnp.where(moved, y, 0.0)[:, None] * phi, root
        )  # rows y S'φ, for W'S in the text
        if learner.loss == "squared_hinge":
            inner = _times(W, W.T) + inertia * jnp.eye(len(y), dtype=y.dtype)
            total = _times(solve(inner, jnp.where(moved, hinge, 0.0), assume_a="pos"), W)
        else:
            total = jnp.sum(W, axis=0) * (0.5 / inertia)
        means.append(mean + _times(root, total))
    return jnp.concatenate([root, jnp.stack(means, axis=1)], axis=1)
