"""Parts written outside of the package, as an author would; the guide has learners too."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxmkl
from jaxmkl import models, pytree, updates

SMALL_PROGRAMS = True

# --- a kernel, at most 10 lines ------------------------------------------------------------------


@pytree.dataclass
class Matern32(jaxmkl.kernels.Stationary):
    def profile(self, u):
        s = jnp.sqrt(3 * u)
        return (1 + s) * jnp.exp(-s)


# --- an update rule for features and supports, at most 12 ----------------------------------------


@pytree.dataclass
class PlainSteps(updates.Update):
    rate: Any = pytree.positive(default=0.5, ndim=1)
    loss = "squared"

    def step(self, f, y, norm):
        return updates.Step(jnp.asarray(self.rate, f.dtype) * (y - f))


# -------------------------------------------------------------------------------------------------


def test_a_kernel_is_used_everywhere():
    kernel = Matern32([0.3, 1.0])
    assert kernel.gram(jnp.zeros((3, 2))).shape == (2, 3, 3)
    with pytest.raises(ValueError, match="Matern32"):  # it says no spectrum
        models.FeatureModels(kernel, updates.OGD(0.1))


@pytest.mark.parametrize("bank", [models.FeatureModels, models.SupportModels])
def test_rates_without_an_axis_of_their_own_are_refused(bank):
    """Of two rates and two kernels each kernel would get a rate."""
    wanted = r"PlainSteps: coefficient of step must be .*num_rates.*got \(1, 2\)"
    with jax.numpy_rank_promotion("allow"), pytest.raises(ValueError, match=wanted):
        bank(jaxmkl.Gaussian([0.5, 2.0]), PlainSteps([0.1, 0.5]))
