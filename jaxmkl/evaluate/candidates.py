"""Learners by name, made for a task and scaled online; their arguments, kernels and weights."""

import dataclasses
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmkl import abilities
from jaxmkl._flags import scaler_of
from jaxmkl._learner import Learner
from jaxmkl._types import PyTree
from jaxmkl.features import LinearFeatures
from jaxmkl.kernels import Gaussian, Kernel, KernelDictionary, OnColumns, Product, Sum, two_decades
from jaxmkl.mkl import MKL
from jaxmkl.models import (
    FeatureModels,
    LikelihoodModels,
    MetricModels,
    NeighbourModels,
    SideBySide,
    TreeModels,
)
from jaxmkl.models.bank import Bank
from jaxmkl.query import Rate
from jaxmkl.recipes import LEARNERS
from jaxmkl.wrappers import (
    Predictive,
    Probabilities,
    layers,
    one_vs_rest,
    predictive,
    probabilities,
    scaled,
    scaled_targets,
)

DEFAULT = ("raker", "amkl_aks", "expert_mkl")
#: Parameters of learners that may skip labels, for targets of variance 1.
PAUSES = {"tolerance": 1.0, "max_skips": 2}
#: With more inputs than this, kernels are fixed unless something else is asked for: to learn them
#: takes a memory of 4,000 rows and more, 34 kB per input.
MANY_INPUTS = 5000
#: Names of banks among the weights of what carries a prediction.
BANKS: Mapping[type, str] = {
    FeatureModels: "fixed",
    MetricModels: "metric",
    LikelihoodModels: "likelihood",
    TreeModels: "trees",
    NeighbourModels: "neighbours",
}
#: Arguments that follow from the labels, if a recipe has them.
BY_TASK = "task", "num_outputs", "num_classes"


class UsageError(ValueError):
    """A request cannot be met; the message is one line for the screen."""


class Candidate(NamedTuple):
    """A learner, or a rival that is not a learner, in a table of results."""

    name: str
    """The name in tables."""
    learner: Any
    """None for a rival, such as a batch model of another package."""
    parameters: Mapping[str, Any]
    """The arguments with which it was made."""


def candidates(
    names: Sequence[str] | None,
    task: str,
    num_classes: int,
    settings: Mapping[str, Any],
    rate: float | None = None,
    density: bool = False,
    num_inputs: int = 1,
    words: Sequence[tuple[int, int]] = (),
    flags: Sequence[tuple[int, int]] = (),
) -> tuple[list[Candidate], list[str]]:
    """The requested learners, or the default ones, ready for a stream of a task.

    Inputs are scaled online, and so are targets that are numbers.

    Args:
      names: names in :data:`jaxmkl.LEARNERS`.
      task: "regression" or "classification".
      num_classes: K, the number of classes of a classification.
      settings: arguments by name, for the learners that have them.
      rate: the share of labels to ask for, or None for the learner's own query.
      density: whether to predict densities of numbers (:func:`jaxmkl.wrappers.predictive`), around
        the same predictions.
      num_inputs: D; above 5,000, kernels are fixed, unless ``settings`` name the banks.
      words: the ranges of inputs that are words of texts (:attr:`jaxmkl.tables.Columns.of_words`),
        which are not scaled. If most inputs are words, expert_mkl has linear models, and fixed
        kernels of the other inputs if there are any, unless ``settings`` name the banks.
      flags: the ranges of inputs that are 0 or 1 (:attr:`jaxmkl.tables.Columns.flags`), which are
        not scaled either; should later ones be larger, they are clipped to 10.

    Returns:
      The candidates, and a sentence for each setting that does not apply to some of them.

    Raises:
      UsageError: if a learner is unknown, no learner has a setting, a learner refuses a value, or
        densities of classes are asked for.

    >>> made, notes = candidates(["raker", "perceptron"], "classification", 2, {"num_features": 9})
    >>> [one.name for one in made], notes
    (['raker', 'perceptron'], ['--set num_features: not a parameter of perceptron, ignored there'])
    """
    chosen = DEFAULT if names is None else tuple(dict.fromkeys(names))
    for name in chosen:
        if name not in LEARNERS or name == "multitask":
            others = ", ".join(other for other in LEARNERS if other != "multitask")
            raise UsageError(f"unknown learner {name!r}; there are: {others}")
    if density and task == "classification":
        raise UsageError("--density is for numbers; classes have probabilities without it")
    notes = check_settings(settings, {name: parameters_of(name) for name in chosen})
    learning = [name for name in chosen if "banks" in parameters_of(name)]
    num_words = sum(end - first for first, end in words)
    of_learning = settings
    if learning and 2 * num_words > num_inputs and "banks" not in settings:
        linear = _of_words(num_inputs, words)
        of_learning = {**linear, **settings}
        text = f"{', '.join(learning)}: models are linear, as {num_words:,} of {num_inputs:,}"
        text += " inputs are words" + ", and kernels are of the others" * ("kernels" in linear)
        notes.append(f"{text}; --set banks=fixed, for one, has kernels of all")
    elif learning and num_inputs > MANY_INPUTS and "banks" not in settings:
        of_learning = {**settings, "banks": "fixed"}
        text = f"{', '.join(learning)}: kernels are fixed, as there are {num_inputs:,} inputs"
        notes.append(f"{text}; --set banks=trees, for one, learns them, in more memory")
    scaler = scaler_of(tuple(flags), tuple(words))
    several = num_classes if task == "classification" and num_classes > 2 else None
    wrapped = probabilities if task == "classification" else scaled_targets
    made = list[Candidate]()
    for name in chosen:
        arguments = pausing(name)
        if rate is not None and "query" in parameters_of(name):
            arguments["query"] = Rate(rate)
        own_settings = of_learning if name in learning else settings
        one = candidate(name, name, task, own_settings, several, **arguments)
        learner = one.learner
        if several is not None and learner.num_outputs is None:
            learner = one_vs_rest(learner, several)
        made.append(one._replace(learner=wrapped(scaled(learner, scaler))))
    if density:
        made = [one._replace(learner=predictive(one.learner)) for one in made]
    own = [one.name for one in made if rate is not None and "query" not in one.parameters]
    if len(own) == len(made) and rate is not None:
        raise UsageError(f"--labels: {', '.join(own)} asks in its own way; choose another learner")
    if own:
        notes.append(f"--labels does not apply to {', '.join(own)}, which asks in its own way")
    if any("tolerance" in one.parameters for one in made):
        most = f"at most {PAUSES['max_skips']} in a row unless --set max_skips says otherwise"
        notes.append(f"amkl and amkl_aks skip labels where their kernels agree, {most}")
    return made, notes


def _of_words(num_inputs: int, words: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Settings of expert_mkl for inputs that are mostly words: linear models of them, and kernels
    of the others."""
    is_word = np.zeros(num_inputs, bool)
    for first, end in words:
        is_word[first:end] = True
    others = np.flatnonzero(~is_word).tolist()
    if not others:
        return {"banks": "linear"}
    # few models, as each useless one costs a little: with one useless column beside docstrings,
    # .238 mistakes rather than the .246 of 24 models; .219 without the column
    kernels = Gaussian(np.asarray(two_decades().bandwidth)[2::3]).on(others)
    return {"banks": ("fixed", "linear"), "kernels": kernels, "step_sizes": (0.25,)}


def pausing(factory: str) -> dict[str, Any]:
    """The arguments for targets of variance 1 of a learner that may skip labels.

    The library's default tolerance suits the papers' targets, whose variance is some thousandths.
    """
    return {name: value for name, value in PAUSES.items() if name in parameters_of(factory)}


def candidate(
    name: str,
    factory: str,
    task: str,
    settings: Mapping[str, Any],
    num_classes: int | None = None,
    **arguments: Any,
) -> Candidate:
    """Make a learner for a task.

    Args:
      name: its name in tables.
      factory: one of :data:`jaxmkl.recipes.LEARNERS`.
      task: "regression" or "classification".
      settings: values given with ``--set``; those of the factory override all other arguments.
      num_classes: K, if the factory has this argument; None for two classes.
      **arguments: the factory's arguments.

    Raises:
      UsageError: if the factory refuses a value, or makes a learner for another task.

    >>> candidate("few", "raker", "regression", {"num_features": 9}).parameters["num_features"]
    9
    """
    known = parameters_of(factory)
    arguments = arguments_for(LEARNERS[factory], task, num_classes) | arguments
    arguments |= {key: value for key, value in settings.items() if key in known}
    try:
        learner: Any = LEARNERS[factory](**arguments)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}: {error}") from error
    if learner.task != task:
        others = " or ".join(other for other in DEFAULT if other != factory)
        text = f"{name}: is for {learner.task}, but the target needs {task}"
        raise UsageError(f"{text}; choose other settings, or another learner, such as {others}")
    return Candidate(name, learner, known | arguments)


def names_of(recipe: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a recipe's arguments that do not follow from the labels."""
    return tuple(name for name in inspect.signature(recipe).parameters if name not in BY_TASK)


def arguments_for(
    recipe: Callable[..., Any], task: str, num_outputs: int | None = None
) -> dict[str, Any]:
    """The arguments with which a recipe makes a learner for a task.

    For classes, the logistic loss replaces a default loss of numbers.

    Args:
      recipe: a function that makes a learner, such as those of :data:`jaxmkl.recipes.LEARNERS`.
      task: "regression" or "classification".
      num_outputs: K, the number of several targets or classes.

    >>> import jaxmkl
    >>> arguments_for(jaxmkl.expert_mkl, "classification", 3)
    {'task': 'classification', 'num_classes': 3}
    >>> arguments_for(jaxmkl.omkl, "classification", 3)
    {'loss': 'logistic'}
    """
    known = inspect.signature(recipe).parameters
    found: dict[str, Any] = {}
    if "task" in known:
        found["task"] = task
    elif task == "classification" and "loss" in known and known["loss"].default == "squared":
        found["loss"] = "logistic"
    several = "num_outputs" if task == "regression" else "num_classes"
    if num_outputs is not None and several in known:
        found[several] = num_outputs
    return found


def parameters_of(factory: str) -> dict[str, Any]:
    """The parameters of a factory of learners, and their defaults.

    >>> parameters_of("amkl")["max_skips"], "max_skips" in parameters_of("raker")
    (1.0, False)
    """
    known = inspect.signature(LEARNERS[factory]).parameters
    return {name: parameter.default for name, parameter in known.items()}


def check_settings(settings: Iterable[str], accepted: Mapping[str, Collection[str]]) -> list[str]:
    """A sentence for each setting that some of the learners lack.

    Args:
      settings: names given with ``--set``.
      accepted: the parameters of each requested learner, by its name.

    Raises:
      UsageError: if none of them has it.

    >>> check_settings(["rate"], {"a": ["rate", "size"], "b": ["size"]})
    ['--set rate: not a parameter of b, ignored there']
    """
    found = []
    for setting in settings:
        without = [name for name, known in accepted.items() if setting not in known]
        text = f"--set {setting}: not a parameter of {', '.join(without)}"
        if len(without) == len(accepted):
            known = dict.fromkeys(name for each in accepted.values() for name in each)
            raise UsageError(f"{text}; there are: {', '.join(known)}")
        if without:
            found.append(f"{text}, ignored there")
    return found


def kernel_names(kernels: Kernel) -> list[str]:
    """The names of P kernels, from their families and parameters.

    >>> import jaxmkl
    >>> kernel_names(jaxmkl.Gaussian([0.1, 1.0]))
    ['Gaussian(bandwidth=0.1)', 'Gaussian(bandwidth=1)']
    >>> kernel_names(jaxmkl.Gaussian(0.1) * jaxmkl.Linear().on([0, 2]))
    ['Gaussian(bandwidth=0.1) * Linear().on([0, 2])']
    """
    if isinstance(kernels, KernelDictionary):
        return [name for part in kernels.kernels for name in kernel_names(part)]
    P, parameters = kernels.num_kernels, []
    if isinstance(kernels, OnColumns):
        return [f"{name}.on({list(kernels.columns)})" for name in kernel_names(kernels.kernel)]
    if isinstance(kernels, Sum | Product):
        parts = zip(*(np.resize(kernel_names(part), P) for part in kernels.kernels), strict=True)
        return [(" * " if isinstance(kernels, Product) else " + ").join(names) for names in parts]
    for field in dataclasses.fields(kernels):  # type: ignore[arg-type]
        value = getattr(kernels, field.name)
        if isinstance(value, int | float | np.ndarray | jax.Array) and np.ndim(value) < 2:
            parameters.append((field.name, np.broadcast_to(np.asarray(value, float), P)))
    made = [", ".join(f"{name}={values[i]:.4g}" for name, values in parameters) for i in range(P)]
    return [f"{type(kernels).__name__}({inside})" for inside in made]


def importances(learner: Learner, state: PyTree, features: Sequence[str]) -> dict[str, float]:
    """The importance of each input, by the names of the ``features``, the largest first.

    It is empty for a learner that learns no metric.

    >>> import jax, jaxmkl
    >>> learner = jaxmkl.expert_mkl(banks="diagonal", num_features=5)
    >>> importances(learner, learner.init(jax.random.key(0), num_inputs=2), ["size", "age"])
    {'size': 0.5, 'age': 0.5}
    >>> importances(jaxmkl.raker(), jaxmkl.raker().init(jax.random.key(0), 2), ["size", "age"])
    {}
    """
    shares = abilities.importances(learner, state)
    if shares is None:
        return {}
    pairs = zip(features, np.asarray(shares, np.float64).tolist(), strict=True)
    return dict(sorted(pairs, key=lambda item: -item[1]))


def predicts_log_odds(learner: Learner) -> bool:
    """Tell if a learner's predictions are log-odds of classes.

    >>> import jaxmkl
    >>> predicts_log_odds(jaxmkl.spa())
    False
    >>> predicts_log_odds(jaxmkl.wrappers.probabilities(jaxmkl.spa()))
    True
    """
    return any(isinstance(layer, Probabilities) for layer in layers(learner))


def predicts_densities(learner: Learner) -> bool:
    """Tell if a learner's predictions have distributions of numbers.

    >>> import jaxmkl
    >>> predicts_densities(jaxmkl.raker())
    False
    >>> predicts_densities(jaxmkl.wrappers.predictive(jaxmkl.raker()))
    True
    """
    return any(isinstance(layer, Predictive) for layer in layers(learner))


def shares(learner: Learner, state: PyTree) -> dict[str, float]:
    """The weights of a mixture's memories, of a stack's parts and of several banks, by name.

    Each of these adds up to 1. A bank has the weights of its models in the mixture, which is below
    the stack. It is empty for a learner without a mixture.

    >>> import jax, jaxmkl
    >>> learner = jaxmkl.MKL(jaxmkl.raker().models, jaxmkl.aggregate.Mixture((1.0, 0.99)))
    >>> shares(learner, learner.init(jax.random.key(0), num_inputs=2))
    {'memory 1': 0.5, 'memory 0.99': 0.5}
    """
    inside, info = _inside(learner, state)
    if not isinstance(inside, MKL) or (found := getattr(info, "shares", None)) is None:
        return {}
    aggregate: Any = inside.aggregate
    named: dict[str, Any] = {}
    if found.memories is not None:
        memories = np.ravel(getattr(aggregate, "base", aggregate).memories)
        names = [f"memory {memory:g}" for memory in memories.tolist()]
        named |= zip(names, np.asarray(found.memories).tolist(), strict=True)
    if found.stacks is not None:
        names = ["below the stack", *(f"regression {i}" for i in range(1, len(found.stacks)))]
        named |= zip(names, np.asarray(found.stacks).tolist(), strict=True)
    return named | _of_banks(inside.models, np.asarray(info.weights, np.float64))


def numbered(banks: Sequence[Bank]) -> Iterator[tuple[Any, np.ndarray]]:
    """Each bank, also those side by side, with the numbers of its models among those of all."""
    start = 0
    for bank in banks:
        parts: Any = [(bank, np.arange(bank.num_models))]
        if isinstance(bank, SideBySide):
            parts = zip(bank.banks, bank.numbers(), strict=True)
        for part, numbers in parts:
            yield part, start + np.asarray(numbers)
        start += bank.num_models


def _of_banks(banks: Sequence[Bank], weights: np.ndarray) -> dict[str, float]:
    """The sums of the weights of the models (E,) by bank; empty of a single one."""
    found = dict[str, float]()
    for bank, numbers in numbered(banks):
        kind = "linear" if _is_linear(bank) else BANKS.get(type(bank), type(bank).__name__)
        name = f"bank {kind}"
        found[name] = found.get(name, 0.0) + float(weights[numbers].sum())
    return found if len(found) > 1 else {}


def has_linear_bank(learner: Learner) -> bool:
    """Tell if a learner has linear models of the inputs.

    >>> import jaxmkl
    >>> [has_linear_bank(jaxmkl.expert_mkl(banks=banks)) for banks in ("linear", "fixed")]
    [True, False]
    """
    *_, inside = layers(learner)
    return isinstance(inside, MKL) and any(_is_linear(bank) for bank, _ in numbered(inside.models))


def _is_linear(bank: Bank) -> bool:
    return isinstance(getattr(bank, "features", None), LinearFeatures)


def _inside(learner: Learner, state: PyTree) -> tuple[Any, Any]:
    """The learner inside all wrappers, and its diagnostics, beside which they have their own."""
    *_, inside = layers(learner)
    info = learner.info(state)
    while hasattr(info, "inner"):
        info = info.inner
    return inside, info


def kernel_weights(learner: Learner, state: PyTree) -> dict[str, float]:
    """The weights of the kernels by name, summed over models and averaged over classes.

    It is empty for a learner that has none.

    >>> import jax, jaxmkl
    >>> learner = jaxmkl.wrappers.predictive(jaxmkl.raker(jaxmkl.Gaussian([0.1, 1.0])))
    >>> kernel_weights(learner, learner.init(jax.random.key(0), num_inputs=2))
    {'Gaussian(bandwidth=0.1)': 0.5, 'Gaussian(bandwidth=1)': 0.5}
    """
    inside, info = _inside(learner, state)
    banks: tuple = inside.models if isinstance(inside, MKL) else ()
    kernels = getattr(banks[0], "kernels", None) if len(banks) == 1 else None
    weights = getattr(info, "weights", None)
    if weights is None or not isinstance(kernels, Kernel):
        return {}
    each = np.asarray(weights, np.float64).reshape(-1, inside.num_models).mean(axis=0)
    total = each.reshape(-1, kernels.num_kernels).sum(axis=0)
    found: dict[str, float] = {}
    for name, weight in zip(kernel_names(kernels), total.tolist(), strict=True):
        found[name] = found.get(name, 0.0) + weight
    return found
