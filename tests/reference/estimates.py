"""Make the reference of expected metrics: what NannyML and scikit-learn expect of NannyML's own data sets, without labels.

    tests/reference/run estimates

estimates.json has for each set the cases of its reference and of chunks of its analysis period as rows of a score, whether it says the
positive class, and how many such cases are negative and positive. Scores are rounded to two places before anything is computed, which
keeps the file small. `same_calibration` is isotonic regression of scikit-learn followed by what NannyML computes from calibrated scores
(of Brier score and log loss, which it does not estimate, by their definition; of AUC scikit-learn's, each case once as a positive and once
as a negative by its probability, as NannyML rounds its counts to five places); `nannyml` is what `nannyml.CBPE` answers as a whole.
"""

import json
import os
import warnings
from pathlib import Path

os.environ["NML_DISABLE_USAGE_LOGGING"] = "1"

import nannyml
import numpy as np
import pandas as pd
import sklearn
from nannyml.performance_estimation.confidence_based import metrics
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score

assert nannyml.__version__ == "0.13.1" and sklearn.__version__ == "1.9.1"
warnings.simplefilter("ignore")
HERE = Path(__file__).resolve().parent
DATA = Path(nannyml.__file__).parent / "datasets" / "data"
CHUNKS = 10
METRICS = {"roc_auc": "auc", "f1": "f1", "precision": "precision", "recall": "recall", "accuracy": "accuracy"}
EPSILON = np.finfo(float).eps


def sets():
    data = lambda name: pd.read_csv(DATA / f"{name}.csv")
    analysis = data("synthetic_car_loan_analysis").merge(data("synthetic_car_loan_analysis_target"), on="id")
    yield "car_loan", data("synthetic_car_loan_reference"), analysis, ("y_pred_proba", "y_pred", "repaid")
    frames = [pd.read_parquet(DATA / f"employment_MA_{name}.pq") for name in ("reference", "analysis", "analysis_target")]
    census = frames[1].merge(frames[2], on="id") if "id" in frames[2] else frames[1].join(frames[2])
    yield "census", frames[0], census, ("predicted_probability", "prediction", "employed")


def rounded_sets():
    """The sets, with scores of two places."""
    for name, reference, analysis, (score, says, real) in sets():
        for frame in (reference, analysis):
            frame[score] = frame[score].round(2)
            frame[says] = frame[says].astype(int)
            frame[real] = frame[real].astype(int)
        yield name, reference, analysis, (score, says, real)


def rows_of(score, says, real):
    frame = pd.DataFrame({"score": score, "says": says, "real": real})
    counts = frame.groupby(["score", "says"])["real"].agg(["size", "sum"])
    return [[float(s), int(c), int(n - p), int(p)] for (s, c), (n, p) in zip(counts.index, counts.to_numpy())]


def of_calibrated(p, score, says):
    loss = -(p * np.log(np.clip(score, EPSILON, 1 - EPSILON)) + (1 - p) * np.log(np.clip(1 - score, EPSILON, 1 - EPSILON)))
    return {
        "accuracy": float(np.mean(np.where(says == 1, p, 1 - p))),
        "precision": float(metrics.estimate_precision(pd.Series(says), pd.Series(p))),
        "recall": float(metrics.estimate_recall(pd.Series(says), pd.Series(p))),
        "f1": float(metrics.estimate_f1(pd.Series(says), pd.Series(p))),
        "auc": float(roc_auc_score(np.r_[np.ones_like(p), np.zeros_like(p)], np.r_[score, score], sample_weight=np.r_[p, 1 - p])),
        "brier": float(np.mean(p * (1 - score) ** 2 + (1 - p) * score**2)),
        "log_loss": float(loss.mean()),
    }


def main():
    found = {}
    for name, reference, analysis, (score, says, real) in rounded_sets():
        isotonic = IsotonicRegression(out_of_bounds="clip").fit(reference[score], reference[real])
        chunk_size = len(analysis) // CHUNKS
        cbpe = nannyml.CBPE(
            problem_type="classification_binary",
            y_pred_proba=score,
            y_pred=says,
            y_true=real,
            metrics=list(METRICS),
            chunk_size=chunk_size,
        ).fit(reference)
        theirs = cbpe.estimate(analysis.drop(columns=[real])).filter(period="analysis").to_df()
        chunks = []
        for number in range(CHUNKS):
            chunk = analysis.iloc[number * chunk_size : (number + 1) * chunk_size]
            columns = [chunk[column].to_numpy() for column in (score, says, real)]
            p = isotonic.predict(columns[0])
            chunks.append(
                {
                    "cases": rows_of(*columns),
                    "same_calibration": of_calibrated(p, columns[0], columns[1]),
                    "nannyml": {ours: float(theirs[name_of]["value"].iloc[number]) for name_of, ours in METRICS.items()},
                }
            )
        found[name] = {"reference": rows_of(reference[score], reference[says], reference[real]), "chunks": chunks}
    (HERE / "estimates.json").write_text(json.dumps(found, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
