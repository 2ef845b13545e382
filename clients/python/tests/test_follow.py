"""Events as they come, and where a consumer goes on."""

from __future__ import annotations

import threading

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
    assert followed(after=first.cut) == ["c"]

    # Without end: what is logged while it waits comes too.
    pages = workspace.follow("predictions", columns=["key"], frames="rows", consumer="billing")
    writer = threading.Thread(target=log, args=(["d"],))
    writer.start()
    assert next(pages).frame == [{"key": "d"}]
    writer.join()
