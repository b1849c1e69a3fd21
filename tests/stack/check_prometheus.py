"""Compares the contents of Prometheus with a run's files."""

from collections import defaultdict

import expected as expectation
from expected import PERCENTILES, STEADY_STATISTICS
from report import is_close

RUN_LABELS = {
    "aiperf_benchmark_id", "aiperf_endpoint_type", "aiperf_model_name", "aiperf_run_name",
}  # fmt: skip
SERIES_LABELS = {
    "aiperf_benchmark_phase",
    "gen_ai_operation_name",
    "gen_ai_provider_name",
    "gen_ai_request_model",
}
OF_AGENTS = ("gen_ai_invoke_agent_", "gen_ai_execute_tool_")
# Additional labels of series, and how many values of each a run here can produce.
MORE_LABELS = {
    "gen_ai_response_model": 1,
    "gen_ai_token_type": 2,
    "error_type": 6,
    "server_address": 1,
    "server_port": 1,
    "aiperf_percentile": len(PERCENTILES),
    "aiperf_interval_end": 2,
    "aiperf_statistic": len(STEADY_STATISTICS),
    "aiperf_stage": 12,
    "aiperf_run_load": 1,
    "aiperf_run_url": 1,
    "aiperf_run_input_tokens": 1,
    "aiperf_run_output_tokens": 1,
    "aiperf_run_objectives": 1,
    "aiperf_client_finding": 9,
    "aiperf_output_fault": 15,
    "aiperf_gate_expression": 4,
    "aiperf_gate_metric": 4,
    "aiperf_gate_statistic": 3,
    "aiperf_gate_unit": 3,
    "service_name": 1,
    "service_instance_id": 1,
    "job": 1,
    "instance": 1,
    "aiperf_shard_index": 1,
    "aiperf_shard_count": 1,
}
# Bounds of buckets; these belong to the metrics, not to the series.
OF_HISTOGRAMS = {"le"}


class RunSeries:
    """The series from aiperf itself, found by name and distinguishing labels. Records which were
    requested: those without an expected value are an error."""

    def __init__(self, series):
        own = [one for one in series if _is_exported(one)]
        self.all = own
        self._by_name = defaultdict(list)
        for one in own:
            self._by_name[one.name].append(one)
        self._asked = set()

    def find(self, name, phase, **labels):
        """The series with these labels; an empty label is the same as an absent one."""
        self._asked.add(name)
        wanted = {"aiperf_benchmark_phase": phase, **labels}
        return [
            one
            for one in self._by_name.get(name, [])
            if all(one.labels.get(key, "") == value for key, value in wanted.items())
        ]

    def total(self, name, phase, **labels):
        """The sum of these series; 0 if there are none."""
        return sum(one.value for one in self.find(name, phase, **labels))

    def phases(self):
        """The phases of the series."""
        return {one.labels.get("aiperf_benchmark_phase") for one in self.all}

    def unasked(self):
        """Names of series that were not requested by any check."""
        return sorted(set(self._by_name) - self._asked)


def _is_exported(one):
    """Whether aiperf exported it; the other names are those of rules."""
    is_of_rules = ":" in one.name or one.name.startswith("ALERTS")
    return one.labels.get("service_name") == "aiperf" and not is_of_rules


def check(report, run, series, registry):
    """Checks all series of `run`."""
    own = RunSeries(series)
    expected = expectation.of(run, registry)
    report.holds("series of the run", len(own.all) > 0, f"{len(own.all)}")
    check_sums(report, run, own, expected, registry)
    _check_gauges(report, own, expected.gauges, registry)
    _check_recomputed(report, run)
    _check_progress(report, own, registry)
    report.equal("series that nothing is expected of", own.unasked(), [])
    check_labels(report, run, own.all)


def check_sums(report, run, own, expected, registry):
    """Values that add up over series: histograms and counters."""
    check_histogram = _check_native if run.is_exponential() else _check_explicit
    for (name, phase, error, label), values in sorted(expected.histograms.items(), key=str):
        metric = registry[name].prometheus
        labels = {"error_type": error, **dict([label] if label else [])}
        what = " ".join(filter(None, [metric, phase, error, label and label[1]]))
        check_histogram(report, own, what, metric, phase, labels, values)
    for (name, phase, error), count in sorted(expected.counters.items()):
        metric = registry[name].prometheus
        what = " ".join(filter(None, [metric, phase, error]))
        labels = {"error_type": error} if error or "timing" not in name else {}
        report.equal(what, own.total(metric, phase, **labels), count)
    _check_means(report, own, expected.means, registry, run.is_exponential())


def _check_explicit(report, own, what, metric, phase, labels, values):
    """Compares the count exactly, the sum except for rounding, and every bucket."""
    count = own.total(f"{metric}_count", phase, **labels)
    total = own.total(f"{metric}_sum", phase, **labels)
    buckets = defaultdict(float)
    for bucket in own.find(f"{metric}_bucket", phase, **labels):
        buckets[float(bucket.labels["le"])] += bucket.value
    wrong = {
        bound: (have, want)
        for bound, have in buckets.items()
        if have != (want := sum(value <= bound for value in values))
    }
    _check_histogram(report, what, count, total, values, len(buckets), wrong)


def _check_native(report, own, what, metric, phase, labels, values):
    """An exponential histogram: compares the count exactly and the sum except for rounding; each
    range between two bounds contains at most as many observations as there are values."""
    found = [one.histogram for one in own.find(metric, phase, **labels) if one.histogram]
    count = sum(float(one["count"]) for one in found)
    total = sum(float(one["sum"]) for one in found)
    buckets = [tuple(map(float, bucket[1:])) for one in found for bucket in one.get("buckets", [])]
    wrong = {
        (low, high): (have, want)
        for low, high, have in buckets
        if have > (want := sum(_may_be_within(value, low, high) for value in values))
    }
    filled = sum(have for _, _, have in buckets)
    if filled != len(values):
        wrong["all"] = (filled, len(values))
    _check_histogram(report, what, count, total, values, len(buckets), wrong)


def _may_be_within(value, low, high):
    """Bounds are rounded powers of two, so a value equal to one may be on either side. Values close
    to zero count as zero."""
    near = 1e-9 * abs(value) + 1e-12
    return low - near <= value <= high + near


def _check_histogram(report, what, count, total, values, buckets, wrong):
    want, magnitude = sum(values), sum(abs(value) for value in values)
    ok = count == len(values) and is_close(total, want, scale=magnitude) and buckets and not wrong
    text = f"count {count:g} = {len(values)}, sum {total:.12g} = {want:.12g}, {buckets} buckets"
    report.holds(what, ok, f"{text}, wrong {dict(list(wrong.items())[:5])}" if wrong else text)


def _check_gauges(report, own, gauges, registry):
    """Each statistic is one series; those of a metric are one check."""
    together = defaultdict(dict)
    for (name, phase, label), want in sorted(gauges.items(), key=str):
        labels = {} if label is None else dict(zip(label[::2], label[1::2]))
        metric = registry[name].prometheus
        found = [one.value for one in own.find(metric, phase, **labels)]
        have = found[0] if len(found) == 1 else None
        what = "value" if label is None else " ".join(label[1::2])
        together[f"{metric} {phase}"][what] = (have, want)
    for what, pairs in together.items():
        report.all_close(what, pairs)


def _check_means(report, own, means, registry, is_exponential):
    for (name, phase), (count, mean) in sorted(means.items()):
        metric = registry[name].prometheus
        if is_exponential:
            histograms = [one.histogram for one in own.find(metric, phase) if one.histogram]
            have, total = (sum(float(one[key]) for one in histograms) for key in ("count", "sum"))
        else:
            have, total = own.total(f"{metric}_count", phase), own.total(f"{metric}_sum", phase)
            own.find(f"{metric}_bucket", phase)
        report.equal(f"{metric} {phase} count", have, count)
        report.close(f"{metric} {phase} mean", total / have if have else 0.0, mean)


def _check_recomputed(report, run):
    """Single results of the summary, recomputed from the records."""
    records = expectation.succeeded(run, "profiling")
    summary, sums = run.summary, {}
    sums["request_count"] = len(records)
    for total, tag in [
        ("total_isl", "input_sequence_length"),
        ("total_osl", "output_sequence_length"),
        ("total_usage_prompt_tokens", "usage_prompt_tokens"),
        ("total_usage_completion_tokens", "usage_completion_tokens"),
    ]:
        values = [value for one in records if (value := expectation.value(one, tag)) is not None]
        if values:
            sums[total] = sum(values)
    for tag, want in sums.items():
        report.equal(f"{tag} of the summary", summary[tag]["avg"], want)
    seconds = summary["benchmark_duration"]["avg"]
    report.close("request_throughput", summary["request_throughput"]["avg"], len(records) / seconds)
    if "total_osl" in sums:
        rate = summary["output_token_throughput"]["avg"]
        report.close("output_token_throughput", rate, sums["total_osl"] / seconds)


def _check_progress(report, own, registry):
    """The progress metrics of a phase, at its end."""
    for phase in sorted(own.phases() & {"warmup", "profiling"}):
        for name in ("requests.in_flight", "sessions.in_flight", "phase.was_cancelled",
                     "phase.timeout_triggered", "phase.grace_timeout_triggered"):  # fmt: skip
            metric = registry[f"aiperf.timing.{name}"].prometheus
            report.equal(f"{metric} {phase}", own.total(metric, phase), 0)
        elapsed = own.total(registry["aiperf.timing.phase.elapsed_sec"].prometheus, phase)
        seconds = own.total(registry["aiperf.benchmark_duration"].prometheus, phase)
        lasts = 0 < seconds <= elapsed * (1 + 1e-6)
        report.holds(f"{phase} lasts as long as its requests", lasts, f"{elapsed:g} >= {seconds:g}")
        queue = own.total(registry["aiperf.client.queue.size"].prometheus, phase)
        report.holds(f"queue of the client, {phase}", queue >= 0, f"{queue:g} bytes")


def check_labels(report, run, series):
    """Every series has the labels of run, model and phase; the values of each label are limited."""
    promised = RUN_LABELS | SERIES_LABELS
    # An agent is not one operation of a provider.
    of_agents = RUN_LABELS | {"aiperf_benchmark_phase"}
    lacking = {}
    for one in series:
        wanted = of_agents if one.name.startswith(OF_AGENTS) else promised
        if one.name != "target_info" and not wanted <= one.labels.keys():
            lacking[one.name] = sorted(wanted - one.labels.keys())
    report.equal("series without a promised label", lacking, {})
    values = defaultdict(set)
    for one in series:
        for key, value in one.labels.items():
            values[key].add(value)
    named = {"__name__"} | OF_HISTOGRAMS
    unknown = sorted(values.keys() - promised - MORE_LABELS.keys() - named)
    report.equal("labels that were not promised", unknown, [])
    bounds = {**dict.fromkeys(RUN_LABELS, 1), **dict.fromkeys(SERIES_LABELS, 1), **MORE_LABELS}
    bounds["aiperf_benchmark_phase"] = 2
    for label, bound in sorted(bounds.items()):
        have = len(values[label])
        report.holds(f"values of {label}", have <= bound, f"{have} <= {bound}")
    models = {run.summary["input_config"]["models"]["items"][0]["name"]}
    report.equal("model of the series", values["aiperf_model_name"], models)
    report.equal("phases of the series", values["aiperf_benchmark_phase"], phases(run))


def phases(run):
    """The phases that have records."""
    return {record["metadata"]["benchmark_phase"] for record in run.records}


def check_exemplars(report, run, prometheus):
    """Prometheus has exemplars of the run's latencies, which lead to its requests."""
    began = min(record["metadata"]["request_start_ns"] for record in run.records) / 1e9
    selector = f'aiperf_request_latency_seconds_bucket{{aiperf_benchmark_id="{run.id}"}}'
    found = prometheus.exemplars(selector, began)
    names = ("x_request_id", "x_correlation_id")
    requests = {record["metadata"][name].replace("-", "") for record in run.records for name in names}
    unknown = [one for one in found if one["labels"]["trace_id"] not in requests]
    report.holds("exemplars of latencies", len(found) > 0, f"{len(found)}")
    report.equal("exemplars of other requests", unknown, [])
