//! Subcommands that the Python AIPerf has and this program has not.

/// Subcommands, blanks between them, and what to do instead.
const COMMANDS: &[(&str, &str)] = &[
    ("analyze speed-bench-report", "read the files of the runs with jq, DuckDB or pandas"),
    ("analyze-trace", "jq, DuckDB and pandas read a trace as it is"),
    ("plot", "draw from profile_export.parquet with pandas, or watch the run in Grafana"),
    ("chat", "aiperf profile --request-count 1 --export-level raw writes an answer and its times"),
    ("synthesize", "write the trace by a script, a line of JSON for each request"),
    ("config", "settings are flags, and aiperf profile --help has them all"),
    ("validate", "aiperf profile --input-file refuses a wrong file before anything is sent"),
    ("plugins", "what there is is built in, and aiperf profile --help has it all"),
    ("kube", "run a Job whose pods share the run by --shard and --start-at"),
    ("service proxy", "there is one process; several share a run by --shard and --start-at"),
    ("--install-completion", "aiperf completions bash prints what to install"),
];

/// Every subcommand of AIPerf's that is not there, with what to do instead.
pub fn refused() -> impl Iterator<Item = (&'static str, &'static str)> {
    COMMANDS.iter().flat_map(|(names, advice)| names.split(' ').map(move |name| (name, *advice)))
}

/// Why there is no subcommand `name`, if AIPerf has it.
pub(super) fn refusal(name: &str) -> Option<String> {
    let (_, advice) = refused().find(|(refused, _)| *refused == name)?;
    let kind = if name.starts_with('-') { "flag" } else { "command" };
    Some(format!("{name} is an AIPerf {kind} that aiperf does not have yet: {advice}"))
}
