"""Compares what the prompts of a run share with what the hash IDs of a trace say.

    python3 tests/check_trace_prompts.py DIR

DIR contains `case.json` (`trace`, `tokenizer` and the tokens of a `block`) and the run's
`profile_export_raw.jsonl`, whose requests were sent in the order of the trace. Each prompt is
tokenized with the tokenizers package, and inserted into a radix tree of tokens. Its length, and the
number of its first tokens that the tree already has, must be those that follow from the blocks of
the trace. Texts of different blocks may begin with the same few tokens by chance.

Prints each difference and exits with 1 if there are any.
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

# Tokens that different texts may share by chance.
BY_CHANCE = 16


class RadixTree:
    """Sequences of tokens, with each common beginning stored once."""

    def __init__(self):
        self.edges = {}

    def insert(self, sequence):
        """Adds a sequence; returns how much of its beginning was known."""
        edges, at = self.edges, 0
        while at < len(sequence):
            first = sequence[at]
            if first not in edges:
                edges[first] = (sequence[at:], {})
                return at
            label, below = edges[first]
            same = 0
            while (
                same < len(label)
                and at + same < len(sequence)
                and label[same] == sequence[at + same]
            ):
                same += 1
            if same < len(label):
                below = {label[same]: (label[same:], below)}
                edges[first] = (label[:same], below)
            at += same
            edges = below
        return at


def expected(rows, block):
    """Length and known beginning of each prompt, from its blocks."""
    tree = RadixTree()
    for number, row in enumerate(rows):
        length = row["input_length"]
        ids = row.get("hash_ids") or []
        # One symbol for each token: of a block, or of nothing else.
        symbols = [(block_id, at) for block_id in ids for at in range(block)]
        symbols += [("own", number, at) for at in range(length)]
        yield length, tree.insert(symbols[:length])


def main(directory):
    case = json.loads((directory / "case.json").read_text())
    rows = [json.loads(line) for line in Path(case["trace"]).read_text().splitlines()]
    lines = (directory / "profile_export_raw.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    records.sort(key=lambda record: record["metadata"]["request_start_ns"])
    tokenizer = Tokenizer.from_file(str(Path(case["tokenizer"]) / "tokenizer.json"))
    tree = RadixTree()
    wrong = 0
    if len(records) != len(rows):
        print(f"{len(records)} requests, expected {len(rows)}")
        wrong += 1
    for number, (record, (length, known)) in enumerate(zip(records, expected(rows, case["block"]))):
        text = record["payload"]["messages"][0]["content"]
        tokens = tokenizer.encode(text, add_special_tokens=False).ids
        found = tree.insert(tokens)
        if len(tokens) != length or not known <= found < known + BY_CHANCE:
            print(f"request {number}: {len(tokens)} tokens, {found} known; "
                  f"expected {length}, {known} known")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
