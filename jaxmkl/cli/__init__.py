"""The command ``jaxmkl``: one's own data from a file to a table, a pipeline, predictions.

    jaxmkl run FILE          learn from a table in the order of its rows, each predicted before its
                             label is seen; a table beside baselines, a page, a pipeline,
                             predictions
    jaxmkl predict PIPELINE FILE
                             predict the rows of a table with a pipeline; nothing is learned
    jaxmkl ask FILE|PIPELINE label rows by hand, or by a process; each answer is learned
    jaxmkl select FILE       choose the rows of a table to label first
    jaxmkl info PIPELINE     describe a pipeline

``jaxmkl COMMAND --help`` has the options. ``-`` is standard input. The exit status is 0 on
success, 1 if a file could not be written, 2 for a request that cannot be met, 130 or 143 after an
interrupt.
"""

import os
import shlex
import sys
from collections.abc import Sequence

from jaxmkl import _command
from jaxmkl.cli.interrupts import INTERRUPTED
from jaxmkl.cli.options import parser_of
from jaxmkl.command_line import keep_programs
from jaxmkl.evaluate import UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    The status is 0 on success, 1 if a file could not be written, 2 for a request that cannot be
    met, which a line on standard error explains, 130 after an interrupt and 143 after SIGTERM.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        from jaxmkl.cli import ask, info, predict, run, select  # which need the extra ``cli``

        parser, commands = parser_of(__doc__ or "")
        for command in (run, predict, ask, select, info):
            command.add_to(commands)
        options = parser.parse_args(arguments)
        options.line = shlex.join(["jaxmkl", *arguments])
        _command.imported()
        return options.command(options)
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        print(f"jaxmkl: {name}{error.strerror or error}", file=sys.stderr)
    except (UsageError, ValueError, ImportError) as error:
        print(f"jaxmkl: {' '.join(str(error).split())}", file=sys.stderr)
    except KeyboardInterrupt as interrupt:
        print("jaxmkl: interrupted", file=sys.stderr)
        return interrupt.args[0] if interrupt.args else INTERRUPTED
    return 2


def entry() -> int:
    """Run ``jaxmkl`` or ``python -m jaxmkl``: :func:`main`, with compiled programs cached."""
    keep_programs()
    status = main()
    _command.ends_at_once()
    try:
        sys.stdout.flush()
    except OSError:
        if status < INTERRUPTED:
            return status  # Python says what is wrong with the standard output
    # without waiting for computations that still run; and Python's own end would lose interrupts
    os._exit(status)
