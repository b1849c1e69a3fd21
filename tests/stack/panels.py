#!/usr/bin/env python3
"""Runs each query of the dashboards against a Prometheus with the data of a run.

Variables are replaced as in Grafana. Panels over time use range queries, all others a query at
the end of the range. To run it alone:

    python3 tests/stack/panels.py http://localhost:9090 --run ID [--present vllm dynamo]
                                  [--baseline ID] [--last 900] [--update]

`--update` writes the tables of tests/stack/panels.md.
"""

import argparse
import json
import math
import pathlib
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
DASHBOARDS = ROOT / "dashboards"
GUIDE = ROOT / "tests/stack/panels.md"
BEGIN, END = "<!-- panels: begin -->", "<!-- panels: end -->"
TIMEOUT = 30
STEP = 5

# What a query needs in addition to a streamed run: a pattern of metrics, and the servers and
# features in `present` that have them.
NEEDS = [
    (r"vllm:num_requests_waiting_by_reason|vllm:prompt_tokens_by_source|vllm:generation_tokens", "vllm"),
    (r"vllm:", "vllm|dynamo"),
    (r"dynamo_component_gpu_cache_usage_percent", "dynamo-gpu"),
    (r"dynamo_", "dynamo"),
    (r"sglang:", "sglang"),
    (r"trtllm_", "trtllm"),
    (r"nv_", "triton"),
    (r"unless on \(\)", "progress"),
    (r"time_breakdown", "vllm|dynamo"),
    (r"good", "goodput"),
    (r"aiperf_gate_", "gates"),
    (r'sample_interval_\w+\{[^}]*aiperf_percentile="99"', "many"),
    (r"reasoning", "reasoning"),
    (r"cache_read", "cache"),
    (r"error_type!=", "errors"),
    (r"schedule_slip|rate_ratio", "rate"),
    (r"usage_", "usage"),
    (r"hw_|nvidia_|amd_", "gpus"),
]
# The displayed names of absent servers and features.
ABSENT = {
    "vllm": "vLLM", "vllm|dynamo": "vLLM", "dynamo": "Dynamo", "dynamo-gpu": "Dynamo with GPUs",
    "sglang": "SGLang", "trtllm": "TRT-LLM", "triton": "Triton", "goodput": "objectives", "gates": "gates", "many": "400 requests",
    "reasoning": "reasoning", "cache": "cached prompts", "errors": "failures",
    "rate": "a request rate", "usage": "usage", "progress": "only until the exact value is there", "gpus": "GPUs",
}
# A streamed run at a request rate with --goodput and --gate, against a server that reports usage.
USUAL = {"goodput", "gates", "rate", "usage"}


class Prometheus:
    """The query API."""

    def __init__(self, url):
        self.url = url.rstrip("/")

    def get(self, path, **parameters):
        """The `data` of a response; an error contains the message of Prometheus."""
        body = urllib.parse.urlencode(parameters, doseq=True).encode()
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}", body, timeout=TIMEOUT) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(f"{error.read().decode(errors='replace')} for {parameters}") from error

    def instant(self, expr, at):
        """Series at one time: `(labels, value)`."""
        found = self.get("query", query=expr, time=at)["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def over(self, expr, start, end, step):
        """Series over time: `(labels, values)`."""
        found = self.get("query_range", query=expr, start=start, end=end, step=step)["result"]
        return [(each["metric"], [float(value) for _, value in each["values"]]) for each in found]

    def labels(self, name, selector, start, end):
        """Values of a label."""
        matching = {"match[]": selector} if selector else {}
        query = urllib.parse.urlencode({**matching, "start": start, "end": end})
        url = f"{self.url}/api/v1/label/{urllib.parse.quote(name)}/values?{query}"
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            return json.load(answer)["data"]

    def names(self, selector, start, end):
        """Names of the labels of all series."""
        return self.get("labels", **{"match[]": selector, "start": start, "end": end})


class Window:
    """The time range, and the variables that Grafana derives from it."""

    def __init__(self, start, end, step=STEP):
        self.start, self.end, self.step = start, end, step
        seconds = max(1, math.ceil(end - start))
        self.built_in = {
            "__range": f"{seconds}s", "__range_s": str(seconds), "__interval": f"{step}s",
            # As for a data source whose scrape interval is `step`.
            "__rate_interval": f"{4 * step}s",
        }


def replace(text, values):
    """Substitutes the values of variables: `$name`, `${name}` and `[[name]]`."""
    def value(match):
        name = next(group for group in match.groups() if group)
        return values.get(name, match.group())
    return re.sub(r"\$(\w+)|\$\{(\w+)(?::\w+)?\}|\[\[(\w+)\]\]", value, text)


def options(prometheus, asked, window, values):
    """The values of a query variable, in its order."""
    asked = replace(asked, {**values, **window.built_in})
    if match := re.fullmatch(r"label_values\((?:(.+),)?\s*([\w$]+)\)", asked):
        found = prometheus.labels(match[2], match[1], window.start, window.end)
    elif match := re.fullmatch(r"label_names\((.+)\)", asked):
        found = prometheus.names(match[1], window.start, window.end)
    elif match := re.fullmatch(r"query_result\((.+)\)", asked):
        found = []
        for labels, value in prometheus.instant(match[1], window.end):
            inside = ",".join(f'{name}="{text}"' for name, text in labels.items())
            found.append(f"{{{inside}}} {value!r} {window.end * 1000:.0f}")
    else:
        raise ValueError(f"what is the variable {asked}?")
    return found


def chosen(prometheus, variable, window, values, wanted):
    """A variable's value: the selected one, its default, or else the first option."""
    name = variable["name"]
    if variable["type"] == "custom":
        found = variable["query"].split(",")
    else:
        found = options(prometheus, variable["query"]["query"], window, values)
    if pattern := variable.get("regex"):
        # Named groups as JavaScript writes them; the first is the value.
        pattern = pattern.strip("/").replace("(?<", "(?P<")
        matches = (re.search(pattern, each) for each in found)
        found = [match[1] for match in matches if match]
    if name in wanted:
        if not set(wanted[name]) <= set(found):
            raise ValueError(f"${name} offers {found}, not {wanted[name]}")
        picked = wanted[name]
    elif variable.get("includeAll") and "$__all" in variable.get("current", {}).get("value", []):
        if "allValue" in variable:
            return variable["allValue"]
        picked = found
    else:
        default = variable.get("current", {}).get("value", [])
        default = [default] if isinstance(default, str) else default
        picked = [each for each in default if each in found] or found[:1]
    if not picked:
        raise ValueError(f"${name} offers nothing: {variable['query']['query']}")
    # Several values become an alternation for =~, each escaped.
    escaped = [re.escape(each).replace("\\-", "-").replace("\\", "\\\\") for each in picked]
    return f"({'|'.join(escaped)})" if len(picked) > 1 else picked[0]


def panels(dashboard):
    """All panels, including those in collapsed rows."""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", [])
        else:
            yield panel


def absent(expr, present):
    """What the query needs that neither the run nor its servers have; None if data is expected."""
    for pattern, needed in NEEDS:
        if re.search(pattern, expr) and not set(needed.split("|")) & present:
            return ABSENT[needed]
    return None


def number(value):
    """Formats a value for readers."""
    return "NaN" if math.isnan(value) else f"{value:.6g}"


def shown(series):
    """The last values of the first series, and the number of series."""
    if not series:
        return "no data"
    first = series[0][1]
    values = [value for value in first if not math.isnan(value)] if isinstance(first, list) else [first]
    text = number(values[-1]) if values else "NaN"
    if len(values) > 1:
        text = f"{number(min(values))} to {number(max(values))}"
    return text + (f" ({len(series)} series)" if len(series) > 1 else "")


def has_numbers(series):
    """Whether anything except NaN would be drawn."""
    for _, values in series:
        values = values if isinstance(values, list) else [values]
        if any(not math.isnan(value) for value in values):
            return True
    return False


def judged(expr, series, present):
    """The displayed result of the series, and whether it contains data."""
    lacking = absent(expr, present)
    if has_numbers(series):
        return shown(series), True
    return (shown(series), False) if lacking is None else (f"absent: {lacking}", None)


def completed(results, others):
    """The results; if data is absent, those of another run that has it."""
    return [other if result[4] is None and other[4] is not None else result
            for result, other in zip(results, others, strict=True)]


def evaluate(prometheus_url, dashboards_dir, run_id, models, start, end, present=frozenset({"dynamo"}),
             baseline=None, usual=USUAL):
    """Each query's result over the run's window.

    Returns `(dashboard, panel, query, value text, has_data)`; `has_data` is None if no data was
    returned or expected, because the server or feature is not `present`. `usual` are the features
    that are assumed to be present.
    """
    prometheus, window = Prometheus(prometheus_url), Window(start, end)
    present = set(present) | set(usual)
    wanted = {"run": [run_id], "runs": [run_id], "candidate": [run_id]}
    if baseline:
        wanted |= {"runs": [run_id, baseline], "baseline": [baseline]}
    if models:
        wanted["model"] = list(models)
    results = []
    for path in sorted(pathlib.Path(dashboards_dir).glob("*.json")):
        dashboard = json.loads(path.read_text(encoding="utf-8"))
        values = {"datasource": "prometheus"}
        for variable in dashboard["templating"]["list"]:
            if variable["type"] != "datasource":
                values[variable["name"]] = chosen(prometheus, variable, window, values, wanted)
        for panel in panels(dashboard):
            for target in panel["targets"]:
                expr = replace(target["expr"], {**values, **window.built_in})
                try:
                    if target.get("instant"):
                        series = prometheus.instant(expr, end)
                    else:
                        series = prometheus.over(expr, start, end, window.step)
                    value, has_data = judged(expr, series, present)
                except ValueError as refused:
                    value, has_data = str(refused), False
                results.append((path.stem, panel["title"], target["expr"], value, has_data))
    return results


def missing(results):
    """Queries that should have returned data."""
    return [result for result in results if result[4] is False]


def markdown(results):
    """The tables of the page."""
    lines, last = [], None
    for dashboard, panel, expr, value, _ in results:
        if dashboard != last:
            title = json.loads((DASHBOARDS / f"{dashboard}.json").read_text(encoding="utf-8"))["title"]
            lines += ["", f"## {title}", "", "| panel | query | value in the stack run |", "|---|---|---|"]
            last = dashboard
        escaped = expr.replace("|", "\\|")
        lines.append(f"| {panel} | `{escaped}` | {value} |")
    return "\n".join(lines) + "\n"


def update(results):
    """Writes the tables to the page, between its markers."""
    text = GUIDE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    GUIDE.write_text(f"{before}{BEGIN}\n{markdown(results)}\n{END}{after}", encoding="utf-8")


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("prometheus")
    parser.add_argument("--run", required=True, help="benchmark id")
    parser.add_argument("--baseline", help="benchmark id of an earlier run")
    parser.add_argument("--dashboards", default=DASHBOARDS, type=pathlib.Path)
    parser.add_argument("--last", type=float, default=900, help="seconds up to --end")
    parser.add_argument("--end", type=float, default=None, help="Unix seconds; now")
    parser.add_argument("--present", nargs="*", default=["dynamo"], help="servers and features")
    parser.add_argument("--absent", nargs="*", default=[], help=f"which of {sorted(USUAL)} is not")
    parser.add_argument("--update", action="store_true", help="write tests/stack/panels.md")
    asked = parser.parse_args()
    end = asked.end or time.time()
    results = evaluate(asked.prometheus, asked.dashboards, asked.run, None, end - asked.last, end,
                       set(asked.present), asked.baseline, USUAL - set(asked.absent))
    if asked.update:
        update(results)
    else:
        print(markdown(results))
    for dashboard, panel, expr, value, _ in missing(results):
        print(f"{dashboard}: {panel}: {value}: {expr}", file=sys.stderr)
    data = sum(1 for result in results if result[4])
    failed = len(missing(results))
    print(f"{len(results)} queries, {data} with data, {failed} without that should have", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
