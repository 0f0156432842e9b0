"""Lines of JSON become requests; what is wrong with a line is said in a sentence."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from jaxmkl.tables import Refused

LONGEST = 2**20  # bytes of a line or a body
SAID = 1000  # characters of a refusal
SHOWN = 100  # characters of a line that are quoted
CELLS = str | int | float | None  # of JSON; booleans are numbers here
FORMS = '{"row": {...}}, {"id": ..., "label": ...}, {"id": ..., "forget": true} or a list of rows'


class Request(NamedTuple):
    """A request: to predict rows, to learn a label or a labelled row, to forget a row."""

    kind: str  #: "ask", "learn", "forget", "learn_row", "metrics"; "line" is none of these
    rows: tuple[dict[str, Any], ...] = ()
    ids: tuple[str | int, ...] = ()  #: of the rows, or of the label; none are given: the server's
    label: Any = None
    is_list: bool = False  #: whether the answer is a list
    refusal: str = ""  #: why it is refused; empty if it is not
    first: int = 0  #: the place of its rows, or its label, among those of its event


def read(line: bytes) -> Request:
    """Read a line.

    >>> read(b'{"row": {"height": 2.5}}').rows
    ({'height': 2.5},)
    >>> read(b'{"id": 3, "label": "tree"}')[:4:3], read(b'{"id": 3, "label": "tree"}').ids
    (('learn', 'tree'), (3,))
    >>> read(b'{"id": 3, "label": []}').refusal
    'a label must be text, a number or a boolean; got []'
    """
    given: Any = None
    try:
        if len(line) > LONGEST:
            raise Refused(f"a line has at most {LONGEST:,} bytes")
        with contextlib.suppress(ValueError, RecursionError):
            given = json.loads(line)
        return _request(given, line)
    except Refused as error:
        ids: tuple = ()
        with contextlib.suppress(Refused, TypeError):
            ids = _ids(given)
        return Request("line", ids=ids, refusal=str(error))


def _request(given: Any, line: bytes) -> Request:
    match given:
        case list():
            return Request("ask", _rows(given), is_list=True)
        case {"rows": list(rows), **more} if more.keys() <= {"ids"}:
            ids = more.get("ids", [])
            if not isinstance(ids, list) or len(ids) not in ((len(rows),) if more else (0,)):
                raise Refused(f'"ids" must be a list of {len(rows)} ids, one for each row')
            return Request("ask", _rows(rows), tuple(map(_id, ids)), is_list=True)
        case {"row": row, "label": label, **more} if more.keys() <= {"id"}:
            return Request("learn_row", _rows([row]), _ids(more), _label(label))
        case {"row": row, **more} if more.keys() <= {"id"}:
            return Request("ask", _rows([row]), _ids(more))
        case {"id": own, "label": label, **more} if not more:
            return Request("learn", (), (_id(own),), _label(label))
        case {"id": own, "forget": True, **more} if not more:
            return Request("forget", (), (_id(own),))
        case {"metrics": True, **more} if not more:
            return Request("metrics")
    shown = line[:SHOWN].decode(errors="replace").strip()
    raise Refused(f"expected {FORMS}; got {shown!r}")


def _rows(rows: list[Any]) -> tuple[dict[str, Any], ...]:
    for row in rows:
        if not isinstance(row, dict) or not row:
            raise Refused("a row must be an object, with the cell of each column by its name")
        for name, cell in row.items():
            if not isinstance(cell, CELLS):
                raise Refused(f"column {name!r}: a cell must be text, a number, a boolean or null")
    if not rows:
        raise Refused("a list of rows must have a row")
    return tuple(rows)


def _label(label: object) -> object:
    if not isinstance(label, str | int | float):
        raise Refused(f"a label must be text, a number or a boolean; got {label!r:.{SHOWN}}")
    return label


def _id(own: object) -> str | int:
    if isinstance(own, bool) or not isinstance(own, str | int) or len(str(own)) > SHOWN:
        raise Refused(f"an id must be a whole number, or text of at most {SHOWN} characters")
    return own


def _ids(more: dict) -> tuple[str | int, ...]:
    return (_id(more["id"]),) if "id" in more else ()


def brief(refusal: Exception | str) -> str:
    """The text of a refusal, which may quote what was given, however long that is."""
    text = str(refusal)
    return text if len(text) <= SAID else f"{text[:SAID]}..."


class Lines:
    """The lines in a stream of bytes that comes in pieces; the rest of too long a one is dropped.

    >>> lines = Lines()
    >>> [*lines.cut(b"one\\ntw")], [*lines.cut(b"o\\n")], lines.rest
    ([b'one'], [b'two'], b'')
    """

    def __init__(self) -> None:
        self.rest = b""  #: the beginning of the next line
        self._is_too_long = False

    def cut(self, piece: bytes) -> Iterator[bytes]:
        """The lines that end in this piece, or become too long in it: their beginnings."""
        *lines, rest = piece.split(b"\n")
        for line in lines:
            whole, self.rest = self.rest + line, b""
            if not self._is_too_long and whole.strip():
                yield whole
            self._is_too_long = False
        if not self._is_too_long:
            self.rest += rest
        if len(self.rest) > LONGEST:
            yield self.rest
            self.rest, self._is_too_long = b"", True
