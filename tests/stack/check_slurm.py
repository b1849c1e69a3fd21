#!/usr/bin/env python3
"""Shards as tasks of a real Slurm (`--shard auto`): a job and a job array with the batch scripts of
docs/scaling.md, a task that is killed, one that comes late, and a job that is requeued.

    python3 tests/stack/check_slurm.py [--aiperf PATH] [--keep]
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import aiperf
import documents
import slurm
from processes import Process, wait_until
from report import Report

TASKS = 4
REQUESTS = 80

# The model's tokenizer is not needed, and the first scrape of the server takes time.
COMMON = ["--tokenizer", "builtin", "--model", "mock-model", "--isl", "20", "--osl", "4",
          "--streaming", "--no-server-metrics", "--ui", "none"]  # fmt: skip
COUNT = ["--concurrency", "8", "--request-count", REQUESTS]
# Longer than the test; few requests, so that all jobs have time on a small machine.
LONG = ["--request-rate", "20", "--benchmark-duration", "600"]

# Task 3 starts aiperf once the others have agreed on a start without it.
LATE = """#!/bin/sh
#SBATCH --ntasks=4
srun sh -c 'if [ "$SLURM_PROCID" = 3 ]; then
  until [ -e late/.barrier/start.json ]; do sleep 0.1; done
fi
exec aiperf profile "$@" --random-seed 7 --shard auto --artifact-dir late' aiperf "$@"
"""


class Job:
    """A job whose shards write to `run-ID`."""

    def __init__(self, cluster, program, name, script, flags, folder=None):
        self.cluster = cluster
        self.began = time.monotonic()
        path = f"{program.parent}:/usr/sbin:/usr/bin:/sbin:/bin"
        self.id = cluster.submit(name, script, *flags, environment={"PATH": path})
        self.folder = cluster.jobs / (folder or f"run-{self.id}")

    def wait(self):
        """Its states at its end, and the seconds until then."""
        states = self.cluster.wait(self.id)
        return states, time.monotonic() - self.began

    def output(self):
        """What it printed."""
        paths = sorted(self.cluster.jobs.glob(f"slurm-{self.id}*.out"))
        return "".join(path.read_text() for path in paths)

    def summary(self, name="combined"):
        """The summary of one of its directories."""
        return json.loads((self.folder / name / "profile_export_aiperf.json").read_text())

    def shards(self):
        """The summaries of its shards, by directory."""
        return {path.name: self.summary(path.name) for path in sorted(self.folder.glob("shard-*"))
                if (path / "profile_export_aiperf.json").exists()}  # fmt: skip

    def is_sending(self):
        """Whether every shard has written records."""
        files = list(self.folder.glob("shard-*/profile_export.jsonl"))
        return len(files) == TASKS and all(file.stat().st_size > 0 for file in files)


def check(report, program, keep=False):
    """All jobs at the same time, each with what it must leave."""
    began = time.monotonic()
    # The path of a socket is limited, so it is not in the repository.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="aiperf-slurm-"))
    cluster = None
    try:
        cluster = slurm.Slurm(folder)
        server = aiperf.MockServer(program, folder, "mock", "--ttft", "20ms", "--itl", "2ms")
        job, array = documents.batch_scripts(documents.SCALING)
        start = lambda name, script, flags, place=None: Job(  # noqa: E731
            cluster, program, name, script, [*COMMON, "--url", server.url, *flags], place)  # fmt: skip
        killed = start("killed", job, LONG)
        requeued = start("requeued", job, LONG)
        late = start("late", LATE, [*COUNT, "--wait-for-shards-timeout", "15"], "late")
        whole = start("job", job, COUNT)
        tasks = start("array", array, COUNT)
        for one in (killed, requeued):
            wait_until(f"job {one.id} sends", one.is_sending, seconds=60)
        os.kill(slurm.tasks(program, killed.id)[2], signal.SIGKILL)
        first_id = json.loads((requeued.folder / "shard-0/run_manifest.json").read_text())["benchmark_id"]
        cluster.requeue(requeued.id)
        for number in (0, 1, 3):
            os.kill(slurm.tasks(program, killed.id)[number], signal.SIGINT)
        check_whole(report, whole)
        check_whole(report, tasks)
        check_late(report, late)
        check_killed(report, killed)
        check_requeued(report, cluster, program, requeued, first_id)
        report.section("Slurm")
        print(f"took {time.monotonic() - began:.0f} s", flush=True)
    finally:
        if cluster:
            cluster.end()
        Process.kill_all()
        if keep or report.failures:
            print(f"logs and files are in {folder}")
        else:
            shutil.rmtree(folder)


def check_whole(report, job):
    """A run of four tasks on two nodes, or of four jobs of an array."""
    report.section(f"Slurm: {job.id}")
    states, seconds = job.wait()
    report.equal("states", set(states), {"COMPLETED"})
    combined, shards = job.summary(), job.shards()
    report.equal("requests", combined["request_count"]["avg"], float(REQUESTS))
    report.equal("complete", combined["is_complete"], True)
    report.equal("shards", list(shards), [f"shard-{index}" for index in range(TASKS)])
    report.equal("identifiers", {one["benchmark_id"] for one in shards.values()}, {combined["benchmark_id"]})
    report.equal("starts", {one["start_at_ns"] for one in shards.values()}, {combined["start_at_ns"]})
    report.equal("absent", {tuple(one["agreement"]["absent"]) for one in shards.values()}, {()})
    report.equal("results are printed once", job.output().count("Client health:"), 1)
    clocks = combined["shards"]
    detail = f"{clocks['clock_spread_ms']:.2f} ms ± {clocks['clock_spread_error_ms']:.2f} ms, {seconds:.0f} s"
    report.holds("clocks of one machine", clocks["clock_spread_ms"] <= clocks["clock_spread_error_ms"], detail)


def check_late(report, job):
    """Three tasks start; the fourth one sends nothing and says why."""
    report.section(f"Slurm: {job.id}, a late task")
    states, _ = job.wait()
    report.equal("states", states, ["FAILED"])
    combined, output = job.summary(), job.output()
    report.equal("missing", combined["shards"]["missing"], [3])
    report.equal("reason", combined["incomplete_reason"], "1 of 4 shards are missing: 3")
    report.equal("requests", combined["request_count"]["avg"], REQUESTS * 3 / 4)
    report.equal("absent", combined and job.summary("shard-0")["agreement"]["absent"], [3])
    report.holds("shard 0 says it", "1 of 4 shards were not ready within 15 s" in output)
    report.holds("the late task says it", "shard 3 was ready too late" in output)
    report.holds("and it did not write records", not (job.folder / "shard-3/profile_export.jsonl").exists())


def check_killed(report, job):
    """One task is killed, and the others are interrupted: its records count, and nothing waits for it
    for long."""
    report.section(f"Slurm: {job.id}, a killed task")
    job.wait()
    combined = job.summary()
    reason = combined["incomplete_reason"]
    report.holds("reason", "shard 2: it ended before it could write its summary" in reason, reason)
    records = {part["index"]: part["records"] for part in combined["shards"]["parts"]}
    report.holds("records of each shard", len(records) == TASKS and min(records.values()) > 0, f"{records}")
    report.equal("missing", combined["shards"]["missing"], [])


def check_requeued(report, cluster, program, job, first_id):
    """The second attempt is a run of its own, whatever the first one left."""
    report.section(f"Slurm: {job.id}, requeued")
    second = lambda: json.loads(  # noqa: E731
        (job.folder / "shard-0/run_manifest.json").read_text())["benchmark_id"] != first_id  # fmt: skip
    wait_until("the second attempt starts", second, seconds=60)
    wait_until("the second attempt sends", job.is_sending, seconds=30)
    for process in slurm.tasks(program, job.id).values():
        os.kill(process, signal.SIGINT)
    job.wait()
    combined, shards = job.summary(), job.shards()
    report.equal("shards", list(shards), [f"shard-{index}" for index in range(TASKS)])
    report.equal("identifiers", {one["benchmark_id"] for one in shards.values()}, {combined["benchmark_id"]})
    report.holds("not that of the first attempt", combined["benchmark_id"] != first_id)
    report.equal("absent", {tuple(one["agreement"]["absent"]) for one in shards.values()}, {()})
    aside = sorted(path.parent.name for path in job.folder.glob("shard-*/previous-1"))
    report.equal("files of the first attempt", aside, sorted(shards))


def main():
    """Parses the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--aiperf", metavar="PATH", help="the program, instead of a release build")
    parser.add_argument("--keep", action="store_true", help="keep logs and files")
    arguments = parser.parse_args()
    report = Report()
    check(report, aiperf.binary(arguments.aiperf), arguments.keep)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
