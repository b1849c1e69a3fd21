"""Compares intervals in the program's tests with numpy and scipy.

    python3 check_intervals.py GOLDEN           compares GOLDEN/intervals.json
    python3 check_intervals.py GOLDEN --write   writes it again
"""

import json
import sys
from pathlib import Path

import numpy as np
from scipy import stats

LEVEL = 0.9
PERCENTS = [50, 90]
BATCHES = 16


def cases() -> dict:
    """Latencies of two sides, which depend on each other."""
    random = np.random.default_rng(11)

    def side(count: int, mean: float) -> list[float]:
        values = [mean]
        for step in random.normal(0, 1, count - 1):
            values.append(mean * 0.3 + 0.7 * values[-1] + step)
        return [float(value) for value in values]

    return {"level": LEVEL, "base": side(403, 30.0), "new": side(250, 33.0)}


def exactness(values: np.ndarray) -> tuple[float, float]:
    """The variance of the mean, and its degrees of freedom."""
    n = len(values)
    centred = values - values.mean()
    r = centred[:-1] @ centred[1:] / (centred @ centred)
    r = float(np.clip(r + (1 + 3 * r) / n, 0, 0.97))
    rest = centred[1:] - r * centred[:-1]
    m = n // BATCHES
    means = np.convolve(rest, np.ones(m) / m, mode="valid") - rest.mean()
    k = len(rest)
    long_run = m * k / ((k - m + 1) * (k - m)) * (means @ means) / (1 - r) ** 2
    degrees = 1 / (1 / (1.5 * (n // m - 1)) + 2 * (1 - r**2) / n / (1 - r) ** 2)
    return long_run / n, degrees


def critical(level: float, degrees: float) -> float:
    return float(stats.t.isf((1 - level) / 2, np.clip(degrees, 1, 1000)))


def percentile_ends(values: np.ndarray, percent: float, count: float, t: float) -> np.ndarray:
    p = percent / 100
    middle = (p + t**2 / (2 * count)) / (1 + t**2 / count)
    half = t * np.sqrt(p * (1 - p) / count + t**2 / (4 * count**2)) / (1 + t**2 / count)
    return np.percentile(values, [100 * (middle - half), 100 * (middle + half)])


def log_reach(values: np.ndarray, percent: float | None):
    """The statistic, its degrees of freedom, and how far its logarithm reaches down and up."""
    if percent is None:
        variance, degrees = exactness(values)
        value = values.mean()
        return value, degrees, lambda t: np.array([t, t]) * np.sqrt(variance) / value
    value = np.percentile(values, percent)
    below = (values <= value).astype(float)
    variance, degrees = exactness(below)
    count = below.var() / variance
    rarer = min(below.mean(), 1 - below.mean()) * count
    degrees = 1 / (1 / degrees + 1 / max(rarer, 1))
    ends = lambda t: np.abs(np.log(percentile_ends(values, percent, count, t) / value))
    return value, degrees, ends


def log_ratio(base: np.ndarray, new: np.ndarray, percent: float | None) -> list[float]:
    sides = [log_reach(values, percent) for values in (base, new)]
    variances = [side[2](1.0).mean() ** 2 for side in sides]
    terms = sum(v**2 / side[1] for v, side in zip(variances, sides))
    t = critical(LEVEL, sum(variances) ** 2 / terms)
    (base_down, base_up), (new_down, new_up) = (side[2](t) for side in sides)
    middle = np.log(sides[1][0] / sides[0][0])
    return [float(middle - np.hypot(new_down, base_up)), float(middle + np.hypot(new_up, base_down))]


def expected(case: dict) -> dict:
    base, new = np.array(case["base"]), np.array(case["new"])
    variance, degrees = exactness(base)
    return {
        "half_width": [critical(LEVEL, degrees) * float(np.sqrt(variance))],
        "mean": log_ratio(base, new, None),
        **{f"p{percent}": log_ratio(base, new, percent) for percent in PERCENTS},
    }


def main() -> None:
    path = Path(sys.argv[1]) / "intervals.json"
    if "--write" in sys.argv[2:]:
        case = cases()
        path.write_text(json.dumps({**case, "expected": expected(case)}) + "\n")
        return
    case = json.loads(path.read_text())
    for name, values in expected(case).items():
        np.testing.assert_allclose(case["expected"][name], values, rtol=1e-12, err_msg=name)
    print("the intervals are numpy's")


main()
