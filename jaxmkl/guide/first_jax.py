"""First ten minutes: composing in JAX.

A learner is a pytree of numbers, and its step is a pure function, which ``scan`` can run:

>>> import jax, jaxmkl, numpy as np
>>> X = np.random.default_rng(0).normal(size=(300, 2))
>>> y = np.sin(2 * X[:, 0])
>>> learner = jaxmkl.raker(jaxmkl.Gaussian([0.5, 1.0]), num_features=20)
>>> state = learner.init(jax.random.key(1), num_inputs=2)
>>> state, outputs = jax.lax.scan(learner.step, state, (X, y))      # predict, then learn
>>> outputs.prediction.shape, learner.predict(state, X[0]).value.shape
((300,), ())

:func:`jaxmkl.run` does the same faster, in blocks, and checks values. Everything composes:
``vmap`` over seeds or numbers of a learner, ``grad`` through the stream.

>>> def loss(learner, key):
...     state = learner.init(key, num_inputs=2)
...     return jax.lax.scan(learner.step, state, (X, y))[1].loss.mean()
>>> keys = jax.random.split(jax.random.key(2), 3)
>>> slopes = jax.jit(jax.vmap(jax.value_and_grad(loss), (None, 0)))
>>> losses, slope = slopes(learner, keys)                           # three draws of the features
>>> losses.shape, slope.models[0].rules[0].step_sizes.shape         # a learner of derivatives
((3,), (3,))

- **Updates one by one**: ``state = learner.update(state, x, label)``.
- **equinox** trains arrays only, and takes Python numbers for constants. Make arrays first,
  ``learner = jax.tree.map(jnp.asarray, learner)``; then ``eqx.filter_jit``, ``eqx.filter_grad``
  and a learner as a field of an ``eqx.Module`` work.
- **flax.nnx** keeps a state between calls. Write ``self.state = nnx.data(learner.init(key, D))``
  and ``self.learner = nnx.data(learner)`` in a module; a method under ``nnx.jit`` then learns by
  ``self.state = self.learner.update(self.state, x, y)``.

Next: :mod:`jaxmkl.guide.compose` (optax, a network before a learner), :mod:`jaxmkl.guide.extend`
(a kernel, a rule or a learner of your own), :mod:`jaxmkl.guide.many_devices`.
"""
