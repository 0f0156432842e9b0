"""Learners by their names, made for a task, scaled online; the names of their kernels."""

import dataclasses
import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

import jaxmkl
from jaxmkl.cli.options import UsageError
from jaxmkl.kernels import Kernel, OnColumns, Product, Sum
from jaxmkl.recipes._task import arguments_for
from jaxmkl.wrappers import RunningMoments, delayed, layers, one_vs_rest, probabilities
from jaxmkl.wrappers import scaled_targets as with_scaled_targets

DEFAULT = ("raker", "amkl_aks", "expert_mkl")
#: How often learners that may skip labels do so, at targets of variance 1.
PAUSES = {"tolerance": 1.0, "max_skips": 2}


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate:
    """A learner, the name it has in tables, and the arguments it was made of."""

    name: str
    learner: Any
    parameters: Mapping[str, Any]


def candidates(
    names: Sequence[str] | None,
    task: str,
    num_classes: int,
    settings: Mapping[str, Any],
    rate: float | None,
    notes: list[str],
) -> list[Candidate]:
    """The learners asked for, or the default ones.

    Args:
      names: of :data:`jaxmkl.LEARNERS`.
      task: "regression" or "classification".
      num_classes: K of classification.
      settings: arguments by name, for those learners that have them.
      rate: the share of labels to be asked for, or None for the learner's own way.
      notes: takes a sentence for what does not apply to a learner.

    Raises:
      UsageError: for a name or setting that none has, or what a learner refuses.
    """
    chosen = DEFAULT if names is None else tuple(dict.fromkeys(names))
    for name in chosen:
        if name not in jaxmkl.LEARNERS or name == "multitask":
            others = ", ".join(other for other in jaxmkl.LEARNERS if other != "multitask")
            raise UsageError(f"unknown learner {name!r}; there are: {others}")
    notes += check_settings(settings, {name: parameters_of(name) for name in chosen})
    made = [_candidate(name, task, num_classes, settings, rate) for name in chosen]
    own = [one.name for one in made if rate is not None and "query" not in one.parameters]
    if len(own) == len(made) and rate is not None:
        raise UsageError(f"--labels: {', '.join(own)} asks in its own way; take another learner")
    if own:
        notes.append(f"--labels does not apply to {', '.join(own)}, which asks in its own way")
    if any("tolerance" in one.parameters for one in made):
        most = f"at most {PAUSES['max_skips']} in a row unless --set max_skips says so"
        notes.append(f"amkl and amkl_aks skip labels where their kernels agree, {most}")
    return made


def parameters_of(factory: str) -> dict[str, Any]:
    """The parameters of a factory of learners, and their defaults.

    >>> parameters_of("amkl")["max_skips"], "max_skips" in parameters_of("raker")
    (1.0, False)
    """
    known = inspect.signature(jaxmkl.LEARNERS[factory]).parameters
    return {name: parameter.default for name, parameter in known.items()}


def check_settings(settings: Iterable[str], accepted: Mapping[str, Collection[str]]) -> list[str]:
    """A sentence for each setting that some of the learners do not have.

    Args:
      settings: names given with ``--set``.
      accepted: the parameters of each learner asked for, by its name.

    Raises:
      UsageError: none of them has it.

    >>> check_settings(["rate"], {"a": ["rate", "size"], "b": ["size"]})
    ['--set rate: no parameter of b, left out there']
    """
    found = []
    for setting in settings:
        without = [name for name, known in accepted.items() if setting not in known]
        text = f"--set {setting}: no parameter of {', '.join(without)}"
        if len(without) == len(accepted):
            known = dict.fromkeys(name for each in accepted.values() for name in each)
            raise UsageError(f"{text}; there are: {', '.join(known)}")
        if without:
            found.append(f"{text}, left out there")
    return found


def pausing(factory: str) -> dict[str, Any]:
    """Arguments with which a learner that may skip labels does so at targets of variance 1.

    The library's tolerance suits the papers' targets, whose variance is some thousandths.
    """
    return {name: value for name, value in PAUSES.items() if name in parameters_of(factory)}


def _candidate(
    name: str, task: str, num_classes: int, settings: Mapping[str, Any], rate: float | None
) -> Candidate:
    known, several = parameters_of(name), task == "classification" and num_classes > 2
    arguments = pausing(name)
    arguments |= arguments_for(jaxmkl.LEARNERS[name], task, num_classes if several else None)
    if rate is not None and "query" in known:
        arguments["query"] = jaxmkl.query.Rate(rate)
    arguments |= {k: v for k, v in settings.items() if k in known}
    try:
        learner: Any = jaxmkl.LEARNERS[name](**arguments)
        if learner.task != task:
            can = [n for n in DEFAULT if n != name]
            text = f"{name}: does {learner.task}, and the target wants {task}"
            raise UsageError(f"{text}; take another, as {' or '.join(can)}")
        if several and learner.num_outputs is None:
            learner = one_vs_rest(learner, num_classes)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}: {error}") from error
    learner = jaxmkl.scaled(learner, RunningMoments())
    wrapped = probabilities if task == "classification" else with_scaled_targets
    return Candidate(name, wrapped(learner), known | arguments)


def late(learner: Any, state: Any, delay: int) -> tuple[Any, Any]:
    """A learner and its state, with labels that come ``delay`` rounds late."""
    if not delay:
        return learner, state
    learner = delayed(learner, delay)
    return learner, learner.around(state)


def settled(learner: Any, state: Any, delay: int) -> tuple[Any, Any]:
    """The learner inside, and its state once the labels that are due have come."""
    return (learner.learner, learner.flushed(state).inner) if delay else (learner, state)


def kernel_names(kernels: Kernel) -> list[str]:
    """Names of P kernels, by their families and parameters.

    >>> kernel_names(jaxmkl.Gaussian([0.1, 1.0]))
    ['Gaussian(bandwidth=0.1)', 'Gaussian(bandwidth=1)']
    >>> kernel_names(jaxmkl.Gaussian(0.1) * jaxmkl.Linear().on([0, 2]))
    ['Gaussian(bandwidth=0.1) * Linear().on([0, 2])']
    """
    if isinstance(kernels, jaxmkl.KernelDictionary):
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


def kernel_weights(learner: Any, state: Any) -> dict[str, float]:
    """Weights of the kernels by their names, summed over their models, meaned over classes.

    Empty for a learner that has none.
    """
    *_, inside = layers(learner)
    banks: tuple = inside.models if isinstance(inside, jaxmkl.MKL) else ()
    kernels = getattr(banks[0], "kernels", None) if len(banks) == 1 else None
    weights = getattr(learner.info(state), "weights", None)
    if weights is None or not isinstance(kernels, Kernel):
        return {}
    each = np.asarray(weights, np.float64).reshape(-1, inside.num_models).mean(axis=0)
    total = each.reshape(-1, kernels.num_kernels).sum(axis=0)
    found: dict[str, float] = {}
    for name, weight in zip(kernel_names(kernels), total.tolist(), strict=True):
        found[name] = found.get(name, 0.0) + weight
    return found
