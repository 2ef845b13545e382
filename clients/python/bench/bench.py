"""How fast the Python client is, and what it costs: `python bench/bench.py --help`.

Needs numpy, pandas, polars and pyarrow, and the binary that ALMANAC_BINARY names. A binary of the profile `dev` is not
optimised: then the rates of uploads are the service's, and only what the client itself takes says anything.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import almanac_ml as al
from almanac_ml import _frames
from almanac_ml._frames import Column

HERE = Path(__file__).parent
FIRST, LAST = "2026-06-01", "2026-06-30"
FIELDS: Dict[str, Any] = {"key": "loan_id", "score": "p", "predicted_at": "at", "tags": ["branch"]}
SOURCES = {
    "key": Column("loan_id"),
    "predicted_at": Column("at"),
    "release": "v1",
    "score": Column("p"),
    "tag.branch": Column("branch"),
}


def say(what: str, figure: str, note: str = "") -> None:
    """One line of the answer."""
    print(f"{what:62} {figure:>22}  {note}", flush=True)


def table(rows: int) -> pa.Table:
    """Predictions of thirty days."""
    random = np.random.default_rng(1)
    step = 30 * 86_400_000_000 // rows
    at = np.datetime64(FIRST, "us") + (np.arange(rows) * step).astype("timedelta64[us]")
    return pa.table(
        {
            "loan_id": pa.array([f"loan-{row:08}" for row in range(rows)]),
            "p": random.random(rows),
            "at": pa.array(at),
            "branch": pa.array(random.choice(["north", "south", "east"], rows)),
        }
    )


_names = iter(range(1_000_000))


def prepared(client: al.Client) -> al.Workspace:
    """A new workspace, with the release v1."""
    workspace = client.workspace(f"bench/w{next(_names)}").create()
    workspace.create_model("risk", task="binary", positive_label="default")
    workspace.create_release("v1", model="risk")
    return workspace


def rates(rounds: int, rows: int, sides: Dict[str, Callable[[], object]]) -> Dict[str, float]:
    """Rows a second of each side: the median of rounds in which the sides take turns."""
    found: Dict[str, List[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            began = time.perf_counter()
            run()
            found[name].append(rows / (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in found.items()}


def uploads(client: al.Client, rows: int, rounds: int) -> None:
    """Frames of each library, beside bodies that were made before, over one connection and over four."""
    arrow = table(rows)
    frames = {"pyarrow": arrow, "polars": pl.from_arrow(arrow), "pandas": arrow.to_pandas()}
    for library, frame in frames.items():
        before = processor_time()
        size = sum(body.size for body in _frames.bodies("predictions", frame, SOURCES))
        cost = (processor_time() - before) / rows * 1e9
        say(f"{library}: make the requests of {rows:,} rows", f"{cost:,.0f} ns/row", f"{size / rows:.0f} bytes/row")
    made = list(_frames.bodies("predictions", arrow, SOURCES))
    for connections in (1, 4):
        wide = al.connect(client.transport.url, connections=connections)

        def ready_made(wide: al.Client = wide, connections: int = connections) -> None:
            workspace = prepared(wide)
            with ThreadPoolExecutor(connections) as pool:
                sends = [pool.submit(workspace.send, "predictions", body, f"b{at}") for at, body in enumerate(made)]
                assert sum(send.result()["appended"] for send in sends) == rows

        def whole(frame: Any, wide: al.Client = wide) -> None:
            assert prepared(wide).release("v1").log_predictions(frame, **FIELDS).rows == rows

        sides: Dict[str, Callable[[], object]] = {"bodies made before": ready_made}
        sides.update({library: lambda frame=frame: whole(frame) for library, frame in frames.items()})
        found = rates(rounds, rows, sides)
        base = found["bodies made before"]
        for name, rate in found.items():
            say(f"{name} over {connections} connection(s), durable", f"{rate:,.0f} rows/s", f"{rate / base:.2f}x")
    say("most memory of the client so far", f"{peak():,.0f} MB", "three frames among it")


def answers(client: al.Client, rows: int, rounds: int) -> None:
    """A million rows back: what the client does with the bytes of an answer."""
    workspace = prepared(client)
    workspace.release("v1").log_predictions(table(rows), **FIELDS)
    params = {"from": FIRST, "to": LAST, "format": "ipc", "columns": "key,score,predicted_at"}
    data = client.transport.request("GET", workspace._url("predictions"), params=params).data
    for library in ("pyarrow", "polars", "pandas"):
        spans = []
        for _ in range(rounds):
            began = time.perf_counter()
            assert len(_frames.frame(library, data)) == rows
            spans.append(time.perf_counter() - began)
        say(f"answer of {len(data) / 1e6:.0f} MB to {library}", f"{statistics.median(spans) * 1e3:,.1f} ms")


class Hole:
    """Takes connections and never answers."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.taken: List[socket.socket] = []
        threading.Thread(target=self.take, daemon=True).start()

    def take(self) -> None:
        while True:
            self.taken.append(self.listener.accept()[0])


def calls(client: al.Client, count: int, a_second: int) -> None:
    """What a call of the logger takes in a loop that does ``a_second`` of them, while the service answers, is gone,
    or hangs."""
    hole = Hole()
    for name, url in (("answers", client.transport.url), ("is gone", "http://127.0.0.1:9"), ("hangs", hole.url)):
        workspace = al.connect(url).workspace(prepared(client).path)
        with tempfile.TemporaryDirectory() as spool:
            logger = workspace.logger(spool=spool, max_queued=10 * count)
            spans = np.empty(count)
            tags, features = {"branch": "north"}, {"age": 41.0, "income": 3.5}
            next_call = time.perf_counter()
            for at in range(count):
                next_call += 1 / a_second
                while time.perf_counter() < next_call:
                    # The work of the loop, which lets others run.
                    time.sleep(0)
                began = time.perf_counter()
                logger.prediction("v1", f"loan-{at}", score=0.5, tags=tags, features=features)
                spans[at] = time.perf_counter() - began
            stats = logger.close(5)
            assert stats.logged == count and stats.dropped == 0
        p50, p99, p999 = np.quantile(spans, [0.5, 0.99, 0.999]) * 1e6
        figure, rest = f"p50 {p50:.1f} p99 {p99:.1f} us", f"p99.9 {p999:.0f} us, most {spans.max() * 1e3:.1f} ms"
        say(f"a call of the logger while the service {name}", figure, rest)


def metrics(client: al.Client, rows: int, python: Optional[str], rounds: int) -> None:
    """Metrics by frame and by call, beside MLflow's client."""
    at = pd.date_range(FIRST, periods=rows, freq="1s", tz="UTC")
    frame = pd.DataFrame({"value": np.arange(rows) % 1000 / 1000, "measured_at": at})

    def by_frame() -> None:
        assert prepared(client).log_metrics(frame, name="score").rows == rows

    def by_call() -> None:
        with prepared(client).logger(max_queued=2 * rows) as logger:
            for value in values:
                logger.metric("score", value)
            assert logger.flush(600)

    values = frame["value"].tolist()
    ours = rates(rounds, rows, {"frame": by_frame, "call": by_call})
    say("metrics by frame, durable", f"{ours['frame']:,.0f} rows/s")
    say("metrics by call of the logger, until durable", f"{ours['call']:,.0f} rows/s")
    if python is None:
        say("MLflow", "SKIPPED", "--mlflow names a Python with mlflow or mlflow-skinny")
        return
    with tempfile.TemporaryDirectory() as folder:
        stores = {"its file store": f"file://{folder}/mlruns"}
        server = mlflow_server(python, folder)
        if server is not None:
            stores["its own server on SQLite"] = server[1]
        try:
            for name, uri in stores.items():
                command = [python, str(HERE / "mlflow_log.py"), uri, str(min(rows, 20_000)), "200"]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                theirs = json.loads(done.stdout.splitlines()[-1])
                for ours_by, theirs_by in (("frame", "batch"), ("call", "single")):
                    ratio = f"Almanac by {ours_by}: {ours[ours_by] / theirs[theirs_by]:,.0f}x"
                    say(f"MLflow's client, log_{theirs_by}, {name}", f"{theirs[theirs_by]:,.0f} rows/s", ratio)
        finally:
            if server is not None:
                server[0].terminate()
                server[0].wait()


def mlflow_server(python: str, folder: str) -> Any:
    """MLflow's own server and its address; ``None`` where only the client is installed."""
    if subprocess.run([python, "-c", "import mlflow.server, flask"], capture_output=True, check=False).returncode:
        return None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [python, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", folder]
    with open(f"{folder}/log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    give_up = time.monotonic() + 120
    while time.monotonic() < give_up and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process, f"http://127.0.0.1:{port}"
        except OSError:
            time.sleep(0.2)
    process.kill()
    sys.exit("MLflow's server did not start: " + Path(folder, "log").read_text()[-2000:])


def processor_time() -> float:
    """Seconds of processor that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak() -> float:
    """The most memory that this process has had, in MB (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=50_000)
    parser.add_argument("--calls-a-second", type=int, default=5_000)
    parser.add_argument("--mlflow", help="a Python that has mlflow, or mlflow-skinny for the file store alone")
    parser.add_argument("--only", choices=["uploads", "answers", "calls", "metrics"], action="append")
    asked = parser.parse_args()
    only = asked.only or ["uploads", "answers", "calls", "metrics"]
    with tempfile.TemporaryDirectory() as folder, al.open(folder, timeout=600) as client:
        say("machine", f"{os.cpu_count()} cores", f"load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}")
        if "uploads" in only:
            uploads(client, asked.rows, asked.rounds)
        if "answers" in only:
            answers(client, asked.rows, asked.rounds)
        if "calls" in only:
            calls(client, asked.calls, asked.calls_a_second)
        if "metrics" in only:
            metrics(client, min(asked.rows, 100_000), asked.mlflow, asked.rounds)


if __name__ == "__main__":
    main()
