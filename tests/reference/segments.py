"""Make the reference of ranked segments: what statsmodels and scipy say of a slice of predictions against the rest.

    tests/reference/run segments

segments.json has `shares` (how many are right among how many, of a slice and of the rest) with the z-test of two proportions,
`means` (numbers of both) with Welch's t-test, and `ranked`: slices of which all predictions consist, the worst share first, with
their p-values and these corrected by Benjamini and Hochberg. A slice of fewer than 30 is not tested.
"""

import json
import random
import warnings
from pathlib import Path

import scipy
import statsmodels
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportions_ztest

assert (scipy.__version__, statsmodels.__version__) == ("1.17.1", "0.15.0")
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
    slices = [("a", 300, 500), ("b", 90, 100), ("c", 20, 40), ("d", 0, 5), ("e", 200, 220), ("f", 31, 31), ("g", 50, 104)]
    found = {
        "shares": [{"right": right, "n": n, "p_value": of_shares(right, n)} for right, n in shares],
        "means": [{"numbers": both, "p_value": of_means(*both)} for both in means],
        "ranked": {"slices": slices, "says": of_ranked(slices)},
    }
    (HERE / "segments.json").write_text(json.dumps(found, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
