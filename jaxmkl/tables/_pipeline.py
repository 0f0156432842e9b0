"""A pipeline: a learner, its state, and the encoding of a table as its inputs."""

import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import jax
import numpy as np

from jaxmkl import abilities
from jaxmkl._archive import Archive
from jaxmkl._checks import refuse_unless, shown, warn_outside
from jaxmkl._learner import Learner, Prediction
from jaxmkl._pytree import require
from jaxmkl._types import Inputs, PyTree
from jaxmkl._version import __version__
from jaxmkl.checkpoint import load_extra, save_beside
from jaxmkl.evaluate import COVERAGE, Seen, central_intervals, predicts_log_odds
from jaxmkl.tables._reading import How
from jaxmkl.tables._words import needs_polars

if TYPE_CHECKING:
    from jaxmkl.tables._columns import Columns, Fills
    from jaxmkl.tables._learning import Learning
    from jaxmkl.tables._rows import Chunk, Table

FORMAT = 2  #: number of the format of a pipeline's file
AT_ONCE = 1024  # rows that are predicted together


class UnseenCells(UserWarning):
    """Cells of a column have values that did not occur when the column's kind was decided."""


class SkippedRows(UserWarning):
    """Rows that cannot be read were skipped.

    Args:
      numbers: the numbers of their lines or rows.

    >>> print(SkippedRows([3]), SkippedRows([3, 17]), sep="\\n")
    1 row that cannot be read was skipped: 3
    2 rows that cannot be read were skipped: 3, 17
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        one = len(numbers) == 1
        were = "row that cannot be read was" if one else "rows that cannot be read were"
        super().__init__(f"{len(numbers):,} {were} skipped: {shown([*numbers], 20)}")
        self.numbers = numbers


@dataclasses.dataclass(frozen=True, eq=False)
class Pipeline:
    """A learner, its state and the encoding of its tables.

    :meth:`predict` predicts tables and learns nothing. :meth:`ask` and :meth:`learn` are for rows
    in use, one at a time, whose labels come later (:class:`jaxmkl.tables.Session`).

    The command makes one (``jaxmkl run FILE --save PIPELINE``), :func:`load_pipeline` reads one,
    and one can be made by hand:

    >>> import jax, jaxmkl
    >>> from jaxmkl.tables import Columns, open_table
    >>> plants = {"height": [9.0, 1.0, 8.0, 2.0] * 50, "kind": ["tree", "bush"] * 100}
    >>> rows = next(open_table(plants).chunks(200))
    >>> columns = Columns.decide(rows, target="kind")
    >>> X, fills = columns.inputs(rows, columns.init())
    >>> learner = jaxmkl.raker(jaxmkl.Gaussian(1.0), loss="logistic", step_size=0.1)
    >>> learner = jaxmkl.scaled(learner, jaxmkl.wrappers.RunningMoments())
    >>> state = learner.init(jax.random.key(0), X.shape[1])
    >>> state, _ = jaxmkl.run(learner, state, X, columns.targets(rows))
    >>> pipeline = Pipeline(learner, state, columns, fills)
    >>> pipeline.predict({"height": [1.5, 8.5]}).tolist()
    ['bush', 'tree']
    >>> own, prediction = pipeline.ask({"height": 7.5})
    >>> prediction
    'tree'
    >>> pipeline.learn(own, "tree"), pipeline.rows
    (True, 1)
    """

    learner: Learner
    state: PyTree
    columns: "Columns"
    """The encoding of each column of the table."""
    fills: "Fills"
    """The counts and sums whose means fill in missing numbers."""
    rows: int = 0
    """The number of rows from which it has learned."""
    source: str = ""
    """The name of the table."""
    version: str = __version__
    """The version of jaxmkl that made it."""
    seen: Seen = dataclasses.field(default_factory=Seen)
    """The labels seen; the learner's numbers are labels minus ``seen.start``."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in order; none for numbers."""
        return self.columns.classes

    def differences(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """List the pipeline's columns that are not in ``names``, and the names it does not know.

        Raises:
          ValueError: none of the pipeline's columns is there.
        """
        columns = self.columns
        known = {part.name for part in (*columns.kinds, columns.target) if part is not None}
        missing = columns._absent(dict.fromkeys(names))
        return missing, [name for name in names if name not in known]

    def open(self, source: object, **how: Unpack[How]) -> "Table":
        """Open a table that :meth:`predictions` takes, as :func:`jaxmkl.tables.open_table` does.

        A table of a sparse format gets all columns of the pipeline; entries it lacks are zero.

        Raises:
          ValueError: as :func:`jaxmkl.tables.open_table`.
        """
        from jaxmkl.tables.source import open_table

        how["columns"] = [kind.name for kind in self.columns.kinds]
        return open_table(source, **how)

    def predictions(self, data: Inputs, most_bad: int = 0) -> Iterator[tuple["Chunk", Prediction]]:
        """Predict a table chunk by chunk, in the learner's units and in single precision.

        All leaves are NumPy arrays. The ``value`` is (n,) for two classes, (n, K) for K classes,
        and (n,) for numbers, which are targets minus ``seen.start``.

        Args:
          data: a table that :meth:`open` made, or anything that it opens.
          most_bad: how many rows may be skipped because they cannot be read. The chunks lack
            them. A table that :meth:`open` made must keep them (``keep_refused=True``).

        Raises:
          ValueError: none of the pipeline's columns is there.
          jaxmkl.tables.RefusedRows: a cell is of another kind than its column, or a row cannot be
            read, and ``most_bad`` were skipped before.

        Warns:
          UserWarning: a column is not there; all its cells count as missing.
          jaxmkl.tables.UnseenCells: cells have values that the pipeline does not know.
          jaxmkl.tables.SkippedRows: rows were skipped; it names their numbers.
        """
        from jaxmkl.tables._cells import RefusedRows
        from jaxmkl.tables._rows import readable

        keeps, bad = most_bad > 0, list[int]()
        table: Table = data if hasattr(data, "share_read") else self.open(data, keep_refused=keeps)
        try:
            missing, _ = self.differences(table.names)
            if missing:
                first = "row" if table.named_by == 1 else f"{table.named_by or 0:,} rows"
                of = "" if table.named_by is None else f" of the first {first}"
                text = f"not among the columns{of}, and counted as missing cells"
                warn_outside(f"{text}: {shown(missing, 20)}", UserWarning)
            unseen = np.zeros(len(self.columns.kinds), int)
            # rows of another table are not the next of the stream
            state = abilities.out_of_order(self.learner, self.state)
            inputs = functools.partial(self.columns.inputs, fills=self.fills, learn=False)
            for rows in table.chunks(AT_ONCE):
                left = most_bad - len(bad)
                chunk, (X, _), _, reasons, refusal = readable(rows, left, inputs)
                if refusal:
                    raise RefusedRows(dict([*reasons.items()][left:]))
                bad += (rows.numbers[row] for row in reasons)
                if not len(X):
                    continue
                given = set(chunk.frame.columns)
                there = [kind.name in given for kind in self.columns.kinds]
                unseen += there * self.columns.unseen(chunk, X)
                said = self.learner.predict_many(state, X)
                yield chunk, jax.tree.map(np.asarray, said)
            for sentence in self.columns.losses(unseen):
                warn_outside(sentence, UnseenCells)
            if bad:
                warn_outside(SkippedRows(bad))
        finally:
            if table is not data:
                table.close()

    def _all(self, data: Inputs) -> Prediction:
        found = [said for _, said in self.predictions(data)]
        refuse_unless(found, "predict: data must hold a row; got none")
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *found)

    def named(self, values: np.ndarray) -> np.ndarray:
        """Turn values into the names of classes, or numbers in the target's units."""
        target = self.columns.target
        if target is None:
            raise ValueError("predict: the pipeline's table must have a target; it has none")
        return target.named(values, self.seen.start)

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Turn values into probabilities (n, K) of the classes in their order."""
        wanted = "a classifier in jaxmkl.wrappers.probabilities(...)"
        if not self.classes or not predicts_log_odds(self.learner):
            raise ValueError(f"predict_proba: learner must be {wanted}; got {self.learner!r}")
        if values.ndim == 1:
            values = np.stack([np.zeros_like(values), values], axis=1)
        from scipy.special import softmax  # that of JAX would compile for each number of rows

        return softmax(values, axis=1)

    def intervals(
        self, said: Prediction, coverage: float = COVERAGE
    ) -> tuple[np.ndarray, np.ndarray]:
        """Turn a prediction into the ends (n,) of central intervals, in the target's units."""
        if said.distribution is None:
            wanted = "a learner in jaxmkl.wrappers.predictive(...), as of jaxmkl run --density"
            raise ValueError(f"predict_interval: learner must be {wanted}; got {self.learner!r}")
        good = isinstance(coverage, int | float) and 0 < coverage < 1
        require(good, "predict_interval", "coverage", coverage, "a number above 0 and below 1")
        return central_intervals(said.distribution, coverage, self.seen.start)

    def predict(self, data: Inputs) -> np.ndarray:
        """Predict all rows of a table: names of classes, or numbers in the target's units.

        Columns are found by their names; the cells of one that is not there count as missing. The
        target and columns that the pipeline does not know are ignored.

        Args:
          data: a DataFrame, a row or several, a sparse matrix, a path: whatever
            :func:`jaxmkl.tables.open_table` opens.

        Returns:
          (n,): text for classes, float64 for numbers.

        Raises:
          ValueError: none of the pipeline's columns is there, or a cell is of another kind than
            its column.

        Warns:
          UserWarning: as :meth:`predictions`.
        """
        return self.named(np.asarray(self._all(data).value))

    def predict_proba(self, data: Inputs) -> np.ndarray:
        """Predict probabilities (n, K) of :attr:`classes`, as :meth:`predict` does.

        Raises:
          ValueError: as :meth:`predict`, or the learner predicts no probabilities.
        """
        return self.probabilities(np.asarray(self._all(data).value))

    def predict_interval(
        self, data: Inputs, coverage: float = COVERAGE
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predict the ends (n,) between which a label lies with the probability ``coverage``.

        They are quantiles of the densities of a learner in :func:`jaxmkl.wrappers.predictive`, as
        ``jaxmkl run --density`` saves it, in the target's units; rows as for :meth:`predict`.

        Raises:
          ValueError: as :meth:`predict`, or the learner predicts no densities, or the coverage is
            not above 0 and below 1.
        """
        return self.intervals(self._all(data), coverage)

    # the rows in use

    @functools.cached_property
    def _session(self) -> "Learning":
        from jaxmkl.tables._learning import Learning

        return Learning(self)

    def _after(self, result: Any) -> Any:
        """Take over the state of the session, and return the result of its method."""
        vars(self).update(self._session.standing)  # frozen for all others
        return result

    def ask(self, rows: Any) -> tuple[Any, Any]:
        """Predict a row, or several, whose labels come later by :meth:`learn`.

        The rows are the next ones of the stream from which the learner learned, so a learner that
        knows the last labels predicts with them, unlike in :meth:`predict`.

        Args:
          rows: the cells of a row by column, several such rows, or a DataFrame of polars.

        Returns:
          The id and the prediction of the row, or lists of them for several rows.

        Raises:
          ValueError: as :meth:`jaxmkl.tables.Session.ask`.
        """
        asked = self._after(self._session.ask(rows))
        ids, predictions = [one.id for one in asked], [one.prediction for one in asked]
        return (ids[0], predictions[0]) if isinstance(rows, Mapping) else (ids, predictions)

    def learn(self, row: Any, label: object) -> bool:
        """Learn the label of a row: of the id that :meth:`ask` gave, or a row by its cells.

        Labels may come in any order, and at most 10,000 rows wait for theirs.

        Returns:
          False if the learner did not want the label, and so did not learn it.

        Raises:
          ValueError: as :meth:`jaxmkl.tables.Session.learn`.
        """
        is_row = isinstance(row, Mapping)
        learn: Any = self._session.learn_row if is_row else self._session.learn
        return self._after(learn(row, label))

    def forget(self, id: str | int) -> None:
        """Stop waiting for the label of a row, which will never come.

        Raises:
          ValueError: as :meth:`jaxmkl.tables.Session.forget`.
        """
        self._session.forget(id)
        self._after(None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it and the rows that wait for labels, as :func:`save_pipeline` does.

        Raises:
          ValueError: as :func:`jaxmkl.save`.
        """
        save_pipeline(path, self)


def save_pipeline(path: str | os.PathLike[str], pipeline: Pipeline) -> None:
    """Write a pipeline to one npz file, which holds no code and appears whole or not at all.

    :func:`jaxmkl.load` reads its learner and state, too. Rows that wait for labels are written
    with it.

    Raises:
      ValueError: as :func:`jaxmkl.save`.
    """
    extra = {"model": FORMAT, "columns": pipeline.columns.to_json()}
    extra |= {"seen": pipeline.seen._asdict(), "fills": np.array(pipeline.fills).tolist()}
    extra |= {"rows": pipeline.rows, "source": pipeline.source, "jaxmkl": pipeline.version}
    arrays: dict[str, np.ndarray] = {}
    if (session := vars(pipeline).get("_session")) is not None:
        extra["session"], arrays = session.to_arrays()
    save_beside(path, pipeline.learner, pipeline.state, extra, more=arrays)


def load_pipeline(path: str | os.PathLike[str]) -> Pipeline:
    """Read a pipeline that :func:`save_pipeline` or the command wrote.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file is not a pipeline, or of another format, or damaged.
      ImportError: polars (the extra ``cli``) is not installed.
    """
    with needs_polars():
        from jaxmkl.tables._columns import Columns, Fills
    learner, state, extra = load_extra(path)
    name = os.fspath(path)
    if not isinstance(extra, dict) or "model" not in extra:
        text = "holds a learner and its state, but no table: jaxmkl.load reads it"
        raise ValueError(f"load_pipeline: {name} {text}")
    if extra["model"] != FORMAT:
        of = f"format {extra['model']!r}, written by jaxmkl {extra.get('jaxmkl')}"
        text = f"is a pipeline of {of}; this is jaxmkl {__version__}, which reads format {FORMAT}"
        raise ValueError(f"load_pipeline: {name} {text}: make it again, or use that version")
    try:
        columns = Columns.from_json(extra["columns"])
        fills = Fills(*np.array(extra["fills"], np.float64))
        made = int(extra["rows"]), str(extra["source"]), str(extra["jaxmkl"])
        start, counts, total, last = (extra["seen"][name] for name in Seen._fields)
        seen = Seen(float(start), tuple(map(float, counts)), float(total), float(last))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"load_pipeline: {name}: {error}") from None
    pipeline = Pipeline(learner, state, columns, fills, *made, seen)
    text = "its columns do not fit its learner, or its fills or counts are not finite"
    refuse_unless(_fits(pipeline), f"load_pipeline: {name} is damaged: {text}")
    if "session" in extra:
        try:
            with open(name, "rb") as file:
                archive = Archive(file)
                own = (key for key in archive.keys if key.startswith("waiting"))
                arrays = {key: archive.read(key) for key in own}
            pipeline._session.restore(extra["session"], arrays)
        except (ValueError, KeyError, TypeError) as error:
            text = f"is damaged: the rows that wait for labels: {error}"
            raise ValueError(f"load_pipeline: {name} {text}") from None
    return pipeline


def _fits(pipeline: Pipeline) -> bool:
    """Check that columns and classes are as many as the learner's, and all numbers finite."""
    learner, columns, K = pipeline.learner, pipeline.columns, len(pipeline.classes)
    start, counts, *others = pipeline.seen
    numbers = [start, *counts, *others, *np.ravel(pipeline.fills)]
    return (
        len(columns.features) == learner.num_inputs(pipeline.state)
        and columns.task in ("", learner.task)
        and (K == 0 or learner.num_outputs == (None if K == 2 else K))
        and len(pipeline.seen.counts) in (0, max(1, K))
        and np.shape(pipeline.fills) == np.shape(columns.init())
        and bool(np.isfinite(numbers).all())
    )
