"""Runs, fleets and kernels shared out among eight devices: the same as on one.

In processes of their own, where JAX starts with eight devices.
"""

import os
import subprocess
import sys
import textwrap

import jax
import numpy as np
import pytest

import jaxmkl
from tests.common.trees import assert_close

BEGIN = """
import jax, jaxmkl, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jaxmkl.streaming import _spread
from tests.common.trees import assert_close, everything

assert jax.device_count() == 8
mesh = jax.make_mesh((4, 2), ("a", "b"))  # of Explicit axes, by default
kernels = jaxmkl.Gaussian((0.5, 2.0))
raker, growing = jaxmkl.raker(kernels, num_features=4), jaxmkl.perceptron(jaxmkl.Gaussian(0.5))
draws, keys = np.random.default_rng(0), jax.random.split(jax.random.key(1), 30)
compiled = []

def watched(program, sharding, *given, of=_spread.distributed):
    def call(*given, sharding):
        if sharding is not None:
            lowered = program.func.lower(*given, **program.keywords, sharding=sharding)
            made = lowered.compile()
            compiled.append(made.as_text())
            return made(*given)
        return program(*given, sharding=sharding)
    return of(call, sharding, *given)

_spread.distributed = watched

def not_a_word(number):
    assert len(compiled) == number, len(compiled)
    for text in compiled:
        for collective in ("all-reduce", "all-gather", "all-to-all", "collective-"):
            assert collective not in text, collective
"""

SEEDS = """
from jaxmkl._devices import device_of
here, there, *_ = jax.devices()
assert device_of(keys) == here and device_of((keys, jax.device_put(1.0, there))) == there
with jax.default_device(there):
    assert device_of(keys) == there
everywhere = jax.device_put(keys[:16], NamedSharding(mesh, PartitionSpec(("a", "b"))))
for given, bounded in (keys, True), (everywhere, False):
    assert (_spread.room_for(given, None) is not None) == bounded
assert _spread.room_for(everywhere, everywhere.sharding) == _spread.room_for(keys, None)
X = draws.normal(size=(25, 2)).astype(np.float32)
# with supports the number of turns of a loop is data
alone, shared = (
    jaxmkl.run_many(growing, keys, X, X[:, 0] * X[:, 1] > 0, block_size=8, mesh=m)
    for m in (None, mesh)
)
assert shared[1].loss.shape == (30, 25)
assert_close(shared, alone)
alone = jaxmkl.run_many(raker, keys[:16], X, X[:, 0], block_size=8)
mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
with jax.set_mesh(mesh):  # keys that lie on several devices already
    placed = jax.device_put(keys[:16], PartitionSpec(("a", "b")))
    shared = jaxmkl.run_many(raker, placed, X, X[:, 0], block_size=8)
everywhere = jax.device_put(X, NamedSharding(mesh, PartitionSpec()))
again = jaxmkl.run_many(raker, placed, everywhere, everywhere[:, 0], block_size=8)
for found in (shared, again):
    assert found[1].loss.addressable_shards[0].data.shape == (2, 25)
    assert_close(found, alone)
not_a_word(3)
"""

FLEET = """
X = draws.normal(size=(30, 20, 2)).astype(np.float32)
lengths = np.arange(30) % 21
y, ends = X[..., 0] * X[..., 1] > 0, []
begin = jax.jit(jax.vmap(lambda key: growing.init(key, 2)))
for m in (None, mesh):
    states = begin(keys)
    for _ in range(2):
        states, outputs = jaxmkl.run_fleet(
            growing, states, X, y, lengths=lengths, mesh=m, block_size=8
        )
    ends.append((states, outputs))
assert_close(*ends)
states = jax.tree.map(lambda leaf: leaf[:16], states)
for given in (states, None):
    if given is None:  # by now they lie on eight devices
        given = states
        states, _ = jaxmkl.run_fleet(growing, given, X[:16], y[:16], block_size=8)
    else:
        states, _ = jaxmkl.run_fleet(growing, given, X[:16], y[:16], block_size=8, mesh=mesh)
    assert len(states.round.sharding.device_set) == 8
    assert states.round.addressable_shards[0].data.shape == (2,)
not_a_word(4)
"""

KERNELS = """
X = draws.normal(size=(70, 3)).astype(np.float32)
P = 16
many = jaxmkl.Gaussian(np.geomspace(0.1, 10, P).astype(np.float32))
options = {"num_features": 5, "hedge_rate": 1.0, "step_sizes": (0.1, 0.5)}

def along_kernels(leaf, mesh):
    before = (None,) * leaf.shape.index(P)
    return jax.device_put(leaf, NamedSharding(mesh, PartitionSpec(*before, "kernels")))

for learner in (jaxmkl.raker(many, num_features=5), jaxmkl.expert_mkl(many, **options)):
    state = learner.init(jax.random.key(0), num_inputs=3)
    alone = jaxmkl.run(learner, state, X, X[:, 0])
    for axis_type in AxisType.Auto, AxisType.Explicit:
        mesh = jax.make_mesh((8,), ("kernels",), axis_types=(axis_type,))
        models = jax.tree.map(lambda leaf: along_kernels(leaf, mesh), state.models)
        shared = jaxmkl.run(learner, state.replace(models=models), X, X[:, 0])
        assert_close(shared, alone, tolerance=1e-3)
        for leaf in jax.tree.leaves(shared[0].models):
            assert leaf.addressable_shards[0].data.size * 8 == leaf.size, leaf.shape
"""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(SEEDS, id="seeds", marks=pytest.mark.slow),
        pytest.param(FLEET, id="fleet", marks=pytest.mark.endless),
        pytest.param(KERNELS, id="kernels", marks=pytest.mark.endless),
    ],
)
def test_on_eight_devices(script):
    """Equal to what one device does, for any type of axis, and in a fleet without a collective."""
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    process = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(script) + "print('the same')"],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert process.stdout == "the same\n", process.stderr[-3000:]


@pytest.mark.slow
def test_amid_explicit_axes():
    """Where ``jax.set_mesh`` has explicit axes, drivers take and return arrays of its mesh."""
    learner, keys = jaxmkl.raker(num_features=4), jax.random.split(jax.random.key(1), 2)
    X = np.random.default_rng(0).normal(size=(25, 2)).astype(np.float32)

    def all_of_them(mesh):
        states = jax.vmap(lambda key: learner.init(key, num_inputs=2))(keys)
        one = jax.tree.map(lambda leaf: leaf[0], states)
        yield jaxmkl.run(learner, one, X, X[:, 0])[1].loss
        yield jaxmkl.run_many(learner, keys, X, X[:, 0], mesh=mesh)[1].loss
        several = np.stack([X, X])
        fleet = jaxmkl.run_fleet(learner, states, several, several[..., 0], mesh=mesh)
        yield fleet[1].loss

    alone = list(all_of_them(None))
    mesh = jax.make_mesh((1,), ("runs",))
    with jax.set_mesh(mesh):
        for found, wanted in zip(all_of_them(mesh), alone, strict=True):
            # JAX takes no array of another mesh there
            assert_close(jax.tree.map(lambda leaf: leaf * 1, found), wanted)
