"""Compares the spans that the Collector wrote with the records of their requests
(docs/otlp.md): which exist, their parents, and their times to the nanosecond."""

import json
from collections import defaultdict

INTERNAL, CLIENT = 1, 3
ERROR = 2

# Spans of the phases, and the times of a record at which they start and end. A phase without an
# end is the one in which the request failed.
PHASES = {
    "aiperf.http.blocked": ("connection_pool_wait_start_ns", "connection_pool_wait_end_ns"),
    "aiperf.http.dns": ("dns_lookup_start_ns", "dns_lookup_end_ns"),
    "aiperf.http.connect": ("tcp_connect_start_ns", "tcp_connect_end_ns"),
    "aiperf.http.tls": ("tls_handshake_start_ns", "tls_handshake_end_ns"),
    "aiperf.http.send": ("request_send_start_ns", "sent"),
    "aiperf.http.wait": ("sent", "response_receive_start_ns"),
    "aiperf.http.receive": ("response_receive_start_ns", "response_receive_end_ns"),
}
# Phases before the request was sent that are nevertheless in its span.
WAITS = ("connection_pool_wait_start_ns", "dns_lookup_start_ns", "tcp_connect_start_ns")

# The operation of the span around the requests of a session.
AGENT = "invoke_agent"

# Dynamo's spans, each the parent of the next; the first one is below aiperf's.
OF_DYNAMO = ("http-request", "router.route_request", "handle_payload")


def check(report, run, spans):
    """The spans of a run with --trace-sample and --export-http-trace."""
    records, own = chosen(run), by_request(spans, run)
    agents = agents_of(spans, run)
    report.equal("requests with spans", len(own), len(records))
    missing, more = sorted(records.keys() - own.keys()), sorted(own.keys() - records.keys())
    report.equal("requests whose spans are missing", missing, [])
    report.equal("requests whose spans were not asked for", more, [])
    sampled = {conversation(one) for one in records.values() if context(one)[2] & 1 and has_agent(one)}
    report.equal("agents", agents.keys() ^ sampled, set())
    _check_told(report, run, len(records))
    wrong, compared = [], 0
    for trace in records.keys() & own.keys():
        want = of_record(records[trace], run.flag("--model"), own[trace], agents)
        have = sorted(map(_told_by_record, own[trace]))
        compared += len(want)
        if have != want:
            wrong.append({"trace": trace, "seen": have, "expected": want})
    text = f"{compared} spans of {len(records)} requests; wrong: {wrong[:1]}"
    report.holds("name, kind, parent, times, events, flags of each span", compared and not wrong, text)
    _check_attributes(report, records, own)


def by_request(spans, run):
    """aiperf's own spans of a run's requests, by request."""
    spans = [span for span in spans if span.run == run.id]
    within = {span.id: span.parent for span in spans}
    requests = {span.id: span.attributes["aiperf.request.id"].replace("-", "") for span in spans
                if "aiperf.request.id" in span.attributes}  # fmt: skip
    own = defaultdict(list)
    for span in spans:
        above = span.id
        while above and above not in requests:
            above = within.get(above)
        if above:
            own[requests[above]].append(span)
    return own


def agents_of(spans, run):
    """The IDs of the spans around the requests of a conversation, by conversation."""
    return {span.attributes["gen_ai.conversation.id"]: span.id for span in spans
            if span.run == run.id and span.attributes.get("gen_ai.operation.name") == AGENT}  # fmt: skip


def root_of(own):
    """The span of a whole request among its spans."""
    return next((span for span in own if "aiperf.request.id" in span.attributes), None)


def chosen(run):
    """The records that --trace-sample selects, by request."""
    share, slowest, errors = 0.0, 0, False
    for part in run.flag("--trace-sample").split(","):
        if part.endswith("%"):
            share = float(part[:-1]) / 100
        elif part.startswith("slowest:"):
            slowest = int(part.removeprefix("slowest:"))
        else:
            errors = part == "errors"
    fine = [one for one in run.records if one["error"] is None and _phase(one) == "profiling"]
    fine.sort(key=lambda one: one["metrics"]["request_latency"]["value"])
    took = {request_id(one): one for one in fine[-slowest:]} if slowest else {}
    for one in run.records:
        failed = one["error"] is not None and not one["metadata"]["was_cancelled"]
        if is_sampled(one, share) or (errors and failed):
            took[request_id(one)] = one
    return took


def is_sampled(record, share):
    """OpenTelemetry's consistent sampling, by the last 56 bits of the trace ID."""
    return int(context(record)[0][-14:], 16) >= (1 - share) * 2**56


def request_id(record):
    return record["metadata"]["x_request_id"].replace("-", "")


def conversation(record):
    return record["metadata"]["x_correlation_id"]


def has_agent(record):
    """Whether the request is one of several in a trace."""
    return context(record)[0] != request_id(record)


def _phase(record):
    return record["metadata"]["benchmark_phase"]


def context(record):
    """The trace, the parent's ID and the flags that were sent to the server."""
    headers = record["trace_data"]["request_headers"]
    (value,) = [value for name, value in headers.items() if name.lower() == "traceparent"]
    version, trace, span, flags = value.split("-")
    session = record["metadata"].get("root_correlation_id", conversation(record)).replace("-", "")
    assert version == "00" and trace in (request_id(record), session), headers
    return trace, span, int(flags, 16)


def _told_by_record(span):
    """The parts of a span that are determined by its record."""
    return (span.name, span.kind, span.parent, span.start, span.end, span.status == ERROR,
            span.flags & 0xFF, span.events)  # fmt: skip


def of_record(record, model, spans, agents):
    """The spans expected from a record, in the format of `_told_by_record`. Only the identifier of
    the phase that contains another one cannot be determined."""
    metadata, trace = record["metadata"], record["trace_data"]
    _, root, flags = context(record)
    above = agents.get(conversation(record), "") if flags & 1 and has_agent(record) else ""
    failed = record["error"] is not None
    times = {"request_start_ns": metadata["request_start_ns"], **trace}
    if "sending_ns" in trace:
        times["sent"] = trace["request_send_start_ns"] + trace["sending_ns"]
    start = min(times[name] for name in ("request_start_ns", *WAITS) if name in times)
    end = metadata["request_end_ns"]
    wanted = [(f"chat {model}", CLIENT, above, start, end, failed, flags, events(record))]
    connect = next((span.id for span in spans if span.name == "aiperf.http.connect"), None)
    for name, (begin, end) in PHASES.items():
        until = times.get(end, times.get("error_timestamp_ns"))
        if begin in times and until is not None:
            parent = connect if name == "aiperf.http.tls" else root
            # A response that was cut short ends with the error.
            broke_off = name == "aiperf.http.receive" and "error_timestamp_ns" in times
            cut = failed and (end not in times or broke_off)
            wanted.append((name, INTERNAL, parent, times[begin], until, cut, flags, ()))
    return sorted(wanted)


def events(record):
    """First and last token of a stream. The record of a failed request does not contain metrics;
    its tokens arrived with the first and the last bytes of the server."""
    names, trace = ("aiperf.first_token", "aiperf.last_token"), record["trace_data"]
    if record["error"] is not None:
        read = trace.get("response_chunks") if trace.get("response_status_code") == 200 else None
        return ((names[0], read[0][0]), (names[1], read[-1][0])) if read else ()
    start = record["metadata"]["request_start_ns"]
    after = [record["metrics"][tag]["value"] for tag in ("time_to_first_token", "request_latency")]
    return tuple((name, start + round(ms * 1e6)) for name, ms in zip(names, after, strict=True))


def _check_told(report, run, requests):
    none = dict.fromkeys(("rejected", "lost", "errors_left_out"), 0)
    want = {"sampled": requests, "sent": requests, **none}
    report.equal("traces by aiperf's own report", run.summary["telemetry"]["traces"], want)


def _check_attributes(report, records, own):
    """Attributes that lead from a trace to the files, and describe the request."""
    wrong = {}
    for trace in records.keys() & own.keys():
        record = records[trace]
        metadata, metrics = record["metadata"], record["metrics"]
        want = {
            "aiperf.request.id": metadata["x_request_id"],
            "gen_ai.conversation.id": metadata["x_correlation_id"],
            "aiperf.session.number": metadata["session_num"],
            "aiperf.conversation.parent": metadata.get("parent_correlation_id"),
            "aiperf.tenant": metadata.get("tenant"),
            "aiperf.turn.index": metadata["turn_index"],
            "aiperf.benchmark_phase": metadata["benchmark_phase"],
            "error.type": (record["error"] or {}).get("error_type"),
            "gen_ai.usage.input_tokens": metrics.get("input_sequence_length", {}).get("value"),
            "gen_ai.usage.output_tokens": metrics.get("output_sequence_length", {}).get("value"),
        }
        root = root_of(own[trace])
        have = {name: root.attributes.get(name) for name in want}
        if have != want:
            wrong[trace] = {"seen": have, "expected": want}
    report.holds("attributes of the requests' spans", not wrong, f"wrong: {list(wrong.items())[:1]}")


def check_dynamo(report, run, spans, log):
    """Dynamo's part: its log has the trace and parent of every request, as sent, and the sampled
    ones have its spans, which are below aiperf's and start within them."""
    logged = logged_contexts(log)
    sent = {request_id(record): context(record) for record in run.records}
    wrong = {request: (logged.get(parent), (trace, flags))
             for request, (trace, parent, flags) in sent.items()
             if logged.get(parent) != {(trace, flags)}}  # fmt: skip
    text = f"{len(sent)} requests; seen, expected: {dict(list(wrong.items())[:2])}"
    report.holds("traces in Dynamo's log", sent and not wrong, text)
    below = {(span.parent, span.name): span for span in spans if span.service == "dynamo"}
    theirs = {request for request, (_, parent, _) in sent.items() if (parent, OF_DYNAMO[0]) in below}
    sampled = {request for request, (_, _, flags) in sent.items() if flags & 1}
    report.equal("requests with Dynamo's spans", len(theirs), len(sampled))
    report.equal("those that are not the ones it was told to sample", theirs ^ sampled, set())
    own = by_request(spans, run)
    wrong = [request for request in sampled if not _is_below(below, root_of(own[request]))]
    text = f"{len(sampled)} of {' < '.join(OF_DYNAMO)}; wrong: {wrong[:3]}"
    report.holds("Dynamo's spans below aiperf's", sampled and not wrong, text)


def _is_below(below, root):
    """Whether a request has Dynamo's spans, each the parent of the next, which start within aiperf's.
    The last may end after aiperf has read the last byte."""
    parent = root
    for name in OF_DYNAMO:
        span = below.get((parent.id, name)) if parent else None
        if span is None or not root.start <= span.start <= root.end:
            return False
        parent = span
    return True


def logged_contexts(log):
    """The traces and flags in Dynamo's log, by parent."""
    contexts = defaultdict(set)
    with open(log, errors="replace") as lines:
        for line in lines:
            if '"span_name":"http-request"' in line:
                said = json.loads(line)
                if "parent_id" in said:
                    flags = int(said["trace_flags"], 16)
                    contexts[said["parent_id"]].add((said["trace_id"], flags))
    return contexts
