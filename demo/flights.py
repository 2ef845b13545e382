"""The set of flights: will a flight arrive more than 15 minutes late?

Every flight that left New York from April 2013 on is predicted by release v1,
and from July on by release v2 as well.
"""

from datetime import datetime, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from files import TIMESTAMP, File, package_table

NEW_YORK = "America/New_York"

# The package's table of airports lacks these four. They are in Puerto Rico and
# the US Virgin Islands, on Atlantic standard time all year.
MISSING_ZONES = dict.fromkeys(["BQN", "PSE", "SJU", "STT"], "America/Puerto_Rico")

# Everything here is in the published schedule. Month is left out on purpose:
# v1 has seen three months and v2 six, and both predict months they have not
# seen, for which a month column could only carry over the wrong season.
CATEGORIES = ["carrier", "origin", "dest", "hour", "weekday"]
NUMBERS = ["minute_of_day", "distance"]

PREDICTIONS = pa.schema(
    [
        ("release", pa.string()),
        ("key", pa.string()),
        ("predicted_at", TIMESTAMP),
        ("score", pa.float64()),
        ("label", pa.string()),
        ("carrier", pa.string()),
        ("origin", pa.string()),
    ]
)
OUTCOMES = pa.schema(
    [
        ("key", pa.string()),
        ("predicted_at", TIMESTAMP),
        ("observed_at", TIMESTAMP),
        ("label", pa.string()),
    ]
)


def add_columns(flights, airports):
    """Give each flight its key, its instants in UTC, its features and its outcome."""
    f = flights
    f["date"] = pd.to_datetime(f[["year", "month", "day"]])
    f["key"] = f.carrier + f.flight.astype(str) + "-" + f.origin + f.date.dt.strftime("-%Y%m%d")
    assert f.key.is_unique

    f["minute_of_day"] = minutes(f.sched_dep_time)
    f["weekday"] = f.date.dt.day_of_week
    f["late"] = f.arr_delay > 15
    f["done"] = f.arr_delay.notna()  # cancelled and diverted flights have no outcome

    f["predicted_at"] = f.date.map({d: half_past_midnight(d) for d in f.date.unique()})
    f["scheduled"] = instant(f.date, f.minute_of_day, NEW_YORK)
    f["departed"] = f.scheduled + in_minutes(f.dep_delay)
    zones = {**dict(zip(airports.faa, airports.tzone)), **MISSING_ZONES}
    f["zone"] = f.dest.map(zones)
    f["observed_at"] = arrivals(f, f.arr_time, f.departed + in_minutes(f.air_time))
    return f


def half_past_midnight(day):
    """00:30 in New York on that day, before the first flight leaves."""
    local = datetime(day.year, day.month, day.day, 0, 30, tzinfo=ZoneInfo(NEW_YORK))
    return pd.Timestamp(local.astimezone(timezone.utc))


def minutes(hhmm):
    """Minutes after midnight of a time written HHMM; 2400 is the next midnight."""
    return hhmm // 100 * 60 + hhmm % 100


def in_minutes(number):
    return pd.to_timedelta(number, unit="min")


def instant(date, minute, zone, first=True):
    """The UTC instant of a local time.

    `first` says which one in the hour that autumn repeats. A time in the hour that
    spring skips (one flight has one) was read off a clock not yet put forward.
    """
    skipped = pd.Timedelta(hours=1)
    local = date + in_minutes(minute)
    local = local.dt.tz_localize(
        zone, ambiguous=np.full(len(local), first), nonexistent=skipped
    )
    return local.dt.tz_convert("UTC").dt.as_unit("us")


def arrivals(f, hhmm, earliest):
    """The first instant not before `earliest` at which the destination's clocks show `hhmm`."""
    found = pd.Series(pd.NaT, index=f.index, dtype="datetime64[us, UTC]")
    for zone, g in f[hhmm.notna() & earliest.notna()].groupby("zone"):
        for days in range(3):
            for first in (True, False):
                date = g.date + pd.Timedelta(days=days)
                at = instant(date, minutes(hhmm[g.index]), zone, first)
                at = at[(at >= earliest[g.index]) & found[g.index].isna()]
                found[at.index] = at
    return found


def check_arrivals(f):
    """Stop if the arrivals disagree with the flight times or the schedule."""
    done = f[f.done]
    assert done.observed_at.notna().all()
    assert (done.observed_at > done.predicted_at).all()
    ground = (done.observed_at - done.departed).dt.total_seconds() / 60 - done.air_time
    print("minutes on the ground (departure to arrival, less air time):")
    print("  " + ", ".join(f"{q:.1%} {ground.quantile(q):.0f}" for q in (0, 0.01, 0.5, 0.99, 1)))
    assert ground.between(0, 240).all()

    # The same instants by another way: the scheduled arrival plus the published delay.
    by_schedule = arrivals(f, f.sched_arr_time, f.scheduled) + in_minutes(f.arr_delay)
    gap = (done.observed_at - by_schedule[done.index]).dt.total_seconds() / 60
    print(f"arrivals that differ from schedule plus delay: {(gap != 0).sum()} of {len(gap)}")
    assert (gap == 0).all()


def releases():
    """Each release: its model and the day of its first prediction."""
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), CATEGORIES),
        (StandardScaler(), NUMBERS),
    )
    linear = make_pipeline(encode, LogisticRegression(max_iter=1000))
    boosted = HistGradientBoostingClassifier(
        max_iter=200, learning_rate=0.05, early_stopping=False, random_state=2013
    )
    return {"v1": (linear, "2013-04-01"), "v2": (boosted, "2013-07-01")}


def predict(f, release, model, start):
    """Train on the outcomes known at the first prediction, then predict all later flights."""
    x = f[CATEGORIES + NUMBERS].astype(dict.fromkeys(CATEGORIES, "category"))
    later = f.date >= start
    known = f.done & (f.observed_at < f.predicted_at[later].min())
    assert not (known & later).any()
    model.fit(x[known], f.late[known])
    rows = f[later].copy()
    rows["release"] = release
    rows["score"] = model.predict_proba(x[later])[:, 1].round(4)
    rows["label"] = label(rows.score >= 0.5)
    print(f"{release}: trained on {known.sum()} flights, predicted {len(rows)}")
    return rows


def label(late):
    return np.where(late, "late", "on time")


def summarise(predictions, outcomes):
    june = predictions[(predictions.release == "v1") & (predictions.month == 6)]
    print(f"June 2013, v1: {len(june)} predictions over {june.date.nunique()} days")
    print(f"outcomes: {len(outcomes)}, longest key: {predictions.key.str.len().max()}")
    print("month  late   mean score v1 v2   AUC v1 v2")
    done = predictions[predictions.done]
    for month, rows in done.groupby("month"):
        groups = [g for _, g in rows.groupby("release")]
        means = " ".join(f"{g.score.mean():.3f}" for g in groups)
        aucs = " ".join(f"{roc_auc_score(g.late, g.score):.4f}" for g in groups)
        print(f"{month:5}  {groups[0].late.mean():.3f}  {means}  {aucs}")
    for name, part in [("April on", done), ("July on", done[done.month >= 7])]:
        for release, g in part.groupby("release"):
            print(f"{name}, {release}: AUC {roc_auc_score(g.late, g.score):.4f}")


def make():
    """The predictions and the outcomes, each as a file of its own."""
    f = add_columns(package_table("flights.csv.zip"), package_table("airports.csv"))
    check_arrivals(f)
    predictions = pd.concat(predict(f, name, *how) for name, how in releases().items())
    predictions = predictions.sort_values(["predicted_at", "release", "key"])
    outcomes = f[f.done & (f.month >= 4)].sort_values(["observed_at", "key"])
    outcomes = outcomes.assign(label=label(outcomes.late))
    summarise(predictions, outcomes)

    repeated = ["release", "predicted_at", "score", "label", "carrier", "origin"]
    packed = {"key": "DELTA_BYTE_ARRAY", "observed_at": "DELTA_BINARY_PACKED"}
    return [
        File("predictions", predictions, PREDICTIONS, repeated, {"key": "DELTA_BYTE_ARRAY"}),
        File("outcomes", outcomes, OUTCOMES, ["predicted_at", "label"], packed),
    ]
