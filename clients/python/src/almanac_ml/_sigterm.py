"""What loggers hold is sent before SIGTERM ends the process, for those that ask for it.

The handler neither waits nor takes locks: what it interrupts in the main thread may hold them. It has a thread send,
which then signals again, and that second signal does what SIGTERM did before. A signal that comes meanwhile does so at
once.

A handler that somebody sets later takes the place of this one. The next logger that asks has another one installed,
which goes on with that. Each of them sends what all loggers hold, so it does not matter whether handlers in between
call the older ones. For the second signal a handler takes the place of whatever is there, so that those before it in
the chain are called once.
"""

from __future__ import annotations

import _thread
import logging
import os
import signal
import threading
import time
import weakref
from types import FrameType
from typing import TYPE_CHECKING, Any, List, Optional

from .errors import AlmanacError

if TYPE_CHECKING:
    from .background import Logger

log = logging.getLogger("almanac_ml")

#: How long all loggers together hold up the end of the process, in seconds.
SEND_SECONDS = 5.0

#: How much of that is kept for putting away what could not be sent.
PUT_AWAY_SECONDS = 1.0


class _Shared:
    """What the handlers of this process share."""

    loggers: "weakref.WeakSet[Logger]" = weakref.WeakSet()
    #: The handler whose thread sends.
    sending: "Optional[_Handler]" = None
    #: The handler that has sent, while it calls the one before it.
    going_on: "Optional[_Handler]" = None


class _Handler:
    """A handler of SIGTERM, and what that did before."""

    def __init__(self, previous: Any) -> None:
        self.previous = previous
        # What SIGTERM does again once this has sent.
        self.replaced: Any = None
        # When the loggers must have come to an end, and how much of the time was left when they had.
        self.until = self.left = 0.0

    def handle(self, number: int, frame: Optional[FrameType]) -> None:
        if _Shared.sending is self or not self.begin():
            self.go_on(number, frame)

    def begin(self) -> bool:
        """Whether a thread sends, and signals when it has."""
        # One that is called by a handler which has sent has the time that this left.
        before = _Shared.going_on
        self.until = time.monotonic() + (SEND_SECONDS if before is None else before.left)
        _Shared.sending = self
        try:
            self.replaced = signal.getsignal(signal.SIGTERM)
            signal.signal(signal.SIGTERM, self.handle_again)
        except ValueError:
            # Somebody calls this in another thread: the second signal takes the same way.
            pass
        try:
            # A `threading.Thread` takes locks when it is started.
            _thread.start_new_thread(self.send, ())
        except RuntimeError as error:
            log.warning("what is logged cannot be sent before the process ends: %s", error)
            self.put_back()
            return False
        return True

    def handle_again(self, number: int, frame: Optional[FrameType]) -> None:
        self.put_back()
        if _Shared.sending is self:
            self.go_on(number, frame)
        else:
            # In a child that was made while its parent sent.
            _do(self.replaced, number, frame)

    def put_back(self) -> None:
        # Somebody may have set another handler since.
        if signal.getsignal(signal.SIGTERM) == self.handle_again:
            signal.signal(signal.SIGTERM, self.replaced)

    def go_on(self, number: int, frame: Optional[FrameType]) -> None:
        _Shared.sending = None
        self.left = max(0.0, self.until - time.monotonic())
        before, _Shared.going_on = _Shared.going_on, self
        try:
            _do(self.previous, number, frame)
        finally:
            _Shared.going_on = before

    def send(self) -> None:
        # A handler of somebody else's may take its time, in which more is logged.
        is_end = self.previous is signal.SIG_DFL
        threads: List[threading.Thread] = []
        for logger in list(_Shared.loggers):
            thread = threading.Thread(target=self.send_of, args=(logger, is_end), name="almanac-ml-end", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads
                self.send_of(logger, is_end)
            else:
                threads.append(thread)
        for thread in threads:
            thread.join(max(0.0, self.until - time.monotonic()))
        if _Shared.sending is not self:
            return
        if hasattr(signal, "pthread_kill"):
            # To that thread, so that what it waits for is interrupted.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        else:
            signal.raise_signal(signal.SIGTERM)

    def send_of(self, logger: "Logger", is_end: bool) -> None:
        seconds = max(0.0, self.until - PUT_AWAY_SECONDS - time.monotonic())
        try:
            if is_end:
                logger.close(seconds)
            else:
                logger.flush(seconds)
        except Exception:  # the process ends all the same
            log.exception("%r could not send what it holds", logger)


def _do(what: Any, number: int, frame: Optional[FrameType]) -> None:
    """Does what a signal does that has this handler."""
    if callable(what):
        what(number, frame)
    elif what is signal.SIG_DFL:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


def send_before_end(logger: "Logger") -> None:
    """Has a logger send what it holds when SIGTERM comes, before that does what it did until now.

    Raises :class:`AlmanacError` outside of the main thread, unless SIGTERM has the handler of another logger.
    """
    present = signal.getsignal(signal.SIGTERM)
    if not isinstance(getattr(present, "__self__", None), _Handler):
        if present is None:
            raise AlmanacError("flush_on_sigterm: SIGTERM has a handler that Python did not set and cannot call")
        try:
            signal.signal(signal.SIGTERM, _Handler(present).handle)
        except ValueError:
            raise AlmanacError("flush_on_sigterm: make the logger in the main thread, which handles signals") from None
    _Shared.loggers.add(logger)


def _after_fork() -> None:
    """In a child nothing is being sent: the thread that did is the parent's."""
    _Shared.sending = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
