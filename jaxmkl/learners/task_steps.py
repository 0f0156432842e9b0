"""A step of many tasks, on an example of one of them: :mod:`jaxmkl.learners.multitask`."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._algorithm import Algorithm, State
from jaxmkl._checks import usable_rows
from jaxmkl._feedback import Feedback
from jaxmkl._types import AnyArray, Inputs, Number
from jaxmkl.features.dictionary import DictionaryCode, DictionaryState, Offer, SampledDictionary
from jaxmkl.kernels import Gaussian, Kernel
from jaxmkl.learners.gaussians import (
    MARGIN_LOSSES,
    narrowed,
    step_of_one,
    times,
)
from jaxmkl.query import All, Forecast, Query

HIGHEST = jax.lax.Precision.HIGHEST


@pytree.dataclass
class MultiTaskState(State):
    """State of :class:`jaxmkl.learners.MultiTask`.

    It has G Gaussians, that of all tasks first, then those of each.
    """

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
class TaskSteps(Algorithm):
    """Gaussian models of tasks that learn one example after the other.

    It is the base of :class:`jaxmkl.learners.MultiTask`, which says what its arguments are.
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
        own = int(self._overall) + code.task
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

    def loss_value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        hinge = jnp.maximum(1.0 - y * prediction, 0.0)
        return hinge**2 if self.loss == "squared_hinge" else hinge

    def info(self, state: MultiTaskState) -> MultiTaskInfo:
        counts = state.dictionary.number, state.dictionary.refused
        return MultiTaskInfo(*counts, jax.nn.softmax(state.log_weights))
