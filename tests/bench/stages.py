#!/usr/bin/env python3
"""Where the client's CPU time goes, in nanoseconds per request and per event.

    python3 tests/bench/stages.py [--aiperf target/profiling/aiperf] [--collector URL]

Builds the program with the names of its functions (`cargo build --profile profiling`) unless
`--aiperf` names one. Runs two loads against the embedded mock server, each twice: once to measure
the CPU time, and once under `perf record`, whose samples divide it into stages. A sample belongs to
the stage of its innermost function that has one.
"""

import argparse
import collections
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

CLOSED = ("closed loop, 16 tokens, not streamed", 1, "--request-count {n} --isl 100 --osl 16")
STREAMS = ("streams of 200 events", 200, "--streaming --request-count {n} --isl 100 --osl 200")

# Innermost first: the first pattern that matches a function of the stack, from the innermost out.
WORKER = [
    ("write", r"TracedIo::poll_(write|flush)|TracedTcp as .*AsyncWrite|writev|Connection::poll_send"),
    ("stamp", r"transport::stamps|platform::linux::reads::.*stamp|clock_gettime"),
    ("read", r"TracedIo::poll_read|TracedTcp as .*AsyncRead|linux::reads"),
    ("acknowledge", r"transport::acknowledge"),
    ("frame", r"transport::(body|sse|http1::chunked)"),
    ("hand over", r"RecordQueue::push"),
    ("HTTP", r"transport::http1|httparse::|http::|Client::head|RequestHeaders|Route::visit|transport::connection"),
    ("record", r"transport::(exchange|receiving)|runner::session|runner::worker|transport::client"),
    ("wait", r"runtime::(scheduler|io::driver|time)|tokio::task::local|epoll_wait"),
]
PROCESSOR = [
    ("take", r"RecordQueue::pop"),
    ("compare prompts", r"prefix_cache|known_prefixes|prompt_bytes"),
    ("parse", r"Endpoint>::parse|requested_tokens|endpoint::"),
    ("count tokens", r"TokenCounter|tokenizer::"),
    ("free", r"drop_in_place<aiperf::(record|metrics|endpoint)"),
    ("measure", r"Registry::compute|Measurer::measure"),
    ("OTel", r"telemetry::"),
    ("JSONL", r"artifacts::jsonl|artifacts::sink"),
    ("Parquet", r"artifacts::parquet"),
    ("health", r"metrics::health"),
    ("accumulate", r"Accumulator|metrics::breakdown|metrics::timeline"),
    ("pass on", r"processing::"),
]
END = re.compile(
    r"metrics::accumulate|metrics::steady|metrics::health|statistics::|artifacts::|report::|"
    r"Processing::finish|Measured|deliver|console::"
)


def stage(thread, frames):
    """Returns the group and the stage of a sample."""
    if thread.startswith("worker"):
        group, stages = "worker", WORKER
    elif thread.startswith(("processor", "relief", "finisher")) or any(
        "Shared::process" in frame for frame in frames
    ):
        group, stages = "processors", PROCESSOR
    elif any(END.search(frame) for frame in frames):
        return "main", "statistics and files at the end"
    else:
        return "main", "start"
    for frame in frames:
        for name, pattern in stages:
            if re.search(pattern, frame):
                return group, name
    return group, "other"


def samples(data):
    """Yields the thread and the functions of each sample, innermost first."""
    command = ["perf", "script", "-i", data, "-F", "comm,ip,sym", "--no-inline"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
    ) as script:
        thread, frames = None, []
        for line in script.stdout:
            if not line.strip():
                if thread is not None:
                    yield thread, frames
                thread, frames = None, []
            elif line[0].isspace():
                frames.append(line.split(None, 1)[1].strip() if " " in line.strip() else "")
            else:
                thread, frames = line.strip(), []
        if thread is not None:
            yield thread, frames


def run(program, url, flags, cores, perf=None):
    """Runs the client, and returns its CPU time in seconds."""
    directory = tempfile.mkdtemp()
    client = [
        program, "profile", "--url", url, "--model", "mock-model", "--tokenizer", "builtin",
        "--num-prompts", "100", "--ui", "none", "--no-server-metrics", "--no-gpu-telemetry",
        "--artifact-dir", directory, *flags,
    ]
    pinned = ["taskset", "-c", str(cores[1])]
    record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "1999", "--call-graph", "dwarf,16384"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        subprocess.run(
            [*pinned, *([*record, "-o", perf, "--"] if perf else []), *client],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table(program, url, load, requests, concurrency, extra, cores):
    """Prints the stages of a load."""
    name, events, flags = load
    flags = [*flags.format(n=requests).split(), "--concurrency", str(concurrency), *extra]
    seconds = sorted(run(program, url, flags, cores) for _ in range(3))[1]
    with tempfile.TemporaryDirectory() as scratch:
        data = os.path.join(scratch, "perf.data")
        run(program, url, flags, cores, perf=data)
        counts = collections.Counter(stage(*sample) for sample in samples(data))
    total = sum(counts.values())
    if total == 0:
        sys.exit("perf took no samples; it needs the right to profile (kernel.perf_event_paranoid)")
    print(f"\n{name}: {requests:,} requests, {seconds:.2f} s of CPU time, {total:,} samples")
    print(f"{'':28}{'ns/request':>12}" + (f"{'ns/event':>12}" if events > 1 else "") + f"{'%':>8}")

    def line(label, count):
        nanos = count / total * seconds * 1e9 / requests
        per_event = f"{nanos / events:12.1f}" if events > 1 else ""
        print(f"{label:28}{nanos:12,.0f}{per_event}{count / total * 100:8.1f}")

    for group, stages in (("worker", WORKER), ("processors", PROCESSOR), ("main", [])):
        of_group = {name: count for (of, name), count in counts.items() if of == group}
        line(group, sum(of_group.values()))
        order = [name for name, _ in stages] + ["other", "start", "statistics and files at the end"]
        for name in order:
            if of_group.get(name):
                line(f"  {name}"[:28], of_group[name])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aiperf", help="a program with the names of its functions")
    parser.add_argument("--scale", type=float, default=1.0, help="a factor for the number of requests")
    parser.add_argument("--collector", help="URL of a collector to export to")
    options = parser.parse_args()
    program = options.aiperf or "target/profiling/aiperf"
    if not options.aiperf:
        subprocess.run(["cargo", "build", "--profile", "profiling", "--locked"], check=True)
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2 or not shutil.which("perf") or not shutil.which("taskset"):
        sys.exit("this needs two cores, perf and taskset")
    extra = ["--otel-url", options.collector] if options.collector else []
    server = subprocess.Popen(
        ["taskset", "-c", str(cores[0]), program, "mock-server", "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    try:
        url = None
        while url is None:
            line = server.stdout.readline()
            if not line:
                sys.exit("the mock server did not start")
            found = re.search(r"http://[0-9.:]+", line)
            url = found and found.group(0)
        table(program, url, CLOSED, int(200_000 * options.scale), 64, extra, cores)
        table(program, url, STREAMS, int(20_000 * options.scale), 64, extra, cores)
    finally:
        server.kill()


if __name__ == "__main__":
    main()
