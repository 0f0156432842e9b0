"""The command serve from outside: clients at a socket, and a server that is killed at random."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from jaxmkl.cli.labelling.journal import Journal
from jaxmkl.tables import load_pipeline
from tests.common.trees import assert_equal

pytestmark = pytest.mark.slow
COMMAND = [sys.executable, "-m", "jaxmkl", "serve"]
SMALL = ["--learner", "raker", "--set", "num_features=3"]
ROWS, CLIENTS = 120, 3


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

    def __init__(self, number, path):
        super().__init__(daemon=True)
        self._draws, self._number, self._path = random.Random(number), number, path
        self.asked, self.learned, self._waiting = {}, {}, []

    def run(self):
        while len(self.learned) < ROWS:
            with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as end:
                end.connect(str(self._path))
                self._talk(end.makefile("rwb"))
            time.sleep(0.05)

    def _talk(self, file):
        while len(self.learned) < ROWS:
            lines = []
            for i in range(
                len(self.asked), min(ROWS, len(self.asked) + self._draws.randint(1, 9))
            ):
                row = {"a": self._draws.gauss(0, 1), "b": self._draws.gauss(0, 1)}
                lines.append({"row": row, "id": f"{self._number}-{i}"})
            self._draws.shuffle(self._waiting)
            late = len(self._waiting) // 2 if lines else len(self._waiting)
            lines += [{"id": own, "label": label} for own, label in self._waiting[:late]]
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
            self.asked[own] = answer
            self._waiting.append((own, truth(line["row"])))
        else:
            assert "learned" in answer or "no row with the id" in answer["error"]
            self.learned[own] = answer
            self._waiting = [one for one in self._waiting if one[0] != own]


def test_nothing_answered_is_lost_by_a_server_that_is_killed(begun, tmp_path):
    process = begun()
    clients = [Client(number, tmp_path / "s") for number in range(CLIENTS)]
    for client in clients:
        client.start()
    draws = random.Random(0)
    for _ in range(2):
        time.sleep(draws.uniform(0.2, 1.0))
        process.kill()
        process.wait()
        process = begun()
    for client in clients:
        client.join(120)
        assert not client.is_alive()
        assert len(client.asked) == len(client.learned) == ROWS
    process.send_signal(signal.SIGSTOP)
    content = (tmp_path / "t.csv.journal").read_bytes()
    process.send_signal(signal.SIGCONT)
    process.terminate()
    assert process.wait() == 0
    (tmp_path / "copy").write_bytes(content)
    with Journal(tmp_path / "copy", {}) as journal:
        events = journal.events
    rows = {
        own: row
        for e in events
        if "ids" in e
        for own, row in zip(e["ids"], e["rows"], strict=True)
    }
    labels = [own for event in events for own, _ in event.get("labels", ())]
    for client in clients:
        assert client.asked.keys() <= rows.keys()
        assert client.learned.keys() <= set(labels)
    assert len(labels) == len(set(labels)) == CLIENTS * ROWS

    # another process that is asked and told the same, in this order, and never killed
    line = [*COMMAND, "--like", "t.csv", *SMALL, "--journal", "other"]
    text = "".join(
        json.dumps(line) + "\n"
        for event in events
        for line in (
            [event]
            if "ids" in event
            else [{"id": own, "label": label} for own, label in event["labels"]]
        )
    )
    subprocess.run(
        line, input=text.encode(), cwd=tmp_path, env=environment(tmp_path), check=True,
        capture_output=True,
    )  # fmt: skip
    one, two = (next(iter(tmp_path.glob(f"{name}.*.npz"))) for name in ("t.csv.journal", "other"))
    assert_equal(load_pipeline(one).state, load_pipeline(two).state)
    assert int(load_pipeline(one).state.round) == CLIENTS * ROWS
