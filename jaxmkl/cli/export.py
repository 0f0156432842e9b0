"""``jaxmkl export``: write a pipeline as a file that predicts without jaxmkl.

OUT.npz is for NumPy alone: arrays and JSON, no code. The module that reads it is one file, which
may be copied to where predictions are made, and starts in a moment:

    from predictor import load
    load("OUT.npz").predict([{"height": 1.5, "colour": "red"}])     # also .predict_proba(rows)
    load("OUT.npz").predict({"height": [1.5], "colour": ["red"]})   # rows by columns

It takes random features, forests, boosted trees, and mixtures and stacks of them; anything else is
refused by its name. Cells are read as in the table: amounts as "1.234,50 €", dates as "31.1.2024".
Times may also be dates and datetimes of Python and NumPy, or ISO text ("2024-01-31 12:30:00"); to
predict with them takes Python 3.11. Refused are times of forms with rare parts, as %j.

OUT.stablehlo is the program that predicts, for whatever serves StableHLO, of any learner and any
number of rows. It takes the inputs in single precision, as pipeline.columns.inputs encodes the
rows, and returns numbers less pipeline.seen.start, or log-odds of classes. JAX writes and reads it
with the package flatbuffers:

    jax.export.deserialize(bytearray(open("OUT.stablehlo", "rb").read())).call(inputs)

Predictions are those of jaxmkl predict; densities and intervals are left out.
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

from jaxmkl.cli.options import AS_IT_STANDS
from jaxmkl.cli.outputs import reserved
from jaxmkl.cli.show import line
from jaxmkl.evaluate import UsageError
from jaxmkl.tables import load_pipeline

FORMATS = "npz", "stablehlo"


def add_to(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("export", help="write a pipeline for use without jaxmkl",
                                 description=__doc__, formatter_class=AS_IT_STANDS)  # fmt: skip
    parser.add_argument("pipeline", metavar="PIPELINE", help="a saved pipeline")
    parser.add_argument("out", metavar="OUT", type=Path, help="the file to write")
    parser.add_argument("--format", choices=FORMATS, help="default: as the name of OUT ends")
    parser.set_defaults(command=command)


def command(given: Namespace) -> int:
    """Write the file, and print what reads it."""
    from jaxmkl import export
    from jaxmkl.export import predictor

    format = given.format or given.out.suffix[1:]
    if format not in FORMATS:
        wanted = "a name that ends in .npz or .stablehlo, or --format beside it"
        raise UsageError(f"OUT must be {wanted}; got {given.out}")
    with reserved({"PIPELINE": given.pipeline}, {"OUT": given.out}):
        pipeline = load_pipeline(given.pipeline)
        if format == "npz":
            export.export_predictor(given.out, pipeline)
            line(f"predictor: {given.out}; its loader, which may be copied: {predictor.__file__}")
        else:
            export.export_stablehlo(given.out, pipeline)
            inputs = len(pipeline.columns.features)
            line(f"program: {given.out}; of inputs (n, {inputs}), in jax.export's serialised form")
    return 0
