//! Flags that the Python AIPerf has and this program has not, in one table.
//!
//! A flag of AIPerf is never ignored: either it does what it says, or the run
//! is refused. Only what this program does anyway is accepted without effect.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command};

/// Flags that are refused with a sentence.
pub const REFUSED: &[&str] = &[
    // Endpoint
    "--reset-kv-cache",
    "--reset-kv-cache-timeout-seconds",
    "--reset-kv-cache-path",
    "--server-profiler",
    "--server-profiler-timeout-seconds",
    "--server-profiler-start-path",
    "--server-profiler-stop-path",
    "--per-chunk-usage",
    "--session-header",
    "--uuid-and-strip",
    // Input
    "--public-dataset",
    "--hf-subset",
    "--hf-weka-dataset",
    "--dataset-filter",
    "--use-think-time-only",
    "--max-context-length",
    "--allow-dataset-wrap",
    "--trace-session-sample-ratio",
    "--config",
    "-f",
    // Output
    "--auto-plot",
    "--plot-required",
    "--export-outputs-json",
    "--mlflow-tracking-uri",
    "--mlflow-experiment",
    "--mlflow-run-name",
    "--mlflow-tag",
    "--mlflow-parent-run-id",
    "--mlflow-artifact-glob",
    "--wandb-project",
    "--wandb-entity",
    "--wandb-run-name",
    "--wandb-tag",
    // Tokenizer
    "--tokenizer-trust-remote-code",
    "--apply-chat-template",
    // Load generator
    "--trajectory-start-min-ratio",
    "--trajectory-start-max-ratio",
    "--burst-phase-starts",
    "--trace-idle-gap-cap-seconds",
    "--system-idle-gap-cap-seconds",
    // Scenario
    "--scenario",
    "--unsafe-override",
    // Warmup
    "--agentic-cache-warmup-duration",
    "--agentic-warmup-grace-period",
    // Conversation input
    "--max-idle-gap-cap-seconds",
    "--no-open-loop-replay",
    "--omit-kv-hints",
    "--force-min-tokens",
    // Sequence lengths, prompt
    "--random-range-ratio",
    "--random-corpus-style",
    "--prompt-corpus",
    // Rankings
    "--rankings-passages-mean",
    "--rankings-passages-stddev",
    "--rankings-passages-prompt-token-mean",
    "--rankings-passages-prompt-token-stddev",
    "--rankings-query-prompt-token-mean",
    "--rankings-query-prompt-token-stddev",
    // Synthesis
    "--synthesis-speedup-ratio",
    "--synthesis-prefix-len-multiplier",
    "--synthesis-prefix-root-multiplier",
    "--synthesis-prompt-len-multiplier",
    "--synthesis-output-len-multiplier",
    // Image and video input
    "--image-source-sampling",
    "--video-batch-size",
    "--batch-size-video",
    "--video-duration",
    "--video-fps",
    "--video-width",
    "--video-height",
    "--video-synth-type",
    "--video-format",
    "--video-codec",
    "--video-audio-sample-rate",
    "--video-audio-num-channels",
    "--video-audio-codec",
    "--video-audio-depth",
    // Service, network latency, GPU telemetry
    "--api-port",
    "--api-host",
    "--stats-interval",
    "--network-latency-automatic",
    "--network-latency-mean",
    "--network-latency-ping-interval",
    "--gpu-telemetry",
    "--zmq-host",
    "--zmq-ipc-path",
    "--zmq-dual-bind",
    // Accuracy
    "--accuracy-benchmark",
    "--accuracy-tasks",
    "--accuracy-n-shots",
    "--accuracy-enable-cot",
    "--accuracy-no-enable-cot",
    "--accuracy-grader",
    "--accuracy-system-prompt",
    "--accuracy-verbose",
    // Multi-run
    "--profile-run-cooldown-seconds",
    "--confidence-level",
    "--profile-run-disable-warmup-after-first",
    "--set-consistent-seed",
    "--vary-seed-per-trial",
    "--convergence-metric",
    "--convergence-stat",
    "--convergence-threshold",
    "--convergence-mode",
    "--parameter-sweep-cooldown-seconds",
    "--parameter-sweep-same-seed",
    "--parameter-sweep-mode",
    "--sweep-type",
    "--search-space",
    "--search-metric",
    "--search-stat",
    "--search-direction",
    "--search-max-iterations",
    "--search-initial-points",
    "--search-random-seed",
    "--search-planner",
    "--optuna-sampler",
    "--optuna-acquisition",
    "--optuna-terminator",
    "--search-percentile-pooling",
    "--bo-constraint-mode",
    "--variant",
    "--sweep-variant",
    "--search-sla",
    "--search-sla-tier",
    "--search-recipe",
    "--ttft-sla-ms",
    "--isl-osl-pairs",
    "--itl-sla-ms",
    "--tpot-sla-ms",
    "--e2e-sla-ms",
    "--error-rate-sla",
    "--slo-attainment-fraction",
    "--search-style",
    "--degradation-threshold",
    "--degradation-metric-tag",
    "--degradation-stat",
    "--isl-min",
    "--isl-max",
    "--isl-steps",
    "--concurrency-min",
    "--concurrency-max",
    "--concurrency-steps",
    "--osl-min",
    "--osl-max",
    "--osl-steps",
];

/// Switches that turn off what is never on here, or on what always is: accepted
/// without effect.
pub const OFF_SWITCHES: &[&str] = &[
    "--no-auto-plot",
    "--no-allow-dataset-wrap",
    "--open-loop-replay",
    "--no-force-min-tokens",
    "--no-gpu-telemetry",
    "--no-profile-run-disable-warmup-after-first",
    "--no-set-consistent-seed",
    "--no-vary-seed-per-trial",
    "--no-parameter-sweep-same-seed",
    "--no-sweep-table",
];

/// Flags with the one value that says what is done anyway.
pub const ONLY_VALUE: &[(&str, &str)] = &[
    ("--url-strategy", "round-robin"),
    ("--transport", "http"),
    ("--transport-type", "http"),
    ("--cache-bust", "none"),
    ("--num-profile-runs", "1"),
];

/// Adds the flags that are accepted without effect, hidden from the help.
pub(super) fn accept(command: Command) -> Command {
    let name = |flag: &'static str| flag.trim_start_matches('-');
    // `--request-rate -1` is a wrong value, not an unknown flag.
    let command = command.allow_negative_numbers(true);
    let command = OFF_SWITCHES.iter().fold(command, |command, flag| {
        command.arg(Arg::new(*flag).long(name(flag)).action(ArgAction::SetTrue).hide(true))
    });
    ONLY_VALUE.iter().fold(command, |command, (flag, value)| {
        let parser = PossibleValuesParser::new([*value]);
        command.arg(Arg::new(*flag).long(name(flag)).value_parser(parser).hide(true))
    })
}

/// Why `flag` is refused, if it is one of AIPerf's that are.
pub(super) fn refusal(flag: &str) -> Option<String> {
    let flag = flag.split('=').next().unwrap_or(flag);
    let advice = match flag {
        "--public-dataset" => {
            "; for ShareGPT download its JSON file and give --custom-dataset-type sharegpt \
             --input-file FILE"
        }
        "--no-open-loop-replay" => {
            "; later turns keep to their timestamps, or wait for their delays where they have none"
        }
        "--image-source-sampling" => "; generated images are noise, each another",
        _ if flag.starts_with("--video-") || flag == "--batch-size-video" => {
            "; it makes no videos: name files or URLs as `video` in --input-file"
        }
        "--config" | "-f" => "; give the settings as flags",
        "--per-chunk-usage" => {
            "; --extra-inputs stream_options:'{\"include_usage\":true,\
             \"continuous_usage_stats\":true}' asks the server for it"
        }
        _ => "",
    };
    let known = REFUSED.contains(&flag);
    known.then(|| format!("{flag} is an AIPerf flag that aiperf does not have yet{advice}"))
}
