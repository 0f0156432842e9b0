"""Forests, and a boosted model beside them, grown stage by stage by one body of a loop.

Every tree has room for its splits and leaves in arrays that all trees share, so that one walk
finds the leaves of all. Trees grow G at a time. The turns of the loop grow the forest on the
labels themselves, and then the stages of the boosted model, each on what those before it leave.

    value of a leaf   u = S / (H + κ),   S = Σ r,  H = Σ h   over its points
    forest            r = y,             h = 1,             κ = 0
    numbers           r = y - F,         h = 1,             κ = .5
    classes           r = t - σ(F),      h = σ(F) σ(-F),    κ = 1,    t = (y + 1) / 2

F is the sum over the stages before. A value for classes counts as one in [-4, 4].
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import DTypeLike

from jaxmkl._blocks import largest_of_runs, moments_of, wanted_of_runs
from jaxmkl._hash import hashed
from jaxmkl.models.growing_trees import Tree, grown, leaves, whole_numbers

TREES = 4  # of a stage
RATE = 0.5  # ν: a stage moves F by so much of the mean of its trees
_DEPTH = 10  # of trees of stages, at most
_LEAST = 2  # points in a leaf of theirs
_POINTS = 64  # as many times this, so many stages
_ROWS = 256  # of points that go down trees together
_BOUND = 4.0  # of values of leaves for classes


@dataclasses.dataclass(frozen=True)
class Plan:
    """How trees of a forest, and of a boosted model beside it, lie in arrays and grow."""

    num_trees: int
    """Trees of the forest."""
    groups: int
    stages: int
    """M; 0 for the forest alone."""
    sample: int
    """Points N on which trees grow."""
    depth: int
    max_inputs: int
    logistic: bool
    """True if the stages are for classes."""

    @property
    def together(self) -> int:
        """Trees G that grow together: those of a stage."""
        return TREES if self.stages else self.num_trees

    @property
    def total(self) -> int:
        """Trees T in all."""
        return self.num_trees + self.stages * TREES

    @property
    def room(self) -> int:
        """Leaves of a tree of a stage, at most: it grows on half of the points."""
        return max(min(2**_DEPTH, -(-self.sample // 2) // _LEAST), 1)

    @property
    def boosts(self) -> np.ndarray:
        """A mask of the trees that belong to stages (T, 1)."""
        return np.arange(self.total)[:, None] >= self.num_trees

    @functools.cached_property
    def roots(self) -> np.ndarray:
        """The place where the room of each tree begins (T,), int32."""
        rooms = np.where(self.boosts[:, 0], self.room, self.sample)
        return np.concatenate([[0], np.cumsum(rooms)[:-1]]).astype(np.int32)

    @property
    def size(self) -> int:
        """Room of all trees, and behind it as much as makes that of the last stage a forest's."""
        return int(self.roots[-self.together]) + self.together * self.sample

    @property
    def model(self) -> np.ndarray:
        """The model of each tree (T,)."""
        of_forest = np.arange(self.num_trees) // (self.num_trees // self.groups)
        return np.concatenate([of_forest, np.full(self.stages * TREES, self.groups)])

    @property
    def num_models(self) -> int:
        """E: a model of each group, and the boosted one."""
        return self.groups + (self.stages > 0)

    @property
    def begins(self) -> np.ndarray:
        """A mask of the rows (E + T, 1) of ``sums`` that have a start besides."""
        is_boosted = np.arange(self.num_models)[:, None] >= self.groups
        return np.concatenate([is_boosted, self.boosts])

    @functools.cached_property
    def sums(self) -> np.ndarray:
        """The matrix (E + T, T) from values of leaves to those of models, and to F of each tree.

        The rows of the boosted model lack their start.
        """
        each = np.where(self.boosts, RATE / TREES, self.groups / self.num_trees)[:, 0]
        of_models = (np.arange(self.num_models)[:, None] == self.model[None]) * each
        stage = np.arange(self.total) // TREES
        before = (stage[:, None] > stage[None]) & self.boosts & self.boosts.T
        return np.concatenate([of_models, before * each])

    def added(self, boosts: Any) -> Any:
        """κ of trees of stages, 0 of those of the forest."""
        return jnp.where(boosts, 1.0 if self.logistic else 0.5, 0.0)

    def bounded(self, values: jax.Array, boosts: Any) -> jax.Array:
        """Values of leaves as they count in F."""
        if not self.logistic:
            return values
        return jnp.where(boosts, jnp.clip(values, -_BOUND, _BOUND), values)

    def begins_at(self, mean: jax.Array, number: jax.Array) -> jax.Array:
        """The start of F, if so many labels have this mean (K,)."""
        if not self.logistic:
            return mean
        n = number.astype(mean.dtype)
        share = ((mean + 1) / 2 * n + 0.5) / (n + 1)
        return jnp.log(share) - jnp.log1p(-share)

    def steps(self, F: jax.Array, y: jax.Array, boosts: Any) -> tuple[jax.Array, jax.Array]:
        """r and h at F, which is 0 for a forest; h of numbers has one column, for all outputs."""
        if not self.logistic:
            return y - F, jnp.ones_like(F[..., :1])
        p = jax.nn.sigmoid(F)
        of_classes = (y + 1) / 2 - p, p * (1 - p)
        return jnp.where(boosts, of_classes[0], y), jnp.where(boosts, of_classes[1], 1.0)

    def begun(self, num_outputs: int, dtype: DTypeLike) -> tuple[Tree, jax.Array, jax.Array]:
        """Trees of one leaf; the values (K) and H of leaves, and the start of F (K,)."""
        trees, K = Tree.of_one_leaf(self.size, dtype), num_outputs
        of_leaves = jnp.zeros((self.size, 2 * K if self.logistic else K + 1), dtype)
        return trees, of_leaves, jnp.zeros(K, dtype)

    def grown(
        self,
        seed: jax.Array,
        X: jax.Array,
        y: jax.Array,
        number: jax.Array,
        before: tuple[Tree, jax.Array, jax.Array],
        anew: jax.Array,
    ) -> tuple[Tree, jax.Array, jax.Array]:
        """Trees on the first so many points of X (N, D), with labels y (N, K), as in ``begun``.

        The boosted model is grown ``anew``, or stays as it was ``before``.
        """
        (N, K), G, dtype = y.shape, self.together, y.dtype
        of_forest, size, bits = self.num_trees // G, G * N, (N - 1).bit_length()
        points, of_stage = np.arange(N, dtype=np.int32), np.arange(G, dtype=np.int32)
        ahead = jax.lax.div(of_stage * number, np.int32(G))[:, None]
        # few points make few stages
        stages = jnp.minimum(self.stages, jax.lax.div(number, np.int32(_POINTS)))
        turns = of_forest + jnp.where(anew, stages, 0)
        limits = np.asarray([[self.depth, 1, 0], [min(self.depth, _DEPTH), _LEAST, 1]], np.int32)

        def stage(s: jax.Array, carry: tuple) -> tuple:
            F, trees, of_leaves, start = carry
            boosts = s >= of_forest
            # of runs side by side, those that have had their stages grow trees of one leaf
            wanted = wanted_of_runs(s < turns)
            n = jnp.where(wanted, number, 0)
            present = points < n
            r, h = self.steps(jnp.where(boosts, F, 0), y, boosts)
            # each tree of the boosted model has half of the points, in an order of the stage
            draws = hashed(seed, ~s, points) >> np.uint32(bits + 1) << np.uint32(bits)
            draws = jnp.where(present, draws, np.uint32(2**31)) | points.astype(np.uint32)
            order = jax.lax.sort(draws, is_stable=False) & np.uint32(2**bits - 1)
            place = ahead + points[None]
            place = jnp.clip(jnp.where(place < n, place, place - n), 0, N - 1)
            tree = grown(
                hashed(seed, s * G + of_stage),
                X,
                whole_numbers(r, n),
                jnp.where(boosts, order[place].astype(np.int32), points[None]),
                jnp.where(boosts, (n + 1) >> 1, n),
                jnp.where(boosts, limits[1], limits[0]),
                self.max_inputs,
            )
            tree = jax.tree.map(lambda array: array.reshape(-1), tree)
            at = jax.lax.platform_dependent(
                tree,
                X,
                n,
                cpu=functools.partial(walked, roots=of_stage * N),
                default=lambda tree, X, _: leaves(tree, of_stage * N, X),
            )
            at = jnp.where(present[:, None], at, size)
            counted = jnp.where(present[:, None], jnp.concatenate([r, h], axis=1), 0)
            # GPUs add several numbers to one place in any order
            sums = jax.lax.platform_dependent(
                counted,
                at,
                cpu=functools.partial(sums_of_leaves, size=size),
                default=functools.partial(sums_in_any_order, size=size),
            )
            S, H = sums[:, :K], sums[:, K:]
            values = S / jnp.maximum(H + self.added(boosts), jnp.finfo(dtype).tiny)
            found = self.bounded(values, boosts)[jnp.minimum(at, size - 1)]
            # of the forest, r are the labels
            mean = self.begins_at(moments_of(r, n)[0], n)
            F = jnp.where(boosts, F + RATE / TREES * jnp.sum(found, axis=1), mean)
            root = jnp.asarray(self.roots[::G])[s]

            def put(array: jax.Array, part: jax.Array) -> jax.Array:
                """The array with these trees, and empty ones as far as a forest's would reach."""
                per = len(part) // size
                short = part.reshape(G, -1, *part.shape[1:])[:, : per * self.room]
                short = short.reshape(-1, *part.shape[1:])
                widths = ((0, len(part) - len(short)), *((0, 0),) * (part.ndim - 1))
                # so that trees that never grow are one leaf
                none = -1 if jnp.issubdtype(part.dtype, jnp.integer) else 0
                part = jnp.where(boosts, jnp.pad(short, widths, constant_values=none), part)
                own = jax.lax.dynamic_slice_in_dim(array, per * root, len(part))
                part = jnp.where(wanted, part, own)
                return jax.lax.dynamic_update_slice_in_dim(array, part, per * root, 0)

            made = tree, jnp.concatenate([values, H], axis=1)
            trees, of_leaves = jax.tree.map(put, (trees, of_leaves), made)
            return F, trees, of_leaves, jnp.where(boosts | ~anew, start, mean)

        first = jnp.zeros_like(y), *optax.tree.where(anew, self.begun(K, dtype), before)
        return jax.lax.fori_loop(0, largest_of_runs(turns), stage, first)[1:]


def walked(trees: Tree, X: jax.Array, number: jax.Array, *, roots: np.ndarray) -> jax.Array:
    """:func:`leaves` of the first so many rows of X, in pieces of them."""
    size = min(_ROWS, len(X))

    def walk(piece: jax.Array, at: jax.Array) -> jax.Array:
        found = leaves(trees, roots, jax.lax.dynamic_slice_in_dim(X, piece * size, size))
        return jax.lax.dynamic_update_slice_in_dim(at, found, piece * size, 0)

    at = jnp.zeros((len(X), len(roots)), jnp.int32)
    turns = jax.lax.div(largest_of_runs(number) + (size - 1), np.int32(size))
    return jax.lax.fori_loop(0, turns, walk, at)


def sums_of_leaves(counted: jax.Array, at: jax.Array, *, size: int) -> jax.Array:
    """The sums (size, W) at the places (N, G) of points of what these are (N, W)."""
    zeros = jnp.zeros((size, counted.shape[1]), counted.dtype)
    return zeros.at[at].add(counted[:, None], mode="drop")


def sums_in_any_order(counted: jax.Array, at: jax.Array, *, size: int) -> jax.Array:
    """The same to rounding, where the order in which numbers are added to one place is chance.

    They are sums of integers of few binary digits each, which are exact.
    """
    digits = 30 - (len(counted) - 1).bit_length()
    words = -(-(jnp.finfo(counted.dtype).nmant + 1) // digits)
    exponent = jnp.frexp(jnp.max(jnp.abs(counted), axis=0))[1]
    rest, parts = jnp.ldexp(counted, -exponent[None]), []
    for _ in range(words):
        rest = rest * 2.0**digits
        parts.append(jnp.round(rest))
        rest -= parts[-1]
    terms = jnp.stack(parts, axis=1).astype(jnp.int32)
    zeros = jnp.zeros((size, *terms.shape[1:]), jnp.int32)
    totals = zeros.at[at].add(terms[:, None], mode="drop").astype(counted.dtype)
    weights = 2.0 ** (-digits * np.arange(1, words + 1))
    sums = jnp.sum(totals * weights.astype(counted.dtype)[None, :, None], axis=1)
    return jnp.ldexp(sums, exponent[None])
