"""How far a long upload is: a line in a terminal or a notebook, and nothing anywhere else."""

from __future__ import annotations

import sys
import time
from typing import Any, Optional

#: How long an upload takes at least before anything is shown, and the pause between two lines, in seconds.
QUIET_SECONDS = 1.0
PAUSE_SECONDS = 0.2


def notebook_display() -> Optional[Any]:
    """What shows a line in a notebook; ``None`` outside of one. Nothing is imported that is not there already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display


class Progress:
    """Shows how many rows of an upload are stored. ``wanted`` is yes, no, or where somebody looks."""

    def __init__(self, wanted: Optional[bool], what: str, rows: int) -> None:
        self.what, self.rows = what, rows
        self._began = self._shown = time.monotonic()
        self._handle: Any = None
        self._is_open = False
        self._display = notebook_display() if wanted is not False else None
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._is_on = wanted if wanted is not None else (is_terminal or self._display is not None)

    def show(self, done: int) -> None:
        """Says that ``done`` rows are stored."""
        now = time.monotonic()
        is_early = now - self._began < QUIET_SECONDS or now - self._shown < PAUSE_SECONDS
        if not self._is_on or (is_early and not (self._is_open and done == self.rows)):
            return
        self._shown, self._is_open = now, True
        line = self.line(done, now - self._began)
        if self._display is None:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif self._handle is None:
            self._handle = self._display({"text/plain": line}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": line}, raw=True)

    def line(self, done: int, seconds: float) -> str:
        """What is shown."""
        rate = done / seconds if seconds > 0 else 0.0
        filled = 20 * done // max(self.rows, 1)
        bar = "█" * filled + "░" * (20 - filled)
        return f"{self.what} {bar} {done:,} of {self.rows:,} rows, {rate:,.0f}/s"

    def close(self) -> None:
        """Ends the line."""
        if self._is_open and self._display is None:
            print(file=sys.stderr, flush=True)
        self._is_open = False
