"""The plan: which parts of the experiments are run, on which data sets, with how many seeds.

A *play* is a part of a paper's experiments, or a benchmark, with the choices of its run. It is run
in *units*, one for each of its data sets if a part may be run by data set.
"""

import dataclasses
import importlib.util
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jaxmkl.evaluate import UsageError

from .. import page
from ..bench import standings
from ..decisions import DECISIONS
from ..names import AS_PUBLISHED
from ..options import Options
from ..papers import PAPERS
from ..papers.amkl_learned import DATASETS as LEARNED
from ..papers.amkl_learned import DENSITIES
from ..papers.amkl_probabilities import DATASETS as PROBABLE
from ..papers.amkl_river import DATASETS as RIVER
from ..papers.amkl_runs import CLASSIFICATION, REGRESSION
from ..papers.bomkl import LARGE, SMALL
from ..papers.bounds import GENERATED as THEOREMS
from ..papers.design_rounds import POOLS
from ..papers.design_selectors import BUNDLED, DENSE, TEXTS
from ..papers.multitask import DATASETS as TASKS
from ..papers.oks import DATASETS as OKS
from ..papers.paper import run_paper
from ..report import Report

IN_PARTS = {**PAPERS, DECISIONS.name: DECISIONS}
WHOLE = "whole"  # the unit of a play that is not run by data sets
QUICK_SEEDS = 2


@dataclasses.dataclass(frozen=True)
class Play:
    """A part of the experiments, and the choices with which its figures are made.

    The command and ``version`` are the definition of a unit. ``version`` has to be raised when
    changes to the code of a part change its figures, so that these are made again.
    """

    paper: str  # or "bench"
    part: str  # of a paper, or the option of a benchmark
    datasets: Sequence[str] = (WHOLE,)
    quick: Sequence[str] = ()  # those that are run with --quick
    seeds: int | None = None  # None: the paper's own number
    algorithms: Sequence[str] | None = None
    settings: Mapping[str, object] = dataclasses.field(default_factory=dict)
    needs: Sequence[str] = ()  # packages without which some of the figures cannot be made
    suffix: str = ""  # distinguishes plays of the same part
    version: int = 1

    @property
    def name(self) -> str:
        """The name by which templates refer to the figures.

        >>> Play("amkl", "tables").name
        'amkl.tables'
        """
        return f"{self.paper}.{self.part}{self.suffix}"

    @property
    def missing(self) -> list[str]:
        """The packages that are needed and are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]

    def units(self, quick: bool) -> Iterator["Unit"]:
        """Yield the units, of a quick play with few seeds and small data sets."""
        play = dataclasses.replace(self, seeds=QUICK_SEEDS) if quick else self
        for dataset in self.quick if quick else self.datasets:
            yield Unit(play, dataset)


@dataclasses.dataclass(frozen=True)
class Unit:
    """The least that is run at a time: a play on one of its data sets."""

    play: Play
    dataset: str

    @property
    def name(self) -> str:
        """The names of the play and the data set."""
        return f"{self.play.name} {self.dataset}"

    def options(self, data: Path | None = None, plots: Path | None = None) -> Options:
        """Return the options of the command that runs the unit."""
        play = self.play
        benched = play.paper == "bench"
        return Options(
            play.paper,
            datasets=None if self.dataset == WHOLE else (self.dataset,),
            algorithms=None if play.algorithms is None else tuple(play.algorithms),
            parts=None if benched else (play.part,),
            seeds=play.seeds,
            settings=play.settings,
            data=data,
            plots=None if benched else plots,
            benchmark=play.part if benched else "short",
        )

    @property
    def command(self) -> str:
        """The command that runs the unit.

        >>> Unit(Play("amkl", "labels", seeds=4), "tom").command
        'python -m experiments amkl --parts labels --datasets tom --seeds 4 --data DIR'
        """
        options, play = self.options(), self.play
        words = ["python -m experiments", options.command]
        if play.paper == "bench":
            words += [] if play.part == "short" else [f"--{play.part.replace('_', '-')}"]
        else:
            words += ["--parts", play.part]
        words += ["--datasets", self.dataset] if options.datasets else []
        if options.algorithms:
            words += ["--algorithms", shlex.quote(",".join(options.algorithms))]
        words += ["--seeds", str(play.seeds)] if play.seeds else []
        words += [f"--set {name}={value}" for name, value in play.settings.items()]
        return " ".join([*words, "--data DIR"])

    def play_it(self, report: Report, data: Path | None, plots: Path | None) -> None:
        """Run the unit, as its command does."""
        options = self.options(data, plots)
        if options.command != "bench":
            run_paper(IN_PARTS[options.command], options, report)
            return
        # compilation and memory are measured in a process that begins anew, without kept programs
        words = shlex.split(self.command.removesuffix(" --data DIR"))[1:]
        words += ["--data", str(data)] if data is not None else []
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "rows.json")
            done = subprocess.run([sys.executable, *words, "--json", str(out)], check=False)
            if done.returncode:
                raise UsageError(f"{self.command} ended with status {done.returncode}")
            report.add(page.read(out)[1])


WITHOUT_NAVAL = tuple(name for name in REGRESSION if name != "naval")
# lmkal takes very long on the pools of australian and reuters_4class, rrss on the latter
NO_LMKAL = ("random", "ted", "cted", "rrss", "gmkal")
NO_RRSS = ("random", "ted", "cted", "gmkal")
OF_LMKAL = ("random", "cted", "rrss", "gmkal", "lmkal")
OF_RRSS = ("random", "ted", "rrss", "gmkal")

# rows of the tables whose query has changed since the others were run
ACTIVE = ("amkl", "amkl_aks", "amkl_aks (tuned)")


def as_published(*names: str) -> tuple[str, ...]:
    """Return the names of learners as published.

    >>> as_published("oks")
    ('oks (as published)',)
    """
    return tuple(name + AS_PUBLISHED for name in names)


OF_AMKL = as_published("raker", "omkl_aks", "amkl", "amkl_aks")
OF_TABLE_1 = as_published("omkc_u", "omkc_dd", "omkc_sd", "spa")
OF_TABLE_2 = as_published("rbp", "forgetron", "bogd", "bpas", "spa")
OF_OKS = as_published("oks_sil", "okl_gd", "oks", "proj_ka")
OF_TASKS = as_published("multitask")
# as above, whose inverse of a Gram matrix has become a factor of it
PROJECTED = ("proj_ka",)
# decided by the signs of double precision since the others were run
SIGNED = ("spa",)
# T^-1/2 for raker as published but for its features, which have the norm of the recipe
ROOTS = {"tom": 0.01014, "air": 0.01169}
BUDGETS = ("magic04", "a9a", "cod_rna")

PLAN: Sequence[Play] = (
    Play("amkl", "tables", REGRESSION, ("tom",)),
    Play("amkl", "tables", REGRESSION, algorithms=ACTIVE, suffix=".active"),
    Play("amkl", "tables", REGRESSION, ("tom",), algorithms=OF_AMKL, suffix=".published"),
    *(
        Play(
            "amkl",
            "tables",
            (dataset,),
            algorithms=("raker",),
            settings={"step_size": rate, "hedge_rate": rate, "hedge_penalty": 0.02},
            suffix=f".norm_{dataset}",
        )
        for dataset, rate in ROOTS.items()
    ),
    Play("amkl", "classification", CLASSIFICATION, ("german",), version=2),
    Play("amkl", "support", REGRESSION),
    Play("amkl", "mixture", (*WITHOUT_NAVAL, *CLASSIFICATION), ("german",), seeds=2),
    Play("amkl", "labels", (*WITHOUT_NAVAL, *CLASSIFICATION), seeds=4, needs=("skactiveml",)),
    Play("amkl", "drift", ("abrupt",), version=2),
    Play("amkl", "river", RIVER, seeds=5, needs=("river",), version=2),
    Play("amkl", "learned", LEARNED),
    Play("amkl", "densities", DENSITIES, version=2),
    Play("amkl", "probabilities", PROBABLE, ("german",), version=3),
    Play("amkl", "tradeoff", ("tom",), version=2),
    Play("amkl", "regret", ("stationary", "stationary_absolute"), version=2),
    Play("bomkl", "table1", SMALL, ("german",)),
    Play("bomkl", "table1", SMALL, ("german",), algorithms=OF_TABLE_1, suffix=".published"),
    Play("bomkl", "table1", SMALL, algorithms=SIGNED, suffix=".spa"),
    Play("bomkl", "table2", LARGE),
    Play("bomkl", "table2", BUDGETS, algorithms=SIGNED, suffix=".spa"),
    Play("bomkl", "table2", BUDGETS, algorithms=OF_TABLE_2, suffix=".published"),
    Play("bomkl", "sensitivity", ("a9a",)),
    Play("bomkl", "precision", SMALL),
    Play("bomkl", "precision", SMALL, algorithms=SIGNED, suffix=".spa"),
    Play("bomkl", "bounds", (THEOREMS,), (THEOREMS,)),
    Play("oks", "table2", OKS, ("german",)),
    Play("oks", "table2", OKS, algorithms=PROJECTED, suffix=".projected"),
    Play("oks", "table2", OKS, ("german",), algorithms=OF_OKS, suffix=".published"),
    Play(
        "oks",
        "table2",
        ("spambase",),
        algorithms=("oks_sil",),
        settings={"budget": 200},
        suffix=".budget_200",
    ),
    Play("oks", "scaled", OKS),
    Play("oks", "scaled", OKS, algorithms=PROJECTED, suffix=".projected"),
    Play("oks", "scaled", OKS, algorithms=OF_OKS, suffix=".published"),
    Play("oks", "figure1", ("spambase",)),
    Play("oks", "width", ("svmguide3", "spambase")),
    Play("oks", "anisotropic", ("two_of_ten",)),
    Play("oks", "learned", OKS),
    Play("design", "tables", ("sonar", "heart", "segmentation", "orl"), ("sonar",)),
    Play("design", "tables", ("australian",), algorithms=NO_LMKAL, suffix=".australian"),
    Play("design", "tables", ("australian",), algorithms=OF_LMKAL, seeds=1, suffix=".lmkal"),
    Play("design", "tables", ("reuters_4class",), algorithms=OF_RRSS, seeds=1, suffix=".rrss"),
    Play("design", "tables", ("reuters_4class",), algorithms=NO_RRSS, suffix=".reuters"),
    Play("design", "picture", ("plane",), ("plane",)),
    Play("design", "tuned", ("sonar", "heart", "segmentation")),
    Play("design", "selectors", (*DENSE, *TEXTS, *BUNDLED), ("wine",)),
    Play("design", "rare", ("rare",)),
    Play("design", "rounds", POOLS, ("breast_cancer",)),
    Play("multitask", "components", TASKS, ("landmine",), version=2),
    Play(
        "multitask", "components", TASKS, ("landmine",), algorithms=OF_TASKS, suffix=".published"
    ),
    Play("multitask", "asking", ("landmine", "sentiment"), version=2),
    Play("multitask", "bounds", (THEOREMS,), (THEOREMS,)),
    Play("decisions", "bandits", version=2),
    Play("decisions", "optimisation"),
    Play("decisions", "active", version=2),
    Play("bench", "short"),
    Play("bench", "long"),
    Play("bench", "memory"),
    Play("bench", "peers", needs=("river", "capymoa")),
    # by package, so that ours are played again without all others
    *(
        Play(
            "bench",
            "peers",
            tuple(standings.DATASETS),
            seeds=3 if package in ("jaxmkl", "sklearn") else 1,
            algorithms=names,
            needs=(package,),
            suffix=f".{package}",
        )
        for package, names in standings.NAMES.items()
    ),
    Play("bench", "device"),
    Play("bench", "fleet"),
    Play("bench", "certainty"),
    Play("bench", "endless"),
    Play("bench", "pools"),
    Play("bench", "large_pools"),
    Play("bench", "serve"),
)
