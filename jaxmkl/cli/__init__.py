"""The command ``jaxmkl``: one's own data from a file to a table, a pipeline, predictions.

    jaxmkl run FILE          learn from a table in the order of its rows, each predicted before its
                             label is seen; a table beside baselines, a page, a pipeline,
                             predictions
    jaxmkl predict PIPELINE FILE
                             predict the rows of a table with a pipeline; nothing is learned
    jaxmkl ask FILE|PIPELINE label rows by hand, or by a process; each answer is learned
    jaxmkl serve PIPELINE    answer rows by predictions, and learn labels as they come
    jaxmkl select FILE       choose the rows of a table to label first
    jaxmkl info PIPELINE     describe a pipeline
    jaxmkl export PIPELINE OUT
                             write a pipeline as a file that predicts without jaxmkl

``jaxmkl COMMAND --help`` lists the options. ``-`` is standard input, or standard output for a file
of text. No command writes a file that it reads. The exit status is 0 on success, 1 if a file could
not be written or the device failed, 2 for a request that cannot be met, and 130 or 143 after an
interrupt.

Cells are written to CSV files unchanged. A spreadsheet takes a cell that begins with =, +, - or @
for a formula, so import columns of text as text there.
"""

import contextlib
import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from jaxmkl import _command
from jaxmkl._checks import shown
from jaxmkl._compile_cache import compile_cache
from jaxmkl._devices import failure
from jaxmkl.cli.interrupts import INTERRUPTED
from jaxmkl.cli.options import parser_of
from jaxmkl.evaluate import printable


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status, 143 after SIGTERM.

    A line on standard error explains what cannot be met or done.
    """
    out: Any = sys.stdout
    if not hasattr(out, "reconfigure"):
        return _main(arguments)
    before = out.errors
    out.reconfigure(errors="backslashreplace")  # letters that its encoding lacks are escaped
    try:
        return _main(arguments)
    finally:
        with contextlib.suppress(ValueError, OSError):  # it was closed, or takes no more
            out.reconfigure(errors=before)


def _main(arguments: Sequence[str] | None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        # which need the extra ``cli``
        from jaxmkl.cli import ask, export, info, predict, run, select, serve

        parser, commands = parser_of(__doc__ or "")
        for command in (run, predict, ask, serve, select, info, export):
            command.add_to(commands)
        options, more = parser.parse_known_args(arguments)
        if more:
            parser.error(_too_much(options.name, more))
        options.line = shlex.join(["jaxmkl", *arguments])
        return options.command(options)
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        _complain(f"{error.filename}: " * bool(error.filename) + f"{error.strerror or error}")
    except (ValueError, ImportError) as error:
        _complain(error)
    except KeyboardInterrupt as interrupt:
        _complain("interrupted")
        return interrupt.args[0] if interrupt.args else INTERRUPTED
    except Exception as error:
        if not (text := failure(error)):
            raise
        _complain(text)
        return 1
    return 2


def _too_much(command: str, words: Sequence[str]) -> str:
    """The sentence on words of a command line that are left over."""
    if any(word.startswith("-") and word != "-" for word in words):
        return f"unrecognized arguments: {' '.join(words)}"
    if command not in ("run", "predict", "ask", "select"):  # of one pipeline
        return f"{command} takes one PIPELINE at a time; got {shown(words)} as well"
    text = f"{command} takes one FILE; got {shown(words)} as well. Join CSV files under one header"
    return f"{text} (cat A.csv > ALL.csv; tail -q -n +2 B.csv C.csv >> ALL.csv) and name that"


def _complain(text: object) -> None:
    print(f"jaxmkl: {printable(' '.join(str(text).split()))}", file=sys.stderr)


def entry() -> int:
    """Run ``jaxmkl`` or ``python -m jaxmkl``: :func:`main`, with compiled programs cached."""
    _command.has_standard_files()
    _command.ends_at_once()  # no interrupt may be raised where JAX would discard it
    compile_cache()
    warnings.formatwarning = lambda text, *_: f"jaxmkl: {printable(text)}\n"
    status = main()
    try:
        sys.stdout.flush()
    except OSError:
        if status < INTERRUPTED:
            return status  # Python says what is wrong with the standard output
    # without waiting for computations that still run; and Python's own end would lose interrupts
    os._exit(status)
