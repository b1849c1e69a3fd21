"""Words for Grafana dashboards: queries, panels, rows that lay themselves out.

What is written follows Grafana's dashboard schema, version 42;
`tests/stack/check_dashboards.py` holds it to Grafana's own types.
"""

from itertools import count

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
TAG = "aiperf"

# One colour a meaning, in all dashboards.
COLOURS = {
    "p50": "green", "p90": "yellow", "p99": "red",
    "input": "blue", "output": "orange", "reasoning": "purple",
    "sent": "blue", "succeeded": "green", "good": "dark-green",
    "failed": "red", "client": "purple", "candidate": "blue", "baseline": "orange",
    "requests in flight": "blue", "sessions in flight": "purple",
}

PLAIN = [("blue", None)]

# Numbers in full, with a separator of thousands; times of a run in seconds.
COUNT, SECONDS = "locale", "suffix: s"


def good_until(warn, bad):
    """Thresholds of what should be low."""
    return [("green", None), ("yellow", warn), ("red", bad)]


def bad_until(warn, good):
    """Thresholds of what should be high."""
    return [("red", None), ("yellow", warn), ("green", good)]


# What is good enough of the share of good requests; the alert is at the lower one.
GOOD_SHARE = bad_until(0.9, 0.99)

# A difference in percent that is marked, for what should be high and for what should be low.
HIGHER = [("red", None), ("text", -0.05), ("green", 0.05)]
LOWER = [("green", None), ("text", -0.05), ("red", 0.05)]


def query(expr, legend, instant=False, form="time_series", exemplar=False):
    """One PromQL query; `legend` names its series. `exemplar` also shows single requests, which lead
    to their traces."""
    made = {
        "datasource": DATASOURCE, "editorMode": "code", "expr": expr, "legendFormat": legend,
        "instant": instant, "range": not instant, "format": form,
    }
    return made | {"exemplar": True} if exemplar else made


def now(expr, legend, form="time_series"):
    """A query for the end of the dashboard's range alone."""
    return query(expr, legend, instant=True, form=form)


def fixed(name, colour):
    """Gives the series `name` its colour."""
    return override(name, [("color", {"mode": "fixed", "fixedColor": colour})])


def override(name, properties, by="byName"):
    """Settings of the series or column `name`, or of all that match where `by` is `byRegexp`."""
    return {
        "matcher": {"id": by, "options": name},
        "properties": [{"id": key, "value": value} for key, value in properties],
    }


# A server's series beside the client's.
DASHED = override(
    "/^server/", [("custom.lineStyle", {"fill": "dash", "dash": [8, 6]})], by="byRegexp"
)


def thresholds(steps):
    """Colours by value: `(colour, from)`, the first from None."""
    return {"mode": "absolute", "steps": [{"color": c, "value": v} for c, v in steps]}


def mapping(**texts):
    """Words for values: `_0=("valid", "green")`."""
    options = {
        key[1:]: {"text": text, "color": colour, "index": index}
        for index, (key, (text, colour)) in enumerate(texts.items())
    }
    return [{"type": "value", "options": options}]


VERDICTS = mapping(_0=("valid", "green"), _1=("suspect", "yellow"), _2=("invalid", "red"))
LOADS = mapping(
    _0=("sustained", "green"), _1=("too short to tell", "text"), _2=("not stationary", "yellow"),
    _3=("saturated", "red"), _4=("rejecting", "red"), _5=("failing", "red"),
)
PASSED = mapping(_0=("failed", "red"), _1=("passed", "green"))
YES_NO = mapping(_0=("no", "green"), _1=("yes", "red"))


class Panel(dict):
    """A panel without a place; `width` of 24 columns, `height` in Grafana's units."""

    def __init__(self, kind, title, description, unit, queries, width, height, defaults, options):
        assert description.endswith("."), title
        targets = [{**each, "refId": chr(ord("A") + index)} for index, each in enumerate(queries)]
        names = [each["legendFormat"] for each in queries]
        defaults = {"unit": unit, **defaults}
        overrides = defaults.pop("overrides", [])
        overrides = overrides + [fixed(n, COLOURS[n]) for n in names if n in COLOURS]
        super().__init__(
            type=kind, title=title, description=description, datasource=DATASOURCE,
            targets=targets, options=options,
            fieldConfig={"defaults": defaults, "overrides": overrides},
        )
        self.width, self.height = width, height


def lines(
    title, description, unit, *queries, width=8, height=8, stack=False, overrides=(),
    calcs=("mean", "max"), steps=None, apart=False, **more
):
    """Series over time, with a legend of `calcs`. `steps` are thresholds, drawn as lines; `apart` shows
    points, for values with long gaps, and joins them."""
    custom = {
        "drawStyle": "line", "lineWidth": 1, "fillOpacity": 30 if stack else 8,
        "showPoints": "always" if apart else "never", "spanNulls": apart, "axisSoftMin": 0,
        "stacking": {"mode": "normal" if stack else "none", "group": "A"},
    }
    if apart:
        custom |= {"pointSize": 7, "fillOpacity": 0}
    if steps:
        custom["thresholdsStyle"] = {"mode": "dashed"}
        more["thresholds"] = thresholds(steps)
    defaults = {"custom": custom, "color": {"mode": "palette-classic"}, "min": 0}
    options = {
        "legend": {
            "displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": list(calcs)
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    defaults |= more | {"overrides": list(overrides)}
    return Panel("timeseries", title, description, unit, queries, width, height, defaults, options)


def stat(
    title, description, unit, *queries, width=4, height=4, steps=PLAIN, none="–", textMode="auto",
    **more
):
    """The latest value in large letters; names beside it where there are several."""
    defaults = {"thresholds": thresholds(steps), "color": {"mode": "thresholds"}, "noValue": none}
    options = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "orientation": "auto", "colorMode": "value", "graphMode": "none", "justifyMode": "auto",
        "textMode": textMode, "wideLayout": True, "showPercentChange": False,
        "percentChangeColorMode": "standard",
    }
    return Panel("stat", title, description, unit, queries, width, height, defaults | more, options)


def bars(title, description, unit, *queries, width=8, height=8, steps=PLAIN, none="–", **more):
    """A bar for each series' latest value."""
    defaults = {"color": {"mode": "thresholds"}, "thresholds": thresholds(steps), "min": 0}
    defaults["noValue"] = none
    options = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "orientation": "horizontal", "displayMode": "basic", "valueMode": "color",
        "namePlacement": "auto", "showUnfilled": True, "sizing": "auto", "minVizWidth": 8,
        "minVizHeight": 16, "maxVizHeight": 300,
        "legend": {
            "showLegend": False, "displayMode": "list", "placement": "bottom", "calcs": []
        },
    }
    return Panel("bargauge", title, description, unit, queries, width, height, defaults | more, options)


def heat(title, description, unit, expr, width=8, height=8):
    """Buckets over time; `expr` gives the increase by `le`, of the buckets to show."""
    custom = {"scaleDistribution": {"type": "linear"}}
    custom["hideFrom"] = {"legend": False, "tooltip": False, "viz": False}
    options = {
        "calculate": False, "cellGap": 1, "showValue": "never",
        "color": {
            "mode": "scheme", "scheme": "Oranges", "scale": "exponential", "exponent": 0.5,
            "fill": "dark-orange", "reverse": False, "steps": 64,
        },
        "exemplars": {"color": "rgba(255,0,255,0.7)"}, "filterValues": {"le": 1e-9},
        "legend": {"show": True}, "rowsFrame": {"layout": "auto"},
        "tooltip": {"mode": "single", "showColorScale": True, "yHistogram": False},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": unit},
        "cellValues": {"unit": "short", "decimals": 0},
    }
    queries = [query(expr, "{{le}}", form="heatmap", exemplar=True)]
    return Panel("heatmap", title, description, unit, queries, width, height, {"custom": custom}, options)


def table(title, description, columns, labels, width=24, height=8, settings=None, without=()):
    """A line for each set of labels: `columns` of `(name, unit, expr, settings)`.

    `labels` maps the labels that the queries keep to the headings of their columns, in order;
    `settings` are those of label columns, by heading, and the labels `without` are not shown.
    """
    queries = [now(expr, name, form="table") for name, _, expr, _ in columns]
    values = {f"Value #{chr(ord('A') + i)}": name for i, (name, *_) in enumerate(columns)}
    if len(columns) == 1:
        values = {"Value": columns[0][0]}
    order = {name: index for index, name in enumerate([*labels, *values])}
    transformations = [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "excludeByName": dict.fromkeys(["Time", *without], True), "indexByName": order,
                "renameByName": {**labels, **values},
            },
        },
    ]
    overrides = [
        override(name, [("unit", unit), *of_column]) for name, unit, _, of_column in columns
    ]
    overrides += [override(name, of_label) for name, of_label in (settings or {}).items()]
    defaults = {"custom": {"align": "auto", "inspect": False, "minWidth": 60, "cellOptions": {"type": "auto"}}}
    defaults |= {"noValue": "–", "thresholds": thresholds(PLAIN), "overrides": overrides}
    options = {"showHeader": True, "cellHeight": "sm", "frameIndex": 0}
    made = Panel("table", title, description, "short", queries, width, height, defaults, options)
    made["transformations"] = transformations
    return made


def points(title, description, x, y, label, width=24, height=10):
    """A point for each `label`: `x` and `y` are `(name, unit, expr)`."""
    made = table(title, description, [(*x, []), (*y, [])], label, width, height)
    axis = {
        "pointSize": {"fixed": 10}, "show": "points", "axisPlacement": "auto", "axisSoftMin": 0,
        "hideFrom": {"legend": False, "tooltip": False, "viz": False},
    }
    options = {
        "mapping": "manual", "series": [{
            "x": {"matcher": {"id": "byName", "options": x[0]}},
            "y": {"matcher": {"id": "byName", "options": y[0]}},
            "frame": {"matcher": {"id": "byIndex", "options": 0}},
        }],
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    # Without a version, Grafana takes the options for those of an older panel and replaces them.
    made |= {"type": "xychart", "options": options, "pluginVersion": "12.0.0"}
    made["fieldConfig"]["defaults"] = {"unit": "short", "custom": axis, "color": {"mode": "fixed", "fixedColor": "blue"}}
    return made


def coloured(steps):
    """A column whose numbers take the colour of their threshold."""
    return [("custom.cellOptions", {"type": "color-text"}), ("thresholds", thresholds(steps))]


def row(title, *panels, collapsed=False):
    """Panels under a heading that opens and closes."""
    return title, panels, collapsed


def laid_out(rows):
    """The panels with their places: from left to right, then a new line."""
    ids, top, out = count(1), 0, []
    for title, panels, collapsed in rows:
        heading = {"id": next(ids), "type": "row", "title": title, "collapsed": collapsed}
        heading |= {"gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1}, "panels": []}
        top, left, line = top + 1, 0, 0
        placed = []
        for each in panels:
            if left + each.width > COLUMNS:
                top, left, line = top + line, 0, 0
            place = {"x": left, "y": top, "w": each.width, "h": each.height}
            placed.append({"id": next(ids), **each, "gridPos": place})
            left, line = left + each.width, max(line, each.height)
        out.append(heading)
        if collapsed:
            heading["panels"] = placed
            top = heading["gridPos"]["y"] + 1
        else:
            out += placed
            top += line
    return out


def phase_regions(expr, text):
    """Annotations: a region for each phase, while `expr` has a series of it."""
    return {
        "name": "Phases", "enable": True, "hide": False, "iconColor": "light-blue",
        "datasource": DATASOURCE, "expr": expr, "step": "2s", "titleFormat": text,
        "textFormat": "", "tagKeys": "", "useValueForTime": False,
    }


def datasource():
    """The variable that picks the Prometheus."""
    return {
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
        "description": "The Prometheus server with the runs.", "hide": 0, "includeAll": False,
        "multi": False, "options": [], "refresh": 1, "regex": "",
    }


def choice(name, label, description, values):
    """A choice of one of `values`, the first to begin with."""
    return {
        "name": name, "label": label, "description": description, "type": "custom",
        "query": ",".join(values), "hide": 0, "multi": False, "includeAll": False,
        "current": {"text": values[0], "value": values[0]}, "options": [],
    }


def variable(name, label, description, asked, many=False, regex="", default=None, hide=0, every=".*"):
    """A choice of what `asked` finds; `many` allows several and All.

    All is the pattern `every`, or where that is None just what was found.
    """
    made = {
        "name": name, "label": label, "description": description, "type": "query",
        "datasource": DATASOURCE, "query": {"query": asked, "refId": name}, "refresh": 2,
        "regex": regex, "sort": 0 if regex else 1, "hide": hide, "multi": many,
        "includeAll": many, "options": [],
    }
    if many:
        made["current"] = {"text": ["All"], "value": ["$__all"]}
        made |= {"allValue": every} if every else {}
    if default:
        made["current"] = {"text": default, "value": default}
    return made


def link(title, uid, tooltip):
    """A link to another of the dashboards that keeps variables and time."""
    return {
        "title": title, "url": f"/d/{uid}", "tooltip": tooltip, "type": "link",
        "icon": "dashboard", "asDropdown": False, "includeVars": True, "keepTime": True,
        "tags": [], "targetBlank": False,
    }


def dashboard(
    uid, title, description, variables, links, rows, annotations=(), since="now-15m", refresh="5s"
):
    """The whole, as Grafana imports it."""
    return {
        "uid": uid, "title": title, "description": description, "tags": [TAG, "llm", "benchmark"],
        "schemaVersion": 42, "version": 1, "editable": True, "graphTooltip": 1,
        "fiscalYearStartMonth": 0, "timezone": "browser", "refresh": refresh,
        "time": {"from": since, "to": "now"},
        "timepicker": {"refresh_intervals": ["5s", "10s", "30s", "1m", "5m"]},
        "annotations": {"list": list(annotations)}, "links": links,
        "templating": {"list": [datasource(), *variables]}, "panels": laid_out(rows),
    }
