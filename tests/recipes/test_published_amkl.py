"""Hong and Chae's learners as published: every round against the NumPy oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from feature_cases import PAPER_BANDWIDTHS, check_outputs, check_state, ogd, run_oracle, wave

import jaxmkl
from jaxmkl.recipes import published
from tests.common.marks import long
from tests.common.trees import everything

SMALL_PROGRAMS = FEW_ROWS = True

NUM_EXAMPLES = 120
# section V: (57), with λ = 0.01 in (18) and so in (22) and (39); (58) and above; (59)
RATE, PENALTY = NUM_EXAMPLES**-0.5, 0.01
ALL = {
    "rules": [ogd(RATE, 2 * PENALTY)],
    "hedge_rate": RATE,
    "penalty": PENALTY,
    "feature_scale": "mean",
}
ADAPTIVE, ACTIVE = {"threshold": 0.8}, {"tolerance": 0.0005, "max_skips": 1}
PAPER = {
    "raker": ALL,
    "omkl_aks": ALL | ADAPTIVE,
    "amkl": ALL | ACTIVE,
    "amkl_aks": ALL | ADAPTIVE | ACTIVE,
}


def both(name, X, y):
    """The learner's state and outputs, and what the oracle did with its frequencies and draws."""
    learner = published(name, num_examples=len(y), num_inputs=X.shape[1])
    start = learner.init(jax.random.key(3), X.shape[1], dtype=jnp.float64)
    assert start.models[0].frequencies.shape == (17, 50, X.shape[1])
    expected = run_oracle(learner, PAPER[name], PAPER_BANDWIDTHS, start, X, y)
    state, outputs = jaxmkl.run(learner, start, X, y, record=everything)
    return learner, state, outputs, expected


@pytest.mark.slow
@pytest.mark.parametrize("name", long(["amkl_aks"], PAPER))
def test_every_round_is_the_papers(name, x64):
    X, y = wave(NUM_EXAMPLES, seed=4)
    y = np.where(np.arange(NUM_EXAMPLES) < 40, 0.0, 3 * y)  # models agree as long as all are 0
    learner, state, outputs, expected = both(name, X, y)
    check_outputs(outputs, expected)
    check_state(learner, state, expected)
    sizes = expected.selected.sum(axis=1)
    assert (len(np.unique(sizes)) > 3) == name.endswith("aks")
    if name.startswith("amkl"):
        # every other label, from the first on, and then many in a row
        np.testing.assert_array_equal(expected.queried[:40], np.arange(40) % 2 == 0)
        assert expected.queried[41:].mean() > 0.8
    if name == "raker":  # the penalty changes the weights by more than agreement allows
        free = run_oracle(learner, ALL | {"penalty": 0.0}, PAPER_BANDWIDTHS, state, X, y)
        assert np.abs(free.weights - expected.weights).max() > 1e-4
