"""Compiling: what is compiled when, how long programs are kept, and how to see it.

>>> import contextlib, io, logging, jax, jax.numpy as jnp, numpy as np, jaxmkl
>>> X = np.random.default_rng(0).normal(size=(130, 2)).astype(np.float32)
>>> y = np.sin(X[:, 0])
>>> learner = jaxmkl.raker(jaxmkl.Gaussian([0.5, 1.0]), num_features=10)
>>> state = learner.init(jax.random.key(0), num_inputs=2)

``jax.log_compiles()`` tells of each compilation. This counts what it tells:

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
or 64 where there are no more (or where rows are wide). The first run compiles a program, and one
of another length nothing:

>>> compilations(lambda: jaxmkl.run(learner, state, X[:97], y[:97])) > 0
True
>>> compilations(lambda: jaxmkl.run(learner, state, X[:112], y[:112]))
0

Kernels that are learned are learned by programs of their own, one for each such bank, between
segments, each compiled at its first call. Outside of a trace ``init`` compiles hardly anything:
NumPy works out the state, from the same random bits, so it is that of a trace to rounding.

**Numbers are not compiled in**: step sizes, bandwidths, rates, states and data are arguments.

>>> other = jaxmkl.raker(jaxmkl.Gaussian([0.3, 2.0]), num_features=10, step_size=0.05)
>>> compilations(lambda: jaxmkl.run(other, state, X[:100], y[:100]))
0

**What compiles again**: another static field, another function object as ``record``, another
``block_size``; another power of two of rows for ``predict_many``, and of runs that
:func:`jaxmkl.run_many` plays side by side. On accelerators, with ``delay`` and among the devices
of a mesh, ``run_many`` compiles for each length and number of keys. A stream of chunks compiles
for the first chunk of more than 64 rows, and of more than 512.

**One call at a time.** ``predict``, ``ask``, ``update``, ``skip`` and ``step`` are compiled at the
first call, ``predict_many`` for the next power of two of the rows (16 at least), whatever numbers
come in: lists, integers, arrays in double precision.

>>> several = lambda *rows: [learner.predict_many(state, X[:n]).value for n in rows]
>>> compilations(lambda: several(100)) > 0
True
>>> compilations(lambda: several(65, 77, 128))
0

**Inside a trace** (``jit``, ``vmap``, ``grad``, ``scan``) all these are a part of your program,
and nothing is compiled apart; it is your ``jit`` that keeps it.

**What is kept.** Programs take memory, and each kernel of one is a piece of memory by itself, of
which Linux gives a process 65,530. So this library lets go of the programs that were not called
for longest when its programs have more than 8,192 such pieces together; what is called again then
is compiled again. :func:`jaxmkl.streaming.keep_programs` sets the bound for the process.

**Between processes** nothing is kept, unless JAX has a folder for it:
:func:`jaxmkl.compile_cache`, called once, gives it one, ``~/.cache/jaxmkl`` or the folder that you
name. A new process then takes 6 processor seconds in place of 32 to run ``expert_mkl`` over 2,000
examples for the first time (two cores of a CPU), and its programs take 0.9 MB in the folder, which
only grows and may be deleted at any time. The command ``jaxmkl`` calls it; ``import jaxmkl`` does
not.
"""
