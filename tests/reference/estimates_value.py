"""Make the reference of what predictions are expected to be worth: what scipy and numpy say of the cases of estimates.json.

    venv/bin/python tests/reference/estimates_value.py

estimates.json (see estimates.py) has the cases of a reference and of chunks of an analysis period. A score means what isotonic regression of the
reference says (`scipy.optimize.isotonic_regression`, between known scores on a line). A prediction is worth what the matrix of costs says, by the
probability of each truth, as `business_value` of NannyML's CBPE does; `low` and `high` are the 2.5% and 97.5% points of a normal
distribution with the variance of such a sum of independent truths.
"""

import json
from pathlib import Path

import numpy as np
import scipy
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


def says(worth, change):
    deviation = np.sqrt(change)
    return {"value": worth, "low": worth + norm.ppf(0.025) * deviation, "high": worth + norm.ppf(0.975) * deviation}


def main():
    found = {}
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
    text = json.dumps({"costs": COSTS, "sets": found}, separators=(",", ":"))
    (HERE / "estimates_value.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
