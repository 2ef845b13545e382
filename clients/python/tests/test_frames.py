"""Frames of whatever library is installed go there and come back."""

from __future__ import annotations

import importlib.util
from datetime import date, datetime, timedelta, timezone

import pytest

import almanac_ml as al
from almanac_ml import _fields, _frames
from conftest import keys_of

DAY = "2026-06-01"
AT = datetime(2026, 6, 1, 2, tzinfo=timezone.utc)


def columns(rows: int = 3):
    return {
        "loan_id": [f"loan-{row}" for row in range(rows)],
        "p": [row / max(rows - 1, 1) for row in range(rows)],
        "scored_at": [AT + timedelta(seconds=row) for row in range(rows)],
        "branch": ["north" if row % 2 else "south" for row in range(rows)],
    }


def as_library(library: str, data):
    if library == "mapping":
        return data
    if library == "rows":
        return [dict(zip(data, values)) for values in zip(*data.values())]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    if library == "pandas":
        import pandas

        return pandas.DataFrame(data)
    if library == "polars":
        import polars

        return polars.DataFrame(data)
    import pyarrow

    return pyarrow.table(data)


LIBRARIES = ["mapping", "rows", "pandas", "polars", "pyarrow"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_predictions_and_outcomes_of_a_frame_are_stored_and_judged(workspace: al.Workspace, library: str) -> None:
    data = as_library(library, columns())
    receipt = workspace.release("v1").log_predictions(
        data, key="loan_id", score="p", predicted_at="scored_at", tags=["branch"]
    )
    assert (receipt.rows, receipt.days, receipt.replayed) == (3, {DAY: 3}, 0)
    truth = {"loan_id": ["loan-0", "loan-2"], "status": ["repaid", "default"], "closed": [AT, AT]}
    truth_receipt = workspace.log_outcomes(
        as_library(library, truth), key="loan_id", observed_at="closed", predicted_on=DAY, label="status"
    )
    assert truth_receipt.rows == 2
    rows = workspace.joined(DAY, frames="rows")
    assert [(row["key"], row["score"], row["outcome_label"], row["tag.branch"]) for row in rows] == [
        ("loan-0", 0.0, "repaid", "south"),
        ("loan-1", 0.5, None, "north"),
        ("loan-2", 1.0, "default", "south"),
    ]
    assert rows[1]["predicted_at"].startswith("2026-06-01T02:00:01")
    statement = f"select tag.branch, avg(score) from predictions where day = '{DAY}' group by tag.branch"
    assert workspace.sql(statement, frames="rows") == [
        {"tag.branch": "north", "avg(score)": 0.5},
        {"tag.branch": "south", "avg(score)": 0.5},
    ]


def test_every_option_of_a_query_reaches_the_service(workspace: al.Workspace) -> None:
    data = columns()
    workspace.release("v1").log_predictions(data, key="loan_id", score="p", predicted_at="scored_at", tags=["branch"])
    truth = {"loan_id": ["loan-0", "loan-1", "loan-2"], "status": ["default", "repaid", "default"], "closed": [AT] * 3}
    workspace.log_outcomes(truth, key="loan_id", observed_at="closed", predicted_on=DAY, label="status")

    def of_week(**options: object) -> list:
        return workspace.evaluations("2026-06-01", "2026-06-07", group_by="week", frames="rows", **options)

    (week,) = of_week(columns=["day", "tp", "fp", "tn", "fn"])
    assert week == {"day": week["day"], "tp": 1, "fp": 1, "tn": 0, "fn": 1}
    assert str(week["day"]).startswith(DAY)
    assert of_week(threshold=0.75, columns=["tp", "fp", "tn", "fn"]) == [{"tp": 1, "fp": 0, "tn": 1, "fn": 1}]
    none_positive = {"release": "v1", "threshold": 1.5, "columns": ["precision"]}
    assert of_week(**none_positive) == [{"precision": None}]
    assert of_week(zero_division=0, **none_positive) == [{"precision": 0.0}]
    (shares,) = of_week(interval=True, columns=["recall", "recall_n", "recall_low", "recall_high"])
    assert (shares["recall"], shares["recall_n"]) == (0.5, 2)
    assert 0 < shares["recall_low"] < 0.5 < shares["recall_high"] < 1
    assert of_week(as_of="2020-01-01") == [] == of_week(as_of=datetime(2020, 1, 1, tzinfo=timezone.utc))


@pytest.mark.parametrize("library", LIBRARIES)
def test_intervals_scores_and_features_are_stored(workspace: al.Workspace, library: str) -> None:
    data = {**columns(), "lo": [0.0, 1.0, 2.0], "hi": [1.0, 1.0, 4.0], "late": [0.25, 0.5, 1.0]}
    data["on time"] = [1 - late for late in data["late"]]
    workspace.release("v1").log_predictions(
        as_library(library, data),
        key="loan_id",
        predicted_at="scored_at",
        value="p",
        lower="lo",
        upper="hi",
        scores=["late", "on time"],
        features={"age": "hi"},
    )
    rows = workspace.predictions(DAY, frames="rows")
    read = [(row["lower"], row["upper"], row["score.late"], row["score.on time"], row["feature.age"]) for row in rows]
    assert read == [(0.0, 1.0, 0.25, 0.75, 1.0), (1.0, 1.0, 0.5, 0.5, 1.0), (2.0, 4.0, 1.0, 0.0, 4.0)]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_metric_names_its_prediction(workspace: al.Workspace, library: str) -> None:
    data = {"name": ["profit"], "value": [12.5], "measured_at": [AT], "loan_id": ["loan-1"]}
    workspace.log_metrics(as_library(library, data), key="loan_id", predicted_on=date(2026, 5, 31))
    (row,) = workspace.query("metrics", DAY, frames="rows")
    assert (row["key"], row["predicted_on"], row["predicted_at"]) == ("loan-1", "2026-05-31", None)


@pytest.mark.parametrize("library", ["rows", "pandas", "polars", "pyarrow"])
def test_frames_come_back_in_the_library_that_is_asked_for(workspace: al.Workspace, library: str) -> None:
    as_library(library, {})
    workspace.release("v1").log_predictions(columns(), key="loan_id", score="p", predicted_at="scored_at")
    frame = workspace.predictions(date(2026, 6, 1), frames=library, columns=["key", "score", "predicted_at"])
    if library == "rows":
        assert [row["score"] for row in frame] == [0.0, 0.5, 1.0]
    else:
        assert type(frame).__module__.split(".")[0] == library
        assert list(frame["score"].to_list() if library == "polars" else frame["score"].tolist()
                    if library == "pandas" else frame["score"].to_pylist()) == [0.0, 0.5, 1.0]


def test_the_same_key_counts_once(workspace: al.Workspace) -> None:
    send = lambda: workspace.release("v1").log_predictions(  # noqa: E731
        columns(), key="loan_id", score="p", predicted_at="scored_at", idempotency_key="nightly"
    )
    assert (send().replayed, send().replayed) == (0, 1)
    assert keys_of(workspace, DAY) == ["loan-0", "loan-1", "loan-2"]


def test_more_rows_than_a_request_takes_go_in_several(workspace: al.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fields, "MAX_ROWS", 1_000)
    receipt = workspace.release("v1").log_predictions(
        columns(2_500), key="loan_id", score="p", predicted_at="scored_at", idempotency_key="big"
    )
    assert (receipt.rows, receipt.batches) == (2_500, ["big", "big/1", "big/2"])
    assert len(set(keys_of(workspace, DAY))) == 2_500


def test_missing_values_and_numbers_as_keys(workspace: al.Workspace) -> None:
    nan = float("nan")
    data = {"key": [1, 2.0, True], "score": [nan, 0.5, None], "label": [1.0, nan, "x"], "at": [AT] * 3}
    rows = [dict(zip(data, values)) for values in zip(*data.values())]
    plain = {name: [_frames.plain(row[name], kind) for row in rows] for name, kind in
             [("key", "text"), ("score", "number"), ("label", "text")]}
    assert plain == {"key": ["1", "2", "true"], "score": [None, 0.5, None], "label": ["1", None, "x"]}
    workspace.release("v1").log_predictions({**plain, "at": data["at"]}, predicted_at="at")
    stored = workspace.predictions(DAY, frames="rows")
    assert [row["key"] for row in stored] == ["1", "2", "true"]


def test_a_mistake_is_told_before_anything_is_sent(workspace: al.Workspace) -> None:
    with pytest.raises(al.AlmanacError, match="no column 'loan'.*there are loan_id"):
        workspace.release("v1").log_predictions(columns(), key="loan", predicted_at=AT)
    with pytest.raises(al.AlmanacError, match="a workspace is named category/name"):
        workspace.client.workspace("credit")
    with pytest.raises(al.AlmanacError, match="not as 'excel'"):
        workspace.predictions(DAY, frames="excel")


def test_bad_rows_are_named(workspace: al.Workspace) -> None:
    data = columns()
    data["p"][1] = 7.0
    data["loan_id"][2] = ""
    with pytest.raises(al.RefusedError) as caught:
        workspace.release("v1").log_predictions(data, key="loan_id", score="p", predicted_at="scored_at")
    assert caught.value.row_count >= 1 and caught.value.rows[0].field in ("score", "key")
    assert keys_of(workspace, DAY) == []
