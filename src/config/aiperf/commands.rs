//! Subcommands of the Python AIPerf that this program does not have.

/// Subcommands, separated by spaces, and what to do instead.
const COMMANDS: &[(&str, &str)] = &[
    ("analyze speed-bench-report", "use jq, DuckDB or pandas on the files of the runs"),
    ("kube", "run a Kubernetes Job whose pods split the run with --shard and --start-at"),
    (
        "service proxy",
        "aiperf is a single process; use --shard and --start-at to split a run across several",
    ),
    ("--dashboard", "use aiperf report DIR --html for an interactive page"),
    ("--mlflow-upload", "use aiperf report DIR --mlflow-tracking-uri, which uploads pictures too"),
    ("--install-completion", "aiperf completions bash prints the script to install"),
];

/// Every subcommand of AIPerf that is rejected, and what to do instead.
pub fn refused() -> impl Iterator<Item = (&'static str, &'static str)> {
    COMMANDS.iter().flat_map(|(names, advice)| names.split(' ').map(move |name| (name, *advice)))
}

/// The error for the subcommand `name`, if it is one of AIPerf's.
pub(crate) fn refusal(name: &str) -> Option<String> {
    let (_, advice) = refused().find(|(refused, _)| *refused == name)?;
    let kind = if name.starts_with('-') { "flag" } else { "command" };
    Some(format!("{name} is an AIPerf {kind} that aiperf does not support: {advice}"))
}
