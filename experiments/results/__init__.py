"""``results``: run the plan, and write RESULTS.md and a page from its figures.

:mod:`.plan` lists the runs, :mod:`.player` makes them, :mod:`.entries` keeps the figures in a JSON
file, and :mod:`.templates` puts them into the Markdown files of this folder, which together are
RESULTS.md.
``elsewhere.md`` has sentences of README and the guides, whose figures a test compares with them.
"""

import datetime
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..bench import standings
from ..bench.looks import saved
from ..options import Options, chosen, refused
from ..page import page_of
from ..report import Report
from . import entries
from .plan import PLAN, Play, Unit
from .player import play_all
from .templates import figures_of, rendered, typed_by_hand

HERE = Path(__file__).parent
FILE = HERE.parent / "results.json"
PEERS = "bench.peers."  # how the plays begin of which there is a picture
QUICK_FILE = HERE.parent / "results-quick.json"


def run(
    options: Options, report: Report, plan: Sequence[Play] = PLAN, templates: Path = HERE
) -> None:
    """Run all that is not in the file of results yet; write RESULTS.md and a page beside it."""
    papers = tuple(dict.fromkeys(play.paper for play in plan))
    some = chosen("paper", options.only, papers, papers)
    path = options.file or (QUICK_FILE if options.quick else FILE)
    units = [unit for play in plan if play.paper in some for unit in play.units(options.quick)]
    play_all(units, path, options, report)
    found = entries.read(path)
    of_all = [unit for play in plan for unit in play.units(options.quick)]
    write_page(of_all, found, path.with_suffix(".html"), report)
    if options.quick:
        return
    for line in typed_by_hand(templates, found):
        report.say(line)
    text = rendered(templates, found)
    with refused():
        path.with_name("RESULTS.md").write_text(text, "utf-8")
    report.say(f"results: {path.with_name('RESULTS.md')}")
    rows = [row for name, row in figures_of(found).items() if name[0].startswith(PEERS)]
    if any(row.algorithm == standings.BASE for row in rows):
        saved(standings.picture(rows), path.with_name("standings.svg"), report)


def write_page(units: Sequence[Unit], found: entries.Entries, out: Path, report: Report) -> None:
    """Write the page of the figures in the file, and report how long it took to make them."""
    rows, heads, clocks = [], [], np.zeros(2)
    for unit in units:
        entry = found.get(unit.play.name, {}).get(unit.dataset)
        if entry is None:
            continue
        clocks += entry["seconds"], entry["processor_seconds"]
        versions = ", ".join(f"{name} {number}" for name, number in entry["versions"].items())
        heads.append(
            f"{entry['command']}  # {entry['date']}, {entry['seconds']:.0f} s, {versions}"
        )
        rows += [
            row._replace(dataset=f"{unit.play.name}: {row.dataset}")
            for row in entries.rows_of(entry)
        ]
    with refused():
        out.write_text(page_of("\n".join(heads), rows), "utf-8", "backslashreplace")
    took, of_processor = (datetime.timedelta(seconds=round(each)) for each in clocks)
    report.say(f"report: {out}; its {len(heads)} units took {took}, processor {of_processor}")
