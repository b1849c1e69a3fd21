"""Runs of aiperf, and what their files say."""

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
    """The program: `given`, else a release build of this repository."""
    if given:
        path = Path(given).resolve()
        if not path.is_file():
            raise StackError(f"--aiperf {given}: there is no such file")
        return path
    subprocess.run(["cargo", "build", "--locked", "--release"], cwd=REPOSITORY, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")
    return Path(target) / "release/aiperf"


class Files:
    """What a run, or a report of several, left in its folder."""

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

    @property
    def id(self):
        """The run's identifier, the same in files and series."""
        return self.summary["benchmark_id"]

    def flag(self, name):
        """The value of one of its flags; None where it has none."""
        return self.flags[self.flags.index(name) + 1] if name in self.flags else None

    def is_exponential(self):
        """Whether its histograms are exponential."""
        return self.flag("--otel-histograms") == "exponential"

    @property
    def instance(self):
        """What tells its series from those of other shards."""
        shard = self.flag("--shard")
        return f"{self.id}-{shard.split('/')[0]}" if shard else self.id

    def scrapes_servers(self):
        """Of shards the first one alone does."""
        return (self.flag("--shard") or "0/1").startswith("0/")


class Run(Files):
    """One `aiperf profile`: under way, then its files."""

    def __init__(self, program, name, url, otel_url, folder, flags):
        super().__init__(name, folder / name, flags)
        self.url = url
        command = [program, "profile", "--url", url, "--otel-url", otel_url, "--ui", "none"]
        command += ["--artifact-dir", self.folder, "--random-seed", "7", *self.flags]
        self._started = time.monotonic()
        # The ports are others than the usual ones: gRPC has to be asked for.
        by_grpc = {} if "/v1/" in otel_url else {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        self.process = Process(name, command, folder / f"{name}.log", by_grpc)
        self.seconds = None

    def finish(self):
        """Waits for its end; it must have ended well."""
        code = self.process.wait(LONGEST_RUN)
        self.seconds = time.monotonic() - self._started
        if code != 0:
            raise StackError(f"aiperf ended with {code} in {self.name}\n{self.process.tail()}")
        return self


def combine(program, name, runs, folder):
    """`aiperf report` of several runs: the files of all together."""
    combined = Files(name, folder / name)
    command = [program, "report", *(run.folder for run in runs), "--artifact-dir", combined.folder]
    process = Process(name, command, folder / f"{name}.log")
    code = process.wait(LONGEST_RUN)
    if code != 0:
        raise StackError(f"aiperf report ended with {code} in {name}\n{process.tail()}")
    return combined


class MockServer:
    """`aiperf mock-server`, scripted by flags."""

    model = "mock-model"

    def __init__(self, program, folder, name, *flags):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.metrics_urls = [f"{self.url}/metrics"]
        command = [program, "mock-server", "--port", port, *flags]
        self.process = Process(name, command, folder / f"{name}.log")
        ready = lambda: fetch(f"{self.url}/v1/models")  # noqa: E731
        wait_until("the mock server answers", ready, alive=[self.process])
