"""Streams that change: what forgets, what follows, and how to see it.

Every learner here learns on for ever: there is nothing to retrain. How fast it follows a change is
decided by what it forgets.

## See it

The mean loss of a whole stream hides a change. Look at windows. Here the sign of the function
turns around after 1,000 rounds, and the learner is least squares, which weigh all the past alike:

>>> import jax, jax.numpy as jnp, jaxmkl
>>> from jaxmkl import aggregate, updates, wrappers
>>> X = jax.random.normal(jax.random.key(0), (2000, 2))
>>> sign = jnp.where(jnp.arange(2000) < 1000, 1.0, -1.0)
>>> y = sign * jnp.sin(2 * X[:, 0]) * X[:, 1]
>>> def windows(learner, size=250):
...     state = learner.init(jax.random.key(1), num_inputs=2)
...     return jaxmkl.run(learner, state, X, y)[1].loss.reshape(-1, size).mean(axis=1)
>>> kernels = jaxmkl.Gaussian([0.5, 1.0, 2.0])
>>> features = jaxmkl.features.FourierFeatures(30, scale="mean")
>>> def learner(rules, top):
...     return jaxmkl.MKL(jaxmkl.models.FeatureModels(kernels, rules, features), top)
>>> steady = windows(learner(updates.RLS(0.1), aggregate.Hedge()))
>>> steady.shape, bool(steady[4:].min() > 20 * steady[3])
((8,), True)

## The models forget

Recursive least squares forget if they are told to; a factor of .99 looks back some hundred rounds.
Gradient steps of a fixed size (:class:`jaxmkl.updates.OGD`) forget by themselves: the larger the
step, the faster, and the noisier. Supports on a budget forget what is evicted; without a budget
they grow, and forget nothing.

>>> forgetful = windows(learner(updates.RLS(0.1, forgetting=0.99), aggregate.Hedge()))
>>> bool(forgetful[-1] < steady[-1] / 2)
True

## The aggregate forgets

``Hedge`` remembers for ever which model was good. ``Mixture`` has several memories, from the whole
past to some hundred rounds, and learns which of them to believe. So give it models that are steady
and models that are quick, and it changes over:

>>> rules = updates.OGD((0.1, 0.5)), updates.RLS(0.1)
>>> hedge = windows(learner(rules, aggregate.Hedge()))
>>> mixture = windows(learner(rules, aggregate.Mixture()))
>>> bool(mixture[4] < hedge[4])                                 # the window after the change
True

The recipe :func:`jaxmkl.expert_mkl` has all of it: several step sizes, least squares with and
without forgetting, and a stack on a mixture of memories. That is why nothing detects a change
here, and nothing is reset: the part that is right after the change takes over. How fast to forget
is a matter of the stream; give several values, and let the mixture choose.

## Other things that change

- **The inputs' scale.** :class:`jaxmkl.wrappers.RunningMoments` follows a column whose scale has
  grown, and judges a value by what it knows before it believes it.
- **The target's level.** Where yesterday's label says something of today's, have the last labels
  among the inputs (:func:`jaxmkl.wrappers.lagged`): the learner becomes an autoregression.
- **The labels' delay.** A change is seen when labels come, so :func:`jaxmkl.wrappers.delayed`
  learners follow so many rounds later.

## How sure, meanwhile

After a change errors are larger. :func:`jaxmkl.wrappers.intervals` widens the ends of its
predictions until the share of labels between them is right again. It holds whatever the stream
does, as it counts what was missed:

>>> learner = wrappers.intervals(jaxmkl.raker(kernels), coverage=0.9)
>>> record = lambda output: (output.prediction, output.info.radius)
>>> state = learner.init(jax.random.key(1), num_inputs=2)
>>> state, (f, r) = jaxmkl.run(learner, state, X, y, record=record)
>>> bool(abs(jaxmkl.metrics.coverage(f - r, f + r, y) - 0.9) < 0.02)
True
>>> bool(r[1000:1250].mean() > r[750:1000].mean())              # wider after the change
True

## Start again

A state is a value: keep the one of before the season, and go on from it when the season comes
back. To forget everything, ``learner.init`` again; to forget the models and keep the scaler,
replace the part: ``state.replace(inner=learner.learner.init(key, num_inputs))``."""
