"""Decide by epistemic variances: bandits, optimisation of a function, labels.

Learners with least squares predict two variances (:mod:`jaxmkl.mkl`). ``prediction.epistemic`` is
the variance of the learner's own function, and shrinks with every label: explore by it.
``prediction.variance`` adds the noise of the label, which no choice removes.

## Which arm: a contextual bandit

In each round a context comes, one arm is pulled, and only its reward is seen. One learner per arm
is one learner with a leading axis in its state. All arms predict; the state of the arm that is
pulled is taken out, learns the reward, and is put back. All arms share an estimate of the noise:

>>> import jax, jax.numpy as jnp, jaxmkl, numpy as np
>>> bank = jaxmkl.models.FeatureModels(
...     jaxmkl.Gaussian([0.3, 1.0]),
...     jaxmkl.updates.RLS(0.1),
...     jaxmkl.features.FourierFeatures(20),
... )
>>> learner, arms = jaxmkl.MKL(bank), 3
>>> def pull(states, inputs):
...     x, key = inputs
...     said = jax.vmap(learner.predict, (0, None))(states, x)
...     own, common = jax.random.split(key)
...     draws = jax.random.normal(own, (arms,)) + jax.random.normal(common)
...     arm = jnp.argmax(said.value + jnp.sqrt(said.epistemic / 2) * draws)
...     reward = jnp.cos(x[0] - 2 * arm)                        # the world's answer
...     one = learner.update(jax.tree.map(lambda leaf: leaf[arm], states), x, reward)
...     states = jax.tree.map(lambda leaf, new: leaf.at[arm].set(new), states, one)
...     states = states.replace(noise=jax.tree.map(jnp.full_like, states.noise, one.noise))
...     return states, jnp.cos(x[0] - 2 * jnp.arange(arms)).max() - reward
>>> X = np.random.default_rng(0).normal(size=(300, 3))
>>> keys = jax.random.split(jax.random.key(2), 300)
>>> states = jax.jit(jax.vmap(lambda key: learner.init(key, num_inputs=3)))(keys[:arms])
>>> states, regret = jax.lax.scan(pull, states, (X, keys))
>>> bool(regret[150:].mean() < 0.3 * regret[:50].mean())
True

This is Thompson sampling: an arm is pulled about as often as it may be the best. If each of many
arms has a draw of its own, the largest is nearly always far off, so here half of the variance of a
draw is common to all arms. Epsilon-greedy instead pulls any arm with a fixed probability, and pays
for it forever. Thompson sampling has .57 and .35 of the regret of epsilon-greedy with ε = .1 on
two generated bandits, and .65 on images of digits, with ten arms, 64 inputs and 1,797 rounds
(``python -m experiments decisions``). With independent draws it has .79 there. If each arm had its
own estimate of the noise, it could be 0 after a few equal rewards, and end the exploration.

## Which point: Bayesian optimisation

To maximise a function that is expensive to evaluate, take random candidates and others near the
best point so far, and evaluate the one with the highest draw:

>>> def objective(x):                                           # its maximum is 0, at (.7, .7)
...     return -jnp.sum(jnp.square(x - 0.7))
>>> def evaluate(carry, key):
...     state, best, most = carry
...     anywhere, near, chance = jax.random.split(key, 3)
...     close = best[None] + 0.1 * jax.random.normal(near, (50, 2))
...     candidates = jnp.concatenate([jax.random.uniform(anywhere, (50, 2)), close])
...     said = learner.predict_many(state, candidates)
...     draws = said.value + jnp.sqrt(said.epistemic) * jax.random.normal(chance, (100,))
...     x = candidates[jnp.argmax(draws)]
...     value = objective(x)
...     state = learner.update(state, x, value)
...     return (state, jnp.where(value > most, x, best), jnp.maximum(value, most)), value
>>> state, first = learner.init(jax.random.key(1), num_inputs=2), jnp.array([0.1, 0.2])
>>> start = state, first, objective(first)
>>> (_, best, most), values = jax.lax.scan(evaluate, start, keys[:30])
>>> bool(most > -0.01)
True

The prior mean is 0, so standardise the values by those of some random points first. The upper
confidence bound ``said.value + 2 * jnp.sqrt(said.epistemic)`` may replace the draw.

## Which label

``jaxmkl.query.Rate(0.1, by="variance")`` asks for a tenth of the labels by the same variance
(:mod:`jaxmkl.guide.labels`).
"""
