"""Ask for few labels: at a rate, on a budget, with answers that come late, from a pool.

A learner's prediction says whether it wants the label (``query``), and how much that would be
worth (``score``). In a run it gets the labels that it asked for and no others; ``outputs.queried``
says which. Losses are of all examples, asked or not.

## A share of the labels

:class:`jaxmkl.query.Rate` keeps a share, whatever the stream does, and spends it where the models
disagree or the classes are close. It goes into any learner:

>>> import jax, jax.numpy as jnp, jaxmkl
>>> from jaxmkl import query
>>> kernels = jaxmkl.Gaussian([0.3, 1.0, 3.0])
>>> X = jax.random.normal(jax.random.key(0), (1000, 2))
>>> y = jnp.sin(2 * X[:, 0]) * X[:, 1] > 0
>>> learner = jaxmkl.raker(kernels, loss="logistic", query=query.Rate(0.2))
>>> start = learner.init(jax.random.key(1), num_inputs=2)
>>> state, outputs = jaxmkl.run(learner, start, X, y)
>>> error = outputs.loss.mean()
>>> bool(180 <= outputs.queried.sum() <= 220)
True

:mod:`jaxmkl.query` has the others, as the papers have them: ``Disagreement`` by a tolerance,
``Margin`` and ``Uncertainty`` by chance that falls with how sure the learner is, and ``Random`` to
compare with. Always compare: on some streams a label at random is as good.

## A number of labels

:func:`jaxmkl.label_budget` ends the questions after so many, around any learner and any query:

>>> capped = jaxmkl.label_budget(learner, 50)

## Labels that come late

Where a person answers, questions and answers are apart. ``ask`` predicts and counts the question
at once; ``update`` learns whenever the answer is there; ``skip`` tells of an example without a
question. So a rate and a budget hold however late the answers are.

>>> ask, update, skip = jax.jit(capped.ask), jax.jit(capped.update), jax.jit(capped.skip)
>>> state = capped.init(jax.random.key(1), num_inputs=2)
>>> waiting = []
>>> for x, label in zip(X[:100], y[:100]):
...     prediction, state = ask(state, x)
...     if prediction.query:
...         waiting.append((x, label))                  # put the question to somebody
...     else:
...         state = skip(state, x)
...     if len(waiting) > 5:                            # an answer arrives
...         state = update(state, *waiting.pop(0))
>>> asked = 50 - int(state.remaining)
>>> 0 < asked <= 50, len(waiting)
(True, 5)

To try beforehand what a delay of N rounds costs, ``run(..., delay=N)`` plays it on labels that are
all there (:func:`jaxmkl.wrappers.delayed`):

>>> state, outputs = jaxmkl.run(learner, start, X, y, delay=100)
>>> bool(outputs.loss.mean() > error)
True

## A pool

Nothing is labelled yet, and all points are there. First choose some without any label: those
from which the others can be rebuilt best (:mod:`jaxmkl.design`), with one Gaussian as wide as the
median distance of the points, whose columns are standardised. ``jaxmkl.sklearn.PoolSelector`` and
``jaxmkl select`` do all of that, and draw 4,000 points from a larger pool to choose among.

>>> pool, truth = X[:300], y[:300]
>>> gram = jaxmkl.Gaussian(jaxmkl.kernels.median_distance(pool)).gram(pool)[0]
>>> first = jaxmkl.design.ted(gram, 0.1, share_of="diagonal", num_points=10).ranking
>>> first.shape
(10,)

Label these, then the one whose score is the largest, again and again. ``Margin`` scores by how
close the classes are. Only learning changes the state here, so there is no ``skip``:

>>> learner = jaxmkl.expert_mkl(
...     kernels, task="classification", num_features=20, query=query.Margin()
... )
>>> state = learner.init(jax.random.key(1), num_inputs=2)
>>> update, look = jax.jit(learner.update), jax.jit(learner.predict_many)
>>> known = jnp.zeros(300, bool)
>>> for number in range(60):
...     if number < 10:
...         i = first[number]
...     else:
...         i = jnp.where(known, -jnp.inf, look(state, pool).score).argmax()
...     known = known.at[i].set(True)
...     state = update(state, pool[i], truth[i])        # a person's answer
>>> int(known.sum())
60
>>> right = (look(state, pool).value > 0) == truth
>>> bool(right.mean() > 0.8)
True

Several points at a time: take the largest scores, ``jax.lax.top_k(score, 5)[1]``; they may be
neighbours, so with large batches choose among the top ones by ``design`` again.

## Without any code

``jaxmkl ask FILE --budget 50`` shows rows of a table in a terminal, those worth a label, and
learns what is answered by a key; ``--pool`` asks for the most unsure first, ``--jsonl`` talks to a
process. :mod:`jaxmkl.cli.ask` has all of it.
"""
