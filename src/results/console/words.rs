//! Words of the screens that are not names of metrics, warnings, flags or concepts, for
//! `aiperf explain`.

/// A word with its other spellings, and what it means.
pub const WORDS: &[(&[&str], &str)] = &[
    (
        &["needs", "in parentheses"],
        "A percentile in parentheses comes from too few requests for a 95% confidence interval. It takes 6 for \
         p50, 36 for p90, 72 for p95 and 368 for p99.",
    ),
    (
        &["p50 95% CI", "CI", "ci low", "ci high", "Interval", "±"],
        "A confidence interval: of 100 runs like this one, the intervals of about 95 contain the value that \
         an endless run would have.",
    ),
    (
        &["p50", "p90", "p95", "p99", "min", "max", "percentile"],
        "Of a metric's values over the requests: 99% are at most p99; `min` is the lowest, `max` the \
         highest.",
    ),
    (
        &["avg", "mean", "std", "cv", "Statistic", "mean of run"],
        "Of a metric's values: `avg` or `mean` is their average, `std` their standard deviation, and `cv` \
         that divided by the average.",
    ),
    (&["in flight"], "Requests that were sent and whose responses have not ended."),
    (
        &["running", "waiting", "queue"],
        "Requests that the server is processing, and those that it has accepted and not started, as its \
         own metrics report.",
    ),
    (
        &["prefill", "decode", "KV transfer", "Time"],
        "Where the server spent the time of a request: `prefill` reads the prompt, `decode` writes the \
         output, and `KV transfer` moves the cache from the engine of one to that of the other.",
    ),
    (
        &["Server and client agree"],
        "The server's metrics count as many requests and tokens as this client.",
    ),
    (
        &["Gates", "Held", "Not held", "Undecided", "Limit", "Margin"],
        "A gate is a limit that the run must meet (`--gate`), undecided if the run is too short to tell: \
         `aiperf explain gate` has the syntax.",
    ),
    (
        &["Conditions", "Met", "missed"],
        "Whether a load meets the objectives of the search: `met`, `missed`, or `cannot tell` if more \
         requests are needed.",
    ),
    (
        &["Finding", "cannot tell", "no difference", "regression", "improvement", "within gate"],
        "What a comparison concludes of a metric. `cannot tell`: there are too few requests, or the runs are \
         not comparable. `undecided`: the interval contains both no difference and one that matters.",
    ),
    (
        &["BASE", "NEW", "Difference"],
        "The run that is compared with, the one that is judged, and by how much it differs.",
    ),
    (
        &["knee"],
        "The lowest load at which the throughput stops growing; beyond it, requests only wait longer.",
    ),
    (
        &["Pareto"],
        "Marked with * if no other load is at least as good in throughput and latency, and better in one \
         of them.",
    ),
    (&["best"], "The load that a search recommends."),
    (
        &["client delays"],
        "How much higher the throughput may have been if the client had not been late, in percent.",
    ),
    (
        &["in the long run"],
        "The throughput without the effects of the start and the end of the run.",
    ),
    (
        &["Errors", "Failed", "Code", "Type", "Message", "Count"],
        "Requests that failed: how many, with which HTTP status (code), type and message of the server.",
    ),
    (
        &["Phase", "from s", "Lat."],
        "A part of the run with a load of its own; `from s` is when it started. See `aiperf explain phases`.",
    ),
    (
        &["Share", "Slowdown", "Tenant", "Fairness", "Fairness (Jain's index)"],
        "Tenants share the server. `Slowdown` is a tenant's latency relative to that of all, and Jain's index \
         of the throughputs is 1 if all are served alike and 1/n if one of n has everything.",
    ),
    (
        &["Replay", "lanes", "barriers", "sub-agents"],
        "A lane replays one trace of an agent after another. A request is held by a barrier until the \
         requests before it have ended.",
    ),
    (
        &["GPUs"],
        "Throughput, energy and cost of the GPUs that --gpu-telemetry or --num-gpus names.",
    ),
    (
        &["predicted", "measured"],
        "The value at this load as predicted from runs at other loads, and as measured afterwards.",
    ),
    (
        &["busiest worker", "stolen", "CPU pressure"],
        "How the client's machine affected it: the share of a core that its busiest thread used, the CPU time \
         that a hypervisor gave to other machines, and the time in which threads waited for a core.",
    ),
    (&["Series"], "Combinations of labels that a metric of the server has."),
    (
        &["Steady requests/s", "Steady req/s"],
        "The requests per second of the steady state: see `aiperf explain 'steady state'`.",
    ),
    (&["longest gap", "gap"], "The longest time between two events of a stream."),
    (&["Files"], "Where the results are."),
];
