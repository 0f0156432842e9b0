"""Checkpoints of a learner and its state, from which runs continue bit for bit.

A checkpoint is one npz file: the arrays of the learner and its state, and a header in JSON that
describes the learner in full (classes, static fields, numbers). It holds no code and no pickles.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any, BinaryIO

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl._archive import Archive
from jaxmkl._checks import abstract_state, kind_of, leaves_by_name, refuse_unless
from jaxmkl._devices import by_one_process, failure, is_shared, whole
from jaxmkl._files import written_whole
from jaxmkl._learner import Learner, require_learner
from jaxmkl._types import PyTree

_FORMAT, _VERSION, _HEADER = "jaxmkl checkpoint", 5, "header"
_KIND = "num_inputs", "dtype", "capacity"  # in the order of ``kind_of``


def _describe(value: Any, arrays: dict[str, np.ndarray], name: str) -> Any:
    """A JSON value for part of a learner; its arrays are added to ``arrays`` under ``name``."""
    cls = pytree.qualified_name(type(value))
    if pytree.registered(cls) is not None:  # or an older class of this name, as in a notebook
        of = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        fields = {key: _describe(item, arrays, f"{name}.{key}") for key, item in of.items()}
        return {"class": cls, "fields": fields}
    if isinstance(value, tuple | list):
        return {"items": [_describe(v, arrays, f"{name}[{i}]") for i, v in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, jax.core.Tracer):
        raise ValueError(f"save: {name} must be a number or an array; got the tracer {value}")
    if isinstance(value, np.ndarray | jax.Array):
        arrays[name] = whole(value)
        return {"array": name, "jax": isinstance(value, jax.Array)}
    text = "a number, a string, an array, a tuple of these or a class made with "
    raise ValueError(f"save: {name} must be {text}jaxmkl.pytree.dataclass; got {value!r}")


def _rebuild(description: Any, arrays: dict[str, np.ndarray]) -> Any:
    if not isinstance(description, dict):
        return description
    if "array" in description:
        name = description["array"]
        refuse_unless(name in arrays, f"load: the checkpoint lacks the array {name}")
        return _on_device(name, arrays[name]) if description["jax"] else arrays[name]
    if "items" in description:
        return tuple(_rebuild(item, arrays) for item in description["items"])
    name = description["class"]
    cls: Any = pytree.registered(name)
    refuse_unless(cls, f"load: the checkpoint holds a {name}, which is not defined; import it")
    fields = {key: _rebuild(item, arrays) for key, item in description["fields"].items()}
    known = sorted(f.name for f in dataclasses.fields(cls))
    text = f"load: {name} has the fields {known} here and {sorted(fields)} in the checkpoint: it "
    refuse_unless(known == sorted(fields), f"{text}was saved by another version")
    value = pytree.from_fields(cls, fields)
    pytree.check_fields(value)
    return value


def _nonfinite(array: np.ndarray) -> bool:
    """Tell if any number of the array is infinite or NaN."""
    return array.dtype.kind == "f" and not np.isfinite(array).all()


def _on_device(name: str, array: np.ndarray) -> jax.Array:
    """The array in JAX; raise an error if its dtype would have to change."""
    text = "switch double precision on first (jax.config.update('jax_enable_x64', True))"
    good = jax.dtypes.canonicalize_dtype(array.dtype) == array.dtype
    refuse_unless(good, f"load: {name} is in {array.dtype}; {text}")
    return jax.device_put(array)


def save(
    path: str | os.PathLike[str], learner: Learner, state: PyTree, *, extra: PyTree = None
) -> None:
    """Write a learner and its state, after any number of rounds, to one file.

    The file appears at ``path`` complete or not at all: after an error the old file is unchanged,
    and an interrupt waits until the new file is complete.

    If the learner or its state lie on devices of several processes (``jax.distributed``), all of
    these must call this function: the arrays are gathered, the first process writes the file, and
    all continue once it is complete. :func:`load` returns the whole state to each process that can
    read the file, and the argument ``mesh`` of a driver distributes it again.

    Args:
      path: the file to write, usually named ``*.npz``.
      learner: a learner made of numbers, strings, arrays, tuples and classes registered by
        :func:`jaxmkl.pytree.dataclass`.
      state: a state of the learner, or the stacked states of many runs.
      extra: a JSON value to be kept beside them (see :func:`load_extra`).

    Raises:
      ValueError: if the learner is not of this kind, the state belongs to another learner, or the
        arguments are in another order.
      OSError: if the file cannot be written; with several processes, in each of them.

    >>> import jaxmkl, tempfile
    >>> learner = jaxmkl.raker(step_size=0.01)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/it.npz", learner, learner.init(jax.random.key(0), num_inputs=2))
    ...     load(f"{folder}/it.npz")[0].models[0].rules
    (OGD(step_sizes=0.01, regularization=0.02, loss=Squared()),)
    """
    save_beside(path, learner, state, extra)


def save_beside(
    path: str | os.PathLike[str],
    learner: Learner,
    state: PyTree,
    extra: PyTree,
    keep: bool = False,
    more: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Save as :func:`save` does; with ``keep`` the old file is kept as ``path`` + ``.before``.

    The file has the arrays ``more``, too, by names that do not begin with those of other arrays.
    """
    wanted = "a file's name: the order is save(path, learner, state)"
    pytree.require(isinstance(path, str | os.PathLike), "save", "path", type(path), wanted)
    arrays = arrays_to_save(learner, state, extra) | dict(more or {})

    def write() -> None:
        with written_whole(path, keep) as file:
            np.savez(file, allow_pickle=False, **arrays)

    if is_shared((learner, state)):
        by_one_process("save", write)
    else:
        write()


def arrays_to_save(learner: Learner, state: PyTree, extra: PyTree = None) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint by their names, as :func:`save` writes them."""
    require_learner("save", learner)
    arrays: dict[str, np.ndarray] = {}
    description = _describe(learner, arrays, "learner")
    refusal = "save", "state", type(state), "one of the learner's"
    kind, leaves, keys = kind_of(learner, state, *refusal), leaves_by_name(state), {}
    given: Any = jax.tree.structure(state)
    like = _require_fit("save", learner, kind, leaves)
    pytree.require(given == jax.tree.structure(like), *refusal)
    for name, leaf in leaves.items():
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            keys[name] = str(jax.random.key_impl(leaf))
            leaf = jax.random.key_data(leaf)
        arrays[name] = whole(leaf)
    for name, array in arrays.items():
        text = f"save: {name} must have a dtype of NumPy; got {array.dtype}"
        refuse_unless(array.dtype.kind != "V", text)
    header = {"format": _FORMAT, "version": _VERSION, "learner": description}
    header |= dict(zip(_KIND, kind, strict=True)) | {"keys": keys}
    # arrays that may hold NaN or infinity, such as the range of labels before the first one
    header |= {"extra": extra, "nonfinite": sorted(n for n in leaves if _nonfinite(arrays[n]))}
    return {_HEADER: np.frombuffer(json.dumps(header).encode(), np.uint8)} | arrays


def arrays_of(tree: PyTree) -> dict[str, np.ndarray]:
    """The numbers and NumPy arrays of a tree by their names, for :func:`numpy.savez`.

    >>> arrays_of({"rows": 3, "mean": 0.5})
    {"['mean']": array(0.5), "['rows']": array(3)}
    """
    return {name: np.asarray(leaf) for name, leaf in leaves_by_name(tree, "").items()}


def tree_of(arrays: Mapping[str, np.ndarray], like: PyTree) -> Any:
    """The tree whose arrays :func:`arrays_of` returned.

    Args:
      arrays: the result of that function.
      like: a tree of the same structure and shapes.

    Raises:
      ValueError: the tree was of another structure.

    >>> tree_of(arrays_of({"rows": 3, "mean": 0.5}), like={"rows": 0, "mean": 0.0})
    {'mean': 0.5, 'rows': 3}
    """
    wanted = arrays_of(like)
    kinds, given = ({k: f"{v.dtype} {v.shape}" for k, v in of.items()} for of in (wanted, arrays))
    for name in sorted(kinds.keys() | given.keys()):
        known, found = kinds.get(name, "absent"), given.get(name, "absent")
        refuse_unless(found == known, f"{name} must be {known}; got {found}")
    leaves, structure = jax.tree.flatten(like)
    taken = [arrays[name] if isinstance(leaf, np.ndarray) else arrays[name].item()
             for name, leaf in zip(wanted, leaves, strict=True)]  # fmt: skip
    return jax.tree.unflatten(structure, taken)


def load(path: str | os.PathLike[str], *, like: Learner | None = None) -> tuple[Learner, PyTree]:
    """Read a learner and its state from a file written by :func:`save`.

    Args:
      path: the file.
      like: a learner that the one in the checkpoint must equal in classes, static fields and
        shapes; only the values of numbers may differ.

    Returns:
      The learner and its state, bit for bit as they were saved.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: if the file is not a checkpoint, is damaged or of another version, if the learner
        differs from ``like``, or if the state needs x64, which JAX has not enabled.
      Exception: the error of JAX if it has no device or the device fails, or a ``MemoryError`` if
        memory is too small for the arrays; a note names the file.
    """
    return load_extra(path, like=like)[:2]


def load_extra(
    path: str | os.PathLike[str], *, like: Learner | None = None
) -> tuple[Learner, PyTree, PyTree]:
    """Read as :func:`load` does, and also return the ``extra`` that was saved, or None.

    >>> import jaxmkl, tempfile
    >>> learner = jaxmkl.raker()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     state = learner.init(jax.random.key(0), num_inputs=2)
    ...     save(f"{folder}/it.npz", learner, state, extra={"columns": ["a", "b"]})
    ...     load_extra(f"{folder}/it.npz")[2]
    {'columns': ['a', 'b']}
    """
    name = os.fspath(path)  # refuses the number of an open file
    with open(name, "rb") as file:
        return read_saved(file, name, like)


def read_saved(
    file: BinaryIO, name: str, like: Learner | None = None
) -> tuple[Learner, PyTree, PyTree]:
    """Read an open, seekable file as :func:`load_extra` does."""
    try:
        archive = Archive(file)
        is_of_run = "run.json" in archive.keys
        text = "it is that of a run; name a pipeline, as its --save writes" * is_of_run
        refuse_unless(_HEADER in archive.keys, text or "it has no header")
        arrays = {_HEADER: archive.read(_HEADER)}
        header = json.loads(bytes(arrays[_HEADER]).decode())
        refuse_unless(isinstance(header, dict), "its header is not that of a checkpoint")
        text = "it was written by jaxmkl export; name the pipeline of which it was made"
        refuse_unless("operation" not in header, text)
        arrays |= {key: archive.read(key) for key in archive.keys if key != _HEADER}
    except Exception as error:  # zipfile, zlib and NumPy raise a dozen kinds
        _pass_failures(error, name)
        raise ValueError(f"load: {name} is not a readable checkpoint: {error}") from None
    version = header.get("version")
    text = f"load: {name} must be a {_FORMAT} of version up to {_VERSION}; got "
    text += f"{header.get('format')!r} of version {header.get('version')!r}"
    known = isinstance(version, int) and version <= _VERSION
    refuse_unless(header.get("format") == _FORMAT and known, text)
    text = f"load: {name} was written by an older version of jaxmkl, whose learners had other "
    text += f"parts; make it again (format {version}, read is {_VERSION})"
    refuse_unless(version == _VERSION, text)
    try:
        return *_restored(header, arrays, like), header.get("extra")
    except ValueError as error:
        raise ValueError(f"{error} (in {name})") from None
    except Exception as error:  # damaged contents can raise anything
        _pass_failures(error, name)
        raise ValueError(f"load: {name} is a damaged checkpoint: {error!r}") from error


def _pass_failures(error: Exception, name: str) -> None:
    """Raise an error of the device or of memory again, as the file may be sound."""
    if text := failure(error):
        error.add_note(f"load: {name} may well be whole: {text}")
        raise error


def _restored(
    header: dict, arrays: dict[str, np.ndarray], like: Learner | None
) -> tuple[Learner, PyTree]:
    """The learner and the state in a checkpoint."""
    _on_device("the checkpoint", np.zeros((), header["dtype"]))
    learner = _rebuild(header["learner"], arrays)
    require_learner("load", learner)
    unlike = "; ".join([] if like is None else _differences(learner, like, "learner"))
    refuse_unless(not unlike, f"load: the checkpoint is not like the learner given: {unlike}")
    found = {}
    for key, array in arrays.items():
        if key in header["keys"]:
            found[key] = jax.random.wrap_key_data(jax.device_put(array), impl=header["keys"][key])
        elif key.startswith("state"):
            text = f"load: {key} must be finite, as it was saved; got infinite numbers or NaN"
            refuse_unless(not _nonfinite(array) or key in header["nonfinite"], text)
            found[key] = _on_device(key, array)
    fitting = _require_fit("load", learner, tuple(header[item] for item in _KIND), found)
    leaves = [found[key] for key in leaves_by_name(fitting)]
    return learner, jax.tree.unflatten(jax.tree.structure(fitting), leaves)


def _require_fit(
    action: str, learner: Learner, kind: tuple, leaves: dict[str, jax.Array]
) -> PyTree:
    """Raise unless these are the leaves of a state of this learner; return a tree like it.

    Stacked states of many runs, with one or several leading axes in common, are allowed.
    """
    try:
        like = abstract_state(learner, *kind)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{action}: the learner must be one that can start: {error}") from None
    expected, leading = leaves_by_name(like), set()
    missing, extra = (sorted(a.keys() - b) for a, b in ((expected, leaves), (leaves, expected)))
    text = f"{action}: the state must be one of the learner's; it lacks {missing} and has {extra}"
    refuse_unless(not missing and not extra, f"{text} besides")
    for name, leaf in leaves.items():
        wanted = expected[name]
        cut = leaf.ndim - wanted.ndim
        text = f"{action}: {name} must have shape {wanted.shape}; got {leaf.shape}"
        refuse_unless(cut >= 0 and leaf.shape[cut:] == wanted.shape, text)
        is_key = jnp.issubdtype(wanted.dtype, jax.dtypes.prng_key)
        text = f"{action}: {name} must be {wanted.dtype}; got {leaf.dtype}"
        refuse_unless(is_key or leaf.dtype == wanted.dtype, text)
        leading.add(leaf.shape[:cut])
    text = f"{action}: the state's leading axes must be the same; got {leading}"
    refuse_unless(len(leading) < 2, text)
    return like


def _differences(here: Any, there: Any, name: str) -> list[str]:
    """All differences in structure between two learners, in words."""

    def differ(what: str, mine: object, other: object) -> list[str]:
        return [f"{name}{what} {mine} in the checkpoint and {other} in like"]

    numbers = float | int | np.ndarray | np.generic | jax.Array
    if isinstance(here, numbers) and isinstance(there, numbers):
        mine, other = jnp.shape(here), jnp.shape(there)
        return differ(" has shape", mine, other) if mine != other else []
    if type(here) is not type(there):
        return differ(" is", repr(here), repr(there))
    if isinstance(here, tuple) and len(here) != len(there):
        return differ(" has", f"{len(here)} parts", len(there))
    found: list[str] = []
    parts = zip(here, there, strict=True) if isinstance(here, tuple) else ()
    for i, (mine, other) in enumerate(parts):
        found += _differences(mine, other, f"{name}[{i}]")
    for field in dataclasses.fields(here) if dataclasses.is_dataclass(here) else ():
        mine, other = getattr(here, field.name), getattr(there, field.name)
        if not field.metadata.get("static"):
            found += _differences(mine, other, f"{name}.{field.name}")
        elif mine != other:
            found += differ(f".{field.name} is", repr(mine), repr(other))
    return found
