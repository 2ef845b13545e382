"""A service of one's own: starts the binary on a folder, for as long as this process needs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
import weakref
from pathlib import Path
from typing import Any, List, Optional, Union

from .client import Client
from .errors import AlmanacError

#: How long the binary may take until it listens, in seconds.
START_SECONDS = 30.0


#: Ends the process that it is told when its own input ends, which it does with this process, however that ends.
WATCH = 'read -r _; kill -TERM "$1"'


class LocalClient(Client):
    """A client of a service that this process has started. Closing it ends the service, and so does the end of this
    process, also by a signal. Ctrl-C is for this process alone, so that the service takes what it sends at its end."""

    def __init__(self, url: str, process: "subprocess.Popen[str]", **options: Any) -> None:
        super().__init__(url, **options)
        self.process = process
        # Also when the client is forgotten, and at the end of this process.
        self._end = weakref.finalize(self, _end, process, _watcher(process.pid), os.getpid())

    def __repr__(self) -> str:
        return f"almanac_ml.open(...) at {self.transport.url}"

    def close(self) -> None:
        """Closes the connections, and ends the service after it has done what was begun."""
        super().close()
        self._end()


def _watcher(service: int) -> Optional["subprocess.Popen[bytes]"]:
    """What ends the service when this process is killed; nothing where there is no shell."""
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", WATCH, "almanac-ml", str(service)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None


def _end(process: "subprocess.Popen[str]", watcher: Optional["subprocess.Popen[bytes]"], owner: int) -> None:
    # A child after a fork has a copy of the client, and ends no service of its parent.
    if os.getpid() != owner:
        return
    if watcher is not None:
        # Before the service has ended: afterwards its number may be that of another process.
        watcher.kill()
        watcher.communicate()
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def start(
    data: Union[str, "os.PathLike[str]"], *, binary: Union[None, str, "os.PathLike[str]"] = None, **options: Any
) -> LocalClient:
    """Starts ``almanac up`` on the folder ``data``, on a free port of this machine."""
    command = [
        find_binary(binary), "--data", os.fspath(data), "--log-format", "text", "up", "--listen", "127.0.0.1:0",
    ]  # fmt: skip
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A signal for all of a terminal, such as that of Ctrl-C, is not for the service.
        start_new_session=True,
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
    """The binary: the one named, that of the environment variable ALMANAC_BINARY, the one that
    ``pip install almanac-ml[server]`` put beside this Python, or the one on the PATH."""
    for candidate in (binary, os.environ.get("ALMANAC_BINARY")):
        if candidate is not None:
            if not Path(candidate).is_file():
                raise AlmanacError(f"there is no binary {os.fspath(candidate)}")
            return os.fspath(candidate)
    # A virtual environment need not be activated for its Python to be used.
    found = shutil.which("almanac", path=_scripts()) or shutil.which("almanac")
    if found is None:
        raise AlmanacError(
            "there is no binary `almanac`: pip install 'almanac-ml[server]', or name one by binary= or ALMANAC_BINARY"
        )
    return found


def _scripts() -> str:
    """The folders in which pip puts programs for this Python."""
    user = sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else f"{os.name}_user"
    return os.pathsep.join((sysconfig.get_path("scripts"), sysconfig.get_path("scripts", user)))


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
