//! Scenarios on the command line: their settings are flags in front of those that are given, and their
//! rules are checked on the flags of both.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Arg, Args, Command};

use dataset::Public;
use results::run::scenario::{ScenarioDataset, ScenarioRun};

use super::config_file::{Merged, Origin, subject};
use super::profile::ProfileArgs;
use super::{switches, value};
use crate::config::ConfigError;
use crate::config::scenario::{SCENARIOS, Scenario, Setting};

/// The benchmark of others that is performed.
#[derive(Args)]
#[command(next_help_heading = "Agentic Replay")]
pub(super) struct ScenarioArgs {
    /// Benchmark defined by others, whose settings apply and are checked; `aiperf list scenarios` lists them
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Allow settings that the scenario forbids; the result is then not valid for a submission
    #[arg(long, requires = "scenario")]
    unsafe_override: bool,
}

/// The flags that name a recorded dataset.
const DATASETS: [&str; 3] = ["input-file", "public-dataset", "hf-weka-dataset"];

/// Adds the settings of the scenario that the command line or its file names, if one does.
pub(super) fn apply(merged: &mut Merged, profile: &Command) -> Result<(), ConfigError> {
    let Some(scenario) = Flags { arguments: &merged.arguments, profile }.scenario()? else {
        return Ok(());
    };
    let is_given =
        |flag: &str| merged.origins.iter().any(|(long, _)| subject(long) == subject(flag));
    if !DATASETS.iter().any(|flag| is_given(flag)) {
        let why = format!(
            "{} replays recorded traces, and not generated prompts; add --public-dataset",
            scenario.name
        );
        return Err(ConfigError::flag("--scenario", why));
    }
    let applies = |setting: &&Setting| {
        !is_given(setting.flag) && !setting.unless.iter().any(|flag| is_given(flag))
    };
    let settings: Vec<&Setting> = scenario.settings().filter(applies).collect();
    let argument = |setting: &Setting| match setting.value {
        Some(value) => format!("--{}={value}", setting.flag),
        None => format!("--{}", setting.flag),
    };
    let mut added: Vec<OsString> = settings.iter().map(|it| argument(it).into()).collect();
    let flags = Flags { arguments: &merged.arguments, profile };
    for name in scenario.body.iter().filter(|name| flags.member(name).is_none()) {
        added.push(format!("--extra-inputs={name}:true").into());
    }
    let origin = |it: &Setting| (it.flag.to_owned(), Origin::Scenario(scenario.name));
    let origins: Vec<_> = settings.into_iter().map(origin).collect();
    merged.origins.extend(origins);
    merged.arguments.splice(2..2, added);
    Ok(())
}

/// Returns the scenario that `arguments` name, if they do.
///
/// # Errors
///
/// Fails if the flags violate rules of the scenario, unless they allow that.
pub(super) fn checked(
    arguments: &[OsString],
    command: &Command,
) -> Result<Option<(&'static Scenario, Vec<String>)>, ConfigError> {
    let Some(profile) = command.find_subcommand("profile") else { return Ok(None) };
    if arguments.get(1).is_none_or(|name| name != "profile") {
        return Ok(None);
    }
    let flags = Flags { arguments, profile };
    let Some(scenario) = flags.scenario()? else { return Ok(None) };
    let violations = flags.violations(scenario);
    if violations.is_empty() || flags.is_on("unsafe-override") {
        return Ok(Some((scenario, violations)));
    }
    let why = format!(
        "{} does not allow these settings: {}; change them, or add --unsafe-override for a result that \
         is not valid for a submission",
        scenario.name,
        violations.join("; ")
    );
    Err(ConfigError::flag("--scenario", why))
}

/// Returns an error if the arguments of a sweep name a scenario.
pub(super) fn refuse_sweep(arguments: &[OsString], command: &Command) -> Result<(), ConfigError> {
    let Some(profile) = command.find_subcommand("profile") else { return Ok(()) };
    match (Flags { arguments, profile }).scenario()? {
        Some(scenario) => {
            let why = format!(
                "{} is a single run; give each flag a single value, and start a run for each",
                scenario.name
            );
            Err(ConfigError::flag("--scenario", why))
        }
        None => Ok(()),
    }
}

/// Returns the scenario of the run with `flags`.
pub(super) fn run(
    (scenario, violations): (&'static Scenario, Vec<String>),
    flags: &ProfileArgs,
) -> ScenarioRun {
    ScenarioRun {
        name: scenario.name.to_owned(),
        violations,
        limits: scenario.limits,
        dataset: dataset(flags),
    }
}

fn dataset(flags: &ProfileArgs) -> ScenarioDataset {
    let entries = flags.conversation.num_dataset_entries;
    match flags.hub.traces() {
        Some(hub) => ScenarioDataset {
            source_type: "public_dataset".to_owned(),
            loader: hub.loader.to_owned(),
            hf_dataset_name: Some(hub.repository.to_owned()),
            hf_split: Some(hub.split.unwrap_or("train").to_owned()),
            hf_subset: hub.subset.map(str::to_owned),
            num_dataset_entries: entries,
        },
        None => ScenarioDataset {
            source_type: "file".to_owned(),
            loader: "weka_trace".to_owned(),
            hf_dataset_name: None,
            hf_split: None,
            hf_subset: None,
            num_dataset_entries: entries,
        },
    }
}

/// The output of `aiperf list scenarios`: what each scenario sets, requires and forbids.
pub(super) fn listing() -> String {
    let blocks: Vec<String> = SCENARIOS.iter().map(block).collect();
    blocks.join("\n")
}

fn block(scenario: &Scenario) -> String {
    let settings = |is_locked| {
        let settings = scenario.settings().filter(move |it| it.is_locked == is_locked);
        settings.map(with_value).collect::<Vec<_>>()
    };
    let body = scenario.body.iter().map(|name| format!("--extra-inputs {name}:true"));
    let least = scenario.at_least.iter().map(|(flag, least)| format!("--{flag} {least} or more"));
    let required = settings(true).into_iter().chain(body).chain(least);
    let public = scenario.public_datasets.iter().map(|name| format!("--public-dataset {name}"));
    let others = scenario.repositories.iter().map(|name| format!("--hf-weka-dataset {name}"));
    let limits = scenario.limits;
    let mut text = format!("{}\n  {}\n", scenario.name, scenario.about);
    let parts = [
        ("sets", settings(false)),
        ("requires", required.collect()),
        ("forbids", scenario.forbids.iter().map(|flag| format!("--{flag}")).collect()),
        ("datasets", public.chain(others).collect()),
        (
            "valid results",
            vec![
                format!(
                    "context overflows of at most {}% of the requests",
                    limits.overflows * 100.0
                ),
                format!(
                    "responses during {}% of a duration of {} s or more",
                    limits.coverage * 100.0,
                    limits.coverage_from
                ),
                "a run that was not cancelled".to_owned(),
            ],
        ),
    ];
    for (title, lines) in parts {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {title}:\n    {}", lines.join("\n    "));
    }
    text
}

fn with_value(setting: &Setting) -> String {
    match setting.value {
        Some(value) => format!("--{} {value}", setting.flag),
        None => format!("--{}", setting.flag),
    }
}

/// The flags of a command line with those of its file, before they are parsed.
#[derive(Clone, Copy)]
struct Flags<'a> {
    arguments: &'a [OsString],
    profile: &'a Command,
}

impl<'a> Flags<'a> {
    /// The values of the flag with the long name `name`, or one of its aliases, as they are given; `None`
    /// for a switch without a value.
    fn values(self, name: &str) -> Vec<Option<&'a str>> {
        let flag = self.profile.get_arguments().find(|flag| flag.get_long() == Some(name));
        let names = flag.and_then(Arg::get_long_and_visible_aliases).unwrap_or_default();
        let takes_value = flag.is_some_and(|flag| flag.get_action().takes_values());
        let takes_many =
            flag.and_then(Arg::get_num_args).is_some_and(|range| range.max_values() > 1);
        let mut rest = self.arguments.iter().skip(2).map(|text| text.to_str().unwrap_or_default());
        let mut found = Vec::new();
        let mut next = rest.next();
        while let Some(text) = next {
            let (given, inline) = match text.split_once('=') {
                Some((given, value)) => (given, Some(value)),
                None => (text, None),
            };
            next = rest.next();
            if !given.strip_prefix("--").is_some_and(|given| names.contains(&given)) {
                continue;
            }
            match inline {
                None if takes_value => {
                    found.extend(next.map(Some));
                    next = rest.next();
                    while let Some(value) = next.filter(|it| takes_many && !it.starts_with('-')) {
                        found.push(Some(value));
                        next = rest.next();
                    }
                }
                inline => found.push(inline),
            }
        }
        found
    }

    fn value(self, name: &str) -> Option<&'a str> {
        self.values(name).into_iter().rev().flatten().next()
    }

    /// Whether the switch is on.
    fn is_on(self, name: &str) -> bool {
        self.values(name)
            .iter()
            .any(|value| value.is_none_or(|it| switches::is_on(it) == Some(true)))
    }

    /// Whether the flag is given, and not turned off.
    fn is_given(self, name: &str) -> bool {
        let is_off = |value: Option<&str>| value.and_then(switches::is_on) == Some(false);
        let is_switch = self
            .profile
            .get_arguments()
            .any(|flag| flag.get_long() == Some(name) && !flag.get_action().takes_values());
        self.values(name).iter().any(|value| !is_switch || !is_off(*value))
    }

    /// The value of the member `name` of request bodies.
    fn member(self, name: &str) -> Option<serde_json::Value> {
        let texts = self.values("extra-inputs").into_iter().flatten();
        let members = texts.filter_map(value::members).flatten();
        members.filter(|(given, _)| given == name).map(|(_, value)| value).next_back()
    }

    fn scenario(self) -> Result<Option<&'static Scenario>, ConfigError> {
        let Some(name) = self.value("scenario") else { return Ok(None) };
        let found = Scenario::named(name).map(Some);
        found.ok_or_else(|| {
            let names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
            let why = format!("{name:?} is not a scenario; use {}", names.join(" or "));
            ConfigError::flag("--scenario", why)
        })
    }

    /// What the flags have that the scenario does not allow, each as a clause.
    fn violations(self, scenario: &Scenario) -> Vec<String> {
        let mut found = Vec::new();
        for setting in scenario.settings().filter(|setting| setting.is_locked) {
            let flag = setting.flag;
            match setting.value {
                None if !self.is_on(flag) => found.push(format!("--{flag} must be on")),
                Some(wanted) => {
                    let given = self.value(flag).unwrap_or("none");
                    if !is_same(given, wanted) {
                        found.push(format!("--{flag} must be {wanted}, got {given}"));
                    }
                }
                None => {}
            }
        }
        for name in scenario.body {
            let given = self.member(name);
            if given.as_ref().is_some_and(|value| !is_true(value)) {
                let given = given.unwrap_or_default();
                found.push(format!("--extra-inputs {name} must be true, got {given}"));
            }
        }
        for (flag, least) in scenario.at_least {
            let given = self.value(flag).and_then(|text| text.trim().parse::<f64>().ok());
            if let Some(given) = given.filter(|given| given < least) {
                found.push(format!("--{flag} must be at least {least}, got {given}"));
            }
        }
        let forbidden = scenario.forbids.iter().filter(|flag| self.is_given(flag));
        found.extend(forbidden.map(|flag| format!("--{flag} must not be given")));
        found.extend(self.unknown_dataset(scenario));
        found
    }

    fn unknown_dataset(self, scenario: &Scenario) -> Option<String> {
        if let Some(name) = self.value("public-dataset") {
            let known = Public::named(name).map(|public| public.name);
            let is_allowed = known.is_some_and(|name| scenario.public_datasets.contains(&name));
            return (!is_allowed)
                .then(|| format!("--public-dataset {name} is not one of its datasets"));
        }
        if let Some(name) = self.value("hf-weka-dataset") {
            let repository = name.split('@').next().unwrap_or(name);
            let is_allowed = scenario.repositories.contains(&repository);
            return (!is_allowed)
                .then(|| format!("--hf-weka-dataset {name} is not one of its datasets"));
        }
        let file = self.value("input-file");
        file.map(|_| "--input-file is a dataset that nobody else can check".to_owned())
    }
}

/// Whether two values of a flag are the same: numbers by their value, names in any case and with any
/// dashes.
fn is_same(given: &str, wanted: &str) -> bool {
    if let (Ok(given), Ok(wanted)) = (given.trim().parse::<f64>(), wanted.parse::<f64>()) {
        return given == wanted;
    }
    let plain = |text: &str| text.trim().to_ascii_lowercase().replace('-', "_");
    plain(given) == plain(wanted)
}

/// Whether a member of a body is not turned off; servers read texts and numbers as truth values too.
fn is_true(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Bool(is_on) => *is_on,
        serde_json::Value::String(text) => switches::is_on(text) == Some(true),
        serde_json::Value::Number(number) => number.as_f64() != Some(0.0),
        _ => false,
    }
}
