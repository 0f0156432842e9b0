"""Wide tables: what it takes to read them, to decide on their columns and to encode rows."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from jaxmkl.evaluate import Row, UsageError

from ..options import Options
from ..report import Report
from .timing import figures, ratios

SIZES = {1_000: 200, 4_000: 200, 20_000: 200, 100_000: 60}  # columns, and rows of each table
MOST_BESIDE = 4_000  # columns of those that another version reads, too
REPEATS = 3
STAGES = "open", "decide", "encode"
# run by itself, as two versions do not go into one process; only names that all versions have
SCRIPT = """
import json, sys, time
from jaxmkl.tables import Columns, open_table

times = [time.process_time()]
rows = next(open_table(sys.argv[1]).chunks(8192))
times.append(time.process_time())
columns = Columns.decide(rows, "y")
times.append(time.process_time())
columns.encode(rows, columns.init())
times.append(time.process_time())
print(json.dumps([after - before for before, after in zip(times, times[1:])]))
"""


def run(options: Options, report: Report) -> None:
    """Time this version, and the one in the folder ``--beside`` in turns with it."""
    here = Path(__file__).parents[2]
    versions = {"here": here} | ({} if options.beside is None else {"beside": options.beside})
    for path in versions.values():
        if not (path / "jaxmkl" / "__init__.py").is_file():
            raise UsageError(f"--beside: {path} has no folder jaxmkl")
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for columns, length in SIZES.items():
            table, header = Path(folder, "table.csv"), [*(f"c{i}" for i in range(columns)), "y"]
            numbers = np.random.default_rng(0).random((length, columns + 1))
            np.savetxt(table, numbers, "%.3f", ",", header=",".join(header), comments="")
            names = [name for name in versions if name == "here" or columns <= MOST_BESIDE]
            report.say(f"{columns:,} columns, {REPEATS} times in turn: {', '.join(names)}")
            seconds = {name: list[list[float]]() for name in names}
            for _ in range(REPEATS):
                for name in names:
                    seconds[name].append(_seconds(versions[name], table))
            totals = {name: [sum(each) for each in seconds[name]] for name in names}
            for name in names:
                each = dict(zip(STAGES, zip(*seconds[name], strict=True), strict=True))
                metrics = {f"{stage}_seconds": values for stage, values in each.items()}
                if name != "here":
                    metrics["times_here"] = tuple(ratios(totals[name], totals["here"]))
                of = {"rows": length, "columns": columns}
                found += figures(f"{columns:,} columns", name, metrics, **of)
    report.table(
        "wide tables of numbers in CSV: medians of processor seconds",
        found,
        notes=("times here: all three stages, relative to those here in the same turn",)
        if options.beside
        else (),
    )


def _seconds(version: Path, table: Path) -> list[float]:
    """Processor seconds of each stage, in a process of its own with one version."""
    where = os.environ | {"PYTHONPATH": str(version), "JAX_PLATFORMS": "cpu"}
    line = [sys.executable, "-c", SCRIPT, str(table)]
    done = subprocess.run(line, env=where, cwd=table.parent, capture_output=True, text=True)
    if done.returncode:
        raise UsageError(f"{version}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)
