//! Why a command line is not performed: help, or an error.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use base::redact;
use measure::multi_run::Variation;

use crate::config::{ConfigError, aiperf};

/// Why parsing the command line produced no command.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Help or version text, for stdout.
    #[error("{0}")]
    Shown(String),
    /// The arguments are invalid; the text is for stderr.
    #[error("{0}")]
    Usage(String),
    /// The settings are invalid.
    #[error("error: {0}")]
    Config(#[from] ConfigError),
}

impl CliError {
    /// Exit code for invalid usage.
    pub const WRONG_USAGE: u8 = 2;

    /// The same error without the secrets of a configuration file, which it may quote.
    pub(super) fn without_secrets_of(self, arguments: &[OsString]) -> Self {
        let Self::Usage(text) = self else { return self };
        let arguments: Vec<_> = arguments.iter().map(|text| text.to_string_lossy()).collect();
        Self::Usage(redact::message(&text, &arguments))
    }

    /// The same error in a cell of a sweep.
    pub(super) fn in_cell(self, cell: &Variation) -> Self {
        let named = |text: &str| {
            let text = text.strip_prefix("error: ").unwrap_or(text);
            Self::Usage(format!("error: cell {}: {text}", cell.directory()))
        };
        match self {
            Self::Shown(_) => self,
            Self::Usage(text) => named(&text),
            Self::Config(error) => named(&error.to_string()),
        }
    }

    /// The program's exit code: 0 for help, 2 for invalid usage, and 1 as in AIPerf for an option of
    /// endpoints that does not fit the endpoint type.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Shown(_) => 0,
            Self::Config(ConfigError::Endpoint(_)) => 1,
            Self::Usage(_) | Self::Config(_) => Self::WRONG_USAGE,
        }
    }
}

/// Converts an error of clap's; an unknown flag or command that AIPerf has gets advice.
pub(super) fn explain(error: &clap::Error) -> CliError {
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
            aiperf::flags::refusal(flag).or_else(|| aiperf::commands::refusal(flag))
        }
        (ErrorKind::InvalidSubcommand, _) => match error.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(name)) => aiperf::commands::refusal(name),
            _ => None,
        },
        _ => None,
    };
    if let Some(refusal) = refused {
        return CliError::Usage(format!("error: {refusal}"));
    }
    let text = error.to_string();
    CliError::Usage(match error.kind() {
        // No flag of a run is required always, only by other flags.
        ErrorKind::MissingRequiredArgument => text.replacen(
            "the following required arguments were not provided",
            "the given flags also require",
            1,
        ),
        _ => text,
    })
}
