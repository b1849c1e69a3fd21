//! Configuration files as the program prints them: all settings with their defaults, and the
//! effective settings of a command line.

use std::ffi::OsString;
use std::fmt;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::{merged, opposite, subject, takes_value};
use crate::cli::switches;
use crate::config::{ConfigError, Environment};

/// Width of the comments.
const WIDTH: usize = 96;

/// Where a setting is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Origin {
    /// A flag of the command line.
    CommandLine,
    /// This variable of the environment.
    Variable(&'static str),
    /// This file.
    File(String),
    /// The scenario with this name.
    Scenario(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::Variable(name) => f.write_str(name),
            Self::File(path) => f.write_str(path),
            Self::Scenario(name) => write!(f, "scenario {name}"),
        }
    }
}

/// The name of a group of settings: the heading of its flags in lower case, with hyphens.
fn group(flag: &Arg) -> String {
    let heading = flag.get_help_heading().unwrap_or("general").to_ascii_lowercase();
    let words = heading.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

/// The flags that files are printed with, in the order of the help text: all except the `--no-`
/// forms of switches, which are `false` in a file.
fn flags(profile: &Command) -> impl Iterator<Item = (&Arg, &str)> {
    let is_settable =
        |flag: &&Arg| !flag.is_hide_set() && !["help", "config"].contains(&flag.get_id().as_str());
    let is_positive =
        |(_, long): &(_, &str)| subject(long) == *long || opposite(long, profile).is_none();
    let flags = profile.get_arguments().filter(is_settable);
    flags.filter_map(|flag| Some((flag, flag.get_long()?))).filter(is_positive)
}

/// The names of all groups, in the order of the help text.
pub(super) fn groups(profile: &Command) -> Vec<String> {
    let mut groups: Vec<String> = Vec::new();
    for (flag, _) in flags(profile) {
        let group = group(flag);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

/// A file with all settings, commented out, and their descriptions and defaults.
pub(super) fn template(profile: &Command) -> String {
    let mut lines = vec![
        "# A configuration file of aiperf: aiperf profile --config FILE".to_owned(),
        "# Remove the # in front of what you set. Flags override the file.".to_owned(),
    ];
    for name in groups(profile) {
        lines.extend([String::new(), format!("{name}:")]);
        for (flag, long) in flags(profile).filter(|(flag, _)| group(flag) == name) {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            lines.extend(wrapped(&help).into_iter().map(|line| format!("  # {line}")));
            lines.push(format!("  # {long}: {}", default(flag, long, &help, profile)));
        }
    }
    lines.join("\n") + "\n"
}

/// The default of a flag: clap's own, or the one that its help text states if it is a single word.
/// A switch with a `--no-` form has none: its help says what applies without either.
fn default(flag: &Arg, long: &str, help: &str, profile: &Command) -> String {
    if !takes_value(flag) {
        return opposite(long, profile).map_or("false", |_| "").to_owned();
    }
    let own: Vec<_> =
        flag.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !own.is_empty() {
        return quoted(&own.join(","));
    }
    let stated = help.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']'));
    let word = stated.map(|(text, _)| text).filter(|text| !text.contains(' '));
    word.map(quoted).unwrap_or_default()
}

/// The effective settings of a command line: those that were set, with where each is from, and the
/// defaults of the others as comments.
pub(super) fn effective(
    arguments: &[OsString],
    command: Command,
    environment: Environment<'_>,
) -> Result<String, ConfigError> {
    let merged = merged(arguments, &command, environment)?;
    let (arguments, origins) = (&merged.arguments, &merged.origins);
    // Lists of sweeps are not values that the flags' own parsers accept.
    let mut command = command.mut_subcommand("profile", |profile| {
        profile.mut_args(|flag| {
            if takes_value(&flag) { flag.value_parser(ValueParser::os_string()) } else { flag }
        })
    });
    // They are valid, since they have been parsed before.
    let bare = switches::bare(arguments, &command);
    let matches = command.try_get_matches_from_mut(bare).unwrap_or_default();
    let (Some((_, matches)), Some(profile)) =
        (matches.subcommand(), command.find_subcommand("profile"))
    else {
        return Ok(String::new());
    };
    let mut lines = Vec::new();
    for name in groups(profile) {
        let of_group = flags(profile).filter(|(flag, _)| group(flag) == name);
        let of_group =
            of_group.filter_map(|(flag, long)| line(flag, long, matches, origins, profile));
        lines.push(format!("{name}:"));
        lines.extend(of_group.map(|line| format!("  {line}")));
    }
    Ok(merged.redacted(&(lines.join("\n") + "\n")))
}

/// The line of one setting, if it was set or has a default.
fn line(
    flag: &Arg,
    long: &str,
    matches: &ArgMatches,
    origins: &[(String, Origin)],
    profile: &Command,
) -> Option<String> {
    let has_subject = |(name, _): &&(String, Origin)| subject(name) == subject(long);
    match origins.iter().find(has_subject) {
        Some((_, origin @ Origin::Variable(_))) => Some(format!("# {long}: from {origin}")),
        Some((name, origin)) if name != long => Some(format!("{long}: false  # {origin}")),
        Some((_, origin)) => Some(format!("{long}: {}  # {origin}", value(flag, matches))),
        None => {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            let default = default(flag, long, &help, profile);
            (!default.is_empty()).then(|| format!("# {long}: {default}"))
        }
    }
}

/// The value of a flag in YAML.
fn value(flag: &Arg, matches: &ArgMatches) -> String {
    let id = flag.get_id().as_str();
    match flag.get_action() {
        ArgAction::SetTrue => matches.get_flag(id).to_string(),
        ArgAction::Count => matches.get_count(id).to_string(),
        _ => {
            let values = matches.get_many::<OsString>(id).into_iter().flatten();
            let values: Vec<_> = values.map(|value| quoted(&value.to_string_lossy())).collect();
            match values.as_slice() {
                [single] => single.clone(),
                several => format!("[{}]", several.join(", ")),
            }
        }
    }
}

/// A scalar in YAML: a number as it is, and a text in quotes.
fn quoted(text: &str) -> String {
    let is_number = text.parse::<f64>().is_ok_and(f64::is_finite);
    if is_number { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

/// The lines of a text.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
