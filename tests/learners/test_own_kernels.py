"""OKL-GD: against the NumPy oracle, and what it promises besides."""

import jax
import numpy as np
import pytest

import jaxmkl
from jaxmkl import okl_gd
from tests.common.marks import quick
from tests.common.selection_streams import (
    HIGH,
    LOW,
    NUM_EXAMPLES,
    PRECISION,
    TWO,
    WIDTH,
    Case,
    begin,
    box,
    check_zero_rate,
    parameters_of_two,
    stream,
    theta_of_rounds,
    trajectory,
    two_gaussians,
    widths,
)
from tests.oracles import oks as oracle

SMALL_PROGRAMS = FEW_ROWS = True

BUDGET = 60
GAMMA = {"kernel": oracle.GAUSSIAN} | PRECISION
CASES = {
    "one width": Case(widths(coordinate="bandwidth"), {"rate": 0.3}, WIDTH),
    "a width for each input": Case(
        widths(per_input=True, coordinate="bandwidth"), {"rate": 1.0}, WIDTH
    ),
    "steps on the precision, logistic": Case(widths(), {"rate": 30.0, "loss": "logistic"}, GAMMA),
    "two Gaussians, squared": Case(
        box(two_gaussians, (0.4, 0.5, 0.3, 0.6), LOW, HIGH),
        {"rate": 3.0, "eta": 0.05, "loss": "squared"},
        TWO,
        parameters_of_two,
    ),
}


def both_of(case, budget, **changes):
    """The learner, and the oracle of a start's parameters."""
    arguments = {"eta": 0.3, "rate": 1.0} | case.arguments | changes
    learner = okl_gd(
        case.space,
        budget=budget,
        step_size=arguments["eta"],
        optimizer=jaxmkl.optimizers.InverseTime(arguments["rate"]),
        loss=arguments.get("loss", "hinge"),
    )
    return learner, lambda theta: oracle.OwnKernels(
        theta, memory=budget, **case.plain, **arguments
    )


def check(case, X, y, budget, **changes):
    """The learner's rounds are the oracle's; some had nothing to learn, and centres had to go."""
    learner, make = both_of(case, budget, **changes)
    start = begin(learner, X.shape[1])
    plain = make(case.theta(start.coordinates))
    predictions, came, theta = [], [0], []
    for example in zip(X, y, strict=True):
        theta.append(plain.theta)
        newest = plain.centres[-1] if plain.centres else None
        predictions.append(plain.step(*example))
        came.append(came[-1] + (plain.centres[-1] is not newest))
    end, outputs, states = trajectory(learner, start, X, y)

    np.testing.assert_allclose(outputs.prediction, predictions, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(states.came, came[:-1])
    np.testing.assert_allclose(theta_of_rounds(case.theta, states.coordinates), theta, rtol=1e-8)
    np.testing.assert_allclose(case.theta(end.coordinates), plain.theta, rtol=1e-8)
    assert np.abs(np.array(theta) / theta[0] - 1).max() > 0.02, "the kernel moved"
    check_zero_rate(learner, end, outputs)

    # the one of number n is in place n mod M, with its own kernel
    assert int(end.came) == came[-1]
    n = len(plain.centres)
    places = np.arange(came[-1] - n, came[-1]) % budget
    np.testing.assert_array_equal(end.rows[places], [centre.x for centre in plain.centres])
    wanted = [centre.coefficient for centre in plain.centres]
    np.testing.assert_allclose(end.weights[places], wanted, rtol=1e-9, atol=1e-9)
    own = theta_of_rounds(case.theta, jax.tree.map(lambda leaf: leaf[places], end.own))
    np.testing.assert_allclose(own, [centre.theta for centre in plain.centres], rtol=1e-8)
    assert len(np.unique(own, axis=0)) > n / 2, "kernels differ"
    return came[-1]


@pytest.mark.parametrize("name", quick(list(CASES)[:1], CASES))
def test_agrees_with_the_oracle(name, x64):
    came = check(CASES[name], *stream(), BUDGET)
    assert came > 1.5 * BUDGET
    if CASES[name].arguments.get("loss", "hinge") == "hinge":
        assert came < NUM_EXAMPLES - 30


def test_widths_stay_in_their_space(x64):
    X, y = stream()
    for rate, lower, upper in ((1e4, 0.4, 0.6), (100.0, 0.3, 3.0), (1e8, 0.5, 0.5)):
        space = jaxmkl.kernels.GaussianWidths(lower, upper, 0.5, coordinate="bandwidth")
        learner = okl_gd(space, budget=BUDGET, optimizer=jaxmkl.optimizers.InverseTime(rate))
        end, _, states = trajectory(learner, begin(learner, X.shape[1]), X, y)
        width = np.append(states.coordinates, end.own)
        assert lower == width.min() or rate < 1e4
        assert lower <= width.min() <= width.max() <= upper
