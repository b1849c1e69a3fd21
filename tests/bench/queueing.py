"""Compares a sweep over request rates with queueing theory: queueing.py AIPERF

A mock server has four slots of 20 ms each, so it is an M/D/4 queue for Poisson arrivals. For each
rate, the mean latency is compared with

- that of a queue with the times at which the requests were sent, and
- that of simulated Poisson arrivals, with the interval that contains 99% of runs of that length.

Latencies of a real client and server are higher by the time that they need themselves; up to
`TOLERANCE` is accepted. To be run on an otherwise idle machine.
"""

import heapq
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SLOTS, SECONDS, REQUESTS, RUNS = 4, 0.02, 2000, 400
RATES = [60, 120, 160, 180]
TOLERANCE = 0.001


def latencies(starts):
    """Returns the latencies of a queue, first come, first served."""
    free = [0.0] * SLOTS
    found = []
    for start in starts:
        end = max(start, heapq.heappop(free)) + SECONDS
        heapq.heappush(free, end)
        found.append(end - start)
    return found


def simulated(rate, seed):
    rng = random.Random(seed)
    now, starts = 0.0, []
    for _ in range(REQUESTS):
        now += rng.expovariate(rate)
        starts.append(now)
    found = latencies(starts)
    return sum(found) / REQUESTS


with socket.socket() as free_port:
    free_port.bind(("127.0.0.1", 0))
    port = free_port.getsockname()[1]
aiperf = sys.argv[1]
server = subprocess.Popen(
    [aiperf, "mock-server", "--port", str(port), "--ttft", f"{SECONDS}", "--max-concurrent", f"{SLOTS}"],
    stdout=subprocess.DEVNULL,
)
failed = False
try:
    while socket.socket().connect_ex(("127.0.0.1", port)):
        time.sleep(0.01)
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(
            [aiperf, "profile", "--model", "mock-model", "--tokenizer", "builtin", "--ui", "none"]
            + ["--url", f"http://127.0.0.1:{port}", "--isl", "10", "--osl", "1"]
            + ["--request-rate", ",".join(map(str, RATES)), "--request-count", f"{REQUESTS}"]
            + ["--artifact-dir", directory],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for rate in RATES:
            place = Path(directory) / f"rate_{rate}.0" / "profile_export.jsonl"
            records = [json.loads(line)["metadata"] for line in place.read_text().splitlines()]
            records.sort(key=lambda record: record["request_start_ns"])
            starts = [record["request_start_ns"] / 1e9 for record in records]
            ends = [record["request_end_ns"] / 1e9 for record in records]
            measured = sum(end - start for start, end in zip(starts, ends)) / len(starts)
            queue = latencies(starts)
            theory = sum(queue) / len(queue)
            last = max(start + latency for start, latency in zip(starts, queue))
            throughput = len(starts) / (max(ends) - starts[0])
            permitted = len(starts) / (last - starts[0])
            runs = sorted(simulated(rate, seed) for seed in range(RUNS))
            low, high = runs[RUNS // 200], runs[-RUNS // 200 - 1]
            is_good = (
                0 <= measured - theory < TOLERANCE
                and low <= measured <= high + TOLERANCE
                and 0.999 * permitted <= throughput <= permitted * 1.0001
            )
            failed |= not is_good
            print(
                f"{rate}/s: {1e3 * measured:.3f} ms, {throughput:.2f}/s; queue {1e3 * theory:.3f} ms,"
                f" {permitted:.2f}/s; M/D/{SLOTS} {1e3 * low:.3f} to {1e3 * high:.3f} ms:"
                f" {'good' if is_good else 'NOT GOOD'}"
            )
finally:
    server.terminate()
    server.wait()
sys.exit(failed)
