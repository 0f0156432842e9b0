"""Growing extremely randomised trees on a set of points, inside a compiled program.

A tree is grown level by level. Its points are kept in an order in which those of a node lie side
by side, so that sums over the points of all nodes are differences of running sums, for all inputs
at once. Sums are whole numbers, exact in any order: no rounding decides on a split.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

# Reductions of variance that differ by less than this share count as equal.
TIE = 1e-4

_PIECE = 256  # points whose sums are taken together


class Tree(NamedTuple):
    """A tree of M nodes, or with a leading axis several; the root is node 0.

    An example x goes from an inner node to ``child`` if x[input] ≤ threshold, else to child + 1.
    """

    child: jax.Array
    """The first of the two children (M,), int32; 0 for a leaf."""
    input: jax.Array
    """The input that decides (M,), int32."""
    threshold: jax.Array
    """(M,)"""

    @classmethod
    def of_one_leaf(cls, num_points: int, dtype: jax.typing.DTypeLike) -> "Tree":
        """The tree whose root is a leaf, with room for those of ``num_points`` leaves."""
        M = 2 * num_points - 1
        return cls(jnp.zeros(M, jnp.int32), jnp.zeros(M, jnp.int32), jnp.zeros(M, dtype))


class Draws(NamedTuple):
    """Random numbers in [0, 1) of a tree's level, for the C nodes that may split and D inputs."""

    nodes: jax.Array
    """(4, C): two points, a place between them, and a rank among equals."""
    inputs: jax.Array
    """(2, D): shifts of the place and of the rank for each input."""


def draws_of(key: jax.Array, level: jax.Array, num_nodes: int, num_inputs: int) -> Draws:
    """The random numbers of a level of the tree with a key."""
    key = jax.random.fold_in(key, level)
    nodes = jax.random.uniform(jax.random.fold_in(key, 0), (4, num_nodes), jnp.float32)
    return Draws(nodes, jax.random.uniform(jax.random.fold_in(key, 1), (2, num_inputs)))


def whole_numbers(y: jax.Array, present: jax.Array) -> jax.Array:
    """Labels y (N, K) as int32, centred, so large that sums over N of them do not overflow.

    Places that are not ``present`` (N,) get 0.
    """
    bits = 30 - len(y).bit_length()
    n = jnp.maximum(jnp.sum(present), 1).astype(y.dtype)
    kept = present[:, None]
    centred = jnp.where(kept, y - jnp.sum(jnp.where(kept, y / n, 0.0), axis=0, keepdims=True), 0.0)
    most = jnp.max(jnp.abs(centred))
    return jnp.round(centred / jnp.where(most > 0, most, 1.0) * 2.0**bits).astype(jnp.int32)


class _Growth(NamedTuple):
    """A tree that grows; positions are those in the order of its N points."""

    level: jax.Array
    tree: Tree
    num_nodes: jax.Array
    order: jax.Array
    """The point at each position (N,)."""
    node: jax.Array
    """The node of each position (N,)."""
    start: jax.Array
    """The first position of that node (N,)."""
    end: jax.Array
    """The position behind its last (N,)."""
    open: jax.Array
    """Whether that node may split (N,)."""


def grown(
    key: jax.Array, X: jax.Array, labels: jax.Array, num_points: jax.Array, depth: int | jax.Array
) -> tuple[Tree, jax.Array]:
    """A tree on the first ``num_points`` of the points X (N, D), and the leaf (N,) of each.

    Every node with two points or more draws two of them; every input then has a threshold, uniform
    between its values at these two, and the node splits by the input and threshold that reduce the
    variance of the labels most, the sum over the outputs; among equals one is drawn. A node
    without a reduction is a leaf, and so are all at ``depth``.

    Args:
      key: typed.
      X: (N, D); behind the first ``num_points``, nothing matters.
      labels: of :func:`whole_numbers` (N, K).
      num_points: how many.
      depth: levels of splits at most; with 0, nothing is worked out.
    """
    N = len(X)
    place = jnp.arange(N, dtype=jnp.int32)
    inside = place < num_points
    none = jnp.zeros(N, jnp.int32)
    begun = _Growth(
        jnp.zeros((), jnp.int32),
        Tree.of_one_leaf(N, X.dtype),
        jnp.ones((), jnp.int32),
        place,
        none,
        none,
        none + num_points.astype(jnp.int32),
        inside & (num_points > 1),
    )

    def more(growth: _Growth) -> jax.Array:
        return (growth.level < depth) & jnp.any(growth.open)

    after = jax.lax.while_loop(
        more, lambda growth: _level(key, X, labels, num_points, growth), begun
    )
    return after.tree, none.at[after.order].set(after.node, unique_indices=True)


def _level(
    key: jax.Array, X: jax.Array, labels: jax.Array, num_points: jax.Array, growth: _Growth
) -> _Growth:
    """The growth after one more level."""
    (N, D), K, C = X.shape, labels.shape[1], max(len(X) // 2, 1)
    place = jnp.arange(N, dtype=jnp.int32)
    order, start, end = growth.order, growth.start, growth.end
    heads = growth.open & (start == place)
    slot = jnp.where(growth.open, jnp.cumsum(heads, dtype=jnp.int32) - 1, C)
    head = jnp.zeros(C, jnp.int32).at[jnp.where(heads, slot, C)].set(place, mode="drop")
    used = jnp.arange(C) < jnp.sum(heads)
    tail = jnp.where(used, end[head], 0)
    size = jnp.where(used, tail - head, 2)

    draws = draws_of(key, growth.level, C, D)
    one, other, shift, rank = draws.nodes
    first = _whole(one, size)
    second = (first + 1 + _whole(other, size - 1)) % size
    one, other = X[order[head + first]], X[order[jnp.minimum(head + second, N - 1)]]
    between = (shift[:, None] + draws.inputs[:1]) % 1.0
    thresholds = one + between.astype(X.dtype) * (other - one)  # (C, D)

    def added(piece: jax.Array, sums: jax.Array) -> jax.Array:
        """The sums with those of the points at the next positions."""
        # the last piece begins where it fits; what the one before had of it counts once
        begin = jnp.minimum(piece * size_of_piece, N - size_of_piece)
        rows = begin + jnp.arange(size_of_piece)
        slots = jnp.where(rows >= piece * size_of_piece, slot[rows], C)
        points = order[rows]
        left = X[points] <= thresholds[jnp.minimum(slots, C - 1)]
        terms = jnp.where(left[:, None], counted[points][:, :, None], 0)
        return sums.at[slots].add(terms, mode="drop")

    # sums over the points of each slot that go left by each input: their number and their labels
    counted = jnp.concatenate([jnp.ones((N, 1), jnp.int32), labels], axis=1)
    size_of_piece = min(_PIECE, N)
    pieces = -(-num_points // size_of_piece)
    sums = jax.lax.fori_loop(0, pieces, added, jnp.zeros((C, 1 + K, D), jnp.int32))
    number = sums[:, 0]
    totals = jnp.zeros((C, K), jnp.int32).at[slot].add(labels[order], mode="drop")
    rest = size[:, None] - number
    splits = used[:, None] & (number > 0) & (rest > 0)
    count, others = (jnp.where(splits, n, 1).astype(X.dtype) for n in (number, rest))
    gain = jnp.zeros((), X.dtype)
    for k in range(K):
        part, total = sums[:, 1 + k], totals[:, k, None]
        apart = part.astype(X.dtype) / count - (total - part).astype(X.dtype) / others
        gain += count * others * apart**2
    gain = jnp.where(splits, gain, 0.0)
    most = jnp.max(gain, axis=1, keepdims=True)
    ranks = (rank[:, None] + draws.inputs[1:]) % 1.0
    best = jnp.argmax(jnp.where(gain >= (1 - TIE) * most, ranks, -1.0), axis=1).astype(jnp.int32)
    split = used & (most[:, 0] > 0)
    slots = jnp.arange(C)
    threshold, middle = thresholds[slots, best], head + number[slots, best]
    child = growth.num_nodes + 2 * (jnp.cumsum(split, dtype=jnp.int32) - 1)
    tree, at = growth.tree, jnp.where(split, growth.node[head], len(growth.tree.child))
    tree = Tree(
        tree.child.at[at].set(child, mode="drop"),
        tree.input.at[at].set(best, mode="drop"),
        tree.threshold.at[at].set(threshold, mode="drop"),
    )

    mine = jnp.minimum(slot, C - 1)
    parted, mid = growth.open & split[mine], middle[mine]
    goes_left = X[order, best[mine]] <= threshold[mine]
    lefts = jnp.cumsum(goes_left, dtype=jnp.int32) - goes_left  # before this position
    before = lefts - lefts[start]
    to = jnp.where(goes_left, start + before, mid + (place - start) - before)
    to = jnp.where(parted, to, place)
    order = order.at[to].set(order, unique_indices=True)
    right = place >= mid
    start = jnp.where(parted & right, mid, start)
    end = jnp.where(parted & ~right, mid, end)
    node = jnp.where(parted, child[mine] + right, growth.node)
    count = growth.num_nodes + 2 * jnp.sum(split, dtype=jnp.int32)
    return _Growth(
        growth.level + 1, tree, count, order, node, start, end, parted & (end - start > 1)
    )


def _whole(draw: jax.Array, size: jax.Array) -> jax.Array:
    """Whole numbers below ``size`` from numbers in [0, 1)."""
    return jnp.minimum((draw * size).astype(jnp.int32), size - 1)


def leaves(trees: Tree, X: jax.Array) -> jax.Array:
    """The leaf (B, T) of each row of X (B, D) in each of T trees."""
    (T, M), B = trees.child.shape, len(X)
    child, input, threshold = (array.reshape(-1) for array in trees)
    base = jnp.arange(T, dtype=jnp.int32)[None] * M
    rows = jnp.arange(B, dtype=jnp.int32)[:, None] * X.shape[1]
    flat = X.reshape(-1)

    def down(carry: tuple) -> tuple:
        node, _ = carry
        at = base + node
        below = child[at]
        turn = flat[rows + input[at]] > threshold[at]
        return jnp.where(below > 0, below + turn, node), jnp.any(below > 0)

    begun = jnp.zeros((B, T), jnp.int32), jnp.ones((), bool)
    return jax.lax.while_loop(lambda carry: carry[1], down, begun)[0]
