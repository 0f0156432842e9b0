"""Learners of the command and of experiments: what is chosen for a table."""

import jax
import numpy as np
import pytest

import jaxmkl
from jaxmkl.evaluate import candidates, shares
from jaxmkl.features import FourierFeatures
from jaxmkl.models import FeatureModels, MetricModels, SideBySide, TreeModels
from jaxmkl.updates import OGD, RLS
from jaxmkl.wrappers import layers

SMALL_PROGRAMS = True


@pytest.mark.parametrize(
    ("num_inputs", "settings", "banks"),
    [(5000, {}, 2), (5001, {}, 1), (5001, {"banks": ("trees", "full")}, 2)],
)
def test_of_very_many_inputs_kernels_are_fixed_unless_banks_are_named(num_inputs, settings, banks):
    (_, made), notes = candidates(
        ["raker", "expert_mkl"], "regression", 0, settings, num_inputs=num_inputs
    )
    assert len(list(layers(made.learner))[-1].models) == banks
    said = [note for note in notes if note.startswith("expert_mkl: kernels are fixed, as")]
    assert len(said) == (banks == 1)


def test_what_cannot_be_is_a_value_error():
    with pytest.raises(ValueError, match="unknown learner 'rakr'; there are: raker, "):
        candidates(["rakr"], "regression", 0, {})


@pytest.mark.slow
def test_weights_of_banks_are_those_of_their_models(monkeypatch):
    """Least squares of banks side by side stand where the first of them does."""

    def of(widths, *rules):
        return FeatureModels(jaxmkl.Gaussian(widths), rules, FourierFeatures(4))

    ours = of([1.0, 2.0], OGD(0.1), RLS(0.1), OGD(0.2))
    side = SideBySide((ours, MetricModels(of([1.0, 2.0, 4.0], RLS(0.1)), ("full",))))
    banks = side, of([3.0], OGD(0.3)), TreeModels()
    learner = jaxmkl.MKL(banks, jaxmkl.aggregate.Mixture((1.0, 0.99)))
    state = learner.init(jax.random.key(0), 2)
    weights = np.arange(float(learner.num_models)) / 100
    info = learner.info(state)._replace(weights=weights)
    monkeypatch.setattr(jaxmkl.MKL, "info", lambda self, state: info)
    found = shares(learner, state)
    assert found.pop("memory 1") == found.pop("memory 0.99") == 0.5
    # one step size, least squares of both banks, the other step size, the second bank, trees
    wanted = {"fixed": weights[[0, 1, 2, 3, 7, 8, 9]], "metric": weights[4:7]}
    wanted["trees"] = weights[10:]
    assert found == pytest.approx({f"bank {name}": of.sum() for name, of in wanted.items()})
