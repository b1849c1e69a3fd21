"""Checks the verdict on client health, and the error bounds that it follows from, against the
server's log, over runs of many kinds.

    python3 tests/bench/error_bounds.py --aiperf target/release/aiperf --runs 500 --output bounds.jsonl

Needs numpy. Each run has a load, a server and a number of busy programs beside it that are drawn at
random. The mock server logs when it wrote each event; both programs read the same clock, so that p50
and p99 of time to first token, inter-token latency and request latency are known from the client's
starts and the server's writes, as intervals from just before to just after each write.

- A statistic is *outside its bounds* if the interval from `value - below` to `value + above` does
  not reach the true one, by more than the resolution of clocks and wakes. At most 1% of the `valid`
  runs may have such a statistic.
- A run is *true* if all its statistics are within 5% of the server's, and if by the server's log
  the requests arrived when they were due. At most 5% of the true runs may be called otherwise.
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
# As in src/metrics/health/verdict.rs.
FINEST_MS = 2.0
DOUBTFUL_SHARE = 0.05


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
            "concurrency": rng.choice([None, 1, 4, 16, 64]),
            "rate": rng.choice([5, 20, 60, 200]),
            "workers": rng.choice([1, 1, 2]),
            "connections": rng.choice(["pooled", "pooled", "never"]),
            "busy": rng.choice([0, 0, 0, 1, 2, 4, 8]),
        }
        service_s = (kind["ttft_ms"] + kind["osl"] * kind["itl_ms"]) / 1e3
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


def perform(aiperf: str, kind: dict, directory: Path) -> tuple[dict, list[dict], dict[str, dict]]:
    """Returns the run's summary, its raw records, and the server's log by request."""
    log = directory / "writes.jsonl"
    serve = [aiperf, "mock-server", "--port", "0", "--ttft", f"{kind['ttft_ms']}ms",
             "--itl", f"{kind['itl_ms']}ms", "--jitter", kind["jitter"], "--write-log", log]  # fmt: skip
    if kind["fault"]:
        serve += ["--fault", kind["fault"]]
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
    summary = json.loads((directory / "run" / "profile_export_aiperf.json").read_text())
    records = (directory / "run" / "profile_export_raw.jsonl").read_text().splitlines()
    served = (json.loads(line) for line in log.read_text().splitlines())
    return summary, [json.loads(line) for line in records], {one["request_id"]: one for one in served}


def truth(records: list[dict], served: dict[str, dict]) -> dict[str, np.ndarray]:
    """The lowest and the highest value of each request by the server's log, in milliseconds."""
    found: dict[str, list[tuple[float, float]]] = {metric: [] for metric in METRICS}
    for record in records:
        log = served[record["metadata"]["x_request_id"]]
        start = record["start_perf_ns"]
        content = [event for event in log["events"] if event["tokens"] > 0]
        tokens = sum(event["tokens"] for event in content)
        first, last = content[0], content[-1]
        before, after = "write_start_ns", "written_ns"
        found["time_to_first_token"].append((first[before] - start, first[after] - start))
        found["request_latency"].append((last[before] - start, last[after] - start))
        if len(content) > 1:
            least, most = last[before] - first[after], last[after] - first[before]
            found["inter_token_latency"].append((least / (tokens - 1), most / (tokens - 1)))
    return {metric: np.array(values) / 1e6 for metric, values in found.items() if values}


def were_late(records: list[dict], served: dict[str, dict], first_token_ms: float) -> bool:
    """Whether the server received the requests of an open loop late."""
    late = []
    for record in records:
        metadata = record["metadata"]
        if "request_due_ns" in metadata:
            # Wall time, by the offset of the start.
            offset = metadata["request_start_ns"] - record["start_perf_ns"]
            arrival = served[metadata["x_request_id"]]["arrival_ns"] + offset
            late.append((arrival - metadata["request_due_ns"]) / 1e6)
    if not late:
        return False
    rare = np.percentile(late, 99 if len(late) >= 200 else 90)
    return np.median(late) > min(0.1 * max(first_token_ms, 5.0), 100.0) or rare > 100.0


def judged(summary: dict, records: list[dict], served: dict[str, dict]) -> dict:
    """How far each statistic is off by the server's log, and whether that is within its bounds."""
    health = summary["client_health"]
    found = {}
    for metric, values in truth(records, served).items():
        bounds = health["error_bounds_ms"][metric]
        for statistic, percent in STATISTICS.items():
            low, high = np.percentile(values, percent, axis=0)
            bound = bounds[statistic]
            value = bound["value"]
            assert abs(value - summary[metric][statistic]) < 1e-6
            off = max(low - value, value - high, 0.0)
            beyond = max(low - value - bound["above"], value - bound["below"] - high, 0.0)
            found[f"{metric}:{statistic}"] = {
                "value": value,
                "off": off,
                "share": off / max(value, FINEST_MS),
                "bound": max(bound["below"], bound["above"]),
                "beyond": beyond,
            }
    first_token = found["time_to_first_token:p50"]["value"]
    late = were_late(records, served, first_token)
    return {
        "verdict": health["verdict"],
        "reasons": [reason["finding"] for reason in health["reasons"]],
        "statistics": found,
        "outside": any(one["beyond"] > RESOLUTION_MS for one in found.values()),
        "true": not late and all(one["share"] <= DOUBTFUL_SHARE for one in found.values()),
        "late": bool(late),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--aiperf", default="target/release/aiperf")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=3.0, metavar="SECONDS")
    parser.add_argument("--output", type=Path, help="a line of JSON for each run")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    runs = []
    for number in range(given.runs):
        kind = drawn(rng, given.longest)
        with tempfile.TemporaryDirectory() as directory:
            run = judged(*perform(given.aiperf, kind, Path(directory)))
        runs.append(run)
        if given.output:
            with given.output.open("a") as file:
                file.write(json.dumps({"number": number, "kind": kind, **run}) + "\n")
    count = collections.Counter((run["verdict"], run["true"]) for run in runs)
    for (verdict, is_true), times in sorted(count.items()):
        print(f"{times} runs: {verdict}, {'true' if is_true else 'not true'} by the server's log")
    valid = [run for run in runs if run["verdict"] == "valid"]
    true = [run for run in runs if run["true"]]
    outside = sum(run["outside"] for run in valid)
    otherwise = sum(run["verdict"] != "valid" for run in true)
    print(f"valid runs with a statistic outside its bounds: {outside} of {len(valid)}")
    print(f"true runs called otherwise: {otherwise} of {len(true)}")
    if outside > 0.01 * len(valid) or otherwise > 0.05 * len(true):
        raise SystemExit("more than permitted")


if __name__ == "__main__":
    main()
