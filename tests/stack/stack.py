"""The programs of one mode, and what is done with them."""

import tempfile
import time
from pathlib import Path

import build
import check_delivery
import check_names
import check_prometheus
import check_server
import dynamo
import panels
import registry
from aiperf import REPOSITORY, MockServer, Run
from collector import Collector
from processes import wait_until
from prometheus import Prometheus
from runs import DYNAMO, INTERRUPTED, MOCK

CACHE = REPOSITORY / "target/stack"

# Longer than aiperf's interval between two exports, so that one must fail.
OUTAGE_SECONDS = 3
# The capped final waits of aiperf's senders, with room for a busy machine.
DEAD_COLLECTOR_SECONDS = 30


class Stack:
    """The programs of one mode, and the runs that were made in them."""

    def __init__(self, report, program, python, mode):
        self.report = report
        self.mode = mode
        programs = _prometheus(mode), build.collector()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{mode}-", dir=CACHE))
        self._aiperf = program
        self._metrics = registry.read(REPOSITORY / "semconv")
        self.prometheus = Prometheus(programs[0], self.folder, mode)
        url = self.prometheus.url
        self.collector = Collector(programs[1], self.folder, mode, url)
        self.prometheus.start(self.collector.scraped)
        self.collector.start()
        self.dynamo = dynamo.Dynamo(python, self.folder)
        self.runs = []
        self._exposed = {}

    def begin(self, name, server, flags, otel_url=None):
        """Starts a run."""
        also = [part for url in server.metrics_urls[1:] for part in ("--server-metrics", url)]
        otel_url = otel_url or self.collector.otlp_grpc
        return Run(self._aiperf, name, server.url, otel_url, self.folder, [*flags, *also])

    def end(self, run, server):
        """Waits for a run, and keeps what its server exposes then."""
        run.finish()
        self.runs.append(run)
        self._exposed[run.name] = check_server.metrics(server)
        print(f"{run.name} took {run.seconds:.1f} s", flush=True)
        return run

    def run(self, name, server, flags, otel_url=None):
        """A whole run."""
        return self.end(self.begin(name, server, flags, otel_url), server)

    def run_dynamo(self, name, flags):
        """A run against Dynamo, checked against what Dynamo counted meanwhile."""
        before = check_server.metrics(self.dynamo)[self.dynamo.metrics_urls[0]]
        run = self.run(name, self.dynamo, [*DYNAMO, *flags])
        self.check_dynamo(run, before)

    def check_dynamo(self, run, before):
        """Dynamo's own counters and histogram against the run's files."""
        after = self._exposed[run.name][self.dynamo.metrics_urls[0]]
        self.report.section(f"{run.name}: the server's own counts")
        check_server.check_counts(self.report, run, before, after)
        check_server.check_ttft(self.report, run, before, after)

    def run_mock(self, name, script, flags):
        """A run against a mock server of its own."""
        server = MockServer(self._aiperf, self.folder, f"{name}-server", *script)
        # Half of the runs take the other protocol.
        by_http = len(self.runs) % 2 == 0
        otel_url = self.collector.otlp_http if by_http else self.collector.otlp_grpc
        self.run(name, server, [*MOCK, *flags], otel_url)
        server.process.stop()

    def check_run(self, run, outage=False):
        """The run's files, its own report and Prometheus."""
        series = self.prometheus.of_run(run.id)
        self.report.section(f"{run.name}: delivery")
        check_delivery.check_report(self.report, run, outage)
        self.report.section(f"{run.name}: Prometheus and the files")
        check_prometheus.check(self.report, run, series, self._metrics)
        for url, server in self._exposed[run.name].items():
            check_server.check_forwarded(self.report, url, server, series)

    def check_all(self):
        """All runs up to now, and the Collector that took them."""
        self.prometheus.catch_up(self.collector)
        self.report.section("the Collector")
        points = [run.summary["telemetry"]["scrapes"]["points_forwarded"] for run in self.runs]
        accepted = check_delivery.check_collector(self.report, self.collector, sum(points))
        self.report.section("the file exporter")
        path = self.collector.file
        check_delivery.check_file(self.report, path, self._metrics, self.runs, accepted)
        for run in self.runs:
            self.check_run(run)

    def survive_restart(self):
        """The Collector is killed in mid-run, and comes back: nothing is missing."""
        before = check_server.metrics(self.dynamo)[self.dynamo.metrics_urls[0]]
        run = self.begin_interrupted("restart")
        time.sleep(OUTAGE_SECONDS)
        self.collector.start()
        self.report.section("restart: the Collector")
        self.report.equal("the run was over before it was back", run.process.ended(), False)
        self.end(run, self.dynamo)
        self.prometheus.catch_up(self.collector)
        check_delivery.check_collector(self.report, self.collector, 1)
        telemetry = run.summary["telemetry"]
        failed = telemetry["exports_failed"] + telemetry["scrapes"]["requests_failed"]
        self.report.holds("exports failed meanwhile", failed > 0, f"{failed} > 0")
        self.check_dynamo(run, before)
        self.check_run(run, outage=True)

    def survive_loss(self):
        """The Collector is killed and stays away: the run ends well, soon, and says so."""
        run = self.begin_interrupted("loss")
        self.end(run, self.dynamo)
        ended = time.time()
        report, telemetry = self.report, run.summary["telemetry"]
        report.section("loss: a Collector that does not come back")
        last = max(record["metadata"]["request_end_ns"] for record in run.records) / 1e9
        waited, bound = ended - last, DEAD_COLLECTOR_SECONDS
        report.holds("end after the last answer", waited < bound, f"{waited:.1f} s < {bound} s")
        report.equal("the last export was delivered", telemetry["delivered_final"], False)
        delivered = telemetry["scrapes"]["delivered_final"]
        report.equal("the last scrape was delivered", delivered, False)
        failed = telemetry["exports_failed"]
        report.holds("failed exports", failed > 0, f"{failed} > 0")
        requests = len(run.records)
        report.equal("requests in the files", requests, run.summary["request_count"]["avg"])
        arrived = self._sent(run)
        part = 0 < arrived < requests
        report.holds("Prometheus has what arrived before", part, f"0 < {arrived:g} < {requests}")

    def begin_interrupted(self, name):
        """Starts a run of fifteen seconds, and kills the Collector once Prometheus has
        something of it."""
        known = self._runs_known()
        run = self.begin(name, self.dynamo, [*DYNAMO, *INTERRUPTED])
        new = lambda: self._runs_known() - known  # noqa: E731
        wait_until("Prometheus has the run's first export", new, 30, [run.process])
        self.collector.kill()
        return run

    def _runs_known(self):
        found = self.prometheus.query("last_over_time(aiperf_timing_requests_sent_total[2h])")
        return {series.labels["aiperf_benchmark_id"] for series in found}

    def _sent(self, run):
        return sum(
            series.value
            for series in self.prometheus.of_run(run.id)
            if series.name == "aiperf_timing_requests_sent_total"
        )

    def check_names(self):
        """The names and labels in Prometheus are those of the table in the documents,
        which is of explicit histograms."""
        self.prometheus.catch_up(self.collector)
        self.report.section("names and labels of the documents")
        notes, problems = check_names.check(self.prometheus.url, check_names.TABLE)
        self.report.equal(f"{notes[-1]}; wrong", problems, [])

    def check_panels(self):
        """Each query of the dashboards has data, where the run has what it is about."""
        self.report.section("dashboards")
        run, baseline = (next(run for run in self.runs if run.name == name)
                         for name in ("dynamo-rate", "dynamo-closed"))  # fmt: skip
        stamps = [record["metadata"]["request_end_ns"] / 1e9 for record in run.records]
        begin, end = min(stamps) - 10, max(stamps) + 10
        results = panels.evaluate(
            self.prometheus.url, REPOSITORY / "dashboards", run.id, None, begin, end,
            present={"dynamo", "cache"}, baseline=baseline.id,
        )  # fmt: skip
        for dashboard, panel, query, value, has_data in results:
            if has_data is not None:
                self.report.holds(f"{dashboard}: {panel}: {query}", has_data, value)


def _prometheus(mode):
    return build.prometheus2() if mode == "scrape" else build.prometheus3()
