"""Rounds on one example of each task at once: :meth:`jaxmkl.learners.MultiTask.round`."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxmkl._blocks import count_on, einsum
from jaxmkl._feedback import Feedback
from jaxmkl._learner import Output
from jaxmkl._ranges import reported
from jaxmkl._types import PyTree
from jaxmkl.features.dictionary import DictionaryState
from jaxmkl.learners.gaussians import moved_by_all, narrowed, narrowed_by_all, step_of_one, times
from jaxmkl.query import Forecast


def played(
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
      most: how many labels may be asked for, or None.
    """
    usable = learner.usable(X) & present
    X = jnp.where(usable[:, None], X, 0.0)
    keys = jnp.broadcast_to(jax.random.fold_in(state.key, state.round), present.shape)
    dictionary, phi, added = _offered(learner, state, X, usable, keys)
    gaussians = learner.with_restarts(state.gaussians, state.stale, jnp.any(added))
    of_all, of_each = _of_tasks(learner, phi, gaussians)
    # by columns: S'φ, μ·φ, ν·φ
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
    shrunk = learner.shrinks(forecasts, y, learns, usable)
    wanted = [learner.learns_from(f, v, y, learns) for f, v in zip(values, variances, strict=True)]
    after = state.replace(
        round=count_on(state.round, jnp.any(present)),
        invalid=state.invalid + jnp.sum(present & ~counted, dtype=jnp.int32),
        nonfinite=state.nonfinite + jnp.sum(diverging, dtype=jnp.int32),
        query=query,
        dictionary=dictionary,
        gaussians=_moved(learner, gaussians, phi, of_each[:, :D], y, wanted, shrunk),
        log_weights=learner.weighed(state, values, y, learns),
        stale=jnp.zeros_like(state.stale),
    )
    return reported(learner, state, after), output


def _of_tasks(learner: Any, phi: jax.Array, gaussians: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Products (K, D + C) of examples with the Gaussian of all, and with each's; 0 without."""
    none = jnp.zeros((len(phi), gaussians.shape[2]), phi.dtype)
    of_all = times(phi, gaussians[0]) if learner.has_overall else none
    if not learner.has_local:
        return of_all, none
    return of_all, einsum("ki,kij->kj", phi, gaussians[int(learner.has_overall) :])


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
    """The query's state after a round, and of the labels (K,) which were asked for.

    Beside these which are learned, which count as known, and which diverge. Of the examples their
    forecasts are given, random numbers, which are usable, and labels.
    """

    def ask(carry: tuple, example: tuple) -> tuple[tuple, tuple]:
        """Whether to ask for one label, and the query's state and the count of labels then."""
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


def _moved(
    learner: Any,
    gaussians: jax.Array,
    phi: jax.Array,
    along: jax.Array,
    y: jax.Array,
    wanted: list[tuple[jax.Array, jax.Array]],
    shrunk: jax.Array,
) -> jax.Array:
    """The Gaussians (G, D, D + C) after a round's labels, that of all tasks and those of each.

    Args:
      along: S'φ of each task's own (K, D).
      wanted: hinges, and whether there is to be a step, (K,) each, of the sum, and of a mixture
        also of each alone and of all as one.
      shrunk: whether covariances shrink (K,).
    """
    D, own = phi.shape[1], int(learner.has_overall)
    noise, inertia = (jnp.asarray(v, y.dtype) for v in (learner.noise, learner.inertia))
    roots, means = gaussians[..., :D], gaussians[..., D:]
    new_roots, moves = [], []
    if learner.has_overall:
        root = narrowed_by_all(roots[0], phi, shrunk, noise)
        each = [moved_by_all(root, phi, y, *by, learner.loss, inertia) for by in wanted[::2]]
        new_roots.append(root[None])
        moves.append(jnp.stack(each, axis=1)[None])
    if learner.has_local:
        of_each = jax.vmap(narrowed, in_axes=(0, 0, None, 0))
        narrow, towards, spread = of_each(roots[own:], along, noise, shrunk)
        new_roots.append(jnp.where(shrunk[:, None, None], narrow, roots[own:]))
        each = []
        for hinge, moved in wanted[:2]:
            step = step_of_one(learner.loss, hinge, spread, inertia) * y
            each.append(jnp.where(moved, step, 0.0)[:, None] * towards)
        moves.append(jnp.stack(each, axis=2))
    return jnp.concatenate([jnp.concatenate(new_roots), means + jnp.concatenate(moves)], axis=2)
