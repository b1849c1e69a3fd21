//! Which flags of a group were given, for checks that depend on values, which clap cannot express.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, Id};

use crate::config::ConfigError;

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

    /// The same flags in `matches` of another command line.
    pub(super) const fn with_matches(self, matches: &'a ArgMatches) -> Self {
        Self { matches, ..self }
    }

    /// Returns an error for the first flag of one of the groups that was given; `why` says what is
    /// wrong and what to do about it.
    pub(super) fn refuse(
        &self,
        groups: &[&str],
        why: impl Into<String>,
    ) -> Result<(), ConfigError> {
        match self.first(groups) {
            Some(flag) => Err(ConfigError::flag(flag, why)),
            None => Ok(()),
        }
    }

    /// The first flag of one of the groups that was given, with its dashes.
    fn first(&self, groups: &[&str]) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the flag for which `flags` are refused if those of `group` are.
    fn refused(flags: &str, group: &str) -> Option<String> {
        let mut command = crate::cli::command();
        let arguments = "aiperf profile --model m".split(' ').chain(flags.split(' '));
        let matches = command.try_get_matches_from_mut(arguments).unwrap();
        Given::new(&command, &matches).first(&[group])
    }

    #[test]
    fn every_group_that_is_asked_for_has_its_flags() {
        for (flags, group, flag) in [
            (
                "--warmup-duration 1 --warmup-arrival-pattern poisson",
                "of_warmup_rate",
                "--warmup-arrival-pattern",
            ),
            ("--confidence-level 0.9", "of_many_runs", "--confidence-level"),
            ("--rankings-passages-mean 2", "RankingsArgs", "--rankings-passages-mean"),
            ("--isl 2 --osl 3", "text", "--isl"),
            ("--isl 2 --osl 3", "output_lengths", "--osl"),
            ("--session-turns-mean 2", "conversations", "--session-turns-mean"),
            ("--audio-length-mean 2", "MediaArgs", "--audio-length-mean"),
            ("--gate request_latency<=1 --junit x", "GateArgs", "--gate"),
            ("--video-width 2 --video-height 4", "VideoArgs", "--video-width"),
        ] {
            assert_eq!(refused(flags, group).as_deref(), Some(flag), "{group}");
            // Defaults were not given.
            assert_eq!(refused("--streaming", group), None, "{group}");
        }
    }
}
