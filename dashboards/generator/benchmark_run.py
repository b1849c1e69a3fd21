"""*Benchmark run*: one run in full."""

from . import shared
from .grafana import (
    good_until, PLAIN, VERDICTS, YES_NO, bars, coloured, heat, lines, now, query, row, stat,
    table,
)
from .grafana import dashboard as whole
from .queries import PHASE, REQUEST, RUN, by_shard, last, of, or_none, or_zero, quantile, rate, speed, total

BY_SHARD = "{{shard}}"
AT_END = "at the phase's end"
OK, FAILED = of("aiperf_request_count_total"), of("aiperf_error_request_count_total")
ENDED = of("gen_ai_client_operation_duration_seconds_count")
OUTPUT = of("gen_ai_client_token_usage_sum", extra='gen_ai_token_type="output"')
INPUT = of("gen_ai_client_token_usage_sum", extra='gen_ai_token_type="input"')
ELAPSED = f'max({last(of("aiperf_timing_phase_elapsed_sec_seconds", PHASE))})'
REQUESTS_IN_FLIGHT = of("aiperf_timing_requests_in_flight", PHASE)
FROM_BUCKETS = "Estimated from the histogram's buckets, over all shards."
EXACT = (
    "From every value, not from buckets; told when a phase ends, by each shard, as exact "
    "percentiles of several shards cannot be combined."
)


def exact(metric, percentile):
    """An exact percentile of the phase, by shard."""
    selector = of(f"aiperf_percentiles_{metric}", PHASE, f'aiperf_percentile="{percentile}"')
    return by_shard(f"max by (service_instance_id, aiperf_benchmark_phase) ({last(selector)})")


def exact_stat(title, description, metric, percentile, unit="s", **more):
    """An exact percentile in large letters."""
    queries = [now(exact(metric, percentile), BY_SHARD)]
    return stat(title, f"{description} {EXACT}", unit, *queries, none=AT_END, **more)


def percentiles(title, description, metric, unit="s", **more):
    """p50, p90 and p99 over time."""
    queries = [
        query(quantile(share, metric), name)
        for share, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
    ]
    return lines(title, f"{description} {FROM_BUCKETS}", unit, *queries, **more)


def heat_map(title, description, metric, unit="s", **more):
    """How many values fell into which bucket."""
    expr = f"sum by (le) (increase({of(metric + '_bucket')}[$__rate_interval]))"
    return heat(title, f"{description} A second band means two kinds of request.", unit, expr, **more)


def exact_bars(title, description, metric, unit="s", **more):
    """All exact percentiles of a metric."""
    selector = last(of(f"aiperf_percentiles_{metric}", PHASE, 'aiperf_percentile=~"50|75|90|95|99"'))
    by = "aiperf_percentile, service_instance_id, aiperf_benchmark_phase"
    expr = f"sort_desc({by_shard(f'max by ({by}) ({selector})')})"
    legend = "p{{aiperf_percentile}} {{aiperf_benchmark_phase}} {{shard}}"
    return bars(title, f"{description} {EXACT}", unit, now(expr, legend), none=AT_END, **more)


def header():
    """The run at a glance, while it goes and after."""
    final = lambda name: f"sum({last(of(name, PHASE))})"
    failed = or_zero(total(FAILED))
    return row(
        "At a glance",
        stat("Client verdict", "Whether the client kept up: where it is suspect or invalid, the "
             "latencies are partly the client's own. The worst of all shards, told at the end.",
             "none", now(f'max({last(of("aiperf_client_verdict_ratio", RUN))})', "verdict"),
             mappings=VERDICTS, none=AT_END),
        stat("Succeeded", "Requests of the phase that succeeded.", "short",
             now(or_zero(total(OK)), "succeeded")),
        stat("Failed", "Share of ended requests that failed or were cancelled; see Errors for why.",
             "percentunit", now(f"({failed}) / {total(ENDED)}", "failed"),
             steps=good_until(0.001, 0.01), decimals=2),
        stat("Requests per second", "Successful requests per second: the final result, before the "
             "end those of the time so far.", "reqps",
             now(f"{final('aiperf_request_throughput_per_second')} or {total(OK)} / {ELAPSED}",
                 "requests"), decimals=2),
        stat("Output tokens per second", "Tokens generated per second over all requests: the final "
             "result, before the end those of the time so far.", "suffix: tokens/s",
             now(f"{final('aiperf_output_token_throughput_per_second')} or {total(OUTPUT)} / {ELAPSED}",
                 "tokens"), decimals=1),
        stat("Goodput", "Requests per second that met every objective of --goodput; absent "
             "without objectives.", "reqps",
             now(final("aiperf_goodput_per_second"), "goodput"), decimals=2, none="no objectives"),
        exact_stat("TTFT p50", "Time to first token, half of the requests were faster.",
                   "time_to_first_token_seconds", 50),
        exact_stat("TTFT p99", "Time to first token, one request of a hundred was slower.",
                   "time_to_first_token_seconds", 99),
        exact_stat("ITL p50", "Inter-token latency, half of the requests were faster.",
                   "inter_token_latency_seconds", 50),
        exact_stat("ITL p99", "Inter-token latency, one request of a hundred was slower.",
                   "inter_token_latency_seconds", 99),
        exact_stat("Latency p50", "Request latency, half of the requests were faster.",
                   "request_latency_seconds", 50),
        exact_stat("Latency p99", "Request latency, one request of a hundred was slower.",
                   "request_latency_seconds", 99),
    )


def throughput():
    """How much was done."""
    tokens = lambda kind: of("gen_ai_client_token_usage_sum", extra=f'gen_ai_token_type="{kind}"')
    good = of("aiperf_good_request_count_total")
    return row(
        "Throughput",
        lines("Requests per second", "Requests that ended, by outcome. Level while latency grows: "
              "the server is saturated.", "reqps", query(speed(OK), "completed"),
              query(or_zero(speed(FAILED)), "errors"), stack=True),
        lines("Tokens per second", "Tokens of successful requests, counted when a request ends. "
              "Long requests make it uneven.", "suffix: tokens/s",
              query(speed(tokens("input")), "input"), query(speed(tokens("output")), "output")),
        lines("In flight", "Requests that await a response, and sessions with a turn in progress. In "
              "an open loop a steady rise means that the server cannot follow.", "short",
              query(f"sum({REQUESTS_IN_FLIGHT})", "requests in flight"),
              query(f'sum({of("aiperf_timing_sessions_in_flight", PHASE)})', "sessions in flight")),
        lines("Goodput", "Successful requests per second that met every objective of --goodput, "
              "beside all successful ones. A gap means that objectives are missed.", "reqps",
              query(speed(good), "good"), query(speed(OK), "completed"), width=12),
        lines("Good requests", "Share of the successful requests that met every objective of "
              "--goodput.", "percentunit", query(f"{speed(good)} / {speed(OK)}", "good"), width=12,
              max=1),
    )


def latency():
    """Rows of time to first token, inter-token and request latency."""
    first, between, whole_request = (
        "time_to_first_token_seconds", "inter_token_latency_seconds", "request_latency_seconds",
    )
    return [
        row("Time to first token",
            percentiles("TTFT", "Time from sending a request to the first piece of content; rises "
                        "first when requests queue.", f"aiperf_{first}"),
            heat_map("TTFT distribution", "Requests by their time to first token.", f"aiperf_{first}"),
            exact_bars("TTFT of the phase", "Exact percentiles of time to first token.", first)),
        row("Inter-token latency",
            percentiles("ITL", "Mean time between tokens after the first, of each request; rises "
                        "with the server's batch.", f"aiperf_{between}"),
            heat_map("ITL distribution", "Requests by their inter-token latency.", f"aiperf_{between}"),
            exact_bars("ITL of the phase", "Exact percentiles of inter-token latency.", between),
            percentiles("Gaps between chunks", "Each gap between two pieces of content. A p99 far "
                        "above the ITL means stalls within streams.",
                        "aiperf_inter_chunk_latency_seconds", width=12),
            percentiles("Tokens per second of one user", "What one user sees after the first token; "
                        "here low is bad, so the p50 is the one to watch.",
                        "aiperf_output_token_throughput_per_user_per_second", "suffix: tokens/s",
                        width=12)),
        row("Request latency",
            percentiles("Latency", "Time from sending a request to the last piece of its content.",
                        f"aiperf_{whole_request}"),
            heat_map("Latency distribution", "Requests by their latency.", f"aiperf_{whole_request}"),
            exact_bars("Latency of the phase", "Exact percentiles of request latency.", whole_request),
            percentiles("Latency from due", "Time from when the schedule wanted a request, so a "
                        "user's wait when the client or its limits hold requests back. Above the "
                        "latency: read Client health.",
                        "aiperf_effective_latency_seconds", width=12),
            percentiles("Wait before sending", "Time from when a request was due to when it was "
                        "sent. In a closed loop it is next to nothing.",
                        "aiperf_credit_to_start_latency_seconds", width=12)),
    ]


def tokens():
    """What the requests asked and got."""
    totals = (
        ("input", "aiperf_input_sequence_length_sum"), ("output", "aiperf_output_token_count_sum"),
        ("reasoning", "aiperf_reasoning_token_count_sum"),
    )
    return row(
        "Tokens",
        bars("Tokens so far", "Tokens of the successful requests; output without reasoning.", "short",
             *(now(total(of(metric)), name) for name, metric in totals), width=8),
        percentiles("Input length", "Tokens of a prompt with its context. A drift shows that the load "
                    "changes.", "aiperf_input_sequence_length", "suffix: tokens"),
        percentiles("Output length", "Tokens that a request generated, reasoning included. Shorter "
                    "than asked for: the model stops by itself.", "aiperf_output_sequence_length",
                    "suffix: tokens"),
        lines("Reasoning tokens per second", "Reasoning tokens beside the rest of the output; absent "
              "where the server sends no reasoning apart.", "suffix: tokens/s",
              query(speed(of("aiperf_reasoning_token_count_sum")), "reasoning"),
              query(speed(of("aiperf_output_token_count_sum")), "output")),
        lines("Tokens as the server counts them", "Tokens per second by the server's usage; far from "
              "the client's own count, the tokenizer is another one.", "suffix: tokens/s",
              query(speed(of("aiperf_usage_prompt_tokens_sum")), "input"),
              query(speed(of("aiperf_usage_completion_tokens_sum")), "output")),
        lines("Prompt tokens from the cache", "Share of the prompt tokens that the server read from "
              "its cache, by its usage; absent where it does not tell.", "percentunit",
              query(f'{speed(of("aiperf_usage_prompt_cache_read_tokens_sum"))} / '
                    f'{speed(of("aiperf_usage_prompt_tokens_sum"))}', "read from cache"), max=1),
    )


def errors():
    """What failed, and how."""
    failed = of("gen_ai_client_operation_duration_seconds_bucket", extra='error_type!=""')
    after = f"histogram_quantile(0.5, sum by (le, error_type) ({rate(failed)}))"
    return row(
        "Errors",
        lines("Errors per second", "Requests that failed, by kind; _OTHER is a connection that broke "
              "or was refused.", "reqps", query(or_none(speed(FAILED, "error_type"), "error_type"), "{{error_type}}"),
              stack=True),
        bars("Errors so far", "Requests of the phase that failed, by kind.", "short",
             now(or_none(total(FAILED, "error_type"), "error_type"), "{{error_type}}"),
             steps=[("green", None), ("red", 1)]),
        lines("Time until failure", "Median duration of failed requests, by kind. Near zero: refused; "
              "near the time limit: the server hangs. " + FROM_BUCKETS, "s",
              query(after, "{{error_type}}")),
    )


def phases():
    """How the phases go."""
    phase = "aiperf_benchmark_phase"
    timing = lambda name: of(f"aiperf_timing_{name}", RUN)
    count = lambda name: f"sum by ({phase}) ({last(timing(name))})"
    zero = f" or 0 * {count('requests_sent_total')}"
    flag = lambda name: f"max by ({phase}) ({last(timing(name))}){zero}"
    columns = [
        ("Elapsed", "s", f"max by ({phase}) ({last(timing('phase_elapsed_sec_seconds'))})", []),
        ("Sent", "short", count("requests_sent_total"), []),
        ("Completed", "short", count("requests_completed_total") + zero, []),
        ("Errors", "short", count("requests_errors_total") + zero,
         coloured([("green", None), ("red", 1)])),
        ("Cancelled", "short", count("requests_cancelled_total") + zero, []),
        ("Sessions sent", "short", count("sessions_sent_total") + zero, []),
        ("Sessions completed", "short", count("sessions_completed_total") + zero, []),
        ("Sessions cancelled", "short", count("sessions_cancelled_total") + zero, []),
        ("Turns", "short", count("sessions_turns_total") + zero, []),
    ] + [
        (name, "none", flag(metric), [("mappings", YES_NO), *coloured(PLAIN)])
        for name, metric in (
            ("Time limit hit", "phase_timeout_triggered"),
            ("Grace limit hit", "phase_grace_timeout_triggered"),
            ("Cancelled by user", "phase_was_cancelled"),
        )
    ]
    progress = lambda name: f"sum({of('aiperf_timing_' + name, PHASE)})"
    return row(
        "Phases",
        table("Phases", "Each phase of the run, over all shards. The time limit is "
              "--benchmark-duration; past the grace period what is in flight is cancelled.",
              columns, {phase: "Phase"}, height=6),
        lines("Requests sent and ended", "Counts of the phase. Lines that part: requests are held up "
              "in the server.", "short", query(progress("requests_sent_total"), "sent"),
              query(progress("requests_completed_total"), "completed"),
              query(or_zero(progress("requests_errors_total")), "errors")),
        lines("Sessions", "Conversations begun and finished; a session of one turn is one request.",
              "short", query(progress("sessions_sent_total"), "sent"),
              query(or_zero(progress("sessions_completed_total")), "completed")),
        lines("Elapsed", "Time since each phase began; level once it has ended.", "s",
              query(f"max by ({phase}) ({timing('phase_elapsed_sec_seconds')})",
                    "{{aiperf_benchmark_phase}}")),
    )


def health():
    """Whether the client itself kept up."""
    client = lambda name, matchers=PHASE: of(f"aiperf_client_{name}", matchers)
    each = lambda name: by_shard(f"max by (service_instance_id) ({client(name)})")
    return row(
        "Client health",
        percentiles("Schedule slip", "How late requests left, against the schedule of an open loop. "
                    "Milliseconds matter where TTFT is small.", "aiperf_client_schedule_slip_seconds"),
        percentiles("Read lag", "From the kernel's receive stamp of an event until the program had "
                    "read it: what the client adds to latencies. Absent where nothing was stamped.",
                    "aiperf_client_read_lag_seconds"),
        percentiles("Arrival uncertainty", "How much earlier than stamped an event may have come; a "
                    "bound, not an error.", "aiperf_client_stamp_uncertainty_seconds"),
        lines("Processor", "Processor time of the program over the phase, 1 is one core, and of the "
              "busiest worker, where 1 is all of it: near 1 the client is the limit.", "percentunit",
              query(each("cpu_utilization_ratio"), f"program {BY_SHARD}"),
              query(each("worker_cpu_utilization_ratio"), f"busiest worker {BY_SHARD}")),
        lines("Records that wait", "Bytes of records that wait in memory to be processed.", "bytes",
              query(each("queue_size_bytes"), BY_SHARD)),
        lines("Rate reached", "Requests per second sent over those asked for; below 0.99 the load is "
              "not the one asked for. Only with a request rate.", "percentunit",
              query(each("rate_ratio"), BY_SHARD)),
        stat("Verdict", "Whether the client kept up, by shard; told at the end.", "none",
             now(by_shard(f'max by (service_instance_id) ({last(client("verdict_ratio", RUN))})'), BY_SHARD),
             mappings=VERDICTS, none=AT_END, width=6),
        stat("Records through a file", "Records that memory had no room for: no loss, but the "
             "processors lag behind.", "short",
             now(or_zero(total(client("queue_spilled_total"))), "spilled"),
             steps=good_until(1, 1000), width=6),
        stat("Repeated attempts", "Attempts repeated because a reused connection died before the "
             "first response byte.", "short",
             now(or_zero(total(of("aiperf_client_retries_total", REQUEST))), "retries"),
             steps=good_until(1, 100), width=6),
        stat("Traces lost", "Requests chosen by --trace-sample whose spans did not reach the "
             "collector.", "short",
             now(or_zero(total(client("traces_lost_total"))), "lost"),
             steps=good_until(1, 100), width=6),
    )


def dashboard():
    """The dashboard."""
    variables = [shared.model(), shared.run(), shared.phase(), shared.instance()]
    rows = [header(), throughput(), *latency(), tokens(), errors(), phases(), health()]
    text = "One benchmark run while it goes and after: load, latencies, tokens, errors, client health."
    return whole(shared.RUN_UID, "Benchmark run", text, variables, shared.links(shared.RUN_UID), rows)
