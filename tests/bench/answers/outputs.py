"""The cards about the outputs of servers."""

from collections.abc import Callable

from asking import COMMON, Answer, check
from cards import Card, profile, server

# 2,000 requests of 40 tokens with 16 in flight.
BASE = [
    *COMMON, "--streaming", "--no-server-metrics", "--isl", "40", "--osl", "40", "--concurrency", "16",
    "--request-count", "2000", "--cache-bust", "first-turn-suffix",
]  # fmt: skip

# The corruptions of the mock server, and the fault that each is found as.
KINDS = {
    "repeat": "repetition",
    "replacement": "replacement_characters",
    "mojibake": "mojibake",
    "script": "wrong_script",
    "blank": "blank",
    "after-end": "after_end",
    "usage": "usage_contradicts_text",
    "same": "same_answer",
    "burst": "single_event",
}


def mock(*flags: str) -> list[list[str]]:
    return server(" ".join(["--ttft 10ms --itl 0 --seed {seed}", *flags]))


def health(answered: Answer) -> dict:
    answered.must_end_with(0)
    return answered.summary()["output_health"]


def valid(answered: Answer) -> None:
    found = health(answered)
    check(found["verdict"] == "valid", f"outputs {found['verdict']}: {found.get('faults')}")
    check(found["corrupted_outputs"] == 0, f"{found['corrupted_outputs']} corrupted outputs")


def found_as(fault: str) -> Callable[[Answer], None]:
    """The fault must be a reason for doubt."""

    def judge(answered: Answer) -> None:
        reasons = [it["fault"] for it in health(answered).get("faults", []) if it["is_reason"]]
        check(fault in reasons, f"the reasons are {reasons}")

    return judge


def crosstalk(answered: Answer) -> None:
    found = health(answered)
    reasons = [it["fault"] for it in found["faults"] if it["is_reason"]]
    check(found["verdict"] == "invalid", f"outputs {found['verdict']}")
    check(reasons in (["crosstalk"], ["leaked"]), f"the reasons are {reasons}")
    check(found["corrupted_outputs"] == 1, f"{found['corrupted_outputs']} corrupted outputs")


OUTPUTS = [
    Card("output-sound", "nothing is wrong", mock(), profile("", BASE), valid, is_random=True, is_short=False),
    Card("output-varies", "nothing is wrong, but texts vary with the batch", mock("--batch-variance 30%"),
         profile("", BASE), valid, is_random=True, is_short=False),
    Card("output-canaries", "nothing is wrong", mock(), profile("--canaries 5%", BASE), valid, is_random=True,
         is_short=False),
    Card("output-canaries-vary", "nothing is wrong, but texts vary with the batch",
         mock("--batch-variance 30%"), profile("--canaries 5%", BASE), valid, is_random=True, is_short=False),
    *(Card(f"output-{kind}", "0.5% above 8 in flight", mock(f"--fault rate=0.5%,above=8:corrupt={kind}"),
           profile("", BASE), found_as(fault), is_random=True, is_short=False) for kind, fault in KINDS.items()),
    Card("output-crosstalk", "one of 2,000", mock("--fault requests=1100:corrupt=crosstalk"),
         profile("", BASE), crosstalk, is_short=False),
    Card("output-truncated", "5% of the answers are cut", mock("--fault rate=5%,above=9:corrupt=truncated"),
         profile("--canaries 5%", BASE), found_as("canary_wrong"), is_random=True, is_short=False),
]  # fmt: skip
