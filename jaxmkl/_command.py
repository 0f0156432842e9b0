"""The imports of the command take a second: an interrupt amid them ends it, without a traceback.

So does one while Python ends, which alone would lose it and return 0.

This module is imported before all others.
"""

import os
import signal
import sys
from pathlib import Path


def _is_command() -> bool:
    """Whether Python was started for the command: by its script or by ``python -m jaxmkl``."""
    first, line = [*getattr(sys, "argv", []), ""][0], sys.orig_argv
    if first == "-m":  # as long as the module is looked for
        return "-m" in line and line[line.index("-m") + 1 :][:1] == ["jaxmkl"]
    return Path(first).stem == "jaxmkl"


def _end(*_: object) -> None:
    os._exit(128 + signal.SIGINT)


def imported() -> None:
    """All is imported: interrupts are what they are elsewhere."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def ends_at_once() -> None:
    """From here on an interrupt ends the process at once, with the status of one."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


if _is_command():
    ends_at_once()
