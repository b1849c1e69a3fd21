"""Compares the pictures of `aiperf plot` with the files of the run or the sweep, with the standard
library only.

    python3 tests/read_plots.py DIR

Reads the SVG files in DIR/plots as XML, and converts the marks back to values by means of the
labels of the axes. Percentiles, histograms and rates are computed again from
`profile_export.jsonl`. Prints each difference and exits with 1 if there are any.
"""

import json
import math
import struct
import sys
import zlib
from pathlib import Path
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
# Lengths are written in thousandths of a pixel.
PRECISION = 0.0011
LATENCIES = ("time_to_first_token", "inter_token_latency", "request_latency")

differences = []


def expect(same, what):
    if not same:
        differences.append(what)


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


class Axis:
    """Converts pixels to values by the first and the last tick."""

    def __init__(self, group, coordinate, what):
        texts = [(text.text, float(text.get(coordinate))) for text in group.iter(f"{SVG}text")]
        *ticks, (self.title, _) = texts
        self.is_log = self.title.endswith("logarithmic")
        ticks = [(self.scaled(number(text)), place) for text, place in ticks]
        (low, start), (high, end) = ticks[0], ticks[-1]
        self.per_pixel = (high - low) / (end - start) if len(ticks) > 1 else math.nan
        self.low, self.start = low, start
        for value, place in ticks:
            difference = abs(self.low + (place - self.start) * self.per_pixel - value)
            expect(difference <= abs(self.per_pixel) * PRECISION, f"{what}: tick {value}")

    def scaled(self, value):
        return math.log10(value) if self.is_log else value

    def value(self, place):
        value = self.low + (place - self.start) * self.per_pixel
        return 10**value if self.is_log else value

    def shows(self, place, value):
        return abs(self.value(place) - value) <= abs(self.per_pixel) * PRECISION + abs(value) * 1e-9


class Picture:
    def __init__(self, path):
        self.name = path.stem
        self.root = ElementTree.parse(path).getroot()
        self.groups = self.root.findall(f"{SVG}g")
        self.size = float(self.root.get("width")), float(self.root.get("height"))
        axes = {group.get("class"): group for group in self.groups}
        # Ticks of the y axis are a third of their size above their baseline.
        self.x = Axis(axes["x axis"], "x", f"{self.name}, x")
        self.y = Axis(axes["y axis"], "y", f"{self.name}, y")
        size = float(next(axes["y axis"].iter(f"{SVG}text")).get("font-size"))
        self.y.start -= size * 0.35
        self.series = {
            group.find(f"{SVG}title").text: group
            for group in self.groups
            if group.get("class") == "series"
        }

    def lines(self, name):
        """The places of each line of a series."""
        for line in self.series[name].iter(f"{SVG}polyline"):
            yield [tuple(map(float, place.split(","))) for place in line.get("points").split()]

    def dots(self, name):
        circles = self.series[name].iter(f"{SVG}circle")
        return [(float(circle.get("cx")), float(circle.get("cy"))) for circle in circles]

    def expect_points(self, places, points, what):
        what = f"{self.name}, {what}"
        expect(len(places) == len(points), f"{what}: {len(places)} instead of {len(points)} points")
        # Equal x in any order.
        order = sorted(zip(places, points), key=lambda pair: pair[0])
        for (px, py), (x, y) in order:
            if not (self.x.shows(px, x) and self.y.shows(py, y)):
                shown = self.x.value(px), self.y.value(py)
                expect(False, f"{what}: {shown} instead of {(x, y)}")

    def expect_readable(self):
        width, height = self.size
        for text in self.root.iter(f"{SVG}text"):
            # No letter of the font is wider than its size; on average, they are half as wide.
            length = len(text.text) * float(text.get("font-size")) * 0.5
            before = {"start": 0, "middle": length / 2, "end": length}[text.get("text-anchor")]
            x, y = float(text.get("x")), float(text.get("y"))
            if text.get("transform"):
                low, high, most = y - (length - before), y + before, height
            else:
                low, high, most = x - before, x + length - before, width
            expect(-10 <= low and high <= most + 10, f"{self.name}: {text.text!r} is cut off")


def percentile(values, percent):
    values = sorted(values)
    at = (len(values) - 1) * percent / 100
    below = math.floor(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (at - below)


def check_png(path):
    """The picture has its size and is not blank."""
    data = path.read_bytes()
    expect(data.startswith(b"\x89PNG\r\n\x1a\n"), f"{path.name}: signature")
    at, rows, size = 8, b"", None
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        content = data[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        expect(check == zlib.crc32(kind + content), f"{path.name}: checksum of {kind}")
        if kind == b"IHDR":
            size = struct.unpack(">II", content[:8])
        elif kind == b"IDAT":
            rows += content
        at += 12 + length
    expect(size == (2400, 1200), f"{path.name}: {size}")
    pixels = zlib.decompress(rows)
    expect(len(pixels) == 1200 * (1 + 2400 * 3), f"{path.name}: {len(pixels)} bytes of pixels")
    # The middle of the chart has the ground, lines of the grid, and what is drawn.
    colours = set()
    for row in range(150, 1050, 3):
        start = row * 7201 + 1
        middle = pixels[start + 3 * 360 : start + 3 * 2280]
        colours |= {middle[at : at + 3] for at in range(0, len(middle), 3)}
    expect(len(colours) > 3, f"{path.name}: only {len(colours)} colours in the middle")


def check_distribution(pictures, tag, rows, summary):
    values = [row[tag] for row in rows if tag in row]
    failed = [row["duration"] for row in rows if row["failed"]] if tag == "request_latency" else []
    chart, histogram = pictures[f"{tag}_cdf"], pictures[f"{tag}_histogram"]
    for name, of_series in (("successful", values), ("failed", failed)):
        if len(of_series) < 2:
            continue
        (line,) = chart.lines(name)
        count = len(of_series) - 1
        expected = [(value, 100 * at / count) for at, value in enumerate(sorted(of_series))]
        chart.expect_points(line, expected, name)
    marks = next(group for group in chart.groups if group.get("class") == "marks")
    lines = [line.get("points") for line in marks.iter(f"{SVG}polyline")]
    expect(len(lines) == 4, f"{chart.name}: {len(lines)} marks")
    for name, line in zip(("p50", "p90", "p95", "p99"), lines):
        expect(chart.x.shows(float(line.split(",")[0]), summary[tag][name]), f"{chart.name}: {name}")
    labels = list(marks.iter(f"{SVG}text"))
    expect(len(labels) == 4, f"{chart.name}: {len(labels)} labels of marks")
    for text in labels:
        name, value, unit = text.text.split()
        expect(math.isclose(number(value), summary[tag][name], rel_tol=5.1e-3), f"{chart.name}: {text.text}")
        expect(unit == summary[tag]["unit"], f"{chart.name}: {text.text}")
    expect(chart.x.title.endswith(f"({summary[tag]['unit']})"), f"{chart.name}: {chart.x.title}")
    for name, of_series in (("successful", values), ("failed", failed)):
        if of_series:
            (line,) = histogram.lines(name)
            bins = line[0::2]
            edge = histogram.x.value(bins[-1][0])
            inside = sum(value <= edge + 1e-3 for value in of_series)
            counted = sum(histogram.y.value(y) for _, y in bins[:-1])
            expect(abs(counted - inside) < 0.2, f"{histogram.name}: {counted} instead of {inside} {name}")


def check_run(directory, pictures):
    with open(directory / "profile_export_aiperf.json", encoding="utf-8") as file:
        summary = json.load(file)
    with open(directory / "run_manifest.json", encoding="utf-8") as file:
        start = json.load(file)["end"]["start_wall_ns"]
    rows = []
    with open(directory / "profile_export.jsonl", encoding="utf-8") as file:
        for record in map(json.loads, file):
            about = record["metadata"]
            if about["benchmark_phase"] != "profiling":
                continue
            metrics = record.get("metrics", {})
            row = {tag: metrics[tag]["value"] for tag in LATENCIES if tag in metrics}
            row["start"] = (about["request_start_ns"] - start) / 1e9
            row["duration"] = (about["request_end_ns"] - about["request_start_ns"]) / 1e6
            row["failed"] = record.get("error") is not None
            rows.append(row)
    rows.sort(key=lambda row: row["start"])
    first = [(number, row) for number, row in enumerate(rows, 1) if "time_to_first_token" in row]
    chart = pictures["ttft_over_time"]
    expected = [(number, row["time_to_first_token"]) for number, row in first]
    chart.expect_points(chart.dots("successful"), expected, "successful")
    chart = pictures["ttft_timeline"]
    expected = [(row["start"], row["time_to_first_token"]) for _, row in first]
    chart.expect_points(chart.dots("successful"), expected, "successful")
    chart = pictures["requests"]
    names = [name for name in chart.series if name != "successful"]
    dots = sorted(place for name in names for place in chart.dots(name))
    failed = [(row["start"], row["duration"]) for row in rows if row["failed"]]
    chart.expect_points(dots, failed, "failed")
    expect(len(failed) > 0, "no request failed")
    for tag in LATENCIES:
        check_distribution(pictures, tag, rows, summary)
    chart = pictures["request_rate_over_time"]
    (line,) = chart.lines("started")
    # The last point only ends the last interval.
    times = [chart.x.value(x) for x, _ in line[0::2]]
    lengths = [end - start for start, end in zip(times, times[1:])]
    counted = sum(chart.y.value(y) * length for (_, y), length in zip(line[0::2], lengths))
    expect(abs(counted - len(rows)) < 0.1, f"{chart.name}: {counted} instead of {len(rows)}")
    with open(directory / "profile_export_aiperf_timeslices.json", encoding="utf-8") as file:
        slices = json.load(file)["timeslices"]
    chart = pictures["timeslices_ttft"]
    expected = [
        ((part[end] - start) / 1e9, part["time_to_first_token"]["p99"])
        for part in slices
        for end in ("start_ns", "end_ns")
        if "time_to_first_token" in part
    ]
    # The corners of the steps, some of which are drawn twice.
    drawn = [place for line in chart.lines("p99") for place in line]
    shows = lambda place, point: chart.x.shows(place[0], point[0]) and chart.y.shows(place[1], point[1])
    for point in expected:
        expect(any(shows(place, point) for place in drawn), f"{chart.name}: {point} is missing")
    for place in drawn:
        expect(any(shows(place, point) for point in expected), f"{chart.name}: {place}")


def check_sweep(directory, pictures):
    with open(directory / "sweep_aggregate/profile_export_aiperf_sweep.json", encoding="utf-8") as file:
        cells = json.load(file)["per_combination_metrics"]
    rates = [cell["metrics"]["request_throughput"]["avg"] for cell in cells]
    first = [cell["metrics"]["time_to_first_token"] for cell in cells]
    chart = pictures["ttft_vs_throughput"]
    expected = [(latency["avg"], rate) for latency, rate in zip(first, rates)]
    chart.expect_points(chart.dots("cells"), expected, "cells")
    labels = next(group for group in chart.groups if group.get("class") == "labels")
    shown = {text.text for text in labels.iter(f"{SVG}text")}
    names = {str(cell["parameters"]["concurrency"]) for cell in cells}
    expect(shown and shown <= names, f"{chart.name}: labels {shown} of {names}")
    chart = pictures["time_to_first_token_by_throughput"]
    expected = [(rate, latency["p99"]) for latency, rate in zip(first, rates)]
    chart.expect_points(chart.dots("cells"), expected, "cells")
    chart = pictures["request_throughput_by_cell"]
    expected = [(cell["parameters"]["concurrency"], rate) for cell, rate in zip(cells, rates)]
    chart.expect_points(chart.dots("avg"), expected, "avg")


def main():
    directory = Path(sys.argv[1])
    drawn = sorted((directory / "plots").glob("*.svg"))
    pixels = sorted((directory / "plots").glob("*.png"))
    expect([path.stem for path in drawn] == [path.stem for path in pixels], "names of the files")
    pictures = {path.stem: Picture(path) for path in drawn}
    for picture in pictures.values():
        expect(picture.size == (1200, 600), f"{picture.name}: {picture.size}")
        expect(picture.x.title and picture.y.title, f"{picture.name}: titles of the axes")
        picture.expect_readable()
    for path in pixels:
        check_png(path)
    if (directory / "sweep_plan.json").exists():
        check_sweep(directory, pictures)
    else:
        check_run(directory, pictures)
    for difference in differences[:50]:
        print(difference)
    sys.exit(1 if differences else 0)


main()
