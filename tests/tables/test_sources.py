"""Tables from anywhere: one table in every format is one table, and bad files are refused."""

import bz2
import datetime
import gzip
import io
import json
import lzma
import sys
from contextlib import closing
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.datasets
from mixed_frame import mixed_frame
from numpy.testing import assert_array_equal
from polars.testing import assert_frame_equal

from jaxmkl import tables
from jaxmkl.tables import open_table
from jaxmkl.tables._bytes import zstd
from jaxmkl.tables.source import joined

N = 2500
DRAWS = np.random.default_rng(0)
FRAME = mixed_frame(DRAWS, N, "kind, or not", ["tree", 'a "bush"', "moss"])
SHRUNK = {".gz": partial(gzip.compress, mtime=0), ".bz2": bz2.compress, ".xz": lzma.compress}
SHRUNK[".zst"] = zstd("t").compress


def text_of(frame, **options):
    return frame.write_csv(**options).encode()


def contents():
    """The table as bytes, by the name of a file."""
    found = {"t.csv": text_of(FRAME), "t.tsv": text_of(FRAME, separator="\t")}
    found["bom.csv"] = b"\xef\xbb\xbf" + text_of(FRAME, separator=";")
    found["pipes.txt"] = text_of(FRAME, separator="|").replace(b"\n", b"\r\n")
    found["quoted.csv"] = text_of(FRAME, quote_style="always")
    commas = pl.col("size", "y").cast(pl.String).str.replace(".", ",", literal=True)
    found["commas.csv"] = text_of(FRAME.with_columns(commas), separator=";")
    found["t.ndjson"] = FRAME.write_ndjson().encode()
    for name, write in (("t.parquet", FRAME.write_parquet), ("t.arrow", FRAME.write_ipc)):
        write(file := io.BytesIO())
        found[name] = file.getvalue()
    FRAME.write_ipc_stream(file := io.BytesIO())
    found["stream.arrow"] = file.getvalue()
    compressed = {f"t.csv{end}": pack(found["t.csv"]) for end, pack in SHRUNK.items()}
    return found | compressed | {"t.ndjson.gz": gzip.compress(found["t.ndjson"])}


CONTENTS = contents()


@pytest.fixture(scope="module")
def expected():
    return tables.read(FRAME)


def assert_same(table, expected):
    assert_array_equal(table.X, expected.X)
    assert_array_equal(table.y, expected.y)
    assert table.feature_names == expected.feature_names


@pytest.mark.parametrize("name", CONTENTS)
def test_one_table_in_many_formats(name, tmp_path, monkeypatch, expected):
    path = tmp_path / name
    path.write_bytes(CONTENTS[name])
    assert_same(tables.read(path), expected)
    # through a pipe
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONTENTS[name])))
    assert_same(tables.read("-"), expected)
    # in chunks
    table = open_table(path)
    lengths, shares = [], []
    for chunk in table.chunks(1000):
        lengths.append(len(chunk.frame))
        shares.append(table.share_read())
    table.close()
    assert sum(lengths) == N
    assert max(lengths) <= 1000
    assert shares == sorted(shares)
    assert 0 < shares[0] <= shares[-1] == 1


def of_pandas():
    return pd.DataFrame(FRAME.to_dict(as_series=False))


FRAMES = {
    "polars": lambda: FRAME,
    "lazy": FRAME.lazy,
    "arrow": FRAME.to_arrow,
    "columns by name": lambda: FRAME.to_dict(as_series=False),
    "pandas": lambda: of_pandas().astype({"day": "datetime64[us]", "kind, or not": "category"}),
    "pandas, nullable": lambda: of_pandas().convert_dtypes(dtype_backend="numpy_nullable"),
    "pandas, arrow": lambda: FRAME.to_pandas(use_pyarrow_extension_array=True),
}


@pytest.mark.parametrize("of", FRAMES)
def test_data_frames(of, expected):
    assert_same(tables.read(FRAMES[of]()), expected)


UNUSABLE = [
    (pd.DataFrame([[1, 2, 3]], columns=["a", "a", "y"]), "the DataFrame: .*more than one occur"),
    (pd.DataFrame([[1, 2, 3]], columns=[1, "1", "y"]), "the DataFrame: .*more than one occur"),
    (pd.DataFrame({"a": [datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 2)]}), "Datetime"),
    ({"a": [1, 2], "b": [1]}, "the dict: .*height of column 'b'"),
    ({"a": [1, "x"]}, "the dict: .*found value of type String"),
]


@pytest.mark.parametrize(("source", "said"), UNUSABLE)
def test_data_frames_that_are_no_tables(source, said):
    with pytest.raises(ValueError, match=said):
        open_table(source)


def test_arrays_as_tables(tmp_path):
    X, y = sklearn.datasets.load_iris(return_X_y=True)
    sklearn.datasets.dump_svmlight_file(X, y, str(tmp_path / "iris.svm"))
    np.savez(tmp_path / "iris.npz", X=X, y=np.array(["a", "b", "c"])[y])
    with closing(open_table(tmp_path / "iris.svm")) as table:
        svm = next(table.chunks(200)).frame
    npz = next(open_table(tmp_path / "iris.npz").chunks(200)).frame
    assert svm.columns == ["0", "1", "2", "3", "label"]
    assert_array_equal(svm.to_numpy(), np.c_[X, y])
    assert_array_equal(npz["y"], np.array(["a", "b", "c"])[y])
    assert_frame_equal(npz[:, :4], pl.DataFrame(X, ["x0", "x1", "x2", "x3"]))


BAD = [
    ("t.csv.gz", gzip.compress(b"", mtime=0), r"t\.csv\.gz: is empty"),
    ("t.ndjson", b'{"a": "\\ud83d", "b": 2}\n', r"line 1: '\\ud83d' is half of a surrogate pair"),
    ("t.ndjson", b'{"a": 1, "b": 2}\n{"a": 1,\n', r"t\.ndjson, line 2: is no JSON object: "),
    ("t.ndjson", b'{"a": 1, "b": 2}\n\n[1]\n', r"t\.ndjson, line 3: one JSON object a line"),
    ("t.ndjson", b'{"a": 1, "b": [2]}\n', r"t\.ndjson, line 1, column 'b': a number or text"),
    ("t.json", b'[{"a": 1}]', r"t\.json: is one JSON array; one object a line"),
    ("t.parquet", b"PAR1 and no more", r"t\.parquet: is a damaged Parquet file"),
    ("t.arrow", b"ARROW1 and no more", r"t\.arrow: is a damaged Arrow file"),
    *((f"t.csv{end}", CONTENTS[f"t.csv{end}"][:-500], r"t\.csv.*is damaged: ") for end in SHRUNK),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), BAD)
def test_files_that_are_refused(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        tables.read(path)


def test_other_things_that_are_refused():
    with pytest.raises(ValueError, match=r"a table must be the path of a file, .*; got int"):
        open_table(3)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        open_table("nowhere.csv")


def test_lines_are_counted_as_an_editor_does(tmp_path):
    rows = [f'{i},"two\nlines",{i * 0.5}' for i in range(3000)]
    (tmp_path / "t.csv").write_text("a,b,y\n\n" + "\n".join(rows) + "\nx,z,1\n")
    with closing(open_table(tmp_path / "t.csv")) as table:
        chunks = list(table.chunks(1000))
    assert [chunk.numbers[0] for chunk in chunks] == [3, 2003, 4003, 6003]
    columns = tables.Columns.decide(chunks[0], as_={"a": "number"})
    with pytest.raises(ValueError, match="line 6003, column 'a': 'x' is not a number"):
        columns.encode(chunks[3], columns.init())


def test_objects_that_lack_a_name_or_have_another(tmp_path):
    rows = [{"a": i, "y": i % 2} for i in range(1200)] + [{"y": 1, "z": 5}, {"a": "x", "y": 0}]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with closing(open_table(tmp_path / "t.jsonl")) as table:
        chunks = list(table.chunks(1200))
    assert chunks[1].frame.columns == ["a", "y", "z"]
    assert chunks[1].frame["a"].to_list() == [None, "x"]
    columns = tables.Columns.decide(chunks[0], as_={"a": "number"})
    with pytest.raises(ValueError, match="line 1202, column 'a': 'x' is not a number"):
        columns.encode(chunks[1], columns.init())


def test_names_that_come_late_are_columns_of_all_rows(tmp_path):
    rows = [
        {"a": i % 7, "y": i * 0.5} | ({"late": i % 5} if i > 1100 else {}) for i in range(1300)
    ]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = tables.read(tmp_path / "t.jsonl", target="y")
    same = tables.read(pl.DataFrame(rows, infer_schema_length=None), target="y")
    assert found.feature_names == same.feature_names == ("a", "late", "late is missing")
    assert_array_equal(found.X, same.X)


@pytest.mark.parametrize("cells", [[[i] for i in range(9)], [{"q": i} for i in range(9)]])
def test_nested_targets_are_refused(cells):
    frame = pl.DataFrame({"a": range(9), "t": cells})
    with pytest.raises(ValueError, match="column 't': a number or text is wanted; got a list or"):
        tables.read(frame, target="t")


def test_targets_of_bytes_are_refused():
    frame = pl.DataFrame({"a": range(9), "t": [b"u", b"v", b"w"] * 3})
    with pytest.raises(ValueError, match="row 1, column 't': a number or text is wanted; got byt"):
        tables.read(frame, target="t")


def test_durations_are_named_seconds():
    spans = [datetime.timedelta(minutes=i * i) for i in range(9)]
    notes = tables.read(pl.DataFrame({"a": spans, "t": spans[::-1]}), target="t").notes
    assert notes[1:] == ("the target: numbers, in seconds", "column 'a': numbers, in seconds")


@pytest.mark.parametrize(
    ("given", "classes"),
    [(["True", "true", "FALSE"], ("false", "true")), (["Yes", "Yes", "No"], ("No", "Yes"))],
)
def test_truth_values_of_a_target_may_be_in_any_case(given, classes):
    rows = next(open_table({"a": [1, 2, 4], "y": given}).chunks(3))
    columns = tables.Columns.decide(rows)
    assert columns.classes == classes
    for words in (given, [word.upper() for word in given], [word.lower() for word in given]):
        assert columns.targets(next(open_table({"y": words}).chunks(3))).tolist() == [1, 1, -1]


def test_rows_beside_one_with_a_list_are_read(tmp_path):
    rows = [{"a": i / 7, "kind": "uv"[i % 2], "y": i % 3 / 2} for i in range(40)]
    lists = {30: {"a": [1, 2]}, 33: {"kind": {"of": "u"}}, 36: {"y": [0]}}
    given = [row | lists.get(i, {}) for i, row in enumerate(rows)]
    path = tmp_path / "t.ndjson"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in given))
    with closing(open_table(path)) as table:
        chunk = next(table.chunks(40))
    columns = tables.Columns.decide(chunk.take(range(30)), "y")
    kept = chunk.take([i for i in range(40) if i not in lists])
    X, _ = columns.inputs(kept, columns.init())
    good = tables.Columns.decide(plain := next(open_table(rows).chunks(40)), "y")
    assert good.features == columns.features
    wanted = plain.take([i for i in range(40) if i not in lists])
    assert_array_equal(X, columns.inputs(wanted, columns.init())[0])
    assert_array_equal(columns.targets(kept), columns.targets(wanted))


def test_truth_values_are_the_same_words_with_and_without_others_beside_them(tmp_path):
    given = [True, "maybe", False, True]
    path = tmp_path / "t.ndjson"
    path.write_text("".join(f'{{"a": {json.dumps(a)}, "y": {i}}}\n' for i, a in enumerate(given)))
    with closing(open_table(path)) as table:
        first, then = table.chunks(2)
    columns = tables.Columns.decide(first, "y")
    assert columns.features == ("a=maybe", "a=true")
    assert_array_equal(columns.encode(then, columns.init())[0], [[0, 0], [0, 1]])


def test_nested_columns_are_left_out_or_refused_where_they_are_used(tmp_path):
    rows = [{"a": i % 7, "tags": ["x", {"k": i}], "y": i % 2} for i in range(1200)]
    rows += [{"a": [1], "y": 0}, {"a": 3, "tags": "x", "y": 1}]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows[:1200]))
    for drop, why in (((), "holds lists or objects, neither numbers nor text: left out"),
                      (("tags",), "left out, as asked")):  # fmt: skip
        data = tables.read(path, drop=drop)
        assert data.feature_names == ("a",)
        assert data.X[:, 0].tolist() == [i % 7 for i in range(1200)]
        assert f"column 'tags' {why}" in data.notes
    for options in ({"as_": {"tags": "text"}}, {"target": "tags"}):
        with pytest.raises(ValueError, match="line 1, column 'tags': a number or text is wanted;"):
            tables.read(path, **options)

    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with closing(open_table(path)) as table:
        chunks = list(table.chunks(1000))
    columns = tables.Columns.decide(chunks[0])
    with pytest.raises(ValueError, match="line 1201, column 'a': a number or text is wanted"):
        columns.encode(chunks[1], columns.init())
    # in all of the rows some tags are text: of two kinds, so refused unless they are not looked at
    with pytest.raises(ValueError, match="line 1, column 'tags': a number or text is wanted"):
        tables.read(path, drop=["a"])
    with closing(open_table(path)) as table:
        whole = joined(table, 500)
    assert whole.frame["tags"][1201] == "x"
    assert whole.frame["a"][1200] == [1]
