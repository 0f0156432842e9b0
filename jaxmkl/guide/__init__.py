"""Guides, for those who have read README.

The first ten minutes, a page each:

- :mod:`jaxmkl.guide.first_jax`: composing in JAX, with notes for equinox and flax.
- :mod:`jaxmkl.guide.first_papers`: knowing the papers.
- :mod:`jaxmkl.guide.first_table`: with a table.
- :mod:`jaxmkl.guide.first_labels`: labelling, and a model in use.

And then:

- :mod:`jaxmkl.guide.choose`: which learner, for which labels, at which cost.
- :mod:`jaxmkl.guide.own_data`: from a file to results, a model, predictions.
- :mod:`jaxmkl.guide.labels`: ask for few labels: a rate, a budget, late labels, a pool.
- :mod:`jaxmkl.guide.certainty`: distributions, intervals and probabilities of predictions.
- :mod:`jaxmkl.guide.decisions`: bandits and Bayesian optimisation, by epistemic variances.
- :mod:`jaxmkl.guide.learned`: kernels that are learned: metrics and partitions.
- :mod:`jaxmkl.guide.drift`: streams that change.
- :mod:`jaxmkl.guide.serving`: a model in use: serve it, watch it, late labels.
- :mod:`jaxmkl.guide.many_devices`: seeds, fleets, shards, processes, chunks from elsewhere.
- :mod:`jaxmkl.guide.compiling`: when programs are compiled, and how many are kept.
- :mod:`jaxmkl.guide.compose`: learners inside your own JAX code: networks, optax, sweeps.
- :mod:`jaxmkl.guide.architecture`: the files, a round and its blocks in pictures.
- :mod:`jaxmkl.guide.extend`: write a kernel, a loss, an update rule, a feature map, a learner.
- :mod:`jaxmkl.guide.contributing`: set up, which tests when, the files that an addition touches.
- :mod:`jaxmkl.guide.troubleshooting`: common problems, their messages, and what to do.
- :mod:`jaxmkl.guide.symbols`: a glossary, symbols of the papers, their names here, the papers.
- :mod:`jaxmkl.guide.papers`: the papers, equation by equation: the code, and its deviations.
- :mod:`jaxmkl.guide.changelog`: what changed from version to version.

Every example is run as a test. ``help("jaxmkl.guide.labels")`` shows one of them in a terminal.
In a browser all stand beside the reference, by ``pip install pdoc`` and then

    pdoc -d google jaxmkl jaxmkl.checkpoint jaxmkl.cli jaxmkl.export jaxmkl.sklearn
"""
