"""Compares a run with delta temporality, converted to cumulative values by a Collector, with the
run's files, and follows its exemplars to their spans and records."""

import json
from collections import defaultdict
from pathlib import Path

import expected as expectation
import registry
from aiperf import REPOSITORY, MockServer, Run
from processes import Process, fetch, free_port, wait_until
from report import is_close
from runs import CHAT, MOCK, PACED

CONFIGURATION = Path(__file__).with_name("deltas.yaml")
FAULTS = ["--fault", "every=9:status=500"]
FLAGS = [*MOCK, *CHAT, "--concurrency", "4", "--request-count", "120",
         "--warmup-request-count", "10", "--otel-temporality", "delta",
         "--trace-sample", "20%,slowest:3,errors"]  # fmt: skip
# What distinguishes the series of an instrument beside the phase and the error.
LABELS = ("gen_ai.token.type", "aiperf.stage")
DELTA, CUMULATIVE = 1, 2


def check(report, program, collector, folder):
    """A run with each kind of histogram."""
    for histograms in ("explicit", "exponential"):
        report.section(f"delta temporality, {histograms} histograms")
        _check(report, program, collector, folder / f"deltas-{histograms}", histograms)


def _check(report, program, collector, folder, histograms):
    folder.mkdir()
    port, health = free_port(), free_port()
    received, cumulative = folder / "received.jsonl", folder / "cumulative.jsonl"
    spans = folder / "spans.jsonl"
    environment = {"COLLECTOR_PORT": str(port), "COLLECTOR_HEALTH_PORT": str(health),
                   "RECEIVED_FILE": str(received), "CUMULATIVE_FILE": str(cumulative),
                   "SPANS_FILE": str(spans)}  # fmt: skip
    process = Process("the Collector", [collector, "--config", CONFIGURATION],
                      folder / "collector.log", environment)  # fmt: skip
    wait_until("the Collector is healthy", lambda: fetch(f"http://127.0.0.1:{health}/"), 30, [process])
    server = MockServer(program, folder, "server", *PACED, *FAULTS)
    run = Run(program, "run", server.url, f"http://127.0.0.1:{port}", folder,
              [*FLAGS, "--otel-histograms", histograms]).finish()  # fmt: skip
    server.process.stop()
    # The Collector writes what is left when it stops.
    process.stop()
    report.equal("the last export was delivered", run.summary["telemetry"]["delivered_final"], True)
    _check_intervals(report, received)
    _check_totals(report, run, cumulative)
    _check_exemplars(report, run, received, spans)


def _points(path):
    """Kind, temporality, name, attributes and contents of each point of aiperf's own metrics."""
    with open(path) as lines:
        for line in lines:
            for resource in json.loads(line)["resourceMetrics"]:
                if _attributes(resource["resource"]).get("service.name") != "aiperf":
                    continue
                for metric in (one for scope in resource["scopeMetrics"] for one in scope["metrics"]):
                    for kind in ("sum", "histogram", "exponentialHistogram"):
                        data = metric.get(kind, {})
                        for point in data.get("dataPoints", []):
                            temporality = data["aggregationTemporality"]
                            is_monotonic = kind != "sum" or data.get("isMonotonic", False)
                            yield kind, temporality, is_monotonic, metric["name"], point


def _attributes(of):
    return {one["key"]: next(iter(one["value"].values())) for one in of.get("attributes", [])}


def _check_intervals(report, path):
    series, temporalities = defaultdict(list), set()
    for _, temporality, is_monotonic, name, point in _points(path):
        temporalities.add((is_monotonic, temporality))
        if is_monotonic:
            key = name, tuple(sorted(map(str, _attributes(point).items())))
            interval = int(point["startTimeUnixNano"]), int(point["timeUnixNano"])
            series[key].append(interval)
    report.equal("temporalities", temporalities, {(True, DELTA), (False, CUMULATIVE)})
    pairs = [pair for all in series.values() for pair in zip(all, all[1:])]
    gaps = [pair for pair in pairs if pair[0][1] != pair[1][0]]
    report.holds("intervals follow each other", pairs and not gaps, f"{len(pairs)} pairs, {len(gaps)} gaps")


def _check_totals(report, run, path):
    """Compares the last totals of each series with the records."""
    last = {}
    for kind, temporality, is_monotonic, name, point in _points(path):
        if is_monotonic:
            report_kind = kind == "sum"
            key = name, tuple(sorted(map(str, _attributes(point).items())))
            last[key] = report_kind, temporality, _attributes(point), point
    found = defaultdict(lambda: [0, 0.0, 0])
    for (name, _), (is_counter, temporality, attributes, point) in last.items():
        assert temporality == CUMULATIVE, name
        label = next(((label.replace(".", "_"), attributes[label]) for label in LABELS if label in attributes), None)
        key = (name, attributes["aiperf.benchmark_phase"], attributes.get("error.type", ""), label)
        if is_counter:
            found[key][1] += float(point.get("asDouble", point.get("asInt", 0)))
            continue
        sides = [point, point.get("positive", {}), point.get("negative", {})]
        buckets = sum(int(count) for side in sides for count in side.get("bucketCounts", []))
        found[key][0] += int(point["count"])
        found[key][1] += point["sum"]
        found[key][2] += buckets + int(point.get("zeroCount", 0))
    wanted = expectation.of(run, registry.read(REPOSITORY / "semconv"))
    wrong, compared = [], 0
    for key, values in wanted.histograms.items():
        if not values:
            continue
        compared += 1
        count, total, buckets = found[key]
        if count != len(values) or buckets != count or not is_close(total, sum(values)):
            wrong.append((key, (count, total, buckets), (len(values), sum(values))))
    for (name, phase, error), value in wanted.counters.items():
        if value:
            compared += 1
            total = found[name, phase, error, None][1]
            if not is_close(total, value):
                wrong.append(((name, phase, error), total, value))
    report.equal(f"wrong totals among {compared}", wrong, [])


def _check_exemplars(report, run, metrics, spans):
    """Each exemplar leads to the root span of a request, whose record has the value."""
    with open(spans) as lines:
        requests = [resource for line in lines for resource in json.loads(line)["resourceSpans"]]
    roots = {span["traceId"]: span["spanId"] for resource in requests
             for scope in resource["scopeSpans"] for span in scope["spans"]
             if not span.get("parentSpanId")}  # fmt: skip
    records = {one["metadata"]["x_request_id"].replace("-", ""): one for one in run.records}
    wrong, found = [], defaultdict(int)
    for _, _, _, name, point in _points(metrics):
        for exemplar in point.get("exemplars", []):
            found[name] += 1
            trace = exemplar["traceId"]
            if roots.get(trace) != exemplar["spanId"]:
                wrong.append((name, trace, "does not have a root span"))
            metric = records[trace]["metrics"].get(name.removeprefix("aiperf."))
            if metric is None or name.removeprefix("aiperf.") == name:
                continue
            values = metric["value"] if isinstance(metric["value"], list) else [metric["value"]]
            scale = expectation.TO_EXPORTED.get(metric["unit"], 1.0)
            if not any(is_close(exemplar["asDouble"], value * scale) for value in values):
                wrong.append((name, trace, exemplar["asDouble"]))
    latencies = found["aiperf.request_latency"]
    report.holds("exemplars of latencies", latencies > 0, f"{latencies}, {sum(found.values())} of all")
    report.equal("exemplars that lead nowhere", wrong, [])
