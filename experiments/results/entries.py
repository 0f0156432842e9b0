"""The file of all figures: an entry for each unit that was run.

The file is JSON, ``{"plays": {PLAY: {DATA SET: ENTRY}}}``. An entry has the command and the
version of the play, which define it, the versions of packages, the date, the seconds that it took
by the clock and of the processor, the parameters of all its learners, and the rows of
:class:`jaxmkl.evaluate.Row`, whose ``parameters`` are an index into that list. Numbers have six
significant digits.
"""

import datetime
import json
import os
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jaxmkl
from jaxmkl.evaluate import Row, UsageError, plain

from ..options import refused
from .plan import Unit

PACKAGES = ("jax", "numpy", "scikit-learn")
FLAT = 4  # deeper values are written on one line
Entry = dict[str, Any]
Entries = dict[str, dict[str, Entry]]  # by play, then by data set


def read(path: Path) -> Entries:
    """Return the entries of a file, none if there is no such file.

    Raises:
        UsageError: if it cannot be read, or is another kind of file.
    """
    if not path.exists():
        return {}
    with refused():
        text = path.read_text("utf-8")
    try:
        return json.loads(text)["plays"]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: is not a file of results ({error})") from error


def is_current(entries: Entries, unit: Unit) -> bool | None:
    """Return whether a unit's entry was made by its definition, or None if there is no entry."""
    entry = entries.get(unit.play.name, {}).get(unit.dataset)
    if entry is None:
        return None
    return (entry["command"], entry["version"]) == (unit.command, unit.play.version)


def add(path: Path, unit: Unit, rows: Sequence[Row], seconds: float, processor: float) -> None:
    """Write a unit's entry into a file, which is replaced at once.

    The file is read anew, so that commands for several papers may share it.
    """
    parameters: list[object] = []
    lines = []
    for row in rows:
        line = {name: value for name, value in plain(row._asdict()).items() if value is not None}
        if line["parameters"] not in parameters:
            parameters.append(line["parameters"])
        lines.append({**line, "parameters": parameters.index(line["parameters"])})
    entry = {
        "command": unit.command,
        "version": unit.play.version,
        "date": datetime.date.today().isoformat(),
        "seconds": seconds,
        "processor_seconds": processor,
        "versions": {
            "jaxmkl": jaxmkl.__version__,
            **{name: version(name) for name in PACKAGES},
            "Python": platform.python_version(),
        },
        "parameters": parameters,
        "rows": lines,
    }
    short = json.loads(json.dumps(entry), parse_float=lambda text: float(f"{float(text):.6g}"))
    entries = read(path)
    entries.setdefault(unit.play.name, {})[unit.dataset] = short
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with refused():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(_text({"plays": entries}, FLAT + 1) + "\n", "utf-8")
        os.replace(partial, path)


def rows_of(entry: Entry) -> Iterator[Row]:
    """Yield the rows of an entry; a number that was not finite is NaN."""
    for line in entry["rows"]:
        numbers = {name: line.get(name, float("nan")) for name in ("mean", "std")}
        yield Row(**{**line, **numbers, "parameters": entry["parameters"][line["parameters"]]})


def _text(value: object, depth: int) -> str:
    """Return JSON with a line for each item down to a depth, so that two files can be merged."""
    if depth == 0 or not isinstance(value, dict | list) or not value:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    ends = "{}" if isinstance(value, dict) else "[]"
    if isinstance(value, dict):
        items = [f"{json.dumps(name)}: {_text(of, depth - 1)}" for name, of in value.items()]
    else:
        items = [_text(of, depth - 1) for of in value]
    return "\n".join([ends[0], ",\n".join(items), ends[1]])
