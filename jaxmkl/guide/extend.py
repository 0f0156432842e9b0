"""Write a kernel, a loss, an update rule, a feature map, a learner of your own.

A part of your own is a frozen pytree: a class made by :func:`jaxmkl.pytree.dataclass`, whose
fields declare what they accept. It then works wherever one of the library's does: in sweeps,
gradients, blocks, checkpoints. The functions of :mod:`jaxmkl.testing` check that it keeps the
contract of its kind.

## A kernel

A kernel needs one method: its values, elementwise, by u = r² / b², the squared distance in units
of the bandwidth. Stacks of bandwidths, a bandwidth for each input, sums and products then work,
too. Further parameters are further fields.

>>> from typing import Any
>>> import jax, jax.numpy as jnp, jaxmkl, numpy as np
>>> from jaxmkl import abilities, kernels, models, pytree, query, updates
>>> @pytree.dataclass
... class Matern52(kernels.Stationary):
...     def profile(self, u):
...         s = jnp.sqrt(5 * u)
...         return (1 + s + s**2 / 3) * jnp.exp(-s)
...     def spectral_scale(self, key, num_features, dtype):
...         g = jax.random.normal(key, (5, self.num_kernels, num_features), dtype)
...         return jnp.sqrt(5 / (g**2).sum(axis=0))
>>> jaxmkl.testing.check_kernel(Matern52(0.7))

The second method is for random features, and may be left out: without it the kernel works in
learners with supports, and is refused where features are needed. By Bochner's theorem a kernel of
differences is the mean of cos(v·(x - x')) over frequencies v. If it depends on the distance alone,
then for bandwidth 1 v = s g, with g standard normal and a random scale s; the method draws s
(P, F). The law of s² follows from the kernel's values κ(u) by a Laplace transform, κ(u) =
E exp(-s² u / 2): above it is that of 5 over a chi-squared variable of 5 degrees of freedom.

For a kernel of the inner product, subclass :class:`jaxmkl.kernels.DotProduct`; for any other, such
as a periodic one, :class:`jaxmkl.kernels.Kernel`, whose docstring has its methods. All can be used
in sums, products, multiples and dictionaries, and on some columns:

>>> season = Matern52(0.7).on([0]) * jaxmkl.Gaussian([0.5, 2.0]).on([1, 2])
>>> jax.jit(season.gram)(np.zeros((1, 3)), np.ones((1, 3))).shape
(2, 1, 1)

A product has random features if its factors have: its frequencies are sums of theirs. So has a
kernel on some columns: its frequencies are 0 for the others.

## A loss

A loss has a task and values, elementwise. The slope by the prediction comes from automatic
differentiation, unless the loss defines ``slope``, as for a kink. Numbers are fields, which are
swept and differentiated like those of a kernel.

>>> @pytree.dataclass
... class LogCosh(jaxmkl.losses.Loss):
...     task = "regression"
...     def value(self, prediction, y):
...         return jnp.log(jnp.cosh(prediction - y))
>>> bank = models.FeatureModels(jaxmkl.Gaussian(1.0), updates.OGD(0.1, loss=LogCosh()))
>>> jaxmkl.MKL(bank).loss
LogCosh()

Every rule of gradient descent, every aggregate and every recipe with a ``loss`` takes it; labels
of classes are -1 and +1. If you know a bound of its second derivative, here 1, define
``curvature = 1.0``: then learners warn of step sizes that cannot converge.

## An update rule

A rule needs one method, which computes a coefficient from the models' values f, the label y and
the squared norm k(x, x) of the example. It then serves models on features and models with
supports. This one is passive aggressive regression (Crammer et al., 2006), which takes no step
while the error is below ε.

>>> @pytree.dataclass
... class PassiveAggressiveRegression(updates.Update):
...     epsilon: Any = pytree.nonnegative(default=0.1)
...     aggressiveness: Any = pytree.positive(default=1.0)
...     loss = "squared"                              # by which its models are judged
...     def step(self, f, y, norm):
...         epsilon, most = (jnp.asarray(v, f.dtype) for v in (self.epsilon, self.aggressiveness))
...         beyond = jnp.maximum(jnp.abs(y - f) - epsilon, 0)
...         return updates.Step(jnp.sign(y - f) * jnp.minimum(most, beyond / norm))
>>> rule = PassiveAggressiveRegression(epsilon=0.05)
>>> PassiveAggressiveRegression(-1.0)
Traceback (most recent call last):
ValueError: PassiveAggressiveRegression: epsilon must be a finite number of at least 0; got -1.0
>>> on_features = jaxmkl.MKL(models.FeatureModels(jaxmkl.Gaussian([0.5, 1.0, 2.0]), rule))
>>> on_supports = jaxmkl.MKL(models.SupportModels(Matern52([0.5, 1.0, 2.0]), rule))
>>> X = np.random.default_rng(0).normal(size=(300, 2))
>>> y = np.sin(2 * X[:, 0])
>>> for learner in on_features, on_supports:
...     state = learner.init(jax.random.key(1), num_inputs=2)
...     state, outputs = jaxmkl.run(learner, state, X, y)
...     print(bool(outputs.loss[200:].mean() < y.var() / 4))
True
True

Numbers of a rule are cast to the dtype of ``f`` where they are used, so that a run in single
precision stays in it.

On features, transformations of gradients by optax are rules: ``updates.Optax(optax.adam(1e-2))``.
A rule with a state of another kind is an :class:`jaxmkl.updates.Rule`, with ``init``, ``predict``
and ``update`` of its own.

## One protocol

Learners, banks of models, rules, feature maps, stores of supports, aggregates, scalers: every part
with a state has the same few methods, as far as it needs them. A part predicts, passes
intermediate results (``aux``) to its update, and gets the ``feedback`` of the round, a
:class:`jaxmkl.models.Feedback`.

    init(...)                          -> state
    encode(state, block)               -> codes         once a block: large products, no labels
    predict(state, code)               -> (out, aux)    in every round
    update(state, code, aux, feedback) -> state         in every round, labelled or not
    close(state, codes, round)         -> state         once a block

    block X ──> bank.encode ──> map.encode ──> Z ──> rule.encode ──> codes
                                                                       │ one code a round
          feedback: y, updates,              map.predict ──> z ──> rule.predict ──> values
          seen, present, ...                     │ aux                │ aux           │
               │                                 v                    v               v
               ├──────────> rule.update, map.update             aggregate: prediction, query
               └── the label, where it was asked for <────────────────┘

## A feature map

A :class:`jaxmkl.features.FeatureMap` computes the coordinates z of an example. It may learn, and
keeps its state in the bank's. This one divides each input by its root mean square so far; it is
``sequential``, because features change from one example to the next.

>>> from jaxmkl.features import FeatureMap
>>> @pytree.dataclass
... class RunningScale(FeatureMap):
...     sequential = True
...     def num_coordinates(self, num_inputs):
...         return num_inputs
...     def init(self, key, kernels, num_inputs, dtype=None):
...         return jnp.ones(num_inputs, dtype), jnp.ones((), dtype)     # Σ x², how many
...     def encode(self, state, kernels, X, round, keys):
...         return X
...     def predict(self, state, x):
...         return (x * jnp.sqrt((state[1] + 1) / (state[0] + x**2)))[None], x
...     def update(self, state, code, x, feedback):
...         seen = feedback.seen.astype(x.dtype)
...         return state[0] + seen * x**2, state[1] + seen
>>> bank = models.FeatureModels(jaxmkl.Linear(), updates.OGD(0.1), RunningScale())
>>> learner = jaxmkl.MKL(bank)
>>> state, outputs = jaxmkl.run(learner, learner.init(jax.random.key(1), 2), 100 * X, X[:, 1])
>>> bool(outputs.loss[-100:].mean() < 0.01)
True

A map that learns only in rounds that its ``period`` divides changes in ``close``, and computes
features a block at a time. A bank that learns its kernels from examples defines ``first`` and
registers :func:`jaxmkl.abilities.renewed`, which gets the memory of the learner.

## What only some parts can do

Growing, merging, waiting for labels, variances, importances of the inputs: these are functions in
:mod:`jaxmkl.abilities`, chosen by the class of their first argument. A part of your own registers
what it can beside its class. A composed learner or a wrapper then can do it, too:

>>> @abilities.squared_norms.register
... def _(rule: PassiveAggressiveRegression, state):
...     return jnp.sum(state.weights**2, axis=-1).transpose(1, 2, 0)     # (K, R, P)
>>> abilities.can(abilities.squared_norms, rule), abilities.can(abilities.merged, rule)
(True, False)

## A learner

Most new algorithms are one new part: a rule, a query (:class:`jaxmkl.query.Query`), a selection
(:class:`jaxmkl.select.Select`), an aggregate (:class:`jaxmkl.aggregate.Aggregate`), an eviction
(:class:`jaxmkl.models.supports.Eviction`), a bank of models (:class:`jaxmkl.models.Bank`), or a
wrapper of a learner (:class:`jaxmkl.wrappers.Wrapper`). Any other algorithm is a
:class:`jaxmkl.Algorithm` with four methods:

    init_own      the state: fields of the frame, and your own
    encode_own    codes of a block of examples: all that needs no label, for all rows at once
    predict_own   the prediction from one code, and results that the update uses again
    update_own    the next state

The frame defines ``init``, ``encode``, ``predict``, ``update`` and ``close`` by these, and handles
the rest: key, rounds, refused examples, classes as ±1, queries, blocks. This algorithm has a few
prototypes, each with the mean label of the examples that were nearest to it:

>>> @pytree.dataclass
... class PrototypesState(jaxmkl.State):
...     centres: jax.Array  # (C, D)
...     means: jax.Array    # (C,)
...     counts: jax.Array   # (C,)
>>> @pytree.dataclass
... class Prototypes(jaxmkl.Algorithm):
...     size: int = pytree.count(default=16)
...     query: Any = pytree.part(query.Query, "a query", default=query.All())
...     loss = "squared"
...     def init_own(self, frame, key, num_inputs, dtype):
...         centres = jax.random.normal(key, (self.size, num_inputs), dtype)
...         none = jnp.zeros(self.size, dtype)
...         return PrototypesState(**frame, centres=centres, means=none, counts=none)
...     def encode_own(self, state, X, keys):
...         distances = ((X[:, None] - state.centres[None]) ** 2).sum(axis=2)
...         return distances.argmin(axis=1)
...     def predict_own(self, state, nearest):
...         value = state.means[nearest]
...         return query.Forecast.of_one(value), value
...     def update_own(self, state, nearest, value, feedback):
...         counts = state.counts.at[nearest].add(feedback.updates.astype(state.counts.dtype))
...         share = jnp.where(feedback.updates, 1 / jnp.maximum(counts[nearest], 1), 0)
...         means = state.means.at[nearest].add(share * (feedback.y - value))
...         return state.replace(means=means, counts=counts)
>>> jaxmkl.testing.check_learner(Prototypes(4))
>>> learner = jaxmkl.label_budget(Prototypes(30, query.Random(0.8)), 200)
>>> state = learner.init(jax.random.key(1), num_inputs=2)
>>> state, outputs = jaxmkl.run(learner, state, X, y)
>>> bool(outputs.loss[200:].mean() < y.var() / 2)
True

## What to keep to

- ``encode_own`` may read only what a block does not change: ``centres`` here, not ``means``.
- ``update_own`` changes nothing that labels determine unless ``feedback.updates``, and no bit at
  all unless ``feedback.present``: mask the change, not the state.
- Random numbers come from the ``keys`` given to ``encode_own``; ``init_own`` has its own key.
- Arrays have the state's dtype; counters are int32. Shapes never depend on values.
- Arrays belong in fields of the state, not in closures.

A class is saved by its module and name, so import it before calling :func:`jaxmkl.load`.

## In the command and in scikit-learn

``jaxmkl.LEARNERS`` has the recipes by name. Add yours, a function that makes a learner or its
class, and the command knows it if it is started from Python:
``jaxmkl.cli.main(["run", FILE, "--learner", "prototypes,raker", "--set", "size=30"])`` (import
``jaxmkl.cli`` first), and likewise ``predict`` with a pipeline that it saved. The tables of the
papers have it, too: ``experiments.__main__.main(["amkl", "--algorithms", "prototypes,raker"])``.

>>> jaxmkl.LEARNERS["prototypes"] = Prototypes
>>> made, _ = jaxmkl.evaluate.candidates(["prototypes", "raker"], "regression", 0, {"size": 30})
>>> [one.name for one in made], made[0].parameters["size"]
(['prototypes', 'raker'], 30)
>>> del jaxmkl.LEARNERS["prototypes"]

``MKLRegressor`` and ``MKLClassifier`` of ``jaxmkl.sklearn`` take such a function, or a learner.
"""
