"""What a run says of what to do next, on tables whose answer is known, and what it draws."""

import io
import json
import zipfile

import numpy as np
import polars as pl
import pytest

from jaxmkl.cli import main
from jaxmkl.evaluate import advice

SMALL_PROGRAMS = True
SMALL = ["--learner", "raker", "--set", "num_features=8"]


def answers(folder, columns, *more):
    """The JSON content and the page of a run."""
    out = folder / "o.json", folder / "o.html"
    pl.DataFrame(columns).write_csv(folder / "t.csv")
    given = [*SMALL, *more, "--json", str(out[0]), "--report", str(out[1])]
    assert main(["run", str(folder / "t.csv"), *given]) == 0
    return json.loads(out[0].read_text()), out[1].read_text("utf-8")


def stream(rows=1500):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, rows))
    return {"a": a, "b": b}, a + b + 0.3 * rng.normal(size=rows)


@pytest.mark.slow
def test_a_leak_is_named_everywhere(tmp_path, capsys):
    columns, y = stream(700)
    found, page = answers(tmp_path, columns | {"copy": y**3 + y, "y": y})
    told = {one["about"]: one for one in found["advice"]}
    assert [*told["leak"]["figures"]["columns"]] == ["copy"]
    assert f"next: {told['leak']['text']}" in capsys.readouterr().out
    assert "What next" in page
    assert "(--drop copy)" in page
    # of the same columns with another in its place there is none
    found, page = answers(tmp_path, columns | {"copy": np.roll(y, 300), "y": y})
    assert "leak" not in {one["about"] for one in found["advice"]}


@pytest.mark.endless
def test_of_noise_nothing_is_said(tmp_path, capsys):
    columns, y = stream(1000)
    noise = np.random.default_rng(1).permutation(y)
    found, page = answers(tmp_path, columns | {"y": noise})
    assert found["advice"] == []
    assert "What next" not in page
    assert "next:" not in capsys.readouterr().out


@pytest.mark.slow
def test_baselines_read_inputs_and_predictions_are_drawn(tmp_path, monkeypatch):
    """The same in other chunks, to rounding."""
    columns, y = stream(600)
    of, page = answers(tmp_path, columns | {"y": y})
    errors = {row["name"]: row["metrics"]["mse"][0] for row in of["table"]}
    assert errors["linear so far"] == pytest.approx(0.09, abs=0.06)
    assert errors["mean so far"] > 1
    learner = of["table"][0]
    said, rows = learner["said"], np.arange(2, 600, 2)  # the first row is not judged
    np.testing.assert_array_equal(said["row"], rows + 1)
    np.testing.assert_allclose(said["label"], y[rows], rtol=1e-6)
    squares = np.square(learner["residuals"]["mean"])
    squares += np.square(learner["residuals"]["deviation"])
    np.testing.assert_allclose(squares, of["curves"]["error"]["raker"], rtol=1e-6)
    assert page.count("predictions by the label") == 2  # its caption and its description
    assert "labels minus predictions, in each window" in page
    monkeypatch.setattr("jaxmkl.tables.source.ROWS", 64)
    short, _ = answers(tmp_path, columns | {"y": y}, "--first", "64")
    for one, other in zip(of["table"], short["table"], strict=True):
        for name, values in one["said"].items():
            np.testing.assert_allclose(values, other["said"][name], rtol=1e-4, atol=1e-5)
        assert one["metrics"]["mse"] == pytest.approx(other["metrics"]["mse"], rel=1e-5)


@pytest.mark.slow
def test_columns_that_matter_are_measured(tmp_path, capsys):
    """A linear one matters, though a metric tells little of it; a constant one has no place."""
    columns, y = stream(600)
    kinds = np.random.default_rng(1).integers(0, 3, 600)
    columns |= {"kind": np.array(["p", "q", "r"])[kinds], "flat": np.ones(600)}
    given = ["--learner", "expert_mkl", "--set", "banks=diagonal"]
    found, page = answers(tmp_path, columns | {"y": y}, *given)
    growth = found["table"][0]["growth"]
    assert {*growth} == {*found["table"][0]["column_importances"]} == {"a", "b", "kind"}
    assert min(growth["a"], growth["b"]) > 1
    assert abs(growth["kind"]) < 0.2
    assert "columns that matter most to expert_mkl: " in capsys.readouterr().out
    assert "Columns that matter" in page
    assert "The learned metric" in page


@pytest.mark.slow
def test_words_that_matter_are_named(tmp_path):
    rng = np.random.default_rng(0)
    words = np.array(["good", "bad", *(f"word{i}" for i in range(60))])
    at = rng.integers(0, len(words), (700, 6))
    score = (at == 0).sum(1) - (at == 1).sum(1)
    columns = {
        "text": [" ".join(words[row]) for row in at],
        "y": score + 0.1 * rng.normal(size=700),
    }
    given = ["--learner", "expert_mkl", "--set", "banks=linear", "--as", "text=text"]
    found, page = answers(tmp_path, columns, *given)
    most = found["table"][0]["words"]["text"]
    assert {*[*most][:2]} == {"good", "bad"}
    assert most["good"]["change"] > 0 > most["bad"]["change"]
    assert most["good"]["rows"] > 10
    assert "Words that matter" in page


@pytest.mark.endless
def test_what_carries_the_prediction_is_kept_over_the_rows(tmp_path):
    """A short memory gains weight where the target turns, and a resumed run keeps it all."""
    columns, y = stream(1500)
    y = np.where(np.arange(1500) < 1024, y, -y)
    given = ["--learner", "expert_mkl", "--set", "banks=linear", "--first", "64"]
    found, page = answers(tmp_path, columns | {"y": y}, *given)
    of = found["table"][0]["shares"]
    assert of["row"] == [1, 257, 513, 769, 1025, 1281]
    memories = np.array([values for name, values in of.items() if name.startswith("memory")])
    np.testing.assert_allclose(memories.sum(0), 1, atol=1e-5)
    assert memories[-1, 5] > memories[-1, 4]
    banks = np.array([values for name, values in of.items() if name.startswith("bank")])
    assert not banks.size  # there is one alone
    assert "What carries the prediction" in page


@pytest.mark.slow
def test_boosting_goes_on_from_a_checkpoint(tmp_path, monkeypatch):
    """The rows that a run resumes with are those of one run; without some of them it is absent."""
    monkeypatch.setattr("jaxmkl.evaluate.boosted.FIRST", 64)
    monkeypatch.setattr("jaxmkl.tables.source.ROWS", 64)  # as above, whose programs it has
    columns, y = stream(400)
    rows, kept = columns | {"y": y}, tmp_path / "kept"
    given = [*SMALL, "--json", str(tmp_path / "o.json"), "--first", "64"]

    def errors(number, *more):
        frame = pl.DataFrame(rows).head(number)
        frame.write_csv(tmp_path / "t.csv")
        assert main(["run", str(tmp_path / "t.csv"), *given, *more]) == 0
        found = json.loads((tmp_path / "o.json").read_text())
        return {row["name"]: row["metrics"]["mse"][0] for row in found["table"]}, found["notes"]

    whole, notes = errors(400)
    assert whole["boosting so far"] < whole["mean so far"]
    assert notes == []
    errors(256, "--checkpoint", str(kept))
    part = kept.read_bytes()
    resumed, notes = errors(400, "--checkpoint", str(kept))
    assert resumed == pytest.approx(whole, rel=1e-6)
    assert notes == []
    with zipfile.ZipFile(io.BytesIO(part)) as old, zipfile.ZipFile(kept, "w") as new:
        for name in set(old.namelist()) - {"boosted.npz"}:
            new.writestr(name, old.read(name))
    without, notes = errors(400, "--checkpoint", str(kept))
    assert whole.keys() - without.keys() == {"boosting so far"}
    assert "'boosting so far' is left out" in notes[0]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    absent, notes = errors(400)
    assert absent == pytest.approx(without, rel=1e-6)
    assert notes == []


@pytest.mark.slow
@pytest.mark.parametrize(("banks", "named"), [("linear", set()), ("fixed", {"linear"})])
def test_a_linear_bank_is_not_advised_where_there_is_one(banks, named, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(advice, "better_baseline", lambda _, others, *__: seen.append({*others}))
    columns, y = stream(70)
    answers(tmp_path, columns | {"y": y}, "--learner", "expert_mkl", "--set", f"banks={banks}")
    assert {frozenset(others - {"boosting"}) for others in seen} == {frozenset(named)}
