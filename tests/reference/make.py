"""Make the reference metrics: what scikit-learn, scipy and NannyML say of the cases of the tests.

    tests/reference/run make

A case is a file data/NAME.csv with a row for each prediction and what is said of it:

    release         of the prediction; empty for an outcome that fits no prediction
    key             of the prediction and its outcome
    score label value               of the prediction, empty where it has none
    outcome outcome_label outcome_value     whether there is an outcome, and what it says
    lower upper score.CLASS         of the prediction, in cases that have them

A key that comes again in the same release is a repeat; the last row counts. metrics.json has the metrics of each case and
release. Where the library answers with a warning, or only by a convention of its own, the metric is null; what it says with
`zero_division` of 0 and 1 stands apart. `intervals` has how many predictions each metric is of and its 95% interval, for
metrics whose interval has a formula; `bootstraps` has percentile intervals of some that have none. `thresholds` has what is said of binary scores at other thresholds. All binary
predictions gain and cost COSTS, and all predicted intervals are to hold the share LEVEL of the real numbers. `custom` has the
metrics of CUSTOM, of all predictions of a release, with and without an outcome.
"""

import csv
import json
import math
import os
import random
import warnings
from fractions import Fraction
from pathlib import Path

# NannyML reports each use to its makers, unless it is told not to before it is loaded.
os.environ["NML_DISABLE_USAGE_LOGGING"] = "1"

import nannyml
import numpy as np
import pandas as pd
import scipy
import sklearn
from scipy import stats
from sklearn import calibration, metrics

HERE = Path(__file__).resolve().parent
DEMO = HERE.parent.parent / "demo" / "data" / "flights"
COLUMNS = ["release", "key", "score", "label", "value", "outcome", "outcome_label", "outcome_value"]
BINS = 10
CLOSE = 1e-9
COSTS = {"tp": 2.5, "tn": 0.25, "fp": 1.0, "fn": 4.0}
LEVEL = 0.8
# Of bootstraps: of which cases they are, and how often and from where they draw.
DRAWN = ("binary-random", "regression-random")
DRAWS = 5000
SEED = 20130401


def row(release, key, outcome=True, **more):
    assert all(name in COLUMNS or name in ("lower", "upper") or name.startswith("score.") for name in more)
    return {"release": release, "key": key, "outcome": outcome, **more}


# ---- the cases


def flights(days):
    """Some days of the demo, both releases, with score and label."""
    predictions = pd.read_parquet(DEMO / "predictions.parquet")
    outcomes = pd.read_parquet(DEMO / "outcomes.parquet")
    joined = predictions.merge(
        outcomes[["key", "predicted_at", "label"]],
        on=["key", "predicted_at"],
        how="left",
        suffixes=("", "_outcome"),
    )
    day = joined.predicted_at.dt.tz_convert("America/New_York").dt.strftime("%Y-%m-%d")
    rows = []
    for one in joined[day.isin(days)].sort_values(["release", "key"]).itertuples():
        known = isinstance(one.label_outcome, str)
        more = {"outcome_label": one.label_outcome} if known else {}
        rows.append(row(one.release, one.key, known, score=one.score, label=one.label, **more))
    return rows


def scored(pairs):
    """Rows of binary predictions from scores and whether they are of positives."""
    return [
        row("v1", f"k{n}", score=score, outcome_label="late" if late else "on time")
        for n, (score, late) in enumerate(pairs)
    ]


def valued(pairs):
    return [row("v1", f"k{n}", value=p, outcome_value=y) for n, (p, y) in enumerate(pairs)]


def classed(pairs):
    return [row("v1", f"k{n}", label=p, outcome_label=y) for n, (p, y) in enumerate(pairs)]


def random_binary(rng):
    rows = []
    for release, noise in [("v1", 0.3), ("v2", 0.5)]:
        for n in range(400):
            truth = rng.random()
            score = min(1.0, max(0.0, truth + rng.uniform(-noise, noise)))
            more = {"score": round(score, 3) if n % 3 else score}
            if n % 7 == 0:
                more["label"] = "late" if rng.random() < 0.5 else "on time"
            if n % 50 == 1:
                del more["score"]
                more["label"] = "late"
            if n % 90 == 2:
                more["score"] = 1.5
            rows.append((release, n, truth, more))
    late = {n: random.Random(n).random() < 0.4 for n in range(400)}
    made = []
    for release, n, truth, more in rows:
        has = n % 10 != 9
        label = {} if n % 33 == 5 or not has else {"outcome_label": "late" if late[n] else "on time"}
        made.append(row(release, f"k{n}", has, **more, **label))
    made.append(row("", "nobody", outcome_label="late"))
    # Repeats: the last row counts.
    made += [dict(one, score=0.5) for one in made[:5]]
    return made


def random_regression(rng):
    made = []
    for n in range(300):
        real = rng.lognormvariate(2, 1)
        value = {"value": real * rng.uniform(0.5, 1.7)} if n % 40 else {}
        truth = {"outcome_value": real} if n % 25 != 3 else {"outcome_label": "gone"}
        made.append(row("v1", f"k{n}", n % 11 != 7, **value, **(truth if n % 11 != 7 else {})))
    return made


def random_classes(rng, count, rows):
    names = [f"class {n}" for n in range(count)]
    made = []
    for _ in range(rows):
        real = names[min(int(rng.expovariate(0.4)), count - 1)]
        made.append((real if rng.random() < 0.6 else rng.choice(names[: count - 1]), real))
    return classed(made)


def random_scores(rng, names, rows, digits=None):
    """Predictions of classes with a score of each class; some with a label that is not that of the greatest score."""
    made = []
    for n in range(rows):
        real = rng.choice(names)
        weights = [rng.gammavariate(1.5 if name == real else 0.8, 1) + 1e-9 for name in names]
        scores = [weight / sum(weights) for weight in weights]
        if digits is not None:
            # Ties, and zeros that were predicted.
            scores = [round(score, digits) for score in scores]
            scores[scores.index(max(scores))] += 1 - sum(scores)
        more = {f"score.{name}": score for name, score in zip(names, scores)}
        if n % 9 == 4:
            more["label"] = rng.choice(names)
        if n % 31 == 7:
            more = {"label": real}
        truth = {"outcome_label": real} if n % 17 != 3 else {}
        made.append(row("v1", f"k{n}", n % 13 != 5, **more, **(truth if n % 13 != 5 else {})))
    return made


def scored_classes(rows):
    return [
        row("v1", f"k{n}", outcome_label=real, **{f"score.{name}": score for name, score in scores.items()})
        for n, (scores, real) in enumerate(rows)
    ]


def bounded(triples):
    """Predicted intervals, some with one end, and what was real."""
    made = []
    for n, (lower, upper, real) in enumerate(triples):
        ends = {name: end for name, end in (("lower", lower), ("upper", upper)) if end is not None}
        made.append(row("v1", f"k{n}", value=real if n % 2 else real + 1, outcome_value=real, **ends))
    return made


def random_intervals(rng):
    made = []
    for n in range(250):
        value = rng.lognormvariate(1, 1)
        real = value * rng.uniform(0.4, 1.8)
        lower, upper = value * rng.uniform(0.4, 1), value * rng.uniform(1, 1.6)
        made.append((lower if n % 19 else None, upper if n % 23 else None, lower if n % 29 == 1 else real))
    return bounded(made)


def cases():
    rng = random.Random(20130401)
    edges = [n / 10 for n in range(11)]
    near = [math.nextafter(e, d) for e in edges for d in (0, 1)]
    return {
        "flights": ("binary", flights(["2013-06-13", "2013-07-01"])),
        "binary-random": ("binary", random_binary(rng)),
        "binary-one-class": ("binary", scored([(0.1 * n, True) for n in range(10)])),
        "binary-no-positive": ("binary", scored([(0.05 * n, False) for n in range(20)])),
        "binary-all-tied": ("binary", scored([(0.5, n % 3 == 0) for n in range(31)])),
        "binary-none-said-positive": ("binary", scored([(0.01 * n, n % 2 == 0) for n in range(40)])),
        "binary-edges": ("binary", scored([(s, n % 3 == 0) for n, s in enumerate((edges + near) * 2)])),
        "binary-certain": ("binary", scored([(float(n % 2), n % 5 < 2) for n in range(23)])),
        "binary-empty": ("binary", [row("v1", "k0", False, score=0.7)]),
        "regression-random": ("regression", random_regression(rng)),
        "regression-right": ("regression", valued([(n / 7, n / 7) for n in range(12)])),
        "regression-one": ("regression", valued([(3.0, 2.0)])),
        "regression-constant": ("regression", valued([(n / 3, 2.0) for n in range(9)])),
        "regression-negative": ("regression", valued([(n - 6.5, 5.25 - n) for n in range(12)])),
        "regression-zeros": ("regression", valued([(0.0, 0.0), (0.0, 2.0), (1.0, 0.0), (-0.0, 0.0)])),
        "regression-huge": ("regression", valued([(1e308, 0.0), (0.0, 1e308)])),
        "regression-tiny": ("regression", valued([(1e-200, 0.0), (3e-200, 1e-200), (0.0, 0.0)])),
        "regression-wide": ("regression", valued([(1e308, 0.0), (1e308, 0.0), (1e-200, 0.0)])),
        "regression-empty": ("regression", [row("v1", "k0", False, value=1.0)]),
        "classes-random": ("multiclass", random_classes(rng, 12, 600)),
        "classes-right": ("multiclass", classed([(f"c{n % 3}", f"c{n % 3}") for n in range(9)])),
        "classes-never-predicted": ("multiclass", classed([("a", "a"), ("a", "b"), ("c", "a"), ("a", "d")])),
        "classes-one": ("multiclass", classed([("a", "a"), ("a", "a")])),
        "classes-scored": ("multiclass", random_scores(rng, ["c", "a", "d", "b"], 400)),
        "classes-scored-tied": ("multiclass", random_scores(rng, [f"n{n}" for n in range(7)], 200, 1)),
        "classes-scored-two": ("multiclass", random_scores(rng, ["no", "yes"], 60)),
        "classes-scored-one": ("multiclass", scored_classes([({"a": 0.4, "b": 0.6}, "a"), ({"a": 1.0, "b": 0.0}, "a")])),
        "classes-scored-unnamed": (
            "multiclass",
            scored_classes(
                [
                    ({"a": 0.9, "b": 0.1}, "c"),
                    ({"a": 0.6, "b": 0.4}, "a"),
                    ({"a": 0.2, "c": 0.8}, "c"),
                    ({"b": 1.0}, "b"),
                    ({"a": 0.5, "b": 0.5}, "b"),
                ]
            ),
        ),
        "classes-empty": ("multiclass", [row("v1", "k0", False, label="a")]),
        "regression-intervals": ("regression", random_intervals(rng)),
        "regression-interval-one": ("regression", bounded([(1.0, 3.0, 3.0)])),
        "regression-intervals-wide": (
            "regression",
            bounded([(-1e308, 1e308, 0.0), (0.0, 0.0, 1.0), (None, None, 2.0), (1e-200, None, 0.0)]),
        ),
    }


# ---- the metrics


def defined(value):
    """A number for JSON; null for what is none."""
    return None if value is None or not math.isfinite(value) else float(value)


def divide(part, whole):
    return None if whole == 0 else part / whole


def ece(bins, probability, right):
    """The mean over the bins, weighted by size, of the distance of the mean probability from the share that is right."""
    total = 0.0
    for bin in range(BINS):
        here = bins == bin
        if here.any():
            total += here.mean() * abs(probability[here].mean() - right[here].mean())
    return total


def ece_sklearn(late, score):
    share, mean = calibration.calibration_curve(late, score, n_bins=BINS)
    edges = np.linspace(0, 1, BINS + 1)
    sizes = np.bincount(np.searchsorted(edges[1:-1], score), minlength=BINS)
    return float(np.sum(sizes[sizes > 0] * np.abs(share - mean)) / len(score))


def ece_guo(late, score):
    """As in the code of Guo et al. 2017: bins (lower, upper] of the confidence in the class with the greater probability."""
    both = np.stack([1 - score, score], axis=1)
    confidence, right = both.max(axis=1), both.argmax(axis=1) == late
    edges, total = np.linspace(0, 1, BINS + 1), 0.0
    for lower, upper in zip(edges[:-1], edges[1:]):
        here = (confidence > lower) & (confidence <= upper)
        if here.any():
            total += here.mean() * abs(confidence[here].mean() - right[here].mean())
    return total


def lift(late, score):
    """The share of positives in the tenth with the highest scores; of a tie at its border each counts by its share."""
    top = math.ceil(len(score) / 10)
    border = np.sort(score)[-top]
    above, tied = score > border, score == border
    hits = late[above].sum() + late[tied].sum() * (top - above.sum()) / tied.sum()
    return divide(hits / top, late.mean())


def of_scores(late, score):
    both = 0 < late.sum() < len(late)
    found = {
        "log_loss": metrics.log_loss(late, score, labels=[0, 1]) if len(late) else None,
        "brier": np.mean((score - late) ** 2) if len(late) else None,
        "ece": ece(np.minimum((score * BINS).astype(int), BINS - 1), score, late) if len(late) else None,
        "ece_sklearn": ece_sklearn(late, score) if len(late) else None,
        "ece_guo": ece_guo(late, score) if len(late) else None,
        "auc": metrics.roc_auc_score(late, score) if both else None,
        "average_precision": metrics.average_precision_score(late, score) if late.sum() else None,
        "ks": stats.ks_2samp(score[late == 1], score[late == 0]).statistic if both else None,
        "lift_at_10": lift(late, score) if late.sum() else None,
    }
    if both:
        assert abs(found["brier"] - metrics.brier_score_loss(late, score)) < CLOSE
        frame = pd.DataFrame({"late": late, "score": score})
        assert abs(found["auc"] - nannyml_auc(frame)) < CLOSE
    return found


def nannyml_auc(frame):
    """The AUC that NannyML's calculator of realised performance gives of one chunk."""
    frame = frame.assign(predicted=(frame.score >= 0.5).astype(int))
    calculator = nannyml.PerformanceCalculator(
        y_true="late",
        y_pred="predicted",
        y_pred_proba="score",
        problem_type="classification_binary",
        metrics=["roc_auc"],
        chunk_number=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = calculator.fit(frame).calculate(frame).filter(period="analysis").to_df()
    return float(result[("roc_auc", "value")].iloc[0])


def worth(said, real):
    """What each prediction gains, or costs."""
    said, real = np.array(said, dtype=bool), np.array(real, dtype=bool)
    of_real = np.where(said, COSTS["tp"], -COSTS["fn"])
    return np.where(real, of_real, np.where(said, -COSTS["fp"], COSTS["tn"]))


def best(late, score):
    """The threshold with the greatest value: of the scores, and one above all of them; of equal ones the greatest."""
    if not len(score):
        return {}
    thresholds = [math.nextafter(score.max(), math.inf), *sorted(set(score.tolist()), reverse=True)]
    values = [worth(score >= threshold, late).sum() for threshold in thresholds]
    at = int(np.argmax(values))
    return {"best_threshold": thresholds[at], "best_value": values[at]}


def binary(rows, threshold=0.5):
    judged = [one for one in rows if one.get("outcome_label") is not None]
    late = [one["outcome_label"] == "late" for one in judged]

    def says_late(one):
        if one.get("label") is not None:
            return one["label"] == "late"
        return one["score"] >= threshold if one.get("score") is not None else None

    classed = [(says_late(one), y) for one, y in zip(judged, late) if says_late(one) is not None]
    said, real = [p for p, _ in classed], [y for _, y in classed]
    tn, fp, fn, tp = metrics.confusion_matrix(real, said, labels=[False, True]).ravel() if real else [0] * 4
    tn, fp, fn, tp = int(tn), int(fp), int(fn), int(tp)
    nan = {"zero_division": math.nan}
    has_all = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn) > 0
    counted = [
        (one["score"], y)
        for one, y in zip(judged, late)
        if one.get("score") is not None and 0 <= one["score"] <= 1
    ]
    zero_division = {
        zero: {
            "precision": metrics.precision_score(real, said, zero_division=zero),
            "recall": metrics.recall_score(real, said, zero_division=zero),
            "f1": metrics.f1_score(real, said, zero_division=zero),
            "specificity": metrics.recall_score(real, said, pos_label=False, zero_division=zero),
        }
        for zero in (0, 1)
        if real
    }
    score = np.array([s for s, _ in counted], dtype=float)
    truth = np.array([y for _, y in counted], dtype=int)
    return {
        "labelled": len(judged),
        "positives": sum(late),
        "threshold": threshold,
        "tp": tp,
        "fp": fp,
        "tn": tn,
        "fn": fn,
        "accuracy": metrics.accuracy_score(real, said) if real else None,
        "precision": metrics.precision_score(real, said, **nan) if real else None,
        "recall": metrics.recall_score(real, said, **nan) if real else None,
        "f1": metrics.f1_score(real, said, **nan) if real else None,
        "specificity": metrics.recall_score(real, said, pos_label=False, **nan) if real else None,
        "fpr": divide(fp, fp + tn),
        "fnr": divide(fn, fn + tp),
        "balanced_accuracy": metrics.balanced_accuracy_score(real, said)
        if len(set(real)) == 2
        else None,
        "zero_division": zero_division,
        "intervals": binary_intervals(said, real, truth, score),
        "mcc": metrics.matthews_corrcoef(real, said) if has_all else None,
        "value": worth(said, real).sum() if real else None,
        "value_per_prediction": worth(said, real).mean() if real else None,
        **best(truth, score),
        **of_scores(truth, score),
    }


def exact_root(mean):
    """The root of a fraction, to more digits than a double has."""
    if mean == 0:
        return 0.0
    shift = 4 * 1100
    scaled = math.isqrt((mean.numerator << 2 * shift) // mean.denominator)
    return number(Fraction(scaled, 1 << shift))


def number(fraction):
    """A fraction as a double; nothing when it is beyond the doubles."""
    try:
        return float(fraction)
    except OverflowError:
        return None


def regression(rows):
    pairs = [
        (one["value"], one["outcome_value"])
        for one in rows
        if one.get("value") is not None and one.get("outcome_value") is not None
    ]
    found = {"labelled": len(pairs), **of_intervals(rows)}
    if not pairs:
        return found
    # Exactly, in fractions: the libraries overflow where the answer is a double.
    p, y = [Fraction(a) for a, _ in pairs], [Fraction(b) for _, b in pairs]
    n = len(pairs)
    errors = [a - b for a, b in zip(p, y)]
    sizes = sorted(abs(e) for e in errors)
    eps = Fraction(float(np.finfo(np.float64).eps))
    mean_y = sum(y) / n
    spread = sum((b - mean_y) ** 2 for b in y)
    squares = sum(e * e for e in errors)
    ordered = sorted(errors)

    def quantile(of, q):
        place = Fraction(q) * (n - 1)
        low = int(place)
        high = min(low + 1, n - 1)
        return of[low] + (of[high] - of[low]) * (place - low)

    symmetric = [2 * abs(e) / (abs(a) + abs(b)) if a or b else 0 for e, a, b in zip(errors, p, y)]
    logs = all(v > -1 for pair in pairs for v in pair)
    found |= {
        "mae": number(sum(sizes) / n),
        "rmse": exact_root(squares / n),
        "bias": number(sum(errors) / n),
        "mse": number(squares / n),
        "mape": number(sum(abs(e) / max(abs(b), eps) for e, b in zip(errors, y)) / n),
        "smape": number(sum(symmetric) / n),
        "msle": math.fsum((math.log1p(a) - math.log1p(b)) ** 2 for a, b in pairs) / n if logs else None,
        "r2": number(1 - squares / spread) if spread else None,
        "median_absolute_error": number(quantile(sizes, 0.5)),
        "error_p10": number(quantile(ordered, 0.1)),
        "error_p50": number(quantile(ordered, 0.5)),
        "error_p90": number(quantile(ordered, 0.9)),
    }
    if max(abs(v) for pair in pairs for v in pair) < 1e100:
        found["intervals"] = regression_intervals(pairs) | interval_intervals(rows)
        agree(found, pairs, logs, bool(spread))
    return found


def ends(rows):
    """Both ends of the predicted intervals, and what was real."""
    names = ("lower", "upper", "outcome_value")
    whole = [[one.get(name) for name in names] for one in rows]
    return [one for one in whole if None not in one]


def of_intervals(rows):
    """As MAPIE's `regression_coverage_score` and `regression_mean_width_score` are defined."""
    whole = ends(rows)
    if not whole:
        return {}
    widths = [Fraction(upper) - Fraction(lower) for lower, upper, _ in whole]
    return {
        "coverage": np.mean([lower <= real <= upper for lower, upper, real in whole]),
        "interval_width": number(sum(widths) / len(widths)),
        "pinball": pinball(rows),
        "interval_level": LEVEL,
    }


def pinball(rows):
    """The mean of the losses of both ends as quantiles; each is of the predictions that have it."""
    losses = []
    for name, alpha in (("lower", (1 - LEVEL) / 2), ("upper", (1 + LEVEL) / 2)):
        pairs = [[one.get(name), one.get("outcome_value")] for one in rows]
        pairs = [pair for pair in pairs if None not in pair]
        apart = [Fraction(real) - Fraction(end) for end, real in pairs]
        exact = Fraction(alpha)
        loss = number(sum(max(exact * d, (exact - 1) * d) for d in apart) / len(apart))
        end, real = np.array(pairs).T
        if np.max(np.abs(pairs)) < 1e100:
            assert abs(loss - metrics.mean_pinball_loss(real, end, alpha=alpha)) < CLOSE
        losses.append(loss)
    return sum(losses) / 2


def interval_intervals(rows):
    whole = ends(rows)
    return {
        "coverage": wilson([lower <= real <= upper for lower, upper, real in whole]),
        "interval_width": student([upper - lower for lower, upper, _ in whole if math.isfinite(upper - lower)]),
    }


def agree(found, pairs, logs, spread):
    """Of ordinary numbers scikit-learn, numpy and NannyML say the same."""
    p, y = np.array(pairs).T
    said = {
        "mae": metrics.mean_absolute_error(y, p),
        "mse": metrics.mean_squared_error(y, p),
        "mape": metrics.mean_absolute_percentage_error(y, p),
        "median_absolute_error": metrics.median_absolute_error(y, p),
        "bias": np.mean(p - y),
        **{f"error_p{q}": np.quantile(p - y, q / 100) for q in (10, 50, 90)},
    }
    if np.max(np.abs(p - y)) > 1e-100:
        said["rmse"] = metrics.root_mean_squared_error(y, p)
    if logs:
        said["msle"] = metrics.mean_squared_log_error(y, p)
    if spread and np.var(y) > 0:
        said["r2"] = metrics.r2_score(y, p)
    for name, value in said.items():
        assert abs(found[name] - value) <= CLOSE * max(1, abs(value)), (name, found[name], value)


def class_scores(one):
    """The scores of a prediction by class."""
    return {name.removeprefix("score."): value for name, value in one.items() if name.startswith("score.")}


def says(one):
    """The class of a prediction: its label, else that with the greatest score; of several the first by name."""
    if one.get("label") is not None:
        return one["label"]
    scores = sorted(class_scores(one).items())
    return scores[int(np.argmax([score for _, score in scores]))][0] if scores else None


def of_class_scores(rows):
    """The metrics of the scores. A class that a prediction has no score of has the score 0, and is never among the first."""
    judged = [(class_scores(one), one["outcome_label"]) for one in rows if class_scores(one)]
    if not judged:
        return {}
    y = np.array([real for _, real in judged])
    labels = sorted({name for scores, real in judged for name in (*scores, real)})
    proba = np.array([[scores.get(name, 0.0) for name in labels] for scores, _ in judged])
    place = np.array([labels.index(real) for real in y])
    is_named = np.array([real in scores for scores, real in judged])
    own = np.clip(proba[np.arange(len(y)), place], np.finfo(float).eps, 1 - np.finfo(float).eps)
    order = np.argsort(proba, axis=1, kind="mergesort")[:, ::-1]
    hits = {k: is_named & (order[:, :k] == place[:, None]).any(axis=1) for k in (2, 3, 5)}
    areas = {
        name: metrics.roc_auc_score(y == name, proba[:, at])
        for at, name in enumerate(labels)
        if 0 < (y == name).sum() < len(y)
    }
    found = {
        **{f"top_{k}_accuracy": np.mean(hit) for k, hit in hits.items()},
        "log_loss": np.mean(-np.log(own)),
        "auc": np.mean(list(areas.values())) if areas else None,
    }
    found["intervals"] = {
        **{f"top_{k}_accuracy": wilson([bool(one) for one in hit]) for k, hit in hits.items()},
        "log_loss": student(-np.log(own)),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = {}
        if len(labels) > 1:
            said["log_loss"] = metrics.log_loss(y, proba, labels=labels)
        if len(set(y)) > 2 and is_named.all():
            for k in (2, 3, 5):
                said[f"top_{k}_accuracy"] = metrics.top_k_accuracy_score(y, proba, k=k, labels=labels)
        if len(areas) == len(labels) > 2:
            said["auc"] = metrics.roc_auc_score(y, proba, multi_class="ovr", average="macro", labels=labels)
            assert abs(said["auc"] - nannyml_multiclass_auc(y, proba, labels)) < CLOSE
    for name, value in said.items():
        assert abs(found[name] - value) < CLOSE, (name, found[name], value)
    return found


def nannyml_multiclass_auc(y, proba, labels):
    """The AUC that NannyML's calculator of realised performance gives of one chunk."""
    columns = {name: f"p_{name}" for name in labels}
    frame = pd.DataFrame(proba, columns=list(columns.values())).assign(real=y)
    frame["said"] = [labels[at] for at in proba.argmax(axis=1)]
    calculator = nannyml.PerformanceCalculator(
        y_true="real",
        y_pred="said",
        y_pred_proba=columns,
        problem_type="classification_multiclass",
        metrics=["roc_auc"],
        chunk_number=1,
    )
    result = calculator.fit(frame).calculate(frame).filter(period="analysis").to_df()
    return float(result[("roc_auc", "value")].iloc[0])


def multiclass(rows):
    rows = [one for one in rows if one.get("outcome_label") is not None]
    pairs = [(says(one), one["outcome_label"]) for one in rows if says(one) is not None]
    found = {"labelled": len(pairs)}
    if not pairs:
        return found
    p, y = zip(*pairs)
    right = wilson([a == b for a, b in pairs])
    found["intervals"] = {name: right for name in ("accuracy", "micro_precision", "micro_recall", "micro_f1")}
    found["zero_division"] = {
        zero: {
            f"{average}_{name}": getattr(metrics, f"{name}_score")(y, p, average=average, zero_division=zero)
            for average in ("macro", "weighted")
            for name in ("precision", "recall", "f1")
        }
        for zero in (0, 1)
    }
    found |= {
        "accuracy": metrics.accuracy_score(y, p),
        "balanced_accuracy": metrics.recall_score(y, p, average="macro", zero_division=math.nan),
    }
    for average in ("micro", "macro", "weighted"):
        for name in ("precision", "recall", "f1"):
            score = getattr(metrics, f"{name}_score")
            found[f"{average}_{name}"] = score(y, p, average=average, zero_division=math.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert abs(found["balanced_accuracy"] - metrics.balanced_accuracy_score(y, p)) < CLOSE
    of_scores = of_class_scores(rows)
    found["intervals"] |= of_scores.pop("intervals", {})
    return found | of_scores


TASKS = {"binary": binary, "regression": regression, "multiclass": multiclass}


# ---- what is counted of all tasks


def distance(task, one):
    """How far a prediction is from the truth; None when that cannot be said."""
    if task == "regression":
        value, real = one.get("value"), one.get("outcome_value")
        return None if value is None or real is None else abs(value - real)
    label, real, score = one.get("label"), one.get("outcome_label"), one.get("score")
    if real is None:
        return None
    if task == "multiclass":
        return None if says(one) is None else float(says(one) != real)
    if score is not None and 0 <= score <= 1:
        return abs(score - float(real == "late"))
    return None if label is None else float((label == "late") != (real == "late"))


def counted(task, release, last, rows):
    mine = [one for (of, _), one in last.items() if of == release]
    scores = [one["score"] for one in mine if one.get("score") is not None]
    record = {"wins": 0, "losses": 0, "ties": 0}
    for one in mine:
        for (other, key), their in last.items():
            if other in ("", release) or key != one["key"] or not one["outcome"]:
                continue
            a, b = distance(task, one), distance(task, their)
            if a is not None and b is not None:
                record["wins" if a < b else "losses" if a > b else "ties"] += 1
    outcomes = sum(one["outcome"] for one in mine)
    return {
        "predictions": len(mine),
        "maturity": outcomes / len(mine),
        "mean_score": math.fsum(scores) / len(scores) if scores else None,
        **record,
        "repeated": sum(one["release"] == release for one in rows) - len(mine),
        "erased": sum(one["key"].startswith("erased~") for one in mine),
        "orphaned": sum(one["release"] == "" for one in rows),
        "outcomes": outcomes,
    }


# ---- their intervals, where keys do not repeat


def wilson(right):
    if not right:
        return None
    found = stats.binomtest(sum(right), len(right)).proportion_ci(0.95, method="wilson")
    return [len(right), defined(found.low), defined(found.high)]


def student(values):
    """A mean; of less than two values there is no interval."""
    if len(values) < 2:
        return [len(values), None, None] if len(values) else None
    mean, error = np.mean(values), stats.sem(values)
    if not np.isfinite(error):
        return [len(values), None, None]
    half = stats.t.ppf(0.975, len(values) - 1) * error
    return [len(values), defined(mean - half), defined(mean + half)]


def delong(late, score):
    """By the definition of DeLong, DeLong and Clarke-Pearson 1988, pair by pair."""
    above, below = score[late == 1][:, None], score[late == 0][None, :]
    if not above.size or not below.size:
        return None
    wins = (above > below) + 0.5 * (above == below)
    if min(wins.shape) < 2:
        return [len(score), None, None]
    variance = wins.mean(axis=1).var(ddof=1) / wins.shape[0] + wins.mean(axis=0).var(ddof=1) / wins.shape[1]
    half = stats.norm.ppf(0.975) * math.sqrt(variance)
    return [len(score), max(0.0, wins.mean() - half), min(1.0, wins.mean() + half)]


def binary_intervals(said, real, truth, score):
    pairs = list(zip(said, real))
    p = np.clip(np.where(truth == 1, score, 1 - score), np.finfo(float).eps, 1 - np.finfo(float).eps)
    return {
        "accuracy": wilson([p == y for p, y in pairs]),
        "precision": wilson([y for p, y in pairs if p]),
        "recall": wilson([p for p, y in pairs if y]),
        "specificity": wilson([not p for p, y in pairs if not y]),
        "fpr": wilson([p for p, y in pairs if not y]),
        "fnr": wilson([not p for p, y in pairs if y]),
        "log_loss": student(-np.log(p)),
        "brier": student((score - truth) ** 2),
        "auc": delong(truth, score),
        "value_per_prediction": student(worth(said, real)),
    }


def regression_intervals(pairs):
    p, y = np.array(pairs, dtype=float).T
    error, eps = p - y, np.finfo(float).eps
    with np.errstate(all="ignore"):
        size = np.abs(p) + np.abs(y)
        found = {
            "mae": student(np.abs(error)),
            "bias": student(error),
            "mse": student(error**2),
            "mape": student(np.abs(error) / np.maximum(np.abs(y), eps)),
            "smape": student(np.where(size == 0, 0, 2 * np.abs(error) / np.where(size == 0, 1, size))),
        }
        if np.all(p > -1) and np.all(y > -1):
            found["msle"] = student((np.log1p(p) - np.log1p(y)) ** 2)
    return found


def binary_arrays(rows):
    """Of the judged rows whether they are late, are said to be late, and their scores; nan where there is none."""
    judged = [one for one in rows if one.get("outcome_label") is not None]
    late = np.array([one["outcome_label"] == "late" for one in judged])
    score = [one.get("score") for one in judged]
    score = np.array([math.nan if one is None else one for one in score], dtype=float)
    label = [one.get("label") for one in judged]
    said = [float(l == "late") if l is not None else float(s >= 0.5) if s == s else math.nan for l, s in zip(label, score)]
    score[~((score >= 0) & (score <= 1))] = math.nan
    return late, np.array(said), score


def bootstraps(task, rows):
    """Percentile intervals of metrics without a formula, by scipy; they are as sure as the draws are many."""
    if task == "binary":
        late, said, score = binary_arrays(rows)

        def classed(metric):
            def of(at):
                has = at[~np.isnan(said[at])]
                return metric(late[has], said[has] == 1)

            return of

        def ranked(metric):
            def of(at):
                has = at[~np.isnan(score[at])]
                return metric(late[has].astype(int), score[has])

            return of

        count = len(late)
        metrics = {
            "f1": classed(lambda y, p: metrics.f1_score(y, p)),
            "mcc": classed(metrics.matthews_corrcoef),
            "balanced_accuracy": classed(metrics.balanced_accuracy_score),
            "value": classed(lambda y, p: worth(p, y).sum()),
            "average_precision": ranked(metrics.average_precision_score),
            "ks": ranked(lambda y, s: stats.ks_2samp(s[y == 1], s[y == 0]).statistic),
            "ece_sklearn": ranked(ece_sklearn),
        }
    else:
        pairs = [(one.get("value"), one.get("outcome_value")) for one in rows]
        p, y = np.array([pair for pair in pairs if None not in pair]).T
        count = len(p)
        metrics = {
            "rmse": lambda at: metrics.root_mean_squared_error(y[at], p[at]),
            "r2": lambda at: metrics.r2_score(y[at], p[at]),
            "median_absolute_error": lambda at: metrics.median_absolute_error(y[at], p[at]),
            "error_p90": lambda at: np.quantile(p[at] - y[at], 0.9),
        }

    def interval(metric):
        def statistic(at):
            return metric(at.astype(int))

        found = stats.bootstrap(
            (np.arange(count),), statistic, vectorized=False, method="percentile", n_resamples=DRAWS, random_state=SEED
        )
        return [float(found.confidence_interval.low), float(found.confidence_interval.high)]

    return {name: interval(metric) for name, metric in metrics.items()}


def column(rows, name):
    """The values that there are."""
    return np.array([one[name] for one in rows if one.get(name) is not None])


def sure(rows):
    known = [one for one in rows if (one.get("score") or 0) > 0.5 and one.get("outcome_label")]
    return np.mean(column(known, "score")) if known else None


def right(rows):
    known = [one for one in rows if one.get("outcome_label")]
    return np.mean([one.get("label") == one["outcome_label"] for one in known]) if known else None


def of_column(name, statistic, least=1):
    return lambda rows: statistic(column(rows, name)) if len(column(rows, name)) >= least else None


# Custom metrics: their expressions, and the same by numpy.
CUSTOM = {
    "average": ("avg(score)", of_column("score", np.mean)),
    "known": (
        "count(outcome_label) + count(outcome_value)",
        lambda rows: float(len(column(rows, "outcome_label")) + len(column(rows, "outcome_value"))),
    ),
    "middle": ("median(score)", of_column("score", np.median)),
    "p90": ("quantile_cont(score, 0.9)", of_column("score", lambda scores: np.quantile(scores, 0.9))),
    "range": ("max(value) - min(value)", of_column("value", np.ptp)),
    "right": ("sum(case when label = outcome_label then 1 else 0 end) / count(outcome_label)", right),
    "spread": ("stddev(score)", of_column("score", lambda scores: np.std(scores, ddof=1), 2)),
    "sure": ("avg(score) filter (where score > 0.5 and outcome_label is not null)", sure),
}


def custom(rows):
    with np.errstate(all="ignore"):
        return {name: defined(metric(rows)) for name, (_, metric) in CUSTOM.items()}


def at_threshold(rows, threshold):
    """The metrics of all predictions with a score, judged at a threshold; labels count only where there is no score."""
    without = [dict(one, label=None) if one.get("score") is not None else one for one in rows]
    metrics = binary(without, threshold)
    names = ("threshold", "tp", "fp", "tn", "fn", "accuracy", "precision", "recall", "f1", "specificity", "mcc", "auc")
    names += ("value", "value_per_prediction", "best_threshold", "best_value")
    return {name: metrics[name] if isinstance(metrics.get(name), int) else defined(metrics.get(name)) for name in names}


def evaluate(task, rows):
    last = {(one["release"], one["key"]): one for one in rows}
    found = {}
    for release in sorted({one["release"] for one in rows} - {""}):
        mine = [one for (of, _), one in last.items() if of == release and one["outcome"]]
        metrics = counted(task, release, last, rows) | TASKS[task](mine)
        if task == "binary":
            metrics["thresholds"] = {str(t): at_threshold(mine, t) for t in (0.1, 0.3, 0.7)}
        metrics["unlabelled"] = metrics.pop("outcomes") - metrics["labelled"]
        metrics["custom"] = custom([one for (of, _), one in last.items() if of == release])
        found[release] = {
            name: value if isinstance(value, (int, dict)) else defined(value)
            for name, value in metrics.items()
        }
    return found


def text(value):
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def main():
    made = {}
    for name, (task, rows) in cases().items():
        with open(HERE / "data" / f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            columns = COLUMNS + sorted({column for one in rows for column in one} - set(COLUMNS))
            writer.writerow(columns)
            for one in rows:
                cells = dict(one, outcome=int(one["outcome"]))
                writer.writerow([text(cells.get(column)) for column in columns])
        made[name] = {"task": task, "releases": evaluate(task, rows)}
        if name in DRAWN:
            last = {(one["release"], one["key"]): one for one in rows}
            mine = [one for (of, _), one in last.items() if of == "v1" and one["outcome"]]
            made[name]["releases"]["v1"]["bootstraps"] = bootstraps(task, mine)
    versions = {package.__name__: package.__version__ for package in (np, pd, scipy, sklearn, nannyml)}
    costs = ",".join(f"{name}={number:g}" for name, number in COSTS.items())
    expressions = {name: expression for name, (expression, _) in CUSTOM.items()}
    reference = {
        "made_with": versions,
        "costs": costs,
        "interval_level": LEVEL,
        "custom": expressions,
        "cases": made,
    }
    (HERE / "metrics.json").write_text(json.dumps(reference, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
