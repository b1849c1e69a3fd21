"""Runs of aiperf, and the contents of their files."""

import json
import os
import subprocess
import time
from functools import cached_property
from pathlib import Path

from processes import Process, StackError, fetch, free_port, wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
TINY_MODEL = REPOSITORY / "tests/golden/tiny-model"

# Longer than any run here takes; the programs share a small machine.
LONGEST_RUN = 120


def binary(given):
    """The path of the program: `given`, or else a release build of this repository."""
    if given:
        path = Path(given).resolve()
        if not path.is_file():
            raise StackError(f"--aiperf {given}: the file does not exist")
        return path
    subprocess.run(["cargo", "build", "--locked", "--release"], cwd=REPOSITORY, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")
    return Path(target) / "release/aiperf"


class Files:
    """The files of a run, or of a report of several runs, in their directory."""

    def __init__(self, name, folder, flags=()):
        self.name = name
        self.folder = folder
        self.flags = [str(flag) for flag in flags]

    @cached_property
    def summary(self):
        """`profile_export_aiperf.json`."""
        return json.loads((self.folder / "profile_export_aiperf.json").read_text())

    @cached_property
    def records(self):
        """The lines of `profile_export.jsonl`."""
        with open(self.folder / "profile_export.jsonl") as lines:
            return [json.loads(line) for line in lines]

    @cached_property
    def turns(self):
        """The number of turns of each conversation, from `inputs.json` if there is one."""
        path = self.folder / "inputs.json"
        sessions = json.loads(path.read_text())["data"] if path.exists() else []
        return {session["session_id"]: len(session["payloads"]) for session in sessions}

    @property
    def id(self):
        """The run's identifier, the same in files and series."""
        return self.summary["benchmark_id"]

    def flag(self, name):
        """The value of one of its flags; None if it is not set."""
        return self.flags[self.flags.index(name) + 1] if name in self.flags else None

    def is_exponential(self):
        """Whether its histograms are exponential."""
        return self.flag("--otel-histograms") == "exponential"

    @property
    def shard_index(self):
        """The label that distinguishes its series from those of other shards; None without shards."""
        shard = self.flag("--shard")
        return shard.split("/")[0] if shard else None

    def scrapes_servers(self):
        """Whether it scrapes; of several shards, only the first one does."""
        return (self.flag("--shard") or "0/1").startswith("0/")


class Run(Files):
    """One `aiperf profile`, in progress and then with its files."""

    def __init__(self, program, name, url, otel_url, folder, flags):
        super().__init__(name, folder / name, flags)
        self.url = url
        command = [program, "profile", "--url", url, "--otel-url", otel_url, "--ui", "none"]
        command += ["--otel-metrics", "full"]
        command += ["--artifact-dir", self.folder, "--random-seed", "7", *self.flags]
        self._started = time.monotonic()
        # The ports are not the standard ones, so gRPC must be selected.
        by_grpc = {} if "/v1/" in otel_url else {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        self.process = Process(name, command, folder / f"{name}.log", by_grpc)
        self.seconds = None

    def finish(self):
        """Waits for its end; it must succeed."""
        code = self.process.wait(LONGEST_RUN)
        self.seconds = time.monotonic() - self._started
        if code != 0:
            raise StackError(f"aiperf ended with {code} in {self.name}\n{self.process.tail()}")
        return self


def combine(program, name, runs, folder):
    """`aiperf report` of several runs, with the combined files."""
    combined = Files(name, folder / name)
    command = [program, "report", *(run.folder for run in runs), "--artifact-dir", combined.folder]
    process = Process(name, command, folder / f"{name}.log")
    code = process.wait(LONGEST_RUN)
    if code != 0:
        raise StackError(f"aiperf report ended with {code} in {name}\n{process.tail()}")
    return combined


class MockServer:
    """`aiperf mock-server`, configured by flags."""

    model = "mock-model"

    def __init__(self, program, folder, name, *flags):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.metrics_urls = [f"{self.url}/metrics"]
        command = [program, "mock-server", "--port", port, *flags]
        self.process = Process(name, command, folder / f"{name}.log")
        ready = lambda: fetch(f"{self.url}/v1/models")  # noqa: E731
        wait_until("the mock server answers", ready, alive=[self.process])
