"""Reads expositions, a JSON string per line of standard input, with both parsers of prometheus_client.

Prints a line for each, with the samples that the parser of the text format and that of OpenMetrics
read, or null where one rejects the body: the name, the labels, the value and the timestamp in
seconds, as texts.
"""

import json
import sys

from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics


def read(families, body):
    try:
        samples = [sample for family in families(body) for sample in family.samples]
    except (ValueError, KeyError, IndexError):
        return None
    return [
        [
            sample.name,
            sorted((sample.labels or {}).items()),
            repr(float(sample.value)),
            None if sample.timestamp is None else repr(float(sample.timestamp)),
        ]
        for sample in samples
        # That of a native histogram does not have a value.
        if sample.value is not None
    ]


for line in sys.stdin:
    body = json.loads(line)
    families = [parser.text_string_to_metric_families, openmetrics.text_string_to_metric_families]
    print(json.dumps([read(parse, body) for parse in families]))
