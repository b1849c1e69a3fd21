//! Settings from a file: `--config`, and the commands of `aiperf config`.
//!
//! Each setting of the file becomes a flag in front of those of the command line, unless the
//! command line or the environment has the setting too. These flags are parsed and checked together
//! with those of the command line. A file of AIPerf, whose settings have other names, is mapped to
//! flags first.

mod command;
mod expand;
mod shown;
mod substitution;
mod templates;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use serde_norway::{Mapping, Value};

use base::input::{self, yaml};
use base::redact;

use self::substitution::Substitution;
use super::value::members as fields;
use super::{scenario, switches};
use crate::config::aiperf::{self, scalar};
use crate::config::{ConfigError, Environment};

pub(super) use command::ConfigAction;
pub(super) use shown::Origin;
use shown::{effective, template};

/// Flags whose settings variables of the environment have too.
const VARIABLES: &[(&str, &str)] = &[
    ("api-key", "AIPERF_API_KEY"),
    ("api-token", "AIPERF_API_TOKEN"),
    ("server-metrics-timeout", "AIPERF_SERVER_METRICS_SCRAPE_TIMEOUT"),
    ("ssl-verify", "AIPERF_HTTP_SSL_VERIFY"),
];

/// A command line with the settings of its file.
#[derive(Debug)]
pub(super) struct Merged {
    /// The arguments, program name first.
    pub(super) arguments: Vec<OsString>,
    /// Where each setting is from that the file, the command line or the environment has.
    pub(super) origins: Vec<(String, Origin)>,
    /// The secrets of the environment that the file uses, as arguments.
    secrets: Vec<String>,
}

impl Merged {
    /// Returns `text` without the secrets of the arguments, and those of the environment that the file uses.
    fn redacted(&self, text: &str) -> String {
        let arguments = self.arguments.iter().map(|argument| argument.to_string_lossy());
        let shown: Vec<_> =
            arguments.chain(self.secrets.iter().map(|secret| Cow::from(secret.as_str()))).collect();
        redact::message(text, &shown)
    }
}

/// Adds the settings of the file that `--config` names to the arguments, and those of the scenario that
/// they name.
pub(super) fn merged(
    arguments: &[OsString],
    command: &Command,
    environment: Environment<'_>,
) -> Result<Merged, ConfigError> {
    let mut merged =
        Merged { arguments: arguments.to_vec(), origins: Vec::new(), secrets: Vec::new() };
    let Some(profile) = command.find_subcommand("profile") else { return Ok(merged) };
    if arguments.get(1).is_none_or(|name| name != "profile") {
        return Ok(merged);
    }
    let flags = merged.arguments.split_off(2);
    let given = given(&flags, profile);
    merged.origins = given.iter().map(|long| ((*long).to_owned(), Origin::CommandLine)).collect();
    let path = file_of(&flags);
    let settings = match &path {
        Some(path) => {
            let (settings, secrets) = read(Path::new(path.as_ref()), profile, environment)?;
            merged.secrets = secrets;
            settings
        }
        None => Vec::new(),
    };
    for (setting, path) in settings.into_iter().zip(path.iter().cycle()) {
        let name = subject(&setting.long);
        if given.iter().any(|long| subject(long) == name) {
            continue;
        }
        let variable = VARIABLES.iter().find(|(flag, _)| *flag == name);
        let set = variable.filter(|(_, name)| environment.get(name).is_some());
        let origin = if let Some((_, variable)) = set {
            Origin::Variable(variable)
        } else {
            merged.arguments.extend(setting.arguments.into_iter().map(OsString::from));
            Origin::File(path.clone().into_owned())
        };
        merged.origins.push((setting.long, origin));
    }
    merged.arguments.extend_from_slice(&flags);
    scenario::apply(&mut merged, profile)?;
    Ok(merged)
}

/// The name that a flag and its `--no-` form share.
pub(super) fn subject(long: &str) -> &str {
    long.strip_prefix("no-").unwrap_or(long)
}

/// The long names of the flags in `arguments`.
fn given<'a>(arguments: &[OsString], profile: &'a Command) -> Vec<&'a str> {
    let flags = |text: &str| -> Vec<&'a Arg> {
        if let Some(name) = text.strip_prefix("--") {
            let name = name.split('=').next().unwrap_or(name);
            return find(profile, name).into_iter().collect();
        }
        let Some(letters) = text.strip_prefix('-') else { return Vec::new() };
        let mut found = Vec::new();
        for letter in letters.chars() {
            let flag = profile.get_arguments().find(|flag| flag.get_short() == Some(letter));
            found.extend(flag);
            if flag.is_none_or(takes_value) {
                break;
            }
        }
        found
    };
    let all = arguments.iter().filter_map(|argument| argument.to_str()).flat_map(flags);
    all.filter_map(Arg::get_long).collect()
}

/// The value of `--config`. A second one is rejected when the flags are parsed.
fn file_of(arguments: &[OsString]) -> Option<Cow<'_, str>> {
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        if text == "--config" || text == "-f" {
            return rest.next().map(|path| path.to_string_lossy());
        }
        let attached = text.strip_prefix("--config=").or_else(|| text.strip_prefix("-f"));
        if let Some(path) = attached {
            return Some(path.to_owned().into());
        }
    }
    None
}

/// The flag `name`, without dashes, by any of its names.
fn find<'a>(profile: &'a Command, name: &str) -> Option<&'a Arg> {
    profile.get_arguments().find(|flag| {
        flag.get_long() == Some(name)
            || flag.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
    })
}

fn takes_value(flag: &Arg) -> bool {
    matches!(flag.get_action(), ArgAction::Set | ArgAction::Append)
}

/// A setting of a file.
#[derive(Debug, PartialEq, Eq)]
struct Setting {
    /// Its flag, without dashes.
    long: String,
    /// The flag with the value; empty for a switch that is off anyway.
    arguments: Vec<String>,
}

/// Reads the settings of the file at `path`, and the secrets of the environment that it uses.
fn read(
    path: &Path,
    profile: &Command,
    environment: Environment<'_>,
) -> Result<(Vec<Setting>, Vec<String>), ConfigError> {
    let cannot = |why: std::io::Error| ConfigError::File {
        flag: "--config",
        path: path.display().to_string(),
        why: why.to_string(),
    };
    let wrong = |why: &str| ConfigError::flag("--config", format!("{}: {why}", path.display()));
    if !std::fs::metadata(path).map_err(cannot)?.is_file() {
        return Err(wrong("not a regular file"));
    }
    let text = input::text(path, input::MAX_SETTINGS_BYTES).map_err(cannot)?;
    let secrets = substitution::secrets(&text, environment);
    match settings(&text, profile, environment) {
        Ok(settings) => Ok((settings, secrets)),
        // A template may quote what a variable of the environment is replaced by.
        Err(why) => Err(wrong(&redact::message(&why, &secrets))),
    }
}

/// Reads the settings of a file with the content `text`.
fn settings(
    text: &str,
    profile: &Command,
    environment: Environment<'_>,
) -> Result<Vec<Setting>, String> {
    let document = match yaml::parsed(text)? {
        Value::Null => Mapping::new(),
        Value::Mapping(document) => document,
        _ => return Err("expected groups of settings, such as `endpoint:`".to_owned()),
    };
    if aiperf::is_of_aiperf(&document) {
        return of_aiperf(document, profile, environment);
    }
    let groups = shown::groups(profile);
    let mut settings: Vec<Setting> = Vec::new();
    let mut substitution = Substitution::new(environment);
    let mut add = |key: &str, value: Value| {
        let value = substitution.substitute(value).map_err(|why| format!("{key}: {why}"))?;
        let setting = setting(key, value, profile)?;
        if settings.iter().any(|other| subject(&other.long) == subject(&setting.long)) {
            return Err(format!("{key} is set twice; remove one of the two"));
        }
        settings.push(setting);
        Ok(())
    };
    for (key, value) in document {
        let key = name(&key)?;
        match value {
            Value::Mapping(members) if groups.contains(&key) => {
                for (member, value) in members {
                    add(&name(&member)?, value)?;
                }
            }
            Value::Null if groups.contains(&key) => {}
            value => add(&key, value)?,
        }
    }
    Ok(settings)
}

/// Reads the settings of a file with AIPerf's schema.
fn of_aiperf(
    document: Mapping,
    profile: &Command,
    environment: Environment<'_>,
) -> Result<Vec<Setting>, String> {
    let mut substitution = Substitution::of_aiperf(environment);
    let replaced = |(name, value)| Ok((name, substitution.substitute(value)?));
    let document = document.into_iter().map(replaced).collect::<Result<Mapping, String>>()?;
    let mut settings = Vec::new();
    for aiperf::Mapped { flag, path, value } in aiperf::mapped(document)? {
        // A feature that aiperf does not have is off anyway.
        if find(profile, flag).is_none() && aiperf::is_off(&value) {
            continue;
        }
        settings.push(setting(flag, value, profile).map_err(|why| format!("{path}: {why}"))?);
    }
    Ok(settings)
}

/// The name of a setting or a group, with hyphens.
fn name(key: &Value) -> Result<String, String> {
    match key.as_str() {
        Some(key) => Ok(key.trim().replace('_', "-")),
        None => Err("the name of a setting must be a text".to_owned()),
    }
}

/// The flag `key` with `value`.
fn setting(key: &str, value: Value, profile: &Command) -> Result<Setting, String> {
    let found =
        find(profile, key).filter(|flag| !["help", "config"].contains(&flag.get_id().as_str()));
    let Some(flag) = found else { return Err(unknown(key, profile)) };
    let long = flag.get_long().unwrap_or(key).to_owned();
    let arguments = match value {
        Value::Null => Vec::new(),
        value if !takes_value(flag) => switch(&long, flag, &value, profile)?,
        value => {
            let texts = values(flag, value).map_err(|why| format!("{key}: {why}"))?;
            match flag.get_action() {
                ArgAction::Append => texts.iter().map(|text| format!("--{long}={text}")).collect(),
                // A list of a flag with a single value is a sweep over it.
                _ => vec![format!("--{long}={}", texts.join(","))],
            }
        }
    };
    Ok(Setting { long, arguments })
}

/// Why there is no setting `key`, and which might have been meant.
fn unknown(key: &str, profile: &Command) -> String {
    let refused = aiperf::flags::refusal(&format!("--{key}"));
    if let Some(refusal) = refused {
        return refusal;
    }
    let names = profile.get_arguments().filter(|flag| !flag.is_hide_set());
    let hint = match base::setting::similar(key, names.filter_map(Arg::get_long)).first() {
        Some(long) => format!("did you mean {long}?"),
        None => "`aiperf config init` prints all settings".to_owned(),
    };
    format!("{key} is not a setting; {hint}")
}

/// The flag that turns a switch on or off.
fn switch(long: &str, flag: &Arg, value: &Value, profile: &Command) -> Result<Vec<String>, String> {
    if let (ArgAction::Count, Some(count)) = (flag.get_action(), value.as_u64()) {
        return Ok(vec![format!("--{long}"); count.min(2) as usize]);
    }
    let is_on = match value {
        Value::Bool(is_on) => Some(*is_on),
        Value::String(text) => switches::is_on(text),
        _ => None,
    };
    match is_on {
        Some(true) => Ok(vec![format!("--{long}")]),
        Some(false) => {
            Ok(opposite(long, profile).map(|long| format!("--{long}")).into_iter().collect())
        }
        None => Err(format!("{long}: expected true or false")),
    }
}

/// The switch that turns the switch `long` off, if there is one.
fn opposite(long: &str, profile: &Command) -> Option<String> {
    let negative = format!("no-{long}");
    let opposite = long.strip_prefix("no-").unwrap_or(&negative);
    find(profile, opposite).map(|_| opposite.to_owned())
}

/// The values of a flag as the command line has them.
fn values(flag: &Arg, value: Value) -> Result<Vec<String>, String> {
    match value {
        Value::Sequence(items) => {
            if items.iter().any(Value::is_sequence) {
                return Err("expected a value or a list, got a list of lists".to_owned());
            }
            let items = items.into_iter().map(|item| values(flag, item));
            Ok(items.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        }
        Value::Mapping(members) => {
            let form = flag.get_value_names().and_then(|names| names.first());
            if form.is_some_and(|form| ["PHASE", "SCENARIO"].contains(&form.as_str())) {
                return named_settings(&members).map(|text| vec![text]);
            }
            let separator = match form.map(|form| form.contains('=')) {
                Some(true) => '=',
                _ if form.is_some_and(|form| form.contains(':')) => ':',
                _ => return Err("expected a value or a list".to_owned()),
            };
            let pair = |(name, value): (Value, Value)| {
                let name = scalar(&name).ok_or("the name of a member must be a text")?;
                let json = serde_json::to_value(&value).map_err(|error| error.to_string())?;
                let text = scalar(&value).unwrap_or_else(|| json.to_string());
                let text = format!("{name}{separator}{text}");
                let is_field = flag.get_id() == "extra_inputs";
                let as_given =
                    || fields(&text).is_some_and(|read| read == [(name.clone(), json.clone())]);
                // A text that would be read as something else, such as "5", is a JSON string.
                Ok(if is_field && !as_given() {
                    serde_json::json!({ name: json }).to_string()
                } else {
                    text
                })
            };
            members.into_iter().map(pair).collect()
        }
        value => match scalar(&value) {
            Some(text) => Ok(vec![text]),
            None => Err("expected a value or a list".to_owned()),
        },
    }
}

/// Returns settings with a name as the command line has them: `name: flag=value, flag=value`.
fn named_settings(members: &Mapping) -> Result<String, String> {
    let text = |value: &Value| scalar(value).ok_or("expected a single value for each setting");
    let name = members.get("name").map(text).transpose()?;
    let others = members.iter().filter(|(key, _)| key.as_str() != Some("name"));
    let settings = others
        .map(|(key, value)| Ok(format!("{}={}", self::name(key)?, aiperf::quoted(&text(value)?))));
    let settings = settings.collect::<Result<Vec<String>, String>>()?.join(", ");
    Ok(name.map_or_else(|| settings.clone(), |name| format!("{name}: {settings}")))
}

#[cfg(test)]
mod tests;
