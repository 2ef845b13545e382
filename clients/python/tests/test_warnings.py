"""Warnings name the line of the caller, whichever way a call takes through the client."""

from __future__ import annotations

import json
import warnings
from typing import Any, Callable

import pytest

import almanac_ml as al
from almanac_ml._http import Answer
from almanac_ml.errors import RefusedError

DAY = "2026-06-01"
ROWS = [{"key": "a", "predicted_at": f"{DAY}T02:00:00Z", "observed_at": f"{DAY}T02:00:00Z", "score": 0.5}]
UNSENT = [{**ROWS[0], "reason": "none"}]
METRICS = [{"name": "m", "value": 1.0, "measured_at": f"{DAY}T02:00:00Z"}]

#: What each answer of the service is, with a warning in its headers and in its body.
TOLD = {"warnings": ["strange"], "days": {}, "counts": {}, "outcomes": [], "next": None}
HEADERS = {
    "Almanac-Warning": "segment 7 was skipped",
    "Almanac-As-Of": "2020-01-01T00:00:00Z",
    "Almanac-Read-Version": "c",
    "Almanac-Behind": "0",
}


@pytest.fixture
def strange(monkeypatch: pytest.MonkeyPatch) -> al.Workspace:
    """A workspace of a service that warns with each answer."""
    client = al.connect("http://127.0.0.1:1", frames="rows", progress=False)
    answer = Answer(200, HEADERS, json.dumps(TOLD).encode())
    monkeypatch.setattr(client.transport, "request", lambda *_, **__: answer)
    return client.workspace("credit/prod")


# Each call stands on one line, which is the line that its warnings must name.
CALLS: "dict[str, Callable[[al.Workspace], Any]]" = {
    "log_predictions": lambda w: w.log_predictions(ROWS, release="v1"),
    "log_predictions, unsent": lambda w: w.log_predictions(UNSENT, release="v1"),
    "release.log_predictions": lambda w: w.release("v1").log_predictions(UNSENT),
    "log_outcomes": lambda w: w.log_outcomes(UNSENT, predicted_on=DAY),
    "log_metrics": lambda w: w.log_metrics(METRICS),
    "unmatched": lambda w: w.unmatched(),
    "outcome_history": lambda w: w.outcome_history("a"),
    "query": lambda w: w.query("predictions", DAY, as_of=DAY),
    "predictions": lambda w: w.predictions(DAY),
    "evaluations": lambda w: w.evaluations(DAY, as_of=DAY),
    "drift": lambda w: w.drift(DAY, reference=DAY),
    "release.evaluations": lambda w: w.release("v1").evaluations(DAY),
    "release.drift": lambda w: w.release("v1").drift(DAY, reference=DAY),
    "release.head_to_head": lambda w: w.release("v1").head_to_head("v2", DAY),
    "pages": lambda w: next(w.pages("predictions", DAY)),
    "follow": lambda w: next(w.follow(once=True)),
    "read_version": lambda w: w.read_version("predictions", DAY),
    "sql": lambda w: w.sql("select 1"),
    "create_snapshot": lambda w: w.create_snapshot("june", "predictions", DAY),
    "create_review": lambda w: w.create_review("june", DAY),
    "create_arena": lambda w: w.create_arena("duel", DAY),
    "refresh_arena": lambda w: w.refresh_arena("duel"),
    "arena_ranking": lambda w: w.arena_ranking("duel", as_of=DAY),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_warning_names_the_line_of_the_call(strange: al.Workspace, name: str) -> None:
    call = CALLS[name]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call(strange)
    assert told
    for one in told:
        place = (one.category, one.filename, one.lineno)
        assert place == (al.AlmanacWarning, __file__, call.__code__.co_firstlineno), one


def test_a_run_that_cannot_be_ended_names_the_line_of_its_block(
    strange: al.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Answer(200, {}, b'{"experiment": "e", "name": "n"}')
    monkeypatch.setattr(strange.client.transport, "request", lambda *_, **__: answer)
    run = strange.run("e")

    def refuse(*_: object, **__: object) -> Answer:
        raise RefusedError(403, "no")

    monkeypatch.setattr(strange.client.transport, "request", refuse)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with run:
            pass
    (one,) = told
    code = test_a_run_that_cannot_be_ended_names_the_line_of_its_block.__code__
    assert one.filename == __file__ and one.lineno > code.co_firstlineno
