"""Rows of any table: counted, and told from those that cannot be read."""

import io
import json

import numpy as np
import polars as pl
import pytest
import scipy.sparse
from hypothesis import example, given
from hypothesis import strategies as st

from jaxmkl.tables import Chunk, RefusedRows, Table, open_table, readable

SMALL_PROGRAMS = True
ROWS = 7
PLACES = st.sets(st.integers(0, 11))


def chunk_of(number, refused):
    frame = pl.DataFrame({"place": range(number)})
    why = tuple((place, f"{place} is no row") for place in sorted(refused) if place < number)
    return Chunk(frame, "row", range(1, number + 1), "t", refused=why)


@given(st.integers(0, 12), PLACES, PLACES, st.integers(0, 13), st.sampled_from([1, 2, 5]))
@example(8, {6}, {5}, 0, 5)
def test_rows_are_told_as_one_by_one(number, no_rows, no_cells, most, block):
    """Rows are read or skipped in their order, up to the one that is too many."""

    def read(chunk):
        places = chunk.frame["place"].to_list()
        wrong = {row: f"{place} is no cell" for row, place in enumerate(places)
                 if place in no_cells}  # fmt: skip
        if wrong:
            raise RefusedRows(wrong)
        return places

    def aligned(rows):
        return rows[: len(rows) - len(rows) % block]

    good, skipped, refusal = [], [], ""
    for place in range(number):
        if place not in no_rows | no_cells:
            good.append(place)
            continue
        why = f"{place} is no {'row' if place in no_rows else 'cell'}"
        if len(skipped) == most:
            refusal, good = why, aligned(good)
            break
        skipped.append((place, why))
    passed = number if not refusal else good[-1] + 1 if good else 0
    found = readable(chunk_of(number, no_rows), most, read, aligned)
    assert found.found == good == [number - 1 for number in found.chunk.numbers]
    assert (found.passed, found.refusal) == (passed, refusal)
    known = [(place, why) for place, why in found.reasons.items() if place < passed]
    assert known == [(place, why) for place, why in skipped if place < passed]


def sources(folder):
    """The same numbers in every format."""
    X = np.arange(2.0 * ROWS).reshape(ROWS, 2) % 5 + 1
    frame = pl.DataFrame(X, ["a", "b"])
    paths = {name: folder / f"t.{name}" for name in ("csv", "ndjson", "parquet", "arrow", "svm")}
    frame.write_csv(paths["csv"])
    paths["ndjson"].write_text("\n".join(map(json.dumps, frame.to_dicts())))
    frame.write_parquet(paths["parquet"])
    frame.write_ipc(paths["arrow"])
    paths["svm"].write_text("\n".join(f"{a} 1:{b}" for a, b in X.tolist()))
    arrays = {"dense.npz": {"X": X[:, :1]}, "sparse.npz": {}}
    csr = scipy.sparse.csr_array(X[:, :1])
    parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr}
    arrays["sparse.npz"] = parts | {"shape": np.array(csr.shape)}
    for name, each in arrays.items():
        np.savez(folder / name, y=X[:, 1], **each)
    made = {"frame": frame, "pandas": frame.to_pandas(), "dicts": frame.to_dicts(), "csr": csr}
    return made | paths | {name: folder / name for name in arrays}


@pytest.mark.parametrize("size", [1, 3, ROWS, 100])
def test_every_table_counts_its_rows(size, tmp_path):
    for name, source in sources(tmp_path).items():
        table = open_table(source)
        assert isinstance(table, Table), name
        chunks = list(table.chunks(size))
        table.close()
        assert [len(chunk.frame) for chunk in chunks[:-1]] == [size] * (len(chunks) - 1), name
        numbers = [number for chunk in chunks for number in chunk.numbers]
        first = 2 if name == "csv" else 1
        assert numbers == list(range(first, first + ROWS)), name
        assert {tuple(chunk.frame.columns) for chunk in chunks} == {tuple(table.names)}, name
        is_arrays = name in ("svm", "dense.npz", "sparse.npz")
        assert (table.target is not None) == is_arrays, name


def test_the_share_that_was_read(tmp_path):
    for name in ("frame", "csr", "dense.npz", "parquet"):
        table = open_table(sources(tmp_path)[name])
        shares = [table.share_read() for _ in table.chunks(4)]
        assert shares == pytest.approx([4 / ROWS, 1.0]), name


def test_nothing_is_known_of_a_pipe(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n3,4\n")))
    table = open_table("-")
    assert [table.share_read() for _ in table.chunks(1)] == [None, None]
