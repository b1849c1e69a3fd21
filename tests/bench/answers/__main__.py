"""Asks the program, as a user types it, about servers whose truth is known, and counts its answers.

    python3 tests/bench/answers --aiperf target/release/aiperf
    python3 tests/bench/answers --aiperf target/release/aiperf --seeds 6-10 --cards 'load*'
    python3 tests/bench/answers --short

A card (`cards.py`) is a server, a command, and the truth. An answer is right; or undecided, if it says
that the data cannot tell, and they cannot; or wrong. `--short` asks the cards that take a few seconds
once. The exit code is 1 if a card without chance has a wrong answer, or more than 5% of all answers of
the others are wrong.
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from asking import Undecided, Wrong, answer
from cards import CARDS, Card
from outputs import OUTPUTS

SHARE_OF_WRONG = 0.05


def verdict(card: Card, seed: int, aiperf: str) -> tuple[str, str]:
    """Returns `right`, `undecided` or `wrong`, and why."""
    with tempfile.TemporaryDirectory(prefix="answers-") as directory:
        try:
            card.judge(answer(card, seed, aiperf, Path(directory)))
        except Undecided as why:
            return "undecided", str(why)
        except Wrong as why:
            return "wrong", str(why)
        except (KeyError, OSError, subprocess.SubprocessError) as error:
            return "wrong", f"the files cannot be read: {error!r}"
        return "right", ""


def seeds(text: str) -> list[int]:
    """Returns the numbers of `1-5` or of `3`."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def part(text: str) -> slice:
    """Returns the cards of `2/3`: every third one, from the second on."""
    number, count = map(int, text.split("/"))
    return slice(number - 1, None, count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    default = os.environ.get("AIPERF_TEST_PROGRAM", "target/release/aiperf")
    parser.add_argument("--aiperf", default=default, help="the program")
    parser.add_argument("--seeds", type=seeds, default=seeds("1-5"), help="such as 1-5 or 7")
    parser.add_argument("--cards", default="*", help="a pattern of names")
    parser.add_argument("--short", action="store_true", help="cards of a few seconds, one seed")
    parser.add_argument("--part", type=part, default=part("1/1"), help="of these cards, such as 2/3")
    parser.add_argument("--together", type=int, default=4, help="cards at the same time")
    given = parser.parse_args()
    chosen = [card for card in [*CARDS, *OUTPUTS] if fnmatch.fnmatch(card.name, given.cards)]
    chosen = [card for card in chosen if card.is_short or not given.short][given.part]
    numbers = given.seeds[:1] if given.short else given.seeds
    asked = [(card, seed) for card in chosen for seed in numbers]
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    reasons = []
    with concurrent.futures.ThreadPoolExecutor(given.together) as pool:
        found = pool.map(lambda one: verdict(*one, os.path.abspath(given.aiperf)), asked)
        for (card, seed), (kind, why) in zip(asked, found, strict=True):
            counts[card.name][kind] += 1
            if why:
                reasons.append(f"{card.name}, seed {seed}: {kind}: {why}")
                print(reasons[-1], file=sys.stderr, flush=True)
    print("| card | truth | right | undecided | wrong |\n|---|---|---|---|---|")
    for card in chosen:
        of = [str(counts[card.name][kind]) for kind in ("right", "undecided", "wrong")]
        print(f"| {card.name} | {card.truth} | {' | '.join(of)} |")
    total = sum(counts.values(), collections.Counter())
    print(f"| all | | {total['right']} | {total['undecided']} | {total['wrong']} |")
    random = [card.name for card in chosen if card.is_random]
    wrong = sum(counts[name]["wrong"] for name in random)
    certain = sum(counts[card.name]["wrong"] for card in chosen if not card.is_random)
    asked_random = sum(counts[name].total() for name in random)
    return int(certain > 0 or wrong > SHARE_OF_WRONG * asked_random)


sys.exit(main())
