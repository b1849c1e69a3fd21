#!/usr/bin/env python3
"""Compares dashboards/*.json with Grafana's own types, using the TypeScript compiler.

    python3 tests/stack/check_dashboards.py [FILE...]

Needs node and npm; the packages pinned in check_dashboards/package-lock.json are installed in
target/stack/. `--self-test` breaks copies and checks that each is rejected.
"""

import copy
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(__file__).resolve().parent / "check_dashboards"
WORK = ROOT / "target" / "stack" / "check_dashboards"
KINDS = {
    "bargauge": "BarGauge", "heatmap": "HeatMap", "row": "Row", "stat": "Stat", "table": "Table",
    "timeseries": "TimeSeries", "xychart": "XYChart",
}
TIMEOUT = 300


def install():
    """Installs the pinned packages, if necessary."""
    if not (shutil.which("npm") and shutil.which("node")):
        sys.exit("npm and node are needed to check the dashboards: apt-get install nodejs npm")
    WORK.mkdir(parents=True, exist_ok=True)
    lock, installed = PACKAGE / "package-lock.json", WORK / "package-lock.json"
    complete = WORK / "node_modules" / ".package-lock.json"
    if complete.exists() and installed.exists() and installed.read_bytes() == lock.read_bytes():
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(PACKAGE / name, WORK / name)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    subprocess.run(command, cwd=WORK, check=True, timeout=TIMEOUT)


def source(dashboard):
    """The dashboard as typed constants, so that unknown properties are errors."""
    whole = {key: value for key, value in dashboard.items() if key != "panels"}
    lines = ["import type * as types from './types';"]
    lines.append(f"export const dashboard: types.Dashboard = {json.dumps(whole, indent=1)};")
    # Those of collapsed rows are checked like the others.
    flat = []
    for panel in dashboard["panels"]:
        flat += [{**panel, "panels": []}, *panel["panels"]] if panel["type"] == "row" else [panel]
    for index, panel in enumerate(flat):
        kind = KINDS.get(panel["type"])
        if kind is None:
            sys.exit(f"{panel['title']}: no type for a panel {panel['type']}; add it to types.ts")
        lines.append(f"// {panel['title']}")
        lines.append(f"export const panel{index}: types.{kind} = {json.dumps(panel, indent=1)};")
    return "\n".join(lines) + "\n"


def check(dashboards):
    """The compiler's errors for `{name: dashboard}`; empty if there are none."""
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        folder = pathlib.Path(folder)
        shutil.copyfile(PACKAGE / "types.ts", folder / "types.ts")
        for name, dashboard in dashboards.items():
            (folder / f"{name}.ts").write_text(source(dashboard), encoding="utf-8")
        command = [
            str(WORK / "node_modules/.bin/tsc"), "--noEmit", "--strict", "--skipLibCheck",
            "--module", "esnext", "--moduleResolution", "bundler", "--target", "es2022",
            *(f"{folder.name}/{name}.ts" for name in dashboards),
        ]
        done = subprocess.run(command, cwd=WORK, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        said = done.stdout + done.stderr
        return said if done.returncode else ""


def at(value, path):
    """The member at a path of keys and indices."""
    for key in path:
        value = value[key]
    return value


def first(dashboard, kind):
    """The index of the first panel of this type."""
    return next(i for i, panel in enumerate(dashboard["panels"]) if panel["type"] == kind)


def broken(dashboard):
    """Copies with one error each, by description."""
    stat, lines, table = (first(dashboard, kind) for kind in ("stat", "timeseries", "table"))
    heat, bars = first(dashboard, "heatmap"), first(dashboard, "bargauge")
    panel = lambda index, *path: ("panels", index, *path)
    changes = [
        ("misspelt property of a dashboard", (), "refesh", "5s"),
        ("wrong type of a dashboard's property", (), "refresh", 5),
        ("another schema version", (), "schemaVersion", 41),
        ("misspelt property of a variable", ("templating", "list", 1), "mutli", True),
        ("wrong refresh of a variable", ("templating", "list", 1), "refresh", 3),
        ("another data source", panel(stat), "datasource", {"type": "prometheus", "uid": "mine"}),
        ("misspelt property of a panel", panel(stat), "descripton", "x"),
        ("misspelt option of a stat", panel(stat, "options"), "colourMode", "value"),
        ("wrong value of a stat's option", panel(stat, "options"), "colorMode", "loud"),
        ("misspelt field default", panel(stat, "fieldConfig", "defaults"), "units", "s"),
        ("wrong threshold", panel(stat, "fieldConfig", "defaults", "thresholds"), "mode", "relative"),
        ("wrong place", panel(stat, "gridPos"), "x", "0"),
        ("misspelt custom setting", panel(lines, "fieldConfig", "defaults", "custom"), "lineWith", 1),
        ("wrong custom setting", panel(lines, "fieldConfig", "defaults", "custom"), "showPoints", "some"),
        ("wrong tooltip", panel(lines, "options", "tooltip"), "mode", "many"),
        ("misspelt property of a query", panel(lines, "targets", 0), "legend", "x"),
        ("instant and range at once", panel(lines, "targets", 0), "instant", True),
        ("wrong option of a table", panel(table, "options"), "cellHeight", "tiny"),
        ("unknown transformation", panel(table, "transformations", 0), "id", "mix"),
        ("wrong scale of a heat map", panel(heat, "options", "color"), "scale", "log"),
        ("wrong bars", panel(bars, "options"), "displayMode", "lcdd"),
    ]
    for title, path, key, value in changes:
        changed = copy.deepcopy(dashboard)
        at(changed, path)[key] = value
        yield title, changed


def self_test(dashboard):
    """Each broken copy must be rejected."""
    copies = list(broken(dashboard))
    said = check({f"broken{index}": changed for index, (_, changed) in enumerate(copies)})
    passed = [title for index, (title, _) in enumerate(copies) if f"/broken{index}.ts" not in said]
    if passed:
        sys.exit(f"not refused: {', '.join(passed)}")
    print(f"{len(copies)} broken copies refused")


def main():
    """The command line."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--self-test"]
    paths = [pathlib.Path(path) for path in arguments] or sorted((ROOT / "dashboards").glob("*.json"))
    dashboards = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    install()
    said = check(dashboards)
    if said:
        sys.exit(said)
    print(f"{len(dashboards)} dashboards are what Grafana's types say")
    if "--self-test" in sys.argv[1:]:
        self_test(dashboards["benchmark-run"])


if __name__ == "__main__":
    main()
