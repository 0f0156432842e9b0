"""The command from outside: a person at a pseudo-terminal, a process that is killed at random."""

import contextlib
import csv
import json
import os
import pty
import queue
import random
import select
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from test_ask import numbers, plants

import jaxmkl

pytestmark = pytest.mark.slow
COMMAND = [sys.executable, "-m", "jaxmkl", "ask"]
SMALL = ["--learner", "raker", "--set", "num_features=3"]
PATIENCE = 60.0  # seconds
# what a key means, as Ctrl-C, a terminal tells the session that it controls
IN_CONTROL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def environment(tmp_path):
    """Programs are kept from one start to the next."""
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "COLUMNS": "100"}


class Terminal:
    """A person at the command: waits for what is shown, and types."""

    def __init__(self, arguments, environment):
        self._end, theirs = pty.openpty()
        command = [sys.executable, "-c", IN_CONTROL, *COMMAND, *arguments]
        ends = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
        self._process = subprocess.Popen(command, env=environment, start_new_session=True, **ends)
        os.close(theirs)
        self.shown = ""

    def waits_for(self, text):
        """What was shown up to this text, since the last that was waited for."""
        began = time.monotonic()
        while text not in self.shown:
            assert time.monotonic() - began < PATIENCE, f"no {text!r} in {self.shown!r}"
            if select.select([self._end], [], [], 1.0)[0]:
                self.shown += os.read(self._end, 4096).decode()
        before, self.shown = self.shown.split(text, 1)
        return before

    def types(self, text):
        os.write(self._end, text.encode())

    def ends(self):
        """The exit status, once all was read."""
        try:
            while part := os.read(self._end, 4096):
                self.shown += part.decode()
        except OSError:  # the other end is closed
            pass
        os.close(self._end)
        return self._process.wait()


def table_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def events_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


def test_a_person_answers_skips_undoes_quits_and_resumes(tmp_path, environment):
    path, model = tmp_path / "plants.csv", tmp_path / "m"
    frame = plants(12)
    frame.write_csv(path)
    arguments = [str(path), "--target", "kind", "--budget", "6", *SMALL, "--save", str(model)]

    one = Terminal(arguments, environment)
    shown = one.waits_for("u undo, q quit] ")
    assert str(frame["height"][6]) in shown
    assert "line 8, 0 labels so far, at most 6 to come" in shown
    assert "% sure" in shown
    assert "[1 bush, 2 tree; s skip," in shown
    for key, text in (
        ("1", "line 9"), ("x", "'x' is none of the keys 1, 2, s, u, q; again: "),
        ("\x1b", "is none of the keys"), ("2", "line 10"), ("s", "line 11"), ("u", "line 10"),
        ("u", "line 9"), ("1", "line 10"),
    ):  # fmt: skip
        one.types(key)
        one.waits_for(text)
    one.waits_for("q quit] ")
    one.types("q")
    assert one.ends() == 0
    assert "2 labels" in one.shown
    assert "to go on: jaxmkl ask" in one.shown
    journal = tmp_path / "plants.labels.csv.journal"
    # the question for line 10 stays when the second answer is undone and given again
    expected = ["ask", "answer", "ask", "answer", "ask", "skip", "ask", "undo", "undo", "answer"]
    assert [next(iter(event)) for event in events_of(journal)] == [*expected, "ask"]

    two = Terminal(arguments, environment)  # another day
    for key, text in (("", "line 10"), ("2", "line 11"), ("2", "line 12"), ("\x03", "4 labels")):
        two.types(key)
        two.waits_for(text)
        if text.startswith("line"):
            two.waits_for("q quit] ")
    assert two.ends() == 0

    three = Terminal(arguments, environment)
    three.waits_for("line 12")
    three.waits_for("q quit] ")
    three.types("1")
    three.waits_for("line 13")
    three.types("2")
    three.waits_for("6 labels; all is asked")
    assert three.ends() == 0
    labelled = table_of(tmp_path / "plants.labels.csv")
    answers = ["bush", "bush", "tree", "tree", "bush", "tree"]
    assert [row["kind"] for row in labelled] == [*frame["kind"][:6], *answers]
    assert [float(row["height"]) for row in labelled] == frame["height"].to_list()
    assert jaxmkl.load_model(model).rows == 12


def test_a_person_types_numbers(tmp_path, environment):
    path = tmp_path / "n.csv"
    rows = numbers(6)
    rows.chunk.frame.write_csv(path)
    person = Terminal([str(path), *SMALL], environment)
    for typed, text in (
        ("", "± "), ("2.5\r", "line 6"), ("two\r", "'two' is no number that can be learned"),
        ("u\r", "line 5"), ("-3\r", "line 6"), ("\x04", "1 labels"),
    ):  # fmt: skip
        person.types(typed)
        person.waits_for(text)
    assert person.ends() == 0
    labelled = table_of(tmp_path / "n.labels.csv")
    assert [float(row["y"]) for row in labelled] == [*rows.chunk.frame["y"][:3], -3.0]


class Process:
    """A process at the other end, which may kill the command."""

    def __init__(self, arguments, environment):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [*COMMAND, *arguments]
        self.command = subprocess.Popen(command, text=True, env=environment, **pipes)
        self.lines = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.command.stdout:
            if line.endswith("\n"):
                self.lines.put(json.loads(line))
        self.lines.put(None)

    def says(self, item, label):
        self.command.stdin.write(json.dumps({"item": item, "label": label}) + "\n")
        self.command.stdin.flush()

    def ends(self):
        """The exit status and what went to standard error."""
        self.lines.put(None)
        error = self.command.stderr.read()
        with contextlib.suppress(BrokenPipeError):  # killed with a line on its way
            self.command.stdin.close()
        status = self.command.wait()
        self._reader.join()
        for pipe in (self.command.stdout, self.command.stderr):
            pipe.close()
        return status, error


def test_nothing_is_lost_when_killed_at_random_moments(tmp_path, environment):
    draws, budget = random.Random(1), 40
    path = tmp_path / "plants.csv"
    plants(90, known=4).write_csv(path)
    arguments = [str(path), "--target", "kind", "--jsonl", "--budget", str(budget), "--ahead", "6"]
    kept, asked, kills, done = {}, set(), 0, False
    journal = tmp_path / "plants.labels.csv.journal"
    while not done:
        process, waiting = Process([*arguments, *SMALL], environment), []
        timer = threading.Timer(draws.uniform(0.05, 1.5), process.command.kill)
        try:
            while (line := process.lines.get(timeout=PATIENCE)) is not None:
                if "row" in line:
                    if kills < 8 and timer.ident is None:  # from the first question on
                        timer.start()
                    asked.add(line["item"])
                    waiting.append(line["item"])
                elif "labels" in line:
                    assert line["waiting"] == []
                elif "kept" in line:
                    assert line["item"] not in kept
                    kept[line["item"]] = line["kept"]
                else:  # refused: it was kept, and the process killed before it could say so
                    before = line["refused"].removeprefix("answered before, as ")
                    assert line["refused"] != before
                    kept.setdefault(line["item"], before.strip("'"))
                    assert kept[line["item"]] == before.strip("'")
                while waiting and (len(waiting) > 3 or process.lines.empty()):
                    item = waiting.pop(draws.randrange(len(waiting)))
                    label = ["tree", "bush"][item % 2]
                    for _ in range(draws.choice([1, 1, 1, 2])):  # some twice
                        process.says(item, label)
        except BrokenPipeError:
            pass
        timer.cancel()
        status, error = process.ends()
        assert status in (0, -9), error
        done = status == 0  # it may be killed behind its last line, too
        while (line := process.lines.get()) is not None:  # said before the end, not read yet
            if "kept" in line:
                kept[line["item"]] = line["kept"]
        kills += not done
    assert kills >= 4
    events = events_of(journal)
    answered = {event["answer"]: event["label"] for event in events if "answer" in event}
    assert sum("answer" in event for event in events) == len(answered) == budget
    assert kept.items() <= answered.items()
    assert all(label == ["tree", "bush"][item % 2] for item, label in answered.items())
    questions = [event["ask"] for event in events if "ask" in event]
    assert len(questions) == len(set(questions)) == budget
    assert asked <= set(questions)
    labelled = table_of(tmp_path / "plants.labels.csv")
    assert len(labelled) == budget + 4
    assert np.array_equal(sorted(answered), sorted(questions))
