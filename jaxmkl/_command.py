"""Needs of the command before all imports: standard files, and an end at an interrupt.

An interrupt ends the command at once, without a traceback, wherever nothing else handles it.

Python would raise it in whatever runs then: amid the imports, which take a second, in a callback
of the garbage collector, where JAX discards it, or while Python ends, which would return 0.
:class:`jaxmkl.cli.interrupts.Interrupts` handles it where there is something to clean up.

This module is imported before all others.
"""

import os
import signal
import sys
from pathlib import Path


def _is_command() -> bool:
    """True if Python was started for the command: by its script or by ``python -m jaxmkl``."""
    first, line = [*getattr(sys, "argv", []), ""][0], sys.orig_argv
    if first == "-m":  # as long as the module is looked for
        return "-m" in line and line[line.index("-m") + 1 :][:1] == ["jaxmkl"]
    return Path(first).stem == "jaxmkl"


def _end(*_: object) -> None:
    os._exit(128 + signal.SIGINT)


def ends_at_once() -> None:
    """From here on an interrupt ends the process at once, with the status of one."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def has_standard_files() -> None:
    """Have the null device where a standard file was closed by the caller.

    Otherwise Python has none, and gives its number to the next file; NumPy 2.0 needs one to print
    errors to when it is imported.
    """
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (it stays open)


if _is_command():
    has_standard_files()
    ends_at_once()
