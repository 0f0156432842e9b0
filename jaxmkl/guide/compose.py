"""Compose in JAX: sweeps, gradients, optax on a learner, a network before it.

A learner is a pytree and its step a pure function, so all transformations of JAX apply. Inside a
transformation values are unknown: nothing is checked there, and bad examples are counted in the
state (``invalid``, ``nonfinite``).

## Many learners at once

Numbers are leaves. Map over those that differ, and a sweep is one program:

>>> import jax, jax.numpy as jnp, jaxmkl, numpy as np, optax
>>> X = np.random.default_rng(0).normal(size=(300, 3))
>>> y = np.sin(3 * X[:, 0])
>>> def loss(learner):
...     state = learner.init(jax.random.key(1), num_inputs=3)
...     return jaxmkl.run(learner, state, X, y)[1].loss.mean()
>>> def with_bandwidths(bandwidths):
...     return jaxmkl.raker(jaxmkl.Gaussian(bandwidths), num_features=20)
>>> sweep = jax.jit(jax.vmap(lambda b: loss(with_bandwidths(b))))
>>> sweep(jnp.array([[0.1, 0.2], [1.0, 2.0]])).shape            # two learners of two kernels
(2,)

Fields that change shapes or code (number of features, budget, names of losses) are static: make
another learner for each value. :func:`jaxmkl.run_many` runs many seeds or orders of one learner.

## A gradient through the stream, and optax

The gradient of the mean loss has the form of the learner, so any optimiser of optax works on the
learner itself. But an optimiser knows no limits, and could make a step size negative.
:func:`jaxmkl.pytree.unconstrain` therefore turns the numbers into logarithms and logits, which
have no limits, and :func:`jaxmkl.pytree.constrain` turns these into a learner again:

>>> step = jax.jit(jax.value_and_grad(lambda free: loss(jaxmkl.pytree.constrain(free))))
>>> free = start = jaxmkl.pytree.unconstrain(with_bandwidths([3.0, 4.0]))
>>> optimizer = optax.adam(0.2)
>>> memory, update = optimizer.init(free), jax.jit(optimizer.update)
>>> history = []
>>> for _ in range(10):
...     value, slope = step(free)
...     change, memory = update(slope, memory)
...     free = optax.apply_updates(free, change)
...     history.append(float(value))
>>> tuned = jaxmkl.pytree.constrain(free)
>>> history[-1] < history[0], bool(tuned.models[0].rules[0].step_sizes > 0)
(True, True)

A number at its limit stays there, such as a penalty of 0 or a forgetting factor of 1. If a number
leaves its range, ``state.nonfinite`` counts every round; outside of ``jit`` the learner is
refused. Discrete choices, such as which labels are asked for, have no derivatives.

Reverse mode stores intermediate values of every round. For a long stream, run pieces of it inside
``jax.checkpoint``. It keeps only the state at the start of each piece, and runs its rounds twice.

>>> def loss_by_pieces(free, rounds=100):
...     learner = jaxmkl.pytree.constrain(free)
...     @jax.checkpoint
...     def piece(state, examples):
...         state, outputs = jax.lax.scan(learner.step, state, examples)
...         return state, outputs.loss
...     state = learner.init(jax.random.key(1), num_inputs=3)
...     pieces = X.reshape(-1, rounds, 3), y.reshape(-1, rounds)
...     return jax.lax.scan(piece, state, pieces)[1].mean()
>>> slopes = step(start)[1], jax.jit(jax.grad(loss_by_pieces))(start)
>>> whole, by_pieces = (slope.models[0].kernels.bandwidth for slope in slopes)
>>> np.allclose(whole, by_pieces, rtol=1e-3)
True

The gradient through 10,000 rounds of ``raker``, with three kernels of 20 features, needs 16 to 26
MiB at once, depending on the version of JAX (``memory_analysis()`` of the compiled program). In
pieces of 100 rounds it needs .5 MiB, and .8 to 1.5 times as long. To tune a few numbers,
``jax.jvp`` needs no such memory. Learners whose supports grow (``kernel_ogd``, ``spa``, ...) have
derivatives only in reverse mode: a second one is ``jax.jacrev(jax.grad(loss))``, while
``jax.hessian`` asks for forward mode.

## A network before a learner

A network computes the inputs, the learner predicts from them, and both learn online. The gradient
of a round takes the learner's state for a constant. ``learner.loss_value`` is the loss:

>>> def network(weights, x):
...     return jnp.tanh(weights @ x)
>>> learner = jaxmkl.raker(jaxmkl.Gaussian([0.3, 1.0]), num_features=20)
>>> slow = optax.adam(0.003)
>>> def both(carry, example):
...     weights, memory, state = carry
...     x, y = example
...     def error(weights):
...         return learner.loss_value(learner.predict(state, network(weights, x)).value, y)
...     value, slope = jax.value_and_grad(error)(weights)
...     state = learner.update(state, network(weights, x), y)
...     change, memory = slow.update(slope, memory)
...     return (optax.apply_updates(weights, change), memory, state), value
>>> weights = jnp.eye(3)[:2]
>>> state = learner.init(jax.random.key(1), num_inputs=2)
>>> carry, losses = jax.lax.scan(both, (weights, slow.init(weights), state), (X, y))
>>> bool(losses[150:].mean() < losses[:150].mean())
True

The learner's inputs move while the network learns, so it should learn more slowly.

## What else fits

- For one example at a time, ``learner.predict`` and ``learner.update`` are compiled at the first
  call. Inside your own ``jit`` they are a part of your program. Outside, a state shares arrays
  that an update left as they were with the state before: donating one state deletes them for
  both.
- ``jax.lax.scan(learner.step, state, (X, y))`` is ``run`` without its blocks and checks; the
  docstring of :func:`jaxmkl.run` says by how much their numbers differ.
- A state has one dtype, such as ``learner.init(..., dtype=jnp.float64)`` if JAX has x64 enabled.
- :mod:`jaxmkl.guide.decisions` has bandits, with a learner for each arm.
- Inside a ``jit``, learners with supports cannot grow: make room by
  ``jaxmkl.abilities.enlarged(learner, state, capacity)``; ``learner.info(state).overflow`` counts
  lost examples.
- Learner and state fit into any checkpoint of pytrees; :func:`jaxmkl.save` also checks that they
  belong together.
"""
