"""The architecture in pictures: the files, the four questions, blocks and rounds.

## The files

Imports point down this list; a private module is imported by its own package alone.

    jaxmkl
    ├── guide/          these pages
    ├── cli/            the command: run, predict, ask, serve, select, info, export
    ├── sklearn/        the same as estimators for scikit-learn
    ├── export/         pipelines as files that predict without JAX
    ├── tables/         files and frames: formats, kinds of columns, targets, pipelines in files
    ├── command_line.py options and messages that the command shares with the experiments
    ├── evaluate/       scores, curves, baselines, candidates, rows of results: plain values
    ├── recipes/        the papers' algorithms by name, each a row of parts
    ├── testing/        check_learner and check_kernel: the contract, for parts of one's own
    ├── design/         points of a pool that are worth labelling
    ├── mkl.py          the composed learner;  merging.py  shards become one
    ├── streaming/      run, run_many, stream, run_fleet; the engine that scans blocks; sparse rows
    ├── checkpoint.py   learners and states in files
    ├── wrappers/       learners around a learner: scaling, metrics, budgets, late labels
    ├── learners/       learners that are not composed: moving kernels, sketches, many tasks
    ├── models/         banks: on features, with a learned metric, trees, supports, neighbours
    ├── _algorithm.py   the frame of all algorithms;  _learner.py  the protocol
    ├── aggregate/  query.py  select.py       three of the four questions
    ├── updates/        rules: gradient steps, passive aggressive, least squares, optax
    ├── abilities/      functions for some parts only: growth, merging, late labels, importances
    ├── reservoir.py    the memory from which kernels are learned, a sample of labelled examples
    ├── features/       maps to coordinates: Fourier, sampled dictionary, linear
    ├── kernels/        stationary, dot product, sums and products, spaces of kernels
    ├── metrics/        errors, probabilities and densities of a run, in NumPy and JAX alike
    ├── distributions.py  losses.py  optimizers.py  labels.py
    └── _pytree.py      frozen dataclasses as pytrees, declared fields;  pytree.py  for yours

A call of ``jaxmkl.run`` goes one way through it:

    run ──> checks ──> engine (blocks, padding) ──> learner (frame) ──> banks ──> rules
     ^                                                 │
     └───── state, outputs ────────────────────────────┘

## Four questions

Each answer is a part, a value; any four make a learner, :class:`jaxmkl.MKL`.

                 x                                              y, if it was asked for
                 │                                                        │
                 v                                                        v
    models       f_1 ... f_E, one value each                   each takes a step of its rule
                 │                                                        ^
                 v                                                        │
    select       which of them are active ──────────────────── which of them learn
                 │                                                        ^
                 v                                                        │
    aggregate    one prediction, weights of the models ─────── the models are judged
                 │                                                        ^
                 v                                                        │
    query        is the label worth asking for? ── yes ──> the label ─────┘
                                                └─ no ───> skip

The methods of the parts are in :mod:`jaxmkl.guide.extend`.

## Blocks and rounds

A round is sequential, but most of its work is not: features and inner products of an example do
not depend on what is learned meanwhile. So B rounds share one encoding, by large products.

    rounds   0  1  2  3 │ 4  5  6  7 │ 8  9  .  .      B = 4; blocks begin at multiples of B
             encode     │ encode     │ encode          once a block: X (B, D) -> codes
             p  p  p  p │ p  p  p  p │ p  p            predict from one code: small
              u  u  u  u│  u  u  u  u│  u  u           update: small
                   close│       close│                 after a block, e.g. move its new supports

The places marked by dots are padding: rounds that are not there, which change no bit of the state.
As blocks are aligned with rounds, a run that is cut anywhere and resumed has the same blocks, and
continues bit for bit:

>>> import jax, jaxmkl, numpy as np
>>> learner, X = jaxmkl.raker(num_features=5), np.random.default_rng(0).normal(size=(30, 2))
>>> start = learner.init(jax.random.key(1), num_inputs=2)
>>> whole, _ = jaxmkl.run(learner, start, X, X[:, 0], block_size=8)
>>> state, _ = jaxmkl.run(learner, start, X[:13], X[:13, 0], block_size=8)
>>> state, _ = jaxmkl.run(learner, state, X[13:], X[13:, 0], block_size=8)
>>> bool((state.models[0].rules[0].weights == whole.models[0].rules[0].weights).all())
True

Late labels, budgets and scalers are learners around a learner; they see the same blocks.
"""
