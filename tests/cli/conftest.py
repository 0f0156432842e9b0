"""A table of flowers, which most tests of the command play, and chunks of few rows."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sklearn.datasets

from jaxmkl.tables import source


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "ROWS", 64)


@pytest.fixture
def flowers(tmp_path: Path, short_chunks: None) -> Path:
    """Iris, four times in an order of its own, with gaps; played in chunks of 64 rows."""
    X, y = sklearn.datasets.load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(600)
    frame = pl.DataFrame(X, ["a", "b", "c", "d"]).with_columns(kind=np.array(["x", "y", "z"])[y])
    frame = frame[order % 150].with_columns(pl.when(pl.Series(order % 7 > 0)).then("a"))
    frame.write_csv(tmp_path / "flowers.csv")
    return tmp_path / "flowers.csv"
