"""Damaged files: read as polars, scikit-learn or NumPy read them, or refused with a reason.

Each file is damaged at random (:mod:`tests.common.mutations`), by seeds that are the same in every
run. The slow tests run a hundred of each; ``pytest -m endless`` runs 5,000 of each.
"""

import bz2
import contextlib
import gzip
import io
import lzma
import re
import signal
import subprocess
import sys
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import sklearn.datasets
from mixed_frame import mixed_frame
from numpy.testing import assert_array_equal
from polars.testing import assert_frame_equal

from jaxmkl import tables
from jaxmkl.tables import _kinds, open_table
from jaxmkl.tables._bytes import zstd
from jaxmkl.tables._cells import RefusedRows
from jaxmkl.tables._header import separator_of
from jaxmkl.tables._words import MISSING
from jaxmkl.tables.source import joined
from tests.common.marks import long
from tests.common.mutations import mutated

FEW, MANY = 100, 5000
N = 40
DRAWS = np.random.default_rng(0)
FRAME = mixed_frame(DRAWS, N, "kind", ["tree", 'a "bush"', "moss, wet"])
X, Y = DRAWS.normal(size=(N, 3)), DRAWS.integers(0, 2, N)
SPARSE = scipy.sparse.random_array((N, 6), density=0.3, rng=0, format="csr")
CSR = {name: getattr(SPARSE, name) for name in ("data", "indices", "indptr")}
LIBSVM = "".join(
    f"{1 if i % 3 else -1} {1 + i % 3}:{x:.3f} {5 + i % 2}:2{' # odd' if i % 9 == 0 else ''}\n"
    for i, x in enumerate(X[:, 0])
).encode()


def written(write, **arguments):
    write(file := io.BytesIO(), **arguments)
    return file.getvalue()


TEXT = FRAME.write_csv().encode()
PACKERS = {"t.csv.gz": gzip, "t.csv.bz2": bz2, "t.csv.xz": lzma, "t.csv.zst": zstd("t")}
OF_POLARS = ("t.parquet", "plain.parquet", "t.arrow", "stream.arrow")
CONTENTS = {
    "t.csv": TEXT,
    "quoted.csv": FRAME.write_csv(separator=";", quote_style="always").encode(),
    "t.ndjson": FRAME.write_ndjson().encode(),
    "t.parquet": written(FRAME.write_parquet),
    "plain.parquet": written(FRAME.write_parquet, compression="uncompressed"),
    "t.arrow": written(FRAME.write_ipc),
    "stream.arrow": written(FRAME.write_ipc_stream),
    "t.svm": LIBSVM,
    "t.npz": written(np.savez, X=X, y=Y),
    "words.npz": written(np.savez_compressed, X=X.astype(np.float32), y=np.array(["a", "bc"])[Y]),
    "csr.npz": written(np.savez, **CSR, shape=np.array(SPARSE.shape), y=X[:, 0]),
    **{name: packer.compress(TEXT) for name, packer in PACKERS.items()},
}


def damaged(name, seed):
    """Damage the content; every other file with checksums inside, so that they fit."""
    content = CONTENTS[name]
    if seed % 2 == 0 or (name not in PACKERS and not name.endswith(".npz")):
        return mutated(content, (name, seed))
    if name in PACKERS:
        return PACKERS[name].compress(mutated(TEXT, (name, seed)))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    member = list(members)[seed // 2 % len(members)]
    members[member] = mutated(members[member], (name, seed))
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        for one, data in members.items():
            archive.writestr(one, data)
    return file.getvalue()


# --- what others make of the same bytes ----------------------------------------------------------

SPACES = " \t\r\n" + "".join(c for c in map(chr, range(2**16)) if unicodedata.category(c) == "Zs")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?[\d.]*,\d+|.*%", re.ASCII)


def check_numbers(data, frame):
    """Text that was taken for a number is one by its letters, all of them ASCII."""
    for kind in data.columns.kinds:
        if isinstance(kind, _kinds.Number) and frame[kind.name].dtype == pl.String:
            for cell in frame[kind.name]:
                given = "" if cell is None else cell.strip(SPACES)
                assert given.lower() in MISSING or NUMBER.fullmatch(given), repr(cell)


def check_csv(content, data, frame):
    check_numbers(data, frame)
    lines = list(io.StringIO(content.decode("utf-8-sig"), newline=""))
    separator, number = separator_of(lines, ",;\t|"), None
    with contextlib.suppress(pl.exceptions.PolarsError):
        expected = pl.read_csv(content, separator=separator, infer_schema=False)
        number = len(expected.filter(~pl.all_horizontal(pl.all().is_null())))
    if len(frame) != number:  # polars makes another sense of a quote amid a cell
        style = {"sep": separator, "skipinitialspace": True, "keep_default_na": False}
        assert len(frame) == len(pd.read_csv(io.BytesIO(content), dtype=str, **style))


def check_ndjson(content, data, frame):
    check_numbers(data, frame)
    with contextlib.suppress(pl.exceptions.PolarsError, pl.exceptions.PanicException):
        assert len(frame) == len(pl.read_ndjson(content, infer_schema_length=None))


def check_parquet(content, data, frame):
    assert_frame_equal(frame, pl.read_parquet(content))


def check_arrow(content, data, frame):
    read = pl.read_ipc if content.startswith(b"ARROW1") else pl.read_ipc_stream
    expected = read(content)
    if "" in expected.columns:  # is column_1 and so on where a file is scanned
        expected.columns = frame.columns
    assert_frame_equal(frame, expected)


def check_svm(content, data, frame):
    lines = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    expected, y = sklearn.datasets.load_svmlight_file(io.BytesIO(lines))
    assert_array_equal(data.X, expected.toarray())
    if data.task == "regression":
        assert_array_equal(data.y, y)
    assert len(data.y) == len(y)


def check_npz(content, data, frame):
    with np.load(io.BytesIO(content)) as archive:
        if "X" not in archive:
            parts = (archive[name] for name in ("data", "indices", "indptr"))
            expected = scipy.sparse.csr_array(tuple(parts), archive["shape"]).toarray()
        else:
            expected = archive["X"]
        known = (
            np.isin(archive["y"], ["", "?"]) if archive["y"].dtype.kind in "US" else archive["y"]
        )
        known = known == known if known.dtype.kind == "f" else np.ones(len(known), bool)
    if data.X.shape == expected.shape and not np.isnan(expected).any():
        assert_array_equal(data.X, expected)
    assert len(data.X) == len(data.y) <= len(expected)


def check(name, content, data, frame):
    content = PACKERS[name].decompress(content) if name in PACKERS else content
    globals()[f"check_{name.split('.')[1]}"](content, data, frame)


# --- the game ------------------------------------------------------------------------------------


def read_in_two_ways(path):
    """The data set and the rows of a file, or the refusal."""
    try:
        data = tables.read(path)
        with contextlib.closing(open_table(path)) as table:
            return data, joined(table, 7).frame
    except ValueError as error:
        return error


def looked_at(name, content, path):
    """Read a damaged file and compare; whether it was accepted."""
    path.write_bytes(content)
    found = read_in_two_ways(path)
    if isinstance(found, ValueError):
        assert type(found) in (ValueError, RefusedRows)
        assert re.match(re.escape(str(path)) + r"(, |: )\S", str(found))
        return False
    data, frame = found
    assert len(data.X) == len(data.y) <= len(frame)
    assert np.isfinite(np.asarray(data.X)).all()
    assert np.isfinite(data.y).all()
    check(name, content, data, frame)
    return True


def run_cases(name, number, path):
    """Look at so many damaged files, of which some are still good."""
    accepted, wrong = 0, {}
    for seed in range(number):
        try:
            accepted += looked_at(name, damaged(name, seed), path)
        except BaseException as error:  # a panic of polars is no Exception
            wrong[seed] = f"{type(error).__name__}: {error}"[:200]
    assert wrong == {}
    assert 0 < accepted < number


@pytest.mark.slow
@pytest.mark.parametrize("name", long(CONTENTS.keys() - {"t.csv.bz2", "t.csv.xz"}, CONTENTS))
def test_damaged_tables(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(CONTENTS[name])
    assert len(tables.read(path).X) == N
    run_cases(name, FEW, path)


@pytest.mark.endless
@pytest.mark.parametrize("name", [name for name in CONTENTS if name not in OF_POLARS])
def test_thousands_of_damaged_tables(name, tmp_path):
    run_cases(name, MANY, tmp_path / name)


ALONE = """
import pathlib, sys, polars as pl
sys.path[:0] = sys.argv[1], str(pathlib.Path(sys.argv[1]).parents[1])
import test_fuzz
name, path, first = sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4])
for seed in range(first, test_fuzz.MANY):
    path.with_name("seed").write_text(str(seed))
    test_fuzz.looked_at(name, test_fuzz.damaged(name, seed), path)
"""
POLARS_ALONE = """
import sys, polars as pl
read = pl.read_parquet if "parquet" in sys.argv[1] else pl.read_ipc
read(sys.argv[1])
"""


def status(program, *arguments):
    """How a program ended in a process of its own: 0, or an error, or below 0 a signal."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False).returncode


@pytest.mark.endless
@pytest.mark.parametrize("name", OF_POLARS)
def test_thousands_of_damaged_tables_that_polars_reads(name, tmp_path):
    """In a process of its own: one file in some thousands has polars itself abort."""
    path, first, aborted = tmp_path / name, 0, []
    while first < MANY:
        ended = status(ALONE, Path(__file__).parent, name, path, first)
        seed = int((tmp_path / "seed").read_text())
        if ended == 0:
            break
        assert ended == -signal.SIGABRT == status(POLARS_ALONE, path), f"seed {seed}"
        aborted.append(seed)
        first = seed + 1
    assert len(aborted) < MANY / 1000
