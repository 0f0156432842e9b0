"""Runs of units: one after the other, or several at a time in processes of their own."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import jax

from jaxmkl import compile_cache
from jaxmkl.evaluate import Row, UsageError

from ..options import Options, refused
from ..report import Report
from . import entries
from .plan import Unit


class UnitResult(NamedTuple):
    """The results of a unit: its rows, and the seconds by the clock and of the processor."""

    rows: list[Row]
    seconds: float
    processor: float


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
) -> Iterator[tuple[Unit, Callable[[], UnitResult]]]:
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


def apart(unit: Unit, options: Options) -> UnitResult:
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
        found: UnitResult | UsageError = run_unit(unit, options)
    except UsageError as error:
        found = error
    sender.send(found)


def run_unit(unit: Unit, options: Options) -> UnitResult:
    """Run a unit.

    Raises:
        UsageError: if its data are not there, or a benchmark fails.
    """
    report, began = Report(unit.command, options.plots), _clocks()
    unit.play_it(report, options.data, options.plots)
    seconds, processor = (now - then for now, then in zip(_clocks(), began, strict=True))
    # a program has thousands of memory maps; Linux gives a process 65,530
    jax.clear_caches()
    return UnitResult(report.rows, seconds, processor)


def _clocks() -> tuple[float, float]:
    """Return the seconds by the clock, and those of the processor, with ended processes."""
    times = os.times()
    return times.elapsed, sum(times[:4])
