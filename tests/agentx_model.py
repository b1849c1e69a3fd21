"""Compares the requests of a run with what a second implementation makes of a weka_trace.

    python3 tests/agentx_model.py DIR

DIR contains `case.json` (`trace` and `tokenizer`), and the run's `profile_export_raw.jsonl`,
`profile_export.jsonl` and `profile_export_aiperf.json`. Each request has the messages that AIPerf's
rules make of the trace, whose tokens are counted with the tokenizers package. Messages of the same
blocks have the same text. Each record has the number of blocks that earlier requests of its trace have
too, and the summary their share.

Prints each difference and exits with 1 if there are any.
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer


def ceil_div(number, divisor):
    return -(-number // divisor)


def common(one, other):
    """The number of first elements that two lists have in common."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


def caps(prompts):
    """The maximum number of the assistant's blocks in each prompt.

    A later prompt that adds nothing ends with a block of an earlier one, which must be the user's.
    """
    most = [float("inf")] * len(prompts)
    kept_of = [0] * len(prompts)
    owners, before = [], []
    for number, (ids, tail, _) in enumerate(prompts):
        kept = kept_of[number] = common(before, ids)
        owners = owners[:kept]
        if kept == len(ids) and tail == 0 and kept > 0 and owners[-1] != 0:
            owner = owners[-1]
            most[owner] = min(most[owner], kept - 1 - kept_of[owner])
        owners += [number] * (len(ids) - kept)
        before = ids
    return most


def messages(requests, block, opening):
    """The messages of each request: role, blocks, and tokens after them."""
    prompts = []
    for request in requests:
        ids = request["hash_ids"][: request["in"] // block]
        prompts.append((ids, request["in"] - len(ids) * block, request["out"]))
    said, before = [], []
    for number, ((ids, tail, _), most) in enumerate(zip(prompts, caps(prompts))):
        kept = common(before, ids)
        left, cut = kept, []
        for role, blocks, _ in said:
            if blocks[:left]:
                cut.append((role, blocks[:left], 0))
            left -= len(blocks[:left])
        said = cut
        new = ids[kept:]
        if number == 0:
            lead, role = min(ceil_div(opening, block), len(new)), "system"
        else:
            has_user = any(role == "user" for role, _, _ in said)
            lead = min(ceil_div(prompts[number - 1][2], block), len(new), most) if has_user else 0
            if lead and lead == len(new) and tail == 0:
                lead -= 1
            role = "assistant"
        if lead:
            said.append((role, new[:lead], 0))
        if new[lead:] or tail:
            said.append(("user", new[lead:], tail))
        yield list(said)
        before = ids


def conversations(name, document, entries, begin, asked):
    """The conversations of a list of entries with their tokens of tools and system.

    Collects each request with its time in `asked`.
    """
    own = []
    yield name, document, own
    for entry in entries:
        time = entry["t"] + begin if entry["t"] + 1e-6 < begin else entry["t"]
        if entry["type"] == "subagent":
            inner = f"{name}::sa:{entry['agent_id']}"
            yield from conversations(inner, entry, entry["requests"], time, asked)
        else:
            asked.append((time, name, len(own), entry["hash_ids"]))
            own.append(entry)


def expected(documents):
    """The messages and the known blocks of each request, by conversation and turn."""
    made, known = {}, {}
    for document in documents:
        asked = []
        for name, of, own in list(conversations(document["id"], document, document["requests"], 0.0, asked)):
            opening = of.get("tool_tokens", 0) + of.get("system_tokens", 0)
            for turn, said in enumerate(messages(own, document["block_size"], opening)):
                made[name, turn] = said
        seen = set()
        for _, name, turn, ids in sorted(asked, key=lambda request: request[0]):
            hits = 0
            while hits < len(ids) and ids[hits] in seen:
                hits += 1
            seen.update(ids)
            known[name, turn] = (hits, len(ids))
    return made, known


def place(record):
    metadata = record["metadata"]
    return metadata["conversation_id"], metadata["turn_index"]


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def main(directory):
    case = json.loads((directory / "case.json").read_text())
    documents = read(Path(case["trace"]))
    block = documents[0]["block_size"]
    tokenizer = Tokenizer.from_file(str(Path(case["tokenizer"]) / "tokenizer.json"))
    made, known = expected(documents)
    wrong = []
    found = {place(record): record["payload"] for record in read(directory / "profile_export_raw.jsonl")}
    if found.keys() != made.keys():
        wrong.append(f"{len(found)} requests, expected {len(made)}: {found.keys() ^ made.keys()}")
    texts = {}
    for at, payload in found.items():
        own = [(role, len(ids) * block + tail) for role, ids, tail in made.get(at, [])]
        sent = payload["messages"]
        counted = [
            (it["role"], len(tokenizer.encode(it["content"], add_special_tokens=False).ids))
            for it in sent
        ]
        if counted != own:
            wrong.append(f"{at}: {counted}, expected {own}")
            continue
        for message, (_, ids, tail) in zip(sent, made[at]):
            if tail == 0:
                text = texts.setdefault(tuple(ids), message["content"])
                if text != message["content"]:
                    wrong.append(f"{at}: the blocks {ids} have two texts")
    long = [text for ids, text in texts.items() if len(ids) > 1]
    if len(set(long)) != len(long):
        wrong.append("different blocks have the same text")
    hits = total = 0
    for record in read(directory / "profile_export.jsonl"):
        metrics = record["metrics"]
        names = ["theoretical_prefix_hit_blocks", "theoretical_prefix_blocks"]
        own = tuple(metrics[name]["value"] for name in names)
        if own != known[place(record)]:
            wrong.append(f"{place(record)}: {own} blocks known, expected {known[place(record)]}")
        hits, total = hits + known[place(record)][0], total + known[place(record)][1]
    share = json.loads((directory / "profile_export_aiperf.json").read_text())
    share = share["theoretical_prefix_cache_hit"]
    own = {"unit": "%", "avg": 100 * hits / total, "count": total, "sum": hits}
    if abs(share["avg"] - own["avg"]) > 1e-9 or share | {"avg": 0} != own | {"avg": 0}:
        wrong.append(f"the summary has {share}, expected {own}")
    for line in wrong[:20]:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
