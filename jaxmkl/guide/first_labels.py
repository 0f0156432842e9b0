"""First ten minutes: labelling, and a model in use.

If labels are expensive, let the learner say which ones it wants. In a terminal, this command shows
the rows that are worth a label, learns each label that you enter, and saves everything:

    jaxmkl ask reviews.csv --target kind --classes good,bad --budget 100 --save kind.npz

In Python, ``query`` says whether a label is wanted, and ``update`` learns one whenever it comes:

>>> import jax, jaxmkl, numpy as np, tempfile
>>> X = np.random.default_rng(0).normal(size=(200, 2))
>>> truth = X[:, 0] * X[:, 1] > 0
>>> kernels = jaxmkl.Gaussian([0.5, 1.0])
>>> learner = jaxmkl.raker(kernels, loss="logistic", query=jaxmkl.query.Rate(0.3))
>>> state = learner.init(jax.random.key(1), num_inputs=2)
>>> asked = 0
>>> for x, label in zip(X, truth):
...     prediction, state = learner.ask(state, x)           # value > 0 is the positive class
...     if prediction.query:
...         state, asked = learner.update(state, x, label), asked + 1
...     else:
...         state = learner.skip(state, x)
>>> 0 < asked < 200                                         # the share falls to .3 in time
True

A model in use is kept in a file. Another process continues from there, bit for bit:

>>> jaxmkl.save(path := tempfile.mkdtemp() + "/model.npz", learner, state)
>>> learner, state = jaxmkl.load(path)
>>> learner.predict_many(state, X[:4]).value.shape
(4,)

- A state does not keep the words of its labels, so keep the classes yourself: at first call
  ``y, classes = jaxmkl.labels.labels(words)``, and
  ``y, _ = jaxmkl.labels.labels(words, classes)`` from then on.
- Rows that cannot be learned from are skipped, and ``state.invalid`` counts them. Probabilities
  come from ``jaxmkl.wrappers.probabilities(learner)``.

Next: :mod:`jaxmkl.guide.labels` (rates, budgets, late labels, pools), :mod:`jaxmkl.checkpoint`.
"""
