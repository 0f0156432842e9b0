"""``jaxmkl serve``: answer rows by predictions, and learn labels as they come, in one process.

    jaxmkl serve PIPELINE        lines of JSON on standard input and output, with a pipeline that
                                 run, ask or serve saved
    jaxmkl serve --like FILE --target kind --journal new.journal
                                 begin anew; FILE decides how columns are read, nothing else
    jaxmkl serve PIPELINE --socket it.socket --port 8080
                                 lines at a Unix socket, and HTTP at this machine's own address

Each line is answered by one line, in the order of the lines:

    in   {"row": {"height": 2.5}}             or with an "id" of your own
    out  {"id": 0, "prediction": "tree", "wanted": true,
          "probabilities": {"bush": 0.3, "tree": 0.7}}
                                              for numbers "interval", where there is one
    in   [{"height": 2.5}, {"height": 1}]     or {"rows": [...], "ids": [...]}
    out  [{"id": 1, ...}, {"id": 2, ...}]
    in   {"id": 0, "label": "tree"}           whenever the label comes, in any order
    out  {"id": 0, "learned": true}
    in   {"id": 1, "forget": true}            its label will never come
    out  {"id": 1, "forgotten": true}
    in   {"row": {"height": 9}, "label": "tree"}
    out  {"learned": true}
    in   {"metrics": true}                    counts, errors beside baselines, seconds
    out  {"error": "no row with the id 7 waits for a label", "id": 7}

By HTTP, such a line is the body of ``POST /ask`` or ``POST /learn``, whose answer has the status
400 with an error; ``GET /metrics`` has the figures in Prometheus' text form, ``GET /health`` tells
that the server answers. A line or a body has at most 1 MiB.

**What is kept.** Rows and labels are in the journal, on the disk, before they are answered.
However the process ended, the same command goes on, with the same state bit for bit. From time to
time, and at the end, a snapshot, JOURNAL.N.npz, takes the place of the first N events; it is a
pipeline, too. SIGTERM and Ctrl-C end the server once all that it was given is answered and
learned.

**Who may ask.** Files and the socket are for their owner alone. The port is this machine's own
address unless ``--host`` names another; anybody who reaches that one needs the token in
``--token-file``, as ``Authorization: Bearer TOKEN``. Nothing is encrypted: put a proxy with TLS
before it.

Renewals of learned kernels and labels before a row keep it from its answer for 5 ms at most: then
it is predicted by the latest finished state.
"""

import asyncio
import contextlib
import gc
import hashlib
import json
import math
import os
import sys
import threading
from argparse import Namespace
from pathlib import Path
from typing import Any

from jaxmkl._renewals import renewals_of
from jaxmkl.cli import options, show
from jaxmkl.cli.interrupts import Interrupts
from jaxmkl.cli.outputs import reserved
from jaxmkl.cli.pipelines import new_pipeline, own_pipeline
from jaxmkl.cli.sessions.learning import prepare
from jaxmkl.cli.sessions.network import Network, serve_standard
from jaxmkl.cli.sessions.server import Server
from jaxmkl.evaluate import UsageError
from jaxmkl.tables import Columns, Pipeline, open_table

OWN = ("target", "task", "learner", "set", "drop", "as_")  # settled by a pipeline
LOCAL = "127.0.0.1"
LAST_PORT = 65535
SHORTEST = 16  # bytes of a token
SWITCH = 2e-4  # seconds for which a thread may keep others from answering
FILES = 8192  # that may be open, for as many clients


def add_to(commands: Any) -> None:
    """Add the command's parser."""
    says = {"description": __doc__, "formatter_class": options.AS_IT_STANDS}
    parser = commands.add_parser("serve", help="answer and learn from rows as they come", **says)
    add = parser.add_argument
    add("pipeline", nargs="?", metavar="PIPELINE", help="a pipeline with which to begin")
    add("--like", metavar="FILE", help="a table; begin anew, with its columns")
    add("--journal", type=Path, metavar="FILE", help="default: PIPELINE.journal, with --like "
        "FILE.journal")  # fmt: skip
    add("--socket", type=Path, metavar="PATH", help="answer lines at a Unix socket")
    add("--port", type=options.natural, metavar="N", help="answer HTTP; 0 for any free port")
    add("--host", metavar="ADDRESS", help=f"of the port (default: {LOCAL})")
    add("--token-file", type=Path, metavar="FILE", help="a token that HTTP asks for, of "
        f"{SHORTEST} bytes or more")  # fmt: skip
    add("--waiting", type=options.count, metavar="N", help="rows that may have no label yet; "
        "beyond, the oldest is forgotten (default: as before; at first 10000)")  # fmt: skip
    options.learner_options(add, "target says", "with --like; ")
    options.table_options(parser)
    parser.set_defaults(command=command)


def command(given: Namespace) -> int:
    """Serve until the input ends, or a signal ends it; return 0 then."""
    show.needs_rich()
    if (given.pipeline is None) == (given.like is None):
        raise UsageError("serve: name a PIPELINE, or a table with --like, and not both")
    if given.host is not None and given.port is None:
        raise UsageError("--host: name the port, too (--port N)")
    if given.port is not None and given.port > LAST_PORT:
        raise UsageError(f"--port: expected a number of at most {LAST_PORT}; got '{given.port}'")
    token = _token(given)
    journal = given.journal or Path(f"{given.pipeline or given.like}.journal")
    inputs = {"PIPELINE": given.pipeline, "--like": given.like, "--token-file": given.token_file}
    before = os.umask(0o077)  # files and the socket are for their owner alone
    sys.setswitchinterval(SWITCH)
    try:
        with (
            Interrupts() as interrupts,
            reserved(inputs, {"--journal": journal}, beside={"--journal": (".next",)}),
        ):
            interrupts.patience = math.inf
            interrupts.supervise(lambda: _serve(given, journal, token, interrupts))
    finally:
        os.umask(before)
    return 0


def _serve(given: Namespace, journal: Path, token: bytes | None, interrupts: Interrupts) -> None:
    def ended() -> bool:
        return bool(interrupts.status)

    with contextlib.closing(_begun(given, journal)) as server:
        if given.socket is None and given.port is None:
            serve_standard(server, sys.stdin.fileno(), sys.stdout.fileno(), ended)
        else:
            _more_files()
            network = Network(server, ended, token)
            asyncio.run(network.serve(given.socket, given.host or LOCAL, given.port, show.aside))


def _token(given: Namespace) -> bytes | None:
    if given.token_file is None:
        if given.host is not None:
            raise UsageError("--host: others may reach the port; --token-file FILE is needed, too")
        return None
    token = given.token_file.read_bytes().strip()
    if len(token) < SHORTEST or b"\n" in token:
        raise UsageError(f"--token-file: expected one line of at least {SHORTEST} bytes")
    return token


def _begun(given: Namespace, journal: Path) -> Server:
    """The server after all events of its journal, whose programs are compiled."""
    if given.like is None:
        pipeline = own_pipeline(given.pipeline, given, OWN)
        model = hashlib.sha256(Path(given.pipeline).read_bytes())
    else:
        pipeline = _anew(given)
        parts = pipeline.columns.to_json(), repr(pipeline.learner)
        model = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    server = Server(journal, {"model": model.hexdigest()}, pipeline, given.waiting)
    warm_up(server.learning.finished)
    return server


def _anew(given: Namespace) -> Pipeline:
    """A pipeline before its first row, with the columns of a table."""
    with contextlib.closing(open_table(given.like, **options.reading(given))) as table:
        first = next(table.chunks(given.first), None)
        if first is None:
            raise UsageError(f"--like: {given.like} has no rows")
        asked = {"drop": given.drop, "as_": dict(given.as_), "notes": table.notes}
        columns = Columns.decide(first, given.target, given.task, **asked)
    for note in columns.notes:
        show.aside(note)
    return new_pipeline(given, columns, Path(given.like).name)


def warm_up(pipeline: Pipeline) -> None:
    """Compile the programs of a session, which is thrown away; those of renewals in a thread.

    A collection of garbage would look through all that this leaves, some .2 s for which no one is
    answered; so it passes over it from then on.
    """
    label = pipeline.classes[0] if pipeline.classes else pipeline.seen.start
    prepare(pipeline).learn("asked", label)
    if (renewals := renewals_of(pipeline.learner)) is not None:
        due = renewals.after(int(pipeline.state.round))

        def renew() -> None:
            renewals.renewed(pipeline.state, due)
            gc.freeze()

        threading.Thread(target=renew, daemon=True).start()
    gc.collect()
    gc.freeze()


def _more_files() -> None:
    """Let the process open as many files as it has clients, if it may."""
    try:
        import resource
    except ImportError:  # Windows has no such bound
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
