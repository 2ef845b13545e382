"""Events as they come, and where a consumer goes on."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

import almanac_ml as al


def test_a_consumer_gets_every_event_and_goes_on_where_it_was(workspace: al.Workspace) -> None:
    def log(keys: "list[str]") -> None:
        rows = [{"key": key, "score": 0.5, "predicted_at": "2026-06-01T02:00:00Z"} for key in keys]
        workspace.release("v1").log_predictions(rows)

    def followed(**options: object) -> "list[str]":
        pages = workspace.follow("predictions", columns=["key"], frames="rows", once=True, **options)
        return [row["key"] for page in pages for row in page.frame]

    assert followed() == []
    log(["a", "b"])
    assert followed(consumer="billing") == ["a", "b"]
    assert followed(consumer="billing") == []
    log(["c"])
    # What was given and not yet noted comes again.
    for page in workspace.follow("predictions", columns=["key"], frames="rows", consumer="billing"):
        assert (page.frame, page.behind) == ([{"key": "c"}], 0)
        break
    assert followed(consumer="billing") == ["c"]
    first = next(workspace.follow("predictions", columns=["key"], frames="rows", limit=1))
    assert ([row["key"] for row in first.frame], first.behind) == (["a", "b"], 1)
    assert followed(after=first.read_version) == ["c"]

    # Without end: what is logged while it waits comes too.
    pages = workspace.follow("predictions", columns=["key"], frames="rows", consumer="billing")
    writer = threading.Thread(target=log, args=(["d"],))
    writer.start()
    assert next(pages).frame == [{"key": "d"}]
    writer.join()


def test_a_user_follows_and_has_seen(service: al.LocalClient, workspace: al.Workspace) -> None:
    def send(method: str, path: str, body: Any) -> None:
        headers = {"Content-Type": "application/json"}
        service.transport.request(method, f"/v1/{path}", body=json.dumps(body).encode(), headers=headers)

    send("POST", "users", {"name": "ann"})
    assert (service.follows("ann"), service.feed("ann")) == ([], [])
    for model in (None, "risk"):
        send("PUT", "users/ann/follows", {"workspace": workspace.path, "model": model, "following": True})
    oldest = service.follows("ann", order="oldest")
    of = [(one["path"], one.get("model_name")) for one in oldest]
    assert of == [(workspace.path, None), (workspace.path, "risk")]
    assert service.follows("ann") == oldest[::-1] and oldest[0]["since"] <= oldest[1]["since"]
    with pytest.raises(al.RefusedError, match="is none of `newest`, `oldest`"):
        service.follows("ann", order="first")

    workspace.promote("v1", environment="production")
    entries = [one["entry"] for one in service.feed("ann")]
    assert service.feed("ann", limit=1)[0]["entry"] == entries[0]
    assert [service.seen("ann", entry) for entry in entries] == [False] * len(entries)
    service.mark_seen("ann", entries[:1])
    assert [service.seen("ann", entry) for entry in entries] == [True] + [False] * (len(entries) - 1)
    assert service.feed("ann")[-1]["entry"] == entries[0], "what was seen comes last"
    with pytest.raises(al.RefusedError) as nobody:
        service.seen("bob", entries[0])
    assert nobody.value.status == 404
    service.transport.request("DELETE", "/v1/users/ann")
