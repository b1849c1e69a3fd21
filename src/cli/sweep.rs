//! Sweeps: the flags for them, and the command line of each cell.
//!
//! The command line of a cell is that of the sweep without the lists, and with one value of each
//! list instead. It is parsed and checked like any other.

use std::collections::HashSet;
use std::ffi::OsString;

use clap::{ArgAction, ArgGroup, Args, Command};
use serde_json::{Map, Value};

use base::redact;
use base::setting::{Named as _, named};
use base::units::Nanos;
use measure::multi_run::Variation;
use measure::multi_run::sweep::{Choice, Config, Mode, Parameter, plain};

use super::search::{self, SearchArgs};
use super::value::{self, choice, count, seconds, seconds_above_zero};
use crate::config::ConfigError;
use crate::config::aiperf::{Number, Varied, varied};

/// Maximum number of repeated values that are named.
const MAX_NAMED: usize = 5;

/// Maximum number of cells, each of which is parsed before the first run.
pub(super) const MAX_CELLS: usize = 1000;

/// Maximum length of a directory's name in bytes.
const MAX_NAME: usize = 255;

/// Names in the directory of a sweep that are not those of cells.
const RESERVED: &[&str] = &["aggregate", "sweep_aggregate", "profile_runs", "logs"];

/// Flags that are the same in all cells, in addition to those about several runs.
const COMMON: &[&str] = &[
    "apply-chat-template",
    "artifact-dir",
    "config",
    "html",
    "junit",
    "overwrite",
    "profile-export-prefix",
    "tokenizer",
    "tokenizer-revision",
    "ui",
];

/// Returns the value of `text` in the files, which is the text itself if it cannot be parsed.
fn in_files(number: Number, text: &str) -> Value {
    let value = match number {
        Number::Whole => {
            count(text).map(Value::from).or_else(|_| value::number(text).map(Value::from))
        }
        Number::Real => value::number(text).map(Value::from),
        Number::Seconds => seconds(text).map(Value::from),
    };
    value.unwrap_or_else(|_| text.trim().into())
}

/// A value of `--sweep-type`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Combination {
    #[default]
    Grid,
    Zip,
}

named! { Combination { "grid" => Grid, "zip" => Zip } }

/// What to vary from run to run.
#[derive(Args)]
#[command(next_help_heading = "Sweep", group = ArgGroup::new("of_sweep").multiple(true))]
pub(super) struct SweepArgs {
    /// How several lists such as --concurrency 1,2,4 are combined: every combination (grid) or
    /// element by element (zip) [default: grid]
    #[arg(long, value_name = "TYPE", value_parser = choice::<Combination>(), group = "of_sweep")]
    pub(super) sweep_type: Option<Combination>,
    /// Sweep over increasing concurrencies or request rates until throughput no longer grows, and
    /// find the load at which it stops
    #[arg(long, groups = ["of_sweep", "varies_loads"], conflicts_with = "search_recipe")]
    pub(super) sweep_auto: bool,
    /// Pairs of mean input and output lengths to sweep: 128:64,512:128
    #[arg(long, value_name = "ISL:OSL,...")]
    pub(super) isl_osl_pairs: Option<String>,
    /// Scenario to sweep, given at least twice: 'name: flag=value, flag=value', where the name with
    /// its colon may be omitted
    #[arg(long, visible_alias = "sweep-variant", value_name = "SCENARIO", action = ArgAction::Append)]
    pub(super) variant: Vec<String>,
    /// Order of the runs of a sweep: all cells for each trial (repeated), or all trials of each
    /// cell (independent) [default: repeated]
    #[arg(long, value_name = "MODE", value_parser = choice::<Mode>(), group = "of_sweep")]
    pub(super) parameter_sweep_mode: Option<Mode>,
    /// Pause between cells, in seconds [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, group = "of_sweep")]
    pub(super) parameter_sweep_cooldown_seconds: Option<f64>,
    /// Send the same prompts at the same times in each cell
    #[arg(long, overrides_with = "no_parameter_sweep_same_seed", group = "of_sweep")]
    pub(super) parameter_sweep_same_seed: bool,
    /// Send other prompts at other times in each cell (the default)
    #[arg(long, overrides_with = "parameter_sweep_same_seed")]
    pub(super) no_parameter_sweep_same_seed: bool,
    /// Time after which no further run of a sweep or a search starts, in seconds
    #[arg(long, visible_alias = "search-max-duration", value_name = "SECONDS", value_parser = seconds_above_zero, group = "of_sweep")]
    pub(super) sweep_max_duration: Option<f64>,
    /// Do not print the table of the cells
    #[arg(long)]
    pub(super) no_sweep_table: bool,
    /// Continue the interrupted sweep in the artifact directory: keep its finished runs, and
    /// perform the others
    #[arg(long, conflicts_with = "overwrite", group = "of_sweep")]
    pub(super) resume: bool,
}

/// The cells of a command line.
pub(super) struct Sweep {
    parameters: Vec<Parameter>,
    has_scenarios: bool,
    /// The arguments without what is swept.
    common: Vec<OsString>,
    /// Each cell with its flags.
    cells: Vec<(Variation, Vec<String>)>,
    /// A note on values that are given twice.
    pub(super) note: Option<String>,
}

/// A cell that is being parsed.
#[derive(Clone, Copy)]
pub(super) struct CellOf<'a> {
    pub(super) index: u64,
    pub(super) parameters: &'a [Parameter],
    /// Whether it has a name of its own.
    pub(super) is_scenario: bool,
    /// The settings of the sweep, if its cells are chosen from results.
    pub(super) chosen: Option<&'a Config>,
}

/// Settings that are varied together.
struct Axis {
    /// The flag for messages.
    flag: &'static str,
    parameters: Vec<(&'static str, &'static str)>,
    /// The values of all parameters, as text and as in the files.
    values: Vec<Vec<(String, Value)>>,
}

/// The values of a cell, one of each axis.
type Combined<'a> = Vec<&'a [(String, Value)]>;

impl Sweep {
    /// The sweep that `arguments` ask for; `None` if they contain neither lists nor scenarios.
    pub(super) fn from_arguments(
        arguments: &[OsString],
        command: &Command,
    ) -> Result<Option<Self>, ConfigError> {
        let Some(profile) = command.find_subcommand("profile") else { return Ok(None) };
        if arguments.get(1).is_none_or(|name| name != "profile") {
            return Ok(None);
        }
        let mut common = arguments.to_vec();
        let axes = axes(&mut common, profile)?;
        let scenarios = take(&mut common, profile, "variant", |_| true);
        match (axes.first(), scenarios.len()) {
            (None, 0) => Ok(None),
            (Some(first), 0) => {
                let is_zip = take(&mut common.clone(), profile, "sweep-type", |_| true)
                    .first()
                    .and_then(|text| Combination::named(text))
                    == Some(Combination::Zip);
                let combinations = if is_zip { zipped(&axes)? } else { grid(&axes, first.flag)? };
                Self::of_axes(common, &axes, combinations).map(Some)
            }
            (None, 1) => {
                let why = "a single scenario is not a sweep; give at least two, or its flags \
                           themselves";
                Err(ConfigError::flag("--variant", why))
            }
            (None, _) => Self::of_scenarios(common, &scenarios, profile).map(Some),
            (Some(first), _) => {
                let why = format!("cannot be combined with a list ({}); remove one", first.flag);
                Err(ConfigError::flag("--variant", why))
            }
        }
    }

    /// The cells with these combinations of values, one for each axis.
    fn of_axes(
        common: Vec<OsString>,
        axes: &[Axis],
        combinations: Vec<Combined<'_>>,
    ) -> Result<Self, ConfigError> {
        let flags: Vec<_> = axes.iter().flat_map(|axis| &axis.parameters).collect();
        let parameters = flags.iter().map(|(flag, path)| parameter(flag, path)).collect();
        let config = Config { parameters, ..Config::default() };
        let (combinations, note) = each_once(combinations);
        let cell = |(index, combination): (u64, Combined<'_>)| {
            let values: Vec<_> = combination.into_iter().flatten().collect();
            let flags =
                flags.iter().zip(&values).map(|((flag, _), (text, _))| format!("--{flag}={text}"));
            let in_files: Vec<Value> = values.iter().map(|(_, value)| value.clone()).collect();
            (config.cell(index, &in_files), flags.collect())
        };
        let cells = (0..).zip(combinations).map(cell).collect();
        let flag = axes.first().map_or("--concurrency", |axis| axis.flag);
        let Config { parameters, .. } = config;
        Self { parameters, has_scenarios: false, common, cells, note }.checked(flag)
    }

    /// The cells of `--variant`.
    fn of_scenarios(
        mut common: Vec<OsString>,
        scenarios: &[String],
        profile: &Command,
    ) -> Result<Self, ConfigError> {
        let refuse = |why: String| ConfigError::flag("--variant", why);
        let mut parameters: Vec<Parameter> = Vec::new();
        let mut cells = Vec::new();
        let mut has_scenarios = false;
        for (index, text) in (0..).zip(scenarios) {
            let (name, settings) = value::scenario(text).ok_or_else(|| {
                refuse(format!(
                    "scenario {text:?} is not of the form 'name: flag=value, flag=value'"
                ))
            })?;
            has_scenarios |= name.is_some();
            let name = name.unwrap_or_else(|| format!("v{index}"));
            let (mut flags, mut values) = (Vec::new(), Map::new());
            for (key, value) in settings {
                let flag = varied_flag(&key, profile).map_err(refuse)?;
                let text = plain(&value);
                let given = format!("--{}={text}", flag.name);
                if redact::command_line(&["", &given]).contains(redact::REDACTED) {
                    let why = format!("--{} has a secret; give it outside of --variant", flag.name);
                    return Err(refuse(why));
                }
                let known = varied().iter().find(|it| it.flag == flag.name);
                let path =
                    known.map_or_else(|| flag.name.replace('-', "_"), |known| known.path.clone());
                let value = known.map_or(value, |known| in_files(known.number, &text));
                values.insert(path.clone(), value);
                let parameter = parameter(&flag.name, &path);
                if !parameters.contains(&parameter) {
                    parameters.push(parameter);
                }
                if flag.is_switch {
                    let name = format!("--{}", flag.name);
                    let is_this_flag = |argument: &OsString| {
                        argument.to_str().is_some_and(|it| it.split('=').next() == Some(&name))
                    };
                    common.retain(|argument| !is_this_flag(argument));
                }
                flags.push(given);
            }
            cells.push((Variation::named(index, &name, values), flags));
        }
        Self { parameters, has_scenarios, common, cells, note: None }.checked("--variant")
    }

    /// Checks that each cell has its own directory.
    fn checked(self, flag: &str) -> Result<Self, ConfigError> {
        for (index, (cell, _)) in self.cells.iter().enumerate() {
            let name = cell.directory();
            let is_taken = self.cells[..index].iter().any(|(other, _)| other.directory() == name);
            let why = match name {
                _ if is_taken => "names two cells; each must have its own values or name",
                "" => "does not name a directory; choose another name",
                _ if RESERVED.contains(&name) || name.starts_with(['.', '-']) => {
                    "is not available as the name of a cell; choose another name"
                }
                _ if name.len() > MAX_NAME => {
                    "is too long for the name of a directory; use fewer settings"
                }
                _ => continue,
            };
            return Err(ConfigError::flag(flag, format!("{:?} {why}", cell.label())));
        }
        Ok(self)
    }

    /// The arguments of each cell.
    pub(super) fn cells(&self) -> impl Iterator<Item = (&Variation, CellOf<'_>, Vec<OsString>)> {
        (0..).zip(&self.cells).map(|(index, (variation, flags))| {
            let flags = flags.iter().map(OsString::from);
            let arguments = self.common.iter().cloned().chain(flags).collect();
            let Self { parameters, has_scenarios: is_scenario, .. } = self;
            let cell = CellOf { index, parameters, is_scenario: *is_scenario, chosen: None };
            (variation, cell, arguments)
        })
    }
}

pub(super) fn parameter(flag: &str, path: &str) -> Parameter {
    Parameter { name: flag.replace('-', "_"), path: path.to_owned() }
}

/// Returns the setting that `name` denotes, if a sweep can vary it: a flag, or a path in AIPerf's
/// files.
pub(super) fn swept(name: &str) -> Result<&'static Varied, String> {
    let wanted = name.trim_start_matches('-').replace('-', "_");
    let is_of_flag = |Varied { flag, path, .. }: &&Varied| {
        let names = [path.as_str(), path.trim_end_matches(".mean")];
        flag.replace('-', "_") == wanted
            || names.contains(&&*wanted)
            || path.strip_prefix("phases.profiling.") == Some(&*wanted)
            || wanted.strip_prefix("phases.profiling.") == Some(&*flag.replace('-', "_"))
    };
    varied().iter().find(is_of_flag).ok_or_else(|| {
        let flags: Vec<&str> = varied().iter().map(|it| it.flag).collect();
        format!("{name:?} cannot be varied; use one of {}", flags.join(", "))
    })
}

/// A flag that a scenario sets.
struct VariedFlag {
    name: String,
    is_switch: bool,
}

/// The flag with the name or alias `key`, written with dashes or underscores.
fn varied_flag(key: &str, profile: &Command) -> Result<VariedFlag, String> {
    let wanted = key.trim().trim_start_matches('-').replace('_', "-");
    let has_long = |argument: &&clap::Arg| {
        argument
            .get_long_and_visible_aliases()
            .is_some_and(|names| names.contains(&wanted.as_str()))
    };
    let argument = profile
        .get_arguments()
        .find(has_long)
        .ok_or_else(|| format!("{key:?} is not a flag of aiperf profile"))?;
    let name = argument.get_long().unwrap_or_default();
    let is_of_group = |group: &str| {
        let group = profile.get_groups().find(|it| it.get_id() == group);
        group.is_some_and(|group| group.get_args().any(|id| id == argument.get_id()))
    };
    if COMMON.contains(&name)
        || ["MultiRunArgs", "SearchArgs", "SweepArgs"].iter().any(|it| is_of_group(it))
    {
        return Err(format!("--{name} is the same in all cells; give it outside of --variant"));
    }
    let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
    Ok(VariedFlag { name: name.to_owned(), is_switch })
}

/// Returns whether a value is a list. Commas also separate the parameters of a distribution.
fn is_list(value: &str) -> bool {
    value.contains(',') && !value.contains('=')
}

/// Takes the lists out of `arguments`; in the order of the paths.
fn axes(arguments: &mut Vec<OsString>, profile: &Command) -> Result<Vec<Axis>, ConfigError> {
    let mut axes = Vec::new();
    for Varied { flag: name, path, number } in varied() {
        let lists = take(arguments, profile, name, is_list);
        let flag = format!("--{name}");
        let [list] = lists.as_slice() else {
            if lists.is_empty() {
                continue;
            }
            return Err(ConfigError::flag(flag, "has two lists; give one"));
        };
        let value = |text: &str| vec![(text.to_owned(), in_files(*number, text))];
        let values = list.split(',').map(|text| value(text.trim())).collect();
        axes.push(Axis { flag: name, parameters: vec![(name, path.as_str())], values });
    }
    if let Some(list) = take(arguments, profile, "isl-osl-pairs", |_| true).pop() {
        let flag = "--isl-osl-pairs";
        let is_given = |name| !take(&mut arguments.clone(), profile, name, |_| true).is_empty();
        let is_swept = axes.iter().any(|axis: &Axis| ["isl", "osl"].contains(&axis.flag));
        if is_swept || is_given("isl") || is_given("osl") {
            return Err(ConfigError::flag(flag, "sets --isl and --osl; remove these"));
        }
        axes.push(Axis {
            flag: "isl-osl-pairs",
            ..pairs(&list).ok_or_else(|| {
                ConfigError::flag(
                    flag,
                    format!("{list:?} is not a list of pairs such as 128:64,512:128"),
                )
            })?
        });
    }
    let is_given = |name: &str| !take(&mut arguments.clone(), profile, name, |_| true).is_empty();
    let first = |name: &str| take(&mut arguments.clone(), profile, name, |_| true).pop();
    let has_pairs = axes.iter().any(|axis| axis.flag == "isl-osl-pairs");
    for (flag, numbers) in search::lists(has_pairs, first)? {
        if axes.iter().any(|axis| axis.flag == flag) {
            continue;
        }
        if is_given(flag) {
            let why = "--search-recipe sets it; give a list of values, or remove the flag";
            return Err(ConfigError::flag(format!("--{flag}"), why));
        }
        if has_pairs && ["isl", "osl"].contains(&flag) {
            let why = format!("--search-recipe sets --{flag}; remove one of the two");
            return Err(ConfigError::flag("--isl-osl-pairs", why));
        }
        let known = varied().iter().filter(|it| it.flag == flag);
        axes.extend(known.map(|known| Axis {
            flag: known.flag,
            parameters: vec![(known.flag, known.path.as_str())],
            values: numbers.iter().map(|it| vec![(it.to_string(), (*it).into())]).collect(),
        }));
    }
    axes.sort_by_key(|axis| axis.parameters[0].1);
    Ok(axes)
}

/// Parses pairs of input and output lengths, separated by `:`, or by `/` as in AIPerf.
fn pairs(list: &str) -> Option<Axis> {
    let varied_flag = |name: &str| varied().iter().find(|it| it.flag == name);
    let (isl, osl) = (varied_flag("isl")?, varied_flag("osl")?);
    let parameters = vec![(isl.flag, isl.path.as_str()), (osl.flag, osl.path.as_str())];
    let values = list.split(',').map(|pair| {
        let (input, output) = pair.split_once([':', '/'])?;
        let value = |of: &Varied, text: &str| (text.trim().to_owned(), in_files(of.number, text));
        Some(vec![value(isl, input), value(osl, output)])
    });
    Some(Axis { flag: "isl-osl-pairs", parameters, values: values.collect::<Option<_>>()? })
}

/// Every combination, the last axis varying fastest.
fn grid<'a>(axes: &'a [Axis], flag: &str) -> Result<Vec<Combined<'a>>, ConfigError> {
    let cells = axes.iter().try_fold(1_usize, |cells, axis| cells.checked_mul(axis.values.len()));
    let Some(cells) = cells.filter(|cells| *cells <= MAX_CELLS) else {
        let why = format!("the sweep has more than {MAX_CELLS} cells; use shorter lists");
        return Err(ConfigError::flag(format!("--{flag}"), why));
    };
    let mut combinations = Vec::with_capacity(cells);
    combinations.push(Vec::new());
    for axis in axes {
        combinations = combinations
            .iter()
            .flat_map(|begun| {
                axis.values.iter().map(move |values| {
                    let mut combination: Combined<'_> = Vec::clone(begun);
                    combination.push(values);
                    combination
                })
            })
            .collect();
    }
    Ok(combinations)
}

/// The combinations without those that are equal to an earlier one, and a note on these.
fn each_once(combinations: Vec<Combined<'_>>) -> (Vec<Combined<'_>>, Option<String>) {
    let mut seen = HashSet::new();
    let (mut kept, mut repeated) = (Vec::new(), Vec::new());
    for combination in combinations {
        let values: Vec<&Value> = combination.iter().copied().flatten().map(|(_, it)| it).collect();
        if seen.insert(values.iter().map(ToString::to_string).collect::<Vec<_>>()) {
            kept.push(combination);
        } else {
            repeated.push(values.into_iter().map(plain).collect::<Vec<_>>().join(":"));
        }
    }
    let first: Vec<&str> = repeated.iter().take(MAX_NAMED).map(String::as_str).collect();
    let note = (!repeated.is_empty()).then(|| {
        let more = if repeated.len() > MAX_NAMED { " and others" } else { "" };
        format!("values of the sweep that are given twice are run once: {}{more}", first.join(", "))
    });
    (kept, note)
}

/// The first values of all axes, the second ones, and so on.
fn zipped(axes: &[Axis]) -> Result<Vec<Combined<'_>>, ConfigError> {
    let length = axes.first().map_or(0, |axis| axis.values.len());
    if axes.iter().any(|axis| axis.values.len() != length) || length > MAX_CELLS {
        let lengths: Vec<String> =
            axes.iter().map(|axis| format!("--{} has {}", axis.flag, axis.values.len())).collect();
        let why = format!(
            "zip requires lists of the same length, at most {MAX_CELLS}; {}",
            lengths.join(", ")
        );
        return Err(ConfigError::flag("--sweep-type", why));
    }
    Ok((0..length).map(|at| axes.iter().map(|axis| axis.values[at].as_slice()).collect()).collect())
}

/// The flags that set what `--search-space` varies to its lower bounds.
pub(super) fn lower_bounds(
    arguments: &[OsString],
    command: &Command,
) -> Result<Vec<OsString>, ConfigError> {
    let Some(profile) = command.find_subcommand("profile") else { return Ok(Vec::new()) };
    let mut rest = arguments.to_vec();
    let ranges = take(&mut rest, profile, "search-space", |_| true);
    let mut flags: Vec<OsString> = Vec::new();
    // What cannot be parsed is an error of the flag itself.
    for variable in ranges.iter().filter_map(|text| search::variable(text).ok()) {
        if !take(&mut rest, profile, variable.flag, |_| true).is_empty() {
            let why = "--search-space varies it; remove one of the two";
            return Err(ConfigError::flag(format!("--{}", variable.flag), why));
        }
        let flag = format!("--{}={}", variable.flag, variable.range.json(variable.range.lo));
        if !flags.contains(&OsString::from(&flag)) {
            flags.push(flag.into());
        }
    }
    Ok(flags)
}

/// Removes the flag with the long name `name`, or one of its aliases, and returns the values for
/// which `is_wanted` is true.
fn take(
    arguments: &mut Vec<OsString>,
    profile: &Command,
    name: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<String> {
    let flag = profile.get_arguments().find(|argument| argument.get_long() == Some(name));
    let names = flag.and_then(clap::Arg::get_long_and_visible_aliases).unwrap_or_default();
    let mut found = Vec::new();
    let mut at = 2;
    while let Some(text) = arguments.get(at).and_then(|argument| argument.to_str()) {
        let (given, inline) = match text.split_once('=') {
            Some((given, value)) => (given, Some(value)),
            None => (text, None),
        };
        let is_it = given.strip_prefix("--").is_some_and(|given| names.contains(&given));
        let next = arguments.get(at + 1).and_then(|next| next.to_str());
        let value = inline.or(next).filter(|value| is_it && is_wanted(value));
        if let Some(value) = value {
            found.push(value.to_owned());
            arguments.drain(at..=at + usize::from(inline.is_none()));
        } else {
            at += 1;
        }
    }
    found
}

/// The settings of the sweep over these parameters.
pub(super) fn config(
    given: &SweepArgs,
    search: &SearchArgs,
    parameters: &[Parameter],
    has_scenarios: bool,
) -> Result<Config, ConfigError> {
    Ok(Config {
        parameters: parameters.to_vec(),
        has_scenarios,
        mode: given.parameter_sweep_mode.unwrap_or_default(),
        cooldown: given.parameter_sweep_cooldown_seconds.map_or(Nanos::ZERO, Nanos::from_seconds),
        same_seed: given.parameter_sweep_same_seed,
        max_duration: given.sweep_max_duration.map(Nanos::from_seconds),
        shows_table: !given.no_sweep_table,
        resumes: given.resume,
        filters: search::filters(search),
        choice: Choice::Known,
        evaluation: search::evaluation(search)?,
    })
}

/// The settings of a sweep that chooses its loads.
pub(super) fn chosen(
    given: &SweepArgs,
    search: &SearchArgs,
    choice: Choice,
) -> Result<Config, ConfigError> {
    if given.parameter_sweep_mode == Some(Mode::Repeated) {
        let why = "a cell is chosen once those before it are complete; use independent";
        return Err(ConfigError::flag("--parameter-sweep-mode", why));
    }
    if given.sweep_type.is_some() {
        let why = "combines lists of values, but none are given; remove the flag";
        return Err(ConfigError::flag("--sweep-type", why));
    }
    let parameters: Vec<Parameter> = if let Some(range) = choice.range() {
        let path = range.dimension.path();
        let known = varied().iter().filter(|it| it.path == path);
        known.map(|known| parameter(known.flag, &known.path)).collect()
    } else {
        search.search_space.iter().map(|variable| variable.parameter.clone()).collect()
    };
    let common = config(given, search, &parameters, false)?;
    Ok(Config { mode: Mode::Independent, choice, ..common })
}

#[cfg(test)]
mod tests;
