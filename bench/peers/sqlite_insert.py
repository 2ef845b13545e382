"""SQLite, a row per prediction: INPUTS FOLDER ROWS. Rows a second, 10,000 a transaction."""

import pathlib
import sys
import time

import events

inputs, folder, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
tuples = list(events.rows(inputs, "predictions", limit))
connection = events.sqlite(pathlib.Path(folder, "rows.db"))
began = time.perf_counter()
events.insert(connection, "predictions", tuples)
seconds = time.perf_counter() - began
(count,) = connection.execute("select count(*) from predictions").fetchone()
assert count == len(tuples) == limit, (count, limit)
connection.close()
events.found(rows_per_s=count / seconds)
