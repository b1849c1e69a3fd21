"""Finds the steady state of a run from its records with numpy, and recomputes its statistics.

    python3 tests/read_steady_state.py DIR

An independent implementation: the requests in flight are counted at every start and end. In a closed
loop, the time with the configured concurrency counts from a mean latency after its start, but at
least half of it. In an open loop, the time between the ramp and the last request counts from when
as many requests are in flight as in the median of the rest. Statistics are numpy's, of the requests
that started in that time; in counts and rates, each request counts by the share of its time that
lies in it, and one that was cancelled with the tokens that had arrived. All metrics are compared, except those of curves other than the concurrency.
Prints each difference and exits with 1 if there are any, or with
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
# What a request that was cancelled after its first content adds instead.
WITHOUT_END = {"total_isl": "error_isl", "total_osl": "error_osl"}
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


def settled(starts, ends, window):
    """The part of a plateau after its beginning."""
    first, last = window
    inside = (starts >= first) & (starts <= last)
    lengths = (ends - starts)[inside]
    latency = int(lengths.sum() / len(lengths)) if len(lengths) else 0
    begin = first + min(latency, (last - first) // 2)
    return (begin, last) if ((starts >= begin) & (starts <= last)).any() else window


def filled(starts, ends, window):
    """The part of an open loop's window in which the queue does not grow, or None."""
    begin, end = window
    times = numpy.unique(numpy.concatenate([starts, ends]))
    while end - begin >= int((end - window[0]) * 0.3):
        cuts = numpy.unique(numpy.concatenate([times[(times > begin) & (times < end)], [begin, end]]))
        lengths = numpy.diff(cuts)
        in_flight = numpy.searchsorted(numpy.sort(starts), cuts[:-1], "right")
        in_flight = in_flight - numpy.searchsorted(numpy.sort(ends), cuts[:-1], "right")
        order = numpy.argsort(in_flight, kind="stable")
        half = -(-int(lengths.sum()) // 2)
        median = in_flight[order][numpy.searchsorted(numpy.cumsum(lengths[order]), half)]
        reached = int(cuts[numpy.argmax(in_flight >= median)])
        if reached == begin:
            return begin, end
        begin = reached
    return None


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
        if found is not None:
            found = settled(starts, ends, found)
    else:
        ramps = [phase["load"]["rate"]["ramp"], (limit or {}).get("ramp")]
        ramp = max(ramp or 0 for ramp in ramps)
        found = max(int(starts.min()), phase_start + ramp), int(starts.max())
        found = filled(starts, ends, found) if found[1] > found[0] else None
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


def share_of(record, window):
    """The share of a request's time in the window."""
    start, end = (record["metadata"][f"request_{name}_ns"] for name in ("start", "end"))
    if start == end:
        return float(window[0] <= start <= window[1])
    return max(0, min(end, window[1]) - max(start, window[0])) / (end - start)


def check_rates(metrics, records, window):
    seconds = (window[1] - window[0]) / 1e9
    shares = [(record, share_of(record, window)) for record in records]

    def total(tag, chosen=lambda record: True):
        return sum(
            share * record["metrics"][tag]["value"]
            for record, share in shares
            if tag in record["metrics"] and chosen(record)
        )

    def has_no_end(record):
        error = record.get("error") or {}
        return error.get("error_type") == "cancelled" and "error_osl" in record["metrics"]

    failed = sum(share for record, share in shares if record.get("error"))
    ended = sum(share for _, share in shares)
    totals = {tag: total(of) for tag, of in SUMS.items()}
    for tag, of in WITHOUT_END.items():
        totals[tag] += total(of, has_no_end)
    totals["request_count"] = ended - failed
    totals["error_request_count"] = failed
    totals["completed_request_count"] = ended
    totals["request_error_rate"] = failed / ended * 100
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

    started = inside("request_start_ns")
    expect(steady["request_count"], len(started), "request_count")
    expect(steady["request_share"], len(started) / len(records), "request_share")
    metrics = steady["metrics"]
    failed = sum(1 for record in started if record.get("error"))
    values = values_of(started)
    check_statistics(metrics, values, failed)
    check_rates(metrics, records, window)
    busy = sum(
        max(0, min(record["metadata"]["request_end_ns"], end) - max(at, start))
        for record in records
        for at in [record["metadata"]["request_start_ns"]]
    )
    expect(metrics["effective_concurrency"]["avg"], busy / (end - start), "effective_concurrency")
    if started:
        spans = [record["metadata"] for record in started]
        latency = numpy.mean([it["request_end_ns"] - it["request_start_ns"] for it in spans])
        shares = sum(share_of(record, window) for record in records)
        residual = 100 * (shares * latency / busy - 1)
        expect(steady["littles_law_residual_percent"], residual, "littles_law_residual_percent")
    for tag, stats in metrics.items():
        # Its count is a sum of values, and not a number of requests.
        if tag == "coalesced_chunk_share":
            continue
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
