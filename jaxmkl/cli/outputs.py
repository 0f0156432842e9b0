"""The files that a command writes: none that it or another process uses; each may fail alone."""

import contextlib
import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path

from jaxmkl._files import is_special, kept_from_others
from jaxmkl.evaluate import UsageError

OPTIONS = "checkpoint", "predictions", "save", "json", "report"


class Outputs:
    """Files by the options that name them, and which of them could not be written."""

    def __init__(self, paths: dict[str, Path]) -> None:
        self.paths, self.failed = paths, set[str]()

    @contextlib.contextmanager
    def writing(self, option: str) -> Iterator[None]:
        """Report an error of the system as a failure of this file, and continue."""
        try:
            yield
        except OSError as error:
            if option not in self.failed:
                text = f"{error.filename or self.paths[option]}: {error.strerror or error}"
                print(f"jaxmkl: --{option}: {text}", file=sys.stderr)
            self.failed.add(option)
        else:
            self.failed.discard(option)


def refuse_input(option: str, path: Path, inputs: Iterable[str | Path], of: str) -> None:
    """Refuse to write over a file that is read.

    Raises:
      UsageError: if it is one of these inputs of the command or the session.
    """
    if path.resolve() in [Path(name).resolve() for name in inputs]:
        raise UsageError(f"{option}: {path} is an input of the {of}; name another file")


@contextlib.contextmanager
def reserved(given: Namespace) -> Iterator[Outputs]:
    """Lock all files that the options name, which also checks that their folders can be written.

    Raises:
      UsageError: if one cannot be written, is written by another process or read by the run.
    """
    paths = {name: path for name in OPTIONS if (path := getattr(given, name)) is not None}
    known = {Path(given.file).resolve(): "FILE"}
    with contextlib.ExitStack() as stack:
        for name, path in paths.items():
            if is_special(path) and name != "checkpoint":  # which is read as well
                continue
            other = known.setdefault(path.resolve(), f"--{name}")
            if other != f"--{name}":
                raise UsageError(f"--{name}: {path} is also named by {other}")
            if os.path.exists(path) and not path.is_file():
                raise UsageError(f"--{name}: {path} is not a file")
            if not path.parent.is_dir():
                raise UsageError(f"--{name}: {path}: the folder {path.parent} does not exist")
            try:
                stack.enter_context(kept_from_others(path))
            except OSError as error:
                raise UsageError(f"--{name}: {path}: {error.strerror}") from None
        yield Outputs(paths)
