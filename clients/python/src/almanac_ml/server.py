"""A service of one's own: starts the binary on a folder, for as long as this process needs it."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, List, Optional, Union

from .client import Client
from .errors import AlmanacError

#: How long the binary may take until it listens, in seconds.
START_SECONDS = 30.0


class LocalClient(Client):
    """A client of a service that this process has started. Closing it ends the service."""

    def __init__(self, url: str, process: "subprocess.Popen[str]", **options: Any) -> None:
        super().__init__(url, **options)
        self.process = process
        atexit.register(self.close)

    def close(self) -> None:
        """Closes the connections, and ends the service after it has done what was begun."""
        super().close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def start(
    data: Union[str, "os.PathLike[str]"], *, binary: Union[None, str, "os.PathLike[str]"] = None, **options: Any
) -> LocalClient:
    """Starts ``almanac up`` on the folder ``data``, on a free port of this machine."""
    command = [
        find_binary(binary), "--data", os.fspath(data), "--log-format", "text", "up", "--listen", "127.0.0.1:0",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    told: List[str] = []
    found = threading.Event()
    reader = threading.Thread(target=_read, args=(process, told, found), name="almanac-ml-server", daemon=True)
    reader.start()
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up:
        if found.wait(0.1):
            break
        if process.poll() is not None:
            reader.join(1)
            raise AlmanacError(f"{command[0]} ended: {''.join(told[-5:]).strip() or process.returncode}")
    else:
        process.kill()
        raise AlmanacError(f"{command[0]} does not listen after {START_SECONDS:.0f} s: {''.join(told[-5:])}")
    return LocalClient(_address(told) or "", process, **options)


def find_binary(binary: Union[None, str, "os.PathLike[str]"] = None) -> str:
    """The binary: the one named, that of the environment variable ALMANAC_BINARY, or the one on the PATH."""
    for candidate in (binary, os.environ.get("ALMANAC_BINARY")):
        if candidate is not None:
            if not Path(candidate).is_file():
                raise AlmanacError(f"there is no binary {os.fspath(candidate)}")
            return os.fspath(candidate)
    on_path = shutil.which("almanac")
    if on_path is None:
        raise AlmanacError("the binary `almanac` is not on the PATH; name it by binary= or ALMANAC_BINARY")
    return on_path


def _read(process: "subprocess.Popen[str]", told: List[str], found: threading.Event) -> None:
    assert process.stdout is not None
    # It is read to its end, or the service would wait for somebody to read its log.
    for line in process.stdout:
        if not found.is_set():
            told.append(line)
            if _address(told):
                found.set()


def _address(told: List[str]) -> Optional[str]:
    for line in told:
        match = re.search(r"listening on (http://\S+?)[,\s]", line)
        if match:
            return match.group(1)
    return None
