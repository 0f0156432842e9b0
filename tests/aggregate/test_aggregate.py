"""Aggregates: values, votes and judging by hand; Hedge against exponential weights in NumPy."""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import jaxmkl
from jaxmkl import abilities
from jaxmkl.aggregate import Combination, DrawOne, Hedge, HedgeState, Uniform
from jaxmkl.aggregate.base import sign_kept
from jaxmkl.losses import LOSSES, Hinge
from jaxmkl.models import DenseSupport, SupportModels
from jaxmkl.updates import Perceptron

SMALL_PROGRAMS = True
WEIGHTS = np.array([0.5, 0.3, 0.2])
ALL = np.array([True, True, True])
# p = .8 w + .2 / 3
DRAWN_WITH = np.array([7, 4.6, 3.4]) / 15


def state_of(weights=WEIGHTS):
    return HedgeState(jnp.log(jnp.asarray(weights)))


def value_of(rule, state, values, active=None, noise=()):
    active = None if active is None else jnp.asarray(active)
    return rule.predict(state, jnp.asarray(values), active, noise)[0].value


def judged(rule, state, values, y, loss="hinge", judged=ALL, noise=(), active=None):
    """The state after a label, the weights (E,) then."""
    values = jnp.asarray(values)
    _, aux = rule.predict(state, values, active, noise)
    y, who = jnp.asarray(y, values.dtype), jnp.asarray(judged)
    after = rule.update(state, aux, y, LOSSES[loss], who)
    return after, np.asarray(rule.weights(after))


# --- one prediction from several values ----------------------------------------------------------


@pytest.mark.parametrize("active", [None, ALL, [True, False, True], [False, True, False]])
def test_values_and_votes(active, x64):
    f = [-4.0, 0.0, 2.0]
    share = np.asarray(ALL if active is None else active)
    for make, weights, state in (
        (Uniform, np.full(3, 1 / 3), Uniform().init(3, jnp.float64)),
        (lambda output: Hedge(0.1, output), WEIGHTS, state_of()),
    ):
        # all models have their weight, active ones their share of it
        rule, q = make("value"), weights * share / (weights @ share)
        np.testing.assert_allclose(rule.weights(state), weights, rtol=1e-14)
        combined, _ = rule.predict(state, jnp.asarray(f), None if active is None else share, ())
        np.testing.assert_allclose(combined.value, -4 * q[0] + 2 * q[2], rtol=1e-14)
        np.testing.assert_array_equal(combined.values, f)
        np.testing.assert_allclose(combined.weights, weights, rtol=1e-14)
        assert combined.drawn is None
        # a value of 0 votes +1
        vote = value_of(make("vote"), state, f, active)
        np.testing.assert_allclose(vote, -q[0] + q[1] + q[2], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("cost", "loss", "costs"),
    [
        # y = -1: wrong, wrong at 0, right
        ("mistake", "hinge", [1.0, 1.0, 0.0]),
        ("loss", "hinge", [1.5, 1.0, 0.0]),
        ("loss", "squared", [2.25, 1.0, 1.0]),
    ],
)
def test_hedge_discounts_what_is_judged(cost, loss, costs, x64):
    rule = Hedge(0.7, cost=cost)
    for who in (ALL, np.array([True, False, True]), ~ALL):
        after, weights = judged(rule, state_of(), [0.5, 0.0, -2.0], -1.0, loss, who)
        w = WEIGHTS * np.exp(-0.7 * np.array(costs) * who)
        np.testing.assert_allclose(weights, w / w.sum(), rtol=1e-12)
        assert float(jnp.max(after.log_weights)) == 0


@pytest.mark.slow
def test_where_nobody_is_judged_no_bit_changes():
    state = HedgeState(jnp.asarray([-3.25, 0.0, -0.7], jnp.float32))
    for rule in (Hedge(0.7), DrawOne(0.7)):
        noise = abilities.noise(rule, jax.random.key(0), 3, jnp.float32)
        after, _ = judged(rule, state, [np.inf, 1.0, np.nan], 1.0, judged=~ALL, noise=noise)
        np.testing.assert_array_equal(after.log_weights, state.log_weights)


def test_a_silent_model_is_judged_too(x64):
    """Who speaks has no say in who is judged: all models learn."""
    for active in (None, jnp.array([True, False, False])):
        _, weights = judged(Hedge(0.7), state_of(), [1.0, 0.5, 0.0], 1.0, active=active)
        w = WEIGHTS * np.exp(-0.7 * np.array([0.0, 0.5, 1.0]))
        np.testing.assert_allclose(weights, w / w.sum(), rtol=1e-12)


def test_uniform_judges_nothing():
    state = Uniform().init(3, jnp.float32)
    after, _ = judged(Uniform(), state, np.ones(3), -1.0)
    np.testing.assert_array_equal(after, state)


@pytest.mark.parametrize("rule", [Hedge(0.5, bound=1.0), Hedge(0.5, "vote", bound=1.0)])
def test_values_are_clipped_where_they_are_combined_and_judged(rule, x64):
    combined, _ = rule.predict(state_of(), jnp.array([-4.0, 0.25, 2.0]), None, ())
    clipped = np.array([-1.0, 0.25, 1.0])
    np.testing.assert_array_equal(combined.values, clipped)
    spoken = np.array([-1.0, 1.0, 1.0]) if rule.output == "vote" else clipped
    np.testing.assert_allclose(combined.value, WEIGHTS @ spoken, rtol=1e-14)
    _, weights = judged(rule, state_of(), [-4.0, 0.25, 2.0], 1.0, "squared")
    w = WEIGHTS * np.exp(-0.5 * (clipped - 1) ** 2)
    np.testing.assert_allclose(weights, w / w.sum(), rtol=1e-12)


@pytest.mark.parametrize("lost", [1e6, np.inf, np.nan])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_model_without_weight_stays_silent(lost, dtype):
    """Its weight is 0 and not NaN, whatever its loss was, and it contributes nothing."""
    with jax.enable_x64(dtype == np.float64):
        rule = Hedge(1.0)
        losses = np.array([0.0, lost, 0.5], dtype)
        state, q = judged(rule, rule.init(3, dtype), 1 - losses, 1.0)
        assert q.dtype == dtype
        assert q[1] == 0
        np.testing.assert_allclose(q.sum(), 1, rtol=1e-6)
        for f in (3e38, np.inf, np.nan):
            values = np.asarray([1.0, f, -1.0], dtype)
            got = float(value_of(rule, state, values))
            np.testing.assert_allclose(got, q[0] - q[2], rtol=1e-6)
        later, weights = judged(rule, state, values, 1.0, "squared")
        assert np.isfinite(later.log_weights).all()
        assert weights[1] == 0


@pytest.mark.parametrize("rule", [Hedge(0.5, "vote", "mistake"), DrawOne(0.5, 0.2, "vote")])
def test_a_value_that_is_no_number_is_a_mistake(rule):
    state = rule.init(2, jnp.float32)
    for y in (1.0, -1.0):
        who = np.array([True, True])
        noise = jnp.array(0.0)
        _, weights = judged(rule, state, [np.nan, y], y, judged=who, noise=noise)
        assert weights[0] < 0.5


# --- one is drawn --------------------------------------------------------------------------------


def test_one_is_drawn_by_its_weight(x64):
    """p of .5, .3, .2: cumulative .46667, .77333, 1."""
    rule = DrawOne(0.1, 0.2)
    np.testing.assert_allclose(rule.weights(state_of()), DRAWN_WITH, rtol=1e-12)
    f = jnp.array([-4.0, 0.0, 2.0])
    for noise, wanted in ((0.0, 0), (0.466, 0), (0.467, 1), (0.773, 1), (0.774, 2), (1.0, 2)):
        for output, said in (("value", [-4.0, 0.0, 2.0]), ("vote", [-1.0, 1.0, 1.0])):
            rule = DrawOne(0.1, 0.2, output)
            combined, _ = rule.predict(state_of(), f, None, jnp.array(noise))
            np.testing.assert_array_equal(combined.drawn, np.arange(3) == wanted)
            np.testing.assert_allclose(combined.weights, DRAWN_WITH, rtol=1e-12)
            assert float(combined.value) == said[wanted]


def test_one_of_the_active_is_drawn(x64):
    """By the same p, renormalised."""
    rule, f = DrawOne(0.1, 0.2), jnp.array([-4.0, 0.0, 2.0])
    # the last is drawn by a number that a short dtype has rounded up
    for active, cases in (
        ([True, False, True], ((0.0, 0), (0.673, 0), (0.674, 2), (1.0, 2))),
        ([False, True, True], ((0.0, 1), (0.574, 1), (0.576, 2))),
        ([True, True, False], ((0.0, 0), (0.603, 0), (0.604, 1), (1.0, 1))),
        ([False, True, False], ((0.0, 1), (0.5, 1), (1.0, 1))),
    ):
        p = np.where(active, DRAWN_WITH, 0) / DRAWN_WITH[active].sum()
        for noise, wanted in cases:
            combined, _ = rule.predict(state_of(), f, jnp.array(active), jnp.array(noise))
            np.testing.assert_array_equal(combined.drawn, np.arange(3) == wanted)
            np.testing.assert_allclose(combined.weights, p, rtol=1e-12)
            assert float(combined.value) == float(f[wanted])


@pytest.mark.parametrize("active", [None, [True, False, True]])
@pytest.mark.parametrize("cost", ["mistake", "loss"])
def test_the_one_drawn_is_judged_in_proportion(cost, active, x64):
    """By 1 / p, the probability with which it was drawn; mistakes where it said nothing too."""
    rule = DrawOne(0.7, 0.2, cost=cost)
    p = DRAWN_WITH if active is None else np.where(active, DRAWN_WITH, 0) / (10.4 / 15)
    middles = np.cumsum(p) - p / 2

    @jax.jit
    def after(f, y, noise):
        values = jnp.full(3, f)
        _, aux = rule.predict(
            state_of(), values, None if active is None else jnp.array(active), noise
        )
        return rule.weights(rule.update(state_of(), aux, y, Hinge(), jnp.asarray(ALL)))

    for y, drawn, f in itertools.product((1.0, -1.0), np.flatnonzero(p), (-1.5, 0.0, 1.0)):
        w = WEIGHTS.copy()
        costs = y * f <= 0 if cost == "mistake" else max(0.0, 1 - y * f)
        w[drawn] *= np.exp(-0.7 * costs / p[drawn])
        wanted = 0.8 * w / w.sum() + 0.2 / 3
        np.testing.assert_allclose(after(f, y, middles[drawn]), wanted, rtol=1e-12)


def test_draws_have_their_law_and_are_the_same_in_both_precisions():
    rule, keys = DrawOne(0.1, 0.2), jax.random.split(jax.random.key(0), 20_000)

    def drawn(dtype):
        state = HedgeState(jnp.log(jnp.asarray(WEIGHTS, dtype)))

        def one(key):
            noise = abilities.noise(rule, key, 3, dtype)
            return rule.predict(state, jnp.zeros(3, dtype), None, noise)[0].drawn

        return np.asarray(jax.jit(jax.vmap(one))(keys))

    single = drawn(jnp.float32)
    error = np.sqrt(DRAWN_WITH * (1 - DRAWN_WITH) / len(single))
    assert (np.abs(single.mean(axis=0) - DRAWN_WITH) < 5 * error).all()
    with jax.enable_x64(True):
        # where a number falls on a boundary's rounding they may differ
        assert (drawn(jnp.float64) != single).any(axis=1).sum() <= 2


def test_one_of_the_active_models_is_drawn_by_its_share_of_their_weights():
    rule, active = DrawOne(0.1, 0.2), np.array([True, False, True])
    state = HedgeState(jnp.log(jnp.asarray(WEIGHTS, jnp.float32)))
    p = np.where(active, DRAWN_WITH, 0.0) / DRAWN_WITH[active].sum()
    for noise, wanted in ((0.99 * p[0], 0), (1.01 * p[0], 2)):
        found, _ = rule.predict(state, jnp.zeros(3), jnp.asarray(active), jnp.float32(noise))
        np.testing.assert_allclose(found.weights, p, rtol=1e-6)
        assert np.flatnonzero(found.drawn).tolist() == [wanted]


# --- Hedge over many rounds ----------------------------------------------------------------------

NUM_ROUNDS, NUM_MODELS = 12, 5

losses_of_rounds = hnp.arrays(
    np.float64, (NUM_ROUNDS, NUM_MODELS), elements=st.floats(0, 1e3, allow_subnormal=False)
)
rates = st.floats(0, 10, allow_subnormal=False)


def exponential_weights(total_losses, rate):
    """w = exp(-rate · total loss) / sum, with the smallest total in the exponent's origin."""
    unnormalised = np.exp(-rate * (total_losses - total_losses.min(axis=-1, keepdims=True)))
    return unnormalised / unnormalised.sum(axis=-1, keepdims=True)


def charged(rule, state, losses):
    """The state after these losses (E,): hinge losses of 1 - loss at the label 1."""
    _, aux = rule.predict(state, 1 - losses, None, ())
    who = jnp.ones(losses.shape, bool)
    return rule.update(state, aux, jnp.ones((), losses.dtype), Hinge(), who)


@jax.jit
def run(losses, rate):
    """States (T,) after each round, and their weights (T, E)."""
    rule = Hedge(rate)

    def body(state, loss):
        state = charged(rule, state, loss)
        return state, (state, rule.weights(state))

    return jax.lax.scan(body, rule.init(losses.shape[1], losses.dtype), losses)[1]


@jax.jit
def shares(state, subset):
    """Weights (E,) among those of a subset, by what a model alone would contribute."""

    def share(alone):
        return value_of(Hedge(1.0), state, alone, subset)

    return jax.vmap(share)(jnp.eye(len(subset), dtype=state.log_weights.dtype))


@given(losses_of_rounds, rates)
def test_weights_are_exponential_weights(losses, rate):
    with jax.enable_x64(True):
        states, weights = run(losses, rate)
    expected = exponential_weights(losses.cumsum(axis=0), rate)
    # rate · total loss is up to 1.2e5: its rounding is the error of an exponent
    np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-300)
    np.testing.assert_array_equal(np.max(np.asarray(states.log_weights), axis=1), 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_types_are_kept(dtype):
    with jax.enable_x64(dtype == "float64"):
        for rule in (Uniform(), Hedge(0.5), DrawOne(0.5)):
            state = rule.init(3, jnp.dtype(dtype))
            np.testing.assert_allclose(rule.weights(state), np.full(3, 1 / 3, dtype), rtol=1e-6)
            noise = abilities.noise(rule, jax.random.key(0), 3, jnp.dtype(dtype))
            values = jnp.arange(3.0, dtype=dtype)
            combined, aux = rule.predict(state, values, jnp.asarray(ALL), noise)
            after = rule.update(state, aux, jnp.ones((), dtype), Hinge(), jnp.asarray(ALL))
            for array in (*jax.tree.leaves((state, after, noise)), rule.log_weights(after)):
                assert array.dtype == dtype
                assert not array.weak_type
            for array in (combined.value, combined.values, combined.weights):
                assert array.dtype == dtype
            assert combined.value.shape == ()
            assert combined.weights.shape == rule.weights(after).shape == (3,)


@given(losses_of_rounds, rates, hnp.arrays(bool, NUM_MODELS))
def test_weights_of_those_that_speak_are_renormalised(losses, rate, subset):
    """Also where all of the subset is so bad that its plain weights underflow."""
    subset[2] = True
    total = losses.sum(axis=0)
    with jax.enable_x64(True):
        last = jax.tree.map(lambda leaf: leaf[-1], run(losses, rate)[0])
        restricted = np.asarray(shares(last, subset))
    expected = np.zeros(NUM_MODELS)
    expected[subset] = exponential_weights(total[subset], rate)
    np.testing.assert_allclose(restricted, expected, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("bad", [np.inf, np.nan, np.finfo(np.float32).max])
def test_an_undefined_loss_costs_all_weight_and_no_more(bad):
    rng = np.random.default_rng(0)
    losses = rng.uniform(size=(30, 4)).astype(np.float32)
    losses[10, 1] = bad
    states, weights = run(losses, jnp.float32(2.0))
    weights = np.asarray(weights)
    assert np.isfinite(states.log_weights).all()
    assert (weights[:10, 1] > 0).all()
    np.testing.assert_array_equal(weights[10:, 1], 0)
    others = [0, 2, 3]
    expected = exponential_weights(losses[:, others].astype(float).cumsum(axis=0), 2.0)
    np.testing.assert_allclose(weights[10:, others], expected[10:], rtol=1e-4)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_all_undefined_at_once_leaves_weights(bad):
    losses = np.full((3, 4), bad, np.float32)
    np.testing.assert_allclose(run(losses, jnp.float32(1.0))[1], 0.25, rtol=1e-6)


def test_infinite_loss_stays_harmless_in_a_subset():
    rule = Hedge(1.0)
    state = charged(rule, rule.init(3, jnp.float32), jnp.float32([0, np.inf, 1]))
    np.testing.assert_array_equal(shares(state, np.array([False, True, True])), [0, 0, 1])
    np.testing.assert_array_equal(shares(state, np.array([False, True, False])), [0, 1, 0])


def test_a_million_rounds_of_large_losses():
    """Two equal models share all weight; a varying one and one slightly worse lose theirs."""
    rule = Hedge(1.0)

    @jax.jit
    def many(state):
        def body(t, state):
            wave = 1e6 * (1.5 + jnp.sin(t.astype(jnp.float32)))
            losses = jnp.stack([jnp.float32(1e6), jnp.float32(1e6), wave, jnp.float32(1e6 + 1)])
            return charged(rule, state, losses)

        return jax.lax.fori_loop(0, 1_000_000, body, state)

    state = many(rule.init(4, jnp.float32))
    log_weights = np.asarray(state.log_weights)
    assert np.isfinite(log_weights).all()
    np.testing.assert_array_equal(rule.weights(state), [0.5, 0.5, 0, 0])
    np.testing.assert_array_equal(log_weights[:2], 0)
    # what the wave loses in all is 5e11, give or take a rounding in each round
    assert -6e11 < log_weights[2] < -4e11
    np.testing.assert_allclose(log_weights[3], -1e6, rtol=1e-6)


@pytest.mark.slow
def test_derivative_by_the_rate():
    """dp/dη = -p (l - Σ p l), whatever shift keeps the log-weights centred."""
    losses = np.array([0.3, 1.2, 0.1, 2.0])

    def weights(rate):
        rule = Hedge(rate)
        return rule.weights(charged(rule, rule.init(4, jnp.float64), jnp.asarray(losses)))

    with jax.enable_x64(True):
        p, derivative = jax.jvp(weights, (0.7,), (1.0,))
    p = np.asarray(p)
    np.testing.assert_allclose(derivative, -p * (losses - p @ losses), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (functools.partial(DrawOne, -0.1), "rate"),
        (functools.partial(DrawOne, 0.1, 0.0), "smoothing"),
        (functools.partial(DrawOne, 0.1, 1.5), "smoothing"),
        (functools.partial(DrawOne, 0.1, [0.1, 0.2]), "smoothing"),
        (functools.partial(DrawOne, 0.1, output="sum"), "output"),
        (functools.partial(DrawOne, 0.1, cost="hinge"), "cost"),
        (functools.partial(Uniform, "sign"), "output"),
        (functools.partial(Hedge, 0.1, output="sum"), "output"),
        (functools.partial(Hedge, 0.1, cost="hinge"), "cost"),
        (functools.partial(Hedge, 0.1, bound=0.0), "bound"),
        (functools.partial(Hedge, 0.1, bound=np.inf), "bound"),
        (functools.partial(Hedge, -0.1), "rate"),
        (functools.partial(Hedge, np.nan), "rate"),
        (functools.partial(Hedge, [0.1, 0.2]), "rate"),
    ],
)
def test_bad_arguments_are_named(make, wanted):
    with pytest.raises(ValueError, match=f"{wanted} must be"):
        make()


# --- means that are too small for single precision -----------------------------------------------


@jax.jit
def kept(value, log_weights, values, active):
    return sign_kept(value, log_weights, values, active)


def test_a_mean_too_small_keeps_the_sign_it_has_in_double_precision():
    draws = np.random.default_rng(0)
    for case in range(60):
        log_weights = np.append(0.0, -draws.uniform(0, 500, 4)).astype(np.float32)
        values = (draws.choice([-1, 1], 5) * 10.0 ** draws.uniform(-30, 3, 5)).astype(np.float32)
        values[log_weights > -100] = 0  # those that have some weight have no value
        active = None if case % 2 else np.append(True, draws.uniform(size=4) < 0.7)
        of = values if active is None else np.where(active, values, 0)
        wanted = np.sum(np.exp(log_weights.astype(float)) * of)
        value = np.float32(wanted) if abs(wanted) > 1e-30 else np.float32(0)
        found = kept(value, log_weights, values, active)
        assert found.dtype == np.float32
        assert np.sign(found) == np.sign(wanted)


def test_means_of_usual_size_are_what_they_were():
    values, logs = np.array([1e-20, -3.0], np.float32), np.array([0.0, -300.0], np.float32)
    for value in np.float32([1e-20, -1e-30, 5.0]):
        assert kept(value, logs, values, None) == value


def test_values_that_were_too_small_count_where_nothing_else_does():
    tiny = np.finfo(np.float32).tiny
    logs = np.array([0.0, -150.0, -90.0], np.float32)
    for values, sign in (([tiny, -tiny, 0], 1), ([tiny, -1e-6, 0], -1), ([0, 0, 0], 0)):
        found = kept(np.float32(0), logs, np.float32(values), None)
        assert found == np.float32(sign) * tiny


@pytest.mark.slow
def test_a_learner_predicts_the_class_that_double_precision_has(x64):
    """The narrow kernel is 0 between all rows, and the wide one soon has a weight of exp(-200)."""
    kernels = jaxmkl.KernelDictionary((jaxmkl.Gaussian(1e-3), jaxmkl.Polynomial(1)))
    bank = SupportModels(kernels, Perceptron(), DenseSupport(capacity=32, tile=32, period=8))
    draws = np.random.default_rng(0)
    X, y = 30 * draws.normal(size=(30, 2)), draws.choice([-1.0, 1.0], 30)
    for rate in (0.0, 20.0):
        learner, found = jaxmkl.MKL(bank, Hedge(rate)), {}
        for dtype in (np.float32, np.float64):
            state = learner.init(jax.random.key(0), 2, dtype)
            _, outputs = jaxmkl.run(learner, state, X.astype(dtype), y.astype(dtype))
            found[dtype] = np.asarray(outputs.prediction)
        np.testing.assert_array_equal(*(np.sign(found[dtype]) for dtype in found))
        assert np.count_nonzero(found[np.float64]) == 29  # nothing is known of the first
        assert ((np.abs(found[np.float64]) < 1e-40).sum() > 20) == (rate > 0)


# --- one's own -----------------------------------------------------------------------------------


@jaxmkl.pytree.dataclass
class Own(Uniform):
    """An aggregate whose prediction is what a function makes of the values (E,)."""

    made: Any = jaxmkl.pytree.static(default=lambda values: Combination(0.5, values, values))

    def predict(self, state, values, active, noise):
        return self.made(values), ()


def with_own(aggregate, **given):
    bank = jaxmkl.models.FeatureModels(
        jaxmkl.Gaussian([1.0, 2.0]), jaxmkl.updates.OGD(0.1, loss="squared")
    )
    learner = jaxmkl.MKL(bank, aggregate, **given)
    return learner, learner.init(jax.random.key(0), num_inputs=2)


@pytest.mark.slow
@pytest.mark.parametrize("K", [None, 2])
@pytest.mark.parametrize("value", [0, 0.5, np.float64(0.5), True])
def test_a_prediction_may_be_a_plain_number(value, K):
    own = Own(made=lambda values: Combination(value, values, jnp.full(2, 0.5)))
    learner, state = with_own(own, num_outputs=K)
    X, y = np.ones((9, 2)), np.ones(9 if K is None else (9, K))
    state, outputs = jaxmkl.run(learner, state, X, y)
    np.testing.assert_array_equal(outputs.prediction, np.full(y.shape, value, np.float32))
    assert outputs.prediction.dtype == learner.predict(state, X[0]).value.dtype == np.float32


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda values: values.mean(), "the result of predict must be a pair: an aggregate.Comb"),
        (
            lambda values: Combination(values.mean(), values, 1.0),
            r"value, values and weights of the Combination must be of the shapes \(\(\), \(2,\), "
            r"\(2,\)\), .*; got \(\(\), \(2,\), \(\)\)",
        ),
        (lambda values: Combination(values, values, values), r"got \(\(2,\), \(2,\), \(2,\)\)"),
    ],
)
def test_what_an_aggregate_predicts_is_checked(made, message):
    learner, state = with_own(Own(made=made))
    with pytest.raises(ValueError, match=f"^Own: .*{message}"):
        learner.predict(state, np.ones(2))
