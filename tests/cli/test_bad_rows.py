"""Rows that cannot be read, amid a table: they end a run as an interrupt does, or are skipped."""

import contextlib
import csv
import gzip
import io
import json
import os
import sys

import jax
import numpy as np
import pytest
from test_kept import assert_same, command, outcome, stopped

import jaxmkl
from jaxmkl.cli import main
from jaxmkl.tables import (
    Columns,
    Pipeline,
    RefusedRows,
    SkippedRows,
    _pipeline,
    open_table,
    save_pipeline,
    source,
)

SMALL_PROGRAMS = True
pytestmark = pytest.mark.usefixtures("short_chunks")
ONE = ["--seeds", "1"]


def changed(path, cells):
    """Put cells into a CSV file by (row, column), rows counted from 1; return the text before."""
    text = path.read_text()
    rows = list(csv.reader(text.splitlines()))
    for (row, name), cell in cells.items():
        rows[row][rows[0].index(name)] = cell
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    return text


def without(text, rows):
    lines = text.splitlines(keepends=True)
    return "".join(line for i, line in enumerate(lines) if i not in rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (("b", "tall"), "'tall' is not a number"),
        pytest.param(("kind", "w"), "'w' is not one of", marks=pytest.mark.endless),
        pytest.param(("c", "1e30"), "the number is too large", marks=pytest.mark.endless),
        pytest.param(("d", "inf"), "'inf' is not finite", marks=pytest.mark.endless),
    ],
)
def test_a_bad_row_ends_a_run_as_an_interrupt_does(cell, reason, flowers, tmp_path, capsys):
    """All is written, and once the row is mended the run goes on as if it had been good."""
    folder, kept = tmp_path / "parts", tmp_path / "kept"
    report = ["--report", str(folder / "page.html")]
    parts = [*command(flowers, folder), *ONE, "--checkpoint", str(kept), *report]
    text = changed(flowers, {(300, cell[0]): cell[1]})
    assert main(parts) == 2
    said = capsys.readouterr()
    last = said.err.splitlines()[-1]
    assert last.startswith(f"jaxmkl: {flowers}, line 301, column {cell[0]!r}: {reason}")
    assert f"; ended after 256 rows; the same command continues from {kept}; mend" in last
    assert "256 rows of 5 inputs" in said.out
    assert sorted(os.listdir(folder)) == ["model", "page.html", "run.json", "said.csv"]
    content, predictions, model = outcome(folder)
    assert (content["num_rows"], model.rows, predictions.count("\n")) == (256, 256, 257)
    assert reason in content["ended_by"]
    assert reason in (folder / "page.html").read_text()
    flowers.write_text(text)
    assert main(parts) == main([*command(flowers, tmp_path / "whole"), *ONE]) == 0
    assert_same(outcome(folder), outcome(tmp_path / "whole"))


@pytest.mark.slow
def test_a_run_without_a_checkpoint_says_where_to_go_on(flowers, tmp_path, capsys):
    """And before the first block is full, all rows are run up to the bad one."""
    model = tmp_path / "model"
    line = [
        "run",
        str(flowers),
        *["--learner", "raker", "--set", "num_features=4", "--first", "60"],
    ]
    line += ["--save", str(model)]
    changed(flowers, {(100, "b"): "tall"})
    assert main(line) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    on = f"continue with: jaxmkl run {flowers} --from {model} --skip 99"
    assert last.endswith(
        f"; ended after 99 rows; {on}; mend the row, or skip it with --bad-rows 1"
    )
    assert jaxmkl.load_pipeline(model).rows == 99
    assert main(["run", str(flowers), "--from", str(model), "--skip", "100"]) == 0


def test_a_table_that_begins_with_a_bad_row_is_refused(flowers, tmp_path, capsys):
    """An earlier file of predictions stays as it was."""
    changed(flowers, {(1, "b"): "tall"})
    said_before = tmp_path / "folder" / "said.csv"
    said_before.parent.mkdir()
    said_before.write_text("of another run\n")
    assert main([*command(flowers, tmp_path / "folder"), *ONE, "--bad-rows", "0"]) == 2
    said = capsys.readouterr()
    assert "line 2, column 'b': 'tall' is not a number" in said.err
    assert said.out == ""
    assert said_before.read_text() == "of another run\n"


BAD = {(1, "b"): "tall", (130, "kind"): "w", (130, "c"): "x", (131, "a"): "1e30"}
BAD |= {(280, "d"): "inf", (500, "kind"): "v"}
ROWS = sorted({row for row, _ in BAD})


@pytest.mark.slow
def test_bad_rows_are_skipped_and_counted(flowers, tmp_path, monkeypatch, capsys):
    text = changed(flowers, BAD)
    line = [*command(flowers, tmp_path / "skipped"), *ONE, "--bad-rows", "5"]
    assert main(line) == 0
    shown = capsys.readouterr()
    note = f"5 rows that cannot be read were skipped: {', '.join(str(row + 1) for row in ROWS)}"
    assert note in shown.out
    content, predictions, model = outcome(tmp_path / "skipped")
    assert [row["number"] for row in content["bad_rows"]] == [row + 1 for row in ROWS]
    assert "'tall' is not a number" in content["bad_rows"][0]["reason"]
    assert (content["num_rows"], model.rows, content["ended_by"]) == (595, 595, "")
    lines = {int(row["line"]) for row in csv.DictReader(predictions.splitlines())}
    assert lines == {*range(2, 602)} - {row + 1 for row in ROWS}

    # the same as without them, up to where chunks are cut
    cleaned = tmp_path / "cleaned.csv"
    cleaned.write_text(without(text, ROWS))
    assert main([*command(cleaned, tmp_path / "cleaned"), *ONE]) == 0
    wanted = outcome(tmp_path / "cleaned")
    for found, other in zip(content["rows"], wanted[0]["rows"], strict=True):
        assert found["mean"] == pytest.approx(other["mean"], rel=1e-3, abs=1e-4)

    # stopped and resumed, with fewer and then with more of them allowed
    kept = ["--checkpoint", str(tmp_path / "kept"), "--every", "64"]
    parts = [*command(flowers, tmp_path / "parts"), *ONE, *kept, "--bad-rows"]
    assert main([*parts, "2"]) == 2
    assert "line 132, column 'a'" in capsys.readouterr().err.splitlines()[-1]
    with monkeypatch.context() as patched:
        stopped(patched, 4)
        assert main([*parts, "5"]) == 130
    assert main([*parts, "5"]) == 0
    found = outcome(tmp_path / "parts")
    assert found[0]["bad_rows"] == content["bad_rows"]
    one, other = ([row.split(",")[0] for row in of.splitlines()] for of in (found[1], predictions))
    assert one == other
    np.testing.assert_allclose(found[2].fills, model.fills)
    assert json.loads((tmp_path / "parts" / "run.json").read_text())["num_rows"] == 595


@pytest.mark.slow
def test_a_chunk_of_bad_rows_alone(flowers, tmp_path):
    changed(flowers, {(row, "b"): "tall" for row in range(129, 193)})
    assert main([*command(flowers, tmp_path / "out"), *ONE, "--bad-rows", "64"]) == 0
    content, _, model = outcome(tmp_path / "out")
    assert (content["num_rows"], len(content["bad_rows"]), model.rows) == (536, 64, 536)


# --- rows that were run, and changed since -------------------------------------------------------


@pytest.mark.parametrize("name", ["a", pytest.param("kind", marks=pytest.mark.endless), "row"])
def test_rows_that_were_run_must_not_change(name, flowers, tmp_path, monkeypatch, capsys):
    """Though columns are decided as before; rows that come later may."""
    parts = [*command(flowers, tmp_path / "parts"), *ONE, "--checkpoint", str(tmp_path / "kept")]
    with monkeypatch.context() as patched:
        stopped(patched, 5)
        assert main(parts) == 130
    before = capsys.readouterr().err
    assert "interrupted after 192 rows" in before or "interrupted after 256 rows" in before
    text = flowers.read_text()
    if name == "row":  # two rows are exchanged
        lines = text.splitlines(keepends=True)
        assert lines[100] != lines[101]
        lines[100:102] = lines[101:99:-1]
        flowers.write_text("".join(lines))
    else:
        changed(flowers, {(150, name): "4.25" if name == "a" else "z"})
        if flowers.read_text() == text:
            changed(flowers, {(150, name): "x"})
    assert main(parts) == 2
    said = capsys.readouterr().err
    assert f"belongs to a run whose rows were different: {flowers} has changed up to where" in said
    flowers.write_text(text)
    changed(flowers, {(590, "b"): "3.5"})
    assert main(parts) == 0
    assert outcome(tmp_path / "parts")[0]["num_rows"] == 600


# --- lines that are no rows ----------------------------------------------------------------------

# for each format: good rows with a bad one in the place of {}, bad ones, and why
CSV = 'a,b\n1,"two\nlines"\n{}\n3,x\n'
TEXTS = {
    "csv": (
        CSV,
        [(b"1", "1 cell where"), (b"1,2,3", "3 cells"), (b"1,\xe9", "not text in UTF-8")],
    ),
    "quotes": (
        CSV,
        [
            (b'2,"x', "closed"),
            (b'2,"x"y', "a quote that is closed in line 4, inside a cell"),
            (b'2,"\xff"', "not text in UTF-8"),
        ],
    ),
    "ndjson": (
        '{{"a": 1, "b": "two"}}\n\n{}\n{{"a": 3, "b": "x"}}\n',
        [(b'{"a": 2, "b"', "no JSON"), (b"[2]", "one JSON object a line"), (b"{\xe9}", "UTF-8")],
    ),
    "libsvm": (
        "1 1:2 2:3\n# 2\n{}\n0 1:3\n",
        [
            (b"1 2:1 1:2", "indices must increase"),
            (b"1 1:x", "is not a finite"),
            (b"1 x", "index:value wanted"),
            (b"1 1:2 # \xe9", "not text in UTF-8"),
        ],
    ),
}
BAD_LINES = [(name, *bad) for name, (_, each) in TEXTS.items() for bad in each]


@pytest.mark.parametrize(("name", "bad", "reason"), BAD_LINES)
@pytest.mark.parametrize("through", ["file", "gz", "pipe"])
def test_lines_that_are_no_rows(through, name, bad, reason, tmp_path, monkeypatch):
    """The rows before one are read, and the rows below it, too, where it is kept."""
    good = TEXTS[name][0].format("BAD").encode()
    text, line = good.replace(b"BAD", bad), good[: good.index(b"BAD")].count(b"\n") + 1
    path = tmp_path / f"t.{name}"
    path.write_bytes(gzip.compress(text) if through == "gz" else text)

    def opened(**how):
        if through != "pipe":
            return contextlib.closing(source.open_table(path, **how))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        return contextlib.closing(source.open_table("-", **how))

    clean = tmp_path / "clean"
    clean.write_bytes(good.replace(b"BAD\n", b""))
    with contextlib.closing(source.open_table(clean)) as table:
        wanted = source.joined(table, 100).frame.rows()
    for size in (1, 100):
        with opened() as table:
            chunks = table.chunks(size)
            first = next(chunks)
            assert len(first.frame) == 1
            with pytest.raises(ValueError, match=reason) as refused:
                next(chunks)
        assert f", line {line}" in str(refused.value)
        with opened(keep_refused=True) as table:
            kept = source.joined(table, size)
            assert [*kept.numbers] == [first.numbers[0], line, line + 1]
            assert kept.refused == ((1, str(refused.value)),)
            assert kept.take([0, 2]).frame.rows() == wanted


@pytest.mark.parametrize("end", ["a line that is too long", "damage"])
def test_rows_before_the_end_of_what_can_be_read(end, tmp_path):
    rng = np.random.default_rng(3)
    rows = [f"{a:.17g},{b}\n" for a, b in zip(rng.normal(size=30_000), range(30_000), strict=True)]
    path = tmp_path / "t.csv"
    if end == "damage":
        path.write_bytes(gzip.compress("".join(["a,b\n", *rows]).encode())[:-1000])
    else:
        path.write_text("".join(["a,b\n", *rows[:20_000], "1," + "2" * 2**20 + "\n", *rows]))
    number, why = [0], "is damaged" if end == "damage" else "line 20002: is longer"
    with contextlib.closing(source.open_table(path, longest_line=1)) as table:
        chunks = table.chunks(8192)
        with pytest.raises(ValueError, match=why):
            number.extend(len(chunk.frame) for chunk in chunks)
    assert sum(number) == 20_000 if end != "damage" else 20_000 < sum(number) < 30_000


LINES = {130: "1,2\n", 250: "1,2,3,4,5,6,7,8,9\n", 300: "é,1,2,3,4\n", 301: "1\n"}


def spoilt(path, lines=LINES, compressed=True):
    """Replace rows, counted from 1, by lines that are none; return the text of the others."""
    rows = path.read_text().splitlines(keepends=True)
    good = "".join(row for i, row in enumerate(rows) if i not in lines)
    text = "".join(lines.get(i, row) for i, row in enumerate(rows)).encode("latin1")
    path.write_bytes(gzip.compress(text) if compressed else text)
    return good


def test_predict_skips_rows_that_cannot_be_read(tmp_path, monkeypatch, capsys):
    """Bad cells and bad lines, from a file, compressed, and through a pipe."""
    monkeypatch.setattr(_pipeline, "AT_ONCE", 4)  # all four rows of some chunks are bad
    lines = [f"{i % 5}.5,{'st'[i % 2]},{i % 3}" for i in range(40)]
    clean = tmp_path / "clean.csv"
    clean.write_text("\n".join(["a,kind,y", *lines]))
    with contextlib.closing(open_table(clean)) as table:
        columns = Columns.decide(next(table.chunks(100)), "y", "regression")
    learner = jaxmkl.raker(jaxmkl.Gaussian(1.0), num_features=2)
    state = learner.init(jax.random.key(0), len(columns.features))
    model = Pipeline(learner, state, columns, columns.init())
    save_pipeline(path := tmp_path / "model", model)
    assert main(["predict", str(path), str(clean)]) == 0
    good = capsys.readouterr().out.splitlines(keepends=True)
    bad = {3: "tall,s,1", 5: "1", 6: "1,s,2,3", 7: "\udcff,s,1", 8: '"1,s,1', 30: "1e30,t,2"}
    text = "\n".join(["a,kind,y", *(bad.get(i, line) for i, line in enumerate(lines, 1))])
    content = text.encode(errors="surrogateescape")
    (tmp_path / "bad.csv").write_bytes(content)
    (tmp_path / "bad.csv.gz").write_bytes(gzip.compress(content))
    out = tmp_path / "out.csv"
    for given in (tmp_path / "bad.csv", tmp_path / "bad.csv.gz", "-"):

        def predict(*options, given=given):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
            return main(["predict", str(path), str(given), *options]), *capsys.readouterr()

        status, _, said = predict()
        assert status == 2
        assert "line 4, column 'a': 'tall' is not a number" in said
        assert said.endswith("; or skip such rows with --bad-rows 1\n")
        status, found, said = predict("--bad-rows", "6")
        assert (status, found) == (0, "".join(np.delete(good, [*bad])))
        assert said.endswith("6 rows that cannot be read were skipped: 4, 6, 7, 8, 9, 31\n")
        status, _, said = predict("--bad-rows", "5", "--out", str(out))
        assert status == 2
        assert not out.exists()
        assert "line 31, column 'a'" in said
    (tmp_path / "none.csv").write_text("a,kind,y\ntall,s,1\n1\n")
    assert main(["predict", str(path), str(tmp_path / "none.csv"), "--bad-rows", "2"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-2] == "2 rows that cannot be read were skipped: 2, 3"
    assert said[-1].endswith("none.csv has no row that can be read")
    assert main(["run", str(tmp_path / "none.csv"), "--from", str(path), "--bad-rows", "2"]) == 2
    wanted = "has no row that can be read; 2 rows that cannot be read were skipped: 2, 3\n"
    assert capsys.readouterr().err.endswith(wanted)
    with pytest.warns(SkippedRows, match="6 rows .* 31"):
        chunks = [chunk for chunk, _ in model.predictions(tmp_path / "bad.csv", most_bad=6)]
    numbers = [number for chunk in chunks for number in chunk.numbers]
    assert numbers == [i + 1 for i in range(1, 41) if i not in bad]
    with pytest.raises(RefusedRows, match="row 2, column 'a': 'tall' is not a number"):
        model.predict({"a": ["1", "tall"], "kind": ["s", "t"]})


@pytest.mark.slow
def test_lines_that_are_no_rows_are_skipped_and_counted(flowers, tmp_path, monkeypatch, capsys):
    good = spoilt(flowers)
    assert main([*command(flowers, tmp_path / "found"), *ONE, "--bad-rows", "4"]) == 0
    content, said, model = outcome(tmp_path / "found")
    assert [row["number"] for row in content["bad_rows"]] == [row + 1 for row in LINES]
    assert "not text in UTF-8" in content["bad_rows"][2]["reason"]
    assert (content["num_rows"], model.rows, said.count("\n")) == (596, 596, 597)
    clean = tmp_path / "clean.csv"
    clean.write_text(good)
    assert main([*command(clean, tmp_path / "clean"), *ONE]) == 0
    for row, other in zip(content["rows"], outcome(tmp_path / "clean")[0]["rows"], strict=True):
        assert row["mean"] == pytest.approx(other["mean"], rel=1e-3, abs=1e-4)
    # one fewer, through a pipe: all whole blocks before the fourth are run
    compressed = flowers.read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(compressed)))
    capsys.readouterr()
    assert main([*command("-", tmp_path / "pipe"), *ONE, "--bad-rows", "3"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "standard input, line 302: 1 cell where the header has" in last
    assert last.endswith("mend the row, or skip it with --bad-rows 3") or "--bad-rows 4" in last
    assert outcome(tmp_path / "pipe")[0]["num_rows"] == 256


def test_a_line_that_is_no_row_ends_a_run(flowers, tmp_path, capsys):
    """Not at the end of the chunk before it: at its own row, here before the first block ends."""
    spoilt(flowers, {100: "1,2\n"}, compressed=False)
    assert main([*command(flowers, tmp_path / "out"), *ONE]) == 2
    content, said, model = outcome(tmp_path / "out")
    assert (content["num_rows"], model.rows, said.count("\n")) == (99, 99, 100)
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"{flowers}, line 101: 2 cells where the header has" in last
    assert "; ended after 99 rows" in last
