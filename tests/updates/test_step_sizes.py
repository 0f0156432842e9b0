"""Step sizes that cannot converge: a learner warns of them where it is made."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import features, losses, models, updates

SMALL_PROGRAMS = True
KERNELS = jaxmkl.Gaussian((0.5, 2.0))
F = 8


def on_features(rule, scale="sum"):
    bank = models.FeatureModels(KERNELS, rule, features.FourierFeatures(F, scale=scale))
    return jaxmkl.MKL(bank)


def under_a_metric(rule):
    return jaxmkl.MKL(models.MetricModels(models.FeatureModels(KERNELS, rule)))


def on_supports(rule):
    return jaxmkl.MKL(models.SupportModels(KERNELS, rule))


def said(make):
    """The messages of warnings, all of which name this file."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        make()
    assert all(one.filename == __file__ for one in found)
    return [str(one.message) for one in found]


LARGEST = {
    "features": (lambda eta: on_features(updates.OGD(eta)), 1 / F),
    "of norm 1": (lambda eta: on_features(updates.OGD(eta), "mean"), 1.0),
    "penalty": (lambda eta: on_features(updates.OGD(eta, 0.4), "mean"), 2 / 2.4),
    "the largest of several": (lambda eta: on_features(updates.OGD([0.01, eta])), 1 / F),
    "arrays": (lambda eta: on_features(updates.OGD(jnp.array([eta, 0.01]))), 1 / F),
    "normalised": (lambda eta: on_features(updates.NormalizedOGD(eta, 2.0)), (2 + F) / F),
    "beside others": (lambda eta: on_features((updates.RLS(), updates.OGD(eta))), 1 / F),
    "huber": (lambda eta: jaxmkl.raker(step_size=eta, regularization=0.0, loss="huber"), 1 / 50),
    "logistic": (lambda eta: jaxmkl.kernel_ogd(step_size=eta, loss="logistic"), 8.0),
    "metric": (lambda eta: under_a_metric(updates.OGD(eta)), 1.0),
    "supports": (lambda eta: on_supports(updates.OGD(eta)), 1.0),
    "sketch": (lambda eta: jaxmkl.oks_sil(step_size=eta, loss="squared"), 1.0),
    "own kernels": (lambda eta: jaxmkl.okl_gd(step_size=eta, loss="squared"), 1.0),
    "experts": (lambda eta: jaxmkl.expert_mkl(step_sizes=(0.1, eta)), 1.0),
}


@pytest.mark.parametrize("name", LARGEST)
def test_one_beyond_the_largest_is_warned_of_and_one_below_is_not(name):
    make, largest = LARGEST[name]
    assert said(lambda: make(0.999 * largest)) == []
    assert said(lambda: make(largest)) == []
    (message,) = said(lambda: make(1.01 * largest))
    assert "step_size" in message
    assert f" = {1.01 * largest:.6g} cannot converge" in message
    assert f"take {largest:.6g} at most" in message


def test_the_largest_is_where_gradient_descent_turns_from_its_minimum():
    """On one example again and again, whose label is 0: f is the distance from the minimum."""
    for regularization in (0.0, 0.4):
        largest = 2 / (regularization + 2 * F)
        for share in (0.99, 1.01):
            rule = updates.OGD(share * largest, regularization)
            step = rule.step(jnp.ones((1, 1)), jnp.zeros(()), jnp.full((1, 1), float(F)))
            f = float(step.decay[0, 0] + step.coefficient[0, 0] * F)
            assert (abs(f) ** 1000 > 1) == (share > 1) == bool(said(partial(on_features, rule)))


def test_curvatures_are_those_of_the_losses():
    """The second derivative at the minimum, or where it is largest."""
    for loss, at in ((losses.Squared(), 3.0), (losses.Huber(0.5), 1.0), (losses.Logistic(), 0.0)):
        second = jax.grad(jax.grad(lambda f, loss=loss: loss.value(f, 1.0)))(at)
        assert loss.curvature == pytest.approx(float(second))
    assert losses.Hinge().curvature is losses.Pinball().curvature is None


def test_nothing_is_said_of_what_is_not_known():
    """Losses with kinks, kernels and features of any size, and numbers inside a trace."""
    for make in (
        lambda: jaxmkl.raker(step_size=9.0, loss="hinge"),
        lambda: on_features(updates.OGD(9.0, loss=losses.EpsilonInsensitive())),
        lambda: jaxmkl.kernel_ogd(jaxmkl.Polynomial(2), step_size=9.0),
        lambda: jaxmkl.MKL(
            models.FeatureModels(jaxmkl.Linear(), updates.OGD(9.0), features.LinearFeatures())
        ),
        lambda: jax.eval_shape(jax.vmap(lambda r: jaxmkl.raker(step_size=r)), np.ones(3)),
        lambda: jax.eval_shape(lambda r: jaxmkl.raker(step_size=3e-3, regularization=r), 1.0),
    ):
        assert said(make) == []


def test_a_learner_warns_once():
    """Whatever is made of it: states, programs, copies by JAX, wrappers."""
    learner = []
    assert len(said(lambda: learner.append(under_a_metric(updates.OGD(1.2))))) == 1

    def used():
        jax.eval_shape(lambda: learner[0].init(jax.random.key(0), 3))
        jax.tree.map(lambda leaf: leaf, jaxmkl.label_budget(learner[0], 9))
        assert learner[0].num_models == learner[0].models[0].bank.num_models

    assert said(used) == []


@pytest.mark.parametrize("name", jaxmkl.LEARNERS)
def test_learners_by_their_defaults_converge(name):
    assert said(jaxmkl.LEARNERS[name]) == []


def test_published_settings_converge():
    for name in jaxmkl.recipes.settings.SETTINGS:
        make = partial(jaxmkl.recipes.published, name, num_examples=1000, num_inputs=3)
        assert said(make) == []
