"""Checks that everything aiperf exported has arrived: by its own report, by the Collector's
own metrics, and by the file that the Collector wrote."""

import json

KINDS = {
    "histogram": "histogram",
    "exponentialHistogram": "histogram",
    "gauge": "gauge",
    "sum": "counter",
}


def check_report(report, run, outage=False):
    """Checks aiperf's own report of a run whose Collector was available at the end; exports may
    have failed during an outage before."""
    telemetry = run.summary["telemetry"]
    report.equal("the last export was delivered", telemetry["delivered_final"], True)
    report.equal("exported is what was recorded", telemetry["reconciled"], True)
    report.equal("rejected points", telemetry["rejected_data_points"], 0)
    report.holds("exports", telemetry["exports_ok"] > 0, f"{telemetry['exports_ok']} > 0")
    if not outage:
        report.equal("failed exports", telemetry["exports_failed"], 0)
    if run.scrapes_servers():
        _check_scrapes(report, telemetry["scrapes"], outage)
    else:
        report.equal("servers are scraped by the first shard alone", telemetry.get("scrapes"), None)


def _check_scrapes(report, scrapes, outage):
    forwarded = scrapes["points_forwarded"]
    report.holds("points of servers forwarded", forwarded > 0, f"{forwarded} > 0")
    for count in ("points_rejected", "points_dropped", "points_inexpressible", "scrapes_dropped"):
        report.equal(f"{count} of servers", scrapes[count], 0)
    report.equal("the last scrape was delivered", scrapes["delivered_final"], True)
    if not outage:
        report.equal("failed requests with scrapes", scrapes["requests_failed"], 0)


def check_collector(report, collector, what, at_least):
    """Checks the Collector's own metrics: it accepted and forwarded all items of `what`, one of its
    signals. Returns the number accepted."""
    own = collector.telemetry()
    accepted = own.total(f"otelcol_receiver_accepted_{what}")
    report.holds(f"{what} accepted", accepted >= at_least > 0, f"{accepted:g} >= {at_least}")
    for exporter, sent in sorted(collector.exporters(what).items()):
        report.equal(f"{what} sent by {exporter}", sent, accepted)
    for name in (
        "receiver_refused",
        "receiver_failed",
        "processor_refused",
        "exporter_send_failed",
        "exporter_enqueue_failed",
    ):
        report.equal(f"otelcol_{name}_{what}", own.total(f"otelcol_{name}_{what}"), 0)
    for labels, capacity in own.series("otelcol_exporter_queue_capacity"):
        size = own.total("otelcol_exporter_queue_size", exporter=labels["exporter"])
        report.holds(f"queue of {labels['exporter']}", size < capacity, f"{size:g} < {capacity:g}")
    return accepted


def check_file(report, path, registry, runs, accepted):
    """Checks that the file has every accepted point, and that aiperf's match the registry."""
    points, unknown, seen = 0, set(), {}
    with open(path) as lines:
        for line in lines:
            for resource, metric in _metrics(json.loads(line)):
                data_key = next(key for key in metric if key in KINDS or key == "summary")
                points += len(metric[data_key]["dataPoints"])
                if resource.get("service.name") != "aiperf":
                    continue
                of_run = seen.setdefault(resource.get("aiperf.benchmark.id"), set())
                of_run.add(metric["name"])
                row = registry.get(metric["name"])
                kind = _kind(metric, data_key)
                if row is None or (row.instrument, row.unit) != (kind, metric.get("unit", "")):
                    unknown.add((metric["name"], kind, metric.get("unit", "")))
    report.equal("points in the file", float(points), accepted)
    report.equal("metrics in the file that are not in the registry", sorted(unknown), [])
    for run in runs:
        names = len(seen.get(run.id, ()))
        report.holds(f"metrics of {run.name} in the file", names > 0, f"{names} of {len(registry)}")


def _metrics(request):
    for resource in request.get("resourceMetrics", []):
        attributes = resource.get("resource", {}).get("attributes", [])
        named = {one["key"]: one["value"].get("stringValue") for one in attributes}
        for scope in resource["scopeMetrics"]:
            for metric in scope["metrics"]:
                yield named, metric


def _kind(metric, data_key):
    if data_key == "sum" and not metric["sum"].get("isMonotonic"):
        return "updowncounter"
    return KINDS.get(data_key, data_key)
