//! Boolean flags with a value, as AIPerf accepts them: `--streaming=true`.

use std::ffi::OsString;

use clap::{ArgAction, Command};

use crate::config::aiperf::flags;

/// Switches that have a `--no-` form. Any other switch that is turned off is dropped.
const PAIRS: &[&str] = &[
    "allow-dataset-wrap",
    "auto-plot",
    "force-min-tokens",
    "open-loop-replay",
    "parameter-sweep-same-seed",
    "profile-run-disable-warmup-after-first",
    "set-consistent-seed",
    "ssl-verify",
    "vary-seed-per-trial",
];

/// The arguments with the values of switches removed: `--name=yes` becomes `--name`, and
/// `--name=no` its opposite or nothing. A switch that is given twice is left as it is, for
/// clap to reject.
pub(super) fn bare(arguments: &[OsString], command: &Command) -> Vec<OsString> {
    let Some(profile) = command.find_subcommand("profile") else { return arguments.to_vec() };
    if arguments.get(1).is_none_or(|name| name != "profile") {
        return arguments.to_vec();
    }
    let times = |name: &str| arguments.iter().filter(|text| name_of(text) == Some(name)).count();
    let read = |argument: &OsString| {
        let (name, is_on) = switch(argument, profile).filter(|(name, _)| times(name) == 1)?;
        Some(if is_on { Some(name.to_owned()) } else { opposite(name) })
    };
    let mut bare = Vec::with_capacity(arguments.len());
    for argument in arguments {
        match read(argument) {
            Some(flag) => bare.extend(flag.map(OsString::from)),
            None => bare.push(argument.clone()),
        }
    }
    bare
}

fn name_of(argument: &OsString) -> Option<&str> {
    argument.to_str()?.split('=').next()
}

/// The switch that `argument` sets, and its value.
fn switch<'a>(argument: &'a OsString, profile: &Command) -> Option<(&'a str, bool)> {
    let (name, value) = argument.to_str()?.split_once('=')?;
    let is_on = is_on(value)?;
    let long = name.strip_prefix("--")?;
    let is_switch = |argument: &clap::Arg| {
        matches!(argument.get_action(), ArgAction::SetTrue | ArgAction::Count)
            && argument.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long))
    };
    let is_one = profile.get_arguments().any(is_switch) || flags::is_refused_switch(name);
    is_one.then_some((name, is_on))
}

/// Whether the value of a switch turns it on.
pub(super) fn is_on(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "0" => Some(false),
        _ => None,
    }
}

/// The flag that turns the switch `name` off, if there is one.
fn opposite(name: &str) -> Option<String> {
    let positive = name.strip_prefix("--no-").or_else(|| name.strip_prefix("--"))?;
    let is_negative = name.starts_with("--no-");
    let is_pair = PAIRS.contains(&positive);
    is_pair.then(|| format!("--{}{positive}", if is_negative { "" } else { "no-" }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bared(flags: &str) -> String {
        let arguments: Vec<OsString> =
            "aiperf profile".split(' ').chain(flags.split(' ')).map(Into::into).collect();
        let bare = bare(&arguments, &crate::cli::command());
        let words: Vec<_> = bare[2..].iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn switches_take_the_words_that_aiperf_takes() {
        for word in ["true", "True", "T", "yes", "Y", "1"] {
            assert_eq!(bared(&format!("--streaming={word} -m m")), "--streaming -m m");
        }
        for word in ["false", "FALSE", "f", "no", "n", "0"] {
            assert_eq!(bared(&format!("-m m --streaming={word}")), "-m m");
        }
        assert_eq!(bared("--verbose=yes --plot-required=no"), "--verbose");
    }

    #[test]
    fn pairs_become_their_opposite() {
        assert_eq!(bared("--auto-plot=false"), "--no-auto-plot");
        assert_eq!(bared("--no-auto-plot=false"), "--auto-plot");
        assert_eq!(bared("--open-loop-replay=0"), "--no-open-loop-replay");
        assert_eq!(bared("--no-ssl-verify=no --ssl-verify=no"), "--ssl-verify --no-ssl-verify");
        // These two are independent: without either the dataset decides.
        assert_eq!(bared("-m m --no-fixed-schedule=false --fixed-schedule=false"), "-m m");
    }

    #[test]
    fn what_is_neither_a_switch_nor_a_word_stays() {
        for flags in [
            "--streaming=on",
            "--streaming=",
            "--concurrency=1",
            "--model=true",
            "--accuracy-n-shots=0",
            "--no-such-flag=true",
            "--streaming --streaming=false",
        ] {
            assert_eq!(bared(flags), flags);
        }
    }

    proptest! {
        #[test]
        fn any_arguments_are_read(arguments: Vec<String>) {
            let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
            let _ = bare(&arguments, &Command::new("aiperf").subcommand(Command::new("profile")));
        }
    }
}
