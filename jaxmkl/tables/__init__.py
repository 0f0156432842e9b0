"""Tables of one's own data: from a file or a DataFrame to the arrays a learner takes.

    read         a whole file or DataFrame as a :class:`Dataset`
    open_table   the same in chunks of rows, whatever the length
    Model        a learner with its columns: predicts another table (save_model, load_model)
    Columns      what each column becomes: decided on the first rows, kept as JSON, applied later

Everything here works on the host. What was decided is said in :attr:`Columns.notes`, a sentence
each; what could only be guessed is refused with an error that names the file, the line and the
column. Tables are read by polars (``pip install "jaxmkl[cli]"``), which is imported where a table
is opened; LIBSVM text and npz files are read without it.
"""

from typing import TYPE_CHECKING, Any

from jaxmkl.labels import labels as labels
from jaxmkl.tables._arrays import scale as scale
from jaxmkl.tables._arrays import with_tasks as with_tasks
from jaxmkl.tables._model import Model as Model
from jaxmkl.tables._model import load_model as load_model
from jaxmkl.tables._model import save_model as save_model
from jaxmkl.tables._polars import needs_polars
from jaxmkl.tables._read import read as read
from jaxmkl.tables._table import Dataset as Dataset

if TYPE_CHECKING:
    from jaxmkl.tables._columns import Columns as Columns
    from jaxmkl.tables._columns import Fills as Fills
    from jaxmkl.tables._source import Table as Table
    from jaxmkl.tables._source import open_table as open_table
    from jaxmkl.tables._text import Chunk as Chunk

_LATE = {"Columns": "_columns", "Fills": "_columns", "Table": "_source", "open_table": "_source"}
_LATE |= {"Chunk": "_text"}
__all__ = [
    "Dataset",
    "Model",
    "labels",
    "load_model",
    "read",
    "save_model",
    "scale",
    "with_tasks",
    *_LATE,
]


def __getattr__(name: str) -> Any:
    """What needs polars, imported when it is first asked for."""
    import importlib

    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs_polars():
        return getattr(importlib.import_module(f"{__name__}.{_LATE[name]}"), name)
