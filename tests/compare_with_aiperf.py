"""Compares the names in the files of a run with those in the files of AIPerf 0.13.

    python3 tests/compare_with_aiperf.py DIR
    python3 tests/compare_with_aiperf.py --list DIR

`tests/golden/aiperf-0.13/names.txt` has the names in AIPerf's files: members of JSON, columns
and rows of CSV, titles and rows of the console, columns and metadata of Parquet, OTLP
instruments; `--list` generated it from a run of AIPerf. Each must be in the files of the run
in DIR, or listed in `docs/migration.md`, between backticks, in a row of a table that ends in
`absent`, `none` or `present where …`, itself or with its parent. OTLP's must be in `docs/otlp.md` or
`docs/otlp-metrics.md`. Units count as names.

Prints each name that is in neither and exits with 1 if there are any, or with 2 if the files
cannot be read. Needs pyarrow.
"""

import csv
import json
import re
import sys
from pathlib import Path

import pyarrow.parquet

ROOT = Path(__file__).parent.parent
NAMES = ROOT / "tests/golden/aiperf-0.13/names.txt"

# Members whose names are determined by the measurement, not by the layout: their contents are
# equal, or do not contain names.
NAMED_BY_DATA = ("labels", "buckets", "request_headers", "response_headers", "slos")
ALIKE = ("endpoint_info",)
ALIKE_OF_SERVERS = ("endpoint_info", "metrics", "warmup_metrics")


def members(value, path, found, alike):
    """The members of each object, with lists flattened."""
    if isinstance(value, list):
        for item in value:
            members(item, path, found, alike)
    elif isinstance(value, dict):
        last = path.rsplit(".", 1)[-1]
        if last in alike:
            for item in value.values():
                members(item, f"{path}.*", found, alike)
        elif last in NAMED_BY_DATA:
            found.setdefault(path, set())
        else:
            found.setdefault(path or "-", set()).update(value)
            if isinstance(value.get("unit"), str) and not path.startswith("metrics.*"):
                found.setdefault(f"{path}.unit", set()).add(value["unit"])
            for name, item in value.items():
                members(item, f"{path}.{name}" if path else name, found, alike)


def of_json(path, text):
    found = {}
    alike = ALIKE_OF_SERVERS if path.name.startswith("server_metrics") else ALIKE
    for line in text.splitlines() if path.suffix == ".jsonl" else [text]:
        members(json.loads(line), "", found, alike)
    return found


def of_csv(path, text):
    """Columns, and the names of rows."""
    found = {}
    rows = [row for row in csv.reader(text.splitlines()) if row and not row[0].startswith("#")]
    for row in rows:
        if row[0] in ("Metric", "Timeslice", "Endpoint"):
            header = row
            key = row[1] if row[0] == "Endpoint" else f"columns {row[0]} {row[1]}"
            if path.name.startswith("server"):
                # One section per type of server metrics; the labels are the server's.
                key = f"columns of {rows[rows.index(row) + 1][1]}"
                header = [name for name in row if name not in ("engine", "model_name")]
            found.setdefault(key, set()).update(header)
        elif path.name.endswith("timeslices.csv"):
            found.setdefault(f"row {row[3]} {row[4]}", set()).add(row[5])
        elif not path.name.startswith("server"):
            found.setdefault("rows", set()).add(row[0])
    return found


def of_console(text):
    found = {}
    title = None
    for line in text.splitlines():
        if "AIPerf |" in line or "aiperf |" in line:
            title = line.split("|", 1)[1].strip()
            found[title] = set()
        row = re.match(r"│ *(\S.*?) *│.*│", line)
        if row and title and "Error" not in title and not row[1].startswith("("):
            found[title].add(re.sub(r" \(\S*\)$", "", row[1]))
    return found


def of_parquet(path):
    schema = pyarrow.parquet.read_schema(path)
    fixed = [name for name in schema.names if name not in ("engine", "le", "model_name")]
    return {"columns": set(fixed), "metadata": {key.decode() for key in schema.metadata}}


def of_otlp(text):
    export = json.loads(text)
    found = {"instruments": set(export["metrics"])}
    found["resource"] = set(export["resource"])
    for metric in export["metrics"].values():
        found.setdefault("attributes", set()).update(metric["attrs"])
    return found


def names_in(directory):
    """The names in each file, by the object that contains them."""
    names = {}
    for path in sorted(directory.rglob("*")):
        file = str(path.relative_to(directory))
        if not path.is_file() or path.suffix == ".log":
            continue
        if file == "otlp_export.json":
            names[file] = of_otlp(path.read_text())
        elif path.suffix == ".parquet":
            names[file] = of_parquet(path)
        elif path.suffix in (".json", ".jsonl"):
            names[file] = of_json(path, path.read_text())
        elif path.suffix == ".csv":
            names[file] = of_csv(path, path.read_text())
        elif path.suffix == ".txt":
            names[file] = of_console(path.read_text())
    return names


def listed(names):
    for file, groups in names.items():
        # Members of a phase are those of the run.
        if file.startswith("phases/"):
            yield f"{file}\t-\t-"
            continue
        for group, keys in sorted(groups.items()):
            yield f"{file}\t{group}\t" + "\t".join(sorted(keys) or ["-"])


# The files that the tables of `docs/migration.md` describe, by heading.
TABLES = {
    "Files": ".*",
    "Keys of the summary": r".*_aiperf(_timeslices)?\.(json|csv)|server_metrics_export\.json",
    "Keys of a record": r"profile_export(_raw)?\.jsonl",
    "Metadata of `server_metrics_export.parquet`": r"server_metrics_export\.parquet",
    "OTLP": r"otlp_export\.json",
}


def named(cell):
    """The names between backticks; one that starts with a dot has the parent of the previous
    one."""
    parent = ""
    for name in re.findall(r"`([^`]+)`", cell):
        name = parent + name if name.startswith(".") else name
        parent = name.rpartition(".")[0]
        yield name


class Documents:
    """The names that `docs/migration.md` lists as absent in its tables."""

    def __init__(self):
        self.absent = []
        for section in re.split(r"\n##+ ", (ROOT / "docs/migration.md").read_text()):
            files = TABLES.get(section.split("\n")[0])
            for row in section.splitlines() if files else []:
                cells = row.strip("|").split(" | ")
                if len(cells) > 1 and re.match(r" *(absent|none|there where|present where)\b", cells[-1]):
                    names = "|".join(re.escape(n).replace("…", ".*") for n in named(cells[0]))
                    self.absent.append((re.compile(files), re.compile(names)))
        texts = [(ROOT / "docs" / name).read_text() for name in ("otlp.md", "otlp-metrics.md")]
        self.instruments = "".join(texts)

    def explains(self, file, group, key):
        parts = [key] if group == "-" else [*group.split("."), key]
        paths = [file, *(".".join(parts[:end]) for end in range(1, len(parts) + 1))]
        if file.startswith("otlp"):
            # Under the name of OpenTelemetry or of Prometheus.
            if any(f"`{name}`" in self.instruments for name in (key, key.replace(".", "_"))):
                return True
        paths.append(key)
        return any(
            files.fullmatch(file) and any(names.fullmatch(path) for path in paths)
            for files, names in self.absent
        )


def check(directory):
    ours, documents = names_in(directory), Documents()
    missing, count = [], 0
    for line in NAMES.read_text().splitlines():
        file, group, *keys = line.split("\t")
        for key in keys:
            count += 1
            if key in ours.get(file, {}).get(group, ()):
                continue
            if key == "-" and group in ours.get(file, {}):
                continue
            if not documents.explains(file, group, key):
                missing.append(f"{file}: {group}: {key}")
    return missing, count


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--list":
        print("\n".join(listed(names_in(Path(sys.argv[2])))))
        return 0
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        missing, count = check(Path(sys.argv[1]))
    except (OSError, ValueError, KeyError, IndexError) as error:
        print(f"{sys.argv[1]}: cannot be compared: {error!r}")
        return 2
    print(f"{count} names, {len(missing)} neither there nor explained", file=sys.stderr)
    print("\n".join(missing))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
