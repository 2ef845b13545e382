"""From frames to request bodies, and from answers to frames, with the library that is there."""

from __future__ import annotations

import importlib.util
import io
import json
import math
import sys
from datetime import date, datetime, timezone
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from ._fields import FAMILIES, KINDS, MAX_BYTES, NUMBER, TIME, family, field, most_rows
from .errors import AlmanacError

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"


class Body(NamedTuple):
    """A request body, and how many rows it has."""

    content_type: str
    data: bytes
    rows: int


def has(library: str) -> bool:
    """Whether a library is installed."""
    return library in sys.modules or importlib.util.find_spec(library) is not None


def is_from(data: Any, library: str) -> bool:
    """Whether ``data`` is an object of a library, without importing that."""
    return type(data).__module__.split(".", 1)[0] == library


def is_column(data: Any, name: object) -> bool:
    """Whether ``name`` names a column of ``data``."""
    return isinstance(name, str) and name in names_of(data)


def names_of(data: Any) -> List[str]:
    """The names of the columns of a frame, a mapping of columns or a list of rows."""
    if is_from(data, "pyarrow"):
        return [str(name) for name in data.schema.names]
    if is_from(data, "pandas") or is_from(data, "polars"):
        return [str(name) for name in data.columns]
    if isinstance(data, Mapping):
        return [str(name) for name in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return list(dict.fromkeys(str(name) for row in data for name in row))
    raise AlmanacError(
        f"{type(data).__name__} is no pandas, polars or Arrow frame, no mapping of columns and no list of rows"
    )


def bodies(kind: str, data: Any, sources: Mapping[str, Any]) -> Iterator[Body]:
    """The rows of ``data`` as request bodies of at most :func:`most_rows` rows.

    ``sources`` says for each field which column it is taken from, or what all rows have.
    """
    check_sources(kind, data, sources)
    if has("pyarrow"):
        return _arrow_bodies(kind, data, sources)
    if is_from(data, "polars"):
        return _polars_bodies(kind, data, sources)
    return _json_bodies(kind, data, sources)


def check_sources(kind: str, data: Any, sources: Mapping[str, Any]) -> None:
    """Refuses names of columns that are not there, and fields that must be."""
    missing = [f.name for f in KINDS[kind] if f.required and sources.get(f.name) is None]
    if missing:
        raise AlmanacError(f"{kind} need {', '.join(missing)}: name the column or give one value for all rows")
    names = names_of(data)
    for name, source in sources.items():
        if isinstance(source, Column) and source.name not in names:
            raise AlmanacError(f"there is no column {source.name!r} for {name}; there are {', '.join(names)}")


class Column(NamedTuple):
    """A column of a frame, by its name."""

    name: str


def _arrow_bodies(kind: str, data: Any, sources: Mapping[str, Any]) -> Iterator[Body]:
    import pyarrow as pa

    table = _arrow_table(data, sorted({s.name for s in sources.values() if isinstance(s, Column)}))
    rows = _rows_of(data)
    arrays = {}
    for name, source in sources.items():
        if source is None:
            continue
        kind_of = field(kind, name).type
        if isinstance(source, Column):
            arrays[name] = _arrow_column(table.column(source.name), kind_of, name)
        else:
            value = plain(source, kind_of)
            arrays[name] = pa.chunked_array([pa.repeat(pa.scalar(value), rows)])
    whole = pa.table(arrays)
    yield from _arrow_slices(whole)


def _arrow_slices(whole: Any) -> Iterator[Body]:
    import pyarrow as pa

    rows = whole.num_rows
    most = most_rows(whole.column_names)
    step = max(1, min(most, int(MAX_BYTES * rows / max(whole.nbytes, 1)) if rows else most))
    for start in range(0, rows, step):
        part = whole.slice(start, step).combine_chunks()
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_table(part)
        yield Body(ARROW, sink.getvalue(), part.num_rows)


def _arrow_table(data: Any, names: List[str]) -> Any:
    import pyarrow as pa

    if is_from(data, "pyarrow"):
        return pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    if is_from(data, "pandas"):
        return pa.Table.from_pandas(data[names], preserve_index=False)
    if is_from(data, "polars"):
        return data.select(names).to_arrow()
    if isinstance(data, Mapping):
        return pa.table({name: data[name] for name in names})
    return pa.table({name: [row.get(name) for row in data] for name in names})


def _arrow_column(column: Any, kind: str, name: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        if kind == NUMBER:
            numbers = column.cast(pa.float64())
            # A missing number is null in Arrow and NaN in pandas.
            return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
        if kind == TIME:
            if pa.types.is_timestamp(column.type) and column.type.tz is None:
                column = pc.assume_timezone(column, "UTC")
            is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            return column if is_text else column.cast(pa.timestamp("us", "UTC"))
        if pa.types.is_floating(column.type):
            return pa.chunked_array([pa.array([text(value) for value in column.to_pylist()], pa.string())])
        return column.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise AlmanacError(f"the column of {name} cannot be sent as a {kind}: {error}") from None


def _polars_bodies(kind: str, data: Any, sources: Mapping[str, Any]) -> Iterator[Body]:
    import polars as pl

    exprs = []
    for name, source in sources.items():
        if source is None:
            continue
        kind_of = field(kind, name).type
        if not isinstance(source, Column):
            exprs.append(pl.lit(plain(source, kind_of)).alias(name))
            continue
        dtype, expr = data.schema[source.name], pl.col(source.name)
        if kind_of == NUMBER:
            expr = expr.cast(pl.Float64).fill_nan(None)
        elif kind_of == TIME and dtype != pl.String:
            zoned = expr.cast(pl.Datetime("us", getattr(dtype, "time_zone", None)))
            is_zoned = getattr(dtype, "time_zone", None) is not None
            expr = zoned.dt.convert_time_zone("UTC") if is_zoned else zoned.dt.replace_time_zone("UTC")
        elif dtype.is_float():
            expr = expr.map_elements(text, return_dtype=pl.String)
        else:
            expr = expr.cast(pl.String)
        exprs.append(expr.alias(name))
    whole = data.select(exprs) if not all(not isinstance(s, Column) for s in sources.values()) else None
    if whole is None:
        raise AlmanacError("at least one field has to come from a column")
    most = most_rows(whole.columns)
    step = max(1, min(most, int(MAX_BYTES * whole.height / max(whole.estimated_size(), 1))))
    for start in range(0, whole.height, step):
        part = whole.slice(start, step)
        sink = io.BytesIO()
        part.write_ipc_stream(sink, compat_level=pl.CompatLevel.oldest())
        yield Body(ARROW, sink.getvalue(), part.height)


def _json_bodies(kind: str, data: Any, sources: Mapping[str, Any]) -> Iterator[Body]:
    rows = _rows_of(data)
    columns: Dict[str, List[Any]] = {}
    for name, source in sources.items():
        if source is None:
            continue
        kind_of = field(kind, name).type
        if isinstance(source, Column):
            columns[name] = [plain(value, kind_of) for value in _values(data, source.name)]
        else:
            columns[name] = [plain(source, kind_of)] * rows
    yield from json_bodies(columns, rows)


def json_bodies(columns: Mapping[str, List[Any]], rows: int, step: Optional[int] = None) -> Iterator[Body]:
    """Columns as JSON, cut until each body is small enough."""
    step = most_rows(columns) if step is None else step
    for start in range(0, rows, step):
        part = {name: values[start : start + step] for name, values in columns.items()}
        count = min(step, rows - start)
        data = json.dumps(_nested(part), default=_moment, allow_nan=False, separators=(",", ":")).encode()
        if len(data) > MAX_BYTES and count > 1:
            yield from json_bodies(part, count, (count + 1) // 2)
        else:
            yield Body(JSON, data, count)


def _nested(columns: Mapping[str, List[Any]]) -> Dict[str, Any]:
    """Columns as the service takes them in JSON: tags stand together under ``tags``."""
    nested: Dict[str, Any] = {}
    for name, values in columns.items():
        of = family(name)
        if of is None:
            nested[name] = values
        else:
            nested.setdefault(of.name, {})[name[len(of.prefix) :]] = values
    return nested


def json_columns(body: Body) -> Optional[Dict[str, List[Any]]]:
    """The columns of a body that :func:`json_bodies` made; ``None`` for any other."""
    if body.content_type != JSON:
        return None
    columns: Dict[str, Any] = json.loads(body.data)
    for of in FAMILIES:
        members = columns.pop(of.name, {})
        columns.update({of.prefix + name: values for name, values in members.items()})
    return columns


def _moment(value: Any) -> str:
    if isinstance(value, datetime):
        return moment(value)
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _rows_of(data: Any) -> int:
    if is_from(data, "pyarrow"):
        return int(data.num_rows)
    if isinstance(data, Mapping):
        lengths = {name: len(values) for name, values in data.items()}
        if len(set(lengths.values())) > 1:
            raise AlmanacError(f"the columns differ in length: {lengths}")
        return next(iter(lengths.values()), 0)
    return len(data)


def _values(data: Any, name: str) -> List[Any]:
    if is_from(data, "pandas") or is_from(data, "polars"):
        values = data[name]
        return list(values.to_list() if is_from(data, "polars") else values.tolist())
    if isinstance(data, Mapping):
        return list(data[name])
    return [row.get(name) for row in data]


def plain(value: Any, kind: str) -> Any:
    """A value as it is sent: ``None``, a text, a number, or a time in UTC."""
    if value is None or value != value or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if kind == NUMBER:
        number = float(value)
        return number if math.isfinite(number) else _refuse_infinite(number)
    if kind == TIME:
        if isinstance(value, str):
            return value
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if not isinstance(value, datetime):
            raise AlmanacError(f"{value!r} is no time: give a datetime or an ISO 8601 text")
        return _utc(value)
    return text(value)


def _refuse_infinite(number: float) -> float:
    raise AlmanacError(f"{number} is no number that can be stored")


def _utc(value: datetime) -> datetime:
    """The same instant in UTC; a time without a zone is taken as UTC."""
    return value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value.astimezone(timezone.utc)


def moment(value: datetime) -> str:
    """An instant as text."""
    return _utc(value).isoformat(timespec="microseconds").replace("+00:00", "Z")


def text(value: Any) -> Optional[str]:
    """A key or a label as text: ``True`` as ``true``, ``1.0`` as ``1``."""
    if value is None or value != value:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return "true" if value else "false"
    if isinstance(value, float) or type(value).__name__.startswith("float"):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return str(value)


#: Libraries that an answer can be a frame of, the preferred one first.
LIBRARIES = ("polars", "pandas", "pyarrow", "rows")


def library_for(asked: Optional[str]) -> str:
    """The library that frames are given in: the one asked for, or the first that is there."""
    if asked is not None:
        asked = "pyarrow" if asked == "arrow" else asked
        if asked not in LIBRARIES:
            raise AlmanacError(f"frames are given as {', '.join(LIBRARIES)}, not as {asked!r}")
        if asked != "rows" and not has(asked):
            raise AlmanacError(f"{asked} is not installed: pip install {asked}")
        if asked == "pandas" and not has("pyarrow"):
            raise AlmanacError("frames for pandas are read by pyarrow: pip install pyarrow")
        return asked
    if has("polars"):
        return "polars"
    if has("pyarrow"):
        return "pandas" if has("pandas") else "pyarrow"
    return "rows"


def format_for(library: str) -> str:
    """The format in which an answer is asked for."""
    return "ndjson" if library == "rows" else "ipc"


def frame(library: str, data: bytes) -> Any:
    """An answer as a frame."""
    if library == "rows":
        return [json.loads(line) for line in data.splitlines() if line.strip()]
    if library == "polars":
        import polars as pl

        return pl.read_ipc(io.BytesIO(data)) if data[:6] == b"ARROW1" else pl.read_ipc_stream(io.BytesIO(data))
    import pyarrow as pa

    buffer = pa.py_buffer(data)
    reader = pa.ipc.open_file(buffer) if data[:6] == b"ARROW1" else pa.ipc.open_stream(buffer)
    table = reader.read_all()
    return table.to_pandas() if library == "pandas" else table


__all__ = ["ARROW", "JSON", "Body", "Column", "bodies", "frame", "plain", "text"]
