#!/usr/bin/env python3
"""Takes pictures of the dashboards in a running Grafana.

    python3 tests/stack/pictures.py GRAFANA_URL [--run ID] [--from MS] [--to MS] [--out FOLDER]
                                    [--height benchmark-run=2400 ...]

GRAFANA_URL is that of a Grafana with the dashboards and with data, such as the one that
collector-config/compose.yaml starts. The range is the last 15 minutes unless given in
milliseconds, as in a dashboard's address. Needs Chromium on the PATH, or named by CHROMIUM.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "docs" / "pictures"
# The dashboards, with the height at which a picture shows what is worth showing.
PAGES = {
    "benchmark-run": ("aiperf-run", 1150),
    "client-and-server": ("aiperf-server", 1130),
    "compare-runs": ("aiperf-compare", 1300),
    "history": ("aiperf-history", 900),
}
WIDTH = 1600
# Time of the page, not of the clock, until all panels are drawn.
BUDGET_MS = 30_000
TIMEOUT = 180


def browser():
    """Chromium."""
    given = os.environ.get("CHROMIUM")
    found = given or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        sys.exit("chromium is missing: apt-get install chromium, or name it in CHROMIUM")
    return found


def take(program, url, path, height):
    """A picture of the page at `url`."""
    with tempfile.TemporaryDirectory() as profile:
        command = [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--no-first-run", f"--user-data-dir={profile}", f"--window-size={WIDTH},{height}",
            f"--virtual-time-budget={BUDGET_MS}", f"--screenshot={path}", url,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode != 0 or not path.exists():
        sys.exit(f"no picture of {url}:\n{done.stderr}")


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("grafana")
    parser.add_argument("--run", help="benchmark id of the run to show; the newest")
    parser.add_argument("--from", dest="start", default="now-15m")
    parser.add_argument("--to", dest="end", default="now")
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    parser.add_argument("--height", nargs="*", default=[], metavar="DASHBOARD=PIXELS")
    given = parser.parse_args()
    heights = dict(one.split("=") for one in given.height)
    given.out.mkdir(parents=True, exist_ok=True)
    program = browser()
    for name, (uid, height) in PAGES.items():
        # Without `refresh`, so that nothing is drawn anew meanwhile.
        asked = {"from": given.start, "to": given.end, "refresh": ""}
        if given.run:
            asked["var-run"] = given.run
        url = f"{given.grafana.rstrip('/')}/d/{uid}?kiosk&{urllib.parse.urlencode(asked)}"
        path = given.out.resolve() / f"dashboard-{name}.png"
        take(program, url, path, int(heights.get(name, height)))
        print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
