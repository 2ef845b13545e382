"""Compute the metrics of the sets with scikit-learn, for the tests to compare with.

Reads the Parquet files of the demo. Writes tests/data/reference.json, some days of the flights, and
tests/data/reference-weather.csv, every day and month of the weather.
"""

import json
import math
from pathlib import Path

import pandas as pd
import sklearn
from sklearn import metrics

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "tests" / "data"

# The first and last day of each release, ordinary days, the day with the worst
# delays in June, and the day on which New York's clocks went back.
DAYS = [
    "2013-04-01",
    "2013-04-15",
    "2013-06-01",
    "2013-06-13",
    "2013-06-30",
    "2013-07-01",
    "2013-09-15",
    "2013-11-03",
    "2013-12-31",
]


def read(name, real, zone):
    """The predictions of a set, each with its outcome where there is one, and the outcomes.

    The day of a prediction is that of its instant in a time zone.
    """
    predictions = pd.read_parquet(HERE / "data" / name / "predictions.parquet")
    outcomes = pd.read_parquet(HERE / "data" / name / "outcomes.parquet")
    joined = predictions.merge(
        outcomes[["key", "predicted_at", real]],
        on=["key", "predicted_at"],
        how="left",
        suffixes=("", "_outcome"),
        validate="many_to_one",
    )
    joined["day"] = joined.predicted_at.dt.tz_convert(zone).dt.strftime("%Y-%m-%d")
    return joined, outcomes


def binary_metrics(day, release, rows):
    """One day of one release; the metrics are over the rows that have an outcome."""
    done = rows[rows.label_outcome.notna()]
    late = done.label_outcome == "late"
    said_late = done.label == "late"
    values = {
        "accuracy": metrics.accuracy_score(late, said_late),
        "auc": metrics.roc_auc_score(late, done.score),
        "log_loss": metrics.log_loss(late, done.score),
        "brier": metrics.brier_score_loss(late, done.score),
        "precision": metrics.precision_score(late, said_late, zero_division=math.nan),
        "recall": metrics.recall_score(late, said_late, zero_division=math.nan),
        "f1": metrics.f1_score(late, said_late, zero_division=math.nan),
    }
    counts = {"predictions": len(rows), "labelled": len(done), "positives": int(late.sum())}
    return {"day": day, "release": release, **counts, **{k: number(v) for k, v in values.items()}}


def number(value):
    """A float for JSON, which has no NaN."""
    return None if math.isnan(value) else float(value)


def flights():
    joined, outcomes = read("flights", "label", "America/New_York")
    chosen = joined[joined.day.isin(DAYS)].groupby(["day", "release"])
    june = joined[(joined.release == "v1") & joined.day.str.startswith("2013-06")]
    totals = joined.release.value_counts()
    reference = {
        "generated_by": f"demo/reference.py with scikit-learn {sklearn.__version__}",
        "days": [binary_metrics(day, release, rows) for (day, release), rows in chosen],
        "june_2013": {
            "v1_predictions": len(june),
            "outcomes": int(june.label_outcome.notna().sum()),
        },
        "totals": {
            "predictions_v1": int(totals["v1"]),
            "predictions_v2": int(totals["v2"]),
            "outcomes": len(outcomes),
        },
    }
    (OUT / "reference.json").write_text(json.dumps(reference, indent=2, allow_nan=False) + "\n")


def regression_metrics(group_by, day, release, rows):
    """A day or month of one release; the metrics are over the rows that have an outcome."""
    done = rows[rows.value_outcome.notna()]
    real, predicted = done.value_outcome, done.value
    return {
        "group_by": group_by,
        "day": day,
        "release": release,
        "predictions": len(rows),
        "labelled": len(done),
        "mae": metrics.mean_absolute_error(real, predicted),
        "rmse": metrics.root_mean_squared_error(real, predicted),
        "bias": (predicted - real).mean(),
        "median_absolute_error": metrics.median_absolute_error(real, predicted),
        "r2": metrics.r2_score(real, predicted),
        "coverage": ((done.lower <= real) & (real <= done.upper)).mean(),
        "interval_width": (done.upper - done.lower).mean(),
    }


def weather():
    joined, _ = read("weather", "value", "UTC")
    joined["month"] = joined.day.str[:7] + "-01"
    periods = [
        regression_metrics(period, *name, rows)
        for period in ("day", "month")
        for name, rows in joined.groupby([period, "release"])
    ]
    pd.DataFrame(periods).to_csv(OUT / "reference-weather.csv", index=False)


if __name__ == "__main__":
    flights()
    weather()
