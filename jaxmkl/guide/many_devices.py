"""Many devices: seeds, fleets, shards of a stream, several processes, data from elsewhere.

One device is enough for most streams: a learner is small, and a stream is one example after the
other. More devices help where there are several streams, or several runs of one. Then each has a
part of the runs, and while these go on no device waits for another.

## Seeds over devices

A mesh names the devices. Each then plays a part of the runs, whatever their number:

>>> import jax, jax.numpy as jnp, jaxmkl
>>> mesh = jax.make_mesh((jax.device_count(),), ("runs",))
>>> X = jax.random.normal(jax.random.key(0), (200, 3))
>>> learner = jaxmkl.raker(jaxmkl.Gaussian([0.3, 1.0, 3.0]), num_features=20)
>>> keys = jax.random.split(jax.random.key(1), 5)
>>> states, outputs = jaxmkl.run_many(learner, keys, X, jnp.sin(X[:, 0]), mesh=mesh)
>>> outputs.loss.shape
(5, 200)

Where the devices divide the number of runs, results stay on the device that made them; else all
devices get all of them, once all are done.

## Fleets: one learner a customer

Ten thousand sensors, each with a stream and a learner of its own, advance in one call. How many
examples came in from each is its ``lengths``:

>>> keys = jax.random.split(jax.random.key(2), 1000)
>>> states = jax.vmap(lambda key: learner.init(key, num_inputs=3))(keys)
>>> X = jax.random.normal(jax.random.key(3), (1000, 10, 3))
>>> lengths = jax.random.randint(jax.random.key(4), (1000,), 0, 11)
>>> states, outputs = jaxmkl.run_fleet(learner, states, X, X[..., 0], lengths=lengths, mesh=mesh)
>>> bool((states.round == lengths).all())
True
>>> one = jax.tree.map(lambda leaf: leaf[17], states)           # an ordinary state
>>> prediction = learner.predict(one, jnp.zeros(3))

Hand the states in again when more has come in. A checkpoint has them all
(``jaxmkl.save(path, learner, states)``).

## One stream in shards

Least squares add up. Have four machines learn a quarter of the stream each, and
:func:`jaxmkl.merge` makes of them, to rounding, the model of one pass over all:

>>> bank = jaxmkl.models.FeatureModels(
...     jaxmkl.Gaussian(1.0), jaxmkl.updates.RLS(0.1), jaxmkl.features.FourierFeatures(10)
... )
>>> squares = jaxmkl.MKL(bank)
>>> state = squares.init(jax.random.key(5), num_inputs=3)       # features are shared
>>> shards = jax.tree.map(lambda leaf: jnp.stack([leaf] * 4), state)
>>> X = X[:, 0].reshape(4, 250, 3)
>>> shards, _ = jaxmkl.run_fleet(squares, shards, X, X[..., 0] ** 2)
>>> merged = jaxmkl.merge(squares, shards)
>>> int(merged.round)
1000

To merge now and then while the stream goes on, begin the next turn from the merged state, and
hand that in as ``start``: what it knew then counts once. Gradient steps, supports and memories
that forget depend on the order of examples, and are refused.

## Many kernels over devices

One learner whose arrays are too large for one device: share its models out by kernel. XLA does the
rest, and lets the devices exchange the models' values in every round: for memory, not for speed.

>>> from jax.sharding import NamedSharding, PartitionSpec
>>> P = learner.models[0].kernels.num_kernels                   # the devices have to divide it
>>> state, mesh = learner.init(jax.random.key(6), num_inputs=3), jax.make_mesh((1,), ("kernels",))
>>> def along_kernels(leaf):
...     before = (None,) * leaf.shape.index(P)
...     return jax.device_put(leaf, NamedSharding(mesh, PartitionSpec(*before, "kernels")))
>>> state = state.replace(models=jax.tree.map(along_kernels, state.models))
>>> state, outputs = jaxmkl.run(learner, state, X[0], X[0, :, 0])

## Several processes

On several machines JAX runs as several processes, of which each executes the same program and owns
its devices; :func:`jax.distributed.initialize` makes them know each other, and ``jax.devices()``
then lists the devices of all. Nothing of that is ours: a mesh over all of them is a mesh. Each
process hands in the same arguments. What comes back may lie on devices of others:
``process_allgather`` of JAX brings it home. This program is one that the tests run.

```python
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import NamedSharding, PartitionSpec

import jaxmkl

if len(sys.argv) > 1:  # by hand: ADDRESS:PORT of the first process, their number, one's own
    address, number, rank = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    jax.distributed.initialize(address, number, rank)
else:  # SLURM, Open MPI, Kubernetes, Cloud TPU: found by itself
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

# points worth labelling, of a pool of which each process has a part
pool = draws.normal(size=(40, 4)).astype(np.float32)
part = np.split(pool, jax.process_count())[jax.process_index()]
pool = jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("runs")), part)
chosen = jaxmkl.design.cted(features=pool, num_points=10, regularization=0.1)

# the merged model each has to itself
spread = seeds.loss, fleet.loss, later.loss, chosen.ranking
found = process_allgather(spread, tiled=True)
if jax.process_index() == 0:
    np.savez("found.npz", *found, merged.value)
```

By hand, on each machine, with the address of the first:

    python program.py 10.0.0.1:1234 2 0         and on the other        ... 10.0.0.1:1234 2 1

Under SLURM, one task a machine (or a device):

    srun --nodes=2 --ntasks-per-node=1 --gpus-per-task=1 python program.py

With Ray an actor is a process, and ``play`` the program above without its first lines:

    @ray.remote(num_gpus=1)
    class Process:
        def address(self):
            return ray.util.get_node_ip_address() + ":1234"
        def play(self, *coordinates):
            jax.distributed.initialize(*coordinates)
            play()
    processes = [Process.remote() for _ in range(2)]
    address = ray.get(processes[0].address.remote())
    ray.get([p.play.remote(address, 2, rank) for rank, p in enumerate(processes)])

Streams that do not meet need none of this: start a process for each part of the customers, and
have each save its own file.

## Chunks from elsewhere

:func:`jaxmkl.stream` takes pairs of arrays from anywhere, so a source is a generator. Of an Arrow
dataset, a folder of Parquet files larger than memory, say:

>>> import numpy as np, pyarrow as pa, pyarrow.dataset, pyarrow.parquet, tempfile
>>> folder, draws = tempfile.mkdtemp(), np.random.default_rng(0)
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
