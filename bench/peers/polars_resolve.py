"""polars on Parquet: FOLDER QUESTIONS. The latest prediction of each key up to an instant, at most 90 days before it."""

import sys

import polars as pl

import events

folder, questions = sys.argv[1:3]
predictions = pl.scan_parquet(events.files(folder, "predictions")).select("key", "predicted_at")
asked = pl.scan_parquet(questions).select("key", "observed_at")
in_time = pl.col("predicted_at").is_between(pl.col("observed_at") - pl.duration(days=90), pl.col("observed_at"))
query = predictions.join(asked, on="key").filter(in_time).group_by("key", "observed_at").agg(pl.col("predicted_at").max())

ways = [events.median_ms(lambda: query.collect(engine=engine)) for engine in ("in-memory", "streaming")]
best, found = min(ways, key=lambda way: way[0])
events.found(found=found.height, keys_per_s=found.height / best * 1e3)
