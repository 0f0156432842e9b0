"""Serving in process: order, journal, snapshots, faces."""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import errno
import functools
import itertools
import json
import os
import random
import socket
import threading
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxmkl
from jaxmkl import Gaussian, abilities
from jaxmkl._checks import is_tracer
from jaxmkl.cli import main
from jaxmkl.cli.serve import warm_up
from jaxmkl.cli.sessions import journal as journal_room
from jaxmkl.cli.sessions import learning as learning_room
from jaxmkl.cli.sessions import network as network_room
from jaxmkl.cli.sessions import server as server_room
from jaxmkl.cli.sessions.journal import Journal
from jaxmkl.cli.sessions.metrics import Metrics, prometheus
from jaxmkl.cli.sessions.network import Network, _free, serve_standard
from jaxmkl.cli.sessions.requests import LONGEST, Lines
from jaxmkl.cli.sessions.server import Server, spelled
from jaxmkl.evaluate import UsageError, held_bytes
from jaxmkl.tables import Columns, Pipeline, Session, _rounds, open_table


@functools.cache
def pipeline():
    """A pipeline before its first row, of a table with the number x."""
    rows = next(open_table({"x": [0.5, 1.7, 3.2], "y": [0.1, 0.4, 9.5]}).chunks(3))
    columns, learner = (
        Columns.decide(rows, target="y"),
        jaxmkl.raker(Gaussian(1.0), num_features=2),
    )
    return Pipeline(learner, learner.init(jax.random.key(0), 1), columns, columns.init())


def learned(pipeline):
    """All that was learned, which can be compared."""
    leaves = [
        jax.random.key_data(leaf)
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        else leaf
        for leaf in jax.tree.leaves(pipeline.state)
    ]
    return pipeline.seen, pipeline.rows, [np.asarray(leaf).tobytes() for leaf in leaves]


def server_of(path, most=None, about="a"):
    return Server(path / "j", {"model": about}, pipeline(), most)


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(learning_room, "SLOW", 60.0)  # seconds: all answers come in their turn
    server = server_of(tmp_path)
    yield server
    server.close()


def said(server, *lines):
    lines = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    (answers,) = server.answer(lines)
    return [json.loads(line) for line in spelled(answers).splitlines()]


def row(x, **more):
    return {"row": {"x": x}, **more}


def test_each_line_has_an_answer_in_its_turn(server):
    assert said(server, row(1.0), row(2.0, id="mine"), {"id": 0, "label": 3.0}) == [
        {"id": 0, "prediction": 0.0, "wanted": True},
        {"id": "mine", "prediction": 0.0, "wanted": True},
        {"id": 0, "learned": True},
    ]
    session = Session(pipeline())
    session.ask([{"x": 1.0}, {"x": 2.0}])
    session.learn(0, 3.0)
    one, two = said(server, [{"x": 1}, {"x": "y"}, {"x": 2}], row(1, label=2))
    assert [answer["id"] for answer in one] == [1, 2, 3]
    assert (one[1].keys(), one[1]["id"]) == ({"id", "error"}, 2)
    assert "'y'" in one[1]["error"]
    assert one[0]["prediction"] == session.ask({"x": 1})[0].prediction
    assert two == {"learned": True}
    assert said(server, {"id": "mine", "forget": True}) == [{"id": "mine", "forgotten": True}]
    assert said(server, {"rows": [{"x": 1}], "ids": ["mine"]})[0][0]["id"] == "mine"
    (figures,) = said(server, {"metrics": True})
    assert (figures["labels"], figures["waiting"], figures["refused"]) == (2, 3, {"row": 1})
    lines = row(1), {"metrics": True}, row(1, label=2), b"[]", {"metrics": True}, row(1, label=2)
    found = [answer for answer in said(server, *lines) if "labels" in answer]
    assert [(one["rows"], one["labels"]) for one in found] == [(6, 2), (6, 3)]
    assert [one["refused"] for one in found] == [{"row": 1}, {"row": 1, "line": 1}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense", "expected {\"row\": {...}}"),
        (b"[" * 100_000, "expected"),
        (b"[]", "a list of rows must have a row"),
        (b"x" * (LONGEST + 1), "a line has at most 1,048,576 bytes"),
        ({"row": {"x": [1]}}, "column 'x': a cell must be text, a number"),
        ({"row": {}}, "a row must be an object"),
        (row(1, id=True), "an id must be a whole number, or text"),
        (row(1, id="before"), "a row with the id 'before' waits for its label already"),
        (row(1, what=1), "expected"),
        ({"rows": [{"x": 1}], "ids": [1, 2]}, '"ids" must be a list of 1 ids'),
        ({"rows": [{"x": 1}, {"x": 1}], "ids": [5, 5]}, "a row with the id 5 waits"),
        ({"id": 7, "label": 1.0}, "no row with the id 7 waits for a label"),
        ({"id": 7, "forget": True}, "no row with the id 7 waits for a label"),
        ({"id": "before", "label": "tree"}, "label must be a finite number; got 'tree'"),
        ({"id": "before", "label": None}, "a label must be text, a number or a boolean"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_refused_and_changes_nothing(server, line, reason):
    said(server, row(1.0, id="before"))
    state = server.figures()["waiting"], server.number, server.learning.finished.rows
    (answer,) = said(server, line)
    assert reason in answer["error"]
    if isinstance(line, dict) and line.get("id") not in (None, True):
        assert answer["id"] == line["id"]
    assert state == (
        server.figures()["waiting"], server.number, server.learning.finished.rows
    )  # fmt: skip


def test_an_odd_letter_or_number_of_json_harms_no_other_client(server):
    lines = b'{"row": {"x": 1, "z": "\\ud800"}}', b'{"row": {"x": NaN}, "id": "n"}'
    said(server, row(1.0, label=2.0))
    found = [one["prediction"] for one in said(server, *lines, row(2.0))]
    # what is missing is the mean of the rows before
    wanted = server.learning.finished.predict({"x": [1.0, 1.0, 2.0]})
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    (half,) = said(server, b'{"row": {"x": "a\\ud83d"}}')
    assert half["error"] == "column 'x': '\\ud83d' is half of a surrogate pair, which is no text"


def test_large_ids_of_clients_are_not_followed_by_those_of_the_server(tmp_path):
    server, largest = server_of(tmp_path), 10**99
    ids = largest, 2**53, 2**52 - 1, -5
    assert [one["id"] for one in said(server, *(row(1.0, id=own) for own in ids))] == [*ids]
    assert [one["id"] for one in said(server, row(1.0), row(2.0))] == [2**52, 2**52 + 1]
    server.close()
    server = server_of(tmp_path)
    for own in (2**52 + 2, 2**52 + 3):
        assert said(server, row(1.0))[0]["id"] == own
        assert said(server, {"id": own, "label": 1.0}) == [{"id": own, "learned": True}]
    server.close()


def test_an_id_of_a_client_is_in_nobodys_way(server, monkeypatch):
    monkeypatch.setattr(server_room, "NEAR", 1)
    said(server, row(1.0, id=server_room.FAR - 1), row(1.0, id=server_room.FAR + 1))
    found = [one["id"] for one in said(server, row(1.0), row(2.0))]
    assert found == [server_room.FAR, server_room.FAR + 2]


def test_what_is_refused_is_quoted_in_short(server):
    said(server, row(1.0, id="a"))
    for line in ({"id": "a", "label": "x" * 10**5}, {"row": {"x" * 10**5: []}}, row("x" * 10**5)):
        assert 200 < len(said(server, line)[0]["error"]) < 2000


def test_the_oldest_rows_are_forgotten_before_their_labels_are_taken(tmp_path):
    server = server_of(tmp_path, most=3)
    *rows, gone, first = said(
        server, *(row(float(i)) for i in range(5)), {"id": 1, "label": 1}, {"id": 2, "label": 1}
    )
    assert [answer["id"] for answer in rows] == [0, 1, 2, 3, 4]
    assert "no row with the id 1 waits" in gone["error"]
    assert first == {"id": 2, "learned": True}
    assert server.learning._rests(60)  # a label is learned after its answer
    assert [server.figures()[name] for name in ("waiting", "dropped", "labels")] == [2, 2, 1]
    said(server, row(1.0), row(1.0, id="a"), row(1.0, id="b"))
    server.close()
    server = server_of(tmp_path)  # the number is kept
    assert (server.most, [*server.unlabelled]) == (3, [5, "a", "b"])
    said(server, [{"x": 1}, {"x": "no number"}])
    assert [*server.unlabelled] == [*server.learning.session.unlabelled] == ["a", "b", 6]
    server.close()
    server = server_of(tmp_path, most=1)
    assert [*server.unlabelled] == [6]
    assert server.learning._rests(60)
    assert [*server.learning.session.unlabelled] == [6]
    server.close()


def test_a_row_that_cannot_be_read_makes_no_other_one_forgotten(tmp_path):
    server = server_of(tmp_path, most=1)
    said(server, row(1.0, id="a"))
    bad, learned = said(server, row("no number", id="b"), {"id": "a", "label": 1.0})
    assert ("error" in bad, learned) == (True, {"id": "a", "learned": True})
    figures = server.figures()
    assert (figures["refused"], figures["waiting"], figures["labels"]) == ({"row": 1}, 0, 1)
    server.close()


def test_an_id_is_free_once_a_row_of_the_same_group_makes_its_own_forgotten(tmp_path):
    server = server_of(tmp_path, most=1)
    said(server, row(1.0, id="a"))
    answers = said(server, row(2.0, id="b"), row(3.0, id="a"), {"id": "b", "label": 1.0})
    assert ["error" in answer for answer in answers] == [False, False, True]
    assert [*server.unlabelled] == [*server.learning.session.unlabelled] == ["a"]
    server.close()


def test_no_label_is_acknowledged_of_a_row_in_the_same_group_that_cannot_be_read(server):
    """Its id is free for another row."""
    lines = row("no number", id="a"), {"id": "a", "label": 1.0}, row(1.0, id="a")
    bad, label, good, forgotten = said(server, *lines, {"id": "a", "forget": True})
    assert "no number" in bad["error"]
    assert "no row with the id 'a' waits" in label["error"]
    assert isinstance(good["prediction"], float)
    assert forgotten == {"id": "a", "forgotten": True}
    assert server.figures()["labels"] == 0


def test_a_full_server_writes_rows_and_labels_together(tmp_path, monkeypatch):
    """The room of a row whose label has come is the next one's."""
    server, synced, sync = server_of(tmp_path, most=2), [], Journal.sync
    said(server, row(1.0, id=0), row(1.0, id=1))
    monkeypatch.setattr(Journal, "sync", lambda journal: synced.append(sync(journal)))
    lines = [({"id": i, "label": 1.0}, row(2.0, id=i + 2)) for i in range(20)]
    assert not any("error" in one for one in said(server, *itertools.chain(*lines)))
    assert len(synced) == 1
    server.close()


def test_an_id_may_come_again_before_its_turn(tmp_path, monkeypatch):
    """Answers that cannot wait for the session come from another one."""
    server, go_on = server_of(tmp_path), threading.Event()
    monkeypatch.setattr(Session, "until_renewal", 0)
    learn = Session.learn_many
    monkeypatch.setattr(Session, "learn_many", lambda *its: go_on.wait(60) and learn(*its))
    said(server, row(1.0, id="first"), {"id": "first", "label": 1.0})
    answers = said(server, row(1.0, id="a"), {"id": "a", "label": 1.0}, row(2.0, id="a"))
    assert ["error" in answer for answer in answers] == [False] * 3
    assert server.figures()["waiting"] == 1
    go_on.set()
    server.close()
    assert [*server.learning.session.unlabelled] == [*server.unlabelled] == ["a"]


def played(path, seed, stops=()):
    """Ask and label some rows, late and shuffled, and start anew at some of them."""
    server, rng = server_of(path, most=9), random.Random(seed)
    waiting = []
    for i in range(60):
        if i in stops:  # as if it were killed: no snapshot is made, nothing is said
            server.learning.close()
            server.journal.close()
            server = server_of(path)
        (answer,) = said(server, row(rng.random()))
        waiting.append(answer["id"])
        if rng.random() < 0.8:
            own = waiting.pop(rng.randrange(len(waiting)))  # some were forgotten
            said(server, {"id": own, "label": rng.random()})
    assert server.learning._rests(60)  # a label is learned after its answer
    state = learned(server.learning.finished), [*server.unlabelled]
    server.close()
    assert [*server.learning.session.unlabelled] == state[1]
    return state


def test_a_killed_server_goes_on_with_the_same_state(tmp_path, monkeypatch):
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    whole = played(folders[0], 0)
    assert played(folders[1], 0, stops=(1, 30, 31, 50)) == whole
    monkeypatch.setattr(server_room, "MOST", 2000)  # bytes: many snapshots
    assert played(folders[2], 0, stops=(1, 30, 31, 50)) == whole
    assert len(whole[1]) == 9  # older ones were forgotten
    (snapshot,) = folders[2].glob("j.*.npz")
    server = server_of(folders[2])
    assert (learned(server.learning.finished), [*server.unlabelled]) == whole
    (answer,) = said(server, row(1.0))
    assert answer["id"] == 60  # no id comes twice
    server.close()
    assert not snapshot.exists()
    with pytest.raises(ValueError, match="belongs to another pipeline"):
        server_of(folders[2], about="b")


@pytest.mark.parametrize("rest", [None, 0, 20])
def test_no_snapshot_is_removed_where_the_journal_is_not_there(tmp_path, rest):
    """As where its file was emptied, or removed."""
    server = server_of(tmp_path)
    said(server, row(1.0, label=2.0))
    state = learned(server.learning.finished)
    server.close()
    journal, before = tmp_path / "j", (tmp_path / "j").read_bytes()
    journal.unlink() if rest is None else journal.write_bytes(before[:rest])
    for _ in range(2):
        with pytest.raises(ValueError, match=r"j\.1\.npz is a snapshot of 1;"):
            server_of(tmp_path)
    journal.write_bytes(before)
    server = server_of(tmp_path)
    assert learned(server.learning.finished) == state
    server.close()


def test_a_link_to_the_journal_stays_one(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "j").symlink_to(tmp_path / "far" / "journal")
    server = server_of(tmp_path)
    said(server, row(1.0, label=2.0))
    server.close()
    assert (tmp_path / "j").is_symlink()
    assert {path.name for path in (tmp_path / "far").iterdir()} == {"journal", "journal.1.npz"}


def test_a_snapshot_that_cannot_be_written_ends_nothing(tmp_path, monkeypatch, capsys):
    def fails(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(server_room, "MOST", 1000)  # bytes
    server = server_of(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Session, "save", fails)
        for i in range(40):
            assert said(server, row(1.0))[0]["id"] == i
        state = learned(server.learning.finished)
        with pytest.raises(OSError, match="No space left"):
            server.close()
    told = capsys.readouterr().err.splitlines()
    assert 1 <= len(told) < 20  # tried again only after as many bytes
    assert "a snapshot cannot be written" in told[0]
    server = server_of(tmp_path)
    assert learned(server.learning.finished) == state
    server.close()


def test_rows_that_come_during_a_snapshot_are_answered_and_not_in_it(tmp_path, monkeypatch):
    monkeypatch.setattr(server_room, "MOST", 300)  # bytes
    save, begun, go_on = Session.save, threading.Event(), threading.Event()

    def waits(self, path):
        begun.set()
        go_on.wait(60)
        save(self, path)

    monkeypatch.setattr(Session, "save", waits)
    server = server_of(tmp_path)
    while not begun.wait(0.05):
        said(server, row(1.0))
    (answer,) = said(server, row(2.0, id="during"))
    assert answer["wanted"]
    saved, *_ = server._saving
    go_on.set()
    saved.result()
    (snapshot,) = tmp_path.glob("j.*.npz")
    assert "during" not in Session.load(snapshot).unlabelled
    server.close()
    server = server_of(tmp_path)
    assert "during" in server.unlabelled
    server.close()


def test_two_servers_on_one_journal_are_refused(tmp_path):
    server = server_of(tmp_path)
    with pytest.raises(ValueError, match="another process writes this journal"):
        server_of(tmp_path)
    server.close()


def test_what_the_journal_cannot_hold_is_not_learned(server, monkeypatch):
    said(server, row(1.0, id="a"))
    rows, size = server.learning.finished.rows, server.journal.size
    journal, full = server.journal, [True]

    class Disk:
        def __init__(self, file):
            self.file, self.truncate, self.fileno = file, file.truncate, file.fileno

        def write(self, content):
            if full[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
            return self.file.write(content)

    monkeypatch.setattr(journal, "_file", Disk(journal._file))
    answers = said(server, row(2.0, id="b"), [{"x": 1}, {"x": 2}], {"id": "a", "label": 1.0})
    text = "the journal cannot be written, so nothing was learned: No space left on device"
    assert [a["error"] for a in (answers[0], *answers[1], answers[2])] == [text] * 4
    assert (server.learning.finished.rows, server.journal.size) == (rows, size)
    assert [*server.unlabelled] == ["a"]
    full[0] = False
    assert said(server, row(2.0, id="b"), {"id": "a", "label": 1.0})[1] == {
        "id": "a", "learned": True
    }  # fmt: skip
    assert server.figures()["refused"] == {"journal": 4}
    monkeypatch.undo()


def test_a_disk_that_fails_ends_the_server_before_it_answers(tmp_path, monkeypatch):
    server = server_of(tmp_path)
    said(server, row(1.0, id="a"))

    def fails(number):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(RuntimeError, match="the server has ended"):
        said(server, row(2.0, id="b"))
    with pytest.raises(OSError, match="Input/output error"):
        server.close()
    monkeypatch.undo()
    server = server_of(tmp_path)
    assert "a" in server.unlabelled
    server.close()


def test_answers_do_not_wait_for_a_renewal(tmp_path, monkeypatch):
    warm_up(pipeline())
    server, learn = server_of(tmp_path), Session.learn_many
    labels_left = property(lambda self: 4 - int(self.pipeline.state.round) % 4)
    monkeypatch.setattr(Session, "until_renewal", labels_left)

    def learn_slowly(self, labels):
        if self.until_renewal == 1:
            time.sleep(0.7)
        return learn(self, labels)

    monkeypatch.setattr(Session, "learn_many", learn_slowly)
    said(server, *(row(float(i)) for i in range(5)), row(1, label=1))
    said(server, {"id": 4, "label": 1.0})
    times = []
    for i in range(4):
        for line in ({"id": i, "label": 1.0}, row(0.5), row(1, label="x"), row("x", label=1)):
            began = time.monotonic()
            (answer,) = said(server, line)
            times.append(time.monotonic() - began)
            assert ("error" in answer) == ({"row", "label"} == line.keys())
    assert max(times) < 0.5
    server.close()
    monkeypatch.undo()
    expected = Session(pipeline())
    expected.ask([{"x": float(i)} for i in range(5)])
    expected.learn_row({"x": 1}, 1)
    for i in (4, 0, 1, 2, 3):
        expected.learn(i, 1.0)
    expected.ask([{"x": 0.5}] * 4)
    server = server_of(tmp_path)
    assert learned(server.learning.finished) == learned(expected.pipeline)
    server.close()


@pytest.mark.slow
def test_programs_for_more_support_vectors_are_compiled_beside_answers(tmp_path, monkeypatch):
    learner = jaxmkl.kernel_ogd(Gaussian(1.0), capacity=1)
    threads, enlarged = [], abilities.enlarged
    state = learner.init(jax.random.key(0), 1)
    grows = dataclasses.replace(pipeline(), learner=learner, state=state)

    def enlarges(learner, state, capacity):
        if not is_tracer(state):
            threads.append(threading.current_thread())
        return enlarged(learner, state, capacity)

    monkeypatch.setattr(abilities, "enlarged", enlarges)
    server = Server(tmp_path / "j", {"model": "a"}, grows)
    number = abilities.capacity(learner, state) + 1
    for first in range(0, number, 64):
        ids = [*range(first, min(first + 64, number))]
        said(server, {"rows": [{"x": float(i)} for i in ids], "ids": ids})
        said(server, *({"id": own, "label": 1.0} for own in ids))
    assert server.learning._rests(60)
    assert len(threads) == 1
    assert threading.current_thread() not in threads
    programs = _rounds._predict.num_programs(), _rounds._await.num_programs()
    said(server, row(0.5))
    server.learning.session.expect({"x": 0.5}, ["b"])
    assert programs == (_rounds._predict.num_programs(), _rounds._await.num_programs())
    server.close()


def test_clients_who_only_ask_come_first(server):
    said(server, row(1.0, id="a"), row(1.0, id="b"))
    clients = [{"id": "a", "label": 1.0}, row(3.0, id="after")], [row(4.0, id="c")]
    lines = [[json.dumps(line).encode() for line in lines] for lines in clients]
    assert [[one["id"] for one in of_one] for of_one in server.answer(*lines)] == [
        ["a", "after"], ["c"]
    ]  # fmt: skip
    lines = map(json.loads, server.journal.path.read_text().splitlines()[-3:])
    assert [event.get("ids", event.get("labels")) for event in lines] == [
        ["c"], [["a", 1.0]], ["after"]
    ]  # fmt: skip


def test_what_ends_the_learning_ends_the_server(tmp_path, monkeypatch):
    server = server_of(tmp_path)
    monkeypatch.setattr(Session, "ask", lambda *_: 1 / 0)
    with pytest.raises(RuntimeError, match="the server has ended"):
        said(server, row(1.0))
    with pytest.raises(RuntimeError, match="the server has ended"):
        said(server, row(1.0))
    with pytest.raises(ZeroDivisionError):
        server.close()


@pytest.mark.parametrize("until_renewal", [0, 99])
def test_no_label_is_acknowledged_once_one_could_not_be_learned(
    tmp_path, monkeypatch, until_renewal
):
    """That of a renewal is, as it is learned later."""
    server = server_of(tmp_path)
    said(server, row(1.0, id="a"), row(1.0, id="b"))
    monkeypatch.setattr(Session, "until_renewal", until_renewal)
    monkeypatch.setattr(Session, "learn_many", lambda *_: 1 / 0)
    if not until_renewal:
        said(server, {"id": "a", "label": 1.0})
        assert isinstance(server.learning._last.exception(60), ZeroDivisionError)
    with pytest.raises(RuntimeError, match="the server has ended"):
        said(server, {"id": "b", "label": 1.0})
    with pytest.raises(ZeroDivisionError):
        server.close()


def test_no_snapshot_is_made_once_a_label_could_not_be_learned(tmp_path, monkeypatch):
    server = server_of(tmp_path)
    said(server, row(1.0, id="a"))
    monkeypatch.setattr(server_room, "MOST", 0)  # bytes: a snapshot is begun behind the label
    monkeypatch.setattr(Session, "until_renewal", 0)
    monkeypatch.setattr(Session, "learn_many", lambda *_: 1 / 0)
    said(server, {"id": "a", "label": 1.0})
    assert isinstance(server._saving[0].exception(60), ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        server.close()
    assert not [*tmp_path.glob("j.*.npz")]


def test_lines_are_cut_from_any_pieces():
    text = b"one\n\n two \nthree\n" + b"x" * (LONGEST + 9) + b"yz\nfour\n"
    for size in (1000, 65536, len(text)):
        lines = Lines()
        pieces = (text[at : at + size] for at in range(0, len(text), size))
        found = [*itertools.chain.from_iterable(map(lines.cut, pieces))]
        assert [line for line in found if len(line) < 99] == [b"one", b" two ", b"three", b"four"]
        assert [len(line) > LONGEST for line in found] == [False] * 3 + [True, False]
        assert lines.rest == b""


def test_errors_stand_beside_baselines():
    metrics = Metrics(True)
    for label in ("a", "a", "b", "a", "b", "b"):
        metrics.learned(label, ("b", None))
    figures = metrics.figures()
    # from the second label on: majority a a a a, then a tie of which the first is a
    assert figures["error"] == {
        "learner": 2 / 5, "mean or majority": 3 / 5, "last label": 3 / 5
    }  # fmt: skip
    assert 0.39 < figures["error_now"] < 0.4
    text = prometheus(figures)
    assert 'jaxmkl_error{of="last label"} 0.6' in text
    assert "jaxmkl_coverage NaN" in text
    numbers = Metrics(False)
    for label in (1.0, 3.0, 8.0):
        numbers.learned(label, (2.0, (0.0, 4.0)))
    figures = numbers.figures()
    assert figures["error"] == {
        "learner": (1 + 36) / 2, "mean or majority": (4 + 36) / 2, "last label": (4 + 25) / 2
    }  # fmt: skip
    assert figures["coverage"] == 0.5


# --- faces ---------------------------------------------------------------------------------------


@pytest.fixture
def network(server, tmp_path):
    """A socket and a port, and the end of both."""
    end, places = threading.Event(), []
    network = Network(server, end.is_set, b"0123456789abcdef")
    serve = network.serve(tmp_path / "s", "127.0.0.1", 0, places.append)
    thread = threading.Thread(target=lambda: asyncio.run(serve))
    thread.start()
    while len(places) < 2:
        time.sleep(0.01)
    yield tmp_path / "s", int(places[1].rpartition(":")[2])
    end.set()
    thread.join()
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("number", [200, pytest.param(1000, marks=pytest.mark.endless)])
def test_many_clients_at_a_socket(network, number):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 3 * number)), hard))
    path, _ = network
    assert path.stat().st_mode & 0o777 == 0o600

    async def client(i):
        reader, writer = await asyncio.open_unix_connection(path)
        line = json.dumps(row(float(i), id=f"c{i}")).encode() + b"\n"
        writer.write(line[:9])
        await asyncio.sleep(0)
        writer.write(line[9:])
        found = json.loads(await reader.readline())
        writer.write(json.dumps({"id": f"c{i}", "label": 1.0}).encode() + b"\n" + line[:7])
        learned = json.loads(await reader.readline())
        writer.close()  # amid a line
        return found["id"], learned

    async def clients():
        return await asyncio.gather(*map(client, range(number)))

    learned = [{"id": f"c{i}", "learned": True} for i in range(number)]
    assert asyncio.run(clients()) == [(each["id"], each) for each in learned]


@pytest.mark.parametrize("pieces", [100, pytest.param(1000, marks=pytest.mark.endless)])
def test_a_line_without_an_end_takes_no_memory(network, pieces):
    before = held_bytes("VmRSS")

    async def client():
        reader, writer = await asyncio.open_unix_connection(network[0])
        for _ in range(pieces):
            writer.write(b"x" * 10**5)
            await writer.drain()
        writer.write(b"\n" + json.dumps(row(1.0)).encode() + b"\n")
        found = json.loads(await reader.readline()), json.loads(await reader.readline())
        writer.close()
        return found

    long, right = asyncio.run(client())
    assert long["error"] == "a line has at most 1,048,576 bytes"
    assert right["prediction"] is not None
    assert held_bytes("VmRSS") - before < 2**23 or before == 0


END = b"\r\n"


def asked_by_http(port, method, path, body=None, token="0123456789abcdef", **more):
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    headers = {"Authorization": f"Bearer {token}", **more}
    connection.request(method, path, body, headers)
    reply = connection.getresponse()
    content = reply.read().decode()
    connection.close()
    return reply.status, content


def test_http(network):
    port = network[1]
    status, content = asked_by_http(port, "POST", "/ask", json.dumps(row(1.0), indent=1))
    assert (status, json.loads(content)) == (200, {"id": 0, "prediction": 0.0, "wanted": True})
    for body, expected in (({"id": 0, "label": 2}, 200), ({"id": 0, "label": 2}, 400)):
        assert asked_by_http(port, "POST", "/learn", json.dumps(body))[0] == expected
    assert asked_by_http(port, "GET", "/health") == (200, '{"healthy": true}\n')
    status, content = asked_by_http(port, "GET", "/metrics")
    assert status == 200
    assert "jaxmkl_rows_total 1\n" in content
    assert asked_by_http(port, "GET", "/other")[0] == 404
    assert asked_by_http(port, "GET", "/health", token="0123456789abcdeg")[0] == 401
    assert asked_by_http(port, "POST", "/ask", b"", **{"Content-Length": "9" * 8})[0] == 413
    for odd in ({"Content-Length": "many"}, {"Content-Length": "-1"}):
        assert asked_by_http(port, "POST", "/ask", b"", **odd)[0] == 413
    chunked = {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    assert asked_by_http(port, "POST", "/ask", b"{}", **chunked)[0] == 411
    assert asked_by_http(port, "POST", "/ask", b"x" * 10**6)[0] == 400
    status, content = asked_by_http(port, "GET", "/health", **{"X-Long": "x" * 10**5})
    assert (status, "at most 65,536 bytes" in content) == (431, True)
    status, content = asked_by_http(port, "POST", "/ask", b"x" * 10**7)
    assert (status, "of at most 1,048,576 bytes" in content) == (413, True)


def talked(port, *requests, method="POST"):
    """All that comes back for requests, each a path, headers and a body, sent at once."""
    sent = b""
    for at, (path, headers, body) in enumerate(requests, 1):
        sent += f"{method} {path} HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdef\r\n".encode()
        sent += headers.encode() + b"Connection: close\r\n" * (at == len(requests)) + END + body
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(sent)
        return client.makefile("rb").read()


def test_methods_and_queries(network):
    port = network[1]
    head, _, body = talked(port, ("/health?of=probe", "", b""), method="HEAD").partition(END * 2)
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert (b"Content-Length: 18" in head, body) == (True, b"")
    for method, path, allowed in (
        ("GET", "/ask", b"POST"),
        ("OPTIONS", "/learn?a", b"POST"),
        ("PUT", "/health", b"GET, HEAD"),
    ):
        found = talked(port, (path, "", b""), method=method)
        assert found.startswith(b"HTTP/1.1 405")
        assert END + b"Allow: " + allowed + END in found
    assert talked(port, ("/other", "", b"")).startswith(b"HTTP/1.1 404")


def test_bodies(network):
    port, body = network[1], json.dumps(row(1.0), indent=2).encode()
    size = f"Content-Length: {len(body)}\r\n"
    found = talked(port, ("/ask", size + "Expect: 100-continue\r\n", body))
    assert found.startswith(b"HTTP/1.1 100 Continue" + END * 2 + b"HTTP/1.1 200 OK")
    too_much = body + END  # as some clients send
    assert talked(port, ("/ask", size, too_much), ("/ask", size, body)).count(b" 200 OK") == 2
    chunked = talked(port, ("/ask", "Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"))
    assert chunked.startswith(b"HTTP/1.1 411")
    twice = talked(port, ("/ask", f"Content-Length: 2\r\n{size}", body))
    assert twice.startswith(b"HTTP/1.1 413")
    metrics = b'{"metrics": true}'
    found = talked(port, ("/ask", f"Content-Length: {len(metrics)}\r\n", metrics))
    assert found.startswith(b"HTTP/1.1 200 OK")


def test_the_health_is_told_while_many_events_wait(network, server, monkeypatch):
    go_on, learn = threading.Event(), Session.learn_many
    monkeypatch.setattr(learning_room, "WAITING", 3)
    monkeypatch.setattr(Session, "until_renewal", 0)
    monkeypatch.setattr(Session, "learn_many", lambda *its: go_on.wait(60) and learn(*its))
    said(server, *(row(1.0, id=own) for own in range(4)))
    for own in range(3):
        said(server, {"id": own, "label": 1.0})
    label = json.dumps({"id": 3, "label": 1.0})
    with concurrent.futures.ThreadPoolExecutor(1) as client:
        learned = client.submit(asked_by_http, network[1], "POST", "/learn", label)
        assert not concurrent.futures.wait([learned], 0.3).done
        assert asked_by_http(network[1], "GET", "/health")[0] == 200
        assert "jaxmkl_labels_total 3\n" in asked_by_http(network[1], "GET", "/metrics")[1]
        go_on.set()
        assert learned.result(60)[0] == 200
    assert server.figures()["labels"] == 4


def test_a_client_who_never_reads_keeps_no_server_from_its_end(server, tmp_path, monkeypatch):
    monkeypatch.setattr(network_room, "FAREWELL", 0.3)
    end = threading.Event()
    network = Network(server, end.is_set)
    serve = network.serve(tmp_path / "s", "", None, lambda _: None)
    thread = threading.Thread(target=lambda: asyncio.run(serve), daemon=True)
    thread.start()
    while not (tmp_path / "s").exists():
        time.sleep(0.01)
    with socket.socket(socket.AF_UNIX) as client:
        while client.connect_ex(str(tmp_path / "s")):
            time.sleep(0.01)
        client.sendall(b'{"metrics": true}\n' * 2000)  # whose answers no buffer holds
        while not any(network._busy.values()):
            time.sleep(0.01)
        began = time.monotonic()
        end.set()
        thread.join(10)
        assert 0.3 <= time.monotonic() - began < 5
        assert not thread.is_alive()


def test_a_token_may_have_any_letters(server):
    token = "0123456789abcdé€".encode()
    headers = {"authorization": f"Bearer {token.decode('latin-1')}"}  # as it is read
    network = Network(server, lambda: True, token)
    status, *_ = asyncio.run(network._reply("GET", "/health", headers, b""))
    assert status == 200


@pytest.mark.parametrize(("version", "more", "ends"), [
    ("1.0", "", True), ("1.0", "Connection: Keep-Alive\r\n", False),
    ("1.1", "", False), ("1.1", "Connection: Close\r\n", True),
])  # fmt: skip
def test_a_connection_ends_where_the_client_expects_it(network, version, more, ends):
    head = f"GET /health HTTP/{version}\r\nAuthorization: Bearer 0123456789abcdef\r\n{more}\r\n"
    with socket.create_connection(("127.0.0.1", network[1]), timeout=10) as client:
        client.sendall(head.encode())
        file = client.makefile("rb")
        while b"healthy" not in file.readline():
            pass
        client.settimeout(10 if ends else 0.2)
        with contextlib.nullcontext() if ends else pytest.raises(TimeoutError):
            assert file.read() == b""


@pytest.mark.parametrize("replaces_open", [True, False])
def test_the_journal_is_replaced_whole(replaces_open, tmp_path, monkeypatch):
    replace = os.replace

    def held(path):  # on Linux
        return any(os.path.exists(each) and os.path.samefile(path, each)
                   for each in map(str, Path("/proc/self/fd").glob("*")))  # fmt: skip

    def replaces(*paths):
        if not replaces_open and any(map(held, paths)):  # as Windows does
            raise PermissionError(errno.EACCES, "it is open")
        replace(*paths)

    monkeypatch.setattr(journal_room, "REPLACES_OPEN", replaces_open)
    with Journal(tmp_path / "j", {"model": "a"}) as journal:
        journal.append({"forget": 1}, {"forget": 2})
        monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no")))
        with pytest.raises(OSError, match="no"):
            journal.replace({"model": "a", "snapshot": 1}, journal.size)
        monkeypatch.setattr(os, "replace", replaces)
        start = journal.size
        journal.append({"forget": 3})
        journal.replace({"model": "a", "snapshot": 2}, start)
        journal.append({"forget": 4})
        with pytest.raises(ValueError, match="another process writes this journal"):
            Journal(tmp_path / "j", {"model": "a"})
    with Journal(tmp_path / "j", {"model": "a"}) as journal:
        assert journal.first["snapshot"] == 2
        assert journal.events == [{"forget": 3}, {"forget": 4}]


def test_standard_input_may_come_in_any_pieces(server):
    (given, into), (out_of, out) = os.pipe(), os.pipe()
    face = threading.Thread(target=serve_standard, args=(server, given, out, lambda: False))
    face.start()
    for piece in (b'{"row": {"x"', b": 1}}\n\nnonsense", b"\n", b'{"id": 0, "label": 2}'):
        os.write(into, piece)
    os.close(into)
    face.join()
    os.close(out)
    with open(out_of, "rb") as file:
        one, two, three = map(json.loads, file)
    os.close(given)
    assert (one["id"], three) == (0, {"id": 0, "learned": True})
    assert "got 'nonsense'" in two["error"]


def test_a_socket_that_answers_is_not_taken(network, tmp_path):
    with pytest.raises(UsageError, match="another process answers at"):
        _free(network[0])
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="file is not a socket"):
        _free(tmp_path / "file")


def test_a_socket_that_cannot_be_made_is_named(tmp_path):
    socket = tmp_path / "no folder" / "it"
    with pytest.raises(FileNotFoundError) as raised:
        asyncio.run(Network(None, lambda: True).serve(socket, "", None, print))
    assert raised.value.filename == str(socket)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "name a PIPELINE, or a table with --like"),
        (["p", "--like", "t"], "and not both"),
        (["p", "--host", "0.0.0.0"], "--host: name the port, too"),
        (["p", "--host", "0.0.0.0", "--port", "0"], "--token-file FILE is needed, too"),
        (["p", "--port", "0", "--token-file", "token"], "one line of at least 16 bytes"),
        (["p", "--port", "65536"], "--port: expected a number of at most 65535; got '65536'"),
        (["p", "--journal", "p"], "--journal: p is also named by PIPELINE"),
        (["p", "--journal", os.devnull], f"--journal: {os.devnull} is not a file"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_be_met_is_refused(arguments, reason, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text("short")
    (tmp_path / "p").write_text("")
    assert main(["serve", *arguments]) == 2
    assert reason in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"token", "p"}
