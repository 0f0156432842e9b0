"""Damaged files of pipelines: loaded equal, or refused by a reason; nothing huge, no code."""

import contextlib
import errno
import io
import json
import os
import random
import subprocess
import sys
import textwrap
import tracemalloc
import zipfile

import jax
import numpy as np
import polars as pl
import pytest

import jaxmkl
from jaxmkl.tables import Columns, Pipeline, open_table
from jaxmkl.wrappers import RunningMoments
from tests.common.marks import long
from tests.common.mutations import mutated
from tests.common.trees import assert_equal

SMALL_PROGRAMS = True
pytestmark = pytest.mark.filterwarnings("ignore:not among the columns")
MEBIBYTE = 2**20


def frame():
    draws, n = np.random.default_rng(0), 60
    y = draws.choice(["ash", "elm"], n)
    height = np.where(y == "ash", 2.0, -1.0) + draws.normal(size=n)
    colour = draws.choice(["red", "blue"], n)
    day = [f"2020-01-{1 + i % 28:02}" for i in range(n)]
    note = [f"{i} leaves of {i % 13} sorts" for i in range(n)]
    cells = {"height": height, "colour": colour, "day": day, "note": note, "y": y}
    return pl.DataFrame(cells).with_columns(pl.when(pl.arange(n) % 7 > 0).then("height"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A pipeline and the bytes of its file."""
    chunk = next(open_table(frame()).chunks(100))
    columns = Columns.decide(chunk, "y")
    X, fills = columns.inputs(chunk, columns.init())
    learner = jaxmkl.raker(jaxmkl.Gaussian([1.0, 3.0]), num_features=3, loss="logistic")
    learner = jaxmkl.scaled(learner, RunningMoments())
    state = learner.init(jax.random.key(0), X.shape[1])
    state, _ = jaxmkl.run(learner, state, X, columns.targets(chunk))
    pipeline = Pipeline(learner, state, columns, fills, len(X), "a table")
    jaxmkl.save_pipeline(path := tmp_path_factory.mktemp("saved") / "m", pipeline)
    return pipeline, path.read_bytes()


def members_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(members, **options):
    with zipfile.ZipFile(file := io.BytesIO(), "w", **options) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def npy(array, **options):
    np.save(file := io.BytesIO(), array, **options)
    return file.getvalue()


def header_of(members):
    return json.loads(bytes(np.load(io.BytesIO(members["header.npy"]))))


def with_header(members, text):
    return members | {"header.npy": npy(np.frombuffer(text.encode(), np.uint8))}


ODD = [None, True, 0, -1, 3, 1e400, float("nan"), 10**12, "", "x", "int64", [], [1, "a"], {}]
ODD += [{"array": "state.round", "jax": True}, {"items": [1, 2]}, {"class": "os.system"}]


def places_in(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else items:
        yield from places_in(item, (*path, key))


def changed_json(draws, value):
    """JSON with another value, or none, in some place."""
    path = draws.choice([path for path in places_in(value) if path])
    for key in path[:-1]:
        value = value[key]
    if draws.random() < 0.3:
        del value[path[-1]]
    else:
        value[path[-1]] = draws.choice(ODD)


def changed_header(draws, members):
    header = header_of(members)
    columns = json.loads(header["extra"]["columns"])
    which = draws.choice(["header", "text", "columns", "columns text"])
    if which == "header":
        changed_json(draws, header)
    elif which == "columns":
        changed_json(draws, columns)
        header["extra"]["columns"] = json.dumps(columns)
    elif which == "columns text":
        text = mutated(header["extra"]["columns"].encode(), draws.random())
        header["extra"]["columns"] = text.decode(errors="replace")
    text = json.dumps(header)
    if which == "text":
        text = mutated(text.encode(), draws.random()).decode(errors="replace")
    return with_header(members, text)


def changed_array(draws, members):
    """Another array in the place of one, or none, or a damaged one."""
    name = draws.choice([name for name in members if name != "header.npy"])
    others = [np.zeros(3), np.zeros((), np.int32), np.ones((2, 2), np.float32), np.array(["a"])]
    new = npy(draws.choice(others))
    new = draws.choice([new, mutated(members[name], draws.random()), None])
    return {key: data for key, data in (members | {name: new}).items() if data is not None}


def damaged(content, seed):
    """The file with damaged bytes; or, with sums that are right, with other things in it."""
    draws = random.Random(seed)
    if seed % 3 == 0:
        return mutated(content, seed)
    change = changed_header if seed % 3 == 1 else changed_array
    return archive_of(change(draws, members_of(content)))


def looked_at(path, saved, is_bytes):
    """Load a damaged pipeline; whether it was accepted."""
    try:
        learner, state = jaxmkl.load(path)
        pipeline = jaxmkl.load_pipeline(path)
    except ValueError as error:
        assert len(str(error)) > 10  # noqa: PT017
        return False
    assert_equal(state, pipeline.state)
    assert repr(learner) == repr(pipeline.learner)
    if is_bytes:  # what is loaded is what was saved
        assert_equal(state, saved.state)
        assert pipeline.columns == saved.columns
        assert repr(learner) == repr(saved.learner)
    else:
        # it may know other columns or forms of time, or have parameters of other shapes
        with contextlib.suppress(ValueError, TypeError):
            assert len(pipeline.predict(frame())) == len(frame())
    return True


def run_cases(content, saved, seeds, path):
    accepted, wrong = 0, {}
    for seed in seeds:
        path.write_bytes(damaged(content, seed))
        try:
            accepted += looked_at(path, saved, seed % 3 == 0)
        except BaseException as error:
            wrong[seed] = f"{type(error).__name__}: {error}"[:100]
    assert wrong == {}
    assert 0 < accepted < len(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("number", long([25], [25, 1500]))
def test_damaged_models(number, saved, tmp_path):
    run_cases(saved[1], saved[0], range(number), tmp_path / "m")


# --- what would be huge, or run code -------------------------------------------------------------


class Opens:
    """An object whose pickle would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def claim(shape, descr="<f4"):
    """An npy file that says it holds an array of this shape, and holds four bytes."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(4)


ARRAY = "state.scaler.num_seen.npy"
HUGE = {
    "claim": lambda members: archive_of(members | {ARRAY: claim((10**12,))}),
    "claim of nothing": lambda members: archive_of(members | {ARRAY: claim((10**18,), "|S0")}),
    "negative claim": lambda members: archive_of(members | {ARRAY: claim((-1, -1))}),
    "bomb": lambda members: archive_of(
        members | {ARRAY: claim((10**8 // 4,)) + bytes(10**8 - 4)},
        compression=zipfile.ZIP_DEFLATED,
    ),
    "many": lambda members: archive_of(
        members | {f"state.x{i}.npy": claim((250_000,)) + bytes(10**6 - 4) for i in range(100)},
        compression=zipfile.ZIP_DEFLATED,
    ),
}


@pytest.mark.parametrize("name", HUGE)
def test_nothing_huge_is_made(name, saved, tmp_path):
    (path := tmp_path / "m").write_bytes(HUGE[name](members_of(saved[1])))
    size = path.stat().st_size
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"load: .*m is not a readable checkpoint: .*state\."):
            jaxmkl.load_pipeline(path)
        assert tracemalloc.get_traced_memory()[1] < 10 * size + MEBIBYTE
    finally:
        tracemalloc.stop()


def test_no_code_is_run(saved, tmp_path):
    made = tmp_path / "made"
    harmful = npy(np.array([Opens(made)], object), allow_pickle=True)
    for member in ("header.npy", ARRAY):
        (path := tmp_path / "m").write_bytes(archive_of(members_of(saved[1]) | {member: harmful}))
        with pytest.raises(ValueError, match="holds Python objects, which could run code"):
            jaxmkl.load(path)
        assert not made.exists()
    np.load(io.BytesIO(harmful), allow_pickle=True)  # as it would
    assert made.exists()


# --- a disk that is full -------------------------------------------------------------------------

FULL = """
    import resource, signal, sys
    import jaxmkl

    path, *limits = sys.argv[1:]
    pipeline = jaxmkl.load_pipeline(path)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    for limit in limits:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), most))
        for save, arguments in (
            (jaxmkl.save_pipeline, (path, pipeline)),
            (jaxmkl.save, (path, pipeline.learner, pipeline.state)),
        ):
            try:
                save(*arguments)
            except OSError as error:
                print(error.errno)
"""


@pytest.mark.slow
def test_a_full_disk_leaves_what_was_there(saved, tmp_path):
    """No file of a process may grow beyond some bytes."""
    (path := tmp_path / "m").write_bytes(saved[1])
    limits = [0, 1, 1000, len(saved[1]) // 2]
    command = [sys.executable, "-c", textwrap.dedent(FULL), path, *limits]
    ended = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == 2 * len(limits) * [str(errno.EFBIG)], ended.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["m"]
    assert path.read_bytes() == saved[1]
    assert_equal(jaxmkl.load_pipeline(path).state, saved[0].state)


# --- what could be made by hand ------------------------------------------------------------------


def doubled(members):
    file = io.BytesIO(archive_of(members))
    said = pytest.warns(UserWarning, match="Duplicate")
    with zipfile.ZipFile(file, "a") as archive, said:
        archive.writestr(ARRAY, members[ARRAY])
    return file.getvalue()


def with_field(members, path, value):
    header = header_of(members)
    place = header["learner"]
    for key in path[:-1]:
        place = place["items"][key] if isinstance(key, int) else place["fields"][key]
    place["fields"][path[-1]] = value
    return archive_of(with_header(members, json.dumps(header)))


def with_number(members, name, value):
    array = np.load(io.BytesIO(members[f"{name}.npy"])).copy()
    array.flat[-1] = value
    return archive_of(members | {f"{name}.npy": npy(array)})


def with_endless_fills(members):
    header = header_of(members)
    header["extra"]["fills"][1][0] = float("inf")
    return archive_of(with_header(members, json.dumps(header)))


WEIGHTS = "state.inner.models[0].features"
RULE = "learner", "models", 0, "rules", 0
CRAFTED = {
    "doubled": (doubled, r"holds state\.scaler\.num_seen more than once"),
    "doubled by another name": (
        lambda members: archive_of(members | {ARRAY.removesuffix(".npy"): members[ARRAY]}),
        r"holds state\.scaler\.num_seen more than once",
    ),
    "NaN state": (
        lambda members: with_number(members, WEIGHTS, np.nan),
        r"state\.inner\.models\[0\]\.features must be finite, as it was saved",
    ),
    "infinite state": (
        lambda members: with_number(members, "state.scaler.of_all.mean", -np.inf),
        r"state\.scaler\.of_all\.mean must be finite, as it was saved",
    ),
    "NaN rate": (
        lambda members: with_field(members, (*RULE, "step_sizes"), float("nan")),
        "OGD: step_sizes must be a finite number of at least 0 or several; got nan",
    ),
    "infinite rate": (
        lambda members: with_field(members, (*RULE, "regularization"), float("inf")),
        "OGD: regularization must be a finite number of at least 0",
    ),
    "number for a part": (
        lambda members: with_field(members, ("learner", "query"), 3.0),
        r"MKL: query must be a query.*got 3\.0",
    ),
    "fills": (with_endless_fills, "its fills or counts are not finite"),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_models_are_refused(name, saved, tmp_path):
    make, message = CRAFTED[name]
    (path := tmp_path / "crafted").write_bytes(make(members_of(saved[1])))
    with pytest.raises(ValueError, match=message) as refusal:
        jaxmkl.load_pipeline(path)
    assert str(path) in str(refusal.value)


@pytest.mark.slow
def test_what_is_infinite_for_a_reason_is_loaded(tmp_path):
    """Ranges before the first label; and a run that diverges, as it is."""
    learner = jaxmkl.expert_mkl(jaxmkl.Gaussian([1.0]), num_features=3)
    state = learner.init(jax.random.key(0), 2)
    spoiled = jax.tree.map(lambda leaf: leaf * np.nan, state.models)
    for one in (state, state.replace(models=spoiled)):
        assert not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(one.aggregate))
        jaxmkl.save(tmp_path / "it", learner, one)
        assert_equal(jaxmkl.load(tmp_path / "it")[1], one)
