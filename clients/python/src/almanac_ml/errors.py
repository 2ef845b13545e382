"""What can go wrong, in terms of what to do about it."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, replace
from types import FrameType
from typing import List, Optional

#: The name of this package.
PACKAGE = __name__.partition(".")[0]


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

    #: What a call that sends several requests had stored before it failed, and how to go on: filled in by
    #: :meth:`Workspace.log_predictions` and its like.
    resume: Optional[str] = None

    def _with_resume(self, text: str) -> str:
        return text if self.resume is None else f"{text}; {self.resume}"

    def __str__(self) -> str:
        return self._with_resume(super().__str__())


class AlmanacWarning(UserWarning):
    """The service says something about an answer: what it lacks, or as of when it is."""


def warn(text: str) -> None:
    """An :class:`AlmanacWarning` that names the line of the call into this package, however deep below it is found."""
    level = 1
    frame: Optional[FrameType] = sys._getframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, AlmanacWarning, stacklevel=level)


class UnavailableError(AlmanacError):
    """The service could not be reached or did not answer in time. The same call may be made again:
    a batch that was stored already counts once when it has the same idempotency key."""


class RefusedError(AlmanacError):
    """The service refused the request as it is; nothing of it was stored."""

    def __init__(
        self,
        status: int,
        detail: str,
        rows: Optional[List[RowProblem]] = None,
        row_count: int = 0,
        advice: Optional[str] = None,
    ) -> None:
        self.status = status
        """The HTTP status."""
        self.detail = detail
        """What the service says."""
        self.rows = rows or []
        """What is wrong with the first rows (the service names at most 100), of which one may have several problems."""
        self.row_count = max(row_count, len({problem.row for problem in self.rows}))
        """How many rows are wrong."""
        self.advice = advice
        """What to do about it, where the service cannot know."""
        # With both, so that it can be pickled.
        super().__init__(status, detail)

    def __str__(self) -> str:
        text = self.detail if self.advice is None else f"{self.detail}: {self.advice}"
        shown = "; ".join(str(row) for row in self.rows[:3])
        not_shown = max(self.row_count, len(self.rows)) - 3
        more = f"; and {not_shown} more" if not_shown > 0 else ""
        return self._with_resume(f"{text} ({shown}{more})" if shown else text)

    def after(self, rows: int) -> None:
        """Counts its rows from the beginning of a frame of which ``rows`` were sent before."""
        self.rows = [replace(problem, row=problem.row + rows) for problem in self.rows]
