//! The commands of `aiperf config`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::expand::{self, Form, Shown};
use super::templates;
use super::{effective, template};
use crate::cli::value::choice;
use crate::cli::{CliError, Command, command, parse_with};
use crate::config::Environment;

/// What to do with configuration files.
#[derive(Subcommand)]
pub(in crate::cli) enum ConfigAction {
    /// Print a template of a configuration, or a file with all settings and their defaults, to edit
    Init(InitArgs),
    /// Print the effective settings of a command line, and where each is from
    Show {
        /// Flags of aiperf profile, such as --config FILE
        #[arg(value_name = "FLAG", trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<OsString>,
    },
    /// Print the runs of a configuration file, without variables, templates and sweeps
    Expand(ExpandArgs),
    /// Check a configuration file without starting a run
    #[command(visible_alias = "validate")]
    Check {
        /// The file
        file: PathBuf,
        /// Flags of aiperf profile that complete the file
        #[arg(value_name = "FLAG", trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<OsString>,
    },
}

/// Which file to print.
#[derive(Args)]
#[command(group = ArgGroup::new("listing").args(["list", "search", "category"]).multiple(true))]
pub(in crate::cli) struct InitArgs {
    /// Template to print; --list lists them [default: a file with all settings as comments]
    #[arg(long, short, value_name = "NAME", conflicts_with = "listing")]
    template: Option<String>,
    /// List the templates
    #[arg(long, short)]
    list: bool,
    /// List the templates that have a word in their name, description or tags
    #[arg(long, short, value_name = "WORD")]
    search: Option<String>,
    /// List the templates of a category
    #[arg(long, short, value_name = "CATEGORY")]
    category: Option<String>,
    /// List tags and difficulty too
    #[arg(long, short, requires = "listing")]
    verbose: bool,
    /// Model in place of the template's
    #[arg(long, short, value_name = "NAME", requires = "template")]
    model: Option<String>,
    /// URL of the server in place of the template's
    #[arg(long, short, value_name = "URL", requires = "template")]
    url: Option<String>,
    /// File to write instead of printing; an existing one is not replaced
    #[arg(long, short, value_name = "FILE", conflicts_with = "listing")]
    output: Option<PathBuf>,
}

/// Which runs to print, and how.
#[derive(Args)]
pub(in crate::cli) struct ExpandArgs {
    /// The file
    file: PathBuf,
    /// Print all settings of each run
    #[arg(long, short = 'F')]
    full: bool,
    /// Print only the run with this number, from 0, with all of its settings
    #[arg(long, short, value_name = "NUMBER")]
    index: Option<usize>,
    /// How to print
    #[arg(long, short, value_name = "FORMAT", value_parser = choice::<Form>(), default_value = "text")]
    format: Form,
}

impl InitArgs {
    fn performed(self) -> Result<Command, CliError> {
        let (search, category) = (self.search.as_deref(), self.category.as_deref());
        if self.list || search.is_some() || category.is_some() {
            return templates::list(search, category, self.verbose).map(Command::Show);
        }
        let text = match self.template {
            Some(name) => {
                templates::named(&name)?.filled(self.model.as_deref(), self.url.as_deref())
            }
            None => command().find_subcommand("profile").map(template).unwrap_or_default(),
        };
        Ok(match self.output {
            Some(file) => Command::Write { file, text },
            None => Command::Show(text),
        })
    }
}

impl ConfigAction {
    /// Returns what the command prints, or the file that it writes.
    pub(in crate::cli) fn performed(
        self,
        environment: Environment<'_>,
    ) -> Result<Command, CliError> {
        let text = match self {
            Self::Init(asked) => return asked.performed(),
            Self::Show { flags } => {
                let arguments = profile(flags);
                parse_with(arguments.clone(), environment)?;
                effective(&arguments, command(), environment)?
            }
            Self::Expand(asked) => {
                let ExpandArgs { file, full, index, format: form } = asked;
                let arguments = profile(["--config".into(), file.into_os_string()]);
                match parse_with(arguments.clone(), environment)? {
                    Command::Profile(benchmark) => {
                        let shown = Shown { full, index, form };
                        expand::text(&benchmark, &arguments, shown, environment)?
                    }
                    other => return Ok(other),
                }
            }
            Self::Check { file, flags } => {
                let text = format!("{}: valid\n", file.display());
                let named = ["--config".into(), file.into_os_string()];
                parse_with(profile(named.into_iter().chain(flags)), environment)?;
                text
            }
        };
        Ok(Command::Show(text))
    }
}

/// Returns the arguments of a run with these flags.
fn profile(flags: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    ["aiperf", "profile"].into_iter().map(OsString::from).chain(flags).collect()
}
