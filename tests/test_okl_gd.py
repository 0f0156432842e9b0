"""OKL-GD: against the NumPy oracle, and what it promises besides."""

import jax
import numpy as np
import pytest
from oracles import oks as oracle
from selection_streams import (
    CAUCHY,
    HIGH,
    LOW,
    NUM_EXAMPLES,
    PAPER_SETS,
    PRECISION,
    TWO,
    WIDTH,
    Case,
    assert_finite,
    begin,
    box,
    check_zero_rate,
    mistakes,
    paper_stream,
    parameters_of_two,
    raw,
    stream,
    theta_of_rounds,
    trajectory,
    two_gaussians,
    widths,
)

import jaxmkl

SMALL_PROGRAMS = True

BUDGET = 60
GAMMA = {"kernel": oracle.GAUSSIAN} | PRECISION
CASES = {
    "one width": Case(widths(coordinate="bandwidth"), {"rate": 0.3}, WIDTH),
    "a width for each input": Case(
        widths(per_input=True, coordinate="bandwidth"), {"rate": 1.0}, WIDTH
    ),
    "steps on the precision, logistic": Case(widths(), {"rate": 30.0, "loss": "logistic"}, GAMMA),
    "Cauchy": Case(
        box(jaxmkl.Cauchy, (0.4,), (0.1,), (10.0,)),
        {"rate": 3.0},
        CAUCHY,
        lambda kernel: np.exp(kernel.bandwidth),
    ),
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
    learner = jaxmkl.okl_gd(
        case.space,
        budget=budget,
        step_size=arguments["eta"],
        optimizer=jaxmkl.InverseTime(arguments["rate"]),
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


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_oracle(name, x64):
    came = check(CASES[name], *stream(), BUDGET)
    assert came > 1.5 * BUDGET
    if CASES[name].arguments.get("loss", "hinge") == "hinge":
        assert came < NUM_EXAMPLES - 30


# width of the start and step size of the width
PAPER = {"german": (0.7, 1.0), "svmguide3": (0.25, 0.3), "spambase": (0.25, 0.3)}


@pytest.mark.data
@pytest.mark.parametrize("budget", [200, 2000])
@pytest.mark.parametrize("data", PAPER_SETS)
def test_agrees_with_the_oracle_on_the_papers_data(data, budget, data_dir, x64):
    width, rate = PAPER[data]
    case = CASES["one width"]._replace(space=widths(width, coordinate="bandwidth"))
    came = check(case, *paper_stream(data, data_dir), budget, rate=rate)
    assert came > 300


# --- first principles ----------------------------------------------------------------------------


def test_by_hand(x64):
    """Widths of which k = 2^-r² at first; the slope of the newest centre is a k r² / σ³."""
    sigma = (0.5 / np.log(2.0)) ** 0.5
    learner = jaxmkl.okl_gd(
        widths(sigma, coordinate="bandwidth"),
        budget=2,
        step_size=0.5,
        optimizer=jaxmkl.InverseTime(0.25),
    )
    X, y = np.array([[0.0], [1.0], [3.0]]), np.array([1.0, 1.0, -1.0])
    end, outputs, states = trajectory(learner, begin(learner, 1), X, y)
    second = sigma + 0.25 / 2 * 0.5 * 0.5 / sigma**3
    k = np.exp(-4 / (2 * second**2))
    third = second - 0.25 / 3 * 0.5 * k * 4 / second**3
    np.testing.assert_allclose(outputs.prediction, [0, 0.25, 0.5 * 2**-9 + 0.5 * k], rtol=1e-12)
    np.testing.assert_allclose(states.coordinates, [sigma, sigma, second], rtol=1e-12)
    # the third took the first one's place
    np.testing.assert_allclose(end.own, [third, second], rtol=1e-12)
    np.testing.assert_allclose(end.rows, [[3.0], [1.0]])
    np.testing.assert_allclose(end.weights, [-0.5, 0.5])
    assert outputs.info.support.tolist() == [0, 1, 2]
    np.testing.assert_allclose(learner.info(end).parameters, third)


def test_blocks_change_nothing(x64):
    X, y = stream()
    learner, _ = both_of(CASES["one width"], BUDGET)
    start = begin(learner, X.shape[1])
    end, outputs, _ = trajectory(learner, start, X, y)
    state, by_blocks = jaxmkl.run(
        learner, start, X, y, block_size=128, record=lambda output: output
    )
    for one, other in ((outputs, by_blocks), (end._replace(key=0), state._replace(key=0))):
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_single_precision_stays_near_double():
    X, y = stream()
    learner, _ = both_of(CASES["one width"], BUDGET)
    wrong = {}
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            start = begin(learner, X.shape[1], dtype)
            end, outputs, _ = trajectory(learner, start, X.astype(dtype), y.astype(dtype))
            assert outputs.prediction.dtype == dtype
            assert_finite((end._replace(key=None), outputs))
            wrong[dtype] = mistakes(y, outputs)
    assert np.sum(wrong[np.float32] != wrong[np.float64]) <= 3
    assert wrong[np.float32].mean() < 0.3
    # as many numbers as at the start
    assert [leaf.shape for leaf in jax.tree.leaves(end)] == [
        leaf.shape for leaf in jax.tree.leaves(start)
    ]


@pytest.mark.parametrize("kind", [1e4, 1e15, "bound", "whole numbers"])
def test_far_examples_are_finite_and_say_nothing(kind):
    """Every kernel value is 0: every prediction is, and that is a mistake."""
    X, y = raw(kind)
    space = jaxmkl.GaussianWidths(start=1.0, coordinate="bandwidth")
    learner = jaxmkl.okl_gd(space, budget=20, optimizer=jaxmkl.Optax("adam", 0.01))
    state, outputs, states = trajectory(learner, begin(learner, X.shape[1], np.float32), X, y)
    assert_finite((state._replace(key=None), outputs))
    np.testing.assert_array_equal(outputs.prediction, 0)
    assert mistakes(y, outputs).all()
    assert float(learner.info(state).zero_rate) == 1
    assert int(state.invalid) == 0
    assert int(state.came) == len(X)
    np.testing.assert_array_equal(states.coordinates, 1)


def test_widths_stay_in_their_space(x64):
    X, y = stream()
    for rate, lower, upper in ((1e4, 0.4, 0.6), (100.0, 0.3, 3.0), (1e8, 0.5, 0.5)):
        space = jaxmkl.GaussianWidths(lower, upper, 0.5, coordinate="bandwidth")
        learner = jaxmkl.okl_gd(space, budget=BUDGET, optimizer=jaxmkl.InverseTime(rate))
        end, _, states = trajectory(learner, begin(learner, X.shape[1]), X, y)
        width = np.append(states.coordinates, end.own)
        assert lower == width.min() or rate < 1e4
        assert lower <= width.min() <= width.max() <= upper


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"space": jaxmkl.Gaussian(1.0)}, "space"),
        ({"space": 1.0}, "space"),
        ({"budget": 0}, "budget"),
        ({"budget": 10.0}, "budget"),
        ({"step_size": -0.1}, "step_size"),
        ({"step_size": np.inf}, "step_size"),
        ({"optimizer": "sgd"}, "optimizer"),
        ({"loss": "cubic"}, "loss"),
    ],
)
def test_bad_arguments_are_named(arguments, wanted):
    with pytest.raises(ValueError, match=rf"OwnKernels: {wanted} must be .*; got "):
        jaxmkl.okl_gd(**arguments)
