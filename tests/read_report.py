"""Compares the data of a page with the table of requests and the summary, with numpy and pyarrow.

    python3 tests/read_report.py DIR

Percentiles, histograms, rates and sums are computed again from the rows of the table. Prints each
difference and exits with 1 if there are any, or with 2 if the files cannot be read.
"""

import json
import re
import sys
from pathlib import Path

import numpy
import pyarrow.parquet

TOLERANCE = 1e-9
LATENCIES = ("time_to_first_token", "inter_token_latency", "request_latency")

differences = []


def expect(got, expected, what):
    if got is None or expected is None:
        same = got is expected
    elif isinstance(expected, str):
        same = got == expected
    else:
        same = numpy.allclose(got, expected, rtol=TOLERANCE, atol=1e-6)
    if not same:
        differences.append(f"{what}: {got} instead of {expected}")


def read(directory):
    page = (directory / "report.html").read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    table = pyarrow.parquet.read_table(directory / "profile_export.parquet").to_pylist()
    with open(directory / "profile_export_aiperf.json", encoding="utf-8") as file:
        summary = json.load(file)
    with open(directory / "run_manifest.json", encoding="utf-8") as file:
        manifest = json.load(file)
    start = manifest["end"]["start_wall_ns"]
    rows = [row for row in table if row["benchmark_phase"] == "profiling"]
    for row in rows:
        row["start"] = (row["request_start_ns"] - start) / 1e6
        row["duration"] = (row["request_end_ns"] - row["request_start_ns"]) / 1e6
        row["failed"] = row["error_type"] is not None or row["error_code"] is not None
    return json.loads(data.group(1)), rows, summary


def check_distribution(charts, rows, tag, summary):
    values = [row[tag] for row in rows if row.get(tag) is not None]
    chart, histogram = charts.get(f"{tag}_cdf"), charts.get(f"{tag}_histogram")
    failed = [row["duration"] for row in rows if row["failed"]] if tag == "request_latency" else []
    if not values and not failed:
        expect(chart is None and histogram is None, True, f"{tag}: charts without values")
        return
    by_name = {series["name"]: series["points"] for series in chart["series"]}
    for name, of_series in (("successful", values), ("failed", failed)):
        if len(of_series) < 2:
            continue
        x, y = zip(*by_name[name])
        for percent in (0, 1, 50, 99, 100):
            at = numpy.interp(percent, y, x)
            expect(at, numpy.percentile(of_series, percent), f"{tag} {name} p{percent}")
    for mark in chart["marks"]:
        expect(mark["at"], summary[tag][mark["label"]], f"{tag}: mark {mark['label']}")
    by_name = {series["name"]: series["points"] for series in histogram["series"]}
    for name, of_series in (("successful", values), ("failed", failed)):
        if not of_series:
            continue
        edges, counts = zip(*by_name[name])
        inside = [value for value in of_series if value <= edges[-1]]
        expect(sum(counts[:-1]), len(inside), f"{tag}: {name} requests in the histogram")
        # Values on an edge may be in either bin.
        on_edge = sum(any(abs(value - edge) < 1e-6 for edge in edges) for value in inside)
        off = numpy.abs(numpy.histogram(inside, edges)[0] - counts[:-1]).sum()
        expect(off <= 2 * on_edge, True, f"{tag}: bins of the {name} histogram")


def check_timelines(charts, rows):
    def series(chart):
        return {one["name"]: one["points"] for one in charts[chart]["series"]}

    def steps(chart):
        """The values of the intervals; the last one ends with another point."""
        return {name: points[:-1] for name, points in series(chart).items()}

    # The bounds of the intervals; the last one ends with the run.
    edges = numpy.array([time for time, _ in series("request_rate_over_time")["started"]])
    lengths = numpy.diff(edges)

    def total(points):
        return float(numpy.dot([y for _, y in points], lengths))

    expect(edges[-1], max(row["start"] + row["duration"] for row in rows) / 1e3, "end of the run")
    expect(bool((numpy.abs(lengths[:-1] - lengths[:1]) < 1e-9).all()), True, "equal intervals")
    expect(bool(0.5 - 1e-9 <= lengths[-1] / lengths[0] <= 1.5), True, "last interval")
    expect(len(lengths) == 1 or len(rows) / len(lengths) >= 5, True, f"{len(lengths)} intervals for {len(rows)} requests")
    rates = steps("request_rate_over_time")
    succeeded = [row for row in rows if not row["failed"]]
    started = numpy.histogram([row["start"] / 1e3 for row in rows], edges)[0]
    expect([y for _, y in rates["started"]], started / lengths, "request rate")
    expect(total(rates["completed"]) if succeeded else 0, len(succeeded), "completed requests")
    in_flight = total(steps("in_flight_over_time")["in flight"])
    expect(in_flight, sum(row["duration"] for row in rows) / 1e3, "requests in flight")
    tokens = sum(row.get("output_sequence_length") or 0 for row in succeeded)
    if tokens:
        flow = total(steps("output_tokens_over_time")["output tokens"])
        expect(flow, tokens, "output tokens")
    for tag in LATENCIES:
        if f"{tag}_over_time" not in charts:
            continue
        for name, percent in (("p50", 50), ("p99", 99)):
            points = series(f"{tag}_over_time")[name]
            expect([x for x, _ in points], (edges[:-1] + edges[1:]) / 2, f"{tag} {name}: times")
            for (time, value), start, end in zip(points, edges, edges[1:]):
                last = end == edges[-1]
                inside = [
                    row[tag]
                    for row in succeeded
                    if start <= row["start"] / 1e3 and (row["start"] / 1e3 < end or last)
                    and row.get(tag) is not None
                ]
                expected = numpy.percentile(inside, percent) if inside else None
                expect(value, expected, f"{tag} {name} at {time} s")
    failures = sum(row["failed"] for row in rows)
    if failures:
        counted = sum(total(points) for points in steps("errors_over_time").values())
        expect(counted, failures, "failed requests over time")


def check_requests(data, charts, rows):
    by_id = {row["x_request_id"]: row for row in rows}
    shown = data["requests"]["rows"]
    expect(len(shown), len(rows), "requests shown")
    names = ("blocked", "dns_lookup", "connecting", "sending", "waiting", "receiving")
    for ident, start, duration, failure, phases, arrivals, _, measures in shown:
        row = by_id[ident]
        for tag, value in zip(LATENCIES, measures, strict=True):
            expect(value, row.get(tag), f"{ident}: {tag}")
        expect(start, row["start"] / 1e3, f"{ident}: start")
        expect(duration, row["duration"], f"{ident}: duration")
        expect(failure is not None, row["failed"], f"{ident}: outcome")
        for name, length in zip(names, phases):
            expect(length, row.get(f"http_req_{name}"), f"{ident}: {name}")
        if not row["failed"]:
            expect(len(arrivals), len(row["content_arrival_ms"]), f"{ident}: arrivals")
            difference = numpy.abs(numpy.subtract(arrivals, row["content_arrival_ms"]))
            expect(bool((difference <= 0.00051).all()), True, f"{ident}: times of arrivals")
    for name, x_of, y_of in (
        ("requests", "start", None),
        ("latency_by_input_length", "input_sequence_length", "time_to_first_token"),
        ("latency_by_output_length", "output_sequence_length", "request_latency"),
    ):
        if name not in charts:
            continue
        for series in charts[name]["series"]:
            for (x, y), at in zip(series["points"], series["requests"]):
                row = by_id[shown[at][0]]
                expect(x, row[x_of] / (1e3 if x_of == "start" else 1), f"{name}: x")
                latency = row["duration"] if row["failed"] else row["request_latency"]
                expect(y, row[y_of] if y_of else latency, f"{name}: y")


def check_time_breakdown(data, summary):
    """Compares the parts of the latencies with those of the summary."""
    tables = {table["title"]: table for part in data["sections"] for table in part["tables"]}
    shown = tables.get("Time Breakdown", {"rows": []})["rows"]
    titles = {
        "server": "Server, undivided",
        "front_end": "Front end",
        "queue_and_prefill": "Queue + prefill",
        "kv_transfer": "KV transfer",
        "prefill_and_decode": "Prefill + decode",
        "kv_transfer_and_decode": "KV transfer + decode",
    }
    wanted = []
    for divided in summary.get("time_breakdown", {}).get("metrics", []):
        wanted.append([None, divided["mean_ms"], 100, None])
        for part in divided["parts"]:
            title = titles.get(part["stage"], part["stage"].capitalize())
            share = part["mean_ms"] / divided["mean_ms"] * 100
            wanted.append([f"{title} (ms)", part["mean_ms"], share, part["bound_ms"]])
    expect(len(shown), len(wanted), "time breakdown: rows")
    for row, want in zip(shown, wanted):
        name = f"time breakdown: {row[0]}"
        for column, value in zip(row, want):
            # The names of latencies are those of the catalogue.
            if value is not None or column is not row[0]:
                expect(column, value, name)


STAGES = {
    "http_req_connection_overhead": "Connection",
    "http_req_sending": "Sending",
    "server_front_end_time": "Front end",
    "server_queue_time": "Queue",
    "server_prefill_time": "Prefill",
    "server_queue_and_prefill_time": "Queue + prefill",
    "server_kv_transfer_time": "KV transfer",
    "server_decode_time": "Decode",
    "server_prefill_and_decode_time": "Prefill + decode",
    "server_kv_transfer_and_decode_time": "KV transfer + decode",
}
RESTS = {
    "time_to_first_token": (7, "server_unattributed_time_to_first_token"),
    "request_latency": (10, "server_unattributed_time"),
}


def check_stages(data, charts, rows):
    """The stages of the slowest requests, and their means over time."""
    divided = [row for row in rows if row.get("server_unattributed_time") is not None]
    slowest = charts.get("slowest_requests_by_stage")
    if not divided:
        expect(slowest is None, True, "stages of a run without any")
        return
    succeeded = sorted((row for row in rows if not row["failed"]), key=lambda row: -row["duration"])
    for rank, row in enumerate(succeeded[:20]):
        ident = data["requests"]["rows"][slowest["series"][0]["requests"][rank]][0]
        shown = {series["name"]: series["points"][rank][1] for series in slowest["series"]}
        row = next(row for row in rows if row["x_request_id"] == ident)
        wanted = {title: row.get(tag) for tag, title in STAGES.items()}
        wanted["Unattributed"] = row.get("server_unattributed_time")
        if wanted["Unattributed"] is None:
            wanted = {"Undivided": row["request_latency"]}
        for name, value in shown.items():
            expect(value, wanted.get(name), f"{ident}: {name}")
        total = sum(value for value in shown.values() if value is not None)
        expect(total, row["request_latency"], f"{ident}: sum of stages")
    for latency, (count, rest) in RESTS.items():
        chart = charts.get(f"{latency}_stages_over_time")
        inside = [row for row in rows if row.get(rest) is not None]
        expect(chart is not None, bool(inside), f"{latency}: stages over time")
        if chart is None:
            continue
        tags = dict(list(STAGES.items())[:count]) | {rest: "Unattributed"}
        for series in chart["series"]:
            tag = next(tag for tag, title in tags.items() if title == series["name"])
            starts = [time for time, _ in series["points"]]
            for (time, value), end in zip(series["points"], [*starts[1:], numpy.inf]):
                of = [row for row in inside if time <= row["start"] / 1e3 < end]
                mean = numpy.mean([row.get(tag) or 0.0 for row in of]) if of else None
                expect(value, mean, f"{latency}: {series['name']} at {time} s")


def check_error_bounds(data, summary):
    """Compares the error bounds of the latencies with those of the summary."""
    tables = {table["title"]: table for part in data["sections"] for table in part["tables"]}
    shown = tables.get("Error bounds", {"rows": []})["rows"]
    all_bounds = summary.get("client_health", {}).get("error_bounds_ms", {})
    wanted = []
    for tag in LATENCIES:
        for percentile in ("p50", "p99") if tag in all_bounds else ():
            bound = all_bounds[tag][percentile]
            below, above = bound.get("sample_below"), bound.get("sample_above")
            sample = [
                None if below is None else bound["value"] - below,
                None if above is None else bound["value"] + above,
            ]
            members = ("value", "below", "above", "likely_below", "likely_above")
            wanted.append([percentile, *(bound[member] for member in members), *sample])
    expect(len(shown), len(wanted), "error bounds: rows")
    for row, want in zip(shown, wanted):
        for column, value in zip(row[1:], want):
            expect(column, value, f"error bounds: {row[0]} {want[0]}")


def main():
    try:
        data, rows, summary = read(Path(sys.argv[1]))
    except (OSError, ValueError, AttributeError) as error:
        print(error)
        sys.exit(2)
    charts = {chart["name"]: chart for part in data["sections"] for chart in part["charts"]}
    for chart in charts.values():
        points = [point for series in chart["series"] for point in series["points"]]
        expect(any(y is not None for _, y in points), True, f"{chart['name']}: has marks")
        expect(bool(chart["x"]["title"] and chart["y"]["title"]), True, f"{chart['name']}: axes")
    for tag in LATENCIES:
        check_distribution(charts, rows, tag, summary)
    check_timelines(charts, rows)
    check_requests(data, charts, rows)
    check_time_breakdown(data, summary)
    check_stages(data, charts, rows)
    check_error_bounds(data, summary)
    statistics = data["sections"][-1]["tables"][0]
    names = statistics["columns"]
    for row in statistics["rows"]:
        found = summary.get(row[0])
        if found is None:
            differences.append(f"{row[0]} is not in the summary")
            continue
        for name, value in zip(names[2:], row[2:]):
            if name in found:
                expect(value, found[name], f"{row[0]} {name}")
    for difference in differences[:50]:
        print(difference)
    sys.exit(1 if differences else 0)


main()
