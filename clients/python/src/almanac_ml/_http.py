"""Requests to the service: one pool of connections, and another try when that may help."""

from __future__ import annotations

import json
import random
import time
from typing import Any, Dict, List, Mapping, Optional
from urllib.parse import urlencode

import urllib3

from .errors import AlmanacError, RefusedError, RowProblem, UnavailableError

#: Statuses after which the same request may succeed later.
RETRIED = frozenset((408, 429, 500, 502, 503, 504))

#: The longest pause between two tries, in seconds.
MAX_PAUSE_SECONDS = 8.0


class Answer:
    """A successful answer."""

    def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.status = status
        self.headers = headers
        self.data = data

    def json(self) -> Any:
        return json.loads(self.data)


class Transport:
    """Sends requests, over connections that are kept open. Threads may share it."""

    def __init__(self, url: str, token: Optional[str], timeout: float, retry_for: float) -> None:
        self.url = url.rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise AlmanacError(f"the address {url!r} should begin with http:// or https://")
        self.timeout = timeout
        self.retry_for = retry_for
        self._token = token
        self._pool = self._new_pool()

    def _new_pool(self) -> urllib3.PoolManager:
        return urllib3.PoolManager(
            maxsize=8,
            retries=False,
            timeout=urllib3.Timeout(connect=min(5.0, self.timeout), read=self.timeout),
        )

    def __repr__(self) -> str:
        return f"Transport({self.url!r})"

    def forget_connections(self) -> None:
        """Opens new connections after a fork: a connection must not be used by two processes."""
        self._pool = self._new_pool()

    def close(self) -> None:
        self._pool.clear()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Optional[Mapping[str, str]] = None,
        body: Optional[bytes] = None,
        headers: Optional[Mapping[str, str]] = None,
        retry_for: Optional[float] = None,
    ) -> Answer:
        """Sends a request, and again for ``retry_for`` seconds while it may help.

        Only requests that may be repeated are sent through here: reads, and batches with an
        idempotency key.
        """
        give_up = time.monotonic() + (self.retry_for if retry_for is None else retry_for)
        attempt = 0
        while True:
            failure, wait = self._try(method, path, params, body, headers)
            if isinstance(failure, Answer):
                return failure
            attempt += 1
            # Full jitter, so that clients which failed together do not come back together.
            pause = max(wait, random.uniform(0, min(MAX_PAUSE_SECONDS, 0.1 * 2.0**attempt)))
            if time.monotonic() + pause > give_up:
                raise failure
            time.sleep(pause)

    def _try(
        self,
        method: str,
        path: str,
        params: Optional[Mapping[str, str]],
        body: Optional[bytes],
        headers: Optional[Mapping[str, str]],
    ) -> "tuple[Any, float]":
        """An answer, or an error after which another try may help and how long to wait before it."""
        sent = dict(headers or {})
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token}"
        url = self.url + path
        if params:
            url += "?" + urlencode(dict(params))
        try:
            response = self._pool.request(method, url, body=body, headers=sent)
            data = response.data
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
    try:
        told: Dict[str, Any] = json.loads(data)
        errors: List[Dict[str, Any]] = told.get("errors", [])
        rows = [RowProblem(int(one["row"]), one.get("field"), str(one["message"])) for one in errors]
        detail = str(told.get("detail") or told.get("title") or f"status {status}")
        return RefusedError(status, detail, rows, int(told.get("error_count", len(rows))))
    except (ValueError, TypeError, KeyError, AttributeError):
        text = data[:200].decode("utf-8", "replace").strip()
        return RefusedError(status, text or f"status {status}")


def _seconds(text: Optional[str]) -> float:
    try:
        return min(max(float(text or 0), 0.0), 60.0)
    except ValueError:
        return 0.0
