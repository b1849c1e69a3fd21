"""*Client and server*: what the client saw beside what the servers say of themselves.

A server's series come forwarded by aiperf (then they have the run's id) or
scraped by the user's own Prometheus (then they have none). Both are found, and
are told apart so that nothing is counted twice. Their names are the servers' own, but
that the Collector gives counters `_total` where they lack it.
"""

from . import shared
from .grafana import lines, now, query, row, stat, variable
from .grafana import dashboard as whole
from .queries import PHASE, last, of, or_zero, quantile, rate, speed

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


def seen(metric):
    """The same of what the client saw."""
    return [
        query(quantile(share, f"aiperf_{metric}"), f"client {name}")
        for share, name in ((0.5, "p50"), (0.99, "p99"))
    ]


TTFT, ITL, LATENCY = "time_to_first_token_seconds", "inter_token_latency_seconds", "request_latency_seconds"


def ttft(metric):
    """Time to first token of both."""
    return lines("TTFT", "Time to first token as measured by the server and the client. The difference is "
                 f"the network and queueing outside the server. {ESTIMATE}", "s", *times(metric), *seen(TTFT))


def itl(metric):
    """Inter-token latency of both."""
    return lines("ITL", "Time between tokens. The server measures each gap, the client each request's "
                 f"mean, so the client's p99 is lower. {ESTIMATE}", "s", *times(metric), *seen(ITL))


def latency(metric):
    """Request latency of both."""
    return lines("Request latency", "Request latency as measured by the server and the client. The difference is "
                 f"time spent outside the server. {ESTIMATE}", "s", *times(metric), *seen(LATENCY))


def decode(metric, width=8):
    """Tokens generated, of both."""
    output = of("gen_ai_client_token_usage_sum", extra='gen_ai_token_type="output"')
    return lines("Decode throughput", "Tokens generated per second, counted by the server as they are generated and by "
                 "the client as requests end. Constant while requests wait, the server is saturated.", TOKENS,
                 flow(metric, "server"), query(speed(output), "client"), width=width)


def prefill(metric):
    """Prompt tokens, of both."""
    taken = of("gen_ai_client_token_usage_sum", extra='gen_ai_token_type="input"')
    return lines("Prefill throughput", "Prompt tokens per second, counted by the server and by the client as "
                 "requests end. The server's count includes the chat template.", TOKENS,
                 flow(metric, "server"), query(speed(taken), "client"))


def requests(metric):
    """Requests completed, of both."""
    done = of("aiperf_request_count_total")
    return lines("Requests completed", "Requests per second, counted by the server and by the "
                 "client. If the server counts more, it has other clients.", "reqps",
                 flow(metric, "server"), query(speed(done), "client"))


def batch(running, waiting, *more, **wide):
    """Active and queued requests."""
    return lines("Running and waiting", "The active batch and the queue. A growing queue means "
                 "saturation; time to first token grows with it.", "short",
                 level(running, "running"), level(waiting, "waiting"), *more, **wide)


def cache(*used, **wide):
    """Use of the KV cache."""
    return lines("KV cache in use", "Fraction of cache blocks in use. Above 0.9, requests wait or are "
                 "preempted soon.", "percentunit",
                 *(level(metric, how="max") for metric in used), max=1, **wide)


def client():
    """The client's own row."""
    in_flight = of("aiperf_timing_requests_in_flight", PHASE)
    kinds = [
        now(f"count(count by (instance) ({last(server(sign))}))", kind) for kind, sign in SIGNS.items()
    ]
    return row(
        "Client",
        stat("Servers seen", "Number of servers of each kind with series in the range, forwarded by "
             "aiperf or scraped by this Prometheus; their rows have data.", "short", *kinds,
             width=24, none="none"),
        lines("Load", "Requests awaiting a response. Compare with the running and waiting requests of the "
              "servers below.", "short", query(f"sum({in_flight})", "requests in flight")),
        lines("Requests per second", "Ended requests, by outcome.", "reqps",
              query(speed(of("aiperf_request_count_total")), "completed"),
              query(or_zero(speed(of("aiperf_error_request_count_total"))), "errors")),
        lines("Latency", f"Request latency as measured by the client. {ESTIMATE}", "s", *seen(LATENCY)),
        lines("TTFT", f"Time to first token as measured by the client. {ESTIMATE}", "s", *seen(TTFT)),
        lines("ITL", f"Inter-token latency as measured by the client. {ESTIMATE}", "s", *seen(ITL)),
        lines("Output tokens per second", "Tokens generated, counted as requests end.", TOKENS,
              query(speed(of("gen_ai_client_token_usage_sum", extra='gen_ai_token_type="output"')),
                    "output")),
    )


def vllm():
    """vLLM, and engines that speak its names, such as Dynamo's workers."""
    name = lambda metric: f"vllm:{metric}"
    return row(
        "vLLM",
        batch(name("num_requests_running"), name("num_requests_waiting")),
        lines("Waiting, by reason", "The queue, split into requests that wait for capacity and "
              "deferred requests. Capacity means that the cache or the batch is full.", "short",
              level(name("num_requests_waiting_by_reason"), "{{reason}}", by="reason"), stack=True),
        cache(name("kv_cache_usage_perc")),
        ttft(name(TTFT)), itl(name(ITL)), latency(name("e2e_request_latency_seconds")),
        decode(name("generation_tokens_total")),
        lines("Prompt tokens, by source", "Prompt tokens per second that were computed or read from a "
              "cache. The more from the cache, the shorter the prefill.", TOKENS,
              flow(name("prompt_tokens_by_source_total"), "{{source}}", by="source"), stack=True),
        lines("Preemptions", "Requests per second removed from the batch because the cache is full. Above 0 "
              "there is memory pressure, and streams stall.", "cps",
              flow(name("num_preemptions_total"))),
    )


def dynamo():
    """Dynamo's front end and workers."""
    name = lambda metric: f"dynamo_frontend_{metric}"
    return row(
        "Dynamo",
        lines("Requests in the frontend", "Requests in HTTP handlers, in engines, and awaiting "
              "their first token. A growing queue means saturation.", "short",
              level(name("active_requests"), "active"), level(name("inflight_requests"), "in engines"),
              level(name("queued_requests"), "awaiting first token")),
        requests(name("requests_total")), decode(name("output_tokens_total")),
        ttft(name(TTFT)), itl(name(ITL)), latency(name("request_duration_seconds")),
        lines("GPU cache in use", "Cache usage that the backends report. Near its limit "
              "requests wait.", "percentunit", level("dynamo_component_gpu_cache_usage_percent", how="max"),
              width=12),
        lines("Requests in the workers", "Requests that the workers process. If uneven, the router "
              "does not balance the load.", "short", level("dynamo_component_inflight_requests"), width=12),
    )


def sglang():
    """SGLang."""
    name = lambda metric: f"sglang:{metric}"
    return row(
        "SGLang",
        batch(name("num_running_reqs"), name("num_queue_reqs")),
        cache(name("token_usage")),
        lines("Prefix cache hits", "Fraction of prompt tokens found in the prefix cache. If low with shared "
              "prompts, the cache is too small.", "percentunit", level(name("cache_hit_rate"), how="avg"),
              max=1),
        ttft(name(TTFT)), itl(name(ITL)), latency(name("e2e_request_latency_seconds")),
        lines("Generation throughput", "Current tokens per second as reported by the server.", TOKENS,
              level(name("gen_throughput"))),
        decode(name("generation_tokens_total")), prefill(name("prompt_tokens_total")),
        lines("Queue time", f"Time that requests wait before they run. {ESTIMATE} Part of "
              "the time to first token.", "s", *times(name("queue_time_seconds")), width=24),
    )


def trtllm():
    """TensorRT-LLM."""
    name = lambda metric: f"trtllm_{metric}"
    wait = lambda title, metric, text: lines(
        title, f"{text} {ESTIMATE}", "s", *times(name(metric))
    )
    return row(
        "TRT-LLM",
        batch(name("num_requests_running"), name("num_requests_waiting")),
        cache(name("kv_cache_utilization")),
        lines("KV cache hits", "Fraction of cache blocks that were reused. If low with shared prompts, "
              "reuse is off or the cache is too small.", "percentunit",
              level(name("kv_cache_hit_rate"), how="avg"), max=1),
        ttft(name(TTFT)), itl(name("time_per_output_token_seconds")),
        latency(name("e2e_request_latency_seconds")),
        wait("Queue time", "request_queue_time_seconds", "Time that requests wait before they run."),
        wait("Prefill time", "request_prefill_time_seconds", "Time to process a prompt."),
        wait("Decode time", "request_decode_time_seconds", "Time to generate the whole output."),
        requests(name("request_success_total")), prefill(name("prompt_tokens_total")),
        decode(name("generation_tokens_total")),
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
        lines("Waiting", "Requests waiting in the backend's queue. A growing queue means "
              "saturation.", "short", level("nv_inference_pending_request_count", "waiting")),
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
    )


def dashboard():
    """The dashboard."""
    names = "|".join([*SIGNS.values(), "dynamo_component_inflight_requests"])
    asked = f'label_values({{__name__=~"{names}", aiperf_benchmark_id=~"$run|"}}, instance)'
    servers = variable("server", "Server", "Metrics endpoints of the servers, host:port.", asked, many=True)
    variables = [shared.model(), shared.run(), shared.phase(), shared.instance(), servers]
    rows = [client(), vllm(), dynamo(), sglang(), trtllm(), triton()]
    text = "The client's latency and load next to the servers' queues, caches, batches and latencies."
    links = shared.links(shared.SERVER_UID)
    return whole(shared.SERVER_UID, "Client and server", text, variables, links, rows)
