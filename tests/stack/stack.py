"""The programs of one mode, and what is done with them."""

import math
import tempfile
import time
from pathlib import Path

import build
import check_delivery
import check_names
import check_panels
import check_prometheus
import check_server
import check_shards
import check_traces
import dynamo
import panels
import registry
import spans
from aiperf import REPOSITORY, MockServer, Run, combine
from collector import Collector
from processes import wait_until
from prometheus import Prometheus
from runs import DYNAMO, GET_READY_SECONDS, INTERRUPTED, MOCK, SHARDS

CACHE = REPOSITORY / "target/stack"

# Longer than aiperf's export interval, so that an export must fail.
OUTAGE_SECONDS = 3
# The limits of the final waits of aiperf's senders, with a margin for a busy machine.
DEAD_COLLECTOR_SECONDS = 30


class Stack:
    """The programs of one mode, and the runs with them."""

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
        self.dynamo = dynamo.Dynamo(python, self.folder, self.collector.otlp_grpc)
        self.runs = []
        # Runs of several processes: the combined report, and each process.
        self.sharded = []
        self._exposed = {}

    def begin(self, name, server, flags, otel_url=None):
        """Starts a run."""
        if "--shard" not in flags:
            # If given to all shards, all of them would scrape.
            more = server.metrics_urls[1:]
            flags = [*flags, *(part for url in more for part in ("--server-metrics", url))]
        otel_url = otel_url or self.collector.otlp_grpc
        return Run(self._aiperf, name, server.url, otel_url, self.folder, flags)

    def end(self, run, server):
        """Waits for a run, and records the final expositions of its server."""
        run.finish()
        self.runs.append(run)
        self._exposed[run.name] = check_server.metrics(server)
        print(f"{run.name} took {run.seconds:.1f} s", flush=True)
        return run

    def run(self, name, server, flags, otel_url=None):
        """A whole run."""
        return self.end(self.begin(name, server, flags, otel_url), server)

    def run_dynamo(self, name, flags):
        """A run against Dynamo, compared with Dynamo's counts during the run."""
        before = check_server.metrics(self.dynamo)[self.dynamo.metrics_urls[0]]
        run = self.run(name, self.dynamo, [*DYNAMO, *flags])
        self.check_dynamo(run, before)
        check_server.check_breakdown(self.report, run)

    def check_dynamo(self, run, before):
        """Compares Dynamo's own counters and histogram with the run's files."""
        after = self._exposed[run.name][self.dynamo.metrics_urls[0]]
        self.report.section(f"{run.name}: the server's own counts")
        check_server.check_counts(self.report, run, before, after)
        check_server.check_conservation(self.report, run)
        check_server.check_ttft(self.report, run, before, after)

    def run_shards(self, name, server, flags):
        """One schedule, shared by several processes."""
        before = check_server.metrics(server)[server.metrics_urls[0]]
        start = str(math.ceil(time.time()) + GET_READY_SECONDS)
        shards = [
            self.begin(f"{name}-{index}", server,
                       [*flags, "--shard", f"{index}/{SHARDS}", "--start-at", start])
            for index in range(SHARDS)
        ]  # fmt: skip
        for shard in shards:
            self.end(shard, server)
        after = check_server.metrics(server)[server.metrics_urls[0]]
        combined = combine(self._aiperf, name, shards, self.folder)
        self.report.section(f"{name}: the shards' files, and the server's own counts")
        check_shards.check_files(self.report, shards, combined)
        check_server.check_counts(self.report, combined, before, after)
        if "server_metrics" in combined.summary:
            # Not compared if the shard that scrapes ended before the others.
            check_server.check_conservation(self.report, combined)
        self.sharded.append((combined, shards))

    def run_mock(self, name, script, flags):
        """A run against its own mock server."""
        server = self.mock(name, script)
        # Half of the runs use the other protocol.
        by_http = len(self.runs) % 2 == 0
        otel_url = self.collector.otlp_http if by_http else self.collector.otlp_grpc
        self.run(name, server, [*MOCK, *flags], otel_url)
        server.process.stop()

    def mock(self, name, script):
        """A mock server for the run `name`."""
        return MockServer(self._aiperf, self.folder, f"{name}-server", *script)

    def check_run(self, run, outage=False):
        """Compares the run's files, its own report and Prometheus."""
        series = own = self.prometheus.of_run(run.id)
        if run.flag("--shard"):
            own = [one for one in series if one.labels.get("aiperf_shard_index") == run.shard_index]
        self.report.section(f"{run.name}: delivery")
        check_delivery.check_report(self.report, run, outage)
        self.report.section(f"{run.name}: Prometheus and the files")
        check_prometheus.check(self.report, run, own, self._metrics)
        if self.mode == "scrape" and run.flag("--trace-sample"):
            check_prometheus.check_exemplars(self.report, run, self.prometheus)
        if run.flag("--shard"):
            # The server continues to count for other shards.
            return
        for url, server in self._exposed[run.name].items():
            check_server.check_forwarded(self.report, url, server, series)

    def check_shards(self):
        """Checks the series of all shards in Prometheus with the documented queries."""
        for combined, shards in self.sharded:
            self.report.section(f"{combined.name}: Prometheus and the combined files")
            series = self.prometheus.of_run(combined.id)
            check_shards.check_series(self.report, shards, combined, series, self._metrics)
            self.report.section(f"{combined.name}: the queries of docs/scaling.md")
            check_shards.check_queries(self.report, self.prometheus, combined, shards)
            check_shards.check_rules(self.report, self.prometheus, combined)

    def check_traces(self):
        """Checks the spans that the Collector received against runs and servers."""
        found = spans.read(self.collector.file)
        self.report.section("the Collector: traces")
        accepted = check_delivery.check_collector(self.report, self.collector, "spans", 1)
        self.report.equal("spans in the file", float(len(found)), accepted)
        for run in self.runs:
            if run.flag("--trace-sample"):
                self.report.section(f"{run.name}: traces")
                check_traces.check(self.report, run, found)
                if run.url == self.dynamo.url:
                    check_traces.check_dynamo(self.report, run, found, self.dynamo.log)

    def check_all(self):
        """Checks all runs up to now, and the Collector that received them."""
        self.prometheus.catch_up(self.collector)
        self.report.section("the Collector: metrics")
        points = [run.summary["telemetry"].get("scrapes", {}).get("points_forwarded", 0)
                  for run in self.runs]  # fmt: skip
        accepted = check_delivery.check_collector(
            self.report, self.collector, "metric_points", sum(points)
        )
        self.report.section("the file exporter")
        path = self.collector.file
        check_delivery.check_file(self.report, path, self._metrics, self.runs, accepted)
        for run in self.runs:
            self.check_run(run)
        self.check_shards()
        self.check_traces()

    def survive_restart(self):
        """The Collector is killed during a run and restarted: nothing is missing."""
        before = check_server.metrics(self.dynamo)[self.dynamo.metrics_urls[0]]
        run = self.begin_interrupted("restart")
        time.sleep(OUTAGE_SECONDS)
        self.collector.start()
        self.report.section("restart: the Collector")
        self.report.equal("the run was over before it was back", run.process.ended(), False)
        self.end(run, self.dynamo)
        self.prometheus.catch_up(self.collector)
        check_delivery.check_collector(self.report, self.collector, "metric_points", 1)
        telemetry = run.summary["telemetry"]
        failed = telemetry["exports_failed"] + telemetry["scrapes"]["requests_failed"]
        self.report.holds("exports failed meanwhile", failed > 0, f"{failed} > 0")
        self.check_dynamo(run, before)
        self.check_run(run, outage=True)

    def survive_loss(self):
        """The Collector is killed for good: the run ends soon and successfully, and reports it."""
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
        """Starts a run of twenty-five seconds, and kills the Collector once Prometheus has data of
        the run."""
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
        """The names and labels in Prometheus are those of the documented table, which is for
        explicit histograms."""
        self.prometheus.catch_up(self.collector)
        self.report.section("names and labels of the documents")
        notes, problems = check_names.check(self.prometheus.url, check_names.TABLE)
        self.report.equal(f"{notes[-1]}; wrong", problems, [])

    def check_panels(self):
        """Each query of the dashboards returns data, if a run has data for it. Returns the
        results."""
        self.report.section("dashboards")
        results = panels.completed(
            self._panels("dynamo-rate", {"dynamo", "cache"}, panels.USUAL, "dynamo-closed"),
            self._panels("mock-faults", {"errors", "reasoning"}, {"rate", "usage"}),
        )
        for dashboard, panel, query, value, has_data in results:
            if has_data is not None:
                self.report.holds(f"{dashboard}: {panel}: {query}", has_data, value)
        self.report.section("dashboards: values and files")
        runs = [self._run(name) for name in ("dynamo-closed", "dynamo-rate", "mock-faults")]
        start = min(record["metadata"]["request_start_ns"] for run in runs for record in run.records)
        check_panels.check(self.report, self.prometheus.url, REPOSITORY / "dashboards", runs,
                           start / 1e9 - 10, time.time())  # fmt: skip
        return results

    def _panels(self, name, present, usual, baseline=None):
        """The results of the dashboards' queries for a run."""
        run = self._run(name)
        stamps = [record["metadata"]["request_end_ns"] / 1e9 for record in run.records]
        return panels.evaluate(
            self.prometheus.url, REPOSITORY / "dashboards", run.id, None, min(stamps) - 10,
            max(stamps) + 10, present=present, baseline=baseline and self._run(baseline).id,
            usual=usual,
        )  # fmt: skip

    def _run(self, name):
        return next(run for run in self.runs if run.name == name)


def _prometheus(mode):
    return build.prometheus2() if mode == "scrape" else build.prometheus3()
