"""Many tasks on one dictionary: which labels are asked for, and what is made of them."""

import jax
import numpy as np
import pytest
from task_streams import NUM_INPUTS, begin, examples, make, rounds, scanned_rounds

from jaxmkl import raker
from jaxmkl.query import Margin, Random, Uncertainty
from jaxmkl.streaming import run, run_many
from jaxmkl.tables import with_tasks
from jaxmkl.wrappers import RunningMoments, label_budget, scaled

SMALL_PROGRAMS = True


def played(learner, num_examples=400):
    task, X, y = examples(num_examples, 3)
    X = with_tasks(task, X).astype(np.float32)
    return run(learner, begin(learner, np.float32), X, y.astype(np.float32))


@pytest.mark.slow
def test_the_first_question_is_certain():
    """Of each seed, whether the first example comes into the dictionary or not."""
    learner = make(h=0.0)
    task, X, y = examples(5, 3)
    X = with_tasks(task, X).astype(np.float32)
    keys = jax.random.split(jax.random.key(0), 64)
    states, outputs = run_many(learner, keys, X[:1], y[:1])
    assert outputs.queried.all()
    assert 0 < int(states.dictionary.number.sum()) < 64


@pytest.mark.slow
@pytest.mark.parametrize("rule", [Uncertainty, Margin])
def test_more_is_asked_for_with_a_larger_h(rule):
    shares = [
        float(played(make(query=rule(h), update_on="unsure"))[1].queried.mean())
        for h in (0.0, 0.1, 1.0, 1e9, np.inf)
    ]
    assert shares == sorted(shares)
    assert shares[0] < shares[1] < shares[2] < 0.95
    assert shares[3:] == [1, 1]
    full = played(make(update_on="unsure"))[1].prediction
    everything = played(make(query=rule(np.inf), update_on="unsure"))[1].prediction
    np.testing.assert_array_equal(full, everything)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_chance_asks_at_its_rate(rate):
    share = float(played(make(query=Random(rate)), 2000)[1].queried.mean())
    assert abs(share - rate) <= 4 * np.sqrt(rate * (1 - rate) / 2000)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [0, 1, 60])
def test_a_budget_is_hard(budget):
    learner = label_budget(make(h=0.3), budget)
    task, X, y = examples(400, 3)
    state = learner.init(jax.random.key(0), 1 + NUM_INPUTS)
    state, outputs = run(learner, state, with_tasks(task, X), y)
    assert int(outputs.queried.sum()) == budget
    assert int(state.remaining) == 0
    assert np.isfinite(outputs.prediction).all()


@pytest.mark.slow
@pytest.mark.parametrize("budget", [0, 1, 25])
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


@pytest.mark.slow
def test_only_seen_labels_count():
    """Other labels where none was asked for change nothing, bit for bit."""
    learner = make(h=0.1)
    task, X, y = examples(400, 3)
    X = with_tasks(task, X).astype(np.float32)
    y = y.astype(np.float32)
    state, outputs = run(learner, begin(learner, np.float32), X, y)
    asked = np.asarray(outputs.queried)
    assert 20 < asked.sum() < 380
    again, others = run(learner, begin(learner, np.float32), X, np.where(asked, y, -y))
    np.testing.assert_array_equal(outputs.prediction, others.prediction)
    np.testing.assert_array_equal(state.roots, again.roots)
