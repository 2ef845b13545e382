"""Logging from a training or serving loop: a call takes microseconds and never fails, waits or raises.

Rows go into a bounded queue. A thread sends them in batches, each under an idempotency key of its own, so
that a batch that is sent twice counts once. While the service is away, batches wait in memory or, with
``spool``, on disk, where they outlive the process. What the service refuses for good is counted, logged, and
kept in the spool's folder ``refused``.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import logging
import os
import threading
import time
import uuid
import weakref
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Mapping, Optional, Tuple, Union

from . import _frames
from ._fields import FAMILIES, field
from ._frames import Body
from .errors import AlmanacError, RefusedError, UnavailableError
from .spool import Spool, Spooled

if TYPE_CHECKING:
    from .client import Workspace

log = logging.getLogger("almanac_ml")

#: A row in the queue: its kind, and its fields.
Row = Tuple[str, Dict[str, Any]]

#: The most bytes of spooled batches, unless ``spool_bytes`` says otherwise.
SPOOL_BYTES = 1024 * 1024 * 1024

_loggers: "weakref.WeakSet[Logger]" = weakref.WeakSet()


@dataclass(frozen=True)
class Stats:
    """What became of the rows that were logged."""

    logged: int = 0
    """Rows that were taken."""
    stored: int = 0
    """Rows that the service has stored, with those that an earlier process left in the spool."""
    spooled: int = 0
    """Rows that wait on disk."""
    refused: int = 0
    """Rows that the service refused for good, or that cannot be sent."""
    dropped: int = 0
    """Rows that were lost because the queue or the spool was full."""
    waiting: int = 0
    """Rows in the queue."""


class Logger:
    """Sends predictions, outcomes and metrics in the background. Threads may share it.

    ``max_queued``: the most rows that wait in memory; further ones are dropped and counted.
    ``max_batch``: the most rows of a request. ``flush_seconds``: how long a row waits at most before it
    is sent. ``retry_for``: how long a request is tried before its batch waits for the next round.
    ``spool``: a folder in which batches wait while the service is away, at most ``spool_bytes``.
    ``on_error`` is called with each error, from the thread that sends.
    """

    def __init__(
        self,
        workspace: "Workspace",
        *,
        spool: Union[None, str, "os.PathLike[str]"] = None,
        spool_bytes: int = SPOOL_BYTES,
        max_queued: int = 100_000,
        max_batch: int = 10_000,
        flush_seconds: float = 1.0,
        retry_for: float = 5.0,
        on_error: Optional[Callable[[Exception], None]] = None,
    ) -> None:
        self._workspace = workspace
        self._spool_root = None if spool is None else Path(spool)
        self._spool_bytes = spool_bytes
        self._max_queued = max_queued
        self._max_batch = min(max_batch, max_queued)
        self._flush_seconds = flush_seconds
        self._retry_for = retry_for
        self._on_error = on_error
        self._begin()
        _loggers.add(self)
        # The exit of the process must not keep the logger alive.
        atexit.register(_close_at_exit, weakref.ref(self))

    def _begin(self) -> None:
        """A fresh state: at first, and in a child after a fork."""
        self._queue: Deque[Row] = deque()
        self._held: Deque[Tuple[str, str, Body]] = deque()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._settled = threading.Condition(self._lock)
        self._stats = Stats()
        self._logged = self._dropped = 0
        self._rounds = 0
        self._closing = False
        self._thread: Optional[threading.Thread] = None
        self._name = uuid.uuid4().hex
        self._batches = 0
        self._is_away = False
        self._spool: Optional[Spool] = None

    def __repr__(self) -> str:
        return f"Logger({self._workspace.path!r}, {self.stats})"

    def __enter__(self) -> "Logger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prediction(
        self,
        release: str,
        key: Any,
        *,
        score: Optional[float] = None,
        label: Any = None,
        value: Optional[float] = None,
        lower: Optional[float] = None,
        upper: Optional[float] = None,
        predicted_at: Union[None, str, datetime] = None,
        latency_ms: Optional[float] = None,
        scores: Optional[Mapping[Any, float]] = None,
        features: Optional[Mapping[str, float]] = None,
        tags: Optional[Mapping[str, Any]] = None,
    ) -> bool:
        """Logs a prediction, made now unless ``predicted_at`` says when. Returns whether it was taken."""
        row = {
            "key": key,
            "predicted_at": time.time() if predicted_at is None else predicted_at,
            "release": release,
            "score": score,
            "label": label,
            "value": value,
            "lower": lower,
            "upper": upper,
            "latency_ms": latency_ms,
        }
        return self._take("predictions", row, tags=tags, scores=scores, features=features)

    def outcome(
        self,
        key: Any,
        *,
        label: Any = None,
        value: Optional[float] = None,
        predicted_at: Union[None, str, datetime] = None,
        predicted_on: Union[None, str, datetime] = None,
        observed_at: Union[None, str, datetime] = None,
    ) -> bool:
        """Logs what really happened, observed now unless ``observed_at`` says when."""
        row = {
            "key": key,
            "observed_at": time.time() if observed_at is None else observed_at,
            "predicted_at": predicted_at,
            "predicted_on": predicted_on,
            "label": label,
            "value": value,
        }
        return self._take("outcomes", row)

    def metric(
        self,
        name: str,
        value: float,
        *,
        release: Optional[str] = None,
        measured_at: Union[None, str, datetime] = None,
        key: Any = None,
        predicted_at: Union[None, str, datetime] = None,
        predicted_on: Union[None, str, datetime] = None,
        tags: Optional[Mapping[str, Any]] = None,
    ) -> bool:
        """Logs a measurement, taken now unless ``measured_at`` says when.

        It may name the prediction that it belongs to: by ``key``, and ``predicted_at`` or ``predicted_on``.
        """
        row = {
            "name": name,
            "measured_at": time.time() if measured_at is None else measured_at,
            "value": value,
            "release": release,
            "key": key,
            "predicted_at": predicted_at,
            "predicted_on": predicted_on,
        }
        return self._take("metrics", row, tags=tags)

    def _take(self, kind: str, row: Dict[str, Any], **families: Optional[Mapping[Any, Any]]) -> bool:
        waiting = len(self._queue)
        if waiting >= self._max_queued or self._closing:
            self._dropped += 1
            return False
        # Copies: the caller may change its own.
        row.update({name: dict(members) for name, members in families.items() if members})
        self._queue.append((kind, row))
        self._logged += 1
        if self._thread is None:
            self._start()
        elif waiting + 1 == self._max_batch:
            self._wake.set()
        return True

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="almanac-ml", daemon=True)
                self._thread.start()

    @property
    def stats(self) -> Stats:
        """What became of the rows so far."""
        held = sum(body.rows for _, _, body in list(self._held))
        return replace(
            self._stats,
            logged=self._logged,
            dropped=self._stats.dropped + self._dropped,
            waiting=len(self._queue) + held,
        )

    def flush(self, timeout: float = 30.0) -> bool:
        """Waits until everything logged before is stored; ``False`` when that took too long, or some of
        it waits on disk or was refused or dropped."""
        before = self.stats
        if self._thread is None and self._spool_root is None:
            return before.waiting == 0
        self._start()
        give_up = time.monotonic() + timeout
        with self._settled:
            # The round that runs may have begun before the last row was logged.
            wanted = self._rounds + 2
            while self._rounds < wanted and not self._is_done():
                self._wake.set()
                if not self._settled.wait(min(0.2, max(0.0, give_up - time.monotonic()))):
                    if time.monotonic() >= give_up:
                        return False
        after = self.stats
        return after.waiting == after.spooled == 0 and after.refused == before.refused

    def _is_done(self) -> bool:
        return self._thread is not None and not self._thread.is_alive()

    async def aflush(self, timeout: float = 30.0) -> bool:
        """:meth:`flush`, without holding up the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, functools.partial(self.flush, timeout))

    def close(self, timeout: float = 10.0) -> Stats:
        """Sends what waits, for ``timeout`` seconds at most, and ends. What could not be sent stays on
        disk with ``spool``, and is dropped without. It may be called again."""
        if self._thread is None and self._queue:
            self._start()
        self._closing = True
        self._wake.set()
        thread = self._thread
        if thread is not None:
            thread.join(timeout)
        if thread is None or not thread.is_alive():
            self._end()
        _loggers.discard(self)
        return self.stats

    async def aclose(self, timeout: float = 10.0) -> Stats:
        """:meth:`close`, without holding up the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, functools.partial(self.close, timeout))

    def _end(self) -> None:
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _run(self) -> None:
        self._open_spool()
        while True:
            self._wake.wait(self._flush_seconds)
            self._wake.clear()
            closing = self._closing
            try:
                self._round(closing)
            except Exception as error:  # noqa: BLE001  nothing may end this thread
                self._tell(error, "a batch could not be sent")
            with self._settled:
                self._rounds += 1
                self._settled.notify_all()
            if closing and not self._queue:
                break

    def _open_spool(self) -> None:
        if self._spool_root is None:
            return
        try:
            self._spool = Spool(self._spool_root, self._spool_bytes)
            self._spool.adopt()
            self._count(spooled=sum(spooled.body.rows for spooled in self._spool.waiting()))
        except OSError as error:
            self._tell(error, f"the spool {self._spool_root} cannot be used")

    def _round(self, closing: bool) -> None:
        """Sends what waits in the queue, after everything that waited before: rows of a key keep their order."""
        self._send_spooled()
        self._send_held()
        while self._queue:
            rows = [self._queue.popleft() for _ in range(min(self._max_batch, len(self._queue)))]
            for kind, body in self._bodies(rows):
                self._batches += 1
                batch = f"{self._name}/{self._batches}"
                if self._is_away or self._held or not self._send(kind, batch, body):
                    self._keep(kind, batch, body)
        if closing:
            while self._held:
                kind, batch, body = self._held.popleft()
                if not self._send(kind, batch, body):
                    self._count(dropped=body.rows)

    def _bodies(self, rows: List[Row]) -> List[Tuple[str, Body]]:
        kinds: Dict[str, List[Dict[str, Any]]] = {}
        for kind, row in rows:
            try:
                kinds.setdefault(kind, []).append(_plain(kind, row))
            except Exception as error:  # noqa: BLE001  whatever a caller may have logged
                self._count(refused=1)
                self._tell(error, f"one of the {kind} cannot be sent: {row!r:.200}")
        found: List[Tuple[str, Body]] = []
        for kind, plain in kinds.items():
            names = list(dict.fromkeys(name for row in plain for name in row))
            columns = {name: [row.get(name) for row in plain] for name in names}
            found.extend((kind, body) for body in _frames.json_bodies(columns, len(plain)))
        return found

    def _send(self, kind: str, batch: str, body: Body) -> bool:
        """Whether the batch is settled: stored, or refused for good."""
        try:
            self._workspace.send(kind, body, batch, retry_for=self._retry_for)
        except UnavailableError as error:
            if not self._is_away:
                self._is_away = True
                self._tell(error, "the service is away; batches wait")
            return False
        except RefusedError as error:
            self._refused(kind, batch, body, error)
            return True
        if self._is_away:
            self._is_away = False
            log.info("%s is there again", self._workspace.client.transport.url)
        self._count(stored=body.rows)
        return True

    def _refused(self, kind: str, batch: str, body: Body, error: RefusedError) -> None:
        """Sends the good rows of a batch without the bad ones, which are kept apart."""
        bad = {problem.row - 1 for problem in error.rows}
        columns = _frames.json_columns(body)
        if not bad or columns is None or len(bad) >= body.rows:
            self._count(refused=body.rows)
            self._keep_refused(kind, batch, body, error)
            return
        good, rest = _split(columns, body.rows, bad)
        self._count(refused=rest.rows)
        self._keep_refused(kind, batch, rest, error)
        # The service names 100 bad rows at most: what is left may be refused again.
        if not self._send(kind, f"{batch}-", good):
            self._keep(kind, f"{batch}-", good)

    def _keep_refused(self, kind: str, batch: str, body: Body, error: RefusedError) -> None:
        self._tell(error, f"{body.rows} {kind} were refused")
        if self._spool is not None:
            self._spool.keep_refused(kind, batch, body, str(error))

    def _keep(self, kind: str, batch: str, body: Body) -> None:
        """Keeps a batch for later: on disk where there is a spool, else in memory."""
        if self._spool is not None:
            try:
                if self._spool.write(kind, batch, body) is not None:
                    self._count(spooled=body.rows)
                    return
            except OSError as error:
                self._tell(error, "a batch cannot be spooled")
        held = sum(body.rows for _, _, body in self._held)
        if held + body.rows <= self._max_queued:
            self._held.append((kind, batch, body))
        else:
            self._count(dropped=body.rows)

    def _send_held(self) -> None:
        while self._held:
            kind, batch, body = self._held[0]
            if not self._send(kind, batch, body):
                return
            self._held.popleft()

    def _send_spooled(self) -> None:
        if self._spool is None:
            return
        for spooled in self._spool.waiting():
            if not self._send_one_spooled(self._spool, spooled):
                return

    def _send_one_spooled(self, spool: Spool, spooled: Spooled) -> bool:
        if not self._send(spooled.kind, spooled.batch, spooled.body):
            return False
        spool.done(spooled)
        self._count(spooled=-spooled.body.rows)
        return True

    def _count(self, *, stored: int = 0, spooled: int = 0, refused: int = 0, dropped: int = 0) -> None:
        now = self._stats
        self._stats = replace(
            now,
            stored=now.stored + stored,
            spooled=max(0, now.spooled + spooled),
            refused=now.refused + refused,
            dropped=now.dropped + dropped,
        )

    def _tell(self, error: Exception, what: str) -> None:
        log.warning("%s: %s", what, error)
        if self._on_error is not None:
            try:
                self._on_error(error)
            except Exception:  # noqa: BLE001  the caller's own mistake must not end the thread
                log.exception("on_error failed")


def _plain(kind: str, row: Dict[str, Any]) -> Dict[str, Any]:
    plain = {}
    families = {of.name: of for of in FAMILIES}
    for name, value in row.items():
        if name in families:
            of = families[name]
            for member, content in value.items():
                plain[of.prefix + (_frames.text(member) or "")] = _frames.plain(content, of.type)
        elif value is not None:
            if isinstance(value, float) and field(kind, name).type == "time":
                value = datetime.fromtimestamp(value, timezone.utc)
            plain[name] = _frames.plain(value, field(kind, name).type)
    return plain


def _split(columns: Dict[str, List[Any]], rows: int, bad: "set[int]") -> Tuple[Body, Body]:
    def take(wanted: List[int]) -> Body:
        part = {name: [values[row] for row in wanted] for name, values in columns.items()}
        return next(iter(_frames.json_bodies(part, len(wanted))))

    return take([row for row in range(rows) if row not in bad]), take(sorted(bad))


def _close_at_exit(reference: "weakref.ref[Logger]") -> None:
    logger = reference()
    if logger is not None and not logger._closing:
        logger.close(5.0)


def _after_fork() -> None:
    """In a child there is no thread: rows that waited belong to the parent, connections to nobody."""
    for logger in list(_loggers):
        logger._begin()
        logger._workspace.client.transport.forget_connections()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


__all__ = ["AlmanacError", "Logger", "Stats"]
