"""Compares resamples of the block bootstrap in the program's tests with numpy.

    python3 check_bootstrap.py GOLDEN           compares GOLDEN/bootstrap.json
    python3 check_bootstrap.py GOLDEN --write   writes it again
"""

import json
import sys
from pathlib import Path

import numpy as np

LENGTH = 7
LEVEL = 0.9
PERCENTS = [50, 99]


def cases() -> dict:
    """Requests whose latencies depend on each other, and the first requests of blocks."""
    random = np.random.default_rng(11)
    noise = random.normal(0, 1, 121)
    latencies = [10.0]
    for step in noise[1:]:
        latencies.append(3 + 0.7 * latencies[-1] + step)
    gaps = random.exponential(0.05, 121)
    # 121 requests: the last of the 18 blocks has 2.
    starts = random.integers(0, 121, (40, 18))
    return {
        "length": LENGTH,
        "level": LEVEL,
        "latencies": [float(value) for value in latencies],
        "gaps": [float(value) for value in gaps],
        "starts": starts.tolist(),
    }


def expected(case: dict) -> dict:
    latencies, gaps = np.array(case["latencies"]), np.array(case["gaps"])
    n = len(latencies)
    offsets = np.arange(case["length"])
    found = {"mean": [], "rate": [], **{f"p{percent}": [] for percent in PERCENTS}}
    for starts in case["starts"]:
        indices = ((np.array(starts)[:, None] + offsets) % n).ravel()[:n]
        found["mean"].append(float(latencies[indices].mean()))
        found["rate"].append(float(n / gaps[indices].sum()))
        for percent in PERCENTS:
            found[f"p{percent}"].append(float(np.percentile(latencies[indices], percent)))
    tail = 50 * (1 - case["level"])
    differences = np.array(found["mean"][20:]) - np.array(found["mean"][:20])
    found["interval"] = [float(end) for end in np.percentile(differences, [tail, 100 - tail])]
    return found


def main() -> None:
    path = Path(sys.argv[1]) / "bootstrap.json"
    if "--write" in sys.argv[2:]:
        case = cases()
        path.write_text(json.dumps({**case, "expected": expected(case)}) + "\n")
        return
    case = json.loads(path.read_text())
    for name, values in expected(case).items():
        np.testing.assert_allclose(case["expected"][name], values, rtol=1e-12, err_msg=name)
    print("the resamples are numpy's")


main()
