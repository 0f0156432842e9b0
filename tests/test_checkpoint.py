"""Checkpoints: what is saved comes back bit for bit, and nothing else is taken for it."""

import dataclasses
import functools
import inspect
import json
import os
import re
import zipfile
from typing import Any, NamedTuple

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxmkl
from jaxmkl import pytree

SMALL_PROGRAMS = True

NUM_EXAMPLES, NUM_INPUTS = 24, 2


def small(name="raker", **arguments):
    factory = jaxmkl.LEARNERS[name]
    offered = {"kernels": jaxmkl.Gaussian((0.5, 2.0)), "num_features": 3, "budget": 4}
    taken = {k: v for k, v in offered.items() if k in inspect.signature(factory).parameters}
    return factory(**taken, **arguments)


def variants():
    """Every learner of the registry, every wrapper, and fields of every kind."""
    made = {name: functools.partial(small, name) for name in jaxmkl.LEARNERS}
    made["classes"] = lambda: small(
        "expert_mkl",
        task="classification",
        selection=jaxmkl.AdaptiveKernelSelection(0.3),
        labelling=jaxmkl.Confidence(0.1, np.inf),
    )
    made["a dictionary"] = lambda: jaxmkl.omkl_aks(
        jaxmkl.KernelDictionary((jaxmkl.Gaussian(0.3), jaxmkl.Laplacian((1.0, 2.0)))),
        num_features=3,
        orthogonal=False,
        step_size=jnp.array([0.1, 0.3]),
        loss="logistic",
    )
    made["label_budget"] = lambda: jaxmkl.label_budget(small("amkl"), 7)
    made["moments"] = lambda: jaxmkl.scaled(small("raker"), jaxmkl.RunningMoments())
    made["nested"] = lambda: jaxmkl.label_budget(
        jaxmkl.scaled(
            jaxmkl.scaled(small("amkl_aks", tolerance=0.1), jaxmkl.RunningRanks(capacity=5)),
            jaxmkl.RunningMoments(),
        ),
        15,
    )
    return made


VARIANTS = variants()


@functools.cache
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(NUM_EXAMPLES, NUM_INPUTS)).astype(np.float32)
    return X, np.sign(X[:, 0] * X[:, 1])


def after_a_while(learner, dtype=np.float32, key=None):
    """A state with any numbers, such as no file should change: NaN, -0 and infinity among them."""
    rng = np.random.default_rng(1)

    def numbers(leaf):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.fold_in(key, rng.integers(100))
        if leaf.dtype == bool:
            return jnp.asarray(rng.integers(0, 2, leaf.shape).astype(bool))
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            return jnp.asarray(rng.integers(0, 2**31 - 1, leaf.shape).astype(leaf.dtype))
        values = rng.normal(size=leaf.shape).astype(leaf.dtype)
        values.flat[:4] = np.array([-0.0, np.nan, -np.inf, np.finfo(leaf.dtype).tiny / 4])[
            : values.size
        ]
        return jnp.asarray(values)

    key = jax.random.key(3) if key is None else key
    like = jax.eval_shape(lambda key: learner.init(key, NUM_INPUTS, dtype), key)
    return jax.tree.map(numbers, like)


def leaves_of(tree):
    """Path, type, dtype and numbers of every leaf; for keys their implementation too."""
    found = []
    for path, leaf in jax.tree.leaves_with_path(tree):
        kind = type(leaf).__name__
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            kind = str(jax.random.key_impl(leaf))
            leaf = jax.random.key_data(leaf)
        found.append((jax.tree_util.keystr(path), kind, np.asarray(leaf)))
    return found


def assert_same(one, other):
    """Bit for bit, the sign of zeros and the bits of NaN included."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for (path, kind, a), (_, other_kind, b) in zip(leaves_of(one), leaves_of(other), strict=True):
        assert (kind, a.dtype, a.shape) == (other_kind, b.dtype, b.shape), path
        assert a.tobytes() == b.tobytes(), path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.npz"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small checkpoint: the bytes of its file, its learner and its state."""
    learner = small("amkl", tolerance=0.1)
    state = after_a_while(learner)
    path = tmp_path_factory.mktemp("saved") / "checkpoint.npz"
    jaxmkl.save(path, learner, state)
    return path.read_bytes(), learner, state


# --- round trips ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_saved_comes_back(name, path):
    learner = VARIANTS[name]()
    state = after_a_while(learner)
    jaxmkl.save(path, learner, state)
    loaded, resumed = jaxmkl.load(path)
    assert repr(loaded) == repr(learner)
    assert_same(loaded, learner)
    assert_same(resumed, state)
    assert type(resumed) is type(state)


@pytest.mark.parametrize("name", ["expert_mkl", "nested"])
def test_double_precision_comes_back(name, path):
    learner = VARIANTS[name]()
    with jax.enable_x64(True):
        state = after_a_while(learner, np.float64)
        jaxmkl.save(path, learner, state)
        loaded, resumed = jaxmkl.load(path)
        assert_same((loaded, resumed), (learner, state))
        assert learner.dtype(resumed) == np.float64
    with pytest.raises(ValueError, match=r"load: the checkpoint is in float64.*jax_enable_x64"):
        jaxmkl.load(path)


def test_single_precision_comes_back_where_double_is_on(path):
    learner = small("amkl")
    state = after_a_while(learner)
    jaxmkl.save(path, learner, state)
    with jax.enable_x64(True):
        loaded, resumed = jaxmkl.load(path)
        assert_same((loaded, resumed), (learner, state))


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_keys_keep_their_implementation(implementation, path):
    learner = jaxmkl.scaled(small("omkl_aks"), jaxmkl.RunningRanks(capacity=3))
    state = after_a_while(learner, key=jax.random.key(5, impl=implementation))
    jaxmkl.save(path, learner, state)
    _, resumed = jaxmkl.load(path)
    assert str(jax.random.key_impl(resumed.inner.key)) == implementation
    assert str(jax.random.key_impl(resumed.scaler.key)) == implementation
    assert_same(resumed, state)


@hypothesis.settings(max_examples=15)
@given(
    st.floats(0, 1e300),
    st.floats(0, allow_nan=False),
    st.lists(st.floats(0, 10), min_size=1, max_size=3),
    st.integers(0, 2**31 - 1),
)
def test_numbers_lose_no_bit(tmp_path_factory, regularization, tolerance, step_sizes, budget):
    learner = jaxmkl.FeatureMKL(
        jaxmkl.Gaussian(1.0),
        jaxmkl.FourierFeatures(2),
        (jaxmkl.OGD(step_sizes, regularization),),
        jaxmkl.AllKernels(),
        jaxmkl.Confidence(tolerance, np.inf),
        hedge_rate=1.0,
    )
    learner = jaxmkl.label_budget(learner, budget)
    path = tmp_path_factory.mktemp("numbers") / "checkpoint"
    jaxmkl.save(path, learner, learner.init(jax.random.key(0), 1))
    assert_same(jaxmkl.load(path)[0], learner)


@pytest.mark.parametrize(
    "case",
    [
        "states of many seeds",
        "numbers out of range",
        "another learner's state",
        "half precision",
        "stacked learners",
    ],
)
def test_what_can_be_saved_can_be_loaded(case, path):
    learner = small()
    state = after_a_while(learner)
    if case == "states of many seeds":
        state = jax.vmap(lambda key: learner.init(key, 2))(jax.random.split(jax.random.key(0), 3))
    elif case == "numbers out of range":
        learner = jax.tree.map(lambda leaf: -leaf, learner)
    elif case == "another learner's state":
        learner = small("amkl")
    elif case == "half precision":
        state = learner.init(jax.random.key(0), NUM_INPUTS, jnp.bfloat16)
    else:
        learner = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), learner)
    try:
        jaxmkl.save(path, learner, state)
    except ValueError:
        assert not path.exists()
    else:
        assert_same(jaxmkl.load(path), (learner, state))


def test_a_double_number_of_a_learner_is_not_rounded(path):
    with jax.enable_x64(True):
        learner = small(step_size=jnp.asarray(0.1))
        assert learner.rules[0].step_sizes.dtype == np.float64
        jaxmkl.save(path, learner, learner.init(jax.random.key(0), NUM_INPUTS, np.float32))
    with pytest.raises(ValueError, match="float64"):
        jaxmkl.load(path)


# --- learners of one's own -----------------------------------------------------------------------


class MeanState(NamedTuple):
    key: jax.Array
    round: jax.Array
    total: jax.Array
    parts: dict


@pytree.dataclass
class Shrinkage:
    factor: Any = 1.0


@pytree.dataclass
class RunningMean(jaxmkl.Learner):
    """Predicts the mean of the labels so far; it has fields of many kinds."""

    shrinkage: Shrinkage
    parts: tuple
    missing: Any = None
    title: str = pytree.static(default="mean")
    sizes: tuple = pytree.static(default=(1, 2))
    quick: bool = pytree.static(default=True)
    task: str = pytree.static(default="regression")

    def init(self, key, num_inputs, dtype=None):
        dtype = jnp.dtype(np.float32 if dtype is None else dtype)
        parts = {"a/b": jnp.zeros(num_inputs, dtype), "none": ()}
        return MeanState(key, jnp.zeros((), jnp.int32), jnp.zeros((), dtype), parts)

    def num_inputs(self, state):
        return state.parts["a/b"].shape[0]

    def dtype(self, state):
        return state.total.dtype

    def encode(self, state, X):
        return X

    def decide(self, state, code):
        count = jnp.maximum(state.round, 1).astype(state.total.dtype)
        value = self.shrinkage.factor * state.total / count
        return jaxmkl.Prediction(value, jnp.asarray(True))

    def learn(self, state, code, y, asked, present):
        return MeanState(
            state.key,
            state.round + present,
            state.total + jnp.where(asked & present, y, 0),
            jax.tree.map(lambda leaf: leaf + jnp.where(present, code, 0), state.parts),
        )

    def loss_value(self, prediction, y):
        return (prediction - y) ** 2


def own_learner(**changes):
    learner = RunningMean(Shrinkage(0.5), (1, (np.array([2.0, -0.0]), jnp.array([3, 4]))))
    return dataclasses.replace(learner, **changes)


def test_a_learner_of_ones_own_comes_back(path):
    learner = own_learner()
    X, y = data()
    state = learner.init(jax.random.key(0), NUM_INPUTS)
    state, _ = jaxmkl.run(learner, state, X, y, block_size=4)
    jaxmkl.save(path, learner, state)
    loaded, resumed = jaxmkl.load(path)
    assert repr(loaded) == repr(learner)
    assert_same(resumed, state)
    assert (loaded.title, loaded.sizes, loaded.quick, loaded.missing) == (
        "mean",
        (1, 2),
        True,
        None,
    )
    first, (array, other) = loaded.parts
    assert type(first) is int
    assert type(array) is np.ndarray
    assert np.signbit(array).tolist() == [False, True]
    assert isinstance(other, jax.Array)
    assert other.dtype == learner.parts[1][1].dtype
    _, expected = jaxmkl.run(learner, state, X, y)
    _, outputs = jaxmkl.run(loaded, resumed, X, y)
    assert_same(outputs, expected)


def test_a_class_that_is_not_defined_is_named(path, monkeypatch):
    learner = own_learner()
    jaxmkl.save(path, learner, learner.init(jax.random.key(0), NUM_INPUTS))
    name = pytree.qualified_name(Shrinkage)
    monkeypatch.delitem(pytree.REGISTERED, name)
    with pytest.raises(ValueError, match=f"load: the checkpoint holds a {re.escape(name)}"):
        jaxmkl.load(path)


def test_a_class_with_other_fields_is_named(path, monkeypatch):
    learner = own_learner()
    jaxmkl.save(path, learner, learner.init(jax.random.key(0), NUM_INPUTS))
    name = pytree.qualified_name(Shrinkage)
    monkeypatch.setitem(pytree.REGISTERED, name, jaxmkl.Confidence)
    message = (
        rf"{re.escape(name)} has the fields \['max_skips', 'tolerance'\] here and \['factor'\]"
    )
    with pytest.raises(ValueError, match=message):
        jaxmkl.load(path)


@dataclasses.dataclass(frozen=True)
class Unregistered:
    factor: float = 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shrinkage": Unregistered()}, r"save: learner\.shrinkage must be.*got Unregistered"),
        ({"parts": (1, abs)}, r"save: learner\.parts\[1\] must be a number.*got <built-in"),
        ({"parts": ({"a": 1},)}, r"save: learner\.parts\[0\] must be a number.*got \{'a': 1\}"),
        ({"title": b"bytes"}, r"save: learner\.title must be a number.*got b'bytes'"),
    ],
    ids=["class", "function", "dictionary", "bytes"],
)
def test_what_cannot_be_described_is_refused(changes, message, path):
    learner = own_learner(**changes)
    state = own_learner().init(jax.random.key(0), NUM_INPUTS)
    with pytest.raises(ValueError, match=message):
        jaxmkl.save(path, learner, state)
    assert list(path.parent.iterdir()) == []


def test_tracers_are_refused(path):
    learner = own_learner()
    state = learner.init(jax.random.key(0), NUM_INPUTS)

    @jax.jit
    def trace(factor):
        jaxmkl.save(path, dataclasses.replace(learner, shrinkage=Shrinkage(factor)), state)

    with pytest.raises(
        ValueError, match=r"save: learner\.shrinkage\.factor must be a number.*trac"
    ):
        trace(0.5)
    with pytest.raises(jax.errors.TracerArrayConversionError):
        jax.jit(lambda state: jaxmkl.save(path, learner, state))(state)
    assert list(path.parent.iterdir()) == []


# --- going on from a checkpoint ------------------------------------------------------------------


# At cut 7 the uninterrupted run ends with a block of padding, and the resumed one does not.
# A failure is not shrunk, as each cut is compiled.
@hypothesis.settings(max_examples=2, phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate])
@hypothesis.example(cut=7)
@given(cut=st.integers(1, NUM_EXAMPLES - 1))
def test_a_resumed_run_goes_on_bit_for_bit(tmp_path_factory, cut):
    """Least squares with a period, a sample, draws and a budget, cut anywhere."""
    X, y = data()
    inner = jaxmkl.FeatureMKL(
        jaxmkl.Gaussian((0.5, 2.0)),
        jaxmkl.FourierFeatures(3, scale="mean"),
        (jaxmkl.RLS(0.1, 0.99, period=8),),
        jaxmkl.AdaptiveKernelSelection(0.5),
        jaxmkl.Confidence(0.05, 1),
        hedge_rate=1.0,
    )
    learner = jaxmkl.label_budget(jaxmkl.scaled(inner, jaxmkl.RunningRanks(capacity=4)), 16)
    state = learner.init(jax.random.key(0), NUM_INPUTS)
    whole = jaxmkl.run(learner, state, X, y, block_size=8)
    state, first = jaxmkl.run(learner, state, X[:cut], y[:cut], block_size=8)
    path = tmp_path_factory.mktemp("resume") / "checkpoint.npz"
    jaxmkl.save(path, learner, state)
    learner, state = jaxmkl.load(path)
    state, second = jaxmkl.run(learner, state, X[cut:], y[cut:], block_size=8)
    assert_same(state, whole[0])
    for field in ("prediction", "loss", "queried"):
        parts = [np.asarray(getattr(outputs, field)) for outputs in (first, second)]
        np.testing.assert_array_equal(np.concatenate(parts), getattr(whole[1], field))


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["checkpoint", "state.ckpt", "a.npz", "ünïcode und Leerzeichen"])
@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["string", "path"])
def test_the_file_is_where_it_was_asked_for(name, kind, tmp_path):
    learner = small()
    state = learner.init(jax.random.key(0), NUM_INPUTS)
    jaxmkl.save(kind(tmp_path / name), learner, state)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert_same(jaxmkl.load(kind(tmp_path / name))[1], state)


def test_a_bare_name_is_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    learner = small()
    jaxmkl.save("checkpoint", learner, learner.init(jax.random.key(0), NUM_INPUTS))
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]


def test_saving_again_replaces(path):
    learner = small()
    jaxmkl.save(path, learner, learner.init(jax.random.key(0), NUM_INPUTS))
    other = small(step_size=0.5)
    state = after_a_while(other)
    jaxmkl.save(path, other, state)
    assert_same(jaxmkl.load(path), (other, state))


def test_the_file_is_an_ordinary_one(path):
    """Plain arrays in an npz, no pickles; and readable by whom the user's settings say."""
    learner = small()
    state = after_a_while(learner)
    jaxmkl.save(path, learner, state)
    with np.load(path, allow_pickle=False) as archive:
        frequencies = archive["state.frequencies"]
        header = json.loads(bytes(archive["header"]))
    np.testing.assert_array_equal(frequencies, state.frequencies)
    assert header["version"] == 1
    ordinary = path.with_name("ordinary")
    ordinary.write_text("")
    assert oct(path.stat().st_mode) == oct(ordinary.stat().st_mode)


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt], ids=["disk", "interrupt"])
@pytest.mark.parametrize("where", ["np.savez", "os.fsync", "os.replace", "amid np.savez"])
@pytest.mark.parametrize("before", [True, False], ids=["old file", "no file"])
def test_a_save_that_fails_leaves_what_was_there(where, before, error, path, monkeypatch):
    learner = small()
    state = learner.init(jax.random.key(0), NUM_INPUTS)
    if before:
        jaxmkl.save(path, learner, state)
    found = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    assert len(found) == before

    def fail(*arguments, **named):
        raise error("no more space")

    def fail_amid(file, **arrays):
        file.write(b"half of a file")
        file.flush()
        fail()

    if where == "amid np.savez":
        monkeypatch.setattr(np, "savez", fail_amid)
    else:
        monkeypatch.setattr(np if where == "np.savez" else os, where.split(".")[1], fail)
    with pytest.raises(error, match="no more space"):
        jaxmkl.save(path, small("amkl"), after_a_while(small("amkl")))
    monkeypatch.undo()
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == found
    if before:
        assert_same(jaxmkl.load(path), (learner, state))


def test_the_file_is_written_beside_its_place(path, monkeypatch):
    """From another file system it would be copied, and an interruption leave half of it."""
    moves = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *move: (moves.append(move), replace(*move)))
    learner = small()
    jaxmkl.save(path, learner, learner.init(jax.random.key(0), NUM_INPUTS))
    ((source, target),) = moves
    assert os.path.dirname(source) == os.path.dirname(target) == str(path.parent)
    assert source != target


def test_missing_files_and_folders(path):
    with pytest.raises(FileNotFoundError, match=re.escape(path.name)):
        jaxmkl.load(path)
    learner = small()
    with pytest.raises(FileNotFoundError):
        jaxmkl.save(path.parent / "none" / "x", learner, learner.init(jax.random.key(0), 2))


# Each writes a file that is no checkpoint.
OTHER_FILES = {
    "empty": lambda file: None,
    "text": lambda file: file.write(b"0.1,0.2\n" * 50),
    "archive of text": lambda file: zipfile.ZipFile(file, "w").writestr("a.txt", "a"),
    "npz": lambda file: np.savez(file, X=np.zeros(3)),
    "objects": lambda file: np.savez(file, header=np.array([None])),
    "header of numbers": lambda file: np.savez(file, header=np.arange(3)),
    "header of bytes": lambda file: np.savez(file, header=np.full(4, 255, np.uint8)),
    "header of a list": lambda file: np.savez(file, header=np.frombuffer(b"[1]", np.uint8)),
    "header of another": lambda file: np.savez(file, header=np.frombuffer(b"{}", np.uint8)),
    "npy": lambda file: np.save(file, np.zeros(3)),
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_other_files_are_refused(name, path):
    with path.open("wb") as file:
        OTHER_FILES[name](file)
    with pytest.raises(ValueError, match=rf"load: {re.escape(str(path))}.*checkpoint"):
        jaxmkl.load(path)


def test_truncated_files_are_refused(saved, path):
    content, _, _ = saved
    for length in [*range(0, len(content), 61), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=rf"load: {re.escape(str(path))} is no"):
            jaxmkl.load(path)


def test_damaged_files_are_refused_or_not_damaged_where_it_matters(saved, path):
    """One bit is wrong, anywhere in the file."""
    content, learner, state = saved
    errors = {}
    refused = 0
    start = content.rindex(b"PK\x05\x06")
    directory = content.index(b"PK\x01\x02")
    places = [*range(0, directory, 23), *range(directory, start, 3), *range(start, len(content))]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            loaded = jaxmkl.load(path)
        except ValueError:
            refused += 1
        except Exception as error:
            errors.setdefault(f"{type(error).__name__}: {error}", place)
        else:
            assert_same(loaded, (learner, state))
    assert refused > len(places) / 2
    assert errors == {}


def rewritten(content, path, change):
    """The checkpoint with its header and arrays changed."""
    path.write_bytes(content)
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(bytes(arrays["header"]))
    change(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays)


def set_item(key, value):
    return lambda header, arrays: header.__setitem__(key, value)


CHANGES = {
    "newer version": (
        set_item("version", 2),
        "version up to 1; got 'jaxmkl checkpoint' of ver.* 2",
    ),
    "another format": (set_item("format", "tune"), "must be a jaxmkl checkpoint.*got 'tune'"),
    "array missing": (
        lambda header, arrays: arrays.pop("state.log_weights"),
        r"load: the state must be one of the learner's; it lacks \['state\.log_weights'\]",
    ),
    "array too many": (
        lambda header, arrays: arrays.update({"state.more": np.zeros(2, np.float32)}),
        r"and has \['state\.more'\] besides",
    ),
    "array of another shape": (
        lambda header, arrays: arrays.update({"state.log_weights": np.zeros(5, np.float32)}),
        r"load: state\.log_weights must have shape \(2,\); got \(5,\)",
    ),
    "array of another type": (
        lambda header, arrays: arrays.update({"state.selected": np.zeros(2, np.int32)}),
        r"load: state\.selected must be bool; got int32",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_contents_are_checked(name, saved, path):
    change, message = CHANGES[name]
    rewritten(saved[0], path, change)
    with pytest.raises(ValueError, match=message):
        jaxmkl.load(path)


def test_rewriting_alone_is_no_damage(saved, path):
    """So the refusals above are due to the changes."""
    rewritten(saved[0], path, lambda header, arrays: None)
    assert_same(jaxmkl.load(path), saved[1:])


# --- like ----------------------------------------------------------------------------------------


def test_like_a_learner_with_other_numbers(saved, path):
    """The checkpoint's numbers are loaded, not those of ``like``."""
    path.write_bytes(saved[0])
    like = small("amkl", tolerance=0.7, step_size=np.float32(0.3), max_skips=jnp.asarray(4.0))
    loaded, state = jaxmkl.load(path, like=like)
    assert_same((loaded, state), saved[1:])
    assert loaded.labelling.tolerance == 0.1


UNLIKE = {
    "class of a part": (
        lambda: small("raker"),
        [r"learner\.labelling is Confidence\(.*in the checkpoint and Always\(\) in like"],
    ),
    "class": (
        lambda: jaxmkl.label_budget(small("amkl"), 3),
        [r"learner is FeatureMKL\(.*in the checkpoint and LabelBudget\("],
    ),
    "static field": (
        lambda: dataclasses.replace(small("amkl"), features=jaxmkl.FourierFeatures(7)),
        [r"learner\.features\.num_features is 3 in the checkpoint and 7 in like"],
    ),
    "shape": (
        lambda: jaxmkl.amkl(jaxmkl.Gaussian((1.0, 2.0, 3.0)), num_features=3),
        [r"learner\.kernels\.bandwidth has shape \(2,\) in the checkpoint and \(3,\) in like"],
    ),
    "number of parts": (
        lambda: dataclasses.replace(small("amkl"), rules=(jaxmkl.OGD(0.1), jaxmkl.OGD(0.2))),
        [r"learner\.rules has 1 parts in the checkpoint and 2 in like"],
    ),
    "number where there was none": (
        lambda: dataclasses.replace(small("amkl"), bound=1.0),
        [r"learner\.bound is None in the checkpoint and 1\.0 in like"],
    ),
    "all at once": (
        lambda: small("omkl_aks", loss="hinge"),
        [
            r"learner\.selection is AllKernels\(\) in the checkpoint and AdaptiveKernelSelection",
            r"learner\.labelling is Confidence",
            r"learner\.loss is 'squared' in the checkpoint and 'hinge' in like",
            r"learner\.task is 'regression' in the checkpoint and 'classification' in like",
        ],
    ),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_unlike_learners_are_told_apart(name, saved, path):
    make, messages = UNLIKE[name]
    path.write_bytes(saved[0])
    with pytest.raises(ValueError, match="the checkpoint is not like the learner given") as error:
        jaxmkl.load(path, like=make())
    for message in messages:
        assert re.search(message, str(error.value)), str(error.value)
    # the difference is told the other way round too
    other = make()
    jaxmkl.save(path, other, other.init(jax.random.key(0), NUM_INPUTS))
    assert_same(jaxmkl.load(path, like=make())[0], other)
    with pytest.raises(ValueError, match="the checkpoint is not like the learner given"):
        jaxmkl.load(path, like=saved[1])
