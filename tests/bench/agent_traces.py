"""Writes a weka_trace of the size of a published data set: traces of coding agents with prompts of up to a
million tokens.

    python3 tests/bench/agent_traces.py 393 > traces.jsonl

The first 53 traces have 14,925 requests, with those of sub-agents. Prompts grow by a few blocks
of 64 tokens in each turn, and are cut now and then.
"""

import json
import random
import sys

BLOCK = 64
LONGEST = 990_016


def requests(rng, ids, count, peak, t, next_id):
    """Requests whose prompts grow from `ids` to about `peak` blocks, and the next free ID."""
    grows = max(1, (peak - len(ids)) // count)
    made, start = [], len(ids)
    for _ in range(count):
        tail = rng.randrange(BLOCK)
        output = min(8000, int(rng.lognormvariate(5.3, 1.2)) + 1)
        api = 1 + output / 60
        made.append({"t": round(t, 3), "type": "s", "model": "m", "in": len(ids) * BLOCK + tail,
                     "out": output, "hash_ids": list(ids), "api_time": round(api, 3)})
        t += api + rng.expovariate(1 / 8)
        if len(ids) >= peak:
            del ids[start + rng.randrange(20):]
        more = rng.randrange(2 * grows) + 1
        ids.extend(range(next_id, next_id + more))
        del ids[LONGEST // BLOCK:]
        next_id += more
    return made, next_id


def trace(rng, number):
    next_id, opening = 1, rng.randrange(200, 400)
    ids = list(range(next_id, next_id + opening))
    next_id += opening
    peak = min(LONGEST // BLOCK, int(rng.lognormvariate(7.8, 0.8)) + opening)
    count = max(2, min(1500, int(rng.lognormvariate(4.6, 0.9))))
    main, next_id = requests(rng, list(ids), count, peak, 0.0, next_id)
    for agent in range(int(rng.expovariate(1 / 4.3))):
        at = rng.randrange(1, len(main) + 1)
        before = [entry for entry in main[:at] if entry["type"] == "s"]
        t = before[-1]["t"] + before[-1]["api_time"]
        of_agent = list(range(next_id, next_id + 150))
        inner, next_id = requests(rng, of_agent, max(1, int(rng.expovariate(1 / 24.7))), 900, t, next_id + 150)
        main.insert(at, {"t": t, "type": "subagent", "agent_id": f"a{agent}", "subagent_type": "x",
                         "status": "completed", "models": ["m"], "requests": inner})
    return {"id": f"trace-{number}", "models": ["m"], "block_size": BLOCK, "hash_id_scope": "local",
            "tool_tokens": 9000, "system_tokens": 3000, "requests": main}


def main(count):
    rng = random.Random(1)
    for number in range(count):
        json.dump(trace(rng, number), sys.stdout, separators=(",", ":"))
        print()


if __name__ == "__main__":
    main(int(sys.argv[1]))
