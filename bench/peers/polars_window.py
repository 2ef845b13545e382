"""polars on Parquet: FOLDER FROM TO COLUMNS. The days of a window to a frame, in the way that is faster."""

import sys

import polars as pl

import events

folder, first, last, columns = sys.argv[1:5]
columns = None if columns == "all" else columns.split(",")
paths = [path for path in events.files(folder, "predictions") if first <= path.stem <= last]


def scanned():
    frame = pl.scan_parquet(paths)
    return (frame if columns is None else frame.select(columns)).collect()


def read():
    return pl.read_parquet(paths, columns=columns)


ways = [events.median_ms(way) for way in (scanned, read)]
best, frame = min(ways, key=lambda way: way[0])
events.found(ms=best, rows=frame.height)
