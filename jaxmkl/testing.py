"""What a learner and a kernel must keep, checked: for authors of new ones.

    jaxmkl.testing.check_learner(my_learner)
    jaxmkl.testing.check_kernel(my_kernel)

Both raise an ``AssertionError`` whose one sentence says what is wrong, and are silent otherwise.
"""

import dataclasses
import inspect
import pathlib
import tempfile
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._learner import Learner, Prediction, require_learner
from jaxmkl.checkpoint import load, save
from jaxmkl.features import FourierFeatures
from jaxmkl.kernels import Gaussian, Kernel, KernelDictionary, pairwise_products
from jaxmkl.kernels.scaled import plain
from jaxmkl.streaming.run import run, run_many

__all__ = ["check_kernel", "check_learner"]

NUM_FEATURES = 20_000
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


# --- trees ---------------------------------------------------------------------------------------


def _numbers(leaf: Any) -> np.ndarray:
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def _difference(one: Any, other: Any, tolerance: float | None = None) -> str | None:
    """Where two trees of arrays differ, in words; without a tolerance bit for bit."""
    left, right = jax.tree.leaves_with_path(one), jax.tree.leaves(other)
    if len(left) != len(right):
        return f"{len(left)} arrays are {len(right)}"
    for (path, leaf), against in zip(left, right, strict=True):
        a, b = _numbers(leaf), _numbers(against)
        same = a.shape == b.shape and a.dtype == b.dtype
        if same and tolerance is not None and np.issubdtype(a.dtype, np.floating):
            same = np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        elif same:
            same = np.array_equal(a, b, equal_nan=np.issubdtype(a.dtype, np.floating))
        if not same:
            return f"{jax.tree_util.keystr(path) or 'the value'} is {_short(a)} and {_short(b)}"
    return None


def _short(array: np.ndarray) -> str:
    if array.size > 4:
        return f"{array.dtype} of shape {array.shape}"
    return np.array2string(array, precision=17, separator=", ")


def _types(tree: Any) -> dict[str, tuple]:
    """Shape, dtype, and whether the type is weak, of each leaf by its name."""

    def of(leaf: Any) -> tuple:
        return leaf.shape, leaf.dtype, bool(getattr(leaf, "weak_type", False))

    return {jax.tree_util.keystr(path): of(leaf) for path, leaf in jax.tree.leaves_with_path(tree)}


def _take(tree: Any, row: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[row], tree)


def _join(parts: list) -> Any:
    """Trees (T', ...) behind one another, or numbers beside one another."""
    return jax.tree.map(lambda *leaves: np.stack([_numbers(leaf) for leaf in leaves]), *parts)


def _everything(output: Any) -> Any:
    """Record the diagnostics too."""
    return output


def _is_frozen(value: Any) -> bool:
    try:
        value.probe_of_check = 0
    except AttributeError:
        return True
    del value.probe_of_check
    return False


# --- learners ------------------------------------------------------------------------------------


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


@jax.jit
def _play(learner: Learner, state: Any, x: jax.Array, y: jax.Array) -> _Round:
    stepped, output = learner.step(state, (x, y))
    code = _take(learner.encode_block(state, x[None]), 0)
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
        difference = _difference(one, other, tolerance)
        self.require(difference is None, f"{text}; {difference}")

    def is_a_value(self) -> None:
        """A frozen pytree with the methods of the protocol."""
        learner = self.learner
        try:
            require_learner("check_learner", learner)
        except ValueError as error:
            raise AssertionError(str(error)) from None
        text = "a learner must be frozen, as jaxmkl.pytree.dataclass makes it"
        self.require(_is_frozen(learner), text)
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
            types = _types(state)
            x = jax.ShapeDtypeStruct((num_inputs,), dtype)
            # a label is a whole number here: it must not show in the state
            after, output = jax.eval_shape(lambda s, x: learner.step(s, (x, 1)), state, x)
            after_types = _types(after)
            self.require(list(after_types) == list(types), "step must keep the state's tree")
            for name, kind in types.items():
                text = f"the state's {name} must keep its type {kind}; got {after_types[name]}"
                self.require(after_types[name] == kind, text)
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
        return state, _join(outputs)

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
        played = _Played(X, y, start, state, _join(outputs))
        for field in ("prediction", "loss"):
            finite = np.isfinite(getattr(played.outputs, field)).all()
            self.require(finite, f"on finite examples every {field} must be finite")
        self.require(int(state.invalid) == 0, "invalid must not count usable examples")
        if self.learner.task == "classification":
            _, outputs = self.scan(start, X, np.where(y > 0, 1.0, 0.0))
            self.equal(outputs, played.outputs, "labels 0 and 1 must mean -1 and +1")
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
            clean = not np.isnan(np.asarray(_numbers(leaf), np.float64)).any()
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
        for row in range(len(keys)):
            start = self.begin(X.shape[1], jax.random.fold_in(keys[row], 0))
            _, alone = self.scan(start, X, y)
            text = f"runs of many seeds in blocks of {block_size} must be those of each alone"
            self.equal(_take(together, row), alone, text, self.tolerance)


# --- kernels -------------------------------------------------------------------------------------


def check_kernel(kernel: Kernel, *, num_inputs: int = 3, tolerance: float = 1e-9) -> None:
    """Raise unless a kernel keeps what kernels promise.

    It is a frozen pytree; its Gram matrices are symmetric, positive semidefinite and have the
    diagonal that it says; kernels that are stacked, as many as there are points too, are those
    one by one, and lists of parameters are taken; derivatives are finite where points coincide;
    it may stand in a dictionary; where it says its spectrum, Fourier features agree with it. All
    in double precision.

    Args:
      kernel: one kernel or several.
      num_inputs: D, where it has parameters for each input.
      tolerance: absolute and relative, of what is equal to rounding.

    Raises:
      AssertionError: for the first promise that is broken.

    >>> import jaxmkl
    >>> check_kernel(jaxmkl.Cauchy([0.5, 2.0]) + jaxmkl.Polynomial(2, 1.0))
    """
    with jax.enable_x64(True):
        check = _KernelCheck(kernel, tolerance)
        X = np.random.default_rng(0).normal(size=(7, num_inputs))
        try:
            check.is_a_value()
            check.has_gram_matrices(X)
            check.may_be_stacked(X)
            check.has_derivatives(X)
            check.has_company(X)
            check.has_features(X)
        except NotImplementedError as error:
            raise AssertionError(str(error)) from error


@jax.jit
def _gram(kernel: Kernel, X: jax.Array) -> jax.Array:
    return kernel.gram(X)


@jax.jit
def _matrices(kernel: Kernel, X: jax.Array, which: jax.Array) -> dict[str, jax.Array]:
    """What a kernel makes of some points, in all ways."""
    products = pairwise_products(X, X)
    return {
        "gram": kernel.gram(X),
        "columns": kernel.gram(X, X[:4]),
        "own": plain(kernel.diagonal_codes(X), kernel.exponential),
        "codes": kernel.codes(products),
        "column_codes": kernel.column_codes(products, which),
    }


@jax.jit
def _derivatives(kernel: Kernel, X: jax.Array) -> tuple[Kernel, jax.Array]:
    return jax.grad(lambda kernel, X: kernel.gram(X).sum(), argnums=(0, 1))(kernel, X)


@jax.jit
def _approximated(kernel: Kernel, X: jax.Array) -> jax.Array:
    """The Gram matrices by Fourier features."""
    features = FourierFeatures(NUM_FEATURES, scale="mean")
    frequencies = features.init(jax.random.key(0), kernel, X.shape[1], X.dtype)
    z = jnp.swapaxes(features(kernel, frequencies, X), 0, 1)
    return z @ jnp.swapaxes(z, 1, 2)


class _KernelCheck:
    """The promises of a kernel, one method each."""

    def __init__(self, kernel: Kernel, tolerance: float):
        self.kernel = kernel
        self.name = type(kernel).__name__
        self.tolerance = tolerance

    def require(self, condition: Any, text: str) -> None:
        """Raise with the kernel's name and this sentence."""
        if not condition:
            raise AssertionError(f"{self.name}: {text}")

    def close(self, one: Any, other: Any, text: str) -> None:
        """Raise with this sentence unless two arrays are equal to rounding."""
        one, other = np.asarray(one), np.asarray(other)
        same = one.shape == other.shape
        same = same and np.allclose(one, other, rtol=self.tolerance, atol=self.tolerance)
        self.require(same, f"{text}; got {_short(one)} and {_short(other)}")

    def is_a_value(self) -> None:
        """A frozen pytree, and a kernel."""
        kernel = self.kernel
        self.require(isinstance(kernel, Kernel), "a kernel must be an instance of jaxmkl.Kernel")
        opaque = any(isinstance(leaf, Kernel) for leaf in jax.tree.leaves(kernel))
        text = "a kernel must be a pytree: decorate its class with jaxmkl.pytree.dataclass"
        self.require(not opaque, text)
        self.require(
            _is_frozen(kernel), "a kernel must be frozen, as jaxmkl.pytree.dataclass does"
        )
        P = kernel.num_kernels
        good = isinstance(P, int) and P >= 1
        self.require(good, f"num_kernels must be an integer of at least 1; got {P!r}")

    def has_gram_matrices(self, X: np.ndarray) -> None:
        """Symmetric, positive semidefinite, and with the diagonal that is said."""
        kernel, (n, P) = self.kernel, (len(X), self.kernel.num_kernels)
        which = np.arange(n) % P
        made = _matrices(kernel, X, which)
        K = made["gram"]
        given = f"{K.dtype} of shape {K.shape}"
        good = K.shape == (P, n, n) and K.dtype == np.float64
        self.require(good, f"gram(X) must be float64 of shape {(P, n, n)}; got {given}")
        self.close(made["columns"], K[:, :, :4], "gram(X, Y) must be columns of gram(X)")
        self.require(np.isfinite(K).all(), "kernel values must be finite")
        self.close(K, np.swapaxes(K, 1, 2), "a Gram matrix must be symmetric")
        values = np.linalg.eigvalsh(K)
        least = (values[:, 0] / np.maximum(values[:, -1], 1e-300)).min()
        text = f"a Gram matrix must be positive semidefinite; an eigenvalue is {least:.3g} of"
        self.require(least > -1e-9, f"{text} the largest")
        own = np.diagonal(K, axis1=1, axis2=2)
        self.close(made["own"], own, "diagonal_codes must be those of the diagonal")
        text = "column_codes must be those columns of codes"
        codes = np.asarray(made["codes"])[which, :, np.arange(n)].T
        self.close(made["column_codes"], codes, text)

    def may_be_stacked(self, X: np.ndarray) -> None:
        """Kernels together are the kernels one by one: those that are, and some made here."""
        P = self.kernel.num_kernels

        def one_of(p: int) -> Any:
            def cut(leaf: Any) -> Any:
                return leaf[p : p + 1] if np.shape(leaf)[:1] == (P,) else leaf

            return jax.tree.map(cut, self.kernel)

        if P > 1 and one_of(0).num_kernels == 1:
            alone = np.concatenate([_gram(one_of(p), X) for p in range(P)])
            self.close(_gram(self.kernel, X), alone, "stacked kernels must be those one by one")
        if P > 1 or not dataclasses.is_dataclass(self.kernel):
            return
        factors = 1.0 + 0.25 * np.arange(len(X))
        for field in dataclasses.fields(self.kernel):
            value = getattr(self.kernel, field.name)
            if not isinstance(value, float | int) or field.metadata.get("static"):
                continue
            several = [float(value) * factor for factor in factors]
            text = f"several values of {field.name} must be that many kernels, or be refused by a"
            try:
                stack = dataclasses.replace(self.kernel, **{field.name: several})
            except ValueError:
                continue
            try:
                together = _gram(stack, X)
            except Exception as error:
                message = f"{text} ValueError where the kernel is made; got {error!r}"
                raise AssertionError(f"{self.name}: {message}") from error
            single = (dataclasses.replace(self.kernel, **{field.name: v}) for v in several)
            alone = np.concatenate([_gram(kernel, X) for kernel in single])
            self.close(together, alone, f"{text} ValueError")

    def has_derivatives(self, X: np.ndarray) -> None:
        """Finite ones, by points and by parameters, where points coincide."""
        twice = np.concatenate([X[:3], X[:3]])
        for path, leaf in jax.tree.leaves_with_path(_derivatives(self.kernel, twice)):
            finite = np.isfinite(leaf).all()
            name = "the points" if path[0].idx else jax.tree_util.keystr(path[1:])
            self.require(finite, f"the derivative by {name} must be finite where points coincide")

    def has_company(self, X: np.ndarray) -> None:
        """In a dictionary it is what it is alone."""
        other = Gaussian(1.3)
        together = _gram(KernelDictionary((other, self.kernel)), X)
        alone = np.concatenate([_gram(other, X), _gram(self.kernel, X)])
        self.close(together, alone, "in a KernelDictionary a kernel must be what it is alone")

    def has_features(self, X: np.ndarray) -> None:
        """Fourier features agree with the kernel to sampling error, if it says its spectrum."""
        if self.kernel.without_spectrum:
            return
        error = np.abs(_approximated(self.kernel, X) - _gram(self.kernel, X)).max()
        # a mean of cosines: 6 standard errors of at most sqrt(1 / 2 F) and more
        text = "Fourier features must approximate the kernel: its spectral_scale is another's"
        self.require(error < 6 / np.sqrt(NUM_FEATURES), f"{text} (error {error:.3g})")
