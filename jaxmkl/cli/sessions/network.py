"""The faces of a server: standard input and output, a Unix socket, HTTP."""

import asyncio
import contextlib
import hmac
import os
import select
import socket as sockets
import stat
import time
from asyncio import StreamReader as Reader
from asyncio import StreamWriter as Writer
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jaxmkl._files import named
from jaxmkl.cli.sessions.metrics import prometheus
from jaxmkl.cli.sessions.requests import LONGEST, Lines
from jaxmkl.cli.sessions.server import Server, spelled
from jaxmkl.evaluate import UsageError

PIECE = 2**16  # bytes that are read at once
LOOK = 0.1  # seconds between two looks for the end
PATIENCE = 30.0  # seconds in which the rest of a line, or a request, must come
FAREWELL = 2.0  # seconds in which a client must read its answers once the server ends
CLIENTS = 4096  # at the same time
TURNS = 2  # of the loop, from bytes that have come to lines
GROUP = 1000  # lines that are answered together, at most, where several clients send some
JSON = "application/json"
HEADERS = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
ASKED, READ = ("POST",), ("GET", "HEAD")
METHODS = {"/ask": ASKED, "/learn": ASKED, "/health": READ, "/metrics": READ}
Ended = Callable[[], bool]
Face = Callable[[Reader, Writer], Awaitable[None]]


def serve_standard(server: Server, given: int, out: int, ended: Ended) -> None:
    """Answer the lines of a file by lines of another one, until it ends."""
    lines = Lines()
    while not ended() and server.failure is None:
        if not select.select([] if server.learning.is_full else [given], [], [], LOOK)[0]:
            continue
        piece = os.read(given, PIECE)
        found = [*lines.cut(piece or b"\n")]  # the last line may lack its end
        began = time.monotonic()
        (answers,) = server.answer(found)
        server.metrics.took(began, len(found))
        left = memoryview(spelled(answers))
        while left:
            left = left[os.write(out, left) :]
        if not piece:
            return


class Network:
    """A Unix socket and a port of HTTP, which end when ``ended`` says so.

    Args:
      server: the server.
      ended: tells whether to end.
      token: the token that HTTP asks for; None for none.
    """

    def __init__(self, server: Server, ended: Ended, token: bytes | None = None) -> None:
        self._server, self._ended, self._token = server, ended, token
        self._clients = set[Any]()
        # clients that get an answer, with the time in which they must read it once there is one
        self._busy = dict[Any, asyncio.Timeout | None]()
        self._given = deque[tuple[list[bytes], asyncio.Future[list[Any]]]]()  # lines, and answers

    async def serve(
        self, socket: Path | None, host: str, port: int | None, say: Callable[[str], object]
    ) -> None:
        """Answer until the end; ``say`` is called with each place once it answers."""
        how = {"limit": PIECE, "backlog": CLIENTS}
        with contextlib.ExitStack() as stack:
            if socket is not None:
                _free(socket)
                meet = partial(self._meet, self._lines)
                with named(socket):
                    unix = await asyncio.start_unix_server(meet, socket, **how)
                stack.callback(socket.unlink, missing_ok=True)
                stack.callback(unix.close)
                os.chmod(socket, 0o600)
                say(f"jaxmkl serve answers at {socket}")
            if port is not None:
                meet = partial(self._meet, self._http)
                made = await asyncio.start_server(meet, host, port, **how)
                stack.callback(made.close)
                say(f"jaxmkl serve answers at http://{host}:{made.sockets[0].getsockname()[1]}")
            while not self._ended() and self._server.failure is None:
                await asyncio.sleep(LOOK)
        for task in self._clients - self._busy.keys():
            task.cancel()
        for reading in filter(None, self._busy.values()):
            reading.reschedule(asyncio.get_running_loop().time() + FAREWELL)
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _meet(self, face: Face, reader: Reader, writer: Writer) -> None:
        """Talk to one client, unless there are too many."""
        task = asyncio.current_task()
        ends = OSError, asyncio.IncompleteReadError, RuntimeError, asyncio.CancelledError
        if len(self._clients) >= CLIENTS:
            writer.close()
            return
        self._clients.add(task)
        try:
            with contextlib.suppress(*ends):  # the client is gone or slow, or the server ends
                await face(reader, writer)
            writer.close()
            with contextlib.suppress(*ends):  # what was answered is sent, if it is read
                async with asyncio.timeout(FAREWELL) as self._busy[task]:
                    await writer.wait_closed()
        finally:
            self._clients.discard(task)
            self._busy.pop(task, None)
            writer.transport.abort()

    async def _answers(self, lines: list[bytes]) -> list[Any]:
        self._busy[asyncio.current_task()] = None
        loop, began = asyncio.get_running_loop(), time.monotonic()
        if not self._given:
            loop.call_soon(self._answer_all)
        self._given.append((lines, loop.create_future()))
        answers = await self._given[-1][1]
        self._server.metrics.took(began, len(lines))
        return answers

    def _answer_all(self, known: int = 0, turns: int = 0) -> None:
        """Answer all clients together, once some turns of the loop have brought no more of them.

        Otherwise each of them would be answered alone while the next one's lines are read.
        """
        loop = asyncio.get_running_loop()
        go_on = loop.call_soon
        if (number := len(self._given)) > known or turns < TURNS:
            go_on(self._answer_all, number, 0 if number > known else turns + 1)
            return
        if self._server.learning.is_full:  # meanwhile the server's health and figures are told
            loop.call_later(LOOK, self._answer_all, number, turns)
            return
        some, room = list[tuple[list[bytes], asyncio.Future[list[Any]]]](), GROUP
        while self._given and room > 0:
            some.append(self._given.popleft())
            room -= len(some[-1][0])
        if self._given:
            go_on(self._answer_all)
        try:
            each = self._server.answer(*(lines for lines, _ in some))
        except RuntimeError as error:
            for _, answers in some:
                answers.set_exception(error)
            return
        for (_, answers), those in zip(some, each, strict=True):
            answers.set_result(those)

    async def _write(self, writer: Writer, content: bytes) -> None:
        task, patience = asyncio.current_task(), FAREWELL if self._ended() else PATIENCE
        writer.write(content)
        try:
            async with asyncio.timeout(patience) as self._busy[task]:
                await writer.drain()
        except TimeoutError:  # it does not read
            writer.transport.abort()
            raise
        self._busy.pop(task, None)

    async def _lines(self, reader: Reader, writer: Writer) -> None:
        lines, piece = Lines(), b"\n"
        while piece and not self._ended():
            async with asyncio.timeout(PATIENCE if lines.rest else None):
                piece = await reader.read(PIECE)
            if found := [*lines.cut(piece or b"\n")]:
                await self._write(writer, spelled(await self._answers(found)))

    # HTTP

    async def _http(self, reader: Reader, writer: Writer) -> None:
        async for method, path, version, headers, body in _requests(reader, writer):
            path = path.partition("?")[0]  # a query says nothing here
            status, kind, content = await self._reply(method, path, headers, body)
            keep = status < HTTPStatus.BAD_REQUEST
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
            head += f"Content-Length: {len(content)}\r\n"
            if status == HTTPStatus.METHOD_NOT_ALLOWED:
                head += f"Allow: {', '.join(METHODS[path])}\r\n"
            head += "" if keep else "Connection: close\r\n"
            await self._write(writer, f"{head}\r\n".encode() + content * (method != "HEAD"))
            if isinstance(body, HTTPStatus):  # the client reads the answer once it has sent all
                writer.write_eof()
                async with asyncio.timeout(PATIENCE):
                    while await reader.read(PIECE):
                        pass
            rests = "close" if version == "HTTP/1.0" else "keep-alive"  # unless it says more
            if "close" in headers.get("connection", rests).lower() or not keep or self._ended():
                return

    async def _reply(
        self, method: str, path: str, headers: dict[str, str], body: bytes | HTTPStatus
    ) -> tuple[HTTPStatus, str, bytes]:
        given = headers.get("authorization", "").encode("latin-1")
        if body is HEADERS:
            status, text = HEADERS, f"a first line and its headers have at most {PIECE:,} bytes"
        elif self._token is not None and not hmac.compare_digest(given, b"Bearer " + self._token):
            status = HTTPStatus.UNAUTHORIZED
            text = "the header Authorization: Bearer TOKEN is wanted"
        elif isinstance(body, HTTPStatus):
            status, text = body, f"a body has its Content-Length, of at most {LONGEST:,} bytes"
        elif method not in METHODS.get(path, ()):
            status = HTTPStatus.METHOD_NOT_ALLOWED if path in METHODS else HTTPStatus.NOT_FOUND
            text = "expected POST /ask, POST /learn, GET /metrics or GET /health"
        elif path == "/health":
            return HTTPStatus.OK, JSON, b'{"healthy": true}\n'
        elif path == "/metrics":
            content = prometheus(self._server.figures()).encode()
            return HTTPStatus.OK, "text/plain; version=0.0.4", content
        else:
            (answer,) = await self._answers([body])
            is_wrong = isinstance(answer, dict) and isinstance(answer.get("error"), str)
            status = HTTPStatus.BAD_REQUEST if is_wrong else HTTPStatus.OK
            return status, JSON, spelled([answer])
        return status, JSON, spelled([{"error": text}])


async def _requests(
    reader: Reader, writer: Writer
) -> AsyncIterator[tuple[str, str, str, dict[str, str], bytes | HTTPStatus]]:
    """The requests of a client: its first line, headers, and the body, or why it is not read."""
    while True:
        first = await reader.readexactly(1)  # a connection may rest between two requests
        async with asyncio.timeout(PATIENCE):
            try:
                head = first + await reader.readuntil(b"\r\n\r\n")
            except asyncio.LimitOverrunError:
                yield "", "", "", {}, HEADERS
                return
            # an empty line before a request is ignored
            line, *rest = head.decode("latin-1").lstrip("\r\n").split("\r\n")
            method, path, version, *_ = [*line.split(" "), "", "", ""]
            headers = dict[str, str]()
            for name, _, value in (one.partition(":") for one in rest if one):
                name, value = name.strip().lower(), value.strip()
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
            length = headers.get("content-length", "0")
            is_known = length.isdecimal() and "transfer-encoding" not in headers
            is_short = is_known and len(length) < 9 and int(length) <= LONGEST
            if is_short and headers.get("expect", "").lower() == "100-continue":
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body: bytes | HTTPStatus = HTTPStatus.LENGTH_REQUIRED
            if is_short:
                body = await reader.readexactly(int(length))
            elif "transfer-encoding" not in headers:
                body = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        yield method, path, version, headers, body


def _free(path: Path) -> None:
    """Remove the socket that a killed server left behind; anything else there stays."""
    if not hasattr(sockets, "AF_UNIX"):
        raise UsageError("--socket: this system has no Unix sockets; answer at a --port")
    with contextlib.suppress(FileNotFoundError), sockets.socket(sockets.AF_UNIX) as one:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise UsageError(f"--socket: {path} is not a socket; name another file")
        if one.connect_ex(os.fspath(path)) == 0:
            raise UsageError(f"--socket: another process answers at {path}; name another file")
        path.unlink()
