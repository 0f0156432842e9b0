"""Generated streams: example t is a pure function of (key, t), so any chunk can be made by itself.

In the drifting stream inputs are standard normal. The target is a sum of J sines,

    y_t = sum_j sqrt(4/J) cos(phase_j + 2 pi t / turn) sin(w_j' x_t + b_j) + noise,

of variance near 1. The slow turn of the amplitudes is the gradual drift; every ``period`` examples
all directions w_j, offsets and phases are replaced at once, which is the abrupt drift. The
stationary stream keeps the first ones and does not turn.

In the stream of abrupt changes two functions of five standard normal inputs alternate. They are
random Fourier series, nearly Gaussian processes whose kernel is a Gaussian of bandwidth 1 (the
rough one) and 4 (the smooth one):

    y_t = sum_j sqrt(2/J) cos(w_j' x_t / bandwidth + b_j) + noise,      w_j standard normal.

Another stream has two classes and ten inputs, uniform on [-1, 1], of which the first two matter:

    y_t = sign(sin(4 x_t1) x_t2)

Two more have 32 standard normal inputs, of which few matter: four of them, or two orthogonal
directions u, v that are drawn once:

    y_t = sin(2 x_t1) + x_t2 x_t3 + x_t4 / 2 + noise
    y_t = sin(2 u'x_t) + ((v'x_t)^2 - 1) / 2 + noise
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

DIMENSIONS = 10
NOISE = 0.1
CONCEPTS = 8  # they recur after so many changes
WAVES = 6
PERIOD = 5_000
TURN = 20_000
BANDWIDTHS = (1.0, 4.0)  # of the functions that alternate
ABRUPT_DIMENSIONS = 5
ABRUPT_WAVES = 100
MANY = 32  # inputs of which few matter
PADDING = 4096  # lengths are rounded up to a multiple, so that few programs are compiled


@partial(jax.jit, static_argnames="drift")
def _examples(key: jax.Array, index: jax.Array, drift: bool) -> tuple:
    dtype = jnp.float32
    # flat draws, as those of several axes take seconds to compile
    keys = jax.random.split(key, 4)
    shape = (CONCEPTS, WAVES, DIMENSIONS)
    directions = jax.random.normal(keys[0], (math.prod(shape),), dtype).reshape(shape)
    directions = directions / np.float32(np.sqrt(3 * DIMENSIONS))
    offsets, phases = (
        jax.random.uniform(k, (CONCEPTS * WAVES,), dtype, maxval=2 * np.pi).reshape(shape[:2])
        for k in keys[1:3]
    )

    def example(t: jax.Array) -> tuple:
        draws = jax.random.normal(jax.random.fold_in(keys[3], t), (DIMENSIONS + 1,), dtype)
        x = draws[:DIMENSIONS]
        concept = (t // PERIOD) % CONCEPTS if drift else jnp.zeros_like(t)
        angle = (t % TURN).astype(dtype) * (2 * np.pi / TURN) if drift else jnp.zeros((), dtype)
        amplitudes = np.float32(np.sqrt(4 / WAVES)) * jnp.cos(phases[concept] + angle)
        waves = jnp.sin(directions[concept] @ x + offsets[concept])
        return x, amplitudes @ waves + NOISE * draws[DIMENSIONS]

    return jax.vmap(example)(index)


def examples(
    key: jax.Array | int, start: int, stop: int, *, drift: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return examples ``start`` to ``stop - 1`` of the stream that a key, or a seed, names.

    Without ``drift`` it is stationary. X (stop - start, 10) and y (stop - start,) are float32.

    >>> X, y = examples(0, 0, 100)
    >>> bool((examples(0, 40, 60)[1] == y[40:60]).all())
    True
    """
    return _made(_examples, key, start, stop, drift)


def _made(make: Callable, key: jax.Array | int, start: int, stop: int, *others: Any) -> Any:
    """Return the examples that a function makes of a typed key and of padded indices."""
    padded = -(-(stop - start) // PADDING) * PADDING
    key = jax.random.key(key) if isinstance(key, int) else key
    made = make(key, start + np.arange(padded, dtype=np.int32), *others)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[: stop - start], made)


def chunks(key: int, total: int, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the drifting stream's first ``total`` examples in chunks, generated on demand."""
    for start in range(0, total, size):
        yield examples(key, start, min(start + size, total))


def two_that_matter(key: jax.Array | int, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """Return examples ``start`` to ``stop - 1`` of two classes; two of the ten inputs matter.

    The arguments are those of :func:`examples`. X (stop - start, 10) is uniform on [-1, 1], y
    (stop - start,) is -1 and +1.

    >>> X, y = two_that_matter(0, 0, 100)
    >>> bool((y == np.where(np.sin(4 * X[:, 0]) * X[:, 1] > 0, 1, -1)).all())
    True
    """
    X = _made(_uniform, key, start, stop)
    score = np.sin(4 * X[:, 0]) * X[:, 1]
    return X, np.where(score > 0, 1, -1).astype(X.dtype)


@jax.jit
def _uniform(key: jax.Array, index: jax.Array) -> jax.Array:
    def example(t: jax.Array) -> jax.Array:
        return jax.random.uniform(jax.random.fold_in(key, t), (DIMENSIONS,), minval=-1.0)

    return jax.vmap(example)(index)


@jax.jit
def _abrupt(key: jax.Array, index: jax.Array, period: jax.Array) -> tuple:
    dtype, D, keys = jnp.float32, ABRUPT_DIMENSIONS, jax.random.split(key, 3)
    shape = (len(BANDWIDTHS), ABRUPT_WAVES, D)
    directions = jax.random.normal(keys[0], (math.prod(shape),), dtype).reshape(shape)
    directions = directions / np.array(BANDWIDTHS, np.float32)[:, None, None]
    offsets = jax.random.uniform(keys[1], (math.prod(shape[:2]),), dtype, maxval=2 * np.pi)

    def example(t: jax.Array) -> tuple:
        draws = jax.random.normal(jax.random.fold_in(keys[2], t), (D + 1,), dtype)
        which = (t // period) % len(BANDWIDTHS)
        waves = jnp.cos(directions[which] @ draws[:D] + offsets.reshape(shape[:2])[which])
        y = np.float32(math.sqrt(2 / ABRUPT_WAVES)) * jnp.sum(waves) + NOISE * draws[D]
        return draws[:D], y

    return jax.vmap(example)(index)


def abrupt(
    key: jax.Array | int, start: int, stop: int, *, period: int = PERIOD
) -> tuple[np.ndarray, np.ndarray]:
    """Return examples ``start`` to ``stop - 1`` of two functions, a rough and a smooth one.

    They alternate every ``period`` examples, the rough one first. The other arguments are those of
    :func:`examples`. X (stop - start, 5) and y (stop - start,) are float32.

    >>> X, y = abrupt(0, 0, 100, period=50)
    >>> X.shape, y.shape
    ((100, 5), (100,))
    """
    return _made(_abrupt, key, start, stop, np.int32(period))


def few_of_many(seed: int, total: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first ``total`` examples with 32 inputs, of which the first four matter.

    >>> X, y = few_of_many(0, 100)
    >>> X.shape, y.shape
    ((100, 32), (100,))
    """
    draws = np.random.default_rng(seed).normal(size=(total, MANY + 1))
    a, b, c, d = draws[:, :4].T
    return draws[:, :MANY], np.sin(2 * a) + b * c + d / 2 + NOISE * draws[:, MANY]


def ridges(seed: int, total: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first ``total`` examples with 32 inputs, of which two directions matter.

    >>> X, y = ridges(0, 100)
    >>> X.shape, y.shape
    ((100, 32), (100,))
    """
    draws = np.random.default_rng(seed)
    directions, _ = np.linalg.qr(draws.normal(size=(MANY, 2)))
    X, noise = draws.normal(size=(total, MANY)), draws.normal(size=total)
    u, v = (X @ directions).T
    return X, np.sin(2 * u) + (v**2 - 1) / 2 + NOISE * noise
