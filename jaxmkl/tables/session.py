"""A session: a pipeline in use, for rows whose labels come later."""

import os

from jaxmkl.tables._learning import Learning
from jaxmkl.tables._pipeline import Pipeline, load_pipeline, save_pipeline


class Session(Learning):
    """A pipeline in use: rows are asked for, and their labels are learned whenever they come.

    A session is one stream, as of :func:`jaxmkl.wrappers.delayed`: each row that is asked for is
    the next one. It is predicted by what was learned so far, and learned as it was predicted: with
    the same inputs, and with the last labels of that time. Missing cells are filled by the means
    of the rows so far, and the first label is the origin of numbers. So rows that are asked for
    and learned in the order of a file have, to rounding, the predictions of ``jaxmkl run FILE
    --from PIPELINE``. If each label is learned once N further rows were asked for, they are those
    of ``--delay N`` up to the first row whose label the learner does not want: a session, which
    does not know N, skips such a row at once, and a delayed run N rounds later. So a learner that
    wants every label has the predictions of ``--delay N`` throughout; with a query or a budget,
    what reads skipped rows (running scales, last labels, the number of rounds) is up to N rounds
    ahead.

    A label that comes although the learner did not want it counts as seen, but is not learned, as
    in a run. A row whose label will never come (:meth:`forget`) is like a row of a run without
    one.

    A session is used by one thread at a time.

    Args:
      pipeline: the pipeline to begin with, which stays as it is.
      most_waiting: how many rows may have no label yet, those that the learner skipped among them;
        beyond, the oldest one is forgotten. It may be set later, too.

    Raises:
      ValueError: the pipeline's table has no target, or ``most_waiting`` is no positive integer.

    >>> import jax, jaxmkl
    >>> from jaxmkl.tables import Columns, Pipeline, Session, open_table
    >>> rows = next(open_table({"height": [9.0, 1.0], "kind": ["tree", "bush"]}).chunks(2))
    >>> columns = Columns.decide(rows, target="kind")
    >>> learner = jaxmkl.raker(jaxmkl.Gaussian(1.0), loss="logistic")
    >>> state = learner.init(jax.random.key(0), num_inputs=1)
    >>> session = Session(Pipeline(learner, state, columns, columns.init()))
    >>> for row, kind in [({"height": 9.0}, "tree"), ({"height": 1.0}, "bush")]:
    ...     session.learn_row(row, kind)
    True
    True
    >>> [asked.prediction for asked in session.ask([{"height": 8.8}, {"height": 1.2}])]
    ['tree', 'bush']
    >>> session.learn(1, "bush")
    True
    >>> [*session.waiting]
    [0]
    """

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline as it is now: a value that learns nothing of what comes later."""
        return super().pipeline

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the pipeline and the rows that wait to one file, as :func:`save_pipeline` does.

        :meth:`load` continues from it bit for bit; :func:`load_pipeline` reads it, too.

        Raises:
          ValueError: as :func:`jaxmkl.save`.
        """
        pipeline = self.pipeline
        vars(pipeline)["_session"] = self  # which waits for its labels
        save_pipeline(path, pipeline)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Session":
        """Read a session that :meth:`save` wrote, or begin one with any pipeline's file.

        Raises:
          FileNotFoundError, ValueError: as :func:`load_pipeline`.
        """
        pipeline = load_pipeline(path)
        session = cls(pipeline)
        session.restore(*pipeline._session.to_arrays())
        return session
