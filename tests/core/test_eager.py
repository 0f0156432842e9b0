"""Calls of a learner's methods outside of any trace: one compilation for few shapes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import saved_learners
from chex import assert_trees_all_close, assert_trees_all_equal

import jaxmkl
from jaxmkl import pytree, wrappers
from tests.common.marks import long, quick
from tests.common.trees import assert_close

SMALL_PROGRAMS = True
D = 3
DRAWS = np.random.default_rng(0)
X = DRAWS.normal(size=(150, D)).astype(np.float32)
X[:, 0] = np.arange(150) % 2  # a task index, too
KERNELS = jaxmkl.Gaussian((0.5, 2.0))


def small(name):
    """A recipe with few features or support vectors."""
    several = {"num_tasks": 2, "size": 4} if name == "multitask" else {}
    return saved_learners.small(name, **several)


def begun(learner, rows=20):
    state = learner.init(jax.random.key(0), D)
    return jaxmkl.run(learner, state, X[:rows], np.sign(X[:rows, 1]))[0]


# one of supports, and all others among the endless tests
RECIPES = long(["bpas"], jaxmkl.LEARNERS)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_rows_up_to_a_power_of_two_compile_once(name, compiled):
    learner = small(name)
    state = begun(learner)
    assert compiled(lambda: learner.predict_many(state, X[:40])), "the log tells of compilations"
    found = {}

    def many():
        for rows in (33, 47, 59, 64):
            found[rows] = learner.predict_many(state, X[-rows:])

    assert compiled(many) == []
    by_hand = jax.jit(jax.vmap(learner.predict, (None, 0)))(state, X)
    for rows, said in found.items():
        assert_trees_all_close(
            said, jax.tree.map(lambda leaf, n=rows: leaf[-n:], by_hand), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("name", RECIPES)
def test_a_prediction_depends_on_its_own_row(name):
    """Bit for bit, whatever the number of rows, its place among them, and what the others are."""
    learner = small(name)
    state = begun(learner)
    row = X[77:78]
    (alone,) = learner.predict_many(state, row).value
    for before, after in ((0, 5), (13, 0), (40, 17), (100, 49)):
        block = np.concatenate([X[:before], row, np.full((after, D), 1.0, np.float32)])
        assert_trees_all_equal(learner.predict_many(state, block).value[before], alone)


def calls(learner, state):
    return {
        "predict": lambda x, y: learner.predict(state, x),
        "ask": lambda x, y: learner.ask(state, x),
        "update": lambda x, y: learner.update(state, x, y),
        "skip": lambda x, y: learner.skip(state, x),
        "step": lambda x, y: learner.step(state, (x, y)),
    }


@pytest.mark.parametrize(
    "method", quick(["update", "step"], ["predict", "ask", "update", "skip", "step"])
)
def test_a_method_compiles_once_whatever_its_numbers_are_in(method, compiled):
    """Integers, lists, doubles, arrays of JAX; another state, and learners of other numbers."""
    learner = jaxmkl.label_budget(small("amkl"), 9)
    start = begun(learner)
    call = calls(learner, start)[method]
    result = call(X[3], 1.0)
    other = jaxmkl.label_budget(saved_learners.small("amkl", step_size=0.2), 5)
    later = begun(other, 12)
    given = [[1, 2, 3], (1.0, 2.0, 3.0), np.array([1, 2, 3]), X[3].astype(float), jnp.ones(D)]
    labels = 1, np.float64(1.0), True, np.ones(1), jnp.float32(1.0)

    def again():
        for x, y in zip(given, labels, strict=True):
            call(x, y)
            calls(other, later)[method](x, y)

    assert compiled(again) == []
    jitted = jax.jit(calls(learner, start)[method])
    assert_close(result, jitted(X[3], 1.0))


@pytest.mark.endless
def test_in_a_trace_nothing_is_compiled_apart():
    """Gradients and vmap go through, and programs have no call of a program inside."""
    learner = small("raker")
    state = begun(learner)

    def value(learner, state, x):
        return learner.predict(state, x).value

    program = str(jax.make_jaxpr(value)(learner, state, X[0]))
    assert "jit[name=predict" not in program.replace("\n", "")
    slopes = jax.grad(value, argnums=2)(learner, state, X[0])
    near = 1e-2 * np.eye(D, dtype=np.float32)
    by_difference = [
        (value(learner, state, X[0] + d) - value(learner, state, X[0] - d)) / 2e-2 for d in near
    ]
    np.testing.assert_allclose(slopes, by_difference, rtol=0.05, atol=1e-3)
    together = jax.vmap(lambda x: learner.predict(state, x).value)(X[:5])
    np.testing.assert_allclose(together, learner.predict_many(state, X[:5]).value, atol=1e-6)
    rates = jnp.asarray([0.01, 0.1])
    swept = jax.vmap(
        lambda r: jaxmkl.raker(KERNELS, num_features=3, step_size=r).update(state, X[0], 1.0).round
    )(rates)
    assert swept.tolist() == [21, 21]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda learner, s: learner.predict_many(s, X[:5, :2]), r"got \(5, 2\)"),
        (lambda learner, s: learner.predict_many(s, X[:0]), r"got \(0, 3\)"),
        (lambda learner, s: learner.step(s, (X[0], "yes")), r"y must hold real numbers"),
        (lambda learner, s: learner.predict(s, s.key), r"x must hold real numbers; got dtype key"),
        (lambda learner, _: learner.predict(None, X[0]), "state must be one of learner.init"),
        (lambda learner, _: learner.predict_many(None, X), "state must be one of learner.init"),
        (lambda learner, _: learner.predict(learner, X[0]), "state must be one of learner.init"),
        (lambda learner, s: learner.ask(s.replace(round=X), X[0]), r"state.round must be of"),
        (lambda learner, s: learner.predict(s, np.ma.masked_less(X[0], 9.0)), "must not be mask"),
    ],
)
def test_what_does_not_fit_is_refused_as_it_was(call, text):
    learner = small("raker")
    with pytest.raises(ValueError, match=text):
        call(learner, begun(learner))


def test_arguments_have_names():
    learner = small("raker")
    state = begun(learner)
    assert_trees_all_equal(learner.predict(x=X[0], state=state), learner.predict(state, X[0]))
    assert_trees_all_equal(learner.update(state, y=1.0, x=X[0]), learner.update(state, X[0], 1.0))
    for wrong in ((), (state,), (state, X[0], 1.0, 2.0)):
        with pytest.raises(TypeError, match=r"missing a required|too many positional"):
            learner.update(*wrong)


@pytest.mark.slow
def test_records_of_every_kind_come_back_whole():
    """Several outputs, intervals and densities."""
    inner = jaxmkl.raker(KERNELS, num_features=4, num_outputs=2)
    learner = wrappers.intervals(wrappers.predictive(inner))
    state = learner.init(jax.random.key(0), D)
    said = learner.predict_many(state, X[:21])
    assert said.value.shape == said.variance.shape == said.interval[0].shape == (21, 2)
    one = learner.predict(state, X[20])
    last = jax.tree.map(lambda leaf: leaf[-1], said)
    assert_trees_all_close(one.distribution, last.distribution, rtol=1e-5)
    assert_trees_all_close(one.value, last.value, rtol=1e-5)


@pytest.mark.slow
def test_learners_of_ones_own_are_compiled_too(compiled):
    """Also where one overrides a method and calls the one above."""

    @pytree.dataclass
    class Doubled(jaxmkl.MKL):
        def predict(self, state, x):
            said = super().predict(state, x)
            return said._replace(value=2.0 * said.value)

    inner = small("raker")
    mine = Doubled(*(getattr(inner, name) for name in ("models", "aggregate", "select", "query")))
    state = begun(inner)
    twice, once = mine.predict(state, X[0]).value, inner.predict(state, X[0]).value
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-6)
    assert compiled(lambda: [mine.predict(state, x).value for x in X[:4]]) == []


@pytest.mark.endless
def test_double_precision_is_kept(x64):
    learner = small("raker")
    for dtype in (np.float32, np.float64):
        state = learner.init(jax.random.key(0), D, dtype)
        state = learner.update(state, X[0].astype(float), 1.0)
        assert learner.predict(state, X[0]).value.dtype == dtype
        assert learner.predict_many(state, X).value.dtype == dtype
