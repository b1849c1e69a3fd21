"""Recomputes profile_export_aiperf.json and .csv from profile_export.jsonl.

    python3 tests/check_profile_export.py DIR

An independent implementation: numpy's statistics over the records of the profiling phase,
the formulas of the metric reference for aggregates and derived metrics, and time-weighted
metrics from the times in the records; error bounds from the delays in the records; latencies without
the network from the lines of its probes. Prints each difference and exits with 1 if there are
any, or with 2 if the files cannot be read. Needs numpy.

Thresholds are the defaults, or AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD,
AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD and
AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD.
"""

import csv
import json
import math
import os
import sys
from pathlib import Path

import numpy

TOLERANCE = 1e-9
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)

# Derived sums: each total and the record metric it sums.
SUMS = {
    "total_output_tokens": "output_token_count",
    "total_osl": "output_sequence_length",
    "total_isl": "input_sequence_length",
    "total_reasoning_tokens": "reasoning_token_count",
    "total_error_isl": "error_isl",
} | {
    f"total_usage_{field}": f"usage_{field}"
    for field in (
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "reasoning_tokens",
        "prompt_cache_read_tokens",
        "prompt_cache_write_tokens",
        "prompt_cache_miss_tokens",
        "prompt_audio_tokens",
        "completion_audio_tokens",
        "prompt_audio_seconds",
        "tool_use_prompt_tokens",
        "accepted_prediction_tokens",
        "rejected_prediction_tokens",
    )
}

# Record metrics for which `adj_` variants count failed requests as infinite.
ADJUSTED = ("request_latency", "time_to_first_token", "inter_token_latency", "decode_duration")

OVERFLOWS = ("context length", "maximum context", "context_length_exceeded", "prompt is too long")

# Aggregates that are also in single records.
COUNTED_IN_RECORDS = {"good_request_count"}


def threshold(name, default):
    return float(os.environ.get(f"AIPERF_METRICS_{name}", default))


def read_records(path):
    """The records of the profiling phase."""
    with open(path, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines if line.strip()]
    return [r for r in records if r["metadata"]["benchmark_phase"] == "profiling"]


def scalar(record, tag):
    metric = record["metrics"].get(tag)
    return None if metric is None else metric["value"]


def columns(records):
    """Values and unit of each metric, lists flattened; without failed exchanges."""
    values, units = {}, {}
    for record in records:
        for tag, metric in record["metrics"].items():
            if record.get("error") and tag.startswith("http_req_"):
                continue
            value = metric["value"]
            values.setdefault(tag, []).extend(value if isinstance(value, list) else [value])
            units[tag] = metric["unit"]
    return {tag: numpy.array(column, dtype=float) for tag, column in values.items()}, units


def statistics(column):
    stats = {
        "avg": numpy.mean(column),
        "min": numpy.min(column),
        "max": numpy.max(column),
        "std": numpy.std(column),
        "sum": numpy.sum(column),
        "count": len(column),
    }
    stats.update({f"p{p}": numpy.percentile(column, p) for p in PERCENTILES})
    return {name: float(value) for name, value in stats.items()}


def end_of_content(record):
    """In nanoseconds; None if absent."""
    latency = scalar(record, "request_latency")
    return None if latency is None else record["metadata"]["request_start_ns"] + round(latency * 1e6)


def last_end(records):
    """Of a response in nanoseconds, or else of a failure; None without a request."""
    ends = [end for end in map(end_of_content, records) if end is not None]
    return max(ends or (r["metadata"]["request_end_ns"] for r in records), default=None)


def duration_seconds(records):
    """From the first request sent to the last response; None without a request."""
    end = last_end(records)
    if end is None:
        return None
    return (end - min(r["metadata"]["request_start_ns"] for r in records)) / 1e9


def usage_discrepancies(records):
    limit = threshold("USAGE_PCT_DIFF_THRESHOLD", 10)
    tags = [f"usage_{kind}_tokens_diff_pct" for kind in ("prompt", "completion", "reasoning")]
    compared = [[v for v in (scalar(r, tag) for tag in tags) if v is not None] for r in records]
    compared = [differences for differences in compared if differences]
    return sum(max(differences) > limit for differences in compared) if compared else None


def osl_mismatches(records):
    percent = threshold("OSL_MISMATCH_PCT_THRESHOLD", 5)
    most = threshold("OSL_MISMATCH_MAX_TOKEN_THRESHOLD", 50)
    mismatches = None
    for record in records:
        difference = scalar(record, "osl_mismatch_diff_pct")
        generated = scalar(record, "output_sequence_length")
        if difference is None or generated is None:
            continue
        if generated == 0:
            missed = True
        else:
            requested = round(generated / (1 + difference / 100))
            missed = abs(generated - requested) > min(requested * percent / 100, most)
        mismatches = (mismatches or 0) + missed
    return mismatches


def for_developers(records, found):
    """The additional metrics of `AIPERF_DEV_MODE`."""
    starts = [r["metadata"]["request_start_ns"] for r in records]
    more = {"min_request_timestamp": min(starts)} if starts else {}
    if starts:
        more["max_response_timestamp"] = last_end(records)
    if found.get("total_reasoning_tokens") and found.get("total_output_tokens"):
        efficiency = found["total_reasoning_tokens"] / found["total_output_tokens"]
        more["overall_thinking_efficiency"] = efficiency
    return more


def single_values(records, values, has_objectives, is_developed=False):
    """Aggregates and derived metrics, without absent ones."""
    failed = sum(1 for r in records if r.get("error"))
    succeeded = len(records) - failed
    found = {tag: float(numpy.sum(values[of])) for tag, of in SUMS.items() if of in values}
    if records:
        found["request_count"] = succeeded
        found["completed_request_count"] = len(records)
        found["request_error_rate"] = failed / len(records) * 100
    if failed:
        found["error_request_count"] = failed
        errors = [json.dumps(r["error"]).lower() for r in records if r.get("error")]
        found["context_overflow_count"] = sum(
            any(words in error for words in OVERFLOWS) for error in errors
        )
    incomplete = sum(1 for r in records if r["metadata"].get("missing_answers"))
    if incomplete:
        found["incomplete_history_count"] = incomplete
    if is_developed:
        found |= for_developers(records, found)
    found["usage_discrepancy_count"] = usage_discrepancies(records)
    found["osl_mismatch_count"] = osl_mismatches(records)
    seconds = found["benchmark_duration"] = duration_seconds(records)
    prompt = found.get("total_usage_prompt_tokens")
    if prompt and "total_usage_prompt_cache_read_tokens" in found:
        read = found["total_usage_prompt_cache_read_tokens"]
        found["overall_usage_prompt_cache_read_pct"] = read / prompt * 100
    if has_objectives:
        good = float(numpy.sum(values.get("good_request_count", [])))
        found["good_request_count"] = good
        found["good_request_fraction"] = good / len(records) if records else 0.0
    if seconds:
        found.update(rates(found, seconds))
    return {tag: float(value) for tag, value in found.items() if value is not None}


def rates(found, seconds):
    rate = {"request_throughput": found["request_count"] / seconds}
    if "total_isl" in found:
        rate["input_token_throughput"] = found["total_isl"] / seconds
    if "total_osl" in found:
        rate["output_token_throughput"] = found["total_osl"] / seconds
        if "total_isl" in found:
            both = found["total_isl"] + found["total_osl"]
            rate["total_token_throughput"] = both / seconds
    if "good_request_count" in found:
        rate["goodput"] = found["good_request_count"] / seconds
    return rate


def adjusted(values, failed):
    """Latencies with an infinite one for each failure; only finite statistics."""
    found = {}
    for tag in ADJUSTED if failed else ():
        if tag in values:
            column = numpy.append(values[tag], [numpy.inf] * failed)
            stats = {"min": numpy.min(column), "count": len(column)}
            for p in PERCENTILES:
                stats[f"p{p}"] = numpy.percentile(column, p, method="nearest")
            finite = {name: float(v) for name, v in stats.items() if numpy.isfinite(v)}
            found[f"adj_{tag}"] = finite
    return found


def round_trip(directory, export):
    """The round-trip time of the network in milliseconds; None if it is not known."""
    given = export.get("input_config", {}).get("network_latency", {}).get("mean_ms")
    if given is not None:
        return given
    path = directory / "profile_export_network_latency.jsonl"
    if not path.exists():
        return None
    with open(path, encoding="utf-8") as lines:
        probes = [json.loads(line) for line in lines]
    times = [probe["rtt_ns"] for probe in probes if probe["success"]]
    return sum(times) / len(times) / 1e6 if times else None


def without_network(values, rtt):
    """Statistics of the latencies less a round trip, and of the round trip."""
    if rtt is None:
        return {}
    found = {
        f"network_adjusted_{tag}": numpy.maximum(values[tag] - rtt, 0.0)
        for tag in ("time_to_first_token", "time_to_first_output_token", "request_latency")
        if tag in values
    }
    return found | {"network_rtt": numpy.array([rtt])}


class Request:
    """Instants in nanoseconds; `content` are those of the content events."""

    def __init__(self, record):
        self.start = record["metadata"]["request_start_ns"]
        self.end = record["metadata"]["request_end_ns"]
        self.input = scalar(record, "input_sequence_length") or 0
        self.output = scalar(record, "output_sequence_length") or 0
        first = scalar(record, "time_to_first_token")
        self.content = [] if first is None else [self.start + round(first * 1e6)]
        for gap in scalar(record, "inter_chunk_latency") or []:
            self.content.append(self.content[-1] + round(gap * 1e6))
        self.end = max([self.end, *self.content])

    def in_prefill(self):
        return [(self.start, self.content[0], 1)] if self.content else []

    def in_decode(self):
        return [(self.content[0], self.end, 1)] if self.content else []

    def in_flight(self):
        return [(self.start, self.end, 1)]

    def prefill(self):
        return [(a, b, self.input / (b - a) * 1e9) for a, b, _ in self.in_prefill() if b > a]

    def decode(self):
        gaps = [(a, b) for a, b in zip(self.content, self.content[1:]) if b > a]
        later = max(self.output - 1, 0)
        return [(a, b, later / len(gaps) / (b - a) * 1e9) for a, b in gaps]

    def both(self):
        later = max(self.output - 1, 0)
        even = [(a, b, later / (b - a) * 1e9) for a, b, _ in self.in_decode() if b > a]
        return self.prefill() + even

    def tokens(self):
        if not self.content:
            return []
        levels = [(self.start, self.end, self.input)]
        if len(self.content) == 1:
            return levels + [(self.content[0], self.end, self.output)]
        more = max(self.output - 1, 0) / (len(self.content) - 1)
        levels.append((self.content[0], self.end, min(self.output, 1)))
        return levels + [(at, self.end, more) for at in self.content[1:]]


# Curves that exist only if input lengths are known.
OF_INPUTS = ("total_throughput", "tokens_in_flight")

# Levels, the requests that contribute, and whether they share the level.
CURVES = {
    "concurrency": (Request.in_flight, Request.in_flight, False),
    "prefill_concurrency": (Request.in_prefill, Request.in_prefill, False),
    "decode_concurrency": (Request.in_decode, Request.in_decode, False),
    "prefill_throughput": (Request.prefill, Request.in_prefill, False),
    "decode_throughput": (Request.decode, Request.in_decode, False),
    "total_throughput": (Request.both, Request.in_flight, False),
    "prefill_throughput_per_user": (Request.prefill, Request.in_prefill, True),
    "decode_throughput_per_user": (Request.decode, Request.in_decode, True),
    "tokens_in_flight": (Request.tokens, Request.in_flight, False),
}


def step_function(levels, edges):
    """The sum of `levels` in each interval between two of `edges`."""
    changes = numpy.zeros(len(edges))
    begins, ends, heights = (numpy.array(column) for column in zip(*levels))
    numpy.add.at(changes, numpy.searchsorted(edges, begins), heights)
    numpy.subtract.at(changes, numpy.searchsorted(edges, ends), heights)
    return numpy.cumsum(changes)[:-1]


def weighted(values, lengths):
    if not lengths.sum():
        return None
    order = numpy.argsort(values, kind="stable")
    values, lengths = values[order], lengths[order]
    mean = numpy.average(values, weights=lengths)
    stats = {
        "avg": mean,
        "min": values[0],
        "max": values[-1],
        "std": numpy.sqrt(numpy.average((values - mean) ** 2, weights=lengths)),
    }
    passed = numpy.cumsum(lengths)
    for p in (50, 90, 95, 99):
        # Whole nanoseconds: the first value at which p % of the time has passed.
        stats[f"p{p}"] = values[numpy.searchsorted(passed * 100, passed[-1] * p)]
    return {name: float(value) for name, value in stats.items()}


def over_time(records):
    """Statistics of each curve, with each value weighted by its duration."""
    requests = [Request(record) for record in records]
    found = {}
    for name, (levels_of, users_of, is_shared) in CURVES.items():
        levels = [level for request in requests for level in levels_of(request)]
        if not any(height for _, _, height in levels):
            continue
        if name in OF_INPUTS and not any(request.input for request in requests):
            continue
        users = [user for request in requests for user in users_of(request)]
        whole = [
            min(request.start for request in requests),
            max(r["metadata"]["request_end_ns"] for r in records),
        ]
        instants = [at for begin, end, _ in levels + users for at in (begin, end)]
        edges = numpy.unique(numpy.array(instants + whole, dtype=numpy.int64))
        values = step_function(levels, edges)
        present = numpy.rint(step_function(users, edges))
        if is_shared:
            values = numpy.divide(values, present, out=numpy.zeros_like(values), where=present > 0)
        lengths = numpy.diff(edges)
        is_active = present > 0
        tag = name if name == "tokens_in_flight" else f"effective_{name}"
        found[tag] = weighted(values, lengths)
        if "throughput" in name:
            found[f"active_{name}"] = weighted(values[is_active], lengths[is_active])
    return {tag: stats for tag, stats in found.items() if stats}


def likely_end_gap(records):
    """How long before the end of a response, in milliseconds, its last content likely arrived at
    most: the reverse Kaplan-Meier estimate, from the longest gap to the tenth shortest."""
    gaps = [
        (metadata["end_gap_ns"] + metadata.get("last_content_uncertainty_ns", 0), metadata["end_gap_ns"] > 0)
        for record in records
        if not record.get("error") and "end_gap_ns" in (metadata := record["metadata"])
    ]
    gaps.sort()
    share, likely = 1.0, math.inf
    for rank in range(len(gaps), 9, -1):
        if share < 0.99 - 1e-9:
            break
        at_most, is_known = gaps[rank - 1]
        likely = at_most / 1e6
        if is_known:
            share *= 1 - 1 / rank
    return likely


def error_spans(records):
    """For each metric with error bounds, in milliseconds: values as measured, lowest and highest
    ones without the client's delays, the lowest likely ones, and values from when the request could
    have been sent."""
    found = {}
    end_gap = likely_end_gap(records)
    for record in records:
        if record.get("error"):
            continue
        metadata = record["metadata"]
        before_end = end_gap if metadata.get("end_gap_ns") == 0 else math.inf
        first, last = (
            metadata.get(f"{which}_content_uncertainty_ns", 0) / 1e6 for which in ("first", "last")
        )
        sent, late = metadata["send_delay_ns"] / 1e6, 0.0
        if "request_due_ns" in metadata:
            late = metadata.get("late_ns", 0) / 1e6
        latency = scalar(record, "request_latency")
        for tag, uncertainty in (("time_to_first_token", first), ("request_latency", last)):
            if (value := scalar(record, tag)) is not None:
                likely = min(uncertainty, before_end) if value == latency else uncertainty
                lows = value - sent - uncertainty, value - sent - likely
                span = lows[0], value - sent, lows[1], value + late
                found.setdefault(tag, []).append((value, *span))
        gap, tokens = scalar(record, "inter_token_latency"), scalar(record, "output_sequence_length")
        if gap is not None and tokens:
            lows = [gap - one / (tokens - 1) for one in (last, min(last, before_end))]
            span = lows[0], gap + first / (tokens - 1), lows[1], gap
            found.setdefault("inter_token_latency", []).append((gap, *span))
    return {tag: numpy.maximum(numpy.array(rows), 0.0).T for tag, rows in found.items()}


def compare_error_bounds(records, exported):
    """Bounds have the resolution of a 32-bit number. The likely error is compared with 400 draws of
    all values from their spans."""
    differences = []
    has_due = any("request_due_ns" in r["metadata"] for r in records)
    random = numpy.random.default_rng(1)
    for tag, (values, lows, highs, likely_lows, from_due) in error_spans(records).items():
        bounds = exported.get(tag, {})
        if bounds.get("count") != len(values):
            differences.append(f"error bounds of {tag}: not of {len(values)} requests: {bounds}")
            continue
        draws = random.uniform(likely_lows, highs, (400, len(values)))
        for name, of in {"avg": numpy.mean, **{
            f"p{p}": lambda column, axis=None, p=p: numpy.percentile(column, p, axis=axis)
            for p in (50, 99)
        }}.items():  # fmt: skip
            bound, value = bounds[name], of(values)
            above = of(numpy.maximum(highs, values)) - value
            expected = {"value": value, "below": value - of(lows), "above": above}
            if has_due and tag != "inter_token_latency":
                expected["late"] = of(from_due) - value
            for member, ours in expected.items():
                theirs = bound.get(member)
                if theirs is None or abs(ours - theirs) > 1e-6 * max(1.0, value, ours):
                    differences.append(f"{tag} {name}: {member} is {theirs}, should be {ours}")
            low, high = value - bound["likely_below"], value + bound["likely_above"]
            drawn = of(draws, axis=1)
            slack = 1e-6 * max(1.0, value, bound["below"], bound["above"])
            outside = numpy.mean((drawn < low - slack) | (drawn > high + slack))
            if outside > 0.1 or bound["likely_below"] > bound["below"]:
                differences.append(f"{tag} {name}: likely in {bound}, {outside:.0%} of draws are not")
    return differences


def compare_throughput_bounds(records, load, bounds):
    """Rates of a run without the client's delays: each slot is used again at once, and a request that
    did not wait for a slot is sent when it is due."""
    slot_delays = vague = delays = 0.0
    starts, ends, possible_starts, possible_ends = [], [], [], []
    for metadata in (record["metadata"] for record in records):
        start, end = metadata["request_start_ns"], metadata["request_end_ns"]
        delay = metadata["late_ns"] + metadata["send_delay_ns"]
        due = metadata.get("request_due_ns")
        waited = due is None or start - due > metadata["late_ns"]
        own = 0 if waited else delay
        if waited:
            slot_delays += delay
            vague += metadata.get("end_uncertainty_ns", 0)
        delays += delay
        starts.append(start)
        ends.append(end)
        possible_starts.append(start - own)
        possible_ends.append(end - own)
    duration = max(ends) - min(starts)
    possible = max(possible_ends) - min(possible_starts)
    if "slot_seconds" in load:
        slots = load["slot_seconds"] * 1e9 / duration
    else:
        asked = min(load.get("requested_concurrency", 0), len(records))
        slots = max(asked, load["reached_concurrency"])
    rise = [
        100 * (duration / (possible - lost / slots) - 1) for lost in (slot_delays, slot_delays + vague)
    ]
    expected = {
        "below_percent": max(-rise[0], 0.0),
        "above_percent": max(rise[1], 0.0),
        "delay_ms": delays / len(records) / 1e6,
    }
    return [
        f"throughput bounds: {name} is {bounds[name]}, should be {value}"
        for name, value in expected.items()
        if abs(bounds[name] - value) > 1e-6 * max(1.0, value)
    ]


def near(ours, theirs, scale=0.0):
    return abs(ours - theirs) <= TOLERANCE * max(abs(ours), abs(theirs), scale)


def compare(where, expected, got, scale=0.0):
    if got is None:
        return [f"{where}: missing, should be {expected!r}"]
    if not near(expected, got, scale):
        return [f"{where}: is {got!r}, should be {expected!r}"]
    return []


def compare_over_time(tag, expected, exported):
    differences = []
    # Rates that cancel out leave rounding errors of the highest one.
    for name, value in expected.items():
        spread = expected.get("max", 0.0)
        differences += compare(f"{tag}.{name}", value, exported.get(name), spread)
    surplus = set(exported) - set(expected) - {"unit"}
    return differences + [f"{tag}.{name}: should not be there" for name in sorted(surplus)]


def compare_record_metric(tag, column, unit, exported):
    differences = []
    if exported.get("unit") != unit:
        differences.append(f"{tag}.unit: is {exported.get('unit')!r}, should be {unit!r}")
    # The deviation of values that are almost equal consists of rounding errors.
    scale = float(numpy.max(numpy.abs(column)))
    expected = statistics(column)
    for name, value in expected.items():
        spread = scale if name == "std" else 0.0
        differences += compare(f"{tag}.{name}", value, exported.get(name), spread)
    surplus = set(exported) - set(expected) - {"unit"}
    return differences + [f"{tag}.{name}: should not be there" for name in sorted(surplus)]


def rounded(numbers):
    """As formatted in the table."""
    return sorted(round(float(number), 2) for number in numbers)


def compare_table(rows, metrics, reasons):
    """The CSV has the numbers of the JSON with two decimals: one section of distributions,
    one of single values. Its rows have labels instead of tags, so numbers are compared in order.
    A section of finish reasons follows."""
    differences = []
    sections, seen = {}, set()
    rows = list(rows)
    header = ["Finish Reason", "Requests"]
    if header in rows:
        at = rows.index(header)
        rows, counted = rows[:at], rows[at + 1 :]
        if {row[0]: int(row[1]) for row in counted if row} != reasons:
            differences.append(f"CSV: finish reasons are {counted}, should be {reasons}")
    elif reasons:
        differences.append("CSV: no finish reasons")
    for row in rows:
        if row and row[0] == "Metric":
            header = tuple(row[1:])
            sections[header] = []
        elif row:
            sections[header].append(row)
            if row[0] in seen:
                differences.append(f"CSV: {row[0]} is there twice")
            seen.add(row[0])
    if len(seen) != len(metrics):
        differences.append(f"CSV: {len(seen)} rows, {len(metrics)} metrics")
    spread = [metric for metric in metrics.values() if set(metric) - {"unit", "avg"}]
    single = [metric for metric in metrics.values() if not set(metric) - {"unit", "avg"}]
    for header, found in sections.items():
        of = single if header == ("Value",) else spread
        for at, name in enumerate(header, 1):
            stat = "avg" if name == "Value" else name
            got = rounded(row[at] for row in found if row[at] != "")
            expected = rounded(metric[stat] for metric in of if stat in metric)
            if len(got) != len(expected):
                differences.append(f"CSV: {len(got)} of {name}, should be {len(expected)}")
            differences += [
                f"CSV: {name} is {ours}, should be {theirs}"
                for ours, theirs in zip(got, expected)
                if abs(ours - theirs) > 0.011
            ][:3]
    return differences


def check(directory):
    """The differences, and the metrics that are not covered by any record or formula."""
    records = read_records(directory / "profile_export.jsonl")
    export = json.loads((directory / "profile_export_aiperf.json").read_text(encoding="utf-8"))
    metrics = {
        tag: value for tag, value in export.items() if isinstance(value, dict) and "unit" in value
    }
    values, units = columns(records)
    has_objectives = "good_request_fraction" in metrics
    is_developed = "credit_drop_latency" in values
    singles = single_values(records, values, has_objectives, is_developed)
    differences = []
    for tag, column in values.items():
        if tag not in COUNTED_IN_RECORDS:
            differences += compare_record_metric(tag, column, units[tag], metrics.get(tag, {}))
    for tag, value in singles.items():
        differences += compare(f"{tag}.avg", value, metrics.get(tag, {}).get("avg"))
    failed = sum(1 for r in records if r.get("error"))
    curves = over_time(records) | adjusted(values, failed)
    for tag, expected in curves.items():
        differences += compare_over_time(tag, expected, metrics.get(tag, {}))
    less = without_network(values, round_trip(directory, export))
    for tag, column in less.items():
        differences += compare_record_metric(tag, column, "ms", metrics.get(tag, {}))
    health = export.get("client_health", {})
    if "error_bounds_ms" in health and all("send_delay_ns" in r["metadata"] for r in records):
        differences += compare_error_bounds(records, health["error_bounds_ms"])
    if "throughput_bounds" in health and all("late_ns" in r["metadata"] for r in records):
        differences += compare_throughput_bounds(records, export["load"], health["throughput_bounds"])
    table = directory / "profile_export_aiperf.csv"
    if table.exists():
        with open(table, encoding="utf-8", newline="") as text:
            differences += compare_table(csv.reader(text), metrics, export.get("finish_reasons", {}))
    unknown = sorted(set(metrics) - set(values) - set(singles) - set(curves) - set(less))
    return differences, unknown, len(metrics)


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        differences, unknown, count = check(Path(sys.argv[1]))
    except (OSError, ValueError, KeyError) as error:
        print(f"{sys.argv[1]}: cannot be checked: {error!r}", file=sys.stderr)
        return 2
    for difference in differences:
        print(difference)
    if unknown:
        print(f"not checked: {', '.join(unknown)}", file=sys.stderr)
    print(f"{count} metrics, {len(differences)} differences", file=sys.stderr)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
