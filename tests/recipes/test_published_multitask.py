"""The published setting of many tasks, against a float64 loop of the paper's formulas."""

import dataclasses

import numpy as np
import pytest

import jaxmkl
from jaxmkl.query import All, Margin, Random, Uncertainty
from jaxmkl.recipes import published
from jaxmkl.recipes.settings.multitask import SETTINGS
from jaxmkl.streaming import run
from jaxmkl.tables import with_tasks
from tests.common.marks import long
from tests.common.task_streams import (
    NUM_INPUTS,
    all_draws,
    begin,
    covariances,
    examples,
    rounds,
    scanned_rounds,
)
from tests.oracles.multitask import Dictionary, MultiTask
from tests.oracles.support_mkl import gaussian

SMALL_PROGRAMS = True

K = 3
ACTIVE = {"query": Uncertainty(0.2, 1.0)}, {"asking": "unsure", "h": 0.2}


def variant(**ours):
    """Deviations from the published setting, as the library and as the oracle call them."""
    return ours, {name.replace("update_on", "update"): value for name, value in ours.items()}


def active(variant):
    """The variant that asks for labels as in Theorem 2."""
    return tuple(of_variant | asking for of_variant, asking in zip(variant, ACTIVE, strict=True))


# Nothing; the rule of Lemma 3; labels asked for as in Theorem 2; and every other choice that there
# is, alone and with some of the others.
VARIANTS = {
    "published": variant(),
    "Lemma 3": variant(update_on="mistake"),
    "Theorem 2": active(variant()),
    "local": variant(components="local"),
    "global": variant(components="global"),
    "mixed": variant(components="mixed"),
    "squared hinge": variant(loss="squared_hinge"),
    "mixed, squared hinge": variant(components="mixed", loss="squared_hinge"),
    "unsure": variant(update_on="unsure"),
    "updated": variant(covariance="updated"),
    "queried": variant(covariance="queried"),
    "restart": variant(growth="restart"),
    "Theorem 2, Lemma 3": active(variant(update_on="mistake")),
    "Theorem 2, unsure, updated": active(variant(update_on="unsure", covariance="updated")),
    "Theorem 2, mixed, queried": active(variant(components="mixed", covariance="queried")),
    "margin": ({"query": Margin(0.3)}, {"asking": "margin", "h": 0.3}),
    "chance": ({"query": Random(0.4)}, {"asking": "chance", "h": 0.4}),
}
ASKING = {name for name, (ours, _) in VARIANTS.items() if "query" in ours}


def learners(name):
    """The learner for K tasks, and the oracle with the numbers of the published setting."""
    ours, plain = VARIANTS[name]
    learner = published("multitask", num_examples=200, num_inputs=1 + NUM_INPUTS)
    learner = dataclasses.replace(learner, num_tasks=K, **ours)
    setting = {"noise": 1.0, "inertia": 1.0, "loss": "hinge", "components": "both"}
    setting |= {"update": "margin", "covariance": "always", "growth": "extend"}
    dictionary = Dictionary(gaussian(1.0), 100, 1.0, 1.0, 0.5, 1e-8)
    return learner, MultiTask(K, dictionary, **(setting | plain))


def assert_same_state(learner, state, oracle):
    kept = slice(int(not oracle.overall), None if oracle.local else 1)
    assert int(state.dictionary.number) == len(oracle.dictionary.points) > 10
    np.testing.assert_allclose(state.means, oracle.means[kept], rtol=0, atol=1e-9)
    if learner.components == "mixed":
        np.testing.assert_allclose(state.alone, oracle.alone, rtol=0, atol=1e-9)
        weights = learner.info(state).weights
        np.testing.assert_allclose(weights, oracle.weights(), rtol=0, atol=1e-9)
    sigma = np.linalg.inv(oracle.precisions[kept])
    np.testing.assert_allclose(covariances(learner, state), sigma, rtol=0, atol=1e-9)


def test_the_setting_is_the_papers():
    learner = published("multitask", num_examples=10, num_inputs=3)
    assert (learner.loss, learner.components) == ("hinge", "both")
    assert (learner.covariance, learner.update_on) == ("always", "margin")
    assert isinstance(learner.query, All)
    (setting,) = SETTINGS.values()
    named = {constant.name for constant in setting.constants}
    fields = {field.name for field in dataclasses.fields(learner)} - {"dictionary", "rate"}
    fields |= {field.name for field in dataclasses.fields(learner.dictionary)}
    assert fields <= named, "a constant without a source"
    assert all(constant.source for constant in setting.constants)
    assert isinstance(learner, jaxmkl.learners.MultiTask)


@pytest.mark.endless
@pytest.mark.parametrize("name", long(["published"], VARIANTS))
def test_agrees_with_the_oracle(name, x64):
    """Predictions, questions, means and covariances, of one example a round."""
    learner, oracle = learners(name)
    task, X, y = examples(120, K)
    start, table = begin(learner), with_tasks(task, X)
    state, outputs = run(learner, start, table, y)
    uniform = np.asarray(all_draws(start, np.arange(len(X)), table), np.float64)
    said = [
        oracle.step({k: (x, label)}, {k: tuple(u)})[k]
        for k, x, label, u in zip(task.tolist(), X, y, uniform, strict=True)
    ]
    exactly = {"rtol": 0, "atol": 1e-9}
    np.testing.assert_allclose(outputs.prediction, [one.value for one in said], **exactly)
    np.testing.assert_allclose(outputs.variance, [one.variance for one in said], **exactly)
    np.testing.assert_array_equal(outputs.queried, [one.asked for one in said])
    assert outputs.queried.all() == (name not in ASKING)
    assert_same_state(learner, state, oracle)


@pytest.mark.slow
@pytest.mark.parametrize("name", long(["published"], VARIANTS))
def test_rounds_of_all_tasks_agree_with_the_oracle(name, x64):
    """As the paper has it: one example of each task a round."""
    learner, oracle = learners(name)
    X, y, present = rounds(60, K, share=2.0)
    start = begin(learner)
    state, outputs = scanned_rounds(learner, start, X, y, present)
    table = with_tasks(np.tile(np.arange(K), 60), X.reshape(60 * K, -1))
    uniform = np.asarray(all_draws(start, np.repeat(np.arange(60), K), table), np.float64)
    for t, chances in enumerate(uniform.reshape(60, K, 2)):
        given = {k: (X[t, k], y[t, k]) for k in range(K)}
        said = oracle.step(given, {k: tuple(chances[k]) for k in range(K)})
        values = [said[k].value for k in range(K)]
        np.testing.assert_allclose(outputs.prediction[t], values, rtol=0, atol=1e-9)
        assert outputs.queried[t].tolist() == [said[k].asked for k in range(K)]
    assert_same_state(learner, state, oracle)
