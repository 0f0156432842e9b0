"""Banks on features side by side, under metrics that are learned or none, as one bank.

    f_e(x) = θ_e·z_p(L_s'x)      of rule and rate e, kernel p and metric s

The frequencies of all kernels under all metrics are one array, so that the features of a block are
one product. All least squares are one rule with a rate for each model, as each kernel of a program
takes 15 ms to compile and a while to begin, whatever it works out. Rules of first order stay as
they are, on the features of their own bank.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import compress, groupby
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import common_period, moments_of, take
from jaxmkl._feedback import Feedback
from jaxmkl._metric import applied, importances, isotropic
from jaxmkl._shards import shard
from jaxmkl._types import PyTree
from jaxmkl.features import FourierFeatures
from jaxmkl.models.bank import Bank
from jaxmkl.models.on_features import FeatureModels, joined, require_same, variances_of
from jaxmkl.reservoir import Renewal
from jaxmkl.updates import RLS, Rule
from jaxmkl.updates.second_order import RLSState

_RECENT = 0.01  # weight of the latest round in the models' losses
# where the models (R, P) are in each array of least squares
_AXES: Any = RLSState(1, 0, 0, 0, 0)  # type: ignore[arg-type]


class UnderMetricsState(NamedTuple):
    """State of :class:`UnderMetrics`."""

    metrics: tuple
    """L of each metric, (D,) if it is diagonal, or (D, D); None for a bank on the inputs as they
    are."""
    features: tuple
    """A state of the feature map for each of these."""
    rules: tuple
    """A state for each rule, where least squares are one."""
    losses: jax.Array
    """Discounted squared errors of the models (E,), summed over outputs."""
    variances: jax.Array
    """Variances of the inputs (D,) at the last renewal; ones before the first."""


class UnderMetricsCode(NamedTuple):
    """One example."""

    features: tuple
    """A code of the feature map for each metric."""
    rules: tuple


class UnderMetricsAux(NamedTuple):
    """A prediction's results that the update uses again."""

    values: jax.Array
    """(E,) or (K, E)."""
    norms: jax.Array
    """|z|² (P,)."""
    features: tuple
    rules: tuple


class Models(NamedTuple):
    """The part of the state from which S metrics are learned, beside the examples."""

    metrics: tuple[jax.Array, ...]
    """L of each metric."""
    features: tuple
    """A state of the feature map for each."""
    weights: jax.Array
    """θ (K, R, S, P, M): of each output, rate of a rule, metric and kernel."""
    losses: jax.Array
    """Discounted squared errors (R, S, P), summed over outputs."""
    variances: jax.Array
    """Variances of the inputs (D,) in the sample."""


class _Place(NamedTuple):
    """A rule of a bank, and the vectors of features on which it has its models."""

    bank: int
    """The number of the bank."""
    rule: Rule
    start: int
    end: int

    @property
    def num_models(self) -> int:
        return self.rule.num_rates * (self.end - self.start)


class _Part(NamedTuple):
    """A rule as it is updated: that of one place, or the least squares of several as one."""

    rule: Rule
    vectors: Any
    """The indices of its vectors among those of all banks, (P,) or for each rate (N, 1)."""
    num_kernels: int
    """P, or 1."""
    places: list[_Place]

    @property
    def num_models(self) -> int:
        return sum(place.num_models for place in self.places)


class UnderMetrics(Bank[UnderMetricsState, UnderMetricsCode, UnderMetricsAux]):
    """The base of one bank on features, or of several, whose models are updated together."""

    banks: Any
    """Banks on features, or that learn metrics."""
    many_outputs = True

    @property
    def num_kernels(self) -> int:
        return sum(inside.num_kernels for (inside,) in self._by_map())

    @property
    def num_models(self) -> int:
        return sum(inside.num_models for (inside,) in self._by_map())

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        return tuple(rule for inside in self._inside for rule in inside.rules)

    @property
    def period(self) -> int | None:  # type: ignore[override]
        """The common period of the banks."""
        return common_period(self._inside)

    @property
    def _inside(self) -> list[FeatureModels]:
        """The models on features of each bank."""
        return [on_features(bank) for bank in self.banks]

    def _by_map(self, *others: Sequence) -> Iterator[tuple]:
        """The models on features under each metric, with their items of the ``others``."""
        pairs = zip(self._inside, self.banks, strict=True)
        maps = [inside for inside, bank in pairs for _ in _shapes(bank)]
        return zip(maps, *others, strict=True)

    def _by_rule(self, *others: Sequence) -> Iterator[tuple]:
        """The rules as they are updated, with their items of the ``others``."""
        return zip(self._parts().values(), *others, strict=True)

    def _parts(self, learning: bool = False) -> dict[Any, _Part]:
        """The rules as they are updated, by names, in the order of their models.

        Least squares of one period are one rule, where the first of them is. If ``learning``, the
        banks that learn no metric are left out, and the vectors of the others are numbered anew.
        """
        start, places = 0, {}  # type: ignore[var-annotated]
        for number, bank in enumerate(self.banks):
            if learning and bank.first is None:
                continue
            inside = on_features(bank)
            end = start + inside.num_kernels * len(_shapes(bank))
            for i, rule in enumerate(inside.rules):
                name = rule.period if type(rule) is RLS else (number, i)
                places.setdefault(name, []).append(_Place(number, rule, start, end))
            start = end
        return {name: _part_of(some) for name, some in places.items()}

    def numbers(self) -> list[np.ndarray]:
        """The numbers (R, S, P) of each bank's models among all: by rate, metric and kernel."""
        start, found = 0, [[] for _ in self.banks]  # type: ignore[var-annotated]
        for (part,) in self._by_rule():
            for place in part.places:
                shape = place.rule.num_rates, len(_shapes(self.banks[place.bank])), -1
                own = np.arange(start, start + place.num_models).reshape(shape)
                found[place.bank].append(own)
                start += place.num_models
        return [np.concatenate(each) for each in found]

    def init(
        self, key: jax.Array, num_inputs: int, dtype: DTypeLike, num_outputs: int | None = None
    ) -> UnderMetricsState:
        sizes = {inside.features.num_coordinates(num_inputs) for inside in self._inside}
        wanted = f"banks with as many features each of {num_inputs} inputs"
        pytree.require(len(sizes) == 1, self, "banks", sizes, wanted)
        (M,), K = sizes, 1 if num_outputs is None else num_outputs
        metrics, features = [], []
        for i, (bank, inside) in enumerate(zip(self.banks, self._inside, strict=True)):
            own = key if len(self.banks) == 1 else jax.random.fold_in(key, i)
            shapes = _shapes(bank)
            metrics += [shape and isotropic(shape, num_inputs, dtype) for shape in shapes]

            def begun(key: jax.Array, inside: FeatureModels = inside) -> PyTree:
                return inside.features.init(key, inside.kernels, num_inputs, dtype)

            if len(shapes) == 1:
                features.append(begun(own))
            else:
                drawn = jax.vmap(begun)(jax.random.split(own, len(shapes)))
                features += [take(drawn, s) for s in range(len(shapes))]
        rules = [part.rule.init(part.num_kernels, M, dtype, K) for (part,) in self._by_rule()]
        losses, variances = jnp.zeros((self.num_models,), dtype), jnp.ones((num_inputs,), dtype)
        parts = tuple(metrics), tuple(features), tuple(rules)
        return UnderMetricsState(*parts, losses, variances)

    def encode(
        self, state: UnderMetricsState, X: jax.Array, round: jax.Array, keys: jax.Array
    ) -> UnderMetricsCode:
        codes, Z = _encoded([*self._by_map(state.metrics, state.features)], X, round, keys)
        parts = self._by_rule(state.rules)
        encoded = (part.rule.encode(own, round, Z[:, part.vectors]) for part, own in parts)
        return UnderMetricsCode(codes, tuple(encoded))

    def predict(
        self, state: UnderMetricsState, code: UnderMetricsCode
    ) -> tuple[jax.Array, UnderMetricsAux]:
        maps = self._by_map(state.features, code.features)
        each, of_maps = zip(*[b.features.predict(*own) for b, *own in maps], strict=True)
        norms = jnp.concatenate([b.features.squared_norms(z) for b, z in self._by_map(each)])
        z, parts = jnp.concatenate(each), self._by_rule(state.rules, code.rules)
        predicted = [part.rule.predict(*own, z[part.vectors]) for part, *own in parts]
        said, of_rules = zip(*predicted, strict=True)
        values = joined(said)
        return values, UnderMetricsAux(values, norms, of_maps, of_rules)

    def update(
        self,
        state: UnderMetricsState,
        code: UnderMetricsCode,
        aux: UnderMetricsAux,
        feedback: Feedback,
    ) -> UnderMetricsState:
        errors = jnp.square(aux.values - feedback.y[..., None])
        errors = errors.reshape(-1, errors.shape[-1]).sum(axis=0)
        losses = state.losses + _RECENT * (errors - state.losses)
        # a model that diverged has its chance once it began anew
        losses = jnp.where(jnp.isfinite(state.losses), losses, errors)
        losses = jnp.where(jnp.any(feedback.updates), losses, state.losses)
        start, rules = 0, []
        for part, *own in self._by_rule(state.rules, code.rules, aux.rules):
            end = start + part.num_models
            mine = feedback.cut(start, end, (1, -1, part.num_kernels))
            mine = mine._replace(norm=aux.norms[part.vectors][None])
            rules.append(part.rule.update(*own, mine))
            start = end
        models = [own[:, s].reshape(-1) for own in self.numbers() for s in range(own.shape[1])]
        maps = self._by_map(models, state.features, code.features, aux.features)
        features = [
            inside.features.update(*own, feedback.of_models(partial(take, place=of)))
            for inside, of, *own in maps
        ]
        return state._replace(features=tuple(features), rules=tuple(rules), losses=losses)

    def close(
        self, state: UnderMetricsState, codes: UnderMetricsCode, round: jax.Array
    ) -> UnderMetricsState:
        maps = self._by_map(state.features, codes.features)
        parts = self._by_rule(state.rules, codes.rules)
        features = tuple(inside.features.close(*own, round) for inside, *own in maps)
        rules = tuple(part.rule.close(*own, round) for part, *own in parts)
        return state._replace(features=features, rules=rules)

    def _with_metrics(
        self, state: UnderMetricsState, given: Renewal, turn: Any, turns: Collection[int]
    ) -> UnderMetricsState:
        """The state with other metrics, of the banks that learn theirs so often in a renewal."""
        M = self._inside[0].features.num_coordinates(given.X.shape[1])
        weights, places, start = [], list[int](), 0
        for part, of_rule in self._by_rule(state.rules):
            # of rules without a metric to learn no weights are looked at
            if any(self.banks[place.bank].first is not None for place in part.places):
                empty = jnp.zeros((part.num_kernels, M), given.X.dtype)
                of_models = abilities.gradients(part.rule, of_rule, given.round, empty)
                weights.append(of_models.reshape(len(of_models), -1, M))
                places.extend(range(start, start + part.num_models))
            start += part.num_models
        of_all, start, metrics = jnp.concatenate(weights, axis=1), 0, tuple[Any, ...]()
        for number, (bank, own) in enumerate(zip(self.banks, self.numbers(), strict=True)):
            end = start + len(_shapes(bank))
            before = after = state.metrics[start:end]
            if bank.first is not None and bank.turns in turns:
                at = np.searchsorted(places, own)
                known = of_all[:, at], state.losses[own], state.variances
                models = Models(before, state.features[start:end], *known)
                # a place that no other bank of the learner has
                place = given.place + number * 2**16
                after = bank.learned(models, given._replace(place=place), turn)
                if bank.turns < max(turns):
                    pairs = zip(after, before, strict=True)
                    after = tuple(jnp.where(turn < bank.turns, *pair) for pair in pairs)
            metrics += after
            start = end
        return state._replace(metrics=metrics)

    def _fitted(
        self, state: UnderMetricsState, given: Renewal, counts: jax.Array
    ) -> UnderMetricsState:
        """The state whose models under metrics begin anew and learn the sample."""
        maps = self._by_map(state.metrics, state.features)
        Z = features_of([own for own in maps if own[1] is not None], given.X)
        K = 1 if given.y.ndim == 1 else given.y.shape[1]
        fitted, rules, some = {}, [], (given.y, counts, given.round)
        for name, part in self._parts(learning=True).items():
            empty = part.rule.init(part.num_kernels, Z.shape[-1], Z.dtype, K)
            if type(part.rule) is RLS:  # several models may have one vector
                fitted[name] = part.rule.fitted(empty, Z, *some, part.vectors)
            else:
                fitted[name] = part.rule.fitted(empty, Z[:, part.vectors], *some)
        for (name, part), own in zip(self._parts().items(), state.rules, strict=True):
            learn = [self.banks[place.bank].first is not None for place in part.places]
            if any(learn):
                new = fitted[name]
                own = new if all(learn) else _replaced(own, new, part.places, learn)
            rules.append(own)
        return state._replace(rules=tuple(rules))


@abilities.warn_of_steps.register
def _(bank: UnderMetrics) -> None:
    for inside in bank._inside:
        abilities.warn_of_steps(inside)


@abilities.variances.register
def _(
    bank: UnderMetrics, state: UnderMetricsState, code: UnderMetricsCode, aux: UnderMetricsAux
) -> jax.Array:
    parts = bank._by_rule(state.rules, code.rules, aux.rules)
    dtype = aux.norms.dtype
    found = [variances_of(part.rule, part.num_models, dtype, *own) for part, *own in parts]
    return jnp.concatenate(found)


@abilities.renewed.register
def _(bank: UnderMetrics, state: UnderMetricsState, renewal: Renewal) -> UnderMetricsState:
    given = renewal.sample(bank.sample)
    filled, dtype = given.filled, given.X.dtype
    _, variances = moments_of(given.X, filled)
    state = state._replace(variances=jnp.where(filled > 0, variances, state.variances))
    each = given.number.astype(dtype) / jnp.maximum(filled, 1).astype(dtype)
    counts = jnp.where(given.known, each, 0)
    turns = {one.turns for one in bank.banks if one.first is not None}
    # metrics that are learned once need no loop
    state = bank._with_metrics(state, given, jnp.zeros((), jnp.int32), turns & {1})

    def turn(number: jax.Array, own: UnderMetricsState) -> UnderMetricsState:
        own = bank._with_metrics(own, given, number, turns - {1})
        return bank._fitted(own, given, counts)

    return jax.lax.fori_loop(0, max(turns), turn, state)


@abilities.merged.register
def _(bank: UnderMetrics, states: UnderMetricsState, start: PyTree | None) -> UnderMetricsState:
    """The state of the first shard, but for the models of banks that learn no metric."""
    fixed = [one.first is None for one in bank.banks]
    by_map = [yes for one, yes in zip(bank.banks, fixed, strict=True) for _ in _shapes(one)]
    each = (own.features for own in (states, start) if own is not None)
    require_same(*([*compress(features, by_map)] for features in each))
    began = (None,) * len(states.rules) if start is None else start.rules
    rules = []
    for part, own, begun in bank._by_rule(states.rules, began):
        stays = [fixed[place.bank] for place in part.places]
        first = shard(own, 0)
        if all(stays):
            first = abilities.merged(part.rule, own, begun)
        elif any(stays):
            rule = _part_of([*compress(part.places, stays)]).rule
            of_fixed = partial(_of_places, places=part.places, wanted=stays)
            found = jax.vmap(of_fixed)(own), begun and of_fixed(begun)
            first = _replaced(first, abilities.merged(rule, *found), part.places, stays)
        rules.append(first)
    return shard(states, 0)._replace(rules=tuple(rules))


@abilities.importances.register
def _(bank: UnderMetrics, state: UnderMetricsState) -> jax.Array | None:
    """The mean over the banks that learn metrics, and over the metrics of each."""
    metrics, found = iter(state.metrics), []
    for one in bank.banks:
        own = [next(metrics) for _ in _shapes(one)]
        if one.first is not None:
            found.append(sum(importances(L, state.variances) for L in own) / len(own))
    return jnp.mean(jnp.stack(found), axis=0) if found else None


@abilities.exported.register
def _(bank: UnderMetrics, state: UnderMetricsState, round: jax.Array, num_inputs: int) -> Any:
    maps, models = [*bank._by_map(state.metrics, state.features)], []
    each, M = _under(maps), maps[0][0].features.num_coordinates(num_inputs)
    places = np.arange(sum(map(len, each)))
    for part, own in bank._by_rule(state.rules):
        empty = jnp.zeros((part.num_kernels, M), state.losses.dtype)
        vector = np.resize(places[part.vectors], part.num_models)
        models.append((jax.jit(abilities.gradients)(part.rule, own, round, empty), vector))
    return abilities.on_fourier([inside.features for inside, *_ in maps], each, models)


def on_features(bank: Any) -> FeatureModels:
    """The models on features of a bank."""
    return bank if isinstance(bank, FeatureModels) else bank.bank


def _shapes(bank: Any) -> tuple[str | None, ...]:
    """The shape of each metric of a bank; None for inputs as they are."""
    return (None,) if isinstance(bank, FeatureModels) else bank.shapes


def _part_of(places: list[_Place]) -> _Part:
    """The rule of one place, or one rule of least squares for several."""
    first = places[0]
    if type(first.rule) is not RLS:
        return _Part(first.rule, slice(first.start, first.end), first.end - first.start, places)

    def each(name: str) -> jax.Array:
        """An argument for each model (N,)."""
        given = [(jnp.asarray(getattr(p.rule, name)), p) for p in places]
        of_rates = [jnp.broadcast_to(a, (p.rule.num_rates,)) for a, p in given]
        pairs = zip(of_rates, places, strict=True)
        return jnp.concatenate([jnp.repeat(a, p.end - p.start) for a, p in pairs])

    vectors = [np.tile(np.arange(p.start, p.end), p.rule.num_rates) for p in places]
    numbers = {name: each(name) for name in ("regularization", "forgetting")}
    numbers["max_growth"] = each("max_growth")[:, None]
    rule = pytree.from_fields(RLS, vars(first.rule) | numbers)
    return _Part(rule, np.concatenate(vectors)[:, None], 1, places)


def _of_places(state: RLSState, places: Sequence[_Place], wanted: Sequence[bool]) -> RLSState:
    """The least squares of those places that are wanted."""
    ends = np.cumsum([place.num_models for place in places])[:-1].tolist()

    def one(axis: int, array: jax.Array) -> jax.Array:
        return jnp.concatenate([*compress(jnp.split(array, ends, axis), wanted)], axis)

    return jax.tree.map(one, _AXES, state)


def _replaced(
    before: RLSState, after: RLSState, places: Sequence[_Place], which: Sequence[bool]
) -> RLSState:
    """Least squares of several places, with those ``after`` for the places that are meant."""
    ends = np.cumsum([0, *(place.num_models for place in places)]).tolist()

    def one(axis: int, old: jax.Array, new: jax.Array) -> jax.Array:
        taken = 0
        # in place: joined from parts, all of the array would be copied
        for yes, run in groupby(range(len(places)), which.__getitem__):
            if yes:
                start, *_, end = [at for place in run for at in ends[place : place + 2]]
                part = jax.lax.slice_in_dim(new, taken, taken + end - start, axis=axis)
                old = jax.lax.dynamic_update_slice_in_dim(old, part, start, axis)
                taken += end - start
        return old

    return jax.tree.map(one, _AXES, before, after)


def features_of(maps: Sequence[tuple], X: jax.Array) -> jax.Array:
    """Features (N, P, M) of rows, outside of a stream, as a code has them.

    Each of the ``maps`` is a bank on features, its metric, and the state of its feature map.
    """
    keys = jax.random.split(jax.random.key(0), len(X))
    return _encoded(maps, X, jnp.zeros((), jnp.int32), keys)[1]


def _encoded(
    maps: Sequence[tuple], X: jax.Array, round: jax.Array, keys: jax.Array
) -> tuple[tuple, jax.Array]:
    """Codes by each map, and the features Z (B, P, M) of all.

    If all are Fourier features, they are one product, of frequencies that have the metrics in
    them, as v·(L'x) is (L v)·x.
    """
    fourier = all(type(bank.features) is FourierFeatures for bank, _, _ in maps)
    if fourier and len({jax.tree.structure(bank.features) for bank, _, _ in maps}) == 1:
        under = _under(maps)
        Z = maps[0][0].features.at_frequencies(jnp.concatenate(under), X)
        ends = np.cumsum([len(v) for v in under])[:-1].tolist()
        return tuple(jnp.split(Z, ends, axis=1)), Z
    codes, features = [], []
    for bank, L, own in maps:
        x, of = X if L is None else applied(L, X), bank.features
        codes.append(of.encode(own, bank.kernels, x, round, keys))
        features.append(jax.vmap(lambda code, of=of, own=own: of.predict(own, code)[0])(codes[-1]))
    return tuple(codes), jnp.concatenate(features, axis=1)


def _under(maps: Sequence[tuple]) -> list[jax.Array]:
    """The frequencies (P, F, D) of each map, with its metric in them."""
    found = [(bank.kernels.frequencies(drawn), L) for bank, L, drawn in maps]
    return [v if L is None else applied(L.T, v) for v, L in found]
