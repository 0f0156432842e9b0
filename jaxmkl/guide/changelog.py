"""What changed, the newest version first.

## 0.2.0

**New**

- One composed learner, :class:`jaxmkl.MKL`: models, an aggregate, a selection and a query, any of
  each. ``FeatureMKL`` and ``SupportMKL`` are gone; the papers' algorithms keep their names and are
  rows of parts (:mod:`jaxmkl.recipes`).
- :class:`jaxmkl.aggregate.Mixture` and :class:`jaxmkl.aggregate.Stack`, on which
  :func:`jaxmkl.expert_mkl` now stands: no rate to choose, changes are followed.
- :class:`jaxmkl.query.Rate`: a share of labels that is kept. Every learner takes every query;
  predictions carry the ``score``, and ``predict_many`` ranks a pool by it.
- Several targets (``num_outputs``), several classes (``num_classes``,
  :func:`jaxmkl.wrappers.one_vs_rest`).
- Wrappers: :func:`jaxmkl.wrappers.scaled_targets`, :func:`jaxmkl.wrappers.intervals`,
  :func:`jaxmkl.wrappers.probabilities`, :func:`jaxmkl.wrappers.lagged`,
  :func:`jaxmkl.wrappers.delayed`, and ``run(..., delay=N)``.
- ``ask`` and ``update`` for labels that come late; budgets count what is asked.
- :func:`jaxmkl.run_fleet`: many small learners, each on a stream of its own;
  :func:`jaxmkl.merge`: shards of a stream that least squares learned apart become one model.
- ``mesh=`` of :func:`jaxmkl.run_many`: any number of runs on the devices of one process or of
  several, whose states :func:`jaxmkl.save` takes (:mod:`jaxmkl.guide.many_devices`).
- Kernels add and multiply; a bandwidth for each input; a kernel of one's own is one method.
  :class:`jaxmkl.updates.NormalizedOGD`, ``loss="huber"``,
  :class:`jaxmkl.features.LinearFeatures`.
- :mod:`jaxmkl.testing`: whether a kernel or a learner of one's own keeps what others promise.
- A run that diverges warns; a state of another learner is refused; streams of most lengths need no
  compilation of their own; drivers work inside ``jit``, ``lax.map`` and ``checkpoint``.
- The command ``jaxmkl`` for files of one's own (the extra ``cli``), and in Python
  :mod:`jaxmkl.tables`: CSV, Parquet, Arrow, NDJSON and DataFrames, models in files
  (:func:`jaxmkl.load_model`), a page of a run (``--report``). ``python -m experiments run`` is
  gone; :func:`jaxmkl.tables.read` fills missing numbers by the mean of what came before, no more
  by the median.
- ``jaxmkl run --checkpoint``: a run that is killed goes on as if nothing had happened; in Python
  :class:`jaxmkl.streaming.Checkpoints`. LIBSVM files are read in chunks, too.
- ``jaxmkl ask``: a person at the terminal, or a process by JSON lines, labels rows; each answer is
  learned at once, kept, and can be undone.
- ``jaxmkl.sklearn``: estimators for scikit-learn, and so for river.
- Damaged files, tables and models alike, are read whole or refused by name; nothing is made of
  what a file only claims to hold. Counts and running means go on after 2^24 numbers and 2^31
  rounds.
- These guides.

**Moved or renamed**

| 0.1.0 | 0.2.0 |
|---|---|
| `jaxmkl.Hedge`, `Uniform`, `DrawOne` | `jaxmkl.aggregate.Hedge`, ... |
| `jaxmkl.Always`, `Confidence` | `jaxmkl.query.All`, `Disagreement` |
| `jaxmkl.Unsure`, `Chance` | `jaxmkl.query.Uncertainty`, `Random` |
| `jaxmkl.Margin` | `jaxmkl.query.Margin` |
| `jaxmkl.AllKernels`, `LearnAll` | `jaxmkl.select.All` |
| `jaxmkl.AdaptiveKernelSelection` | `jaxmkl.select.AdaptiveKernelSelection` |
| `jaxmkl.LearnSampled` | `jaxmkl.select.Sampled` |
| `jaxmkl.GradientDescent`, `OGD` | `jaxmkl.updates.OGD`, for features and supports |
| `jaxmkl.Perceptron`, `PassiveAggressive`, ..., `RLS` | `jaxmkl.updates.Perceptron`, ... |
| `jaxmkl.DenseSupport`, `SparseSupport`, `BudgetSupport` | `jaxmkl.models.DenseSupport`, ... |
| `jaxmkl.RemoveOldest`, `Project`, ... | `jaxmkl.models.supports.RemoveOldest`, ... |
| `jaxmkl.FourierFeatures`, `SampledDictionary` | `jaxmkl.features.FourierFeatures`, ... |
| `jaxmkl.MultiTask`, `HypothesisSketch`, `OwnKernels`, ... | `jaxmkl.models.MultiTask`, ... |
| `jaxmkl.RunningMoments`, `RunningRanks`, `Scaled` | `jaxmkl.wrappers.RunningMoments`, ... |
| `jaxmkl.GaussianWidths`, `Optax`, `WeightedSum`, ... | `jaxmkl.kernels.GaussianWidths`, ... |
| `jaxmkl.SparseRows`, `without_info` | `jaxmkl.streaming.SparseRows`, ... |
| the arguments `labelling=`, `selection=` | `query=`, `select=` |

**Means something else**

- ``regularization`` λ is that of λ/2 |f|² everywhere: the .01 of ``raker`` is .02 now, the same
  penalty.
- :func:`jaxmkl.expert_mkl` has eight kernels of 72 orthogonal features in place of 17 of 50, and a
  stack in place of Hedge; ``hedge_rate=1.0`` brings Hedge back.
- :class:`jaxmkl.wrappers.RunningMoments` clips values ten deviations off; ``clip=None`` does not.
- ``step``, ``update`` and a run under ``jit`` read labels of classes by their sign, as the drivers
  do; they took the number as it was.
- Checkpoints have format 3; those of 0.1.0 are refused by name.
"""
