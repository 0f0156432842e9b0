"""Online classification of many tasks at once, on one sampled dictionary, asking when unsure.

All K tasks share one dictionary, in which an example x has the coordinates φ (D,); see
:mod:`jaxmkl.features.dictionary`. The weights of task k are those of all tasks and its own, each a
Gaussian: N(μ⁰, Σ⁰) and N(μᵏ, Σᵏ), at first N(0, I). A round on an example (x, y) of task k:

    sample        x may enter the dictionary, whatever its label
    predict       f = (μ⁰ + μᵏ)·φ;  f = 0 counts as a mistake
    ask           the query decides, by f and its variance v = φ'(Σ⁰ + Σᵏ)φ
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
others were not there, and the mixture predicts

    f = Σ p_i f_i,    v = Σ p_i (v_i + (f_i - f)²),    p_i ~ Π (1 + e^(-2 y f_i))^-η

where the product is over all labels so far, of all tasks; v_1 = φ'(Σ⁰ + Σᵏ)φ, v_2 = φ'Σᵏφ and
v_3 = φ'Σ⁰φ. Covariances shrink by the loss of f. This mixture is ours; it takes K + 1 vectors more
and no matrices.

A round may also bring one example of each task (:meth:`MultiTask.round`). Then all are offered to
the dictionary, all predictions come first, Σ⁰ learns from all updated tasks, and

    hinge            μ⁰ <- μ⁰ + 1/(2ε) Σ⁰ Σ_k yᵏφᵏ
    squared hinge    μ⁰ <- μ⁰ + Σ⁰W (εI + W'Σ⁰W)⁻¹ loss,     W = [yᵏφᵏ]

The step on μ⁰ with the hinge is as published, and is not clipped: ε must not be small. That of the
squared hinge is ours (the paper has none): the minimizer of |μ - μ⁰|² by the new Σ⁰ and 1/ε of the
squared hinges.

**Precision.** Only factors S with Σ = S S' are kept, so that Σ is symmetric and positive whatever
the rounding; updates of Σ itself lose that in single precision. As Potter (1963) did, in Bierman
(1977), Factorization methods for discrete sequential estimation,

    S <- S - c/(1 + sqrt(λ c)) S f f',     f = S'φ,  c = 1/(λ + |f|²)

The paper's learner is ``multitask(loss="hinge", components="both")``, with full information or
with h; :func:`jaxmkl.recipes.published` makes that of its theorems, whose means move on every loss
and whose covariances shrink in every round. The defaults, the squared hinge with steps on every
loss and the mixture, err less and rank better on the streams of ``experiments/RESULTS.md`` (Many
tasks).

References:
  Kernel sampling for online multi-task classification (supplement), equations (2) to (5), Theorem
  2; Confidence weighted multitask learning (AAAI 2019), Theorem 3, for the updates of active
  learning.
"""

from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._algorithm import Algorithm, State
from jaxmkl._blocks import einsum, sum_of
from jaxmkl._checks import usable_rows
from jaxmkl._feedback import Feedback
from jaxmkl._learner import Output
from jaxmkl._types import AnyArray, Inputs, Number
from jaxmkl.features.dictionary import DictionaryCode, DictionaryState, Offer, SampledDictionary
from jaxmkl.kernels import Gaussian, Kernel
from jaxmkl.learners import task_rounds
from jaxmkl.learners.task_rounds import Met
from jaxmkl.query import All, Forecast, Query


@pytree.dataclass
class MultiTaskState(State):
    """State of :class:`jaxmkl.learners.MultiTask`.

    It has G Gaussians, that of all tasks first, then those of each.
    """

    dictionary: DictionaryState
    gaussians: jax.Array
    """S of Σ = S S', μ, and in a mixture ν, the mean that learns as if the others were not there:
    side by side (G, D, D + 1), of a mixture (G, D, D + 2)."""
    log_weights: jax.Array
    """log p of the sum, of each task alone and of all as one, the largest 0, (3,); without a
    mixture (1,)."""
    stale: jax.Array
    """True for each Gaussian that counts as N(0, I) since a restart (G,)."""

    @property
    def roots(self) -> jax.Array:
        """S (G, D, D)."""
        return self._restarted[..., : self.gaussians.shape[-2]]

    @property
    def means(self) -> jax.Array:
        """μ (G, D)."""
        return self._restarted[..., self.gaussians.shape[-2]]

    @property
    def alone(self) -> jax.Array:
        """ν (G, D)."""
        return self._restarted[..., self.gaussians.shape[-2] + 1]

    @property
    def _restarted(self) -> jax.Array:
        return restarted(self.gaussians, self.stale)


def restarted(gaussians: jax.Array, which: jax.Array) -> jax.Array:
    """Gaussians (..., D, D + C), of which some (...,) are N(0, I)."""
    rows, columns = gaussians.shape[-2:]
    unit = jnp.eye(rows, columns, dtype=gaussians.dtype)
    return jnp.where(which[..., None, None], unit, gaussians)


class MultiTaskInfo(NamedTuple):
    """Diagnostics."""

    support: jax.Array
    """Points of the dictionary, int32."""
    refused: jax.Array
    """Number of points for which it had no room, int32."""
    weights: jax.Array
    """p: of the sum, of each task alone and of all as one, (3,); without a mixture 1, (1,)."""


class MultiTaskCode(NamedTuple):
    """One example."""

    dictionary: DictionaryCode
    task: jax.Array


class MultiTaskAux(NamedTuple):
    """A prediction's results that the update uses again; E Gaussians predict an example."""

    forecast: Forecast
    offer: Offer
    """The change that the example makes to the dictionary."""
    met: Met
    """The E Gaussians, after the restarts that the change implies, with the predictions of the
    sum, of the task alone, and of all as one."""


@pytree.dataclass
class MultiTask(Algorithm[MultiTaskState, MultiTaskCode, MultiTaskAux]):
    """Gaussian models of tasks, one of all tasks and one of each, on one sampled dictionary.

    Args:
      dictionary: a :class:`jaxmkl.features.SampledDictionary`, which gives examples coordinates.
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
    loss: str = pytree.choice("hinge", "squared_hinge", default="squared_hinge")
    components: str = pytree.choice("mixed", "both", "local", "global", default="mixed")
    update_on: str = pytree.choice("mistake", "unsure", "margin", default="margin")
    covariance: str = pytree.choice("updated", "queried", "always", default="updated")
    growth: str = pytree.choice("extend", "restart", default="extend")

    task = "classification"
    has_variance = True  # type: ignore[assignment]
    preferred_block_size = 64
    """In larger blocks there are more kernel values within the block than with the dictionary."""

    def __post_init__(self) -> None:
        pytree.require(self.kernel.num_kernels == 1, self, "kernel", self.kernel, "one kernel")

    @property
    def leading_columns(self) -> int:  # type: ignore[override]
        """Column 0 is the task, if there are tasks."""
        return 0 if self.num_tasks is None else 1

    _tasks = property(lambda self: self.num_tasks or 1)
    has_local = property(
        lambda self: self.components != "global", doc="True if tasks have Gaussians of their own."
    )
    has_overall = property(
        lambda self: self.components != "local", doc="True if there is a Gaussian of all tasks."
    )
    _mixed = property(lambda self: self.components == "mixed")
    _num_means = property(lambda self: 2 if self._mixed else 1)

    def _known(self, task: AnyArray) -> AnyArray:
        """True for each number that names a task."""
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
        """True for each row (B,) that is finite and has a task and a finite k(x, x)."""
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
        G, D = self.has_overall + self.has_local * self._tasks, self.dictionary.size
        return MultiTaskState(
            **frame,
            dictionary=self.dictionary.init(key, self.kernel, inputs, dtype),
            gaussians=jnp.tile(jnp.eye(D, D + self._num_means, dtype=dtype)[None], (G, 1, 1)),
            log_weights=jnp.zeros((3 if self._mixed else 1,), dtype),
            stale=jnp.zeros((G,), bool),
        )

    def with_restarts(
        self, gaussians: jax.Array, stale: jax.Array, again: ArrayLike = False
    ) -> jax.Array:
        """Gaussians (E, D, D + C) after restarts, which make them N(0, I)."""
        return gaussians if self.growth == "extend" else restarted(gaussians, stale | again)

    def covariances(self, state: MultiTaskState) -> jax.Array:
        """Σ (G, D, D): that of all tasks first, then those of each, if there are both."""
        return einsum("gij,gkj->gik", state.roots, state.roots)

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
        """The value by the Gaussians of all tasks and of the example's task, and its variance."""
        _, offer = self.dictionary.predict(state.dictionary, code.dictionary)
        D, phi, which = self.dictionary.size, offer.coordinates, self._involved(code.task)
        gaussians, stale = state.gaussians, state.stale
        if len(which) < len(stale):
            gaussians, stale = (jnp.stack([each[i] for i in which]) for each in (gaussians, stale))
        gaussians = self.with_restarts(gaussians, stale, offer.added)
        # a product with one vector would copy the Gaussians first
        products = einsum("ei,eij->ej", jnp.broadcast_to(phi, (len(which), D)), gaussians)
        along = jnp.where(np.arange(products.shape[1]) < D, products, 0.0)
        # with the row S'φ itself, whose product is φ'Σφ
        sums = einsum("eij,ej->ei", jnp.concatenate([gaussians, along[:, None]], axis=1), along)
        towards, spread = sums[:, :D], sums[:, D]
        of_each = [*spread]
        values, variances = [sum_of([*products[:, D]])], [sum_of(of_each)]
        if self._mixed:  # its own Gaussian alone comes before that of all
            values += [*products[:, D + 1]][::-1]
            variances += of_each[::-1]
        value, variance = self.mixture(state, values, variances)
        forecast = Forecast.of_one(value, variance=variance)
        met = Met(gaussians, products, towards, spread, values, variances)
        return forecast, MultiTaskAux(forecast, offer, met)

    def _involved(self, task: jax.Array) -> list[Any]:
        """The indices, among the G Gaussians, of those that predict an example of a task."""
        own = int(self.has_overall) + (task if self._tasks > 1 else 0)
        return [0] * self.has_overall + [own] * self.has_local

    def mixture(
        self, state: MultiTaskState, values: list[jax.Array], variances: list[jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        """f and v of the mixture, from those of the predictions."""
        if not self._mixed:
            return values[0], variances[0]
        p = [*jnp.exp(state.log_weights)]  # the largest is 1
        total = sum_of(p)
        value = sum_of([w * f for w, f in zip(p, values, strict=True)]) / total
        spreads = [v + (f - value) ** 2 for f, v in zip(values, variances, strict=True)]
        return value, sum_of([w * v for w, v in zip(p, spreads, strict=True)]) / total

    def weighed(
        self, state: MultiTaskState, values: list[jax.Array], y: jax.Array, learns: jax.Array
    ) -> jax.Array:
        """log p after labels (...) for which the predictions had these values (...)."""
        if not self._mixed:
            return state.log_weights
        rate, found = jnp.where(learns, jnp.asarray(self.rate, y.dtype), 0.0), []
        twice = -2.0 * y
        for log_weight, f in zip(state.log_weights, values, strict=True):
            # jax.nn.softplus in fewer steps
            x = twice * f
            cost = jnp.maximum(x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))
            found.append(log_weight - jnp.sum(rate * cost))
        return jnp.stack(found) - jax.lax.stop_gradient(reduce(jnp.maximum, found))

    def learns_from(
        self, value: jax.Array, variance: jax.Array, y: jax.Array, learns: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The hinge before the update, and whether a prediction learns from it."""
        hinge, moved = jnp.maximum(1.0 - y * value, 0.0), y * value <= 0
        if self.update_on == "unsure":
            inertia = jnp.asarray(self.inertia, value.dtype)
            moved = moved | ((jnp.abs(value) <= variance / (4.0 * inertia)) & (hinge > 0))
        return hinge, (hinge > 0 if self.update_on == "margin" else moved) & learns

    def shrinks(
        self, forecast: Forecast, y: jax.Array, learns: jax.Array, seen: jax.Array
    ) -> jax.Array:
        """True if the covariances shrink."""
        variance = jnp.asarray(forecast.variance)
        moved = self.learns_from(forecast.value, variance, y, learns)[1]
        return {"updated": moved, "queried": learns, "always": seen}[self.covariance]

    def met(
        self, of: Met, y: jax.Array, learns: jax.Array, shrunk: jax.Array, overall: bool
    ) -> tuple[jax.Array, jax.Array]:
        """Gaussians (E, D, D + C) after their examples, and which of them changed (E,).

        ``y``, ``learns`` and ``shrunk`` (whether covariances shrink) are numbers, or (E, 1) if
        each Gaussian has an example of its own. With ``overall`` the first is that of all tasks.
        """
        noise, inertia = (jnp.asarray(v, y.dtype) for v in (self.noise, self.inertia))
        spread = of.spread[:, None]
        c = 1.0 / (noise + spread)
        left = jnp.where(shrunk, noise * c, 1.0)  # of Σφ, where Σ shrinks
        # by column: S, which changes along f = S'φ; then μ, which learns from the sum, and ν
        D, columns = self.dictionary.size, np.arange(of.products.shape[1])
        values, variances = jnp.where(columns == D, of.values[0], of.products), spread
        if self.update_on == "unsure":
            variances = jnp.where(columns == D, of.variances[0], spread)
        hinge, moved = self.learns_from(values, variances, y, learns)
        after = left * spread  # φ'Σφ with the new Σ
        if self.loss == "squared_hinge":
            steps = hinge / (inertia + after)
        else:
            steps = jnp.minimum(0.5 / inertia, hinge / jnp.where(after > 0, after, 1.0))
            if overall:
                steps = jnp.where(np.arange(len(steps))[:, None] == 0, 0.5 / inertia, steps)
        narrowing = -c / (1.0 + jnp.sqrt(noise * c)) * of.products
        # the columns of S and the means all move along Σφ, each by a number of its own
        by = jnp.where(columns < D, narrowing, steps * y * left)
        when = jnp.where(columns < D, shrunk, moved)
        moved_on = of.gaussians + of.towards[:, :, None] * by[:, None, :]
        return jnp.where(when[:, None, :], moved_on, of.gaussians), jnp.any(when, axis=1)

    def update_own(
        self, state: MultiTaskState, code: MultiTaskCode, aux: MultiTaskAux, feedback: Feedback
    ) -> MultiTaskState:
        """The dictionary takes part in every round; the Gaussians learn if there is a label."""
        y, learns, seen, _ = feedback[:4]
        shrunk = self.shrinks(aux.forecast, y, learns, seen)
        after, changed = self.met(aux.met, y, learns, shrunk, self.has_overall)
        which, gaussians, stale = self._involved(code.task), state.gaussians, state.stale
        if self.growth == "restart":
            stale = stale | (aux.offer.added & seen)
            for e, i in enumerate(which):
                after = after.at[e].set(jnp.where(changed[e], after[e], gaussians[i]))
                stale = stale.at[i].set(stale[i] & ~changed[e])
        if len(which) == len(stale):
            gaussians = after
        else:
            for e, i in enumerate(which):
                gaussians = gaussians.at[i].set(after[e], mode="promise_in_bounds")
        of_one = state.dictionary, code.dictionary, aux.offer, feedback
        return state.replace(
            dictionary=self.dictionary.update(*of_one),
            gaussians=gaussians,
            log_weights=self.weighed(state, aux.met.values, y, learns),
            stale=stale,
        )

    def close_own(self, state: MultiTaskState, codes: MultiTaskCode) -> MultiTaskState:
        dictionary = self.dictionary.close(state.dictionary, codes.dictionary, state.round)
        return state.replace(dictionary=dictionary)

    def loss_value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        hinge = jnp.maximum(1.0 - y * prediction, 0.0)
        return hinge**2 if self.loss == "squared_hinge" else hinge

    def info(self, state: MultiTaskState) -> MultiTaskInfo:
        counts = state.dictionary.number, state.dictionary.refused
        return MultiTaskInfo(*counts, jax.nn.softmax(state.log_weights))

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
          state: the state before the round.
          examples: X (K, d) without the column of the task, y (K,) of classes, and present (K,):
            which tasks have an example. The rows of the others are ignored.
          most: the largest number of labels to ask for, by the first tasks that want one; None for
            no limit. A budget over all rounds is :meth:`jaxmkl.wrappers.LabelBudget.round`.

        Returns:
          The state, and an :class:`jaxmkl.Output` with leading axis K, NaN where none is present.

        Raises:
          ValueError: for shapes that do not fit.

        >>> learner, key = MultiTask(num_tasks=3), jax.random.key(0)
        >>> state, draws = learner.init(key, num_inputs=1 + 2), np.random.default_rng(0)
        >>> X, present = draws.normal(size=(200, 3, 2)), draws.random((200, 3)) < 0.7
        >>> y = np.sign(X[..., 0] * X[..., 1])
        >>> state, outputs = jax.lax.scan(learner.round, state, (X, y, present))
        >>> outputs.prediction.shape, bool((np.asarray(outputs.queried) == present).all())
        ((200, 3), True)
        """
        return task_rounds.run_round(self, state, *self._of_round(state, examples), most)

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
