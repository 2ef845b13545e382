"""Workspaces and releases of a service: posting events and reading frames."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import uuid
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from numbers import Integral, Real
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Deque,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)
from urllib.parse import quote

from . import _frames
from ._fields import FAMILIES, KINDS
from ._frames import Body, Column
from ._http import Answer, Transport
from ._progress import Progress
from .errors import AlmanacError, RefusedError, UnavailableError, warn

if TYPE_CHECKING:
    from .background import Logger
    from .runs import Run

#: The most bytes of requests that are kept until they are sent.
KEPT_BYTES = 64 * 1024 * 1024

#: How long one request waits for events, in seconds.
FOLLOW_WAIT_SECONDS = 20

Day = Union[str, date]
Instant = Union[str, date, datetime]
Reference = Union[str, date, Tuple[Day, Day]]

#: A label, of which numbers and truth values stand for their text.
Label = Union[str, int, float, bool]

#: A release by its name, or as it is.
Named = Union[str, "Release"]


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
    warnings: List[str] = field(default_factory=list)
    """What the service found strange, such as 20 labels or more of which none is a positive label of the workspace."""
    unmatched: int = 0
    """How many outcomes do not say which prediction they label, and wait until it is found."""


@dataclass(frozen=True)
class Followed:
    """Some events of a workspace that is followed."""

    frame: Any
    """The events."""
    read_version: str
    """Up to where everything has been given: with it as ``after`` one goes on behind."""
    behind: int
    """How many segments came meanwhile, as far as is known."""


#: What :meth:`Client.list` lists.
KINDS_OF_ENTITIES = (
    "categories",
    "workspaces",
    "models",
    "configurations",
    "snapshots",
    "releases",
    "users",
    "groups",
    "systems",
)


class Client:
    """A service at an address. It may be shared by threads."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:7171",
        *,
        token: Optional[str] = None,
        timeout: float = 60.0,
        retry_for: float = 60.0,
        frames: Optional[str] = None,
        connections: int = 1,
        progress: Optional[bool] = None,
        source: Optional[Mapping[str, str]] = None,
    ) -> None:
        """``token`` says who calls, by default the environment variable ``ALMANAC_TOKEN``. ``timeout`` is for
        one answer and ``retry_for`` for all tries of a request, in seconds. ``frames`` is ``"polars"``,
        ``"pandas"``, ``"pyarrow"`` or ``"rows"``, by default the first that is installed.

        A large frame is sent in several requests, by default one after the other, so that of two rows with
        the same key and time the later one counts. ``connections`` sends as many at once, where that does
        not matter. ``progress`` shows how far a long upload is, by default in notebooks and terminals.

        ``source`` says where what is logged comes from, which the audit log shows: a mapping of ``system``,
        ``job``, ``run`` and ``dataset``, or some of them.
        """
        self._given_token = token
        if token is None:
            token = os.environ.get("ALMANAC_TOKEN") or None
        if connections < 1:
            raise AlmanacError(f"connections is 1 or more, not {connections}")
        self.transport = Transport(url, token, timeout, retry_for)
        self.frames = frames
        self.connections = connections
        self.progress = progress
        self.source = "; ".join(f"{word}={value}" for word, value in (source or {}).items())

    def __repr__(self) -> str:
        return f"almanac_ml.connect({self.transport.url!r})"

    def __reduce__(self) -> Tuple[Any, ...]:
        """As another process has it: with connections of its own, and a token of its environment unless one was given
        here, which the pickle has in it. It ends no service."""
        options = {
            "token": self._given_token,
            "timeout": self.transport.timeout,
            "retry_for": self.transport.retry_for,
            "frames": self.frames,
            "connections": self.connections,
            "progress": self.progress,
        }
        return _client_again, (self.transport.url, options, self.source)

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

    def list(
        self,
        kind: str,
        of: Optional[str] = None,
        *,
        fields: Optional[Sequence[str]] = None,
        since: Optional[Instant] = None,
        until: Optional[Instant] = None,
        order: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> List[Dict[str, Any]]:
        """The entities of a kind (``"categories"``, ``"workspaces"``, ``"models"``, ``"configurations"``,
        ``"snapshots"``, ``"releases"``, ``"users"``, ``"groups"`` or ``"systems"``), by the time of their creation.

        ``of`` is what they belong to: a category, a workspace, or for releases a workspace or a model. ``fields``
        leaves out all others, and may name single attributes (``"attributes.owner"``). ``since`` and ``until`` bound
        the time of their creation. The oldest come first, or with ``order="newest"`` the newest; ``limit`` is the
        most of them, all without it.
        """
        if kind not in KINDS_OF_ENTITIES:
            raise AlmanacError(f"kind is one of {', '.join(KINDS_OF_ENTITIES)}, not {kind!r}")
        if isinstance(fields, str):
            raise AlmanacError(f"fields is a list of names, not {fields!r}")
        found: List[Dict[str, Any]] = []
        bounds = {name: None if at is None else _instant(at) for name, at in (("since", since), ("until", until))}
        params = _params({"of": of, "order": order, "fields": fields, **bounds})
        pages = bool(of) or kind != "workspaces"
        while limit is None or len(found) < limit:
            if pages:
                params["limit"] = str(1_000 if limit is None else min(limit - len(found), 1_000))
            page = self.transport.request("GET", f"/v1/{kind}", params=params).json()
            found += page[kind]
            if page["next_cursor"] is None:
                break
            params["cursor"] = page["next_cursor"]
        return found if limit is None else found[:limit]

    def follows(self, user: str, *, order: Optional[str] = None) -> List[Dict[str, Any]]:
        """The workspaces and models that a user follows, each with the time ``since`` when: the newest first, or with
        ``order="oldest"`` in the order in which they were followed."""
        follows: List[Dict[str, Any]] = self._of_user(user, "follows", {"order": order})["follows"]
        return follows

    def feed(self, user: str, *, limit: Optional[int] = None) -> List[Dict[str, Any]]:
        """What is new in what a user follows: first what the user has not ``seen``, the latest first. ``entry`` is the
        name of each."""
        entries: List[Dict[str, Any]] = self._of_user(user, "feed", {"limit": limit})["entries"]
        return entries

    def seen(self, user: str, entry: str) -> bool:
        """Whether a user has seen an entry of the feed."""
        return bool(self._of_user(user, "seen", {"entry": entry})["seen"])

    def mark_seen(self, user: str, entries: Sequence[str]) -> None:
        """Marks entries of the feed as seen by a user."""
        body = json.dumps({"entries": _names(entries)}).encode()
        headers = {"Content-Type": "application/json"}
        self.transport.request("POST", _path_of_user(user, "seen"), body=body, headers=headers)

    def _of_user(self, user: str, what: str, asked: Mapping[str, Any]) -> Dict[str, Any]:
        answer: Dict[str, Any] = self.transport.request(
            "GET", _path_of_user(user, what), params=_params(asked)
        ).json()
        return answer


def _path_of_user(user: str, what: str) -> str:
    return f"/v1/users/{quote(user, safe='')}/{what}"


def _client_again(url: str, options: Mapping[str, Any], source: str) -> Client:
    """A client that was pickled."""
    client = Client(url, **options)
    client.source = source
    return client


class Workspace:
    """A workspace of a service."""

    def __init__(self, client: Client, path: str) -> None:
        self.client = client
        self.path = path

    def __repr__(self) -> str:
        return f"{self.client!r}.workspace({self.path!r})"

    def _repr_html_(self) -> str:
        from . import _chart

        return _chart.of_workspace(self)

    def release(self, name: str) -> "Release":
        """A release of this workspace, by its name."""
        return Release(self, name)

    def logger(self, **options: Any) -> "Logger":
        """A logger that sends in the background: see :class:`almanac_ml.Logger`."""
        from .background import Logger

        return Logger(self, **options)

    def run(self, experiment: Optional[str] = None, **options: Any) -> "Run":
        """A run of an experiment, which is created: see :class:`almanac_ml.Run`."""
        from .runs import Run

        return Run(self, experiment, **options)

    def runs(
        self, experiment: Optional[str] = None, *, order: Optional[str] = None, limit: Optional[int] = None
    ) -> List[Dict[str, Any]]:
        """The runs, or those of an experiment, each with the latest value of each metric.

        The newest come first, or with ``order="oldest"`` the oldest; ``limit`` is the most of them, all without it.
        """
        from .runs import with_numbers

        found: List[Dict[str, Any]] = []
        params = _params({"of": self.path, "experiment": experiment, "order": order})
        while limit is None or len(found) < limit:
            params["limit"] = str(1_000 if limit is None else min(limit - len(found), 1_000))
            page = self.client.transport.request("GET", "/v1/runs", params=params).json()
            found += [with_numbers(run) for run in page["runs"]]
            if page["next_cursor"] is None:
                break
            params["cursor"] = page["next_cursor"]
        return found

    def log_predictions(
        self,
        data: Any,
        *,
        release: Union[Named, "Constant"],
        key: str = "key",
        predicted_at: Optional[Instant] = None,
        score: Optional[str] = None,
        label: Optional[str] = None,
        value: Optional[str] = None,
        lower: Optional[str] = None,
        upper: Optional[str] = None,
        latency_ms: Optional[str] = None,
        group: Optional[str] = None,
        scores: Union[Sequence[str], Mapping[str, str]] = (),
        features: Union[Sequence[str], Mapping[str, str]] = (),
        tags: Union[Sequence[str], Mapping[str, str]] = (),
        retracted_because: Optional[str] = None,
        known_at: Optional[Instant] = None,
        idempotency_key: Optional[str] = None,
    ) -> Receipt:
        """Stores predictions, and returns when they are durable.

        ``data`` is a pandas, polars or Arrow frame, anything that exports an Arrow stream, a dataset of pyarrow, a
        mapping of columns, or a list of rows. In a mapping one value beside columns is that of all rows, and without
        columns it is one row. ``key``, ``score``, ``label``, ``value``, its interval from ``lower`` to ``upper``,
        ``latency_ms`` and ``group`` name columns; those not given are taken from a column of the same name, if there is one.
        ``release`` is a column or one release for all rows. ``predicted_at`` is a column or
        one instant for all rows; without it, the column ``predicted_at``, or now if there is none. Times
        without a zone are taken as UTC. ``tags`` are columns, or a mapping of tags to columns; so are
        ``scores``, the probabilities of classes, and ``features``, the numbers that it was predicted from.
        Columns that are called ``tag.x``, ``score.x`` or ``feature.x``, as answers have them, are taken as these.
        Durations of ``latency_ms`` are sent as milliseconds. ``group`` names the items that a ranking orders together.
        ``retracted_because`` is a reason for which the predictions of these releases, keys and instants are taken back.
        ``known_at`` is when these rows of another system were known, which administrators may state: as of then they
        are in answers, which say that it was stated.

        A call counts once within 7 days under its ``idempotency_key``. Without one its content is the key, so that an
        equal call stores nothing again.
        """
        data = _frames.settled(data)
        sources = {
            "key": _frames.column(key),
            "predicted_at": _time_of(data, "predicted_at", predicted_at, idempotency_key),
            "release": _column_or_value(data, release),
            **_optional(
                data,
                score=score,
                label=label,
                value=value,
                lower=lower,
                upper=upper,
                latency_ms=latency_ms,
                group=group,
            ),
            **_members(data, scores=scores, features=features, tags=tags),
            **_retraction(retracted_because),
        }
        return self._log("predictions", data, sources, idempotency_key, known_at)

    def log_outcomes(
        self,
        data: Any,
        *,
        key: str = "key",
        observed_at: Optional[Instant] = None,
        predicted_at: Optional[Instant] = None,
        predicted_on: Optional[Day] = None,
        predicted_since: Optional[Instant] = None,
        applies_to: Optional[str] = None,
        label: Optional[str] = None,
        value: Optional[str] = None,
        retracted_because: Optional[str] = None,
        known_at: Optional[Instant] = None,
        idempotency_key: Optional[str] = None,
    ) -> Receipt:
        """Stores what really happened, and returns when it is durable.

        An outcome labels the predictions of its key: those of the instant ``predicted_at``, or all of
        the UTC day ``predicted_on``. Each is a column or one value for all rows; without both, the column of
        that name. One that has neither waits until its prediction is found: the latest of its key up to
        ``observed_at`` and no earlier than ``predicted_since``, or than 90 days before (see :meth:`unmatched`).
        With ``applies_to="all"``, or a column that says so, it labels all of these predictions.
        ``observed_at`` is a column or an instant; without it, the column ``observed_at``, or now.
        ``retracted_because`` is a reason for which the outcomes of these keys and times are taken back.
        ``known_at`` is as in :meth:`log_predictions`.
        """
        data = _frames.settled(data)
        if predicted_at is None and predicted_on is None:
            names = _frames.names_of(data)
            found = next((name for name in ("predicted_at", "predicted_on") if name in names), None)
            predicted_at, predicted_on = (found, None) if found == "predicted_at" else (None, found)
        if predicted_since is None and _frames.is_column(data, "predicted_since"):
            predicted_since = "predicted_since"
        if applies_to is None and _frames.is_column(data, "applies_to"):
            applies_to = "applies_to"
        sources = {
            "key": _frames.column(key),
            "observed_at": _time_of(data, "observed_at", observed_at, idempotency_key),
            "predicted_at": _dated(data, "predicted_at", predicted_at),
            "predicted_on": _dated(data, "predicted_on", predicted_on),
            "predicted_since": _dated(data, "predicted_since", predicted_since),
            "applies_to": _column_or_value(data, applies_to),
            **_optional(data, label=label, value=value),
            **_retraction(retracted_because),
        }
        return self._log("outcomes", data, sources, idempotency_key, known_at)

    def unmatched(
        self,
        since: Optional[Day] = None,
        until: Optional[Day] = None,
        *,
        key: Optional[str] = None,
        state: Optional[str] = None,
        limit: int = 100,
    ) -> Dict[str, Any]:
        """What became of outcomes that do not say which prediction they label.

        ``counts`` says how many of those that came on these days (the last 100 by default) are ``waiting`` for their
        prediction, ``decided`` and to be appended, ``appended``, ``expired`` and ``refused``; ``outcomes`` lists
        the first ``limit`` of them, or of those in a ``state``, with ``why`` each is in its state.
        """
        params = {"key": _frames.text(key), "state": state, "from": since and _day(since), "to": until and _day(until)}
        asked = {name: str(value) for name, value in params.items() if value is not None}
        counts: Dict[str, int] = {}
        outcomes: List[Dict[str, Any]] = []
        while True:
            asked["limit"] = str(min(limit - len(outcomes), 1_000))
            page = self.client.transport.request("GET", self._url("unmatched"), params=asked).json()
            for name, count in page["counts"].items():
                counts[name] = counts.get(name, 0) + count
            outcomes += page["outcomes"]
            for text in page["warnings"]:
                warn(text)
            if page["next"] is None:
                return {"counts": counts, "outcomes": outcomes}
            asked["after"] = page["next"]

    def rematch_outcomes(
        self,
        key: str,
        *,
        observed_at: Optional[Instant] = None,
        since: Optional[Day] = None,
        until: Optional[Day] = None,
    ) -> List[Dict[str, Any]]:
        """Settles outcomes of a key that do not say which prediction they label again, and tells what became of each.

        What each was decided to label is retracted, and it labels what is found now (``again``). One that waits already
        is left alone (``waiting``); ``expired`` says that no prediction was found in time.
        """
        body = {"key": _frames.text(key), "observed_at": observed_at and _instant(observed_at)}
        body.update({"from": since and _day(since), "to": until and _day(until)})
        outcomes: List[Dict[str, Any]] = self._post(self._url("outcomes/rematch"), body).json()["outcomes"]
        return outcomes

    def outcome_history(
        self, key: str, since: Optional[Day] = None, until: Optional[Day] = None
    ) -> List[Dict[str, Any]]:
        """What was believed of a key and when: its outcomes in the order of the log, and how each stands today.

        A key that has more than 10,000 about the days is refused: ask for fewer days.
        """
        params = {"key": _frames.text(key), "from": since and _day(since), "to": until and _day(until)}
        asked = {name: str(value) for name, value in params.items() if value is not None}
        answer = self.client.transport.request("GET", self._url("outcomes/history"), params=asked).json()
        for text in answer["warnings"]:
            warn(text)
        outcomes: List[Dict[str, Any]] = answer["outcomes"]
        return outcomes

    def log_metrics(
        self,
        data: Any,
        *,
        name: Optional[str] = None,
        value: str = "value",
        measured_at: Optional[Instant] = None,
        release: Optional[str] = None,
        key: Optional[str] = None,
        predicted_at: Optional[Instant] = None,
        predicted_on: Optional[Day] = None,
        tags: Union[Sequence[str], Mapping[str, str]] = (),
        known_at: Optional[Instant] = None,
        idempotency_key: Optional[str] = None,
    ) -> Receipt:
        """Stores measurements by name, and returns when they are durable.

        ``name`` is a column or one name for all rows; without it, the column ``name``, which there must be then.
        ``measured_at`` is a column or an instant; without it, the column ``measured_at``, or now. A measurement may
        name the prediction that it belongs to: by the column ``key``, and the instant ``predicted_at`` or the UTC day
        ``predicted_on``. Columns that are called ``tag.x`` are taken as tags. ``known_at`` is as in
        :meth:`log_predictions`.
        """
        data = _frames.settled(data)
        sources = {
            "name": _column_or_value(data, "name" if name is None and _frames.is_column(data, "name") else name),
            "value": _frames.column(value),
            "measured_at": _time_of(data, "measured_at", measured_at, idempotency_key),
            "release": _column_or_value(data, release),
            "key": _frames.column(key) if key is not None else None,
            "predicted_at": _dated(data, "predicted_at", predicted_at),
            "predicted_on": _dated(data, "predicted_on", predicted_on),
            **_members(data, tags=tags),
        }
        return self._log("metrics", data, sources, idempotency_key, known_at)

    def _log(
        self,
        kind: str,
        data: Any,
        sources: Mapping[str, Any],
        idempotency_key: Optional[str],
        known_at: Optional[Instant],
    ) -> Receipt:
        unsent = _frames.unsent(kind, data, sources)
        if unsent:
            text = f"columns that are called as fields are were not sent: {', '.join(unsent)}"
            warn(text)
        rows = _frames.rows_of(data)
        receipt = _Sum(kind)
        base, bodies = _keyed(kind, data, sources, idempotency_key)
        numbered = (
            # The first request has the key as it is, so that a small frame is one batch of that name.
            (base if number == 0 else f"{base}/{number}", body)
            for number, body in enumerate(bodies)
        )
        progress = Progress(self.client.progress, kind, rows)
        try:
            for batch, body, told in self._send_all(kind, numbered, known_at):
                receipt.add(batch, body, told)
                progress.show(receipt.rows)
        except AlmanacError as error:
            again = f"call again with idempotency_key={base!r}"
            for name in ("predicted_at", "observed_at", "measured_at"):
                if isinstance(sources.get(name), _Now):
                    again += f", {name}={_frames.moment(sources[name])!r}"
            if receipt.rows:
                error.resume = f"the first {receipt.rows:,} rows are stored: to store the rest, {again}"
            elif isinstance(error, UnavailableError):
                error.resume = f"rows may be stored all the same: to store each once, {again}"
            raise
        finally:
            progress.close()
        if idempotency_key is None and receipt.repeated:
            text = f"{receipt.repeated:,} of {receipt.rows:,} rows were not stored again: an equal call has stored them"
            warn(f"{text} within 7 days; to store them once more, give an idempotency_key of their own")
        for text in receipt.warnings:
            warn(text)
        return receipt.receipt()

    def _send_all(
        self, kind: str, bodies: "Iterator[Tuple[str, Body]]", known_at: Optional[Instant]
    ) -> "Iterator[Tuple[str, Body, Dict[str, Any]]]":
        """Sends bodies in their order, as many at once as there may be connections, and makes the next ones
        meanwhile."""
        first = next(bodies, None)
        if first is None:
            return
        second = next(bodies, None)
        if second is None:
            yield (*first, self.send(kind, first[1], first[0], known_at=known_at))
            return
        stop = threading.Event()
        sending: Deque[Tuple[str, Body, Future[Dict[str, Any]]]] = deque()
        sent = 0
        with ThreadPoolExecutor(self.client.connections, "almanac-ml-upload") as pool:
            try:
                upcoming: Optional[Tuple[str, Body]] = first
                while upcoming is not None or sending:
                    if upcoming is None or len(sending) == self.client.connections:
                        batch, body, future = sending.popleft()
                        told = _result(future, sent)
                        sent += body.rows
                        yield batch, body, told
                    if upcoming is not None:
                        batch, body = upcoming
                        future = pool.submit(self.send, kind, body, batch, stop=stop, known_at=known_at)
                        sending.append((batch, body, future))
                        upcoming, second = second or next(bodies, None), None
            finally:
                # Nobody waits for what else is on its way: it is not tried again.
                stop.set()

    def send(
        self,
        kind: str,
        body: Body,
        batch: str,
        retry_for: Optional[float] = None,
        timeout: Optional[float] = None,
        stop: Optional[threading.Event] = None,
        known_at: Optional[Instant] = None,
    ) -> Dict[str, Any]:
        """Sends one request under an idempotency key, so that every repeat counts once."""
        headers = {"Content-Type": body.content_type, "Idempotency-Key": batch}
        if self.client.source:
            headers["Almanac-Source"] = self.client.source
        if known_at is not None:
            headers["Almanac-Known-At"] = _instant(known_at)
        answer = self.client.transport.request(
            "POST", self._url(kind), body=body.data, headers=headers, retry_for=retry_for, timeout=timeout, stop=stop
        )
        told: Dict[str, Any] = answer.json()
        told["replayed"] = answer.headers.get("Idempotent-Replayed") == "true"
        # Of an answer that was lost a later try is told so too.
        told["repeated"] = told["replayed"] and answer.tries == 1
        return told

    def predictions(self, since: Optional[Instant] = None, until: Optional[Instant] = None, **options: Any) -> Any:
        """The predictions of a window of days, both included, as a frame: see :meth:`query`."""
        return self.query("predictions", since, until, **options)

    def outcomes(self, since: Optional[Instant] = None, until: Optional[Instant] = None, **options: Any) -> Any:
        """The outcomes of the predictions of a window of days: see :meth:`query`."""
        return self.query("outcomes", since, until, **options)

    def joined(self, since: Optional[Instant] = None, until: Optional[Instant] = None, **options: Any) -> Any:
        """Predictions with the outcomes that label them: see :meth:`query`."""
        return self.query("joined", since, until, **options)

    def rollups(self, since: Optional[Instant] = None, until: Optional[Instant] = None, **options: Any) -> Any:
        """Daily counts, means, deviations and quantiles: see :meth:`query`."""
        return self.query("rollups", since, until, **options)

    def drift(
        self, since: Optional[Day] = None, until: Optional[Day] = None, *, reference: Reference, **options: Any
    ) -> Any:
        """How far each column of predictions is from that of the ``reference`` days: see :meth:`query`.

        ``reference`` is a day, the first and the last of several (a pair, or ``"FIRST..LAST"``), ``"snapshot:NAME"``,
        ``"release:NAME"`` for the days that a release was trained on, or ``"release:NAME/BASELINE"``. The column that
        is the farthest comes first, of all or of those that ``column`` names. ``exact=True`` reads the events.
        ``period`` compares weeks, months, quarters or all days together.
        """
        return self.query("drift", since, until, reference=_days(reference), **options)

    def estimates(
        self, since: Optional[Day] = None, until: Optional[Day] = None, *, reference: Reference, **options: Any
    ) -> Any:
        """How good the predictions of each day and release should be, without their outcomes: see :meth:`query`.

        The outcomes of the ``reference`` days (one, or the first and the last) say what a score means. ``group_by`` says it
        for each value of a tag; ``costs`` asks what predictions should be worth.
        """
        return self.query("estimates", since, until, reference=_days(reference), **options)

    def slices(
        self,
        since: Optional[Day] = None,
        until: Optional[Day] = None,
        *,
        metric: Optional[str] = None,
        pairs: bool = False,
        **options: Any,
    ) -> Any:
        """In which values of its declared dimensions each release is worse than on the whole, the worst first.

        ``metric`` is the primary metric unless it is named; ``pairs`` ranks values of two dimensions too: see
        :meth:`query`.
        """
        return self.query("slices", since, until, metric=metric, pairs=pairs, **options)

    def head_to_head(
        self, release: Named, against: Named, since: Optional[Day] = None, until: Optional[Day] = None, **options: Any
    ) -> Any:
        """Which of two releases is better where both predicted the same, and whether that is decided."""
        return self.query("head-to-head", since, until, release=release, against=against, **options)

    def challengers(
        self, model: str, since: Optional[Day] = None, until: Optional[Day] = None, **options: Any
    ) -> Any:
        """The live release of a model against each other one that predicted beside it, the best first.

        ``environment`` says where it is live, in place of ``production``. See :meth:`query`.
        """
        return self.query("challengers", since, until, model=model, **options)

    def maturity(self, since: Optional[Instant] = None, until: Optional[Instant] = None, **options: Any) -> Any:
        """How much of its truth each day had at some ages, from ``1h`` to ``30d``, and how much will come.

        The metrics of a row are those of :meth:`evaluations` as of its ``at``. ``after_prediction=True`` counts how
        long after each prediction its outcome came instead. See :meth:`query`.
        """
        return self.query("maturity", since, until, **options)

    def evaluations(self, since: Optional[Instant] = None, until: Optional[Instant] = None, **options: Any) -> Any:
        """How good the predictions of each day and release were: see :meth:`query`.

        ``period`` asks for an hour, week, month, quarter or all days together, ``threshold`` judges by another
        score, ``costs`` (``{"fp": 2, "fn": 50}``) by other gains and costs, and ``zero_division`` (0 or 1) fills
        metrics that divide by zero. ``interval`` adds the 95% interval of each metric. ``group_by`` breaks them down by
        ``model``, tags (``tag.carrier``) and bins of features (``feature.distance``), which ``bins`` counts, or says
        where they begin. ``time_zone`` says where days begin. ``environment`` judges what was live there when it
        predicted, ``shadow`` what was not. ``min_completeness=0.9`` leaves out days that have less of their truth than that.
        ``where``, ``tags`` and ``key`` judge only predictions for which they hold.
        """
        return self.query("evaluations", since, until, **options)

    def classes(self, since: Optional[Instant] = None, until: Optional[Instant] = None, **options: Any) -> Any:
        """Precision, recall and F1 of each class, with its counts: see :meth:`evaluations` and :meth:`query`."""
        return self.query("classes", since, until, **options)

    def confusion(self, since: Optional[Instant] = None, until: Optional[Instant] = None, **options: Any) -> Any:
        """Which class was taken for which, and how often: see :meth:`evaluations` and :meth:`query`."""
        return self.query("confusion", since, until, **options)

    def query(
        self,
        what: str,
        since: Optional[Instant] = None,
        until: Optional[Instant] = None,
        *,
        last: Optional[str] = None,
        release: Optional[Named] = None,
        columns: Optional[Sequence[str]] = None,
        where: Optional[str] = None,
        tags: Optional[Mapping[str, str]] = None,
        key: Optional[str] = None,
        limit: Optional[int] = None,
        sample: Optional[float] = None,
        order: Optional[str] = None,
        as_of: Optional[Instant] = None,
        read_version: Optional[str] = None,
        snapshot: Optional[str] = None,
        group_by: Union[str, Sequence[str], None] = None,
        bins: Union[int, Sequence[float], None] = None,
        time_zone: Optional[str] = None,
        environment: Optional[str] = None,
        shadow: bool = False,
        period: Optional[str] = None,
        threshold: Optional[float] = None,
        costs: Optional[Mapping[str, float]] = None,
        zero_division: Optional[int] = None,
        interval: bool = False,
        min_completeness: Optional[float] = None,
        reference: Optional[str] = None,
        column: Union[str, Sequence[str], None] = None,
        exact: bool = False,
        after_prediction: bool = False,
        nowcast: Optional[str] = None,
        against: Optional[Named] = None,
        metric: Optional[str] = None,
        pairs: bool = False,
        model: Optional[str] = None,
        change: Optional[str] = None,
        explain: bool = False,
        frames: Optional[str] = None,
        timeout: Optional[float] = None,
        retry_for: Optional[float] = None,
        _place: Optional[Dict[str, str]] = None,
    ) -> Any:
        """A frame of a window of UTC days, ``until`` included (one day without it), or of ``last="7d"``.

        Of events and joined rows, datetimes with a time zone are instants: what happened from ``since`` on and before
        ``until``. Of other metrics they stand for their day in UTC, or with ``time_zone`` for the day that they have.

        Of both ``where`` (SQL over the columns), ``tags`` and ``key`` choose some, ``sample`` those of a share of
        keys and ``limit`` the first; ``order="newest"`` begins with the latest.

        ``as_of`` asks for what was known at that instant, and ``read_version`` for the same answer again: see :meth:`read_version`.
        ``snapshot`` alone reads the rows of a snapshot: see :meth:`create_snapshot`.
        ``change`` adds to each number of rollups, evaluations, classes, confusion, drift, maturity and estimates its
        difference to the ``"day"``, ``"week"`` or ``"period"`` (of ``period``) before, as the column ``NAME_change``.
        ``explain`` answers a dict in place of the frame: what was read for it, what was skipped and why, and the time
        of each step. ``frames`` chooses the library of the frame, and ``timeout`` and ``retry_for`` are those of
        :class:`Client`.
        """
        library = _frames.library_for(frames or self.client.frames)
        asked = {
            **({} if snapshot and since is None else _window(what, since, until, time_zone)),
            **_chosen(release, columns, where, tags, key, sample, limit, order),
            "snapshot": snapshot,
            "last": last,
            "as-of": None if as_of is None else _instant(as_of),
            "read-version": read_version,
            "group-by": group_by,
            "bins": None if bins is None else _edges(bins),
            "time-zone": time_zone,
            "environment": environment,
            "shadow": shadow or None,
            "period": period,
            "threshold": None if threshold is None else float(threshold),
            "costs": _costs(costs),
            "interval": interval or None,
            "min-completeness": None if min_completeness is None else float(min_completeness),
            "reference": reference,
            "column": column,
            "exact": exact or None,
            "after-prediction": after_prediction or None,
            "nowcast": nowcast,
            "against": against,
            "metric": metric,
            "pairs": pairs or None,
            "model": model,
            "change": change,
            "explain": explain or None,
            "zero-division": zero_division,
            **(_place or {}),
        }

        def answer_as(form: str) -> Answer:
            params = _params({**asked, "format": form})
            return self.client.transport.request(
                "GET", self._url(what), params=params, timeout=timeout, retry_for=retry_for
            )

        answer = answer_as(_frames.format_for(library))
        _warn(answer, as_of)
        if _place is not None:
            _place["after"] = answer.headers.get("Almanac-Next", "")
        if explain:
            return answer.json()
        return _framed(library, answer, answer_as)

    def pages(
        self,
        what: str,
        since: Optional[Instant] = None,
        until: Optional[Instant] = None,
        *,
        rows: int = 10_000,
        **options: Any,
    ) -> Iterator[Any]:
        """The events of a window as frames of at most ``rows`` rows each, one after the other: see :meth:`query`.

        All are read from what there was when the first one was asked for, so together they are one answer. Frames have
        the columns that occur on their days, unless ``columns`` names them.
        """
        if "limit" in options:
            raise AlmanacError("pages have `rows` rows each; a limit is of one answer: give it to query()")
        place = {"after": "begin"}
        while place["after"]:
            yield self.query(what, since, until, limit=rows, _place=place, **options)

    def read_version(
        self,
        what: str,
        since: Optional[Instant] = None,
        until: Optional[Instant] = None,
        *,
        last: Optional[str] = None,
        as_of: Optional[Instant] = None,
    ) -> str:
        """What a query of events reads now, as text: with it as ``read_version`` the query answers the same for ever.

        The window is that of :meth:`query`, with ``last="7d"`` too.
        """
        asked = {
            **_window(what, since, until),
            "last": last,
            "as-of": None if as_of is None else _instant(as_of),
            "format": "read-version",
        }
        answer = self.client.transport.request("GET", self._url(what), params=_params(asked))
        _warn(answer, as_of)
        return answer.data.decode().strip()

    def follow(
        self,
        kind: str = "predictions",
        *,
        consumer: Optional[str] = None,
        after: Optional[str] = None,
        since: Optional[Day] = None,
        release: Optional[Named] = None,
        columns: Optional[Sequence[str]] = None,
        where: Optional[str] = None,
        tags: Optional[Mapping[str, str]] = None,
        key: Optional[str] = None,
        sample: Optional[float] = None,
        limit: Optional[int] = None,
        once: bool = False,
        frames: Optional[str] = None,
        timeout: Optional[float] = None,
        retry_for: Optional[float] = None,
    ) -> "Iterator[Followed]":
        """The events that are stored, and then those that come, some at a time, without end unless ``once`` is true.

        Each event comes at least once, those of a day and key in the order in which they were appended. A
        ``consumer`` goes on where it was, in this process or another: what was given is noted as read when the next
        events are asked for, so it comes again when this process ends before. Without a name, the ``read_version`` of the last
        that was given says as ``after`` where to go on. What can never come any more is a warning.

        ``limit`` is about how many rows are given at a time. The other options are those of :meth:`query`.
        """
        library = _frames.library_for(frames or self.client.frames)
        asked = {
            "format": _frames.format_for(library),
            "consumer": consumer,
            "after": after,
            "from": None if since is None else _day(since),
            **_chosen(release, columns, where, tags, key, sample, limit),
            "wait": 0 if once else FOLLOW_WAIT_SECONDS,
        }
        nothing = 0
        within = (self.client.transport.timeout if timeout is None else timeout) + FOLLOW_WAIT_SECONDS
        while True:
            path = self._url(f"events/{kind}")
            answer = self.client.transport.request(
                "GET", path, params=_params(asked), timeout=within, retry_for=retry_for
            )
            _warn(answer)
            read_version = answer.headers["Almanac-Read-Version"]
            # After the first answer it is known where this process is, whatever others note under the same name.
            asked.update({"after": read_version, "consumer": None, "from": None})
            rows, behind = _frames.frame(library, answer.data), int(answer.headers["Almanac-Behind"])
            if len(rows) > 0:
                yield Followed(rows, read_version, behind)
            if consumer is not None:
                self._commit(consumer, read_version)
            # The second one was looked for everywhere.
            nothing = nothing + 1 if len(rows) == 0 and behind == 0 else 0
            if once and nothing == 2:
                return

    def _commit(self, consumer: str, read_version: str) -> None:
        body = json.dumps({"consumer": consumer, "read_version": read_version}).encode()
        headers = {"Content-Type": "application/json"}
        self.client.transport.request("PUT", self._url("consumers"), body=body, headers=headers)

    def sql(
        self,
        statement: str,
        *,
        all_days: bool = False,
        as_of: Optional[Instant] = None,
        read_version: Optional[str] = None,
        explain: bool = False,
        frames: Optional[str] = None,
        timeout: Optional[float] = None,
        retry_for: Optional[float] = None,
    ) -> Any:
        """The frame that one SQL SELECT answers, on the tables that :meth:`query` reads.

        For each table it says which days it reads, with conditions on ``day``, unless ``all_days`` is true.
        ``read_version`` is what the header ``Almanac-Read-Version`` of an earlier answer said. ``explain``, ``frames``, ``timeout`` and
        ``retry_for`` are those of :meth:`query`.
        """
        library = _frames.library_for(frames or self.client.frames)
        asked = {
            "sql": statement,
            "all_days": all_days,
            "as_of": None if as_of is None else _instant(as_of),
            "read_version": read_version,
            "explain": explain or None,
        }

        def answer_as(form: str) -> Answer:
            body = {**asked, "format": form}
            return self._send_json("POST", self._url("sql"), body, timeout=timeout, retry_for=retry_for)

        answer = answer_as(_frames.format_for(library))
        _warn(answer, as_of)
        if explain:
            return answer.json()
        return _framed(library, answer, answer_as)

    def describe(self, *, timeout: Optional[float] = None, retry_for: Optional[float] = None) -> Dict[str, Any]:
        """What the catalog says of the workspace: its models, its releases, what is live, how many events."""
        path = f"/v1/workspaces/{quote(self.path)}"
        told: Dict[str, Any] = self.client.transport.request(
            "GET", path, params={"counts": "true"}, timeout=timeout, retry_for=retry_for
        ).json()
        return told

    def create(self) -> "Workspace":
        """Creates the workspace and its category, unless they are there."""
        self._ensure("/v1/workspaces", {"path": self.path})
        return self

    def create_model(
        self,
        name: str,
        *,
        task: str,
        positive_label: Optional[Label] = None,
        threshold: Optional[float] = None,
        costs: Optional[Mapping[str, float]] = None,
        interval_level: Optional[float] = None,
        dimensions: Optional[Sequence[str]] = None,
        custom_metrics: Optional[Mapping[str, str]] = None,
    ) -> None:
        """Creates a model, unless it is there, with no other task: ``task`` is binary, multiclass, regression or
        ranking.

        One that is there must have what is given; :meth:`define_model` changes it. The other words say how its
        predictions are evaluated, as ``almanac model create`` explains them. ``metrics`` are metrics of its own by name,
        each an aggregate in SQL over the columns of ``joined``: ``{"late": "avg(abs(value - outcome_value))"}``.
        """
        judging = _judging(positive_label, threshold, costs, interval_level, dimensions, custom_metrics)
        advice = f"define_model({name!r}, ...) says how it is evaluated from a day on"
        body = {"workspace": self.path, "name": name, "task": task, **judging}
        self._ensure("/v1/models", body, "models", "task", advice)

    def define_model(
        self,
        name: str,
        *,
        since: Optional[Day] = None,
        task: Optional[str] = None,
        positive_label: Optional[Label] = None,
        threshold: Optional[float] = None,
        costs: Optional[Mapping[str, float]] = None,
        interval_level: Optional[float] = None,
        dimensions: Optional[Sequence[str]] = None,
        custom_metrics: Optional[Mapping[str, Optional[str]]] = None,
    ) -> None:
        """Says how the predictions of a model are evaluated from the day ``since`` on, or from today.

        What is not given stays as it is, and what is given holds until a definition from a later day names it
        again; a metric that is ``None`` is taken away.
        """
        judging = _judging(positive_label, threshold, costs, interval_level, dimensions, custom_metrics)
        said = {"model": name, "from": None if since is None else _day(since), "task": task, **judging}
        self._post(self._url("definitions"), said)

    def create_snapshot(
        self,
        name: str,
        what: str = "predictions",
        since: Optional[Instant] = None,
        until: Optional[Instant] = None,
        *,
        last: Optional[str] = None,
        release: Optional[Named] = None,
        columns: Optional[Sequence[str]] = None,
        where: Optional[str] = None,
        tags: Optional[Mapping[str, str]] = None,
        key: Optional[str] = None,
        limit: Optional[int] = None,
        sample: Optional[float] = None,
        order: Optional[str] = None,
        as_of: Optional[Instant] = None,
        attributes: Optional[Mapping[str, Any]] = None,
    ) -> Dict[str, Any]:
        """Keeps the rows of a query of events or ``joined`` as they are known now, with their digest.

        ``query(what, snapshot=name)`` reads the same rows again, whatever was appended since. Their days are pinned as
        long as the snapshot is there. The words are those of :meth:`query`.
        """
        asked = {
            "workspace": self.path,
            "name": name,
            "what": what,
            **_window(what, since, until),
            **_chosen(release, columns, where, tags, key, sample, limit, order),
            "last": last,
            "as_of": None if as_of is None else _instant(as_of),
            "attributes": attributes,
        }
        answer = self._post("/v1/snapshots", asked)
        _warn(answer, as_of)
        made: Dict[str, Any] = answer.json()
        return made

    def verify_snapshot(self, name: str) -> bool:
        """Whether the rows of a snapshot, read again, are those of which it was made."""
        path = f"/v1/snapshots/{quote(f'{self.path}/{name}', safe='')}/verify"
        return bool(self.client.transport.request("GET", path).json()["same"])

    def create_release(
        self,
        name: str,
        *,
        model: str,
        environment: Optional[str] = None,
        snapshot: Optional[str] = None,
        from_run: Union[None, str, "Run"] = None,
    ) -> "Release":
        """Registers a release of a model, unless it is there, which may be of no other model.

        ``snapshot`` names the one that it was tuned on, ``from_run`` the run that trained it.
        """
        run = from_run if from_run is None or isinstance(from_run, str) else from_run.id
        body = {"name": name, "model": model, "environment": environment, "snapshot": snapshot, "from_run": run}
        self._ensure("/v1/releases", {"workspace": self.path, **body}, "releases", "model")
        return self.release(name)

    def promote(
        self, release: Named, *, environment: str, note: Optional[str] = None, override: Optional[str] = None
    ) -> List[Dict[str, Any]]:
        """Makes a release the live one of its model in an environment, and returns what changed.

        One that does not pass the promotion gates of its model is refused (:class:`RefusedError`, status 409), with the
        reason of each, unless ``override`` says why it is to be live all the same.
        """
        said = {"release": release, "environment": environment, "note": note, "override": override}
        changes: List[Dict[str, Any]] = self._post(self._url("promotions"), said).json()["changes"]
        return changes

    def rollback(
        self,
        *,
        environment: str,
        model: Optional[str] = None,
        to: Optional[Named] = None,
        note: Optional[str] = None,
    ) -> List[Dict[str, Any]]:
        """Puts the release back that was live in an environment before, and returns what changed.

        ``to`` names another release to go back to, ``model`` the model where several have releases live. It is sent
        once: when the answer is lost (:class:`UnavailableError`), :meth:`live` tells whether it was done.
        """
        said = {"environment": environment, "model": model, "to": to, "note": note}
        return self._changed_once("rollbacks", said)

    def retire(
        self, release: Named, *, environment: Optional[str] = None, note: Optional[str] = None
    ) -> List[Dict[str, Any]]:
        """Takes a release out of an environment, or out of all in which it is live, and returns what changed.

        It is sent once, as :meth:`rollback`.
        """
        said = {"release": release, "environment": environment, "note": note}
        return self._changed_once("retirements", said)

    def _changed_once(self, path: str, said: Mapping[str, Any]) -> List[Dict[str, Any]]:
        answer = self._send_json("POST", self._url(path), said, retry_for=0.0)
        changes: List[Dict[str, Any]] = answer.json()["changes"]
        return changes

    def live(self, *, environment: Optional[str] = None, at: Optional[Instant] = None) -> List[Dict[str, Any]]:
        """The releases that are live, or were at an instant, by environment and model."""
        asked = {"environment": environment, "at": None if at is None else _instant(at)}
        live: List[Dict[str, Any]] = self._get("live", asked)["live"]
        return live

    def leaderboard(
        self,
        since: Optional[Day] = None,
        until: Optional[Day] = None,
        *,
        metric: Optional[str] = None,
        direction: Optional[str] = None,
        min_n: Optional[int] = None,
        environment: Optional[str] = None,
        limit: Optional[int] = None,
        as_of: Optional[Instant] = None,
    ) -> List[Dict[str, Any]]:
        """The live releases by the primary metric of the workspace, the best first, each with its ``value``.

        Of a window of days, both included, all releases: ``metric`` (with ``direction`` max or min) ranks by another metric, releases
        with fewer labelled predictions than ``min_n`` stand behind, and ``environment`` counts only what was live there
        when it predicted.
        """
        asked = {
            "from": None if since is None else _day(since),
            "to": None if until is None else _day(until),
            "metric": metric,
            "direction": direction,
            "min-n": min_n,
            "environment": environment,
            "limit": limit,
            "as-of": None if as_of is None else _instant(as_of),
        }
        places: List[Dict[str, Any]] = self._get("leaderboard", asked)["places"]
        return places

    def alert_rules(self) -> Dict[str, List[Dict[str, Any]]]:
        """The alert rules of the workspace (``rules``) and the ``webhooks`` that they are posted to."""
        return self._get("alert-rules", {})

    def set_alert_rules(
        self,
        rules: Sequence[Mapping[str, Any]],
        webhooks: Optional[Sequence[Mapping[str, Any]]] = None,
    ) -> Dict[str, List[Dict[str, Any]]]:
        """Creates or changes alert rules by their names, such as ``{"name": "auc-low", "metric": "auc", "below": 0.7}``.

        The words are those of ``almanac alert apply``. Returns all rules and webhooks.
        """
        said = {"rules": list(rules), "webhooks": None if webhooks is None else list(webhooks)}
        answer: Dict[str, Any] = self._send_json("PUT", self._url("alert-rules"), said).json()
        for text in answer.pop("warnings", ()):
            warn(text)
        return answer

    def delete_alert_rule(self, name: str) -> None:
        """Deletes an alert rule."""
        self.client.transport.request("DELETE", self._url("alert-rules"), params={"rule": name})

    def delete_webhook(self, name: str) -> None:
        """Deletes a webhook to which alerts are posted."""
        self.client.transport.request("DELETE", self._url("alert-rules"), params={"webhook": name})

    def test_alert_rule(
        self, rule: Union[str, Mapping[str, Any]], since: Optional[Day] = None, until: Optional[Day] = None
    ) -> Dict[str, Any]:
        """Tries a rule of the workspace by its name, or one that is not applied, on past days, by default the last 30.

        Returns on how many days it would have begun to fire (``fired``), and its value on each of the ``days``.
        """
        said = {
            "name": rule if isinstance(rule, str) else rule["name"],
            "rules": None if isinstance(rule, str) else [rule],
            "from": None if since is None else _day(since),
            "to": None if until is None else _day(until),
        }
        tried: Dict[str, Any] = self._post(self._url("alert-rules/test"), said).json()
        return tried

    def approve(
        self, release: Named, *, environment: str, note: Optional[str] = None, retract: bool = False
    ) -> List[Dict[str, Any]]:
        """Approves in the caller's name that a release is live in an environment, or takes that back.

        Returns all approvals of the release.
        """
        said = {"release": release, "environment": environment, "note": note, "retract": retract}
        approvals: List[Dict[str, Any]] = self._post(self._url("approvals"), said).json()["approvals"]
        return approvals

    def promotion_gates(self) -> Dict[str, List[Dict[str, Any]]]:
        """What the releases of each model must pass before they are live (``gates``), and their ``approvals``."""
        return self._get("promotion-gates", {})

    def set_promotion_gates(
        self,
        model: str,
        *,
        environments: Optional[Sequence[str]] = None,
        days: Optional[int] = None,
        delay: Optional[int] = None,
        min_n: Optional[int] = None,
        metric: Optional[str] = None,
        direction: Optional[str] = None,
        margin: Optional[float] = None,
        completeness: Optional[float] = None,
        second_person: Optional[bool] = None,
    ) -> Dict[str, Any]:
        """Sets what the releases of a model must pass before they are live; a model alone takes its gates away.

        The words are those of ``almanac model gates``.
        """
        said = {
            "model": model,
            "environments": None if environments is None else _names(environments),
            "days": days,
            "delay": delay,
            "min_n": min_n,
            "metric": metric,
            "direction": direction,
            "margin": margin,
            "completeness": completeness,
            "second_person": second_person,
        }
        gates: Dict[str, Any] = self._send_json("PUT", self._url("promotion-gates"), said).json()
        return gates

    def create_review(
        self,
        name: str,
        since: Day,
        until: Optional[Day] = None,
        *,
        policy: str = "random",
        n: int = 100,
        seed: int = 0,
        model: Optional[str] = None,
        release: Optional[Named] = None,
        by: Optional[str] = None,
        labels: Union[str, Sequence[Label]] = (),
        with_outcomes: bool = False,
    ) -> Dict[str, Any]:
        """Picks predictions that people are to judge, or returns the review of this name, when it asks for the same.

        ``policy`` is ``random``, ``uncertain``, ``disagree`` or, with a tag in ``by``, ``segment``. Pairs of releases
        are judged in an arena: :meth:`create_arena`.
        """
        asked = {
            "name": name,
            "from": _day(since),
            "to": _day(until if until is not None else since),
            "policy": policy,
            "n": n,
            "seed": seed,
            "model": model,
            "release": release,
            "by": by,
            "labels": [labels] if isinstance(labels, str) else [_frames.text(label) for label in labels],
            "with_outcomes": with_outcomes,
        }
        return self._warned("reviews", asked)

    def create_arena(
        self,
        name: str,
        since: Day,
        until: Optional[Day] = None,
        *,
        releases: Sequence[str] = (),
        model: Optional[str] = None,
        n: Optional[int] = None,
        judges: int = 1,
        tags: Sequence[str] = (),
        seed: int = 0,
    ) -> Dict[str, Any]:
        """Picks what two releases predicted of the same, for people to vote which is better.

        The pairs are those of ``releases``, or of the releases that are live. ``n`` is how many keys of a pair are
        picked, each for so many ``judges``; ``tags`` are those that are shown. Who judges takes the pairs by
        :meth:`next_review_item` and answers by ``vote``.
        """
        asked = {
            "name": name,
            "from": _day(since),
            "to": _day(until if until is not None else since),
            "policy": "pairs",
            "n": n,
            "seed": seed,
            "model": model,
            "releases": _names(releases),
            "judges": judges,
            "tags": _names(tags),
        }
        return self._warned("reviews", asked)

    def refresh_arena(self, name: str, until: Optional[Day] = None) -> Dict[str, Any]:
        """Picks more for an arena: pairs of releases that are live by now, and predictions up to a later day."""
        return self._warned("reviews/refresh", {"review": name, "to": None if until is None else _day(until)})

    def arena_ranking(self, name: str, *, as_of: Optional[Instant] = None) -> Dict[str, Any]:
        """How the releases of an arena rank by its votes: strengths with 95% intervals, and what came of each pair."""
        asked = _params({"review": name, "as-of": None if as_of is None else _instant(as_of)})
        answer = self.client.transport.request("GET", self._url("reviews/ranking"), params=asked)
        _warn(answer, as_of)
        ranking: Dict[str, Any] = answer.json()
        return ranking

    def _warned(self, path: str, asked: Mapping[str, Any]) -> Dict[str, Any]:
        answer = self._post(self._url(path), asked)
        _warn(answer)
        made: Dict[str, Any] = answer.json()
        return made

    def reviews(self, name: Optional[str] = None) -> List[Dict[str, Any]]:
        """The reviews of the workspace, or the one of a name, with how many of its items are answered."""
        asked = _params({"review": name})
        path = self._url("reviews")
        reviews: List[Dict[str, Any]] = self.client.transport.request("GET", path, params=asked).json()["reviews"]
        return reviews

    def next_review_item(
        self, review: str, *, guest: Optional[str] = None, lease_seconds: Optional[int] = None
    ) -> Optional[Dict[str, Any]]:
        """The item of a review that the caller has to judge; ``None``, when none is left.

        With ``guest`` it is had by somebody without an account, who judges it by its ``link``.
        """
        asked = {"review": review, "guest": guest, "lease_seconds": lease_seconds}
        item: Optional[Dict[str, Any]] = self._post(self._url("reviews/next"), asked).json()["item"]
        return item

    def answer_review_item(
        self,
        review: str,
        item: int,
        *,
        label: Optional[Label] = None,
        value: Optional[float] = None,
        vote: Optional[str] = None,
        skip: bool = False,
    ) -> Dict[str, Any]:
        """Says what the item is that the caller has, or gives it back (``skip``).

        The answer is an outcome, appended once. Of an arena it is a ``vote``: ``left``, ``right`` or ``tie``.
        """
        said = {"review": review, "item": item, "label": _frames.text(label), "value": value}
        said.update({"vote": vote, "skip": skip})
        answered: Dict[str, Any] = self._post(self._url("reviews/answers"), said).json()
        return answered

    def reviewed_answers(self, since: Optional[Day] = None, until: Optional[Day] = None) -> Dict[str, Any]:
        """What the caller answered from one day to another, and how often releases had said the same."""
        days = {"from": None if since is None else _day(since), "to": None if until is None else _day(until)}
        path = self._url("reviews/answers")
        answers: Dict[str, Any] = self.client.transport.request("GET", path, params=_params(days)).json()
        return answers

    def delete_review(self, name: str) -> None:
        """Deletes a review. Its items are served no more; outcomes that were appended stay."""
        self.client.transport.request("DELETE", self._url("reviews"), params={"review": name})

    def erase(self, keys: Union[str, Sequence[str]], *, reason: str, values: bool = False) -> Dict[str, Any]:
        """Takes keys out of all that is stored of the workspace, for good, and has events of them refused from now on.

        A projector carries it out; ``erasures`` tells how far it is. Scores, labels and values of the events stay,
        under pseudonyms by chance; their tags, features and texts go. With ``values`` scores, labels and values go
        too, and metrics are made again without them. The reason stays: it must not have a key in it.
        """
        many = keys if isinstance(keys, Iterable) and not isinstance(keys, (str, bytes)) else [keys]
        body = {"keys": [_frames.text(key) for key in many], "reason": reason, "values": values or None}
        begun: Dict[str, Any] = self._post(self._url("erasures"), body).json()
        return begun

    def erasures(self) -> List[Dict[str, Any]]:
        """The latest erasures of the workspace, the last one first, with how far each is."""
        answer = self.client.transport.request("GET", self._url("erasures"))
        erasures: List[Dict[str, Any]] = answer.json()["erasures"]
        return erasures

    def _ensure(
        self, path: str, body: Mapping[str, Any], kind: Optional[str] = None, own: str = "", advice: str = ""
    ) -> None:
        """Creates what is not there. What is there of this ``kind`` must have the same in the field ``own``, and with
        ``advice``, which says how to change it, in all that are given."""
        try:
            self._post(path, body)
        except RefusedError as refused:
            if refused.status != 409:
                raise
            known = {} if kind is None else self._known(kind, body["name"])
            if known and body[own] not in (known[own], known.get(f"{own}_id")):
                raise AlmanacError(
                    f"{body['name']!r} is there already, with the {own} {known[own]!r} and not {body[own]!r}"
                ) from refused
            given = [name for name in body if advice and name in known and name != "workspace"]
            differ = [name for name in given if not _is_same(name, body[name], known[name])]
            if differ:
                told = "; ".join(f"its {name} is {known[name]!r} and not {body[name]!r}" for name in differ)
                raise AlmanacError(f"{body['name']!r} is there already: {told}. {advice}") from refused

    def _known(self, kind: str, name: str) -> Dict[str, Any]:
        """What is there of a name; nothing, where the caller may not see it."""
        named = quote(f"{self.path}/{name}", safe="")
        try:
            known: Dict[str, Any] = self.client.transport.request("GET", f"/v1/{kind}/{named}").json()
        except RefusedError:
            return {}
        return known

    def _post(self, path: str, body: Mapping[str, Any]) -> Answer:
        return self._send_json("POST", path, body)

    def _get(self, rest: str, asked: Mapping[str, Any]) -> Dict[str, Any]:
        told: Dict[str, Any] = self.client.transport.request("GET", self._url(rest), params=_params(asked)).json()
        return told

    def _send_json(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        timeout: Optional[float] = None,
        retry_for: Optional[float] = None,
    ) -> Answer:
        given = {name: value for name, value in body.items() if value is not None}
        sent = json.dumps(given, default=_sent).encode()
        headers = {"Content-Type": "application/json"}
        return self.client.transport.request(
            method, path, body=sent, headers=headers, timeout=timeout, retry_for=retry_for
        )

    def _url(self, rest: str) -> str:
        return f"/v1/workspaces/{quote(self.path)}/{rest}"


class Release:
    """A release of a workspace: what predictions name."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self.workspace = workspace
        self.name = name

    def __repr__(self) -> str:
        return f"{self.workspace!r}.release({self.name!r})"

    def __str__(self) -> str:
        return self.name

    def _repr_html_(self) -> str:
        from . import _chart

        return _chart.of_workspace(self.workspace, self.name)

    def log_predictions(self, data: Any, **fields: Any) -> Receipt:
        """Stores predictions of this release: see :meth:`Workspace.log_predictions`."""
        return self.workspace.log_predictions(data, release=Constant(self.name), **fields)

    def evaluations(self, since: Optional[Instant] = None, until: Optional[Instant] = None, **options: Any) -> Any:
        """How good the predictions of this release were: see :meth:`Workspace.query`."""
        return self.workspace.evaluations(since, until, release=self.name, **options)

    def drift(
        self, since: Optional[Day] = None, until: Optional[Day] = None, *, reference: Reference, **options: Any
    ) -> Any:
        """How far the columns of this release's predictions are from the reference: see :meth:`Workspace.drift`."""
        return self.workspace.drift(since, until, reference=reference, release=self.name, **options)

    def head_to_head(
        self, against: Named, since: Optional[Day] = None, until: Optional[Day] = None, **options: Any
    ) -> Any:
        """Whether this release is better than another one where both predicted: see :meth:`Workspace.head_to_head`."""
        return self.workspace.head_to_head(self.name, against, since, until, **options)

    def classes(self, since: Optional[Instant] = None, until: Optional[Instant] = None, **options: Any) -> Any:
        """Precision, recall and F1 of each class, with its counts: see :meth:`Workspace.classes`."""
        return self.workspace.classes(since, until, release=self.name, **options)

    def confusion(self, since: Optional[Instant] = None, until: Optional[Instant] = None, **options: Any) -> Any:
        """Which class was taken for which, and how often: see :meth:`Workspace.confusion`."""
        return self.workspace.confusion(since, until, release=self.name, **options)


class Constant(NamedTuple):
    """A value for all rows, also where a column has that name."""

    value: str


class _Now(datetime):
    """The instant of a call that was given none."""


class _Sum:
    """What the requests of a call have stored together."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.rows = self.replayed = self.repeated = self.unmatched = 0
        self.batches: List[str] = []
        self.days: Dict[str, int] = {}
        self.warnings: List[str] = []

    def add(self, batch: str, body: Body, told: Mapping[str, Any]) -> None:
        self.rows += body.rows
        self.batches.append(batch)
        self.unmatched += int(told.get("unmatched", 0))
        self.replayed += bool(told.get("replay_of")) or bool(told.get("replayed"))
        self.repeated += body.rows if told.get("repeated") else 0
        for day, count in told.get("days", {}).items():
            self.days[day] = self.days.get(day, 0) + int(count)
        self.warnings += [text for text in told.get("warnings", []) if text not in self.warnings]

    def receipt(self) -> Receipt:
        return Receipt(
            self.kind, self.rows, self.batches, self.days, self.replayed, self.warnings, self.unmatched
        )


def _keyed(
    kind: str, data: Any, sources: Mapping[str, Any], idempotency_key: Optional[str]
) -> Tuple[str, Iterator[Body]]:
    """The idempotency key of a call and its requests. Without a key the content is the key, unless it happens now: then
    no other call has the same."""
    bodies = _frames.bodies(kind, data, sources)
    if idempotency_key is not None:
        return idempotency_key, bodies
    if any(isinstance(source, _Now) for source in sources.values()):
        return uuid.uuid4().hex, bodies
    digest, size = hashlib.sha256(), 0
    kept: List[Body] = []
    for body in bodies:
        digest.update(body.data)
        size += body.size
        kept = [*kept, body] if size <= KEPT_BYTES else []
    # Of a large frame they are made again when they are sent.
    return digest.hexdigest()[:32], iter(kept) if size <= KEPT_BYTES else _frames.bodies(kind, data, sources)


def _result(future: "Future[Dict[str, Any]]", sent: int) -> Dict[str, Any]:
    """What the service said, with the rows of a refusal counted from the beginning of the frame."""
    try:
        return future.result()
    except RefusedError as refused:
        refused.after(sent)
        raise


def _framed(library: str, answer: Answer, answer_as: Callable[[str], Answer]) -> Any:
    """An answer as a frame, whose columns are asked for once more where it has none since it has no rows."""
    frame = _frames.frame(library, answer.data)
    return _frames.without_rows(answer_as("ipc-stream").data) if _frames.lacks_columns(library, frame) else frame


def _warn(answer: Answer, as_of: Optional[Instant] = None) -> None:
    """Says what an answer lacks, and when it is of an earlier instant than ``as_of``, which was asked for."""
    told = answer.headers.get("Almanac-Warning")
    if told:
        warn(f"the answer lacks something: {told}")
    answered = answer.headers.get("Almanac-As-Of")
    if answered and as_of is not None:
        asked, given = _frames.instant_of(_instant(as_of)), _frames.instant_of(answered)
        if asked and given and given < asked:
            text = f"the answer is as of {answered}, the last closed instant: {_instant(as_of)} is not closed yet"
            warn(text)


def _column_or_value(data: Any, source: Any) -> Any:
    if isinstance(source, Constant):
        return source.value
    if isinstance(source, Release):
        return source.name
    return Column(source) if _frames.is_column(data, source) else source


def _dated(data: Any, name: str, given: Any) -> Any:
    """A column, or an instant or a day for all rows."""
    source = _column_or_value(data, given)
    if isinstance(source, str) and not _frames.DAY_TEXT.match(source) and not _frames.is_nothing(data):
        there = ", ".join(_frames.names_of(data))
        raise AlmanacError(f"{name}={source!r} is no column and no time; there are {there}")
    return source


def _time_of(data: Any, name: str, given: Optional[Instant], idempotency_key: Optional[str]) -> Any:
    """Where the time of each event is taken from: what is given, else the column of that name, else now."""
    if given is not None:
        return _dated(data, name, given)
    if _frames.is_column(data, name):
        return Column(name)
    if idempotency_key is not None:
        raise AlmanacError(f"with an idempotency_key give {name}= as well: a repeat must have the same times")
    return _Now.now(timezone.utc)


def _optional(data: Any, **sources: Optional[str]) -> Dict[str, Any]:
    """The columns of fields that may be there: those that are named, else those called like the field."""
    names = _frames.names_of(data)
    found = {}
    for name, source in sources.items():
        if source is not None:
            found[name] = _frames.column(source)
        elif name in names:
            found[name] = Column(name)
    return found


def _retraction(reason: Optional[str]) -> Dict[str, Any]:
    """What takes all rows back, for one reason."""
    return {} if reason is None else {"retracted": "true", "reason": reason}


def _names(given: Union[str, Sequence[str]]) -> List[str]:
    """A list of names. A text is one name, and not its letters."""
    return [given] if isinstance(given, str) else list(given)


def _members(data: Any, **families: Union[Sequence[str], Mapping[str, str]]) -> Dict[str, Column]:
    """Columns of tags, scores and features, by the names under which they are sent: those given, and called so."""
    sources = {}
    for family in FAMILIES:
        if family.name not in families:
            continue
        given = families[family.name]
        named = given if isinstance(given, Mapping) else {name: name for name in _names(given)}
        sources.update({f"{family.prefix}{member}": _frames.column(column) for member, column in named.items()})
        used = {source.name for source in sources.values()}
        called = (name for name in _frames.names_of(data) if name.startswith(family.prefix))
        sources.update({name: Column(name) for name in called if name not in sources and name not in used})
    return sources


def _chosen(
    release: Optional[Named],
    columns: Optional[Sequence[str]],
    where: Optional[str],
    tags: Optional[Mapping[str, str]],
    key: Optional[str],
    sample: Optional[float],
    limit: Optional[int],
    order: Optional[str] = None,
) -> Dict[str, Any]:
    """Which rows and columns are asked for, as the service names it."""
    plain, conditions = _of_tags(tags or {})
    if conditions and where is not None:
        conditions.insert(0, f"({where})")
    return {
        "release": release,
        "columns": None if columns is None else _names(columns),
        "where": " and ".join(conditions) or where,
        "tag": ",".join(f"{name}={value}" for name, value in plain.items()) or None,
        "key": _frames.text(key),
        "sample": None if sample is None else float(sample),
        "limit": limit,
        "order": order,
    }


def _of_tags(tags: Mapping[str, str]) -> Tuple[Dict[str, str], List[str]]:
    """Tags that the service takes as words, and conditions of those whose values have commas, which part words."""
    plain, conditions = {}, []
    for name, given in tags.items():
        value = _frames.text(given) or ""
        if "," in value:
            quoted = value.replace("'", "''")
            conditions.append(f"\"tag.{name}\" = '{quoted}'")
        else:
            plain[name] = value
    return plain, conditions


def _quoted_column(name: str) -> str:
    """The name of a column as it stands in a list with commas between."""
    return '"' + name.replace('"', '""') + '"' if "," in name or name.startswith('"') else name


def _params(asked: Mapping[str, Any]) -> Dict[str, str]:
    """What is asked for as the parameters of an address."""

    def text(name: str, value: Any) -> str:
        if isinstance(value, (str, Release)):
            return str(value)
        if isinstance(value, Integral):
            return "true" if value is True else str(int(value))
        if isinstance(value, Real):
            return repr(float(value))
        if isinstance(value, Iterable):
            texts = (text(name, one) for one in value)
            return ",".join(map(_quoted_column, texts) if name == "columns" else texts)
        raise AlmanacError(f"{name} cannot be {value!r}: give a text, a number or a list of them")

    return {name: text(name, value) for name, value in asked.items() if value is not None}


def _sent(value: Any) -> Any:
    """What JSON does not know, as it is sent: releases, times, and numbers and arrays of numpy."""
    if isinstance(value, Release):
        return value.name
    if isinstance(value, date):
        return _instant(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise AlmanacError(f"{value!r} cannot be sent: give texts, numbers, lists and mappings")


def _days(reference: Reference) -> str:
    """Reference days as the service takes them."""
    if isinstance(reference, str) and (".." in reference or reference.startswith(("release:", "snapshot:"))):
        return reference
    first, last = reference if isinstance(reference, tuple) else (reference, reference)
    return f"{_day(first)}..{_day(last)}"


def _costs(costs: Optional[Mapping[str, float]]) -> Optional[str]:
    return ",".join(f"{name}={float(number)!r}" for name, number in costs.items()) if costs else None


def _is_same(name: str, given: Any, there: Any) -> bool:
    """Whether a word of a model that is there is as it is given, if it is."""
    if given is None:
        return True
    if name == "costs":
        return _worth(given) == _worth(there)
    return sorted(given) == sorted(there or ()) if isinstance(given, list) else bool(given == there)


def _worth(costs: Optional[str]) -> Dict[str, float]:
    """What is gained and lost; what is not named is worth nothing."""
    pairs = (pair.split("=") for pair in (costs or "").split(",") if pair)
    return {name: number for name, number in ((name, float(text)) for name, text in pairs) if number}


def _judging(
    positive_label: Optional[Label],
    threshold: Optional[float],
    costs: Optional[Mapping[str, float]],
    interval_level: Optional[float],
    dimensions: Optional[Sequence[str]],
    custom_metrics: Optional[Mapping[str, Optional[str]]],
) -> Dict[str, Any]:
    """How predictions are evaluated, as a body has it."""
    return {
        "positive_label": _frames.text(positive_label),
        "threshold": threshold,
        "costs": _costs(costs),
        "interval_level": interval_level,
        "dimensions": None if dimensions is None else _names(dimensions),
        "custom_metrics": None if custom_metrics is None else dict(custom_metrics),
    }


def _edges(bins: Union[int, Sequence[float]]) -> str:
    return str(bins) if isinstance(bins, (str, int, Integral)) else ",".join(repr(float(edge)) for edge in bins)


def _day(day: Day) -> str:
    """A day as text; of an instant with a zone it is the one in UTC."""
    if isinstance(day, datetime) and day.tzinfo is not None:
        day = day.astimezone(timezone.utc)
    return day.isoformat()[:10] if isinstance(day, date) else str(day)


def _window(
    what: str, since: Optional[Instant], until: Optional[Instant], time_zone: Optional[str] = None
) -> Dict[str, Optional[str]]:
    """Where a window begins and ends; only events and joined rows are read by instants. With a ``time_zone`` its days
    are meant, which a datetime of that zone has."""

    def day(of: Instant) -> str:
        return of.isoformat()[:10] if time_zone is not None and isinstance(of, date) else _day(of)

    def end(of: Instant) -> str:
        is_instant = isinstance(of, datetime) and of.tzinfo is not None and what in (*KINDS, "joined")
        return _instant(of) if is_instant else day(of)

    if since is None:
        return {"from": None, "to": None if until is None else end(until)}
    return {"from": end(since), "to": day(since) if until is None else end(until)}


def _instant(instant: Instant) -> str:
    if isinstance(instant, datetime):
        return _frames.moment(instant)
    if isinstance(instant, str) and _frames.BARE_TEXT.fullmatch(instant):
        return _frames.zoned(instant)
    return _day(instant)


__all__ = ["Client", "Receipt", "Release", "Workspace"]
