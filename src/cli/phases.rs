//! The phases that `--phase` lists: the command line of each is that of the run with further flags of
//! the load and of the dataset. It is parsed and checked like any other.

use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::Arc;

use clap::{Arg, ArgGroup, ArgMatches, Command, FromArgMatches as _};

use base::setting::{self, MAX_NAME, is_name};
use client::schedule::PhaseKind;
use measure::multi_run::sweep::plain;

use super::profile::ProfileArgs;
use super::value;
use super::{Action, Cli, CliError, explain, switches};
use crate::config::ConfigError;

/// The flags of the load, which a phase can set.
const LOAD: &[&str] = &[
    "adaptive-assessment-period",
    "adaptive-base-step",
    "adaptive-control-min",
    "adaptive-control-variable",
    "adaptive-max-step-multiplier",
    "adaptive-min-completed-requests",
    "adaptive-scale",
    "adaptive-scale-sla",
    "adaptive-step-percent",
    "adaptive-step-policy",
    "adaptive-sustain-duration",
    "arrival-pattern",
    "arrival-smoothness",
    "benchmark-duration",
    "benchmark-grace-period",
    "concurrency",
    "concurrency-ramp-duration",
    "end-failed-sessions",
    "failed-request-threshold",
    "fixed-schedule",
    "num-sessions",
    "num-users",
    "prefill-concurrency",
    "prefill-concurrency-ramp-duration",
    "request-cancellation-delay",
    "request-cancellation-rate",
    "request-count",
    "request-rate",
    "request-rate-ramp-duration",
    "request-rate-series",
    "user-centric-rate",
];

/// The groups of the flags of the dataset, which a phase can set too.
const DATASET: &[&str] = &[
    "ConversationArgs",
    "HubArgs",
    "MediaArgs",
    "PromptArgs",
    "RankingsArgs",
    "SynthesisArgs",
    "VideoArgs",
];

/// Flags of the dataset that are in a group with others.
const INPUT: &[&str] = &["custom-dataset-type", "dataset-sampling-strategy", "input-file"];

/// Flags of these groups that all phases have in common.
const COMMON: &[&str] = &["cache-bust"];

/// Maximum number of phases, each of which has statistics of its own.
const MAX_PHASES: usize = 64;

/// A phase of the list.
pub(super) struct Listed {
    pub(super) name: Arc<str>,
    pub(super) kind: PhaseKind,
    /// Whether the next phase does not wait for its last requests.
    pub(super) seamless: bool,
    /// The flags of the run with those of the phase.
    pub(super) flags: Box<ProfileArgs>,
    /// Which flags these are.
    pub(super) matches: ArgMatches,
}

/// Returns the phases that the `texts` of `--phase` describe; `arguments` are those of the run, program
/// name first.
pub(super) fn listed(
    texts: &[String],
    arguments: &[OsString],
    command: &Command,
) -> Result<Vec<Listed>, CliError> {
    if texts.len() > MAX_PHASES {
        return Err(refused(format!("a run has at most {MAX_PHASES} phases")).into());
    }
    let mut phases: Vec<Listed> = Vec::new();
    for text in texts {
        let phase = phase(text, arguments, command)?;
        if phases.iter().any(|other| other.name == phase.name) {
            let why = format!("two phases are named {:?}; choose another name", phase.name);
            return Err(refused(why).into());
        }
        phases.push(phase);
    }
    let is_measured = |phase: &Listed| phase.kind == PhaseKind::Profiling;
    if !phases.is_empty() && !phases.iter().any(is_measured) {
        let why = "all phases are warmups; remove kind=warmup from those that are measured";
        return Err(refused(why.to_owned()).into());
    }
    Ok(phases)
}

fn phase(text: &str, arguments: &[OsString], command: &Command) -> Result<Listed, CliError> {
    let (name, settings) = value::scenario(text).ok_or_else(|| {
        refused(format!("{text:?} is not of the form 'name: flag=value, flag=value'"))
    })?;
    let name = name.filter(|name| is_name(name)).ok_or_else(|| {
        refused(format!(
            "{text:?} does not begin with a name of at most {MAX_NAME} letters, digits, `-`, `_` and \
             `.`, and a colon"
        ))
    })?;
    let of_phase = |why: String| refused(format!("phase {name:?}: {why}"));
    let (mut kind, mut seamless) = (PhaseKind::Profiling, false);
    let mut arguments = arguments.to_vec();
    let mut given = HashSet::new();
    let mut check = |name: &str| {
        let is_first = given.insert(name.to_owned());
        let why = || of_phase(format!("{name} is set twice; remove one of them"));
        if is_first { Ok(()) } else { Err(why()) }
    };
    for (key, value) in settings {
        let (key, value) = (key.trim_start_matches('-').replace('_', "-"), plain(&value));
        if key == "kind" {
            check("kind")?;
            kind = kind_of(&value).map_err(of_phase)?;
            continue;
        }
        if key == "seamless" {
            check("seamless")?;
            let is_on = switches::is_on(&value);
            seamless =
                is_on.ok_or_else(|| of_phase("seamless must be true or false".to_owned()))?;
            continue;
        }
        let flag = flag(&key, command).map_err(of_phase)?;
        check(flag)?;
        arguments.push(format!("--{flag}={value}").into());
    }
    // The flags of the phase follow those of the run, and override them.
    let mut command =
        command.clone().mut_subcommand("profile", |profile| profile.args_override_self(true));
    let bare = switches::bare(&arguments, &command);
    let matches = command.try_get_matches_from_mut(bare).map_err(|error| explain(&error));
    let parsed = matches.and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches).map_err(|error| explain(&error))?;
        Ok((cli.command, matches))
    });
    let named = |error: CliError| {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        CliError::Usage(format!("error: phase {name}: {text}"))
    };
    match parsed.map_err(named)? {
        (Action::Profile(flags), matches) => {
            Ok(Listed { name: name.as_str().into(), kind, seamless, flags, matches })
        }
        _ => Err(of_phase("not a run".to_owned()).into()),
    }
}

fn kind_of(name: &str) -> Result<PhaseKind, String> {
    let all = [PhaseKind::Warmup, PhaseKind::Profiling];
    let found = all.into_iter().find(|kind| kind.as_str() == name);
    found.ok_or_else(|| format!("{name:?} is not a kind of phase; use warmup or profiling"))
}

fn refused(why: String) -> ConfigError {
    ConfigError::flag("--phase", why)
}

/// Returns the flag with the name or alias `key`, if a phase can set it.
fn flag<'a>(key: &str, command: &'a Command) -> Result<&'a str, String> {
    let unknown = || format!("{key:?} is not a setting of a phase; use kind, seamless or a flag");
    let profile = command.find_subcommand("profile").ok_or_else(unknown)?;
    let has_name = |argument: &&Arg| {
        argument.get_long_and_visible_aliases().is_some_and(|names| names.contains(&key))
    };
    let Some(argument) = profile.get_arguments().find(has_name) else {
        let known = profile.get_arguments().filter(|argument| is_of_phase(argument, profile));
        let similar = setting::similar(key, known.filter_map(Arg::get_long));
        let hint = similar.first().map_or_else(
            || "use kind, seamless, or a flag of the load or the dataset".to_owned(),
            |long| format!("did you mean {long}?"),
        );
        return Err(format!("{key:?} is not a setting of a phase; {hint}"));
    };
    if !is_of_phase(argument, profile) {
        return Err(format!(
            "all phases of a run have the same --{key}, so that a phase cannot set it; set it for the run"
        ));
    }
    argument.get_long().ok_or_else(unknown)
}

/// Returns whether a phase can set this flag: it is one of the load, or of the dataset.
fn is_of_phase(argument: &Arg, profile: &Command) -> bool {
    let long = argument.get_long().unwrap_or_default();
    let is_in = |group: &ArgGroup| {
        DATASET.contains(&group.get_id().as_str())
            && group.get_args().any(|id| id == argument.get_id())
    };
    let is_of_dataset = INPUT.contains(&long) || profile.get_groups().any(is_in);
    LOAD.contains(&long) || (is_of_dataset && !COMMON.contains(&long))
}
