#!/usr/bin/env python3
"""Compares the names in a Prometheus with docs/otlp-metrics.md.

    check_names.py PROMETHEUS_URL [TABLE]

Every `aiperf_*` and `gen_ai_*` name in Prometheus must be in the table, and every name of the
table must be in Prometheus, except for those in UNSEEN. The table is generated from the registry
by `semconv::prometheus_name`, and a test keeps it up to date; this script verifies that real
programs produce the same names.

Labels are compared too: each series has those that identify a run, and only those that the table
lists for its metric, apart from those of the resource.

The runs before must use explicit histograms.
"""

import json
import pathlib
import re
import sys
import time
import urllib.parse
import urllib.request

TABLE = pathlib.Path(__file__).parents[2] / "docs" / "otlp-metrics.md"

# Metrics that a run against the mock server cannot produce, by pattern of the name in Prometheus
# (without a histogram's suffix), with the reason.
UNSEEN = {
    r"aiperf_(percentiles_|total_)?usage_.*_audio_(tokens|seconds)": "the mock server reports no such usage",
    r"aiperf_(percentiles_|total_)?usage_.*cache_(read|write|miss)_tokens": "the mock server reports no such usage",
    r"aiperf_(percentiles_|total_)?usage_tool_use_prompt_tokens": "the mock server reports no such usage",
    r"aiperf_(percentiles_|total_)?usage_(accepted|rejected)_prediction_tokens": "the mock server predicts nothing",
    r"aiperf_overall_usage_prompt_cache_read_pct_percent": "the mock server reports no such usage",
    r"aiperf_(percentiles_)?session_cache_read_pct.*": "the mock server reports no such usage",
    r"aiperf_(percentiles_)?end_token_time.*": "no server here reports the times of requests",
    r"aiperf_buffered_response_count_total": "the mock server streams one event after the other",
    r"aiperf_usage_discrepancy_count_total": "the mock server's usage is right",
    r"aiperf_osl_mismatch_count_total": "the mock server gives as many tokens as it is asked for",
    r"aiperf_(skipped_)?context_overflow_count_total": "no prompt is too long for the servers here",
    r"aiperf_(percentiles_)?theoretical_prefix_.*": "no dataset here says which blocks prompts share",
    r"aiperf_timing_phase_(grace_)?timeout_triggered": "only of a phase that ran out of time",
    r"aiperf_timing_phase_was_cancelled": "only of a run that the user stopped",
    r"aiperf_(percentiles_)?(invalid_)?tool_call_count": "the servers here do not call tools",
    r"aiperf_total_(invalid_)?tool_calls": "the servers here do not call tools",
    r"aiperf_(nvidia|amd)_.*": "no server here has a GPU",
    r"aiperf_client_verdict_reason": "only where the client did not keep up",
    r"aiperf_client_retries_total": "only where a reused connection dies",
    r"aiperf_client_queue_spilled_total": "only where memory is short",
    r"aiperf_client_traces_lost_total": "only of a run with traces",
    r"gen_ai_client_inference_.*": "only with --otel-semconv",
    r"gen_ai_server_.*": "only with --otel-server-semconv",
    r"gen_ai_execute_tool_.*": "no dataset here has results of tools",
    r"aiperf_(percentiles_)?server_.*": "no server here reports the times of requests",
    r"aiperf_(percentiles_)?usage_prompt_cache_read_(device|host|storage)_.*":
        "no server here has a hierarchical cache",
    r"aiperf_(percentiles_|total_)?spec_decode_.*": "no server here drafts tokens",
    r"aiperf_total_(accepted_)?draft_tokens.*": "no server here drafts tokens",
    r"aiperf_client_read_lag_seconds": "only where the kernel stamps what it receives",
}

SERIES = {"Histograms": ["_bucket", "_sum", "_count"]}
REQUEST = {
    "gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model",
    "gen_ai_response_model", "aiperf_benchmark_phase", "server_address", "server_port",
    "error_type",
}
PHASE = {
    "gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model",
    "aiperf_benchmark_phase",
}
# Labels of the resource, of the scope and of the scrape: on every series.
EVERYWHERE = re.compile(
    r"__name__|le|job|instance|exported_.*|otel_scope_.*|service_.*|telemetry_sdk_.*|host_.*|os_.*|process_.*|vcs_.*|cicd_.*"
    r"|aiperf_(benchmark_id|endpoint_type|model_name|run_name|shard_.*)"
)
RUN = {"aiperf_benchmark_id", "aiperf_endpoint_type", "aiperf_model_name", "aiperf_run_name"}


def table(path):
    """Names in Prometheus with their suffixes and labels, from the generated file."""
    names, suffixes = {}, [""]
    for line in path.read_text().splitlines():
        if line.startswith("## "):
            suffixes = SERIES.get(line[3:].split(" ")[0], [""])
        row = re.fullmatch(r"\| `(\S+)` \| `(\S+)` \| `(\S+)` \| (.*) \|", line)
        if row:
            base, labels = row[3], row[4]
            shared = {"request": REQUEST, "phase": PHASE}.get(re.match(r"\w*", labels)[0], set())
            allowed = shared | set(re.findall(r"`(\w+)`", labels))
            assert base not in names, f"{base} stands for two metrics"
            names[base] = ([base + suffix for suffix in suffixes], allowed)
    assert len(names) > 100, f"{path} does not contain the table"
    return names


def ask(url, path, **query):
    with urllib.request.urlopen(f"{url}{path}?{urllib.parse.urlencode(query)}", timeout=30) as got:
        answer = json.load(got)
    assert answer["status"] == "success", answer
    return answer["data"]


def check(url, path):
    """Lines about names that were not seen, and lines about errors."""
    names = table(path)
    by_series = {series: base for base, (all_of, _) in names.items() for series in all_of}
    have = [
        name for name in ask(url, "/api/v1/label/__name__/values")
        if name.startswith(("aiperf_", "gen_ai_"))
    ]
    problems = [f"{name} is not in the table" for name in have if name not in by_series]
    unseen = {}
    for base, (series, _) in names.items():
        missing = [name for name in series if name not in have]
        reason = next((why for what, why in UNSEEN.items() if re.fullmatch(what, base)), None)
        if missing and (reason is None or missing != series):
            problems.append(f"{', '.join(missing)}: not in Prometheus")
        elif missing:
            unseen[base] = reason
    for labels in ask(url, "/api/v1/series", **{"match[]": '{__name__=~"(aiperf|gen_ai)_.*"}'}):
        base = by_series.get(labels["__name__"])
        if base is None:
            continue
        strange = [key for key in labels if key not in names[base][1] and not EVERYWHERE.fullmatch(key)]
        # The requests of an agent may name several models.
        several = {"gen_ai_request_model"} if base.startswith("gen_ai_invoke_agent_") else set()
        lacking = (RUN | PHASE & names[base][1]) - several - labels.keys()
        if strange or lacking:
            problems.append(f"{labels['__name__']}: not listed {strange}, lacking {sorted(lacking)}")
    seen = len(names) - len(unseen)
    notes = [f"not seen: {base}: {reason}" for base, reason in unseen.items()]
    notes.append(f"{len(have)} series names of {seen} metrics, {len(unseen)} not seen")
    return notes, [f"WRONG: {problem}" for problem in sorted(set(problems))]


def wait(url, path, seconds=20):
    """Repeats the check while there are errors: Prometheus scrapes at its own times."""
    until = time.monotonic() + seconds
    while True:
        notes, problems = check(url, path)
        if not problems or time.monotonic() > until:
            print("\n".join(notes + problems))
            return not problems
        time.sleep(1)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    where = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else TABLE
    sys.exit(0 if wait(sys.argv[1].rstrip("/"), where) else 1)
