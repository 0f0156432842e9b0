"""Text through a pipe: rows are read as they come, and as those of a file."""

import contextlib
import io
import os
import random
import sys
import threading

import numpy as np
import pytest

from jaxmkl.tables import open_table
from jaxmkl.tables._bytes import Bytes
from jaxmkl.tables.source import as_one, beginning, joined
from tests.common.pieces import Pieces

TEXTS = {
    "plain": "a,b\n" + "".join(f"{i},{i / 3:.3g}\n" for i in range(40)),
    "quotes": 'a,"b\n""c"""\r\n' + "".join(f'{i},"é\r\n,{i}"\r\n' for i in range(30)),
    "half a line": "\ufeffé;b\n1,5;2\n\n  \n2;3\r\n4;é𝄞",
    "old ends": "a,b\r" + "".join(f"{i},ü{i}\r" for i in range(30)),
    "mixed": 'a|b\n1|2\r"3"|"4\n5"\r\n6|\n\n7|"8"',
    "refused": 'a,b\n1,2\n3\n4,"5"6\n7,\udcff\n8,"9\n10,11\n12,13\n',
    "separators": "c\u2028d,b\x0b\n1\x0c,2\x1d\n" * 3,
    "objects": '{"a": 1}\n\n{"b": "é𝄞"}\n[]\n{"a": 2.5, "c": null}\n',
    "libsvm": "# é\n1 1:2 3:4\n\n# x\n-1 2:5 # y\n1 2:x\n1 3:1",
}


SIZES = [1, 2, 3, 7, 30, 200]  # of the pieces in which bytes come


@pytest.fixture
def come(monkeypatch):
    """Standard input whose bytes come in pieces, and late or not, as is drawn."""

    def made(data, seed):
        draws = random.Random(seed)
        monkeypatch.setattr(Bytes, "has_come", lambda self, seconds: draws.random() < 0.5)
        pieces = io.BufferedReader(Pieces(data, draws, SIZES))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pieces))

    return made


@pytest.mark.parametrize("columns", [(), ("a", "b"), ("1", "2", "3")])
@pytest.mark.parametrize("name", TEXTS)
def test_pieces_of_any_size_are_the_rows_of_the_file(name, columns, come, tmp_path):
    data, how = TEXTS[name].encode(errors="surrogateescape"), {"keep_refused": True}
    (tmp_path / "t").write_bytes(data)
    with contextlib.closing(open_table(tmp_path / "t", columns=columns, **how)) as table:
        names, wanted = table.names, joined(table, 100)
    numbers = []
    for seed in range(8):
        come(data, seed)
        table = open_table("-", columns=columns, **how)
        with contextlib.closing(table):
            found = as_one(chunks := [*table.chunks(9)])
        assert set(table.names) <= set(names) if name == "objects" else table.names == names
        assert [*found.numbers] == [*wanted.numbers]
        reasons = [(row, why.replace("standard input", str(tmp_path / "t")))
                   for row, why in found.refused]  # fmt: skip
        assert reasons == [*wanted.refused]
        good = [row for row in range(len(found.frame)) if row not in dict(wanted.refused)]
        assert found.take(good).frame.rows() == wanted.take(good).frame.rows()
        assert max(len(chunk.frame) for chunk in chunks) <= 9
        numbers.append(len(chunks))
    if columns == ("a", "b") and name in ("plain", "refused", "objects"):
        assert max(numbers) > -(-len(wanted.frame) // 9)  # chunks were cut where nothing came


@pytest.mark.parametrize("first", [1, 5, 30, 1000])
def test_rows_that_decide_are_waited_for(first, come):
    rows = ["1\n" if i in (2, 3, 9) else f"{i},2\n" for i in range(60)]
    for seed in range(5):
        come("".join(["a,b\n", *rows]).encode(), seed)
        table = open_table("-", keep_refused=True)
        chunks = table.chunks(40)
        chunk, good = beginning(table, chunks, 40, first)
        wanted = [i for i in range(40) if i not in (2, 3, 9)][:first]
        assert good == wanted
        assert len(chunk.frame) > wanted[-1]
        rest = sum(len(chunk.frame) for chunk in chunks)
        assert len(chunk.frame) + rest == 60


WHOLE = {  # the beginning, of which one row is whole, and the rest
    "half a line": ("a,b\n1,2\n3,", "4\n"),
    "half a cell": ('a,b\n1,2\n3,"4\n', '5"\n'),
    "half a character": (b"a,b\n1,2\n3,\xc3", b"\xa9\n"),
    "a blank line": ("a,b\n1,2\n\n", "3,4\n"),
    "objects": ('{"a": 1, "b": 2}\n\n{"a": ', "3}\n"),
    "libsvm": ("2 1:1\n# x\n", "3 1:4\n"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_row_is_there_before_the_next_one_is(name, monkeypatch):
    """The columns of a pipeline are known, so the header alone decides."""
    some, rest = (x.encode() if isinstance(x, str) else x for x in WHOLE[name])
    out, into = os.pipe()
    with open(out, "rb") as reads, open(into, "wb", buffering=0) as writes:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(reads))
        writes.write(some)
        # the rest comes if it is waited for, and would be in the first chunk, or be awaited there
        late = threading.Event()
        timer = threading.Timer(10.0, lambda: (late.set(), writes.write(rest)))
        timer.start()
        table = open_table("-", columns=["1"] if name == "libsvm" else ["a", "b"])
        chunks = table.chunks(100)
        first = next(chunks)
        timer.cancel()
        assert (len(first.frame), late.is_set()) == (1, False)
        writes.write(rest)
        writes.close()
        assert [len(chunk.frame) for chunk in chunks] == [1]


def test_a_fast_writer_fills_chunks(monkeypatch):
    text = "a,b\n" + "".join(f"{i},{i}\n" for i in range(40_000))
    out, into = os.pipe()

    def write():
        with open(into, "wb") as writes:
            writes.write(text.encode())

    with open(out, "rb") as reads:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(reads))
        writer = threading.Thread(target=write)
        writer.start()
        sizes = [len(chunk.frame) for chunk in open_table("-").chunks(1000)]
        writer.join()
    assert sum(sizes) == 40_000
    assert np.median(sizes) == 1000


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_header_of_a_pipeline_decides_by_itself(separator, tmp_path):
    """Rows that another separator splits as well change nothing; nor do unknown columns."""
    header = separator.join(["a", "b", "other"])
    (tmp_path / "t").write_text(f"{header}\n1,5;2,5|3,5\t4,5\n")
    with contextlib.closing(open_table(tmp_path / "t", columns=["a", "b", "c"])) as table:
        assert table.names == ["a", "b", "other"]
        assert table.separator == separator
