"""Helpers of all tests of experiments: JSON rows and pictures."""

import json
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from experiments.__main__ import main

ROW = {"paper", "dataset", "algorithm", "metric", "mean", "std", "seeds", "printed"}
ROW |= {"parameters", "seconds_per_run"}


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def rows_of(path: Path) -> list[dict]:
    """The rows of a JSON file, each checked against the contract."""
    content = json.loads(path.read_text(), parse_constant=refuse_constant)
    assert set(content) == {"command", "rows"}
    assert content["command"].startswith("python -m experiments")
    for row in content["rows"]:
        assert set(row) == ROW
        assert isinstance(row["parameters"], dict)
        assert row["seeds"] >= 1
        if row["metric"].endswith("_rate"):
            difference = " less " in row["algorithm"]
            assert (-1 if difference else 0) <= row["mean"] <= 1
    names = [
        (row["paper"], row["dataset"], row["algorithm"], row["metric"]) for row in content["rows"]
    ]
    assert len(set(names)) == len(names)
    return content["rows"]


def rows_of_run(
    folder: Path,
    command: str,
    datasets: str | None = None,
    algorithms: str | None = None,
    plots: bool = False,
    seeds: int | None = None,
    **settings: object,
) -> list[dict]:
    """The rows that a command of the experiments writes; pictures are in the folder's plots."""
    words, out = command.split(), folder / "rows.json"
    options = {"datasets": datasets, "algorithms": algorithms, "seeds": seeds, "json": out}
    options |= {"plots": folder / "plots"} if plots else {}
    for name, given in options.items():
        words += [] if given is None else [f"--{name}", str(given)]
    for name, given in settings.items():
        words += ["--set", f"{name}={given!r}"]
    assert main(words) == 0
    return rows_of(out)


def value(rows: list[dict], algorithm: str, metric: str) -> float:
    (row,) = (r for r in rows if (r["algorithm"], r["metric"]) == (algorithm, metric))
    return row["mean"]


def stand_in(patch: pytest.MonkeyPatch, name: str, **contents: object) -> types.ModuleType:
    """An importable module of this name and with these contents, in the place of a package."""
    made = types.ModuleType(name)
    made.__spec__ = ModuleSpec(name, None)
    vars(made).update(contents)
    patch.setitem(sys.modules, name, made)
    return made


def pictures(folder: Path) -> set[str]:
    """The names of a folder's files, all of which must be PNG."""
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.iterdir())
    return {path.name for path in folder.iterdir()}
