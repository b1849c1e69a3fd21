//! AIPerf's own configuration files: each setting as a flag.
//!
//! A file is brought into one form first: names in snake case, one dataset, and the phases `warmup`
//! and `profiling`, or else a list of phases, each of which may have a dataset of its own. Each value is
//! then looked up by its path among the settings. What is not one of them is rejected, so that no setting
//! is lost.

mod cells;
mod phases;
mod sweep;
mod templates;
mod values;

use self::phases::{Phase, is_list, phases_in_order, share, typed};
use self::templates::Renderer;
pub(crate) use self::values::{coerced, is_off, scalar};
use self::values::{json, members, name_of, pairs, records, seconds, snake, snake_name};

use serde_norway::{Mapping, Value};

use client::endpoint::dialect::template::{PAYLOAD_TEMPLATE, RESPONSE_FIELD};

use super::datasets::{self, Dataset};
use super::mixture::{self, Lengths};
use super::schema::{
    self,
    Rule::{self, Flag, Implied, Json, Normal, Only, Pairs, Ramp, Records, Refused, Switch, Time},
};

/// A flag of aiperf, or one of AIPerf's that aiperf rejects, and the path and value in the file.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) flag: &'static str,
    pub(crate) path: String,
    pub(crate) value: Value,
}

/// Settings of `benchmark` that older files have at their top.
const AT_TOP: [&str; 15] = [
    "accuracy",
    "artifacts",
    "dataset",
    "datasets",
    "endpoint",
    "gpu_telemetry",
    "logging",
    "metrics",
    "model",
    "models",
    "phases",
    "runtime",
    "server_metrics",
    "slos",
    "tokenizer",
];

/// Settings at the top that only AIPerf's files have, older ones or not.
pub(crate) const OF_AIPERF: [&str; 8] =
    ["artifacts", "benchmark", "dataset", "datasets", "models", "phases", "schema_version", "slos"];

/// Returns whether a file has AIPerf's schema.
pub(crate) fn is_of_aiperf(document: &Mapping) -> bool {
    let is_telling = |key: &str| OF_AIPERF.contains(&snake_name(key).as_str());
    document.keys().filter_map(Value::as_str).any(is_telling)
}

/// Maps a file with AIPerf's schema, in whose values variables of the environment are replaced already.
pub(crate) fn mapped(document: Mapping) -> Result<Vec<Mapped>, String> {
    let mut document = enveloped(document)?;
    let cells = cells::taken(&mut document)?;
    let mut renderer = Renderer::default();
    let mut file = read(renderer.document(document.clone())?)?;
    if let Some(cells) = cells {
        cells::added(&mut file, &document, cells, &mut renderer)?;
    }
    Ok(file.found)
}

/// Brings the settings that older files have at their top into `benchmark`, unless it has them.
fn enveloped(mut document: Mapping) -> Result<Mapping, String> {
    let is_inside =
        |key: &Value| key.as_str().is_some_and(|key| AT_TOP.contains(&&*snake_name(key)));
    let (inside, rest): (Mapping, Mapping) =
        document.into_iter().partition(|(key, _)| is_inside(key));
    document = rest;
    if inside.is_empty() {
        return Ok(document);
    }
    let mut benchmark = members(document.remove("benchmark"), "benchmark")?;
    for (key, value) in inside {
        benchmark.entry(key).or_insert(value);
    }
    document.insert("benchmark".into(), Value::Mapping(benchmark));
    Ok(document)
}

/// Reads a file without templates.
fn read(document: Mapping) -> Result<File, String> {
    let mut document = snake(Value::Mapping(document))?;
    let benchmark = document.remove("benchmark");
    let sweep = document.remove("sweep");
    let plot = document.remove("plot");
    let mixes = [&benchmark, &sweep].into_iter().flatten().any(mixture::is_in);
    let mut file = File { lengths: mixes.then(Lengths::default), ..File::default() };
    let phases = file.normalize(members(benchmark, "benchmark")?)?;
    for (key, value) in phases.into_iter().chain(document) {
        file.add(&name_of(&key)?, value)?;
    }
    if let Some(sweep) = sweep.filter(|sweep| !sweep.is_null()) {
        file.sweep(members(Some(sweep), "sweep")?)?;
    }
    file.plot(plot.as_ref())?;
    file.drop_ramps();
    Ok(file)
}

/// What was read of a file.
#[derive(Default)]
struct File {
    found: Vec<Mapped>,
    /// The type of the profiling phase.
    load: String,
    /// Whether what is read replaces what was read before.
    replaces: bool,
    /// The lengths, if any in the file is a mixture.
    lengths: Option<Lengths>,
    /// The datasets, if there are several.
    datasets: Vec<Dataset>,
}

impl File {
    /// Brings `benchmark` into the form whose paths the settings have.
    fn normalize(&mut self, mut benchmark: Mapping) -> Result<Mapping, String> {
        let put = |key: &str, value: Value, of: &mut Mapping| {
            of.insert(key.into(), value);
        };
        if let Some(models) = benchmark.remove("models") {
            let Models { strategy, names, weights } = models_of(models)?;
            put("model", names, &mut benchmark);
            let strategy = strategy.map(|strategy| ("strategy".into(), strategy));
            let weights = weights.map(|weights| ("weights".into(), weights));
            let models: Mapping = strategy.into_iter().chain(weights).collect();
            put("models", Value::Mapping(models), &mut benchmark);
        }
        let mut only = None;
        if let Some(datasets) = benchmark.remove("datasets") {
            let mut datasets = datasets::all(datasets)?;
            if datasets.len() == 1 {
                let Dataset { name, settings } = datasets.remove(0);
                only = name;
                put("dataset", Value::Mapping(settings), &mut benchmark);
            } else {
                self.have(datasets)?;
            }
        }
        if let Some(Value::Mapping(dataset)) = benchmark.get_mut("dataset") {
            let mut lengths = self.lengths.take();
            self.dataset(dataset, &mut lengths)?;
            self.lengths = lengths;
        }
        if let Some(phases) = phases_in_order(&mut benchmark, !self.datasets.is_empty())? {
            let other =
                |phase: &&Phase| only.is_some() && phase.dataset.is_some() && phase.dataset != only;
            if let Some(Phase { name, dataset, .. }) = phases.iter().find(other) {
                let only = Dataset { name: only, settings: Mapping::new() };
                let phase = name.as_deref().unwrap_or("profiling");
                datasets::named(&[only], phase, dataset.as_deref())?;
            }
            if is_list(&phases) || !self.datasets.is_empty() {
                let texts: Result<Vec<Value>, String> =
                    phases.into_iter().map(|phase| self.listed(phase).map(Value::String)).collect();
                self.put("phase", "phases", Value::Sequence(texts?))?;
            } else {
                for Phase { is_warmup, settings, .. } in phases {
                    let key = if is_warmup { "warmup" } else { "profiling" };
                    put(key, Value::Mapping(settings), &mut benchmark);
                }
            }
        } else if !self.datasets.is_empty() {
            return Err("datasets: several datasets need phases that name one of them".to_owned());
        }
        share(&mut benchmark);
        for key in ["warmup", "profiling"] {
            if let Some(Value::Mapping(phase)) = benchmark.get_mut(key) {
                let load = phase.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
                typed(phase, &load, key)?;
                if key == "profiling" {
                    self.load = load;
                }
            }
        }
        if let Some(Value::Mapping(artifacts)) = benchmark.get_mut("artifacts") {
            let has_records = artifacts.get("records") != Some(&Value::Bool(false));
            let is_raw = artifacts.get("raw").is_some_and(|raw| !is_off(raw));
            if is_raw {
                put("export_level", "raw".into(), artifacts);
            } else if !has_records {
                artifacts.remove("records");
                put("export_level", "summary".into(), artifacts);
            }
        }
        if let Some(Value::Mapping(endpoint)) = benchmark.get_mut("endpoint") {
            for key in ["reset_kv_cache", "server_profiler"] {
                switched(endpoint, key);
            }
            template(endpoint);
        }
        if let Some(Value::Mapping(otel)) = benchmark.get_mut("otel") {
            streams(otel)?;
        }
        if let Some(Value::Mapping(latency)) = benchmark.get_mut("network_latency") {
            let is_on = latency.get("enabled").is_none_or(|enabled| !is_off(enabled));
            let is_given = latency.get("mean_ms").is_some_and(|mean| !mean.is_null());
            if !is_on {
                latency.clear();
            } else if is_given {
                latency.retain(|key, _| key.as_str() == Some("mean_ms"));
            }
        }
        for key in ["server_metrics", "gpu_telemetry"] {
            if let Some(value) = benchmark.get_mut(key)
                && !value.is_mapping()
            {
                let urls = std::mem::take(value);
                *value = Value::Mapping([("urls".into(), urls)].into_iter().collect());
            }
        }
        Ok(benchmark)
    }

    /// Brings a dataset into the form whose paths the settings have. Its `lengths` become one flag if any is a
    /// mixture.
    fn dataset(
        &mut self,
        dataset: &mut Mapping,
        lengths: &mut Option<Lengths>,
    ) -> Result<(), String> {
        if let Some(Value::Mapping(prompts)) = dataset.get_mut("prompts") {
            without_zeros(prompts);
        }
        if dataset.contains_key("hf_weka_dataset") {
            // AIPerf's name for every repository of that kind.
            dataset.remove("dataset");
        }
        match lengths.as_mut().map(|lengths| lengths.take_from(dataset)).transpose()?.flatten() {
            Some(text) => self.put("seq-dist", "dataset.prompts.isl", Value::String(text)),
            None => Ok(()),
        }
    }

    /// Takes several datasets, from which phases choose, and the flags that these have in common.
    fn have(&mut self, datasets: Vec<Dataset>) -> Result<(), String> {
        let common = |dataset: &Dataset| {
            let found = of_dataset(dataset)?;
            let is_common = |mapped: &Mapped| datasets::COMMON.contains(&mapped.flag);
            Ok::<_, String>(found.into_iter().filter(is_common).collect::<Vec<_>>())
        };
        let all = datasets.iter().map(common).collect::<Result<Vec<_>, _>>()?;
        for Mapped { flag, path, value } in all.iter().flatten() {
            let has_it =
                |of: &Vec<Mapped>| of.iter().any(|it| it.flag == *flag && it.value == *value);
            if !all.iter().all(has_it) {
                return Err(format!(
                    "{path}: all phases of a run have the same value, so that all datasets must have it"
                ));
            }
            if !self.found.iter().any(|mapped| mapped.flag == *flag) {
                self.put(flag, path, value.clone())?;
            }
        }
        self.datasets = datasets;
        Ok(())
    }

    /// Returns one of several phases as a value of `--phase`.
    fn listed(&mut self, phase: Phase) -> Result<String, String> {
        let Phase { name, is_warmup, dataset, mut settings } = phase;
        let name = name.ok_or("phases: each of several phases needs a name")?;
        let excludes = settings.remove("exclude_from_results");
        let seamless = settings.remove("seamless").is_some_and(|value| !is_off(&value));
        let is_warmup = is_warmup || excludes.is_some_and(|value| !is_off(&value));
        let load = settings.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        typed(&mut settings, &load, &format!("phases.{name}"))?;
        let mut file = Self::default();
        for (key, value) in settings {
            file.add(&format!("profiling.{}", name_of(&key)?), value)?;
        }
        file.drop_ramps();
        if !self.datasets.is_empty() {
            let dataset = datasets::named(&self.datasets, &name, dataset.as_deref())?;
            let own = of_dataset(dataset)?.into_iter();
            file.found.extend(own.filter(|it| !datasets::COMMON.contains(&it.flag)));
        }
        let mut texts = Vec::new();
        for Mapped { flag, path, value } in file.found {
            // There is one dataset, whose timestamps all phases use alike.
            if flag.starts_with("fixed-schedule-") {
                if !self.found.iter().any(|own| own.flag == flag && own.value == value) {
                    self.put(flag, &path, value)?;
                }
                continue;
            }
            let values = match value {
                Value::Sequence(values) if flag == "adaptive-scale-sla" => values,
                value => vec![value],
            };
            for value in values {
                let text = scalar(&value)
                    .ok_or_else(|| format!("phases.{name}: {path} must be a single value"))?;
                texts.push(format!("{flag}={}", datasets::quoted(&text)));
            }
        }
        texts.extend(seamless.then(|| "seamless=true".to_owned()));
        texts.extend(is_warmup.then(|| "kind=warmup".to_owned()));
        Ok(format!("{name}: {}", texts.join(", ")))
    }

    /// Draws charts if the file describes some: aiperf's own, not those of the description.
    fn plot(&mut self, plot: Option<&Value>) -> Result<(), String> {
        let is_asked = plot.is_some_and(|plot| !plot.is_null() && !is_off(plot));
        if is_asked && !self.found.iter().any(|mapped| mapped.flag == "auto-plot") {
            self.put("auto-plot", "plot", Value::Bool(true))?;
        }
        Ok(())
    }

    /// Removes ramps of a limit that no phase has, which AIPerf ignores.
    fn drop_ramps(&mut self) {
        for (limit, ramp) in [
            ("prefill-concurrency", "prefill-concurrency-ramp-duration"),
            ("warmup-prefill-concurrency", "warmup-prefill-concurrency-ramp-duration"),
        ] {
            let sets_limit = |mapped: &Mapped| {
                // A warmup has the limit of the measurement.
                let is_limit = [limit, "prefill-concurrency"].contains(&mapped.flag);
                let is_varied = |text: &str| text.contains("prefill-concurrency=");
                let of_scenario = mapped.value.as_sequence().into_iter().flatten();
                is_limit || of_scenario.filter_map(Value::as_str).any(is_varied)
            };
            if !self.found.iter().any(sets_limit) {
                self.found.retain(|mapped| mapped.flag != ramp);
            }
        }
    }

    /// Adds the flags of the value at `path`.
    fn add(&mut self, path: &str, value: Value) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        if let Some(rule) = schema::rule(path) {
            return self.apply(path, rule, value);
        }
        match value {
            Value::Mapping(members) if schema::is_group(path) => {
                members.into_iter().try_for_each(|(key, value)| {
                    self.add(&format!("{path}.{}", name_of(&key)?), value)
                })
            }
            _ => Err(format!("aiperf does not support {path} of AIPerf's files; remove it")),
        }
    }

    fn apply(&mut self, path: &str, rule: Rule, value: Value) -> Result<(), String> {
        let (flag, read) = match rule {
            Flag(flag) => (flag, Ok(value)),
            Json(flag) => (flag, json(value).ok_or("a number, or numbers by name")),
            Time(flag) | Ramp(flag) => {
                (flag, seconds(value).ok_or("seconds, or a time such as 30s, 5m or 2h"))
            }
            Records(flag) => (flag, records(&value).ok_or("a list of requests")),
            Pairs(flag) => (flag, pairs(&value).ok_or("a list of isl, osl and probability")),
            Switch(on, off) => match (scalar(&value).as_deref(), on) {
                (Some("true"), None) => return Ok(()),
                (Some("true"), Some(on)) => (on, Ok(true.into())),
                (Some("false"), _) => (off, Ok(true.into())),
                _ => (off, Err("true or false")),
            },
            Normal(mean, stddev) => return self.distribution(path, mean, stddev, value),
            Implied => return Ok(()),
            Only(accepted) => return only(path, accepted, &value),
            Refused(_) if is_off(&value) => return Ok(()),
            Refused(why) => {
                return Err(format!("aiperf does not support {path} of AIPerf's files: {why}"));
            }
        };
        let value = read.map_err(|expected| format!("{path}: expected {expected}"))?;
        self.put(flag, path, value)
    }

    /// Adds the flags of a fixed value, or of a mean and a standard deviation.
    fn distribution(
        &mut self,
        path: &str,
        mean: &'static str,
        stddev: Option<&'static str>,
        value: Value,
    ) -> Result<(), String> {
        let Value::Mapping(parts) = value else { return self.put(mean, path, value) };
        for (key, value) in parts {
            let key = name_of(&key)?;
            match (key.as_str(), stddev) {
                ("mean" | "value", _) => self.put(mean, path, value)?,
                ("stddev", Some(stddev)) => self.put(stddev, path, value)?,
                ("type", _) if ["normal", "fixed"].contains(&value.as_str().unwrap_or("")) => {}
                _ => {
                    return Err(format!(
                        "aiperf does not support {path}.{key} of AIPerf's files; use a fixed value, \
                         or mean and stddev"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Adds a flag. The parameters of a sweep replace the value that the file has for all cells.
    fn put(&mut self, flag: &'static str, path: &str, value: Value) -> Result<(), String> {
        let mapped = Mapped { flag, path: path.to_owned(), value };
        match self.found.iter_mut().find(|other| other.flag == flag) {
            Some(other) if self.replaces => *other = mapped,
            Some(other) => {
                return Err(format!("{} and {path} are the same; remove one of them", other.path));
            }
            None => self.found.push(mapped),
        }
        Ok(())
    }
}

/// Checks that the value at `path` is one of those that are `accepted`.
fn only(path: &str, accepted: &[&str], value: &Value) -> Result<(), String> {
    let texts = match value {
        Value::Sequence(items) => items.iter().map(scalar).collect(),
        value => scalar(value).map(|text| vec![text]),
    };
    if accepted.contains(&texts.unwrap_or_default().join(",").as_str()) {
        return Ok(());
    }
    Err(format!(
        "aiperf does not support this value of {path} of AIPerf's files; it must be {}",
        accepted[0]
    ))
}

/// Returns the flags of one of several datasets.
fn of_dataset(dataset: &Dataset) -> Result<Vec<Mapped>, String> {
    let mut settings = dataset.settings.clone();
    let is_mixed = mixture::is_in(&Value::Mapping(settings.clone()));
    let mut file = File::default();
    file.dataset(&mut settings, &mut is_mixed.then(Lengths::default))?;
    file.add("dataset", Value::Mapping(settings))?;
    Ok(file.found)
}

/// Removes standard deviations of zero from lengths that are drawn from ranges, which exclude them.
fn without_zeros(prompts: &mut Mapping) {
    if !prompts.contains_key("random_range_ratio") {
        return;
    }
    for key in ["isl", "osl"] {
        if let Some(Value::Mapping(length)) = prompts.get_mut(key)
            && length.get("stddev").and_then(Value::as_f64) == Some(0.0)
        {
            length.remove("stddev");
        }
    }
}

/// Moves the template of an endpoint to the fields of bodies, which aiperf has it in.
fn template(endpoint: &mut Mapping) {
    let Some(Value::Mapping(mut template)) = endpoint.remove("template") else { return };
    let extra = endpoint.entry("extra".into()).or_insert_with(|| Value::Mapping(Mapping::new()));
    if let Value::Mapping(extra) = extra {
        for (of_aiperf, name) in [("body", PAYLOAD_TEMPLATE), ("response_field", RESPONSE_FIELD)] {
            if let Some(value) = template.remove(of_aiperf) {
                extra.insert(name.into(), value);
            }
        }
    }
    if !template.is_empty() {
        endpoint.insert("template".into(), Value::Mapping(template));
    }
}

/// Brings the switches of exported streams into a list, unless both are on.
fn streams(otel: &mut Mapping) -> Result<(), String> {
    let is_on = |name: &str| otel.get(name).is_none_or(|value| !is_off(value));
    let on = [("metrics", "stream_metrics_enabled"), ("timing", "stream_timing_enabled")]
        .into_iter()
        .filter(|(_, name)| is_on(name))
        .map(|(stream, _)| Value::from(stream));
    let on: Vec<Value> = on.collect();
    match on.len() {
        0 => Err("otel: no stream is enabled; remove metrics_url to export nothing".to_owned()),
        1 => {
            otel.insert("streams".into(), Value::Sequence(on));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Brings a setting that may be a switch or a mapping into a mapping with `enabled`.
fn switched(settings: &mut Mapping, key: &str) {
    match settings.get_mut(key) {
        None | Some(Value::Null) => {}
        Some(Value::Mapping(members)) => {
            members.insert("enabled".into(), true.into());
        }
        Some(value) => {
            let is_on = std::mem::take(value);
            *value = Value::Mapping([("enabled".into(), is_on)].into_iter().collect());
        }
    }
}

/// The models of a file.
struct Models {
    strategy: Option<Value>,
    names: Value,
    /// A list, if the models have weights.
    weights: Option<Value>,
}

/// Returns the models, which are a list, or a strategy and a list.
fn models_of(models: Value) -> Result<Models, String> {
    let (strategy, items) = match models {
        Value::Mapping(mut models) => {
            (models.remove("strategy"), models.remove("items").unwrap_or_default())
        }
        items => (None, items),
    };
    let Value::Sequence(items) = items else {
        return Ok(Models { strategy, names: items, weights: None });
    };
    let (mut names, mut weights) = (Vec::new(), Vec::new());
    for item in items {
        let Value::Mapping(mut item) = item else {
            names.push(item);
            continue;
        };
        names.push(item.remove("name").ok_or("models: an item does not have a name")?);
        weights.extend(item.remove("weight").filter(|weight| !weight.is_null()));
        if let Some((key, _)) = item.into_iter().next() {
            let key = name_of(&key)?;
            return Err(format!("aiperf does not support models.items.{key} of AIPerf's files"));
        }
    }
    let weights = (!weights.is_empty()).then_some(Value::Sequence(weights));
    Ok(Models { strategy, names: Value::Sequence(names), weights })
}
