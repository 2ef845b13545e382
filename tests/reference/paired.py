"""Make the reference of head-to-head: what scipy, statsmodels, MLstatkit and confseq say of two releases that predicted the same cases.

    tests/reference/run paired

paired.json has cases, each with the periods of what both predicted and what is expected. The areas under the curves and the variance of
their difference are those of MLstatkit, which ranks cases as Sun and Xu (2014) do. The confidence sequence is that of confseq: its
`predmix_lower_cs` with its bets and the variances of theorem 2 of Waudby-Smith and Ramdas (2023), which are taken from the mean with half
a number of 1/2 before the first. `twosided` has the bounds of its `predmix_empbern_twosided_cs`, which takes variances from the plain mean,
0 before the first number: bounds of the same mean by another prediction of it, which are near and not the same.

confseq 0.0.11 has no wheels. It cannot be built without the headers of Boost (CMake stops at `Boost_INCLUDE_DIR-NOTFOUND`), which its two
modules in C++ include; `predmix` needs neither, so `run` takes its Python files out of the source distribution as they are. They name
`np.float_`, which numpy 2 no longer has.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

np.float_ = np.float64

import scipy
import statsmodels
from confseq.betting_strategies import lambda_predmix_eb
from confseq.predmix import predmix_empbern_twosided_cs, predmix_lower_cs
from MLstatkit import Delong_test
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

assert version("mlstatkit") == "0.1.91"
assert scipy.__version__ == "1.17.1" and statsmodels.__version__ == "0.15.0"
HERE = Path(__file__).resolve().parent
ALPHA = 0.05


def within_one(says):
    if says["interval"] is not None:
        says["interval"] = [max(says["interval"][0], -1.0), min(says["interval"][1], 1.0)]
    return says


def of_means(one, other):
    """Differences that are equal as decimals are ties: those of doubles differ by noise, which scipy would rank."""
    one, other = np.asarray(one, float), np.asarray(other, float)
    difference = np.round(one - other, 12)
    says = {"of": [float(one.mean()), float(other.mean())], "interval": None, "p_value": None}
    if len(one) > 1:
        error = float(stats.sem(difference))
        low, high = stats.norm.interval(0.95, loc=difference.mean(), scale=error) if error > 0 else (difference.mean(),) * 2
        says["interval"] = [float(low), float(high)]
    if np.any(difference != 0):
        says["p_value"] = float(stats.wilcoxon(difference, method="asymptotic", correction=False).pvalue)
    return says


def accuracy(one, other):
    one, other = np.array(one), np.array(other)
    says = within_one(of_means(one, other))
    table = [[int(np.sum(one & other)), int(np.sum(one & ~other))], [int(np.sum(~one & other)), int(np.sum(~one & ~other))]]
    says["p_value"] = float(mcnemar(table, exact=True).pvalue) if table[0][1] + table[1][0] else None
    return says


def delong(probabilities, real):
    one, other = np.array(probabilities, float).T
    *_, auc, auc_of_other, info = Delong_test(np.array(real, int), one, other)
    assert info["method"] == "delong"
    of, error = [float(auc), float(auc_of_other)], np.sqrt(info["var_diff"])
    low, high = stats.norm.interval(0.95, loc=of[0] - of[1], scale=error)
    p_value = float(2 * stats.norm.sf(abs(of[0] - of[1]) / error))
    return within_one({"of": of, "interval": [float(low), float(high)], "p_value": p_value})


def lower(x):
    """The lower bounds after each number of [0, 1], by the variances of theorem 2."""
    means = (0.5 + np.cumsum(x)) / (np.arange(1, len(x) + 1) + 1)
    return predmix_lower_cs(
        x,
        v=(x - np.append(0.5, means[:-1])) ** 2,
        lambdas_fn=lambda y: lambda_predmix_eb(y, truncation=0.5, alpha=ALPHA / 2),
        psi_fn=lambda bets: -np.log(1 - bets) - bets,
        alpha=ALPHA / 2,
    )


def sequence(numbers):
    """The bounds after each number of [0, 1], and those of confseq as it is."""
    x = np.asarray(numbers, float)
    return (lower(x), 1 - lower(1 - x)), predmix_empbern_twosided_cs(x, alpha=ALPHA, truncation=0.5)


def so_far(advantages):
    numbers = (np.concatenate(advantages) + 1) / 2
    (lower, upper), twosided = sequence(numbers)
    ends = np.cumsum([len(period) for period in advantages])
    says, side, decided = [], 0, None
    for number, (end, own) in enumerate(zip(ends, advantages)):
        # On which side of zero the bounds are after this period, and since which period without a break.
        before, side = side, int(lower[end - 1] > 0.5) - int(upper[end - 1] < 0.5)
        decided = None if side == 0 else decided if side == before else number
        says.append({
            "advantage": float(np.mean(own)),
            "n": int(end),
            "so_far": float(2 * numbers[:end].mean() - 1),
            "bounds": [float(2 * lower[end - 1] - 1), float(2 * upper[end - 1] - 1)],
            "twosided": [float(2 * side[end - 1] - 1) for side in twosided],
            "decided": decided,
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
            "brier": within_one(of_means(*brier)),
            "log_loss": of_means(*[-np.log(side) for side in given]),
            "mae": None,
        })
    of_sequence = so_far(advantages)
    return {"periods": periods, "metrics": says, "sequence": of_sequence, "measure": "brier"}


def regression(rng, sizes, spreads):
    periods, advantages, says = [], [], []
    for size in sizes:
        errors = [np.abs(np.round(rng.normal(0, spread, size), 1)) for spread in spreads]
        periods.append({"errors": np.transpose(errors).tolist()})
        advantages.append(np.sign(errors[1] - errors[0]))
        says.append({"accuracy": None, "auc": None, "brier": None, "log_loss": None, "mae": of_means(*errors)})
    of_sequence = so_far(advantages)
    return {"periods": periods, "metrics": says, "sequence": of_sequence, "measure": "wins"}


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
