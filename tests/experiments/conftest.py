"""Fixtures of the experiments: no data, small data, and how a command is played."""

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from experiment_rows import rows_of_run


@pytest.fixture(autouse=True)
def no_data(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder is named, but where a test is of the papers' data."""
    if not request.node.get_closest_marker("data"):
        monkeypatch.delenv("JAXMKL_DATA", raising=False)


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small stand-ins for some of the papers' files, in the folder that JAXMKL_DATA names."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("JAXMKL_DATA", str(folder))
    draws = np.random.default_rng(0)
    X = draws.uniform(size=(300, 3)).astype(np.float32)
    y = 0.5 * X[:, 0] * X[:, 1]
    for name in ("air", "tom"):
        np.savez(folder / f"{name}.npz", X=X, y=y)
    np.savez(folder / "naval.npz", X=1000 * X, y=y)
    labels = np.where(X[:, 0] > 0.4, 1, -1).astype(np.int8)
    for name in ("german", "magic04", "a9a", "susy"):
        np.savez(folder / f"{name}.npz", X=X, y=labels)
    return folder


@pytest.fixture
def play(tmp_path: Path) -> Callable:
    """A function that plays a command in the test's folder, and tells the rows it writes."""
    return functools.partial(rows_of_run, tmp_path)
