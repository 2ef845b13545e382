"""Make the reference of rankings by votes: what choix and scipy say of wins, losses and ties.

    tests/reference/run ranking

ranking.json has cases: `votes` with two names, the wins of each and the ties; `is_connected`, whether the graph of wins is strongly
connected; and by name the strength and the ends of its 95% interval. The prior, one tie of each against a strength of 0, is given to choix as
votes: it takes whole wins, so every vote is given twice, and a tie as a win of each. From there scipy goes to where the likelihood has no slope,
and intervals are by the inverse of its Hessian there.
"""

import json
import random
from importlib.metadata import version
from itertools import combinations
from pathlib import Path

import choix
import networkx
import numpy as np
import scipy
from scipy import optimize, special, stats

assert scipy.__version__ == "1.17.1" and version("choix") == "0.4.1"
HERE = Path(__file__).resolve().parent


def drawn(strengths, votes, ties, seed):
    chance, names = random.Random(seed), sorted(strengths)
    counts = {pair: [0, 0, 0] for pair in combinations(names, 2)}
    for _ in range(votes):
        one, other = chance.choice(list(counts))
        if chance.random() < ties:
            counts[one, other][2] += 1
        else:
            wins = chance.random() < special.expit(strengths[one] - strengths[other])
            counts[one, other][0 if wins else 1] += 1
    return [[*pair, *counts[pair]] for pair in counts]


CASES = {
    "two": [["v1", "v2", 7, 3, 0]],
    "ties": [["v1", "v2", 4, 4, 9], ["v2", "v3", 5, 2, 3], ["v1", "v3", 6, 1, 0]],
    "one-sided": [["v1", "v2", 5, 0, 0], ["v2", "v3", 5, 0, 0]],
    "two-groups": [["v1", "v2", 8, 2, 0], ["v3", "v4", 30, 20, 5]],
    "without-a-vote": [["v1", "v2", 3, 2, 1], ["v1", "v3", 0, 0, 0]],
    "five": drawn({"v1": 0.0, "v2": 0.3, "v3": -0.5, "v4": 1.2, "v5": 0.1}, 400, 0.15, 1),
    "many": drawn({f"r{n:02}": n / 10 for n in range(14)}, 5000, 0.1, 2),
}


def of(votes):
    names = sorted({name for one, other, *counts in votes if sum(counts) for name in (one, other)})
    numbers, n = {name: at for at, name in enumerate(names)}, len(names)
    wins = np.zeros((n + 1, n + 1))
    for one, other, won, lost, ties in votes:
        if won + lost + ties:
            wins[numbers[one], numbers[other]] += won + ties / 2
            wins[numbers[other], numbers[one]] += lost + ties / 2
    graph = networkx.DiGraph([(int(a), int(b)) for a, b in np.argwhere(wins > 0)])
    connected = networkx.is_strongly_connected(graph)
    wins[:n, n] += 0.5
    wins[n, :n] += 0.5
    doubled = [(int(a), int(b)) for a, b in np.argwhere(wins > 0) for _ in range(round(2 * wins[a, b]))]
    found = choix.opt_pairwise(n + 1, doubled, method="Newton-CG", tol=1e-12)
    found = found[:n] - found[n]

    def slope(at):
        at = np.append(at, 0.0)
        lost = special.expit(at[None, :] - at[:, None])
        return np.sum(wins * lost - wins.T * lost.T, axis=1)[:n]

    # choix ends its search a little before the maximum, which is where nothing slopes.
    top = optimize.root(slope, found, tol=1e-14).x
    assert np.allclose(found, top, atol=1e-4), (found, top)
    found = top
    at = np.append(found, 0.0)
    weights = (wins + wins.T) * special.expit(at[:, None] - at[None, :]) * special.expit(at[None, :] - at[:, None])
    hessian = (np.diag(weights.sum(axis=1)) - weights)[:n, :n]
    centre = np.eye(n) - 1 / n
    errors = np.sqrt(np.diag(centre @ np.linalg.inv(hessian) @ centre.T))
    wide = stats.norm.ppf(0.975) * errors
    centred = centre @ found
    ends = np.stack([centred, centred - wide, centred + wide], axis=1)
    return {"votes": votes, "is_connected": bool(connected), "strengths": dict(zip(names, ends.tolist()))}


(HERE / "ranking.json").write_text(json.dumps({name: of(votes) for name, votes in CASES.items()}, indent=1) + "\n")
