"""Make the reference of fairness: what fairlearn says of the gaps between groups.

    tests/reference/run fairness

fairness.json has cases: by group the counts tp, fp, tn, fn, and what fairlearn says of all groups together. Where a rate is not
defined in one of them (no positives, or no negatives), fairlearn takes it as 0; Almanac leaves that group out, so such
groups are left out of what fairlearn is given for that metric. A ratio of nothing to nothing is null.
"""

import json
import random
import warnings
from pathlib import Path

import fairlearn
import numpy as np
from fairlearn import metrics

assert fairlearn.__version__ == "0.15.0"
HERE = Path(__file__).resolve().parent


def rows(groups):
    """The truth, what was predicted, and the group of each prediction."""
    found = ([], [], [])
    for name, (tp, fp, tn, fn) in groups.items():
        for truth, says, count in ((1, 1, tp), (0, 1, fp), (0, 0, tn), (1, 0, fn)):
            for _ in range(count):
                for column, value in zip(found, (truth, says, name)):
                    column.append(value)
    return found


def defined(value):
    return None if value is None or not np.isfinite(value) else float(value)


def said(metric, groups):
    """None of fewer than two groups."""
    if len(groups) < 2:
        return None
    truth, says, names = rows(groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return defined(metric(truth, says, sensitive_features=names))


def expected(groups):
    some = {name: counts for name, counts in groups.items() if sum(counts)}
    positive = {name: counts for name, counts in some.items() if counts[0] + counts[3]}
    both = {name: counts for name, counts in positive.items() if counts[1] + counts[2]}
    found = {
        "demographic_parity_difference": said(metrics.demographic_parity_difference, some),
        "demographic_parity_ratio": said(metrics.demographic_parity_ratio, some),
        "equal_opportunity_difference": said(metrics.equal_opportunity_difference, positive),
        "equal_opportunity_ratio": said(metrics.equal_opportunity_ratio, positive),
        "equalized_odds_difference": said(metrics.equalized_odds_difference, both),
        "equalized_odds_ratio": said(metrics.equalized_odds_ratio, both),
    }
    return found


def main():
    rng = random.Random(20130613)
    cases = [
        {"a": (3, 1, 4, 2), "b": (1, 1, 6, 1)},
        {"a": (0, 0, 4, 2), "b": (0, 0, 6, 1)},
        {"a": (5, 0, 5, 0), "b": (5, 0, 5, 0)},
        {"a": (3, 1, 4, 2)},
        {"a": (3, 1, 4, 2), "b": (0, 2, 6, 0), "c": (2, 0, 0, 1)},
        {"a": (3, 1, 4, 2), "b": (0, 0, 0, 0)},
    ]
    for _ in range(30):
        count = rng.randint(2, 6)
        cases.append({chr(97 + at): tuple(rng.randint(1, 60) for _ in range(4)) for at in range(count)})
    reference = [{"groups": groups, "said": expected(groups)} for groups in cases]
    text = ",\n".join(json.dumps(case, allow_nan=False) for case in reference)
    (HERE / "fairness.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
