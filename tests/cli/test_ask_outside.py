"""The command from outside: a person at a pseudo-terminal, a process that is killed at random."""

import contextlib
import csv
import json
import os
import pty
import random
import select
import subprocess
import sys
import threading
import time

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
    """Programs are kept from one start to the next, and are small."""
    small = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "COLUMNS": "100"}
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), **small}


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
        """The output up to this text, since the last text that was waited for."""
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
    path, pipeline = tmp_path / "plants.csv", tmp_path / "m"
    frame = plants(12)
    frame.write_csv(path)
    arguments = [str(path), "--target", "kind", "--budget", "6", *SMALL, "--save", str(pipeline)]

    one = Terminal(arguments, environment)
    shown = one.waits_for("u undo, q quit] ")
    assert str(frame["height"][6]) in shown
    assert "line 8, 0 labels so far, at most 6 to come" in shown
    assert "% sure" in shown
    assert "[1 bush, 2 tree; s skip," in shown
    for key, text in (
        ("1", "line 9"), ("x", "'x' is not one of the keys 1, 2, s, u, q; again: "),
        ("\x1b", "is not one of the keys"), ("2", "line 10"), ("s", "line 11"), ("u", "line 10"),
        ("u", "line 9"), ("1", "line 10"),
    ):  # fmt: skip
        one.types(key)
        one.waits_for(text)
    one.waits_for("q quit] ")
    one.types("q")
    assert one.ends() == 0
    assert "2 labels" in one.shown
    assert "to continue: jaxmkl ask" in one.shown
    journal = tmp_path / "plants.labels.csv.journal"
    # the question for line 10 stays when the second answer is undone and given again
    expected = ["ask", "answer", "ask", "answer", "ask", "skip", "ask", "undo", "undo", "answer"]
    assert [next(iter(event)) for event in events_of(journal)] == [*expected, "ask"]

    two = Terminal(arguments, environment)  # another day
    for key, text in (
        ("", "line 10"), ("2", "line 11"), ("2", "line 12"), ("1", "line 13"),
        ("2", "6 labels; no question is left"),
    ):  # fmt: skip
        two.types(key)
        two.waits_for(text)
        if text.startswith("line"):
            two.waits_for("q quit] ")
    assert two.ends() == 0
    labelled = table_of(tmp_path / "plants.labels.csv")
    answers = ["bush", "bush", "tree", "tree", "bush", "tree"]
    assert [row["kind"] for row in labelled] == [*frame["kind"][:6], *answers]
    assert [float(row["height"]) for row in labelled] == frame["height"].to_list()
    assert jaxmkl.load_pipeline(pipeline).rows == 12


@pytest.mark.endless
def test_a_person_types_numbers(tmp_path, environment):
    path = tmp_path / "n.csv"
    rows = numbers(6)
    rows.chunk.frame.write_csv(path)
    person = Terminal([str(path), *SMALL], environment)
    for typed, text in (
        ("", "± "), ("2.5\r", "line 6"), ("two\r", "'two' is not a number that can be learned"),
        ("u\r", "line 5"), ("-3\r", "line 6"), ("\x04", "1 labels"),
    ):  # fmt: skip
        person.types(typed)
        person.waits_for(text)
    assert person.ends() == 0
    labelled = table_of(tmp_path / "n.labels.csv")
    assert [float(row["y"]) for row in labelled] == [*rows.chunk.frame["y"][:3], -3.0]

    interrupted = Terminal([str(path), *SMALL], environment)
    interrupted.waits_for("± ")
    interrupted.types("\x03")
    interrupted.waits_for("1 labels")
    assert interrupted.ends() == 0


def sitting(line, environment, draws, seconds):
    """Answer what is asked, until the command ends or is killed so long after the first question.

    Returns the exit status, what it wrote to standard error, and its whole lines.
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(line, text=True, env=environment, **pipes)
    timer, said, waiting = threading.Timer(seconds, process.kill), [], []
    for text in process.stdout:
        if not text.endswith("\n"):  # killed amid it
            break
        said.append(json.loads(text))
        if "row" in said[-1]:
            waiting.append(said[-1]["item"])
            if seconds and timer.ident is None:
                timer.start()
        if waiting:
            item = waiting.pop(draws.randrange(len(waiting)))
            answer = json.dumps({"item": item, "label": ["tree", "bush"][item % 2]}) + "\n"
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(answer * draws.choice([1, 1, 1, 2]))  # some twice
                process.stdin.flush()
    timer.cancel()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    error = process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    return process.wait(), error, said


@pytest.mark.endless
@pytest.mark.parametrize("times", [2, 4])
def test_nothing_is_lost_when_killed_at_random_moments(tmp_path, environment, times):
    draws, budget = random.Random(1), 40
    path = tmp_path / "plants.csv"
    plants(90, known=4).write_csv(path)
    line = [*COMMAND, str(path), "--target", "kind", "--jsonl", "--budget", str(budget), *SMALL]
    said, kills, status = [], 0, -9
    while status:
        # the last one is not killed
        seconds = draws.uniform(0.05, 0.6) if kills < times else 0
        status, error, lines = sitting([*line, "--ahead", "6"], environment, draws, seconds)
        assert status in (0, -9), error
        said += lines
        kills += status != 0
    assert kills >= min(times, 3)
    events = events_of(tmp_path / "plants.labels.csv.journal")
    answered = {event["answer"]: event["label"] for event in events if "answer" in event}
    assert sum("answer" in event for event in events) == len(answered) == budget
    assert answered == {item: ["tree", "bush"][item % 2] for item in answered}
    kept = [(one["item"], one["kept"]) for one in said if "kept" in one]
    assert len(kept) == len(set(kept))
    assert set(kept) <= answered.items()
    refused = {(one["item"], one["refused"]) for one in said if "refused" in one}
    assert refused <= {(i, f"answered before, as {label!r}") for i, label in answered.items()}
    questions = [event["ask"] for event in events if "ask" in event]
    assert sorted(questions) == sorted(answered)
    assert {one["item"] for one in said if "row" in one} == set(questions)
    assert said[-1] == {"labels": budget, "waiting": []}
    assert len(table_of(tmp_path / "plants.labels.csv")) == budget + 4
