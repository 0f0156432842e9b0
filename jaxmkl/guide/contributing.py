"""Contributing: the set-up, the tests, and the files that an addition touches.

## Set up

In a virtual environment, in a clone of the repository:

    pip install -e ".[dev]" && pre-commit install

Each commit is then checked by the installed ``ruff check``, ``ruff format`` and ``mypy``. If ruff
changes a file, the commit stops: look at the change, add it and commit again.

## Which tests when

Times are those of two CPU cores. A folder in ``tests/`` has the name of the room that it tests;
``core`` is for the modules at the root of ``jaxmkl``, ``estimators`` for ``jaxmkl.sklearn``.

    while you write        pytest tests/kernels                   a minute, other folders more
    before each commit     pytest tests/house                     ten seconds: layout, guides
                           pytest -m "" jaxmkl/query.py           the examples of a changed file
    before you share it    pytest -n 2                            three minutes
                           pytest -n 2 -m slow                    half an hour
    after other types      pytest -m types tests/house            half a minute to three minutes
    what runs very long    pytest -m endless tests/tables         hours in all: name a file
    everything             .ci/run                                half an hour and more

The last one makes two new environments, with the oldest and the newest Python and packages. The
slow tests run with the latter and the others with the former; those that are endless or need a
device do not. The commands for accelerators are in
:mod:`jaxmkl.guide.many_devices`. Tests marked ``data`` need the papers' data sets, npz files with
arrays X and y, in the folder that ``JAXMKL_DATA`` names, and are skipped without it.

A test fails before the change that it comes with. Its expected values come from a plain NumPy loop
in double precision, written from the paper (``tests/oracles``), from another package, or from a
property. An unmarked test takes less than a second; ``slow`` is for tests of some seconds,
``endless`` for those of minutes, and for variants of what other tests show. A module of small
programs sets ``SMALL_PROGRAMS = True``, and compiles in half the time (``tests/conftest.py``).

## What an addition touches

These are all the files that change. They include those in which a row brings the tests of all
parts of that kind; the formula of the new part is tested beside them. :mod:`jaxmkl.guide.extend`
shows how to write each part outside of the library. Everything public has a docstring with its
formula, shapes, errors, source and an example, which is run.

### A kernel: 2 files

- ``jaxmkl/kernels/stationary.py``, or ``dot_product.py`` beside it: the class.
- ``jaxmkl/kernels/__init__.py``: its name and formula.

Its tests are a row in ``tests/kernels/test_kernels.py``, and with random features one in
``tests/features/test_fourier.py``. :func:`jaxmkl.testing.check_kernel` says what is missing.

### A loss, a query, a selection: 2 files

- ``jaxmkl/losses.py``, ``jaxmkl/query.py`` or ``jaxmkl/select.py``: the class.
- ``tests/contract/crossings.py``: a row for a query or a selection; of a loss instead one in
  ``tests/core/test_losses.py``.

### An update rule, with a covariance or without: 3 files

- ``jaxmkl/updates/NAME.py``: the class. A rule of first order may stand in ``first_order.py``.
- ``jaxmkl/updates/__init__.py``: its name.
- ``tests/contract/crossings.py``: a row of ``RULES``; ``WITH_WEIGHTS`` names rules on features
  alone, ``FOR_CLASSES`` those of classes. The rule then meets every bank, aggregate and query.

### An aggregate: 3 files

- ``jaxmkl/aggregate/NAME.py``: the class.
- ``jaxmkl/aggregate/__init__.py``: its name.
- ``tests/contract/crossings.py``: a row of ``AGGREGATES``.

### A bank of models, or a way to evict support vectors: 3 files

- ``jaxmkl/models/NAME.py``, or ``jaxmkl/models/supports/eviction.py``: the class.
- ``jaxmkl/models/__init__.py``, or ``jaxmkl/models/supports/__init__.py``: its name.
- ``tests/contract/crossings.py``: a row of ``MODELS``.

### A wrapper: 3 files

- ``jaxmkl/wrappers/NAME.py``: the class, and the function that makes it.
- ``jaxmkl/wrappers/__init__.py``: their names.
- ``tests/contract/test_contract.py``: a row of ``VARIANTS``.

### A learner of a paper: 4 files

It is a set of parts; each new part is one of the additions above.

- ``jaxmkl/recipes/NAME.py``: the function, with the paper in its docstring.
- ``jaxmkl/recipes/__init__.py``: its name, and its place in ``LEARNERS``: now the command,
  the estimators and the tests of the contract know it.
- ``experiments/names.py``: its name once more, so that experiments begin without importing all.
- ``jaxmkl/guide/papers.py``: the places of the paper's equations.

For a name at the top there is a fifth, ``jaxmkl/__init__.py``. A published setting is added to
``jaxmkl/recipes/settings``, and to ``published`` in ``experiments/names.py``. If its defaults are
large, ``KNOWN`` in ``tests/contract/test_contract.py`` has a small form.

### An ability, which only some parts have

It is a function in ``jaxmkl/abilities/NAME.py``, by ``functools.singledispatch`` on the class of
the part, whose default refuses in one sentence, does nothing or asks the parts inside. Its name
stands in ``jaxmkl/abilities/__init__.py``. A part that can registers it at the end of its own
file. :class:`jaxmkl.MKL` and wrappers have said once which parts are inside
(``abilities.inside``), so they need nothing more. A promise that all parts keep belongs in
:func:`jaxmkl.testing.check_learner` (``jaxmkl/testing/learners.py``), by which the tests of the
contract check every learner; ``tests/house/test_protocols.py`` counts the methods of protocols.

### A format of files: 2 files

- ``jaxmkl/tables/_NAME.py``: functions that recognise the format and read it as a DataFrame or as
  chunks; ``_arff.py`` is the shortest.
- ``jaxmkl/tables/source.py``: ``format_of`` and ``open_file``.

Its tests are a row in ``tests/tables/test_sources.py``, which has one table in every format, and
one in ``tests/tables/test_fuzz.py``, which damages files. The help of ``jaxmkl/cli/run.py`` and
:mod:`jaxmkl.guide.own_data` name the formats.

### A part of a paper's experiments: 3 files

- ``experiments/papers/NAME.py``: a function of a job, and among ``parts`` of its paper.
- ``experiments/names.py``: its name.
- ``experiments/results/plan.py``: its data sets and number of seeds.

A figure, table or theorem of a paper is named in ``jaxmkl/guide/papers.py``. The table in
RESULTS.md is a block in a file of ``experiments/results``, which
``python -m experiments results`` fills. A benchmark is a file in ``experiments/bench``, a line in
its ``__init__.py`` and an option in ``experiments/commands.py``.

## Where to look

- **Why is a stack's prediction wrong?** ``jaxmkl/aggregate/stack.py``, and its least squares in
  ``jaxmkl/updates/recursive.py`` and ``jaxmkl/updates/second_order.py``; it is held against
  ``tests/oracles/mixture.py``.
- **Why has a round so many kernels?** ``experiments/bench/launches.py`` counts them in a compiled
  program: ``python -m experiments bench --device`` those of a round, ``python -m experiments bench
  --compile --algorithms raker`` those of the whole program.
- **How did a column of a CSV file become numbers?** ``jaxmkl info PIPELINE`` says what was
  decided. ``jaxmkl/tables/_text.py`` splits lines, ``jaxmkl/tables/_cells.py`` reads cells,
  ``jaxmkl/tables/_decide.py`` decides the kind, ``jaxmkl/tables/_kinds.py`` encodes it, and
  ``jaxmkl/tables/_columns.py`` joins the columns.

## What to keep to

Imports point down the list of :mod:`jaxmkl.guide.architecture`, and private names stay in their
package. A file of an algorithm has its mathematics, in the words of :mod:`jaxmkl.guide.symbols`.
An error names the argument, the value given and the values wanted. Each change that a user notices
has a line in :mod:`jaxmkl.guide.changelog`; each renamed or removed name is there with its
replacement. A commit is one change, and its message says what is now true.
"""
