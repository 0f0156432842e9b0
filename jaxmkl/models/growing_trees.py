"""Growing extremely randomised trees on a set of points, inside a compiled program.

A tree is grown level by level. Its points are kept in an order in which those of a node lie side
by side. The nodes of a level have slots, from left to right; sums over the points of every slot
are taken for all inputs at once. Sums are whole numbers, exact in any order: no rounding decides
on a split. What a level costs follows its points and nodes, not the room that there is for them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._blocks import largest_of_runs

# Reductions of variance that differ by less than this share count as equal.
TIE = 1e-4

SPAN = 8  # points of a node whose values span those that a threshold is drawn from

_GOLDEN = 0.618034

_PIECE = 256  # points or nodes that are looked at together


class Tree(NamedTuple):
    """A tree with room for N splits, or with a leading axis several; the first is at the root.

    An example x goes on to ``child[2 split]`` if x[input] ≤ threshold, else to the child behind
    it: another split, or ~l, a negative number, for leaf l. Split s makes leaf s + 1.
    """

    child: jax.Array
    """(2 N,), int32: a last axis of 2 would take 64 times the room on a TPU."""
    input: jax.Array
    """The input that decides (N,), int32."""
    threshold: jax.Array
    """(N,)"""

    @classmethod
    def of_one_leaf(cls, num_points: int, dtype: jax.typing.DTypeLike) -> "Tree":
        """A tree whose first split leads to leaf 0 alone, with room for ``num_points`` leaves."""
        N = num_points
        return cls(jnp.full(2 * N, -1, jnp.int32), jnp.zeros(N, jnp.int32), jnp.zeros(N, dtype))


class Draws(NamedTuple):
    """The random numbers of a tree in [0, 1), float32, and what a level makes of them."""

    nodes: jax.Array
    """For each slot (C, 3): the first of the points that span a node's thresholds; the place
    between them; and the node's rank among equals."""
    inputs: jax.Array
    """For each input (D, 2): shifts of places and of ranks."""

    def at(self, level: jax.Array | int) -> "Draws":
        """Those of a level: all are moved on by the same irrational number at each."""
        shift = (jnp.asarray(level).astype(jnp.float32) * _GOLDEN) % 1.0
        return Draws(*((numbers + shift) % 1.0 for numbers in self))


def draws_of(key: jax.Array, room: int, num_inputs: int, wanted: int) -> tuple[Draws, jax.Array]:
    """The numbers of a tree with room for so many points, and its inputs (wanted,), all different.

    They are drawn at once: a draw at every level takes a second to compile.
    """
    C = _num_slots(room)
    sizes = 3 * C, 2 * wanted, num_inputs
    drawn = jax.random.uniform(key, (sum(sizes),), jnp.float32)
    nodes, inputs, order = jnp.split(drawn, np.cumsum(sizes)[:2])
    chosen = jax.lax.top_k(order, wanted)[1]
    return Draws(nodes.reshape(C, 3), inputs.reshape(wanted, 2)), chosen


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
    """A tree that grows on N points; positions are those in the order of its points.

    What belongs together is one array: XLA compiles a kernel for each array that is written.
    """

    links: jax.Array
    """The children and the input of each split (N, 3)."""
    threshold: jax.Array
    """Of each split (N,)."""
    num_splits: jax.Array
    nodes: jax.Array
    """Of each slot (C, 4), int32: the first position of its node, that behind its last, the leaf
    that it is unless it splits, and its place in ``links`` if these are one column; what lies
    behind the nodes of the level, those with two points or more, is old."""
    num_nodes: jax.Array
    order: jax.Array
    """The point at each position (N,)."""
    where: jax.Array
    """Of each position (N, 2): the slot of its node, C if that is a leaf, and its leaf unless the
    node splits."""
    thresholds: jax.Array
    """Of each slot by each input (C, D + 1)."""
    sums: jax.Array
    """Number of points, and labels, of those that go left (C, 1 + K, D + 1), int32."""


def grown(
    keys: jax.Array,
    X: jax.Array,
    labels: jax.Array,
    num_points: jax.Array,
    depth: int | jax.Array,
    max_inputs: int,
) -> tuple[Tree, jax.Array]:
    """T trees on the first ``num_points`` of the points X (N, D), and the leaf (T, N) of each.

    In every node with two points or more every input of the tree has a threshold, uniform between
    its least and its largest value there; of more than 8 points, among 8 that are evenly spaced in
    the points' order. The node splits by the input and threshold that reduce the variance of the
    labels most, the sum over the outputs; among equals one is drawn. A node without a reduction is
    a leaf, and so are all at ``depth``.

    Args:
      keys: typed (T,).
      X: (N, D); behind the first ``num_points``, nothing matters.
      labels: of :func:`whole_numbers` (N, K).
      num_points: how many.
      depth: levels of splits at most.
      max_inputs: if there are more inputs, every tree has so many of them, drawn by
        :func:`draws_of`.
    """
    room, num_inputs = X.shape
    D, T, K = min(max_inputs, num_inputs), len(keys), labels.shape[1]
    N, C, of_tree = _whole_pieces(room), _num_slots(room), None
    draws, inputs = jax.vmap(lambda key: draws_of(key, room, num_inputs, D))(keys)
    if num_inputs > D:
        X, of_tree = jnp.moveaxis(X[:, inputs], 1, 0), 0
    most = largest_of_runs(num_points)
    place, splits = jnp.arange(N, dtype=jnp.int32), num_points > 1
    slot = jnp.where(splits & (place < num_points), 0, jnp.int32(C))
    root = _Growth(
        links=jnp.tile(jnp.asarray([-1, -1, 0], jnp.int32), (room, 1)),
        threshold=jnp.zeros(room, X.dtype),
        num_splits=jnp.zeros((), jnp.int32),
        nodes=jnp.tile(jnp.stack([0, num_points, 0, 3 * room]).astype(jnp.int32), (C, 1)),
        num_nodes=splits.astype(jnp.int32),
        order=place,
        where=jnp.stack([slot, jnp.zeros(N, jnp.int32)], axis=1),
        thresholds=jnp.zeros((C, D + 1), X.dtype),
        sums=jnp.zeros((C, 1 + K, D + 1), jnp.int32),
    )
    begun = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (T, *leaf.shape)), root)
    # one input more, by which no node splits: its sums are those over all points of a node
    X = jnp.pad(X, (*((0, 0),) * (X.ndim - 2), (0, N - room), (0, 1)))
    labels = jnp.pad(labels, ((0, N - room), (0, 0)))
    counted = jnp.pad(labels, ((0, 0), (1, 0)), constant_values=1)

    def more(carry: tuple[jax.Array, _Growth]) -> jax.Array:
        level, growth = carry
        return (level < depth) & largest_of_runs(jnp.any(growth.num_nodes > 0))

    def deeper(carry: tuple[jax.Array, _Growth]) -> tuple[jax.Array, _Growth]:
        level, growth = carry
        each = jax.vmap(_level, in_axes=(0, None, of_tree, None, None, 0))
        return level + 1, each(draws.at(level), level, X, counted, most, growth)

    _, after = jax.lax.while_loop(more, deeper, (jnp.zeros((), jnp.int32), begun))
    of_point = jax.vmap(lambda order, leaf: leaf.at[order].set(leaf, unique_indices=True))
    input = after.links[:, :, 2]
    if of_tree is not None:
        input = jnp.take_along_axis(inputs, input, axis=1)
    tree = Tree(after.links[:, :, :2].reshape(T, -1), input, after.threshold)
    return tree, of_point(after.order, after.where[:, :, 1])[:, :room]


def _whole_pieces(number: int) -> int:
    """The number, or the next that pieces divide."""
    return number if number <= _PIECE else -(-number // _PIECE) * _PIECE


def _num_slots(room: int) -> int:
    """Slots C for nodes of two points or more."""
    return _whole_pieces(max(room // 2, 1))


def _level(
    draws: Draws,
    level: jax.Array,
    X: jax.Array,
    counted: jax.Array,
    most: jax.Array,
    growth: _Growth,
) -> _Growth:
    """The growth of one tree after one more level; trees have ``most`` points at most."""
    nodes, room = growth.nodes, len(growth.threshold)
    (N, D), C, K = (len(X), X.shape[1] - 1), len(growth.sums), counted.shape[1] - 1
    size, points = min(_PIECE, C), min(_PIECE, N)
    # a level has at most twice the nodes of the one before, and nodes of two points or more
    pieces = -(-jnp.minimum(1 << jnp.minimum(level, 20), most // 2) // size)
    pieces_of_points = -(-most // points)

    def cut(array: jax.Array, piece: jax.Array, size: int = size) -> jax.Array:
        return jax.lax.dynamic_slice_in_dim(array, piece * size, size)

    def put(array: jax.Array, part: jax.Array, piece: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice_in_dim(array, part, piece * len(part), 0)

    shifts, shifts_of_ranks = draws.inputs.T
    shifts = jnp.pad(shifts, (0, 1))

    def begin(piece: jax.Array, own: tuple) -> tuple:
        """Draw thresholds for a piece of the slots, whose sums begin."""
        of_first, of_place, _ = cut(draws.nodes, piece).T
        start, end, *_ = cut(nodes, piece).T
        number = jnp.maximum(end - start, 2)
        first, stride = _whole(of_first, number), jnp.maximum(number // SPAN, 1)
        spaced = first[None] + jnp.arange(SPAN)[:, None] * stride[None]
        # behind the last node positions may be none
        at = jnp.minimum(start[None] + spaced % number[None], N - 1)
        spanning = X[growth.order[at]]
        least, most = jnp.min(spanning, axis=0), jnp.max(spanning, axis=0)
        between = ((of_place[:, None] + shifts[None]) % 1.0).astype(X.dtype)
        thresholds = least + between * (most - least)
        sums = jnp.zeros((size, 1 + K, D + 1), jnp.int32)
        return put(own[0], thresholds, piece), put(own[1], sums, piece)

    drawn = growth.thresholds, growth.sums
    thresholds, sums = jax.lax.fori_loop(0, pieces, begin, drawn)

    def add(piece: jax.Array, sums: jax.Array) -> jax.Array:
        """Add the points at a piece of the positions to the sums of their nodes."""
        slots, here = cut(growth.where, piece, points)[:, 0], cut(growth.order, piece, points)
        left = X[here] <= thresholds[jnp.minimum(slots, C - 1)]
        terms = jnp.where(left[:, None], counted[here][:, :, None], 0)
        return sums.at[slots].add(terms, mode="drop")

    sums = jax.lax.fori_loop(0, pieces_of_points, add, sums)

    def split(piece: jax.Array, own: tuple) -> tuple:
        """Split a piece of the nodes."""
        links, threshold, num_splits, below, num_below, splits, of_splits = own
        part, ranks = cut(sums, piece), cut(draws.nodes, piece)[:, 2:]
        begin, end, leaf, place = cut(nodes, piece).T
        used = piece * size + jnp.arange(size, dtype=jnp.int32) < growth.num_nodes
        lefts, all_ = part[:, 0, :D], part[:, 0, D:]
        rest = all_ - lefts
        good = used[:, None] & (lefts > 0) & (rest > 0)
        n, m = (jnp.where(good, number, 1).astype(X.dtype) for number in (lefts, rest))
        gain = jnp.zeros((), X.dtype)
        for k in range(K):
            left, total = part[:, 1 + k, :D], part[:, 1 + k, D:]
            apart = left.astype(X.dtype) / n - (total - left).astype(X.dtype) / m
            gain += n * m * apart**2
        gain = jnp.where(good, gain, 0.0)
        most = jnp.max(gain, axis=1, keepdims=True)
        of_inputs = (ranks + shifts_of_ranks[None]) % 1.0
        input = jnp.argmax(jnp.where(gain >= (1 - TIE) * most, of_inputs, -1.0), axis=1)
        input, parts = input.astype(jnp.int32), most[:, 0] > 0
        chosen, lefts = (
            jnp.take_along_axis(array, input[:, None], axis=1)[:, 0]
            for array in (cut(thresholds, piece), lefts)
        )

        number = parts.astype(jnp.int32)
        ordinal = num_splits + jnp.cumsum(number) - number
        at, new = jnp.where(parts, ordinal, room), ordinal + 1
        links = links.at[at].set(jnp.stack([~leaf, ~new, input], axis=1), mode="drop")
        parent = jnp.where(parts, place, 3 * room)
        links = links.reshape(-1).at[parent].set(ordinal, mode="drop").reshape(links.shape)
        threshold = threshold.at[at].set(chosen, mode="drop")

        middle = begin + lefts
        goes_on = jnp.stack([parts & (lefts > 1), parts & (end - middle > 1)], axis=1)
        number = goes_on.reshape(-1).astype(jnp.int32)
        so_far = (num_below + jnp.cumsum(number) - number).reshape(goes_on.shape)
        slots = jnp.where(goes_on, so_far, C)
        children = jnp.stack(
            [begin, middle, leaf, 3 * ordinal, middle, end, new, 3 * ordinal + 1], axis=1
        )
        below = below.at[slots.reshape(-1)].set(children.reshape(-1, 4), mode="drop")
        found = jnp.stack([jnp.where(parts, new, 0), input, middle, *slots.T], axis=1)
        splits, of_splits = put(splits, found, piece), put(of_splits, chosen, piece)
        num_splits += jnp.sum(parts, dtype=jnp.int32)
        num_below += jnp.sum(number, dtype=jnp.int32)
        return links, threshold, num_splits, below, num_below, splits, of_splits

    # of each slot: the leaf of the right child, 0 where the node does not split; the input; the
    # first position of the right child; the slots of the left and the right child, C of a leaf
    splits, zero = jnp.zeros((C, 5), jnp.int32), jnp.zeros((), jnp.int32)
    own = growth.links, growth.threshold, growth.num_splits, nodes, zero, splits
    own = jax.lax.fori_loop(0, pieces, split, (*own, jnp.zeros(C, X.dtype)))
    links, threshold, num_splits, below, num_below, splits, of_splits = own

    def move(piece: jax.Array, own: tuple) -> tuple:
        """Move the points at a piece of the positions to the halves of their nodes."""
        order, where, lefts, so_far = own
        position = piece * points + jnp.arange(points, dtype=jnp.int32)
        here = cut(growth.order, piece, points)
        slot, leaf = cut(growth.where, piece, points).T
        mine = jnp.minimum(slot, C - 1)
        right_leaf, input, middle, left, right = splits[mine].T
        parts = (slot < C) & (right_leaf > 0)
        goes_left = X[here, input] <= of_splits[mine]
        number = goes_left.astype(jnp.int32)
        counts = so_far + jnp.cumsum(number)
        lefts = put(lefts, counts - number, piece)  # before each position
        first = nodes[mine, 0]
        before = counts - number - lefts[first]
        to = jnp.where(goes_left, first + before, middle + position - first - before)
        order = order.at[jnp.where(parts, to, position)].set(here, unique_indices=True)
        is_right = position >= middle
        slot = jnp.where(parts, jnp.where(is_right, right, left), C)
        leaf = jnp.where(parts & is_right, right_leaf, leaf)
        where = put(where, jnp.stack([slot, leaf], axis=1), piece)
        return order, where, lefts, counts[-1]

    moving = growth.order, growth.where, jnp.zeros(N, jnp.int32), zero
    order, where, *_ = jax.lax.fori_loop(0, pieces_of_points, move, moving)
    return _Growth(links, threshold, num_splits, below, num_below, order, where, thresholds, sums)


def _whole(draw: jax.Array, size: jax.Array) -> jax.Array:
    """Whole numbers below ``size`` from numbers in [0, 1)."""
    return jnp.minimum((draw * size.astype(draw.dtype)).astype(jnp.int32), size - 1)


def leaves(trees: Tree, X: jax.Array) -> jax.Array:
    """The leaf (B, T) of each row of X (B, D) in each of T trees."""
    (T, N), B = trees.input.shape, len(X)
    child, input, threshold = (array.reshape(-1) for array in trees)
    base = jnp.arange(T, dtype=jnp.int32)[None] * N
    rows = jnp.arange(B, dtype=jnp.int32)[:, None] * X.shape[1]
    flat = X.reshape(-1)

    def down(split: jax.Array) -> jax.Array:
        at = base + jnp.maximum(split, 0)
        right = flat[rows + input[at]] > threshold[at]
        return jnp.where(split < 0, split, child[2 * at + right.astype(at.dtype)])

    def inside(split: jax.Array) -> jax.Array:
        return largest_of_runs(jnp.any(split >= 0))

    return ~jax.lax.while_loop(inside, down, jnp.zeros((B, T), jnp.int32))
