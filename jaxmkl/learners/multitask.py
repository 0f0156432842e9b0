"""Online classification of many tasks at once, on one sampled dictionary, asking when unsure.

All K tasks share one dictionary, in which an example x has the coordinates φ (D,); see
:mod:`jaxmkl.features.dictionary`. The weights of task k are those of all tasks and its own, each a
Gaussian: N(μ⁰, Σ⁰) and N(μᵏ, Σᵏ), at first N(0, I). A round on an example (x, y) of task k:

    sample        x may come into the dictionary, whatever its label
    predict       f = (μ⁰ + μᵏ)·φ;  f = 0 counts as a mistake
    ask           the query says whether, by f and its variance v = φ'(Σ⁰ + Σᵏ)φ
    with the label, where updated
                  Σ  <- Σ - Σφ φ'Σ/(λ + φ'Σφ)               for Σᵏ and Σ⁰             (2), (4)
                  μᵏ <- μᵏ + g y Σᵏφ                        with the new Σᵏ           (3)
                        hinge            g = min(1/(2ε), loss/φ'Σᵏφ)
                        squared hinge    g = loss/(ε + φ'Σᵏφ)
                  μ⁰ <- μ⁰ + g y Σ⁰φ                        with the new Σ⁰           (5)
                        hinge            g = 1/(2ε)
                        squared hinge    g = loss/(ε + φ'Σ⁰φ)

where loss is the hinge max(0, 1 - y f) before the update. With full information the paper updates
on mistakes; where labels are asked for, on mistakes and where Θ = |f| - v/(4ε) <= 0 and there is a
loss. The paper asks by Θ: :class:`jaxmkl.query.Uncertainty`.

**How much is shared.** Tasks may have much in common, or nothing. So by default ("mixed") there
are three predictions, all by the same Σ: f_1 = (μ⁰ + μᵏ)·φ as above; f_2 = νᵏ·φ, whose means learn
from their own task alone; and f_3 = ν⁰·φ, one model of all. Each learns by its own loss, as if the
others were not there, and together they say

    f = Σ p_i f_i,    v = Σ p_i (v_i + (f_i - f)²),    p_i ~ Π (1 + e^(-2 y f_i))^-η

where the product is over all labels so far, of all tasks; v_1 = φ'(Σ⁰ + Σᵏ)φ, v_2 = φ'Σᵏφ and
v_3 = φ'Σ⁰φ. Covariances shrink by the loss of f. This mixture is ours; it takes K + 1 vectors more
and no matrices.

A round may also bring one example of each task (:meth:`MultiTask.round`). Then all are offered to
the dictionary, all predictions come first, Σ⁰ takes all updated tasks in, and

    hinge            μ⁰ <- μ⁰ + 1/(2ε) Σ⁰ Σ_k yᵏφᵏ
    squared hinge    μ⁰ <- μ⁰ + Σ⁰W (εI + W'Σ⁰W)⁻¹ loss,     W = [yᵏφᵏ]

The step on μ⁰ with the hinge is as published, and is not clipped: ε must not be small. That of the
squared hinge is ours (the paper has none): the minimizer of |μ - μ⁰|² by the new Σ⁰ and 1/ε of the
squared hinges. Covariances are kept by their factors: see :mod:`jaxmkl.learners.gaussians`.

The paper's learner is ``multitask(loss="hinge", components="both")``, with full information or
with h. The defaults, the squared hinge with steps on every loss and the mixture, err less and rank
better than it on the streams of ``experiments/RESULTS.md`` (Many tasks).

References:
  Kernel sampling for online multi-task classification (supplement), equations (2) to (5), Theorem
  2; Confidence weighted multitask learning (AAAI 2019), Theorem 3, for the updates of active
  learning.
"""

import jax
import jax.numpy as jnp

from jaxmkl import _pytree as pytree
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
from jaxmkl.learners.task_blocks import TaskBlocks
from jaxmkl.learners.task_steps import HIGHEST, MultiTaskState
from jaxmkl.query import Forecast


@pytree.dataclass
class MultiTask(TaskBlocks):
    """Gaussian models of tasks, one of all and one of each, on one sampled dictionary.

    Args:
      dictionary: a :class:`jaxmkl.features.SampledDictionary`, where examples get coordinates.
      num_tasks, kernel, query, noise, inertia, rate, loss, components, update_on, covariance,
        growth: as for :func:`jaxmkl.multitask`; ``num_tasks`` and the last five are static.

    Raises:
      ValueError: for an argument outside its range.
    """

    def round(
        self,
        state: MultiTaskState,
        examples: tuple[jax.Array, ...],
        most: jax.Array | int | None = None,
    ) -> tuple[MultiTaskState, Output]:
        """One round on one example of each task, to be scanned over rounds.

        Examples are offered to the dictionary, and then labels asked for, in the order of the
        tasks. With one task present it is :meth:`step` on that example. A round costs as if all
        were present; one with none leaves the state as it is.

        Args:
          state: that before the round.
          examples: X (K, d) without the column of the task, y (K,) of classes, and present (K,):
            which tasks have an example. The rows of the others are ignored.
          most: how many labels may be asked for, those of the first tasks that want one; None for
            any number. A budget over all rounds is :meth:`jaxmkl.wrappers.LabelBudget.round`.

        Returns:
          The state, and an :class:`jaxmkl.Output` with leading axis K, NaN where none is present.

        Raises:
          ValueError: for shapes that do not fit.

        >>> learner, key = MultiTask(num_tasks=3), jax.random.key(0)
        >>> state, X = learner.init(key, num_inputs=1 + 2), jax.random.normal(key, (200, 3, 2))
        >>> y, present = jnp.sign(X[..., 0] * X[..., 1]), jax.random.bernoulli(key, 0.7, (200, 3))
        >>> state, outputs = jax.lax.scan(learner.round, state, (X, y, present))
        >>> outputs.prediction.shape, bool((outputs.queried == present).all())
        ((200, 3), True)
        """
        return self._played(state, *self._of_round(state, examples), most)

    def _of_round(
        self, state: MultiTaskState, examples: tuple[jax.Array, ...]
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """X (K, D) with the column of the task, y (K,) as -1 and +1, present (K,)."""
        dtype, K = self.dtype(state), self._tasks
        inputs = self.num_inputs(state) - self.leading_columns
        X, y, present = map(jnp.asarray, examples)
        shapes = {"X": (K, inputs), "y": (K,), "present": (K,)}
        for (name, shape), array in zip(shapes.items(), (X, y, present), strict=True):
            wanted = f"of shape {shape}"
            pytree.require(array.shape == shape, self, f"{name} of a round", array.shape, wanted)
        X = X.astype(dtype)
        if self.leading_columns:
            X = jnp.concatenate([jnp.arange(K, dtype=dtype)[:, None], X], axis=1)
        return X, self._read(y.astype(dtype)), present.astype(bool)

    def _played(
        self,
        state: MultiTaskState,
        X: jax.Array,
        y: jax.Array,
        present: jax.Array,
        most: jax.Array | int | None,
    ) -> tuple[MultiTaskState, Output]:
        """The state after a round, and what :meth:`round` says of it.

        Args:
          X, y, present: (K, D), (K,) of -1 and +1, and (K,).
          most: how many labels may be asked for, or None.
        """
        usable = self.usable(X) & present
        X = jnp.where(usable[:, None], X, 0.0)
        keys = jnp.broadcast_to(jax.random.fold_in(state.key, state.round), present.shape)
        dictionary, phi, added = self._offered(state, X, usable, keys)
        restarted = jnp.any(added)
        means = self._means(state, slice(None), restarted)
        roots = self._roots(state, slice(None), restarted)
        own = int(self._overall)
        of_all, of_own, along = jnp.zeros_like(y), jnp.zeros_like(y), jnp.zeros_like(phi)
        if self._overall:
            of_all = jnp.sum(times(phi, roots[0]) ** 2, axis=1)
        if self._local:
            along = jnp.einsum("kij,ki->kj", roots[own:], phi, precision=HIGHEST)
            of_own = jnp.sum(along**2, axis=1)
        parts = [self._of_tasks(phi, each) for each in means]  # by all, and by each
        by_all, by_own = parts[0]
        values, variances = (by_all + by_own)[:, None], (of_all + of_own)[:, None]
        if self._mixed:
            values = jnp.stack([by_all + by_own, *parts[1][::-1]], axis=1)
            variances = jnp.stack([of_all + of_own, of_own, of_all], axis=1)
        value, variance = self._mixture(state, values, variances)

        of_task = jax.vmap(lambda f, v: self._with_margin(Forecast.of_one(f, variance=v)))
        forecasts = of_task(value, variance)
        query, answers = self._asked(state, forecasts, self._noise(X, keys), usable, y, most)
        asked, learns, counted, diverging = answers
        loss = jnp.where(usable & jnp.isfinite(y), self.loss_value(value, y), jnp.nan)
        said, info = jnp.where(usable, value, jnp.nan), self.info(state)
        output = Output(said, loss, asked, info, variance)

        y = jnp.where(learns, y, 0.0)
        shrunk = self._shrunk(forecasts, y, learns, usable)
        wanted = self._wanted(values, variances, y[:, None], learns[:, None])
        means, roots = self._moved(means, roots, phi, along, y, wanted, shrunk)
        after = state.replace(
            round=count_on(state.round, jnp.any(present)),
            invalid=state.invalid + jnp.sum(present & ~counted, dtype=jnp.int32),
            nonfinite=state.nonfinite + jnp.sum(diverging, dtype=jnp.int32),
            query=query,
            dictionary=self.dictionary.settled(dictionary),
            means=means[0],
            alone=means[1] if self._mixed else state.alone,
            log_weights=self._weighed(state, values, y, learns),
            roots=roots,
            stale=jnp.zeros_like(state.stale),
        )
        return reported(self, state, after), output

    def _of_tasks(self, phi: jax.Array, means: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Values (K,) of examples by the mean of all tasks, and by those of each; 0 without."""
        overall = times(phi, means[0]) if self._overall else jnp.zeros(len(phi), phi.dtype)
        if not self._local:
            return overall, jnp.zeros_like(overall)
        return overall, jnp.sum(phi * means[int(self._overall) :], axis=1)

    def _offered(
        self, state: MultiTaskState, X: jax.Array, usable: jax.Array, keys: jax.Array
    ) -> tuple[DictionaryState, jax.Array, jax.Array]:
        """The dictionary after a round's examples, their φ (K, D) by it, and which were added."""
        settled = self.dictionary.settled(state.dictionary)
        first = state.replace(dictionary=settled, round=jnp.zeros_like(state.round))
        codes = self.encode_own(first, X, keys).dictionary

        def offered(
            dictionary: DictionaryState, example: tuple
        ) -> tuple[DictionaryState, jax.Array]:
            code, here = example
            _, offer = self.dictionary.predict(dictionary, code)
            # no label is known yet
            feedback = Feedback(jnp.zeros((), X.dtype), jnp.zeros_like(here), here, here)
            return self.dictionary.update(dictionary, code, offer, feedback), offer.added & here

        dictionary, added = jax.lax.scan(offered, settled, (codes, usable))
        phi = jax.vmap(self.dictionary.embed, in_axes=(None, 0))(dictionary, codes)
        return dictionary, phi, added

    def _asked(
        self,
        state: MultiTaskState,
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
            score = self.query.score(query, forecast)
            asked = self.query.ask(query, score, noise) & usable
            if most is not None:
                asked = asked & (count < most)
            learns, counted = self._judged(y, usable, asked)
            diverging = self._diverges(forecast.value, forecast.values, y, learns, state.round)
            query = self._queried(query, forecast, learns, counted, jnp.where(learns, y, 0.0))
            after = query, count + asked.astype(jnp.int32)
            return after, (asked, learns, counted, diverging)

        start = state.query, jnp.zeros((), jnp.int32)
        (query, _), answers = jax.lax.scan(ask, start, (forecasts, noise, usable, y))
        return query, answers

    def _moved(
        self,
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
        noise, inertia = (jnp.asarray(v, y.dtype) for v in (self.noise, self.inertia))
        pairs = [(0, 0), (2, 1)]  # which predictions' losses move the means of all, and of each
        new_roots: list[jax.Array] = []
        moves: list[list[jax.Array]] = [[] for _ in means]
        if self._overall:
            root = narrowed_by_all(roots[0], phi, shrunk, noise)
            new_roots.append(root[None])
            for of_means, (i, _) in zip(moves, pairs, strict=False):
                by = hinge[:, i], moved[:, i], self.loss, inertia
                of_means.append(moved_by_all(root, phi, y, *by)[None])
        if self._local:
            own, of_each = roots[int(self._overall) :], jax.vmap(narrowed, in_axes=(0, 0, None, 0))
            narrow, towards, after = of_each(own, along, noise, shrunk)
            new_roots.append(jnp.where(shrunk[:, None, None], narrow, own))
            for of_means, (_, i) in zip(moves, pairs, strict=False):
                step = step_of_one(self.loss, hinge[:, i], after, inertia) * y
                of_means.append(jnp.where(moved[:, i], step, 0.0)[:, None] * towards)
        new_means = [m + jnp.concatenate(by) for m, by in zip(means, moves, strict=True)]
        return new_means, jnp.concatenate(new_roots)
