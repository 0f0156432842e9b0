"""Scans whose rounds write few arrays.

On an accelerator a round takes as long as starting its kernels, and a kernel writes one array
or several of one shape. So small leaves, such as regrets and discounts, are written together, as
one array of each dtype.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._types import PyTree, State

# Leaves of a state with at most this many numbers are written together, if there are this many
# leaves: of fewer, XLA itself writes those of one shape together, unless they were joined before.
_NUMBERS, _LEAVES = 64, 5


def scan_in_few_arrays(
    step: Callable[[State, PyTree], tuple[State, PyTree]],
    state: State,
    examples: PyTree,
    then: Callable[[PyTree], PyTree],
    unroll: int,
) -> tuple[State, PyTree]:
    """Scan as ``jax.lax.scan(step, state, examples, unroll=unroll)`` does, writing few arrays.

    ``then`` is applied to the results of the steps; parts that it does not read are not written.
    """
    first, length = jax.tree.map(lambda leaf: leaf[0], examples), len(jax.tree.leaves(examples)[0])
    _, left = jax.eval_shape(step, state, first)
    all_left = jax.tree.map(lambda a: jax.ShapeDtypeStruct((length, *a.shape), a.dtype), left)
    state_apart, state_back = few_arrays(state, _small(state))
    read = zip(jax.tree.leaves(left), reads(then, all_left), strict=True)
    left_apart, left_back = few_arrays(left, [wanted and leaf.size == 1 for leaf, wanted in read])

    def turn(carried: tuple, example: PyTree) -> tuple[tuple, tuple]:
        after, left = step(state_back(carried), example)
        return state_apart(after), left_apart(left)

    carried, rounds = jax.lax.scan(turn, state_apart(state), examples, unroll=unroll)
    return state_back(carried), jax.vmap(left_back)(rounds)


def _small(state: PyTree) -> list[bool]:
    """Mark the leaves of a state that a loop carries together."""
    leaves = jax.tree.leaves(state)
    together = [False] * len(leaves)
    for kind, most in (jnp.floating, _NUMBERS), (jnp.integer, 1):
        of_kind = [i for i, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, kind)]
        small = [i for i in of_kind if leaves[i].size <= most]
        # counters beside arrays of whole numbers are better left alone
        if len(small) >= _LEAVES and (most > 1 or small == of_kind):
            for i in small:
                together[i] = True
    return together


def reads(function: Callable, *arguments: PyTree) -> list[bool]:
    """Return for each leaf of a function's arguments whether the function reads it.

    A leaf that it passes to an inner program counts as read.

    >>> reads(lambda pair: pair[1] + 1, (jnp.ones(2), jnp.ones(3)))
    [False, True]
    """
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    variables = itertools.chain(jaxpr.outvars, *(equation.invars for equation in jaxpr.eqns))
    found = {id(variable) for variable in variables}
    return [id(variable) in found for variable in jaxpr.invars]


def few_arrays(like: PyTree, together: Sequence[bool]) -> tuple[Callable, Callable]:
    """Two functions, from a tree like this one to few arrays and back.

    The leaves that are ``together`` are joined in one array for each dtype; the others stay.

    >>> apart, back = few_arrays([1.0, 2.0, jnp.ones(2)], [True, False, True])
    >>> apart([3.0, 4.0, jnp.ones(2)])
    ([4.0], [Array([3., 1., 1.], dtype=float32)])
    >>> back(apart([3.0, 4.0, jnp.ones(2)]))
    [Array(3., dtype=float32), 4.0, Array([1., 1.], dtype=float32)]
    """
    leaves, structure = jax.tree.flatten(like)
    shapes, others = [jnp.shape(leaf) for leaf in leaves], list[int]()
    groups: dict[np.dtype, list[int]] = {}
    for i, leaf in enumerate(leaves):
        where = groups.setdefault(jnp.result_type(leaf), []) if together[i] else others
        where.append(i)

    def apart(tree: PyTree) -> tuple[list, list]:
        leaves = jax.tree.leaves(tree)
        arrays = [jnp.concatenate([jnp.ravel(leaves[i]) for i in g]) for g in groups.values()]
        return [leaves[i] for i in others], arrays

    def back(arrays: tuple[list, list]) -> PyTree:
        leaves = dict(zip(others, arrays[0], strict=True))
        for group, array in zip(groups.values(), arrays[1], strict=True):
            ends = itertools.accumulate(math.prod(shapes[i]) for i in group)
            pieces = jnp.split(array, list(ends)[:-1])
            leaves |= {i: p.reshape(shapes[i]) for i, p in zip(group, pieces, strict=True)}
        return jax.tree.unflatten(structure, [leaves[i] for i in sorted(leaves)])

    return apart, back
