"""Parses recorded scrapes with prometheus_client and computes their statistics with numpy.

`samples FILE…` prints a line for each scrape: its samples as name, labels, value and
timestamp. `statistics REQUESTS FILE…` prints one object: the window of the requests and, by
kind, name and series, the statistics of that window in slices of two seconds. Needs numpy
and prometheus_client.
"""

import gzip
import json
import math
import sys

import numpy
from prometheus_client.parser import text_string_to_metric_families

SLICE_NS = 2_000_000_000
PERCENTS = [1, 5, 10, 25, 50, 75, 90, 95, 99]


def scrapes(path):
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def without_total(name):
    return name.removesuffix("_total")


def samples(body):
    for family in text_string_to_metric_families(body):
        for sample in family.samples:
            name = without_total(sample.name) if family.type == "counter" else sample.name
            yield family, name, dict(sample.labels), sample


def print_samples(paths):
    for path in paths:
        for scrape in scrapes(path):
            read = [
                [name, sorted(labels.items()), repr(float(sample.value)), sample.timestamp]
                for _, name, labels, sample in samples(scrape["body"])
            ]
            print(json.dumps(read))


def is_left_out(name):
    return name.endswith(("_created", "_uptime")) or "_uptime_" in name


def series_of(body):
    """(kind, name, labels) -> number, or the parts of a distribution."""
    found = {}
    for family, name, labels, sample in samples(body):
        kind = family.type
        if is_left_out(family.name):
            continue
        if kind == "gauge" and family.name.endswith("_info"):
            kind = "info"
        apart = {"histogram": "le", "summary": "quantile"}.get(kind)
        bound = labels.pop(apart, None) if apart else None
        key = (kind, family.name, json.dumps(labels, sort_keys=True))
        if apart is None:
            if math.isfinite(sample.value):
                found[key] = {"value": sample.value}
            continue
        part = found.setdefault(key, {})
        if bound is not None:
            part["at " + bound] = sample.value
        elif name.endswith("_sum"):
            part["sum"] = sample.value
        elif name.endswith("_count"):
            part["count"] = sample.value
    for key in list(found):
        if key[0] == "histogram" and not all(map(math.isfinite, found[key].values())):
            del found[key]
        elif key[0] == "summary":
            found[key] = {k: v for k, v in found[key].items() if math.isfinite(v)}
    return found


def ratio(amount, seconds):
    return amount / seconds if seconds > 0 else 0.0


def gauge(times, values, slices):
    array = numpy.array(values, dtype=float)
    result = {
        "avg": array.mean(), "min": array.min(), "max": array.max(),
        # Relative to the first value: numpy's mean of equal large values differs from the value.
        "std": (array - array[0]).std(ddof=1) if len(array) > 1 else 0.0,
        "percentiles": numpy.percentile(array, PERCENTS).tolist(),
        "slices": [],
    }
    stamps = numpy.array(times)
    for start, end, complete in slices:
        last = end == slices[-1][1]
        inside = array[(stamps >= start) & ((stamps <= end) if last else (stamps < end))]
        if len(inside):
            result["slices"].append(
                [start, end, complete, inside.mean(), inside.min(), inside.max()])
    return result


def at_or_before(times, time):
    return max(int(numpy.searchsorted(times, time, side="right")) - 1, 0)


def counter(times, values, slices):
    """`times` and `values` start with the reference."""
    total = max(values[-1] - values[0], 0.0)
    result = {"total": total, "rate": ratio(total, (times[-1] - times[0]) / 1e9), "slices": []}
    for start, end, complete in slices:
        rise = max(values[at_or_before(times, end)] - values[at_or_before(times, start)], 0.0)
        result["slices"].append([start, end, complete, rise, rise / ((end - start) / 1e9)])
    rates = [s[4] for s in result["slices"] if s[2]]
    result["slice_rates"] = [
        numpy.mean(rates), numpy.min(rates), numpy.max(rates),
        numpy.std(rates, ddof=1) if len(rates) > 1 else 0.0]
    moves = [(times[0], values[0])]
    for point in zip(times, values):
        if point[1] != moves[-1][1]:
            moves.append(point)
    steps = [(b[1] - a[1], (b[0] - a[0]) / 1e9) for a, b in zip(moves, moves[1:])]
    if steps:
        rates, seconds = [rise / took for rise, took in steps], [took for _, took in steps]
        result["point_rates"] = [
            numpy.average(rates, weights=seconds), min(rates), max(rates),
            numpy.std(rates, ddof=1) if len(rates) > 1 else 0.0]
    else:
        result["point_rates"] = None
    return result


def histogram(times, rows, slices):
    bounds = [part for part in rows[-1] if part.startswith("at ")]
    rises = lambda a, b: {bound[3:]: b[bound] - a[bound] for bound in bounds}
    first, last, seconds = rows[0], rows[-1], (times[-1] - times[0]) / 1e9
    count, total = last["count"] - first["count"], last["sum"] - first["sum"]
    result = {
        "count": count, "sum": total,
        "count_rate": ratio(count, seconds), "sum_rate": ratio(total, seconds),
        "buckets": rises(first, last), "slices": [],
    }
    for start, end, complete in slices:
        a, b = rows[at_or_before(times, start)], rows[at_or_before(times, end)]
        count, total = b["count"] - a["count"], b["sum"] - a["sum"]
        avg = total / count if count else 0.0
        result["slices"].append([start, end, complete, count, total, avg, rises(a, b)])
    return result


def summary(times, rows):
    seconds = (times[-1] - times[0]) / 1e9
    count, total = (rows[-1].get(p, 0.0) - rows[0].get(p, 0.0) for p in ("count", "sum"))
    quantiles = {k[3:]: v for k, v in rows[-1].items() if k.startswith("at ")}
    return {"count": count, "sum": total, "count_rate": ratio(count, seconds),
            "sum_rate": ratio(total, seconds), "quantiles": quantiles}


def slices_of(start, end):
    bounds = list(range(start, end, SLICE_NS)) + [end]
    return [(a, b, b - a == SLICE_NS) for a, b in zip(bounds, bounds[1:])]


def statistics(requests, path):
    with open(requests) as lines:
        done = [json.loads(line) for line in lines]
    read = scrapes(path)
    start = min(request["start_ns"] for request in done)
    last_end = max(request["end_ns"] for request in done)
    end = next(s["first_byte_ns"] for s in read if s["request_sent_ns"] >= last_end)
    reference = max(i for i, s in enumerate(read) if s["first_byte_ns"] < start)
    inside = [i for i, s in enumerate(read) if start <= s["first_byte_ns"] <= end]
    at = {i: series_of(read[i]["body"]) for i in [reference, *inside]}
    slices, metrics = slices_of(start, end), {}
    for key in {key for i in inside for key in at[i]}:
        kind, name, labels = key
        have = [i for i in inside if key in at[i]]
        rows = [at[i][key] for i in have]
        zero = dict.fromkeys(rows[-1], 0.0)
        times = [read[i]["first_byte_ns"] for i in have]
        since = [read[reference]["first_byte_ns"], *times]
        rows_since = [at[reference].get(key, zero), *rows]
        if kind == "histogram":
            result = histogram(since, rows_since, slices)
        elif kind == "summary":
            result = summary(since, rows_since)
        elif kind == "counter":
            result = counter(since, [row["value"] for row in rows_since], slices)
        else:
            result = gauge(times, [row["value"] for row in rows], slices)
        metrics.setdefault(f"{kind} {name}", {})[labels] = result
    return {"start_ns": start, "end_ns": end, "metrics": metrics}


if __name__ == "__main__":
    if sys.argv[1] == "samples":
        print_samples(sys.argv[2:])
    else:
        print(json.dumps(statistics(sys.argv[2], sys.argv[3])))
