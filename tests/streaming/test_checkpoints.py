"""Checkpoints amid a stream: written when due, the last two kept, read whatever is damaged."""

import contextlib
import errno
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxmkl
from jaxmkl.streaming import Checkpoints, checkpoints
from tests.common.trees import assert_equal

SMALL_PROGRAMS = True
LEARNER = jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=3)
X = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
Y = X[:, 0] * X[:, 1]


def states(sizes=(50, 100, 40, 60, 50)):
    """A state after each chunk."""
    ends = np.cumsum(sizes)
    chunks = [(X[end - size : end], Y[end - size : end]) for size, end in zip(sizes, ends)]  # noqa: B905
    begun = LEARNER.init(jax.random.key(0), num_inputs=2)
    return [state for state, _ in jaxmkl.stream(LEARNER, begun, chunks)]


@pytest.mark.slow
def test_the_last_two_are_kept(tmp_path):
    kept = Checkpoints(tmp_path / "it.npz", examples=100)
    assert kept.latest() is None
    found = states()
    written = [kept.offer(LEARNER, state, extra=[i]) for i, state in enumerate(found)]
    # at 150, 250
    assert written == [False, True, False, True, False]
    assert sorted(os.listdir(tmp_path)) == ["it.npz", "it.npz.before"]
    again = Checkpoints(tmp_path / "it.npz", examples=100)
    learner, state, extra = again.latest(like=LEARNER)
    assert extra == [3]
    assert_equal(state, found[3])
    assert_equal(jaxmkl.load(tmp_path / "it.npz.before")[1], found[1])
    # counted from there on
    assert not again.offer(learner, found[4])


@pytest.mark.slow
def test_by_minutes(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    kept, (state, *_) = Checkpoints(tmp_path / "it.npz", examples=10**6, minutes=2), states()
    written = []
    for now[0] in (60.0, 119.0, 120.0, 200.0, 240.0):
        written.append(kept.offer(LEARNER, state))
    assert written == [False, False, True, False, True]


def test_of_many_runs_the_longest_counts(tmp_path):
    kept = Checkpoints(tmp_path / "it.npz", examples=100)
    init = jax.vmap(lambda key: LEARNER.init(key, num_inputs=2))
    start = init(jax.random.split(jax.random.key(0)))
    rounds = (99, 20), (20, 100), (150, 190), (200, 10)
    written = [kept.offer(LEARNER, start.replace(round=np.int32(both))) for both in rounds]
    assert written == [False, True, False, True]
    assert kept.latest()[1].round.tolist() == [200, 10]


def test_each_one_without_a_limit(tmp_path):
    kept = Checkpoints(tmp_path / "it.npz")
    assert all(kept.offer(LEARNER, state) for state in states())


@pytest.mark.parametrize("damage", ["cut", "gone", "empty"])
def test_of_a_damaged_file_the_one_before(damage, tmp_path):
    kept, found = Checkpoints(tmp_path / "it.npz"), states()
    for state in found[:3]:
        kept.offer(LEARNER, state)
    path = tmp_path / "it.npz"
    if damage == "gone":
        path.unlink()
        assert_equal(kept.latest()[1], found[1])
        return
    path.write_bytes(path.read_bytes()[:-50] if damage == "cut" else b"")
    with pytest.warns(RuntimeWarning, match=r"it\.npz is not a readable.*it\.npz\.before"):
        assert_equal(kept.latest()[1], found[1])
    (tmp_path / "it.npz.before").write_bytes(b"")
    with pytest.raises(ValueError, match=r"it\.npz is not a readable checkpoint"):
        kept.latest()


def test_a_full_disk_leaves_both(tmp_path, monkeypatch):
    kept, found = Checkpoints(tmp_path / "it.npz"), states()
    for state in found[:2]:
        kept.offer(LEARNER, state)

    def full(*given, **named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(np, "savez", full)
        with pytest.raises(OSError, match="No space left"):
            kept.offer(LEARNER, found[2])
    assert sorted(os.listdir(tmp_path)) == ["it.npz", "it.npz.before"]
    assert_equal(kept.latest()[1], found[1])
    assert_equal(jaxmkl.load(kept.before)[1], found[0])


MANY = """
import sys, jax
from streaming.test_checkpoints import LEARNER
from jaxmkl.streaming import Checkpoints
kept, state = Checkpoints(sys.argv[1]), LEARNER.init(jax.random.key(0), num_inputs=2)
print("ready", flush=True)
sys.stdin.read()
for number in range(60):
    kept.offer(LEARNER, state, extra=number)
    assert kept.latest()[2] in range(60)
"""


@pytest.mark.slow
def test_two_programs_with_one_path(tmp_path):
    """The last to write wins; each file is whole."""
    line = [sys.executable, "-c", MANY, str(tmp_path / "it.npz")]
    with contextlib.ExitStack() as stack:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment}
        both = [stack.enter_context(subprocess.Popen(line, **pipes)) for _ in range(2)]
        for process in both:
            assert process.stdout.readline() == b"ready\n"
        for process in both:
            process.stdin.close()
        assert [process.wait() for process in both] == [0, 0]
    assert sorted(os.listdir(tmp_path)) == ["it.npz", "it.npz.before"]
    assert Checkpoints(tmp_path / "it.npz").latest()[2] == 59


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"examples": 0}, "examples must be an integer of at least 1; got 0"),
        ({"minutes": -1.0}, "minutes must be a number of at least 0; got -1.0"),
    ],
)
def test_limits_that_are_none(limits, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        Checkpoints(tmp_path / "it.npz", **limits)
