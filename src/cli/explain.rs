//! The arguments of `aiperf explain`, and the help of each flag.

use std::collections::BTreeMap;

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

/// Returns the flags of all commands, by name.
#[must_use]
pub(crate) fn flags() -> Vec<FlagHelp> {
    let mut command = super::command();
    // Only a built command knows which flags take a value.
    command.build();
    let mut found: BTreeMap<String, (Vec<String>, Vec<(String, Vec<String>)>)> = BTreeMap::new();
    for of in command.get_subcommands() {
        for flag in of.get_arguments().filter(|flag| !flag.is_hide_set()) {
            let Some(long) = flag.get_long() else { continue };
            let (names, texts) = found.entry(format!("--{long}")).or_default();
            names.extend(other_names(flag));
            let text = help(flag);
            match texts.iter_mut().find(|(known, _)| *known == text) {
                Some((_, commands)) => commands.push(name(of)),
                None => texts.push((text, vec![name(of)])),
            }
        }
    }
    let flag = |(long, (mut names, texts)): (String, (Vec<String>, Vec<(String, Vec<String>)>))| {
        names.sort();
        names.dedup();
        names.insert(0, long);
        let text = texts.iter().map(|(text, commands)| format!("{}: {text}", commands.join(", ")));
        FlagHelp { names, text: text.collect::<Vec<_>>().join("\n\n") }
    };
    found.into_iter().map(flag).collect()
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
    let values = values.iter().map(|value| value.get_name()).collect::<Vec<_>>().join(", ");
    let takes_value = flag.get_action().takes_values();
    let list = |what: &str, text: &str| match text {
        "" => String::new(),
        text => format!(" [{what}: {text}]"),
    };
    let defaults = if takes_value { list("default", &defaults) } else { String::new() };
    let values = if takes_value { list("possible values", &values) } else { String::new() };
    format!("`{flag}` {help}{defaults}{values}")
}
