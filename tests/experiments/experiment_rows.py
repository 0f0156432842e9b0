"""Helpers of all tests of experiments: JSON rows and pictures."""

import json
from pathlib import Path

from experiments.__main__ import main

ROW = {"paper", "dataset", "algorithm", "metric", "mean", "std", "seeds", "printed"}
ROW |= {"parameters", "seconds_per_run"}
SMALL = ("--set", "num_features=4")


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


def rows_of_run(folder: Path, *arguments: str) -> list[dict]:
    """The rows that a command of the experiments writes to a file in the folder."""
    out = folder / "rows.json"
    assert main([*arguments, "--json", str(out)]) == 0
    return rows_of(out)


def value(rows: list[dict], algorithm: str, metric: str) -> float:
    (row,) = (r for r in rows if (r["algorithm"], r["metric"]) == (algorithm, metric))
    return row["mean"]


def pictures(folder: Path) -> set[str]:
    """The names of a folder's files, all of which must be PNG."""
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.iterdir())
    return {path.name for path in folder.iterdir()}
