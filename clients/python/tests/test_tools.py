"""What docs/querying.md says of other libraries holds, with those that are installed."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict

import pytest

import almanac_ml as al

PAGE = Path(__file__).parents[3] / "docs" / "querying.md"
DAY = "2026-06-01"


def block() -> str:
    found = re.search("```python tools\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, "the page has a block of tools"
    return found.group(1)


@pytest.fixture
def filled(workspace: al.Workspace) -> al.Workspace:
    keys = [f"k{row}" for row in range(4)]
    data = {"key": keys, "at": [datetime(2026, 6, 1, 2, tzinfo=timezone.utc)] * 4, "p": [0.0, 0.5, 1.0, 0.5]}
    workspace.release("v1").log_predictions(data, key="key", score="p", predicted_at="at")
    return workspace


def test_duckdb_pandas_and_polars_read_the_arrow_stream(service: al.LocalClient, filled: al.Workspace) -> None:
    for library in ["duckdb", "pandas", "polars", "pyarrow"]:
        pytest.importorskip(library)
    text = block().replace("http://127.0.0.1:7171", service.transport.url).replace("flights/nyc", filled.path)
    found: Dict[str, Any] = {}
    exec(text.replace("2013-06-13", DAY), found)  # noqa: S102
    assert found["frame"].shape == (4, 3)
    assert list(found["pandas_frame"]["score"]) == [0.0, 0.5, 1.0, 0.5]
    assert found["means"] == [("v1", 4, 0.5)]


def test_duckdb_pandas_and_polars_read_files(filled: al.Workspace, service: al.LocalClient, tmp_path: Path) -> None:
    duckdb, pandas, polars = (pytest.importorskip(name) for name in ["duckdb", "pandas", "polars"])
    pytest.importorskip("pyarrow")
    import urllib.request

    url = f"{service.transport.url}/v1/workspaces/{filled.path}/predictions?from={DAY}&to={DAY}&columns=key,score"
    for form, name in [("parquet", "week.parquet"), ("ipc", "week.arrow")]:
        with urllib.request.urlopen(f"{url}&format={form}") as answer:
            (tmp_path / name).write_bytes(answer.read())
    assert duckdb.sql(f"select sum(score) from '{tmp_path / 'week.parquet'}'").fetchall() == [(2.0,)]
    assert polars.read_ipc(tmp_path / "week.arrow").shape == (4, 2)
    assert pandas.read_feather(tmp_path / "week.arrow").shape == (4, 2)
