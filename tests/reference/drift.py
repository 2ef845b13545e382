"""Make the reference of drift: what scipy and psi-inference say of the differences between a reference and a window.

    tests/reference/run drift

drift.json has cases: `numbers` with the numbers of both sides, `names` with how often each side has each name, `adjusted` with
p-values. The population stability index is that of psi-inference where no side alone has an empty bin. Of an empty bin the packages do as they
like (infinite here, 0.0001 or a half of a row elsewhere), so there it is computed from our definition by numpy, to which that of
psi-inference is held as well. The upper edges of bins of numbers are the first numbers of the reference that a tenth, two tenths, ... of it do not
exceed.
"""

import json
import random
from importlib.metadata import version
from pathlib import Path

import numpy as np
import scipy
from psi_inference.yurdakul import psi_statistic
from scipy import spatial, stats

assert scipy.__version__ == "1.17.1" and version("psi-inference") == "0.1.0"
HERE = Path(__file__).resolve().parent
BINS = 10
LEAST_SHARE = 1e-4


of_package = 0


def psi(p, q):
    global of_package
    has_empty = np.any((p == 0) != (q == 0))
    p_, q_ = np.maximum(p, LEAST_SHARE), np.maximum(q, LEAST_SHARE)
    defined = float(np.sum((q_ - p_) * np.log(q_ / p_)))
    if has_empty:
        return defined
    of_package += 1
    says = psi_statistic(p[p > 0], q[p > 0])
    assert abs(says - defined) < 1e-12
    return says


def binned(reference, window):
    below = np.nextafter(np.min(reference), -np.inf)
    tenths = np.quantile(reference, np.arange(1, BINS + 1) / BINS, method="inverted_cdf")
    edges = np.unique([below, *tenths])
    count = lambda numbers: np.bincount(np.digitize(numbers, edges, right=True), minlength=len(edges) + 1)
    return [count(side) / len(side) for side in (reference, window)]


def of_numbers(reference, window):
    reference, window = np.array(reference, float), np.array(window, float)
    p, q = binned(reference, window)
    ks = float(stats.ks_2samp(reference, window, method="asymp").statistic)
    n, m = len(reference), len(window)
    area = float(stats.wasserstein_distance(reference, window))
    std = float(np.std(reference))
    return {
        "psi": psi(p, q),
        "js_distance": float(spatial.distance.jensenshannon(p, q, base=2)),
        "wasserstein": area,
        "wasserstein_scaled": area / std if std > 0 else None,
        "ks": ks,
        "p_value": float(stats.kstwobign.sf(ks * np.sqrt(n * m / (n + m)))),
    }


def of_names(counts):
    table = np.array([list(pair) for pair in counts.values()], float).T
    p, q = table[0] / table[0].sum(), table[1] / table[1].sum()
    has_test = table.shape[1] > 1
    test = stats.chi2_contingency(table, correction=False) if has_test else None
    return {
        "psi": psi(p, q),
        "js_distance": float(spatial.distance.jensenshannon(p, q, base=2)),
        "chi2": float(test.statistic) if has_test else None,
        "p_value": float(test.pvalue) if has_test else None,
        "l_infinity": float(np.max(np.abs(p - q))),
        "unseen_rate": float(np.sum(q[p == 0])),
    }


def main():
    draw = random.Random(20130401)
    normal = lambda mean, std, n: [round(draw.gauss(mean, std), 3) for _ in range(n)]
    score = lambda a, b, n: [round(draw.betavariate(a, b), 4) for _ in range(n)]
    whole = lambda most, n: [draw.randint(0, most) for _ in range(n)]
    numbers = {
        "none": (normal(0, 1, 200), normal(0, 1, 150)),
        "moved": (normal(0, 1, 200), normal(0.7, 1, 120)),
        "wider": (normal(0, 1, 150), normal(0, 2, 150)),
        "scores": (score(2, 5, 180), score(2, 3, 90)),
        "ties": (whole(4, 100), whole(6, 60)),
        "apart": (normal(0, 1, 50), normal(100, 1, 50)),
        "constant": ([3.0] * 20, [3.0] * 7),
        "constant and not": ([3.0] * 20, normal(3, 1, 20)),
        "one": ([1.0], [2.0]),
        "one below": ([2.0], [1.0]),
        "large": (normal(1e9, 1e6, 80), normal(-1e9, 1e6, 80)),
    }
    names = {
        "none": {"a": (50, 51), "b": (30, 29), "c": (20, 20)},
        "moved": {"a": (50, 10), "b": (30, 60), "c": (20, 30)},
        "unseen": {"a": (50, 40), "b": (0, 9), "c": (3, 0)},
        "one": {"a": (5, 7)},
        "many": {f"n{i}": (draw.randint(1, 40), draw.randint(1, 40)) for i in range(40)},
        "apart": {"a": (10, 0), "b": (0, 10)},
    }
    p_values = [0.001, 0.04, 0.03, 0.5, 0.9, 1e-12, 0.03]
    found = {
        "numbers": {
            name: {"reference": one, "window": other, "says": of_numbers(one, other)}
            for name, (one, other) in numbers.items()
        },
        "names": {name: {"counts": counts, "says": of_names(counts)} for name, counts in names.items()},
        "adjusted": {
            "p_values": p_values,
            "says": [float(p) for p in stats.false_discovery_control(p_values)],
        },
    }
    assert of_package >= 6, of_package
    (HERE / "drift.json").write_text(json.dumps(found, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
