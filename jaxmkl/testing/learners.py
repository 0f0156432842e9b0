"""The contract of learners, checked by running one."""

import inspect
import pathlib
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmkl import abilities
from jaxmkl._blocks import take
from jaxmkl._checks import leaves_by_name
from jaxmkl._learner import Learner, Output, require_learner
from jaxmkl._types import PyTree
from jaxmkl.checkpoint import load, save
from jaxmkl.streaming import run, run_many
from jaxmkl.testing._trees import Check, is_frozen, join, numbers, types


def check_learner(
    learner: Learner,
    *,
    examples: tuple[ArrayLike, ArrayLike] | None = None,
    block_sizes: tuple[int, ...] = (16, 7),
    tolerance: float = 1e-8,
    checkpoint: bool = True,
) -> None:
    """Raise unless a learner keeps the contract of learners.

    It is a frozen pytree with the public methods; its state keeps its types; a step is a
    prediction, which sees no label, and then an update or a skip; rounds are counted; NaN and
    infinity are counted and change nothing else; labels 0 and 1 mean -1 and +1; abilities keep the
    state's types; a run in blocks equals the scan of ``step``, whatever the padding, and goes on
    after a break, also from a file, bit for bit where a block ends; no bit of its predictions
    depends on labels of the same round, of later rounds, or not asked for; many seeds at once
    equal the single runs. All checks are in double precision, up to rounding.

    Args:
      learner: a small learner, because it is run for hundreds of rounds.
      examples: a stream (X (T, D), y (T,) or (T, K)) of about 40 examples, by default random
        numbers.
      block_sizes: the block sizes of runs of one seed. If there are several, the last one is for
        runs of many seeds at once, which are not checked otherwise.
      tolerance: absolute and relative tolerance of values that are equal up to rounding.
      checkpoint: whether the learner can be saved, as all its classes are made by
        ``jaxmkl.pytree.dataclass``.

    Raises:
      AssertionError: if the contract is broken, with the first violation.

    >>> import jaxmkl
    >>> check_learner(jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=3))
    """
    with jax.enable_x64(True):
        check = _LearnerCheck(learner, tolerance)
        try:
            check.is_a_value()
            X, y = _examples(learner) if examples is None else map(np.asarray, examples)
            check.keeps_types(X.shape[1])
            X, y = X.astype(np.float64), y.astype(np.float64)
            stepped = check.has_agreeing_steps(X, y)
            check.is_not_poisoned(X, y, stepped[0])
            several = len(block_sizes) > 1
            alone = block_sizes[:-1] if several else block_sizes
            check.runs_in_blocks((X, y), stepped, alone, checkpoint)
            if several:
                check.runs_side_by_side(X, y, block_sizes[-1])
        except NotImplementedError as error:
            raise AssertionError(str(error)) from error


def _examples(learner: Learner) -> tuple[np.ndarray, np.ndarray]:
    """A stream X (37, 3), y (37,), of numbers, signs or classes; leading columns are 0."""
    draws = np.random.default_rng(0)
    X = draws.normal(size=(37, 3 + learner.leading_columns))
    y = np.sin(X[:, -3:] @ [1.5, -0.7, 0.4]) + 0.1 * draws.normal(size=37)
    X[:, : learner.leading_columns] = 0.0
    classes, K = learner.task == "classification", learner.num_outputs
    if K is None:
        return X, np.where(y > 0.1, 1.0, -1.0) if classes else y
    if classes:
        return X, np.digitize(y, np.linspace(-1.0, 1.0, K + 1)[1:-1]).astype(float)
    return X, np.stack([np.roll(y, k) for k in range(K)], axis=1)


def _needed(function: Callable) -> tuple[str, ...]:
    """Names of the required parameters."""
    parameters = inspect.signature(function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and "VAR_" not in p.kind.name]
    return tuple(p.name for p in needed)


def _everything(output: Output) -> Output:
    """Record all outputs, diagnostics included."""
    return output


def _said(output: Output) -> Output:
    """The output without the loss and the diagnostics, which may depend on the round's label."""
    return output._replace(loss=None, info=None)  # type: ignore[arg-type]


@jax.jit
def _all_ways(learner: Learner, state: PyTree, x: jax.Array, y: jax.Array) -> tuple:
    """The results of predict and step for one example, and the states after all possible calls."""
    code, label = take(learner.encode(state, x[None]), 0), learner._label(state, y)
    after = {"update": learner.update(state, x, y), "skip": learner.skip(state, x)}
    after["step"], output = learner.step(state, (x, y))
    given, yes = (state, code, learner.predict_code(state, code)[1], label), jnp.ones((), bool)
    learned = {
        "asked for": learner.update_code(*given, yes, yes)[1],
        "not asked for": learner.update_code(*given, ~yes, yes)[1],
    }
    after["padding"], learned["of padding"] = learner.update_code(*given, yes, ~yes)
    return learner.predict(state, x), output, after, learned


@jax.jit
def _enlarged(learner: Learner, state: PyTree) -> PyTree:
    return abilities.enlarged(learner, state, 128)


def _begin(learner: Learner, key: jax.Array, num_inputs: int) -> PyTree:
    """The state before the first round, with enough capacity for the whole stream."""
    state = learner.init(key, num_inputs, jnp.float64)
    return state if abilities.capacity(learner, state) is None else _enlarged(learner, state)


def _scan(learner: Learner, state: PyTree, X: np.ndarray, y: np.ndarray) -> tuple[PyTree, PyTree]:
    """A scan of step in a Python loop, so that all streams of the check share a program."""
    outputs = []
    for x, label in zip(X, y, strict=True):
        _, output, after, _ = _all_ways(learner, state, x, label)
        state = after["step"]
        outputs.append(output)
    return state, join(outputs)


class _LearnerCheck(Check):
    """The parts of the contract, one method each; later ones build on earlier ones."""

    @property
    def has_signs(self) -> bool:
        """True if the learner is for two classes."""
        return self.subject.task == "classification" and self.subject.num_outputs is None

    def other(self, label: np.ndarray) -> np.ndarray:
        """A different label."""
        if self.subject.task == "classification" and self.subject.num_outputs is not None:
            return (label + 1) % self.subject.num_outputs
        return -label

    def is_a_value(self) -> None:
        """The learner is a frozen pytree with the methods of the protocol."""
        learner = self.subject
        try:
            require_learner("check_learner", learner)
        except ValueError as error:
            raise AssertionError(str(error)) from None
        text = "a learner must be frozen, as jaxmkl.pytree.dataclass makes it"
        self.require(is_frozen(learner), text)
        leaves, structure = jax.tree.flatten(learner)
        again = jax.tree.unflatten(structure, leaves)
        self.require(repr(again) == repr(learner), "rebuilt from its leaves it is another learner")
        try:
            hash(structure)
        except TypeError as error:
            self.require(False, f"static fields must be hashable: {error}")
        for name in ("init", "predict", "update", "skip", "step"):
            method, wanted = getattr(learner, name), _needed(getattr(Learner, name))[1:]
            given = tuple(inspect.signature(method).parameters)
            good = given[: len(wanted)] == wanted and set(_needed(method)) <= set(wanted)
            self.require(good, f"{name} must take {wanted} first, and need no more; got {given}")
        tasks = ("regression", "classification")
        self.require(learner.task in tasks, f"task must be one of {tasks}; got {learner.task!r}")

    def has_abilities(self, state: PyTree) -> None:
        """Abilities that the learner, or a part of it, registered keep the state's types."""
        learner, yes = self.subject, jax.ShapeDtypeStruct((), bool)

        def late(state: PyTree, yes: jax.Array) -> tuple[PyTree, ...]:
            context = abilities.context(learner, state)
            awaited = abilities.awaiting(learner, state, yes)
            received = abilities.receiving(learner, awaited, yes)
            return awaited, received, abilities.with_context(learner, state, context)

        names = "awaiting", "receiving", "with_context"
        for name, after in zip(names, jax.eval_shape(late, state, yes), strict=True):
            self.require(types(after) == types(state), f"{name} must keep the state's types")
        room = abilities.capacity(learner, state)
        if room is not None:
            larger = jax.eval_shape(lambda own: abilities.enlarged(learner, own, room + 1), state)
            found = abilities.capacity(learner, larger)
            wanted = f"enlarged must make room for {room + 1} support vectors; got {found}"
            self.require(found is not None and found > room, wanted)
        shares = jax.eval_shape(lambda own: abilities.importances(learner, own), state)
        if shares is not None:
            D = learner.num_inputs(state)
            text = f"importances must be of shape ({D},); got {shares.shape}"
            self.require(shares.shape == (D,), text)

    def keeps_types(self, num_inputs: int) -> None:
        """The state keeps its shapes and dtypes, in both precisions, without weak types."""
        learner = self.subject
        for dtype in (np.dtype("float32"), np.dtype("float64")):
            init = jax.jit(learner.init, static_argnums=(1, 2))
            state = init.eval_shape(jax.random.key(0), num_inputs, dtype)
            for field in ("key", "round", "invalid"):
                # only the name is looked up, as a property may be costly
                self.require(field in dir(state), f"its state must have the field {field}")
            self.has_abilities(state)
            given = learner.num_inputs(state), learner.dtype(state)
            text = f"num_inputs and dtype must be those of init; got {given}"
            self.require(given == (num_inputs, dtype), text)
            # the label is an integer here, which must not change the state's dtypes
            several = learner.num_outputs is not None and learner.task == "regression"
            label = np.ones(learner.num_outputs, int) if several else 1
            example = jax.ShapeDtypeStruct((num_inputs,), dtype), label
            after, output = jax.eval_shape(type(learner).step, learner, state, example)
            before, kept = types(state), types(after)
            self.require(list(kept) == list(before), "step must keep the state's tree")
            for name, kind in before.items():
                text = f"the state's {name} must"
                self.require(kept[name] == kind, f"{text} keep its type {kind}; got {kept[name]}")
                self.require(not kind[2], f"{text} not be of a weak type")
                good = not jnp.issubdtype(kind[1], jnp.floating) or kind[1] == dtype
                self.require(good, f"{text} be of the state's dtype {dtype}; got {kind[1]}")
            for field in ("prediction", "loss"):
                given = getattr(output, field).dtype
                self.require(given == dtype, f"the output's {field} must be {dtype}; got {given}")
            given = output.queried.dtype
            self.require(given == np.bool_, f"the output's queried must be boolean; got {given}")

    def has_agreeing_steps(self, X: np.ndarray, y: np.ndarray) -> tuple[PyTree, PyTree, PyTree]:
        """Check that predict, update, skip and step agree; return both end states and outputs."""
        start = state = _begin(self.subject, jax.random.key(0), X.shape[1])
        made: Any = []
        for t, (x, label) in enumerate(zip(X, y, strict=True)):
            prediction, output, after, learned = _all_ways(self.subject, state, x, label)
            said, shown = prediction[:2], (output.prediction, output.queried)
            self.equal(said, shown, "predict must say what step says", self.tolerance)
            kind = "update" if output.queried else "skip"
            text = f"step must be predict and then {kind}"
            self.equal(after["step"], after[kind], text, self.tolerance)
            for kind in ("step", "update", "skip"):
                text = f"round must count the examples, {t + 1}; got {after[kind].round}"
                self.require(int(after[kind].round) == t + 1, text)
            self.knows_whether_it_learned(learned, True)
            text = "a round of padding must leave the state as it was"
            self.equal(after["padding"], state, text)
            if t % 4 == 1:
                blind, other, *_ = _all_ways(self.subject, state, x, self.other(label))
                one, other = map(_said, (output, other))
                text = "a prediction must not depend on the label"
                self.equal((other, blind), (one, prediction), text)
            state = after["step"]
            made.append(output)
        outputs = join(made)
        for field in ("prediction", "loss"):
            finite = np.isfinite(getattr(outputs, field)).all()
            self.require(finite, f"on finite examples every {field} must be finite")
        self.require(int(state.invalid) == 0, "invalid must not count usable examples")
        if self.has_signs:
            text = "labels 0 and 1 must mean -1 and +1"
            again = _scan(self.subject, start, X, np.where(y > 0, 1.0, 0.0))[1]
            self.equal(again, outputs, text)
            x = X[np.argmin(y)]
            # in the dtype of y, as Python numbers would need another program
            pair = np.array([0.0, -1.0])
            one, other = (_all_ways(self.subject, start, x, v)[2]["update"] for v in pair)
            self.equal(one, other, f"{text} to update")
        return start, state, outputs

    def knows_whether_it_learned(self, learned: dict[str, jax.Array], is_sound: bool) -> None:
        """An update's second result is true if example and label are sound and asked for."""
        for way, found in learned.items():
            text = f"update_code must say whether it learned a label {way}, as its second result"
            wanted = is_sound and way == "asked for"
            self.require(bool(np.all(found)) == bool(np.any(found)) == wanted, text)

    def is_not_poisoned(self, X: np.ndarray, y: np.ndarray, start: PyTree) -> None:
        """NaN and infinite inputs and labels are refused and counted, and change nothing else."""
        X, y, bad_inputs, bad_labels = X.copy(), y.copy(), [4, 9, 10], [6, 15, 16]
        X[bad_inputs, -1] = np.nan, np.inf, -1e300
        for row, label in zip(bad_labels, (np.nan, -np.inf, np.nan), strict=True):
            y[row] = label
        state, outputs = _scan(self.subject, start, X, y)
        text = "an example of NaN or infinity"
        finite = np.isfinite(np.delete(outputs.prediction, bad_inputs, axis=0)).all()
        self.require(finite, f"{text} must not poison later predictions")
        silent = np.isnan(outputs.loss[bad_inputs + bad_labels]).all()
        self.require(silent, "the loss must be NaN where x or y is not finite")
        finite = np.isfinite(np.delete(outputs.loss, bad_inputs + bad_labels, axis=0)).all()
        self.require(finite, f"{text} must not poison later losses")
        for name, leaf in leaves_by_name(state, prefix="").items():
            clean = not np.isnan(numbers(leaf).astype(np.float64)).any()
            self.require(clean, f"{text} poisons the state's {name}")
        number = len(bad_inputs) + int(outputs.queried[bad_labels].sum())
        text = f"invalid must count the examples refused, {number}; got {state.invalid}"
        self.require(int(state.invalid) == number, text)
        text = f"round must count refused examples too, {len(y)}; got {state.round}"
        self.require(int(state.round) == len(y), text)
        for row in (bad_inputs[0], bad_labels[0]):
            self.knows_whether_it_learned(_all_ways(self.subject, start, X[row], y[row])[3], False)

    def runs_in_blocks(
        self, stream: tuple, stepped: tuple, block_sizes: tuple, checkpoint: bool
    ) -> None:
        """A run equals the scan of step at all block sizes, and goes on as it was if cut."""
        learner, (X, y), (start, last, by_step) = self.subject, stream, stepped
        ahead, cut = _scan(learner, last, X[:6], y[:6])[1], 13
        for size in block_sizes:
            go = partial(run, block_size=size, record=_everything)
            end, outputs = go(learner, start, X, y)
            text = f"a run in blocks of {size} must be the scan of step"
            self.equal(outputs, by_step, text, self.tolerance)
            # states may differ in form, but their later predictions must agree
            later = _scan(learner, end, X[:6], y[:6])[1]
            self.equal(later, ahead, f"{text}, its state too", self.tolerance)
        text = "a prediction must not depend on labels of its round and later, or not asked for"
        for first in (0, cut):
            hidden = (np.arange(len(y)) >= first) | ~numbers(outputs.queried)
            others = y.copy()
            others[hidden] = self.other(y[hidden])
            blind = go(learner, start, X, others)[1]
            upto = np.arange(len(y)) <= first
            self.equal(take(_said(blind), upto), take(_said(outputs), upto), text)
            # diagnostics may depend on the label of their own round
            same = upto & ~hidden
            self.equal(take(blind.info, same), take(outputs.info, same), text)
        if self.has_signs:
            text = "labels True and False must mean -1 and +1"
            self.equal(go(learner, start, X, y > 0)[1], outputs, text)
        state, first = go(learner, start, X[:cut], y[:cut])
        if checkpoint:
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "checkpoint.npz")
                save(path, learner, state)
                learner, loaded = load(path)
            same = repr(learner) == repr(self.subject)
            self.require(same, "a saved learner must come back as it was")
            self.equal(loaded, state, "a saved state must come back bit for bit")
        joined = partial(jax.tree.map, lambda *both: np.concatenate(both))
        resumed, second = go(learner, state, X[cut:], y[cut:])
        text = "a run that is cut and resumed must go on as it was"
        self.equal(joined(first, second), outputs, text, self.tolerance)
        self.equal(resumed, end, f"{text}, to its end", self.tolerance)
        state, first = go(learner, start, X[:size], y[:size])
        resumed, second = go(learner, state, X[size:], y[size:])
        text = "a run that is cut where a block ends must go on bit for bit"
        self.equal(joined(first, second), outputs, text)
        self.equal(resumed, end, f"{text}, to its end")

    def runs_side_by_side(self, X: np.ndarray, y: np.ndarray, size: int) -> None:
        """Runs of many seeds at once equal the single runs."""
        keys = jax.random.split(jax.random.key(9), 2)
        go = partial(run_many, permute=False, block_size=size, record=_everything)
        together = jax.tree.map(numbers, go(self.subject, keys, X, y)[1])
        for row, key in enumerate(keys):
            start = _begin(self.subject, jax.random.fold_in(key, 0), X.shape[1])
            alone = _scan(self.subject, start, X, y)[1]
            text = f"runs of many seeds in blocks of {size} must be those of each alone"
            self.equal(take(together, row), alone, text, self.tolerance)
