"""Compares aiperf with the other load generators that are installed: the same mock server on one core,
the same work, and each client on another core.

    cargo build --release
    python3 tests/bench/peers.py --aiperf target/release/aiperf --repeat 3

A peer that is not installed is left out. They are found on PATH: `wrk` (Debian's package), `oha`
(`cargo install oha`), `vllm-rs` (the program in the wheel of vLLM, from 0.33), `guidellm` and Python's
AIPerf (`pip install guidellm` and `pip install aiperf==0.13.0`, each in its own virtual environment;
`--guidellm` and `--python-aiperf` name their programs).

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
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
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
    """A program that can do some of the work.

    `command` builds its command line from the work, the URL, and a directory for its files;
    `duration_s` reads from there what the client says of its own duration, if it does.
    """

    name: str
    program: str
    command: Callable[[Work, str, Path], list[str]]
    works: tuple[str, ...]
    duration_s: Callable[[Path], float] | None = None
    # How many of the requests it gets.
    share: float = 1.0


def aiperf(program: str, *flags: str) -> Callable[[Work, str, Path], list[str]]:
    """The command line of aiperf and of Python's AIPerf, which are the same."""

    def command(work: Work, url: str, directory: Path) -> list[str]:
        streaming = ["--streaming"] if work.is_streamed else []
        return [program, "profile", "--model", "mock-model", "--url", url, "--ui", "none",
                "--artifact-dir", str(directory / "run"), "--concurrency", str(work.concurrency),
                "--request-count", str(work.requests), "--isl", "100", "--osl", str(work.osl),
                *streaming, *flags]  # fmt: skip

    return command


def wrk(work: Work, url: str, _: Path) -> list[str]:
    return ["wrk", "-t", "1", "-c", str(work.concurrency), "-d", "10s",
            "-s", str(ROOT / "tests/bench/post.lua"), f"{url}/v1/chat/completions"]  # fmt: skip


def oha(work: Work, url: str, _: Path) -> list[str]:
    return ["oha", "--no-tui", "-n", str(work.requests), "-c", str(work.concurrency), "-m", "POST",
            "-T", "application/json", "-d", BODY, f"{url}/v1/chat/completions"]  # fmt: skip


def vllm(work: Work, url: str, directory: Path) -> list[str]:
    return ["vllm-rs", "bench", "serve", "--backend", "openai-chat", "--base-url", url,
            "--model", "mock-model", "--tokenizer", str(TOKENIZER), "--dataset-name", "random",
            "--random-input-len", "100", "--random-output-len", str(work.osl), "--disable-tqdm",
            "--num-prompts", str(work.requests), "--max-concurrency", str(work.concurrency),
            "--save-result", "--result-dir", str(directory), "--result-filename", "result.json"]  # fmt: skip


def guidellm(program: str) -> Callable[[Work, str, Path], list[str]]:
    def command(work: Work, url: str, directory: Path) -> list[str]:
        return [program, "run", "--backend", f"kind=openai_http,target={url},model=mock-model",
                "--profile", f"kind=concurrent,streams={work.concurrency}",
                "--constraint", f"kind=max_requests,count={work.requests}",
                "--tokenizer", f"kind=huggingface_auto,model={TOKENIZER}",
                "--data", f"kind=synthetic_text,prompt_tokens=100,output_tokens={work.osl}",
                "--output", f"kind=json,path={directory / 'guidellm.json'}", "--disable-console"]  # fmt: skip

    return command


def summary_duration(directory: Path) -> float:
    path = directory / "run/profile_export_aiperf.json"
    return json.loads(path.read_text())["benchmark_duration"]["avg"]


def vllm_duration(directory: Path) -> float:
    return json.loads((directory / "result.json").read_text())["duration"]


def guidellm_duration(directory: Path) -> float:
    return json.loads((directory / "guidellm.json").read_text())["benchmarks"][0]["duration"]


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
                    stdout=file, stderr=subprocess.STDOUT, env={**os.environ, "BODY": BODY},
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
            if client.duration_s:
                found["duration_s"] = client.duration_s(directory)
            return found
    finally:
        mock.terminate()
        mock.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--aiperf", default="target/release/aiperf")
    parser.add_argument("--python-aiperf", default=None)
    parser.add_argument("--guidellm", default=None)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--streams", type=int, nargs="+", default=[1000, 2000])
    parser.add_argument("works", nargs="*", default=["closed loop", "streams", "paced"])
    given = parser.parse_args()

    every = ("closed loop", "streams", "paced")
    clients = [
        Client("aiperf", given.aiperf, aiperf(given.aiperf, "--tokenizer", "builtin"), every,
               summary_duration),
        Client("wrk", "wrk", wrk, ("closed loop",)),
        Client("oha", "oha", oha, ("closed loop",)),
        Client("vllm-bench", "vllm-rs", vllm, ("streams", "paced"), vllm_duration),
    ]  # fmt: skip
    if given.guidellm:
        command = guidellm(given.guidellm)
        clients.append(
            Client("guidellm", given.guidellm, command, ("streams",), guidellm_duration, 0.02)
        )
    if given.python_aiperf:
        command = aiperf(given.python_aiperf, "--tokenizer", str(TOKENIZER))
        works = ("closed loop", "streams")
        clients.append(
            Client("AIPerf (Python)", given.python_aiperf, command, works, summary_duration, 0.02)
        )

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
        able = [c for c in clients if work.name in c.works and shutil.which(c.program)]
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
