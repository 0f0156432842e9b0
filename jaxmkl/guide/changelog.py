"""Changes by version, the newest first.

## After 0.2.0

**Learners**

- ``expert_mkl()`` learns its kernels, metrics and forests (:mod:`jaxmkl.guide.learned`);
  ``learner.importances(state)``, reports and ``jaxmkl info`` say which inputs matter.
- Its stack knows the last labels and errors; boosted trees stand beside its forest, and
  ``banks="neighbours"`` is new.
- :func:`jaxmkl.recipes.published`: learners as their papers run them.
- Losses are values, as ``Huber(0.5)``, or your own; ``updates.Optax`` is a rule.
- ``kernel.on(columns)``; random features of products of kernels; ``expert_mkl(banks="linear")``.
- ``Hedge(penalty=)``, ``Disagreement(loss=)``, ``Sampled(sampled=)``, ``RemoveUnbiased``,
  ``proj_ka(two_passes=)``, ``oks_sil(gradients=)``.
- Least squares, ``projectron``, ``proj_ka``, ``spa``, ``multitask`` keep digits in float32.

**Uncertainty**

- ``prediction.variance`` and ``epistemic`` of least squares; ``query.Rate(by="variance")``.
- :func:`jaxmkl.wrappers.predictive`: a distribution from any learner of numbers, as
  ``run --density`` and ``Pipeline.predict_interval`` (:mod:`jaxmkl.guide.certainty`).
- :mod:`jaxmkl.metrics`, the command and reports score probabilities and densities.
- ``info.shares`` and ``jaxmkl info`` say which memories, stacks and banks carry predictions
  (:mod:`jaxmkl.guide.drift`).
- :mod:`jaxmkl.guide.decisions`: bandits.

**Speed**

- ``expert_mkl`` starts in a third of the time; other lengths and numbers of seeds compile nothing;
  :func:`jaxmkl.compile_cache` keeps programs (:mod:`jaxmkl.guide.compiling`). The oldest JAX is
  0.10.2.
- GPUs launch half the kernels a round; ``run_many`` and renewals use all cores.

**Warnings and refusals**

- Drivers warn of step sizes that cannot converge, learners that run away (``state.nonfinite``),
  kernel values that overflow, targets and inputs that tell nothing or lose digits, heavy tails,
  and predictions worse than the mean; ``MKLClassifier`` of rows sorted by class.
- Refused are masked arrays, complex numbers, states in float16, labels in words where a state is
  continued, 2^27 frequencies, tables of over 1,000 classes, undecorated parts.

**Tables and the command**

- ARFF; text as TF-IDF; more forms of numbers (CHF 5, (4%), 5,00-), dates, times and
  durations; 100,000 columns; npz, Parquet and Arrow through pipes; rows of pandas by name.
- Classes such as 007 keep their zeros, labels of pandas their dtypes; estimators learn columns far
  from 0, and have ``predict_log_proba``.
- A first line of CSV that is a row or a title is refused, unless ``--names``, ``--header`` or
  ``--no-header`` say what it is; so are columns of both 999 and 1,234,
  which were text. ``--missing`` names words for gaps; ``--longest-line`` allows longer lines.
- ``jaxmkl serve`` answers rows and learns labels over lines, a socket or HTTP; what it answered
  survives a kill (:mod:`jaxmkl.guide.serving`).
- ``jaxmkl export`` writes a pipeline for NumPy alone, or for StableHLO (:mod:`jaxmkl.export`).
- A pipeline learns: ``pipeline.ask(row)``, ``learn(id, label)`` in any order, ``save(path)``.
- Runs have linear and boosted baselines and say what to do next; reports show effects, residuals,
  recall by class.
- ``predict -`` and ``run -`` answer rows as they come.
- ``--bad-rows N`` skips rows that cannot be read, in Python :class:`jaxmkl.tables.SkippedRows`.
- No file is written that is also read, or twice.

**Pools**

- :func:`jaxmkl.design.from_points` and ``facility``, from a million rows in seconds;
  ``accelerate=False`` and ``steps=`` as published; ``select --method lmkal``; kernels of any size.

**Parts of your own**

- Rules and feature maps may have any state, and are told of a round by a
  :class:`jaxmkl.models.Feedback`; banks learn kernels by ``renewed`` (:mod:`jaxmkl.guide.extend`).
- What some parts can do is a function of :mod:`jaxmkl.abilities`, which they register.
- Type checkers know the states that ``init`` and ``run`` return.
- ``pytree.unconstrain`` and ``constrain``; :mod:`jaxmkl.evaluate`; ``streaming.Stream``.

**Means something else**

- Checkpoints and pipelines of 0.2.0, and most of later ones, are refused by name: make them again.
  Journals of ``ask`` go on.
- ``expert_mkl(banks="fixed")``, or with kernels that are given, has the models of 0.2.0. The
  command and the estimators keep it above 5,000 inputs.
- The command and estimators do not scale inputs that are 0 or 1; ``no`` is before ``Yes``.
- ``Mixture`` and ``Stack`` have other weights, memories and rates.
- ``multitask(loss="hinge", components="both")`` is that of 0.2.0, and the paper's.
- ``amkl``, ``amkl_aks``, ``scaled_targets`` always ask for the first label.
- ``FourierFeatures`` have |z|² = 1; ``scale="sum"`` is as before.
- ``PoolSelector`` and ``jaxmkl select`` choose by TED, of at most 4,000 distinct rows, and take no
  column named target, y, label or class as an input.
- ``design.rrss`` in float32 chooses other points.
- ``design.ted`` takes a share of the mean diagonal; ``share_of="columns"`` is as before.
- A label a hundred times all before it is refused (``state.outlying``).
- ``run`` predicts 0 before a first label, and judges what comes after it.
- :func:`jaxmkl.tables.read` fills gaps of LIBSVM and npz files by the mean so far, and has their
  classes as text. What a sparse row does not name is zero.
- Reports need matplotlib (extra ``cli``).

**Moved, renamed or gone**

| before | now |
|---|---|
| `load_model`, `save_model`, `Model` | `load_pipeline`, `save_pipeline`, `tables.Pipeline` |
| `Pipeline.values` | `tables.Pipeline.predictions` |
| `jaxmkl.data` | `jaxmkl.tables` |
| `labels.codes` | `labels.class_numbers` |
| `models.MultiTask`, `Aligned`, `HypothesisSketch`, `OwnKernels` | `learners.MultiTask`, ... |
| `kernels.InverseTime`, `kernels.Optax` | `optimizers.InverseTime`, `optimizers.FromOptax` |
| `wrappers.Scaled` | `wrappers.ScaledInputs` |
| `learner.capacity(state)`, `enlarged` ... | `abilities.capacity(learner, state)` ... |
| `await_label`; `merged`, ... of parts | `abilities.awaiting`; `abilities.merged`, ... |
| `features.MetricFeatures`; a bank's `learned(state, ...)` | `models.MetricModels`; of `models` |
| `info.num_speaking`; models `speaking` | `info.num_active`; `active` |
| `learner.loss`, a string | a `losses.Loss`, as `update` of an aggregate takes one |
| `SupportModels.update` | `SupportModels.rule` |
| `Stationary.frequency_scale`, `KernelDictionary.bandwidth` | `kernels.Kernel.frequencies` |
| `reservoir=` of banks that learn kernels | `sample=`, and `MKL(memory=)` |
| `wrappers.learned_metric` | `models.MetricModels`, with the memory of the learner |
| `fused=True`, `packed`, `unpacked` | gone: a learner has one form on all devices |
| `metrics.hindsight_losses` | `experiments.hindsight` |
| `updates.SecondOrder` | `updates.Rule` |
| `Aggregate.output`, `cost` | `abilities.signs`, of those that vote or count mistakes |
| `pytree.positive(1.0)` and other declared fields | `pytree.positive(default=1.0)` |
| `Lesson`, its `learns`; `jaxmkl.Round` | `models.Feedback`, its `updates` |
| `Feedback.slope`, `Feedback.weights` | gone: no part read them |
| of learners: `encode_block`, `decide` | `encode`, `predict_code` |
| of learners: `teach`, `close_block` | `update_code` (and whether it learned), `close` |
| of `Algorithm`: `begin`, `encode` | `init_own`, `encode_own` |
| of `Algorithm`: `learn`, `close` | `update_own`, `close_own` |
| of `Algorithm`: `forecast` | `predict_own`: the forecast, and what `update_own` uses again |
| of banks: `learn`; of aggregates: `combine` | `update`; `predict` |
| of scalers: `observe`, `accept` | `predict`, `update` |
| of `SampledDictionary`: `offer`, `accept` | `predict`, `update`; `encode` of maps takes `keys` |
| of stores: `values`, `learn` | `predict`, `update` |
| of evictions: `choose`, `settle` | `step`, `close` |

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
  (``jaxmkl.load_model``), a page of a run (``--report``). ``python -m experiments run`` is
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
| `jaxmkl.MultiTask`, `HypothesisSketch`, `OwnKernels`, ... | `jaxmkl.learners.MultiTask`, ... |
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
