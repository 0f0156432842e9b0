"""``jaxmkl predict``: predict the rows of a table with a pipeline; nothing is learned."""

import contextlib
import csv
import warnings
from argparse import Namespace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from jaxmkl.cli import options, show
from jaxmkl.cli.interrupts import Interrupts
from jaxmkl.cli.outputs import OUT, opened, reserved
from jaxmkl.cli.pipelines import differences
from jaxmkl.cli.predictions import spelled
from jaxmkl.evaluate import UsageError
from jaxmkl.tables import RefusedRows, SkippedRows, UnseenCells, load_pipeline


def add_to(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("predict", help="predict a table with a pipeline",
                                 description=__doc__)  # fmt: skip
    parser.add_argument("pipeline", metavar="PIPELINE", help="a saved pipeline")
    parser.add_argument("file", metavar="FILE", help="a table, whose columns are found "
        "by their names; - is standard input, whose rows are answered as they come")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="OUT", help=OUT)
    options.bad_rows(parser.add_argument, "one more is refused")
    options.reading_options(parser.add_argument)
    parser.set_defaults(command=command)


def command(given: Namespace) -> int:
    """Write a line for each row: its number, its prediction and its certainty.

    The certainty of a class is its probability. That of a number, if the pipeline predicts
    densities, is an interval of 90 %, whose ends are ``low`` and ``high``.
    """
    show.needs_rich()
    inputs = {"PIPELINE": given.pipeline, "FILE": given.file}
    with (
        Interrupts() as interrupts,
        reserved(inputs, {"--out": given.out}, text=["--out"], says=given.out is None),
        opened(given.out) as file,
        show.progress(Path(given.file).name) as say,
    ):
        try:
            interrupts.supervise(lambda: _predict(given, interrupts, file, say))
        except RefusedRows as error:
            more = given.bad_rows + 1
            raise UsageError(f"{error}; or skip such rows with --bad-rows {more}") from None
    return interrupts.status


def _predict(given: Namespace, interrupts: Interrupts, file: TextIO, say: show.Report) -> None:
    from jaxmkl.tables.source import without_rows

    pipeline = load_pipeline(given.pipeline)
    table = pipeline.open(given.file, **options.reading(given), keep_refused=True)
    writer, rows = csv.writer(file), 0
    with contextlib.closing(table), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("ignore", UserWarning)  # absent columns are said here
        for said_at_the_end in (UnseenCells, SkippedRows):
            warnings.simplefilter("always", said_at_the_end)
        for sentence in differences(pipeline, table.names, table.named_by):
            show.aside(sentence)
        for chunk, said in pipeline.predictions(table, given.bad_rows):
            values = np.asarray(said.value)
            columns = {"prediction": pipeline.named(values)}
            if pipeline.classes:
                columns["probability"] = pipeline.probabilities(values).max(axis=1)
            if said.distribution is not None:
                columns |= zip(("low", "high"), pipeline.intervals(said), strict=True)
            if not rows:
                writer.writerow([chunk.place, *columns])
            start = pipeline.seen.start
            each = [
                spelled(values, 0.0 if name == "probability" else start)
                for name, values in columns.items()
            ]
            writer.writerows(zip(chunk.numbers, *each, strict=True))
            file.flush()
            rows += len(values)
            say(rows, table.share_read())
            interrupts.look()
        for warning in told:
            show.aside(warning.message)
        if not rows and any(isinstance(warning.message, SkippedRows) for warning in told):
            raise UsageError(f"{given.file} has no row that can be read")
        if not rows:
            raise without_rows(table)
