"""Compares aiperf with the other load generators that are installed: the same mock server on one core,
the same work, and each client on another core.

    cargo build --release
    python3 tests/bench/referee/install.py DIR
    PATH=DIR/bin:$PATH python3 tests/bench/peers.py --aiperf target/release/aiperf --repeat 3

A peer that is not on PATH is left out. The clients are called as their descriptions for the referee say
(`src/referee/clients`). It needs Python 3.11.

There are three kinds of work:

- *closed loop*: 64 connections, about 100 tokens in, 16 out, immediate responses that are not
  streamed.
- *streams*: 64 streams at once, of 64 events each, sent as fast as the server can.
- *paced*: eight waves of streams that all start at once, whose first token comes after 50 ms and
  the 63 others every 10 ms. Without any cost of the client, the waves would take 5.44 s.

A rate is requests by the time of the whole process, with its start, prompts and files; wrk tells only
its own. Slow clients get fewer requests. Every figure is the median of `--repeat` runs, in turns.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / "tests/golden/tiny-model"
BODY = json.dumps({
    "model": "mock-model",
    "messages": [{"role": "user", "content": "word " * 100}],
    "max_completion_tokens": 16,
})  # fmt: skip


@dataclass
class Work:
    """What a client is to do: `concurrency` is also the number of connections."""

    name: str
    concurrency: int
    requests: int
    osl: int
    is_streamed: bool
    server: tuple[str, ...] = ()


@dataclass
class Client:
    """A client, and which of the works it can do."""

    name: str
    works: tuple[str, ...]
    # How many of the requests it gets.
    share: float = 1.0
    # The program instead of the one on PATH.
    program: str | None = None
    description: dict = field(init=False)

    def __post_init__(self) -> None:
        text = (ROOT / "src/referee/clients" / f"{self.name}.toml").read_text()
        self.description = tomllib.loads(text)
        found = shutil.which(self.program or self.description["program"])
        self.program = found and str(Path(found).absolute())

    def command(self, work: Work, url: str, directory: Path) -> list[str]:
        """Writes the client's files, and returns its command line."""
        values = {
            "url": url, "directory": str(directory), "model": "mock-model", "tokenizer": str(TOKENIZER),
            "concurrency": str(work.concurrency), "requests": str(work.requests), "seconds": "10",
            "isl": "100", "osl": str(work.osl), "body": BODY, "extra_body": "{}",
        }  # fmt: skip

        def fill(text: str) -> str:
            return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)

        for name, text in self.description.get("files", {}).items():
            (directory / name).write_text(fill(text))
        _, *arguments = map(fill, self.description["command"]["closed"])
        return [self.program, *(it for it in arguments if work.is_streamed or it != "--streaming")]

    def duration_s(self, directory: Path) -> float | None:
        """What the client says of its own duration in a JSON file, in seconds."""
        results = self.description["results"]
        place = self.description["figures"].get("benchmark_duration")
        if not place or results["format"] != "json" or results["file"] == "stdout":
            return None
        found = json.loads(Path(results["file"].replace("{directory}", str(directory))).read_text())
        for key in place["value"].split("/")[1:]:
            found = found[int(key)] if isinstance(found, list) else found[key]
        return found


def run(client: Client, work: Work, server: str) -> dict[str, float]:
    """Does the work once; returns the rate, the duration, CPU seconds and peak memory."""
    mock = subprocess.Popen(
        ["taskset", "-c", "0", server, "mock-server", "--port", "0", *work.server],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        url = mock.stdout.readline().strip()
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            output = directory / "output.txt"
            begun = time.monotonic()
            with output.open("w") as file:
                process = subprocess.Popen(
                    ["taskset", "-c", "1", *client.command(work, url, directory)],
                    stdout=file, stderr=subprocess.STDOUT, cwd=directory,
                    env={**os.environ, **client.description["command"].get("environment", {})},
                )  # fmt: skip
                _, status, usage = os.wait4(process.pid, 0)
            wall = time.monotonic() - begun
            text = output.read_text()
            if status:
                raise SystemExit(f"{client.name} failed:\n{text[-2000:]}")
            found = {
                "rate": work.requests / wall,
                "wall_s": wall,
                "cpu_s": usage.ru_utime + usage.ru_stime,
                "peak_mb": usage.ru_maxrss * 1024 / 1e6,
            }
            if client.name == "wrk":
                found["rate"] = float(text.split("Requests/sec:")[1].split()[0])
            if (duration := client.duration_s(directory)) is not None:
                found["duration_s"] = duration
            return found
    finally:
        mock.terminate()
        mock.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--aiperf", default="target/release/aiperf")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--streams", type=int, nargs="+", default=[1000, 2000])
    parser.add_argument("works", nargs="*", default=["closed loop", "streams", "paced"])
    given = parser.parse_args()

    every = ("closed loop", "streams", "paced")
    clients = [
        Client("aiperf", every, program=given.aiperf),
        Client("wrk", ("closed loop",)),
        Client("oha", ("closed loop",)),
        Client("vllm-rs", ("streams", "paced")),
        Client("guidellm", ("streams",), 0.02),
        Client("aiperf-python", ("closed loop", "streams"), 0.02),
    ]

    paced = ("--ttft", "50ms", "--itl", "10ms")
    works = [
        Work("closed loop", 64, given.requests, 16, is_streamed=False),
        Work("streams", 64, given.requests, 64, is_streamed=True),
        *(Work("paced", n, 8 * n, 64, is_streamed=True, server=paced) for n in given.streams),
    ]
    columns = ("rate", "duration_s", "wall_s", "cpu_s", "peak_mb")
    for work in works:
        if work.name not in given.works:
            continue
        able = [c for c in clients if work.name in c.works and c.program]
        runs: dict[str, list[dict[str, float]]] = {client.name: [] for client in able}
        for _ in range(given.repeat):
            for client in able:
                requests = max(int(work.requests * client.share), 2 * work.concurrency)
                own = Work(**{**vars(work), "requests": requests})
                runs[client.name].append(run(client, own, given.aiperf))
        print(f"\n{work.name}, {work.concurrency} at once, {work.requests} requests")
        print(f"{'':18}{'req/s':>10}{'of aiperf':>10}{'own s':>9}{'whole s':>9}{'CPU s':>8}{'MB':>7}")
        medians = {
            name: {
                column: statistics.median(values)
                for column in columns
                if (values := [found[column] for found in all_of if column in found])
            }
            for name, all_of in runs.items()
        }
        for name, median in medians.items():
            ratio = median["rate"] / medians["aiperf"]["rate"]
            own = f"{median['duration_s']:9.2f}" if "duration_s" in median else f"{'':9}"
            print(f"{name:18}{median['rate']:10.0f}{ratio:10.3f}{own}{median['wall_s']:9.2f}"
                  f"{median['cpu_s']:8.2f}{median['peak_mb']:7.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
