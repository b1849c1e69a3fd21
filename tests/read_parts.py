"""Checks the rows that a killed run has left against profile_export.jsonl with pyarrow and duckdb.

    python3 tests/read_parts.py DIR

Prints each difference and exits with 1 if there are any.
"""

import json
import sys
from pathlib import Path

import duckdb
import pyarrow.parquet
from read_parquet import check_rows


def main():
    directory = Path(sys.argv[1])
    parts = directory / "profile_export.parquet.parts"
    table = pyarrow.parquet.read_table(parts)
    with open(directory / "profile_export.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file if line.endswith("\n")]
    differences = list(check_rows(table, lines[: table.num_rows]))
    counted = duckdb.execute("select count(*) from read_parquet(?)", [f"{parts}/*.parquet"]).fetchone()
    if counted != (table.num_rows,):
        differences.append(f"duckdb reads {counted} rows, pyarrow {table.num_rows}")
    for difference in differences:
        print(difference)
    return 1 if differences or not table.num_rows else 0


if __name__ == "__main__":
    sys.exit(main())
