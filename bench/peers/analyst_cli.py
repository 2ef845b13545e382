"""What an analyst waits for who works with files: ROWS FILE COMMAND... The command line writes an Arrow file, and polars reads
it."""

import subprocess
import sys

import polars as pl

import events

rows, path, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]


def framed():
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return pl.read_ipc(path)


ms, frame = events.median_ms(framed)
if frame.height != rows:
    raise SystemExit(f"{frame.height} rows instead of {rows}")
events.found(ms=ms)
