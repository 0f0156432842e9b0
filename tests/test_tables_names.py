"""Columns whose names polars would read as patterns."""

import numpy as np
import polars as pl
import pytest

from jaxmkl.tables import read

PATTERNS = "^a$", "^.*$", "*", "^b|c$", "^$"


@pytest.mark.parametrize("path", ["csv", "ndjson", "parquet", "frame"])
@pytest.mark.parametrize("cells", [["u", "v"], ["1,5", "2,25"], ["12%", "3%"], ["2.5", "NA"]])
def test_names_like_patterns_are_exact(path, cells, tmp_path):
    def table(names):
        columns = {
            name: [cells[(i >> at) % 2] for i in range(64)] for at, name in enumerate(names)
        }
        return pl.DataFrame(columns | {"y": [float(i % 7) for i in range(64)]})

    found = []
    for names in (PATTERNS, "vwxzk"):
        frame, source = table(names), tmp_path / f"table.{path}"
        if path == "frame":
            source = frame
        else:
            getattr(frame, f"write_{path}")(source)
        found.append(read(source))
    assert len(found[0].feature_names) == len(found[1].feature_names)
    np.testing.assert_array_equal(found[0].X, found[1].X)
