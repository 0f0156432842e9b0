"""OKS-SIL: against the NumPy oracle, and what it promises besides."""

from typing import NamedTuple

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxmkl
from jaxmkl import oks_sil
from jaxmkl.kernels.scaled import of_codes
from jaxmkl.learners.sketch import _by_rotations, _coefficients, draw_places
from tests.common.marks import long
from tests.common.selection_streams import (
    CAUCHY,
    HIGH,
    LOW,
    PAPER_SETS,
    PRECISION,
    TWO,
    WIDTH,
    Case,
    assert_finite,
    begin,
    box,
    check_zero_rate,
    draws,
    keyless,
    numbers_of,
    paper_stream,
    parameters_of_two,
    raw,
    stream,
    theta_of_rounds,
    trajectory,
    two_gaussians,
    widths,
)
from tests.oracles import oks as oracle

SMALL_PROGRAMS = FEW_ROWS = True

BUDGET = 25

CASES = {
    "one width": Case(widths(), {"rate": 3.0}, PRECISION),
    "oldest": Case(widths(), {"rate": 3.0, "ties": "oldest"}, PRECISION),
    "sketches": Case(widths(), {"rate": 3.0, "gradients": "sketches"}, PRECISION),
    "a width for each input": Case(widths(per_input=True), {"rate": 30.0}, PRECISION),
    "each width, which the steps are of": Case(
        widths(0.45, per_input=True, coordinate="bandwidth"), {"rate": 1.0, "samples": 2}, WIDTH
    ),
    "Cauchy": Case(
        box(jaxmkl.Cauchy, (0.4,), (0.1,), (10.0,)),
        {"rate": 1.0},
        CAUCHY,
        lambda kernel: np.exp(kernel.bandwidth),
    ),
    "two Gaussians, squared": Case(
        box(two_gaussians, (0.4, 0.5, 0.3, 0.6), LOW, HIGH),
        {"rate": 1.0, "eta": 0.1, "nu": 0.8, "loss": "squared"},
        TWO,
        parameters_of_two,
    ),
}
# names of the oracle's arguments
NAMES = {"eta": "step_size", "nu": "threshold", "samples": "num_sampled"}


def both_of(case, **changes):
    """The learner, and the oracle of a start's parameters."""
    arguments = {"budget": BUDGET, "eta": 0.5, "nu": 0.9, "rate": 1.0, "samples": 3}
    arguments |= case.arguments | changes
    named = {NAMES.get(key, key): value for key, value in arguments.items() if key != "rate"}
    optimizer = jaxmkl.optimizers.InverseTime(arguments["rate"])
    learner = oks_sil(case.space, optimizer=optimizer, **named)
    return learner, lambda theta: oracle.HypothesisSketch(theta, **case.plain, **arguments)


# --- the oracle ----------------------------------------------------------------------------------


class Expected(NamedTuple):
    """The oracle's record; all but predictions and its actions (T,) are from before each round."""

    prediction: np.ndarray
    did: np.ndarray
    since: np.ndarray
    weights: np.ndarray
    theta: np.ndarray


def run_oracle(sketch, X, y, u):
    """All rounds, with the places of (T, B) that are empty at -1 and 0."""
    T, B = len(X), sketch.budget
    since, weights = np.full((T, B), -1), np.zeros((T, B))
    predictions, did, theta = [], [], []
    for t, example in enumerate(zip(X, y, u, strict=True)):
        n = len(sketch.rows)
        since[t, :n], weights[t, :n] = np.array(sketch.rounds, int) - 1, sketch.weights
        theta.append(sketch.theta)
        predictions.append(sketch.step(*example))
        did.append(sketch.did)
    return Expected(np.array(predictions), np.array(did), since, weights, np.array(theta))


def check(case, X, y, at_least, **changes):
    """The learner's rounds are the oracle's; each thing to do was done ``at_least`` so often."""
    learner, make = both_of(case, **changes)
    start = begin(learner, X.shape[1])
    sketch = make(case.theta(start.coordinates))
    expected = run_oracle(sketch, X, y, draws(start, len(X), learner.num_sampled))
    end, outputs, states = trajectory(learner, start, X, y)

    np.testing.assert_allclose(outputs.prediction, expected.prediction, rtol=1e-9, atol=1e-9)
    taken = np.arange(learner.budget) < np.asarray(states.number)[:, None]
    np.testing.assert_array_equal(np.where(taken, states.since, -1), expected.since)
    np.testing.assert_allclose(states.weights, expected.weights, rtol=1e-9, atol=1e-9)
    theta = theta_of_rounds(case.theta, states.coordinates)
    np.testing.assert_allclose(theta, expected.theta, rtol=1e-8)

    np.testing.assert_array_equal(end.rows, sketch.rows)
    np.testing.assert_array_equal(end.rows, X[np.asarray(end.since)])
    np.testing.assert_allclose(end.weights, sketch.weights, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(case.theta(end.coordinates), sketch.theta, rtol=1e-8)
    assert int(end.round) == len(X)
    check_zero_rate(learner, end, outputs)
    counts = [int(np.sum(expected.did == what)) for what in ("replaced", "compensated")]
    assert min(counts) >= at_least, counts
    assert np.abs(theta / theta[0] - 1).max() > 0.02, "the kernel moved"


QUICK = ("sketches",)


@pytest.mark.slow
@pytest.mark.parametrize("name", long(QUICK, CASES))
def test_agrees_with_the_oracle(name, x64):
    check(CASES[name], *stream(), at_least=25)


# width of the start and step size of the width, so that examples are both near and far
PAPER = {"german": (0.7, 3.0), "svmguide3": (0.25, 30.0), "spambase": (0.25, 100.0)}


@pytest.mark.endless
@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "budget"),
    long(
        [("one width", 150)], [("one width", 150), ("oldest", 40), ("a width for each input", 40)]
    ),
)
@pytest.mark.parametrize("data", long(["german"], PAPER_SETS))
def test_agrees_with_the_oracle_on_the_papers_data(data, budget, name, data_dir, x64):
    width, rate = PAPER[data]
    space = widths(width, per_input=CASES[name].space.per_input)
    case = CASES[name]._replace(space=space)
    check(case, *paper_stream(data, data_dir), at_least=25, budget=budget, rate=rate)


@pytest.mark.parametrize("values", [(0.0, 1.0, 0.0, 3.0), (0.0,) * 4])
@pytest.mark.parametrize("exponents", [False, True])
def test_places_are_drawn_as_the_oracle_draws_them(values, exponents, x64):
    """By codes that are values, and by exponents of which 800 is 0 in double precision."""
    values = np.array(values)
    codes = -np.log(np.where(values > 0, values, np.exp(-800.0) + 5e-324)) if exponents else values
    codes = np.where(values > 0, codes, 800.0 if exponents else 0.0)
    draw = jax.jit(jax.vmap(draw_places, in_axes=(None, None, 0)))
    given = of_codes(jnp.asarray(codes), exponents)
    u = np.random.default_rng(0).random((200, 3))
    taken = np.ones(4, bool)
    drawn = draw(given, taken, u)
    np.testing.assert_array_equal(drawn, [oracle.draw(values, one) for one in u])
    # places that are not taken are not drawn
    taken[1] = False
    drawn = draw(given, taken, u)
    left = np.flatnonzero(taken)
    np.testing.assert_array_equal(drawn, [left[oracle.draw(values[left], one)] for one in u])


@pytest.mark.slow
def test_rotations_project_as_the_pseudoinverse_does():
    """For points that are distinct, close, or the same; close to NumPy's in double precision."""
    draws, cutoff = np.random.default_rng(0), 1e-5
    Z = draws.normal(size=(300, 4, 3)) / 10.0 ** draws.uniform(0, 2, size=(300, 1, 1))
    Z[::3, 1] = Z[::3, 0]
    Z[::9, 2] = Z[::9, 0]
    Z[1] = 0.0
    scales = 10.0 ** draws.uniform(-8, 8, size=(300, 1, 1))
    K = scales * np.exp(-np.square(Z[:, :, None] - Z[:, None]).sum(axis=-1) / 2)
    K = K.astype(np.float32)
    found = jax.jit(jax.vmap(lambda K, k: _by_rotations(K, k, cutoff)))(K[:, :3, :3], K[:, :3, 3])
    for each, (among, values) in zip(
        np.asarray(found), ((k[:3, :3], k[:3, 3]) for k in K), strict=True
    ):
        among, values = among.astype(float), values.astype(float)
        shares = np.linalg.eigvalsh(among) / among[0, 0]
        if np.any((shares > cutoff / 2) & (shares < 2 * cutoff)):
            continue  # which of them count is for rounding to say
        wanted = np.linalg.pinv(among, rcond=cutoff, hermitian=True) @ values
        error = 3e-6 / shares[shares > cutoff].min() * np.abs(wanted).max()
        np.testing.assert_allclose(each, wanted, rtol=0, atol=error)


# --- range ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("space", long(["KernelBox"], ["GaussianWidths", "KernelBox"]))
def test_inputs_at_the_bound_do_not_hold_the_kernel(space):
    """Squares of differences overflow; near examples move the kernel all the same."""
    X, y = raw("bound", 8)
    X[10:] = np.random.default_rng(6).normal(size=(70, 8))
    learner = oks_sil(
        widths(1.0) if space == "GaussianWidths" else CASES["Cauchy"].space,
        budget=40,
        step_size=1.0,
        optimizer=jaxmkl.optimizers.FromOptax("adam", 0.01),
    )
    start = begin(learner, 8, np.float32)
    state, outputs, states = trajectory(learner, start, X, y)
    assert_finite((keyless(state), outputs))
    assert set(range(10)) <= set(state.since.tolist()) | {0}
    coordinates = numbers_of(states.coordinates)
    np.testing.assert_array_equal(coordinates[:12], coordinates[0])
    assert np.all(coordinates[12:40] != coordinates[13:41])


# --- bounds --------------------------------------------------------------------------------------


@pytest.mark.slow
@hypothesis.settings(max_examples=10)
@given(
    rate=st.floats(1.0, 1e6),
    spread=st.floats(1.0, 30.0),
    eta=st.floats(0.01, 10.0),
    sign=st.sampled_from([-1.0, 1.0]),
)
def test_widths_stay_in_their_space(rate, spread, eta, sign):
    """Whatever pushes them: all labels equal, or alternating on what is near."""
    with jax.enable_x64(True):
        space = jaxmkl.kernels.GaussianWidths(0.5 / spread, 0.5 * spread, start=0.5)
        learner = oks_sil(
            space, budget=BUDGET, step_size=eta, optimizer=jaxmkl.optimizers.InverseTime(rate)
        )
        X, y = stream()
        start = begin(learner, X.shape[1])
        end, outputs, states = trajectory(learner, start, X, np.where(sign > 0, y, sign))
        gamma = np.append(np.asarray(states.coordinates), np.asarray(end.coordinates))
        assert gamma.min() >= 0.5 / (0.5 * spread) ** 2 * (1 - 1e-14)
        assert gamma.max() <= 0.5 / (0.5 / spread) ** 2 * (1 + 1e-14)
        assert np.isfinite(outputs.prediction).all()


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"threshold": 1.1}, "threshold"),
        ({"threshold": "high"}, "threshold"),
        ({"num_sampled": 0}, "num_sampled"),
        ({"budget": 2}, "num_sampled"),
        ({"ties": "newest"}, "ties"),
        ({"gradients": "printed"}, "gradients"),
    ],
)
def test_bad_arguments_are_named(arguments, wanted):
    with pytest.raises(ValueError, match=rf"HypothesisSketch: {wanted} must be .*; got "):
        oks_sil(**arguments)


@pytest.mark.parametrize("number", [3, 5])
def test_projections_in_bfloat16(number):
    """For which LAPACK has no eigenvalues."""
    K = jnp.eye(number, dtype=jnp.bfloat16)
    found = jax.jit(_coefficients)(K, K[0] / 2)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.float32(found), np.eye(number)[0] / 2)
