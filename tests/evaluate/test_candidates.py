"""Learners of the command and of experiments: what is chosen for a table."""

import pytest

from jaxmkl.evaluate import candidates
from jaxmkl.wrappers import layers


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
