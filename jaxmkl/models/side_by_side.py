"""Banks on features side by side, whose least squares are one array.

Each kernel of a program takes 15 ms to compile and a while to begin, whatever it works out. So
the least squares of all banks are updated at once, as those of one rule with as many rates as
there are models. The banks do not notice: in place of a rule of least squares each has a stand-in,
whose code is the features, whose state is what the rule would say of an example, and whose update
returns which models learn.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import common_period
from jaxmkl._feedback import Feedback
from jaxmkl._types import PyTree
from jaxmkl.models.bank import Bank
from jaxmkl.models.metric import MetricBank
from jaxmkl.models.on_features import FeatureModels
from jaxmkl.reservoir import Renewal
from jaxmkl.updates import RLS, Rule
from jaxmkl.updates.second_order import RLSCode, RLSState

# where the models (R, P) are in each array of the state
_AXES: Any = RLSState(1, 0, 0, 0, 0)  # type: ignore[arg-type]


class _Place(NamedTuple):
    """The place in a bank's state, code or result where those of least squares would be."""

    content: Any = ()


class _Said(NamedTuple):
    """What the models of a rule say of an example."""

    values: jax.Array
    """(K, R, P)."""
    variances: jax.Array
    """(R, P)."""


@pytree.dataclass
class _StandIn(Rule):
    """What a bank has in place of a rule of least squares, which is updated elsewhere."""

    rule: RLS
    loss = "squared"

    @property
    def num_rates(self) -> int:
        return self.rule.num_rates

    def init(
        self, num_kernels: int, num_coordinates: int, dtype: DTypeLike, num_outputs: int = 1
    ) -> _Place:
        return _Place()

    def encode(self, state: _Place, round: jax.Array, Z: jax.Array) -> _Place:
        """The features (B, P, M) themselves."""
        return _Place(Z)

    def predict(self, state: _Place, code: PyTree, z: jax.Array) -> tuple[jax.Array, tuple]:
        return state.content.values, ()

    def update(self, state: _Place, code: PyTree, aux: PyTree, feedback: Feedback) -> _Place:
        """Which models learn (1, R, P)."""
        return _Place(feedback.taken())


@abilities.variances.register
def _(rule: _StandIn, state: _Place, code: PyTree, aux: PyTree) -> jax.Array:
    return state.content.variances


class SideBySideState(NamedTuple):
    """State of :class:`SideBySide`."""

    banks: tuple
    """States of the banks, without their least squares."""
    squares: Any
    """The least squares of all N models (N, 1), an :class:`RLSState`."""


class SideBySideCode(NamedTuple):
    """One example."""

    banks: tuple
    squares: RLSCode


class SideBySideAux(NamedTuple):
    """A prediction's results that the update uses again."""

    banks: tuple
    squares: PyTree
    said: tuple
    """States of the banks, with what their least squares say of the example."""


@pytree.dataclass
class SideBySide(Bank):
    """Banks on features whose least squares are one array, and which otherwise are as they are.

    The models, their order and their updates are those of the banks one after the other. A round
    and its compilation cost less: for three banks of the default :func:`jaxmkl.expert_mkl` there
    is one update of 14 covariances in place of three.

    Args:
      banks: two or more, on features or under metrics, that have a rule of least squares
        (:class:`jaxmkl.updates.RLS`) each, all of one ``period`` and with as many features; those
        that learn metrics do so from the same ``sample`` and begin in the same round.

    Raises:
      ValueError: if a bank is of another kind, or the banks differ in what must be the same.

    >>> import jaxmkl
    >>> of = lambda widths: FeatureModels(jaxmkl.Gaussian(widths), RLS(0.1))
    >>> bank = SideBySide((of([0.5, 1.0]), jaxmkl.models.MetricModels(of([1.0, 2.0]))))
    >>> bank.num_models
    4
    """

    banks: Any = pytree.parts(Bank, "banks on features, as jaxmkl.models.FeatureModels(kernels)")
    many_outputs = True

    def __post_init__(self) -> None:
        wanted = "banks on features that do not grow, each with a rule of least squares"
        for bank in self.banks:
            good = isinstance(bank, FeatureModels | MetricBank) and bool(_rules_of(bank))
            good = good and not _features_of(bank).sequential
            pytree.require(good, self, "banks", bank, wanted)
        for name, found in [
            ("period", {rule.period for bank in self.banks for rule in _rules_of(bank)}),
            ("first", {bank.first for bank in self._learning}),
            ("sample", {bank.sample for bank in self._learning}),
        ]:
            pytree.require(len(found) < 2, self, "banks", found, f"banks of one {name}")

    @property
    def _learning(self) -> list[Any]:
        """The banks that learn their kernels."""
        return [bank for bank in self.banks if bank.first is not None]

    @property
    def first(self) -> int | None:  # type: ignore[override]
        """That of the banks which learn their kernels; None if none does."""
        return next((bank.first for bank in self._learning), None)

    @property
    def sample(self) -> int:  # type: ignore[override]
        """That of the banks which learn their kernels."""
        return next((bank.sample for bank in self._learning), Bank.sample)

    @property
    def num_models(self) -> int:
        return sum(bank.num_models for bank in self.banks)

    @property
    def num_kernels(self) -> int:
        return sum(bank.num_kernels for bank in self.banks)

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        return tuple(rule for bank in self.banks for rule in bank.all_rules)

    @property
    def random(self) -> bool:
        return any(bank.random for bank in self.banks)

    @property
    def period(self) -> int | None:  # type: ignore[override]
        """The common period of the banks."""
        return common_period(self.banks)

    @property
    def _others(self) -> tuple[Bank, ...]:
        """The banks with stand-ins for their least squares."""
        return jax.tree.map(
            lambda part: pytree.from_fields(_StandIn, {"rule": part}) if _is_rule(part) else part,
            self.banks,
            is_leaf=_is_rule,
        )

    def _each(self, *others: tuple) -> Iterator[tuple]:
        """The banks with stand-ins, each with what the ``others`` have for it."""
        return zip(self._others, *others, strict=True)

    @property
    def _shapes(self) -> list[tuple[int, int]]:
        """R and P of each rule of least squares."""
        return [(r.num_rates, b.num_kernels) for b in self.banks for r in _rules_of(b)]

    @property
    def _squares(self) -> RLS:
        """One rule for all models of least squares."""
        rules = [rule for bank in self.banks for rule in _rules_of(bank)]

        def each(name: str) -> jax.Array:
            """An argument of each model (N,)."""
            given = [jnp.atleast_1d(jnp.asarray(getattr(rule, name))) for rule in rules]
            pairs = zip(given, self._shapes, strict=True)
            return jnp.concatenate(
                [jnp.broadcast_to(a[:, None], RP).reshape(-1) for a, RP in pairs]
            )

        fields = {name: each(name) for name in ("regularization", "forgetting")}
        fields["max_growth"] = each("max_growth")[:, None]
        return pytree.from_fields(RLS, vars(rules[0]) | fields)

    def init(
        self, key: jax.Array, num_inputs: int, dtype: DTypeLike, num_outputs: int | None = None
    ) -> SideBySideState:
        sizes = [_features_of(bank).num_coordinates(num_inputs) for bank in self.banks]
        wanted = f"banks with as many features each of {num_inputs} inputs"
        pytree.require(len({*sizes}) == 1, self, "banks", sizes, wanted)
        keys = [jax.random.fold_in(key, i) for i in range(len(self.banks))]
        pairs = zip(self.banks, keys, strict=True)
        return self._together(
            tuple(bank.init(key, num_inputs, dtype, num_outputs) for bank, key in pairs)
        )

    def _together(self, states: tuple) -> SideBySideState:
        """The state, from those of the banks alone."""
        found = [
            leaf for leaf in jax.tree.leaves(states, is_leaf=_is_squares) if _is_squares(leaf)
        ]

        def joined(axis: int, *leaves: jax.Array) -> jax.Array:
            flat = [a.reshape(*a.shape[:axis], -1, 1, *a.shape[axis + 2 :]) for a in leaves]
            return jnp.concatenate(flat, axis)

        banks = jax.tree.map(
            lambda part: _Place() if _is_squares(part) else part, states, is_leaf=_is_squares
        )
        return SideBySideState(banks, jax.tree.map(joined, _AXES, *found))

    def _apart(self, axis: int, leaf: jax.Array) -> list[jax.Array]:
        """The parts of an array of all models that are those of each rule, (..., R, P, ...)."""
        sizes = [R * P for R, P in self._shapes]
        parts = jnp.split(leaf, np.cumsum(sizes)[:-1].tolist(), axis)
        each = zip(parts, self._shapes, strict=True)
        return [own.reshape(*own.shape[:axis], *RP, *own.shape[axis + 2 :]) for own, RP in each]

    def _alone(self, state: SideBySideState) -> tuple:
        """The states of the banks alone."""
        leaves = [self._apart(*of) for of in zip(_AXES, state.squares, strict=True)]
        return _filled(state.banks, [RLSState(*own) for own in zip(*leaves, strict=True)])

    def encode(
        self, state: SideBySideState, X: jax.Array, round: jax.Array, keys: jax.Array
    ) -> SideBySideCode:
        Z = self._features(state, X)
        if Z is None:
            each = self._each(state.banks)
            codes = tuple(bank.encode(own, X, round, keys) for bank, own in each)
        else:
            each = self._each(state.banks, tuple(Z))
            codes = tuple(bank.encode_features(own, Z, round) for bank, own, Z in each)
        pairs = zip(_contents(codes), self._shapes, strict=True)
        features = [_for_rates(Z, R) for Z, (R, _) in pairs]
        squares = self._squares.encode(state.squares, round, jnp.concatenate(features, axis=1))
        return SideBySideCode(_filled(codes, [()] * len(features)), squares)

    def _features(self, state: SideBySideState, X: jax.Array) -> list[jax.Array] | None:
        """Features (B, P, M) of each bank, all as one product with X where they are of one sort.

        Metrics then are in the frequencies.
        """
        maps = [_features_of(bank) for bank in self.banks]
        each = [bank.frequencies(own) for bank, own in self._each(state.banks)]
        found = [of for of in each if of is not None]
        if len(found) < len(each) or len({*map(jax.tree.structure, maps)}) > 1:
            return None
        ends = np.cumsum([len(of) for of in found])[:-1].tolist()
        return jnp.split(maps[0].at_frequencies(jnp.concatenate(found), X), ends, axis=1)

    def predict(
        self, state: SideBySideState, code: SideBySideCode
    ) -> tuple[jax.Array, SideBySideAux]:
        rule = self._squares
        # the rule itself needs no features here
        values, of_squares = rule.predict(state.squares, code.squares, jnp.zeros(()))
        variances = abilities.variances(rule, state.squares, code.squares, of_squares)
        said = list(map(_Said, self._apart(1, values), self._apart(0, variances)))
        states = _filled(state.banks, said)
        each = self._each(states, code.banks)
        predicted = [bank.predict(own, of_bank) for bank, own, of_bank in each]
        joined, aux = zip(*predicted, strict=True)
        return jnp.concatenate(joined, axis=-1), SideBySideAux(aux, of_squares, states)

    def update(
        self,
        state: SideBySideState,
        code: SideBySideCode,
        aux: SideBySideAux,
        feedback: Feedback,
    ) -> SideBySideState:
        after, start = [], 0
        for bank, *own in self._each(state.banks, code.banks, aux.banks):
            end = start + bank.num_models
            after.append(bank.update(*own, feedback.cut(start, end)))
            start = end
        learns = _contents(after)
        updates = jnp.concatenate([own.reshape(1, -1, 1) for own in learns], axis=1)
        mine = feedback._replace(updates=updates, probability=None, chance=None)
        squares = self._squares.update(state.squares, code.squares, aux.squares, mine)
        return SideBySideState(_filled(tuple(after), [()] * len(learns)), squares)

    def close(
        self, state: SideBySideState, codes: SideBySideCode, round: jax.Array
    ) -> SideBySideState:
        each = self._each(state.banks, codes.banks)
        banks = tuple(bank.close(own, of_bank, round) for bank, own, of_bank in each)
        return SideBySideState(banks, self._squares.close(state.squares, codes.squares, round))

    def _pairs(self, states: tuple) -> Iterator[tuple]:
        return zip(self.banks, states, strict=True)

    def _learned(self, states: list, renewals: list[Renewal]) -> tuple:
        """States of banks, all with metrics, that these and then the models are learned for."""
        most = max(bank.turns for bank in self.banks)
        pairs = zip(self.banks, states, renewals, strict=True)
        prepared = [bank.prepared(own, renewal) for bank, own, renewal in pairs]
        before = tuple(own for own, _, _ in prepared)

        def with_learned(learned: tuple) -> tuple:
            each = zip(self.banks, before, learned, strict=True)
            return tuple(bank.with_learned(own, *of_bank) for bank, own, of_bank in each)

        def metrics(number: Any, learned: tuple, now: list[bool]) -> tuple:
            """What is learned with other metrics, of banks whose turn it is."""
            each = zip(self.banks, with_learned(learned), prepared, learned, now, strict=True)
            return tuple(
                (bank.learned(own, given, number), of_bank[1]) if yes else of_bank
                for bank, own, (_, given, _), of_bank, yes in each
            )

        # metrics that are learned once need no loop
        once = [bank.turns == 1 for bank in self.banks]
        begun = tuple(bank.learned_of(own) for bank, own in self._pairs(before))
        begun = metrics(jnp.zeros((), jnp.int32), begun, once)

        def turn(number: jax.Array, learned: tuple) -> tuple:
            after = metrics(number, learned, [not yes for yes in once])
            pairs = zip(self.banks, after, learned, strict=True)
            after = tuple(
                own if bank.turns in (1, most) else optax.tree.where(number < bank.turns, own, old)
                for bank, own, old in pairs
            )
            fitted = self._fitted(with_learned(after), *prepared[0][1:])
            return tuple(bank.learned_of(own) for bank, own in self._pairs(fitted))

        return with_learned(jax.lax.fori_loop(0, most, turn, begun))

    def _fitted(self, states: tuple, given: Renewal, counts: jax.Array) -> tuple:
        """States whose models begin anew and learn the sample."""
        features = [bank.features_of(own, given.X) for bank, own in self._pairs(states)]
        pairs = list(zip(self.banks, features, strict=True))
        Z = [_for_rates(Z, rule.num_rates) for bank, Z in pairs for rule in _rules_of(bank)]
        example = given.y, counts, given.round
        own = self._together(states)
        squares = self._squares.fitted(own.squares, jnp.concatenate(Z, axis=1), *example)
        others = []
        for (bank, Z), own in zip(pairs, states, strict=True):
            each = zip(bank.bank.rules, own.bank.rules, strict=True)
            rules = tuple(r if _is_squares(r) else rule.fitted(r, Z, *example) for rule, r in each)
            others.append(bank.with_learned(own, own.metrics, rules))
        return self._alone(self._together(tuple(others))._replace(squares=squares))


@abilities.warn_of_steps.register
def _(bank: SideBySide) -> None:
    for one in bank.banks:
        abilities.warn_of_steps(one)


@abilities.variances.register
def _(
    bank: SideBySide, state: SideBySideState, code: SideBySideCode, aux: SideBySideAux
) -> jax.Array:
    each = bank._each(aux.said, code.banks, aux.banks)
    return jnp.concatenate([abilities.variances(*own) for own in each])


@abilities.renewed.register
def _(bank: SideBySide, state: SideBySideState, renewal: Renewal) -> SideBySideState:
    """As of the banks alone, but that their least squares are fitted at once."""
    states = list(bank._alone(state))
    places = [i for i, one in enumerate(bank.banks) if one.first is not None]
    learning = tuple(bank.banks[i] for i in places)
    inside = pytree.from_fields(SideBySide, {"banks": learning})
    # places that no bank of the learner has
    given = [renewal._replace(place=renewal.place + (i + 1) * 2**16) for i in places]
    after = inside._learned([states[i] for i in places], given)
    for i, own in zip(places, after, strict=True):
        states[i] = own
    return bank._together(tuple(states))


@abilities.merged.register
def _(bank: SideBySide, states: SideBySideState, start: PyTree | None) -> SideBySideState:
    began = (None,) * len(bank.banks) if start is None else bank._alone(start)
    each = zip(bank.banks, jax.vmap(bank._alone)(states), began, strict=True)
    return bank._together(tuple(abilities.merged(*own) for own in each))


@abilities.importances.register
def _(bank: SideBySide, state: SideBySideState) -> jax.Array | None:
    """The mean of those of the banks that know them."""
    each = [abilities.importances(*own) for own in bank._pairs(bank._alone(state))]
    known = [found for found in each if found is not None]
    return jnp.mean(jnp.stack(known), axis=0) if known else None


def _for_rates(Z: jax.Array, num_rates: int) -> jax.Array:
    """Features (B, R P, 1, M) of the models of a rule, from those (B, P, M) of its kernels."""
    B, P, M = Z.shape
    return jnp.broadcast_to(Z[:, None], (B, num_rates, P, M)).reshape(B, -1, 1, M)


def _rules_of(bank: Bank) -> list[RLS]:
    """The rules of least squares of a bank."""
    return [rule for rule in bank.all_rules if isinstance(rule, RLS)]


def _features_of(bank: Any) -> Any:
    """The feature map of a bank, without its metrics."""
    return bank.features if isinstance(bank, FeatureModels) else bank.bank.features


def _is_rule(part: Any) -> bool:
    return isinstance(part, RLS)


def _is_squares(part: Any) -> bool:
    return isinstance(part, RLSState)


def _is_place(part: Any) -> bool:
    return isinstance(part, _Place)


def _contents(tree: PyTree) -> list[Any]:
    """What stands in the places of least squares, in order."""
    leaves = jax.tree.leaves(tree, is_leaf=_is_place)
    return [leaf.content for leaf in leaves if _is_place(leaf)]


def _filled(tree: PyTree, contents: Sequence[Any]) -> PyTree:
    """The tree with other contents in these places; a state of least squares stands by itself."""
    rest = iter(contents)

    def filled(part: Any) -> Any:
        if not _is_place(part):
            return part
        content = next(rest)
        return content if _is_squares(content) else _Place(content)

    return jax.tree.map(filled, tree, is_leaf=_is_place)
