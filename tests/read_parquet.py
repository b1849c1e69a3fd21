"""Checks profile_export.parquet against profile_export.jsonl with pyarrow, Polars and duckdb.

    python3 tests/read_parquet.py DIR

Prints each difference and exits with 1 if there are any.
"""

import json
import sys
from bisect import bisect_right
from collections import defaultdict
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
# Columns that are left out although requests have values.
DUPLICATES = {
    "full_decode_duration",
    "full_response_inter_token_latency",
    "full_response_output_token_throughput_per_user",
}
ALWAYS = {"error_code", "error_type", "error_message"}
# The gauges of which requests have the last sample at or before their start, by column.
GAUGES = {
    "server_running_at_start": (
        "vllm:num_requests_running",
        "sglang:num_running_reqs",
        "trtllm_num_requests_running",
        "lmdeploy:num_requests_running",
        "llamacpp:requests_processing",
    ),
    "server_waiting_at_start": (
        "vllm:num_requests_waiting",
        "sglang:num_queue_reqs",
        "trtllm_num_requests_waiting",
        "lmdeploy:num_requests_waiting",
        "llamacpp:requests_deferred",
    ),
    "server_kv_cache_usage_at_start": (
        "vllm:kv_cache_usage_perc",
        "dynamo_component_gpu_cache_usage_percent",
        "sglang:token_usage",
        "trtllm_kv_cache_utilization",
        "lmdeploy:gpu_cache_usage_perc",
    ),
}
POWER = "gpu_power_at_start"
SAMPLE = {"timestamp_ns", "value", "sum", "count", "bucket_le", "bucket_count"}


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
    left_out = DUPLICATES - set(table.column_names)
    for number, (row, line) in enumerate(zip(table.to_pylist(), lines)):
        expected = expected_row(line)
        for name, value in expected.items():
            if name not in left_out and not same(row.get(name), value):
                yield f"row {number}, {name}: {row.get(name)!r} is not {value!r}"
        for name in set(row) & set(metric_columns(table)) - set(GAUGES) - {POWER}:
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


def check_columns(table):
    """Each column has a value, and the metadata has the others."""
    left_out = json.loads(metadata_of(table)["aiperf.left_out"])
    if set(left_out) & set(table.column_names):
        yield f"left out, but there: {left_out}"
    for name in set(table.column_names) - ALWAYS if table.num_rows else ():
        if table.column(name).null_count == table.num_rows:
            yield f"{name} does not have a value"


def gauges(directory):
    """The samples of each series of each gauge, from the server's own table and the lines of GPUs."""
    found = {column: defaultdict(list) for column in (*GAUGES, POWER)}
    path = directory / "server_metrics_export.parquet"
    rows = pyarrow.parquet.read_table(path).to_pylist() if path.exists() else []
    for column, names in GAUGES.items():
        name = next((name for name in names if any(row["metric_name"] == name for row in rows)), None)
        for row in rows:
            if row["metric_name"] == name:
                series = tuple((key, value) for key, value in row.items() if key not in SAMPLE)
                found[column][series].append((row["timestamp_ns"], row["value"]))
    path = directory / "gpu_telemetry_export.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        sample = json.loads(line)
        data = sample["telemetry_data"]
        watts = data.get("nvidia_power_usage", data.get("amd_power"))
        if watts is not None:
            gpu = (sample["telemetry_source_url"], sample["gpu_index"], sample["gpu_uuid"])
            found[POWER][gpu].append((sample["timestamp_ns"], watts))
    return {column: [sorted(samples) for samples in of.values()] for column, of in found.items()}


def check_gauges(directory, table):
    """Requests have the last samples at or before their start: the sum, and of caches the mean."""
    for column, series in gauges(directory).items():
        if not series:
            # Without the server's own table, nothing can be compared.
            continue
        if column not in table.column_names:
            yield f"there is no column {column}"
            continue
        # The server's table begins with the measurement, before which there may be samples.
        known_from = max(samples[0][0] for samples in series)
        starts = table.column("request_start_ns").to_pylist()
        for start, value in zip(starts, table.column(column).to_pylist()):
            if start < known_from:
                continue
            last = [
                samples[bisect_right(samples, (start, float("inf"))) - 1][1] for samples in series
            ]
            expected = sum(last) / (len(last) if column.startswith("server_kv") else 1)
            if not same(value, expected):
                yield f"{column} at {start} is {value}, not {expected}"


def check_asof(directory, path, table):
    """DuckDB's asof join has a row for each request, with the same numbers of running requests."""
    column, names = next(iter(GAUGES.items()))
    samples = directory / "server_metrics_export.parquet"
    if column not in table.column_names or not samples.exists():
        return
    query = f"""
        with batch as (
            select timestamp_ns, sum(value) as value from read_parquet(?)
            where metric_name in {names} group by 1
        )
        select request.{column}, batch.value
        from read_parquet(?) as request
        asof left join batch on request.request_start_ns >= batch.timestamp_ns
    """
    rows = duckdb.execute(query, [str(samples), str(path)]).fetchall()
    if len(rows) != table.num_rows:
        yield f"the join has {len(rows)} rows"
    if len(gauges(directory)[column]) == 1:
        different = [row for row in rows if row[1] is not None and row[0] != row[1]]
        if different:
            yield f"the join differs: {different[:3]}"


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
        *check_columns(table),
        *check_gauges(directory, table),
        *check_asof(directory, path, table),
        *check_polars(path, table),
    ]
    for difference in differences:
        print(difference)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
