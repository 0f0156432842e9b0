"""Bounds of theorems beside runs: the figures, by hand, and what is said of them."""

import numpy as np
import pytest
from experiment_rows import value

import jaxmkl
from experiments.evaluate import keys_of
from experiments.papers import bounds
from jaxmkl.evaluate import rows

LENGTH = 120


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(bounds, "LENGTH", LENGTH)
    monkeypatch.setattr(bounds, "PENALTIES", np.array([0.01, 0.1]))
    monkeypatch.setattr(bounds, "SPARSE", ((1.0, 1.0), (0.5, 2.0)))
    monkeypatch.setattr(bounds, "HS", (0.5,))


@pytest.mark.endless
def test_support_and_losses_of_spa_stay_within_their_bounds(play, short, capsys):
    found = play("bomkl --parts bounds", seeds=3, step_size=0.2)
    names = {row["algorithm"] for row in found}
    assert names == {
        f"spa (α = {alpha}, β = {beta}, {kernels})"
        for alpha, beta in (("1", "1"), ("0.5", "2"))
        for kernels in ("13 kernels", "one")
    }
    many = value(found, "spa (α = 0.5, β = 2, 13 kernels)", "support_bound")
    assert many == 0.5 * LENGTH / 2
    for row in found:
        if row["metric"] == "support_share":
            assert 0 < row["mean"] <= 1 + 2 * row["std"] / np.sqrt(3)
    one = "spa (α = 1, β = 1, one)"
    # V of f = 0 is T (1 + η β / min(α, sqrt(β η))), and that of the best f is no more
    assert value(found, one, "loss_bound") <= LENGTH * (1 + 0.2 / np.sqrt(0.2)) * 1.0001
    assert 0 < value(found, one, "loss") < value(found, one, "loss_bound")
    assert "6 of 6 bounds hold" in capsys.readouterr().out


@pytest.mark.endless
def test_losses_and_mistakes_of_many_tasks_stay_within_their_bounds(play, short, capsys):
    found = play("multitask --parts bounds", seeds=2)
    assert 0 < value(found, "global (Theorem 1)", "loss_share") <= 1
    asking = "global (Theorem 2, h = 0.5)"
    assert 0 < value(found, asking, "mistakes_share") <= 1
    assert value(found, asking, "labels") < LENGTH
    assert "2 of 2 bounds hold" in capsys.readouterr().out


@pytest.mark.endless
def test_the_bounds_of_a_run_of_many_tasks_are_those_of_a_loop(short):
    kernel = jaxmkl.Gaussian(bounds.WIDTH)
    X, y = bounds.stream()
    learner = jaxmkl.multitask(
        kernel=kernel,
        components="global",
        loss="hinge",
        update_on="margin",
        covariance="always",
        noise=2.0,
        inertia=0.5,
    )
    states, traces = bounds._traced(learner, keys_of(1), X, y)
    f, asked, variance, numbers, means = (np.asarray(each[0], np.float64) for each in traces)
    dictionary = type(states.dictionary)(*(np.asarray(leaf[0]) for leaf in states.dictionary))
    phi = bounds.coordinates(dictionary, numbers, X, kernel)
    assert asked.all()
    # the paper's loop on these coordinates, (4) and (5)
    D = phi.shape[1]
    mu, inverse, most, log_det = np.zeros(D), np.eye(D), 0.0, 0.0
    losses = 0.0
    for t, (z, label) in enumerate(zip(phi, y, strict=True)):
        margin = label * (mu @ z)
        assert margin == pytest.approx(label * f[t], abs=1e-4)
        assert z @ np.linalg.solve(inverse, z) == pytest.approx(variance[t], abs=1e-4)
        losses += max(0, 1 - margin)
        if margin < 1:
            most = max(most, float(mu @ mu))
        inverse = inverse + np.outer(z, z) / 2.0
        if margin < 1:
            mu = mu + label * np.linalg.solve(inverse, z)  # 1/(2 ε) is 1
    log_det = np.linalg.slogdet(inverse)[1]
    of_zero = LENGTH + 2.0 * log_det / (4 * 0.5) + 0.5 * most * np.trace(inverse)
    trace = f, asked.astype(bool), variance, numbers, means
    found = bounds.of_run(phi, y, learner, *trace)
    assert found["loss"] == pytest.approx(losses, rel=1e-4)
    assert found["loss"] < found["loss_bound"] <= of_zero * 1.0001


def test_a_bound_that_does_not_hold_is_told():
    figures = {"loss": np.array([4.0, 4.0]), "loss_bound": np.array([2.0, 3.0])}
    found = bounds.rows_of("bomkl", "spa", figures)
    assert next(row.mean for row in found if row.metric == "loss_share") == 1.6
    held = rows(("bomkl", bounds.GENERATED, "rbp"), {"support_share": [0.9, 1.3]})
    assert bounds.summary([*found, *held]) == ["1 of 2 bounds hold", "exceeded: spa, loss"]
