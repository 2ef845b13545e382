"""Runs: parameters, tags, metrics that may be no numbers, and how they end."""

from __future__ import annotations

import math
import threading
import warnings
from pathlib import Path

import pytest
from conftest import Door, eventually

import almanac_ml as al


def test_a_run_keeps_what_it_is_given_and_measures(workspace: al.Workspace) -> None:
    params = {"depth": 6, "rate": 0.1, "is_shuffled": True}
    with workspace.run("depths", name="first", params=params, tags={"team": "risk", "old": "x"}) as run:
        for step in range(5):
            assert run.log_metric("loss", 1.0 / (1 + step), step=step)
        assert run.log_metrics({"gap": math.nan, "top": math.inf, "low": -math.inf}, step=9)
        run.log_params({"seed": 7})
        run.set_tags({"team": "lending", "old": None})
        assert run.flush()
        assert run.describe()["status"] == "running"
    told = run.describe()
    assert told["params"] == {"depth": "6", "rate": "0.1", "is_shuffled": "true", "seed": "7"}
    assert (told["tags"], told["status"], told["experiment"]) == ({"team": "lending"}, "finished", "depths")
    assert told["metrics"]["loss"]["value"] == 0.2
    (listed,) = workspace.runs("depths")
    for metrics in (told["metrics"], listed["metrics"]):
        assert math.isnan(metrics["gap"]["value"]) and metrics["low"]["value"] == -math.inf
    assert [point["step"] for point in run.history("loss")] == [0, 1, 2, 3, 4]
    assert math.isnan(run.history("gap")[0]["value"])
    assert run.history("top")[0]["value"] == math.inf
    assert run.log.stats.stored == 8
    with pytest.raises(al.RefusedError, match="the parameter `depth` is `6` and never changes"):
        run.log_params({"depth": 7})


def test_a_block_that_raises_fails_its_run_and_an_id_goes_on(workspace: al.Workspace) -> None:
    with pytest.raises(ZeroDivisionError), workspace.run() as run:
        run.log_metric("loss", 1.0 / 0)
    assert run.describe()["status"] == "failed"
    again = workspace.run(id=run.id, parent=None)
    assert again.name == run.name
    child = workspace.run("children", parent=again)
    assert child.describe()["parent"] == run.id
    assert [told["id"] for told in workspace.runs("children")] == [child.id]
    assert {told["id"] for told in workspace.runs()} == {child.id, run.id}
    with pytest.raises(al.RefusedError, match="there is no run"):
        workspace.run(parent="2NBs0sLBnJxEcoDLgVnQdJkhEgV")


def test_a_run_that_goes_on_gets_what_it_is_given(workspace: al.Workspace) -> None:
    with workspace.run("depths", name="first", params={"depth": 6}, tags={"team": "risk"}) as run:
        pass
    version = run.describe()["version"]
    with workspace.run("depths", id=run.id, params={"depth": 6}, tags={"team": "risk"}) as same:
        assert same.describe()["version"] == version, "nothing was new"
    words = {"params": {"depth": 6, "rate": 0.1}, "tags": {"team": "lending", "note": "again"}}
    with workspace.run(id=run.id, name="second", **words) as again:
        assert again.name == "second"
    told = run.describe()
    assert (told["name"], told["params"]) == ("second", {"depth": "6", "rate": "0.1"})
    assert told["tags"] == {"team": "lending", "note": "again"}
    with pytest.raises(al.AlmanacError, match="its experiment is 'depths' and not 'widths'"):
        workspace.run("widths", id=run.id)
    with pytest.raises(al.AlmanacError, match="its snapshot is None and not 'june'"):
        workspace.run(id=run.id, snapshot="june")
    with pytest.raises(al.RefusedError, match="the parameter `depth` is `6` and never changes"):
        workspace.run(id=run.id, params={"depth": 7})


def test_a_release_is_made_from_a_run(workspace: al.Workspace) -> None:
    with workspace.run(params={"depth": 6}) as run:
        run.log_metrics({"auc": 0.8, "gap": math.nan})
    workspace.create_release("v2", model="risk", from_run=run)
    path = f"/v1/releases/{workspace.path.replace('/', '%2F')}%2Frisk@v2"
    told = workspace.client.transport.request("GET", path).json()
    assert (told["metrics"], told["attributes"]["params"]) == ({"auc": 0.8}, {"depth": "6"})
    assert told["attributes"]["run"] == run.id


def test_metrics_of_no_run_stay_finite(workspace: al.Workspace) -> None:
    errors: "list[Exception]" = []
    with workspace.logger(on_error=errors.append) as log:
        log.metric("loss", math.inf)
    assert log.stats.refused == 1 and errors


def test_parameters_that_are_not_set_are_noted(workspace: al.Workspace) -> None:
    with workspace.run(params={"max_depth": None, "depth": 6, "rate": float("nan")}) as run:
        run.log_params({"seed": None})
        assert run.describe()["params"] == {"max_depth": "None", "depth": "6", "rate": "nan", "seed": "None"}


def test_parameters_may_be_arrays(workspace: al.Workspace) -> None:
    numpy = pytest.importorskip("numpy")
    params = {"Cs": numpy.array([0.5, 1.0]), "none": numpy.array([]), "fit": [1, 2]}
    with workspace.run(params=params, tags={"at": numpy.array([1, 2])}) as run:
        told = run.describe()
    assert told["params"] == {"Cs": "[0.5 1. ]", "none": "[]", "fit": "[1, 2]"}
    assert told["tags"] == {"at": "[1 2]"}


def test_metrics_may_be_arrays_of_one_element(workspace: al.Workspace) -> None:
    numpy = pytest.importorskip("numpy")
    with workspace.run() as run:
        for step, value in enumerate([numpy.array([0.5]), numpy.float32(0.5), numpy.array([[numpy.nan]])]):
            run.log_metric("loss", value, step=numpy.array([step]))
        run.log_metric("loss", numpy.array([0.5, 1.0]))
        assert not run.flush()
    points = [(point["step"], str(point["value"])) for point in run.history("loss")]
    assert points == [(0, "0.5"), (1, "0.5"), (2, "nan")]
    assert run.log.stats.refused == 1


def test_runs_come_in_the_order_and_number_that_are_asked_for(workspace: al.Workspace) -> None:
    for name in ("first", "second", "third"):
        workspace.run("depths", name=name).end()
    assert [run["name"] for run in workspace.runs("depths")] == ["third", "second", "first"]
    assert [run["name"] for run in workspace.runs("depths", order="oldest", limit=2)] == ["first", "second"]
    assert workspace.runs(limit=0) == []


def through(door: Door, workspace: al.Workspace, retry_for: float) -> al.Workspace:
    return al.connect(door.url, retry_for=retry_for, timeout=5).workspace(workspace.path)


@pytest.mark.parametrize("has_spool", [False, True])
def test_a_run_ends_with_all_its_points(workspace: al.Workspace, door: Door, tmp_path: Path, has_spool: bool) -> None:
    options = {"spool": tmp_path} if has_spool else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with through(door, workspace, 60).run("depths", retry_for=0.0, flush_seconds=0.01, **options) as run:
            door.is_shut = True
            seen = len(door.seen)
            run.log_metrics({"loss": 0.5, "auc": 0.75}, step=1)

            def comes_back() -> None:
                # Long after the logger's own tries have failed.
                eventually(lambda: len(door.seen) > seen + 3)
                door.is_shut = False

            threading.Thread(target=comes_back).start()
    assert run.describe()["status"] == "finished"
    assert [len(run.history(metric)) for metric in ("loss", "auc")] == [1, 1]


def test_a_run_without_its_points_does_not_end(workspace: al.Workspace, door: Door) -> None:
    with pytest.warns(al.AlmanacWarning, match="could not be ended: 1 metrics of the run .* has not ended; call end"):
        with through(door, workspace, 0.2).run("depths", retry_for=0.0) as run:
            door.is_shut = True
            run.log_metric("loss", 0.5)
    door.is_shut = False
    assert run.describe()["status"] == "running"
    assert run.end()["status"] == "finished"
    assert [point["value"] for point in run.history("loss")] == [0.5]


def test_points_of_a_run_that_ends_wait_in_its_spool(workspace: al.Workspace, door: Door, tmp_path: Path) -> None:
    run = through(door, workspace, 0.2).run("depths", spool=tmp_path)
    door.is_shut = True
    run.log_metric("loss", 0.5)
    with pytest.raises(al.UnavailableError, match="1 of its metrics wait in .*, from where the next logger"):
        run.end()
    door.is_shut = False
    assert run.describe()["status"] == "running"
    with through(door, workspace, 60).run(id=run.id, spool=tmp_path) as again:
        assert again.flush()
        assert [point["value"] for point in again.history("loss")] == [0.5]
    assert run.describe()["status"] == "finished"


def test_a_history_has_all_points_after_flush(workspace: al.Workspace) -> None:
    with workspace.run("depths") as run:
        for day in (1, 2, 3):
            for step in range(50):
                run.log_metric("loss", float(step), step=step, measured_at=f"2026-06-0{day}T02:00:{step:02}Z")
            assert run.flush()
            assert len(run.history("loss")) == 50 * day
