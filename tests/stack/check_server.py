"""Compares a server's counts with aiperf's, and with the server's series in Prometheus."""

import bisect

import registry
from exposition import Exposition
from processes import fetch

# Metrics that continue without requests.
RESTLESS = ("dynamo_tokio_", "dynamo_frontend_event_loop_", "dynamo_component_uptime_", "process_")

OF_THE_SERVER = {"aiperf_benchmark_id", "server_address", "server_port", "url_scheme"}
OF_THE_TARGET = {"service_name", "service_instance_id", "job", "instance", "__name__"}

# Requests, prompt tokens and output tokens, as counted by Dynamo and by vLLM; the mock server
# counts like vLLM.
COUNTERS = (
    ("dynamo_frontend_requests_total", "dynamo_frontend_input_sequence_tokens_sum",
     "dynamo_frontend_output_tokens_total"),
    ("vllm:request_success_total", "vllm:prompt_tokens_total", "vllm:generation_tokens_total"),
)  # fmt: skip

TTFT = "dynamo_frontend_time_to_first_token_seconds"


def check_counts(report, run, before, after):
    """The increases of the server's own counters are the sums over the records."""
    names = next(names for names in COUNTERS if after.series(names[0]))

    def moved(name, **labels):
        return after.total(name, **labels) - before.total(name, **labels)

    requests, prompts, completions = names
    fine = {"status": "success"} if requests.startswith("dynamo") else {}
    report.equal("requests, server = client", moved(requests, **fine), float(len(run.records)))
    for metric, tag in [(prompts, "usage_prompt_tokens"), (completions, "usage_completion_tokens")]:
        client = sum(record["metrics"][tag]["value"] for record in run.records)
        report.equal(f"{tag}, server = client", moved(metric), float(client))


def check_conservation(report, run):
    """aiperf's own comparison with the server's counters has the same result."""
    for row in run.summary["server_metrics"]["conservation"]:
        what = f"conservation of {row['quantity']} in the summary"
        report.holds(what, row["agrees"], f"{row['server']:g} = {row['client']:g}")


def check_ttft(report, run, before, after):
    """Mean and percentiles of the time to first token are within a bucket of those of the server's
    own histogram."""
    client = sorted(one["metrics"]["time_to_first_token"]["value"] / 1e3 for one in run.records)
    buckets = {}
    for sign, exposition in ((1, after), (-1, before)):
        for labels, count in exposition.series(f"{TTFT}_bucket"):
            bound = float(labels["le"])
            buckets[bound] = buckets.get(bound, 0) + sign * count
    bounds = sorted(buckets)
    count = buckets[bounds[-1]]
    report.equal("first tokens, server = client", count, float(len(client)))
    total = after.total(f"{TTFT}_sum") - before.total(f"{TTFT}_sum")
    check_near(report, "time to first token, mean", bounds, sum(client) / len(client), total / count)
    for percentile in (25, 50, 75, 90):
        # The smallest value that this fraction of all values does not exceed.
        rank = max(1, -(-len(client) * percentile // 100))
        server = next(bound for bound in bounds if buckets[bound] >= rank)
        check_near(report, f"time to first token, p{percentile}", bounds, client[rank - 1], server)


def check_breakdown(report, run):
    """The parts of each mean latency are known, and add up to it."""
    records = [one for one in run.records if one["metadata"]["benchmark_phase"] == "profiling"]
    latencies = run.summary["time_breakdown"]["metrics"]
    report.equal("divided latencies", len(latencies), 2)
    for tag, parts in ((one["metric"], one["parts"]) for one in latencies):
        mean = sum(one["metrics"][tag]["value"] for one in records) / len(records)
        total = sum(part["mean_ms"] for part in parts)
        report.holds(f"parts of {tag}", abs(total - mean) < 1e-6, f"{total:g} ms = {mean:g} ms")
        stages = {part["stage"] for part in parts}
        report.holds(f"stages of {tag}", {"front_end", "server"} <= stages, f"{sorted(stages)}")


def check_near(report, what, bounds, client, server):
    """Checks that two values are in the same bucket, or in adjacent ones."""
    places = [bisect.bisect_left(bounds, value) for value in (client, server)]
    near = abs(places[0] - places[1]) <= 1
    report.holds(what, near, f"client {client:.4f} s, server {server:.4f} s")


def metrics(server):
    """The current expositions of a server's endpoints, by URL."""
    return {url: Exposition(fetch(url)) for url in server.metrics_urls}


def check_forwarded(report, url, server, series):
    """The last values of a server's series in Prometheus are those that the server exposed at the
    end of the run, with the same names and labels."""
    address = url.split("/")[2]
    ours = [one for one in series if one.labels.get("service_instance_id") == address]
    have = {_key(one.name, one.labels): one.value for one in ours if one.name != "target_info"}
    compared, wrong = {}, []
    for name, labels, value in server.samples:
        family, kind = server.family(name)
        if name.startswith(RESTLESS) or kind == "summary" or name.endswith("_created"):
            continue
        compared[kind] = compared.get(kind, 0) + 1
        found = have.get(_key(_translated(name, kind), labels))
        if found != value:
            wrong.append(f"{name}{labels} {found} = {value}")
    text = ", ".join(f"{count} of {kind}s" for kind, count in sorted(compared.items()))
    ok = compared.get("counter", 0) > 0 and not wrong
    report.holds(f"values of {address} in Prometheus", ok, f"{text}; wrong: {wrong[:5]}")
    promised = {"aiperf_benchmark_id", "server_address", "server_port"}
    lacking = [one.name for one in ours if not promised <= one.labels.keys() | {"target_info"}]
    report.equal(f"series of {address} without run and server", lacking, [])


def _key(name, labels):
    """A series without the labels that are added in transit. An empty label is the same as an
    absent one, and bounds are numbers."""
    own = {
        key: float(value) if key == "le" else value
        for key, value in labels.items()
        if value and key not in OF_THE_SERVER | OF_THE_TARGET
    }
    return name, frozenset(own.items())


def _translated(name, kind):
    """The name in Prometheus of the server's `name`."""
    return registry.total(name) if kind == "counter" else name
