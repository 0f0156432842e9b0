"""The command line, by real small runs: tables, JSON, plots, errors and exit statuses."""

import dataclasses
import doctest
import importlib
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from experiment_rows import pictures, rows_of, value

import jaxmkl
from experiments import evaluate, generate, inside, names, tour
from experiments.__main__ import main
from experiments.options import Options
from experiments.papers import PAPERS, multitask
from experiments.papers.paper import as_published
from experiments.papers.printed import printed
from experiments.report import Report
from experiments.results.plan import IN_PARTS
from jaxmkl.evaluate import UsageError
from jaxmkl.recipes import published
from jaxmkl.recipes.settings import SETTINGS

ROOT = Path(__file__).parents[2]

SMALL_PROGRAMS = True


def test_weights_are_those_of_the_kernels_wherever_their_models_stand():
    """All least squares of banks side by side stand together."""

    def bank(widths, *rules):
        return jaxmkl.models.FeatureModels(jaxmkl.Gaussian(widths), rules)

    squares, steps = jaxmkl.updates.RLS(0.1), jaxmkl.updates.OGD(0.1, loss="squared")
    beside = jaxmkl.models.SideBySide((bank([1.0, 2.0], squares, steps), bank(3.0, squares)))
    learner = jaxmkl.MKL((beside, bank([4.0, 5.0], steps, squares)))
    of_models = inside.kernels_of_models(learner)
    assert of_models == (0, 1, 2, 0, 1, 3, 4, 3, 4)
    info = learner.info(learner.init(jax.random.key(0), num_inputs=2))
    info = info._replace(weights=jax.numpy.asarray(2.0 ** np.arange(9)))
    output = jaxmkl.Output(*(None,) * len(jaxmkl.Output._fields))._replace(info=info)
    found = inside.kernel_weights(of_models)(output).info
    assert found.tolist() == [1 + 8, 2 + 16, 4, 32 + 128, 64 + 256]


def test_programs_that_are_let_go_take_no_memory(monkeypatch):
    @jax.jit
    def twice_what_a_test_gives(x):
        return 2 * x

    def living():
        (device, *_) = jax.devices()
        names = (each.hlo_modules()[0].name for each in device.client.live_executables())
        return sum(twice_what_a_test_gives.__name__ in name for name in names)

    monkeypatch.setattr(evaluate, "PROGRAMS", 2)
    monkeypatch.setattr(evaluate, "_programs", {})
    for size in range(1, 6):
        given = np.ones(size, np.float32)
        np.testing.assert_array_equal(evaluate.program(twice_what_a_test_gives, given)(given), 2)
        assert 1 <= living() <= 2


@pytest.mark.slow
def test_the_main_job_plays_real_data_and_shows_table_json_and_plots(tmp_path, capsys):
    out, plots = tmp_path / "deep" / "tour.json", tmp_path / "plots"
    arguments = ["--datasets", "diabetes", "--algorithms", "raker,amkl", "--seeds", "3"]
    arguments += ["--set", "num_features=4"]
    assert main([*arguments, "--json", str(out), "--plots", str(plots)]) == 0

    rows = rows_of(out)
    assert {(r["algorithm"], r["metric"]) for r in rows} == {
        (a, m) for a in ("raker", "amkl") for m in ("mse", "label_rate")
    }
    assert {r["seeds"] for r in rows} == {3}
    assert {r["parameters"]["num_features"] for r in rows} == {4}
    assert all(r["parameters"]["scaler"] == "RunningMoments(clip=10.0)" for r in rows)
    assert all(r["seconds_per_run"] > 0 for r in rows)
    assert value(rows, "raker", "label_rate") == 1
    assert 1 / 3 <= value(rows, "amkl", "label_rate") < 0.9
    assert value(rows, "raker", "mse") < 1  # that of the mean
    assert pictures(plots) == {"tour_diabetes.png"}

    shown = capsys.readouterr().out
    assert f"{value(rows, 'raker', 'mse'):.4f}" in shown
    assert "seconds a run" in shown
    assert "printed" not in shown
    assert "[tour 2/2" in shown


@pytest.mark.slow
def test_the_main_job_plays_the_drift_unscaled_and_in_its_order(play, tmp_path, monkeypatch):
    monkeypatch.setattr(tour, "DRIFT_LENGTH", 600)
    rows = play("tour", "drift", "raker", seeds=2, plots=True, num_features=4)
    stream, learner = tour.drift().astype(np.float32), jaxmkl.raker(num_features=4)
    given = learner, evaluate.keys_of(2), stream.X, stream.y
    _, outputs = jaxmkl.run_many(*given, permute=False)
    assert value(rows, "raker", "mse") == pytest.approx(float(outputs.loss.mean()), rel=1e-4)
    assert pictures(tmp_path / "plots") == {"tour_drift.png"}


def test_everything_the_main_job_offers_is_there():
    sizes = {name: make().X.shape for name, make in tour.STREAMS.items()}
    assert sizes == {
        "diabetes": (442, 10),
        "breast_cancer": (569, 30),
        "digits": (1797, 64),
        "drift": (10_000, 10),
    }
    for name in ("breast_cancer", "digits"):
        assert set(np.unique(tour.STREAMS[name]().y)) == {-1, 1}


def test_the_main_job_compiles_on_the_cores_that_it_may_use(monkeypatch):
    class Asked(Exception):
        """The number of threads, which is all that is wanted."""

    def pool(max_workers):
        raise Asked(max_workers)

    monkeypatch.setattr(tour, "ThreadPoolExecutor", pool)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    with pytest.raises(Asked, match=r"^1$"):
        tour.run(Options(datasets=("diabetes",), algorithms=("raker",)), Report("tour"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "choose from 'tour', 'amkl', 'bomkl', 'oks', 'design', 'multitask', "),
        (["--datasets", "iris"], "unknown data set 'iris'; there are: diabetes, "),
        (["--algorithms", "svm"], "unknown algorithm 'svm'; there are: raker, "),
        (["--seeds", "0"], "at least 1; got '0'"),
        (["--set", "num_features"], "expected NAME=VALUE; got 'num_features'"),
        (["--set", "colour=1"], "--set colour: not a parameter of raker, "),
        (["--set", "num_features=-3"], "raker: FourierFeatures: num_features must be an integer"),
        (["--algorithms=raker", "--set", "loss='logistic'"], "raker: is for classification, but"),
        (["--unheard-of"], "unrecognized arguments: --unheard-of"),
        (["amkl"], "name their folder with --data DIR or in JAXMKL_DATA"),
        (["amkl", "--data", "/no/such/folder"], "the folder /no/such/folder does not exist"),
        (["amkl", "--datasets", "mnist"], "unknown data set 'mnist'; there are: twitter, tom"),
        (["amkl", "--algorithms=raker, multitask"], "unknown algorithm 'multitask'; there are: "),
        (["amkl", "--algorithms", "spa"], "spa: is for classification, but the target needs regr"),
        (["multitask", "--datasets", "landmine,iris"], "unknown data set 'iris'; there are: land"),
        (
            ["amkl", "--algorithms", "raker (as published)", "--set", "step_size=1"],
            "--set step_size: not a parameter of raker (as published)",
        ),
        (["amkl", "--parts", "plots"], "unknown part 'plots'; there are: tables, "),
        (["amkl", "--algorithms", "raker", "--set", "tolerance=1"], "not a parameter of raker"),
        (["bomkl", "--parts", "table3"], "there are: table1, table2, sensitivity, precision"),
        (["bomkl", "--set", "discount=2"], "omkc_dd: discount: discount must be in (0, 1]"),
        (["design", "--algorithms", "spa"], "there are: random, ted, cted, rrss, gmkal, lmkal, c"),
        (["design", "--set", "num_points=3"], "--set num_points: not a parameter of random, ted"),
        (["design", "--set", "regularization=-1"], "ted: regularization must be positive and fin"),
        (["design", "--algorithms", "lmkal", "--set", "max_iterations=0.5"], "lmkal: max_iterat"),
        (["design", "--algorithms", "ted", "--set", "tolerance=1"], "not a parameter of ted"),
        (["oks", "--set", "num_sampled=0"], "oks_sil: HypothesisSketch: num_sampled"),
        (["bench", "--long", "--memory"], "not allowed with argument --long"),
        (["bench", "--rounds", "5"], "--rounds is of --endless, --peers"),
        (["bench", "--fleet", "--algorithms", "raker"], "is of --endless, --compile, --peers"),
        (["bench", "--compile", "--algorithms", "nobody"], "unknown learner 'nobody'"),
        (["bench", "--endless", "--algorithms", "nobody"], "unknown learner 'nobody'"),
        (["bench", "--datasets", "tom"], "--datasets is of --peers"),
        (["bench", "--peers", "--datasets", "moon"], "unknown data set 'moon'"),
        (["--data", "digits"], "unrecognized arguments: --data digits"),
        (["tour", "--parts", "tables"], "unrecognized arguments: --parts tables"),
        (["--json", f"{__file__}/no.json"], "test_experiments.py cannot be written to"),
        (["--plots", f"{__file__}/no"], "test_experiments.py cannot be written to"),
        (["run", "no.csv", "--seeds", "2"], "one's own data: jaxmkl run no.csv --seeds 2"),
    ],
)
def test_a_request_that_cannot_be_met_is_one_line_and_status_2(
    arguments, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("python -m experiments: ")
    assert error.count("\n") == 1
    assert said in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "unknown"),
    [
        (["amkl", "--algorithms", "raker,nosuch"], "algorithm 'nosuch'"),
        (["--seeds", "2", "--datasets=iris"], "data set 'iris'"),
        (["design", "--data", "/none", "--parts", "tables,all"], "part 'all'"),
        (["decisions", "--json", "no.json", "--algorithms", "raker"], "algorithm 'raker'"),
    ],
)
def test_unknown_names_are_refused_before_anything_is_imported(arguments, unknown, tmp_path):
    program = """import sys
from experiments.__main__ import main
status = main(sys.argv[1:])
slow = {"jax", "jaxmkl", "matplotlib", "numpy", "scipy", "sklearn"} & {*sys.modules}
sys.exit(status if not slow else f"imported {slow}")"""
    given = [sys.executable, "-c", program, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        given, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert done.returncode == 2, done.stderr
    assert f"unknown {unknown}; there are: " in done.stderr
    assert done.stderr.count("\n") == 1


def test_names_of_the_command_line_are_those_of_the_papers():
    assert {*names.COMMANDS} == {*IN_PARTS, "tour"}
    assert tuple(jaxmkl.LEARNERS) == names.LEARNERS
    for name, paper in IN_PARTS.items():
        known = names.COMMANDS[name]
        assert known.datasets == tuple(paper.datasets)
        assert known.algorithms == tuple(paper.algorithms)
        assert known.parts == tuple(paper.by_name)
        assert known.published == tuple(paper.published)
        assert known.learners == bool(paper.open_parts)
        assert {*paper.open_parts} <= {*paper.by_name}
    ours = names.COMMANDS["tour"]
    assert (ours.datasets, ours.algorithms) == (tuple(tour.STREAMS), evaluate.FAMILY)


def mine(kernel=None):
    """A learner of one's own: a perceptron of one kernel."""
    return jaxmkl.perceptron(jaxmkl.Gaussian(0.5) if kernel is None else kernel)


def mine_of_numbers(step_size=0.1):
    return jaxmkl.kernel_ogd(jaxmkl.Gaussian(1.0), step_size=step_size)


endless = partial(pytest.param, marks=pytest.mark.endless)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "dataset", "recipe", "metric"),
    [
        ("amkl", "tom", mine_of_numbers, "mse"),
        endless("bomkl", "german", mine, "mistake_rate"),
        endless("oks", "german", mine, "mistake_rate"),
        endless("multitask", "digits", mine, "auc"),
    ],
)
def test_a_learner_of_ones_own_joins_a_papers_table(
    command, dataset, recipe, metric, data_folder, play, monkeypatch
):
    monkeypatch.setitem(jaxmkl.LEARNERS, "own", recipe)
    if command == "multitask":
        of_some = multitask.stream_of

        def few(job, name):
            stream = of_some(job, name)
            return dataclasses.replace(stream, X=stream.X[::40], y=stream.y[::40])

        monkeypatch.setattr(multitask, "stream_of", few)
    rows = play(command, dataset, "own", seeds=2)
    (found,) = [r for r in rows if (r["algorithm"], r["metric"]) == ("own", metric)]
    assert found["dataset"] == dataset
    assert 0 < found["mean"] < 1
    assert found["printed"] is None


def test_a_learner_as_published_is_that_of_the_recipes_with_every_source():
    X = np.zeros((400, 3), np.float32)
    stream = evaluate.Stream("made", X, np.zeros(400, np.float32), "regression")
    for paper in IN_PARTS.values():
        for name in paper.published:
            made = as_published(f"{name} (as published)", stream)
            learner = published(name, num_examples=400, num_inputs=3)
            assert repr(made.learner) == repr(learner)
            assert made.name == f"{name} (as published)"
            constants = SETTINGS[name].constants
            assert {*made.parameters} == {one.name for one in constants}
            assert all(one.source in made.parameters[one.name] for one in constants)
    tuned = as_published("oks (as published)", stream, step_size=1e-3)
    assert tuned.parameters["step_size"] == 1e-3
    assert float(np.ravel(tuned.learner.models[0].rule.step_sizes)[0]) == 1e-3


@pytest.mark.slow
def test_a_row_as_published_stands_beside_ours_and_the_printed_one(data_folder, play):
    both = "raker (as published),raker"
    rows = play("amkl", "tom", both, seeds=2, num_features=4)
    errors = {r["algorithm"]: r for r in rows if r["metric"] == "mse"}
    assert {r["printed"] for r in errors.values()} == {0.00387}
    published, ours = (errors[name]["parameters"] for name in both.split(","))
    assert published["step_size"] == "η_l = T^(-1/2) ((57))"
    assert ours["num_features"] == 4  # a setting of ours, which the published row does not take
    assert "50" in published["num_features"]


def help_of(capsys, *arguments):
    with pytest.raises(SystemExit) as left:
        main([*arguments, "--help"])
    assert left.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_help_names_every_command_and_its_choices(capsys):
    shown = help_of(capsys)
    assert all(name in shown for name in ("tour", "bench", *PAPERS))
    assert f"Data sets: {', '.join(multitask.PAPER.datasets)}." in help_of(capsys, "multitask")
    assert "Seeds by default: 3." in help_of(capsys, "tour")


def test_an_interrupt_is_one_line_and_status_130(tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tour, "run", interrupted)
    assert main(["--plots", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "python -m experiments: interrupted\n"


def test_what_becomes_unwritable_meanwhile_is_named(tmp_path):
    shown = Report("tour", plots=tmp_path / "file" / "plots")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"/file/plots: Not a directory"):
        shown.plot("empty", [])
    with pytest.raises(UsageError, match=r"/file: "):
        shown.write_json(tmp_path / "file" / "rows.json")


def test_generated_examples_depend_on_key_and_index_alone():
    X, y = generate.examples(3, 0, 600)
    chunks = list(generate.chunks(3, 600, 250))
    assert [len(c[1]) for c in chunks] == [250, 250, 100]
    np.testing.assert_array_equal(np.concatenate([c[0] for c in chunks]), X)
    np.testing.assert_array_equal(np.concatenate([c[1] for c in chunks]), y)
    assert np.abs(generate.examples(4, 0, 600)[0] - X).max() > 1


def test_the_drifting_stream_drifts_and_the_stationary_one_does_not():
    X, moving = generate.examples(3, 0, 12_000)
    same_X, resting = generate.examples(3, 0, 12_000, drift=False)
    np.testing.assert_array_equal(X, same_X)
    assert np.isfinite(moving).all()
    assert 0.3 < moving.var() < 2
    apart = np.abs(moving - resting)
    assert apart[:20].max() < 0.1  # the same target at first
    assert apart[5000:5500].mean() > 0.3  # another one after the abrupt change


def test_only_two_inputs_of_ten_matter():
    X, y = generate.two_that_matter(3, 0, 5000)
    np.testing.assert_array_equal(generate.two_that_matter(3, 100, 200)[0], X[100:200])
    assert X.shape == (5000, 10)
    assert -1 <= X.min() < -0.99
    assert 0.99 < X.max() <= 1
    assert abs(y.mean()) < 0.05
    same = (X[:, 0] > 0) == (X[:, 1] > 0)
    near = np.abs(X[:, 0]) < np.pi / 4  # there the sine has the sign of its argument
    np.testing.assert_array_equal(y[near] > 0, same[near])
    np.testing.assert_array_equal(y[~near] > 0, ~same[~near])
    assert np.abs(generate.two_that_matter(4, 0, 5000)[0] - X).max() > 1


def test_figures_printed_in_the_paper():
    assert printed("amkl", "twitter", "amkl_aks", "mse") == 0.00285
    assert printed("amkl", "naval", "omkl_b", "mse") == 0.81874
    assert printed("amkl", "tom", "amkl", "label_rate") == 0.88
    assert printed("amkl", "german", "raker", "mse") is None
    assert printed("bomkl", "a9a", "omkc_sd", "mistake_rate") == 0.1893
    assert printed("bomkl", "magic04", "perceptron*", "support") == 4620.9
    assert printed("bomkl", "cod_rna", "bpas", "mistake_rate") == 0.0562
    assert printed("bomkl", "susy", "spa", "support") == 1978.8
    assert printed("bomkl", "susy", "omkc_u", "support") is None
    assert printed("bomkl", "kdd08", "omkc_sd", "mistake_rate") == 0.0063
    assert printed("bomkl", "kdd08", "rbp", "support") == 1680
    assert printed("bomkl", "ijcnn1", "spa", "support") == 5653
    assert printed("bomkl", "ijcnn1", "bogd", "mistake_rate") == 0.0971
    assert printed("oks", "mushrooms", "oks_sil", "mistake_rate") == 0.00351
    assert printed("oks", "cod_rna", "oks", "mistake_rate") == 0.12927
    assert printed("oks", "ijcnn1", "proj_ka", "mistake_rate") == 0.1194
    assert printed("oks", "w7a", "okl_gd", "zero_rate") is None


EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "experiments").rglob("*.py"))
    if ">>> " in path.read_text("utf-8")
]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_in_docstrings(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["amkl", "--data", "data", "--json", "data/naval.npz"], "--json: data/naval.npz is also"),
        (["tour", "--json", "data"], "--json: data is not a file"),
        (["tour", "--plots", "figures.json"], "--plots: figures.json is not a folder"),
        (["tour", "--plots", "plots", "--json", "plots/a.png"], "--plots: plots/a.png is also"),
        (["report", "figures.json", "--out", "hard.json"], "--out: hard.json is also named by FI"),
        (["report", "page.html"], "--out: page.html is also named by FILE"),
    ],
)
def test_no_experiment_writes_what_it_reads(line, said, data_folder, monkeypatch, capsys):
    """Neither data nor figures, by none of their names; nothing is run before that is said."""
    folder = data_folder.parent
    monkeypatch.chdir(folder)
    for name in ("figures.json", "page.html"):
        (folder / name).write_text("{}")
    (folder / "hard.json").hardlink_to(folder / "figures.json")
    (folder / "plots").mkdir()
    (folder / "plots" / "a.png").write_bytes(b"a picture")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(line) == 2
    assert capsys.readouterr().err.startswith(f"python -m experiments: {said}")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("arguments", [[], ["amkl", "--datasets"], ["amkl", "--parts="]])
def test_nothing_is_unknown_where_no_name_is_given(arguments):
    assert names.refusal(arguments) is None
