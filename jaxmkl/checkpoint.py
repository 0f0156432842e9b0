"""Save a learner with its state, and go on from there bit for bit.

A checkpoint is one npz file: the arrays of learner and state, and a header in JSON that describes
the learner in full (classes, static fields, numbers). It holds no code and no pickles.
"""

import contextlib
import dataclasses
import json
import os
import tempfile
import zipfile
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import pytree
from jaxmkl.learner import Learner

__all__ = ["load", "save"]

_FORMAT = "jaxmkl checkpoint"
_VERSION = 1
_HEADER = "header"


def _describe(value: Any, arrays: dict[str, np.ndarray], name: str) -> Any:
    """A JSON value for part of a learner; arrays go into ``arrays`` under ``name``."""
    cls = type(value)
    if pytree.REGISTERED.get(pytree.qualified_name(cls)) is cls:
        fields = {
            f.name: _describe(getattr(value, f.name), arrays, f"{name}.{f.name}")
            for f in dataclasses.fields(value)
        }
        return {"class": pytree.qualified_name(cls), "fields": fields}
    if isinstance(value, tuple | list):
        items = [_describe(item, arrays, f"{name}[{i}]") for i, item in enumerate(value)]
        return {"items": items}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, jax.core.Tracer):
        raise ValueError(f"save: {name} must be a number or an array; got the tracer {value}")
    if isinstance(value, np.ndarray | jax.Array):
        arrays[name] = np.asarray(value)
        return {"array": name, "jax": isinstance(value, jax.Array)}
    raise ValueError(
        f"save: {name} must be a number, a string, an array, a tuple of these or a class made "
        f"with jaxmkl.pytree.dataclass; got {value!r}"
    )


def _rebuild(description: Any, arrays: Any) -> Any:
    if not isinstance(description, dict):
        return description
    if "array" in description:
        array = arrays[description["array"]]
        return jnp.asarray(array) if description["jax"] else array
    if "items" in description:
        return tuple(_rebuild(item, arrays) for item in description["items"])
    name = description["class"]
    if name not in pytree.REGISTERED:
        raise ValueError(f"load: the checkpoint holds a {name}, which is not defined; import it")
    fields = {key: _rebuild(item, arrays) for key, item in description["fields"].items()}
    cls = pytree.REGISTERED[name]
    known = {f.name for f in dataclasses.fields(cls)}
    if known != set(fields):
        raise ValueError(
            f"load: {name} has the fields {sorted(known)} here and {sorted(fields)} in the "
            "checkpoint: it was saved by another version"
        )
    return cls(**fields)


def _leaves(state: Any) -> tuple[dict[str, jax.Array], Any]:
    """Leaves of a state by their path, and the tree."""
    paths, tree = jax.tree_util.tree_flatten_with_path(state)
    return {"state" + jax.tree_util.keystr(path): leaf for path, leaf in paths}, tree


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def save(path: str | os.PathLike[str], learner: Learner, state: Any) -> None:
    """Write a learner and its state to one file.

    The file appears at ``path`` whole or not at all: an interrupted save leaves what was there.

    Args:
      path: the file to write, by custom ending in ``.npz``.
      learner: any learner made of classes that :func:`jaxmkl.pytree.dataclass` registered.
      state: its state after any number of rounds.

    Raises:
      ValueError: for a learner that holds something else than numbers, strings, arrays, tuples
        and registered classes.

    >>> import jax, jaxmkl, pathlib, tempfile
    >>> learner = jaxmkl.raker(step_size=0.01)
    >>> state = learner.init(jax.random.key(0), num_inputs=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(pathlib.Path(folder, "raker.npz"), learner, state)
    ...     learner, state = load(pathlib.Path(folder, "raker.npz"))
    >>> learner.rules
    (OGD(step_sizes=0.01, regularization=0.01),)
    """
    arrays: dict[str, np.ndarray] = {}
    description = _describe(learner, arrays, "learner")
    leaves, _ = _leaves(state)
    keys = {}
    for name, leaf in leaves.items():
        if _is_key(leaf):
            keys[name] = str(jax.random.key_impl(leaf))
            leaf = jax.random.key_data(leaf)
        arrays[name] = np.asarray(leaf)
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "learner": description,
        "num_inputs": learner.num_inputs(state),
        "dtype": str(learner.dtype(state)),
        "keys": keys,
    }
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    path = os.fspath(path)
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(path) or ".", suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **{_HEADER: text}, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
        raise


def load(path: str | os.PathLike[str], *, like: Learner | None = None) -> tuple[Learner, Any]:
    """Read what :func:`save` wrote.

    Args:
      path: the file.
      like: refuse a checkpoint whose learner differs from this one in anything but the values of
        its numbers: other classes, other static fields, other shapes.

    Returns:
      The learner and its state, bit for bit as they were saved.

    Raises:
      FileNotFoundError: when there is no such file.
      ValueError: for a file that is no checkpoint, one damaged or of a newer version, a learner
        that is not like ``like``, or a double-precision state where JAX has x64 switched off. The
        message says what differs.
    """
    with open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
        except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            name = os.fspath(path)
            raise ValueError(f"load: {name} is no readable checkpoint: {error}") from None
    if _HEADER not in arrays:
        raise ValueError(f"load: {os.fspath(path)} is no checkpoint: it has no header")
    header = json.loads(bytes(arrays[_HEADER]).decode())
    if header.get("format") != _FORMAT or header.get("version", 0) > _VERSION:
        raise ValueError(
            f"load: {os.fspath(path)} must be a {_FORMAT} of version up to {_VERSION}; got "
            f"{header.get('format')!r} of version {header.get('version')!r}"
        )
    dtype = header["dtype"]
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ValueError(
            "load: the checkpoint is in float64; switch double precision on first "
            "(jax.config.update('jax_enable_x64', True))"
        )
    learner = _rebuild(header["learner"], arrays)
    if like is not None:
        _require_alike(learner, like)
    template = jax.eval_shape(lambda key: learner.init(key, header["num_inputs"], dtype), _any_key)
    expected, tree = _leaves(template)
    found = [name for name in arrays if name.startswith("state")]
    if set(found) != set(expected):
        missing, extra = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
        raise ValueError(f"load: the state lacks {missing} and has {extra} besides")
    leaves = []
    for name, leaf in expected.items():
        if name in header["keys"]:
            value = jax.random.wrap_key_data(jnp.asarray(arrays[name]), impl=header["keys"][name])
        else:
            value = jnp.asarray(arrays[name])
            if value.dtype != leaf.dtype:
                raise ValueError(f"load: {name} must be {leaf.dtype}; got {value.dtype}")
        if value.shape != leaf.shape:
            raise ValueError(f"load: {name} must have shape {leaf.shape}; got {value.shape}")
        leaves.append(value)
    return learner, jax.tree.unflatten(tree, leaves)


_any_key = jax.eval_shape(lambda: jax.random.key(0))


def _require_alike(learner: Learner, like: Learner) -> None:
    """Raise with every place where two learners differ in structure."""
    differences: list[str] = []

    def compare(here: Any, there: Any, name: str) -> None:
        if type(here) is not type(there) and not (_numeric(here) and _numeric(there)):
            differences.append(f"{name} is {here!r} in the checkpoint and {there!r} in like")
        elif dataclasses.is_dataclass(here):
            for field in dataclasses.fields(here):
                mine, other = getattr(here, field.name), getattr(there, field.name)
                if field.metadata.get("static") and mine != other:
                    text = (
                        f"{name}.{field.name} is {mine!r} in the checkpoint and {other!r} in like"
                    )
                    differences.append(text)
                elif not field.metadata.get("static"):
                    compare(mine, other, f"{name}.{field.name}")
        elif isinstance(here, tuple):
            if len(here) != len(there):
                text = f"{name} has {len(here)} parts in the checkpoint and {len(there)} in like"
                differences.append(text)
            else:
                for i, (mine, other) in enumerate(zip(here, there, strict=True)):
                    compare(mine, other, f"{name}[{i}]")
        elif _numeric(here) and jnp.shape(here) != jnp.shape(there):
            text = f"{jnp.shape(here)} in the checkpoint and {jnp.shape(there)} in like"
            differences.append(f"{name} has shape {text}")

    compare(learner, like, "learner")
    if differences:
        text = "; ".join(differences)
        raise ValueError(f"load: the checkpoint is not like the learner given: {text}")


def _numeric(value: Any) -> bool:
    return isinstance(value, float | int | np.ndarray | np.generic | jax.Array)
