"""What all dashboards have: names, links, the choice of model and run."""

from .grafana import choice, link, phase_regions, variable
from .queries import RUN, RUN_LABELS, by_run, in_either, of, rate

RUN_UID, SERVER_UID, COMPARE_UID = "aiperf-run", "aiperf-server", "aiperf-compare"
HISTORY_UID = "aiperf-history"

LINKS = {
    RUN_UID: link("Benchmark run", RUN_UID, "One run in full"),
    SERVER_UID: link("Client and server", SERVER_UID, "The run next to the server's own metrics"),
    COMPARE_UID: link("Compare runs", COMPARE_UID, "Results of several runs side by side"),
    HISTORY_UID: link("History", HISTORY_UID, "One benchmark over weeks"),
}

# What every run has from its first request on, and what tells its models apart.
SENT = "aiperf_timing_requests_sent_total"
STARTED = f'{{__name__=~"{SENT}|{in_either(lambda metric: f"{metric}_count", "|")}"'

# What `aiperf_run_info` says of a run, with the headings of its columns.
SETTINGS = {
    "aiperf_run_load": "Load", "aiperf_run_url": "URL", "aiperf_endpoint_type": "Endpoint",
    "aiperf_run_input_tokens": "Input tokens", "aiperf_run_output_tokens": "Output tokens",
    "aiperf_run_objectives": "Objectives",
}


def phases():
    """The phases of the run as regions of the panels over time."""
    elapsed = of("aiperf_timing_phase_elapsed_sec_seconds", RUN)
    return phase_regions(
        f"max by (aiperf_benchmark_phase) ({rate(elapsed)}) > 0", "{{aiperf_benchmark_phase}}"
    )


def links(uid):
    """Links to the others."""
    return [made for other, made in LINKS.items() if other != uid]


def model():
    """The models asked, in any run of the range."""
    asked = f"label_values({STARTED}}}, gen_ai_request_model)"
    return variable("model", "Model", "The requested models.", asked, many=True)


def began(matchers, over="$__range"):
    """When runs began. A subquery, since no series tells its own start."""
    first = f"min_over_time(timestamp({SENT}{{{matchers}}})[{over}:10s])"
    return f"min by ({RUN_LABELS}) ({first})"


def run(matchers='gen_ai_request_model=~"$model"', name="run", label="Run", many=False, but=""):
    """Runs of the range, the newest first; `but` is the variable of a run to leave out."""
    found = began(matchers)
    if but:
        other = began(f'aiperf_benchmark_id="${but}"')
        found += f" unless on (aiperf_benchmark_id) {other}"
    text = "The run, with the start of its `benchmark_id`; the newest is first."
    regex = '/aiperf_benchmark_id="(?<value>[^"]+)".*[, ]run="(?<text>[^"]+)"/'
    asked = f"query_result(sort_desc({by_run(found)}))"
    return variable(name, label, text, asked, many=many, regex=regex, every=None)


def phase():
    """The phases; they are not added up, since a sum of warmup and measurement means nothing."""
    text = "Warmup brings the server to its working state; profiling is the measurement."
    return choice("phase", "Phase", text, ["profiling", "warmup"])


def instance():
    """Shards of the run."""
    asked = f'label_values({SENT}{{aiperf_benchmark_id=~"$run"}}, service_instance_id)'
    text = "The processes that send the run's load; several if the run is sharded."
    return variable("instance", "Shard", text, asked, many=True)
