"""Compose in JAX: sweeps, gradients, optax on a learner, a network under it, bandits.

A learner is a pytree and its step a pure function. So whatever JAX does with functions and trees
it does with learners. Inside a transformation values cannot be looked at: nothing is checked
there, and what is wrong with an example is counted in the state (``invalid``, ``nonfinite``).

## Many learners at once

Numbers are leaves. Map over those that differ, and the sweep is one program:

>>> import jax, jax.numpy as jnp, jaxmkl, optax
>>> X = jax.random.normal(jax.random.key(0), (300, 3))
>>> y = jnp.sin(3 * X[:, 0])
>>> def loss(learner):
...     state = learner.init(jax.random.key(1), num_inputs=3)
...     return jaxmkl.run(learner, state, X, y)[1].loss.mean()
>>> def with_bandwidths(bandwidths):
...     return jaxmkl.raker(jaxmkl.Gaussian(bandwidths), num_features=20)
>>> sweep = jax.jit(jax.vmap(lambda b: loss(with_bandwidths(b))))
>>> sweep(jnp.array([[0.1, 0.2], [1.0, 2.0]])).shape            # two learners of two kernels
(2,)

What changes shapes or code (number of features, budget, names of losses) is static: make another
learner. Many seeds or orders of one learner: :func:`jaxmkl.run_many`.

## A gradient through the stream, and optax

The derivative of the mean loss by every number of a learner has the learner's own form, so any
optimiser of optax runs on the learner itself. It knows no limits, and would soon make a step size
negative. So it works on the learner that :func:`jaxmkl.pytree.unconstrain` has freed of them, by
logarithms and logits, and :func:`jaxmkl.pytree.constrain` makes the learner to be played:

>>> step = jax.jit(jax.value_and_grad(lambda free: loss(jaxmkl.pytree.constrain(free))))
>>> free = jaxmkl.pytree.unconstrain(with_bandwidths([3.0, 4.0]))
>>> optimizer = optax.adam(0.2)
>>> memory = optimizer.init(free)
>>> history = []
>>> for _ in range(10):
...     value, slope = step(free)
...     change, memory = optimizer.update(slope, memory)
...     free = optax.apply_updates(free, change)
...     history.append(float(value))
>>> tuned = jaxmkl.pytree.constrain(free)
>>> history[-1] < history[0], bool(tuned.models[0].rules[0].step_sizes > 0)
(True, True)

What is at its limit stays there: a penalty of 0, a forgetting factor of 1. A number that does get
out of its range counts every round in ``state.nonfinite``; outside of ``jit`` it is refused.
Derivatives do not see what is drawn or compared, as which labels are asked for.

Reverse mode keeps what every round needs. For long streams differentiate pieces (carry the state
from one to the next), or wrap the piece in ``jax.checkpoint``. With few numbers to tune,
``jax.jvp`` needs no such memory.

## A network under a learner

A network makes the inputs, the learner predicts from them, and both learn online. The learner's
state is a constant to the gradient of this round; ``loss_value`` is its loss:

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

What the kernels see moves while the network learns: let it learn more slowly than the learner.

## Bandits

One learner for each arm is one learner with a leading axis in its state. All arms predict, one is
played, and it alone learns. Tell the others by ``where``, which costs no copy inside a scan:

>>> arms = 3
>>> def play(states, inputs):
...     x, key = inputs
...     values = jax.vmap(learner.predict, (0, None))(states, x).value
...     by_chance, which = jax.random.bernoulli(key, 0.1), jax.random.randint(key, (), 0, arms)
...     arm = jnp.where(by_chance, which, values.argmax())
...     reward = jnp.cos(x[0] - 2 * arm)                        # the world's answer
...     taught = jax.vmap(learner.update, (0, None, None))(states, x, reward)
...     def chosen(new, old):
...         return jax.vmap(jnp.where)(jnp.arange(arms) == arm, new, old)
...     return jax.tree.map(chosen, taught, states), reward
>>> keys = jax.random.split(jax.random.key(2), 300)
>>> states = jax.vmap(lambda key: learner.init(key, num_inputs=3))(keys[:arms])
>>> states, rewards = jax.lax.scan(play, states, (X, keys))
>>> bool(rewards[150:].mean() > rewards[:50].mean())
True

## What else fits

- ``jax.jit(learner.predict)`` and ``jax.jit(learner.update)`` for one example at a time: without
  ``jit`` every call is traced anew.
- ``jax.lax.scan(learner.step, state, (X, y))`` is all of ``run`` but its blocks and checks.
- Precision: a state has one dtype, ``learner.init(..., dtype=jnp.float64)`` where JAX has it on.
- Learners with supports keep the room they have inside a ``jit``: make it with
  ``learner.enlarged(state, capacity)``; what found none is ``learner.info(state).overflow``.
- Learner and state go into any checkpoint of pytrees; :func:`jaxmkl.save` also checks that they
  fit when they come back.
"""
