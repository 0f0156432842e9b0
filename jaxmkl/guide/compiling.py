"""Compiling: when programs are compiled, how long they are kept, and how to see it.

>>> import contextlib, io, logging, jax, numpy as np, jaxmkl
>>> X = np.random.default_rng(0).normal(size=(130, 2)).astype(np.float32)
>>> y, learner = np.sin(X[:, 0]), jaxmkl.raker(jaxmkl.Gaussian([0.5, 1.0]), num_features=10)
>>> state = learner.init(jax.random.key(0), num_inputs=2)

``jax.log_compiles()`` logs each compilation. This function counts its messages:

>>> def compilations(call):
...     handler, log = logging.StreamHandler(io.StringIO()), logging.getLogger("jax")
...     log.addHandler(handler)
...     with jax.log_compiles(), contextlib.redirect_stderr(io.StringIO()):
...         jax.block_until_ready(call())
...     log.removeHandler(handler)
...     return handler.stream.getvalue().count("Finished XLA compilation")

**A program is compiled for** the classes of a learner and its parts, their static fields (what
changes shapes or code, as numbers of features, budgets, losses), the dtype, the number of inputs,
and lengths. :func:`jaxmkl.run` and :func:`jaxmkl.stream` run in segments of 4,096 rows, or of 512
or 64 where there are no more (or where rows are wide), so three programs serve all lengths:

>>> lengths = lambda *rows: [jaxmkl.run(learner, state, X[:n], y[:n]) for n in rows]
>>> compilations(lambda: lengths(97)) > 0, compilations(lambda: lengths(112, 130))
(True, 0)

Kernels that are learned have programs of their own, one for each bank, called between segments.
Outside of a trace NumPy computes ``init``, with the random bits of JAX, so little is compiled.
Large programs are compiled by XLA's older backend where JAX has it (below 0.12), in half the time.
:func:`jaxmkl.run_many` and, on a CPU, :func:`jaxmkl.run_fleet` run groups of a power of two.

**Numbers are not compiled in**: step sizes, bandwidths, rates, states and data are arguments.

>>> other = jaxmkl.raker(jaxmkl.Gaussian([0.3, 2.0]), num_features=10, step_size=0.05)
>>> compilations(lambda: jaxmkl.run(other, state, X[:100], y[:100]))
0

**What compiles again**: another static field, another function object as ``record``, another
``block_size`` or ``delay``; another power of two of runs side by side, unless they fill groups;
the first run, or chunk of a stream, of more than 64 rows, and of more than 512; more support
vectors than a state has room for. On a mesh all runs of ``run_many`` are one program, for each
length and number of them, and so are the runs of a fleet on an accelerator.

**One call at a time.** ``predict``, ``ask``, ``update``, ``skip`` and ``step`` are compiled at
their first call, ``predict_many`` for the next power of two of the rows (16 at least). **Inside a
trace** (``jit``, ``vmap``, ``grad``, ``scan``) all these are a part of your program.

**What is kept.** Each kernel of a program is a memory mapping of its own, of which Linux allows a
process 65,530. So this library drops its least recently used programs once they have more than
8,192 mappings together; a dropped program is compiled again when it is called again.
:func:`jaxmkl.streaming.keep_programs` sets that limit.

**Between processes** nothing is kept, unless JAX has a folder for it:
:func:`jaxmkl.compile_cache`, called once, gives it one, ``~/.cache/jaxmkl`` or another. It only
grows, and may be deleted at any time. The command ``jaxmkl`` calls it; ``import jaxmkl`` does not.
"""
