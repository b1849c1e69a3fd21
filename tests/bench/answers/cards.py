"""The cards: servers, commands, and what is true of them."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import truths
from asking import COMMON, Answer, Undecided, check

TOO_SHORT = r"too short to tell|cannot be told|cannot tell"
BASE = [*COMMON, "--isl", "32", "--osl", "1", "--streaming", "--no-server-metrics"]


@dataclass
class Card:
    """A question to the program."""

    name: str
    # What is true, in words.
    truth: str
    # The flags of each mock server, which may have the `{seed}`.
    servers: list[list[str]]
    # Returns the commands, of the servers' `urls`, the `seed` and the directory (`dir`).
    commands: Callable[[dict], list[list]]
    # Raises `Wrong` or `Undecided` unless the answer is right.
    judge: Callable[[Answer], None]
    # Whether chance is part of the server, the arrivals or the answer.
    is_random: bool = False
    # Whether it takes a few seconds.
    is_short: bool = True


def server(text: str) -> list[list[str]]:
    """Returns the flags of one server."""
    return [text.split()]


def profile(text: str, base: list[str] = BASE, place: str = "run") -> Callable[[dict], list[list]]:
    """Returns one `aiperf profile` with these flags, against all servers."""

    def commands(given: dict) -> list[list]:
        seed = ["--random-seed", given["seed"]]
        urls = ["--url", *given["urls"]]
        return [["profile", *base, *text.split(), *urls, *seed, "--artifact-dir", place]]

    return commands


def then(first: Callable[[dict], list[list]], *more: list[str]) -> Callable[[dict], list[list]]:
    """Returns the commands of `first`, followed by others."""
    return lambda given: [*first(given), *more]


def load(answered: Answer) -> str:
    """Returns the verdict on the load."""
    return (answered.summary().get("load_health") or {}).get("verdict", "none")


def never_saturated(answered: Answer) -> None:
    answered.must_end_with(0)
    check(load(answered) not in ("saturated", "not_stationary"), f"load {load(answered)}")
    answered.must_not_say(r"load: (saturated|not stationary)|served 0\.0")


def sustained(answered: Answer) -> None:
    never_saturated(answered)
    if load(answered) == "too_short_to_tell":
        raise Undecided("too short to tell")
    check(load(answered) == "sustained", f"load {load(answered)}")


def saturated(answered: Answer) -> None:
    if load(answered) == "too_short_to_tell":
        raise Undecided("too short to tell")
    check(load(answered) == "saturated", f"load {load(answered)}")


def not_stationary(answered: Answer) -> None:
    if load(answered) == "too_short_to_tell":
        raise Undecided("too short to tell")
    check(load(answered) == "not_stationary", f"load {load(answered)}")
    answered.must_say("not stationary")


def rejected(answered: Answer) -> None:
    check(load(answered) != "saturated", "load saturated")
    answered.must_not_say("load: saturated")
    answered.must_say(r"33\.?\d*% .*429|429.* 33\.?\d*%")


def failed(share: str, reason: str) -> Callable[[Answer], None]:
    def judge(answered: Answer) -> None:
        check(load(answered) != "saturated", "load saturated")
        answered.must_say(share)
        answered.must_say(reason)

    return judge


def all_failed(answered: Answer) -> None:
    check(answered.code != 0, "exit code 0")
    answered.must_not_say(r"^load:|load: |steady state|server and client agree")


def one_request(answered: Answer) -> None:
    answered.must_end_with(0)
    answered.must_say(r"time to first token")
    answered.must_not_say(r"load: (sustained|saturated)|served|offered")


def says(
    *patterns: str, but_not: str = "", code: int | None = 0, unless: str = ""
) -> Callable[[Answer], None]:
    """All patterns must be in the text of the last command, unless it says that the data cannot tell."""

    def judge(answered: Answer) -> None:
        if code is not None:
            answered.must_end_with(code)
        if unless and answered.has(unless):
            raise Undecided(f"says {unless!r}")
        for pattern in patterns:
            answered.must_say(pattern)
        if but_not:
            answered.must_not_say(but_not)

    return judge


def cached_share(run: str, answered: Answer) -> float:
    cached = [record["metrics"].get("usage_prompt_cache_read_tokens") for record in answered.records(run)]
    prompts = [record["metrics"]["usage_prompt_tokens"]["value"] for record in answered.records(run)]
    return sum(one["value"] for one in cached if one) / sum(prompts)


def fresh(*runs: str) -> Callable[[Answer], None]:
    def judge(answered: Answer) -> None:
        answered.must_end_with(0)
        for run in runs:
            share = cached_share(run, answered)
            check(share < 0.01, f"{100 * share:.1f}% of the prompt tokens of {run} were cached")

    return judge


def repeats_differ(answered: Answer) -> None:
    runs = [f"run/profile_runs/run_{number:04}" for number in (1, 2, 3)]
    percentiles = [answered.summary(run)["request_latency"]["p95"] for run in runs]
    spread = (max(percentiles) - min(percentiles)) / min(percentiles)
    check(spread > 0.02, f"three repeats have the p95 {percentiles}")


def number(pattern: str, answered: Answer) -> float:
    found = re.search(pattern, answered.screen, re.IGNORECASE)
    check(found is not None, f"does not say {pattern!r}")
    return float(found[1].replace(",", ""))


def limit_is(truth: Callable[[], float], tolerance: float = 0.0) -> Callable[[Answer], None]:
    """The interval of a search's limit must have the truth, up to a relative tolerance of its ends."""

    def judge(answered: Answer) -> None:
        limit = answered.file("run/search_history.json")["limit"]
        low, high = limit["shown_met_until"], limit["shown_missed_from"]
        true = truth()
        if low is None and high is None:
            raise Undecided("no load is shown to meet or to miss the condition")
        has_low = low is None or low <= true * (1 + tolerance)
        has_high = high is None or true * (1 - tolerance) < high
        check(has_low and has_high, f"between {low} and {high}, and {true:.1f} is true")
        if low is None or high is None:
            raise Undecided(f"between {low} and {high}")
        if high - low > max(0.35 * true, 1):
            raise Undecided(f"only between {low} and {high}")

    return judge


def knee_is(low: float, high: float, rate: float) -> Callable[[Answer], None]:
    def judge(answered: Answer) -> None:
        found = answered.file("run/sweep_aggregate/profile_export_aiperf_sweep.json")["saturation"]
        knee = found["knee"]
        check(knee is not None, "throughput is said not to grow")
        check(low <= knee["value"] <= high, f"knee {knee['value']:.2f}")
        within = found["grows_until"] <= knee["value"] <= found["saturated_from"]
        check(within, f"{knee['value']:.2f} is outside of its brackets")
        throughput = found["request_throughput"]["value"]
        check(abs(throughput / rate - 1) < 0.03, f"throughput {throughput:.1f}")

    return judge


def gates_hold(answered: Answer) -> None:
    answered.must_end_with(0)
    gates = {gate["gate"]: gate for gate in answered.summary("run")["gates"]}
    check(len(gates) == 4 and all(gate["held"] for gate in gates.values()), f"gates {gates}")
    first = gates["time_to_first_token:p90<=250ms"]["value"]
    check(30 <= first < 60, f"time to first token p90 {first} ms")
    latency = answered.summary("run")["request_latency"]["avg"]
    check(44 <= latency < 88, f"request latency {latency} ms")


def changed(**percent: float) -> Callable[[Answer], None]:
    """The comparison has these differences of averages in percent, up to one."""

    def judge(answered: Answer) -> None:
        answered.must_end_with(3)
        for metric, expected in percent.items():
            found = number(rf"{metric} avg.*?([-+][\d.]+)%", answered)
            check(abs(found - expected) <= 1, f"{metric} {found}%")

    return judge


def highest_throughput(rate: float, tolerance: float) -> Callable[[Answer], None]:
    def judge(answered: Answer) -> None:
        answered.must_end_with(0)
        said = number(r"(?:highest throughput|throughput)[^\n]*?([\d.,]+\d) ?requests/s", answered)
        check(abs(said / rate - 1) <= tolerance, f"says {said} requests/s")

    return judge


def users_are(truth: Callable[[], int]) -> Callable[[Answer], None]:
    def judge(answered: Answer) -> None:
        said = number(r"up to ([\d.,]*\d) users", answered)
        check(abs(said / truth() - 1) <= 0.05, f"says {said} users, and {truth()} is true")

    return judge


def difference_is(percent: float, within: float) -> Callable[[Answer], None]:
    def judge(answered: Answer) -> None:
        found = answered.file("run/ab.json")["comparisons"][0]
        rows = [row for row in found["rows"] if row["metric"] == "request_throughput"]
        check(bool(rows), "request throughput is not compared")
        change = rows[0]["difference_percent"]
        check(abs(change - percent) <= within, f"{change:.2f}%")

    return judge


# Where `explain` cannot tell whether the throughput grew.
UNKNOWN_GROWTH = r"Whether the throughput grew from concurrency \d+ to \d+ is not known"


def explained(text: str, *patterns: str, base: list[str] = BASE, but_not: str = "", unless: str = "") -> dict:
    """Returns the commands and the judge of a run that is explained."""
    run = then(profile(text, base), ["explain", "run"])
    return {"commands": run, "judge": says(*patterns, but_not=but_not, unless=unless)}


WITH_SERVER = [flag for flag in BASE if flag != "--no-server-metrics"]
STREAM = [*COMMON, "--isl", "32", "--streaming", "--no-server-metrics"]
CACHE = "--prefix-cache-blocks 100000 --prefill-per-token 200us"

LOAD = [
    Card("load-short-constant", "not saturated", server("--ttft 680ms"),
         profile("--request-rate 20 --request-count 10 --arrival-pattern constant"), never_saturated),
    Card("load-short-poisson", "not saturated", server("--ttft 680ms"),
         profile("--request-rate 20 --request-count 10"), never_saturated, is_random=True),
    Card("load-long-latency", "not saturated", server("--ttft 5300ms"),
         profile("--request-rate 2 --request-count 10 --arrival-pattern constant"), never_saturated,
         is_short=False),
    Card("load-long-latency-poisson", "not saturated", server("--ttft 5300ms"),
         profile("--request-rate 2 --request-count 10"), never_saturated, is_random=True, is_short=False),
    Card("load-57%-10s", "sustained", server("--ttft 190ms --max-concurrent 16"),
         profile("--request-rate 48 --benchmark-duration 10"), sustained, is_random=True, is_short=False),
    Card("load-57%-30s", "sustained", server("--ttft 190ms --max-concurrent 16"),
         profile("--request-rate 48 --benchmark-duration 30"), sustained, is_random=True, is_short=False),
    Card("load-95%", "not saturated", server("--ttft 190ms --max-concurrent 16"),
         profile("--request-rate 80 --benchmark-duration 20"), never_saturated, is_random=True,
         is_short=False),
    Card("load-109%", "saturated", server("--ttft 190ms --max-concurrent 16"),
         profile("--request-rate 92 --benchmark-duration 30 --arrival-pattern constant"), saturated,
         is_short=False),
    Card("load-150%", "saturated", server("--ttft 100ms --max-concurrent 4"),
         profile("--request-rate 60 --benchmark-duration 20"), saturated, is_random=True, is_short=False),
    Card("load-one-request", "latencies, and nothing else", server("--ttft 50ms"),
         profile("--request-count 1"), one_request),
    Card("load-three-requests", "not saturated", server("--ttft 50ms"),
         profile("--request-count 3 --concurrency 2"), never_saturated),
    Card("load-closed-loop", "nothing is offered", server("--ttft 50ms"),
         profile("--request-count 200 --concurrency 4"), says("succeeded", but_not="offered")),
    Card("load-drift", "latency grows by 1% a second", server("--ttft 100ms --drift 1%"),
         profile("--concurrency 4 --benchmark-duration 25"), not_stationary, is_short=False),
    Card("load-doubles", "latency doubles in 20 s", server("--ttft 100ms --drift 5%"),
         profile("--request-rate 20 --benchmark-duration 20"), not_stationary, is_random=True,
         is_short=False),
    Card("load-429", "33% rejected", server("--ttft 50ms --fault every=3:status=429"),
         profile("--concurrency 4 --request-count 300"), rejected),
    Card("load-500", "20% failed", server("--ttft 50ms --fault every=5:status=500"),
         profile("--concurrency 4 --request-count 200"), failed(r"20\.0 ?%", "500")),
    Card("load-cut", "25% cut off", server("--ttft 20ms --itl 5ms --fault every=4:cut=3"),
         profile("--concurrency 4 --request-count 200 --osl 8", STREAM), failed(r"25\.0 ?%", "connection")),
    Card("load-rate-limit", "rejected by a rate limit", server("--ttft 50ms --rate-limit 10"),
         profile("--request-rate 20 --benchmark-duration 8"),
         failed(r"\d ?%.*429|429.*\d ?%", "429"), is_random=True),
    Card("load-all-failed", "no verdict", server("--fault all:status=503"),
         profile("--concurrency 4 --request-count 20"), all_failed),
    Card("load-timeouts", "10% time out", server("--ttft 20ms --fault every=10:hang"),
         profile("--concurrency 4 --request-count 100 --request-timeout-seconds 1"),
         failed(r"10\.0 ?%", "--request-timeout-seconds")),
    Card("load-cancelled", "20% cancelled, no errors", server("--ttft 100ms"),
         profile("--concurrency 4 --request-count 300 --request-cancellation-rate 20"),
         says("cancelled", but_not=r"errors +(5|6|7)\d "), is_random=True),
    Card("load-goodput", "half are good", server("--ttft 50ms --fault every=2:stall=0,100ms"),
         profile("--concurrency 4 --request-count 200 --goodput time_to_first_token:100"),
         says(r"50(\.0)? ?%", "time.to.first.token")),
    Card("load-gateway", "events come in groups of 16", server("--ttft 30ms --itl 10ms --chunks-together 16"),
         profile("--concurrency 4 --request-count 40 --osl 64", STREAM), says("groups of 1[56]")),
]  # fmt: skip

FRESH = [
    Card("fresh-duration", "no prompt twice", server(f"--ttft 5ms {CACHE}"),
         profile("--concurrency 4 --benchmark-duration 3"), fresh("run")),
    Card("fresh-count", "no prompt twice", server(f"--ttft 5ms {CACHE}"),
         profile("--concurrency 4 --request-count 500"), fresh("run")),
    Card("fresh-sweep", "no prompt twice", server(f"--ttft 5ms {CACHE}"),
         profile("--concurrency 1,4 --request-count 150"), fresh("run/concurrency_1", "run/concurrency_4")),
    Card("fresh-repeats", "no prompt twice", server(f"--ttft 5ms {CACHE}"),
         profile("--concurrency 4 --request-count 100 --num-profile-runs 2"),
         fresh("run/profile_runs/run_0001", "run/profile_runs/run_0002")),
    Card("fresh-arrivals", "repeats differ", server("--ttft 50ms --max-concurrent 4"),
         profile("--request-rate 60 --request-count 150 --num-profile-runs 3"), repeats_differ,
         is_random=True, is_short=False),
    Card("fresh-unless-asked", "prompts repeat, as asked", server(f"--ttft 5ms {CACHE}"),
         profile("--concurrency 4 --request-count 100 --num-dataset-entries 10"),
         says("succeeded", but_not="prompts-repeat")),
]  # fmt: skip

LIMITS = [
    Card("search-prefix-cache", "8", server("--ttft 100ms --max-concurrent 8 --prefix-cache-blocks 100000 "
         "--prefill-per-token 2ms"),
         profile("--search-recipe max-concurrency-under-sla --search-sla request_latency:p95<=200ms "
                 "--concurrency-max 64"), limit_is(lambda: 8), is_short=False),
    Card("search-stalls", "48", server("--ttft 62ms --max-concurrent 16 --fault requests=300,301:stall=0,400ms"),
         profile("--search-recipe max-concurrency-under-sla --search-sla request_latency:p99<=200ms "
                 "--concurrency-max 200"), limit_is(lambda: 48), is_random=True, is_short=False),
    Card("search-rate", "29.0 requests/s", server("--ttft 100ms --max-concurrent 4"),
         profile("--search-recipe max-concurrency-under-sla --search-sla request_latency:p95<=200ms "
                 "--request-rate-min 5 --request-rate-max 100"),
         limit_is(lambda: truths.highest_rate(4, 0.1, 95, 0.2)), is_random=True, is_short=False),
    Card("search-no-limit", "above the range", server("--ttft 50ms"),
         profile("--search-recipe max-concurrency-under-sla --search-sla request_latency:p95<=200ms "
                 "--concurrency-max 16"), says("at least 16|higher|whole range"), is_short=False),
    Card("sweep-no-limit", "throughput still grew", server("--ttft 50ms"),
         then(profile("--concurrency 1,2,4,8,16 --request-count 100"), ["capacity", "run"]),
         says("at least|still gr", but_not="saturat"), is_short=False),
    Card("sweep-auto", "10 slots of 40 ms: 250/s", server("--ttft 40ms --max-concurrent 10"),
         profile("--sweep-auto --concurrency-max 64"), knee_is(9.5, 10.5, 250), is_short=False),
    Card("capacity-slots", "84.2 requests/s", server("--ttft 190ms --max-concurrent 16"),
         then(profile("--concurrency 1,4,8,16,32,64 --request-count 100"), ["capacity", "run"]),
         highest_throughput(84.2, 0.03), is_short=False),
    Card("capacity-users", "people who think for 10 s", server("--ttft 227ms --max-concurrent 16"),
         then(profile("--concurrency 1,4,8,16,32,64 --request-count 150"),
              ["capacity", "run", "--users", "100", "--think-time", "10", "--objective",
               "time_to_first_token:p95<=327ms"]),
         users_are(lambda: truths.most_users(16, 0.227, 10.0, 95, 0.1)), is_short=False),
    Card("capacity-rates", "84.2 requests/s", server("--ttft 190ms --max-concurrent 16"),
         then(profile("--request-rate 16,32,48,64,76,100 --request-count 800"), ["capacity", "run"]),
         highest_throughput(84.2, 0.05), is_random=True, is_short=False),
    Card("docs-capacity", "no limit: throughput still grew", server("--ttft 50ms"),
         then(profile("--concurrency 1,2,4,8,16 --request-count 100"),
              ["capacity", "run", "--users", "500", "--think-time", "10", "--objective",
               "time_to_first_token:p99<=5s"]),
         says("Highest throughput: at least", "500 users need 1 replica"), is_short=False),
    Card("docs-sweep-auto", "3 slots: 30/s", server("--ttft 100ms --max-concurrent 3"),
         profile("--sweep-auto --concurrency-max 64"), knee_is(2.8, 3.2, 30), is_short=False),
    Card("docs-search", "every load to 4", server("--ttft 30ms --itl 2ms"),
         profile("--osl 4 --request-count 20 --goodput request_latency<=2s --search-recipe "
                 "max-goodput-under-slo --concurrency-max 4", STREAM),
         says("at concurrency 4;", "concurrency 4, the highest load to try"), is_short=False),
    Card("prefill-constant", "TTFT does not depend on the length", server("--ttft 40ms"),
         profile("--search-recipe prefill-ttft-curve --isl-min 32 --isl-max 512 --isl-steps 4 "
                 "--request-count 20", [*COMMON, "--osl", "1", "--streaming", "--no-server-metrics"]),
         says("does not depend|doesn't depend"), is_short=False),
]  # fmt: skip

CAUSES = [
    Card("explain-server-queue", "16 slots, 64 in flight", server("--ttft 100ms --max-concurrent 16"),
         **explained("--concurrency 64 --request-count 1000", "server", "queue|waiting",
                     base=WITH_SERVER, but_not="concurrency limits the throughput")),
    Card("explain-concurrency", "4 in flight, no limit", server("--ttft 100ms"),
         **explained("--concurrency 4 --request-count 100", "concurrency limits the throughput",
                     base=WITH_SERVER)),
    Card("explain-rate", "the load as configured", server("--ttft 100ms"),
         **explained("--request-rate 20 --concurrency 1 --request-count 100", "concurrency",
                     but_not="server limits")),
    Card("explain-rate-limit", "429", server("--ttft 50ms --rate-limit 10"),
         **explained("--concurrency 4 --request-count 400", "rate limit", "429")),
    Card("explain-think-time", "6 sessions that think for 2 s", server("--ttft 50ms"),
         **explained("--concurrency 6 --num-sessions 12 --session-turns-mean 4 --session-turn-delay-mean "
                     "2000", "think|delay"), is_short=False),
    Card("explain-slow-url", "the second server is twice as slow",
         [["--ttft", "50ms"], ["--ttft", "100ms"]],
         **explained("--concurrency 8 --request-count 300", r"127\.0\.0\.1:\d+[^\n]*slower")),
    Card("explain-cold-start", "the first 20 take 1 s longer",
         server("--ttft 50ms --fault first=20:stall=0,1s"),
         **explained("--concurrency 4 --request-count 400", "first .*requests|cold")),
    Card("explain-silence", "nothing for 1.5 s from 3 s on",
         server("--ttft 20ms --itl 10ms --silence 3s,1.5s"),
         **explained("--concurrency 8 --benchmark-duration 6 --osl 100", "no event", "1.5 s", base=STREAM)),
    Card("silence-on-screen", "nothing for 1.5 s from 3 s on",
         server("--ttft 20ms --itl 10ms --silence 3s,1.5s"),
         profile("--concurrency 8 --benchmark-duration 6 --osl 100", STREAM), says("! .*1.5 s")),
    Card("explain-pauses", "every 40th output pauses for 700 ms",
         server("--ttft 20ms --itl 5ms --fault every=40:stall=10,700ms"),
         **explained("--concurrency 8 --request-count 480 --osl 24", r"1[0-3] of 480 .*paused", "70\\d ms",
                     base=STREAM)),
    Card("explain-sweep", "8 slots", server("--ttft 50ms --max-concurrent 8"),
         **explained("--concurrency 4,8,16 --request-count 160", "from concurrency 8 to 16",
                     "server limits", unless=UNKNOWN_GROWTH)),
    Card("explain-sweep-no-limit", "the limit is not reached", server("--ttft 50ms"),
         **explained("--concurrency 2,4,8 --request-count 80", "limit is not reached",
                     unless=UNKNOWN_GROWTH)),
    Card("explain-search", "8 slots", server("--ttft 50ms --max-concurrent 8"),
         **explained("--search-recipe max-concurrency-under-sla --search-sla request_latency:p95<=80ms "
                     "--concurrency-max 32", "highest concurrency 8", "server limits"), is_short=False),
    Card("explain-cached", "prompts were cached", server(f"--ttft 5ms {CACHE}"),
         **explained("--concurrency 4 --request-count 200 --num-dataset-entries 10", "cache")),
    Card("explain-worker", "one of three workers is slower",
         server("--ttft 50ms --report-timing dynamo --workers 3 --fault every=3:stall=0,100ms"),
         **explained("--concurrency 6 --request-count 300", "worker[^\n]*slower")),
]  # fmt: skip


def compare(*flags: str) -> Callable[[dict], list[list]]:
    """Returns two runs with these flags, and their comparison."""

    def commands(given: dict) -> list[list]:
        one, other = (profile(text, place=place) for text, place in zip(flags, ("a", "b"), strict=True))
        return [*one(given), *other(given), ["compare", "a", "b"]]

    return commands


def changed_server(text: str) -> Callable[[dict], list[list]]:
    """Returns a run against the first server and one against the second, and their comparison."""

    def commands(given: dict) -> list[list]:
        runs = [
            profile(text, STREAM, place)({**given, "urls": [url]})[0]
            for url, place in zip(given["urls"], ("before", "after"), strict=True)
        ]
        return [*runs, ["compare", "before", "after"]]

    return commands


def blocks(given: dict) -> list[list]:
    """Returns a comparison of two servers in blocks of 1 s."""
    return [["ab", *given["urls"], "--pairs", "12", "--block-duration", "1", "--settle", "0.3", "--",
             *BASE, "--concurrency", "8", "--random-seed", given["seed"], "--artifact-dir", "run"]]  # fmt: skip


COMPARISONS = [
    Card("gate-p99-of-50", "undecided", server("--ttft 50ms --jitter 10%"),
         profile("--concurrency 4 --request-count 50 --gate time_to_first_token:p99<=100ms"),
         says("needed", code=4)),
    Card("gate-p50-of-50", "holds", server("--ttft 50ms --jitter 10%"),
         profile("--concurrency 4 --request-count 50 --gate time_to_first_token:p50<=100ms"), says("held|✓|ok")),
    Card("compare-other-load", "different loads", server("--ttft 20ms"),
         compare("--concurrency 32 --request-count 300", "--concurrency 8 --request-count 300"),
         says("different loads", "concurrency", code=4)),
    Card("docs-gates", "30 ms and 7 times 2 ms", server("--ttft 30ms --itl 2ms"),
         profile("--osl 8 --request-count 50 --concurrency 4 --gate time_to_first_token:p90<=250ms "
                 "--gate request_error_rate<=1% --gate request_throughput>=20 "
                 "--gate client_health==valid", STREAM), gates_hold, is_short=False),
    Card("docs-compare", "440 and 470 ms",
         [["--ttft", "300ms", "--itl", "20ms"], ["--ttft", "330ms", "--itl", "20ms"]],
         changed_server("--osl 8 --request-count 200 --concurrency 4"),
         changed(request_throughput=-6.4, time_to_first_token=10.0, request_latency=6.8), is_short=False),
    Card("synthesize-max-isl", "no first prompt fits", [],
         lambda _: [["synthesize", "agentic-code", "--num-sessions", "5", "--max-isl", "1000", "--output",
                     "traces"]],
         says("first one of each session", "--max-isl", code=1)),
    Card("compare-same", "no regression", server("--ttft 20ms --jitter 20%"),
         compare("--concurrency 8 --request-count 300", "--concurrency 8 --request-count 300"),
         says(code=None, but_not="regression: ")),
    Card("ab-4%-slower", "-4% of throughput", [["--ttft", "300ms"], ["--ttft", "312ms"]], blocks,
         difference_is(-3.85, 1.5), is_short=False),
]  # fmt: skip

CARDS = [*LOAD, *FRESH, *LIMITS, *CAUSES, *COMPARISONS]
