"""What a run of many shards costs and loses, as docs/scaling.md reports it.

    python3 tests/bench/shards.py report --aiperf target/release/aiperf --shards 10,100,1000
    python3 tests/bench/shards.py clocks
    python3 tests/bench/shards.py bounds

`report` makes the directories of shards from the records of one run against the mock server, and
measures `aiperf report` over them: time, peak memory and open files. The records get request IDs of
their own; everything else repeats. The shards have no Parquet, so rows are made from the lines.

`clocks` and `bounds` are simulations and need numpy.

- `clocks`: each host starts its part of a constant rate at the same time by its own clock. Offsets
  are normal with the standard deviations that chrony's documentation gives for hosts on one network
  and on the Internet; in addition, one host of a hundred may not be synchronized at all.
- `bounds`: latencies are log-normal with a median of 50 ms. A client reads each response late by an
  exponential time, which the bounds of the record cover. Most shards are idle (a mean of 0.05 ms);
  some are starved (20 ms). The bounds of a percentile are those of all records: the percentile of
  the earliest possible values and that of the measured ones.
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid

SHARDS = (10, 100, 1000)

# Standard deviations of clocks, in milliseconds, and the share of hosts without synchronization.
CLOCKS = {
    "NTP on one network": (0.1, 0.0),
    "NTP over the Internet": (5.0, 0.0),
    "the same, 1% not synchronized (±500 ms)": (5.0, 0.01),
}
RATE = 1000.0

LAG_MS = 0.05
STARVED_LAG_MS = 20.0
PERCENTILES = (50, 90, 99, 99.9)


def template(program, folder, requests):
    """The manifest and the records of a run of so many requests."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "mock-server", "--port", str(port), "--ttft", "1", "--itl", "0"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        directory = folder / "template"
        command = [program, "profile", "--url", f"http://127.0.0.1:{port}", "--model", "mock-model",
                   "--tokenizer", "builtin", "--streaming", "--isl", "20", "--osl", "8",
                   "--concurrency", "16", "--request-count", str(requests), "--random-seed", "1",
                   "--no-server-metrics", "--ui", "none", "--artifact-dir", str(directory)]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    finally:
        server.kill()
        server.wait()
    manifest = json.loads((directory / "run_manifest.json").read_text())
    return manifest, (directory / "profile_export.jsonl").read_bytes()


def write_shards(folder, count, manifest, records):
    """The directories of `count` shards, each with all records under new request IDs."""
    lines = [json.loads(line)["metadata"]["x_request_id"] for line in records.splitlines()]
    parts, rest = [], records
    for request in lines:
        before, _, rest = rest.partition(request.encode())
        parts.append(before)
    parts.append(rest)
    directories = []
    for index in range(count):
        directory = folder / f"shard-{index}"
        directory.mkdir(parents=True)
        text = bytearray(parts[0])
        for number, part in enumerate(parts[1:]):
            text += str(uuid.UUID(int=(index << 64) + number, version=4)).encode() + part
        (directory / "profile_export.jsonl").write_bytes(text)
        manifest["shard"] = {"index": index, "count": count}
        (directory / "run_manifest.json").write_text(json.dumps(manifest))
        directories.append(directory)
    return directories


def measure(program, directories, place):
    """Seconds, seconds of CPU time, peak memory in bytes and most open files of `aiperf report`."""
    began = time.monotonic()
    with open(place.parent / "report.log", "wb") as log:
        process = subprocess.Popen(
            [program, "report", *map(str, directories), "--artifact-dir", str(place)],
            stdout=log, stderr=log)  # fmt: skip
        files = 0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            try:
                files = max(files, len(os.listdir(f"/proc/{process.pid}/fd")))
            except OSError:
                pass
            time.sleep(0.01)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit((place.parent / "report.log").read_text()[-2000:])
    cpu = usage.ru_utime + usage.ru_stime
    return time.monotonic() - began, cpu, usage.ru_maxrss * 1024, files


def report(arguments):
    """Prints the table of `aiperf report` over growing numbers of shards."""
    print("| shards | requests each | requests | JSONL | time | CPU time | per request | peak memory | open files |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for count in arguments.shards:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="aiperf-shards-"))
        try:
            manifest, records = template(arguments.aiperf, folder, arguments.requests)
            directories = write_shards(folder, count, manifest, records)
            total, size = count * arguments.requests, count * len(records)
            seconds, cpu, memory, files = measure(arguments.aiperf, directories, folder / "combined")
            combined = json.loads((folder / "combined/profile_export_aiperf.json").read_text())
            assert combined["request_count"]["avg"] == total, combined["request_count"]
            print(f"| {count:,} | {arguments.requests:,} | {total:,} | {size / 1e6:,.0f} MB | "
                  f"{seconds:.1f} s | {cpu:.1f} s | {cpu / total * 1e6:.1f} µs | {memory / 1e6:.0f} MB | {files} |",
                  flush=True)  # fmt: skip
        finally:
            shutil.rmtree(folder)


def clocks(arguments):
    """Prints the spread of starts, and what becomes of a constant rate."""
    import numpy as np

    random = np.random.default_rng(arguments.seed)
    print(f"| clocks | shards | spread of starts, median (p95) | gaps between arrivals at {RATE:g}/s: CV |")
    print("|---|---|---|---|")
    for name, (deviation, unsynchronized) in CLOCKS.items():
        for count in SHARDS:
            spreads, variations = [], []
            for _ in range(300):
                offsets = random.normal(0, deviation, count)
                lost = random.random(count) < unsynchronized
                offsets[lost] = random.uniform(-500, 500, lost.sum())
                spreads.append(offsets.max() - offsets.min())
                # Every shard sends each `count`th arrival. Those of the ends would not have neighbours.
                number = np.arange(max(20_000, 20 * count))
                times = np.sort(number * 1e3 / RATE + offsets[number % count])
                inner = times[(times > 1_000) & (times < number.size * 1e3 / RATE - 1_000)]
                gaps = np.diff(inner)
                variations.append(gaps.std() / gaps.mean())
            spread, high = np.percentile(spreads, [50, 95])
            print(f"| {name} | {count:,} | {shown(spread)} ms ({shown(high)} ms) | {np.median(variations):.2f} |")


def shown(value):
    """Two digits, without an exponent."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def bounds(arguments):
    """Prints how far the percentiles of all shards may be off if some of them are starved."""
    import numpy as np

    random = np.random.default_rng(arguments.seed)
    print("| shards | starved | " + " | ".join(f"p{it:g}" for it in PERCENTILES) + " |")
    print("|---|---|" + "---|" * len(PERCENTILES))
    total = 2_000_000
    for count, starved in [(10, 0), (10, 1), (100, 1), (1000, 0), (1000, 1), (1000, 10), (1000, 100)]:
        true = random.lognormal(np.log(50), 0.3, total)
        mean = np.where(np.arange(total) % count < starved, STARVED_LAG_MS, LAG_MS)
        lag = random.exponential(mean)
        measured = true + lag
        high, low = np.percentile(measured, PERCENTILES), np.percentile(true, PERCENTILES)
        cells = [f"≤ {most - least:.2f} ms ({(most - least) / least:.1%})"
                 for most, least in zip(high, low, strict=True)]  # fmt: skip
        print(f"| {count:,} | {starved} | " + " | ".join(cells) + " |")


def main():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("report")
    one.add_argument("--aiperf", required=True, metavar="PATH")
    one.add_argument("--requests", type=int, default=1000, metavar="COUNT", help="of each shard")
    one.add_argument("--shards", default=",".join(map(str, SHARDS)),
                     type=lambda text: [int(count) for count in text.split(",")])  # fmt: skip
    one.set_defaults(run=report)
    for name, function in (("clocks", clocks), ("bounds", bounds)):
        simulation = commands.add_parser(name)
        simulation.add_argument("--seed", type=int, default=1)
        simulation.set_defaults(run=function)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
