"""The prediction of a row never depends on its label or on later ones, on any path."""

import dataclasses
import inspect
import json

import jax
import numpy as np
import polars as pl
import pytest

import jaxmkl
from jaxmkl import wrappers
from jaxmkl.cli import main
from jaxmkl.cli.sessions.journal import Journal
from jaxmkl.cli.sessions.questions import Labelling, Rows, asking
from jaxmkl.sklearn import MKLRegressor
from jaxmkl.tables import Columns, Pipeline, Seen, open_table, source
from jaxmkl.tables._target import Target
from jaxmkl.wrappers import RunningMoments, layers
from tests.common.marks import long

SMALL_PROGRAMS = True
KERNELS = jaxmkl.Gaussian([0.5, 2.0])
ROWS, CUT, LATE = 40, 25, 3
CHANGED = (4, 30)  # rows from which on labels are others; of files the first 4 have none
SMALL = ("--learner", "raker", "--set", "num_features=3", "--first", "20")
SEVERAL = ("--learner", "raker,amkl_aks")
KINDS = "expert_mkl,kernel_ogd,omkl_b"  # of numbers, besides SMALL
DELAYED = ("--delay", str(LATE))
SMALL_DELAYED = (*SMALL, *DELAYED)


def stream(changed=ROWS):
    """Inputs, and labels far from 0 that are others from the row ``changed`` on."""
    X = np.random.default_rng(0).normal(size=(ROWS, 2)).round(3)
    y = (1e4 + 3 * np.sin(X[:, 0])).round(3)
    return X, np.where(np.arange(ROWS) < changed, y, 7 - 3 * y[::-1])


def inside(**options):
    return jaxmkl.raker(KERNELS, num_features=3, **options)


def around(learner):
    """All that stands around learners of numbers, but late labels."""
    learner = wrappers.lagged(jaxmkl.scaled(learner, RunningMoments()), 2, 1)
    return wrappers.label_budget(wrappers.intervals(wrappers.scaled_targets(learner, 5.0)), 25)


def of_classes():
    several = wrappers.one_vs_rest(inside(loss="logistic"), 3)
    return wrappers.probabilities(jaxmkl.scaled(several, RunningMoments()))


LEARNERS = {
    "numbers": lambda: around(inside()),
    "numbers, some of the labels": lambda: around(inside(query=jaxmkl.query.Rate(0.3))),
    "numbers, late": lambda: wrappers.delayed(around(inside()), LATE),
    "numbers, a distribution": lambda: wrappers.intervals(wrappers.predictive(inside())),
    "classes": of_classes,
}


def test_every_wrapper_is_run():
    used = {type(layer) for make in LEARNERS.values() for layer in layers(make())}
    known = {
        type_ for _, type_ in inspect.getmembers(wrappers, inspect.isclass)
        if issubclass(type_, wrappers.Wrapper)
    }  # fmt: skip
    known -= {wrappers.Wrapper, wrappers.OnBlocks, wrappers.OneByOne}
    assert known <= used


def recorded(output):
    """All but the loss, which is of the label."""
    return output._replace(loss=output.prediction)


def by_run(make, X, y):
    learner = make()
    if learner.task == "classification":
        y = np.digitize(y, (9_998.0, 10_001.0)).astype(float)
    state = learner.init(jax.random.key(0), X.shape[1])
    return learner, state, X.astype(np.float32), y.astype(np.float32)


def rows_of(outputs):
    """A row's numbers in a line (T, ...)."""
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(outputs)]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


# the contract has each of the others by itself, in runs
@pytest.mark.slow
@pytest.mark.parametrize("name", long(["numbers"], LEARNERS))
def test_run_and_stream(name):
    late = LATE if "late" in name else 0

    def both(changed):
        learner, state, X, y = by_run(LEARNERS[name], *stream(changed))
        whole = jaxmkl.run(learner, state, X, y, block_size=8, record=recorded)[1]
        gaps = np.where(np.arange(ROWS) < 4, np.nan, y)
        chunks = [(X[i : i + 8], gaps[i : i + 8]) for i in range(0, ROWS, 8)]
        parts = jaxmkl.stream(learner, state, chunks, block_size=8, record=recorded, gaps=True)
        return rows_of(whole), np.concatenate([rows_of(outputs) for _, outputs in parts])

    before = both(ROWS)
    for changed in CHANGED:
        for one, other in zip(before, both(changed), strict=True):
            same = changed + 1 + late
            np.testing.assert_array_equal(other[:same], one[:same])
            if changed == CHANGED[0]:
                assert (other[same:] != one[same:]).any()


@pytest.mark.slow
def test_sklearn():
    """Chunks of 4 rows, predicted before they are learned; the first is not predicted."""

    def said(changed):
        (X, y), found = stream(changed), []
        estimator = MKLRegressor("raker", kernels=KERNELS, num_features=3, random_state=0)
        for start in range(0, ROWS, 4):
            part = slice(start, start + 4)
            if start:
                found.append(estimator.predict(X[part]))
            estimator.partial_fit(X[part], y[part])
        return np.concatenate(found)

    changed = CHANGED[0]
    np.testing.assert_array_equal(said(changed)[:changed], said(ROWS)[:changed])


@pytest.mark.slow
def test_ask(tmp_path):
    def said(changed):
        X, y = stream(changed)
        chunk = next(open_table(pl.DataFrame(X, ["a", "b"])).chunks(ROWS))
        columns = Columns.decide(chunk, supervised=False)
        columns = dataclasses.replace(columns, target=Target("y", "regression"))
        rows = Rows(chunk, columns)
        learner = wrappers.scaled_targets(inside())
        start = learner.init(jax.random.key(0), 2)
        found = []
        with Journal(tmp_path / f"{changed}.journal", {}) as journal:
            begun = Pipeline(learner, start, columns, rows.fills, seen=Seen.nothing(0))
            labelling = Labelling(rows, asking(begun, rows, 1.0), journal, ROWS)
            while (item := labelling.ask()) is not None:
                found.append(labelling.said(item))
                labelling.answer(item, float(y[rows.places[item]]))
        return found

    before = said(ROWS)
    assert before[0]["prediction"] == 0
    assert before[1]["prediction"] == stream()[1][0]
    for changed in CHANGED:
        assert said(changed)[: changed + 1] == before[: changed + 1]


def written(path, X, y, unlabelled=4):
    labels = ["" if i < unlabelled else f"{label:.3f}" for i, label in enumerate(y)]
    lines = [f"{a},{b},{label}" for (a, b), label in zip(X, labels, strict=True)]
    path.write_text("\n".join(["a,b,y", *lines]) + "\n")


def said_by_command(folder, changed, options, parts):
    """The learners' predictions of each row, and the figures of the last part."""
    X, y = stream(changed)
    table, said, out = (folder / name for name in ("t.csv", "said.csv", "run.json"))
    command = ["run", str(table), "--predictions", str(said), "--json", str(out)]
    begin = [*command, *SMALL, *options]
    kept = folder / f"{changed}"
    if parts == "--checkpoint":
        begin += [parts, str(kept)]
        after = begin
    else:
        after = [*command, parts, str(kept), "--skip", str(CUT), *options]
        begin += ["--save", str(kept), "--learner", "raker"]
    written(table, X[:CUT], y[:CUT])
    assert main(begin) == 0
    before = said.read_text().splitlines()[1:]
    written(table, X, y)
    assert main(after) == 0
    later = said.read_text().splitlines()[1:]
    lines = later if parts == "--checkpoint" else before + later
    return lines, json.loads(out.read_text())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "parts", "judged_from"),
    [
        (DELAYED, "--checkpoint", 6 + LATE),
        (DELAYED, "--from", 1),
        pytest.param((*DELAYED, *SEVERAL), "--checkpoint", 6 + LATE, marks=pytest.mark.endless),
        pytest.param(("--labels", "0.3"), "--checkpoint", 6, marks=pytest.mark.endless),
    ],
)
def test_command(options, parts, judged_from, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(source, "ROWS", 16)
    late = LATE if "--delay" in options else 0
    lines, found = said_by_command(tmp_path, ROWS, options, parts)
    assert found["judged_from"] == judged_from
    for changed in CHANGED:
        others, _ = said_by_command(tmp_path, changed, options, parts)
        same = changed + 1 + late
        predictions = ([line.rsplit(",", 1)[0] for line in of[:same]] for of in (lines, others))
        assert next(predictions) == next(predictions)
        assert others[same:] != lines[same:]


def errors_of(found):
    """Mean squared errors by learner or baseline."""
    return {row["name"]: row["metrics"]["mse"][0] for row in found["table"]}


@pytest.mark.slow
def test_baselines_know_what_the_model_knows(tmp_path, capsys):
    """After a pipeline, labels late: against NumPy, which counts all labels that had come."""
    _, found = said_by_command(tmp_path, ROWS, DELAYED, "--from")
    y, rows = stream()[1], np.arange(CUT, ROWS)
    # the pipeline is saved with all labels; later ones come late again
    known = np.maximum(CUT, rows - LATE)
    last, mean = y[known - 1], [y[4:end].mean() for end in known]
    errors = errors_of(found)
    assert errors["last label"] == pytest.approx(np.square(last - y[CUT:]).mean(), rel=1e-4)
    assert errors["mean so far"] == pytest.approx(np.square(mean - y[CUT:]).mean(), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        SMALL_DELAYED,
        pytest.param(("--labels", "0.1", "--delay", "20"), marks=pytest.mark.endless),
        pytest.param(("--learner", KINDS, "--seeds", "2"), marks=pytest.mark.endless),
    ],
)
def test_no_learner_has_skill_where_there_is_no_signal(options, tmp_path, monkeypatch, capsys):
    if options is SMALL_DELAYED:  # by the programs of other tests
        monkeypatch.setattr(source, "ROWS", 16)
    draws = np.random.default_rng(1)
    X, noise = draws.normal(size=(600, 2)).round(6), draws.normal(size=600)
    table, out = tmp_path / "t.csv", tmp_path / "run.json"
    errors = {}
    for location in (0.0, 290.0, 10_000.0):
        frame = pl.DataFrame(X, ["a", "b"]).with_columns(y=location + noise)
        frame.write_csv(table)
        assert main(["run", str(table), *options, "--json", str(out)]) == 0
        found = json.loads(out.read_text())
        errors[location] = errors_of(found)
        for row in found["table"]:
            assert row["is_baseline"] or row["metrics"]["skill"][0] < 0.02, row
    # where the target lies changes no more than rounding
    for name, error in errors[0.0].items():
        assert [of[name] for of in errors.values()] == pytest.approx([error] * 3, rel=0.01)
