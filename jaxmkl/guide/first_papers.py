"""First ten minutes: knowing the papers.

Algorithms have their papers' names, and parameters in words; the docstring of each has the update
in the paper's symbols, the reference, and where it differs from the paper and why.

>>> import jax, jaxmkl, numpy as np
>>> X = np.random.default_rng(0).uniform(size=(400, 4))
>>> y = np.sin(5 * X[:, 0]) / 2 + 0.5
>>> learner = jaxmkl.amkl_aks(tolerance=0.01, num_features=20)      # Hong and Chae
>>> state = learner.init(jax.random.key(1), num_inputs=4)
>>> state, outputs = jaxmkl.run(learner, state, X, y)
>>> jax.jit(jaxmkl.metrics.running_mse)(outputs.prediction, y).shape, outputs.queried.shape
((400,), (400,))

Papers report means over orders of a data set. Each key is an order and a draw of the features:

>>> keys = jax.random.split(jax.random.key(2), 5)
>>> _, outputs = jaxmkl.run_many(learner, keys, X, y, permute=True)
>>> losses, asked = (np.asarray(of).mean(axis=1) for of in (outputs.loss, outputs.queried))
>>> losses.shape, asked.shape
((5,), (5,))

An algorithm is four parts, and another paper's idea is another part:

>>> repr(learner.select)[:23], type(learner.query).__name__, type(learner.aggregate).__name__
('AdaptiveKernelSelection', 'Disagreement', 'Hedge')
>>> learner = jaxmkl.MKL(
...     jaxmkl.models.FeatureModels(jaxmkl.Gaussian([0.3, 1.0]), jaxmkl.updates.OGD(0.01)),
...     jaxmkl.aggregate.Hedge(0.5), jaxmkl.select.All(), jaxmkl.query.Rate(0.2))

- ``python -m experiments amkl`` (or ``bomkl oks design multitask``) reproduces a paper's table,
  with the printed figures beside ours; ``--seeds`` and ``--set NAME=VALUE`` change it.
- :func:`jaxmkl.recipes.published` makes learners with the papers' own settings. The defaults
  differ where these need the length of the stream, or data scaled in the same way.

Next: :mod:`jaxmkl.guide.symbols` (each symbol, its name here, the papers),
:mod:`jaxmkl.guide.choose`, :mod:`jaxmkl.guide.extend` (a new paper in ten lines).
"""
