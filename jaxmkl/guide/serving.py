"""Serve a model that learns, and watch it.

``jaxmkl serve`` is one process that predicts rows and learns their labels as they come. It begins
with a pipeline that ``jaxmkl run`` or ``ask`` saved, or with the columns of a table:

    jaxmkl run plants.csv --target kind --learner expert_mkl --save plants.npz
    jaxmkl serve plants.npz
    {"row": {"height": 2.5, "colour": "red"}}
    {"id": 0, "prediction": "tree", "wanted": true, "probabilities": {"bush": 0.3, "tree": 0.7}}
    {"id": 0, "label": "bush"}
    {"id": 0, "learned": true}

A row that lacks a column, or has an empty cell, is predicted as such a row of a table is.
``wanted`` says whether the learner's query asks for the label; a label that it did not ask for is
taken, but not learned. ``jaxmkl serve --help`` lists all lines, and what the same requests are by
HTTP:

    jaxmkl serve plants.npz --port 8080
    curl -d '{"row": {"height": 2.5, "colour": "red"}}' localhost:8080/ask
    curl -d '{"id": 0, "label": "bush"}' localhost:8080/learn

A row waits 5 ms for labels before it, and no longer: it is then predicted by the latest finished
state, without them, though they are kept and learned in their turn.

Several processes share one server, by the port or by ``--socket``. What comes at the same time is
written to the disk together, so more clients, or more rows in a request, make more rows a second.
Through a Unix socket on two cores, rows a second with their labels, and milliseconds until half,
and 99 %, of the answers to rows (``python -m experiments bench --serve``):

    clients, rows of a line      raker                   expert_mkl
    1, 1                           490   1.0   1.6         240   1.7   12
    4, 1                         1,400   1.4   2.2         430   4.4   11
    4, 16                        8,700   3.6   6.5       1,700    19   39

## What is kept

Nothing is answered before it is in the journal, ``plants.npz.journal``. After a crash, a ``kill
-9`` or a new machine with the same files, the same command goes on where it was, bit for bit: the
order of the journal is the order in which the server learned, whatever its clients do at the same
time. ``plants.npz`` stays as it was. Now and then, and at the end, the state is written beside the
journal, to ``plants.npz.journal.N.npz``, which ``jaxmkl predict`` and ``jaxmkl info`` read. To
begin anew, move the journal and that file away.

If the disk is full, requests are refused with an error and nothing is learned. They may be sent
again.

## Keep it running

By systemd, which sends SIGTERM and waits for the last snapshot:

    [Unit]
    Description=plants
    [Service]
    User=plants
    WorkingDirectory=/var/lib/plants
    ExecStart=/opt/plants/bin/jaxmkl serve plants.npz --port 8080
    Restart=on-failure
    TimeoutStopSec=60
    [Install]
    WantedBy=multi-user.target

In a container, built in a clone of the repository, whose volume holds the pipeline, the journal
and a token of your own; put a proxy with TLS before it:

    FROM python:3.12-slim
    COPY . /src
    RUN pip install "/src[cli]"
    RUN useradd --uid 1000 plants && install --directory --owner=plants /data
    USER plants
    ENV XDG_CACHE_HOME=/data/cache
    VOLUME /data
    WORKDIR /data
    EXPOSE 8080
    STOPSIGNAL SIGTERM
    CMD ["jaxmkl", "serve", "plants.npz", "--host=0.0.0.0", "--port=8080", "--token-file=token"]

One process has one journal; a second one is refused. Each server needs a journal of its own, and
servers do not share what they learn.

## Watch it

``GET /metrics``, or the line ``{"metrics": true}``, has figures since the start of the
process, and of the journal that it went on with:

    jaxmkl_error{of="learner"}               mean squared error, or share of mistakes
    jaxmkl_error{of="mean or majority"}      the same of two baselines, which any model
    jaxmkl_error{of="last label"}            in use should beat
    jaxmkl_error_now, jaxmkl_drift           error of the latest labels; divided by error
    jaxmkl_coverage                          share of the labels within their intervals
    jaxmkl_waiting, jaxmkl_dropped_total     rows without a label; those forgotten
    jaxmkl_refused_total{reason="row"}       rows that cannot be read: has their source changed?
    jaxmkl_seconds{quantile="0.99"}          until an answer
    jaxmkl_renewals_total                    renewals of learned kernels

Predictions are judged before their labels are learned, so the error is that of a model in use. It
is judged on rows whose labels came: if these are chosen, it is the error on the chosen ones.

## Drift

The learner continues to learn, so a change needs no retraining (:mod:`jaxmkl.guide.drift`).
``jaxmkl_drift`` near 1 means that nothing changed; after a change it rises, and falls again as the
learner follows. Raise an alarm if it stays high, say above 2 for an hour, or if the learner is
worse than a baseline: then the inputs no longer say what the label is. A look at the columns helps
more than another learner. A kind of column was decided once; new categories are read as unknown,
so after a change of the columns begin anew, with ``--like`` a table that has them.

## Labels that are late, or never come

A label may come after hours, in any order and after other labels; its row waits with the inputs it
had when it was asked for. If it never comes, say so by ``{"id": 0, "forget": true}``, so that the
memory is free. Nobody has to: at most 10,000 rows have no label (``--waiting``), and beyond, the
oldest one is forgotten. A label that comes after that is refused as unknown; send it with its row,
as ``{"row": {...}, "label": "bush"}``, which waits for nothing.

Labels that come only for some outcomes (a loan that was refused is never paid back) teach the
learner that all others look like these. Ask for the label of a few rows at random whatever the
prediction says, or do as :mod:`jaxmkl.guide.decisions` does.
"""
