"""The logger never raises into, blocks or slows its caller, and loses nothing that it can keep."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from conftest import Door, files, keys_of, prepared

import almanac_ml as al

AT = "2026-06-01T02:00:00Z"
DAY = "2026-06-01"


def through(door: Door, workspace: al.Workspace, **options: object) -> al.Workspace:
    return al.connect(door.url, timeout=5, **options).workspace(workspace.path)


def fill(logger: al.Logger, rows: int, first: int = 0) -> None:
    for row in range(first, first + rows):
        assert logger.prediction("v1", f"loan-{row:04}", score=0.5, predicted_at=AT, tags={"branch": "north"})


def expected(rows: int) -> "list[str]":
    return [f"loan-{row:04}" for row in range(rows)]


def test_what_is_logged_is_stored_once(workspace: al.Workspace) -> None:
    with workspace.logger(max_batch=100) as logger:
        fill(logger, 1_000)
        assert logger.outcome("loan-0001", label="default", predicted_on=DAY)
        assert logger.metric("latency_ms", 12.5, release="v1", measured_at=AT)
        assert logger.flush()
    assert keys_of(workspace, DAY) == expected(1_000)
    assert logger.stats == al.Stats(logged=1_002, stored=1_002)
    rows = workspace.joined(DAY, frames="rows")
    assert rows[1]["outcome_label"] == "default" and rows[1]["tag.branch"] == "north"
    assert workspace.query("metrics", DAY, frames="rows")[0]["value"] == 12.5


def test_all_that_an_event_may_have_is_sent(workspace: al.Workspace) -> None:
    with workspace.logger() as logger:
        assert logger.prediction(
            "v1",
            "loan-1",
            value=2.0,
            lower=1.0,
            upper=3.5,
            scores={"late": 0.25, 1: 0.75},
            features={"age": 41},
            tags={"branch": "north"},
            predicted_at=AT,
        )
        assert logger.metric("profit", 12.5, key="loan-1", predicted_on=DAY, measured_at=AT)
        assert logger.flush()
    (row,) = workspace.predictions(DAY, frames="rows")
    names = ("value", "lower", "upper", "score.late", "score.1", "feature.age", "tag.branch")
    assert [row[name] for name in names] == [2.0, 1.0, 3.5, 0.25, 0.75, 41.0, "north"]
    (row,) = workspace.query("metrics", DAY, frames="rows")
    assert (row["key"], row["predicted_on"], row["value"]) == ("loan-1", DAY, 12.5)


@pytest.mark.parametrize("script", [["503", "429"], ["half", "lost"], ["shut", "503", "half", "lost", "429"]])
def test_a_service_that_misbehaves_loses_and_doubles_nothing(
    workspace: al.Workspace, door: Door, script: "list[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("almanac_ml._http.MAX_PAUSE_SECONDS", 0.2)
    door.script = list(script) * 3
    with through(door, workspace).logger(max_batch=50, retry_for=20) as logger:
        fill(logger, 200)
        assert logger.flush(60)
    assert keys_of(workspace, DAY) == expected(200)
    assert set(script) <= set(door.seen)


def test_what_waits_on_disk_outlives_the_process(workspace: al.Workspace, door: Door, tmp_path: Path) -> None:
    door.is_shut = True
    code = f"""
        import os, signal
        import almanac_ml as al
        logger = al.connect({door.url!r}).workspace({workspace.path!r}).logger(
            spool={str(tmp_path)!r}, max_batch=100, retry_for=0.1)
        for row in range(300):
            logger.prediction("v1", f"loan-{{row:04}}", score=0.5, predicted_at={AT!r})
        while logger.stats.spooled < 300:
            logger.flush(1)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert keys_of(workspace, DAY) == []
    door.is_shut = False
    with through(door, workspace).logger(spool=tmp_path) as logger:
        fill(logger, 1, first=300)
        assert logger.flush(60)
    assert keys_of(workspace, DAY) == expected(301)
    assert files(tmp_path, "*.batch") == []


def test_a_damaged_file_in_the_spool_is_put_aside(workspace: al.Workspace, door: Door, tmp_path: Path) -> None:
    door.is_shut = True
    logger = through(door, workspace).logger(spool=tmp_path, max_batch=10, retry_for=0.05)
    fill(logger, 20)
    logger.close(20)
    first = files(tmp_path, "*.batch")[0]
    first.write_bytes(first.read_bytes()[:-3])
    door.is_shut = False
    with through(door, workspace).logger(spool=tmp_path) as logger:
        logger.metric("m", 1.0, measured_at=AT)
        logger.flush(60)
    assert len(keys_of(workspace, DAY)) == 10
    (reason,) = files(tmp_path / "refused", "*.txt")
    assert "checksum" in reason.read_text()


def test_bad_rows_are_kept_and_the_good_ones_stored(workspace: al.Workspace, tmp_path: Path) -> None:
    errors = []
    with workspace.logger(spool=tmp_path, on_error=errors.append) as logger:
        fill(logger, 5)
        logger.prediction("v1", "too-much", score=17.0, predicted_at=AT)
        logger.prediction("v1", "no-number", score="high", predicted_at=AT)  # type: ignore[arg-type]
        logger.flush()
    assert keys_of(workspace, DAY) == expected(5)
    assert (logger.stats.stored, logger.stats.refused) == (5, 2)
    assert len(errors) == 2
    (kept,) = files(tmp_path / "refused", "*.batch")
    assert b"too-much" in kept.read_bytes() and b"loan-0001" not in kept.read_bytes()


def test_a_full_queue_drops_and_counts_and_does_not_wait(workspace: al.Workspace, door: Door) -> None:
    door.is_shut = True
    logger = through(door, workspace).logger(max_queued=100, retry_for=0.05, flush_seconds=60)
    taken = [logger.prediction("v1", f"k{row}", predicted_at=AT) for row in range(5_000)]
    assert taken[0] is True and not all(taken)
    stats = logger.close(20)
    assert stats.logged + taken.count(False) == 5_000
    assert stats.dropped == 5_000 and stats.stored == 0, "nothing was stored, and all of it is counted"


def test_a_call_waits_for_nothing_while_a_request_hangs(
    workspace: al.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, goes_on = threading.Event(), threading.Event()
    transport = workspace.client.transport
    request = transport.request

    def hang(*args: object, **options: object) -> object:
        hangs.set()
        assert goes_on.wait(60)
        return request(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(transport, "request", hang)
    logger = workspace.logger(max_batch=10, flush_seconds=0.01)
    fill(logger, 10)
    assert hangs.wait(60)
    # The thread that sends hangs in the first request; the caller does not.
    fill(logger, 5_000, first=10)
    assert logger.stats.waiting == 5_000
    goes_on.set()
    assert logger.close(60).stored == 5_010


def test_a_fork_sends_only_what_it_logged_itself(workspace: al.Workspace) -> None:
    logger = workspace.logger(flush_seconds=0.05)
    fill(logger, 100)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            fill(logger, 100, first=100)
            code = 0 if logger.flush(30) and logger.stats.logged == 100 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert logger.flush(30)
    logger.close()
    assert keys_of(workspace, DAY) == expected(200)


def test_threads_and_asyncio_share_a_logger(workspace: al.Workspace) -> None:
    logger = workspace.logger(max_batch=64)

    async def log() -> bool:
        threads = [threading.Thread(target=fill, args=(logger, 100, 100 * part)) for part in range(8)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            await asyncio.sleep(0.001)
        return await logger.aflush(30)

    assert asyncio.run(log())
    assert asyncio.run(logger.aclose()).stored == 800
    assert keys_of(workspace, DAY) == expected(800)


def test_a_process_that_just_ends_sends_what_it_logged(workspace: al.Workspace) -> None:
    code = f"""
        import almanac_ml as al
        logger = al.connect({workspace.client.transport.url!r}).workspace({workspace.path!r}).logger(flush_seconds=60)
        for row in range(50):
            logger.prediction("v1", f"loan-{{row:04}}", score=0.5, predicted_at={AT!r})
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=60, check=True)
    assert keys_of(workspace, DAY) == expected(50)


def test_a_killed_service_gets_everything_when_it_is_back(binary: str, tmp_path: Path) -> None:
    first = al.open(tmp_path / "data", binary=binary)
    workspace = prepared(first)
    port = first.transport.url.rsplit(":", 1)[1]
    logger = workspace.logger(spool=tmp_path / "spool", max_batch=20, flush_seconds=0.01, retry_for=0.2)
    fill(logger, 200)
    first.process.kill()
    first.process.wait()
    fill(logger, 200, first=200)
    command = [binary, "--data", str(tmp_path / "data"), "up", "--listen", f"127.0.0.1:{port}"]
    with open(tmp_path / "log", "wb") as log:
        again = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        give_up = time.monotonic() + 30
        while not workspace.client.is_ready():
            assert time.monotonic() < give_up, (tmp_path / "log").read_text()
        assert logger.flush(60)
        logger.close()
        assert keys_of(workspace, DAY) == expected(400)
    finally:
        again.terminate()
        again.wait()
