#!/usr/bin/env python3
"""The stack test: aiperf with real servers, a real Collector and a real Prometheus, whose results
must agree. README.md describes it.

    python3 tests/stack/run.py [--aiperf PATH] [--mode MODE] [--keep] [--update]
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import aiperf
import build
import check_deltas
import check_registry
import check_stages
import dynamo
import panels
from collector import WAYS
from processes import Process, StackError
from report import Report
from runs import (
    DYNAMO,
    DYNAMO_RUNS,
    DYNAMO_SHARED,
    EXPONENTIAL_RUN,
    MOCK,
    MOCK_RUNS,
    MOCK_SHARED,
    PACED,
)
from stack import CACHE, Stack

HERE = pathlib.Path(__file__).resolve().parent

# The limit of the test in Slurm, after everything beside it is done.
SLURM_SECONDS = 300


def test(report, program, python, mode, keep, update):
    """All runs and checks in one mode."""
    began = time.monotonic()
    stack = Stack(report, program, python, mode)
    passed = False
    try:
        print(f"\n== mode {mode}, in {stack.folder}", flush=True)
        for name, flags in DYNAMO_RUNS.items():
            stack.run_dynamo(name, flags)
        for name, (script, flags) in MOCK_RUNS.items():
            stack.run_mock(name, script, flags)
        stack.run_shards("dynamo-shards", stack.dynamo, [*DYNAMO, *DYNAMO_SHARED])
        server = stack.mock("mock-shards", PACED)
        stack.run_shards("mock-shards", server, [*MOCK, *MOCK_SHARED])
        server.process.stop()
        stack.check_names()
        if mode != "scrape":
            stack.run_mock("mock-exponential", *EXPONENTIAL_RUN)
        stack.check_all()
        results = stack.check_panels()
        if update:
            panels.update(results)
        stack.survive_restart()
        stack.survive_loss()
        passed = True
    finally:
        Process.kill_all()
        print(f"\nmode {mode} took {time.monotonic() - began:.0f} s", flush=True)
        if passed and not keep and not report.failures:
            shutil.rmtree(stack.folder)
        else:
            print(f"logs and files are in {stack.folder}")


def check_first(report, program, python):
    """What needs a Collector, a Slurm or a Dynamo of its own; Slurm mostly waits, beside the others."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=CACHE))
    command = [sys.executable, "-u", HERE / "check_slurm.py", "--aiperf", program]
    slurm = Process("the test in Slurm", command, folder / "slurm.log")
    try:
        check_registry.check(report, program)
        check_deltas.check(report, program, build.collector(), folder)
        check_stages.check(report, program, python, folder)
        code = slurm.wait(SLURM_SECONDS)
        print(slurm.log.read_text(), flush=True)
        report.section("Slurm")
        report.equal("exit code of its checks", code, 0)
    finally:
        # It then ends what it has started.
        slurm.stop()


def main():
    """Parses the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--aiperf", metavar="PATH", help="the program, instead of a release build")
    parser.add_argument("--mode", choices=[*WAYS, "all"], default="scrape",
                        help="how the metrics come into Prometheus")  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="keep logs and files")
    parser.add_argument("--update", action="store_true",
                        help="write the tables of tests/stack/panels.md")  # fmt: skip
    arguments = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    report = Report()
    try:
        program = aiperf.binary(arguments.aiperf)
        python = dynamo.interpreter(CACHE)
        check_first(report, program, python)
        for mode in WAYS if arguments.mode == "all" else [arguments.mode]:
            test(report, program, python, mode, arguments.keep, arguments.update)
    except (StackError, build.Missing, subprocess.CalledProcessError) as error:
        report.holds("the test could be done", False, str(error))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
