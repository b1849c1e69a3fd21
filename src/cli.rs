//! The command line.
//!
//! The only module that uses clap. It parses the arguments and the environment into a
//! [`Command`], whose parts are plain configuration.

mod ab;
mod accepted;
mod adaptive;
mod agentic;
mod analyze_trace;
mod anonymize;
mod canaries;
mod capacity;
mod chat;
mod compare;
mod config_file;
mod connections;
mod control_args;
mod dataset;
mod deployment;
mod distributed;
mod error;
mod explain;
mod gates;
mod generated;
mod given;
mod gpu;
mod help_word;
mod hub_args;
mod list;
mod load;
mod load_args;
mod media_args;
mod mlflow;
mod mock;
mod multi_run;
mod network_latency;
mod page;
mod phases;
mod plot;
mod plugins;
mod profile;
mod prompt_args;
mod rankings;
mod referee;
mod report;
mod resolve;
mod scenario;
mod search;
mod selfcheck;
mod server;
mod server_metrics;
mod short_help;
mod sweep;
mod switches;
mod synthesis;
mod synthesize;
mod tenants;
mod validate;
mod value;
mod video_args;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use measure::multi_run::space::Range;
use measure::multi_run::sweep::{Choice, Parameter};
use mock_server;

use crate::config::{Benchmark, Cell, ConfigError, Environment, RunConfig, Space};

use given::Given;
use sweep::{CellOf, Sweep};

pub use ab::Ab;
pub(crate) use ab::AbSide;
pub use analyze_trace::AnalyzeTrace;
pub use anonymize::Anonymize;
pub use capacity::Capacity;
pub use chat::Chat;
pub(crate) use compare::Comparing;
pub use compare::{Compare, CompareFormat};
pub use error::CliError;
use error::explain;
pub use explain::Explain;
pub(crate) use explain::flags;
pub use generated::ManPage;
use list::Listed;
pub use list::{List, Show};
pub use mock::Demo;
pub use plot::Plot;
pub(crate) use referee::HazardName;
pub use referee::Referee;
pub use report::Report;
pub use selfcheck::SelfCheck;
pub use synthesize::Synthesize;
pub use validate::Validate;

/// What the user asked the program to do.
#[derive(Debug)]
pub enum Command {
    /// Benchmark a server.
    Profile(Box<Benchmark>),
    /// Start a mock server and benchmark it.
    Demo(Demo),
    /// Serve scripted responses until interrupted.
    MockServer(Box<mock_server::Config>),
    /// Determine how much load this machine can measure accurately.
    SelfCheck(SelfCheck),
    /// Compare what benchmark clients report with what the mock server sent.
    Referee(Referee),
    /// Recompute a run's summaries from its records.
    Report(Report),
    /// Compare runs with another one.
    Compare(Compare),
    /// Compare two servers side by side.
    Ab(Box<Ab>),
    /// Predict what a server does at other loads.
    Capacity {
        /// What to predict.
        asked: Capacity,
        /// The run that confirms it, if it is to be made.
        run: Option<Box<Benchmark>>,
    },
    /// Draw the charts of runs.
    Plot(Plot),
    /// Analyze the prompts of a trace.
    AnalyzeTrace(AnalyzeTrace),
    /// Write a trace without its texts.
    Anonymize(Anonymize),
    /// Write a trace of generated sessions.
    Synthesize(Synthesize),
    /// Check a dataset file.
    Validate(Validate),
    /// Send messages one by one.
    Chat(Chat),
    /// List the runs in a directory.
    List(List),
    /// Show the results of a run again.
    ShowRun(Show),
    /// Describe what a name means, or what limits a run.
    Explain(Explain),
    /// List the metric catalogue.
    Metrics {
        /// Whether to print JSON instead of a table.
        json: bool,
    },
    /// List the public datasets.
    Datasets {
        /// Whether to print JSON instead of a table.
        json: bool,
    },
    /// Print text to stdout.
    Show(String),
    /// Write a new file.
    Write {
        /// The file.
        file: PathBuf,
        /// Its content.
        text: String,
    },
    /// Write man pages.
    ManPages {
        /// The pages.
        pages: Vec<ManPage>,
        /// The directory to write them to.
        directory: PathBuf,
    },
}

/// Benchmarks LLM servers: latency, throughput and token counts of every request.
#[derive(Parser)]
#[command(name = "aiperf", version, max_term_width = 100)]
#[command(
    after_help = "`aiperf URL` benchmarks the server at this URL: `aiperf profile --url URL --streaming`."
)]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Benchmark a server, measuring every request
    Profile(Box<profile::ProfileArgs>),
    /// Start a mock server and benchmark it, to try aiperf without a server
    Demo(Demo),
    /// Serve scripted responses with known timing, for testing clients
    MockServer(Box<mock::MockServerArgs>),
    /// Determine how much load this machine can measure accurately
    #[command(name = "selfcheck")]
    SelfCheck(selfcheck::SelfCheckArgs),
    /// Check whether a benchmark client reports the truth, against a mock server with hazards
    Referee(Referee),
    /// Create, show, expand or check a configuration file for `aiperf profile --config`
    #[command(subcommand)]
    Config(config_file::ConfigAction),
    /// Recompute a run's summaries from its records, or combine the shards of a run
    Report(report::ReportArgs),
    /// Compare runs with another one, to find regressions
    Compare(Compare),
    /// Measure two servers side by side, in short blocks in random order, and compare them
    Ab(Box<ab::AbArgs>),
    /// Predict what a server does at loads that a sweep or a search has not tried
    Capacity(Capacity),
    /// Draw charts of runs as PNG and SVG files
    Plot(Plot),
    /// Analyze, anonymize, generate, check or list datasets and traces
    #[command(subcommand)]
    Dataset(DatasetAction),
    /// Chat with a server, and show how fast each response is
    Chat(chat::ChatArgs),
    /// List the runs in a directory; or the metrics, the scenarios, what is built in
    List(list::ListArgs),
    /// Show the results of a run again
    Show(Show),
    /// Describe a metric, a warning or another name of the output, or what limits a run
    Explain(Explain),
    /// Print a shell completion script
    Completions {
        /// Shell to generate the script for
        shell: clap_complete::Shell,
    },
    /// Print the man page of aiperf or of one of its commands
    Man {
        /// Command whose page to print [default: aiperf itself]
        #[arg(conflicts_with = "dir")]
        command: Vec<String>,
        /// Write all pages to this directory instead of printing one
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
enum DatasetAction {
    /// Show the lengths of a trace's requests, and how much its prompts share
    Analyze(analyze_trace::AnalyzeTraceArgs),
    /// Write a trace or a dataset without its texts: lengths, times, and what prompts share
    Anonymize(Anonymize),
    /// Write a trace of generated sessions of agents
    Synthesize(Synthesize),
    /// Check a dataset file or a trace without starting a run
    Validate(validate::ValidateArgs),
    /// List the public datasets that aiperf can download
    List {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
}

/// Other names of commands in a group: AIPerf's, and those without the group.
const GROUPED: [(&str, [&str; 2]); 8] = [
    ("analyze-trace", ["dataset", "analyze"]),
    ("anonymize", ["dataset", "anonymize"]),
    ("synthesize", ["dataset", "synthesize"]),
    ("validate", ["dataset", "validate"]),
    ("datasets", ["dataset", "list"]),
    ("metrics", ["list", "metrics"]),
    ("scenarios", ["list", "scenarios"]),
    ("plugins", ["list", "plugins"]),
];

/// Parses the arguments, program name first, with the process's environment.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, CliError> {
    parse_with(arguments, Environment::process())
}

/// Parses the arguments, program name first, with the given environment.
pub fn parse_with(
    arguments: impl IntoIterator<Item = OsString>,
    environment: Environment<'_>,
) -> Result<Command, CliError> {
    let (arguments, command) = (grouped(arguments.into_iter().collect()), command());
    if let Some(found) = help_word::asked(&arguments, &command) {
        return Err(found);
    }
    let arguments = of_url(arguments);
    let mut merged = config_file::merged(&arguments, &command, environment)?.arguments;
    let mut parsed = parse_merged(&merged, &command, &arguments, environment);
    if matches!(parsed, Err(CliError::Config(ConfigError::NoModel))) {
        let model = only_model(&merged, command.clone(), environment);
        parsed = model.and_then(|model| {
            merged.extend(["--model".into(), model.into()]);
            parse_merged(&merged, &command, &arguments, environment)
        });
    }
    parsed.map_err(|error| error.without_secrets_of(&merged))
}

/// Returns the arguments with the group of a command that is in one.
fn grouped(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let of = |at: usize| arguments.get(at).and_then(|word| word.to_str());
    let at = if matches!(of(1), Some("help" | "man")) { 2 } else { 1 };
    if let Some((_, names)) = GROUPED.iter().find(|(other, _)| of(at) == Some(other)) {
        arguments.splice(at..=at, names.map(OsString::from));
    }
    arguments
}

/// Returns the arguments of a run instead of `aiperf URL`. Its responses are streamed, unless flags say
/// how to ask the server.
fn of_url(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_url = |text: &OsString| {
        text.to_str().is_some_and(|text| text.contains(':') && !text.starts_with('-'))
    };
    if arguments.get(1).is_some_and(|text| text == "profile") {
        return named_server(arguments);
    }
    let Some(url) = arguments.get(1).filter(|text| is_url(text)).cloned() else {
        return arguments;
    };
    let says_how = arguments.iter().any(|argument| {
        let flags = ["--streaming", "--no-streaming", "--endpoint-type", "--config", "-f"];
        argument.to_str().is_some_and(|text| flags.iter().any(|flag| text.starts_with(flag)))
    });
    let streaming = if says_how { None } else { Some("--streaming".into()) };
    let run = ["profile".into(), "--url".into(), url].into_iter().chain(streaming);
    arguments.splice(1..2, run);
    arguments
}

/// Returns the arguments of `aiperf profile` with `--url` before a URL that does not have a flag: the only
/// one, and neither the value of another flag nor the first of `--model`.
fn named_server(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let texts: Vec<&str> = arguments.iter().map(|text| text.to_str().unwrap_or("")).collect();
    if texts.iter().any(|text| *text == "-u" || text.starts_with("--url")) {
        return arguments;
    }
    let is_flag = |text: &str| text.starts_with('-');
    let is_after_model = |at: usize| {
        let flag = texts[..at].iter().rposition(|text| is_flag(text));
        flag.is_some_and(|flag| flag + 1 < at && ["-m", "--model"].contains(&texts[flag]))
    };
    let found: Vec<usize> = (2..texts.len())
        .filter(|at| is_address(texts[*at]) && (*at == 2 || is_after_model(*at)))
        .collect();
    if let [at] = found[..] {
        arguments.insert(at, "--url".into());
    }
    arguments
}

/// Returns whether a text is a URL, or the host and the port of one: a model such as `llama3:8b` is neither.
fn is_address(text: &str) -> bool {
    let is_port = |port: &str| port.len() >= 2 && port.bytes().all(|byte| byte.is_ascii_digit());
    let authority = text.split('/').next().unwrap_or_default();
    text.starts_with("http://")
        || text.starts_with("https://")
        || authority.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && is_port(port))
}

/// Parses the arguments with those of a configuration file; `shown` are those of the command.
fn parse_merged(
    merged: &[OsString],
    command: &clap::Command,
    shown: &[OsString],
    environment: Environment<'_>,
) -> Result<Command, CliError> {
    match Sweep::from_arguments(merged, command)? {
        None => {
            let first = sweep::lower_bounds(merged, command)?;
            let first: Vec<OsString> = merged.iter().cloned().chain(first).collect();
            parse_one(&first, command.clone(), shown, environment, None)
                .and_then(|parsed| with_space(parsed, merged, command, shown))
        }
        Some(sweep) => {
            scenario::refuse_sweep(merged, command)?;
            parse_sweep(&sweep, command, shown, environment)
        }
    }
}

/// Asks the server that the `arguments` of a run describe for its only model.
fn only_model(
    arguments: &[OsString],
    mut command: clap::Command,
    environment: Environment<'_>,
) -> Result<String, CliError> {
    let first = match Sweep::from_arguments(arguments, &command)? {
        Some(sweep) => sweep.cells().map(|(_, _, arguments)| arguments).next(),
        None => None,
    };
    command = command.mut_subcommand("profile", |it| it.args_override_self(true));
    let bare = switches::bare(first.as_deref().unwrap_or(arguments), &command);
    let matches = command.try_get_matches_from_mut(bare).map_err(|error| explain(&error))?;
    match Cli::from_arg_matches(&matches).map_err(|error| explain(&error))?.command {
        Action::Profile(flags) => server::only_model(&flags, environment),
        _ => Err(ConfigError::NoModel.into()),
    }
}

/// Parses the arguments of each cell of a sweep; `shown` are those of the command.
fn parse_sweep(
    sweep: &Sweep,
    command: &clap::Command,
    shown: &[OsString],
    environment: Environment<'_>,
) -> Result<Command, CliError> {
    // The flags of a scenario follow those of the command, and override them.
    let command = command.clone().mut_subcommand("profile", |it| it.args_override_self(true));
    let mut cells: Vec<Cell> = Vec::new();
    for (variation, cell, arguments) in sweep.cells() {
        let parsed = parse_one(&arguments, command.clone(), shown, environment, Some(cell));
        match parsed
            .map_err(|error| if cells.is_empty() { error } else { error.in_cell(variation) })?
        {
            Command::Profile(benchmark) => {
                cells.push(Cell { variation: variation.clone(), config: benchmark.config });
            }
            other => return Ok(other),
        }
    }
    if let Some(first) = cells.first_mut() {
        first.config.warnings.extend(sweep.note.clone());
    }
    let Some(first) = cells.first() else {
        return Err(CliError::Usage(
            "error: the sweep is empty; give each list at least one value".to_owned(),
        ));
    };
    let config = first.config.clone();
    Ok(Command::Profile(Box::new(Benchmark { config, cells, space: None })))
}

/// Adds the cells of a search over several settings, if `parsed` is one; `merged` are the arguments
/// that they have in common, and `shown` those of the command. The bounds are checked.
fn with_space(
    parsed: Command,
    merged: &[OsString],
    command: &clap::Command,
    shown: &[OsString],
) -> Result<Command, CliError> {
    let Command::Profile(mut benchmark) = parsed else { return Ok(parsed) };
    if let Some(sweep) = &benchmark.config.multi_run.sweep
        && let Choice::Space(searched) = &sweep.choice
    {
        let space = ParsedSpace {
            arguments: merged.to_vec(),
            shown: shown.to_vec(),
            command: command
                .clone()
                .mut_subcommand("profile", |profile| profile.args_override_self(true)),
            sweep: sweep.clone(),
        };
        for end in [|range: &Range| range.lo, |range: &Range| range.hi] {
            let values: Vec<_> = searched.ranges.iter().map(|it| it.json(end(it))).collect();
            space.config(0, &values).map_err(CliError::Usage)?;
        }
        benchmark.space = Some(Arc::new(space));
    }
    Ok(Command::Profile(benchmark))
}

/// The cells of a search over several settings: its command line with further flags.
#[derive(Debug)]
struct ParsedSpace {
    arguments: Vec<OsString>,
    shown: Vec<OsString>,
    command: clap::Command,
    sweep: measure::multi_run::sweep::Config,
}

impl Space for ParsedSpace {
    fn config(&self, index: u64, values: &[serde_json::Value]) -> Result<RunConfig, String> {
        let parameters = &self.sweep.parameters;
        let flag = |(parameter, value): (&Parameter, &serde_json::Value)| {
            format!("--{}={value}", parameter.name.replace('_', "-")).into()
        };
        let flags = parameters.iter().zip(values).map(flag);
        let arguments: Vec<OsString> = self.arguments.iter().cloned().chain(flags).collect();
        let chosen = Some(&self.sweep);
        let cell = CellOf { index, parameters, is_scenario: false, chosen };
        let environment = Environment::process();
        match parse_one(&arguments, self.command.clone(), &self.shown, environment, Some(cell)) {
            Ok(Command::Profile(benchmark)) => Ok(benchmark.config),
            Ok(_) => Err("not a benchmark".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Parses the arguments of a single command, or of a cell of a sweep, including those of a
/// configuration file; `shown` are those of the command.
fn parse_one(
    arguments: &[OsString],
    mut command: clap::Command,
    shown: &[OsString],
    environment: Environment<'_>,
    cell: Option<CellOf<'_>>,
) -> Result<Command, CliError> {
    let scenario = scenario::checked(arguments, &command)?;
    let bare = switches::bare(arguments, &command);
    let matches = command.try_get_matches_from_mut(bare).map_err(|error| explain(&error))?;
    let given = Given::new(&command, &matches);
    let cli = Cli::from_arg_matches(&matches).map_err(|error| explain(&error))?;
    Ok(match cli.command {
        Action::Profile(flags) => {
            let shown: Vec<_> = shown.iter().map(|a| a.to_string_lossy()).collect();
            let phases = phases::listed(&flags.load.phase, arguments, &command)?;
            let mut config =
                resolve::run_config(&flags, &phases, given, cell, &shown, environment)?;
            config.metrics.skips_context_overflows = scenario.is_some();
            config.scenario = scenario.map(|scenario| scenario::run(scenario, &flags));
            Command::Profile(Box::new(Benchmark::from_run(config)))
        }
        Action::Demo(demo) => Command::Demo(demo),
        Action::MockServer(flags) => Command::MockServer(Box::new(flags.into_config())),
        Action::SelfCheck(flags) => Command::SelfCheck(flags.resolve(environment)?),
        Action::Referee(asked) => Command::Referee(asked),
        Action::Config(action) => action.performed(environment)?,
        Action::Report(flags) => Command::Report(flags.resolve(environment)?),
        Action::Compare(compare) => Command::Compare(compare),
        Action::Ab(flags) => {
            let [a, b] = flags.profile_arguments()?;
            let sides = [block(a, environment)?.config, block(b, environment)?.config];
            Command::Ab(Box::new(flags.into_ab(sides)?))
        }
        Action::Capacity(asked) => {
            let run = match asked.profile_arguments()? {
                Some(arguments) => Some(Box::new(block(arguments, environment)?)),
                None => None,
            };
            Command::Capacity { asked, run }
        }
        Action::Plot(plot) => Command::Plot(plot),
        Action::Dataset(action) => match action {
            DatasetAction::Analyze(flags) => Command::AnalyzeTrace(flags.into_config()),
            DatasetAction::Anonymize(asked) => Command::Anonymize(asked),
            DatasetAction::Synthesize(asked) => Command::Synthesize(asked),
            DatasetAction::Validate(flags) => Command::Validate(flags.into_validate()?),
            DatasetAction::List { json } => Command::Datasets { json },
        },
        Action::Chat(flags) => match parse_with(flags.profile_arguments()?, environment)? {
            Command::Profile(benchmark) => Command::Chat(flags.into_chat(benchmark.config)),
            other => other,
        },
        Action::List(asked) => match asked.what {
            None => Command::List(asked.runs),
            Some(Listed::Runs(runs)) => Command::List(runs),
            Some(Listed::Metrics { json }) => Command::Metrics { json },
            Some(Listed::Scenarios) => Command::Show(scenario::listing()),
            Some(Listed::Plugins(category)) => Command::Show(category.listing()?),
        },
        Action::Show(asked) => Command::ShowRun(asked),
        Action::Explain(asked) => Command::Explain(asked),
        Action::Completions { shell } => Command::Show(generated::completions(shell)?),
        Action::Man { dir: Some(directory), .. } => {
            Command::ManPages { pages: generated::man_pages()?, directory }
        }
        Action::Man { command, dir: None } => Command::Show(generated::man_page(&command)?),
    })
}

/// Parses the `arguments` of a run that is part of another command.
fn block(arguments: Vec<OsString>, environment: Environment<'_>) -> Result<Benchmark, CliError> {
    match parse_with(arguments, environment)? {
        Command::Profile(benchmark) => Ok(*benchmark),
        _ => Err(CliError::Usage(
            "error: the flags after -- must be those of a run of aiperf profile".to_owned(),
        )),
    }
}

/// The definition of the command line, including the flags accepted without effect.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command().mut_subcommand("profile", |profile| short_help::limit(accepted::accept(profile)))
}
