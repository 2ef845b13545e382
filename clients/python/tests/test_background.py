"""The logger never raises into, blocks or slows its caller, and loses nothing that it can keep."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import importlib.util
import inspect
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any, Callable, Iterator

import pytest
from conftest import Door, eventually, files, keys_of, prepared

import almanac_ml as al
from almanac_ml import background, spool
from almanac_ml._fields import FAMILIES, KINDS
from almanac_ml._frames import Body

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


def test_an_outcome_without_a_date_is_logged_and_waits(workspace: al.Workspace) -> None:
    with workspace.logger() as logger:
        assert logger.outcome("loan-1", label="repaid", observed_at=AT)
        assert logger.outcome("loan-2", label="repaid", observed_at=AT, predicted_since=DAY + "T00:00:00Z")
        assert logger.outcome("loan-3", label="repaid", observed_at=AT, applies_to="all")
        assert logger.flush()
    assert logger.stats == al.Stats(logged=3, stored=3)
    applies_to = {one["key"]: one["applies_to"] for one in workspace.unmatched()["outcomes"]}
    assert applies_to == {"loan-1": "latest", "loan-2": "latest", "loan-3": "all"}
    since = {one["key"]: one["predicted_since"] for one in workspace.unmatched()["outcomes"]}
    assert since.pop("loan-3") == since["loan-1"]
    assert since == {"loan-1": "2026-03-03T02:00:00Z", "loan-2": "2026-06-01T00:00:00Z"}


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


def settle(logger: al.Logger) -> None:
    """Waits until everything is stored, while the service is away now and then."""
    for _ in range(1_000):
        if logger.flush(60):
            return
        assert logger.stats.refused == logger.stats.dropped == 0
    pytest.fail(f"it never ends: {logger.stats}")


@pytest.mark.parametrize(
    "script", [["503", "429"], ["half", "lost", "drip"], ["shut", "503", "portal", "half", "lost", "429"]]
)
def test_a_service_that_misbehaves_loses_and_doubles_nothing(
    workspace: al.Workspace, door: Door, script: "list[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("almanac_ml._http.MAX_PAUSE_SECONDS", 0.2)
    door.script = list(script) * 3
    with through(door, workspace).logger(max_batch=50, retry_for=20) as logger:
        fill(logger, 200)
        settle(logger)
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


def test_what_the_service_finds_strange_is_said_once(
    workspace: al.Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    with workspace.logger() as logger:
        for _ in range(2):
            for row in range(200):
                logger.outcome(f"k{row}", label="defaulted", predicted_on=DAY, observed_at=AT)
            assert logger.flush(60)
    told = [record.getMessage() for record in caplog.records if "something strange" in record.getMessage()]
    assert len(told) == 1 and "none of the 200 labels is a positive label" in told[0]


def test_what_one_try_does_not_send_is_on_disk(workspace: al.Workspace, door: Door, tmp_path: Path) -> None:
    door.script = ["503", "hang"]
    began = time.monotonic()
    options = {"spool": tmp_path, "retry_for": 120, "timeout": 120, "flush_seconds": 1}
    logger = through(door, workspace).logger(**options)
    fill(logger, 100)
    eventually(lambda: logger.stats.spooled == 100)
    fill(logger, 50, first=100)
    # The next try hangs. What was logged before it is on disk.
    assert door.reached.wait(60)
    assert logger.stats.spooled == 150 and time.monotonic() < began + 60
    door.opened.set()
    assert logger.flush(60)
    assert keys_of(workspace, DAY) == expected(150)
    logger.close()


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
    errors: "list[Exception]" = []
    logger = through(door, workspace).logger(
        max_queued=100, retry_for=0.05, flush_seconds=60, on_error=errors.append
    )
    taken = [logger.prediction("v1", f"k{row}", predicted_at=AT) for row in range(5_000)]
    assert taken[0] is True and not all(taken)
    stats = logger.close(20)
    assert stats.logged + taken.count(False) == 5_000
    assert stats.dropped == 5_000 and stats.stored == 0, "nothing was stored, and all of it is counted"
    assert any("did not fit into memory or the spool" in str(error) for error in errors), errors


def test_why_rows_are_dropped_is_told(
    workspace: al.Workspace, door: Door, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    door.is_shut = True
    logger = through(door, workspace).logger(retry_for=0.0)
    fill(logger, 3)
    logger.close(20)
    assert not logger.prediction("v1", "late", predicted_at=AT)
    assert "3 rows could not be sent before the logger was closed" in caplog.text
    with through(door, workspace).logger(retry_for=0.0, spool=tmp_path, spool_bytes=10) as full:
        fill(full, 2)
    assert "2 rows did not fit into memory or the spool" in caplog.text
    assert (logger.stats.dropped, full.stats.dropped) == (4, 2)


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
    assert logger.stats.waiting == 5_010
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


def that_logged(workspace: al.Workspace, code: str, **options: object) -> "subprocess.Popen[str]":
    """A process that runs ``code``, and has logged 50 rows."""
    given = "".join(f", {name}={value!r}" for name, value in options.items())
    begun = f"""
        import os, signal, sys, time
        import almanac_ml as al
        from almanac_ml import _sigterm
        workspace = al.connect({workspace.client.transport.url!r}).workspace({workspace.path!r})
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        def log():
            logger = workspace.logger(flush_seconds=60, flush_on_sigterm=True{given})
            for row in range(50):
                logger.prediction("v1", f"loan-{{row:04}}", score=0.5, predicted_at={AT!r})
            print("logged", flush=True)
            return logger
        def wait():
            # A signal that comes as a sleep begins is looked at when that ends. The second one must end a long sleep.
            while _sigterm._Shared.sending is None:
                time.sleep(0.01)
            time.sleep(600)
    """
    script = textwrap.dedent(begun) + textwrap.dedent(code)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "logged\n"
    return process


def ended_by_sigterm(workspace: al.Workspace, code: str, **options: object) -> "subprocess.Popen[str]":
    """A process that has logged 50 rows and then gone on with ``code`` when SIGTERM came."""
    process = that_logged(workspace, code, **options)
    process.terminate()
    process.wait(60)
    return process


@pytest.mark.parametrize(
    "code",
    [
        "logger = log()\nwait()",
        # Its handler comes amid locks, which the thread that sends takes as well.
        "logger = log()\nwhile True:\n    with logger._lock:\n        time.sleep(0.2)\n    time.sleep(0.01)",
        "with log() as logger:\n    while True:\n        logger.stats",
    ],
)
def test_sigterm_waits_for_what_was_logged_where_that_is_asked_for(workspace: al.Workspace, code: str) -> None:
    assert ended_by_sigterm(workspace, code).returncode == -signal.SIGTERM
    assert keys_of(workspace, DAY) == expected(50)


def test_sigterm_does_what_it_did_before(workspace: al.Workspace) -> None:
    code = """
        def end(number, frame):
            print("ends", number == signal.SIGTERM, logger.stats.stored, logger.metric("m", 1.0), flush=True)
            sys.exit(7)
        signal.signal(signal.SIGTERM, end)
        logger = log()
        wait()
    """
    process = ended_by_sigterm(workspace, code)
    assert process.stdout is not None
    assert (process.returncode, process.stdout.read()) == (7, "ends True 50 True\n")
    assert keys_of(workspace, DAY) == expected(50)


@pytest.mark.parametrize(("goes_on", "returncode"), [("os._exit(7)", 7), ("before(number, frame)", -signal.SIGTERM)])
def test_sigterm_sends_where_a_handler_was_set_between_two_loggers(
    workspace: al.Workspace, goes_on: str, returncode: int
) -> None:
    code = f"""
        first = workspace.logger(flush_seconds=60, flush_on_sigterm=True)
        def end(number, frame):
            print("ends", first.stats.stored, second.stats.stored, flush=True)
            first.prediction("v1", "loan-0051", score=0.5, predicted_at={AT!r})
            {goes_on}
        before = signal.signal(signal.SIGTERM, end)
        first.prediction("v1", "loan-0050", score=0.5, predicted_at={AT!r})
        second = log()
        wait()
    """
    process = ended_by_sigterm(workspace, code)
    assert process.stdout is not None
    assert (process.returncode, process.stdout.read()) == (returncode, "ends 1 50\n")
    assert keys_of(workspace, DAY) == expected(51 if returncode == 7 else 52)


@pytest.mark.parametrize("between", ["", "before = signal.signal(signal.SIGTERM, lambda *given: before(*given))"])
def test_sigterm_waits_for_several_loggers_as_long_as_for_one(
    workspace: al.Workspace, tmp_path: Path, between: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        away = al.connect(f"http://127.0.0.1:{silent.getsockname()[1]}").workspace(workspace.path)
        code = f"""
            first = workspace.logger(spool={str(tmp_path / "first")!r}, flush_seconds=60, flush_on_sigterm=True)
            first.metric("m", 1.0)
            {between}
            second = log()
            wait()
        """
        process = that_logged(away, code, spool=str(tmp_path / "second"))
        began = time.monotonic()
        process.terminate()
        process.wait(60)
    assert process.returncode == -signal.SIGTERM
    assert 3 < time.monotonic() - began < 7, "less than two loggers take one after the other"
    assert len(files(tmp_path / "first", "*.batch")) == len(files(tmp_path / "second", "*.batch")) == 1


def test_sigterm_ends_a_child_that_was_made_while_its_parent_sent(workspace: al.Workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        away = al.connect(f"http://127.0.0.1:{silent.getsockname()[1]}").workspace(workspace.path)
        code = """
            logger = log()
            while _sigterm._Shared.sending is None:
                time.sleep(0.01)
            reads, writes = os.pipe()
            child = os.fork()
            if child == 0:
                # Python forgets signals that come amid a fork.
                os.write(writes, b"1")
                time.sleep(60)
                os._exit(1)
            os.read(reads, 1)
            os.kill(child, signal.SIGTERM)
            print(os.waitpid(child, 0)[1], flush=True)
            time.sleep(600)
        """
        process = ended_by_sigterm(away, code)
    assert process.stdout is not None
    assert (process.returncode, process.stdout.read()) == (-signal.SIGTERM, f"{int(signal.SIGTERM)}\n")


def test_sigterm_leaves_what_cannot_be_sent_on_disk(workspace: al.Workspace, door: Door, tmp_path: Path) -> None:
    door.is_shut = True
    away = through(door, workspace)
    assert ended_by_sigterm(away, "logger = log()\nwait()", spool=str(tmp_path)).returncode == -signal.SIGTERM
    assert keys_of(workspace, DAY) == []
    door.is_shut = False
    with away.logger(spool=tmp_path) as logger:
        fill(logger, 1, first=50)
        assert logger.flush(60)
    assert keys_of(workspace, DAY) == expected(51)


def test_signals_are_left_alone_unless_that_is_asked_for_in_the_main_thread(workspace: al.Workspace) -> None:
    before = signal.getsignal(signal.SIGTERM)
    workspace.logger().close()
    refused: "list[str]" = []

    def ask() -> None:
        try:
            workspace.logger(flush_on_sigterm=True)
        except al.AlmanacError as error:
            refused.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert refused == ["flush_on_sigterm: make the logger in the main thread, which handles signals"]
    assert signal.getsignal(signal.SIGTERM) is before


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
        eventually(workspace.client.is_ready)
        assert logger.flush(60)
        logger.close()
        assert keys_of(workspace, DAY) == expected(400)
    finally:
        again.terminate()
        again.wait()


def test_what_somebody_can_mend_waits(client_of_token: "tuple[str, str]", tmp_path: Path) -> None:
    url, token = client_of_token
    prepared(al.connect(url, token=token), "credit/later")
    with al.connect(url, token="alm_" + "x" * 38).workspace("credit/later").logger(spool=tmp_path) as logger:
        fill(logger, 10)
        assert not logger.flush()
        assert (logger.stats.spooled, logger.stats.refused) == (10, 0)
    with al.connect(url, token=token).workspace("credit/later").logger(spool=tmp_path) as logger:
        logger.metric("m", 1.0, measured_at=AT)
        assert logger.flush(60)
        assert logger.stats.stored == 11


@pytest.fixture
def client_of_token(binary: str, tmp_path: Path) -> "Iterator[tuple[str, str]]":
    data = str(tmp_path / "guarded")
    token = subprocess.run([binary, "--data", data, "init"], check=True, capture_output=True, text=True).stdout.strip()
    with al.open(data, binary=binary, token=token) as client:
        yield client.transport.url, token


def test_rows_wait_for_a_workspace_that_is_not_there_yet(service: al.LocalClient) -> None:
    workspace = service.workspace("credit/to-come")
    # It sends when it is told to, and not between the workspace and its release.
    with workspace.logger(flush_seconds=600) as logger:
        fill(logger, 10)
        assert not logger.flush() and logger.stats.waiting == 10
        prepared(service, "credit/to-come")
        assert logger.flush(60)
    assert keys_of(workspace, DAY) == expected(10)


def test_a_row_that_cannot_be_named_is_found(workspace: al.Workspace, tmp_path: Path) -> None:
    with workspace.logger(spool=tmp_path) as logger:
        fill(logger, 50)
        assert logger.prediction("v1", "half a \ud800 letter", score=0.5, predicted_at=AT)
        fill(logger, 50, first=50)
        assert not logger.flush(60)
    assert keys_of(workspace, DAY) == expected(100)
    assert (logger.stats.stored, logger.stats.refused) == (100, 1)
    (kept,) = files(tmp_path / "refused", "*.batch")
    assert spool.read(kept).body.rows == 1


def test_equal_rows_of_a_divided_batch_are_all_stored(workspace: al.Workspace) -> None:
    with workspace.logger(flush_seconds=600) as logger:
        for name in ["loss", "half a \ud800 letter", "loss", "loss"] * 2:
            logger.metric(name, 0.5, measured_at=AT)
        assert not logger.flush(60)
        assert (logger.stats.stored, logger.stats.refused) == (6, 2)
    assert len(workspace.query("metrics", DAY, frames="rows")) == 6


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_what_pandas_has_for_no_value_is_none(workspace: al.Workspace) -> None:
    import pandas

    with workspace.logger() as logger:
        for score, label in [(pandas.NA, "no"), (0.5, pandas.NA), (float("nan"), "no"), (0.5, pandas.NaT)]:
            logger.prediction("v1", "loan-0000", score=score, label=label, predicted_at=AT)
        assert logger.flush(60), logger.stats
    rows = workspace.predictions(DAY, frames="rows", columns=["score", "label"])
    assert [(row["score"], row["label"]) for row in rows] == [(None, "no"), (0.5, None)] * 2


def test_more_bad_rows_than_the_service_names_are_all_found(workspace: al.Workspace, tmp_path: Path) -> None:
    with workspace.logger(spool=tmp_path) as logger:
        for row in range(600):
            logger.prediction("v1", f"loan-{row:04}", score=7.0 if row % 2 else 0.5, predicted_at=AT)
        assert not logger.flush(60)
    assert keys_of(workspace, DAY) == expected(600)[::2]
    assert (logger.stats.stored, logger.stats.refused) == (300, 300)
    assert sum(spool.read(path).body.rows for path in files(tmp_path / "refused", "*.batch")) == 300


def test_a_batch_of_bad_rows_alone_is_refused_at_once(workspace: al.Workspace, tmp_path: Path) -> None:
    errors: "list[Exception]" = []
    with workspace.logger(spool=tmp_path, on_error=errors.append) as logger:
        for row in range(600):
            logger.prediction("v2", f"loan-{row:04}", score=0.5, predicted_at=AT)
        assert not logger.flush(60)
    assert (logger.stats.stored, logger.stats.refused) == (0, 600)
    (kept,) = files(tmp_path / "refused", "*.batch")
    assert spool.read(kept).body.rows == 600
    (error,) = errors
    assert "`v2` is no release of this workspace" in str(error)


def test_a_bad_name_in_one_row_costs_no_good_one(workspace: al.Workspace, tmp_path: Path) -> None:
    with workspace.logger(spool=tmp_path) as logger:
        fill(logger, 200)
        logger.prediction("v1", "bad", score=0.5, predicted_at=AT, tags={"home branch": "n"})
        assert not logger.flush(60)
    assert keys_of(workspace, DAY) == expected(200)
    assert (logger.stats.stored, logger.stats.refused) == (200, 1)


def test_a_bad_row_with_several_problems_costs_no_good_one(workspace: al.Workspace, tmp_path: Path) -> None:
    with workspace.logger(spool=tmp_path) as logger:
        fill(logger, 2)
        logger.prediction("v1", None, score=7.0, lower=2.0, upper=1.0, predicted_at=AT)
        assert not logger.flush(60)
    assert keys_of(workspace, DAY) == expected(2)
    assert (logger.stats.stored, logger.stats.refused) == (2, 1)


def test_a_row_has_its_fields_where_their_table_says(
    workspace: al.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: "list[background.Row]" = []
    monkeypatch.setattr(al.Logger, "_take", lambda _, row: taken.append(row))
    families = [of.name for of in FAMILIES]
    with workspace.logger() as logger:
        calls = {"predictions": logger.prediction, "outcomes": logger.outcome, "metrics": logger.metric}
        for kind, call in calls.items():
            names = list(inspect.signature(call).parameters)
            call(**{name: name for name in names})
            (kind_taken, *values) = taken.pop()
            named = dict(zip([*families, *(field.name for field in KINDS[kind])], values))
            assert kind_taken == kind and len(named) == len(values)
            assert {name: value for name, value in named.items() if value is not None} == {n: n for n in names}


def test_rows_become_columns_as_they_are_sent() -> None:
    noon = datetime(2026, 6, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    first = ("predictions", {1: "x", "2": True}, None, {"age": 41}, 7, 1.5, "v1", 1, True, None)
    second = ("predictions", None, {"late": 0.25, 1: None}, {"age": None}, "b", noon, "v1", None, 1.0, None)
    third = ("predictions", {"1": "y"}, {}, None, 2.5, "2026-06-01", None, 0.5, None, None)
    assert background._columns("predictions", [first, second, third]) == {
        "key": ["7", "b", "2.5"],
        "predicted_at": [
            datetime(1970, 1, 1, 0, 0, 1, 500_000, timezone.utc), datetime(2026, 6, 1, 12, tzinfo=timezone.utc),
            "2026-06-01T00:00:00Z",
        ],
        "release": ["v1", "v1", None],
        "score": [1.0, None, 0.5],
        "label": ["true", "1", None],
        "tag.1": ["x", None, "y"],
        "tag.2": ["true", None, None],
        "score.late": [None, 0.25, None],
        "score.1": [None, None, None],
        "feature.age": [41.0, None, None],
    }  # fmt: skip
    metric = ("metrics", None, None, None, "loss", 0.0)
    of_run = background._columns("metrics", [(*metric, float("inf"), None, None, None, None, "r", 3)])
    assert (of_run["value"], of_run["run"], of_run["step"]) == (["Infinity"], ["r"], [3.0])
    with pytest.raises(al.AlmanacError, match="inf is no number"):
        background._columns("metrics", [(*metric, float("inf"), None, None, None, None, None, None)])
    outcome = ("outcomes", None, None, None, "a", noon, None, noon)
    assert background._columns("outcomes", [outcome])["predicted_on"] == ["2026-06-01"]


def test_models_with_more_features_than_a_request_takes_go_in_several(workspace: al.Workspace) -> None:
    workspace.create_release("v2", model="risk")
    with workspace.logger(flush_seconds=60) as logger:
        for row in range(20):
            release = f"v{row % 2 + 1}"
            features = {f"{release}-{number}": number for number in range(150)}
            assert logger.prediction(release, f"loan-{row:04}", score=0.5, predicted_at=AT, features=features)
        assert logger.flush()
        assert logger._made == 2, "each release has one batch, though their rows alternate"
    assert logger.stats == al.Stats(logged=20, stored=20)
    assert keys_of(workspace, DAY) == expected(20)


def test_rows_are_parted_where_they_have_too_many_names() -> None:
    def row(key: int, first: int, count: int) -> background.Row:
        return ("metrics", {f"t{name}": "x" for name in range(first, first + count)}, None, None, key)

    rows = [row(0, 0, 200), row(1, 56, 200), row(2, 57, 200), row(3, 0, 300), row(4, 0, 1), row(5, 0, 256)]
    parts = [[row[4] for row in part] for part in background._fitting("metrics", rows)]
    assert parts == [[0, 1], [2], [3], [4, 5]]
    assert background._fitting("metrics", rows[:2]) == [rows[:2]]


def test_flush_tells_once_what_was_lost_before_it(workspace: al.Workspace) -> None:
    with workspace.logger(flush_seconds=0.01) as logger:
        fill(logger, 1)
        logger.prediction("v1", "too-much", score=17.0, predicted_at=AT)
        eventually(lambda: logger.stats.refused == 1)
        assert not logger.flush(), "a row was refused before it was called"
        fill(logger, 1, first=1)
        assert logger.flush(), "that was told"
    with workspace.logger(max_queued=1, flush_seconds=60) as logger:
        taken = [logger.prediction("v1", f"late-{row}", score=0.5, predicted_at=AT) for row in range(50)]
        assert not all(taken) and logger.stats.dropped
        assert not logger.flush()
        assert logger.flush()


def test_bad_rows_of_the_spool_are_put_aside_too(workspace: al.Workspace, door: Door, tmp_path: Path) -> None:
    door.is_shut = True
    with through(door, workspace).logger(spool=tmp_path, retry_for=0.05) as logger:
        fill(logger, 5)
        logger.prediction("v1", "too-much", score=17.0, predicted_at=AT)
    assert logger.stats.spooled == 6
    door.is_shut = False
    with through(door, workspace).logger(spool=tmp_path) as logger:
        logger.metric("m", 1.0, measured_at=AT)
        logger.flush(60)
    assert keys_of(workspace, DAY) == expected(5)
    assert (logger.stats.stored, logger.stats.refused, logger.stats.spooled) == (6, 1, 0)
    assert len(files(tmp_path, "*.batch")) == 1


def test_closing_saves_what_waits_while_a_request_hangs(
    workspace: al.Workspace, door: Door, tmp_path: Path
) -> None:
    door.script = ["hang"]
    logger = through(door, workspace).logger(spool=tmp_path, max_batch=50, flush_seconds=0.01)
    fill(logger, 50)
    assert door.reached.wait(60)
    fill(logger, 250, first=50)
    stats = logger.close(0.0)
    assert (stats.spooled, stats.waiting, stats.stored, stats.dropped) == (300, 0, 0, 0)
    door.opened.set()
    with through(door, workspace).logger(spool=tmp_path) as again:
        again.metric("m", 1.0, measured_at=AT)
        assert again.flush(60)
    # What hung was stored, and is in the spool as well: it counts once.
    assert keys_of(workspace, DAY) == expected(300)
    assert again.stats.stored == 301


def test_a_process_that_is_killed_while_it_sends_doubles_nothing(
    workspace: al.Workspace, door: Door, tmp_path: Path
) -> None:
    door.is_shut = True
    with through(door, workspace).logger(spool=tmp_path, max_batch=50, retry_for=0.05) as logger:
        fill(logger, 500)
    door.is_shut = False
    door.script = ["pass"] * 4 + ["hang"]
    code = f"""
        import almanac_ml as al
        logger = al.connect({door.url!r}).workspace({workspace.path!r}).logger(spool={str(tmp_path)!r})
        logger.metric("m", 1.0, measured_at={AT!r})
        logger.flush(600)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    assert door.reached.wait(60)
    process.kill()
    process.wait()
    door.opened.set()
    with through(door, workspace).logger(spool=tmp_path) as logger:
        logger.metric("m", 1.0, measured_at=AT)
        assert logger.flush(60)
    assert keys_of(workspace, DAY) == expected(500)
    assert logger.stats.stored == 301, "the four that were acknowledged are not sent again"


def test_what_cannot_be_logged_is_counted_and_told_and_not_raised(workspace: al.Workspace) -> None:
    errors: "list[Exception]" = []
    with workspace.logger(on_error=errors.append) as logger:
        assert logger.prediction("v1", "a", score=0.5, predicted_at=AT, tags=7) is False  # type: ignore[arg-type]
        assert logger.prediction("v1", object(), score=object(), predicted_at=AT)  # type: ignore[arg-type]
        assert logger.prediction("v1", "loan-0000", score=0.5, predicted_at=AT)
        assert not logger.flush(60)
    assert (logger.stats.logged, logger.stats.stored, logger.stats.refused) == (3, 1, 2)
    assert len(errors) == 2
    assert logger.prediction("v1", "late", score=0.5) is False, "it is closed"
    assert logger.stats.dropped == 1


def test_a_thread_that_cannot_be_started_raises_nothing(
    workspace: al.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    logger = workspace.logger()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        fill(logger, 10)
        assert not logger.flush(1)
    fill(logger, 10, first=10)
    assert logger.flush(60)
    last = workspace.logger()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        fill(last, 10, first=20)
        assert last.close().stored == 10, "sent by the caller of close, in place of a thread"
    logger.close()
    assert keys_of(workspace, DAY) == expected(30)


_audited: "list[str]" = []
_watched: "set[int]" = set()


def _audit(event: str, _: object) -> None:
    if threading.get_ident() in _watched and event.split(".")[0] in ("open", "os", "socket", "subprocess", "shutil"):
        _audited.append(event)


sys.addaudithook(_audit)


def test_a_call_does_no_io_and_takes_no_lock_that_is_held_during_io(
    workspace: al.Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = workspace.logger(spool=tmp_path, max_batch=10, max_queued=500, flush_seconds=0.001)
    caller = threading.get_ident()
    taken_during_io: "list[str]" = []

    class Work:
        """The lock that is held during writes to disk, which a caller must not take."""

        def __init__(self) -> None:
            self.lock = threading.Lock()

        def acquire(self, timeout: float = -1) -> bool:
            assert threading.get_ident() not in _watched, "a call waits for I/O"
            return self.lock.acquire(timeout=timeout)

        def release(self) -> None:
            self.lock.release()

        def __enter__(self) -> None:
            self.acquire()

        def __exit__(self, *_: object) -> None:
            self.release()

    def io(name: str, function: "Callable[..., object]") -> "Callable[..., object]":
        def watched(*args: object, **options: object) -> object:
            for lock in ("_lock", "_starting"):
                if getattr(logger, lock)._is_owned():
                    taken_during_io.append(f"{lock} during {name}")
            return function(*args, **options)

        return watched

    monkeypatch.setattr(logger, "_work", Work())
    monkeypatch.setattr(os, "fsync", io("fsync", os.fsync))
    monkeypatch.setattr(os, "replace", io("replace", os.replace))
    transport = workspace.client.transport
    monkeypatch.setattr(transport, "_try", io("request", transport._try))
    # The first call starts the thread.
    fill(logger, 1)
    # What earlier tests left, such as a service that ends when nobody needs it any more, is not what a call does.
    gc.collect()
    _watched.add(caller)
    try:
        for row in range(1, 3_000):
            logger.prediction("v1", f"loan-{row:04}", score=0.5, predicted_at=AT, tags={"branch": "north"})
    finally:
        _watched.discard(caller)
    stats = logger.close(60)
    assert _audited == [] and taken_during_io == []
    assert stats.stored == stats.logged and stats.stored + stats.dropped == 3_000 and stats.stored > 10


def test_rows_keep_their_order_whatever_happens(workspace: al.Workspace, door: Door, tmp_path: Path) -> None:
    door.script = ["503"] * 3 + ["pass"] * 2 + ["shut"] * 5 + ["lost"] * 2
    with through(door, workspace).logger(
        spool=tmp_path, max_batch=10, flush_seconds=0.001, retry_for=0.0, max_queued=1_000
    ) as logger:
        for row in range(200):
            assert logger.prediction("v1", "loan", score=row / 1000, predicted_at=AT)
        settle(logger)
    scores = [score for body in door.passed for score in json.loads(body)["score"]]
    assert list(dict.fromkeys(scores)) == [row / 1000 for row in range(200)]
    assert logger.stats.stored == 200


def test_a_full_spool_drops_and_counts(workspace: al.Workspace, door: Door, tmp_path: Path) -> None:
    door.is_shut = True
    logger = through(door, workspace).logger(
        spool=tmp_path, spool_bytes=2_000, max_batch=10, max_queued=50, retry_for=0.0, flush_seconds=0.001
    )
    for row in range(1_000):
        logger.prediction("v1", f"loan-{row:04}", score=0.5, predicted_at=AT)
    stats = logger.close(60)
    assert 0 < stats.spooled < 50 and stats.waiting == 0
    assert sum(path.stat().st_size for path in files(tmp_path, "*.batch")) < 5_000
    door.is_shut = False
    with through(door, workspace).logger(spool=tmp_path) as again:
        again.metric("m", 1.0, measured_at=AT)
        assert again.flush(60)
    assert len(keys_of(workspace, DAY)) == stats.spooled
    assert stats.spooled + stats.dropped == 1_000


def test_workspaces_share_a_spool_and_keep_their_own(service: al.LocalClient, door: Door, tmp_path: Path) -> None:
    door.is_shut = True
    ours = [prepared(service) for _ in range(2)]
    for number, workspace in enumerate(ours):
        with through(door, workspace).logger(spool=tmp_path, retry_for=0.0) as logger:
            fill(logger, 10, first=10 * number)
    door.is_shut = False
    for number, workspace in reversed(list(enumerate(ours))):
        with through(door, workspace).logger(spool=tmp_path) as logger:
            logger.metric("m", 1.0, measured_at=AT)
            assert logger.flush(60)
        assert keys_of(workspace, DAY) == expected(20)[10 * number :][:10]


def test_a_spool_of_the_former_layout_is_sent(workspace: al.Workspace, tmp_path: Path) -> None:
    """As version 0.2.0 wrote it: folders of processes stood in the spool itself, and no head named a workspace."""
    former = tmp_path / "0123456789abcdef0123456789abcdef"
    former.mkdir()
    (former / "lock").touch()
    head = (
        b'{"v": 1, "kind": "predictions", "batch": "f/1", "content_type": "application/json", "rows": 1, '
        b'"sha256": "d2d3a5d6c07c7e6bd8ac1c8b1a8bf46b66f0d8c4b1f40fbd1a4f4d7d9a6a9a1f"}'
    )
    body = b'{"key":["loan-0000"],"predicted_at":["2026-06-01T02:00:00.000000Z"],"release":["v1"],"score":[0.5]}'
    digest = hashlib.sha256(body).hexdigest().encode()
    (former / "0000000001.batch").write_bytes(head.replace(head[-66:-2], digest) + b"\n" + body)
    with workspace.logger(spool=tmp_path) as logger:
        logger.metric("m", 1.0, measured_at=AT)
        assert logger.flush(60)
    assert keys_of(workspace, DAY) == expected(1)
    assert not former.exists()


def test_processes_that_start_together_take_over_a_spool_once(
    workspace: al.Workspace, door: Door, tmp_path: Path
) -> None:
    door.is_shut = True
    for part in range(8):
        with through(door, workspace).logger(spool=tmp_path, retry_for=0.0, max_batch=5) as logger:
            fill(logger, 20, first=20 * part)
            logger.close()
        # It was taken over by the next one; this keeps each part in a folder of its own.
        (folder,) = (tmp_path / "credit%2F").parent.glob("credit*/*")
        folder.rename(tmp_path / f"{part:032x}")
    door.is_shut = False
    code = f"""
        import almanac_ml as al
        logger = al.connect({door.url!r}).workspace({workspace.path!r}).logger(spool={str(tmp_path)!r})
        logger.metric("m", 1.0, measured_at={AT!r})
        assert logger.flush(60), logger.stats
    """
    processes = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)]) for _ in range(4)]
    assert [process.wait(120) for process in processes] == [0] * 4
    assert keys_of(workspace, DAY) == expected(160)
    assert files(tmp_path, "*.batch") == []


def _work_of(url: str, path: str, first: int) -> None:
    """What a worker does: it logs, and ends without closing anything."""
    fill(al.connect(url).workspace(path).logger(flush_seconds=60), 10, first=first)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_workers_of_multiprocessing_send_what_they_logged(workspace: al.Workspace, method: str) -> None:
    context = multiprocessing.get_context(method)
    url = workspace.client.transport.url
    workers = [context.Process(target=_work_of, args=(url, workspace.path, 10 * part)) for part in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    assert keys_of(workspace, DAY) == expected(20)


def test_a_signal_handler_may_log_while_its_thread_logs(workspace: al.Workspace) -> None:
    logger = workspace.logger(max_queued=5)
    logger._closing = True

    def handle(*_: object) -> None:
        assert logger.metric("signals", 1.0) is False

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with logger._lock:
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert logger.stats.dropped == 1


def test_a_row_is_as_it_was_when_it_was_logged(workspace: al.Workspace) -> None:
    tags = {"branch": "north"}
    with workspace.logger(flush_seconds=60) as logger:
        logger.prediction("v1", "loan-0000", score=0.5, predicted_at=AT, tags=tags)
        tags["branch"] = "south"
        assert logger.flush(60)
    (row,) = workspace.predictions(DAY, frames="rows")
    assert row["tag.branch"] == "north"


def test_an_error_handler_that_fails_or_waits_for_itself_stops_nothing(workspace: al.Workspace) -> None:
    results: "list[bool]" = []

    def handle(error: Exception) -> None:
        results.append(logger.flush(60))
        raise error

    logger = workspace.logger(on_error=handle)
    logger.prediction("v1", "too-much", score=17.0, predicted_at=AT)
    fill(logger, 5)
    assert not logger.flush(60)
    logger.close()
    assert len(results) == 1 and keys_of(workspace, DAY) == expected(5)


def test_a_batch_is_found_in_the_body_that_it_was(tmp_path: Path) -> None:
    kept = spool.Spool(tmp_path, 10_000, "credit/prod")
    batch = spool.Batch("metrics", "a/1", Body("application/json", b'{"name":["m"]}', 1))
    assert kept.write(batch) and kept.first() == batch and kept.rows() == 1
    smaller = [batch._replace(name=f"a/1~{part}") for part in range(2)]
    kept.replace_first(smaller)
    assert [kept.first(), kept.rows()] == [smaller[0], 2]
    for path in files(tmp_path, "*.batch"):
        path.write_bytes(path.read_bytes()[:-3])
    assert [kept.first(), kept.first(), kept.first()] == [1, 1, None]
    assert kept.bytes == 0 and len(files(tmp_path / "refused", "*.txt")) == 2
    kept.close()
    assert background.Stats() == al.Stats()


@pytest.mark.parametrize("has_spool", [True, False])
def test_a_service_that_takes_less_than_is_logged_fills_the_disk_and_no_memory(
    workspace: al.Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_spool: bool
) -> None:
    """During each request more is logged than it takes: a tenfold of what memory may hold."""
    send = workspace.send
    waited: "list[int]" = []
    left = list(range(2_000))

    def slow(*args: Any, **options: Any) -> Any:
        for row in left[:60]:
            logger.prediction("v1", f"loan-{row:04}", score=0.5, predicted_at=AT)
        del left[:60]
        waited.append(logger.stats.waiting)
        return send(*args, **options)

    monkeypatch.setattr(workspace, "send", slow)
    logger = workspace.logger(
        spool=tmp_path if has_spool else None, max_queued=100, max_batch=20, flush_seconds=0.001
    )
    logger.metric("m", 1.0, measured_at=AT)
    settle(logger) if has_spool else logger.flush(60)
    stats = logger.close(60)
    assert left == [] and max(waited) <= 200
    assert stats.stored + stats.dropped == 2_001
    if has_spool:
        assert stats.dropped == 0 and keys_of(workspace, DAY) == expected(2_000)
    else:
        assert stats.dropped > 0


def test_a_row_that_slips_in_while_the_logger_closes_is_sent(workspace: al.Workspace) -> None:
    logger = workspace.logger(flush_seconds=6_000)
    fill(logger, 1)
    end = logger._end

    def slip() -> None:
        # As a call does that had looked whether the logger is closed before it was.
        logger._queue.append(("predictions", None, None, None, "loan-0001", AT, "v1", 0.5))
        logger._end = end  # type: ignore[method-assign]
        end()

    logger._end = slip  # type: ignore[method-assign]
    assert logger.close(60).stored == 2
    assert keys_of(workspace, DAY) == expected(2)


def test_a_process_that_ends_sends_what_it_logged_before_it_ends_its_service(binary: str, tmp_path: Path) -> None:
    code = f"""
        import almanac_ml as al
        def main():
            workspace = al.open({str(tmp_path)!r}, binary={binary!r}).workspace("credit/prod").create()
            workspace.create_model("risk", task="binary", positive_label="default")
            workspace.create_release("v1", model="risk")
            workspace.logger(flush_seconds=60).prediction("v1", "loan-0000", score=0.5, predicted_at={AT!r})
        main()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=120, check=True)
    with al.open(tmp_path, binary=binary) as client:
        assert keys_of(client.workspace("credit/prod"), DAY) == expected(1)


@pytest.mark.parametrize("seed", range(int(os.environ.get("ALMANAC_LOGGER_SEEDS", "3"))))
def test_whatever_happens_each_row_is_stored_once(
    workspace: al.Workspace, door: Door, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loggers come and go on one spool, some with little patience, before a service that does what it likes."""
    monkeypatch.setattr("almanac_ml._http.MAX_PAUSE_SECONDS", 0.01)
    random = Random(seed)
    words = ["pass", "pass", "503", "429", "302", "401", "403", "404", "half", "lost", "shut", "drip", "portal", "hang"]
    logged = 0
    for _ in range(8):
        door.script = random.choices(words, k=random.randrange(12))
        door.is_shut = random.random() < 0.2
        logger = through(door, workspace).logger(
            spool=tmp_path,
            max_batch=random.choice([1, 7, 50]),
            max_queued=200,
            flush_seconds=random.choice([0.001, 60]),
            retry_for=random.choice([0.0, 0.05]),
            timeout=0.5,
        )
        for _ in range(random.randrange(4)):
            count = random.randrange(40)
            fill(logger, count, first=logged)
            logged += count
            if "hang" not in door.script and random.random() < 0.5:
                logger.flush(60)
        stats = logger.close(random.choice([0.0, 0.01]) if "hang" in door.script else random.choice([0.0, 60]))
        assert (stats.dropped, stats.refused, stats.waiting) == (0, 0, 0), stats
    door.opened.set()
    door.script, door.is_shut = [], False
    with through(door, workspace).logger(spool=tmp_path) as last:
        last.metric("m", 1.0, measured_at=AT)
        settle(last)
    assert keys_of(workspace, DAY) == expected(logged)
    assert files(tmp_path, "*.batch") == []
