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

A round may also bring one example of each task (:meth:`MultiTask.round`). Then all are offered to
the dictionary, all predictions come first, Σ⁰ takes all updated tasks in, and

    hinge            μ⁰ <- μ⁰ + 1/(2ε) Σ⁰ Σ_k yᵏφᵏ
    squared hinge    μ⁰ <- μ⁰ + Σ⁰W (εI + W'Σ⁰W)⁻¹ loss,     W = [yᵏφᵏ]

The step on μ⁰ with the hinge is as published, and is not clipped: ε must not be small. That of the
squared hinge is ours (the paper has none): the minimizer of |μ - μ⁰|² by the new Σ⁰ and 1/ε of the
squared hinges. Covariances are kept by their factors: see :mod:`jaxmkl.learners.gaussians`.

References:
  Kernel sampling for online multi-task classification (supplement), equations (2) to (5), Theorem
  2; Confidence weighted multitask learning (AAAI 2019), Theorem 3, for the updates of active
  learning.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._algorithm import Algorithm, State
from jaxmkl._blocks import count_on
from jaxmkl._checks import usable_rows
from jaxmkl._feedback import Feedback
from jaxmkl._learner import Output
from jaxmkl._ranges import reported
from jaxmkl._types import Inputs, Number
from jaxmkl.features.dictionary import DictionaryCode, DictionaryState, Offer, SampledDictionary
from jaxmkl.kernels import Gaussian, Kernel
from jaxmkl.learners.gaussians import (
    MARGIN_LOSSES,
    narrowed,
    narrowed_and_moved,
    step_of_one,
    times,
)
from jaxmkl.query import All, Forecast, Query

HIGHEST = jax.lax.Precision.HIGHEST


@pytree.dataclass
class MultiTaskState(State):
    """State of :class:`MultiTask`: G Gaussians, that of all tasks first, then those of each."""

    dictionary: DictionaryState
    means: jax.Array
    """μ (G, D)."""
    roots: jax.Array
    """S (G, D, D), of Σ = S S'."""
    stale: jax.Array
    """Which roots stand for the unit matrix, as a restart left them (G,)."""


class MultiTaskInfo(NamedTuple):
    """Diagnostics, int32."""

    support: jax.Array
    """Points of the dictionary."""
    refused: jax.Array
    """How many it had no room for."""


class MultiTaskCode(NamedTuple):
    """One example."""

    dictionary: DictionaryCode
    task: jax.Array


class MultiTaskAux(NamedTuple):
    """A prediction's results that the update uses again; E Gaussians have a say on an example."""

    forecast: Forecast

    offer: Offer
    """The change that the example makes to the dictionary."""
    restarted: jax.Array
    """Whether all Gaussians are reset for that."""
    which: jax.Array
    """Which of the G they are (E,)."""
    roots: jax.Array
    """S (E, D, D)."""
    along: jax.Array
    """S'φ (E, D)."""


@pytree.dataclass
class MultiTask(Algorithm):
    """Gaussian models of tasks, one of all and one of each, on one sampled dictionary.

    Args:
      dictionary: a :class:`jaxmkl.features.SampledDictionary`, where examples get coordinates.
      num_tasks, kernel, query, noise, inertia, loss, components, update_on, covariance, growth: as
        for :func:`jaxmkl.multitask`; ``num_tasks`` and the last five are static.

    Raises:
      ValueError: for an argument outside its range.
    """

    num_tasks: int | None = pytree.count(optional=True)
    kernel: Kernel = pytree.part(Kernel, "one kernel", default=Gaussian(1.0))
    dictionary: SampledDictionary = pytree.part(
        SampledDictionary, "a sampled dictionary of jaxmkl.features", default=SampledDictionary()
    )
    query: Query = pytree.part(Query, "a query, as jaxmkl.query.Uncertainty(0.1)", default=All())
    noise: Number = pytree.positive(default=1.0)
    inertia: Number = pytree.positive(default=1.0)
    loss: str = pytree.choice(*MARGIN_LOSSES, default="hinge")
    components: str = pytree.choice("both", "local", "global", default="both")
    update_on: str = pytree.choice("mistake", "unsure", "margin", default="mistake")
    covariance: str = pytree.choice("updated", "queried", "always", default="updated")
    growth: str = pytree.choice("extend", "restart", default="extend")

    task = "classification"
    has_variance = True  # type: ignore[assignment]
    preferred_block_size = 64
    """Kernel values within a block are more than those with the dictionary beyond this."""

    def __post_init__(self) -> None:
        pytree.require(self.kernel.num_kernels == 1, self, "kernel", self.kernel, "one kernel")

    @property
    def leading_columns(self) -> int:  # type: ignore[override]
        """Column 0 is the task, if there are tasks."""
        return 0 if self.num_tasks is None else 1

    _tasks = property(lambda self: self.num_tasks or 1)
    _local = property(lambda self: self.components != "global")
    _overall = property(lambda self: self.components != "local")

    def _known(self, task: jax.Array) -> jax.Array:
        """Which numbers are a task's."""
        return (task == task.round()) & (task >= 0) & (task < self._tasks)

    def check_inputs(self, X: Inputs) -> None:
        if not self.leading_columns:
            return
        if hasattr(X, "indices"):  # sparse rows
            task = np.where(np.asarray(X.indices) == 0, np.asarray(X.values), 0).sum(axis=1)
        else:
            task = np.asarray(X[:, 0])
        others = np.unique(task[~self._known(task)])
        wanted = f"a task in every row, a whole number from 0 to {self._tasks - 1} (as "
        wanted += "jaxmkl.tables.with_tasks puts it there)"
        pytree.require(not len(others), self, "column 0 of X", others[:5].tolist(), wanted)

    def usable(self, X: jax.Array) -> jax.Array:
        """Which rows (B,) are finite, have a task, and a finite k(x, x)."""
        good = usable_rows(X)
        if self.leading_columns:
            good, X = good & self._known(X[:, 0]), X[:, 1:]
        return good & jnp.isfinite(self.kernel.diagonal_codes(X)[0])

    def init_own(
        self, frame: dict, key: jax.Array, num_inputs: int, dtype: DTypeLike
    ) -> MultiTaskState:
        inputs = num_inputs - self.leading_columns
        text = f"at least {1 + self.leading_columns}, the column of the task and an input"
        pytree.require(inputs >= 1, self, "num_inputs", num_inputs, text)
        G, D = self._overall + self._local * self._tasks, self.dictionary.size
        return MultiTaskState(
            **frame,
            dictionary=self.dictionary.init(key, self.kernel, inputs, dtype),
            means=jnp.zeros((G, D), dtype),
            roots=jnp.tile(jnp.eye(D, dtype=dtype)[None], (G, 1, 1)),
            stale=jnp.zeros((G,), bool),
        )

    def _gaussians(
        self, state: MultiTaskState, which: jax.Array | slice, restarted: ArrayLike = False
    ) -> tuple:
        """Means (E, D) and roots (E, D, D) of some Gaussians, as restarts leave them."""
        means, roots = state.means[which], state.roots[which]
        if self.growth == "restart":
            fresh = (state.stale[which] | restarted)[:, None, None]
            roots = jnp.where(fresh, jnp.eye(self.dictionary.size, dtype=roots.dtype)[None], roots)
            means = jnp.where(restarted, 0.0, means)
        return means, roots

    def covariances(self, state: MultiTaskState) -> jax.Array:
        """Σ (G, D, D): that of all tasks first, then those of each; where both are on."""
        roots = self._gaussians(state, slice(None))[1]
        return jnp.einsum("gij,gkj->gik", roots, roots, precision=HIGHEST)

    def encode_own(self, state: MultiTaskState, X: jax.Array, keys: jax.Array) -> MultiTaskCode:
        """Kernel values of a block ``X`` (B, D), and random numbers of examples by their tasks."""
        tasks = jnp.zeros(len(X), jnp.int32)
        if self.leading_columns:
            tasks, X = X[:, 0].astype(jnp.int32), X[:, 1:]
        keys = jax.vmap(jax.random.fold_in)(keys, tasks)
        code = self.dictionary.encode(state.dictionary, self.kernel, X, state.round, keys)
        return MultiTaskCode(code, tasks)

    def predict_own(
        self, state: MultiTaskState, code: MultiTaskCode
    ) -> tuple[Forecast, MultiTaskAux]:
        """The value by the Gaussian of all tasks and that of the example's, and its variance."""
        (phi,), offer = self.dictionary.predict(state.dictionary, code.dictionary)
        own = self._overall + code.task
        which = jnp.stack([jnp.zeros_like(own)] * self._overall + [own] * self._local)
        restarted = offer.added & (self.growth == "restart")
        means, roots = self._gaussians(state, which, restarted)
        along = jnp.einsum("eij,i->ej", roots, phi, precision=HIGHEST)
        value = jnp.sum(jnp.sum(means, axis=0) * phi)
        forecast = Forecast.of_one(value, variance=jnp.sum(along**2))
        return forecast, MultiTaskAux(forecast, offer, restarted, which, roots, along)

    def _wanted(
        self, forecast: Forecast, y: jax.Array, learns: jax.Array, seen: jax.Array
    ) -> tuple:
        """The hinge before the update; whether the covariance shrinks; whether the mean moves."""
        value = forecast.value
        hinge, moved = jnp.maximum(1.0 - y * value, 0.0), y * value <= 0
        if self.update_on == "unsure":
            inertia = jnp.asarray(self.inertia, value.dtype)
            unsure = jnp.abs(value) <= forecast.variance / (4.0 * inertia)  # type: ignore[operator]
            moved = moved | (unsure & (hinge > 0))
        moved = (hinge > 0 if self.update_on == "margin" else moved) & learns
        shrunk = {"updated": moved, "queried": learns, "always": seen}[self.covariance]
        return hinge, shrunk, moved

    def update_own(
        self, state: MultiTaskState, code: MultiTaskCode, aux: MultiTaskAux, feedback: Feedback
    ) -> MultiTaskState:
        """The dictionary takes part in every round; the Gaussians learn if there is a label."""
        y, learns, seen, _ = feedback[:4]
        hinge, shrunk, moved = self._wanted(aux.forecast, y, learns, seen)
        noise, inertia = (jnp.asarray(v, hinge.dtype) for v in (self.noise, self.inertia))
        of_each = jax.vmap(narrowed, in_axes=(0, 0, None, None))
        roots, towards, variance = of_each(aux.roots, aux.along, noise, shrunk)
        steps = [step_of_one(self.loss, hinge, v, inertia) for v in variance]
        if self._overall and self.loss == "hinge":
            steps[0] = 0.5 / inertia
        moves = (jnp.stack(steps) * y)[:, None] * towards

        G, means, stale = len(state.means), state.means, state.stale
        narrowing = jnp.where(shrunk, aux.which, G)
        if self.growth == "restart":
            restarted = aux.restarted & seen
            means = jnp.where(restarted, 0.0, means)
            stale = (stale | restarted).at[narrowing].set(False, mode="drop")
        return state.replace(
            dictionary=self.dictionary.update(
                state.dictionary, code.dictionary, aux.offer, feedback
            ),
            means=means.at[jnp.where(moved, aux.which, G)].add(moves, mode="drop"),
            roots=state.roots.at[narrowing].set(roots, mode="drop"),
            stale=stale,
        )

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
        X, y, present = self._of_round(state, examples)
        usable = self.usable(X) & present
        X = jnp.where(usable[:, None], X, 0.0)
        keys = jnp.broadcast_to(jax.random.fold_in(state.key, state.round), present.shape)
        settled = self.dictionary.settled(state.dictionary)
        first = state.replace(dictionary=settled, round=jnp.zeros_like(state.round))
        codes = self.encode_own(first, X, keys)

        def offered(
            dictionary: DictionaryState, example: tuple
        ) -> tuple[DictionaryState, jax.Array]:
            (code, _), here = example
            _, offer = self.dictionary.predict(dictionary, code)
            # no label is known yet
            feedback = Feedback(jnp.zeros_like(y[0]), jnp.zeros_like(here), here, here)
            return self.dictionary.update(dictionary, code, offer, feedback), offer.added & here

        dictionary, added = jax.lax.scan(offered, settled, (codes, usable))
        phi = jax.vmap(self.dictionary.embed, in_axes=(None, 0))(dictionary, codes.dictionary)
        means, roots = self._gaussians(state, slice(None), jnp.any(added))
        own = int(self._overall)
        value, variance = jnp.zeros_like(y), jnp.zeros_like(y)
        if self._overall:
            value += times(phi, means[0])
            variance += jnp.sum(times(phi, roots[0]) ** 2, axis=1)
        if self._local:
            value += jnp.sum(phi * means[own:], axis=1)
            along = jnp.einsum("kij,ki->kj", roots[own:], phi, precision=HIGHEST)
            variance += jnp.sum(along**2, axis=1)

        def ask(carry: tuple, example: tuple) -> tuple[tuple, tuple]:
            """Whether to ask for one label, and the query's state and the count of labels then."""
            (query, count), (forecast, noise, usable, y) = carry, example
            score = self.query.score(query, forecast)
            asked = self.query.ask(query, score, noise) & usable
            if most is not None:
                asked = asked & (count < most)
            learns, counted, diverging = self._judged(forecast, y, usable, asked)
            query = self._queried(query, forecast, learns, counted, jnp.where(learns, y, 0.0))
            after = query, count + asked.astype(jnp.int32)
            return after, (asked, learns, counted, diverging)

        start = state.query, jnp.zeros((), jnp.int32)
        of_task = jax.vmap(lambda f, v: self._with_margin(Forecast.of_one(f, variance=v)))
        forecasts = of_task(value, variance)
        of_tasks = forecasts, self._noise(X, keys), usable, y
        (query, _), (asked, learns, counted, diverging) = jax.lax.scan(ask, start, of_tasks)
        loss = jnp.where(usable & jnp.isfinite(y), self.loss_value(value, y), jnp.nan)
        said, info = jnp.where(usable, value, jnp.nan), self.info(state)
        output = Output(said, loss, asked, info, variance)

        y = jnp.where(learns, y, 0.0)
        hinge, shrunk, moved = self._wanted(forecasts, y, learns, usable)
        noise, inertia = (jnp.asarray(v, y.dtype) for v in (self.noise, self.inertia))
        new_means, new_roots = [], []
        if self._overall:
            of_all = roots[0], phi, y, hinge, shrunk, moved, self.loss, noise, inertia
            root, move = narrowed_and_moved(*of_all)
            new_means.append((means[0] + move)[None])
            new_roots.append(root[None])
        if self._local:
            of_each = jax.vmap(narrowed, in_axes=(0, 0, None, 0))
            narrow, towards, after = of_each(roots[own:], along, noise, shrunk)
            step = jnp.where(moved, step_of_one(self.loss, hinge, after, inertia) * y, 0.0)
            new_means.append(means[own:] + step[:, None] * towards)
            new_roots.append(jnp.where(shrunk[:, None, None], narrow, roots[own:]))
        after = state.replace(
            round=count_on(state.round, jnp.any(present)),
            invalid=state.invalid + jnp.sum(present & ~counted, dtype=jnp.int32),
            nonfinite=state.nonfinite + jnp.sum(diverging, dtype=jnp.int32),
            query=query,
            dictionary=self.dictionary.settled(dictionary),
            means=jnp.concatenate(new_means),
            roots=jnp.concatenate(new_roots),
            stale=jnp.zeros_like(state.stale),
        )
        return reported(self, state, after), output

    def _of_round(self, state: MultiTaskState, examples: tuple[jax.Array, ...]) -> tuple:
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

    def loss_value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        hinge = jnp.maximum(1.0 - y * prediction, 0.0)
        return hinge**2 if self.loss == "squared_hinge" else hinge

    def info(self, state: MultiTaskState) -> MultiTaskInfo:
        return MultiTaskInfo(state.dictionary.number, state.dictionary.refused)
