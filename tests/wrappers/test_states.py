"""States of all wrappers: buffers of their own, counters, and types in bfloat16."""

import jax
import jax.numpy as jnp
import pytest

import jaxmkl
from jaxmkl import wrappers
from tests.common.trees import is_key

SMALL_PROGRAMS = True

NUMBERS = jaxmkl.raker(jaxmkl.Gaussian(1.0), num_features=2)
CLASSES = jaxmkl.raker(jaxmkl.Gaussian(1.0), num_features=2, loss="logistic")
WRAPPERS = {
    "moments": wrappers.scaled(NUMBERS, wrappers.RunningMoments()),
    "ranks": wrappers.scaled(NUMBERS, wrappers.RunningRanks(3)),
    "targets": wrappers.scaled_targets(NUMBERS, clip=5.0),
    "budget": wrappers.label_budget(NUMBERS, 5),
    "delayed": wrappers.delayed(NUMBERS, 2),
    "lagged": wrappers.lagged(NUMBERS, 2, 1),
    "intervals": wrappers.intervals(NUMBERS),
    "predictive": wrappers.predictive(NUMBERS),
    "one against the rest": wrappers.one_vs_rest(CLASSES, 3),
    "probabilities": wrappers.probabilities(CLASSES),
}


def types(tree):
    return [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)]


@pytest.mark.slow  # the first states are compiled
@pytest.mark.parametrize("name", WRAPPERS)
def test_a_new_state_may_be_donated(name):
    state = WRAPPERS[name].init(jax.random.key(0), 2)
    leaves = [leaf for leaf in jax.tree.leaves(state) if not is_key(leaf)]
    places = [leaf.unsafe_buffer_pointer() for leaf in leaves]
    assert len(set(places)) == len(places)


@pytest.mark.slow  # the first states are compiled
@pytest.mark.parametrize("name", WRAPPERS)
def test_a_state_has_all_counters(name):
    learner = wrappers.label_budget(WRAPPERS[name], 5)
    state = learner.init(jax.random.key(0), 2)
    for counter in ("round", "invalid", "outlying", "nonfinite"):
        count = getattr(state, counter)
        assert (count.shape, count.dtype, int(count)) == ((), jnp.int32, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRAPPERS)
def test_rounds_in_bfloat16(name):
    learner = WRAPPERS[name]
    state = learner.init(jax.random.key(0), 2, jnp.bfloat16)
    step = jax.jit(learner.step).trace(state, (jnp.ones(2), 1))
    step.lower()  # LAPACK has no bfloat16
    after, output = step.out_info
    assert types(after) == types(state)
    kinds = {leaf.dtype.name for leaf in jax.tree.leaves(output)}
    assert kinds - {"bool", "int32"} == {"bfloat16"}
