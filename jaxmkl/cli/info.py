"""``jaxmkl info``: show what a pipeline is made of, and what it has learned."""

from argparse import Namespace
from typing import Any

from jaxmkl._checks import shown
from jaxmkl.cli.show import line
from jaxmkl.evaluate import figure, importances, kernel_weights, shares
from jaxmkl.tables import load_pipeline


def add_to(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("info", help="describe a pipeline", description=__doc__)
    parser.add_argument("pipeline", metavar="PIPELINE", help="a saved pipeline")
    parser.set_defaults(command=command)


def command(given: Namespace) -> int:
    """Print the description of a pipeline."""
    pipeline = load_pipeline(given.pipeline)
    columns = pipeline.columns
    line(f"{given.pipeline}: written by jaxmkl {pipeline.version}")
    if columns.target is not None:
        classes = f" of {len(columns.classes)} classes: {shown(columns.classes, 20)}"
        task = f"{columns.task}{classes if columns.classes else ''}"
        line(f"target: {columns.target.name!r}, {task}")
    line(f"rows learned from: {pipeline.rows:,}, of {pipeline.source}")
    line(f"learner: {' '.join(repr(pipeline.learner).split())}")
    line(f"{len(columns.features)} inputs, of the columns")
    for kind in columns.kinds:
        inputs = f" ({len(kind.features)} inputs)" if len(kind.features) > 1 else ""
        line(f"  {kind.name!r}: {kind.kind}{inputs}")
    if columns.notes:
        line("decided by the first rows")
        for note in columns.notes:
            line(f"  {note}")
    made = pipeline.learner, pipeline.state
    weights = dict(sorted(kernel_weights(*made).items(), key=lambda item: -item[1]))
    found = {
        "weights of the kernels": weights,
        "weights of memories, stacks and banks": shares(*made),
        "importance of inputs": importances(*made, columns.features),
    }
    for title, of in found.items():
        if of:
            line(title)
            for name, value in of.items():
                line(f"  {figure(value)}  {name}")
    return 0
