"""What learners promise, checked by playing one."""

import inspect
import pathlib
import tempfile
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._blocks import take
from jaxmkl._learner import Learner, Prediction, require_learner
from jaxmkl.checkpoint import load, save
from jaxmkl.streaming.run import run, run_many
from jaxmkl.testing._trees import difference, is_frozen, join, numbers, types

__all__ = ["check_learner"]

SIGNATURES = {
    "init": ("key", "num_inputs"),
    "predict": ("state", "x"),
    "update": ("state", "x", "y"),
    "skip": ("state", "x"),
    "step": ("state", "example"),
}


def check_learner(
    learner: Learner,
    *,
    examples: tuple[Any, Any] | None = None,
    block_sizes: tuple[int, ...] = (16, 7),
    tolerance: float = 1e-8,
    checkpoint: bool = True,
) -> None:
    """Raise unless a learner keeps what learners promise.

    It is a frozen pytree with the public methods; its state keeps its types; predictions see no
    label and leave no trace, and a step is a prediction and then an update or a skip; rounds are
    counted; NaN and infinity poison nothing and are counted; labels 0 and 1 are -1 and +1; a run
    in blocks is the scan of ``step``, leaves no trace of padding and goes on bit for bit where it
    was cut, from a file too; seeds together are seeds alone. All in double precision, to rounding.

    Args:
      learner: small, for it is played some hundred rounds.
      examples: a stream (X (T, D), y (T,)) of about 40 examples, where not any numbers will do.
      block_sizes: two or more: of many seeds together the last, of one the others.
      tolerance: absolute and relative, of what is equal to rounding.
      checkpoint: whether it can be saved: its classes are made by ``jaxmkl.pytree.dataclass``.

    Raises:
      AssertionError: for the first promise that is broken.

    >>> import jaxmkl
    >>> check_learner(jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=3))
    """
    with jax.enable_x64(True):
        check = _LearnerCheck(learner, tolerance)
        try:
            check.is_a_value()
            X, y = _examples(learner) if examples is None else map(np.asarray, examples)
            check.keeps_types(X.shape[1])
            played = check.plays(X.astype(np.float64), y.astype(np.float64))
            check.is_not_poisoned(played)
            check.runs_in_blocks(played, block_sizes[:-1], checkpoint)
            check.runs_side_by_side(played, block_sizes[-1])
        except NotImplementedError as error:
            raise AssertionError(str(error)) from error


def _examples(learner: Learner) -> tuple[np.ndarray, np.ndarray]:
    """X (37, 3) and y (37,), of both signs for classifiers; leading columns are 0."""
    draws = np.random.default_rng(0)
    X = draws.normal(size=(37, 3 + learner.leading_columns))
    y = np.sin(X[:, -3:] @ [1.5, -0.7, 0.4]) + 0.1 * draws.normal(size=37)
    X[:, : learner.leading_columns] = 0.0
    return X, np.where(y > 0.1, 1.0, -1.0) if learner.task == "classification" else y


def _everything(output: Any) -> Any:
    """Record the diagnostics too."""
    return output


class _Round(NamedTuple):
    """What a learner makes of one example, in all ways."""

    prediction: Prediction
    updated: Any
    skipped: Any
    stepped: Any
    output: Any
    absent: Any


@partial(jax.jit, static_argnums=2)
def _begin(learner: Learner, key: jax.Array, num_inputs: int) -> Any:
    return learner.enlarged(learner.init(key, num_inputs, jnp.float64), 128)


def _step_of_one(learner: Any, state: Any, x: jax.Array) -> tuple[Any, Any]:
    return learner.step(state, (x, 1))


@jax.jit
def _play(learner: Learner, state: Any, x: jax.Array, y: jax.Array) -> _Round:
    stepped, output = learner.step(state, (x, y))
    code = take(learner.encode_block(state, x[None]), 0)
    return _Round(
        prediction=learner.predict(state, x),
        updated=learner.update(state, x, y),
        skipped=learner.skip(state, x),
        stepped=stepped,
        output=output,
        absent=learner.advance(state, code, y, present=False)[0],
    )


class _Played(NamedTuple):
    """A stream, the state before it, and the state and the outputs after it, step by step."""

    X: np.ndarray
    y: np.ndarray
    start: Any
    end: Any
    outputs: Any


class _LearnerCheck:
    """The promises, one method each; later ones build on earlier ones."""

    def __init__(self, learner: Learner, tolerance: float):
        self.learner = learner
        self.name = type(learner).__name__
        self.tolerance = tolerance

    def require(self, condition: Any, text: str) -> None:
        """Raise with the learner's name and this sentence."""
        if not condition:
            raise AssertionError(f"{self.name}: {text}")

    def equal(self, one: Any, other: Any, text: str, tolerance: float | None = None) -> None:
        """Raise with this sentence unless two trees are equal."""
        found = difference(one, other, tolerance)
        self.require(found is None, f"{text}; {found}")

    def is_a_value(self) -> None:
        """A frozen pytree with the methods of the protocol."""
        learner = self.learner
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
        for method, wanted in SIGNATURES.items():
            parameters = list(inspect.signature(getattr(learner, method)).parameters.values())
            names = tuple(p.name for p in parameters)
            optional = all(
                p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
                for p in parameters[len(wanted) :]
            )
            good = names[: len(wanted)] == wanted and optional
            self.require(good, f"{method} must take {wanted} first, and need no more; got {names}")
        tasks = ("regression", "classification")
        self.require(learner.task in tasks, f"task must be one of {tasks}; got {learner.task!r}")

    def keeps_types(self, num_inputs: int) -> None:
        """The state's shapes and dtypes, in both precisions; no weak types."""
        learner = self.learner
        for dtype in (jnp.dtype("float32"), jnp.dtype("float64")):

            def start(key: jax.Array, dtype: Any = dtype) -> Any:
                return learner.init(key, num_inputs, dtype)

            state = jax.eval_shape(start, jax.eval_shape(lambda: jax.random.key(0)))
            for field in ("key", "round", "invalid"):
                self.require(hasattr(state, field), f"its state must have the field {field}")
            given = learner.num_inputs(state), learner.dtype(state)
            good = given == (num_inputs, dtype)
            self.require(good, f"num_inputs and dtype must be those of init; got {given}")
            before = types(state)
            x = jax.ShapeDtypeStruct((num_inputs,), dtype)
            # a label is a whole number here: it must not show in the state
            after, output = jax.eval_shape(_step_of_one, learner, state, x)
            kept = types(after)
            self.require(list(kept) == list(before), "step must keep the state's tree")
            for name, kind in before.items():
                text = f"the state's {name} must keep its type {kind}; got {kept[name]}"
                self.require(kept[name] == kind, text)
                self.require(not kind[2], f"the state's {name} must not be of a weak type")
                floating = jnp.issubdtype(kind[1], jnp.floating)
                text = f"the state's {name} must be of the state's dtype {dtype}; got {kind[1]}"
                self.require(not floating or kind[1] == dtype, text)
            for field in ("prediction", "loss"):
                found = getattr(output, field)
                good = found.dtype == dtype
                self.require(good, f"the output's {field} must be {dtype}; got {found.dtype}")
            good = output.queried.dtype == bool
            self.require(good, f"the output's queried must be boolean; got {output.queried.dtype}")

    def begin(self, num_inputs: int, key: Any = None) -> Any:
        """The state before the first round, with room for all supports that may come."""
        return _begin(self.learner, jax.random.key(0) if key is None else key, num_inputs)

    def scan(self, state: Any, X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
        """As a scan of step, but one by one; all streams of the check share a program."""
        outputs = []
        for x, label in zip(X, y, strict=True):
            played = _play(self.learner, state, x, label)
            state = played.stepped
            outputs.append(played.output)
        return state, join(outputs)

    def plays(self, X: np.ndarray, y: np.ndarray) -> _Played:
        """Predict, update, skip and step agree, and see no label before its time."""
        start = state = self.begin(X.shape[1])
        outputs = []
        for t, (x, label) in enumerate(zip(X, y, strict=True)):
            played = _play(self.learner, state, x, label)
            prediction, output = played.prediction, played.output
            said = (prediction.value, prediction.query)
            shown = (output.prediction, output.queried)
            self.equal(said, shown, "predict must say what step says", self.tolerance)
            kind, taught = ("skip", played.skipped)
            if output.queried:
                kind, taught = ("update", played.updated)
            text = f"step must be predict and then {kind}"
            self.equal(played.stepped, taught, text, self.tolerance)
            for after in (played.stepped, played.updated, played.skipped):
                text = f"round must count the examples, {t + 1}; got {after.round}"
                self.require(int(after.round) == t + 1, text)
            self.equal(played.absent, state, "a round of padding must leave the state as it was")
            if t % 4 == 1:
                other = _play(self.learner, state, x, -label)
                seen = (other.output._replace(loss=0.0), other.prediction)
                text = "a prediction must not depend on the label"
                self.equal(seen, (output._replace(loss=0.0), prediction), text)
            state = played.stepped
            outputs.append(output)
        played = _Played(X, y, start, state, join(outputs))
        for field in ("prediction", "loss"):
            finite = np.isfinite(getattr(played.outputs, field)).all()
            self.require(finite, f"on finite examples every {field} must be finite")
        self.require(int(state.invalid) == 0, "invalid must not count usable examples")
        if self.learner.task == "classification":
            _, outputs = self.scan(start, X, np.where(y > 0, 1.0, 0.0))
            self.equal(outputs, played.outputs, "labels 0 and 1 must mean -1 and +1")
            negative = int(np.argmin(y))
            x = X[negative]
            one, other = (_play(self.learner, start, x, label).updated for label in (0.0, -1.0))
            self.equal(one, other, "labels 0 and 1 must mean -1 and +1 to update")
        return played

    def is_not_poisoned(self, played: _Played) -> None:
        """NaN and infinite inputs and labels are refused, counted, and leave no trace."""
        X, y = played.X.copy(), played.y.copy()
        bad_inputs, bad_labels = [4, 9, 10], [6, 15, 16]
        X[bad_inputs, -1] = np.nan, np.inf, -1e300
        y[bad_labels] = np.nan, -np.inf, np.nan
        state, outputs = self.scan(played.start, X, y)
        good = np.setdiff1d(np.arange(len(y)), bad_inputs)
        finite = np.isfinite(outputs.prediction[good]).all()
        self.require(finite, "an example of NaN or infinity must not poison later predictions")
        unusable = [*bad_inputs, *bad_labels]
        silent = np.isnan(outputs.loss[unusable]).all()
        self.require(silent, "the loss must be NaN where x or y is not finite")
        others = np.setdiff1d(good, bad_labels)
        finite = np.isfinite(outputs.loss[others]).all()
        self.require(finite, "an example of NaN or infinity must not poison later losses")
        for path, leaf in jax.tree.leaves_with_path(state):
            clean = not np.isnan(np.asarray(numbers(leaf), np.float64)).any()
            name = jax.tree_util.keystr(path)
            self.require(clean, f"an example of NaN or infinity poisons the state's {name}")
        number = len(bad_inputs) + int(outputs.queried[bad_labels].sum())
        text = f"invalid must count the examples refused, {number}; got {state.invalid}"
        self.require(int(state.invalid) == number, text)
        text = f"round must count refused examples too, {len(y)}; got {state.round}"
        self.require(int(state.round) == len(y), text)

    def later(self, state: Any, played: _Played) -> Any:
        """What a state makes of some more examples: it may hold the same in another form."""
        return self.scan(state, played.X[:6], played.y[:6])[1]

    def runs_in_blocks(
        self, played: _Played, block_sizes: tuple[int, ...], checkpoint: bool
    ) -> None:
        """A run is the scan of step, at all block sizes; cut and saved it goes on bit for bit."""
        X, y, start = played.X, played.y, played.start

        def go(state: Any, X: Any, y: Any) -> tuple[Any, Any]:
            return run(self.learner, state, X, y, block_size=size, record=_everything)

        ahead = self.later(played.end, played)
        for size in block_sizes:
            end, outputs = go(start, X, y)
            text = f"a run in blocks of {size} must be the scan of step"
            self.equal(outputs, played.outputs, text, self.tolerance)
            self.equal(self.later(end, played), ahead, f"{text}, its state too", self.tolerance)
        if self.learner.task == "classification":
            text = "labels True and False must mean -1 and +1"
            self.equal(go(start, X, y > 0)[1], outputs, text)
        cut = 13
        state, first = go(start, X[:cut], y[:cut])
        learner = self.learner
        if checkpoint:
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "checkpoint.npz")
                save(path, learner, state)
                self.learner, loaded = load(path)
            same = repr(self.learner) == repr(learner)
            self.require(same, "a saved learner must come back as it was")
            self.equal(loaded, state, "a saved state must come back bit for bit")
        resumed, second = go(state, X[cut:], y[cut:])
        joined = jax.tree.map(lambda a, b: np.concatenate([a, b]), first, second)
        self.equal(joined, outputs, "a run that is cut and resumed must go on bit for bit")
        self.equal(resumed, end, "a run that is cut and resumed must end bit for bit the same")
        self.learner = learner

    def runs_side_by_side(self, played: _Played, block_size: int) -> None:
        """Runs of many seeds are those of each."""
        X, y = played.X, played.y
        keys = jax.random.split(jax.random.key(9), 2)
        _, together = run_many(
            self.learner, keys, X, y, permute=False, block_size=block_size, record=_everything
        )
        together = jax.tree.map(numbers, together)
        for row in range(len(keys)):
            start = self.begin(X.shape[1], jax.random.fold_in(keys[row], 0))
            _, alone = self.scan(start, X, y)
            text = f"runs of many seeds in blocks of {block_size} must be those of each alone"
            self.equal(take(together, row), alone, text, self.tolerance)
