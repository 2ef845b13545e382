"""NannyML: FOLDER. Joins outcomes with pandas, then daily accuracy and AUC; fitted on the first day."""

import os
import sys

# Before it is imported: it would tell its makers that it is used.
os.environ["NML_DISABLE_USAGE_LOGGING"] = "1"

import nannyml
import pandas as pd

import events

folder = sys.argv[1]


def read(kind, columns):
    return pd.concat([pd.read_parquet(path, columns=columns) for path in events.files(folder, kind)])


def work():
    predictions = read("predictions", ["key", "predicted_at", "score", "label"])
    outcomes = read("outcomes", ["key", "predicted_at", "label"]).rename(columns={"label": "truth"})
    joined = predictions.merge(outcomes, on=["key", "predicted_at"], how="inner")
    joined["y_pred"] = (joined["label"] == "default").astype(int)
    joined["y_true"] = (joined["truth"] == "default").astype(int)
    joined["at"] = joined["predicted_at"].dt.tz_localize(None)
    data = joined[["at", "score", "y_pred", "y_true"]].reset_index(drop=True)
    calculator = nannyml.PerformanceCalculator(
        y_pred_proba="score",
        y_pred="y_pred",
        y_true="y_true",
        timestamp_column_name="at",
        problem_type="classification_binary",
        metrics=["roc_auc", "accuracy"],
        chunk_period="D",
    )
    calculator.fit(data[data["at"] < data["at"].min().normalize() + pd.Timedelta(days=1)])
    results = calculator.calculate(data).filter(period="analysis").to_df()
    assert len(results) >= 1, "no day was judged"
    return len(data)


events.TIMES = 1
ms, labelled = events.median_ms(work)
events.found(ms=ms, labelled=float(labelled))
