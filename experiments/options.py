"""The options of the command line, parsed."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jaxmkl.evaluate import UsageError

Settings = Mapping[str, Any]  # what --set gave, by name


@dataclasses.dataclass(frozen=True)
class Options:
    """The parsed command line. ``None`` stands for the job's own default."""

    command: str = "tour"
    datasets: tuple[str, ...] | None = None
    algorithms: tuple[str, ...] | None = None
    parts: tuple[str, ...] | None = None
    seeds: int | None = None
    data: Path | None = None
    json: Path | None = None
    file: Path | None = None
    out: Path | None = None
    plots: Path | None = None
    settings: Settings = dataclasses.field(default_factory=dict)
    benchmark: str = "short"
    rounds: int | None = None
    beside: Path | None = None
    quick: bool = False
    jobs: int = 1
    only: tuple[str, ...] | None = None


@contextmanager
def refused() -> Iterator[None]:
    """Turn the error for a file or a value into one line for the screen."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from error
    except (ValueError, ImportError) as error:
        raise UsageError(" ".join(str(error).split())) from error


def chosen(
    kind: str, wanted: Collection[str] | None, known: Collection[str], default: Collection[str]
) -> tuple[str, ...]:
    """Return the requested names in their order, or the default ones.

    Raises:
        UsageError: if a requested name is unknown; the message lists the known ones.
    """
    if wanted is None:
        return tuple(default)
    for name in wanted:
        if name not in known:
            raise UsageError(f"unknown {kind} {name!r}; there are: {', '.join(known)}")
    return tuple(dict.fromkeys(wanted))
