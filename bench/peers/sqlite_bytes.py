"""SQLite, a row per event: INPUTS FOLDER ROWS. Bytes a row, with an index on day, of both kinds."""

import pathlib
import sys

import events

inputs, folder, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = events.sqlite(pathlib.Path(folder, "rows.db"))
count = 0
for kind in ["predictions", "outcomes"]:
    tuples = list(events.rows(inputs, kind, limit))
    events.insert(connection, kind, tuples)
    count += len(tuples)
connection.close()
events.found(bytes_per_row=events.bytes_of(folder) / count)
