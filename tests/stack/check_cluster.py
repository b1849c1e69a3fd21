#!/usr/bin/env python3
"""The manifests of collector-config in a Kubernetes of one node: a benchmark whose pods agree on a start, a
pod that is replaced before it, one that is killed after it, and the report of a run whose first pod was
killed. The API server accepts the Collector, but its image is not there to be run. It needs root and Debian's
packages that cluster.py names; building Kubernetes takes half an hour, so CI does not run it.

    python3 tests/stack/check_cluster.py [--aiperf PATH] [--keep]
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime

import aiperf
import build
import cluster
from processes import Process, wait_until
from report import Report

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = HERE.parents[1] / "collector-config"
PODS, REQUESTS = 4, 4000


class Benchmark:
    """The manifests of `kubernetes/benchmark`, and one run with them at a time."""

    def __init__(self, nodes, folder):
        self.nodes = nodes
        self.folder = folder / "config"
        shutil.copytree(CONFIG, self.folder)
        for name in ("benchmark", "report"):
            small = self.folder / f"small-{name}"
            small.mkdir()
            text = (HERE / "kubernetes/small.yaml").read_text().replace("DIRECTORY", f"../kubernetes/{name}")
            (small / "kustomization.yaml").write_text(text)
        self._set("MODEL", aiperf.MockServer.model)
        # Short prompts, so that a debug build on two cores has its dataset in time.
        job = self.folder / "kubernetes/benchmark/job.yaml"
        job.write_text(job.read_text().replace("- --streaming", "- --streaming\n            - --isl=20"))

    def start(self, run):
        """Starts a run, as the comments in kustomization.yaml say."""
        self.run = run
        self.results = self.nodes.volume / run
        self._set("RUN", run)
        self.nodes.kubectl("delete", "job", "aiperf", "--ignore-not-found")
        self.nodes.kubectl("apply", "--kustomize", self.folder / "small-benchmark")
        self.created = time.time()

    def report(self):
        """Combines the shards of the run in the Job for it, and returns its log."""
        self.nodes.kubectl("delete", "job", "aiperf-report", "--ignore-not-found")
        self.nodes.kubectl("apply", "--kustomize", self.folder / "small-report")
        self.wait("aiperf-report")
        return self.nodes.kubectl("logs", "job/aiperf-report")

    def wait(self, job="aiperf", seconds=240):
        """The status of a Job at its end, with the types of its conditions as `ended`."""
        def ended():
            status = self.nodes.get("job", job)["status"]
            status["ended"] = {one["type"]: one for one in status.get("conditions", []) if one["status"] == "True"}
            return status if {"Complete", "Failed"} & status["ended"].keys() else None  # fmt: skip

        return wait_until(f"the Job {job} ends", ended, seconds)

    def summary(self, name="combined"):
        """The summary of one of the run's directories."""
        return json.loads((self.results / name / "profile_export_aiperf.json").read_text())

    def pods(self, index=None):
        """The pods of its Job, or those with an index, in the order of their creation."""
        found = self.nodes.pods("aiperf")
        return [pod for pod in found if index is None or _index(pod) == index]

    def is_sending(self):
        """Whether every shard has written records."""
        files = list(self.results.glob("shard-*/profile_export.jsonl"))
        return len(files) == PODS and all(file.stat().st_size > 0 for file in files)

    def kill(self, index):
        """Kills the process of a pod (SIGKILL)."""
        (pod,) = self.pods(index)
        (process,) = self.nodes.processes(pod)
        os.kill(process, signal.SIGKILL)

    def _set(self, name, value):
        path = self.folder / "kubernetes/benchmark/run.env"
        path.write_text(re.sub(rf"^{name}=.*", f"{name}={value}", path.read_text(), flags=re.MULTILINE))


def check(report, program, keep=False):
    """Starts the cluster, and checks each run."""
    # Containers mount it, so its path is short, and all may enter it.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="aiperf-cluster-"))
    folder.chmod(0o755)
    nodes = None
    try:
        began = time.monotonic()
        nodes = cluster.Cluster(folder, build.kubernetes())
        report.section("Kubernetes")
        print(f"started within {time.monotonic() - began:.0f} s", flush=True)
        add_image(nodes, program)
        benchmark = Benchmark(nodes, folder)
        check_manifests(report, benchmark)
        check_replaced(report, benchmark)
        check_killed(report, benchmark)
        check_first_killed(report, benchmark)
    finally:
        if nodes:
            nodes.end()
        Process.kill_all()
        if keep or report.failures:
            print(f"logs and files are in {folder}")
        else:
            shutil.rmtree(folder)


def add_image(nodes, program):
    """An image as that of the Dockerfile, with the libraries of a program that is not static."""
    root = nodes.folder / "image"
    for name in ("usr/local/bin", "tmp", "artifacts", "etc/ssl/certs"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    subprocess.run(["strip", "-o", root / "usr/local/bin/aiperf", program], check=True)
    linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+) \(", linked):
        copy = root / library[1:]
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, copy)
    manifest = (CONFIG / "kubernetes/benchmark/kustomization.yaml").read_text()
    version = re.search(r"newTag: (\S+)", manifest).group(1)
    nodes.image(f"docker.io/library/aiperf:{version}", root, ["/usr/local/bin/aiperf"], "65532:65532")


def check_manifests(report, benchmark):
    """The API server accepts all."""
    nodes = benchmark.nodes
    nodes.kubectl("apply", "--kustomize", benchmark.folder)
    volume = (HERE / "kubernetes/volume.yaml").read_text().replace("VOLUME", str(nodes.volume))
    nodes.kubectl("apply", "--filename=-", given=volume)
    nodes.kubectl("scale", "deployment/collector", "--replicas=0")
    nodes.resolve()
    for name in ("benchmark", "report"):
        said = nodes.kubectl("apply", "--dry-run=server", "--kustomize", benchmark.folder / "kubernetes" / name)
        report.holds(f"kubernetes/{name} is accepted", "job.batch/aiperf" in said, " ".join(said.split()))


def check_replaced(report, benchmark):
    """A pod that is killed before the start is replaced, and then all shards start together."""
    report.section("a pod that is replaced before the start")
    nodes = benchmark.nodes
    benchmark.start("run-1")
    running = lambda: len([pod for pod in benchmark.pods() if pod["status"]["phase"] == "Running"]) == PODS  # noqa: E731
    wait_until("all pods run", running, seconds=60)
    print(f"all pods ran {time.time() - benchmark.created:.1f} s after the Job's creation", flush=True)
    # They wait for the server, which is not there yet.
    benchmark.kill(3)
    again = lambda: [pod for pod in benchmark.pods(3) if pod["status"]["phase"] == "Running"]  # noqa: E731
    wait_until("the replacement runs", again, seconds=60)
    nodes.kubectl("apply", "--filename", HERE / "kubernetes/server.yaml")
    nodes.resolve()
    status = benchmark.wait()
    report.holds("the Job is complete", "Complete" in status["ended"], f"{status}")
    combined = benchmark.summary()
    report.equal("requests", combined["request_count"]["avg"], float(REQUESTS))
    report.equal("complete", combined["is_complete"], True)
    shards = [benchmark.summary(f"shard-{index}") for index in range(PODS)]
    report.equal("starts", {one["start_at_ns"] for one in shards}, {combined["start_at_ns"]})
    report.equal("absent", {tuple(one["agreement"]["absent"]) for one in shards}, {()})
    print(f"spread of the starts: {combined['shards']}", flush=True)
    log = nodes.kubectl("logs", benchmark.pods(0)[-1]["metadata"]["name"])
    report.equal("pod 0 prints the results", log.count("Client health:"), 1)


def check_killed(report, benchmark):
    """The others go on without a killed pod, and its replacement does not send."""
    report.section("a pod that is killed after the start")
    benchmark.start("run-2")
    wait_until("all shards send", benchmark.is_sending, seconds=120)
    benchmark.kill(2)
    status = benchmark.wait()
    report.holds("the Job has failed", "Failed" in status["ended"], f"{status['ended']}")
    report.equal("succeeded", status.get("completedIndexes"), "0,1,3")
    report.equal("failed", status.get("failedIndexes"), "2")
    codes = [_exit_code(pod) for pod in benchmark.pods(2)]
    report.equal("exit codes of pod 2", codes, [137, 1])
    said = benchmark.nodes.kubectl("logs", benchmark.pods(2)[-1]["metadata"]["name"])
    report.holds("its replacement leaves its files", "of an earlier run, which is not overwritten" in said, said)
    combined = benchmark.summary()
    records = {part["index"]: part["records"] for part in combined["shards"]["parts"]}
    whole = REQUESTS // PODS
    report.equal("records of the others", [records[index] for index in (0, 1, 3)], [whole] * 3)
    report.holds("records of the killed one", 0 < records[2] < whole, f"{records[2]}")
    report.holds("reason", "shard 2" in combined["incomplete_reason"], combined["incomplete_reason"])


def check_first_killed(report, benchmark):
    """Nobody combines without shard 0, so the report Job does."""
    report.section("the first pod is killed")
    benchmark.start("run-3")
    wait_until("all shards send", benchmark.is_sending, seconds=120)
    benchmark.kill(0)
    status = benchmark.wait()
    report.equal("succeeded", status.get("completedIndexes"), "1-3")
    report.holds("nothing is combined", not (benchmark.results / "combined").exists())
    said = benchmark.report()
    combined = benchmark.summary()
    report.holds("the report says whose part is missing", "shard 0" in combined["incomplete_reason"], said[-2000:])


def _index(pod):
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


def _exit_code(pod):
    (state,) = pod["status"]["containerStatuses"]
    return state["state"].get("terminated", {}).get("exitCode")


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
