"""Make the reference of rankings: what scikit-learn and pytrec_eval say of groups.

    tests/reference/run groups

groups.json has cases: the groups of a day, each a list of items [key, score, relevance], where the relevance of an item
without an outcome is null, and what is said of all groups together: `ndcg` is by scikit-learn's `ndcg_score`, all else
by pytrec_eval. Groups without any outcome are not evaluated, and those without a relevant item are counted apart.
`ndcg_score` refuses a single item, whose NDCG is 1 by its definition. trec_eval takes scores as floats of 32 bits and
relevances as integers, which all of these are. `interval` is the 95% interval of Student of the mean NDCG.
"""

import json
import random
from pathlib import Path

import numpy as np
import pytrec_eval
import scipy
import sklearn
from scipy import stats
from sklearn.metrics import ndcg_score

HERE = Path(__file__).resolve().parent
MEASURES = {
    "map": "map",
    "map_at_10": "map_cut_10",
    "mrr": "recip_rank",
    "precision_at_5": "P_5",
    "precision_at_10": "P_10",
    "recall_at_10": "recall_10",
    "hit_rate_at_10": "success_10",
}


def ndcg(items, k=None):
    if len(items) == 1:
        return 1.0
    truth = np.array([[relevance or 0 for _, _, relevance in items]], dtype=float)
    return float(ndcg_score(truth, np.array([[score for _, score, _ in items]]), k=k))


def expected(groups):
    judged = {name: items for name, items in groups.items() if any(item[2] is not None for item in items)}
    some = {name: items for name, items in judged.items() if any(item[2] for item in items)}
    found = {"groups": len(some), "groups_without_relevant": len(judged) - len(some)}
    if not some:
        return found | {name: None for name in ["ndcg", "ndcg_at_5", "ndcg_at_10", *MEASURES]} | {"interval": None}
    truth = {name: {key: of for key, _, of in items if of is not None} for name, items in some.items()}
    scores = {name: {key: score for key, score, _ in items} for name, items in some.items()}
    said = pytrec_eval.RelevanceEvaluator(truth, {"map", "map_cut", "recip_rank", "P", "recall", "success"}).evaluate(scores)
    of_groups = [ndcg(items) for items in some.values()]
    found |= {
        "ndcg": float(np.mean(of_groups)),
        "ndcg_at_5": float(np.mean([ndcg(items, 5) for items in some.values()])),
        "ndcg_at_10": float(np.mean([ndcg(items, 10) for items in some.values()])),
    }
    found |= {ours: float(np.mean([of[theirs] for of in said.values()])) for ours, theirs in MEASURES.items()}
    half = stats.t.ppf(0.975, len(some) - 1) * stats.sem(of_groups) if len(some) > 1 else None
    interval = None if half is None else [float(np.mean(of_groups) - half), float(np.mean(of_groups) + half)]
    return found | {"interval": interval}


def items(rng, n, score, relevance):
    """Items whose keys are in no order."""
    keys = rng.sample([f"item-{at}" for at in range(3 * n)] + ["ä", "Z", "a"], n)
    return [[key, score(), relevance()] for key in keys]


def cases():
    rng = random.Random(20260601)
    real = lambda: round(rng.gauss(0, 3) * 1024) / 1024
    tied = lambda: float(rng.randrange(-2, 3))
    click = lambda: rng.choice([None, None, None, None, 0, 1])
    grade = lambda: rng.choice([None, 0, 0, 1, 2, 5])
    random_ones = lambda n, score, relevance: {
        f"q{at}": items(rng, rng.randrange(1, 30), score, relevance) for at in range(n)
    }
    return {
        "clicks": random_ones(60, real, click),
        "grades": random_ones(60, real, grade),
        "ties": random_ones(60, tied, grade),
        "equal scores": {f"q{n}": items(rng, n, lambda: 0.25, grade) for n in range(1, 25)},
        "single items": {f"q{n}": [["k", -1.5, n % 3]] for n in range(6)},
        "no relevant item": {"q": items(rng, 12, real, lambda: 0), "waits": items(rng, 3, real, lambda: None)},
        "no outcome": {"q": items(rng, 4, real, lambda: None)},
        "all relevant": {"q": items(rng, 14, real, lambda: 3)},
        "one relevant item, last": {"q": [[f"k{n:02}", float(-n), int(n == 11)] for n in range(12)]},
        "many items": {"q": items(rng, 400, tied, grade), "r": items(rng, 300, real, click)},
    }


def main():
    assert (np.__version__, scipy.__version__, sklearn.__version__) == ("2.4.6", "1.17.1", "1.9.1")
    made = [{"name": name, "groups": groups, "said": expected(groups)} for name, groups in cases().items()]
    (HERE / "groups.json").write_text(json.dumps(made, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
