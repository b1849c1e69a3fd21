"""*History*: the results of one benchmark over weeks."""

from . import compare_runs, shared
from .compare_runs import GATES, GOOD, OUTPUT, RATE, TOKENS, TTFT, result
from .grafana import GOOD_SHARE, lines, query, row, variable
from .grafana import dashboard as whole

# The runs of a name, instead of those that are chosen one by one.
CHOSEN, NAMED = f'{compare_runs.ATTRIBUTE}, aiperf_benchmark_id=~"$runs"', 'aiperf_run_name=~"$name"'
LEGEND = "{{aiperf_model_name}} {{aiperf_run_name}}"


def named(expr):
    """The same of the runs of a name."""
    return expr.replace(CHOSEN, NAMED)


def then(expr):
    """The results of the runs that ended since the last point, joined by model and name."""
    within = named(expr).replace("[$__range]", "[$__interval]")
    return f"max by (aiperf_model_name, aiperf_run_name) ({within})"


def trend(title, description, unit, *named_exprs, width=8, **more):
    """A point for each run."""
    queries = [query(then(expr), f"{name} {LEGEND}".strip()) for name, expr in named_exprs]
    return lines(
        title, f"{description} A point per run, at its end; of runs within one step, the largest value.",
        unit, *queries, width=width, apart=True, calcs=["lastNotNull", "min", "max"], **more,
    )


def dashboard():
    """The dashboard."""
    asked = f'label_values({shared.SENT}{{gen_ai_request_model=~"$model"}}, aiperf_run_name)'
    names = variable(
        "name", "Name", "The runs' name: --run-name, or else their load.", asked, many=True
    )
    rows = [
        row(
            "Over weeks",
            trend("TTFT", "Exact percentiles of time to first token.", "s",
                  ("p50", result(TTFT, 50)), ("p99", result(TTFT, 99))),
            trend("Throughput", "Successful requests per second.", "reqps", ("", RATE)),
            trend("Output tokens per second", "Tokens generated per second.", TOKENS, ("", OUTPUT)),
            trend("Good requests", "Fraction of all ended requests that met every objective of "
                  "--goodput; the lines are at 90% and 99%.", "percentunit", ("", GOOD), width=12,
                  steps=GOOD_SHARE, max=1),
            trend("Gates", "1 if all gates of a run held, 0 if one did not.", "short", ("", GATES),
                  width=12, max=1),
        ),
        row(
            "Runs",
            compare_runs.results_table([
                (name, unit, named(expr), settings)
                for name, unit, expr, settings in compare_runs.result_columns()
            ]),
        ),
    ]
    text = "The results of runs with the same name and model, a point per run, over weeks."
    variables = [shared.model(), names, shared.phase()]
    links = shared.links(shared.HISTORY_UID)
    return whole(
        shared.HISTORY_UID, "History", text, variables, links, rows, since="now-30d", refresh="5m"
    )
