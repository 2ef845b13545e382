"""Log predictions and outcomes to Almanac, and read back how good the predictions were.

    import almanac_ml as al

    w = al.connect("http://127.0.0.1:7171").workspace("credit/prod")
    w.release("v7").log_predictions(df, key="loan_id", score="p")
    w.log_outcomes(df2, key="loan_id", observed_at="closed_at", label="status")
    w.evaluations("2026-06-01", "2026-06-30", as_of="2026-07-01")
"""

from __future__ import annotations

import os
from typing import Any, Union

from ._chart import Chart, chart
from .background import Logger, Stats
from .client import Client, Followed, Receipt, Release, Workspace
from .errors import AlmanacError, AlmanacWarning, RefusedError, RowProblem, UnavailableError
from .runs import Run
from .server import LocalClient, find_binary, start

__version__ = "0.2.0"


#: The service at an address: ``connect("http://127.0.0.1:7171", token=...)``.
connect = Client


def open(data: Union[str, "os.PathLike[str]"] = "./almanac-data", **options: Any) -> LocalClient:
    """The data in a folder: starts the binary on it, on a free port, for as long as this process runs."""
    return start(data, **options)


__all__ = [
    "AlmanacError",
    "AlmanacWarning",
    "Chart",
    "Client",
    "Followed",
    "LocalClient",
    "Logger",
    "Receipt",
    "RefusedError",
    "Release",
    "RowProblem",
    "Run",
    "Stats",
    "UnavailableError",
    "Workspace",
    "chart",
    "connect",
    "find_binary",
    "open",
]
