"""Troubleshooting: what goes wrong, what is said then, and what to do.

Errors name the argument, what was given and what is wanted. Here are those whose remedy lies
elsewhere, and what goes wrong without an error.

>>> import jax, jax.numpy as jnp, numpy as np, jaxmkl, warnings
>>> X = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
>>> y = X[:, 0]
>>> learner = jaxmkl.raker(jaxmkl.Gaussian([0.5, 1.0]), num_features=50)
>>> state = learner.init(jax.random.key(0), num_inputs=2)

## It diverges

A step that is too large makes the next one larger. A run counts such updates and warns. Make the
step smaller, or scale what comes in: inputs by :func:`jaxmkl.scaled`, targets by
:func:`jaxmkl.wrappers.scaled_targets`. To stop at once, turn the warning into an error:

>>> fast = jaxmkl.raker(num_features=50, step_size=3.0)
>>> with warnings.catch_warnings():
...     warnings.simplefilter("error")
...     jaxmkl.run(fast, fast.init(jax.random.key(0), num_inputs=2), X, y)
Traceback (most recent call last):
RuntimeWarning: run: ... update(s) met a value or a loss that was infinite or NaN: the learner
diverges; take a smaller step size, or bring inputs and targets to the order of 1 (jaxmkl.scaled)

Inside your own ``jit`` nothing can warn: look at ``state.nonfinite``.

## Missing values

NaN and infinity are refused where they can be seen. Fill them, and say so to the learner by one
more column; or drop the rows:

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
it. Masked arrays of NumPy are refused like NaN; but JAX itself, as in a scan of your own, takes
what lies beneath the mask.

## One label is absurd

A label of a number more than a hundred times as large as all before it is not learned, as if it
were NaN: least squares would give everything for it. A run counts such labels and warns. A target
that has moved to another level is followed after a few labels, and what comes more often than once
in 45 labels is believed in the end (:class:`jaxmkl.wrappers.ScaledTargets` has other means, for
smaller errors, too):

>>> absurd = y.copy()
>>> absurd[30] = 1e12
>>> with warnings.catch_warnings():
...     warnings.simplefilter("error")
...     jaxmkl.run(learner, state, X, absurd)
Traceback (most recent call last):
RuntimeWarning: run: 1 label(s) were more than a hundred times as large as all before, and were not
learned; mend them, or let jaxmkl.wrappers.scaled_targets(learner, clip=5.0) tame them

## Labels that are not what they seem

Two classes are read by their sign, inside a ``jit`` too; 1 and 2 would both be positive:

>>> classifier = jaxmkl.raker(loss="logistic")
>>> begun = classifier.init(jax.random.key(0), num_inputs=2)
>>> jaxmkl.run(classifier, begun, X, np.where(y > 0, 2, 1))
Traceback (most recent call last):
ValueError: labels: y must be {0, 1}, {-1, 1}, booleans or two strings; got the values 2, 1
(numbers are read by their sign: pass y == 2)

Words for K classes become numbers by ``np.unique(words, return_inverse=True)[1]``.

## A state of another learner

A state fits the learner that made it, and others of the same shapes. Change a step size as you
like; after another number of features, kernels or parts, start again:

>>> jaxmkl.raker(jaxmkl.Gaussian([0.5, 1.0]), num_features=50, step_size=0.1).predict(state, X[0])
Prediction(value=..., query=Array(True, dtype=bool), score=...)
>>> jaxmkl.raker(num_features=50).predict(state, X[0])
Traceback (most recent call last):
ValueError: MKL: state.models[0].features must be of shape (17, 50, 2), as this learner has it; got
(2, 50, 2)

## Parts that do not go together

Random features exist for shift-invariant kernels that say their spectrum; a polynomial goes with
supports. The message names the kernels that have none:

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

Numbers of a learner are leaves; what changes shapes is static, and cannot be traced. Loop over it
in Python:

>>> jax.vmap(lambda n: jaxmkl.raker(num_features=n).models[0])(jnp.array([10, 20]))
Traceback (most recent call last):
ValueError: FourierFeatures: num_features must be an integer of at least 1; got VmapTracer...

## Double precision

>>> learner.init(jax.random.key(0), num_inputs=2, dtype=jnp.float64)
Traceback (most recent call last):
ValueError: MKL: dtype must be a floating dtype; float64 wants jax.config.update('jax_enable_x64',
True); got 'float64'

## It is slow

- **One call at a time.** ``predict`` and ``update`` outside ``jit`` are traced at every call. Jit
  them once, ``update = jax.jit(learner.update)``, or better hand over many examples to
  :func:`jaxmkl.run` or :func:`jaxmkl.stream`.
- **Every call compiles.** Another static field, ``record`` function or ``block_size`` is another
  program: make the learner and the function once, outside the loop. ``jax.log_compiles()`` shows
  what compiles. Arrays whose length grows from call to call compile each time; keep a mask.
- **The first call takes seconds.** That is the compiler. Keep programs between sessions by
  ``jax.config.update("jax_compilation_cache_dir", folder)``.
- **Supports grow.** A round costs what the supports cost: take a budget (:func:`jaxmkl.bpas`), or
  random features.
- **Many seeds in a Python loop.** :func:`jaxmkl.run_many` plays them in one program.

## It hangs

A process that was forked after JAX had run waits for ever for threads that only its parent has:
``multiprocessing`` forks by default on Linux before Python 3.14. Let it start fresh processes,
``multiprocessing.get_context("spawn").Pool()`` (or ``"forkserver"``), in a file whose own work
stands under ``if __name__ == "__main__":``. So it is with what is built on it: the argument is
``mp_context`` of ``concurrent.futures.ProcessPoolExecutor``, and ``multiprocessing_context`` of
torch's ``DataLoader``; joblib's default, ``"loky"``, does not fork. Threads may share learners.

## It is wrong, and says nothing

- **Units.** One column in thousands hides the others: :mod:`jaxmkl.guide.choose`.
- **Underflow.** Widths far below the distances make every kernel value 0. Compare them with
  :func:`jaxmkl.kernels.median_distance`.
- **Order.** A stream sorted by its label is learned, and forgotten: permute it (``run_many(...,
  permute=True)``) unless the order means something.
- **A supports' store that is full inside your own jit.** What found no room was not learned:
  ``learner.info(state).overflow`` counts it.
- **The whole file's mean.** Scaling by it before the stream begins looks ahead; errors then are
  too good. Scale online.
"""
