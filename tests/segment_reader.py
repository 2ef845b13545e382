#!/usr/bin/env python3
"""Prints the rows of a segment as NDJSON. Written from docs/segment.md, to prove that page right.

    python3 tests/segment_reader.py FILE

Times are whole microseconds, floats the shortest text that reads back as the same double (NaN,
Infinity and -Infinity as Python's json module writes them), nulls are null. Bad input: one line on
standard error, exit status 2. Needs the package `zstandard`.
"""

import json
import struct
import sys
import zlib

import zstandard

MAX_ROWS, MAX_CELLS, MAX_TEXT = 1 << 20, 1 << 24, 1 << 26
MAX_COLUMNS = 1024
MAX_INLINE = 32
TIME, FLOAT, TEXT = 1, 2, 3
CONSTANT = 0
MASK = (1 << 64) - 1


class Bad(Exception):
    """The bytes are not a segment that this reader understands."""


def need(condition, message):
    if not condition:
        raise Bad(message)


class Reader:
    """Takes bytes from the front."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        need(count <= len(self.data) - self.at, "it is cut short")
        self.at += count
        return self.data[self.at - count : self.at]

    def rest(self):
        return self.take(len(self.data) - self.at)

    def u8(self):
        return self.take(1)[0]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def varint(self):
        value = 0
        for shift in range(0, 70, 7):
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                need(value <= MASK, "a number does not fit 64 bits")
                return value
        raise Bad("a number does not fit 64 bits")

    def signed_varint(self):
        folded = self.varint()
        return folded // 2 if folded % 2 == 0 else -(folded + 1) // 2

    def byte_string(self, count):
        """bytes[count]"""
        parts, left = [], count
        while left:
            head = self.varint()
            codec, length = head % 4, head // 4
            need(1 <= length <= left, "a chunk does not fit")
            if codec == 0:
                parts.append(self.take(length))
            elif codec == 1:
                stored = self.varint()
                need(stored <= length, "a chunk is longer than what it holds")
                parts.append(unpack(self.take(stored), length))
            elif codec == 2:
                parts.append(self.take(1) * length)
            else:
                raise Bad("unknown chunk codec 3")
            left -= length
        return b"".join(parts)

    def frame(self, count):
        """frame[count], as signed 64-bit numbers"""
        if count == 0:
            return []
        width = self.u8()
        need(width <= 8, "numbers of more than 8 bytes")
        minimum = self.signed_varint()
        if width == 0:
            return [minimum] * count
        step = self.varint()
        return [signed(minimum + step * number) for number in self.planes(count, width)]

    def planes(self, count, width):
        """Unsigned numbers from `width` byte planes."""
        data = self.byte_string(count * width)
        rows = zip(*(data[plane * count : (plane + 1) * count] for plane in range(width)))
        return [int.from_bytes(bytes(row), "little") for row in rows]


def signed(number):
    number &= MASK
    return number - (1 << 64) if number >> 63 else number


def unpack(stored, length):
    try:
        need(zstandard.frame_content_size(stored) in (-1, length), "a chunk unpacks to another length")
        data = zstandard.ZstdDecompressor().decompress(stored, max_output_size=length)
    except zstandard.ZstdError as error:
        raise Bad(f"a chunk does not unpack: {error}") from error
    need(len(data) == length, "a chunk unpacks to another length")
    return data


def double(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def single(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def read_header(reader):
    need(reader.data[:4] == b"ALMS", "these are not the bytes of a segment")
    reader.take(4)
    version = reader.u8()
    need(version == 1, f"unknown version {version}")
    rows, count = reader.varint(), reader.varint()
    need(rows <= MAX_ROWS and count <= MAX_COLUMNS and rows * count <= MAX_CELLS, "it is too large")
    columns = [read_entry(reader, rows) for _ in range(count)]
    end = reader.at
    need(reader.u32() == zlib.crc32(reader.data[:end]), "the checksum of the header does not match")
    need(len({column["name"] for column in columns}) == count, "two columns have the same name")
    for column in columns:
        if "block" not in column:
            column["block"] = reader.take(column["length"])
    need(not reader.rest(), "bytes follow the last block")
    return rows, columns


def read_entry(reader, rows):
    column = {"name": reader.take(reader.u8()).decode()}
    code, flags = reader.u8(), reader.u8()
    column["type"], column["encoding"] = code & 15, code >> 4
    need(not flags & ~5, f"column {column['name']!r} has unknown flags")
    column["nulls"] = reader.varint() if flags & 4 else 0
    need(column["nulls"] <= rows, "more nulls than rows")
    column["constant"] = struct.unpack("<Q", reader.take(8))[0] if flags & 1 else None
    column["length"] = reader.varint()
    if column["length"] <= MAX_INLINE:
        column["block"] = reader.take(column["length"])
    else:
        column["crc"] = reader.u32()
    return column


def read_column(column, rows):
    """The values of a column of a known type, one a row."""
    if "crc" in column:
        need(zlib.crc32(column["block"]) == column["crc"], "its checksum does not match")
    reader, nulls = Reader(column["block"]), column["nulls"]
    count = rows - nulls
    valid = [True] * rows
    if 0 < nulls < rows:
        bits = int.from_bytes(reader.byte_string((rows + 7) // 8), "little")
        valid = [bool(bits >> row & 1) for row in range(rows)]
        need(valid.count(True) == count and bits >> rows == 0, "the null bitmap is wrong")
    elif nulls:
        valid = [False] * rows
    read = {TIME: read_times, FLOAT: read_floats, TEXT: read_texts}[column["type"]]
    values = iter(read(reader, column, count) if count else [])
    need(not reader.rest(), "bytes are left over")
    return [next(values) if present else None for present in valid]


def constant(column):
    need(column["constant"] is not None, "it is constant, but the header does not say its value")
    return column["constant"]


def unknown(column):
    return Bad(f"unknown encoding {column['encoding']}")


def read_times(reader, column, count):
    if column["encoding"] == CONSTANT:
        return [signed(constant(column))] * count
    if column["encoding"] == 1:
        return reader.frame(count)
    if column["encoding"] == 2:
        values = [reader.signed_varint()]
        for delta in reader.frame(count - 1):
            values.append(signed(values[-1] + delta))
        return values
    raise unknown(column)


def read_floats(reader, column, count):
    if column["encoding"] == CONSTANT:
        return [double(constant(column))] * count
    if column["encoding"] == 1:
        scale = reader.u8()
        need(scale <= 15, "more than 15 decimals")
        return [float(number) / 10.0**scale for number in reader.frame(count)]
    if column["encoding"] == 2:
        return [double(bits) for bits in reader.planes(count, 8)]
    if column["encoding"] == 3:
        return [single(bits) for bits in reader.planes(count, 4)]
    raise unknown(column)


def read_texts(reader, column, count):
    encoding = column["encoding"]
    if encoding == CONSTANT:
        return [reader.rest().decode()] * count
    if encoding == 1:
        entries = reader.varint()
        need(2 <= entries <= 256, "a dictionary of a wrong size")
        words = strings(reader, [reader.varint() for _ in range(entries)])
        bits = 1 if entries == 2 else 2 if entries <= 4 else 4 if entries <= 16 else 8
        packed = reader.byte_string((count * bits + 7) // 8)
        codes = [byte >> shift & (1 << bits) - 1 for byte in packed for shift in range(0, 8, bits)]
        need(not any(codes[count:]), "bits are set after the last code")
        need(max(codes) < entries, "a code has no entry")
        return [words[code] for code in codes[:count]]
    if encoding == 2:
        length = reader.varint()
        need(1 <= length <= 64 and count * length <= MAX_TEXT, "a wrong fixed length")
        data = reader.byte_string(count * length)
        return [data[row::count].decode() for row in range(count)]
    if encoding == 3:
        return strings(reader, reader.frame(count))
    raise unknown(column)


def strings(reader, lengths):
    need(min(lengths) >= 0 and sum(lengths) <= MAX_TEXT, "too much text")
    data, end, words = reader.byte_string(sum(lengths)), 0, []
    for length in lengths:
        words.append(data[end : end + length].decode())
        end += length
    return words


def main(arguments):
    if len(arguments) != 2:
        print("usage: segment_reader.py FILE", file=sys.stderr)
        return 2
    try:
        with open(arguments[1], "rb") as file:
            rows, columns = read_header(Reader(file.read()))
        table = {}
        for column in columns:
            if column["type"] in (TIME, FLOAT, TEXT):
                try:
                    table[column["name"]] = read_column(column, rows)
                except (Bad, UnicodeDecodeError) as error:
                    raise Bad(f"column {column['name']!r}: {error}") from error
    except (Bad, UnicodeDecodeError, OSError) as error:
        print(f"{arguments[1]}: {error}", file=sys.stderr)
        return 2
    for row in range(rows):
        print(json.dumps({name: values[row] for name, values in table.items()}, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    sys.exit(main(sys.argv))
