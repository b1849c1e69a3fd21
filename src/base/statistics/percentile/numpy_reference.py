"""Writes numpy.json: values and what numpy says of them. Needs numpy 2.

Run as `python3 numpy_reference.py > numpy.json`, in this directory.
"""

import json
import random

import numpy

PERCENTS = [1, 5, 10, 25, 50, 75, 90, 95, 99]


def case(values):
    array = numpy.array(values, dtype=float)
    return {
        "values": array.tolist(),
        "avg": float(numpy.mean(array)),
        "std": float(numpy.std(array)),
        "sum": float(numpy.sum(array)),
        "percentiles": [float(numpy.percentile(array, p)) for p in PERCENTS],
    }


def main():
    rng = random.Random(20)
    latencies = lambda n: [rng.lognormvariate(3.0, 0.7) for _ in range(n)]
    cases = [
        [3.0],
        [2.0, 1.0],
        [0.1, 0.2, 0.3],
        [5.0, 5.0, 5.0, 5.0],
        [-4.5, 0.0, 12.25, -100.0, 7.125],
        [1e-9, 1e9, 1.0, 3.3333333333333335],
        latencies(11),
        latencies(100),
        latencies(101),
    ]
    print(json.dumps([case(values) for values in cases], indent=1))


main()
