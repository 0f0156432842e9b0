"""``results``: run the plan, and write RESULTS.md and a page from its figures.

:mod:`.plan` lists the runs, which are made one after the other or in processes of their own,
:mod:`.entries` keeps the figures in a JSON file, and :mod:`.templates` puts them into the Markdown
files of this folder, which together are RESULTS.md.
``elsewhere.md`` has sentences of README and the guides, whose figures a test compares with them.
"""

import datetime
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias

import jax
import numpy as np

from jaxmkl import compile_cache
from jaxmkl.evaluate import Row, UsageError

from ..bench import standings
from ..bench.peer_models import saved
from ..options import Options, chosen, refused
from ..page import page_of
from ..report import Report
from . import entries
from .plan import PLAN, Play, Unit
from .templates import figures_of, rendered

HERE = Path(__file__).parent
FILE = HERE.parent / "results.json"
PEERS = "bench.peers."  # how the plays begin of which there is a picture
QUICK_FILE = HERE.parent / "results-quick.json"
# rows, and the seconds by the clock and of the processor that they took
Made: TypeAlias = tuple[list[Row], float, float]


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


def play_all(units: Sequence[Unit], path: Path, options: Options, report: Report) -> None:
    """Run the units that are not in the file, ``options.jobs`` of them at a time."""
    with refused():
        path.parent.mkdir(parents=True, exist_ok=True)
    done = entries.read(path)
    wanted = [unit for unit in units if not entries.is_current(done, unit)]
    report.say(f"{path}: {len(units) - len(wanted)} of {len(units)} units are there")
    for unit in wanted:
        if entries.is_current(done, unit) is False:
            report.say(f"{unit.name}: its entry is of another definition, it is run again")
        if unit.play.missing:
            report.say(f"{unit.name}: {', '.join(unit.play.missing)} not installed, left out")
    able = [unit for unit in wanted if not unit.play.missing]
    try:
        for number, (unit, result) in enumerate(results_of(able, options), 1):
            report.say(f"[results {number}/{len(able)}] {unit.command}")
            try:
                entries.add(path, unit, *result())
            except UsageError as error:
                report.say(f"{unit.name}: left out: {error}")
    except KeyboardInterrupt:
        report.say("results: interrupted; the same command goes on where it was")
        raise SystemExit(130) from None


def results_of(
    units: Sequence[Unit], options: Options
) -> Iterator[tuple[Unit, Callable[[], Made]]]:
    """Yield each unit, with the function that runs it or waits for its results."""
    # a benchmark is alone, for it measures time
    in_turn = [unit for unit in units if options.jobs == 1 or unit.play.paper == "bench"]
    for unit in in_turn:
        yield unit, partial(run_unit, unit, options)
    with ThreadPoolExecutor(options.jobs) as pool:
        others = [unit for unit in units if unit not in in_turn]
        running = {pool.submit(apart, unit, options): unit for unit in others}
        try:
            for future in as_completed(running):
                yield running[future], future.result
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(future.done() for future in running):
                for child in multiprocessing.active_children():
                    child.terminate()
                time.sleep(0.1)


def apart(unit: Unit, options: Options) -> Made:
    """Run a unit in a process of its own.

    Raises:
        UsageError: as :func:`run_unit`, or the process ended without an answer.
    """
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_send, args=(sender, unit, options))
    process.start()
    sender.close()  # the process has its own end
    try:
        found = receiver.recv()
    except EOFError:
        process.join()
        raise UsageError(f"its process ended with status {process.exitcode}") from None
    process.join()
    if isinstance(found, UsageError):
        raise found
    return found


def _send(sender: Connection, unit: Unit, options: Options) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the one that waits
    compile_cache()
    try:
        found: Made | UsageError = run_unit(unit, options)
    except UsageError as error:
        found = error
    sender.send(found)


def run_unit(unit: Unit, options: Options) -> Made:
    """Run a unit.

    Raises:
        UsageError: if its data are not there, or a benchmark fails.
    """
    report, began = Report(unit.command, options.plots), _clocks()
    unit.play_it(report, options.data, options.plots)
    seconds, processor = (now - then for now, then in zip(_clocks(), began, strict=True))
    # a program has thousands of memory maps; Linux gives a process 65,530
    jax.clear_caches()
    return report.rows, seconds, processor


def _clocks() -> tuple[float, float]:
    """Return the seconds by the clock, and those of the processor, with ended processes."""
    times = os.times()
    return times.elapsed, sum(times[:4])
