"""Optimisers of optax as rules: Adam and momentum against NumPy, masks, outputs, learners."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxmkl
from jaxmkl import models, query, updates
from jaxmkl.models import Feedback
from jaxmkl.optimizers import FromOptax
from jaxmkl.testing import check_learner

SMALL_PROGRAMS = True
T, P, M = 40, 2, 5
RATE, MOMENTUM, BETAS, EPSILON = 0.03, 0.9, (0.9, 0.999), 1e-8


@functools.cache
def data(num_outputs=1):
    """Features (T, P, M), labels (T, K), and which kernels' models update (T, P)."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(T, P, M))
    y = Z[:, 0] @ rng.normal(size=(M, num_outputs)) + 0.1 * rng.normal(size=(T, num_outputs))
    return Z, y, rng.random((T, P)) < 0.7


@jax.jit
def outcome(rule, Z, y, taken):
    """The state, and values (T, K, R, P), of a rule on features."""

    def one(state, example):
        z, label, who = example
        values, aux = rule.predict(state, (), z)
        here = jnp.asarray(True)
        feedback = Feedback(label, who[None, None], here, here)
        return rule.update(state, (), aux, feedback), values

    return jax.lax.scan(one, rule.init(P, M, Z.dtype, y.shape[1]), (Z, y, taken))


def adam(g, memory):
    m, v, count = memory or (0.0, 0.0, 0)
    m, v = BETAS[0] * m + (1 - BETAS[0]) * g, BETAS[1] * v + (1 - BETAS[1]) * g**2
    count += 1
    mean, root = m / (1 - BETAS[0] ** count), np.sqrt(v / (1 - BETAS[1] ** count))
    return -RATE * mean / (root + EPSILON), (m, v, count)


def momentum(g, memory):
    trace = g + MOMENTUM * (0.0 if memory is None else memory)
    return -RATE * trace, trace


IN_NUMPY = {
    "adam": (optax.adam(RATE), adam),
    "momentum": (optax.sgd(RATE, momentum=MOMENTUM), momentum),
}
SLOPES = {
    "squared": lambda r: 2 * r,
    "huber": lambda r: 2 * np.clip(r, -1, 1),
    "epsilon_insensitive": lambda r: np.sign(r) * (abs(r) > 0.1),
}


@pytest.mark.parametrize("loss", SLOPES)
@pytest.mark.parametrize("name", IN_NUMPY)
def test_it_is_a_loop_in_numpy(name, loss, x64):
    transformation, move = IN_NUMPY[name]
    Z, y, taken = data()
    state, values = outcome(updates.Optax(transformation, loss), Z, y, taken)
    for p in range(P):
        theta, memory, expected = np.zeros(M), None, []
        for z, label, who in zip(Z[:, p], y[:, 0], taken[:, p], strict=True):
            expected.append(theta @ z)
            if who:
                step, memory = move(SLOPES[loss](theta @ z - label) * z, memory)
                theta = theta + step
        np.testing.assert_allclose(values[:, 0, 0, p], expected, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(state.weights[p, 0, 0], theta, rtol=1e-9, atol=1e-11)
    if name == "adam":
        np.testing.assert_array_equal(state.optimizer[0].count[:, 0, 0], taken.sum(axis=0))


@pytest.mark.parametrize("transformation", [optax.adam(0.1), optax.chain(optax.clip(0.1))])
def test_what_takes_no_part_keeps_every_bit(transformation, x64):
    rule = updates.Optax(transformation)
    Z, y, taken = data()
    taken = taken.copy()
    half = T // 2
    state, _ = outcome(rule, Z[:half], y[:half], taken[:half])
    _, aux = rule.predict(state, (), Z[half])
    here = jnp.asarray(True)
    who = jnp.array([[[True, False]]])
    after = rule.update(state, (), aux, Feedback(y[half], who, here, here))
    for new, old in zip(jax.tree.leaves(after), jax.tree.leaves(state), strict=True):
        np.testing.assert_array_equal(new[1], old[1])
        assert not np.array_equal(new[0], old[0])


def test_each_output_is_a_model_of_its_own(x64):
    Z, y, taken = data(3)
    rule = updates.Optax(optax.adam(RATE))
    _, together = outcome(rule, Z, y, taken)
    for k in range(3):
        _, alone = outcome(rule, Z, y[:, [k]], taken)
        np.testing.assert_allclose(together[:, k], alone[:, 0], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["adam", "adagrad", "rmsprop", "lion", "adamw"])
def test_the_state_keeps_its_types(name, dtype):
    """In single precision too where JAX could do double; nothing is of a weak type."""
    with jax.enable_x64(True):
        rule = updates.Optax(FromOptax(name, 0.01))
        state = rule.init(P, M, jnp.dtype(dtype))

        def after(state, z):
            values, aux = rule.predict(state, (), z)
            here = jnp.asarray(True)
            who = jnp.ones((1, 1, P), bool)
            return rule.update(state, (), aux, Feedback(values[:, 0, 0], who, here, here))

        later = jax.eval_shape(after, state, jnp.ones((P, M), dtype))
        for new, old in zip(jax.tree.leaves(later), jax.tree.leaves(state), strict=True):
            assert (new.shape, new.dtype, new.weak_type) == (old.shape, old.dtype, False)
            assert not old.weak_type
            assert old.dtype in (dtype, jnp.int32)


# --- in learners ---------------------------------------------------------------------------------

KERNELS = jaxmkl.Gaussian((0.5, 2.0))
FEATURES = jaxmkl.features.FourierFeatures(4)


def learner(rule, **arguments):
    bank = models.FeatureModels(KERNELS, rule, FEATURES)
    return jaxmkl.MKL(bank, jaxmkl.aggregate.Hedge(0.5), **arguments)


LEARNERS = {
    "classes": lambda: learner(
        updates.Optax(FromOptax("adam", 1e-2), "logistic"), num_outputs=3, query=query.Rate(0.5)
    ),
    "targets": lambda: learner(updates.Optax(optax.adam(1e-2)), num_outputs=2),
    "on a dictionary": lambda: jaxmkl.MKL(
        models.FeatureModels(
            jaxmkl.Gaussian(1.0),
            updates.Optax(FromOptax("sgd", 0.1), "hinge"),
            jaxmkl.features.SampledDictionary(6),
        ),
        select=jaxmkl.select.Sampled(0.5),
    ),
}


@pytest.mark.endless
@pytest.mark.parametrize("name", LEARNERS)
def test_learners_keep_the_contract(name):
    made = LEARNERS[name]()
    # an object of optax cannot be written to a file
    named = isinstance(made.models[0].rules[0].transformation.method, str)
    check_learner(made, block_sizes=(16,), checkpoint=named)


def stream():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)).astype(np.float32)
    return X, np.sin(2 * X[:, 0])


@pytest.mark.slow
def test_a_learning_rate_is_swept_and_differentiated():
    X, y = stream()

    def of_rate(rate):
        made = learner(updates.Optax(FromOptax("adabelief", rate)))
        state = made.init(jax.random.key(0), 2)
        return jax.lax.scan(made.step, state, (X, y))[1].loss[100:].mean()

    losses, slopes = jax.jit(jax.vmap(jax.value_and_grad(of_rate)))(jnp.array([1e-4, 1e-2, 3e-2]))
    assert float(losses[0]) > 2 * float(losses[2])
    assert float(slopes[1]) < 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: updates.Optax("adam"), "Optax: transformation must be an optax.Gradient.*'adam'"),
        (lambda: updates.Optax(optax.adam), "Optax: transformation must be an optax.Gradient"),
        (lambda: updates.Optax(jaxmkl.optimizers.InverseTime()), "Optax: transformation must be"),
        (lambda: updates.Optax(optax.adam(0.1), "cubic"), "Optax: loss must be a loss"),
        (
            lambda: models.SupportModels(KERNELS, updates.Optax(optax.adam(0.1))),
            "SupportModels: rule must be an update rule of first order.*no weights",
        ),
        (
            lambda: jaxmkl.save("it.npz", *begun(learner(updates.Optax(optax.adam(0.1))))),
            r"save: learner\.models\[0\]\.rules\[0\]\.transformation\.method.* must be",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def begun(made):
    return made, made.init(jax.random.key(0), 2)


def test_a_third_kind_of_rule_is_four_methods(x64):
    """The passive average of labels, whatever the features."""

    @jaxmkl.pytree.dataclass
    class Mean(updates.Rule):
        loss = "squared"

        def init(self, num_kernels, num_coordinates, dtype, num_outputs=1):
            return jnp.zeros((2, num_outputs, 1, num_kernels), dtype)

        def predict(self, state, code, z):
            return state[0] / jnp.maximum(state[1], 1.0), ()

        def update(self, state, code, aux, feedback):
            taken = feedback.taken().astype(state.dtype)
            y = jnp.atleast_1d(feedback.y)[:, None, None]
            return state + jnp.stack([taken * y, jnp.broadcast_to(taken, state[1].shape)])

    made = dataclasses.replace(learner(Mean()), aggregate=jaxmkl.aggregate.Uniform())
    X, y = stream()
    _, outputs = jaxmkl.run(*begun(made), X, y)
    y = y.astype(np.float64)
    expected = np.append(0.0, np.cumsum(y)[:-1] / np.arange(1, len(y)))
    np.testing.assert_allclose(outputs.prediction, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["polyak_sgd", "lbfgs", "lookahead"])
def test_a_transformation_that_needs_more_than_gradients_is_refused(name):
    """With the transformation's own words, where a bank is made, not amid the first run."""
    make, given = getattr(optax, name), ()
    if name == "lookahead":
        given = optax.sgd(RATE), 5, 0.5
    rule = updates.Optax(make(*given))
    with pytest.raises(ValueError, match=r"Optax: transformation must be .* weights alone \(.+\)"):
        models.FeatureModels(jaxmkl.Gaussian(1.0), rule)
