"""Compressed content that is read whole has one limit; formats of bytes come through pipes."""

import bz2
import gzip
import io
import os
import sys
import threading
import zipfile

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from jaxmkl import _archive
from jaxmkl._archive import Archive, damage, is_archive_of, most_expanded
from jaxmkl.tables import open_table, read

FRAME = pl.DataFrame({"x0": [1.0, 2.0, 4.0], "x1": [0.5, 3.5, 9.0], "y": [1.5, 2.5, 8.0]})


def content(of):
    file = io.BytesIO()
    if of == "npz":
        np.savez(file, X=FRAME.select("x0", "x1").to_numpy(), y=FRAME["y"].to_numpy())
    else:
        {"Parquet": FRAME.write_parquet, "Arrow": FRAME.write_ipc}.get(of, FRAME.write_ipc_stream)(
            file
        )
    return file.getvalue()


@pytest.fixture
def pipe(tmp_path):
    """A named pipe, as ``<(...)`` makes them, that another thread fills."""
    filled = []

    def made(data):
        path = tmp_path / f"pipe{len(filled)}"
        os.mkfifo(path)
        filled.append(threading.Thread(target=path.write_bytes, args=[data]))
        filled[-1].start()
        return path

    yield made
    for one in filled:
        one.join()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
@pytest.mark.parametrize("of", ["npz", "Parquet", "Arrow", "a stream of Arrow"])
def test_tables_of_bytes_through_pipes(of, pack, pipe, monkeypatch):
    data = pack(content(of))
    found = next(open_table(pipe(data)).chunks(9)).frame
    assert_array_equal(found.to_numpy(), FRAME.to_numpy())
    assert_array_equal(read(pipe(data)).X, FRAME.select("x0", "x1").to_numpy())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert_array_equal(next(open_table("-").chunks(9)).frame.to_numpy(), FRAME.to_numpy())


@pytest.fixture
def small(monkeypatch):
    """Limits of a file whose bytes are few."""
    monkeypatch.setattr(_archive, "ALWAYS", 2**12)
    monkeypatch.setattr(_archive, "TIMES", 10)


@pytest.mark.parametrize("part", ["X", "data"])
def test_arrays_that_expand_to_too_much(part, tmp_path, small):
    much, path = np.zeros(2**14), tmp_path / "t.npz"
    csr = {"indices": np.zeros(1, int), "indptr": np.array([0, 1]), "shape": np.array([1, 1])}
    arrays = {"X": much[:, None], "y": much} if part == "X" else csr | {"data": much, "y": much}
    np.savez_compressed(path, **arrays)
    for ask in (read, open_table):
        with pytest.raises(
            ValueError, match=r"t\.npz: is damaged, or cannot be read: .* too much; num"
        ):
            ask(path)
    np.savez(path, X=much.reshape(2**7, 2**7), y=np.arange(2**7))  # uncompressed: of any size
    assert read(path).X.shape == (2**7, 2**7)


def test_a_dense_array_is_refused_before_it_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr("jaxmkl.tables._table.MAX_DENSE_BYTES", 1000)
    np.savez(tmp_path / "t.npz", X=np.zeros((20, 10), np.int8), y=np.arange(20))  # 1,600 bytes
    monkeypatch.setattr(Archive, "read", None)
    with pytest.raises(ValueError, match="its 20 x 10 inputs would take"):
        read(tmp_path / "t.npz")


@pytest.mark.parametrize("of", ["Parquet", "Arrow", "a stream of Arrow", "npz"])
def test_compressed_files_that_expand_to_too_much(of, tmp_path, monkeypatch):
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(content(of) + bytes(2**20)))
    monkeypatch.setattr(_archive, "ALWAYS", 2**12)
    with pytest.raises(ValueError, match=r"t\.gz: expands to more than .* times its bytes; dec"):
        open_table(path)


def test_members_of_archives(tmp_path, small):
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("run.json", b"{}")
    with path.open("rb") as file:
        assert Archive(file).content("run.json") == b"{}"
    assert is_archive_of(path, "run.json")
    assert not is_archive_of(path, "header.npy")
    for method, wanted in ((zipfile.ZIP_DEFLATED, "too much"), (zipfile.ZIP_BZIP2, "unknown way")):
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("run.json", bytes(10**6))
        for is_compressed in (False, True):
            with path.open("rb") as file, pytest.raises(ValueError, match=wanted):
                Archive(file, is_compressed).content("run.json")
    data = bytearray(path.read_bytes())
    for place in range(1, 60, 3):  # the end of the archive, where its members are listed
        damaged = data.copy()
        damaged[-place] ^= 0xFF
        path.write_bytes(damaged)
        assert is_archive_of(path, "run.json") in (False, True)
    with pytest.raises(FileNotFoundError), damage("it"):
        path.with_name("none").read_bytes()


def test_the_limit_follows_the_size():
    assert most_expanded(0) == most_expanded(1000) == 2**28
    assert most_expanded(10**8) == 10**10
