"""Ask for few labels: at a rate, on a budget, with labels that arrive late, from a pool.

A learner's prediction says whether it wants the label (``query``), and how much the label is worth
(``score``). In a run it gets only the labels that it asked for; ``outputs.queried`` says which.
Losses are recorded for all examples, whether their labels were asked for or not.

## A share of the labels

:class:`jaxmkl.query.Rate` asks for a given share of the labels on any stream, preferably where the
models disagree or the classes are close. It goes into any learner:

>>> import jax, jaxmkl, numpy as np
>>> from jaxmkl import query
>>> kernels = jaxmkl.Gaussian([0.3, 1.0, 3.0])
>>> X = np.random.default_rng(0).normal(size=(1000, 2))
>>> y = np.sin(2 * X[:, 0]) * X[:, 1] > 0
>>> learner = jaxmkl.raker(kernels, loss="logistic", query=query.Rate(0.2))
>>> start = learner.init(jax.random.key(1), num_inputs=2)
>>> state, outputs = jaxmkl.run(learner, start, X, y)
>>> error = outputs.loss.mean()
>>> bool(180 <= outputs.queried.sum() <= 220)
True

:mod:`jaxmkl.query` has the queries of the papers too: ``Disagreement`` has a tolerance, ``Margin``
and ``Uncertainty`` ask at random, less often the more certain the learner is, and ``Random`` is a
baseline. Always compare with it: on some streams random labels are as good.

In regression, some learners know their variance: those with least squares, such as ``expert_mkl``.
They may choose labels by it, instead of by the disagreement of their models. The models may agree
where they know little; the variance is large there, so no further labels need to be drawn by
chance.

>>> by_variance = query.Rate(0.1, by="variance")
>>> learner_of_numbers = jaxmkl.expert_mkl(banks="fixed", query=by_variance)

With a tenth of the labels, the variance gives lower errors than labels drawn by chance on six of
seven streams, by 2 to 20 %, and equal ones on the seventh. Its errors are lower than those of
disagreement on two of these streams, and within 3 % of them on the others (``python -m experiments
decisions``).

## A number of labels

:func:`jaxmkl.label_budget` limits the number of labels, around any learner with any query:

>>> capped = jaxmkl.label_budget(learner, 50)

## Labels that arrive late

If a person labels the examples, labels arrive some time after the query. ``ask`` predicts, and
counts the query at once; ``update`` learns when the label arrives; ``skip`` passes an example
without a query. So a rate and a budget hold however late the labels are.

>>> state = capped.init(jax.random.key(1), num_inputs=2)
>>> waiting = []
>>> for x, label in zip(X[:100], y[:100]):
...     prediction, state = capped.ask(state, x)
...     if prediction.query:
...         waiting.append((x, label))                  # ask a person for it
...     else:
...         state = capped.skip(state, x)
...     if len(waiting) > 5:                            # a label arrives
...         state = capped.update(state, *waiting.pop(0))
>>> asked = 50 - int(state.remaining)
>>> 0 < asked <= 50, len(waiting)
(True, 5)

``run(..., delay=N)`` simulates a delay of N rounds if all labels are known already
(:func:`jaxmkl.wrappers.delayed`):

>>> state, outputs = jaxmkl.run(learner, start, X, y, delay=100)
>>> bool(outputs.loss.mean() > error)
True

## A pool

In a pool all points are known, and none is labelled yet. The first points are chosen without any
label: :func:`jaxmkl.design.from_points` chooses those from which the others can be reconstructed
best. It standardises the columns, and takes one Gaussian as wide as the median distance of the
points. In a pool of more than 4,000 points it considers 4,000 that are drawn at random.
``jaxmkl.sklearn.PoolSelector`` and ``jaxmkl select`` do the same.

>>> pool, truth = X[:300], y[:300]
>>> first = np.asarray(jaxmkl.design.from_points(pool, 10).ranking)
>>> first.shape
(10,)

``method="facility"`` chooses points that are near to many others. It suits many classes, and
learners that predict by neighbours. Both methods are likely to miss a cluster of one point in a
thousand.

Label these points first, and after them repeatedly the point with the largest score. ``Margin``
scores a point by how close its classes are. The order of the pool means nothing, so there is no
``skip``:

>>> learner = jaxmkl.raker(kernels, loss="logistic", query=query.Margin())
>>> state = learner.init(jax.random.key(1), num_inputs=2)
>>> known = np.zeros(300, bool)
>>> for number in range(60):
...     if number < 10:
...         i = first[number]
...     else:
...         i = np.where(known, -np.inf, learner.predict_many(state, pool).score).argmax()
...     known[i] = True
...     state = learner.update(state, pool[i], truth[i])        # a person's answer
>>> int(known.sum())
60
>>> right = (np.asarray(learner.predict_many(state, pool).value) > 0) == truth
>>> bool(right.mean() > 0.8)
True

How much is this worth? On nine pools an SVC was trained on the points so chosen, 20 at first and
then those of the smallest margin. It was more accurate than on random points, by 4.3 percentage
points with 10 to 50 labels, and by 4.8 with 60 to 200. If the first five points are random and the
others those of the smallest margin, the gain is 0.5 and 4.6 (``python -m experiments design
--parts rounds``).

To label several points at a time, take the largest scores, ``jax.lax.top_k(score, 5)[1]``. They
may be neighbours, so for large batches choose among the best by ``design`` again.

## Without any code

``jaxmkl select`` ranks the first rows of a pool, and ``jaxmkl ask`` continues from there: it asks
for those rows first, then for the most uncertain rows of the pool, and learns the labels.

    jaxmkl select pool.csv --num 20 --out first.csv
    jaxmkl ask first.csv --pool pool.csv --target kind --classes tree,bush --budget 200

Without a pool, ``jaxmkl ask FILE --budget 50`` goes through the rows of a table in their order,
shows in a terminal those that are worth a label, and learns the labels that you enter. With
``--jsonl`` it talks to another process in place of a terminal. :mod:`jaxmkl.cli.ask` describes all
of it.
"""
