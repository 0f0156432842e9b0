"""Growing extremely randomised trees on a set of points, inside a compiled program.

All trees grow together, level by level. The nodes of a level have slots, from left to right, and
points need no order: each knows the slot of its node, where numbers of all its points are added
up. Sums are whole numbers, exact in any order: no rounding decides on a split. Loops go over
pieces of the points, or of the slots, so that a level costs what there is, not the room for it.

Random numbers are hashes of a tree's seed, the level, and a point, or a slot and an input.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._blocks import largest_of_runs, moments_of
from jaxmkl._hash import hashed, uniform_of

SPAN = 8  # about so many points of a node span the values that a threshold is drawn from

# Reductions of variance count as equal if they are so to this many binary digits.
DIGITS = 13

_PIECE = 256  # points or nodes that are looked at together, at most

_HIGHEST = jax.lax.Precision.HIGHEST


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


def seeds_of(seed: jax.Array, num_trees: int) -> jax.Array:
    """The seeds (T,) of trees, uint32, from one."""
    return hashed(seed, np.arange(num_trees))


def inputs_of(seeds: jax.Array, num_inputs: int, wanted: int) -> jax.Array:
    """Of each tree the inputs (T, wanted) that it may split by, all different, in random order."""
    draws = hashed(seeds[:, None], np.arange(num_inputs)[None])
    return jax.lax.top_k(uniform_of(draws), wanted)[1].astype(jnp.int32)


def whole_numbers(y: jax.Array, number: jax.Array) -> jax.Array:
    """The first so many labels of y (N, K) as int32, centred, so large that no sum overflows.

    Those behind them get 0. As the sizes of n numbers of variance v add up to n sqrt(v) at most,
    those of an output add up to 2^30, within rounding.
    """
    mean, variance = moments_of(y, number)
    most = jnp.sqrt(jnp.max(variance)) * jnp.maximum(number, 1).astype(y.dtype)
    scale = jnp.where(most > 0, 2.0**30 / jnp.where(most > 0, most, 1), 0)
    present = np.arange(len(y), dtype=np.int32)[:, None] < number
    return jnp.round(jnp.where(present, y - mean[None], 0) * scale).astype(jnp.int32)


class _Growth(NamedTuple):
    """Trees that grow on N points; a level has C nodes of two points or more at most."""

    node: jax.Array
    """Of each point the slot of its node (T, N), int32; of those in leaf l, which is done, ~l."""
    halves: jax.Array
    """What a node of the level above does with its points (T, C, 5), int32: where those to the
    left and to the right go on, as in ``node``; the input; and how many they are."""
    threshold: jax.Array
    """Of each node of the level above (T, C)."""
    ends: jax.Array
    """Of each node the largest values of x and of -x (T, C, 2 D) at points that span it."""
    drawn: jax.Array
    """Of each node its thresholds by all inputs (T, C, D)."""
    sums: jax.Array
    """Number of points, and labels, of those that go left (T, C, 1 + K, D + 1), int32. By the last
    input, which is none, all do."""
    nodes: jax.Array
    """Of each node the leaf that it is unless it splits, and its place in ``links`` (T, C, 2)."""
    links: jax.Array
    """Children and inputs of the splits (T, 3 N), int32, as in :class:`Tree`."""
    thresholds: jax.Array
    """Of each split (T, N)."""
    totals: jax.Array
    """The number of splits, and of nodes in this level (T, 2), int32."""


@dataclasses.dataclass(frozen=True)
class _Points:
    """The points on which trees grow, and the four steps of a level. A step goes over pieces."""

    X: jax.Array
    """Inputs (T, N, D), or (1, N, D) of all trees alike."""
    counted: jax.Array
    """1, and the labels, of each point (1, N, 1 + K), int32."""
    of_tree: Any
    """The first index into ``X`` for each tree, (T, 1) or (1, 1)."""
    trees: Any
    """The numbers of the trees (T, 1)."""
    size: int
    """Of a piece."""
    turns: jax.Array
    """Pieces that the points fill."""

    def cut(self, array: jax.Array, piece: jax.Array) -> jax.Array:
        """A piece of the second axis."""
        return jax.lax.dynamic_slice_in_dim(array, piece * self.size, self.size, 1)

    def put(self, array: jax.Array, part: jax.Array, piece: jax.Array) -> jax.Array:
        """The array with another piece."""
        return jax.lax.dynamic_update_slice_in_dim(array, part, piece * self.size, 1)

    def numbers(self, piece: jax.Array) -> jax.Array:
        """Of the points, or slots, in a piece (1, size)."""
        return (piece * self.size + np.arange(self.size, dtype=np.int32))[None]

    def draws(self, bits: jax.Array, piece: jax.Array) -> jax.Array:
        """The random bits of nodes by their inputs (T, size, D)."""
        of_nodes = hashed(bits, ~self.numbers(piece))
        return hashed(of_nodes[:, :, None], np.arange(self.X.shape[2])[None, None])

    def moved(self, growth: _Growth, bits: jax.Array) -> tuple[jax.Array, jax.Array]:
        """``node`` and ``ends`` once points went on to the halves of their nodes.

        Some of the points span the node that they come to.
        """
        shape = len(self.trees), self.size, 2 * self.X.shape[2]

        def move(piece: jax.Array, own: tuple) -> tuple:
            node, ends = own
            # not from the array that is written: XLA would copy that
            here, points = self.cut(growth.node, piece), self.numbers(piece)
            at = jnp.maximum(here, 0)
            halves = growth.halves[self.trees, at]
            left, right, input, on_left, on_right = jnp.moveaxis(halves, 2, 0)
            goes_right = self.X[self.of_tree, points, input] > growth.threshold[self.trees, at]
            here = jnp.where(here < 0, here, jnp.where(goes_right, right, left))
            beside = jnp.where(goes_right, on_right, on_left)
            draw = uniform_of(hashed(bits, points))
            spans = (here >= 0) & (draw * beside.astype(draw.dtype) < SPAN)
            values = self.cut(self.X, piece)
            both = jnp.broadcast_to(jnp.concatenate([values, -values], axis=2), shape)
            to = jnp.where(spans, here, ends.shape[1])
            ends = ends.at[self.trees, to].max(both, mode="drop")
            return self.put(node, here, piece), ends

        return jax.lax.fori_loop(0, self.turns, move, (growth.node, growth.ends))

    def drawn(
        self, growth: _Growth, ends: jax.Array, bits: jax.Array, pieces: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """``drawn`` and ``sums`` once nodes drew thresholds between their ends; sums are zeros."""
        D = self.X.shape[2]

        def draw(piece: jax.Array, own: tuple) -> tuple:
            drawn, sums = own
            part = self.cut(ends, piece)
            most, least = part[:, :, :D], -part[:, :, D:]
            # without points that span it a node gets NaN, and nothing goes right
            draws = uniform_of(self.draws(bits, piece), drawn.dtype)
            zeros = jnp.zeros((len(sums), self.size, *sums.shape[2:]), sums.dtype)
            return self.put(drawn, least + draws * (most - least), piece), self.put(
                sums, zeros, piece
            )

        return jax.lax.fori_loop(0, pieces, draw, (growth.drawn, growth.sums))

    def summed(
        self, node: jax.Array, drawn: jax.Array, sums: jax.Array, turns: jax.Array
    ) -> jax.Array:
        """``sums`` once points were added to those of their nodes."""

        def add(piece: jax.Array, sums: jax.Array) -> jax.Array:
            here = self.cut(node, piece)
            left = ~(self.cut(self.X, piece) > drawn[self.trees, jnp.maximum(here, 0)])
            left = jnp.pad(left, ((0, 0), (0, 0), (0, 1)), constant_values=True)
            terms = jnp.where(left[:, :, None], self.cut(self.counted, piece)[:, :, :, None], 0)
            to = jnp.where(here >= 0, here, sums.shape[1])
            return sums.at[self.trees, to].add(terms, mode="drop")

        return jax.lax.fori_loop(0, turns, add, sums)

    def split(self, growth: _Growth, bits: jax.Array, pieces: jax.Array) -> _Growth:
        """The growth once nodes split; the level below begins."""
        (T, C, D), (_, N), size = growth.drawn.shape, growth.node.shape, self.size
        trees, dtype = self.trees, growth.drawn.dtype

        def one(piece: jax.Array, own: _Growth) -> _Growth:
            part = self.cut(growth.sums, piece)
            leaf, place = jnp.moveaxis(self.cut(growth.nodes, piece), 2, 0)
            best = jnp.max(_keys(part, self.draws(bits, piece), dtype), axis=2)
            of_input, low = _low(D)
            parts = best >> low > 0
            input = jnp.where(parts, best & ((1 << of_input) - 1), 0)
            take = trees[:, :, None], np.arange(size)[None, :, None], input[:, :, None]
            on_left, of_all = part[:, :, 0][take][:, :, 0], part[:, :, 0, D]
            on_right, threshold = of_all - on_left, self.cut(growth.drawn, piece)[take][:, :, 0]
            waits = (best < 0) & (of_all > SPAN)
            # which of its children are nodes; one that waits is its own left child
            on = jnp.where(parts, on_left > 1, waits), parts & (on_right > 1)
            # a triangle of ones counts what comes before each node, its last column everything
            ones = np.triu(np.ones((size, size + 1), np.float32), 1)
            is_split, goes_left, goes_right = (some.astype(jnp.int32) for some in (parts, *on))
            found = jnp.stack([is_split, goes_left + goes_right], axis=1).astype(jnp.float32)
            counts = jnp.dot(found, ones, precision=_HIGHEST).astype(jnp.int32)
            ordinal, first = jnp.moveaxis(own.totals[:, :, None] + counts[:, :, :size], 1, 0)
            new, second = ordinal + 1, first + goes_left
            left = jnp.where(on[0], first, ~leaf)
            right = jnp.where(parts, jnp.where(on[1], second, ~new), left)
            many = (jnp.where(parts, n, of_all) for n in (on_left, on_right))
            halves = jnp.stack([left, right, input, *many], axis=2)
            # a split has its children, its input, and a link to it
            what = jnp.stack([~leaf, ~new, input, ordinal], axis=2)
            where = jnp.stack([2 * ordinal, 2 * ordinal + 1, 2 * N + ordinal, place], axis=2)
            where = jnp.where(parts[:, :, None], where, 3 * N)
            at = jnp.where(parts, ordinal, N)
            place = jnp.where(parts, 2 * ordinal, place)
            below = jnp.stack([leaf, place, new, 2 * ordinal + 1], axis=2)
            slots = jnp.where(jnp.stack(on, axis=2), jnp.stack([first, second], axis=2), C)
            return own._replace(
                halves=self.put(own.halves, halves, piece),
                threshold=self.put(own.threshold, threshold, piece),
                ends=self.put(own.ends, jnp.full((T, size, 2 * D), -jnp.inf, dtype), piece),
                nodes=own.nodes.at[trees[:, :, None], slots].set(
                    below.reshape(T, size, 2, 2), mode="drop"
                ),
                links=own.links.at[trees[:, :, None], where].set(what, mode="drop"),
                thresholds=own.thresholds.at[trees, at].set(threshold, mode="drop"),
                totals=own.totals + counts[:, :, size],
            )

        return jax.lax.fori_loop(0, pieces, one, growth)


def grown(
    seeds: jax.Array,
    X: jax.Array,
    labels: jax.Array,
    num_points: jax.Array,
    depth: int | jax.Array,
    max_inputs: int,
) -> tuple[Tree, jax.Array]:
    """T trees on the first ``num_points`` of the points X (N, D), and the leaf (T, N) of each.

    In every node with two points or more every input of the tree has a threshold, uniform between
    its least and its largest value there; of more than 8 points, among some that are drawn, each
    with the same probability, 8 in the mean. The node splits by the input and threshold that
    reduce the variance of the labels most, the sum over the outputs; among equals one is drawn. A
    node without a reduction is a leaf, and so are all at ``depth``. But one of more than 8 points
    that no threshold parts, as may be by chance, waits for those of the next level.

    Args:
      seeds: of :func:`seeds_of` (T,).
      X: (N, D); behind the first ``num_points``, nothing matters.
      labels: of :func:`whole_numbers` (N, K).
      num_points: how many.
      depth: levels of splits at most.
      max_inputs: if there are more inputs, every tree has so many of them (:func:`inputs_of`).
    """
    room, num_inputs = X.shape
    D, T, K = min(max_inputs, num_inputs), len(seeds), labels.shape[1]
    many = -(-room // _PIECE)
    size, dtype = -(-room // many), X.dtype
    N, C = many * size, -(-max(room // 2, 1) // size) * size
    trees = np.arange(T, dtype=np.int32)[:, None]
    if num_inputs > D:
        inputs = inputs_of(seeds, num_inputs, D)
        X, of_tree = jnp.moveaxis(X[:, inputs], 1, 0), trees
    else:
        X, of_tree = X[None], np.zeros((1, 1), np.int32)
    X = jnp.pad(X, ((0, 0), (0, N - room), (0, 0)))
    counted = jnp.pad(labels, ((0, N - room), (1, 0)), constant_values=1)[None]
    num_points = jnp.asarray(num_points, jnp.int32)
    turns = _pieces(largest_of_runs(num_points), size)
    points = _Points(X, counted, of_tree, trees, size, turns)

    def level(carry: tuple[jax.Array, jax.Array, _Growth]) -> tuple:
        number, _, growth = carry
        bits = hashed(seeds, number)[:, None]
        node, ends = points.moved(growth, bits)
        # at the last level points move, and that is all
        pieces = _pieces(largest_of_runs(jnp.max(growth.totals[:, 1])), size)
        pieces, some = (jnp.where(number < depth, n, 0) for n in (pieces, turns))
        drawn, sums = points.drawn(growth, ends, bits, pieces)
        sums = points.summed(node, drawn, sums, some)
        totals = growth.totals * np.asarray([[1, 0]], np.int32)
        after = growth._replace(node=node, ends=ends, drawn=drawn, sums=sums, totals=totals)
        after = points.split(after, bits, pieces)
        return number + 1, largest_of_runs(jnp.any(after.totals > totals)), after

    def more(carry: tuple[jax.Array, jax.Array, _Growth]) -> jax.Array:
        number, some, _ = carry
        return (number <= depth) & some

    splits, none = num_points > 1, jnp.zeros((), jnp.int32)
    inside = splits & (np.arange(N, dtype=np.int32) < num_points)
    root = jnp.stack([none, none, none, num_points, num_points])
    begun = _Growth(
        node=jnp.tile(inside.astype(jnp.int32)[None] - 1, (T, 1)),
        halves=jnp.tile(root[None, None], (T, C, 1)),
        threshold=jnp.full((T, C), jnp.inf, dtype),
        ends=jnp.full((T, C, 2 * D), -jnp.inf, dtype),
        drawn=jnp.zeros((T, C, D), dtype),
        sums=jnp.zeros((T, C, 1 + K, D + 1), jnp.int32),
        nodes=jnp.tile(np.asarray([[[0, 3 * N]]], np.int32), (T, C, 1)),
        links=jnp.full((T, 3 * N), -1, jnp.int32),
        thresholds=jnp.zeros((T, N), dtype),
        totals=jnp.tile(jnp.stack([none, splits.astype(jnp.int32)])[None], (T, 1)),
    )
    _, _, after = jax.lax.while_loop(more, level, (none, largest_of_runs(splits), begun))
    input = jnp.maximum(after.links[:, 2 * N : 2 * N + room], 0)
    if num_inputs > D:
        input = jnp.take_along_axis(inputs, input, axis=1)
    tree = Tree(after.links[:, : 2 * room], input, after.thresholds[:, :room])
    # those that depth ended are in nodes still
    of_node = after.nodes[trees, jnp.maximum(after.node, 0), 0]
    return tree, jnp.where(after.node < 0, ~after.node, of_node)[:, :room]


def _pieces(number: jax.Array, size: int) -> jax.Array:
    """Pieces that so many points or nodes fill."""
    return jax.lax.div(number + (size - 1), jnp.asarray(size, number.dtype))


def _low(num_inputs: int) -> tuple[int, int]:
    """Bits of an integer that say which input, and bits behind the digits of a reduction."""
    bits = (num_inputs - 1).bit_length()
    return bits, max(23 - DIGITS, bits + 4)


def _keys(sums: jax.Array, draws: jax.Array, dtype: Any) -> jax.Array:
    """Integers (T, n, D) of which the largest is of the best input; -1 if no point is left out.

    They have the digits of the reduction of variance, then random bits, and then the input.
    """
    K, D = sums.shape[2] - 1, draws.shape[2]
    on_left, of_all = sums[:, :, 0, :D], sums[:, :, 0, D:]
    on_right = of_all - on_left
    parts = (on_left > 0) & (on_right > 0)
    n, m = (jnp.where(parts, many, 1).astype(dtype) for many in (on_left, on_right))
    gain = jnp.zeros((), dtype)
    for k in range(1, K + 1):
        left, total = sums[:, :, k, :D], sums[:, :, k, D:]
        one, other = left.astype(dtype) / n, (total - left).astype(dtype) / m
        # where all labels are the same rounding must not part them
        same = jnp.abs(one - other) <= 4 * jnp.finfo(dtype).eps * jnp.abs(one)
        gain += jnp.where(same, 0.0, n * m * (one - other) ** 2)
    bits, low = _low(D)
    digits = jax.lax.bitcast_convert_type(gain.astype(jnp.float32), jnp.int32) >> low << low
    ranks = (draws & np.uint32((1 << low) - 1)).astype(jnp.int32) >> bits << bits
    inputs = np.arange(D, dtype=np.int32)[None, None]
    return jnp.where(parts, digits | ranks | inputs, -1)


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
