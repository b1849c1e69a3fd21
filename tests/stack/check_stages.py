"""The stages of requests: what Dynamo says of them in responses and spans, and the file in which it
writes the times of each request itself."""

import json
import statistics

from aiperf import LONGEST_RUN, TINY_MODEL, Files
from dynamo import Dynamo
from processes import Process, free_port, wait_until

REQUESTS = 200

# Both are Dynamo's times of the same request in the same process, which a response has with all digits.
SAME_MS = 0.001
# The span of a request begins before the timer of its response and ends after it.
AROUND_MS = 5

PARTS = ("http_req_connection_overhead", "http_req_sending", "server_unattributed_time")
STAGES = (
    "server_front_end_time",
    "server_queue_time",
    "server_prefill_time",
    "server_queue_and_prefill_time",
    "server_kv_transfer_time",
    "server_decode_time",
    "server_prefill_and_decode_time",
    "server_kv_transfer_and_decode_time",
)


def check(report, program, python, folder):
    """A run against one worker, and one against separate workers."""
    for name, separate in (("one worker", False), ("separate workers", True)):
        place = folder / name.replace(" ", "-")
        place.mkdir()
        report.section(f"stages of requests, {name}")
        _check(report, program, python, place, separate)


def _check(report, program, python, folder, separate):
    port, trace = free_port(), folder / "trace.jsonl"
    server = Dynamo(python, folder, f"http://127.0.0.1:{port}", separate, trace)
    files = Files("stages", folder / "run")
    flags = ["--url", server.url, "--model", server.model, "--tokenizer", TINY_MODEL]
    flags += ["--streaming", "--isl", 60, "--osl", 8, "--concurrency", 4]
    flags += ["--request-count", REQUESTS, "--server-timing", "ask-dynamo"]
    flags += ["--otel-receiver", port, "--ui", "none", "--artifact-dir", files.folder]
    process = Process("stages", [program, "profile", *flags], folder / "run.log")
    report.equal("exit code", process.wait(LONGEST_RUN), 0)
    traced = wait_until("Dynamo writes its trace", lambda: _traced(trace), 30, [server.frontend])
    server.stop()

    receiver = files.summary["telemetry"]["receiver"]
    joined, sampled = receiver["joined_requests"], receiver["sampled_requests"]
    report.holds("joined by spans", sampled == REQUESTS and joined >= 0.99 * REQUESTS,
                 f"{joined} of {sampled}")  # fmt: skip
    told = [record for record in files.records if _value(record, "server_queue_and_prefill_time")]
    report.holds("told by responses", len(told) >= 0.99 * REQUESTS, f"{len(told)} of {REQUESTS}")
    wrong = [record for record in files.records if abs(_missing(record)) > 1e-3]
    report.holds("parts add up to each latency", not wrong, f"wrong: {len(wrong)}")
    if separate:
        # It is before the first token.
        rest = files.summary["server_unattributed_time_to_first_token"]["p50"]
        transfer = files.summary["server_kv_transfer_time"]["p50"]
        report.holds("the transfer explains the time to the first token", rest < 0.1 * transfer,
                     f"{rest:.1f} ms of the rest, {transfer:.1f} of the transfer")  # fmt: skip

    def compare(name, have, of_trace, within):
        want = statistics.median(of_trace(one) for one in traced)
        report.holds(f"p50 of {name}", abs(have - want) <= within, f"{have:.6f} = {want:.6f}")

    p50 = lambda name: files.summary[name]["p50"]  # noqa: E731
    compare("front end", p50("server_front_end_time"),
            lambda one: one["prefill_wait_time_ms"], SAME_MS)  # fmt: skip
    compare("queue and prefill", p50("server_queue_and_prefill_time"),
            lambda one: one["prefill_time_ms"], SAME_MS)  # fmt: skip
    after = [sum(_value(record, name) or 0 for name in STAGES[4:]) for record in told]
    compare("what follows prefill", statistics.median(after),
            lambda one: one["total_time_ms"] - one["ttft_ms"], AROUND_MS)  # fmt: skip
    compare("the whole request", p50("server_latency"),
            lambda one: one["total_time_ms"], AROUND_MS)  # fmt: skip


def _traced(path):
    """The times of all requests, once they have been written."""
    if not path.exists():
        return None
    lines = path.read_text().splitlines()
    try:
        events = [json.loads(line)["event"] for line in lines]
    except json.JSONDecodeError:
        return None
    requests = [event["request"] for event in events if event["event_type"] == "request_end"]
    return requests if len(requests) >= REQUESTS else None


def _value(record, name):
    return record["metrics"].get(name, {}).get("value")


def _missing(record):
    """The latency without its parts, in milliseconds."""
    parts = (_value(record, name) or 0 for name in (*PARTS, *STAGES))
    return _value(record, "request_latency") - sum(parts)
