"""Finds the steady state of a run from its records with numpy, and recomputes its statistics.

    python3 tests/read_steady_state.py DIR

An independent implementation: the requests in flight are counted at every start and end, in a
closed loop against the configured concurrency, and in an open loop the time between the ramp and
the last request is taken. Statistics are numpy's, of the requests that started in that time; counts
and rates are those of the requests that ended in it. All metrics are compared, except those of
curves other than the concurrency. Prints each difference and exits with 1 if there are any, or with
2 if the files cannot be read.
"""

import json
import sys
from pathlib import Path

import numpy

TOLERANCE = 1e-9
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
# Sums over requests with the metric that they add up, and rates with their sums.
SUMS = {
    "total_isl": "input_sequence_length",
    "total_osl": "output_sequence_length",
    "total_output_tokens": "output_token_count",
    "total_error_isl": "error_isl",
}
RATES = {
    "request_throughput": ("request_count",),
    "output_token_throughput": ("total_osl",),
    "input_token_throughput": ("total_isl",),
    "total_token_throughput": ("total_isl", "total_osl"),
}
# Bounds of the whole run, which a window does not have.
WITHOUT = {"min_request_timestamp", "max_response_timestamp", "benchmark_duration"}

differences = []


def expect(got, expected, what):
    if got is None or not abs(got - expected) <= TOLERANCE * max(abs(expected), 1.0):
        differences.append(f"{what}: {got} is not {expected}")


def plateau(starts, ends, asked, fraction):
    """First and last instant with enough requests in flight, or None."""
    times = numpy.unique(numpy.concatenate([starts, ends]))
    # In flight from each of the times to the next.
    in_flight = numpy.searchsorted(numpy.sort(starts), times, "right")
    in_flight = in_flight - numpy.searchsorted(numpy.sort(ends), times, "right")
    wanted = asked * fraction * (1 - 1e-12)
    enough = numpy.flatnonzero(in_flight >= max(numpy.ceil(wanted), 1))
    if not len(enough):
        return None
    first, last = enough[0], enough[-1] + 1
    area = numpy.sum(in_flight[first:last] * numpy.diff(times)[first:last])
    if area / (times[last] - times[first]) < wanted:
        return None
    return int(times[first]), int(times[last])


def window_of(records, summary, phase_start):
    """The window that the records and the configuration imply, or None."""
    times = [(r["metadata"]["request_start_ns"], r["metadata"]["request_end_ns"]) for r in records]
    starts, ends = numpy.array(times, dtype=numpy.int64).T
    config = summary["run_info"]["config"]
    phase = config["schedule"]["phases"][-1]
    limit = phase["concurrency"]
    if phase["load"] == "closed_loop":
        fraction = config["metrics"]["steady_state_fraction"]
        found = plateau(starts, ends, limit["most"], fraction)
    else:
        ramps = [phase["load"]["rate"]["ramp"], (limit or {}).get("ramp")]
        ramp = max(ramp or 0 for ramp in ramps)
        found = max(int(starts.min()), phase_start + ramp), int(starts.max())
    if found is None or found[1] <= found[0]:
        return None
    return found if ((ends >= found[0]) & (ends <= found[1])).any() else None


def values_of(records):
    """Values of each metric, lists flattened; without failed exchanges."""
    values = {}
    for record in records:
        for tag, metric in record["metrics"].items():
            if record.get("error") and tag.startswith("http_req_"):
                continue
            value = metric["value"]
            values.setdefault(tag, []).extend(value if isinstance(value, list) else [value])
    return {tag: numpy.array(column, dtype=float) for tag, column in values.items()}


def check_statistics(metrics, values, failed):
    for tag, column in values.items():
        stats = metrics.get(tag, {})
        expect(stats.get("count"), len(column), f"{tag}.count")
        expect(stats.get("sum"), column.sum(), f"{tag}.sum")
        expect(stats.get("avg"), column.mean(), f"{tag}.avg")
        expect(stats.get("std"), column.std(), f"{tag}.std")
        expect(stats.get("min"), column.min(), f"{tag}.min")
        expect(stats.get("max"), column.max(), f"{tag}.max")
        for percent in PERCENTILES:
            expect(stats.get(f"p{percent}"), numpy.percentile(column, percent), f"{tag}.p{percent}")
        adjusted = metrics.get(f"adj_{tag}")
        if adjusted is not None:
            expect(adjusted.get("count"), len(column) + failed, f"adj_{tag}.count")


def check_rates(metrics, ended, seconds):
    values = values_of(ended)
    failed = sum(1 for record in ended if record.get("error"))
    totals = {tag: values.get(of, numpy.zeros(0)).sum() for tag, of in SUMS.items()}
    totals["request_count"] = len(ended) - failed
    totals["error_request_count"] = failed
    totals["completed_request_count"] = len(ended)
    totals["request_error_rate"] = failed / len(ended) * 100
    for tag, parts in RATES.items():
        totals[tag] = sum(totals[part] for part in parts) / seconds
    for tag, total in totals.items():
        if tag in metrics:
            expect(metrics[tag]["avg"], total, tag)
        elif total:
            differences.append(f"{tag} is missing, it is {total}")


def main(directory):
    summary = json.loads((directory / "profile_export_aiperf.json").read_text())
    manifest = json.loads((directory / "run_manifest.json").read_text())
    with open(directory / "profile_export.jsonl", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines if line.strip()]
    records = [r for r in records if r["metadata"]["benchmark_phase"] == "profiling"]
    phase_start = manifest["end"]["start_wall_ns"]
    steady = summary["steady_state"]
    window = window_of(records, summary, phase_start)
    if window is None or not steady["found"]:
        if (window is None) == steady["found"] or ("reason" in steady) == steady["found"]:
            differences.append(f"{steady} is not {window}")
        return
    start, end = window
    got = steady["start_ns"], steady["end_ns"]
    if got != window:
        differences.append(f"{got} is not the window {window}")
        return
    expect(steady["start_offset_ns"], start - phase_start, "start_offset_ns")
    expect(steady["end_offset_ns"], end - phase_start, "end_offset_ns")
    expect(steady["duration_ns"], end - start, "duration_ns")

    def inside(name):
        return [record for record in records if start <= record["metadata"][name] <= end]

    started, ended = inside("request_start_ns"), inside("request_end_ns")
    expect(steady["request_count"], len(started), "request_count")
    expect(steady["request_share"], len(started) / len(records), "request_share")
    metrics = steady["metrics"]
    failed = sum(1 for record in started if record.get("error"))
    values = values_of(started)
    check_statistics(metrics, values, failed)
    check_rates(metrics, ended, (end - start) / 1e9)
    busy = sum(
        max(0, min(record["metadata"]["request_end_ns"], end) - max(at, start))
        for record in records
        for at in [record["metadata"]["request_start_ns"]]
    )
    expect(metrics["effective_concurrency"]["avg"], busy / (end - start), "effective_concurrency")
    for tag, stats in metrics.items():
        is_counted = stats.get("count") and not tag.startswith("adj_")
        if tag in WITHOUT or (is_counted and tag not in values):
            differences.append(f"{tag} should not be there")
    print(f"{len(started)} of {len(records)} requests in {(end - start) / 1e9} s")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (OSError, ValueError, KeyError, IndexError) as error:
        print(f"cannot be read: {error!r}")
        sys.exit(2)
    print("\n".join(differences[:20]))
    sys.exit(1 if differences else 0)
