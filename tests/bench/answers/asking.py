"""Starts the servers of a card, runs its commands, and has what they answered."""

import contextlib
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

# What every command has that loads a server.
COMMON = ["--model", "mock-model", "--tokenizer", "builtin", "--ui", "none"]
TIMEOUT_S = 900


class Wrong(Exception):
    """An answer that is not true."""


class Undecided(Exception):
    """An answer that says that the data cannot tell."""


@dataclass
class Answer:
    """What the commands of a card wrote and left."""

    codes: list[int]
    # Standard output and standard error of each command.
    screens: list[str]
    directory: Path

    @property
    def screen(self) -> str:
        """The text of the last command."""
        return self.screens[-1]

    @property
    def code(self) -> int:
        """The exit code of the last command."""
        return self.codes[-1]

    def summary(self, run: str = "run") -> dict:
        """Returns the JSON summary of the run in this directory."""
        return self.file(f"{run}/profile_export_aiperf.json")

    def file(self, path: str) -> dict:
        try:
            return json.loads((self.directory / path).read_text())
        except OSError:
            raise Wrong(f"there is no {path}; exit {self.codes}: {self.screen[-300:]!r}") from None

    def records(self, run: str = "run") -> list[dict]:
        lines = (self.directory / run / "profile_export.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def has(self, pattern: str) -> bool:
        return re.search(pattern, self.screen, re.IGNORECASE) is not None

    def must_say(self, pattern: str) -> None:
        if not self.has(pattern):
            raise Wrong(f"does not say {pattern!r}: {self.screen[:600]!r}")

    def must_not_say(self, pattern: str) -> None:
        if found := re.search(f"[^\n]*(?:{pattern})[^\n]*", self.screen, re.IGNORECASE):
            raise Wrong(f"says {found[0].strip()!r}")

    def must_end_with(self, *codes: int) -> None:
        if self.code not in codes:
            raise Wrong(f"exit code {self.code}: {self.screen[-300:]!r}")


def check(holds: bool, why: str) -> None:
    """Raises `Wrong` unless it holds."""
    if not holds:
        raise Wrong(why)


def answer(card, seed: int, aiperf: str, directory: Path) -> Answer:
    """Runs the commands of the card with `seed` against its servers."""
    with contextlib.ExitStack() as stack:
        seeded = [[flag.format(seed=seed) for flag in flags] for flags in card.servers]
        urls = [stack.enter_context(server(aiperf, flags)) for flags in seeded]
        given = {"urls": urls, "seed": str(seed), "dir": directory}
        codes, screens = [], []
        for command in card.commands(given):
            ran = subprocess.run(
                [aiperf, *map(str, command)], cwd=directory, capture_output=True, text=True,
                timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
            codes.append(ran.returncode)
            screens.append(ran.stdout + ran.stderr)
        return Answer(codes, screens, directory)


@contextlib.contextmanager
def server(aiperf: str, flags: list[str]):
    """Starts a mock server on a free port, and has its URL."""
    running = subprocess.Popen(
        [aiperf, "mock-server", "--port", "0", *flags], stdout=subprocess.PIPE, text=True
    )
    try:
        yield running.stdout.readline().strip()
    finally:
        running.terminate()
        running.wait()
        running.stdout.close()
