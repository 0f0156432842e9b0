"""Effects of columns in the files of a run, on tables where they are known."""

import json
import re

import numpy as np
import pytest

from jaxmkl.cli import main

SMALL_PROGRAMS = True


@pytest.mark.endless
def test_columns_that_matter_are_told_from_those_that_do_not(tmp_path):
    """A column of slope 2, categories 3 apart, and one column of noise, which is told last."""
    rng = np.random.default_rng(0)
    a, noise = rng.normal(size=(2, 1000))
    kind = rng.integers(0, 2, 1000)
    y = 1000 + 2 * a + 3 * kind
    lines = [f"{u},{v},{'xz'[k]},{w}" for u, v, k, w in zip(noise, a, kind, y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["noise,a,kind,y", *lines]))
    out = [tmp_path / "o.json", tmp_path / "o.html"]
    given = ["--learner", "raker", "--json", str(out[0]), "--report", str(out[1])]
    assert main(["run", str(tmp_path / "t.csv"), *given]) == 0
    effects = json.loads(out[0].read_text())["table"][0]["effects"]
    assert [*effects][-1] == "noise"
    of = effects["a"]
    inner = slice(1, -1)  # ends are shrunk
    slope, _ = np.polyfit(of["at"][inner], of["mean"][inner], 1)
    assert slope == pytest.approx(2, rel=0.2)
    assert np.mean(of["mean"]) == pytest.approx(1001.5, abs=1)
    assert np.ptp(effects["noise"]["mean"]) < 1 < np.ptp(of["mean"])
    if effects["kind"]["names"]:
        assert effects["kind"]["names"] == ["kind=x", "kind=z"]
    assert np.ptp(effects["kind"]["mean"]) == pytest.approx(3, rel=0.2)
    page = out[1].read_text("utf-8")
    drawn = re.search("<h2>How columns change.*?</section>", page, re.DOTALL)
    assert drawn[0].count("<figure") == len(effects) == 3
