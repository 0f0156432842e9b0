"""Output to the screen: progress on standard error, tables on standard output."""

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from jaxmkl.cli.results import Results
from jaxmkl.evaluate import figure, mean_and_std, printable, size, two_digits

PATIENCE = 2.0  # seconds before progress is shown
IMPORTANT = 5  # inputs that are named
WIDTH = 120  # columns if there is no terminal
# the title of each figure in a table, and its meaning
METRICS = {
    "mistake_rate": ("mistakes", "share of rows whose class was predicted wrong"),
    "kappa": ("kappa", "agreement with the labels beyond chance: 1 is perfect, 0 is chance"),
    "kappa_last": ("kappa\nto last", "share of the mistakes of the last label that were avoided"),
    "log_loss": ("log loss", "mean of -log p of the class that it was, p as predicted"),
    "brier": ("Brier", "mean squared error of the probabilities: of two classes of one of them, "
        "of several summed over the classes"),
    "calibration_error": ("calibration\nerror", "mean distance between the probability of the "
        "predicted class and the share of rows in which it was right"),
    "mse": ("MSE", "mean squared error, in the target's units squared"),
    "mae": ("MAE", "mean absolute error, in the target's units"),
    "skill": ("skill\nto mean", "share of the squared error of the mean so far (of all labels) "
        "that was avoided"),
    "skill_last": ("skill\nto last", "share of the squared error of the last label that was "
        "avoided"),
    "log_score": ("log\nscore", "mean of the logarithm of the density at the label: the higher "
        "the better"),
    "crps": ("CRPS", "continuous ranked probability score, in the target's units: the squared "
        "distance of the distribution function from a step at the label; the absolute error "
        "if sure"),
    "coverage": ("in 90 %\ninterval", "share of the labels inside the interval that should hold "
        "90 %"),
    "width": ("its\nwidth", "mean width of that interval, in the target's units"),
    "label_rate": ("labels", "share of the labels that were asked for"),
}  # fmt: skip
COSTS = "µs\na row", "memory"

Report = Callable[[int, float | None], None]


def line(text: object, file: TextIO | None = None) -> None:
    """Print a line on standard output or another file, its control characters escaped."""
    print(printable(text), file=file or sys.stdout)


def aside(text: object) -> None:
    """Print a line on standard error, its control characters escaped."""
    line(text, sys.stderr)


@contextlib.contextmanager
def progress(name: str) -> Iterator[Report]:
    """Show the progress through a table, on a terminal and after two seconds.

    Yields a function to be called with the number of rows and the share of the table so far.
    """
    if not sys.stderr.isatty():
        yield lambda rows, share: None
        return
    from rich import progress as rich
    from rich.console import Console

    name_column = rich.TextColumn("{task.description}", markup=False)
    columns = name_column, rich.BarColumn(), rich.TextColumn("{task.fields[rows]}")
    times = rich.TimeElapsedColumn(), rich.TextColumn("left:"), rich.TimeRemainingColumn()
    bar = rich.Progress(*columns, *times, console=Console(stderr=True), transient=True)
    task = bar.add_task(printable(name), total=None, rows="")

    def say(rows: int, share: float | None) -> None:
        total = None if share is None else 1.0
        bar.update(task, total=total, completed=share or 0.0, rows=f"{rows:,} rows")

    patience = threading.Timer(PATIENCE, bar.start)
    patience.start()
    try:
        yield say
    finally:
        patience.cancel()
        patience.join()
        bar.stop()


def table(results: Results, file: TextIO | None = None) -> None:
    """Print the results of a run, and its notes, on standard output or another file."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    plain: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False, "file": file}
    console = Console(**plain)
    wide = console.width if console.is_terminal else WIDTH
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    shown.add_column("", no_wrap=True)
    for title in (*(METRICS[name][0] for name in results.metrics), *COSTS):
        shown.add_column(title, justify="right", no_wrap=True)
    for name, line in results.lines.items():
        cells = [mean_and_std(line.get(metric)) for metric in results.metrics]
        style = None if name in results.learners else "dim"
        shown.add_row(printable(name), *cells, *costs(results, name), style=style)
    needed = Console(width=1000).measure(shown).maximum
    console = Console(**plain, width=max(wide, needed))  # figures are never cut
    rows = f"{results.num_rows:,} rows of {results.num_inputs} inputs"
    if results.num_unlabelled:
        rows += f", {results.num_unlabelled:,} without a target: predicted, not learned"
    if results.judged_from != 1:
        rows += f"; {unjudged(results)}"
    rate = results.num_rows / results.seconds
    cost = f"{results.seconds:.1f} s, {rate:,.0f} rows a second"
    cost += f", {results.peak_bytes / 2**20:,.0f} MiB at most"
    head = f"{results.source}: {results.target!r}, {results.task}"

    def say(text: str) -> None:
        console.print(printable(text), soft_wrap=True)

    for said in (head, *(f"  {line}" for line in (*results.columns, *results.notes))):
        say(said)
    console.print(shown)
    say(f"{rows}; {cost}")
    for name, learner in results.learners.items():
        of = learner.growth or learner.column_importances
        what = "columns that matter most to" if learner.growth else "columns in the metric of"
        first = [*of.items()][:IMPORTANT]
        most = [f"{one} {two_digits(value)}" for one, value in first if value > 0]
        if most:
            say(f"{what} {name}: {', '.join(most)}")
    for advice in results.advice:
        say(f"next: {advice.text}")


def unjudged(results: Results) -> str:
    """A phrase that says which rows are not judged."""
    if results.judged_from is None:
        return "none judged, as no label was known before any prediction"
    return f"judged from row {results.judged_from:,} on, the first predicted with a label known"


def costs(results: Results, name: str) -> tuple[str, str]:
    """The cells below ``COSTS``, empty for a baseline."""
    if name not in results.learners:
        return "", ""
    took = results.learners[name]
    return figure(took.microseconds), size(took.state_bytes)


def needs_rich(*also: str) -> None:
    """Raise an ``ImportError`` that says what to install if polars, rich or ``also`` is absent."""
    for name in ("rich", *also):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            text = f'the command needs {name}: pip install "jaxmkl[cli]"'
            raise ImportError(text) from None
