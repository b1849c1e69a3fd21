"""The Collector, with the provided configuration."""

from pathlib import Path

from exposition import Exposition
from processes import Process, fetch, free_port, wait_until

CONFIGURATION = Path(__file__).resolve().parents[2] / "collector-config"

# The file that adds each way to Prometheus; scraping needs none.
WAYS = {
    "scrape": None,
    "otlp": "to-prometheus-otlp.yaml",
    "remote-write": "to-prometheus-remote-write.yaml",
}

# The names of metrics and spans in its own metrics.
SIGNALS = ("metric_points", "spans")


class Collector:
    """A Collector that can be killed and restarted at the same addresses."""

    def __init__(self, program, folder, mode, prometheus_url):
        self._program = program
        self._folder = folder
        self.mode = mode
        names = ("OTLP_GRPC", "OTLP_HTTP", "PROMETHEUS", "TELEMETRY", "HEALTH")
        self._ports = {name: free_port() for name in names}
        self.file = folder / "otlp.jsonl"
        self._environment = {f"COLLECTOR_{name}_PORT": str(p) for name, p in self._ports.items()}
        self._environment["COLLECTOR_HOST"] = "127.0.0.1"
        self._environment["COLLECTOR_FILE"] = str(self.file)
        self._environment["PROMETHEUS_URL"] = prometheus_url
        self.otlp_grpc = f"http://127.0.0.1:{self._ports['OTLP_GRPC']}"
        # The path selects HTTP, as port 4318 would.
        self.otlp_http = f"http://127.0.0.1:{self._ports['OTLP_HTTP']}/v1/metrics"
        self.process = None

    @property
    def scraped(self):
        """The addresses that Prometheus scrapes: if metrics are pushed, only the Collector's own
        metrics, since the others would arrive twice."""
        endpoints = ["PROMETHEUS"] if self.mode == "scrape" else []
        return [f"127.0.0.1:{self._ports[name]}" for name in [*endpoints, "TELEMETRY"]]

    def start(self):
        """Starts it, and waits until it is healthy."""
        files = ["collector.yaml", "to-file.yaml", WAYS[self.mode]]
        command = [self._program]
        for file in filter(None, files):
            command += ["--config", CONFIGURATION / file]
        log = self._folder / "collector.log"
        self.process = Process("the Collector", command, log, self._environment)
        health = f"http://127.0.0.1:{self._ports['HEALTH']}/"
        wait_until("the Collector is healthy", lambda: fetch(health), 30, [self.process])

    def kill(self):
        """Kills it; the contents of its memory are lost."""
        self.process.kill()

    def telemetry(self):
        """Its own metrics. Counters may end in `_total` or not, depending on the version."""
        exposition = Exposition(fetch(f"http://127.0.0.1:{self._ports['TELEMETRY']}/metrics"))
        exposition.samples = [
            (name.removesuffix("_total"), labels, value)
            for name, labels, value in exposition.samples
        ]
        return exposition

    def accepted(self, what):
        """Items accepted since it was started; `what` is one of `SIGNALS`."""
        return self.telemetry().total(f"otelcol_receiver_accepted_{what}")

    def exporters(self, what):
        """Its exporters of these items, by name, with the number that each has sent."""
        sent = self.telemetry().series(f"otelcol_exporter_sent_{what}")
        return {labels["exporter"]: items for labels, items in sent}

    def drain(self):
        """Waits until every exporter has sent everything that was accepted."""

        def is_drained():
            for what in SIGNALS:
                accepted, sent = self.accepted(what), self.exporters(what)
                if (accepted and not sent) or any(items < accepted for items in sent.values()):
                    return False
            return True

        wait_until("the Collector's queues are empty", is_drained, 30, [self.process])
