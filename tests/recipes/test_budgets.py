"""Multiple kernel learning on a budget: against the NumPy oracle."""

import numpy as np
import pytest
from support_cases import ALL, BUDGET_CROSSINGS, BUDGETS, check_run, learner_of

from tests.common.marks import long

SMALL_PROGRAMS = FEW_ROWS = True


# omkl_b's gradient steps are those of bogd, which is with the published ones, as is Proj-KA, which
# projects
LONG = ["rbp", "forgetron", "bpas"]


@pytest.mark.slow
@pytest.mark.parametrize("name", long(LONG, (*BUDGETS, *BUDGET_CROSSINGS)))
def test_agrees_with_the_oracle(name, x64):
    state = check_run(name, learner_of(name))
    assert (np.asarray(state.models[0].number) == ALL[name].budget).any(), "one is full"
