"""What can go wrong, in terms of what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional


@dataclass(frozen=True)
class RowProblem:
    """One thing that is wrong with one row of a batch."""

    row: int
    """The row, from 1."""
    field: Optional[str]
    """The field, when one is to blame."""
    message: str

    def __str__(self) -> str:
        where = f"row {self.row}" if self.field is None else f"row {self.row}, {self.field}"
        return f"{where}: {self.message}"


class AlmanacError(Exception):
    """Every error of this package."""


class UnavailableError(AlmanacError):
    """The service could not be reached or did not answer in time. The same call may be made again:
    a batch that was stored already counts once."""


class RefusedError(AlmanacError):
    """The service refused the request as it is; nothing was stored."""

    def __init__(
        self, status: int, detail: str, rows: Optional[List[RowProblem]] = None, row_count: int = 0
    ) -> None:
        self.status = status
        """The HTTP status."""
        self.detail = detail
        """What the service says."""
        self.rows = rows or []
        """The first rows that are wrong (the service names at most 100)."""
        self.row_count = max(row_count, len(self.rows))
        """How many rows are wrong."""
        super().__init__(str(self))

    def __str__(self) -> str:
        shown = "; ".join(str(row) for row in self.rows[:3])
        more = "" if self.row_count <= 3 else f"; and {self.row_count - 3} more"
        return f"{self.detail} ({shown}{more})" if shown else self.detail
