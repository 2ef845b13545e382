"""The columns of an Arrow stream, read without Arrow: its first message is a FlatBuffers table that names them."""

from __future__ import annotations

import struct
from typing import Iterator, NamedTuple, Optional

#: How a message begins, behind which its length stands. Streams of the first Arrows begin with the length.
CONTINUATION = 0xFFFFFFFF

#: Places of fields in the tables `Message`, `Schema` and `Field` of Arrow's format.
MESSAGE_HEADER, SCHEMA_FIELDS, FIELD_NAME, FIELD_TYPE = 2, 1, 0, 2

#: What the types of a union `Type` are called in Arrow's format; no column of an answer has another one.
TYPES = {2: "int", 3: "float", 5: "text", 6: "bool", 8: "day", 10: "instant", 18: "duration", 20: "text", 24: "text"}


class _Table(NamedTuple):
    """A table of FlatBuffers: the offsets of its fields stand in front of it or behind, where `vtable` begins."""

    data: bytes
    at: int

    def field(self, place: int) -> Optional[int]:
        """Where a field is, if it is there."""
        (back,) = struct.unpack_from("<i", self.data, self.at)
        vtable = self.at - back
        (size,) = struct.unpack_from("<H", self.data, vtable)
        offset = 4 + 2 * place
        (found,) = struct.unpack_from("<H", self.data, vtable + offset) if offset < size else (0,)
        return self.at + found if found else None

    def points_to(self, place: int) -> Optional[int]:
        """Where that is which a field points to."""
        at = self.field(place)
        return None if at is None else _pointed(self.data, at)


def _pointed(data: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", data, at)[0])


class Typed(NamedTuple):
    """A column, and what it is called in :data:`TYPES`; without a type one that no answer has."""

    name: str
    type: Optional[str]


def columns_of(stream: bytes) -> Iterator[Typed]:
    """The columns of a stream, in their order."""
    (first,) = struct.unpack_from("<I", stream)
    root = 8 if first == CONTINUATION else 4
    schema = _Table(stream, _pointed(stream, root)).points_to(MESSAGE_HEADER)
    fields = None if schema is None else _Table(stream, schema).points_to(SCHEMA_FIELDS)
    if fields is None:
        return
    (count,) = struct.unpack_from("<I", stream, fields)
    for at in range(fields + 4, fields + 4 + 4 * count, 4):
        table = _Table(stream, _pointed(stream, at))
        name, kind = table.points_to(FIELD_NAME), table.field(FIELD_TYPE)
        length = 0 if name is None else struct.unpack_from("<I", stream, name)[0]
        text = b"" if name is None else stream[name + 4 : name + 4 + length]
        yield Typed(text.decode(), None if kind is None else TYPES.get(stream[kind]))
