"""Experimental design from Gram matrices, against literal forms and optimality conditions."""

import itertools
import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import MultiTaskLasso

import jaxmkl
from jaxmkl import design
from jaxmkl.design._frame import Problem
from jaxmkl.design._pool import Pool
from jaxmkl.design.gmkal import iterate as iterate_gmkal
from jaxmkl.design.gmkal import solve
from jaxmkl.design.lmkal import iterate as iterate_lmkal
from jaxmkl.design.lmkal import parts
from jaxmkl.design.rrss import by_features, factors
from jaxmkl.design.rrss import iterate as iterate_rrss
from tests.common.marks import long
from tests.oracles import design as oracle

SMALL_PROGRAMS = FEW_ROWS = True

pytestmark = pytest.mark.usefixtures("x64")

EPS = 1e-16
with_sets = pytest.mark.parametrize(
    "name",
    [
        "generated",
        *(
            pytest.param(name, marks=[pytest.mark.data, pytest.mark.endless])
            for name in ("sonar", "heart")
        ),
    ],
)


def points(name: str, request: pytest.FixtureRequest) -> np.ndarray:
    """Points of a pool (n, D): 40 drawn around five centres, or 70 % of a data set."""
    if name == "generated":
        draws = np.random.default_rng(3)
        centres = draws.normal(scale=2.0, size=(5, 6))
        return centres[draws.integers(5, size=40)] + draws.normal(size=(40, 6))
    data = jaxmkl.tables.read(request.getfixturevalue("data_dir") / f"{name}.npz")
    X = np.asarray(data.X, np.float64)
    return X[np.random.default_rng(0).permutation(len(X))[: int(0.7 * len(X))]]


@pytest.fixture(scope="module")
def grams() -> np.ndarray:
    """The paper's nine kernels over a small pool, (9, 40, 40)."""
    draws = np.random.default_rng(5)
    return design.dictionary(draws.normal(size=(40, 5)) * [3, 2, 1, 1, 1])


@pytest.fixture(scope="module")
def gram(grams: np.ndarray) -> np.ndarray:
    """Their mean (40, 40)."""
    return grams.mean(axis=0)


def history(found: design.Design) -> np.ndarray:
    """The objective's values; all that is behind its end must be NaN."""
    values = np.asarray(found.objective)
    length = int(np.isfinite(values).sum())
    assert np.isfinite(values[:length]).all()
    assert np.isnan(values[length:]).all()
    return values[:length]


run_gmkal = jax.jit(partial(iterate_gmkal, max_iterations=500))


def penalty_of(grams: np.ndarray, share: float = 0.1) -> float:
    """The penalty of a share of lambda_max at equal weights."""
    P = len(grams)
    return share * oracle.largest_penalty(oracle.consensus(grams, np.full(P, 1 / P)))


def ended(grams: np.ndarray, tolerance: float) -> Any:
    """The coefficients (n, n), worked out literally, and the weights (P,) an iteration ends with.

    The weights are those the coefficients were found with.
    """
    P, n = grams.shape[:2]
    penalty = penalty_of(grams)
    pool = Pool(jnp.asarray(grams), None)
    problem = Problem(pool, penalty, EPS, tolerance)
    end = run_gmkal(problem, jnp.full((P,), 1 / P))
    sizes, w = np.split(np.asarray(end.origin), [n])
    w = w / w.sum()
    return oracle.cted_step(oracle.consensus(grams, w), sizes, penalty), w


# --- one kernel ----------------------------------------------------------------------------------


@pytest.mark.slow
@with_sets
def test_cted_agrees_with_multi_task_lasso(name: str, request: pytest.FixtureRequest) -> None:
    K = design.dictionary(points(name, request)).mean(axis=0)
    n, penalty = len(K), penalty_of(K[None])
    e, V = np.linalg.eigh(K)
    root = (V * np.sqrt(np.maximum(e, 0))) @ V.T
    alpha = penalty / (2 * n)
    lasso = MultiTaskLasso(alpha=alpha, fit_intercept=False, tol=1e-9, max_iter=20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own gap may not come down as far
        A = lasso.fit(root, root).coef_.T
    wanted = oracle.cted_objective(K, A, penalty)
    assert oracle.duality_gap(K, A, penalty) < 5e-7 * wanted  # so it is the minimum
    found = design.cted(K, tolerance=1e-11)
    np.testing.assert_allclose(history(found)[-1], wanted, rtol=1e-6)
    chosen = np.asarray(found.ranking)[: int(found.num_active)]
    np.testing.assert_array_equal(np.sort(chosen), np.flatnonzero(oracle.rows(A)))
    # the minimum is flat: the objective to 1e-7 leaves the coefficients to some 1e-3
    sums = np.abs(A).sum(axis=1)
    np.testing.assert_allclose(found.scores, sums, atol=5e-3 * sums.max())


@pytest.mark.slow
@with_sets
def test_the_optimality_conditions_hold(name: str, request: pytest.FixtureRequest) -> None:
    K = design.dictionary(points(name, request)).mean(axis=0)
    penalty = penalty_of(K[None])
    A, _ = ended(K[None], 1e-8)
    steepness = oracle.steepness(K, A, penalty)
    assert steepness.max() <= 1 + 1e-4
    large = oracle.rows(A) > 0.05 * oracle.rows(A).max()
    assert steepness[large].min() >= 1 - 1e-2
    found = design.cted(K, tolerance=1e-8)
    assert bool(found.converged)
    few = design.cted(K, tolerance=1e-12, max_iterations=4)
    assert not bool(few.converged)
    assert few.objective.shape == (4,)
    np.testing.assert_allclose(found.scores, np.abs(A).sum(axis=1), rtol=1e-6, atol=1e-8)
    value = oracle.cted_objective(K, A, penalty)
    np.testing.assert_allclose(history(found)[-1], value, rtol=1e-6)
    assert oracle.duality_gap(K, A, penalty) < 1e-4 * value


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", long(["cted", "ted"], ["cted", "rrss", "ted", "gmkal", "lmkal"])
)
def test_every_objective_falls(grams: np.ndarray, gram: np.ndarray, method: str) -> None:
    for share in (0.01, 0.1, 0.5):
        found = getattr(design, method)(grams if method in ("gmkal", "lmkal") else gram, share)
        values = history(found)
        assert len(values) > 1
        assert (np.diff(values) <= 0).all()
        assert values[-1] < values[0]
        assert bool(found.converged)


@pytest.mark.slow
def test_a_point_of_no_kernel_costs_no_digits() -> None:
    """Its row is 0 from the first step on; with sizes far below its own, rounding is the rest."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[7] = 0
    single, double = (design.cted(A @ A.T) for A in (X.astype(np.float32), X))
    assert single.converged
    np.testing.assert_allclose(history(single)[-1], history(double)[-1], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cted", "rrss"])
def test_nothing_is_chosen_from_lambda_max_on(gram: np.ndarray, method: str) -> None:
    with pytest.warns(UserWarning, match=f"{method}: regularization .* at or above lambda_max"):
        found = getattr(design, method)(gram, 1.0)
    assert int(found.num_active) == 0
    assert float(jnp.max(found.scores)) == 0.0
    diagonal = np.diag(gram)
    wanted = diagonal.sum() if method == "cted" else np.sqrt(diagonal).sum()
    np.testing.assert_allclose(history(found), [wanted])
    below = getattr(design, method)(gram, 0.97, tolerance=1e-10)
    assert int(below.num_active) >= 1
    assert history(below)[-1] < wanted


@pytest.mark.slow
@pytest.mark.parametrize("method", long(["gmkal"], ["gmkal", "lmkal"]))
def test_several_kernels_choose_nothing_where_none_of_them_would(
    grams: np.ndarray, method: str
) -> None:
    bound = 2 * np.linalg.norm(grams, axis=1).max()
    with pytest.warns(UserWarning, match=f"{method}: regularization .* at or above lambda_max"):
        found = getattr(design, method)(grams, bound, absolute=True)
    assert int(found.num_active) == 0
    assert float(jnp.max(found.scores)) == 0.0
    assert bool(found.converged)
    errors = np.diagonal(grams, axis1=1, axis2=2)
    errors = errors.sum(axis=1, keepdims=True) if method == "gmkal" else errors
    np.testing.assert_allclose(history(found), [np.sum(1 / np.sum(1 / errors, axis=0))])
    wanted = (1 / errors) / np.sum(1 / errors, axis=0)
    weights = found.kernel_weights.reshape(-1, len(grams)).T
    np.testing.assert_allclose(weights, wanted, atol=2e-3)


@pytest.mark.slow
def test_lambda_max_is_where_the_conditions_of_none_begin_to_hold(gram: np.ndarray) -> None:
    zero = np.zeros_like(gram)
    largest = oracle.largest_penalty(gram)
    np.testing.assert_allclose(oracle.steepness(gram, zero, largest).max(), 1.0)
    assert oracle.duality_gap(gram, zero, largest) <= 1e-9
    found = design.cted(gram, 0.2)
    given = design.cted(gram, 0.2 * largest, absolute=True)
    np.testing.assert_allclose(found.scores, given.scores, rtol=1e-9, atol=1e-9)


# --- RRSS ----------------------------------------------------------------------------------------


def test_one_eigendecomposition_is_as_good_as_a_system_a_column(gram: np.ndarray) -> None:
    draws = np.random.default_rng(1)
    for low in (1e-6, 1e-2):
        sizes = np.exp(draws.uniform(np.log(low), 0.0, size=len(gram)))
        c = np.exp(draws.uniform(np.log(1e-3), 0.0, size=len(gram)))
        F = by_features(Pool(jnp.asarray(gram)[None], None)).features[0]
        H, G = map(np.asarray, jax.jit(factors)(F, 2 * sizes, c))
        found = 2 * sizes[:, None] * (H @ G.T)
        np.testing.assert_allclose(found, oracle.rrss_step(gram, sizes, c), rtol=0, atol=1e-10)


@pytest.mark.slow
def test_rrss_of_few_directions_has_its_digits_in_single_precision() -> None:
    """With a linear kernel all residuals become small, and are not lost beside the kernel."""
    features = np.random.default_rng(0).normal(size=(60, 4))
    exact = design.rrss(features=features)
    found = design.rrss((features @ features.T).astype(np.float32))
    np.testing.assert_allclose(history(found)[-1], history(exact)[-1], rtol=1e-4)
    assert found.ranking[:5].tolist() == exact.ranking[:5].tolist()
    assert bool(found.converged)


@pytest.mark.slow
def test_rrss_stands_at_the_literal_coefficients(gram: np.ndarray) -> None:
    n = len(gram)
    found = design.rrss(gram, tolerance=1e-9)
    penalty = 0.1 * np.sqrt((gram**2 / np.diag(gram)).sum(axis=1).max())
    run = jax.jit(partial(iterate_rrss, max_iterations=500))
    pool = by_features(Pool(jnp.asarray(gram)[None], None))
    end = run(Problem(pool, penalty, EPS, 1e-9))
    sizes, lengths = np.split(np.asarray(end.origin), [n])
    A = oracle.rrss_step(gram, sizes, 2 * penalty * lengths)
    np.testing.assert_allclose(found.scores, np.abs(A).sum(axis=1), rtol=1e-6, atol=1e-8)
    value = oracle.rrss_objective(gram, A, penalty)
    np.testing.assert_allclose(history(found)[-1], value, rtol=1e-6)
    # no literal step and no random one finds better
    residuals = np.sqrt(np.diag((np.eye(n) - A).T @ gram @ (np.eye(n) - A)))
    again = oracle.rrss_step(gram, oracle.rows(A) + 1e-8, 2 * penalty * residuals)
    assert oracle.rrss_objective(gram, again, penalty) >= value * (1 - 1e-6)
    draws = np.random.default_rng(2)
    for size in (1e-3, 1e-2):
        other = A + size * draws.normal(size=A.shape) * (oracle.rows(A) > 1e-3)[:, None]
        assert oracle.rrss_objective(gram, other, penalty) > value


# --- TED and random ------------------------------------------------------------------------------


def test_ted_takes_the_best_point_each_time(gram: np.ndarray) -> None:
    penalty = penalty_of(gram[None])
    order, traces = oracle.ted(gram, penalty, 12)
    found = design.ted(gram, num_points=12, share_of="columns")
    assert found.ranking.tolist() == order
    assert sorted(design.ted(gram).ranking.tolist()) == list(range(40))
    np.testing.assert_allclose(history(found), traces, rtol=1e-9)
    left = oracle.ridge_error(gram, order, penalty)
    np.testing.assert_allclose(history(found)[-1], left, rtol=1e-9)
    falls = -np.diff([np.trace(gram), *traces])
    np.testing.assert_allclose(found.scores[np.array(order)], falls, rtol=1e-7)


def test_ted_takes_its_ridge_as_a_share_of_the_mean_diagonal(gram: np.ndarray) -> None:
    order, traces = oracle.ted(gram, 0.1 * np.mean(np.diag(gram)), 12)
    found = design.ted(gram, num_points=12)
    assert found.ranking.tolist() == order
    np.testing.assert_allclose(history(found), traces, rtol=1e-9)
    e, V = np.linalg.eigh(gram)
    features = V[:, e > 0] * np.sqrt(e[e > 0])
    low = design.ted(features=features, num_points=12)
    assert low.ranking.tolist() == order


# --- facility location ---------------------------------------------------------------------------


def near_and_far(number: int = 40) -> np.ndarray:
    """A Gaussian kernel (n, n) over points around three centres."""
    draws = np.random.default_rng(8)
    X = draws.normal(size=(number, 3)) + 4 * np.eye(3)[draws.integers(3, size=number)]
    return np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 8)


@pytest.mark.parametrize("kind", ["gaussian", "centred"])  # a centred one has negative values
def test_facility_takes_the_best_point_each_time(kind: str, gram: np.ndarray) -> None:
    K = near_and_far() if kind == "gaussian" else gram
    order, values = oracle.facility(K, 12)
    found = design.facility(K, num_points=12)
    assert found.ranking.tolist() == order
    assert int(found.num_active) == 12
    np.testing.assert_allclose(np.trace(K) - history(found), values, rtol=1e-9)
    gains = np.diff([0.0, *values])
    np.testing.assert_allclose(found.scores[np.array(order)], gains, rtol=1e-9)
    other = next(i for i in range(40) if i not in order)
    alone = oracle.covered(K, [*order, other]) - values[-1]
    np.testing.assert_allclose(found.scores[other], alone, rtol=1e-7, atol=1e-12)


def test_gains_of_facility_never_rise_and_all_points_cover_all() -> None:
    K = near_and_far()
    found = design.facility(K)
    gains = np.asarray(found.scores)[np.asarray(found.ranking)]
    assert (np.diff(gains) <= 1e-12).all()
    assert sorted(found.ranking.tolist()) == list(range(40))
    np.testing.assert_allclose(history(found)[-1], 0, atol=1e-12)  # each covers itself by K_xx


@pytest.mark.parametrize("method", ["ted", "facility"])
def test_greedy_choices_do_not_depend_on_the_order_of_points(method: str) -> None:
    K, order = near_and_far(), np.random.default_rng(1).permutation(40)
    there = getattr(design, method)(K, num_points=10)
    here = getattr(design, method)(K[np.ix_(order, order)], num_points=10)
    assert order[np.asarray(here.ranking)].tolist() == there.ranking.tolist()
    np.testing.assert_allclose(here.scores, there.scores[order], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_of_three_clusters_facility_takes_one_point_each() -> None:
    draws = np.random.default_rng(8)
    cluster = np.arange(60) % 3
    X = 0.3 * draws.normal(size=(60, 2)) + 9 * np.eye(3, 2)[cluster]
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 2)
    first = design.facility(K, num_points=3).ranking
    assert sorted(cluster[np.asarray(first)].tolist()) == [0, 1, 2]
    # greedy against the best three of a smaller pool: at least 1 - 1/e, by the theorem
    few = K[:15, :15]
    best = max(oracle.covered(few, list(c)) for c in itertools.combinations(range(15), 3))
    reached = oracle.covered(few, design.facility(few, num_points=3).ranking.tolist())
    assert (1 - np.exp(-1)) * best <= reached <= best


@pytest.mark.slow
def test_random_points_are_any_points() -> None:
    keys = jax.random.split(jax.random.key(0), 4000)
    first = jax.jit(jax.vmap(lambda key: design.random(key, 5, num_points=2).ranking))(keys)
    counts = np.bincount(np.asarray(first).ravel(), minlength=5)
    assert (np.asarray(first)[:, 0] != np.asarray(first)[:, 1]).all()
    # 1,600 of each, with a deviation of 31
    assert np.abs(counts - 1600).max() < 7 * 31
    one = design.random(keys[0], 7)
    assert jnp.argsort(-one.scores).tolist() == one.ranking.tolist()


# --- several kernels -----------------------------------------------------------------------------


@pytest.mark.slow
@with_sets
def test_gmkal_does_not_depend_on_where_it_starts(
    name: str, request: pytest.FixtureRequest
) -> None:
    grams = design.dictionary(points(name, request))
    draws = np.random.default_rng(0)
    starts = [None, np.arange(1.0, 10.0), *draws.dirichlet(np.ones(9), size=2)]
    solved = [design.gmkal(grams, initial_weights=start, tolerance=1e-8) for start in starts]
    values = [history(found)[-1] for found in solved]
    assert max(values) - min(values) <= 1e-4 * min(values)
    assert all(bool(found.converged) for found in solved)


@pytest.mark.slow
@with_sets
def test_gmkal_agrees_with_the_literal_turns(name: str, request: pytest.FixtureRequest) -> None:
    grams = design.dictionary(points(name, request))[:, :60, :60]
    penalty = penalty_of(grams)
    # 20 steps of A for each of w; the library takes one
    _, w, value = oracle.gmkal(grams, np.full(9, 1 / 9), penalty, EPS, turns=60, steps=20)
    found = design.gmkal(grams, tolerance=1e-10)
    np.testing.assert_allclose(history(found)[-1], value, rtol=1e-4)
    np.testing.assert_allclose(found.kernel_weights, w, atol=2e-3)
    np.testing.assert_allclose(jnp.sum(found.kernel_weights), 1.0, rtol=1e-12)


@pytest.mark.slow
def test_gmkal_stands_at_the_literal_coefficients(grams: np.ndarray) -> None:
    A, w = ended(grams, 1e-9)
    e = oracle.errors(grams, A)
    assert (e >= 0).all()
    best = (1 / e) / (1 / e).sum()
    found = design.gmkal(grams, tolerance=1e-9)
    np.testing.assert_allclose(found.kernel_weights, best, rtol=1e-7)
    value = oracle.cted_objective(oracle.consensus(grams, best), A, penalty_of(grams))
    np.testing.assert_allclose(history(found)[-1], value, rtol=1e-6)
    steepness = oracle.steepness(oracle.consensus(grams, w), A, penalty_of(grams))
    assert steepness.max() <= 1 + 1e-4


@pytest.mark.slow
def test_one_kernel_in_a_stack_is_cted(gram: np.ndarray) -> None:
    alone, stacked = design.cted(gram), design.gmkal(gram[None])
    np.testing.assert_array_equal(alone.scores, stacked.scores)
    np.testing.assert_array_equal(alone.ranking, stacked.ranking)
    assert stacked.kernel_weights.tolist() == [1.0]


@pytest.mark.endless
@with_sets
def test_lmkal_is_at_most_gmkal(name: str, request: pytest.FixtureRequest) -> None:
    grams = design.dictionary(points(name, request))
    one = design.gmkal(grams)
    each = design.lmkal(grams)
    assert history(each)[-1] <= history(one)[-1]
    Z = np.asarray(each.kernel_weights)
    assert Z.shape == (grams.shape[1], 9)
    assert (Z >= 0).all()
    np.testing.assert_allclose(Z.sum(axis=1), 1.0, rtol=1e-9)


@pytest.mark.slow
def test_lmkal_stands_at_the_literal_coefficients(grams: np.ndarray) -> None:
    penalty = penalty_of(grams)
    run = jax.jit(partial(iterate_lmkal, max_iterations=300))
    pool = Pool(jnp.asarray(grams), None)
    end = run(Problem(pool, penalty, EPS, 1e-7), jnp.full((40, 9), 1 / 9))
    sizes, before = (np.asarray(part) for part in parts(end.origin, 40))
    Z = np.asarray(parts(end.move.point, 40)[1])
    A = oracle.cted_step(oracle.consensus(grams, before), sizes, penalty)
    value = oracle.cted_objective(oracle.consensus(grams, Z), A, penalty)
    assert bool(end.converged)
    np.testing.assert_allclose(end.objective[int(end.length) - 1], value, rtol=1e-6)
    quadratic = oracle.localized_form(grams, A, Z)
    np.testing.assert_allclose(quadratic, oracle.errors([oracle.consensus(grams, Z)], A)[0])
    slope = oracle.localized_gradient(grams, A, Z)
    gap = (slope * Z).sum() - slope.min(axis=1).sum()
    assert gap <= 1e-6 * quadratic


# --- as a function of JAX ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", long(["gmkal"], ["rrss", "ted", "gmkal"]))
def test_mapped_over_penalties_and_pools(grams: np.ndarray, gram: np.ndarray, method: str) -> None:
    # weights are known to about the root of what the objective is
    exact = {} if method == "ted" else {"tolerance": 1e-12}
    function = partial(getattr(design, method), **exact)
    one = grams if method == "gmkal" else gram
    # the other pool has the points in another order; with squares, rounding sets the minimum
    cases = [(one, 0.05), (one, 0.2), (one[..., ::-1, ::-1], 0.1)]
    pools, shares = (jnp.asarray(np.stack(values)) for values in zip(*cases, strict=True))
    mapped = jax.vmap(function)(pools, shares)
    for i, case in enumerate(cases):
        found, alone = jax.tree.map(lambda leaf, i=i: leaf[i], mapped), function(*case)
        np.testing.assert_allclose(found.scores, alone.scores, atol=1e-2)
        np.testing.assert_allclose(found.kernel_weights, alone.kernel_weights, atol=1e-5)
        np.testing.assert_allclose(history(found)[-1], history(alone)[-1], rtol=1e-7)


def test_another_penalty_does_not_compile_again(gram: np.ndarray) -> None:
    kernel = jnp.asarray(gram)
    design.cted(kernel, 0.1, tolerance=1e-4)
    before = solve._cache_size()
    design.cted(kernel, 0.3, tolerance=1e-6)
    assert solve._cache_size() == before > 0


# --- ranking -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rrss", "gmkal"])
def test_the_same_points_in_another_order_are_chosen(grams: np.ndarray, method: str) -> None:
    order = np.random.default_rng(0).permutation(40)
    kernels = grams if method == "gmkal" else grams.mean(axis=0)
    function = partial(getattr(design, method), tolerance=1e-9)
    found, other = function(kernels), function(kernels[..., order, :][..., order])
    np.testing.assert_allclose(other.scores, np.asarray(found.scores)[order], atol=1e-3)
    first = np.asarray(found.ranking)[:5].tolist()
    assert sorted(order[np.asarray(other.ranking)[:5]].tolist()) == sorted(first)


@pytest.mark.slow
def test_duplicates_are_ranked_by_index(gram: np.ndarray) -> None:
    best = np.asarray(design.cted(gram).ranking).tolist()
    kept = sorted(best[:38])  # the two best once more, in the place of the two worst
    one, other = sorted(kept.index(point) for point in best[:2])
    twice = [*kept, kept[one], kept[other]]
    with pytest.warns(UserWarning, match=f"duplicates: 2 points .* point 38 is as point {one};"):
        found = design.cted(gram[np.ix_(twice, twice)])
    place = {int(i): k for k, i in enumerate(found.ranking)}
    assert place[38] == place[one] + 1
    assert place[39] == place[other] + 1
