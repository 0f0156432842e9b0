"""``jaxmkl predict``: predict the rows of a table with a pipeline; nothing is learned."""

import contextlib
import csv
import io
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from jaxmkl._files import replaced
from jaxmkl.cli import options, show
from jaxmkl.cli.outputs import refuse_input
from jaxmkl.cli.pipelines import differences
from jaxmkl.cli.predictions import spelled
from jaxmkl.tables import UnseenCells, load_pipeline


def add_to(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("predict", help="predict a table with a pipeline",
                                 description=__doc__)  # fmt: skip
    parser.add_argument("pipeline", metavar="PIPELINE", help="a pipeline written by run --save")
    parser.add_argument("file", metavar="FILE", help="a table; columns are found by their names")
    parser.add_argument("--out", type=Path, metavar="OUT", help="CSV (default: standard output)")
    options.reading_options(parser.add_argument)
    parser.set_defaults(command=command)


def command(given: Namespace) -> int:
    """Write a line for each row: its number, its prediction and how sure it is.

    For a class that is its probability; for a number, if the pipeline predicts densities, the
    ends of an interval of 90 %, ``low`` and ``high``.
    """
    show.needs_rich()
    from jaxmkl.tables.source import without_rows

    pipeline = load_pipeline(given.pipeline)
    table = pipeline.open(given.file, **options.reading(given))
    rows, begun = 0, False
    with (
        contextlib.closing(table),
        written(given.out, given.file, given.pipeline) as file,
        show.progress(Path(given.file).name) as say,
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("ignore", UserWarning)  # absent columns are said here
        warnings.simplefilter("always", UnseenCells)
        for sentence in differences(pipeline, table.names, table.named_by):
            print(sentence, file=sys.stderr)
        writer = csv.writer(file)
        for chunk, said in pipeline.predictions(table):
            values = np.asarray(said.value)
            columns = {"prediction": pipeline.named(values)}
            if pipeline.classes:
                columns["probability"] = pipeline.probabilities(values).max(axis=1)
            if said.distribution is not None:
                columns |= zip(("low", "high"), pipeline.intervals(said), strict=True)
            if not begun:
                writer.writerow([chunk.place, *columns])
                begun = True
            start = pipeline.seen.start
            each = [
                spelled(values, 0.0 if name == "probability" else start)
                for name, values in columns.items()
            ]
            writer.writerows(zip(chunk.numbers, *each, strict=True))
            rows += len(values)
            say(rows, table.share_read())
        if not rows:
            raise without_rows(table)
        for warning in told:
            print(warning.message, file=sys.stderr)
    return 0


@contextlib.contextmanager
def written(out: Path | None, *inputs: str) -> Iterator[TextIO]:
    """Open a file that appears once it is complete, or standard output; no input is replaced."""
    if out is None:
        yield sys.stdout
        return
    refuse_input("--out", out, inputs, of="command")
    with replaced(out) as file:
        yield (text := io.TextIOWrapper(file, "utf-8", newline=""))
        text.detach()
