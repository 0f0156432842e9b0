"""Labels in words: a class keeps its meaning, or the words are refused."""

import jax
import numpy as np
import pytest

import jaxmkl
from jaxmkl.labels import class_numbers, labels
from jaxmkl.streaming import Stream
from tests.common.trees import assert_equal

SMALL_PROGRAMS = True
KERNELS = jaxmkl.Gaussian([0.5, 2.0])
TWO = jaxmkl.raker(KERNELS, num_features=4, loss="hinge")
THREE = jaxmkl.raker(KERNELS, num_features=4, loss="hinge", num_classes=3)
X = np.random.default_rng(5).normal(size=(12, 2)).astype(np.float32)
PETS = np.array(["cat", "dog"] * 6)
FISH = np.array(["dog", "eel"] * 6)
TREES = np.array(["ash", "elm", "oak"] * 4)
OTHERS = np.array(["elm", "fir", "oak"] * 4)
CONTINUED = "y must hold numbers or booleans where a state is continued"


def begin(learner):
    return learner.init(jax.random.key(1), 2)


def several(learner, number=2):
    return jax.tree.map(lambda leaf: jax.numpy.stack([leaf] * number), begin(learner))


@pytest.mark.parametrize(
    ("learner", "first", "then"),
    [
        (TWO, PETS, FISH),
        (TWO, PETS, PETS),  # two words may be the same by chance; a state does not know
        (TWO, PETS == "dog", FISH),
        (TWO, (PETS == "dog").astype(int), FISH.astype(object)),
        (TWO, np.ones(12), [word.encode() for word in FISH]),
        (THREE, TREES, OTHERS),
        (THREE, np.arange(12) % 3, OTHERS),
    ],
)
def test_a_state_that_is_continued_takes_no_words(learner, first, then, tmp_path):
    state, _ = jaxmkl.run(learner, begin(learner), X, first)
    call = r"labels\(y, classes\)" if learner is TWO else r"class_numbers\(y, 3, classes\)"
    with pytest.raises(ValueError, match=f"{CONTINUED}; got words, .* pass .*{call}"):
        jaxmkl.run(learner, state, X, then)
    with pytest.raises(ValueError, match=f"chunk 0: {CONTINUED}"):
        next(jaxmkl.stream(learner, state, [(X, then)]))
    jaxmkl.save(tmp_path / "it.npz", learner, state)
    with pytest.raises(ValueError, match=CONTINUED):
        jaxmkl.run(*jaxmkl.load(tmp_path / "it.npz"), X, then)


@pytest.mark.endless
def test_so_do_the_states_of_many_runs_and_of_fleets():
    many, words = np.stack([X, X]), np.stack([PETS, PETS])
    states, _ = jaxmkl.run_many(TWO, jax.random.split(jax.random.key(0), 2), X, PETS)
    one_is_new, _ = jaxmkl.run_fleet(TWO, several(TWO), many, words, lengths=[0, 3])
    for continued in (states, one_is_new):
        with pytest.raises(ValueError, match=CONTINUED):
            jaxmkl.run_fleet(TWO, continued, many, words)
    with pytest.raises(ValueError, match=CONTINUED):
        jaxmkl.run(TWO, jax.tree.map(lambda leaf: leaf[0], states), X, FISH)


def test_inside_a_trace_a_state_may_be_continued():
    with pytest.raises(ValueError, match=f"{CONTINUED}, or may be, as inside a trace"):
        jax.jit(lambda state: jaxmkl.run(TWO, state, X, PETS))(begin(TWO))


@pytest.mark.parametrize(
    ("learner", "words", "read"),
    [
        (TWO, np.where(np.arange(12) % 4 < 3, "dog", "cat"), labels),
        (THREE, TREES, lambda y, classes=None: class_numbers(y, 3, classes)),
    ],
)
def test_a_stream_in_parts_is_the_stream(learner, words, read):
    """By classes that are kept, also of parts that have one class."""
    _, classes = read(words)
    whole, _ = jaxmkl.run(learner, begin(learner), X, words)
    state, _ = jaxmkl.run(learner, begin(learner), X[:5], read(words[:5], classes)[0])
    for part in (slice(5, 6), slice(6, 12)):
        state, _ = jaxmkl.run(learner, state, X[part], read(words[part], classes)[0])
    assert_equal(state, whole)


def test_words_keep_their_meaning_in_a_stream():
    whole, _ = jaxmkl.run(TWO, begin(TWO), X, PETS)
    for kind in (str, bytes, object, np.dtypes.StringDType()):
        words = PETS.astype(kind)
        pushed, state = Stream(TWO), begin(TWO)
        for part in (slice(0, 4), slice(4, 5), slice(5, 12)):
            state, _ = pushed.push(state, X[part], words[part])
        assert_equal(state, whole)
        with pytest.raises(ValueError, match=r"chunk 3: labels: y must be of the classes .*eel"):
            pushed.push(state, X, FISH.astype(kind))


def test_a_stream_that_begins_in_numbers_takes_no_words():
    for first in (PETS == "dog", np.ones(12), np.array([1, None] * 6), np.ones(12, object)):
        pushed = Stream(TWO, gaps=True)
        state, _ = pushed.push(begin(TWO), X, first)
        with pytest.raises(ValueError, match=f"chunk 1: {CONTINUED}"):
            pushed.push(state, X, PETS)


def test_a_stream_may_begin_without_labels():
    for nothing in (np.full(12, None), np.full(12, np.nan)):
        pushed = Stream(TWO, gaps=True)
        state, _ = pushed.push(begin(TWO), X, nothing)
        state, _ = pushed.push(state, X, PETS)
        numbers = [(X, np.full(12, np.nan)), (X, PETS == "dog")]
        *_, (expected, _) = jaxmkl.stream(TWO, begin(TWO), numbers, gaps=True)
        assert_equal(state, expected)


def test_numbers_among_python_objects_are_numbers():
    """A chunk that has one class does not say what the other one is called."""
    chunks = [(X[:2], np.array([1, None])), (X[2:4], np.array([0, 1], object))]
    *_, (state, _) = jaxmkl.stream(TWO, begin(TWO), chunks, gaps=True)
    numbers = [(X[:2], np.array([1, np.nan])), (X[2:4], np.array([0, 1]))]
    *_, (expected, _) = jaxmkl.stream(TWO, begin(TWO), numbers, gaps=True)
    assert_equal(state, expected)


def test_a_refused_chunk_gives_words_no_meaning():
    pushed, state = Stream(TWO), begin(TWO)
    with pytest.raises(ValueError, match="chunk 0: X must"):
        pushed.push(state, np.full_like(X, np.inf), FISH)
    assert_equal(pushed.push(state, X, PETS)[0], jaxmkl.run(TWO, state, X, PETS)[0])
