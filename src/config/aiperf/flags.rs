//! Flags of the Python AIPerf that this program does not have, in one table.
//!
//! A flag of AIPerf is never ignored: it either works, or is rejected with advice on what
//! to do instead. Flags are accepted without effect only if they ask for what this program
//! does anyway.

/// Flags that are rejected, separated by spaces, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    // Input
    // Output
    (
        "--wandb-project --wandb-entity --wandb-run-name --wandb-tag",
        "log the files with its own client, as docs/decisions/trackers.md shows",
    ),
    // ZMQ Communication
    ("--zmq-host --zmq-ipc-path --zmq-dual-bind", "aiperf is a single process"),
    // Accuracy
    (
        "--accuracy-benchmark --accuracy-tasks --accuracy-n-shots --accuracy-enable-cot \
         --accuracy-no-enable-cot --accuracy-grader --accuracy-system-prompt --accuracy-verbose",
        "responses are not graded; another program does that, as docs/decisions/accuracy.md \
         explains",
    ),
    // Multi-Run
    (
        "--optuna-sampler --optuna-acquisition --optuna-terminator --bo-constraint-mode",
        "aiperf does not use Optuna; remove the flag",
    ),
    (
        "--search-percentile-pooling",
        "with --num-profile-runs, aggregate/profile_export_aiperf_collated.json has percentiles over \
         the requests of all runs",
    ),
    ("--search-sla-tier", "make a search for each tier, with --search-sla"),
];

/// Flags of GenAI-Perf, AIPerf's predecessor, and of the Performance Analyzer that it starts,
/// separated by spaces, and what to do instead.
const GENAI_PERF: &[(&str, &str)] = &[
    (
        "--service-kind",
        "use --endpoint-type for the API (--endpoint-type chat for `openai`); a server without an \
         HTTP API, such as `tensorrtllm_engine`, cannot be measured",
    ),
    ("--backend", "remove it; requests are those of the API that --endpoint-type names"),
    (
        "--measurement-interval --measurement-mode",
        "use --benchmark-duration SECONDS for a time or --request-count for a number of requests; \
         both cover one phase, and not windows that are repeated",
    ),
    ("--measurement-request-count", "use --request-count"),
    (
        "--stability-percentage --max-trials",
        "use --num-profile-runs with --convergence-metric to repeat a run until its results agree, \
         and see the steady state of each run",
    ),
    (
        "--trust-remote-code",
        "aiperf never runs code from a model; use --tokenizer, which reads the files of a model",
    ),
    ("--session-concurrency", "use --concurrency, which is a number of sessions"),
    ("--session-turn-delay-ratio", "use --session-delay-ratio"),
    ("--num-system-prompts", "use --num-prefix-prompts and --prefix-prompt-length"),
    ("--server-metrics-url --server-metrics-urls", "use --server-metrics or --gpu-telemetry"),
    ("--generate-plots", "use aiperf plot DIR, or --html for a page"),
    (
        "--checkpoint-dir --enable-checkpointing",
        "use --resume, which continues the runs of a sweep in its --artifact-dir",
    ),
    ("--input-dataset", "use --public-dataset; `aiperf dataset list` lists them"),
    (
        "--output-tokens-mean-deterministic",
        "use --osl with --extra-inputs ignore_eos:true and --extra-inputs min_tokens:N",
    ),
    (
        "--sweep-list --sweep-range --sweep-min --sweep-max --sweep-step --concurrency-range \
         --request-rate-range",
        "give a flag several values, as in --concurrency 1,2,4,8 or --request-rate 1,2,4",
    ),
    ("--latency-threshold", "use --goodput for requests and --gate for statistics"),
    ("--percentile", "every result has its percentiles; use --gate to limit one"),
    ("--max-threads --num-threads --max-local-threads", "use --workers-max"),
    ("--async --sync", "remove it; a request never waits for another one"),
    (
        "--grpc-method --model-filenames --engine-dir --request-period --request-parameter --shape \
         --string-length --shared-memory --output-shared-memory-size",
        "it is for Triton's own protocol, which aiperf does not speak; use the server's OpenAI API",
    ),
];

/// The rejected flags that are switches and off by default: turning one off is accepted.
pub(crate) const REFUSED_SWITCHES: &str = "\
    --accuracy-enable-cot --accuracy-no-enable-cot --accuracy-verbose --zmq-dual-bind";

/// Switches accepted without effect: they turn off what is never on here, or turn on what
/// always is.
pub const OFF_SWITCHES: &[&str] =
    &["--allow-dataset-wrap", "--no-allow-dataset-wrap", "--open-loop-replay"];

/// Flags with the only value that is accepted, and what to do instead of another.
pub const ONLY_VALUE: &[(&str, &str, &str)] = &[
    ("--url-strategy", "round-robin", "AIPerf does not support others either"),
    ("--transport", "http", "AIPerf does not support others either"),
    ("--transport-type", "http", "AIPerf does not support others either"),
];

/// Every flag of AIPerf that is rejected, and what to do instead.
pub fn refused() -> impl Iterator<Item = (&'static str, &'static str)> {
    each_of(REFUSED)
}

/// The same for GenAI-Perf.
pub fn of_genai_perf() -> impl Iterator<Item = (&'static str, &'static str)> {
    each_of(GENAI_PERF)
}

fn each_of(
    table: &'static [(&'static str, &'static str)],
) -> impl Iterator<Item = (&'static str, &'static str)> {
    table.iter().flat_map(|(flags, advice)| flags.split(' ').map(move |flag| (flag, *advice)))
}

/// Whether `flag` is a rejected flag that takes no value.
pub(crate) fn is_refused_switch(flag: &str) -> bool {
    REFUSED_SWITCHES.split(' ').any(|switch| switch == flag)
}

/// The error for `flag`, if it is one of the rejected ones.
pub(crate) fn refusal(flag: &str) -> Option<String> {
    let flag = flag.split('=').next().unwrap_or(flag);
    let aiperf = refused().map(|(refused, advice)| ("an AIPerf", refused, advice));
    let genai_perf = of_genai_perf().map(|(refused, advice)| ("a GenAI-Perf", refused, advice));
    let (whose, _, advice) = aiperf.chain(genai_perf).find(|(_, refused, _)| *refused == flag)?;
    Some(format!("{flag} is {whose} flag that aiperf does not support: {advice}"))
}
