"""Counts what `aiperf ab` finds between two mock servers, of which the second may be slower, while
other programs may keep the machine busy.

    python3 tests/bench/ab.py --aiperf target/release/aiperf --times 20
    python3 tests/bench/ab.py --aiperf target/release/aiperf --times 20 --slower 5 --busy 2

Of the comparisons of a server with itself, at most 5% may show a regression or an improvement, apart
from chance. With `--busy N`, N processes use a core each meanwhile.
"""

import argparse
import collections
import json
import subprocess
import tempfile
from pathlib import Path

GATES = ["--gate", "ttft<=3%", "--gate", "request_throughput>=-3%"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--aiperf", default="target/release/aiperf")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--slower", type=float, default=0.0, metavar="PERCENT")
    parser.add_argument("--busy", type=int, default=0, metavar="PROCESSES")
    parser.add_argument("--pairs", default="30")
    parser.add_argument("--block", default="1")
    given = parser.parse_args()
    factors = (1.0, 1.0 + given.slower / 100)
    servers = [
        subprocess.Popen(
            [given.aiperf, "mock-server", "--port", "0", "--ttft", f"{20 * factor}ms",
             "--itl", f"{factor}ms", "--jitter", "10%"],
            stdout=subprocess.PIPE, text=True,
        )
        for factor in factors
    ]  # fmt: skip
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(given.busy)]
    counts: collections.Counter[str] = collections.Counter()
    pairs = []
    try:
        urls = [server.stdout.readline().strip() for server in servers]
        for _ in range(given.times):
            with tempfile.TemporaryDirectory() as directory:
                place = Path(directory) / "ab"
                compared = subprocess.run(
                    [given.aiperf, "ab", *urls, *GATES, "--pairs", given.pairs, "--settle", "0.2",
                     "--block-duration", given.block, "--", "--model", "m", "--tokenizer", "builtin",
                     "--streaming", "--isl", "20", "--osl", "8", "--concurrency", "8", "--ui", "none",
                     "--no-server-metrics", "--artifact-dir", place],
                    stdout=subprocess.DEVNULL, check=False,
                )  # fmt: skip
                found = json.loads((place / "ab.json").read_text())["comparisons"][0]
                findings = {row["finding"] for row in found["rows"] if row["decides"]}
                worst = "regression" if "regression" in findings else found["outcome"]
                counts["improvement" if "improvement" in findings else worst] += 1
                pairs.append(found["runs"][0])
                assert compared.returncode in (0, 3, 4), compared.returncode
    finally:
        for process in servers + busy:
            process.terminate()
    print(f"{dict(counts)} of {given.times}; pairs: {sorted(pairs)}")


main()
