"""The command serve from outside: clients at a socket, and a server that is killed at random."""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from jaxmkl.cli.sessions.journal import Journal
from jaxmkl.tables import load_pipeline
from tests.common.trees import assert_equal

pytestmark = pytest.mark.slow
COMMAND = [sys.executable, "-m", "jaxmkl", "serve"]
SMALL = ["--learner", "raker", "--set", "num_features=3"]


def truth(row):
    return float(np.sin(row["a"]) * row["b"])


def environment(tmp_path):
    """Programs are kept from one start to the next, and are small."""
    small = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return {**os.environ, **small, "PYTHONPATH": str(Path(__file__).parents[2])}


@pytest.fixture
def begun(tmp_path):
    """Starts the server of a table, and waits until it answers."""
    draws = np.random.default_rng(0)
    a, b = draws.normal(size=(2, 50))
    pl.DataFrame({"a": a, "b": b, "y": np.sin(a) * b}).write_csv(tmp_path / "t.csv")
    line, small = [*COMMAND, "--like", "t.csv", *SMALL, "--socket", "s"], environment(tmp_path)
    with contextlib.ExitStack() as stack:

        def begin():
            process = subprocess.Popen(line, cwd=tmp_path, env=small, stderr=subprocess.PIPE)
            stack.enter_context(process)
            stack.callback(process.kill)
            while b"answers at s" not in (said := process.stderr.readline()):
                assert process.poll() is None, said
            return process

        yield begin


class Client(threading.Thread):
    """Asks and labels, late and in any order; what has no answer after a kill is asked again."""

    def __init__(self, number, path, rows, largest):
        super().__init__(daemon=True)
        self._draws, self._number, self._path = random.Random(number), number, path
        self._rows, self._largest = rows, largest
        self.asked, self.learned, self._waiting = set(), set(), {}

    def run(self):
        while len(self.learned) < self._rows:
            with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as end:
                end.connect(str(self._path))
                self._talk(end.makefile("rwb"))
            time.sleep(0.05)

    def _talk(self, file):
        while len(self.learned) < self._rows:
            lines, first = [], len(self.asked)
            for i in range(first, min(self._rows, first + self._draws.randint(1, self._largest))):
                row = {"a": self._draws.gauss(0, 1), "b": self._draws.gauss(0, 1)}
                lines.append({"row": row, "id": f"{self._number}-{i}"})
            wait = sorted(self._waiting)
            late = min(len(wait) // 2, self._largest) if lines else min(len(wait), 1000)
            known = self._draws.sample(wait, late)
            lines += [{"id": own, "label": self._waiting[own]} for own in known]
            file.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            file.flush()
            for line in lines:
                self._note(line, json.loads(file.readline()))

    def _note(self, line, answer):
        own = line["id"]
        assert answer["id"] == own
        if "row" in line:
            # before the kill it was journaled, or it was not
            assert "prediction" in answer or "waits for its label already" in answer["error"]
            self.asked.add(own)
            self._waiting[own] = truth(line["row"])
        else:
            assert "learned" in answer or "no row with the id" in answer["error"]
            self.learned.add(own)
            del self._waiting[own]


class Copies:
    """Links to all the journals of a server, which replaces a long one by what follows."""

    def __init__(self, path):
        self._path, self._each = path, {}

    def look(self):
        with contextlib.suppress(FileNotFoundError):
            copy = self._path.with_name(f"copy{len(self._each)}")
            copy.hardlink_to(self._path)
            if self._each.setdefault(copy.stat().st_ino, copy) != copy:
                copy.unlink()

    def events(self):
        """All events since the first row, in their order."""
        found = {}
        for copy in self._each.values():
            with Journal(copy, {}) as journal:
                number = journal.first.get("snapshot", 0)
                found.update(enumerate(journal.events, number + 1))
        assert [*found] == [*range(1, len(found) + 1)]
        return [*found.values()]


@pytest.mark.parametrize(("rows", "number", "largest", "kills"), [
    (120, 3, 9, 1), pytest.param(25_000, 4, 200, 10, marks=pytest.mark.endless),
])  # fmt: skip
def test_nothing_answered_is_lost_by_a_server_that_is_killed(
    rows, number, largest, kills, begun, tmp_path
):
    process, copies, draws = begun(), Copies(tmp_path / "t.csv.journal"), random.Random(0)
    clients = [Client(each, tmp_path / "s", rows, largest) for each in range(number)]
    for client in clients:
        client.start()
    for kill in range(1, kills + 1):
        if rows < 1000:
            time.sleep(draws.uniform(0.2, 1.0))
        while sum(len(client.learned) for client in clients) < kill * rows // kills:
            copies.look()
            time.sleep(0.01)
        process.kill()
        process.wait()
        copies.look()
        process = begun()
    while any(client.is_alive() for client in clients):
        copies.look()
        time.sleep(0.01)
    assert all(len(client.asked) == len(client.learned) == rows for client in clients)
    assert held_bytes_of(process) < 2**30
    copies.look()
    process.terminate()
    assert process.wait() == 0
    events = copies.events()
    asked = [own for event in events for own in event.get("ids", ())]
    labels = [own for event in events for own, _ in event.get("labels", ())]
    assert set.union(*(client.asked for client in clients)) == set(asked)
    assert set.union(*(client.learned for client in clients)) == set(labels)
    assert len(labels) == len(set(labels)) == number * rows

    # another process that is asked and told the same, in this order, and never killed
    line = [*COMMAND, "--like", "t.csv", *SMALL, "--journal", "other"]
    lines = [
        line
        for event in events
        for line in (
            [event]
            if "ids" in event
            else [{"id": own, "label": label} for own, label in event["labels"]]
        )
    ]
    subprocess.run(
        line, input="".join(f"{json.dumps(line)}\n" for line in lines).encode(), cwd=tmp_path,
        env=environment(tmp_path), check=True, capture_output=True,
    )  # fmt: skip
    one, two = (next(iter(tmp_path.glob(f"{name}.*.npz"))) for name in ("t.csv.journal", "other"))
    assert_equal(load_pipeline(one).state, load_pipeline(two).state)
    assert int(load_pipeline(one).state.round) == number * rows


def held_bytes_of(process):
    """The present memory of another process."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(status.split("VmRSS:")[1].split()[0])
