"""The composed learner: what it refuses, and several banks at once."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl.aggregate import DrawOne, Hedge, Uniform
from jaxmkl.features import FourierFeatures, SampledDictionary
from jaxmkl.losses import LOSSES
from jaxmkl.models import FeatureModels, SupportModels
from jaxmkl.models.supports import DenseSupport
from jaxmkl.query import Random
from jaxmkl.select import AdaptiveKernelSelection, Sampled
from jaxmkl.updates import OGD, RLS, PassiveAggressive, Perceptron

SMALL_PROGRAMS = True
KERNELS = jaxmkl.Gaussian([0.5, 2.0])


def bank(rule, **arguments):
    return FeatureModels(KERNELS, rule, FourierFeatures(4, scale="mean"), **arguments)


@functools.cache
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)).astype(np.float32)
    return X, np.sin(2 * X[:, 0])


@jax.jit
def scan(learner, state, X, y):
    return jax.lax.scan(learner.step, state, (X, y))


# --- what makes no sense together ----------------------------------------------------------------

NONSENSE = {
    "votes on numbers": (
        lambda: jaxmkl.MKL(bank(OGD()), Hedge(0.1, output="vote")),
        "MKL: aggregate must be of values and losses",
    ),
    "mistakes on numbers": (
        lambda: jaxmkl.MKL(bank(OGD()), Hedge(0.1, cost="mistake")),
        "MKL: aggregate must be of values and losses",
    ),
    "one drawn, by its mistakes, on numbers": (
        lambda: jaxmkl.MKL(bank(OGD()), DrawOne(0.1)),
        "MKL: aggregate must be of values and losses",
    ),
    "a uniform vote on numbers": (
        lambda: jaxmkl.MKL(bank(OGD()), Uniform("vote")),
        "MKL: aggregate must be of values and losses",
    ),
    "a rule of classes for numbers": (
        lambda: jaxmkl.MKL(bank(Perceptron()), loss="squared", task="regression"),
        r"MKL: models must be of a loss for numbers.*got Hinge\(\)",
    ),
    "one of several rules of classes for numbers": (
        lambda: jaxmkl.MKL((bank(OGD()), bank(PassiveAggressive(0.1)))),
        r"MKL: models must be of a loss for numbers.*got Hinge\(\)",
    ),
    "a loss of classes for numbers": (
        lambda: jaxmkl.MKL(bank(OGD()), loss="hinge", task="regression"),
        r"MKL: loss must be of a loss for numbers.*got Hinge\(\)",
    ),
    "an unknown loss": (
        lambda: jaxmkl.MKL(bank(OGD()), loss="cubic"),
        "MKL: loss must be a loss, as",
    ),
    "an unknown task": (lambda: jaxmkl.MKL(bank(OGD()), task="rank"), "MKL: task must be one of"),
    "no bank": (lambda: jaxmkl.MKL(()), "MKL: models must be a bank"),
    "kernels in place of a bank": (lambda: jaxmkl.MKL(KERNELS), "MKL: models must be a bank"),
    "a class in place of a part": (
        lambda: jaxmkl.MKL(bank(OGD()), select=Sampled),
        "MKL: select must be a selection",
    ),
    "a number in place of a part": (
        lambda: jaxmkl.MKL(bank(OGD()), 0.5),
        "MKL: aggregate must be an aggregate",
    ),
    "a part in the place of another": (
        lambda: jaxmkl.MKL(bank(OGD()), query=Uniform()),
        "MKL: query must be a query",
    ),
    "several rates on supports": (
        lambda: SupportModels(KERNELS, OGD([0.1, 0.2])),
        "SupportModels: rule must be a rule at one rate",
    ),
    "a rule of second order on supports": (
        lambda: SupportModels(KERNELS, RLS()),
        "SupportModels: rule must be an update rule of first order",
    ),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused(name):
    make, message = NONSENSE[name]
    with pytest.raises(ValueError, match=message):
        make()


def test_the_task_is_that_of_the_loss_and_the_loss_that_of_the_first_rule():
    for rule, loss, task in (
        (OGD(), "squared", "regression"),
        (OGD(loss="logistic"), "logistic", "classification"),
        (RLS(), "squared", "regression"),
        (Perceptron(), "hinge", "classification"),
    ):
        learner = jaxmkl.MKL(bank(rule))
        assert (learner.loss, learner.task) == (LOSSES[loss], task)
    assert jaxmkl.MKL(bank(OGD()), loss="hinge").task == "classification"
    fitted = jaxmkl.MKL((bank(OGD()), bank(Perceptron())), task="classification")
    assert (fitted.loss, fitted.task) == (LOSSES["squared"], "classification")


@pytest.mark.parametrize("num_inputs", [0, -1, 2.5, True])
def test_numbers_of_inputs_are_checked(num_inputs):
    with pytest.raises(ValueError, match="MKL: num_inputs must be an integer of at least 1"):
        jaxmkl.MKL(bank(OGD())).init(jax.random.key(0), num_inputs)


def test_a_state_is_replaced_by_what_it_has():
    state = jaxmkl.MKL(bank(OGD())).init(jax.random.key(0), 2)
    assert int(state.replace(round=jnp.asarray(3)).round) == 3
    assert int(state.round) == 0
    with pytest.raises(TypeError, match="MKLState has no field 'log_weights'"):
        state.replace(log_weights=jnp.zeros(2))


# --- several banks -------------------------------------------------------------------------------


def check_banks(banks, rounds=40):
    """Under an aggregate that no model has a say in, each bank is as it is alone."""
    X, y = (a[:rounds] for a in data())
    together = jaxmkl.MKL(tuple(banks), Uniform())
    assert together.num_models == sum(b.num_models for b in banks)
    state, outputs = scan(together, together.init(jax.random.key(0), 2), X, y)
    start = together.init(jax.random.key(0), 2)
    mean = 0.0
    for i, own in enumerate(banks):
        learner = jaxmkl.MKL(own, Uniform())
        begun = start.replace(
            models=(start.models[i],), aggregate=learner.aggregate.init(own.num_models, np.float32)
        )
        alone, of_bank = scan(learner, begun, X, y)
        mean = mean + own.num_models / together.num_models * of_bank.prediction
        for a, b in zip(
            jax.tree.leaves(alone.models[0]), jax.tree.leaves(state.models[i]), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(outputs.prediction, mean, atol=2e-5)
    return together, state, outputs


@pytest.mark.slow
def test_banks_side_by_side():
    """Other kernels, maps, rates and rules; features and supports; blocks of any size."""
    other = FeatureModels(
        jaxmkl.Laplacian([1.0, 2.0, 3.0]), OGD([0.1, 0.2]), FourierFeatures(3, True)
    )
    supports = SupportModels(KERNELS, OGD(0.2, 0.1), DenseSupport(64, tile=16, period=16))
    learner, state, outputs = check_banks([bank((OGD(0.1), RLS(0.1, period=8))), other, supports])
    assert learner.num_models == 4 + 6 + 2
    assert learner.preferred_block_size == 8
    start = learner.init(jax.random.key(0), 2)
    one, two = (models.frequencies for models in start.models[:2])
    assert one.shape == (2, 4, 2)
    assert two.shape == (3, 3, 2)
    _, in_blocks = jaxmkl.run(learner, start, *data(), block_size=100)
    np.testing.assert_allclose(in_blocks.prediction, outputs.prediction, atol=2e-5)
    info = learner.info(state)
    # of the bank that has support vectors
    np.testing.assert_array_equal(info.support, [40, 40])
    assert int(info.overflow) == 0
    assert info.weights.shape == (12,)
    assert learner.capacity(state) == 64


def test_banks_alike_draw_frequencies_of_their_own():
    learner = jaxmkl.MKL((bank(OGD()), bank(OGD())))
    one, two = (m.frequencies for m in learner.init(jax.random.key(0), 2).models)
    assert not np.any(np.asarray(one) == np.asarray(two))


@pytest.mark.slow
def test_a_dictionary_beside_fourier_features():
    """Both draw by chance, each from numbers of its own."""
    dictionary = FeatureModels(jaxmkl.Gaussian(1.0), OGD(0.1), SampledDictionary(8))
    learner = jaxmkl.MKL((bank(OGD(0.1)), dictionary), Hedge(0.5))
    state, outputs = scan(learner, learner.init(jax.random.key(0), 2), *data())
    assert int(state.models[1].features.number) == 8
    assert np.isfinite(outputs.loss).all()
    assert learner.info(state).support is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "parts",
    [
        {"select": AdaptiveKernelSelection(0.5)},
        {"select": Sampled(0.3, judge_sampled=True)},
        {"aggregate": DrawOne(0.2, cost="loss")},
    ],
)
def test_parts_see_the_models_of_all_banks(parts):
    """Who speaks, who learns and who is judged is decided among all."""
    banks = (
        bank(OGD(0.2)),
        SupportModels(KERNELS, OGD(0.2), DenseSupport(64, tile=16, period=16)),
    )
    learner = jaxmkl.MKL(banks, **{"aggregate": Hedge(0.5), **parts}, query=Random(0.8))
    start = learner.init(jax.random.key(1), 2)
    state, outputs = scan(learner, start, *data())
    assert outputs.info.weights.shape == (40, 4)
    np.testing.assert_allclose(outputs.info.weights.sum(axis=1), 1, rtol=1e-5)
    learned = (state.models[1].number > 0) & np.any(
        state.models[0].rules[0].weights, axis=(1, 2, 3)
    )
    assert learned.all()
    asked = int(outputs.queried.sum())
    assert 20 < asked < 40
    if "select" in parts and isinstance(parts["select"], AdaptiveKernelSelection):
        assert int(outputs.info.num_active[0]) == 4
        assert len(np.unique(outputs.info.num_active)) > 1
    else:
        # some of the rounds only
        assert (np.asarray(state.models[1].number) < asked).any()
