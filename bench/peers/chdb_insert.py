"""Embedded ClickHouse, a row per prediction: INPUTS FOLDER ROWS FORM. Rows a second, 10,000 an insert, each of which is on the
disk when it returns. `ndjson` parses text that stands in memory, `arrow` takes tables of pyarrow."""

import pathlib
import sys
import time

import events
from chdb.session import Session

BATCH = 10_000
inputs, folder, limit, form = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]


def batches():
    """The predictions as frames of polars, at most BATCH rows of one day in each."""
    import polars as pl

    left = limit
    for path in events.files(inputs, "predictions"):
        frame = pl.read_parquet(path, n_rows=left).with_columns(pl.selectors.datetime().dt.timestamp("us"))
        frame = frame.rename({"tag.branch": "branch"})
        yield from frame.iter_slices(BATCH)
        left -= frame.height
        if left <= 0:
            return


session = Session(str(pathlib.Path(folder, "chdb")))
session.query(f"set max_threads = {events.THREADS}")
session.query("create database bench")
session.query(
    "create table bench.predictions (key String, predicted_at Int64, release LowCardinality(String), score Float64,"
    " label LowCardinality(Nullable(String)), branch LowCardinality(Nullable(String))) engine = MergeTree order by predicted_at"
    " settings fsync_after_insert = 1, fsync_part_directory = 1"
)
if form == "ndjson":
    statements = [f"insert into bench.predictions format JSONEachRow\n{frame.write_ndjson()}" for frame in batches()]

    def insert(statement):
        session.query(statement)

else:
    statements = [frame.to_arrow() for frame in batches()]

    def insert(statement):
        global table
        table = statement
        session.query("insert into bench.predictions select key, predicted_at, release, score, label, branch from Python(table)")


began = time.perf_counter()
for statement in statements:
    insert(statement)
seconds = time.perf_counter() - began
count = int(str(session.query("select count() from bench.predictions", "CSV")).strip())
assert count == limit, (count, limit)
session.close()
events.found(rows_per_s=count / seconds)
