"""From frames to request bodies, and from answers to frames, with the library that is there."""

from __future__ import annotations

import importlib.util
import io
import json
import math
import re
import struct
import sys
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from numbers import Integral
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union
from uuid import UUID

from . import _schema
from ._fields import DAY, FAMILIES, KINDS, MAX_BYTES, NUMBER, TEXT, TIME, family, field, most_rows
from .errors import AlmanacError

#: Fields of numbers that are durations: a duration stands for its milliseconds.
MILLISECONDS = frozenset(("latency_ms",))
MILLISECOND = timedelta(milliseconds=1)

#: A day as text, which stands for its first instant where a time is asked for.
DAY_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

#: What follows a day to make it its first instant.
DAY_BEGIN = "T00:00:00Z"

#: An instant as text: its second, the digits behind that, and its zone.
INSTANT_TEXT = re.compile(r"([0-9-]{10}[Tt ][0-9:]{8})(?:\.([0-9]+))?([Zz]|[+-][0-9]{2}:[0-9]{2})?")

#: An instant as text without a zone, which is taken as UTC.
BARE_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?")

#: What a time as text may leave out, by how it is written then.
UNSAID = {DAY_TEXT: DAY_BEGIN, BARE_TEXT: "Z"}

#: What Python has texts in that are not decoded.
BYTES = (bytes, bytearray, memoryview)

#: The digits of floats of fewer bits than 64, which have 53 binary digits.
DIGITS = {16: 11, 32: 24}

ARROW = "application/vnd.apache.arrow.stream"

#: Arrow with views of strings, of which what repeats is compressed.
PACKED = "ipc-stream-lz4"
JSON = "application/json"


class BadValueError(AlmanacError):
    """A value that cannot be stored, of which it is to be said where it stands."""


@contextmanager
def told(name: str, source: Any) -> Iterator[None]:
    """Says of a bad value which field it was for, and of which column."""
    try:
        yield
    except BadValueError as error:
        where = f"{name} of the column {source.name!r}" if isinstance(source, Column) else name
        raise AlmanacError(f"{where}: {error}") from None


class Body(NamedTuple):
    """A request body, and how many rows it has."""

    content_type: str
    #: Bytes, or a buffer that is sent as it is.
    data: Any
    rows: int

    @property
    def size(self) -> int:
        """Its bytes."""
        return memoryview(self.data).nbytes


def has(library: str) -> bool:
    """Whether a library is installed."""
    return library in sys.modules or importlib.util.find_spec(library) is not None


def is_from(data: Any, library: str) -> bool:
    """Whether ``data`` is an object of a library, without importing that."""
    return any(one.__module__.split(".", 1)[0] == library for one in type(data).__mro__)


def is_column(data: Any, name: object) -> bool:
    """Whether ``name`` names a column of ``data``."""
    return isinstance(name, str) and name in names_of(data)


def settled(data: Any) -> Any:
    """The data itself, or the frame that it stands for: a lazy frame collected, what exports an Arrow stream
    (DuckDB's relations) and what pyarrow reads (datasets, files, readers of batches) as an Arrow table. Of a mapping
    every column, and of a list every row is one."""
    if is_from(data, "polars") and hasattr(data, "collect"):
        return data.collect()
    if is_from(data, "pyarrow"):
        is_read = (hasattr(data, "schema") or hasattr(data, "to_table")) and not hasattr(data, "combine_chunks")
        return _table_of(data) if is_read else data
    if is_from(data, "pandas") or is_from(data, "polars"):
        return data
    if hasattr(data, "__arrow_c_stream__") and has("pyarrow"):
        return _table_of(data)
    if isinstance(data, Mapping):
        return _columns_of(data)
    for row in data if _is_list(data) else ():
        if not isinstance(row, Mapping):
            raise AlmanacError(f"each row of a list is a mapping of fields to values, not {_shown(row)}")
    return data


def _is_list(data: Any) -> bool:
    return isinstance(data, Sequence) and not isinstance(data, (str, *BYTES))


def _table_of(data: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    readers = ("to_table", "read_all", "read") if is_from(data, "pyarrow") else ()
    read = next((getattr(data, name) for name in readers if hasattr(data, name)), None)
    return pa.table(data) if read is None else read()


def _columns_of(data: Mapping[Any, Any]) -> Dict[Any, Any]:
    """The columns of a mapping. One value beside columns is that of all rows, and where there are no columns the
    mapping is one row."""
    columns = {name: _column_or_none(name, values) for name, values in data.items()}
    rows = next((len(values) for values in columns.values() if values is not None), 1)
    return {name: [data[name]] * rows if values is None else values for name, values in columns.items()}


def _column_or_none(name: object, values: Any) -> Any:
    """The values of a column, or ``None`` for one value, which a text is and not its letters."""
    try:
        len(values)
    except TypeError:
        return None
    if isinstance(values, (str, *BYTES)):
        return None
    if isinstance(values, (Mapping, set, frozenset)):
        raise AlmanacError(f"the column {name!r} is a {type(values).__name__}, which has no order of rows; give a list")
    is_sliced = isinstance(values, (list, tuple)) or type(values).__module__ not in ("builtins", "collections")
    return values if is_sliced else list(values)


def names_of(data: Any) -> List[str]:
    """The names of the columns of a frame, a mapping of columns or a list of rows."""
    if is_from(data, "pyarrow") and hasattr(data, "schema"):
        return [str(name) for name in data.schema.names]
    if (is_from(data, "pandas") or is_from(data, "polars")) and hasattr(data, "columns"):
        return [str(name) for name in data.columns]
    if isinstance(data, Mapping):
        return [str(name) for name in data]
    if _is_list(data):
        return list(dict.fromkeys(str(name) for row in data for name in row))
    raise AlmanacError(
        f"{type(data).__name__} is no pandas, polars or Arrow frame, no mapping of columns and no list of rows"
    )


def rows_of(data: Any) -> int:
    """How many rows there are."""
    if is_from(data, "pyarrow"):
        return int(data.num_rows)
    if isinstance(data, Mapping):
        lengths = {name: len(values) for name, values in data.items()}
        if len(set(lengths.values())) > 1:
            raise AlmanacError(f"the columns differ in length: {lengths}")
        return next(iter(lengths.values()), 0)
    return len(data)


def bodies(kind: str, data: Any, sources: Mapping[str, Any]) -> Iterator[Body]:
    """The rows of ``data`` as request bodies of at most :func:`most_rows` rows, each made when it is asked for.

    ``sources`` says for each field which column it is taken from, or what all rows have.
    """
    check_sources(kind, data, sources)
    if is_nothing(data):
        return iter(())
    used = {name: source for name, source in sources.items() if source is not None}
    if is_from(data, "polars"):
        make = _polars_body
    elif has("pyarrow"):
        make = _arrow_body
    else:
        return _json_bodies(kind, data, used)
    return _sliced(kind, data, used, make)


def check_sources(kind: str, data: Any, sources: Mapping[str, Any]) -> None:
    """Refuses names of columns that are not there, and fields that must be."""
    missing = [f.name for f in KINDS[kind] if f.required and sources.get(f.name) is None]
    if missing:
        raise AlmanacError(f"{kind} need {', '.join(missing)}: name the column or give one value for all rows")
    for name in sources:
        text(name)
    names = names_of(data)
    for name, source in () if is_nothing(data) else sources.items():
        if isinstance(source, Column) and source.name not in names:
            is_index = is_from(data, "pandas") and source.name in data.index.names
            there = f"there are {', '.join(names)}" if names else "there are none"
            advice = "it is the index: give data.reset_index()" if is_index else there
            raise AlmanacError(f"there is no column {source.name!r} for {name}; {advice}")


def is_nothing(data: Any) -> bool:
    """Whether there is neither a row nor a column, as in an empty list: no rows are stored of it, whatever is named."""
    return not names_of(data) and not rows_of(data)


def unsent(kind: str, data: Any, sources: Mapping[str, Any]) -> List[str]:
    """The columns that are called as fields or families are and that nothing is taken from."""
    used = {source.name for source in sources.values() if isinstance(source, Column)}
    of_kind = {field.name for field in KINDS[kind]} | {family.name for family in FAMILIES}
    given = {name for name, source in sources.items() if source is not None}
    return [name for name in names_of(data) if name in of_kind - used - given]


class Column(NamedTuple):
    """A column of a frame, by its name as text."""

    name: str


def column(name: object) -> Column:
    """The column of a name, which libraries allow to be a number."""
    return Column(str(name))


def _sliced(
    kind: str, data: Any, sources: Mapping[str, Any], make: Callable[[str, Any, Mapping[str, Any]], Body]
) -> Iterator[Body]:
    """Bodies of slices, which share the memory of the frame; a slice whose body is too large is halved."""
    rows, most = rows_of(data), most_rows(sources)
    if not rows:
        make(kind, data, sources)
    waiting = [(start, min(most, rows - start)) for start in range(0, rows, most)][::-1]
    while waiting:
        start, count = waiting.pop()
        body = make(kind, _slice(data, start, count), sources)
        if body.size > MAX_BYTES and count > 1:
            half = (count + 1) // 2
            waiting += [(start + half, count - half), (start, half)]
        else:
            yield body


def _slice(data: Any, start: int, count: int) -> Any:
    if isinstance(data, Mapping):
        return {name: _slice(values, start, count) for name, values in data.items()}
    if is_from(data, "pandas"):
        # Not by the labels of its index, which may be numbers.
        return data.iloc[start : start + count] if hasattr(data, "iloc") else data[start : start + count]
    if is_from(data, "polars") or is_from(data, "pyarrow"):
        return data.slice(start, count)
    return data[start : start + count]


def _arrow_body(kind: str, data: Any, sources: Mapping[str, Any]) -> Body:
    import pyarrow as pa

    rows, arrays = rows_of(data), {}
    for name, source in sources.items():
        of = field(kind, name)
        with told(name, source):
            if isinstance(source, Column):
                values = _arrow_values(data, source.name, of.type)
                if of.type == NUMBER:
                    values = _arrow_numbers(values, source.name, name)
                arrays[name] = _arrow_column(values, of.type, name)
            else:
                arrays[name] = pa.repeat(pa.scalar(plain(source, of.type)), rows)
    table = pa.table(arrays)
    # The stream is written once, and that buffer is what is sent.
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Body(ARROW, sink.getvalue(), rows)


def _arrow_values(data: Any, name: str, kind: str) -> Any:
    """A column as Arrow has it, without a copy where its memory is as Arrow's."""
    import pyarrow as pa

    if is_from(data, "pyarrow"):
        found = data.column(name)
        if not _is_of_pandas(found.type):
            return found
        is_coded = pa.types.is_dictionary(found.type)
        return _texts_of((found.combine_chunks().dictionary_decode() if is_coded else found).to_pandas(), kind)
    values = _column_of(data, name)
    dtype = str(getattr(values, "dtype", ""))
    if dtype.startswith("timedelta64") and not dtype.endswith(("[s]", "[ms]", "[us]", "[ns]")):
        # Arrow has no such unit.
        values = values.astype("m8[us]")
    try:
        # Missing numbers are NaN in pandas and numpy, and null in Arrow.
        found = pa.array(values, from_pandas=True)
        if _is_of_pandas(found.type):
            return _texts_of(values, kind)
        if not pa.types.is_nested(found.type):
            return found
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, UnicodeError, OverflowError):
        pass
    # A column of several types, such as keys of which some are numbers, of arrays, or of times in units of numpy.
    return _arrow_plain(values, kind)


def _arrow_plain(values: Iterable[Any], kind: str) -> Any:
    """A column of values that are looked at one by one."""
    import pyarrow as pa

    sent = [plain(value, kind) for value in values]
    is_mixed = len({type(value) for value in sent if value is not None}) > 1
    sent = [_moment(value) if is_mixed and isinstance(value, datetime) else value for value in sent]
    return pa.array(sent, pa.string() if kind in (TEXT, DAY) else None)


def _is_of_pandas(type_: Any) -> bool:
    """Whether Arrow has it as numbers that pandas alone knows how to write: periods and intervals, also as categories,
    which is what ``pandas.read version`` makes."""
    import pyarrow as pa

    inner = type_.value_type if pa.types.is_dictionary(type_) else type_
    return isinstance(inner, pa.BaseExtensionType) and inner.extension_name.startswith("pandas.")


def _texts_of(values: Any, kind: str) -> Any:
    """A column of values of which few differ as they are sent, each written once."""
    import pyarrow as pa

    known: Dict[Any, Any] = {}
    for value in values:
        if value not in known:
            known[value] = plain(value, kind)
    return pa.array([known[value] for value in values], pa.string() if not any(known.values()) else None)


def _arrow_numbers(values: Any, column: str, name: str) -> Any:
    """The numbers of a column, where those are durations their milliseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name in MILLISECONDS and pa.types.is_duration(values.type):
        return pc.divide(values.cast(pa.duration("ns")).cast(pa.int64()).cast(pa.float64(), safe=False), 1e6)
    if pa.types.is_temporal(values.type):
        raise AlmanacError(NO_NUMBERS.format(column, name, values.type))
    return values


def _arrow_column(column: Any, kind: str, name: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    types = pa.types
    if not len(column):
        # Libraries guess the type of what has no values.
        return pa.array([], pa.float64() if kind == NUMBER else pa.string())
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if isinstance(column.type, pa.BaseExtensionType):
        # Such as UUIDs, which Arrow keeps as their bytes.
        column = _arrow_plain(column.to_pylist(), kind)
    try:
        column = _arrow_single(column)
        kept = column.type
        is_text = types.is_string(kept) or types.is_large_string(kept)
        if kind == NUMBER:
            numbers = column if types.is_float32(kept) or types.is_float64(kept) else column.cast(pa.float64())
            has_nan = pc.any(pc.is_nan(numbers)).as_py()
            return pc.if_else(pc.is_nan(numbers), pa.scalar(None, numbers.type), numbers) if has_nan else numbers
        if kind == TIME:
            if types.is_integer(kept) or types.is_floating(kept):
                raise AlmanacError(NO_TIMES.format(name))
            if is_text:
                for written, rest in UNSAID.items():
                    is_so = pc.match_substring_regex(column, f"^{written.pattern}$")
                    ends, nothing = pa.scalar(rest, kept), pa.scalar("", kept)
                    column = pc.if_else(is_so, pc.binary_join_element_wise(column, ends, nothing), column)
                return column
            # Below a microsecond is cut off; what has no zone is taken as UTC.
            return column.cast(pa.timestamp("us", "UTC"), safe=False)
        if kind == DAY and types.is_timestamp(kept):
            return column.cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.date32()).cast(pa.string())
        if types.is_floating(kept):
            return _arrow_float_texts(column)
        if is_text:
            return column
        is_written = types.is_integer(kept) or types.is_boolean(kept) or types.is_decimal(kept) or types.is_null(kept)
        is_written |= types.is_date(kept)
        return column.cast(pa.string()) if is_written else _arrow_plain(column.to_pylist(), kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise AlmanacError(f"the column of {name} cannot be sent as a {kind}: {error}") from None


def _arrow_single(column: Any) -> Any:
    """The texts of bytes, and the elements of lists that have one each, as arrays become in Arrow."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = pa.types
    while types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type):
        several = column.filter(pc.not_equal(pc.list_value_length(column), 1))
        if len(several):
            raise BadValueError(NO_SINGLE.format(f"a {column.type}", several[0].as_py()))
        column = pc.list_element(column, 0)
    kept = str(column.type)
    is_undecoded = kept.startswith(("binary", "large_binary", "fixed_size_binary"))
    return column.cast(pa.string()) if is_undecoded or kept == "string_view" else column


def _arrow_float_texts(column: Any) -> Any:
    """Numbers as keys and labels, such as 1.0 as ``1``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = column.cast(pa.float64())
    unsure = pc.greater_equal(pc.abs(numbers), _least_unsure(column.type.bit_width))
    if pc.any(unsure).as_py():
        raise _unsure(numbers.filter(unsure)[0].as_py())
    if pc.all(pc.equal(pc.floor(numbers), numbers)).as_py():
        return numbers.cast(pa.int64()).cast(pa.string())
    return pa.array([text(value) for value in numbers.to_pylist()], pa.string())


def _least_unsure(bits: int) -> float:
    """The least whole number that floats of so many bits do not tell from the next one."""
    return 2.0 ** DIGITS.get(bits, 53)


#: Numbers may be seconds, milliseconds or microseconds: guessing would store wrong days.
NO_TIMES = "the column of {} holds numbers; give datetimes, such as those of pandas.to_datetime(column, unit='s')"

def _unsure(number: float) -> BadValueError:
    """Says that a float is no text, since nobody knows which number it was."""
    if math.isinf(number):
        return BadValueError(f"{number} is no text that can be stored")
    return BadValueError(
        f"{number!r} may have been another number: floats of this size leave out digits (pandas makes floats of "
        "integers where some are missing); give integers (in pandas of dtype 'Int64') or texts"
    )


#: What libraries take for numbers in units of their own.
NO_NUMBERS = "the column {!r} of {} holds {}; give numbers"


def _polars_body(kind: str, data: Any, sources: Mapping[str, Any]) -> Body:
    import polars as pl

    exprs = []
    for name, source in sources.items():
        of = field(kind, name)
        with told(name, source):
            is_taken = isinstance(source, Column)
            expr = _polars_expr(data, source.name, of.type, name) if is_taken else pl.lit(plain(source, of.type))
            exprs.append(expr.alias(name))
    if not any(isinstance(source, Column) for source in sources.values()):
        raise AlmanacError("at least one field has to come from a column")
    try:
        part = data.select(exprs)
    except pl.exceptions.PolarsError as error:
        raise AlmanacError(f"the frame cannot be sent as {kind}: {error}") from None
    sink = io.BytesIO()
    part.write_ipc_stream(sink, compat_level=pl.CompatLevel.oldest())
    return Body(ARROW, sink.getbuffer(), part.height)


def _polars_expr(data: Any, column: str, kind: str, name: str) -> Any:
    import polars as pl

    dtype, expr = data.schema[column], pl.col(column)
    if dtype == pl.Object:
        return pl.lit(pl.Series([plain(value, kind) for value in data[column]]))
    while isinstance(dtype, pl.Array) and dtype.shape[0] == 1:
        # Arrays of one element are that element.
        expr, dtype = expr.arr.first(), dtype.inner
    if dtype == pl.Binary:
        expr, dtype = expr.cast(pl.String), pl.String()
    if dtype.is_nested():
        raise AlmanacError(NO_SINGLE.format(f"a {dtype}", column))
    if kind == NUMBER:
        if name in MILLISECONDS and isinstance(dtype, pl.Duration):
            return expr.dt.total_nanoseconds() / 1e6
        if dtype.is_temporal():
            raise AlmanacError(NO_NUMBERS.format(column, name, dtype))
        numbers = expr if dtype in (pl.Float32, pl.Float64) else expr.cast(pl.Float64)
        return numbers.fill_nan(None)
    if kind == TIME:
        if dtype.is_numeric():
            raise AlmanacError(NO_TIMES.format(name))
        if dtype == pl.String:
            for written, rest in UNSAID.items():
                is_so = expr.str.contains(f"^{written.pattern}$")
                expr = pl.when(is_so).then(expr + pl.lit(rest)).otherwise(expr)
            return expr
        zoned = expr.cast(pl.Datetime("us", getattr(dtype, "time_zone", None)))
        is_zoned = getattr(dtype, "time_zone", None) is not None
        return zoned.dt.convert_time_zone("UTC") if is_zoned else zoned.dt.replace_time_zone("UTC")
    if kind == DAY and isinstance(dtype, pl.Datetime):
        is_zoned = dtype.time_zone is not None
        return (expr.dt.convert_time_zone("UTC") if is_zoned else expr).cast(pl.Date).cast(pl.String)
    if dtype.is_float():
        values = data.select(expr).to_series()
        unsure = values.filter((values.abs() >= _least_unsure(32 if dtype == pl.Float32 else 64)).fill_null(False))
        unsure = unsure.filter(unsure.is_not_nan())
        if len(unsure):
            raise _unsure(unsure[0])
        if (values.is_null() | (values.is_finite() & (values.floor() == values))).all():
            return expr.cast(pl.Int64).cast(pl.String)
        return pl.lit(pl.Series([text(value) for value in values], dtype=pl.String))
    if dtype.is_temporal() and dtype != pl.Date:
        values = data.select(expr).to_series()
        return pl.lit(pl.Series([text(value) for value in values], dtype=pl.String))
    return expr if dtype == pl.String else expr.cast(pl.String)


def _json_bodies(kind: str, data: Any, sources: Mapping[str, Any]) -> Iterator[Body]:
    rows = rows_of(data)
    columns: Dict[str, List[Any]] = {}
    for name, source in sources.items():
        kind_of = field(kind, name).type
        with told(name, source):
            if isinstance(source, Column):
                columns[name] = _plain_values(_values(data, source.name), kind_of, source.name, name)
            else:
                columns[name] = [plain(source, kind_of)] * rows
    yield from json_bodies(columns, rows)


def _plain_values(values: List[Any], kind: str, column: str, name: str) -> List[Any]:
    """The values of a column as they are sent."""
    if name in MILLISECONDS:
        values = [value / MILLISECOND if isinstance(value, timedelta) else value for value in map(_single, values)]
    if kind == NUMBER:
        for value in values:
            if isinstance(value, (date, time, timedelta)) and not _is_missing(value):
                raise AlmanacError(NO_NUMBERS.format(column, name, type(value).__name__))
    return [plain(value, kind) for value in values]


def json_bodies(columns: Mapping[str, List[Any]], rows: int, step: Optional[int] = None) -> Iterator[Body]:
    """Columns as JSON, read version until each body is small enough."""
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


def _values(data: Any, name: str) -> List[Any]:
    values = _column_of(data, name)
    if not is_from(data, "pandas"):
        return list(values)
    return list(values.to_numpy() if str(values.dtype) in PACKED_AS else values.tolist())


def _column_of(data: Any, name: str) -> Any:
    """A column of pandas, a mapping or rows by its name as text: its label may be a number."""
    if is_from(data, "pandas"):
        places = [place for place, label in enumerate(data.columns) if str(label) == name]
        if len(places) != 1:
            raise AlmanacError(f"there are several columns {name!r}")
        return data.iloc[:, places[0]]
    if isinstance(data, Mapping):
        return data[name] if name in data else next(data[label] for label in data if str(label) == name)
    if any(name in row for row in data):
        return [row.get(name) for row in data]
    # Where a part of the rows is looked at, none of them may have it.
    label = next((label for row in data for label in row if str(label) == name), name)
    return [row.get(label) for row in data]


def _is_missing(value: Any) -> bool:
    """Whether it is what libraries have for no value. Of ``pandas.NA`` nobody may ask whether it is itself, and an
    array says that of each element."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    try:
        differs = value != value
        return differs is not False and not getattr(differs, "shape", ()) and bool(differs)
    except (TypeError, ValueError):
        return False


def _single(value: Any) -> Any:
    """The element of an array that has one, as models predict it, the text of bytes, and the time of numpy's; any other
    value as it is."""
    if isinstance(value, BYTES):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            raise BadValueError(f"bytes that are no UTF-8 have no text: {_shown(value)}; decode them") from None
    shape, kind = getattr(value, "shape", None), getattr(getattr(value, "dtype", None), "kind", None)
    if kind in ("M", "m"):
        # Of some units neither Python nor Arrow has times.
        is_day = str(value.dtype).endswith(("[D]", "[W]", "[M]", "[Y]"))
        value = value.astype("M8[D]" if kind == "M" and is_day else f"{kind}8[us]")
        value = value.item() if math.prod(shape or ()) == 1 else value
    # Numbers of numpy have a shape as well, and no elements that could be set.
    if isinstance(shape, tuple) and hasattr(value, "item") and hasattr(value, "__setitem__"):
        if math.prod(shape) != 1:
            raise BadValueError(NO_SINGLE.format(f"an array of {math.prod(shape)} elements", value))
        value = value.item()
        return _single(value) if isinstance(value, BYTES) else value
    if isinstance(value, (list, tuple, dict, set)):
        raise BadValueError(NO_SINGLE.format(f"a {type(value).__name__}", value))
    return value


#: Types of which everybody knows that a value is one.
SINGLE = frozenset((str, float, int, bool, type(None), datetime))

#: What would be stored as Python writes it.
NO_SINGLE = "a field has one value, not {0}: {1!r:.80}; give an element of it"


def _shown(value: object) -> str:
    """A value in an error."""
    return f"{value!r:.80} ({type(value).__name__})"


def plain(value: Any, kind: str) -> Any:
    """A value as it is sent: ``None``, a text, a number, or a time in UTC. An array of one element is that element."""
    dtype = getattr(value, "dtype", None)
    if type(value) not in SINGLE:
        value = _single(value)
    if _is_missing(value):
        return None
    if kind == NUMBER:
        try:
            number = _number(value, dtype)
        except (TypeError, ValueError, OverflowError):
            raise BadValueError(f"{value!r} is no number that can be stored") from None
        return number if math.isfinite(number) else _refuse_infinite(number)
    if kind == TIME:
        if isinstance(value, str):
            return zoned(value)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if not isinstance(value, datetime):
            raise BadValueError(f"{value!r} is no time: give a datetime or an ISO 8601 text")
        return _utc(value)
    if kind == DAY and isinstance(value, datetime):
        return _utc(value).date().isoformat()
    return text(value)


#: How :mod:`struct` packs numbers of less than double precision, and how many digits it takes to tell them apart.
PACKED_AS = {"float32": ("f", range(6, 10)), "float16": ("e", range(3, 6))}


def _number(value: Any, dtype: Any) -> float:
    """A number as a float; one of less precision as its shortest decimal, as the service reads it: 0.7 stays 0.7."""
    number = float(value)
    precision = str(dtype).rpartition(".")[2]
    if precision in PACKED_AS and math.isfinite(number):
        code, digits = PACKED_AS[precision]
        for written in (float(f"{number:.{count}g}") for count in digits):
            if struct.unpack(code, struct.pack(code, written))[0] == number:
                return written
    return number


def measured(value: Any) -> Union[float, str]:
    """A number; by its name where JSON has none for it."""
    dtype = getattr(value, "dtype", None)
    number = _number(value if type(value) in SINGLE else _single(value), dtype)
    if number != number:
        return "NaN"
    return number if math.isfinite(number) else "Infinity" if number > 0 else "-Infinity"


def _refuse_infinite(number: float) -> float:
    raise BadValueError(f"{number} is no number that can be stored")


def _utc(value: datetime) -> datetime:
    """The same instant in UTC; a time without a zone is taken as UTC."""
    return value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value.astimezone(timezone.utc)


def moment(value: datetime) -> str:
    """An instant as text."""
    return _utc(value).isoformat(timespec="microseconds").replace("+00:00", "Z")


def zoned(text: str) -> str:
    """A time as text with what it may leave out: a day is its first instant, and a time without a zone in UTC."""
    return text + next((rest for written, rest in UNSAID.items() if written.fullmatch(text)), "")


def instant_of(text: str) -> Optional[datetime]:
    """The instant that a text means, a day its first one; ``None`` where it is none, which the service will say."""
    found = INSTANT_TEXT.fullmatch(text + DAY_BEGIN if DAY_TEXT.fullmatch(text) else text)
    if found is None:
        return None
    second, parts, zone = found.groups(default="")
    zone = "+00:00" if zone in ("Z", "z", "") else zone
    try:
        # Python 3.9 reads neither a Z nor other fractions than of three or six digits.
        return _utc(datetime.fromisoformat(f"{second}.{parts[:6]:0<6}{zone}"))
    except ValueError:
        return None


def text(value: Any) -> Optional[str]:
    """A key or a label as text: ``True`` as ``true``, ``1.0`` as ``1``. An object that is no text, number or time is
    refused."""
    if isinstance(value, BYTES):
        value = _single(value)
    if isinstance(value, str):
        return value if value.isascii() else _encoded(value)
    if _is_missing(value):
        return None
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return "true" if value else "false"
    if isinstance(value, float) or type(value).__name__.startswith("float"):
        number = float(value)
        if abs(number) >= _least_unsure(8 * getattr(value, "itemsize", 8)):
            raise _unsure(number)
        return str(int(number)) if number.is_integer() else repr(number)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (Integral, UUID)) or type(value).__name__ in PRINTED and is_from(value, "pandas"):
        return str(value)
    raise BadValueError(f"a field has a text, a number or a time, not {_shown(value)}; give its text or number")


def _encoded(value: str) -> str:
    """A text that has no half of a character, as surrogates are."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadValueError(f"a text with half of a character cannot be stored: {value!a:.80}") from None
    return value


#: What of pandas stands for itself as it is printed.
PRINTED = ("Interval", "Period")


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
        return asked
    return next(library for library in LIBRARIES if library == "rows" or has(library))


def format_for(library: str) -> str:
    """The format in which an answer is asked for."""
    if library == "rows" or (library == "pandas" and not has("pyarrow")):
        return "ndjson"
    return PACKED if library == "polars" or _reads_views() else "ipc-stream"


def frame(library: str, data: bytes) -> Any:
    """An answer as a frame."""
    if library == "rows":
        return _rows(data)
    if library == "polars":
        import polars as pl

        # pyarrow unpacks columns side by side, and polars takes them as they are.
        return pl.from_arrow(_table(data), rechunk=False) if _reads_views() else pl.read_ipc_stream(data)
    if format_for(library) == "ndjson":
        return _pandas_of(_rows(data))
    table = _table(data)
    # Every column by itself, so that none is copied to stand beside those of its type. Days are datetimes, which pandas
    # draws, resamples and compares, and not objects.
    is_pandas = library == "pandas"
    return table.to_pandas(split_blocks=True, date_as_object=False) if is_pandas else _with_plain_text(table)


def _reads_views() -> bool:
    """Whether pyarrow is there, in a version that makes of views of strings whatever it makes of strings."""
    if not has("pyarrow"):
        return False
    import pyarrow as pa

    return int(pa.__version__.split(".")[0]) >= 18


def _table(data: bytes) -> Any:
    """An answer as pyarrow's table, whose columns lie in the bytes of the answer where these are not packed."""
    import pyarrow as pa

    # With pyarrow's own allocator the first large answers of a process take half as long again.
    return pa.ipc.open_stream(pa.py_buffer(data), memory_pool=pa.system_memory_pool()).read_all()


def _with_plain_text(table: Any) -> Any:
    """The same with strings in the place of views of strings, which pyarrow neither compares nor sorts."""
    if not _reads_views():
        return table
    import pyarrow as pa

    fields = [field.with_type(pa.large_string()) if field.type == pa.string_view() else field for field in table.schema]
    return table.cast(pa.schema(fields, table.schema.metadata))


#: What rows have in the place of numbers that JSON does not have.
NO_NUMBERS_OF_JSON = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _rows(data: bytes) -> List[Dict[str, Any]]:
    rows = [json.loads(line) for line in data.splitlines() if line.strip()]
    # A column of texts has no numbers; that of values of metrics may have none either.
    numbers = {"value"}.union(name for row in rows for name, value in row.items() if type(value) in (int, float))
    for row in rows:
        for name in numbers.intersection(row):
            if isinstance(row[name], str):
                row[name] = NO_NUMBERS_OF_JSON.get(row[name], row[name])
    return rows


def lacks_columns(library: str, made: Any) -> bool:
    """Whether a frame has no columns, since JSON names them in rows alone and the answer has none."""
    return library == "pandas" and format_for(library) == "ndjson" and len(made.columns) == 0


def without_rows(stream: bytes) -> Any:
    """A pandas frame without rows, with the columns of an Arrow stream, as pandas without pyarrow has them."""
    row = {column.name: SAMPLES.get(column.type or "") for column in _schema.columns_of(stream)}
    return _pandas_of([row]).iloc[:0]


#: A value of each type of :mod:`_schema` as rows have it.
SAMPLES: Dict[str, Any] = {
    "int": 0,
    "float": 0.0,
    "bool": False,
    "text": "",
    "day": "1970-01-01",
    "instant": "1970-01-01T00:00:00Z",
    "duration": "PT0S",
}


def _pandas_of(rows: List[Dict[str, Any]]) -> Any:
    """Rows as pandas without pyarrow has them: instants and days as they would be with it."""
    import pandas as pd

    made = pd.DataFrame(rows)
    for name in made.columns:
        if name.endswith("_at") or name in ("at", "hour", "day"):
            there = made[name].dropna()
            if len(there) and there.map(_is_day).all():
                made[name] = pd.to_datetime(made[name], format="%Y-%m-%d").astype("datetime64[ms]")
            elif len(there) and there.map(_is_instant).all():
                made[name] = pd.to_datetime(made[name], utc=True, format="ISO8601")
    return made


def _is_day(value: Any) -> bool:
    return isinstance(value, str) and DAY_TEXT.fullmatch(value) is not None


def _is_instant(value: Any) -> bool:
    return isinstance(value, str) and INSTANT_TEXT.fullmatch(value) is not None


__all__ = ["ARROW", "JSON", "Body", "Column", "bodies", "frame", "plain", "text"]
