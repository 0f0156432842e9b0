"""Crossings of the parts: a covering of all pairs, not the full product."""

import itertools

import jaxmkl
from jaxmkl import aggregate, features, models, optimizers, query, select, updates
from jaxmkl.models import supports

KERNELS = jaxmkl.Gaussian((0.5, 2.0))
# supports take kernels without Fourier features too
MIXED = jaxmkl.KernelDictionary((jaxmkl.Gaussian(0.7), jaxmkl.Polynomial(2, 1.0)))


def on_fourier(rule):
    return models.FeatureModels(KERNELS, rule)


def on_dictionary(rule):
    return models.FeatureModels(jaxmkl.Gaussian(1.0), rule, features.SampledDictionary(8))


def on_inputs(rule):
    return models.FeatureModels(jaxmkl.Linear(), rule, features.LinearFeatures())


def with_supports(store):
    return lambda rule: models.SupportModels(MIXED, rule, store)


MODELS = {
    "Fourier features": on_fourier,
    "sampled dictionary": on_dictionary,
    "dense supports": with_supports(supports.DenseSupport(64, tile=16, period=8)),
    "sparse supports": with_supports(supports.SparseSupport(64, tile=16, period=8)),
    "random of a budget": with_supports(supports.BudgetSupport(5, supports.RemoveRandom())),
    "oldest of a budget": with_supports(supports.BudgetSupport(5, supports.RemoveOldest())),
    "self-tuned budget": with_supports(supports.BudgetSupport(5, supports.SelfTuned())),
    "best replaced": with_supports(supports.BudgetSupport(5, supports.Replace())),
    "projected": with_supports(supports.BudgetSupport(5, supports.Project(0.1))),
    "linear features": on_inputs,
}
# The loss of each rule follows the target where there is a choice.
RULES = {
    "gradient": lambda loss: updates.OGD(0.2, 0.1, loss),
    "normalised": lambda loss: updates.NormalizedOGD(0.4, loss=loss),
    "perceptron": lambda loss: updates.Perceptron(),
    "passive aggressive": lambda loss: updates.PassiveAggressive(0.3),
    "sparse passive aggressive": lambda loss: updates.SparsePassiveAggressive(0.5, 1.0, 1.5),
    "optimiser": lambda loss: updates.Optax(optimizers.FromOptax("adam", 0.05), loss),
    "least squares": lambda loss: updates.RLS(0.1, (1.0, 0.98), period=8),
}
ON_FEATURES = {"Fourier features", "sampled dictionary", "linear features"}
WITH_WEIGHTS = {"optimiser", "least squares"}
FOR_CLASSES = {"perceptron", "passive aggressive", "sparse passive aggressive"}
AGGREGATES = {
    "uniform": lambda task: aggregate.Uniform(),
    "Hedge by loss": lambda task: aggregate.Hedge(0.5),
    "Hedge by vote": lambda task: aggregate.Hedge(0.5, output="vote", cost="mistake"),
    "one drawn": lambda task: aggregate.DrawOne(
        0.1, cost="loss" if task == "regression" else "mistake"
    ),
    "mixture": lambda task: aggregate.Mixture((1.0, 0.9), None if task == "regression" else 1.5),
    "stack": lambda task: aggregate.Stack(rule=updates.RLS((1.0, 10.0), 0.99, period=8)),
}
SELECTIONS = {
    "all": lambda: select.All(),
    "sampled": lambda: select.Sampled(0.3, judge_sampled=True),
    "adaptive": lambda: select.AdaptiveKernelSelection(0.6),
}
QUERIES = {
    "every label": lambda: query.All(),
    "disagreement": lambda: query.Disagreement(0.05, 2),
    "margin": lambda: query.Margin(0.3),
    "chance": lambda: query.Random(0.6),
    "rate": lambda: query.Rate(0.5),
}
TARGETS = ("regression", "classification")
# one protocol behind all of them: they stand in turn where a budget is wanted
ENDS = "of a budget", "self-tuned budget", "best replaced", "projected"
BUDGETS = [name for name in MODELS if name.endswith(ENDS)]
COVERED = {name: MODELS[name] for name in MODELS if name not in BUDGETS[1:]}
PARTS = (COVERED, RULES, AGGREGATES, SELECTIONS, QUERIES, TARGETS)
# Recipes, which are run too: their crossings need no other learner.
ALL = "all", "every label"
OF_RECIPES = {
    "expert_mkl": ("Fourier features", "least squares", "stack", *ALL, "regression"),
    "omkl": ("dense supports", "gradient", "Hedge by loss", *ALL, "regression"),
    "oks": ("dense supports", "gradient", "one drawn", *ALL, "classification"),
    "omkc_sd": (
        *("dense supports", "perceptron", "Hedge by vote"),
        *("sampled", "every label", "classification"),
    ),
    "spa": (
        *("sparse supports", "sparse passive aggressive", "Hedge by loss"),
        *("sampled", "every label", "classification"),
    ),
    "projectron": (BUDGETS[0], "perceptron", "Hedge by vote", *ALL, "classification"),
    "bpas": (BUDGETS[0], "passive aggressive", "Hedge by vote", *ALL, "classification"),
}


def possible(chosen):
    """True if some parts, by place, make sense together; missing ones are None."""
    bank, rule, combined, _, _, target = chosen
    if rule in WITH_WEIGHTS and bank not in (None, *ON_FEATURES):
        return False
    return target != "regression" or (rule not in FOR_CLASSES and combined != "Hedge by vote")


def pairs_of(chosen):
    return {((i, a), (j, b)) for (i, a), (j, b) in itertools.combinations(enumerate(chosen), 2)}


def covering():
    """Choices of all parts: every pair that is possible stands in one of them or in a recipe."""
    wanted = set()
    for (i, first), (j, second) in itertools.combinations(enumerate(PARTS), 2):
        for a, b in itertools.product(first, second):
            chosen = [None] * len(PARTS)
            chosen[i], chosen[j] = a, b
            if possible(chosen):
                wanted.add(((i, a), (j, b)))
    wanted -= set().union(*map(pairs_of, OF_RECIPES.values()))
    everything = [c for c in itertools.product(*PARTS) if possible(c)]
    rows = []
    while wanted:
        best = max(everything, key=lambda chosen: len(pairs_of(chosen) & wanted))
        assert pairs_of(best) & wanted, sorted(wanted)
        rows.append(best)
        wanted -= pairs_of(best)
    budgets = itertools.cycle(BUDGETS)
    return [(next(budgets), *row[1:]) if row[0] in BUDGETS else row for row in rows]


def made(chosen):
    bank, rule, combined, selected, asked, target = chosen
    loss = "squared" if target == "regression" else "hinge"
    if rule == "least squares":
        loss = "squared"
    return jaxmkl.MKL(
        MODELS[bank](RULES[rule](loss)),
        AGGREGATES[combined](target),
        SELECTIONS[selected](),
        QUERIES[asked](),
        loss=loss,
        task=target,
    )


CROSSINGS = {", ".join(chosen): chosen for chosen in covering()}
