"""Recipes with support vectors name an argument that they refuse."""

import jax
import numpy as np
import pytest

from jaxmkl import select, updates
from jaxmkl.kernels import Gaussian
from jaxmkl.mkl import MKL
from jaxmkl.models import DenseSupport, SupportModels
from jaxmkl.recipes import budgets, kernel_selection, support_vectors
from jaxmkl.recipes.random_features import raker

RECIPES = vars(budgets) | vars(kernel_selection) | vars(support_vectors)


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("perceptron", {"kernel": Gaussian([1.0, 2.0])}, "kernel"),
        ("perceptron", {"capacity": 0}, "capacity"),
        ("kernel_ogd", {"kernel": "gaussian"}, "kernel"),
        ("kernel_ogd", {"loss": "cubic"}, "loss"),
        ("kernel_ogd", {"step_size": -0.1}, "step_sizes"),
        ("kernel_ogd", {"step_size": [0.1, 0.2]}, "rule"),
        ("omkc_u", {"kernels": 3}, "kernels"),
        ("omkc_u", {"query": 0.5}, "query"),
        ("omkc_dd", {"discount": 1.5}, "discount"),
        ("omkc_dd", {"discount": [0.9, 0.9]}, "discount"),
        ("spa", {"discount": None}, "discount"),
        ("rbp", {"discount": "half"}, "discount"),
        ("omkc_sd", {"smoothing": -0.1}, "smoothing"),
        ("spa", {"step_size": -1.0}, "step_size"),
        ("spa", {"alpha": 0.0}, "alpha"),
        ("spa", {"alpha": 2.0, "beta": 1.0}, "beta"),
        ("rbp", {"budget": 0}, "budget"),
        ("bogd", {"regularization": -0.1}, "regularization"),
        ("bogd", {"step_size": 2.0, "regularization": 0.5}, "regularization"),
        ("bpas", {"aggressiveness": 0.0}, "aggressiveness"),
        ("projectron", {"threshold": -1e-9}, "threshold"),
        ("omkl", {"hedge_rate": -1.0}, "rate"),
        ("omkl", {"hedge_rate": np.inf}, "rate"),
        ("omkl_b", {"budget": -1}, "budget"),
        ("oks", {"kernels": 0.5}, "kernels"),
        ("oks", {"step_size": -0.1}, "step_sizes"),
        ("oks", {"smoothing": 0.0}, "smoothing"),
        ("oks", {"num_rounds": 0}, "num_rounds"),
        ("oks", {"capacity": 0}, "capacity"),
    ],
)
def test_bad_arguments_are_named(name, arguments, wanted):
    with pytest.raises(ValueError, match=rf"\b{wanted} must be"):
        RECIPES[name](**arguments)


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ("kernels", None),
        ("rule", updates.Perceptron),
        ("rule", select.All()),
        ("store", updates.Perceptron()),
    ],
)
def test_bad_parts_of_a_bank_are_named(wanted, given):
    parts = {"kernels": Gaussian(1.0), "rule": updates.Perceptron(), "store": DenseSupport()}
    with pytest.raises(ValueError, match=f"SupportModels: {wanted} must be"):
        SupportModels(**parts | {wanted: given})


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ("models", Gaussian(1.0)),
        ("models", ()),
        ("aggregate", 0.5),
        ("select", select.All),
        ("query", "margin"),
        ("loss", "cubic"),
        ("task", "ranking"),
    ],
)
def test_bad_parts_of_a_learner_are_named(wanted, given):
    parts = {"models": SupportModels(Gaussian(1.0))}
    with pytest.raises(ValueError, match=f"MKL: {wanted} must be"):
        MKL(**parts | {wanted: given})


def test_bad_numbers_of_inputs_are_named():
    for number in (0, 2.5, None):
        for learner in (raker(), support_vectors.spa()):
            with pytest.raises(ValueError, match="num_inputs must be"):
                learner.init(jax.random.key(0), number)
