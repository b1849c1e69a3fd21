"""*Compare runs*: results of several runs side by side, and two of them on one axis."""

from . import shared
from .grafana import (
    good_until, VERDICTS, bars, coloured, lines, now, query, row, table, variable,
)
from .grafana import dashboard as whole
from .queries import last, quantile, rate

ATTRIBUTE = '$attribute=~"$value"'
OF_RUNS = f'{ATTRIBUTE}, aiperf_benchmark_id=~"$run", aiperf_benchmark_phase=~"$phase"'
REQUESTS = f'{OF_RUNS}, gen_ai_request_model=~"$model"'
BY = "aiperf_benchmark_id, aiperf_model_name"
RUN_NAME = "{{aiperf_model_name}} {{aiperf_benchmark_id}}"
TOKENS = "suffix: tokens/s"


def of(metric, matchers=REQUESTS, extra=""):
    """A selector of the chosen runs."""
    return f"{metric}{{{matchers}{', ' if extra else ''}{extra}}}"


def added(metric, matchers=OF_RUNS):
    """Final results that add up over shards."""
    return f"sum by ({BY}) ({last(of(metric, matchers))})"


def most(metric):
    """The largest of all shards."""
    return f"max by ({BY}) ({last(of(metric, OF_RUNS))})"


def estimate(share, metric):
    """A quantile of the whole run, from the buckets of all shards."""
    return quantile(share, f"aiperf_{metric}", REQUESTS, BY, over=last)


def exact(metric, percentile, by=f"{BY}, service_instance_id"):
    """An exact percentile, by shard."""
    extra = f'aiperf_percentile="{percentile}"'
    return f"max by ({by}) ({last(of(f'aiperf_percentiles_{metric}', OF_RUNS, extra))})"


SENT = added("aiperf_timing_requests_sent_total")
FAILED = f"({added('aiperf_error_request_count_total', REQUESTS)} or 0 * {SENT})"
ENDED = added("gen_ai_client_operation_duration_seconds_count", REQUESTS)
GOOD = (
    f"{added('aiperf_good_request_count_total', REQUESTS)} / "
    f"{added('aiperf_request_count_total', REQUESTS)}"
)
TTFT, ITL, LATENCY = "time_to_first_token_seconds", "inter_token_latency_seconds", "request_latency_seconds"
ALL_SHARDS = "Over all shards."
BUCKETS = "Estimated from the buckets of all shards; the table has the exact values."


def results():
    """The tables."""
    columns = [
        ("Verdict", "none", most("aiperf_client_verdict_ratio"),
         [("mappings", VERDICTS), ("custom.cellOptions", {"type": "color-text"})]),
        ("Duration", "s", most("aiperf_benchmark_duration_seconds"), []),
        ("Requests", "short", ENDED, []),
        ("Error rate", "percentunit", f"{FAILED} / {ENDED}", coloured(good_until(0.001, 0.01))),
        ("Requests/s", "reqps", added("aiperf_request_throughput_per_second"), []),
        ("Output tokens/s", TOKENS, added("aiperf_output_token_throughput_per_second"), []),
        ("Goodput", "reqps", added("aiperf_goodput_per_second"), []),
        ("Good requests", "percentunit", GOOD, []),
    ]
    names = {"aiperf_benchmark_id": "Run", "aiperf_model_name": "Model"}
    percentiles = [
        (f"{title} p{percentile}", "s", exact(metric, percentile), [])
        for title, metric in (("TTFT", TTFT), ("ITL", ITL), ("Latency", LATENCY))
        for percentile in (50, 90, 99)
    ]
    return row(
        "Results",
        table("Results", "One row per run, with counts and rates summed over its shards. Read the verdict "
              "first: latencies of a suspect run are partly caused by the client.", columns, names),
        table("Exact percentiles", "Computed from all values, by shard, since exact percentiles of several shards "
              "cannot be combined.", percentiles, {**names, "service_instance_id": "Shard"}),
    )


def side_by_side():
    """Bars."""
    bar = lambda title, text, unit, expr, **more: bars(
        title, text, unit, now(f"sort_desc({expr})", RUN_NAME), **more
    )
    quantile_bar = lambda title, metric, share: bar(
        f"{title} p{round(100 * share)}", f"Lower is better. {BUCKETS}", "s", estimate(share, metric)
    )
    return row(
        "Side by side",
        bar("Requests per second", f"Successful requests; higher is better. {ALL_SHARDS}", "reqps",
            added("aiperf_request_throughput_per_second")),
        bar("Output tokens per second", f"Tokens generated; higher is better. {ALL_SHARDS}", TOKENS,
            added("aiperf_output_token_throughput_per_second")),
        bar("Goodput", f"Requests per second that met every objective; higher is better. {ALL_SHARDS}",
            "reqps", added("aiperf_goodput_per_second"), none="no objectives"),
        quantile_bar("TTFT", TTFT, 0.5), quantile_bar("ITL", ITL, 0.5),
        quantile_bar("Latency", LATENCY, 0.5),
        quantile_bar("TTFT", TTFT, 0.99), quantile_bar("ITL", ITL, 0.99),
        quantile_bar("Latency", LATENCY, 0.99),
        bar("Error rate", f"Fraction of requests that failed; lower is better. {ALL_SHARDS}",
            "percentunit", f"{FAILED} / {ENDED}", steps=good_until(0.001, 0.01), width=12),
        bar("Good requests", f"Fraction of requests that met every objective. {ALL_SHARDS}",
            "percentunit", GOOD, none="no objectives", max=1, width=12),
    )


def over_time():
    """All chosen runs as they went."""
    ok = of("aiperf_request_count_total")
    return row(
        "Over time",
        lines("Requests per second", "Successful requests of each run. Simultaneous runs share "
              "the server.", "reqps", query(f"sum by ({BY}) ({rate(ok)})", RUN_NAME)),
        lines("TTFT p99", "Time to first token of each run. Estimated from buckets.", "s",
              query(quantile(0.99, f"aiperf_{TTFT}", REQUESTS, BY), RUN_NAME)),
        lines("Latency p99", "Request latency of each run. Estimated from buckets.", "s",
              query(quantile(0.99, f"aiperf_{LATENCY}", REQUESTS, BY), RUN_NAME)),
    )


def overlaid():
    """The candidate, and the baseline moved to the candidate's start."""
    matchers = lambda which: (
        f'aiperf_benchmark_id="${which}", aiperf_benchmark_phase=~"$phase", gen_ai_request_model=~"$model"'
    )
    pair = lambda made: [
        query(made(matchers("candidate"), "[$__rate_interval]"), "candidate"),
        # Prometheus 2 refuses an offset of 0, as of a run beside itself.
        query(made(matchers("baseline"), "[$__rate_interval] offset ${shift}s1ms"), "baseline"),
    ]
    moved = "The baseline is shifted so that both start at the candidate's start."
    count = lambda name: lambda which, window: f"sum(rate({name}{{{which}}}{window}))"
    share = lambda name: lambda which, window: (
        f"histogram_quantile(0.99, sum by (le) (rate(aiperf_{name}_bucket{{{which}}}{window})))"
    )
    output = lambda which, window: (
        f'sum(rate(gen_ai_client_token_usage_sum{{{which}, gen_ai_token_type="output"}}{window}))'
    )
    part = lambda title, text, unit, made, **more: lines(
        title, f"{text} {moved}", unit, *pair(made), **more
    )
    return row(
        "Two runs since their start",
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
        shared.model(), attribute, value, shared.run(chosen, many=True), shared.phase(),
        shared.run(chosen, "candidate", "Candidate"), shared.run(chosen, "baseline", "Baseline"), shift,
    ]
    rows = [results(), side_by_side(), over_time(), overlaid()]
    text = "Final results of several runs side by side, and two runs on a common time axis."
    links = shared.links(shared.COMPARE_UID)
    return whole(shared.COMPARE_UID, "Compare runs", text, variables, links, rows)
