"""The composed learner: what it refuses, and several banks at once."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxmkl
from jaxmkl import abilities, pytree
from jaxmkl.aggregate import DrawOne, Hedge, Stack, Uniform
from jaxmkl.features import FourierFeatures
from jaxmkl.losses import LOSSES
from jaxmkl.models import Bank, FeatureModels, SupportModels
from jaxmkl.models.supports import DenseSupport
from jaxmkl.query import Random
from jaxmkl.select import AdaptiveKernelSelection, Sampled
from jaxmkl.updates import OGD, RLS, Optax, PassiveAggressive, Perceptron
from tests.common.trees import assert_close, begin, scan

SMALL_PROGRAMS = True
KERNELS = jaxmkl.Gaussian([0.5, 2.0])


def bank(rule, **arguments):
    return FeatureModels(KERNELS, rule, FourierFeatures(4, scale="mean"), **arguments)


@functools.cache
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)).astype(np.float32)
    return X, np.sin(2 * X[:, 0])


@pytree.dataclass
class MeanOfLabels(Bank):
    """A model that looks at no input, so that its codes are empty."""

    num_models = 1
    all_rules = ()

    def init(self, key, num_inputs, dtype, num_outputs=None):
        return jnp.zeros(2, dtype)

    def encode(self, state, X, round, keys):
        return ()

    def predict(self, state, code):
        return state[:1], ()

    def update(self, state, code, aux, feedback):
        number = state[1] + 1
        after = jnp.stack([state[0] + (feedback.y - state[0]) / number, number])
        return jnp.where(feedback.updates[0], after, state)


@pytest.mark.parametrize("block_size", [None, 8])
def test_codes_of_a_bank_may_be_empty(block_size):
    X, y = data()
    learner = jaxmkl.MKL(MeanOfLabels())
    _, outputs = jaxmkl.run(learner, begin(learner), X, y, block_size=block_size)
    wanted = np.append(0.0, np.cumsum(y)[:-1] / np.arange(1, len(y)))
    np.testing.assert_allclose(outputs.prediction, wanted, rtol=1e-5, atol=1e-6)


# --- what makes no sense together ----------------------------------------------------------------

AGGREGATE = "aggregate must be of values and losses"
NONSENSE = [
    (lambda: jaxmkl.MKL(bank(OGD()), Hedge(0.1, output="vote")), AGGREGATE),
    (lambda: jaxmkl.MKL(bank(OGD()), Hedge(0.1, cost="mistake")), AGGREGATE),
    (lambda: jaxmkl.MKL(bank(OGD()), DrawOne(0.1)), AGGREGATE),
    (lambda: jaxmkl.MKL(bank(OGD()), Uniform("vote")), AGGREGATE),
    (
        lambda: jaxmkl.MKL(bank(Perceptron()), loss="squared", task="regression"),
        r"models must be of a loss for numbers.*got Hinge\(\)",
    ),
    (
        lambda: jaxmkl.MKL((bank(OGD()), bank(PassiveAggressive(0.1)))),
        r"models must be of a loss for numbers.*got Hinge\(\)",
    ),
    (
        lambda: jaxmkl.MKL(bank(OGD()), loss="hinge", task="regression"),
        r"loss must be of a loss for numbers.*got Hinge\(\)",
    ),
    (lambda: jaxmkl.MKL(bank(OGD()), loss="cubic"), "loss must be a loss, as"),
    (lambda: jaxmkl.MKL(bank(RLS()), Hedge(penalty=0.1)), "aggregate must be one without a pen"),
    (
        lambda: jaxmkl.MKL((bank(OGD()), bank(RLS())), Stack(Hedge(penalty=0.0))),
        r"aggregate must be one without a penalty.*norms.*got Stack\(base=Hedge",
    ),
    (
        lambda: jaxmkl.MKL(SupportModels(KERNELS, OGD(), DenseSupport()), Hedge(penalty=0.1)),
        "aggregate must be one without a penalty",
    ),
    (
        lambda: Hedge(0.1, output="vote", cost="mistake", penalty=0.1),
        "penalty must be None where mistakes are counted; got 0.1",
    ),
    (lambda: Hedge(0.1, penalty=-0.1), "penalty must be a finite number of at least 0"),
    (lambda: jaxmkl.MKL(bank(OGD()), task="rank"), "task must be one of"),
    (lambda: jaxmkl.MKL(()), "models must be a bank"),
    (lambda: jaxmkl.MKL(KERNELS), "models must be a bank"),
    (lambda: jaxmkl.MKL(bank(OGD()), select=Sampled), "select must be a selection"),
    (lambda: jaxmkl.MKL(bank(OGD()), 0.5), "aggregate must be an aggregate"),
    (lambda: jaxmkl.MKL(bank(OGD()), query=Uniform()), "query must be a query"),
    (lambda: SupportModels(KERNELS, OGD([0.1, 0.2])), "rule must be a rule at one rate"),
    (lambda: SupportModels(KERNELS, RLS()), "rule must be an update rule of first order"),
]


@pytest.mark.parametrize(("make", "message"), NONSENSE)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=f"^(MKL|SupportModels|Hedge): {message}"):
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


def test_a_state_is_replaced_by_what_it_has():
    state = jaxmkl.MKL(bank(OGD())).init(jax.random.key(0), 2)
    assert int(state.replace(round=jnp.asarray(3)).round) == 3
    assert int(state.round) == 0
    with pytest.raises(TypeError, match="MKLState has no field 'log_weights'"):
        state.replace(log_weights=jnp.zeros(2))


# --- a penalty on norms --------------------------------------------------------------------------


@pytest.mark.slow
def test_models_are_judged_by_their_loss_and_penalty_before_the_update(x64):
    """Two kernels, three rates of two rules, two outputs."""
    X, target = data()
    X, y = X.astype(np.float64), np.stack([target, 2 - target], axis=1).astype(np.float64)
    rules = OGD([0.1, 0.4], 0.05), Optax(optax.sgd(0.2))
    rate, penalty = 0.5, 0.3
    learner = jaxmkl.MKL(bank(rules), Hedge(rate, penalty=penalty), num_outputs=2)
    start = learner.init(jax.random.key(1), 2, np.float64)
    V, cost = np.asarray(start.models[0].frequencies), np.zeros((2, 6))

    @jax.jit
    def step(state, x, label):
        return learner.step(state, (x, label))[0]

    state = start
    for x, label in zip(X, y, strict=True):
        phase = V @ x / np.array([[0.5], [2.0]])
        z = np.concatenate([np.sin(phase), np.cos(phase)], axis=1) / 2  # (P, M), F = 4
        parts = [np.asarray(own.weights) for own in state.models[0].rules]
        theta = np.concatenate([np.moveaxis(part, 0, 2) for part in parts], axis=1)  # (K, R, P, M)
        loss = (np.sum(theta * z, axis=-1) - label[:, None, None]) ** 2
        judged = loss + penalty / 2 * np.sum(theta**2, axis=-1)
        cost += rate * judged.reshape(2, 6)
        state = step(state, x, label)
    wanted = cost.min(axis=1, keepdims=True) - cost
    np.testing.assert_allclose(state.aggregate.log_weights, wanted, rtol=1e-9, atol=1e-9)
    assert np.abs(theta).max() > 0.1


@pytest.mark.endless
def test_a_stack_judges_the_models_as_the_aggregate_below_it():
    X, y = data()
    weights = []
    for top in (Hedge(0.5, penalty=2.0), Stack(Hedge(0.5, penalty=2.0)), Hedge(0.5)):
        learner = jaxmkl.MKL(bank(OGD(0.3)), top)
        weights.append(scan(learner, begin(learner), X, y)[1].info.weights)
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-6)
    assert np.abs(weights[0] - weights[2]).max() > 1e-3


# --- several banks -------------------------------------------------------------------------------


@pytest.mark.endless
def test_banks_side_by_side():
    """Other kernels and rules; features and supports.

    Under an aggregate without influence on the models, each bank is as it is alone.
    """
    X, y = data()
    kernels, store = jaxmkl.Laplacian([1.0, 2.0, 3.0]), DenseSupport(64, tile=16, period=16)
    banks = bank((OGD(0.1), RLS(0.1, period=8))), SupportModels(kernels, OGD(0.2, 0.1), store)
    learner = jaxmkl.MKL(banks, Uniform())
    assert learner.num_models == 4 + 3
    assert learner.preferred_block_size == 8
    start = begin(learner)
    state, outputs = scan(learner, start, X, y)
    mean = 0.0
    for i, own in enumerate(banks):
        one = jaxmkl.MKL(own, Uniform())
        begun = start.replace(
            models=(start.models[i],),
            aggregate=one.aggregate.init(own.num_models, np.float32),
            noise=start.noise if one.has_variance else None,
        )
        alone, of_bank = scan(one, begun, X, y)
        mean = mean + own.num_models / 7 * np.asarray(of_bank.prediction)
        assert_close(alone.models[0], state.models[i], 2e-4)
    np.testing.assert_allclose(outputs.prediction, mean, atol=2e-5)
    info = learner.info(state)
    # of the bank that has support vectors
    np.testing.assert_array_equal(info.support, [40] * 3)
    assert int(info.overflow) == 0
    assert info.weights.shape == (7,)
    assert abilities.capacity(learner, state) == 64


def test_banks_alike_draw_frequencies_of_their_own():
    learner = jaxmkl.MKL((bank(OGD()), bank(OGD())))
    one, two = (m.frequencies for m in begin(learner).models)
    assert not np.any(np.asarray(one) == np.asarray(two))


@pytest.mark.endless
@pytest.mark.parametrize(
    "parts", [{"select": AdaptiveKernelSelection(0.5)}, {"aggregate": DrawOne(0.2, cost="loss")}]
)
def test_parts_see_the_models_of_all_banks(parts):
    """Which models are active, learn and are judged is decided among all."""
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
    if "select" in parts:
        assert int(outputs.info.num_active[0]) == 4
        assert len(np.unique(outputs.info.num_active)) > 1
    else:
        # some of the rounds only
        assert (np.asarray(state.models[1].number) < asked).any()
