"""Counts the passed and failed checks, and prints a line for each."""

import math

# Sums of floating-point numbers that were added up in a different order.
RELATIVE = 1e-9


class Report:
    """The checks of the whole test."""

    def __init__(self):
        self.passed = 0
        self.failures = []
        self.about = ""

    def section(self, about):
        """Starts the checks of a run or program."""
        self.about = about
        print(f"\n-- {about}", flush=True)

    def holds(self, what, ok, detail=""):
        """Checks a statement; `detail` contains the numbers it is about."""
        line = f"{what}: {detail}" if detail else what
        if ok:
            self.passed += 1
        else:
            self.failures.append(f"{self.about}: {line}")
        print(f"{'ok  ' if ok else 'FAIL'} {line}", flush=True)
        return ok

    def equal(self, what, have, want):
        """Checks that two values are the same."""
        return self.holds(what, have == want, f"{_text(have)} = {_text(want)}")

    def close(self, what, have, want, relative=RELATIVE, scale=None):
        """Checks that two numbers are equal except for rounding: `relative` to the larger one, or
        to `scale`, the magnitude of the sum."""
        ok = is_close(have, want, relative, scale)
        return self.holds(what, ok, f"{_text(have)} = {_text(want)}")

    def all_close(self, what, pairs):
        """Checks several pairs of numbers, by name, as a single statement."""
        wrong = [name for name, (have, want) in pairs.items() if not is_close(have, want)]
        texts = [f"{name} {_text(have)} = {_text(want)}" for name, (have, want) in pairs.items()]
        return self.holds(what, bool(pairs) and not wrong, ", ".join(texts))

    def finish(self):
        """Prints the result; returns the exit code."""
        print(f"\n{self.passed} passed, {len(self.failures)} failed")
        for failure in self.failures:
            print(f"  {failure}")
        return 1 if self.failures else 0


def _text(value):
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def is_close(have, want, relative=RELATIVE, scale=None):
    """Whether two numbers are equal except for rounding; False if one is missing."""
    if have is None or not (math.isfinite(have) and math.isfinite(want)):
        return False
    return abs(have - want) <= relative * max(abs(have), abs(want), scale or 0.0)
