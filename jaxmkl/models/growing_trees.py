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
    """T trees that grow; positions are those in the order of a tree's N points."""

    level: jax.Array
    tree: Tree
    num_nodes: jax.Array
    """(T,)"""
    order: jax.Array
    """The point at each position (T, N)."""
    node: jax.Array
    """The node of each position (T, N)."""
    start: jax.Array
    """The first position of that node (T, N)."""
    end: jax.Array
    """The position behind its last (T, N)."""
    open: jax.Array
    """Whether that node may split (T, N)."""
    candidates: "_Candidates"


class _Candidates(NamedTuple):
    """Splits of the C nodes of a level by each input; what lies behind its nodes is old."""

    thresholds: jax.Array
    """(T, C, D)"""
    sums: jax.Array
    """Number of points, and labels, of those that go left (T, C, 1 + K, D), int32."""


def grown(
    keys: jax.Array, X: jax.Array, labels: jax.Array, num_points: jax.Array, depth: int | jax.Array
) -> tuple[Tree, jax.Array]:
    """T trees on the first ``num_points`` of the points X (N, D), and the leaf (T, N) of each.

    Every node with two points or more draws two of them; every input then has a threshold, uniform
    between its values at these two, and the node splits by the input and threshold that reduce the
    variance of the labels most, the sum over the outputs; among equals one is drawn. A node
    without a reduction is a leaf, and so are all at ``depth``.

    Args:
      keys: typed (T,).
      X: (N, D); behind the first ``num_points``, nothing matters.
      labels: of :func:`whole_numbers` (N, K).
      num_points: how many.
      depth: levels of splits at most; with 0, nothing is worked out.
    """
    (N, D), T, C = X.shape, len(keys), _most_nodes(X)
    place = jnp.arange(N, dtype=jnp.int32)
    num_points = num_points.astype(jnp.int32)

    def each(array: jax.Array) -> jax.Array:
        return jnp.broadcast_to(array, (T, *array.shape))

    none = jnp.zeros((T, N), jnp.int32)
    begun = _Growth(
        jnp.zeros((), jnp.int32),
        jax.tree.map(each, Tree.of_one_leaf(N, X.dtype)),
        jnp.ones(T, jnp.int32),
        each(place),
        none,
        none,
        none + num_points,
        each((place < num_points) & (num_points > 1)),
        _Candidates(
            jnp.zeros((T, C, D), X.dtype), jnp.zeros((T, C, 1 + labels.shape[1], D), jnp.int32)
        ),
    )
    # the level, the same for all trees, says how many nodes there are to look at
    axes = _Growth(None, *([0] * (len(_Growth._fields) - 1)))  # type: ignore[arg-type]
    level = jax.vmap(_level, in_axes=(0, None, None, None, axes), out_axes=axes)

    def more(growth: _Growth) -> jax.Array:
        return (growth.level < depth) & jnp.any(growth.open)

    after = jax.lax.while_loop(more, lambda own: level(keys, X, labels, num_points, own), begun)
    return after.tree, jax.vmap(lambda order, node: node.at[order].set(node))(
        after.order, after.node
    )


def _most_nodes(X: jax.Array) -> int:
    """How many nodes of a level may split."""
    return max(len(X) // 2, 1)


def _pieces(number: jax.Array, length: int) -> tuple[int, jax.Array]:
    """The size of a piece of an axis of a length, and how many hold the first places of it."""
    size = min(_PIECE, length)
    return size, -(-number // size)


def _piece(array: jax.Array, begin: jax.Array, size: int) -> jax.Array:
    return jax.lax.dynamic_slice_in_dim(array, begin, size)


def _with_piece(array: jax.Array, piece: jax.Array, begin: jax.Array) -> jax.Array:
    return jax.lax.dynamic_update_slice_in_dim(array, piece.astype(array.dtype), begin, 0)


def _level(
    key: jax.Array, X: jax.Array, labels: jax.Array, num_points: jax.Array, growth: _Growth
) -> _Growth:
    """The growth of one tree after one more level."""
    (N, D), K, C = X.shape, labels.shape[1], _most_nodes(X)
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
    one, other = order[head + first], order[jnp.minimum(head + second, N - 1)]

    # a level has at most twice the nodes of the one before, and nodes of two points or more
    most_nodes = jnp.minimum(1 << jnp.minimum(growth.level, 20), num_points // 2)
    slots_of_piece, pieces_of_slots = _pieces(most_nodes, C)

    def begun(piece: jax.Array, candidates: _Candidates) -> _Candidates:
        """The candidates with those of the next nodes, which have no sums yet."""
        begin = jnp.minimum(piece * slots_of_piece, C - slots_of_piece)
        a, b, at = (_piece(array, begin, slots_of_piece) for array in (one, other, shift))
        between = (at[:, None] + draws.inputs[:1]) % 1.0
        a, b = X[a], X[b]
        thresholds = a + between.astype(X.dtype) * (b - a)
        sums = jnp.zeros((slots_of_piece, 1 + K, D), jnp.int32)
        return _Candidates(
            _with_piece(candidates.thresholds, thresholds, begin),
            _with_piece(candidates.sums, sums, begin),
        )

    candidates = jax.lax.fori_loop(0, pieces_of_slots, begun, growth.candidates)
    thresholds = candidates.thresholds

    def added(piece: jax.Array, sums: jax.Array) -> jax.Array:
        """The sums with those of the points at the next positions."""
        # the last piece begins where it fits; what the one before had of it counts once
        begin = jnp.minimum(piece * points_of_piece, N - points_of_piece)
        rows = begin + jnp.arange(points_of_piece)
        slots = jnp.where(rows >= piece * points_of_piece, slot[rows], C)
        points = order[rows]
        left = X[points] <= thresholds[jnp.minimum(slots, C - 1)]
        terms = jnp.where(left[:, None], counted[points][:, :, None], 0)
        return sums.at[slots].add(terms, mode="drop")

    # sums over the points of each slot that go left by each input: their number and their labels
    counted = jnp.concatenate([jnp.ones((N, 1), jnp.int32), labels], axis=1)
    points_of_piece, pieces_of_points = _pieces(num_points, N)
    sums = jax.lax.fori_loop(0, pieces_of_points, added, candidates.sums)
    totals = jnp.zeros((C, K), jnp.int32).at[slot].add(labels[order], mode="drop")

    def chosen(piece: jax.Array, best: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        """The best input of each node, or -1 if none reduces its variance, and its number."""
        begin = jnp.minimum(piece * slots_of_piece, C - slots_of_piece)
        parts = (used, size, rank, totals, sums)
        inside, all_, ranks, total, part = (_piece(a, begin, slots_of_piece) for a in parts)
        number = part[:, 0]
        rest = all_[:, None] - number
        splits = inside[:, None] & (number > 0) & (rest > 0)
        count, others = (jnp.where(splits, n, 1).astype(X.dtype) for n in (number, rest))
        gain = jnp.zeros((), X.dtype)
        for k in range(K):
            ours, both = part[:, 1 + k], total[:, k, None]
            apart = ours.astype(X.dtype) / count - (both - ours).astype(X.dtype) / others
            gain += count * others * apart**2
        gain = jnp.where(splits, gain, 0.0)
        most = jnp.max(gain, axis=1, keepdims=True)
        ranks = (ranks[:, None] + draws.inputs[1:]) % 1.0
        input = jnp.argmax(jnp.where(gain >= (1 - TIE) * most, ranks, -1.0), axis=1)
        number = jnp.take_along_axis(number, input[:, None], axis=1)[:, 0]
        input = jnp.where(most[:, 0] > 0, input, -1)
        return _with_piece(best[0], input, begin), _with_piece(best[1], number, begin)

    none = jnp.full(C, -1, jnp.int32)
    best, number = jax.lax.fori_loop(0, pieces_of_slots, chosen, (none, none))
    split, best = used & (best >= 0), jnp.maximum(best, 0)
    threshold, middle = thresholds[jnp.arange(C), best], head + number
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
    open = parted & (end - start > 1)
    candidates = _Candidates(thresholds, sums)
    return _Growth(growth.level + 1, tree, count, order, node, start, end, open, candidates)


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
