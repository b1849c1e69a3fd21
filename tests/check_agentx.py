"""Reads the files of a run as InferenceX's processing of agentic results does.

Usage: check_agentx.py DIRECTORY

Exits with an error that names every key that is missing or has another type.
"""

import json
import pathlib
import sys
from datetime import datetime

NUMBER = (int, float)
METADATA = {
    "benchmark_phase": str,
    "conversation_id": str,
    "turn_index": int,
    "request_start_ns": int,
    "request_end_ns": int,
}
METRICS = {
    "input_sequence_length": "tokens",
    "output_sequence_length": "tokens",
    "time_to_first_token": "ms",
    "request_latency": "ms",
    "inter_token_latency": "ms",
    "full_response_inter_token_latency": "ms",
}
REASONS = {
    "unsafe_override",
    "context_overflow_rate_exceeded",
    "run_cancelled",
    "insufficient_profile_metric_coverage",
}


class Checker:
    def __init__(self):
        self.problems = []

    def member(self, where, parent, key, kind):
        """Returns the member, and notes a problem if it is missing or has another type."""
        value = parent.get(key) if isinstance(parent, dict) else None
        is_kind = isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)
        if not is_kind:
            self.problems.append(f"{where}.{key}: {value!r}")
            return None
        return value

    def records(self, path):
        seen = dict.fromkeys(METRICS, 0)
        phases = set()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            record, where = json.loads(line), f"{path.name}:{number}"
            metadata = self.member(where, record, "metadata", dict)
            for key, kind in METADATA.items():
                self.member(f"{where}.metadata", metadata, key, kind)
            phase = (metadata or {}).get("benchmark_phase")
            phases.add(phase)
            if record.get("error") or phase != "profiling":
                continue
            metrics = self.member(where, record, "metrics", dict) or {}
            for name, unit in METRICS.items():
                if name not in metrics:
                    # Only these can be absent, of a response with a single token.
                    if "inter_token" not in name:
                        self.problems.append(f"{where}.metrics.{name} is missing")
                    continue
                seen[name] += 1
                self.member(f"{where}.metrics.{name}", metrics[name], "value", NUMBER)
                if metrics[name].get("unit") != unit:
                    self.problems.append(f"{where}.metrics.{name}.unit: {metrics[name].get('unit')}")
        self.problems += [f"no record has {name}" for name, count in seen.items() if not count]
        unknown = phases - {"warmup", "profiling"}
        self.problems += [f"unknown phase {phase!r}" for phase in unknown]

    def summary(self, path):
        summary = json.loads(path.read_text())
        completed = None
        for name in ("request_count", "completed_request_count"):
            completed = self.member(f"{path.name}.{name}", summary.get(name), "avg", NUMBER)
        if not completed:
            self.problems.append("no request is completed")
        if "error_request_count" in summary:
            self.member("error_request_count", summary["error_request_count"], "avg", NUMBER)
        times = [self.member(path.name, summary, key, str) for key in ("start_time", "end_time")]
        if all(times) and not datetime.fromisoformat(times[0]) < datetime.fromisoformat(times[1]):
            self.problems.append(f"the run does not end after its start: {times}")
        metadata = self.member(path.name, summary, "metadata", dict)
        self.member("metadata", metadata, "scenario", str)
        is_valid = self.member("metadata", metadata, "submission_valid", bool)
        reasons = (metadata or {}).get("submission_invalid_reasons")
        if is_valid is not (reasons is None) or not set(reasons or []) <= REASONS:
            self.problems.append(f"submission_invalid_reasons: {reasons!r}")
        dataset = self.member("metadata", metadata, "dataset", dict)
        self.member("metadata.dataset", dataset, "source_type", str)
        self.member("metadata.dataset", dataset, "loader", str)
        if (dataset or {}).get("source_type") == "public_dataset":
            self.member("metadata.dataset", dataset, "hf_dataset_name", str)
            self.member("metadata.dataset", dataset, "hf_split", str)
        coverage = self.member(path.name, summary, "metric_duration_coverage", dict) or {}
        for name, value in coverage.items():
            if not (isinstance(value, NUMBER) and 0 <= value <= 1):
                self.problems.append(f"metric_duration_coverage.{name}: {value!r}")
        hits = self.member(path.name, summary, "theoretical_prefix_cache_hit", dict)
        for key in ("avg", "sum", "count"):
            self.member("theoretical_prefix_cache_hit", hits, key, NUMBER)
        if hits and hits.get("unit") != "%":
            self.problems.append(f"theoretical_prefix_cache_hit.unit: {hits.get('unit')!r}")

    def server_metrics(self, path):
        if not path.exists():
            return
        export = json.loads(path.read_text())
        info = self.member(path.name, export, "summary", dict) or {}
        self.member("summary", info, "endpoint_info", dict)
        for name, metric in (self.member(path.name, export, "metrics", dict) or {}).items():
            for series in self.member(name, metric, "series", list) or []:
                self.member(f"{name}.series", series, "endpoint_url", str)


def main():
    directory = pathlib.Path(sys.argv[1])
    checker = Checker()
    checker.records(directory / "profile_export.jsonl")
    checker.summary(directory / "profile_export_aiperf.json")
    checker.server_metrics(directory / "server_metrics_export.json")
    labels = (directory / "profile_export_aiperf.csv").read_text()
    for label in ("Request Count", "Time to First Token (ms)"):
        if label not in labels:
            checker.problems.append(f"profile_export_aiperf.csv: no row {label!r}")
    if checker.problems:
        sys.exit("\n".join(checker.problems))
    print("all keys are there")


if __name__ == "__main__":
    main()
