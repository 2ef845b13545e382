"""DuckDB on its own file: INPUTS FOLDER ROWS. Bytes a row of both kinds. The file stays for queries."""

import pathlib
import sys

import duckdb

import events

inputs, folder, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = duckdb.connect(str(pathlib.Path(folder, "events.duckdb")))
connection.execute(f"set threads = {events.THREADS}")
count = 0
for kind in ["predictions", "outcomes"]:
    paths = [str(path) for path in events.files(inputs, kind)]
    # A day as a date, from the name of the file: what a user would filter by.
    connection.execute(
        f"create table {kind} as select cast(predicted_at as date) as day, * from read_parquet($1) limit {limit}",
        [paths],
    )
    (rows,) = connection.execute(f"select count(*) from {kind}").fetchone()
    count += rows
connection.execute("checkpoint")
connection.close()
events.found(bytes_per_row=events.bytes_of(folder) / count)
