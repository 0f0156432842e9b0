"""Serving: rows and late labels of several clients at a Unix socket, beside models of others.

Ours answer by ``jaxmkl serve``, with a journal on the disk before each answer. The models of
scikit-learn and river answer the same lines in a loop without a journal: predict a row and keep
it, then learn it when its label comes.
"""

import contextlib
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from jaxmkl.evaluate import Row

from ..options import Options
from ..report import Report
from .timing import figures

ROWS, INPUTS = 4_000, 10  # of each measurement
FIRST = 200  # rows of each client before it
CLIENTS = ((1, 1), (4, 1), (4, 16))  # and the rows of a line
WAIT = 300.0  # seconds for a server to begin, or to answer
OURS = {"raker": "raker", "default": "expert_mkl"}
# a model with learn_one and predict_one, or partial_fit and predict
PEERS = {
    "sklearn": "from sklearn.linear_model import SGDRegressor; model = SGDRegressor()",
    "river": "from river.tree import HoeffdingAdaptiveTreeRegressor as Tree; model = Tree(seed=0)",
}
SERVER = """
import json, selectors, socket, sys
{model}
by_name = hasattr(model, "learn_one")
waiting, rests, known = {{}}, {{}}, False

def asked(row):
    if by_name:
        return model.predict_one(row)
    return float(model.predict([[*row.values()]])[0]) if known else 0.0

def answer(line):
    global known
    given = json.loads(line)
    if "label" in given:
        row, y = waiting.pop(given["id"]), given["label"]
        model.learn_one(row, y) if by_name else model.partial_fit([[*row.values()]], [y])
        known = True
        return {{"id": given["id"], "learned": True}}
    for own, row in zip(given["ids"], given["rows"]):
        waiting[own] = row
    each = zip(given["ids"], given["rows"])
    return [{{"id": own, "prediction": asked(row), "wanted": True}} for own, row in each]

listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
chosen = selectors.DefaultSelector()
chosen.register(listener, selectors.EVENT_READ)
print("answers", file=sys.stderr, flush=True)
while True:
    for key, _ in chosen.select():
        if key.fileobj is listener:
            chosen.register(listener.accept()[0], selectors.EVENT_READ)
            continue
        end, piece = key.fileobj, key.fileobj.recv(65536)
        if not piece:
            chosen.unregister(end)
            end.close()
            continue
        *lines, rests[end] = (rests.get(end, b"") + piece).split(b"\\n")
        end.sendall(b"".join(json.dumps(answer(line)).encode() + b"\\n" for line in lines))
"""


def run(options: Options, report: Report) -> None:
    """Time each server with one client and with several."""
    names = [*OURS, *(name for name in PEERS if find_spec(name))]
    cases = [(name, *clients) for name in names for clients in CLIENTS]
    found: list[Row] = []
    with report.progress("serving", len(cases)) as step:
        for name, clients, size in cases:
            step(f"{name}, {clients} x {size}")
            with tempfile.TemporaryDirectory() as folder, _begun(Path(folder), name) as path:
                seconds, waited = _answered(path, clients, size, options.rounds or ROWS)
            rate = clients * (options.rounds or ROWS) / seconds
            found += rows_of(name, clients, size, rate, waited)
    report.table(
        "rows and their labels through a Unix socket; answers to rows in ms, by percentiles",
        found,
        notes=("ours write a journal to the disk before each answer, the others none",),
    )


def rows_of(name: str, clients: int, size: int, rate: float, waited: Sequence[float]) -> list[Row]:
    """Return the rows of a server: its rows a second, and percentiles of the seconds waited."""
    metrics = {"rows_a_second": [rate]}
    for share in (50.0, 99.0, 99.9):
        metrics[f"ms_{share:g}"] = [1e3 * float(np.percentile(waited, share))]
    case = f"clients {clients}, rows of a line {size}"
    return figures(case, name, metrics, clients=clients, size=size)


@contextlib.contextmanager
def _begun(folder: Path, name: str) -> Iterator[Path]:
    """The socket of a server, which ends with the context."""
    path = folder / "socket"
    if name in OURS:
        draws = np.random.default_rng(0)
        X = draws.normal(size=(1000, INPUTS)).round(5)
        frame = pl.DataFrame({f"x{i}": X[:, i] for i in range(INPUTS)})
        frame.with_columns(y=_truth(X)).write_csv(folder / "table.csv")
        rest = ["--like", "table.csv", "--target", "y", "--learner", OURS[name]]
        line = [sys.executable, "-m", "jaxmkl", "serve", *rest, "--socket", "socket"]
    else:
        line = [sys.executable, "-c", SERVER.format(model=PEERS[name]), "socket"]
    where = os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    with subprocess.Popen(line, cwd=folder, env=where, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while b"answers" not in (said := process.stderr.readline()):
            if not said:
                raise RuntimeError(f"the server of {name} ended before it answered")
        try:
            yield path
        finally:
            process.terminate()
            process.communicate()


def _truth(X: np.ndarray) -> np.ndarray:
    return np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]


def _answered(path: Path, clients: int, size: int, rows: int) -> tuple[float, list[float]]:
    """The seconds of all rows and labels, and those in which each line of rows was answered."""
    begin = threading.Barrier(clients + 1)
    waited: list[list[float]] = [[] for _ in range(clients)]
    each = [
        threading.Thread(target=_client, args=(path, number, size, rows, begin, waited[number]))
        for number in range(clients)
    ]
    for one in each:
        one.start()
    gc.disable()  # of the clients' garbage, which would hold up answers
    begin.wait(WAIT)
    began = time.perf_counter()
    for one in each:
        one.join()
    gc.enable()
    return time.perf_counter() - began, [seconds for of_one in waited for seconds in of_one]


def _client(
    path: Path, number: int, size: int, rows: int, begin: threading.Barrier, waited: list[float]
) -> None:
    """Ask for rows, ``size`` a line, and give their labels once they are answered."""
    X = np.random.default_rng(number).normal(size=(FIRST + rows, INPUTS)).round(5)
    y = _truth(X).round(5).tolist()
    named = [dict(zip([f"x{i}" for i in range(INPUTS)], x, strict=True)) for x in X.tolist()]
    with socket.socket(socket.AF_UNIX) as end, end.makefile("rb") as answers:
        end.settimeout(WAIT)
        end.connect(os.fspath(path))

        def told(lines: Sequence[Any]) -> None:
            end.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            for _ in lines:
                answers.readline()

        for first in range(0, FIRST + rows, size):
            if first <= FIRST < first + size:
                waited.clear()
                begin.wait(WAIT)
            places = range(first, min(first + size, FIRST + rows))
            ids = [f"{number}-{at}" for at in places]
            began = time.perf_counter()
            told([{"rows": [named[at] for at in places], "ids": ids}])
            waited.append(time.perf_counter() - began)
            labels = zip(ids, places, strict=True)
            told([{"id": own, "label": y[at]} for own, at in labels])
