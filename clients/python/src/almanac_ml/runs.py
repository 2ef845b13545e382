"""Runs: what training jobs are given and measure."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Union
from urllib.parse import quote

from . import _frames
from .errors import AlmanacError, RefusedError, UnavailableError, warn

if TYPE_CHECKING:
    from .client import Workspace

#: The letters of ids, in their order.
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

#: Ids count seconds from here on.
EPOCH_SECONDS = 1_400_000_000

#: The pause between two tries to send the metrics of a run that ends, in seconds.
PAUSE_SECONDS = 0.5


class Run:
    """A run of a workspace. As a context it ends with the block: finished, or failed by an error.

        with w.run("depths", params={"depth": 6}) as run:
            run.log_metric("loss", 0.4, step=1)

    Metrics are sent in the background, as :class:`Logger` does it: logging them neither raises nor waits.
    Creating the run and ``log_params``, ``set_tags`` and ``end`` ask the service at once.
    """

    def __init__(
        self,
        workspace: "Workspace",
        experiment: Optional[str] = None,
        *,
        name: Optional[str] = None,
        params: Optional[Mapping[str, Any]] = None,
        tags: Optional[Mapping[str, Any]] = None,
        parent: Union[None, str, "Run"] = None,
        snapshot: Optional[str] = None,
        id: Optional[str] = None,
        **logger: Any,
    ) -> None:
        """``experiment`` names the experiment, which is created when it is new. ``parent`` is the run that this one
        is a part of, and ``snapshot`` the name of the snapshot that it trains on. ``id`` goes on with the run of that
        id, or creates it: one that is there gets the name, parameters and tags that are given, and must be of the
        same experiment, parent and snapshot where these are given. Other options are those of :class:`Logger`.
        """
        self.workspace = workspace
        self.id = new_id() if id is None else id
        body = {
            "workspace": workspace.path,
            "id": self.id,
            "experiment": experiment,
            "name": name,
            "parent": parent.id if isinstance(parent, Run) else parent,
            "snapshot": snapshot,
            "params": _params(params),
            "tags": _texts(tags),
        }
        try:
            told = self._request("POST", "/v1/runs", body)
        except RefusedError as refused:
            if refused.status != 409:
                raise
            # It is there: of an earlier try of this request, or of an earlier process.
            told = self._gone_on(body, refused)
        self.experiment: str = told["experiment"]
        self.name: str = told["name"]
        self.log = workspace.logger(**logger)

    def __repr__(self) -> str:
        return f"{self.workspace!r}.run({self.experiment!r}, id={self.id!r})"

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: Optional[type], *_: object) -> None:
        status = "finished" if kind is None else "killed" if issubclass(kind, KeyboardInterrupt) else "failed"
        try:
            self.end(status)
        except AlmanacError as error:
            # The block's own error is not hidden by this one.
            warn(f"the run {self.id} could not be ended: {error}")

    def log_metric(
        self,
        name: str,
        value: float,
        step: Optional[int] = None,
        *,
        measured_at: Union[None, str, datetime] = None,
        tags: Optional[Mapping[str, Any]] = None,
    ) -> bool:
        """Logs a measurement, which may be NaN or infinite. Whether there was room for it."""
        return self.log.metric(name, value, run=self.id, step=step, measured_at=measured_at, tags=tags)

    def log_metrics(self, metrics: Mapping[str, float], step: Optional[int] = None) -> bool:
        """Logs measurements of one step. Whether there was room for all."""
        return all([self.log_metric(name, value, step) for name, value in metrics.items()])

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Notes parameters. One that was noted before must have the same value."""
        self._change({"params": _params(params)})

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        """Sets tags. One that is ``None`` is removed."""
        self._change({"tags": _texts(tags)})

    def flush(self, timeout: float = 30.0) -> bool:
        """Waits until all metrics are stored: see :meth:`Logger.flush`."""
        return self.log.flush(timeout)

    def end(self, status: str = "finished") -> Dict[str, Any]:
        """Sends the metrics that wait, and ends the run as ``finished``, ``failed`` or ``killed``.

        While the service is away, both are tried for the ``retry_for`` of the client. Metrics that are not stored by
        then stay in the logger's ``spool``, from where the next logger of the workspace sends them. Without one they
        stay in memory, and the run has not ended: call it again.
        """
        retry_for = self.workspace.client.transport.retry_for
        left = self._metrics_left(retry_for)
        if not left:
            self.log.close()
            return self._change({"status": status})
        spool = self.log._spool
        if spool is None:
            raise UnavailableError(
                f"{left:,} metrics of the run {self.id} could not be stored within {retry_for:g} s, so it has not "
                "ended; call end() again, or give the run a spool= that keeps them"
            )
        left = self.log.close().spooled
        text = f"{left:,} of its metrics wait in {spool.root}, from where the next logger of the workspace sends them"
        try:
            told = self._change({"status": status}, retry_for=0.0)
        except AlmanacError as error:
            error.resume = text
            raise
        if left:
            warn(f"the run {self.id} is {status}, and {text}")
        return told

    def _metrics_left(self, seconds: float) -> int:
        """Sends the metrics that wait, for so long at most; how many are not stored then."""
        give_up = time.monotonic() + seconds
        while True:
            self.log.flush(max(0.0, give_up - time.monotonic()))
            stats = self.log.stats
            if not stats.waiting + stats.spooled or time.monotonic() >= give_up:
                return stats.waiting + stats.spooled
            time.sleep(PAUSE_SECONDS)

    def describe(self) -> Dict[str, Any]:
        """What is known of the run, with the latest value of each metric, which may be NaN or infinite."""
        return with_numbers(self._request("GET", self._path()))

    def history(self, metric: str) -> List[Dict[str, Any]]:
        """All values of a metric, each with its step and time, in the order in which they were stored."""
        points: List[Dict[str, Any]] = []
        params = {"limit": "100000"}
        while True:
            page = self._request("GET", f"{self._path()}/metrics/{quote(metric, safe='')}", params=params)
            points += [{**point, "value": float(point["value"])} for point in page["points"]]
            if page["next_cursor"] is None:
                return points
            params["cursor"] = page["next_cursor"]

    def _gone_on(self, given: Mapping[str, Any], refused: RefusedError) -> Dict[str, Any]:
        """The run of this id, after what is given and new has been sent."""
        try:
            there = self.describe()
        except RefusedError as other:
            raise refused if other.status == 404 else other from None
        for fixed in ("experiment", "parent", "snapshot"):
            if given[fixed] is not None and given[fixed] != there[fixed]:
                raise AlmanacError(
                    f"the run {self.id} is there already: its {fixed} is {there[fixed]!r} and not {given[fixed]!r}; "
                    f"give no {fixed}, or another id"
                ) from refused
        change: Dict[str, Any] = {} if given["name"] in (None, there["name"]) else {"name": given["name"]}
        for words in ("params", "tags"):
            new = {name: value for name, value in given[words].items() if there[words].get(name) != value}
            change.update({words: new} if new else {})
        return self._change(change) if change else there

    def _path(self) -> str:
        return f"/v1/runs/{quote(self.workspace.path, safe='')}/{self.id}"

    def _change(self, change: Mapping[str, Any], retry_for: Optional[float] = None) -> Dict[str, Any]:
        return self._request("PATCH", self._path(), change, retry_for=retry_for)

    def _request(
        self,
        method: str,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        params: Optional[Mapping[str, str]] = None,
        retry_for: Optional[float] = None,
    ) -> Dict[str, Any]:
        sent = None if body is None else json.dumps(dict(body)).encode()
        headers = {"Content-Type": "application/json"}
        answer = self.workspace.client.transport.request(
            method, path, body=sent, headers=headers, params=params, retry_for=retry_for
        )
        told: Dict[str, Any] = answer.json()
        return told


def with_numbers(told: Dict[str, Any]) -> Dict[str, Any]:
    """A run whose metrics are numbers, where JSON has texts for those that it does not know."""
    metrics = {name: {**metric, "value": float(metric["value"])} for name, metric in told.get("metrics", {}).items()}
    return {**told, "metrics": metrics}


def _params(values: Optional[Mapping[str, Any]]) -> Dict[str, str]:
    """Parameters as they are stored. One may be ``None``, which says something: scikit-learn has many such."""
    return {name: _written(value) or str(value) for name, value in (values or {}).items()}


def _texts(values: Optional[Mapping[str, Any]]) -> Dict[str, Optional[str]]:
    """Parameters or tags as they are stored."""
    return {name: _written(value) for name, value in (values or {}).items()}


def _written(value: Any) -> Optional[str]:
    """A parameter or a tag as text, which may be any object: people read it."""
    try:
        return _frames.text(value)
    except AlmanacError:
        return str(value)


def new_id() -> str:
    """An id that sorts by the time of its creation: 20 bytes, of which 5 are the time, as 27 letters."""
    millis = int(time.time() * 1000) - EPOCH_SECONDS * 1000
    number = int.from_bytes((millis // 1000).to_bytes(4, "big") + bytes([millis % 1000 // 4]) + os.urandom(15), "big")
    letters = ""
    for _ in range(27):
        number, letter = divmod(number, 62)
        letters = LETTERS[letter] + letters
    return letters


__all__ = ["Run"]
