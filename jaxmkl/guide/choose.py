"""Choose a learner by the kind of label, the time of a round, and the units of the data.

If you have no time to read on, use :func:`jaxmkl.expert_mkl` with scaled inputs and targets. It
has the smallest error of all learners here on nearly every stream that we tried, and needs no
tuning.

>>> import jax, jaxmkl, numpy as np
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
| one of two classes, in many tasks | `multitask(num_tasks=K)`, the task index in column 0 |
| not there yet | see `jaxmkl.guide.labels` |

A classifier predicts a margin, whose sign is the class; for K classes it predicts K margins, and
the largest names the class. Wrappers turn them into probabilities, and add intervals or whole
distributions to predictions of numbers (:mod:`jaxmkl.guide.certainty`).

## What may a round cost?

- **Least time, constant memory**: :func:`jaxmkl.raker` takes a gradient step for each kernel on
  random features. It is the first choice for long streams, many seeds and gradients through a run.
- **Smallest error, constant memory**: :func:`jaxmkl.expert_mkl`. Several step sizes and least
  squares compete on each kernel, and kernels are learned besides, so nothing needs tuning. The
  first 10,000 rounds take 53 times as long as those of ``raker``, and later ones less
  (:mod:`jaxmkl.guide.learned`); with ``expert_mkl(banks="fixed")``, which leaves the learning of
  kernels out, 10 times.
- **Exact kernels, models made of examples**: :func:`jaxmkl.spa` and the other learners with
  supports keep examples instead of features. They take any kernel (also polynomials), are exact
  for any number of inputs, and grow, unless they have a budget (:func:`jaxmkl.bpas`, ...).
- **Unknown bandwidth**: :func:`jaxmkl.oks_sil` adapts the bandwidth while it learns, one for all
  inputs or one for each. The others choose among the bandwidths that they are given.

The table in the README has the times.

## What are the units?

A kernel depends on distances, so an input in thousands hides one in thousandths. Scale inputs
online by :class:`jaxmkl.wrappers.RunningMoments`, or by :class:`jaxmkl.wrappers.RunningRanks` if
columns have long tails. Step sizes and tolerances have units of the target, so scale it too
(:func:`jaxmkl.wrappers.scaled_targets`); predictions are still in its own units.

>>> units = np.array([1.0, 1000.0, 0.001])
>>> X = np.random.default_rng(0).normal(size=(600, 3))
>>> y = 50 + 10 * np.sin(2 * X[:, 0]) * X[:, 2]
>>> def final_error(learner, X):
...     state = learner.init(jax.random.key(1), num_inputs=3)
...     state, outputs = jaxmkl.run(learner, state, X, y)
...     return outputs.loss[300:].mean() / y[300:].var(), state
>>> few = jaxmkl.raker(jaxmkl.Gaussian([0.5, 1.0, 2.0]))
>>> bool(final_error(guarded(few), X * units)[0] < 0.5)
True
>>> bool(final_error(wrappers.scaled_targets(few), X * units)[0] > 1.0)
True

## Try some

Every example is predicted before its label is seen. So the loss of one pass over your own stream
is a fair test, and no split is needed. It includes the first rounds; to compare what was learned
in the end, leave them out, as ``final_error`` does above. There, predicting the mean of all labels
has the error 1.

>>> error, state = final_error(guarded(few), X)
>>> bool(error < 0.5)
True

Is a difference more than chance? :func:`jaxmkl.run_many` runs any number of seeds and orders of
the examples at once. The same keys are the same orders for any learner, so compare run by run:

>>> narrow = jaxmkl.raker(jaxmkl.Gaussian([0.1, 0.2, 0.4]))
>>> keys, standard = jax.random.split(jax.random.key(2), 8), (y - y.mean()) / y.std()
>>> def errors(learner):
...     loss = jaxmkl.run_many(learner, keys, X, standard)[1].loss
...     return np.asarray(loss).mean(axis=1)                                        # of each run
>>> difference = errors(narrow) - errors(few)
>>> bool(difference.mean() > 2 * difference.std(ddof=1) / len(keys) ** 0.5)     # standard errors
True

Keep an order that means something (``permute=False``): then only the features are drawn.

## Which kernels?

The default dictionaries are wide. This costs time, but little accuracy, as kernels that do not fit
lose their weight. To choose a few, start from :func:`jaxmkl.kernels.median_distance` of some
scaled inputs and take bandwidths on both sides of it. The final weights show which were useful:

>>> guarded(few).info(state).weights.shape
(3,)

To let a gradient choose the bandwidths, see :mod:`jaxmkl.guide.compose`.
"""
