"""The two faces of questions: a process that reads JSON lines, and a person at a terminal."""

import contextlib
import json
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TextIO

from jaxmkl.cli.interrupts import Interrupts
from jaxmkl.cli.sessions.questions import Labelling
from jaxmkl.cli.sessions.requests import brief
from jaxmkl.evaluate import figure, plain, printable
from jaxmkl.tables import Refused

if TYPE_CHECKING:
    from rich.console import Console

COMMANDS = {"s": "skip", "u": "undo", "q": "quit"}
LOOK = 0.2  # seconds between two looks for an interrupt
END = ("", "\x04")  # the end of what is typed
NOTHING = contextlib.nullcontext()
LONGEST = 200  # characters of a line that are quoted

# --- a process -----------------------------------------------------------------------------------


def serve_process(
    labelling: Labelling,
    given: Iterable[str],
    out: TextIO,
    ahead: int,
    held: AbstractContextManager = NOTHING,
) -> None:
    """Ask and take answers until every question is answered, or no more lines are given.

    Items that already wait for an answer are asked for again; ``ahead`` questions may wait at the
    same time. Questions are asked and answers learned in the context ``held``, without interrupts.
    """

    def say(line: Mapping[str, object]) -> None:
        print(json.dumps(plain(line), allow_nan=False), file=out, flush=True)

    def fill() -> None:
        while len(labelling.standing.open) < ahead and (item := labelling.ask()) is not None:
            say(_question(labelling, item))

    with held:
        for item in labelling.standing.open:
            say(_question(labelling, item))
        fill()
    lines = (line for line in given if line.strip())
    while labelling.standing.open and (line := next(lines, None)) is not None:
        with held:
            say(_taken(labelling, line))
            fill()
    now = labelling.standing
    say({"labels": len(now.labels), "waiting": now.open})


def _question(labelling: Labelling, item: int) -> dict[str, object]:
    row = labelling.rows.place(item)
    cells = {name: column[row] for name, column in labelling.rows.values.items()}
    kinds = str | bool | int | float | list | dict | None  # of JSON
    shown = {name: c if isinstance(c, kinds) else str(c) for name, c in cells.items()}
    return {"item": item, "row": shown, **labelling.said(item)}


def _taken(labelling: Labelling, line: str) -> dict[str, object]:
    """The reply to a line: its label was kept, or the reason why not."""
    try:
        given = json.loads(line.removeprefix("\ufeff"))  # as Windows begins a text
    except (ValueError, RecursionError):
        given = None
    item = given.get("item") if isinstance(given, dict) else None
    said: dict[str, object] = {"item": item if isinstance(item, int | str) else None}
    try:
        match given:
            case {"item": _, "skip": True, **more} if not more:
                labelling.skip(item)
                return said | {"skipped": True}
            case {"item": _, "label": answer, **more} if not more:
                return said | {"kept": labelling.answer(item, answer)}
            case {"item": _}:
                text = '"label", or "skip": true, must stand beside "item", and nothing else'
                raise Refused(text)
        text = 'expected {"item": number, "label": label} or {"item": number, "skip": true}'
        raise Refused(f"{text}; got {line.strip()[:LONGEST]!r}")
    except Refused as reason:
        return said | {"refused": brief(reason)}


# --- a person ------------------------------------------------------------------------------------


def serve_person(labelling: Labelling, interrupts: Interrupts) -> None:
    """Ask the person until no question is left, or they quit; Ctrl-C and Ctrl-D quit too."""
    from rich.console import Console

    keys, done = keys_of(labelling.rows.target.classes), ""
    console = Console(highlight=False, markup=False, emoji=False)
    with contextlib.suppress(KeyboardInterrupt), _typed(bool(keys), interrupts) as read:
        while not done:
            waiting = labelling.standing.open
            item = waiting[0] if waiting else labelling.ask()
            if item is None:
                done = "; no question is left"
            else:
                _show(labelling, item, keys, console)
                if _replied(labelling, item, keys, console, read) == "quit":
                    break
    print(f"\n{len(labelling.standing.labels)} labels{done}", flush=True)


def keys_of(classes: Sequence[str]) -> dict[str, str]:
    """Return the key of each class: the class itself if all are one character, else 1 to 9.

    There are no keys for numbers, or for more than nine classes: Enter then ends an answer.

    >>> keys_of(["oak", "ash"]), keys_of(["a", "b"]), keys_of(["s", "b"])
    ({'1': 'oak', '2': 'ash'}, {'a': 'a', 'b': 'b'}, {'1': 's', '2': 'b'})
    """
    if len(classes) > 9:
        return {}
    short = all(len(c) == 1 and c.isascii() and c.isalnum() and c not in COMMANDS for c in classes)
    return dict(zip(classes if short else "123456789", classes, strict=False))


def _show(labelling: Labelling, item: int, keys: Mapping[str, str], console: "Console") -> None:
    from rich.table import Table

    rows, now = labelling.rows, labelling.standing
    cells = Table(box=None, show_header=False, pad_edge=False)
    cells.add_column(style="dim", no_wrap=True)
    cells.add_column(overflow="fold")
    for name, cell in rows.frame.row(rows.place(item), named=True).items():
        cells.add_row(printable(name), "" if cell is None else printable(cell))
    left = labelling.remaining + len(now.open)
    counts = f"{len(now.labels)} labels so far, at most {left} to come"
    console.print()
    console.rule(f"{rows.chunk.place} {item}, {counts}", align="left")
    console.print(cells)
    console.print(printable(sentence(labelling.said(item), rows.target.name)), style="bold")
    answers = [key if key == name else f"{key} {name}" for key, name in keys.items()]
    if not keys:
        wanted = "a class, or its first letters" if rows.target.classes else "a number"
        answers = [f"{wanted}, then Enter"]
    commands = [f"{key} {name}" for key, name in COMMANDS.items()]
    console.print(printable(f"[{', '.join(answers)}; {', '.join(commands)}] "), end="")


def sentence(said: Mapping[str, Any], target: str) -> str:
    """Say what the learner predicts, and how sure it is.

    >>> sentence({"prediction": "oak", "probabilities": {"ash": 0.25, "oak": 0.75}}, "kind")
    'kind: oak, 75 % sure'
    >>> sentence({"prediction": 12.5, "radius": 2.0}, "height")
    'height: 12.500 ± 2.000 (nine of ten lie there)'
    """
    prediction = said["prediction"]
    if "probabilities" in said:
        return f"{target}: {prediction}, {100 * said['probabilities'][prediction]:.0f} % sure"
    if said["radius"] is None:
        return f"{target}: {figure(prediction)}, not sure yet"
    return f"{target}: {figure(prediction)} ± {figure(said['radius'])} (nine of ten lie there)"


def _replied(
    labelling: Labelling, item: int, keys: Mapping[str, str], console: "Console", read: Callable
) -> str:
    """Read until a command or an answer is accepted, and return its name."""
    while (typed := read()) not in END:
        try:
            done = reply(labelling, item, typed.strip(), keys)
        except Refused as reason:
            console.print(f"\n{printable(brief(reason))}; again: ", end="")
            continue
        if keys:
            console.print(printable(done))
        return done
    return "quit"


def reply(labelling: Labelling, item: int, typed: str, keys: Mapping[str, str]) -> str:
    """Carry out a typed command or answer and return its name, or raise ``Refused``."""
    classes = labelling.rows.target.classes
    if typed in COMMANDS and (keys or typed not in classes):
        if typed == "u":
            labelling.undo()
        elif typed == "s":
            labelling.skip(item)
        return COMMANDS[typed]
    if keys and typed not in keys:
        raise Refused(f"{typed!r} is not one of the keys {', '.join([*keys, *COMMANDS])}")
    begun = [name for name in classes if typed and name.startswith(typed)]
    name = begun[0] if len(begun) == 1 else typed
    return str(labelling.answer(item, keys.get(typed, name)))


@contextlib.contextmanager
def _typed(by_key: bool, interrupts: Interrupts) -> Iterator[Callable[[], str]]:
    """Yield a function that reads a key, or a line: empty or Ctrl-D at the end of the input.

    It raises a ``KeyboardInterrupt`` after an interrupt.
    """
    import termios
    import tty

    terminal = sys.stdin.fileno()

    def read() -> str:
        interrupts.look()
        while not select.select([terminal], [], [], LOOK)[0]:
            interrupts.look()
        if not by_key:
            return sys.stdin.readline()
        key = os.read(terminal, 1)
        if key == b"\x1b":  # the bytes that an arrow key sends after it are no answer
            termios.tcflush(terminal, termios.TCIFLUSH)
        return key.decode("ascii", "replace")

    before = termios.tcgetattr(terminal)

    def restore() -> None:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)

    interrupts.last_acts.append(restore)
    try:
        if by_key:
            tty.setcbreak(terminal, termios.TCSADRAIN)
        yield read
    finally:
        restore()
