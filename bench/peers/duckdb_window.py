"""DuckDB: FOLDER FROM TO COLUMNS. The days of a window to a polars frame."""

import pathlib
import sys

import duckdb

import events

folder, first, last, columns = sys.argv[1:5]
connection = duckdb.connect(str(pathlib.Path(folder, "events.duckdb")), read_only=True)
connection.execute(f"set threads = {events.THREADS}")
named = "*" if columns == "all" else columns
query = f"select {named} from predictions where day between '{first}' and '{last}'"
ms, frame = events.median_ms(lambda: connection.sql(query).pl())
events.found(ms=ms, rows=frame.height)
