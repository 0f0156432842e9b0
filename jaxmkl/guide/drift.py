"""Streams that change: the parts that forget, how fast they adapt, and how to see it.

Every learner here continues to learn, so nothing is ever retrained. How fast it follows a change
depends on how it forgets.

## See it

The mean loss of a whole stream hides a change, so look at windows. Here the sign of the function
flips after 1,250 rounds, and the learner is least squares, which weigh the whole past equally:

>>> import jax, jaxmkl, numpy as np
>>> from jaxmkl import aggregate, updates, wrappers
>>> X = np.random.default_rng(0).normal(size=(2000, 2))
>>> y = np.repeat([1.0, -1.0], [1250, 750]) * np.sin(2 * X[:, 0]) * X[:, 1]
>>> def windows(learner, size=250):
...     state = learner.init(jax.random.key(1), num_inputs=2)
...     _, outputs = jaxmkl.run(learner, state, X, y)
...     return np.asarray(outputs.loss).reshape(-1, size).mean(axis=1)
>>> kernels = jaxmkl.Gaussian([0.5, 1.0, 2.0])
>>> features = jaxmkl.features.FourierFeatures(30, scale="mean")
>>> def learner(rules, top):
...     return jaxmkl.MKL(jaxmkl.models.FeatureModels(kernels, rules, features), top)
>>> steady = windows(learner(updates.RLS(0.1), aggregate.Hedge()))
>>> steady.shape, bool(steady[5:].min() > 20 * steady[4])
((8,), True)

## The models forget

Recursive least squares forget by a factor; .99 looks back about a hundred rounds. Gradient steps
of a fixed size (:class:`jaxmkl.updates.OGD`) always forget: the larger the step, the faster, but
the noisier. Models with supports on a budget forget what they evict; without a budget they grow,
and forget nothing.

>>> forgetful = windows(learner(updates.RLS(0.1, forgetting=0.99), aggregate.Hedge()))
>>> bool(forgetful[-1] < steady[-1] / 2)
True

## The aggregate forgets

``Hedge`` never forgets which model was good. ``Mixture`` has several memories, from the whole past
to about a hundred rounds, and learns how to weigh them. So give it both slow and fast models, and
it switches between them:

>>> rules = updates.OGD((0.1, 0.5)), updates.RLS(0.1)
>>> hedge = windows(learner(rules, aggregate.Hedge()))
>>> mixture = learner(rules, aggregate.Mixture())
>>> state = mixture.init(jax.random.key(1), num_inputs=2)
>>> def seen(output):
...     return output.loss, output.info.shares.memories        # of 1, .999 and .99
>>> _, (losses, shares) = jaxmkl.run(mixture, state, X, y, record=seen)
>>> bool(losses[1250:1500].mean() < hedge[5])                   # the window after the change
True

``info`` says which memories and regressions carry the prediction, over time where a run records
it as above. After a change short memories do, and ``jaxmkl info`` shows what holds in the end:

>>> shares.shape, bool(shares[1300, 0] < shares[1200, 0])
((2000, 3), True)

The recipe :func:`jaxmkl.expert_mkl` combines all of this: several step sizes, least squares with
and without forgetting, and a stack on a mixture of memories. So there is no detection of changes
and no reset: the models that fit after a change take over. How fast to forget depends on the
stream; provide several values, and let the mixture choose. The page of ``jaxmkl run --report``
draws the weights of memories, stacks and banks over the rows, and ``jaxmkl info`` prints the last
ones.

## Other things that change

- **The scale of inputs.** :class:`jaxmkl.wrappers.RunningMoments` follows a column whose scale
  grows, and clips outliers.
- **The level of the target.** The stack of :func:`jaxmkl.expert_mkl` has the last three labels and
  errors as inputs, which costs next to nothing where labels are independent. If older ones help to
  predict the next label, as in a season, or the learner is another one, add them to the inputs
  (:func:`jaxmkl.wrappers.lagged`): the learner becomes an autoregression.
- **Late labels.** A change shows when labels arrive, so :func:`jaxmkl.wrappers.delayed` learners
  follow it that many rounds later.

## Uncertainty after a change

After a change errors are larger. :func:`jaxmkl.wrappers.intervals` widens its intervals until the
share of labels inside them is right again. This holds on any stream, as misses are counted:

>>> learner = wrappers.intervals(jaxmkl.raker(kernels), coverage=0.9)
>>> state = learner.init(jax.random.key(1), num_inputs=2)
>>> state, outputs = jaxmkl.run(learner, state, X, y)
>>> low, high = outputs.interval
>>> bool(abs(jax.jit(jaxmkl.metrics.coverage)(low, high, y) - 0.9) < 0.02)
True
>>> before, after = slice(1000, 1250), slice(1250, 1500)
>>> bool((high - low)[after].mean() > (high - low)[before].mean())    # wider after the change
True

Where the learner knows how unsure it is, widths follow x as well (:mod:`jaxmkl.guide.certainty`).

## Start again

A state is a value: keep the state of a season, and continue from it when the season returns. To
forget everything, call ``learner.init`` again; to forget the models but not the scaler, replace a
part of the state: ``state.replace(inner=learner.learner.init(key, num_inputs))``."""
