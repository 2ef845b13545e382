"""Predictions that people judge, one at a time."""

from __future__ import annotations

import pytest

import almanac_ml as al

DAY = "2026-06-01"


def test_a_review_is_judged_item_by_item(workspace: al.Workspace) -> None:
    rows = [{"key": f"k{n}", "score": n / 10, "predicted_at": f"{DAY}T02:00:00Z"} for n in range(5)]
    workspace.release("v1").log_predictions(rows)
    made = workspace.create_review("june", DAY, policy="uncertain", n=3, labels=["repaid", "default"])
    assert (made["items"], made["policy"]) == (3, "uncertain")
    assert workspace.create_review("june", DAY, policy="uncertain", n=3, labels=["repaid", "default"]) == made
    keys = []
    for _ in range(2):
        item = workspace.next_review_item("june")
        assert item is not None
        keys.append(item["key"])
        assert workspace.answer_review_item("june", item["item"], label="default")["state"] == "answered"
    assert keys == ["k4", "k3"], "the closest to the threshold first"
    guest = workspace.next_review_item("june", guest="bob", lease_seconds=3600)
    assert guest is not None and guest["link"].startswith("alj_")
    assert workspace.next_review_item("june") is None
    with pytest.raises(al.RefusedError):
        workspace.answer_review_item("june", guest["item"], label="default")
    judged = workspace.client.transport.request(
        "POST", "/v1/judgements", body=('{"link":"%s","label":"repaid"}' % guest["link"]).encode(),
        headers={"Content-Type": "application/json"},
    ).json()
    assert (judged["state"], judged["appended"]) == ("answered", True)
    (review,) = workspace.reviews("june")
    assert (review["answered"], review["appended"]) == (3, 3)
    mine = workspace.reviewed_answers()
    assert [given["key"] for given in mine["answers"]] == keys
    assert mine["releases"] == [{"release": "v1", "answers": 2, "agree": 0, "differ": 2}]
    labels = {row["key"]: row["label"] for row in workspace.outcomes(DAY, DAY, frames="rows")}
    assert labels == {"k4": "default", "k3": "default", "k2": "repaid"}
    workspace.delete_review("june")
    assert workspace.reviews() == []


def test_an_arena_ranks_releases_by_votes(workspace: al.Workspace) -> None:
    workspace.create_release("v2", model="risk")
    for release in ("v1", "v2"):
        rows = [
            {"key": f"k{n}", "score": 0.5, "predicted_at": f"{DAY}T02:00:00Z", "text": f"{n} of {release[1]}"}
            for n in range(4)
        ]
        workspace.release(release).log_predictions(rows, tags=["text"])
    made = workspace.create_arena("duel", DAY, releases=["v1", "v2"], n=3)
    assert (made["items"], made["policy"], made["releases"]) == (3, "pairs", ["v1", "v2"])
    for _ in range(3):
        item = workspace.next_review_item("duel")
        assert item is not None and len(item["sides"]) == 2
        first = item["sides"][0]["tags"]["text"].endswith("1")
        answered = workspace.answer_review_item("duel", item["item"], vote="left" if first else "right")
        assert answered["state"] == "answered"
        assert [said["release"] for said in answered["said"]] == (["v1", "v2"] if first else ["v2", "v1"])
    assert workspace.next_review_item("duel") is None
    assert workspace.refresh_arena("duel")["items"] == 4
    ranking = workspace.arena_ranking("duel")
    assert [(row["release"], row["wins"], row["losses"]) for row in ranking["releases"]] == [("v1", 3, 0), ("v2", 0, 3)]
    assert (ranking["votes"], ranking["connected"]) == (3, False)
