"""Make the reference of expected metrics of several classes: what NannyML and scikit-learn expect of NannyML's own data set, without labels.

    tests/reference/run estimates_classes

estimates_classes.json has the predictions of the reference and of chunks of the analysis period: the class of each that it says, the real one, both by
their places among the classes, and the scores in twentieths; and how often that came. Scores are rounded
to these before anything is computed, which keeps the file small. `same_calibration` is isotonic regression of scikit-learn
for each class against the rest, divided by its sum, followed by what NannyML computes from calibrated scores (of log loss, which it does not
estimate, by its definition; of AUC scikit-learn's, each prediction once as of the class and once as of another by its probability, since NannyML
does not treat equal scores as equal). `nannyml` is what `nannyml.CBPE` answers as a whole: it leaves scores of a class as they are where calibration did
not bring it nearer in cross-validation.
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
EVERY = 4
STEPS = 20
METRICS = {"roc_auc": "auc", "f1": "macro_f1", "precision": "macro_precision", "recall": "macro_recall", "accuracy": "accuracy"}
EPSILON = np.finfo(float).eps
SCORES = {
    "highstreet_card": "y_pred_proba_highstreet_card",
    "prepaid_card": "y_pred_proba_prepaid_card",
    "upmarket_card": "y_pred_proba_upmarket_card",
}
CLASSES = sorted(SCORES)
COLUMNS = [SCORES[name] for name in CLASSES]


def rounded(frame):
    """Each row in steps that add up to one: rounded down, then up where most is lost."""
    scaled = frame[COLUMNS].to_numpy() * STEPS
    steps = np.floor(scaled + 1e-9)
    order = np.argsort(steps - scaled, axis=1, kind="stable")
    for row, missing in enumerate((STEPS - steps.sum(axis=1)).astype(int)):
        steps[row, order[row, :missing]] += 1
    return steps / STEPS


def rows_of(frame):
    says, real = (frame[column].map(CLASSES.index) for column in ("y_pred", "y_true"))
    scores = (frame[COLUMNS] * STEPS).round().astype(int)
    counts = pd.concat([says, real, scores], axis=1).groupby(["y_pred", "y_true", *COLUMNS]).size()
    return [[*map(int, key), int(n)] for key, n in counts.items()]


def of_calibrated(p, scores, says):
    each = range(len(CLASSES))
    said = [pd.Series((says == name).astype(int).to_numpy()) for name in CLASSES]
    of = [pd.Series(p[:, at]) for at in each]
    mean = lambda metric: float(np.mean([metric(said[at], of[at]) for at in each]))
    auc = [
        roc_auc_score(np.r_[np.ones(len(p)), np.zeros(len(p))], np.r_[scores[:, at], scores[:, at]], sample_weight=np.r_[p[:, at], 1 - p[:, at]])
        for at in each
    ]
    return {
        "accuracy": float(np.mean(np.max(np.stack(said).T * p, axis=1))),
        "macro_precision": mean(metrics.estimate_precision),
        "macro_recall": mean(metrics.estimate_recall),
        "macro_f1": mean(metrics.estimate_f1),
        "auc": float(np.mean(auc)),
        "log_loss": float(np.mean(np.sum(-p * np.log(np.clip(scores, EPSILON, 1 - EPSILON)), axis=1))),
    }


def main():
    data = lambda name: pd.read_csv(DATA / f"{name}.csv")
    reference, analysis = data("mc_reference"), data("mc_analysis").merge(data("mc_analysis_gt"), on="id")
    # Some of them, which keeps the file small.
    reference, analysis = (frame.iloc[::EVERY].reset_index(drop=True) for frame in (reference, analysis))
    for frame in (reference, analysis):
        frame[COLUMNS] = rounded(frame)
    isotonic = {
        name: IsotonicRegression(out_of_bounds="clip").fit(reference[SCORES[name]], (reference["y_true"] == name).astype(int)) for name in CLASSES
    }
    chunk_size = len(analysis) // CHUNKS
    cbpe = nannyml.CBPE(
        problem_type="classification_multiclass",
        y_pred_proba=SCORES,
        y_pred="y_pred",
        y_true="y_true",
        metrics=list(METRICS),
        chunk_size=chunk_size,
    ).fit(reference.copy())
    theirs = cbpe.estimate(analysis.drop(columns=["y_true"])).filter(period="analysis").to_df()
    chunks = []
    for number in range(CHUNKS):
        chunk = analysis.iloc[number * chunk_size : (number + 1) * chunk_size]
        scores = chunk[COLUMNS].to_numpy()
        p = np.stack([isotonic[name].predict(chunk[SCORES[name]]) for name in CLASSES]).T
        total = p.sum(axis=1, keepdims=True)
        p = np.divide(p, total, out=np.full_like(p, 1 / len(CLASSES)), where=total != 0)
        chunks.append(
            {
                "cases": rows_of(chunk),
                "same_calibration": of_calibrated(p, scores, chunk["y_pred"]),
                "nannyml": {ours: float(theirs[name_of]["value"].iloc[number]) for name_of, ours in METRICS.items()},
            }
        )
    found = {"classes": CLASSES, "reference": rows_of(reference), "chunks": chunks}
    (HERE / "estimates_classes.json").write_text(json.dumps(found, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
