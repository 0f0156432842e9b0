"""The papers, equation by equation: where each is implemented, which command runs it, deviations.

Every entry goes from a paper's algorithm, equation, theorem, table or figure to the learner or
part that implements it, its arguments, and the command whose figures are in
``experiments/RESULTS.md``. If we deviate, the entry says so, and why; otherwise the paper is
followed as printed. Commands are those of ``python -m experiments``; with ``--data FOLDER`` they
read the papers' data sets.

A recipe has settings that give small errors. The learner exactly as a paper runs it is
``jaxmkl.recipes.published(name, num_examples=T, num_inputs=D)``, and
``jaxmkl.recipes.settings.SETTINGS[name].constants`` has each constant with its place in the
paper, or says that the paper does not state it. In the papers' tables it is a row of its own, as
with ``--algorithms "raker (as published)"``. A learner of your own that is in
`jaxmkl.LEARNERS` (:mod:`jaxmkl.guide.extend`) is run in the parts tables, curves, table1,
table2, scaled and components if ``--algorithms`` names it.

>>> from jaxmkl.recipes import published
>>> published("raker", num_examples=10_000, num_inputs=5).models[0].rules[0].step_sizes
0.01

## Active learning with multiple kernels (Hong and Chae)

Algorithms:

- Raker, the OMKL of section III-A: `raker`. Published: `raker(step_size, hedge_rate)` T^-1/2,
  `raker(feature_scale)` "mean", `raker(hedge_penalty)` λ. We deviate in all of these: the
  published setting has several times the printed errors (`amkl --parts tables`), and ours the same
  or smaller ones, except for `amkl` on energy.
- Algorithm 1, OMKL-AKS: `omkl_aks`, which is `raker` with
  `jaxmkl.select.AdaptiveKernelSelection(threshold)`.
- Algorithm 2, AMKL and AMKL-AKS: `amkl`, `amkl_aks`, with `jaxmkl.query.Disagreement(tolerance,
  max_skips)`. A label is skipped only if one of the last M was asked for, so the first is always
  asked for. The boxed sentence in the text says the opposite; we follow the algorithm.
- `amkl_aks (tuned)` in the table has a tolerance for each data set, chosen on these data.

Equations:

- (1) to (6), functions of an RKHS and their expansion: `jaxmkl.models.SupportModels`; `omkl` and
  `kernel_ogd` learn them.
- (2) Gaussians: `jaxmkl.Gaussian(bandwidth)`, bandwidth σ.
- (7) to (11) random features: `jaxmkl.features.FourierFeatures(num_features, scale, orthogonal)`.
  (10) has norm 1, scale "mean"; the recipes' default "sum" has norm D, with which constant step
  sizes give smaller errors.
- (12) to (14), (19) to (22), (31), (32), (38), (39), (43), (44) the weighted sum of kernels:
  `jaxmkl.aggregate.Hedge(rate, penalty)`. The loss in (22) and (39) is that of (18), with λ |θ|²
  in it, if there is a penalty; the default has none, which gives smaller errors.
- (15), (45) regret against the best function of one kernel: `amkl --parts regret`.
- (16), (17), (36), (37) the gradient step: `jaxmkl.updates.OGD(step_sizes, regularization)`. The
  penalty here is λ/2 |θ|², so that the λ = 0.01 of (57) is 0.02.
- (18) the squared loss: `jaxmkl.losses.Squared`; `raker(loss)` takes any other.
- (23), (40) K_t, the number of kernels with more than a share δ of the largest weight:
  `omkl_aks(selection_threshold)`.
- (24) to (30), (41), (42), (58), Remark 1, balls in bins:
  `jaxmkl.select.AdaptiveKernelSelection(threshold)` draws the subset from its distribution
  without any bin: one kernel by its weight, every other with probability K/P. That is the
  distribution of Remark 1 if a ball falls into J distinct bins, as it says, though independent
  tosses may coincide; the tests draw the bins, too. For K = 1 the collection in (24) has single
  kernels; balls in bins sometimes put two into one, and so does the distribution.
- (33) the confidence condition: `jaxmkl.query.Disagreement(loss)`, by default the squared
  distance.
- (34), (35) labels asked for: `jaxmkl.metrics.label_rate`.
- (46) to (53), and (60) to (76) of the appendices, are steps of proofs; nothing runs them.
- (54), (55) error and share of labels: `jaxmkl.metrics.running_mse`, `jaxmkl.metrics.label_rate`.
- (56) the 17 Gaussians: `jaxmkl.kernels.hong_chae`.
- (57) to (59) the constants: ``published`` has them.

Theorems:

- Theorem 1, the regret of OMKL-AKS: `amkl --parts regret`. The proof adds weights of a drawn
  subset as if the bins kept their probabilities from round to round; we do not use its constant.
- Theorems 2 and 3, the regret of AMKL and AMKL-AKS: the same part. They assume a loss that obeys
  the triangle inequality (a5), which the squared loss of the paper's own experiments does not;
  the part runs both that and the absolute loss, whose (33) is `jaxmkl.query.Disagreement(loss)`.
- Lemmas 1 to 6 are parts of these proofs, and are not run on their own.

Tables and figures:

- Table I, the data sets: their names in `amkl --datasets twitter,tom,air,energy,naval`. Twitter
  (Large) has no file; its printed figures are in the table.
- Table II, rows with random features, and Table III: `amkl --parts tables`. We found no setting in
  which adaptive selection lowers the error.
- Table II, rows with support vectors: `amkl --parts support`, by `kernel_ogd`, `omkl` and
  `omkl_b(budget)` (Sahoo, Hoi and Li); each with the best of five step sizes, as the paper states
  none for them.
- Figure 1 is a drawing. Figure 2: `amkl --parts tradeoff`. Figure 3: `amkl --parts curves`.

## Budget online multiple kernel learning (Lu, Hoi, Sahoo and Zhao)

Algorithms:

- Algorithm 1, SPA: `spa(step_size, alpha, beta, discount, smoothing)`. The authors' program, which
  the printed figures come from, omits the division by k(x, x) of Proposition 1; so does the
  default, and `spa(normalized_step)` is as printed. One draw with the product of both
  probabilities replaces the two draws, with the same distribution.
- OMKC(U), (DD), (SD): `omkc_u`, `omkc_dd`, `omkc_sd`. `omkc_sd(sampled)` "combination" and "both"
  are (DS) and (SS) of Hoi, Jin, Zhao and Yang, which this paper does not run.
- The perceptron of the best kernel: `perceptron`, in the table `perceptron*`.
- Component learners on a budget: `rbp(budget)`, `forgetron(budget)`, `bogd(budget, eviction)`,
  `bpas(budget, aggressiveness)`. `bogd` evicts the oldest, as the authors' program does; its
  source removes one at random and enlarges the others, as published.
- Projectrons, left out by the paper as too slow: `projectron(threshold, budget)`.

Equations:

- (1) the weighted sum: `jaxmkl.aggregate.Hedge(output)`, "value" for `spa`, "vote" for the
  others, whose figures come from votes.
- (2), Proposition 1, the step: `jaxmkl.updates.SparsePassiveAggressive(step_size, alpha, beta)`.
- The probabilities p of Algorithm 1: `jaxmkl.select.Sampled(smoothing)`.
- Section 4.2, the 16 kernels: `jaxmkl.kernels.lu_hoi`.
- Equations (3) to (6) are steps of the proof of Lemma 1.

Theorems:

- Lemma 1, the losses of one kernel, and Theorem 2, the support vectors, at most T α / β in the
  mean: `bomkl --parts bounds`.
- Theorem 1, the losses of all kernels, has a constant μ that the paper leaves open; it is not
  checked.

Tables and figures:

- Table 1: `bomkl --parts table1`. The printed row of OMKC(SD) comes from an error of the program,
  which `omkc_sd (printed slip)` repeats. There is no file of KDD08.
- Table 2: `bomkl --parts table2`. The available copy of ijcnn1 has ten empty columns, and SUSY is
  a sample of 10,000 rows, so neither can be compared.
- Figure 1: `bomkl --parts sensitivity`. Table 3, the data sets: `bomkl --datasets
  german,svmguide3,madelon,magic04,a9a,cod_rna,susy`.

## Hypothesis sketching for online kernel selection (Zhang and Liao)

Algorithms:

- Algorithm 1, OKS-SIL: `oks_sil(budget, step_size, threshold, num_sampled)`.
- OKL-GD (Chen, Liang, Zheng and Príncipe): `okl_gd(budget, step_size)`; every centre has a width
  of its own, of which only the newest moves.
- OKS (Yang, Mahdavi, Jin, Yi and Hoi): `oks(smoothing, num_rounds)`.
- Proj-KA: `proj_ka(num_aligned, two_passes)`. The paper's U is not a constant of the Projectron.

Equations:

- (1), (2) linear dependency on s basis functions drawn at random, `oks_sil(threshold,
  num_sampled)`: `jaxmkl.learners.HypothesisSketch`. If several weights are the smallest, the paper
  does not say which is removed: it is the first here, or with `oks_sil(ties)` the oldest.
- (3), (4) the kernel's step, on γ = 1/(2 σ²): `jaxmkl.optimizers.InverseTime`, inside
  `jaxmkl.kernels.GaussianWidths`. `oks_sil(gradients)` takes both gradients where Algorithm 1
  does, at the prediction, or where the text derives them, at f^b and f^w.
- The weight of a new or replaced function, and the compensation:
  `jaxmkl.learners.HypothesisSketch`.

Theorems:

- Theorem 1, the regret of OKS-SIL, is a sum of terms O(T) without constants, and needs widths
  below the distance of any two basis functions over sqrt 3, which the paper's own setting does
  not keep; it is not checked.

Tables and figures:

- Table 1 compares costs: `bench` measures the time of a round. The paper's memory is
  `oks_sil(budget)` here.
- Table 2: `oks --parts table2`, and on features scaled to [-1, 1] `oks --parts scaled`, as the
  paper does not say how it scales. It counts y f < 0 as mistakes, so that a score of 0 is right;
  here y f <= 0 are mistakes. The paper does not say by what the step size is tuned; here it is
  tuned by these mistakes.
- Figure 1: `oks --parts figure1`. The width over time, which the paper does not show: `oks --parts
  width`, `oks --parts anisotropic`.

## Experimental design with multiple kernels (Wang, Du, Shi, Zhou, Qian and Shen)

Algorithms:

- Algorithm 1, kernel CTED, (4) and (6) to (10): `jaxmkl.design.cted(gram, regularization)`. (7)
  drops λ; the formula is solved in a symmetric form that stays bounded as rows vanish. Penalties
  are shares of the smallest with which nothing is chosen; with `jaxmkl.design.cted(absolute)` they
  are λ itself. The paper begins with random coefficients, we with rows of norm 1, here and in
  Algorithms 2 and 5; the problem is convex, so the start does not matter. Steps are extrapolated,
  which takes fewer of them; `jaxmkl.design.cted(accelerate)` False takes the paper's steps.
- Algorithm 2, GMKAL, (11) to (17): `jaxmkl.design.gmkal(grams, regularization, initial_weights)`.
  Each step of w takes one step of A, not a whole Algorithm 1: the same optimum at less cost;
  `jaxmkl.design.gmkal(steps)` takes more.
- Algorithm 5, LMKAL, (18) to (26), with Algorithm 4, (27) to (29), (31) and (32), inside:
  `jaxmkl.design.lmkal(grams, regularization, steps)`. (24) to (26) leave out Z >= 0, which (23)
  has. Algorithm 4 as printed takes its step with a bound L on the curvature that its search has
  just rejected; ours takes the accepted one, restarts where f would rise, and measures each point
  by its own curvature, which reaches the same minimum in fewer steps.
- Algorithm 3, the projection onto the simplex, (30): ``optax.projections.projection_simplex``.
- TED, (1) to (3): `jaxmkl.design.ted(gram, regularization)`, greedily. RRSS, (5):
  `jaxmkl.design.rrss(gram, regularization)`, in O(n³) by one eigendecomposition for all columns
  instead of O(n⁴).

Theorems:

- Theorem 1, that the localized kernel is a kernel, and Lemma 1 need no run. Theorem 2, (33), the
  rate of Algorithm 4, is that of accelerated descent; it is not checked.

Tables and figures:

- Tables I and II, Figures 1 and 2: `design --parts tables`. Penalties are chosen without labels,
  as there are none before points are chosen; the paper tunes them by labels, as does `design
  --parts tuned`. We do not find the printed superiority.
- Table III, the data sets: `design --datasets
  australian,sonar,segmentation,heart,orl,reuters_4class`.
- The kernels of section VII-B: built in double precision, centred, and divided by the largest
  squared distance of features, as the text taken literally gives entries of 10^10.

## Kernel sampling for online multi-task classification (supplement)

We do not have the paper itself, so there are no tables to compare with.

Equations:

- (1), Lemma 1, the margin's distribution: `jaxmkl.query.Uncertainty(h)` reads it.
- (2) to (5), Lemma 3, the updates: `multitask(loss, components, update_on, covariance)`, in
  `jaxmkl.learners.MultiTask`. Published: "hinge", "both", "margin", "always". Our defaults, the
  squared hinge and a mixture of three predictions, have smaller errors and rank better. The mean
  of all tasks with the squared hinge has no formula in the supplement; ours is the minimiser.
- The sampled dictionary, which the supplement does not describe:
  `jaxmkl.features.SampledDictionary`, after Calandriello, Lazaric and Valko, `multitask(size,
  ridge, density, accuracy)`.

Theorems:

- Theorem 1, the regret, by (6) to (8), and Theorem 2, mistakes where labels are asked for, by (9)
  to (12): `multitask --parts bounds`, for one Gaussian. λ log(1 + K T) should be λ D log(1 + T/(λ
  D)), so the determinant itself is in the bound; (9) lacks an ε.
- The query rule of Theorem 2: `multitask(h)`.

Tables: `multitask --parts components` and `multitask --parts asking` are ours.
"""
