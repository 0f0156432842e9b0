"""A round of many tasks: one example of each, in an order, on what is known before it.

As :meth:`jaxmkl.learners.MultiTask.step` on one after the other, but that all are predicted, and
learned, by the Gaussians before the round; a Gaussian of all tasks learns from all labels at once.
"""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from jaxmkl._blocks import count_on
from jaxmkl._feedback import Feedback
from jaxmkl._learner import Output
from jaxmkl._ranges import reported
from jaxmkl._types import PyTree
from jaxmkl.features.dictionary import DictionaryState
from jaxmkl.learners.gaussians import (
    moved_by_all,
    narrowed,
    narrowed_by_all,
    step_of_one,
    times,
)
from jaxmkl.query import Forecast

if TYPE_CHECKING:
    from jaxmkl.learners.multitask import MultiTask, MultiTaskState


def played(
    learner: "MultiTask",
    state: "MultiTaskState",
    X: jax.Array,
    y: jax.Array,
    present: jax.Array,
    most: jax.Array | int | None,
) -> tuple["MultiTaskState", Output]:
    """The state after a round, and what :meth:`jaxmkl.learners.MultiTask.round` says of it.

    Args:
      X, y, present: (K, D), (K,) of -1 and +1, and (K,).
      most: how many labels may be asked for, or None.
    """
    usable = learner.usable(X) & present
    X = jnp.where(usable[:, None], X, 0.0)
    keys = jnp.broadcast_to(jax.random.fold_in(state.key, state.round), present.shape)
    dictionary, phi, added = _offered(learner, state, X, usable, keys)
    restarted = jnp.any(added)
    means = learner._means(state, slice(None), restarted)
    roots = learner._roots(state, slice(None), restarted)
    own = int(learner._overall)
    of_all, of_own, along = jnp.zeros_like(y), jnp.zeros_like(y), jnp.zeros_like(phi)
    if learner._overall:
        of_all = jnp.sum(times(phi, roots[0]) ** 2, axis=1)
    if learner._local:
        along = jnp.einsum("kij,ki->kj", roots[own:], phi, precision=jax.lax.Precision.HIGHEST)
        of_own = jnp.sum(along**2, axis=1)
    parts = [_of_tasks(learner, phi, each) for each in means]  # by all, and by each
    by_all, by_own = parts[0]
    values, variances = (by_all + by_own)[:, None], (of_all + of_own)[:, None]
    if learner._mixed:
        values = jnp.stack([by_all + by_own, *parts[1][::-1]], axis=1)
        variances = jnp.stack([of_all + of_own, of_own, of_all], axis=1)
    value, variance = learner._mixture(state, values, variances)

    of_task = jax.vmap(lambda f, v: learner._with_margin(Forecast.of_one(f, variance=v)))
    forecasts = of_task(value, variance)
    query, answers = _asked(learner, state, forecasts, learner._noise(X, keys), usable, y, most)
    asked, learns, counted, diverging = answers
    loss = jnp.where(usable & jnp.isfinite(y), learner.loss_value(value, y), jnp.nan)
    said, info = jnp.where(usable, value, jnp.nan), learner.info(state)
    output = Output(said, loss, asked, info, variance)

    y = jnp.where(learns, y, 0.0)
    shrunk = learner._shrunk(forecasts, y, learns, usable)
    wanted = learner._wanted(values, variances, y[:, None], learns[:, None])
    means, roots = _moved(learner, means, roots, phi, along, y, wanted, shrunk)
    after = state.replace(
        round=count_on(state.round, jnp.any(present)),
        invalid=state.invalid + jnp.sum(present & ~counted, dtype=jnp.int32),
        nonfinite=state.nonfinite + jnp.sum(diverging, dtype=jnp.int32),
        query=query,
        dictionary=learner.dictionary.settled(dictionary),
        means=means[0],
        alone=means[1] if learner._mixed else state.alone,
        log_weights=learner._weighed(state, values, y, learns),
        roots=roots,
        stale=jnp.zeros_like(state.stale),
    )
    return reported(learner, state, after), output


def _of_tasks(
    learner: "MultiTask", phi: jax.Array, means: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Values (K,) of examples by the mean of all tasks, and by those of each; 0 without."""
    overall = times(phi, means[0]) if learner._overall else jnp.zeros(len(phi), phi.dtype)
    if not learner._local:
        return overall, jnp.zeros_like(overall)
    return overall, jnp.sum(phi * means[int(learner._overall) :], axis=1)


def _offered(
    learner: "MultiTask", state: "MultiTaskState", X: jax.Array, usable: jax.Array, keys: jax.Array
) -> tuple[DictionaryState, jax.Array, jax.Array]:
    """The dictionary after a round's examples, their φ (K, D) by it, and which were added."""
    settled = learner.dictionary.settled(state.dictionary)
    first = state.replace(dictionary=settled, round=jnp.zeros_like(state.round))
    codes = learner.encode_own(first, X, keys).dictionary

    def offered(dictionary: DictionaryState, example: tuple) -> tuple[DictionaryState, jax.Array]:
        code, here = example
        _, offer = learner.dictionary.predict(dictionary, code)
        # no label is known yet
        feedback = Feedback(jnp.zeros((), X.dtype), jnp.zeros_like(here), here, here)
        return learner.dictionary.update(dictionary, code, offer, feedback), offer.added & here

    dictionary, added = jax.lax.scan(offered, settled, (codes, usable))
    phi = jax.vmap(learner.dictionary.embed, in_axes=(None, 0))(dictionary, codes)
    return dictionary, phi, added


def _asked(
    learner: "MultiTask",
    state: "MultiTaskState",
    forecasts: Forecast,
    noise: PyTree,
    usable: jax.Array,
    y: jax.Array,
    most: jax.Array | int | None,
) -> tuple[PyTree, tuple[jax.Array, ...]]:
    """The query's state after a round, and of the labels (K,) which were asked for.

    Beside these which are learned, which count as known, and which diverge.
    """

    def ask(carry: tuple, example: tuple) -> tuple[tuple, tuple]:
        """Whether to ask for one label, and the query's state and the count of labels then."""
        (query, count), (forecast, noise, usable, y) = carry, example
        score = learner.query.score(query, forecast)
        asked = learner.query.ask(query, score, noise) & usable
        if most is not None:
            asked = asked & (count < most)
        learns, counted, diverging = learner._judged(forecast, y, usable, asked)
        query = learner._queried(query, forecast, learns, counted, jnp.where(learns, y, 0.0))
        after = query, count + asked.astype(jnp.int32)
        return after, (asked, learns, counted, diverging)

    start = state.query, jnp.zeros((), jnp.int32)
    (query, _), answers = jax.lax.scan(ask, start, (forecasts, noise, usable, y))
    return query, answers


def _moved(
    learner: "MultiTask",
    means: list[jax.Array],
    roots: jax.Array,
    phi: jax.Array,
    along: jax.Array,
    y: jax.Array,
    wanted: tuple[jax.Array, jax.Array],
    shrunk: jax.Array,
) -> tuple[list[jax.Array], jax.Array]:
    """The means and roots after a round's labels, of all tasks and of each."""
    hinge, moved = wanted
    noise, inertia = (jnp.asarray(v, y.dtype) for v in (learner.noise, learner.inertia))
    pairs = [(0, 0), (2, 1)]  # which predictions' losses move the means of all, and of each
    new_roots: list[jax.Array] = []
    moves: list[list[jax.Array]] = [[] for _ in means]
    if learner._overall:
        root = narrowed_by_all(roots[0], phi, shrunk, noise)
        new_roots.append(root[None])
        for of_means, (i, _) in zip(moves, pairs, strict=False):
            by = hinge[:, i], moved[:, i], learner.loss, inertia
            of_means.append(moved_by_all(root, phi, y, *by)[None])
    if learner._local:
        own, of_each = roots[int(learner._overall) :], jax.vmap(narrowed, in_axes=(0, 0, None, 0))
        narrow, towards, after = of_each(own, along, noise, shrunk)
        new_roots.append(jnp.where(shrunk[:, None, None], narrow, own))
        for of_means, (_, i) in zip(moves, pairs, strict=False):
            step = step_of_one(learner.loss, hinge[:, i], after, inertia) * y
            of_means.append(jnp.where(moved[:, i], step, 0.0)[:, None] * towards)
    new_means = [m + jnp.concatenate(by) for m, by in zip(means, moves, strict=True)]
    return new_means, jnp.concatenate(new_roots)
