#!/usr/bin/env python3
"""Checks `semconv/` and the telemetry of a run with OpenTelemetry Weaver.

    python3 tests/stack/check_registry.py --aiperf PATH

`weaver registry check` resolves the registry; `weaver registry live-check` receives the telemetry
of a whole run (requests, results, traces, and the mock server's own metrics) and must not report
a violation of the policy `semconv/live-check.toml`. A registry that lacks a metric shows that it
would.

Weaver must be on the PATH or given by AIPERF_WEAVER, in version 0.25.1 or later. The conventions
are downloaded, or read from the directory given by AIPERF_SEMCONV: `model` in the source of the
semantic conventions, version 1.41.1.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import aiperf
from processes import Process, StackError, fetch, free_port, wait_until
from report import Report

SEMCONV = aiperf.REPOSITORY / "semconv"
POLICY = SEMCONV / "live-check.toml"
LEAST = (0, 25, 1)
SECONDS = 120

# Everything that aiperf can export, in a short time.
RUN = [
    "--model", "mock-model", "--tokenizer", "builtin", "--streaming",
    "--request-count", "40", "--warmup-request-count", "4", "--concurrency", "4",
    "--isl", "20", "--osl", "8", "--trace-sample", "all",
    "--otel-resource-attributes", "team=bench",
]  # fmt: skip
# Some requests fail, some have other settings.
SERVER = ["--ttft", "5ms", "--itl", "1ms", "--fault", "every=9:status=500"]


def weaver():
    """The path of Weaver; None if it is not available."""
    found = os.environ.get("AIPERF_WEAVER") or shutil.which("weaver")
    if found is None:
        return None
    text = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    version = tuple(int(number) for number in re.findall(r"\d+", text)[:3])
    if version < LEAST:
        wanted = ".".join(map(str, LEAST))
        raise StackError(f"{found} is {text.strip()}: version {wanted} or later is needed")
    return found


def registry(folder):
    """A copy of the registry that refers to the available conventions."""
    copy = folder / "semconv"
    shutil.copytree(SEMCONV, copy)
    model = os.environ.get("AIPERF_SEMCONV")
    if model:
        manifest = copy / "manifest.yaml"
        text = re.sub(r"registry_path: .*", f"registry_path: {Path(model).resolve()}",
                      manifest.read_text())  # fmt: skip
        manifest.write_text(text)
    return copy


def without_a_metric(copy, name="aiperf.request_latency"):
    """Removes the metric from a registry."""
    path = copy / "aiperf-metrics.yaml"
    entries = re.split(r"(?m)^(?=  - name: )", path.read_text())
    kept = [entry for entry in entries if not entry.startswith(f"  - name: {name}\n")]
    assert len(kept) == len(entries) - 1
    path.write_text("".join(kept))


def live_check(program, weaver_program, copy, folder):
    """Weaver's exit code and statistics for the telemetry of a run."""
    folder.mkdir()
    grpc, admin = free_port(), free_port()
    output = folder / "found"
    command = [
        weaver_program, "registry", "live-check", "--registry", copy, "--config", POLICY,
        "--otlp-grpc-address", "127.0.0.1", "--otlp-grpc-port", grpc, "--admin-port", admin,
        "--inactivity-timeout", SECONDS, "--format", "json", "--no-stream", "true",
        "--output", output,
    ]  # fmt: skip
    listener = Process("weaver", command, folder / "weaver.log")
    health = lambda: fetch(f"http://127.0.0.1:{admin}/health") is not None  # noqa: E731
    wait_until("Weaver listens", health, SECONDS, alive=[listener])
    server = aiperf.MockServer(program, folder, "server", *SERVER)
    collector = f"http://127.0.0.1:{grpc}"
    aiperf.Run(program, "run", server.url, collector, folder, RUN).finish()
    server.process.stop()
    stop = urllib.request.Request(f"http://127.0.0.1:{admin}/stop", method="POST")
    urllib.request.urlopen(stop, timeout=SECONDS).close()
    code = listener.wait(SECONDS)
    return code, json.loads((output / "live_check.json").read_text())["statistics"]


def check(report, program):
    """Runs all checks if Weaver is available."""
    report.section("the registry, by OpenTelemetry Weaver")
    weaver_program = weaver()
    if weaver_program is None:
        print("skipped: weaver is not on the PATH, and AIPERF_WEAVER is not set", flush=True)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copy = registry(folder)
        command = [weaver_program, "registry", "check", "--registry", copy]
        checked = subprocess.run(command, capture_output=True, text=True)
        passed = checked.returncode == 0
        report.holds("weaver registry check", passed, "" if passed else checked.stderr[-2000:])
        code, found = live_check(program, weaver_program, copy, folder / "whole")
        levels = found["advice_level_counts"]
        report.equal("violations in a run", levels.get("violation", 0), 0)
        report.equal("exit code of the live check", code, 0)
        forwarded = found["seen_non_registry_metrics"]
        own = [name for name in forwarded if name.startswith(("aiperf.", "gen_ai."))]
        report.holds("forwarded metrics were there", len(forwarded) > 5, f"{len(forwarded)}")
        report.equal("metrics of aiperf's that are not in the registry", own, [])
        without_a_metric(copy)
        code, found = live_check(program, weaver_program, copy, folder / "lacking")
        violations = found["advice_level_counts"].get("violation", 0)
        report.holds("a missing metric is found", violations > 0 and code != 0, f"{violations}")


def main():
    """Parses the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--aiperf", metavar="PATH", help="the program, instead of a release build")
    arguments = parser.parse_args()
    report = Report()
    try:
        check(report, aiperf.binary(arguments.aiperf))
    except StackError as error:
        report.holds("the check could be done", False, str(error))
    finally:
        Process.kill_all()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
