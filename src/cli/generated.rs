//! Completions and man pages, generated from the definition of the command line.

use std::io;

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::{Cli, CliError};

/// A man page of section 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManPage {
    /// File name, such as `aiperf-profile.1`.
    pub(crate) file: String,
    /// The page in roff.
    pub(crate) text: String,
}

/// The completion script for `shell`.
pub(super) fn completions(shell: Shell) -> Result<String, CliError> {
    let mut script = Vec::new();
    // Without the flags that are accepted only for compatibility with AIPerf.
    clap_complete::generate(shell, &mut Cli::command(), "aiperf", &mut script);
    text(script)
}

/// The pages of the program and of each command.
pub(super) fn man_pages() -> Result<Vec<ManPage>, CliError> {
    let command = built();
    let mut pages = vec![page(&command)?];
    for command in command.get_subcommands() {
        pages.push(page(command)?);
        for of_group in command.get_subcommands() {
            pages.push(page(of_group)?);
        }
    }
    Ok(pages)
}

/// The page of the command with these names, such as `dataset` and `validate`, or of the program
/// without a name.
pub(super) fn man_page(names: &[String]) -> Result<String, CliError> {
    let command = built();
    let mut found = &command;
    for name in names {
        found = found.find_subcommand(name).ok_or_else(|| {
            let names: Vec<_> = found.get_subcommands().map(Command::get_name).collect();
            let why = format!("error: unknown command; expected one of {}", names.join(", "));
            CliError::Usage(why)
        })?;
    }
    page(found).map(|page| page.text)
}

fn built() -> Command {
    let mut command = Cli::command().disable_help_subcommand(true);
    // Only a built command knows which flags take a value.
    command.build();
    command.mut_subcommands(|command| command.mut_args(with_names))
}

/// Appends a flag's possible values and aliases to its help text, as `--help` does:
/// [`Man`] gives each value a paragraph and leaves aliases out.
fn with_names(argument: Arg) -> Arg {
    let values = argument.get_possible_values();
    let values: Vec<_> = values.iter().map(|value| value.get_name().to_owned()).collect();
    let aliases = argument.get_visible_aliases().unwrap_or_default();
    let aliases: Vec<_> = aliases.iter().map(|alias| format!("--{alias}")).collect();
    let list = |what: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!(" [{what}: {}]", names.join(", ")),
    };
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let help = help + &list("possible values", &values) + &list("aliases", &aliases);
    argument.help(help).hide_possible_values(!values.is_empty())
}

fn page(command: &Command) -> Result<ManPage, CliError> {
    let version = concat!("aiperf ", env!("CARGO_PKG_VERSION"));
    // An empty date would be dropped, and the next field would take its place.
    let man = Man::new(command.clone()).date(" ").source(version).manual("aiperf");
    let mut page = Vec::new();
    render(&man, command, &mut page).map_err(|error| CliError::Usage(format!("error: {error}")))?;
    Ok(ManPage { file: man.get_filename(), text: text(page)? })
}

/// Writes the sections that apply here. The synopsis is the usage line, since [`Man`]'s own
/// synopsis lists all of a hundred flags.
fn render(man: &Man, command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    man.render_title(page)?;
    man.render_name_section(page)?;
    Roff::new().control("SH", ["SYNOPSIS"]).text([roman(usage)]).to_writer(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    Ok(())
}

fn text(bytes: Vec<u8>) -> Result<String, CliError> {
    String::from_utf8(bytes).map_err(|error| CliError::Usage(format!("error: {error}")))
}
