"""The events that the peers get: Parquet files, one a day and kind, read before their time begins."""

import json
import os
import pathlib
import sqlite3
import statistics
import time

# As many threads as Almanac has workers.
THREADS = int(os.environ.get("BENCH_THREADS", "2"))
# How often something warm is timed, after once without; the median counts.
TIMES = 3


def files(folder, kind):
    """The files of a kind, in the order of their days."""
    return sorted(pathlib.Path(folder, kind).glob("*.parquet"))


def rows(folder, kind, limit=None):
    """Events as tuples: the day, then the columns, times as whole microseconds."""
    import polars as pl

    left = limit
    for path in files(folder, kind):
        frame = pl.read_parquet(path, n_rows=left)
        frame = frame.with_columns(pl.selectors.datetime().dt.timestamp("us"))
        for row in frame.iter_rows():
            yield (path.stem, *row)
        if left is not None:
            left -= frame.height
            if left <= 0:
                return


def median_ms(work):
    """The median time of `work` in milliseconds, after once without being timed; and its result."""
    result = work()
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        result = work()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times), result


def bytes_of(folder):
    """The bytes of all files in a folder and below."""
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*") if path.is_file())


def sqlite(path):
    """A new SQLite file as durable as Almanac's: a commit returns when it is on the disk."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.execute(
        "create table predictions (day text, key text, predicted_at integer, release text, score real,"
        " label text, branch text)"
    )
    connection.execute(
        "create table outcomes (day text, key text, predicted_at integer, observed_at integer, label text)"
    )
    connection.execute("create index predictions_day on predictions (day)")
    connection.execute("create index outcomes_day on outcomes (day)")
    return connection


def insert(connection, kind, tuples, batch=10_000):
    """Inserts rows, `batch` of them a transaction."""
    statement = f"insert into {kind} values ({', '.join('?' * len(tuples[0]))})"
    for start in range(0, len(tuples), batch):
        connection.execute("begin")
        connection.executemany(statement, tuples[start : start + batch])
        connection.execute("commit")


def found(**readings):
    """Prints what was found, as the one line that is read."""
    print(json.dumps(readings))
