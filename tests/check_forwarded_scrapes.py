"""Compares data points of OTLP with the expositions from which they were made.

    python3 tests/check_forwarded_scrapes.py DIR

DIR contains pairs of `N.bodies.jsonl` (time, body) and `N.points.jsonl` (data points as
received). The bodies are parsed by prometheus_client, the buckets of the points are
accumulated, and both must have the same lines: name, labels, time and value. Prints each
difference and exits with 1 if there are any.
"""

import json
import math
import re
import sys
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

KINDS = {
    "counter": "counter",
    "gauge": "gauge",
    "unknown": "gauge",
    "histogram": "histogram",
    "summary": "summary",
}


def line(name, labels, time):
    """The identity of a line; bounds and quantiles as numbers."""
    numbers = {"le", "quantile"}
    pairs = ((key, float(value) if key in numbers else value) for key, value in labels)
    return name, tuple(sorted(pairs)), time


def sent_name(name, names):
    """The parser gives counters a `_total` that may be missing in the body."""
    return name if name in names else name.removesuffix("_total")


def exposed(path):
    """Lines of the bodies, each with kind, help and value."""
    lines = {}
    for entry in map(json.loads, path.read_text().splitlines()):
        names = {re.split(r"[{\s]", text, maxsplit=1)[0] for text in entry["body"].splitlines()}
        for family in text_string_to_metric_families(entry["body"]):
            for sample in family.samples:
                key = line(sent_name(sample.name, names), sample.labels.items(), entry["time"])
                lines[key] = KINDS[family.type], family.documentation, float(sample.value)
    return lines


def forwarded(path):
    """Lines of the points, in the same form."""
    lines = {}
    for point in map(json.loads, path.read_text().splitlines()):
        name, labels, kind = point["name"], point["labels"], point["kind"]

        def add(suffix, value, by=()):
            key = line(name + suffix, [*labels, *by], point["time"])
            if key in lines:
                sys.exit(f"{key} came twice")
            lines[key] = kind, point["help"], float(value)

        if "value" in point:
            add("", point["value"])
            continue
        total = 0
        if kind == "histogram":
            for bound, count in zip([*point["bounds"], math.inf], point["counts"], strict=True):
                total += count
                add("_bucket", total, [("le", bound)])
        for quantile, value in point.get("quantiles", ()):
            add("", value, [("quantile", quantile)])
        add("_sum", point["sum"])
        add("_count", point["count"])
    return lines


def same(one, other):
    """Whether two values are equal; NaN is equal to NaN."""
    values = one[2], other[2]
    return one[:2] == other[:2] and (values[0] == values[1] or all(map(math.isnan, values)))


def main(directory):
    pairs = sorted(Path(directory).glob("*.bodies.jsonl"))
    differences, count = [], 0
    for bodies in pairs:
        wanted = exposed(bodies)
        got = forwarded(bodies.with_name(bodies.name.replace("bodies", "points")))
        count += len(wanted)
        for key in wanted.keys() | got.keys():
            if key not in wanted or key not in got or not same(wanted[key], got[key]):
                differences.append(f"{key}: exposed {wanted.get(key)}, forwarded {got.get(key)}")
    print("\n".join(differences[:20]))
    print(f"{len(pairs)} series, {count} lines, {len(differences)} differences")
    return 1 if differences or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
