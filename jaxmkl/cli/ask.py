"""``jaxmkl ask``: collect labels from a person or a process, and learn each one as it comes.

    jaxmkl ask plants.csv --target kind --classes tree,bush --budget 50
                                 rows in their order, those worth a label, by keys
    jaxmkl ask plants.csv        a table that has some labels: the others are asked for
    jaxmkl select pool.csv --num 20 --out first.csv
    jaxmkl ask first.csv --pool pool.csv --target kind --classes tree,bush
                                 first what select ranked, then the pool, most unsure first
    jaxmkl ask PIPELINE --pool pool.csv --save NEW
                                 the same with a pipeline that run or ask saved

Labels that the table already has are learned before the first question, but a pipeline is assumed
to have learned them. The target is the column named by ``--target``, else the one named target, y,
label or class, else a new column, ``label``. Its classes are those that occur in the table, or
``--classes``; ``--task regression`` says that labels are numbers where the table has none yet.

**How many.** ``--budget N`` limits the number of questions, ``--rate R`` their share of the rows
without a label; with neither, all of these rows are asked for. A question counts when it is asked,
whether or not an answer comes. If rows are asked for in the order of a table, the questions are
spread over the table at a rate (``jaxmkl.query.Rate``). If rows come from a pool, each question
takes the row whose label is worth most at that moment. While more than 4,096 rows are left, it is
the best of 4,096 that are drawn at random.

**A person** sees a row, what the learner predicts and how sure it is, and answers with one key
(the prompt lists them), or, if labels are numbers or there are more than nine classes, by typing
the answer and Enter. ``s`` skips the row, ``u`` undoes the last answer, ``q`` quits.

**What is kept.** Each question and answer is appended to ``LABELS.journal`` and is on the disk
before the next one is shown. However a session ended, the same command resumes it on another day.
The learner, the rate and the budget may then be others; a new learner learns the same answers. The
table, the target and a PIPELINE must be the same as at the beginning.

At the end of a session LABELS is written, a table of the rows that have a label by now, which
``jaxmkl run`` reads. ``--out`` names it; by default it is the table that is asked about (POOL, or
FILE without one) with ``.labels.csv`` in place of its extension. With ``--save``, the pipeline is
written, too.

**A process** (``--jsonl``) reads one question per line and writes its answers, possibly late and
in any order; at most ``--ahead`` questions wait at the same time:

    out  {"item": 17, "row": {"height": 2.5}, "prediction": "tree",
          "probabilities": {"tree": 0.7, "bush": 0.3}}      for numbers "radius" instead: 9 of 10
                                                            are that near; null before the first
    in   {"item": 17, "label": "tree"}        or   {"item": 17, "skip": true}
    out  {"item": 17, "kept": "tree"}         on the disk, and learned
         {"item": 17, "skipped": true}
         {"item": 17, "refused": "answered before, as 'tree'"}
    out  {"labels": 50, "waiting": []}        the last line

``item`` is the number of the row, or the line, in the table. Every line is answered by one line,
in the order of the lines. Questions that were not answered are asked again at the next start. The
command ends when its input does.
"""

import contextlib
import hashlib
import math
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxmkl._archive import is_archive_of
from jaxmkl.cli import options, show
from jaxmkl.cli.interrupts import Interrupts
from jaxmkl.cli.outputs import reserved
from jaxmkl.cli.pipelines import differences, new_pipeline, own_pipeline
from jaxmkl.cli.sessions.journal import Journal
from jaxmkl.cli.sessions.questions import Labelling, Rows, asking, to_be_saved
from jaxmkl.cli.sessions.terminal import serve_person, serve_process
from jaxmkl.evaluate import UsageError
from jaxmkl.tables import Chunk, Columns, Table, open_table, save_pipeline, usual_target
from jaxmkl.tables.source import ROWS, joined

OWN = ("target", "task", "classes", "learner", "set", "drop", "as_")  # settled by a pipeline
NEW = "label"  # the target's name, where the table has none


def add_to(commands: Any) -> None:
    """Add the command's parser."""
    says = {"description": __doc__, "formatter_class": options.AS_IT_STANDS}
    parser = commands.add_parser("ask", help="label rows, by hand or by a process", **says)
    add = parser.add_argument
    add("file", metavar="FILE|PIPELINE", help="a table, the output of select for the pool, or a "
        "pipeline")  # fmt: skip
    add("--pool", metavar="POOL", help="a table whose rows are asked for, the most unsure first")
    number = parser.add_mutually_exclusive_group()
    number.add_argument("--rate", type=options.share, metavar="R", help="share of rows to ask for")
    number.add_argument("--budget", type=options.count, metavar="N", help="limit of questions")
    options.learner_options(add, "labels say")
    add("--classes", type=options.names, default=(), metavar="A,B", help="default: those found")
    add("--save", type=Path, metavar="PIPELINE", help="write the pipeline at the end")
    add("--out", type=Path, metavar="LABELS", help="default: FILE.labels.csv, with --pool "
        "POOL.labels.csv; LABELS.journal is kept beside it")  # fmt: skip
    add("--jsonl", action="store_true", help="talk to a process in JSON lines")
    add("--ahead", type=options.count, default=8, metavar="N",
        help="questions that may wait at the same time with --jsonl (default: 8)")  # fmt: skip
    options.table_options(parser, "a new column, label")
    parser.set_defaults(command=command)


def command(given: Namespace) -> int:
    """Ask for labels; return 0 at the end of the questions, or when the other side ends them."""
    show.needs_rich()
    if not given.jsonl and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("ask needs a terminal; a process talks to it with --jsonl")
    out = _out(given)
    inputs = {"FILE": given.file, "--pool": given.pool}
    outputs = {"--out": out, "--save": given.save}
    with Interrupts() as interrupts, reserved(inputs, outputs, beside={"--out": (".journal",)}):
        labelling = interrupts.supervise(lambda: _begun(given, out))
        with labelling.journal:
            try:
                if given.jsonl:
                    answers: Any = sys.stdin
                    answers.reconfigure(encoding="utf-8", errors="replace")
                    of_process = labelling, answers, sys.stdout, given.ahead, interrupts.held
                    interrupts.supervise(lambda: serve_process(*of_process))
                else:
                    interrupts.patience = math.inf
                    interrupts.supervise(lambda: serve_person(labelling, interrupts))
            finally:
                interrupts.patience = math.inf
                interrupts.supervise(lambda: _end(given, labelling, out))
    return interrupts.status if given.jsonl else 0


def _begun(given: Namespace, out: Path) -> Labelling:
    """The questions after all events of their journal."""
    path, how = given.pool or given.file, options.reading(given)
    if is_archive_of(given.file, "header.npy"):
        pipeline = own_pipeline(given.file, given, OWN)
        if given.pool is None:
            wanted = "name the table to ask about with --pool FILE"
            raise UsageError(f"{given.file} is a pipeline; {wanted}")
        chunk = _whole_table(pipeline.open, path, **how)
        notes = differences(pipeline, chunk.frame.columns)
        model = hashlib.sha256(Path(given.file).read_bytes()).hexdigest()
    else:
        chunk = _whole_table(open_table, path, **how)
        columns = _columns(given, chunk)
        pipeline, notes = new_pipeline(given, columns, chunk.source), [*columns.notes]
        model = None
    for note in notes:
        show.aside(note)
    is_new = int(pipeline.state.round) == 0
    rows = Rows(chunk, pipeline.columns, None if is_new else pipeline.fills)
    ranking = None if given.pool is None else [] if model else _ranking(given, rows)
    unlabelled = max(1, int((~rows.has_label).sum()))
    budget = given.budget or math.ceil((given.rate or 1.0) * unlabelled)
    rate = 1.0 if given.pool else min(1.0, budget / unlabelled)
    with contextlib.ExitStack() as stack:
        about = rows.about | {"model": model}
        journal = stack.enter_context(Journal(out.with_name(f"{out.name}.journal"), about))
        labelling = Labelling(rows, asking(pipeline, rows, rate), journal, budget, ranking)
        stack.pop_all()  # all went well: the journal stays open
    return labelling


def _whole_table(opened: Callable[..., Table], path: str, **how: Any) -> Chunk:
    if path == "-":
        raise UsageError("ask reads answers from standard input; the table must be a file")
    with contextlib.closing(opened(path, **how, whole=True)) as table:
        return joined(table, ROWS)


def _out(given: Namespace) -> Path:
    """The file for the labels, by default beside the table that is asked about."""
    table = Path(given.pool or given.file)
    return given.out or table.with_name(f"{table.stem}.labels.csv")


def _columns(given: Namespace, chunk: Chunk) -> Columns:
    """The columns of the table, whose target may have no label yet."""
    name = given.target or usual_target(chunk.frame.columns) or NEW
    kept = [column for column in chunk.frame.columns if column != name]
    first = chunk._replace(frame=chunk.frame[kept][: given.first])
    drop = [column for column in given.drop if column != name]
    columns = Columns.decide(first, drop=drop, as_=dict(given.as_), supervised=False)
    classes = tuple(dict.fromkeys(given.classes))
    if given.classes and (len(classes) < 2 or given.task == "regression"):
        raise UsageError("--classes: name two or more classes, and only for a classification")
    columns = columns.with_target(chunk, name, given.task, classes)
    if columns.target is None:
        text = f"{chunk.source} has no two different labels in a column {name!r}"
        advice = "--classes A,B or --task regression says what they will be"
        raise UsageError(f"{text}; {advice}, --target names another column")
    return columns


def _ranking(given: Namespace, rows: Rows) -> list[int]:
    """The items of the pool in the order of the file that select wrote."""
    ranked, place = _whole_table(open_table, given.file, header=True).frame, rows.chunk.place
    if ranked.columns != ["rank", place, *rows.chunk.frame.columns]:
        text = "is neither a pipeline nor the output of select for this pool; jaxmkl select"
        raise UsageError(f"{given.file} {text} {given.pool} --num 20 --out FILE makes that")
    items = [int(item) for item in ranked[place]]
    for item in items:
        if item not in rows.places:
            raise UsageError(f"{given.file}: {place} {item} is not in {given.pool}")
    return items


def _end(given: Namespace, labelling: Labelling, out: Path) -> None:
    """Write the labels and the pipeline, and report them on standard error."""
    rows, now = labelling.rows, labelling.standing
    number = rows.write(out, now.labels)
    show.aside(f"{number} rows with their labels: {out}; to continue: {given.line}")
    if given.save is not None:
        save_pipeline(given.save, to_be_saved(now.session.pipeline))
        show.aside(f"pipeline: {given.save}")
