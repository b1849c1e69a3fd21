//! Which flags of a group were given, for checks that depend on values, which clap cannot express.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, Id};

/// The flags of the subcommand that were given.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    command: &'a Command,
    matches: &'a ArgMatches,
}

impl<'a> Given<'a> {
    /// The flags in `matches`, which `command` defines.
    pub(super) const fn new(command: &'a Command, matches: &'a ArgMatches) -> Self {
        Self { command, matches }
    }

    /// The first flag of one of the groups that was given, with its dashes.
    pub(super) fn first(&self, groups: &[&str]) -> Option<String> {
        let (name, matches) = self.matches.subcommand()?;
        let of_group = |group: &&str| matches.try_get_many::<Id>(group).ok().flatten();
        let was_given =
            |id: &&Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        let id = groups.iter().filter_map(of_group).flatten().find(was_given)?;
        let command = self.command.find_subcommand(name)?;
        let flag = command.get_arguments().find(|flag| flag.get_id() == id)?;
        flag.get_long().map(|long| format!("--{long}"))
    }
}
