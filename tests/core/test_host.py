"""Programs evaluated with NumPy do what JAX's do."""

import itertools
import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import _host
from jaxmkl._host import Evaluated
from tests.common.marks import long

SMALL_PROGRAMS = True

FUNCTIONS = {
    "bits": lambda key: jax.random.bits(key, (5, 3)),
    "long bits": lambda key: jax.random.bits(key, (7,), "uint64"),
    "short bits": lambda key: jax.random.bits(key, (7,), "uint8"),
    "whole numbers": lambda key: jax.random.randint(key, (9,), -4, 11),
    "an order": lambda key: jax.random.permutation(key, 1000),
    "keys": lambda key: jax.random.split(jax.random.fold_in(key, 12), (3, 2))[1:, 0],
    "of many keys": jax.vmap(lambda key: jax.random.bits(jax.random.fold_in(key, 3), (4,))),
    "sorted": lambda key: jnp.sort(jax.random.bits(key, (3, 20)), axis=0),
    "padded": lambda key: jax.lax.pad(jnp.arange(6).reshape(2, 3), 7, ((1, 2, 1), (0, 1, 0))),
    "cut": lambda key: jax.lax.pad(jnp.arange(6), 7, ((-1, -2, 0),)),
    "divided": lambda key: jnp.arange(-5, 5) // 3 + jax.lax.rem(jnp.arange(-5, 5), 3),
    "a loop": lambda key: jax.lax.fori_loop(0, 4, lambda i, x: x * 3 + i, jnp.arange(3)),
    "a scan": lambda key: jax.lax.scan(
        lambda c, x: (c + x, c * x), 1, jnp.arange(5), reverse=True
    ),
    "a branch": lambda key: jax.lax.cond(jnp.sum(jnp.ones(3)) > 2, lambda: 5, lambda: 6),
    "chosen": lambda key: jnp.where(jnp.arange(6) % 2 == 0, jnp.arange(6), -1),
    "at an index": lambda key: jax.lax.dynamic_slice(jnp.arange(9), (7,), (4,)),
    "parts along an axis": lambda key: [*jnp.arange(6).reshape(3, 2)],
    "a triangle": lambda key: jnp.tril(jnp.ones((4, 4), jnp.int32)),
    "a product of bfloat16": lambda key: jnp.eye(3, dtype="bfloat16") @ jnp.ones(3, "bfloat16"),
}
TO_ROUNDING = {
    "normal": lambda key: jax.random.normal(key, (2000,)),
    "exponential": lambda key: jax.random.exponential(key, (200,)),
    "products": lambda key: jnp.einsum(
        "abc,cad->abd", *(jnp.arange(24.0).reshape(s) for s in SHAPES)
    ),
    "rotation": lambda key: jnp.abs(jnp.linalg.qr(jax.random.normal(key, (3, 4, 2)))[1]),
}
SHAPES = (2, 3, 4), (4, 2, 3)


def words(leaf):
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def pairs(function, key):
    """Each result of the evaluated and of the compiled function."""
    found, expected = Evaluated(function)(key), jax.jit(function)(key)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        yield words(one), words(other)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_are_the_same(name, x64):
    key = jax.random.key(5)
    for one, other in pairs(FUNCTIONS[name], jax.random.split(key, 3) if "many" in name else key):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("name", TO_ROUNDING)
def test_numbers_are_the_same_to_rounding(name):
    for one, other in pairs(TO_ROUNDING[name], jax.random.key(5)):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5)


def test_filters_of_warnings_stay_where_threads_leave_operations_to_jax(monkeypatch):
    """The first thread in is the first out, and the second would restore its filters."""
    function = Evaluated(lambda key: jax.lax.cumsum(jnp.ones(3)))
    others, entered, left = itertools.count(), threading.Event(), threading.Event()

    def slow(*given, of=_host.Jaxpr):
        if next(others):
            entered.set()
            left.wait(1)
        else:
            entered.wait(1)
        return of(*given)

    def call():
        function(jax.random.key(0))
        left.set()

    call()
    left.clear()
    monkeypatch.setattr(_host, "Jaxpr", slow)
    threads = [threading.Thread(target=call) for _ in range(2)]
    before = list(warnings.filters)
    with warnings.catch_warnings():  # whatever happens
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert warnings.filters == before


def test_a_program_is_whole_when_another_thread_finds_it(monkeypatch):
    found, function = [], Evaluated(lambda key: {"three": jnp.ones(3)})

    def call_then(self, name, value):
        object.__setattr__(self, name, value)
        if name == "_program":
            thread = threading.Thread(target=lambda: found.append(self(jax.random.key(0))))
            thread.start()
            thread.join()

    monkeypatch.setattr(Evaluated, "__setattr__", call_then)
    function(jax.random.key(0))
    assert [list(one) for one in found] == [["three"]]


def test_keys_of_another_generator_are_left_to_jax():
    key = jax.random.key(3, impl="rbg")
    for one, other in pairs(lambda key: jax.random.bits(key, (4,)), key):
        np.testing.assert_array_equal(one, other)


def test_results_are_where_the_arguments_are():
    device = jax.devices()[0]
    key = jax.device_put(jax.random.key(0), device)
    found = Evaluated(lambda key: (key, jnp.zeros(3)))(key)
    assert all(leaf.committed and leaf.devices() == {device} for leaf in found)
    assert not Evaluated(lambda key: jnp.zeros(3))(jax.random.key(0)).committed


# one of each bank, store and learner of its own kind; the others begin as one of these
KINDS = ["amkl_aks", "expert_mkl", "spa", "forgetron", "projectron"]
KINDS += ["multitask", "okl_gd", "oks", "oks_sil", "proj_ka"]


@pytest.mark.slow
@pytest.mark.parametrize("name", long(KINDS, sorted(jaxmkl.LEARNERS)))
def test_states_begin_as_in_a_trace(name, monkeypatch):
    """With a rule for each operation, of those that this JAX has."""
    learner = jaxmkl.LEARNERS[name]()
    with monkeypatch.context() as patch:
        patch.delattr(_host, "_left_to_jax")
        found = learner.init(jax.random.key(4), 3)
    expected = jax.jit(lambda key: learner.init(key, 3))(jax.random.key(4))
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert not getattr(one, "weak_type", False)
        np.testing.assert_allclose(words(one), words(other), rtol=2e-4, atol=1e-5)


def test_inside_a_trace_nothing_is_worked_out():
    """Also where all arguments are known: for shapes alone the numbers may have no room."""
    called = []

    def huge(key):
        called.append(key)
        return jax.random.normal(key, (2**40,))

    key, program = jax.random.key(0), Evaluated(huge)
    assert jax.eval_shape(lambda: program(key)).shape == (2**40,)
    assert isinstance(called[0], jax.core.Tracer)
    small = Evaluated(lambda key: jax.random.bits(key, (3,)))
    np.testing.assert_array_equal(jax.jit(lambda: small(key))(), small(key))
