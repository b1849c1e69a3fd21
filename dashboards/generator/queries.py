"""PromQL over the series of aiperf, for one run or several.

Shards of a run differ in `service_instance_id`: what can be added up is summed
over them, and quantiles come from summed buckets. Counters start at 0 with the
run, so that a counter's last value is the run's total.
"""

RUN = 'aiperf_benchmark_id=~"$run", service_instance_id=~"$instance"'
PHASE = f'{RUN}, aiperf_benchmark_phase=~"$phase"'
REQUEST = f'{PHASE}, gen_ai_request_model=~"$model"'
WINDOW = "$__rate_interval"


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
