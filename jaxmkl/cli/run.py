"""``jaxmkl run``: learn from a table in the order of its rows, and report the errors."""

import contextlib
import dataclasses
import itertools
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxmkl._devices import failure
from jaxmkl._files import written_whole
from jaxmkl.cli import options, show
from jaxmkl.cli.interrupts import Interrupts
from jaxmkl.cli.kept import Kept
from jaxmkl.cli.outputs import Outputs, reserved, standard_output
from jaxmkl.cli.pipelines import differences, own_pipeline
from jaxmkl.cli.play import Fingerprint, Play, Played, Player, Progress
from jaxmkl.cli.predictions import Predictions
from jaxmkl.cli.results import Curves, Learned, Results
from jaxmkl.command_line import is_standard, setting
from jaxmkl.evaluate import (
    Candidate,
    Row,
    UsageError,
    candidates,
    held_bytes,
    importances,
    kernel_weights,
    rows,
    state_bytes,
)
from jaxmkl.tables import Chunk, Columns, Pipeline, SkippedRows, Table, save_pipeline

PATIENCE = 0.5  # seconds that an interrupted chunk has to end by itself, once others are played
SORTED = 0.9  # kappa of the last label, from which on a table is said to look sorted
WORSE = 1.02  # error of a learner in units of the baseline's from which on it is said to be worse
JUDGED = 100  # rows that it takes to say so
OUTPUTS = "checkpoint", "predictions", "save", "json", "report"
# what a pipeline has
OWN = "target", "task", "learner", "set", "drop", "as_", "labels", "density"


def add_to(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("run", help="learn from a table and report the errors",
                                 description=__doc__)  # fmt: skip
    add = parser.add_argument
    add("file", metavar="FILE", help="CSV, NDJSON, Parquet, Arrow, LIBSVM, ARFF or npz; - is "
        "standard input; .gz, .zst, .bz2 and .xz are unpacked")  # fmt: skip
    add("--task", choices=("regression", "classification"), help="default: as the target says")
    add("--learner", type=options.names, metavar="A,B", help="default: raker,amkl_aks,expert_mkl")
    add("--set", type=setting, action="append", default=[], metavar="NAME=VALUE",
        help="a learner's argument; may be given several times")  # fmt: skip
    add("--labels", type=options.share, metavar="RATE", help="the share of rows whose "
        "label is asked for; rows without a label count")  # fmt: skip
    add("--density", action="store_true", help="predict a density of each number, around the "
        "same prediction, and score it by the log score, the CRPS and intervals of 90 %%; takes "
        "about the time of raker more")  # fmt: skip
    add("--delay", type=options.natural, default=0, metavar="N", help="number of rows after which "
        "a label is known")  # fmt: skip
    add("--seeds", type=options.count, default=1, metavar="N", help="runs of each learner")
    add("--skip", type=options.natural, default=0, metavar="N", help="rows to skip at the start")
    options.bad_rows(add, "one more ends the run, and what was played is written")
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
        reserved(inputs, outputs_of, text=text, beside=beside, replaces=replaces) as outputs,
        contextlib.closing(Run(given, interrupts, outputs)) as run,
    ):
        try:
            with show.progress(Path(given.file).name) as say:
                interrupts.heard(lambda: run.play(say))
        except KeyboardInterrupt:
            if not run.num_rows:
                raise
        interrupts.patience = float("inf")
        interrupts.heard(run.end)
    return interrupts.status or run.status or int(bool(outputs.failed))


class Run:
    """A run of the command, with the files that it writes.

    Args:
      given: the options.
      interrupts: the interrupts, which are checked between chunks.
      outputs: the files.
    """

    def __init__(self, given: Namespace, interrupts: Interrupts, outputs: Outputs) -> None:
        self.given, self.interrupts, self.outputs = given, interrupts, outputs
        self._play: Any = None
        self._kept: Kept | None = None
        self._written: Predictions | None = None
        self._ended_by = ""  # why the run ends before the table does
        self.status = 0  #: exit status: 2 if the rest of the table is refused, 1 if JAX failed

    @property
    def num_rows(self) -> int:
        """The number of rows played."""
        return 0 if self._play is None else self._play.now.num_rows

    def close(self) -> None:
        """Close the files that an error left open."""
        if self._written is not None:
            with contextlib.suppress(OSError):
                self._written.close()

    def play(self, say: show.Report) -> None:
        """Play the table.

        Raises:
          UsageError: if options do not go together or do not fit the table.
          ValueError: if the table cannot be read, or its first row is unlike the others. What is
            refused later ends the run, as an interrupt does.
          KeyboardInterrupt: after an interrupt.
        """
        from jaxmkl.tables import open_table
        from jaxmkl.tables.source import ROWS, without_rows

        given, began = self.given, time.perf_counter()
        pipeline, kept = _pipeline(given), _kept(given)
        opened = open_table if pipeline is None else pipeline.open
        table = opened(given.file, **options.reading(given), keep_refused=True)
        with contextlib.closing(table):
            chunks = table.chunks(max(ROWS, given.first))
            first = next(chunks, None)
            if first is None:
                raise without_rows(table)
            columns = _columns(given, table, first) if pipeline is None else pipeline.columns
            columns = columns if kept is None else kept.columns(columns)
            made, notes = _candidates(given, columns, pipeline, table)
            play = Play(columns, made, given.seeds, given.delay, pipeline, given.bad_rows)
            play.keeps_fingerprint = kept is not None
            if kept is not None:
                kept.resume(play)
            if given.save is not None:
                for players in play.players.values():
                    players[0].settled()  # compiled here, where an interrupt has nothing to save
            if given.predictions is not None:
                length = 0 if kept is None else kept.length
                self._written = Predictions(given.predictions, columns.target, length)
            self._play, self._kept, self._made, self._notes = play, kept, made, notes
            self._began = began - play.now.seconds
            try:
                self._chunks(itertools.chain([first], chunks), table, say)
            except Exception as error:
                self._end_early(error)
        if not play.now.num_rows and play.bad:
            raise UsageError(f"{given.file} has no row that can be read; {_of_bad_rows(play)[0]}")
        if not play.now.num_rows:
            raise UsageError(f"--skip {given.skip}: {given.file} has no rows after these")

    def _chunks(self, chunks: Iterable[Chunk], table: Table, say: show.Report) -> None:
        """Play the rows of a table after those that are skipped or were played before."""
        given, play = self.given, self._play
        before, begin = play.now.passed, given.skip
        # standard input continues where it was left
        begin, before = (0, 0) if given.file == "-" and before else (begin, before)
        end, read, found = begin + before, 0, Fingerprint()
        for chunk in chunks:
            rows = len(chunk.frame)
            if before and read < end:
                found = found.after(chunk.frame[max(0, begin - read) : end - read])
                if end <= read + rows and found != play.now.fingerprint:
                    text = f"belongs to a run whose rows were different: {given.file} has changed"
                    advice = "up to where the run is; put the rows back, or delete the checkpoint"
                    raise UsageError(f"--checkpoint: {given.checkpoint} {text} {advice}")
            read += rows
            new = min(rows, read - end)
            if new > 0:
                played = play.play(chunk.take(range(rows - new, rows)))
                self._take(played)
                if played.readable.refusal:
                    raise ValueError(played.readable.refusal)
            say(play.now.num_rows, table.share_read())
            self.interrupts.look()
        if read < end and before:
            text = f"belongs to a run past row {end:,}, and {given.file} has only"
            raise UsageError(f"--checkpoint: {given.checkpoint} {text} {read:,} rows")

    def _end_early(self, error: Exception) -> None:
        """Note what ends the run, if it has played rows whose results can be written."""
        text = failure(error)
        if not self.num_rows or not (text or isinstance(error, ValueError)):
            raise error
        self._ended_by, self.status = text or str(error), 1 if text else 2

    def _take(self, played: Played) -> None:
        """Accept a chunk and write what is due, without an interrupt in between."""
        with self.interrupts.held:
            self._play.take(played)
            self._play.now = self._play.now._replace(seconds=time.perf_counter() - self._began)
            if self._written is not None and self._goes_well and played.said:
                with self.outputs.writing("predictions"):
                    start = played.now.baselines.start
                    rows = played.readable.chunk
                    self._written.write(rows, played.said, played.labels, start)
            if self._kept is not None and self._goes_well:
                with self.outputs.writing("checkpoint"):
                    self._kept.offer(self._play, self._written)
            self.interrupts.patience = PATIENCE

    @property
    def _goes_well(self) -> bool:
        """Whether all predictions were written; if not, the last checkpoint writes them again."""
        return "predictions" not in self.outputs.failed

    def end(self) -> None:
        """Write the results to every file that can be written, and show the table."""
        given, play, outputs = self.given, self._play, self.outputs
        play.now = play.now._replace(seconds=time.perf_counter() - self._began)
        if self._written is not None and self._goes_well:
            with outputs.writing("predictions"):
                self._written.check()
        if self._kept is not None and self._goes_well:
            with outputs.writing("checkpoint"):
                self._kept.close(play, self._written)
        if self._written is not None and self._goes_well:
            with outputs.writing("predictions"):
                self._written.close()
        interrupted = self.interrupts.status > 0 or bool(self._ended_by)
        results = _results(given, play, self._made, self._notes, interrupted)
        results = dataclasses.replace(results, ended_by=self._ended_by)
        said = list[str]()
        if given.save is not None:
            with outputs.writing("save"):
                said.append(_saved(given, results, play))
        if given.json is not None:
            with outputs.writing("json"):
                said.append(_text(given.json, results.to_json(), "figures and curves"))
        if given.report is not None:
            from jaxmkl.cli.report import page  # which takes matplotlib

            with outputs.writing("report"):
                said.append(_text(given.report, page(results), "report"))
        # what is said stands apart from a file that goes to standard output
        aside = sys.stderr if any(map(is_standard, outputs.paths.values())) else sys.stdout
        show.table(results, aside)
        for sentence in said:
            show.line(sentence, aside)
        if interrupted:
            show.aside(f"jaxmkl: {self._goes_on()}")

    def _goes_on(self) -> str:
        """Why the run ended before the table did, and how it goes on."""
        given, outputs = self.given, self.outputs
        rows, written = given.skip + self._play.now.passed, outputs.paths.keys() - outputs.failed
        text = (
            f"ended after {rows:,} rows" if self._ended_by else f"interrupted after {rows:,} rows"
        )
        if self._ended_by:
            text = f"{self._ended_by.rstrip('.')}; {text}"
        if "checkpoint" in written:
            text = f"{text}; the same command continues from {given.checkpoint}"
        elif "save" in written:
            more = f"--from {given.save} --skip {rows}"
            text = f"{text}; continue with: jaxmkl run {given.file} {more}"
        if self.status == 2:
            text = f"{text}; mend the row, or skip it with --bad-rows {len(self._play.bad) + 1}"
        return text


def _text(path: Path, text: str, what: str) -> str:
    """Write a text, and return a sentence that says where it is."""
    if is_standard(path):
        (file := standard_output()).write(text)
        file.flush()
        return f"{what}: standard output"
    with written_whole(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    return f"{what}: {path}"


def _kept(given: Namespace) -> Kept | None:
    if given.checkpoint is not None:
        return Kept(given)
    if given.every is not None:
        raise UsageError("--every needs a checkpoint; name its file with --checkpoint")
    return None


def _pipeline(given: Namespace) -> Pipeline | None:
    if given.from_ is None:
        return None
    own = [*OWN, "seeds"] if given.seeds > 1 else OWN
    return own_pipeline(given.from_, given, own)


def _columns(given: Namespace, table: Table, first: Chunk) -> Columns:
    refused = dict(first.refused)
    good = [row for row in range(len(first.frame)) if row not in refused][: given.first]
    if not good:
        raise ValueError(refused[0])
    looked_at = first.take(good)
    of_arrays = getattr(table, "target", None)
    target = given.target if of_arrays is None else of_arrays
    asked = {"drop": given.drop, "as_": dict(given.as_), "keep": of_arrays is not None}
    return Columns.decide(looked_at, target, given.task, **asked, notes=table.notes)


def _candidates(
    given: Namespace, columns: Columns, pipeline: Pipeline | None, table: Table
) -> tuple[list[Candidate], list[str]]:
    """The learners to run on a table, and notes on them."""
    if pipeline is None:
        K, D, settings = len(columns.classes), len(columns.features), dict(given.set)
        asked = {"rate": given.labels, "density": given.density, "num_inputs": D}
        asked["words"] = columns.of_words
        return candidates(given.learner, columns.task, K, settings, **asked)
    one = Candidate(given.from_.name, pipeline.learner, {"learner": pipeline.learner})
    return [one], differences(pipeline, table.names, table.named_by)


def _results(
    given: Namespace, play: Play, made: Sequence[Candidate], notes: list[str], interrupted: bool
) -> Results:
    columns, now, learners = play.columns, play.now, dict[str, Learned]()
    dataset, found = Path(given.file).name, list[Row]()
    for one in made:
        players = play.players[one.name]
        first, seconds = players[0].now, sum(player.now.seconds for player in players)
        per_run = seconds / len(players)
        found += rows(
            ("own", dataset, one.name),
            _metrics(players, now),
            parameters=one.parameters,
            seconds_per_run=per_run,
        )
        weights = kernel_weights(players[0].learner, first.state)
        cost = 1e6 * per_run / now.num_rows
        matters = importances(players[0].learner, first.state, columns.features)
        sure = {} if first.certainty is None else first.certainty.calibration()
        dense = {} if first.densities is None else first.densities.calibration()
        learned = Learned(cost, state_bytes(first.state), weights, matters, sure, dense)
        learners[one.name] = learned
    baselines = dict(zip(now.baselines.names, now.scores, strict=True))
    for name, score in baselines.items():
        measured = {metric: [value] for metric, value in score.metrics(*now.scores).items()}
        found += rows(("own", dataset, name), measured)
    firsts = {name: each[0].now for name, each in play.players.items()}
    scores = {name: one.score for name, one in firsts.items()} | baselines
    curve = now.scores[0].curve
    ends = [min((i + 1) * curve.size, now.num_rows) for i in range(len(curve.means))]
    errors = {name: tuple(score.curve.means.tolist()) for name, score in scores.items()}
    labels = {name: tuple(one.labels.means.tolist()) for name, one in firsts.items()}
    if columns.classes and now.scores[1].kappa > SORTED:
        notes = [*notes, "the last label is nearly always right: the table looks sorted, and "
                 "learners that follow the last label look better than they are"]  # fmt: skip
    notes = [*notes, *_of_worse(made, play)]
    target: Any = columns.target
    return Results(
        command=given.line,
        rows=tuple(found),
        source=given.file,
        target=target.name,
        task=columns.task,
        classes=columns.classes,
        num_rows=now.num_rows,
        num_unlabelled=now.num_unlabelled,
        judged_from=None if play.judged_from == np.inf else 1 + int(play.judged_from),
        num_inputs=len(columns.features),
        learners=learners,
        curves=Curves(curve.size, tuple(ends), errors, labels),
        columns=columns.notes,
        notes=(*notes, *_of_bad_rows(play), *columns.losses(now.unseen), *play.warned),
        bad_rows=tuple(row._asdict() for row in play.bad),
        settings=options.plain(given, options.OF_THE_LINE),
        seconds=now.seconds,
        peak_bytes=held_bytes(),
        is_interrupted=interrupted,
    )


def _metrics(players: list[Player], now: Progress) -> dict[str, list[float]]:
    """The metrics of a learner over the seeds, by name."""
    labelled = max(1, now.num_rows - now.num_unlabelled)
    each = list[dict[str, float]]()
    for player in players:
        found = player.now.score.metrics(*now.scores)
        for sure in (player.now.certainty, player.now.densities):
            found |= {} if sure is None else sure.metrics()
        each.append(found | {"label_rate": player.now.num_labels / labelled})
    return {name: [of[name] for of in each] for name in each[0]}


def _saved(given: Namespace, results: Results, play: Play) -> str:
    """Save the learner with the least error, and return a sentence about it."""
    errors = {name: results.lines[name][results.error].mean for name in results.learners}
    best = min(errors, key=lambda name: np.nan_to_num(errors[name], nan=np.inf))
    learner, state = play.players[best][0].settled()
    rows_so_far = play.rows_before + play.now.num_rows
    made = play.columns, play.now.fills, rows_so_far, results.source
    save_pipeline(given.save, Pipeline(learner, state, *made, seen=play.now.baselines.seen))
    why = ", with the least error" if len(errors) > 1 else ""
    return f"pipeline: {given.save} ({best}{why}); predict with: jaxmkl predict {given.save} FILE"


def _of_worse(made: Sequence[Candidate], play: Play) -> list[str]:
    """A sentence on the learners that are worse than the mean of the labels, if there are any."""
    baseline, classes = play.now.scores[0], play.columns.classes
    if baseline.num_judged < JUDGED or not baseline.error:
        return []
    errors = {one.name: [player.now.score.error for player in play.players[one.name]]
              for one in made}  # fmt: skip
    ratios = {name: float(np.mean(each)) / baseline.error for name, each in errors.items()}
    worse = {name: ratio for name, ratio in ratios.items() if ratio > WORSE}
    if not worse:
        return []
    of, unit = ("most frequent class", "mistakes") if classes else ("mean", "squared error")
    named = ", ".join(f"{name} ({ratio:.2f} times)" for name, ratio in worse.items())
    text = f"worse than the {of} so far, by its {unit}: {named}"
    stepping = [one.name for one in made if one.name in worse and "step_size" in one.parameters]
    if stepping and not classes:
        text += "; where inputs tell little, or labels have heavy tails, a step of size η only "
        text += "adds noise, about 1/(1 - η |z|²) times: take a tenth of it (--set step_size=...)"
    return [text]


def _of_bad_rows(play: Play) -> list[str]:
    """A sentence on the rows that were skipped, if there are any."""
    return [str(SkippedRows([row.number for row in play.bad]))] if play.bad else []
