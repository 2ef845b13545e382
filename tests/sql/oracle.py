"""Writes expected.ndjson: what DuckDB answers to the statements of corpus.sql over the rows of the test.

    pip install duckdb pyarrow
    ALMANAC_CORPUS_ROWS=/tmp/rows cargo test --workspace --test api statements_agree_with_duckdb
    python tests/sql/oracle.py /tmp/rows

The test writes the rows of each table first, as Parquet.
"""
import datetime, decimal, json, math, pathlib, sys

import duckdb, pyarrow as pa, pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent


def table(path):
    """The rows with times without a zone, and with a struct for each family of columns, so that `tag.city` names one."""
    rows = pq.read_table(path)
    for at, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            column = rows.column(at).cast(pa.timestamp("us"))
            rows = rows.set_column(at, field.name, column)
    families = {name.split(".")[0] for name in rows.column_names if "." in name}
    for family in sorted(families):
        members = [name for name in rows.column_names if name.startswith(family + ".")]
        parts = [rows.column(name).combine_chunks() for name in members]
        names = [name.split(".", 1)[1] for name in members]
        rows = rows.append_column(family, pa.StructArray.from_arrays(parts, names))
    return rows


def plain(value):
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.datetime):
        return str(value).removesuffix(" 00:00:00")
    if isinstance(value, datetime.date):
        return str(value)
    if isinstance(value, (int, float, decimal.Decimal)):
        value = float(value)
        return (int(value) if value.is_integer() else float(f"{value:.12g}")) if math.isfinite(value) else str(value)
    return str(value)


connection = duckdb.connect()
connection.execute("set default_null_order = 'nulls_last_on_asc_first_on_desc'")
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.parquet")):
    connection.register(path.stem, table(path))
failed = 0
with open(HERE / "expected.ndjson", "w") as out:
    for statement in (HERE / "corpus.sql").read_text().split(";\n"):
        statement = "\n".join(line for line in statement.splitlines() if not line.startswith("--")).strip()
        if not statement:
            continue
        try:
            rows = connection.execute(statement).fetchall()
            said = {"rows": [[plain(value) for value in row] for row in rows]}
        except duckdb.Error as error:
            said, failed = {"refused": str(error).splitlines()[0][:120]}, failed + 1
            print(statement, "\n   ", said["refused"])
        out.write(json.dumps({"sql": statement, **said}, ensure_ascii=False, separators=(",", ":")) + "\n")
print(f"{failed} statements are refused by DuckDB")
