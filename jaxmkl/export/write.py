"""Files of exported pipelines."""

import json
import math
import os
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax import export

from jaxmkl import abilities
from jaxmkl._checks import input_bound
from jaxmkl._files import written_whole
from jaxmkl.evaluate import predicts_log_odds
from jaxmkl.export import parts
from jaxmkl.export.predictor import Predictor
from jaxmkl.tables import Pipeline

CLOSE = 1e-3  # of the largest value: more than rounding, and less than a part that is another one


def export_predictor(path: str | os.PathLike[str], pipeline: Pipeline) -> None:
    """Write a pipeline as an npz file for :func:`jaxmkl.export.predictor.load`.

    The file holds arrays and JSON, no code. Its predictions are those of
    :meth:`jaxmkl.tables.Pipeline.predict` to rounding, and some are compared before it is written.
    Densities and intervals are left out.

    Raises:
      ValueError: the pipeline has no target; a column holds times of a form with rare parts, or
        words by their hashes; a part of the learner has no form without JAX; or a model has
        diverged.
    """
    learner, target = pipeline.learner, pipeline.columns.target
    if target is None:
        raise ValueError("export: the pipeline must have a target; it has none")
    state = abilities.out_of_order(learner, pipeline.state)
    operation, log_odds = abilities.exported(learner, state), predicts_log_odds(learner)
    if len(pipeline.classes) == 2 and not log_odds:  # a value of each class
        pair = {"shift": np.zeros(2), "scale": parts.PAIR / 2}
        operation = abilities.Operation("affine", pair).after(operation)
    arrays: dict[str, np.ndarray] = {}

    def node(one: abilities.Operation) -> dict[str, Any]:
        """An operation for the header, which names its arrays."""
        names = {name: f"{name}.{len(arrays) + i}" for i, name in enumerate(one.arrays)}
        for name, array in one.arrays.items():
            if not np.isfinite(array).all():
                text = "export: the pipeline must have a learner none of whose models has diverged"
                wanted = "its parameters must be finite"
                raise ValueError(f"{text}: {wanted}; got {name} of {one.name}")
            arrays[names[name]] = array
        inside = {"inside": [node(other) for other in one.inside]} if one.inside else {}
        return {"name": one.name, **names, **inside}

    words, numbers = pipeline.columns.missing_cells
    columns = _columns(pipeline)
    # the first format that has such columns, neighbours and durations: older copies of the module
    # can read most files
    formats = [3 if "edits" in own else 2 if own["kind"] == "text" else 1 for own in columns]
    formats += [5 for own in columns if own["kind"] == "number" and "since" in own]
    formats += [4 for name in _names(operation) if name == "near"]
    header = {"format": max(formats), "jaxmkl": pipeline.version, "columns": columns}
    header |= {"classes": pipeline.classes, "has_probabilities": log_odds}
    header |= {"start": pipeline.seen.start, "bound": input_bound(np.float32)}
    header |= {"words": words, "numbers": numbers, "blanks": pipeline.columns.blanks}
    header |= {"operation": node(operation)}
    _compare(Predictor(header, arrays), pipeline, state)
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with written_whole(path) as file:
        np.savez_compressed(file, header=text, **arrays)  # type: ignore[arg-type]


def _names(one: abilities.Operation) -> Iterator[str]:
    """Of an operation and those inside."""
    yield one.name
    for other in one.inside:
        yield from _names(other)


def _columns(pipeline: Pipeline) -> list[dict[str, Any]]:
    """The kinds of the columns with inputs."""
    fills, found = iter(zip(*np.array(pipeline.fills).tolist(), strict=True)), []
    for kind in pipeline.columns.kinds:
        own: dict[str, Any] = {"name": kind.name, "kind": kind.kind}
        given: Any = kind
        if kind.filled:
            (count, total), start = next(fills), kind.starts[0]
            mean = total / max(count, 1.0)
            is_known = count > 0 and math.isfinite(mean)
            own |= {"start": start, "mean": mean if is_known else start, "missing": False}
        if kind.kind == "number":
            own["missing"] = given.missing
            if not given.is_usual:
                own["edits"] = given.edits
        elif kind.kind == "time":
            if given.edits is None:
                wanted = "times of a form with the parts of %d.%m.%Y %H:%M:%S%.f, %y, %B, %I or %p"
                _refuse(kind.name, f"times of the form {given.form}", wanted)
            own |= {"since": given.start, "unit": given.seconds, "turns": given.phases}
            own["edits"] = given.edits
            if given.is_lasting:
                own["kind"] = "number"
        elif kind.kind == "categories":
            eye = np.eye(len(given.values), dtype=int).tolist()
            own["codes"] = {word: eye[place] for word, place in given.places.items()}
            own["default"] = [0] * len(eye)
        elif kind.kind == "boolean":
            own |= {"codes": {given.false: [0.0], given.true: [1.0]}, "default": [0.5]}
        elif kind.kind == "text" and given.words:
            places = enumerate(zip(given.words, given.idf, strict=True))
            own["codes"] = {word: [place, idf] for place, (word, idf) in places}
        elif kind.features:
            wanted = "numbers, categories, truth values, texts or times"
            _refuse(kind.name, "words by their hashes", wanted)
        else:
            continue
        if "default" in own and "0" in own["codes"]:  # as Python writes the number -0.0
            own["codes"].setdefault("-0", own["codes"]["0"])
        found.append(own)
    return found


def _refuse(name: str, what: str, wanted: str) -> None:
    text = f"export: column {name!r} must hold {wanted}; it holds {what}"
    raise ValueError(f"{text}, which only jaxmkl reads (jaxmkl export OUT.stablehlo takes inputs)")


def _compare(predictor: Predictor, pipeline: Pipeline, state: Any) -> None:
    """Refuse a learner that predicts otherwise, as a class derived from one of ours may."""
    X = np.random.default_rng(0).normal(size=(8, len(pipeline.columns.features)))
    X = X.astype(np.float32)
    one = np.asarray(pipeline.learner.predict_many(state, X).value).reshape(8, -1)
    other = predictor.values(X)
    if len(pipeline.classes) == 2:
        other = np.diff(other, axis=1)
    apart, largest = np.abs(one - other).max(), np.abs(one).max()
    if not apart <= CLOSE * largest:
        text = "export: the learner must have parts of the library as they are; its predictions"
        raise ValueError(f"{text} differ by {apart:.3g} without JAX")


def program(pipeline: Pipeline) -> export.Exported:
    """The program that predicts, in StableHLO, for any number of rows, on CPUs, GPUs and TPUs.

    It takes the inputs (n, D) in single precision, as :meth:`jaxmkl.tables.Columns.inputs` makes
    them, and returns the learner's values: numbers (n,) less ``pipeline.seen.start``, log-odds
    (n,), or log probabilities (n, K).
    """
    learner = pipeline.learner
    state = abilities.out_of_order(learner, pipeline.state)
    (n,) = export.symbolic_shape("n")
    X = jax.ShapeDtypeStruct((n, len(pipeline.columns.features)), np.float32)
    many = jax.jit(jax.vmap(lambda x: learner.predict(state, x).value))
    return export.export(many, platforms=("cpu", "cuda", "tpu"))(X)


def export_stablehlo(path: str | os.PathLike[str], pipeline: Pipeline) -> None:
    """Write the :func:`program` that predicts, as :func:`jax.export.deserialize` reads it.

    Raises:
      ImportError: flatbuffers, with which JAX writes it, is not installed.
    """
    content = program(pipeline).serialize()
    with written_whole(path) as file:
        file.write(content)
