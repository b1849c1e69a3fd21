"""Counts how often `aiperf compare` finds a regression between runs of the same server, or of a
slower one.

    python3 tests/bench/compare_aa.py --aiperf target/release/aiperf --pairs 200
    python3 tests/bench/compare_aa.py --aiperf target/release/aiperf --pairs 100 --slower 5 \\
        --requests 800
    python3 tests/bench/compare_aa.py --aiperf target/release/aiperf --pairs 20 \\
        --gate 'ttft:avg<=10%' --gate 'request_throughput>=-5%'

Each pair is two runs against one mock server with random delays. Of the pairs that are compared, at
most 5% may show a regression, apart from chance: 200 pairs with a true share of 5% show more than 15
with a probability of 4%. A run whose client was invalid cannot be compared: it is repeated as `compare`
advises, whatever it measured, up to `--repeats` times, and the repetitions are counted. With
`--any-client`, the verdicts in the manifests are replaced instead.

With `--slower PERCENT`, the second run of each pair is against a server whose tokens all take that
much longer; the regressions should then be found. With `--gate`, a pair passes only if all gates are shown
to hold: at least 18 of 20 should.
"""

import argparse
import collections
import json
import subprocess
import tempfile
from pathlib import Path

OUTCOMES = {0: "no regression", 3: "regression", 4: "cannot tell"}


def profile(given: argparse.Namespace, url: str, run: Path) -> int:
    """Returns how often the run was repeated."""
    for repeats in range(given.repeats + 1):
        subprocess.run(
            [given.aiperf, "profile", "--model", "m", "--tokenizer", "builtin", "--url", url,
             "--streaming", "--isl", "20", "--osl", "8", "--request-count", given.requests,
             "--concurrency", given.concurrency, "--ui", "none", "--no-server-metrics",
             "--overwrite", "--artifact-dir", run],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        path = run / "run_manifest.json"
        manifest = json.loads(path.read_text())
        health = manifest["end"]["client_health"]
        if given.any_client:
            health["verdict"] = "valid"
            path.write_text(json.dumps(manifest))
        if health["verdict"] != "invalid":
            break
    return repeats


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--aiperf", default="target/release/aiperf")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--requests", default="200")
    parser.add_argument("--concurrency", default="8")
    parser.add_argument("--slower", type=float, default=0.0, metavar="PERCENT")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--any-client", action="store_true")
    parser.add_argument("--gate", action="append", default=[])
    parser.add_argument("--ttft", type=float, default=20.0, metavar="MILLISECONDS")
    parser.add_argument("--itl", type=float, default=1.0, metavar="MILLISECONDS")
    parser.add_argument("--jitter", default="30%")
    given = parser.parse_args()
    gates = [word for gate in given.gate for word in ("--gate", gate)]
    factors = (1.0, 1.0 + given.slower / 100)
    servers = [
        subprocess.Popen(
            [given.aiperf, "mock-server", "--port", "0", "--ttft",
             f"{given.ttft * factor}ms", "--itl", f"{given.itl * factor}ms", "--jitter", given.jitter],
            stdout=subprocess.PIPE, text=True,
        )
        for factor in factors
    ]  # fmt: skip
    try:
        urls = [server.stdout.readline().strip() for server in servers]
        counts: collections.Counter[str] = collections.Counter()
        for _ in range(given.pairs):
            with tempfile.TemporaryDirectory() as directory:
                runs = [Path(directory) / name for name in ("base", "new")]
                for run, url in zip(runs, urls):
                    counts["repeated runs"] += profile(given, url, run)
                compared = subprocess.run(
                    [given.aiperf, "compare", *runs, *gates],
                    stdout=subprocess.DEVNULL, check=False,
                )  # fmt: skip
                counts[OUTCOMES[compared.returncode]] += 1
    finally:
        for server in servers:
            server.terminate()
    decided = given.pairs - counts["cannot tell"]
    print(f"{counts['regression']} regressions in {decided} of {given.pairs} pairs: {dict(counts)}")


main()
