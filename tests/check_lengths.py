"""Compares the quantiles, means and deviations of lengths in the program's tests with scipy.

    python3 check_lengths.py GOLDEN           compares GOLDEN/lengths.csv
    python3 check_lengths.py GOLDEN --write   writes it again
"""

import csv
import math
import sys
from pathlib import Path

from scipy import optimize, stats

HEADER = ["length", "z", "tokens", "mean", "stddev"]
Z = [-6.0, -3.0, -1.5, -0.25, 0.0, 0.5, 1.0, 2.5, 5.0]

LOG_NORMAL = stats.lognorm(s=0.8, scale=512 / math.exp(0.32))
PARTS = [(0.7, stats.lognorm(s=0.5, scale=150)), (0.3, stats.norm(4000, 300))]


class Mixture:
    """Some of the lengths from each of several distributions."""

    def __init__(self, parts):
        self.parts = parts

    def cdf(self, tokens):
        return sum(share * part.cdf(tokens) for share, part in self.parts)

    def sf(self, tokens):
        return sum(share * part.sf(tokens) for share, part in self.parts)

    def quantile(self, z):
        # From the side on which the probability is small.
        if z < 0:
            return optimize.brentq(lambda x: self.cdf(x) - stats.norm.cdf(z), 1e-3, 1e5, xtol=1e-12)
        return optimize.brentq(lambda x: self.sf(x) - stats.norm.sf(z), 1e-3, 1e5, xtol=1e-12)

    def mean(self):
        return sum(share * part.mean() for share, part in self.parts)

    def std(self):
        square = sum(share * part.moment(2) for share, part in self.parts)
        return math.sqrt(square - self.mean() ** 2)


LENGTHS = {
    "5000|700": stats.norm(5000, 700),
    "lognormal:mean=512,sigma=0.8": LOG_NORMAL,
    "lognormal:median=150,sigma=0.5": stats.lognorm(s=0.5, scale=150),
    "uniform:min=100,max=900": stats.uniform(100, 800),
    "exponential:mean=300": stats.expon(scale=300),
    "lognormal:median=150,sigma=0.5:70;normal:mean=4000,stddev=300:30": Mixture(PARTS),
}


def quantile(of, z):
    if isinstance(of, Mixture):
        return of.quantile(z)
    return of.ppf(stats.norm.cdf(z)) if z < 0 else of.isf(stats.norm.sf(z))


def rows():
    for text, of in LENGTHS.items():
        for z in Z:
            yield [text, z, float(quantile(of, z)), float(of.mean()), float(of.std())]


def main() -> None:
    path = Path(sys.argv[1]) / "lengths.csv"
    if "--write" in sys.argv[2:]:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(HEADER)
            writer.writerows(rows())
        return
    with path.open(newline="") as file:
        header, *found = csv.reader(file)
    assert header == HEADER, header
    for row, expected in zip(found, rows(), strict=True):
        assert row[0] == expected[0], row
        for cell, value in zip(row[1:], expected[1:], strict=True):
            assert math.isclose(float(cell), value, rel_tol=1e-9), (row, expected)


if __name__ == "__main__":
    main()
