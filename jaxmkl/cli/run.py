"""``jaxmkl run``: learn from a table in the order of its rows, and report the errors.

Each row is predicted before its label is learned. An interrupt before any row is learned ends the
command; a later one ends the run, whose files are written all the same, and a second one the
process. A file that cannot be written is reported, and the others are written. Once predictions
cannot be written, no more checkpoints are: the last one continues where predictions are complete.
"""

import contextlib
import dataclasses
import itertools
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jaxmkl._devices import failure
from jaxmkl.cli import options, show
from jaxmkl.cli.interrupts import Interrupts
from jaxmkl.cli.kept import Kept
from jaxmkl.cli.outputs import opened, reserved
from jaxmkl.cli.pipelines import differences, own_pipeline
from jaxmkl.cli.predictions import Predictions
from jaxmkl.cli.prequential import ALIGNED, Evaluation, Fingerprint, Outcome
from jaxmkl.cli.results import Results, mean_errors, results_of
from jaxmkl.command_line import is_standard, setting
from jaxmkl.evaluate import Candidate, UsageError, candidates
from jaxmkl.tables import Chunk, Columns, Pipeline, SkippedRows, Table, save_pipeline

FIGURES = "figures and curves"
PATIENCE = 0.5  # seconds in which an interrupted chunk may end by itself, after the first one
OUTPUTS = "checkpoint", "predictions", "save", "json", "report"
# the options that a pipeline has settled
OWN = "target", "task", "learner", "set", "drop", "as_", "labels", "density"


def add_to(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("run", help="learn from a table and report the errors",
                                 description=__doc__)  # fmt: skip
    add = parser.add_argument
    add("file", metavar="FILE", help="CSV, NDJSON, Parquet, Arrow, LIBSVM, ARFF or npz; - is "
        "standard input, whose rows are learned as they come once --first of them have decided on "
        "the columns (of LIBSVM 8,192; --from needs none); .gz, .zst, .bz2 and .xz are "
        "decompressed")  # fmt: skip
    add("--task", choices=("regression", "classification"), help="default: as the target says")
    add("--learner", type=options.names, metavar="A,B", help="default: raker,amkl_aks,expert_mkl")
    add("--set", type=setting, action="append", default=[], metavar="NAME=VALUE",
        help="a learner's argument; may be given several times")  # fmt: skip
    add("--labels", type=options.share, metavar="RATE", help="the share of rows whose "
        "label is asked for; rows without a label count")  # fmt: skip
    add("--density", action="store_true", help="predict a density of each number, around the "
        "same prediction, and score it by the log score, the CRPS and intervals of 90 %%; takes "
        "one to three times the time of raker more")  # fmt: skip
    add("--delay", type=options.natural, default=0, metavar="N", help="number of rows after which "
        "a label is known")  # fmt: skip
    add("--seeds", type=options.count, default=1, metavar="N", help="runs of each learner")
    add("--skip", type=options.natural, default=0, metavar="N", help="rows to skip at the start")
    options.bad_rows(add, "one more ends the run, and the results so far are written")
    add("--save", type=Path, metavar="PIPELINE", help="save the learner with the least error")
    add("--from", dest="from_", type=Path, metavar="PIPELINE", help="continue a saved pipeline")
    add("--predictions", type=Path, metavar="OUT", help="write the predictions, as CSV; - is "
        "standard output, here and for --json and --report")  # fmt: skip
    add("--checkpoint", type=Path, metavar="FILE", help="save the run in FILE; the same "
        "command then resumes it, whatever stopped it")  # fmt: skip
    add("--every", type=options.interval, metavar="N|Nm", help="rows, or minutes such as 5m, "
        "between checkpoints (default: 5m)")  # fmt: skip
    add("--json", type=Path, metavar="OUT", help="write figures and curves")
    add("--report", type=Path, metavar="OUT.html", help="write a page of all results")
    options.table_options(parser)
    parser.set_defaults(command=command)


def command(given: Namespace) -> int:
    """Run the command; return 1 if a file could not be written. An interrupt ends it early."""
    show.needs_rich(*["matplotlib"] * (given.report is not None))
    inputs = {"FILE": given.file, "--from": given.from_}
    outputs_of = {f"--{name}": getattr(given, name) for name in OUTPUTS}
    text = "--predictions", "--json", "--report"
    beside, replaces = {"--checkpoint": (".before",)}, {"--save": ("--from",)}
    with (
        Interrupts() as interrupts,
        reserved(inputs, outputs_of, text=text, beside=beside, replaces=replaces),
        contextlib.ExitStack() as files,
    ):
        with show.progress(Path(given.file).name) as say:
            run = interrupts.supervise(lambda: begun(given, interrupts))
            files.callback(run.close)
            ending = run.evaluated(say)
        run.finished(ending)
    return interrupts.status or ending.status or int(bool(run.failed))


class Ending(NamedTuple):
    """The end of a run: its status and its cause."""

    status: int = 0  #: the exit status: 2 if the rest of the table is refused, 1 if JAX failed
    why: str = ""  #: a sentence on what ended it before the table did, if that was no interrupt


def begun(given: Namespace, interrupts: Interrupts) -> "Run":
    """Open the table, and continue from the checkpoint, if there is one.

    Raises:
      UsageError: if options do not go together or do not fit the table.
      ValueError: if the table cannot be read.
    """
    from jaxmkl.tables import open_table
    from jaxmkl.tables.source import ROWS, beginning

    began, own = time.perf_counter(), [*OWN, *["seeds"] * (given.seeds > 1)]
    pipeline = None if given.from_ is None else own_pipeline(given.from_, given, own)
    kept = Kept(given)
    open_it = open_table if pipeline is None else pipeline.open
    with contextlib.ExitStack() as opening:
        table = open_it(given.file, **options.reading(given), keep_refused=True)
        opening.callback(table.close)
        size = max(ROWS, given.first)
        chunks = table.chunks(size)
        # rows that decide on the columns are waited for
        first, rows = beginning(table, chunks, size, 1 if pipeline else given.first)
        decided = pipeline.columns if pipeline else _columns(given, table, first, rows)
        columns = kept.columns(decided)
        made, notes = _candidates(given, columns, pipeline, table)
        of_run = given.seeds, given.delay, pipeline, given.bad_rows, given.checkpoint is not None
        evaluation = Evaluation(columns, made, *of_run)
        kept.resume(evaluation)
        if given.save is not None:
            for runners in evaluation.runners.values():
                runners[0].settled()  # compiled here, where an interrupt has nothing to save
        predictions = Predictions(given.predictions, columns.target, kept.length)
        opening.pop_all()
    chunks = itertools.chain([first], chunks)
    files = table, chunks, predictions, kept
    return Run(given, interrupts, *files, evaluation, made, notes, began - evaluation.now.seconds)


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of the command that has :func:`begun`.

    It passes through three states, each in a thread beside the one that waits for interrupts:

        begun      by :func:`begun`: the table is open, its columns are decided, and the learners
                   are where the checkpoint left them, or before the first row
        evaluated  by :meth:`evaluated`, chunk by chunk. Evaluating a chunk changes nothing in the
                   run; then the outcome is taken, with its predictions and perhaps a checkpoint,
                   and no interrupt comes in between. The run ends with the table, or before that
                   by an interrupt, a row that is refused or a device that fails: an
                   :class:`Ending`
        finished   by :meth:`finished`: predictions and checkpoint are closed, and pipeline,
                   figures and page are written, each if it can be
    """

    given: Namespace  #: its options
    interrupts: Interrupts
    table: Table
    chunks: Iterator[Chunk]
    predictions: Predictions
    kept: Kept  #: its checkpoint
    evaluation: Evaluation
    made: list[Candidate]  #: the learners that are evaluated
    notes: list[str]
    began: float  #: when it would have begun, had it never been stopped
    failed: set[str] = dataclasses.field(default_factory=set)  #: options of files not written

    def close(self) -> None:
        """Close the predictions that an error left open."""
        with contextlib.suppress(OSError):
            self.predictions.close()

    def evaluated(self, say: show.Report) -> Ending:
        """Evaluate the rows up to the end of the table, or until the run ends before that.

        Raises:
          UsageError: if the checkpoint does not fit the table, or no row can be read.
          ValueError: if the first row is refused; a later one ends the run, as interrupts do.
          KeyboardInterrupt: after an interrupt before the first chunk.
        """
        try:
            self.interrupts.supervise(lambda: self._chunks(say))
        except KeyboardInterrupt:
            if not self.evaluation.now.num_rows:
                raise
        except Exception as error:
            text, is_usage = failure(error), isinstance(error, UsageError)
            is_known = text or (isinstance(error, ValueError) and not is_usage)
            if not self.evaluation.now.num_rows or not is_known:
                raise
            return Ending(1 if text else 2, text or str(error))
        return Ending()

    def _chunks(self, say: show.Report) -> None:
        """Evaluate the rows after those that are skipped or were evaluated before."""
        given, evaluation = self.given, self.evaluation
        before, begin = evaluation.now.passed, given.skip
        # standard input continues where it was left
        begin, before = (0, 0) if given.file == "-" and before else (begin, before)
        end, read, found = begin + before, 0, Fingerprint()
        # no more rows at once than are to be between checkpoints, which are at the ends of blocks
        most = -(-(given.every or {}).get("examples", sys.maxsize) // ALIGNED) * ALIGNED
        with contextlib.closing(self.table):
            for chunk in self.chunks:
                rows = len(chunk.frame)
                if before and read < end:
                    found = found.after(chunk.frame[max(0, begin - read) : end - read])
                    if end <= read + rows and found != evaluation.now.fingerprint:
                        text = f"belongs to a run whose rows were different: {given.file} has "
                        text += "changed up to where the run is"
                        advice = "put the rows back, or delete the checkpoint"
                        raise UsageError(f"--checkpoint: {given.checkpoint} {text}; {advice}")
                read += rows
                for start in range(rows - max(0, min(rows, read - end)), rows, most):
                    part = range(start, min(rows, start + most))
                    outcome = evaluation.evaluate(chunk.take(part))
                    self._take(outcome)
                    if outcome.refusal:
                        raise ValueError(outcome.refusal)
                    self.interrupts.look()
                say(evaluation.now.num_rows, self.table.share_read())
                self.interrupts.look()
        if read < end and before:
            text = f"belongs to a run past row {end:,}, and {given.file} has only"
            raise UsageError(f"--checkpoint: {given.checkpoint} {text} {read:,} rows")
        if not evaluation.now.num_rows and evaluation.bad:
            skipped = SkippedRows([row.number for row in evaluation.bad])
            raise UsageError(f"{given.file} has no row that can be read; {skipped}")
        if not evaluation.now.num_rows:
            raise UsageError(f"--skip {given.skip}: {given.file} has no rows after these")

    def _take(self, outcome: Outcome) -> None:
        """Accept the outcome of a chunk and write what is due, with no interrupt in between."""
        with self.interrupts.held:
            self.evaluation.take(outcome)
            self._count_time()
            if len(outcome.labels):
                about = outcome.chunk, outcome.said, outcome.labels, outcome.now.baselines.start
                self._write("predictions", lambda: self.predictions.write(*about))
            self._write("checkpoint", lambda: self.kept.offer(self.evaluation, self.predictions))
            self.interrupts.patience = PATIENCE

    def _count_time(self) -> None:
        seconds = time.perf_counter() - self.began
        self.evaluation.now = self.evaluation.now._replace(seconds=seconds)

    def _write(self, option: str, act: Callable[[], Any]) -> Any:
        """Write the file of an option, if it is given; an error of the system is reported."""
        path, is_over = getattr(self.given, option), "predictions" in self.failed
        if path is None or (is_over and option in ("predictions", "checkpoint")):
            return None
        try:
            found = act()
        except OSError as error:
            if option not in self.failed:
                text = f"{error.filename or path}: {error.strerror or error}"
                show.aside(f"jaxmkl: --{option}: {text}")
            self.failed.add(option)
            return None
        self.failed.discard(option)
        return found

    def finished(self, ending: Ending) -> None:
        """Write the results to every file that can be written, and show the table."""
        self.interrupts.patience = float("inf")
        self.interrupts.supervise(lambda: self._finish(ending))

    def _finish(self, ending: Ending) -> None:
        given, evaluation = self.given, self.evaluation
        self._count_time()
        self._write("predictions", lambda: self.predictions.check())
        self._write("checkpoint", lambda: self.kept.close(evaluation, self.predictions))
        self._write("predictions", lambda: self.predictions.close())
        early = self.interrupts.status > 0 or bool(ending.why)
        results = results_of(given, evaluation, self.made, self.notes, early, ending.why)
        said = [
            self._write("save", lambda: _saved(given, evaluation)),
            self._write("json", lambda: _text(given.json, results.to_json(), FIGURES)),
            self._write("report", lambda: _text(given.report, _page(results), "report")),
        ]
        paths = {name: getattr(given, name) for name in OUTPUTS}
        # what is said stands apart from a file that goes to standard output
        aside = sys.stderr if any(map(is_standard, paths.values())) else sys.stdout
        show.table(results, aside)
        for sentence in filter(None, said):
            show.line(sentence, aside)
        if early:
            written = {name for name, path in paths.items() if path is not None} - self.failed
            show.aside(f"jaxmkl: {self._goes_on(ending, written)}")

    def _goes_on(self, ending: Ending, written: set[str]) -> str:
        """A sentence on why the run ended before the table did, and how to continue it."""
        given, now = self.given, self.evaluation.now
        rows = given.skip + now.passed
        text = f"interrupted after {rows:,} rows"
        if ending.why:
            text = f"{ending.why.rstrip('.')}; ended after {rows:,} rows"
        if "checkpoint" in written:
            text = f"{text}; the same command continues from {given.checkpoint}"
        elif "save" in written:
            more = f"--from {given.save} --skip {rows}"
            text = f"{text}; continue with: jaxmkl run {given.file} {more}"
        if ending.status == 2:
            text = f"{text}; mend the row, or skip it with --bad-rows {now.num_bad + 1}"
        return text


def _text(path: Path, text: str, what: str) -> str:
    """Write a text, and return a sentence that says where it is."""
    with opened(path) as file:
        file.write(text)
    return f"{what}: {'standard output' if is_standard(path) else path}"


def _page(results: Results) -> str:
    from jaxmkl.cli.report import page  # which takes matplotlib

    return page(results)


def _columns(given: Namespace, table: Table, first: Chunk, good: list[int]) -> Columns:
    if not good:
        raise ValueError(first.refused[0][1])
    of_arrays = table.target
    target = given.target if of_arrays is None else of_arrays
    asked = {"drop": given.drop, "as_": dict(given.as_), "keep": of_arrays is not None}
    return Columns.decide(first.take(good), target, given.task, **asked, notes=table.notes)


def _candidates(
    given: Namespace, columns: Columns, pipeline: Pipeline | None, table: Table
) -> tuple[list[Candidate], list[str]]:
    """The learners to run on a table, and notes on them."""
    if pipeline is None:
        K, D, settings = len(columns.classes), len(columns.features), dict(given.set)
        asked = {"rate": given.labels, "density": given.density, "num_inputs": D}
        asked |= {"words": columns.of_words, "flags": columns.flags}
        return candidates(given.learner, columns.task, K, settings, **asked)
    one = Candidate(given.from_.name, pipeline.learner, {"learner": pipeline.learner})
    return [one], differences(pipeline, table.names, table.named_by)


def _saved(given: Namespace, evaluation: Evaluation) -> str:
    """Save the learner with the least error, and return a sentence about it."""
    best, *others = mean_errors(evaluation)
    learner, state = evaluation.runners[best][0].settled()
    rows_so_far = evaluation.rows_before + evaluation.now.num_rows
    made = evaluation.columns, evaluation.now.fills, rows_so_far, given.file
    save_pipeline(given.save, Pipeline(learner, state, *made, seen=evaluation.now.baselines.seen))
    why = ", with the least error" if others else ""
    return f"pipeline: {given.save} ({best}{why}); predict with: jaxmkl predict {given.save} FILE"
