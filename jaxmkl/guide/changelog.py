"""Changes by version, the newest first.

## After 0.2.0

**New**

- Published settings: :func:`jaxmkl.recipes.published` makes each learner of the papers exactly as
  its paper runs it, and :data:`jaxmkl.recipes.settings.SETTINGS` names the place of each constant.
  The tables of results have rows "as published", ``--parts bounds`` plays what theorems bound, and
  :mod:`jaxmkl.guide.papers` maps every equation, theorem and table of the five papers.
- Parts that this needed: ``Hedge(penalty=)`` judges models by their loss and norm;
  ``Disagreement(loss=)``; ``Sampled(sampled=)``, so OMKC(DS) and OMKC(SS);
  ``supports.RemoveUnbiased`` and ``bogd(eviction=)``; ``proj_ka(two_passes=True)``;
  ``oks_sil(gradients="sketches")``; ``accelerate=False`` and ``steps=`` of :mod:`jaxmkl.design`.
- ``projectron`` and ``proj_ka`` keep a factor of their Gram matrix in place of its inverse: in
  single precision they diverged on long streams, and now make the mistakes of double precision.
- Least squares keep their digits in single precision on inputs of any scale: what keeps their
  covariances definite follows the diagonal of these, and labels of examples that rounding drowns
  count for less (:class:`jaxmkl.updates.RLS`). They ran away in silence on raw inputs.
- ``spa``, and other classifiers that weigh values of models on supports, predict the class that
  double precision has where kernel values or weights are too small for single precision. Models
  on supports whose kernel values overflow are counted as diverged, and warned of.
- ``design.lmkal`` finds its weights to the last digits.
- ``multitask`` keeps the sign of predictions far from all points of its dictionary, where kernel
  values are too small for single precision.
- ``run``, ``run_many``, ``stream`` and the estimators warn of predictions that err more than the
  mean of the labels would, with the reason where columns or the target have heavy tails.
- ``state.nonfinite`` also counts, and drivers warn of, learners that run away with finite numbers:
  predictions more than 2^23 times as large as any label, and values of a classifier's models on
  support vectors four times as large as its steps can make them, also behind a vote. A learner
  warns where it is made of step sizes that cannot converge, and names the largest that does. Parts
  of one's own may say ``Kernel.unit``, ``Loss.curvature``, ``Loss.steepest``,
  ``Update.largest_step``, ``Store.reach``, ``Eviction.reach`` and ``FeatureMap.squared_norm``.
- ``spa`` errs on 38.4 % of madelon in single precision, where it was 41.3.
- One memory: ``jaxmkl.MKL(memory=Reservoir(...))`` serves all banks that learn kernels; these say
  by ``sample=`` how many of its examples they look at, in place of ``reservoir=``. A bank of one's
  own learns kernels by defining ``first`` and ``renewed(state, renewal)``. Forests also grow at 3
  times a power of two, and the likelihood of ``expert_mkl`` takes ten steps of rate .2.
- ``run`` and ``stream`` play segments of three shapes, so that a stream of another length compiles
  nothing; kernels are learned by programs of their own, compiled at their first call. So does
  ``run_many`` on CPUs, in groups of few sizes.
- Forests grow in 93 compiled kernels for 258, a quarter to a third faster, and metrics by marginal
  likelihood have derivatives in closed form; thresholds, signs and places in the memory are drawn
  by a hash. A node of one label no longer splits by rounding. A bank's ``renewed(state, renewal)``
  sees ``renewal.filled``, the number of examples that there are.
- Every learner has one form on all devices; ``packed`` and ``unpacked`` are gone. An H100 begins
  28 kernels a round of ``expert_mkl`` for 49, 22.5 with the fixed bank for 19.5, 13.75 of
  ``multitask`` for 11.75 and 20 of ``oks_sil`` for 17; on a CPU a round of ``multitask`` takes
  .4 to .9 of its time, one of ``oks_sil`` .87. ``MultiTaskState`` and ``DictionaryState`` have
  other fields, so older states of these cannot be loaded.
- Large programs are compiled quickly on CPUs where XLA has the option (JAX below 0.12): the first
  result of ``expert_mkl`` takes 7.4 processor seconds for 20, with the fixed bank 3.2 for 6.
- ``run_fleet``, ``delay=`` and ``run_many`` of any number of seeds are run in groups and segments
  of few shapes on CPUs, too: another length, another number up to a power of two, or a second call
  compiles nothing. Room for support vectors grows to 512, 4,096, and powers of two.
- Banks side by side have their features as one product, with the metrics in the frequencies.
- With JAX 0.12 ``init`` works again outside of a trace.
- ``init`` compiles hardly anything outside of a trace: NumPy works the state out, to rounding as
  before (.2 for 2.9 processor seconds of ``expert_mkl``).
- :class:`jaxmkl.models.SideBySide` keeps the least squares of several banks in one array;
  ``expert_mkl`` has its banks on features in one, as ``learner.models[0].banks``.
- ``predict``, ``predict_many``, ``ask``, ``update``, ``skip`` and ``step`` are compiled once where
  nothing is traced, and programs that nobody uses any more are let go of
  (:func:`jaxmkl.streaming.keep_programs`, :mod:`jaxmkl.guide.compiling`).
  :func:`jaxmkl.compile_cache` keeps programs between processes.
- Four pages for the first ten minutes, by what one comes for (:mod:`jaxmkl.guide.first_jax`).
- Tables: sparse formats have the columns of a pipeline, and what a row does not name is zero. A
  first line that is a row, a title, a comment or Vowpal Wabbit is refused (``--names``,
  ``--header``, ``--no-header``). ARFF is read. ``--missing`` and ``--longest-line``; rows by name
  (``iloc``, ``itertuples``); npz, Parquet and Arrow through pipes; tables of 100,000 columns.
- A CSV whose first line is a row of words is refused as one without a header; Vowpal Wabbit with
  tags is named; NDJSON rows beside one with a list are read; the label ``?`` of LIBSVM is unknown,
  so that pools can be asked about. ``python -m experiments bench --tables`` times wide tables.
- Heavy tails of inputs and of a target are noticed in the first rows and said, with what helps, by
  ``run``, ``ask``, ``select``, ``info``, reports, JSON and ``tables.read``. A run names the
  learners that are worse than the mean of the labels; ``info`` shows what the first rows decided.
- Where most inputs are words, ``expert_mkl`` also has kernels of the other inputs.
- ``jaxmkl predict --bad-rows N`` leaves out up to N rows that cannot be read and names them, as do
  ``Pipeline.predictions(data, most_bad)`` and :class:`jaxmkl.tables.SkippedRows`. A first line
  with a cell of more than 131,072 characters is read.
- Drivers and estimators also warn of targets whose differences vanish when squared, in the user's
  line; ``median_distance`` takes rows of any scale.
- Text becomes the TF-IDF of up to 512 words of the first rows (``--as note=text:2048``), which
  importances name; ``expert_mkl(banks="linear")`` and :class:`jaxmkl.wrappers.AllBut`.
- The command: no file is written that is read, or named twice, by whatever links; predictions that
  somebody else moves or changes are noticed; a row that cannot be read, by a cell, a class, its
  number of cells, its quotes or its encoding, ends a run with everything before it written, and
  ``--bad-rows N`` skips up to N; an earlier file of predictions is kept until the first row is
  written; columns may have names such as ``^a$``; a checkpoint knows the rows that were played; no
  interrupt is lost; failures of the device are a sentence; ``-`` is standard output for text;
  ``jaxmkl select --method lmkal``.
- Labels in words are for new states: a state that is continued refuses them, as it does not keep
  which class had which word. ``labels`` and ``class_numbers`` take ``classes``.
- Densities are absent before two labels differ, and wider while labels are few.
- Drivers warn of constant inputs, and of columns whose squares vanish.
- Kernels that are learned: :class:`jaxmkl.models.MetricModels` learns a metric of the inputs from
  the gradients of its own models, or several side by side, :class:`jaxmkl.models.TreeModels` grows
  forests, both on the :class:`jaxmkl.reservoir.Reservoir` of the learner. **They are in**
  ``expert_mkl()`` **by default**, which errs less on nearly all streams and costs more;
  ``expert_mkl(banks="fixed")`` is that of 0.2.0, as is ``expert_mkl(kernels)``.
  :class:`jaxmkl.features.MetricFeatures` are features under a metric. ``importances(state)`` says
  how much each input matters, as do the command's table, report, ``--json`` and ``jaxmkl
  info`` (``help("jaxmkl.guide.learned")``). Of more than 5,000 inputs the command and the
  estimators keep kernels fixed, unless ``banks`` are given.
- Tables: numbers with a unit ($12.50, 3 €, 5 kg), with blanks or apostrophes between thousands,
  and with commas where a cell leaves no doubt (1,234.50), are numbers; columns of 999 and 1,234
  are refused. They were text, as were times of 12 hours (1:30 PM), full names of months, months
  without a day, and clocks without a date. Years of two digits are of this century or the last,
  not of the first.
- :func:`jaxmkl.merge` takes learned metrics and forests too: the reservoirs of shards become one,
  and from it all is learned anew.
- ``prediction.variance``: learners with least squares (``expert_mkl``, any ``MKL`` with
  :class:`jaxmkl.updates.RLS`) know the variance of the label, and what of it is their own,
  ``prediction.epistemic``; ``multitask`` knows the latter, all others have None. A run records
  ``outputs.variance``, and queries that need a variance work there
  (``help("jaxmkl.guide.decisions")``). :class:`jaxmkl.query.Rate` chooses labels by it with
  ``by="variance"``.
- :func:`jaxmkl.wrappers.predictive` gives any learner of numbers a distribution, whose scale
  depends on the input (:mod:`jaxmkl.distributions`): ``prediction.distribution``,
  ``outputs.distribution``. Intervals are as wide as the distribution or the variance says, and are
  recorded as ``outputs.interval``; ``info.radius`` is in units of that width.
- :func:`jaxmkl.wrappers.probabilities` mixes a logistic regression with its scale and finds the
  scale of values of any size: a calibration error of .006 to .012 on a9a, magic04 and spambase.
- :mod:`jaxmkl.metrics` scores probabilities (``brier``, ``expected_calibration_error``,
  ``reliability``, ``running_log_loss``) and densities (``crps_normal``, ``crps_student``,
  ``crps_quantiles``, ``pit_histogram``); ``running_mean`` makes a curve of any score.
- ``jaxmkl run`` scores the probabilities of classes: log loss, Brier score and calibration error
  in the table and in ``--json``, and a calibration plot in the report. Checkpoints of a run that
  an earlier version began are refused.
- ``jaxmkl run --density`` predicts densities of numbers and scores them: log score, CRPS, coverage
  and width of intervals of 90 %, and in the report their calibration. ``--predictions`` and
  ``jaxmkl predict`` write the ends of the intervals, ``low`` and ``high``, and
  :meth:`jaxmkl.tables.Pipeline.predict_interval` returns them for any coverage.
  ``Pipeline.values`` is now ``Pipeline.predictions``, which has all that a prediction has.
- ``MKLRegressor.predict(X, return_std=True)`` returns the deviations of the labels, too, where the
  learner knows its variance.
- GPUs and TPUs: a turn of the loop over rounds has up to eight rounds, and losses and records are
  worked out once a block, which begins half as many kernels a round in most recipes, and a third
  in ``multitask``, whose state lies side by side there during a block, as do those of least
  squares and stacks (``expert_mkl`` begins 49 for 79, its fixed bank 19.5 for 34.5); as many runs
  advance side by side as the device's memory has room for; permutations compile in seconds for
  TPUs; products of ``design.rrss``, of merged noise and of densities are at full precision. Tests
  marked ``accelerators`` compile for both without a device
  (``help("jaxmkl.guide.many_devices")``). On CPUs nothing changes.
- On a GPU a run waits for the device once. Runs there are those of a CPU to rounding, which they
  were not where a full metric is learned or trees are: the signs of eigenvectors no longer matter,
  and leaves add up their points in order. ``pytest -m device`` compares a device with the CPU
  beside it.
- Predictions and targets that the command writes have the digits of what lies beyond the target's
  first number: of targets around 1e10 nothing was left. Whole numbers that are categories or
  classes are spelled alike in every chunk and kind of file (1 and 1.0 are one category, 01 is a
  word also among numbers); a pipeline made of typed dates reads them in text. Names that come late
  in NDJSON are columns of all rows looked at.
- ``predict`` tells of cells with values of which the pipeline knows nothing, in Python by a
  :class:`jaxmkl.tables.UnseenCells` warning. ``--drop`` and ``--as`` of the target are refused, as
  are nested targets, ``ask --classes`` beside labels of other classes, and ``select`` from a table
  with a column ``rank``; targets may be durations.
- ``predict`` says of a column that first comes late in NDJSON that it is absent from the first
  rows, no longer that all its cells are missing. A target named as another column of
  ``--predictions`` is called "target" there. ``ask`` takes 1.0 for the class 1.
- Intervals around a learner that knows its variance begin well: where nothing was known of the
  noise yet, as with ``scaled_targets`` around or inside, they were wider than any label for
  thousands of rounds. Outlying labels, which the learner refuses, no longer move them, nor become
  inputs of :func:`jaxmkl.wrappers.lagged`, and their widths have derivatives there.
- Late labels: one asked for by ``ask`` of a :func:`jaxmkl.wrappers.delayed` learner counts once
  for :class:`jaxmkl.query.Rate`, and one that is refused is no longer waited for; a delay whose
  successor is no power of two goes on at the end of the counter of rounds (states of delayed
  learners that were saved before have another shape). ``stream(gaps=True)`` takes labels in words
  of which some are missing, as None or NA of pandas too, and metrics masked words.
- ``predict`` and ``update`` read whole numbers of 64 bits, as times in milliseconds, as ``run``
  does: outside of ``jit`` JAX kept their last 32 bits. They refuse complex numbers, words and
  durations by name.
- ``jax.numpy_dtype_promotion("strict")`` works in double precision, too.
- Orthogonal features of more than 500 inputs begin in seconds, where 5,000 took minutes.
- An interrupt of the command is heard until its process ends.
- :class:`jaxmkl.models.LikelihoodModels` learns its metric, diagonal or full, by marginal
  likelihood on the reservoir; banks "likelihood_diagonal" and "likelihood_full" of ``expert_mkl``.
- The command saves a pipeline, which was called a model: ``jaxmkl.load_model``, ``save_model``
  and ``Model`` are now :func:`jaxmkl.load_pipeline`, :func:`jaxmkl.save_pipeline` and
  :class:`jaxmkl.tables.Pipeline`. Files that were saved before are still read.
- Losses are values: ``Squared()``, ``Huber(0.5)``, ``EpsilonInsensitive(0.1)``, ``Pinball(0.9)``,
  ``Logistic()`` and ``Hinge()`` of :mod:`jaxmkl.losses`, whose numbers are swept and
  differentiated, and classes of one's own (``help("jaxmkl.guide.extend")``). They stand wherever a
  loss is an argument; names are taken as before.
- ``jaxmkl run`` knows nothing of a label before its row is predicted: numbers begin at the first
  label that came, and rows before it are predicted as 0. Learners and baselines are judged on the
  same rows; the table, ``--json`` (``judged_from``) and the report say from which on. Skill was
  too high before, most on targets far from 0. With ``--from`` the baselines know the labels that
  the pipeline saw (``Pipeline.seen``).
- ``updates.Optax(optax.adam(1e-2))``: any optimiser of optax as an update rule on features.
- Rules on features and feature maps of one's own may have any state: ``init``, ``predict`` and
  ``update`` of :class:`jaxmkl.updates.Rule` and :class:`jaxmkl.features.FeatureMap`. They are told
  of a round by a :class:`jaxmkl.models.Feedback`; a picture of a round is in
  ``help("jaxmkl.guide.extend")``.
- ``kernel.on(columns)``: a kernel of some inputs, in sums, products, dictionaries and all
  learners. Products of Gaussian, Laplacian and Cauchy kernels have random features.
- Kernels of one's own that read ``products.X`` work in sums, products, multiples, dictionaries and
  learners; ``check_kernel`` plays them there, and ``help(jaxmkl.kernels.Kernel)`` says what is
  asked of a kernel.
- :func:`jaxmkl.pytree.unconstrain` and :func:`jaxmkl.pytree.constrain` map a learner to numbers
  without limits and back, for optimisers.
- :func:`jaxmkl.design.from_points` chooses from points as they are, dense or sparse, by any
  method; :func:`jaxmkl.design.facility` chooses points that are near to many others (facility
  location), and is a method of ``PoolSelector`` and ``jaxmkl select``. Equal rows are found by
  hashes, so that a choice from a million rows takes seconds. TED with a Gram matrix takes a
  fraction of the time.
- Of several files that a run writes, one that fails does not take the others with it; the exit
  status is then 1. Folders are tried before the first row. A second run with the same
  ``--checkpoint``, ``--predictions``, ``--save``, ``--json`` or ``--report`` is refused.
- Ctrl-C ends ``jaxmkl run`` at any moment with status 130, SIGTERM with 143, and a checkpoint to
  go on from.
- What the first rows did not show of a column is counted and said at the end.
- Journals of ``jaxmkl ask`` have a checksum a line; changed, doubled or moved lines are refused by
  line. Journals of 0.2.0 are gone on with.
- ``MKLClassifier.fit`` warns when rows are sorted by class.
- CSV files are read in less than half of the time: polars splits lines without quotes. The errors
  of a LIBSVM file are told before the first row is learned.
- Recipes answer an unknown argument with the names there are. A forgotten state, a key that is not
  typed, rates without ``num_rates`` and a ``forecast`` that returns an array are answered with
  what is wanted; ``check_learner`` shows where arrays differ, and that no bit of a prediction
  depends on labels of its round or later, or on those not asked for.
- :mod:`jaxmkl.evaluate`: scores, baselines, candidates and rows of results as plain values.
- :class:`jaxmkl.streaming.Stream`: :func:`jaxmkl.stream` for chunks that are pushed.
- Derivatives: those of a distribution's ``cdf``, ``crps`` and ``quantile`` are finite where the
  label is the mean, as is that of ``metrics.crps_student``, and those by the labels through
  :func:`jaxmkl.wrappers.scaled_targets` too. An example without a label, or one that is refused,
  leaves all derivatives finite. Metrics that check values do so under ``jax.grad``, and where a
  label is NaN their derivative by what was predicted is 0. Quantiles at the shares 0 and 1 are
  infinite, and NaN for what is no share.
- ``jaxmkl predict --out`` and ``jaxmkl select --out`` refuse the file that they read, which they
  wrote over, and write a file that appears once it is complete; ``select`` keeps the columns of
  arrays that are constant in the first rows, as ``run`` does. Kernel weights are in the output of
  ``--density`` too.
- :func:`jaxmkl.run_fleet` takes learners of :func:`jaxmkl.wrappers.one_vs_rest`, and
  :func:`jaxmkl.merge` refuses a start that has seen more rounds than a shard.
- Metrics: an infinite end of an interval counts in ``coverage``, a class that is said to be
  impossible leaves ``log_loss`` as it is, one that is certain counts, and ``kappa`` of no examples
  is NaN. What is masked is left out, and :mod:`jaxmkl.design` refuses it. Labels may be of
  bfloat16.
- All learners work under ``jax.numpy_dtype_promotion("strict")``. What an estimator's ``fit`` or
  ``partial_fit`` refuses leaves it as it was, fitted or not. ``check_learner`` lets
  diagnostics tell of the label, as the log score of :func:`jaxmkl.wrappers.predictive` does.
- ``help("jaxmkl.guide.certainty")``: distributions, intervals and probabilities on one page.
- ``probabilities(learner, passthrough=True)`` reads the inputs beside the learner's values.
- A ``Stack`` on a ``Stack`` of another period learned from wrong inputs. Densities and
  probabilities around late labels left out other examples than those refused.
  ``scaled_targets`` asked for more labels than a budget inside had.
- Full metrics by gradients stretched the same random frequencies at each renewal, and erred twice
  as much on noisy directions of 32 inputs: signs of their axes are drawn anew each time.
- Wrappers have the ``period`` of the learner inside, so ``predictive(scaled(...))`` around least
  squares of a period other than 32 runs.

**Means something else**

- ``amkl`` and ``amkl_aks`` (:class:`jaxmkl.query.Disagreement`) always ask for the first label: a
  label is skipped only if one of the last M was asked for. Late labels count when asked for.
- Rounds in one kernel (``fused=True``) are gone: they served four recipes on one stream, by a
  compiler that JAX gives up. On an H200 a round of ``raker`` took 1.9 µs by it, and takes 5.5.
- Fourier features of so many inputs that they would have more than 2^27 frequencies are refused.
- Checkpoints of :class:`jaxmkl.MKL` (all but ``oks_sil``, ``okl_gd`` and ``multitask`` are one),
  ``HypothesisSketch`` and ``Aligned``, and those of runs of the command, must be made again.
- ``MetricModels``, ``LikelihoodModels`` and ``TreeModels`` take ``sample=`` in place of
  ``reservoir=``, which is the learner's ``memory``.
- ``loss`` of a learner or rule is a :class:`jaxmkl.losses.Loss` and no string; ``update`` of an
  aggregate takes one.
- ``multitask`` learns how much its tasks share: a mixture of the sum of both components, each task
  alone and all as one (``components="mixed"``), with the squared hinge and steps on every loss.
  The learner of 0.2.0, which is the paper's, is ``multitask(loss="hinge", components="both")``.
  ``info.weights`` are those of the mixture.
- ``jaxmkl.labels.codes`` is ``class_numbers``: a code is an encoded example.
- ``jaxmkl.kernels.InverseTime`` and ``Optax`` are ``jaxmkl.optimizers.InverseTime`` and
  ``FromOptax``; ``SupportModels.update`` is ``rule``; ``Bank.learn`` is ``update``, and is told a
  ``Feedback`` (``Lesson``, whose ``learns`` is ``updates``); a feature map's ``encode`` gets
  ``keys``; ``SampledDictionary.offer`` and ``accept`` are ``predict`` and ``update``;
  ``updates.SecondOrder`` is gone.
- Abstract methods are those of :mod:`abc`: a part that lacks one cannot be made.
- The ``default`` of a declared field (:mod:`jaxmkl.pytree`) is passed by its name. Type checkers
  then see which arguments may be left out: mypy and pyright answer ``jaxmkl.Gaussian()``,
  ``run(learner, state, X)`` and ``OGD(stepsize=0.1)``.
- Every part says the same words for the same steps. Of a learner: ``encode_block``, ``decide``,
  ``teach`` and ``close_block`` are ``encode``, ``predict_code``, ``update_code`` and ``close``. Of
  an :class:`jaxmkl.Algorithm`: ``begin``, ``encode``, ``forecast``, ``learn`` and ``close`` are
  ``init_own``, ``encode_own``, ``predict_own``, ``update_own`` and ``close_own``;
  ``predict_own`` returns a forecast and what the update uses again, and ``jaxmkl.Round`` is a
  :class:`jaxmkl.models.Feedback`. Of aggregates: ``combine`` is ``predict``; of scalers:
  ``observe`` and ``accept`` are ``predict`` and ``update``; of stores of supports: ``values`` and
  ``learn`` are ``predict`` and ``update``; of evictions: ``choose`` and ``settle`` are ``step``
  and ``close``. Models ``speaking`` are ``active``, ``info.num_speaking`` is ``num_active``, and
  ``wrappers.Scaled`` is ``wrappers.ScaledInputs``.
- ``MultiTask``, ``Aligned``, ``HypothesisSketch`` and ``OwnKernels`` are in
  :mod:`jaxmkl.learners`, as they are no banks; ``jaxmkl.models`` holds these.
- ``jaxmkl.data``, another name of :mod:`jaxmkl.tables`, is gone.
- ``--report`` draws by matplotlib, which belongs to the extra ``cli``; its page runs no script,
  and the values of a curve are in a table below it. A learner of the wrong task is refused with
  the same sentence in the command and in ``experiments``.
- ``metrics.hindsight_losses`` is gone from the library; the experiment on regret has it.
- ``PoolSelector`` and ``jaxmkl select`` choose greedily (TED), with one Gaussian as wide as the
  median distance of standardised columns and a ridge of a tenth of its mean diagonal; the papers'
  methods are there by name. Rows that a penalised method does not make active are not given out as
  chosen, and a warning says how many are. Of more than 4,000 distinct rows (2,000 for penalised
  methods), so many drawn at random are looked at: ``PoolSelector.pool_``, and a note of the
  command.
- ``regularization`` of ``design.ted`` is a share of the mean diagonal of the Gram matrix, .1 by
  default; ``share_of="columns"`` is the old meaning, a share of lambda_max, as of ``cted``.
- ``jaxmkl select`` takes no column named target, y, label or class as an input; its gmkal has the
  paper's nine kernels.
- A label more than a hundred times as large as all before it is refused, counted
  (``state.outlying``) and warned of; a level that stays is followed after a few labels.
- :class:`jaxmkl.features.FourierFeatures` are of scale "mean" by default (|z|² = 1), so that every
  rule's steps fit them as they fit supports; write ``scale="sum"`` for the old ones. Recipes are
  as before.
- A learner with a number out of its declared range counts all its rounds in ``nonfinite`` inside
  ``jit``; outside, drivers, ``save`` and ``load`` refuse it by name.
- ``learner.init`` and ``kernel.gram`` refuse widths or columns made for another number of inputs;
  widths (P, 1) are no longer spread over several inputs. ``Stationary.frequency_scale`` and
  ``KernelDictionary.bandwidth`` are gone: see ``Kernel.frequencies``.
- :func:`jaxmkl.wrappers.scaled_targets` asks for a first label whatever its learner's query says;
  its ``clip`` takes no account of the prediction before it.
- :func:`jaxmkl.tables.read` treats LIBSVM and npz files as tables, and so reads them with polars
  (the extra ``cli``): a missing number becomes the mean of those before it, and a feature tells
  which are missing (it was the median of the column); ``+1`` and ``1.0`` are the class ``1``, the
  booleans of npz files the classes ``false`` and ``true``; more than 1,000 classes are refused.
  :func:`jaxmkl.tables.open_table` keeps rows of npz files that have no target.
- Masked arrays are refused; ``stream(gaps=True)`` takes masked labels as missing.
- Files of pipelines with doubled members, numbers in the place of parts, or rates, states or fills
  that are NaN or infinite are refused, by file and field.
- ``jaxmkl ask --jsonl`` gives numbers as numbers and missing cells as null. Nested columns of
  NDJSON are left out with a note, or by ``--drop``.
- Checkpoints have format 5, pipelines 2 and ``--checkpoint`` files 3: those of 0.2.0 are refused
  by name. ``Checkpoints`` of two programs on one path: the last to write wins.
- SciPy is declared by the extras that use it; pandas 2.2.2 and pytest-xdist 3.8 are the oldest
  that go with the others.

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
