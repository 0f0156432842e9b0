"""Compiled programs that later processes use again."""

import os
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

LEAST = 0.1  # seconds of compilation from which on a program is kept


def compile_cache(folder: str | os.PathLike[str] | None = None) -> str:
    """Keep compiled programs in a folder, so that later processes need not compile them again.

    Call it once, at the beginning of a program; the command ``jaxmkl`` does. JAX keeps a program
    by its code, the versions and the device, and removes none: an hour with many learners leaves
    some tens of megabytes, and the folder may be deleted at any time. ``import jaxmkl`` alone
    changes nothing in JAX's configuration.

    Args:
      folder: by default the one that JAX has been given already (``JAX_COMPILATION_CACHE_DIR``),
        which then stays as it is, else ``jaxmkl`` in ``XDG_CACHE_HOME``, else ``~/.cache/jaxmkl``.

    Returns:
      The folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     compile_cache(folder) == folder
    True
    """
    known = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if folder is None and known:
        return known
    if folder is None:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "jaxmkl")
    jax.config.update("jax_compilation_cache_dir", os.fspath(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST)
    compilation_cache.reset_cache()  # JAX looks for a folder once, before its first program
    return os.fspath(folder)
