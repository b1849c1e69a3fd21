"""Reads the server metrics of a run as the documentation describes.

    python3 tests/read_server_metrics.py DIR

Compares the table with the JSON file, cell by cell in both directions, and the flat layout
(`flat_server_metrics.json`, if present) with the nested one. Runs the documented queries; if
DIR contains `answers.json`, the results must be equal to it. Prints each difference and exits
with 1 if there are any.
"""

import json
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd

PERCENTILES = ("p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99")
GAUGE = ("avg", "min", "max", "std", *PERCENTILES)
COUNTER = ("total", "rate", "rate_avg", "rate_min", "rate_max", "rate_std")
HISTOGRAM = ("count", "count_rate", "sum", "sum_rate", "avg") + tuple(
    f"{percentile}_estimate" for percentile in PERCENTILES
)
SECTIONS = {"gauge": GAUGE, "counter": COUNTER, "histogram": HISTOGRAM, "unknown": GAUGE}

# Members of a series in the flat layout, in addition to its endpoint and labels.
FLAT = {
    "gauge": [
        {"observation_count", "avg"},
        {"avg", "min", "max", "std", "p50", "p90", "p95", "p99", "estimated_percentiles"},
    ],
    "counter": [
        {"delta"},
        {"delta", "rate_per_second", "rate_avg", "rate_min", "rate_max", "rate_std"},
    ],
    "histogram": [
        {"observation_count"},
        {"observation_count", "avg", "p50", "p90", "p95", "p99", "estimated_percentiles",
         "delta", "rate_per_second", "observations_per_second", "buckets"},
    ],
    "info": [set()],
}
RESETS = {"reset_count", "total_with_resets"}
AFTER_RESET = {"p50", "p90", "p95", "p99", "estimated_percentiles", "buckets"}

faults = []


def check(holds, *fault):
    if not holds:
        faults.append(" ".join(map(str, fault)))


def p99_of_latency(path):
    query = '.metrics["vllm:e2e_request_latency_seconds"].series[0].stats.p99_estimate'
    if not shutil.which("jq"):
        with open(path) as file:
            metrics = json.load(file)["metrics"]
        return metrics["vllm:e2e_request_latency_seconds"]["series"][0]["stats"]["p99_estimate"]
    answer = subprocess.run(["jq", query, path], capture_output=True, check=True, text=True)
    return json.loads(answer.stdout)


def slow_metrics(data):
    for name, metric in data["metrics"].items():
        for series in metric["series"]:
            stats = series.get("stats", {})
            p99 = stats.get("p99") or stats.get("p99_estimate")
            if p99 and p99 > 1.0 and metric.get("unit") == "seconds":
                yield f"{name}: p99={p99:.2f}s"


def windows(metric):
    for series in metric["series"]:
        if series.get("timeslices"):
            for ts in series["timeslices"]:
                duration_s = (ts["end_ns"] - ts["start_ns"]) / 1e9
                yield f"{duration_s:.1f}s window: avg={ts['avg']:.2f}"


def nested_answers(path, data):
    metrics = data["metrics"]
    transferred = metrics["dynamo_component_request_bytes"]["series"]
    requests = metrics["dynamo_component_requests"]["series"]
    latency = metrics["vllm:e2e_request_latency_seconds"]["series"][0]["stats"]
    return {
        "p99_of_latency": p99_of_latency(path),
        "slow": list(slow_metrics(data)),
        "bytes": sum(series.get("stats", {}).get("total", 0) for series in transferred),
        "fastest": max(
            [series.get("stats", {}).get("rate", 0), series["endpoint_url"]] for series in requests
        ),
        "windows": list(windows(metrics["dynamo_component_inflight_requests"])),
        "gate": latency["p99_estimate"] < 5.0,
    }


def flat_answers(data):
    slow = []
    for name, metric in data["metrics"].items():
        for series in metric["series"]:
            if series.get("p99", 0) > 1.0 and metric.get("unit") == "seconds":
                slow.append(f"{name}: p99={series['p99']:.2f}s")
    tokens = data["metrics"]["dynamo_frontend_output_tokens"]["series"]
    return {
        "flat_slow": slow,
        "flat_tokens": sum(series.get("delta", 0) for series in tokens),
        "flat_fastest": max([series["rate_per_second"], series["endpoint"]] for series in tokens),
    }


def cell(said):
    """The server's values, as rows of a table."""
    said = said.replace("\r", "\\r").replace("\n", "\\n")
    if said[:1] in ("=", "+", "-", "@", "\t"):
        try:
            float(said)
        except ValueError:
            return "'" + said
    return said


def number(value):
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.4f}"


def expected_row(kind, name, metric, series):
    stats = series["stats"]
    row = {
        "Endpoint": urlsplit(series["endpoint_url"]).netloc,
        "Type": kind,
        "Metric": cell(name),
        "Unit": metric.get("unit", ""),
        "Description": cell(metric["description"]),
    }
    row.update({statistic: number(stats.get(statistic)) for statistic in SECTIONS[kind]})
    if kind == "histogram":
        buckets = series["buckets"] or {}
        row["buckets"] = ";".join(f"{bound}={count}" for bound, count in buckets.items())
    for label, value in series.get("labels", {}).items():
        column = cell(label)
        row[f"label_{column}" if column in row else column] = cell(value)
    row["flags"] = ";".join(series.get("flags", []))
    return row


def info_rows(name, metric):
    for series in metric["series"]:
        endpoint = urlsplit(series["endpoint_url"]).netloc
        for key, value in series.get("labels", {}).items():
            yield endpoint, cell(name), cell(key), cell(value), cell(metric["description"])


def check_table(path, data):
    with open(path) as file:
        texts = [text for text in file.read().strip().split("\n\n") if text.strip()]
    inferred = [pd.read_csv(StringIO(text)) for text in texts]
    tables = [pd.read_csv(StringIO(text), dtype=str, keep_default_na=False) for text in texts]
    order = [table["Type"][0] if "Type" in table else "info" for table in tables]
    check(order == [kind for kind in [*SECTIONS, "info"] if kind in order], "order", order)
    check(all(map(len, inferred)), "a section without rows")

    rows = {kind: [] for kind in order}
    infos = []
    for name, metric in data["metrics"].items():
        if name.endswith("_info"):
            infos.extend(info_rows(name, metric))
            continue
        for series in metric["series"]:
            row = expected_row(metric["type"], name, metric, series)
            rows.setdefault(metric["type"], []).append(row)
    for kind, table in zip(order, tables):
        if kind == "info":
            found = list(table.itertuples(index=False, name=None))
            check(found == infos, "info rows", found, infos)
            continue
        statistics = list(table.columns[4 : 4 + len(SECTIONS[kind])])
        check(statistics == list(SECTIONS[kind]), kind, "columns", statistics)
        found = [
            {column: value for column, value in row.items() if value != ""}
            for row in table.to_dict("records")
        ]
        expected = [
            {column: value for column, value in row.items() if value != ""} for row in rows[kind]
        ]
        check(len(found) == len(expected), kind, len(found), "rows for", len(expected), "series")
        for ours, theirs in zip(found, expected):
            check(ours == theirs, kind, "row", ours, "expected", theirs)
    missing = [kind for kind in rows if kind not in order]
    check(not missing, "no section", missing)
    check(not infos or "info" in order, "no section info")
    return {kind: len(table) for kind, table in zip(order, inferred)}


def check_flat(flat, nested):
    check(set(flat) == {"summary", "metrics"}, "flat members", set(flat))
    known = set(flat["summary"]["endpoints_successful"])
    check(set(flat["summary"]["endpoint_info"]) <= known, "flat endpoint_info")
    for name, metric in flat["metrics"].items():
        kind = "info" if metric.get("unit") == "info" else metric["type"]
        theirs = nested["metrics"].get(name, {"series": []})["series"]
        check(len(theirs) == len(metric["series"]) or kind == "summary", name, "series")
        for ours, other in zip(metric["series"], theirs):
            check(ours["endpoint"] in known, name, "endpoint", ours["endpoint"])
            check(ours.get("labels") == other.get("labels"), name, "labels")
            has = set(ours) - {"endpoint", "endpoint_url", "labels"}
            has -= {"flags"}
            if RESETS <= has:
                # After a restart of the server, estimates are absent.
                has -= RESETS
                has |= AFTER_RESET if kind == "histogram" and len(has) > 1 else set()
            allowed = FLAT["gauge" if kind == "unknown" else kind]
            # Rates between scrapes need at least two scrapes.
            is_lone = kind == "counter" and has == {"delta", "rate_per_second"}
            check(has in allowed or is_lone, name, "has", has)
            stats = other["stats"]
            pairs = {
                "gauge": [("avg", "avg"), ("p99", "p99")],
                "counter": [("delta", "total"), ("rate_per_second", "rate")],
                "histogram": [
                    ("observation_count", "count"),
                    ("delta", "sum"),
                    ("p99", "p99_estimate"),
                ],
            }
            for left, right in pairs.get(kind, []):
                check(left not in ours or ours[left] == stats[right], name, left, right)


def main(directory):
    path = directory / "server_metrics_export.json"
    with open(path) as file:
        # NaN and Infinity are not JSON, although Python accepts them.
        data = json.load(file, parse_constant=lambda word: faults.append(f"{path}: {word}"))
    rows = check_table(directory / "server_metrics_export.csv", data)
    flat_path = directory / "flat_server_metrics.json"
    flat = json.loads(flat_path.read_text()) if flat_path.exists() else None
    if flat:
        check_flat(flat, data)
    answers_path = directory / "answers.json"
    if answers_path.exists():
        expected = json.loads(answers_path.read_text())
        answers = nested_answers(path, data) | (flat_answers(flat) if flat else {})
        check(answers == expected, "answers", answers, "expected", expected)
    for fault in faults:
        print(fault)
    print(f"{len(data['metrics'])} metrics; rows: {rows}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
