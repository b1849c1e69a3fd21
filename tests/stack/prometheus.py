"""Prometheus, with the provided configuration, and its responses."""

import json
import shutil
import time
import urllib.parse
from dataclasses import dataclass

import documents
from collector import CONFIGURATION
from processes import Process, fetch, free_port, wait_until

# Prometheus' configuration file, and the flags that each way of receiving metrics requires.
BY_MODE = {
    "scrape": ("prometheus-2.yaml", []),
    "otlp": ("prometheus.yaml", ["--web.enable-otlp-receiver"]),
    "remote-write": ("prometheus.yaml", ["--web.enable-remote-write-receiver"]),
}

# Longer than the whole test.
ALL_OF_IT = "2h"


@dataclass(frozen=True)
class Series:
    """A series and its last value, which may be a native histogram."""

    labels: dict
    value: float
    histogram: dict

    @property
    def name(self):
        """Its name."""
        return self.labels["__name__"]


class Prometheus:
    """A Prometheus on its own port and in its own directory."""

    def __init__(self, program, folder, mode):
        self._program = program
        self._folder = folder
        self._mode = mode
        port = free_port()
        self._address = f"127.0.0.1:{port}"
        self.url = f"http://{self._address}"
        self.process = None

    def start(self, targets):
        """Starts it, to scrape `targets`."""
        configuration, flags = BY_MODE[self._mode]
        own = self._folder / "prometheus"
        own.mkdir()
        shutil.copy(CONFIGURATION / configuration, own)
        # The file that is intended to differ between installations.
        (own / "targets.yaml").write_text(json.dumps([{"targets": targets}]))
        shutil.copy(CONFIGURATION / "rules.yaml", own)
        # The documented rules, beside those that are provided.
        (own / "scaling.yaml").write_text(documents.rules(documents.SCALING))
        text = (own / configuration).read_text()
        (own / configuration).write_text(text.replace("[rules.yaml]", "[rules.yaml, scaling.yaml]"))
        command = [self._program, f"--config.file={own / configuration}", *flags]
        command += [f"--web.listen-address={self._address}", f"--storage.tsdb.path={own / 'data'}"]
        command += ["--enable-feature=exemplar-storage"]
        self.process = Process("Prometheus", command, self._folder / "prometheus.log")
        ready = lambda: fetch(f"{self.url}/-/ready")  # noqa: E731
        wait_until("Prometheus is ready", ready, 60, [self.process])

    def query(self, expression):
        """The series that an instant query returns."""
        parameters = urllib.parse.urlencode({"query": expression})
        answer = json.loads(fetch(f"{self.url}/api/v1/query?{parameters}", timeout=30))
        return [_series(result) for result in answer["data"]["result"]]

    def exemplars(self, selector, since):
        """The exemplars of the series that match, since a time in seconds since the epoch."""
        asked = {"query": selector, "start": since, "end": time.time()}
        answer = json.loads(fetch(f"{self.url}/api/v1/query_exemplars?{urllib.parse.urlencode(asked)}"))
        return [exemplar for series in answer["data"] for exemplar in series["exemplars"]]

    def query_range(self, expression, start, end, step):
        """The (labels, values by time) that a range query returns."""
        asked = {"query": expression, "start": start, "end": end, "step": step}
        answer = json.loads(fetch(f"{self.url}/api/v1/query_range?{urllib.parse.urlencode(asked)}"))
        return [
            (result["metric"], {time: float(value) for time, value in result["values"]})
            for result in answer["data"]["result"]
        ]

    def of_run(self, run_id):
        """Every series of a run with its last value, even if the series has ended."""
        return self.query(f'last_over_time({{aiperf_benchmark_id="{run_id}"}}[{ALL_OF_IT}])')

    def has_scraped_since(self, instant):
        """Whether each target was scraped successfully by a scrape that started after `instant`."""
        answer = json.loads(fetch(f"{self.url}/api/v1/targets?state=active"))
        targets = len(answer["data"]["activeTargets"])
        up, stamps = self.query("up"), self.query("timestamp(up)")
        return (
            0 < targets == len(up) == len(stamps)
            and all(series.value == 1 for series in up)
            and all(series.value > instant for series in stamps)
        )

    def catch_up(self, collector):
        """Waits until it has the current data of the Collector."""
        collector.drain()
        if self._mode != "scrape":
            return
        now = time.time()
        ready = lambda: self.has_scraped_since(now)  # noqa: E731
        wait_until("Prometheus has scraped the Collector", ready, 30, [self.process])


def _series(result):
    _, value = result.get("value", (0, "nan"))
    histogram = result["histogram"][1] if "histogram" in result else None
    return Series(result["metric"], float(value), histogram)
