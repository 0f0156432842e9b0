"""Kernels that are learned: when it pays, what it costs, and how to see what was learned.

A fixed dictionary of Gaussians sees all inputs alike. In most tables they are not: a few matter,
some matter together, and where a function has steps no Gaussian of any width fits. Three things
can be learned while the stream runs; each is a bank of models beside the others, and the aggregate
weighs them.

    what is learned                 bank                                   pays where
    a weight for each input         MetricModels(bank, "diagonal")         few inputs matter
    directions of the inputs        MetricModels(bank, "full")             sums of inputs matter
    either, by likelihood           LikelihoodModels(bank, ...)            the signal is clean
    a partition into boxes          TreeModels()                           steps, categories

## The shortest way

:func:`jaxmkl.expert_mkl` has a fixed bank, a full metric by gradients, a diagonal one by
likelihood and a forest. Kernels of your own are a fixed bank alone, unless you name others:

>>> import jax, jax.numpy as jnp, jaxmkl
>>> X = jax.random.normal(jax.random.key(0), (600, 8))
>>> y = jnp.sin(2 * X[:, 5])                                    # one input of eight
>>> def errors(learner):
...     state = learner.init(jax.random.key(1), num_inputs=8)
...     state, outputs = jaxmkl.run(learner, state, X, y)
...     return state, outputs.loss[300:].mean()
>>> few = dict(num_features=20, kernels=jaxmkl.Gaussian([1.0, 3.0]))
>>> _, fixed = errors(jaxmkl.expert_mkl(**few))
>>> learner = jaxmkl.expert_mkl(banks=("fixed", "diagonal"), **few)
>>> state, learned = errors(learner)
>>> bool(learned < fixed / 10)
True

``banks=("fixed", "likelihood_diagonal", "likelihood_full", "trees")`` errs less than the default
where the signal is clean, and more elsewhere. A metric's size follows the variances of the inputs
from its first renewal on; the fixed bank wants inputs of variance near 1, or in [0, 1]: scale
others, as by ``jaxmkl.scaled(learner, jaxmkl.wrappers.RunningMoments())``; the command and the
estimators do.

## What was learned

The diagonal of the metric, of sum 1, says how much each input matters:

>>> learner.importances(state).round(1)
Array([0., 0., 0., 0., 0., 1., 0., 0.], dtype=float32)

Of several metrics it is the mean. Wrappers pass it on, and ``MKLRegressor`` has it as
``feature_importances_``. The command names the inputs that matter most below its table, and has
all of them in ``--report``, ``--json`` and ``jaxmkl info``:

    jaxmkl run FILE --report page.html

## Around other learners

A metric is no matter of random features. :func:`jaxmkl.wrappers.learned_metric` stands around any
learner, as those with support vectors, and replays the reservoir to it under each new metric:

>>> learner = jaxmkl.wrappers.learned_metric(jaxmkl.kernel_ogd(jaxmkl.Gaussian(2.0)))
>>> state, _ = errors(learner)
>>> int(learner.importances(state).argmax())
5

## By gradients or by likelihood

:class:`jaxmkl.models.MetricModels` asks its own models which inputs move them, which costs one
pass over the reservoir. :class:`jaxmkl.models.LikelihoodModels` climbs the evidence of least
squares on some hundred examples by steps of Adam: dearer at a renewal, and cheaper between
renewals, as the metric finds the width too and one kernel is enough. RESULTS.md has both on
twelve tables. The default has a full metric by gradients, which find directions from noisy labels,
and a diagonal one by likelihood, which finds the inputs that matter.

A width for each input that gradient steps on the loss move in the stream was tried, too, and is
not in the library: it is better than widths that are fixed, and was never better than the best of
the metrics, as a step sees one block of examples where these see the reservoir.

## When it happens, and what it costs

Labelled examples enter a :class:`jaxmkl.reservoir.Reservoir`, of 2,000 places for a metric and of
4,000 for a forest. In rounds 256, 512, 1,024, ... a metric is learned from these examples, and the
models learn the examples again under the new metric; forests grow in rounds 64, 128, 256, ...,
4,096, and from then on in every fourth of these. Between these rounds a metric costs one matrix
product a block. As they lie twice as far apart each time, their cost vanishes beside that of a
long stream, and is felt in a short one: over 10,000 rounds of 26 inputs one of them takes 2.0
times that of the fixed bank alone with both metrics by gradients beside it, and 3.3 times with a
forest as well; over 60,000 rounds 1.4 and 1.6 times. The default, with a diagonal metric by
likelihood, takes 1.13 times as long as those four at 26 inputs, and as long at 77. Its first run
compiles for 8 to 20 s, that of the fixed bank for 2 to 4: a slow processor takes longest.

Examples that were refused, or whose label was not asked for, stay out of the reservoir.
Derivatives by rates and widths stop at such a round.

## When to leave it out

Where a round must always take the same time, where the inputs are few and all matter, where memory
is scarce, as a reservoir takes N (D + 1) numbers a bank, and where inputs are thousands, of which
each takes part in every gradient: ``expert_mkl(banks="fixed")``, or
``--set "banks='fixed'"`` with the command.
"""
