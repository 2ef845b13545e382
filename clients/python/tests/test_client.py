"""Who calls, what an error says, and what a fork does to a client."""

from __future__ import annotations

import gc
import io
import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Door, eventually, keys_of

import almanac_ml as al
from almanac_ml import _progress
from almanac_ml._http import refusal
from almanac_ml.server import find_binary

DAY = "2026-06-01"
ROW = [{"key": "a", "score": 0.5, "predicted_at": "2026-06-01T02:00:00Z"}]


def test_a_token_is_taken_from_the_caller_or_the_environment(
    binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ALMANAC_TOKEN", raising=False)
    data = str(tmp_path / "data")
    token = subprocess.run([binary, "--data", data, "init"], check=True, capture_output=True, text=True).stdout.strip()
    with al.open(data, binary=binary) as nobody:
        with pytest.raises(al.RefusedError, match="give connect.. a token=, or set ALMANAC_TOKEN") as refused:
            nobody.workspace("credit/prod").create()
        assert refused.value.status == 401
        url = nobody.transport.url
        al.connect(url, token=token + "\n").workspace("credit/prod").create()
        with pytest.raises(al.AlmanacError, match="characters that no token has") as wrong:
            al.connect(url, token="alm_secret\nmore")
        assert "secret" not in str(wrong.value)
        monkeypatch.setenv("ALMANAC_TOKEN", token)
        assert al.connect(url).workspace("credit/prod").predictions(DAY, frames="rows") == []
        assert token not in repr(al.connect(url)) and token not in repr(al.connect(url).transport)


def test_where_nothing_listens_the_error_says_what_to_start(caplog: pytest.LogCaptureFixture) -> None:
    workspace = al.connect("http://127.0.0.1:9", retry_for=1).workspace("credit/prod")
    told = "nothing answers at http://127.0.0.1:9 .*does `almanac up` run there"
    with pytest.raises(al.UnavailableError, match=told):
        workspace.predictions(DAY)
    assert "trying again" in caplog.text


def test_an_answer_of_something_else_is_no_answer(door: Door, workspace: al.Workspace) -> None:
    door.script = ["portal"]
    passed = al.connect(door.url).workspace(workspace.path)
    with pytest.raises(al.UnavailableError, match="no JSON"):
        passed.release("v1").log_predictions(ROW)


def test_errors_can_be_sent_to_another_process() -> None:
    body = b'{"detail": "nothing was stored", "errors": [{"row": 3, "field": "score", "message": "is odd"}]}'
    error = refusal(422, body)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "nothing was stored (row 3, score: is odd)"
    assert (again.status, again.rows) == (422, error.rows)


def test_workspaces_can_be_sent_to_another_process_and_loggers_cannot(
    service: al.LocalClient, workspace: al.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = pickle.loads(pickle.dumps(workspace.release("v1")))
    release.log_predictions(ROW)
    assert keys_of(workspace, DAY) == ["a"]
    assert release.workspace.client.transport.retry_for == service.transport.retry_for
    release.workspace.client.close()
    assert service.is_ready()
    options = {"frames": "rows", "connections": 3, "source": {"job": "nightly"}}
    monkeypatch.setenv("ALMANAC_TOKEN", "of-the-environment")
    sent = pickle.dumps(al.connect("http://127.0.0.1:9", **options))
    assert b"of-the-environment" not in sent
    again = pickle.loads(sent)
    assert (again.frames, again.connections, again.source) == ("rows", 3, "job=nightly")
    assert again.transport._token == "of-the-environment"
    given = pickle.loads(pickle.dumps(al.connect("http://127.0.0.1:9", token="given")))
    assert given.transport._token == "given"
    with workspace.logger() as logger, pytest.raises(TypeError, match="call its logger.. in each worker"):
        pickle.dumps(logger)


def test_a_large_body_is_compressed_on_its_way_to_another_machine(workspace: al.Workspace, door: Door) -> None:
    assert not al.connect("http://127.0.0.1:7171").transport.compresses
    assert al.connect("https://almanac.example").transport.compresses
    far = al.connect(door.url).workspace(workspace.path)
    far.client.transport.compresses = True
    rows = [{**ROW[0], "key": f"key-{row:04}"} for row in range(500)]
    far.release("v1").log_predictions(rows)
    assert door.encodings == ["gzip"]
    assert keys_of(workspace, DAY) == [row["key"] for row in rows]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_has_connections_of_its_own_and_ends_no_service(binary: str, tmp_path: Path) -> None:
    with al.open(tmp_path / "data", binary=binary) as client:
        workspace = client.workspace("credit/prod").create()
        pool = client.transport._pool
        child = os.fork()
        if child == 0:
            code = 1
            try:
                is_ours = client.transport._pool is not pool
                client.close()
                code = 0 if is_ours else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert client.process.poll() is None and client.transport._pool is pool
        assert workspace.predictions(DAY, frames="rows") == []


def test_a_process_that_ends_ends_its_service(binary: str, tmp_path: Path) -> None:
    code = f"""
import almanac_ml as al
client = al.open({str(tmp_path)!r}, binary={binary!r})
print(client.process.pid)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_a_client_that_is_forgotten_ends_its_service(binary: str, tmp_path: Path) -> None:
    client = al.open(tmp_path, binary=binary)
    process = client.process
    del client
    gc.collect()
    assert process.poll() is not None


OPENED = """
import signal, sys, time
import almanac_ml as al
signal.signal(signal.SIGINT, signal.default_int_handler)
client = al.open(sys.argv[1], binary=sys.argv[2])
w = client.workspace("credit/prod").create()
w.create_model("risk", task="binary")
w.create_release("v1", model="risk")
log = w.logger(flush_seconds=60)
for key in "abc":
    log.prediction("v1", key, score=0.5, predicted_at="2026-06-01T02:00:00Z")
print(client.process.pid, flush=True)
time.sleep(60)
"""


def opened(binary: str, data: Path) -> "tuple[subprocess.Popen[str], int]":
    """A process group of its own that has opened a service and logged three rows, and the process of that service."""
    command = [sys.executable, "-c", OPENED, str(data), binary]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def is_running(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # One that has ended and that nobody has asked for is no longer there either.
    return not re.search(r"^State:\s+Z", status, re.MULTILINE)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
def test_ctrl_c_leaves_the_service_for_what_is_sent_at_the_end(binary: str, tmp_path: Path) -> None:
    process, service = opened(binary, tmp_path / "data")
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert not is_running(service)
    with al.open(tmp_path / "data", binary=binary) as client:
        assert keys_of(client.workspace("credit/prod"), DAY) == ["a", "b", "c"]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGHUP])
def test_a_process_that_is_killed_ends_its_service(binary: str, tmp_path: Path, how: signal.Signals) -> None:
    process, service = opened(binary, tmp_path / "data")
    assert is_running(service)
    os.killpg(process.pid, how)
    process.communicate(timeout=60)
    eventually(lambda: not is_running(service))


def test_the_binary_beside_this_python_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALMANAC_BINARY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("almanac_ml.server._scripts", lambda: str(tmp_path / "scripts"))
    with pytest.raises(al.AlmanacError, match=re.escape("pip install 'almanac-ml[server]'")):
        find_binary()
    for folder in (tmp_path, tmp_path / "scripts"):
        folder.mkdir(exist_ok=True)
        (folder / "almanac").write_text("#!/bin/sh\n")
        (folder / "almanac").chmod(0o755)
        assert find_binary() == str(folder / "almanac")
    with pytest.raises(al.AlmanacError, match="there is no binary"):
        find_binary(tmp_path / "absent")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def uploaded(workspace: al.Workspace, **options: object) -> None:
    seen = al.connect(workspace.client.transport.url, **options).workspace(workspace.path)
    seen.release("v1").log_predictions(ROW)


def test_progress_is_shown_in_terminals_and_nowhere_else(
    workspace: al.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_progress, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(_progress, "PAUSE_SECONDS", 0.0)
    for stderr, wanted, is_shown in (
        (io.StringIO(), None, False),
        (io.StringIO(), True, True),
        (Terminal(), None, True),
        (Terminal(), False, False),
    ):
        monkeypatch.setattr(sys, "stderr", stderr)
        uploaded(workspace, progress=wanted)
        assert ("1 of 1 rows" in stderr.getvalue()) is is_shown
        assert stderr.getvalue().endswith("\n") is is_shown


def test_progress_of_a_short_upload_is_silent(workspace: al.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "QUIET_SECONDS", float("inf"))
    monkeypatch.setattr(sys, "stderr", Terminal())
    uploaded(workspace)
    assert sys.stderr.getvalue() == ""


def test_a_notebook_shows_one_line_and_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(_progress, "PAUSE_SECONDS", 0.0)
    shown: "list[str]" = []

    class Handle:
        def update(self, data: dict, raw: bool) -> None:
            shown.append(data["text/plain"])

    def display(data: dict, raw: bool, display_id: bool) -> Handle:
        shown.append(data["text/plain"])
        return Handle()

    monkeypatch.setattr(_progress, "notebook_display", lambda: display)
    progress = _progress.Progress(None, "predictions", 200)
    progress.show(100)
    progress.show(200)
    progress.close()
    assert [line.split(" rows")[0].split(" ", 2)[2] for line in shown] == ["100 of 200", "200 of 200"]


def test_entities_are_listed_with_single_attributes(service: al.LocalClient, workspace: al.Workspace) -> None:
    for name in ("v2", "v3"):
        workspace.create_release(name, model="risk")
    models = service.list("models", workspace.path, fields=["attributes.owner", "version"])
    assert [sorted(model) for model in models] == [["attributes", "id", "name", "version"]]
    assert models[0]["attributes"] == {}
    names = [release["name"] for release in service.list("releases", workspace.path, order="newest", limit=2)]
    assert names == ["v3", "v2"]
    of_model = service.list("releases", f"{workspace.path}/risk", fields=["model"])
    assert [release["name"] for release in of_model] == ["v1", "v2", "v3"]
    assert workspace.path in [found["path"] for found in service.list("workspaces")]
    assert service.list("workspaces", limit=1) and service.list("users") == []
    for kind, options in (("model", {}), ("models", {"fields": "version"}), ("models", {"fields": ["owner"]})):
        with pytest.raises(al.AlmanacError):
            service.list(kind, workspace.path, **options)
