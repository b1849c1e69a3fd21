"""Computes the energy of GPUs, and what follows from it for requests and tokens, with numpy from
the samples and the records of a run, and compares it with the summary.

The argument is the directory of a run with energy counters of NVIDIA GPUs.
"""

import datetime
import json
import math
import pathlib
import sys

import numpy

directory = pathlib.Path(sys.argv[1])
summary = json.loads((directory / "profile_export_aiperf.json").read_text())
telemetry = summary["telemetry_data"]


def lines(name):
    return [json.loads(line) for line in (directory / name).read_text().splitlines()]


def seconds(local):
    return datetime.datetime.fromisoformat(local).timestamp()


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
