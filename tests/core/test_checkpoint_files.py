"""Files of checkpoints: whole or not there, and nothing else is taken for one."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from saved_learners import NUM_INPUTS, after_a_while, assert_same, small

import jaxmkl
from jaxmkl.cli import main
from jaxmkl.tables import Columns, open_table

SMALL_PROGRAMS = True


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.npz"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small checkpoint: the bytes of its file, its learner and its state."""
    learner = small("amkl", tolerance=0.1)
    state = after_a_while(learner)
    path = tmp_path_factory.mktemp("saved") / "checkpoint.npz"
    jaxmkl.save(path, learner, state)
    return path.read_bytes(), learner, state


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["checkpoint", "state.ckpt", "a.npz", "ünïcode und Leerzeichen"])
@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["string", "path"])
def test_the_file_is_where_it_was_asked_for(name, kind, tmp_path):
    learner = small()
    state = learner.init(jax.random.key(0), NUM_INPUTS)
    jaxmkl.save(kind(tmp_path / name), learner, state)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert_same(jaxmkl.load(kind(tmp_path / name))[1], state)


def test_a_bare_name_is_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    learner = small()
    jaxmkl.save("checkpoint", learner, learner.init(jax.random.key(0), NUM_INPUTS))
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]


def test_the_file_is_an_ordinary_one(path):
    """Plain arrays in an npz, no pickles; and readable by whom the user's settings say."""
    learner = small()
    state = after_a_while(learner)
    jaxmkl.save(path, learner, state)
    with np.load(path, allow_pickle=False) as archive:
        frequencies = archive["state.models[0].features"]
        header = json.loads(bytes(archive["header"]))
    np.testing.assert_array_equal(frequencies, state.models[0].frequencies)
    assert header["version"] == 5
    ordinary = path.with_name("ordinary")
    ordinary.write_text("")
    assert oct(path.stat().st_mode) == oct(ordinary.stat().st_mode)


def test_the_file_is_written_beside_its_place(path, monkeypatch):
    """From another file system it would be copied, and an interruption leave half of it."""
    moves = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *move: (moves.append(move), replace(*move)))
    learner = small()
    jaxmkl.save(path, learner, learner.init(jax.random.key(0), NUM_INPUTS))
    ((source, target),) = moves
    assert os.path.dirname(source) == os.path.dirname(target) == str(path.parent)
    assert source != target


def test_missing_files_and_folders(path):
    with pytest.raises(FileNotFoundError, match=re.escape(path.name)):
        jaxmkl.load(path)
    learner = small()
    with pytest.raises(FileNotFoundError):
        jaxmkl.save(path.parent / "none" / "x", learner, learner.init(jax.random.key(0), 2))


# Each writes a file that is no checkpoint.
OTHER_FILES = {
    "empty": lambda file: None,
    "text": lambda file: file.write(b"0.1,0.2\n" * 50),
    "archive of text": lambda file: zipfile.ZipFile(file, "w").writestr("a.txt", "a"),
    "npz": lambda file: np.savez(file, X=np.zeros(3)),
    "objects": lambda file: np.savez(file, header=np.array([None])),
    "header of numbers": lambda file: np.savez(file, header=np.arange(3)),
    "header of bytes": lambda file: np.savez(file, header=np.full(4, 255, np.uint8)),
    "header of a list": lambda file: np.savez(file, header=np.frombuffer(b"[1]", np.uint8)),
    "header of another": lambda file: np.savez(file, header=np.frombuffer(b"{}", np.uint8)),
    "npy": lambda file: np.save(file, np.zeros(3)),
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_other_files_are_refused(name, path):
    with path.open("wb") as file:
        OTHER_FILES[name](file)
    with pytest.raises(ValueError, match=rf"load: {re.escape(str(path))}.*checkpoint"):
        jaxmkl.load(path)


def test_truncated_files_are_refused(saved, path):
    content, _, _ = saved
    for length in [*range(0, len(content), 61), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=rf"load: {re.escape(str(path))} is no"):
            jaxmkl.load(path)


def rewritten(content, path, change):
    """The checkpoint with its header and arrays changed."""
    path.write_bytes(content)
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(bytes(arrays["header"]))
    change(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays)


def set_item(key, value):
    return lambda header, arrays: header.__setitem__(key, value)


CHANGES = {
    "newer version": (
        set_item("version", 6),
        "version up to 5; got 'jaxmkl checkpoint' of ver.* 6",
    ),
    "older version": (
        set_item("version", 4),
        r"was written by an older version of jaxmkl.*\(format 4, read is 5\)",
    ),
    "another format": (set_item("format", "tune"), "must be a jaxmkl checkpoint.*got 'tune'"),
    "array missing": (
        lambda header, arrays: arrays.pop("state.aggregate.log_weights"),
        r"the state must be one of the learner's; it lacks \['state\.aggregate\.log_weights'\]",
    ),
    "array too many": (
        lambda header, arrays: arrays.update({"state.more": np.zeros(2, np.float32)}),
        r"and has \['state\.more'\] besides",
    ),
    "array of another shape": (
        lambda header, arrays: arrays.update(
            {"state.aggregate.log_weights": np.zeros(5, np.float32)}
        ),
        r"load: state\.aggregate\.log_weights must have shape \(2,\); got \(5,\)",
    ),
    "array of another type": (
        lambda header, arrays: arrays.update({"state.round": np.zeros((), np.float32)}),
        r"load: state\.round must be int32; got float32",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_contents_are_checked(name, saved, path):
    change, message = CHANGES[name]
    rewritten(saved[0], path, change)
    with pytest.raises(ValueError, match=message):
        jaxmkl.load(path)


def test_rewriting_alone_is_no_damage(saved, path):
    """So the refusals above are due to the changes."""
    rewritten(saved[0], path, lambda header, arrays: None)
    assert_same(jaxmkl.load(path), saved[1:])


# --- like ----------------------------------------------------------------------------------------


def test_like_a_learner_with_other_numbers(saved, path):
    """The checkpoint's numbers are loaded, not those of ``like``."""
    path.write_bytes(saved[0])
    like = small("amkl", tolerance=0.7, step_size=np.float32(0.3), max_skips=jnp.asarray(4.0))
    loaded, state = jaxmkl.load(path, like=like)
    assert_same((loaded, state), saved[1:])
    assert loaded.query.tolerance == 0.1


UNLIKE = {
    "class of a part": (
        lambda: small("raker"),
        [r"learner\.query is Disagreement\(.*in the checkpoint and All\(\) in like"],
    ),
    "class": (
        lambda: jaxmkl.label_budget(small("amkl"), 3),
        [r"learner is MKL\(.*in the checkpoint and LabelBudget\("],
    ),
    "static field": (
        lambda: small("amkl", num_features=7),
        [r"learner\.models\[0\]\.features\.num_features is 3 in the checkpoint and 7 in like"],
    ),
    "shape": (
        lambda: jaxmkl.amkl(jaxmkl.Gaussian((1.0, 2.0, 3.0)), num_features=3),
        [
            r"learner\.models\[0\]\.kernels\.bandwidth has shape \(2,\) in the checkpoint "
            r"and \(3,\) in like"
        ],
    ),
    "number of parts": (
        lambda: dataclasses.replace(small("amkl"), models=2 * small("amkl").models),
        [r"learner\.models has 1 parts in the checkpoint and 2 in like"],
    ),
    "number where there was none": (
        lambda: dataclasses.replace(
            small("amkl"), aggregate=jaxmkl.aggregate.Hedge(1.0, bound=1.0)
        ),
        [r"learner\.aggregate\.bound is None in the checkpoint and 1\.0 in like"],
    ),
    "all at once": (
        lambda: small("omkl_aks", loss="hinge"),
        [
            r"learner\.select is All\(\) in the checkpoint and AdaptiveKernelSelection",
            r"learner\.query is Disagreement",
            r"learner\.loss is Squared\(\) in the checkpoint and Hinge\(\) in like",
            r"learner\.task is 'regression' in the checkpoint and 'classification' in like",
        ],
    ),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_unlike_learners_are_told_apart(name, saved, path):
    make, messages = UNLIKE[name]
    path.write_bytes(saved[0])
    with pytest.raises(ValueError, match="the checkpoint is not like the learner given") as error:
        jaxmkl.load(path, like=make())
    for message in messages:
        assert re.search(message, str(error.value)), str(error.value)
    # the difference is told the other way round too
    other = make()
    jaxmkl.save(path, other, other.init(jax.random.key(0), NUM_INPUTS))
    assert_same(jaxmkl.load(path, like=make())[0], other)
    with pytest.raises(ValueError, match="the checkpoint is not like the learner given"):
        jaxmkl.load(path, like=saved[1])


# --- failures of the device ----------------------------------------------------------------------


@pytest.fixture
def no_device(monkeypatch):
    """JAX as it is on a machine that lacks the device that JAX_PLATFORMS asks for."""

    def fail(*given, **more):
        raise AssertionError  # without a word, as JAX does for some platforms

    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    for name in ("local_devices", "device_put"):
        monkeypatch.setattr(jax, name, fail)
    monkeypatch.setattr(jax.random, "key", fail)


def test_a_file_is_not_called_damaged_for_want_of_a_device(saved, path, no_device):
    path.write_bytes(saved[0])
    with pytest.raises(AssertionError) as raised:
        jaxmkl.load(path)
    (note,) = raised.value.__notes__
    text = "may well be whole: JAX has no device for JAX_PLATFORMS=cuda"
    assert note == f"load: {path} {text}"


@pytest.mark.parametrize("error", [MemoryError("9 GiB"), jax.errors.JaxRuntimeError("no room")])
def test_a_file_is_not_called_damaged_for_want_of_memory(error, saved, path, monkeypatch):
    def fail(*given):
        raise error

    path.write_bytes(saved[0])
    monkeypatch.setattr(jax, "device_put", fail)
    with pytest.raises(type(error)) as raised:
        jaxmkl.load(path)
    assert raised.value is error
    assert "may well be whole" in error.__notes__[0]


@pytest.mark.parametrize("name", ["run", "predict", "ask", "ask a pool", "select", "info"])
def test_a_command_says_that_the_device_is_not_there(name, tmp_path, no_device_for, capsys):
    rows = "".join(f"{i * i % 7},{i % 3}\n" for i in range(40))
    (tmp_path / "t.csv").write_text(f"a,y\n{rows}")
    table, pipeline = str(tmp_path / "t.csv"), str(tmp_path / "p")
    lines = {
        "run": ["run", table, "--json", str(tmp_path / "run.json")],
        "predict": ["predict", pipeline, table, "--out", str(tmp_path / "out.csv")],
        "ask": ["ask", table, "--jsonl"],
        "ask a pool": ["ask", pipeline, "--pool", table, "--jsonl"],
        "select": ["select", table, "--num", "2", "--out", str(tmp_path / "out.csv")],
        "info": ["info", pipeline],
    }
    no_device_for(tmp_path)
    assert main(lines[name]) == 1
    assert capsys.readouterr().err.splitlines()[-1:] == [
        "jaxmkl: JAX has no device for JAX_PLATFORMS=cuda"
    ]
    left = {"t.csv", "p", "t.labels.csv.journal"}
    assert {file.name for file in tmp_path.iterdir()} <= left


@pytest.fixture
def no_device_for(request):
    """A function that saves a pipeline in a folder, and then takes the device away."""

    def act(folder):
        chunk = next(open_table({"a": [1.0, 2.0, 4.0], "y": [0.5, 1.5, 2.0]}).chunks(3))
        columns = Columns.decide(chunk, task="regression")
        learner = jaxmkl.raker(num_features=2)
        state = learner.init(jax.random.key(0), 1)
        made = jaxmkl.Pipeline(learner, state, columns, columns.init())
        jaxmkl.save_pipeline(folder / "p", made)
        request.getfixturevalue("no_device")

    return act


@pytest.mark.endless
@pytest.mark.parametrize("platform", ["cuda", "tpu", "nonsense"])
def test_a_real_command_without_its_device(platform, saved, tmp_path):
    (tmp_path / "p").write_bytes(saved[0])
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{i * i % 7},{i % 3}\n" for i in range(40)))
    for line in (["run", "t.csv"], ["select", "t.csv", "--num", "2"], ["info", "p"]):
        found = subprocess.run(
            [sys.executable, "-m", "jaxmkl", *line],
            env={**os.environ, "JAX_PLATFORMS": platform},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert found.returncode == 1
        said = found.stderr.splitlines()[-1]
        assert said.startswith(f"jaxmkl: JAX has no device for JAX_PLATFORMS={platform}")
