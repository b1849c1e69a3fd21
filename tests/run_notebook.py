"""Executes the cells of docs/analysis.ipynb on the files of a run, and checks what they compute.

    python3 tests/run_notebook.py DIR

The run has streamed requests, and samples of vLLM's metrics and of NVIDIA's GPUs.
"""

import ast
import json
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def cells():
    """The code of the notebook, which is kept without outputs."""
    notebook = json.loads((ROOT / "docs" / "analysis.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"] and cell["execution_count"] is None, "clear the outputs"
            yield "".join(cell["source"])


def execute():
    """Runs the cells in order; returns their names and the values of those that end in one."""
    names, shown = {}, []
    for code in cells():
        tree = ast.parse(code)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), names)  # noqa: S102
        if last:
            shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))  # noqa: S307
    return names, shown


def nearest(times, at):
    """The indices of the nearest times; of two that are equally near, either."""
    distance = min(abs(time - at) for time in times)
    return {index for index, time in enumerate(times) if abs(time - at) == distance}


def main():
    directory = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        os.mkdir("artifacts")
        os.symlink(directory, "artifacts/try")
        names, shown = execute()
        os.chdir(ROOT)
    lines = [json.loads(line) for line in (directory / "profile_export.jsonl").read_text().splitlines()]
    measured = [line for line in lines if line["metadata"]["benchmark_phase"] == "profiling"]
    described, units = shown[0], shown[1]
    ttft = [line["metrics"].get("time_to_first_token", {}).get("value") for line in measured]
    ttft = [value for value in ttft if value is not None]
    assert described.loc["count", "time_to_first_token"] == len(ttft) > 0
    assert abs(described.loc["max", "time_to_first_token"] - max(ttft)) < 1e-9
    assert units == dict.fromkeys(("time_to_first_token", "inter_token_latency", "request_latency"), "ms")

    joined, joined_pl, queue = names["joined"], names["joined_pl"], names["queue"]
    assert len(joined) == len(joined_pl) == len(measured)
    times, waiting = queue["timestamp_ns"].tolist(), queue["waiting"].tolist()
    by_id = {row["x_request_id"]: row["waiting"] for row in joined_pl.to_dicts()}
    samples = [json.loads(line) for line in (directory / "gpu_telemetry_export.jsonl").read_text().splitlines()]
    gpus = len({sample["gpu_uuid"] for sample in samples})
    watts = {}
    for sample in samples:
        watts[sample["timestamp_ns"]] = (
            watts.get(sample["timestamp_ns"], 0) + sample["telemetry_data"]["nvidia_power_usage"]
        )
    assert len(samples) == gpus * len(watts), "a scrape lacks a GPU"
    for row in joined.to_dict("records"):
        at = row["request_start_ns"]
        expected = {waiting[index] for index in nearest(times, at)}
        assert row["waiting"] in expected and by_id[row["x_request_id"]] in expected, row
        power = {list(watts.values())[index] for index in nearest(list(watts), at)}
        assert min(abs(row["watts"] - value) for value in power) < 1e-6, (row["watts"], power)
    return 0


if __name__ == "__main__":
    sys.exit(main())
