//! The arguments of `aiperf explain`, and the help of each flag.

use std::collections::BTreeMap;

use clap::builder::PossibleValue;
use clap::{Arg, Args, Command};

/// What to explain.
#[derive(Debug, Args)]
pub struct Explain {
    /// Metric, warning, reason, concept, gate, error type or flag; or the artifact directory of a
    /// run, to see what limits it [default: list the kinds of names]
    #[arg(value_name = "NAME|DIR", allow_hyphen_values = true)]
    pub(crate) name: Option<String>,
}

/// A flag, with its help in all commands that have it.
#[derive(Debug)]
pub(crate) struct FlagHelp {
    /// Its name, and its aliases.
    pub(crate) names: Vec<String>,
    /// The help, as Markdown.
    pub(crate) text: String,
}

/// The help of a flag, and the commands that have it.
#[derive(Debug)]
struct Help {
    text: String,
    commands: Vec<String>,
}

/// Returns the flags of all commands, by name.
#[must_use]
pub(crate) fn flags() -> Vec<FlagHelp> {
    let mut command = super::command();
    // Only a built command knows which flags take a value.
    command.build();
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut helps: BTreeMap<String, Vec<Help>> = BTreeMap::new();
    let groups = command.get_subcommands().flat_map(Command::get_subcommands);
    for of in command.get_subcommands().chain(groups) {
        for flag in of.get_arguments().filter(|flag| !flag.is_hide_set()) {
            let Some(long) = flag.get_long().map(|long| format!("--{long}")) else { continue };
            names.entry(long.clone()).or_default().extend(other_names(flag));
            let (helps, text) = (helps.entry(long).or_default(), help(flag));
            match helps.iter_mut().find(|known| known.text == text) {
                Some(known) => known.commands.push(name(of)),
                None => helps.push(Help { text, commands: vec![name(of)] }),
            }
        }
    }
    let flag = |(long, mut others): (String, Vec<String>)| {
        others.sort();
        others.dedup();
        let texts = helps.get(&long).into_iter().flatten();
        let texts = texts.map(|help| format!("{}: {}", help.commands.join(", "), help.text));
        FlagHelp {
            text: texts.collect::<Vec<_>>().join("\n\n"),
            names: std::iter::once(long).chain(others).collect(),
        }
    };
    names.into_iter().map(flag).collect()
}

fn name(command: &Command) -> String {
    format!("aiperf {}", command.get_name())
}

fn other_names(flag: &Arg) -> Vec<String> {
    let aliases = flag.get_visible_aliases().unwrap_or_default();
    let short = flag.get_short().map(|short| format!("-{short}"));
    aliases.into_iter().map(|alias| format!("--{alias}")).chain(short).collect()
}

/// Returns the usage and the help of a flag, with its default and its values.
fn help(flag: &Arg) -> String {
    let help = flag.get_long_help().or_else(|| flag.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let defaults = flag.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults = defaults.collect::<Vec<_>>().join(" ");
    let values = flag.get_possible_values();
    let values = values.iter().map(PossibleValue::get_name).collect::<Vec<_>>().join(", ");
    let takes_value = flag.get_action().takes_values();
    let list = |what: &str, text: &str| match text {
        "" => String::new(),
        text => format!(" [{what}: {text}]"),
    };
    let defaults = if takes_value { list("default", &defaults) } else { String::new() };
    let values = if takes_value { list("possible values", &values) } else { String::new() };
    format!("`{flag}` {help}{defaults}{values}")
}
