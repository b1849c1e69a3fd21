"""Checks the server's samples and scrapes of the vLLM capture with other readers.

    python3 tests/read_server_parquet.py DIR

DIR contains server_metrics_export.parquet and server_metrics_export.jsonl, generated from the
bodies in tests/golden/vllm/scrapes.jsonl.gz. The expected contents are computed from the
bodies with prometheus_client. Prints each difference and exits with 1 if there are any.
"""

import gzip
import json
import math
import sys
from pathlib import Path

import duckdb
import pandas
import pyarrow.parquet
from prometheus_client.parser import text_string_to_metric_families

CAPTURE = Path(__file__).parent / "golden" / "vllm" / "scrapes.jsonl.gz"
FIXED = {
    "endpoint_url", "metric_name", "metric_type", "unit", "description", "timestamp_ns",
    "value", "sum", "count", "bucket_le", "bucket_count",
}


def is_left_out(name):
    return name.endswith(("_created", "_uptime")) or "_uptime_" in name


def series_of(body):
    """(name, type, labels) -> the parts of each series."""
    series = {}
    for family in text_string_to_metric_families(body):
        if is_left_out(family.name):
            continue
        for sample in family.samples:
            if sample.name.endswith("_created"):
                continue
            labels = dict(sample.labels)
            apart = {"histogram": "le", "summary": "quantile"}.get(family.type)
            at = labels.pop(apart, None) if apart else None
            key = family.name, family.type, tuple(sorted(labels.items()))
            parts = series.setdefault(key, {"named": {}})
            if at is not None:
                parts["named"][at] = sample.value
            elif apart and sample.name.endswith(("_sum", "_count")):
                parts[sample.name.rsplit("_", 1)[1]] = sample.value
            else:
                parts["value"] = sample.value
    return {key: parts for key, parts in series.items() if is_finite(parts)}


def is_finite(parts):
    numbers = [*parts["named"].values()]
    numbers += [parts[name] for name in ("value", "sum", "count") if name in parts]
    return all(map(math.isfinite, numbers))


def numbers(parts):
    """The numbers of a series, by column and bucket."""
    if "value" in parts:
        return {("value", None): parts["value"]}
    found = {("bucket_count", le): count for le, count in parts["named"].items()}
    return found | {(name, None): parts[name] for name in ("sum", "count")}


def counts_late(key, last, late):
    """Whether the series increased in the scrapes after the phase, and stopped before the last one."""
    if key[1] not in ("counter", "histogram"):
        return False
    part = "value" if key[1] == "counter" else "count"
    values = [scrape["series"].get(key, {part: 0.0})[part] for scrape in [last, *late]]
    rises = [after - before for before, after in zip(values, values[1:])]
    return any(rises) and rises[-1] == 0.0 and min(rises) >= 0.0


def expected_rows(scrapes, start, end):
    """(name, type, labels, time, le) -> value, sum, count, bucket count."""
    before = [scrape for scrape in scrapes if scrape["first_byte_ns"] < start]
    reference = before[-1]["series"] if before else None
    rows = {}
    first = {}
    # The final scrape of the phase was sent after its end.
    final = next(i for i, scrape in enumerate(scrapes) if scrape["request_sent_ns"] >= end)
    last, late = scrapes[final], scrapes[final + 1:]
    for number, scrape in enumerate(scrapes):
        if scrape["first_byte_ns"] < start:
            continue
        for key, parts in scrape["series"].items():
            name, kind, labels = key
            if kind == "summary" or (number > final and not counts_late(key, last, late)):
                continue
            now = numbers(parts)
            if reference is None:
                base = first.setdefault(key, now)
            else:
                base = numbers(reference[key]) if key in reference else {}
            if kind in ("counter", "histogram"):
                now = {at: max(value - base.get(at, 0.0), 0.0) for at, value in now.items()}
            row = name, kind, labels, scrape["first_byte_ns"]
            if kind == "histogram":
                for (part, le), count in now.items():
                    if part == "bucket_count":
                        cells = None, now["sum", None], now["count", None], count
                        rows[*row, le] = cells
            else:
                rows[*row, None] = now["value", None], None, None, None
    return rows


def check_rows(table, scrapes):
    metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    start = int(metadata["aiperf.time_filter_start_ns"])
    end = int(metadata["aiperf.time_filter_end_ns"])
    expected = expected_rows(scrapes, start, end)
    labels = json.loads(metadata["aiperf.label_columns"])
    if labels != sorted(set(table.column_names) - FIXED):
        yield "label columns are not those that the metadata names, or are not sorted"
    found = {}
    for row in table.to_pylist():
        own = tuple((name, row[name]) for name in labels if row[name] is not None)
        key = row["metric_name"], row["metric_type"], own, row["timestamp_ns"], row["bucket_le"]
        if key in found:
            yield f"twice: {key}"
        found[key] = row["value"], row["sum"], row["count"], row["bucket_count"]
    for key in sorted(expected.keys() - found.keys(), key=str)[:5]:
        yield f"missing: {key}"
    for key in sorted(found.keys() - expected.keys(), key=str)[:5]:
        yield f"unexpected: {key}"
    for key in expected.keys() & found.keys():
        if expected[key] != found[key]:
            yield f"{key}: {found[key]} is not {expected[key]}"
    if len(expected) < 10_000:
        yield f"{len(expected)} rows are too few to say anything"


def expected_metrics(series):
    """The series of summaries, by name, separately from the others."""
    metrics, summaries = {}, {}
    for (name, kind, labels), parts in series.items():
        point = {"labels": dict(labels)} if labels else {}
        if "value" in parts:
            point["value"] = parts["value"]
        else:
            point["buckets" if kind == "histogram" else "quantiles"] = parts["named"]
            point["sum"], point["count"] = parts["sum"], parts["count"]
        place = summaries if kind == "summary" else metrics
        place.setdefault(name, []).append(point)
    return metrics, summaries


def check_lines(lines, scrapes):
    if len(lines) != len(scrapes):
        yield f"{len(lines)} lines, {len(scrapes)} scrapes"
    types = {}
    for number, (line, scrape) in enumerate(zip(lines, scrapes), 1):
        if (line["metrics"], line.get("summaries", {})) != expected_metrics(scrape["series"]):
            yield f"line {number}: other metrics"
        times = {
            "timestamp_ns": scrape["first_byte_ns"],
            "first_byte_ns": scrape["first_byte_ns"],
            "request_sent_ns": scrape["request_sent_ns"],
            "endpoint_latency_ns": scrape["last_byte_ns"] - scrape["request_sent_ns"],
        }
        for name, value in times.items():
            if line[name] != value:
                yield f"line {number}: {name} is {line[name]}, not {value}"
        types |= {name: about["type"] for name, about in line.get("families", {}).items()}
        for name, kind, _ in scrape["series"]:
            # A gauge with this name contains only its labels.
            kind = "info" if kind == "gauge" and name.endswith("_info") else kind
            if types.get(name) != kind:
                yield f"line {number}: {name} is said to be {types.get(name)}, not {kind}"


def check_queries(path, table):
    """The documented queries."""
    found = duckdb.sql(
        f"SELECT * FROM '{path}' WHERE metric_name LIKE 'vllm:%' ORDER BY timestamp_ns"
    ).fetchall()
    names = table.column("metric_name").to_pylist()
    if len(found) != sum(name.startswith("vllm:") for name in names):
        yield "DuckDB finds another number of rows"
    averages = dict(
        duckdb.sql(
            f"SELECT metric_name, AVG(value) FROM '{path}' WHERE metric_type='gauge' "
            "GROUP BY metric_name"
        ).fetchall()
    )
    frame = pandas.read_parquet(path)
    gauges = frame[frame["metric_type"] == "gauge"].groupby("metric_name")["value"].mean()
    if averages.keys() != set(gauges.index):
        yield "DuckDB and pandas find other gauges"
    for name, average in averages.items():
        if not math.isclose(average, gauges[name], rel_tol=1e-9):
            yield f"{name}: {average} by DuckDB, {gauges[name]} by pandas"
    union = f"SELECT count(*) FROM read_parquet(['{path}', '{path}'], union_by_name=true)"
    if duckdb.sql(union).fetchall() != [(2 * table.num_rows,)]:
        yield "DuckDB does not combine files"
    usage = frame[frame["metric_name"] == "vllm:kv_cache_usage_perc"]
    if usage.empty or usage["timestamp_ns"].is_monotonic_increasing is False:
        yield "the usage of the cache is not in order of time"


def main():
    directory = Path(sys.argv[1])
    path = directory / "server_metrics_export.parquet"
    with gzip.open(CAPTURE, "rt", encoding="utf-8") as file:
        scrapes = [json.loads(line) for line in file]
    for scrape in scrapes:
        scrape["series"] = series_of(scrape["body"])
    with open(directory / "server_metrics_export.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    table = pyarrow.parquet.read_table(path)
    if not all(field.nullable for field in table.schema):
        print("a column without nulls: pyarrow puts no table of AIPerf's beside it")
        return 1
    checks = check_rows(table, scrapes), check_lines(lines, scrapes), check_queries(path, table)
    differences = [difference for check in checks for difference in check]
    for difference in differences[:20]:
        print(difference)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
