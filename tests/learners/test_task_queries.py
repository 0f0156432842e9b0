"""Many tasks on one dictionary: which labels are asked for, and what is made of them."""

import jax
import numpy as np
import pytest

from jaxmkl import raker
from jaxmkl.streaming import run_many
from jaxmkl.tables import with_tasks
from jaxmkl.wrappers import RunningMoments, label_budget, scaled
from tests.common.task_streams import NUM_INPUTS, begin, examples, make, rounds, scanned_rounds

SMALL_PROGRAMS = True


@pytest.mark.endless
def test_the_first_question_is_certain():
    """For each seed, whether or not the first example enters the dictionary."""
    learner = make(h=0.0)
    task, X, y = examples(5, 3)
    X = with_tasks(task, X).astype(np.float32)
    keys = jax.random.split(jax.random.key(0), 64)
    states, outputs = run_many(learner, keys, X[:1], y[:1])
    assert outputs.queried.all()
    assert 0 < int(states.dictionary.number.sum()) < 64


@pytest.mark.slow
@pytest.mark.parametrize("budget", [0, 25])
def test_a_budget_is_hard_in_rounds(budget):
    """The same until it is spent; where more is wanted than is left, the first tasks get it."""
    bare, learner = make(h=0.3), label_budget(make(h=0.3), budget)
    X, y, present = (np.asarray(v, np.float32) for v in rounds(60, 3))
    _, free = scanned_rounds(bare, begin(bare, np.float32), X, y, present)
    start = learner.init(jax.random.key(1), 1 + NUM_INPUTS)
    state, outputs = scanned_rounds(learner, start, X, y, present)
    assert int(state.remaining) == 0
    wanted = np.flatnonzero(free.queried)
    assert len(wanted) > budget
    last = wanted[budget - 1] if budget else -1
    asked = np.flatnonzero(outputs.queried)
    np.testing.assert_array_equal(asked, wanted[:budget])
    upto = last // 3 + 1  # its round's predictions come before its labels
    np.testing.assert_array_equal(outputs.prediction[:upto], free.prediction[:upto])
    assert np.isfinite(np.asarray(outputs.prediction)[present > 0]).all()


@pytest.mark.slow
def test_the_smallest_of_budgets_counts():
    within = label_budget(label_budget(make(), 4), 9)
    X, y, present = (np.asarray(v, np.float32) for v in rounds(10, 3, share=2.0))
    state, outputs = scanned_rounds(within, within.init(jax.random.key(0), 4), X, y, present)
    asked = np.asarray(outputs.queried)
    np.testing.assert_array_equal(np.flatnonzero(asked), np.arange(4))
    assert (int(state.remaining), int(state.inner.remaining)) == (5, 0)


def test_a_learner_without_rounds_says_so():
    for inner in (raker(num_features=2), scaled(make(), RunningMoments())):
        learner = label_budget(inner, 5)
        state = learner.init(jax.random.key(0), 1 + NUM_INPUTS)
        with pytest.raises(ValueError, match="LabelBudget: learner must be a learner with rounds"):
            learner.round(state, (np.zeros((3, NUM_INPUTS)), np.ones(3), np.ones(3, bool)))
