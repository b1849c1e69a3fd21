"""Checks the results of a sweep against the files of its cells: check_sweep.py DIRECTORY"""

import csv
import json
import math
import sys
from pathlib import Path

import pyarrow.parquet as pq

base = Path(sys.argv[1])
plan = json.loads((base / "sweep_plan.json").read_text())
runs = plan["multi_run"]["runs"]
is_repeated = plan["multi_run"]["sweep"]["mode"] == "repeated"
place = base / "aggregate/sweep_aggregate" if runs > 1 and is_repeated else base / "sweep_aggregate"
sweep = json.loads((place / "profile_export_aiperf_sweep.json").read_text())
table = pq.read_table(place / "profile_export_aiperf_sweep.parquet").to_pylist()
rows = [row for row in table if row["stage"] is None]
parts = [row for row in table if row["stage"] is not None]


def directory(cell, trial):
    """Returns the directory of a run."""
    if runs == 1:
        return base / cell
    label = f"profile_runs/trial_{trial + 1:04}"
    return base / label / cell if is_repeated else base / cell / label


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12)


compared = 0
assert len(plan["cells"]) == len(sweep["per_combination_metrics"])
# A sweep that chooses its loads has them in order.
combinations = {it["directory"]: it for it in sweep["per_combination_metrics"]}
for cell in plan["cells"]:
    combination = combinations[cell["directory"]]
    summaries = []
    for trial in range(runs):
        path = directory(cell["directory"], trial) / "profile_export_aiperf.json"
        if not path.exists():
            continue
        summary = json.loads(path.read_text())
        assert summary["run_info"]["variation_values"] == cell["values"]
        assert summary["run_info"]["variation_index"] == cell["index"]
        assert summary["run_info"]["sweep_id"] == plan["sweep_id"] == sweep["sweep_id"]
        if summary.get("request_count", {}).get("avg", 0) > 0:
            summaries.append(summary)
    divided = [
        (f"time_breakdown.{it['metric']}", part["stage"], part["mean_ms"])
        for it in combination.get("time_breakdown", {}).get("metrics", [])
        for part in it["parts"]
    ]
    of_cell = [part for part in parts if part["cell_index"] == cell["index"]]
    assert divided == [(part["metric"], part["stage"], part["value"]) for part in of_cell]
    assert all((part["statistic"], part["unit"]) == ("avg", "ms") for part in of_cell)
    of_cell = [row for row in rows if row["cell_index"] == cell["index"]]
    assert bool(of_cell) == bool(summaries), combination
    for row in of_cell:
        assert row["cell"] == cell["directory"]
        values = [s[row["metric"]][row["statistic"]] for s in summaries if row["metric"] in s]
        if not values:
            continue
        assert row["trials"] == len(values)
        assert close(row["value"], sum(values) / len(values)), row
        assert (row["trials_min"], row["trials_max"]) == (min(values), max(values)), row
        assert (row["ci_low"] is None) == (len(values) == 1)
        metrics = combination["metrics"]
        if runs == 1:
            entry = metrics[row["metric"]]
            assert entry[row["statistic"]] == row["value"] and entry["unit"] == row["unit"]
        else:
            assert metrics[f"{row['metric']}_{row['statistic']}"]["mean"] == row["value"]
        compared += 1
assert compared > 50, compared

# Requests over all cells.
requests = [row["value"] for row in rows if (row["metric"], row["statistic"]) == ("request_count", "avg")]
key = "request_count" if runs == 1 else "request_count_avg"
known = [c["metrics"][key]["mean"] for c in sweep["per_combination_metrics"] if c["metrics"]]
assert sum(requests) == sum(known), (requests, known)

# The best cells and the front, from the table alone.
throughput = {}
latency = {}
for row in rows:
    if (row["metric"], row["statistic"]) == ("request_throughput", "avg"):
        throughput[row["cell_index"]] = row["value"]
    if (row["metric"], row["statistic"]) == ("time_to_first_token", "p99"):
        latency[row["cell_index"]] = row["value"]
# Cells are compared by their rates in the long run, which differ from those of the table by the start and the
# end of a run: by about a request.
slack = 2 / min(value for value in requests if value)
best = sweep["best_configurations"]["best_throughput"]["metric"]
assert best in throughput.values() and best >= (1 - slack) * max(throughput.values())
assert sweep["best_configurations"]["best_latency_p99"]["metric"] == min(latency.values())
assert sweep["best_configurations"]["best_latency_p99"]["metric_key"] == "time_to_first_token_p99"
points = {index: (throughput[index], -latency[index]) for index in throughput}
index_of = {cell["directory"]: cell["index"] for cell in plan["cells"]}
for cell in sweep["per_combination_metrics"]:
    index = index_of[cell["directory"]]
    mine = points.get(index)
    is_optimal = cell["pareto_optimal"]
    others = [other for other in points.values() if other != mine]

    def is_beaten(factor):
        return any(other[0] * factor >= mine[0] and other[1] >= mine[1] for other in others)

    if is_optimal:
        assert mine is not None and not is_beaten(1 - slack), (index, points)
    else:
        assert mine is None or is_beaten(1 + slack), (index, points)
    assert (cell["parameters"] in sweep["pareto_optimal"]) == is_optimal

sections = (place / "profile_export_aiperf_sweep.csv").read_text().split("\n\n")
table = list(csv.DictReader(sections[0].splitlines()))
assert len(table) == len(plan["cells"])
for line, cell in zip(table, sweep["per_combination_metrics"]):
    for name, value in cell["parameters"].items():
        assert line[name] == str(value), (line[name], value)
    for key, entry in cell["metrics"].items():
        mean = entry.get("mean")
        assert line[f"{key}_mean"] == ("" if mean is None else f"{mean:.2f}"), (key, mean)
assert sections[1].startswith("Best Configurations\nConfiguration,")
assert sections[2].startswith("Pareto Optimal Points\n")
assert f"Number of Combinations,{len(table)}" in sections[3]
