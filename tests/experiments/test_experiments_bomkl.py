"""The experiments of budgets, by real small runs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_rows import pictures, value

import jaxmkl
from experiments import evaluate, inside, report
from experiments.options import Options
from experiments.papers import bomkl
from experiments.papers.paper import Job
from experiments.papers.printed import printed
from jaxmkl.evaluate import UsageError

SMALL_PROGRAMS = True


@pytest.mark.endless
def test_tables_of_budgets(data_folder, play, capsys):
    rows = play("bomkl", "magic04", "bpas,spa", seeds=2, budget=3)
    assert {r["algorithm"]: r["printed"] for r in rows if r["metric"] == "mistake_rate"} == {
        "bpas": 0.2273,
        "spa": 0.1981,
    }
    assert value(rows, "bpas", "support") == 16 * 3
    shown = capsys.readouterr().out
    assert "mistake rate (%)" in shown
    assert "4062.9" in shown
    assert shown.count("magic04 spa") == 1  # one run serves both tables
    assert "--set budget: not a parameter of spa, ignored there" in shown


@pytest.mark.endless
def test_the_best_perceptron_of_the_first_order_is_taken(data_folder, play):
    rows = play("bomkl", "german", "perceptron*", seeds=1)
    # every mistake of a perceptron is a support vector, and no other example is
    (best,) = (r for r in rows if r["metric"] == "support")
    assert best["mean"] == pytest.approx(300 * value(rows, "perceptron*", "mistake_rate"))
    data = jaxmkl.tables.read(data_folder / "german.npz")
    X = jaxmkl.tables.scale(data.X, "symmetric")
    order = np.asarray(jaxmkl.permutations(evaluate.keys_of(1), 300)[0])
    X, y = np.asarray(X, np.float64)[order], np.asarray(data.y, np.float64)[order]
    squares = ((X[:, None] - X) ** 2).sum(2)
    grams = [np.exp(-squares / (2 * 4.0**k)) for k in range(-6, 7)]
    grams += [(X @ X.T) ** q for q in (1, 2, 3)]
    mistakes = {}
    for kernel, gram in zip(bomkl.kernels_one_by_one(), grams, strict=True):
        coefficients = np.zeros(300)
        for t in range(300):
            if y[t] * (gram[t] @ coefficients) <= 0:
                coefficients[t] = y[t]
        mistakes[repr(kernel)] = np.count_nonzero(coefficients)
    assert best["mean"] == min(mistakes.values()) < max(mistakes.values())
    assert mistakes[best["parameters"]["kernel"]] == best["mean"]


@pytest.mark.endless
def test_polynomials_of_the_printed_slip_never_learn():
    draws = np.random.default_rng(2)
    X = draws.normal(size=(60, 2)).astype(np.float32)
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1).astype(np.float32)
    kernels = jaxmkl.KernelDictionary(
        (jaxmkl.Gaussian([0.25, 0.5, 1.0, 2.0]), jaxmkl.Polynomial((1, 2, 3)))
    )
    learner = jaxmkl.omkc_dd(kernels, capacity=60)
    slipped = inside.slipped(learner)
    state = slipped.init(jax.random.key(0), 2)
    state, outputs = jaxmkl.run(slipped, state, X, y, record=lambda output: output)

    # the same by hand: models of four Gaussians; polynomials err whatever happens
    widths = np.array([0.25, 0.5, 1.0, 2.0])
    coefficients = np.zeros((4, 60))
    weights, votes, supports = np.ones(7), [], 0
    for t in range(60):
        squares = ((X[t].astype(np.float64) - X) ** 2).sum(1)
        f = (coefficients * np.exp(-squares / (2 * widths[:, None] ** 2))).sum(1)
        f = np.concatenate([f, np.zeros(3)])
        votes.append((weights / weights.sum()) @ np.where(f >= 0, 1, -1))
        wrong = y[t] * f <= 0
        weights = np.where(wrong, 0.99, 1.0) * weights
        supports += wrong.sum()
        coefficients[:, t] = y[t] * (wrong[:4] + np.append(wrong[4:], 0.0))
    np.testing.assert_allclose(outputs.prediction, votes, atol=1e-5)
    (store,) = state.models
    assert int(store.number.sum()) == supports
    assert float(jnp.abs(store.coefficients[4:]).max()) == 0
    assert float(jnp.abs(store.recent[4:]).max()) == 0
    repaired = jaxmkl.run(learner, learner.init(jax.random.key(0), 2), X, y)[1]
    assert np.abs(np.asarray(repaired.prediction) - votes).max() > 0.1


@pytest.mark.endless
def test_alpha_and_beta(data_folder, play, tmp_path, monkeypatch):
    monkeypatch.setattr(bomkl, "ALPHAS", (0.25, 1.0))
    monkeypatch.setattr(bomkl, "BETAS", (3.0, 10.0))
    monkeypatch.setattr(bomkl, "SAMPLE", 200)
    rows = play("bomkl --parts sensitivity", "a9a", "spa,bogd", seeds=2, plots=True)
    assert {r["dataset"] for r in rows} == {"a9a, T = 200"}
    most = value(rows, "spa (α = 1, β = 3)", "support")
    least = value(rows, "spa (α = 1, β = 10)", "support")
    assert least < most
    assert value(rows, "spa (α = 0.25, β = 3)", "support") < most
    assert value(rows, "bogd (as spa, β = 3)", "support") == 16 * max(1, round(most / 16))
    assert len({r["algorithm"] for r in rows}) == 5
    assert pictures(tmp_path / "plots") == {"bomkl_alpha.png", "bomkl_beta.png"}


@pytest.mark.endless
def test_precision_compares_the_same_orders(data_folder, play):
    rows = play("bomkl --parts precision", "german", "omkc_dd", seeds=2)
    for metric in ("mistake_rate", "support"):
        single = value(rows, "omkc_dd (float32)", metric)
        double = value(rows, "omkc_dd (float64)", metric)
        found = value(rows, "omkc_dd (float64)", f"{metric}_difference")
        assert found == pytest.approx(single - double, abs=1e-9)
        # other orders differ by far more
        assert abs(found) < 0.02 * double
    assert not jax.config.jax_enable_x64


@pytest.mark.slow
def test_runs_tell_their_support_vectors_through_wrappers():
    X = np.random.default_rng(3).normal(size=(100, 2)).astype(np.float32)
    stream = evaluate.Stream("made", X, np.sign(X[:, 0]), "classification")
    learner = jaxmkl.scaled(jaxmkl.perceptron(), jaxmkl.wrappers.RunningMoments())
    runs = evaluate.evaluate(learner, stream, 2, permute=True)
    # every mistake of a perceptron is a support vector, and no other example is
    np.testing.assert_allclose(runs.support, 100 * runs.error[:, -1])
    assert (runs.support > 0).all()
    built = evaluate.Candidate("perceptron", learner, {})
    assert [row.metric for row in runs.rows("own", "made", built)][-1] == "support"
    rows = dataclasses.replace(runs, support=None).rows("own", "made", built)
    assert "support" not in [row.metric for row in rows]


def test_only_the_test_rows_of_cod_rna_are_run(data_folder):
    X = np.arange(12.0, dtype=np.float32).reshape(6, 2)
    y = np.array([1, -1, 1, -1, 1, -1], np.int8)
    np.savez(data_folder / "cod_rna.npz", X=X, y=y, n_train=np.int64(4))
    options = Options(command="bomkl", data=data_folder)
    job = Job(bomkl.PAPER, options, report.Report("python -m experiments"), (), (), 1)
    stream = bomkl.stream_of(job, "cod_rna")
    np.testing.assert_array_equal(stream.X, [[-1, -1], [1, 1]])
    np.testing.assert_array_equal(stream.y, y[4:])
    np.savez(data_folder / "cod_rna.npz", X=X, y=y)
    with pytest.raises(UsageError, match=r"cod_rna\.npz: has no 'n_train'"):
        bomkl.stream_of(job, "cod_rna")


def test_budgets_are_those_of_table_2():
    for dataset, row in {"a9a": 7088, "magic04": 4064, "cod_rna": 12624, "susy": 1984}.items():
        for name in bomkl.BUDGETED:
            assert (
                printed("bomkl", dataset, name, "support") == row == 16 * bomkl.budget_of(dataset)
            )


@pytest.mark.endless
@pytest.mark.data
def test_spa_on_real_data_errs_as_printed(data_dir, play):
    for row in play("bomkl --parts table1", "german", "spa"):
        # three standard errors of the difference of two means of ten orders, about
        if row["printed"] is not None:
            assert abs(row["mean"] - row["printed"]) < 3 * (2 / 10) ** 0.5 * row["std"]
