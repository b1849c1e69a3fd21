"""PromQL over the series of aiperf, for one run or several.

Shards of a run differ in `service_instance_id`: what can be added up is summed
over them, and quantiles come from summed buckets. Counters start at 0 with the
run, so that a counter's last value is the run's total.
"""

RUN = 'aiperf_benchmark_id=~"$run", service_instance_id=~"$instance"'
PHASE = f'{RUN}, aiperf_benchmark_phase="$phase"'
REQUEST = f'{PHASE}, gen_ai_request_model=~"$model"'
WINDOW = "$__rate_interval"
# What is kept of a run when its series are aggregated, and the label made of it.
RUN_LABELS = "aiperf_benchmark_id, aiperf_run_name, aiperf_model_name"


def of(metric, matchers=REQUEST, extra=""):
    """A selector."""
    return f"{metric}{{{matchers}{', ' if extra else ''}{extra}}}"


def last(selector):
    """The last value within the dashboard's range, also when the run is over."""
    return f"last_over_time({selector}[$__range])"


def rate(selector):
    """Per second, over the interval that suits the panel."""
    return f"rate({selector}[{WINDOW}])"


def total(selector, by=""):
    """What counters have come to, over all shards."""
    return f"sum{by_clause(by)}({last(selector)})"


def speed(selector, by=""):
    """What counters gain per second, over all shards."""
    return f"sum{by_clause(by)}({rate(selector)})"


def quantile(share, metric, matchers=REQUEST, by="", over=rate):
    """A quantile estimated from the buckets of all shards."""
    labels = "le" + (f", {by}" if by else "")
    return f"histogram_quantile({share}, sum by ({labels}) ({over(of(metric + '_bucket', matchers))}))"


def by_clause(by):
    """`by (...)`, if any."""
    return f" by ({by}) " if by else ""


def in_either(made, joined=" or "):
    """Returns what `made` makes of the durations of requests, whichever of the GenAI conventions a run
    exports."""
    names = ("gen_ai_client_operation_duration_seconds", "gen_ai_client_inference_duration_seconds")
    return joined.join(made(name) for name in names)


def ended(made, matchers=REQUEST):
    """Returns what `made` makes of the number of requests that have ended."""
    return f"({in_either(lambda metric: made(of(f'{metric}_count', matchers)))})"


def or_zero(expr):
    """Returns `expr`, or 0 if the run does not have such a series yet."""
    return f'{expr} or 0 * {total(of("aiperf_timing_requests_sent_total", PHASE))}'


def or_none(expr, label):
    """The same of an `expr` by `label`, which then says `none`."""
    zero = f'0 * {total(of("aiperf_timing_requests_sent_total", PHASE))}'
    return f'{expr} or (label_replace({zero}, "{label}", "none", "", "") unless on () {expr})'


def by_shard(expr):
    """Labels the shard with its index, which follows the run's ID; empty for a single process."""
    return f'label_replace({expr}, "shard", "shard $1", "service_instance_id", ".{{36}}-([0-9]+)")'


def while_active(expr):
    """Returns `expr` while the phase is going on, so that a legend's mean is that of the phase."""
    elapsed = of("aiperf_timing_phase_elapsed_sec_seconds", PHASE)
    return f"({expr}) and on () (max({rate(elapsed)}) > 0)"


def by_run(expr):
    """Labels the series `run` with the run's model, its name and the start of its ID."""
    short = f'label_replace({expr}, "short_id", "$1", "aiperf_benchmark_id", "(.{{4}}).*")'
    return f'label_join({short}, "run", " ", "aiperf_model_name", "aiperf_run_name", "short_id")'


def filled(metric, matchers=REQUEST):
    """The increase of buckets, from the lowest with a value to the highest of the run."""
    buckets = of(f"{metric}_bucket", matchers)
    counts = f"sum by (le) (last_over_time({buckets}[$__range] @ end()))"
    inside = f"{counts} > 0 < scalar(max({counts}))"
    # The bound of the highest bucket with a value is the quantile 1.
    highest = f'count_values("le", histogram_quantile(1, {counts}))'
    return f"sum by (le) (increase({buckets}[{WINDOW}])) and on (le) ({inside} or {highest})"
