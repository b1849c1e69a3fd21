"""Compares the table of Student's t in the program's tests with scipy.

    python3 check_student_t.py GOLDEN           compares GOLDEN/student_t.csv
    python3 check_student_t.py GOLDEN --write   writes it again
"""

import csv
import math
import sys
from pathlib import Path

from scipy import stats

LEVELS = ["0.5", "0.6", "0.7", "0.8", "0.9", "0.95", "0.98", "0.99", "0.995", "0.999"]
DEGREES = range(1, 201)


def critical(level: str, degrees: int) -> float:
    """The value that |t| does not exceed with probability `level`.

    Computed from the upper tail, which keeps its precision if the level is close to 1.
    """
    return float(stats.t.isf((1 - float(level)) / 2, degrees))


def main() -> None:
    path = Path(sys.argv[1]) / "student_t.csv"
    if "--write" in sys.argv[2:]:
        with path.open("w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["degrees", *LEVELS])
            rows.writerows([n, *(critical(level, n) for level in LEVELS)] for n in DEGREES)
        return
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["degrees", *LEVELS], header
    assert [int(row[0]) for row in rows] == list(DEGREES)
    for degrees, *cells in rows:
        for level, cell in zip(LEVELS, cells, strict=True):
            expected = critical(level, int(degrees))
            assert math.isclose(float(cell), expected, rel_tol=1e-11), (degrees, level, cell)
            # Also in the usual notation.
            usual = float(stats.t.ppf(1 - (1 - float(level)) / 2, int(degrees)))
            assert math.isclose(float(cell), usual, rel_tol=1e-9), (degrees, level, cell)


main()
