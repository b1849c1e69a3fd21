//! The command line.
//!
//! The only module that knows clap: it reads arguments and environment into a
//! [`Command`], whose parts are plain configuration.

pub mod aiperf_commands;
pub mod aiperf_flags;
mod connections;
mod distributed;
mod generated;
mod input_config;
mod load;
mod load_args;
mod media_args;
mod mock;
mod multi_run;
mod profile;
mod rankings;
mod resolve;
mod selfcheck;
mod server_metrics;
mod switches;
mod value;
mod video_args;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::config::{ConfigError, Environment, RunConfig};
use crate::mock_server;

pub use generated::ManPage;
pub use mock::Demo;
pub use selfcheck::SelfCheck;

/// Says in `input_config` what the dataset, or the place among many runs, has made
/// of phases, directory and seed.
pub fn record_changes(config: &mut RunConfig) {
    config.input_config["phases"] = input_config::phases(&config.schedule);
    config.input_config["artifacts"]["dir"] =
        config.artifacts.directory.display().to_string().into();
    if let Some(seed) = config.dataset.random_seed {
        config.input_config["random_seed"] = seed.into();
    }
}

/// What the user wants done.
#[derive(Debug)]
pub enum Command {
    /// Load a server and measure it.
    Profile(Box<RunConfig>),
    /// The same against a mock server that is started for it.
    Demo(Demo),
    /// Serve scripted answers until interrupted.
    MockServer(Box<mock_server::Config>),
    /// Find out what load can be measured well on this machine.
    SelfCheck(SelfCheck),
    /// Compute a run's summaries again from its records.
    Report {
        /// Directory of the run's files, or of many runs, or those of its parts.
        directories: Vec<PathBuf>,
        /// Where the files go that the parts are combined in.
        artifact_dir: Option<PathBuf>,
    },
    /// List the catalogue of metrics.
    Metrics {
        /// As JSON instead of a table.
        json: bool,
    },
    /// Write text to stdout.
    Show(String),
    /// Write man pages.
    ManPages {
        /// All of them.
        pages: Vec<ManPage>,
        /// Where their files go.
        directory: PathBuf,
    },
}

/// Why there is no command to do.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Help or version was asked for: text for stdout.
    #[error("{0}")]
    Shown(String),
    /// The arguments are wrong: text for stderr.
    #[error("{0}")]
    Usage(String),
    /// Settings cannot be used.
    #[error("error: {0}")]
    Config(#[from] ConfigError),
}

impl CliError {
    /// The program's exit code: 0 for help, 2 for wrong usage.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Shown(_) => 0,
            Self::Usage(_) | Self::Config(_) => 2,
        }
    }
}

/// Measures LLM servers: latency, throughput and tokens of every request.
#[derive(Parser)]
#[command(name = "aiperf", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Load a server and measure every request
    Profile(Box<profile::ProfileArgs>),
    /// Try it without a server: starts a mock server and profiles it
    Demo(Demo),
    /// Serve scripted answers, as ground truth for clients
    MockServer(Box<mock::MockServerArgs>),
    /// Find out how much load can be measured well on this machine
    #[command(name = "selfcheck")]
    SelfCheck(selfcheck::SelfCheckArgs),
    /// Compute a run's summaries again from its records, or those of all its parts
    Report {
        /// Directory of the run's files, or of many runs; several are the parts of one run
        /// (--shard), to be combined
        #[arg(value_name = "DIR", required = true)]
        directories: Vec<PathBuf>,
        /// Directory of the combined files [default: combined, beside the parts]
        #[arg(long, visible_alias = "output-artifact-dir", value_name = "DIR")]
        artifact_dir: Option<PathBuf>,
    },
    /// List the metrics that are computed
    Metrics {
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a script that completes commands, flags and values in a shell
    Completions {
        /// Shell that is to run it
        shell: clap_complete::Shell,
    },
    /// Print the man page, or that of a command
    Man {
        /// Command that the page is about
        #[arg(conflicts_with = "dir")]
        command: Option<String>,
        /// Write all pages into this directory instead
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Reads the arguments, program name first, and the process's environment.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, CliError> {
    parse_with(arguments, Environment::new(&|name| std::env::var(name).ok()))
}

/// Reads the arguments, program name first, with another environment.
pub fn parse_with(
    arguments: impl IntoIterator<Item = OsString>,
    environment: Environment<'_>,
) -> Result<Command, CliError> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let command = command();
    let bare = switches::bare(&arguments, &command);
    let matches = command.try_get_matches_from(bare).map_err(|error| explain(&error))?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| explain(&error))?;
    Ok(match cli.command {
        Action::Profile(flags) => {
            let shown: Vec<_> = arguments.iter().map(|a| a.to_string_lossy()).collect();
            Command::Profile(Box::new(resolve::run_config(&flags, &shown, environment)?))
        }
        Action::Demo(demo) => Command::Demo(demo),
        Action::MockServer(flags) => Command::MockServer(Box::new(flags.into_config())),
        Action::SelfCheck(flags) => Command::SelfCheck(flags.resolve(environment)?),
        Action::Report { directories, artifact_dir } => {
            Command::Report { directories, artifact_dir }
        }
        Action::Metrics { json } => Command::Metrics { json },
        Action::Completions { shell } => Command::Show(generated::completions(shell)?),
        Action::Man { dir: Some(directory), .. } => {
            Command::ManPages { pages: generated::man_pages()?, directory }
        }
        Action::Man { command, dir: None } => {
            Command::Show(generated::man_page(command.as_deref())?)
        }
    })
}

/// The definition of the command line, with what is taken without effect.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command().mut_subcommand("profile", aiperf_flags::accept)
}

/// What clap has to say; an unknown flag or command may be one of AIPerf's.
fn explain(error: &clap::Error) -> CliError {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return match error.exit_code() {
            0 => CliError::Shown(error.to_string()),
            _ => CliError::Usage(error.to_string()),
        };
    }
    let refused = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) => {
            aiperf_flags::refusal(flag).or_else(|| aiperf_commands::refusal(flag))
        }
        (ErrorKind::InvalidSubcommand, _) => match error.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(name)) => aiperf_commands::refusal(name),
            _ => None,
        },
        _ => None,
    };
    if let Some(refusal) = refused {
        return CliError::Usage(format!("error: {refusal}"));
    }
    CliError::Usage(error.to_string())
}
