"""Reads the time slices of a run with pandas, and recomputes them from its records.

    python3 tests/read_timeslices.py DIR

An independent implementation: slices of equal length from the start of the measurement, each
with the requests that were sent in it, and numpy's statistics of these. Both files are
compared with the results and with the summary of the whole run, to which the slices must add
up; concurrency is integrated from the starts and ends of requests. Prints each difference and
exits with 1 if there are any, or with 2 if the files cannot be read. Needs pandas.
"""

import json
import sys
from pathlib import Path

import numpy
import pandas

TOLERANCE = 1e-9
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
CSV_COLUMNS = ["Timeslice", "Start_NS", "End_NS", "Metric", "Unit", "Stat", "Value"]

# Counts that add up, and rates over the length of a slice with the counts they are based on.
COUNTS = ("request_count", "error_request_count", "total_osl", "total_isl")
RATES = {
    "request_throughput": "request_count",
    "output_token_throughput": "total_osl",
    "input_token_throughput": "total_isl",
}

differences = []


def expect(got, expected, what):
    scale = max(abs(expected), 1.0)
    if got is None or not abs(got - expected) <= TOLERANCE * scale:
        differences.append(f"{what}: {got} is not {expected}")


def read(directory):
    """Slices, records of the measurement, the whole run's summary, and the CSV."""
    slices = json.loads((directory / "profile_export_aiperf_timeslices.json").read_text())
    whole = json.loads((directory / "profile_export_aiperf.json").read_text())
    with open(directory / "profile_export.jsonl", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines if line.strip()]
    records = [r for r in records if r["metadata"]["benchmark_phase"] == "profiling"]
    table = pandas.read_csv(directory / "profile_export_aiperf_timeslices.csv")
    return slices, records, whole, table


def check_bounds(slices, length):
    for at, one in enumerate(slices):
        is_last = at == len(slices) - 1
        own = one["end_ns"] - one["start_ns"]
        if at and one["start_ns"] != slices[at - 1]["end_ns"]:
            differences.append(f"slice {at} does not begin where the one before ends")
        if own != length and not (is_last and own < length):
            differences.append(f"slice {at} is {own} ns long, not {length}")
        is_complete = one.get("is_complete")
        if is_complete is not (None if own == length else False):
            differences.append(f"slice {at} has is_complete {is_complete}")


def values_of(records):
    """Values of each metric, lists flattened; without failed exchanges."""
    values = {}
    for record in records:
        for tag, metric in record["metrics"].items():
            # The times of a failed exchange are not part of any statistics.
            if record.get("error") and tag.startswith("http_req_"):
                continue
            value = metric["value"]
            values.setdefault(tag, []).extend(value if isinstance(value, list) else [value])
    return {tag: numpy.array(column, dtype=float) for tag, column in values.items()}


def check_slice(at, one, records, all_records):
    where = f"slice {at}"
    for tag, values in values_of(records).items():
        if tag in one and "count" in one[tag]:
            stats = one[tag]
            expect(stats["count"], len(values), f"{where} {tag}.count")
            expect(stats["sum"], values.sum(), f"{where} {tag}.sum")
            expect(stats["avg"], values.mean(), f"{where} {tag}.avg")
            expect(stats["std"], values.std(), f"{where} {tag}.std")
            expect(stats["min"], values.min(), f"{where} {tag}.min")
            expect(stats["max"], values.max(), f"{where} {tag}.max")
            for percent in PERCENTILES:
                name = f"p{percent}"
                expect(stats[name], numpy.percentile(values, percent), f"{where} {tag}.{name}")
        elif tag not in one:
            differences.append(f"{where} has no {tag}, its records have")
    good = [record for record in records if not record.get("error")]
    expect(one["request_count"]["avg"], len(good), f"{where} request_count")
    if "error_request_count" in one:
        failed = len(records) - len(good)
        expect(one["error_request_count"]["avg"], failed, f"{where} error_request_count")
    seconds = (one["end_ns"] - one["start_ns"]) / 1e9
    for rate, count in RATES.items():
        if count in one and rate in one:
            expect(one[rate]["avg"], one[count]["avg"] / seconds, f"{where} {rate}")
    if "effective_concurrency" in one:
        # One request at a time, and exact: nanoseconds are integers.
        busy = 0
        for record in all_records:
            of = record["metadata"]
            start = max(of["request_start_ns"], one["start_ns"])
            busy += max(0, min(of["request_end_ns"], one["end_ns"]) - start)
        mean = busy / (one["end_ns"] - one["start_ns"])
        expect(one["effective_concurrency"]["avg"], mean, f"{where} effective_concurrency")


def check_sums(slices, whole):
    """The slices add up to the run."""
    for tag, stats in whole.items():
        if not isinstance(stats, dict) or "unit" not in stats:
            continue
        if "count" in stats and stats.get("sum") is not None:
            parts = [one[tag] for one in slices if tag in one]
            expect(sum(part["count"] for part in parts), stats["count"], f"all {tag}.count")
            expect(sum(part["sum"] for part in parts), stats["sum"], f"all {tag}.sum")
        elif tag in COUNTS:
            total = sum(one[tag]["avg"] for one in slices)
            expect(total, stats["avg"], f"all {tag}")


def check_table(table, slices):
    """The CSV has the values of the JSON with two decimals."""
    if list(table.columns) != CSV_COLUMNS:
        differences.append(f"columns {list(table.columns)}")
        return
    if table.isna().any().any() or table.duplicated(["Timeslice", "Metric", "Stat"]).any():
        differences.append("cells are empty, or a statistic is there twice")
    for name in ("Timeslice", "Start_NS", "End_NS"):
        if table[name].dtype != "int64":
            differences.append(f"{name} is {table[name].dtype}")
    numbers = 0
    for at, one in enumerate(slices):
        rows = table[table["Timeslice"] == at]
        bounds = set(zip(rows["Start_NS"], rows["End_NS"]))
        if bounds != {(one["start_ns"], one["end_ns"])}:
            differences.append(f"slice {at} of the CSV has the bounds {bounds}")
        # Titles are not in the JSON, so only the numbers are compared.
        metrics = [value for value in one.values() if isinstance(value, dict)]
        for name in sorted(set(rows["Stat"])):
            got = sorted(rows[rows["Stat"] == name]["Value"])
            expected = sorted(metric[name] for metric in metrics if name in metric)
            numbers += len(got)
            if len(got) != len(expected) or any(
                abs(a - b) > 0.005 + 1e-9 * abs(b) for a, b in zip(got, expected)
            ):
                differences.append(f"slice {at} of the CSV differs in {name}")
    if numbers != len(table):
        differences.append(f"{len(table)} rows, {numbers} numbers")


def main(directory):
    data, records, whole, table = read(directory)
    slices = data["timeslices"]
    length = round(data["input_config"]["artifacts"]["slice_duration"] * 1e9)
    check_bounds(slices, length)
    origin = slices[0]["start_ns"]
    at_start = [(r["metadata"]["request_start_ns"] - origin) // length for r in records]
    of = [min(max(at, 0), len(slices) - 1) for at in at_start]
    for at, one in enumerate(slices):
        own = [record for record, slice_of in zip(records, of) if slice_of == at]
        check_slice(at, one, own, records)
    check_sums(slices, whole)
    check_table(table, slices)
    frame = pandas.json_normalize(slices)
    print(f"{len(slices)} slices of {len(records)} requests, {frame.shape[1]} columns")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (OSError, ValueError, KeyError, IndexError) as error:
        print(f"cannot be read: {error!r}")
        sys.exit(2)
    print("\n".join(differences[:20]))
    sys.exit(1 if differences else 0)
