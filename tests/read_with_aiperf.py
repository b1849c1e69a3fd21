"""Reads the files of a run with the models of the Python AIPerf 0.13.0.

    python tests/read_with_aiperf.py DIR...

Every JSON and JSONL file below each DIR that AIPerf also writes is validated with AIPerf's own
model. Prints each file that a model rejects with the first reasons, and a count at the end.
Exits with 1 if a file is rejected or none was found, or with 2 if `aiperf==0.13.0` is not
installed in this interpreter.
"""

import json
import sys
from pathlib import Path

try:
    from aiperf.common.models.dataset_models import InputsFile
    from aiperf.common.models.export_models import (
        JsonExportData,
        TimesliceCollectionExportData,
    )
    from aiperf.common.models.network_latency_models import NetworkLatencySample
    from aiperf.common.models.record_models import MetricRecordInfo, RawRecordInfo
    from aiperf.common.models.server_metrics_models import (
        ServerMetricsExportData,
        SlimRecord,
    )
    from aiperf.common.models.telemetry_models import TelemetryRecord
except ImportError as error:
    print(f"aiperf 0.13.0 is not installed here: {error}", file=sys.stderr)
    sys.exit(2)

MOST_REASONS = 6

# The end of a file's name, longest first, the model, and whether each line is a document.
MODELS = [
    ("_timeslices.json", TimesliceCollectionExportData, False),
    ("_raw.jsonl", RawRecordInfo, True),
    ("server_metrics_export.jsonl", SlimRecord, True),
    ("server_metrics.jsonl", SlimRecord, True),
    ("server_metrics_export.json", ServerMetricsExportData, False),
    ("server_metrics.json", ServerMetricsExportData, False),
    ("gpu_telemetry_export.jsonl", TelemetryRecord, True),
    ("_network_latency.jsonl", NetworkLatencySample, True),
    ("profile_export.jsonl", MetricRecordInfo, True),
    ("profile_export_aiperf.json", JsonExportData, False),
    ("inputs.json", InputsFile, False),
]


def refusals(model, text, by_line):
    """The model's errors for the documents in a text."""
    for number, document in enumerate(text.splitlines() if by_line else [text], start=1):
        try:
            model.model_validate(json.loads(document))
        except Exception as error:  # Its validators raise more than ValidationError.
            errors = getattr(error, "errors", None)
            reasons = [str(error)] if errors is None else [
                f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in errors()
            ]
            where = f"line {number}: " if by_line else ""
            for reason in reasons[:MOST_REASONS]:
                yield where + reason
            return


def main(directories):
    read = refused = 0
    for directory in directories:
        for path in sorted(Path(directory).rglob("*.json*")):
            found = next((entry for entry in MODELS if path.name.endswith(entry[0])), None)
            if found is None:
                continue
            _, model, by_line = found
            read += 1
            reasons = list(refusals(model, path.read_text(encoding="utf-8"), by_line))
            if reasons:
                refused += 1
                print(f"{path}: {model.__name__}")
                for reason in reasons:
                    print(f"    {reason}")
    print(f"{read} files read, {refused} refused")
    return 1 if refused or not read else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
