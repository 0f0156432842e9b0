"""Interrupts that may come at any moment, and are never lost."""

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from types import FrameType
from typing import Any, TypeVar

INTERRUPTED = 128 + signal.SIGINT
T = TypeVar("T")
LOOK = 0.1  # seconds between two looks of the main thread


class Interrupts:
    """Handle Ctrl-C, and SIGTERM, by which batch systems announce an end, inside a ``with`` block.

    The work runs in a thread of its own while the main thread waits for interrupts, so a long
    computation delays none, and none is raised in JAX's callback of the garbage collector, which
    discards exceptions. After the first one, :meth:`look` raises in the working thread; a thread
    that does not call it within ``patience`` seconds is abandoned. The second ends the process.
    """

    def __init__(self) -> None:
        self.status = 0  #: exit status: 128 plus the number of the signal, once one has come
        self.patience = 0.0  #: seconds in which the work may end by itself
        self.held = threading.Lock()  #: the work holds it where it must not be abandoned
        #: called before the second interrupt ends the process
        self.last_acts = list[Callable[[], object]]()
        self._since = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():  # others have no handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) not in (None, signal.SIG_IGN):
                    self._before[number] = signal.signal(number, self._come)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _come(self, number: int, frame: FrameType | None) -> None:
        if self.status:
            for act in self.last_acts:
                act()
            os._exit(self.status)
        self.status, self._since = 128 + number, time.monotonic()

    def look(self) -> None:
        """Raise a ``KeyboardInterrupt`` with the exit status if an interrupt has come."""
        if self.status:
            raise KeyboardInterrupt(self.status)

    def supervise(self, work: Callable[[], T]) -> T:
        """Do some work in a thread of its own, and return its result or raise its exception.

        Raises:
          KeyboardInterrupt: the work raised it, or an interrupt came and the work was abandoned.
        """
        found: Future = Future()

        def act() -> None:
            try:
                found.set_result(work())
            except BaseException as error:
                found.set_exception(error)

        threading.Thread(target=act, daemon=True).start()
        while not wait([found], LOOK).done:
            if self.status and time.monotonic() - self._since > self.patience:
                self.held.acquire()  # for good: if it goes on, it ends where it wants the lock
                raise KeyboardInterrupt(self.status)
        try:
            return found.result()
        except KeyboardInterrupt:
            self.status = self.status or INTERRUPTED
            raise
