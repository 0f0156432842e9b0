"""Many devices: seeds, fleets, shards of a stream, several processes, data from elsewhere.

One device is enough for most streams: a learner is small, and examples are learned one after the
other. More devices help with several streams, or several runs of one. Each device then gets a part
of the runs, and no device waits for another until they are done.

## Seeds over devices

A mesh names the devices. Each device executes a part of the runs, and there may be any number of
runs:

>>> import jax, jax.numpy as jnp, jaxmkl, numpy as np
>>> mesh = jax.make_mesh((jax.device_count(),), ("runs",))
>>> draws = np.random.default_rng(0)
>>> X = draws.normal(size=(200, 3))
>>> learner = jaxmkl.raker(jaxmkl.Gaussian([0.3, 1.0, 3.0]), num_features=20)
>>> keys = jax.random.split(jax.random.key(1), 5)
>>> states, outputs = jaxmkl.run_many(learner, keys, X, np.sin(X[:, 0]), mesh=mesh)
>>> outputs.loss.shape
(5, 200)

If the number of devices divides the number of runs, results stay on the devices that computed
them; otherwise all devices get all results at the end.

In a program of your own, take automatic axes; for explicit ones, which ``make_mesh`` makes by
default, JAX refuses much inside ``vmap``. Pass ``check_vma=False`` to ``jax.shard_map``, because a
state begins with counters that are the same on all devices, and JAX would want them to stay so.

>>> from jax.sharding import AxisType, NamedSharding, PartitionSpec
>>> def losses(key):
...     state = learner.init(key, num_inputs=3)
...     return jax.lax.scan(learner.step, state, (X, np.sin(X[:, 0])))[1].loss
>>> here = jax.make_mesh((jax.device_count(),), ("runs",), axis_types=(AxisType.Auto,))
>>> runs = PartitionSpec("runs")
>>> shared = jax.jit(jax.shard_map(
...     jax.vmap(losses), mesh=here, in_specs=runs, out_specs=runs, check_vma=False
... ))
>>> shared(jax.random.split(jax.random.key(1), jax.device_count())).shape[1]
200

## Fleets: one learner per customer

Thousands of sensors, each with its own stream and learner, advance in one call. ``lengths`` holds
the number of examples of each. Here are eight of them, whose learners are least squares:

>>> bank = jaxmkl.models.FeatureModels(
...     jaxmkl.Gaussian(1.0), jaxmkl.updates.RLS(0.1), jaxmkl.features.FourierFeatures(10)
... )
>>> squares, keys = jaxmkl.MKL(bank), jax.random.split(jax.random.key(2), 8)
>>> states = jax.jit(jax.vmap(lambda key: squares.init(key, num_inputs=3)))(keys)
>>> X, lengths = draws.normal(size=(8, 125, 3)), draws.integers(126, size=8)
>>> states, outputs = jaxmkl.run_fleet(squares, states, X, X[..., 0], lengths=lengths, mesh=mesh)
>>> bool((np.asarray(states.round) == lengths).all())
True
>>> one = jax.jit(lambda states: jax.tree.map(lambda leaf: leaf[5], states))(states)
>>> prediction = squares.predict(one, np.zeros(3))              # of an ordinary state

Pass the states in again with the next examples. One checkpoint holds all of them
(``jaxmkl.save(path, learner, states)``).

## One stream in shards

The sums behind least squares add up. Let eight machines learn an eighth of the stream each, and
:func:`jaxmkl.merge` computes, to rounding, the model of one pass over the whole stream:

>>> state = squares.init(jax.random.key(5), num_inputs=3)       # features are shared
>>> alike = jax.jit(lambda state: jax.tree.map(lambda leaf: jnp.stack([leaf] * 8), state))
>>> shards, _ = jaxmkl.run_fleet(squares, alike(state), X, X[..., 0] ** 2, mesh=mesh)
>>> merged = jaxmkl.merge(squares, shards)
>>> int(merged.round)
1000

To merge repeatedly while the stream continues, start the next part from the merged state, and pass
it as ``start``, so that it counts only once. Learned metrics and forests are learned anew, from a
uniform sample of what the shards' memories hold; there nothing may have been learned before the
start. Gradient steps, supports and forgetting depend on the order of examples, and are refused.

## Many kernels over devices

If the arrays of one learner are too large for one device, distribute its models by kernel. XLA
does the rest. Devices exchange values in every round, so this saves memory, but no time.

>>> P = learner.models[0].kernels.num_kernels             # the number of devices divides it
>>> state, mesh = learner.init(jax.random.key(6), num_inputs=3), jax.make_mesh((1,), ("kernels",))
>>> def along_kernels(leaf):
...     before = (None,) * leaf.shape.index(P)
...     return jax.device_put(leaf, NamedSharding(mesh, PartitionSpec(*before, "kernels")))
>>> state = state.replace(models=jax.tree.map(along_kernels, state.models))
>>> state, outputs = jaxmkl.run(learner, state, X[0], X[0, :, 0])

## GPUs and TPUs

Everything here runs where the arrays are: on a GPU or TPU, if JAX has one. There the time of a
round is that of launching its kernels, about 1.5 µs each, and not that of their arithmetic. So one
stream is about as fast as on a CPU, and many runs or streams side by side take hardly longer than
one. These are microseconds per example and seed, on an H200 and on eight cores of the processor
beside it, with JAX 0.11.2, 20 inputs and an order of its own for each seed:

    seeds                     1      32   1,024
    raker                   5.5    0.17   0.018
    raker, on the CPU       6.4     3.3     3.1
    spa                      12           0.072
    spa, on the CPU          17     7.2     6.9
    expert_mkl, fixed        34     1.4    0.28
    oks_sil                  40     1.5   0.062

Results are those of a CPU up to rounding: every recipe was compared there, in double precision.
Other differences:

- A turn of the loop over rounds has up to eight rounds, which the compiler fuses into fewer
  kernels, so a run may round differently than on a CPU. An H100 launches 4 kernels per round of
  ``raker``, 10.5 of ``spa``, 13.75 of ``multitask``, 20 of ``oks_sil``, 26.5 of
  ``expert_mkl(banks="fixed")`` and 31 of the default.
- The table above is older. Whole calls of :func:`jaxmkl.run` on 2,048 to 8,192 examples now take
  7.0 µs per example with ``raker``, 14 with ``amkl_aks``, 17 with ``spa``, 27 with ``multitask``,
  41 with ``oks_sil`` and 43 with ``expert_mkl(banks="fixed")``. The default took 128 µs over its
  first 4,096 examples and 98 over 8,192, of which 54 were rounds and the rest renewals, when its
  learned kernels had 72 features and not 120.
- Runs of :func:`jaxmkl.run_many` or :func:`jaxmkl.run_fleet` advance side by side as long as their
  states and the codes of a block take at most an eighth of the device's memory. The others follow
  in turn.
- All matrix products are in full precision, without TF32 and bfloat16.
- Examples that lie on the device stay there. A call waits for the device once, at its end. Only
  then are bad values refused and warnings given.
- Compilation takes longer than on a CPU: 6 to 10 s for ``raker``, some 10 s each for ``spa``,
  ``oks_sil`` and ``expert_mkl(banks="fixed")``. 32 seeds of ``omkc_dd`` and of ``multitask`` took
  10 s, but 1,024 were not compiled after two minutes. An untried remedy is
  ``XLA_FLAGS=--xla_gpu_experimental_enable_fusion_autotuner=false``, as XLA was tuning fusions.
- ``XLA_FLAGS=--xla_gpu_enable_command_buffer=+WHILE,+CONDITIONAL``, which makes one CUDA graph of
  a stream, gains little: 6.5 µs instead of 5.9 for ``raker``, 10.9 instead of 11.8 for ``spa``.

On any device, ``python -m experiments bench --device`` shows for 1, 32 and 1,024 seeds the time
per example and seed, the kernels that a round launches, and the memory that the program needs. If
a round takes much longer than the launches, the device is busy computing or moving data.

The tests compile every recipe and every solver of :mod:`jaxmkl.design` for an H100 and for a
TPU v5e, and count the kernels of a round. They need no such device, only the compilers:

    pip install -e ".[accelerators]"
    export JAX_PLATFORMS=cpu
    pytest -n 2 --dist=load -m "accelerators and not endless" tests/core/test_accelerators.py

With ``-m accelerators`` they compile the largest programs too, which take minutes each. On a
machine with a device ``pytest -m device tests/core/test_device.py`` compares it with the CPU:
every recipe in both precisions, continued runs and runs side by side, and solvers.

## Several processes

On several machines JAX runs as several processes, each of which executes the same program and owns
its devices; :func:`jax.distributed.initialize` connects them, and ``jax.devices()`` then lists all
devices. All this is part of JAX, and a mesh over all devices is an ordinary mesh. Each process
passes the same arguments. Results may lie on devices of other processes; JAX's
``process_allgather`` collects them. The tests run this program:

```python
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import NamedSharding, PartitionSpec

import jaxmkl

if len(sys.argv) > 1:  # by hand: ADDRESS:PORT of the first process, their number, this one's
    address, number, rank = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    jax.distributed.initialize(address, number, rank)
else:  # SLURM, Open MPI, Kubernetes, Cloud TPU: detected by JAX
    jax.distributed.initialize()
mesh = jax.make_mesh((jax.device_count(),), ("runs",))

# the same in each process
draws, key = np.random.default_rng(0), jax.random.key(0)
X = draws.normal(size=(6, 50, 3)).astype(np.float32)
y = np.sin(X[..., 0])
kernels = jaxmkl.Gaussian([0.5, 2.0])

# seeds
learner = jaxmkl.raker(kernels, num_features=10)
keys = jax.random.split(key, 5)
_, seeds = jaxmkl.run_many(learner, keys, X[0], y[0], mesh=mesh)

# a fleet, saved by all and loaded by all
states = jax.vmap(lambda key: learner.init(key, num_inputs=3))(jax.random.split(key, 6))
states, fleet = jaxmkl.run_fleet(learner, states, X, y, mesh=mesh)
jaxmkl.save("fleet.npz", learner, states)
learner, states = jaxmkl.load("fleet.npz")
_, later = jaxmkl.run_fleet(learner, states, X, y, mesh=mesh)

# shards of a stream, merged
features = jaxmkl.features.FourierFeatures(10)
squares = jaxmkl.MKL(jaxmkl.models.FeatureModels(kernels, jaxmkl.updates.RLS(0.1), features))
state = squares.init(key, num_inputs=3)
shards = jax.tree.map(lambda leaf: jnp.stack([leaf] * 6), state)
shards, _ = jaxmkl.run_fleet(squares, shards, X, y, mesh=mesh)
merged = squares.predict_many(jaxmkl.merge(squares, shards), X[0])

# points worth labelling, from a pool of which each process has a part
pool = draws.normal(size=(40, 4)).astype(np.float32)
part = np.split(pool, jax.process_count())[jax.process_index()]
pool = jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("runs")), part)
chosen = jaxmkl.design.cted(features=pool, num_points=10, regularization=0.1)

# every process has the merged model
spread = seeds.loss, fleet.loss, later.loss, chosen.ranking
found = process_allgather(spread, tiled=True)
if jax.process_index() == 0:
    np.savez("found.npz", *found, merged.value)
```

By hand, start it on each machine, with the address of the first:

    python program.py 10.0.0.1:1234 2 0         and on the other        ... 10.0.0.1:1234 2 1

Under SLURM, start one task for each machine (or device):

    srun --nodes=2 --ntasks-per-node=1 --gpus-per-task=1 python program.py

With Ray an actor is a process; ``program`` is the program above without its first lines:

    @ray.remote(num_gpus=1)
    class Process:
        def address(self):
            return ray.util.get_node_ip_address() + ":1234"
        def execute(self, *coordinates):
            jax.distributed.initialize(*coordinates)
            program()
    processes = [Process.remote() for _ in range(2)]
    address = ray.get(processes[0].address.remote())
    ray.get([p.execute.remote(address, 2, rank) for rank, p in enumerate(processes)])

Independent streams need none of this: start a process for each part of them, and let each save its
own file.

## Chunks from elsewhere

:func:`jaxmkl.stream` takes pairs of arrays from any iterator, so a source is a generator. This one
reads an Arrow dataset, which may be a folder of Parquet files larger than memory:

>>> import pyarrow as pa, pyarrow.dataset, pyarrow.parquet, tempfile
>>> folder = tempfile.mkdtemp()
>>> for part in "ab":
...     columns = {name: draws.normal(size=300) for name in ("x1", "x2", "target")}
...     pa.parquet.write_table(pa.table(columns), f"{folder}/{part}.parquet")
>>> def chunks(dataset, inputs, target, size=256):
...     for batch in dataset.to_batches(columns=[*inputs, target], batch_size=size):
...         columns = [batch[name].to_numpy(zero_copy_only=False) for name in inputs]
...         yield np.column_stack(columns), batch[target].to_numpy(zero_copy_only=False)
>>> source = chunks(pa.dataset.dataset(folder), ["x1", "x2"], "target")
>>> state = learner.init(jax.random.key(7), num_inputs=2)
>>> for state, outputs in jaxmkl.stream(learner, state, source):
...     pass
>>> int(state.round)
600

Ray Data gives dictionaries of arrays:

    def chunks(dataset, inputs, target, size=4096):
        for batch in dataset.iter_batches(batch_size=size, batch_format="numpy"):
            yield np.column_stack([batch[name] for name in inputs]), batch[target]
"""
