"""The oracle of online kernel selection against results worked by hand and first principles."""

import math

import numpy as np
import pytest

from tests.oracles.oks import (
    CAUCHY,
    GAUSSIAN,
    GAUSSIAN_WIDTH,
    TWO_GAUSSIANS,
    HypothesisSketch,
    OwnKernels,
    SampledKernel,
    candidate_widths,
    draw,
    kernel_alignment,
    least_squares,
    oks_rate,
    proj_ka,
)
from tests.oracles.support_mkl import gaussian, polynomial

LN2 = math.log(2.0)
WIDE = {"low": 1e-9, "high": 1e9}


def stream(seed, num_examples, num_inputs=3, samples=3):
    """X (T, D), y (T,) of noisy signs and u (T, s)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(num_examples, num_inputs))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=num_examples) > 0, 1.0, -1.0)
    return X, y, rng.random((num_examples, samples))


def slope_by_differences(f, at, step=1e-6):
    """The derivative of f by each entry of the array ``at``, of its shape."""
    at = np.asarray(at, np.float64)
    slope = np.zeros(at.size)
    for i in range(at.size):
        values = []
        for sign in (1.0, -1.0):
            moved = at.ravel().copy()
            moved[i] += sign * step
            values.append(f(moved.reshape(at.shape)))
        slope[i] = (values[0] - values[1]) / (2.0 * step)
    return slope.reshape(at.shape)


# kernel, theta for 3 inputs, whether its logarithm makes the steps
SKETCHES = {
    "gaussian": (GAUSSIAN, 0.4, False),
    "gaussian, a width for each input": (GAUSSIAN, np.array([0.2, 0.5, 0.9]), False),
    "gaussian by its width": (GAUSSIAN_WIDTH, 1.1, False),
    "gaussian by a width for each input": (GAUSSIAN_WIDTH, np.array([0.7, 1.0, 1.4]), False),
    "cauchy": (CAUCHY, 1.3, True),
    "two gaussians": (TWO_GAUSSIANS, np.array([0.3, 1.2, 0.7, 2.5]), True),
}


def sketch(name, **arguments):
    kernel, theta, logarithmic = SKETCHES[name]
    return HypothesisSketch(
        theta, kernel=kernel, logarithmic=logarithmic, **({**WIDE, "budget": 6} | arguments)
    )


# --- kernels -------------------------------------------------------------------------------------


# --- which places are drawn ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "u", "wanted"),
    [
        ([1, 2, 1], [0, 0, 0], [0, 1, 2]),
        # of 4: beyond 1 is place 1, not 0. Then 1 and 1: half of 2 is 1, beyond which is place 2.
        ([1, 2, 1], [0.25, 0.5, 0], [1, 2, 0]),
        ([1, 2, 1], [0.249, 0.66], [0, 1]),
        ([1, 2, 1], [0.249, 0.67], [0, 2]),
        # places of value 0 wait until all others are drawn, then count 1 each
        ([0, 1, 0, 0], [0, 0.5, 0], [1, 2, 0]),
        ([0, 1, 0, 3], [0.99, 0.99, 0.99], [3, 1, 2]),
        ([0, 0, 0, 0], [0.75, 0.3], [3, 0]),
        ([5e-324, 0, 5e-324], [0.9999], [2]),
        ([5e-324, 0], [0.9999], [0]),
    ],
)
def test_draws_by_hand(values, u, wanted):
    assert draw(np.array(values, np.float64), np.array(u)) == wanted


def test_draws_have_the_chances_of_their_values():
    values, rng = np.array([1.0, 0.0, 2.0, 5.0]), np.random.default_rng(1)
    pairs = [tuple(draw(values, u)) for u in rng.random((20_000, 2))]
    wanted = {(0, 2): 1 / 8 * 2 / 7, (0, 3): 1 / 8 * 5 / 7, (2, 0): 2 / 8 * 1 / 6}
    wanted |= {(2, 3): 2 / 8 * 5 / 6, (3, 0): 5 / 8 * 1 / 3, (3, 2): 5 / 8 * 2 / 3}
    assert set(pairs) == set(wanted)
    for pair, chance in wanted.items():
        error = math.sqrt(chance * (1 - chance) / len(pairs))
        assert abs(pairs.count(pair) / len(pairs) - chance) < 4.5 * error


# --- OKS-SIL -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("label", "bound"), [(1, 0.6), (-1, 0.9)])
def test_the_kernel_stays_inside_its_bounds(label, bound):
    one = HypothesisSketch(LN2, 0.6, 0.9, eta=1.0, rate=100.0)
    one.step([0.0], 1, np.zeros(3))
    one.step([1.0], label, np.zeros(3))
    assert one.theta == bound


@pytest.mark.parametrize(("label", "wanted"), [(1, [4, 5, 6, 7]), (-1, [4, 5, 0.3, 0.4])])
def test_logarithmic_parameters_stay_inside_the_bounds_of_each(label, wanted):
    low, high = np.array([0.1, 0.2, 0.3, 0.4]), np.array([4.0, 5.0, 6.0, 7.0])
    one = HypothesisSketch(
        np.ones(4), low, high, kernel=TWO_GAUSSIANS, logarithmic=True, eta=0.1, rate=1e4
    )
    one.step([0.0], 1, np.zeros(3))
    one.theta = np.ones(4)  # x itself has moved the two weights already
    # y f / eta = k(x, x) + y k(x, v): weights are worth more at x itself, widths nothing there
    one.step([1.0], label, np.zeros(3))
    np.testing.assert_allclose(one.theta, wanted, rtol=1e-14)


def test_the_squared_loss_weighs_by_its_slope():
    one = HypothesisSketch(LN2, 0.1, 1.0, eta=0.25, rate=0.3, loss="squared")
    one.step([0.0], 3.0, np.zeros(3))
    assert one.weights == [1.5]
    assert one.step([1.0], 2.0, np.zeros(3)) == pytest.approx(0.75)
    assert one.weights == pytest.approx([1.5, 0.625])
    # L' = -2.5 of both, d f / d gamma = -1.5 / 2
    assert one.theta == pytest.approx(LN2 - 0.3 / 2 * 2.5 * 0.75)


def test_the_kernel_moves_even_where_the_new_hinge_is_flat():
    one = HypothesisSketch(LN2, **WIDE, eta=10.0, rate=0.01)
    one.step([0.0], -1, np.zeros(3))
    one.step([1.0], 1, np.zeros(3))
    assert one.value(np.array([1.0])) > 1
    # y w k d² = 10 (-1) / 2, rho = .01 / 2
    assert one.theta == pytest.approx(LN2 + 0.01 / 2 * 5, rel=1e-14)


@pytest.mark.parametrize(("label", "weight"), [(1, 0), (-1, -2)])
def test_weights_by_the_slope_at_the_new_basis_with_old_weights(label, weight):
    """f^b(10) = 2, by the weight of what went; f(10) = 0 to 2^-63."""
    of_sketches = {"rate": 0.0, "budget": 2, "samples": 1, "gradients": "sketches"}
    one = HypothesisSketch(LN2, **WIDE, eta=2.0, **of_sketches)
    one.step([0.0], 1, [0.0])
    one.step([2.0], -1, [0.0])
    assert one.weights == [2, -2]  # those added have the weight 0 in f^b
    one.step([10.0], label, [0.5])
    assert (one.did, one.weights) == ("replaced", [weight, -2])
    np.testing.assert_array_equal(one.rows, [[10.0], [2.0]])


@pytest.mark.parametrize(("eta", "moved"), [(10.0, 0.0), (0.5, 0.3 / 2 * 0.25)])
def test_the_kernel_by_the_slope_at_the_new_weights(eta, moved):
    """f^w(1) = 5 is beyond the hinge, 3/4 is not; there y w k d² = 1/4."""
    one = HypothesisSketch(LN2, **WIDE, eta=eta, rate=0.3, gradients="sketches")
    one.step([0.0], 1 if eta < 1 else -1, np.zeros(3))
    one.step([1.0], 1, np.zeros(3))
    assert one.weights == [eta if eta < 1 else -eta, eta]
    assert one.theta == pytest.approx(LN2 - moved, rel=1e-14)


@pytest.mark.parametrize("name", SKETCHES)
def test_rounds_against_first_principles(name):
    """Each round that learns, by what it must do to the function and to the kernel."""
    X, y, u = stream(3, 200)
    one = sketch(name, eta=0.4, rate=0.05, nu=0.3)
    seen = {"nothing": 0, "added": 0, "replaced": 0, "compensated": 0}
    for t, (x, label, numbers) in enumerate(zip(X, y, u, strict=True), start=1):
        rows, weights, theta = list(one.rows), list(one.weights), one.theta

        def k(rows, z, theta=theta):
            return one.kernel.values(theta, np.array(rows), z) if rows else np.zeros(0)

        f = one.step(x, label, numbers)
        seen[one.did] += 1
        assert f == pytest.approx(k(rows, x) @ np.array(weights), rel=1e-12)
        assert (one.did == "nothing") == (label * f >= 1)
        norm, new = k([x], x)[0], np.array(one.weights)
        if one.did in ("replaced", "compensated"):
            # the squared distance from the span, by projecting with plain least squares
            drawn = [rows[j] for j in one.drawn]
            alpha = np.linalg.solve(np.array([k(drawn, row) for row in drawn]), k(drawn, x))
            assert one.delta == pytest.approx(norm - alpha @ k(drawn, x), rel=1e-6, abs=1e-9)
            assert (one.did == "replaced") == (one.delta > 0.3 * norm)
            assert len(set(one.drawn)) == 3
        if one.did == "compensated":
            growth = k(one.rows, x) @ new - k(rows, x) @ np.array(weights)
            assert growth == pytest.approx(0.4 * label * (norm - one.delta), rel=1e-9)
            others = [j for j in range(6) if j not in one.drawn]
            assert [one.weights[j] for j in others] == [weights[j] for j in others]
            assert np.array_equal(one.rows, rows)
        if one.did in ("nothing", "compensated"):
            assert np.array_equal(one.theta, theta)
            continue
        if one.did == "replaced":
            place = int(np.argmin(np.abs(weights)))
            np.testing.assert_array_equal(one.rows[place], x)
            assert new[place] == 0.4 * label
            rest = [j for j in range(6) if j != place]
            assert [one.weights[j] for j in rest] == [weights[j] for j in rest]
        else:
            assert new.tolist() == [*weights, 0.4 * label]

        # the step by differences, in the coordinates it is made in
        into, back = (np.log, np.exp) if one.logarithmic else (np.asarray, np.asarray)
        slope = slope_by_differences(
            lambda at, new=new, x=x, label=label, k=k, back=back: (
                -label * k(one.rows, x, back(at)) @ new
            ),
            into(theta),
        )
        wanted = back(into(theta) - 0.05 / t * slope)
        np.testing.assert_allclose(one.theta - theta, wanted - theta, rtol=1e-4, atol=1e-12)
    assert seen["added"] == 6
    assert min(seen[did] for did in ("nothing", "replaced", "compensated")) > 4, seen


@pytest.mark.parametrize(("ties", "place"), [("first", 0), ("oldest", 1)])
def test_ties_of_the_smallest_weight(ties, place):
    """Far examples, none near another, each of weight +-1: all tie."""
    one = HypothesisSketch(1.0, **WIDE, budget=3, samples=1, ties=ties)
    for i in range(3):
        one.step([100.0 * i], (-1) ** i, [0.0])
    one.step([300.0], 1, [0.0])
    assert one.rounds == [4, 2, 3]  # of both: the first place is the oldest
    one.step([400.0], 1, [0.0])
    wanted = [4, 2, 3]
    wanted[place] = 5
    assert one.rounds == wanted


def test_equal_examples_share_what_is_drawn_of_them():
    """Two equal rows have a Gram matrix without an inverse; the least alpha shares equally."""
    alpha = least_squares(np.ones((2, 2)), np.array([0.5, 0.5]))
    np.testing.assert_allclose(alpha, [0.25, 0.25], rtol=1e-14)
    three = np.array([[1, 0.5, 1], [0.5, 1, 0.5], [1, 0.5, 1]])
    psi = np.array([0.75, 0.75, 0.75])
    np.testing.assert_allclose(least_squares(three, psi), [0.25, 0.5, 0.25], rtol=1e-12)
    # an eigenvalue that is rounding only makes no large alpha
    almost = np.array([[1.0, 1.0 - 1e-15], [1.0 - 1e-15, 1.0]])
    np.testing.assert_allclose(
        least_squares(almost, np.array([0.5, 0.5 + 1e-15])), [0.25, 0.25], rtol=1e-12
    )


def test_underflown_kernel_values_draw_by_turns_and_replace():
    one = HypothesisSketch(1.0, **WIDE, budget=3, samples=2)
    for i in range(3):
        one.step([100.0 * i], 1, [0.0, 0.0])
    f = one.step([1000.0], 1, [0.9, 0.6])
    assert f == 0
    assert (one.did, one.drawn, one.delta) == ("replaced", [2, 1], 1.0)


# --- OKL-GD --------------------------------------------------------------------------------------


def test_own_widths_by_hand():
    """Widths 1 / sqrt(2 ln 2) make k = 2^-r²; the slope is -y a k r² / sigma³."""
    sigma = 1 / math.sqrt(2 * LN2)
    one = OwnKernels(sigma, 0.5, 2.0, eta=0.5, rate=0.25, memory=2)
    assert one.step([0.0], 1) == 0
    assert one.centres[0].theta == sigma
    assert one.step([1.0], 1) == pytest.approx(0.25)
    second = sigma + 0.25 / 2 * 0.5 * 0.5 / sigma**3
    assert [c.theta for c in one.centres] == pytest.approx([sigma, second], rel=1e-14)
    # each centre with its own width; the slope of the newest one alone
    k = math.exp(-4 / (2 * second**2))
    assert one.step([3.0], -1) == pytest.approx(0.5 * 2**-9 + 0.5 * k, rel=1e-13)
    third = second - 0.25 / 3 * 0.5 * k * 4 / second**3
    assert [c.x.item() for c in one.centres] == [1, 3]  # the oldest went
    assert [c.coefficient for c in one.centres] == [0.5, -0.5]
    assert [c.theta for c in one.centres] == pytest.approx([second, third], rel=1e-13)
    assert one.theta == one.centres[-1].theta


def test_own_widths_learn_from_margin_errors_only_and_stay_inside_their_bounds():
    one = OwnKernels(1.0, 0.9, 1.1, eta=1.0, rate=100.0)
    one.step([0.0], 1)
    one.step([0.0], 1)  # y f = 1
    assert (len(one.centres), one.t) == (1, 2)
    one.step([1.0], 1)
    assert one.theta == 1.1
    one.step([2.0], -1)
    assert [c.theta for c in one.centres] == [1.0, 1.1, 0.9]


# --- Proj-KA -------------------------------------------------------------------------------------


def test_alignment_against_the_gram_matrix():
    X, y, _ = stream(6, 40)
    kernels = [gaussian(0.5), gaussian(3.0), polynomial(1)]
    for alignment, kernel in zip(kernel_alignment(kernels, X, y), kernels, strict=True):
        K = np.array([kernel(X, x) for x in X])
        ideal = np.outer(y, y)
        wanted = np.sum(K * ideal) / np.linalg.norm(K) / np.linalg.norm(ideal)
        assert alignment == pytest.approx(wanted, rel=1e-12)


def test_proj_ka_chooses_on_the_first_examples_and_keeps_its_budget():
    X, y, _ = stream(7, 60)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    y[20:] = np.where(np.arange(40) % 2 > 0, 1.0, -1.0)  # no kernel but a narrow one knows this
    widths = [2.0, 0.01]
    width, projectron = proj_ka(widths, X, y, budget=4, first=20)
    assert width == 2.0
    assert proj_ka(widths, X[20:], y[20:], budget=4)[0] == 0.01
    f = [
        projectron.step(x, label, np.zeros(1), np.zeros(1)) for x, label in zip(X, y, strict=True)
    ]
    assert projectron.mistakes == sum(label * one <= 0 for label, one in zip(y, f, strict=True))
    assert projectron.support == [4]
    assert (f[0], projectron.places[0][0][0]) == (0, 0)


# --- OKS: one kernel a round takes part ---------------------------------------------------------


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
