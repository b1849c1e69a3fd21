"""Searches for the highest concurrency of a mock server with slots that stalls four requests, and counts
the answers.

    python3 tests/bench/search_stall.py --aiperf target/release/aiperf --searches 20

At more users than slots, one of them waits for a whole service, so the limit is the number of slots.
Without intervals, the stalled requests, which are at the first loads, make a search miss it by far.
"""

import argparse
import collections
import json
import subprocess
import tempfile
from pathlib import Path


def search(given: argparse.Namespace, directory: Path) -> str:
    """Returns what a search found."""
    server = subprocess.Popen(
        [given.aiperf, "mock-server", "--port", "0", "--max-concurrent", given.slots, "--ttft",
         "120ms", "--fault", "requests=300,301,302,303:stall=0,400ms"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        url = server.stdout.readline().strip()
        ended = subprocess.run(
            [given.aiperf, "profile", "--model", "m", "--tokenizer", "builtin", "--url", url,
             "--streaming", "--isl", "20", "--osl", "1", "--request-count", "200", "--ui", "none",
             "--search-recipe", "max-concurrency-under-sla", "--search-sla",
             "time_to_first_token:p99:lt:200", "--concurrency-min", given.least,
             "--no-server-metrics", "--artifact-dir", directory],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    finally:
        server.terminate()
        server.wait()
    found = json.loads((directory / "search_history.json").read_text())
    limit = found["limit"]
    ends = [limit[end] for end in ("shown_met_until", "best_tested", "shown_missed_from")]
    runs = sum(load["num_runs"] for load in found["iterations"])
    print(f"exit {ended.returncode}: met until {ends[0]}, best tested {ends[1]}, missed from "
          f"{ends[2]}; {len(found['iterations'])} loads, {runs} runs", flush=True)  # fmt: skip
    return f"exit {ended.returncode}, best tested {ends[1]}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--aiperf", default="target/release/aiperf")
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--slots", default="16")
    parser.add_argument("--least", default="2", help="the lowest concurrency")
    given = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    for _ in range(given.searches):
        with tempfile.TemporaryDirectory() as directory:
            counts[search(given, Path(directory))] += 1
    for found, count in counts.most_common():
        print(f"{count:3} {found}")


if __name__ == "__main__":
    main()
