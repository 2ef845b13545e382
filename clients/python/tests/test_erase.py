"""Keys that are taken out of all that is stored."""

from __future__ import annotations

import pytest

import almanac_ml as al


def test_an_erasure_is_begun_and_listed(workspace: al.Workspace) -> None:
    workspace.release("v1").log_predictions([{"key": "loan-1", "score": 0.5, "predicted_at": "2026-06-01T02:00:00Z"}])
    begun = workspace.erase(["loan-1"], reason="asked for by letter 9")
    assert (begun["keys"], begun["ended_at"]) == (1, None)
    again = workspace.erase(["loan-1"], reason="asked for by letter 9")
    assert again["id"] == begun["id"], "the same, while it goes on"
    assert workspace.erase("loan-1", reason="asked for by letter 9")["id"] == begun["id"], "a text is one key"
    (listed,) = workspace.erasures()
    assert (listed["id"], listed["reason"]) == (begun["id"], "asked for by letter 9")
    assert "loan-1" not in str(listed) and not listed["values"]
    with pytest.raises(al.RefusedError):
        workspace.erase(["loan-1"], reason="asked for by letter 9", values=True)
    with pytest.raises(al.RefusedError):
        workspace.erase(["loan-2"], reason="of loan-2")


def test_one_key_is_erased_and_not_its_letters(workspace: al.Workspace) -> None:
    begun = workspace.erase("17", reason="asked for by letter 10")
    for same in (b"17", 17, [17.0]):
        assert workspace.erase(same, reason="asked for by letter 10")["id"] == begun["id"]
    assert begun["keys"] == 1
