"""Computes the energy of GPUs, and what follows from it for requests and tokens, with numpy from
the samples and the records of a run, and compares it with the summary.

The argument is the directory of a run with energy counters of NVIDIA GPUs.
"""

import datetime
import json
import math
import pathlib
import sys

import duckdb
import numpy
import pyarrow.parquet

directory = pathlib.Path(sys.argv[1])
summary = json.loads((directory / "profile_export_aiperf.json").read_text())
telemetry = summary["telemetry_data"]


def lines(name):
    return [json.loads(line) for line in (directory / name).read_text().splitlines()]


def seconds(local):
    return datetime.datetime.fromisoformat(local).timestamp()


def check_table():
    """The table has the samples of the lines, with the units of the summary."""
    path = directory / "gpu_telemetry_export.parquet"
    table = pyarrow.parquet.read_table(path)
    labels = ("timestamp_ns", "gpu_index", "gpu_uuid", "gpu_model_name", "hostname", "platform",
              "telemetry_source_url", "device", "pci_bus_id", "namespace", "pod_name")  # fmt: skip
    fields = [name for name in table.column_names if name not in labels]
    expected = [
        {name: line.get(name) for name in labels} | {name: line["telemetry_data"].get(name) for name in fields}
        for line in lines("gpu_telemetry_export.jsonl")
    ]
    assert table.to_pylist() == expected, "other samples"
    gpus = [gpu for of in telemetry["endpoints"].values() for gpu in of["gpus"].values()]
    units = {name: metric["unit"] for gpu in gpus for name, metric in gpu["metrics"].items()}
    assert set(fields) == set(units), (fields, units)
    assert json.loads(table.schema.metadata[b"aiperf.units"]) == units
    assert table.schema.metadata[b"aiperf.benchmark_id"].decode() == summary["benchmark_id"]


def check_documented_join():
    """The join of docs/artifacts.md gives each request the nearest sample of each GPU."""
    page = (pathlib.Path(__file__).parents[1] / "docs" / "artifacts.md").read_text(encoding="utf-8")
    (statement,) = (
        block.split("```")[0]
        for block in page.split("```sql not-run\n")[1:]
        if "gpu_telemetry_export.parquet" in block.split("```")[0]
    )
    rows = duckdb.sql(statement.replace("artifacts/try", str(directory))).fetchall()
    samples = lines("gpu_telemetry_export.jsonl")
    for start, gpu, watts in rows:
        distance = {}
        for line in samples:
            if line["gpu_uuid"] == gpu:
                apart = abs(line["timestamp_ns"] - start)
                distance.setdefault(apart, set()).add(line["telemetry_data"]["nvidia_power_usage"])
        # The middle between two samples is rounded to a whole nanosecond.
        near = set().union(*(of for apart, of in distance.items() if apart <= min(distance) + 1))
        assert watts in near, (start, gpu, watts, near)
    requests = lines("profile_export.jsonl")
    gpus = {line["gpu_uuid"] for line in samples}
    assert len(rows) == len(requests) * len(gpus), f"{len(rows)} rows"


check_table()
check_documented_join()

start, end = (seconds(telemetry["summary"][key]) for key in ("start_time", "end_time"))
samples = {}
for line in lines("gpu_telemetry_export.jsonl"):
    of_gpu = samples.setdefault(line["gpu_uuid"], [])
    data = line["telemetry_data"]
    of_gpu.append(
        (line["timestamp_ns"] / 1e9, data["nvidia_energy_consumption"] * 1e6, data["nvidia_power_usage"])
    )

energy = power = 0.0
for rows in samples.values():
    times, joules, watts = numpy.array(rows).T
    assert times[0] < start and times[-1] > end, "the samples do not cover the measurement"
    at_start, at_end = numpy.interp([start, end], times, joules)
    energy += at_end - at_start
    power += numpy.mean(watts)

records = [
    line
    for line in lines("profile_export.jsonl")
    if line["metadata"]["benchmark_phase"] == "profiling" and not line.get("error")
]


def values(tag):
    return numpy.array([record["metrics"][tag]["value"] for record in records], dtype=float)


requests = len(records)
outputs = values("output_sequence_length").sum()
inputs = values("input_sequence_length").sum()
latency = values("request_latency").mean() / 1e3
watts = energy / (end - start)
idle = 0.0
for rows in samples.values():
    idle += rows[0][2]

expected = {
    "nvidia_total_gpu_energy": energy,
    "nvidia_total_gpu_power": power,
    "nvidia_average_gpu_power": watts,
    "nvidia_gpu_energy_above_idle": energy - idle * (end - start),
    "nvidia_energy_per_request": energy / requests,
    "nvidia_energy_per_output_token": 1e3 * energy / outputs,
    "nvidia_energy_per_total_token": 1e3 * energy / (inputs + outputs),
    "nvidia_energy_per_million_tokens": 1e6 * energy / (inputs + outputs),
    "nvidia_energy_per_million_output_tokens": 1e6 * energy / outputs,
    "nvidia_output_tokens_per_joule": outputs / energy,
    "nvidia_energy_per_user": energy / 2,
    "nvidia_energy_delay_product": energy / requests * latency,
    "nvidia_performance_per_watt": summary["request_throughput"]["avg"] / watts,
    "nvidia_output_tps_per_watt": summary["output_token_throughput"]["avg"] / watts,
}
# The summary has times with microseconds: 700 W for 2 µs.
tolerance = 2e-3
for tag, value in expected.items():
    have = summary[tag]["avg"]
    scale = tolerance / energy * abs(value)
    if tag == "nvidia_gpu_energy_above_idle":
        scale = tolerance
    assert math.isclose(have, value, rel_tol=1e-9, abs_tol=scale), (tag, have, value)
error = summary["nvidia_gpu_energy_error"]["avg"]
exact = 700 * (end - start)
assert abs(energy - exact) <= error, (energy, exact, error)
print(f"{energy:.3f} J ± {error:.3f} J, {len(expected)} metrics agree")
