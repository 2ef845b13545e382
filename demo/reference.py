"""Compute the figures for a few days with scikit-learn, for the tests to compare with.

Reads the two Parquet files of the demo and writes tests/data/reference.json.
"""

import json
import math
from pathlib import Path

import pandas as pd
import sklearn
from sklearn import metrics

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "tests" / "data" / "reference.json"

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


def read():
    """The predictions, each with its outcome where there is one, and the outcomes."""
    predictions = pd.read_parquet(HERE / "data" / "predictions.parquet")
    outcomes = pd.read_parquet(HERE / "data" / "outcomes.parquet")
    joined = predictions.merge(
        outcomes[["key", "predicted_at", "label"]],
        on=["key", "predicted_at"],
        how="left",
        suffixes=("", "_outcome"),
        validate="many_to_one",
    )
    joined["day"] = joined.predicted_at.dt.tz_convert("America/New_York").dt.strftime("%Y-%m-%d")
    return joined, outcomes


def figures(day, release, rows):
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


def main():
    joined, outcomes = read()
    chosen = joined[joined.day.isin(DAYS)].groupby(["day", "release"])
    june = joined[(joined.release == "v1") & joined.day.str.startswith("2013-06")]
    totals = joined.release.value_counts()
    reference = {
        "generated_by": f"demo/reference.py with scikit-learn {sklearn.__version__}",
        "days": [figures(day, release, rows) for (day, release), rows in chosen],
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
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(reference, indent=2, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
