"""Checks the verdict on client health, and the error bounds that it follows from, against the
server's log, over runs of many kinds.

    python3 tests/bench/error_bounds.py --aiperf target/release/aiperf --runs 500 --output bounds.jsonl
    python3 tests/bench/error_bounds.py --judge bounds.jsonl

Needs numpy. Each run has a load, a server and a number of busy programs beside it that are drawn at
random. The mock server logs when each request arrived and when it wrote each event; both programs
read the same clock. The second command judges stored runs again; several files are judged together.

A client that is never late would have measured the time from when it could send the request until
the server's write. The write is known as an interval, from just before to just after it. The first
time is the client's own: when the request arrived says nothing about it if the server was busy.

- A statistic is *outside its bounds* if the interval from `value - below` to `value + above` does
  not reach the one of the true statistic by more than the resolution of clocks and wakes. At most 1%
  of the `valid` runs may have such a statistic.
- A statistic is *right* if it is within 5% of every value of that interval, *wrong* if it is within
  5% of none, and otherwise the log cannot tell. A statistic that has too few requests to be judged
  is right if it is within a third.
- The *throughput* without the client's delays is that of a run whose slots are used again as soon
  as the server has written a response: by the log, slots are idle from then until the request's first
  byte. It is judged like a statistic, by how much higher than the measured one it is.
- A run is *true* if all its statistics are right, and if by the server's log the requests arrived
  when they were due. At most 5% of the true runs may be called otherwise.
- A run is *false* if a statistic is wrong, or if the requests started late. If they started in time
  but arrived late, the log cannot tell whether the client or the server was busy.
"""

import argparse
import collections
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

RESOLUTION_MS = 0.1
METRICS = ("time_to_first_token", "inter_token_latency", "request_latency")
STATISTICS = {"p50": 50, "p99": 99}
# What makes clients measure wrongly (docs/referee.md), as far as no request fails, and a tokenizer counts as many
# tokens as the server.
HAZARDS = (
    "--tokens-per-chunk 4",
    "--chunks-together 8",
    "--early-role",
    "--empty-first",
    "--reasoning-tokens 16",
    "--reasoning-tokens 16 --reasoning-place reasoning",
    "--always-usage",
    "--no-usage",
    "--write-interval 40ms",
    "--accept-delay 100ms",
    "--end-delay 60ms",
)
# As in src/measure/metrics/health/verdict.rs.
FINEST_MS = 2.0
DOUBTFUL_SHARE = 0.05
RUINOUS_SHARE = 1 / 3


def drawn(rng: random.Random, longest_s: float) -> dict:
    """A kind of run that takes at most `longest_s` on an idle machine."""
    while True:
        kind = {
            "requests": rng.choice([20, 40, 100, 400, 1000]),
            "ttft_ms": rng.choice([5, 20, 50, 200]),
            "itl_ms": rng.choice([1, 2, 5, 10, 20]),
            "osl": rng.choice([1, 8, 32, 100]),
            "jitter": rng.choice(["0%", "30%"]),
            "fault": rng.choice([None, None, None, "every=4:stall=2,300ms", "every=9:stall=0,1s"]),
            "hazard": rng.choice([*[None] * len(HAZARDS), *HAZARDS]),
            "concurrency": rng.choice([None, 1, 4, 16, 64]),
            "rate": rng.choice([5, 20, 60, 200]),
            "workers": rng.choice([1, 1, 2]),
            "connections": rng.choice(["pooled", "pooled", "never"]),
            "busy": rng.choice([0, 0, 0, 1, 2, 4, 8]),
        }
        itl_ms = max(kind["itl_ms"], 40) if kind["hazard"] == "--write-interval 40ms" else kind["itl_ms"]
        service_s = (kind["ttft_ms"] + kind["osl"] * itl_ms) / 1e3 + (kind["hazard"] is not None) * 0.1
        service_s += {None: 0.0, "every=4:stall=2,300ms": 0.1, "every=9:stall=0,1s": 0.2}[kind["fault"]]
        if (kind["concurrency"] or 1) > kind["requests"]:
            continue
        if kind["concurrency"]:
            kind["rate"] = None
            length_s = kind["requests"] * service_s / kind["concurrency"]
        else:
            length_s = kind["requests"] / kind["rate"] + service_s
        in_flight = kind["requests"] * service_s / max(length_s, service_s)
        # More events than that saturate the client.
        if length_s <= longest_s and in_flight / kind["itl_ms"] * 1e3 <= 10_000:
            return kind


def perform(aiperf: str, kind: dict, directory: Path) -> tuple[dict, list[dict]]:
    """Returns the run's summary and its requests."""
    log = directory / "writes.jsonl"
    serve = [aiperf, "mock-server", "--port", "0", "--ttft", f"{kind['ttft_ms']}ms",
             "--itl", f"{kind['itl_ms']}ms", "--jitter", kind["jitter"], "--write-log", log]  # fmt: skip
    if kind["fault"]:
        serve += ["--fault", kind["fault"]]
    serve += (kind["hazard"] or "").split()
    load = (
        ["--concurrency", str(kind["concurrency"])]
        if kind["concurrency"]
        else ["--request-rate", str(kind["rate"])]
    )
    busy = [sys.executable, "-c", "while True: pass"]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
    others = [subprocess.Popen(busy) for _ in range(kind["busy"])]
    try:
        url = server.stdout.readline().strip()
        subprocess.run(
            [aiperf, "profile", "--model", "m", "--tokenizer", "builtin", "--url", url,
             "--streaming", "--isl", "20", "--osl", str(kind["osl"]), "--request-count",
             str(kind["requests"]), *load, "--workers-max", str(kind["workers"]),
             "--connection-reuse-strategy", kind["connections"], "--export-level", "raw",
             "--ui", "none", "--no-server-metrics", "--artifact-dir", directory / "run"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300,
        )  # fmt: skip
    finally:
        for other in others:
            other.kill()
            other.wait()
        server.terminate()
        server.wait()
    lines = {
        name: [json.loads(line) for line in path.read_text().splitlines()]
        for name, path in {
            "served": log,
            "records": directory / "run" / "profile_export.jsonl",
            "raw": directory / "run" / "profile_export_raw.jsonl",
        }.items()
    }
    served = {one["request_id"]: one for one in lines["served"]}
    starts = {one["metadata"]["x_request_id"]: one["start_perf_ns"] for one in lines["raw"]}
    requests = []
    for record in lines["records"]:
        name = record["metadata"]["x_request_id"]
        requests.append(observed(record, starts[name], served[name]))
    summary = json.loads((directory / "run" / "profile_export_aiperf.json").read_text())
    return summary, requests


def observed(record: dict, start: int, log: dict) -> dict:
    """What client and server recorded about a request that started at `start` on their common
    clock, in nanoseconds since then."""
    metadata = record["metadata"]
    content = [event for event in log["events"] if event["tokens"] > 0]
    request = {
        "arrival": log["arrival_ns"] - start,
        "first": [content[0][name] - start for name in ("write_start_ns", "written_ns")],
        "last": [content[-1][name] - start for name in ("write_start_ns", "written_ns")],
        "gaps": sum(event["tokens"] for event in content) - 1,
        "pieces": len(content),
        # What the statistics and their bounds are made of.
        "measured": {
            metric: record["metrics"][metric]["value"] * 1e6
            for metric in METRICS
            if metric in record["metrics"]
        },
        "send_delay": metadata["send_delay_ns"],
        "start": start,
        "written": [log["events"][-1][name] - start for name in ("write_start_ns", "written_ns")],
        "uncertainty": [
            metadata.get(f"{which}_content_uncertainty_ns", 0) for which in ("first", "last")
        ],
    }
    if "request_due_ns" in metadata:
        request["due"] = metadata["request_due_ns"] - metadata["request_start_ns"]
    return request


def truth(requests: list[dict]) -> dict[str, np.ndarray]:
    """The lowest and the highest value of each request by the server's log, in milliseconds."""
    found: dict[str, list[tuple[float, float]]] = {metric: [] for metric in METRICS}
    for request in requests:
        for metric, name in (("time_to_first_token", "first"), ("request_latency", "last")):
            before, after = request[name]
            found[metric].append((before - request["send_delay"], after - request["send_delay"]))
        if request["pieces"] > 1:
            first, last = request["first"], request["last"]
            least, most = ((last[at] - first[1 - at]) / request["gaps"] for at in (0, 1))
            found["inter_token_latency"].append((least, most))
    return {metric: np.array(values) / 1e6 for metric, values in found.items() if values}


def rise_of_throughput(run: dict) -> tuple[float, float] | None:
    """How much higher the throughput of a closed loop would be without the client's delays, by the
    server's log, as a fraction of it: the lowest and the highest value."""
    slots = run["kind"]["concurrency"]
    if not slots or "start" not in run["requests"][0]:
        return None
    requests = run["requests"]
    ends = sorted(one["start"] + one["written"][1] for one in requests)
    duration = ends[-1] - min(one["start"] for one in requests)
    # At the end, slots do not have work any more.
    slot_time = slots * duration - sum(ends[-1] - end for end in ends[-slots:])
    used = [sum(one["written"][at] - one["send_delay"] for one in requests) for at in (1, 0)]
    low, high = (max(slot_time - time, 0.0) / slot_time for time in used)
    return low / (1 - low), high / (1 - high)


def were_late(requests: list[dict], moment: str, first_token_ms: float) -> bool:
    """Whether the requests of an open loop were late at a `moment`: their start or arrival."""
    # Times of a request are since its start.
    at = {"start": lambda one: 0, "arrival": lambda one: one["arrival"]}[moment]
    late = [(at(one) - one["due"]) / 1e6 for one in requests if "due" in one]
    if not late:
        return False
    rare = np.percentile(late, 99 if len(late) >= 200 else 90)
    return bool(np.median(late) > min(0.1 * max(first_token_ms, 5.0), 100.0) or rare > 100.0)


def judged(run: dict) -> dict:
    """How far each statistic is off by the server's log, and whether that is within its bounds."""
    bounds = run["bounds"]
    found = {}
    for metric, values in truth(run["requests"]).items():
        for statistic, percent in STATISTICS.items():
            low, high = np.percentile(values, percent, axis=0)
            bound = bounds[metric][statistic]
            value = bound["value"]
            beyond = max(low - value - bound["above"], value - bound["below"] - high, 0.0)
            least = max(low - value, value - high, 0.0)
            most = max(value - low, high - value)
            scale = max(value, FINEST_MS)
            limit = RUINOUS_SHARE if "requests_needed" in bound else DOUBTFUL_SHARE
            found[f"{metric}:{statistic}"] = {
                "value": value,
                "low": low,
                "high": high,
                "bound": max(bound["below"], bound["above"]),
                "outside": bool(beyond > RESOLUTION_MS),
                "wrong": bool(least - RESOLUTION_MS > limit * scale),
                "right": bool(most - RESOLUTION_MS <= limit * scale),
                "off": max(least - RESOLUTION_MS, 0.0) / scale,
            }
    if (rise := rise_of_throughput(run)) and run.get("throughput"):
        bounds = run["throughput"]
        low, high = rise
        # Clocks and wakes of each request, and requests below 2 ms as in the verdict.
        cycle = bounds["cycle_ms"]
        noise, fine = RESOLUTION_MS / cycle, min(cycle / FINEST_MS, 1.0)
        found["throughput"] = {
            "value": 1.0,
            "low": 1 + low,
            "high": 1 + high,
            "bound": bounds["above_percent"] / 100,
            "outside": bool(low - noise > bounds["above_percent"] / 100),
            "wrong": bool((low - noise) * fine > DOUBTFUL_SHARE),
            "right": bool((high - noise) * fine <= DOUBTFUL_SHARE),
            "off": max(low - noise, 0.0) * fine,
        }
    first_token = found["time_to_first_token:p50"]["value"]
    started_late, arrived_late = (
        were_late(run["requests"], moment, first_token) for moment in ("start", "arrival")
    )
    if started_late or any(one["wrong"] for one in found.values()):
        is_true = "false"
    elif not arrived_late and all(one["right"] for one in found.values()):
        is_true = "true"
    else:
        is_true = "not known"
    return {
        "number": run["number"],
        "kind": run["kind"],
        "verdict": run["verdict"],
        "reasons": run["reasons"],
        "statistics": found,
        "outside": [name for name, one in found.items() if one["outside"]],
        "off": max(one["off"] for one in found.values()),
        "is_true": is_true,
    }


def measured(aiperf: str, kind: dict, number: int) -> dict:
    """Performs a run; returns what it is judged by."""
    with tempfile.TemporaryDirectory() as directory:
        summary, requests = perform(aiperf, kind, Path(directory))
    health = summary["client_health"]
    for metric, of_metric in health["error_bounds_ms"].items():
        for statistic in STATISTICS:
            assert abs(of_metric[statistic]["value"] - summary[metric][statistic]) < 1e-6
    return {
        "number": number,
        "kind": kind,
        "verdict": health["verdict"],
        "reasons": [reason["finding"] for reason in health["reasons"]],
        "bounds": health["error_bounds_ms"],
        "throughput": health.get("throughput_bounds"),
        "cpu": health["cpu"],
        "requests": requests,
    }


def described(run: dict) -> str:
    """A run that was judged wrongly: its kind, the reasons, and each statistic."""
    kind = ", ".join(f"{name} {value}" for name, value in run["kind"].items() if value is not None)
    lines = [f"run {run['number']}: {run['verdict']}, {run['is_true']} by the server's log ({kind})"]
    lines += [f"  reason: {reason}" for reason in run["reasons"]]
    lines += [
        f"  {name} {one['value']:.3f}, at most {one['bound']:.3f} off by its bound; by the log "
        f"{one['low']:.3f} to {one['high']:.3f}"
        for name, one in run["statistics"].items()
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--aiperf", default="target/release/aiperf")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=3.0, metavar="SECONDS")
    parser.add_argument("--output", type=Path, help="a line of JSON for each run")
    parser.add_argument("--judge", type=Path, nargs="+", help="judge these runs, perform none")
    given = parser.parse_args()
    runs = []
    if given.judge:
        for path in given.judge:
            with path.open() as file:
                runs += [judged(json.loads(line)) for line in file]
    else:
        rng = random.Random(given.seed)
        for number in range(given.runs):
            run = measured(given.aiperf, drawn(rng, given.longest), number)
            runs.append(judged(run))
            if given.output:
                with given.output.open("a") as file:
                    file.write(json.dumps(run) + "\n")
    valid = [run for run in runs if run["verdict"] == "valid"]
    true = [run for run in runs if run["is_true"] == "true"]
    outside = [run for run in valid if run["outside"]]
    otherwise = [run for run in true if run["verdict"] != "valid"]
    wrong = [run for run in valid if run["is_true"] == "false"]
    for run in outside + otherwise + [run for run in wrong if not run["outside"]]:
        print(described(run))
    count = collections.Counter((run["verdict"], run["is_true"]) for run in runs)
    for (verdict, is_true), times in sorted(count.items()):
        print(f"{times} runs: {verdict}, {is_true} by the server's log")
    off = sum(run["off"] > DOUBTFUL_SHARE for run in valid)
    print(f"valid runs with a statistic outside its bounds: {len(outside)} of {len(valid)}")
    print(f"valid runs that are false by the server's log: {len(wrong)} of {len(valid)}")
    print(f"valid runs with any statistic surely more than 5% off: {off} of {len(valid)}")
    print(f"true runs called otherwise: {len(otherwise)} of {len(true)}")
    if len(outside) > 0.01 * len(valid) or len(otherwise) > 0.05 * len(true):
        raise SystemExit("more than permitted")


if __name__ == "__main__":
    main()
