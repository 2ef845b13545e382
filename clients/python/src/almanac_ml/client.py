"""Workspaces and releases of a service: posting events and reading frames."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Union
from urllib.parse import quote

from . import _frames
from ._fields import FAMILIES
from ._frames import Body, Column
from ._http import Transport
from .errors import AlmanacError, RefusedError

if TYPE_CHECKING:
    from .background import Logger

Day = Union[str, date]
Instant = Union[str, date, datetime]


@dataclass(frozen=True)
class Receipt:
    """What the service stored of a call, after it is durable."""

    kind: str
    """``predictions``, ``outcomes`` or ``metrics``."""
    rows: int
    """How many rows were sent."""
    batches: List[str] = field(default_factory=list)
    """The idempotency keys, one for each request."""
    days: Dict[str, int] = field(default_factory=dict)
    """How many rows belong to each day."""
    replayed: int = 0
    """How many of the requests had been stored before."""


class Client:
    """A service at an address. It may be shared by threads."""

    def __init__(
        self,
        url: str,
        *,
        token: Optional[str] = None,
        timeout: float = 60.0,
        retry_for: float = 60.0,
        frames: Optional[str] = None,
        source: Optional[Mapping[str, str]] = None,
    ) -> None:
        """``token`` says who calls, by default the environment variable ``ALMANAC_TOKEN``. ``timeout`` is for one answer and ``retry_for`` for all tries of a request, in seconds;
        ``frames`` is ``"polars"``, ``"pandas"``, ``"pyarrow"`` or ``"rows"``, by default the first
        that is installed. ``source`` says where what is logged comes from, which the audit trail shows: a mapping of
        ``system``, ``job``, ``run`` and ``dataset``, or some of them."""
        if token is None:
            token = os.environ.get("ALMANAC_TOKEN") or None
        self.transport = Transport(url, token, timeout, retry_for)
        self.frames = frames
        self.source = "; ".join(f"{word}={value}" for word, value in (source or {}).items())

    def __repr__(self) -> str:
        return f"almanac_ml.connect({self.transport.url!r})"

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self.transport.close()

    def is_ready(self) -> bool:
        """Whether the service answers and can do its work."""
        try:
            self.transport.request("GET", "/readyz", retry_for=0.0)
            return True
        except AlmanacError:
            return False

    def workspace(self, path: str) -> "Workspace":
        """The workspace at ``category/name``. Nothing is asked of the service yet."""
        if path.count("/") != 1 or not all(path.split("/")):
            raise AlmanacError(f"a workspace is named category/name, not {path!r}")
        return Workspace(self, path)


class Workspace:
    """A workspace of a service."""

    def __init__(self, client: Client, path: str) -> None:
        self.client = client
        self.path = path

    def __repr__(self) -> str:
        return f"{self.client!r}.workspace({self.path!r})"

    def release(self, name: str) -> "Release":
        """A release of this workspace, by its name."""
        return Release(self, name)

    def logger(self, **options: Any) -> "Logger":
        """A logger that sends in the background: see :class:`almanac_ml.Logger`."""
        from .background import Logger

        return Logger(self, **options)

    def log_predictions(
        self,
        data: Any,
        *,
        release: str,
        key: str = "key",
        predicted_at: Union[str, Instant] = "predicted_at",
        score: Optional[str] = None,
        label: Optional[str] = None,
        value: Optional[str] = None,
        lower: Optional[str] = None,
        upper: Optional[str] = None,
        latency_ms: Optional[str] = None,
        scores: Union[Sequence[str], Mapping[str, str]] = (),
        features: Union[Sequence[str], Mapping[str, str]] = (),
        tags: Union[Sequence[str], Mapping[str, str]] = (),
        idempotency_key: Optional[str] = None,
    ) -> Receipt:
        """Stores predictions, and returns when they are durable.

        ``data`` is a pandas, polars or Arrow frame, a mapping of columns or a list of rows. ``key``,
        ``score``, ``label``, ``value``, its interval from ``lower`` to ``upper`` and ``latency_ms`` name
        columns; ``predicted_at`` names a column or is one instant for all rows; ``release`` names a column
        or is one release for all rows; ``tags`` are columns, or tags with their columns; so are ``scores``,
        the probabilities of classes, and ``features``, the numbers that it was predicted from. Times without a zone are taken as UTC.
        """
        sources = {
            "key": Column(key),
            "predicted_at": _column_or_value(data, predicted_at),
            "release": _column_or_value(data, release),
            **_optional(
                data, score=score, label=label, value=value, lower=lower, upper=upper, latency_ms=latency_ms
            ),
            **_members(scores=scores, features=features, tags=tags),
        }
        return self._log("predictions", data, sources, idempotency_key)

    def log_outcomes(
        self,
        data: Any,
        *,
        key: str = "key",
        observed_at: Union[str, Instant] = "observed_at",
        predicted_at: Union[None, str, Instant] = None,
        predicted_on: Union[None, str, Day] = None,
        label: Optional[str] = None,
        value: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> Receipt:
        """Stores what really happened, and returns when it is durable.

        An outcome judges the predictions of its key: those of the instant ``predicted_at``, or all of
        the UTC day ``predicted_on``.
        """
        if (predicted_at is None) == (predicted_on is None):
            names = _frames.names_of(data)
            predicted_at = "predicted_at" if predicted_at is None and "predicted_at" in names else predicted_at
            if predicted_at is None and "predicted_on" in names:
                predicted_on = "predicted_on"
        sources = {
            "key": Column(key),
            "observed_at": _column_or_value(data, observed_at),
            "predicted_at": _column_or_value(data, predicted_at),
            "predicted_on": _column_or_value(data, predicted_on),
            **_optional(data, label=label, value=value),
        }
        return self._log("outcomes", data, sources, idempotency_key)

    def log_metrics(
        self,
        data: Any,
        *,
        name: str = "name",
        value: str = "value",
        measured_at: Union[str, Instant] = "measured_at",
        release: Optional[str] = None,
        key: Optional[str] = None,
        predicted_at: Union[None, str, Instant] = None,
        predicted_on: Union[None, str, Day] = None,
        tags: Union[Sequence[str], Mapping[str, str]] = (),
        idempotency_key: Optional[str] = None,
    ) -> Receipt:
        """Stores measurements by name, and returns when they are durable.

        A measurement may name the prediction that it belongs to: by the column ``key``, and the instant
        ``predicted_at`` or the UTC day ``predicted_on``.
        """
        sources = {
            "name": _column_or_value(data, name),
            "value": Column(value),
            "measured_at": _column_or_value(data, measured_at),
            "release": _column_or_value(data, release),
            "key": Column(key) if key is not None else None,
            "predicted_at": _column_or_value(data, predicted_at),
            "predicted_on": _column_or_value(data, predicted_on),
            **_members(tags=tags),
        }
        return self._log("metrics", data, sources, idempotency_key)

    def _log(
        self, kind: str, data: Any, sources: Mapping[str, Any], idempotency_key: Optional[str]
    ) -> Receipt:
        base = idempotency_key or uuid.uuid4().hex
        rows, replayed = 0, 0
        batches: List[str] = []
        days: Dict[str, int] = {}
        for number, body in enumerate(_frames.bodies(kind, data, sources)):
            # The first request has the key as it is, so that a small frame is one batch of that name.
            batch = base if number == 0 else f"{base}/{number}"
            told = self.send(kind, body, batch)
            rows += body.rows
            batches.append(batch)
            replayed += bool(told.get("replay_of")) or bool(told.get("replayed"))
            for day, count in told.get("days", {}).items():
                days[day] = days.get(day, 0) + int(count)
        return Receipt(kind, rows, batches, days, replayed)

    def send(self, kind: str, body: Body, batch: str, retry_for: Optional[float] = None) -> Dict[str, Any]:
        """Sends one request under an idempotency key, so that every repeat counts once."""
        headers = {"Content-Type": body.content_type, "Idempotency-Key": batch}
        if self.client.source:
            headers["Almanac-Source"] = self.client.source
        answer = self.client.transport.request(
            "POST", self._url(kind), body=body.data, headers=headers, retry_for=retry_for
        )
        told: Dict[str, Any] = answer.json()
        told["replayed"] = answer.headers.get("Idempotent-Replayed") == "true"
        return told

    def predictions(self, since: Day, until: Optional[Day] = None, **options: Any) -> Any:
        """The predictions of a window of days, both included, as a frame: see :meth:`query`."""
        return self.query("predictions", since, until, **options)

    def outcomes(self, since: Day, until: Optional[Day] = None, **options: Any) -> Any:
        """The outcomes of the predictions of a window of days: see :meth:`query`."""
        return self.query("outcomes", since, until, **options)

    def joined(self, since: Day, until: Optional[Day] = None, **options: Any) -> Any:
        """Predictions with the outcomes that judge them: see :meth:`query`."""
        return self.query("joined", since, until, **options)

    def rollups(self, since: Day, until: Optional[Day] = None, **options: Any) -> Any:
        """Daily counts, means, deviations and quantiles: see :meth:`query`."""
        return self.query("rollups", since, until, **options)

    def evaluations(self, since: Day, until: Optional[Day] = None, **options: Any) -> Any:
        """How good the predictions of each day and release were: see :meth:`query`.

        ``group_by`` asks for an hour, week, month, quarter or all days together, ``threshold`` judges by another score,
        ``costs`` (``{"fp": 2, "fn": 50}``) by other gains and costs, and ``zero_division`` (0 or 1) fills figures that divide by zero. ``interval`` adds the 95% interval of each figure.
        ``by`` breaks them down by ``model``, tags (``tag.carrier``) and bins of features (``feature.distance``), which
        ``bins`` counts, or says where they begin. ``time_zone`` says where days begin. ``environment`` judges what was live
        there when it predicted, ``shadow`` what was not.
        """
        return self.query("evaluations", since, until, **options)

    def classes(self, since: Day, until: Optional[Day] = None, **options: Any) -> Any:
        """Precision, recall and F1 of each class, with its counts: see :meth:`evaluations` and :meth:`query`."""
        return self.query("classes", since, until, **options)

    def confusion(self, since: Day, until: Optional[Day] = None, **options: Any) -> Any:
        """Which class was taken for which, and how often: see :meth:`evaluations` and :meth:`query`."""
        return self.query("confusion", since, until, **options)

    def query(
        self,
        what: str,
        since: Day,
        until: Optional[Day] = None,
        *,
        release: Optional[str] = None,
        columns: Optional[Sequence[str]] = None,
        where: Optional[str] = None,
        tags: Optional[Mapping[str, str]] = None,
        key: Optional[str] = None,
        limit: Optional[int] = None,
        sample: Optional[float] = None,
        order: Optional[str] = None,
        as_of: Optional[Instant] = None,
        by: Union[str, Sequence[str], None] = None,
        bins: Union[int, Sequence[float], None] = None,
        time_zone: Optional[str] = None,
        environment: Optional[str] = None,
        shadow: bool = False,
        group_by: Optional[str] = None,
        threshold: Optional[float] = None,
        costs: Optional[Mapping[str, float]] = None,
        zero_division: Optional[int] = None,
        interval: bool = False,
        frames: Optional[str] = None,
    ) -> Any:
        """A frame of a window of UTC days, ``until`` included (one day without it).

        Of events ``where`` (SQL over the columns), ``tags`` and ``key`` choose some, ``sample`` those of a share of
        keys and ``limit`` the first; ``order="newest"`` begins with the latest.

        ``as_of`` asks for what was known at that instant. ``frames`` chooses the library of the frame.
        """
        library = _frames.library_for(frames or self.client.frames)
        params = {"from": _day(since), "to": _day(until or since), "format": _frames.format_for(library)}
        asked = {
            "release": release,
            "columns": None if columns is None else ",".join(columns),
            "where": where,
            "tag": None if not tags else ",".join(f"{name}={value}" for name, value in tags.items()),
            "key": key,
            "limit": None if limit is None else str(limit),
            "sample": None if sample is None else repr(float(sample)),
            "order": order,
            "as-of": None if as_of is None else _instant(as_of),
            "by": by if by is None or isinstance(by, str) else ",".join(by),
            "bins": None if bins is None else str(bins) if isinstance(bins, int) else ",".join(map(repr, map(float, bins))),
            "time-zone": time_zone,
            "environment": environment,
            "shadow": "true" if shadow else None,
            "group-by": group_by,
            "threshold": None if threshold is None else repr(float(threshold)),
            "costs": None if not costs else ",".join(f"{name}={float(number)!r}" for name, number in costs.items()),
            "interval": "true" if interval else None,
            "zero-division": None if zero_division is None else str(zero_division),
        }
        params.update({name: value for name, value in asked.items() if value is not None})
        answer = self.client.transport.request("GET", self._url(what), params=params)
        return _frames.frame(library, answer.data)

    def sql(
        self,
        statement: str,
        *,
        all_days: bool = False,
        as_of: Optional[Instant] = None,
        cut: Optional[str] = None,
        frames: Optional[str] = None,
    ) -> Any:
        """The frame that one SQL SELECT answers, on the tables that :meth:`query` reads.

        For each table it says which days it reads, with conditions on ``day``, unless ``all_days`` is true.
        ``cut`` is what the header ``Almanac-Cut`` of an earlier answer said.
        """
        library = _frames.library_for(frames or self.client.frames)
        asked = {
            "sql": statement,
            "all_days": all_days,
            "as_of": None if as_of is None else _instant(as_of),
            "cut": cut,
            "format": _frames.format_for(library),
        }
        body = json.dumps({name: value for name, value in asked.items() if value is not None}).encode()
        answer = self.client.transport.request(
            "POST", self._url("sql"), body=body, headers={"Content-Type": "application/json"}
        )
        return _frames.frame(library, answer.data)

    def create(self) -> "Workspace":
        """Creates the workspace and its category, unless they are there."""
        self._ensure("/v1/workspaces", {"path": self.path})
        return self

    def create_model(self, name: str, *, task: str, positive_label: Optional[str] = None) -> None:
        """Creates a model, unless it is there: ``task`` is binary, multiclass or regression."""
        body = {"name": name, "task": task, "positive_label": positive_label}
        self._ensure(self._url("models"), body)

    def create_release(self, name: str, *, model: str, environment: Optional[str] = None) -> "Release":
        """Registers a release of a model, unless it is there."""
        body = {"name": name, "model": model, "environment": environment}
        self._ensure("/v1/releases", {"workspace": self.path, **body})
        return self.release(name)

    def _ensure(self, path: str, body: Mapping[str, Any]) -> None:
        sent = json.dumps({name: value for name, value in body.items() if value is not None}).encode()
        try:
            self.client.transport.request(
                "POST", path, body=sent, headers={"Content-Type": "application/json"}
            )
        except RefusedError as refused:
            if refused.status != 409:
                raise

    def _url(self, rest: str) -> str:
        return f"/v1/workspaces/{quote(self.path)}/{rest}"


class Release:
    """A release of a workspace: what predictions name."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self.workspace = workspace
        self.name = name

    def __repr__(self) -> str:
        return f"{self.workspace!r}.release({self.name!r})"

    def log_predictions(self, data: Any, **fields: Any) -> Receipt:
        """Stores predictions of this release: see :meth:`Workspace.log_predictions`."""
        return self.workspace.log_predictions(data, release=self.name, **fields)

    def evaluations(self, since: Day, until: Optional[Day] = None, **options: Any) -> Any:
        """How good the predictions of this release were: see :meth:`Workspace.query`."""
        return self.workspace.evaluations(since, until, release=self.name, **options)

    def classes(self, since: Day, until: Optional[Day] = None, **options: Any) -> Any:
        """Precision, recall and F1 of each class, with its counts: see :meth:`Workspace.classes`."""
        return self.workspace.classes(since, until, release=self.name, **options)

    def confusion(self, since: Day, until: Optional[Day] = None, **options: Any) -> Any:
        """Which class was taken for which, and how often: see :meth:`Workspace.confusion`."""
        return self.workspace.confusion(since, until, release=self.name, **options)


def _column_or_value(data: Any, source: Any) -> Any:
    return Column(source) if _frames.is_column(data, source) else source


def _optional(data: Any, **sources: Optional[str]) -> Dict[str, Any]:
    """The columns of fields that may be there: those that are named, else those called like the field."""
    names = _frames.names_of(data)
    found = {}
    for name, source in sources.items():
        if source is not None:
            found[name] = Column(source)
        elif name in names:
            found[name] = Column(name)
    return found


def _members(**families: Union[Sequence[str], Mapping[str, str]]) -> Dict[str, Column]:
    """Columns of tags, scores and features, by the names under which they are sent."""
    sources = {}
    for family in FAMILIES:
        given = families.get(family.name, ())
        named = given if isinstance(given, Mapping) else {name: name for name in given}
        sources.update({f"{family.prefix}{member}": Column(column) for member, column in named.items()})
    return sources



def _day(day: Day) -> str:
    return day.isoformat()[:10] if isinstance(day, date) else str(day)


def _instant(instant: Instant) -> str:
    if isinstance(instant, datetime):
        return _frames.moment(instant)
    return _day(instant)


__all__ = ["Client", "Receipt", "Release", "Workspace"]
