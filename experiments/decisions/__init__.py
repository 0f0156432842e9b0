"""Decisions by a learner's own uncertainty: which arm, which point, which label."""

from ..papers.paper import Paper
from .arms import BANDITS, bandits
from .labels import STREAMS, active
from .search import FUNCTIONS, optimisation

DECISIONS = Paper(
    name="decisions",
    title="decisions by what a learner does not know: bandits, optimisation, labels",
    datasets=(*BANDITS, *FUNCTIONS, *STREAMS),
    algorithms={"expert_mkl": "expert_mkl"},
    parts=(bandits, optimisation, active),
    default_parts=("bandits", "optimisation", "active"),
    task="regression",
    generated=(*BANDITS, *FUNCTIONS, "friedman1"),
    parts_without_files=("bandits", "optimisation"),
    optional_files=True,
)
