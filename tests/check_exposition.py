"""Reads metrics.txt, the exposition of a run's HTTP API, with Prometheus' own parser."""

import pathlib
import sys

from prometheus_client.parser import text_string_to_metric_families

QUANTILES = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99]

text = (pathlib.Path(sys.argv[1]) / "metrics.txt").read_text()
families = {family.name: family for family in text_string_to_metric_families(text)}

for tag, unit in [("request_latency", "ms"), ("output_sequence_length", "tokens")]:
    name = f"aiperf_{tag}_{unit}"
    summary = families[name]
    assert summary.type == "summary", summary
    quantiles = [sample for sample in summary.samples if "quantile" in sample.labels]
    assert [float(sample.labels["quantile"]) for sample in quantiles] == QUANTILES, quantiles
    values = [sample.value for sample in quantiles]
    assert values == sorted(values), values
    totals = {sample.name: sample.value for sample in summary.samples}
    mean = families[f"aiperf_{tag}_avg_{unit}"].samples[0].value
    assert abs(totals[f"{name}_sum"] / totals[f"{name}_count"] - mean) < 1e-9 * mean, totals

info = families["aiperf_info"].samples[0]
assert info.value == 1, info
expected = {"concurrency": "2", "model": "mock-model", "streaming": "true", "endpoint_type": "chat"}
assert expected.items() <= info.labels.items(), info
assert families["aiperf_request_count_avg_requests"].type == "gauge"
