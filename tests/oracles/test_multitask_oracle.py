"""The multi-task oracle against results worked by hand and first principles."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.oracles.multitask import COMPONENTS, Dictionary, MultiTask
from tests.oracles.support_mkl import gaussian

# k = 2^(-r²)
HALVING = gaussian(1.0 / math.sqrt(2.0 * math.log(2.0)))


def dictionary(**arguments):
    return Dictionary(**({"kernel": HALVING, "size": 4} | arguments))


def full(size=5, num_inputs=3, seed=0):
    """A dictionary of some points."""
    rng = np.random.default_rng(seed)
    one = dictionary(kernel=gaussian(1.5), size=size)
    for x, u in zip(rng.normal(size=(8 * size, num_inputs)), rng.random(8 * size), strict=True):
        one.offer(x, u)
    assert len(one.points) == size
    return one


def model(num_tasks=2, size=5, seed=0, **arguments):
    """A model amid its way: means and covariances as they might be."""
    rng = np.random.default_rng(seed + 1)
    one = MultiTask(num_tasks, full(size, seed=seed), **arguments)
    one.means = 0.3 * rng.normal(size=one.means.shape)
    for precision in one.precisions:
        factor = rng.normal(size=(size, size))
        precision += 0.2 * factor @ factor.T
    return one


def examples(tasks, seed=2):
    rng = np.random.default_rng(seed)
    return {task: (rng.normal(size=3), float(rng.choice([-1.0, 1.0]))) for task in tasks}


def never(tasks):
    """No point comes in; every label that is drawn for is asked for."""
    return dict.fromkeys(tasks, (1.0, 0.0))


# --- the dictionary ------------------------------------------------------------------------------


def test_a_dictionary_by_hand():
    """alpha = 1, beta = 1, accuracy = 1/2."""
    one, zero = dictionary(), np.zeros(1)
    assert one.probability(zero) == pytest.approx(1.5 / 2)
    assert not one.offer(zero, 0.75)
    assert one.offer(zero, 0.7499)
    assert one.points[0].probability == pytest.approx(0.75)
    # S K S + alpha = 4/3 + 1 = 7/3; at x = 1, k = 1/2: a = 1 - (4/3)(1/4) / (7/3) = 6/7
    assert one.probability(np.ones(1)) == pytest.approx(1.5 * (6 / 7) / (13 / 7))
    # L = 1, so phi = 1/2; then 1/2 and sqrt(3/4)
    np.testing.assert_allclose(one.embed(np.ones(1)), [0.5, 0, 0, 0])
    assert one.offer(np.ones(1), 0.0)
    np.testing.assert_allclose(one.embed(np.ones(1)), [0.5, math.sqrt(0.75), 0, 0])


def test_a_point_that_is_no_news_is_not_taken():
    one = dictionary(size=2)
    assert one.offer(np.zeros(1), 0.0)
    assert not one.offer(np.zeros(1), 0.0)
    assert one.refused == 0
    assert one.offer(np.ones(1), 0.0)
    assert not one.offer(np.full(1, 2.0), 0.0)
    assert not one.offer(np.full(1, 2.0), 0.999)
    assert (len(one.points), one.refused) == (2, 1)


def test_a_leverage_is_that_of_the_dictionary_with_the_example_in_it():
    """The same number by the definition: x takes part, with weight 1."""
    one, x = full(), np.array([0.3, -0.2, 1.0])
    one.probability(x)
    s = np.array([*(point.probability**-0.5 for point in one.points), 1.0])
    rows = np.vstack([one.rows(), x])
    gram = np.array([one.kernel(rows, row) for row in rows])
    k = s * gram[-1]
    inner = s[:, None] * gram * s[None, :] + one.alpha * np.eye(len(s))
    wanted = (1 + one.accuracy) / one.alpha * (one.own(x) - k @ np.linalg.solve(inner, k))
    assert one.leverage == pytest.approx(wanted, rel=1e-12)


def test_an_embedding_keeps_inner_products():
    one = full()
    phis = np.array([one.embed(point.x) for point in one.points])
    np.testing.assert_allclose(phis @ phis.T, one.gram(), atol=1e-12)
    for x in np.random.default_rng(5).normal(size=(20, 3)):
        assert one.embed(x) @ one.embed(x) <= one.own(x) + 1e-12


# --- a round -------------------------------------------------------------------------------------


def test_two_rounds_by_hand():
    """One point at 0, phi = 1 there; lambda = 2, epsilon = 1/2; two tasks."""
    one = MultiTask(2, dictionary(size=1), noise=2.0, inertia=0.5, asking="unsure", h=0.5)
    zero = np.zeros(1)
    said = one.step({0: (zero, 1.0)}, {0: (0.0, 0.9999)})[0]
    assert said == (0.0, 2.0, -1.0, True)
    # both covariances 1 - 1/3; local: g = min(1, 1 / (2/3)) = 1, so 2/3; global 1 * 2/3
    np.testing.assert_allclose(np.ravel([one.sigma(i) for i in range(3)]), [2 / 3, 2 / 3, 1])
    np.testing.assert_allclose(one.means, [[2 / 3], [2 / 3], [0]])
    # task 1: e = 2/3, v = 5/3, Theta = 2/3 - 5/6 < 0; a mistake
    said = one.step({1: (zero, -1.0)}, {1: (0.0, 0.9999)})[1]
    assert said.asked
    assert (said.value, said.theta) == (pytest.approx(2 / 3), pytest.approx(-1 / 6))
    # local: sigma 2/3, g = min(1, (5/3) / (2/3)) = 1: -2/3; global: 2/3 - (4/9)/(8/3) = 1/2
    np.testing.assert_allclose(one.means, [[2 / 3 - 1 / 2], [2 / 3], [-2 / 3]])
    # task 0: e = 5/6, v = 1/2 + 2/3, Theta = 5/6 - 7/12 = 1/4, asked for with 1/2 / (3/4) = 2/3
    before = one.means.copy()
    for u, asked in ((0.667, False), (0.666, True)):
        said = one.step({0: (zero, 1.0)}, {0: (0.0, u)})[0]
        assert said.theta == pytest.approx(1 / 4)
        assert said.asked == asked
    np.testing.assert_array_equal(one.means, before)


@pytest.mark.parametrize(
    ("update", "y", "moves"),
    [("mistake", 1, 0), ("unsure", 1, 1), ("margin", 1, 1), ("mistake", -1, 1)],
)
def test_which_examples_move_a_mean(update, y, moves):
    """e = 0.1 for y = 1 is no mistake, but a loss, and Theta < 0."""
    one = MultiTask(1, dictionary(size=1), update=update)
    one.step({}, {})
    one.dictionary.offer(np.zeros(1), 0.0)
    one.means[0] = 0.1
    before = one.means.copy()
    one.step({0: (np.zeros(1), y)}, never([0]))
    assert np.any(one.means != before) == moves
    assert (one.precisions[1, 0, 0] > 1) == moves


@pytest.mark.parametrize(("asking", "covariance"), [("all", "queried"), ("chance", "always")])
def test_covariances_shrink_without_a_mistake(asking, covariance):
    one = MultiTask(1, dictionary(size=1), asking=asking, h=0.0, covariance=covariance)
    one.dictionary.offer(np.zeros(1), 0.0)
    one.means[0] = 2.0
    said = one.step({0: (np.zeros(1), 1.0)}, {0: (0.0, 0.5)})[0]
    assert said.asked == (asking == "all")
    np.testing.assert_allclose(one.precisions, 2.0)
    np.testing.assert_array_equal(one.means, [[2.0], [0.0]])


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("noise", [0.2, 5.0])
def test_a_local_mean_is_the_minimizer(loss, noise):
    """|mu - old|² by the new covariance's inverse + loss / epsilon, the global mean as it was."""
    for seed in range(5):
        one = model(components="both", loss=loss, update="margin", noise=noise, seed=seed)
        x, y = examples([0], seed)[0]
        old, above = one.means[1].copy(), one.means[0].copy()
        one.step({0: (x, y)}, never([0]))
        phi, inverse = one.dictionary.embed(x), one.precisions[1]

        def objective(mean, phi=phi, inverse=inverse, old=old, above=above, y=y, one=one):
            hinge = max(0.0, 1.0 - y * float((above + mean) @ phi))
            far = (mean - old) @ inverse @ (mean - old)
            return far + hinge ** (2 if loss == "squared_hinge" else 1) / one.inertia

        found = minimize(
            objective,
            old,
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 20_000, "maxfev": 20_000},
        )
        assert objective(one.means[1]) <= found.fun + 1e-10
        np.testing.assert_allclose(one.means[1], found.x, atol=1e-4)


def test_the_global_covariance_by_woodbury():
    """Equation 4 for three tasks in one round."""
    one = model(num_tasks=3, covariance="queried", noise=0.7)
    given = examples(range(3))
    before = one.sigma(0)
    one.step(given, never(given))
    F = np.array([one.dictionary.embed(x) for x, _ in given.values()]).T
    inner = 0.7 * np.eye(3) + F.T @ before @ F
    wanted = before - before @ F @ np.linalg.solve(inner, F.T @ before)
    np.testing.assert_allclose(one.sigma(0), wanted, rtol=1e-10, atol=1e-12)


def test_the_global_step_of_the_squared_hinge_is_the_minimizer():
    """The minimiser of |mu - old|² + sum (1 - y (f + change))² / epsilon over the moving tasks."""
    one = model(num_tasks=3, loss="squared_hinge", update="margin", inertia=0.3)
    given = examples(range(3))
    old = one.means[0].copy()
    said = one.step(given, never(given))
    gradient = 2.0 * one.precisions[0] @ (one.means[0] - old)
    for task, (x, y) in given.items():
        phi = one.dictionary.embed(x)
        assert y * said[task].value < 1
        left = 1.0 - y * (said[task].value + phi @ (one.means[0] - old))
        gradient -= 2.0 / one.inertia * left * y * phi
    np.testing.assert_allclose(gradient, 0, atol=1e-10)


def test_the_global_step_of_the_hinge():
    """Equation 5: the slopes of the hinges that err, by the new covariance."""
    one = model(num_tasks=3, inertia=2.0)
    given = examples(range(3))
    values = {
        task: one.say(task, one.dictionary.embed(x), 0.0).value for task, (x, _) in given.items()
    }
    wrong = (0, 2)  # task 1 is right
    given = {
        task: (x, float(np.sign(values[task])) * (-1 if task in wrong else 1))
        for task, (x, _) in given.items()
    }
    old = one.means[0].copy()
    one.step(given, never(given))
    slope = sum(given[task][1] * one.dictionary.embed(given[task][0]) for task in wrong)
    np.testing.assert_allclose(4.0 * one.precisions[0] @ (one.means[0] - old), slope, atol=1e-12)


@pytest.mark.parametrize("components", COMPONENTS)
def test_a_component_that_is_off_stays_as_it_was(components):
    one = MultiTask(2, full(), components=components)
    for seed in range(20):
        one.step(examples([seed % 2], seed), never([seed % 2]))
    moved = [bool(np.any(mean != 0)) for mean in one.means]
    assert moved == [components != "local", *[components != "global"] * 2]
    shrunk = [bool(np.any(precision != np.eye(5))) for precision in one.precisions]
    assert shrunk == moved


@pytest.mark.parametrize("growth", ["extend", "restart"])
def test_growth(growth):
    one = MultiTask(1, dictionary(size=3), growth=growth)
    one.step({0: (np.zeros(1), 1.0)}, {0: (0.0, 0.0)})
    assert one.means[1, 0] > 0
    before = one.means.copy(), one.precisions.copy()
    said = one.step({0: (np.ones(1), 1.0)}, {0: (0.0, 0.0)})[0]
    if growth == "restart":
        assert said[:3] == (0.0, pytest.approx(2.0), pytest.approx(-0.5))
    else:
        assert said.value == pytest.approx(0.5 * 2 * before[0][0, 0])
        np.testing.assert_array_equal(one.means, before[0])
        np.testing.assert_array_equal(one.precisions, before[1])
