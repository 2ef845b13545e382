"""A group-by of a window: ENGINE FOLDER FROM TO. The mean score and the number of predictions of each day and release, from
Parquet files."""

import sys

import events

engine, folder, first, last = sys.argv[1:5]
paths = [path for path in events.files(folder, "predictions") if first <= path.stem <= last]


def polars():
    import polars as pl

    frame = pl.scan_parquet(paths, include_file_paths="path").group_by("path", "release")
    frame = frame.agg(pl.len().alias("n"), pl.col("score").mean().alias("score")).collect()
    return frame.height, int(frame["n"].sum()), float((frame["score"] * frame["n"]).sum())


def chdb():
    import chdb

    files = f"{folder}/predictions/{{{','.join(path.name for path in paths)}}}"
    statement = (
        "select count(), sum(n), sum(score * n) from (select _file, release, count() as n, avg(score) as score"
        f" from file('{files}', Parquet) group by _file, release) settings max_threads = {events.THREADS}"
    )
    groups, rows, total = str(chdb.query(statement, "CSV")).strip().split(",")
    return int(groups), int(rows), float(total)


ms, (groups, rows, total) = events.median_ms({"polars": polars, "chdb": chdb}[engine])
events.found(ms=ms, groups=groups, rows=rows, total=total)
