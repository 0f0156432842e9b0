"""The benchmarks, on very little."""

import functools
from pathlib import Path

import jax
import numpy as np
import pytest
from experiment_rows import value

import jaxmkl
from experiments import report
from experiments.__main__ import main
from experiments.bench import (
    certainty,
    compiling,
    device,
    endless,
    features,
    fleet,
    launches,
    supports,
    tables,
    timing,
)
from experiments.options import Options

SMALL_PROGRAMS = True


@pytest.mark.endless
def test_the_benchmark(play, monkeypatch, capsys):
    monkeypatch.setattr(features, "LENGTH", 300)
    monkeypatch.setattr(features, "REPEATS", 2)
    monkeypatch.setattr(features, "SEEDS_AT_ONCE", 3)
    monkeypatch.setattr(features, "FIRST", {"scikit-learn": 20, "expert_mkl": 300})
    # with all its banks it is timed alike, and takes minutes to compile
    small = functools.partial(jaxmkl.expert_mkl, banks="fixed", num_features=4)
    monkeypatch.setattr(jaxmkl, "expert_mkl", small)
    monkeypatch.setattr(supports, "REPEATS", 2)
    case = supports.Case("magic04", "rbp", 2, {"budget": 5}, length=300)
    monkeypatch.setattr(supports, "CASES", (case,))
    monkeypatch.setattr(supports, "SHAPES", {**supports.SHAPES, "cod_rna": (1005, 8)})
    monkeypatch.setattr(supports, "LANDMINE", (150, 4, 5))
    monkeypatch.setattr(supports, "TASK_ORDERS", 2)
    monkeypatch.setattr(supports, "TASK_RUNS", {"multitask": 0.1})
    rows = play("bench")
    assert all(r["mean"] > 0 for r in rows)
    for name in ("raker, 3 seeds", "encoding", "expert_mkl, fixed, ten classes", "scikit-learn"):
        assert value(rows, name, "microseconds_per_example") > 0
    assert value(rows, "raker", "times_product") > 1
    assert value(rows, "encoding", "times_raker") < 2
    faster = value(rows, "scikit-learn", "times_raker")
    each = [value(rows, name, "microseconds_per_example") for name in ("scikit-learn", "raker")]
    assert faster == pytest.approx(each[0] / each[1], rel=0.9)
    for name in ("raker", "expert_mkl"):
        for stage in ("trace", "lowering", "compile"):
            assert 0 < value(rows, name, f"{stage}_seconds") < 100
    for name in ("rbp, 2 orders", "multitask"):
        assert value(rows, name, "seconds_per_pass") < value(rows, name, "compile_seconds")
    assert value(rows, "rbp, 2 orders", "support") == 16 * 5
    assert {r["dataset"] for r in rows} == {
        "generated",
        "generated, as magic04",
        "generated, as cod_rna",
        "generated, as landmine",
    }
    covariances = (5 + 1) * 100**2 * 4  # bytes
    assert 1 < value(rows, "multitask", "state_mib") * 2**20 / covariances < 1.6
    (tenths,) = (r for r in rows if r["metric"] == "last_over_first")
    assert tenths["parameters"]["examples"] == 1000
    first, last = (value(rows, "oks_sil", f"seconds_{end}_tenth") for end in ("first", "last"))
    assert tenths["mean"] == pytest.approx(last / first, rel=0.9)
    assert "expert_mkl" in capsys.readouterr().out


@pytest.mark.slow
def test_the_long_stream_is_never_in_memory(capsys):
    shown = report.Report("python -m experiments bench --long")
    features.long_stream(shown, total=2500, chunk=500)
    rows = {row.metric: row.mean for row in shown.rows}
    assert rows["last_over_first"] > 0
    assert rows["peak_memory_mib"] > rows["memory_growth_mib"] >= 0
    assert 0.01 < rows["mse"] < 0.6
    assert "[long stream 5/5" in capsys.readouterr().out


@pytest.mark.endless
def test_memory_is_measured_in_a_process_of_its_own(capsys):
    shown = report.Report("python -m experiments bench --memory")
    case = supports.Case("magic04", "rbp", 2, {"budget": 5}, length=300)
    assert np.ones(2**26).all()  # takes 512 MiB that are not the measured process's
    supports.memory(Options(), shown, case)
    rows = {row.metric: row for row in shown.rows}
    before = rows["memory_before_mib"].mean
    assert 10 < before < rows["peak_memory_mib"].mean
    assert before < timing.peak_memory() - 512
    assert rows["support"].mean == 16 * 5
    assert rows["support"].parameters["seeds"] == 2
    assert "generated, as magic04" in capsys.readouterr().out


def test_things_are_compiled_called_and_timed_in_turn(capsys):
    calls = []
    twice = jax.jit(lambda x: 2 * x)
    shown = report.Report("python -m experiments bench")
    found = timing.measured(
        shown,
        {"twice": (twice, (np.arange(3.0),)), "of five": (twice, (np.arange(5.0),))},
        2,
        others={"plain": lambda: calls.append(1)},
    )
    np.testing.assert_array_equal(found["of five"].result, 2 * np.arange(5.0))
    assert min(found["twice"].before.values()) > [0]
    assert found["plain"].before == {}
    assert list(found["twice"].before) == ["trace_seconds", "lowering_seconds", "compile_seconds"]
    assert [len(one.seconds) for one in found.values()] == [2, 2, 2]
    assert len(calls) == 4  # one that is not timed before each
    assert "timing 3 functions in turn, 2 times" in capsys.readouterr().out
    rows = timing.figures("made", "x", {"seconds": [1.0, 2.0, 6.0], "one": [3.0]}, seeds=4)
    assert [(row.metric, row.mean, row.std, row.seeds) for row in rows] == [
        ("seconds", 2.0, pytest.approx(7**0.5), 4),
        ("one", 3.0, 0.0, 4),
    ]
    assert rows[0].parameters["repeats"] == 3


@pytest.mark.endless
def test_seeds_at_once_are_timed_on_the_device_there_is(play, monkeypatch, capsys):
    small = functools.partial(jaxmkl.raker, jaxmkl.Gaussian([1.0]), num_features=4)
    monkeypatch.setattr(device, "SEEDS", (1, 3))
    monkeypatch.setattr(device, "CASES", {"raker": (small, 40)})
    rows = play("bench --device")
    names = ["raker", "raker, 3 seeds"]
    assert list(dict.fromkeys(r["algorithm"] for r in rows)) == names
    for name in names:
        stages = ("trace", "lowering", "compile")
        assert min(value(rows, name, f"{stage}_seconds") for stage in stages) > 0
        for metric in ("microseconds_per_example", "kernels_a_round", "mebibytes"):
            assert value(rows, name, metric) > 0
    assert [r["seeds"] for r in rows if r["metric"] == "trace_seconds"] == [1, 3]
    kind = jax.devices()[0]
    assert f"device: {kind.device_kind}, platform {kind.platform}" in capsys.readouterr().out


@pytest.mark.endless
def test_a_fleet_is_timed_beside_one_run(play, monkeypatch):
    for name, small in {"STREAMS": 6, "EXAMPLES": 20, "REPEATS": 2, "NUM_FEATURES": 4}.items():
        monkeypatch.setattr(fleet, name, small)
    rows = play("bench --fleet")
    for name in ("raker, a fleet", "raker, a fleet, ragged"):
        assert value(rows, name, "times_one_run") > 0
    examples = {r["algorithm"]: r["parameters"]["examples"] for r in rows}
    assert examples["raker"] == examples["raker, a fleet"] == 120
    assert 0 < examples["raker, a fleet, ragged"] < 120


@pytest.mark.endless
def test_wide_tables_are_read_in_turn_with_another_version(play, monkeypatch, tmp_path, capsys):
    for name, small in {"SIZES": {20: 30, 40: 30}, "MOST_BESIDE": 20, "REPEATS": 1}.items():
        monkeypatch.setattr(tables, name, small)
    other = str(Path(jaxmkl.__file__).parents[1])
    rows = play(f"bench --tables --beside {other}")
    of = {(r["dataset"], r["algorithm"], r["metric"]) for r in rows}
    assert ("20 columns", "beside", "times_here") in of
    assert ("40 columns", "here", "decide_seconds") in of
    assert ("40 columns", "beside", "decide_seconds") not in of
    assert all(r["mean"] > 0 for r in rows)
    assert main(["bench", "--tables", "--beside", str(tmp_path)]) == 2
    assert "has no folder jaxmkl" in capsys.readouterr().err
    assert main(["bench", "--fleet", "--beside", other]) == 2
    assert "--beside is of --tables" in capsys.readouterr().err


@pytest.mark.endless
def test_certainty_is_timed_beside_values_alone(play, monkeypatch):
    for name, small in {"EXAMPLES": 64, "REPEATS": 2}.items():
        monkeypatch.setattr(certainty, name, small)
    whole = jaxmkl.expert_mkl

    def small(*, banks="fixed", **options):
        return whole(banks=banks, num_features=4, **options)

    monkeypatch.setattr(jaxmkl, "expert_mkl", small)
    rows = play("bench --certainty")
    beside = {r["algorithm"] for r in rows if r["metric"] == "times_value"}
    several = {f"expert_mkl, fixed, {what}" for what in ("variance", "density")}
    assert several < beside
    assert len(beside) == 6
    assert not any(name.endswith("value") for name in beside)


A_STREAM = """
%loss (a: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  ROOT %b = f32[] multiply(%a, %a)
}

%factors (p: (f32[])) -> (f32[]) {
  %p = (f32[]) parameter(0)
  %x = f32[] get-tuple-element(%p), index=0
  %y = f32[] fusion(%x), kind=kLoop, calls=%loss
  ROOT %t = (f32[]) tuple(%y)
}

%less (p: (f32[])) -> pred[] {
  ROOT %c = pred[] compare(%p, %p), direction=LT
}

%many (p: (f32[])) -> (f32[]) {
  ROOT %c = (f32[]) custom-call(%p), custom_call_target="solve"
}

%none (p: (f32[])) -> (f32[]) {
  ROOT %p = (f32[]) parameter(0)
}

%rounds (p: (f32[])) -> (f32[]) {
  %p = (f32[]) parameter(0)
  %w = (f32[]) while(%p), condition=%less, body=%factors, backend_config={"known_trip_count":{"n":"3"}}
  %d = (f32[]) conditional(%w), branch_computations={%none, %many}
  %s = (f32[]) copy-start(%d)
  ROOT %e = (f32[]) copy-done(%s)
}

ENTRY %main (p: (f32[])) -> (f32[]) {
  %p = (f32[]) parameter(0)
  %w = (f32[]) while(%p), condition=%less, body=%rounds, metadata={op_name="jit(run)/while/body/while"}, backend_config={"known_trip_count":{"n":"4"}}
  ROOT %sum = f32[] reduce(%w, %p), dimensions={0}, to_apply=%loss
}
"""  # noqa: E501


def test_kernels_of_a_round_are_those_of_the_loop_over_a_blocks_rounds():
    """Three turns of one kernel, a choice between none and one, and a copy."""
    found = launches.computations(A_STREAM)
    assert launches.kernels(found, "rounds") == 3 * 1 + (1 + 1) + 1
    assert launches.kernels_a_round(A_STREAM, 4) == 6
    assert launches.kernels_a_round(A_STREAM, 8) == 3
    with pytest.raises(ValueError, match="loop over the rounds of blocks of 6"):
        launches.kernels_a_round(A_STREAM, 6)


def test_examples_of_the_device_are_those_of_a_learners_task():
    for name, (make, _) in device.CASES.items():
        learner = make()
        X, y = device.examples(name, learner, 40)
        assert X.shape == (40, device.INPUTS + (name == "multitask"))
        assert X.dtype == y.dtype == np.float32
        assert (set(y) == {-1, 1}) == (learner.task == "classification")


def test_data_of_the_benchmarks_are_made_where_there_are_none(monkeypatch, data_folder):
    monkeypatch.delenv("JAXMKL_DATA")
    nothing, there = Options(command="bench"), Options(command="bench", data=data_folder)
    monkeypatch.setattr(supports, "SHAPES", {"a9a": (600, 9), "magic04": (40, 3)})
    case = supports.Case("a9a", "spa", 2, length=500)
    name, (_, keys, X, y) = supports.call_of(case, nothing)
    assert name == "generated, as a9a"
    assert (X.shape, y.shape, keys.shape) == ((500, 9), (500,), (2,))
    assert set(np.unique(X)) == {0, 1}
    assert X.mean() == pytest.approx(1 / 9, abs=0.02)
    assert set(np.unique(y)) == {-1, 1}
    name, (_, _, X, _) = supports.call_of(supports.Case("magic04", "spa", 1), there)
    assert (name, X.shape) == ("magic04", (300, 3))
    assert features.of_77_inputs()[1].shape == (13_813, 77)
    stream = supports.stream_of_tasks(nothing)
    assert stream.X.shape == (14_820, 1 + 9)
    assert set(np.unique(stream.X[:, 0])) == set(range(29))


@pytest.mark.endless
def test_endless_streams_in_both_precisions(play, monkeypatch, capsys):
    monkeypatch.setattr(endless, "REPEATS", 2)
    names = ["raker"]
    rows = play("bench --endless --rounds 2000", algorithms=",".join(names))
    assert {row["parameters"]["examples"] for row in rows} == {2000}
    for name in names:
        single, double = f"{name}, float32", f"{name}, float64"
        assert value(rows, single, "nonfinite") == 0
        assert 0 < value(rows, single, "error_last_tenth") < 0.6
        assert 0.8 < value(rows, single, "times_float64") < 1.2
        assert value(rows, double, "times_float64") == 1
        assert value(rows, double, "last_over_first") > 0
    errors = [value(rows, "raker, float64", f"error_{end}_tenth") for end in ("first", "last")]
    assert errors[1] < errors[0]
    moved = value(rows, "raker, float64, inputs moved", "error_last_tenth")
    assert moved != errors[1]
    assert moved == pytest.approx(errors[1], rel=1e-4)
    assert "2,000 examples, made chunk by chunk" in capsys.readouterr().out


def test_kernels_of_a_program_are_counted_once():
    """One of the conditions, of the inner loop, of a branch and of a copy, and the sum."""
    assert launches.num_kernels(A_STREAM) == 1 + 1 + 1 + 1 + 1


def test_every_recipe_can_be_compiled():
    for make in compiling.RECIPES.values():
        assert isinstance(make(), jaxmkl.Learner)


@pytest.mark.slow
def test_what_compiling_takes_is_told(play, monkeypatch, capsys):
    """Compile the recipes that are asked for, here in this process."""
    enabled = jax.config.jax_enable_compilation_cache
    monkeypatch.setattr(compiling, "in_own_process", lambda of, *given: of(*given, 64))
    rows = play("bench --compile", algorithms="perceptron")
    jax.config.update("jax_enable_compilation_cache", enabled)
    stages = {"init_seconds", "trace_seconds", "lowering_seconds", "compile_seconds"}
    assert {row["metric"] for row in rows} == stages | {"kernels"}
    assert value(rows, "perceptron", "kernels") > 10
    assert all(value(rows, "perceptron", stage) > 0 for stage in stages)
    assert "processor seconds" in capsys.readouterr().out
