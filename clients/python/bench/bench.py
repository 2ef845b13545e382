"""What the Python client itself costs: `python bench/bench.py --help`.

`bench/run --only python` measures it beside the load generator and MLflow's client, and times calls of the logger.

Needs numpy, pandas, polars and pyarrow, and the binary that ALMANAC_BINARY names. A binary of the profile `dev` is not
optimised: then the rates of uploads are the service's, and only what the client itself takes says anything.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List

import numpy as np
import polars as pl
import pyarrow as pa

import almanac_ml as al
from almanac_ml import _frames
from almanac_ml._frames import Column

FIRST, LAST = "2026-06-01", "2026-06-30"
FIELDS: Dict[str, Any] = {"key": "loan_id", "score": "p", "predicted_at": "at", "tags": ["branch"]}
SOURCES = {
    "key": Column("loan_id"),
    "predicted_at": Column("at"),
    "release": "v1",
    "score": Column("p"),
    "tag.branch": Column("branch"),
}


def say(what: str, metric: str, note: str = "") -> None:
    """One line of the answer."""
    print(f"{what:62} {metric:>22}  {note}", flush=True)


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
    parser.add_argument("--only", choices=["uploads", "answers"], action="append")
    asked = parser.parse_args()
    only = asked.only or ["uploads", "answers"]
    with tempfile.TemporaryDirectory() as folder, al.open(folder, timeout=600) as client:
        say("machine", f"{os.cpu_count()} cores", f"load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}")
        if "uploads" in only:
            uploads(client, asked.rows, asked.rounds)
        if "answers" in only:
            answers(client, asked.rows, asked.rounds)


if __name__ == "__main__":
    main()
