"""draft"""
from functools import partial
from typing import Any
import jax, jax.numpy as jnp
from jaxmkl.learner import Output
def without_info(output):
    return output._replace(info=None)

def scan_blocks(learner, state, X, y, order, length, block_size, record):
    B = block_size
    T = X.shape[0]
    num_blocks = max(2, -(-(T + B - 1) // B)) if B > 1 else T
    offset = state.round % B
    positions = jnp.arange(num_blocks * B, dtype=jnp.int32) - offset
    present = (positions >= 0) & (positions < length)
    rows = jnp.clip(positions, 0, T - 1)
    if order is not None:
        rows = order[rows]
    dtype = learner.dtype(state)
    def one_block(state, block):
        rows, present = block
        codes = learner.encode(state, X[rows].astype(dtype))
        def one(state, example):
            code, y, present = example
            state, output = learner.advance(state, code, y, present)
            return state, record(output)
        state, out = jax.lax.scan(one, state, (codes, y[rows], present))
        return learner.fold(state), out
    state, out = jax.lax.scan(one_block, state, (rows.reshape(-1, B), present.reshape(-1, B)))
    out = jax.tree.map(lambda o: jax.lax.dynamic_slice_in_dim(o.reshape((-1,) + o.shape[2:]), offset, T, 0), out)
    return state, out

@partial(jax.jit, static_argnames=("block_size", "record"))
def _run(learner, state, X, y, *, block_size, record):
    return scan_blocks(learner, state, X, y, None, X.shape[0], block_size, record)

def run(learner, state, X, y, *, block_size=None, record=without_info):
    B = learner.fit_block_size(block_size or learner.preferred_block_size)
    return _run(learner, state, X, y, block_size=B, record=record)

@partial(jax.jit, static_argnames=("block_size", "record", "permute"))
def _run_many(learner, keys, X, y, *, permute, block_size, record):
    def one(key):
        ik, pk = jax.random.split(key)
        state = learner.init(ik, X.shape[1], X.dtype)
        order = jax.random.permutation(pk, X.shape[0]) if permute else None
        return scan_blocks(learner, state, X, y, order, X.shape[0], block_size, record)
    return jax.vmap(one)(keys)

def run_many(learner, keys, X, y, *, permute=True, block_size=None, record=without_info):
    B = learner.fit_block_size(block_size or learner.preferred_block_size)
    return _run_many(learner, keys, X, y, permute=permute, block_size=B, record=record)
