"""polars on Parquet: FOLDER. Joins outcomes, then accuracy, AUC and Brier score by day and release."""

import sys

import polars as pl

import events

folder = sys.argv[1]
predictions = pl.scan_parquet(events.files(folder, "predictions"))
outcomes = pl.scan_parquet(events.files(folder, "outcomes"))

positive = pl.col("truth") == "default"
positives = positive.sum().cast(pl.Float64)
negatives = pl.len() - positives
# The area under the curve by the ranks of the scores, ties shared.
ranks = pl.col("score").rank("average").filter(positive).sum()
query = (
    predictions.select("key", "predicted_at", "release", "score", "label")
    .join(outcomes.select("key", "predicted_at", truth="label"), on=["key", "predicted_at"], how="inner")
    .group_by(pl.col("predicted_at").dt.date().alias("day"), "release")
    .agg(
        labelled=pl.len(),
        accuracy=(pl.col("label") == pl.col("truth")).mean(),
        auc=(ranks - positives * (positives + 1) / 2) / (positives * negatives),
        brier=((pl.col("score") - positive.cast(pl.Float64)) ** 2).mean(),
    )
    .sort("day", "release")
)
ways = [events.median_ms(lambda: query.collect(engine=engine)) for engine in ("in-memory", "streaming")]
best, days = min(ways, key=lambda way: way[0])
events.found(
    ms=best,
    labelled=float(days["labelled"].sum()),
    **{name: days[name].mean() for name in ("accuracy", "auc", "brier")},
)
