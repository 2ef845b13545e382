"""Requests to the service: one pool of connections, and another try when that may help."""

from __future__ import annotations

import gzip
import json
import logging
import os
import random
import threading
import time
import weakref
from typing import Any, Dict, List, Mapping, Optional
from urllib.parse import urlencode, urlsplit

import urllib3

from .errors import AlmanacError, RefusedError, RowProblem, UnavailableError

#: Statuses after which the same request may succeed later.
RETRIED = frozenset((408, 429, 500, 502, 503, 504))

#: The longest pause between two tries, in seconds.
MAX_PAUSE_SECONDS = 8.0

#: The try that failed of which the caller is told, if there are more to come.
TOLD_ATTEMPT = 2

#: Bodies of fewer bytes are not worth compressing.
LEAST_COMPRESSED_BYTES = 4096

#: What to do about a status, beyond what the service says.
ADVICE = {
    401: "give connect() a token=, or set ALMANAC_TOKEN",
    403: "the token lacks a right: `almanac access list` shows who may do what",
}

log = logging.getLogger("almanac_ml")

_transports: "weakref.WeakSet[Transport]" = weakref.WeakSet()


class Answer:
    """A successful answer."""

    def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.status = status
        self.headers = headers
        self.data = data
        #: How many tries it took.
        self.tries = 1

    def json(self) -> Any:
        """The answer as JSON. Raises :class:`UnavailableError` for anything else: whatever stands before the
        service has answered in its place."""
        try:
            return json.loads(self.data)
        except ValueError:
            told = self.data[:80].decode("utf-8", "replace")
            raise UnavailableError(f"the answer is no JSON, so it is not Almanac's: {told!r}") from None


class Transport:
    """Sends requests, over connections that are kept open. Threads may share it."""

    def __init__(self, url: str, token: Optional[str], timeout: float, retry_for: float) -> None:
        self.url = url.rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise AlmanacError(f"the address {url!r} should begin with http:// or https://")
        self.timeout = timeout
        self.retry_for = retry_for
        # A file that holds a token ends with a new line. What is wrong with one is said without it.
        self._token = token.strip() if token else token
        if self._token and not (self._token.isascii() and self._token.isprintable()):
            raise AlmanacError("the token has characters that no token has; pass what `almanac token create` printed")
        # On the way to another machine bytes cost more than the time to compress them.
        self.compresses = urlsplit(self.url).hostname not in ("127.0.0.1", "localhost", "::1")
        self._pool = self._new_pool()
        _transports.add(self)

    def _new_pool(self) -> urllib3.PoolManager:
        return urllib3.PoolManager(
            maxsize=8,
            retries=False,
            timeout=urllib3.Timeout(connect=min(5.0, self.timeout), read=self.timeout),
        )

    def __repr__(self) -> str:
        return f"Transport({self.url!r})"

    def forget_connections(self) -> None:
        """Opens new connections from now on."""
        self._pool = self._new_pool()

    def close(self) -> None:
        self._pool.clear()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Optional[Mapping[str, str]] = None,
        body: Any = None,
        headers: Optional[Mapping[str, str]] = None,
        retry_for: Optional[float] = None,
        timeout: Optional[float] = None,
        stop: Optional[threading.Event] = None,
    ) -> Answer:
        """Sends a request, and again for ``retry_for`` seconds while it may help and ``stop`` is not set.

        Only requests that may be repeated are sent through here: reads, and batches with an
        idempotency key. ``body`` is bytes or any other buffer, which is not copied.
        """
        retry_for = self.retry_for if retry_for is None else retry_for
        give_up = time.monotonic() + retry_for
        stop = threading.Event() if stop is None else stop
        sent = dict(headers or {})
        if body is not None and self.compresses and memoryview(body).nbytes >= LEAST_COMPRESSED_BYTES:
            body = gzip.compress(body, 1)
            sent["Content-Encoding"] = "gzip"
        attempt = 0
        while True:
            failure, wait = self._try(method, path, params, body, sent, timeout)
            attempt += 1
            if isinstance(failure, Answer):
                failure.tries = attempt
                return failure
            # Full jitter, so that clients which failed together do not come back together.
            pause = max(wait, random.uniform(0, min(MAX_PAUSE_SECONDS, 0.1 * 2.0**attempt)))
            if stop.is_set() or time.monotonic() + pause > give_up:
                raise failure
            if attempt == TOLD_ATTEMPT:
                log.warning("%s; trying again for %.0f s", failure, give_up - time.monotonic())
            stop.wait(pause)

    def _try(
        self,
        method: str,
        path: str,
        params: Optional[Mapping[str, str]],
        body: Any,
        headers: Mapping[str, str],
        timeout: Optional[float],
    ) -> "tuple[Any, float]":
        """An answer, or an error after which another try may help and how long to wait before it."""
        sent = dict(headers)
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token}"
        url = self.url + path
        if params:
            url += "?" + urlencode(dict(params))
        options: Dict[str, Any] = {}
        if timeout is not None:
            options["timeout"] = urllib3.Timeout(connect=min(5.0, timeout), read=timeout)
        try:
            response = self._pool.request(method, url, body=body, headers=sent, **options)
            data = response.data
        except urllib3.exceptions.NewConnectionError as error:
            why = str(error).rsplit(": ", 1)[-1]
            return UnavailableError(f"nothing answers at {self.url} ({why}); does `almanac up` run there?"), 0.0
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return UnavailableError(f"{self.url} does not answer: {error}"), 0.0
        if response.status < 300:
            return Answer(response.status, response.headers, data), 0.0
        refused = refusal(response.status, data)
        if response.status not in RETRIED:
            raise refused
        unavailable = UnavailableError(f"{self.url} answers {response.status}: {refused}")
        return unavailable, _seconds(response.headers.get("Retry-After"))


def refusal(status: int, data: bytes) -> RefusedError:
    """The error that an answer tells of, as problem details (RFC 9457) or in any other form."""
    advice = ADVICE.get(status)
    try:
        told: Dict[str, Any] = json.loads(data)
        errors: List[Dict[str, Any]] = told.get("errors", [])
        rows = [RowProblem(int(one["row"]), one.get("field"), str(one["message"])) for one in errors]
        detail = str(told.get("detail") or told.get("title") or f"status {status}")
        return RefusedError(status, detail, rows, int(told.get("error_count", 0)), advice)
    except (ValueError, TypeError, KeyError, AttributeError):
        text = data[:200].decode("utf-8", "replace").strip()
        return RefusedError(status, text or f"status {status}", advice=advice)


def _seconds(text: Optional[str]) -> float:
    try:
        return min(max(float(text or 0), 0.0), 60.0)
    except ValueError:
        return 0.0


def _after_fork() -> None:
    """A connection must not be used by two processes: a child opens its own."""
    for transport in list(_transports):
        transport.forget_connections()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
