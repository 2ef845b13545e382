"""What notebooks show: well-formed, escaped, without a script, and never an exception."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from datetime import datetime, timedelta, timezone

import pytest
from conftest import Door, eventually
from test_frames import LIBRARIES, as_library

import almanac_ml as al

DAYS = ["2026-06-01", "2026-06-02", "2026-06-03"]
ROWS = {
    "day": DAYS * 2,
    "release": ["v1"] * 3 + ["<b>v2</b>"] * 3,
    "accuracy": [0.5, None, 0.75, 0.25, 0.5, 1.0],
    "rmse": [None] * 6,
}


def parsed(html: str) -> ElementTree.Element:
    assert "<script" not in html and "http-equiv" not in html
    return ElementTree.fromstring(f"<div>{html}</div>")


def texts(html: str) -> "list[str]":
    return [text for text in parsed(html).itertext() if text.strip()]


@pytest.mark.parametrize("library", LIBRARIES[1:])
def test_a_chart_has_a_line_for_each_release(library: str) -> None:
    chart = al.chart(as_library(library, ROWS))
    assert chart.metric == "accuracy"
    assert [(one.name, [value for _, value in one.points]) for one in chart.series] == [
        ("v1", [0.5, None, 0.75]),
        ("<b>v2</b>", [0.25, 0.5, 1.0]),
    ]
    html = chart._repr_html_()
    assert "<b>v2" not in html and {"v1", "<b>v2</b>", "0.25", "2026-06-01", "2026-06-03"} <= set(texts(html))
    root = parsed(html)
    svg = "{http://www.w3.org/2000/svg}"
    # The line of v1 is broken where a metric is missing.
    assert (len(root.findall(f".//{svg}polyline")), len(root.findall(f".//{svg}circle"))) == (1, 2)
    assert str(chart).splitlines() == ["accuracy, from 0.25 to 1", "v1        ▃ ▆", "<b>v2</b> ▁▃█"]


def test_a_chart_names_what_is_missing() -> None:
    rows = [{"day": "2026-06-01", "auc": None, "mae": 2.0, "tag.branch": "north"}]
    assert al.chart(rows).metric == "mae" and al.chart(rows).series[0].name == "north"
    assert al.chart(rows, metric="auc").series[0].points == [("2026-06-01", None)]
    parsed(al.chart(rows, metric="auc")._repr_html_())
    with pytest.raises(al.AlmanacError, match="no column 'f1'; there are day"):
        al.chart(rows, metric="f1")
    with pytest.raises(al.AlmanacError, match="no column day or hour among key"):
        al.chart([{"key": "a"}])


def test_a_metric_that_is_nowhere_in_pandas_is_not_drawn() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"day": DAYS, "release": "v1", "auc": [float("nan")] * 3, "rmse": [2.0, 1.0, 3.0]})
    assert str(al.chart(frame)).splitlines() == ["rmse, from 1 to 3", "v1 ▅▁█"]


def test_a_chart_has_a_line_for_each_metric_column_and_age() -> None:
    for whose in ("metric", "column", "age"):
        rows = [{"day": day, "release": None, whose: name, "n": n} for day in DAYS for n, name in enumerate("ab")]
        lines = [(one.name, [value for _, value in one.points]) for one in al.chart(rows, "n").series]
        assert lines == [("a", [0.0] * 3), ("b", [1.0] * 3)]
    pairs = [{"day": DAYS[0], "truth": truth, "predicted": said, "count": 1} for truth in "01" for said in "01"]
    assert [one.name for one in al.chart(pairs, "count").series] == ["0 0", "0 1", "1 0", "1 1"]


def test_the_names_of_many_lines_stand_in_the_image() -> None:
    rows = [{"day": day, "release": f"v{number}", "auc": 0.5} for day in DAYS for number in range(9)]
    root = parsed(al.chart(rows).svg())
    (image,) = root
    _, _, width, height = (float(part) for part in image.attrib["viewBox"].split())
    places = [(float(text.attrib["x"]), float(text.attrib["y"])) for text in image if (text.text or "").startswith("v")]
    assert len(set(places)) == 9
    assert all(x + 100 <= width and y <= height for x, y in places)


def judged(workspace: al.Workspace) -> None:
    """Three days of predictions with their outcomes, and the metrics of the days."""
    first = datetime(2026, 6, 1, 2, tzinfo=timezone.utc)
    at = [first + timedelta(days=day) for day in range(3) for _ in range(2)]
    keys = [f"k{row}" for row in range(6)]
    data = {"key": keys, "predicted_at": at, "score": [0.9, 0.1] * 3}
    workspace.release("v1").log_predictions(data)
    truth = {"key": keys, "predicted_at": at, "label": ["default", "repaid"] * 3, "observed_at": at}
    workspace.log_outcomes(truth)
    # Metrics of days follow the events.
    eventually(lambda: len(workspace.evaluations("2026-06-01", "2026-06-03", frames="rows")) == 3)


def test_a_workspace_and_a_release_show_what_they_have_and_their_metrics(workspace: al.Workspace) -> None:
    workspace.create_release("v2", model="risk")
    judged(workspace)
    html = workspace._repr_html_()
    assert {workspace.path, "v1", "v2", "risk", "binary", "2026-06-01", "2026-06-03"} <= set(texts(html))
    assert "polyline" in html
    assert "polyline" in workspace.release("v1")._repr_html_()
    assert "polyline" not in workspace.release("v2")._repr_html_()
    assert "It is not registered." in texts(workspace.release("v3")._repr_html_())


def test_a_representation_says_what_went_wrong_and_raises_nothing(workspace: al.Workspace, door: Door) -> None:
    door.is_shut = True
    passed = al.connect(door.url).workspace(workspace.path)
    assert "does not answer" in " ".join(texts(passed._repr_html_()))
    assert door.seen == ["shut"], "it is not tried again"
    assert "there is no workspace" in " ".join(texts(workspace.client.workspace("credit/<none>")._repr_html_()))
