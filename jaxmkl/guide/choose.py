"""Choose a learner: what is the label, what may a round cost, and what are the units?

If there is no time to read on: :func:`jaxmkl.expert_mkl` behind a scaler. It has the least error
of all learners here on nearly every stream that we tried, and nothing in it has to be tuned.

>>> import jax, jax.numpy as jnp, jaxmkl
>>> from jaxmkl import wrappers
>>> def guarded(learner):
...     return jaxmkl.scaled(wrappers.scaled_targets(learner), wrappers.RunningMoments())
>>> learner = guarded(jaxmkl.expert_mkl())

## What is the label?

| Label | Learner |
|---|---|
| a number | any whose task is "regression": `raker()`, `expert_mkl()`, `omkl()`, ... |
| several numbers, columns of `y` | `raker(num_outputs=K)`, `expert_mkl(num_outputs=K)` |
| one of two classes | `expert_mkl(task="classification")`, `raker(loss="logistic")`, `spa()` |
| one of K classes | the first two with `num_classes=K` |
| the same, models with supports | `wrappers.one_vs_rest(spa(), K)` |
| one of two classes, in many related tasks | `multitask(num_tasks=K)`, the task in column 0 |
| not there yet | see `jaxmkl.guide.labels` |

A classifier's prediction is a margin, and its sign is the class; of K classes it is K margins, and
the largest is the class. :func:`jaxmkl.wrappers.probabilities` makes probabilities of them, and
:func:`jaxmkl.wrappers.intervals` gives numbers a lower and an upper end.

## What may a round cost?

- **Least time, constant memory**: :func:`jaxmkl.raker`. A gradient step for each kernel on random
  features. The first choice for long streams, many seeds and gradients through the run.
- **Least error, constant memory**: :func:`jaxmkl.expert_mkl`. Several step sizes and least squares
  compete on each kernel, so nothing needs tuning, at more than ten times
  the time.
- **Exact kernels, a model of examples**: :func:`jaxmkl.spa` and the other learners with supports.
  They keep examples instead of features: take any kernel (polynomials too), are exact however many
  inputs there are, and grow. On a budget (:func:`jaxmkl.bpas`, ...) they do not.
- **No idea of the width**: :func:`jaxmkl.oks_sil` moves the bandwidth while it learns, one for all
  inputs or one for each. The others choose among bandwidths that they are given.

README's table has the times.

## What are the units?

A kernel looks at distances, so an input in thousands hides one in thousandths. Scale inputs as
they come: :class:`jaxmkl.wrappers.RunningMoments`, or :class:`jaxmkl.wrappers.RunningRanks` where
columns have long tails. Step sizes and tolerances have units of the target: scale that too
(:func:`jaxmkl.wrappers.scaled_targets`); predictions come back in its own units.

>>> units = jnp.array([[1.0, 1000.0, 0.001]])
>>> X = jax.random.normal(jax.random.key(0), (600, 3))
>>> y = 50 + 10 * jnp.sin(2 * X[:, 0]) * X[:, 2]
>>> def play(learner, X):
...     state = learner.init(jax.random.key(1), num_inputs=3)
...     state, outputs = jaxmkl.run(learner, state, X, y)
...     return outputs.loss[300:].mean() / y[300:].var(), state
>>> bool(play(guarded(jaxmkl.raker()), X * units)[0] < 0.5)
True
>>> bool(play(wrappers.scaled_targets(jaxmkl.raker()), X * units)[0] > 1.0)  # as they come
True

## Try some

Every example is predicted before its label is seen. So the loss of one pass over your own stream
is a fair test: no split is needed, and nothing is learned from what it is judged by. The first
rounds are part of it; leave them out to compare what was learned in the end, as ``play`` does
above. An error of 1 there is that of the mean of all labels.

>>> few = jaxmkl.raker(jaxmkl.Gaussian([0.5, 1.0, 2.0]))
>>> error, state = play(guarded(few), X)
>>> bool(error < 0.5)
True

Is a difference more than chance? :func:`jaxmkl.run_many` plays any number of seeds and orders of
the examples at once.

## Which kernels?

The default dictionaries are wide: they cost time and little accuracy, as kernels that do not fit
lose their weight. To choose a few, start from :func:`jaxmkl.kernels.median_distance` of some
scaled inputs and take bandwidths on both sides of it. What the weights became says which were of
use:

>>> guarded(few).info(state).weights.shape
(3,)

To let a gradient choose the bandwidths, see :mod:`jaxmkl.guide.compose`.
"""
