"""The report of an experiment: progress, tables beside the printed figures, JSON and plots."""

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from jaxmkl.command_line import is_standard
from jaxmkl.evaluate import Row, decimals, figure, lines, plain
from jaxmkl.evaluate.drawings import Panel, drawing

from .options import refused

NARROWEST = 240  # columns of a table if there is no terminal
Item = TypeVar("Item", bound=str | tuple[str, ...])


class Report:
    """The report of one command, which collects its rows and shows them."""

    def __init__(self, command: str, plots: Path | None = None, aside: bool = False) -> None:
        self.command = command
        self.plots = plots
        self.rows: list[Row] = []
        # on standard error, if standard output has the figures
        width = None if Console(stderr=aside).is_terminal else NARROWEST
        self.console = Console(highlight=False, width=width, stderr=aside)

    def say(self, text: str) -> None:
        """Print one plain line."""
        self.console.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Callable[[str], None]]:
        """Show the progress of a loop: a bar on a terminal, else a line for each step.

        Yields a function that must be called with the name of each step when it begins.
        """
        count, began, terminal = 0, time.perf_counter(), self.console.is_terminal
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        bar = Progress(*columns, TimeElapsedColumn(), console=self.console, transient=True)
        task = bar.add_task(title, total=total)

        def step(name: str) -> None:
            nonlocal count
            bar.update(task, description=f"{title}: {name}", completed=count)
            count += 1
            if not terminal:
                seconds = time.perf_counter() - began
                self.say(f"[{title} {count}/{total}, {seconds:.0f} s] {name}")

        with bar if terminal else nullcontext():
            yield step

    def steps(self, title: str, items: Collection[Item]) -> Iterator[Item]:
        """Yield names, or tuples of names, and show the progress of the loop over them."""
        with self.progress(title, len(items)) as step:
            for item in items:
                step(item if isinstance(item, str) else " ".join(item))
                yield item

    def add(self, rows: Iterable[Row]) -> None:
        """Keep rows for the JSON file, each once."""
        kept = {row.name for row in self.rows}
        self.rows.extend(row for row in rows if row.name not in kept)

    def table(
        self,
        title: str,
        rows: Sequence[Row],
        *,
        units: Mapping[str, tuple[float, str]] | None = None,
        beside: Mapping[str, Mapping[str, float]] | None = None,
        parameters: Sequence[str] = (),
        hidden: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> None:
        """Keep rows for the JSON file and show them, if there are any.

        The table has a line for each data set and algorithm and a column for each metric, but not
        for those that are hidden; a printed figure appears beside ours. Units are by metric: that
        by which its figures are divided, and its name. Further columns ``beside``, by their
        titles, have a figure for each data set; numeric parameters may have columns, too.
        """
        self.add(rows)
        rows = [row for row in rows if row.metric not in hidden]
        if not rows:
            return
        units, beside = units or {}, beside or {}
        metrics = list(dict.fromkeys(row.metric for row in rows))
        with_printed = {row.metric for row in rows if row.printed is not None}
        timed = any(row.seconds_per_run is not None for row in rows)
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("data", "algorithm"):
            table.add_column(column, no_wrap=True)
        for metric in metrics:
            unit = f" ({units[metric][1]})" if metric in units else ""
            table.add_column(metric.replace("_", " ") + unit, justify="right")
            if metric in with_printed:
                table.add_column("printed", justify="right", style="dim")
        for column in (*beside, *(name.replace("_", " ") for name in parameters)):
            table.add_column(column, justify="right", style="dim")
        for column in ("seeds", *(["seconds a run"] if timed else [])):
            table.add_column(column, justify="right")
        before = None
        for (dataset, algorithm), line in lines(rows).items():
            cells = [dataset if dataset != before else "", algorithm]
            for metric in metrics:
                cell, unit_size = line.get(metric), units.get(metric, (1.0, ""))[0]
                cells.append(_mean_and_std(cell, unit_size))
                if metric in with_printed:
                    cells.append(figure(cell.printed if cell else None, unit_size))
            cells += [figure(column.get(dataset)) for column in beside.values()]
            some = next(iter(line.values()))
            cells += [_number(some.parameters.get(name)) for name in parameters]
            cells += [str(some.seeds), *([figure(some.seconds_per_run)] if timed else [])]
            if before is not None and dataset != before:
                table.add_section()
            table.add_row(*cells)
            before = dataset
        self.console.print(table)
        for note in notes:
            self.say(f"  {note}")
        if notes:
            self.say("")

    def write_json(self, path: Path) -> None:
        """Write ``{"command", "rows"}`` to a file, or for "-" to standard output."""
        content = {"command": self.command, "rows": [plain(row._asdict()) for row in self.rows]}
        text = json.dumps(content, indent=1, allow_nan=False) + "\n"
        if is_standard(path):
            print(text, end="")
            return
        with refused():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.say(f"{len(self.rows)} rows written to {path}")

    def plot(self, name: str, panels: Sequence[Panel]) -> None:
        """Write panels to a PNG file in the folder for plots, if there is one."""
        if self.plots is None:
            return
        path = self.plots / f"{name}.png"
        with refused():
            self.plots.mkdir(parents=True, exist_ok=True)
            drawing(panels).savefig(path, dpi=110)
        self.say(f"plot: {path}")


def _number(value: object) -> str:
    """Return a number in few digits, and a hyphen for other parameters."""
    return f"{value:g}" if isinstance(value, int | float) else "-"


def _mean_and_std(row: Row | None, unit: float) -> str:
    if row is None:
        return "-"
    mean = figure(row.mean, unit)
    if row.std == 0 or mean == "-":
        return mean
    fixed = f"{row.std / unit:.{decimals(row.mean / unit)}f}"
    return f"{mean} ± {figure(row.std, unit) if 'e' in mean else fixed}"
