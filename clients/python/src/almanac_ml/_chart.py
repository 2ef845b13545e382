"""A small chart and tables for notebooks: HTML and SVG as text, without a script and without another library."""

from __future__ import annotations

from datetime import date, timedelta
from html import escape
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from . import _frames
from .errors import AlmanacError

if TYPE_CHECKING:
    from .client import Workspace

#: The metric that is shown unless another is asked for: the first that there is.
METRICS = ("auc", "accuracy", "rmse", "mae")

#: Columns that say when, of which the first that there is stands below the chart.
TIMES = ("hour", "day")

#: Columns that say of what a metric is; so do those of tags and features.
WHOSE = ("release", "model", "class", "truth", "metric", "column", "age")

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 150, 56, 8, 10, 18

#: How many names stand beside each other below the chart, how wide each is, and how high their lines are.
NAMES, NAME_WIDTH, NAME_HEIGHT = 4, 120, 16
COLOURS = ("#3366cc", "#dc7633", "#2e8b57", "#9b59b6", "#c0392b", "#7f8c8d")
BARS = "▁▂▃▄▅▆▇█"

#: How many days of metrics a workspace shows, how far it looks for them, and how long that may take.
SHOWN_DAYS = 60
WINDOW_DAYS, WINDOWS = 3_650, 2
TIMEOUT_SECONDS = 3.0

Point = Tuple[str, Optional[float]]


class Series(NamedTuple):
    """The values of one release, model, class or the like in the order of time."""

    name: str
    points: List[Point]


class Chart:
    """A metric over time. Notebooks show it; as text it is a line of bars for each series."""

    def __init__(self, metric: str, series: Sequence[Series]) -> None:
        self.metric = metric
        self.series = list(series)

    def __str__(self) -> str:
        low, high = self._range()
        width = max((len(one.name) for one in self.series), default=0)
        lines = [f"{self.metric}, from {_number(low)} to {_number(high)}"]
        times = self._times()
        for one in self.series:
            values = dict(one.points)
            bars = "".join(_bar(values.get(at), low, high) for at in times)
            lines.append(f"{one.name:{width}} {bars}".rstrip())
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        last = [(one.name, next((v for _, v in reversed(one.points) if v is not None), None)) for one in self.series]
        rows = [[name, len(one.points), _number(value)] for (name, value), one in zip(last, self.series)]
        return self.svg() + table(["", "points", f"last {self.metric}"], rows)

    def svg(self) -> str:
        """The chart as SVG."""
        low, high = self._range()
        times = self._times()
        places = {at: LEFT + (WIDTH - LEFT - RIGHT) * n / max(len(times) - 1, 1) for n, at in enumerate(times)}
        span = (high - low) or 1.0
        floor = HEIGHT - BOTTOM
        height = HEIGHT + NAME_HEIGHT * max(1, -(-len(self.series) // NAMES))

        def y(value: float) -> float:
            return floor - (floor - TOP) * (value - low) / span

        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'role="img" font-family="sans-serif" font-size="11" fill="currentColor">',
            f"<title>{escape(self.metric)}, {escape(' and '.join(one.name for one in self.series))}</title>",
        ]
        for value in (low, high):
            parts.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{_number(value)}</text>')
            parts.append(
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" '
                f'stroke="currentColor" stroke-opacity="0.2"/>'
            )
        if times:
            parts.append(f'<text x="{LEFT}" y="{HEIGHT - 4}">{escape(times[0])}</text>')
            parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{escape(times[-1])}</text>')
        for number, one in enumerate(self.series):
            colour = COLOURS[number % len(COLOURS)]
            for line in _unbroken(one.points):
                points = " ".join(f"{places[at]:.1f},{y(value):.1f}" for at, value in line)
                if len(line) == 1:
                    x, dot = points.split(",")
                    parts.append(f'<circle cx="{x}" cy="{dot}" r="2" fill="{colour}"/>')
                else:
                    parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
            row, place = divmod(number, NAMES)
            left, below = LEFT + place * NAME_WIDTH, HEIGHT + row * NAME_HEIGHT + 12
            parts.append(f'<text x="{left}" y="{below}" fill="{colour}">{escape(one.name[:18])}</text>')
        return "".join(parts) + "</svg>"

    def _times(self) -> List[str]:
        return sorted({at for one in self.series for at, _ in one.points})

    def _range(self) -> Tuple[float, float]:
        values = [value for one in self.series for _, value in one.points if value is not None]
        return (min(values), max(values)) if values else (0.0, 0.0)


def chart(frame: Any, metric: Optional[str] = None) -> Chart:
    """A chart of a frame that has a column ``day`` or ``hour``, such as evaluations: ``metric`` over time, a line for
    each release, model, class, metric, column, age or value that it is broken down by. Without ``metric``, it is of
    the first of AUC, accuracy, RMSE and MAE that there is."""
    rows = rows_of(frame)
    names = list(dict.fromkeys(name for row in rows for name in row)) or _frames.names_of(frame)
    time = next((name for name in TIMES if name in names), None)
    if time is None:
        raise AlmanacError(f"a chart is over time: there is no column day or hour among {', '.join(names)}")
    if metric is None:
        shown = (name for name in METRICS if not all(_is_missing(row.get(name)) for row in rows))
        metric = next(shown, METRICS[0])
    elif metric not in names:
        raise AlmanacError(f"there is no column {metric!r}; there are {', '.join(names)}")
    whose = [name for name in names if name in WHOSE or name.startswith(("tag.", "feature."))]
    if "truth" in whose and "predicted" in names:
        # Of a confusion; elsewhere it is a count.
        whose.append("predicted")
    series: Dict[str, List[Point]] = {}
    # A day in pandas is a datetime.
    letters = len("2026-06-01") if time == "day" else None
    for row in sorted(rows, key=lambda row: str(row[time])):
        name = " ".join(str(row.get(part)) for part in whose if not _is_missing(row.get(part))) or metric
        value = row.get(metric)
        point = (str(row[time])[:letters], None if value is None or _is_missing(value) else float(value))
        series.setdefault(name, []).append(point)
    return Chart(metric, [Series(name, points) for name, points in series.items()])


def _is_missing(value: Any) -> bool:
    """Whether there is no metric, for which pandas has NaN."""
    return value is None or bool(value != value)


def rows_of(frame: Any) -> List[Dict[str, Any]]:
    """The rows of a frame of any library."""
    if _frames.is_from(frame, "polars"):
        return list(frame.to_dicts())
    if _frames.is_from(frame, "pandas"):
        return list(frame.to_dict("records"))
    if _frames.is_from(frame, "pyarrow"):
        return list(frame.to_pylist())
    return list(frame)


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in HTML."""
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>"


def of_workspace(workspace: "Workspace", release: Optional[str] = None) -> str:
    """A workspace, or one release of it, as HTML: what it has, and its latest metrics. It asks once, briefly, and says
    what went wrong instead of raising: nobody called for it."""
    title = workspace.path if release is None else f"{release} in {workspace.path}"
    found = f"<p><b>{escape(title)}</b> at {escape(workspace.client.transport.url)}</p>"
    try:
        found += _releases(workspace.describe(timeout=TIMEOUT_SECONDS, retry_for=0.0), release)
        latest = _latest(workspace, release)
        return found if latest is None else found + latest.svg()
    except Exception as error:  # a representation never fails
        return f"{found}<p>{escape(str(error))}</p>"


def _releases(told: Mapping[str, Any], only: Optional[str]) -> str:
    live: Dict[str, List[str]] = {}
    for one in told.get("live", []):
        live.setdefault(str(one.get("release")), []).append(str(one.get("environment")))
    tasks = {model["name"]: model["task"] for model in told.get("models", [])}
    rows = []
    for release in told.get("releases", []):
        if only in (None, release["name"]):
            model = release.get("model")
            predictions = int(release.get("counts", {}).get("predictions", 0))
            where = ", ".join(live.get(release["name"], []))
            rows.append([release["name"], model, tasks.get(model, ""), where, f"{predictions:,}"])
    if only is not None and not rows:
        return "<p>It is not registered.</p>"
    return table(["release", "model", "task", "live in", "predictions"], rows)


def _latest(workspace: "Workspace", release: Optional[str]) -> Optional[Chart]:
    """The metrics of the last days that have any."""
    last = date.today() + timedelta(days=1)
    for _ in range(WINDOWS):
        first = last - timedelta(days=WINDOW_DAYS)
        rows = workspace.query(
            "evaluations", first, last, release=release, columns=["day", "release", *METRICS], frames="rows",
            timeout=TIMEOUT_SECONDS, retry_for=0.0,
        )  # fmt: skip
        if rows:
            days = sorted({row["day"] for row in rows})[-SHOWN_DAYS:]
            return chart([row for row in rows if row["day"] >= days[0]])
        last = first - timedelta(days=1)
    return None


def _unbroken(points: Sequence[Point]) -> List[List[Tuple[str, float]]]:
    """The runs of points without one that is missing."""
    runs: List[List[Tuple[str, float]]] = [[]]
    for at, value in points:
        if value is None:
            runs.append([])
        else:
            runs[-1].append((at, value))
    return [run for run in runs if run]


def _bar(value: Optional[float], low: float, high: float) -> str:
    if value is None:
        return " "
    share = (value - low) / (high - low) if high > low else 1.0
    return BARS[min(int(share * len(BARS)), len(BARS) - 1)]


def _number(value: Optional[float]) -> str:
    return "" if value is None else f"{value:.4g}"


__all__ = ["Chart", "Series", "chart"]
