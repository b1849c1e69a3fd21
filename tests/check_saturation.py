"""Checks a sweep that chooses its loads, against a server with a known number of slots and time for
each request: check_saturation.py DIRECTORY

The directory also has `server.json`: {"slots": 3, "seconds": 0.01}. Only what holds on a machine of
any speed is checked: a server cannot be faster than its slots, nor respond earlier than a queue
with as many of them.
"""

import heapq
import json
import math
import sys
from pathlib import Path

base = Path(sys.argv[1])
server = json.loads((base / "server.json").read_text())
slots, seconds = server["slots"], server["seconds"]
sweep = json.loads((base / "sweep_aggregate/profile_export_aiperf_sweep.json").read_text())
found = sweep["saturation"]


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


# The throughputs are those of the records, and no more than the slots permit.
cells = sweep["per_combination_metrics"]
assert [level["value"] for level in found["levels"]] == [
    cell["parameters"]["concurrency"] for cell in cells
]
levels = []
for cell, level in zip(cells, found["levels"], strict=True):
    lines = (base / cell["directory"] / "profile_export.jsonl").read_text().splitlines()
    records = [json.loads(line)["metadata"] for line in lines]
    starts = sorted(record["request_start_ns"] for record in records)
    ends = sorted(record["request_end_ns"] for record in records)
    load, throughput = level["value"], level["request_throughput"]
    assert len(records) >= max(100, 10 * load)
    rate = len(records) / ((ends[-1] - starts[0]) / 1e9)
    assert close(rate, cell["metrics"]["request_throughput"]["avg"])
    # In the long run the concurrency is in flight all the time, as it is not at the start and the end.
    latency = sum(record["request_end_ns"] - record["request_start_ns"] for record in records)
    by_latency = load * len(records) / (latency / 1e9)
    assert 0.9 * rate <= throughput["value"] <= by_latency * (1 + 1e-6), (rate, throughput)
    assert throughput["ci_low"] < throughput["value"] < throughput["ci_high"]
    assert throughput["value"] <= min(load, slots) / seconds * 1.001, (load, throughput)
    # The n-th response of a queue with these arrivals, first come, first served.
    free = [0] * slots
    departures = []
    for start in starts:
        departure = max(start, heapq.heappop(free)) + seconds * 1e9
        heapq.heappush(free, departure)
        departures.append(departure)
    early = max(due - end for due, end in zip(sorted(departures), ends, strict=True))
    assert early < 100_000, f"concurrency {load}: {early} ns before the queue permits"
    half = (throughput["ci_high"] - throughput["ci_low"]) / 2
    levels.append((load, throughput["value"], half))

# The knee, from these throughputs.


def is_below(a, b):
    return b[1] - a[1] > a[2] + b[2]


first = next(
    at for at in range(len(levels)) if not any(is_below(levels[at], b) for b in levels[at + 1 :])
)
# By chance, a load a little below the knee may look saturated.
next_load = levels[min(first + 1, len(levels) - 1)][0]
assert found["saturated_from"] in (levels[first][0], next_load), found
assert found["grows_until"] == (levels[first - 1][0] if first else None), found
top = max(levels[first:], key=lambda level: level[1])
alike = [level for level in levels[first:] if not is_below(level, top)]
weights = [1 / half**2 for _, _, half in alike]
mean = sum(w * value for w, (_, value, _) in zip(weights, alike, strict=True)) / sum(weights)
assert close(found["request_throughput"]["value"], mean)
if first:
    load, value, _ = levels[first - 1]
    lower = [level for level in levels[:first] if level[0] <= load / 2]
    base_load, base_value, _ = lower[-1] if lower else (0, 0, 0)
    knee = base_load + (mean - base_value) * (load - base_load) / (value - base_value)
    # An answer is between the loads that it is said to be between.
    knee = min(max(knee, found["grows_until"]), found["saturated_from"])
    assert math.isclose(found["knee"]["value"], knee, rel_tol=1e-6), (found["knee"], knee)
    assert found["knee"]["ci_low"] <= knee <= found["knee"]["ci_high"]
print(f"checked {len(levels)} loads: {found['knee']}")
