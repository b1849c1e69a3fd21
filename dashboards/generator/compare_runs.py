"""*Compare runs*: results of several runs side by side, and two of them on one axis."""

from . import shared
from .grafana import (
    COUNT, GOOD_SHARE, HIGHER, LOWER, PASSED, SECONDS, VERDICTS, bars, coloured, good_until, lines,
    now, points, query, row, table, variable,
)
from .grafana import dashboard as whole
from .queries import RUN_LABELS, by_run, by_shard, in_either, last, quantile, rate

ATTRIBUTE = '$attribute=~"$value"'
PHASE = 'aiperf_benchmark_phase="$phase"'
BOTH_PHASES = f'{ATTRIBUTE}, aiperf_benchmark_id=~"$runs"'
OF_RUNS = f"{BOTH_PHASES}, {PHASE}"
REQUESTS = f'{OF_RUNS}, gen_ai_request_model=~"$model"'
TOKENS = "suffix: tokens/s"
LEGEND = "{{run}}"


def of(metric, matchers=REQUESTS, extra=""):
    """A selector of the chosen runs."""
    return f"{metric}{{{matchers}{', ' if extra else ''}{extra}}}"


def added(metric, matchers=OF_RUNS):
    """Final results that add up over shards."""
    return f"sum by ({RUN_LABELS}) ({last(of(metric, matchers))})"


def most(metric):
    """The largest of all shards."""
    return f"max by ({RUN_LABELS}) ({last(of(metric, OF_RUNS))})"


def exact(metric, percentile, by=RUN_LABELS):
    """An exact percentile."""
    extra = f'aiperf_percentile="{percentile}"'
    return f"max by ({by}) ({last(of(f'aiperf_percentiles_{metric}', OF_RUNS, extra))})"


def result(metric, percentile):
    """The exact percentile of a run; of several shards, which cannot be combined, an estimate from
    the buckets of all."""
    instances = f"count by ({RUN_LABELS}) ({exact(metric, percentile, f'{RUN_LABELS}, service_instance_id')})"
    estimate = quantile(percentile / 100, f"aiperf_{metric}", REQUESTS, RUN_LABELS, over=last)
    return f"({exact(metric, percentile)} and {instances} == 1 or {estimate})"


def interval(metric, percentile, end):
    """An end of the confidence interval of an exact percentile; shards cannot be combined."""
    extra = f'aiperf_percentile="{percentile}", aiperf_interval_end="{end}"'
    of_one = f"max by ({RUN_LABELS}) ({last(of(f'aiperf_sample_interval_{metric}', OF_RUNS, extra))})"
    instances = f"count by ({RUN_LABELS}) ({last(of(f'aiperf_sample_interval_{metric}', OF_RUNS, extra))})"
    return f"({of_one} and {instances} == 1)"


SENT = added("aiperf_timing_requests_sent_total")
FAILED = f"({added('aiperf_error_request_count_total', REQUESTS)} or 0 * {SENT})"
ENDED = f"({in_either(lambda metric: added(f'{metric}_count', REQUESTS))})"
HAVE_OBJECTIVES = added("aiperf_goodput_per_second")
GOOD = (
    f"({added('aiperf_good_request_count_total', REQUESTS)} or 0 * {HAVE_OBJECTIVES}) / {ENDED}"
)
RATE = added("aiperf_request_throughput_per_second")
OUTPUT = added("aiperf_output_token_throughput_per_second")
TTFT, ITL, LATENCY = "time_to_first_token_seconds", "inter_token_latency_seconds", "request_latency_seconds"
ALL_SHARDS = "Over all shards."
EXACT = "Exact; of a sharded run, estimated from the buckets of all shards."
RUN_COLUMN = {"Run": [("custom.width", 280)]}
IDS = RUN_LABELS.split(", ")


def columns_of(columns):
    """Columns whose series are labelled by the run."""
    return [(name, unit, by_run(expr), settings) for name, unit, expr, settings in columns]


PERCENTILES = [
    (f"{title} p{percentile}", metric, percentile)
    for title, metric in (("TTFT", TTFT), ("ITL", ITL), ("Latency", LATENCY))
    for percentile in (50, 99)
]
# A run all of whose gates held, or whose gates did not.
GATES = f"min by ({RUN_LABELS}) ({last(of('aiperf_gate_passed', OF_RUNS))})"


def result_columns():
    """The results of runs: the identity of a run's own page and time, then what it achieved."""
    began = f"1000 * {shared.began(BOTH_PHASES)}"
    elapsed = (
        f"sum by ({RUN_LABELS}) (max by ({RUN_LABELS}, aiperf_benchmark_phase) "
        f"({last(of('aiperf_timing_phase_elapsed_sec_seconds', BOTH_PHASES))}))"
    )
    return [
        ("From", "none", f"{began} - 5000", HIDDEN),
        ("To", "none", f"{began} + 1000 * {elapsed} + 10000", HIDDEN),
        ("Verdict", "none", most("aiperf_client_verdict_ratio"),
         [("mappings", VERDICTS), ("custom.cellOptions", {"type": "color-text"})]),
        ("Gates", "none", GATES,
         [("mappings", PASSED), ("custom.cellOptions", {"type": "color-background"})]),
        ("Duration", SECONDS, most("aiperf_benchmark_duration_seconds"), [("decimals", 1)]),
        ("Requests", COUNT, ENDED, []),
        ("Failed", "percentunit", f"{FAILED} / {ENDED}", coloured(good_until(0.001, 0.01))),
        ("Good", "percentunit", GOOD, coloured(GOOD_SHARE)),
        *MEASURED,
    ]


# What is compared with the baseline.
MEASURED = [
    ("Requests/s", "reqps", RATE, []),
    ("Output tokens/s", "none", OUTPUT, [("decimals", 1)]),
    *((title, "s", result(metric, percentile), []) for title, metric, percentile in PERCENTILES),
]
HIDDEN = [("custom.hideFrom.viz", True)]


def to_run():
    """The link of a run's name to its own page and time."""
    return {
        "title": "Benchmark run", "targetBlank": False,
        "url": f"/d/{shared.RUN_UID}?var-run=${{__data.fields.aiperf_benchmark_id}}"
               "&from=${__data.fields.From.numeric}&to=${__data.fields.To.numeric}",
    }


def results_table(columns):
    """The table of results."""
    settings = {
        "Run": [("custom.width", 280), ("links", [to_run()])], "aiperf_benchmark_id": HIDDEN,
    }
    labels = {"run": "Run", "aiperf_benchmark_id": "aiperf_benchmark_id"}
    return table(
        "Results", "One row per run, with counts and rates summed over its shards; a run's name "
        "leads to its own page and time. Read the verdict first: latencies of a suspect run are "
        f"partly caused by the client. Percentiles: {EXACT[0].lower()}{EXACT[1:]}", columns_of(columns),
        labels, settings=settings, without=IDS[1:] + ["short_id"],
    )


def results():
    """The tables."""
    compared = [
        (name, "percentunit", f"{expr} / scalar({of_baseline(expr)}) - 1",
         [("decimals", 1), *coloured(LOWER if unit == "s" else HIGHER)])
        for name, unit, expr, _ in MEASURED
    ]
    # What is lower or higher for certain has a colour, since the interval does not contain 0.
    ends = [
        (f"{name} {title}", "percentunit",
         f"{interval(metric, percentile, own)} / scalar({of_baseline(interval(metric, percentile, other))}) - 1",
         [("decimals", 1), *coloured(steps)])
        for name, metric, percentile in PERCENTILES
        for title, own, other, steps in (
            ("from", "lower", "upper", [("text", None), ("red", 0)]),
            ("to", "upper", "lower", [("green", None), ("text", 0)]),
        )
    ]
    info = last(of("aiperf_run_info", BOTH_PHASES))
    processes = f"count by ({', '.join([RUN_LABELS, *shared.SETTINGS])}) ({info})"
    return row(
        "Results",
        results_table(result_columns()),
        table("Difference to the baseline", "Each value divided by that of the run that is chosen as "
              "baseline, minus 1: green if better by more than 5%, red if worse. Whether latencies differ "
              "by more than chance is in the next table.",
              columns_of(compared), {"run": "Run"}, settings=RUN_COLUMN, without=[*IDS, "short_id"]),
        table("Differences of latencies, with intervals", "From and to: how much each percentile differs "
              "from the baseline's if both are at the ends of their 95% confidence intervals. Red: higher "
              "for certain; green: lower for certain. Not for sharded runs.",
              columns_of(ends), {"run": "Run"}, settings=RUN_COLUMN, without=[*IDS, "short_id"]),
        table("Settings", "What was run, as exported by the run itself; the URL is the first one.",
              columns_of([("Processes", COUNT, processes, [])]),
              {"run": "Run", **shared.SETTINGS}, settings=RUN_COLUMN, without=[*IDS, "short_id"]),
    )


def of_baseline(expr):
    """The same of the baseline, whether or not it is among the chosen runs."""
    return expr.replace('aiperf_benchmark_id=~"$runs"', 'aiperf_benchmark_id="$baseline"')


def side_by_side():
    """Bars, and throughput against latency."""
    bar = lambda title, text, unit, expr, **more: bars(
        title, text, unit, now(f"sort_desc({by_run(expr)})", LEGEND), **more
    )
    percentile = lambda title, metric, which: bar(
        f"{title} p{which}", f"Lower is better. {EXACT}", "s", result(metric, which)
    )
    return row(
        "Side by side",
        points("Throughput and latency", "One point per run, which it names when pointed at: the more to the right and the lower, the "
               f"better. Where a curve bends upwards, the server is saturated. {EXACT}",
               ("Output tokens/s", TOKENS, by_run(OUTPUT)), ("Latency p99", "s", by_run(result(LATENCY, 99))),
               {"run": "Run"}, width=12),
        points("Requests and time to first token", f"One point per run, as before. {EXACT}",
               ("Requests/s", "reqps", by_run(RATE)), ("TTFT p99", "s", by_run(result(TTFT, 99))),
               {"run": "Run"}, width=12),
        bar("Requests per second", f"Successful requests; higher is better. {ALL_SHARDS}", "reqps", RATE),
        bar("Output tokens per second", f"Tokens generated; higher is better. {ALL_SHARDS}", TOKENS, OUTPUT),
        bar("Good requests", "Fraction of all ended requests, failed ones included, that met every "
            f"objective; higher is better. {ALL_SHARDS}", "percentunit", GOOD, none="no objectives", max=1),
        percentile("TTFT", TTFT, 50), percentile("ITL", ITL, 50), percentile("Latency", LATENCY, 50),
        percentile("TTFT", TTFT, 99), percentile("ITL", ITL, 99), percentile("Latency", LATENCY, 99),
    )


def shards():
    """The exact percentiles of each shard."""
    percentiles = [
        (f"{title} p{percentile}", "s",
         by_shard(by_run(exact(metric, percentile, f"{RUN_LABELS}, service_instance_id"))), [])
        for title, metric in (("TTFT", TTFT), ("ITL", ITL), ("Latency", LATENCY))
        for percentile in (50, 90, 99)
    ]
    return row(
        "Exact percentiles of each shard",
        table("Exact percentiles", "Computed from all values, by shard, since exact percentiles of several shards "
              "cannot be combined.", percentiles, {"run": "Run", "shard": "Shard"},
              settings=RUN_COLUMN, without=[*IDS, "short_id", "service_instance_id"]),
        collapsed=True,
    )


def over_time():
    """All chosen runs as they went."""
    ok = of("aiperf_request_count_total")
    return row(
        "Over time",
        lines("Requests per second", "Successful requests of each run. Simultaneous runs share "
              "the server.", "reqps", query(by_run(f"sum by ({RUN_LABELS}) ({rate(ok)}) > 0"), LEGEND)),
        lines("TTFT p99", "Time to first token of each run. Estimated from buckets.", "s",
              query(by_run(quantile(0.99, f"aiperf_{TTFT}", REQUESTS, RUN_LABELS)), LEGEND, exemplar=True)),
        lines("Latency p99", "Request latency of each run. Estimated from buckets.", "s",
              query(by_run(quantile(0.99, f"aiperf_{LATENCY}", REQUESTS, RUN_LABELS)), LEGEND, exemplar=True)),
    )


def overlaid():
    """The candidate, and the baseline moved to the candidate's start."""
    matchers = lambda which: (
        f'aiperf_benchmark_id="${which}", {PHASE}, gen_ai_request_model=~"$model"'
    )
    pair = lambda made: [
        query(made(matchers("candidate"), "[$__rate_interval]"), "candidate"),
        # Prometheus 2 refuses an offset of 0, as of a run beside itself.
        query(made(matchers("baseline"), "[$__rate_interval] offset ${shift}s1ms"), "baseline"),
    ]
    moved = "The baseline is shifted so that both start at the candidate's start."
    count = lambda name: lambda which, window: f"sum(rate({name}{{{which}}}{window})) > 0"
    share = lambda name: lambda which, window: (
        f"histogram_quantile(0.99, sum by (le) (rate(aiperf_{name}_bucket{{{which}}}{window})))"
    )
    output = lambda which, window: (
        f"sum(rate(aiperf_output_sequence_length_sum{{{which}}}{window})) > 0"
    )
    part = lambda title, text, unit, made, **more: lines(
        title, f"{text} {moved}", unit, *pair(made), **more
    )
    return row(
        "Candidate and baseline since their start",
        part("Requests per second", "Successful requests.", "reqps",
             count("aiperf_request_count_total"), width=12),
        part("Output tokens per second", "Tokens generated, counted as requests end.", TOKENS, output, width=12),
        part("TTFT p99", "Time to first token, estimated from buckets.", "s", share(TTFT)),
        part("ITL p99", "Inter-token latency, estimated from buckets.", "s", share(ITL)),
        part("Latency p99", "Request latency, estimated from buckets.", "s", share(LATENCY)),
    )


def began(which):
    """When a run sent its first request, looked for in the week before the range's end."""
    sent = f'{shared.SENT}{{aiperf_benchmark_id="${which}"}}'
    return f"min(min_over_time(timestamp({sent})[7d:10s]))"


def dashboard():
    """The dashboard."""
    chosen = f'gen_ai_request_model=~"$model", {ATTRIBUTE}'
    attribute = variable(
        "attribute", "Attribute", "A label to select runs by, such as one set with "
        "--otel-resource-attributes.", f"label_names({shared.SENT})", default="service_name",
    )
    value = variable(
        "value", "Value", "The label's value.", f"label_values({shared.SENT}, $attribute)", many=True
    )
    shift = variable(
        "shift", "Shift", "Seconds from the baseline's start to the candidate's start.",
        f"query_result({began('candidate')} - {began('baseline')})", regex="/ (-?[0-9]+)/", hide=2,
    )
    variables = [
        shared.model(), attribute, value, shared.run(chosen, "runs", "Runs", many=True), shared.phase(),
        shared.run(chosen, "candidate", "Candidate"),
        shared.run(chosen, "baseline", "Baseline", but="candidate"), shift,
    ]
    rows = [results(), side_by_side(), over_time(), overlaid(), shards()]
    text = "Final results of several runs side by side, and two runs on a common time axis."
    links = shared.links(shared.COMPARE_UID)
    return whole(shared.COMPARE_UID, "Compare runs", text, variables, links, rows)
