"""An evaluation as plain values, shared by the command, the experiments and the estimators.

- Candidates: learners with their names and arguments, or rivals that are not learners.
- Scores, curves and baselines of a stream that comes chunk by chunk. They are named tuples, whose
  methods return the next value, so a checkpoint stores them like any pytree.
- Rows of results, as ``--json`` writes them, and their figures as text, on a page
  (:mod:`jaxmkl.evaluate.markup`) and drawn (:mod:`jaxmkl.evaluate.drawings`, by matplotlib).
- The memory of a process and of a learner's state.

Nothing here reads a table or a command line.
"""

from jaxmkl.distributions import COVERAGE, DensityScores, central_intervals, density_scores
from jaxmkl.evaluate import advice, markup
from jaxmkl.evaluate.baselines import Baselines, Seen, first_of
from jaxmkl.evaluate.boosted import Boosted
from jaxmkl.evaluate.candidates import (
    PAUSES,
    Candidate,
    UsageError,
    arguments_for,
    candidate,
    candidates,
    check_settings,
    has_linear_bank,
    importances,
    kernel_names,
    kernel_weights,
    names_of,
    parameters_of,
    pausing,
    predicts_densities,
    predicts_log_odds,
    shares,
)
from jaxmkl.evaluate.effects import Effect, WordEffect, by_column, effect, recalls, words
from jaxmkl.evaluate.memory import held_bytes, state_bytes
from jaxmkl.evaluate.rows import (
    LOW_IS_BETTER,
    Row,
    decimals,
    figure,
    lines,
    mean_and_std,
    plain,
    printable,
    row,
    rows,
    settings,
    size,
    spread,
    two_digits,
)
from jaxmkl.evaluate.scores import Certainty, Curve, Densities, Score, classes_of
from jaxmkl.evaluate.watched import Spaced, Watched

__all__ = [
    "COVERAGE",
    "LOW_IS_BETTER",
    "PAUSES",
    "Baselines",
    "Boosted",
    "Candidate",
    "Certainty",
    "Curve",
    "Densities",
    "DensityScores",
    "Effect",
    "Row",
    "Score",
    "Seen",
    "Spaced",
    "UsageError",
    "Watched",
    "WordEffect",
    "advice",
    "arguments_for",
    "by_column",
    "candidate",
    "candidates",
    "central_intervals",
    "check_settings",
    "classes_of",
    "decimals",
    "density_scores",
    "effect",
    "figure",
    "first_of",
    "has_linear_bank",
    "held_bytes",
    "importances",
    "kernel_names",
    "kernel_weights",
    "lines",
    "markup",
    "mean_and_std",
    "names_of",
    "parameters_of",
    "pausing",
    "plain",
    "predicts_densities",
    "predicts_log_odds",
    "printable",
    "recalls",
    "row",
    "rows",
    "settings",
    "shares",
    "size",
    "spread",
    "state_bytes",
    "two_digits",
    "words",
]
