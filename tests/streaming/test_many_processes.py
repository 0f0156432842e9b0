"""Several processes give what one gives: the program of the guide, and what may go wrong."""

import os
import pathlib
import re
import socket
import subprocess
import sys

import numpy as np
import pytest

import jaxmkl
from jaxmkl.guide import many_devices


def free_port():
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


def outcome(program, folder, number):
    """Run a program in so many processes that know each other; what they print."""
    folder.mkdir()
    (folder / "program.py").write_text(program)
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "XLA_FLAGS": "",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    address = f"localhost:{free_port()}"
    processes = [
        subprocess.Popen(
            [sys.executable, "program.py", address, str(number), str(rank)],
            cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for rank in range(number)
    ]  # fmt: skip
    try:
        said = [process.communicate(timeout=240) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, said, strict=True):
        assert process.returncode == 0, errors[-3000:]
    return [out for out, _ in said]


def program_of_the_guide():
    (program,) = re.findall(r"```python\n(.*?)```", many_devices.__doc__, re.S)
    return program


@pytest.mark.endless
def test_two_processes_give_what_one_gives(tmp_path):
    """Seeds, a fleet that is saved and loaded, merged shards, a pool of two parts."""
    found = []
    for number in (1, 2):
        outcome(program_of_the_guide(), tmp_path / str(number), number)
        with np.load(tmp_path / str(number) / "found.npz") as arrays:
            found.append(dict(arrays))
    one, two = found
    assert [array.shape for array in one.values()] == [(5, 50), (6, 50), (6, 50), (10,), (50,)]
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_allclose(two[name], one[name], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(two["arr_3"], one["arr_3"])  # the ranking
    states = [jaxmkl.load(tmp_path / str(number) / "fleet.npz")[1] for number in (1, 2)]
    assert [state.round.tolist() for state in states] == [[50] * 6] * 2
    assert not list(pathlib.Path(tmp_path).rglob("*.partial"))


POOLS = """
import sys, jax, numpy as np
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import NamedSharding, PartitionSpec
from jaxmkl import design

jax.distributed.initialize(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
mesh = jax.make_mesh((jax.device_count(),), ("pool",))
pool = np.random.default_rng(0).normal(size=(2, 40, 4)).astype(np.float32)
for name in ("ted", "rrss", "gmkal", "lmkal"):
    several = name in ("gmkal", "lmkal")
    spec = PartitionSpec(None, "pool") if several else PartitionSpec("pool")
    given = pool if several else pool[0]
    part = np.split(given, jax.process_count(), axis=several)[jax.process_index()]
    features = jax.make_array_from_process_local_data(NamedSharding(mesh, spec), part)
    options = {"num_points": 8} if name == "ted" else {"max_iterations": 30}
    found = getattr(design, name)(features=features, regularization=0.3, **options)
    ranking, number = process_allgather((found.ranking, found.num_active), tiled=True)
    print(name, ranking[:min(5, int(number))].tolist())
"""


@pytest.mark.endless
def test_pools_in_parts_give_the_ranking_of_one(tmp_path):
    (one,) = outcome(POOLS, tmp_path / "1", 1)
    two = outcome(POOLS, tmp_path / "2", 2)
    rankings = [line for line in one.splitlines() if line.endswith("]")][-4:]
    assert [line.split()[0] for line in rankings] == ["ted", "rrss", "gmkal", "lmkal"]
    for out in two:
        assert out.splitlines()[-4:] == rankings


FAILING = """
import sys, jax, jaxmkl
jax.distributed.initialize(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
mesh = jax.make_mesh((2,), ("runs",))
learner = jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=3)
X = jax.numpy.linspace(0, 1, 20)[:, None]
states, _ = jaxmkl.run_many(learner, jax.random.split(jax.random.key(0), 2), X, X[:, 0], mesh=mesh)
try:
    jaxmkl.save("no/such/folder.npz", learner, states)
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.endless
def test_a_save_that_fails_fails_everywhere(tmp_path):
    """No process waits for ever for one that could not write."""
    said = [out.splitlines()[-1] for out in outcome(FAILING, tmp_path / "it", 2)]
    assert said == ["FileNotFoundError", "OSError"]
