"""Compares the order and the times of a run's requests with a second implementation of a weka_trace.

    python3 tests/agentx_times.py DIR

DIR contains `case.json` (`trace`) and the run's `profile_export.jsonl`. The requests of a trace all have
different input lengths, by which they are found in the records. Each has the conversation and the turn that
AIPerf's rules give it: which requests are those of a sub-agent, and what it is called. A request is sent
neither before its delay is over, nor before the requests that had ended before it, nor before the
sub-agents that it joins.

Prints each difference and exits with 1 if there are any.
"""

import json
import sys
from pathlib import Path

SAME = 1e-6


def common(one, other):
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


class Request:
    def __init__(self, entry, place, begin):
        self.place = place
        self.start = entry["t"] + begin if entry["t"] + SAME < begin else entry["t"]
        self.end = self.start + max(entry.get("api_time") or 0.0, 0.0)
        self.ids = entry["hash_ids"]
        self.model = entry["model"]
        self.input, self.output = entry["in"], entry["out"]


class Stream:
    """A conversation: its requests, and which turn of its parent starts and joins it."""

    def __init__(self, name, requests, parent=None, entry=None, end=None):
        self.name, self.requests, self.parent = name, requests, parent
        # When the entry of a sub-agent begins, and when it ends.
        self.entry, self.end = entry, end
        self.after = self.join = None
        self.scope = []


def has_no_relation(requests, first):
    others = [other for other in requests if other is not first]
    if not first.ids or not others or any(common(first.ids, it.ids) for it in others):
        return False
    return first.output <= 64 or not any(set(first.ids) & set(it.ids) for it in others)


def split(requests):
    """The chains of requests: that of the agent, and the others with their fork points."""
    order = sorted(requests, key=lambda it: (it.start, it.place))
    plain = [it for it in order[:1] if len(order) > 1 and has_no_relation(requests, it)]
    chains = []
    for own in order:
        if own in plain:
            continue
        if not own.ids:
            plain.append(own)
            continue
        fits = [
            (len(chain["own"][-1].ids), -at)
            for at, chain in enumerate(chains)
            if common(chain["own"][-1].ids, own.ids) == len(chain["own"][-1].ids)
            and chain["own"][-1].model == own.model
            and chain["own"][-1].end <= own.start + SAME
        ]
        if fits:
            chains[-max(fits)[1]]["own"].append(own)
            continue
        depths = [
            (common(chain["own"][-1].ids, own.ids), len(chain["own"][-1].ids), -at)
            for at, chain in enumerate(chains)
        ]
        depth, _, at = max(depths, default=(0, 0, 0))
        chains.append({"own": [own], "fork": chains[-at]["own"][-1] if depth else None, "depth": depth})
    # Compaction: a chain that goes on with a shorter history.
    for tail in order:
        chain = next((it for it in chains if it["own"][-1] is tail), None)
        if chain is None:
            continue
        candidates = []
        for at, other in enumerate(chains):
            first = other["own"][0]
            gap = first.start - tail.end
            if other["fork"] is not tail or other["depth"] == 0 or gap < -SAME or first.model != tail.model:
                continue
            if gap > 3600 and other["depth"] / len(tail.ids) < 0.5:
                continue
            candidates.append((-other["depth"], first.start, at))
        if candidates:
            elected = chains.pop(min(candidates)[2])
            for other in chains:
                if other["fork"] is tail:
                    other["fork"] = elected["own"][-1]
            chain["own"] += elected["own"]
    main = chains.pop(0)["own"] if chains else []
    rank = {id(it): at for at, it in enumerate(order)}
    main = sorted(main + plain, key=lambda it: rank[id(it)])
    return main, sorted(chains, key=lambda chain: rank[id(chain["own"][0])])


def names(main, chains):
    peak, model = max(it.input for it in main), main[0].model
    groups = []
    forks = {}
    for at, chain in enumerate(chains):
        if chain["fork"] is not None:
            forks.setdefault((id(chain["fork"]), chain["depth"]), []).append(at)
    for members in forks.values():
        group, until = [], 0
        for at in members:
            own = chains[at]["own"]
            if group and own[0].start >= until:
                groups.append(group)
                group = []
            until = max(until if group else 0, max(it.end for it in own))
            group.append(at)
        groups.append(group)
    groups = sorted(group for group in groups if len(group) >= 3)
    for at, chain in enumerate(chains):
        first = chain["own"][0]
        is_aux = first.model != model or first.input < max(16384, peak // 10)
        is_reduction = 0 < first.output < 4000 and first.input >= 16384 and first.input > 20 * first.output
        found = next(((nth, group.index(at)) for nth, group in enumerate(groups) if at in group), None)
        if len(chain["own"]) == 1 and (is_aux or is_reduction):
            yield f"aux:{at:03}"
        elif found:
            yield "wg:{:03}_{:03}".format(*found)
        else:
            yield f"fa:{at:03}"


def streams(name, entries, begin, all_of_tree, parent=None, entry=None, end=None):
    """Adds the conversations of a list of entries, the one of the agent first; returns that."""
    requests, agents = [], []
    for place, it in enumerate(entries):
        if it["type"] == "subagent":
            agents.append((place, it))
        else:
            requests.append(Request(it, place, begin))
    if not requests:
        return None
    main, chains = split(requests)
    own = Stream(name, main, parent, entry, end)
    all_of_tree.append(own)
    own.scope = [own]
    for label, chain in zip(names(main, chains), chains):
        first = chain["own"][0]
        child = Stream(f"{name}::{label}", chain["own"], own)
        before = [it for it in main if (it.start, it.place) < (first.start, first.place)]
        child.after = max(len(before), 1) - 1
        child.end = max(it.end for it in chain["own"])
        child.scope = own.scope
        own.scope.append(child)
        all_of_tree.append(child)
    for place, agent in agents:
        start = agent["t"] + begin if agent["t"] + SAME < begin else agent["t"]
        before = [it for it in main if it.place < place]
        inner = streams(f"{name}::sa:{agent['agent_id']}", agent["requests"], start, all_of_tree, own, start)
        inner.after = len(before) - 1 if before else None
        if agent.get("duration_ms") is not None:
            inner.end = start + agent["duration_ms"] / 1000
        else:
            inner.end = max(it.end for stream in inner.scope for it in stream.requests)
    for child in all_of_tree:
        if child.parent is own:
            later = range(0 if child.after is None else child.after + 1, len(main))
            child.join = next((at for at in later if main[at].start + SAME >= child.end), None)
    return own


def predecessors(stream, own):
    """For each other conversation beside a request, the last request that had ended before it."""
    last = []
    for other in stream.scope:
        ended = [it for it in other.requests if it.start < own.start and it.end <= own.start]
        if other is not stream and ended:
            last.append(max(ended, key=lambda it: it.end))
    return [
        one
        for one in last
        if not any(it is not one and one.start < it.start and one.end <= it.start for it in last)
    ]


def main(directory):
    case = json.loads((directory / "case.json").read_text())
    documents = [json.loads(line) for line in Path(case["trace"]).read_text().splitlines()]
    found = {}
    for line in (directory / "profile_export.jsonl").read_text().splitlines():
        record = json.loads(line)
        trace = record["metadata"]["conversation_id"].split("::")[0]
        found[trace, record["metrics"]["input_sequence_length"]["value"]] = record["metadata"]
    wrong, kinds = [], {}
    for document in documents:
        tree = []
        streams(document["id"], document["requests"], 0.0, tree)
        sent = {}
        for stream in tree:
            kind = stream.name.split("::")[-1].split(":")[0] if "::" in stream.name else "main"
            kinds[kind] = kinds.get(kind, 0) + 1
            for turn, own in enumerate(stream.requests):
                metadata = sent[id(own)] = found.pop((document["id"], own.input), None)
                at = metadata and (metadata["conversation_id"], metadata["turn_index"])
                if at != (stream.name, turn):
                    wrong.append(f"{document['id']}, input {own.input}: {at}, expected {(stream.name, turn)}")
        if wrong:
            continue

        def not_before(own, other, delay, edge="request_end_ns"):
            gap = sent[id(own)]["request_start_ns"] - sent[id(other)][edge]
            if gap < round(delay * 1e9) - 1000:
                at = sent[id(own)]["conversation_id"], sent[id(own)]["turn_index"]
                wrong.append(f"{at} was sent {gap} ns after {edge} of {other.input}, expected {delay} s")

        for stream in tree:
            for before, own in zip(stream.requests, stream.requests[1:]):
                not_before(own, before, max(own.start - before.end, 0.0))
            for own in stream.requests:
                for before in predecessors(stream, own):
                    not_before(own, before, 0.0)
            if stream.parent and stream.join is not None:
                for last in (it.requests[-1] for it in stream.scope if stream.scope[0] is stream or it is stream):
                    not_before(stream.parent.requests[stream.join], last, 0.0)
            if stream.parent and stream.after is not None:
                spawn, first = stream.parent.requests[stream.after], stream.requests[0]
                beside = [
                    it.entry for it in tree
                    if it.parent is stream.parent and it.after == stream.after and it.entry is not None
                ]
                branch = min(beside) if stream.entry is not None else first.start
                if branch < spawn.end:
                    not_before(first, spawn, max(first.start - spawn.start, 0.0), "credit_issued_ns")
                else:
                    not_before(first, spawn, max(first.start - branch, 0.0))
    wrong += [f"{at} is not expected" for at in found]
    missing = {"main", "sa", "fa", "aux", "wg"} - kinds.keys()
    if missing:
        wrong.append(f"no trace has {missing}, only {kinds}")
    for line in wrong[:20]:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
