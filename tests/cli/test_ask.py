"""Questions and answers in process: what is asked next, learned, undone, kept, refused."""

import contextlib
import io
import json
import random
import re
import sys
from argparse import Namespace
from functools import partial
from pathlib import Path

import jax
import numpy as np
import polars as pl
import pytest

import jaxmkl
from jaxmkl.cli import ask, main
from jaxmkl.cli.sessions import questions
from jaxmkl.cli.sessions.journal import Journal
from jaxmkl.cli.sessions.questions import Labelling, Rows, asking, to_be_saved
from jaxmkl.cli.sessions.terminal import keys_of, reply, serve_process
from jaxmkl.evaluate import UsageError
from jaxmkl.query import Rate
from jaxmkl.tables import Columns, Pipeline, Refused, Seen, open_table
from jaxmkl.wrappers import (
    Intervals,
    Probabilities,
    RunningMoments,
    layers,
    probabilities,
    scaled_targets,
)
from tests.common.marks import long
from tests.common.mutations import mutated
from tests.common.trees import assert_equal, begin

SMALL_PROGRAMS = True
KERNELS = jaxmkl.Gaussian([0.5, 2.0])


def plants(n, known=6):
    """Heights and colours of n plants, of which the first ``known`` are named."""
    draws = random.Random(0)
    trees = [draws.random() < 0.5 for _ in range(n)]
    return pl.DataFrame(
        {
            "height": [round(draws.gauss(20 if tree else 10, 3), 2) for tree in trees],
            "colour": [draws.choice(["red", "blue"]) for _ in trees],
            "kind": [
                ("tree" if tree else "bush") if i < known else None for i, tree in enumerate(trees)
            ],
        }
    )


def rows_of(frame, target="kind"):
    chunk = next(open_table(frame).chunks(1000))
    return Rows(chunk, Columns.decide(chunk, target))


def numbers(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    y = np.where(np.arange(n) < 3, X[:, 0], np.nan)
    return rows_of(pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).fill_nan(None), "y")


def learner_of(rows):
    if rows.target.classes:
        K = len(rows.target.classes)
        several = {"num_classes": K} if K > 2 else {}
        inside = jaxmkl.raker(KERNELS, num_features=3, loss="logistic", **several)
        return probabilities(jaxmkl.scaled(inside, RunningMoments()))
    inside = jaxmkl.raker(KERNELS, num_features=3)
    return scaled_targets(jaxmkl.scaled(inside, RunningMoments()))


@partial(jax.jit, static_argnums=0)
def outcome(method, learner, state, *given):
    return getattr(learner, method)(state, *given)


@pytest.fixture
def session(tmp_path):
    """Makes a session; with the same file it goes on."""
    journals = contextlib.ExitStack()

    def make(rows, budget, is_pool=False, ranking=(), path=None):
        journals.close()
        journal = journals.enter_context(Journal(path or tmp_path / "journal", rows.about))
        learner = learner_of(rows)
        state, seen = begin(learner, rows.X.shape[1]), Seen.nothing(len(rows.target.classes))
        begun = Pipeline(learner, state, rows.columns, rows.fills, seen=seen)
        rate = 1.0 if is_pool else min(1.0, budget / (~rows.has_label).sum())
        made = rows, asking(begun, rows, rate), journal, budget
        return Labelling(*made, ranking if is_pool else None)

    with journals:
        yield make


@pytest.fixture
def bare(tmp_path):
    """Makes questions of which none is asked."""
    with contextlib.ExitStack() as journals:

        def make(rows):
            journal = journals.enter_context(Journal(tmp_path / "journal", rows.about))
            learner = learner_of(rows)
            begun = learner, begin(learner, rows.X.shape[1]), rows.columns, rows.fills
            return Labelling(rows, Pipeline(*begun), journal, 0)

        yield make


def same(one, other):
    assert one._replace(session=None) == other._replace(session=None)
    pairs = [(each.session.pipeline, each.session.to_arrays()) for each in (one, other)]
    (one, waits), (other, wait) = pairs
    assert (one.seen, one.rows, waits[0]) == (other.seen, other.rows, wait[0])
    assert_equal((one.state, waits[1]), (other.state, wait[1]))


@pytest.mark.endless
def test_late_answers_are_learned_as_they_come_and_count_when_asked(session):
    rows = rows_of(plants(12))
    labelling = session(rows, 4, is_pool=True, ranking=(10, 8))
    asked = [labelling.ask() for _ in range(6)]
    assert asked[:2] == [10, 8]
    assert None not in asked[:4]
    assert asked[4:] == [None, None]
    assert labelling.remaining == 0
    order = [asked[2], asked[0], asked[3]]
    for item in order:
        assert labelling.answer(item, "tree") == "tree"
    assert labelling.standing.open == [8]

    # by hand: the labels that were there, then the answers in their order
    plain = learner_of(rows)
    state = plain.init(jax.random.key(0), rows.X.shape[1])
    for row in [*range(6), *(item - 1 for item in order)]:
        y = rows.y[row] if row < 6 else 1.0  # a tree
        state = outcome("update", plain, state, rows.X[row], np.float32(y))
    found = labelling.standing.session.pipeline
    assert found.rows == 9
    both = [
        outcome("predict_many", *one, rows.X).value
        for one in ((found.learner, found.state), (plain, state))
    ]
    np.testing.assert_allclose(*both, rtol=1e-5)
    z = float(both[0][3])
    said = labelling.said(4)
    shares = said["probabilities"]
    assert shares["tree"] == pytest.approx(1 / (1 + np.exp(-z)), rel=1e-5)
    assert sum(shares.values()) == pytest.approx(1)
    assert said["prediction"] == ("tree" if z > 0 else "bush")


@pytest.mark.endless
def test_a_pool_is_asked_for_by_the_score_at_that_time(session):
    rows = rows_of(plants(30, known=8))
    labelling, left = session(rows, 30, is_pool=True), set(range(8, 30))
    for _ in range(5):
        now = labelling.standing.session.pipeline
        scores = {
            row: float(outcome("predict", now.learner, now.state, rows.X[row]).score)
            for row in left
        }
        row = labelling.ask() - 1
        assert scores[row] == pytest.approx(max(scores.values()), rel=1e-5)
        left.remove(row)
        labelling.answer(row + 1, random.Random(row).choice(["tree", "bush"]))


def test_a_learner_that_asks_says_how_sure_it_is():
    """Unless it does so already; and it is saved with probabilities, but without intervals."""
    a_number = jaxmkl.raker(KERNELS, num_features=3)
    a_class = jaxmkl.raker(KERNELS, num_features=3, loss="hinge")
    for rows, learner, asks, saved in (
        (numbers(8), a_number, [Intervals, jaxmkl.MKL], [jaxmkl.MKL]),
        (rows_of(plants(8)), a_class, *2 * [[Probabilities, jaxmkl.MKL]]),
        (rows_of(plants(8)), probabilities(a_class), *2 * [[Probabilities, jaxmkl.MKL]]),
    ):
        rows.has_label[:] = False  # so nothing is to be learned
        state, seen = begin(learner, rows.X.shape[1]), Seen.nothing(len(rows.target.classes))
        begun = Pipeline(learner, state, rows.columns, rows.fills, seen=seen)
        found = asking(begun, rows, 0.5)
        *around, inside = layers(found.learner)
        assert [type(layer) for layer in (*around, inside)] == asks
        assert repr(inside.query) == repr(Rate(0.5))
        assert [type(layer) for layer in layers(to_be_saved(found).learner)] == saved


@pytest.mark.endless
def test_of_a_large_pool_some_rows_are_judged(session, monkeypatch):
    monkeypatch.setattr(questions, "MOST", 10)
    rows = rows_of(plants(30, known=8))
    labelling = session(rows, 1, is_pool=True)
    now = labelling.standing.session.pipeline
    scores = [float(outcome("predict", now.learner, now.state, x).score) for x in rows.X[8:]]
    item = labelling.ask()
    assert sorted(scores).index(scores[item - 9]) >= 9


@pytest.mark.endless
def test_questions_are_spread_over_a_table(session):
    rows = numbers(403)
    labelling, places = session(rows, 40), []
    while (item := labelling.ask()) is not None:
        labelling.answer(item, float(rows.X[item - 1, 0]))
        places.append(item - 1)
    assert 36 <= len(places) <= 40
    assert places == sorted(places)
    assert places[0] >= 3
    assert 16 <= sum(place < 203 for place in places) <= 24
    assert labelling.ask() is None
    assert labelling.journal.events[-1] == {"ask": None}
    assert labelling.said(5)["radius"] > 0


@pytest.mark.slow
def test_without_a_budget_every_row_is_asked_for(session):
    labelling = session(rows_of(plants(12)), 6)
    assert [labelling.ask() for _ in range(7)] == [7, 8, 9, 10, 11, 12, None]


@pytest.mark.slow
@pytest.mark.parametrize("is_pool", long([False], [True, False]))
def test_a_journal_cut_anywhere_makes_what_was_then(is_pool, session, tmp_path):
    draws, rows = random.Random(3), rows_of(plants(60, known=3))
    labelling = session(rows, 25, is_pool)
    then = {0: labelling.standing}
    for _ in range(60):
        act = draws.choice(["ask", "ask", "answer", "answer", "skip", "undo"])
        if act in ("answer", "skip") and labelling.standing.open:
            item = draws.choice(labelling.standing.open)
            given = () if act == "skip" else (draws.choice(["tree", "bush"]),)
            getattr(labelling, act)(item, *given)
        elif act == "undo" and labelling.standing.labels:
            labelling.undo()
        elif act == "ask":
            labelling.ask()
        then[len(labelling.journal.events)] = labelling.standing
    kinds = {next(iter(event)) for event in labelling.journal.events}
    assert kinds == {"ask", "answer", "skip", "undo"}
    content = (tmp_path / "journal").read_bytes()
    head = content.index(b"\n") + 1
    for cut in [len(content), head, *(draws.randrange(head, len(content)) for _ in range(3))]:
        (tmp_path / "cut").write_bytes(content[:cut])
        again = session(rows, 25, is_pool, path=tmp_path / "cut")
        number = content[head:cut].count(b"\n")
        assert len(again.journal.events) == number
        same(again.standing, then[number])
        item = again.ask()  # and the file can be gone on with
        more = session(rows, 25, is_pool, path=tmp_path / "cut")
        if item is not None:
            same(more.standing, again.standing)


IMPOSSIBLE = [
    ({"answer": 9, "label": "tree"}, "was not asked for"),
    ({"answer": 7, "label": "oak"}, "'oak' is not one of the classes 'bush', 'tree'"),
    ({"answer": 7}, "'answer' is not a question, answer, skip or undo"),
    ({"skip": "7"}, "the table has no row '7'"),
    ({"ask": 7}, "row 7 was asked for before"),
    ({"ask": 3}, "row 3 has a label in the table"),
    ({"ask": [1]}, r"the table has no row \[1\]"),
    ({"undo": 7}, "nothing is left to undo"),
    ({"what": 7}, "'what' is not a question"),
]


@pytest.mark.slow
@pytest.mark.parametrize("is_pool", long([False], [True, False]))
def test_events_that_cannot_have_happened_are_told_by_line(is_pool, session, tmp_path):
    rows = rows_of(plants(12))
    for place, (event, reason) in enumerate(IMPOSSIBLE):
        path = tmp_path / str(place)
        with Journal(path, rows.about) as journal:
            journal.append({"ask": 7})
            journal.append(event)
        if event == {"ask": 3} and not is_pool:
            reason = "row 3 was asked for before"
        with pytest.raises(ValueError, match=f"{place}, line 3: cannot have happened: {reason}"):
            session(rows, 6, is_pool, path=path)
    with Journal(tmp_path / "last", rows.about) as journal:
        for event in ({"ask": 7}, {"skip": 7}, {"undo": 8}):
            journal.append(event)
    with pytest.raises(ValueError, match=r"line 4: .* 8 is not the last one answered"):
        session(rows, 6, is_pool, path=tmp_path / "last")


@pytest.mark.slow
def test_undo_goes_back_answer_by_answer(session):
    rows = rows_of(plants(12))
    labelling, before = session(rows, 6), []
    for label in ("tree", None, "bush"):
        item = labelling.ask()
        before.append((item, labelling.standing))
        _ = labelling.skip(item) if label is None else labelling.answer(item, label)
    labelling.ask()
    for item, standing in reversed(before):
        labelling.undo()
        assert labelling.standing.open == [item]
        same(labelling.standing, standing)
    with pytest.raises(Refused, match="nothing is left to undo"):
        labelling.undo()


def test_whole_numbers_are_classes_however_they_are_written(bare):
    labelling = bare(rows_of(pl.DataFrame({"x": [1.0, 2.0, 3.0], "kind": [0, 1, None]})))
    assert [labelling.label(answer) for answer in (1, 1.0, "1")] == ["1", "1", "1"]
    for answer in (0.5, 2.0, True, float("nan"), float("inf"), [1]):
        with pytest.raises(Refused, match="is not one of the classes '0', '1'"):
            labelling.label(answer)


@pytest.mark.slow
def test_each_line_is_answered_or_refused(session, monkeypatch):
    rows = rows_of(plants(12))
    labelling, out, flushed = session(rows, 6), io.StringIO(), []
    monkeypatch.setattr(out, "flush", lambda: flushed.append(out.tell()))
    given = [
        '\ufeff{"item": 8, "label": "tree"}',  # as Windows begins a text
        *('{"item": 8, "label": "bush"}', "nonsense", "", "[8]"),
        *('{"item": 7, "label": "oak"}', '{"item": 7, "label": true}', '{"item": 7}'),
        *('{"item": 7, "skip": 1}', '{"item": 7, "skip": true}', '{"item": 7, "label": "tree"}'),
        *('{"item": 12, "label": "tree"}', '{"item": 77, "label": "tree"}', "[" * 100_000),
        *('{"item": true, "label": "tree"}', '{"item": [9], "label": "tree"}'),
        *('{"item": "\\ud800", "label": "tree"}', '{"item": 9, "label": "tree", "more": 1}'),
        json.dumps({"item": 9, "label": "oak" * 10_000}),
    ]
    serve_process(labelling, given, out, ahead=2)
    lines = out.getvalue().splitlines()
    assert flushed == [*np.cumsum([len(line) + 1 for line in lines])]  # a process waits for each
    said = [json.loads(line) for line in lines]
    assert [line["item"] for line in said if "row" in line] == [7, 8, 9, 10]
    assert said[0]["row"] == {"height": rows.chunk.frame["height"][6],
                              "colour": rows.chunk.frame["colour"][6]}  # fmt: skip
    assert set(said[0]["probabilities"]) == {"tree", "bush"}
    # what the help shows is what is printed
    shown = re.findall(r'\{"(?:item|labels)".*?\}+(?=\s)', ask.__doc__, re.DOTALL)
    shown = {tuple(json.loads(line)) for line in shown} - {("item", "label"), ("item", "skip")}
    assert {tuple(line) for line in said} == shown
    answers = [line for line in said[:-1] if "row" not in line]
    assert len(answers) == len(given) - 1
    wanted = [
        *("tree", "answered before, as 'tree'", "true}; got 'nonsense'", "true}; got '[8]'"),
        *("'oak' is not one of the classes", "True is not one of", '"label", or "skip"'),
        *('"label", or "skip"', True, "skipped before", "was not asked for"),
        *("the table has no row 77", "true}; got '[[[[", "the table has no row True"),
        *("no row [9]", "no row '\\ud800'", "and nothing else", "oakoak"),
    ]
    for line, what in zip(answers, wanted, strict=True):
        if "refused" in line:
            assert what in line["refused"]
            assert len(line["refused"]) < 2000
        else:
            assert line.get("kept", line.get("skipped")) == what
    assert said[-1] == {"labels": 1, "waiting": [9, 10]}
    assert labelling.standing.labels == {8: "tree"}

    again, out = session(rows, 6), io.StringIO()  # what waited is asked for again
    serve_process(again, iter(()), out, ahead=2)
    assert [json.loads(line).get("item") for line in out.getvalue().splitlines()] == [9, 10, None]


@pytest.mark.slow
@pytest.mark.parametrize("numeric", long([False], [False, True]))
def test_each_damaged_line_is_answered_or_refused(numeric, session):
    """Ten of each question's answers are damaged, by seeds; the eleventh is good."""
    rows = numbers(40) if numeric else rows_of(plants(40))
    labelling, out, given = session(rows, 40), io.StringIO(), []

    def answers():
        for seed in range(300):
            item, label = labelling.standing.open[0], 0.5 if numeric else "tree"
            skips = {"item": item, "skip": True}
            whole = json.dumps(skips if seed % 4 == 0 else {"item": item, "label": label})
            spoiled = mutated(whole.encode(), seed).decode("utf-8", errors="replace")
            for line in [whole] if seed % 11 == 10 else io.StringIO(spoiled):
                given.append(line)
                yield line
                if not labelling.standing.open:
                    return

    serve_process(labelling, answers(), out, ahead=3)
    said = [json.loads(line) for line in out.getvalue().splitlines()]
    answered = [line for line in said[:-1] if "row" not in line]
    assert len(answered) == sum(bool(line.strip()) for line in given)
    kept = [line["kept"] for line in answered if "kept" in line]
    assert len(kept) == len(labelling.standing.labels) == said[-1]["labels"]
    assert all(np.isfinite(label) if numeric else label in ("tree", "bush") for label in kept)
    assert sum(bool(line.get("refused")) for line in answered) > 100
    assert all({"kept", "skipped", "refused"} & line.keys() for line in answered)


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [("2,5", None), ("2.5", 2.5), (" 1e3", 1e3), (3, 3.0), (True, 1.0), ("nan", None),
     (float("inf"), None), (10**400, None), (1e300, None), ("", None), (None, None), ([2], None)],
)  # fmt: skip
def test_answers_that_are_numbers(answer, wanted, bare):
    labelling = bare(numbers(10))
    if wanted is None:
        with pytest.raises(Refused, match="is not a number that can be learned"):
            labelling.label(answer)
    else:
        assert labelling.label(answer) == wanted


def test_classes_that_are_numbers(bare):
    frame = pl.DataFrame({"x": range(8), "digit": [0, 1, 2, 1, 0, 2, None, None]})
    chunk = next(open_table(frame).chunks(8))
    labelling = bare(Rows(chunk, Columns.decide(chunk, "digit", "classification", keep=True)))
    assert (labelling.label(2), labelling.label("1")) == ("2", "1")


def test_a_process_gets_numbers_as_numbers():
    text = "height,share,colour,id,kind\n2.5,7%,red,a,tree\n,8%,NA,b,bush\n3,9%,blue,c,\n"
    rows = rows_of(pl.read_csv(io.StringIO(text), infer_schema=False))
    assert rows.values["height"] == [2.5, None, 3.0]
    assert rows.values["share"] == [0.07, 0.08, 0.09]
    assert rows.values["colour"] == ["red", None, "blue"]
    assert rows.values["id"] == ["a", "b", "c"]


def test_keys_and_beginnings():
    assert keys_of([str(i) for i in range(10)]) == {}
    assert keys_of(()) == {}


def test_labels_that_cannot_be_written_leave_those_that_were_there(tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError("no more space")

    path, rows = tmp_path / "labels.csv", rows_of(plants(12))
    assert rows.write(path, {9: "bush"}) == 7
    before = path.read_bytes()
    assert before.splitlines()[-1].endswith(b",bush")
    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no more space"):
        rows.write(path, {9: "tree"})
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {path.name: before}


def typed(monkeypatch, given):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))


@pytest.mark.endless
def test_many_classes_are_typed(session):
    classes = ["q", *(f"{name} {i}" for i in range(3) for name in ("oak", "ash", "elm"))]
    frame = pl.DataFrame({"x": np.arange(24.0) % 10, "kind": [*classes, *classes, *[None] * 4]})
    rows = rows_of(frame)
    labelling, keys = session(rows, 4), keys_of(rows.target.classes)
    item = labelling.ask()
    said = labelling.said(item)
    assert sum(said["probabilities"].values()) == pytest.approx(1)
    assert said["prediction"] == max(said["probabilities"], key=said["probabilities"].get)
    with pytest.raises(Refused, match="'oak' is not one of the classes"):
        reply(labelling, item, "oak", keys)
    before = labelling.standing
    assert reply(labelling, item, "oak 1", keys) == "oak 1"
    assert reply(labelling, item, "u", keys) == "undo"
    same(labelling.standing, before)
    assert reply(labelling, item, "q", keys) == "q"  # a class before a command
    item = labelling.ask()
    assert reply(labelling, item, "s", keys) == "skip"
    assert labelling.standing.labels == {21: "q"}


SMALL = ("--learner", "raker", "--set", "num_features=3", "--jsonl")


def test_labels_are_written_where_the_help_says(capsys):
    with pytest.raises(SystemExit):
        main(["ask", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "--out LABELS default: FILE.labels.csv, with --pool POOL.labels.csv;" in said
    for file, pool, wanted in (("a/f.csv", None, "a/f"), ("f.csv", "b/p.arrow", "b/p")):
        given = Namespace(file=file, pool=pool, out=None)
        assert ask._out(given) == Path(f"{wanted}.labels.csv")


@pytest.mark.slow
def test_from_a_ranking_to_a_model_and_on(tmp_path, monkeypatch, capsys):
    frame = plants(40, known=0).drop("kind")
    names = "p.csv", "first.csv", "m", "o.csv"
    pool, first, pipeline, out = (str(tmp_path / name) for name in names)
    frame.write_csv(pool)
    assert main(["select", pool, "--num", "4", "--out", first, "--target", "x"]) == 2
    assert main(["select", pool, "--num", "4", "--out", first]) == 0
    ranked = pl.read_csv(first)["line"].to_list()
    words = ["--target", "kind", "--classes", "tree,bush"]
    answers = [f'{{"item": {i}, "label": "{"tree" if i % 2 else "bush"}"}}\n' for i in ranked]
    typed(monkeypatch, "".join(answers))
    capsys.readouterr()
    more = ["--pool", pool, *words, *["--budget", "6", "--ahead", "1"], "--save", pipeline]
    more += ["--out", out]
    assert main(["ask", first, *more, *SMALL]) == 0
    said, error = capsys.readouterr()
    items = [json.loads(line)["item"] for line in said.splitlines() if '"row"' in line]
    assert items[:4] == ranked
    assert len(set(items)) == 5
    assert f"4 rows with their labels: {out}; to continue: jaxmkl ask {first} --pool" in error
    labelled = pl.read_csv(out)
    assert labelled.columns == ["height", "colour", "kind"]
    assert labelled["height"].to_list() == [frame["height"][i - 2] for i in sorted(ranked)]
    assert labelled["kind"].to_list() == ["tree" if i % 2 else "bush" for i in sorted(ranked)]
    assert jaxmkl.load_pipeline(pipeline).classes == ("tree", "bush")

    # the pipeline goes on with the pool; again, from the journal; not from another pipeline
    other = str(tmp_path / "more.csv")
    onward = ["ask", pipeline, "--pool", pool, "--budget", "2", "--ahead", "1", "--jsonl"]
    onward += ["--out", other]
    typed(monkeypatch, "")
    assert main(onward) == 0
    items = [json.loads(line).get("item") for line in capsys.readouterr().out.splitlines()]
    assert len(items) == 2
    typed(monkeypatch, f'{{"item": {items[0]}, "label": "bush"}}\n')
    assert main(onward) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("item") for line in said[:2]] == items[:1] * 2
    assert said[-1]["labels"] == 1
    assert len(said[-1]["waiting"]) == 1
    changed = jaxmkl.load_pipeline(pipeline)
    jaxmkl.tables.save_pipeline(f"{pipeline}2", changed)
    with open(f"{pipeline}2", "ab") as file:
        file.write(b" ")
    onward[1] = f"{pipeline}2"
    assert main(onward) == 2
    assert "belongs to another pipeline" in capsys.readouterr().err


NEW = ("t.csv", "--jsonl", "--target", "z", "--classes")
BAD = [
    (["t.csv"], "ask needs a terminal; a process talks to it with --jsonl"),
    (["-", "--jsonl"], "the table must be a file"),
    (["t.csv", "--jsonl", "--target", "a"], "; --classes A,B or --task regression says"),
    (["t.csv", "--jsonl", "--classes", "u"], "--classes: name two or more classes"),
    (["t.csv", "--jsonl", "--rate", ".1", "--budget", "3"], "not allowed with argument"),
    (["t.csv", "--jsonl", "--pool", "t.csv"], "is neither a pipeline nor the output of select"),
    ([*NEW, "u,v", "--learner", "oks_sil"], "--learner: HypothesisSketch asks in its own way"),
    ([*NEW, "u,v,w", "--learner", "spa", "--budget", "1"], "asks for each class separately"),
    (["r.csv", "--jsonl", "--pool", "t.csv"], "r.csv: line 9 is not in t.csv"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD)
def test_what_cannot_be_met(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,y\n,0.5\n2,1.5\n3,7.5\n4,\n".replace("\n,", "\n1,"))
    Path("r.csv").write_text("rank,line,a,y\n1,9,1,2\n")
    given = ["--target", "y"] if "--target" not in arguments else []
    if "a" in arguments:
        Path("t.csv").write_text("b,c,a\n1,2,\n2,3,\n")
    assert main(["ask", *arguments, *given]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.splitlines()[-1].startswith("jaxmkl: ")


# --- a pipeline that is damaged ------------------------------------------------------------------


class Reached(UsageError):
    """The pipeline was read."""


@pytest.mark.parametrize("number", [40, pytest.param(400, marks=pytest.mark.endless)])
def test_a_damaged_pipeline_is_a_sentence(number, tmp_path, monkeypatch, capsys):
    """Wherever a bit is turned, near the end above all, where an archive lists its members."""
    rows = rows_of(plants(40, known=40))
    learner = jaxmkl.perceptron(jaxmkl.Gaussian(1.0))
    made = learner, learner.init(jax.random.key(0), rows.X.shape[1]), rows.columns, rows.fills
    pipeline, damaged = tmp_path / "whole", tmp_path / "damaged"
    jaxmkl.save_pipeline(pipeline, jaxmkl.Pipeline(*made))
    whole, draws, reached = pipeline.read_bytes(), random.Random(0), 0

    def read(*given, **more):
        raise Reached("the table is next")

    monkeypatch.setattr(ask, "_whole_table", read)
    line = ["ask", str(damaged), "--pool", "t.csv", "--jsonl", "--out", str(tmp_path / "out")]
    ends = draws.sample(range(len(whole) - 500, len(whole)), number)
    for at in [*ends, *(draws.randrange(len(whole)) for _ in range(number // 4))]:
        turned = whole[at] ^ (1 << draws.randrange(8))
        damaged.write_bytes(whole[:at] + bytes([turned]) + whole[at + 1 :])
        assert main(line) == 2
        said = capsys.readouterr().err
        assert said.startswith("jaxmkl: "), at
        assert said.count("\n") == 1
        reached += "the table is next" in said
    assert 0 < reached < number
