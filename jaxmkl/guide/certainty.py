"""The certainty of predictions: variances, distributions, intervals, probabilities, and scores.

| What you want | What gives it | Where it is |
|---|---|---|
| variances: the label's, the model's | least squares, `expert_mkl` | `variance`, `epistemic` |
| a distribution: densities, quantiles, samples | `wrappers.predictive(learner)` | `distribution` |
| intervals that hold a share of the labels | `wrappers.intervals(learner, 0.9)` | `interval` |
| probabilities of classes | `wrappers.probabilities(classifier)` | `value`, as log-odds |

These are fields of :class:`jaxmkl.Prediction`, which ``learner.predict`` returns. A run records
all but ``epistemic`` for each round, as they were before the label was seen. A field is None if
the learner does not know it. Probabilities replace the learner's ``value``; the others leave it as
it is.

## A distribution that depends on the input

Here the noise is ten times larger where the second input is positive:

>>> import jax, jaxmkl, numpy as np
>>> from jaxmkl import metrics, wrappers
>>> X, noise = np.random.default_rng(0).normal(size=(2, 2000, 2))
>>> y = np.sin(2 * X[:, 0]) + np.where(X[:, 1] > 0, 1.0, 0.1) * noise[:, 0]
>>> kernels = jaxmkl.Gaussian([0.5, 1.0])
>>> learner = wrappers.intervals(wrappers.predictive(jaxmkl.raker(kernels)), coverage=0.9)
>>> state = learner.init(jax.random.key(2), num_inputs=2)
>>> state, outputs = jaxmkl.run(learner, state, X, y)
>>> said = jax.tree.map(lambda leaf: leaf[1000:], outputs.distribution)
>>> low, high = map(np.asarray, jax.jit(said.interval)(0.9))
>>> noisy, width = X[1000:, 1] > 0, high - low
>>> bool(width[noisy].mean() > 2 * width[~noisy].mean())
True

:class:`jaxmkl.distributions.StudentMixture` has ``log_prob``, ``cdf``, ``quantile``, ``interval``,
``sample`` and ``crps``. They are pure functions, for one prediction or a whole stream of them. Put
wrappers that scale the target inside, so that densities are in the target's units:
``predictive(scaled_targets(learner))``. Before two labels differ, nothing is known of the noise:
densities and intervals are NaN there, so take means of scores by ``jnp.nanmean``.

## Is it right?

The next label judges a density. The log score is the logarithm of the density at the label;
larger is better. The CRPS has the units of the label, and is the absolute error if a prediction is
a single number; smaller is better. The probability integral transform shows whether densities are
as wide as they should be: then a tenth of the labels falls into each tenth of the probability.

>>> @jax.jit
... def judged(said, y):
...     return said.log_prob(y), said.crps(y), metrics.pit_histogram(said.cdf(y))
>>> log_scores, crps, shares = judged(said, y[1000:])
>>> bool(abs(shares - 0.1).max() < 0.05)
True

A density may be wrong for a while, for instance after a change.
:func:`jaxmkl.wrappers.intervals` counts the labels that its intervals miss, and makes them wider
or narrower until the share of labels inside is right, whatever the stream does
(:mod:`jaxmkl.guide.drift`). The widths follow the distribution, if there is one; if not, the
variance; and if there is none either, they change with time alone:

>>> low, high = outputs.interval
>>> bool(abs(jax.jit(metrics.coverage)(low[200:], high[200:], y[200:]) - 0.9) < 0.02)
True

## Classes

The values of most classifiers have no scale. ``probabilities`` learns one by the log loss, and a
logistic regression that corrects it. With two classes the value becomes the log-odds, with K
classes the logarithms of their probabilities:

>>> learner, label = wrappers.probabilities(jaxmkl.raker(kernels, loss="logistic")), y > 0
>>> state, outputs = jaxmkl.run(learner, learner.init(jax.random.key(2), 2), X, label)
>>> @jax.jit
... def scores(log_odds, label):
...     p = jax.nn.sigmoid(log_odds)
...     return metrics.log_loss(log_odds, label), metrics.expected_calibration_error(p, label)
>>> log_loss, error = scores(outputs.prediction[1000:], label[1000:])
>>> bool(log_loss < 0.5), bool(error < 0.1)
(True, True)

With ``passthrough=True`` a second regression reads the inputs, too. This pays if many columns
hold only 0 and 1.

## What it costs

Variances come with least squares, at no cost. A density adds the time of one to three rounds of
``raker`` to each round, whichever learner it is around, and probabilities that of about one.
``jaxmkl run FILE --density`` shows the figures of this page for your own data, with plots
(:mod:`jaxmkl.guide.own_data`). :mod:`jaxmkl.guide.decisions` shows how to act on what is not
known.
"""
