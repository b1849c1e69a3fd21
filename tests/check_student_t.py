"""Holds the table of Student's t that the program is tested by to scipy.

    python3 check_student_t.py GOLDEN           compares GOLDEN/student_t.csv
    python3 check_student_t.py GOLDEN --write   writes it anew
"""

import csv
import math
import sys
from pathlib import Path

from scipy import stats

LEVELS = ["0.5", "0.6", "0.7", "0.8", "0.9", "0.95", "0.98", "0.99", "0.995", "0.999"]
DEGREES = range(1, 201)


def critical(level: str, degrees: int) -> float:
    """The bound that |t| keeps with probability `level`.

    From the upper tail, which loses no digits where the level is near 1.
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
            # As it is usually written, too.
            usual = float(stats.t.ppf(1 - (1 - float(level)) / 2, int(degrees)))
            assert math.isclose(float(cell), usual, rel_tol=1e-9), (degrees, level, cell)


main()
