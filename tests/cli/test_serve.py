"""Serving in process, by a session that needs no learner: order, journal, snapshots, faces."""

import asyncio
import errno
import itertools
import json
import os
import random
import threading
import time
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from jaxmkl.cli import main
from jaxmkl.cli.labelling.journal import Journal
from jaxmkl.cli.serve import label_reader
from jaxmkl.cli.serving import events as events_of
from jaxmkl.cli.serving.events import Events
from jaxmkl.cli.serving.faces import Network, _free, serve_standard
from jaxmkl.cli.serving.metrics import Metrics, prometheus
from jaxmkl.cli.serving.requests import LONGEST, Lines
from jaxmkl.cli.serving.server import Server
from jaxmkl.evaluate import UsageError


class Said(NamedTuple):
    id: object
    prediction: float
    wanted: bool
    probabilities: object = None
    interval: object = None


class Session:
    """Predicts a number on which the order of all events so far depends."""

    slow = 0.0  # seconds of each label whose number is a power of two

    def __init__(self, pipeline=(0.0, 0), waiting=()):
        self.state, self.number = pipeline if isinstance(pipeline, tuple) else pipeline.state
        self.waiting = dict(waiting)

    @property
    def pipeline(self):
        return SimpleNamespace(state=(self.state, self.number))

    def ask(self, rows, ids=None):
        ids = [f"_{i}" for i in range(len(rows))] if ids is None else ids
        if any(not isinstance(row["x"], int | float) for row in rows):
            raise ValueError("column 'x': a number is wanted")
        said = [Said(own, self.state + row["x"], True) for own, row in zip(ids, rows, strict=True)]
        for own, row in zip(ids, rows, strict=True):
            assert own not in self.waiting
            self.waiting[own] = row["x"]
            self.state = 0.999 * self.state + 1e-3
        return said

    def learn(self, own, label):
        if own not in self.waiting:
            raise ValueError(f"{own!r} does not wait")
        self.learn_row({"x": self.waiting.pop(own)}, label)

    def learn_row(self, row, label):
        if isinstance(row["x"], str):
            raise ValueError("column 'x': a number is wanted")
        self.number += 1
        if self.number & (self.number - 1) == 0:
            time.sleep(self.slow)
        self.state = 0.9 * self.state + 0.1 * (label - row["x"])

    def forget(self, own):
        del self.waiting[own]

    def save(self, path):
        content = [[self.state, self.number], [*self.waiting.items()]]
        path.write_text(json.dumps(content))

    @classmethod
    def load(cls, path):
        state, waiting = json.loads(path.read_text())
        return cls(tuple(state), waiting)


def label_of(label):
    if isinstance(label, str):
        raise ValueError(f"{label!r} is not a number")
    return float(label)


def server_of(path, most=1000, about="a"):
    events = Events(path / "j", {"model": about}, Session, Session.load)
    return Server(events, Metrics(False), Session, label_of, most=most)


@pytest.fixture
def server(tmp_path):
    server = server_of(tmp_path)
    yield server
    server.close()


def said(server, *lines):
    lines = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return [json.loads(line) for line in server.answer(lines).splitlines()]


def row(x, **more):
    return {"row": {"x": x}, **more}


def test_each_line_has_an_answer_in_its_turn(server):
    assert said(server, row(1.0), row(2.0, id="mine"), {"id": 0, "label": 3.0}) == [
        {"id": 0, "prediction": 1.0, "wanted": True},
        {"id": "mine", "prediction": 2.0, "wanted": True},
        {"id": 0, "learned": True},
    ]
    one, two = said(server, [{"x": 1}, {"x": "y"}, {"x": 2}], row(1, label=2))
    assert [answer["id"] for answer in one] == [1, 2, 3]
    assert one[1] == {"id": 2, "error": "column 'x': a number is wanted"}
    assert two == {"learned": True}
    assert said(server, {"id": "mine", "forget": True}) == [{"id": "mine", "forgotten": True}]
    assert said(server, {"rows": [{"x": 1}], "ids": ["mine"]})[0][0]["id"] == "mine"
    (figures,) = said(server, {"metrics": True})
    assert (figures["labels"], figures["waiting"], figures["refused"]) == (2, 3, {"row": 1})


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
        ({"id": "before", "label": "tree"}, "'tree' is not a number"),
        ({"id": "before", "label": None}, "a label must be text, a number or a boolean"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_refused_and_changes_nothing(server, line, reason):
    said(server, row(1.0, id="before"))
    state = server.figures()["waiting"], server._events.number, server._learning.finished.state
    (answer,) = said(server, line)
    assert reason in answer["error"]
    if isinstance(line, dict) and line.get("id") not in (None, True):
        assert answer["id"] == line["id"]
    assert state == (
        server.figures()["waiting"], server._events.number, server._learning.finished.state
    )  # fmt: skip


def test_an_odd_letter_or_number_of_json_harms_no_other_client(server, tmp_path):
    lines = b'{"row": {"x": 1, "y": "\\ud800"}}', b'{"row": {"x": NaN}, "id": "n"}'
    one, two, three = said(server, *lines, row(2.0))
    assert one["prediction"] == 1.0
    assert two["prediction"] is None
    assert three["prediction"] is not None


def played(path, seed, stops=()):
    """Ask and label some rows, late and shuffled, and start anew at some of them."""
    server, rng = server_of(path, most=20), random.Random(seed)
    waiting = []
    for i in range(200):
        if i in stops:  # as if it were killed: no snapshot is made, nothing is said
            server._jobs.put(None)
            server._thread.join()
            server._learning.close()
            server._events.close()
            server = server_of(path, most=20)
        (answer,) = said(server, row(rng.random()))
        waiting.append(answer["id"])
        if rng.random() < 0.8:
            own = waiting.pop(rng.randrange(len(waiting)))
            said(server, {"id": own, "label": rng.random()})
    state = server._learning.finished.state, [*server._events.waiting]
    server.close()
    return state


def test_a_killed_server_goes_on_with_the_same_state(tmp_path, monkeypatch):
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    whole = played(folders[0], 0)
    assert played(folders[1], 0, stops=(1, 70, 71, 150)) == whole
    monkeypatch.setattr(events_of, "MOST", 2000)  # bytes: many snapshots
    assert played(folders[2], 0, stops=(1, 70, 71, 150)) == whole
    assert len(whole[1]) == 20  # older ones were forgotten
    (snapshot,) = folders[2].glob("j.*.npz")
    server = server_of(folders[2])
    assert (server._learning.finished.state, [*server._events.waiting]) == whole
    (answer,) = said(server, row(1.0))
    assert answer["id"] == 200  # no id comes twice
    server.close()
    assert not snapshot.exists()
    with pytest.raises(ValueError, match="belongs to another pipeline"):
        server_of(folders[2], about="b")


def test_a_snapshot_that_cannot_be_written_ends_nothing(tmp_path, monkeypatch, capsys):
    def fails(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(events_of, "MOST", 1000)  # bytes
    server = server_of(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Session, "save", fails)
        for i in range(100):
            assert said(server, row(1.0))[0]["id"] == i
        state = server._learning.finished.state
        with pytest.raises(OSError, match="No space left"):
            server.close()
    told = capsys.readouterr().err.splitlines()
    assert 1 <= len(told) < 20  # tried again only after as many bytes
    assert "a snapshot cannot be written" in told[0]
    server = server_of(tmp_path)
    assert server._learning.finished.state == state
    server.close()


def test_two_servers_on_one_journal_are_refused(tmp_path):
    server = server_of(tmp_path)
    with pytest.raises(ValueError, match="another process writes this journal"):
        server_of(tmp_path)
    server.close()


def test_what_the_journal_cannot_hold_is_not_learned(server, monkeypatch):
    said(server, row(1.0, id="a"))
    state, size = server._learning.finished.state, server._events._journal.size
    sync, full = os.fsync, [True]

    def fails(number):
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(number)

    monkeypatch.setattr(os, "fsync", fails)
    answers = said(server, row(2.0, id="b"), [{"x": 1}, {"x": 2}], {"id": "a", "label": 1.0})
    text = "the journal cannot be written, so nothing was learned: No space left on device"
    assert [a["error"] for a in (answers[0], *answers[1], answers[2])] == [text] * 4
    assert (server._learning.finished.state, server._events._journal.size) == (state, size)
    full[0] = False
    assert said(server, row(2.0, id="b"), {"id": "a", "label": 1.0})[1] == {
        "id": "a", "learned": True
    }  # fmt: skip
    assert server.figures()["refused"] == {"journal": 4}


def test_answers_do_not_wait_for_a_renewal(tmp_path, monkeypatch):
    monkeypatch.setattr(Session, "slow", 0.7)
    server = server_of(tmp_path)
    said(server, *(row(float(i)) for i in range(8)))
    times = []
    for i in range(8):  # labels 1, 2, 4 and 8 are slow ones
        for line in ({"id": i, "label": 1.0}, row(0.5), row(1, label="x"), row("x", label=1)):
            began = time.monotonic()
            (answer,) = said(server, line)
            times.append(time.monotonic() - began)
            assert ("error" in answer) == ({"row", "label"} == line.keys())
    assert max(times) < 0.5
    server.close()
    monkeypatch.setattr(Session, "slow", 0.0)
    expected = Session()
    expected.ask([{"x": float(i)} for i in range(8)], range(8))
    for i in range(8):
        expected.learn(i, 1.0)
        expected.ask([{"x": 0.5}], [8 + i])
    server = server_of(tmp_path)
    assert server._learning.finished.state == expected.pipeline.state
    server.close()


def test_what_ends_the_learning_ends_the_server(tmp_path, monkeypatch):
    server = server_of(tmp_path)
    monkeypatch.setattr(Session, "ask", lambda *_: 1 / 0)
    with pytest.raises(RuntimeError, match="the server has ended"):
        said(server, row(1.0))
    server._thread.join()
    with pytest.raises(RuntimeError, match="the server has ended"):
        said(server, row(1.0))
    with pytest.raises(ZeroDivisionError):
        server.close()


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
    labels = ["a", "a", "b", "a", "b", "b"]
    for i, label in enumerate(labels):
        asked = Said(i, "b", True)
        metrics.see({"ids": [i], "rows": [{}]}, [asked])
        metrics.see({"labels": [[i, label]]}, [None])
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
    for i, label in enumerate([1.0, 3.0, 8.0]):
        numbers.see({"ids": [i], "rows": [{}]}, [Said(i, 2.0, True, None, (0.0, 4.0))])
        numbers.see({"labels": [[i, label]]}, [None])
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


def test_a_thousand_clients_at_a_socket(network):
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
        return await asyncio.gather(*map(client, range(200)))

    assert asyncio.run(clients()) == [
        (f"c{i}", {"id": f"c{i}", "learned": True}) for i in range(200)
    ]


def test_a_line_without_an_end_takes_no_memory(network):
    async def client():
        reader, writer = await asyncio.open_unix_connection(network[0])
        for _ in range(100):
            writer.write(b"x" * 10**5)
            await writer.drain()
        writer.write(b"\n" + json.dumps(row(1.0)).encode() + b"\n")
        found = json.loads(await reader.readline()), json.loads(await reader.readline())
        writer.close()
        return found

    long, right = asyncio.run(client())
    assert long["error"] == "a line has at most 1,048,576 bytes"
    assert right["prediction"] is not None


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
    assert (status, json.loads(content)) == (200, {"id": 0, "prediction": 1.0, "wanted": True})
    for body, expected in (({"id": 0, "label": 2}, 200), ({"id": 0, "label": 2}, 400)):
        assert asked_by_http(port, "POST", "/learn", json.dumps(body))[0] == expected
    assert asked_by_http(port, "GET", "/health") == (200, '{"healthy": true}\n')
    status, content = asked_by_http(port, "GET", "/metrics")
    assert status == 200
    assert "jaxmkl_rows_total 1\n" in content
    assert asked_by_http(port, "GET", "/other")[0] == 404
    assert asked_by_http(port, "GET", "/health", token="0123456789abcdeg")[0] == 401
    assert asked_by_http(port, "POST", "/ask", b"", **{"Content-Length": "9" * 8})[0] == 413
    assert asked_by_http(port, "POST", "/ask", b"x" * 10**6)[0] == 400


def test_the_journal_is_replaced_whole(tmp_path, monkeypatch):
    with Journal(tmp_path / "j", {"model": "a"}) as journal:
        journal.append({"forget": 1}, {"forget": 2})
        journal.events[:] = [{"forget": 2}]
        monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no")))
        with pytest.raises(OSError, match="no"):
            journal.replace({"model": "a", "snapshot": 1})
        monkeypatch.undo()
        journal.append({"forget": 3})
        journal.events[:] = [{"forget": 3}]
        journal.replace({"model": "a", "snapshot": 2})
        journal.append({"forget": 4})
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


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "name a PIPELINE, or a table with --like"),
        (["p", "--like", "t"], "and not both"),
        (["p", "--host", "0.0.0.0"], "--host: name the port, too"),
        (["p", "--host", "0.0.0.0", "--port", "0"], "--token-file FILE is needed, too"),
        (["p", "--port", "0", "--token-file", "token"], "one line of at least 16 bytes"),
        (["p", "--journal", "p"], "--journal: p is also named by PIPELINE"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_be_met_is_refused(arguments, reason, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text("short")
    (tmp_path / "p").write_text("")
    assert main(["serve", *arguments]) == 2
    assert reason in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"token", "p"}


def test_labels_are_read_as_in_a_table():
    of_classes = label_reader(SimpleNamespace(classes=("1", "2", "tree")))
    assert [of_classes(label) for label in (1, 1.0, "2", "tree")] == ["1", "1", "2", "tree"]
    of_numbers = label_reader(SimpleNamespace(classes=()))
    assert [of_numbers(label) for label in (1, "2.5", True)] == [1.0, 2.5, 1.0]
    for read, labels in (
        (of_classes, ("oak", 3, True)),
        (of_numbers, ("x", "nan", 1e300, 10**400)),
    ):
        for label in labels:
            with pytest.raises(ValueError, match=r"is not (one of the classes|a number)"):
                read(label)
