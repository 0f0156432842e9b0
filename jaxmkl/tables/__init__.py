"""Tables of one's own data become the arrays that a learner takes.

    read         a whole file or DataFrame as a :class:`Dataset`
    open_table   the same in chunks of rows, whatever the length
    Pipeline     a learner with its columns, which predicts other tables; saved by save_pipeline,
                 read by load_pipeline
    Session      a pipeline in use: rows one at a time, whose labels come later
    Columns      how each column is encoded: decided on the first rows, kept as JSON, used later

Everything here works on the host. Each decision is a sentence in :attr:`Columns.notes`; nothing is
guessed: a table that leaves a choice open is refused with its file, line and column.
Tables are read with polars (``pip install "jaxmkl[cli]"``), which is imported when a table is
opened.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jaxmkl._scale import scale
from jaxmkl.evaluate import Seen
from jaxmkl.labels import labels
from jaxmkl.tables._pipeline import (
    Pipeline,
    SkippedRows,
    UnseenCells,
    load_pipeline,
    save_pipeline,
)
from jaxmkl.tables._read import read
from jaxmkl.tables._reading import LONGEST_LINE
from jaxmkl.tables._table import Dataset, with_tasks
from jaxmkl.tables._words import needs_polars as _needs_polars
from jaxmkl.tables._words import usual_target

if TYPE_CHECKING:
    from jaxmkl.tables._cells import RefusedRows
    from jaxmkl.tables._columns import Columns, Fills
    from jaxmkl.tables._given import Refused
    from jaxmkl.tables._learning import Asked
    from jaxmkl.tables._rows import Chunk, Readable, Table, readable
    from jaxmkl.tables.session import Session
    from jaxmkl.tables.source import open_table

_LATE = ("_cells", "_columns", "_given", "_learning", "_rows", "session", "source")
__all__ = [
    "LONGEST_LINE",
    "Asked",
    "Chunk",
    "Columns",
    "Dataset",
    "Fills",
    "Pipeline",
    "Readable",
    "Refused",
    "RefusedRows",
    "Seen",
    "Session",
    "SkippedRows",
    "Table",
    "UnseenCells",
    "labels",
    "load_pipeline",
    "open_table",
    "read",
    "readable",
    "save_pipeline",
    "scale",
    "usual_target",
    "with_tasks",
]


def __getattr__(name: str) -> Any:
    """Import all that needs polars when the first of it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _needs_polars():
        for module in _LATE:
            found = vars(importlib.import_module(f"{__name__}.{module}"))
            globals().update((late, found[late]) for late in {*__all__} & found.keys())
    return globals()[name]
