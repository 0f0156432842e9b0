"""Checkpoints: what is saved comes back bit for bit, and nothing else is taken for it."""

import dataclasses
import functools
import re
from typing import Any, NamedTuple

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from saved_learners import NUM_INPUTS, after_a_while, assert_same, data, small

import jaxmkl
from jaxmkl import _pytree as pytree
from jaxmkl import features, models, query, select, updates, wrappers
from jaxmkl._learner import Prediction

SMALL_PROGRAMS = True


def variants():
    """Every learner of the registry, every wrapper, and fields of every kind."""
    made = {name: functools.partial(small, name) for name in jaxmkl.LEARNERS}
    made["classes"] = lambda: small(
        "expert_mkl",
        task="classification",
        select=select.AdaptiveKernelSelection(0.3),
        query=query.Disagreement(0.1, np.inf),
    )
    made["a dictionary"] = lambda: jaxmkl.omkl_aks(
        jaxmkl.KernelDictionary((jaxmkl.Gaussian(0.3), jaxmkl.Laplacian((1.0, 2.0)))),
        num_features=3,
        orthogonal=False,
        step_size=jnp.array([0.1, 0.3]),
        loss="logistic",
    )
    made["label_budget"] = lambda: jaxmkl.label_budget(small("amkl"), 7)
    made["moments"] = lambda: jaxmkl.scaled(small("raker"), wrappers.RunningMoments())
    adam = jaxmkl.optimizers.FromOptax("adam", 0.01)
    made["an optimizer"] = lambda: small("oks_sil", optimizer=adam)
    made["nested"] = lambda: jaxmkl.label_budget(
        jaxmkl.scaled(
            jaxmkl.scaled(small("amkl_aks", tolerance=0.1), wrappers.RunningRanks(capacity=5)),
            wrappers.RunningMoments(),
        ),
        15,
    )
    return made


VARIANTS = variants()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.npz"


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
        for dtype in (np.float32, np.float64):
            state = after_a_while(learner, dtype)
            jaxmkl.save(path, learner, state)
            loaded, resumed = jaxmkl.load(path)
            assert_same((loaded, resumed), (learner, state))
            assert learner.dtype(resumed) == dtype
    with pytest.raises(ValueError, match=r"load: the checkpoint is in float64.*jax_enable_x64"):
        jaxmkl.load(path)


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_keys_keep_their_implementation(implementation, path):
    learner = jaxmkl.scaled(small("omkl_aks"), wrappers.RunningRanks(capacity=3))
    state = after_a_while(learner, key=jax.random.key(5, impl=implementation))
    jaxmkl.save(path, learner, state)
    _, resumed = jaxmkl.load(path)
    assert str(jax.random.key_impl(resumed.inner.key)) == implementation
    assert str(jax.random.key_impl(resumed.scaler.key)) == implementation
    assert_same(resumed, state)


@pytest.mark.slow
@hypothesis.settings(max_examples=15)
@given(
    st.floats(0, 0.09),
    st.floats(0, allow_nan=False),
    st.lists(st.floats(0, 0.9), min_size=1, max_size=3),
    st.integers(0, 2**31 - 1),
)
def test_numbers_lose_no_bit(tmp_path_factory, regularization, tolerance, step_sizes, budget):
    learner = jaxmkl.MKL(
        models.FeatureModels(
            jaxmkl.Gaussian(1.0),
            updates.OGD(step_sizes, regularization),
            features.FourierFeatures(2),
        ),
        query=query.Disagreement(tolerance, np.inf),
    )
    learner = jaxmkl.label_budget(learner, budget)
    path = tmp_path_factory.mktemp("numbers") / "checkpoint"
    jaxmkl.save(path, learner, learner.init(jax.random.key(0), 1))
    assert_same(jaxmkl.load(path)[0], learner)


ODD = {
    "states of many seeds": lambda learner, state: (learner, jax.tree.map(twice, state)),
    "numbers out of range": lambda learner, state: (jax.tree.map(np.negative, learner), state),
    "another learner's state": lambda learner, state: (small("amkl"), state),
    "half precision": lambda learner, state: (
        learner,
        learner.init(jax.random.key(0), NUM_INPUTS, jnp.bfloat16),
    ),
    "stacked learners": lambda learner, state: (jax.tree.map(twice, learner), state),
}


def twice(leaf):
    return jnp.stack([leaf, leaf]) if isinstance(leaf, jax.Array) else np.stack([leaf, leaf])


@pytest.mark.parametrize("case", ODD)
def test_what_can_be_saved_can_be_loaded(case, path):
    learner, state = ODD[case](small(), after_a_while(small()))
    try:
        jaxmkl.save(path, learner, state)
    except ValueError:
        assert not path.exists()
    else:
        assert_same(jaxmkl.load(path), (learner, state))


def test_a_double_number_of_a_learner_is_not_rounded(path):
    with jax.enable_x64(True):
        learner = small(step_size=jnp.asarray(0.1))
        assert learner.models[0].rules[0].step_sizes.dtype == np.float64
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

    def encode(self, state, X, given=None):
        return X

    def predict_code(self, state, code):
        count = jnp.maximum(state.round, 1).astype(state.total.dtype)
        value = self.shrinkage.factor * state.total / count
        return Prediction(value, jnp.asarray(True), jnp.ones_like(value)), ()

    def update_code(self, state, code, aux, y, asked, present):
        after = MeanState(
            state.key,
            state.round + present,
            state.total + jnp.where(asked & present, y, 0),
            jax.tree.map(lambda leaf: leaf + jnp.where(present, code, 0), state.parts),
        )
        return after, asked & present

    def close(self, state, codes):
        return state

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
    assert (loaded.title, loaded.sizes) == ("mean", (1, 2))
    assert (loaded.quick, loaded.missing) == (True, None)
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
    monkeypatch.delitem(pytree._REGISTERED, name)
    with pytest.raises(ValueError, match=f"load: the checkpoint holds a {re.escape(name)}"):
        jaxmkl.load(path)


def test_a_class_with_other_fields_is_named(path, monkeypatch):
    learner = own_learner()
    jaxmkl.save(path, learner, learner.init(jax.random.key(0), NUM_INPUTS))
    name = pytree.qualified_name(Shrinkage)
    monkeypatch.setitem(pytree._REGISTERED, name, query.Disagreement)
    fields = [field.name for field in dataclasses.fields(query.Disagreement)]
    message = re.escape(f"{name} has the fields {sorted(fields)} here")
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
