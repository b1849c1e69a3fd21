"""What all three dashboards have: names, links, the choice of model and run."""

from .grafana import choice, link, variable

RUN_UID, SERVER_UID, COMPARE_UID = "aiperf-run", "aiperf-server", "aiperf-compare"

LINKS = {
    RUN_UID: link("Benchmark run", RUN_UID, "One run in full"),
    SERVER_UID: link("Client and server", SERVER_UID, "The run next to the server's own metrics"),
    COMPARE_UID: link("Compare runs", COMPARE_UID, "Results of several runs side by side"),
}

# What every run has from its first request on, and what tells its models apart.
SENT = "aiperf_timing_requests_sent_total"
STARTED = f'{{__name__=~"{SENT}|gen_ai_client_operation_duration_seconds_count"'


def links(uid):
    """Links to the other two."""
    return [made for other, made in LINKS.items() if other != uid]


def model():
    """The models asked, in any run of the range."""
    asked = f"label_values({STARTED}}}, gen_ai_request_model)"
    return variable("model", "Model", "The requested models.", asked, many=True)


def newest_first(matchers):
    """Runs by when they began. A subquery, since no series tells its own start."""
    began = f"min_over_time(timestamp({SENT}{{{matchers}}})[$__range:10s])"
    return f"query_result(sort_desc(min by (aiperf_benchmark_id) ({began})))"


def run(matchers='gen_ai_request_model=~"$model"', name="run", label="Run", many=False):
    """Runs of the range, the newest first."""
    text = "The run (`benchmark_id` in its files); the newest is first."
    regex = '/aiperf_benchmark_id="([^"]+)"/'
    return variable(name, label, text, newest_first(matchers), many=many, regex=regex, every=None)


def phase():
    """Phases: both stand there from the start, so that the default needs no choice again."""
    text = "Warmup brings the server to its working state; profiling is the measurement."
    return choice("phase", "Phase", text, ["profiling", "warmup"])


def instance():
    """Shards of the run."""
    asked = f'label_values({SENT}{{aiperf_benchmark_id=~"$run"}}, service_instance_id)'
    text = "The processes that send the run's load; several if the run is sharded."
    return variable("instance", "Shard", text, asked, many=True)
