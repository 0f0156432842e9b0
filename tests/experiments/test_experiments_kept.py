"""Options, parts and tables of the experiments before the core became lean are still there."""

import argparse
import ast
from pathlib import Path

import pytest

from experiments.commands import parser
from experiments.results.plan import IN_PARTS, PLAN

ROOT = Path(__file__).parents[2]
PAPER = "algorithms, data, datasets, json, parts, plots, seeds, set"
OPTIONS = {
    "tour": "algorithms, datasets, json, plots, seeds, set",
    **dict.fromkeys(("amkl", "bomkl", "oks", "design", "multitask", "decisions"), PAPER),
    "bench": "algorithms, certainty, data, datasets, device, endless, fleet, json, large-pools, "
    "long, memory, parts, peers, plots, pools, rounds",
    "results": "data, jobs, json, only, plots, quick",
    "report": "out",
}
PARTS = {
    "amkl": "tables, support, classification, mixture, labels, drift, learned, densities, "
    "probabilities, river, tradeoff, curves, regret",
    "bomkl": "table1, table2, sensitivity, precision",
    "oks": "table2, scaled, figure1, width, anisotropic, learned",
    "design": "tables, picture, selectors, rare, rounds, tuned",
    "multitask": "components, asking",
    "decisions": "bandits, optimisation, active",
}
# What no part of RESULTS.md is made of; figures that it shows are missed when it is rendered.
NOT_IN_RESULTS = {"amkl.curves"}
#: The titles of tables, with {} for what changes.
TITLES = """
Knowing how sure it is, on {} examples of {} inputs: medians of {} rounds, all in turn
Seeds at once: microseconds an example and seed, medians of {} rounds
{} examples, made chunk by chunk
Speed on {} examples of {} inputs: medians of {} rounds, all in turn
{} examples of {} inputs, made chunk by chunk
{} learners at once: medians of {} rounds, all in turn
Models of other packages and ours: each predicts an example, then learns it
Densities of numbers
Choosing points: medians, each case in a process of its own
Support vectors: medians of {} rounds, all in turn
Tenths of a stream: {} examples each, one order
Many tasks: medians of {} rounds, in turn
Memory of many support vectors
Contextual bandits: regret
Regression with a tenth of the labels
Minimising a function: simple regret
expert_mkl in classification
Theorems 1 to 3, by the {} loss: regret against the best function of any one kernel in hindsight
Tables II and III: mean squared error and share of labels asked for
Table II, the rows with support vectors
Exponent of T in the regret, fitted over all lengths
Figure 2: tolerance and longest pause
Predictive distributions
expert_mkl with some of the labels
The same learner, its labels asked for by rate, by chance, by scikit-activeml
Kernels that are learned
Abrupt changes
What stands on the models of expert_mkl
Probabilities of classes
expert_mkl on river's data sets
Table 1: SPA and learners that keep every mistake
Table 2: SPA and learners with a budget
Figure 1: alpha and beta of SPA
Single and double precision
Figures 1 and 2: accuracy with few labels
Table {}: how often {} wins
{} of {} points in a plane
Accuracy to {} labels: first the pool, then the margin
A rare cluster in a large pool
Accuracy with 5 to 50 labels, and the gain over random points
Wins by penalties tuned on labels
A model of all tasks, one of each, their sum, or a mixture
Who gets a label: the unsure, those of small margin, or any
Table 2: mistakes in online kernel selection
Figure 1: budget, sampling size and threshold of OKS-SIL
Table 2 with features scaled to [-1, 1]
A moving width, and kernels that are learned
A width that moves, and one that is held where the other starts
Two inputs of ten matter: one width of all, and a width for every input
One pass, every example predicted before its label is seen
"""


def commands():
    (found,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    return found.choices


@pytest.mark.parametrize("command", OPTIONS)
def test_commands_have_their_options(command):
    known = {text for action in commands()[command]._actions for text in action.option_strings}
    assert {f"--{name}" for name in OPTIONS[command].split(", ")} <= known


@pytest.mark.parametrize("command", PARTS)
def test_commands_have_their_parts_and_results_are_made_of_them(command):
    parts = PARTS[command].split(", ")
    assert {*parts} <= {*IN_PARTS[command].by_name}
    planned = {f"{play.paper}.{play.part}" for play in PLAN}
    assert {f"{command}.{part}" for part in parts} - NOT_IN_RESULTS <= planned


def test_tables_have_their_titles():
    texts = {
        node.value
        for path in (ROOT / "experiments").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    whole = "\n".join(texts)
    pieces = {piece for title in TITLES.strip().splitlines() for piece in title.split("{}")}
    assert not [piece for piece in pieces if piece not in whole]
