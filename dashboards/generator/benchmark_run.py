"""*Benchmark run*: one run in full."""

from . import shared
from .grafana import (
    COUNT, GOOD_SHARE, LOADS, PASSED, PLAIN, SECONDS, VERDICTS, YES_NO, bars, coloured, good_until,
    heat, lines, now, query, row, stat, table,
)
from .grafana import dashboard as whole
from .queries import (
    PHASE, REQUEST, RUN, by_shard, ended, filled, in_either, last, of, or_none, or_zero, quantile, rate,
    speed, total, while_active,
)

BY_SHARD = "{{shard}}"
AT_END = "at the phase's end"
OK, FAILED = of("aiperf_request_count_total"), of("aiperf_error_request_count_total")
OUTPUT = of("aiperf_output_sequence_length_sum")
INPUT = of("aiperf_input_sequence_length_sum")
ELAPSED = f'max({last(of("aiperf_timing_phase_elapsed_sec_seconds", PHASE))})'
REQUESTS_IN_FLIGHT = of("aiperf_timing_requests_in_flight", PHASE)
OBJECTIVES = 'aiperf_run_objectives!=""'
FROM_BUCKETS = "Estimated from the histogram's buckets, over all shards."
EXACT = (
    "Computed from all values, not from buckets; exported at the end of a phase by each shard, since "
    "exact percentiles of several shards cannot be combined."
)


def exact(metric, percentile):
    """An exact percentile of the phase, by shard."""
    selector = of(f"aiperf_percentiles_{metric}", PHASE, f'aiperf_percentile="{percentile}"')
    return by_shard(f"max by (service_instance_id, aiperf_benchmark_phase) ({last(selector)})")


def exact_stat(title, description, metric, percentile, unit="s", **more):
    """An exact percentile in large letters, and an estimate until there is one."""
    known = exact(metric, percentile)
    estimate = quantile(percentile / 100, f"aiperf_{metric}", over=last)
    queries = [now(known, BY_SHARD), now(f"{estimate} unless on () {known}", "estimate so far")]
    text = f"{description} {EXACT} Until then, an estimate from the buckets so far."
    return stat(title, text, unit, *queries, none="–", **more)


def percentiles(title, description, metric, unit="s", **more):
    """p50, p90 and p99 over time, with exemplars. All three have the same series, so that the
    exemplars of one are those of all."""
    queries = [
        query(quantile(share, metric), name, exemplar=name == "p99")
        for share, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
    ]
    return lines(title, f"{description} {FROM_BUCKETS}", unit, *queries, **more)


def heat_map(title, description, metric, unit="s", **more):
    """How many values fell into which bucket."""
    text = f"{description} A second band indicates two kinds of requests."
    return heat(title, text, unit, filled(metric), **more)


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
    failed, good = or_zero(total(FAILED)), total(of("aiperf_good_request_count_total"))
    verdict = f'max({last(of("aiperf_client_verdict_ratio", RUN))})'
    finding = "aiperf_client_finding"
    reasons = f'max by ({finding}) ({last(of("aiperf_client_verdict_reason", RUN))})'
    load = f'max({last(of("aiperf_load_verdict_ratio", RUN))})'
    gate = "aiperf_gate_expression, aiperf_gate_unit"
    gates = lambda part: f'max by ({gate}) ({last(of(f"aiperf_gate_{part}", RUN))})'
    fine = f'label_replace({verdict} == 0, "{finding}", "none: the client kept up", "", "")'
    kept = ", ".join(["aiperf_run_name", *shared.SETTINGS])
    info = last(of("aiperf_run_info", RUN))
    # A run with objectives, in which no request has met them yet.
    no_good = f'0 * max({last(of("aiperf_run_info", RUN, OBJECTIVES))})'
    good = f"({good} or {no_good})"
    return row(
        "At a glance",
        table("Run", "What is run, as exported by the run itself; the URL is the first one.",
              [("Elapsed", SECONDS, f"max by ({kept}) ({info}) * scalar({ELAPSED})", [("decimals", 1)])],
              {"aiperf_run_name": "Name", **shared.SETTINGS}, height=4),
        stat("Client verdict", "Whether the client kept up. If suspect or invalid, latencies are "
             "partly caused by the client. The worst of all shards, exported at the end.",
             "none", now(verdict, "verdict"), mappings=VERDICTS, none=AT_END, height=5),
        stat("Load verdict", "Whether the server kept up with the load. If saturated, latencies "
             "depend on how long the run took. Exported at the end.",
             "none", now(load, "verdict"), mappings=LOADS, none=AT_END, height=5),
        table("Reasons for the verdict", "Why the verdict is not valid, exported at the end.",
              [("Severity", "none", f"{reasons} or {fine}",
                [("mappings", VERDICTS), ("custom.cellOptions", {"type": "color-text"}), ("custom.width", 90)])],
              {finding: "Finding"}, width=7, height=5),
        table("Gates", "Whether the results kept each limit of --gate, exported at the end; empty "
              "without gates. A gate without a value has failed.",
              [("Result", "none", gates("passed"),
                [("mappings", PASSED), ("custom.cellOptions", {"type": "color-background"}), ("custom.width", 80)]),
               ("Value", "none", gates("value"), []), ("Limit", "none", gates("limit"), [])],
              {"aiperf_gate_expression": "Gate", "aiperf_gate_unit": "Unit"}, width=9, height=5),
        stat("Succeeded", "Successful requests of the phase.", COUNT,
             now(or_zero(total(OK)), "succeeded")),
        stat("Failed", "Fraction of ended requests that failed or were cancelled; see Errors for the reasons.",
             "percentunit", now(f"({failed}) / {ended(total)}", "fraction"),
             steps=good_until(0.001, 0.01), decimals=2),
        stat("Requests per second", "Successful requests per second: the final result, or until the "
             "end the average so far.", "reqps",
             now(f"{final('aiperf_request_throughput_per_second')} or {total(OK)} / {ELAPSED}",
                 "requests"), decimals=2),
        stat("Output tokens per second", "Tokens generated per second over all requests: the final "
             "result, or until the end the average so far.", "suffix: tokens/s",
             now(f"{final('aiperf_output_token_throughput_per_second')} or {total(OUTPUT)} / {ELAPSED}",
                 "tokens"), decimals=1),
        stat("Goodput", "Requests per second that met every objective of --goodput: the final result, "
             "or until the end the average so far.", "reqps",
             now(f"{final('aiperf_goodput_per_second')} or {good} / {ELAPSED}", "goodput"),
             decimals=2, none="no objectives"),
        stat("Good requests", "Fraction of all ended requests, failed ones included, that met every "
             "objective of --goodput.", "percentunit",
             now(f"{good} / {ended(total)}", "fraction"), steps=GOOD_SHARE, decimals=2,
             none="no objectives"),
        exact_stat("TTFT p50", "Median time to first token, of streamed responses.",
                   "time_to_first_token_seconds", 50),
        exact_stat("TTFT p99", "99th percentile of the time to first token, of streamed responses.",
                   "time_to_first_token_seconds", 99),
        exact_stat("ITL p50", "Median inter-token latency, of streamed responses.",
                   "inter_token_latency_seconds", 50),
        exact_stat("ITL p99", "99th percentile of the inter-token latency, of streamed responses.",
                   "inter_token_latency_seconds", 99),
        exact_stat("Latency p50", "Median request latency.",
                   "request_latency_seconds", 50),
        exact_stat("Latency p99", "99th percentile of the request latency.",
                   "request_latency_seconds", 99),
    )


def throughput():
    """How much was done."""
    active = lambda expr, name: query(while_active(expr), name)
    return row(
        "Throughput",
        lines("Requests per second", "Ended requests, by outcome. If the rate is constant while latency grows, "
              "the server is saturated.", "reqps", active(speed(OK), "succeeded"),
              active(or_zero(speed(FAILED)), "failed"), width=6),
        lines("Offered and served", "Requests sent per second, and those that ended, whatever the "
              "outcome. While more are sent than end, they accumulate in the server; in a closed loop "
              "both are equal.", "reqps",
              active(speed(of("aiperf_timing_requests_sent_total", PHASE)), "offered"),
              active(ended(speed), "served"), width=6),
        lines("Tokens per second", "Tokens of successful requests, counted when a request ends. "
              "Long requests make the curve uneven.", "suffix: tokens/s",
              active(speed(INPUT), "input"), active(speed(OUTPUT), "output"), width=6),
        lines("In flight", "Requests awaiting a response, and sessions with a turn in progress. In "
              "an open loop a steady rise means that the server cannot keep up.", COUNT,
              active(f"sum({REQUESTS_IN_FLIGHT})", "requests in flight"),
              active(f'sum({of("aiperf_timing_sessions_in_flight", PHASE)})', "sessions in flight"),
              width=6),
    )


def servers():
    """The servers that share the load of a run with several URLs."""
    by = "server_address, server_port"
    legend = "{{server_address}}:{{server_port}}"
    first = "aiperf_time_to_first_token_seconds"
    mean = lambda name: (
        f'{total(of(f"aiperf_{name}_sum"), by)} / {total(of(f"aiperf_{name}_count"), by)}'
    )
    failed = f"{total(FAILED, by)} or 0 * {total(OK, by)}"
    return row(
        "Servers (several --url)",
        table("By server", "The requests of each server, and the means of what it did. Equal loads "
              "with unequal latencies mean that a server is slower.",
              [("Succeeded", COUNT, total(OK, by), []),
               ("Failed", COUNT, failed, coloured([("green", None), ("red", 1)])),
               ("Mean TTFT", "s", mean("time_to_first_token_seconds"), []),
               ("Mean ITL", "s", mean("inter_token_latency_seconds"), []),
               ("Mean latency", "s", mean("request_latency_seconds"), [])],
              {"server_address": "Address", "server_port": "Port"}, width=8),
        lines("Requests per second by server", "Successful requests that ended, by server. If uneven, "
              "the load is not balanced.", "reqps", query(speed(OK, by), legend)),
        lines("TTFT p99 by server", f"Time to first token, by server. {FROM_BUCKETS}", "s",
              query(quantile(0.99, first, by=by), legend)),
        collapsed=True,
    )


def goodput():
    """Objectives; empty without."""
    good = of("aiperf_good_request_count_total")
    active = lambda expr, name: query(while_active(expr), name)
    return row(
        "Objectives (--goodput)",
        lines("Goodput", "Successful requests per second that met every objective of --goodput, "
              "and all successful ones. A gap means that objectives are missed.", "reqps",
              active(speed(good), "good"), active(speed(OK), "succeeded"), width=12),
        lines("Good requests", "Fraction of all ended requests, failed ones included, that met every "
              "objective of --goodput.", "percentunit",
              active(f"{speed(good)} / {ended(speed)}", "good"), width=12, steps=GOOD_SHARE, max=1),
        collapsed=True,
    )


def latency():
    """Rows of time to first token, inter-token and request latency."""
    first, between, whole_request = (
        "time_to_first_token_seconds", "inter_token_latency_seconds", "request_latency_seconds",
    )
    return [
        row("Time to first token",
            percentiles("TTFT", "Time from sending a request to the first content event; the first "
                        "metric to rise when requests queue.", f"aiperf_{first}"),
            heat_map("TTFT distribution", "Requests by their time to first token.", f"aiperf_{first}"),
            exact_bars("TTFT of the phase", "Exact percentiles of time to first token.", first)),
        row("Inter-token latency",
            percentiles("ITL", "Mean time between tokens of a request after the first; rises "
                        "with the server's batch size.", f"aiperf_{between}"),
            heat_map("ITL distribution", "Requests by their inter-token latency.", f"aiperf_{between}"),
            exact_bars("ITL of the phase", "Exact percentiles of inter-token latency.", between),
            percentiles("Gaps between chunks", "Gaps between consecutive content events. A p99 far "
                        "above the ITL means that streams stall.",
                        "aiperf_inter_chunk_latency_seconds", width=12),
            percentiles("Tokens per second per user", "Output rate that a user sees after the first token; "
                        "higher is better, so watch the p50.",
                        "aiperf_output_token_throughput_per_user_per_second", "suffix: tokens/s",
                        width=12)),
        row("Request latency",
            percentiles("Latency", "Time from sending a request to its last content event.",
                        f"aiperf_{whole_request}"),
            heat_map("Latency distribution", "Requests by their latency.", f"aiperf_{whole_request}"),
            exact_bars("Latency of the phase", "Exact percentiles of request latency.", whole_request),
            percentiles("Latency from due time", "Time from a request's due time, which includes "
                        "delays by the client and its limits. If it exceeds the latency, see Client "
                        "health.",
                        "aiperf_effective_latency_seconds", width=12),
            percentiles("Wait before sending", "Time from a request's due time until it was "
                        "sent. In a closed loop it is close to 0.",
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
        bars("Tokens so far", "Tokens of the successful requests; output without reasoning.", COUNT,
             *(now(total(of(metric)), name) for name, metric in totals), width=8),
        percentiles("Input length", "Tokens of a prompt, including its context. A drift means that the load "
                    "changes.", "aiperf_input_sequence_length", "suffix: tokens"),
        percentiles("Output length", "Tokens generated for a request, including reasoning. If shorter "
                    "than requested, the model ends its output early.", "aiperf_output_sequence_length",
                    "suffix: tokens"),
    )


def reported():
    """What only some servers report."""
    return row(
        "Reasoning, and the server's own counts of tokens",
        lines("Reasoning tokens per second", "Reasoning tokens and the rest of the output; absent "
              "if the server does not send reasoning separately.", "suffix: tokens/s",
              query(speed(of("aiperf_reasoning_token_count_sum")), "reasoning"),
              query(speed(of("aiperf_output_token_count_sum")), "output")),
        lines("Server-reported tokens", "Tokens per second from the server's usage. A large "
              "difference from the client's count means that the tokenizer is not the model's own.", "suffix: tokens/s",
              query(speed(of("aiperf_usage_prompt_tokens_sum")), "input"),
              query(speed(of("aiperf_usage_completion_tokens_sum")), "output")),
        lines("Prompt tokens from the cache", "Fraction of prompt tokens that the server read from "
              "its cache, from its usage; absent if it does not report this.", "percentunit",
              query(f'{speed(of("aiperf_usage_prompt_cache_read_tokens_sum"))} / '
                    f'{speed(of("aiperf_usage_prompt_tokens_sum"))}', "read from cache"), max=1),
        collapsed=True,
    )


def errors():
    """What failed, and how."""
    failed = lambda metric: rate(of(f"{metric}_bucket", extra='error_type!=""'))
    after = in_either(lambda metric: f"histogram_quantile(0.5, sum by (le, error_type) ({failed(metric)}))")
    return row(
        "Errors",
        lines("Errors per second", "Failed requests, by error type; _OTHER is a connection that broke "
              "or was refused.", "reqps", query(or_none(speed(FAILED, "error_type"), "error_type"), "{{error_type}}")),
        bars("Errors so far", "Failed requests of the phase, by error type.", COUNT,
             now(or_none(total(FAILED, "error_type"), "error_type"), "{{error_type}}"),
             steps=[("green", None), ("red", 1)]),
        lines("Time until failure", "Median duration of failed requests, by error type. Near 0, requests "
              "are rejected; near the timeout, the server hangs. " + FROM_BUCKETS, "s",
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
        ("Elapsed", SECONDS, f"max by ({phase}) ({last(timing('phase_elapsed_sec_seconds'))})", [("decimals", 1)]),
        ("Sent", COUNT, count("requests_sent_total"), []),
        ("Succeeded", COUNT, count("requests_completed_total") + zero, []),
        ("Failed", COUNT, count("requests_errors_total") + zero,
         coloured([("green", None), ("red", 1)])),
        ("Cancelled", COUNT, count("requests_cancelled_total") + zero, []),
        ("Sessions sent", COUNT, count("sessions_sent_total") + zero, []),
        ("Sessions completed", COUNT, count("sessions_completed_total") + zero, []),
        ("Sessions failed", COUNT, count("sessions_failed_total") + zero,
         coloured([("green", None), ("red", 1)])),
        ("Sessions cancelled", COUNT, count("sessions_cancelled_total") + zero, []),
        ("Turns", COUNT, count("sessions_turns_total") + zero, []),
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
        table("Phases", "The phases of the run, over all shards. The time limit is "
              "--benchmark-duration; after the grace period requests in flight are cancelled.",
              columns, {phase: "Phase"}, height=6),
        lines("Requests sent and ended", "Counts of the phase. A growing distance means that requests accumulate "
              "in the server.", COUNT, query(progress("requests_sent_total"), "sent"),
              query(or_zero(progress("requests_completed_total")), "succeeded"),
              query(or_zero(progress("requests_errors_total")), "failed"), calcs=["lastNotNull"]),
        lines("Sessions", "Sessions started, and those whose turns all succeeded; a session of one turn "
              "is one request.",
              COUNT, query(progress("sessions_sent_total"), "sent"),
              query(or_zero(progress("sessions_completed_total")), "succeeded"), calcs=["lastNotNull"]),
        lines("Elapsed", "Time since the start of each phase; constant after its end.", SECONDS,
              query(f"max by ({phase}) ({timing('phase_elapsed_sec_seconds')})",
                    "{{aiperf_benchmark_phase}}"), calcs=["lastNotNull"]),
    )


def health():
    """Whether the client itself kept up."""
    client = lambda name, matchers=PHASE: of(f"aiperf_client_{name}", matchers)
    each = lambda name: by_shard(f"max by (service_instance_id) ({client(name)})")
    return row(
        "Client health",
        percentiles("Schedule slip", "Delay of requests against the schedule of an open loop. "
                    "Milliseconds matter if TTFT is small.", "aiperf_client_schedule_slip_seconds"),
        percentiles("Read lag", "From the kernel's receive timestamp of an event until the program "
                    "read it. Absent without kernel timestamps.",
                    "aiperf_client_read_lag_seconds"),
        lines("CPU usage", "CPU time of the program over the phase, where 1 is one core, and of the "
              "busiest worker, where 1 is fully busy. Near 1 the client is the limit.", "percentunit",
              query(each("cpu_utilization_ratio"), f"program {BY_SHARD}"),
              query(each("worker_cpu_utilization_ratio"), f"busiest worker {BY_SHARD}")),
        lines("Queued records", "Size of the records in memory that wait to be processed.", "bytes",
              query(each("queue_size_bytes"), f"queued {BY_SHARD}"), width=6),
        lines("Rate reached", "Achieved request rate divided by the configured one; below 0.99 the load is "
              "not the configured one. Only with a request rate.", "percentunit",
              query(each("rate_ratio"), f"reached {BY_SHARD}"), width=6),
        stat("Spilled records", "Records written to a file because memory was full. They are not lost, but "
             "record processing is too slow.", COUNT,
             now(or_zero(total(client("queue_spilled_total"))), "spilled"),
             steps=good_until(1, 1000), height=8),
        stat("Retries", "Requests sent again because a reused connection died before the "
             "first response byte.", COUNT,
             now(or_zero(total(of("aiperf_client_retries_total", REQUEST))), "retries"),
             steps=good_until(1, 100), height=8),
        stat("Traces lost", "Requests selected by --trace-sample whose spans did not reach the "
             "collector.", COUNT,
             now(or_zero(total(client("traces_lost_total"))), "lost"),
             steps=good_until(1, 100), height=8),
    )


def gpus():
    """Power and energy of the GPUs."""
    matchers = 'aiperf_benchmark_id=~"$run"'
    each = lambda name, extra="": f"max by (instance, host_name, hw_name) ({of(name, matchers, extra)})"
    legend = "{{instance}} {{host_name}} {{hw_name}}"
    result = lambda name: [
        now(f"sum({last(of(f'aiperf_{vendor}_{name}', PHASE))})", vendor) for vendor in ("nvidia", "amd")
    ]
    return row(
        "GPUs",
        lines("GPU power", "Power of each GPU of the exporters of --gpu-telemetry.", "watt",
              query(each("hw_power_watts"), legend)),
        lines("GPU utilization", "Fraction of the time in which a kernel was running on each GPU.", "percentunit",
              query(each("hw_gpu_utilization_ratio", 'hw_gpu_task="general"'), legend), max=1),
        lines("GPU memory", "Memory in use on each GPU.", "bytes",
              query(each("hw_gpu_memory_usage_bytes"), legend)),
        stat("Energy per request", "Energy of all GPUs of a vendor, divided by the successful requests.", "joule",
             *result("energy_per_request_joules"), none=AT_END, width=6),
        stat("Energy per output token", "Energy of all GPUs of a vendor, divided by the output tokens.", "joule",
             *result("energy_per_output_token_joules"), none=AT_END, width=6),
        stat("Energy", "Energy of all GPUs of a vendor in the phase.", "joule",
             *result("total_gpu_energy_joules"), none=AT_END, width=6),
        stat("Energy error", "How far the energy may be from the true value, since it is sampled.", "joule",
             *result("gpu_energy_error_joules"), none=AT_END, width=6),
        collapsed=True,
    )


def dashboard():
    """The dashboard."""
    variables = [shared.model(), shared.run(), shared.phase(), shared.instance()]
    rows = [
        header(), throughput(), *latency(), tokens(), errors(), phases(), health(), goodput(),
        servers(), reported(), gpus(),
    ]
    text = "A benchmark run, live and after its end: load, latencies, tokens, errors and client health."
    return whole(shared.RUN_UID, "Benchmark run", text, variables, shared.links(shared.RUN_UID), rows, [shared.phases()])
