"""Checks profile_export.parquet against profile_export.jsonl with pyarrow, Polars and duckdb.

    python3 tests/read_parquet.py DIR

Prints each difference and exits with 1 if there are any.
"""

import json
import sys
from pathlib import Path

import duckdb
import polars
import pyarrow.parquet

METADATA = (
    "session_num",
    "x_request_id",
    "conversation_id",
    "turn_index",
    "agent_depth",
    "lane",
    "held_by",
    "tenant",
    "request_due_ns",
    "credit_issued_ns",
    "request_start_ns",
    "request_end_ns",
    "benchmark_phase",
    "phase_name",
    "was_cancelled",
    "requested_output_tokens",
)


def same(ours, theirs):
    """Whether two values are equal, except for the rounding of a division."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, (int, float)):
        return abs(ours - theirs) <= 1e-12 * max(abs(ours), abs(theirs))
    return ours == theirs


def expected_row(line):
    row = {name: line["metadata"].get(name) for name in METADATA}
    row.update({tag: metric["value"] for tag, metric in line["metrics"].items()})
    if "good_request_count" in row:
        row["good"] = row.pop("good_request_count") == 1
    error = line["error"] or {}
    row.update({f"error_{key}": error.get(key) for key in ("code", "type", "message")})
    return row


def check_rows(table, lines):
    if table.num_rows != len(lines):
        yield f"{table.num_rows} rows, {len(lines)} lines"
    for number, (row, line) in enumerate(zip(table.to_pylist(), lines)):
        expected = expected_row(line)
        for name, value in expected.items():
            if not same(row.get(name), value):
                yield f"row {number}, {name}: {row.get(name)!r} is not {value!r}"
        for name in set(row) & set(metric_columns(table)):
            if name not in line["metrics"] and row[name] is not None:
                yield f"row {number}, {name}: should be null"


def check_counts(path, lines, summary):
    """The summary counts each row of the measurement once."""
    query = "select benchmark_phase, count(*) from read_parquet(?) group by 1"
    by_phase = dict(duckdb.execute(query, [str(path)]).fetchall())
    if sum(by_phase.values()) != len(lines):
        yield f"duckdb reads {sum(by_phase.values())} rows, {len(lines)} lines"
    count = sum(summary.get(tag, {"avg": 0})["avg"] for tag in ("request_count", "error_request_count"))
    if by_phase.get("profiling", 0) != count:
        yield f"{by_phase} rows, {count} requests in the summary"


def metadata_of(table):
    return {key.decode(): value.decode() for key, value in table.schema.metadata.items()}


def metric_columns(table):
    return json.loads(metadata_of(table)["aiperf.units"])


def check_metadata(table, summary):
    metadata = metadata_of(table)
    if metadata.get("aiperf.benchmark_id") != summary["benchmark_id"]:
        yield "another benchmark id"
    if set(table.column("benchmark_id").to_pylist()) != {summary["benchmark_id"]}:
        yield "rows of another benchmark id"
    if "good_request_fraction" in summary:
        rows = [row for row in table.to_pylist() if row["benchmark_phase"] == "profiling"]
        good = sum(row["good"] for row in rows) / len(rows)
        if not same(good, summary["good_request_fraction"]["avg"]):
            yield f"{good} of the rows are good"
    singles = {
        tag: metric
        for tag, metric in summary.items()
        if isinstance(metric, dict) and set(metric) == {"unit", "avg"}
    }
    if not singles:
        yield "the summary does not contain single values"
    for tag, metric in singles.items():
        if json.loads(metadata.get(f"aiperf.metric.{tag}", "null")) != metric:
            yield f"metadata of {tag} is not {metric}"


def check_units(table, summary):
    """Each metric has the unit that it has in the summary."""
    units = metric_columns(table)
    for tag in set(units) & set(summary):
        if units[tag] != summary[tag]["unit"]:
            yield f"{tag} is in {units[tag]!r}, not {summary[tag]['unit']!r}"


def check_polars(path, table):
    """Polars reads the same columns, types and values."""
    frame = polars.read_parquet(path)
    if frame.columns != table.column_names:
        yield f"Polars reads {frame.columns}"
    for ours, theirs in zip(table.to_pylist(), frame.to_dicts(), strict=True):
        if ours != theirs:
            yield f"Polars reads {theirs}, not {ours}"


def main():
    directory = Path(sys.argv[1])
    path = directory / "profile_export.parquet"
    table = pyarrow.parquet.read_table(path)
    with open(directory / "profile_export.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    summary = json.loads((directory / "profile_export_aiperf.json").read_text(encoding="utf-8"))
    differences = [
        *check_rows(table, lines),
        *check_counts(path, lines, summary),
        *check_metadata(table, summary),
        *check_units(table, summary),
        *check_polars(path, table),
    ]
    for difference in differences:
        print(difference)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
