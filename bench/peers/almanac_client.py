"""Almanac's Python client: frame|metrics|logger|calls URL INPUTS ROWS CONNECTIONS.

Stores the predictions as one pandas frame, metrics as one frame, or metrics by calls of a logger: rows a second until
all are durable, and what the client itself used of the processor. `calls` times each call of a logger, 5,000 a second,
while the service answers, is gone or hangs, and prints the p99 of each."""

import pathlib
import socket
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients/python/src"))

import numpy as np
import pandas as pd
import polars as pl

import almanac_ml as al
import events

mode, url, inputs, rows, connections = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
CALLS_A_SECOND = 5_000
client = al.connect(url, connections=connections, progress=False)
workspace = client.workspace("bench/loans")


def timed(work):
    """How fast `work` stored the rows, as it says itself."""
    used, began = time.process_time(), time.perf_counter()
    stored = work()
    seconds, used = time.perf_counter() - began, time.process_time() - used
    assert stored == rows, (stored, rows)
    events.found(rows_per_s=rows / seconds, client_cpu_us=used / rows * 1e6)


def logged(values):
    with workspace.logger(max_queued=2 * rows) as logger:
        for value in values:
            logger.metric("score", value)
        assert logger.flush(600), logger.stats
        return logger.stats.stored


def calls(address):
    """Seconds of each call in a loop that does other work, which lets others run."""
    spans = np.empty(rows)
    tags, features = {"branch": "north"}, {"age": 41.0, "income": 3.5}
    with tempfile.TemporaryDirectory() as spool:
        logger = al.connect(address).workspace(workspace.path).logger(spool=spool, max_queued=10 * rows)
        due = time.perf_counter()
        for at in range(rows):
            due += 1 / CALLS_A_SECOND
            while time.perf_counter() < due:
                time.sleep(0)
            began = time.perf_counter()
            logger.prediction("v1", f"loan-{at}", score=0.5, tags=tags, features=features)
            spans[at] = time.perf_counter() - began
        stats = logger.close(5)
    assert (stats.logged, stats.dropped, stats.refused) == (rows, 0, 0), stats
    return float(np.quantile(spans, 0.99) * 1e6)


if mode == "frame":
    files = events.files(inputs, "predictions")
    frame = pl.concat([pl.read_parquet(path) for path in files]).head(rows).to_pandas()
    rows = len(frame)
    timed(lambda: workspace.log_predictions(frame, release="release", tags={"branch": "tag.branch"}).rows)
elif mode == "metrics":
    at = pd.date_range("2025-01-01", periods=rows, freq="1s", tz="UTC")
    frame = pd.DataFrame({"value": np.arange(rows) % 1000 / 1000, "measured_at": at})
    timed(lambda: workspace.log_metrics(frame, name="score").rows)
elif mode == "logger":
    values = (np.arange(rows) % 1000 / 1000).tolist()
    timed(lambda: logged(values))
else:
    with socket.create_server(("127.0.0.1", 0)) as hole:
        # It takes connections, as far as the system does by itself, and never answers.
        hangs = f"http://127.0.0.1:{hole.getsockname()[1]}"
        events.found(answers_p99_us=calls(url), gone_p99_us=calls("http://127.0.0.1:9"), hangs_p99_us=calls(hangs))
