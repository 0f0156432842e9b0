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

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._algorithm import Algorithm, State
from jaxmkl._checks import usable_rows
from jaxmkl._feedback import Feedback
from jaxmkl._learner import Output
from jaxmkl._types import AnyArray, Inputs, Number
from jaxmkl.features.dictionary import DictionaryCode, DictionaryState, Offer, SampledDictionary
from jaxmkl.kernels import Gaussian, Kernel
from jaxmkl.learners.gaussians import (
    MARGIN_LOSSES,
    narrowed,
    step_of_one,
    times,
)
from jaxmkl.learners.task_rounds import played
from jaxmkl.query import All, Forecast, Query

HIGHEST = jax.lax.Precision.HIGHEST


@pytree.dataclass
class MultiTaskState(State):
    """State of :class:`MultiTask`: G Gaussians, that of all tasks first, then those of each."""

    dictionary: DictionaryState
    means: jax.Array
    """μ (G, D)."""
    alone: jax.Array
    """ν (G, D), the means that learn as if the others were not there; without a mixture (0, D)."""
    log_weights: jax.Array
    """log p of the three predictions, the largest 0, (3,); without a mixture (1,)."""
    roots: jax.Array
    """S (G, D, D), of Σ = S S'."""
    stale: jax.Array
    """Which roots stand for the unit matrix, as a restart left them (G,)."""


class MultiTaskInfo(NamedTuple):
    """Diagnostics."""

    support: jax.Array
    """Points of the dictionary, int32."""
    refused: jax.Array
    """How many it had no room for, int32."""
    weights: jax.Array
    """p: of the sum, of each task alone and of all as one, (3,); without a mixture 1, (1,)."""


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
    values: jax.Array
    """Those of the V predictions, (V,)."""
    variances: jax.Array
    """Theirs, (V,)."""


@pytree.dataclass
class MultiTask(Algorithm):
    """Gaussian models of tasks, one of all and one of each, on one sampled dictionary.

    Args:
      dictionary: a :class:`jaxmkl.features.SampledDictionary`, where examples get coordinates.
      num_tasks, kernel, query, noise, inertia, rate, loss, components, update_on, covariance,
        growth: as for :func:`jaxmkl.multitask`; ``num_tasks`` and the last five are static.

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
    rate: Number = pytree.nonnegative(default=0.5)
    loss: str = pytree.choice(*MARGIN_LOSSES, default="squared_hinge")
    components: str = pytree.choice("mixed", "both", "local", "global", default="mixed")
    update_on: str = pytree.choice("mistake", "unsure", "margin", default="margin")
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
    _mixed = property(lambda self: self.components == "mixed")

    def _known(self, task: AnyArray) -> AnyArray:
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
            alone=jnp.zeros((self._mixed * G, D), dtype),
            log_weights=jnp.zeros((3 if self._mixed else 1,), dtype),
            roots=jnp.tile(jnp.eye(D, dtype=dtype)[None], (G, 1, 1)),
            stale=jnp.zeros((G,), bool),
        )

    def _means(
        self, state: MultiTaskState, which: jax.Array | slice, restarted: ArrayLike = False
    ) -> list[jax.Array]:
        """μ (E, D) of some Gaussians, and of a mixture ν, as restarts leave them."""
        found = [state.means[which], *([state.alone[which]] if self._mixed else [])]
        if self.growth == "restart":
            found = [jnp.where(restarted, 0.0, means) for means in found]
        return found

    def _roots(
        self, state: MultiTaskState, which: jax.Array | slice, restarted: ArrayLike = False
    ) -> jax.Array:
        """S (E, D, D) of some Gaussians, as restarts leave them."""
        roots = state.roots[which]
        if self.growth == "restart":
            fresh = (state.stale[which] | restarted)[:, None, None]
            roots = jnp.where(fresh, jnp.eye(self.dictionary.size, dtype=roots.dtype)[None], roots)
        return roots

    def _mixture(
        self, state: MultiTaskState, values: jax.Array, variances: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """f and v (...,) by the predictions' values and variances (..., V)."""
        if not self._mixed:
            return values[..., 0], variances[..., 0]
        p = jax.nn.softmax(state.log_weights)
        value = times(values, p)
        return value, times(variances + (values - value[..., None]) ** 2, p)

    def _weighed(
        self, state: MultiTaskState, values: jax.Array, y: jax.Array, learns: jax.Array
    ) -> jax.Array:
        """log p after examples of values (n, V) and labels (n,), where they are to be learned."""
        if not self._mixed:
            return state.log_weights
        costs = jnp.where(learns[:, None], jax.nn.softplus(-2.0 * y[:, None] * values), 0.0)
        rate = jnp.asarray(self.rate, costs.dtype)
        log_weights = state.log_weights - rate * jnp.sum(costs, axis=0)
        return log_weights - jax.lax.stop_gradient(jnp.max(log_weights))

    def covariances(self, state: MultiTaskState) -> jax.Array:
        """Σ (G, D, D): that of all tasks first, then those of each; where both are on."""
        roots = self._roots(state, slice(None))
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
        means = self._means(state, which, restarted)
        roots = self._roots(state, which, restarted)
        along = jnp.einsum("eij,i->ej", roots, phi, precision=HIGHEST)
        of_each = jnp.sum(along**2, axis=1)
        values = jnp.sum(jnp.sum(means[0], axis=0) * phi)[None]
        variances = jnp.sum(of_each)[None]
        if self._mixed:  # its own Gaussian comes before that of all
            values = jnp.concatenate([values, times(means[1], phi)[::-1]])
            variances = jnp.concatenate([variances, of_each[::-1]])
        value, variance = self._mixture(state, values, variances)
        forecast = Forecast.of_one(value, variance=variance)
        aux = forecast, offer, restarted, which, roots, along, values, variances
        return forecast, MultiTaskAux(*aux)

    def _wanted(
        self, value: jax.Array, variance: jax.Array, y: jax.Array, learns: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The hinge before the update, and whether a prediction learns from it."""
        hinge, moved = jnp.maximum(1.0 - y * value, 0.0), y * value <= 0
        if self.update_on == "unsure":
            inertia = jnp.asarray(self.inertia, value.dtype)
            moved = moved | ((jnp.abs(value) <= variance / (4.0 * inertia)) & (hinge > 0))
        return hinge, (hinge > 0 if self.update_on == "margin" else moved) & learns

    def _shrunk(
        self, forecast: Forecast, y: jax.Array, learns: jax.Array, seen: jax.Array
    ) -> jax.Array:
        """Whether the covariances shrink."""
        variance = jnp.asarray(forecast.variance)
        moved = self._wanted(forecast.value, variance, y, learns)[1]
        return {"updated": moved, "queried": learns, "always": seen}[self.covariance]

    def update_own(
        self, state: MultiTaskState, code: MultiTaskCode, aux: MultiTaskAux, feedback: Feedback
    ) -> MultiTaskState:
        """The dictionary takes part in every round; the Gaussians learn if there is a label."""
        y, learns, seen, _ = feedback[:4]
        shrunk = self._shrunk(aux.forecast, y, learns, seen)
        hinge, moved = self._wanted(aux.values, aux.variances, y, learns)
        noise, inertia = (jnp.asarray(v, hinge.dtype) for v in (self.noise, self.inertia))
        of_each = jax.vmap(narrowed, in_axes=(0, 0, None, None))
        roots, towards, variance = of_each(aux.roots, aux.along, noise, shrunk)

        def moves(hinge: jax.Array) -> jax.Array:
            """Of the E means of a prediction, or of two that learn alone."""
            steps = step_of_one(self.loss, hinge, variance, inertia)
            if self._overall and self.loss == "hinge":
                steps = steps.at[0].set(0.5 / inertia)
            return (steps * y)[:, None] * towards

        G, means, alone, stale = len(state.means), state.means, state.alone, state.stale
        narrowing = jnp.where(shrunk, aux.which, G)
        if self.growth == "restart":
            restarted = aux.restarted & seen
            means, alone = (jnp.where(restarted, 0.0, each) for each in (means, alone))
            stale = (stale | restarted).at[narrowing].set(False, mode="drop")
        moving = jnp.where(moved[0], aux.which, G)
        means = means.at[moving].add(moves(hinge[0]), mode="drop")
        if self._mixed:
            moving = jnp.where(moved[:0:-1], aux.which, G)
            alone = alone.at[moving].add(moves(hinge[:0:-1]), mode="drop")
        return state.replace(
            dictionary=self.dictionary.update(
                state.dictionary, code.dictionary, aux.offer, feedback
            ),
            means=means,
            alone=alone,
            log_weights=self._weighed(state, aux.values[None], y[None], learns[None]),
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
        return played(self, state, *self._of_round(state, examples), most)

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

    def loss_value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        hinge = jnp.maximum(1.0 - y * prediction, 0.0)
        return hinge**2 if self.loss == "squared_hinge" else hinge

    def info(self, state: MultiTaskState) -> MultiTaskInfo:
        counts = state.dictionary.number, state.dictionary.refused
        return MultiTaskInfo(*counts, jax.nn.softmax(state.log_weights))
