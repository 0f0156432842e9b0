"""The names of data sets, algorithms and parts on the command line.

They are listed here once more, so that an unknown one is refused before anything slow is imported.
A test compares them with those of the papers.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

AS_PUBLISHED = " (as published)"
"""The words after the name of a learner that is run as in its paper."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


LEARNERS = _names(
    "raker, omkl_aks, amkl, amkl_aks, expert_mkl, perceptron, omkc_u, omkc_dd, omkc_sd, spa, "
    "kernel_ogd, omkl, rbp, forgetron, bogd, bpas, projectron, omkl_b, oks_sil, okl_gd, oks, "
    "proj_ka, multitask"
)
"""The names in ``jaxmkl.LEARNERS`` as long as nobody has added one."""


class Names(NamedTuple):
    """The names that a command knows."""

    datasets: tuple[str, ...]
    algorithms: tuple[str, ...]
    parts: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    """The algorithms that the command also knows as published."""
    learners: bool = False
    """True if the command knows all of ``jaxmkl.LEARNERS``."""


COMMANDS = {
    "tour": Names(
        _names("diabetes, breast_cancer, digits, drift"),
        _names("raker, omkl_aks, amkl, amkl_aks, expert_mkl"),
        learners=True,
    ),
    "amkl": Names(
        _names(
            "twitter, tom, air, energy, naval, german, svmguide3, spambase, magic04, kin40k, "
            "elevators, pol, sml, a9a, stationary, stationary_absolute, abrupt, friedman1, "
            "friedman2, few_of_32, ridges_of_32, ImageSegments, Bananas, Phishing, TrumpApproval, "
            "ChickWeights, digits"
        ),
        _names(
            "raker, omkl_aks, amkl, amkl_aks, amkl_aks (tuned), expert_mkl, kl_rbf_0.1, kl_rbf_1, "
            "kl_rbf_10, poly2, poly3, linear, omkl, omkl_b"
        ),
        _names(
            "tables, support, classification, mixture, labels, drift, learned, densities, "
            "probabilities, river, tradeoff, curves, regret"
        ),
        published=_names("raker, omkl_aks, amkl, amkl_aks"),
        learners=True,
    ),
    "bomkl": Names(
        _names("german, svmguide3, madelon, magic04, a9a, cod_rna, susy, two_inputs"),
        _names(
            "perceptron*, omkc_u, omkc_dd, omkc_sd, omkc_sd (printed slip), rbp, forgetron, bogd, "
            "bpas, spa"
        ),
        _names("table1, table2, sensitivity, precision, bounds"),
        published=_names("omkc_u, omkc_dd, omkc_sd, rbp, forgetron, bogd, bpas, spa"),
        learners=True,
    ),
    "oks": Names(
        _names("german, svmguide3, spambase, mushrooms, a9a, w7a, ijcnn1, cod_rna, two_of_ten"),
        _names("oks_sil, okl_gd, oks, proj_ka, expert_mkl"),
        _names("table2, scaled, figure1, width, anisotropic, learned"),
        published=_names("oks_sil, okl_gd, oks, proj_ka"),
        learners=True,
    ),
    "design": Names(
        _names(
            "australian, sonar, segmentation, heart, orl, reuters_4class, german, svmguide3, "
            "spambase, magic04, mushrooms, madelon, a9a, cod_rna, susy, reuters21578, sentiment, "
            "digits, breast_cancer, wine, iris, plane, rare"
        ),
        _names(
            "random, ted, cted, rrss, gmkal, lmkal, cted*, rrss*, facility, kmeans, ted_columns, "
            "ted_features"
        ),
        _names("tables, picture, selectors, rare, rounds, tuned"),
    ),
    "multitask": Names(
        _names("landmine, sentiment, a9a, digits, two_inputs"),
        _names("mixed, both, local, global, unsure, margin, chance"),
        _names("components, asking, bounds"),
        published=("multitask",),
        learners=True,
    ),
    "decisions": Names(
        _names(
            "waves, wheel, digits, branin, hartmann6, tom, air, twitter, energy, friedman1, "
            "elevators, kin40k"
        ),
        ("expert_mkl",),
        _names("bandits, optimisation, active"),
    ),
}


def known_algorithms(
    command: str, algorithms: Iterable[str], published: Iterable[str], learners: Iterable[str]
) -> tuple[str, ...]:
    """Return the algorithms that a command knows: its own, those as published, and learners.

    Only the examples of the command "multitask" have tasks, which ``multitask`` needs.

    >>> known_algorithms("oks", ["oks"], ["oks"], ["raker", "oks", "multitask"])
    ('oks', 'oks (as published)', 'raker')
    """
    others = (name for name in learners if name != "multitask" or command == "multitask")
    ours = (name + AS_PUBLISHED for name in published)
    return tuple(dict.fromkeys((*algorithms, *ours, *others)))


def refusal(arguments: Sequence[str]) -> str | None:
    """Return why a command line is refused: its first unknown name; None if there is none.

    >>> refusal(["multitask", "--parts", "asking,table1"])
    "unknown part 'table1'; there are: components, asking, bounds"
    """
    default = not arguments or arguments[0].startswith("-")
    command = "tour" if default else arguments[0]
    if command not in COMMANDS or {"-h", "--help"} & {*arguments}:
        return None
    names = COMMANDS[command]
    library = sys.modules.get("jaxmkl")  # who has imported it may have added a learner
    registered = LEARNERS if library is None else tuple(library.LEARNERS)
    algorithms = known_algorithms(
        command, names.algorithms, names.published, registered if names.learners else ()
    )
    for option, kind, known in (
        ("--datasets", "data set", names.datasets),
        ("--algorithms", "algorithm", algorithms),
        ("--parts", "part", names.parts),
    ):
        given = _given(arguments, option)
        if not known or (option == "--parts" and given == ["all"]):
            continue
        for name in given:
            if name not in known:
                return f"unknown {kind} {name!r}; there are: {', '.join(known)}"
    return None


def _given(arguments: Sequence[str], option: str) -> list[str]:
    """Return the names that follow an option, where it is given last."""
    text = ""
    for i, word in enumerate(arguments):
        if word == option:
            text = arguments[i + 1] if i + 1 < len(arguments) else ""
        elif word.startswith(f"{option}="):
            text = word.removeprefix(f"{option}=")
    return [name.strip() for name in text.split(",") if name.strip()]
