"""How sure is it: variances, distributions, intervals and probabilities, and how to judge them.

| What you want | What gives it | Where it is |
|---|---|---|
| variances: the label's, the model's | least squares, `expert_mkl` | `variance`, `epistemic` |
| a distribution: densities, quantiles, samples | `wrappers.predictive(learner)` | `distribution` |
| intervals that hold a share of the labels | `wrappers.intervals(learner, 0.9)` | `interval` |
| probabilities of classes | `wrappers.probabilities(classifier)` | `value`, as log-odds |

These are fields of :class:`jaxmkl.Prediction`, which ``learner.predict`` returns; what
:func:`jaxmkl.run` records of a round has them too, as they were before the label was seen. A field
is None where a learner does not know it. Probabilities apart, all stand around the learner's
``value`` and leave it as it is.

## A distribution that depends on the input

Here the noise is ten times larger where the second input is positive:

>>> import jax, jax.numpy as jnp, jaxmkl
>>> from jaxmkl import metrics, wrappers
>>> X, noise = (jax.random.normal(jax.random.key(i), (2000, 2)) for i in (0, 1))
>>> y = jnp.sin(2 * X[:, 0]) + jnp.where(X[:, 1] > 0, 1.0, 0.1) * noise[:, 0]
>>> kernels = jaxmkl.Gaussian([0.5, 1.0])
>>> learner = wrappers.intervals(wrappers.predictive(jaxmkl.raker(kernels)), coverage=0.9)
>>> state = learner.init(jax.random.key(2), num_inputs=2)
>>> state, outputs = jaxmkl.run(learner, state, X, y)
>>> said = jax.tree.map(lambda leaf: leaf[1000:], outputs.distribution)
>>> low, high = jax.jit(said.interval)(0.9)
>>> noisy, width = X[1000:, 1] > 0, high - low
>>> bool(width[noisy].mean() > 2 * width[~noisy].mean())
True

:class:`jaxmkl.distributions.StudentMixture` has ``log_prob``, ``cdf``, ``quantile``, ``interval``,
``sample`` and ``crps``: pure functions, of one prediction as of a whole stream of them. Wrappers
that scale the target stand inside, so that densities are in its own units:
``predictive(scaled_targets(learner))``.

## Is it right?

A density is judged by the label that came. The larger its logarithm there the better; the CRPS,
smaller is better, is in units of the label, and the absolute error where a prediction is a single
number. Whether densities are as wide as they should be shows in where labels fall: a tenth of them
in each tenth of the probability.

>>> judged = jax.jit(lambda said, y: (said.log_prob(y), said.crps(y), said.cdf(y)))
>>> log_scores, crps, places = judged(said, y[1000:])
>>> bool(abs(metrics.pit_histogram(places) - 0.1).max() < 0.05)
True

A density may be wrong for a while, as after a change. :func:`jaxmkl.wrappers.intervals` counts its
misses, and widens or narrows until the share of labels inside is right, whatever the stream does
(:mod:`jaxmkl.guide.drift`). Its widths follow the distribution, where there is one, or else the
variance, or else time alone:

>>> low, high = outputs.interval
>>> bool(abs(metrics.coverage(low[200:], high[200:], y[200:]) - 0.9) < 0.02)
True

## Classes

The values of most classifiers have no scale. ``probabilities`` learns one by the log loss, beside
a regression that corrects it. Of two classes the value becomes the log-odds, of K classes the
logarithms of their probabilities:

>>> learner, label = wrappers.probabilities(jaxmkl.raker(kernels, loss="logistic")), y > 0
>>> state, outputs = jaxmkl.run(learner, learner.init(jax.random.key(2), 2), X, label)
>>> log_odds, label = outputs.prediction[1000:], label[1000:]
>>> bool(metrics.log_loss(log_odds, label) < 0.5)
True
>>> bool(metrics.expected_calibration_error(jax.nn.sigmoid(log_odds), label) < 0.1)
True

With ``passthrough=True`` a second regression reads the inputs too, as pays with many columns of 0
and 1.

## What it costs

Variances come with least squares. A density adds about what a round of ``raker`` takes, whichever
learner it is around. ``jaxmkl run FILE --density`` has the figures of this page for your own data,
with plots (:mod:`jaxmkl.guide.own_data`); :mod:`jaxmkl.guide.decisions` acts on what is not known.
"""
