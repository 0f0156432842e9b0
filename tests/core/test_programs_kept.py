"""Compiled programs are kept up to a bound, and let go of beyond it."""

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import _programs
from jaxmkl._programs import Kept, keep_programs, num_maps

SMALL_PROGRAMS = True


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No programs but those of the test, each of which counts as 10; room for three."""
    monkeypatch.setattr(_programs, "_TABLE", _programs._Table(30))
    monkeypatch.setattr(_programs, "num_maps", lambda: 0)
    monkeypatch.setattr(_programs, "_USUAL", 10)


def traced(function):
    """A kept function, and what it was traced with."""
    shapes = []

    @Kept
    def of(x, *, power=1):
        shapes.append((x.shape, power))
        return function(x) ** power

    return of, shapes


def test_the_longest_unused_go_first():
    double, shapes = traced(lambda x: 2 * x)
    for size in (1, 2, 3, 1, 4, 1, 3, 4):  # 4 takes the place of 2
        assert double(np.ones(size, np.float32)).tolist() == [2.0] * size
    assert [shape for shape, _ in shapes] == [(1,), (2,), (3,), (4,)]
    double(np.ones(2, np.float32))
    assert [shape for shape, _ in shapes][4:] == [(2,)]
    double(np.ones(1, np.float32))  # had not been called for longest
    assert double.num_programs() == 3
    assert len(shapes) == 6


def test_several_functions_share_the_bound():
    (double, _), (square, shapes) = traced(lambda x: 2 * x), traced(lambda x: x * x)
    square(np.ones(7, np.float32))
    for size in (1, 2, 3):
        double(np.ones(size, np.float32))
    assert (double.num_programs(), square.num_programs()) == (3, 0)
    square(np.ones(7, np.float32))
    assert len(shapes) == 2
    square.clear_cache()
    assert (double.num_programs(), square.num_programs()) == (2, 0)


def test_numbers_share_a_program_and_static_arguments_do_not():
    power, shapes = traced(lambda x: x)
    for x in (1.0, 2.0, -3.5):
        assert power(x) == x
    assert power(3.0, power=2) == 9.0
    assert power(jnp.asarray([3.0]), power=2).tolist() == [9.0]
    assert shapes == [((), 1), ((), 2), ((1,), 2)]


def test_a_program_that_is_let_go_of_is_gone():
    """With what it held, without a clearing of anything of others."""

    class Held:
        pass

    held = Held()

    @Kept
    def of(x, *, name):
        return 2 * x

    theirs = jax.jit(lambda x: 3 * x)
    theirs(1.0)
    of(1.0, name=held)
    gone = weakref.ref(held)
    del held
    for size in range(1, 4):
        of(np.ones(size, np.float32), name="")
    gc.collect()
    assert gone() is None
    assert theirs._cache_size() == 1


def test_a_trace_takes_the_function_as_it_is():
    double, shapes = traced(lambda x: 2 * x)
    assert jax.grad(double)(1.0) == 2.0
    assert jax.vmap(double)(jnp.ones(3)).tolist() == [2.0] * 3
    assert jax.jit(double)(2.0) == 4.0
    assert double.num_programs() == 0
    assert set(shapes) == {((), 1)}


def test_results_that_are_arguments_are_not_copied():
    """Unchanged leaves of a state are not written again; numbers become arrays."""

    def step(state, x):
        return {**state, "sum": state["sum"] + x, "twice": state["kept"]}, x

    program = Kept(step)
    state = {"kept": jnp.arange(1000.0), "sum": jnp.float32(0), "host": np.ones(3), "one": 2.0}
    after, x = program(state, np.float32(3))
    place = state["kept"].unsafe_buffer_pointer()
    assert after["kept"].unsafe_buffer_pointer() == after["twice"].unsafe_buffer_pointer() == place
    wanted = jax.jit(step)(state, np.float32(3))
    chex.assert_trees_all_equal((after, x), wanted)
    chex.assert_trees_all_equal_dtypes((after, x), wanted)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves((after, x)))
    again, _ = program(after, jnp.float32(1))
    assert float(again["sum"]) == 4
    nothing_new = Kept(lambda a, b: (b, a))
    assert [leaf.tolist() for leaf in nothing_new(jnp.ones(2), np.zeros(1))] == [[0], [1, 1]]


def test_a_program_is_that_of_the_precision_it_is_called_in():
    program = Kept(lambda x: (x, x.astype(float) + np.float64(1) / 3))
    x = jnp.ones(2, jnp.float32)
    single = program(x)[1]
    with jax.enable_x64(True):
        double = program(x)[1]
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    assert program(x)[1].dtype == np.float32
    assert program.num_programs() == 2


def test_programs_that_are_compiled_quickly_may_be_parts_of_others():
    """A trace that closes over all that a program is given."""
    _programs._options_to_compile_quickly.cache_clear()
    program, state = Kept(lambda state: (state, state["a"] + 1), quickly=0), {"a": jnp.ones(3)}
    for _ in range(2):
        kept, new = jax.jit(lambda: program(state))()
        chex.assert_trees_all_equal(kept, state)
        assert new.tolist() == [2, 2, 2]
        assert program(state)[1].tolist() == [2, 2, 2]
    assert jax.eval_shape(lambda: program(state)[1]).shape == (3,)


def test_errors_are_kept_by_nobody():
    wrong, shapes = traced(lambda x: x + jnp.ones((2, 3))[0])
    for _ in range(2):
        with pytest.raises(TypeError, match="shapes"):
            wrong(np.ones(2, np.float32))
    assert wrong.num_programs() == 0
    assert len(shapes) == 2


def test_threads_may_call_and_drop_at_once():
    double, _ = traced(lambda x: 2 * x)
    sizes = [1 + i % 6 for i in range(12)]
    found, threads = [], []

    def call(order):
        for size in order:
            twice = np.asarray(double(np.full(size, 2.0, np.float32)))
            found.append(twice.sum() == 4.0 * size)

    for shift in range(4):
        threads.append(threading.Thread(target=call, args=(sizes[shift:],)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert len(found) == 12 + 11 + 10 + 9
    assert all(found)
    assert double.num_programs() <= 3


def test_threads_that_want_the_same_program_make_it_once():
    """Not even if its first call fails for one of them, do the others wait for ever."""

    def slowly(x):
        time.sleep(0.05)
        shapes.append(x.shape)
        if len(shapes) == 1:
            raise ArithmeticError
        return 2 * x

    slow, shapes = Kept(slowly), []
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(slow, np.ones(3, np.float32)) for _ in range(4)]
    failed = [call.exception() is not None for call in calls]
    assert sum(failed) == 1
    assert len(shapes) == 2
    for call in calls:
        assert call.exception() or call.result().tolist() == [2.0] * 3


def test_the_bound_is_a_setting():
    double, _ = traced(lambda x: 2 * x)
    assert keep_programs(1000) == 30
    for size in range(1, 6):
        double(np.ones(size, np.float32))
    assert double.num_programs() == 5
    assert keep_programs(20) == 1000
    assert double.num_programs() == 2
    keep_programs(0)
    assert double.num_programs() == 0
    double(np.ones(9, np.float32))
    assert double.num_programs() == 1  # that which was called last
    for wrong in (-1, 2.5, True, "many"):
        with pytest.raises(ValueError, match="keep_programs: memory_maps must be an integer of"):
            keep_programs(wrong)


@pytest.mark.slow
def test_runs_of_many_lengths_keep_few_programs(compiled):
    """Programs of a length that is used again and again stay."""
    learner = jaxmkl.raker(jaxmkl.Gaussian((0.5, 2.0)), num_features=4)
    state = learner.init(jax.random.key(0), 2)
    X = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    first = jaxmkl.run(learner, state, X[:60], X[:60, 0])[1].prediction
    for rows in (80, 96, 112, 128, 160):
        jaxmkl.run(learner, state, X[:rows], X[:rows, 0])
        again = []
        assert not compiled(
            lambda to=again: to.append(jaxmkl.run(learner, state, X[:60], X[:60, 0]))
        )
        np.testing.assert_array_equal(first, again[0][1].prediction)
    assert len(_programs._TABLE._programs) == 3


def test_memory_maps_are_counted_where_the_system_says(monkeypatch, tmp_path):
    monkeypatch.setattr(_programs, "_MAPS", tmp_path / "maps")
    assert num_maps() == 0
    (tmp_path / "maps").write_text("0-1 r-xp\n1-2 rw-p\n")
    assert num_maps() == 2


def test_what_is_compiled_quickly_is_the_same_and_versions_without_the_options_compile_as_usual(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def function(x: jax.Array) -> jax.Array:
        return jnp.sin(x) @ x

    x, known = np.arange(4.0, dtype=np.float32), _programs._options_to_compile_quickly
    wanted = float(np.sin(x) @ x)
    try:
        for options in (dict(_programs._QUICKLY), {"xla_cpu_no_such_option": False}):
            monkeypatch.setattr(_programs, "_QUICKLY", options)
            known.cache_clear()
            assert float(Kept(function, quickly=0)(x)) == pytest.approx(wanted, rel=1e-5)
        assert known() is None
    finally:
        known.cache_clear()
