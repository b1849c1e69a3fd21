"""Compares what two versions of the program write, file by file.

    python3 tests/bench/same_files.py BEFORE AFTER [--keep DIRECTORY]

Times differ from run to run, so the runs are performed by BEFORE alone, and both versions make the files of
each again by `aiperf report`, which must be equal byte for byte. Then AFTER performs the same runs, and its
`aiperf report` must write what the runs wrote themselves. Differences are printed; the exit code is 1 if there
are any besides those of texts and pages, which a change of words is enough for.
"""

import argparse
import difflib
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "answers"))
from asking import COMMON, server

LENGTHS = ["--isl", "40", "--osl", "12", "--streaming", "--random-seed", "7"]
SESSIONS = ["--num-sessions", "8", "--session-turns-mean", "3", "--session-turns-stddev", "0"]
CONDITION = ["--search-sla", "request_latency:p95<=200ms", "--concurrency-max", "8"]
GATE = ["--gate", "request_latency:p50<=10s"]
PHASES = ["--phase", "low: concurrency=2, request-count=20", "--phase", "high: request-rate=40, request-count=30"]

# Each run: the flags of its server, the flags of the run, and the commands after it.
RUNS = {
    "single": ("", ["--concurrency", "4", "--request-count", "60", "--warmup-request-count", "8", *GATE]),
    "failing": ("--fault every=5:status=500", ["--concurrency", "4", "--request-count", "60"]),
    "rate": ("--max-concurrent 4", ["--request-rate", "60", "--request-count", "120"]),
    "sliced": ("", ["--concurrency", "4", "--request-count", "200", "--slice-duration", "0.5"]),
    "sessions": ("--prefix-cache-blocks 1000", ["--concurrency", "4", *SESSIONS]),
    "phases": ("", PHASES),
    "tenants": ("", ["--tenants", "{dir}/tenants.yaml", "--request-count", "80"]),
    "workers": ("--report-timing dynamo --workers 3", ["--concurrency", "6", "--request-count", "90"]),
    "servers": ("--max-concurrent 2", ["--concurrency", "6", "--benchmark-duration", "3", "--server-metrics"]),
    "adaptive": ("--max-concurrent 4", ["--adaptive-scale", "--benchmark-duration", "6", "--concurrency", "16",
                                        "--adaptive-scale-sla", "request_latency:p50<=200ms", "--adaptive-assessment-period", "1"]),
    "repeats": ("", ["--concurrency", "4", "--request-count", "50", "--num-profile-runs", "2"]),
    "sweep": ("--max-concurrent 4", ["--concurrency", "1,4,8", "--request-count", "60"]),
    "search": ("--max-concurrent 4", ["--search-recipe", "max-concurrency-under-sla", *CONDITION]),
    "killed": ("", ["--concurrency", "4", "--request-count", "2000"]),
}  # fmt: skip
TABLE = "profile_export.parquet"
TENANTS = """\
tenants:
  - {name: a, concurrency: 2}
  - {name: b, concurrency: 3}
"""


def run(aiperf: str, place: Path) -> None:
    """Performs all runs with one version of the program."""
    place.mkdir(parents=True)
    (place / "tenants.yaml").write_text(TENANTS)
    for name, (flags, asked) in RUNS.items():
        timing = ["--ttft", "30ms", "--itl", "2ms", *flags.split()]
        with server(aiperf, timing) as url:
            asked = [flag.format(dir=place) for flag in asked]
            observes = [] if "--server-metrics" in asked else ["--no-server-metrics"]
            asked = [flag for flag in asked if flag != "--server-metrics"]
            command = [aiperf, "profile", *COMMON, *LENGTHS, "--url", url, *observes, *asked]
            command += ["--artifact-dir", str(place / name)]
            with (place / f"{name}.txt").open("w") as out:
                running = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
                if name == "killed":
                    kill_after_records(running, place / name / "profile_export.jsonl")
                running.wait(timeout=300)
        if name == "killed":
            subprocess.run([aiperf, "report", str(place / name)], capture_output=True, check=False)


def kill_after_records(running: subprocess.Popen, records: Path) -> None:
    """Kills the program once it has written 200 records."""
    while running.poll() is None:
        if records.exists() and records.read_bytes().count(b"\n") >= 200:
            running.send_signal(signal.SIGKILL)
            return


def differences(name: str, one: Path, other: Path) -> int:
    """Prints how the files of two directories differ; returns how many besides texts do."""
    files = {path.relative_to(root) for root in (one, other) for path in root.rglob("*") if path.is_file()}
    count = 0
    for file in sorted(files):
        texts = [(root / file).read_bytes() if (root / file).exists() else b"" for root in (one, other)]
        if texts[0] == texts[1]:
            continue
        print(f"{name}/{file} differs")
        lines = [text.decode(errors="replace").splitlines() for text in texts]
        if file.suffix in (".json", ".csv", ".txt", ".md"):
            print(*list(difflib.unified_diff(*lines, lineterm="", n=0))[2:40], sep="\n    ")
        count += file.suffix not in (".txt", ".html", ".md", ".log")
    return count


def reported(aiperf: str, run: Path, to: Path) -> Path:
    """Copies a run, and has its report made again."""
    shutil.copytree(run, to)
    page = ["--html", str(to / "page.html")]
    subprocess.run([aiperf, "report", str(to), *page], cwd=to, capture_output=True, check=False)
    return to


def compare(before: str, after: str, root: Path) -> int:
    """Prints all differences; returns how many there are besides those of texts."""
    count = 0
    runs = {which: sorted(it.parent for it in (root / which).rglob("run_manifest.json")) for which in
            ("before", "after")}  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        for at, run in enumerate(runs["before"]):
            # Their names are in the texts, so they have the same.
            reports = [reported(program, run, Path(scratch) / which / str(at))
                       for which, program in (("one", before), ("two", after))]  # fmt: skip
            count += differences(str(run.relative_to(root)), *reports)
        for at, run in enumerate(runs["after"]):
            again = reported(after, run, Path(scratch) / "again" / str(at))
            (again / "page.html").unlink(missing_ok=True)
            # Its rows have the arrivals of tokens, which lines lack.
            shutil.copy(run / TABLE, again / TABLE)
            count += differences(f"report of {run.relative_to(root)}", run, again)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("before", help="path of the program before")
    parser.add_argument("after", help="path of the program after")
    parser.add_argument("--keep", type=Path, help="directory for the files; runs that are there are reused")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = given.keep or Path(scratch)
        programs = {name: str(Path(getattr(given, name)).resolve()) for name in ("before", "after")}
        for name, program in programs.items():
            if not (root / name).exists():
                run(program, root / name)
        count = compare(programs["before"], programs["after"], root)
    print(f"{count} differences besides texts")
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main())
