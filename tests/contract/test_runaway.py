"""Learners that run away while all of their numbers are finite: counted, and warned of."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import abilities, pytree, updates
from jaxmkl.cli import main
from jaxmkl.models import BudgetSupport, DenseSupport, SupportModels, supports
from jaxmkl.sklearn import MKLRegressor
from jaxmkl.streaming import _engine
from tests.common.marks import long
from tests.common.trees import begin, everything

SMALL_PROGRAMS = True
T, F, STEP = 12, 3, 1.2
KERNELS = jaxmkl.Gaussian((0.5, 2.0))
LABELS = np.where(np.arange(T) < 10, 1.0, 50.0).astype(np.float32)  # they grow amid a block
X = np.ones((T, 2), np.float32)
TEXT = r"{}: {} update\(s\) met .* far larger than labels and steps can make it"


def raker(step_size=STEP, **arguments):
    with pytest.warns(RuntimeWarning, match="cannot converge"):
        return jaxmkl.raker(
            KERNELS, num_features=F, step_size=step_size, regularization=0.0, **arguments
        )


@jax.jit
def stepped(learner, state, X, y):
    return jax.lax.scan(learner.step, state, (X, y))[0]


def counted(y, step_size=STEP):
    """Rounds with |f| > 2^23 max |y| of gradient descent on one example again and again.

    All kernels have |z|² = F, so all models are the same.
    """
    f, largest, number = 0.0, 0.0, 0
    for label in np.asarray(y, float):
        if np.isfinite(label):
            largest = max(largest, abs(label))
            number += largest > 0 and abs(f) > 2**23 * largest
            f -= 2 * step_size * F * (f - label)
    assert abs(f) < 1e18  # whose square is a number of float32
    return number


@pytest.mark.slow
def test_a_finite_runaway_is_counted_in_every_way_to_run():
    learner, y, number = raker(), LABELS, counted(LABELS)
    state = begin(learner)
    assert 0 < number < counted(np.ones(T))
    assert int(stepped(learner, state, X, y).nonfinite) == number
    with pytest.warns(RuntimeWarning, match=TEXT.format("run", number)):
        after, outputs = jaxmkl.run(learner, state, X, y, block_size=8)
    assert int(after.nonfinite) == number
    assert np.isfinite(outputs.loss).all()
    with pytest.warns(RuntimeWarning, match=TEXT.format("stream", number)):
        list(jaxmkl.stream(learner, state, [(X, y)], block_size=8))
    keys = jax.random.split(jax.random.key(0), 2)
    with pytest.warns(RuntimeWarning, match=TEXT.format("run_many", 2 * number)):
        states, _ = jaxmkl.run_many(learner, keys, X, y, permute=False, block_size=8)
    assert states.nonfinite.tolist() == [number, number]
    states = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state)
    rows, labels = np.stack([X, X]), np.stack([y, np.zeros_like(y)])
    with pytest.warns(RuntimeWarning, match=TEXT.format("run_fleet", number)):
        states, _ = jaxmkl.run_fleet(learner, states, rows, labels, block_size=8)
    assert states.nonfinite.tolist() == [number, 0]


@pytest.mark.slow
def test_blocks_of_accelerators_count_the_same_rounds():
    """They judge a block at its end, when the largest label may be one that came later."""
    learner, y = raker(1.6), np.where(np.arange(T) == 6, np.nan, LABELS)
    plan = _engine.plan_of("run", learner, 8, everything)
    given = learner, begin(learner), _engine.Rows(jnp.asarray(X), jnp.asarray(y))
    there = _engine.run_rows(*given, plan=plan._replace(platform="gpu"))[0]
    assert int(there.nonfinite) == counted(y, 1.6) > 1


@pytest.mark.slow
def test_each_output_is_judged_by_its_own_labels():
    learner = raker(num_outputs=2)
    # the first one arrives in its second round, and stays
    still = np.where(np.arange(T) == 0, 100.0, 100.0 * 2 * STEP * F)
    small = np.full(T, 1e-3)
    assert counted(still) == 0 < counted(small)
    for labels in (np.stack([still, small], axis=1), np.stack([small, still], axis=1)):
        after = stepped(learner, begin(learner), X, labels)
        assert int(after.nonfinite) == counted(small)


def test_without_a_label_other_than_0_there_is_nothing_to_compare_with():
    learner = raker()
    assert int(stepped(learner, begin(learner), X, np.zeros(T)).nonfinite) == 0
    # nor is a round judged that has no label, whatever f is
    y = np.where(np.arange(T) < 9, 1.0, np.nan)
    assert int(stepped(learner, begin(learner), X, y).nonfinite) == counted(y) == 0


@pytest.mark.slow
def test_classes_are_of_size_1_where_kernels_are():
    """A perceptron of polynomials is sound at any size: only signs matter to it."""
    y = np.where(np.arange(T) % 2 == 1, 1.0, -1.0)
    for kernel, number in ((jaxmkl.Gaussian(1.0), T // 2), (jaxmkl.Polynomial(2), 0)):
        learner = jaxmkl.kernel_ogd(kernel, loss="hinge", step_size=1e8, capacity=16)
        assert int(stepped(learner, begin(learner), X, y).nonfinite) == number
    rows = 1e3 * np.random.default_rng(0).normal(size=(T, 2)).astype(np.float32)
    learner = jaxmkl.perceptron(jaxmkl.Polynomial(3), capacity=16)
    after, outputs = jaxmkl.run(learner, begin(learner), rows, y)
    assert np.abs(outputs.prediction).max() > 2**23
    assert int(after.nonfinite) == 0


@pytest.mark.slow
def test_wrappers_pass_the_count_on():
    learner = jaxmkl.wrappers.label_budget(raker(), 100)
    assert int(stepped(learner, begin(learner), X, LABELS).nonfinite) == counted(LABELS)


@pytest.mark.endless
def test_the_command_says_so(tmp_path, capsys):
    rows = np.random.default_rng(0).normal(size=(24, 2))
    path = tmp_path / "table.csv"
    np.savetxt(path, np.c_[rows, rows[:, 0]], "%.4f", ",", header="a,b,y", comments="")
    numbers = ["--set", "step_size=3.0", "--set", "num_features=4", "--set", "regularization=0.0"]
    out = tmp_path / "out.json"
    with pytest.warns(RuntimeWarning, match="cannot converge"):
        main(["run", str(path), "--learner", "raker", *numbers, "--json", str(out)])
    said, text = " ".join("".join(capsys.readouterr()).split()), "far larger than labels and steps"
    assert text in said
    assert any(text in note for note in json.loads(out.read_text())["notes"])


@pytest.mark.slow
def test_an_estimator_says_so():
    with pytest.warns(RuntimeWarning, match="far larger than labels and steps can make it"):
        MKLRegressor(raker(), scale=False).fit(X, LABELS)


# --- values that steps cannot have made ----------------------------------------------------------

LENGTH = 60
ROWS = np.random.default_rng(1).normal(size=(LENGTH, 2)).astype(np.float32)
SIGNS = np.where(np.random.default_rng(2).random(LENGTH) < 0.5, 1.0, -1.0)


@pytree.dataclass
class Doubling(supports.Project):
    """A projection that has lost its digits: all coefficients double whenever it is used."""

    def step(self, state, view):
        state, choice = super().step(state, view)
        factor = jnp.where(jnp.any(view.learned), 2.0, 1.0)
        return state, choice._replace(coefficients=factor * choice.coefficients)


def doubling(kernels, aggregate):
    bank = SupportModels(kernels, updates.Perceptron(), BudgetSupport(4, Doubling()))
    return jaxmkl.MKL(bank, aggregate)


@pytest.mark.slow
def test_a_perceptron_beyond_the_square_root_of_its_rounds_is_counted():
    """After t mistakes |f|² is t at most; the bound allows for 3 t, and four times the root."""
    learner = doubling(jaxmkl.Gaussian(1.0), jaxmkl.aggregate.Uniform())
    with pytest.warns(RuntimeWarning, match=r"run: \d+ update\(s\)"):
        after, outputs = jaxmkl.run(learner, begin(learner), ROWS, SIGNS, block_size=8)
    beyond = np.abs(outputs.prediction) > 4 * np.sqrt(3 * np.arange(LENGTH))
    assert 0 < int(after.nonfinite) == beyond.sum() < LENGTH
    # long before it would be 2^23 times as large as a label
    assert np.abs(outputs.prediction)[beyond].min() < 100


@pytest.mark.endless
def test_blocks_of_accelerators_count_classes_by_the_round_they_are_in():
    learner = doubling(jaxmkl.Gaussian(1.0), jaxmkl.aggregate.Uniform())
    plan = _engine.plan_of("run", learner, 8, everything)
    rows = _engine.Rows(jnp.asarray(ROWS), jnp.asarray(SIGNS, jnp.float32))
    numbers = [
        int(_engine.run_rows(learner, begin(learner), rows, plan=form)[0].nonfinite)
        for form in (plan, plan._replace(platform="gpu"))
    ]
    assert numbers[0] == numbers[1] > 0


@pytest.mark.endless
def test_what_a_vote_hides_is_counted():
    kernels = jaxmkl.KernelDictionary((jaxmkl.Gaussian(1.0), jaxmkl.Polynomial(2)))
    vote = jaxmkl.aggregate.Hedge(0.01, output="vote", cost="mistake")
    learner = doubling(kernels, vote)
    assert np.abs(outcome(learner, begin(learner), ROWS, SIGNS)).max() <= 1 + 1e-6
    assert int(stepped(learner, begin(learner), ROWS, SIGNS).nonfinite) > 0
    # the best aligned one of several predicts
    bank = SupportModels(jaxmkl.Gaussian([0.5, 1.0]), store=BudgetSupport(4, Doubling()))
    learner = jaxmkl.learners.Aligned(bank, 8)
    assert int(stepped(learner, begin(learner), ROWS, SIGNS).nonfinite) > 0


@pytest.mark.slow
@pytest.mark.parametrize("make", long([jaxmkl.okl_gd], [jaxmkl.oks_sil, jaxmkl.okl_gd]))
def test_a_hypothesis_whose_kernel_moves_is_bounded_by_the_sum_of_its_steps(make):
    learner = make(budget=8, step_size=0.1)
    start = begin(learner)
    lost = start.replace(weights=jnp.full((8,), 1e4), round=jnp.asarray(100, jnp.int32))
    lost = lost.replace(
        **({"number": jnp.asarray(8, jnp.int32)} if make is jaxmkl.oks_sil else {})
    )
    after = stepped(learner, lost, np.zeros((1, 2), np.float32), np.ones(1))
    assert int(after.nonfinite) == 1
    assert int(stepped(learner, start, ROWS, SIGNS).nonfinite) == 0


BUDGETED = (
    supports.RemoveRandom(),
    supports.RemoveOldest(),
    supports.SelfTuned(),
    supports.Replace(),
    supports.Project(),
)
RULES = (
    updates.Perceptron(),
    updates.PassiveAggressive(0.5),
    updates.SparsePassiveAggressive(0.5),
    updates.OGD(0.7, 0.1, "hinge"),
    updates.OGD(2.0, loss="logistic"),
    updates.NormalizedOGD(1.5, loss="hinge"),
)
STREAMS = [ROWS, np.ones_like(ROWS), np.cumsum(0.1 * ROWS, axis=0)]
STREAMS = [(rows, signs) for rows in STREAMS for signs in (SIGNS, np.ones(LENGTH))]


@jax.jit
def outcome(learner, state, X, y):
    return jax.lax.scan(learner.step, state, (X, y))[1].prediction


@jax.jit
def largest_shares(learner, state, X, y):
    """The largest |f| / reach of streams (S, T), after the first label."""
    found = jax.vmap(lambda X, y: outcome(learner, state, X, y))(X, y)
    rounds = jnp.arange(LENGTH, dtype=jnp.float32)
    reach = jax.vmap(lambda round: abilities.reach(learner, round))(rounds)[:, 0]
    return jnp.max(jnp.abs(found[:, 1:]) / reach[None, 1:], axis=1)


NUMBERS = [pytest.param(0, marks=pytest.mark.slow)]
NUMBERS += [pytest.param(i, marks=pytest.mark.endless) for i in range(1, len(RULES))]


@pytest.mark.parametrize("number", NUMBERS)
def test_no_sound_model_goes_beyond_its_bound(number):
    """Labels at random or always the same, on inputs that differ, and on one again and again."""
    X, y = (np.stack(each) for each in zip(*STREAMS, strict=True))
    stores = DenseSupport(64), BudgetSupport(5, BUDGETED[number % len(BUDGETED)])
    # each eviction meets rules of coefficients that are fixed, and that are not
    for rule, store in zip((RULES[number], RULES[number - 1]), stores, strict=True):
        bank = SupportModels(jaxmkl.Gaussian(1.0), rule, store)
        learner = jaxmkl.MKL(bank, jaxmkl.aggregate.Uniform())
        shares = largest_shares(learner, begin(learner), X, y)
        # some stream comes near, so that the bound says something
        assert 0.05 < shares.max() <= 1.001


def test_what_is_not_known_is_not_judged():
    """Removal that enlarges others, a loss for numbers, a kernel without a known k(x, x)."""
    kernel, one = jaxmkl.Gaussian(1.0), jnp.ones(())
    unknown = BudgetSupport(4, supports.RemoveUnbiased())
    assert abilities.reach(SupportModels(kernel, store=unknown), one) is None
    assert abilities.reach(SupportModels(kernel, updates.OGD(0.1)), one) is None
    assert abilities.reach(SupportModels(2.0 * kernel), one) is None
    assert abilities.reach(jaxmkl.raker(), one) is None
    both = jaxmkl.KernelDictionary((kernel, jaxmkl.Polynomial(2), kernel * kernel))
    assert np.isinf(abilities.reach(SupportModels(both), one)).tolist() == [
        False,
        True,
        False,
    ]
