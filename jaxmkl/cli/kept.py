"""The checkpoint of a run: one file from which it continues, however it ended."""

import io
import json
import zipfile
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxmkl._archive import Archive, damage
from jaxmkl._checks import refuse_unless
from jaxmkl._files import written_whole
from jaxmkl._version import __version__
from jaxmkl.checkpoint import arrays_of, arrays_to_save, read_saved, tree_of
from jaxmkl.cli import options
from jaxmkl.cli.predictions import Predictions
from jaxmkl.cli.prequential import BOOSTING, BadRow, Evaluation
from jaxmkl.evaluate import UsageError
from jaxmkl.streaming.checkpoints import LastTwo
from jaxmkl.tables import Columns

FORMAT = "jaxmkl run 5"
EVERY = {"minutes": 5.0}
OTHER_MEMBERS = "latest", "figures", "boosted"
UNBOOSTED = f"{BOOSTING!r} is left out, as a part of the run was without it"
# options that may change when a run continues
OTHERS = *options.OF_THE_LINE, "checkpoint", "every", "save", "json", "report", "bad_rows"


class Kept:
    """The checkpoint of a run, with what an earlier part of the run left in it, if it has one.

    Raises:
      UsageError: if the checkpoint belongs to a run with other options, or ``--every`` to none.
      ValueError: if it is not a checkpoint, or is damaged, and so is the one before it.
    """

    def __init__(self, given: Namespace) -> None:
        self.path, self._is_file, self._found = given.checkpoint, given.file != "-", None
        if self.path is None:
            if given.every is not None:
                raise UsageError("--every needs a checkpoint; name its file with --checkpoint")
            return
        # as they come back
        self._settings = json.loads(json.dumps(options.plain(given, OTHERS)))
        self._last = LastTwo(self.path, **(given.every or EVERY))
        self._found = self._last.read(_read)
        if self._found is None:
            return
        found = self._found[0]["settings"]
        for name in sorted(found.keys() | self._settings):
            before, now = found.get(name), self._settings.get(name)
            if before != now:
                option = "FILE" if name == "file" else f"--{name.strip('_')}"
                text = f"{self.path} belongs to a run with {option} {before!r}"
                advice = "name another file, or delete this one"
                raise UsageError(f"--checkpoint: {text}, and now it is {now!r}; {advice}")

    @property
    def length(self) -> int:
        """The length of the predictions in bytes, 0 before the first checkpoint."""
        return 0 if self._found is None else self._found[0]["predictions"]

    def columns(self, decided: Columns) -> Columns:
        """The columns of the run: those ``decided`` on the first rows, if it has none yet.

        Raises:
          UsageError: if the first rows of the file have changed.
        """
        if self._found is None:
            return decided
        text = self._found[0]["columns"]
        if self._is_file and text != decided.to_json():
            text = "belongs to a file whose first rows were different"
            raise UsageError(f"--checkpoint: {self.path} {text}")
        return Columns.from_json(text)

    def resume(self, evaluation: Evaluation) -> None:
        """Advance a new run to the state of the checkpoint.

        Raises:
          ValueError: if it does not fit the run.
        """
        if self._found is None:
            return
        header, states, arrays = self._found
        runners = evaluation.everyone
        if len(states) != len(runners):
            text = f"{len(states)} learners and seeds, and the run has {len(runners)}"
            raise ValueError(f"--checkpoint: {self.path} holds {text}")
        try:
            watched, shares = None, [None] * len(runners)
            if "figures" in arrays:
                watched, shares = tree_of(arrays["figures"], _figures(evaluation))
            begun, boosted = evaluation.now.boosted, None
            if "boosted" in arrays and begun is not None:
                boosted = tree_of(arrays["boosted"], begun)
            elif "boosted" in arrays or begun is not None:
                evaluation.warned[UNBOOSTED] = None
            now, achieved = tree_of(arrays["play"], _tree(evaluation))
            evaluation.now = now._replace(watched=watched, boosted=boosted)
        except ValueError as error:
            raise ValueError(f"--checkpoint: {self.path}: {error}") from None
        for runner, state, now, of in zip(runners, states, achieved, shares, strict=True):
            found = read_saved(io.BytesIO(state), str(self.path), runner.learner)[1]
            runner.now = now._replace(state=found, shares=of)
        evaluation.warned |= dict.fromkeys(header["warned"])
        evaluation.bad = tuple(BadRow(*row) for row in header["bad"])
        if "latest" in arrays:
            evaluation.latest = arrays["latest"]["rows"]
        self._last.begin(evaluation.now.passed)

    def offer(self, evaluation: Evaluation, predictions: Predictions) -> None:
        """Write a checkpoint if one is due."""
        if self._last.is_due(evaluation.now.passed):
            self._write(evaluation, predictions)

    def close(self, evaluation: Evaluation, predictions: Predictions) -> None:
        """Write a last checkpoint, if any row came since the one before."""
        if evaluation.now.passed != self._last.stands_at:
            self._write(evaluation, predictions)

    def _write(self, evaluation: Evaluation, predictions: Predictions) -> None:
        header = {
            "format": FORMAT,
            "jaxmkl": __version__,
            "settings": self._settings,
            "columns": evaluation.columns.to_json(),
            "players": len(evaluation.everyone),
            "warned": list(evaluation.warned),
            "bad": evaluation.bad,
            "predictions": predictions.length(),
        }
        self._last.write(evaluation.now.passed, lambda path: _write(path, header, evaluation))


def _tree(evaluation: Evaluation) -> tuple:
    """The progress of a run as numbers and arrays, without the states of the learners."""
    runners = [one.now._replace(state=None, shares=None) for one in evaluation.everyone]
    return evaluation.now._replace(watched=None, boosted=None), runners


def _figures(evaluation: Evaluation) -> tuple:
    """The figures of a run that older checkpoints lack, apart from its progress."""
    return evaluation.now.watched, [runner.now.shares for runner in evaluation.everyone]


def _write(path: str, header: Mapping[str, object], evaluation: Evaluation) -> None:
    """Write a zip archive of the header as JSON, the progress and a checkpoint of each runner."""
    members: dict[str, Any] = {"play.npz": arrays_of(_tree(evaluation))}
    members["latest.npz"] = {"rows": evaluation.latest}
    members["figures.npz"] = arrays_of(_figures(evaluation))
    if (boosted := evaluation.now.boosted) is not None:
        members["boosted.npz"] = arrays_of(boosted._replace(model=None))  # it is fitted again
    each = enumerate(evaluation.everyone)
    members |= {f"{i}.npz": arrays_to_save(one.learner, one.now.state) for i, one in each}
    with written_whole(path, keep=True) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("run.json", json.dumps(header))
        for name, arrays in members.items():
            member = io.BytesIO()
            np.savez(member, **arrays)
            archive.writestr(name, member.getvalue())


def _read(path: str) -> tuple[dict[str, Any], list[bytes], dict[str, dict[str, np.ndarray]]]:
    """Read the header, the checkpoints of the runners, and the arrays of the other members.

    All of these but the progress, "play", may be absent.
    """
    with open(path, "rb") as file, damage(f"--checkpoint: {path} is not a readable checkpoint"):
        archive = Archive(file)
        refuse_unless("run.json" in archive.keys, "it is not that of a run; name another file")
        header = json.loads(archive.content("run.json"))
        known, states, arrays = header["format"], list[bytes](), {}
        if known == FORMAT:
            states = [archive.content(f"{i}.npz") for i in range(header["players"])]
            others = (name for name in OTHER_MEMBERS if f"{name}.npz" in archive.keys)
            for name in ("play", *others):
                found = Archive(io.BytesIO(archive.content(f"{name}.npz")))
                arrays[name] = {key: found.read(key) for key in found.keys}
    if known != FORMAT:
        text = f"{path} has the format {known!r}, written by jaxmkl {header.get('jaxmkl')}"
        here = f"this is {__version__}, which reads {FORMAT!r}"
        raise ValueError(f"--checkpoint: {text}; {here}")
    return header, states, arrays
