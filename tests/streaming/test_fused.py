"""The rounds of a block in one kernel: as the scan has them, in the memory of each compiler.

JAX interprets the kernels. For their compilers see the tests of accelerators.
"""

import functools
import importlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from marks import long, quick
from trees import assert_close, everything

import jaxmkl
from jaxmkl.streaming import _engine, _kernel

SMALL_PROGRAMS = True
KERNELS = jaxmkl.Gaussian((0.3, 1.0, 3.0))
LEARNERS = {
    "raker": lambda: jaxmkl.raker(KERNELS, num_features=5),
    "omkl_aks": lambda: jaxmkl.omkl_aks(KERNELS, num_features=5, hedge_rate=3.0),
    "amkl": lambda: jaxmkl.amkl(KERNELS, num_features=5, tolerance=0.01, max_skips=3),
    "amkl_aks": lambda: jaxmkl.amkl_aks(
        KERNELS, num_features=5, tolerance=0.01, max_skips=3, hedge_rate=3.0
    ),
    "one kernel": lambda: jaxmkl.raker(jaxmkl.Gaussian(1.0), num_features=5),
    "as many features as kernels": lambda: jaxmkl.raker(
        jaxmkl.Gaussian((0.5, 2.0)), num_features=1
    ),
    "classes, at random": lambda: jaxmkl.raker(
        KERNELS, num_features=5, loss="logistic", query=jaxmkl.query.Margin(0.2)
    ),
    "relative": lambda: jaxmkl.amkl_aks(
        KERNELS, num_features=5, loss="huber", tolerance=0.05, relative=True
    ),
}


def made_for(*platforms):
    """A fixture: a platform for which kernels are made, and interpreted here."""

    def platform(request, monkeypatch):
        monkeypatch.setattr(_kernel, "_options", lambda *_: {"interpret": True})
        return request.param

    return pytest.fixture(platform, params=platforms)


platform = made_for("gpu", pytest.param("tpu", marks=pytest.mark.slow))
# whole runs, which for a TPU are the same operations without padding
of_runs = made_for("gpu", pytest.param("tpu", marks=pytest.mark.endless))


# --- learners ------------------------------------------------------------------------------------


# what the others do amkl_aks does too
OF_RUNS = long(["amkl_aks"], LEARNERS)


@pytest.mark.parametrize("name", OF_RUNS)
def test_rounds_are_those_of_the_scan(name, of_runs):
    """Also rows that are refused, those without a label, and blocks that are not full."""
    learner = LEARNERS[name]()
    draws = np.random.default_rng(0)
    X = draws.normal(size=(90, 3)).astype(np.float32)
    y = np.sin(3 * X[:, 0]) + np.float32(0.1) * draws.normal(size=90).astype(np.float32)
    X[17, 1], X[18, 2], y[33], y[50] = np.nan, np.inf, np.nan, 1e9
    state = learner.init(jax.random.key(0), 3)
    plan = _engine.plan_of("run", learner, 16, everything)
    rows = _engine.Rows(jnp.asarray(X), jnp.asarray(y), length=jnp.asarray(83))
    scanned = _engine.run_rows(learner, state, rows, plan=plan)
    fused = _engine.run_rows(
        learner, state, rows, plan=plan._replace(fused=True, platform=of_runs)
    )
    assert_close(fused, scanned)

    after, outputs = fused
    assert after.round == 83
    numbers = learner.task == "regression"
    assert after.invalid >= 2 + numbers
    assert after.outlying == numbers
    assert jnp.isnan(outputs.prediction[17:19]).all()
    queried = outputs.queried[:83]
    assert queried[:17].any()
    if "amkl" in name or "random" in name:
        assert not queried[20:].all()
    if "aks" in name:
        active = outputs.info.num_active[:83]
        assert active.min() < 3 == active.max()


def on(platform):
    """As a plan is changed where the device of that platform is."""
    return lambda plan, device: plan._replace(platform=platform if plan.fused else "cpu")


@pytest.mark.endless
def test_runs_side_by_side_are_those_of_the_scan(of_runs, monkeypatch):
    monkeypatch.setattr(_engine.Plan, "on", on(of_runs))
    learner = LEARNERS["amkl_aks"]()
    X = jax.random.normal(jax.random.key(0), (5, 40, 3))
    keys = jax.random.split(jax.random.key(1), 5)
    given = learner, keys, X[0], X[0, :, 1]
    options = {"block_size": 16, "record": everything}
    assert_close(
        jaxmkl.run_many(*given, **options, fused=True), jaxmkl.run_many(*given, **options)
    )
    states = jax.vmap(lambda key: learner.init(key, num_inputs=3))(keys)
    given, options = (learner, states, X, X[..., 1]), options | {"lengths": [40, 3, 0, 17, 39]}
    fused, scanned = (jaxmkl.run_fleet(*given, **options, fused=f) for f in (True, False))
    assert_close(fused, scanned)


@pytest.mark.slow
def test_streams_go_on_bit_for_bit(of_runs, monkeypatch):
    """Wherever they are cut, by either driver; and the kernel is what is played."""
    monkeypatch.setattr(_engine.Plan, "on", on(of_runs))
    learner = LEARNERS["amkl_aks"]()
    X = jax.random.normal(jax.random.key(0), (40, 3))
    begun = learner.init(jax.random.key(1), 3)
    whole, outputs = jaxmkl.run(learner, begun, X, X[:, 1], block_size=16, fused=True)
    chunks = [(X[a:b], X[a:b, 1]) for a, b in ((0, 7), (7, 30), (30, 40))]
    pieces = jaxmkl.stream(learner, begun, chunks, block_size=16, fused=True)
    states, parts = zip(*pieces, strict=True)
    np.testing.assert_array_equal(states[-1].aggregate.log_weights, whole.aggregate.log_weights)
    found = np.concatenate([part.prediction for part in parts])
    np.testing.assert_array_equal(found, outputs.prediction)

    traced = jax.make_jaxpr(lambda X: jaxmkl.run(learner, begun, X, X[:, 1], fused=True))(X)
    assert "pallas_call" in str(traced)


@pytest.mark.parametrize("name", quick(["oks"], ["oks", "expert_mkl", "spa"]))
def test_what_is_not_for_one_kernel_is_refused(name):
    learner = jaxmkl.LEARNERS[name](jaxmkl.Gaussian((0.5, 2.0)))
    X = jax.random.normal(jax.random.key(0), (40, 3))
    wanted = r"^fused must be False for a learner whose rounds .*; got True, and rounds with "
    with pytest.raises(ValueError, match=wanted):
        jaxmkl.run(learner, learner.init(jax.random.key(1), 3), X, X[:, 1] > 0, fused=True)


@pytest.mark.parametrize("given", ["gpu", None, 1])
def test_fused_is_true_or_false(given):
    learner, X = LEARNERS["raker"](), np.ones((4, 3))
    with pytest.raises(ValueError, match=f"fused must be True or False; got {given!r}"):
        jaxmkl.run(learner, learner.init(jax.random.key(1), 3), X, X[:, 0], fused=given)


def test_effects_of_rounds_are_not_lost():
    """A kernel would leave out what is printed."""

    def loud(state, row):
        jax.debug.print("{}", state)
        return state + row, state

    with pytest.raises(ValueError, match="rounds with what is seen outside of them"):
        _kernel.scan_in_kernel(loud, jnp.zeros(()), jnp.ones(4), lambda *both: both, "cpu")


# --- it is asked for -----------------------------------------------------------------------------


class Gpu(NamedTuple):
    """A device of a platform, as a plan looks at it."""

    device_kind: str = "NVIDIA H100"
    platform: str = "gpu"
    compute_capability: str = "9.0"


@pytest.mark.parametrize("device", [Gpu(), Gpu("TPU v5e", "tpu", ""), jax.devices("cpu")[0]])
def test_rounds_are_a_scan_unless_one_kernel_is_asked_for(device, monkeypatch):
    """Whatever the device can do, inside traces and outside."""
    monkeypatch.setattr(_engine, "_refused_by_jax", lambda *_: None)
    monkeypatch.setattr(_kernel, "_options", lambda *_: {"interpret": True})
    learner = LEARNERS["raker"]()
    X = jax.random.normal(jax.random.key(0), (20, 3))
    state = learner.init(jax.random.key(1), 3)

    def program(**options):
        plan = _engine.plan_of("run", learner, 16, everything, **options).on(device)
        assert plan.platform == device.platform
        play = functools.partial(_engine.scan_rows, learner, state, plan=plan)
        return str(jax.make_jaxpr(play)(_engine.Rows(X, X[:, 1])))

    assert "pallas_call" not in program()
    assert "pallas_call" not in program(fused=False)
    assert "pallas_call" in program(fused=True)


def test_a_jax_without_such_kernels_says_so(monkeypatch):
    """In its own words; and only where a kernel is asked for."""
    learner, X = LEARNERS["raker"](), np.ones((4, 3), np.float32)
    state = learner.init(jax.random.key(1), 3)
    cpu = jax.devices("cpu")[0]
    assert "interpret" in _engine._refused_by_jax(cpu, "gpu").lower()  # it has no compiler
    said = "NotImplementedError: gone"
    monkeypatch.setattr(_engine, "_refused_by_jax", lambda *_: said)
    for module in ("run", "_engine"):
        of = importlib.import_module(f"jaxmkl.streaming.{module}")
        monkeypatch.setattr(of, "device_of", lambda tree: Gpu())
    wanted = rf"fused must be False on NVIDIA H100, for which JAX {jax.__version__} makes no "
    wanted += rf"kernels of Pallas \({said}\); got True"
    with pytest.raises(ValueError, match=wanted):
        jaxmkl.run(learner, state, X, X[:, 0], fused=True)
    with pytest.raises(ValueError, match=wanted):
        jax.jit(lambda X: jaxmkl.run(learner, state, X, X[:, 0], fused=True))(X)
    with pytest.raises(ValueError, match=wanted):
        next(jaxmkl.stream(learner, state, [(X, X[:, 0])], fused=True))


# --- operations ----------------------------------------------------------------------------------

A, B = np.linspace(-2.0, 2.0, 15, dtype=np.float32).reshape(3, 5), 6


def of_extremes(state, row):
    """Reductions whose neutral numbers matter, and the first of several; NaN is the largest."""
    x, z = row["x"], row["z"]
    state = {"sum": state["sum"] + jnp.sum(x - 7.0), "low": jnp.minimum(state["low"], x)}
    found = jnp.max(x - 9.0), jnp.min(x + 9.0), jnp.argmax(jnp.floor(x)), jnp.max(z - 9, axis=0)
    where = jnp.where(jnp.arange(3) == row["n"] % 3, jnp.nan, x)
    signs = jnp.sign(where), jnp.isfinite(1.0 / where), row["n"] // 2
    return state, (*found, *signs, jnp.argmax(where), jnp.min(z + 9.0, axis=1), jnp.max(z))


def of_booleans(state, row):
    """Booleans in the state, chosen, counted and told."""
    positive = row["x"] > 0
    flags = jnp.where(row["n"] % 2 == 0, positive, state["flags"])
    state = {"flags": flags, "count": state["count"] + jnp.sum(flags, dtype=jnp.int32)}
    return state, (flags, jnp.all(flags), jnp.any(flags), flags ^ positive, row["flag"] & flags[0])


def of_integers(total, row):
    """Sums of whole numbers, exact also where no float has them."""
    large = jnp.asarray([2**30 - 1, -(2**30), 16777217], jnp.int32) + row["n"]
    return total + jnp.sum(large), (jnp.sum(large), jnp.sum(large[None] * jnp.ones((3, 3), int)))


def of_shapes(state, row):
    """Slices, transpositions that move nothing, products, constants, and whole arrays told."""
    x, z, c = row["x"], row["z"], jnp.asarray(A)
    last = jnp.stack([x[0], x[2]])
    state = {"z": 0.5 * state["z"] + c * z, "pair": state["pair"][::1] + last}
    mean = jnp.dot(z, jnp.ones(5)) / 5.0
    told = z.T.T, mean[:, None] * z, jnp.sum(z, axis=0), x[None, :, None], state["pair"][1]
    return state, (*told, jax.nn.softmax(x), jnp.sum(jnp.ones((3, 5)) * row["n"]))


STEPS = {
    of_extremes: lambda: {"sum": jnp.zeros(()), "low": jnp.full(3, jnp.inf)},
    of_booleans: lambda: {"flags": jnp.ones(3, bool), "count": jnp.zeros((), jnp.int32)},
    of_integers: lambda: jnp.zeros((), jnp.int32),
    of_shapes: lambda: {"z": jnp.zeros((3, 5)), "pair": jnp.zeros(2)},
}


@pytest.mark.parametrize("step", STEPS)
def test_operations_are_those_of_the_scan(step, platform):
    draws = np.random.default_rng(0)
    numbers = {"x": draws.normal(size=(B, 3)), "z": draws.normal(size=(B, 3, 5))}
    rows = {name: jnp.asarray(a, jnp.float32) for name, a in numbers.items()}
    rows |= {"n": jnp.arange(B, dtype=jnp.int32), "flag": jnp.arange(B) % 3 == 0}

    def then(state, outputs):
        return state, outputs

    found = _kernel.scan_in_kernel(step, STEPS[step](), rows, then, platform)
    assert_close(found, jax.lax.scan(step, STEPS[step](), rows), 1e-6)


def test_what_is_not_read_is_not_computed(platform):
    """Not even where it has no form in the kernel."""

    def step(total, x):
        return total + x, (total, jnp.cumsum(jnp.stack([x, x, x])))

    def then(total, outputs):
        return total, outputs[0]

    rows = jnp.arange(1.0, 5.0)
    total, outputs = _kernel.scan_in_kernel(step, jnp.zeros(()), rows, then, platform)
    assert total == 10
    np.testing.assert_array_equal(outputs[0], [0, 1, 3, 6])
    np.testing.assert_array_equal(outputs[1], np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        (lambda s, z: (s, jnp.dot(z, z.T)), "a product of arrays of shape"),
        (lambda s, z: (s, z.T), "a transposition of shape"),
        (lambda s, z: (s, z[:, 1:]), "a slice from"),
        (lambda s, z: (s, z.ravel()), "a reshape from"),
        (lambda s, z: (s, z[:, None] - z[None]), "a transposition of shape|an array of shape"),
        (lambda s, z: (s, jnp.stack([z, z])), "an array of shape|a stack of arrays"),
        (lambda s, z: (s, jnp.sort(z)), "the operation sort on arrays of shape"),
        (lambda s, z: (s, jnp.zeros(600) + z[0, 0]), "600 models, of at most 512"),
    ],
)
def test_operations_without_a_form_are_refused(step, wanted):
    with pytest.raises(ValueError, match=wanted):
        _kernel.scan_in_kernel(
            step, jnp.zeros(()), jnp.ones((4, 3, 3)), lambda *results: results, "cpu"
        )
