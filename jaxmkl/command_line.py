"""Parsers of options, for the command ``jaxmkl`` and for ``python -m experiments``."""

import argparse
import ast
import os
from pathlib import Path
from typing import NoReturn

import jax

from jaxmkl.evaluate import UsageError


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise UsageError(message)


def names(text: str) -> tuple[str, ...]:
    """Parse names separated by commas."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise argparse.ArgumentTypeError("expected names separated by commas")
    return found


def count(text: str, least: int = 1) -> int:
    """Parse a whole number, by default of at least 1."""
    if not text.isdecimal() or int(text) < least:
        wanted = f"a whole number of at least {least}"
        raise argparse.ArgumentTypeError(f"expected {wanted}; got {text!r}")
    return int(text)


def setting(text: str) -> tuple[str, object]:
    """Parse NAME=VALUE; the value is a Python literal, or else text."""
    name, equals, value = text.partition("=")
    if not name.isidentifier() or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE; got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def keep_programs() -> None:
    """Cache compiled programs for later calls, unless JAX has been given a place for them."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        jax.config.update("jax_compilation_cache_dir", str(Path(home, "jaxmkl")))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
