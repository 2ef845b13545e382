"""What an analyst waits for who uses Almanac's Python client: URL WORKSPACE FROM TO ROWS [COLUMNS]. From the call to a polars
frame."""

import datetime
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients/python/src"))

import almanac_ml as al
import events

url, workspace, first, last, rows = sys.argv[1:6]
columns = sys.argv[6].split(",") if len(sys.argv) > 6 else None
asked = al.connect(url, progress=False).workspace(workspace)
since, until = (datetime.date.fromisoformat(day) for day in (first, last))

ms, frame = events.median_ms(lambda: asked.predictions(since, until, columns=columns, frames="polars"))
if frame.height != int(rows):
    raise SystemExit(f"{frame.height} rows instead of {rows}")
events.found(ms=ms)
