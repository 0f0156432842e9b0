"""Kernels that are learned: when it pays, what it costs, and how to see what was learned.

A fixed dictionary of Gaussians treats all inputs alike. In most tables only a few inputs matter,
or some matter together, and where a function has steps, no Gaussian of any width fits. Three
things can be learned while the stream runs; each is a bank of models beside the others, and the
aggregate weighs them.

    what is learned                 bank                                   pays where
    a weight for each input         MetricModels(bank, "diagonal")         few inputs matter
    directions of the inputs        MetricModels(bank, "full")             sums of inputs matter
    either, by likelihood           LikelihoodModels(bank, ...)            the signal is clean
    a partition into boxes          TreeModels(stages=24)                  steps, categories

## The shortest way

:func:`jaxmkl.expert_mkl` has a fixed bank, a full metric by gradients, a diagonal one by
likelihood, and a forest with a boosted model of trees beside it. Kernels of your own are a fixed
bank alone, unless you name others:

>>> import jax, jaxmkl, numpy as np
>>> X = np.random.default_rng(0).normal(size=(600, 8))
>>> y = np.sin(2 * X[:, 5])                                     # one input of eight
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

With ``banks=("fixed", "likelihood_diagonal", "likelihood_full", "trees")`` errors are smaller than
with the default where the signal is clean, and larger elsewhere.

Where rows of a kind lie close, as in many tables, a bank that learns no kernel helps: the mean of
the latest labels, near examples first (:class:`jaxmkl.models.NeighbourModels`). On phoneme and
phishing ``jaxmkl run FILE --learner expert_mkl --seeds 3`` makes 12.2 and 4.2 % of mistakes, with
log losses of .280 and .101; 11.7 and 3.8 %, and .274 and .094, if beside these there is

    --set "banks=('fixed', 'full', 'likelihood_diagonal', 'trees', 'neighbours')"

It adds a twentieth to the time. In streams that drift it does not help.

The fixed bank wants inputs of variance near 1, or in [0, 1]. Scale others, as by
``jaxmkl.scaled(learner, jaxmkl.wrappers.RunningMoments())``; the command and the estimators do so
by themselves. A metric follows the variances of the inputs from its first renewal on.

## What was learned

The diagonal of the metric, times the variances of the inputs, says how much they matter, of sum 1:

>>> learner.importances(state).round(1)
Array([0., 0., 0., 0., 0., 1., 0., 0.], dtype=float32)

Inputs that determine each other, as the levels of a word do, may have a share though they do not
matter. If there are several metrics, importances are their mean. Wrappers pass them on, and
``MKLRegressor`` has them as ``feature_importances_``. The command names the largest below its
table. ``--report``, ``--json`` and ``jaxmkl info`` have all of them:

    jaxmkl run FILE --report page.html

A column whose effect is nearly linear has a small share, as its kernels need not be narrow there.
So the report and the JSON file also have the growth of the error if a column is permuted
(``growth``), of learners without a metric, too; the command then names the columns that matter
most by it.

## By gradients or by likelihood

:class:`jaxmkl.models.MetricModels` learns a metric from the gradients of its own models, which say
which inputs move the prediction. A renewal costs a few passes over 2,000 examples.
:class:`jaxmkl.models.LikelihoodModels` maximises the evidence of least squares on a few hundred
examples by steps of Adam. A renewal costs more. Rounds between renewals cost less, because the
metric finds the width, too, and one kernel is enough. RESULTS.md has both on twelve tables. The
default has a full metric by gradients, which find directions even if labels are noisy, and a
diagonal one by likelihood, which finds the inputs that matter.

Gradient steps on the loss in each block, for a width of each input, were tried, too, and left out:
they are better than fixed widths, but never were better than the best of the metrics.

## When it happens, and what it costs

Labelled examples enter the memory of the learner, one :class:`jaxmkl.reservoir.Reservoir` for all
banks. A metric looks at 2,000 of its examples, a forest at 4,000: ``sample`` says how many, and
the memory has as many places as the bank that looks at the most. For another one, such as a memory
half of which are the latest examples, pass it to the learner:

>>> bank = jaxmkl.models.TreeModels(sample=1000)
>>> memory = jaxmkl.reservoir.Reservoir(1000, latest=500)
>>> jaxmkl.MKL(bank, memory=memory).memory
Reservoir(size=1000, latest=500)

In rounds 256, 512, 1,024, ... a metric is learned from these examples, and the models learn the
examples again under the new metric. Forests grow in rounds 64, 96, 128, 192, 256, ..., 3,072, and
then in rounds 4,096, 16,384, 65,536, ... Between these rounds a metric costs one matrix product a
block.

Each renewal comes after twice as many rounds as the one before, so their cost matters in a short
stream, and vanishes in a long one. On a CPU, banks that are renewed in one round use several
cores. With two of them, these are the times of a round with 26 inputs, relative to that of the
fixed bank alone:

    banks                                              10,000 rounds   60,000 rounds
    fixed, and both metrics by gradients               1.7             1.1
    the same, and a forest                             3.4             1.6
    the default                                        3.6             1.5

The default has a diagonal metric by likelihood in place of the one by gradients. Its first run
compiles for 5 to 20 s, that of the fixed bank for 2 to 5 s, depending on the processor.

Examples that were refused, or whose label was not asked for, stay out of the memory.
Derivatives by rates and widths stop at such a round.

## When to leave it out

Use ``expert_mkl(banks="fixed")``, or ``--set "banks='fixed'"`` with the command,

- if every round must take the same time;
- if the inputs are few, and all matter;
- if room is scarce: a memory of N examples holds N (D + 1) numbers;
- if there are thousands of inputs, as each takes part in every gradient.
"""
