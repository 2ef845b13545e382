"""Make the reference of what predictions are expected to be worth: what NannyML, scipy and numpy say of the cases of estimates.json.

    tests/reference/run estimates_value

estimates.json (see estimates.py) has the cases of a reference and of chunks of an analysis period. A score means what isotonic regression of the
reference says (`scipy.optimize.isotonic_regression`, between known scores on a line). A prediction is worth what the matrix of costs says, by the
probability of each truth, as `business_value` of NannyML's CBPE does; `low` and `high` are the 2.5% and 97.5% points of a normal
distribution with the variance of such a sum of independent truths. `nannyml` is what `nannyml.CBPE` answers as a whole, of the same rounded
scores of its own data sets.
"""

import json
from pathlib import Path

import nannyml
import numpy as np
import scipy
from estimates import CHUNKS, rounded_sets
from scipy.optimize import isotonic_regression
from scipy.stats import norm

assert scipy.__version__ == "1.17.1" and np.__version__ == "2.4.6"
HERE = Path(__file__).resolve().parent
COSTS = {"tp": 10.0, "tn": 0.5, "fp": 4.0, "fn": 25.0}


def calibrated(reference):
    rows = np.array(reference)
    scores = np.unique(rows[:, 0])
    negatives, positives = (np.array([rows[rows[:, 0] == score, at].sum() for score in scores]) for at in (2, 3))
    shares = isotonic_regression(positives / (negatives + positives), weights=negatives + positives).x
    return lambda score: np.interp(score, scores, shares)


def theirs():
    """What CBPE says of each chunk, by set."""
    matrix = [[COSTS["tn"], -COSTS["fp"]], [-COSTS["fn"], COSTS["tp"]]]
    for name, reference, analysis, (score, says, real) in rounded_sets():
        cbpe = nannyml.CBPE(
            problem_type="classification_binary",
            y_pred_proba=score,
            y_pred=says,
            y_true=real,
            metrics=["business_value"],
            business_value_matrix=matrix,
            chunk_size=len(analysis) // CHUNKS,
        ).fit(reference)
        frame = cbpe.estimate(analysis.drop(columns=[real])).filter(period="analysis").to_df()
        yield name, [float(value) for value in frame["business_value"]["value"][:CHUNKS]]


def says(worth, change):
    deviation = np.sqrt(change)
    return {"value": worth, "low": worth + norm.ppf(0.025) * deviation, "high": worth + norm.ppf(0.975) * deviation}


def main():
    found, of_nannyml = {}, dict(theirs())
    for name, of in json.loads((HERE / "estimates.json").read_text()).items():
        probability = calibrated(of["reference"])
        found[name] = []
        for chunk in of["chunks"]:
            score, positive, *counts = np.array(chunk["cases"]).T
            n, p = sum(counts), probability(score)
            if_positive = np.where(positive == 1, COSTS["tp"], -COSTS["fn"])
            if_negative = np.where(positive == 1, -COSTS["fp"], COSTS["tn"])
            worth = float(np.sum(n * (p * if_positive + (1 - p) * if_negative)))
            change = float(np.sum(n * p * (1 - p) * (if_positive - if_negative) ** 2))
            all_of = n.sum()
            found[name].append({"value": says(worth, change), "value_per_prediction": says(worth / all_of, change / all_of**2)})
    text = json.dumps({"costs": COSTS, "sets": found, "nannyml": of_nannyml}, separators=(",", ":"))
    (HERE / "estimates_value.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
