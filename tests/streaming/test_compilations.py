"""Compilations: none for another length or number of streams, with any recipe."""

import jax
import numpy as np
import pytest

import jaxmkl
from tests.common.marks import long
from tests.common.trees import stacked

SMALL_PROGRAMS = True
T = 1000  # no more than supports that states begin with room for
KERNELS = jaxmkl.Gaussian([0.5, 2.0])
OWN = {
    "multitask": lambda: jaxmkl.multitask(3, jaxmkl.Gaussian(2.0), size=16),
    "expert_mkl": lambda: jaxmkl.expert_mkl(KERNELS, num_features=4),
    "oks": lambda: jaxmkl.oks(KERNELS, num_rounds=T),
}
FEATURES = "raker", "omkl_aks", "amkl", "amkl_aks"
NAMES = sorted(jaxmkl.LEARNERS)
QUICKER = ["raker"]


def learner_of(name):
    if name in OWN:
        return OWN[name]()
    if name in FEATURES:
        return jaxmkl.LEARNERS[name](KERNELS, num_features=4)
    return jaxmkl.LEARNERS[name]()


def stream(learner):
    X = np.random.default_rng(0).normal(size=(T, 2)).astype(np.float32)
    y = np.sin(2 * X[:, 0])
    y = np.sign(y) if learner.task == "classification" else y
    if isinstance(learner, jaxmkl.learners.MultiTask):
        X = jaxmkl.tables.with_tasks(np.arange(T) % 3, X)
    return X, y


@pytest.fixture
def outcome():
    """A learner of a name, its state, and its stream."""

    def made(name):
        learner = learner_of(name)
        X, y = stream(learner)
        return learner, learner.init(jax.random.key(0), X.shape[1]), X, y

    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", long(QUICKER, NAMES))
def test_another_length_of_a_stream_compiles_nothing(name, outcome, compiled):
    """With late labels, too; by chunks, and where a run is continued."""
    learner, start, X, y = outcome(name)

    def run(n, **options):
        return jaxmkl.run(learner, start, X[:n], y[:n], **options)

    def in_two(n):
        state, _ = run(n)
        cut = slice(n, n + 100)
        return jaxmkl.run(learner, state, X[cut], y[cut])

    def chunks(*ends):
        parts = zip((0, *ends), ends, strict=False)
        given = ((X[a:b], y[a:b]) for a, b in parts)
        return list(jaxmkl.stream(learner, start, given))[-1]

    for delay in 0, 5:
        assert compiled(lambda d=delay: run(520, delay=d))
        for n in 520, 777, T:
            assert not compiled(lambda n=n, d=delay: run(n, delay=d))
    run(60), run(100), run(100, delay=300)
    assert not compiled(lambda: (in_two(40), in_two(99), chunks(3, 90, 800), chunks(50, 51, 700)))
    # more rounds late than there are rounds: the next power of two
    assert not compiled(lambda: (run(90, delay=200), run(120, delay=10**6)))


@pytest.mark.slow
@pytest.mark.parametrize("name", long(QUICKER, NAMES))
def test_another_number_of_streams_compiles_nothing(name, outcome, compiled):
    """Up to a power of two; of seeds, and of the members of a fleet."""
    learner, start, X, y = outcome(name)
    all_keys = jax.random.split(jax.random.key(1), 4)
    keys = {n: all_keys[:n] for n in (3, 4)}
    states = {n: stacked(*[start] * n) for n in keys}

    def many(n, T):
        return jaxmkl.run_many(learner, keys[n], X[:T], y[:T])

    def fleet(n, T, lengths=None):
        X_of, y_of = (np.stack([array[:T]] * n) for array in (X, y))
        return jaxmkl.run_fleet(learner, states[n], X_of, y_of, lengths=lengths)

    for run_it in many, fleet:
        run_it(4, 130)
        for n, T in ((4, 130), (3, 401), (4, 512)):
            assert not compiled(run_it, n, T), (run_it, n, T)
    assert not compiled(fleet, 3, 401, [401, 0, 17])


@pytest.mark.slow
@pytest.mark.parametrize("name", long(QUICKER, NAMES))
def test_calls_one_by_one_compile_once(name, outcome, compiled):
    learner, start, X, y = outcome(name)

    def calls(state, i):
        ready, asked = learner.ask(state, X[i])
        stepped, _ = learner.step(asked, (X[i].tolist(), int(y[i] > 0)))
        return ready, stepped, learner.update(state, X[i], y[i]), learner.predict(stepped, X[i])

    def rows(*numbers):
        return [learner.predict_many(start, X[:n]) for n in numbers]

    after = jaxmkl.run(learner, start, X[:70], y[:70])[0]
    calls(start, 0), rows(100)
    assert not compiled(lambda: (calls(start, 1), calls(after, 2), rows(65, 77, 128)))
