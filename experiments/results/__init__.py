"""``results``: play the plan, and write RESULTS.md and a page from its figures.

:mod:`.plan` says what is played, :mod:`.entries` keeps the figures in a JSON file,
:mod:`.templates` puts them into the Markdown files of this folder, which together are RESULTS.md.
``elsewhere.md`` has sentences of README and the guides, whose figures a test compares with them.
"""

import datetime
import os
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from jaxmkl.evaluate import UsageError

from ..options import Options, chosen, refused
from ..page import page_of
from ..report import Report
from . import entries
from .plan import PLAN, Play, Unit
from .templates import rendered, typed_by_hand

HERE = Path(__file__).parent
FILE = HERE.parent / "results.json"
QUICK_FILE = HERE.parent / "results-quick.json"


def run(
    options: Options, report: Report, plan: Sequence[Play] = PLAN, templates: Path = HERE
) -> None:
    """Play what is not in the file of results yet, then write RESULTS.md and a page beside it.

    Raises:
        UsageError: if a paper is unknown, or the file cannot be read or written.
    """
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


def play_all(units: Sequence[Unit], path: Path, options: Options, report: Report) -> None:
    """Play units one after the other, but for those that are in the file already."""
    with refused():
        path.parent.mkdir(parents=True, exist_ok=True)
    done = entries.read(path)
    wanted = [unit for unit in units if not entries.is_current(done, unit)]
    report.say(f"{path}: {len(units) - len(wanted)} of {len(units)} units are there")
    for number, unit in enumerate(wanted, 1):
        if entries.is_current(done, unit) is False:
            report.say(f"{unit.name}: its entry is of another definition, it is played again")
        if unit.play.missing:
            report.say(f"{unit.name}: {', '.join(unit.play.missing)} not installed, left out")
            continue
        report.say(f"[results {number}/{len(wanted)}] {unit.command}")
        of_unit, began = Report(unit.command, options.plots), _clocks()
        try:
            unit.play_it(of_unit, options.data, options.plots)
        except UsageError as error:
            report.say(f"{unit.name}: left out: {error}")
            continue
        except KeyboardInterrupt:
            report.say("results: interrupted; the same command goes on where it was")
            raise SystemExit(130) from None
        seconds, processor = (now - then for now, then in zip(_clocks(), began, strict=True))
        entries.add(path, unit, of_unit.rows, seconds, processor)
        # a program maps memory thousands of times; Linux lets a process do so 65,530 times
        jax.clear_caches()


def _clocks() -> tuple[float, float]:
    """Return the seconds by the clock, and those of the processor, with ended processes."""
    times = os.times()
    return times.elapsed, sum(times[:4])


def write_page(units: Sequence[Unit], found: entries.Entries, out: Path, report: Report) -> None:
    """Write the page of the figures that are there, and say how long it took to make them."""
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
