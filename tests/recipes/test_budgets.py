"""Multiple kernel learning on a budget: against the NumPy oracle."""

import numpy as np
import pytest
from support_cases import ALL, BUDGET_CROSSINGS, BUDGETS, check_run, learner_of

from tests.common.marks import long

SMALL_PROGRAMS = FEW_ROWS = True


# its parts are those of the Forgetron and of omkl_b
LONG = [name for name in BUDGETS if name != "bogd"]


@pytest.mark.slow
@pytest.mark.parametrize("name", long(LONG, (*BUDGETS, *BUDGET_CROSSINGS)))
def test_agrees_with_the_oracle(name, x64):
    state = check_run(name, learner_of(name))
    assert (np.asarray(state.models[0].number) == ALL[name].budget).any(), "one is full"
