"""The expected contents of Prometheus after a run, computed from the run's own files.

Histograms, counters and percentiles are computed from the records, line by line. Single results
are read from the summary; sums and rates of the records among them are also recomputed."""

from collections import defaultdict
from dataclasses import dataclass, field

PHASES = {"warmup": "warmup_metrics", "profiling": None}
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
STEADY_STATISTICS = ("avg", "p50", "p90", "p95", "p99")

# From the unit of the files to the exported unit.
TO_EXPORTED = {
    "ms": 1e-3, "ms/image": 1e-3, "KB": 1024.0, "MB": 1e6, "mJ/token": 1e-3, "J/Mtoken": 1e-6, "price/Mtoken": 1e-6,
}

# The stages of a request at its server, which share an instrument.
STAGES = {
    f"server_{stage}_time": stage
    for stage in (
        "front_end", "queue", "prefill", "queue_and_prefill", "kv_transfer", "decode",
        "prefill_and_decode", "kv_transfer_and_decode",
    )
}  # fmt: skip
OF_STAGES = "aiperf.server.stage.duration"

# The GenAI metric that corresponds to a metric of the files, and the label with its token type.
CONVENTIONS = {
    "request_latency": ("gen_ai.client.operation.duration", None),
    "time_to_first_token": ("gen_ai.client.operation.time_to_first_chunk", None),
    "inter_token_latency": ("gen_ai.client.operation.time_per_output_chunk", None),
    "input_sequence_length": ("gen_ai.client.token.usage", ("gen_ai_token_type", "input")),
    "output_sequence_length": ("gen_ai.client.token.usage", ("gen_ai_token_type", "output")),
}


@dataclass
class Expected:
    """By metric and the labels of its series: phase, `error_type`, and of histograms a further label
    with its value."""

    histograms: dict = field(default_factory=lambda: defaultdict(list))
    counters: dict = field(default_factory=lambda: defaultdict(float))
    # By metric, phase and the labels that name the statistic, each followed by its value; None for
    # single results.
    gauges: dict = field(default_factory=dict)
    # Only counts and means, since the values are not in the files: (metric, phase) to both.
    means: dict = field(default_factory=dict)


def _add_outputs(expected, run):
    """Whether the outputs are as they should be, and their faults."""
    verdict = run.summary.get("output_health", {}).get("verdict")
    if verdict is not None:
        severity = ["valid", "suspect", "invalid"].index(verdict)
        expected.gauges["aiperf.output.verdict", "profiling", None] = float(severity)
    for record in run.records:
        if faults := record["metadata"].get("output_faults"):
            expected.counters["aiperf.output.faults", _phase(record), ""] += len(faults.split(","))


def of(run, registry):
    """The expected contents of Prometheus after `run`."""
    expected = Expected()
    for record in run.records:
        _add_record(expected, registry, record)
    _add_sessions(expected, run.records)
    _add_agents(expected, run)
    for phase, key in PHASES.items():
        results = run.summary.get(key, {}) if key else run.summary
        _add_results(expected, registry, phase, results)
    _add_percentiles(expected)
    _add_steady_state(expected, registry, run.summary.get("steady_state", {}))
    _add_time_breakdown(expected, run.summary.get("time_breakdown", {}))
    _add_health(expected, run.summary["client_health"])
    _add_load(expected, run.summary.get("load_health"))
    _add_outputs(expected, run)
    _add_gates(expected, run.summary.get("gates", []))
    _add_run(expected, run)
    if "aiperf.client.traces.lost" in registry:
        traces = run.summary["telemetry"].get("traces", {})
        expected.counters["aiperf.client.traces.lost", "profiling", ""] = traces.get("lost", 0)
    return expected


def succeeded(run, phase):
    """The records of a phase without an error."""
    ours = (record for record in run.records if _phase(record) == phase)
    return [record for record in ours if record["error"] is None]


def value(record, tag):
    """A record's value in the unit of the file; None if it is absent."""
    return record["metrics"].get(tag, {}).get("value")


def _phase(record):
    return record["metadata"]["benchmark_phase"]


def _add_record(expected, registry, record):
    metadata, phase = record["metadata"], _phase(record)
    error = (record["error"] or {}).get("error_type", "")
    for tag, metric in record["metrics"].items():
        # The times of a failed exchange are only in its record.
        if error and tag.startswith("http_req_"):
            continue
        stage = STAGES.get(tag)
        name = OF_STAGES if stage else f"aiperf.{tag}"
        if registry[name].instrument == "counter":
            expected.counters[name, phase, error] += metric["value"]
            continue
        scale = TO_EXPORTED.get(metric["unit"], 1.0)
        values = metric["value"] if isinstance(metric["value"], list) else [metric["value"]]
        exported = [value * scale for value in values]
        label = ("aiperf_stage", stage) if stage else None
        expected.histograms[name, phase, error, label] += exported
        if tag in CONVENTIONS and not (error and tag == "request_latency"):
            name, label = CONVENTIONS[tag]
            expected.histograms[name, phase, error, label] += exported
    if error:
        seconds = (metadata["request_end_ns"] - metadata["request_start_ns"]) / 1e9
        expected.histograms["gen_ai.client.operation.duration", phase, error, None].append(seconds)
    if "request_due_ns" in metadata:
        slip = (metadata["request_start_ns"] - metadata["request_due_ns"]) / 1e9
        expected.histograms["aiperf.client.schedule_slip", phase, error, None].append(slip)

    cancelled = metadata["was_cancelled"]
    count = lambda name, error="": _count(expected, name, phase, error)  # noqa: E731
    count("aiperf.error_request_count" if error else "aiperf.request_count", error)
    count("aiperf.timing.requests.sent")
    ended = "cancelled" if cancelled else "errors" if error else "completed"
    count(f"aiperf.timing.requests.{ended}")
    expected.counters["aiperf.client.retries", phase, error] += metadata.get("retry_count", 0)
    if metadata.get("missing_answers"):
        count("aiperf.incomplete_history_count", error)


def _count(expected, name, phase, error=""):
    expected.counters[name, phase, error] += 1


def _add_sessions(expected, records):
    """A session ends like its last turn."""
    last = {}
    for record in records:
        metadata = record["metadata"]
        key = _phase(record), metadata["x_correlation_id"]
        last[key] = max(last.get(key, record), record, key=lambda one: one["metadata"]["turn_index"])
        _count(expected, "aiperf.timing.sessions.turns_total", key[0])
    for (phase, _), record in last.items():
        _count(expected, "aiperf.timing.sessions.sent", phase)
        failed = "failed" if record["error"] else "completed"
        ended = "cancelled" if record["metadata"]["was_cancelled"] else failed
        _count(expected, f"aiperf.timing.sessions.{ended}", phase)


def _add_agents(expected, run):
    """A session of several turns is the work of an agent, from its first request to its last."""
    sessions = defaultdict(list)
    for record in run.records:
        metadata = record["metadata"]
        if run.turns.get(metadata["conversation_id"], 1) > 1:
            sessions[_phase(record), metadata["x_correlation_id"]].append(record)
    for (phase, _), records in sessions.items():
        records.sort(key=lambda one: one["metadata"]["turn_index"])
        start = records[0]["metadata"]["request_start_ns"]
        end = max(record["metadata"]["request_end_ns"] for record in records)
        error = (records[-1]["error"] or {}).get("error_type", "")
        add = lambda name, value, error="": expected.histograms[name, phase, error, None].append(value)  # noqa: E731, B023
        add("gen_ai.invoke_agent.duration", (end - start) / 1e9, error)
        add("gen_ai.invoke_agent.inference_calls", len(records))
        add("gen_ai.invoke_agent.tool_calls", 0)


def _add_results(expected, registry, phase, results):
    """Single results in the summary: gauges, and counts that are not in the records."""
    counted = {name for name, _, _ in expected.counters}
    for tag, result in results.items():
        if not isinstance(result, dict):
            continue
        scale = TO_EXPORTED.get(result.get("unit"), 1.0)
        metric = registry.get(f"aiperf.{tag}")
        # Those of record metrics are recomputed.
        name = f"aiperf.percentiles.{tag}"
        if name in registry and (metric is None or metric.instrument == "gauge"):
            for percentile in PERCENTILES:
                if f"p{percentile}" in result:
                    key = name, phase, ("aiperf_percentile", str(percentile))
                    expected.gauges[key] = result[f"p{percentile}"] * scale
        if metric is None:
            continue
        exported = result.get("avg", 0.0) * scale
        if metric.instrument == "gauge":
            expected.gauges[metric.name, phase, None] = exported
        elif metric.instrument == "counter" and metric.name not in counted:
            expected.counters[metric.name, phase, ""] = exported


def _add_percentiles(expected):
    """The distribution of a phase covers all its records, including failed ones."""
    by_phase = defaultdict(list)
    for (name, phase, _, label), values in expected.histograms.items():
        if name == OF_STAGES:
            name = f"aiperf.server_{label[1]}_time"
        if name.startswith("aiperf.") and not name.startswith("aiperf.client."):
            by_phase[name, phase] += values
    for (name, phase), values in by_phase.items():
        values.sort()
        for percentile in PERCENTILES:
            label = "aiperf_percentile", str(percentile)
            gauge = name.replace("aiperf.", "aiperf.percentiles.", 1), phase, label
            expected.gauges[gauge] = interpolated(values, percentile / 100)


def _add_steady_state(expected, registry, steady):
    """The results of the steady state in the summary, which another script recomputes."""
    for tag, result in steady.get("metrics", {}).items():
        name = f"aiperf.steady_state.{tag}"
        if name not in registry:
            continue
        scale = TO_EXPORTED.get(result.get("unit"), 1.0)
        for statistic in STEADY_STATISTICS:
            if statistic in result:
                key = name, "profiling", ("aiperf_statistic", statistic)
                expected.gauges[key] = result[statistic] * scale


def _add_time_breakdown(expected, breakdown):
    """The parts of the mean latencies in the summary; another check adds them up."""
    for latency in breakdown.get("metrics", []):
        for part in latency["parts"]:
            name = f"aiperf.time_breakdown.{latency['metric']}"
            key = name, "profiling", ("aiperf_stage", part["stage"])
            expected.gauges[key] = part["mean_ms"] / 1e3


def interpolated(ordered, share):
    """The quantile of sorted values, with linear interpolation."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _add_run(expected, run):
    """The settings that distinguish the run, from its flags; each is a label of the same series."""
    load = {"--request-rate": "{} req/s", "--concurrency": "concurrency {}"}
    words = [text.format(run.flag(flag)) for flag, text in load.items() if run.flag(flag)]
    labels = {
        "aiperf_run_load": ", ".join(words) or "fixed schedule",
        "aiperf_run_name": run.flag("--run-name") or ", ".join(words) or "fixed schedule",
        "aiperf_run_url": run.summary["input_config"]["endpoint"]["urls"][0],
        "aiperf_run_input_tokens": run.flag("--isl") or "",
        "aiperf_run_output_tokens": run.flag("--osl") or "",
        "aiperf_run_objectives": run.flag("--goodput") or "",
    }
    for label in labels.items():
        expected.gauges["aiperf.run.info", "profiling", label] = 1.0


def throughput_error(bounds):
    """How far the client may have shifted the throughput, divided by it."""
    return max(bounds["below_percent"], bounds["above_percent"]) / 100 if bounds else None


def _add_health(expected, health):
    """The client's own metrics, for the measurement."""
    for name, member in [("read_lag", "read_lag_ms"), ("stamp_uncertainty", "stamp_uncertainty_ms")]:
        if member in health:
            mean = health[member]["count"], health[member]["avg"] / 1e3
            expected.means[f"aiperf.client.{name}", "profiling"] = mean
    gauges = {
        "cpu.utilization": health["cpu"].get("process"),
        "worker.cpu.utilization": health["cpu"].get("worker_max"),
        "rate.ratio": health.get("rate_ratio"),
        "error_bound.throughput": throughput_error(health.get("throughput_bounds")),
        "verdict": ["valid", "suspect", "invalid"].index(health["verdict"]),
    }
    for metric, bounds in health.get("error_bounds_ms", {}).items():
        for percentile in (50, 99):
            bound = bounds[f"p{percentile}"]
            key = f"aiperf.client.error_bound.{metric}", "profiling"
            label = "aiperf_percentile", str(percentile)
            expected.gauges[*key, label] = max(bound["below"], bound["above"]) / 1e3
            for end, member, sign in (("lower", "sample_below", -1), ("upper", "sample_above", 1)):
                if member in bound:
                    key = f"aiperf.sample_interval.{metric}", "profiling"
                    value = bound["value"] + sign * bound[member]
                    expected.gauges[*key, (*label, "aiperf_interval_end", end)] = value / 1e3
    for reason in health["reasons"]:
        label = "aiperf_client_finding", reason["finding"]
        severity = ["valid", "suspect", "invalid"].index(reason["verdict"])
        expected.gauges["aiperf.client.verdict.reason", "profiling", label] = float(severity)
    for name, number in gauges.items():
        if number is not None:
            expected.gauges[f"aiperf.client.{name}", "profiling", None] = float(number)
    spilled = health.get("queue", {}).get("spilled_records", 0)
    expected.counters["aiperf.client.queue.spilled", "profiling", ""] = float(spilled)


def _add_gates(expected, gates):
    """The gates in the summary, each a series by its expression."""
    for gate in gates:
        label = "aiperf_gate_expression", gate["gate"]
        numbers = {"value": gate.get("value"), "limit": gate["limit"], "passed": int(gate["held"])}
        for name, number in numbers.items():
            if isinstance(number, int | float):
                expected.gauges[f"aiperf.gate.{name}", "profiling", label] = float(number)


def _add_load(expected, health):
    """Whether the server kept up with the load, if that is known."""
    if health is None:
        return
    verdicts = ["sustained", "too_short_to_tell", "not_stationary", "saturated", "rejecting", "failing"]
    drift = health.get("latency_drift_percent")
    gauges = {
        "verdict": verdicts.index(health["verdict"]),
        "offered_rate": health["offered_rate"],
        "served_rate": health["served_rate"],
        "queue_growth": health.get("queue_slope", {}).get("value"),
        "latency_drift": drift and drift["value"] / 100,
    }
    for name, number in gauges.items():
        if number is not None:
            expected.gauges[f"aiperf.load.{name}", "profiling", None] = float(number)
