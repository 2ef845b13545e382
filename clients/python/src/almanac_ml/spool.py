"""Batches on disk that could not be sent yet.

A batch is one file: a line of JSON (what it is, its idempotency key, the SHA-256 of the body), then the
body. It is written under another name first and renamed, so a file that is there is whole. Each process
has a folder of its own among those of its workspace, with a lock for as long as it lives; a folder without a
living owner is taken over by the next logger of that workspace.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections import deque
from pathlib import Path
from typing import IO, Any, Deque, Dict, List, NamedTuple, Optional, Union
from urllib.parse import quote

from ._frames import Body

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".batch"
REFUSED = "refused"

#: Folders of processes that stood in the spool itself, before each workspace had one.
FORMER = re.compile(r"[0-9a-f]{32}")


class Batch(NamedTuple):
    """Rows of one kind, and the idempotency key under which they are sent."""

    kind: str
    name: str
    body: Body


class Spool:
    """The folder of one process in a spool."""

    def __init__(self, root: Path, max_bytes: int, workspace: str) -> None:
        self.root = Path(root).expanduser()
        self.max_bytes = max_bytes
        self.workspace = workspace
        self.folder = self.root / quote(workspace, safe="") / uuid.uuid4().hex
        # Others look for folders that nobody has locked: it gets its name when it is.
        unfinished = self.folder.with_name(f".{self.folder.name}")
        unfinished.mkdir(parents=True)
        self._lock = _lock(unfinished)
        os.replace(unfinished, self.folder)
        self._waiting: Deque[Path] = deque()
        self._sizes: Dict[Path, int] = {}
        self._next = 0
        self.bytes = 0

    def write(self, batch: Batch) -> bool:
        """Keeps a batch behind those that wait; ``False`` when the spool is full."""
        if self.bytes + batch.body.size > self.max_bytes:
            return False
        path = self._new_path()
        self._put(path, batch)
        self._waiting.append(path)
        return True

    def first(self) -> Union[None, int, Batch]:
        """The batch that waits longest. A damaged file is put among the refused ones: then it is how many rows
        that had, as far as that can be read."""
        if not self._waiting:
            return None
        path = self._waiting[0]
        try:
            return read(path)
        except FileNotFoundError:
            self._forget_first()
            return 0
        except (ValueError, KeyError) as error:
            rows = _rows(path)
            self._forget_first()
            self._refuse(path, f"the file is damaged: {error}")
            return rows

    def replace_first(self, batches: List[Batch]) -> None:
        """Puts batches in the place of the one that waits longest: none when it is settled. One takes its place
        at once, so that a process that ends here never sends both."""
        path = self._forget_first()
        for batch in batches[1:]:
            other = self._new_path()
            self._put(other, batch)
            self._waiting.appendleft(other)
        if batches:
            self._put(path, batches[0])
            self._waiting.appendleft(path)
        else:
            path.unlink()

    def rows(self) -> int:
        """How many rows wait."""
        return sum(_rows(path) for path in self._waiting)

    def keep_refused(self, batch: Batch, reason: str) -> None:
        """Keeps rows that will never be stored where somebody can look at them, with the reason."""
        path = self._new_path()
        self._put(path, batch)
        self.bytes -= self._sizes.pop(path)
        self._refuse(path, reason)

    def adopt(self) -> int:
        """Takes over the batches of processes that are gone; returns how many."""
        adopted = 0
        former = [folder for folder in self.root.iterdir() if FORMER.fullmatch(folder.name)]
        for folder in sorted(self.folder.parent.iterdir()) + sorted(former):
            if folder == self.folder or folder.name.startswith(".") or not folder.is_dir():
                continue
            try:
                adopted += self._adopt(folder)
            except FileNotFoundError:
                # Another process was quicker.
                continue
        return adopted

    def _adopt(self, folder: Path) -> int:
        lock = _lock(folder)
        if lock is None:
            return 0
        adopted = 0
        with lock:
            for path in sorted(folder.glob(f"*{SUFFIX}")):
                target = self._new_path()
                size = path.stat().st_size
                os.replace(path, target)
                self._sizes[target] = size
                self.bytes += size
                self._waiting.append(target)
                adopted += 1
            shutil.rmtree(folder, ignore_errors=True)
        return adopted

    def close(self) -> None:
        """Gives the folder back; it goes when nothing waits in it."""
        if not any(self.folder.glob(f"*{SUFFIX}")):
            shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()

    def _new_path(self) -> Path:
        self._next += 1
        return self.folder / f"{self._next:010}{SUFFIX}"

    def _forget_first(self) -> Path:
        path = self._waiting.popleft()
        self.bytes -= self._sizes.pop(path, 0)
        return path

    def _put(self, path: Path, batch: Batch) -> None:
        data = bytes(batch.body.data)
        head = {
            "v": 1,
            "workspace": self.workspace,
            "kind": batch.kind,
            "batch": batch.name,
            "content_type": batch.body.content_type,
            "rows": batch.body.rows,
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        unfinished = path.with_suffix(".part")
        with open(unfinished, "wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        self._sizes[path] = len(data)
        self.bytes += len(data)

    def _refuse(self, path: Path, reason: str) -> None:
        folder = self.root / REFUSED
        folder.mkdir(exist_ok=True)
        target = folder / f"{self.folder.name}-{path.name}"
        os.replace(path, target)
        target.with_suffix(".txt").write_text(reason + "\n", encoding="utf-8")


def read(path: Path) -> Batch:
    """A batch as it was written.

    Raises :class:`ValueError` when it is not.
    """
    head_line, _, data = path.read_bytes().partition(b"\n")
    head: Dict[str, Any] = json.loads(head_line)
    if head["v"] != 1:
        raise ValueError(f"its version {head['v']} is not known")
    if hashlib.sha256(data).hexdigest() != head["sha256"]:
        raise ValueError("the checksum does not fit")
    body = Body(head["content_type"], data, int(head["rows"]))
    return Batch(head["kind"], head["batch"], body)


def _rows(path: Path) -> int:
    """How many rows a file says that it has."""
    try:
        with open(path, "rb") as file:
            return int(json.loads(file.readline())["rows"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _lock(folder: Path) -> Optional[IO[bytes]]:
    """A lock on a folder that ends with this process; ``None`` when another one has it."""
    file = open(folder / "lock", "wb")
    if fcntl is None:  # pragma: no cover
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    except OSError:
        file.close()
        return None


__all__ = ["Batch", "Spool", "read"]
