"""Recomputes the statistics over many runs from the files of each run.

    python3 check_many_runs.py DIRECTORY

Compares numpy's and scipy's results with those of the program.
"""

import csv
import json
import math
import sys
from pathlib import Path

import numpy as np
from scipy import stats

SIGNED = ("osl_mismatch_diff_pct",)
STATISTICS = "avg min max sum p1 p5 p10 p25 p50 p75 p90 p95 p99 std".split()
SPREAD = ["std", "cv", "se", "ci_low", "ci_high", "t_critical"]


def load(path: Path):
    return json.loads(path.read_text())


def is_metric(name: str, value) -> bool:
    # Instants do not have statistics over runs.
    is_instant = name in ("min_request_timestamp", "max_response_timestamp")
    return isinstance(value, dict) and "unit" in value and not is_instant


def expected(values: list[float], level: float) -> dict:
    n = len(values)
    mean = np.mean(values)
    found = {"mean": mean, "min": min(values), "max": max(values), "num_runs": n}
    if n == 1:
        return found | dict.fromkeys(SPREAD)
    std = np.std(values, ddof=1)
    se = std / math.sqrt(n)
    t = stats.t.ppf(1 - (1 - level) / 2, n - 1)
    low, high = mean - t * se, mean + t * se
    cv = std / abs(mean) if mean != 0 else None
    return found | dict(zip(SPREAD, [std, cv, se, low, high, t], strict=True))


def close(found, wanted, place) -> None:
    if wanted is None or found is None:
        assert found is None and wanted is None, (place, found, wanted)
        return
    # A deviation due to rounding errors alone counts as none.
    assert math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9), (place, found, wanted)


def check_aggregate(directory: Path, aggregate: dict, good: list[Path]) -> None:
    level = aggregate["metadata"]["confidence_level"]
    runs = [load(run / "profile_export_aiperf.json") for run in good]
    values: dict[str, list[float]] = {}
    units = {}
    for run in runs:
        for name, metric in run.items():
            if not is_metric(name, metric):
                continue
            for statistic in STATISTICS:
                if statistic in metric:
                    key = f"{name}_{statistic}"
                    values.setdefault(key, []).append(metric[statistic])
                    units[key] = metric["unit"]
    metrics = aggregate["metrics"]
    assert set(metrics) == set(values), set(metrics) ^ set(values)
    for key, of_runs in values.items():
        wanted = expected(of_runs, level)
        assert metrics[key]["unit"] == units[key]
        assert set(metrics[key]) == set(wanted) | {"unit"}, key
        for member, value in wanted.items():
            # A relative deviation of almost zero may have any value.
            if member == "cv" and value is not None and value < 1e-9:
                assert metrics[key]["cv"] < 1e-9
                continue
            # A bound is not below the smallest possible value.
            if member == "ci_low" and value is not None and not key.startswith(SIGNED):
                value = max(value, min(0.0, wanted["mean"]))
            close(metrics[key][member], value, (key, member))
    check_csv(directory / "profile_export_aiperf_aggregate.csv", metrics)


def check_csv(path: Path, metrics: dict) -> None:
    with path.open(newline="") as file:
        lines = list(csv.reader(file))
    split = lines.index([])
    header, rows = lines[0], lines[1:split]
    wanted = "metric mean std min max cv se ci_low ci_high t_critical unit".split()
    assert header == wanted, header
    assert [row[0] for row in rows] == list(metrics)
    for row in rows:
        for member, cell in list(zip(header, row, strict=True))[1:-1]:
            value = metrics[row[0]][member]
            digits = 4 if member in ("cv", "se", "t_critical") else 2
            assert cell == ("" if value is None else f"{value:.{digits}f}"), (row[0], member)
    facts = dict(lines[split + 1 :])
    assert facts["Aggregation Type"] == "confidence"
    assert list(facts) == [
        "Aggregation Type", "Total Runs", "Successful Runs", "Confidence Level",
        "Cooldown Seconds", "Run Labels",
    ]


def check_collated(collated: dict, labels: list[str], good: list[Path]) -> None:
    values: dict[str, dict[str, list[float]]] = {}
    for label, run in zip(labels, good, strict=True):
        for line in (run / "profile_export.jsonl").read_text().splitlines():
            record = json.loads(line)
            if record["metadata"]["benchmark_phase"] != "profiling" or record["error"]:
                continue
            for name, measurement in record["metrics"].items():
                value = measurement["value"]
                listed = value if isinstance(value, list) else [value]
                values.setdefault(name, {}).setdefault(label, []).extend(listed)
    metrics = collated["metrics"]
    # Lines also contain counters, which are 1 in each request that they count.
    assert metrics and set(metrics) <= set(values), set(metrics) - set(values)
    for name in ("request_latency", "time_to_first_token", "inter_chunk_latency"):
        assert name in metrics, name
    for name, found in metrics.items():
        population = np.concatenate([np.array(part) for part in values[name].values()])
        combined = found["combined"]
        assert combined["count"] == len(population), name
        close(combined["mean"], np.mean(population), (name, "mean"))
        close(combined["std"], np.std(population, ddof=1), (name, "std"))
        for percent in (50, 90, 95, 99):
            close(combined[f"p{percent}"], np.percentile(population, percent), (name, percent))
        assert [run["label"] for run in found["per_run"]] == list(values[name])
        for run in found["per_run"]:
            part = values[name][run["label"]]
            assert run["count"] == len(part)
            close(run["mean"], np.mean(part), (name, run["label"]))


def main() -> None:
    root = Path(sys.argv[1])
    directory = root / "aggregate"
    aggregate = load(directory / "profile_export_aiperf_aggregate.json")
    collated = load(directory / "profile_export_aiperf_collated.json")
    metadata = aggregate["metadata"]
    labels = metadata["run_labels"]
    places = {run["label"]: root / run["directory"] for run in metadata["runs"]}
    failed = {run["label"] for run in metadata["failed_runs"]}
    assert labels == list(places)
    labels = [label for label in labels if label not in failed]
    good = [places[label] for label in labels]
    assert metadata["num_successful_runs"] == len(labels) > 0
    assert collated["metadata"]["aggregation_type"] == "detailed"
    assert collated["metadata"]["run_labels"] == metadata["run_labels"]
    check_aggregate(directory, aggregate, good)
    check_collated(collated, labels, good)


main()
