"""Make alert.json: robust z-scores by scipy and numpy, with which tests of `fold` compare those of alert rules.

    python3 -m venv venv && venv/bin/pip install scipy numpy
    tests/reference/run alert
"""

import json
import random
from pathlib import Path

import numpy as np
from scipy import stats

SEED = 20130401


def score(value, others):
    """The modified z-score of Iglewicz and Hoaglin."""
    scale = stats.median_abs_deviation(others, scale="normal")
    if scale == 0:
        scale = np.mean(np.abs(np.array(others) - np.median(others))) * np.sqrt(np.pi / 2)
    return float((value - np.median(others)) / scale)


def main():
    draw = random.Random(SEED)
    cases = []
    for count in (2, 3, 4, 7, 14, 28, 90):
        others = [round(draw.gauss(0.8, 0.02), 6) for _ in range(count)]
        cases += [(round(draw.gauss(0.8, 0.1), 6), others) for _ in range(2)]
    # More than half are equal, so the mean absolute deviation counts.
    cases += [(7.0, [5.0, 5.0, 5.0, 5.0, 6.0]), (-3.5, [0.0] * 10 + [1.0, -2.0]), (5.0, [5.0, 5.0, 5.0, 9.0])]
    # A few odd days move nothing.
    cases.append((1010.0, [1000.0, 1005.0, 995.0, 1002.0, 998.0, 5.0, 90000.0]))
    told = [{"value": value, "others": others, "z": score(value, others)} for value, others in cases]
    told = {"robust_z": told}
    Path(__file__).with_name("alert.json").write_text(json.dumps(told, indent=None) + "\n")


if __name__ == "__main__":
    main()
