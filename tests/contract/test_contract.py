"""What every learner of the registry must keep, whatever it is made of."""

import dataclasses
import functools
import inspect
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl

SMALL_PROGRAMS = True
NUM_EXAMPLES, NUM_INPUTS = 37, 3


def kernels():
    return jaxmkl.Gaussian((0.5, 2.0))


def small(name, **arguments):
    return jaxmkl.LEARNERS[name](kernels=kernels(), num_features=4, **arguments)


def orthogonal_hinge():
    return small("raker", orthogonal=True, feature_scale="mean", loss="hinge")


def choosy_experts():
    selection, labelling = jaxmkl.AdaptiveKernelSelection(0.5), jaxmkl.Confidence(0.01, 2)
    return small("expert_mkl", task="classification", selection=selection, labelling=labelling)


def scaled_by_ranks():
    return jaxmkl.scaled(small("amkl_aks", tolerance=0.01), jaxmkl.RunningRanks())


def budgeted_and_scaled():
    inner = small("expert_mkl", step_sizes=(0.2,), forgetting=(0.999,))
    return jaxmkl.label_budget(jaxmkl.scaled(inner, jaxmkl.RunningMoments()), 12)


# Learners by name: each of the registry (small where its defaults are large) and variants.
FEATURE_LEARNERS = {
    "raker": lambda: small("raker"),
    "omkl_aks": lambda: small("omkl_aks"),
    "amkl": lambda: small("amkl", tolerance=0.01),
    "amkl_aks": lambda: small("amkl_aks", tolerance=0.01, max_skips=2),
    "expert_mkl": lambda: small("expert_mkl"),
    "raker: orthogonal, mean, hinge": orthogonal_hinge,
    "amkl_aks: logistic": lambda: small("amkl_aks", loss="logistic", tolerance=0.05),
    "expert_mkl: classes, selecting, active": choosy_experts,
    "label_budget of amkl": lambda: jaxmkl.label_budget(small("amkl", tolerance=0.01), 10),
    "scaled by ranks": scaled_by_ranks,
    "label_budget of scaled by moments": budgeted_and_scaled,
}


def small_support(name, **arguments):
    kernels = jaxmkl.KernelDictionary((jaxmkl.Gaussian((0.5, 2.0)), jaxmkl.Polynomial(2)))
    return jaxmkl.LEARNERS[name](kernels, **arguments)


def sampled_and_budgeted():
    """A crossing that no paper has, with a budget below the number of supports."""
    return jaxmkl.SupportMKL(
        jaxmkl.KernelDictionary((jaxmkl.Laplacian(1.0), jaxmkl.Cauchy((0.5, 2.0)))),
        jaxmkl.SparsePassiveAggressive(0.5, 1.0, 1.5),
        jaxmkl.BudgetSupport(4, jaxmkl.RemoveOldest()),
        jaxmkl.Hedge(0.1),
        jaxmkl.LearnSampled(0.2),
    )


def scaled_and_growing():
    inner = small_support("omkl", step_size=0.3, regularization=0.1)
    return jaxmkl.label_budget(jaxmkl.scaled(inner, jaxmkl.RunningMoments()), 30)


# Budgets are below the number of mistakes, so that some support vectors have to go.
SUPPORT_LEARNERS = {
    "omkc_u": lambda: small_support("omkc_u"),
    "omkc_dd": lambda: small_support("omkc_dd", discount=0.9),
    "omkc_sd": lambda: small_support("omkc_sd", discount=0.9, smoothing=0.3),
    "spa": lambda: small_support("spa", beta=1.5),
    "rbp": lambda: small_support("rbp", budget=5),
    "forgetron": lambda: small_support("forgetron", budget=5),
    "bogd": lambda: small_support("bogd", budget=9),
    "bpas": lambda: small_support("bpas", budget=6),
    "projectron": lambda: small_support("projectron", budget=6, threshold=0.1),
    "omkl": lambda: small_support("omkl", step_size=0.05),
    "omkl_b": lambda: small_support("omkl_b", step_size=0.05, budget=7),
    "perceptron": jaxmkl.perceptron,
    "kernel_ogd": jaxmkl.kernel_ogd,
    "sampled, budgeted": sampled_and_budgeted,
    "label_budget of scaled omkl": scaled_and_growing,
}


def small_sketch(name, coordinate="precision", **arguments):
    space = jaxmkl.GaussianWidths(0.1, 4.0, (0.7, 2.0), coordinate=coordinate)
    return jaxmkl.LEARNERS[name](space, **arguments)


def sketch_of_a_sum():
    """A kernel of four parameters, in regression."""

    def kernel(scale):
        gaussians = jaxmkl.Gaussian((0.5 * scale, 2.0 * scale))
        return jaxmkl.WeightedSum(gaussians, (0.3 * scale, 0.7 * scale))

    space = jaxmkl.KernelBox(kernel(1.0), kernel(0.2), kernel(5.0))
    return jaxmkl.oks_sil(
        space, budget=6, loss="squared", optimizer=jaxmkl.Optax("adabelief", 0.1)
    )


SELECTION_LEARNERS = {
    "oks_sil": lambda: small_sketch("oks_sil", budget=8, num_sampled=2),
    "oks_sil: a weighted sum, adabelief": sketch_of_a_sum,
    "okl_gd": lambda: small_sketch("okl_gd", coordinate="bandwidth", budget=9),
    "oks": lambda: small_support("oks", num_rounds=NUM_EXAMPLES),
    "proj_ka": lambda: small_support("proj_ka", budget=6, num_aligned=20),
}
MULTITASK_LEARNERS = {
    "multitask": lambda: jaxmkl.multitask(
        2, h=0.5, loss="squared_hinge", growth="restart", covariance="queried", size=12
    ),
}
KNOWN = FEATURE_LEARNERS | SUPPORT_LEARNERS | SELECTION_LEARNERS | MULTITASK_LEARNERS
OTHERS = {name: make for name, make in jaxmkl.LEARNERS.items() if name not in KNOWN}
LEARNERS = KNOWN | OTHERS

# Their prediction is a vote without weights, or of one kernel: no derivative tells anything.
PIECEWISE_CONSTANT = {"omkc_u", "oks"}


@pytest.fixture(scope="module", params=LEARNERS)
def name(request):
    """Every learner in turn, with all tests of one after the other: they share what they run."""
    yield request.param
    jax.clear_caches()


@functools.cache
def learner_of(name):
    return LEARNERS[name]()


def everything(output):
    """Record the diagnostics too; one function, as each other one would be compiled again."""
    return output


def with_tasks(learner, X):
    """X (T, D); in column 0 the tasks in turn, where a learner has tasks."""
    K = getattr(learner, "num_tasks", None)
    return X if K is None else jaxmkl.data.with_tasks(np.arange(len(X)) % K, X[:, 1:])


def stream(learner, dtype=np.float32):
    """X (T, D) and y (T,), of both signs for classifiers."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(NUM_EXAMPLES, NUM_INPUTS))
    y = np.sin(X @ [1.5, -0.7, 0.4]) + 0.1 * rng.normal(size=NUM_EXAMPLES)
    if learner.task == "classification":
        y = np.where(y > 0.1, 1.0, -1.0)
    return with_tasks(learner, X).astype(dtype), y.astype(dtype)


def begin(name, dtype=np.float32, seed=0):
    return learner_of(name).init(jax.random.key(seed), NUM_INPUTS, dtype=dtype)


@jax.jit
def scan(learner, state, X, y):
    return jax.lax.scan(learner.step, state, (X, y))


@functools.cache
def scanned(name, dtype=np.float32):
    """The run that others are compared with: a plain scan of ``step``."""
    learner = learner_of(name)
    with jax.enable_x64(dtype == np.float64):
        X, y = stream(learner, dtype)
        return scan(learner, begin(name, dtype), X, y)


@jax.jit
def values_at(learner, state, points):
    return jax.vmap(learner.predict, in_axes=(None, 0))(state, points)


def later_values(learner, state, dtype=np.float32):
    """What a state predicts: states may hold the same knowledge in different forms."""
    points = np.random.default_rng(1).normal(size=(5, NUM_INPUTS))
    return values_at(learner, state, with_tasks(learner, points).astype(dtype))


def is_key(leaf):
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def plain(tree):
    return jax.tree.map(lambda v: np.asarray(jax.random.key_data(v) if is_key(v) else v), tree)


def assert_equal(one, other):
    """Bit for bit."""
    left, right = jax.tree.leaves_with_path(plain(one)), jax.tree.leaves(plain(other))
    assert len(left) == len(right) > 0
    for (path, a), b in zip(left, right, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b, err_msg=jax.tree_util.keystr(path))


def assert_close(one, other, tolerance=2e-5):
    """To rounding; what is not a floating point number must be equal."""
    left, right = jax.tree.leaves_with_path(plain(one)), jax.tree.leaves(plain(other))
    assert len(left) == len(right) > 0
    for (path, a), b in zip(left, right, strict=True):
        where = jax.tree_util.keystr(path)
        if np.issubdtype(a.dtype, np.floating):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=where)
        else:
            np.testing.assert_array_equal(a, b, err_msg=where)


# --- the protocol --------------------------------------------------------------------------------


def test_registry_is_covered():
    published = "raker omkl_aks amkl amkl_aks expert_mkl kernel_ogd omkl omkl_b perceptron omkc_u "
    published += "omkc_dd omkc_sd spa rbp forgetron bogd bpas projectron oks_sil okl_gd oks "
    published += "proj_ka multitask"
    assert set(published.split()) <= set(jaxmkl.LEARNERS)
    for name, factory in jaxmkl.LEARNERS.items():
        assert factory is getattr(jaxmkl, name)
        assert factory.__name__ == name


def test_methods_have_the_protocols_arguments(name):
    learner = learner_of(name)
    wanted = {
        "init": ["key", "num_inputs"],
        "predict": ["state", "x"],
        "update": ["state", "x", "y"],
        "skip": ["state", "x"],
        "step": ["state", "example"],
    }
    for method, names in wanted.items():
        parameters = inspect.signature(getattr(learner, method)).parameters
        assert list(parameters)[: len(names)] == names
        for extra in list(parameters.values())[len(names) :]:
            assert extra.default is not inspect.Parameter.empty
    assert learner.task in ("regression", "classification")


@pytest.mark.parametrize("factory", jaxmkl.LEARNERS.values(), ids=jaxmkl.LEARNERS)
def test_factories_are_documented(factory):
    text = inspect.getdoc(factory)
    assert ">>> " in text, "an example"
    assert "Args:" in text
    assert "Reference" in text, "the source"
    assert re.search(r"[Ee]quation|[Aa]lgorithm|\(\d+\)|\b(19|20)\d\d\b", text)
    for parameter in inspect.signature(factory).parameters:
        assert re.search(rf"\b{parameter}\b", text), parameter


def types(tree):
    """Shape, dtype, and whether the type is weak, of each leaf."""
    leaves = jax.tree.map(lambda leaf: getattr(leaf, "aval", leaf), tree)
    return [
        (jax.tree_util.keystr(path), a.shape, a.dtype, getattr(a, "weak_type", False))
        for path, a in jax.tree.leaves_with_path(leaves)
    ]


@pytest.mark.parametrize(("dtype", "x64"), [("float32", 0), ("float32", 1), ("float64", 1)])
def test_state_keeps_its_types(name, dtype, x64):
    with jax.enable_x64(bool(x64)):
        learner = learner_of(name)
        state = begin(name, dtype)
        x, y = np.zeros(NUM_INPUTS, dtype), np.ones((), dtype)
        after, output = jax.eval_shape(learner.step, state, (x, y))
        assert types(after) == types(state)
        assert not any(weak for *_, weak in types(state))
        for leaf in jax.tree.leaves((state, output)):
            if jnp.issubdtype(leaf.dtype, jnp.floating):
                assert leaf.dtype == dtype
            else:
                assert leaf.dtype in (jnp.int32, jnp.uint32, jnp.bool_) or is_key(leaf)
        for label in (1, 1.0, True, np.int64(1), np.float64(1)):
            again, _ = jax.eval_shape(learner.step, state, (x, label))
            assert types(again) == types(state)


def test_outputs_are_of_their_type(name):
    learner = learner_of(name)
    state, outputs = scanned(name)
    X, _ = stream(learner)
    for field in ("prediction", "loss", "queried"):
        assert getattr(outputs, field).shape == (NUM_EXAMPLES,)
    assert outputs._fields[:4] == ("prediction", "loss", "queried", "info")
    assert outputs.queried.dtype == bool
    for leaf in jax.tree.leaves((state, outputs)):
        if not is_key(leaf):
            assert np.isfinite(np.asarray(leaf)).all() or np.isinf(np.asarray(leaf)).any()
    assert np.isfinite(outputs.prediction).all()
    assert np.isfinite(outputs.loss).all()
    assert int(state.round) == NUM_EXAMPLES
    assert jax.tree.leaves(outputs.info), "diagnostics"
    assert X.dtype == outputs.prediction.dtype


def test_step_is_predict_then_update_or_skip(name):
    """And neither what it says nor what it shows before depends on the label."""
    learner = learner_of(name)

    @jax.jit
    def trajectory(learner, state, X, y):
        def body(state, example):
            return learner.step(state, example)[0], state

        return jax.lax.scan(body, state, (X, y))[1]

    @jax.jit
    def steps(learner, states, X, y):
        return jax.vmap(lambda *round: learner.step(round[0], round[1:]))(states, X, y)

    @jax.jit
    def apart(learner, states, X, y):
        of_round = learner.predict, learner.update, learner.skip
        axes = (0, 0), (0, 0, 0), (0, 0)
        predict, update, skip = (
            jax.vmap(f, in_axes=a) for f, a in zip(of_round, axes, strict=True)
        )
        return predict(states, X), update(states, X, y), skip(states, X)

    with jax.enable_x64(True):
        X, y = stream(learner, np.float64)
        states = trajectory(learner, begin(name, np.float64), X, y)
        after, output = steps(learner, states, X, y)
        others = [steps(learner, states, X, other)[1] for other in (-y, np.nan * y)]
        prediction, updated, skipped = apart(learner, states, X, y)
    np.testing.assert_allclose(prediction.value, output.prediction, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(prediction.query, output.queried)
    for other in others:
        assert_equal(other._replace(loss=output.loss), output)
    assert not np.isnan(output.loss).any()
    assert np.isnan(others[1].loss).all()

    asked = np.asarray(output.queried)

    def either(a, b):
        return np.where(asked.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)

    expected = jax.tree.map(either, plain(updated), plain(skipped))
    assert_close(after, expected, 1e-10)
    np.testing.assert_array_equal(after.round, np.arange(1, NUM_EXAMPLES + 1))


# --- blocks, chunks, seeds -----------------------------------------------------------------------


def run(name, state, X, y, block_size=16):
    return jaxmkl.run(learner_of(name), state, X, y, block_size=block_size, record=everything)


@functools.cache
def whole_run(name):
    """The uninterrupted run in blocks of 16."""
    return run(name, begin(name), *stream(learner_of(name)))


@pytest.mark.parametrize("block_size", [7, 16])
def test_run_is_the_scan_of_step(name, block_size):
    """37 examples: block sizes above 1 leave a tail of padding."""
    learner = learner_of(name)
    expected_state, expected = scanned(name)
    if block_size == 16:
        state, outputs = whole_run(name)
    else:
        state, outputs = run(name, begin(name), *stream(learner), block_size)
    assert_close(outputs, expected)
    assert_close(later_values(learner, state), later_values(learner, expected_state))
    assert int(state.round) == NUM_EXAMPLES


def test_defaults_keep_little_and_change_nothing(name):
    """No diagnostics, the same run again for the same key, the caller's arrays as they were."""
    learner = learner_of(name)
    X, y = stream(learner)
    X_before, y_before = X.copy(), y.copy()
    state = begin(name)
    copy = plain(state)
    _, outputs = jaxmkl.run(learner, state, X, y)
    assert outputs.info is None
    assert_close(outputs, whole_run(name)[1]._replace(info=None))
    _, again = jaxmkl.run(learner, state, jnp.asarray(X), jnp.asarray(y))
    assert_equal(again, outputs)
    np.testing.assert_array_equal(X, X_before)
    np.testing.assert_array_equal(y, y_before)
    assert_equal(state, copy)
    if name in FEATURE_LEARNERS:
        _, other = jaxmkl.run(learner, begin(name, seed=1), X, y)
        assert not np.allclose(other.prediction[5:], outputs.prediction[5:])


def test_single_precision_stays_single_where_double_is_on(name):
    learner = learner_of(name)
    with jax.enable_x64(True):
        state = begin(name, "float32")
        given = stream(learner, np.float64)
        after, outputs = jax.eval_shape(lambda *a: run(name, *a), state, *given)
        assert types(after) == types(state)
        for leaf in jax.tree.leaves(outputs):
            assert leaf.dtype not in (jnp.float64, jnp.int64)


def test_padding_leaves_no_trace(name):
    state, _ = scanned(name)
    learner = learner_of(name)

    @jax.jit
    def absent(learner, state, X, y):
        code = jax.tree.map(lambda leaf: leaf[0], learner.encode(state, X[:1]))
        return learner.advance(state, code, y[0], present=False)

    after, output = absent(learner, state, *stream(learner))
    assert_equal(after, state)
    assert not bool(output.queried)


CUTS = (13, 24)  # none at the end of a block; with both, pieces of two lengths only


@pytest.mark.parametrize("cut", CUTS)
def test_resuming_from_a_file_goes_on_bit_for_bit(name, cut, tmp_path):
    learner = learner_of(name)
    X, y = stream(learner)
    end, whole = whole_run(name)
    state, first = run(name, begin(name), X[:cut], y[:cut])
    path = tmp_path / "checkpoint.npz"
    jaxmkl.save(path, learner, state)
    loaded, resumed = jaxmkl.load(path)
    assert repr(loaded) == repr(learner)
    assert jax.tree.structure(loaded) == jax.tree.structure(learner)
    assert_equal(resumed, state)
    assert types(resumed) == types(state)
    again, second = jaxmkl.run(loaded, resumed, X[cut:], y[cut:], block_size=16, record=everything)
    assert_equal(jax.tree.map(joined, first, second), whole)
    assert_equal(again, end)


def joined(*parts):
    return np.concatenate(parts)


def test_chunks_are_the_whole(name):
    """Cut anywhere, a stream goes on bit for bit."""
    learner = learner_of(name)
    X, y = stream(learner)
    end, whole = whole_run(name)
    # pieces of 20, 5, 0, 1, 11: all but the first are padded
    chunks = [(X[a:b], y[a:b]) for a, b in itertools.pairwise([0, 20, 25, 25, 26, NUM_EXAMPLES])]
    streamed = list(
        jaxmkl.stream(learner, begin(name), iter(chunks), block_size=16, record=everything)
    )
    parts = [outputs for _, outputs in streamed]
    assert [len(outputs.loss) for outputs in parts] == [20, 5, 1, 11]
    assert_equal(jax.tree.map(joined, *parts), whole)
    assert_equal(streamed[-1][0], end)


def test_seeds_together_are_seeds_alone(name):
    learner = learner_of(name)
    X, y = stream(learner)
    keys = jax.random.split(jax.random.key(9), 3)
    orders = np.asarray(jaxmkl.permutations(keys, NUM_EXAMPLES))
    assert len({tuple(order) for order in orders}) == 3
    states, outputs = jaxmkl.run_many(learner, keys, X, y, block_size=16, record=everything)
    assert outputs.prediction.shape == (3, NUM_EXAMPLES)
    for s, (key, order) in enumerate(zip(keys, orders, strict=True)):
        start = learner.init(jax.random.fold_in(key, 0), NUM_INPUTS, dtype=np.float32)
        state, alone = run(name, start, X[order], y[order])
        row_state, row = jax.tree.map(lambda leaf, s=s: leaf[s], (states, outputs))
        assert_close(row, alone)
        assert_close(later_values(learner, row_state), later_values(learner, state))


def test_permutations_show_every_example_once():
    """With a step size of 0 the prediction stays 0 and the loss is the label's square."""
    learner = small("raker", step_size=0.0)
    X, _ = stream(learner)
    y = np.arange(NUM_EXAMPLES, dtype=np.float32)
    keys = jax.random.split(jax.random.key(2), 4)
    _, outputs = jaxmkl.run_many(learner, keys, X, y)
    seen = np.sqrt(np.asarray(outputs.loss))
    np.testing.assert_array_equal(seen, y[np.asarray(jaxmkl.permutations(keys, NUM_EXAMPLES))])
    np.testing.assert_array_equal(np.sort(seen, axis=1), np.tile(y, (4, 1)))
    _, outputs = jaxmkl.run_many(learner, keys, X, y, permute=False)
    np.testing.assert_array_equal(outputs.loss, np.tile(y**2, (4, 1)))


# --- learners are values -------------------------------------------------------------------------


def test_learner_is_differentiable(name):
    learner = learner_of(name)
    X, y = stream(learner)

    @jax.jit
    def total(learner, X, y):
        state = learner.init(jax.random.key(0), NUM_INPUTS, dtype=X.dtype)
        _, outputs = jax.lax.scan(learner.step, state, (X, y))
        return outputs.loss.mean()

    gradient = jax.grad(total, allow_int=True)(learner, X, y)
    leaves = [g for g in jax.tree.leaves(gradient) if g.dtype != jax.dtypes.float0]
    assert leaves
    for leaf in leaves:
        assert np.isfinite(np.asarray(leaf)).all()
    told = any(np.any(np.asarray(leaf) != 0) for leaf in leaves)
    assert told == (name not in PIECEWISE_CONSTANT)


def test_learner_is_a_tree(name):
    learner = learner_of(name)
    leaves, structure = jax.tree.flatten(learner)
    again = jax.tree.unflatten(structure, leaves)
    assert repr(again) == repr(learner)
    assert hash(structure) == hash(jax.tree.structure(LEARNERS[name]()))
    assert structure == jax.tree.structure(LEARNERS[name]())
    with pytest.raises(dataclasses.FrozenInstanceError):
        learner.task = "ranking"


def fields_of(value):
    """Names and values of all fields, those of parts included."""
    if isinstance(value, tuple):
        for item in value:
            yield from fields_of(item)
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield field.name, getattr(value, field.name)
            yield from fields_of(getattr(value, field.name))


def test_repr_says_all_there_is(name):
    """It names every field, and read as Python it gives the same learner."""
    learner = learner_of(name)
    text = repr(learner)
    for field, _ in fields_of(learner):
        assert f"{field}=" in text
    names = {n: getattr(jaxmkl, n) for n in dir(jaxmkl)}
    names |= {type(learner).__name__: type(learner)}
    for _, value in fields_of(learner):
        if dataclasses.is_dataclass(value):
            names[type(value).__name__] = type(value)
    names |= {"array": np.array, "inf": np.inf, "nan": np.nan, "Array": jnp.array}
    again = eval(text, names)
    assert jax.tree.structure(again) == jax.tree.structure(learner)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(learner), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
