"""Histograms of simulated servers, scrape by scrape, one JSON object per line.

    python tests/histogram_cases.py FIRST_SEED CASES

Each case draws its bounds, its distribution, its scale, how the load changes between scrapes,
and the number of observations per scrape. A line has `kinds` (the properties of the case),
`bounds` (finite), `cumulative` (the increase of each cumulative count in each scrape, +Inf
last), `sums` (the increase of the sum in each scrape), and `exact`: the percentiles of all
observations, computed by numpy.
"""

import json
import sys

import numpy as np

PERCENTILES = [1, 5, 10, 25, 50, 75, 90, 95, 99]
BOUNDS = {
    "vLLM TTFT": [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5,
                  10, 20, 40, 80, 160, 640, 2560],
    "vLLM ITL": [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
                 20, 40, 80],
    "vLLM e2e": [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960,
                 1920, 7680],
    "Dynamo TTFT": [0, 0.0022, 0.0047, 0.01, 0.022, 0.047, 0.1, 0.22, 0.47, 1, 2.2, 4.7, 10, 22, 48,
                    100, 220, 480],
    "Dynamo ITL": [0, 0.0018, 0.0033, 0.0059, 0.011, 0.02, 0.035, 0.064, 0.12, 0.21, 0.38, 0.69,
                   1.2, 2.3, 4.1, 7.4, 13, 24, 44, 80],
    "Dynamo duration": [0, 2, 4, 8, 16, 32, 64, 130, 260, 510],
    "few": [0.1, 0.5, 1],
    "Prometheus": [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
    "tokens": [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000],
    "powers of ten": [1, 10, 100, 1000, 10000],
}
LOADS = ["independent", "independent", "independent", "alike in a scrape", "autocorrelated",
         "bursts", "warm-up", "drift", "step"]


def distribution(rng, pick):
    """How to draw observations around 1, and whether they are integers."""
    sigma = pick.choice([0.1, 0.3, 1.0, 1.5])
    shape = pick.choice([0.7, 2.0, 8.0])
    power = pick.choice([0.8, 1.5, 3.0])
    tail, share = pick.choice([1.5, 2.5]), pick.choice([0.02, 0.1])
    parts = int(pick.choice([2, 3]))
    weights, centres = pick.dirichlet(np.full(parts, 0.7)), np.exp(pick.normal(0, 1.2, parts))
    widths = pick.choice([0.05, 0.15, 0.4], parts)
    low, ratio = pick.uniform(0.2, 0.9), pick.choice([1.3, 2.0, 10.0])

    def heavy(n):
        body, far = rng.lognormal(0, 0.2, n), 2 * (1 + rng.pareto(tail, n))
        return np.where(rng.random(n) < share, far, body)

    def mixture(n):
        part = rng.choice(parts, n, p=weights)
        return centres[part] * np.exp(rng.normal(0, 1, n) * widths[part])

    ways = {
        "lognormal": lambda n: rng.lognormal(0, sigma, n),
        "gamma": lambda n: rng.gamma(shape, 1 / shape, n),
        "Weibull": lambda n: rng.weibull(power, n),
        "Pareto tail": heavy,
        "mixture": mixture,
        "uniform": lambda n: rng.uniform(low, 2 - low, n),
        "constant": np.ones,
        "two values": lambda n: np.where(rng.random(n) < share, ratio, 1.0),
        "whole numbers": lambda n: rng.lognormal(0, min(sigma, 1.0), n),
    }
    name = str(pick.choice(list(ways)))
    return name, ways[name]


def load(kind, scrapes, rng, pick):
    """The factor for the observations of each scrape, and the factor for their number."""
    factor, more = np.ones(scrapes), np.ones(scrapes)
    time, sigma = np.arange(scrapes) / scrapes, pick.choice([0.1, 0.3, 0.7])
    if kind == "alike in a scrape":
        factor = np.exp(rng.normal(0, sigma, scrapes))
    elif kind == "autocorrelated":
        keep, state = pick.choice([0.7, 0.95]), rng.normal()
        for at in range(scrapes):
            factor[at] = np.exp(sigma * state)
            state = keep * state + np.sqrt(1 - keep * keep) * rng.normal()
    elif kind == "bursts":
        slower, within = pick.choice([1.5, 4.0, 15.0]), False
        for at in range(scrapes):
            within = within ^ (rng.random() < (0.3 if within else 0.1))
            factor[at], more[at] = (slower, 3) if within else (1, 1)
    elif kind == "warm-up":
        factor = 1 + pick.choice([1.0, 4.0]) * np.exp(-time / 0.08)
    elif kind == "drift":
        factor = 1 + pick.choice([0.3, 1.0, 3.0]) * time
    elif kind == "step":
        factor = np.where(time < pick.uniform(0.1, 0.9), 1.0, pick.choice([1.3, 2.0, 6.0]))
    return factor, more


def case(seed):
    """One case, or None without observations."""
    rng, pick = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    bounds = np.array(BOUNDS[str(pick.choice(list(BOUNDS)))])
    name, draw = distribution(rng, pick)
    low, high = np.log(bounds[bounds > 0][[0, -1]])
    scale = np.exp(pick.uniform(low + 0.2 * (high - low), low + 0.7 * (high - low)))
    if pick.random() < 0.05:
        scale = bounds[-1] * pick.uniform(0.7, 4)
    kind = str(pick.choice(LOADS))
    scrapes = int(pick.choice([3, 10, 30, 180, 180, 180, 900]))
    mean = float(pick.choice([0.3, 1, 4, 20, 100]))
    if pick.random() < 0.15:
        mean = pick.choice([5, 20, 100]) / scrapes
    mean = min(mean, 30_000 / scrapes)
    factor, more = load(kind, scrapes, rng, pick)
    sizes = {
        "Poisson": lambda: rng.poisson(mean * more),
        "even": lambda: np.diff(np.floor(np.cumsum(np.append(0, mean * more)))).astype(int),
        "uneven": lambda: rng.poisson(mean * more * rng.gamma(0.3, 1 / 0.3, scrapes)),
    }[str(pick.choice(["Poisson", "Poisson", "even", "uneven"]))]()
    seen = [scale * by * draw(int(size)) for by, size in zip(factor, sizes)]
    if name == "whole numbers":
        seen = [np.maximum(1, np.round(values)) for values in seen]
    total = np.concatenate(seen)
    if total.size == 0:
        return None
    ends = np.append(bounds, np.inf)
    cumulative = [np.searchsorted(np.sort(values), ends, side="right").tolist() for values in seen]
    # Like a server: a running sum with its rounding errors.
    running = np.cumsum([0.0, *(values.sum() for values in seen)])
    kinds = ["all", kind, name]
    kinds += ["20 observations or fewer"] if total.size <= 20 else []
    kinds += ["100 or more a scrape"] if total.size >= 100 * scrapes else []
    kinds += ["3 or 10 scrapes"] if scrapes <= 10 else []
    kinds += ["some above the last bound"] if total.max() > bounds[-1] else []
    return {
        "seed": seed,
        "kinds": kinds,
        "bounds": bounds.tolist(),
        "cumulative": cumulative,
        "sums": np.diff(running).tolist(),
        "exact": np.percentile(total, PERCENTILES).tolist(),
    }


if __name__ == "__main__":
    first, number = int(sys.argv[1]), int(sys.argv[2])
    for found in filter(None, map(case, range(first, first + number))):
        print(json.dumps(found))
