"""``python -m experiments``: check the names on the command line, then run the command.

Unknown names are refused before anything slow is imported.
"""

import sys
from collections.abc import Sequence

from .names import refusal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, or 2 if the request cannot be met."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if why := refusal(arguments):
        print(f"python -m experiments: {why}", file=sys.stderr)
        return 2
    from .commands import run  # takes seconds

    return run(arguments)


if __name__ == "__main__":
    if "bench" not in sys.argv[1:2] and not refusal(sys.argv[1:]):
        from jaxmkl import compile_cache

        compile_cache()  # but for benchmarks: what measures compilation has to compile
    sys.exit(main())
