"""The fields of each kind of event, declared once; everything else here derives from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Tuple

TEXT = "text"
TIME = "time"
NUMBER = "number"


@dataclass(frozen=True)
class Field:
    """A field of an event."""

    name: str
    type: str
    required: bool = False


#: The most rows and bytes of one request.
MAX_ROWS = 100_000
MAX_BYTES = 48 * 1024 * 1024

#: What a column of a tag is called.
TAG_PREFIX = "tag."

KINDS: Dict[str, Tuple[Field, ...]] = {
    "predictions": (
        Field("key", TEXT, required=True),
        Field("predicted_at", TIME, required=True),
        Field("release", TEXT, required=True),
        Field("score", NUMBER),
        Field("label", TEXT),
        Field("value", NUMBER),
        Field("lower", NUMBER),
        Field("upper", NUMBER),
        Field("latency_ms", NUMBER),
    ),
    "outcomes": (
        Field("key", TEXT, required=True),
        Field("observed_at", TIME, required=True),
        Field("predicted_at", TIME),
        Field("predicted_on", TEXT),
        Field("label", TEXT),
        Field("value", NUMBER),
    ),
    "metrics": (
        Field("name", TEXT, required=True),
        Field("measured_at", TIME, required=True),
        Field("value", NUMBER, required=True),
        Field("release", TEXT),
        Field("key", TEXT),
        Field("predicted_at", TIME),
        Field("predicted_on", TEXT),
    ),
}


def field(kind: str, name: str) -> Field:
    """The field ``name`` of a kind; a tag is a text."""
    if name.startswith(TAG_PREFIX):
        return Field(name, TEXT)
    return next(field for field in KINDS[kind] if field.name == name)
