"""Online classification of many tasks at once, on one sampled dictionary, asking when unsure.

All K tasks share one dictionary, in which an example x has the coordinates φ (D,); see
:mod:`jaxmkl.nystroem`. The weights of task k are those of all tasks and its own, each a Gaussian:
N(μ⁰, Σ⁰) and N(μᵏ, Σᵏ), at first N(0, I). A round on an example (x, y) of task k:

    sample        x may come into the dictionary, whatever its label
    predict       f = (μ⁰ + μᵏ)·φ;  f = 0 counts as a mistake
    ask           v = φ'(Σ⁰ + Σᵏ)φ,  Θ = |f| - v/(4ε);  a rule says whether, by |f| and Θ
    with the label, where updated
                  Σ  <- Σ - Σφ φ'Σ/(λ + φ'Σφ)               for Σᵏ and Σ⁰             (2), (4)
                  μᵏ <- μᵏ + g y Σᵏφ                        with the new Σᵏ           (3)
                        hinge            g = min(1/(2ε), loss/φ'Σᵏφ)
                        squared hinge    g = loss/(ε + φ'Σᵏφ)
                  μ⁰ <- μ⁰ + g y Σ⁰φ                        with the new Σ⁰           (5)
                        hinge            g = 1/(2ε)
                        squared hinge    g = loss/(ε + φ'Σ⁰φ)

where loss is the hinge max(0, 1 - y f) before the update. With full information the paper updates
on mistakes; where labels are asked for, on mistakes and where Θ <= 0 and there is a loss.

A round may also bring one example of each task (:meth:`MultiTask.round`). Then all are offered to
the dictionary, all predictions come first, Σ⁰ takes all updated tasks in, and

    hinge            μ⁰ <- μ⁰ + 1/(2ε) Σ⁰ Σ_k yᵏφᵏ
    squared hinge    μ⁰ <- μ⁰ + Σ⁰W (εI + W'Σ⁰W)⁻¹ loss,     W = [yᵏφᵏ]

The step on μ⁰ with the hinge is as published, and is not clipped: ε must not be small. That of the
squared hinge is ours (the paper has none): the minimizer of |μ - μ⁰|² by the new Σ⁰ and 1/ε of the
squared hinges.

**Precision.** Only factors S with Σ = S S' are kept, updated as Potter did:

    S <- S - c/(1 + sqrt(λ c)) S f f',     f = S'φ,  c = 1/(λ + |f|²)

so that Σ is symmetric and positive whatever the rounding; updates of Σ itself lose that in single
precision.

References:
  Kernel sampling for online multi-task classification (supplement), equations (2) to (5), Theorem
  2; Confidence weighted multitask learning (AAAI 2019), Theorem 3, for the updates of active
  learning; Potter (1963), in Bierman (1977), Factorization methods for discrete sequential
  estimation.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import pytree
from jaxmkl.kernels import Gaussian, Kernel
from jaxmkl.labelling import Always, Sureness, Unsure
from jaxmkl.learner import Learner, Output, Prediction, usable_rows
from jaxmkl.nystroem import DictionaryCode, DictionaryState, SampledDictionary

__all__ = ["MultiTask", "multitask"]

COMPONENTS = ("both", "local", "global")
LOSSES = ("hinge", "squared_hinge")
UPDATES = ("mistake", "unsure", "margin")
COVARIANCES = ("updated", "queried", "always")
GROWTHS = ("extend", "restart")
HIGHEST = jax.lax.Precision.HIGHEST


class MultiTaskState(NamedTuple):
    """State of :class:`MultiTask`: G Gaussians, that of all tasks first, then those of each.

    Attributes:
      key: typed PRNG key, never consumed.
      round: rounds seen, int32.
      invalid: examples refused because x, y or the task was not usable, int32.
      dictionary: state of the dictionary.
      means: μ (G, D).
      roots: S (G, D, D), Σ = S S'.
      stale: which roots (G,) stand for the unit matrix, as a restart left them.
    """

    key: jax.Array
    round: jax.Array
    invalid: jax.Array
    dictionary: DictionaryState
    means: jax.Array
    roots: jax.Array
    stale: jax.Array


class MultiTaskInfo(NamedTuple):
    """Diagnostics.

    Attributes:
      support: points of the dictionary, int32.
      refused: examples that the full dictionary would have taken, int32.
    """

    support: jax.Array
    refused: jax.Array


class MultiTaskCode(NamedTuple):
    """One example: its code in the dictionary, its task, uniform numbers (2,), whether usable."""

    dictionary: DictionaryCode
    task: jax.Array
    uniform: jax.Array
    usable: jax.Array


class _Model(NamedTuple):
    """The Gaussians (E,) that have a say on an example, after the sampling.

    Attributes:
      dictionary: the dictionary after it was offered the example.
      restarted: whether all Gaussians were reset.
      phi: coordinates (D,).
      which: which of the G they are (E,).
      roots: (E, D, D).
      along: f = S'φ (E, D).
      value: the prediction.
      surety: Θ.
    """

    dictionary: DictionaryState
    restarted: jax.Array
    phi: jax.Array
    which: jax.Array
    roots: jax.Array
    along: jax.Array
    value: jax.Array
    surety: jax.Array


def _shrink(noise: jax.Array, variance: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What Potter's update of S is scaled by, and what Σφ is multiplied by then."""
    c = 1.0 / (noise + variance)
    return c / (1.0 + jnp.sqrt(noise * c)), noise * c


def _solved(matrix: jax.Array, values: jax.Array) -> jax.Array:
    """The solution (K,) for a positive definite matrix (K, K), by Gauss and Jordan."""

    def eliminate(table: jax.Array, i: jax.Array) -> tuple[jax.Array, None]:
        row = table[i] / table[i, i]
        table = table - table[:, i][:, None] * row[None, :]
        return table.at[i].set(row), None

    table = jnp.concatenate([matrix, values[:, None]], axis=1)
    return jax.lax.scan(eliminate, table, jnp.arange(len(values)))[0][:, -1]


@pytree.dataclass
class MultiTask(Learner):
    """Gaussian models of tasks, one of all and one of each, on one sampled dictionary.

    Args:
      num_tasks: K, and column 0 of X holds the task, 0 to K - 1; or None: there is one task, and
        all columns are inputs (static).
      kernel: one kernel.
      dictionary: where examples get coordinates.
      labelling: when a label is asked for.
      noise: λ.
      inertia: ε.
      loss: "hinge" or "squared_hinge" (static).
      components: "both" a Gaussian of all tasks and one of each, or "local" or "global" (static).
      update_on: on what means move: "mistake", "unsure" or "margin" (static).
      covariance: when covariances shrink: "updated", "queried" or "always" (static).
      growth: whether a new point is to "extend" the Gaussians, or they "restart" (static).

    Raises:
      ValueError: for an argument outside its range.
    """

    num_tasks: int | None = pytree.static()
    kernel: Any
    dictionary: SampledDictionary
    labelling: Any
    noise: Any = 1.0
    inertia: Any = 1.0
    loss: str = pytree.static(default="hinge")
    components: str = pytree.static(default="both")
    update_on: str = pytree.static(default="mistake")
    covariance: str = pytree.static(default="updated")
    growth: str = pytree.static(default="extend")

    def __post_init__(self) -> None:
        K = self.num_tasks
        good = K is None or (isinstance(K, int | np.integer) and K >= 1)
        pytree.require(bool(good), self, "num_tasks", K, "an integer of at least 1, or None")
        object.__setattr__(self, "num_tasks", None if K is None else int(K))
        good = isinstance(self.kernel, Kernel) and self.kernel.num_kernels == 1
        pytree.require(good, self, "kernel", self.kernel, "one kernel")
        wanted = {
            "dictionary": ("offer", "a dictionary, as jaxmkl.SampledDictionary()"),
            "labelling": ("ask", "a rule that looks at margins, as jaxmkl.Unsure(0.1)"),
        }
        for name, (method, text) in wanted.items():
            part = getattr(self, name)
            good = not isinstance(part, type) and callable(getattr(part, method, None))
            pytree.require(good, self, name, part, text)
        for name in ("noise", "inertia"):
            value = pytree.as_leaf(
                self,
                name,
                getattr(self, name),
                minimum=0.0,
                exclusive=True,
                wanted="a positive finite number",
            )
            object.__setattr__(self, name, value)
        choices = {
            "loss": LOSSES,
            "components": COMPONENTS,
            "update_on": UPDATES,
            "covariance": COVARIANCES,
            "growth": GROWTHS,
        }
        for name, known in choices.items():
            text = "one of " + ", ".join(map(repr, known))
            pytree.require(getattr(self, name) in known, self, name, getattr(self, name), text)

    @property
    def task(self) -> str:  # type: ignore[override]
        """Classification."""
        return "classification"

    @property
    def preferred_block_size(self) -> int:
        """Kernel values within a block are more than those with the dictionary beyond this."""
        return 64

    @property
    def leading_columns(self) -> int:
        """Column 0 is the task, if there are tasks."""
        return 0 if self.num_tasks is None else 1

    @property
    def _tasks(self) -> int:
        """K."""
        return 1 if self.num_tasks is None else self.num_tasks

    @property
    def _local(self) -> bool:
        return self.components != "global"

    @property
    def _overall(self) -> bool:
        return self.components != "local"

    def init(self, key: jax.Array, num_inputs: int, dtype: Any = None) -> MultiTaskState:
        """An empty dictionary, means 0, covariances I.

        Args:
          key: typed PRNG key (``jax.random.key``).
          num_inputs: columns of X, that of the task among them.
          dtype: floating dtype of the state; the default float of JAX.
        """
        num_inputs, dtype = self.checked_start(num_inputs, dtype)
        least = 1 + self.leading_columns
        text = f"at least {least}, the column of the task and an input"
        pytree.require(num_inputs >= least, self, "num_inputs", num_inputs, text)
        G, D = self._overall + self._local * self._tasks, self.dictionary.size
        return MultiTaskState(
            key=jax.random.fold_in(key, 0),
            round=jnp.zeros((), jnp.int32),
            invalid=jnp.zeros((), jnp.int32),
            dictionary=self.dictionary.init(num_inputs - self.leading_columns, dtype),
            means=jnp.zeros((G, D), dtype),
            roots=jnp.tile(jnp.eye(D, dtype=dtype)[None], (G, 1, 1)),
            stale=jnp.zeros((G,), bool),
        )

    def num_inputs(self, state: MultiTaskState) -> int:
        """Columns of X."""
        return state.dictionary.rows.shape[-1] + self.leading_columns

    def dtype(self, state: MultiTaskState) -> Any:
        """Floating dtype of the state."""
        return state.means.dtype

    def covariances(self, state: MultiTaskState) -> jax.Array:
        """Σ (G, D, D): that of all tasks first, then those of each; where both are on."""
        roots = jnp.where(state.stale[:, None, None], self._unit(state)[None], state.roots)
        return jnp.einsum("gij,gkj->gik", roots, roots, precision=HIGHEST)

    def _unit(self, state: MultiTaskState) -> jax.Array:
        return jnp.eye(self.dictionary.size, dtype=state.means.dtype)

    def _uniform(self, state: MultiTaskState, round: jax.Array, task: jax.Array) -> jax.Array:
        """Two numbers (2,) of an example: for the dictionary, and for the question."""
        key = jax.random.fold_in(jax.random.fold_in(state.key, round), task)
        # the same numbers in every precision
        return jax.random.uniform(key, (2,), jnp.float32).astype(state.means.dtype)

    def encode(self, state: MultiTaskState, X: jax.Array) -> MultiTaskCode:
        """Kernel values and random numbers of a block ``X`` (B, D)."""
        B = X.shape[0]
        task, usable = jnp.zeros((B,), X.dtype), usable_rows(X)
        if self.leading_columns:
            known = (jnp.round(X[:, 0]) == X[:, 0]) & (X[:, 0] >= 0) & (X[:, 0] < self._tasks)
            usable = usable & known
            task = jnp.where(usable, X[:, 0], 0.0)
            X = X[:, 1:]
        first = state.round // B * B
        rounds = first + jnp.arange(B, dtype=jnp.int32)
        tasks = task.astype(jnp.int32)
        codes = self._encoded(state, X, usable, first)
        uniform = jax.vmap(self._uniform, in_axes=(None, 0, 0))(state, rounds, tasks)
        return MultiTaskCode(codes, tasks, uniform, usable & jnp.isfinite(codes.own))

    def _encoded(
        self, state: MultiTaskState, X: jax.Array, usable: jax.Array, first: Any
    ) -> DictionaryCode:
        X = jnp.where(usable[:, None], X, 0.0)
        return self.dictionary.encode(state.dictionary, self.kernel, X, first)

    def _model(self, state: MultiTaskState, code: MultiTaskCode, present: Any) -> _Model:
        """The Gaussians of an example's task, after it was offered to the dictionary."""
        dictionary, offer = self.dictionary.offer(
            state.dictionary, code.dictionary, code.uniform[0], present
        )
        own = self._overall + code.task
        parts = [jnp.zeros_like(code.task)] * self._overall + [own] * self._local
        which = jnp.stack(parts)
        means, roots = state.means[which], state.roots[which]
        restarted = offer.added & (self.growth == "restart")
        if self.growth == "restart":
            fresh = (state.stale[which] | restarted)[:, None, None]
            roots = jnp.where(fresh, self._unit(state)[None], roots)
            means = jnp.where(restarted, 0.0, means)
        phi = offer.coordinates
        along = jnp.einsum("eij,i->ej", roots, phi, precision=HIGHEST)
        value = jnp.sum(jnp.sum(means, axis=0) * phi)
        surety = self._surety(value, jnp.sum(along**2))
        return _Model(dictionary, restarted, phi, which, roots, along, value, surety)

    def _surety(self, value: jax.Array, variance: jax.Array) -> jax.Array:
        """Θ."""
        return jnp.abs(value) - variance / (4.0 * jnp.asarray(self.inertia, value.dtype))

    def _asks(self, value: jax.Array, surety: jax.Array, uniform: jax.Array) -> jax.Array:
        return self.labelling.ask(Sureness(jnp.abs(value), surety, uniform))

    def decide(self, state: MultiTaskState, code: MultiTaskCode) -> Prediction:
        """Predict by the Gaussian of all tasks and that of the example's, and maybe ask."""
        model = self._model(state, code, code.usable)
        query = self._asks(model.value, model.surety, code.uniform[1]) & code.usable
        return Prediction(jnp.where(code.usable, model.value, jnp.nan), query)

    def _wanted(
        self, value: jax.Array, surety: jax.Array, y: jax.Array, active: jax.Array, valid: Any
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The hinge before the update; whether the mean moves; whether the covariance shrinks."""
        hinge = jnp.maximum(1.0 - y * value, 0.0)
        moved = y * value <= 0
        if self.update_on == "unsure":
            moved = moved | ((surety <= 0) & (hinge > 0))
        if self.update_on == "margin":
            moved = hinge > 0
        moved = moved & active
        return (
            hinge,
            moved,
            {"updated": moved, "queried": active, "always": valid}[self.covariance],
        )

    def learn(
        self,
        state: MultiTaskState,
        code: MultiTaskCode,
        y: jax.Array,
        asked: jax.Array,
        present: jax.Array,
    ) -> MultiTaskState:
        """The dictionary takes part in every round; the Gaussians learn if asked."""
        usable = code.usable & present
        valid = usable & (jnp.isfinite(y) | ~asked)
        active = asked & valid
        y = jnp.where(active, y, 0.0)
        model = self._model(state, code, usable)
        hinge, moved, shrunk = self._wanted(model.value, model.surety, y, active, valid)
        noise = jnp.asarray(self.noise, y.dtype)
        variance = jnp.sum(model.along**2, axis=1)
        towards = jnp.einsum("eij,ej->ei", model.roots, model.along, precision=HIGHEST)
        scale, left = _shrink(noise, variance)
        roots = model.roots - (scale[:, None] * towards)[:, :, None] * model.along[:, None, :]
        left = jnp.where(shrunk, left, 1.0)
        step = self._steps(hinge, left * variance) * y
        move = jnp.where(moved, (step * left)[:, None] * towards, 0.0)

        G = state.means.shape[0]
        where = jnp.where(shrunk, model.which, G)
        means, stale = state.means, state.stale
        if self.growth == "restart":
            means = jnp.where(model.restarted, 0.0, means)
            stale = (stale | model.restarted).at[where].set(False, mode="drop")
        return MultiTaskState(
            key=state.key,
            round=state.round + present.astype(jnp.int32),
            invalid=state.invalid + (present & ~valid).astype(jnp.int32),
            dictionary=model.dictionary,
            means=means.at[model.which].add(move),
            roots=state.roots.at[where].set(roots, mode="drop", unique_indices=True),
            stale=stale,
        )

    def _steps(self, hinge: jax.Array, variance: jax.Array) -> jax.Array:
        """g (E,) of the Gaussian of all tasks, then of the task's own; variance (E,) after."""
        epsilon = jnp.asarray(self.inertia, hinge.dtype)
        if self.loss == "squared_hinge":
            return hinge / (epsilon + variance)
        parts = [0.5 / epsilon] * self._overall
        parts += [self._own_step(hinge, variance[-1])] * self._local
        return jnp.stack(parts)

    def round(
        self,
        state: MultiTaskState,
        examples: tuple[jax.Array, jax.Array, jax.Array],
        most: Any = None,
    ) -> tuple[MultiTaskState, Output]:
        """One round on one example of each task, to be scanned over rounds.

        All examples are offered to the dictionary, in the order of the tasks, before any is
        predicted. With one task present it is :meth:`step` on that example. A round costs as if
        all were present; one with none leaves the state as it is.

        Args:
          state: the state.
          examples: X (K, d) without the column of the task, y (K,) of -1 and +1, and present (K,):
            which tasks have an example. What stands in the rows of the others is not looked at.
          most: how many labels may be asked for, those of the first tasks that want one; None for
            any number. A budget over all rounds is :meth:`jaxmkl.LabelBudget.round`.

        Returns:
          The state, and an :class:`~jaxmkl.Output` with leading axis K; NaN for tasks without an
          example.

        Raises:
          ValueError: for shapes that do not fit.

        >>> import jax, jaxmkl
        >>> X = jax.random.normal(jax.random.key(0), (200, 3, 2))
        >>> y = jax.numpy.sign(X[..., 0] * X[..., 1])
        >>> present = jax.random.bernoulli(jax.random.key(1), 0.7, (200, 3))
        >>> learner = multitask(num_tasks=3, size=30)
        >>> state = learner.init(jax.random.key(2), num_inputs=1 + 2)
        >>> state, outputs = jax.lax.scan(learner.round, state, (X, y, present))
        >>> outputs.prediction.shape, bool((outputs.queried == present).all())
        ((200, 3), True)
        """
        dtype, K = self.dtype(state), self._tasks
        X, y, present = (jnp.asarray(array) for array in examples)
        wanted = (K, state.dictionary.rows.shape[-1])
        pytree.require(X.shape == wanted, self, "X of a round", X.shape, f"of shape {wanted}")
        for name, array in (("y", y), ("present", present)):
            text = f"of shape {(K,)}"
            pytree.require(array.shape == (K,), self, f"{name} of a round", array.shape, text)
        X, y, present = X.astype(dtype), y.astype(dtype), present.astype(bool)
        tasks = jnp.arange(K, dtype=jnp.int32)
        X = jnp.where(present[:, None], X, 0.0)
        usable = usable_rows(X) & present
        state = state._replace(dictionary=self.dictionary.settled(state.dictionary))
        codes = self._encoded(state, X, usable, 0)
        usable = usable & jnp.isfinite(codes.own)
        uniform = jax.vmap(self._uniform, in_axes=(None, None, 0))(state, state.round, tasks)

        def offered(dictionary: DictionaryState, example: tuple) -> tuple[Any, jax.Array]:
            code, u, here = example
            dictionary, offer = self.dictionary.offer(dictionary, code, u, here)
            return dictionary, offer.added

        dictionary, added = jax.lax.scan(offered, state.dictionary, (codes, uniform[:, 0], usable))
        phi = jax.vmap(self.dictionary.embed, in_axes=(None, 0))(dictionary, codes)
        means, roots = state.means, state.roots
        if self.growth == "restart":
            restarted = jnp.any(added)
            means = jnp.where(restarted, 0.0, means)
            fresh = (state.stale | restarted)[:, None, None]
            roots = jnp.where(fresh, self._unit(state)[None], roots)

        value, variance = jnp.zeros((K,), dtype), jnp.zeros((K,), dtype)
        first = int(self._overall)
        if self._overall:
            value += jnp.einsum("kd,d->k", phi, means[0], precision=HIGHEST)
            variance += jnp.sum(jnp.dot(phi, roots[0], precision=HIGHEST) ** 2, axis=1)
        if self._local:
            value += jnp.sum(phi * means[first:], axis=1)
            along = jnp.einsum("kij,ki->kj", roots[first:], phi, precision=HIGHEST)
            variance += jnp.sum(along**2, axis=1)
        surety = self._surety(value, variance)
        asked = jax.vmap(self._asks)(value, surety, uniform[:, 1]) & usable
        if most is not None:
            asked = asked & (jnp.cumsum(asked) <= most)
        loss = jnp.where(usable & jnp.isfinite(y), self.loss_value(value, y), jnp.nan)
        output = Output(jnp.where(usable, value, jnp.nan), loss, asked, self.info(state))

        valid = usable & (jnp.isfinite(y) | ~asked)
        active = asked & valid
        y = jnp.where(active, y, 0.0)
        hinge, moved, shrunk = self._wanted(value, surety, y, active, valid)
        new_means, new_roots = [], []
        if self._overall:
            root, move = self._round_of_all(roots[0], phi, y, hinge, moved, shrunk)
            new_means.append((means[0] + move)[None])
            new_roots.append(root[None])
        if self._local:
            local = roots[first:], along, y, hinge, moved, shrunk
            root, move = jax.vmap(self._round_of_one)(*local)
            new_means.append(means[first:] + move)
            new_roots.append(root)
        after = MultiTaskState(
            key=state.key,
            round=state.round + jnp.any(present).astype(jnp.int32),
            invalid=state.invalid + jnp.sum(present & ~valid, dtype=jnp.int32),
            dictionary=self.dictionary.settled(dictionary),
            means=jnp.concatenate(new_means),
            roots=jnp.concatenate(new_roots),
            stale=jnp.zeros_like(state.stale),
        )
        return after, output

    def _updated(
        self, root: jax.Array, along: jax.Array, shrunk: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """S (D, D) after an update along f = S'φ; Σφ (D,) and φ'Σφ after it."""
        variance = jnp.sum(along**2)
        towards = jnp.dot(root, along, precision=HIGHEST)
        scale, left = _shrink(jnp.asarray(self.noise, along.dtype), variance)
        updated = root - (scale * towards)[:, None] * along[None, :]
        left = jnp.where(shrunk, left, 1.0)
        return jnp.where(shrunk, updated, root), left * towards, left * variance

    def _round_of_one(
        self, root: jax.Array, along: jax.Array, y: Any, hinge: Any, moved: Any, shrunk: Any
    ) -> tuple[jax.Array, jax.Array]:
        """S (D, D) of a task's own Gaussian after a round, and the move (D,) of its mean."""
        root, towards, variance = self._updated(root, along, shrunk)
        return root, jnp.where(moved, self._own_step(hinge, variance) * y * towards, 0.0)

    def _round_of_all(
        self, root: jax.Array, phi: jax.Array, y: Any, hinge: Any, moved: Any, shrunk: Any
    ) -> tuple[jax.Array, jax.Array]:
        """S (D, D) of the Gaussian of all tasks after a round, and the move (D,) of its mean."""

        def one(root: jax.Array, example: tuple) -> tuple[jax.Array, None]:
            phi, shrunk = example
            along = jnp.dot(phi, root, precision=HIGHEST)
            return self._updated(root, along, shrunk)[0], None

        root, _ = jax.lax.scan(one, root, (phi, shrunk))
        epsilon = jnp.asarray(self.inertia, y.dtype)
        signed = jnp.where(moved, y, 0.0)[:, None] * phi
        along = jnp.dot(signed, root, precision=HIGHEST)
        if self.loss == "squared_hinge":
            inner = jnp.dot(along, along.T, precision=HIGHEST)
            inner = inner + epsilon * jnp.eye(len(y), dtype=y.dtype)
            step = _solved(inner, jnp.where(moved, hinge, 0.0))
            total = jnp.dot(step, along, precision=HIGHEST)
        else:
            total = jnp.sum(along, axis=0) * (0.5 / epsilon)
        return root, jnp.dot(root, total, precision=HIGHEST)

    def _own_step(self, hinge: jax.Array, variance: jax.Array) -> jax.Array:
        """g of a task's own Gaussian; variance after the update."""
        epsilon = jnp.asarray(self.inertia, hinge.dtype)
        if self.loss == "squared_hinge":
            return hinge / (epsilon + variance)
        return jnp.minimum(0.5 / epsilon, hinge / jnp.where(variance > 0, variance, 1.0))

    def loss_value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        """The hinge, or its square."""
        hinge = jnp.maximum(1.0 - y * prediction, 0.0)
        return hinge**2 if self.loss == "squared_hinge" else hinge

    def info(self, state: MultiTaskState) -> MultiTaskInfo:
        """How full the dictionary is."""
        return MultiTaskInfo(state.dictionary.number, state.dictionary.refused)


def multitask(
    num_tasks: int | None = None,
    kernel: Kernel | None = None,
    *,
    h: Any = None,
    labelling: Any = None,
    components: str = "both",
    loss: str = "hinge",
    update_on: str | None = None,
    covariance: str = "updated",
    noise: Any = 1.0,
    inertia: Any = 1.0,
    size: int = 100,
    growth: str = "extend",
    ridge: Any = 1.0,
    density: Any = 1.0,
    accuracy: Any = 0.5,
    tolerance: Any = None,
) -> MultiTask:
    """Online classification of many tasks on one sampled dictionary, asking when unsure.

    The formulas are those of :mod:`jaxmkl.learners.multitask`.

    Args:
      num_tasks: K; column 0 of X then holds the task, 0 to K - 1, as
        :func:`jaxmkl.data.with_tasks` makes it. Or None: one task, and all columns are inputs.
      kernel: one kernel; by default a Gaussian of bandwidth 1. The median distance of some
        examples (:func:`jaxmkl.median_distance`) is a good bandwidth to start from.
      h: how much is asked for where the learner is sure, as in :class:`~jaxmkl.Unsure`; None for
        full information.
      labelling: another rule than that of ``h``, as :class:`~jaxmkl.Margin`; or None.
      components: "both" a Gaussian of all tasks and one of each, or "local" (each task on its own)
        or "global" (one model of all).
      loss: "hinge" or "squared_hinge".
      update_on: on what means move: a "mistake"; "unsure", also a loss where Θ <= 0; or "margin",
        any loss. By default "mistake" with full information, else "unsure".
      covariance: when covariances shrink: for examples "updated" on, "queried", or "always".
      noise: λ > 0.
      inertia: ε > 0, how much means resist; it must not be small with the hinge.
      size: D, the most points of the dictionary.
      growth: whether a new point is to "extend" the Gaussians or they "restart".
      ridge: α of the sampling.
      density: β of the sampling.
      accuracy: ε of the sampling.
      tolerance: of the sampling, as :class:`~jaxmkl.SampledDictionary`.

    Raises:
      ValueError: for an argument outside its range, or for both ``h`` and ``labelling``.

    References:
      Kernel sampling for online multi-task classification (supplement), equations (2) to (5) and
      Theorem 2; Calandriello, Lazaric and Valko (2017), Algorithm 2.

    >>> import jax, jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (1000, 2))
    >>> task = jax.random.randint(jax.random.key(1), (1000,), 0, 3)
    >>> y = jax.numpy.sign(X[:, 0] * X[:, 1] + 0.2 * (task - 1))
    >>> learner = multitask(num_tasks=3, size=40, h=0.1)
    >>> state = learner.init(jax.random.key(2), num_inputs=1 + 2)
    >>> state, outputs = jaxmkl.run(learner, state, jaxmkl.data.with_tasks(task, X), y)
    >>> mistakes = y * outputs.prediction <= 0
    >>> bool(mistakes[:200].mean() > 1.5 * mistakes[-200:].mean())
    True
    >>> bool(outputs.queried[-200:].mean() < 0.5)
    True
    """
    both = h is not None and labelling is not None
    pytree.require(not both, "multitask", "labelling", labelling, "None where h is given")
    if labelling is None:
        labelling = Always() if h is None else Unsure(h)
    if update_on is None:
        update_on = "mistake" if isinstance(labelling, Always) else "unsure"
    return MultiTask(
        num_tasks,
        Gaussian(1.0) if kernel is None else kernel,
        SampledDictionary(size, ridge, density, accuracy, tolerance),
        labelling,
        noise,
        inertia,
        loss,
        components,
        update_on,
        covariance,
        growth,
    )
