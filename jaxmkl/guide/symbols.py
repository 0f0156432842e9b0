"""A glossary, the symbols of the papers, their names here, and the papers.

## Glossary

Each word has one meaning in this library, or is listed with the words that tell its two apart.

| Word | Meaning |
|---|---|
| ability | an operation that only some parts support, such as growth (see `jaxmkl.abilities`) |
| active | of a model: it takes part in the prediction (see `jaxmkl.select`) |
| aggregate | the part that combines the values of the models into one prediction |
| ask, query | a query decides whether to ask for a label; asked labels are `queried` |
| aux | results of a prediction that the update of the same example uses again |
| bank | E models that share their code and state: a dictionary of kernels with a rule |
| block | consecutive examples that are encoded at once, by large matrix products |
| budget | a limit: of supports for a store, of labels for `label_budget` |
| capacity | the number of supports that there is room for; it grows as needed |
| chunk | the rows that `stream` or a file gives at once; it is run in segments of blocks |
| code | an encoded example: its features, or its inner products and distances |
| committed | of supports: moved from the buffer of a block into the store |
| design | the choice of points of a pool to label, before any label is known |
| dictionary | several kernels in one `KernelDictionary`; or sampled points that span features |
| discount | a factor in (0, 1] by which a mistake or the passing of time lowers a weight |
| evict | to remove a support because the budget is full |
| example | a row x of inputs, with its label y |
| feature | a coordinate of z(x); an inner product of features approximates a kernel |
| feature map | the function z; columns of data are called inputs, or columns, not features |
| feedback | the argument of an update: the label, and which models are to learn from it |
| fleet | many streams, each with a state of its own, that advance together |
| forecast | a prediction with the models' values and weights behind it, which a query reads |
| forgetting | a factor by which a model lowers the weight of older examples |
| frame | the part of a learner that is no algorithm: key, round, masks, counters, labels |
| frequency | a random direction v of Fourier features, cos(v·x) and sin(v·x) |
| gradient | the derivative of a loss; by the prediction alone it is called slope |
| label, target | y: a class or a number; target is the word in regression |
| learner | the whole: models, aggregate, selection and query, or an algorithm of its own kind |
| loss | the cost of a prediction, given the label; recorded before the update |
| margin | the value of a classifier, whose sign is the class |
| memory | a sample of labelled examples, from which kernels are learned in a renewal |
| metric | of inputs: the matrix that measures distances; of a run: an error or a score |
| model | one function f_e of the input, such as one kernel with one step size |
| padding | masked examples that fill a block or stream; they leave the state unchanged |
| pipeline | the command's model in a file: a learner, its state and the encoding of columns |
| pool | points that are all known before the first is labelled |
| prequential | of an evaluation: each example is predicted before its label is learned |
| published setting | a learner exactly as its paper runs it, by `jaxmkl.recipes.published` |
| recipe | a function that makes a published learner, with defaults that measure well |
| renewal | a round, such as 2^k, in which kernels are learned from the memory |
| round | one example: predict, perhaps ask, then update or skip |
| rule | the way a model learns from an example, such as a gradient step or least squares |
| run | all rounds of one stream with one seed |
| score | the worth of a label, by a query; of a point, by a design; of labels, by a density |
| state | all that a learner has learned: a pytree that each round maps to the next |
| static | of a field: part of the program, so that another value compiles again |
| store | the supports of a bank with its policy: dense, sparse, or on a budget |
| supports | examples x_j with coefficients a_j that make up Σ_j a_j k(x_j, x) |
| task | "regression" or "classification"; one of several has a task index |
| update | the change of a state by one example |
| value | f(x), the number that a model or a learner predicts; of a kernel, k(x, x') |
| weight | the share of a model in the prediction; its own parameters are coefficients or θ |
| wrapper | a learner around a learner, such as one that scales inputs |

## Sizes

| Letter | Number of | Letter | Number of |
|---|---|---|---|
| T | rounds, examples of a stream | P | kernels |
| B | examples in a block; supports in a budget | E | models: kernels times rates times rules |
| D | inputs | R | rates of a rule; rounds of a period |
| F | frequencies of a kernel | M | coordinates of a feature map, 2 F for Fourier features |
| C | supports that there is room for, the capacity | K | tasks, classes, targets |
| S | seeds, runs side by side | L | last labels (or examples) that are used |

## Streams

| Symbol | In code | Shape |
|---|---|---|
| x_t, y_t | a row of `X`, an entry of `y` | (D,), () or (K,) |
| f(x), the prediction | `prediction.value`, `outputs.prediction` | () or (K,), (T,) or (T, K) |
| L(f, y), L'(f, y) | `outputs.loss`, `value` and `slope` of `jaxmkl.losses` | (T,) |
| whether y_t was asked for | `outputs.queried` | (T,), boolean |
| how much y_t is worth | `prediction.score` | () |

## Kernels and features

| Symbol | In code | Shape |
|---|---|---|
| k_p(x, x') | `kernel.gram(X, Y)` | (P, n, m) |
| b, σ, the width | `Gaussian(bandwidth)` | (), (P,) or (P, D) |
| γ of exp(-γ r²) | 1 / (2 `bandwidth`²) | |
| v_1, ..., v_F, frequencies for width 1 | `state.models[0].frequencies` | (P, F, D) |
| z_p(x) | features | (P, M) |
| θ_p | `state.models[0].rules[0].weights` | (P, K, R, M), of RLS (K, R, P, M) |
| S, the covariance of least squares | in the states of `RLS` | (R, P, M, M) |
| x_j, a_pj of Σ_j a_pj k_p(x_j, x) | supports and their coefficients | (C, D), (P, C) |

## Rates and other numbers

| Symbol | In code | Where |
|---|---|---|
| η, η_l | `step_size`, `step_sizes` | gradient steps |
| λ of the penalty | `regularization` | gradient steps, RLS; a share of λ_max in `design` |
| δ of Huber's loss, ε of a tube | `threshold`, `epsilon` | `Huber`, `EpsilonInsensitive` |
| q, a quantile | `quantile` | `Pinball` |
| η_g, the rate of Hedge | `hedge_rate`, `aggregate.rate` | `Hedge` |
| λ of the penalty by which models are judged | `hedge_penalty`, `aggregate.penalty` | `Hedge` |
| γ = exp(-η_g) | `discount` | votes, as of `spa` |
| w_p, q_p, weights of models | `learner.info(state).weights` | (E,) |
| η_c, the tolerance | `tolerance` | `query.Disagreement` |
| M, skips in a row | `max_skips` | `query.Disagreement` |
| δ of adaptive selection | `selection_threshold`, `threshold` | `AdaptiveKernelSelection` |
| δ, smoothing of probabilities | `smoothing` | `select.Sampled`, `DrawOne` |
| C of PA-I | `aggressiveness` | `PassiveAggressive` |
| α, β of SPA | `alpha`, `beta` | `SparsePassiveAggressive` |
| γ η of BOGD, the largest coefficient | `largest` | `models.supports.RemoveUnbiased` |
| φ, forgetting | `forgetting` | `RLS` |
| ρ, memories | `memories` | `Mixture` |
| ν, when a basis function is replaced | `threshold` | `oks_sil` |
| h of selective sampling | `h` | `query.Margin`, `query.Uncertainty` |

## The five papers

- Songnam Hong and Jeongmin Chae (2022), Active learning with multiple kernels, IEEE Transactions
  on Neural Networks and Learning Systems 33(7), https://doi.org/10.1109/TNNLS.2020.3047953:
  `raker`, `omkl_aks`, `amkl`, `amkl_aks`.
- Jing Lu, Steven Hoi, Doyen Sahoo and Peilin Zhao (2015), Budget online multiple kernel learning,
  https://arxiv.org/abs/1511.04813: `omkc_u`, `omkc_dd`, `omkc_sd`, `spa` and all on a budget.
- Xiao Zhang and Shizhong Liao (2020), Hypothesis sketching for online kernel selection in
  continuous kernel space, IJCAI: `oks_sil`, and its comparisons `okl_gd`, `oks`, `proj_ka`.
- Hanmo Wang, Liang Du, Peng Zhou, Lei Shi, Yuhua Qian and Yi-Dong Shen (2015), Experimental design
  with multiple kernels, IEEE International Conference on Data Mining: `jaxmkl.design`.
- Kernel sampling for online multi-task classification (of which we have the supplement alone):
  `multitask`.

## Where parts come from

- Adam: Kingma and Ba (2015), https://arxiv.org/abs/1412.6980; AdaGrad: Duchi, Hazan and Singer
  (2011), https://jmlr.org/papers/v12/duchi11a.html.
- Perceptron: Rosenblatt (1958), https://doi.org/10.1037/h0042519.
- Passive aggressive: Crammer, Dekel, Keshet, Shalev-Shwartz and Singer (2006),
  https://jmlr.org/papers/v7/crammer06a.html.
- Gradient descent with kernels: Kivinen, Smola and Williamson (2004), Online learning with
  kernels, https://doi.org/10.1109/TSP.2004.830991.
- Normalised steps: Nagumo and Noda (1967), https://doi.org/10.1109/TAC.1967.1098599.
- Random features: Rahimi and Recht (2007), Random features for large-scale kernel machines, NIPS;
  orthogonal ones: Yu et al. (2016), https://arxiv.org/abs/1610.09072; with many kernels: Shen,
  Chen and Giannakis (2019), https://arxiv.org/abs/1712.09983.
- Hedge: Freund and Schapire (1997), https://doi.org/10.1006/jcss.1997.1504; over kernels: Hoi,
  Jin, Zhao and Yang (2013), https://doi.org/10.1007/s10994-012-5319-2; of regression: Sahoo, Hoi
  and Li (2014), https://doi.org/10.1145/2623330.2623712.
- Drawing one kernel: Yang, Mahdavi, Jin, Yi and Hoi (2012),
  https://doi.org/10.1609/aaai.v26i1.8298.
- Mixtures of second order: Gaillard, Stoltz and van Erven (2014), https://arxiv.org/abs/1402.2044;
  the gradient trick: Cesa-Bianchi and Lugosi (2006), Prediction, learning, and games, 2.5.
- Stacks: Wolpert (1992), https://doi.org/10.1016/S0893-6080(05)80023-1; Breiman (1996),
  https://doi.org/10.1007/BF00117832.
- Budgets: Dekel, Shalev-Shwartz and Singer (2005), The Forgetron, NIPS; Cavallanti, Cesa-Bianchi
  and Gentile (2007), https://doi.org/10.1007/s10994-007-5003-0; Wang and Vucetic (2010), Online
  passive-aggressive algorithms on a budget, AISTATS; Zhao, Wang, Wu, Jin and Hoi (2012),
  https://arxiv.org/abs/1206.4633; Orabona, Keshet and Caputo (2009),
  https://jmlr.org/papers/v10/orabona09a.html.
- Widths by gradient: Chen, Liang, Zheng and Príncipe (2016), https://arxiv.org/abs/1401.5899.
- Alignment: Cristianini, Shawe-Taylor, Elisseeff and Kandola (2002), On kernel-target alignment,
  NIPS.
- Sampled dictionaries: Calandriello, Lazaric and Valko (2017), Efficient second-order online
  kernel learning with adaptive embedding, NIPS.
- Many tasks: Yang, Zhao, Zhou and Gao (2019), Confidence weighted multitask learning, AAAI.
- Selective sampling: Cesa-Bianchi, Gentile and Zaniboni (2006), Worst-case analysis of selective
  sampling for linear classification, JMLR 7.
- Choosing points: Yu, Bi and Tresp (2006), https://doi.org/10.1145/1143844.1143980; Yu, Zhu, Xu
  and Gong (2008), https://doi.org/10.1145/1390334.1390442; Nie, Wang, Huang and Ding (2013), Early
  active learning via robust representation and structured sparsity, IJCAI.
- Intervals: Gibbs and Candès (2021), https://arxiv.org/abs/2106.00170; Angelopoulos, Candès and
  Tibshirani (2023), https://arxiv.org/abs/2307.16895.
- Probabilities: Platt (1999), Probabilistic outputs for support vector machines.
- Running moments: Welford (1962), https://doi.org/10.1080/00401706.1962.10490022; the robust loss:
  Huber (1964), https://doi.org/10.1214/aoms/1177703732; quantiles: Koenker and Bassett (1978),
  https://doi.org/10.2307/1913643; the tube: Vapnik (1995), The nature of statistical learning
  theory, https://doi.org/10.1007/978-1-4757-3264-1.
"""
