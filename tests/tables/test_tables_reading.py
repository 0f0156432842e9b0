"""How a table is read: headers, titles, words for missing cells, lines without an end."""

import datetime
import functools
import gzip
import io
import os
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.datasets
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from jaxmkl.cli import main
from jaxmkl.tables import Chunk, Columns, open_table, read
from jaxmkl.tables._decide import kind_of
from tests.common.marks import long

refused = functools.partial(pytest.raises, ValueError)


@pytest.fixture
def write(tmp_path):
    def written(text, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


def first(source, **how):
    with closing(open_table(source, **how)) as table:
        return next(table.chunks(1000))


def frame_of(source, **how):
    with closing(open_table(source, **how)) as table:
        return table.names, next(table.chunks(1000)).frame


ADULT = (
    "39, State-gov, 77516, 2174, <=50K\n50, Self-emp, 83311, 0, <=50K\n38, Private, 215646, 0, "
)
HEADERLESS = {
    "adult": ADULT + ">50K\n28, State-gov, 338409, 0, >50K\n",
    "cars": "vhigh,vhigh,2,small,unacc\nvhigh,vhigh,4,big,acc\nlow,high,2,small,unacc\n",
    "irises": "5.1,3.5,1.4,setosa\n4.9,3.0,1.5,setosa\n6.3,3.3,6.0,virginica\n",
    "mushrooms": "p,x,s,n,s\ne,x,s,y,s\ne,b,s,w,x\np,x,y,n,s\n",
    "with commas": "5,1;a;7,25\n6,3;b;8,5\n4,4;a;9,75\n",
    "dates": "2024-01-05,word\n2024-01-06,other\n2024-01-07,third\n",
    "prices": "$12.50,Anna\n$3.20,Bert\n$45.00,Cleo\n",
    "a class and texts": "3,wall street falls\n4,a new phone\n1,peace at last\n2,they won\n",
    "one column": "4.5\n3.25\n6.5\n",
    "two rows": "7,red\n9,blue\n",
}
NAMED = {
    "years": "country,2019,2020\nFrance,1200,3000\nItaly,1500,2500\n",
    "one year": "item,2020\nA,2500\nB,1800\n",
    "years alone": "2018,2019,2020\n1,2,3\n1800,2200,2400\n",
    "decades": "city,1990,2000,2010\nA,1.5,2.5,3\nB,2,5,7\n",
    "indices": "0,1,2,label\n0.5,1.5,2.5,a\n1,3,2,b\n",
    "indices from one": "id,1,2,3\nx,1,2,3\ny,3,1,2\n",
    "wavelengths": "350,360.5,375,y\n0.1,0.2,0.3,1\n0.4,0.3,0.3,0\n",
    "quantiles": "0.25,0.5,0.75\n0.2,0.5,0.9\n0.1,0.6,0.7\n",
    "codes": "1007,1031,sold\n0,5,2\n3,0,1\n",
    "y and n": "x,y\n1,y\n2,n\n3,y\n",
    "a word below itself": "name,age,size\nname,3,4\nother,4,5\n",
    "a comment of as many cells": "#id,a,b\n1,2,3\n2,3,5\n",
    "dates over numbers": "shop,2024-01-01,2024-01-02\nA,3,4\nB,5,6\n",
    "no rows": "1,2\n",
}


@pytest.mark.parametrize("case", HEADERLESS)
def test_a_first_line_that_is_a_row(case, write, capsys):
    text = HEADERLESS[case]
    path, lines = write(text), len(text.splitlines())
    for ask in (read, open_table):
        with refused(match=r"t\.csv, line 1: the first line must name the columns; it looks like"):
            ask(path)
    width = len(frame_of(path, header=False)[0])
    letters = [*"abcdefgh"[:width]]
    for how, names in (
        ({"header": False}, [f"column_{i + 1}" for i in range(width)]),
        ({"names": letters}, letters),
    ):
        found, frame = frame_of(path, **how)
        assert (found, len(frame)) == (names, lines)
    found, frame = frame_of(path, header=True) if case not in ("cars", "mushrooms") else (0, 0)
    if found:
        assert len(frame) == lines - 1
        assert found[0] == text.splitlines()[0].split(";" if ";" in text else ",")[0].strip()
    # commands: what they say, and what they read
    assert main(["select", str(path), "--num", "1"]) == 2
    said = capsys.readouterr().err
    assert "--names a,b,c" in said
    assert "--no-header" in said


@pytest.mark.parametrize("case", NAMED)
def test_a_first_line_that_names(case, write):
    text = NAMED[case]
    names, *_ = (line.split(",") for line in text.splitlines())
    with closing(open_table(write(text))) as table:
        assert table.names == names
        assert sum(len(chunk.frame) for chunk in table.chunks(10)) == len(text.splitlines()) - 1


BUNDLED = ["iris", "wine", "breast_cancer", "diabetes", "digits"]


@pytest.mark.parametrize("name", BUNDLED)
@pytest.mark.parametrize("names", ["own", "indices", "years"])
def test_true_headers_of_bundled_tables(name, names, write):
    data = getattr(sklearn.datasets, f"load_{name}")()
    n, D = data.data.shape
    headers = {
        "own": list(data.feature_names),
        "indices": range(D),
        "years": range(1960, 1960 + D),
    }
    frame = pl.DataFrame(data.data, [str(one) for one in headers[names]])
    order = np.random.default_rng(0).permutation(n)
    frame = frame.with_columns(pl.Series("kind", data.target))[order]
    path = write(frame.write_csv())
    assert frame_of(path)[0] == frame.columns
    # and without it the first row is not taken for one
    with refused(match="must name the columns"):
        open_table(write(frame.write_csv(include_header=False)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Sales of 2020\n\nshop,sold\nA,3\nB,4\n", r", line 1: is a title, 'Sales of 2020', and th"
         r".* begins in line 3; leave out .*\(tail -n \+3 FILE"),
        ("# made by it\n# on Monday\na;b;c\n1;2;3\n4;5;6\n", ", line 1: is a comment, .* line 3"),
        ("% made by it\na,b\n1,2\n3,4\n", ", line 1: is a comment, .* in line 2"),
        ("Report,,\nshop,sold,bought\nA,3,5\nB,4,1\n", ", line 1: is a title, 'Report,,', .* 2"),
        ("sep=;\nA title\na;b;c\n1;2;3\n", ", line 2: is a title, .* in line 3"),
        ("1 |words good:1 bad:2\n-1 |words bad:1\n", ", line 1: is a file of Vowpal Wabbit"),
        ("1 2.0 'tag |a x:1 |b y z\n", ", line 1: is a file of Vowpal Wabbit, which is not read"),
        ("| price:.23 sqft:.25\n", ", line 1: is a file of Vowpal Wabbit"),
        (".7 1.0 house7|n rooms:3 far\n", ", line 1: is a file of Vowpal Wabbit"),
    ],
)  # fmt: skip
def test_what_stands_above_is_named(text, message, write):
    path = write(text)
    for ask in (read, open_table):
        with refused(match=rf"t\.csv{message}"):
            ask(path)


@pytest.mark.parametrize(
    "text",
    [
        "ash,wet,low\noak,dry,high\nash,dry,low\noak,wet,low\n",
        "Kim,ash,wet\nLee,oak,dry\nAda,oak,wet\nBob,ash,dry\n",  # the first cell is no other's
        f"{'so fine a day ' * 11},good\nrain again,bad\nsun at last,good\nfog,bad\n",
    ],
)
def test_a_first_row_of_words_is_no_header(text, write):
    path = write(text)
    for ask in (read, open_table):
        with refused(match="line 1: the first line must name the columns; it looks like a row"):
            ask(path)
    assert len(frame_of(path, header=False)[1]) == 4
    assert len(frame_of(path, header=True)[1]) == 3


@pytest.mark.parametrize(
    "text",
    [
        "tree,soil\nash,wet\ntree,soil\noak,dry\n",  # two files, one after the other
        "ash,oak,elm\nash,,elm\n,oak,\nash,,\n",  # choices that were ticked
        "name,type\nname,text\nage,number\n",  # of which only one stands below itself
        "0,1\n0,1\n1,0\n1,1\n",
        "2020 sales|net income\n1|2\n3|4\n",
    ],
)
def test_headers_that_stand_below_themselves(text, write):
    names, frame = frame_of(write(text))
    lines = text.splitlines()
    assert names == lines[0].replace("|", ",").split(",")
    assert len(frame) == len(lines) - 1


def test_the_separator_that_a_spreadsheet_says(write):
    path = write("\ufeffsep=;\r\na;b\r\n1,5;2\r\n2,5;3\r\n")
    names, frame = frame_of(path)
    assert (names, frame.rows()) == (["a", "b"], [("1,5", "2"), ("2,5", "3")])
    assert first(path).numbers == range(3, 5)
    names, frame = frame_of(write("sep=|\n1|2\n3|4\n"), names=["a", "b"])
    assert (names, len(frame)) == (["a", "b"], 2)


def test_names_that_do_not_fit(write, tmp_path):
    path = write("1,2\n3,4\n")
    with refused(match="line 1: 2 cells, where 3 names are given"):
        open_table(path, names=["a", "b", "c"])
    with refused(match="names must be names of which none stands twice; got \"'a' at 1 and 3\""):
        open_table(path, names=["a", "b", "a"])
    assert frame_of(write("a,b\n1,2\n"), header=True, names=["c", "d"])[0] == ["c", "d"]
    pl.DataFrame({"a": [1.0], "y": [2.0]}).write_parquet(tmp_path / "t")
    for source in (tmp_path / "t", write('{"a": 1}\n', "j"), write("1 1:2\n", "l"), {"a": [1]}):
        with refused(match="names are for CSV; this is .*, which has names of its own"):
            open_table(source, names=["a", "b"])
    with refused(match="header are for CSV"):
        read(tmp_path / "t", header=True)


def test_arff(write, tmp_path, monkeypatch):
    text = (
        "% plants\n@RELATION plants\n@attribute height numeric\n"
        "@attribute kind {tree,bush}\n"
        "@attribute day date 'yyyy-MM-dd'\n@DATA\n1.5,tree,2024-01-02\n?,bush,2024-01-03\n"
        "2.5,?,2024-01-04\n"
    )
    day = [datetime.datetime(2024, 1, d) for d in (2, 3, 4)]
    path = write(text, "plants.data")
    names, frame = frame_of(path)
    assert names == ["height", "kind", "day"]
    assert frame["day"].to_list() == day
    assert frame["kind"].to_list() == ["tree", "bush", "?"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(text.encode()))))
    assert frame_of("-")[1].equals(frame, null_equal=True)
    table = read(path, target="height", task="regression")
    assert table.y.tolist() == [1.5, 2.5]
    for wrong in ("@relation a\n@attribute b string\n@data\nx\n", "@relation a\n@attribute b\n"):
        with refused(match=r"plants\.data: is ARFF that SciPy cannot read"):
            open_table(write(wrong, "plants.data"))


@pytest.mark.parametrize("of", ["csv", "ndjson", "parquet", "frame"])
def test_words_for_what_is_missing(of, tmp_path):
    frame = pl.DataFrame({
        "a": ["1.5", "None", "2.5", "-", "3"], "b": ["x", "y", "-", "x", "none"],
        "c": [1.0, -999.0, 3.0, 4.0, 5.0], "y": [1.0, 2.0, 4.0, 8.0, 5.5],
    })  # fmt: skip
    path = tmp_path / "t"
    if of == "frame":
        path = frame
    else:
        getattr(frame, f"write_{of}")(path)
    how = {"missing": ["None", "-", "-999"]}
    if of == "csv":
        how["missing"].append("-999.0")
    chunk = first(path, **how)
    columns = Columns.decide(chunk, "y")
    assert columns.features == ("a", "a is missing", "b=x", "b=y", "b=?", "c", "c is missing")
    wanted = [[0, 1, 0, 1, 0], [0, 0, 1, 0, 1], [0, 1, 0, 0, 0]]
    X, _ = columns.encode(chunk, columns.init())
    assert_array_equal(X[:, [1, 4, 6]].T, wanted)
    assert_array_equal(read(path, "y", **how).X, X)
    # they are of the columns: a later table need not say so again
    again = Columns.from_json(columns.to_json())
    assert again == columns
    assert_array_equal(again.encode(first(path), columns.init())[0], X)
    assert "is missing" not in Columns.decide(first(path), "y").features


def test_rows_by_name():
    frame = pd.DataFrame({"a": [1.5, np.nan, 3.0], "kind": ["x", "y", None], "n": [1, 2, 3]})
    wanted = [(1.5, "x", 1.0), (None, "y", 2.0), (3.0, None, 3.0)]

    def cells(source):
        frame = frame_of(source)[1].with_columns(pl.col("a").cast(float).fill_nan(None))
        return frame.select("a", "kind", pl.col("n").cast(float)).rows()

    for i, row in enumerate(frame.itertuples()):
        assert cells(row) == cells(frame.iloc[i]) == cells(row._asdict()) == wanted[i : i + 1]
    assert cells(frame.itertuples()) == cells(frame.iterrows()) == wanted
    assert cells([*frame.itertuples(index=False)]) == wanted
    assert cells(frame.to_dict("records")) == wanted
    assert (
        cells(pl.DataFrame({"a": [1.5], "kind": ["x"], "n": [1]}).row(0, named=True)) == wanted[:1]
    )
    assert cells(frame.set_index("n", drop=False).loc[2]) == wanted[1:2]
    for wrong in (3, [1, 2], [], {1, 2}, (1.5, "x")):
        with pytest.raises(ValueError, match=f"rows by name; got {type(wrong).__name__}$"):
            open_table(wrong)
    with pytest.raises(FileNotFoundError, match="'nowhere'"):
        open_table("nowhere")


@pytest.mark.parametrize("size", [131_073, 400_000])
def test_long_cells(size, write):
    long = "x" * size
    _, frame = frame_of(write(f'a,b\n"{long}",1\n"{long},\n{long}",2\n'))
    assert frame["a"].to_list() == [long, f"{long},\n{long}"]
    # also in the first line, whether it is a row or a header
    rows = write(f'{long},1\n"{long}",2\n')
    assert frame_of(rows, header=False)[1]["column_1"].to_list() == [long, long]
    with refused(match="the first line must name the columns; it looks like a row"):
        open_table(write(f"{long},1\n{long},2\n"))
    assert frame_of(write(f"{long},b\n3,1\n"))[1].columns == [long, "b"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("start", ["a,b\n1,", "1 1:", '{"a": "', '"'])
def test_a_line_without_an_end(pack, start, write, monkeypatch):
    data = pack(start.encode() + b"2" * (3 * 2**20))
    path = write(data, "t")
    number = 1 + start.count("\n")
    for source in (path, "-"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with refused(match=rf"line {number}: is longer than 2 MiB \(--longest-line allows more\)"):
            first(source, longest_line=2)
    with refused(match=r"longest_line must be a number of MiB above 0; got 0"):
        open_table(path, longest_line=0)


@pytest.mark.slow
def test_no_command_takes_a_line_of_more_than_64_mib(write, capsys):
    path = str(write(gzip.compress(b"a,b\n1," + b"2" * (66 << 20) + b"\n3,4\n", 1), "t.gz"))
    for line in (["run", path], ["select", path, "--num", "1"], ["ask", path, "--jsonl"]):
        assert main(line) == 2
        assert "line 2: is longer than 64 MiB (--longest-line" in capsys.readouterr().err


def test_a_quote_without_an_end_does_not_take_all(write):
    path = write('a,b\n1,"' + "2,3\n" * 2**19 + '"\n')
    with refused(
        match="line 2: a cell is longer than a line may be; is a quote not closed before"
    ):
        first(path, longest_line=1)


def test_a_loop_of_links(tmp_path):
    os.symlink(tmp_path / "loop", tmp_path / "loop")
    for ask in (read, open_table):
        with pytest.raises(OSError, match="symbolic links"):
            ask(Path(tmp_path, "loop"))


CELL = st.sampled_from(["1", "2.5", "-3", "1e3", "+4", ".5", "7", "8", "9"])
ODD = st.sampled_from(
    ["", "NA", "1,5", "5%", "$3", "x", "inf", "1 234", "True", "2024-01-01", " 6"]
)


@settings(max_examples=40, deadline=None)
@given(
    columns=st.lists(
        st.lists(CELL, min_size=4, max_size=4).flatmap(
            lambda cells: st.builds(lambda odd, at: [*cells[:at], odd, *cells[at:]], ODD | CELL,
                                    st.integers(0, 4))
        ),
        min_size=1,
        max_size=4,
    )
)  # fmt: skip
def test_many_columns_at_once_are_what_each_is(columns):
    """Columns that are decided and read together become what they become one by one."""
    frame = pl.DataFrame({f"c{i}": cells for i, cells in enumerate(columns)})
    chunk = Chunk(frame, "row", range(1, 6), "t")
    with suppress(ValueError):
        found = Columns.decide(chunk, supervised=False)
        for kind in found.kinds:
            one = kind_of(chunk.column(kind.name, chunk.has_decimal_commas))
            assert one.kind == kind
        X, _ = found.encode(chunk, found.init())
        parts = [kind.encode(chunk.column(kind.name)) for kind in found.kinds]
        wanted = np.concatenate(parts, axis=1)
        known = ~np.isnan(wanted)
        assert_array_equal(X[known], wanted[known])


@pytest.mark.slow
@pytest.mark.parametrize("odd", long([200], [0, 200]))
def test_wide_tables_take_time_by_their_columns(odd, write):
    """Twenty thousand columns, of which some are no plain numbers."""
    D = 20_000
    rows = np.random.default_rng(0).normal(size=(3, D)).round(3).astype(str)
    rows[:, :odd] = [["u"], ["v"], ["5%"]]
    names = [f"c{i}" for i in range(D)]
    text = "\n".join(",".join(row) for row in (names, *rows))
    began = time.process_time()
    chunk = first(write(text))
    columns = Columns.decide(chunk, supervised=False)
    X, _ = columns.inputs(chunk, columns.init())
    again = Columns.from_json(columns.to_json())
    assert not columns.unseen(chunk, X).any()
    assert again.names == columns.names == tuple(names)
    assert time.process_time() - began < 15  # finding equal names alone took 4
