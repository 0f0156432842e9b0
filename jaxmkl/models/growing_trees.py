"""Growing extremely randomised trees on a set of points, inside a compiled program.

All trees grow together, level by level. The nodes of a level have slots, from left to right, and
points need no order: each knows the slot of its node, where numbers of all its points are added
up. Sums are whole numbers, exact in any order: no rounding decides on a split. Loops go over
pieces of the points, or of the slots, so that a level costs what there is, not the room for it. On
GPUs all room is one piece, as a turn of a loop costs more there than a kernel of any size.

Random numbers are hashes of a tree's seed, the level, and a point, or a slot and an input.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._blocks import largest_of_runs, moments_of
from jaxmkl._hash import hashed, uniform_of

SPAN = 8  # about so many points of a node span the values that a threshold is drawn from

# Reductions of variance count as equal if they are so to this many binary digits.
DIGITS = 13

_PIECE = 512  # points or nodes of all trees that are looked at together, at most

_HIGHEST = jax.lax.Precision.HIGHEST


class Tree(NamedTuple):
    """A tree with room for N splits, or several one behind another; the first is at the root.

    An example x goes on to ``links[3 split]`` if x[input] ≤ threshold, else to the link behind it:
    another split, or ~l, a negative number, for leaf l. Split s makes leaf s + 1.
    """

    splits: jax.Array
    """Two children, the input that decides, and the bits of the threshold (4 N,), integers as long
    as numbers are: a last axis of 4 would take 32 times the room on a TPU."""

    @classmethod
    def of_one_leaf(cls, num_points: int, dtype: jax.typing.DTypeLike) -> "Tree":
        """A tree whose first split leads to leaf 0 alone, with room for ``num_points`` leaves."""
        return cls(jnp.full(4 * num_points, -1, _bits_of(dtype)))

    def _rows(self) -> jax.Array:
        return self.splits.reshape(*self.splits.shape[:-1], -1, 4)

    @property
    def links(self) -> jax.Array:
        """Two children, and the input (..., 3 N)."""
        return self._rows()[..., :3].reshape(*self.splits.shape[:-1], -1)

    @property
    def threshold(self) -> jax.Array:
        """(..., N); NaN where there is no split."""
        return _number(self._rows()[..., 3])


def inputs_of(seeds: jax.Array, num_inputs: int, wanted: int) -> jax.Array:
    """The inputs (T, wanted) by which each tree may split, all different, in random order."""
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


_Ends = tuple[jax.Array, jax.Array]


class _Growth(NamedTuple):
    """T trees that grow on N points; a level has C nodes of two points or more at most.

    One axis has all points, or nodes, of all trees: the first of each tree, then the second of
    each, so that a piece of it is in one stretch of memory. Numbers of nodes are places there.
    """

    node: jax.Array
    """The node of each point (N T,), int32; ~l for points in leaf l, which is done."""
    halves: jax.Array
    """The split of each node of the level above (C T, 6): where its points to the left and to the
    right go on, as in ``node``; the input; the numbers of these points; the threshold's bits."""
    ends: _Ends
    """The least and the largest inputs (C T, D) at the points that span each node, as integers
    (:func:`_ordered`)."""
    drawn: jax.Array
    """The thresholds of each node by all inputs, as integers (C T, D). Of a node without points
    that span it nothing goes right."""
    sums: jax.Array
    """Number of points, and labels, of those that go left (C T, 1 + K, D), int32."""
    nodes: jax.Array
    """The leaf that each node is unless it splits, its place in ``splits``, and the number of its
    points and their labels (C T, 3 + K)."""
    splits: jax.Array
    """As in :class:`Tree`, tree by tree (4 N T,)."""
    totals: jax.Array
    """The number of splits, and of nodes in this level (T, 2), int32."""


@dataclasses.dataclass(frozen=True)
class _Points:
    """The points on which trees grow, and the four steps of a level. A step goes over pieces."""

    X: jax.Array
    """Inputs (N T, D), as integers (:func:`_ordered`)."""
    inputs: Any
    """The inputs that they are (T, D); None for all."""
    counted: jax.Array
    """1, and the labels, of each point (N T, 1 + K), int32."""
    limits: jax.Array
    """Those of :func:`grown` (3,)."""
    num_trees: int
    size: int
    """The number of points, or nodes, of each tree in a piece."""
    turns: jax.Array
    """Pieces that the points fill."""

    def in_pieces(
        self, pieces: jax.Array, one: Callable[[jax.Array, Any], Any], growth: Any
    ) -> Any:
        """The growth after a step over so many pieces."""
        if self.size * self.num_trees == len(self.X):
            return one(jnp.zeros((), jnp.int32), growth)
        return jax.lax.fori_loop(0, pieces, one, growth)

    def cut(self, array: jax.Array, piece: jax.Array) -> jax.Array:
        """A piece of the first axis."""
        length = self.size * self.num_trees
        return jax.lax.dynamic_slice_in_dim(array, piece * length, length)

    def put(self, array: jax.Array, part: jax.Array, piece: jax.Array) -> jax.Array:
        """The array with another piece."""
        return jax.lax.dynamic_update_slice_in_dim(array, part, piece * len(part), 0)

    def numbers(self, piece: jax.Array) -> jax.Array:
        """The numbers within their trees of the points, or nodes, in a piece (size, 1)."""
        return (piece * self.size + np.arange(self.size, dtype=np.int32))[:, None]

    def draws(self, bits: jax.Array, piece: jax.Array) -> jax.Array:
        """The random bits of nodes by their inputs (size T, D)."""
        of_nodes = hashed(bits, ~self.numbers(piece)).reshape(-1)
        return hashed(of_nodes[:, None], np.arange(self.X.shape[1])[None])

    def moved(self, growth: _Growth, bits: jax.Array) -> tuple[jax.Array, _Ends]:
        """``node`` and ``ends`` once points went on to the halves of their nodes.

        Some of the points span the node that they come to.
        """

        def move(piece: jax.Array, own: tuple) -> tuple:
            node, (least, most) = own
            # not from the array that is written: XLA would copy that
            here, points = self.cut(growth.node, piece), self.numbers(piece)
            *halves, bits_of_threshold = growth.halves[jnp.maximum(here, 0)].T
            left, right, input, on_left, on_right = (a.astype(jnp.int32) for a in halves)
            X = self.cut(self.X, piece)
            # a sum, as XLA would divide a gather from all points among threads, for a few of them
            own_input = input[:, None] == np.arange(X.shape[1], dtype=np.int32)[None]
            x = jnp.sum(jnp.where(own_input, X, 0), axis=1, dtype=X.dtype)
            goes_right = _as_float(x) > _number(bits_of_threshold)
            here = jnp.where(here < 0, here, jnp.where(goes_right, right, left))
            beside = jnp.where(goes_right, on_right, on_left)
            draw = uniform_of(hashed(bits, points)).reshape(-1)
            spans = (here >= 0) & (draw * beside.astype(draw.dtype) < SPAN)
            at = jnp.where(spans, here, len(most))
            ends = least.at[at].min(X, mode="drop"), most.at[at].max(X, mode="drop")
            return self.put(node, here, piece), ends

        return self.in_pieces(self.turns, move, (growth.node, growth.ends))

    def drawn(
        self, growth: _Growth, ends: _Ends, bits: jax.Array, pieces: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """``drawn`` and ``sums`` once nodes drew thresholds between their ends; sums are zeros."""

        def draw(piece: jax.Array, own: tuple) -> tuple:
            drawn, sums = own
            least, most = (_as_float(self.cut(end, piece)) for end in ends)
            draws = uniform_of(self.draws(bits, piece), most.dtype)
            found = least + draws * (most - least)  # NaN without points that span a node
            found = jnp.where(jnp.isnan(found), jnp.iinfo(drawn.dtype).max, _ordered(found))
            zeros = jnp.zeros((len(most), *sums.shape[1:]), sums.dtype)
            return self.put(drawn, found, piece), self.put(sums, zeros, piece)

        return self.in_pieces(pieces, draw, (growth.drawn, growth.sums))

    def summed(self, node: jax.Array, drawn: jax.Array, sums: jax.Array) -> jax.Array:
        """``sums`` once points were added to those of their nodes."""

        def add(piece: jax.Array, sums: jax.Array) -> jax.Array:
            here = self.cut(node, piece)
            left = self.cut(self.X, piece) <= drawn[jnp.maximum(here, 0)]
            terms = jnp.where(left[:, None], self.cut(self.counted, piece)[:, :, None], 0)
            return sums.at[jnp.where(here >= 0, here, len(sums))].add(terms, mode="drop")

        return self.in_pieces(self.turns, add, sums)

    def split(
        self, growth: _Growth, nodes_there: jax.Array, bits: jax.Array, pieces: jax.Array
    ) -> _Growth:
        """The growth once nodes split, so many of each tree (T,); the level below begins."""
        T, size, D = self.num_trees, self.size, self.X.shape[1]
        length, nowhere = size * T, len(growth.splits)
        trees, each = np.tile(np.arange(T, dtype=np.int32), size), np.arange(length)

        def one(piece: jax.Array, own: _Growth) -> _Growth:
            part, nodes = self.cut(growth.sums, piece), self.cut(growth.nodes, piece)
            leaf, place, of_all = nodes[:, 0], nodes[:, 1], nodes[:, 2:]
            thresholds = _as_float(self.cut(growth.drawn, piece))
            gains = _gains(part, of_all, self.limits, thresholds.dtype)
            best = jnp.max(_keys(gains, self.draws(bits, piece)), axis=1)
            of_input, low = _low(D)
            parts = best >> low > 0
            input = jnp.where(parts, best & ((1 << of_input) - 1), 0)
            # one that waits is its own left child
            on_left = jnp.where(parts[:, None], part[each, :, input], of_all)
            on_right, threshold = of_all - on_left, thresholds[each, input]
            is_node = (self.numbers(piece) < nodes_there[None]).reshape(-1)
            waits = is_node & (best < 0) & (of_all[:, 0] > SPAN)
            # which of its children are nodes
            on = (on_left[:, 0] > 1) & (parts | waits), on_right[:, 0] > 1
            is_split, goes_left, goes_right = (some.astype(jnp.int32) for some in (parts, *on))
            found = jnp.stack([is_split, goes_left + goes_right], axis=1)
            before = _before(found.reshape(size, 2 * T)).reshape(size + 1, T, 2)
            ordinal, first = (own.totals[None] + before[:size]).reshape(length, 2).T
            new, second = ordinal + 1, first + goes_left
            first, second = first * T + trees, second * T + trees
            left = jnp.where(on[0], first, ~leaf)
            right = jnp.where(parts, jnp.where(on[1], second, ~new), left)
            many = on_left[:, 0], jnp.where(parts, on_right[:, 0], of_all[:, 0])
            own_bits = jax.lax.bitcast_convert_type(threshold, self.X.dtype)
            both = (a.astype(own_bits.dtype) for a in (left, right, input, *many))
            halves = jnp.stack([*both, own_bits], axis=1)
            # a split has its children, its input, and a link to it
            by = input if self.inputs is None else self.inputs[trees, input]
            all_links = (a.astype(own_bits.dtype) for a in (~leaf, ~new, by, ordinal))
            what = jnp.stack([*all_links, own_bits], axis=1)
            own_place = nowhere // T * trees + 4 * ordinal
            each_place = own_place[:, None] + np.asarray([0, 1, 2, 0, 3], np.int32)[None]
            where = jnp.where(np.arange(5)[None] == 3, place[:, None], each_place)
            where = jnp.where(parts[:, None], where, nowhere)
            place = jnp.where(parts, own_place, place)
            left_below = [leaf, place, *on_left.T]
            below = jnp.stack([*left_below, new, own_place + 1, *on_right.T], axis=1)
            at = jnp.stack([first, second], axis=1)
            slots = jnp.where(jnp.stack(on, axis=1), at, len(own.nodes))
            none = (jnp.full((length, D), end, self.X.dtype) for end in _no_ends(self.X.dtype))
            least, most = map(self.put, own.ends, none, (piece, piece))
            return own._replace(
                halves=self.put(own.halves, halves, piece),
                ends=(least, most),
                nodes=own.nodes.at[slots].set(below.reshape(length, 2, -1), mode="drop"),
                splits=own.splits.at[where].set(what, mode="drop"),
                totals=own.totals + before[size],
            )

        return self.in_pieces(pieces, one, growth)


def grown(
    seeds: jax.Array,
    X: jax.Array,
    labels: jax.Array,
    rows: jax.Array,
    num_points: jax.Array,
    limits: jax.typing.ArrayLike,
    max_inputs: int,
) -> Tree:
    """T trees, each on the first ``num_points`` of its own ``rows`` of the points X (N, D).

    In every node with two points or more every input of the tree has a threshold, uniform between
    its least and its largest value there; of more than 8 points, among some that are drawn, each
    with the same probability, 8 in the mean. With S the sum of n labels, the node splits by the
    input and threshold of the largest gain, if that is above 0,

        Σ_k S_L² / (n_L + s) + S_R² / (n_R + s) - S² / (n + s),

    so that with s = 0 they reduce the variance of the labels most; among equals one is drawn. A
    node without a gain is a leaf, and so are all at the last level. But one of more than 8 points
    that no threshold parts, as may be by chance, waits for those of the next level.

    Args:
      seeds: of the trees (T,), uint32.
      X: (N, D).
      labels: of :func:`whole_numbers` (N, K).
      rows: the points of each tree (T, N); behind the first ``num_points``, nothing matters.
      num_points: how many.
      limits: levels of splits, points in each half of a node at least, and 2 s (3,), int32.
      max_inputs: if there are more inputs, every tree has so many of them (:func:`inputs_of`).
    """
    given = seeds, X, labels, rows, num_points, limits
    form = functools.partial(functools.partial, grown_in_pieces, max_inputs)
    in_pieces, whole = form(_PIECE), form(None)
    return Tree(jax.lax.platform_dependent(*given, cuda=whole, rocm=whole, default=in_pieces))


def grown_in_pieces(
    max_inputs: int,
    piece: int | None,
    seeds: jax.Array,
    X: jax.Array,
    labels: jax.Array,
    rows: jax.Array,
    num_points: jax.Array,
    limits: jax.Array,
) -> jax.Array:
    """``splits`` of :func:`grown`, by pieces of so many points or nodes, or by a single one."""
    room, num_inputs = X.shape
    D, T, K = min(max_inputs, num_inputs), len(seeds), labels.shape[1]
    size = room if piece is None else -(-room // -(-room * T // piece))
    many = -(-room // size)
    N, C = many * size, -(-max(room // 2, 1) // size) * size
    rows, inputs = jnp.pad(rows, ((0, 0), (0, N - room))).T, None
    if num_inputs > D:
        inputs = inputs_of(seeds, num_inputs, D)
    ordered = _ordered(X)
    own = ordered[rows] if inputs is None else ordered[rows[:, :, None], inputs[None]]
    counted = jnp.pad(labels, ((0, 0), (1, 0)), constant_values=1)[rows]
    num_points, limits = (jnp.asarray(a, jnp.int32) for a in (num_points, limits))
    turns = _pieces(largest_of_runs(num_points), size)
    by_point = own.reshape(N * T, D), inputs, counted.reshape(N * T, 1 + K)
    points = _Points(*by_point, limits, T, size, turns)

    def level(carry: tuple[jax.Array, jax.Array, _Growth]) -> tuple:
        number, _, growth = carry
        bits = hashed(seeds, number)[None]
        node, ends = points.moved(growth, bits)
        pieces = _pieces(largest_of_runs(jnp.max(growth.totals[:, 1])), size)
        drawn, sums = points.drawn(growth, ends, bits, pieces)
        sums = points.summed(node, drawn, sums)
        totals = growth.totals * np.asarray([[1, 0]], np.int32)
        after = growth._replace(node=node, ends=ends, drawn=drawn, sums=sums, totals=totals)
        after = points.split(after, growth.totals[:, 1], bits, pieces)
        return number + 1, largest_of_runs(jnp.any(after.totals > totals)), after

    def more(carry: tuple[jax.Array, jax.Array, _Growth]) -> jax.Array:
        number, some, _ = carry
        return (number < limits[0]) & some

    splits, none = num_points > 1, jnp.zeros((), jnp.int32)
    inside = splits & (np.arange(N, dtype=np.int32) < num_points)
    # all points go to the left, as none is above NaN
    root = jnp.stack([none, none, none, num_points, num_points, ~none])
    trees, (least, most) = np.arange(T, dtype=np.int32), _no_ends(own.dtype)
    node = jnp.where(inside[:, None], trees[None], -1).reshape(-1)
    # -1 is the last place, behind the trees
    of_all = jnp.zeros((T + 1, 1 + K), jnp.int32).at[node].add(points.counted)[:T]
    root = jnp.broadcast_to(root.astype(own.dtype), (T, 6))
    halves = root.at[:, :2].set(trees[:, None].astype(own.dtype))
    nodes = jnp.pad(of_all, ((0, 0), (2, 0))).at[:, 1].set(4 * N * T)
    begun = _Growth(
        node=node,
        halves=jnp.tile(halves, (C, 1)),
        ends=(jnp.full((C * T, D), least, own.dtype), jnp.full((C * T, D), most, own.dtype)),
        drawn=jnp.full((C * T, D), least, own.dtype),
        sums=jnp.zeros((C * T, 1 + K, D), jnp.int32),
        nodes=jnp.tile(nodes, (C, 1)),
        splits=jnp.full(4 * N * T, -1, own.dtype),
        totals=jnp.tile(jnp.stack([none, splits.astype(jnp.int32)])[None], (T, 1)),
    )
    _, _, after = jax.lax.while_loop(more, level, (none, largest_of_runs(splits), begun))
    return after.splits.reshape(T, 4 * N)[:, : 4 * room]


def _before(found: jax.Array) -> jax.Array:
    """How many are found before each of n rows, and in all (n + 1, m), of 0, 1 or 2 (n, m)."""
    n = len(found)
    if n > _PIECE:
        return jnp.pad(jnp.cumsum(found, axis=0), ((1, 0), (0, 0)))
    # a triangle of ones, whose last row counts all
    ones = np.tril(np.ones((n + 1, n), np.float32), -1)
    return jnp.dot(ones, found.astype(jnp.float32), precision=_HIGHEST).astype(jnp.int32)


def _bits_of(dtype: jax.typing.DTypeLike) -> str:
    """The name of the integers as long as numbers of a dtype."""
    return f"int{8 * jnp.dtype(dtype).itemsize}"


def _number(bits: jax.Array) -> jax.Array:
    """The numbers of these bits."""
    return jax.lax.bitcast_convert_type(bits, f"float{8 * bits.dtype.itemsize}")


def _ordered(x: jax.Array) -> jax.Array:
    """Integers in the order of numbers: their maximum is found in half of the time."""
    bits = jax.lax.bitcast_convert_type(x, _bits_of(x.dtype))
    return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)


def _as_float(ordered: jax.Array) -> jax.Array:
    """The numbers that were ordered; NaN for the least integer."""
    return _number(jnp.where(ordered < 0, ordered ^ jnp.iinfo(ordered.dtype).max, ordered))


def _no_ends(dtype: Any) -> tuple[int, int]:
    """The least and the largest of no numbers, as integers; as numbers they are NaN."""
    return jnp.iinfo(dtype).max, jnp.iinfo(dtype).min


def _pieces(number: jax.Array, size: int) -> jax.Array:
    """Pieces that so many points or nodes fill."""
    return jax.lax.div(number + (size - 1), jnp.asarray(size, number.dtype))


def _low(num_inputs: int) -> tuple[int, int]:
    """Bits of an integer that say which input, and bits behind the digits of a reduction."""
    bits = (num_inputs - 1).bit_length()
    return bits, max(23 - DIGITS, bits + 4)


def _gains(sums: jax.Array, of_all: jax.Array, limits: jax.Array, dtype: Any) -> jax.Array:
    """Gains (n, D) of nodes by their inputs, in proportion; -1 if too few points are left out.

    With n and m the points of the halves and s, a and b their sums over these, and S both sums,

        n m (a - b)² - S² s / (n + m - s)

    is n + m times the gain of :func:`grown`, and without s nothing cancels.
    """
    on_left, on_right = sums[:, 0], of_all[:, :1] - sums[:, 0]
    parts = (on_left >= limits[1]) & (on_right >= limits[1])
    shrinkage = limits[2].astype(dtype) / 2
    n, m = (jnp.where(parts, many, 1).astype(dtype) + shrinkage for many in (on_left, on_right))
    gain = jnp.zeros((), dtype)
    for k in range(1, sums.shape[1]):
        left, total = sums[:, k], of_all[:, k : k + 1]
        one, other = left.astype(dtype) / n, (total - left).astype(dtype) / m
        # where all labels are the same rounding must not part them
        same = jnp.abs(one - other) <= 4 * jnp.finfo(dtype).eps * jnp.abs(one)
        gain += jnp.where(same, 0.0, n * m * (one - other) ** 2)
        gain -= jnp.square(total.astype(dtype)) * (shrinkage / (n + m - shrinkage))
    return jnp.where(parts, jnp.maximum(gain, 0.0), -1.0)


def _keys(gains: jax.Array, draws: jax.Array) -> jax.Array:
    """Integers (n, D) of which the largest is of the best input; -1 if no point is left out.

    They have the digits of the gain, then random bits, and then the input.
    """
    D = draws.shape[1]
    bits, low = _low(D)
    digits = jax.lax.bitcast_convert_type(gains.astype(jnp.float32), jnp.int32) >> low << low
    ranks = (draws & np.uint32((1 << low) - 1)).astype(jnp.int32) >> bits << bits
    inputs = np.arange(D, dtype=np.int32)[None]
    return jnp.where(gains < 0, -1, digits | ranks | inputs)


def leaves(trees: Tree, roots: np.ndarray, X: jax.Array) -> jax.Array:
    """The places (B, T), roots and leaves, where rows of X (B, D) come to in each of T trees.

    The arrays of the trees have one axis, in which each tree has its room from its root (T,) on.
    """
    B, rows = len(X), np.arange(len(X), dtype=np.int32)[:, None]
    base, flat = jnp.asarray(roots, jnp.int32)[None], X.T.reshape(-1)

    def down(split: jax.Array) -> jax.Array:
        at = 4 * (base + jnp.maximum(split, 0))
        input = trees.splits[at + 2].astype(jnp.int32)
        right = flat[rows + B * input] > _number(trees.splits[at + 3])
        after = trees.splits[at + right.astype(jnp.int32)].astype(jnp.int32)
        return jnp.where(split < 0, split, after)

    def inside(split: jax.Array) -> jax.Array:
        return largest_of_runs(jnp.any(split >= 0))

    start = jnp.zeros((B, len(roots)), jnp.int32)
    return base + ~jax.lax.while_loop(inside, down, start)
