"""The protocols have few methods; what only some parts can do is an ability."""

import inspect
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import abilities, wrappers
from jaxmkl.aggregate import Aggregate
from jaxmkl.models import Bank
from jaxmkl.updates import Rule

SMALL_PROGRAMS = True
#: What nobody writes anew: the public methods of every learner.
FINAL = {"predict", "predict_many", "ask", "update", "skip", "step", "advance", "importances"}
MOMENTS = wrappers.RunningMoments()
SINGLE = [name for name in abilities.__all__ if hasattr(getattr(abilities, name), "dispatch")]


def methods(protocol):
    """Public methods and properties of a protocol itself."""
    own = vars(protocol).items()
    kinds = property, staticmethod, classmethod
    return {n for n, v in own if n[0] != "_" and (callable(v) or isinstance(v, kinds))}


@pytest.mark.parametrize(
    ("protocol", "most"), [(jaxmkl.Learner, 12), (Bank, 9), (Rule, 9), (Aggregate, 6)]
)
def test_a_protocol_has_few_methods(protocol, most):
    assert len(methods(protocol) - FINAL) <= most


@pytest.mark.parametrize("name", SINGLE)
def test_no_method_has_the_name_of_an_ability(name):
    """A method would be found first, and do nothing."""
    kinds = jaxmkl.Learner, Bank, Rule, Aggregate
    found = {kind.__name__ for kind in kinds if name in methods(kind) - FINAL}
    assert not found


@pytest.mark.parametrize("name", SINGLE)
def test_an_ability_is_registered_and_says_what_it_is(name):
    ability = getattr(abilities, name)
    assert inspect.getdoc(ability).count(".")
    assert len(ability.registry) > 1
    assert name in abilities.__doc__


@pytest.mark.slow
def test_wrappers_and_classes_have_the_abilities_of_what_is_inside():
    inner = jaxmkl.perceptron(jaxmkl.Gaussian(1.0))
    layers = jaxmkl.label_budget(wrappers.scaled(wrappers.one_vs_rest(inner, 3), MOMENTS), 10)
    state = layers.init(jax.random.key(0), num_inputs=2)
    before = abilities.capacity(layers, state)
    larger = jax.jit(partial(abilities.enlarged, layers, capacity=before + 100))(state)
    assert abilities.capacity(layers, larger) >= before + 100
    assert int(abilities.num_supports(layers, larger)) == 0
    x, y = jnp.ones(2), jnp.ones(())
    after = layers.update(larger, x, y)
    assert int(abilities.num_supports(layers, after)) == 1
    # two of the three classes err, and the most supports count
    after = layers.update(after, x, 0 * y)
    assert int(abilities.num_supports(layers, after)) == 2
    assert abilities.importances(layers, state) is None
    with pytest.raises(ValueError, match="learner must be one that learns a metric"):
        layers.importances(state)


def test_labels_are_awaited_inside_every_layer():
    inside = jaxmkl.label_budget(jaxmkl.raker(jaxmkl.Gaussian(1.0), num_features=3), 5)
    learner = wrappers.scaled(wrappers.scaled_targets(inside), MOMENTS)
    state = learner.init(jax.random.key(0), num_inputs=2)
    state = abilities.awaiting(learner, state, jnp.array(True))
    budget = state.inner.inner
    assert (int(budget.remaining), int(budget.outstanding)) == (4, 1)
    state = abilities.receiving(learner, state, jnp.array(True))
    assert (int(state.inner.inner.remaining), int(state.inner.inner.outstanding)) == (5, 0)


def test_what_cannot_be_added_is_refused_in_one_sentence():
    for part in (
        jaxmkl.updates.OGD(0.1),
        jaxmkl.aggregate.Mixture(),
        jaxmkl.models.SupportModels(jaxmkl.Gaussian(1.0)),
    ):
        assert not abilities.can(abilities.merged, part)
        with pytest.raises(ValueError, match=f"got {type(part).__name__}"):
            abilities.merged(part, None, None)


def test_an_ability_that_is_written_as_a_method_is_refused():
    with pytest.raises(TypeError, match="Mine: squared_norms must be a function registered by"):

        class Mine(jaxmkl.updates.Perceptron):
            def squared_norms(self, state):
                return 0.0


def test_a_part_of_ones_own_registers_what_it_can():
    @jaxmkl.pytree.dataclass
    class Told(jaxmkl.models.FeatureModels):
        """Models that are told which inputs matter."""

    learner = jaxmkl.MKL((Told(jaxmkl.Gaussian(1.0)), Told(jaxmkl.Gaussian(2.0))))
    state = learner.init(jax.random.key(0), num_inputs=2)
    assert abilities.importances(learner, state) is None

    @abilities.importances.register
    def _(bank: Told, state):
        return jnp.array([bank.kernels.bandwidth, 3.0 - bank.kernels.bandwidth]) / 3.0

    np.testing.assert_allclose(learner.importances(state), [0.5, 0.5], rtol=1e-6)
    assert not abilities.can(abilities.importances, jaxmkl.raker().models[0])


def test_an_aggregate_of_ones_own_says_that_it_is_for_classes():
    @jaxmkl.pytree.dataclass
    class Majority(jaxmkl.aggregate.Uniform):
        """An aggregate of which only its class is known."""

    bank = jaxmkl.models.FeatureModels(jaxmkl.Gaussian([1.0, 2.0]), jaxmkl.updates.RLS())
    assert jaxmkl.MKL(bank, Majority()).task == "regression"

    @abilities.signs.register
    def _(aggregate: Majority):
        return {"vote"}

    assert jaxmkl.MKL(bank, Majority(), task="classification").aggregate.output == "value"
    with pytest.raises(ValueError, match="aggregate must be of values and losses: votes"):
        jaxmkl.MKL(bank, Majority())
