"""One's own data: from a file to a table of results, a model, predictions.

Install with ``pip install -e ".[cli]"``. The examples here run in Python; in a terminal write
``jaxmkl run trees.csv`` for ``main(["run", "trees.csv"])``.

## A file

Here is one, with words, dates, a missing cell and numbers; the target is ``height``.

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

It is decided on the first rows (1,000 by default, ``--first N``), once, and said. Nothing later
changes it: a word that was not there is all zeros, a missing number becomes the mean of those
before it.

>>> import jaxmkl
>>> from jaxmkl.tables import Columns, open_table
>>> with contextlib.closing(open_table("trees.csv")) as table:
...     first = next(table.chunks(1000))
>>> print(*Columns.decide(first, target="height").notes, sep="\\n")
column 'planted' holds times of the form %Y-%m-%d: days since the first, and turns of week and year
as sin and cos
column 'soil' holds words: one 0/1 feature for each of its 2 values; others are all zeros
column 'rain': numbers, missing cells become the mean so far, a feature tells which

Where it decided against what you know, say so: ``--drop COLUMN``, ``--as COLUMN=KIND``. What can
be read in two ways (``01/02/2024``; ``1,234``) is refused with its line, its column and what to
write.

## A run

Each row is predicted before its label is seen, in the order of the file: the errors are those of
a learner that has to work while it learns. Beside the learners stand two that know no inputs: the
mean (or the larger class) so far, and the last label. A learner that does not beat these learned
nothing. Rows without a target are predicted, not learned.

Before the first label nobody knows where the target lies: numbers are predicted as 0. All are
judged on the same rows, from the first on that each predicts with a label known (the second, or
later where labels are late or missing at first; the table says which). A model of ``--from`` goes
on with what it saw of labels, for the baselines too. These see every label, asked for or not, so
that they are the same for all: with ``--labels`` a learner is held against those who know more.

>>> from jaxmkl.cli import main
>>> options = ["--learner", "expert_mkl", "--set", "num_features=20"]
>>> wanted = [*options, "--save", "trees.npz", "--json", "trees.json"]
>>> status = main(["run", "trees.csv", *wanted])                    # doctest: +ELLIPSIS
<BLANKLINE>
...
>>> status
0

``--labels .1`` asks for a tenth of the labels, ``--delay 20`` has them come 20 rows late,
``--seeds 5`` draws the random features anew, ``--predictions OUT`` writes what was said of every
row, ``--report OUT.html`` makes a page of it all, with curves, that needs no network.

>>> import json
>>> found = json.loads(pathlib.Path("trees.json").read_text())
>>> skill = found["table"][0]["metrics"]["skill"][0]        # 1 - mse / that of the mean so far
>>> skill > 0.5
True

## A model

The file holds the learner, its state and what columns become, and no code. It predicts other
tables, by the names of their columns, and learns nothing:

>>> model = jaxmkl.load_model("trees.npz")
>>> clay, sand = model.predict({"soil": ["clay", "sand"], "rain": [8.0, 8.0],
...                             "planted": ["2024-11-01", "2024-11-01"]})
>>> bool(clay > sand + 5)
True

``predict`` takes files, and DataFrames of polars, pandas and Arrow; ``predict_proba`` gives
probabilities of classes. ``jaxmkl predict trees.npz OTHER`` does the same in a terminal, and
``jaxmkl run MORE --from trees.npz`` goes on learning.

## Long files, and streams that do not end

Files are read in chunks of rows, and memory does not grow with them (Parquet and Arrow from
standard input, and npz, are read whole). With ``--checkpoint`` the whole run, its table of results
included, is kept every five minutes or ``--every N`` rows. Whatever stopped it, the same command
goes on from there, and ends as if nothing had happened:

>>> wanted += ["--checkpoint", "trees.run", "--predictions", "said.csv"]
>>> statuses = [main(["run", "trees.csv", *wanted]) for _ in "ab"]    # doctest: +ELLIPSIS
<BLANKLINE>
...
>>> statuses, len(pathlib.Path("said.csv").read_text().splitlines())
([0, 0], 301)

An interrupt (Ctrl-C, or SIGTERM of a batch system) ends a run within seconds, with a checkpoint,
the table so far and all files, and the exit status 130 (143); a second one ends it at once. While
it runs, its files are its own: another run that names one of them is refused. A file that cannot
be written is said, the others are written, and the exit status is 1.

Standard input (``-``) goes on with what comes next. In Python :func:`jaxmkl.stream` takes chunks
from anywhere, and :class:`jaxmkl.streaming.Checkpoints` keeps the last two checkpoints.

>>> os.chdir(before)
"""
