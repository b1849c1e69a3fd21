"""A small benchmark client for the referee's tests, which can be told to report something wrong.

    python3 tests/bench/referee/client.py --url URL --requests 80 --concurrency 8 --flaw ttft RESULTS.json

A flaw is one of: `none`; `ttft` adds 5 ms to each time to first token; `slowest` leaves out the slowest
1% of the requests (at least one); `events` counts events as tokens; `late` sends each request up to
40 ms late.
"""

import argparse
import http.client
import json
import random
import statistics
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

parser = argparse.ArgumentParser()
parser.add_argument("--url", required=True)
parser.add_argument("--requests", type=int, required=True)
parser.add_argument("--concurrency", type=int)
parser.add_argument("--rate", type=float)
parser.add_argument("--osl", type=int, required=True)
parser.add_argument("--flaw", default="none", choices=["none", "ttft", "slowest", "events", "late"])
parser.add_argument("results", type=Path)
given = parser.parse_args()

body = json.dumps({
    "model": "mock-model",
    "messages": [{"role": "user", "content": "the time of the day"}],
    "max_tokens": given.osl,
    "stream": True,
    "stream_options": {"include_usage": True},
})  # fmt: skip
host = urlsplit(given.url).netloc
lock = threading.Lock()
numbers = iter(range(given.requests))
answers = []


def wait(generator: random.Random) -> None:
    if given.flaw == "late":
        time.sleep(generator.uniform(0, 0.04))


def send() -> None:
    """Sends one request and appends what it observed."""
    start = time.perf_counter()
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    times, tokens = [], 0
    for line in response:
        now = time.perf_counter()
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if any(choice["delta"].get("content") for choice in event["choices"]):
            times.append(now)
        if event.get("usage"):
            tokens = event["usage"]["completion_tokens"]
    connection.close()
    tokens = len(times) if given.flaw == "events" else tokens
    ttft = times[0] - start + (0.005 if given.flaw == "ttft" else 0)
    with lock:
        answers.append({"ttft": ttft, "latency": times[-1] - start, "tokens": tokens})


def stream(seed: int) -> None:
    """Sends one request after the other until all are sent."""
    generator = random.Random(seed)
    while True:
        with lock:
            if next(numbers, None) is None:
                return
        wait(generator)
        send()


def due(number: int, origin: float) -> None:
    """Sends the request with this number when it is due."""
    time.sleep(max(0, origin + number / given.rate - time.perf_counter()))
    wait(random.Random(number))
    send()


if given.rate:
    origin = time.perf_counter() + 0.1
    threads = [threading.Thread(target=due, args=(n, origin)) for n in numbers]
else:
    threads = [threading.Thread(target=stream, args=(n,)) for n in range(given.concurrency)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

if given.flaw == "slowest":
    answers.sort(key=lambda answer: answer["latency"])
    del answers[-max(1, len(answers) // 100) :]


def distribution(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"mean": statistics.fmean(values), "p50": cuts[49], "p90": cuts[89], "p99": cuts[98]}


given.results.write_text(json.dumps({
    "ttft": distribution([answer["ttft"] for answer in answers]),
    "latency": distribution([answer["latency"] for answer in answers]),
    "tokens": sum(answer["tokens"] for answer in answers),
    "requests": len(answers),
}))  # fmt: skip
