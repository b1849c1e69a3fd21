"""Checks that the referee finds and names what a client does wrong, with a client that can be told to.

    python3 tests/bench/referee/deviations.py --aiperf target/release/aiperf

It needs a machine that is otherwise idle, since 5 ms are to be found.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The flaw, the hazard, and how the sentence about it begins; none if nothing is wrong.
FLAWS = [
    ("none", "closed-loop", None),
    ("ttft", "closed-loop", "TTFT is "),
    ("slowest", "stall", "latency leaves out the slowest 1.2% of the requests"),
    ("events", "tokens-per-event", "counts events as tokens"),
    ("late", "open-loop", "sends requests late: by "),
    ("late", "closed-loop", "has "),
]


def run(aiperf: str, flaw: str, hazard: str) -> dict:
    """Returns the cell of the client with this flaw."""
    load = ["--rate", "{rate}"] if hazard == "open-loop" else ["--concurrency", "{concurrency}"]
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(
            [aiperf, "referee", "--hazard", hazard, "--client", HERE / "client.toml",
             "--output", directory, "--", sys.executable, HERE / "client.py", "--url", "{url}",
             "--requests", "{requests}", "--osl", "{osl}", *load, "--flaw", flaw,
             "{directory}/results.json"],
            stdout=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        return json.loads((Path(directory) / "referee.json").read_text())["cells"][0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--aiperf", default="target/release/aiperf")
    given = parser.parse_args()
    wrong = 0
    for flaw, hazard, expected in FLAWS:
        cell = run(given.aiperf, flaw, hazard)
        said = cell.get("deviations", [cell.get("error", cell["outcome"])])
        is_right = any(it.startswith(expected) for it in said) if expected else not said
        wrong += not is_right
        print(f"{'ok' if is_right else 'WRONG':6}{flaw:9}{hazard:18}{'; '.join(said)}", flush=True)
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
