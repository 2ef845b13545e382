"""Other engines read what `almanac admin lake sync` writes: deltalake, polars and DuckDB."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest
import urllib3
from conftest import eventually, prepared

import almanac_ml as al

PAGE = Path(__file__).parents[3] / "docs" / "lake.md"
DAYS = ["2026-06-01", "2026-06-02", "2026-06-03"]
WORKSPACE = "credit/lake"


class Lake:
    """A workspace with three days, and its lake."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.binary, self.data, self.folder = binary, folder / "data", folder / "lake"
        self.client = al.open(self.data, binary=binary, retry_for=20)
        self.workspace = prepared(self.client, WORKSPACE)
        for at, day in enumerate(DAYS):
            self.predict(day, 4 + at, f"{day}-")
        self.judged(DAYS[0], 4)

    def predict(self, day: str, rows: int, prefix: str, **more: Any) -> None:
        at = datetime.fromisoformat(f"{day}T02:00:00").replace(tzinfo=timezone.utc)
        keys = [f"{prefix}{row}" for row in range(rows)]
        data = {"key": keys, "at": [at] * rows, "p": [row / max(rows - 1, 1) for row in range(rows)]}
        data.update({name: [value] * rows for name, value in more.items()})
        tags = {"tags": list(more)} if more else {}
        self.workspace.release("v1").log_predictions(data, key="key", score="p", predicted_at="at", **tags)
        labels = ["default" if row * 2 >= rows else "repaid" for row in range(rows)]
        truth = {"key": keys, "closed": [at] * rows, "status": labels}
        self.workspace.log_outcomes(truth, key="key", observed_at="closed", predicted_on=day, label="status")

    def judged(self, day: str, labelled: int) -> None:
        """Waits until so many predictions of a day are judged, and all days are."""

        def is_so() -> bool:
            columns = ["day", "predictions", "labelled"]
            rows = self.workspace.evaluations(DAYS[0], DAYS[-1], frames="rows", columns=columns)
            found = {str(row["day"]): row for row in rows}
            is_whole = len(found) == len(DAYS) and all(row["predictions"] == row["labelled"] for row in rows)
            return is_whole and found[day]["labelled"] == labelled

        eventually(is_so)

    def run(self, *arguments: str, **variables: str) -> str:
        command = [self.binary, "--data", str(self.data), *arguments]
        environment = {**os.environ, **variables}
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

    def sync(self) -> str:
        return self.run("admin", "lake", "sync", "--to", str(self.folder), "-w", WORKSPACE)

    def queried(self, what: str) -> List[Dict[str, Any]]:
        window = ["--from", DAYS[0], "--to", DAYS[-1], "--format", "ndjson"]
        return [json.loads(line) for line in self.run("query", what, "-w", WORKSPACE, *window).splitlines()]

    def path(self, table: str) -> str:
        return str(self.folder / table)


@pytest.fixture
def lake(binary: str, tmp_path: Path) -> Iterator[Lake]:
    pytest.importorskip("deltalake")
    lake = Lake(binary, tmp_path)
    yield lake
    lake.client.close()


def duckdb() -> Any:
    """DuckDB with its reader of Delta tables, which is a package as well: nothing is downloaded."""
    import duckdb_extension_delta

    extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension"))
    connection = pytest.importorskip("duckdb").connect()
    connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def plain(value: Any) -> Any:
    """A value as `almanac query` writes it."""
    if isinstance(value, datetime):
        precision = "auto" if value.microsecond % 1000 or not value.microsecond else "milliseconds"
        return value.astimezone(timezone.utc).isoformat(timespec=precision).replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value


def rows(table: Any) -> List[Dict[str, Any]]:
    """The rows of an Arrow table, without what is null, in an order of their own."""
    found = [{name: plain(value) for name, value in row.items() if value is not None} for row in table.to_pylist()]
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


def expected(lake: Lake, table: str) -> List[Dict[str, Any]]:
    found = [{name: value for name, value in row.items() if value is not None} for row in lake.queried(table)]
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


def by_deltalake(path: str, **options: Any) -> Any:
    import deltalake
    import pyarrow

    return pyarrow.table(deltalake.DeltaTable(path, **options).to_pyarrow_dataset().to_table())


def by_polars(path: str) -> Any:
    return pytest.importorskip("polars").scan_delta(path).collect().to_arrow()


def by_duckdb(path: str) -> Any:
    found = duckdb().execute(f"select * from delta_scan('{path}')").arrow()
    return found.read_all() if hasattr(found, "read_all") else found


READERS = [by_deltalake, by_polars, by_duckdb]


def test_every_reader_finds_what_a_query_finds(lake: Lake) -> None:
    lake.sync()
    for table in ["predictions", "outcomes", "evaluations"]:
        known = expected(lake, table)
        assert known
        for reader in READERS:
            assert rows(reader(lake.path(table))) == known, (table, reader)


def test_a_late_day_is_there_once_and_the_past_as_well(lake: Lake) -> None:
    import deltalake

    lake.sync()
    before = rows(by_deltalake(lake.path("predictions")))
    lake.predict(DAYS[1], 2, "late-", branch="north")
    lake.judged(DAYS[1], 7)
    assert "predictions: 3 days, version 3; 0 exported now and 1 again, 7 rows" in lake.sync()
    for table in ["predictions", "outcomes", "evaluations"]:
        for reader in READERS:
            assert rows(reader(lake.path(table))) == expected(lake, table), (table, reader)
    # Time travel, and what an exporter counts.
    assert rows(by_deltalake(lake.path("predictions"), version=2)) == before
    assert "tag.branch" in by_polars(lake.path("predictions")).column_names
    table = deltalake.DeltaTable(lake.path("predictions"))
    (of,) = {json.loads(line)["txn"]["appId"] for line in log(lake.path("predictions")) if '"txn"' in line}
    assert table.transaction_version(of) == 4
    # Folders without the log have the replaced file too: the reason for a log.
    every = f"select count(*) from read_parquet('{lake.path('predictions')}/**/*.parquet', union_by_name = true)"
    assert duckdb().execute(every).fetchall() == [(4 + 5 + 7 + 6,)]


def log(path: str) -> List[str]:
    files = sorted((Path(path) / "_delta_log").glob("*.json"))
    return [line for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def s3() -> Iterator[str]:
    """The address of what speaks as S3 does."""
    python = os.environ.get("ALMANAC_TEST_PYTHON")
    if not python:
        pytest.skip("ALMANAC_TEST_PYTHON names no Python that has moto; tests/run does")
    script = Path(__file__).parents[3] / "tests" / "s3.py"
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen([python, str(script)], stdin=pipe, stdout=pipe, stderr=nothing, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.kill()


def test_readers_find_a_lake_in_s3(lake: Lake, s3: str) -> None:
    import deltalake
    import pyarrow

    pl = pytest.importorskip("polars")
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    variables = {**keys, "AWS_ENDPOINT_URL": s3, "AWS_ALLOW_HTTP": "true"}
    # A bucket is made by who has an account; here, by anybody.
    urllib3.request("PUT", f"{s3}/mine")
    arguments = ["admin", "lake", "sync", "--to", "s3://mine/lake", "-w", WORKSPACE]
    assert "predictions: 3 days, version 2; 3 exported now" in lake.run(*arguments, **variables)
    lake.predict(DAYS[1], 2, "late-", branch="north")
    lake.judged(DAYS[1], 7)
    assert "predictions: 3 days, version 3; 0 exported now and 1 again" in lake.run(*arguments, **variables)
    for name in ["predictions", "outcomes", "evaluations"]:
        path, known = f"s3://mine/lake/{name}", expected(lake, name)
        table = deltalake.DeltaTable(path, storage_options=variables)
        assert rows(pyarrow.table(table.to_pyarrow_dataset().to_table())) == known, name
        assert rows(pl.scan_delta(path, storage_options=variables).collect().to_arrow()) == known, name
    # What another writer of the table puts stays, and a sync goes on behind it.
    deltalake.DeltaTable("s3://mine/lake/predictions", storage_options=variables).optimize.z_order(["key"])
    said = lake.run(*arguments, **variables)
    assert re.search("predictions: 3 days, version [4-9]; 0 exported now and 0 again", said), said


def test_a_day_is_read_without_the_files_of_other_days(lake: Lake) -> None:
    import deltalake

    pl = pytest.importorskip("polars")
    lake.sync()
    path = lake.path("predictions")
    for day in [DAYS[0], DAYS[2]]:
        shutil.rmtree(f"{path}/day={day}")
    wanted = date.fromisoformat(DAYS[1])
    dataset = deltalake.DeltaTable(path).to_pyarrow_dataset(file_pruning_predicate=[("day", "=", DAYS[1])])
    assert dataset.to_table().num_rows == 5
    assert pl.scan_delta(path).filter(pl.col("day") == wanted).collect().height == 5
    found = duckdb().execute(f"select count(key) from delta_scan('{path}') where day = DATE '{DAYS[1]}'")
    assert found.fetchall() == [(5,)]
    for reader in READERS:
        with pytest.raises(Exception):  # noqa: B017
            reader(path)


def test_other_writers_may_compact_and_checkpoint(lake: Lake) -> None:
    import deltalake

    lake.sync()
    path = lake.path("predictions")
    lake.predict(DAYS[1], 1, "small-")
    lake.judged(DAYS[1], 6)
    lake.sync()
    deltalake.DeltaTable(path).optimize.z_order(["key"])
    deltalake.DeltaTable(path).create_checkpoint()
    version = deltalake.DeltaTable(path).version()
    assert version > 3, "the table was written by another"
    assert f"predictions: 3 days, version {version}; 0 exported now and 0 again" in lake.sync()
    lake.predict(DAYS[1], 1, "late-")
    lake.judged(DAYS[1], 7)
    assert f"predictions: 3 days, version {version + 1}; 0 exported now and 1 again" in lake.sync()
    for reader in READERS:
        assert rows(reader(path)) == expected(lake, "predictions"), reader


def test_what_the_page_says_holds(lake: Lake) -> None:
    pytest.importorskip("duckdb")
    lake.sync()
    blocks = re.findall("```python tools\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    statement = re.findall("```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks and len(statement) == 2
    text = "\n".join(blocks).replace('"lake', f'"{lake.folder}').replace("'lake", f"'{lake.folder}")
    found: Dict[str, Any] = {}
    exec(text.replace("2013-04-02", DAYS[1]), found)  # noqa: S102
    assert (found["table"].version(), found["before"].version()) == (2, 0)
    assert (found["of_day"].num_rows, found["means"].height) == (5, 3)
    connection = duckdb()
    for name in ["predictions", "outcomes", "evaluations"]:
        connection.execute(f"create view {name} as select * from delta_scan('{lake.path(name)}')")
    stored = [(row["day"], row["release"], row["accuracy"]) for row in expected(lake, "evaluations")]
    for text in statement:
        assert "o.label = '1'" in text or "JOIN" not in text, "the positive label of the demo"
        text = text.replace("o.label = '1'", "o.label = 'default'")
        for name in ["predictions", "outcomes", "evaluations"]:
            text = text.replace(f"delta.`/lake/{name}`", name)
        answer = [(str(day), release, accuracy) for day, release, accuracy, *_ in connection.execute(text).fetchall()]
        assert [row[:2] for row in answer] == [row[:2] for row in sorted(stored)]
        assert [row[2] for row in answer] == pytest.approx([row[2] for row in sorted(stored)])
