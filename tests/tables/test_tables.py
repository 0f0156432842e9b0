"""jaxmkl.tables against the csv module, SciPy and tables worked out by hand."""

import csv
import functools
import io
import json
import math
import string
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from jaxmkl import tables
from jaxmkl.tables import _kinds, _table, _words, read

quick = settings(max_examples=40, deadline=None)
SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=6)
FLOATS = st.floats(-1e300, 1e300)


def saved(folder, name, content=None, **arrays):
    """The path of a file made of text, bytes or arrays."""
    path = Path(folder, name)
    if arrays:
        np.savez(path, **arrays)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def write(tmp_path):
    return functools.partial(saved, tmp_path)


def read_from(name, content=None, task=None, **arrays):
    """Read a file, for tests whose examples hypothesis makes."""
    with tempfile.TemporaryDirectory() as folder:
        return read(saved(folder, name, content, **arrays), task=task)


def expect(table, **fields):
    """Compare some fields of a table; all the ``notes`` named must be there."""
    for name, value in fields.items():
        if name == "notes":
            assert {*value} <= {*table.notes}
        elif name in ("X", "y"):
            assert_array_equal(getattr(table, name), value)
        else:
            assert getattr(table, name) == value


def parts(csr):
    """The arrays of a CSR matrix as an npz file has them."""
    arrays = {name: getattr(csr, name) for name in ("data", "indices", "indptr")}
    return arrays | {"shape": np.array(csr.shape)}


def csv_text(rows, **style):
    """Rows as the csv module writes them."""
    file = io.StringIO()
    csv.writer(file, **style).writerows(rows)
    return file.getvalue()


def refusal(path, **options):
    """The message with which a file is refused; it begins with the file's path."""
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read(path, **options)
    message = str(error.value)
    assert message.startswith(str(path)), message
    return message.removeprefix(str(path))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff", "\n\n"])
def test_separators_newlines_and_byte_order_marks(write, separator, newline, start):
    lines = ["a|b|class", '1| "x,;\ty"| no', '2|"say ""hi"""|yes', "", "3|z|no", ""]
    table = read(write("t.data", start + newline.join(lines).replace("|", separator)))
    X = [[1, 0, 1, 0], [2, 1, 0, 0], [3, 0, 0, 1]]
    expect(table, feature_names=("a", 'b=say "hi"', "b=x,;\ty", "b=z"), X=X)
    expect(table, y=[-1, 1, -1], classes=("no", "yes"))


@pytest.mark.parametrize("missing", ["", " ", "NA", "na", "N/A", "NaN", "nan", "?", "null", '""'])
def test_missing_cells(write, missing):
    path = write("t.csv", f"a,b,y\n1,u,1\n{missing},v,2\n7,{missing},3\n4,u,4.5\n9,u,{missing}\n")
    table = read(path)
    names = ("a", "a is missing", "b=u", "b=v", "b=?")
    expect(table, feature_names=names, y=[1, 2, 3, 4.5])
    # filled by the mean of those before
    expect(table, X=[[1, 0, 1, 0, 0], [1, 1, 0, 1, 0], [7, 0, 0, 0, 1], [4, 0, 1, 0, 0]])
    notes = "\n".join(table.notes)
    assert "1 row without a target dropped (line 6)" in notes
    assert "column 'a': numbers, missing cells become the mean so far, an input tells" in notes
    assert "column 'b' holds words: one 0/1 input for each of its 3 values, of which ?" in notes


def test_small_tables(write):
    def small(text, names, X, *notes):
        table = read(write("t.csv", "\n".join(text.split("|"))))
        expect(table, feature_names=tuple(names.split("|")), X=X, notes=notes)
        return table

    X = [[1, 0, 1, 2], [3, 1, 0, 4], [5, 0, 1, 6]]
    names = "a|colour=blue|colour=red|b"
    table = small("a,colour,b,y|1,red,2,0.5|3,blue,4,1.5|5,red,6,2.25", names, X)
    expect(table, y=[0.5, 1.5, 2.25], task="regression", classes=(), target="y")
    assert table.X.dtype == table.y.dtype == np.float64
    # the header has as many commas as semicolons: the rows decide
    table = small("x, m;z, m;class|1;2;3|2;3;5|4;1;9", "x, m|z, m", [[1, 2], [2, 3], [4, 1]])
    expect(table, y=[3, 5, 9])
    # means are those of the rows kept
    dropped = "2 rows without a target dropped (line 6, 7)"
    X = [[1, 0], [2, 0], [1.5, 1], [10, 0]]
    small("a,y|1,1|2,2|,3|10,4.5|1000,|1000,NA", "a|a is missing", X, dropped)
    left = "column 'b' has no value in the first rows: left out"
    small("a,b,,y|1,,,1|2,NA,,2|3,?,,4.5", "a", [[1], [2], [3]], left)
    left = "column 'b' is '5' in all of the first rows: left out"
    small("a,b,y|1,5,1|2,5,2|3,5,4.5", "a", [[1], [2], [3]], left)
    # only later rows show that the column is text
    small("a,y|1,1|2,2|1,3|x,4|?,5.5", "a=1|a=2|a=x|a=?", np.eye(4)[[0, 1, 0, 2, 3]])
    # quotes inside a cell, and behind a space
    small("""a,y|5'11"x,1| "b, ""c""\",2|d,3""", """a=5'11"x|a=b, "c"|a=d""", np.eye(3)[[0, 1, 2]])


def test_many_rows(write):
    rows = [(str(i % 7), "ab?"[i % 3], "", '"v, ""w""\n"', str(i * 0.5)) for i in range(20_000)]
    table = read(write("t.csv", "a,b,c,d,y\n" + "\n".join(map(",".join, rows)) + "\n"))
    assert table.feature_names == ("a", "b=a", "b=b", "b=?")
    assert_array_equal(table.X[:, 0], np.arange(20_000) % 7)
    assert_array_equal(table.X[:, 1:4].argmax(axis=1), np.arange(20_000) % 3)
    assert_array_equal(table.y, np.arange(20_000) * 0.5)


LETTERS = st.text(string.ascii_letters + ' _-"é', min_size=1, max_size=6)
NAMES = st.lists(LETTERS.map(str.strip).filter(bool), min_size=2, max_size=5, unique=True)


@pytest.mark.slow
@quick
@given(NAMES, st.sampled_from(",;\t"), st.sampled_from([0, 1]), st.data())
def test_numbers_come_back_from_csv(names, separator, quoting, X):
    assume(not any(n.casefold() in _words.MISSING | set(_words.TARGET_NAMES) for n in names))
    assume(not any(math.isfinite(float(n)) for n in names if n.isdecimal()))
    shape = st.tuples(st.integers(3, 8), st.just(len(names)))
    table = X.draw(hnp.arrays(np.float64, shape, elements=FLOATS))
    varied = (table[:, :-1] != table[0, :-1]).any(axis=0)
    assume(varied.any() and len(np.unique(table[:, -1])) > 2)
    rows = [names, *table.tolist()]
    result = read_from("t.csv", csv_text(rows, delimiter=separator, quoting=quoting))
    assert_array_equal(result.X, table[:, :-1][:, varied])
    assert_array_equal(result.y, table[:, -1])
    assert result.feature_names == tuple(np.array(names[:-1])[varied])
    assert result.target == names[-1]


WORDS = st.text(string.ascii_letters + " ,;\t\"'=é", min_size=1, max_size=5).map(str.strip)


@pytest.mark.slow
@quick
@given(cells=st.lists(WORDS.filter(lambda w: w.casefold() not in _words.MISSING), min_size=3))
def test_text_comes_back_from_csv(cells):
    assume(not any(cell.casefold() in ("inf", "infinity") for cell in cells))
    assume(len(set(cells)) > 1)
    assume({cell.casefold() for cell in cells} not in map(set, _kinds.FALSE_TRUE))
    rows = [(cell, number + 0.5) for number, cell in enumerate(cells)]
    result = read_from("t.csv", csv_text([("word", "y"), *rows]))
    assert (result.X.sum(axis=1) == 1).all()
    read_back = [result.feature_names[hot] for hot in result.X.argmax(axis=1)]
    assert read_back == [f"word={cell}" for cell in cells]


@pytest.mark.parametrize("case", ["a,b,c:c", "0,1,2:2", "1,2,3:3", "a,b,:column_3"])
def test_the_last_column_is_the_target(write, case):
    header, target = case.split(":")
    table = read(write("t.csv", f"{header}\n1,2,3\n2,3,5\n4,1,9\n"))
    expect(table, target=target, y=[3, 5, 9], notes=[f"the target is the last column, {target!r}"])


@pytest.mark.parametrize("header", ["[Target],b,y", "a,[Y],label", "[CLASS],b,c", "20,30,[class]"])
def test_the_target_by_its_name(write, header):
    target = header.partition("[")[2].partition("]")[0]
    table = read(write("t.csv", f"{header.translate({91: '', 93: ''})}\n1,2,3\n2,3,5\n4,1,9\n"))
    expect(table, target=target, notes=[f"the target is the column {target!r}, by its name"])
    assert table.y[0] == header.split(",").index(f"[{target}]") + 1


@pytest.mark.parametrize(
    ("cells", "task", "classes", "y"),
    [
        ("0 1 1", "classification", ("0", "1"), [-1, 1, 1]),
        ("+1 -1 1", "classification", ("-1", "1"), [1, -1, 1]),
        ("2.0 1 2", "classification", ("1", "2"), [1, -1, 1]),
        ("True False True", "classification", ("False", "True"), [1, -1, 1]),
        ("spam ham spam", "classification", ("ham", "spam"), [1, -1, 1]),
        ("b c a", "multiclass", ("a", "b", "c"), [1, 2, 0]),
        ("0 1 2", "regression", (), [0, 1, 2]),
        ("1e3 -2.5 .5", "regression", (), [1000, -2.5, 0.5]),
    ],
)
def test_task_by_target(write, cells, task, classes, y):
    rows = "\n".join(f"{i},{cell}" for i, cell in enumerate(cells.split()))
    table = read(write("t.csv", f"a,y\n{rows}\n"))
    expect(table, task=task, classes=classes, y=y)
    assert table.y.dtype == (np.int16 if task == "multiclass" else np.float64)


def test_target_and_task_as_asked(write):
    path = write("t.csv", "a,b,y\n1,2,3\n2,3,5\n4,1,9\n")
    table = read(path, target="b")
    expect(table, y=[2, 3, 1], X=[[1, 3], [2, 5], [4, 9]])
    assert not any("target is" in note for note in table.notes)
    assert refusal(path, target="B") == ": has no column 'B'; its columns are 'a', 'b', 'y'"

    path = write("t.csv", "a,y\n1,10\n2,9\n3,10\n4,11\n")
    assert "3 distinct whole numbers" in read(path).notes[1]
    expect(read(path, task="multiclass"), classes=("9", "10", "11"), y=[1, 0, 1, 2])
    assert not any("whole numbers" in note for note in read(path, task="regression").notes)
    assert "two distinct values; got 3: '9', '10', '11'" in refusal(path, task="classification")

    two = write("two.csv", "a,y\n1,10\n2,9\n3,10\n")
    expect(read(two, task="regression"), y=[10, 9, 10])
    expect(read(two, task="multiclass"), y=[1, 0, 1])
    text = write("text.csv", "a,y\n1,u\n2,v\n3,u\n")
    message = ", line 2, column 'y': regression needs numbers; got 'u'"
    assert refusal(text, task="regression") == message
    with pytest.raises(ValueError, match=r"task must be one of regression, .*; got 'binary'"):
        read(path, task="binary")


SLIP = "a,b\n\n" + "0,1\n" * 13 + "13,{}\n" + "1,0\n" * 6
LINES = 'a,b,y\n"two\nlines",1,1\n"and\r\nthree\nmore",2,2\nx,,3\ny,4,5,6\n'


OPEN = ", line 3: the row has a quote that is not closed; close it"
CLOSED = ", line 3: the row has a quote that is closed in line 3, inside a cell"
NOT_UTF_8 = ", line 1: is not text in UTF-8; save it as UTF-8 (of utf-16: iconv -f utf-16"
REFUSED = [
    ("", ": is empty"),
    ("\ufeff \n\n", ": is empty"),
    ("a,b\n", ", line 1: a header and no rows below it"),
    ("a,b\n1,\n2,NA\n", ", column 'b': no row has a target"),
    ("a,b,a\n1,2,3\n", ", line 1, column 'a': the name stands twice, at columns 1 and 3; rename"),
    ("a,b\n1,2\n1,2,3\n", ", line 3: 3 cells where the header has 2 columns; mend"),
    ("a,b,c\n1,2,3\n\n1\n", ", line 4: 1 cell where the header has 3 columns"),
    ("a,b\n1,2\n2,inf\n3,4", ", line 3, column 'b': 'inf' is not finite"),
    ("a,b\n1,2\n-1e999,1\n3,4", ", line 3, column 'a': '-1e999' is not finite"),
    ("a,b\n1,2\n2,2\n", ", column 'b': the target is '2' in every row looked at (2); nothing"),
    ("a,b\n1,u\n", ", column 'b': the target is 'u' in every row looked at (1); nothing to learn"),
    ('a,b\n1,2\n3,"4\n5,6\n', OPEN),
    ('a,b\n1,2\n3,"4"5\n', CLOSED),
    ('a,b\n1,2\n"3,4\n5,6\n7,"8\n', CLOSED.replace("in line 3", "in line 5")),
    ('a,b\n1,2\n3,"' + "4\n" * 70_000, OPEN),
    ("5.1,3.5,setosa\n4,3,setosa", ", line 1: the first line must name the columns"),
    ("3,7,1\n4,9,0\n", ", line 1: the first line must name the columns"),
    ("a b\n1 2\n", ", line 1: columns must be separated by commas, semicolons, tabs or |; got"),
    ("y,b\n1,\n2,\n", ": has no inputs"),
    ("a;y\n1,500;1\n2,500;2\n", ", line 2, column 'a': numbers with commas, e.g. '1,500'"),
    (LINES, ", line 8: 4 cells"),  # as an editor counts
    (b"a,b\n" + b"1,2\n" * 5000 + b"\xe9,3\n", ", line 5002: is not text in UTF-8; save it"),
    ("a,b\n1,2\n".encode("utf-16"), NOT_UTF_8),
    ("t.csv.gz", b"\x1f\x8b\x08\x00aaaa", ": is damaged: Compressed file ended"),
    ("t.npz", "a,b\n1,2\n", ": is no npz archive"),
]


@pytest.mark.parametrize("case", REFUSED)
def test_text_that_is_refused(write, case):
    *name, content, message = case
    assert refusal(write(*name or ["t.csv"], content)).startswith(message)


@pytest.mark.parametrize("cell", ["1O9", "1_9", "0x10", "1 2", "١٢", "1\x1f", "1\x00"])
def test_a_slip_in_a_column_of_numbers(write, cell):
    message = f", line 16, column 'b': {cell!r} is not a number, unlike the others;"
    for options in ({}, {"target": "a"}):
        assert refusal(write("t.csv", SLIP.format(cell)), **options).startswith(message)


def test_tables_without_polars(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    for name in [name for name in sys.modules if name.startswith("jaxmkl.tables.")]:
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delitem(vars(tables), name.rpartition(".")[2], raising=False)
    monkeypatch.delitem(vars(tables), "open_table", raising=False)  # never asked for
    for ask in (lambda: read(write("t.csv", "a,y\n1,2\n2,3\n")), lambda: tables.open_table({})):
        with pytest.raises(ImportError, match=r'are read by polars: pip install "jaxmkl\[cli\]"'):
            ask()


LEARNERS_ALONE = """
import sys, jax, optax, chex
sys.modules.pop("signal", None)  # which others may need
import jaxmkl
rooms = "cli", "command_line", "evaluate", "sklearn", "tables", "_command"
late = {"polars", "sklearn", "scipy.sparse", "signal", *(f"jaxmkl.{room}" for room in rooms)}
print({name for name in sys.modules if name in late})
found = {name: getattr(jaxmkl, name) for name in dir(jaxmkl)}
print(found["tables"].Pipeline is found["Pipeline"], found["evaluate"].__name__)
"""


@pytest.mark.slow
def test_learners_need_nothing_of_the_application():
    """Neither what reads a format, nor the command and its signals; all is there if asked."""
    done = subprocess.run([sys.executable, "-c", LEARNERS_ALONE], capture_output=True, text=True)
    assert done.stdout == "set()\nTrue jaxmkl.evaluate\n", done.stderr


def test_files_that_are_no_tables(tmp_path):
    assert refusal(tmp_path) == ": is a folder; a file is wanted"
    np.save(tmp_path / "t.npy", np.eye(2))
    assert "no npz archive" in refusal(tmp_path / "t.npy")


def test_what_would_be_too_large_is_refused_before_it_is_made(write, monkeypatch):
    monkeypatch.setattr(_table, "MAX_DENSE_BYTES", 2**20)
    path = write("t.svm", "1 1:1\n-1 1000000:1\n")
    message = ": as a dense float64 array its 2 x 1000000 inputs would take 0.0 GiB, more than"
    assert refusal(path).startswith(message)
    X = scipy.sparse.csr_array((np.ones(1, np.float32), ([0], [3])), shape=(2, 10**6))
    assert "2 x 1000000 inputs" in refusal(write("t.npz", y=np.array([0, 1]), **parts(X)))
    rows = "\n".join(f"{i % 7},w{i % 50},{i}.5" for i in range(3600))
    assert "3600 x 51 inputs" in refusal(write("t.csv", f"a,b,c\n{rows}"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ">f4", np.int8, bool, np.float16])
def test_npz_dense(write, dtype):
    X = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    table = read(write("t.npz", X=X, y=np.array([0.5, 1.5, 3.5]), other=np.arange(9)))
    expect(table, X=X, feature_names=("x0", "x1"), target="y")
    is_single = np.dtype(dtype).kind == "f" and np.dtype(dtype).itemsize <= 4
    assert table.X.dtype == table.y.dtype == (np.float32 if is_single else np.float64)


@quick
@given(
    X=hnp.arrays(np.float32, SHAPES, elements=st.just(0.0) | st.floats(-1e6, 1e6, width=32)),
    sparse=st.booleans(),
)
def test_npz_comes_back(X, sparse):
    y = np.arange(len(X), dtype=np.float32)
    arrays = {"X": X}
    if sparse:
        csr = scipy.sparse.csr_array(X)
        arrays = parts(csr)
    result = read_from("t.npz", task="regression", y=y, **arrays)
    assert_array_equal(result.X, X)
    assert_array_equal(result.y, y)
    assert result.X.dtype == np.float32


def test_npz_targets(write):
    X = np.arange(8.0).reshape(4, 2)
    signs = np.array([-1, 1, 1, -1], np.int8)
    whole, text = np.array([0, 1, 2, 1]), np.array(["?", "b", "a", "b"])
    others = {"codes": whole.astype(np.int16), "whole": whole, "text": text}
    column = np.array([[1.5], [np.nan], [2.5], [3.5]])
    path = write("t.npz", X=X, y=signs, column=column, **others)
    table = read(path)
    expect(table, task="classification", classes=("-1", "1"), y=signs)
    assert (table.notes, table.y.dtype) == ((), np.float64)
    codes = read(path, target="codes")
    expect(codes, task="multiclass", classes=("0", "1", "2"), y=[0, 1, 2, 1])
    assert read(path, target="codes", task="regression").task == "regression"
    assert read(path, target="whole").task == "regression"
    text, notes = read(path, target="text"), ["1 row without a target dropped (index 0)"]
    expect(text, task="classification", classes=("a", "b"), y=[1, -1, 1], X=X[1:], notes=notes)
    expect(read(path, target="column"), y=[1.5, 2.5, 3.5], X=X[[0, 2, 3]])
    message = refusal(path, target="z")
    assert message.startswith(": has no target 'z'; its keys are 'X', 'codes', 'column'")
    assert refusal(path, target="X").startswith(": has no target 'X'")


def test_a_zip_archive_of_tables_is_to_be_unpacked(tmp_path):
    with zipfile.ZipFile(path := tmp_path / "t.csv.zip", "w") as archive:
        archive.writestr("t.csv", "a,y\n1,2\n")
    assert refusal(path).endswith("wanted; it is a zip archive of 't.csv': unpack it")


def test_npz_missing_and_infinite_features(write):
    X = np.array([[1, 2], [np.nan, 3], [5, 4]], np.float32)
    table = read(write("t.npz", X=X, y=np.array([1.5, 2, 3])))
    # as in a table
    expect(table, X=[[1, 0, 2], [1, 1, 3], [5, 0, 4]], notes=["numbers as they stand: 'x1'"])
    assert table.X.dtype == np.float32
    assert table.feature_names == ("x0", "x0 is missing", "x1")
    X[2, 1] = -np.inf
    assert refusal(write("t.npz", X=X, y=np.arange(3))) == ": X[2, 1] = -inf is not finite"
    for odd in (np.nan, np.inf):  # gaps in sparse rows are not filled
        rows = parts(scipy.sparse.csr_array([[1.0, 0, 0], [0, 0, odd]]))
        said = refusal(write("t.npz", y=np.arange(2), **rows), sparse=True)
        assert said == f": X[1, 2] = {odd} is not finite"
    message = refusal(write("t.npz", X=np.eye(2), y=np.array([1.0, np.inf])))
    assert message == ": y[1] = inf is not finite"
    message = refusal(write("t.npz", X=np.eye(3, dtype=np.float32), y=np.array([1, 2, 1e300])))
    assert message == ", column 'y': the target has values beyond the range of float32"


CSR = parts(scipy.sparse.csr_array([[1.0, 0, 0], [0, 0, 2]])) | {"y": np.array([0, 1])}
EMPTY = {"data": np.zeros(0), "indices": np.zeros(0, int)}
NOT_CSR = ": data (2,), indices (2,) and indptr (3,) are not the parts of a CSR matrix of shape 2"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # the reason that follows is SciPy's
        ({"indices": np.array([0, 3])}, NOT_CSR),
        ({"indices": np.array([-1, 2])}, NOT_CSR),
        ({"indptr": np.array([0, 3, 2])}, NOT_CSR),
        ({"indptr": np.array([0, 1, 3])}, NOT_CSR),
        ({"indptr": np.array([0, 1, 1])}, NOT_CSR),
        (EMPTY | {"indptr": np.array([0, 1, 0])}, NOT_CSR.replace("(2,)", "(0,)")),
        ({"indptr": np.array([0, 1])}, NOT_CSR.replace("3", "2", 1)),
        ({"indptr": np.array([0, 2, 2]), "indices": np.array([1, 1])}, ": the entry [0, 1] st"),
        ({"shape": np.array([2.0, 3.0])}, ": shape must be two whole numbers"),
        ({"shape": np.array([6])}, ": shape must be two whole numbers"),
        ({"y": np.array([0, 1, 1])}, ": y must have the shape (2,), one target a row of X"),
        ({"data": None}, ": X, or data, indices, indptr and shape, wanted; its keys are"),
        ({"y": None}, ": has no target 'y'; its keys are 'data', 'indices', 'indptr', 'shape'"),
        ({"data": np.array(["a", "b"])}, ": data must hold real numbers; got the dtype <U1"),
        ({"X": np.arange(3.0)}, ": X must have the shape (n, D); got (3,)"),
        ({"X": np.eye(2) * 1j}, ": X must hold real numbers; got the dtype complex128"),
        ({"y": np.array([0, 1], dtype=object)}, ": is damaged, or cannot be read: y"),
    ],
)
def test_npz_that_is_refused(write, changes, message):
    arrays = {key: value for key, value in (CSR | changes).items() if value is not None}
    assert refusal(write("t.npz", **arrays)).startswith(message)


@pytest.mark.data
def test_the_papers_sets_are_what_their_manifest_says(data_dir):
    manifest = json.loads(Path(data_dir, "MANIFEST.json").read_text())["datasets"]
    tasks = {"binary": "classification"}
    for name in ("air", "german", "mushrooms", "naval", "segmentation", "spambase", "w7a"):
        said, table = manifest[name], read(Path(data_dir, f"{name}.npz"))
        assert table.X.shape == (said["n"], said["d"])
        assert table.X.dtype == np.float32
        assert table.task == tasks.get(said["task"], said["task"])
        assert (table.X.min(), table.X.max()) == pytest.approx(said["feature_range"])
        if said["task"] == "binary":
            balance = {"-1": int((table.y == -1).sum()), "+1": int((table.y == 1).sum())}
            assert balance == said["label_balance"]
    turbine = read(Path(data_dir, "naval.npz"), target="y_turbine")
    assert turbine.y.min() == pytest.approx(0.975)


@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet", "arrow", "frame"])
def test_names_that_are_patterns_to_polars(form, tmp_path):
    """They are names like others, whatever a column holds."""
    cells = {
        "number": ["1 ", "2.5", "", "4", "5"],
        "comma": ["1,5", "2,5", "3,25", "4,0", "1,0"],
        "word": ["x", "y", "x", "z", "y"],
        "day": ["2024-01-05", "2024-02-06", "2024-03-07", "2024-04-08", "2024-05-09"],
        "share": ["5%", "6%", "7%", "8%", "9%"],
        "gap": ["2.5", "NA", "1.5", "3.5", "NA"],
        "kind": ["u", "v", "v", "u", "v"],
        "y": ["1", "0", "1", "1", "0"],
    }
    patterns = ["^a$", "*", "^.*$", "^day$", "^(share|y)$", "^b|c$", "^$", "^y$"]

    def found(names):
        frame = pl.DataFrame(dict(zip(names, cells.values(), strict=True)))
        path = tmp_path / "table"
        if form == "frame":
            return read(frame, names[-1])
        writers = {"csv": frame.write_csv, "ndjson": frame.write_ndjson}
        writers |= {"parquet": frame.write_parquet, "arrow": frame.write_ipc}
        writers[form](path)
        return read(path, names[-1])

    one, other = found(patterns), found([*cells])
    np.testing.assert_array_equal(one.X, other.X)
    np.testing.assert_array_equal(one.y, other.y)
    assert one.target == "^y$"
    assert one.feature_names[0] == "^a$"
