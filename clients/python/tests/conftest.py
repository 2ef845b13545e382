"""A service of the real binary, and a door before it that misbehaves on demand."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Callable, Iterator, List

import pytest

import almanac_ml as al


@pytest.fixture(scope="session")
def binary() -> str:
    found = os.environ.get("ALMANAC_BINARY")
    if not found:
        pytest.fail("ALMANAC_BINARY names the almanac binary that these tests drive")
    return found


@pytest.fixture(scope="session")
def service(binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[al.LocalClient]:
    with al.open(tmp_path_factory.mktemp("data"), binary=binary, retry_for=20) as client:
        yield client


_names = iter(range(10_000))


@pytest.fixture
def workspace(service: al.LocalClient) -> al.Workspace:
    return prepared(service)


def prepared(client: al.Client, path: "str | None" = None) -> al.Workspace:
    """A new workspace with a model and the release v1."""
    w = client.workspace(path or f"credit/w{next(_names)}").create()
    w.create_model("risk", task="binary", positive_label="default")
    w.create_release("v1", model="risk")
    return w


class Door:
    """Passes requests on to a service, or does to them what `script` says, one word a request.

    ``503``, ``429``, ``401``: answers so. ``half``: passes the request on, and gives half of the answer.
    ``lost``: passes it on and hangs up. ``shut``: hangs up before it reads the body. ``portal``: answers 200
    and a page of its own. ``hang``: passes the request on, and gives the answer when the door is opened.
    ``drip``: gives the answer byte by byte. ``chunks``: gives the answer without its length, in chunks; ``chunk``:
    gives one of them, and hangs up. Then it passes on.
    """

    def __init__(self, target: str) -> None:
        self.script: List[str] = []
        self.seen: List[str] = []
        self.encodings: List[str] = []
        self.is_shut = False
        self.passed: List[bytes] = []
        self.reached = threading.Event()
        self.opened = threading.Event()
        door = self
        host, port = target.replace("http://", "").split(":")

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.handle_one()

            def do_POST(self) -> None:
                self.handle_one()

            def do_PATCH(self) -> None:
                self.handle_one()

            def handle_one(self) -> None:
                word = "shut" if door.is_shut else (door.script.pop(0) if door.script else "pass")
                door.seen.append(word)
                if word == "shut":
                    self.hang_up()
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if "Content-Encoding" in self.headers:
                    door.encodings.append(self.headers["Content-Encoding"])
                if word == "portal":
                    self.send_response(200)
                    self.send_header("Content-Length", "14")
                    self.end_headers()
                    self.wfile.write(b"<html>Sign in!")
                    return
                if word.isdigit():
                    self.send_response(int(word))
                    self.send_header("Retry-After", "0")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                onward = http.client.HTTPConnection(host, int(port))
                onward.request(self.command, self.path, body, dict(self.headers))
                answer = onward.getresponse()
                data = answer.read()
                door.passed.append(body)
                if word == "lost":
                    self.hang_up()
                    return
                if word == "hang":
                    door.reached.set()
                    door.opened.wait()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                if word in ("chunk", "chunks"):
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    for part in [data[: len(data) // 2], data[len(data) // 2 :]][: 2 if word == "chunks" else 1]:
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                    if word == "chunks":
                        self.wfile.write(b"0\r\nAlmanac-Rows: 3\r\n\r\n")
                    else:
                        self.hang_up()
                    return
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if word == "drip":
                    for at in range(len(data)):
                        self.wfile.write(data[at : at + 1])
                        self.wfile.flush()
                    return
                self.wfile.write(data[: len(data) // 2] if word == "half" else data)
                if word == "half":
                    self.hang_up()

            def hang_up(self) -> None:
                self.close_connection = True
                self.wfile.flush()
                try:
                    self.connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.opened.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def door(service: al.LocalClient) -> Iterator[Door]:
    door = Door(service.transport.url)
    yield door
    door.close()


def keys_of(workspace: al.Workspace, day: str) -> List[str]:
    """The keys of the stored predictions of a day, each as often as it is stored."""
    rows = workspace.predictions(day, frames="rows", columns=["key"])
    return sorted(row["key"] for row in rows)


def eventually(is_so: Callable[[], bool]) -> None:
    """Waits for a condition, for as long as a slow machine may need."""
    for _ in range(6_000):
        if is_so():
            return
        time.sleep(0.05)
    pytest.fail("what was waited for never came")


def files(folder: Path, pattern: str) -> List[Path]:
    return sorted(folder.rglob(pattern))
