"""Former defects: labels, nesting, divergence, lengths, and likely mistakes of users."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from saved_learners import small

import jaxmkl
from jaxmkl import pytree, wrappers
from jaxmkl.streaming import _engine
from tests.common.trees import assert_close, assert_equal, begin

SMALL_PROGRAMS = True
NUM_EXAMPLES, NUM_INPUTS = 9, 2
KERNELS = jaxmkl.Gaussian((0.5, 2.0))


@functools.cache
def data():
    X = np.random.default_rng(0).normal(size=(NUM_EXAMPLES, NUM_INPUTS)).astype(np.float32)
    return X, np.where(X[:, 0] > 0.1, 1, -1).astype(np.float32)


# --- labels mean the same everywhere -------------------------------------------------------------


@jax.jit
def in_all_ways(learner, state, X, y):
    """Predictions by ``update``, by a scan of ``step``, and by a ``run`` inside jit."""

    def update(state, example):
        return learner.update(state, *example), learner.predict(state, example[0]).value

    by_update = jax.lax.scan(update, state, (X, y))[1]
    by_step = jax.lax.scan(learner.step, state, (X, y))[1]
    by_run = jaxmkl.run(learner, state, X, y, block_size=4)[1]
    return by_update, by_step.prediction, by_run.prediction


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["whole", "five and zero"])
def test_labels_of_all_kinds(kind):
    learner = small(loss="hinge")
    X, y = data()
    given = {"whole": (y > 0).astype(np.int64), "five and zero": np.where(y > 0, 5, 0)}[kind]
    expected = in_all_ways(learner, begin(learner), X, y)
    assert_equal(in_all_ways(learner, begin(learner), X, given), expected)
    by_update, by_step, by_run = expected
    assert_close(by_update, by_step)
    assert_close(by_run, by_step)
    _, eager = jaxmkl.run(learner, begin(learner), X, given, block_size=4)
    assert_equal(eager.prediction, expected[2])
    assert_equal(eager, jaxmkl.run(learner, begin(learner), X, y, block_size=4)[1])


def test_ambiguous_labels_are_refused():
    """They would be one class inside a trace."""
    learner = small(loss="hinge")
    X, y = data()
    for low, high in ((1, 2), (-2, -1), (0.2, 0.8)):
        message = rf"got the values .*\(numbers are read by their sign: pass y == {high}\)"
        with pytest.raises(ValueError, match=message):
            jaxmkl.run(learner, begin(learner), X, np.where(y > 0, high, low))


# --- drivers inside of transformations, with data of the enclosing scope -------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "loss"), [pytest.param(np, "hinge", marks=pytest.mark.endless), (jnp, "squared")]
)
def test_data_of_the_enclosing_scope(module, loss):
    learner = small(loss=loss)
    X, y = (module.asarray(array) for array in data())
    keys = jax.random.split(jax.random.key(0), 2)

    def mean_loss(learner):
        return jaxmkl.run(learner, begin(learner), X, y, block_size=4)[1].loss.mean()

    def mean_losses(learner):
        return jaxmkl.run_many(learner, keys, X, y[:, None], block_size=4)[1].loss.mean()

    expected = float(mean_loss(learner))
    assert float(jax.jit(mean_loss)(learner)) == pytest.approx(expected, rel=1e-4)
    state = begin(learner)
    # learner and state too
    end, outputs = jax.jit(lambda: jaxmkl.run(learner, state, X, y, block_size=4))()
    assert int(end.round) == NUM_EXAMPLES
    assert float(outputs.loss.mean()) == pytest.approx(expected, rel=1e-4)
    if module is jnp:
        stacked = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * 2), learner)
        slope = jax.eval_shape(jax.grad(jax.checkpoint(mean_loss)), learner)
        assert jax.tree.structure(slope) == jax.tree.structure(learner)
        assert jax.eval_shape(lambda of: jax.lax.map(mean_loss, of), stacked).shape == (2,)
        assert jax.eval_shape(mean_losses, learner).shape == ()
    # what is known is looked at, what is not is not
    bad = module.asarray(np.where(np.arange(NUM_EXAMPLES)[:, None] == 3, np.nan, data()[0]))
    with pytest.raises(ValueError, match=r"X must be finite.*got X\[3, 0\] = nan"):
        jax.eval_shape(lambda: jaxmkl.run(learner, begin(learner), bad, y))


# --- nonsense is refused or reported -------------------------------------------------------------


@pytest.mark.slow
def test_divergence_is_reported():
    with pytest.warns(RuntimeWarning, match="step_sizes = 3 cannot converge"):
        learner = jaxmkl.raker(KERNELS, num_features=50, step_size=3.0)
    X = np.random.default_rng(0).normal(size=(60, NUM_INPUTS)).astype(np.float32)
    y = X[:, 0]
    message = r"{}: \d+ update\(s\) met a value or a loss that was infinite or NaN.*smaller step"
    with pytest.warns(RuntimeWarning, match=message.format("run")) as caught:
        state, _ = jaxmkl.run(learner, begin(learner), X, y)
    assert caught[0].filename == __file__
    assert int(state.nonfinite) > 0
    with pytest.warns(RuntimeWarning, match=message.format("run_many")):
        states, _ = jaxmkl.run_many(learner, jax.random.split(jax.random.key(0), 2), X, y)
    assert (np.asarray(states.nonfinite) > 0).all()
    chunks = jaxmkl.stream(learner, begin(learner), [(X[:2], y[:2]), (X[2:], y[2:])])
    next(chunks)
    with pytest.warns(RuntimeWarning, match=message.format("stream")):
        next(chunks)
    # what is counted is what a run adds
    steady = small()
    start = begin(steady).replace(nonfinite=jnp.asarray(5, jnp.int32))
    state, _ = jaxmkl.run(steady, start, X, y)
    assert int(state.nonfinite) == 5


def test_a_state_of_another_learner_is_refused():
    learner, (X, y) = small(), data()
    others = {
        "features": small(num_features=4),
        "class": wrappers.label_budget(small(), 3),
        "parts": small("amkl"),
    }
    for other in others.values():
        state = begin(other)
        for act in (
            lambda state=state: learner.predict(state, X[0]),
            lambda state=state: learner.update(state, X[0], 1.0),
            lambda state=state: jaxmkl.run(learner, state, X, y),
            lambda state=state: next(jaxmkl.stream(learner, state, [(X, y)])),
        ):
            with pytest.raises(ValueError, match=r"state.* must be .*; got"):
                act()
    wrong = begin(learner)
    wrong = wrong.replace(aggregate=jax.tree.map(lambda a: a.astype(np.float16), wrong.aggregate))
    with pytest.raises(ValueError, match=r"state.aggregate.* must be 'float32'|must be float32"):
        jaxmkl.run(learner, wrong, X, y)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "single precision"])
def test_a_dtype_that_is_off_or_too_small_is_refused(dtype):
    with pytest.raises(ValueError, match=rf"dtype must be a floating dtype; .*; got '{dtype}'"):
        small().init(jax.random.key(0), 2, dtype)


# --- one example is read as a stream of them is -------------------------------------------------


@pytest.mark.slow
def test_whole_numbers_of_any_size_are_read_as_they_are():
    """Times in milliseconds, whose last 32 bits JAX would keep; and what it does not know."""
    learner = jaxmkl.MKL(
        jaxmkl.models.FeatureModels(
            jaxmkl.Linear(), jaxmkl.updates.OGD(0.1), jaxmkl.features.LinearFeatures()
        )
    )
    start, x = learner.init(jax.random.key(0), num_inputs=1), 2**41 + 2**21
    state, _ = jaxmkl.run(learner, start, np.ones((1, 1)), np.array([x]))
    assert_equal(learner.update(start, np.ones(1), np.int64(x)), state)
    expected = learner.predict(state, np.array([float(x)]))
    for row in ([x], np.array([x]), np.array([x], ">i8"), np.array([x], np.longdouble)):
        assert_equal(learner.predict(state, row), expected)
    assert float(expected.value) > x


def test_what_is_no_number_is_told_by_name():
    learner = small()
    state, (X, _) = begin(learner), data()
    for bad in (["a", "b"], [None, 1.0], X[0] + 1j, jnp.asarray(X[0]) + 1j, X[0].astype("m8[s]")):
        with pytest.raises(ValueError, match="x must hold real numbers; got dtype"):
            learner.predict(state, bad)
    for bad in ("a", None, 1j, np.timedelta64(1, "s")):
        with pytest.raises(ValueError, match="y must hold real numbers; got dtype"):
            learner.update(state, X[0], bad)


@pytest.mark.slow
def test_a_block_far_longer_than_the_stream():
    """It takes no more memory than one of the stream's length."""
    X, y = data()
    learner = small()
    _, wanted = jaxmkl.run(learner, begin(learner), X, y, block_size=4)
    _, found = jaxmkl.run(learner, begin(learner), X, y, block_size=10**12)
    assert_close(found, wanted)
    keys = jax.random.split(jax.random.key(0), 2)
    _, many = jaxmkl.run_many(learner, keys, X, y, block_size=10**12)
    assert many.loss.shape == (2, len(X))
    ((_, streamed),) = jaxmkl.stream(learner, begin(learner), [(X, y)], block_size=10**12)
    assert_close(streamed, wanted)
    # nor than a segment of a long stream does
    plan = _engine.plan_of("run", learner, 10**12, _engine.without_info, length=10**6)
    assert plan.block_size == 4096


# --- few lengths are compiled --------------------------------------------------------------------


def test_run_compiles_for_a_few_lengths(compiled):
    """And nothing else, not even to pad and cut; the runs are those of the same rows."""
    learner = small()
    X = np.random.default_rng(0).normal(size=(112, NUM_INPUTS)).astype(np.float32)
    y = np.sin(X[:, 0])
    state = begin(learner)
    for kind in (np.asarray, jnp.asarray):
        _, whole = jaxmkl.run(learner, state, kind(X), kind(y))
        streams = [(kind(X[:length]), kind(y[:length])) for length in (100, 101, 112)]
        runs = []
        assert not compiled(
            lambda to=runs, of=streams: to.extend(jaxmkl.run(learner, state, *s) for s in of)
        )
        for (end, outputs), (x, _) in zip(runs, streams, strict=True):
            assert outputs.loss.shape == (len(x),)
            assert int(end.round) == len(x)
            own = jax.tree.map(lambda leaf, like: leaf[: len(like)], whole, outputs)
            assert_equal(outputs, own)


SWAPPED = {
    "kernels": lambda X, y: KERNELS.gram(X, X),
    "alignment": lambda X, y: jaxmkl.kernels.kernel_alignment(KERNELS, X, y),
    "design": lambda X, y: jaxmkl.design.ted(features=X).scores,
    "states": lambda X, y: begin_in(X.dtype).models,
    "signs": lambda X, y: jaxmkl.labels.signs(y),
    "metrics": lambda X, y: jaxmkl.metrics.running_mse(jnp.zeros(NUM_EXAMPLES), y),
}


def begin_in(dtype):
    return small().init(jax.random.key(0), NUM_INPUTS, dtype)


@pytest.mark.parametrize("name", SWAPPED)
def test_arrays_in_another_order_of_bytes(name):
    """As FITS and HDF files have them, which JAX itself does not take."""
    X, y = data()
    native, swapped = "=f4", np.dtype("f4").newbyteorder("S")
    found, wanted = (SWAPPED[name](X.astype(d), y.astype(d)) for d in (swapped, native))
    assert_equal(found, wanted)


# --- the likely mistakes, each with a sentence ---------------------------------------------------

X0, y0 = data()


class NoTree(jaxmkl.MKL):
    """A subclass that is not decorated."""


class NoTreeKernel(jaxmkl.Gaussian):
    """A subclass that is not decorated, either."""


class NoTreeUpdate(jaxmkl.updates.OGD):
    """Another one."""


@pytree.dataclass
class NoEncode(jaxmkl.Learner):
    task = "regression"

    def init(self, key, num_inputs, dtype=None):
        return begin(small())


MISTAKES = {
    "a factory": (
        lambda s: jaxmkl.run(jaxmkl.raker, s, X0, y0),
        r"run: learner must be a learner.*call it: a class or a factory makes one.*raker",
    ),
    "a class": (
        lambda s: jaxmkl.run_many(jaxmkl.MKL, jax.random.split(jax.random.key(0)), X0, y0),
        r"run_many: learner must be .*call it.*MKL",
    ),
    "a name": (
        lambda s: list(jaxmkl.stream("raker", s, [(X0, y0)])),
        "stream: learner must be a learner, as jaxmkl.raker.*got 'raker'",
    ),
    "learner and state swapped": (
        lambda s: jaxmkl.run(s, small(), X0, y0),
        r"run: .*the order is run\(learner, state, \.\.\.\).*MKLState",
    ),
    "X in place of the state": (
        lambda s: jaxmkl.run(small(), X0, y0, y0),
        r"the second argument must be the state, from learner.init: .*; got 'ndarray'",
    ),
    "a stream that is no chunks": (
        lambda s: list(jaxmkl.stream(small(), s, (X0, y0))),
        r"stream: chunks must be pairs \(X, y\).*got 'ndarray of shape \(9, 2\)'",
    ),
    "a stream inside of a trace": (
        lambda s: jax.jit(lambda s: list(jaxmkl.stream(small(), s, [(X0, y0)])))(s),
        "stream: state or chunks must be an array outside of jit, .*; got 'a tracer'",
    ),
    "several examples for step": (
        lambda s: small().step(s, (X0, y0)),
        r"MKL: x must be of shape \(2,\), one example \(predict_many takes several.*got \(9, 2\)",
    ),
    "several examples for predict": (
        lambda s: small().predict(s, X0),
        r"MKL: x must be of shape \(2,\), one example \(predict_many takes several.*got \(9, 2\)",
    ),
    "one example for predict_many": (
        lambda s: small().predict_many(s, X0[0]),
        r"MKL: X must be of shape \(B, 2\), some examples; got \(2,\)",
    ),
    "several labels for update": (
        lambda s: small().update(s, X0[0], y0),
        r"MKL: y must be one number, the label of x; got \(9,\)",
    ),
    "y of two columns": (
        lambda s: jaxmkl.run(small(), s, X0, X0),
        r"y must have shape \(T,\) or \(T, 1\); got shape \(9, 2\)",
    ),
    "save in another order": (
        lambda s: jaxmkl.save(small(), s, "file.npz"),
        r"save: path must be a file's name: the order is save\(path, learner, state\)",
    ),
    "save with state and learner swapped": (
        lambda s: jaxmkl.save("file.npz", s, small()),
        "save: learner must be a learner.*MKLState",
    ),
    "a missing method": (
        lambda s: jaxmkl.run(NoEncode(), s, X0, y0),
        "abstract class NoEncode .*encode",
    ),
    "a learner that is no pytree": (
        lambda s: jaxmkl.run(NoTree(small().models), s, X0, y0),
        "run: learner must be a pytree: decorate its class with jaxmkl.pytree.dataclass.*NoTree",
    ),
    "a kernel that is no pytree": (
        lambda s: jaxmkl.kernel_ogd(NoTreeKernel(1.0)),
        "SupportModels: kernels must be a pytree: decorate its class with .*NoTreeKernel",
    ),
    "a rule that is no pytree": (
        lambda s: jaxmkl.models.FeatureModels(jaxmkl.Gaussian(1.0), NoTreeUpdate(0.1)),
        "FeatureModels: rules must be a pytree: decorate its class with .*NoTreeUpdate",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_likely_mistakes(name, tmp_path, monkeypatch):
    act, sentence = MISTAKES[name]
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, TypeError), match=sentence) as error:
        act(begin(small()))
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_class_that_was_defined_again_is_saved(tmp_path):
    """As in a notebook whose cell ran twice: the learner is of the older class."""

    def cell():
        @pytree.dataclass
        class Mine(wrappers.Wrapper):
            learner: jaxmkl.Learner

            def init(self, key, num_inputs, dtype=None):
                return wrappers.WrapperState(self.learner.init(key, num_inputs, dtype))

        return Mine

    older, newer = cell(), cell()
    learner = older(small())
    path = tmp_path / "checkpoint.npz"
    jaxmkl.save(path, learner, begin(learner))
    loaded, state = jaxmkl.load(path)
    assert type(loaded) is newer
    assert repr(loaded) == repr(learner)
    assert_equal(state, begin(learner))
