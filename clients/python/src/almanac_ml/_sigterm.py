"""What loggers hold is sent before SIGTERM ends the process, for those that ask for it.

The handler neither waits nor takes locks: what it interrupts in the main thread may hold them. It has a thread send,
which then signals again, and that second signal does what SIGTERM did before. A signal that comes meanwhile does so at
once.
"""

from __future__ import annotations

import _thread
import logging
import os
import signal
import threading
import weakref
from types import FrameType
from typing import TYPE_CHECKING, Any, Optional

from .errors import AlmanacError

if TYPE_CHECKING:
    from .background import Logger

log = logging.getLogger("almanac_ml")

#: How long each logger may send, in seconds.
SEND_SECONDS = 5.0


class _Handler:
    """The handler of this process, which is installed once."""

    def __init__(self) -> None:
        self.loggers: "weakref.WeakSet[Logger]" = weakref.WeakSet()
        self.is_installed = self.is_sending = False
        # What SIGTERM did before.
        self.previous: Any = signal.SIG_DFL

    def install(self) -> None:
        previous = signal.getsignal(signal.SIGTERM)
        if previous is None:
            raise AlmanacError("flush_on_sigterm: SIGTERM has a handler that Python did not set and cannot call")
        self.previous = previous
        try:
            signal.signal(signal.SIGTERM, self.handle)
        except ValueError:
            raise AlmanacError("flush_on_sigterm: make the logger in the main thread, which handles signals") from None
        self.is_installed = True

    def handle(self, number: int, frame: Optional[FrameType]) -> None:
        if not self.is_sending:
            self.is_sending = True
            try:
                # A `threading.Thread` takes locks when it is started.
                _thread.start_new_thread(self.send, ())
                return
            except RuntimeError as error:
                log.warning("what is logged cannot be sent before the process ends: %s", error)
        self.is_sending = False
        if callable(self.previous):
            self.previous(number, frame)
        elif self.previous is signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def send(self) -> None:
        # A handler of somebody else's may take its time, in which more is logged.
        is_end = self.previous is signal.SIG_DFL
        for logger in list(self.loggers):
            try:
                if is_end:
                    logger.close(SEND_SECONDS)
                else:
                    logger.flush(SEND_SECONDS)
            except Exception:  # the process ends all the same
                log.exception("%r could not send what it holds", logger)
        if not self.is_sending:
            return
        if hasattr(signal, "pthread_kill"):
            # To that thread, so that what it waits for is interrupted.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        else:
            signal.raise_signal(signal.SIGTERM)


_handler = _Handler()


def send_before_end(logger: "Logger") -> None:
    """Has a logger send what it holds when SIGTERM comes, before that does what it did until now.

    Raises :class:`AlmanacError` outside of the main thread, unless another logger has asked for it there.
    """
    if not _handler.is_installed:
        _handler.install()
    _handler.loggers.add(logger)


def _after_fork() -> None:
    """In a child nothing is being sent: the thread that did is the parent's."""
    _handler.is_sending = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
