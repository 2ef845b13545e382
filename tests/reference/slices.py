"""Make the reference of ranked slices: what statsmodels and scipy say of a slice of predictions against the rest.

    tests/reference/run slices

slices.json has `shares` (how many are right among how many, of a slice and of the rest) with the z-test of two proportions,
`means` (numbers of both) with Welch's t-test, `scores` (probabilities of both, each with whether it came true) with Welch's t-test of their
losses and DeLong's of the areas under their curves, `classes` (probabilities of three classes, each with the number of the real one) with
Welch's t-test of their losses, and `ranked`: slices of which all predictions consist, the worst share first, with
their p-values and these corrected by Benjamini and Hochberg. A slice of fewer than 30 is not tested.
"""

import json
import random
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import scipy
import sklearn
import statsmodels
from MLstatkit import Delong_test
from scipy import stats
from sklearn.metrics import roc_auc_score
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportions_ztest

assert (scipy.__version__, statsmodels.__version__) == ("1.17.1", "0.15.0")
assert (sklearn.__version__, version("mlstatkit")) == ("1.9.1", "0.1.91")
HERE = Path(__file__).resolve().parent
LEAST = 30


def number(p):
    """A probability, or None where there is none."""
    return float(p) if p == p else None


def of_shares(right, n):
    if 0 in n:
        return None
    return number(proportions_ztest(right, n)[1])


def of_means(one, other):
    if min(len(one), len(other)) < 2:
        return None
    return number(stats.ttest_ind(one, other, equal_var=False).pvalue)


def clipped(p):
    eps = np.finfo(float).eps
    return np.clip(p, eps, 1 - eps)


def area(rows):
    """The area under the curve and its variance: that of the difference from a score that is the same of all, whose area does not vary."""
    score, real = np.array(rows, float).reshape(-1, 2).T
    if min(sum(real == 0), sum(real == 1)) < 2:
        return None
    wins = np.sign(score[real == 1][:, None] - score[real == 0][None, :]) / 2 + 0.5
    auc, variance = wins.mean(), sum(wins.mean(axis=at).var(ddof=1) / wins.shape[1 - at] for at in (0, 1))
    assert abs(auc - roc_auc_score(real, score)) < 1e-12
    # Where nothing varies, the library draws from the scores instead.
    if variance > 0:
        *_, said, _, info = Delong_test(real.astype(int), score, np.full(len(real), 0.5))
        assert info["method"] == "delong" and abs(auc - said) < 1e-12 and abs(variance - info["var_diff"]) < 1e-12
    return auc, variance


def of_areas(one, other):
    if (found := [area(one), area(other)]).count(None) or not (error := np.sqrt(found[0][1] + found[1][1])):
        return None
    return float(2 * stats.norm.sf(abs(found[0][0] - found[1][0]) / error))


def of_scores(one, other):
    arrays = [np.array(rows, float).reshape(-1, 2).T for rows in (one, other)]
    brier = [(p - y) ** 2 for p, y in arrays]
    log_loss = [-np.log(clipped(np.where(y == 1, p, 1 - p))) for p, y in arrays]
    return {"auc": of_areas(one, other), "brier": of_means(*brier), "log_loss": of_means(*log_loss)}


def of_classes(one, other):
    return of_means(*[[-float(np.log(clipped(p[real]))) for p, real in rows] for rows in (one, other)])


def scores(draw, n, noise, digits):
    """Probabilities, and whether each came true; rounded to few digits many are equal."""
    truth = [draw.random() for _ in range(n)]
    said = [min(1.0, max(0.0, p + draw.gauss(0, noise))) for p in truth]
    return [(round(p, digits), int(draw.random() < q)) for p, q in zip(said, truth)]


def class_scores(draw, n, weight):
    rows = []
    for _ in range(n):
        real = draw.randrange(3)
        p = [draw.random() + weight * (at == real) for at in range(3)]
        first, second = [round(one / sum(p), 3) for one in p[:2]]
        rows.append(([first, second, round(1 - first - second, 3)], real))
    return rows


def of_ranked(slices):
    right, n = sum(one for _, one, _ in slices), sum(size for *_, size in slices)
    tested = [one for one in slices if one[2] >= LEAST]
    p_values = [of_shares([one, right - one], [size, n - size]) for _, one, size in tested]
    adjusted = multipletests(p_values, method="fdr_bh")[1]
    says = [(name, p, float(q), one / size) for (name, one, size), p, q in zip(tested, p_values, adjusted)]
    says.sort(key=lambda row: (row[3], row[0]))
    return [row[:3] for row in says]


def main():
    warnings.simplefilter("ignore")
    draw = random.Random(20130401)
    shares = [([5, 50], [10, 100]), ([0, 0], [10, 20]), ([10, 20], [10, 20]), ([0, 20], [10, 20]), ([1, 1], [1, 1])]
    shares += [([0, 3], [0, 9]), ([3, 0], [9, 0]), ([1, 999_000], [40, 1_000_000]), ([20, 70_000], [900, 100_000])]
    for _ in range(20):
        n = [draw.randint(1, 400), draw.randint(1, 4_000)]
        shares.append(([draw.randint(0, size) for size in n], n))
    errors = lambda mean, n: [round(abs(draw.gauss(0, mean)), 3) for _ in range(n)]
    means = [(errors(1, 40), errors(1, 200)), (errors(2, 30), errors(1, 300)), (errors(1.2, 5), errors(1, 50))]
    means += [(errors(1, 2), errors(1, 2)), (errors(5, 100), errors(1, 100)), ([1.0], errors(1, 9)), (errors(1, 9), [2.0])]
    means += [([3.0] * 4, errors(1, 20)), ([], errors(1, 9))]
    draw = random.Random(19880901)
    sizes = [(40, 400, 0.1, 2), (60, 300, 0.6, 2), (30, 1_000, 0.4, 1), (200, 200, 0.3, 6), (8, 40, 0.2, 1)]
    judged = [(scores(draw, n, noise, digits), scores(draw, others, 0.2, digits)) for n, others, noise, digits in sizes]
    # The scores of the one are all below or above those of the other, or the same; some are certain, and wrong.
    judged += [([(0.1, 0), (0.2, 1), (0.1, 1), (0.15, 0)], [(0.9, 1), (0.8, 0), (0.9, 0), (0.95, 1), (0.99, 1)])]
    judged += [([(0.5, 0), (0.5, 1)] * 3, [(0.5, 1), (0.5, 0)] * 5), ([(0.0, 1), (1.0, 0), (0.3, 1), (0.6, 0)], judged[4][1])]
    judged += [(judged[4][1], judged[4][1]), ([(0.4, 1), (0.6, 1), (0.2, 0)], judged[4][1]), ([(0.4, 1)], judged[4][1])]
    judged += [([(0.0, 0), (0.0, 1), (1.0, 1), (1.0, 0), (1.0, 1)], [(0.0, 0), (0.0, 0), (0.0, 1), (1.0, 1), (1.0, 1), (0.5, 0)])]
    sizes = [(30, 90, 1), (50, 200, 0.2), (2, 9, 3)]
    of_three = [(class_scores(draw, n, weight), class_scores(draw, others, 1)) for n, others, weight in sizes]
    slices = [("a", 300, 500), ("b", 90, 100), ("c", 20, 40), ("d", 0, 5), ("e", 200, 220), ("f", 31, 31), ("g", 50, 104)]
    found = {
        "shares": [{"right": right, "n": n, "p_value": of_shares(right, n)} for right, n in shares],
        "means": [{"numbers": both, "p_value": of_means(*both)} for both in means],
        "scores": [{"rows": both, **of_scores(*both)} for both in judged],
        "classes": [{"rows": both, "log_loss": of_classes(*both)} for both in of_three],
        "ranked": {"slices": slices, "says": of_ranked(slices)},
    }
    (HERE / "slices.json").write_text(json.dumps(found, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
