"""``jaxmkl ask``: labels from a person at the terminal, or from a process; learned as they come.

    jaxmkl ask plants.csv --target kind --classes tree,bush --budget 50
                                 rows in their order, those worth a label, by keys
    jaxmkl ask plants.csv        a table that has some labels: the others are asked for
    jaxmkl select pool.csv --num 20 --out first.csv
    jaxmkl ask first.csv --pool pool.csv --target kind --classes tree,bush
                                 first what select ranked, then the pool, most unsure first
    jaxmkl ask PIPELINE --pool pool.csv --save NEW
                                 the same with a pipeline that run or ask saved

Labels that the table has are learned before the first question; a pipeline is taken to know
them. The target is the column of ``--target``, else the one named target, y, label or class, else
a new one, ``label``. Its classes are those that the table has, or ``--classes``;
``--task regression`` is for numbers where there are none yet.

**How many.** ``--budget N`` is the most questions, ``--rate R`` the share of the rows without a
label; without either every row is asked for. A question counts when it is asked, whether or not an
answer comes. In the order of a table the questions are spread over the rows, at a rate
(``jaxmkl.query.Rate``). Of a pool it is always the row whose label is worth most now; of more than
4,096 that are left, so many are drawn for each question.

**A person** sees a row, what the learner says of it and how sure it is, and answers by a key (the
prompt has them), of numbers and of more than nine classes by what is typed before Enter. ``s``
skips the row, ``u`` undoes the last answer, ``q`` quits.

**What is kept.** Each question and answer is added to ``LABELS.journal`` and is on the disk before
the next one is shown; the same command goes on from there another day, after any end. Another
learner, rate or budget may be given then, and learns the same answers; the table, the target and a
PIPELINE must be those of the beginning. At the end of a sitting LABELS is written (``--out``; else
FILE with ``.labels.csv`` in place of its ending): the rows that have a label by now, a table that
``jaxmkl run`` reads; and with ``--save`` the pipeline.

**A process** (``--jsonl``) reads a question a line and writes its answers, late and in any order;
at most ``--ahead`` questions wait at the same time:

    out  {"item": 17, "row": {"height": 2.5}, "prediction": "tree",
          "probabilities": {"tree": 0.7, "bush": 0.3}}      of numbers "radius": nine of ten are
                                                            that near; null before the first
    in   {"item": 17, "label": "tree"}        or   {"item": 17, "skip": true}
    out  {"item": 17, "kept": "tree"}         on the disk, and learned
         {"item": 17, "skipped": true}
         {"item": 17, "refused": "answered before, as 'tree'"}
    out  {"labels": 50, "waiting": []}        the last line

``item`` is the number of the row, or the line, in the table. Every line is answered by one line,
in the order of the lines. What was asked and not answered is asked again at the next start. When
the input ends, so does the command.
"""

import contextlib
import hashlib
import math
import sys
import zipfile
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from jaxmkl import Learner
from jaxmkl._types import PyTree
from jaxmkl.cli import options, show
from jaxmkl.cli.labelling.faces import serve_person, serve_process
from jaxmkl.cli.labelling.journal import Journal
from jaxmkl.cli.labelling.learner import asking, taught
from jaxmkl.cli.labelling.rows import Rows
from jaxmkl.cli.labelling.session import Labelling
from jaxmkl.cli.pipelines import differences, own_pipeline
from jaxmkl.command_line import setting
from jaxmkl.evaluate import UsageError, candidates
from jaxmkl.tables import Pipeline, save_pipeline, usual_target

if TYPE_CHECKING:
    from jaxmkl.tables import Chunk, Columns

OWN = ("target", "task", "classes", "learner", "set", "drop", "as_")  # what a pipeline has
LEARNER = "expert_mkl"
NEW = "label"  # the target's name, where the table has none


def add_to(commands: Any) -> None:
    """Add the command's parser."""
    says = {"description": __doc__, "formatter_class": options.AS_IT_STANDS}
    parser = commands.add_parser("ask", help="label rows, by hand or by a process", **says)
    add = parser.add_argument
    add(
        "file",
        metavar="FILE|PIPELINE",
        help="a table, what select wrote of the pool, or a pipeline",
    )
    add("--pool", metavar="FILE", help="a table whose rows are asked for most unsure first")
    number = parser.add_mutually_exclusive_group()
    number.add_argument("--rate", type=options.share, metavar="R", help="the share of the rows")
    number.add_argument("--budget", type=options.count, metavar="N", help="the most questions")
    add("--task", choices=("regression", "classification"), help="default: by the labels")
    add("--classes", type=options.names, default=(), metavar="A,B", help="default: by the labels")
    add("--learner", metavar="NAME", help=f"default: {LEARNER}")
    add("--set", type=setting, action="append", default=[], metavar="NAME=VALUE",
        help="a learner's argument; may be given several times")  # fmt: skip
    add("--save", type=Path, metavar="PIPELINE", help="write the pipeline at the end of a sitting")
    add("--out", type=Path, metavar="LABELS", help="default: FILE.labels.csv; kept beside it is "
        "LABELS.journal")  # fmt: skip
    add("--jsonl", action="store_true", help="JSON lines on standard input and output")
    add("--ahead", type=options.count, default=8, metavar="N",
        help="questions that wait at the same time with --jsonl (default: 8)")  # fmt: skip
    options.table_options(parser, "a new one, label")
    parser.set_defaults(command=command)


def command(given: Namespace) -> int:
    """Ask; 0 once all is asked, or the person or the process ended it."""
    show.needs_rich()
    if not given.jsonl and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("ask wants a terminal; --jsonl is for a process")
    pipeline = own_pipeline(given.file, given, OWN) if _is_pipeline(given.file) else None
    if pipeline is not None and given.pool is None:
        raise UsageError(f"{given.file} is a pipeline; --pool FILE has the rows to ask for")
    chunk, out = _whole_table(given.pool or given.file), _out(given)
    if pipeline is None:
        columns, begun = _columns(given, chunk), None
        notes = list(columns.notes)
    else:
        columns, begun = (
            pipeline.columns,
            hashlib.sha256(Path(given.file).read_bytes()).hexdigest(),
        )
        notes = differences(pipeline, chunk.frame.columns)
    for note in notes:
        print(note, file=sys.stderr)
    rows, is_pool = Rows.of(chunk, columns, pipeline), given.pool is not None
    ranking = _ranking(given, rows) if is_pool and pipeline is None else []
    with Journal(out.with_name(f"{out.name}.journal"), rows.about | {"model": begun}) as journal:
        begun_from = _learner(given, rows, pipeline)
        learner, state = asking(*begun_from, rows, _budget(given, rows), is_pool)
        labelling = Labelling(rows, learner, state, journal, is_pool=is_pool, ranking=ranking)
        try:
            if given.jsonl:
                answers: Any = sys.stdin
                answers.reconfigure(encoding="utf-8", errors="replace")
                serve_process(labelling, answers, sys.stdout, given.ahead)
            else:
                serve_person(labelling)
        finally:
            _end(given, labelling, out)
    return 0


def _is_pipeline(path: str) -> bool:
    if path == "-" or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return "header.npy" in archive.namelist()


def _whole_table(path: str) -> "Chunk":
    from jaxmkl.tables import open_table
    from jaxmkl.tables.source import ROWS, joined

    if path == "-":
        raise UsageError("ask reads answers from standard input; the table must be a file")
    with contextlib.closing(open_table(path)) as table:
        return joined(table, ROWS)


def _out(given: Namespace) -> Path:
    """Where labels go: not where anything is read."""
    table = Path(given.pool or given.file)
    out = given.out or table.with_name(f"{table.stem}.labels.csv")
    for name, path in (("--out", out), ("--save", given.save)):
        if path is not None and path.resolve() in (table.resolve(), Path(given.file).resolve()):
            raise UsageError(f"{name}: {path} is what the session begins with; name another file")
    return out


def _columns(given: Namespace, chunk: "Chunk") -> "Columns":
    """How the table is read; its target may have no label yet."""
    from jaxmkl.tables import Columns

    name = given.target or usual_target(chunk.frame.columns) or NEW
    first = chunk._replace(frame=chunk.frame.drop(name, strict=False)[: given.first])
    drop = [column for column in given.drop if column != name]
    columns = Columns.decide(first, drop=drop, as_=dict(given.as_), supervised=False)
    classes = tuple(dict.fromkeys(given.classes))
    if given.classes and (len(classes) < 2 or given.task == "regression"):
        raise UsageError("--classes: two classes or more are wanted, of a classification")
    columns = columns.with_target(chunk, name, given.task, classes)
    if columns.target is None:
        text = f"{chunk.source} has no labels of two kinds in a column {name!r}"
        advice = "--classes A,B or --task regression tells of what kind they will be"
        raise UsageError(f"{text}: {advice}, --target names another column")
    return columns


def _ranking(given: Namespace, rows: Rows) -> list[int]:
    """The items of the pool that select ranked, by what it wrote."""
    ranked, place = _whole_table(given.file).frame, rows.chunk.place
    if ranked.columns != ["rank", place, *rows.chunk.frame.columns]:
        text = "is neither a pipeline nor what select wrote of the pool; jaxmkl select"
        raise UsageError(f"{given.file} {text} {given.pool} --num 20 --out FILE makes that")
    items = [int(item) for item in ranked[place]]
    for item in items:
        if item not in rows.places:
            raise UsageError(f"{given.file}: {place} {item} is not in {given.pool}")
    return items


def _learner(given: Namespace, rows: Rows, pipeline: Pipeline | None) -> tuple[Learner, PyTree]:
    if pipeline is not None:
        return pipeline.learner, pipeline.state
    names, K = [given.learner or LEARNER], len(rows.target.classes)
    (one,), _ = candidates(names, rows.columns.task, K, dict(given.set))
    return one.learner, one.learner.init(jax.random.key(0), rows.X.shape[1])


def _budget(given: Namespace, rows: Rows) -> int:
    unlabelled = int((~rows.has_label).sum())
    if given.budget is not None:
        return given.budget
    return unlabelled if given.rate is None else math.ceil(given.rate * unlabelled)


def _end(given: Namespace, labelling: Labelling, out: Path) -> None:
    """Write the labels and the pipeline, and say so where a process does not read it."""
    rows, now = labelling.rows, labelling.standing
    number = rows.write(out, now.labels)
    print(f"{number} rows with their labels: {out}; to go on: {given.line}", file=sys.stderr)
    if given.save is not None:
        learner, state = taught(labelling.learner, now.state)
        made = rows.columns, rows.fills, int(state.round), rows.chunk.source
        save_pipeline(given.save, Pipeline(learner, state, *made, seen=now.seen))
        print(f"pipeline: {given.save}", file=sys.stderr)
