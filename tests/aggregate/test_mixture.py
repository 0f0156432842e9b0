"""Mixture and Stack: against NumPy in double precision, and what they are indifferent to."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import abilities, losses
from jaxmkl.aggregate import Hedge, Mixture, Stack
from jaxmkl.updates import OGD, RLS
from tests.common.trees import begin, scan
from tests.oracles import mixture as oracle

SMALL_PROGRAMS = True
E, PERIOD = 5, 8
MEMORIES = (1.0, 0.9)
RULES = RLS((0.5, 2.0), (1.0, 0.9), period=PERIOD)


@functools.cache
def said(num_rounds=60, scale=1.0):
    """Values (T, E), labels (T,), who speaks, who is judged (T, E)."""
    rng = np.random.default_rng(0)
    y = np.sin(np.arange(num_rounds) / 5) + 0.1 * rng.normal(size=num_rounds)
    values = y[:, None] * rng.uniform(0, 2, E) + rng.normal(size=(num_rounds, E))
    values[10, 2], values[25, 0] = 1e6, -1e6
    active, judged = rng.random((2, num_rounds, E)) < 0.7
    active[:, 0] = True
    judged[3] = False
    return values, y, active, judged


@functools.partial(jax.jit, static_argnames=("loss", "dtype"))
def play(rule, values, y, active, judged, loss, dtype=jnp.float64):
    """Predictions (T,) and weights (T, E)."""

    def turn(state, example):
        t, v, label, who, of = example
        combined, aux = rule.predict(state, v, who, ())
        state = rule.update(state, aux, label, losses.LOSSES[loss], of, t)
        return rule.close(state, 1, t + 1), (combined.value, combined.weights)

    rounds = jnp.arange(len(y), dtype=jnp.int32)
    stream = rounds, values.astype(dtype), y.astype(dtype), active, judged
    return jax.lax.scan(turn, rule.init(values.shape[1], dtype), stream)[1]


@pytest.mark.parametrize(
    ("loss", "bound"), [("logistic", 1.0), pytest.param("squared", None, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("stacked", [False, True])
def test_oracle(stacked, loss, bound, x64):
    values, y, active, judged = said()
    y = np.where(y > 0, 1.0, -1.0) if loss == "logistic" else y
    rule = Mixture(MEMORIES, bound)
    numpy_rule = oracle.Mixture(E, MEMORIES, loss, bound)
    below = numpy_rule
    if stacked:
        rule = Stack(rule, RULES, bound)
        rules = [(0.5, 1.0, 10.0, PERIOD), (2.0, 0.9, 10.0, PERIOD)]
        numpy_rule = oracle.Stack(below, E, rules, loss, bound)
    predictions, weights = play(rule, values, y, active, judged, loss)
    for t in range(len(y)):
        turn = (t,) if stacked else ()
        np.testing.assert_allclose(weights[t], below.weights(), rtol=1e-9, atol=1e-12)
        wanted = numpy_rule.combine(*turn, values[t], active[t])
        np.testing.assert_allclose(predictions[t], wanted, rtol=1e-9, atol=1e-11)
        if judged[t].any():
            numpy_rule.learn(y[t], judged[t])


@pytest.mark.endless
def test_blocks_divide_the_periods_of_stacks_on_stacks(x64):
    stacks = Stack(Stack(rule=RLS(1.0, period=12)), RLS(1.0, period=32))
    features = jaxmkl.features.FourierFeatures(4)
    bank = jaxmkl.models.FeatureModels(jaxmkl.Gaussian([0.5, 2.0]), OGD(0.1), features)
    learner = jaxmkl.MKL(bank, stacks)
    assert learner.period == 4
    X = np.random.default_rng(0).normal(size=(60, 2))
    state = begin(learner, dtype=np.dtype("float64"))
    wanted = scan(learner, state, X, X[:, 0])[1].prediction
    found = jaxmkl.run(learner, state, X, X[:, 0])[1].prediction
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.endless
def test_in_single_precision(x64):
    rule = Stack(Mixture(), RULES)
    double, single = (
        play(rule, *said(), "squared", dtype=dtype)[0] for dtype in (jnp.float64, jnp.float32)
    )
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, double, atol=2e-3)


def test_a_mixture_has_no_units(x64):
    values, y, active, judged = said()
    one = play(Mixture(), values, y, active, judged, "squared")[0]
    other = play(Mixture(), 1e4 + 1e3 * values, 1e4 + 1e3 * y, active, judged, "squared")[0]
    np.testing.assert_allclose(other[1:], 1e4 + 1e3 * one[1:], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("base", [Mixture(), Hedge(1.0)])
def test_a_stack_corrects_what_no_convex_combination_can(base, x64):
    """Two models that are both half of the label: their sum is it."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=300)
    values = np.column_stack([y / 2 + rng.normal(size=300) * s for s in (0.1, 0.1, 1, 1, 1)])
    everyone = np.ones((300, E), bool)
    errors = [
        np.mean((play(rule, values, y, everyone, everyone, "squared")[0] - y)[100:] ** 2)
        for rule in (base, Stack(base, RULES))
    ]
    assert errors[0] > 0.2 > 0.05 > errors[1]


def correlated(num_rounds=2000, share=0.8):
    """Inputs (T, 1) that tell nothing, and labels of variance 1, each a share of the last one."""
    rng = np.random.default_rng(0)
    shocks, y = rng.normal(size=num_rounds) * np.sqrt(1 - share**2), np.zeros(num_rounds)
    for t in range(1, num_rounds):
        y[t] = share * y[t - 1] + shocks[t]
    return rng.normal(size=(num_rounds, 1)), y


@pytest.mark.endless
@pytest.mark.parametrize("delay", [0, 3])
def test_a_stack_knows_the_last_labels_that_are_known(delay, x64):
    """With labels d rounds late the least possible error is 1 - .8^(2 d + 2); .985 for d = 3 if
    the share of the last label were learned as if it were not late. The model hardly learns: one
    that follows late labels would know of later ones when an example is learned."""
    X, y = correlated()
    bank = jaxmkl.models.FeatureModels(jaxmkl.Gaussian(1.0), OGD(0.001))
    errors = []
    for lags in (0, 3):
        learner = jaxmkl.MKL(bank, Stack(lags=lags))
        state = begin(learner, num_inputs=1, dtype=np.dtype("float64"))
        state, outputs = jaxmkl.run(learner, state, X, y, delay=delay)
        errors.append(outputs.loss[200:].mean() / y[200:].var())
    assert errors[0] > 0.97
    assert errors[1] < (1 - 0.8 ** (2 * delay + 2)) * 1.06


@pytest.mark.slow
def test_an_example_out_of_order_follows_no_label(x64):
    X, y = correlated(200)
    learner = jaxmkl.MKL(jaxmkl.models.FeatureModels(jaxmkl.Gaussian(1.0), OGD(0.1)), Stack())
    state = begin(learner, num_inputs=1, dtype=np.dtype("float64"))
    state, _ = jaxmkl.run(learner, state, X, y)
    other = state.replace(aggregate=state.aggregate._replace(last=state.aggregate.last + 3.0))
    apart = [abilities.out_of_order(learner, each) for each in (state, other)]
    said = [learner.predict(each, X[0]).value for each in (state, other, *apart)]
    assert abs(said[0] - said[1]) > 0.5
    assert said[2] == said[3]


@pytest.mark.slow
def test_a_model_that_explodes_spoils_nothing(x64):
    values, y, _, judged = said()
    everyone = np.ones_like(judged)
    for broken in (np.inf, -np.inf, np.nan):
        worse = values.copy()
        worse[20:, 1] = broken
        for rule in (Mixture(), Stack(Mixture(), RULES)):
            predictions = play(rule, worse, y, everyone, everyone, "squared")[0]
            assert np.isfinite(predictions).all()
            assert np.abs(predictions[40:]).max() < 6


@pytest.mark.endless
def test_parameters_have_derivatives(x64):
    values, y, active, judged = said()

    @jax.jit
    @jax.grad
    def slopes(rule):
        predictions, _ = play(rule, values, y, active, judged, "squared")
        return jnp.mean((predictions - y) ** 2)

    found = slopes(Stack(Mixture(MEMORIES, 1.0), RULES, 1.0))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
    for leaf in (found.rule.regularization, found.rule.forgetting, found.base.memories):
        assert np.abs(leaf).max() > 0


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: Mixture(memories=0.0), "memories"),
        (lambda: Mixture(bound=-1.0), "bound"),
        (lambda: Stack(base=0.5), "base"),
        (lambda: Stack(rule=jaxmkl.updates.OGD()), "rule"),
    ],
)
def test_errors(make, argument):
    with pytest.raises(ValueError, match=argument):
        make()


@pytest.mark.endless
def test_short_memories_carry_the_prediction_after_a_change():
    """By the information of a composed learner, with one output and with two."""
    X = np.random.default_rng(1).normal(size=(600, 2)).astype(np.float32)
    y = np.where(np.arange(600) < 400, 1.0, -1.0) * np.sin(X[:, 0])
    y = y.astype(np.float32)
    banks = jaxmkl.models.FeatureModels(
        jaxmkl.Gaussian(1.0), (OGD(0.1), RLS(0.1, (1.0, 0.9))), jaxmkl.features.FourierFeatures(8)
    )
    top = Stack(Mixture((1.0, 0.9)), RLS(10.0, (1.0, 0.99)))
    for targets in (y, np.stack([y, y], axis=1)):
        K = None if targets.ndim == 1 else 2
        learner = jaxmkl.MKL(banks, top, num_outputs=K)
        state = learner.init(jax.random.key(0), 2)
        before, _ = jaxmkl.run(learner, state, X[:400], targets[:400])
        after, _ = jaxmkl.run(learner, before, X[400:460], targets[400:460])
        one, other = learner.info(before).shares, learner.info(after).shares
        assert (one.memories.shape, one.stacks.shape) == ((2,), (3,))
        for of in (*one, *other):
            np.testing.assert_allclose(np.sum(of), 1.0, atol=1e-6)
        assert other.memories[1] > one.memories[1] + 0.2
    assert jaxmkl.raker().info(jaxmkl.raker().init(jax.random.key(0), 2)).shares is None
