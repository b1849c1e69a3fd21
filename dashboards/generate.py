#!/usr/bin/env python3
"""Writes the dashboards: `python3 dashboards/generate.py`; `--check` only compares."""

import json
import pathlib
import sys

from generator import benchmark_run, client_and_server, compare_runs, history

HERE = pathlib.Path(__file__).resolve().parent
DASHBOARDS = {
    "benchmark-run.json": benchmark_run.dashboard,
    "client-and-server.json": client_and_server.dashboard,
    "compare-runs.json": compare_runs.dashboard,
    "history.json": history.dashboard,
}


def main():
    """Writes what differs, or names it."""
    stale = []
    for name, made in DASHBOARDS.items():
        text = json.dumps(made(), indent=2, ensure_ascii=False) + "\n"
        path = HERE / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv[1:]:
        sys.exit(f"not as generated: {', '.join(stale)}; run python3 dashboards/generate.py")


if __name__ == "__main__":
    main()
