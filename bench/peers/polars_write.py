"""polars: INPUTS FOLDER. Writes one Parquet file a day and kind, as polars does by default (zstd)."""

import pathlib
import sys
import time

import polars as pl

import events

inputs, folder = sys.argv[1], sys.argv[2]
seconds = count = 0
for kind in ["predictions", "outcomes"]:
    pathlib.Path(folder, kind).mkdir(parents=True)
    for path in events.files(inputs, kind):
        frame = pl.read_parquet(path)
        began = time.perf_counter()
        frame.write_parquet(pathlib.Path(folder, kind, path.name))
        seconds += time.perf_counter() - began
        count += frame.height
events.found(rows_per_s=count / seconds, bytes_per_row=events.bytes_of(folder) / count)
