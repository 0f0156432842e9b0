"""Troubleshooting: common problems, their messages, and what to do.

Errors name the argument, the value given and the values allowed. This page has those whose remedy
lies elsewhere, and problems that raise no error.

>>> import jax, jax.numpy as jnp, numpy as np, jaxmkl, warnings
>>> X = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
>>> y = X[:, 0]
>>> learner = jaxmkl.raker(jaxmkl.Gaussian([0.5, 1.0]), num_features=50)
>>> state = learner.init(jax.random.key(0), num_inputs=2)

## It diverges

If steps are too large, each makes the next one larger. If the size of examples is known, a learner
warns when it is made:

>>> with warnings.catch_warnings(record=True) as found:
...     warnings.simplefilter("always")
...     fast = jaxmkl.raker(jaxmkl.Gaussian([0.5, 1.0]), num_features=50, step_size=3.0)
>>> print(found[0].message)
OGD: step_sizes = 3 cannot converge: with |z|² = k(x, x) = 50 and the curvature 2 of Squared, each
step near the minimum is larger than the one before; take 0.019996 at most

That is the largest η with η (λ + L'' |z|²) <= 2. With ``feature_scale="mean"``, |z|² is 1. Inside
``jit`` and ``vmap``, as in a sweep, numbers are unknown, and there is no warning.

A run counts the updates in which a learner has diverged, and warns. Reduce the step size, or scale
the inputs by :func:`jaxmkl.scaled` and the targets by :func:`jaxmkl.wrappers.scaled_targets`. To
stop at once, turn the warning into an error:

>>> with warnings.catch_warnings():
...     warnings.simplefilter("error")
...     jaxmkl.run(fast, fast.init(jax.random.key(0), num_inputs=2), X, y)
Traceback (most recent call last):
RuntimeWarning: run: ... update(s) met a value or a loss that was infinite or NaN, or far larger
than labels and steps can make it: the learner diverges; take a smaller step size, bring inputs and
targets to the order of 1 (jaxmkl.scaled), or compute in double precision (JAX_ENABLE_X64=1)

A prediction more than 8 million times as large as any label counts, too. So does a value of a
classifier's model on support vectors that its steps cannot have made, even if no error shows yet:
sums that are kept up to date round by round may lose their digits in single precision. If the
largest step is s, |f| after n rounds is at most sqrt(n s (2 + s)), or n s if support vectors are
removed; a value counts from four times this bound on. The bounds are known for kernels with
k(x, x) = 1, such as :class:`jaxmkl.Gaussian`. Values of models that vote are counted, too,
although the votes do not show them.

Inside your own ``jit`` there are no warnings: check ``state.nonfinite``.

## Missing values

NaN and infinity are refused outside of ``jit``. Fill them, and mark them in one more column; or
drop the rows:

>>> holes = X.copy()
>>> holes[3, 1] = np.nan
>>> jaxmkl.run(learner, state, holes, y)
Traceback (most recent call last):
ValueError: X must be finite and of magnitude at most 4.61e+18 (drop or fill such values first, or
scan learner.step, which skips and counts them); got X[3, 1] = nan and 1 such value(s) in all
>>> missing = np.isnan(holes)
>>> filled = np.hstack([np.where(missing, 0.0, holes), missing]).astype(np.float32)
>>> filled.shape
(60, 4)

Inside ``jit`` and in a scan of ``step`` such an example is skipped, and ``state.invalid`` counts
it. Masked arrays of NumPy are refused like NaN, in your own scan by JAX itself; but ``jnp.array``
ignores the mask and takes the values beneath it.

## One label is absurd

In regression, a label more than a hundred times as large as all before it is not learned, as if it
were NaN: it would ruin least squares. A run counts such labels and warns. A target that moves to
another level is followed after a few labels. Large values are learned in the end, too, if they
are more than one label in 45. :class:`jaxmkl.wrappers.ScaledTargets` also handles smaller
outliers.

>>> absurd = y.copy()
>>> absurd[30] = 1e12
>>> with warnings.catch_warnings():
...     warnings.simplefilter("error")
...     jaxmkl.run(learner, state, X, absurd)
Traceback (most recent call last):
RuntimeWarning: run: 1 label(s) were more than a hundred times as large as all before, and were not
learned; mend them, or let jaxmkl.wrappers.scaled_targets(learner, clip=5.0) tame them

## Inputs that are all the same

If all inputs are the same, the best prediction is the mean of the labels, and a step of a fixed
size only adds noise to it. A run warns of them:

>>> steps = jaxmkl.raker(jaxmkl.Gaussian(1.0), num_features=5, step_size=0.06)
>>> noise = np.random.default_rng(1).normal(size=4000)
>>> with warnings.catch_warnings(record=True) as found:
...     warnings.simplefilter("always")
...     _, outputs = jaxmkl.run(steps, steps.init(jax.random.key(0), 1), np.ones((4000, 1)), noise)
>>> print(found[0].message)
run: all 4000 rows have the same inputs, on which no prediction can depend: ...

The step size η bounds the noise. With squared loss it is 1/(1 - η |z|²) times the variance of the
labels, where |z|² = k(x, x) is the number of features with scale "sum", or 1: the default of
``raker``, .3/|z|², costs up to 1.43 times the noise, a tenth of that step 1.03.

>>> round(float(outputs.loss[100:].mean() / noise.var()), 1)  # 1/(1 - .3)
1.4

The same holds if inputs say little, or if labels have heavy tails: take smaller steps, or
:func:`jaxmkl.expert_mkl`, whose rules average over all labels. ``jaxmkl run`` names the learners
that are worse than the mean of the labels, and the drivers of Python warn of it after a thousand
rows, with the columns that have heavy tails; the errors of the first hundred do not count. A run
also warns of inputs and targets whose differences are below 1e-18, because their squares vanish in
float32: multiply them first. And it warns of those whose differences are rounded away, as float32
has seven digits: a time in seconds since 1970 is rounded to two minutes. Subtract the first value
from all of them in double precision, as the command and the estimators do by themselves.

## Heavy tails

If a few values are far larger than all others, as of incomes or counts of messages, they decide
the scale of an input, and most of the squared errors of a target. The command and
:func:`jaxmkl.tables.read` name such columns:

>>> from jaxmkl.tables import read
>>> import polars
>>> incomes = np.random.default_rng(0).lognormal(sigma=2.5, size=500)
>>> print(read(polars.DataFrame({"income": incomes, "y": np.log(incomes)})).notes[-1])
heavy tails: 'income'; a few far values set their scale, ...

Take the logarithm of inputs, sign(x) log(1 + |x|/s) with some scale s, or their ranks:
``jaxmkl.scaled(learner, jaxmkl.wrappers.RunningRanks())``. For a target, ``loss="huber"`` and
``jaxmkl.wrappers.scaled_targets(learner, clip=5.0)`` follow most labels. With Cauchy noise on the
labels, raker has 1.23 times the squared and 2.3 times the absolute error of their mean; with
Huber's loss .99 and .85 times, with the clip .97 and .85, and expert_mkl 1.00 and 1.12.

## Labels with another meaning

Labels of two classes are read by their sign, inside a ``jit`` too; 1 and 2 would both be positive:

>>> classifier = jaxmkl.raker(loss="logistic")
>>> begun = classifier.init(jax.random.key(0), num_inputs=2)
>>> jaxmkl.run(classifier, begun, X, np.where(y > 0, 2, 1))
Traceback (most recent call last):
ValueError: labels: y must be {0, 1}, {-1, 1}, booleans or two strings; got the values 2, 1
(numbers are read by their sign: pass y == 2)

``np.unique(words, return_inverse=True)[1]`` turns words for K classes into numbers. A run also
takes words, but only for a new state, because a state does not keep which word was which class.
If a stream is continued, keep the classes yourself:

>>> words = np.where(y > 0, "up", "down")
>>> signs, classes = jaxmkl.labels.labels(words[:40])
>>> begun, _ = jaxmkl.run(classifier, begun, X[:40], signs)
>>> begun, _ = jaxmkl.run(classifier, begun, X[40:], jaxmkl.labels.labels(words[40:], classes)[0])
>>> classes
('down', 'up')

## A state of another learner

A state fits the learner that made it, and learners with the same shapes. A step size may change;
with another number of features, kernels or parts, start again:

>>> slower = jaxmkl.raker(jaxmkl.Gaussian([0.5, 1.0]), num_features=50, step_size=0.001)
>>> jax.jit(slower.predict)(state, X[0])
Prediction(value=..., query=Array(True, dtype=bool), score=..., variance=None, ...)
>>> jaxmkl.raker(num_features=50).predict(state, X[0])
Traceback (most recent call last):
ValueError: MKL: state.models[0].features must be of shape (17, 50, 2), as this learner has it; got
(2, 50, 2)

## Parts that do not fit together

Random features exist for shift-invariant kernels with a known spectrum; a polynomial needs models
with supports. The message names the kernels without a spectrum:

>>> jaxmkl.raker(jaxmkl.Polynomial(2))
Traceback (most recent call last):
ValueError: FourierFeatures: kernels must be of a known spectrum: Gaussian, Laplacian, Cauchy,
products and dictionaries of them, or one of your own that defines spectral_scale (see
help('jaxmkl.guide.extend')); models with supports take any kernel; got 'Polynomial'
>>> jaxmkl.raker(query=jaxmkl.query.Uncertainty()).init(jax.random.key(0), num_inputs=2)
Traceback (most recent call last):
ValueError: MKL: query must be one that needs no variance, which this learner does not have; got
Uncertainty(h=0.1, inertia=1.0)

## A static field under vmap

Numbers of a learner are leaves; fields that change shapes are static, and cannot be traced. Loop
over them in Python:

>>> jax.vmap(lambda n: jaxmkl.raker(num_features=n).models[0])(jnp.array([10, 20]))
Traceback (most recent call last):
ValueError: FourierFeatures: num_features must be an integer of at least 1; got VmapTracer...

## Double precision

>>> learner.init(jax.random.key(0), num_inputs=2, dtype=jnp.float64)
Traceback (most recent call last):
ValueError: MKL: dtype must be a floating dtype; float64 needs jax.config.update('jax_enable_x64',
True), and float16 has too small numbers (bfloat16 has not); got 'float64'

## It is slow

- **One call at a time.** A call of ``predict`` or ``update`` takes longer than the round itself:
  pass many examples to :func:`jaxmkl.run` or :func:`jaxmkl.stream`.
- **Every call compiles.** Another static field, ``record`` function or ``block_size`` is another
  program: make the learner and the function once, outside the loop. ``jax.log_compiles()`` shows
  each compilation (:mod:`jaxmkl.guide.compiling`).
- **The first call takes seconds.** This is the compilation. Keep programs between sessions by
  :func:`jaxmkl.compile_cache`.
- **Supports grow.** The time of a round grows with the supports: use a budget
  (:func:`jaxmkl.bpas`), or random features.
- **Many seeds in a Python loop.** :func:`jaxmkl.run_many` runs them in one program.
- **65 to 500 inputs on a CPU.** Full metrics of learned kernels need eigenvectors, after which
  threads of OpenBLAS wait without sleep: of 100 inputs a quarter more processor time over the
  first 4,096 rows on two cores. ``OPENBLAS_NUM_THREADS=1``, set before Python starts, saves it.

## It hangs

A process that was forked after JAX had run waits for threads that only its parent has:
``multiprocessing`` forks by default on Linux before Python 3.14. Let it start fresh processes,
``multiprocessing.get_context("spawn").Pool()`` (or ``"forkserver"``), from a file whose own work
is under ``if __name__ == "__main__":``. The same holds for libraries built on it: the argument is
``mp_context`` of ``concurrent.futures.ProcessPoolExecutor``, and ``multiprocessing_context`` of
torch's ``DataLoader``; joblib's default, ``"loky"``, does not fork. Threads may share learners.

## Results are bad, without an error

- **Units.** One column in thousands hides the others: see :mod:`jaxmkl.guide.choose`.
- **Underflow.** If a bandwidth is far below the distances, every kernel value is 0. Compare it
  with :func:`jaxmkl.kernels.median_distance`.
- **Order.** A stream sorted by its label is learned, and forgotten: permute it (``run_many(...,
  permute=True)``) unless the order means something.
- **A full store of supports inside your own jit.** Examples that found no room were not learned:
  ``learner.info(state).overflow`` counts them.
- **Scaling by the mean of the whole file.** It uses later rows, so errors are too small. Scale
  online.
"""
