"""Models of other packages beside ours: stand-ins that say the last label, and the real ones."""

import functools
import sys
import types

import jax
import numpy as np
import pytest
from experiment_rows import rows_of, stand_in, value

import jaxmkl
from experiments.__main__ import main
from experiments.bench import peer_models, peers
from experiments.bench.peer_models import Model
from experiments.evaluate import Stream
from experiments.options import Options
from experiments.report import Report
from jaxmkl.evaluate import row

SMALL_PROGRAMS = True


SCALER = {"regression": "StandardScaler"}


class LastLabel:
    """A model of river or CapyMOA that says the label it learned last, and checks its turns."""

    def __init__(self, schema=None, seed=7, trees=3):
        assert schema in (None, "schema")
        self.last, self.turns = None, 0

    def predict_one(self, x):
        assert self.turns % 2 == 0
        self.turns += 1
        return self.last

    def learn_one(self, x, y):
        assert self.turns % 2 == 1
        self.turns += 1
        self.last = y

    def predict(self, instance):
        return self.predict_one(instance)

    def train(self, instance):
        self.learn_one(instance, instance.y)


class Scaler:
    def __or__(self, model):
        model.scaled = True
        return model


class Instances(list):
    """A stand-in for CapyMOA's stream."""

    def __init__(self, X, y, target_type):
        assert (np.asarray(y).dtype.kind in "iu") == (target_type == "categorical")
        super().__init__(
            types.SimpleNamespace(x=x, y=label) for x, label in zip(X, y, strict=True)
        )

    def get_schema(self):
        return "schema"


@pytest.fixture
def packages(monkeypatch):
    """Stand-ins for river and CapyMOA."""
    module = functools.partial(stand_in, monkeypatch)
    draws = np.random.default_rng(0).normal(size=(30, 2))
    bundled = {
        "Bananas": lambda: [({"a": a, "b": b}, bool(a > 0)) for a, b in draws],
        "ChickWeights": lambda: [({"a": a}, 3.0 * b + 50) for a, b in draws],
    }
    preprocessing = module("river.preprocessing", StandardScaler=Scaler)
    module("river", datasets=types.SimpleNamespace(**bundled), preprocessing=preprocessing)
    module("river.models", Last=LastLabel)
    module("capymoa")
    module("capymoa.stream", NumpyStream=Instances)
    module("capymoa.models", Last=LastLabel)
    monkeypatch.setattr(peer_models, "version", lambda name: "0.1")
    monkeypatch.setattr(peer_models.shutil, "which", lambda name: name)


def models(package: str) -> Model:
    return Model("last", package, "models.Last", "models.Last", {"trees": 5}, SCALER)


@pytest.fixture
def streams() -> dict[str, Stream]:
    X = np.random.default_rng(1).normal(size=(60, 2)).astype(np.float32)
    two, three = np.sign(X[:, 0]), np.digitize(X[:, 0], [-0.5, 0.5]).astype(np.float32)
    return {
        "numbers": Stream("numbers", X, 100 + 10 * X[:, 0], "regression"),
        "two": Stream("two", X, two, "classification"),
        "three": Stream("three", X, three, "classification"),
    }


@pytest.mark.parametrize("name", ["numbers", "two", "three"])
@pytest.mark.parametrize("package", ["river", "capymoa"])
def test_a_peer_predicts_and_then_learns(packages, streams, package, name):
    stream = streams[name]
    made = peer_models.ready(models(package), stream)
    # before the first label: zero, of CapyMOA's numbered classes the first
    first = stream.y.min() if package == "capymoa" and name != "numbers" else 0
    for _ in range(2):  # each pass is that of a fresh model
        np.testing.assert_allclose(np.asarray(made.one_pass()), [first, *stream.y[:-1]], rtol=1e-6)
    settings = {"package": f"{package} 0.1", "class": "Last", "seed": 7, "trees": 5}
    assert settings.items() <= made.settings.items()
    scaled = package == "river" and name == "numbers"
    assert (made.settings.get("inputs") == "StandardScaler") == scaled
    assert made.start() == {}


@pytest.mark.parametrize("name", ["numbers", "two", "three"])
def test_stochastic_gradient_descent_on_features_learns(streams, name):
    stream = streams[name]
    (model,) = (m for m in peer_models.MODELS if m.package == "sklearn")
    made = peer_models.ready(model, stream)
    said = made.one_pass()
    assert said[0] == 0
    np.testing.assert_array_equal(said, made.one_pass())
    if name == "numbers":
        late = slice(1, None)
        assert np.abs(said - stream.y)[late].mean() < np.abs(stream.y).mean() / 5
    else:
        assert set(said[1:]) <= set(stream.y)
        assert np.mean(said != stream.y) < 0.5
    assert made.settings["RBFSampler"]["gamma"] == 0.5
    assert made.settings["package"].startswith("scikit-learn")


@pytest.mark.endless
def test_a_learner_of_ours_runs_as_by_hand(streams):
    stream = streams["numbers"]
    model = Model("raker", "jaxmkl", "raker", "raker", {"num_features": 4})
    made = peer_models.ready(model, stream)
    metrics = made.start()
    wrapped = jaxmkl.scaled(jaxmkl.raker(num_features=4), jaxmkl.wrappers.RunningMoments())
    learner = jaxmkl.wrappers.scaled_targets(wrapped)
    assert made.settings["num_features"] == 4
    assert repr(made.settings["learner"]) == repr(learner)
    state = learner.init(jax.random.key(0), 2)
    _, outputs = jaxmkl.run(learner, state, stream.X - stream.X[0], stream.y.astype(np.float32))
    np.testing.assert_allclose(made.one_pass(), outputs.prediction, rtol=1e-5)
    assert metrics["ready_seconds"] > 0
    assert metrics["state_mib"] == pytest.approx(17 * 4 * (2 + 2) * 4 / 2**20, rel=0.3)


@pytest.mark.endless
def test_our_learners_say_labels(streams):
    ours = {m.name: m for m in peer_models.MODELS if m.package == "jaxmkl"}
    for of in ("two", "three"):
        made = {name: peer_models.ready(model, streams[of]) for name, model in ours.items()}
        assert {"raker", "expert_mkl", "spa"} <= made.keys()
        made = made["raker"]
        made.start()
        said = np.asarray(made.one_pass())
        assert set(said) <= {0.0, *streams[of].y}
        assert np.mean(said != streams[of].y) < 0.5


def test_what_is_not_there_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "river", None)
    assert peer_models.missing("river") == "not installed"
    assert peer_models.missing("sklearn") is None
    monkeypatch.setattr(peer_models, "find_spec", lambda name: "there")
    monkeypatch.setattr(peer_models.shutil, "which", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert peer_models.missing("capymoa") == "no Java"
    monkeypatch.setenv("JAVA_HOME", "/java")
    assert peer_models.missing("capymoa") is None


@pytest.mark.endless
def test_peers_and_ours_in_one_table_and_picture(packages, tmp_path, monkeypatch, capsys):
    raker = Model("raker", "jaxmkl", "raker", None, {"num_features": 4})
    monkeypatch.setattr(peers, "MODELS", (models("river"), models("capymoa"), raker))
    monkeypatch.setattr(peers, "in_own_process", lambda function, *given: function(*given))
    monkeypatch.setitem(sys.modules, "capymoa", None)
    out = tmp_path / "peers.json"
    arguments = ["bench", "--peers", "--datasets", "Bananas,ChickWeights,twitter"]
    assert main([*arguments, "--plots", str(tmp_path), "--json", str(out)]) == 0
    told = capsys.readouterr().out
    assert "capymoa: not installed, its models are left out" in told
    assert "twitter: not available, left out" in told
    assert "river 0.1; jaxmkl 0.1" in told
    rows = rows_of(out)
    assert {(r["dataset"], r["algorithm"]) for r in rows} == {
        ("Bananas", "last"),
        ("ChickWeights", "last"),
        ("ChickWeights", "raker"),
    }
    labels = np.random.default_rng(0).normal(size=(30, 2))[:, 0] > 0
    mistakes = 1 + np.sum(labels[1:] != labels[:-1])
    assert value(rows, "last", "mistake_rate") == pytest.approx(mistakes / 30)
    assert value(rows, "raker", "ready_seconds") > 0
    for name in ("microseconds_per_example", "memory_growth_mib"):
        assert all(r["mean"] >= 0 for r in rows if r["metric"] == name)
    assert {r["parameters"]["examples"] for r in rows} == {30}
    picture = (tmp_path / "peers.svg").read_text()
    for text in ("Bananas", "ChickWeights", "mistakes", "mean absolute error"):
        assert f">{text}</text>" in picture


def test_a_part_of_the_peers_is_run_alone(monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(peers, "streams", lambda *given: [])
    monkeypatch.setattr(peers, "of_errors", lambda *given: calls.append("errors"))
    monkeypatch.setattr(peers, "densities", lambda given: calls.append("densities") or ([], ()))
    assert main(["bench", "--peers", "--parts", "densities"]) == 0
    assert calls == ["densities"]
    assert main(["bench", "--peers", "--parts", "speed"]) == 2
    assert (
        "unknown part 'speed'; there are: errors, densities, standings" in capsys.readouterr().err
    )


def test_the_picture_has_every_model_with_looks_of_its_own():
    found = []
    for dataset, error in {"a": "mae", "b": "mistake_rate"}.items():
        for i, model in enumerate(peer_models.MODELS):
            name = "bench", dataset, model.name
            found += [row((*name, error), [0.1 * (i + 1)]), row((*name, "mse"), [2.0])]
            found.append(row((*name, "microseconds_per_example"), [10.0 * (i + 1)]))
    figure = peers.picture(found)
    assert [axes.get_title() for axes in figure.axes] == ["a", "b"]
    for axes in figure.axes:
        places = [line.get_xydata()[0] for line in axes.lines]
        times = np.arange(1, len(peer_models.MODELS) + 1)
        np.testing.assert_allclose(places, np.stack([10.0 * times, 0.1 * times], axis=1))
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == [model.name for model in peer_models.MODELS]
    looks = {(line.get_color(), line.get_marker()) for line in figure.axes[0].lines}
    assert len(looks) == len(texts)


def test_data_of_the_papers_are_shortened_and_classes_shuffled(data_folder, monkeypatch):
    monkeypatch.setattr(peers, "LENGTH", 50)
    options = Options(command="bench", data=data_folder, datasets=("magic04", "tom"))
    classes, numbers = peers.streams(options, options.datasets, Report("bench"))
    for stream, task in ((classes, "classification"), (numbers, "regression")):
        data = jaxmkl.tables.read(data_folder / f"{stream.name}.npz")
        assert stream.task == task == data.task
        assert len(stream.y) == 50
        in_file_order = np.array_equal(stream.X, data.X[:50].astype(np.float32))
        assert in_file_order == (task == "regression")
    nothing = Options(command="bench", data=data_folder / "none", datasets=("twitter",))
    (made,) = peers.streams(nothing, nothing.datasets, Report("bench"))
    assert (made.name, made.X.shape, made.y.dtype) == ("generated", (50, 77), np.float32)


@pytest.mark.endless
def test_each_model_has_a_process_of_its_own(monkeypatch, capsys):
    sgd = next(m for m in peer_models.MODELS if m.package == "sklearn")
    raker = Model("raker", "jaxmkl", "raker", None, {"num_features": 4})
    monkeypatch.setattr(peers, "MODELS", (sgd, raker))
    monkeypatch.setattr(peers, "LENGTH", 40)
    shown = Report("python -m experiments bench --peers")
    peers.run(Options(command="bench", datasets=("tom",)), shown)
    found = {(r.algorithm, r.metric): r.mean for r in shown.rows}
    assert 0 < found["raker", "mae"] < 3
    assert found["raker", "memory_growth_mib"] > 5  # the compiler's
    assert found["raker", "memory_growth_mib"] > found[sgd.name, "memory_growth_mib"]
    assert "generated" in capsys.readouterr().out
