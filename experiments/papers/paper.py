"""The experiments of a paper, as its file describes them, and a job that runs some parts."""

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import jaxmkl
from jaxmkl.evaluate import Candidate, UsageError, check_settings, parameters_of
from jaxmkl.recipes.settings import SETTINGS, published

from ..evaluate import Runs, Stream, candidate, evaluate
from ..names import AS_PUBLISHED, known_algorithms
from ..options import Options, Settings, chosen, refused
from ..report import Report


def plain(name: str) -> str:
    """Return the name of a learner without the words that it is as published.

    >>> plain("raker (as published)"), plain("amkl_aks (tuned)")
    ('raker', 'amkl_aks (tuned)')
    """
    return name.removesuffix(AS_PUBLISHED)


def is_published(name: str) -> bool:
    """Return whether a name is that of a learner as its paper runs it."""
    return name.endswith(AS_PUBLISHED)


def as_published(
    name: str, stream: Stream, num_inputs: int | None = None, **tuned: float
) -> Candidate:
    """Return a learner as its paper runs it, for a stream.

    Its parameters are the constants of its setting, each with the place where the paper has it,
    and the values of what is ``tuned``. ``num_inputs`` is the number of the columns of the stream,
    if not another one.
    """
    T, D = stream.X.shape
    learner = published(plain(name), num_examples=T, num_inputs=num_inputs or D, **tuned)
    constants = SETTINGS[plain(name)].constants
    parameters = {one.name: f"{one.value} ({one.source})" for one in constants}
    return Candidate(name, learner, parameters | tuned)


def check_learners(paper: "Paper", settings: Settings, factories: Mapping[str, str]) -> list[str]:
    """Check settings as check_settings does, and build every learner, to refuse bad values.

    No setting applies to a learner as published.
    """
    known = {
        name: {} if is_published(name) else parameters_of(factory)
        for name, factory in factories.items()
    }
    lines = check_settings(settings, known)
    for name, factory in factories.items():
        if not is_published(name):
            candidate(name, factory, paper.task, settings)
    return lines


class NoneRequestedError(Exception):
    """None of the data sets, or of the algorithms, of a part was requested."""


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper's experiments: the choices that it offers, and the parts that run it."""

    name: str
    title: str
    datasets: Sequence[str]
    algorithms: Mapping[str, str]  # the name in tables and on the command line -> the factory
    parts: Sequence["Callable[[Job], None]"]  # named as the functions, which tell of them
    default_parts: Sequence[str]
    seeds: int = 10
    task: str = "classification"
    generated: Sequence[str] = ()  # data sets that are generated, not read
    parts_without_files: Sequence[str] = ()  # parts that only use generated data sets
    bundled: Sequence[str] = ()  # data sets of scikit-learn, used if no folder is named
    optional_files: bool = False  # without a folder, only generated sets are run
    check: "Callable[[Paper, Settings, Mapping[str, str]], list[str]]" = check_learners
    published: Sequence[str] = ()  # learners that it may run as published, too
    open_parts: Sequence[str] = ()  # parts that learners as published join, and any of LEARNERS

    @property
    def known(self) -> Mapping[str, str]:
        """The algorithms that may be asked for by name, with their factories."""
        learners = jaxmkl.LEARNERS if self.open_parts else ()
        names = known_algorithms(self.name, self.algorithms, self.published, learners)
        return {name: self.algorithms.get(name, plain(name)) for name in names}

    @property
    def by_name(self) -> "dict[str, Callable[[Job], None]]":
        """The parts by their names on the command line."""
        return {part.__name__: part for part in self.parts}


@dataclasses.dataclass
class Job:
    """One call of a paper's experiments: the choices made, and the results that parts share."""

    paper: Paper
    options: Options
    report: Report
    datasets: tuple[str, ...]
    algorithms: tuple[str, ...]
    seeds: int
    results: dict[tuple, Any] = dataclasses.field(default_factory=dict)

    def among(self, part: str, datasets: Sequence[str], algorithms: Sequence[str]) -> tuple:
        """Return the chosen ones among the data sets and algorithms of a part.

        Raises:
            NoneRequestedError: if there are none; a line says so, and the part ends.
        """
        names = tuple(name for name in self.datasets if name in datasets)
        found = tuple(name for name in self.algorithms if self.joins(part, name, algorithms))
        if not names or not found:
            self.report.say(f"{part}: none of its data sets and algorithms was requested")
            raise NoneRequestedError
        return names, found

    def joins(self, part: str, name: str, algorithms: Sequence[str]) -> bool:
        """Return whether a requested algorithm is run in a part with such algorithms.

        In an open part, one that is not the paper's own is, and one as published beside its own.
        """
        if name in self.paper.algorithms or part not in self.paper.open_parts:
            return name in algorithms
        own, factory = self.paper.algorithms, self.paper.known[name]
        return factory not in own.values() or factory in {own[one] for one in algorithms}

    def each(
        self,
        part: str,
        sets: Sequence[Any],
        names: Sequence[str],
        read: "Callable[[Job, Any], Stream]",
    ) -> Iterator[tuple[Stream, str]]:
        """Yield every stream with every name, and show the progress.

        A stream is read from a data set, or from whatever else ``read`` takes.
        """
        with self.report.progress(part, len(sets) * len(names)) as step:
            for one in sets:
                stream = read(self, one)
                for name in names:
                    step(f"{stream.name} {name}")
                    yield stream, name

    def runs(
        self,
        part: str,
        pairs: Sequence[tuple[str, str]],
        stream_of: Callable[[str, str], Stream],
        built: Callable[[Stream, str], Candidate],
        *,
        permute: bool | None = None,
    ) -> list[tuple[str, Candidate, Runs]]:
        """Run learners on data sets, unless a part has done so before, and return them with runs.

        Data sets and learners are pairs of names in tables; ``stream_of`` reads a data set for a
        learner, ``built`` makes a learner for a stream. With ``permute`` every seed has an order
        of its own; by default, if the examples are of classes.
        """
        wanted = [pair for pair in pairs if pair not in self.results]
        for dataset, name in self.report.steps(part, wanted):
            stream = stream_of(dataset, name)
            made = built(stream, name)
            runs = evaluate(made.learner, stream, self.seeds, permute=permute)
            self.results[dataset, name] = made, runs
        return [(dataset, *self.results[dataset, name]) for dataset, name in pairs]

    def read(self, name: str) -> Any:
        """Read one of the papers' data sets."""
        with refused():
            return jaxmkl.tables.read(self.path(name))

    def stream(self, name: str, how: str | None = None) -> Stream:
        """Read a data set as a stream, its features scaled by ``jaxmkl.tables.scale`` or not."""
        data = self.read(name)
        X = data.X if how is None else jaxmkl.tables.scale(data.X, how)
        return Stream(name, X, data.y, data.task).astype(np.float32)

    def path(self, name: str) -> Path:
        """Return the path of one of the papers' data sets."""
        return data_folder(self.options) / f"{name}.npz"

    def array(self, name: str, key: str) -> np.ndarray:
        """Read an array from the file of a data set, such as the tasks of its examples."""
        path = self.path(name)
        with refused(), np.load(path, allow_pickle=False) as archive:
            if key not in archive:
                raise UsageError(f"{path}: has no {key!r}")
            return archive[key]


def data_folder(options: Options) -> Path:
    """Return the folder of the papers' data sets.

    Raises:
        UsageError: if no folder was named, or it does not exist.
    """
    named = options.data or os.environ.get("JAXMKL_DATA")
    if not named:
        advice = "name their folder with --data DIR or in JAXMKL_DATA"
        raise UsageError(f"{options.command} needs the papers' data sets: {advice}")
    folder = Path(named)
    if not folder.is_dir():
        raise UsageError(f"--data: the folder {folder} does not exist")
    return folder


def run_paper(paper: Paper, options: Options, report: Report) -> None:
    """Run the chosen parts of a paper's experiments.

    Raises:
        UsageError: if a request is of unknown or missing things, or no part has what it asks for.
    """
    usual = [name for name in paper.datasets if name not in paper.bundled]
    if options.datasets is None and not (options.data or os.environ.get("JAXMKL_DATA")):
        text = "no folder of the papers' data sets was named (--data DIR or JAXMKL_DATA)"
        if paper.bundled:
            report.say(f"{text}: scikit-learn's {', '.join(paper.bundled)} are used instead")
            usual = [*paper.bundled, *paper.generated]
        elif paper.optional_files:
            usual = list(paper.generated)
            left_out = ", ".join(name for name in paper.datasets if name not in usual)
            report.say(f"{text}, left out: {left_out}")
    datasets = chosen("data set", options.datasets, paper.datasets, usual)
    algorithms = chosen("algorithm", options.algorithms, paper.known, paper.algorithms)
    by_name = paper.by_name
    wanted = tuple(by_name) if options.parts == ("all",) else options.parts
    parts = chosen("part", wanted, by_name, paper.default_parts)
    factories = {name: paper.known[name] for name in algorithms}
    for line in paper.check(paper, options.settings, factories):
        report.say(line)
    files = [name for name in datasets if name not in (*paper.generated, *paper.bundled)]
    if set(parts) <= set(paper.parts_without_files):
        files = []
    if files:
        folder = data_folder(options)
        missing = [name for name in files if not (folder / f"{name}.npz").is_file()]
        if missing and (options.datasets is not None or len(missing) == len(files)):
            files_wanted = ", ".join(f"{name}.npz" for name in missing)
            raise UsageError(f"the folder {folder} has no {files_wanted}")
        if missing:
            report.say(f"not in {folder}, left out: {', '.join(missing)}")
            datasets = tuple(name for name in datasets if name not in missing)
    seeds = paper.seeds if options.seeds is None else options.seeds
    job, ran = Job(paper, options, report, datasets, algorithms, seeds), False
    for part in parts:
        with suppress(NoneRequestedError):
            by_name[part](job)
            ran = True
    if not ran:
        raise UsageError(f"nothing was run; {paper.name} has the parts {', '.join(by_name)}")
