"""Spans in the format of the Collector's file exporter."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A span, with the sender in its resource."""

    service: str
    run: str
    trace: str
    id: str
    parent: str
    name: str
    kind: int
    # Nanoseconds since 1970.
    start: int
    end: int
    # Lowest byte: the W3C flags of the context.
    flags: int
    # 2 is an error.
    status: int
    events: tuple
    attributes: dict


def read(path):
    """All spans in the file."""
    with open(path) as lines:
        return [span for line in lines for span in _spans(json.loads(line))]


def _spans(request):
    for resource in request.get("resourceSpans", []):
        named = _attributes(resource["resource"])
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                yield Span(
                    service=named.get("service.name"),
                    run=named.get("aiperf.benchmark.id"),
                    trace=span["traceId"],
                    id=span["spanId"],
                    parent=span.get("parentSpanId", ""),
                    name=span["name"],
                    kind=span["kind"],
                    start=int(span["startTimeUnixNano"]),
                    end=int(span["endTimeUnixNano"]),
                    flags=span.get("flags", 0),
                    status=span.get("status", {}).get("code", 0),
                    events=tuple((e["name"], int(e["timeUnixNano"])) for e in span.get("events", [])),
                    attributes=_attributes(span),
                )


def _attributes(owner):
    return {one["key"]: _value(one["value"]) for one in owner.get("attributes", [])}


def _value(wrapped):
    """The value in its wrapper; integers are written as text."""
    ((kind, value),) = wrapped.items()
    return int(value) if kind == "intValue" else value
