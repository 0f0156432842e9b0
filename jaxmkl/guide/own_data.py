"""Your own data: from a file to a table of results, a model, predictions.

Install with ``pip install -e ".[cli]"``. The examples here run in Python; in a terminal write
``jaxmkl run trees.csv`` for ``main(["run", "trees.csv"])``.

## A file

This file has words, dates, numbers and a missing cell. Its target is ``height``.

>>> import contextlib, os, pathlib, random, tempfile
>>> before = os.getcwd()
>>> os.chdir(folder := tempfile.mkdtemp())
>>> draw = random.Random(0)
>>> rows = ["planted,soil,rain,height"]
>>> for day in range(300):
...     soil, rain = draw.choice(["clay", "sand"]), draw.uniform(0, 9)
...     height = 2 + rain * (3 if soil == "clay" else 1) + draw.gauss(0, 0.5)
...     shown = "" if day == 7 else f"{rain:.3f}"
...     rows.append(f"2024-{1 + day // 28:02}-{1 + day % 28:02},{soil},{shown},{height:.3f}")
>>> _ = pathlib.Path("trees.csv").write_text("\\n".join(rows))

## What each column becomes

The first rows (1,000 by default, ``--first N``) decide once, and the decision is printed. Nothing
later changes it: an unknown word becomes all zeros, and a missing number the mean of those before.
Inputs are scaled by their means and deviations so far, but those that are 0 or 1 are not.

>>> import jaxmkl
>>> from jaxmkl.tables import Columns, open_table
>>> with contextlib.closing(open_table("trees.csv")) as table:
...     first = next(table.chunks(1000))
>>> print(*Columns.decide(first, target="height").notes, sep="\\n")
column 'planted' holds times of the form %Y-%m-%d: days since the first, and turns of week and year
as sin and cos
column 'soil' holds words: one 0/1 input for each of its 2 values; others are all zeros
column 'rain': numbers, missing cells become the mean so far, an input tells which

Text becomes TF-IDF weights of its words, of the 512 that occur in most of the first rows
(``--as note=text:2048`` keeps more). If most inputs are words, ``expert_mkl`` has linear models of
them, and kernels of the other inputs.

If you know better, use ``--drop COLUMN`` or ``--as COLUMN=KIND``. An ambiguous cell
(``01/02/2024``; ``1,234``) is refused; the message has its line, its column and what to write.

A first line that looks like a row, or is a title or a comment, is refused; ``--names a,b,c``,
``--no-header`` and ``--header`` say what it is, and ``--missing=None,-`` names more words for
missing cells. A LIBSVM file or a sparse matrix has the columns that the pipeline knows, and the
columns that a row does not name are zero.

## A run

Each row is predicted before its label is seen, in the order of the file. So the errors are those
of a learner in use. Two baselines ignore the inputs. One predicts the mean of the labels so far
(for classes, the most frequent one), the other predicts the last label. A learner that is no
better than these has learned nothing; a note names those that are worse than the mean. Another
note names columns with heavy tails, and what helps (:mod:`jaxmkl.guide.troubleshooting`). Rows
without a target are predicted, but not learned.

Two more baselines read the inputs, up to 100, and know as little of the rows to come:

- "linear so far" is ridge regression on all rows whose labels are known;
- "boosting so far" is scikit-learn's histogram gradient boosting, of up to 32 classes, where that
  package is installed. It is fitted when 256 labels are known and then whenever there are half as
  many more, on the last 20,000 rows at most; before, it predicts the mean. A checkpoint keeps the
  rows that it needs. If a part of a run was without scikit-learn, it is left out.

If one of them certainly errs less than the best learner and the mean, by more than 5 % over the
last half of the rows, the run ends with a line that says so.

Classifiers predict probabilities. The table judges these by the log loss, the Brier score and the
calibration error, which compares how sure a learner is with how often it is right. The report
draws the calibration.

With ``--density``, learners of numbers predict a distribution of each label
(:func:`jaxmkl.wrappers.predictive`); their predictions stay the same. The table then has four more
figures:

- the log score, the mean logarithm of the density at the label;
- the CRPS, which is the absolute error if a prediction is a single number;
- the coverage, the share of labels inside intervals of 90 %;
- the mean width of these intervals.

``--json`` also has them by windows of rows (``density``). The report's section "How sure it is"
draws

- the probability integral transform, which is the predicted probability of at most the label, in
  ten bins: it is level if densities are right, high at both ends if they are too narrow, and high
  in the middle if they are too wide;
- the share of labels inside their intervals, by tenths of the rows, which shows whether intervals
  were too narrow for a while;
- the last 100 labels with their predictions and intervals.

``--predictions OUT`` then has the ends of the interval, ``low`` and ``high``, beside each
prediction. A pipeline saved by such a run keeps its densities: ``jaxmkl predict`` writes the same
columns, and ``--from`` scores them again.

Before the first label the target is unknown, and numbers are predicted as 0. So all learners are
compared on the same rows, from the first one that each of them predicts after a label. This is the
second row, or a later one if labels are late or missing at first; the table says which. A pipeline
given by ``--from`` continues with the labels it has seen, and so do the baselines, though those
that read the inputs know only means of earlier labels. The baselines see every label, even those
that the learner does not ask for (``--labels``).

>>> from jaxmkl.cli import main
>>> options = ["--learner", "raker", "--set", "num_features=20", "--set", "step_size=0.02"]
>>> wanted = [*options, "--density", "--save", "trees.npz", "--json", "trees.json"]
>>> status = main(["run", "trees.csv", *wanted])                    # doctest: +ELLIPSIS
<BLANKLINE>
...
>>> status
0

More options:

- ``--labels .1`` asks for the labels of a tenth of the rows. Rows without a label count, too. For
  classes, the share is larger in the first 1,000 rows (:class:`jaxmkl.query.Rate`).
- ``--delay 20`` lets labels arrive 20 rows late.
- ``--seeds 5`` repeats the run with other random features.
- ``--predictions OUT`` writes all predictions.
- ``--report OUT.html`` makes a page with all results and curves, for use offline.

>>> import json
>>> found = json.loads(pathlib.Path("trees.json").read_text())
>>> skill = found["table"][0]["metrics"]["skill"][0]        # 1 - mse / that of the mean so far
>>> skill > 0.5
True

>>> 0.8 < found["table"][0]["metrics"]["coverage"][0] < 1.0
True
>>> density = found["table"][0]["density"]
>>> [*density["curves"]], sum(density["pit"])               # no density before two labels differ
(['log_score', 'crps', 'coverage', 'width'], 298.0)

## A pipeline

The file holds the learner, its state and the columns' encoding, but no code. It predicts other
tables by the names of their columns, and does not learn from them. Their rows need not follow
those that were learned, so the last labels, which the default learner uses in a stream, count as
unknown:

>>> pipeline = jaxmkl.load_pipeline("trees.npz")
>>> clay, sand = pipeline.predict({"soil": ["clay", "sand"], "rain": [8.0, 8.0],
...                                "planted": ["2024-11-01", "2024-11-01"]})
>>> bool(clay > sand + 5)
True

It also predicts intervals, in which a number lies with a probability of 90 %, or another one:

>>> one = {"soil": ["clay"], "rain": [8.0], "planted": ["2024-11-01"]}
>>> low, high = pipeline.predict_interval(one, 0.9)
>>> bool(low[0] < clay < high[0])
True

``predict`` takes files, and DataFrames of polars, pandas and Arrow; ``predict_proba`` returns
probabilities of classes. ``jaxmkl predict trees.npz OTHER`` does the same in a terminal, and
``jaxmkl run MORE --from trees.npz`` continues to learn. ``jaxmkl export trees.npz OUT.npz`` writes
a file that a module of 150 lines predicts with, by NumPy alone (:mod:`jaxmkl.export`).

## Long files, and streams that do not end

Files are read in chunks of rows, so memory does not grow with their size. Parquet and Arrow from
standard input, npz and ARFF are read whole; if such a file is compressed, it may expand to 256 MiB
or 100 times its bytes, whichever is more. A line of text may take ``--longest-line`` MiB.

With ``--checkpoint`` the whole run, including its table of results, is saved every five minutes or
``--every N`` rows. After any stop the same command continues from there, with the same result as
without the stop:

>>> wanted += ["--checkpoint", "trees.run", "--predictions", "said.csv"]
>>> statuses = [main(["run", "trees.csv", *wanted]) for _ in "ab"]    # doctest: +ELLIPSIS
<BLANKLINE>
...
>>> statuses, len(pathlib.Path("said.csv").read_text().splitlines())
([0, 0], 301)

An interrupt (Ctrl-C, or SIGTERM of a batch system) ends a run within seconds, with a checkpoint,
the table so far and all files, and the exit status 130 (143); a second one ends it at once. While
a run lasts, another run that names one of its files is refused. If a file cannot be written, a
message says so, the others are written, and the exit status is 1.

Standard input (``-``) continues with the next rows. In Python :func:`jaxmkl.stream` takes chunks
from any iterator, and :class:`jaxmkl.streaming.Checkpoints` keeps the last two checkpoints.

>>> os.chdir(before)

**Rows that cannot be read.** ``jaxmkl run`` ends at such a row as it does at an interrupt: the
rows before it are learned and written, the status is 2, and the last line says how to continue. A
row cannot be read if a cell or class does not fit its column, or if the line has another number
of cells, is not UTF-8 or has a wrong quote. ``--bad-rows N`` skips up to N such rows, which the
JSON file lists as ``bad_rows``. ``jaxmkl predict`` refuses such a row; with ``--bad-rows N`` it
leaves out up to N of them, and names them. ``ask`` and ``select`` need the whole table, and refuse
it until the row is corrected.

**What is written.** No command writes a file that it reads, by whatever name. For files of text
(``--predictions``, ``--json``, ``--report``, ``--out``) ``-`` is standard output; messages then go
to standard error. Cells are written to CSV files unchanged. A spreadsheet takes a cell that begins
with =, +, - or @ for a formula, so import columns of text as text there.
"""
