"""DuckDB: FOLDER. Joins outcomes, then accuracy, AUC and Brier score by day and release."""

import pathlib
import sys

import duckdb

import events

QUERY = """
with judged as (
    select p.day, p.release, p.score, p.label = o.label as correct, (o.label = 'default')::int as positive
    from predictions p join outcomes o on p.key = o.key and p.predicted_at = o.predicted_at
), ranked as (
    -- The mean rank of ties.
    select *,
        rank() over same + (count(*) over (partition by day, release, score) - 1) / 2.0 as rank
    from judged
    window same as (partition by day, release order by score)
)
select day, release, count(*) as labelled, avg(correct::int) as accuracy,
    (sum(rank) filter (where positive = 1) - sum(positive) * (sum(positive) + 1) / 2)
        / (sum(positive)::double * (count(*) - sum(positive))) as auc,
    avg((score - positive) ** 2) as brier
from ranked group by day, release order by day, release
"""

connection = duckdb.connect(str(pathlib.Path(sys.argv[1], "events.duckdb")), read_only=True)
connection.execute(f"set threads = {events.THREADS}")
ms, days = events.median_ms(lambda: connection.sql(QUERY).pl())
events.found(
    ms=ms,
    labelled=float(days["labelled"].sum()),
    **{name: days[name].mean() for name in ("accuracy", "auc", "brier")},
)
