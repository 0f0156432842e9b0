"""Tables of one's own data: from a file on disk to the arrays a learner takes.

Everything here works on the host. :func:`read` says in :attr:`Dataset.notes` what it decided;
what it could only guess it refuses with an error that names the file, the line and the column.
"""

from jaxmkl.labels import labels as labels
from jaxmkl.tables._arrays import scale as scale
from jaxmkl.tables._arrays import with_tasks as with_tasks
from jaxmkl.tables._read import read as read
from jaxmkl.tables._table import Dataset as Dataset

__all__ = ["Dataset", "labels", "read", "scale", "with_tasks"]
