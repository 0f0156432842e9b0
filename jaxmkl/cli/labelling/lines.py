"""A process that answers: questions out and answers in, a JSON object a line."""

import json
from collections.abc import Iterable
from typing import Any, TextIO

from jaxmkl.cli.labelling.core import Labelling
from jaxmkl.cli.labelling.rows import Refused
from jaxmkl.evaluate import plain

PLAIN = str | bool | int | float | list | dict
LONGEST = 200  # characters of a line that are shown again


def serve(labelling: Labelling, answers: Iterable[str], out: TextIO, ahead: int) -> None:
    """Ask and take answers until all is asked and answered, or no more answers come.

    Args:
      labelling: the session; what waited for an answer before is asked for again.
      answers: lines as they come.
      out: where lines go; each is flushed.
      ahead: questions that may wait at the same time.
    """

    def say(line: dict[str, Any]) -> None:
        text = json.dumps(plain(line), allow_nan=False)
        out.write(text + "\n")
        out.flush()

    def fill() -> None:
        while len(labelling.open) < ahead and (item := labelling.ask()) is not None:
            say(_question(labelling, item))

    for item in labelling.open:
        say(_question(labelling, item))
    fill()
    if labelling.open:
        for line in answers:
            if line.strip():
                say(_taken(labelling, line))
                fill()
            if not labelling.open:
                break
    say({"labels": len(labelling.standing.labels), "waiting": labelling.open})


def _question(labelling: Labelling, item: int) -> dict[str, Any]:
    rows, said = labelling.rows, labelling.said(item)
    cells = {name: _cell(cell) for name, cell in rows.values(rows.places[item]).items()}
    found = {"item": item, "row": cells, "prediction": said.prediction}
    if said.probabilities is not None:
        return found | {"probabilities": said.probabilities}
    return found | {"radius": said.radius}


def _cell(cell: Any) -> Any:
    return cell if cell is None or isinstance(cell, PLAIN) else str(cell)


def _taken(labelling: Labelling, line: str) -> dict[str, Any]:
    """What is said to a line: its label was kept, or why not."""
    item = None
    try:
        try:
            given = json.loads(line)
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict) or "item" not in given:
            text = '{"item": number, "label": label} or {"item": number, "skip": true} is wanted'
            raise Refused(f"{text}; got {line.strip()[:LONGEST]!r}")
        asked = given["item"]
        item = asked if isinstance(asked, int | str) else None  # shown again
        if given.keys() == {"item", "skip"} and given["skip"] is True:
            labelling.skip(asked)
            return {"item": item, "skipped": True}
        if given.keys() != {"item", "label"}:
            raise Refused('"label", or "skip": true, is wanted beside "item", and nothing else')
        return {"item": item, "kept": labelling.answer(asked, given["label"])}
    except Refused as reason:
        return {"item": item, "refused": str(reason)}
