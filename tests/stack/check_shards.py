"""Several processes that share one schedule: compares their combined files with all records, and
with the responses of Prometheus to the queries of docs/scaling.md."""

import math
import statistics
from collections import defaultdict

import check_prometheus
import documents
import expected as expectation
from expected import PERCENTILES
from report import is_close

TTFT = "aiperf_time_to_first_token_seconds"
REQUESTS = "aiperf_request_count_total"
OF_A_SHARD = "service_instance_id"
OF_SHARDS = {OF_A_SHARD, "instance", "aiperf_shard_index"}

# The window of the queries for rates, and the interval between evaluations.
WINDOW, STEP = 30, 2


def check_files(report, shards, combined):
    """The combined lines are those of all shards, and the combined statistics those of all values
    in these lines."""
    same = _lines(combined) == [line for shard in shards for line in _lines(shard)]
    counts = [len(shard.records) for shard in shards]
    report.holds("lines of all shards, in order", same, f"{len(combined.records)} = {counts}")
    report.holds("each shard has a part", min(counts) > 0, f"{counts}")
    report.equal("identifiers of the shards", {shard.id for shard in shards}, {combined.id})
    values = defaultdict(list)
    for shard in shards:
        for record in expectation.succeeded(shard, "profiling"):
            for tag, metric in record["metrics"].items():
                value = metric["value"]
                values[tag] += value if isinstance(value, list) else [value]
    compared, wrong = 0, []
    for tag, told in combined.summary.items():
        # Time-weighted metrics do not have a sum, since they do not belong to single requests, and shares of
        # sums do not have percentiles.
        if isinstance(told, dict) and "sum" in told and "p50" in told:
            want = _statistics(values[tag])
            compared += len(want)
            wrong += [(tag, name, told.get(name), value) for name, value in want.items()
                      if not is_close(told.get(name), value, scale=want["max"])]  # fmt: skip
    text = f"{compared} numbers; wrong (metric, which, seen, expected): {wrong[:3]}"
    report.holds("combined statistics, computed anew", compared > 100 and not wrong, text)


def _lines(files):
    return (files.folder / "profile_export.jsonl").read_text().splitlines()


def _statistics(values):
    """By file name; percentiles are computed with Python's own library."""
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {
        **{f"p{percentile}": cuts[percentile - 1] for percentile in PERCENTILES},
        "count": len(values),
        "sum": math.fsum(values),
        "avg": statistics.fmean(values),
        "min": min(values),
        "max": max(values),
        "std": statistics.pstdev(values),
    }


def check_series(report, shards, combined, series, registry):
    """Every counter and histogram, summed over the shards' series, is that of all records; the
    series have the number of their shard."""
    own = check_prometheus.RunSeries(series)
    expected = expectation.of(combined, registry)
    check_prometheus.check_sums(report, combined, own, expected, registry)
    names = (OF_A_SHARD, "aiperf_shard_index", "aiperf_shard_count")
    have = {tuple(one.labels.get(name, "") for name in names) for one in own.all}
    # The ID of the instance ends with the index of the shard.
    ends = {(instance.rpartition("-")[2], index, count) for instance, index, count in have}
    want = {(str(index), str(index), str(len(shards))) for index in range(len(shards))}
    report.equal("instance, index and count of the shards", sorted(ends), sorted(want))
    report.equal("instances", len(have), len(shards))


def check_queries(report, prometheus, combined, shards):
    """The documented queries, each with its expected result. An unknown one is an error, since
    nothing would verify it."""
    asked = documents.queries(documents.SCALING)
    for query in asked:
        check = _check_rate if "rate(" in query else _check_total
        if "histogram_quantile" in query:
            check = _check_quantile_now if "rate(" in query else _check_quantile
        check(report, prometheus, combined, shards, query)
    report.holds("queries of the document", len(asked) > 4, f"{len(asked)}")


def _check_total(report, prometheus, combined, shards, query):
    """Counts at the end: exactly those in the combined files."""
    have = {
        tuple(sorted(value for key, value in one.labels.items() if key != "aiperf_benchmark_id")):
        one.value for one in _of_run(prometheus.query(query), combined)
    }  # fmt: skip
    want = {}
    for record in combined.records:
        phase, metrics = record["metadata"]["benchmark_phase"], record["metrics"]
        if REQUESTS in query:
            want[(phase,)] = want.get((phase,), 0) + (record["error"] is None)
        elif "gen_ai_client_token_usage_sum" in query and phase == "profiling":
            for kind in ("input", "output"):
                tokens = metrics[f"{kind}_sequence_length"]["value"]
                want[(kind,)] = want.get((kind,), 0) + tokens
    report.equal(query, have, want)


def _check_quantile(report, prometheus, combined, shards, query):
    """Over the whole run, from buckets: in those of the two values that the percentile lies between."""
    (found,) = _of_run(prometheus.query(query), combined)
    values = sorted(_values(combined))
    rank = 0.99 * (len(values) - 1)
    low, high = _around(prometheus, combined, values[math.floor(rank)], values[math.ceil(rank)])
    report.holds(query, low <= found.value <= high, f"{low:g} <= {found.value:g} <= {high:g}")


def _check_quantile_now(report, prometheus, combined, shards, query):
    """During the run: between its minimum and its maximum."""
    values = _values(combined)
    low, high = _around(prometheus, combined, min(values), max(values))
    have = [value for _, points in _over_run(prometheus, combined, query)
            for value in points.values() if not math.isnan(value)]  # fmt: skip
    ok = have and all(low <= value <= high for value in have)
    least, most = (min(have), max(have)) if have else (None, None)
    report.holds(query, ok, f"{low:g} <= {least} to {most} <= {high:g}, {len(have)} times")


def _values(combined):
    """The times to first token in seconds."""
    records = expectation.succeeded(combined, "profiling")
    return [expectation.value(record, "time_to_first_token") / 1e3 for record in records]


def _around(prometheus, combined, least, most):
    """The boundaries around the buckets of two values."""
    bounds = _bounds(prometheus, combined)
    low = max((bound for bound in bounds if bound < least), default=0.0)
    return low, min(bound for bound in bounds if bound >= most)


def _check_rate(report, prometheus, combined, shards, query):
    """During the run: one series for the run, the sum of its shards'."""
    found = _over_run(prometheus, combined, query)
    parts = _over_run(prometheus, combined, query.replace("sum by (", f"sum by ({OF_A_SHARD}, "))
    _check_sum(report, query, found, parts, len(shards))


def check_rules(report, prometheus, combined):
    """The results of the documented recording rules in Prometheus: of the run, not of shards."""
    for name in documents.recorded(documents.SCALING):
        found = _over_run(prometheus, combined, name)
        labels = {key for labels, _ in found for key in labels}
        report.equal(f"{name}: labels that tell shards apart", labels & OF_SHARDS, set())
        phases = sorted(labels.get("aiperf_benchmark_phase", "") for labels, _ in found)
        want = sorted(check_prometheus.phases(combined))
        report.equal(f"{name}: a series for each phase", phases, want)
        most = max((value for _, points in found for value in points.values()), default=0)
        report.holds(f"{name}: requests per second", most > 0, f"at most {most:g}")


def _check_sum(report, query, found, parts, shards):
    times = sorted({time for _, points in found for time in points})
    wrong = []
    for time in times:
        have = sum(points.get(time, 0) for _, points in found)
        want = sum(points.get(time, 0) for _, points in parts)
        if not is_close(have, want):
            wrong.append((time, have, want))
    most = max((value for _, points in found for value in points.values()), default=0)
    ok = len(found) == 1 and len(parts) == shards and most > 0 and not wrong
    text = f"{len(parts)} parts = {shards}, {len(times)} times, at most {most:g}/s, wrong: {wrong[:2]}"
    report.holds(query, ok, text)


def _of_run(series, run):
    return [one for one in series if one.labels.get("aiperf_benchmark_id") == run.id]


def _over_run(prometheus, run, query):
    """(labels, values by time) of the run's series, from its start to the end of the window of the
    queries."""
    stamps = [record["metadata"]["request_end_ns"] / 1e9 for record in run.records]
    start, end = min(stamps), max(stamps) + WINDOW
    found = prometheus.query_range(query, start, end, STEP)
    return [(labels, points) for labels, points in found
            if labels.get("aiperf_benchmark_id") == run.id]  # fmt: skip


def _bounds(prometheus, run):
    buckets = [one for one in prometheus.of_run(run.id) if one.name == f"{TTFT}_bucket"]
    return sorted({float(one.labels["le"]) for one in buckets})
