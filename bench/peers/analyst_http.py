"""What an analyst waits for: URL FORMAT ROWS. From the request to a polars frame; and how long the first byte takes, and at which
rate the answer comes when nobody reads it into a frame."""

import http.client
import io
import sys
import time
import urllib.parse

import polars as pl

import events

url, form, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
place = urllib.parse.urlsplit(url)
connection = http.client.HTTPConnection(place.hostname, place.port)
path = f"{place.path}?{place.query}&format={form}"
READERS = {
    "ipc-stream": pl.read_ipc_stream,
    "ipc-stream-lz4": pl.read_ipc_stream,
    "parquet": pl.read_parquet,
    "csv": lambda body: pl.read_csv(body, try_parse_dates=True),
    "ndjson": lambda body: pl.read_ndjson(body, infer_schema_length=None),
}


def answered():
    connection.request("GET", path)
    answer = connection.getresponse()
    if answer.status != 200:
        raise SystemExit(f"{answer.status} {answer.read(300)!r}")
    return answer


def framed():
    return READERS[form](io.BytesIO(answered().read()))


def taken():
    """Seconds until the first byte and until the last one, and how many there are."""
    began = time.perf_counter()
    answer = answered()
    # A larger read would wait until all of it is there.
    count = len(answer.read(1))
    first = time.perf_counter() - began
    buffer = bytearray(1 << 20)
    while more := answer.readinto(buffer):
        count += more
    return first, time.perf_counter() - began, count


ms, frame = events.median_ms(framed)
if frame.height != rows:
    raise SystemExit(f"{frame.height} rows instead of {rows}")
times = [taken() for _ in range(events.TIMES)]
first, whole, count = sorted(times)[len(times) // 2]
best = min(whole for _, whole, _ in times)
events.found(ms=ms, first_ms=first * 1e3, mb_per_s=count / best / 1e6, mb=count / 1e6)
