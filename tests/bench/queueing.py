"""Compares a sweep over request rates with queueing theory: queueing.py AIPERF

A mock server has four slots of 20 ms each, so it is an M/D/4 queue for Poisson arrivals. For each
rate, the mean latency is compared with

- that of a queue with the times at which the requests were sent, and
- that of simulated Poisson arrivals, with the interval that contains 99% of runs of that length.

A request occupies its slot a little longer than 20 ms, because client and server need time
themselves. The queue is therefore computed twice, with 20 ms and with `TOLERANCE` more, and the
mean latency must be between the two. To be run on an otherwise idle machine with a release build.
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


def latencies(starts, seconds=SECONDS):
    """Returns the latencies of a queue, first come, first served."""
    free = [0.0] * SLOTS
    found = []
    for start in starts:
        end = max(start, heapq.heappop(free)) + seconds
        heapq.heappush(free, end)
        found.append(end - start)
    return found


def simulated(rate, seed, seconds=SECONDS):
    rng = random.Random(seed)
    now, starts = 0.0, []
    for _ in range(REQUESTS):
        now += rng.expovariate(rate)
        starts.append(now)
    found = latencies(starts, seconds)
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
            slower = sum(latencies(starts, SECONDS + TOLERANCE)) / len(starts)
            last = max(start + latency for start, latency in zip(starts, queue))
            throughput = len(starts) / (max(ends) - starts[0])
            permitted = len(starts) / (last - starts[0])
            low = sorted(simulated(rate, seed) for seed in range(RUNS))[RUNS // 200]
            longest = (simulated(rate, seed, SECONDS + TOLERANCE) for seed in range(RUNS))
            high = sorted(longest)[-RUNS // 200 - 1]
            is_good = (
                theory <= measured <= slower
                and low <= measured <= high
                and 0.999 * permitted <= throughput <= permitted * 1.0001
            )
            failed |= not is_good
            print(
                f"{rate}/s: {1e3 * measured:.3f} ms, {throughput:.2f}/s; queue {1e3 * theory:.3f} to"
                f" {1e3 * slower:.3f} ms, {permitted:.2f}/s; M/D/{SLOTS} {1e3 * low:.3f} to {1e3 * high:.3f} ms:"
                f" {'good' if is_good else 'NOT GOOD'}"
            )
finally:
    server.terminate()
    server.wait()
sys.exit(failed)
