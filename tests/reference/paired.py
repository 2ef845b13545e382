"""Make the reference of head-to-head: what scipy and statsmodels say of two releases that predicted the same cases.

    venv/bin/python tests/reference/paired.py

paired.json has cases, each with the periods of what both predicted and what is expected. Two statistics are in no library that is
pinned here and are computed by numpy from their definitions: the test of DeLong, DeLong and Clarke-Pearson (1988) with all pairs of a
positive and a negative laid out, and the confidence sequence of Waudby-Smith and Ramdas (2023, theorem 2).
"""

import json
from pathlib import Path

import numpy as np
import scipy
import statsmodels
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

assert scipy.__version__ == "1.17.1" and statsmodels.__version__ == "0.15.0"
HERE = Path(__file__).resolve().parent
ALPHA = 0.05


def of_means(one, other):
    one, other = np.asarray(one, float), np.asarray(other, float)
    difference = one - other
    says = {"of": [float(one.mean()), float(other.mean())], "interval": None, "p_value": None}
    if len(one) > 1:
        error = float(stats.sem(difference))
        low, high = stats.norm.interval(0.95, loc=difference.mean(), scale=error) if error > 0 else (difference.mean(),) * 2
        says["interval"] = [float(low), float(high)]
    if np.any(difference != 0):
        says["p_value"] = float(stats.wilcoxon(one, other, method="asymptotic", correction=False).pvalue)
    return says


def accuracy(one, other):
    one, other = np.array(one), np.array(other)
    says = of_means(one, other)
    table = [[int(np.sum(one & other)), int(np.sum(one & ~other))], [int(np.sum(~one & other)), int(np.sum(~one & ~other))]]
    says["p_value"] = float(mcnemar(table, exact=True).pvalue) if table[0][1] + table[1][0] else None
    return says


def delong(probabilities, real):
    probabilities, real = np.array(probabilities, float), np.array(real, bool)
    above = []
    for side in probabilities.T:
        positives, negatives = side[real], side[~real]
        above.append((positives[:, None] > negatives[None, :]) + (positives[:, None] == negatives[None, :]) / 2)
    of = [float(side.mean()) for side in above]
    difference = above[0] - above[1]
    of_positives, of_negatives = difference.mean(axis=1), difference.mean(axis=0)
    error = np.sqrt(of_positives.var(ddof=1) / len(of_positives) + of_negatives.var(ddof=1) / len(of_negatives))
    low, high = stats.norm.interval(0.95, loc=of[0] - of[1], scale=error)
    return {"of": of, "interval": [float(low), float(high)], "p_value": float(2 * stats.norm.sf(abs(of[0] - of[1]) / error))}


def sequence(numbers):
    """The bounds after each number of [0, 1]."""
    x = np.asarray(numbers, float)
    t = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (t + 1)
    variances = (0.25 + np.cumsum((x - means) ** 2)) / (t + 1)
    means_before, variances_before = np.append(0.5, means[:-1]), np.append(0.25, variances[:-1])
    bets = np.minimum(0.5, np.sqrt(2 * np.log(2 / ALPHA) / (variances_before * t * np.log(1 + t))))
    price = np.cumsum(4 * (x - means_before) ** 2 * (-np.log(1 - bets) - bets) / 4)
    centre = np.cumsum(bets * x) / np.cumsum(bets)
    radius = (np.log(2 / ALPHA) + price) / np.cumsum(bets)
    return np.maximum(0, centre - radius), np.minimum(1, centre + radius)


def so_far(periods, advantages):
    numbers = (np.concatenate(advantages) + 1) / 2
    lower, upper = sequence(numbers)
    outside = np.flatnonzero((lower > 0.5) | (upper < 0.5))
    ends = np.cumsum([len(period) for period in advantages])
    number_of = np.concatenate([[number] * len(period) for number, period in enumerate(periods)])
    says = []
    for end, own in zip(ends, advantages):
        first = outside[outside < end]
        says.append({
            "advantage": float(np.mean(own)),
            "n": int(end),
            "so_far": float(2 * numbers[:end].mean() - 1),
            "bounds": [float(2 * lower[end - 1] - 1), float(2 * upper[end - 1] - 1)],
            "decided": int(number_of[first[0]]) if len(first) else None,
        })
    return says


def binary(rng, sizes, better):
    periods, advantages, says = [], [], []
    for size in sizes:
        real = rng.random(size) < 0.4
        scores = [np.round(np.clip(real * lift + rng.normal(0.4, 0.25, size) * (1 - lift), 0, 1), 2) for lift in better]
        right = [(side >= 0.5) == real for side in scores]
        brier = [(side - real) ** 2 for side in scores]
        given = [np.clip(np.where(real, side, 1 - side), np.finfo(float).eps, 1 - np.finfo(float).eps) for side in scores]
        periods.append({"real": real.tolist(), "probabilities": np.transpose(scores).tolist()})
        advantages.append(brier[1] - brier[0])
        says.append({
            "accuracy": accuracy(*right),
            "auc": delong(np.transpose(scores), real),
            "brier": of_means(*brier),
            "log_loss": of_means(*[-np.log(side) for side in given]),
            "mae": None,
        })
    of_sequence = so_far([period["real"] for period in periods], advantages)
    return {"periods": periods, "figures": says, "sequence": of_sequence, "measure": "brier"}


def regression(rng, sizes, spreads):
    periods, advantages, says = [], [], []
    for size in sizes:
        errors = [np.abs(np.round(rng.normal(0, spread, size), 1)) for spread in spreads]
        periods.append({"errors": np.transpose(errors).tolist()})
        advantages.append(np.sign(errors[1] - errors[0]))
        says.append({"accuracy": None, "auc": None, "brier": None, "log_loss": None, "mae": of_means(*errors)})
    of_sequence = so_far([period["errors"] for period in periods], advantages)
    return {"periods": periods, "figures": says, "sequence": of_sequence, "measure": "wins"}


def main():
    rng = np.random.default_rng(19)
    cases = {
        "better": binary(rng, [60, 90, 150], (0.4, 0.2)),
        "alike": binary(rng, [80, 40], (0.3, 0.3)),
        "few": binary(rng, [12], (0.5, 0.1)),
        "numbers": regression(rng, [50, 120, 80], (1.0, 2.0)),
        "same": regression(rng, [10, 10], (1.0, 1.0)),
    }
    (HERE / "paired.json").write_text(json.dumps(cases, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
