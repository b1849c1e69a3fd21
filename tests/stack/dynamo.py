"""Dynamo: its frontend, and a worker that simulates an engine."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

from aiperf import TINY_MODEL
from processes import Process, StackError, fetch, free_port, wait_until

REQUIREMENTS = Path(__file__).with_name("dynamo-requirements.txt")


def interpreter(cache):
    """The Python of the virtual environment below `cache`, which is created again when the
    requirements change."""
    folder = cache / "dynamo"
    made_from = folder / "made-from"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if not made_from.is_file() or made_from.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", folder])
        pip = [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check"]
        # Without dependencies: all are listed, and one that is not needed at run time downloads
        # files when it is built.
        _run([*pip, "--no-deps", "--requirement", REQUIREMENTS])
        made_from.write_text(wanted)
    return folder / "bin/python"


def _run(command):
    try:
        subprocess.run([str(part) for part in command], check=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        raise StackError(f"Dynamo cannot be installed: {error}") from error


class Dynamo:
    """A frontend and workers that serve the model `tiny`: one, or separate ones for prefill and
    decode. With a file for `trace`, the frontend writes the times of each request there, its router is
    that which knows the cache, and all requests are sampled that have a sampled parent."""

    model = "tiny"

    def __init__(self, python, folder, collector_url, separate=False, trace=None):
        port, ports = free_port(), [free_port() for _ in range(1 + separate)]
        self.url = f"http://127.0.0.1:{port}"
        urls = [f"http://127.0.0.1:{of_worker}/metrics" for of_worker in ports]
        self.metrics_urls = [f"{self.url}/metrics", *urls]
        discovery = folder / "dynamo-discovery"
        discovery.mkdir()
        environment = {
            "HF_HUB_OFFLINE": "1",
            "DYN_FILE_KV": str(discovery),
            "DYN_DISCOVERY_BACKEND": "file",
            "DYN_REQUEST_PLANE": "tcp",
            "DYN_EVENT_PLANE": "zmq",
            # It logs trace IDs, and exports the traces that are marked as sampled.
            "DYN_LOGGING_JSONL": "1",
            "OTEL_EXPORT_ENABLED": "true",
            "OTEL_TRACES_SAMPLER": "parentbased_always_off",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector_url,
            "OTEL_BSP_SCHEDULE_DELAY": "500",
        }
        hosts = ("TCP_RPC", "TCP_RESPONSE_STREAM", "EVENT_PLANE", "HTTP_RPC", "SYSTEM")
        environment.update({f"DYN_{host}_HOST": "127.0.0.1" for host in hosts})
        worker = [python, "-m", "dynamo.mocker", "--model-path", TINY_MODEL]
        worker += ["--model-name", self.model, "--block-size", 16, "--max-model-len", 4096]
        worker += ["--num-gpu-blocks-override", 4096, "--speedup-ratio", 1]
        roles = {"worker": []}
        if separate:
            # So slow that the transfer is longer than everything else.
            slow = ["--kv-transfer-bandwidth", 0.001, "--disaggregation-mode"]
            roles = {
                "prefill": [*slow, "prefill", "--bootstrap-ports", free_port()],
                "decode": [*slow, "decode"],
            }
        self.workers = []
        for (role, flags), of_worker in zip(roles.items(), ports):
            own = {"DYN_SYSTEM_PORT": str(of_worker), "OTEL_SERVICE_NAME": f"dynamo-{role}"}
            own = {**environment, **(own if trace else {"DYN_SYSTEM_PORT": str(of_worker)})}
            log = folder / f"dynamo-mocker-{role}.log"
            self.workers.append(Process("dynamo.mocker", [*worker, *flags], log, own, folder))
        frontend = [python, "-m", "dynamo.frontend", "--http-host", "127.0.0.1"]
        frontend += ["--http-port", port, "--router-mode", "kv" if trace else "round-robin"]
        if trace:
            environment["DYN_REQUEST_TRACE"] = "1"
            environment["DYN_REQUEST_TRACE_SINKS"] = "jsonl"
            environment["DYN_REQUEST_TRACE_OUTPUT_PATH"] = str(trace)
            environment["OTEL_SERVICE_NAME"] = "dynamo-frontend"
        self.log = folder / "dynamo-frontend.log"
        self.frontend = Process("dynamo.frontend", frontend, self.log, environment, folder)
        wait_until("Dynamo serves its model", self._serves, 90, [self.frontend, *self.workers])
        for url in urls:
            of_worker = lambda url=url: fetch(url)  # noqa: E731
            wait_until("Dynamo's worker has metrics", of_worker, 30, self.workers)

    def stop(self):
        """Ends its programs."""
        for process in (self.frontend, *self.workers):
            process.stop()

    def _serves(self):
        models = json.loads(fetch(f"{self.url}/v1/models"))["data"]
        return any(model["id"] == self.model for model in models)
