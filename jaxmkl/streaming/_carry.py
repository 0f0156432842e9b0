"""What a loop carries from round to round, and what its rounds leave, in few arrays.

On an accelerator a round takes as long as its kernels take to begin, and a kernel writes one array
or several of one shape. So what is a few numbers, as regrets and discounts, is written as one
array of each dtype.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxmkl._types import PyTree

# A leaf of a state with so many numbers is written together with others, if there are so many: XLA
# itself writes fewer with others of their shape, which it would not if they were together.
_NUMBERS, _LEAVES = 64, 5


def scan_in_few_arrays(
    step: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]],
    state: PyTree,
    examples: PyTree,
    then: Callable[[PyTree], PyTree],
    unroll: int,
) -> tuple[PyTree, PyTree]:
    """As ``jax.lax.scan(step, state, examples, unroll=unroll)``, with few arrays to write.

    ``then`` is what is done afterwards with what the steps leave: what it does not read is not
    written.
    """
    first, length = jax.tree.map(lambda leaf: leaf[0], examples), len(jax.tree.leaves(examples)[0])
    _, left = jax.eval_shape(step, state, first)
    all_left = jax.tree.map(lambda a: jax.ShapeDtypeStruct((length, *a.shape), a.dtype), left)
    of_states = FewArrays.of_states(state)
    of_rounds = FewArrays.of_rounds(left, reads(then, all_left))

    def turn(carried: tuple, example: PyTree) -> tuple[tuple, tuple]:
        after, left = step(of_states.back(carried), example)
        return of_states.apart(after), of_rounds.apart(left)

    carried, rounds = jax.lax.scan(turn, of_states.apart(state), examples, unroll=unroll)
    return of_states.back(carried), jax.vmap(of_rounds.back)(rounds)


def reads(function: Callable, *arguments: PyTree) -> list[bool]:
    """Whether a function does anything with the leaves of its arguments, one after the other.

    What it hands to a program inside counts as read.

    >>> reads(lambda pair: pair[1] + 1, (jnp.ones(2), jnp.ones(3)))
    [False, True]
    """
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    variables = itertools.chain(jaxpr.outvars, *(equation.invars for equation in jaxpr.eqns))
    found = {id(variable) for variable in variables}
    return [id(variable) in found for variable in jaxpr.invars]


class FewArrays:
    """The arrays of trees, some of whose leaves are in one array for each dtype.

    >>> few = FewArrays([1.0, 2.0, jnp.ones(2)], [True, False, True])
    >>> few.apart([3.0, 4.0, jnp.ones(2)])
    ([4.0], [Array([3., 1., 1.], dtype=float32)])
    >>> few.back(few.apart([3.0, 4.0, jnp.ones(2)]))
    [Array(3., dtype=float32), 4.0, Array([1., 1.], dtype=float32)]
    """

    def __init__(self, like: PyTree, together: Sequence[bool] | bool) -> None:
        leaves, self._structure = jax.tree.flatten(like)
        if isinstance(together, bool):  # of all numbers, or of none
            together = [together and leaf.size == 1 for leaf in leaves]
        self._shapes = [jnp.shape(leaf) for leaf in leaves]
        of_dtypes: dict[Any, list[int]] = {}
        for i, leaf in enumerate(leaves):
            if together[i]:
                of_dtypes.setdefault(jnp.result_type(leaf), []).append(i)
        self._groups = list(of_dtypes.values())
        self._others = [i for i, grouped in enumerate(together) if not grouped]

    @classmethod
    def of_states(cls, like: PyTree) -> "FewArrays":
        """Those of states like this one, as a loop carries them."""
        leaves = jax.tree.leaves(like)
        together = [False] * len(leaves)
        for kind, most in (jnp.floating, _NUMBERS), (jnp.integer, 1):
            of_kind = [i for i, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, kind)]
            small = [i for i in of_kind if leaves[i].size <= most]
            # counters beside arrays of whole numbers are better left alone
            if len(small) >= _LEAVES and (most > 1 or small == of_kind):
                for i in small:
                    together[i] = True
        return cls(like, together)

    @classmethod
    def of_rounds(cls, like: PyTree, read: Sequence[bool]) -> "FewArrays":
        """Those of what a round leaves: the numbers that are read."""
        leaves = zip(jax.tree.leaves(like), read, strict=True)
        return cls(like, [wanted and leaf.size == 1 for leaf, wanted in leaves])

    def apart(self, tree: PyTree) -> tuple[list[jax.Array], list[jax.Array]]:
        """The leaves of a tree that stay as they are, and the arrays that hold the others."""
        leaves = jax.tree.leaves(tree)
        together = [jnp.concatenate([jnp.ravel(leaves[i]) for i in g]) for g in self._groups]
        return [leaves[i] for i in self._others], together

    def back(self, arrays: tuple[list[jax.Array], list[jax.Array]]) -> PyTree:
        """The tree of which these are the arrays."""
        others, together = arrays
        leaves = dict(zip(self._others, others, strict=True))
        for group, array in zip(self._groups, together, strict=True):
            ends = itertools.accumulate(math.prod(self._shapes[i]) for i in group)
            pieces = jnp.split(array, list(ends)[:-1])
            for i, piece in zip(group, pieces, strict=True):
                leaves[i] = piece.reshape(self._shapes[i])
        return jax.tree.unflatten(self._structure, [leaves[i] for i in sorted(leaves)])
