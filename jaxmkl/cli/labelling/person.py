"""A person at a terminal: a row, what the learner says of it, and a key or a value in answer."""

import contextlib
import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jaxmkl.cli.labelling.core import Labelling, Said
from jaxmkl.cli.labelling.rows import Refused
from jaxmkl.evaluate import figure

COMMANDS = {"s": "skip", "u": "undo", "q": "quit"}
LOOK = 0.2  # seconds between two looks whether there was an interrupt
END = ("", "\x04")  # nothing more will be typed


def keys_of(classes: Sequence[str]) -> dict[str, str]:
    """The key of each class: the class itself if all are one character, else 1 to 9.

    Empty where there are more than nine, or none: what is typed ends with Enter then.

    >>> keys_of(["oak", "ash"]), keys_of(["a", "b"]), keys_of(["s", "b"])
    ({'1': 'oak', '2': 'ash'}, {'a': 'a', 'b': 'b'}, {'1': 's', '2': 'b'})
    """
    if len(classes) > 9:
        return {}
    plain = all(len(c) == 1 and c.isascii() and c.isalnum() and c not in COMMANDS for c in classes)
    keys = classes if plain else "123456789"
    return dict(zip(keys, classes, strict=False))


def serve(labelling: Labelling) -> None:
    """Ask the person until all is asked, or they quit; Ctrl-C and Ctrl-D quit, too."""
    from rich.console import Console

    classes = labelling.rows.target.classes
    keys, console = keys_of(classes), Console(highlight=False)
    done = ""
    with contextlib.suppress(KeyboardInterrupt), _typed(bool(keys)) as read:
        while (item := _waiting(labelling)) is not None:
            _show(labelling, item, console)
            console.print(_prompt(labelling, keys), end="", markup=False)
            if _reply(labelling, item, read, keys, console) == "quit":
                break
        else:
            done = "; all is asked"
    print(f"\n{len(labelling.standing.labels)} labels{done}", flush=True)


def _waiting(labelling: Labelling) -> int | None:
    """The item that waits for an answer, or the next one."""
    return labelling.open[0] if labelling.open else labelling.ask()


def _reply(
    labelling: Labelling, item: int, read: Callable[[], str], keys: Any, console: Any
) -> str:
    """Read until something can be done with it, do it, and say what it was."""
    while True:
        typed = read()
        if typed in END:
            return "quit"
        typed = typed.strip()
        try:
            done = _done(labelling, item, typed, keys)
        except Refused as reason:
            console.print(f"\n{reason}; again: ", end="", markup=False)
            continue
        if keys:
            console.print(done, markup=False)
        return done


def _done(labelling: Labelling, item: int, typed: str, keys: dict[str, str]) -> str:
    """Do what was typed: a command, or an answer."""
    classes = labelling.rows.target.classes
    command = COMMANDS.get(typed) if keys or typed not in classes else None
    if command == "undo":
        labelling.undo()
    elif command == "skip":
        labelling.skip(item)
    elif command is None:
        if keys and typed not in keys:
            raise Refused(f"{typed!r} is none of the keys {', '.join([*keys, *COMMANDS])}")
        answer = keys[typed] if keys else completed(typed, classes)
        return str(labelling.answer(item, answer))
    return command or ""


def completed(typed: str, classes: Sequence[str]) -> str:
    """The class that begins with what was typed, where there is one only.

    >>> completed("oa", ["oak", "ash"]), completed("a", ["ash", "apple"])
    ('oak', 'a')
    """
    found = [name for name in classes if typed and name.startswith(typed)]
    return found[0] if len(found) == 1 and typed not in classes else typed


def _show(labelling: Labelling, item: int, console: Any) -> None:
    from rich.table import Table

    rows = labelling.rows
    shown = Table(box=None, show_header=False, pad_edge=False)
    shown.add_column(style="dim", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, cell in rows.cells(rows.places[item]).items():
        shown.add_row(_text(name), _text("" if cell is None else cell))
    console.print()
    console.rule(f"{rows.chunk.place} {item}, {_counts(labelling)}", align="left")
    console.print(shown)
    console.print(sentence(labelling.said(item), rows.target.name), style="bold", markup=False)


def _text(cell: Any) -> Any:
    from rich.text import Text

    return Text("".join(c if c.isprintable() else " " for c in str(cell)))  # no markup, no codes


def _counts(labelling: Labelling) -> str:
    left = labelling.remaining + len(labelling.open)
    return f"{len(labelling.standing.labels)} labels so far, at most {left} to come"


def sentence(said: Said, target: str) -> str:
    """What the learner says, and how sure it is.

    >>> sentence(Said("oak", {"ash": 0.25, "oak": 0.75}, None), "kind")
    'kind: oak, 75 % sure'
    >>> sentence(Said(12.5, None, 2.0), "height")
    'height: 12.500 ± 2.000 (nine of ten lie there)'
    """
    if said.probabilities is not None:
        share = said.probabilities[said.prediction]
        return f"{target}: {said.prediction}, {100 * share:.0f} % sure"
    if said.radius is None:
        return f"{target}: {figure(said.prediction)}, not sure yet"
    near = f"± {figure(said.radius)} (nine of ten lie there)"
    return f"{target}: {figure(said.prediction)} {near}"


def _prompt(labelling: Labelling, keys: dict[str, str]) -> str:
    commands = [f"{key} {name}" for key, name in COMMANDS.items()]
    if keys:
        named = [key if key == name else f"{key} {name}" for key, name in keys.items()]
        return f"[{', '.join(named)}; {', '.join(commands)}] "
    wanted = "a class, or how it begins" if labelling.rows.target.classes else "a number"
    return f"[{wanted}, then Enter; {', '.join(commands)}] "


@contextlib.contextmanager
def _typed(by_key: bool) -> Iterator[Callable[[], str]]:
    """Yield what reads a key, or a line; nothing, or Ctrl-D, once no more is typed."""
    terminal = sys.stdin.fileno()

    def wait() -> None:
        # an interrupt that comes just before a read would be seen after it only
        while not select.select([terminal], [], [], LOOK)[0]:
            pass

    def line() -> str:
        wait()
        return sys.stdin.readline()

    if not by_key:
        yield line
        return
    before = termios.tcgetattr(terminal)

    def key() -> str:
        wait()
        typed = os.read(terminal, 1)
        if typed == b"\x1b":  # what an arrow sends behind it is no answer
            termios.tcflush(terminal, termios.TCIFLUSH)
        return typed.decode("ascii", "replace")

    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)
        yield key
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
