"""The checkpoint of a run: all that it is made of in one file, to go on after any end."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from jaxmkl._files import written_whole
from jaxmkl._version import __version__
from jaxmkl.checkpoint import packed, unpacked
from jaxmkl.cli import options
from jaxmkl.cli.play import Play, Player
from jaxmkl.cli.predictions import Predictions
from jaxmkl.evaluate import UsageError
from jaxmkl.streaming.checkpoints import LastTwo
from jaxmkl.tables import Columns, Fills

FORMAT = "jaxmkl run 2"
EVERY = {"minutes": 5.0}
OF_PLAY = "baselines", "scores", "num_rows", "num_unlabelled", "unseen", "seconds"
OF_PLAYER = "score", "labels", "num_labels", "seconds", "known_from"
# options that do not make the run what it is
OTHERS = *options.OF_THE_LINE, "checkpoint", "every", "save", "json", "report"


class Kept:
    """The checkpoint of a run, and what an earlier part of the run left in it.

    Args:
      given: the options.

    Raises:
      UsageError: the checkpoint is of a run with other options.
      ValueError: it is none, or damaged as the one before it.
    """

    def __init__(self, given: Any) -> None:
        self.path, self._is_file = given.checkpoint, given.file != "-"
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
                text = f"{self.path} is of a run with {_option(name)} {before!r}, and here it is"
                raise UsageError(f"--checkpoint: {text} {now!r}; take another file, or delete it")

    @property
    def length(self) -> int:
        """Bytes of the predictions, 0 before the first checkpoint."""
        return 0 if self._found is None else self._found[0]["predictions"]

    def columns(self, decided: Columns) -> Columns:
        """The run's columns: those ``decided`` on the first rows, if it has none yet.

        Raises:
          UsageError: the file's first rows are not what they were.
        """
        if self._found is None:
            return decided
        text = self._found[0]["columns"]
        if self._is_file and text != decided.to_json():
            raise UsageError(
                f"--checkpoint: {self.path} is of a file whose first rows were others"
            )
        return Columns.from_json(text)

    def resume(self, play: Play) -> None:
        """Bring a run that has begun to where the checkpoint stands.

        Raises:
          ValueError: it does not fit the run.
        """
        if self._found is None:
            return
        header, states = self._found
        players = _players(play)
        if len(states) != len(players):
            text = f"{len(states)} learners and seeds, where the run has {len(players)}"
            raise ValueError(f"--checkpoint: {self.path} is of {text}")
        for player, state, fields in zip(players, states, header["players"], strict=True):
            player.state = unpacked(io.BytesIO(state), str(self.path), player.learner)[1]
            _fill(player, OF_PLAYER, fields)
        _fill(play, OF_PLAY, header["play"])
        play.fills = Fills(*np.array(header["fills"], np.float64))
        play.warned |= dict.fromkeys(header["warned"])
        self._last.begin(play.num_rows)

    def offer(self, play: Play, predictions: Predictions | None) -> None:
        """Write a checkpoint if one is due."""
        if self._last.is_due(play.num_rows):
            self._write(play, predictions)

    def close(self, play: Play, predictions: Predictions | None) -> None:
        """Write a checkpoint of what was played since the last one, if there is anything."""
        if play.num_rows != self._last.stands_at:
            self._write(play, predictions)

    def _write(self, play: Play, predictions: Predictions | None) -> None:
        header = {
            "format": FORMAT,
            "jaxmkl": __version__,
            "settings": self._settings,
            "columns": play.columns.to_json(),
            "fills": [part.tolist() for part in play.fills],
            "play": {name: _taken(getattr(play, name)) for name in OF_PLAY},
            "players": [
                {name: _taken(getattr(player, name)) for name in OF_PLAYER}
                for player in _players(play)
            ],
            "warned": list(play.warned),
            "predictions": 0 if predictions is None else predictions.length(),
        }
        self._last.write(play.num_rows, lambda path: _write(path, header, _players(play)))


def _option(name: str) -> str:
    return "FILE" if name == "file" else f"--{name.strip('_')}"


def _players(play: Play) -> list[Player]:
    return [player for each in play.players.values() for player in each]


def _write(path: str, header: dict[str, Any], players: list[Player]) -> None:
    """A zip archive: the header as JSON, and a checkpoint of each player."""
    with written_whole(path, keep=True) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("run.json", json.dumps(header))
        for number, player in enumerate(players):
            state = io.BytesIO()
            np.savez(state, allow_pickle=False, **packed(player.learner, player.state))
            archive.writestr(f"{number}.npz", state.getvalue())


def _read(path: str) -> tuple[dict[str, Any], list[bytes]]:
    """The header and the players' checkpoints."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(Path(path).read_bytes()))
        header = json.loads(archive.read("run.json"))
        known = header["format"]
        states = [archive.read(f"{i}.npz") for i in range(len(header["players"]))]
    except Exception as error:  # zipfile and zlib raise several kinds
        raise ValueError(f"--checkpoint: {path} is no readable checkpoint: {error}") from None
    if known != FORMAT:
        text = f"{path} is of format {known!r}, written by jaxmkl {header.get('jaxmkl')}; this is"
        raise ValueError(f"--checkpoint: {text} {__version__}, which reads {FORMAT!r}")
    return header, states


def _taken(part: Any) -> Any:
    """Numbers and arrays of an object, as JSON has them."""
    if isinstance(part, np.ndarray):
        return part.tolist()
    if isinstance(part, int | float):
        return part
    fields = part if isinstance(part, dict) else vars(part)
    return {name: _taken(value) for name, value in fields.items()}


def _fill(part: Any, names: Any, found: dict[str, Any]) -> None:
    """Give fields the values that :func:`_taken` took."""
    for name in names:
        old, new = getattr(part, name), found[name]
        if isinstance(old, np.ndarray | int | float):
            setattr(part, name, _like(old, new))
        elif isinstance(old, dict):
            for key, value in old.items():
                _fill(value, vars(value), new[key])
        else:
            _fill(old, vars(old), new)


def _like(old: Any, new: Any) -> Any:
    if not isinstance(old, np.ndarray):
        return type(old)(new)
    return np.array(new, old.dtype).reshape(old.shape)
