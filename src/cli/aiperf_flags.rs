//! Flags of the Python AIPerf that this program does not have, in one table.
//!
//! A flag of AIPerf is never ignored: it either works, or is rejected with advice on what
//! to do instead. Flags are accepted without effect only if they ask for what this program
//! does anyway.

use clap::{Arg, ArgAction, Command};

/// Flags that are rejected, separated by spaces, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    // Input
    // Output
    (
        "--wandb-project --wandb-entity --wandb-run-name --wandb-tag",
        "log the files with its own client, as docs/decisions/trackers.md shows",
    ),
    // Tokenizer
    (
        "--tokenizer-trust-remote-code",
        "aiperf never runs code from a model; use a tokenizer with a tokenizer.json",
    ),
    // Load Generator
    (
        "--trajectory-start-min-ratio --trajectory-start-max-ratio --burst-phase-starts",
        "sessions begin with their first turn; in the steady state they are at all turns",
    ),
    ("--system-idle-gap-cap-seconds", "use --max-idle-gap-cap-seconds"),
    // Scenario
    (
        "--scenario --unsafe-override",
        "pass the scenario's settings as flags, or in a file with --config",
    ),
    // Warmup
    ("--agentic-cache-warmup-duration --agentic-warmup-grace-period", "use --warmup-duration"),
    // Conversation Input
    (
        "--no-open-loop-replay",
        "use --no-fixed-schedule, with which later turns follow the response after their delays",
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

/// The rejected flags that are switches and off by default: turning one off is accepted.
const REFUSED_SWITCHES: &str = "\
    --tokenizer-trust-remote-code --burst-phase-starts \
    --unsafe-override \
    --accuracy-enable-cot \
    --accuracy-no-enable-cot --accuracy-verbose --no-open-loop-replay --zmq-dual-bind";

/// Switches accepted without effect: they turn off what is never on here, or turn on what
/// always is.
pub const OFF_SWITCHES: &[&str] = &[
    "--allow-dataset-wrap",
    "--no-allow-dataset-wrap",
    "--omit-kv-hints",
    "--open-loop-replay",
    "--no-force-min-tokens",
];

/// Flags with the only value that is accepted, and what to do instead of another.
pub const ONLY_VALUE: &[(&str, &str, &str)] = &[
    ("--url-strategy", "round-robin", "AIPerf does not support others either"),
    ("--transport", "http", "AIPerf does not support others either"),
    ("--transport-type", "http", "AIPerf does not support others either"),
];

/// Adds the flags that are accepted without effect, hidden from `--help`.
pub(super) fn accept(command: Command) -> Command {
    let name = |flag: &'static str| flag.trim_start_matches('-');
    // `--request-rate -1` is an invalid value, not an unknown flag.
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

/// Accepts `text` if it is `value`, ignoring case and treating `_` as `-`.
fn only(text: &str, value: &'static str, advice: &str) -> Result<&'static str, String> {
    let is_it = text.trim().to_ascii_lowercase().replace('_', "-") == value;
    is_it.then_some(value).ok_or_else(|| format!("{value} is the only supported value; {advice}"))
}

/// Every flag that is rejected, and what to do instead.
pub fn refused() -> impl Iterator<Item = (&'static str, &'static str)> {
    REFUSED.iter().flat_map(|(flags, advice)| flags.split(' ').map(move |flag| (flag, *advice)))
}

/// Whether `flag` is a rejected flag that takes no value.
pub(super) fn is_refused_switch(flag: &str) -> bool {
    REFUSED_SWITCHES.split(' ').any(|switch| switch == flag)
}

/// The error for `flag`, if it is one of the rejected ones.
pub(super) fn refusal(flag: &str) -> Option<String> {
    let flag = flag.split('=').next().unwrap_or(flag);
    let (_, advice) = refused().find(|(refused, _)| *refused == flag)?;
    Some(format!("{flag} is an AIPerf flag that aiperf does not support: {advice}"))
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
