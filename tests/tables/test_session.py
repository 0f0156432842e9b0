"""Sessions: rows whose labels come later are predicted and learned as a run with a delay does."""

import math
import pickle
import warnings

import hypothesis.strategies as st
import jax
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal

import jaxmkl
from jaxmkl.cli.prequential import Evaluation
from jaxmkl.evaluate import Candidate
from jaxmkl.models import TreeModels
from jaxmkl.tables import (
    Columns,
    Pipeline,
    Refused,
    Seen,
    Session,
    _rounds,
    load_pipeline,
    open_table,
    save_pipeline,
)
from jaxmkl.tables._given import PlainRows
from jaxmkl.tables.source import of_rows
from jaxmkl.wrappers import (
    RunningMoments,
    intervals,
    label_budget,
    lagged,
    predictive,
    probabilities,
    scaled,
    scaled_targets,
)
from tests.common.marks import long
from tests.common.trees import assert_equal

SMALL_PROGRAMS = True
N = 60
KERNEL = jaxmkl.Gaussian([1.0, 3.0])
QUERY = jaxmkl.query.Rate(0.4)


def small(**options):
    options = {"num_features": 4, "step_size": 0.05} | options
    return scaled(jaxmkl.raker(KERNEL, **options), RunningMoments())


def numbers(**options):
    return scaled_targets(small(**options))


def classes(K=2, **options):
    return probabilities(small(loss="logistic", num_classes=K if K > 2 else None, **options))


def trees(**options):
    """Two trees are grown anew in rounds 4, 6, 8, 12, 16, 24, 32 and 48."""
    bank = TreeModels(num_trees=2, depth=3, groups=1, first=8, sample=64)
    return scaled_targets(scaled(jaxmkl.MKL(bank, **options), RunningMoments()))


def table(K=0):
    """Rows with gaps and words; their target is a number or one of K classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    soils = np.array(["sand", "clay", None])[rng.integers(0, 3, N)]
    y = 100.0 + 3.0 * X[:, 0] + np.sin(X[:, 1]) + (soils == "sand")
    frame = pl.DataFrame({"width": X[:, 0], "height": X[:, 1], "soil": soils})
    frame = frame.with_columns(pl.when(pl.arange(N) % 7 > 0).then("height").alias("height"))
    if not K:
        return frame.with_columns(pl.Series("y", y))
    places = np.searchsorted(np.quantile(y, np.arange(1, K) / K), y)
    return frame.with_columns(pl.Series("y", np.array(["bush", "moss", "tree"])[places]))


def chunk_of(frame):
    return next(open_table(frame).chunks(1000))


def fresh(learner, frame):
    """A pipeline before its first row."""
    columns = Columns.decide(chunk_of(frame), "y")
    state = learner.init(jax.random.split(jax.random.key(0), 1)[0], len(columns.features))
    seen = Seen.nothing(len(columns.classes))
    return Pipeline(learner, state, columns, columns.init(), source="a table", seen=seen)


def rows_of(frame):
    return [*frame.iter_rows(named=True)]


def learned(session, frame, delay):
    """The answers to the rows of a table whose labels are N rows late."""
    answers, labels = [], frame["y"].to_list()
    for i, row in enumerate(rows_of(frame)):
        answers += session.ask(row)
        if i >= delay:
            session.learn(i - delay, labels[i - delay])
    for i in range(N - delay, N):
        session.learn(i, labels[i])
    return answers


def run(learner, frame, delay):
    """What the command ``run`` says of the same rows, and its one runner."""
    columns = Columns.decide(chunk_of(frame), "y")
    evaluation = Evaluation(columns, [Candidate("it", learner, {})], 1, delay)
    outcome = evaluation.evaluate(chunk_of(frame))
    evaluation.take(outcome)
    return outcome.said["it"], evaluation


LEARNERS = {
    "numbers": (lambda: numbers(), 0),
    "lagged": (lambda: lagged(numbers(), labels=2), 0),
    "three classes": (lambda: classes(3), 3),
    "a rate": (lambda: numbers(query=QUERY), 0),
    "a budget": (lambda: label_budget(classes(), 20), 2),
    "lagged classes": (lambda: lagged(classes(), labels=2), 2),
    "renewals": (lambda: trees(), 0),
    "renewals at a rate": (lambda: trees(query=QUERY), 0),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "delay"), long(
    [("lagged classes", 3), ("renewals at a rate", 0)], [
    ("numbers", 0), ("a rate", 0), ("a budget", 0), ("lagged", 3), ("lagged classes", 3),
    ("three classes", 3),
    ("renewals", 3), ("renewals at a rate", 0),
]))  # fmt: skip
def test_rows_in_the_order_of_a_file_are_those_of_a_run(name, delay):
    make, K = LEARNERS[name]
    learner, frame = make(), table(K)
    session = Session(fresh(learner, frame))
    answers = learned(session, frame, delay)
    said, evaluation = run(learner, frame, delay)
    if K:
        named = np.array(session.pipeline.classes)[said.prediction.astype(int)]
        assert [answer.prediction for answer in answers] == named.tolist()
    else:
        found = [answer.prediction for answer in answers]
        assert_allclose(found, said.prediction, rtol=1e-5)
    runner = evaluation.runners["it"][0]
    _, state = runner.settled()
    then = session.pipeline
    assert sum(answer.wanted for answer in answers) == runner.now.num_labels
    assert name.endswith(("a rate", "a budget")) == (runner.now.num_labels < N)
    for mine, other in zip(jax.tree.leaves(then.state), jax.tree.leaves(state), strict=True):
        if not jax.dtypes.issubdtype(mine.dtype, jax.dtypes.prng_key):
            assert_allclose(mine, other, rtol=1e-3, atol=1e-4)
    assert then.seen == evaluation.now.baselines.seen
    assert_array_equal(then.fills, evaluation.now.fills)
    assert (then.rows, [*session.waiting]) == (N, [])


@pytest.mark.slow
def test_late_labels_of_a_query_are_those_of_a_delayed_run_up_to_the_first_unwanted_row():
    """The session skips a row at once that a delayed run skips N rounds later."""
    learner, frame, delay = label_budget(lagged(numbers(), labels=2), 20), table(), 3
    session = Session(fresh(learner, frame))
    answers = learned(session, frame, delay)
    said, evaluation = run(learner, frame, delay)
    wanted = [answer.wanted for answer in answers]
    assert sum(wanted) == evaluation.runners["it"][0].now.num_labels == 20
    end = 1 + wanted.index(False)
    found = np.array([answer.prediction for answer in answers])
    assert_allclose(found[:end], said.prediction[:end], rtol=1e-5)
    assert found[end] != said.prediction[end]


@pytest.mark.slow
def test_labels_in_any_order_are_learned_as_their_rows_were_predicted():
    """The oracle are the learner's own methods; lagged labels are the context of a row."""
    learner, frame = lagged(jaxmkl.raker(KERNEL, num_features=4), labels=2), table()
    pipeline = fresh(learner, frame)
    session, state, rng = Session(pipeline), pipeline.state, np.random.default_rng(1)
    X, _ = pipeline.columns.inputs(chunk_of(frame), pipeline.fills)
    y, start, waiting = frame["y"].to_numpy(), None, {}
    predict, update = jax.jit(learner.predict), jax.jit(jaxmkl.Learner.update.__wrapped__)
    for i, row in enumerate(rows_of(frame)[:30]):
        (answer,) = session.ask(row, [f"row {i}"])
        expected = 0.0 if start is None else start + predict(state, X[i]).value
        assert_allclose(answer.prediction, expected, rtol=1e-5)
        waiting[i] = state.labels
        for _ in range(rng.integers(0, 3)):
            if waiting:
                late = [*waiting][rng.integers(len(waiting))]
                session.learn(f"row {late}", y[late])
                start = y[late] if start is None else start
                now, then = state.labels, waiting.pop(late)
                # the row has the inputs of its time; the label follows the latest ones
                state = update(learner, state.replace(labels=then), X[late], y[late] - start)
                state = state.replace(labels=np.stack([state.labels[0], now[0]]))
    assert [*session.waiting] == [f"row {i}" for i in waiting]
    assert len(waiting) > 3
    assert_allclose(session.pipeline.state.labels, state.labels, rtol=1e-5)


@pytest.fixture(scope="module")
def plain():
    """A pipeline that has learned 20 rows."""
    frame = table()
    session = Session(fresh(numbers(), frame))
    for row in rows_of(frame)[:20]:
        session.learn_row(row, row["y"])
    return session.pipeline


def same(one, other):
    assert_equal(one.pipeline.state, other.pipeline.state)
    assert (one.pipeline.seen, one.pipeline.rows) == (other.pipeline.seen, other.pipeline.rows)
    assert_array_equal(one.pipeline.fills, other.pipeline.fills)
    assert ([*one.waiting], one.dropped) == ([*other.waiting], other.dropped)


def test_rows_together_are_as_rows_one_by_one(plain):
    rows = rows_of(table())[20:45]
    alone, together, of_frame = Session(plain), Session(plain), Session(plain)
    one_by_one = [alone.ask(row)[0] for row in rows]
    many = together.ask(rows)
    assert of_frame.ask(table()[20:45]) == many
    assert [answer.id for answer in many] == [answer.id for answer in one_by_one] == [*range(25)]
    assert many == one_by_one  # bit for bit
    same(alone, together)


def test_labels_together_are_as_labels_one_by_one(plain, monkeypatch):
    monkeypatch.setattr("jaxmkl.tables._rounds.TOGETHER", 4)
    rows, alone, together = rows_of(table())[20:45], Session(plain), Session(plain)
    alone.ask(rows)
    together.ask(rows)
    pairs = [(own, rows[own]["y"]) for own in np.random.default_rng(0).permutation(20).tolist()]
    assert [alone.learn(*pair) for pair in pairs] == together.learn_many(pairs) == [True] * 20
    same(alone, together)
    before = together.pipeline
    for wrong, said in ((3, 1.0), "id 3 waits"), ((21, "word"), "'word'"), ((20, 2.0), "20, 20"):
        with pytest.raises(Refused, match=said):
            together.learn_many([(20, 1.0), wrong])
    assert_equal(together.pipeline.state, before.state)
    assert [*together.waiting] == [*range(20, 25)]


def test_rows_that_another_session_predicted_wait_as_those_that_are_asked_for(plain):
    rows, asking, expecting = rows_of(table())[20:30], Session(plain), Session(plain)
    asking.ask(rows, range(10))
    expecting.expect(rows, range(10))
    same(asking, expecting)
    for session in (asking, expecting):
        session.learn_many([(own, float(own)) for own in (7, 2, 9)])
    same(asking, expecting)
    with pytest.raises(Refused, match="a row with the id 3 waits"):
        expecting.expect(rows[:1], [3])


@pytest.mark.slow
@pytest.mark.parametrize("query", long([QUERY], [None, QUERY]))
def test_renewals_come_where_they_would_come_one_by_one(query, monkeypatch):
    frame = table()
    pipeline = fresh(trees() if query is None else trees(query=query), frame)
    rows, alone, together = rows_of(frame), Session(pipeline), Session(pipeline)
    one_by_one = [answer for row in rows for answer in alone.ask(row)]
    assert together.ask(rows) == one_by_one
    pairs = [(own, rows[own]["y"]) for own in together.waiting]
    assert len(pairs) == N if query is None else 5 < len(pairs) < N
    learned_alone = [alone.learn(*pair) for pair in pairs]
    assert together.learn_many(pairs) == learned_alone == [True] * len(pairs)
    same(alone, together)


def test_rows_that_are_chosen_are_learned_as_those_that_are_asked_for(plain):
    rows = [{"width": 1.0, "height": 2.0, "soil": "sand"}, {"width": 4.0, "height": 1.0}]
    chunk = next(open_table(pl.DataFrame(rows)).chunks(2))
    X, _ = plain.columns.inputs(chunk, plain.fills)
    asking, chosen = Session(plain), Session(plain)
    begun, (answer,) = chosen.copy(), asking.ask(rows[0])
    assert chosen.look(0, X[0]) == answer
    same(chosen, begun)
    chosen.wait(0, X[0])
    with pytest.raises(Refused, match="a row with the id 0 waits"):
        chosen.wait(0, X[1])
    before = chosen.copy()
    for session in (asking, chosen):
        session.learn(0, 99.0)
    assert_equal(asking.pipeline.state, chosen.pipeline.state)
    assert ([*before.waiting], [*begun.waiting], [*chosen.waiting]) == ([0], [], [])
    before.skip(X[1])
    assert (before.pipeline.rows, [*before.waiting]) == (plain.rows + 1, [0])
    assert int(before.pipeline.state.round) == int(plain.state.round) + 1


@pytest.mark.slow
def test_a_learner_that_keeps_every_example_has_room_for_all():
    frame = pl.DataFrame({"x": np.linspace(0.0, 9.0, 2000)}).with_columns(y=pl.col("x").sin())
    session = Session(fresh(jaxmkl.kernel_ogd(jaxmkl.Gaussian(1.0)), frame))
    begun, state = session.copy(), session.pipeline.state
    first = jaxmkl.abilities.capacity(session.pipeline.learner, state)
    number = first + 10
    session.ask(rows_of(frame)[:number])
    session.learn_many([(i, math.sin(i)) for i in range(number - 1)])
    session.learn(number - 1, 0.5)
    session.learn_row({"x": 9.5}, 0.1)
    info = session.pipeline.learner.info(session.pipeline.state)
    assert (int(info.support[0]), int(info.overflow)) == (number, 0)  # the first is exact
    assert jaxmkl.abilities.capacity(begun.pipeline.learner, begun.pipeline.state) == first


@pytest.mark.slow
def test_a_classifier_of_several_classes_skips_what_it_does_not_want():
    frame = table(3)
    session = Session(fresh(classes(3, query=jaxmkl.query.Random(0.5)), frame))
    wanted = [answer.wanted for answer in session.ask(rows_of(frame))]
    assert 10 < sum(wanted) < 50
    assert [*session.waiting] == np.flatnonzero(wanted).tolist()
    assert session.pipeline.rows == len(wanted) - sum(wanted)


@pytest.mark.slow
def test_a_budget_counts_each_row_of_several():
    frame = table(2)
    session = Session(fresh(label_budget(classes(), 2), frame))
    assert [answer.wanted for answer in session.ask(rows_of(frame)[:4])] == [
        True,
        True,
        False,
        False,
    ]
    assert ([*session.waiting], [*session.unlabelled]) == ([0, 1], [0, 1, 2, 3])
    assert session.pipeline.rows == 2  # two are skipped
    before = session.pipeline
    assert not session.learn(3, "moss")  # as in a run: it is seen, not learned
    assert_equal(session.pipeline.state, before.state)
    assert (sum(before.seen.counts), session.pipeline.seen.counts) == (0, (0.0, 1.0))
    assert session.label("moss") == "moss"
    session.forget(2)
    with pytest.raises(Refused, match="no row with the id 2 waits"):
        session.learn(2, "moss")


def test_a_refusal_names_its_cause_and_changes_nothing(plain):
    session, before = Session(plain), Session(plain)
    row, bad = {"width": 1.0, "height": 2.0, "soil": "sand"}, {"width": "wide", "height": 1.0}
    for one in (session, before):
        one.ask([row, row], ["a", 7])
        one.learn("a", 101.0)
    refused = [
        (lambda: session.ask(row, [7]), "a row with the id 7 waits for its label already"),
        (lambda: session.ask([row, row], [8, 8]), "ids must differ; got 8 twice"),
        (lambda: session.ask([row, row], [8]), "ids must be one for each of the 2 rows; got 1"),
        (lambda: session.ask(row, [True]), "ids must be text or integers; got True"),
        (lambda: session.ask([]), "rows must hold a row"),
        (lambda: session.ask("row"), "rows must be cells by column, a list .*; got str"),
        (lambda: session.ask([row, 3]), r"rows\[1\] must be cells by column; got int"),
        (lambda: session.ask([row, bad]), "row 2, column 'width': 'wide' is not a number"),
        (lambda: session.ask([row, bad], ["x", "y"]), "row with id y, column 'width': 'wide'"),
        (lambda: session.ask({**row, "width": [1]}), "row 1, column 'width': a number or text"),
        (lambda: session.ask({**row, "width": np.inf}), "row 1, column 'width': inf is not"),
        (lambda: session.ask({**row, "width": 1e39}), "row 1, column 'width': .* too large"),
        (lambda: session.ask({"depth": 1.0}), "none is among the columns 'depth'"),
        (lambda: session.learn_row(bad, 1.0), "column 'width': 'wide' is not a number"),
        (lambda: session.learn_row([row], 1.0), "row must be cells by column; got list"),
        (lambda: session.learn_row(row, "tall"), "label must be a finite number; got 'tall'"),
        (lambda: session.learn(7, None), "label must be a finite number; got None"),
        (lambda: session.learn(7, np.nan), "label must be a finite number; got nan"),
        (lambda: session.learn(7, 1e39), r"a finite number; got 1e\+39 \(too large\)"),
        (lambda: session.learn("a", 1.0), "no row with the id 'a' waits for a label"),
        (lambda: session.learn(9, 1.0), "no row with the id 9 waits for a label"),
        (lambda: session.learn([], 1.0), r"no row with the id \[\] waits for a label"),
        (lambda: session.forget(0), "no row with the id 0 waits for a label"),
    ]  # fmt: skip
    for act, text in refused:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(Refused, match=text):
                act()
        same(session, before)
    with pytest.raises(ValueError, match="most_waiting must be"):
        Session(plain, most_waiting=0)


def test_absent_columns_are_warned_of_once(plain):
    session = Session(plain)
    with pytest.warns(UserWarning, match="counted as missing cells: 'height', 'soil'") as warned:
        session.ask({"width": 1.0, "depth": 2.0})
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.ask([{"width": 1.0}, {"width": 1.0, "height": None, "soil": None}])


def test_the_oldest_rows_are_forgotten_where_too_many_wait(plain):
    session, other = Session(plain, most_waiting=2), Session(plain)
    row = {"width": 1.0, "height": 2.0, "soil": "sand"}
    session.ask([row] * 3)
    assert ([*session.waiting], session.dropped) == ([1, 2], 1)
    other.ask([row] * 3)
    other.forget(0)
    assert_equal(session.pipeline.state, other.pipeline.state)
    assert int(session.pipeline.state.invalid) == 1  # as a row of a run without a label
    session.most_waiting = 1
    assert ([*session.waiting], session.dropped) == ([2], 2)


def test_many_rows_are_forgotten_together(plain, monkeypatch):
    session, other, calls = Session(plain), Session(plain), []
    row, learned = {"width": 1.0, "height": 2.0, "soil": "sand"}, _rounds.learned
    for one in (session, other):
        one.ask([row] * 50)
    for own in range(40):
        other.forget(own)
    monkeypatch.setattr(_rounds, "learned", lambda *its: calls.append(its) or learned(*its))
    session.most_waiting = 10
    assert len(calls) == 1  # one by one, a long list of rows held up all other clients
    assert session.dropped == 40
    session.dropped = 0
    same(session, other)


def test_a_saved_session_has_the_same_future(plain, tmp_path):
    rows, session = rows_of(table())[20:], Session(plain, most_waiting=12)
    session.ask(rows[:10], [*"abcdefghi", 30])
    session.learn("c", 99.0)
    session.ask(rows[10:14])
    session.save(tmp_path / "s.npz")
    again, pipeline = Session.load(tmp_path / "s.npz"), load_pipeline(tmp_path / "s.npz")
    same(session, again)
    assert again.most_waiting == 12
    for one in (session, again):
        assert [*one.waiting] == ["b", *"defghi", 30, 31, 32, 33, 34][-12:]
        one.learn("h", 103.0)
        one.learn(32, 98.0)
    assert session.ask(rows[14:20]) == again.ask(rows[14:20])
    same(session, again)
    # the same in the words of a pipeline
    pipeline.learn("h", 103.0)
    pipeline.learn(32, 98.0)
    pipeline.save(tmp_path / "p.npz")
    ids, _ = load_pipeline(tmp_path / "p.npz").ask(rows[14:20])
    assert ids == [*again.waiting][-6:]
    whole = np.load(tmp_path / "s.npz")
    np.savez(tmp_path / "d.npz", **{k: whole[k] for k in whole.files if k != "waiting.x"})
    with pytest.raises(ValueError, match="rows that wait for labels"):
        load_pipeline(tmp_path / "d.npz")


def test_a_pipeline_learns(plain, tmp_path):
    save_pipeline(tmp_path / "m.npz", plain)
    pipeline, session = load_pipeline(tmp_path / "m.npz"), Session(plain)
    rows, y = rows_of(table())[20:], table()["y"].to_list()[20:]
    own, prediction = pipeline.ask(rows[0])
    assert session.ask(rows[0])[0][:2] == (own, prediction)
    ids, predictions = pipeline.ask(rows[1:3])
    assert [answer[:2] for answer in session.ask(rows[1:3])] == [
        *zip(ids, predictions, strict=True)
    ]
    before = pipeline.predict(rows)
    for one in (pipeline, session):
        one.learn(ids[1], y[2])
        one.forget(own)
    pipeline.learn(rows[3], y[3])
    session.learn_row(rows[3], y[3])
    assert_equal(pipeline.state, session.pipeline.state)
    assert (pipeline.rows, pipeline.seen) == (23, session.pipeline.seen)
    after = pipeline.predict(rows)
    assert (after != before).any()
    assert_array_equal(after, session.pipeline.predict(rows))
    assert plain.rows == 20
    with pytest.raises(Refused, match=f"no row with the id {own} waits"):
        pipeline.learn(own, 1.0)
    pickled = pickle.loads(pickle.dumps(pipeline))  # with the row that waits
    for one in (pipeline, pickled):
        one.learn(ids[0], y[1])
    assert_array_equal(pickled.predict(rows), pipeline.predict(rows))


@pytest.mark.slow
def test_answers_say_how_sure_they_are():
    frame = table()
    learner = predictive(numbers())
    session, bank = Session(fresh(learner, frame)), jaxmkl.models.MetricModels
    (first,) = session.ask(rows_of(frame)[0])
    assert first == (0, 0.0, True, None, None, None)
    for row in rows_of(frame)[:30]:
        session.learn_row(row, row["y"])
    (answer,) = session.ask(rows_of(frame)[40])
    low, high = answer.interval
    assert low < answer.prediction < high

    frame = table(3)
    session = Session(fresh(classes(3, query=jaxmkl.query.Random(0.5)), frame))
    (answer,) = session.ask(rows_of(frame)[0])
    assert answer.prediction == max(answer.probabilities, key=answer.probabilities.get)
    shares = session.pipeline.predict_proba(frame[:1])[0]
    assert_allclose([*answer.probabilities.values()], shares, rtol=1e-5)

    learner = jaxmkl.MKL(bank(jaxmkl.raker(KERNEL, num_features=4).models[0]))
    session = Session(fresh(learner, table()))
    (answer,) = session.ask(rows_of(table())[0], importances=True)
    assert_allclose([*answer.importances.values()], [1 / 6, 1 / 3, 1 / 2], rtol=1e-6)
    assert [*answer.importances] == ["width", "height", "soil"]


@pytest.mark.endless
def test_answers_have_the_intervals_of_a_wrapper():
    given, rows = Session(fresh(intervals(numbers()), table())), rows_of(table())
    for row in rows[:30]:
        given.learn_row(row, row["y"])
    assert given.ask(rows[40])[0].interval[0] < 110


WORDS = ["sand", "Clay", " sand ", "yes", "TRUE", "true", "NA", "?", "", "ä"]
WORDS += ["1", "1.0", "3", "-0"]
FINITE = st.one_of(st.floats(-1e6, 1e6), st.integers(-100, 100), st.just(float("nan")), st.none())
CELLS = st.one_of(st.sampled_from(WORDS), st.booleans(), FINITE, st.sampled_from([-0.0, 2**60]))
MIXED = {
    "number": [1.5, 2.5, -3.0] * 4,
    "gap": [1.5, None, 3.0, 4.0] * 3,
    "boolean": ["yes", "no"] * 6,
    "word": ["sand", "Clay", None] * 4,
    "digit": ["1.0", "3", "x"] * 4,
    "truth": ["true", "false", "maybe"] * 4,
    "y": [1.0, 2.0, 3.0] * 4,
}


@pytest.mark.parametrize("missing", [(), ("x",)])
def test_plain_rows_are_read_as_those_of_a_table(missing):
    columns = Columns.decide(chunk_of(MIXED)._replace(missing=missing), "y")
    assert len(columns.features) >= 12
    reader, read = PlainRows(columns), [0]
    cells = {name: FINITE if name in ("number", "gap") else CELLS for name in MIXED}

    @settings(max_examples=80, deadline=None)
    @given(st.fixed_dictionaries({}, optional=cells))
    def check(row):
        found = reader.read([row])
        if found is None:
            return
        read[0] += 1
        frame = of_rows([{"y": 1.0} | row])
        expected, _ = columns.encode(chunk_of(frame), columns.init())
        assert_array_equal(columns.filled(found, columns.init())[0], expected)

    check()
    assert read[0] > 20
    assert Columns.from_json(columns.to_json()) == columns


def test_cells_that_are_not_plain_are_left_to_the_table():
    columns = Columns.decide(chunk_of(MIXED), "y")
    for cell in ("1.5", True, np.inf, [1], 10**400):
        assert PlainRows(columns).read([{"number": cell}]) is None
    for cell in ("ä", [1], 0.5, 10**400):
        assert PlainRows(columns).read([{"word": cell}]) is None
    number_missing = Columns.decide(chunk_of(MIXED)._replace(missing=("-9",)), "y")
    assert PlainRows(number_missing).read([{"number": 1.0}]) is None
