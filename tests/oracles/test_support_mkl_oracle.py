"""The oracle of the support-vector learners against results worked by hand and first principles.

Kernels are inner products and their squares where something is worked by hand; elsewhere
functions are compared by explicit Gram matrices.
"""

import math

import numpy as np
import pytest

from tests.oracles.support_mkl import SupportMKL, gaussian, polynomial, shrinking_factor

HAND_X = [(1, 0), (0, 1), (1, 1), (2, 1), (-1, 1), (-2, 1)]
HAND_Y = [1, -1, 1, 1, -1, 1]
HAND_F = [(0, 0), (0, 0), (0, 0), (4, 12), (-2, 0), (-4, -5)]  # of x·z and of (x·z)²


def run(learner, X, y, u=None, v=None):
    """Predictions (T,); without u every kernel is sampled."""
    P = len(learner.kernels)
    u = np.zeros((len(X), P)) if u is None else u
    v = np.zeros((len(X), P)) if v is None else v
    return [learner.step(*arguments) for arguments in zip(X, y, u, v, strict=True)]


def stream(seed, num_examples, num_inputs=3):
    """X (T, D), y (T,) of noisy signs, u and v (T, 2)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(num_examples, num_inputs))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=num_examples) > 0, 1.0, -1.0)
    return X, y, rng.random((num_examples, 2)), rng.random((num_examples, 2))


def gram(kernel, X, Z):
    return np.array([[float(kernel(x, z)) for z in Z] for x in X])


def difference(before, after):
    """Rounds (n,) and coefficients (n,) of the function after minus the one before."""
    totals = {}
    for places, sign in ((before, -1.0), (after, 1.0)):
        for t, coefficient in places:
            totals[t] = totals.get(t, 0.0) + sign * coefficient
    return list(totals), np.array(list(totals.values()))


# --- rules, by hand ------------------------------------------------------------------------------


def test_perceptrons_their_votes_and_weights():
    learner = SupportMKL([polynomial(1), polynomial(2)], gamma=0.5)
    predictions, scores, weights = [], [], []
    for x, y in zip(HAND_X, HAND_Y, strict=True):
        predictions += run(learner, [x], [y])
        scores.append(tuple(learner.f))
        weights.append(tuple(learner.weights))
    assert scores == HAND_F
    # the linear kernel is right about the fifth, where the other one's score is 0
    half, third = (1 / 2, 1 / 2), (2 / 3, 1 / 3)
    np.testing.assert_allclose(weights, [half, half, half, half, third, third], rtol=1e-15)
    # a score of 0 votes 1, which is right in rounds 0 and 2; in round 4 the two votes cancel
    np.testing.assert_allclose(predictions, [1, 1, 1, 1, 0, -1], rtol=1e-15)
    assert learner.mistakes == 3  # 1, 4 and 5
    assert learner.places[0] == [(0, 1), (1, -1), (2, 1), (5, 1)]
    assert learner.places[1] == [(0, 1), (1, -1), (2, 1), (4, -1), (5, 1)]
    assert learner.support == [4, 5]


@pytest.mark.parametrize(("label", "wanted"), [(1, 1), (-1, 0)])
def test_a_score_of_zero_votes_plus_one(label, wanted):
    learner = SupportMKL([polynomial(1), polynomial(2)], weighting="uniform")
    run(learner, HAND_X[:1], [label])
    learner.expansions[1].entries.clear()
    assert learner.step(np.array([1, 0]), 1, np.zeros(2), np.zeros(2)) == wanted
    assert learner.f.tolist() == [label, 0]


def test_value_is_weighted_with_the_weights_before_the_discount():
    learner = SupportMKL([polynomial(1), polynomial(2)], gamma=0.5, combination="value")
    predictions = run(learner, HAND_X, HAND_Y)
    np.testing.assert_allclose(predictions, [0, 0, 0, 8, -1, -4 * 2 / 3 - 5 / 3], rtol=1e-15)
    assert learner.mistakes == 4


@pytest.mark.parametrize(
    ("normalized", "coefficients", "f"),
    [
        # (2, 0): hinge 1, k 4: 1/4. (1, 1): f = 1/2, hinge 1/2, k 2: 1/4. (0, 4): f = 1, y = -1,
        # hinge 2, k 16: 1/8. (-2, 0): f = -3/2, hinge 5/2, k 4: 5/8 is cut at C = 1/2.
        (True, [1 / 4, 1 / 4, -1 / 8, 1 / 2], [0, 1 / 2, 1, -3 / 2]),
        # with k = 1: hinge 1, above C = 1/2. (1, 1): f = 1, no loss. (0, 4): f = 0, hinge 1.
        # (-2, 0): f = -2, hinge 3.
        (False, [1 / 2, -1 / 2, 1 / 2], [0, 1, 0, -2]),
    ],
)
def test_passive_aggressive(normalized, coefficients, f):
    learner = SupportMKL([polynomial(1)], rule="pa", cap=0.5, normalized_step=normalized)
    seen = []
    for x, y in zip([(2, 0), (1, 1), (0, 4), (-2, 0)], [1, 1, -1, 1], strict=True):
        run(learner, [x], [y])
        seen.append(learner.f[0])
    np.testing.assert_allclose(seen, f, rtol=1e-15)
    np.testing.assert_allclose([c for _, c in learner.places[0]], coefficients, rtol=1e-15)


def test_sparse_passive_aggressive():
    learner = SupportMKL([polynomial(1)], rule="spa", rate=0.1, alpha=0.5, beta=2.0)
    # hinge 1: rho = .5/2; eta/rho = .4 < hinge/k = 1
    learner.step((1, 0), 1, [0.2499], [0])
    np.testing.assert_allclose([c for _, c in learner.places[0]], [0.4], rtol=1e-15)
    # f = 1.2, hinge 2.2: rho = .25 again, which u misses
    learner.step((3, 0), -1, [0.25], [0])
    assert learner.support == [1]
    # f = .8, hinge .2: rho = .1, eta/rho = 1, hinge/k = .05
    learner.step((2, 0), 1, [0.1], [0])
    assert learner.support == [1]
    learner.step((2, 0), 1, [0.0999], [0])
    np.testing.assert_allclose([c for _, c in learner.places[0]], [0.4, 0.05], rtol=1e-14)
    # f = 1 for (2, 0): no loss, nothing to learn
    learner.step((2, 0), 1, [0.0], [0])
    assert learner.support == [2]


def test_gradient_descent_on_the_hinge():
    learner = SupportMKL([polynomial(1)], rule="ogd", rate=0.5, regularization=0.2)
    learner.step((2, 0), 1, [0], [0])  # f = 0: 1/2
    assert learner.places[0] == [(0, 0.5)]
    learner.step((0.5, 0), 1, [0], [0])  # y f = 1/2: .45 and 1/2
    np.testing.assert_allclose(learner.places[0], [(0, 0.45), (1, 0.5)], rtol=1e-15)
    learner.step((2, 0), 1, [0], [0])  # y f = 2.3: only the shrinking
    np.testing.assert_allclose(learner.places[0], [(0, 0.405), (1, 0.45)], rtol=1e-15)


def test_gradient_descent_on_the_squared_loss():
    kernels = [polynomial(1), polynomial(2)]
    rule = {"rule": "ogd", "loss": "squared", "rate": 0.125, "regularization": 0.8}
    learner = SupportMKL(kernels, **rule, discount="squared", hedge_rate=0.5, combination="value")
    predictions = run(learner, [(2, 0), (1, 1)], [2, 1])
    # 2 · 1/8 · 2 = 1/2; then f = 1 and 2: shrinking by .9, steps 0 and -1/4
    np.testing.assert_allclose(predictions, [0, 1.5], rtol=1e-15)
    np.testing.assert_allclose(learner.places[0], [(0, 0.45), (1, 0)], rtol=1e-15)
    np.testing.assert_allclose(learner.places[1], [(0, 0.45), (1, -0.25)], rtol=1e-15)
    # squared losses 4, 4 and 0, 1
    second = math.exp(-0.5) / (1 + math.exp(-0.5))
    np.testing.assert_allclose(learner.weights, [1 - second, second], rtol=1e-15)
    assert learner.mistakes == 0


def test_discount_by_the_hinge():
    learner = SupportMKL([polynomial(1), polynomial(2)], gamma=0.5, discount="hinge")
    run(learner, HAND_X[:4], HAND_Y[:4])
    np.testing.assert_allclose(learner.weights, [1 / 2, 1 / 2], rtol=1e-15)
    run(learner, HAND_X[4:], HAND_Y[4:])
    # margins 2 and 0, then -4 and -5: hinge losses 0 + 5 and 1 + 6
    np.testing.assert_allclose(learner.weights, [4 / 5, 1 / 5], rtol=1e-15)


# --- sampling ------------------------------------------------------------------------------------


@pytest.mark.parametrize("discount_sampled", [False, True])
def test_chances_come_from_the_weights_before_the_discount(discount_sampled):
    learner = SupportMKL(
        [polynomial(1), polynomial(2)],
        gamma=0.5,
        sampled=True,
        delta=0.2,
        discount_sampled=discount_sampled,
    )
    run(learner, HAND_X[:5], HAND_Y[:5])
    before = learner.support
    np.testing.assert_allclose(learner.weights, [2 / 3, 1 / 3], rtol=1e-15)
    # chances 1 and .8 / 2 + .2 = .6: both are wrong, the second is just missed
    learner.step(HAND_X[5], HAND_Y[5], [0.999, 0.6001], [0, 0])
    assert learner.support == [before[0] + 1, before[1]]
    expected = [1 / 2, 1 / 2] if discount_sampled else [2 / 3, 1 / 3]
    np.testing.assert_allclose(learner.weights, expected, rtol=1e-15)


def test_one_draw_decides_on_the_kernel_and_its_rule():
    kernels = [polynomial(1), polynomial(2)]
    rule = {"rule": "spa", "rate": 0.1, "alpha": 0.5, "beta": 2.0}
    learner = SupportMKL(kernels, **rule, sampled=True, delta=0.2)
    learner.weights = np.array([3 / 4, 1 / 4])
    # chances 1 and .8 / 3 + .2, rho 1/4 each
    chance = (0.8 / 3 + 0.2) / 4
    learner.step((1, 0), 1, [0.2499, chance + 1e-9], [0, 0])
    assert learner.support == [1, 0]
    learner.weights = np.array([3 / 4, 1 / 4])
    learner.step((0, 1), 1, [0.2501, chance - 1e-9], [0, 0])
    assert learner.support == [1, 1]


def test_a_kernel_that_is_not_sampled_neither_shrinks_nor_learns():
    rule = {"rule": "ogd", "rate": 0.5, "regularization": 0.2}
    learner = SupportMKL([polynomial(1), polynomial(2)], **rule, sampled=True, delta=0.2)
    run(learner, [(2, 0)], [1])
    learner.weights = np.array([3 / 4, 1 / 4])  # chances 1 and .8 / 3 + .2
    learner.step((0.5, 0), 1, [0.9, 0.5], [0, 0])  # y f = 1/2 and 1/2
    np.testing.assert_allclose(learner.places[0], [(0, 0.45), (1, 0.5)], rtol=1e-15)
    assert learner.places[1] == [(0, 0.5)]
    learner.step((2, 0), 1, [0.9, 0.4], [0, 0])  # no loss: only the shrinking
    np.testing.assert_allclose(learner.places[0], [(0, 0.405), (1, 0.45)], rtol=1e-15)
    np.testing.assert_allclose(learner.places[1], [(0, 0.45)], rtol=1e-15)


# --- questions and adaptive selection ------------------------------------------------------------


def test_a_label_is_asked_for_the_oftener_the_smaller_the_margin():
    rule = {"rule": "ogd", "rate": 0.5, "regularization": 0.2, "combination": "value"}
    learner = SupportMKL([polynomial(1)], **rule, h=0.5)
    learner.step((2, 0), 1, [0], [0], 0.999)  # f = 0: always
    learner.step((0.5, 0), 1, [0], [0], 0.5001)  # f = 1/2: with probability 1/2
    assert (learner.places[0], learner.labels, learner.t) == ([(0, 0.5)], 1, 2)
    learner.step((0.5, 0), 1, [0], [0], 0.4999)
    np.testing.assert_allclose(learner.places[0], [(0, 0.45), (2, 0.5)], rtol=1e-15)
    assert learner.labels == 2


def test_those_who_speak_are_drawn_after_a_label():
    learner = SupportMKL(
        [polynomial(1), polynomial(2), polynomial(1)],
        combination="value",
        gamma=0.5,
        h=0.5,
        threshold_of_weights=0.6,
    )
    even, nothing = np.full(3, 0.5), np.ones(3)
    # all learn, and are discounted alike
    learner.step((1, 0), -1, np.zeros(3), np.zeros(3), 0.0, np.array([even, nothing]))
    learner.weights = np.array([2 / 4, 1 / 4, 1 / 4])
    # K = 1 of 3 is above .6 of the largest: the others with probability 1/3. Without noise the
    # first is drawn; of much noise the second.
    learner.active[:] = True
    learner.step((-2, 0), 1, np.zeros(3), np.zeros(3), 0.0, np.array([even, [0.9, 0.4, 0.3]]))
    assert learner.active.tolist() == [True, False, True]
    noisy = np.array([0.5, 0.99, 0.5])
    learner.weights = np.array([2 / 4, 1 / 4, 1 / 4])
    learner.step((-2, 0), 1, np.zeros(3), np.zeros(3), 0.0, np.array([noisy, [0.34, 0.4, 0.9]]))
    assert learner.active.tolist() == [False, True, False]
    # the second alone predicts: -1 (1·x)²; without a label all stays
    before = learner.weights.copy()
    assert learner.step((0.5, 0), 1, np.zeros(3), np.zeros(3), 1.0) == learner.f[1]
    assert learner.active.tolist() == [False, True, False]
    np.testing.assert_array_equal(learner.weights, before)


# --- budgets -------------------------------------------------------------------------------------


def test_oldest_is_replaced_in_its_place():
    learner = SupportMKL([gaussian(0.01)], budget=3, policy="oldest")
    X = np.arange(5.0)[:, None]  # so far apart that every score is 0: all are learned
    run(learner, X, [1, -1, 1, -1, 1])
    assert learner.places[0] == [(3, -1), (4, 1), (2, 1)]


def test_random_place_is_replaced_in_place():
    learner = SupportMKL([gaussian(0.01)], budget=3, policy="random")
    X = np.arange(6.0)[:, None]
    # int(3 v): nothing is removed in the first three rounds, then 1, 1 and (clipped) 2
    run(learner, X, [1, -1, 1, -1, 1, -1], v=np.array([[0.9, 0.9, 0.9, 0.34, 0.66, 1.0]]).T)
    assert learner.places[0] == [(0, 1), (4, 1), (5, -1)]


def test_shrinking_factor_is_the_largest_that_is_allowed():
    rng = np.random.default_rng(0)
    kinds = set()
    phi = np.linspace(0.0, 1.0, 100_001)[1:]
    for _ in range(400):
        errors = int(rng.integers(1, 20))
        d, mu = rng.uniform(0, 2), rng.uniform(-2, 2)
        damage = 15 / 32 * (errors - rng.uniform(1, min(errors, 3) + 1e-9))
        allowed = damage + (d * phi) ** 2 + 2 * d * phi * (1 - phi * mu) <= 15 / 32 * errors
        largest = shrinking_factor(d, mu, damage, errors)
        assert abs(largest - phi[allowed].max()) <= 1.001e-5
        kinds.add((largest < 1, d > 2 * mu))
    assert len(kinds) == 4  # shrunk or not, quadratic terms of both signs
    # without a quadratic term: 2 d phi <= 15/32
    assert shrinking_factor(1.0, 0.5, 0.0, 1) == pytest.approx(15 / 64, rel=1e-15)


def test_forgetron_keeps_its_bound():
    X, y, u, v = stream(1, 300)
    kernels = [gaussian(0.5), gaussian(2.0)]
    learner = SupportMKL(kernels, budget=7, policy="forgetron")
    removals = shrunk = 0
    errors = [0, 0]
    for t in range(len(X)):
        before = learner.places
        damage = [one.damage for one in learner.expansions]
        learner.step(X[t], y[t], u[t], v[t])
        for i, one in enumerate(learner.expansions):
            wrong = y[t] * learner.f[i] <= 0
            errors[i] += wrong
            if not wrong or len(before[i]) < 7:
                appended = [(t, y[t])] if wrong else []
                assert learner.places[i] == before[i] + appended
                assert one.damage == damage[i]
                continue
            removals += 1
            # from first principles: f' = f + y k(x, .), f'' = phi f', then the oldest goes
            phi = y[t] * dict(learner.places[i])[t]
            assert 0 < phi <= 1
            shrunk += phi < 1
            place = int(np.argmin([r for r, _ in before[i]]))
            full = [*before[i], (t, y[t])]
            expected = [(r, phi * a) for r, a in full]
            expected[place] = expected.pop()
            np.testing.assert_allclose(learner.places[i], expected, rtol=1e-14)
            rows = X[[r for r, _ in full]]
            a = np.array([a for _, a in full])
            after = phi * np.where(np.arange(8) == place, 0.0, a)
            K = gram(one.kernel, rows, rows)
            # Dekel et al.: the damage is the change of the squared norm and 2 phi d
            change = after @ K @ after - (phi * a) @ K @ (phi * a)
            np.testing.assert_allclose(
                one.damage - damage[i], change + 2 * phi * abs(a[place]), atol=1e-12
            )
            bound = 15 / 32 * errors[i]
            assert one.damage <= bound + 1e-12
            if phi < 1:  # as large as the bound allows
                np.testing.assert_allclose(one.damage, bound, rtol=1e-12)
    assert removals > 100
    assert 20 < shrunk < removals


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "normalized"),
    # with k(x, x) put as 1 the objective is a norm only where it is 1
    [(gaussian(1.0), False), (polynomial(2), True)],
    ids=["gaussian, k put as 1", "square"],
)
def test_replaced_place_has_the_smallest_objective(kernel, normalized):
    X, y, u, v = stream(2, 120)
    X *= 0.7
    learner = SupportMKL(
        [kernel], rule="pa", cap=0.4, budget=6, policy="replace", normalized_step=normalized
    )
    chosen, cut = [], 0
    for t in range(len(X)):
        before = learner.places[0]
        learner.step(X[t], y[t], u[t, :1], v[t, :1])
        after = learner.places[0]
        hinge = 1 - y[t] * learner.f[0]
        if len(before) < 6 or hinge <= 0:
            continue
        rows = X[[*(r for r, _ in before), t]]
        K = gram(kernel, rows, rows)
        old = np.array([a for _, a in before] + [0.0])

        def objective(new, old=old, K=K, label=y[t]):
            """0.5 |f_new - f|² + C hinge, from coefficients (7,) alone."""
            move = new - old
            return 0.5 * move @ K @ move + 0.4 * max(0.0, 1.0 - label * (K[-1] @ new))

        costs = []
        for r in range(6):
            # convex in b and piecewise quadratic: by golden section, no formula shared
            def cost(b, r=r, old=old, objective=objective):
                new = np.where(np.arange(7) == r, 0.0, old)
                new[-1] = b
                return objective(new)

            low, high = -40.0, 40.0
            for _ in range(90):
                left, right = (high - low) * 0.381966 + low, (high - low) * 0.618034 + low
                low, high = (low, right) if cost(left) < cost(right) else (left, high)
            costs.append(cost((low + high) / 2))
        place = [r for r in range(6) if before[r] != after[r]]
        assert len(place) == 1
        assert after[place[0]][0] == t
        new = np.where(np.arange(7) == place[0], 0.0, old)
        new[-1] = after[place[0]][1]
        np.testing.assert_allclose(objective(new), min(costs), rtol=1e-9)
        chosen.append(place[0])
        cut += hinge / K[-1, -1] > 0.4
    assert len(chosen) > 40
    assert len(set(chosen)) == 6
    assert 0 < cut < len(chosen)


def test_replaced_place_of_the_simple_form():
    # k(x, x) is put as 1 for x·z: a = (1, 1), k_rt = (2, 1), f = 3, y = -1: hinge 4, tau 1/2,
    # b = (3/2, 1/2), moved² = 1 + 9/4 - 6 = -11/4 and 1 + 1/4 - 1 = 1/4, hinges after
    # 1 + 3 - 2 + 3/2 = 7/2 and 1 + 3 - 1 + 1/2 = 7/2: the first
    learner = SupportMKL(
        [polynomial(1)], rule="pa", cap=0.5, budget=2, policy="replace", normalized_step=False
    )
    run(learner, [(2, 0), (1, 0)], [1, -1])
    for entry in learner.expansions[0].entries:
        entry.coefficient = 1.0
    learner.step((1, 0), -1, [0], [0])
    assert learner.f[0] == 3
    assert learner.places[0] == [(2, 1.5), (1, 1.0)]


def test_equal_objectives_replace_the_first_place():
    learner = SupportMKL([gaussian(0.01)], rule="pa", cap=1.0, budget=3, policy="replace")
    run(learner, np.arange(4.0)[:, None], [1, -1, 1, -1])
    assert learner.places[0] == [(3, -1), (1, -1), (2, 1)]


@pytest.mark.parametrize("threshold", [0.0, 0.9])
@pytest.mark.parametrize("kernel", [gaussian(1.0), polynomial(2)], ids=["gaussian", "square"])
def test_projection_leaves_a_residual_orthogonal_to_the_span(kernel, threshold):
    X, y, u, v = stream(3, 200)
    learner = SupportMKL([kernel], budget=5, policy="project", threshold=threshold)
    projected = early = 0
    for t in range(len(X)):
        before = learner.places[0]
        learner.step(X[t], y[t], u[t, :1], v[t, :1])
        after = learner.places[0]
        if y[t] * learner.f[0] > 0:
            assert after == before
            continue
        if len(after) > len(before):
            assert after == [*before, (t, y[t])]
            assert len(after) <= 5
        else:
            projected += 1
            early += len(before) < 5
            assert [r for r, _ in after] == [r for r, _ in before]
            # f_new - f = y P k(x, .): y k(x, .) less that is orthogonal to every stored one
            rounds, move = difference(before, after)
            K = gram(kernel, X[rounds], X[rounds])
            np.testing.assert_allclose(K @ move, y[t] * gram(kernel, X[rounds], X[[t]])[:, 0])
        # the squared distance from the span, as a ratio of determinants
        if 0 < len(before) < 5:
            rows = X[[*(r for r, _ in before), t]]
            K = gram(kernel, rows, rows)
            distance = np.linalg.det(K) / np.linalg.det(K[:-1, :-1])
            assert (distance > threshold) == (len(after) > len(before))
    assert projected > 20
    assert (early > 0) == (threshold > 0)


def test_projection_onto_a_span_that_holds_the_example():
    # x·z in two dimensions: the third is y = 1 times (1, 1) = (1, 0) + (0, 1)
    learner = SupportMKL([polynomial(1)], budget=9, policy="project", threshold=1e-9)
    run(learner, HAND_X[:3], HAND_Y[:3])
    np.testing.assert_allclose(learner.places[0], [(0, 2), (1, 0)], atol=1e-15)
