"""Batches on disk that could not be sent yet.

A batch is one file: a line of JSON (what it is, its idempotency key, the SHA-256 of the body), then the
body. It is written under another name first and renamed, so a file that is there is whole. Each process
has a folder of its own in the spool, with a lock for as long as it lives; a folder without a living owner
is taken over by the next logger.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, NamedTuple, Optional

from ._frames import Body

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".batch"
REFUSED = "refused"


class Spooled(NamedTuple):
    """A batch that waits on disk."""

    path: Path
    kind: str
    batch: str
    body: Body


class Spool:
    """The folder of one process in a spool."""

    def __init__(self, root: Path, max_bytes: int) -> None:
        self.root = Path(root).expanduser()
        self.max_bytes = max_bytes
        self.folder = self.root / uuid.uuid4().hex
        self.folder.mkdir(parents=True)
        self._lock = _lock(self.folder)
        self._next = 0
        self.bytes = 0

    def write(self, kind: str, batch: str, body: Body) -> Optional[Path]:
        """Keeps a batch; ``None`` when the spool is full."""
        if self.bytes + len(body.data) > self.max_bytes:
            return None
        self._next += 1
        path = self.folder / f"{self._next:010}{SUFFIX}"
        head = {
            "v": 1,
            "kind": kind,
            "batch": batch,
            "content_type": body.content_type,
            "rows": body.rows,
            "sha256": hashlib.sha256(body.data).hexdigest(),
        }
        unfinished = path.with_suffix(".part")
        with open(unfinished, "wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + body.data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        self.bytes += len(body.data)
        return path

    def waiting(self) -> Iterator[Spooled]:
        """The batches that wait, the oldest first. A damaged file is put among the refused ones."""
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            try:
                yield read(path)
            except (OSError, ValueError, KeyError) as error:
                self.refuse(path, f"the file is damaged: {error}")

    def done(self, spooled: Spooled) -> None:
        """Forgets a batch that is stored."""
        self.bytes = max(0, self.bytes - len(spooled.body.data))
        spooled.path.unlink()

    def refuse(self, path: Path, reason: str) -> None:
        """Puts a batch that will never be stored where somebody can look at it."""
        folder = self.root / REFUSED
        folder.mkdir(exist_ok=True)
        target = folder / f"{self.folder.name}-{path.name}"
        os.replace(path, target)
        target.with_suffix(".txt").write_text(reason + "\n", encoding="utf-8")

    def keep_refused(self, kind: str, batch: str, body: Body, reason: str) -> None:
        """Keeps rows that were refused, with the reason."""
        path = self.write(kind, batch, body)
        if path is not None:
            self.bytes -= len(body.data)
            self.refuse(path, reason)

    def adopt(self) -> int:
        """Takes over the batches of processes that are gone; returns how many."""
        adopted = 0
        for folder in sorted(self.root.iterdir()):
            if folder == self.folder or folder.name == REFUSED or not folder.is_dir():
                continue
            lock = _lock(folder)
            if lock is None:
                continue
            for path in sorted(folder.glob(f"*{SUFFIX}")):
                self._next += 1
                target = self.folder / f"{self._next:010}{SUFFIX}"
                self.bytes += path.stat().st_size
                os.replace(path, target)
                adopted += 1
            lock.close()
            shutil.rmtree(folder, ignore_errors=True)
        return adopted

    def close(self) -> None:
        """Gives the folder back; it goes when nothing waits in it."""
        if self._lock is not None:
            self._lock.close()
        if not any(self.folder.glob(f"*{SUFFIX}")):
            shutil.rmtree(self.folder, ignore_errors=True)


def read(path: Path) -> Spooled:
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
    return Spooled(path, head["kind"], head["batch"], body)


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


__all__: List[str] = ["Spool", "Spooled", "read"]
