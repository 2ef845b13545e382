"""Frames of whatever library is installed go there and come back."""

from __future__ import annotations

import importlib.util
import inspect
import uuid
import warnings
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from functools import partial
from pathlib import Path

import pytest
from conftest import Door, eventually, keys_of

import almanac_ml as al
from almanac_ml import _fields, _frames, _schema
from almanac_ml import client as client_module
from almanac_ml._http import Answer

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


@pytest.mark.parametrize("library", ["mapping", "rows", "pandas"])
def test_uuids_are_the_text_that_everybody_writes(workspace: al.Workspace, library: str) -> None:
    ids = [uuid.UUID(int=5), uuid.UUID("41424344-4546-4748-494a-4b4c4d4e4f50"), uuid.uuid4()]
    data = as_library(library, {"id": ids, "p": [0.1, 0.2, 0.3]})
    workspace.release("v1").log_predictions(data, key="id", score="p", predicted_at=AT)
    assert keys_of(workspace, DAY) == sorted(str(one) for one in ids)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_column_of_days_stands_for_their_first_instants(workspace: al.Workspace, library: str) -> None:
    data = as_library(library, {"id": ["a", "b"], "p": [0.1, 0.2], "on": [DAY, f"{DAY}T02:00:00Z"]})
    workspace.release("v1").log_predictions(data, key="id", score="p", predicted_at="on")
    rows = workspace.predictions(DAY, frames="rows", columns=["predicted_at"])
    assert [row["predicted_at"] for row in rows] == [f"{DAY}T00:00:00Z", f"{DAY}T02:00:00Z"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_texts_without_a_zone_are_taken_as_utc(workspace: al.Workspace, library: str) -> None:
    times = [f"{DAY} 02:00:00", f"{DAY}T03:00:00.5", f"{DAY} 05:00:00+01:00"]
    data = as_library(library, {"id": ["a", "b", "c"], "p": [0.1, 0.2, 0.3], "on": times})
    workspace.release("v1").log_predictions(data, key="id", score="p", predicted_at="on")
    with workspace.logger() as log:
        log.prediction("v1", "d", score=0.5, predicted_at=f"{DAY} 05:00:00")
    rows = workspace.predictions(DAY, frames="rows", columns=["predicted_at"])
    assert [row["predicted_at"] for row in rows] == [
        f"{DAY}T02:00:00Z",
        f"{DAY}T03:00:00.500Z",
        f"{DAY}T04:00:00Z",
        f"{DAY}T05:00:00Z",
    ]
    before = datetime.now(timezone.utc) - timedelta(days=1)
    assert workspace.predictions(DAY, frames="rows", as_of=before.strftime("%Y-%m-%d %H:%M:%S")) == []


@pytest.mark.parametrize("is_json", [False, True])
def test_one_value_beside_columns_is_that_of_all(
    workspace: al.Workspace, is_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_json:
        monkeypatch.setattr(_frames, "has", lambda _: False)
    named = {"predicted_on": DAY, "observed_at": AT}
    for data, stored in (
        ({"key": "loan-1", "label": "repaid"}, [("loan-1", "repaid")]),
        ({"key": b"loan-2", "label": "repaid"}, [("loan-2", "repaid")]),
        ({"key": ["loan-3", "loan-4"], "label": "no"}, [("loan-3", "no"), ("loan-4", "no")]),
        ({"key": ("loan-5", "loan-6"), "label": 1, "value": None}, [("loan-5", "1"), ("loan-6", "1")]),
        ({"key": {"loan-7": 1}.keys(), "label": {1: "yes"}.values()}, [("loan-7", "yes")]),
    ):
        assert workspace.log_outcomes(data, **named).rows == len(stored)
        rows = workspace.outcomes(DAY, frames="rows", columns=["key", "label"])
        assert [(row["key"], row["label"]) for row in rows][-len(stored) :] == stored
    count = len(workspace.outcomes(DAY, frames="rows"))
    for wrong, why in (
        ({"key": {"0": "a"}, "label": "x"}, "the column 'key' is a dict"),
        ({"key": ["a"], "label": {"x"}}, "the column 'label' is a set"),
        ({"key": ["a", "b"], "label": ["x"]}, "the columns differ in length"),
        (["loan-1"], "each row of a list is a mapping of fields to values, not 'loan-1'"),
        ([("loan-1", "x")], "each row of a list is a mapping"),
        ("loan-1", "str is no pandas, polars or Arrow frame"),
    ):
        with pytest.raises(al.AlmanacError, match=why):
            workspace.log_outcomes(wrong, **named)
    assert len(workspace.outcomes(DAY, frames="rows")) == count


@pytest.mark.parametrize("library", [*LIBRARIES, "logger", "json"])
def test_texts_are_the_same_through_every_door(
    workspace: al.Workspace, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "bytes": b"loan-1",
        "at": AT,
        "on": date(2026, 6, 1),
        "time": time(2, 30),
        "whole": float(2**53 - 1),
        "part": 2.5,
        "is": True,
        "name": "日本",
    }
    bad = {
        "bytes": b"\xff",
        "object": object(),
        "complex": 1j,
        "duration": timedelta(hours=1),
        "whole": float(2**53),
        "infinite": float("inf"),
        "surrogate": "loan-\ud800",
    }
    if library == "json":
        monkeypatch.setattr(_frames, "has", lambda _: False)
    release = workspace.release("v1")
    if library == "logger":
        with workspace.logger() as log:
            log.prediction(release, b"key", score=0.5, predicted_at=AT, tags=values)
            for name, value in bad.items():
                log.prediction("v1", name, score=0.5, predicted_at=AT, tags={"x": value})
        assert (log.stats.stored, log.stats.refused) == (1, len(bad))
    else:
        row = {"key": [b"key"], "score": [0.5], "predicted_at": [AT]}
        as_frame = "mapping" if library == "json" else library
        data = as_library(as_frame, {**row, **{f"tag.{name}": [value] for name, value in values.items()}})
        release.log_predictions(data)
        for value in bad.values():
            with pytest.raises(al.AlmanacError):
                try:
                    data = as_library(as_frame, {**row, "tag.x": [value]})
                except Exception as error:
                    raise al.AlmanacError("the library has no column of it") from error
                release.log_predictions(data)
    (stored,) = workspace.predictions(DAY, frames="rows")
    assert {name[4:]: text for name, text in stored.items() if name.startswith("tag.")} == {
        "bytes": "loan-1",
        "at": "2026-06-01T02:00:00+00:00",
        "on": "2026-06-01",
        "time": "02:30:00",
        "whole": "9007199254740991",
        "part": "2.5",
        "is": "true",
        "name": "日本",
    }
    assert stored["key"] == "key"


def test_a_bad_value_is_named_with_its_column(workspace: al.Workspace) -> None:
    for library in LIBRARIES:
        data = as_library(library, {"id": [float(2**53), 1.0], "p": [0.5, 0.5]})
        with pytest.raises(al.AlmanacError, match="key of the column 'id': 9007199254740992.0 may have been another"):
            workspace.release("v1").log_predictions(data, key="id", score="p", predicted_at=AT)
    pandas = pytest.importorskip("pandas")
    loans = pandas.DataFrame({"id": [2**53 + 1], "p": [0.5]})
    merged = pandas.DataFrame({"p": [0.5, 0.7]}).merge(loans, how="left")
    with pytest.raises(al.AlmanacError, match="'Int64'"):
        workspace.release("v1").log_predictions(merged, key="id", score="p", predicted_at=AT)
    narrow = merged.assign(id=pandas.Series([2.0**24, 1.0], dtype="float32"))
    with pytest.raises(al.AlmanacError, match="16777216.0 may have been another"):
        workspace.release("v1").log_predictions(narrow, key="id", score="p", predicted_at=AT)
    whole = loans.astype({"id": "Int64"})
    workspace.release("v1").log_predictions(whole, key="id", score="p", predicted_at=AT)
    assert keys_of(workspace, DAY) == ["9007199254740993"]


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"])
def test_times_of_numpy_are_taken_in_every_unit(
    workspace: al.Workspace, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numpy = pytest.importorskip("numpy")
    at = numpy.array([f"{DAY}T02", "NaT"], dtype=f"M8[{unit}]")
    took = numpy.array([12, "NaT"], dtype=f"m8[{unit}]") if unit not in ("Y", "M") else [None, None]
    columns = {"key": ["a", "b"], "predicted_at": AT, "observed_at": at, "applies_to": "latest"}
    sent = []
    for _ in range(2):
        sources = {name: _frames.Column(name) for name in columns}
        (body,) = _frames.bodies("outcomes", _frames.settled(columns), sources)
        sent.append(body.rows)
        monkeypatch.setattr(_frames, "has", lambda _: False)
    assert sent == [2, 2]
    monkeypatch.undo()
    rows = {"key": ["a", "b"], "predicted_at": [at[0], AT], "score": 0.5, "latency_ms": took}
    day = str(at[0].astype("M8[D]"))
    receipt = workspace.release("v1").log_predictions(rows)
    assert receipt.days == ({DAY: 2} if day == DAY else {DAY: 1, day: 1})


def test_no_rows_are_zero_rows(workspace: al.Workspace) -> None:
    empty = [as_library(library, {}) for library in LIBRARIES[2:] if importlib.util.find_spec(library)]
    for data in ([], {}, *empty):
        assert workspace.release("v1").log_predictions(data, score="p", predicted_at="at", tags=["x"]).rows == 0
        assert workspace.log_outcomes(data, label="label", predicted_on="on").rows == 0
        assert workspace.log_metrics(data, name="loss").rows == 0
    assert workspace.log_outcomes({"key": [], "label": "x"}, predicted_on=DAY).rows == 0
    with pytest.raises(al.AlmanacError, match="no column 'key' for key; there are none"):
        workspace.log_outcomes([{}], predicted_on=DAY)


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_equal_call_counts_once(workspace: al.Workspace, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fields, "MAX_ROWS", 2)
    if library == "rows":
        # As of a frame that is too large to be kept.
        monkeypatch.setattr(client_module, "KEPT_BYTES", 0)
    release = workspace.release("v1")

    def log(rows: int = 5) -> al.Receipt:
        data = as_library(library, columns(rows))
        return release.log_predictions(data, key="loan_id", score="p", predicted_at="scored_at")

    first = log()
    assert (first.rows, first.replayed) == (5, 0)
    with pytest.warns(al.AlmanacWarning, match="5 of 5 rows were not stored again: an equal call has stored them"):
        again = log()
    assert (again.rows, again.replayed, again.batches) == (5, 3, first.batches)
    assert len(keys_of(workspace, DAY)) == 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert log(4).replayed == 0, "it is another call"
        data = as_library(library, columns(5))
        named = {"key": "loan_id", "score": "p", "predicted_at": "scored_at", "idempotency_key": "again"}
        assert release.log_predictions(data, **named).replayed == 0
    assert len(keys_of(workspace, DAY)) == 14
    truth = as_library(library, {"key": ["loan-1"], "label": ["default"]})
    measured = as_library(library, {"name": ["m"], "value": [1.0], "measured_at": [AT]})
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            workspace.log_outcomes(truth, predicted_on=DAY, observed_at=AT)
            workspace.log_metrics(measured)
    assert len(workspace.outcomes(DAY, frames="rows")) == 1
    assert len(workspace.query("metrics", DAY, frames="rows")) == 1


def test_a_lost_answer_names_the_key_to_go_on_with(workspace: al.Workspace, door: Door) -> None:
    release = al.connect(door.url, retry_for=0.0).workspace(workspace.path).release("v1")
    named = {"key": "loan_id", "score": "p"}
    for times, names in (({"predicted_at": "scored_at"}, []), ({}, ["predicted_at"])):
        door.script = ["lost"]
        with pytest.raises(al.UnavailableError, match="to store each once, call again with idempotency_key=") as caught:
            release.log_predictions(columns(), **named, **times)
        told = {name: str(caught.value).split(f"{name}='")[1].split("'")[0] for name in ["idempotency_key", *names]}
        receipt = release.log_predictions(columns(), **named, **times, **told)
        assert (receipt.rows, receipt.replayed) == (3, 1)
    assert len(workspace.predictions(DAY, frames="rows")) == 3
    # A call that tries again itself says nothing of that.
    door.script = ["lost"]
    again = al.connect(door.url, retry_for=20).workspace(workspace.path).release("v1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.log_predictions({"key": ["z"], "score": [0.5]}, predicted_at=AT)
    assert len(workspace.predictions(DAY, frames="rows")) == 4


@pytest.mark.parametrize("library", ["mapping", "pandas", "polars", "pyarrow"])
def test_a_frame_without_rows_stores_none(workspace: al.Workspace, library: str) -> None:
    data = as_library(library, {"id": [], "p": [], "at": []})
    receipt = workspace.release("v1").log_predictions(data, key="id", score="p", predicted_at="at")
    assert receipt.rows == 0


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


def test_of_series_in_a_mapping_every_row_is_sent(workspace: al.Workspace) -> None:
    pandas = pytest.importorskip("pandas")
    # pandas 2 slices by the labels of such an index.
    index = [10.0, 0.0, 12.0]
    data = {"key": pandas.Series(["a", "b", "c"], index=index), "score": pandas.Series([0.1, 0.2, 0.3], index=index)}
    assert workspace.release("v1").log_predictions(data, predicted_at=AT).rows == 3
    assert keys_of(workspace, DAY) == ["a", "b", "c"]


def test_arrays_of_one_element_are_that_element(workspace: al.Workspace) -> None:
    numpy = pytest.importorskip("numpy")
    labels, scores = numpy.array([["default"], ["repaid"]]), numpy.array([[0.9], [0.1]])
    predicted = {"key": ["a", "b"], "label": labels, "score": scores}
    workspace.release("v1").log_predictions(predicted, predicted_at=AT)
    with workspace.logger() as log:
        one, tags = {"label": numpy.array(["repaid"]), "score": numpy.array(0.2)}, {"branch": numpy.array([["north"]])}
        log.prediction("v1", numpy.array(["c"]), predicted_at=AT, tags=tags, **one)
        log.prediction("v1", "d", predicted_at=AT, label=numpy.array(["repaid", "default"]))
        log.prediction("v1", "e", predicted_at=AT, label=["repaid"])
    assert (log.stats.stored, log.stats.refused) == (1, 2)
    rows = workspace.predictions(DAY, frames="rows")
    assert [(row["key"], row["label"], row["score"], row["tag.branch"]) for row in rows] == [
        ("a", "default", 0.9, None),
        ("b", "repaid", 0.1, None),
        ("c", "repaid", 0.2, "north"),
    ]


@pytest.mark.parametrize("library", ["pandas", "pyarrow", "json"])
def test_intervals_and_periods_are_texts_as_pandas_writes_them(
    workspace: al.Workspace, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = pytest.importorskip("pandas")
    months = pandas.Series(pandas.period_range("2026-01", periods=3, freq="M"))
    data = pandas.DataFrame({"key": ["a", "b", "c"], "score": [0.1, 0.5, 0.9], "month": months})
    data["bin"] = pandas.cut(data["score"], [0.0, 0.2, 0.6])
    data["range"] = pandas.IntervalIndex.from_breaks([0, 1, 2, 3])
    if library == "pyarrow":
        data = pytest.importorskip("pyarrow").Table.from_pandas(data)
    elif library == "json":
        monkeypatch.setattr(_frames, "has", lambda _: False)
    workspace.release("v1").log_predictions(data, predicted_at=AT, tags=["month", "bin", "range"])
    rows = workspace.predictions(DAY, frames="rows")
    assert [(row["tag.month"], row["tag.bin"], row["tag.range"]) for row in rows] == [
        ("2026-01", "(0.0, 0.2]", "(0, 1]"),
        ("2026-02", "(0.2, 0.6]", "(1, 2]"),
        ("2026-03", None, "(2, 3]"),
    ]


@pytest.mark.parametrize("library", LIBRARIES)
def test_several_values_in_one_field_are_refused(workspace: al.Workspace, library: str) -> None:
    data = as_library(library, {"key": ["a", "b"], "score": [0.5, 0.5], "label": [["x", "y"], ["z"]]})
    with pytest.raises(al.AlmanacError, match="one value, not|cannot be sent as a text"):
        workspace.release("v1").log_predictions(data, predicted_at=AT)


@pytest.mark.parametrize("library", LIBRARIES)
def test_outcomes_without_a_date_wait_for_their_predictions(workspace: al.Workspace, library: str) -> None:
    truth = {"loan_id": ["loan-0", "loan-2"], "status": ["repaid", "default"], "closed": [AT, AT]}
    named = {"key": "loan_id", "label": "status"}
    receipt = workspace.log_outcomes(as_library(library, truth), observed_at="closed", **named)
    assert (receipt.rows, receipt.unmatched) == (2, 2)
    late = {**truth, "closed": [AT + timedelta(days=1)] * 2, "predicted_since": [AT, AT - timedelta(days=200)]}
    assert workspace.log_outcomes(as_library(library, late), observed_at="closed", **named).unmatched == 2
    # A column may have a time for some rows alone.
    mixed = {**truth, "closed": [AT + timedelta(days=2)] * 2, "predicted_at": [AT, None]}
    receipt = workspace.log_outcomes(as_library(library, mixed), observed_at="closed", **named)
    assert (receipt.rows, receipt.unmatched) == (2, 1)
    told = workspace.unmatched()
    assert told["counts"] == {"waiting": 5, "decided": 0, "appended": 0, "expired": 0, "refused": 0}
    assert {one["applies_to"] for one in told["outcomes"]} == {"latest"}
    assert all(one["state"] == "waiting" and one["why"] for one in told["outcomes"])
    since = {one["predicted_since"] for one in told["outcomes"] if one["observed_at"].startswith("2026-06-02")}
    assert since == {"2026-06-01T02:00:00Z", "2025-11-13T02:00:00Z"}
    assert workspace.unmatched(key="loan-0", state="expired", limit=0)["counts"]["waiting"] == 2
    assert workspace.unmatched(key="loan-0", state="expired")["outcomes"] == []
    assert len(workspace.unmatched(limit=2)["outcomes"]) == 2 and workspace.unmatched(limit=2)["counts"]["waiting"] == 5
    left_alone = workspace.rematch_outcomes("loan-0", observed_at=AT)
    assert left_alone == [{"observed_at": "2026-06-01T02:00:00Z", "became": "waiting", "judged": []}]
    assert workspace.rematch_outcomes("loan-7") == []
    # Some judge all predictions of their key, as an argument or a column says.
    later = {**truth, "closed": [AT + timedelta(days=3)] * 2}
    assert workspace.log_outcomes(as_library(library, later), observed_at="closed", applies_to="all", **named).unmatched == 2
    mixed = {**truth, "closed": [AT + timedelta(days=4)] * 2, "applies_to": ["all", None]}
    assert workspace.log_outcomes(as_library(library, mixed), observed_at="closed", **named).unmatched == 2
    outcomes = workspace.unmatched()["outcomes"]
    applies_to = [one["applies_to"] for one in outcomes if one["observed_at"] >= "2026-06-04"]
    assert sorted(applies_to) == ["all", "all", "all", "latest"]


def test_what_was_believed_of_a_key_is_told(workspace: al.Workspace) -> None:
    for label, observed_at in (("1", "2026-06-02T02:00:00Z"), ("0", "2026-06-03T02:00:00Z")):
        outcome = {"key": "loan-1", "predicted_at": AT, "observed_at": observed_at, "label": label}
        workspace.log_outcomes([outcome])
    told = workspace.outcome_history("loan-1", since="2026-06-01", until="2026-06-01")
    assert [(one["label"], one["standing"]) for one in told] == [("1", "corrected"), ("0", "counts")]


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_taken_back_counts_no_more(workspace: al.Workspace, library: str) -> None:
    data = as_library(library, columns())
    release = workspace.release("v1")
    release.log_predictions(data, key="loan_id", score="p", predicted_at="scored_at")
    truth = as_library(library, {"loan_id": ["loan-0"], "status": ["repaid"], "closed": [AT]})
    named = {"key": "loan_id", "observed_at": "closed", "predicted_on": DAY}
    workspace.log_outcomes(truth, label="status", **named)
    workspace.log_outcomes(truth, retracted_because="another loan", **named)
    last = as_library(library, {name: values[2:] for name, values in columns().items()})
    release.log_predictions(last, key="loan_id", predicted_at="scored_at", retracted_because="a test")
    rows = workspace.joined(DAY, frames="rows")
    assert [(row["key"], row["outcome_label"]) for row in rows] == [("loan-0", None), ("loan-1", None)]
    told = workspace.outcomes(DAY, frames="rows", columns=["label", "retracted", "reason"])
    assert told == [
        {"label": "repaid", "retracted": None, "reason": None},
        {"label": None, "retracted": "true", "reason": "another loan"},
    ]


def test_a_model_has_metrics_of_its_own(workspace: al.Workspace) -> None:
    workspace.create_model("priced", task="binary", costs={"fn": 5}, custom_metrics={"mean": "avg(score)"})
    workspace.create_release("p1", model="priced")
    workspace.define_model("priced", since="2026-05-01", custom_metrics={"rows": "count(*)"})
    workspace.release("p1").log_predictions(columns(), key="loan_id", score="p", predicted_at="scored_at")
    named = {"period": "all", "frames": "rows", "columns": ["custom.mean", "custom.rows", "costs"]}
    costs = "tp=0,tn=0,fp=0,fn=5"
    assert workspace.evaluations(DAY, **named) == [{"custom.mean": 0.5, "custom.rows": 3.0, "costs": costs}]
    workspace.define_model("priced", since="2026-05-01", custom_metrics={"mean": None})
    (row,) = workspace.evaluations(DAY, **named)
    assert (row["custom.mean"], row["custom.rows"]) == (None, 3.0)
    with pytest.raises(al.RefusedError, match="stands outside of an aggregate"):
        workspace.define_model("priced", custom_metrics={"mean": "score"})


def test_promotion_gates_refuse_and_are_overridden(workspace: al.Workspace) -> None:
    set_ = workspace.set_promotion_gates("risk", min_n=5, delay=30, environments=["production"])
    assert (set_["min_n"], set_["days"], set_["delay"], set_["environments"]) == (5, 7, 30, ["production"])
    with pytest.raises(al.RefusedError, match="min_n: 0 of its predictions"):
        workspace.promote("v1", environment="production")
    (approval,) = workspace.approve("v1", environment="production", note="Read.")
    assert (approval["release"], approval["note"]) == ("v1", "Read.")
    assert workspace.promotion_gates() == {"gates": [set_], "approvals": [approval]}
    assert workspace.approve("v1", environment="production", retract=True) == []
    (change,) = workspace.promote("v1", environment="production", override="the first one")
    assert (change["action"], change["release"]) == ("promote", "v1")
    assert workspace.set_promotion_gates("risk") == {"model": "risk"}


def test_a_promotion_is_rolled_back_and_retired(workspace: al.Workspace) -> None:
    second = workspace.create_release("v2", model="risk")
    workspace.promote("v1", environment="production")
    before = datetime.now(timezone.utc)
    workspace.promote(second, environment="production")
    assert [live["release"] for live in workspace.live(environment="production")] == ["v2"]
    assert [live["release"] for live in workspace.live(at=before)] == ["v1"]
    changes = workspace.rollback(environment="production", note="worse")
    assert [(change["action"], change["release"]) for change in changes] == [("rollback", "v1")]
    assert [change["release"] for change in workspace.retire("v1")] == ["v1"]
    assert workspace.live() == []


def test_a_rollback_with_a_lost_answer_is_not_repeated(workspace: al.Workspace, door: Door) -> None:
    workspace.create_release("v2", model="risk")
    for release in ("v1", "v2"):
        workspace.promote(release, environment="production")
    with al.connect(door.url, retry_for=20) as client:
        door.script = ["lost"]
        with pytest.raises(al.UnavailableError):
            client.workspace(workspace.path).rollback(environment="production")
    assert [live["release"] for live in workspace.live()] == ["v1"]


def test_releases_are_ranked_by_any_metric(workspace: al.Workspace) -> None:
    workspace.release("v1").log_predictions(columns(), key="loan_id", score="p", predicted_at="scored_at")
    keys = columns()["loan_id"]
    workspace.log_outcomes({"key": keys, "label": ["default"] * len(keys)}, observed_at=f"{DAY}T23:00:00Z")
    ranked = partial(workspace.leaderboard, DAY, DAY, metric="accuracy", direction="max")
    eventually(lambda: ranked() and ranked()[0]["labelled"] == len(keys))
    workspace.create_release("v0", model="risk")
    workspace.log_predictions(columns(1), release="v0", key="loan_id", score="p", predicted_at="scored_at")
    eventually(lambda: len(ranked()) == 2)
    place, other = ranked(min_n=2)
    assert other["release"] == "v0"
    (row,) = workspace.release("v1").evaluations(DAY, columns=["accuracy"], frames="rows")
    assert (place["release"], place["value"]) == ("v1", row["accuracy"])
    assert [place["release"] for place in ranked(limit=1)] == ["v1"]


def test_alert_rules_are_set_tried_and_deleted(workspace: al.Workspace) -> None:
    rule = {"name": "few", "count": "predictions", "below": 1000}
    tried = workspace.test_alert_rule(rule, DAY, DAY)
    assert (tried["fired"], [str(day["day"]) for day in tried["days"]]) == (1, [str(DAY)])
    assert [known["name"] for known in workspace.set_alert_rules([rule])["rules"]] == ["few"]
    assert workspace.test_alert_rule("few", DAY, DAY) == tried
    workspace.delete_alert_rule("few")
    assert workspace.alert_rules() == {"rules": [], "webhooks": []}
    with pytest.raises(al.RefusedError):
        workspace.set_alert_rules([{"name": "none"}])


def test_reference_days_may_be_one_text(workspace: al.Workspace) -> None:
    days, text = ("2026-06-01", "2026-06-06"), "2026-06-01..2026-06-06"
    for ask in (workspace.drift, workspace.estimates):
        assert list(ask("2026-06-07", reference=text, frames="rows")) == list(
            ask("2026-06-07", reference=days, frames="rows")
        )


def test_every_option_of_a_query_reaches_the_service(workspace: al.Workspace) -> None:
    data = columns()
    workspace.release("v1").log_predictions(data, key="loan_id", score="p", predicted_at="scored_at", tags=["branch"])
    truth = {"loan_id": ["loan-0", "loan-1", "loan-2"], "status": ["default", "repaid", "default"], "closed": [AT] * 3}
    workspace.log_outcomes(truth, key="loan_id", observed_at="closed", predicted_on=DAY, label="status")

    def of_week(**options: object) -> list:
        return workspace.evaluations("2026-06-01", "2026-06-07", period="week", frames="rows", **options)

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
    (worth,) = of_week(costs={"tp": 10, "fp": 2}, columns=["value"])
    assert worth == {"value": 8.0}
    # Nothing was predicted in the week before.
    (changed,) = of_week(columns=["tp"], change="period")
    assert changed == {"tp": 1, "tp_change": None}
    with pytest.raises(al.RefusedError, match="change: `year` is none of day, week, period"):
        of_week(change="year")
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
        if library == "pandas":
            assert frame["predicted_at"].tolist() == columns()["scored_at"]


def test_a_frame_is_of_the_first_library_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"polars", "pandas", "pyarrow"}
    monkeypatch.setattr(_frames, "has", lambda library: library in there)
    monkeypatch.setattr(_frames, "_reads_views", lambda: True)
    assert (_frames.library_for(None), _frames.library_for("arrow")) == ("polars", "pyarrow")
    there.remove("polars")
    assert (_frames.library_for(None), _frames.format_for("pandas")) == ("pandas", "ipc-stream-lz4")
    # An older pyarrow knows no views of strings, or little of them; polars needs none.
    monkeypatch.setattr(_frames, "_reads_views", lambda: False)
    assert (_frames.format_for("polars"), _frames.format_for("pyarrow")) == ("ipc-stream-lz4", "ipc-stream")
    there.remove("pyarrow")
    assert (_frames.library_for(None), _frames.format_for("pandas")) == ("pandas", "ndjson")
    there.remove("pandas")
    assert _frames.library_for(None) == "rows"
    with pytest.raises(al.AlmanacError, match="pip install polars"):
        _frames.library_for("polars")


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


def test_one_name_stands_for_itself_where_names_are_taken(workspace: al.Workspace) -> None:
    row = {"key": "a", "score": 0.5, "predicted_at": AT, "branch": "north", "age": 41.0}
    workspace.release("v1").log_predictions([row], tags="branch", features="age")
    columns = ["tag.branch", "feature.age"]
    assert workspace.predictions(DAY, frames="rows", columns=columns) == [{"tag.branch": "north", "feature.age": 41.0}]
    assert workspace.predictions(DAY, frames="rows", columns="key") == [{"key": "a"}]
    workspace.define_model("risk", dimensions="tag.branch")
    gates = workspace.set_promotion_gates("risk", environments="production", min_n=5)
    assert gates["environments"] == ["production"]


def test_columns_that_are_called_as_in_answers_are_taken_as_these(workspace: al.Workspace) -> None:
    row = {"key": "a", "score": 0.5, "predicted_at": AT, "tag.branch": "north", "feature.age": 41.0, "other": 1}
    release = workspace.release("v1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release.log_predictions([row], tags={"region": "tag.branch"}, features={"years": "feature.age"})
        release.log_predictions([{**row, "key": "b"}])
    names = ["key", "tag.branch", "tag.region", "feature.age", "feature.years"]
    stored = workspace.predictions(DAY, frames="rows", columns=names)
    assert stored == [
        {"key": "a", "tag.branch": None, "tag.region": "north", "feature.age": None, "feature.years": 41.0},
        {"key": "b", "tag.branch": "north", "tag.region": None, "feature.age": 41.0, "feature.years": None},
    ]
    with pytest.warns(al.AlmanacWarning, match="called as fields are were not sent: retracted, reason, tags$"):
        release.log_predictions([{**row, "key": "c", "retracted": "true", "reason": "no", "tags": {"a": "b"}}])
    with pytest.warns(al.AlmanacWarning, match="were not sent: release, key$"):
        workspace.log_metrics([{"name": "m", "value": 1.0, "measured_at": AT, "release": "v1", "key": "a"}])


def test_values_of_tags_may_have_commas(workspace: al.Workspace) -> None:
    rows = [
        {"key": f"{at}", "score": at / 10, "predicted_at": AT, "tag.branch": branch, "tag.desk": "a"}
        for at, branch in enumerate(["north", "north, o'clock", "north, o'clock"])
    ]
    workspace.release("v1").log_predictions(rows)
    tags = {"branch": "north, o'clock", "desk": "a"}
    found = workspace.predictions(DAY, frames="rows", columns="key", tags=tags)
    assert found == [{"key": "1"}, {"key": "2"}]
    found = workspace.predictions(DAY, frames="rows", columns="key", tags=tags, where="score > 0.1 or key = '0'")
    assert found == [{"key": "2"}]


def test_rows_are_found_by_what_they_were_logged_with(workspace: al.Workspace) -> None:
    row = {"key": 1.0, "score": 0.5, "predicted_at": AT, "tag.is_new": True, "tag.code": b"n"}
    workspace.release("v1").log_predictions(row)
    workspace.log_outcomes({"key": 1, "label": b"default"}, predicted_on=DAY, observed_at=AT)
    for key in (1, 1.0, b"1", "1"):
        tags = {"is_new": True, "code": b"n"}
        assert len(workspace.predictions(DAY, key=key, tags=tags, frames="rows")) == 1
        assert [one["label"] for one in workspace.outcome_history(key, DAY, DAY)] == ["default"]
    assert workspace.predictions(DAY, key=2, frames="rows") == []


def test_what_is_there_is_no_other(workspace: al.Workspace) -> None:
    workspace.create_model("risk", task="binary")
    workspace.create_model("other", task="regression")
    workspace.create_release("v1", model="risk")
    with pytest.raises(al.AlmanacError, match="'risk' is there already, with the task 'binary' and not 'regression'"):
        workspace.create_model("risk", task="regression")
    with pytest.raises(al.AlmanacError, match="'v1' is there already, with the model 'risk' and not 'other'"):
        workspace.create_release("v1", model="other")


def test_a_model_that_is_there_is_judged_as_is_said(workspace: al.Workspace) -> None:
    said = {"threshold": 0.3, "costs": {"fp": 2}, "dimensions": ["tag.x", "tag.y"], "custom_metrics": {"late": "avg(score)"}}
    workspace.create_model("loss", task="binary", positive_label="1", **said)
    workspace.create_model("loss", task="binary")
    same = {"costs": {"fn": 0, "fp": 2.0}, "dimensions": ["tag.y", "tag.x"]}
    workspace.create_model("loss", task="binary", **{**said, **same})
    told = "its positive_label is '1' and not '0'; its threshold is 0.3 and not 0.7. define_model.'loss', ...."
    with pytest.raises(al.AlmanacError, match=told):
        workspace.create_model("loss", task="binary", positive_label="0", threshold=0.7)
    for wrong in ({"costs": {"fp": 3}}, {"dimensions": ["tag.x"]}, {"custom_metrics": {"late": "max(score)"}}):
        with pytest.raises(al.AlmanacError, match=f"its {next(iter(wrong))} is"):
            workspace.create_model("loss", task="binary", **wrong)


def test_labels_may_be_numbers_and_truth_values(workspace: al.Workspace) -> None:
    for label, text in ((1, "1"), (1.0, "1"), (True, "true"), (False, "false")):
        workspace.create_model(f"of-{label!r}", task="binary", positive_label=label)
        assert workspace._known("models", f"of-{label!r}")["positive_label"] == text
    workspace.create_model("of-1", task="binary", positive_label="1")
    workspace.release("v1").log_predictions({"key": ["a"], "score": [0.5]}, predicted_at=AT)
    assert workspace.create_review("june", DAY, labels=[0, 1])["labels"] == ["0", "1"]


def test_what_is_asked_for_may_be_of_other_libraries(workspace: al.Workspace) -> None:
    numpy = pytest.importorskip("numpy")
    v1 = workspace.release("v1")
    rows = {"key": ["a", "b", "c"], "score": [0.1, 0.5, 0.9]}
    workspace.log_predictions(rows, release=v1, predicted_at=AT)
    assert len(workspace.predictions(DAY, release=v1, limit=numpy.int64(2), frames="rows")) == 2
    workspace.define_model("risk", threshold=numpy.float32(0.5))
    kept = {"n": numpy.int64(3), "at": AT, "edges": numpy.array([0.5, 1.0]), "is_first": numpy.bool_(True)}
    told = workspace.create_snapshot("june", "predictions", DAY, release=v1, attributes=kept)["attributes"]
    assert told == {"n": 3, "at": "2026-06-01T02:00:00.000000Z", "edges": [0.5, 1.0], "is_first": True}
    with pytest.raises(al.RefusedError, match="no review"):
        workspace.arena_ranking("duel", as_of=AT)
    with pytest.raises(al.AlmanacError, match="limit cannot be <object"):
        workspace.predictions(DAY, limit=object())
    with pytest.raises(al.AlmanacError, match="cannot be sent"):
        workspace.create_snapshot("july", "predictions", DAY, attributes={"of": object()})
    for library in ("pandas", "polars"):
        series = pytest.importorskip(library).Series([0.5])
        with pytest.raises(al.AlmanacError, match="Series is no pandas, polars or Arrow frame"):
            v1.log_predictions(series)


def test_what_is_no_number_is_named(workspace: al.Workspace) -> None:
    assert _frames.plain("0.5", "number") == 0.5
    for wrong in ("half", object(), 10**400):
        with pytest.raises(al.AlmanacError, match="is no number that can be stored"):
            _frames.plain(wrong, "number")


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


def loans(**more: object) -> dict:
    return {"loan_id": ["a", "b"], "p": [0.25, 0.75], **more}


def test_without_a_time_predictions_are_of_now(workspace: al.Workspace) -> None:
    before = datetime.now(timezone.utc)
    receipt = workspace.release("v1").log_predictions(loans(), key="loan_id", score="p", features={"p2": "p"})
    after = datetime.now(timezone.utc)
    first, last = sorted(receipt.days)[0], sorted(receipt.days)[-1]
    assert before.date().isoformat() <= first <= last <= after.date().isoformat()
    rows = workspace.predictions(first, last, frames="rows")
    assert len({row["predicted_at"] for row in rows}) == 1 and [row["feature.p2"] for row in rows] == [0.25, 0.75]
    with pytest.raises(al.AlmanacError, match="give predicted_at="):
        workspace.release("v1").log_predictions(loans(), key="loan_id", score="p", idempotency_key="nightly")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_column_may_be_called_like_the_release(workspace: al.Workspace, library: str) -> None:
    data = as_library(library, {"loan_id": ["a", "b"], "v1": [0.25, 0.75]})
    workspace.release("v1").log_predictions(data, key="loan_id", score="v1", predicted_at=AT)
    assert [row["release"] for row in workspace.predictions(DAY, frames="rows")] == ["v1", "v1"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_days_may_be_given_as_datetimes(workspace: al.Workspace, library: str) -> None:
    night = datetime(2026, 6, 1, 23, tzinfo=timezone(timedelta(hours=-2)))
    for at in (AT, AT.replace(tzinfo=None), night):
        data = as_library(library, loans(day=[at, at], truth=[1.0, 0.0]))
        receipt = workspace.log_outcomes(
            data, key="loan_id", predicted_on="day", observed_at="2026-06-05", label="truth"
        )
        assert receipt.days == {("2026-06-02" if at is night else DAY): 2}
    rows = workspace.outcomes(DAY, frames="rows")
    assert {(row["key"], row["label"]) for row in rows} == {("a", "1"), ("b", "0")}
    assert all(row["observed_at"].startswith("2026-06-05T00:00:00") for row in rows)


@pytest.mark.parametrize("library", LIBRARIES)
def test_numbers_are_no_times(workspace: al.Workspace, library: str) -> None:
    data = as_library(library, loans(at=[1_780_000_000, 1_780_000_001]))
    with pytest.raises(al.AlmanacError, match="give.*datetime"):
        workspace.release("v1").log_predictions(data, key="loan_id", score="p", predicted_at="at")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("value", [timedelta(hours=1), date(2026, 6, 1), AT, time(4, 30)])
def test_times_are_no_numbers(workspace: al.Workspace, library: str, value: object) -> None:
    data = as_library(library, {"key": ["a", "b"], "score": [0.5, 0.25], "age": [value, None]})
    with pytest.raises(al.AlmanacError, match="the column 'age' of feature.age holds .*; give numbers"):
        workspace.release("v1").log_predictions(data, features=["age"], predicted_at=AT)


@pytest.mark.parametrize("library", LIBRARIES)
def test_durations_of_latencies_are_milliseconds(
    workspace: al.Workspace, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    took = [timedelta(milliseconds=12, microseconds=500), None, timedelta(seconds=2)]
    data = as_library(library, {"key": ["a", "b", "c"], "score": [0.5] * 3, "latency_ms": took})
    workspace.release("v1").log_predictions(data, predicted_at=AT)
    if library not in ("polars", "pyarrow"):
        # As JSON too.
        monkeypatch.setattr(_frames, "has", lambda _: False)
    workspace.release("v1").log_predictions(data, predicted_at=AT + timedelta(seconds=1))
    rows = workspace.predictions(DAY, frames="rows", order="newest", columns=["key", "latency_ms"])
    assert {(row["key"], row["latency_ms"]) for row in rows} == {("a", 12.5), ("b", None), ("c", 2000.0)}
    assert len(rows) == 6


@pytest.mark.parametrize("is_json", [False, True])
@pytest.mark.parametrize("library", ["mapping", "rows", "pandas"])
def test_columns_may_be_called_by_numbers(
    workspace: al.Workspace, library: str, is_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = as_library(library, {"key": ["a", "b"], 0: [0.25, 0.5], 1: [0.75, 0.5], 7: [0.1, 0.2]})
    if is_json:
        monkeypatch.setattr(_frames, "has", lambda _: False)
    workspace.release("v1").log_predictions(data, scores=[0, 1], score=7, features={"age": 7}, predicted_at=AT)
    names = ["key", "score", "score.0", "score.1", "feature.age"]
    rows = workspace.predictions(DAY, frames="rows", columns=names)
    assert [list(row.values()) for row in rows] == [["a", 0.1, 0.25, 0.75, 0.1], ["b", 0.2, 0.5, 0.5, 0.2]]


def test_of_several_columns_of_a_name_none_is_taken() -> None:
    data = as_library("pandas", {"key": ["a"], 0: [0.25], "0": [0.5]})
    sources = {"key": _frames.column("key"), "predicted_at": AT, "release": "v1", "score": _frames.column(0)}
    with pytest.raises(al.AlmanacError, match="there are several columns '0'"):
        list(_frames.bodies("predictions", data, sources))


def test_a_column_that_no_row_of_a_request_has_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fields, "MAX_ROWS", 1)
    sources = {"key": _frames.column("key"), "predicted_at": AT, "release": "v1", "score": _frames.column(0)}
    made = list(_frames.bodies("predictions", [{"key": "a", 0: 0.5}, {"key": "b"}], sources))
    assert [body.rows for body in made] == [1, 1]


@pytest.mark.parametrize("library", ["mapping", "rows", "pandas"])
def test_keys_may_be_texts_and_numbers(workspace: al.Workspace, library: str) -> None:
    data = as_library(library, {"key": ["a", 7], "p": [0.25, 0.75]})
    workspace.release("v1").log_predictions(data, score="p", predicted_at=AT)
    assert keys_of(workspace, DAY) == ["7", "a"]


def test_what_becomes_a_frame_is_taken(workspace: al.Workspace, tmp_path: Path) -> None:
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    table = pa.table(columns())
    batch = table.combine_chunks().to_batches()[0]

    class Relation:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return table.__arrow_c_stream__(requested_schema)

    dataset, parquet = pytest.importorskip("pyarrow.dataset"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table, tmp_path / "part.parquet")
    read = dataset.dataset(tmp_path)
    reader = pa.RecordBatchReader.from_batches(table.schema, [batch])
    files = (read, read.scanner(), parquet.ParquetFile(tmp_path / "part.parquet"))
    frames = (batch, reader, pl.DataFrame(columns()).lazy(), Relation(), *files)
    for number, data in enumerate(frames):
        receipt = workspace.release("v1").log_predictions(
            data, key="loan_id", score="p", predicted_at="scored_at", idempotency_key=f"as-{number}"
        )
        assert receipt.rows == 3
    assert len(keys_of(workspace, DAY)) == 3 * len(frames)


def test_what_is_left_of_a_large_frame_can_be_sent_again(
    workspace: al.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_fields, "MAX_ROWS", 1_000)
    data = columns(2_500)
    data["p"][2_100] = 17.0
    told = "the first 2,000 rows are stored.*call again with idempotency_key="
    with pytest.raises(al.RefusedError, match=told) as caught:
        workspace.release("v1").log_predictions(data, key="loan_id", score="p", predicted_at="scored_at")
    assert caught.value.rows[0].row == 2_101
    key = str(caught.value).split("idempotency_key='")[1].split("'")[0]
    data["p"][2_100] = 0.5
    receipt = workspace.release("v1").log_predictions(
        data, key="loan_id", score="p", predicted_at="scored_at", idempotency_key=key
    )
    assert (receipt.rows, receipt.replayed) == (2_500, 2)
    assert keys_of(workspace, DAY) == sorted(data["loan_id"])


def test_several_connections_send_every_row_once(workspace: al.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fields, "MAX_ROWS", 100)
    wide = al.connect(workspace.client.transport.url, connections=4).workspace(workspace.path)
    receipt = wide.release("v1").log_predictions(columns(1_050), key="loan_id", score="p", predicted_at="scored_at")
    assert (receipt.rows, len(receipt.batches), receipt.days) == (1_050, 11, {DAY: 1_050})
    assert keys_of(workspace, DAY) == sorted(columns(1_050)["loan_id"])
    with pytest.raises(al.AlmanacError, match="connections"):
        al.connect(connections=0)


@pytest.mark.parametrize("library", ["mapping", "polars"])
def test_a_slice_that_is_too_large_is_halved(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_frames, "MAX_BYTES", 2_000)
    data = as_library(library, {"key": [f"key-{row}" for row in range(100)], "wide": ["x" * row for row in range(100)]})
    sources = {"key": _frames.Column("key"), "predicted_at": AT, "release": "v1", "tag.wide": _frames.Column("wide")}
    bodies = list(_frames.bodies("predictions", data, sources))
    assert len(bodies) > 4 and sum(body.rows for body in bodies) == 100
    assert all(body.size <= 2_000 or body.rows == 1 for body in bodies)


def test_numbers_and_texts_of_arrow_are_sent_as_they_lie_in_memory() -> None:
    pa = pytest.importorskip("pyarrow")
    for values, kind in (
        (pa.array([0.5, None, 1.0]), "number"),
        (pa.array([0.5, 1.0], pa.float32()), "number"),
        (pa.array(["a", None]), "text"),
        (pa.array(["a"], pa.large_string()), "text"),
        (pa.array([AT], pa.timestamp("us", "UTC")), "time"),
        (pa.array([AT.replace(tzinfo=None)], pa.timestamp("us")), "time"),
    ):
        sent = _frames._arrow_column(values, kind, "x")
        assert [b and b.address for b in sent.buffers()] == [b and b.address for b in values.buffers()]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [0.5, 1.5]})
    array = _frames._arrow_values(frame, "x", "number")
    assert array.buffers()[1].address == frame["x"].to_numpy().ctypes.data


def test_columns_of_an_answer_lie_in_the_bytes_of_the_answer(workspace: al.Workspace) -> None:
    pa = pytest.importorskip("pyarrow")
    workspace.release("v1").log_predictions(columns(50), key="loan_id", score="p", predicted_at="scored_at")
    params = {"from": DAY, "to": DAY, "format": "ipc-stream"}
    data = workspace.client.transport.request("GET", workspace._url("predictions"), params=params).data
    whole = pa.py_buffer(data)
    table = _frames.frame("pyarrow", data)
    for name in ("score", "predicted_at", "key"):
        for buffer in table.column(name).chunk(0).buffers()[1:]:
            assert buffer.size == 0 or whole.address <= buffer.address < whole.address + whole.size, name


def test_text_in_pyarrow_is_what_it_filters_sorts_and_groups(workspace: al.Workspace) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.compute as pc

    workspace.release("v1").log_predictions(columns(), key="loan_id", score="p", predicted_at="scored_at")
    table = workspace.predictions(DAY, frames="pyarrow")
    assert table.schema.field("key").type == pa.large_string()
    found = table.filter(pc.equal(table["key"], "loan-1")).sort_by("key").group_by("key").aggregate([("score", "sum")])
    assert found.to_pydict() == {"key": ["loan-1"], "score_sum": [0.5]}


def test_an_answer_is_the_same_however_it_is_read(workspace: al.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    workspace.release("v1").log_predictions(columns(), key="loan_id", score="p", predicted_at="scored_at")
    by_pyarrow = workspace.predictions(DAY, frames="polars")
    table = workspace.predictions(DAY, frames="pyarrow")
    monkeypatch.setattr(_frames, "_reads_views", lambda: False)
    by_polars = workspace.predictions(DAY, frames="polars")
    assert by_pyarrow.schema == by_polars.schema and by_pyarrow.equals(by_polars)
    assert by_polars["key"].dtype == polars.String and by_polars["key"].to_list() == ["loan-0", "loan-1", "loan-2"]
    assert workspace.predictions(DAY, frames="pyarrow").equals(table)
    none = workspace.predictions(date(2031, 1, 1), frames="polars")
    assert none.height == 0
    assert none.schema == by_polars.drop([name for name in by_polars.columns if "." in name]).schema


def test_pandas_without_pyarrow_has_the_columns_of_an_answer_without_rows(
    workspace: al.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    there = _frames.has
    monkeypatch.setattr(_frames, "has", lambda library: library != "pyarrow" and there(library))
    # All fields have values, since pandas tells the type of a column by them.
    data = {**columns(), "low": [0.0] * 3, "high": [1.0] * 3, "ms": [1.5] * 3, "said": ["x"] * 3}
    workspace.release("v1").log_predictions(
        data, key="loan_id", score="p", value="p", lower="low", upper="high", latency_ms="ms", label="said",
        predicted_at="scored_at",
    )  # fmt: skip
    names = ["day", "key", "predicted_at", "release", "score", "label", "value", "lower", "upper", "latency_ms"]
    some, none = (workspace.predictions(day, frames="pandas", columns=names) for day in (DAY, "2031-01-01"))
    assert (len(some), len(none), list(none.columns)) == (3, 0, names)
    assert none.dtypes.equals(some.dtypes), (none.dtypes, some.dtypes)
    none = workspace.predictions("2031-01-01", frames="pandas")
    assert {"retracted", "appended_at", *names} <= set(none.columns)
    assert str(none["appended_at"].dtype).endswith("UTC]")
    assert list(none[none["score"] > 0.5].groupby("release")["score"].mean()) == []
    custom_metrics = workspace.evaluations("2031-01-01", frames="pandas", columns=["day", "predictions", "accuracy"])
    assert [str(one) for one in custom_metrics.dtypes][1:] == ["int64", "float64"]
    counts = "select key, count(*) n_at, min(predicted_at) at from predictions"
    some, none = (
        workspace.sql(f"{counts} where day = '{DAY}' {condition} group by key", frames="pandas")
        for condition in ("", "and key = 'no'")
    )
    assert (len(some), len(none), list(none.columns)) == (3, 0, ["key", "n_at", "at"])
    assert none.dtypes.equals(some.dtypes), (none.dtypes, some.dtypes)
    assert some["n_at"].tolist() == [1, 1, 1] and set(some["at"]) == set(columns()["scored_at"])


@pytest.mark.parametrize("has_pyarrow", [True, False])
def test_days_in_pandas_are_datetimes(
    workspace: al.Workspace, has_pyarrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = pytest.importorskip("pandas")
    if has_pyarrow:
        pytest.importorskip("pyarrow")
    there = _frames.has
    monkeypatch.setattr(_frames, "has", lambda library: (library != "pyarrow" or has_pyarrow) and there(library))
    release = workspace.release("v1")
    release.log_predictions(columns(), key="loan_id", score="p", predicted_at="scored_at")
    later = [at + timedelta(days=3) for at in columns()["scored_at"]]
    release.log_predictions({**columns(), "scored_at": later}, key="loan_id", score="p", predicted_at="scored_at")
    frame = workspace.predictions(DAY, "2026-06-07", frames="pandas", columns=["day", "key", "score"])
    assert str(frame["day"].dtype) == "datetime64[ms]"
    assert list(frame["day"].drop_duplicates()) == [pandas.Timestamp(DAY), pandas.Timestamp("2026-06-04")]
    assert frame.set_index("day")["score"].resample("D").count().tolist() == [3, 0, 0, 3]
    assert (frame["day"] >= "2026-06-02").sum() == 3
    assert workspace.predictions("2031-01-01", frames="pandas")["day"].dtype == frame["day"].dtype
    drawn = al.chart(frame, "score")._repr_html_()
    assert "2026-06-01" in drawn and "00:00" not in drawn
    # They are taken where days are.
    assert len(workspace.predictions(frame["day"].max(), frames="rows")) == 3
    truth = frame[frame["day"] == DAY].assign(truth="default")
    assert workspace.log_outcomes(truth, predicted_on="day", label="truth", observed_at=AT).days == {DAY: 3}


def test_the_columns_of_a_stream_are_read_without_pyarrow() -> None:
    pa = pytest.importorskip("pyarrow")
    types = {
        "int": [pa.uint64(), pa.int8()],
        "float": [pa.float64(), pa.float32()],
        "text": [pa.large_string(), pa.string(), pa.string_view()] if hasattr(pa, "string_view") else [pa.string()],
        "bool": [pa.bool_()],
        "day": [pa.date32()],
        "instant": [pa.timestamp("us", "UTC"), pa.timestamp("ns")],
        "duration": [pa.duration("us")],
        None: [pa.list_(pa.int64())],
    }
    named = [(f"é {at} {name}", name, one) for name, of in types.items() for at, one in enumerate(of)]
    for fields in (named, named[:1], []):
        sink = pa.BufferOutputStream()
        schema = pa.schema([(name, one) for name, _, one in fields], {"note": "x" * 300})
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_table(schema.empty_table())
        read = list(_schema.columns_of(sink.getvalue().to_pybytes()))
        assert read == [(name, kind) for name, kind, _ in fields]


def test_a_read_version_answers_the_same_again(workspace: al.Workspace) -> None:
    send = workspace.release("v1").log_predictions
    send(loans(), key="loan_id", score="p", predicted_at=AT)
    read_version = workspace.read_version("predictions", DAY)
    send(loans(loan_id=["c", "d"]), key="loan_id", score="p", predicted_at=AT)
    assert keys_of(workspace, DAY) == ["a", "b", "c", "d"]
    assert [row["key"] for row in workspace.predictions(DAY, read_version=read_version, frames="rows")] == ["a", "b"]


def test_an_answer_of_an_earlier_instant_is_a_warning(workspace: al.Workspace) -> None:
    soon = datetime.now(timezone.utc) + timedelta(hours=1)
    for as_of in (soon, soon.isoformat(), date.today() + timedelta(days=2)):
        with pytest.warns(al.AlmanacWarning, match="the answer is as of .*, the last closed instant"):
            workspace.predictions(DAY, as_of=as_of, frames="rows")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for as_of in (AT, "2026-06-01", "2026-06-01T02:00:00.25+02:00", date(2026, 6, 1)):
            assert workspace.predictions(DAY, as_of=as_of, frames="rows") == []


def test_texts_are_instants() -> None:
    moment = datetime(2026, 6, 1, 2, 0, 0, 250_000, timezone.utc)
    for text in ("2026-06-01T02:00:00.25Z", "2026-06-01T04:00:00.2500009+02:00", "2026-06-01 02:00:00.250"):
        assert _frames.instant_of(text) == moment
    assert _frames.instant_of("2026-06-01") == datetime(2026, 6, 1, tzinfo=timezone.utc)
    assert _frames.instant_of("2026-06-31") is None is _frames.instant_of("yesterday")


def test_what_an_answer_lacks_is_a_warning() -> None:
    answer = Answer(200, {"Almanac-Warning": "segment 7 was skipped"}, b"")
    with pytest.warns(al.AlmanacWarning, match="segment 7 was skipped"):
        client_module._warn(answer)


def test_what_the_service_finds_strange_is_in_the_receipt(workspace: al.Workspace) -> None:
    truth = {"key": [f"k{row}" for row in range(200)], "truth": ["defaulted", "paid"] * 100}
    with pytest.warns(al.AlmanacWarning, match="none of the 200 labels is a positive label"):
        receipt = workspace.log_outcomes(truth, predicted_on=DAY, label="truth", observed_at=AT)
    assert len(receipt.warnings) == 1


def test_a_window_ends_at_instants_or_now(workspace: al.Workspace) -> None:
    now = datetime.now(timezone.utc)
    data = {"key": ["old", "new"], "at": [now - timedelta(hours=5), now - timedelta(minutes=1)], "p": [0.1, 0.9]}
    workspace.release("v1").log_predictions(data, score="p", predicted_at="at")

    def keys(*window: object, **options: object) -> list:
        return [row["key"] for row in workspace.predictions(*window, frames="rows", **options)]

    assert sorted(keys(last="2d")) == ["new", "old"]
    assert keys(last="2h") == ["new"]
    assert keys(now - timedelta(hours=6), now - timedelta(hours=4)) == ["old"]
    # They may not be folded yet; five hours ago may have been yesterday.
    days = {str(row["day"]) for row in workspace.rollups(last="1w", frames="rows")}
    assert days <= {at.date().isoformat() for at in data["at"]}
    with pytest.raises(al.RefusedError, match="whole days"):
        workspace.rollups(last="2h")


def test_a_datetime_with_a_zone_is_of_its_day_in_utc(workspace: al.Workspace) -> None:
    evening = datetime(2026, 6, 2, 22, tzinfo=timezone(timedelta(hours=-4)))
    data = {"key": ["a", "b"], "score": [0.5, 0.5], "predicted_at": [evening - timedelta(hours=1), evening]}
    workspace.release("v1").log_predictions(data)
    assert [row["key"] for row in workspace.predictions(evening, frames="rows")] == ["b"]
    window = client_module._window
    assert window("evaluations", evening, None) == {"from": "2026-06-03", "to": "2026-06-03"}
    assert window("drift", evening, evening + timedelta(days=1)) == {"from": "2026-06-03", "to": "2026-06-04"}
    assert window("evaluations", evening, None, "America/New_York") == {"from": "2026-06-02", "to": "2026-06-02"}
    assert window("evaluations", evening.replace(tzinfo=None), None) == {"from": "2026-06-02", "to": "2026-06-02"}


@pytest.mark.parametrize("library", ["rows", "pandas", "polars", "pyarrow"])
def test_pages_are_together_one_answer(workspace: al.Workspace, library: str) -> None:
    if library != "rows":
        pytest.importorskip(library)

    def log(keys: range) -> None:
        data = {"key": [f"k{n}" for n in keys], "at": [AT] * len(keys), "p": [0.5] * len(keys)}
        workspace.release("v1").log_predictions(data, score="p", predicted_at="at")

    log(range(25))
    pages = workspace.pages("predictions", DAY, rows=10, frames=library, columns=["key"])
    first = next(pages)
    # What comes later is not in the pages.
    log(range(25, 30))
    frames = [first, *pages]
    assert [len(frame) for frame in frames] == [10, 10, 5]
    keys = [row["key"] for row in next(workspace.pages("predictions", DAY, frames="rows"))]
    assert len(keys) == 30
    if library == "rows":
        assert [row["key"] for frame in frames for row in frame] == keys[:25]
    with pytest.raises(al.RefusedError, match="`joined` does not take it"):
        list(workspace.pages("joined", DAY, frames="rows"))


def test_a_snapshot_reads_the_same_rows_again(workspace: al.Workspace) -> None:
    def log(keys: range) -> None:
        data = {"key": [f"k{n}" for n in keys], "at": [AT] * len(keys), "p": [0.5] * len(keys)}
        workspace.release("v1").log_predictions(data, score="p", predicted_at="at")

    log(range(5))
    made = workspace.create_snapshot("june", "joined", DAY, columns=["key", "score", "outcome_label"])
    assert made["rows"] == 5 and made["digest"].startswith("sha256:")
    log(range(5, 9))
    rows = workspace.query("joined", snapshot="june", frames="rows")
    assert [row["key"] for row in rows] == [f"k{n}" for n in range(5)]
    assert workspace.verify_snapshot("june")
    workspace.create_release("v2", model=workspace.describe()["models"][0]["name"], snapshot="june")
    assert [release["snapshot"] for release in workspace.describe()["releases"]] == [None, "june"]
    with pytest.raises(al.RefusedError, match="says all that is read"):
        workspace.query("joined", DAY, snapshot="june", frames="rows")
    with pytest.raises(al.RefusedError, match="called `june` already"):
        workspace.create_snapshot("june", "joined", DAY)


def test_a_query_says_what_it_read(workspace: al.Workspace) -> None:
    data = {"key": ["k1"], "at": [AT], "p": [0.5]}
    workspace.release("v1").log_predictions(data, score="p", predicted_at="at")
    for said in (
        workspace.predictions(DAY, explain=True),
        workspace.sql(f"select key from predictions where day = '{DAY}'", explain=True),
    ):
        assert (said["days"]["read"], said["segments"]["unpacked"], said["rows"]) == (1, 1, 1), said


def test_queries_have_the_parameters_of_the_service(workspace: al.Workspace) -> None:
    document = workspace.client.transport.request("GET", "/openapi.json").json()
    shared = document["components"]["parameters"]

    def parameters(path: str) -> Iterator[dict[str, str]]:
        for one in document["paths"][path]["get"]["parameters"]:
            yield shared[one["$ref"].rpartition("/")[2]] if "$ref" in one else one

    ours = set(inspect.signature(al.Workspace.query).parameters)
    ours -= {"self", "what", "since", "until", "frames", "timeout", "retry_for", "_place"}
    ours = {"tag" if name == "tags" else name.replace("_", "-") for name in ours} | {"from", "to", "format", "after"}
    theirs = set()
    events = ("predictions", "outcomes", "metrics", "joined")
    judged = ("evaluations", "classes", "confusion", "maturity", "estimates", "slices", "head-to-head", "challengers")
    for what in (*events, *judged, "rollups", "drift"):
        of_what = parameters(f"/v1/workspaces/{{category}}/{{name}}/{what}")
        theirs |= {one["name"] for one in of_what if one["in"] == "query"}
    assert ours == theirs
    body = document["paths"]["/v1/workspaces/{category}/{name}/sql"]["post"]["requestBody"]
    words = set(body["content"]["application/json"]["schema"]["properties"])
    ours = set(inspect.signature(al.Workspace.sql).parameters) - {"self", "frames", "timeout", "retry_for"}
    assert {"sql" if name == "statement" else name for name in ours} | {"format"} == words
    words = {one["name"] for one in parameters("/v1/runs")}
    assert set(inspect.signature(al.Workspace.runs).parameters) - {"self"} | {"of", "cursor"} == words


def test_windows_that_end_now_are_taken_wherever_windows_are(workspace: al.Workspace) -> None:
    release = workspace.release("v1")
    release.log_predictions({"key": ["a"], "score": [0.5]})
    read_version = workspace.read_version("predictions", last="2d")
    release.log_predictions({"key": ["b"], "score": [0.5]})
    assert [row["key"] for row in workspace.predictions(last="2d", read_version=read_version, frames="rows")] == ["a"]
    now = datetime.now(timezone.utc)
    instants = workspace.read_version("predictions", now - timedelta(hours=1), now)
    assert len(workspace.predictions(now - timedelta(hours=1), now, read_version=instants, frames="rows")) == 2
    today = now.date()
    for answer in (
        release.evaluations(last="2d", period="all", frames="rows"),
        release.classes(last="2d", period="all", frames="rows"),
        release.confusion(last="2d", period="all", frames="rows"),
        release.drift(last="2d", reference=today, frames="rows"),
        workspace.create_release("v2", model="risk").head_to_head("v1", last="2d", frames="rows"),
    ):
        assert isinstance(answer, list)
    with pytest.raises(al.AlmanacError):
        workspace.sql("select 1", timeout=0.000001, retry_for=0)


@pytest.mark.parametrize("library", ["rows", "pandas", "polars", "pyarrow"])
def test_an_answer_that_is_broken_off_is_an_error_and_no_shorter_frame(
    workspace: al.Workspace, door: Door, library: str
) -> None:
    if library != "rows":
        pytest.importorskip(library)
    workspace.release("v1").log_predictions(columns(), key="loan_id", score="p", predicted_at="scored_at")
    client = al.connect(door.url, retry_for=0)
    through = client.workspace(workspace.path)
    door.script = ["chunk", "half"]
    for _ in range(2):
        with pytest.raises(al.UnavailableError):
            through.predictions(DAY, frames=library)
    # What has no length, but an end with trailers, is read to that end; what is broken off is asked again.
    door.script = ["chunks"]
    assert len(through.predictions(DAY, frames=library)) == 3
    door.script = ["chunk", "pass"]
    patient = al.connect(door.url, retry_for=20).workspace(workspace.path)
    assert len(patient.predictions(DAY, frames=library)) == 3


def test_numbers_of_single_precision_are_their_decimals() -> None:
    numpy = pytest.importorskip("numpy")
    of_single = [(numpy.float32, number) for number in (0.7, 1e-30, 16777216.0)]
    for kind, number in [*of_single, (numpy.float16, 0.1)]:
        assert _frames.plain(kind(number), _frames.NUMBER) == number
        assert _frames.plain(numpy.array([number], dtype=kind), _frames.NUMBER) == number
    assert _frames.measured(numpy.float32("inf")) == "Infinity" and _frames.measured(numpy.float32(0.7)) == 0.7
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"score": numpy.array([0.7, 0.25], dtype="float32")})
    assert [_frames.plain(value, _frames.NUMBER) for value in _frames._values(frame, "score")] == [0.7, 0.25]


def test_rows_have_numbers_that_json_lacks() -> None:
    lines = b'{"value":"NaN","label":"NaN","score":0.5}\n{"value":"-Infinity","label":"x","score":"Infinity"}\n'
    first, second = _frames.frame("rows", lines)
    assert first["value"] != first["value"] and first["label"] == "NaN"
    assert second == {"value": -float("inf"), "label": "x", "score": float("inf")}


def test_a_history_is_known_when_it_is_stated(workspace: al.Workspace) -> None:
    row = {"key": ["a"], "score": [0.5], "predicted_at": [AT]}
    workspace.release("v1").log_predictions(row, known_at=AT)
    told = {"key": ["a"], "label": ["late"], "predicted_at": [AT], "observed_at": ["2026-06-09T00:00:00Z"]}
    workspace.log_outcomes(told, known_at=date(2026, 6, 11))
    for as_of, labelled in (("2026-06-10", 0), ("2026-06-11", 1)):
        with pytest.warns(al.AlmanacWarning, match="when their import states that they were known"):
            (day,) = workspace.evaluations("2026-06-01", as_of=as_of, frames="rows", columns=["labelled"])
        assert day == {"labelled": labelled}
    with pytest.raises(al.RefusedError, match="later than it was known"):
        workspace.log_outcomes(told, known_at="2026-06-08T00:00:00Z", idempotency_key="early")
