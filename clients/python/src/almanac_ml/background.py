"""Logging from a training or serving loop: a call takes microseconds and never fails, waits or raises.

Rows go into a bounded queue. A thread sends them in batches, each under an idempotency key of its own, so
that a batch that is sent twice counts once. While the service is away, batches wait in memory or, with
``spool``, on disk, where they outlive the process. What the service refuses for good is counted, logged, and
kept in the spool's folder ``refused``.

Three locks, of which a call takes at most the first:

- ``_lock`` guards counters. It is held for no I/O, and by a call only if its row cannot be taken.
- ``_work`` is held while rows become batches or are written to disk, and never during a request. So
  :meth:`Logger.close` can save what waits while a request hangs.
- ``_starting`` is held while the thread is started.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import hashlib
import logging
import os
import random
import sys
import threading
import time
import uuid
import weakref
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from . import _frames, _sigterm
from ._fields import FAMILIES, KINDS, MAX_MEMBERS, NUMBER, TEXT, TIME, field
from .client import Release
from .errors import AlmanacError, RefusedError
from .spool import Batch, Spool

if TYPE_CHECKING:
    from .client import Named, Workspace

log = logging.getLogger("almanac_ml")

#: A row in the queue: its kind, the members of each of :data:`FAMILIES`, and its fields in the order of :data:`KINDS`,
#: of which the last may be left out. A tuple takes less memory than a dict, and filling fresh memory is what a call
#: waits for.
Row = Tuple[Any, ...]

#: Where the fields of a row begin.
FIRST_FIELD = 1 + len(FAMILIES)

#: Where a prediction has its release.
RELEASE_FIELD = FIRST_FIELD + [field.name for field in KINDS["predictions"]].index("release")

#: The most bytes of spooled batches, unless ``spool_bytes`` says otherwise.
SPOOL_BYTES = 1024 * 1024 * 1024

#: The most rows of a request, unless ``max_batch`` says otherwise. Making JSON of more would hold up other threads
#: of Python for longer.
MAX_BATCH = 2_000

#: The longest pause between two requests while the service is away, in seconds.
MAX_PAUSE_SECONDS = 30.0

#: Why rows are dropped.
FULL = "did not fit into memory or the spool"
CLOSED = "were logged after the logger was closed"
UNSENT = "could not be sent before the logger was closed, and it has no spool that keeps them"

#: How long rows are dropped before that is said again, in seconds.
TELL_DROPPED_SECONDS = 60.0

#: The most different things that the service may find strange before no more of them is said.
MOST_STRANGE = 100

#: How long a logger that nobody closed may send at the end of the process, in seconds.
EXIT_SECONDS = 5.0

#: Statuses that say of a batch that it is not to be stored as it is. After any other one it waits, since somebody
#: can mend it: give a token or a right, create the workspace, set a proxy right that redirects.
FINAL = frozenset((400, 409, 410, 413, 415, 422))

#: Statuses that one row can cause without being named: what is left of the batch may be fine.
DIVIDED = frozenset((400, 413, 422))

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
    """Rows in memory, those that are being sent among them."""


class _Abandoned(Exception):
    """:meth:`Logger.close` has saved what this thread was about to send."""


class Logger:
    """Sends predictions, outcomes and metrics in the background. Threads may share it.

    ``max_queued``: the most rows that wait in memory; further ones are dropped and counted.
    ``max_batch``: the most rows of a request. ``flush_seconds``: how long a row waits at most before it
    is sent. ``timeout``: how long one answer may take. ``retry_for``: how long a request is tried before its
    batch waits for a later round. ``spool``: a folder in which batches wait while the service is away, at most
    ``spool_bytes``; a batch is there after one try that failed, whatever ``retry_for`` says. ``on_error`` is
    called with each error, from the thread that sends. What the service finds strange of what it stores is a warning
    in the log ``almanac_ml``, each once.

    It is closed by ``with``, by :meth:`close`, or when the interpreter ends. A signal ends a process without that:
    ``flush_on_sigterm`` has SIGTERM wait up to 5 s for what all such loggers hold, and then do what it did before. It
    installs a handler, so it is given in the main thread, after handlers of one's own.
    """

    def __init__(
        self,
        workspace: "Workspace",
        *,
        spool: Union[None, str, "os.PathLike[str]"] = None,
        spool_bytes: int = SPOOL_BYTES,
        max_queued: int = 100_000,
        max_batch: int = MAX_BATCH,
        flush_seconds: float = 1.0,
        timeout: float = 10.0,
        retry_for: float = 5.0,
        on_error: Optional[Callable[[Exception], None]] = None,
        flush_on_sigterm: bool = False,
    ) -> None:
        self._workspace = workspace
        self._spool_root = None if spool is None else Path(spool)
        self._spool_bytes = spool_bytes
        self._max_queued = max_queued
        self._max_batch = min(max_batch, max_queued)
        self._flush_seconds = flush_seconds
        self._timeout = timeout
        self._retry_for = retry_for
        self._on_error = on_error
        self._begin()
        if flush_on_sigterm:
            _sigterm.send_before_end(self)
        _loggers.add(self)
        # The exit of the process must not keep the logger alive.
        atexit.register(_close_at_exit, weakref.ref(self))

    def _begin(self) -> None:
        """A fresh state: at first, and in a child after a fork."""
        self._queue: Deque[Row] = deque()
        # Batches in memory, the one that is being sent first.
        self._batches: Deque[Batch] = deque()
        # Reentrant: a signal handler may log while its thread is in a call.
        self._lock = threading.RLock()
        self._settled = threading.Condition(self._lock)
        self._work = threading.Lock()
        self._starting = threading.RLock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._stats = Stats()
        self._taken = self._in_hand = 0
        self._dropped = self._unusable = 0
        # Rows of which it is not said yet that they were dropped, by the reason.
        self._untold: Dict[str, int] = {}
        self._told_dropped_at = float("-inf")
        self._errors: Deque[Tuple[Exception, str]] = deque(maxlen=100)
        self._told_strange: Set[str] = set()
        # What was lost when flush() ended the last time.
        self._told_lost = (0, 0)
        self._rounds = 0
        self._closing = self._is_urgent = self._is_abandoned = False
        self._thread: Optional[threading.Thread] = None
        self._name = uuid.uuid4().hex
        self._made = 0
        self._is_away = False
        self._pause, self._next_try = 0.0, 0.0
        self._spool: Optional[Spool] = None

    def __repr__(self) -> str:
        return f"Logger({self._workspace.path!r}, {self.stats})"

    def __reduce__(self) -> Tuple[Any, ...]:
        raise TypeError("a logger stays in its process: send the workspace, and call its logger() in each worker")

    def __enter__(self) -> "Logger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prediction(
        self,
        release: "Named",
        key: Any,
        *,
        score: Optional[float] = None,
        label: Any = None,
        value: Optional[float] = None,
        lower: Optional[float] = None,
        upper: Optional[float] = None,
        predicted_at: Union[None, str, datetime] = None,
        latency_ms: Optional[float] = None,
        group: Any = None,
        scores: Optional[Mapping[Any, float]] = None,
        features: Optional[Mapping[str, float]] = None,
        tags: Optional[Mapping[str, Any]] = None,
    ) -> bool:
        """Logs a prediction, made now unless ``predicted_at`` says when. Returns whether it was taken.

        ``group`` names the items that a ranking orders together by their scores.
        """
        at = time.time() if predicted_at is None else predicted_at
        name = release if type(release) is str else _name_of(release)
        return self._take(
            ("predictions", tags, scores, features, key, at, name, score, label, value, lower, upper, latency_ms, group)
        )

    def outcome(
        self,
        key: Any,
        *,
        label: Any = None,
        value: Optional[float] = None,
        predicted_at: Union[None, str, datetime] = None,
        predicted_on: Union[None, str, datetime] = None,
        observed_at: Union[None, str, datetime] = None,
        predicted_since: Union[None, str, datetime] = None,
        applies_to: Optional[str] = None,
    ) -> bool:
        """Logs what really happened, observed now unless ``observed_at`` says when.

        Without ``predicted_at`` and ``predicted_on`` it labels the latest prediction of its key up to then that is no
        earlier than ``predicted_since``, or than 90 days before, and waits until that is found; with
        ``applies_to="all"`` it labels all of these predictions.
        """
        at = time.time() if observed_at is None else observed_at
        return self._take(
            ("outcomes", None, None, None, key, at, predicted_at, predicted_on, predicted_since, applies_to, label, value)
        )

    def metric(
        self,
        name: str,
        value: float,
        *,
        release: Optional["Named"] = None,
        measured_at: Union[None, str, datetime] = None,
        key: Any = None,
        predicted_at: Union[None, str, datetime] = None,
        predicted_on: Union[None, str, datetime] = None,
        run: Optional[str] = None,
        step: Optional[int] = None,
        tags: Optional[Mapping[str, Any]] = None,
    ) -> bool:
        """Logs a measurement, taken now unless ``measured_at`` says when.

        It may name the prediction that it belongs to: by ``key``, and ``predicted_at`` or ``predicted_on``; or the
        ``run`` that took it, by its id, and its ``step``. Of a run it may be NaN or infinite.
        """
        at = time.time() if measured_at is None else measured_at
        release = None if release is None else _name_of(release)
        return self._take(
            ("metrics", tags, None, None, name, at, value, release, key, predicted_at, predicted_on, run, step)
        )

    def _take(self, row: Row) -> bool:
        try:
            if len(self._queue) >= self._max_queued or self._closing:
                self._drop(1, CLOSED if self._closing else FULL)
                return False
            families = row[1:FIRST_FIELD]
            if any(families):
                # Copies: the caller may change its own.
                row = (row[0], *[members and dict(members) for members in families], *row[FIRST_FIELD:])
            self._queue.append(row)
            if self._thread is None:
                self._start()
            elif len(self._queue) >= self._max_batch and not self._wake.is_set():
                self._wake.set()
            return True
        except Exception as error:  # nothing of this is worth the caller's own work
            with self._lock:
                self._unusable += 1
                self._errors.append((error, f"one of the {row[0]} was not logged"))
            return False

    def _start(self) -> bool:
        """Whether the thread runs. Where none can be started, a later call tries again."""
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="almanac-ml", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    if not self._errors:
                        self._errors.append((error, "the thread that sends cannot be started"))
                    return False
                self._thread = thread
                _close_with_worker(self)
        return True

    @property
    def stats(self) -> Stats:
        """What became of the rows so far."""
        with self._lock:
            waiting = len(self._queue)
            return replace(
                self._stats,
                logged=self._taken + waiting + self._unusable,
                refused=self._stats.refused + self._unusable,
                dropped=self._dropped,
                waiting=waiting + self._in_hand + sum(batch.body.rows for batch in self._batches),
            )

    def flush(self, timeout: float = 30.0) -> bool:
        """Waits until everything logged before is stored; ``False`` when that took too long, some of
        it waits on disk, or rows were refused or dropped since the last call that did not take too long."""
        told, before = self._told_lost, self.stats
        if threading.current_thread() is self._thread:
            return before.waiting == before.spooled == 0 and _lost(before) == told
        if self._thread is None and (self._closing or not (before.waiting or self._spool_root)):
            self._told_lost = _lost(before)
            return before.waiting == 0 and _lost(before) == told
        if not self._start():
            return False
        give_up = time.monotonic() + timeout
        with self._settled:
            # The round that runs may have begun before the last row was logged.
            wanted = self._rounds + 2
            while self._rounds < wanted and self._is_running():
                self._is_urgent = True
                self._wake.set()
                if not self._settled.wait(min(0.2, max(0.0, give_up - time.monotonic()))):
                    if time.monotonic() >= give_up:
                        return False
        after = self.stats
        self._told_lost = _lost(after)
        return after.waiting == after.spooled == 0 and _lost(after) == told

    def _is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    async def aflush(self, timeout: float = 30.0) -> bool:
        """:meth:`flush`, without holding up the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, functools.partial(self.flush, timeout))

    def close(self, timeout: float = 10.0) -> Stats:
        """Sends what waits, for about ``timeout`` seconds at most, and ends. What could not be sent by then
        stays on disk with ``spool``, and is dropped without. It may be called again."""
        give_up = time.monotonic() + timeout
        if self._thread is None and self._queue:
            self._start()
        self._closing = True
        if self._spool_root is not None:
            # The spool keeps what fails now: it is not tried again.
            self._stop.set()
        self._wake.set()
        thread = self._thread
        if thread is None and self._queue:
            # No thread can be started any more, as at the end of an interpreter.
            self._run()
        elif thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, give_up - time.monotonic()))
            self._stop.set()
            if thread.is_alive():
                self._abandon()
            elif self._queue:
                # A call had looked whether it is closed before it was, and took its row after the thread's last look.
                self._wake.set()
                self._run()
        _loggers.discard(self)
        return self.stats

    async def aclose(self, timeout: float = 10.0) -> Stats:
        """:meth:`close`, without holding up the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, functools.partial(self.close, timeout))

    def _abandon(self) -> None:
        """Saves what waits while the thread hangs in a request, which is among it: its key is the same, so it
        counts once."""
        if not self._work.acquire(timeout=EXIT_SECONDS):
            log.error("rows were left behind: the disk of the spool, a handler of logs or on_error does not come back")
            return
        try:
            if not self._is_abandoned:
                self._is_abandoned = True
                self._make_batches()
                self._put_away(keep_in_memory=False)
                self._end()
        finally:
            self._work.release()

    def _end(self) -> None:
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _run(self) -> None:
        with self._work:
            self._open_spool()
        while True:
            self._wake.wait(self._flush_seconds)
            self._wake.clear()
            closing, urgent, self._is_urgent = self._closing, self._is_urgent, False
            with self._work:
                if self._is_abandoned:
                    return
                try:
                    self._round(closing, urgent)
                except _Abandoned:
                    return
                except Exception as error:  # nothing may end this thread
                    self._tell(error, "a batch could not be sent")
                self._tell_what_happened()
                is_last = closing and not self._queue and not self._batches
                if is_last:
                    self._end()
            with self._settled:
                self._rounds += 1
                self._settled.notify_all()
            if is_last:
                return

    def _open_spool(self) -> None:
        if self._spool_root is None:
            return
        try:
            self._spool = Spool(self._spool_root, self._spool_bytes, self._workspace.path)
            self._spool.adopt()
            self._count(spooled=self._spool.rows())
        except OSError as error:
            self._tell(error, f"the spool {self._spool_root} cannot be used")

    def _round(self, closing: bool, urgent: bool) -> None:
        """Sends what waits, in the order in which it was logged: rows of a key keep their order."""
        self._make_batches()
        if self._is_away and self._spool is not None:
            # The next try may hang, and this process end meanwhile.
            self._put_away(keep_in_memory=True)
        if closing or urgent or not self._is_away or time.monotonic() >= self._next_try:
            while self._send_spooled() and self._batches:
                if not self._send(self._batches[0], self._replace_first):
                    break
                self._relieve()
                if not self._batches:
                    self._make_batches()
        if self._batches:
            self._put_away(keep_in_memory=not closing)

    def _relieve(self) -> None:
        """Writes what is queued to disk, where there is a spool, before the queue is full: the service takes less
        than is logged, or has a full spool to take first."""
        if self._spool is not None and len(self._queue) >= self._max_queued // 2:
            self._make_batches()
            self._put_away(keep_in_memory=True)

    def _make_batches(self) -> None:
        """Turns what is queued into batches."""
        while self._queue:
            with self._lock:
                rows = [self._queue.popleft() for _ in range(min(self._max_batch, len(self._queue)))]
                self._taken += len(rows)
                self._in_hand = len(rows)
            try:
                made = self._made_of(rows)
            except Exception as error:  # what cannot be made into batches is lost, and counted
                made = []
                self._count(refused=len(rows))
                self._tell(error, f"{len(rows)} rows cannot be sent")
            with self._lock:
                self._batches.extend(made)
                self._in_hand = 0

    def _made_of(self, rows: List[Row]) -> List[Batch]:
        kinds: Dict[str, List[Row]] = {}
        for row in rows:
            kinds.setdefault(row[0], []).append(row)
        made: List[Batch] = []
        fitting = [(kind, part) for kind, of_kind in kinds.items() for part in _fitting(kind, of_kind)]
        for kind, part in fitting:
            count, columns = self._columns_of(kind, part)
            for body in _frames.json_bodies(columns, count):
                self._made += 1
                made.append(Batch(kind, f"{self._name}/{self._made}", body))
        return made

    def _columns_of(self, kind: str, rows: List[Row]) -> Tuple[int, Dict[str, List[Any]]]:
        """The columns of the rows that can be sent, and how many rows those are."""
        try:
            return len(rows), _columns(kind, rows)
        except Exception:  # whatever a caller may have logged: which of them is it?
            good = [row for row in rows if self._can_be_sent(kind, row)]
            return len(good), _columns(kind, good)

    def _can_be_sent(self, kind: str, row: Row) -> bool:
        try:
            _columns(kind, [row])
            return True
        except Exception as error:
            self._count(refused=1)
            self._tell(error, f"one of the {kind} cannot be sent: {row[1:]!r:.200}")
            return False

    def _send(self, batch: Batch, replaced: Callable[[List[Batch]], None]) -> bool:
        """Whether the batch is settled: stored, or refused for good. ``replaced`` takes what it leaves: nothing,
        or the good rows of a batch that was refused."""
        error = self._requested(batch)
        if self._is_abandoned:
            raise _Abandoned
        if not isinstance(error, Exception):
            replaced([])
            self._count(stored=batch.body.rows)
            self._tell_strange(error)
        elif isinstance(error, RefusedError) and error.status in FINAL:
            replaced(self._refused(batch, error))
        else:
            if not self._is_away:
                self._is_away = True
                self._tell(error, "batches wait")
            self._pause = min(MAX_PAUSE_SECONDS, max(self._flush_seconds, 2 * self._pause))
            self._next_try = time.monotonic() + random.uniform(0.5, 1.0) * self._pause
            return False
        if self._is_away:
            self._is_away, self._pause = False, 0.0
            log.info("%s takes batches again", self._workspace.client.transport.url)
        return True

    def _requested(self, batch: Batch) -> Union[Exception, List[str]]:
        """What a request came to, during which others may work: an error, or what the service found strange."""
        # With a spool a batch is on disk after one try that failed, and is tried again from there.
        retry_for = 0.0 if self._is_away or self._spool is not None else self._retry_for
        self._work.release()
        try:
            told = self._workspace.send(
                batch.kind, batch.body, batch.name, retry_for=retry_for, timeout=self._timeout, stop=self._stop
            )
            return [str(text) for text in told.get("warnings", [])]
        except Exception as error:  # what is not known to be final is tried again
            return error
        finally:
            self._work.acquire()

    def _replace_first(self, batches: List[Batch]) -> None:
        with self._lock:
            self._batches.popleft()
            self._batches.extendleft(reversed(batches))

    def _refused(self, batch: Batch, error: RefusedError) -> List[Batch]:
        """Keeps what is bad of a batch apart, and returns the rest as batches."""
        bad = {problem.row - 1 for problem in error.rows}
        columns = _frames.json_columns(batch.body)
        rows = batch.body.rows
        if columns is not None and rows > 1 and not bad and error.status in DIVIDED:
            half = rows // 2
            return [_part(batch, columns, range(half)), _part(batch, columns, range(half, rows))]
        if not bad or columns is None or error.row_count >= rows:
            self._keep_refused(batch, error)
            return []
        self._keep_refused(_part(batch, columns, sorted(bad)), error)
        # The service names 100 bad rows at most: what is left may be refused again.
        return [_part(batch, columns, [row for row in range(rows) if row not in bad])]

    def _keep_refused(self, batch: Batch, error: RefusedError) -> None:
        self._count(refused=batch.body.rows)
        self._tell(error, f"{batch.body.rows} {batch.kind} were refused")
        if self._spool is not None:
            try:
                self._spool.keep_refused(batch, str(error))
            except OSError as failed:
                self._tell(failed, "what was refused cannot be kept")

    def _put_away(self, keep_in_memory: bool) -> None:
        """Keeps batches for later: on disk where there is a spool, else in memory."""
        kept: List[Batch] = []
        rows = 0
        for batch in list(self._batches):
            # What follows a batch that stays in memory stays there too: rows of a key keep their order.
            if kept or not self._is_spooled(batch):
                rows += batch.body.rows
                if keep_in_memory and rows <= self._max_queued:
                    kept.append(batch)
                else:
                    self._drop(batch.body.rows, FULL if keep_in_memory or self._spool is not None else UNSENT)
        with self._lock:
            self._batches = deque(kept)

    def _is_spooled(self, batch: Batch) -> bool:
        if self._spool is None:
            return False
        try:
            if not self._spool.write(batch):
                return False
        except OSError as error:
            self._tell(error, "a batch cannot be spooled")
            return False
        self._count(spooled=batch.body.rows)
        return True

    def _send_spooled(self) -> bool:
        """Whether nothing waits on disk any more."""
        while self._spool is not None:
            spool = self._spool
            try:
                spooled = spool.first()
                if spooled is None:
                    break
                if isinstance(spooled, int):
                    self._count(spooled=-spooled)
                    continue
                before = spooled.body.rows

                def replaced(batches: List[Batch], spool: Spool = spool, before: int = before) -> None:
                    spool.replace_first(batches)
                    self._count(spooled=sum(batch.body.rows for batch in batches) - before)

                if not self._send(spooled, replaced):
                    return False
                self._relieve()
            except OSError as error:
                self._tell(error, f"the spool {self._spool_root} cannot be read")
                return True
        return True

    def _drop(self, rows: int, why: str) -> None:
        with self._lock:
            self._dropped += rows
            self._untold[why] = self._untold.get(why, 0) + rows

    def _count(self, *, stored: int = 0, spooled: int = 0, refused: int = 0) -> None:
        with self._lock:
            now = self._stats
            self._stats = replace(
                now,
                stored=now.stored + stored,
                spooled=max(0, now.spooled + spooled),
                refused=now.refused + refused,
            )

    def _tell_what_happened(self) -> None:
        """Says what calls left to be said, so that they need not wait for who writes logs."""
        while self._errors:
            self._tell(*self._errors.popleft())
        now = time.monotonic()
        if self._untold and (self._closing or now >= self._told_dropped_at + TELL_DROPPED_SECONDS):
            self._told_dropped_at = now
            with self._lock:
                untold, self._untold = self._untold, {}
            for why, rows in untold.items():
                self._tell(AlmanacError(f"{rows:,} rows {why}"), "rows were dropped")

    def _tell_strange(self, texts: Sequence[str]) -> None:
        """Says what the service found strange of what it stored, each once."""
        for text in texts:
            if text not in self._told_strange and len(self._told_strange) < MOST_STRANGE:
                self._told_strange.add(text)
                log.warning("the service found something strange: %s", text)

    def _tell(self, error: Exception, what: str) -> None:
        log.warning("%s: %s", what, error)
        if self._on_error is not None:
            try:
                self._on_error(error)
            except Exception:  # the caller's own mistake must not end the thread
                log.exception("on_error failed")


def _lost(stats: Stats) -> Tuple[int, int]:
    """The rows that were refused and dropped."""
    return stats.refused, stats.dropped


def _fitting(kind: str, rows: List[Row]) -> List[List[Row]]:
    """The rows, in as many parts as it takes for none to have more tags, scores or features than a request may have."""
    if _fits(_members_of(rows)):
        return [rows]
    if kind == "predictions":
        # Rows of one release have the same names. They keep their order among themselves, which is what matters.
        rows = sorted(rows, key=_release_of)
    parts: List[List[Row]] = []
    named: List[Set[Any]] = []
    for row in rows:
        more = [before | of_row for before, of_row in zip(named, _members_of([row]))]
        if parts and _fits(more):
            parts[-1].append(row)
            named = more
        else:
            parts.append([row])
            named = _members_of([row])
    return parts


def _members_of(rows: Sequence[Row]) -> List[Set[Any]]:
    """The names of the members of each family that the rows have."""
    return [set().union(*[row[at] for row in rows if row[at]]) for at in range(1, FIRST_FIELD)]


def _fits(named: Sequence[Set[Any]]) -> bool:
    return all(len(names) <= MAX_MEMBERS for names in named)


def _name_of(release: Any) -> Any:
    """The name of a release, which may be given as it is."""
    return release.name if isinstance(release, Release) else release


def _release_of(row: Row) -> str:
    """The release of a prediction, if it is a text."""
    release = row[RELEASE_FIELD]
    return release if isinstance(release, str) else ""


def _columns(kind: str, rows: List[Row]) -> Dict[str, List[Any]]:
    """Rows of a kind as columns as they are sent, without those in which none has a value."""
    values = list(zip(*rows))
    columns: Dict[str, List[Any]] = {}
    fields = dict(zip((field.name for field in KINDS[kind]), values[FIRST_FIELD:]))
    runs = fields.get("run", ()) if kind == "metrics" else ()
    for name, column in fields.items():
        if name == "value" and any(run is not None for run in runs):
            # Of a run a number may be one that JSON has not.
            pairs = zip(column, runs)
            plain, measured = _frames.plain, _frames.measured
            columns[name] = [plain(value, NUMBER) if run is None else measured(value) for value, run in pairs]
        elif any(value is not None for value in column):
            columns[name] = _plain(column, field(kind, name).type)
    for of, column in zip(FAMILIES, values[1:]):
        members: Dict[str, List[Any]] = {}
        for at, contents in enumerate(column):
            for member, content in (contents or {}).items():
                name = member if type(member) is str else _frames.text(member) or ""
                of_member = members.get(name)
                if of_member is None:
                    of_member = members[name] = [None] * len(column)
                of_member[at] = content
        columns.update((of.prefix + name, _plain(contents, of.type)) for name, contents in members.items())
    return columns


def _plain(values: Sequence[Any], kind: str) -> List[Any]:
    """A column as it is sent. What most values are is not looked at twice."""
    plain = _frames.plain
    if kind == NUMBER:
        return [value if type(value) is float and value - value == 0 else plain(value, kind) for value in values]
    if kind == TEXT:
        return [value if type(value) is str else plain(value, kind) for value in values]
    if kind == TIME:
        # A time that a call read of the clock is a number.
        read, utc = datetime.fromtimestamp, timezone.utc
        return [plain(read(value, utc) if isinstance(value, float) else value, kind) for value in values]
    return [plain(value, kind) for value in values]


def _part(batch: Batch, columns: Dict[str, List[Any]], rows: Sequence[int]) -> Batch:
    """Some rows of a batch, under a key that its name, they and their places make: a repeat has the same, and equal
    rows that were logged twice have two."""
    part = {name: [values[row] for row in rows] for name, values in columns.items()}
    digest = hashlib.sha256(f"{batch.name} {list(rows)} ".encode())
    digest.update(next(iter(_frames.json_bodies(part, len(rows)))).data)
    # A column that only other rows have may be why the batch was refused.
    had = {name: values for name, values in part.items() if any(value is not None for value in values)}
    body = next(iter(_frames.json_bodies(had, len(rows))))
    return Batch(batch.kind, f"{batch.name.split('~')[0]}~{digest.hexdigest()[:24]}", body)


def _close_at_exit(reference: "weakref.ref[Logger]") -> None:
    logger = reference()
    if logger is not None and not logger._closing:
        logger.close(EXIT_SECONDS)


def _close_with_worker(logger: Logger) -> None:
    """A process of multiprocessing ends without what was registered for the end of a process, but calls what it
    was given itself."""
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, _close_at_exit, (weakref.ref(logger),), exitpriority=100)


def _after_fork() -> None:
    """In a child there is no thread: rows that waited belong to the parent."""
    for logger in list(_loggers):
        logger._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


__all__ = ["Logger", "Stats"]
