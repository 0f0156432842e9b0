"""Programs for GPUs and TPUs on a machine that has neither: their products, and their compilers.

What is lowered for a platform needs nothing but JAX. What is compiled ahead for a device needs the
compilers of the extra ``accelerators``, and tests of it have the marker of that name.
"""

import importlib.util
import itertools
import os
import re
from contextlib import nullcontext
from functools import cache, partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import topologies
from jax.sharding import AbstractDevice, AbstractMesh, SingleDeviceSharding

import jaxmkl
from experiments.bench.launches import kernels_a_round
from jaxmkl import _devices, abilities, design, wrappers
from jaxmkl._renewals import renewals_of
from jaxmkl.models import renewals
from jaxmkl.streaming import _engine, _spread, examples, run_many
from tests.common.banks import MeanOfMemory
from tests.common.marks import long, quick
from tests.common.trees import assert_close, everything

SMALL_PROGRAMS = True
D, T = 20, 2000


def shaped(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


# --- programs by name: what they are made of, and shapes of what they are given ------------------

X, y = shaped(T, D), shaped(T)


def init(learner):
    key = jax.eval_shape(lambda: jax.random.key(0))
    return jax.jit(lambda learner, key: learner.init(key, D, jnp.float32)), (learner, key), {}


def one_stream(learner, plan):
    """As ``jaxmkl.run`` has it, of a length that is data."""
    room = _engine.capacity_for(T)

    def begin():
        return abilities.enlarged(learner, learner.init(jax.random.key(0), D, jnp.float32), room)

    rows = _engine.Rows(shaped(room, D), shaped(room), length=shaped(dtype=jnp.int32))
    return _engine.run_rows, (learner, jax.eval_shape(begin), rows), {"plan": plan}


def many_in_one_program(number, learner, plan, memory):
    """As on several devices, or inside a trace."""
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), number))
    options = {"permute": True, "room": _spread.room_in(memory), "sharding": None}
    return drivers._run_many, ((learner, X, y), keys), {"plan": plan} | options


def many_in_segments(number, learner, plan, platform):
    """The programs of many runs: those of renewals, if there are any, and of rounds."""
    capacity, memory = _engine.capacity_for(T), _spread.room_in(MEMORY[platform])
    key = jax.eval_shape(lambda: jax.random.key(0))
    begin = partial(
        drivers._begin.eval_shape, learner, num_inputs=D, dtype="float32", capacity=capacity
    )
    size = drivers._size_of_groups(learner, begin(key), number, T, plan.block_size, memory)
    room = _engine.room_of(T, size * D)
    states = begin(jax.eval_shape(lambda key: jax.random.split(key, size), key))
    rounds = learner
    if (apart := renewals_of(learner)) is not None:
        rounds = apart.rounds
        for place, bank in enumerate(learner.models):
            if bank.first is not None:
                given = bank, states.models[place], learner.memory, states.memory
                options = {"in_turn": platform != "cuda"}
                yield renewals.renew, (*given, states.round, place), options
    rows = shaped(size, room, D), shaped(size, room), shaped(dtype=jnp.int32)
    yield drivers.run_group, (rounds, states, *rows), {"plan": plan}


# the module, where the package has the function of this name
drivers = importlib.import_module(run_many.__module__)


def plan_of(learner):
    """The plan of a driver on an accelerator."""
    plan = _engine.plan_of("run", learner, None, drivers.without_info)
    return plan._replace(platform="gpu")


def solver(choose, *shape):
    """A solver on Gram matrices, or features, of this shape, with any regularization."""
    argument = ("features", "gram" if len(shape) == 2 else "grams")[shape[-1] == shape[-2]]

    def solve(values, regularization):
        return choose(**{argument: values}, regularization=regularization, num_points=5)

    return jax.jit(solve), (shaped(*shape), shaped()), {}


SOLVERS = {
    f"{choose.__name__} from {what}": partial(solver, choose, *several, 64, width)
    for choose in (design.ted, design.cted, design.rrss, design.gmkal, design.lmkal)
    for what, width in (("Gram matrices", 64), ("features", 16))
    for several in [(3,) if choose in (design.gmkal, design.lmkal) else ()]
}

# --- no product at less than full precision ------------------------------------------------------

WRAPPED = {
    "predictive": lambda: wrappers.predictive(jaxmkl.raker()),
    "probabilities": lambda: wrappers.probabilities(jaxmkl.raker(loss="logistic")),
    "intervals": lambda: wrappers.intervals(jaxmkl.raker()),
    "scaled": lambda: jaxmkl.scaled(jaxmkl.spa(), wrappers.RunningMoments()),
}
EVERYTHING = jaxmkl.LEARNERS | WRAPPED


def products(text):
    """The products of floating-point numbers in StableHLO, each a line."""
    found = re.findall(r"stablehlo\.(?:dot_general|dot|convolution)\b.*", text)
    return [line for line in found if re.search(r"-> tensor<(\d+x)*f\d+>", line)]


def at_less_than_full_precision(text):
    return [line for line in products(text) if line.count("HIGHEST") != 2]


def lowered(program, arguments, options, platform="tpu"):
    return program.trace(*arguments, **options).lower(lowering_platforms=(platform,))


def test_products_at_less_than_full_precision_are_found():
    for precision, number in (None, 1), ("high", 1), ("highest", 0):
        product = jax.jit(partial(jnp.dot, precision=precision))
        text = lowered(product, (shaped(2, 3), shaped(3)), {}).as_text()
        assert len(products(text)) == 1
        assert len(at_less_than_full_precision(text)) == number


# one of each kind, for whom it takes a second or two, and one that is larger
SMALL = ["raker", "oks_sil"]
SOME = [*SMALL, "predictive", "multitask"]


@pytest.mark.parametrize(
    "name", quick(SMALL, SOME) + long([], [name for name in EVERYTHING if name not in SOME])
)
def test_learners_multiply_at_full_precision(name):
    """GPUs would round factors to TF32 and TPUs to bfloat16."""
    learner = EVERYTHING[name]()
    program, arguments, options = many_in_one_program(
        4, learner, plan_of(learner)._replace(platform="cpu"), 2**34
    )
    text = lowered(program, arguments, options).as_text()
    assert not at_less_than_full_precision(text)


@pytest.mark.parametrize("name", quick(["rrss from Gram matrices"], SOLVERS))
def test_solvers_multiply_at_full_precision(name):
    text = lowered(*SOLVERS[name]()).as_text()
    assert products(text)
    assert not at_less_than_full_precision(text)


# --- what is done there, on the device that there is ---------------------------------------------


def stand_in(**stats):
    """A device of another platform, as far as drivers ask."""
    return SimpleNamespace(platform="gpu", memory_stats=lambda: stats or None)


def test_room_is_a_share_of_the_memory(monkeypatch):
    for memory in 10**9, 16 * 2**30:
        device = stand_in(bytes_limit=memory)
        monkeypatch.setattr(_spread, "device_of", lambda given, device=device: device)
        room = _spread.room_for((), None)
        assert 1 / 16 < room.bytes / memory <= 1 / 8
    monkeypatch.setattr(_spread, "device_of", lambda given: stand_in())
    assert _spread.room_for((), None) is None


def test_as_many_runs_as_there_is_room_for():
    """Each has 4 + 4 · 3 · 5 bytes; on accelerators 4 and a tile."""
    held = partial(lambda *leaves: leaves, shaped(), shaped(3, 5))
    assert _spread.at_once(held, 10, None) == 10
    assert _spread.at_once(held, 10, _spread.Room(3 * 64, True)) == 3
    assert _spread.at_once(held, 10, _spread.Room(3 * (4 + 4 * 8 * 128), False)) == 3
    assert _spread.at_once(held, 10, _spread.Room(1, False)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", long(["omkc_dd"], ["omkc_dd", "raker", "spa"]))
def test_runs_on_an_accelerator_are_those_on_a_cpu(name, monkeypatch):
    """Several rounds a turn of the loop, in groups of runs: the same to rounding."""
    learner = {
        "raker": lambda: jaxmkl.raker(jaxmkl.Gaussian((0.5, 2.0)), num_features=4),
        "spa": lambda: jaxmkl.spa(jaxmkl.Gaussian((0.5, 2.0))),
        "omkc_dd": lambda: jaxmkl.omkc_dd(jaxmkl.Gaussian((0.5, 2.0))),
    }[name]()
    X = jax.random.normal(jax.random.key(0), (50, 3))
    keys = jax.random.split(jax.random.key(1), 30)
    given = learner, keys, X, X[:, 1] if learner.task == "regression" else X[:, 1] > 0
    alone = jaxmkl.run_many(*given, block_size=5, record=everything)

    sizes, of = [], drivers.run_group

    def seen(learner, states, X, *given, plan):
        sizes.append(len(X))
        return of(learner, states, X, *given, plan=plan)

    monkeypatch.setattr(drivers, "run_group", seen)
    monkeypatch.setattr(drivers, "_size_of_groups", lambda *given: 8)
    monkeypatch.setattr(_spread, "device_of", lambda given: stand_in(bytes_limit=2**30))
    there = jaxmkl.run_many(*given, block_size=5, record=everything)
    assert sizes == [8, 8, 8, 8]
    assert_close(there, alone)


@pytest.mark.slow
def test_renewals_of_many_runs_on_an_accelerator_are_apart(monkeypatch):
    """A bank is renewed in rounds 16 and 32, between segments of rounds."""
    learner = jaxmkl.MKL(MeanOfMemory(16))
    X = jax.random.normal(jax.random.key(0), (60, 3))
    given = learner, jax.random.split(jax.random.key(1), 5), X, X[:, 1]
    alone = jaxmkl.run_many(*given)

    segments, of = [], drivers.run_group

    def seen(*given, plan):
        segments.append((len(given[2]), given[-1], plan.platform))
        return of(*given, plan=plan)

    monkeypatch.setattr(drivers, "run_group", seen)
    monkeypatch.setattr(_spread, "device_of", lambda given: stand_in(bytes_limit=2**30))
    there = jaxmkl.run_many(*given)
    assert segments == [(8, rows, "gpu") for rows in (16, 16, 28)]
    assert_close(there[1], alone[1], 1e-3)


@pytest.fixture
def brought_back(monkeypatch):
    """The shapes of arrays that come to the host, as if all of JAX were on an accelerator."""
    found, array_of, get = [], np.asarray, jax.device_get

    def asarray(value, *arguments, **options):
        if isinstance(value, jax.Array):
            found.append(value.shape)
        return array_of(value, *arguments, **options)

    def device_get(tree):
        found.append([leaf.shape for leaf in jax.tree.leaves(tree)])
        return get(tree)

    for module in (_devices, examples, _engine):
        monkeypatch.setattr(module, "on_accelerator", lambda array: isinstance(array, jax.Array))
    monkeypatch.setattr(np, "asarray", asarray)
    monkeypatch.setattr(jax, "device_get", device_get)
    return found


@pytest.mark.slow
def test_what_lies_on_an_accelerator_stays_there(brought_back):
    """All but counters, and whether X and y are good, which come back at once."""
    learner = jaxmkl.raker(jaxmkl.Gaussian((0.5, 2.0)), num_features=4)
    X = jax.random.normal(jax.random.key(0), (50, 3))
    state = learner.init(jax.random.key(1), 3)
    # the state is worked out on the host: the key, and JAX's inverse error function of its bits
    assert {*brought_back} == {(2,), (1024,)}  # how often is a matter of versions
    brought_back.clear()
    _, outputs = jaxmkl.run(learner, state, X, X[:, 1])
    ((_, chunk),) = jaxmkl.streaming.stream(learner, state, [(X, X[:, 1])])
    assert brought_back == 2 * [6 * [()]]
    assert isinstance(outputs.loss, jax.Array)
    assert outputs.loss.shape == (50,)
    assert_close(outputs, chunk)

    brought_back.clear()
    classes = jaxmkl.perceptron(jaxmkl.Gaussian(1.0), query=jaxmkl.query.Random(0.5))
    jaxmkl.run(classes, classes.init(jax.random.key(1), 3), X, X[:, 1] > 0)
    assert (50,) in brought_back  # labels, whose kinds are many
    assert (50, 3) not in brought_back


@pytest.mark.slow
@pytest.mark.usefixtures("brought_back")
def test_bad_values_on_an_accelerator_are_named():
    learner = jaxmkl.raker(jaxmkl.Gaussian((0.5, 2.0)), num_features=4)
    state, X = learner.init(jax.random.key(1), 3), jnp.zeros((50, 3))
    with pytest.raises(ValueError, match=r"X must be finite .* X\[7, 2\] = nan and 1 such"):
        jaxmkl.run(learner, state, X.at[7, 2].set(jnp.nan), X[:, 0])
    y, bad = X[:, 0], X[:, 0].at[3].set(jnp.inf)
    with pytest.raises(ValueError, match=r"y must be finite .* y\[3\] = inf and 1 such"):
        jaxmkl.run(learner, state, X, bad)
    with pytest.raises(ValueError, match=r"y must be finite .* y\[0\] = 1\.\d*e\+30 and 1 such"):
        jaxmkl.run(learner, state, X, y.at[0].set(1e30))
    wrong = X.at[7, 2].set(-1e30)
    with pytest.raises(ValueError, match=r"chunk 1: X must be .* X\[7, 2\] = -1.*e\+30 and 1"):
        list(jaxmkl.stream(learner, state, [(X, y), (wrong, y)]))
    keys, states = (
        jax.random.split(jax.random.key(0), 2),
        jax.tree.map(lambda leaf: leaf[None], state),
    )
    with pytest.raises(ValueError, match=r"y must be finite .* y\[3\] = inf and 1 such"):
        jaxmkl.run_many(learner, keys, X, bad)
    with pytest.raises(ValueError, match=r"X must be finite .* X\[0, 7, 2\] = -1.*e\+30 and 1"):
        jaxmkl.run_fleet(learner, states, wrong[None], y[None])

    @jax.jit
    def inside(state):
        return jaxmkl.run(learner, state, wrong, y)[0]

    with pytest.raises(ValueError, match=r"X must be finite .* X\[7, 2\] = -1.*e\+30 and 1"):
        inside(state)


@pytest.mark.slow
def test_what_a_block_works_out_at_its_end_is_that_of_its_rounds():
    """Losses, also of labels that are missing, and rounds in which the learner diverges."""
    with pytest.warns(RuntimeWarning, match="cannot converge"):
        learner = jaxmkl.raker(
            jaxmkl.Gaussian((0.5, 2.0)), num_features=4, step_size=1e9, regularization=0.0
        )
    X = jax.random.normal(jax.random.key(0), (50, 3))
    y = X[:, 1].at[7].set(jnp.nan)
    plan = _engine.plan_of("run", learner, 8, everything)
    given = learner, learner.init(jax.random.key(1), 3), _engine.Rows(X, y)
    state, outputs = _engine.run_rows(*given, plan=plan)
    there, found = _engine.run_rows(*given, plan=plan._replace(platform="gpu"))
    assert 20 < state.nonfinite == there.nonfinite < 50
    assert jnp.isfinite(found.loss[:2]).all()
    assert jnp.isnan(found.loss[7])
    np.testing.assert_array_equal(jnp.isnan(found.loss), jnp.isnan(outputs.loss))


# --- compiled ahead ------------------------------------------------------------------------------

# an H100 SXM, as a query of the device gives it
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 84942979072
  shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 minor: 0 }
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  device_vendor: "NVIDIA Corporation"
  driver_version: "12.9.0"
  runtime_version: "12.9.0"
  compile_time_toolkit_version: "12.9.0"
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
#: Bytes that JAX takes of an H100, and those of a TPU v5e.
MEMORY = {"cuda": int(0.75 * 84942979072), "tpu": int(15.75 * 2**30)}
COMPILERS = {"cuda": ("jax_plugins.xla_cuda12", "nvidia.cuda_nvcc"), "tpu": ("libtpu",)}
OLDER = jax.__version_info__ < (0, 11)
# what is asked here is the same then, in a shorter time
OPTIONS = {
    "cuda": {"xla_backend_optimization_level": 0},
    "tpu": {"exec_time_optimization_effort": -1.0} if OLDER else {"optimization_level": 0},
}


def there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


@cache
def device(platform):
    """A device that this machine need not have."""
    for module in COMPILERS[platform]:
        if not there(module):
            pytest.skip(f"{module} is not installed: see the extra accelerators")
    if platform == "cuda":
        given = {"topology_name": "", "target_config": H100, "topology": "1x1x1"}
    else:
        # no question to a cloud, and no lock: tests in several processes compile
        os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
        os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
        given = {"topology_name": "v5e:2x2"}
    return topologies.get_topology_desc(platform=platform, **given).devices[0]


def of_kind(platform):
    """Where kernels are lowered for a kind of device, for which JAX asks from 0.11 on."""
    if OLDER:
        return nullcontext()
    kind = {"cuda": ("NVIDIA H100 80GB HBM3", None, "gpu"), "tpu": ("TPU v5 lite", 1, "tpu")}
    device = AbstractDevice(*kind[platform])
    return jax.sharding.use_abstract_mesh(AbstractMesh((), (), abstract_device=device))


def compiled(platform, program, arguments, options):
    """A program for a platform's device, checked to be one that the device can execute."""
    sharding = SingleDeviceSharding(device(platform))

    def put(leaf):
        aval = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jax.typeof(leaf)
        kind = {"weak_type": aval.weak_type} if hasattr(aval, "weak_type") else {}
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding, **kind)

    with of_kind(platform):
        low = lowered(program, jax.tree.map(put, arguments), options, platform)
    text = low.as_text()
    assert not at_less_than_full_precision(text)
    assert not re.search(r"tensor<(\d+x)*(f64|complex<f64>)>", text)
    assert "callback" not in text
    made = low.compile(compiler_options=OPTIONS[platform])
    needed = made.memory_analysis()
    assert needed.temp_size_in_bytes + needed.output_size_in_bytes < MEMORY[platform]
    return made


FIXED = "expert_mkl, the fixed bank"
COUNTED = jaxmkl.LEARNERS | {FIXED: partial(jaxmkl.expert_mkl, banks="fixed")}
#: Kernels a round of one stream on an H100, with JAX 0.12: growth is to be seen in review.
KERNELS = {
    "raker": 4,
    "omkl_aks": 6.875,
    "amkl": 5.75,
    "amkl_aks": 9.625,
    "expert_mkl": 31,
    FIXED: 26.5,
    "perceptron": 3.875,
    "omkc_u": 7.75,
    "omkc_dd": 7.25,
    "omkc_sd": 9,
    "spa": 10.5,
    "kernel_ogd": 4.25,
    "omkl": 9,
    "rbp": 7.125,
    "forgetron": 11.25,
    "bogd": 7.25,
    "bpas": 10,
    "projectron": 16.75,
    "omkl_b": 6.25,
    "oks_sil": 20,
    "okl_gd": 10.625,
    "oks": 10,
    "proj_ka": 21.25,
    "multitask": 13.75,
}
PLATFORMS = tuple(COMPILERS)
WITH_NAMES = list(itertools.product(PLATFORMS, jaxmkl.LEARNERS))
BEGUN = list(itertools.product(PLATFORMS, COUNTED))
# learned metrics, likelihoods and trees take minutes each for a TPU
SHORT = [given for given in BEGUN if given != ("tpu", "expert_mkl")]
SEEDS = [(*given, seeds) for given in WITH_NAMES for seeds in (32, 1024)]
# the most where memory is small, the others with the endless tests
FEW = [given for given in SEEDS if given[::2] in (("cuda", 32), ("tpu", 1024))]


@pytest.mark.accelerators
@pytest.mark.parametrize(("platform", "name"), long(SHORT, BEGUN))
def test_learners_begin_and_run(platform, name):
    device(platform)  # or it is skipped
    learner = COUNTED[name]()
    plan = plan_of(learner)
    compiled(platform, *init(learner))
    text = compiled(platform, *one_stream(learner, plan)).as_text()
    if platform == "cuda" and not OLDER:
        found = kernels_a_round(text, plan.block_size)
        assert found == pytest.approx(KERNELS[name], rel=0.05)


@pytest.mark.accelerators
@pytest.mark.parametrize(
    ("platform", "name", "seeds"), long([g for g in FEW if g[1] != "expert_mkl"], SEEDS)
)
def test_many_seeds_run_in_orders_of_their_own(platform, name, seeds):
    device(platform)
    learner = jaxmkl.LEARNERS[name]()
    plan = plan_of(learner)
    for program in many_in_segments(seeds, learner, plan, platform):
        compiled(platform, *program)


@pytest.mark.accelerators
@pytest.mark.parametrize("platform", PLATFORMS)
def test_many_seeds_run_in_one_program(platform):
    device(platform)
    learner = jaxmkl.kernel_ogd()
    compiled(platform, *many_in_one_program(32, learner, plan_of(learner), MEMORY[platform]))


# each solver once; the compiler for GPUs takes up to half a minute
EACH = [f"{name} from features" for name in ("ted", "cted", "gmkal")]
EACH += [f"{name} from Gram matrices" for name in ("rrss", "lmkal")]


@pytest.mark.accelerators
@pytest.mark.parametrize("name", long(EACH, SOLVERS))
@pytest.mark.parametrize("platform", PLATFORMS)
def test_points_are_chosen(platform, name):
    device(platform)
    compiled(platform, *SOLVERS[name]())
