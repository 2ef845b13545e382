"""The fields of each kind of event, declared once; everything else here derives from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterable, Optional, Tuple

TEXT = "text"
TIME = "time"
DAY = "day"
NUMBER = "number"


@dataclass(frozen=True)
class Field:
    """A field of an event."""

    name: str
    type: str
    required: bool = False


@dataclass(frozen=True)
class Family:
    """Columns of one type whose names the caller chooses, such as tags."""

    name: str
    prefix: str
    type: str


#: The most rows, bytes, numbers of scores and features, and different names of each family of one request.
MAX_ROWS = 100_000
MAX_BYTES = 48 * 1024 * 1024
MAX_CELLS = 1 << 23
MAX_MEMBERS = 256

FAMILIES: Tuple[Family, ...] = (
    Family("tags", "tag.", TEXT),
    Family("scores", "score.", NUMBER),
    Family("features", "feature.", NUMBER),
)

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
        Field("group", TEXT),
        Field("retracted", TEXT),
        Field("reason", TEXT),
    ),
    "outcomes": (
        Field("key", TEXT, required=True),
        Field("observed_at", TIME, required=True),
        Field("predicted_at", TIME),
        Field("predicted_on", TEXT),
        Field("predicted_since", TIME),
        Field("applies_to", TEXT),
        Field("label", TEXT),
        Field("value", NUMBER),
        Field("retracted", TEXT),
        Field("reason", TEXT),
    ),
    "metrics": (
        Field("name", TEXT, required=True),
        Field("measured_at", TIME, required=True),
        Field("value", NUMBER, required=True),
        Field("release", TEXT),
        Field("key", TEXT),
        Field("predicted_at", TIME),
        Field("predicted_on", TEXT),
        Field("run", TEXT),
        Field("step", NUMBER),
    ),
}


#: Fields of text that are days: a datetime stands for its day in UTC.
DAYS = frozenset(("predicted_on",))


def family(name: str) -> Optional[Family]:
    """The family of which the column ``name`` is a member."""
    return next((family for family in FAMILIES if name.startswith(family.prefix)), None)


def field(kind: str, name: str) -> Field:
    """The field ``name`` of a kind, or the member of a family."""
    of = family(name)
    if of is not None:
        return Field(name, of.type)
    found = next(field for field in KINDS[kind] if field.name == name)
    return Field(name, DAY, found.required) if name in DAYS else found


def most_rows(names: Iterable[str]) -> int:
    """The most rows of one request that has these columns."""
    numbers = sum(1 for name in names if (of := family(name)) is not None and of.type == NUMBER)
    return min(MAX_ROWS, MAX_CELLS // max(numbers, 1))
