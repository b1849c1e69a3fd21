"""Compares what the dashboards show of a run with its files.

All variables but the run have their default values. Each value is that of a panel's query, or of
a column of a table.
"""

import json
import math

import panels
from panels import Prometheus, Window, chosen, replace

# Panels with one value, and that value in the summary.
STATS = {
    "Succeeded": lambda run: run["request_count"]["avg"],
    "Failed": lambda run: _errors(run) / _ended(run),
    "Requests per second": lambda run: run["request_throughput"]["avg"],
    "Output tokens per second": lambda run: run["output_token_throughput"]["avg"],
    "Goodput": lambda run: run["goodput"]["avg"],
    "Good requests": lambda run: run["good_request_count"]["avg"] / _ended(run),
    "TTFT p50": lambda run: run["time_to_first_token"]["p50"] / 1e3,
    "TTFT p99": lambda run: run["time_to_first_token"]["p99"] / 1e3,
    "ITL p50": lambda run: run["inter_token_latency"]["p50"] / 1e3,
    "ITL p99": lambda run: run["inter_token_latency"]["p99"] / 1e3,
    "Latency p50": lambda run: run["request_latency"]["p50"] / 1e3,
    "Latency p99": lambda run: run["request_latency"]["p99"] / 1e3,
}
COLUMNS = {
    "Duration": lambda run: run["benchmark_duration"]["avg"],
    "Requests": lambda run: _ended(run),
    "Failed": lambda run: _errors(run) / _ended(run),
    "Good": STATS["Good requests"],
    "Requests/s": lambda run: run["request_throughput"]["avg"],
    "Output tokens/s": lambda run: run["output_token_throughput"]["avg"],
    **{title: STATS[title] for title in (
        "TTFT p50", "TTFT p99", "ITL p50", "ITL p99", "Latency p50", "Latency p99",
    )},
}  # fmt: skip
TOLERANCE = 1e-6


def _errors(run):
    return run.get("error_request_count", {}).get("avg", 0)


def _ended(run):
    return run["request_count"]["avg"] + _errors(run)


class View:
    """A dashboard as it opens, over a time range."""

    def __init__(self, prometheus_url, dashboard, start, end, wanted):
        self.prometheus, self.window = Prometheus(prometheus_url), Window(start, end)
        self.panels = list(panels.panels(dashboard))
        self.values = {"datasource": "prometheus"}
        for variable in dashboard["templating"]["list"]:
            if variable["type"] != "datasource":
                name = variable["name"]
                self.values[name] = chosen(
                    self.prometheus, variable, self.window, self.values, wanted
                )

    def series(self, target):
        """The result of a query, `(labels, value)`."""
        expr = replace(target["expr"], {**self.values, **self.window.built_in})
        return self.prometheus.instant(expr, self.window.end)

    def panel(self, kind, title):
        """The first panel of this kind with this title."""
        return next(one for one in self.panels if (one["type"], one["title"]) == (kind, title))


def check(report, prometheus_url, dashboards, runs, start, end):
    """Compares the views of `runs` with their summaries."""
    read = lambda name: json.loads((dashboards / f"{name}.json").read_text(encoding="utf-8"))  # noqa: E731
    view = lambda name, wanted: View(prometheus_url, read(name), start, end, wanted)  # noqa: E731
    for run in runs:
        one = {"run": [run.id]}
        of_run = view("benchmark-run", one)
        for title, wanted in STATS.items():
            targets = of_run.panel("stat", title)["targets"]
            found = [value for target in targets for _, value in of_run.series(target)]
            _compare(report, f"benchmark-run: {title} of {run.name}", found, wanted, run)
        _check_breakdown(report, view("client-and-server", one), run)
    _check_table(report, view("compare-runs", {"runs": [run.id for run in runs]}), runs)


def _check_table(report, view, runs):
    """The columns of the table of results, one row a run."""
    panel = view.panel("table", "Results")
    columns = {target["legendFormat"]: target for target in panel["targets"]}
    for title, wanted in COLUMNS.items():
        found = [(labels["aiperf_benchmark_id"], value) for labels, value in view.series(columns[title])]
        for run in runs:
            have = [value for run_id, value in found if run_id == run.id]
            _compare(report, f"compare-runs: {title} of {run.name}", have, wanted, run)


def _check_breakdown(report, view, run):
    """The stages of the mean latencies."""
    divided = run.summary.get("time_breakdown", {}).get("metrics", [])
    titles = {"time_to_first_token": "Time to first token", "request_latency": "Request latency"}
    for latency in divided:
        target = view.panel("bargauge", titles[latency["metric"]])["targets"][0]
        found = {labels["aiperf_stage"]: value for labels, value in view.series(target)}
        for part in latency["parts"]:
            have = [found[part["stage"]]] if part["stage"] in found else []
            what = f"client-and-server: {latency['metric']} {part['stage']} of {run.name}"
            _compare(report, what, have, lambda _, part=part: part["mean_ms"] / 1e3, run)


def _compare(report, what, found, wanted, run):
    """One value, or none if the summary does not have it."""
    try:
        want = wanted(run.summary)
    except KeyError:
        report.equal(what, found, [])
        return
    close = len(found) == 1 and math.isclose(found[0], want, rel_tol=TOLERANCE, abs_tol=1e-12)
    report.holds(what, close, f"{found} = {want:.9g}")
