"""The recipes with support vectors and no budget: against the NumPy oracle, and their room."""

import dataclasses

import jax
import numpy as np
import pytest
import scipy.sparse
from support_cases import (
    ALL,
    GROWING,
    GROWING_CROSSINGS,
    begin,
    check_on_the_papers_data,
    check_outputs,
    check_run,
    draws,
    expected_of,
    held,
    kernels_for,
    learner_of,
    replaced_store,
    rounds,
    stream,
    with_store,
)

from jaxmkl import abilities, checkpoint
from jaxmkl.kernels import Gaussian
from jaxmkl.models import DenseSupport, SparseSupport, SupportModels
from jaxmkl.query import Margin
from jaxmkl.recipes import support_vectors
from jaxmkl.streaming.run import run as driver
from jaxmkl.streaming.run import stream as driver_stream
from tests.common.marks import long, quick
from tests.common.trees import everything
from tests.oracles import support_mkl as oracle

SMALL_PROGRAMS = FEW_ROWS = True

# below: where its inputs are sparse, where a run makes room, where a stream does
BELOW = "kernel_ogd", "omkc_dd", "spa"
# which are run in other tests too: omkc_dd is omkc_u with weights, of many perceptrons
PARTS_OF_OTHERS = "perceptron", "omkc_u", "spa, normalized", *GROWING_CROSSINGS
OTHERS = [name for name in GROWING if name not in (*BELOW, *PARTS_OF_OTHERS)]


@pytest.mark.parametrize("name", [*quick(["omkc_sd"], OTHERS), *long([], PARTS_OF_OTHERS)])
def test_agrees_with_the_oracle(name, x64):
    check_run(name, learner_of(name))


@pytest.mark.endless
@pytest.mark.data
@pytest.mark.parametrize(
    "name", long(["omkc_sd"], [name for name in GROWING if name != "spa, normalized"])
)
def test_agrees_with_the_oracle_on_the_papers_data(name, data_dir, x64):
    check_on_the_papers_data(name, data_dir)


@pytest.mark.endless
def test_banks_are_numbered_through(x64):
    """Two banks, each with a store and a period of its own, are one bank of all kernels."""
    (bank,) = learner_of("spa").models
    of_gaussians, of_polynomials = bank.kernels.kernels
    stores = (DenseSupport(tile=64, period=32), SparseSupport(period=16))
    banks = [
        SupportModels(kernels, bank.rule, store)
        for kernels, store in zip((of_gaussians, of_polynomials), stores, strict=True)
    ]
    learner = dataclasses.replace(learner_of("spa"), models=tuple(banks))
    assert (learner.num_models, learner.fit_block_size(100)) == (6, 16)
    X, y, _ = stream()
    start = begin(learner, X.shape[1])
    state, outputs = driver(learner, start, X, y, record=everything)
    check_outputs(outputs, expected_of("spa"))
    found = [pair for own in state.models for pair in held(state.replace(models=(own,)), X)]
    assert [[t for t, _ in one] for one in found] == [
        [t for t, _ in one] for one in expected_of("spa").held
    ]


def test_a_question_has_a_number_of_its_own():
    """Asking for a label does not decide who learns, even on an example of zeros."""
    learner = support_vectors.spa(Gaussian((0.5, 1.0)), query=Margin(0.1))
    X = np.zeros((4, 3), np.float32)
    codes = jax.jit(learner.encode)(begin(learner, 3, np.float32), X)
    assert not np.isin(codes.noise, codes.own.chance).any()


SMALL = {"capacity": 8, "tile": 16, "period": 16}


@pytest.mark.endless
def test_sparse_inputs_change_nothing(x64):
    def run(learner, state, X, y, **arguments):
        return driver(learner, state, scipy.sparse.csr_array(X), y, **arguments)

    check_run("kernel_ogd", learner_of("kernel_ogd"), run)


# --- capacity ------------------------------------------------------------------------------------


class Limited(oracle.SupportMKL):
    """Nothing is added while the kernels together hold ``capacity`` examples."""

    capacity = 8
    overflow = 0

    def step(self, *example):
        held = {entry.t for one in self.expansions for entry in one.entries}
        self.room, self.wanted = len(held) < self.capacity, False
        prediction = super().step(*example)
        self.overflow += self.wanted and not self.room
        return prediction

    def add(self, *arguments):
        self.wanted = True
        if self.room:
            super().add(*arguments)


@pytest.mark.endless
@pytest.mark.parametrize("store", long([SparseSupport], [DenseSupport, SparseSupport]))
def test_without_room_nothing_is_learned_and_all_else_goes_on(store, x64):
    name = "omkc_dd" if store is DenseSupport else "spa"
    learner = with_store(name, store(capacity=8, tile=8, period=8))
    X, y, _ = stream()
    start = begin(learner, X.shape[1])
    assert abilities.capacity(learner, start) == 8
    state, outputs, f = rounds(learner, start, X, y)  # inside jit: not enlarged
    full = Limited(kernels_for(ALL[name])[1], **ALL[name].arguments)
    predictions = [full.step(*example) for example in zip(X, y, *draws(start, X, 6), strict=True)]
    np.testing.assert_allclose(outputs.prediction, predictions, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(f[-1], full.f, rtol=1e-9, atol=1e-9)
    assert int(learner.info(state).overflow) == full.overflow > 20
    assert int(abilities.num_supports(learner, state)) == abilities.capacity(learner, state) == 8
    places = [[(t, pytest.approx(a, rel=1e-9)) for t, a in one] for one in full.places]
    assert held(state, X) == places


@pytest.mark.slow
def test_a_run_makes_room_and_goes_on_from_a_file(x64, tmp_path):
    learner = with_store("omkc_dd", DenseSupport(**SMALL))
    made = []

    def run(learner, state, X, y, **arguments):
        made.append(abilities.capacity(learner, state))
        state, first = driver(learner, state, X[:60], y[:60], **arguments)
        made.append(abilities.capacity(learner, state))
        path = tmp_path / "state.npz"
        checkpoint.save(path, learner, state)
        learner, state = checkpoint.load(path)
        assert abilities.capacity(learner, state) == made[-1]
        state, second = driver(learner, state, X[60:], y[60:], **arguments)
        made.append(abilities.capacity(learner, state))
        return state, jax.tree.map(lambda *parts: np.concatenate(parts), first, second)

    state = check_run("omkc_dd", learner, run)
    assert int(learner.info(state).overflow) == 0
    assert made[0] < 60 <= made[1] < int(abilities.num_supports(learner, state)) <= made[2]


@pytest.mark.endless
def test_a_stream_makes_room(x64):
    learner = with_store("spa", SparseSupport(**SMALL))

    def run(learner, state, X, y, **arguments):
        chunks = [(X[:160], y[:160]), (X[160:], y[160:])]
        states, outputs = zip(*driver_stream(learner, state, chunks, **arguments), strict=True)
        return states[-1], jax.tree.map(lambda *parts: np.concatenate(parts), *outputs)

    state = check_run("spa", learner, run)
    assert int(learner.info(state).overflow) == 0
    assert abilities.capacity(learner, state) >= int(abilities.num_supports(learner, state)) > 8


# --- derivatives ---------------------------------------------------------------------------------


@pytest.mark.endless
def test_gradients_of_the_cumulative_loss_agree_with_differences(x64):
    X, y = stream().X[:48, :4], stream().target[:48]
    start = np.array([0.4, 1.5, 0.2])

    def loss(parameters):
        learner = support_vectors.omkl(Gaussian(parameters[:-1]), step_size=parameters[-1])
        learner = replaced_store(learner, DenseSupport(64, tile=16, period=16))
        _, outputs = driver(learner, begin(learner, 4), X, y)
        return outputs.loss.sum()

    steps = 1e-5 * np.eye(len(start))
    points = np.concatenate([start[None], start + steps, start - steps])
    losses, gradients = jax.jit(lambda p: jax.lax.map(jax.value_and_grad(loss), p))(points)
    above, below = np.split(np.asarray(losses[1:]), 2)
    np.testing.assert_allclose(gradients[0], (above - below) / 2e-5, rtol=1e-6)
    assert (np.abs(gradients[0]) > 1e-3).all()
