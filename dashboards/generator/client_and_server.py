"""*Client and server*: what the client saw beside what the servers say of themselves.

A server's series come forwarded by aiperf (then they have the run's id) or
scraped by the user's own Prometheus (then they have none). Both are found, and
are told apart so that nothing is counted twice. Their names are the servers' own, but
that the Collector gives counters `_total` where they lack it.
"""

from . import shared
from .grafana import COUNT, DASHED, bars, lines, now, query, row, stat, variable
from .grafana import dashboard as whole
from .queries import PHASE, RUN, last, of, rate, speed, while_active

SERVER = 'aiperf_benchmark_id=~"$run|", instance=~"$server"'
KEPT = "instance, aiperf_benchmark_id"
WHO = "{{instance}}"
TOKENS = "suffix: tokens/s"
ESTIMATE = "Estimated from the histogram's buckets."

# What tells that a server of a kind is there.
SIGNS = {
    "vLLM": "vllm:num_requests_running",
    "SGLang": "sglang:num_running_reqs",
    "Dynamo": "dynamo_frontend_inflight_requests",
    "TRT-LLM": "trtllm_num_requests_running",
    "Triton": "nv_inference_request_success(_total)?",
}


def server(metric, extra=""):
    """The selector of a server's metric; a pattern of names where it has one."""
    matchers = SERVER + (f", {extra}" if extra else "")
    if "(" in metric:
        return f'{{__name__=~"{metric}", {matchers}}}'
    return f"{metric}{{{matchers}}}"


def level(metric, *more, by="", how="sum"):
    """A gauge, over the parts of a server."""
    kept = KEPT + (f", {by}" if by else "")
    return query(f"{how} by ({kept}) ({server(metric)})", " ".join([*more, WHO]))


def flow(metric, *more, by=""):
    """What a counter gains per second."""
    return query(gain(metric, by), " ".join([*more, WHO]))


def gain(metric, by=""):
    """The expression of `flow`."""
    return f"sum by ({KEPT}{', ' + by if by else ''}) ({rate(server(metric))})"


def ratio(above, below, *more):
    """One counter's gain over another's."""
    return query(f"{gain(above)} / {gain(below)}", " ".join([*more, WHO]))


def times(metric):
    """p50 and p99 of a server's histogram."""
    buckets = f"sum by (le, {KEPT}) ({rate(server(metric + '_bucket'))})"
    return [
        query(f"histogram_quantile({share}, {buckets})", f"server {name} {WHO}")
        for share, name in ((0.5, "p50"), (0.99, "p99"))
    ]


TTFT, ITL, LATENCY = "time_to_first_token_seconds", "inter_token_latency_seconds", "request_latency_seconds"


def beside(title, description, metric, *names):
    """Means of the client and of the servers, which no bucket distorts."""
    ours = lambda part: speed(of(f"aiperf_{metric}_{part}"))
    return lines(
        title, f"{description} Means, from sums and counts: the buckets of servers are too coarse to "
        "compare percentiles.", "s", query(f"{ours('sum')} / {ours('count')}", "client"),
        *(query(f"{gain(name + '_sum')} / {gain(name + '_count')}", f"server {WHO}") for name in names),
        overrides=[DASHED],
    )


def counted(title, description, unit, ours, *names):
    """What the client counts per second, and the servers."""
    return lines(
        title, description, unit, query(while_active(speed(ours)), "client"),
        *(flow(name, "server") for name in names), overrides=[DASHED],
    )


def levels(title, description, unit, *named, ours=(), **more):
    """Gauges of the servers, `(metric, text)`, and queries of the client."""
    shown = [level(metric, "server", text, how=more.get("how", "sum")) for metric, text in named]
    more.pop("how", None)
    return lines(title, description, unit, *ours, *shown, overrides=[DASHED], **more)


def percentiles(title, description, metric, **wide):
    """The server's own percentiles."""
    return lines(title, f"{description} {ESTIMATE}", "s", *times(metric), **wide)


def requests(metric):
    """Requests completed, of both."""
    return counted("Requests completed", "Requests per second, counted by the server and by the "
                   "client. If the server counts more, it has other clients.", "reqps",
                   of("aiperf_request_count_total"), metric)


def prefill(metric):
    """Prompt tokens, of both."""
    return counted("Prefill throughput", "Prompt tokens per second, counted by the server and by the client "
                   "as requests end. The server's count includes the chat template.", TOKENS,
                   of("aiperf_input_sequence_length_sum"), metric)


def breakdown(title, description, metric):
    """The stages of a mean latency."""
    parts = last(of(f"aiperf_time_breakdown_{metric}_seconds", RUN))
    return bars(title, f"{description} Exported at the end, if the server reports its times.", "s",
                now(f"sort_desc(max by (aiperf_stage) ({parts}))", "{{aiperf_stage}}"),
                none="not reported", width=9)


def client():
    """Where the time went, and the client beside whichever servers there are."""
    kinds = [
        now(f"count(count by (instance) ({last(server(sign))}))", kind) for kind, sign in SIGNS.items()
    ]
    in_flight = f'sum({of("aiperf_timing_requests_in_flight", PHASE)})'
    output = of("aiperf_output_sequence_length_sum")
    return [
        row(
            "Where the time went",
            breakdown("Time to first token", "Stages of the mean time to first token of the measurement.",
                      "time_to_first_token"),
            breakdown("Request latency", "Stages of the mean request latency of the measurement.",
                      "request_latency"),
            stat("Servers seen", "Number of servers of each kind with series in the range, forwarded by "
                 "aiperf or scraped by this Prometheus; their rows below have data.", COUNT, *kinds,
                 width=6, height=8, none="none", textMode="value_and_name"),
        ),
        row(
            "Client (solid) and server (dashed)",
            beside("TTFT", "Time to first token. The difference is the network and queueing outside the "
                   "server.", TTFT, f"vllm:{TTFT}", f"dynamo_frontend_{TTFT}", f"sglang:{TTFT}", f"trtllm_{TTFT}"),
            beside("ITL", "Time between tokens: the client's mean of requests, the server's of gaps.", ITL,
                   f"vllm:{ITL}", f"dynamo_frontend_{ITL}", f"sglang:{ITL}", "trtllm_time_per_output_token_seconds"),
            beside("Request latency", "The difference is time spent outside the server.", LATENCY,
                   "vllm:e2e_request_latency_seconds", "dynamo_frontend_request_duration_seconds",
                   "sglang:e2e_request_latency_seconds", "trtllm_e2e_request_latency_seconds"),
            counted("Decode throughput", "Tokens generated per second, counted by the server as they are generated "
                    "and by the client as requests end. Constant while requests wait, the server is saturated.",
                    TOKENS, output, "vllm:generation_tokens_total", "dynamo_frontend_output_tokens_total",
                    "sglang:generation_tokens_total", "trtllm_generation_tokens_total"),
            levels("Running and waiting", "The servers' active batches and queues, and the client's requests in "
                   "flight. A growing queue means saturation; time to first token grows with it.", COUNT,
                   ("vllm:num_requests_running", "running"), ("vllm:num_requests_waiting", "waiting"),
                   ("dynamo_frontend_inflight_requests", "running"),
                   ("dynamo_frontend_queued_requests", "awaiting first token"),
                   ("sglang:num_running_reqs", "running"), ("sglang:num_queue_reqs", "waiting"),
                   ("trtllm_num_requests_running", "running"), ("trtllm_num_requests_waiting", "waiting"),
                   ("nv_inference_pending_request_count", "waiting"),
                   ours=[query(while_active(in_flight), "client")]),
            levels("KV cache in use", "Fraction of cache blocks in use. Above 0.9, requests wait or are "
                   "preempted soon.", "percentunit", ("vllm:kv_cache_usage_perc", ""),
                   ("dynamo_component_gpu_cache_usage_percent", ""), ("sglang:token_usage", ""),
                   ("trtllm_kv_cache_utilization", ""), how="max", max=1),
        ),
    ]


def vllm():
    """vLLM, and engines that speak its names, such as Dynamo's workers."""
    name = lambda metric: f"vllm:{metric}"
    return row(
        "vLLM",
        lines("Waiting, by reason", "The queue, split into requests that wait for capacity and "
              "deferred requests. Capacity means that the cache or the batch is full.", COUNT,
              level(name("num_requests_waiting_by_reason"), "{{reason}}", by="reason"), stack=True),
        lines("Prompt tokens, by source", "Prompt tokens per second that were computed or read from a "
              "cache. The more from the cache, the shorter the prefill.", TOKENS,
              flow(name("prompt_tokens_by_source_total"), "{{source}}", by="source"), stack=True),
        lines("Preemptions", "Requests per second removed from the batch because the cache is full. Above 0 "
              "there is memory pressure, and streams stall.", "cps",
              flow(name("num_preemptions_total"))),
        percentiles("TTFT", "Time to first token.", name(TTFT)),
        percentiles("ITL", "Time between tokens.", name(ITL)),
        percentiles("Request latency", "Request latency.", name("e2e_request_latency_seconds")),
        collapsed=True,
    )


def dynamo():
    """Dynamo's front end and workers."""
    name = lambda metric: f"dynamo_frontend_{metric}"
    return row(
        "Dynamo",
        lines("Requests in the frontend", "Requests in HTTP handlers. If more than in the engines, they wait "
              "in the frontend.", COUNT, level(name("active_requests"), "active")),
        requests(name("requests_total")),
        lines("Requests in the workers", "Requests that the workers process. If uneven, the router "
              "does not balance the load.", COUNT, level("dynamo_component_inflight_requests")),
        percentiles("TTFT", "Time to first token.", name(TTFT)),
        percentiles("ITL", "Time between tokens.", name(ITL)),
        percentiles("Request latency", "Request latency.", name("request_duration_seconds")),
        collapsed=True,
    )


def sglang():
    """SGLang."""
    name = lambda metric: f"sglang:{metric}"
    return row(
        "SGLang",
        lines("Prefix cache hits", "Fraction of prompt tokens found in the prefix cache. If low with shared "
              "prompts, the cache is too small.", "percentunit", level(name("cache_hit_rate"), how="avg"),
              max=1),
        lines("Generation throughput", "Current tokens per second as reported by the server.", TOKENS,
              level(name("gen_throughput"))),
        prefill(name("prompt_tokens_total")),
        percentiles("TTFT", "Time to first token.", name(TTFT), width=6),
        percentiles("ITL", "Time between tokens.", name(ITL), width=6),
        percentiles("Request latency", "Request latency.", name("e2e_request_latency_seconds"), width=6),
        percentiles("Queue time", "Time that requests wait before they run; part of the time to first token.",
                    name("queue_time_seconds"), width=6),
        collapsed=True,
    )


def trtllm():
    """TensorRT-LLM."""
    name = lambda metric: f"trtllm_{metric}"
    return row(
        "TRT-LLM",
        lines("KV cache hits", "Fraction of cache blocks that were reused. If low with shared prompts, "
              "reuse is off or the cache is too small.", "percentunit",
              level(name("kv_cache_hit_rate"), how="avg"), max=1),
        requests(name("request_success_total")), prefill(name("prompt_tokens_total")),
        percentiles("TTFT", "Time to first token.", name(TTFT)),
        percentiles("Time per output token", "Time between tokens.", name("time_per_output_token_seconds")),
        percentiles("Request latency", "Request latency.", name("e2e_request_latency_seconds")),
        percentiles("Queue time", "Time that requests wait before they run.", name("request_queue_time_seconds")),
        percentiles("Prefill time", "Time to process a prompt.", name("request_prefill_time_seconds")),
        percentiles("Decode time", "Time to generate the whole output.", name("request_decode_time_seconds")),
        collapsed=True,
    )


def triton():
    """Triton Inference Server, whose counters have no `_total` of their own."""
    name = lambda metric: f"nv_{metric}(_total)?"
    done = name("inference_request_success")
    mean = lambda metric, text: query(
        f"{gain(name(metric))} / {gain(done)}", f"{text} {WHO}"
    )
    hits, misses = name("cache_num_hits_per_model"), name("cache_num_misses_per_model")
    return row(
        "Triton",
        requests(done),
        lines("Failures, by reason", "Failed requests per second. If above 0, see the "
              "server's log.", "reqps", flow(name("inference_request_failure"), "{{reason}}", by="reason"),
              stack=True),
        lines("Mean times", "Mean time of a request and of its wait in the queue. If most of it is in the "
              "queue, add instances.", "µs", mean("inference_request_duration_us", "request"),
              mean("inference_queue_duration_us", "queue")),
        lines("First response", "Time to the first response; requires histogram_latencies=true. "
              f"{ESTIMATE}", "ms", *times("nv_inference_first_response_histogram_ms")),
        lines("Inferences and executions", "Inferences per second, and model executions that "
              "performed them.", "cps", flow(name("inference_count"), "inferences"),
              flow(name("inference_exec_count"), "executions")),
        lines("Batch size", "Inferences per execution; 1 means no batching.", "short",
              ratio(name("inference_count"), name("inference_exec_count")), width=6),
        lines("Response cache hits", "Fraction of lookups found in the response cache. If high, the "
              "benchmark measures the cache.", "percentunit",
              query(f"{gain(hits)} / ({gain(hits)} + {gain(misses)})", WHO), width=6, max=1),
        lines("GPU utilization", "Fraction of time that each GPU was busy. If low while requests wait, the "
              "bottleneck is elsewhere.", "percentunit",
              level("nv_gpu_utilization", "{{gpu_uuid}}", by="gpu_uuid", how="avg"), width=6, max=1),
        lines("GPU memory", "Memory in use on each GPU. Near the GPU's memory size, allocations fail.", "bytes",
              level("nv_gpu_memory_used_bytes", "{{gpu_uuid}}", by="gpu_uuid", how="max"), width=6),
        collapsed=True,
    )


def dashboard():
    """The dashboard."""
    names = "|".join([*SIGNS.values(), "dynamo_component_inflight_requests"])
    asked = f'label_values({{__name__=~"{names}", aiperf_benchmark_id=~"$run|"}}, instance)'
    servers = variable("server", "Server", "Metrics endpoints of the servers, host:port.", asked, many=True)
    variables = [shared.model(), shared.run(), shared.phase(), shared.instance(), servers]
    rows = [*client(), vllm(), dynamo(), sglang(), trtllm(), triton()]
    text = "The client's latency and load next to the servers' queues, caches, batches and latencies."
    links = shared.links(shared.SERVER_UID)
    return whole(shared.SERVER_UID, "Client and server", text, variables, links, rows, [shared.phases()])
