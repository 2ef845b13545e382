"""The set of weather: how warm will it be at the airports of New York in each of the next 24 hours?

At midnight UTC each release predicts the temperature of the 24 hours of the day, at three airports.
Release v1 predicts from July 2013 on, release v2 from October on as well.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from files import TIMESTAMP, File, package_table

HOURS = 24
LAST_HOUR = HOURS - 1

# Each release: the day of its first prediction.
STARTS = {"v1": "2013-07-01", "v2": "2013-10-01"}

# Intervals come from the errors that a release made on the days before, from the 5% to the 95% quantile, of
# each quarter of the day by itself: the first hours are easier to predict than the last.
WINDOW_DAYS = 28
QUANTILES = (0.05, 0.95)
QUARTER_HOURS = 6

# v2 is not trained on the last days before its release, so that its first intervals come from days that it did
# not know.
TRAINED_BEFORE = pd.Timestamp(STARTS["v2"], tz="UTC") - pd.Timedelta(days=WINDOW_DAYS)

# One wind of 1048 miles an hour is in the table.
GREATEST_WIND = 100

FEATURES = [
    "change",  # since the day before, in the same hour
    "last_change",  # since the day before, in the last hour that was measured
    "trend",  # over the last six hours
    "anomaly",  # the mean of the day less that of the week
    "above_week",  # the same hour less its mean over the week
    "dryness",  # the temperature less the dew point
    "pressure_trend",  # over the last six hours
    "pressure_change",  # over the last day
    "wind_east",
    "wind_north",
]

PREDICTIONS = pa.schema(
    [
        ("release", pa.string()),
        ("key", pa.string()),
        ("predicted_at", TIMESTAMP),
        ("value", pa.float64()),
        ("lower", pa.float64()),
        ("upper", pa.float64()),
        ("airport", pa.string()),
    ]
)
OUTCOMES = pa.schema(
    [
        ("key", pa.string()),
        ("predicted_at", TIMESTAMP),
        ("observed_at", TIMESTAMP),
        ("value", pa.float64()),
    ]
)


def by_day(rows, column, days):
    """The values of a column: a row a UTC day, a column an hour; nothing where nothing was measured."""
    hours = pd.date_range(days[0], periods=len(days) * HOURS, freq="h")
    values = rows.set_index("hour")[column].reindex(hours)
    return pd.DataFrame(values.to_numpy().reshape(-1, HOURS), index=days)


def add_columns(weather):
    """Every hour of every day at every airport: what was known at its midnight, and what was measured."""
    w = weather.assign(hour=pd.to_datetime(weather.time_hour))
    assert not w.duplicated(["origin", "hour"]).any()
    wind = w.wind_speed.where(w.wind_speed < GREATEST_WIND)
    w["wind_east"] = wind * np.sin(np.deg2rad(w.wind_dir))
    w["wind_north"] = wind * np.cos(np.deg2rad(w.wind_dir))
    days = pd.date_range(w.hour.min().floor("D"), w.hour.max().floor("D"), freq="D")
    airports = [airport_hours(rows, airport, days) for airport, rows in w.groupby("origin")]
    return pd.concat(airports, ignore_index=True)


def airport_hours(rows, airport, days):
    """The hours of one airport."""
    real = by_day(rows, "temp", days)
    # What was measured by an hour, or shortly before it.
    temp, dew, pressure = (
        by_day(rows, column, days).T.ffill(limit=6).T for column in ("temp", "dewp", "pressure")
    )
    # The same hour on the latest day that has it.
    same = real.ffill(limit=7)
    week = real.rolling(7, min_periods=5).mean()
    daily = real.mean(axis=1)
    evening = [LAST_HOUR - back for back in range(4)]
    of_the_day = {
        "last_change": temp[LAST_HOUR] - temp[LAST_HOUR].shift(1),
        "trend": temp[LAST_HOUR] - temp[LAST_HOUR - 6],
        "anomaly": daily - daily.rolling(7, min_periods=5).mean(),
        "dryness": temp[LAST_HOUR] - dew[LAST_HOUR],
        "pressure_trend": pressure[LAST_HOUR] - pressure[LAST_HOUR - 6],
        "pressure_change": pressure[LAST_HOUR] - pressure[LAST_HOUR].shift(1),
        "wind_east": by_day(rows, "wind_east", days)[evening].mean(axis=1),
        "wind_north": by_day(rows, "wind_north", days)[evening].mean(axis=1),
    }
    hours = []
    for hour in range(HOURS):
        of_the_hour = {
            "before": same[hour],
            "change": same[hour] - same[hour].shift(1),
            "above_week": same[hour] - week[hour],
        }
        # All of it is of the day before, which has ended at midnight.
        known = pd.DataFrame({**of_the_day, **of_the_hour}, index=days).shift(1)
        hours.append(known.assign(day=days, hour=hour, airport=airport, real=real[hour]))
    return pd.concat(hours)


def persistence(h):
    """v1: as warm as in the same hour of the day before."""
    return h.before


def by_hour(h):
    """v2: how much warmer than the day before, by a ridge regression for each hour of the day."""
    known = (h.day < TRAINED_BEFORE) & h.real.notna() & h.before.notna()
    values = pd.Series(np.nan, index=h.index)
    for _, rows in h.groupby("hour"):
        train = rows[known[rows.index]]
        model = make_pipeline(SimpleImputer(), StandardScaler(), Ridge(alpha=100))
        model.fit(train[FEATURES], train.real - train.before)
        values[rows.index] = rows.before + model.predict(rows[FEATURES])
    return values


def trees(h):
    """What v2 might have been: the same by boosted trees."""
    known = (h.day < TRAINED_BEFORE) & h.real.notna() & h.before.notna()
    columns = [*FEATURES, "hour"]
    model = HistGradientBoostingRegressor(
        max_iter=200, learning_rate=0.03, early_stopping=False, random_state=2013
    )
    model.fit(h[known][columns], (h.real - h.before)[known])
    return h.before + model.predict(h[columns])


def predict(h, release, values):
    """The predictions of a release, each with its interval."""
    rows = h.assign(release=release, value=values.round(2))
    rows["error"] = rows.real - rows.value
    rows["quarter"] = rows.hour // QUARTER_HOURS
    start = pd.Timestamp(STARTS[release], tz="UTC")
    predicted = []
    for (day, quarter), hours in rows[rows.day >= start].groupby(["day", "quarter"]):
        since = day - pd.Timedelta(days=WINDOW_DAYS)
        past = rows[(rows.day >= since) & (rows.day < day) & (rows.quarter == quarter)]
        low, high = past.error.quantile(QUANTILES)
        predicted.append(
            hours.assign(lower=(hours.value + low).round(2), upper=(hours.value + high).round(2))
        )
    return pd.concat(predicted)


def compare_models(h):
    """Print how the candidates for v2 do on the last days before its release."""
    start = pd.Timestamp(STARTS["v2"], tz="UTC")
    held_out = (h.day >= TRAINED_BEFORE) & (h.day < start)
    for model in (persistence, by_hour, trees):
        error = (model(h) - h.real)[held_out]
        print(f"mean absolute error before the release of v2, {model.__name__}: {error.abs().mean():.3f}")


def summarise(predictions):
    print("month    release  labelled  mae  rmse  bias  coverage  width")
    done = predictions[predictions.real.notna()]
    for (month, release), rows in done.groupby([done.day.dt.strftime("%Y-%m"), "release"]):
        error = rows.value - rows.real
        covered = rows.real.between(rows.lower, rows.upper).mean()
        metrics = [error.abs().mean(), (error**2).mean() ** 0.5, error.mean(), covered]
        metrics.append((rows.upper - rows.lower).mean())
        print(f"{month}  {release}  {len(rows)}  " + "  ".join(f"{metric:.3f}" for metric in metrics))


def make():
    """The predictions and the outcomes, each as a file of its own."""
    h = add_columns(package_table("weather.csv"))
    compare_models(h)
    h["key"] = h.airport + h.day.dt.strftime("-%Y%m%d") + h.hour.map("T{:02}".format)
    h["predicted_at"] = h.day
    # The hour has ended by then, so its temperature has been measured.
    h["observed_at"] = h.day + pd.to_timedelta(h.hour + 1, unit="h")
    models = {"v1": persistence, "v2": by_hour}
    predictions = pd.concat(predict(h, release, model(h)) for release, model in models.items())
    assert predictions[["value", "lower", "upper"]].notna().all(axis=None)
    assert (predictions.lower <= predictions.upper).all()
    predictions = predictions.sort_values(["predicted_at", "release", "key"])
    outcomes = h[h.real.notna() & (h.day >= STARTS["v1"])].assign(value=h.real)
    outcomes = outcomes.sort_values(["observed_at", "key"])
    summarise(predictions)

    repeated = ["release", "predicted_at", "value", "lower", "upper", "airport"]
    packed = {"key": "DELTA_BYTE_ARRAY", "observed_at": "DELTA_BINARY_PACKED"}
    return [
        File("predictions", predictions, PREDICTIONS, repeated, {"key": "DELTA_BYTE_ARRAY"}),
        File("outcomes", outcomes, OUTCOMES, ["predicted_at", "value"], packed),
    ]
