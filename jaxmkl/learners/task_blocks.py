"""Rounds of many tasks in few sums, for accelerators: :mod:`jaxmkl.learners.multitask`.

There a round takes as long as its kernels take to begin: their number counts, not their work. With
L, L⁻¹ and M⁻¹ of the dictionary side by side in one table, and S, μ and ν of a Gaussian side by
side in one matrix W (D, D + 2), a round of :mod:`jaxmkl.learners.task_steps` is

    φ₀, m = L⁻¹k, M⁻¹Sk              one pass over the rows of the table
    r     = k - Lφ₀                  another
    φ     = φ₀ + L⁻¹r                another
    φ'L⁻¹, m'M⁻¹, φ'W, |φ|², |m|²    one over columns, where φ'W = (S'φ, μ·φ, ν·φ)
    SS'φ, |S'φ|²                     one over the rows of W
    W <- W + SS'φ (...)              the update of S, μ and ν, of rank one

and the row of the table for an example that comes in. If it does, φ has one more coordinate. Of
the sums over columns that changes S'φ alone, in the new place: as long as Gaussians are not reset,
S is the unit matrix there, and means are 0.
"""

import dataclasses
import itertools
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxmkl import _pytree as pytree
from jaxmkl._algorithm import Code, State
from jaxmkl._blocks import sum_of
from jaxmkl._feedback import Feedback
from jaxmkl._types import PyTree
from jaxmkl.features.dictionary import DictionaryState, values_of
from jaxmkl.learners.gaussians import step_of_one
from jaxmkl.learners.task_steps import MultiTaskCode, MultiTaskState, TaskSteps
from jaxmkl.query import Forecast

Arrays = list[jax.Array]


class PackedDictionary(NamedTuple):
    """A dictionary amid a block."""

    rows: jax.Array
    """The points before the block (D, d)."""
    since: jax.Array
    """Their stamps (D,), int32."""
    table: jax.Array
    """Of each point its rows of L, L⁻¹ and M⁻¹, its p, and its place in the block, -1 if it came
    in before; and a row for what does not come in: (D + 1, 3 D + 2)."""
    number: jax.Array
    refused: jax.Array


@pytree.dataclass
class PackedState(State):
    """A state amid a block."""

    dictionary: PackedDictionary
    gaussians: jax.Array
    """S, μ and ν of each Gaussian (G, D, D + 2); without a mixture S and μ."""
    log_weights: jax.Array
    stale: jax.Array


class PackedAux(NamedTuple):
    """A prediction's results that the update uses again; E Gaussians have a say on an example."""

    forecast: Forecast
    row: jax.Array
    """The example's row of the table."""
    added: jax.Array
    refused: jax.Array
    which: jax.Array
    """Which of the G they are (E,)."""
    gaussians: Arrays
    """E times S, μ and ν (D, D + 2)."""
    along: Arrays
    """E times S'φ (D,)."""
    towards: Arrays
    """E times SS'φ (D,)."""
    spreads: Arrays
    """E times |S'φ|²."""
    values: Arrays
    """Those of the V predictions."""
    variances: Arrays
    """Theirs."""


def _side_by_side(table: jax.Array) -> Arrays:
    """L, L⁻¹ and M⁻¹ (D, D) of a table (D, 3 D + 2)."""
    D = len(table)
    return [table[:, i * D : (i + 1) * D] for i in range(3)]


class TaskBlocks(TaskSteps):
    """The steps of :class:`jaxmkl.learners.MultiTask`, in another form on accelerators."""

    def packed(self, state: PyTree) -> PyTree:
        # places in a block are whole numbers of the state's dtype
        if self.growth != "extend" or self.dtype(state).itemsize < 4:
            return state
        old = state.dictionary
        numbers = jnp.stack([old.probabilities, jnp.full_like(old.probabilities, -1.0)], axis=1)
        table = jnp.concatenate([old.factor, old.inverse, old.ridge_inverse, numbers], axis=1)
        table = jnp.concatenate([table, jnp.zeros_like(table[:1])])
        means = jnp.stack([state.means, *([state.alone] if self._mixed else [])], axis=2)
        fields = {field.name: getattr(state, field.name) for field in dataclasses.fields(State)}
        own = {
            "dictionary": PackedDictionary(old.rows, old.since, table, old.number, old.refused),
            "gaussians": jnp.concatenate([state.roots, means], axis=2),
            "log_weights": state.log_weights,
            "stale": state.stale,
        }
        return pytree.from_fields(PackedState, fields | own)

    def unpacked(self, state: PyTree, codes: Code) -> PyTree:
        if not isinstance(state, PackedState):
            return state
        rows, since, table, number, refused = state.dictionary
        table, examples = table[:-1], codes.own.dictionary
        place = table[:, -1].astype(jnp.int32)
        came, place = place >= 0, jnp.maximum(place, 0)
        rows = jnp.where(came[:, None], examples.x[place], rows)
        since = jnp.where(came, examples.stamp[place], since)
        of_points = [rows, table[:, -2], *_side_by_side(table), since]
        dictionary = DictionaryState._make([*of_points, number, refused])
        D, fields = len(table), dict(vars(state))
        gaussians = fields.pop("gaussians")
        own = {
            "dictionary": dictionary,
            "roots": gaussians[:, :, :D],
            "means": gaussians[:, :, D],
            "alone": gaussians[: self._mixed * len(gaussians), :, -1],
        }
        return pytree.from_fields(MultiTaskState, fields | own)

    def predict_own(self, state: PyTree, code: MultiTaskCode) -> tuple[Forecast, PyTree]:
        if not isinstance(state, PackedState):
            return super().predict_own(state, code)
        example, number, table = code.dictionary, state.dictionary.number, state.dictionary.table
        D, table = len(table) - 1, table[:-1]
        places = jnp.arange(D, dtype=jnp.int32)
        used, place = places < number, table[:, -1].astype(jnp.int32)
        k = values_of(example, used, used & (place >= 0), place)
        scale = jnp.where(used, jax.lax.rsqrt(table[:, -2]), 0.0)

        factor, inverse, ridge_inverse = _side_by_side(table)
        both = jnp.stack([k, scale * k])[None]
        both = jnp.sum(table[:, D : 3 * D].reshape(D, 2, D) * both, axis=2)
        first, explained = both[:, 0], jax.lax.stop_gradient(both[:, 1])
        rest = k - jnp.sum(factor * first[None], axis=1)
        phi = first + jnp.sum(inverse * rest[None], axis=1)

        which, gaussians = self._involved(state, code.task)
        columns = [inverse * phi[:, None], ridge_inverse * explained[:, None]]
        columns += [each * phi[:, None] for each in gaussians]
        columns += [jnp.stack([phi, explained], axis=1) ** 2]
        sums = jnp.sum(jnp.concatenate(columns, axis=1), axis=0)
        ends = [0, *itertools.accumulate(each.shape[1] for each in columns)]
        inverse_row, ridge_row, *products, norms = (
            sums[start:end] for start, end in itertools.pairwise(ends)
        )

        # what is drawn has no derivative
        p, a, ridge_row = jax.lax.stop_gradient(
            (*self.dictionary.chance(example, norms[1]), ridge_row)
        )
        residual = example.own - norms[0]
        added, refused = self.dictionary.admits(example, p, residual, number)
        here = places == jnp.where(added, number, D)
        length = jnp.sqrt(jnp.where(added, residual, 1.0))
        weight = 1.0 / jnp.where(added, p, 1.0)
        ridge_length = jnp.sqrt(weight * a + jnp.asarray(self.dictionary.ridge, p.dtype))
        row = [
            jnp.where(here, length, phi),
            jnp.where(here, 1.0, -inverse_row) / length,
            jnp.where(here, 1.0, -jnp.sqrt(weight) * ridge_row) / ridge_length,
            jnp.stack([p, (example.stamp - example.first).astype(p.dtype)]),
        ]

        along = [jnp.where(here, length, each[:D]) for each in products]
        pairs = zip(gaussians, along, strict=True)
        of_rows = [jnp.concatenate([each[:, :D], f[None]]) * f[None] for each, f in pairs]
        towards = [*jnp.sum(jnp.stack(of_rows), axis=2)]
        spreads = [each[D] for each in towards]
        values = [sum_of([each[D] for each in products])]
        variances = [sum_of(spreads)]
        if self._mixed:  # its own Gaussian comes before that of all
            values += [each[D + 1] for each in reversed(products)]
            variances += reversed(spreads)
        forecast = Forecast.of_one(*self._together(state, values, variances))
        found = along, [each[:D] for each in towards], spreads, values, variances
        dictionary = jnp.concatenate(row), added, refused
        return forecast, PackedAux(forecast, *dictionary, which, gaussians, *found)

    def _involved(self, state: PackedState, task: jax.Array) -> tuple[jax.Array, Arrays]:
        """Which Gaussians have a say on an example of a task, and they themselves."""
        own = int(self._overall) + task
        which = [jnp.zeros_like(own)] * self._overall + [own] * self._local
        several = self._local and self._tasks > 1
        gaussians = [state.gaussians[0]] * (self._overall or not several)
        if self._local and (self._overall or several):
            gaussians.append(state.gaussians[own] if several else state.gaussians[1])
        return jnp.stack(which), gaussians

    def _together(
        self, state: PackedState, values: Arrays, variances: Arrays
    ) -> tuple[jax.Array, jax.Array]:
        """f and v by the predictions' values and variances; the largest of log p is 0."""
        if not self._mixed:
            return values[0], variances[0]
        p = [jnp.exp(each) for each in state.log_weights]
        total = sum_of(p)
        p = [each / total for each in p]
        value = sum_of([each * f for each, f in zip(p, values, strict=True)])
        spreads = [v + (f - value) ** 2 for f, v in zip(values, variances, strict=True)]
        return value, sum_of([each * v for each, v in zip(p, spreads, strict=True)])

    def update_own(
        self, state: PyTree, code: MultiTaskCode, aux: PyTree, feedback: Feedback
    ) -> PyTree:
        if not isinstance(state, PackedState):
            return super().update_own(state, code, aux, feedback)
        y, learns, seen, _ = feedback[:4]
        shrunk = self._shrunk(aux.forecast, y, learns, seen)
        pairs = zip(aux.values, aux.variances, strict=True)
        wanted = [self._wanted(value, variance, y, learns) for value, variance in pairs]
        of_each = zip(aux.gaussians, aux.along, aux.towards, aux.spreads, strict=True)
        after = []
        for e, given in enumerate(of_each):
            # after the sum come its own Gaussian alone and that of all
            lessons = [wanted[0], *([wanted[2 - e]] if self._mixed else [])]
            after.append(self._after(e, *given, y, shrunk, lessons))
        gaussians = jnp.stack(after)
        if self._tasks > 1 and self._local:
            gaussians = state.gaussians.at[aux.which].set(gaussians, mode="promise_in_bounds")

        rows, since, table, number, refused = state.dictionary
        added = aux.added & seen
        slot = jnp.where(added, number, len(table) - 1), jnp.zeros_like(number)
        table = jax.lax.dynamic_update_slice(table, aux.row[None], slot)
        number = number + added.astype(jnp.int32)
        refused = refused + (aux.refused & seen).astype(jnp.int32)
        return state.replace(
            dictionary=PackedDictionary(rows, since, table, number, refused),
            gaussians=gaussians,
            log_weights=self._weighed_apart(state, aux.values, y, learns),
        )

    def _after(
        self,
        e: int,
        gaussian: jax.Array,
        along: jax.Array,
        towards: jax.Array,
        spread: jax.Array,
        y: jax.Array,
        shrunk: jax.Array,
        lessons: list[tuple[jax.Array, jax.Array]],
    ) -> jax.Array:
        """S, μ and ν of the Gaussian e after a label, by hinges and whether means learn."""
        noise, inertia = (jnp.asarray(v, y.dtype) for v in (self.noise, self.inertia))
        c = 1.0 / (noise + spread)
        left = jnp.where(shrunk, noise * c, 1.0)
        steps = [step_of_one(self.loss, hinge, left * spread, inertia) for hinge, _ in lessons]
        if e == 0 and self._overall and self.loss == "hinge":
            steps = [0.5 / inertia for _ in steps]
        narrowing = -c / (1.0 + jnp.sqrt(noise * c)) * along
        by = jnp.concatenate([narrowing, jnp.stack([step * y * left for step in steps])])
        moved = jnp.stack([when for _, when in lessons])
        when = jnp.concatenate([jnp.broadcast_to(shrunk, along.shape), moved])
        return jnp.where(when[None], gaussian + towards[:, None] * by[None], gaussian)

    def _weighed_apart(
        self, state: PackedState, values: Arrays, y: jax.Array, learns: jax.Array
    ) -> jax.Array:
        """log p after an example with these values."""
        if not self._mixed:
            return state.log_weights
        rate = jnp.asarray(self.rate, y.dtype)
        costs = [jnp.where(learns, jax.nn.softplus(-2.0 * y * f), 0.0) for f in values]
        found = [each - rate * cost for each, cost in zip(state.log_weights, costs, strict=True)]
        return jnp.stack(found) - jax.lax.stop_gradient(reduce(jnp.maximum, found))
