"""polars is imported where a table is read."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def needs_polars() -> Iterator[None]:
    """Say what to install if polars cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "polars":
            raise
        text = 'tables are read by polars: pip install "jaxmkl[cli]"'
        raise ImportError(text, name="polars") from None
