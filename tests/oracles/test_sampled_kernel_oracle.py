"""The oracle of OKS, of which one kernel a round takes part, against results worked by hand."""

import math

import numpy as np
import pytest

from tests.oracles.oks import SampledKernel, candidate_widths, oks_rate
from tests.oracles.support_mkl import polynomial

LN2 = math.log(2)


def test_widths_and_rate_of_section_6():
    widths = candidate_widths()
    assert len(widths) == 25
    np.testing.assert_allclose(
        [1 / (2 * sigma**2) for sigma in widths], [2.0**i for i in range(-12, 13)], rtol=1e-14
    )
    assert oks_rate(25, 1000) == pytest.approx(math.sqrt(1.6 * math.log(25) / 25_000), rel=1e-14)


def test_a_sampled_kernel_by_hand():
    one = SampledKernel([polynomial(1), polynomial(2)], eta=0.5, rate=LN2 / 4, delta=0.2)
    assert one.step([1.0, 0.0], -1, 0.49) == 0  # a mistake
    assert (one.drawn, one.mistakes) == (0, 1)
    assert one.weights == pytest.approx([2**-0.5, 1])  # p = 1/2
    assert one.coefficients == [[-0.5], []]
    # the other kernel knows nothing of that; 0 is a mistake for y = +1, too
    assert one.step([2.0, 0.0], 1, 0.99) == 0
    assert (one.drawn, one.mistakes) == (1, 2)
    share = 0.8 * 2**-0.5 / (1 + 2**-0.5) + 0.1
    assert one.chances == pytest.approx([share, 1 - share])
    assert one.coefficients == [[-0.5], [0.5]]
    second = 2 ** (-1 / (4 * (1 - share)))
    assert one.weights == pytest.approx([2**-0.5, second])
    share = 0.8 * 2**-0.5 / (second + 2**-0.5) + 0.1
    assert one.step([1.0, 1.0], 1, share + 1e-9) == 2.0  # (x·z)² = 4: no margin error
    assert one.coefficients == [[-0.5], [0.5]]
    assert one.step([1.0, 1.0], 1, share - 1e-9) == -0.5
    assert one.mistakes == 3
    assert one.weights == pytest.approx([2**-0.5 * 2 ** (-1 / (4 * share)), second])
    assert one.coefficients == [[-0.5, 0.5], [0.5]]  # not divided by p


@pytest.mark.parametrize("label", [-1, 1])
def test_a_score_of_zero_of_a_sampled_kernel_is_a_mistake(label):
    one = SampledKernel([polynomial(1)] * 2)
    assert one.step([1.0], label, 0.0) == 0
    assert one.mistakes == 1
    assert one.weights[0] < 1
    one.step([1.0], label, 0.0)  # y f = 1
    assert one.mistakes == 1


def test_only_the_sampled_kernel_shrinks():
    one = SampledKernel([polynomial(1)] * 2, eta=0.5, rate=0.0, regularization=0.4)
    one.step([1.0], 1, 0.0)
    one.step([1.0], 1, 0.9)
    one.step([3.0], 1, 0.0)  # y f = 3/2: nothing to learn
    assert one.coefficients == [[0.4], [0.5]]


def test_the_last_kernel_where_rounding_leaves_none():
    one = SampledKernel([polynomial(1)] * 3)
    one.step([1.0], 1, 1.0)
    assert one.drawn == 2
