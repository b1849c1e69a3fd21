//! Flags that the Python AIPerf has and this program has not, in one table.
//!
//! A flag of AIPerf is never ignored: either it does what it says, or the run
//! is refused, with what to do instead. Only what this program does anyway is
//! accepted without effect.

use clap::{Arg, ArgAction, Command};

const LOOP: &str = "repeat the command or loop over values in the shell; read the results with jq \
                    or DuckDB";

/// Flags that are refused, blanks between them, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    // Endpoint
    (
        "--reset-kv-cache --reset-kv-cache-timeout-seconds --reset-kv-cache-path",
        "restart the server, or call its own path before the run",
    ),
    (
        "--server-profiler --server-profiler-timeout-seconds --server-profiler-start-path \
         --server-profiler-stop-path",
        "start and stop its profiler by its own path",
    ),
    (
        "--per-chunk-usage",
        "ask for it: --extra-inputs \
         stream_options:'{\"include_usage\":true,\"continuous_usage_stats\":true}'",
    ),
    ("--session-header", "the session goes in X-Correlation-ID; other headers by --header"),
    ("--uuid-and-strip", "change the file before the run"),
    // Input
    (
        "--public-dataset",
        "for ShareGPT download its JSON file: --custom-dataset-type sharegpt --input-file FILE; \
         make other sets into a multi-turn file",
    ),
    ("--hf-subset --hf-weka-dataset", "make the set into a multi-turn file"),
    ("--dataset-filter", "choose the rows when you make the file"),
    ("--use-think-time-only", "give --ignore-trace-delays or --session-delay-ratio"),
    ("--max-context-length", "for traces give --synthesis-max-isl"),
    ("--allow-dataset-wrap", "sampling starts over by itself where --request-count asks for more"),
    ("--trace-session-sample-ratio", "shorten the file"),
    ("--config -f", "give the settings as flags"),
    // Output
    ("--auto-plot", "plot the Parquet files"),
    ("--plot-required", "there are no plots"),
    ("--export-outputs-json", "--export-level raw writes the answers"),
    (
        "--mlflow-tracking-uri --mlflow-experiment --mlflow-run-name --mlflow-tag \
         --mlflow-parent-run-id --mlflow-artifact-glob",
        "log the files with the client of MLflow",
    ),
    (
        "--wandb-project --wandb-entity --wandb-run-name --wandb-tag",
        "log the files with the client of W&B",
    ),
    // Tokenizer
    ("--tokenizer-trust-remote-code", "no code of a model is run; take a tokenizer.json"),
    // Load Generator
    (
        "--trajectory-start-min-ratio --trajectory-start-max-ratio --burst-phase-starts",
        "there is no agentic replay",
    ),
    (
        "--trace-idle-gap-cap-seconds --system-idle-gap-cap-seconds",
        "give --inter-turn-delay-cap-seconds",
    ),
    // Scenario
    ("--scenario --unsafe-override", "give the flags of the scenario"),
    // Warmup
    ("--agentic-cache-warmup-duration --agentic-warmup-grace-period", "give --warmup-duration"),
    // Conversation Input
    ("--max-idle-gap-cap-seconds", "give --inter-turn-delay-cap-seconds"),
    (
        "--no-open-loop-replay",
        "later turns keep to their timestamps, or wait for their delays where they have none",
    ),
    ("--omit-kv-hints", "none are sent"),
    (
        "--force-min-tokens",
        "AIPerf forces the output length by default; here give --extra-inputs ignore_eos:true",
    ),
    // Input Sequence Length (ISL)
    ("--random-range-ratio --random-corpus-style", "give --isl-stddev or --seq-dist"),
    // Prompt
    ("--prompt-corpus", "--input-file brings your own text"),
    // Synthesis
    ("--synthesis-speedup-ratio", "give --replay-speedup"),
    (
        "--synthesis-prefix-len-multiplier --synthesis-prefix-root-multiplier \
         --synthesis-prompt-len-multiplier --synthesis-output-len-multiplier",
        "change the trace before the run",
    ),
    // Image Input
    ("--image-source-sampling", "generated images are noise, each another"),
    // Service
    ("--api-port --api-host", "watch the run over OTLP (--otel-url)"),
    ("--stats-interval", "progress is said by --ui simple"),
    // Network Latency
    (
        "--network-latency-automatic --network-latency-mean --network-latency-ping-interval",
        "see http_req_connecting and the other times of --show-trace-timing",
    ),
    // GPU Telemetry
    ("--gpu-telemetry", "scrape the exporter: --server-metrics localhost:9400"),
    // ZMQ Communication
    ("--zmq-host --zmq-ipc-path --zmq-dual-bind", "there is one process"),
    // Accuracy
    (
        "--accuracy-benchmark --accuracy-tasks --accuracy-n-shots --accuracy-enable-cot \
         --accuracy-no-enable-cot --accuracy-grader --accuracy-system-prompt --accuracy-verbose",
        "no answers are judged: --export-level raw writes them, for a judge of your own",
    ),
    // Multi-Run
    (
        "--convergence-metric --convergence-stat --convergence-threshold \
         --convergence-mode --parameter-sweep-cooldown-seconds \
         --parameter-sweep-same-seed --parameter-sweep-mode --sweep-type --search-space \
         --search-metric --search-stat --search-direction --search-max-iterations \
         --search-initial-points --search-random-seed --search-planner --optuna-sampler \
         --optuna-acquisition --optuna-terminator --search-percentile-pooling \
         --bo-constraint-mode --variant --sweep-variant --search-sla --search-sla-tier \
         --isl-osl-pairs --error-rate-sla --search-style --degradation-threshold \
         --degradation-metric-tag --degradation-stat --isl-min --isl-max --isl-steps \
         --concurrency-steps --osl-min --osl-max --osl-steps",
        LOOP,
    ),
];

/// Those of them that are switches, and off by default: turned off they ask for
/// nothing.
const REFUSED_SWITCHES: &str = "\
    --reset-kv-cache --server-profiler --per-chunk-usage --uuid-and-strip \
    --tokenizer-trust-remote-code --use-think-time-only \
    --allow-dataset-wrap --omit-kv-hints --force-min-tokens --burst-phase-starts \
    --unsafe-override --auto-plot --plot-required --export-outputs-json \
    --network-latency-automatic --parameter-sweep-same-seed --accuracy-enable-cot \
    --accuracy-no-enable-cot --accuracy-verbose --no-open-loop-replay --zmq-dual-bind";

/// Switches that turn off what is never on here, or on what always is: accepted
/// without effect.
pub const OFF_SWITCHES: &[&str] = &[
    "--no-auto-plot",
    "--no-allow-dataset-wrap",
    "--open-loop-replay",
    "--no-force-min-tokens",
    "--no-gpu-telemetry",
    "--no-parameter-sweep-same-seed",
    "--no-sweep-table",
];

/// Flags with the one value that says what is done anyway, and what to do
/// instead of another.
pub const ONLY_VALUE: &[(&str, &str, &str)] = &[
    ("--url-strategy", "round-robin", "AIPerf has no other"),
    ("--transport", "http", "AIPerf has no other"),
    ("--transport-type", "http", "AIPerf has no other"),
    (
        "--cache-bust",
        "none",
        "for other targets vary the prompts, or give each conversation a context by \
         --user-context-prompt-length",
    ),
];

/// Adds the flags that are accepted without effect, hidden from the help.
pub(super) fn accept(command: Command) -> Command {
    let name = |flag: &'static str| flag.trim_start_matches('-');
    // `--request-rate -1` is a wrong value, not an unknown flag.
    let command = command.allow_negative_numbers(true);
    let command = OFF_SWITCHES.iter().fold(command, |command, flag| {
        command.arg(Arg::new(*flag).long(name(flag)).action(ArgAction::SetTrue).hide(true))
    });
    ONLY_VALUE.iter().fold(command, |command, &(flag, value, advice)| {
        let only = move |text: &str| only(text, value, advice);
        command
            .arg(Arg::new(flag).long(name(flag)).value_name("VALUE").value_parser(only).hide(true))
    })
}

/// `text` if it is `value`, in any case, `_` being `-`.
fn only(text: &str, value: &'static str, advice: &str) -> Result<&'static str, String> {
    let is_it = text.trim().to_ascii_lowercase().replace('_', "-") == value;
    is_it.then_some(value).ok_or_else(|| format!("{value} only: {advice}"))
}

/// Every flag that is refused, with what to do instead.
pub fn refused() -> impl Iterator<Item = (&'static str, &'static str)> {
    REFUSED.iter().flat_map(|(flags, advice)| flags.split(' ').map(move |flag| (flag, *advice)))
}

/// Whether `flag` is a switch among those that are refused.
pub(super) fn is_refused_switch(flag: &str) -> bool {
    REFUSED_SWITCHES.split(' ').any(|switch| switch == flag)
}

/// Why `flag` is refused, if it is one of AIPerf's that are.
pub(super) fn refusal(flag: &str) -> Option<String> {
    let flag = flag.split('=').next().unwrap_or(flag);
    let (_, advice) = refused().find(|(refused, _)| *refused == flag)?;
    Some(format!("{flag} is an AIPerf flag that aiperf does not have yet: {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_switches_are_refused() {
        for switch in REFUSED_SWITCHES.split(' ') {
            assert!(refusal(switch).is_some(), "{switch} is not among the refused");
        }
    }
}
