"""What speaks as S3 does, for the tests: moto, on a free port, which is printed. It ends when its standard input does.

It answers one request at a time, so that a put under a condition is one step, as it is in S3. What goes wrong in a
bucket, the first word of its name says:

- `denied`: nobody may do anything;
- `stuck`: the first put of a manifest is not done, and not answered;
- `deaf`: the first put under a condition of each object is done, and answered as if it had failed;
- `beaten`: just before the second commit of a table of predictions is put, another program puts one.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from typing import Any, Callable, Iterable, Set

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

LOCK = threading.Lock()
SECOND = "/predictions/_delta_log/00000000000000000001.json"
OTHER = b'{"commitInfo":{"timestamp":0,"operation":"OPTIMIZE"}}\n'

moto: Any = DomainDispatcherApplication(create_backend_app)
seen: Set[str] = set()


def failure(start: Callable[..., Any], status: str, code: str) -> Iterable[bytes]:
    body = f"<Error><Code>{code}</Code><Message>It is so.</Message></Error>".encode()
    start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


def answer(environ: Any, start: Callable[..., Any]) -> Iterable[bytes]:
    path, is_put = environ["PATH_INFO"], environ["REQUEST_METHOD"] == "PUT"
    fault = path.lstrip("/").partition("-")[0]
    # A bucket itself is made without a fault.
    makes_bucket = is_put and path.count("/") == 1
    is_first = is_put and not makes_bucket and path not in seen
    if is_first:
        seen.add(path)
    if fault == "denied" and not makes_bucket:
        return failure(start, "403 Forbidden", "AccessDenied")
    if fault == "stuck" and is_first and path.endswith("/manifest.json"):
        LOCK.release()
        threading.Event().wait()
    if fault == "beaten" and is_first and path.endswith(SECOND):
        other = {**environ, "wsgi.input": io.BytesIO(OTHER), "CONTENT_LENGTH": str(len(OTHER))}
        list(moto(other, lambda *_: None))
    if fault == "deaf" and is_first and environ.get("HTTP_IF_NONE_MATCH") == "*":
        list(moto(environ, lambda *_: None))
        return failure(start, "500 Internal Server Error", "InternalError")
    return moto(environ, start)


def one_at_a_time(environ: Any, start: Callable[..., Any]) -> Iterable[bytes]:
    with LOCK:
        return list(answer(environ, start))


def end_with_the_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


threading.Thread(target=end_with_the_input, daemon=True).start()
server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True, request_handler=MotoRequestHandler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
